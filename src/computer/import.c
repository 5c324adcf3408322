/* import.c - files into the workspace: small things in batches, nothing beside its place. */
#include "base/mem.h"
#include "base/text.h"
#include "computer/port_i.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FULL_MAX ((size_t)2 * SYS_PATH_MAX) /* where, and what */
#define TIMES_MAX ((size_t)1 << 30)

/* A directory that is known to be one. */
struct known_dir {
	struct map_node node;
	size_t len;
	char path[];
};

struct dir_time {
	int64_t mtime;
	size_t len; /* of the path that follows */
};

/* ---- batches: what is asked for now is answered later ---- */

/* In front of a path in import.paths: what a failure means. */
#define MAY_EXIST 'd' /* EEXIST is fine */
#define MAY_LACK 'u'  /* ENOENT is fine */
#define MUST ' '

static int take_answer(void *arg, uint32_t index, int64_t r, struct span bytes)
{
	struct import *import = arg;
	const char *path = import->paths[index - import->paths_base];

	(void)bytes;
	if (r >= 0 || (path[0] == MAY_EXIST && r == -EEXIST) ||
	    (path[0] == MAY_LACK && r == -ENOENT))
		return 0;
	import->failure = port_fail(&import->port, (int)r, "cannot import", span_str(path + 1));
	return import->failure;
}

static void forget_paths(struct import *import)
{
	for (size_t i = 0; i < import->paths_len; i++)
		free(import->paths[i]);
	import->paths_len = 0;
	import->paths_base = import->batch.first;
}

static int run_batch(struct import *import)
{
	int r = sys_batch_run(&import->batch);

	forget_paths(import);
	return r < 0 && !import->failure ? port_fail(&import->port, r, "cannot import", SPAN_EMPTY)
					 : r;
}

static int add(struct import *import, char kind, struct span path, const struct sys_req *req)
{
	char *shown = mem_alloc0(path.len + 2);
	bool fresh;
	int r;

	shown[0] = kind;
	memcpy(shown + 1, path.data, path.len);
	if (import->paths_len == import->paths_cap) {
		import->paths_cap = import->paths_cap ? 2 * import->paths_cap : 64;
		import->paths =
			mem_realloc(import->paths, import->paths_cap * sizeof(*import->paths));
	}
	import->paths[import->paths_len++] = shown;
	r = sys_batch_add(&import->batch, req);
	if (r < 0)
		return import->failure ? import->failure
				       : port_fail(&import->port, r, "cannot import", path);
	/* A full batch was sent on the way: only the new one is still waiting. */
	fresh = import->batch.count == 1 && import->paths_len > 1;
	if (fresh) {
		import->paths[import->paths_len - 1] = NULL;
		forget_paths(import);
		import->paths[import->paths_len++] = shown;
	}
	return 0;
}

/* ---- life ---- */

void import_init(struct import *import, struct computer *computer,
		 const struct port_options *options, struct err *err)
{
	const char *root = options && options->path ? options->path : "";
	size_t len = strlen(root);

	*import = (struct import){
		.root = BUF_INIT(SYS_PATH_MAX),
		.batch = SYS_BATCH_INIT(computer_sys(computer)),
		.dir_times = BUF_INIT(TIMES_MAX),
	};
	port_init(&import->port, computer, options, err);
	import->batch.done = take_answer;
	import->batch.arg = import;
	while (len && root[len - 1] == '/')
		len--;
	if (buf_add(&import->root, root, len) < 0)
		import->failure = err_set(err, ENAMETOOLONG, "the path is too long");
	else if (len)
		import->failure = computer_mkdir(computer, import->root.data, 0755, true);
	if (import->failure)
		(void)port_fail(&import->port, import->failure, "cannot import into",
				span_str(root));
}

void import_clear(struct import *import)
{
	forget_paths(import);
	free(import->paths);
	sys_batch_clear(&import->batch);
	map_for_each (node, &import->dirs)
		free(map_entry(node, struct known_dir, node));
	map_clear(&import->dirs);
	buf_clear(&import->root);
	buf_clear(&import->dir_times);
	port_clear(&import->port);
}

/* ---- where things go ---- */

int import_clean(struct import *import, struct span path, struct buf *ret_path)
{
	struct span rest = path;

	ret_path->len = 0;
	while (rest.len) {
		const char *slash = memchr(rest.data, '/', rest.len);
		size_t len = slash ? (size_t)(slash - rest.data) : rest.len;
		struct span part = span_of(rest.data, len);

		rest = span_of(rest.data + len + (slash != NULL), rest.len - len - (slash != NULL));
		if (!len || span_eq(part, SPAN(".")))
			continue;
		if (span_eq(part, SPAN("..")))
			return port_fail(&import->port, -EPERM,
					 "a name leads out of where things are imported to:", path);
		if ((ret_path->len && buf_add(ret_path, "/", 1) < 0) ||
		    buf_add(ret_path, part.data, part.len) < 0)
			return port_fail(&import->port, -ENAMETOOLONG, "cannot import", path);
	}
	return 0;
}

/* The whole path in the workspace. */
static int full_path(struct import *import, struct span path, struct buf *ret_path)
{
	if (buf_add(ret_path, import->root.data, import->root.len) < 0 ||
	    buf_add(ret_path, "/", 1) < 0 || buf_add(ret_path, path.data, path.len) < 0)
		return port_fail(&import->port, -ENAMETOOLONG, "cannot import", path);
	return 0;
}

static bool is_known(const struct import *import, struct span path, uint64_t hash)
{
	for (struct map_node *n = map_first(&import->dirs, hash); n; n = map_next(n)) {
		const struct known_dir *dir = map_entry(n, struct known_dir, node);

		if (span_eq(span_of(dir->path, dir->len), path))
			return true;
	}
	return false;
}

static void remember(struct import *import, struct span path, uint64_t hash)
{
	struct known_dir *dir = mem_alloc(sizeof(*dir) + path.len);

	dir->len = path.len;
	memcpy(dir->path, path.data, path.len);
	map_add(&import->dirs, &dir->node, hash);
}

/* Make the directory at `path` unless there is one. A link in its place would lead elsewhere. */
static int need_dir(struct import *import, struct span path, uint32_t mode)
{
	CLEANUP(buf_clear) struct buf full = BUF_INIT(FULL_MAX);
	uint64_t hash = map_hash_bytes(path.data, path.len, 2);
	struct sys_stat stat;
	int r;

	if (!path.len || is_known(import, path, hash))
		return 0;
	r = full_path(import, path, &full);
	if (r == 0)
		r = run_batch(import); /* what was asked for before may have made it */
	if (r < 0)
		return r;
	r = sys_mkdir(import->port.sys, SYS_CWD, span_of(full.data, full.len), mode);
	if (r == -EEXIST) {
		r = sys_stat(import->port.sys, SYS_CWD, span_of(full.data, full.len),
			     AT_SYMLINK_NOFOLLOW, &stat);
		if (r == 0 && !S_ISDIR(stat.mode))
			r = S_ISLNK(stat.mode) ? -ELOOP : -ENOTDIR;
	}
	if (r < 0)
		return port_fail(&import->port, r, "cannot make the directory", path);
	remember(import, path, hash);
	return 0;
}

/* Every directory above `path`, that of the import included. */
static int need_parents(struct import *import, struct span path)
{
	for (size_t i = 0; i < path.len; i++) {
		int r = path.data[i] == '/' ? need_dir(import, span_of(path.data, i), 0755) : 0;

		if (r < 0)
			return r;
	}
	return import->failure;
}

/* Where `path` is, with all above it made. */
static int place(struct import *import, struct span path, struct buf *ret_full)
{
	int r = need_parents(import, path);

	return r < 0 ? r : full_path(import, path, ret_full);
}

/* ---- files ---- */

static int add_owner(struct import *import, const struct import_file *file, struct span full)
{
	const struct sys_req req = {
		SYS_chown, {SYS_CWD, file->uid, file->gid, AT_SYMLINK_NOFOLLOW}, {full}};

	return import->port.options->owner ? add(import, MUST, file->path, &req) : 0;
}

/* Changing the owner drops setuid and setgid. */
static int add_mode(struct import *import, const struct import_file *file, struct span full)
{
	const struct sys_req req = {SYS_chmod, {SYS_CWD, file->mode & 07777}, {full}};

	return import->port.options->owner && (file->mode & 06000)
		       ? add(import, MUST, file->path, &req)
		       : 0;
}

int import_dir(struct import *import, const struct import_file *file)
{
	CLEANUP(buf_clear) struct buf full = BUF_INIT(FULL_MAX);
	struct dir_time time = {file->mtime, file->path.len};
	uint32_t mode = file->mode & 07777;
	struct span at;
	int r = place(import, file->path, &full);

	if (r == 0)
		r = need_dir(import, file->path, mode);
	if (r < 0)
		return r;
	at = span_of(full.data, full.len);
	if (file->path.len)
		r = add(import, MUST, file->path,
			&(struct sys_req){SYS_chmod, {SYS_CWD, mode}, {at}});
	if (r == 0 && file->path.len)
		r = add_owner(import, file, at);
	if (r == 0)
		r = buf_add(&import->dir_times, &time, sizeof(time));
	if (r == 0)
		r = buf_add(&import->dir_times, file->path.data, file->path.len);
	return r < 0 ? r : port_done(&import->port, file->path, 0);
}

int import_small(struct import *import, const struct import_file *file, struct span bytes)
{
	CLEANUP(buf_clear) struct buf full = BUF_INIT(FULL_MAX);
	struct span at;
	int r = place(import, file->path, &full);

	if (r < 0)
		return r;
	at = span_of(full.data, full.len);
	r = add(import, MUST, file->path,
		&(struct sys_req){SYS_writefile,
				  {SYS_CWD, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW,
				   file->mode & 07777, file->mtime},
				  {at, bytes}});
	if (r == 0)
		r = add_owner(import, file, at);
	if (r == 0)
		r = add_mode(import, file, at);
	return r < 0 ? r : port_done(&import->port, file->path, bytes.len);
}

int import_open(struct import *import, const struct import_file *file)
{
	CLEANUP(buf_clear) struct buf full = BUF_INIT(FULL_MAX);
	int r = place(import, file->path, &full);

	if (r == 0)
		r = run_batch(import);
	if (r < 0)
		return r;
	r = sys_open(import->port.sys, SYS_CWD, span_of(full.data, full.len),
		     O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, file->mode & 07777);
	return r < 0 ? port_fail(&import->port, r, "cannot import", file->path) : r;
}

int import_write(struct import *import, int fd, struct span path, struct span bytes, int64_t offset)
{
	while (bytes.len) {
		size_t len = bytes.len < SYS_IO_MAX ? bytes.len : SYS_IO_MAX;
		ssize_t n = sys_write(import->port.sys, fd, span_of(bytes.data, len), offset);

		if (n < 0)
			return port_fail(&import->port, (int)n, "cannot import", path);
		offset += n;
		bytes = span_of(bytes.data + n, bytes.len - (size_t)n);
	}
	return 0;
}

int import_finish(struct import *import, int fd, const struct import_file *file, int64_t size)
{
	struct sys *sys = import->port.sys;
	int r = sys_truncate(sys, fd, SPAN_EMPTY, size, AT_EMPTY_PATH);

	if (r == 0 && import->port.options->owner)
		r = sys_chown(sys, fd, SPAN_EMPTY, file->uid, file->gid, AT_EMPTY_PATH);
	if (r == 0)
		r = sys_chmod(sys, fd, SPAN_EMPTY, file->mode & 07777, AT_EMPTY_PATH);
	if (r == 0)
		r = sys_utimens(sys, fd, SPAN_EMPTY, file->mtime, file->mtime, AT_EMPTY_PATH);
	(void)sys_close(sys, fd);
	if (r < 0)
		return port_fail(&import->port, r, "cannot import", file->path);
	return port_done(&import->port, file->path, (uint64_t)size);
}

/* What may be in the way of a link is replaced, as tar does. */
static int make_way(struct import *import, struct span path, struct span full)
{
	return add(import, MAY_LACK, path, &(struct sys_req){SYS_unlink, {SYS_CWD, 0}, {full}});
}

int import_symlink(struct import *import, const struct import_file *file, struct span target)
{
	CLEANUP(buf_clear) struct buf full = BUF_INIT(FULL_MAX);
	struct span at;
	int r = place(import, file->path, &full);

	if (r < 0)
		return r;
	at = span_of(full.data, full.len);
	r = make_way(import, file->path, at);
	if (r == 0)
		r = add(import, MUST, file->path,
			&(struct sys_req){SYS_symlink, {SYS_CWD}, {at, target}});
	if (r == 0)
		r = add_owner(import, file, at);
	if (r == 0)
		r = add(import, MUST, file->path,
			&(struct sys_req){SYS_utimens,
					  {SYS_CWD, file->mtime, file->mtime, AT_SYMLINK_NOFOLLOW},
					  {at}});
	return r < 0 ? r : port_done(&import->port, file->path, 0);
}

int import_link(struct import *import, struct span path, struct span to)
{
	CLEANUP(buf_clear) struct buf full = BUF_INIT(FULL_MAX);
	CLEANUP(buf_clear) struct buf first = BUF_INIT(FULL_MAX);
	struct span at;
	int r = place(import, path, &full);

	if (r == 0)
		r = place(import, to, &first);
	if (r < 0)
		return r;
	if (span_eq(path, to))
		return 0;
	at = span_of(full.data, full.len);
	r = make_way(import, path, at);
	if (r == 0)
		r = add(import, MUST, path,
			&(struct sys_req){SYS_link,
					  {SYS_CWD, SYS_CWD, 0},
					  {span_of(first.data, first.len), at}});
	return r < 0 ? r : port_done(&import->port, path, 0);
}

int import_special(struct import *import, const struct import_file *file)
{
	CLEANUP(buf_clear) struct buf full = BUF_INIT(FULL_MAX);
	struct span at;
	int r = place(import, file->path, &full);

	if (r < 0)
		return r;
	at = span_of(full.data, full.len);
	r = make_way(import, file->path, at);
	if (r == 0)
		r = add(import, MUST, file->path,
			&(struct sys_req){
				SYS_mknod, {SYS_CWD, file->mode, (int64_t)file->rdev}, {at}});
	if (r == 0)
		r = add_owner(import, file, at);
	return r < 0 ? r : port_done(&import->port, file->path, 0);
}

int import_xattr(struct import *import, struct span path, struct span name, struct span value)
{
	CLEANUP(buf_clear) struct buf full = BUF_INIT(FULL_MAX);
	int r = full_path(import, path, &full);

	return r < 0 ? r
		     : add(import, MUST, path,
			   &(struct sys_req){SYS_setxattr,
					     {SYS_CWD, AT_SYMLINK_NOFOLLOW, 0},
					     {span_of(full.data, full.len), name, value}});
}

/* ---- the end ---- */

/* Later ones are inside earlier ones: from the back, so that nothing changes a time again. */
static int set_times(struct import *import)
{
	CLEANUP(mem_free) size_t *starts = NULL;
	size_t count = 0, cap = 0;
	int r = 0;

	for (size_t pos = 0; pos < import->dir_times.len;) {
		struct dir_time time;

		if (count == cap) {
			cap = cap ? 2 * cap : 64;
			starts = mem_realloc(starts, cap * sizeof(*starts));
		}
		starts[count++] = pos;
		memcpy(&time, import->dir_times.data + pos, sizeof(time));
		pos += sizeof(time) + time.len;
	}
	while (count-- > 0 && r == 0) {
		CLEANUP(buf_clear) struct buf full = BUF_INIT(FULL_MAX);
		const char *record = import->dir_times.data + starts[count];
		struct dir_time time;
		struct span path;

		memcpy(&time, record, sizeof(time));
		path = span_of(record + sizeof(time), time.len);
		r = full_path(import, path, &full);
		if (r == 0 && time.mtime != SYS_OMIT)
			r = add(import, MUST, path,
				&(struct sys_req){SYS_utimens,
						  {SYS_CWD, time.mtime, time.mtime, 0},
						  {span_of(full.data, full.len)}});
	}
	return r;
}

int import_end(struct import *import, struct computer *computer, const char *source)
{
	int r = run_batch(import);

	if (r == 0)
		r = set_times(import);
	if (r == 0)
		r = run_batch(import);
	if (r < 0)
		return r;
	return computer_ask_take(computer, "imported",
				 json_pack("{s:o,s:I}", "source", json_bytes(span_str(source)),
					   "files", (json_int_t)import->port.result.files),
				 NULL, import->port.err);
}
