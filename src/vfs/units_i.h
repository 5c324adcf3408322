/* units_i.h - between content.c, units.c, file.c and alloc.c: bytes of regular files.
 *
 * Everything here is called with `io` shared and `lock`, unless it says otherwise. A function
 * marked [waits] drops `lock` meanwhile: the caller keeps the inode open (content_hold).
 *
 * What holds of content: a file in units is larger than STORE_INLINE_MAX, others are not; bytes of
 * its last unit beyond its size are zero; no unit lies beyond its size. A unit that a committed row
 * may name is never cut or replaced in place, so a crash leaves the old content or the new one;
 * what a write does to it in place has the guarantees of a journalling filesystem's ordered mode.
 */
#ifndef VFS_UNITS_I_H
#define VFS_UNITS_I_H

#include "vfs/vfs_i.h"

/* ---- file.c ---- */

/* `io` shared and `lock`. */
void io_lock(struct vfs *vfs);
void io_unlock(struct vfs *vfs);

/* Does this caller's change of content take setuid and setgid away? The kernel says so for its own.
 */
bool file_kills_privileges(const struct vfs_ctx *ctx, bool kernel_says);
void file_drop_privileges(struct vfs *vfs, const struct vfs_ctx *ctx, struct inode *inode);

/* ---- content.c ---- */

/* Keep an inode while `lock` is dropped. content_release may free it. */
void content_hold(struct inode *inode);
void content_release(struct vfs *vfs, struct inode *inode);

/* Wait until nobody changes its content without the lock. [waits] */
void content_wait(struct vfs *vfs, struct inode *inode);
/* Be the one who does, after content_wait; and no longer. */
void content_begin(struct inode *inode);
void content_end(struct vfs *vfs, struct inode *inode);

/* Up to `len` bytes, fewer at the end of the file. [waits] */
ssize_t content_read(struct vfs *vfs, struct inode *inode, int64_t offset, void *ret_bytes,
		     size_t len) MUST_USE;
/* All of it or an error; times are the caller's. Nobody may be changing content. [waits] */
int content_write(struct vfs *vfs, struct inode *inode, int64_t offset, struct span bytes) MUST_USE;
/* Units instead of inline content, the same bytes; its quota was taken. By content_begin. [waits]
 */
int content_to_units(struct vfs *vfs, struct inode *inode) MUST_USE;
/* Read-only workspace, not a regular file, ... for whatever changes content. */
int content_check(const struct vfs *vfs, const struct inode *inode) MUST_USE;

/* ---- units.c ---- */

static inline int64_t units_of(int64_t size)
{
	return size / STORE_UNIT + (size % STORE_UNIT != 0);
}

/* At the start of an operation, before units are looked at: forget what is stale or too much. */
void units_fresh(struct vfs *vfs, struct inode *inode);
/* The chunk with unit `idx`, from memory or the store; NULL when it is all holes and not `make`. */
int units_chunk(struct vfs *vfs, struct inode *inode, int64_t idx, bool make,
		struct units **ret_chunk) MUST_USE;
int units_get(struct vfs *vfs, struct inode *inode, int64_t first, size_t count,
	      struct store_unit *ret_units) MUST_USE;
/* The first unit from `from` on that is no hole. 0 or -ENXIO. */
int units_next(struct vfs *vfs, struct inode *inode, int64_t from, int64_t *ret_idx) MUST_USE;
/* How many units of first .. last are no holes. */
int units_count(struct vfs *vfs, struct inode *inode, int64_t first, int64_t last,
		int64_t *ret_count) MUST_USE;
/* Name a unit; the one before, if no row names it, is given back. Its chunk is in memory. */
void units_set(struct vfs *vfs, struct inode *inode, int64_t idx, int64_t pos);
/* Holes from `first` on, `gone` of them units now (units_count). Their quota is the caller's. */
void units_cut(struct vfs *vfs, struct inode *inode, int64_t first, int64_t gone);
/* Give back every unit no row names (the inode is going). */
void units_give_back(struct vfs *vfs, struct inode *inode);
void units_forget(struct inode *inode);

/* Bytes inside the file's size. [waits] */
int units_read(struct vfs *vfs, struct inode *inode, int64_t offset, char *ret_bytes,
	       size_t len) MUST_USE;
/* Holes among the units of a write that it would fill. */
int units_holes(struct vfs *vfs, struct inode *inode, int64_t offset, size_t len,
		int64_t *ret_holes) MUST_USE;
/* Write; the quota of its holes was taken, and is given back on failure. By content_begin. [waits]
 */
int units_write(struct vfs *vfs, struct inode *inode, int64_t offset, struct span bytes) MUST_USE;
/* Zeros over part of one unit that is no hole. By content_begin. [waits] */
int units_zero(struct vfs *vfs, struct inode *inode, int64_t offset, int64_t len) MUST_USE;
/* A fresh copy of one unit with zeros from byte `keep` on; -ENOSPC. By content_begin. [waits] */
int units_copy_head(struct vfs *vfs, struct inode *inode, int64_t idx, int64_t keep,
		    int64_t *ret_pos) MUST_USE;
/* Put a unit into every hole of first .. last; quota as units_write. By content_begin. [waits] */
int units_fill(struct vfs *vfs, struct inode *inode, int64_t first, int64_t last) MUST_USE;

/* Units of the extent file that hold `bytes`, in as few runs as possible. Without any lock. */
int units_store(struct vfs *vfs, struct span bytes, int64_t *ret_pos) MUST_USE;
/* Take `count` units: each one's position. Without any lock. */
int units_alloc(struct vfs *vfs, size_t count, int64_t *ret_pos) MUST_USE;
void units_free(struct vfs *vfs, const int64_t *pos, size_t count);

#endif
