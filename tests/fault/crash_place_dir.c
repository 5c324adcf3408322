/* crash_place_dir.c - files of a directory of this machine. */
#include "crash.h"

#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct dir_place {
	struct place place;
	int fd;
};

static int at(const struct place *place)
{
	return ((const struct dir_place *)place)->fd;
}

static int sys(int r)
{
	return r < 0 ? -errno : 0;
}

static int dir_sync(struct place *place, const char *directory)
{
	int fd = openat(at(place), directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : sys(fsync(fd));

	fd_close(&fd);
	return r;
}

static int write_at(struct place *place, const char *name, int flags, const void *bytes, size_t len,
		    int64_t offset, bool durable)
{
	int fd = openat(at(place), name, flags | O_WRONLY | O_CLOEXEC, 0644);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_pwrite_all(fd, bytes, len, offset);
	if (r == 0 && durable)
		r = sys(len % 16 ? fsync(fd) : fdatasync(fd));
	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}

static int dir_replace(struct place *place, const char *name, const void *bytes, size_t len,
		       bool durable)
{
	char temp[64];
	int r;

	snprintf(temp, sizeof(temp), "%s.tmp", name);
	r = write_at(place, temp, O_CREAT | O_TRUNC, bytes, len, 0, durable);
	if (r == 0)
		r = sys(renameat(at(place), temp, at(place), name));
	if (r == 0 && durable)
		r = dir_sync(place, ".");
	return r;
}

static int dir_patch(struct place *place, const char *name, const void *bytes, size_t len,
		     int64_t offset, bool durable)
{
	return write_at(place, name, 0, bytes, len, offset, durable);
}

static int dir_truncate(struct place *place, const char *name, int64_t size)
{
	int fd = openat(at(place), name, O_WRONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : sys(ftruncate(fd, size));

	fd_close(&fd);
	return r;
}

static int dir_mkfile(struct place *place, const char *name, uint32_t mode)
{
	return sys(mknodat(at(place), name, S_IFREG | mode, 0));
}

static int dir_mkdir(struct place *place, const char *name, uint32_t mode)
{
	return sys(mkdirat(at(place), name, mode));
}

static int dir_rename(struct place *place, const char *from, const char *to)
{
	return sys(renameat(at(place), from, at(place), to));
}

static int dir_link(struct place *place, const char *from, const char *to)
{
	return sys(linkat(at(place), from, at(place), to, 0));
}

static int dir_chmod(struct place *place, const char *name, uint32_t mode)
{
	return sys(fchmodat(at(place), name, mode, 0));
}

static int dir_remove(struct place *place, const char *name, bool directory)
{
	return sys(unlinkat(at(place), name, directory ? AT_REMOVEDIR : 0));
}

static int dir_read(struct place *place, const char *name, struct buf *content)
{
	int fd = openat(at(place), name, O_RDONLY | O_CLOEXEC);
	char bytes[65536];
	ssize_t n;
	int r = 0;

	if (fd < 0)
		return -errno;
	while (r == 0 && (n = read(fd, bytes, sizeof(bytes))) != 0)
		r = n < 0 ? -errno : buf_add(content, bytes, (size_t)n);
	close(fd);
	return r;
}

static int dir_list(struct place *place, const char *directory,
		    void (*fn)(void *arg, const struct place_entry *entry), void *arg)
{
	int fd = openat(at(place), directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *e;
	struct stat st;
	DIR *dir;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.' &&
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			fn(arg,
			   &(struct place_entry){e->d_name, st.st_mode, (uint32_t)st.st_nlink});
	closedir(dir);
	return 0;
}

static void dir_free(struct place *place)
{
	close(at(place));
	free(place);
}

static const struct place_ops dir_ops = {
	.replace = dir_replace,
	.patch = dir_patch,
	.truncate = dir_truncate,
	.mkfile = dir_mkfile,
	.mkdir = dir_mkdir,
	.rename = dir_rename,
	.link = dir_link,
	.chmod = dir_chmod,
	.remove = dir_remove,
	.sync = dir_sync,
	.read = dir_read,
	.list = dir_list,
	.free = dir_free,
};

struct place *place_dir_new(const char *dir)
{
	struct dir_place *p = mem_alloc0(sizeof(*p));

	umask(0); /* modes tell objects apart */
	p->place.ops = &dir_ops;
	p->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->fd < 0) {
		free(p);
		return NULL;
	}
	return &p->place;
}
