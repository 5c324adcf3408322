/* names.c - what makes, finds and removes names: lookup, create, link, unlink and their like. */
#include "vfs/names_i.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

int names_dir(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, struct inode **ret_dir)
{
	struct inode *dir;
	int r;

	r = inode_get(vfs, ino, &dir);
	if (r < 0)
		return r;
	if (!inode_is_dir(dir))
		return -ENOTDIR;
	r = perm_check(vfs, ctx, dir, X_OK);
	if (r < 0)
		return r;
	*ret_dir = dir;
	return 0;
}

int names_find(struct vfs *vfs, struct inode *dir, struct span name, struct dentry **ret_dentry,
	       struct inode **ret_inode)
{
	int r;

	r = dir_find(vfs, dir, name, ret_dentry);
	if (r < 0)
		return r;
	r = inode_get(vfs, (*ret_dentry)->ino, ret_inode);
	return r == -ESTALE ? -EUCLEAN : r; /* an entry that leads nowhere */
}

int names_parent(struct vfs *vfs, const struct inode *dir, struct inode **ret_parent)
{
	return inode_get(vfs, dir->parent ? dir->parent : VFS_ROOT, ret_parent);
}

/* ---- lookup ---- */

static int lookup(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
		  struct inode **ret_inode)
{
	struct dentry *dentry;
	struct inode *dir;
	int r;

	r = names_dir(vfs, ctx, parent, &dir);
	if (r < 0)
		return r;
	r = vfs_ask(vfs, ctx, GATE_STAT, parent, name);
	if (r < 0)
		return r;
	if (span_eq(name, SPAN("."))) {
		*ret_inode = dir;
		return 0;
	}
	if (span_eq(name, SPAN("..")))
		return names_parent(vfs, dir, ret_inode);
	return names_find(vfs, dir, name, &dentry, ret_inode);
}

/* May a kernel hold newer bytes than we do, of a file somebody else looks at? */
static bool held_elsewhere(const struct vfs *vfs, const struct vfs_ctx *ctx,
			   const struct inode *inode)
{
	return vfs->pull && ctx->source != vfs->pull_source && inode->lookups &&
	       inode_is_file(inode);
}

int vfs_lookup(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
	       struct vfs_attr *ret_attr)
{
	struct inode *inode;
	bool pull;
	int r;

	vfs_lock(vfs);
	r = lookup(vfs, ctx, parent, name, &inode);
	if (r < 0) {
		vfs_unlock(vfs);
		return r;
	}
	pull = held_elsewhere(vfs, ctx, inode);
	inode->lookups++;
	if (pull) {
		int64_t ino = inode->row.ino;

		vfs_unlock(vfs);
		watch_pull(vfs, ctx, ino);
		vfs_lock(vfs);
	}
	inode_attr(inode, ret_attr);
	vfs_unlock(vfs);
	return 0;
}

void vfs_forget(struct vfs *vfs, int64_t ino, uint64_t count)
{
	struct inode *inode;

	vfs_lock(vfs);
	inode = inode_peek(vfs, ino);
	if (inode) {
		/* A kernel that gives back more than it has is not believed. */
		inode->lookups -= count < inode->lookups ? count : inode->lookups;
		inode_settle(vfs, inode);
	}
	vfs_unlock(vfs);
}

/* ---- making ---- */

/* What is to be made, and where. */
struct making {
	enum gate_op op;
	int64_t parent;
	struct span name, target;
	uint32_t mode;
	uint64_t rdev;
};

/* May a name that is not there be made here? */
static int check_make(struct vfs *vfs, const struct vfs_ctx *ctx, const struct inode *dir)
{
	if (dir->row.nlink == 0)
		return -ENOENT;
	return perm_check(vfs, ctx, dir, W_OK);
}

/* The same for a name that may be there: in the order Linux checks. */
static int check_new(struct vfs *vfs, const struct vfs_ctx *ctx, struct inode *dir,
		     struct span name)
{
	struct dentry *dentry;
	int r;

	r = perm_new_name(name);
	if (r < 0)
		return r;
	r = dir_find(vfs, dir, name, &dentry);
	if (r != -ENOENT)
		return r < 0 ? r : -EEXIST;
	return check_make(vfs, ctx, dir);
}

static bool may_mknod(const struct vfs_ctx *ctx, const struct making *making)
{
	if (!S_ISCHR(making->mode) && !S_ISBLK(making->mode))
		return true;
	if (S_ISCHR(making->mode) && making->rdev == 0)
		return true; /* a whiteout */
	return ctx->trusted || ctx->who.uid == 0;
}

static void put_target(struct vfs *vfs, struct inode *inode, struct span target)
{
	struct blob *blob = blob_own(&inode->blob, target.len);

	if (target.len)
		memcpy(blob->data, target.data, target.len);
	blob->len = target.len;
	inode->row.size = (int64_t)target.len;
	vfs->dirty_bytes += target.len;
	inode_dirty(vfs, inode, INODE_CONTENT);
}

static int make_in(struct vfs *vfs, const struct vfs_ctx *ctx, const struct making *making,
		   struct inode *dir, struct vfs_attr *ret_attr)
{
	struct inode *inode;
	int r;

	if (!may_mknod(ctx, making))
		return -EPERM;
	r = vfs_ask(vfs, ctx, making->op, making->parent, making->name);
	if (r < 0)
		return r;
	r = quota_take_inode(vfs);
	if (r < 0)
		return r;
	inode = inode_new(vfs, ctx, dir, making->mode);
	if (S_ISDIR(making->mode)) {
		inode->parent = making->parent;
		dir->row.nlink++;
	} else if (S_ISLNK(making->mode)) {
		put_target(vfs, inode, making->target);
	} else if (S_ISCHR(making->mode) || S_ISBLK(making->mode)) {
		inode->row.rdev = making->rdev;
	}
	dir_set(vfs, dir, making->name, inode->row.ino, inode->row.mode);
	inode_touch(vfs, dir, TOUCH_CTIME | TOUCH_MTIME);
	inode->lookups++;
	vfs_note(vfs, ctx,
		 (struct gate_record){.op = making->op,
				      .parent = making->parent,
				      .ino = inode->row.ino,
				      .name = making->name,
				      .size = inode->row.mode});
	watch_tell(vfs, ctx, VFS_EVENT_CREATE, inode, making->parent, making->name);
	inode_attr(inode, ret_attr);
	return 0;
}

static int make(struct vfs *vfs, const struct vfs_ctx *ctx, const struct making *making,
		struct vfs_attr *ret_attr)
{
	struct inode *dir;
	int r;

	r = flush_throttle(vfs);
	if (r < 0)
		return r;
	vfs_lock(vfs);
	r = names_dir(vfs, ctx, making->parent, &dir);
	if (r == 0)
		r = check_new(vfs, ctx, dir, making->name);
	if (r == 0)
		r = make_in(vfs, ctx, making, dir, ret_attr);
	vfs_unlock(vfs);
	return r;
}

int vfs_mknod(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
	      uint32_t mode, uint64_t rdev, struct vfs_attr *ret_attr)
{
	struct making making = {.op = GATE_MKNOD, .parent = parent, .name = name, .rdev = rdev};

	if ((mode & S_IFMT) == 0)
		mode |= S_IFREG;
	switch (mode & S_IFMT) {
	case S_IFREG:
		making.op = GATE_CREATE;
		break;
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		break;
	case S_IFDIR:
		return -EPERM;
	default:
		return -EINVAL;
	}
	making.mode = mode & (S_IFMT | 07777);
	return make(vfs, ctx, &making, ret_attr);
}

int vfs_mkdir(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
	      uint32_t mode, struct vfs_attr *ret_attr)
{
	/* Linux: mkdir sets the sticky bit, never setuid or setgid. */
	struct making making = {
		.op = GATE_MKDIR,
		.parent = parent,
		.name = name,
		.mode = S_IFDIR | (mode & 01777),
	};

	return make(vfs, ctx, &making, ret_attr);
}

int vfs_symlink(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
		struct span target, struct vfs_attr *ret_attr)
{
	struct making making = {
		.op = GATE_SYMLINK,
		.parent = parent,
		.name = name,
		.target = target,
		.mode = S_IFLNK | 0777,
	};

	if (target.len == 0)
		return -ENOENT;
	if (target.len >= PATH_MAX)
		return -ENAMETOOLONG;
	if (memchr(target.data, 0, target.len))
		return -EINVAL;
	return make(vfs, ctx, &making, ret_attr);
}

/* Open what is there: permissions as open(2) checks them. Counts a reference. */
static int create_existing(struct vfs *vfs, const struct vfs_ctx *ctx, struct inode *inode,
			   struct span name, int flags)
{
	int mask = (flags & O_ACCMODE) == O_RDONLY ? R_OK : W_OK;
	int r;

	if ((flags & O_ACCMODE) == O_RDWR)
		mask = R_OK | W_OK;
	if (flags & O_EXCL)
		return -EEXIST;
	if (inode_is_dir(inode))
		return -EISDIR;
	if (S_ISLNK(inode->row.mode))
		return -ELOOP;
	r = perm_check(vfs, ctx, inode, mask | (flags & O_TRUNC ? W_OK : 0));
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_OPEN, inode->row.ino, name);
	if (r == 0)
		inode->lookups++;
	return r;
}

/* 0: made; 1: it was there, and is referenced. */
static int create(struct vfs *vfs, const struct vfs_ctx *ctx, const struct making *making,
		  int flags, struct vfs_attr *ret_attr)
{
	struct dentry *dentry;
	struct inode *dir, *inode;
	int r;

	r = names_dir(vfs, ctx, making->parent, &dir);
	if (r < 0)
		return r;
	r = names_find(vfs, dir, making->name, &dentry, &inode);
	if (r == 0) {
		r = create_existing(vfs, ctx, inode, making->name, flags);
		if (r < 0)
			return r;
		inode_attr(inode, ret_attr);
		return 1;
	}
	if (r != -ENOENT)
		return r;
	r = perm_new_name(making->name);
	if (r == 0)
		r = check_make(vfs, ctx, dir);
	return r < 0 ? r : make_in(vfs, ctx, making, dir, ret_attr);
}

int names_create(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
		 uint32_t mode, struct inode **ret_inode)
{
	const struct making making = {
		.op = GATE_CREATE,
		.parent = parent,
		.name = name,
		.mode = S_IFREG | (mode & 07777),
	};
	struct vfs_attr attr = {0};
	int r;

	r = create(vfs, ctx, &making, O_EXCL, &attr);
	return r < 0 ? r : inode_get(vfs, attr.ino, ret_inode);
}

int vfs_create(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
	       uint32_t mode, int flags, struct vfs_attr *ret_attr)
{
	struct making making = {
		.op = GATE_CREATE,
		.parent = parent,
		.name = name,
		.mode = S_IFREG | (mode & 07777),
	};
	struct vfs_attr attr = {0}, size = {0};
	int r;

	r = flush_throttle(vfs);
	if (r < 0)
		return r;
	vfs_lock(vfs);
	r = create(vfs, ctx, &making, flags, &attr);
	vfs_unlock(vfs);
	if (r == 1 && (flags & O_TRUNC) && S_ISREG(attr.mode)) {
		int64_t ino = attr.ino;

		r = vfs_setattr(vfs, ctx, ino, VFS_SET_SIZE | VFS_SET_HANDLE | VFS_SET_KILLPRIV,
				&size, &attr);
		if (r < 0)
			vfs_forget(vfs, ino, 1);
	}
	if (r < 0)
		return r;
	*ret_attr = attr;
	return 0;
}

static int tmpfile_in(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, uint32_t mode,
		      struct vfs_attr *ret_attr)
{
	struct inode *dir, *inode;
	int r;

	r = names_dir(vfs, ctx, parent, &dir);
	if (r == 0 && dir->row.nlink == 0)
		r = -ENOENT;
	if (r == 0)
		r = perm_check(vfs, ctx, dir, W_OK);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_CREATE, parent, SPAN_EMPTY);
	if (r == 0)
		r = quota_take_inode(vfs);
	if (r < 0)
		return r;
	inode = inode_new(vfs, ctx, dir, S_IFREG | (mode & 07777));
	inode->row.nlink = 0;
	inode->row.flags |= STORE_NODE_ORPHAN;
	inode->state |= INODE_LINKABLE;
	inode->lookups++;
	vfs_note(vfs, ctx,
		 (struct gate_record){.op = GATE_CREATE,
				      .parent = parent,
				      .ino = inode->row.ino,
				      .size = inode->row.mode});
	inode_attr(inode, ret_attr);
	return 0;
}

int vfs_tmpfile(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, uint32_t mode,
		struct vfs_attr *ret_attr)
{
	int r;

	r = flush_throttle(vfs);
	if (r < 0)
		return r;
	vfs_lock(vfs);
	r = tmpfile_in(vfs, ctx, parent, mode, ret_attr);
	vfs_unlock(vfs);
	return r;
}

/* ---- link ---- */

static int check_link(const struct vfs_ctx *ctx, const struct inode *inode)
{
	if (inode_is_dir(inode))
		return -EPERM;
	if (inode->row.nlink == 0 && !(inode->state & INODE_LINKABLE))
		return -ENOENT;
	if (inode->row.nlink >= VFS_LINK_MAX)
		return -EMLINK;
	(void)ctx;
	return 0;
}

static int link_in(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t parent,
		   struct span name, struct vfs_attr *ret_attr)
{
	struct inode *dir = NULL, *inode = NULL;
	int r;

	r = inode_get(vfs, ino, &inode);
	if (r == 0)
		r = names_dir(vfs, ctx, parent, &dir);
	if (r == 0)
		r = check_new(vfs, ctx, dir, name);
	if (r == 0)
		r = check_link(ctx, inode);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_LINK, ino, name);
	if (r < 0)
		return r;
	inode->row.nlink++;
	inode->row.flags &= ~(uint32_t)STORE_NODE_ORPHAN;
	inode->state &= ~(unsigned)INODE_LINKABLE;
	inode_touch(vfs, inode, TOUCH_CTIME);
	inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE);
	dir_set(vfs, dir, name, ino, inode->row.mode);
	inode_touch(vfs, dir, TOUCH_CTIME | TOUCH_MTIME);
	inode->lookups++;
	vfs_note(vfs, ctx,
		 (struct gate_record){.op = GATE_LINK, .parent = parent, .ino = ino, .name = name});
	watch_tell(vfs, ctx, VFS_EVENT_CREATE, inode, parent, name);
	inode_attr(inode, ret_attr);
	return 0;
}

int vfs_link(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t parent,
	     struct span name, struct vfs_attr *ret_attr)
{
	int r;

	r = flush_throttle(vfs);
	if (r < 0)
		return r;
	watch_pull(vfs, ctx, ino);
	vfs_lock(vfs);
	r = link_in(vfs, ctx, ino, parent, name, ret_attr);
	vfs_unlock(vfs);
	return r;
}

int vfs_readlink(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, struct buf *target)
{
	struct inode *inode;
	int r;

	vfs_lock(vfs);
	r = inode_get(vfs, ino, &inode);
	if (r == 0 && !S_ISLNK(inode->row.mode))
		r = -EINVAL;
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_READ, ino, SPAN_EMPTY);
	if (r == 0)
		r = file_load(vfs, inode);
	if (r == 0 && inode->blob)
		r = buf_add(target, inode->blob->data, inode->blob->len);
	vfs_unlock(vfs);
	return r;
}

/* ---- removing ---- */

int names_may_remove(struct vfs *vfs, const struct vfs_ctx *ctx, const struct inode *dir,
		     const struct inode *inode)
{
	int r;

	r = perm_check(vfs, ctx, dir, W_OK);
	return r < 0 ? r : perm_sticky(ctx, dir, inode);
}

void names_drop(struct vfs *vfs, struct inode *dir, struct inode *inode)
{
	if (inode_is_dir(inode)) {
		inode->row.nlink = 0;
		dir->row.nlink--;
	} else if (inode->row.nlink) {
		inode->row.nlink--;
	}
	inode_touch(vfs, inode, TOUCH_CTIME);
	inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE);
}

static int check_kind(struct vfs *vfs, struct inode *inode, bool is_rmdir)
{
	if (!is_rmdir)
		return inode_is_dir(inode) ? -EISDIR : 0;
	if (!inode_is_dir(inode))
		return -ENOTDIR;
	return dir_check_empty(vfs, inode);
}

static int remove_in(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
		     bool is_rmdir)
{
	enum gate_op op = is_rmdir ? GATE_RMDIR : GATE_UNLINK;
	struct dentry *dentry;
	struct inode *dir, *inode;
	int r;

	r = names_dir(vfs, ctx, parent, &dir);
	if (r < 0)
		return r;
	if (vfs->readonly)
		return -EROFS;
	r = names_find(vfs, dir, name, &dentry, &inode);
	if (r == 0)
		r = names_may_remove(vfs, ctx, dir, inode);
	if (r == 0)
		r = check_kind(vfs, inode, is_rmdir);
	if (r == 0)
		r = vfs_ask(vfs, ctx, op, inode->row.ino, name);
	if (r < 0)
		return r;
	vfs_note(vfs, ctx,
		 (struct gate_record){
			 .op = op, .parent = parent, .ino = inode->row.ino, .name = name});
	dir_remove(vfs, dir, dentry);
	names_drop(vfs, dir, inode);
	inode_touch(vfs, dir, TOUCH_CTIME | TOUCH_MTIME);
	watch_tell(vfs, ctx, VFS_EVENT_DELETE, inode, parent, name);
	inode_settle(vfs, inode);
	return 0;
}

int vfs_unlink(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name)
{
	int r;

	if (span_eq(name, SPAN(".")) || span_eq(name, SPAN("..")))
		return -EISDIR;
	vfs_lock(vfs);
	r = remove_in(vfs, ctx, parent, name, false);
	vfs_unlock(vfs);
	return r;
}

int vfs_rmdir(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name)
{
	int r;

	if (span_eq(name, SPAN(".")))
		return -EINVAL;
	if (span_eq(name, SPAN("..")))
		return -ENOTEMPTY;
	vfs_lock(vfs);
	r = remove_in(vfs, ctx, parent, name, true);
	vfs_unlock(vfs);
	return r;
}
