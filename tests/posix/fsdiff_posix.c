/* fsdiff_posix.c - operations on a directory of this machine. */
#include "fsdiff.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define XATTR_SIZE 4096

struct posix_view {
	struct view view;
	char proc[64]; /* "/proc/self/fd/N": the root, for calls that have no *at form */
	int root;
	int fd[SLOTS];
	uint32_t uid[SLOTS]; /* who opened it acts through it */
};

static int64_t sys(int64_t r)
{
	return r < 0 ? -errno : r;
}

/* The path where calls without an *at form find op->path. */
static const char *full(const struct posix_view *v, const char *path, char *room, size_t size)
{
	snprintf(room, size, "%s/%s", v->proc, path);
	return *path ? room : "";
}

static void see_stat(struct result *result, const struct stat *st)
{
	see_attr(result, &(struct shown){.mode = st->st_mode,
					 .nlink = (uint32_t)st->st_nlink,
					 .uid = st->st_uid,
					 .gid = st->st_gid,
					 .size = st->st_size});
}

/* ---- with paths ---- */

static int64_t op_open(struct posix_view *v, const struct op *op)
{
	int *fd = &v->fd[op->slot];
	struct stat st;
	int r;

	fd_close(fd);
	*fd = openat(v->root, op->path, op->flags | O_CLOEXEC, op->mode);
	v->uid[op->slot] = op->uid;
	r = *fd < 0 ? -errno : 0;
	/* not every target has pipes */
	if ((r == 0 || r == -EACCES) && fstatat(v->root, op->path, &st, 0) == 0 &&
	    S_ISFIFO(st.st_mode)) {
		fd_close(fd);
		return -ENXIO;
	}
	return r;
}

static int64_t op_stat(const struct posix_view *v, const struct op *op, struct result *result)
{
	int flags = op->flags & 1 ? AT_SYMLINK_NOFOLLOW : 0;
	struct stat st;

	if (fstatat(v->root, op->path, &st, flags) < 0)
		return -errno;
	see_stat(result, &st);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory but the dots, sorted; NULL at the end. Takes fd over. 0 or errno. */
static int read_names(int fd, char ***ret_names, size_t *ret_count)
{
	const struct dirent *e;
	char **names = NULL;
	size_t count = 0;
	DIR *dir = fdopendir(fd);

	if (!dir) {
		close(fd);
		return -errno;
	}
	while ((e = readdir(dir))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if ((count & (count - 1)) == 0)
			names = mem_realloc(names, (count ? 2 * count : 1) * sizeof(*names));
		names[count++] = mem_strdup(e->d_name);
	}
	closedir(dir);
	if (count)
		qsort(names, count, sizeof(*names), by_text);
	*ret_names = names;
	*ret_count = count;
	return 0;
}

static int64_t op_readdir(const struct posix_view *v, const struct op *op, struct result *result)
{
	int fd = openat(v->root, op->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char **names = NULL;
	size_t count = 0;
	int r;

	if (fd < 0)
		return -errno;
	r = read_names(fd, &names, &count);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		result->seen = hash_more(result->seen, names[i], strlen(names[i]) + 1);
		free(names[i]);
	}
	free(names);
	return (int64_t)count;
}

static int64_t op_readlink(const struct posix_view *v, const struct op *op, struct result *result)
{
	char target[PATH_SIZE];
	ssize_t n = readlinkat(v->root, op->path, target, sizeof(target));

	if (n > 0)
		result->seen = hash_more(0, target, (size_t)n);
	return sys(n);
}

static int64_t op_utimens(const struct posix_view *v, const struct op *op)
{
	struct timespec times[2] = {{.tv_sec = op->offset, .tv_nsec = op->fill % 1000000000},
				    {.tv_sec = op->offset2, .tv_nsec = op->fill % 999999999}};

	if (op->flags == 1)
		times[1].tv_nsec = UTIME_OMIT;
	if (op->flags == 2)
		times[0].tv_nsec = times[1].tv_nsec = UTIME_NOW;
	return sys(utimensat(v->root, op->path, times, op->flags & 4 ? AT_SYMLINK_NOFOLLOW : 0));
}

static int64_t op_setxattr(const struct posix_view *v, const struct op *op)
{
	char path[PATH_SIZE + 64], name[16], value[XATTR_SIZE];
	size_t len = op->fill % 1000;

	snprintf(name, sizeof(name), "user.%d", op->slot);
	fill_bytes(value, len, op->fill);
	return sys(
		setxattr(full(v, op->path, path, sizeof(path)), name, value, len, op->flags % 3));
}

static int64_t op_getxattr(const struct posix_view *v, const struct op *op, struct result *result)
{
	char path[PATH_SIZE + 64], name[16], value[XATTR_SIZE];
	ssize_t n;

	snprintf(name, sizeof(name), "user.%d", op->slot);
	n = getxattr(full(v, op->path, path, sizeof(path)), name, value, sizeof(value));
	if (n > 0)
		result->seen = hash_more(0, value, (size_t)n);
	return sys(n);
}

static int64_t op_rmxattr(const struct posix_view *v, const struct op *op)
{
	char path[PATH_SIZE + 64], name[16];

	snprintf(name, sizeof(name), "user.%d", op->slot);
	return sys(removexattr(full(v, op->path, path, sizeof(path)), name));
}

/* Bytes of the list; the order is nobody's business. */
static int64_t op_listxattr(const struct posix_view *v, const struct op *op)
{
	char path[PATH_SIZE + 64], names[XATTR_SIZE];

	return sys(listxattr(full(v, op->path, path, sizeof(path)), names, sizeof(names)));
}

/* ---- with open files ---- */

static int64_t op_write(const struct posix_view *v, const struct op *op)
{
	char *bytes = mem_alloc((size_t)op->len);
	int64_t r;

	fill_bytes(bytes, (size_t)op->len, op->fill);
	r = sys(pwrite(v->fd[op->slot], bytes, (size_t)op->len, op->offset));
	free(bytes);
	return r;
}

static int64_t op_read(const struct posix_view *v, const struct op *op, struct result *result)
{
	char *bytes = mem_alloc((size_t)op->len);
	int64_t r = sys(pread(v->fd[op->slot], bytes, (size_t)op->len, op->offset));

	if (r > 0)
		result->seen = hash_more(0, bytes, (size_t)r);
	free(bytes);
	return r;
}

static int64_t op_fstat(const struct posix_view *v, const struct op *op, struct result *result)
{
	struct stat st;

	if (fstat(v->fd[op->slot], &st) < 0)
		return -errno;
	see_stat(result, &st);
	return 0;
}

/* Through a mapping of what there is of the file. Only for descriptors open both ways. A target
 * without mappings writes instead, which would drop setuid and setgid: not to such files. */
static int64_t op_map(const struct posix_view *v, const struct op *op, struct result *result)
{
	int fd = v->fd[op->slot];
	int64_t len = op->len;
	struct stat st;
	char *p;

	if (fd < 0 || fstat(fd, &st) < 0 || (fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND)) != O_RDWR)
		return -EBADF;
	if (!S_ISREG(st.st_mode) || (st.st_mode & 06000) || op->offset >= st.st_size)
		return 0;
	if (len > st.st_size - op->offset)
		len = st.st_size - op->offset;
	p = mmap(NULL, (size_t)(op->offset + len), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	if (op->kind == OP_mapwrite)
		fill_bytes(p + op->offset, (size_t)len, op->fill);
	else
		result->seen = hash_more(0, p + op->offset, (size_t)len);
	munmap(p, (size_t)(op->offset + len));
	return len;
}

static int64_t op_copy(const struct posix_view *v, const struct op *op)
{
	loff_t from = op->offset, to = op->offset2;
	struct stat st, st2;

	/* which of several errors comes first is nobody's business */
	if (fstat(v->fd[op->slot], &st) < 0 || fstat(v->fd[op->slot2], &st2) < 0 ||
	    !S_ISREG(st.st_mode) || !S_ISREG(st2.st_mode) || v->uid[op->slot] != v->uid[op->slot2])
		return -EBADF;
	return sys(
		copy_file_range(v->fd[op->slot], &from, v->fd[op->slot2], &to, (size_t)op->len, 0));
}

static int64_t op_close(struct posix_view *v, const struct op *op)
{
	int r = v->fd[op->slot] < 0 ? -EBADF : 0;

	fd_close(&v->fd[op->slot]);
	return r;
}

/* ---- all ---- */

static int64_t run_slot(struct posix_view *v, const struct op *op, struct result *result)
{
	int fd = v->fd[op->slot];

	switch ((int)op->kind) {
	case OP_close:
		return op_close(v, op);
	case OP_copy:
		return op_copy(v, op);
	case OP_falloc:
		return sys(fallocate(fd, op->flags, op->offset, op->len));
	case OP_fstat:
		return op_fstat(v, op, result);
	case OP_fsync:
		return sys(fsync(fd));
	case OP_ftruncate:
		return sys(ftruncate(fd, op->offset));
	case OP_mapread:
	case OP_mapwrite:
		return op_map(v, op, result);
	case OP_read:
		return op_read(v, op, result);
	default:
		return op_write(v, op);
	}
}

static int64_t run_name(struct posix_view *v, const struct op *op)
{
	int follow = op->flags & 1 ? AT_SYMLINK_FOLLOW : 0;

	switch ((int)op->kind) {
	case OP_link:
		return sys(linkat(v->root, op->path, v->root, op->path2, follow));
	case OP_mkdir:
		return sys(mkdirat(v->root, op->path, op->mode));
	case OP_mkfifo:
		return sys(mkfifoat(v->root, op->path, op->mode));
	case OP_open:
		return op_open(v, op);
	case OP_rename:
		return sys(renameat2(v->root, op->path, v->root, op->path2, (unsigned)op->flags));
	case OP_rmdir:
		return sys(unlinkat(v->root, op->path, AT_REMOVEDIR));
	case OP_symlink:
		return sys(symlinkat(op->path2, v->root, op->path));
	default:
		return sys(unlinkat(v->root, op->path, 0));
	}
}

static int64_t run_attr(struct posix_view *v, const struct op *op, struct result *result)
{
	static const uint32_t owners[] = {0, 1001, 1002, (uint32_t)-1};
	char path[PATH_SIZE + 64];

	switch ((int)op->kind) {
	case OP_access:
		return sys(faccessat(v->root, op->path, op->flags & 7, AT_EACCESS));
	case OP_chmod:
		return sys(fchmodat(v->root, op->path, op->mode, 0));
	case OP_chown:
		return sys(fchownat(v->root, op->path, owners[op->fill % 4],
				    owners[op->fill / 4 % 4],
				    op->flags & 1 ? AT_SYMLINK_NOFOLLOW : 0));
	case OP_getxattr:
		return op_getxattr(v, op, result);
	case OP_listxattr:
		return op_listxattr(v, op);
	case OP_readdir:
		return op_readdir(v, op, result);
	case OP_readlink:
		return op_readlink(v, op, result);
	case OP_rmxattr:
		return op_rmxattr(v, op);
	case OP_setxattr:
		return op_setxattr(v, op);
	case OP_stat:
		return op_stat(v, op, result);
	case OP_truncate:
		return sys(truncate(full(v, op->path, path, sizeof(path)), op->offset));
	default:
		return op_utimens(v, op);
	}
}

static bool is_of_slot(enum op_kind kind)
{
	switch ((int)kind) {
	case OP_close:
	case OP_copy:
	case OP_falloc:
	case OP_fstat:
	case OP_fsync:
	case OP_ftruncate:
	case OP_mapread:
	case OP_mapwrite:
	case OP_read:
	case OP_write:
		return true;
	default:
		return false;
	}
}

static bool is_of_name(enum op_kind kind)
{
	switch ((int)kind) {
	case OP_link:
	case OP_mkdir:
	case OP_mkfifo:
	case OP_open:
	case OP_rename:
	case OP_rmdir:
	case OP_symlink:
	case OP_unlink:
		return true;
	default:
		return false;
	}
}

static void posix_run(struct view *view, const struct op *op, struct result *ret_result)
{
	struct posix_view *v = (struct posix_view *)view;
	uint32_t uid = is_of_slot(op->kind) ? v->uid[op->slot] : op->uid;

	if (uid) {
		setfsgid(uid);
		setfsuid(uid);
	}
	ret_result->seen = 0;
	if (is_of_slot(op->kind))
		ret_result->r = run_slot(v, op, ret_result);
	else if (is_of_name(op->kind))
		ret_result->r = run_name(v, op);
	else
		ret_result->r = run_attr(v, op, ret_result);
	if (uid) {
		setfsuid(0);
		setfsgid(0);
	}
}

/* ---- dump ---- */

static uint64_t hash_content(int dir, const char *name, const struct stat *st)
{
	char bytes[65536];
	uint64_t hash = 0;
	ssize_t n;
	int fd;

	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dir, name, bytes, sizeof(bytes));
		return n < 0 ? (uint64_t)errno : hash_more(0, bytes, (size_t)n);
	}
	if (!S_ISREG(st->st_mode))
		return 0;
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return (uint64_t)errno;
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		hash = hash_more(hash, bytes, (size_t)n);
	close(fd);
	return n < 0 ? (uint64_t)errno : hash;
}

/* Every attribute's name and value, in any order. */
static uint64_t hash_xattrs(int dir, const char *name, const struct stat *st)
{
	char path[PATH_SIZE + 64], names[XATTR_SIZE], value[XATTR_SIZE];
	uint64_t sum = 0;
	ssize_t len, n;

	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	len = llistxattr(path, names, sizeof(names));
	for (ssize_t i = 0; i < len; i += (ssize_t)strlen(names + i) + 1) {
		uint64_t hash = hash_more(1, names + i, strlen(names + i) + 1);

		n = lgetxattr(path, names + i, value, sizeof(value));
		sum += n < 0 ? (uint64_t)errno : hash_more(hash, value, (size_t)n);
	}
	return sum;
}

static int dump_dir(int fd, const char *prefix, struct buf *out);

static int dump_entry(int fd, const char *prefix, const char *name, struct buf *out)
{
	char path[8 * PATH_SIZE];
	struct stat st;
	int sub;

	snprintf(path, sizeof(path), "%s/%s", prefix, name);
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	show_line(out, &(struct shown){.path = path,
				       .mode = st.st_mode,
				       .nlink = (uint32_t)st.st_nlink,
				       .uid = st.st_uid,
				       .gid = st.st_gid,
				       .size = st.st_size,
				       .mtime = st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
				       .content = hash_content(fd, name, &st) +
						  hash_xattrs(fd, name, &st)});
	if (!S_ISDIR(st.st_mode))
		return 0;
	sub = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return sub < 0 ? -errno : dump_dir(sub, path, out);
}

/* Takes fd over. */
static int dump_dir(int fd, const char *prefix, struct buf *out)
{
	char **names = NULL;
	size_t count = 0;
	int keep = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	int r = read_names(fd, &names, &count);

	for (size_t i = 0; r >= 0 && i < count; i++) {
		int r2 = dump_entry(keep, prefix, names[i], out);

		free(names[i]);
		if (r2 < 0)
			r = r2;
	}
	if (r >= 0)
		free(names);
	close(keep);
	return r;
}

static int posix_dump(struct view *view, struct buf *out)
{
	const struct posix_view *v = (struct posix_view *)view;
	int fd = openat(v->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : dump_dir(fd, "", out);
}

static void posix_free(struct view *view)
{
	struct posix_view *v = (struct posix_view *)view;

	for (int i = 0; i < SLOTS; i++)
		fd_close(&v->fd[i]);
	fd_close(&v->root);
	free(v);
}

static const struct view_ops posix_ops = {
	.run = posix_run,
	.dump = posix_dump,
	.free = posix_free,
};

struct view *posix_view_new(const char *dir, const char *root)
{
	struct posix_view *v = mem_alloc0(sizeof(*v));
	char path[4096];

	v->view.ops = &posix_ops;
	for (int i = 0; i < SLOTS; i++)
		v->fd[i] = -1;
	snprintf(path, sizeof(path), "%s/%s", dir, root);
	mkdir(path, 0777);
	v->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (v->root < 0) {
		free(v);
		return NULL;
	}
	snprintf(v->proc, sizeof(v->proc), "/proc/self/fd/%d", v->root);
	return &v->view;
}
