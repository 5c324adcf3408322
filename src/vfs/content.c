/* content.c - bytes of files as a whole: small ones in memory, the way to units and back. */
#include "base/mem.h"
#include "vfs/units_i.h"

#include <errno.h>
#include <sys/stat.h>

/* ---- one changer at a time ---- */

void content_hold(struct inode *inode)
{
	inode->opens++;
}

void content_release(struct vfs *vfs, struct inode *inode)
{
	inode->opens--;
	inode_settle(vfs, inode);
}

void content_wait(struct vfs *vfs, struct inode *inode)
{
	while (inode->busy)
		pthread_cond_wait(&vfs->content, &vfs->lock);
}

void content_begin(struct inode *inode)
{
	inode->busy = true;
}

void content_end(struct vfs *vfs, struct inode *inode)
{
	inode->busy = false;
	pthread_cond_broadcast(&vfs->content);
}

int content_check(const struct vfs *vfs, const struct inode *inode)
{
	if (inode_is_dir(inode))
		return -EISDIR;
	if (!inode_is_file(inode))
		return -EINVAL;
	return vfs->readonly ? -EROFS : 0;
}

static bool in_units(const struct inode *inode)
{
	return inode->row.flags & STORE_NODE_EXTENTS;
}

/* ---- small files ---- */

int file_load(struct vfs *vfs, struct inode *inode)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(STORE_INLINE_MAX);
	int r;

	if (!inode->blob_loaded && !in_units(inode)) {
		r = store_get_inline(vfs->store, inode->row.ino, &buf);
		if (r < 0)
			return r == -EFBIG ? -EUCLEAN : r;
		if ((int64_t)buf.len != inode->row.size)
			return -EUCLEAN;
		if (buf.len) {
			inode->blob = blob_new(buf.len);
			memcpy(inode->blob->data, buf.data, buf.len);
			inode->blob->len = buf.len;
		}
		inode->blob_loaded = true;
	}
	inode_content(vfs, inode);
	return 0;
}

/* A blob of its own with room for `size` bytes; one that grows will grow again. */
static struct blob *small_room(struct inode *inode, size_t size)
{
	size_t cap = size;

	if (inode->blob && inode->blob->len && size > inode->blob->cap) {
		cap = inode->blob->cap * 2 > size ? inode->blob->cap * 2 : size;
		if (cap > STORE_INLINE_MAX)
			cap = STORE_INLINE_MAX;
	}
	return blob_own(&inode->blob, cap);
}

/* Account for `size` bytes instead of what is there. */
static int small_quota(struct vfs *vfs, const struct inode *inode, int64_t size)
{
	if (size > inode->row.size)
		return quota_take_bytes(vfs, (uint64_t)(size - inode->row.size));
	quota_give_bytes(vfs, (uint64_t)(inode->row.size - size));
	return 0;
}

static void small_changed(struct vfs *vfs, struct inode *inode, int64_t size, size_t bytes)
{
	unsigned state = INODE_DIRTY | INODE_CONTENT;

	if (size != inode->row.size)
		state |= INODE_SIZE;
	inode->row.size = size;
	vfs->dirty_bytes += bytes;
	inode_dirty(vfs, inode, state);
	inode_content(vfs, inode);
}

static int small_resize(struct vfs *vfs, struct inode *inode, int64_t size)
{
	struct blob *blob;
	int r;

	r = file_load(vfs, inode);
	if (r == 0)
		r = small_quota(vfs, inode, size);
	if (r < 0)
		return r;
	if (size == 0) {
		blob_unref(inode->blob);
		inode->blob = NULL;
	} else {
		blob = small_room(inode, (size_t)size);
		if (blob->len < (size_t)size)
			memset(blob->data + blob->len, 0, (size_t)size - blob->len);
		blob->len = (size_t)size;
	}
	small_changed(vfs, inode, size, 0);
	return 0;
}

static int small_write(struct vfs *vfs, struct inode *inode, size_t offset, struct span bytes)
{
	size_t end = offset + bytes.len;
	struct blob *blob;
	int r;

	if ((int64_t)end < inode->row.size)
		end = (size_t)inode->row.size;
	r = file_load(vfs, inode);
	if (r == 0)
		r = small_quota(vfs, inode, (int64_t)end);
	if (r < 0)
		return r;
	blob = small_room(inode, end);
	if (blob->len < offset)
		memset(blob->data + blob->len, 0, offset - blob->len);
	memcpy(blob->data + offset, bytes.data, bytes.len);
	blob->len = end;
	small_changed(vfs, inode, (int64_t)end, bytes.len);
	return 0;
}

/* ---- from one to the other ---- */

/* Its inline content, if any, is of no use any more. */
static void drop_small(struct vfs *vfs, struct inode *inode)
{
	blob_unref(inode->blob);
	inode->blob = NULL;
	inode->blob_loaded = false;
	inode_content(vfs, inode);
	inode->state &= ~(unsigned)INODE_CONTENT;
	inode->row.flags |= STORE_NODE_EXTENTS;
	inode->row.rdev = 0;
	if (inode->state & INODE_IN_DB)
		inode_dirty(vfs, inode, INODE_INLINE_OLD);
}

int content_to_units(struct vfs *vfs, struct inode *inode)
{
	struct units *chunk;
	struct blob *blob;
	int64_t pos = STORE_HOLE;
	int r;

	units_fresh(vfs, inode);
	r = file_load(vfs, inode);
	if (r == 0 && inode->row.size)
		r = units_chunk(vfs, inode, 0, true, &chunk);
	if (r < 0)
		return r;
	blob = inode->blob;
	if (blob && blob->len) {
		blob->refs++;
		vfs_unlock(vfs);
		r = units_store(vfs, span_of(blob->data, blob->len), &pos);
		vfs_lock(vfs);
		blob_unref(blob);
		if (r < 0)
			return r;
	}
	drop_small(vfs, inode);
	if (pos != STORE_HOLE)
		units_set(vfs, inode, 0, pos);
	inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE | INODE_UNITS);
	return 0;
}

/* Inline content instead of units, which were cut. */
static void put_small(struct vfs *vfs, struct inode *inode, struct blob *blob, int64_t size)
{
	inode->row.flags &= ~(uint32_t)STORE_NODE_EXTENTS;
	inode->row.rdev = 0;
	inode->state &= ~(unsigned)(INODE_INLINE_OLD | INODE_UNITS);
	blob_unref(inode->blob);
	inode->blob = blob;
	inode->blob_loaded = true;
	small_changed(vfs, inode, size, (size_t)size);
}

/* By content_begin. */
static int shrink_to_small(struct vfs *vfs, struct inode *inode, int64_t size)
{
	struct blob *blob = NULL;
	int64_t gone = (int64_t)inode->row.rdev;
	int r;

	if (size) {
		blob = blob_new((size_t)size);
		r = units_read(vfs, inode, 0, blob->data, (size_t)size);
		if (r < 0) {
			blob_unref(blob);
			return r;
		}
		blob->len = (size_t)size;
	}
	/* A hole may become bytes: that cannot be refused, the file gets smaller. */
	quota_give_bytes(vfs, (uint64_t)gone * STORE_UNIT);
	vfs->used_bytes += (uint64_t)size;
	units_cut(vfs, inode, 0, gone);
	put_small(vfs, inode, blob, size);
	return 0;
}

/* By content_begin. The last unit that stays is copied, so that a crash leaves one state or the
 * other; when there is no room for that, its end is zeroed in place. */
static int shrink(struct vfs *vfs, struct inode *inode, int64_t size)
{
	int64_t first = units_of(size), keep = size % STORE_UNIT, gone = 0, pos = STORE_HOLE;
	struct store_unit last = {.pos = STORE_HOLE};
	int r = 0;

	units_fresh(vfs, inode);
	if (keep)
		r = units_get(vfs, inode, first - 1, 1, &last);
	if (r == 0 && last.pos != STORE_HOLE) {
		r = units_copy_head(vfs, inode, first - 1, keep, &pos);
		if (r == -ENOSPC && last.layer == 0)
			r = units_zero(vfs, inode, size, STORE_UNIT - keep);
	}
	if (r == 0)
		r = units_count(vfs, inode, first, INT64_MAX, &gone);
	if (r < 0) {
		if (pos != STORE_HOLE)
			store_data_free(vfs->store, pos, 1);
		return r;
	}
	quota_give_bytes(vfs, (uint64_t)gone * STORE_UNIT);
	units_cut(vfs, inode, first, gone);
	if (pos != STORE_HOLE)
		units_set(vfs, inode, first - 1, pos);
	inode->row.size = size;
	inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE | (pos != STORE_HOLE ? INODE_UNITS : 0));
	return 0;
}

/* A hole behind the end. By content_begin. */
static int extend(struct vfs *vfs, struct inode *inode, int64_t size)
{
	uint64_t small = in_units(inode) ? 0 : (uint64_t)inode->row.size;
	int r;

	if (!in_units(inode)) {
		r = small ? quota_take_bytes(vfs, STORE_UNIT - small) : 0;
		if (r < 0)
			return r;
		r = content_to_units(vfs, inode);
		if (r < 0) {
			if (small)
				quota_give_bytes(vfs, STORE_UNIT - small);
			return r;
		}
	}
	inode->row.size = size;
	inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE);
	return 0;
}

int file_truncate(struct vfs *vfs, struct inode *inode, int64_t size)
{
	int r;

	if (size < 0)
		return -EINVAL;
	if (size > VFS_SIZE_MAX)
		return -EFBIG;
	content_hold(inode);
	content_wait(vfs, inode);
	content_begin(inode);
	if (size == inode->row.size)
		r = 0;
	else if (!in_units(inode) && size <= STORE_INLINE_MAX)
		r = small_resize(vfs, inode, size);
	else if (size > inode->row.size)
		r = extend(vfs, inode, size);
	else if (size <= STORE_INLINE_MAX)
		r = shrink_to_small(vfs, inode, size);
	else
		r = shrink(vfs, inode, size);
	content_end(vfs, inode);
	inode->opens--; /* settling is the caller's, who still looks at it */
	return r;
}

void file_drop(struct vfs *vfs, struct inode *inode)
{
	if (inode_is_file(inode)) {
		if (in_units(inode))
			quota_give_bytes(vfs, inode->row.rdev * STORE_UNIT);
		else
			quota_give_bytes(vfs, (uint64_t)inode->row.size);
	}
	units_give_back(vfs, inode);
	file_forget(inode);
}

void file_forget(struct inode *inode)
{
	units_forget(inode);
	blob_unref(inode->blob);
	inode->blob = NULL;
	inode->blob_loaded = false;
}

/* ---- reading and writing ---- */

ssize_t content_read(struct vfs *vfs, struct inode *inode, int64_t offset, void *ret_bytes,
		     size_t len)
{
	int r;

	if (offset >= inode->row.size)
		return 0;
	if ((uint64_t)len > (uint64_t)(inode->row.size - offset))
		len = (size_t)(inode->row.size - offset);
	if (in_units(inode)) {
		r = units_read(vfs, inode, offset, ret_bytes, len);
		return r < 0 ? r : (ssize_t)len;
	}
	r = file_load(vfs, inode);
	if (r < 0)
		return r;
	if (len)
		memcpy(ret_bytes, inode->blob->data + offset, len);
	return (ssize_t)len;
}

/* By content_begin. */
static int large_write(struct vfs *vfs, struct inode *inode, int64_t offset, struct span bytes)
{
	uint64_t small = in_units(inode) ? 0 : (uint64_t)inode->row.size;
	int64_t holes = 0;
	int r;

	units_fresh(vfs, inode);
	r = units_holes(vfs, inode, offset, bytes.len, &holes);
	/* Unit 0 will hold what is inline now; if that is written as well it was counted. */
	if (r == 0 && small && offset >= STORE_UNIT)
		holes++;
	if (r == 0)
		r = quota_take_bytes(vfs, (uint64_t)holes * STORE_UNIT - small);
	if (r < 0)
		return r;
	if (!in_units(inode)) {
		r = content_to_units(vfs, inode);
		if (r < 0) {
			quota_give_bytes(vfs, (uint64_t)holes * STORE_UNIT - small);
			return r;
		}
	}
	r = units_write(vfs, inode, offset, bytes);
	if (r < 0)
		return r;
	if (offset + (int64_t)bytes.len > inode->row.size) {
		inode->row.size = offset + (int64_t)bytes.len;
		inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE);
	}
	return 0;
}

int content_write(struct vfs *vfs, struct inode *inode, int64_t offset, struct span bytes)
{
	int r;

	if (!in_units(inode) && offset + (int64_t)bytes.len <= STORE_INLINE_MAX)
		return small_write(vfs, inode, (size_t)offset, bytes);
	content_begin(inode);
	r = large_write(vfs, inode, offset, bytes);
	content_end(vfs, inode);
	return r;
}

/* ---- content as a whole ---- */

struct content {
	int64_t size;
	struct blob *blob; /* a small one's */
	size_t count;      /* a large one's units */
	int64_t pos[];
};

int content_prepare(struct vfs *vfs, struct span bytes, struct content **ret_content)
{
	size_t count = bytes.len > STORE_INLINE_MAX ? (size_t)units_of((int64_t)bytes.len) : 0;
	struct content *content = mem_alloc0(sizeof(*content) + count * sizeof(content->pos[0]));
	int r = 0;

	content->size = (int64_t)bytes.len;
	if (count) {
		r = units_store(vfs, bytes, content->pos);
	} else if (bytes.len) {
		content->blob = blob_new(bytes.len);
		memcpy(content->blob->data, bytes.data, bytes.len);
		content->blob->len = bytes.len;
	}
	if (r < 0) {
		free(content);
		return r;
	}
	content->count = count;
	*ret_content = content;
	return 0;
}

void content_free(struct vfs *vfs, struct content *content)
{
	if (!content)
		return;
	blob_unref(content->blob);
	units_free(vfs, content->pos, content->count);
	free(content);
}

static int put_units(struct vfs *vfs, struct inode *inode, struct content *content)
{
	struct units *chunk;
	int r;

	drop_small(vfs, inode);
	for (size_t i = 0; i < content->count; i++) {
		if (i % UNITS_CHUNK == 0) {
			r = units_chunk(vfs, inode, (int64_t)i, true, &chunk);
			if (r < 0)
				return r;
		}
		units_set(vfs, inode, (int64_t)i, content->pos[i]);
	}
	content->count = 0;
	inode->row.size = content->size;
	vfs->dirty_bytes += (uint64_t)content->size;
	inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE | INODE_UNITS);
	return 0;
}

int content_put(struct vfs *vfs, struct inode *inode, struct content *content)
{
	bool was_large = in_units(inode);
	uint64_t old = was_large ? inode->row.rdev * STORE_UNIT : (uint64_t)inode->row.size;
	uint64_t new = content->count ? content->count *STORE_UNIT : (uint64_t)content->size;
	int r;

	units_fresh(vfs, inode);
	r = new > old ? quota_take_bytes(vfs, new - old) : 0;
	if (r < 0)
		return r;
	if (new < old)
		quota_give_bytes(vfs, old - new);
	/* Then no unit is to be looked up in the store, which could fail. */
	if (was_large)
		units_cut(vfs, inode, 0, (int64_t)inode->row.rdev);
	inode->state |= INODE_NO_UNITS;
	if (content->count)
		return put_units(vfs, inode, content);
	put_small(vfs, inode, content->blob, content->size);
	content->blob = NULL;
	return 0;
}
