/* xattr.c - extended attributes: xattr(7). No ACLs: system.* is not there (docs/posix.md). */
#include "base/mem.h"
#include "vfs/vfs_i.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum space { SPACE_NONE, SPACE_USER, SPACE_TRUSTED, SPACE_SECURITY };

static int parse_name(struct span name, enum space *ret_space)
{
	static const struct {
		struct span prefix;
		enum space space;
	} spaces[] = {
		{{"user.", 5}, SPACE_USER},
		{{"trusted.", 8}, SPACE_TRUSTED},
		{{"security.", 9}, SPACE_SECURITY},
	};

	if (name.len == 0 || name.len > VFS_NAME_MAX)
		return -ERANGE;
	if (memchr(name.data, 0, name.len))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(spaces); i++) {
		size_t len = spaces[i].prefix.len;

		if (name.len < len || memcmp(name.data, spaces[i].prefix.data, len) != 0)
			continue;
		if (name.len == len)
			return -EINVAL;
		*ret_space = spaces[i].space;
		return 0;
	}
	return -ENOTSUP;
}

static bool is_root(const struct vfs_ctx *ctx)
{
	return ctx->trusted || ctx->who.uid == 0;
}

/* As xattr_permission() in Linux. */
static int may(const struct vfs *vfs, const struct vfs_ctx *ctx, const struct inode *inode,
	       enum space space, int mask)
{
	bool write = mask & W_OK;

	if (write && vfs->readonly)
		return -EROFS;
	switch (space) {
	case SPACE_TRUSTED:
		if (is_root(ctx))
			return 0;
		return write ? -EPERM : -ENODATA;
	case SPACE_SECURITY:
		return write && !is_root(ctx) ? -EPERM : 0;
	case SPACE_USER:
	case SPACE_NONE:
	default:
		break;
	}
	if (!inode_is_file(inode) && !inode_is_dir(inode))
		return write ? -EPERM : -ENODATA;
	if (write && inode_is_dir(inode) && (inode->row.mode & S_ISVTX)) {
		int r = perm_owner(ctx, inode);

		if (r < 0)
			return r;
	}
	return perm_check(vfs, ctx, inode, mask);
}

/* ---- in memory ---- */

static struct xattr *xattr_new(struct span name, struct span value)
{
	struct xattr *xattr = mem_alloc0(sizeof(*xattr) + name.len + value.len);

	memcpy(xattr->bytes, name.data, name.len);
	if (value.len)
		memcpy(xattr->bytes + name.len, value.data, value.len);
	xattr->name = span_of(xattr->bytes, name.len);
	xattr->value = span_of(xattr->bytes + name.len, value.len);
	return xattr;
}

void xattr_free_all(struct inode *inode)
{
	list_for_each_safe(link, &inode->xattrs)
	{
		struct xattr *xattr = list_entry(link, struct xattr, link);

		list_del(&xattr->link);
		free(xattr);
	}
}

static int load_one(void *arg, struct span name, struct span value)
{
	struct inode *inode = arg;
	struct xattr *xattr = xattr_new(name, value);

	list_add(&inode->xattrs, &xattr->link);
	return 0;
}

int xattr_load(struct vfs *vfs, struct inode *inode)
{
	int r;

	if (inode->state & (INODE_XATTRS_LOADED | INODE_NO_XATTRS))
		return 0;
	r = store_each_xattr(vfs->store, inode->row.ino, load_one, inode);
	if (r < 0) {
		xattr_free_all(inode);
		return r;
	}
	inode->state |= INODE_XATTRS_LOADED;
	return 0;
}

/* The attribute, also one that was removed; or NULL, and where in the order it belongs. */
static struct xattr *find(struct inode *inode, struct span name, struct list **ret_before)
{
	list_for_each (link, &inode->xattrs) {
		struct xattr *xattr = list_entry(link, struct xattr, link);
		size_t len = xattr->name.len < name.len ? xattr->name.len : name.len;
		int order = memcmp(xattr->name.data, name.data, len);

		*ret_before = link;
		if (order == 0 && xattr->name.len == name.len)
			return xattr;
		if (order > 0 || (order == 0 && xattr->name.len > name.len))
			return NULL;
	}
	*ret_before = &inode->xattrs;
	return NULL;
}

static struct xattr *find_live(struct inode *inode, struct span name)
{
	struct list *before;
	struct xattr *xattr = find(inode, name, &before);

	return xattr && !xattr->removed ? xattr : NULL;
}

static size_t total(const struct inode *inode)
{
	size_t bytes = 0;

	list_for_each (link, &inode->xattrs) {
		const struct xattr *xattr = list_entry(link, struct xattr, link);

		if (!xattr->removed)
			bytes += xattr->name.len + 1 + xattr->value.len;
	}
	return bytes;
}

/* Put a value in the place of what has its name. */
static void put(struct inode *inode, struct span name, struct span value, bool removed)
{
	struct list *before;
	struct xattr *old = find(inode, name, &before), *xattr = xattr_new(name, value);

	xattr->dirty = true;
	xattr->removed = removed;
	list_add(before, &xattr->link); /* as the last before it */
	if (old) {
		list_del(&old->link);
		free(old);
	}
}

/* ---- operations ---- */

struct request {
	struct vfs *vfs;
	const struct vfs_ctx *ctx;
	int64_t ino;
	struct span name;
	int mask;
};

/* The inode, its attributes loaded, after every check. Under `lock`. */
static int begin(const struct request *q, struct inode **ret_inode)
{
	enum space space;
	int r;

	r = inode_get(q->vfs, q->ino, ret_inode);
	if (r == 0)
		r = parse_name(q->name, &space);
	if (r == 0)
		r = may(q->vfs, q->ctx, *ret_inode, space, q->mask);
	if (r == 0 && (q->mask & W_OK))
		r = vfs_ask(q->vfs, q->ctx, GATE_XATTR, q->ino, q->name);
	return r < 0 ? r : xattr_load(q->vfs, *ret_inode);
}

static void changed(const struct request *q, struct inode *inode, size_t size)
{
	inode_touch(q->vfs, inode, TOUCH_CTIME);
	inode_dirty(q->vfs, inode, INODE_XATTR);
	vfs_note(q->vfs, q->ctx,
		 (struct gate_record){
			 .op = GATE_XATTR, .ino = q->ino, .name = q->name, .size = (int64_t)size});
	watch_tell(q->vfs, q->ctx, VFS_EVENT_ATTR, inode, 0, SPAN_EMPTY);
}

int vfs_getxattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, struct span name,
		 struct buf *value)
{
	const struct request q = {vfs, ctx, ino, name, R_OK};
	struct inode *inode;
	struct xattr *xattr;
	int r;

	vfs_lock(vfs);
	r = begin(&q, &inode);
	if (r == 0) {
		xattr = find_live(inode, name);
		r = xattr ? buf_add(value, xattr->value.data, xattr->value.len) : -ENODATA;
		if (r == -EFBIG)
			r = -ERANGE;
	}
	vfs_unlock(vfs);
	return r;
}

static int set_in(const struct request *q, struct inode *inode, struct span value, int flags)
{
	struct xattr *old = find_live(inode, q->name);
	size_t bytes = total(inode);

	if ((flags & XATTR_CREATE) && old)
		return -EEXIST;
	if ((flags & XATTR_REPLACE) && !old)
		return -ENODATA;
	if (old)
		bytes -= old->name.len + 1 + old->value.len;
	if (bytes + q->name.len + 1 + value.len > VFS_XATTRS_MAX)
		return -ENOSPC;
	put(inode, q->name, value, false);
	q->vfs->dirty_bytes += value.len;
	changed(q, inode, value.len);
	return 0;
}

int vfs_setxattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, struct span name,
		 struct span value, int flags)
{
	const struct request q = {vfs, ctx, ino, name, W_OK};
	struct inode *inode;
	int r;

	if (flags & ~(XATTR_CREATE | XATTR_REPLACE))
		return -EINVAL;
	if (value.len > VFS_XATTR_VALUE_MAX)
		return -E2BIG;
	r = flush_throttle(vfs);
	if (r < 0)
		return r;
	vfs_lock(vfs);
	r = begin(&q, &inode);
	if (r == 0)
		r = set_in(&q, inode, value, flags);
	vfs_unlock(vfs);
	return r;
}

int vfs_removexattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, struct span name)
{
	const struct request q = {vfs, ctx, ino, name, W_OK};
	struct inode *inode;
	int r;

	vfs_lock(vfs);
	r = begin(&q, &inode);
	if (r == 0 && !find_live(inode, name))
		r = -ENODATA;
	if (r == 0) {
		put(inode, name, SPAN_EMPTY, true);
		changed(&q, inode, 0);
	}
	vfs_unlock(vfs);
	return r;
}

static int list_in(const struct vfs_ctx *ctx, const struct inode *inode, struct buf *names)
{
	size_t start = names->len;
	int r = 0;

	list_for_each (link, &inode->xattrs) {
		const struct xattr *xattr = list_entry(link, struct xattr, link);
		enum space space = SPACE_NONE;

		if (xattr->removed)
			continue;
		if (parse_name(xattr->name, &space) == 0 && space == SPACE_TRUSTED &&
		    ctx->who.uid != 0) /* no kernel filters a list */
			continue;
		r = buf_add(names, xattr->name.data, xattr->name.len);
		if (r == 0)
			r = buf_add(names, "", 1);
		if (r < 0) {
			names->len = start;
			if (names->cap)
				names->data[start] = '\0';
			return -ERANGE;
		}
	}
	return r;
}

int vfs_listxattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, struct buf *names)
{
	struct inode *inode;
	int r;

	vfs_lock(vfs);
	r = inode_get(vfs, ino, &inode);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_STAT, ino, SPAN_EMPTY);
	if (r == 0)
		r = xattr_load(vfs, inode);
	if (r == 0)
		r = list_in(ctx, inode, names);
	vfs_unlock(vfs);
	return r;
}
