/* serve_name.c - directories and the names in them. */
#include "fuse/fuse_i.h"
#include "fuse/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>

static int64_t node_of(const struct request *request)
{
	return (int64_t)request->header.nodeid;
}

/* A name that only we ask for (secret_name): not in the vfs, never listed, known for one lookup. */
static int reply_secret(struct request *request, int64_t ino)
{
	struct vfs_attr attr = {.ino = PRIME_INO, .mode = S_IFREG | 0400, .nlink = 1};
	struct fuse_entry_out entry;
	int r;

	if (ino != PRIME_INO) {
		r = vfs_getattr(request->fuse->vfs, &request->ctx, ino, &attr);
		if (r < 0)
			return r;
		if (!refs_add_ghost(&request->fuse->refs, ino))
			return -ENOENT;
	}
	fill_entry(&attr, &entry);
	entry.entry_valid = 0;
	memcpy(request->out, &entry, sizeof(entry));
	return (int)sizeof(entry);
}

/* The inode, if it is we who ask by a secret name; else 0. */
static int64_t is_secret(const struct request *request, struct span name)
{
	struct fuse *fuse = request->fuse;
	int64_t ino;

	if (node_of(request) != VFS_ROOT || name.data[0] != '.')
		return 0;
	ino = secret_ino(name);
	if (ino == PRIME_INO)
		return atomic_load(&fuse->priming) ? ino : 0;
	return request->header.pid != 0 && (int)request->header.pid == atomic_load(&fuse->adopter)
		       ? ino
		       : 0;
}

int serve_lookup(struct request *request)
{
	static const struct fuse_entry_out nowhere = {.entry_valid = FUSE_TIMEOUT_S};
	struct fuse *fuse = request->fuse;
	struct span name;
	struct vfs_attr attr;
	int64_t secret;
	int r = take_name(&request->rest, &name);

	if (r < 0)
		return r;
	secret = is_secret(request, name);
	if (secret > 0)
		return reply_secret(request, secret);
	r = vfs_lookup(fuse->vfs, &request->ctx, node_of(request), name, &attr);
	if (r == -ENOENT) {
		memcpy(request->out, &nowhere, sizeof(nowhere));
		return (int)sizeof(nowhere);
	}
	return r < 0 ? r : reply_entry(request, &attr);
}

static int reply_created(struct request *request, const struct vfs_attr *attr)
{
	const struct fuse_open_out open = {.open_flags = FUSE_FOPEN_KEEP_CACHE};
	int len = reply_entry(request, attr);

	memcpy(request->out + len, &open, sizeof(open));
	return len + (int)sizeof(open);
}

int serve_create(struct request *request)
{
	const struct fuse_create_in *in = request->arg;
	struct span name;
	struct vfs_attr attr;
	int r = take_name(&request->rest, &name);

	if (r < 0)
		return r;
	r = vfs_create(request->fuse->vfs, &request->ctx, node_of(request), name, in->mode & 07777,
		       (int)in->flags & (O_EXCL | O_TRUNC), &attr);
	return r < 0 ? r : reply_created(request, &attr);
}

int serve_tmpfile(struct request *request)
{
	const struct fuse_create_in *in = request->arg;
	struct vfs_attr attr;
	int r = vfs_tmpfile(request->fuse->vfs, &request->ctx, node_of(request), in->mode & 07777,
			    &attr);

	return r < 0 ? r : reply_created(request, &attr);
}

int serve_mknod(struct request *request)
{
	const struct fuse_mknod_in *in = request->arg;
	struct span name;
	struct vfs_attr attr;
	int r = take_name(&request->rest, &name);

	if (r < 0)
		return r;
	r = vfs_mknod(request->fuse->vfs, &request->ctx, node_of(request), name, in->mode, in->rdev,
		      &attr);
	return r < 0 ? r : reply_entry(request, &attr);
}

int serve_mkdir(struct request *request)
{
	const struct fuse_mkdir_in *in = request->arg;
	struct span name;
	struct vfs_attr attr;
	int r = take_name(&request->rest, &name);

	if (r < 0)
		return r;
	r = vfs_mkdir(request->fuse->vfs, &request->ctx, node_of(request), name, in->mode & 07777,
		      &attr);
	return r < 0 ? r : reply_entry(request, &attr);
}

int serve_symlink(struct request *request)
{
	struct span name = SPAN_EMPTY, target = SPAN_EMPTY;
	struct vfs_attr attr;
	int r = take_name(&request->rest, &name);

	if (r == 0)
		r = take_string(&request->rest, &target);
	if (r < 0)
		return r;
	r = vfs_symlink(request->fuse->vfs, &request->ctx, node_of(request), name, target, &attr);
	return r < 0 ? r : reply_entry(request, &attr);
}

int serve_link(struct request *request)
{
	const struct fuse_link_in *in = request->arg;
	struct span name;
	struct vfs_attr attr;
	int r = take_name(&request->rest, &name);

	if (r < 0)
		return r;
	if (in->oldnodeid > INT64_MAX)
		return -ESTALE;
	r = vfs_link(request->fuse->vfs, &request->ctx, (int64_t)in->oldnodeid, node_of(request),
		     name, &attr);
	return r < 0 ? r : reply_entry(request, &attr);
}

int serve_unlink(struct request *request)
{
	struct span name;
	int r = take_name(&request->rest, &name);

	if (r < 0)
		return r;
	return vfs_unlink(request->fuse->vfs, &request->ctx, node_of(request), name);
}

int serve_rmdir(struct request *request)
{
	struct span name;
	int r = take_name(&request->rest, &name);

	if (r < 0)
		return r;
	return vfs_rmdir(request->fuse->vfs, &request->ctx, node_of(request), name);
}

static int rename_names(struct request *request, uint64_t newdir, unsigned flags)
{
	struct span name = SPAN_EMPTY, name2 = SPAN_EMPTY;
	int r = take_name(&request->rest, &name);

	if (r == 0)
		r = take_name(&request->rest, &name2);
	if (r < 0)
		return r;
	if (newdir > INT64_MAX)
		return -ESTALE;
	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	return vfs_rename(request->fuse->vfs, &request->ctx, node_of(request), name,
			  (int64_t)newdir, name2, flags);
}

int serve_rename(struct request *request)
{
	const struct fuse_rename_in *in = request->arg;

	return rename_names(request, in->newdir, 0);
}

int serve_rename2(struct request *request)
{
	const struct fuse_rename2_in *in = request->arg;

	return rename_names(request, in->newdir, in->flags);
}

/* ---- listing ---- */

struct listing {
	struct request *request;
	size_t len, max;
	bool plus;
};

/* vfs_readdir's callback: pack one entry, or say that it does not fit. */
static int list_entry_out(void *arg, const struct vfs_entry *entry)
{
	struct listing *listing = arg;
	struct fuse_entry_out full;
	struct fuse_dirent dirent = {
		.ino = (uint64_t)entry->attr.ino,
		.off = entry->cookie,
		.namelen = (uint32_t)entry->name.len,
		.type = (entry->attr.mode & S_IFMT) >> 12,
	};
	size_t head = sizeof(dirent) + (listing->plus ? sizeof(full) : 0);
	size_t size = (head + entry->name.len + 7) & ~(size_t)7;
	char *at = listing->request->out + listing->len;
	bool dots = span_eq(entry->name, SPAN(".")) || span_eq(entry->name, SPAN(".."));

	if (size > listing->max - listing->len)
		return 1;
	memset(at + size - 8, 0, 8);
	if (listing->plus) {
		full = (struct fuse_entry_out){0};
		if (!dots) {
			refs_add(&listing->request->fuse->refs, entry->attr.ino);
			fill_entry(&entry->attr, &full);
		}
		memcpy(at, &full, sizeof(full));
		at += sizeof(full);
	}
	memcpy(at, &dirent, sizeof(dirent));
	memcpy(at + sizeof(dirent), entry->name.data, entry->name.len);
	listing->len += size;
	return 0;
}

static int list(struct request *request, bool plus)
{
	const struct fuse_read_in *in = request->arg;
	struct listing listing = {
		.request = request,
		.max = in->size < FUSE_IO_MAX ? in->size : FUSE_IO_MAX,
		.plus = plus,
	};
	int r = vfs_readdir(request->fuse->vfs, &request->ctx, node_of(request), in->offset, plus,
			    list_entry_out, &listing);

	/* A full page is no failure, and neither is one that failed half-way: the next says why. */
	if (r < 0 && listing.len == 0)
		return r;
	return (int)listing.len;
}

int serve_readdir(struct request *request)
{
	return list(request, false);
}

int serve_readdirplus(struct request *request)
{
	return list(request, true);
}
