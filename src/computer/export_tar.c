/* export_tar.c - a workspace as a tar file in pax format. */
#include "base/mem.h"
#include "base/text.h"
#include "computer/port_i.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define ZEROS 65536

struct tar {
	struct port port;
	struct archive *archive;
	struct archive_entry *entry;
	int64_t written; /* of the current file */
	struct span path;
};

static int tar_fail(struct tar *tar, struct span path)
{
	int code = archive_errno(tar->archive);
	const char *why = archive_error_string(tar->archive);

	if (code > 0 && code < 4096 && code != EIO)
		return port_fail(&tar->port, -code, "cannot write", path);
	return err_set(tar->port.err, EIO, "cannot write the tar file: %.150s",
		       why ? why : "unknown reason");
}

static int64_t seconds(int64_t ns)
{
	return ns / 1000000000 - (ns % 1000000000 < 0);
}

static long nanoseconds(int64_t ns)
{
	return (long)(ns % 1000000000 < 0 ? ns % 1000000000 + 1000000000 : ns % 1000000000);
}

/* libarchive wants to know what it is given: Unicode, or bytes. */
static void set_name(struct archive_entry *entry, const char *name,
		     void (*utf8)(struct archive_entry *, const char *),
		     void (*bytes)(struct archive_entry *, const char *))
{
	(text_is_utf8(span_str(name)) ? utf8 : bytes)(entry, name);
}

static int add_xattr(void *arg, struct span name, struct span value)
{
	const struct tar *tar = arg;

	archive_entry_xattr_add_entry(tar->entry, name.data, value.data, value.len);
	return 0;
}

static int write_zeros(struct tar *tar, int64_t until)
{
	static const char zeros[ZEROS];

	while (tar->written < until) {
		int64_t left = until - tar->written;
		la_ssize_t n = archive_write_data(tar->archive, zeros,
						  left < ZEROS ? (size_t)left : ZEROS);

		if (n <= 0)
			return tar_fail(tar, tar->path);
		tar->written += n;
	}
	return 0;
}

static int write_bytes(void *arg, struct span bytes, int64_t offset)
{
	struct tar *tar = arg;
	int r = write_zeros(tar, offset);

	/* The header said how long the file is: one that grew meanwhile is cut. */
	while (r == 0 && bytes.len) {
		la_ssize_t n = archive_write_data(tar->archive, bytes.data, bytes.len);

		if (n < 0)
			return tar_fail(tar, tar->path);
		if (n == 0)
			break;
		tar->written += n;
		bytes = span_of(bytes.data + n, bytes.len - (size_t)n);
	}
	return r;
}

static void fill_entry(struct tar *tar, const struct export_entry *from, const char *path)
{
	const struct sys_stat *stat = from->stat;
	struct archive_entry *entry = tar->entry;
	bool keep = tar->port.options->owner;

	archive_entry_clear(entry);
	set_name(entry, path, archive_entry_set_pathname_utf8, archive_entry_set_pathname);
	archive_entry_set_mode(entry, stat->mode);
	archive_entry_set_uid(entry, keep ? stat->uid : geteuid());
	archive_entry_set_gid(entry, keep ? stat->gid : getegid());
	archive_entry_set_size(entry, S_ISREG(stat->mode) ? stat->size : 0);
	archive_entry_set_mtime(entry, seconds(stat->mtime), nanoseconds(stat->mtime));
	if (S_ISCHR(stat->mode) || S_ISBLK(stat->mode))
		archive_entry_set_rdev(entry, stat->rdev);
}

/* A link's target, or the first name of a file that was written already. */
static int fill_link(struct tar *tar, const struct export_entry *from, bool *ret_again)
{
	CLEANUP(buf_clear) struct buf target = BUF_INIT(SYS_PATH_MAX);
	const char *first = NULL;
	int r;

	if (S_ISLNK(from->stat->mode)) {
		r = sys_readlink(tar->port.sys, from->dir, from->name, &target);
		if (r < 0)
			return port_fail(&tar->port, r, "cannot read the link", from->path);
		set_name(tar->entry, target.data, archive_entry_set_symlink_utf8,
			 archive_entry_set_symlink);
		return 0;
	}
	if (!S_ISDIR(from->stat->mode) && from->stat->nlink > 1)
		first = port_link(&tar->port, 0, from->stat->ino, from->path);
	if (!first)
		return 0;
	set_name(tar->entry, first, archive_entry_set_hardlink_utf8, archive_entry_set_hardlink);
	archive_entry_set_size(tar->entry, 0);
	*ret_again = true;
	return 0;
}

static int write_entry(void *arg, const struct export_entry *from)
{
	struct tar *tar = arg;
	CLEANUP(mem_free) char *path = NULL;
	bool again = false;
	int r;

	if (!from->path.len)
		return 0; /* the folder that everything is in */
	if (S_ISSOCK(from->stat->mode)) {
		tar->port.result.skipped++;
		return 0;
	}
	path = mem_alloc0(from->path.len + 1);
	memcpy(path, from->path.data, from->path.len);
	fill_entry(tar, from, path);
	r = fill_link(tar, from, &again);
	if (r == 0 && !again)
		r = export_xattrs(&tar->port, from, add_xattr, tar);
	if (r < 0)
		return r;
	if (archive_write_header(tar->archive, tar->entry) < ARCHIVE_WARN)
		return tar_fail(tar, from->path);
	if (S_ISREG(from->stat->mode) && !again) {
		tar->written = 0;
		tar->path = from->path;
		r = export_content(&tar->port, from, write_bytes, tar);
		if (r == 0)
			r = write_zeros(tar, from->stat->size);
	}
	return r < 0 ? r : port_done(&tar->port, from->path, (uint64_t)tar->written);
}

static void tar_clear(struct tar *tar)
{
	archive_entry_free(tar->entry);
	archive_write_free(tar->archive);
	port_clear(&tar->port);
}

static int tar_open(struct tar *tar, int fd, const char *filter)
{
	tar->archive = archive_write_new();
	tar->entry = archive_entry_new();
	if (!tar->archive || !tar->entry)
		abort();
	archive_write_set_format_pax(tar->archive);
	if (filter && archive_write_add_filter_by_name(tar->archive, filter) < ARCHIVE_WARN)
		return err_set(tar->port.err, EINVAL,
			       "no filter '%s': gzip, zstd, xz and bzip2 are known", filter);
	archive_write_set_bytes_in_last_block(tar->archive, 1);
	if (archive_write_open_fd(tar->archive, fd) != ARCHIVE_OK)
		return tar_fail(tar, SPAN_EMPTY);
	return 0;
}

int computer_export_tar(struct computer *computer, int fd, const char *filter,
			const struct port_options *options, struct port_result *ret_result,
			struct err *err)
{
	CLEANUP(tar_clear) struct tar tar = {0};
	locale_t locale, old;
	int r;

	port_init(&tar.port, computer, options, err);
	locale = port_locale_begin(&old);
	r = tar_open(&tar, fd, filter);
	if (r == 0)
		r = export_walk(&tar.port, write_entry, NULL, &tar);
	if (r == 0 && archive_write_close(tar.archive) != ARCHIVE_OK)
		r = tar_fail(&tar, SPAN_EMPTY);
	port_locale_end(locale, old);
	if (r == 0)
		*ret_result = tar.port.result;
	return r;
}
