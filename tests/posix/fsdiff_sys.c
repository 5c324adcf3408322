/* fsdiff_sys.c - operations on a workspace through vfs alone: no kernel, no mount. */
#include "fsdiff.h"

#include "base/mem.h"
#include "base/text.h"
#include "store/lock.h"
#include "store/store.h"
#include "vfs/vfs_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ACTORS 3 /* uids: root and two users, each with descriptors of its own */
#define WORKSPACES_MAX 8

static const uint32_t actor_uid[ACTORS] = {0, 1001, 1002};

/* A workspace that is open, shared by the views of all workers. */
struct workspace {
	char path[4096];
	struct vfs *vfs;
	struct store_lock lock;
};

static struct workspace workspaces[WORKSPACES_MAX];
static size_t workspace_count;
static pthread_mutex_t workspaces_lock = PTHREAD_MUTEX_INITIALIZER;

struct sys_view {
	struct view view;
	struct sys *sys[ACTORS];
	int root[ACTORS]; /* the directory that paths start at */
	int owner[SLOTS]; /* actor of the descriptor, -1: not open */
	int fd[SLOTS], access[SLOTS];
};

static struct workspace *find_workspace(const char *path)
{
	struct err err = ERR_INIT;
	struct store *store = NULL;
	struct workspace *w;

	for (size_t i = 0; i < workspace_count; i++)
		if (strcmp(workspaces[i].path, path) == 0)
			return &workspaces[i];
	if (workspace_count == WORKSPACES_MAX)
		return NULL;
	w = &workspaces[workspace_count];
	snprintf(w->path, sizeof(w->path), "%s", path);
	if (store_lock_take(path, &w->lock, NULL, &err) < 0 ||
	    store_open(path, STORE_CREATE, &store, &err) < 0 ||
	    vfs_open_take(store, &(struct vfs_options){0}, &w->vfs, &err) < 0) {
		fprintf(stderr, "fsdiff: %s: %s\n", path, err.text);
		return NULL;
	}
	workspace_count++;
	return w;
}

void sys_close_all(void)
{
	for (size_t i = 0; i < workspace_count; i++) {
		struct err err = ERR_INIT;

		if (vfs_close(workspaces[i].vfs, &err) < 0)
			fprintf(stderr, "fsdiff: closing: %s\n", err.text);
		store_lock_drop(&workspaces[i].lock);
	}
	workspace_count = 0;
}

static void see_stat(struct result *result, const struct sys_stat *st)
{
	see_attr(result, &(struct shown){.mode = st->mode,
					 .nlink = (uint32_t)st->nlink,
					 .uid = st->uid,
					 .gid = st->gid,
					 .size = st->size});
}

/* One actor's side of one operation. */
struct side {
	struct sys *sys;
	int root;
	struct span path, path2;
};

static int64_t close_slot(struct sys_view *v, int slot)
{
	if (v->owner[slot] < 0)
		return -EBADF;
	sys_close(v->sys[v->owner[slot]], v->fd[slot]);
	v->owner[slot] = -1;
	return 0;
}

static int64_t op_open(struct sys_view *v, const struct op *op, const struct side *s, int actor)
{
	int fd;

	close_slot(v, op->slot);
	fd = sys_open(s->sys, s->root, s->path, op->flags, op->mode);
	if (fd < 0)
		return fd;
	v->owner[op->slot] = actor;
	v->fd[op->slot] = fd;
	v->access[op->slot] = op->flags & (O_ACCMODE | O_APPEND);
	return 0;
}

struct names {
	char **name;
	size_t count;
};

static int add_name(void *arg, const struct sys_entry *entry)
{
	struct names *names = arg;
	char *copy = mem_alloc(entry->name.len + 1);

	memcpy(copy, entry->name.data, entry->name.len);
	copy[entry->name.len] = '\0';
	names->name = mem_realloc(names->name, (names->count + 1) * sizeof(char *));
	names->name[names->count++] = copy;
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->name[i]);
	free(names->name);
}

static int read_names(const struct side *s, struct span path, struct names *ret_names)
{
	int fd = sys_open(s->sys, s->root, path, O_RDONLY | O_DIRECTORY, 0);
	int r;

	if (fd < 0)
		return fd;
	r = sys_each_entry(s->sys, fd, add_name, ret_names);
	sys_close(s->sys, fd);
	if (ret_names->count)
		qsort(ret_names->name, ret_names->count, sizeof(char *), by_text);
	return r;
}

static int64_t op_readdir(const struct side *s, struct result *result)
{
	struct names names = {0};
	int64_t r = read_names(s, s->path, &names);

	for (size_t i = 0; r >= 0 && i < names.count; i++)
		result->seen = hash_more(result->seen, names.name[i], strlen(names.name[i]) + 1);
	if (r >= 0)
		r = (int64_t)names.count;
	free_names(&names);
	return r;
}

/* The result of a call that appends bytes: their hash and, when `count`, their number. */
static int64_t see(int64_t r, struct buf *bytes, bool count, struct result *result)
{
	if (r >= 0 && bytes->len)
		result->seen = hash_more(0, bytes->data, bytes->len);
	if (r >= 0 && count)
		r = (int64_t)bytes->len;
	buf_clear(bytes);
	return r;
}

static int64_t op_utimens(const struct op *op, const struct side *s)
{
	int64_t atime = op->offset * 1000000000 + op->fill % 1000000000;
	int64_t mtime = op->offset2 * 1000000000 + op->fill % 999999999;

	if (op->flags == 1)
		mtime = SYS_OMIT;
	if (op->flags == 2)
		atime = mtime = SYS_NOW;
	return sys_utimens(s->sys, s->root, s->path, atime, mtime,
			   op->flags & 4 ? AT_SYMLINK_NOFOLLOW : 0);
}

static int64_t run_xattr(const struct op *op, const struct side *s, struct result *result)
{
	struct buf bytes = BUF_INIT(SYS_XATTR_MAX);
	char name[16], value[4096];
	size_t len = op->fill % 1000;

	snprintf(name, sizeof(name), "user.%d", op->slot);
	switch ((int)op->kind) {
	case OP_getxattr:
		return see(sys_getxattr(s->sys, s->root, s->path, span_str(name), 0, &bytes),
			   &bytes, true, result);
	case OP_listxattr: {
		int64_t r = sys_listxattr(s->sys, s->root, s->path, 0, &bytes);

		r = r < 0 ? r : (int64_t)bytes.len;
		buf_clear(&bytes);
		return r;
	}
	case OP_rmxattr:
		return sys_rmxattr(s->sys, s->root, s->path, span_str(name), 0);
	default:
		fill_bytes(value, len, op->fill);
		return sys_setxattr(s->sys, s->root, s->path, span_str(name), span_of(value, len),
				    op->flags % 3, 0);
	}
}

/* As a mapping would: what there is of the file, only for descriptors open both ways. */
static int64_t op_map(const struct sys_view *v, const struct op *op, struct result *result)
{
	struct sys *sys = v->sys[v->owner[op->slot]];
	struct buf bytes = BUF_INIT(IO_MAX);
	int fd = v->fd[op->slot];
	int64_t len = op->len, r;
	struct sys_stat st;
	char *p;

	if (sys_fstat(sys, fd, &st) < 0 || v->access[op->slot] != O_RDWR)
		return -EBADF;
	if (!S_ISREG(st.mode) || (st.mode & 06000) || op->offset >= st.size)
		return 0;
	if (len > st.size - op->offset)
		len = st.size - op->offset;
	if (op->kind == OP_mapread)
		return see(sys_read(sys, fd, (size_t)len, op->offset, &bytes), &bytes, true,
			   result);
	p = mem_alloc((size_t)len);
	fill_bytes(p, (size_t)len, op->fill);
	r = sys_write(sys, fd, span_of(p, (size_t)len), op->offset);
	free(p);
	return r;
}

static int64_t run_slot(struct sys_view *v, const struct op *op, struct result *result)
{
	struct buf bytes = BUF_INIT(IO_MAX);
	struct sys_stat st;
	struct sys *sys;
	int fd = v->fd[op->slot];
	int64_t r;
	char *p;

	if (v->owner[op->slot] < 0)
		return -EBADF;
	sys = v->sys[v->owner[op->slot]];
	switch ((int)op->kind) {
	case OP_close:
		return close_slot(v, op->slot);
	case OP_copy:
		if (v->owner[op->slot2] != v->owner[op->slot] || sys_fstat(sys, fd, &st) < 0 ||
		    !S_ISREG(st.mode) || sys_fstat(sys, v->fd[op->slot2], &st) < 0 ||
		    !S_ISREG(st.mode))
			return -EBADF;
		return sys_copy(sys, fd, op->offset, v->fd[op->slot2], op->offset2, op->len);
	case OP_falloc:
		return sys_fallocate(sys, fd, op->flags, op->offset, op->len);
	case OP_fstat:
		r = sys_fstat(sys, fd, &st);
		if (r >= 0)
			see_stat(result, &st);
		return r;
	case OP_fsync:
		return sys_fsync(sys, fd, false);
	case OP_ftruncate:
		return sys_truncate(sys, fd, SPAN_EMPTY, op->offset, AT_EMPTY_PATH);
	case OP_mapread:
	case OP_mapwrite:
		return op_map(v, op, result);
	case OP_read:
		return see(sys_read(sys, fd, (size_t)op->len, op->offset, &bytes), &bytes, true,
			   result);
	default:
		p = mem_alloc((size_t)op->len);
		fill_bytes(p, (size_t)op->len, op->fill);
		r = sys_write(sys, fd, span_of(p, (size_t)op->len), op->offset);
		free(p);
		return r;
	}
}

static int64_t run_path(const struct op *op, const struct side *s, struct result *result)
{
	static const int64_t owners[] = {0, 1001, 1002, -1};
	struct buf bytes = BUF_INIT(SYS_PATH_MAX);
	int follow = op->flags & 1 ? AT_SYMLINK_FOLLOW : 0;
	int nofollow = op->flags & 1 ? AT_SYMLINK_NOFOLLOW : 0;
	struct sys_stat st;
	int64_t r;

	switch ((int)op->kind) {
	case OP_access:
		return sys_access(s->sys, s->root, s->path, op->flags & 7, AT_EACCESS);
	case OP_chmod:
		return sys_chmod(s->sys, s->root, s->path, op->mode, 0);
	case OP_chown:
		return sys_chown(s->sys, s->root, s->path, owners[op->fill % 4],
				 owners[op->fill / 4 % 4], nofollow);
	case OP_link:
		return sys_link(s->sys, s->root, s->path, s->root, s->path2, follow);
	case OP_mkdir:
		return sys_mkdir(s->sys, s->root, s->path, op->mode);
	case OP_mkfifo:
		return sys_mknod(s->sys, s->root, s->path, S_IFIFO | op->mode, 0);
	case OP_readdir:
		return op_readdir(s, result);
	case OP_readlink:
		return see(sys_readlink(s->sys, s->root, s->path, &bytes), &bytes, true, result);
	case OP_rename:
		return sys_rename(s->sys, s->root, s->path, s->root, s->path2, (unsigned)op->flags);
	case OP_rmdir:
		return sys_unlink(s->sys, s->root, s->path, AT_REMOVEDIR);
	case OP_stat:
		r = sys_stat(s->sys, s->root, s->path, nofollow, &st);
		if (r >= 0)
			see_stat(result, &st);
		return r;
	case OP_symlink:
		return sys_symlink(s->sys, s->root, s->path, s->path2);
	case OP_truncate:
		return sys_truncate(s->sys, s->root, s->path, op->offset, 0);
	case OP_unlink:
		return sys_unlink(s->sys, s->root, s->path, 0);
	case OP_utimens:
		return op_utimens(op, s);
	default:
		return run_xattr(op, s, result);
	}
}

static void sys_run(struct view *view, const struct op *op, struct result *ret_result)
{
	struct sys_view *v = (struct sys_view *)view;
	int actor = op->uid == 1001 ? 1 : op->uid == 1002 ? 2 : 0;
	struct side side = {v->sys[actor], v->root[actor], span_str(op->path), span_str(op->path2)};

	ret_result->seen = 0;
	switch ((int)op->kind) {
	case OP_open:
		ret_result->r = op_open(v, op, &side, actor);
		break;
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
		ret_result->r = run_slot(v, op, ret_result);
		break;
	default:
		ret_result->r = run_path(op, &side, ret_result);
	}
}

/* ---- dump ---- */

static uint64_t hash_content(const struct side *s, struct span path, const struct sys_stat *st)
{
	struct buf bytes = BUF_INIT(SYS_IO_MAX);
	uint64_t hash = 0;
	int64_t offset = 0, r;
	int fd;

	if (S_ISLNK(st->mode)) {
		r = sys_readlink(s->sys, s->root, path, &bytes);
		hash = r < 0 ? (uint64_t)-r : hash_more(0, bytes.data, bytes.len);
		buf_clear(&bytes);
		return hash;
	}
	if (!S_ISREG(st->mode))
		return 0;
	fd = sys_open(s->sys, s->root, path, O_RDONLY, 0);
	if (fd < 0)
		return (uint64_t)-fd;
	do {
		buf_clear(&bytes);
		r = sys_read(s->sys, fd, 65536, offset, &bytes);
		if (r >= 0)
			hash = hash_more(hash, bytes.data, bytes.len);
		offset += (int64_t)bytes.len;
	} while (r >= 0 && bytes.len);
	buf_clear(&bytes);
	sys_close(s->sys, fd);
	return r < 0 ? (uint64_t)-r : hash;
}

static uint64_t hash_xattrs(const struct side *s, struct span path, const struct sys_stat *st)
{
	struct buf names = BUF_INIT(SYS_XATTR_MAX), value = BUF_INIT(SYS_XATTR_MAX);
	uint64_t sum = 0;

	if (!S_ISREG(st->mode) && !S_ISDIR(st->mode))
		return 0;
	if (sys_listxattr(s->sys, s->root, path, AT_SYMLINK_NOFOLLOW, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.len; i += strlen(names.data + i) + 1) {
		const char *name = names.data + i;
		uint64_t hash = hash_more(1, name, strlen(name) + 1);
		int r = sys_getxattr(s->sys, s->root, path, span_str(name), AT_SYMLINK_NOFOLLOW,
				     &value);

		sum += r < 0 ? (uint64_t)-r : hash_more(hash, value.data, value.len);
		buf_clear(&value);
	}
	buf_clear(&names);
	return sum;
}

static int dump_dir(const struct side *s, const char *dir, struct buf *out, int depth)
{
	struct names names = {0};
	char path[4096];
	int r;

	if (depth > 64)
		return -ELOOP;
	r = read_names(s, span_str(*dir ? dir : "."), &names);
	for (size_t i = 0; r >= 0 && i < names.count; i++) {
		struct sys_stat st;
		struct span at;

		snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", names.name[i]);
		at = span_str(path);
		r = sys_stat(s->sys, s->root, at, AT_SYMLINK_NOFOLLOW, &st);
		if (r < 0)
			break;
		text_add(out, "/");
		show_line(out, &(struct shown){.path = path,
					       .mode = st.mode,
					       .nlink = st.nlink,
					       .uid = st.uid,
					       .gid = st.gid,
					       .size = st.size,
					       .mtime = st.mtime,
					       .content = hash_content(s, at, &st) +
							  hash_xattrs(s, at, &st)});
		if (S_ISDIR(st.mode))
			r = dump_dir(s, path, out, depth + 1);
	}
	free_names(&names);
	return r;
}

static int sys_dump(struct view *view, struct buf *out)
{
	const struct sys_view *v = (struct sys_view *)view;
	struct side side = {v->sys[0], v->root[0], SPAN_EMPTY, SPAN_EMPTY};

	return dump_dir(&side, "", out, 0);
}

static void sys_view_free(struct view *view)
{
	struct sys_view *v = (struct sys_view *)view;

	for (int i = 0; i < ACTORS; i++)
		sys_free(v->sys[i]);
	free(v);
}

static const struct view_ops sys_view_ops = {
	.run = sys_run,
	.dump = sys_dump,
	.free = sys_view_free,
};

struct view *sys_view_new(const char *db, const char *root)
{
	struct workspace *w;
	struct sys_view *v;

	pthread_mutex_lock(&workspaces_lock);
	w = find_workspace(db);
	pthread_mutex_unlock(&workspaces_lock);
	if (!w)
		return NULL;
	v = mem_alloc0(sizeof(*v));
	v->view.ops = &sys_view_ops;
	for (int i = 0; i < SLOTS; i++)
		v->owner[i] = -1;
	for (int i = 0; i < ACTORS; i++) {
		struct vfs_ctx ctx = {.who = {.uid = actor_uid[i],
					      .gid = actor_uid[i],
					      .actor = "fsdiff",
					      .backend = "direct",
					      .exec = ""}};

		v->sys[i] = vfs_sys_new(w->vfs, &ctx);
		if (i == 0 && sys_mkdir(v->sys[0], SYS_CWD, span_str(root), 0777) < 0)
			fprintf(stderr, "fsdiff: '%s' was there\n", root);
		v->root[i] =
			sys_open(v->sys[i], SYS_CWD, span_str(root), O_RDONLY | O_DIRECTORY, 0);
	}
	if (v->root[0] < 0) {
		sys_view_free(&v->view);
		return NULL;
	}
	return &v->view;
}
