/* files.c - the library's calls on files, over the same calls everybody uses. */
#include "base/mem.h"
#include "computer/computer_i.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define DEPTH_MAX 2048

_Static_assert(sizeof(struct sys_stat) == sizeof(struct computer_stat), "same shape");
_Static_assert(offsetof(struct sys_stat, btime) == offsetof(struct computer_stat, btime),
	       "same shape");

int computer_stat(struct computer *computer, const char *path, bool follow,
		  struct computer_stat *ret_stat)
{
	struct sys_stat stat;
	int r = sys_stat(&computer->sys, SYS_CWD, span_str(path), follow ? 0 : AT_SYMLINK_NOFOLLOW,
			 &stat);

	if (r == 0)
		memcpy(ret_stat, &stat, sizeof(*ret_stat));
	return r;
}

int computer_read_file(struct computer *computer, const char *path, size_t max, void **ret_bytes,
		       size_t *ret_len)
{
	CLEANUP(buf_clear) struct buf content = BUF_INIT(max);
	struct sys_stat stat;
	ssize_t n;

	for (;;) {
		size_t left = max - content.len;

		/* One more than may be there, to see whether it is. */
		n = sys_readfile(&computer->sys, SYS_CWD, span_str(path), (int64_t)content.len,
				 left < SYS_IO_MAX ? left + 1 : SYS_IO_MAX, &stat, &content);
		if (n < 0)
			return (int)n;
		if (n == 0 || (int64_t)content.len >= stat.size)
			break;
	}
	*ret_bytes = buf_take(&content, ret_len);
	return 0;
}

/* A name beside `path` that nobody has. */
static void temporary_name(const char *path, char ret_name[SYS_PATH_MAX + 64])
{
	const char *slash = strrchr(path, '/');
	uint64_t random = 0;

	(void)!getrandom(&random, sizeof(random), 0);
	snprintf(ret_name, SYS_PATH_MAX + 64, "%.*s.computer-%016llx",
		 slash ? (int)(slash - path) + 1 : 0, path, (unsigned long long)random);
}

static int write_all(struct sys *sys, int fd, const char *bytes, size_t len)
{
	while (len) {
		size_t piece = len < SYS_IO_MAX ? len : SYS_IO_MAX;
		ssize_t n = sys_write(sys, fd, span_of(bytes, piece), -1);

		if (n < 0)
			return (int)n;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

/* More than one call can carry: beside it, then in its place. */
static int write_large(struct computer *computer, const char *path, const void *bytes, size_t len,
		       uint32_t mode)
{
	char temporary[SYS_PATH_MAX + 64];
	struct sys *sys = &computer->sys;
	int fd, r;

	if (strlen(path) > SYS_PATH_MAX)
		return -ENAMETOOLONG;
	temporary_name(path, temporary);
	fd = sys_open(sys, SYS_CWD, span_str(temporary), O_WRONLY | O_CREAT | O_EXCL, mode);
	if (fd < 0)
		return fd;
	r = write_all(sys, fd, bytes, len);
	(void)sys_close(sys, fd);
	if (r == 0)
		r = sys_rename(sys, SYS_CWD, span_str(temporary), SYS_CWD, span_str(path), 0);
	if (r < 0)
		(void)!sys_unlink(sys, SYS_CWD, span_str(temporary), 0);
	return r;
}

int computer_write_file(struct computer *computer, const char *path, const void *bytes, size_t len,
			uint32_t mode)
{
	CLEANUP(buf_clear) struct buf real = BUF_INIT(SYS_PATH_MAX);
	int r;

	if (len <= SYS_IO_MAX)
		return sys_writefile(&computer->sys, SYS_CWD, span_str(path), O_CREAT | O_TRUNC,
				     mode, SYS_OMIT, span_of(bytes, len));
	/* What a link leads to is replaced, not the link. */
	r = sys_realpath(&computer->sys, SYS_CWD, span_str(path), &real);
	return write_large(computer, r == 0 ? real.data : path, bytes, len, mode);
}

ssize_t computer_pread(struct computer *computer, const char *path, void *ret_bytes, size_t len,
		       int64_t offset)
{
	char *p = ret_bytes;
	size_t got = 0;

	if (offset < 0)
		return -EINVAL;
	while (got < len) {
		CLEANUP(buf_clear) struct buf content = BUF_INIT(SYS_IO_MAX);
		struct sys_stat stat;
		ssize_t n = sys_readfile(&computer->sys, SYS_CWD, span_str(path),
					 offset + (int64_t)got, len - got, &stat, &content);

		if (n < 0)
			return n;
		if (n == 0)
			break;
		memcpy(p + got, content.data, (size_t)n);
		got += (size_t)n;
	}
	return (ssize_t)got;
}

ssize_t computer_pwrite(struct computer *computer, const char *path, const void *bytes, size_t len,
			int64_t offset)
{
	struct sys *sys = &computer->sys;
	const char *p = bytes;
	size_t done = 0;
	ssize_t n = 0;
	int fd;

	if (offset < 0)
		return -EINVAL;
	fd = sys_open(sys, SYS_CWD, span_str(path), O_WRONLY, 0);
	if (fd < 0)
		return fd;
	while (done < len && n >= 0) {
		size_t piece = len - done < SYS_IO_MAX ? len - done : SYS_IO_MAX;

		n = sys_write(sys, fd, span_of(p + done, piece), offset + (int64_t)done);
		if (n > 0)
			done += (size_t)n;
	}
	(void)sys_close(sys, fd);
	return n < 0 && !done ? n : (ssize_t)done;
}

int computer_truncate(struct computer *computer, const char *path, int64_t size)
{
	return sys_truncate(&computer->sys, SYS_CWD, span_str(path), size, 0);
}

int computer_mkdir(struct computer *computer, const char *path, uint32_t mode, bool parents)
{
	CLEANUP(mem_free) char *copy = NULL;
	struct sys_stat stat;
	int r;

	if (!parents)
		return sys_mkdir(&computer->sys, SYS_CWD, span_str(path), mode);
	copy = mem_strdup(path);
	for (char *p = copy + 1; *copy; p++) {
		char end = *p;

		if (end && end != '/')
			continue;
		*p = '\0';
		r = sys_mkdir(&computer->sys, SYS_CWD, span_str(copy), end ? 0755 : mode);
		if (r < 0 && r != -EEXIST)
			return r;
		if (!end)
			break;
		*p = end;
	}
	r = sys_stat(&computer->sys, SYS_CWD, span_str(path), 0, &stat);
	return r == 0 && !S_ISDIR(stat.mode) ? -EEXIST : r;
}

int computer_unlink(struct computer *computer, const char *path)
{
	return sys_unlink(&computer->sys, SYS_CWD, span_str(path), 0);
}

int computer_rmdir(struct computer *computer, const char *path)
{
	return sys_unlink(&computer->sys, SYS_CWD, span_str(path), AT_REMOVEDIR);
}

/* ---- a whole tree ---- */

/* The entries of one directory, as records: a type byte, the name, a NUL. */
static int collect_entry(void *arg, const struct sys_entry *entry)
{
	char type = S_ISDIR(entry->stat->mode) ? 'd' : 'f';
	int r = buf_add(arg, &type, 1);

	if (r == 0)
		r = buf_add(arg, entry->name.data, entry->name.len);
	return r == 0 ? buf_add(arg, "", 1) : r;
}

static int first_failure(void *arg, uint32_t index, int64_t r, struct span bytes)
{
	int *failure = arg;

	(void)index;
	(void)bytes;
	/* Somebody else may remove the same. */
	if (r < 0 && r != -ENOENT && *failure == 0)
		*failure = (int)r;
	return 0;
}

static int remove_below(struct sys *sys, int dir, struct span name, int depth);

static int empty_dir(struct sys *sys, int fd, int depth)
{
	CLEANUP(buf_clear) struct buf names = BUF_INIT((size_t)1 << 30);
	CLEANUP(sys_batch_clear) struct sys_batch batch = SYS_BATCH_INIT(sys);
	int failure = 0, r;

	batch.done = first_failure;
	batch.arg = &failure;
	r = sys_each_entry(sys, fd, collect_entry, &names);
	for (size_t pos = 0; pos < names.len && r == 0;) {
		char type = names.data[pos];
		struct span name = span_str(names.data + pos + 1);

		pos += name.len + 2;
		if (type == 'd')
			r = remove_below(sys, fd, name, depth + 1);
		else
			r = sys_batch_add(&batch, &(struct sys_req){SYS_unlink, {fd}, {name}});
	}
	if (r == 0)
		r = sys_batch_run(&batch);
	return r < 0 ? r : failure;
}

/* A directory open at each level: deep trees have paths too long to say. */
static int remove_below(struct sys *sys, int dir, struct span name, int depth)
{
	int fd, r;

	if (depth > DEPTH_MAX)
		return -ELOOP;
	fd = sys_open(sys, dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = empty_dir(sys, fd, depth);
	(void)sys_close(sys, fd);
	if (r < 0)
		return r;
	r = sys_unlink(sys, dir, name, AT_REMOVEDIR);
	return r == -ENOENT ? 0 : r;
}

int computer_remove_tree(struct computer *computer, const char *path)
{
	struct sys_stat stat;
	int r = sys_stat(&computer->sys, SYS_CWD, span_str(path), AT_SYMLINK_NOFOLLOW, &stat);

	if (r < 0)
		return r;
	if (!S_ISDIR(stat.mode))
		return sys_unlink(&computer->sys, SYS_CWD, span_str(path), 0);
	if (stat.ino == VFS_ROOT)
		return -EBUSY;
	return remove_below(&computer->sys, SYS_CWD, span_str(path), 0);
}

/* ---- the rest ---- */

int computer_rename_file(struct computer *computer, const char *from, const char *to)
{
	return sys_rename(&computer->sys, SYS_CWD, span_str(from), SYS_CWD, span_str(to), 0);
}

int computer_link(struct computer *computer, const char *from, const char *to)
{
	return sys_link(&computer->sys, SYS_CWD, span_str(from), SYS_CWD, span_str(to), 0);
}

int computer_symlink(struct computer *computer, const char *target, const char *path)
{
	return sys_symlink(&computer->sys, SYS_CWD, span_str(path), span_str(target));
}

ssize_t computer_readlink(struct computer *computer, const char *path, char *ret_target,
			  size_t size)
{
	CLEANUP(buf_clear) struct buf target = BUF_INIT(SYS_PATH_MAX);
	int r = sys_readlink(&computer->sys, SYS_CWD, span_str(path), &target);

	if (r < 0)
		return r;
	if (target.len >= size)
		return -ERANGE;
	memcpy(ret_target, target.data, target.len + 1);
	return (ssize_t)target.len;
}

int computer_chmod(struct computer *computer, const char *path, uint32_t mode)
{
	return sys_chmod(&computer->sys, SYS_CWD, span_str(path), mode, 0);
}

struct lister {
	int (*fn)(void *arg, const char *name, const struct computer_stat *stat);
	void *arg;
};

static int list_entry_fn(void *arg, const struct sys_entry *entry)
{
	const struct lister *lister = arg;
	struct computer_stat stat;
	char name[SYS_NAME_MAX + 1];

	memcpy(name, entry->name.data, entry->name.len);
	name[entry->name.len] = '\0';
	memcpy(&stat, entry->stat, sizeof(stat));
	return lister->fn(lister->arg, name, &stat);
}

int computer_list(struct computer *computer, const char *path,
		  int (*fn)(void *arg, const char *name, const struct computer_stat *stat),
		  void *arg)
{
	struct lister lister = {fn, arg};
	struct sys *sys = &computer->sys;
	int fd = sys_open(sys, SYS_CWD, span_str(path), O_RDONLY | O_DIRECTORY, 0), r;

	if (fd < 0)
		return fd;
	r = sys_each_entry(sys, fd, list_entry_fn, &lister);
	(void)sys_close(sys, fd);
	return r;
}

int computer_sync(struct computer *computer)
{
	return sys_fsync(&computer->sys, SYS_CWD, false);
}
