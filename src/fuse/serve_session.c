/* serve_session.c - what concerns the connection: INIT, references, the filesystem as a whole. */
#include "fuse/fuse_i.h"
#include "fuse/serve.h"

#include <errno.h>

/* What we take of what the kernel offers; docs/wire/fuse.md says why, and why not the others. */
static const uint64_t wanted = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_DO_READDIRPLUS |
			       FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO | FUSE_NO_OPEN_SUPPORT |
			       FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS |
			       FUSE_NO_OPENDIR_SUPPORT | FUSE_EXPLICIT_INVAL_DATA |
			       FUSE_HANDLE_KILLPRIV_V2 | FUSE_SETXATTR_EXT | FUSE_INIT_EXT;

static int reply_init(struct request *request, const struct fuse_init_out *out)
{
	memcpy(request->out, out, sizeof(*out));
	return (int)sizeof(*out);
}

int serve_init(struct request *request)
{
	const struct fuse_init_in *in = request->arg;
	struct fuse *fuse = request->fuse;
	struct fuse_init_out out = {
		.major = FUSE_MAJOR,
		.minor = FUSE_MINOR,
		.max_readahead = in->max_readahead,
		.max_background = 128,
		.congestion_threshold = 96,
		.max_write = FUSE_IO_MAX,
		.time_gran = 1,
		.max_pages = FUSE_PAGES,
	};
	uint64_t offered, take = wanted;

	/* A newer major asks again with ours. A second INIT of the same connection is a mistake. */
	if (in->major > FUSE_MAJOR)
		return reply_init(request, &out);
	if (in->major < FUSE_MAJOR || in->minor < FUSE_MINOR_MIN)
		return -EPROTO;
	offered = in->flags;
	if (offered & FUSE_INIT_EXT) {
		if (op_arg_size(fuse, FUSE_INIT, request->header.len - sizeof(request->header)) <
		    sizeof(*in))
			return -EPROTO;
		offered |= (uint64_t)in->flags2 << 32;
	}
	if (atomic_exchange(&fuse->agreed, true))
		return -EIO;
	if (!fuse->readonly && !fuse->write_through)
		take |= FUSE_WRITEBACK_CACHE;
	if (fuse->uring)
		take |= FUSE_OVER_IO_URING;
	take &= offered;
	out.flags = (uint32_t)take;
	out.flags2 = (uint32_t)(take >> 32);

	fuse->minor = in->minor;
	fuse->setxattr_ext = (take & FUSE_SETXATTR_EXT) != 0;
	fuse->writeback = (take & FUSE_WRITEBACK_CACHE) != 0;
	fuse->uring_agreed = (take & FUSE_OVER_IO_URING) != 0;
	atomic_store(&fuse->ready, true);
	return reply_init(request, &out);
}

static void forget(struct fuse *fuse, uint64_t nodeid, uint64_t count)
{
	uint64_t taken;

	if (nodeid == 0 || nodeid > INT64_MAX)
		return;
	taken = refs_sub(&fuse->refs, (int64_t)nodeid, count);
	if (taken > 0)
		vfs_forget(fuse->vfs, (int64_t)nodeid, taken);
}

int serve_forget(struct request *request)
{
	const struct fuse_forget_in *in = request->arg;

	forget(request->fuse, request->header.nodeid, in->nlookup);
	return NO_REPLY;
}

int serve_batch_forget(struct request *request)
{
	const struct fuse_batch_forget_in *in = request->arg;
	struct fuse_forget_one one;
	size_t count = request->rest.len / sizeof(one);

	if (in->count < count)
		count = in->count;
	for (size_t i = 0; i < count; i++) {
		memcpy(&one, request->rest.data + i * sizeof(one), sizeof(one));
		forget(request->fuse, one.nodeid, one.nlookup);
	}
	return NO_REPLY;
}

/* No request waits for anything but memory and the disk, so there is nothing to break off. */
int serve_interrupt(struct request *request)
{
	(void)request;
	return NO_REPLY;
}

int serve_statfs(struct request *request)
{
	struct vfs_statfs stat;
	struct fuse_statfs_out out = {0};
	int r = vfs_statfs(request->fuse->vfs, &stat);

	if (r < 0)
		return r;
	out = (struct fuse_statfs_out){
		.blocks = stat.bytes / 4096,
		.bfree = stat.bytes_free / 4096,
		.bavail = stat.bytes_free / 4096,
		.files = stat.inodes,
		.ffree = stat.inodes_free,
		.bsize = 4096,
		.frsize = 4096,
		.namelen = VFS_NAME_MAX,
	};
	memcpy(request->out, &out, sizeof(out));
	return (int)sizeof(out);
}

int serve_syncfs(struct request *request)
{
	return vfs_flush(request->fuse->vfs, true);
}
