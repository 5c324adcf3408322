/* rename.c - rename(2): moving, replacing, exchanging, leaving a whiteout.
 *
 * The order of checks is that of Linux (fs/namei.c: do_renameat2, vfs_rename).
 */
#include "vfs/names_i.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* One side: a directory, a name in it, and what is there. */
struct side {
	struct inode *dir, *inode;
	struct dentry *dentry; /* NULL: nothing there */
	struct span name;
};

static int check_flags(unsigned flags)
{
	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	if ((flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT)))
		return -EINVAL;
	return 0;
}

static bool is_dots(struct span name)
{
	return span_eq(name, SPAN(".")) || span_eq(name, SPAN(".."));
}

static bool has_dir(const struct side *side)
{
	return side->dentry && inode_is_dir(side->inode);
}

/* Is `dir` at or below `above`? 1, 0, or an error. */
static int is_below(struct vfs *vfs, const struct inode *above, struct inode *dir)
{
	/* A damaged database may hold a circle; there are no more steps than inodes. */
	for (uint64_t steps = vfs->used_inodes + 2; steps; steps--) {
		int r;

		if (dir == above)
			return 1;
		if (dir->row.ino == VFS_ROOT)
			return 0;
		r = names_parent(vfs, dir, &dir);
		if (r < 0)
			return r == -ESTALE ? -EUCLEAN : r;
	}
	return -EUCLEAN;
}

/* A directory cannot go into itself, nor in place of one that it is in. */
static int check_loops(struct vfs *vfs, const struct side *from, const struct side *to,
		       unsigned flags)
{
	int r = 0;

	if (from->dir == to->dir)
		return 0;
	if (inode_is_dir(from->inode))
		r = is_below(vfs, from->inode, to->dir);
	if (r != 0)
		return r < 0 ? r : -EINVAL;
	if (has_dir(to))
		r = is_below(vfs, to->inode, from->dir);
	if (r > 0)
		return flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
	return r;
}

static int check_target(struct vfs *vfs, const struct vfs_ctx *ctx, const struct side *from,
			const struct side *to, unsigned flags)
{
	int r;

	if (!to->dentry) {
		if (to->dir->row.nlink == 0)
			return -ENOENT;
		return perm_check(vfs, ctx, to->dir, W_OK);
	}
	r = names_may_remove(vfs, ctx, to->dir, to->inode);
	if (r < 0 || (flags & RENAME_EXCHANGE))
		return r;
	if (inode_is_dir(from->inode) && !inode_is_dir(to->inode))
		return -ENOTDIR;
	if (!inode_is_dir(from->inode) && inode_is_dir(to->inode))
		return -EISDIR;
	return 0;
}

/* Permissions of both sides, and of directories whose ".." changes. */
static int check(struct vfs *vfs, const struct vfs_ctx *ctx, const struct side *from,
		 const struct side *to, unsigned flags)
{
	int r;

	r = names_may_remove(vfs, ctx, from->dir, from->inode);
	if (r == 0)
		r = check_target(vfs, ctx, from, to, flags);
	if (r == 0 && from->dir != to->dir && inode_is_dir(from->inode))
		r = perm_check(vfs, ctx, from->inode, W_OK);
	if (r == 0 && from->dir != to->dir && (flags & RENAME_EXCHANGE) && has_dir(to))
		r = perm_check(vfs, ctx, to->inode, W_OK);
	if (r == 0 && !(flags & RENAME_EXCHANGE) && has_dir(to))
		r = dir_check_empty(vfs, to->inode);
	return r;
}

/* `inode` is in `dir` now: ".." of a directory, and the link it counts for. */
static void set_parent(struct vfs *vfs, struct inode *inode, struct inode *from, struct inode *dir)
{
	if (!inode_is_dir(inode) || from == dir)
		return;
	from->row.nlink--;
	dir->row.nlink++;
	inode->parent = dir->row.ino;
	inode->row.rdev = (uint64_t)dir->row.ino;
	inode_dirty(vfs, inode, INODE_DIRTY);
}

static void touch_all(struct vfs *vfs, const struct side *from, const struct side *to)
{
	inode_touch(vfs, from->inode, TOUCH_CTIME);
	inode_touch(vfs, from->dir, TOUCH_CTIME | TOUCH_MTIME);
	if (to->dir != from->dir)
		inode_touch(vfs, to->dir, TOUCH_CTIME | TOUCH_MTIME);
}

static void exchange(struct vfs *vfs, const struct vfs_ctx *ctx, const struct side *from,
		     const struct side *to)
{
	int64_t here = from->dir->row.ino, there = to->dir->row.ino;

	dir_set(vfs, from->dir, from->name, to->inode->row.ino, to->inode->row.mode);
	dir_set(vfs, to->dir, to->name, from->inode->row.ino, from->inode->row.mode);
	set_parent(vfs, from->inode, from->dir, to->dir);
	set_parent(vfs, to->inode, to->dir, from->dir);
	touch_all(vfs, from, to);
	inode_touch(vfs, to->inode, TOUCH_CTIME);
	watch_tell_move(vfs, ctx, from->inode->row.ino, here, from->name, there, to->name);
	watch_tell_move(vfs, ctx, to->inode->row.ino, there, to->name, here, from->name);
}

static void put_whiteout(struct vfs *vfs, const struct vfs_ctx *ctx, const struct side *from)
{
	struct inode *inode = inode_new(vfs, ctx, from->dir, S_IFCHR);

	dir_set(vfs, from->dir, from->name, inode->row.ino, inode->row.mode);
	watch_tell(vfs, ctx, VFS_EVENT_CREATE, inode, from->dir->row.ino, from->name);
}

static void move(struct vfs *vfs, const struct vfs_ctx *ctx, const struct side *from,
		 const struct side *to, unsigned flags)
{
	int64_t parent = from->dir->row.ino, parent2 = to->dir->row.ino;

	if (to->dentry) {
		names_drop(vfs, to->dir, to->inode);
		watch_tell(vfs, ctx, VFS_EVENT_DELETE, to->inode, parent2, to->name);
	}
	dir_set(vfs, to->dir, to->name, from->inode->row.ino, from->inode->row.mode);
	set_parent(vfs, from->inode, from->dir, to->dir);
	watch_tell_move(vfs, ctx, from->inode->row.ino, parent, from->name, parent2, to->name);
	if (flags & RENAME_WHITEOUT)
		put_whiteout(vfs, ctx, from);
	else
		dir_remove(vfs, from->dir, from->dentry);
	touch_all(vfs, from, to);
	if (to->dentry)
		inode_settle(vfs, to->inode);
}

static int find_sides(struct vfs *vfs, struct side *from, struct side *to, unsigned flags)
{
	int r;

	if (is_dots(from->name))
		return -EBUSY;
	if (is_dots(to->name))
		return flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
	if (vfs->readonly)
		return -EROFS;
	r = names_find(vfs, from->dir, from->name, &from->dentry, &from->inode);
	if (r < 0)
		return r;
	r = names_find(vfs, to->dir, to->name, &to->dentry, &to->inode);
	if (r == -ENOENT) {
		to->dentry = NULL;
		if (flags & RENAME_EXCHANGE)
			return -ENOENT;
		return perm_new_name(to->name);
	}
	if (r < 0)
		return r;
	return flags & RENAME_NOREPLACE ? -EEXIST : 0;
}

static int rename_in(struct vfs *vfs, const struct vfs_ctx *ctx, struct side *from, struct side *to,
		     unsigned flags)
{
	int r;

	r = find_sides(vfs, from, to, flags);
	if (r == 0)
		r = check_loops(vfs, from, to, flags);
	if (r < 0)
		return r;
	if (to->dentry && to->inode == from->inode)
		return 0; /* two names of one file: both stay */
	r = check(vfs, ctx, from, to, flags);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_RENAME, from->inode->row.ino, to->name);
	if (r == 0 && (flags & RENAME_WHITEOUT))
		r = quota_take_inode(vfs);
	if (r < 0)
		return r;
	vfs_note(vfs, ctx,
		 (struct gate_record){.op = GATE_RENAME,
				      .parent = from->dir->row.ino,
				      .ino = from->inode->row.ino,
				      .parent2 = to->dir->row.ino,
				      .name = from->name,
				      .name2 = to->name});
	if (flags & RENAME_EXCHANGE)
		exchange(vfs, ctx, from, to);
	else
		move(vfs, ctx, from, to, flags);
	return 0;
}

int vfs_rename(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
	       int64_t parent2, struct span name2, unsigned flags)
{
	struct side from = {.name = name}, to = {.name = name2};
	int r;

	r = check_flags(flags);
	if (r == 0)
		r = flush_throttle(vfs);
	if (r < 0)
		return r;
	vfs_lock(vfs);
	r = names_dir(vfs, ctx, parent, &from.dir);
	if (r == 0)
		r = names_dir(vfs, ctx, parent2, &to.dir);
	if (r == 0)
		r = rename_in(vfs, ctx, &from, &to, flags);
	vfs_unlock(vfs);
	return r;
}
