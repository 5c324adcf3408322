/* vfs_sys_name.c - the calls that make, move and remove names, and list them. */
#include "vfs/vfs_sys_i.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- making ---- */

/* Where a name is to be made. A slash behind it is only for directories. */
static int new_place(struct vfs_sys *s, int64_t dir, struct span path, bool is_dir,
		     struct place *place)
{
	int r;

	r = sys_resolve_parent(s, dir, path, place);
	if (r < 0)
		return r;
	if (place->kind != PLACE_NAME)
		return -EEXIST;
	if (place->slash && !is_dir)
		return place->inode ? -EEXIST : -ENOENT;
	return 0;
}

/* Give back the reference that comes with something new. */
static int made(struct vfs_sys *s, int r, const struct vfs_attr *attr)
{
	if (r == 0)
		vfs_forget(s->vfs, attr->ino, 1);
	return r;
}

int64_t answer_mkdir(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	struct vfs_attr attr;
	int r;

	(void)out;
	r = new_place(s, req->a[0], req->in[0], true, &place);
	if (r == 0)
		r = vfs_mkdir(s->vfs, &s->ctx, place.dir->row.ino, place.name, (uint32_t)req->a[1],
			      &attr);
	return made(s, r, &attr);
}

int64_t answer_mknod(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	struct vfs_attr attr;
	int r;

	(void)out;
	if (req->a[1] < 0 || req->a[1] > UINT32_MAX)
		return -EINVAL;
	r = new_place(s, req->a[0], req->in[0], false, &place);
	if (r == 0)
		r = vfs_mknod(s->vfs, &s->ctx, place.dir->row.ino, place.name, (uint32_t)req->a[1],
			      (uint64_t)req->a[2], &attr);
	return made(s, r, &attr);
}

int64_t answer_symlink(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	struct vfs_attr attr;
	int r;

	(void)out;
	if (req->in[1].len == 0)
		return -ENOENT;
	r = new_place(s, req->a[0], req->in[0], false, &place);
	if (r == 0)
		r = vfs_symlink(s->vfs, &s->ctx, place.dir->row.ino, place.name, req->in[1], &attr);
	return made(s, r, &attr);
}

int64_t answer_link(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place from = PLACE_INIT(s), to = PLACE_INIT(s);
	struct vfs_attr attr;
	int64_t at = req->a[2];
	int r;

	(void)out;
	if (at & ~(int64_t)(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	/* link(2) has it the other way round: links are followed when asked for. */
	at = (at & AT_EMPTY_PATH) | (at & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW);
	r = sys_resolve(s, req->a[0], req->in[0], at, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, &from);
	if (r == 0)
		r = new_place(s, req->a[1], req->in[1], false, &to);
	if (r == 0)
		r = vfs_link(s->vfs, &s->ctx, from.inode->row.ino, to.dir->row.ino, to.name, &attr);
	return made(s, r, &attr);
}

/* ---- removing, moving ---- */

static int check_unlink(const struct place *place, bool is_rmdir)
{
	if (is_rmdir) {
		switch (place->kind) {
		case PLACE_DOT:
			return -EINVAL;
		case PLACE_DOTDOT:
			return -ENOTEMPTY;
		case PLACE_ROOT:
			return -EBUSY;
		case PLACE_NAME:
		default:
			return 0;
		}
	}
	if (place->kind != PLACE_NAME)
		return -EISDIR;
	if (!place->slash)
		return 0;
	if (!place->inode)
		return -ENOENT;
	return inode_is_dir(place->inode) ? -EISDIR : -ENOTDIR;
}

int64_t answer_unlink(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	bool is_rmdir = req->a[1] & AT_REMOVEDIR;
	int r;

	(void)out;
	if (req->a[1] & ~(int64_t)AT_REMOVEDIR)
		return -EINVAL;
	r = sys_resolve_parent(s, req->a[0], req->in[0], &place);
	if (r == 0)
		r = check_unlink(&place, is_rmdir);
	if (r < 0)
		return r;
	if (is_rmdir)
		return vfs_rmdir(s->vfs, &s->ctx, place.dir->row.ino, place.name);
	return vfs_unlink(s->vfs, &s->ctx, place.dir->row.ino, place.name);
}

int64_t answer_rename(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place from = PLACE_INIT(s), to = PLACE_INIT(s);
	int64_t flags = req->a[2];
	bool exchange = flags & RENAME_EXCHANGE;
	int r;

	(void)out;
	if (flags & ~(int64_t)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	r = sys_resolve_parent(s, req->a[0], req->in[0], &from);
	if (r == 0)
		r = sys_resolve_parent(s, req->a[1], req->in[1], &to);
	if (r < 0)
		return r;
	if (from.kind != PLACE_NAME)
		return -EBUSY;
	if (to.kind != PLACE_NAME)
		return flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
	if (!from.inode)
		return -ENOENT;
	/* Linux: a slash says that it is a directory which is moved. */
	if (!inode_is_dir(from.inode) && (from.slash || (!exchange && to.slash)))
		return -ENOTDIR;
	if (exchange && to.slash && to.inode && !inode_is_dir(to.inode))
		return -ENOTDIR;
	return vfs_rename(s->vfs, &s->ctx, from.dir->row.ino, from.name, to.dir->row.ino, to.name,
			  (unsigned)flags);
}

/* ---- looking ---- */

int64_t answer_readlink(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	size_t before = out->len;
	int r;

	r = sys_resolve(s, req->a[0], req->in[0], AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH,
			AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, &place);
	if (r == 0)
		r = vfs_readlink(s->vfs, &s->ctx, place.inode->row.ino, out);
	return r < 0 ? r : (int64_t)(out->len - before);
}

int64_t answer_realpath(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	CLEANUP(buf_clear) struct buf trail = BUF_INIT(SYS_PATH_MAX);
	int r;

	vfs_lock(s->vfs);
	r = sys_walk(s, req->a[0], req->in[0], WALK_FOLLOW, &place, &trail);
	vfs_unlock(s->vfs);
	if (r == 0)
		r = buf_add(out, trail.data, trail.len);
	return r < 0 ? r : (int64_t)trail.len;
}

struct listing {
	struct vfs_sys *s;
	struct inode *dir;
	uint64_t cookie;
	struct buf *out;
	size_t left;
	bool some;
};

/* 0: taken; 1: full. */
static int list_entry_at(struct listing *list, uint64_t cookie, struct span name,
			 const struct vfs_attr *attr, bool has_stat)
{
	static const char zeros[8];
	struct sys_dirent entry = {
		.cookie = (int64_t)cookie,
		.name_len = (uint32_t)name.len,
		.has_stat = has_stat,
	};
	size_t used = sizeof(entry) + name.len, size = (used + 7) & ~(size_t)7;
	int r;

	if (size > list->left)
		return list->some ? 1 : -EINVAL;
	sys_stat_of(attr, &entry.stat);
	r = buf_add(list->out, &entry, sizeof(entry));
	if (r == 0)
		r = buf_add(list->out, name.data, name.len);
	if (r == 0)
		r = buf_add(list->out, zeros, size - used);
	list->left -= size;
	list->some = true;
	return r;
}

static int list_dots(struct listing *list)
{
	struct vfs_attr attr = {.ino = list->dir->row.ino, .mode = S_IFDIR};
	int r = 0;

	if (list->cookie < 1)
		r = list_entry_at(list, 1, SPAN("."), &attr, false);
	attr.ino = list->dir->parent ? list->dir->parent : VFS_ROOT;
	if (r == 0 && list->cookie < 2)
		r = list_entry_at(list, 2, SPAN(".."), &attr, false);
	return r;
}

static int list_entries(struct listing *list)
{
	struct vfs *vfs = list->s->vfs;
	const struct inode *dir = list->dir;
	int r = 0;

	for (size_t i = dir_seek(dir, list->cookie); i < dir->order_len && r == 0; i++) {
		const struct dir_slot *slot = &dir->order[i];
		const struct dentry *dentry = slot->dentry;
		struct vfs_attr attr;
		struct inode *inode;

		if (!dentry)
			continue;
		r = inode_get(vfs, dentry->ino, &inode);
		if (r < 0)
			return r == -ESTALE ? -EUCLEAN : r;
		inode_attr(inode, &attr);
		r = list_entry_at(list, slot->cookie, span_of(dentry->name, dentry->name_len),
				  &attr, true);
	}
	return r;
}

/* Under `lock`. Permission was checked when it was opened. */
static int list_in(struct listing *list, int64_t ino)
{
	struct vfs_sys *s = list->s;
	int r;

	r = inode_get(s->vfs, ino, &list->dir);
	if (r < 0)
		return r;
	if (!inode_is_dir(list->dir))
		return -ENOTDIR;
	r = vfs_ask(s->vfs, &s->ctx, GATE_READDIR, ino, SPAN_EMPTY);
	if (r == 0 && list->dir->row.nlink == 0)
		return -ENOENT;
	if (r == 0)
		r = dir_complete(s->vfs, list->dir, true);
	if (r == 0)
		r = list_dots(list);
	return r == 0 ? list_entries(list) : r;
}

int64_t answer_readdir(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	const struct descriptor *fd = sys_fd_for(s, req->a[0], O_RDONLY);
	struct listing list = {.s = s, .out = out, .left = out->max - out->len};
	size_t before = out->len;
	int r;

	if (!fd)
		return -EBADF;
	if (req->a[1] < 0 || req->a[2] < 0)
		return -EINVAL;
	list.cookie = (uint64_t)req->a[1];
	if ((uint64_t)req->a[2] < list.left)
		list.left = (size_t)req->a[2];
	if (list.left > SYS_IO_MAX)
		list.left = SYS_IO_MAX;
	vfs_lock(s->vfs);
	r = list_in(&list, fd->ino);
	vfs_unlock(s->vfs);
	return r < 0 ? r : (int64_t)(out->len - before);
}
