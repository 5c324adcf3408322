/* alloc.c - fallocate, lseek, copy. */
#include "base/mem.h"
#include "vfs/units_i.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#define COPY_STEP (1 << 20)

struct range {
	int64_t from, to;
};

static bool in_units(const struct inode *inode)
{
	return inode->row.flags & STORE_NODE_EXTENTS;
}

static int64_t min_i64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- zeros ---- */

/* Every unit of first .. last becomes a hole. By content_begin. */
static int punch_units(struct vfs *vfs, struct inode *inode, int64_t first, int64_t last)
{
	uint64_t gone = inode->row.rdev;
	int64_t idx = first;
	int r = 0;

	while (r == 0) {
		struct units *chunk;

		r = units_next(vfs, inode, idx, &idx);
		if (r == 0 && idx > last)
			break;
		if (r == 0)
			r = units_chunk(vfs, inode, idx, true, &chunk);
		if (r == 0)
			units_set(vfs, inode, idx++, STORE_HOLE);
	}
	gone -= inode->row.rdev;
	if (gone) {
		quota_give_bytes(vfs, gone * STORE_UNIT);
		inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE | INODE_UNITS);
	}
	return r == -ENXIO ? 0 : r;
}

/* Zeros within the size of a file in units. By content_begin. */
static int punch_large(struct vfs *vfs, struct inode *inode, struct range range)
{
	int64_t first = units_of(range.from), end = range.to / STORE_UNIT;
	int r = 0;

	units_fresh(vfs, inode);
	if (range.to == inode->row.size)
		end = units_of(range.to); /* behind the end there are zeros already */
	if (range.from / STORE_UNIT == (range.to - 1) / STORE_UNIT && first >= end)
		return units_zero(vfs, inode, range.from, range.to - range.from);
	if (range.from % STORE_UNIT)
		r = units_zero(vfs, inode, range.from, STORE_UNIT - range.from % STORE_UNIT);
	if (r == 0 && range.to > end * STORE_UNIT)
		r = units_zero(vfs, inode, end * STORE_UNIT, range.to - end * STORE_UNIT);
	if (r == 0 && first < end)
		r = punch_units(vfs, inode, first, end - 1);
	return r;
}

static int zero_small(struct vfs *vfs, struct inode *inode, struct range range)
{
	static const char zeros[STORE_INLINE_MAX];

	return content_write(vfs, inode, range.from,
			     span_of(zeros, (size_t)(range.to - range.from)));
}

/* Zeros in the part of the range that the file has. */
static int zero(struct vfs *vfs, struct inode *inode, struct range range)
{
	int r;

	range.to = min_i64(range.to, inode->row.size);
	if (range.from >= range.to)
		return 0;
	if (!in_units(inode))
		return zero_small(vfs, inode, range);
	content_begin(inode);
	r = punch_large(vfs, inode, range);
	content_end(vfs, inode);
	return r;
}

/* ---- allocation ---- */

/* By content_begin. */
static int fill(struct vfs *vfs, struct inode *inode, struct range range)
{
	int64_t first = range.from / STORE_UNIT, last = units_of(range.to) - 1, count = 0;
	uint64_t need, size = 0, room = 0;
	int r;

	units_fresh(vfs, inode);
	r = units_count(vfs, inode, first, last, &count);
	if (r == 0)
		r = store_get_disk(vfs->store, &size, &room);
	if (r < 0)
		return r;
	need = (uint64_t)(last - first + 1 - count) * STORE_UNIT;
	if (need > room)
		return -ENOSPC; /* also keeps what a guest asks for within reason */
	r = quota_take_bytes(vfs, need);
	return r < 0 ? r : units_fill(vfs, inode, first, last);
}

/* Units under the part of the range that the file has. */
static int allocate(struct vfs *vfs, struct inode *inode, struct range range)
{
	int r;

	range.to = min_i64(range.to, inode->row.size);
	if (range.from >= range.to || !in_units(inode))
		return 0;
	content_begin(inode);
	r = fill(vfs, inode, range);
	content_end(vfs, inode);
	return r;
}

/* Room behind the end is not set aside without the size (docs/posix.md). */
static int reserve(struct vfs *vfs, struct inode *inode, int mode, struct range range)
{
	int64_t old = inode->row.size;
	int r = 0;

	if (!(mode & FALLOC_FL_KEEP_SIZE) && range.to > old)
		r = file_truncate(vfs, inode, range.to);
	if (r == 0)
		r = allocate(vfs, inode, range);
	if (r < 0 && inode->row.size > old)
		(void)!file_truncate(vfs, inode, old);
	return r;
}

/* Under io_lock, held open. */
static int falloc_in(struct vfs *vfs, const struct vfs_ctx *ctx, struct inode *inode, int mode,
		     struct range range)
{
	int r = 0;

	content_wait(vfs, inode);
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		r = zero(vfs, inode, range);
	if (r == 0 && !(mode & FALLOC_FL_PUNCH_HOLE))
		r = reserve(vfs, inode, mode, range);
	if (r < 0)
		return r;
	if (file_kills_privileges(ctx, ctx->who.uid != 0)) /* the kernel leaves it to us */
		file_drop_privileges(vfs, ctx, inode);
	/* as ext4 and tmpfs do, also when only blocks are reserved */
	inode_touch(vfs, inode, TOUCH_CTIME | TOUCH_MTIME);
	vfs_note(vfs, ctx,
		 (struct gate_record){.op = GATE_ALLOC,
				      .ino = inode->row.ino,
				      .offset = range.from,
				      .size = range.to - range.from});
	watch_tell(vfs, ctx, VFS_EVENT_MODIFY, inode, 0, SPAN_EMPTY);
	return 0;
}

static int falloc_check(int mode, int64_t offset, int64_t len)
{
	const int both = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;

	if (offset < 0 || len <= 0)
		return -EINVAL;
	if (mode & ~(both | FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	if ((mode & both) == both)
		return -EOPNOTSUPP;
	if ((mode & FALLOC_FL_PUNCH_HOLE) && !(mode & FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	return len > VFS_SIZE_MAX - offset ? -EFBIG : 0;
}

int vfs_fallocate(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int mode, int64_t offset,
		  int64_t len)
{
	struct inode *inode;
	int r;

	r = falloc_check(mode, offset, len);
	if (r < 0)
		return r;
	watch_pull(vfs, ctx, ino);
	r = flush_throttle(vfs);
	if (r < 0)
		return r;
	io_lock(vfs);
	r = inode_get(vfs, ino, &inode);
	if (r == 0) {
		r = content_check(vfs, inode);
		if (r == -EINVAL)
			r = -ENODEV;
	}
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_ALLOC, ino, SPAN_EMPTY);
	if (r == 0) {
		content_hold(inode);
		r = falloc_in(vfs, ctx, inode, mode, (struct range){offset, offset + len});
		content_release(vfs, inode);
	}
	io_unlock(vfs);
	return r;
}

/* ---- lseek ---- */

/* The first hole from `offset` on; the end of the file counts as one. */
static int find_hole(struct vfs *vfs, struct inode *inode, int64_t offset, int64_t *ret_offset)
{
	int64_t idx = offset / STORE_UNIT;
	struct units *chunk = NULL;
	bool first = true;

	for (; idx * STORE_UNIT < inode->row.size; idx++) {
		if (first || idx % UNITS_CHUNK == 0) {
			int r = units_chunk(vfs, inode, idx, false, &chunk);

			if (r < 0)
				return r;
		}
		first = false;
		if (!chunk || chunk->unit[idx % UNITS_CHUNK].pos == STORE_HOLE)
			break;
	}
	*ret_offset = min_i64(idx * STORE_UNIT, inode->row.size);
	if (*ret_offset < offset)
		*ret_offset = offset;
	return 0;
}

/* Under `lock`, after units_fresh. */
static int find_data(struct vfs *vfs, struct inode *inode, int64_t offset, int64_t *ret_offset)
{
	int64_t idx;
	int r;

	r = units_next(vfs, inode, offset / STORE_UNIT, &idx);
	if (r < 0)
		return r;
	if (idx * STORE_UNIT >= inode->row.size)
		return -ENXIO;
	*ret_offset = idx * STORE_UNIT > offset ? idx * STORE_UNIT : offset;
	return 0;
}

static int seek_in(struct vfs *vfs, struct inode *inode, int64_t offset, int whence,
		   int64_t *ret_offset)
{
	if (offset < 0 || offset >= inode->row.size)
		return -ENXIO;
	if (!in_units(inode)) {
		*ret_offset = whence == SEEK_DATA ? offset : inode->row.size;
		return 0;
	}
	units_fresh(vfs, inode);
	if (whence == SEEK_DATA)
		return find_data(vfs, inode, offset, ret_offset);
	return find_hole(vfs, inode, offset, ret_offset);
}

int64_t vfs_lseek(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t offset,
		  int whence)
{
	int64_t found = 0;
	struct inode *inode;
	int r;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	watch_pull(vfs, ctx, ino);
	io_lock(vfs);
	r = inode_get(vfs, ino, &inode);
	if (r == 0 && !inode_is_file(inode))
		r = -EINVAL;
	if (r == 0)
		r = seek_in(vfs, inode, offset, whence, &found);
	io_unlock(vfs);
	return r < 0 ? r : found;
}

/* ---- copy ---- */

struct copy {
	struct inode *from, *to;
	int64_t at, at2; /* what is to be copied next, and where to */
	int64_t left;
	char *bytes;
};

/* How much of what comes next is one hole; 0 when data does. */
static int next_hole(struct vfs *vfs, const struct copy *copy, int64_t *ret_len)
{
	int64_t data;
	int r;

	*ret_len = 0;
	if (!in_units(copy->from))
		return 0;
	units_fresh(vfs, copy->from);
	r = find_data(vfs, copy->from, copy->at, &data);
	if (r == -ENXIO)
		data = copy->from->row.size;
	else if (r < 0)
		return r;
	*ret_len = min_i64(data - copy->at, copy->left);
	return 0;
}

static int copy_hole(struct vfs *vfs, const struct copy *copy, int64_t len)
{
	const struct range range = {copy->at2, copy->at2 + len};
	int r;

	r = zero(vfs, copy->to, range);
	if (r == 0 && range.to > copy->to->row.size)
		r = file_truncate(vfs, copy->to, range.to);
	return r;
}

/* One step: a hole, or up to COPY_STEP bytes. The count, 0 at the end of the file. */
static int64_t copy_step(struct vfs *vfs, struct copy *copy)
{
	int64_t len;
	int r;

	content_wait(vfs, copy->to);
	if (copy->at >= copy->from->row.size)
		return 0;
	r = next_hole(vfs, copy, &len);
	if (r < 0)
		return r;
	if (len) {
		r = copy_hole(vfs, copy, len);
		return r < 0 ? r : len;
	}
	len = content_read(vfs, copy->from, copy->at, copy->bytes,
			   (size_t)min_i64(copy->left, COPY_STEP));
	if (len <= 0)
		return len;
	content_wait(vfs, copy->to);
	r = content_write(vfs, copy->to, copy->at2, span_of(copy->bytes, (size_t)len));
	return r < 0 ? r : len;
}

/* Under io_lock, both held open. */
static int64_t copy_in(struct vfs *vfs, const struct vfs_ctx *ctx, struct copy *copy)
{
	int64_t done = 0, n = 0, at2 = copy->at2;

	/* What is there now: a copy within one file may make it longer. */
	copy->left = min_i64(copy->left, copy->from->row.size - copy->at);
	if (copy->left < 0)
		copy->left = 0;
	if (copy->from == copy->to && copy->at < copy->at2 + copy->left &&
	    copy->at2 < copy->at + copy->left)
		return -EINVAL;
	while (copy->left) {
		n = copy_step(vfs, copy);
		if (n <= 0)
			break;
		done += n;
		copy->at += n;
		copy->at2 += n;
		copy->left -= n;
		/* A flush, or whoever waits to stop everybody, comes in between. */
		io_unlock(vfs);
		io_lock(vfs);
		if ((copy->from->state | copy->to->state) & INODE_STALE) {
			n = -ESTALE;
			break;
		}
	}
	if (done == 0)
		return n;
	if (file_kills_privileges(ctx, ctx->who.uid != 0))
		file_drop_privileges(vfs, ctx, copy->to);
	inode_touch(vfs, copy->to, TOUCH_CTIME | TOUCH_MTIME);
	vfs_note(vfs, ctx,
		 (struct gate_record){.op = GATE_COPY,
				      .ino = copy->to->row.ino,
				      .parent2 = copy->from->row.ino,
				      .offset = at2,
				      .size = done});
	watch_tell(vfs, ctx, VFS_EVENT_MODIFY, copy->to, 0, SPAN_EMPTY);
	return done;
}

static int copy_open(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t ino2,
		     struct copy *copy)
{
	int r;

	r = inode_get(vfs, ino, &copy->from);
	if (r == 0)
		r = inode_get(vfs, ino2, &copy->to);
	if (r == 0 && !inode_is_file(copy->from))
		r = inode_is_dir(copy->from) ? -EISDIR : -EINVAL;
	if (r == 0)
		r = content_check(vfs, copy->to);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_READ, ino, SPAN_EMPTY);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_COPY, ino2, SPAN_EMPTY);
	return r;
}

ssize_t vfs_copy(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t offset,
		 int64_t ino2, int64_t offset2, int64_t len)
{
	struct copy copy = {.at = offset, .at2 = offset2, .left = len};
	int64_t n;

	if (offset < 0 || offset2 < 0 || len < 0 || len > INT64_MAX - offset)
		return -EINVAL;
	if (len > VFS_SIZE_MAX - offset2 && offset2 >= VFS_SIZE_MAX)
		return -EFBIG;
	copy.left = len = min_i64(len, VFS_SIZE_MAX - offset2);
	watch_pull(vfs, ctx, ino);
	watch_pull(vfs, ctx, ino2);
	n = flush_throttle(vfs);
	if (n < 0)
		return n;
	copy.bytes = mem_alloc((size_t)min_i64(len, COPY_STEP));
	io_lock(vfs);
	n = copy_open(vfs, ctx, ino, ino2, &copy);
	if (n == 0) {
		content_hold(copy.from);
		content_hold(copy.to);
		n = copy_in(vfs, ctx, &copy);
		content_release(vfs, copy.from);
		content_release(vfs, copy.to);
	}
	io_unlock(vfs);
	free(copy.bytes);
	return n;
}
