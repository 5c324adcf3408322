/* serve_file.c - attributes, bytes and extended attributes of one inode. */
#include "base/buf.h"
#include "base/clock.h"
#include "fuse/fuse_i.h"
#include "fuse/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int64_t node_of(const struct request *request)
{
	return (int64_t)request->header.nodeid;
}

int serve_getattr(struct request *request)
{
	struct vfs_attr attr;
	int r = vfs_getattr(request->fuse->vfs, &request->ctx, node_of(request), &attr);

	return r < 0 ? r : reply_attr(request, &attr);
}

static struct fuse_sx_time sx_time(uint64_t seconds, uint32_t nanoseconds)
{
	return (struct fuse_sx_time){.tv_sec = (int64_t)seconds, .tv_nsec = nanoseconds};
}

int serve_statx(struct request *request)
{
	struct vfs_attr attr;
	struct fuse_attr flat;
	struct fuse_statx_out out = {.attr_valid = FUSE_TIMEOUT_S};
	int64_t btime;
	int r = vfs_getattr(request->fuse->vfs, &request->ctx, node_of(request), &attr);

	if (r < 0)
		return r;
	fill_attr(&attr, &flat);
	btime = attr.btime < 0 ? 0 : attr.btime;
	out.stat = (struct fuse_statx){
		.mask = STATX_BASIC_STATS | STATX_BTIME,
		.blksize = flat.blksize,
		.nlink = flat.nlink,
		.uid = flat.uid,
		.gid = flat.gid,
		.mode = (uint16_t)flat.mode,
		.ino = flat.ino,
		.size = flat.size,
		.blocks = flat.blocks,
		.atime = sx_time(flat.atime, flat.atimensec),
		.mtime = sx_time(flat.mtime, flat.mtimensec),
		.ctime = sx_time(flat.ctime, flat.ctimensec),
		.btime = sx_time((uint64_t)(btime / 1000000000), (uint32_t)(btime % 1000000000)),
		.rdev_major = major(attr.rdev),
		.rdev_minor = minor(attr.rdev),
	};
	memcpy(request->out, &out, sizeof(out));
	return (int)sizeof(out);
}

/* A time as the kernel gives it, or the nearest one we can keep. */
static int64_t time_of(uint64_t seconds, uint32_t nanoseconds)
{
	const int64_t limit = INT64_MAX / 1000000000 - 1;
	int64_t s = (int64_t)seconds;

	if (s > limit)
		s = limit;
	if (s < -limit)
		s = -limit;
	return s * 1000000000 + (nanoseconds < 1000000000 ? nanoseconds : 0);
}

static unsigned set_of(const struct fuse_setattr_in *in)
{
	static const struct {
		uint32_t valid;
		unsigned set;
	} rows[] = {
		{FUSE_FATTR_MODE, VFS_SET_MODE},
		{FUSE_FATTR_UID, VFS_SET_UID | VFS_SET_KILLPRIV},
		{FUSE_FATTR_GID, VFS_SET_GID | VFS_SET_KILLPRIV},
		{FUSE_FATTR_SIZE, VFS_SET_SIZE},
		{FUSE_FATTR_ATIME, VFS_SET_ATIME},
		{FUSE_FATTR_MTIME, VFS_SET_MTIME},
		{FUSE_FATTR_CTIME, VFS_SET_CTIME},
		{FUSE_FATTR_ATIME_NOW, VFS_SET_ATIME_NOW},
		{FUSE_FATTR_MTIME_NOW, VFS_SET_MTIME_NOW},
		{FUSE_FATTR_FH, VFS_SET_HANDLE},
		{FUSE_FATTR_KILL_SUIDGID, VFS_SET_KILLPRIV},
	};
	unsigned set = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (in->valid & rows[i].valid)
			set |= rows[i].set;
	if (set & VFS_SET_ATIME_NOW)
		set &= ~(unsigned)VFS_SET_ATIME;
	if (set & VFS_SET_MTIME_NOW)
		set &= ~(unsigned)VFS_SET_MTIME;
	return set;
}

/*
 * A kernel that writes back sends the times of what it wrote: through a handle, with only these
 * two; and the ctime alone (mtime as we know it) after unlink, link and rename. That was asked for
 * and recorded with the change itself. Anything else was somebody's wish.
 */
static bool is_bookkeeping(struct request *request, const struct fuse_setattr_in *in, int64_t mtime)
{
	const uint32_t times = FUSE_FATTR_MTIME | FUSE_FATTR_CTIME;
	struct vfs_attr attr;

	if (!request->fuse->writeback || (in->valid & ~(uint32_t)FUSE_FATTR_FH) != times)
		return false;
	if (in->valid & FUSE_FATTR_FH)
		return true;
	return vfs_getattr(request->fuse->vfs, &request->ctx, node_of(request), &attr) == 0 &&
	       attr.mtime == mtime;
}

int serve_setattr(struct request *request)
{
	const struct fuse_setattr_in *in = request->arg;
	struct fuse *fuse = request->fuse;
	struct vfs_attr after;
	struct vfs_attr attr = {
		.mode = in->mode & 07777,
		.uid = in->uid,
		.gid = in->gid,
		.atime = time_of(in->atime, in->atimensec),
		.mtime = time_of(in->mtime, in->mtimensec),
		.ctime = time_of(in->ctime, in->ctimensec),
	};
	unsigned set = set_of(in);
	int r;

	/* Our own call, only to make the kernel take over size and times that we already have. */
	if (request->header.pid != 0 &&
	    (int)request->header.pid == atomic_load_explicit(&fuse->adopter, memory_order_relaxed))
		set = (set & VFS_SET_CTIME) ? VFS_SET_CTIME | VFS_SET_QUIET : 0;
	else if (is_bookkeeping(request, in, attr.mtime))
		set |= VFS_SET_QUIET;
	/* Our next stamps are not behind it, so that a file made and written within one tick needs
	 * no SETATTR. Nobody but the kernel sets a ctime. */
	if (set & VFS_SET_CTIME)
		clock_stamp_seen(attr.ctime);
	if (set & VFS_SET_SIZE) {
		if (in->size > (uint64_t)VFS_SIZE_MAX)
			return -EFBIG;
		attr.size = (int64_t)in->size;
	}
	if (set == 0)
		return serve_getattr(request);
	r = vfs_setattr(fuse->vfs, &request->ctx, node_of(request), set, &attr, &after);
	return r < 0 ? r : reply_attr(request, &after);
}

int serve_readlink(struct request *request)
{
	CLEANUP(buf_clear) struct buf target = BUF_INIT(PATH_MAX);
	int r = vfs_readlink(request->fuse->vfs, &request->ctx, node_of(request), &target);

	if (r < 0)
		return r;
	memcpy(request->out, target.data, target.len);
	return (int)target.len;
}

int serve_read(struct request *request)
{
	const struct fuse_read_in *in = request->arg;
	size_t len = in->size < FUSE_IO_MAX ? in->size : FUSE_IO_MAX;

	if (in->offset > INT64_MAX - FUSE_IO_MAX)
		return -EINVAL;
	return (int)vfs_read(request->fuse->vfs, &request->ctx, node_of(request),
			     (int64_t)in->offset, request->out, len);
}

int serve_write(struct request *request)
{
	const struct fuse_write_in *in = request->arg;
	struct fuse_write_out out = {0};
	unsigned flags = 0;
	ssize_t n;

	if (in->size > request->rest.len)
		return -EINVAL;
	if (in->offset > INT64_MAX - (uint64_t)in->size)
		return -EFBIG;
	if (in->write_flags & FUSE_WRITE_KILL_SUIDGID)
		flags |= VFS_WRITE_KILLPRIV;
	if (in->write_flags & FUSE_WRITE_CACHE)
		flags |= VFS_WRITE_CACHE;
	n = vfs_write(request->fuse->vfs, &request->ctx, node_of(request), (int64_t)in->offset,
		      request->rest.data, in->size, flags);
	if (n < 0)
		return (int)n;
	out.size = (uint32_t)n;
	memcpy(request->out, &out, sizeof(out));
	return (int)sizeof(out);
}

int serve_fallocate(struct request *request)
{
	const struct fuse_fallocate_in *in = request->arg;

	if (in->offset > INT64_MAX || in->length > INT64_MAX - in->offset)
		return -EFBIG;
	return vfs_fallocate(request->fuse->vfs, &request->ctx, node_of(request), (int)in->mode,
			     (int64_t)in->offset, (int64_t)in->length);
}

int serve_lseek(struct request *request)
{
	const struct fuse_lseek_in *in = request->arg;
	struct fuse_lseek_out out;
	int64_t at;

	/*
	 * Linux 6.18 asks without writing its dirty pages back first: what was just written would
	 * be called a hole, and cp would leave it out. It then takes all below the size for data.
	 */
	if (request->fuse->writeback)
		return -ENOSYS;
	if (in->whence != SEEK_DATA && in->whence != SEEK_HOLE)
		return -EINVAL;
	if (in->offset > INT64_MAX)
		return -ENXIO;
	at = vfs_lseek(request->fuse->vfs, &request->ctx, node_of(request), (int64_t)in->offset,
		       (int)in->whence);
	if (at < 0)
		return (int)at;
	out.offset = (uint64_t)at;
	memcpy(request->out, &out, sizeof(out));
	return (int)sizeof(out);
}

static ssize_t copy(struct request *request)
{
	const struct fuse_copy_file_range_in *in = request->arg;
	uint64_t len = in->len < FUSE_COPY_MAX ? in->len : FUSE_COPY_MAX;

	if (in->nodeid_out > INT64_MAX)
		return -ESTALE;
	if (in->flags != 0 || in->off_in > INT64_MAX - len)
		return -EINVAL;
	if (in->off_out > INT64_MAX - len)
		return -EFBIG;
	return vfs_copy(request->fuse->vfs, &request->ctx, node_of(request), (int64_t)in->off_in,
			(int64_t)in->nodeid_out, (int64_t)in->off_out, (int64_t)len);
}

int serve_copy(struct request *request)
{
	ssize_t n = copy(request);
	struct fuse_write_out out = {.size = n < 0 ? 0 : (uint32_t)n};

	if (n < 0)
		return (int)n;
	memcpy(request->out, &out, sizeof(out));
	return (int)sizeof(out);
}

int serve_copy_64(struct request *request)
{
	ssize_t n = copy(request);
	struct fuse_copy_file_range_out out = {.bytes_copied = n < 0 ? 0 : (uint64_t)n};

	if (n < 0)
		return (int)n;
	memcpy(request->out, &out, sizeof(out));
	return (int)sizeof(out);
}

int serve_fsync(struct request *request)
{
	const struct fuse_fsync_in *in = request->arg;

	return vfs_fsync(request->fuse->vfs, node_of(request),
			 (in->fsync_flags & FUSE_FSYNC_DATA) != 0);
}

/* ---- extended attributes ---- */

/* A value, or its size when the caller asks with room for nothing. */
static int reply_value(struct request *request, const struct buf *value, uint32_t room)
{
	struct fuse_getxattr_out out = {.size = (uint32_t)value->len};

	if (room == 0) {
		memcpy(request->out, &out, sizeof(out));
		return (int)sizeof(out);
	}
	if (value->len > room)
		return -ERANGE;
	memcpy(request->out, value->data, value->len);
	return (int)value->len;
}

int serve_getxattr(struct request *request)
{
	const struct fuse_getxattr_in *in = request->arg;
	CLEANUP(buf_clear) struct buf value = BUF_INIT(VFS_XATTR_VALUE_MAX);
	struct span name;
	int r = take_string(&request->rest, &name);

	if (!request->fuse->xattrs)
		return -ENOSYS;
	if (r < 0)
		return r;
	r = vfs_getxattr(request->fuse->vfs, &request->ctx, node_of(request), name, &value);
	return r < 0 ? r : reply_value(request, &value, in->size);
}

int serve_listxattr(struct request *request)
{
	const struct fuse_getxattr_in *in = request->arg;
	CLEANUP(buf_clear) struct buf names = BUF_INIT(VFS_XATTRS_MAX);
	int r;

	if (!request->fuse->xattrs)
		return -ENOSYS;
	r = vfs_listxattr(request->fuse->vfs, &request->ctx, node_of(request), &names);
	return r < 0 ? r : reply_value(request, &names, in->size);
}

int serve_setxattr(struct request *request)
{
	const struct fuse_setxattr_in *in = request->arg;
	struct span name;
	int r = take_string(&request->rest, &name);

	if (!request->fuse->xattrs)
		return -ENOSYS;
	if (r < 0)
		return r;
	if (in->size > request->rest.len)
		return -EINVAL;
	return vfs_setxattr(request->fuse->vfs, &request->ctx, node_of(request), name,
			    span_of(request->rest.data, in->size), (int)in->flags);
}

int serve_removexattr(struct request *request)
{
	struct span name;
	int r = take_string(&request->rest, &name);

	if (!request->fuse->xattrs)
		return -ENOSYS;
	if (r < 0)
		return r;
	return vfs_removexattr(request->fuse->vfs, &request->ctx, node_of(request), name);
}
