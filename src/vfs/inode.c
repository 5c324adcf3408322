/* inode.c - the cache of inodes: found, made, dirtied, settled, evicted. */
#include "base/clock.h"
#include "vfs/vfs_i.h"

#include <errno.h>
#include <sys/stat.h>

#define FLUSH_EARLY (16 << 20) /* bytes of dirty content that do not wait for the interval */
#define FIRST_COOKIE 3         /* 1 and 2 are "." and ".." */
#define DIR_SIZE 4096          /* what a directory says its size is */

void vfs_changed(struct vfs *vfs)
{
	vfs->changes++;
	if (vfs->dirty_bytes > FLUSH_EARLY && !vfs->flusher_hurry) {
		vfs->flusher_hurry = true;
		pthread_cond_signal(&vfs->wake);
	} else if (vfs->flusher_sleeps) {
		pthread_cond_signal(&vfs->wake);
	}
}

void vfs_unlock(struct vfs *vfs)
{
	if (vfs->lru_len > vfs->cache_max)
		inode_evict(vfs, vfs->cache_max - vfs->cache_max / 16);
	pthread_mutex_unlock(&vfs->lock);
}

static void lru_del(struct vfs *vfs, struct inode *inode)
{
	if (list_empty(&inode->lru))
		return;
	list_del(&inode->lru);
	vfs->lru_len--;
}

static void lru_add(struct vfs *vfs, struct inode *inode)
{
	lru_del(vfs, inode);
	list_add(&vfs->lru, &inode->lru);
	vfs->lru_len++;
}

static bool may_evict(const struct vfs *vfs, const struct inode *inode)
{
	return !inode->lookups && !inode->opens && !(inode->state & INODE_ANY_DIRTY) &&
	       inode->frozen <= vfs->flushed;
}

struct inode *inode_peek(const struct vfs *vfs, int64_t ino)
{
	struct map_node *node = map_first(&vfs->inodes, map_hash_u64((uint64_t)ino));

	for (; node; node = map_next(node)) {
		struct inode *inode = map_entry(node, struct inode, node);

		if (inode->row.ino == ino)
			return inode;
	}
	return NULL;
}

static struct inode *enter_new(struct vfs *vfs, const struct store_node *row)
{
	struct inode *inode = pool_get0(&vfs->inode_pool);

	inode->row = *row;
	inode->cut_frozen = INT64_MAX;
	inode->next_cookie = FIRST_COOKIE;
	list_init(&inode->lru);
	list_init(&inode->dirty);
	list_init(&inode->content);
	list_init(&inode->dentries);
	list_init(&inode->xattrs);
	list_init(&inode->locks);
	if (inode_is_dir(inode))
		inode->parent = row->ino == VFS_ROOT ? VFS_ROOT : (int64_t)row->rdev;
	map_add(&vfs->inodes, &inode->node, map_hash_u64((uint64_t)row->ino));
	return inode;
}

struct inode *inode_enter(struct vfs *vfs, const struct store_node *row)
{
	struct inode *inode = inode_peek(vfs, row->ino);

	if (inode)
		return inode;
	inode = enter_new(vfs, row);
	inode->state = INODE_IN_DB;
	if (!(row->flags & STORE_NODE_EXTENTS))
		inode->state |= INODE_NO_UNITS;
	lru_add(vfs, inode);
	return inode;
}

int inode_get(struct vfs *vfs, int64_t ino, struct inode **ret_inode)
{
	struct inode *inode = inode_peek(vfs, ino);
	struct store_node row;
	int r;

	if (!inode) {
		if (ino <= 0)
			return -ESTALE;
		r = store_get_node(vfs->store, ino, &row);
		if (r < 0)
			return r == -ENOENT ? -ESTALE : r;
		inode = inode_enter(vfs, &row);
	} else if (!list_empty(&inode->lru)) {
		lru_add(vfs, inode);
	}
	if (inode->state & (INODE_GONE | INODE_STALE))
		return -ESTALE;
	*ret_inode = inode;
	return 0;
}

/* The group and setgid bits of something new: inherited, and not given away. */
static void new_mode(const struct vfs_ctx *ctx, const struct inode *dir, struct store_node *row)
{
	if (!dir || !(dir->row.mode & S_ISGID))
		return;
	row->gid = dir->row.gid;
	if (S_ISDIR(row->mode))
		row->mode |= S_ISGID;
	else if ((row->mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && !ctx->trusted &&
		 ctx->who.uid != 0 && !perm_in_group(ctx, row->gid))
		row->mode &= ~(uint32_t)S_ISGID;
}

struct inode *inode_new(struct vfs *vfs, const struct vfs_ctx *ctx, struct inode *dir,
			uint32_t mode)
{
	int64_t now = clock_stamp();
	struct store_node row = {
		.ino = vfs->next_ino++,
		.mode = mode,
		.uid = ctx->who.uid,
		.gid = ctx->who.gid,
		.nlink = S_ISDIR(mode) ? 2 : 1,
		.atime = now,
		.mtime = now,
		.ctime = now,
		.btime = now,
	};
	struct inode *inode;

	new_mode(ctx, dir, &row);
	if (S_ISDIR(mode) && dir)
		row.rdev = (uint64_t)dir->row.ino;
	inode = enter_new(vfs, &row);
	inode->state = INODE_NO_UNITS | INODE_NO_XATTRS | INODE_XATTRS_LOADED;
	inode->blob_loaded = true;
	if (S_ISDIR(mode))
		inode->state |= INODE_COMPLETE;
	vfs->counters_dirty = true;
	inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE);
	return inode;
}

void inode_dirty(struct vfs *vfs, struct inode *inode, unsigned state)
{
	inode->state |= state;
	if (list_empty(&inode->dirty))
		list_add(&vfs->dirty, &inode->dirty);
	vfs_changed(vfs);
}

void inode_touch(struct vfs *vfs, struct inode *inode, unsigned which)
{
	int64_t now = clock_stamp();

	if (which & TOUCH_CTIME)
		inode->row.ctime = now;
	if (which & TOUCH_MTIME)
		inode->row.mtime = now;
	inode_dirty(vfs, inode, INODE_DIRTY);
}

/* Nothing leads to it any more: give back what it used, and have its row deleted if it has one. */
static void inode_delete(struct vfs *vfs, struct inode *inode)
{
	file_drop(vfs, inode);
	quota_give_inode(vfs);
	if (!(inode->state & INODE_IN_DB)) {
		vfs_changed(vfs); /* the counters */
		inode_free(vfs, inode);
		return;
	}
	inode->state &= ~(unsigned)INODE_ANY_DIRTY;
	inode_dirty(vfs, inode, INODE_GONE | INODE_DIRTY);
}

void inode_settle(struct vfs *vfs, struct inode *inode)
{
	bool held = inode->lookups || inode->opens;

	if (inode->state & INODE_GONE)
		return;
	if (inode->state & INODE_STALE) {
		if (!held)
			inode_free(vfs, inode);
		return;
	}
	if (inode->row.nlink == 0 && !vfs->readonly) {
		if (!held) {
			inode_delete(vfs, inode);
		} else if (!(inode->row.flags & STORE_NODE_ORPHAN)) {
			inode->row.flags |= STORE_NODE_ORPHAN;
			inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE);
		}
		return;
	}
	if (may_evict(vfs, inode))
		lru_add(vfs, inode);
}

void inode_evict(struct vfs *vfs, size_t keep)
{
	while (vfs->lru_len > keep) {
		struct inode *inode = list_entry(vfs->lru.next, struct inode, lru);

		/* Whoever took a reference left it here; settling brings it back. */
		if (may_evict(vfs, inode))
			inode_free(vfs, inode);
		else
			lru_del(vfs, inode);
	}
}

static void content_forget(struct vfs *vfs, struct inode *inode)
{
	vfs->content_bytes -= inode->content_len;
	inode->content_len = 0;
	list_del(&inode->content);
}

void inode_content_drop(struct vfs *vfs, struct inode *inode)
{
	content_forget(vfs, inode);
	if ((inode->state & INODE_CONTENT) || inode->frozen > vfs->flushed || inode->busy)
		return;
	blob_unref(inode->blob);
	inode->blob = NULL;
	inode->blob_loaded = false;
}

void inode_content(struct vfs *vfs, struct inode *inode)
{
	content_forget(vfs, inode);
	if (!inode->blob || (inode->state & INODE_CONTENT) || inode->frozen > vfs->flushed)
		return;
	inode->content_len = sizeof(*inode->blob) + inode->blob->cap;
	vfs->content_bytes += inode->content_len;
	list_add(&vfs->contents, &inode->content);
	while (vfs->content_bytes > CONTENT_MAX) {
		struct inode *oldest = list_entry(vfs->contents.next, struct inode, content);

		if (oldest == inode)
			break;
		inode_content_drop(vfs, oldest);
	}
}

void inode_free(struct vfs *vfs, struct inode *inode)
{
	lru_del(vfs, inode);
	content_forget(vfs, inode);
	list_del(&inode->dirty);
	map_del(&vfs->inodes, &inode->node);
	dir_forget(vfs, inode);
	file_forget(inode);
	xattr_free_all(inode);
	lock_free_all(inode);
	pool_put(&vfs->inode_pool, inode);
}

void inode_attr(const struct inode *inode, struct vfs_attr *ret_attr)
{
	const struct store_node *row = &inode->row;

	*ret_attr = (struct vfs_attr){
		.ino = row->ino,
		.mode = row->mode,
		.nlink = row->nlink,
		.uid = row->uid,
		.gid = row->gid,
		.size = row->size,
		.atime = row->atime,
		.mtime = row->mtime,
		.ctime = row->ctime,
		.btime = row->btime,
	};
	if (S_ISDIR(row->mode)) {
		ret_attr->size = DIR_SIZE;
		ret_attr->blocks = DIR_SIZE / 512;
	} else if (S_ISCHR(row->mode) || S_ISBLK(row->mode)) {
		ret_attr->rdev = row->rdev;
	} else if (S_ISREG(row->mode) && (row->flags & STORE_NODE_EXTENTS)) {
		ret_attr->blocks = (int64_t)row->rdev * (STORE_UNIT / 512);
	} else if (S_ISREG(row->mode)) {
		ret_attr->blocks = (row->size + 511) / 512;
	}
}
