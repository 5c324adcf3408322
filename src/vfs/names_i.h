/* names_i.h - between names.c, rename.c and readdir.c: directories and who may change them.
 *
 * All under `lock`. */
#ifndef VFS_NAMES_I_H
#define VFS_NAMES_I_H

#include "vfs/vfs_i.h"

/* A directory that the asker may search. -ESTALE, -ENOTDIR, -EACCES. */
int names_dir(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino,
	      struct inode **ret_dir) MUST_USE;
/* An entry and its inode. -ENOENT, -ENAMETOOLONG. */
int names_find(struct vfs *vfs, struct inode *dir, struct span name, struct dentry **ret_dentry,
	       struct inode **ret_inode) MUST_USE;
/* Make a regular file where none is; counts a reference. -EEXIST. */
int names_create(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
		 uint32_t mode, struct inode **ret_inode) MUST_USE;
/* What ".." leads to. */
int names_parent(struct vfs *vfs, const struct inode *dir, struct inode **ret_parent) MUST_USE;
/* May a name of `inode` be taken out of `dir`? */
int names_may_remove(struct vfs *vfs, const struct vfs_ctx *ctx, const struct inode *dir,
		     const struct inode *inode) MUST_USE;
/* One name less; a directory's only one. The entry and settling are the caller's. */
void names_drop(struct vfs *vfs, struct inode *dir, struct inode *inode);

#endif
