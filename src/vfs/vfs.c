/* vfs.c - the life of a vfs: open, close, flush, exclusive, reset, idle, numbers. */
#include "base/clock.h"
#include "vfs/vfs_i.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/stat.h>

#define DIRTY_MAX (64 << 20)
#define CACHE_MAX 100000

static void init_locks(struct vfs *vfs)
{
	pthread_rwlockattr_t rwlock;
	pthread_condattr_t cond;

	pthread_mutex_init(&vfs->lock, NULL);
	pthread_mutex_init(&vfs->flush, NULL);
	/* A stream of readers must not keep a flush waiting. */
	pthread_rwlockattr_init(&rwlock);
	pthread_rwlockattr_setkind_np(&rwlock, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&vfs->io, &rwlock);
	pthread_rwlockattr_destroy(&rwlock);
	pthread_condattr_init(&cond);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	pthread_cond_init(&vfs->wake, &cond);
	pthread_cond_init(&vfs->content, &cond);
	pthread_condattr_destroy(&cond);
}

static void vfs_free(struct vfs *vfs)
{
	map_for_each (node, &vfs->inodes)
		inode_free(vfs, map_entry(node, struct inode, node));
	map_clear(&vfs->inodes);
	map_clear(&vfs->dentries);
	pool_clear(&vfs->inode_pool);
	pool_clear(&vfs->dentry_pool);
	flush_trim(vfs);
	while (!list_empty(&vfs->watches)) {
		struct watch *watch = list_entry(vfs->watches.next, struct watch, link);

		list_del(&watch->link);
		free(watch);
	}
	gate_free(vfs->gate);
	store_close(vfs->store);
	pthread_cond_destroy(&vfs->content);
	pthread_cond_destroy(&vfs->wake);
	pthread_rwlock_destroy(&vfs->io);
	pthread_mutex_destroy(&vfs->flush);
	pthread_mutex_destroy(&vfs->lock);
	free(vfs);
}

/* What the head says of itself. Numbers that were given out stay given out, whatever it says. */
static void read_info(struct vfs *vfs, struct store_info *ret_info)
{
	store_get_info(vfs->store, ret_info);
	if (vfs->next_ino < ret_info->next_ino)
		vfs->next_ino = ret_info->next_ino;
	if (vfs->next_ino <= VFS_ROOT)
		vfs->next_ino = VFS_ROOT + 1;
	vfs->used_bytes = ret_info->bytes;
	vfs->used_inodes = ret_info->inodes;
	vfs->quota_bytes = ret_info->quota_bytes;
	vfs->quota_inodes = ret_info->quota_inodes;
}

/* The root is always in memory. */
static int pin_root(struct vfs *vfs, struct err *err)
{
	struct inode *root;
	int r;

	r = inode_get(vfs, VFS_ROOT, &root);
	if (r < 0)
		return err_set(err, r == -ESTALE ? EUCLEAN : -r, "there is no root directory");
	if (!inode_is_dir(root))
		return err_set(err, EUCLEAN, "the root is no directory");
	root->opens++;
	return 0;
}

int vfs_open_take(struct store *store, const struct vfs_options *options, struct vfs **ret_vfs,
		  struct err *err)
{
	struct vfs *vfs = mem_alloc0(sizeof(*vfs));
	struct store_info info;
	int r;

	init_locks(vfs);
	vfs->store = store;
	vfs->readonly = options->readonly;
	vfs->dirty_max = options->dirty_max ? options->dirty_max : DIRTY_MAX;
	vfs->cache_max = options->cache_max ? options->cache_max : CACHE_MAX;
	pool_init(&vfs->inode_pool, sizeof(struct inode));
	pool_init(&vfs->dentry_pool, DENTRY_SMALL);
	list_init(&vfs->lru);
	list_init(&vfs->dirty);
	list_init(&vfs->dirty_dentries);
	list_init(&vfs->contents);
	list_init(&vfs->watches);
	if (getrandom(&vfs->seed, sizeof(vfs->seed), 0) != sizeof(vfs->seed))
		vfs->seed = (uint64_t)clock_now();
	read_info(vfs, &info);
	vfs->gate = gate_new(info.audit_seq, info.audit_hash);
	r = pin_root(vfs, err);
	if (r == 0 && !vfs->readonly) {
		r = flush_start(vfs);
		if (r < 0)
			err_set(err, -r, "cannot start a thread");
	}
	if (r < 0) {
		vfs_free(vfs);
		return r;
	}
	*ret_vfs = vfs;
	return 0;
}

/* Whoever held something is gone: what has no name goes as well. */
static void drop_references(struct vfs *vfs)
{
	vfs_lock(vfs);
	map_for_each (node, &vfs->inodes) {
		struct inode *inode = map_entry(node, struct inode, node);

		if (!inode->lookups && !inode->opens)
			continue;
		inode->lookups = 0;
		inode->opens = 0;
		inode_settle(vfs, inode);
	}
	pthread_mutex_unlock(&vfs->lock);
}

int vfs_close(struct vfs *vfs, struct err *err)
{
	int r;

	if (!vfs)
		return 0;
	flush_stop(vfs);
	drop_references(vfs);
	r = flush_now(vfs, true);
	if (r < 0)
		err_set(err, -r, "the last changes could not be written");
	vfs_free(vfs);
	return r;
}

int vfs_flush(struct vfs *vfs, bool durable)
{
	return flush_now(vfs, durable);
}

int vfs_exclusive(struct vfs *vfs, int (*fn)(void *arg, struct store *store), void *arg)
{
	return flush_exclusive(vfs, fn, arg);
}

/* An inode that somebody holds, under the new head. */
static void reset_held(struct vfs *vfs, struct inode *inode)
{
	struct store_node row;
	int r;

	dir_forget(vfs, inode);
	file_forget(inode);
	xattr_free_all(inode);
	inode->blob = NULL;
	inode->blob_loaded = false;
	r = store_get_node(vfs->store, inode->row.ino, &row);
	if (r < 0 || (row.mode & S_IFMT) != (inode->row.mode & S_IFMT)) {
		lock_free_all(inode);
		inode->state = INODE_STALE;
		return;
	}
	inode->row = row;
	inode->state = INODE_IN_DB;
	if (!(row.flags & STORE_NODE_EXTENTS))
		inode->state |= INODE_NO_UNITS;
	if (inode_is_dir(inode))
		inode->parent = row.ino == VFS_ROOT ? VFS_ROOT : (int64_t)row.rdev;
}

void vfs_reset(struct vfs *vfs)
{
	struct store_info info;

	map_for_each (node, &vfs->inodes) {
		struct inode *inode = map_entry(node, struct inode, node);

		if (inode->lookups || inode->opens)
			reset_held(vfs, inode);
		else
			inode_free(vfs, inode);
	}
	read_info(vfs, &info);
	watch_tell(vfs, NULL, VFS_EVENT_RESET, NULL, 0, SPAN_EMPTY);
}

/* Buckets for what is there, when there was much more. */
static void shrink(struct map *map)
{
	struct map small = MAP_INIT;

	if (!map->buckets || map->mask < 1024 || map->count * 4 > map->mask)
		return;
	map_for_each (node, map)
		map_add(&small, node, node->hash);
	map_clear(map);
	*map = small;
}

void vfs_idle(struct vfs *vfs)
{
	pthread_mutex_lock(&vfs->flush);
	vfs_lock(vfs);
	inode_evict(vfs, 0);
	map_for_each (node, &vfs->inodes) {
		struct inode *inode = map_entry(node, struct inode, node);

		/* A walk may be under way in one that is complete, and needs its cookies. */
		if (inode_is_dir(inode) && !(inode->state & (INODE_ANY_DIRTY | INODE_COMPLETE)) &&
		    inode->frozen <= vfs->flushed)
			dir_forget(vfs, inode);
	}
	while (!list_empty(&vfs->contents))
		inode_content_drop(vfs, list_entry(vfs->contents.next, struct inode, content));
	shrink(&vfs->inodes);
	shrink(&vfs->dentries);
	pool_trim(&vfs->inode_pool);
	pool_trim(&vfs->dentry_pool);
	blob_trim();
	flush_trim(vfs);
	store_release_memory(vfs->store);
	pthread_mutex_unlock(&vfs->lock);
	pthread_mutex_unlock(&vfs->flush);
}

void vfs_get_stats(struct vfs *vfs, struct vfs_stats *ret_stats)
{
	vfs_lock(vfs);
	*ret_stats = vfs->stats;
	ret_stats->inodes_cached = vfs->inodes.count;
	ret_stats->inodes_dirty = 0;
	list_for_each (link, &vfs->dirty)
		ret_stats->inodes_dirty++;
	ret_stats->bytes_dirty = vfs->dirty_bytes;
	ret_stats->bytes_cached = vfs->content_bytes;
	ret_stats->bytes = vfs->used_bytes;
	ret_stats->inodes = vfs->used_inodes;
	ret_stats->quota_bytes = vfs->quota_bytes;
	ret_stats->quota_inodes = vfs->quota_inodes;
	vfs_unlock(vfs);
}

int vfs_set_quota(struct vfs *vfs, uint64_t bytes, uint64_t inodes)
{
	int r;

	if (vfs->readonly)
		return -EROFS;
	pthread_mutex_lock(&vfs->flush);
	r = store_begin(vfs->store);
	if (r == 0) {
		r = store_put_quota(vfs->store, bytes, inodes);
		if (r == 0)
			r = store_commit(vfs->store, true);
		else
			store_rollback(vfs->store);
	}
	if (r == 0) {
		vfs_lock(vfs);
		vfs->quota_bytes = bytes;
		vfs->quota_inodes = inodes;
		vfs_unlock(vfs);
	}
	pthread_mutex_unlock(&vfs->flush);
	return r;
}

void vfs_record(struct vfs *vfs, const struct gate_record *record)
{
	if (vfs->readonly)
		return;
	vfs_lock(vfs);
	gate_record(vfs->gate, record);
	vfs_changed(vfs);
	vfs_unlock(vfs);
}

int vfs_ask(struct vfs *vfs, const struct vfs_ctx *ctx, enum gate_op op, int64_t ino,
	    struct span name)
{
	return gate_ask(vfs->gate, &ctx->who, op, ino, name);
}

void vfs_note(struct vfs *vfs, const struct vfs_ctx *ctx, struct gate_record record)
{
	record.who = ctx->who;
	gate_record(vfs->gate, &record);
}
