/* import_tar.c - an archive into the workspace: whatever libarchive reads. */
#include "base/mem.h"
#include "computer/port_i.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK (1 << 16)

struct tar {
	struct import import;
	struct archive *archive;
};

static int tar_fail(struct tar *tar)
{
	const char *why = archive_error_string(tar->archive);
	int code = archive_errno(tar->archive);

	/* Codes of libarchive's own are negative. */
	return err_set(tar->import.port.err, code > 0 && code < 4096 ? code : EINVAL,
		       "cannot read the archive: %.180s", why ? why : "unknown reason");
}

/* A header that is damaged is "retry" to libarchive: it would look for the next one. */
static bool is_bad(int status)
{
	return status != ARCHIVE_OK && status != ARCHIVE_WARN;
}

static struct span first_of(const char *bytes, const char *utf8)
{
	const char *text = bytes ? bytes : utf8;

	return text ? span_str(text) : SPAN_EMPTY;
}

static int put_regular(struct tar *tar, const struct import_file *file, struct archive_entry *entry)
{
	struct import *import = &tar->import;
	int64_t size = archive_entry_size(entry), end = 0;
	bool known = archive_entry_size_is_set(entry);
	const void *block;
	size_t len;
	la_int64_t offset;
	int fd, r = 0, status;

	if (known && size <= PORT_SMALL) {
		CLEANUP(mem_free) char *bytes = mem_alloc0(PORT_SMALL);
		la_ssize_t n = archive_read_data(tar->archive, bytes, (size_t)size);

		return n < 0 ? tar_fail(tar)
			     : import_small(import, file, span_of(bytes, (size_t)n));
	}
	fd = import_open(import, file);
	if (fd < 0)
		return fd;
	while (r == 0) {
		status = archive_read_data_block(tar->archive, &block, &len, &offset);
		if (status == ARCHIVE_EOF)
			break;
		if (is_bad(status))
			r = tar_fail(tar);
		else
			r = import_write(import, fd, file->path, span_of(block, len), offset);
		if (offset + (int64_t)len > end)
			end = offset + (int64_t)len;
	}
	if (r < 0) {
		(void)sys_close(import->port.sys, fd);
		return r;
	}
	return import_finish(import, fd, file, known ? size : end);
}

static int put_xattrs(struct tar *tar, struct span path, struct archive_entry *entry)
{
	const char *name;
	const void *value;
	size_t len;
	int r = 0;

	archive_entry_xattr_reset(entry);
	while (r == 0 && archive_entry_xattr_next(entry, &name, &value, &len) == ARCHIVE_OK)
		if (strncmp(name, "user.", 5) == 0)
			r = import_xattr(&tar->import, path, span_str(name), span_of(value, len));
	return r;
}

static int put_hardlink(struct tar *tar, struct span path, struct archive_entry *entry)
{
	CLEANUP(buf_clear) struct buf to = BUF_INIT(SYS_PATH_MAX);
	int r = import_clean(
		&tar->import,
		first_of(archive_entry_hardlink(entry), archive_entry_hardlink_utf8(entry)), &to);

	return r < 0 ? r : import_link(&tar->import, path, span_of(to.data, to.len));
}

static int put_entry(struct tar *tar, struct archive_entry *entry)
{
	CLEANUP(buf_clear) struct buf path = BUF_INIT(SYS_PATH_MAX);
	struct import *import = &tar->import;
	struct import_file file = {
		.mode = archive_entry_mode(entry),
		.uid = archive_entry_uid(entry),
		.gid = archive_entry_gid(entry),
		.rdev = archive_entry_rdev(entry),
		.mtime = SYS_OMIT,
	};
	int r = import_clean(
		import, first_of(archive_entry_pathname(entry), archive_entry_pathname_utf8(entry)),
		&path);

	if (r < 0)
		return r;
	file.path = span_of(path.data, path.len);
	if (archive_entry_mtime_is_set(entry) &&
	    __builtin_mul_overflow(archive_entry_mtime(entry), INT64_C(1000000000), &file.mtime))
		file.mtime = SYS_OMIT;
	else if (archive_entry_mtime_is_set(entry))
		file.mtime += archive_entry_mtime_nsec(entry);
	if (archive_entry_hardlink(entry) || archive_entry_hardlink_utf8(entry))
		return put_hardlink(tar, file.path, entry);
	if (S_ISDIR(file.mode)) {
		r = import_dir(import, &file);
	} else if (!path.len) {
		return 0;
	} else if (S_ISREG(file.mode)) {
		r = put_regular(tar, &file, entry);
	} else if (S_ISLNK(file.mode)) {
		return import_symlink(
			import, &file,
			first_of(archive_entry_symlink(entry), archive_entry_symlink_utf8(entry)));
	} else if (S_ISFIFO(file.mode) || S_ISCHR(file.mode) || S_ISBLK(file.mode)) {
		r = import_special(import, &file);
	} else {
		import->port.result.skipped++;
		return 0;
	}
	return r < 0 ? r : put_xattrs(tar, file.path, entry);
}

static int put_all(struct tar *tar)
{
	struct archive_entry *entry;
	int r = 0, status;

	while (r == 0) {
		status = archive_read_next_header(tar->archive, &entry);
		if (status == ARCHIVE_EOF)
			break;
		r = is_bad(status) ? tar_fail(tar) : put_entry(tar, entry);
	}
	return r;
}

static void tar_clear(struct tar *tar)
{
	archive_read_free(tar->archive);
	import_clear(&tar->import);
}

int computer_import_tar(struct computer *computer, int fd, const struct port_options *options,
			struct port_result *ret_result, struct err *err)
{
	CLEANUP(tar_clear) struct tar tar = {0};
	locale_t locale, old;
	int r;

	import_init(&tar.import, computer, options, err);
	locale = port_locale_begin(&old);
	tar.archive = archive_read_new();
	if (!tar.archive)
		abort();
	archive_read_support_filter_all(tar.archive);
	archive_read_support_format_all(tar.archive);
	r = tar.import.failure;
	if (r == 0 && archive_read_open_fd(tar.archive, fd, BLOCK) != ARCHIVE_OK)
		r = tar_fail(&tar);
	if (r == 0)
		r = put_all(&tar);
	if (r == 0)
		r = import_end(&tar.import, computer, "tar");
	port_locale_end(locale, old);
	if (r == 0)
		*ret_result = tar.import.port.result;
	return r;
}
