/* file.c - open, read, write, release, fsync. */
#include "vfs/units_i.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The most bytes one call moves, as in Linux. */
#define IO_MAX 0x7ffff000

void io_lock(struct vfs *vfs)
{
	pthread_rwlock_rdlock(&vfs->io);
	vfs_lock(vfs);
}

void io_unlock(struct vfs *vfs)
{
	vfs_unlock(vfs);
	pthread_rwlock_unlock(&vfs->io);
}

void file_drop_privileges(struct vfs *vfs, const struct vfs_ctx *ctx, struct inode *inode)
{
	uint32_t drop = S_ISUID;

	/* Without group execution setgid means nothing much; only strangers to the group lose it. A
	 * kernel says so only then. */
	if ((inode->row.mode & S_IXGRP) ||
	    (ctx->who.uid != 0 && !perm_in_group(ctx, inode->row.gid)))
		drop |= S_ISGID;
	if (inode_is_dir(inode) || !(inode->row.mode & drop))
		return;
	inode->row.mode &= ~drop;
	inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE);
}

bool file_kills_privileges(const struct vfs_ctx *ctx, bool kernel_says)
{
	return kernel_says || (!ctx->source && ctx->who.uid != 0);
}

/* ---- open ---- */

/* Under io_lock, held open. */
static int open_truncate(struct vfs *vfs, const struct vfs_ctx *ctx, struct inode *inode)
{
	int r;

	r = content_check(vfs, inode);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_TRUNCATE, inode->row.ino, SPAN_EMPTY);
	if (r == 0)
		r = file_truncate(vfs, inode, 0);
	if (r < 0)
		return r;
	if (file_kills_privileges(ctx, false))
		file_drop_privileges(vfs, ctx, inode);
	inode_touch(vfs, inode, TOUCH_CTIME | TOUCH_MTIME);
	vfs_note(vfs, ctx, (struct gate_record){.op = GATE_TRUNCATE, .ino = inode->row.ino});
	watch_tell(vfs, ctx, VFS_EVENT_MODIFY, inode, 0, SPAN_EMPTY);
	return 0;
}

static int open_mask(int flags)
{
	int mask = flags & O_TRUNC ? W_OK : 0;

	if ((flags & O_ACCMODE) != O_WRONLY)
		mask |= R_OK;
	if ((flags & O_ACCMODE) != O_RDONLY)
		mask |= W_OK;
	return mask;
}

/* Under io_lock. */
static int open_in(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int flags)
{
	struct inode *inode;
	int r;

	r = inode_get(vfs, ino, &inode);
	if (r < 0)
		return r;
	if (S_ISLNK(inode->row.mode))
		return -ELOOP;
	if (inode_is_dir(inode) && (open_mask(flags) & W_OK))
		return -EISDIR;
	r = perm_check(vfs, ctx, inode, open_mask(flags));
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_OPEN, ino, SPAN_EMPTY);
	if (r < 0)
		return r;
	content_hold(inode);
	if ((flags & O_TRUNC) && inode_is_file(inode)) {
		r = open_truncate(vfs, ctx, inode);
		if (r < 0)
			content_release(vfs, inode);
	}
	return r;
}

int vfs_open(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int flags)
{
	int r;

	if ((flags & O_ACCMODE) == O_ACCMODE)
		return -EINVAL;
	if (flags & O_TRUNC)
		watch_pull(vfs, ctx, ino);
	io_lock(vfs);
	r = open_in(vfs, ctx, ino, flags);
	io_unlock(vfs);
	return r;
}

void vfs_release(struct vfs *vfs, int64_t ino)
{
	struct inode *inode;

	vfs_lock(vfs);
	inode = inode_peek(vfs, ino);
	if (inode && inode->opens)
		content_release(vfs, inode);
	vfs_unlock(vfs);
}

/* ---- read ---- */

ssize_t vfs_read(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t offset,
		 void *ret_bytes, size_t len)
{
	struct inode *inode;
	ssize_t n;

	if (offset < 0)
		return -EINVAL;
	if (len > IO_MAX)
		len = IO_MAX;
	watch_pull(vfs, ctx, ino);
	io_lock(vfs);
	n = inode_get(vfs, ino, &inode);
	if (n == 0 && !inode_is_file(inode))
		n = inode_is_dir(inode) ? -EISDIR : -EINVAL;
	if (n == 0)
		n = vfs_ask(vfs, ctx, GATE_READ, ino, SPAN_EMPTY);
	if (n == 0)
		n = content_read(vfs, inode, offset, ret_bytes, len);
	io_unlock(vfs);
	return n;
}

/* ---- write ---- */

/* What a change of content brings with it. */
static void written(struct vfs *vfs, const struct vfs_ctx *ctx, struct inode *inode, int64_t offset,
		    size_t len, unsigned flags)
{
	if (file_kills_privileges(ctx, flags & VFS_WRITE_KILLPRIV))
		file_drop_privileges(vfs, ctx, inode);
	if (!(flags & VFS_WRITE_CACHE))
		inode_touch(vfs, inode, TOUCH_CTIME | TOUCH_MTIME);
	vfs_note(vfs, ctx,
		 (struct gate_record){.op = GATE_WRITE,
				      .ino = inode->row.ino,
				      .offset = offset,
				      .size = (int64_t)len});
	watch_tell(vfs, ctx, VFS_EVENT_MODIFY, inode, 0, SPAN_EMPTY);
}

/* Under io_lock, held open. */
static int write_in(struct vfs *vfs, const struct vfs_ctx *ctx, struct inode *inode, int64_t offset,
		    struct span bytes, unsigned flags)
{
	int r;

	content_wait(vfs, inode);
	if (flags & VFS_WRITE_APPEND)
		offset = inode->row.size;
	if (offset > VFS_SIZE_MAX - (int64_t)bytes.len)
		return -EFBIG;
	if (bytes.len == 0)
		return 0;
	r = content_write(vfs, inode, offset, bytes);
	if (r == 0)
		written(vfs, ctx, inode, offset, bytes.len, flags);
	return r;
}

ssize_t vfs_write(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t offset,
		  const void *bytes, size_t len, unsigned flags)
{
	struct inode *inode;
	int r;

	if (offset < 0)
		return -EINVAL;
	if (len > IO_MAX)
		len = IO_MAX;
	watch_pull(vfs, ctx, ino);
	r = flush_throttle(vfs);
	if (r < 0)
		return r;
	io_lock(vfs);
	r = inode_get(vfs, ino, &inode);
	if (r == 0)
		r = content_check(vfs, inode);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_WRITE, ino, SPAN_EMPTY);
	if (r == 0) {
		content_hold(inode);
		r = write_in(vfs, ctx, inode, offset, span_of(bytes, len), flags);
		content_release(vfs, inode);
	}
	io_unlock(vfs);
	return r < 0 ? r : (ssize_t)len;
}

/* ---- sync ---- */

/* A file whose rows are on disk but for its times: its bytes are all that fdatasync needs. */
static bool only_bytes(const struct vfs *vfs, const struct inode *inode)
{
	const unsigned needed = INODE_CONTENT | INODE_UNITS | INODE_CUT | INODE_INLINE_OLD |
				INODE_SIZE | INODE_XATTR;

	return inode_is_file(inode) && (inode->row.flags & STORE_NODE_EXTENTS) &&
	       (inode->state & INODE_IN_DB) && !(inode->state & needed) &&
	       inode->frozen <= vfs->durable;
}

int vfs_fsync(struct vfs *vfs, int64_t ino, bool data_only)
{
	struct inode *inode;
	bool bytes = false;
	int r;

	if (vfs->readonly)
		return 0;
	vfs_lock(vfs);
	r = inode_get(vfs, ino, &inode);
	if (r == 0 && data_only)
		bytes = only_bytes(vfs, inode);
	vfs_unlock(vfs);
	if (r < 0)
		return r;
	return bytes ? store_data_sync(vfs->store) : flush_now(vfs, true);
}
