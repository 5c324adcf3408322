/* import_dir.c - a folder of the host into the workspace. Links are imported, not followed. */
#include "base/fd.h"
#include "base/mem.h"
#include "computer/port_i.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

struct in {
	struct import import;
	struct buf path;
};

static int in_fail(struct in *in, const char *what)
{
	return port_fail(&in->import.port, -errno, what, span_of(in->path.data, in->path.len));
}

static struct import_file file_of(const struct in *in, const struct stat *st)
{
	return (struct import_file){
		.path = span_of(in->path.data, in->path.len),
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.rdev = st->st_rdev,
		.mtime = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
	};
}

static int put_xattrs(struct in *in, int fd, struct span path)
{
	CLEANUP(mem_free) char *names = mem_alloc(SYS_XATTR_MAX);
	CLEANUP(mem_free) char *value = NULL;
	ssize_t len = flistxattr(fd, names, SYS_XATTR_MAX);
	int r = 0;

	for (ssize_t pos = 0; pos < len && r == 0;) {
		struct span name = span_str(names + pos);
		ssize_t n;

		pos += (ssize_t)name.len + 1;
		if (strncmp(name.data, "user.", 5) != 0)
			continue;
		value = value ? value : mem_alloc(SYS_XATTR_MAX);
		n = fgetxattr(fd, name.data, value, SYS_XATTR_MAX);
		if (n >= 0)
			r = import_xattr(&in->import, path, name, span_of(value, (size_t)n));
	}
	return r;
}

/* Content from a descriptor; holes stay holes. */
static int put_large(struct in *in, int from, const struct import_file *file, int64_t size)
{
	CLEANUP(mem_free) char *bytes = mem_alloc(SYS_IO_MAX);
	struct import *import = &in->import;
	int64_t offset = 0;
	int fd = import_open(import, file), r = 0;

	if (fd < 0)
		return fd;
	while (r == 0 && offset < size) {
		int64_t next = lseek(from, offset, SEEK_DATA);
		ssize_t n;

		if (next < 0 && errno == ENXIO)
			break;
		offset = next > offset ? next : offset;
		n = fd_pread_full(from, bytes, SYS_IO_MAX, offset);
		if (n < 0)
			r = port_fail(&import->port, (int)n, "cannot read", file->path);
		if (n <= 0)
			break;
		r = import_write(import, fd, file->path, span_of(bytes, (size_t)n), offset);
		offset += n;
	}
	if (r < 0) {
		(void)sys_close(import->port.sys, fd);
		return r;
	}
	return import_finish(import, fd, file, size > offset ? size : offset);
}

static int put_regular(struct in *in, int dir, const char *name, const struct stat *st)
{
	const struct import_file file = file_of(in, st);
	CLEANUP(fd_close) int fd = -1;
	CLEANUP(mem_free) char *bytes = NULL;
	ssize_t n;
	int r;

	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return in_fail(in, "cannot read");
	if (st->st_size > PORT_SMALL) {
		r = put_large(in, fd, &file, st->st_size);
	} else {
		bytes = mem_alloc(PORT_SMALL);
		n = fd_pread_full(fd, bytes, PORT_SMALL, 0);
		if (n < 0)
			return port_fail(&in->import.port, (int)n, "cannot read", file.path);
		r = import_small(&in->import, &file, span_of(bytes, (size_t)n));
	}
	return r < 0 ? r : put_xattrs(in, fd, file.path);
}

static int put_symlink(struct in *in, int dir, const char *name, const struct stat *st)
{
	const struct import_file file = file_of(in, st);
	char target[SYS_PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));

	if (n < 0)
		return in_fail(in, "cannot read the link");
	return import_symlink(&in->import, &file, span_of(target, (size_t)n));
}

static int put_folder(struct in *in, int fd, int depth);

static int put_dir(struct in *in, int dir, const char *name, const struct stat *st, int depth)
{
	const struct import_file file = file_of(in, st);
	CLEANUP(fd_close) int fd = -1;
	int r;

	if (depth > PORT_DEPTH_MAX)
		return port_fail(&in->import.port, -ELOOP, "too many folders in each other at",
				 file.path);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return in_fail(in, "cannot open");
	r = import_dir(&in->import, &file);
	if (r == 0)
		r = put_xattrs(in, fd, file.path);
	return r < 0 ? r : put_folder(in, fd, depth);
}

static int put_entry(struct in *in, int dir, const char *name, int depth)
{
	struct import *import = &in->import;
	const char *first;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : in_fail(in, "cannot look at");
	if (S_ISDIR(st.st_mode))
		return put_dir(in, dir, name, &st, depth);
	if (S_ISSOCK(st.st_mode)) {
		import->port.result.skipped++;
		return 0;
	}
	first = st.st_nlink > 1 ? port_link(&import->port, st.st_dev, (int64_t)st.st_ino,
					    span_of(in->path.data, in->path.len))
				: NULL;
	if (first)
		return import_link(import, span_of(in->path.data, in->path.len), span_str(first));
	if (S_ISREG(st.st_mode))
		return put_regular(in, dir, name, &st);
	if (S_ISLNK(st.st_mode))
		return put_symlink(in, dir, name, &st);
	return import_special(import, &(struct import_file){
					      .path = span_of(in->path.data, in->path.len),
					      .mode = st.st_mode,
					      .rdev = st.st_rdev,
					      .uid = st.st_uid,
					      .gid = st.st_gid,
				      });
}

static int put_child(struct in *in, int dir, const char *name, int depth)
{
	size_t before = in->path.len;
	int r = before ? buf_add(&in->path, "/", 1) : 0;

	if (r == 0)
		r = buf_add(&in->path, name, strlen(name));
	if (r < 0)
		return port_fail(&in->import.port, -ENAMETOOLONG, "cannot import", span_str(name));
	r = put_entry(in, dir, name, depth + 1);
	in->path.len = before;
	if (in->path.cap)
		in->path.data[before] = '\0';
	return r;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int no_dots(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int put_folder(struct in *in, int fd, int depth)
{
	struct dirent **entries;
	int count = scandirat(fd, ".", &entries, no_dots, by_name), r = 0;

	if (count < 0)
		return in_fail(in, "cannot list");
	for (int i = 0; i < count; i++) {
		if (r == 0)
			r = put_child(in, fd, entries[i]->d_name, depth);
		free(entries[i]);
	}
	free(entries);
	return r;
}

static void in_clear(struct in *in)
{
	buf_clear(&in->path);
	import_clear(&in->import);
}

int computer_import_dir(struct computer *computer, const char *dir,
			const struct port_options *options, struct port_result *ret_result,
			struct err *err)
{
	CLEANUP(in_clear) struct in in = {.path = BUF_INIT(SYS_PATH_MAX)};
	CLEANUP(fd_close) int fd = -1;
	int r;

	import_init(&in.import, computer, options, err);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "cannot open the folder '%s': %s", dir, strerror(errno));
	r = in.import.failure;
	if (r == 0)
		r = put_folder(&in, fd, 0);
	if (r == 0)
		r = import_end(&in.import, computer, dir);
	if (r == 0)
		*ret_result = in.import.port.result;
	return r;
}
