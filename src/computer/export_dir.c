/* export_dir.c - a workspace as files of the host. */
#include "base/fd.h"
#include "base/mem.h"
#include "computer/port_i.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

struct out {
	struct port port;
	int root;
	int fd; /* of the file being written */
	struct span path;
	int dirs[PORT_DEPTH_MAX + 2]; /* the directories entered, by depth */
	int depth;
};

static int out_fail(struct out *out, const char *what, struct span path)
{
	return port_fail(&out->port, -errno, what, path);
}

/* Name, with a NUL, as the host takes it. */
static int host_name(const struct export_entry *entry, char ret_name[SYS_NAME_MAX + 1])
{
	if (entry->name.len > SYS_NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(ret_name, entry->name.data, entry->name.len);
	ret_name[entry->name.len] = '\0';
	return 0;
}

static int write_bytes(void *arg, struct span bytes, int64_t offset)
{
	struct out *out = arg;
	int r = fd_pwrite_all(out->fd, bytes.data, bytes.len, offset);

	return r < 0 ? port_fail(&out->port, r, "cannot write", out->path) : 0;
}

/* Attributes the host does not take are left out: tmpfs and others have no room for them. */
static int put_xattr(void *arg, struct span name, struct span value)
{
	const struct out *out = arg;

	(void)!fsetxattr(out->fd, name.data, value.data, value.len, 0);
	return 0;
}

static struct timespec time_of(int64_t ns)
{
	struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	if (time.tv_nsec < 0) {
		time.tv_sec--;
		time.tv_nsec += 1000000000;
	}
	return time;
}

/* Owner, mode and times; the owner first, because changing it drops setuid. */
static int finish(struct out *out, int fd, const struct export_entry *entry)
{
	const struct sys_stat *stat = entry->stat;
	const struct timespec times[2] = {time_of(stat->atime), time_of(stat->mtime)};
	/* What runs as its owner would run as us. */
	uint32_t mode = stat->mode & (out->port.options->owner ? 07777 : 01777);

	if (out->port.options->owner && fchown(fd, stat->uid, stat->gid) < 0)
		return out_fail(out, "cannot give to its owner", entry->path);
	if (fchmod(fd, mode) < 0 || futimens(fd, times) < 0)
		return out_fail(out, "cannot set the mode of", entry->path);
	return 0;
}

static int put_file(struct out *out, const struct export_entry *entry, const char *name)
{
	CLEANUP(fd_close) int fd = -1;
	int r;

	fd = openat(out->dirs[out->depth], name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return out_fail(out, "cannot create", entry->path);
	out->fd = fd;
	out->path = entry->path;
	r = export_content(&out->port, entry, write_bytes, out);
	if (r == 0 && ftruncate(fd, entry->stat->size) < 0)
		r = out_fail(out, "cannot write", entry->path);
	if (r == 0)
		r = export_xattrs(&out->port, entry, put_xattr, out);
	return r == 0 ? finish(out, fd, entry) : r;
}

static int put_symlink(struct out *out, const struct export_entry *entry, const char *name)
{
	CLEANUP(buf_clear) struct buf target = BUF_INIT(SYS_PATH_MAX);
	const struct timespec times[2] = {time_of(entry->stat->atime), time_of(entry->stat->mtime)};
	int dir = out->dirs[out->depth];
	int r = sys_readlink(out->port.sys, entry->dir, entry->name, &target);

	if (r < 0)
		return port_fail(&out->port, r, "cannot read the link", entry->path);
	if (symlinkat(target.data, dir, name) < 0)
		return out_fail(out, "cannot create the link", entry->path);
	if (out->port.options->owner &&
	    fchownat(dir, name, entry->stat->uid, entry->stat->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return out_fail(out, "cannot give to its owner", entry->path);
	(void)!utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

static int put_special(struct out *out, const struct export_entry *entry, const char *name)
{
	if (mknodat(out->dirs[out->depth], name, entry->stat->mode, entry->stat->rdev) < 0)
		return out_fail(out, "cannot create", entry->path);
	return 0;
}

static int enter_dir(struct out *out, const struct export_entry *entry, const char *name)
{
	int dir = out->dirs[out->depth], fd;

	if (mkdirat(dir, name, 0700) < 0)
		return out_fail(out, "cannot create the folder", entry->path);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return out_fail(out, "cannot open the folder", entry->path);
	out->dirs[++out->depth] = fd;
	return 0;
}

/* 1: it is another name of a file that is there already, and was linked. */
static int put_link(struct out *out, const struct export_entry *entry, const char *name)
{
	const char *first;

	if (entry->stat->nlink < 2)
		return 0;
	first = port_link(&out->port, 0, entry->stat->ino, entry->path);
	if (!first)
		return 0;
	if (linkat(out->root, first, out->dirs[out->depth], name, 0) < 0)
		return out_fail(out, "cannot link", entry->path);
	return 1;
}

static int put_entry(void *arg, const struct export_entry *entry)
{
	struct out *out = arg;
	char name[SYS_NAME_MAX + 1];
	uint32_t mode = entry->stat->mode;
	uint64_t bytes = 0;
	int r;

	if (!entry->path.len)
		return 0;
	if (S_ISSOCK(mode) || ((S_ISCHR(mode) || S_ISBLK(mode)) && geteuid() != 0)) {
		out->port.result.skipped++;
		return 0;
	}
	r = host_name(entry, name);
	if (r == 0 && S_ISDIR(mode)) {
		r = enter_dir(out, entry, name);
		return r < 0 ? r : port_done(&out->port, entry->path, 0);
	}
	if (r == 0)
		r = put_link(out, entry, name);
	if (r == 0) {
		if (S_ISREG(mode))
			r = put_file(out, entry, name);
		else if (S_ISLNK(mode))
			r = put_symlink(out, entry, name);
		else
			r = put_special(out, entry, name);
		bytes = S_ISREG(mode) ? (uint64_t)entry->stat->size : 0;
	}
	return r < 0 ? r : port_done(&out->port, entry->path, bytes);
}

static int leave_dir(void *arg, const struct export_entry *entry)
{
	struct out *out = arg;
	CLEANUP(fd_close) int fd = -1;
	int r;

	if (!entry->path.len)
		return 0;
	fd = out->dirs[out->depth--];
	out->fd = fd;
	r = export_xattrs(&out->port, entry, put_xattr, out);
	return r < 0 ? r : finish(out, fd, entry);
}

static bool is_empty(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;
	bool empty = true;

	if (!dir) {
		fd_close(&copy);
		return false;
	}
	while (empty && (entry = readdir(dir)))
		empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
	closedir(dir);
	return empty;
}

static void out_clear(struct out *out)
{
	while (out->depth > 0)
		fd_close(&out->dirs[out->depth--]);
	fd_close(&out->root);
	port_clear(&out->port);
}

int computer_export_dir(struct computer *computer, const char *dir,
			const struct port_options *options, struct port_result *ret_result,
			struct err *err)
{
	CLEANUP(out_clear) struct out out = {.root = -1};
	int r;

	port_init(&out.port, computer, options, err);
	if (mkdir(dir, 0777) < 0 && errno != EEXIST)
		return err_set(err, errno, "cannot make the folder '%s': %s", dir, strerror(errno));
	out.root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (out.root < 0)
		return err_set(err, errno, "cannot open the folder '%s': %s", dir, strerror(errno));
	if (!is_empty(out.root))
		return err_set(err, ENOTEMPTY, "the folder '%s' is not empty", dir);
	out.dirs[0] = out.root;
	r = export_walk(&out.port, put_entry, leave_dir, &out);
	if (r == 0)
		*ret_result = out.port.result;
	return r;
}
