/* vfs_sys_attr.c - the calls on attributes: stat, chmod, extended attributes and their like. */
#include "vfs/vfs_sys_i.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_USUAL (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)

void sys_stat_of(const struct vfs_attr *attr, struct sys_stat *ret_stat)
{
	*ret_stat = (struct sys_stat){
		.ino = attr->ino,
		.mode = attr->mode,
		.nlink = attr->nlink,
		.uid = attr->uid,
		.gid = attr->gid,
		.rdev = attr->rdev,
		.size = attr->size,
		.blocks = attr->blocks,
		.atime = attr->atime,
		.mtime = attr->mtime,
		.ctime = attr->ctime,
		.btime = attr->btime,
	};
}

static int add_stat(struct vfs_sys *s, int64_t ino, struct buf *out)
{
	struct vfs_attr attr;
	struct sys_stat st;
	int r;

	r = vfs_getattr(s->vfs, &s->ctx, ino, &attr);
	if (r < 0)
		return r;
	sys_stat_of(&attr, &st);
	return buf_add(out, &st, sizeof(st));
}

int64_t answer_stat(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	int r;

	r = sys_resolve(s, req->a[0], req->in[0], req->a[1],
			AT_USUAL | AT_NO_AUTOMOUNT | AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC,
			&place);
	return r < 0 ? r : add_stat(s, place.inode->row.ino, out);
}

int64_t answer_fstat(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	const struct descriptor *fd = sys_fd(s, req->a[0]);

	return fd ? add_stat(s, fd->ino, out) : -EBADF;
}

static int set_attr(struct vfs_sys *s, const struct place *place, unsigned set,
		    const struct vfs_attr *attr)
{
	struct vfs_attr now;

	return vfs_setattr(s->vfs, &s->ctx, place->inode->row.ino, set, attr, &now);
}

int64_t answer_chmod(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	const struct vfs_attr attr = {.mode = (uint32_t)req->a[1] & 07777};
	int r;

	(void)out;
	r = sys_resolve(s, req->a[0], req->in[0], req->a[2], AT_USUAL, &place);
	if (r == 0 && S_ISLNK(place.inode->row.mode))
		r = -EOPNOTSUPP; /* as fchmodat2(2) */
	return r < 0 ? r : set_attr(s, &place, VFS_SET_MODE, &attr);
}

int64_t answer_chown(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	struct vfs_attr attr = {.uid = (uint32_t)req->a[1], .gid = (uint32_t)req->a[2]};
	unsigned set = 0;
	int r;

	(void)out;
	for (int i = 1; i <= 2; i++)
		if (req->a[i] < -1 || req->a[i] >= UINT32_MAX)
			return -EINVAL;
	if (req->a[1] != -1)
		set |= VFS_SET_UID;
	if (req->a[2] != -1)
		set |= VFS_SET_GID;
	r = sys_resolve(s, req->a[0], req->in[0], req->a[3], AT_USUAL, &place);
	return r < 0 ? r : set_attr(s, &place, set, &attr);
}

int64_t answer_utimens(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	const struct vfs_attr attr = {.atime = req->a[1], .mtime = req->a[2]};
	unsigned set = 0;
	int r;

	(void)out;
	if (attr.atime != SYS_OMIT)
		set |= attr.atime == SYS_NOW ? VFS_SET_ATIME_NOW : VFS_SET_ATIME;
	if (attr.mtime != SYS_OMIT)
		set |= attr.mtime == SYS_NOW ? VFS_SET_MTIME_NOW : VFS_SET_MTIME;
	r = sys_resolve(s, req->a[0], req->in[0], req->a[3], AT_USUAL, &place);
	return r < 0 || !set ? r : set_attr(s, &place, set, &attr);
}

int64_t answer_truncate(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	const struct vfs_attr attr = {.size = req->a[1]};
	unsigned set = VFS_SET_SIZE;
	int r;

	(void)out;
	if (attr.size < 0)
		return -EINVAL;
	if (req->in[0].len == 0 && (req->a[2] & AT_EMPTY_PATH)) {
		if (!sys_fd_for(s, req->a[0], O_WRONLY))
			return sys_fd(s, req->a[0]) ? -EINVAL : -EBADF;
		set |= VFS_SET_HANDLE;
	}
	r = sys_resolve(s, req->a[0], req->in[0], req->a[2], AT_EMPTY_PATH, &place);
	return r < 0 ? r : set_attr(s, &place, set, &attr);
}

int64_t answer_access(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	int r;

	(void)out;
	if (req->a[1] & ~(int64_t)(R_OK | W_OK | X_OK))
		return -EINVAL;
	r = sys_resolve(s, req->a[0], req->in[0], req->a[2] & ~(int64_t)AT_EACCESS, AT_USUAL,
			&place);
	if (r < 0)
		return r;
	return vfs_access(s->vfs, &s->ctx, place.inode->row.ino, (int)req->a[1]);
}

int64_t answer_statfs(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	struct vfs_statfs have;
	struct sys_statfs st;
	int r;

	(void)req;
	r = vfs_statfs(s->vfs, &have);
	if (r < 0)
		return r;
	st = (struct sys_statfs){have.bytes, have.bytes_free, have.inodes, have.inodes_free};
	return buf_add(out, &st, sizeof(st));
}

/* ---- extended attributes ---- */

int64_t answer_getxattr(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	size_t before = out->len;
	int r;

	r = sys_resolve(s, req->a[0], req->in[0], req->a[1], AT_USUAL, &place);
	if (r == 0)
		r = vfs_getxattr(s->vfs, &s->ctx, place.inode->row.ino, req->in[1], out);
	return r < 0 ? r : (int64_t)(out->len - before);
}

int64_t answer_setxattr(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	int r;

	(void)out;
	if (req->a[2] < 0 || req->a[2] > INT32_MAX)
		return -EINVAL;
	r = sys_resolve(s, req->a[0], req->in[0], req->a[1], AT_USUAL, &place);
	if (r < 0)
		return r;
	return vfs_setxattr(s->vfs, &s->ctx, place.inode->row.ino, req->in[1], req->in[2],
			    (int)req->a[2]);
}

int64_t answer_listxattr(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	size_t before = out->len;
	int r;

	r = sys_resolve(s, req->a[0], req->in[0], req->a[1], AT_USUAL, &place);
	if (r == 0)
		r = vfs_listxattr(s->vfs, &s->ctx, place.inode->row.ino, out);
	return r < 0 ? r : (int64_t)(out->len - before);
}

int64_t answer_rmxattr(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	int r;

	(void)out;
	r = sys_resolve(s, req->a[0], req->in[0], req->a[1], AT_USUAL, &place);
	return r < 0 ? r : vfs_removexattr(s->vfs, &s->ctx, place.inode->row.ino, req->in[1]);
}
