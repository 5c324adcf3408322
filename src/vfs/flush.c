/* flush.c - dirty rows, frozen, written in one transaction, and marked dirty again if that fails.
 */
#include "base/clock.h"
#include "vfs/vfs_i.h"

#include <errno.h>
#include <time.h>

#define FLUSHER_STACK (256 << 10)

struct frozen_inode {
	struct inode *inode; /* stays: it may not be freed before `flushed` */
	struct blob *blob;   /* a reference */
	struct store_node row;
	unsigned state;
	bool was_in_db;
	int64_t cut;
	size_t units, units_end, xattrs, xattrs_end; /* its part of these arrays */
};

struct frozen_dentry {
	struct dentry *dentry; /* stays as well, and so does its name */
	int64_t ino;
};

struct frozen_unit {
	int64_t idx, pos;
};

struct frozen_xattr {
	struct xattr *copy;
};

/* Everything that one flush writes. */
struct frozen {
	uint64_t number, changes, dirty_bytes;
	struct frozen_inode *inodes;
	struct frozen_dentry *dentries;
	struct frozen_unit *units;
	struct frozen_xattr *xattrs;
	size_t inodes_len, inodes_cap, dentries_len, dentries_cap;
	size_t units_len, units_cap, xattrs_len, xattrs_cap;
	bool counters;
	int64_t next_ino;
	uint64_t used_bytes, used_inodes;
	struct gate_batch *batch;
};

/* Room for one more. */
static void *room(void *array, size_t len, size_t *cap, size_t size)
{
	if (len < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 64;
	return mem_realloc(array, *cap * size);
}

/* ---- freeze: under `io` and `lock` ---- */

static void freeze_units(struct frozen *frozen, struct inode *inode)
{
	map_for_each (node, &inode->units) {
		struct units *units = map_entry(node, struct units, node);

		for (; units->dirty; units->dirty &= units->dirty - 1) {
			int bit = __builtin_ctzll(units->dirty);

			frozen->units = room(frozen->units, frozen->units_len, &frozen->units_cap,
					     sizeof(*frozen->units));
			frozen->units[frozen->units_len++] = (struct frozen_unit){
				.idx = units->first + bit,
				.pos = units->unit[bit].pos,
			};
		}
	}
	inode->state &= ~(unsigned)INODE_NO_UNITS;
}

static void freeze_xattrs(struct frozen *frozen, struct inode *inode)
{
	list_for_each (link, &inode->xattrs) {
		struct xattr *xattr = list_entry(link, struct xattr, link), *copy;
		size_t len = xattr->name.len + xattr->value.len;

		if (!xattr->dirty)
			continue;
		xattr->dirty = false;
		copy = mem_alloc0(sizeof(*copy) + len);
		copy->removed = xattr->removed;
		copy->name = span_of(copy->bytes, xattr->name.len);
		copy->value = span_of(copy->bytes + xattr->name.len, xattr->value.len);
		memcpy(copy->bytes, xattr->name.data, xattr->name.len);
		if (xattr->value.len)
			memcpy(copy->bytes + xattr->name.len, xattr->value.data, xattr->value.len);
		frozen->xattrs = room(frozen->xattrs, frozen->xattrs_len, &frozen->xattrs_cap,
				      sizeof(*frozen->xattrs));
		frozen->xattrs[frozen->xattrs_len++].copy = copy;
	}
	inode->state &= ~(unsigned)INODE_NO_XATTRS;
}

static void freeze_inode(struct frozen *frozen, struct inode *inode)
{
	struct frozen_inode *to;

	frozen->inodes = room(frozen->inodes, frozen->inodes_len, &frozen->inodes_cap,
			      sizeof(*frozen->inodes));
	to = &frozen->inodes[frozen->inodes_len++];
	*to = (struct frozen_inode){
		.inode = inode,
		.row = inode->row,
		.state = inode->state,
		.was_in_db = inode->state & INODE_IN_DB,
		.cut = INT64_MAX,
		.units = frozen->units_len,
		.xattrs = frozen->xattrs_len,
	};
	if (!(inode->state & INODE_GONE)) {
		if ((inode->state & INODE_CONTENT) && inode->blob) {
			to->blob = inode->blob;
			to->blob->refs++;
		}
		if (inode->state & INODE_CUT)
			to->cut = inode->cut;
		if (inode->state & INODE_UNITS)
			freeze_units(frozen, inode);
		if (inode->state & INODE_XATTR)
			freeze_xattrs(frozen, inode);
	}
	to->units_end = frozen->units_len;
	to->xattrs_end = frozen->xattrs_len;
	inode->cut_frozen = to->cut;
	inode->frozen = frozen->number;
	inode->state &= ~(unsigned)(INODE_ANY_DIRTY | INODE_SIZE);
	inode->state |= INODE_IN_DB;
}

static struct frozen *freeze(struct vfs *vfs)
{
	struct frozen *frozen;

	if (!vfs->frozen)
		vfs->frozen = mem_alloc0(sizeof(*vfs->frozen));
	frozen = vfs->frozen;
	frozen->number = ++vfs->freezing;
	frozen->changes = vfs->frozen_changes = vfs->changes;
	frozen->dirty_bytes = vfs->dirty_bytes;
	vfs->dirty_bytes = 0;
	vfs->flusher_hurry = false;
	while (!list_empty(&vfs->dirty)) {
		struct inode *inode = list_entry(vfs->dirty.next, struct inode, dirty);

		list_del(&inode->dirty);
		freeze_inode(frozen, inode);
	}
	while (!list_empty(&vfs->dirty_dentries)) {
		struct dentry *dentry = list_entry(vfs->dirty_dentries.next, struct dentry, dirty);

		list_del(&dentry->dirty);
		dentry->frozen = frozen->number;
		dentry->in_db = true;
		frozen->dentries = room(frozen->dentries, frozen->dentries_len,
					&frozen->dentries_cap, sizeof(*frozen->dentries));
		frozen->dentries[frozen->dentries_len++] =
			(struct frozen_dentry){.dentry = dentry, .ino = dentry->ino};
	}
	frozen->counters = vfs->counters_dirty;
	vfs->counters_dirty = false;
	frozen->next_ino = vfs->next_ino;
	frozen->used_bytes = vfs->used_bytes;
	frozen->used_inodes = vfs->used_inodes;
	frozen->batch = gate_take(vfs->gate);
	return frozen;
}

/* ---- write: without locks ---- */

static int write_nodes(struct store *store, const struct frozen *frozen)
{
	int r = 0;

	for (size_t i = 0; i < frozen->inodes_len && r == 0; i++) {
		const struct frozen_inode *from = &frozen->inodes[i];

		if (from->state & INODE_GONE)
			r = store_del_node(store, from->row.ino);
		else if (from->state & INODE_DIRTY)
			r = store_put_node(store, &from->row);
	}
	return r;
}

static int write_dentries(struct store *store, const struct frozen *frozen)
{
	int r = 0;

	for (size_t i = 0; i < frozen->dentries_len && r == 0; i++) {
		const struct frozen_dentry *from = &frozen->dentries[i];
		struct span name = span_of(from->dentry->name, from->dentry->name_len);

		if (from->ino)
			r = store_put_dirent(store, from->dentry->parent, name, from->ino);
		else
			r = store_del_dirent(store, from->dentry->parent, name);
	}
	return r;
}

static int write_content(struct store *store, const struct frozen *frozen,
			 const struct frozen_inode *from)
{
	bool inline_now = !(from->row.flags & STORE_NODE_EXTENTS);
	int64_t ino = from->row.ino;
	int r = 0;

	if (from->state & INODE_CUT)
		r = store_del_units(store, ino, from->cut);
	if (r == 0 && inline_now && from->blob && from->blob->len)
		r = store_put_inline(store, ino, span_of(from->blob->data, from->blob->len));
	else if (r == 0 && (from->state & (INODE_CONTENT | INODE_INLINE_OLD)) && from->was_in_db)
		r = store_del_inline(store, ino);
	for (size_t i = from->units; i < from->units_end && r == 0; i++)
		r = store_put_unit(store, ino, frozen->units[i].idx, frozen->units[i].pos);
	for (size_t i = from->xattrs; i < from->xattrs_end && r == 0; i++) {
		const struct xattr *xattr = frozen->xattrs[i].copy;

		if (xattr->removed)
			r = store_del_xattr(store, ino, xattr->name);
		else
			r = store_put_xattr(store, ino, xattr->name, xattr->value);
	}
	return r;
}

static int write_rows(struct store *store, const struct frozen *frozen)
{
	int r;

	r = write_nodes(store, frozen);
	if (r == 0)
		r = write_dentries(store, frozen);
	for (size_t i = 0; i < frozen->inodes_len && r == 0; i++) {
		const struct frozen_inode *from = &frozen->inodes[i];

		if (!(from->state & INODE_GONE) && (from->state & (INODE_ANY_DIRTY & ~INODE_DIRTY)))
			r = write_content(store, frozen, from);
	}
	if (r == 0 && frozen->counters)
		r = store_put_counters(store, frozen->next_ino, frozen->used_bytes,
				       frozen->used_inodes);
	if (r == 0 && frozen->batch)
		r = gate_batch_write(frozen->batch, store);
	return r;
}

static int write_frozen(struct store *store, const struct frozen *frozen, bool durable)
{
	int r;

	if (durable) {
		r = store_data_sync(store);
		if (r < 0)
			return r;
	}
	r = store_begin(store);
	if (r < 0)
		return r;
	r = write_rows(store, frozen);
	if (r < 0) {
		store_rollback(store);
		return r;
	}
	return store_commit(store, durable);
}

/* ---- afterwards: under `lock` ---- */

static void committed_inode(struct vfs *vfs, struct frozen_inode *from)
{
	struct inode *inode = from->inode;

	blob_unref(from->blob);
	if (from->state & INODE_GONE) {
		inode_free(vfs, inode);
		return;
	}
	if (from->xattrs != from->xattrs_end) {
		list_for_each_safe(link, &inode->xattrs)
		{
			struct xattr *xattr = list_entry(link, struct xattr, link);

			if (xattr->removed && !xattr->dirty) {
				list_del(&xattr->link);
				free(xattr);
			}
		}
	}
	if (from->state & INODE_CONTENT)
		inode_content(vfs, inode);
	inode_settle(vfs, inode);
}

static void committed(struct vfs *vfs, struct frozen *frozen, bool durable)
{
	vfs->flushed = frozen->number;
	vfs->flushed_changes = frozen->changes;
	if (durable) {
		vfs->durable = frozen->number;
		vfs->durable_changes = frozen->changes;
	}
	/* Entries first: the directory of one may go. */
	for (size_t i = 0; i < frozen->dentries_len; i++) {
		struct dentry *dentry = frozen->dentries[i].dentry;

		if (!dentry->ino && list_empty(&dentry->dirty))
			dentry_free(vfs, dentry);
	}
	for (size_t i = 0; i < frozen->inodes_len; i++)
		committed_inode(vfs, &frozen->inodes[i]);
	if (frozen->batch)
		gate_batch_free(frozen->batch);
	vfs->stats.commits++;
	vfs->stats.rows += frozen->inodes_len + frozen->dentries_len + frozen->units_len;
}

static void failed_units(const struct frozen *frozen, const struct frozen_inode *from)
{
	map_for_each (node, &from->inode->units) {
		struct units *units = map_entry(node, struct units, node);

		for (size_t i = from->units; i < from->units_end; i++) {
			int64_t idx = frozen->units[i].idx - units->first;

			if (idx >= 0 && idx < UNITS_CHUNK)
				units->dirty |= UINT64_C(1) << idx;
		}
	}
}

static void failed_xattrs(const struct frozen *frozen, const struct frozen_inode *from)
{
	for (size_t i = from->xattrs; i < from->xattrs_end; i++) {
		list_for_each (link, &from->inode->xattrs) {
			struct xattr *xattr = list_entry(link, struct xattr, link);

			if (span_eq(xattr->name, frozen->xattrs[i].copy->name))
				xattr->dirty = true;
		}
	}
}

static void failed_inode(struct vfs *vfs, const struct frozen *frozen, struct frozen_inode *from)
{
	struct inode *inode = from->inode;
	unsigned state = from->state & (INODE_ANY_DIRTY | INODE_SIZE);

	blob_unref(from->blob);
	if (inode->state & INODE_GONE) { /* whatever it was before: only its row is to go */
		inode_dirty(vfs, inode, INODE_DIRTY);
		return;
	}
	if ((state & INODE_CUT) && (inode->state & INODE_CUT) && from->cut > inode->cut)
		state &= ~(unsigned)INODE_CUT;
	if (state & INODE_CUT)
		inode->cut = from->cut;
	inode->cut_frozen = INT64_MAX;
	failed_units(frozen, from);
	failed_xattrs(frozen, from);
	inode_dirty(vfs, inode, state);
}

static void failed(struct vfs *vfs, struct frozen *frozen)
{
	for (size_t i = 0; i < frozen->inodes_len; i++)
		failed_inode(vfs, frozen, &frozen->inodes[i]);
	for (size_t i = 0; i < frozen->dentries_len; i++) {
		struct dentry *dentry = frozen->dentries[i].dentry;

		if (list_empty(&dentry->dirty))
			list_add(&vfs->dirty_dentries, &dentry->dirty);
	}
	vfs->dirty_bytes += frozen->dirty_bytes;
	vfs->counters_dirty |= frozen->counters;
	if (frozen->batch)
		gate_put_back(vfs->gate, frozen->batch);
}

/* Ready for the next flush, which needs about the same room. */
static void frozen_reset(struct frozen *frozen)
{
	for (size_t i = 0; i < frozen->xattrs_len; i++)
		free(frozen->xattrs[i].copy);
	frozen->inodes_len = frozen->dentries_len = 0;
	frozen->units_len = frozen->xattrs_len = 0;
}

void flush_trim(struct vfs *vfs)
{
	struct frozen *frozen = vfs->frozen;

	if (!frozen)
		return;
	free(frozen->inodes);
	free(frozen->dentries);
	free(frozen->units);
	free(frozen->xattrs);
	free(frozen);
	vfs->frozen = NULL;
}

static void finish(struct vfs *vfs, struct frozen *frozen, bool durable, int r)
{
	if (r == 0)
		committed(vfs, frozen, durable);
	else
		failed(vfs, frozen);
	vfs->flush_error = r;
	vfs->stats.flushes++;
}

/* ---- flushing ---- */

/* Nothing is dirty. Under `flush`. */
static int make_durable(struct vfs *vfs, uint64_t changes)
{
	int r;

	r = store_data_sync(vfs->store);
	if (r == 0)
		r = store_sync(vfs->store);
	if (r < 0)
		return r;
	vfs_lock(vfs);
	if (vfs->durable_changes < changes)
		vfs->durable_changes = changes;
	vfs->durable = vfs->flushed;
	vfs_unlock(vfs);
	return 0;
}

/* Under `flush`. */
static int flush_once(struct vfs *vfs, bool durable)
{
	struct frozen *frozen;
	uint64_t flushed;
	int r;

	vfs_lock(vfs);
	flushed = vfs->flushed_changes;
	if (vfs->changes == flushed) {
		durable = durable && vfs->durable_changes < flushed;
		vfs_unlock(vfs);
		return durable ? make_durable(vfs, flushed) : 0;
	}
	vfs_unlock(vfs);

	pthread_rwlock_wrlock(&vfs->io);
	vfs_lock(vfs);
	frozen = freeze(vfs);
	vfs_unlock(vfs);
	pthread_rwlock_unlock(&vfs->io);
	r = write_frozen(vfs->store, frozen, durable);
	vfs_lock(vfs);
	finish(vfs, frozen, durable, r);
	vfs_unlock(vfs);
	frozen_reset(frozen);
	return r;
}

/* Is everything up to `changes` written? */
static bool covered(struct vfs *vfs, uint64_t changes, bool durable)
{
	bool yes;

	vfs_lock(vfs);
	yes = (durable ? vfs->durable_changes : vfs->flushed_changes) >= changes;
	vfs_unlock(vfs);
	return yes;
}

int flush_now(struct vfs *vfs, bool durable)
{
	uint64_t changes;
	int r = 0;

	if (vfs->readonly)
		return 0;
	vfs_lock(vfs);
	changes = vfs->changes;
	vfs_unlock(vfs);
	if (!covered(vfs, changes, durable)) {
		pthread_mutex_lock(&vfs->flush);
		/* Whoever was before us may have taken ours along. */
		if (!covered(vfs, changes, durable))
			r = flush_once(vfs, durable);
		pthread_mutex_unlock(&vfs->flush);
	}
	/* Bytes may have been put into a unit in place, without any row changing. */
	if (r == 0 && durable)
		r = store_data_sync(vfs->store);
	return r;
}

int flush_throttle(struct vfs *vfs)
{
	if (vfs->readonly)
		return 0;
	for (;;) {
		bool wait;
		int r;

		vfs_lock(vfs);
		wait = vfs->flush_error < 0 || vfs->dirty_bytes > vfs->dirty_max;
		vfs_unlock(vfs);
		if (!wait)
			return 0;
		r = flush_now(vfs, false);
		if (r < 0)
			return r;
	}
}

int flush_exclusive(struct vfs *vfs, int (*fn)(void *arg, struct store *store), void *arg)
{
	bool dirty;
	int r = 0;

	pthread_mutex_lock(&vfs->flush);
	if (!vfs->readonly)
		r = flush_once(vfs, true); /* most of it, while others go on */
	pthread_rwlock_wrlock(&vfs->io);
	vfs_lock(vfs);
	dirty = vfs->changes != vfs->flushed_changes;
	if (r == 0 && dirty) {
		struct frozen *frozen = freeze(vfs);

		r = write_frozen(vfs->store, frozen, true);
		finish(vfs, frozen, true, r);
		frozen_reset(frozen);
	}
	if (r == 0) {
		r = fn(arg, vfs->store);
		vfs->epoch++; /* units are in other layers now */
	}
	vfs_unlock(vfs);
	pthread_rwlock_unlock(&vfs->io);
	pthread_mutex_unlock(&vfs->flush);
	return r;
}

/* ---- the thread ---- */

/* Under `lock`: wait for a change, then for the interval, or less if there is much. */
static void wait_for_work(struct vfs *vfs)
{
	struct timespec until;
	int r = 0;

	vfs->flusher_sleeps = true;
	while (!vfs->stop && vfs->changes == vfs->flushed_changes)
		pthread_cond_wait(&vfs->wake, &vfs->lock);
	vfs->flusher_sleeps = false;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += VFS_FLUSH_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	while (!vfs->stop && !vfs->flusher_hurry && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&vfs->wake, &vfs->lock, &until);
}

static void *flusher(void *arg)
{
	struct vfs *vfs = arg;

	vfs_lock(vfs);
	while (!vfs->stop) {
		wait_for_work(vfs);
		if (vfs->stop)
			break;
		/* So that a failing one does not spin. */
		vfs->flusher_hurry = false;
		vfs_unlock(vfs);
		(void)!flush_now(vfs, false);
		vfs_lock(vfs);
	}
	vfs_unlock(vfs);
	return NULL;
}

int flush_start(struct vfs *vfs)
{
	pthread_attr_t attr;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, FLUSHER_STACK);
	r = pthread_create(&vfs->flusher, &attr, flusher, vfs);
	pthread_attr_destroy(&attr);
	vfs->flusher_runs = r == 0;
	return -r;
}

void flush_stop(struct vfs *vfs)
{
	if (!vfs->flusher_runs)
		return;
	vfs_lock(vfs);
	vfs->stop = true;
	pthread_cond_signal(&vfs->wake);
	vfs_unlock(vfs);
	pthread_join(vfs->flusher, NULL);
	vfs->flusher_runs = false;
}
