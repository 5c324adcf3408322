/* vfs_sys.c - struct sys onto a vfs: dispatch, descriptors, batches. */
#include "base/mem.h"
#include "vfs/vfs_sys_i.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>

/* ---- descriptors ---- */

struct descriptor *sys_fd(struct vfs_sys *s, int64_t fd)
{
	if (fd < 0 || (uint64_t)fd >= s->fds_len || !s->fds[fd].ino)
		return NULL;
	return &s->fds[fd];
}

struct descriptor *sys_fd_for(struct vfs_sys *s, int64_t fd, int accmode)
{
	struct descriptor *have = sys_fd(s, fd);

	if (!have || (have->flags & O_PATH))
		return NULL;
	if ((have->flags & O_ACCMODE) != O_RDWR && (have->flags & O_ACCMODE) != accmode)
		return NULL;
	return have;
}

static size_t lowest_free(const struct vfs_sys *s)
{
	size_t i = s->lowest;

	while (i < s->fds_len && s->fds[i].ino)
		i++;
	return i;
}

bool sys_fd_room(const struct vfs_sys *s)
{
	return lowest_free(s) < VFS_SYS_FDS_MAX;
}

int sys_fd_new(struct vfs_sys *s, int64_t ino, int flags)
{
	size_t i = lowest_free(s);

	if (i >= VFS_SYS_FDS_MAX)
		return -EMFILE;
	if (i == s->fds_len) {
		size_t len = s->fds_len ? s->fds_len * 2 : 8;

		s->fds = mem_realloc(s->fds, len * sizeof(*s->fds));
		memset(&s->fds[s->fds_len], 0, (len - s->fds_len) * sizeof(*s->fds));
		s->fds_len = len;
	}
	s->fds[i] = (struct descriptor){.ino = ino, .flags = flags};
	s->lowest = i + 1;
	return (int)i;
}

void sys_fd_close(struct vfs_sys *s, struct descriptor *fd)
{
	const struct vfs_lock unlock = {
		.type = F_UNLCK, .flock = true, .end = INT64_MAX, .owner = fd->owner};
	size_t i = (size_t)(fd - s->fds);

	if (fd->owner)
		(void)!vfs_lock_set(s->vfs, fd->ino, &unlock, NULL);
	vfs_release(s->vfs, fd->ino);
	fd->ino = 0;
	if (i < s->lowest)
		s->lowest = i;
}

int64_t answer_close(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	struct descriptor *fd = sys_fd(s, req->a[0]);

	(void)out;
	if (!fd)
		return -EBADF;
	sys_fd_close(s, fd);
	return 0;
}

int64_t answer_flock(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	static _Atomic uint64_t next_owner;
	struct descriptor *fd = sys_fd(s, req->a[0]);
	struct vfs_lock lock = {.flock = true, .end = INT64_MAX, .pid = s->ctx.who.pid};
	int r;

	(void)out;
	if (!fd || (fd->flags & O_PATH))
		return -EBADF;
	switch (req->a[1] & ~(int64_t)LOCK_NB) {
	case LOCK_SH:
		lock.type = F_RDLCK;
		break;
	case LOCK_EX:
		lock.type = F_WRLCK;
		break;
	case LOCK_UN:
		lock.type = F_UNLCK;
		break;
	default:
		return -EINVAL;
	}
	if (!fd->owner)
		fd->owner = (UINT64_C(1) << 63) | ++next_owner; /* never one of a kernel's */
	lock.owner = fd->owner;
	r = vfs_lock_set(s->vfs, fd->ino, &lock, NULL);
	return r == -EAGAIN ? -EWOULDBLOCK : r;
}

/* ---- dispatch ---- */

static int64_t (*const serve[])(struct vfs_sys *s, const struct sys_req *req, struct buf *out) = {
#define CALL(name, number, right, args, in, max_out) [number] = answer_##name,
#include "sys/calls.def"
#undef CALL
};

static int64_t vfs_sys_call(struct sys *sys, const struct sys_req *req, struct buf *out)
{
	struct vfs_sys *s = (struct vfs_sys *)sys;
	const struct sys_call_info *info = sys_call_info(req->call);
	size_t before;
	int64_t r;

	if (!info)
		return -ENOSYS;
	if (info->max_out && !out)
		return -EINVAL;
	before = out ? out->len : 0;
	r = serve[req->call](s, req, out);
	if (r < 0 && out)
		buf_truncate(out, before);
	return r;
}

static void vfs_sys_free(struct sys *sys)
{
	struct vfs_sys *s = (struct vfs_sys *)sys;

	for (size_t i = 0; i < s->fds_len; i++)
		if (s->fds[i].ino)
			sys_fd_close(s, &s->fds[i]);
	free(s->fds);
	free(s);
}

struct sys *vfs_sys_new(struct vfs *vfs, const struct vfs_ctx *ctx)
{
	static const struct sys_ops ops = {.call = vfs_sys_call, .free = vfs_sys_free};
	struct vfs_sys *s = mem_alloc0(sizeof(*s));

	s->sys.ops = &ops;
	s->vfs = vfs;
	s->ctx = *ctx;
	return &s->sys;
}

/* ---- batches ---- */

#define REPLY_HEADER 16 /* of sys_rep_encode */

/* The most bytes its reply can carry. */
static size_t reply_max(const struct sys_req *req)
{
	size_t max = sys_call_info(req->call)->max_out, asked = max;

	if (req->call == SYS_read)
		asked = (size_t)req->a[1];
	else if (req->call == SYS_readdir)
		asked = (size_t)req->a[2];
	else if (req->call == SYS_readfile)
		asked = (size_t)req->a[2] + sizeof(struct sys_stat);
	return asked < max ? asked : max;
}

/* Put the descriptor that was opened last where SYS_LAST stands. */
static void put_last(struct sys_req *req, int64_t last)
{
	int second = -1;

	if (req->call == SYS_rename || req->call == SYS_link)
		second = 1;
	else if (req->call == SYS_copy)
		second = 2;
	if (sys_call_info(req->call)->args && req->a[0] == SYS_LAST)
		req->a[0] = last;
	if (second >= 0 && req->a[second] == SYS_LAST)
		req->a[second] = last;
}

/* Every request can be decoded: what follows is done, and answered. */
static int check_wire(struct span wire)
{
	struct sys_req req;
	int r = 0;

	while (wire.len && r == 0)
		r = sys_req_decode(&wire, &req);
	return r;
}

/* 0, or -EFBIG with nothing done. */
static int batch_one(struct vfs_sys *s, struct sys_req *req, int64_t *last, int64_t *ret_answer,
		     struct buf *out)
{
	size_t room = out->max - out->len;
	CLEANUP(buf_clear) struct buf bytes = BUF_INIT(0);
	int64_t r = sys_req_check(req);

	if (room < REPLY_HEADER)
		return -EFBIG;
	if (r == 0 && req->call == SYS_batch)
		r = -EINVAL;
	if (r == 0 && room - REPLY_HEADER < reply_max(req))
		return -EFBIG;
	if (r == 0) {
		bytes.max = reply_max(req);
		put_last(req, *last);
		r = vfs_sys_call(&s->sys, req, &bytes);
		if (req->call == SYS_open)
			*last = r < 0 ? -1 : r;
	}
	*ret_answer = r;
	return sys_rep_encode(r, span_of(bytes.data, bytes.len), out);
}

int64_t answer_batch(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	struct span wire = req->in[0];
	int64_t count = 0, last = -1, answer = 0;
	int r;

	if (req->a[0] & ~(int64_t)SYS_BATCH_STOP)
		return -EINVAL;
	r = check_wire(wire);
	while (wire.len && r == 0) {
		struct sys_req one;

		r = sys_req_decode(&wire, &one);
		if (r == 0)
			r = batch_one(s, &one, &last, &answer, out);
		if (r < 0)
			break;
		count++;
		if (answer < 0 && (req->a[0] & SYS_BATCH_STOP))
			break;
	}
	return r == -EPROTO ? r : count;
}
