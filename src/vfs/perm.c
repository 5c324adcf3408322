/* perm.c - who may: POSIX permission bits, owners, the sticky bit, names. */
#include "vfs/vfs_i.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

bool perm_in_group(const struct vfs_ctx *ctx, uint32_t gid)
{
	return ctx->who.gid == gid || (ctx->in_group && ctx->in_group(ctx, gid));
}

int perm_check(const struct vfs *vfs, const struct vfs_ctx *ctx, const struct inode *inode,
	       int mask)
{
	uint32_t mode = inode->row.mode, bits;

	if ((mask & W_OK) && vfs->readonly && (S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode)))
		return -EROFS;
	if (ctx->trusted)
		return 0;
	if (ctx->who.uid == 0) {
		/* CAP_DAC_OVERRIDE; to run a file, someone must be allowed to. */
		if ((mask & X_OK) && !S_ISDIR(mode) && !(mode & 0111))
			return -EACCES;
		return 0;
	}
	if (ctx->who.uid == inode->row.uid)
		bits = mode >> 6;
	else if (((mode >> 3) & 7) != (mode & 7) && perm_in_group(ctx, inode->row.gid))
		bits = mode >> 3; /* asked only if the answer matters */
	else
		bits = mode;
	return (bits & (uint32_t)mask & 7) == ((uint32_t)mask & 7) ? 0 : -EACCES;
}

int perm_owner(const struct vfs_ctx *ctx, const struct inode *inode)
{
	if (ctx->trusted || ctx->who.uid == 0 || ctx->who.uid == inode->row.uid)
		return 0;
	return -EPERM;
}

int perm_sticky(const struct vfs_ctx *ctx, const struct inode *dir, const struct inode *inode)
{
	if (!(dir->row.mode & S_ISVTX) || ctx->who.uid == dir->row.uid)
		return 0;
	return perm_owner(ctx, inode);
}

int perm_new_name(struct span name)
{
	if (name.len > VFS_NAME_MAX)
		return -ENAMETOOLONG;
	if (name.len == 0 || memchr(name.data, '/', name.len) || memchr(name.data, 0, name.len))
		return -EINVAL;
	if (span_eq(name, SPAN(".")) || span_eq(name, SPAN("..")))
		return -EEXIST;
	return 0;
}
