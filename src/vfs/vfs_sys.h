/* vfs_sys.h - struct sys straight onto a vfs: paths, descriptors, one caller. */
#ifndef VFS_VFS_SYS_H
#define VFS_VFS_SYS_H

#include "sys/sys.h"
#include "vfs/vfs.h"

#define VFS_SYS_FDS_MAX 1024 /* open descriptors of one struct sys: EMFILE */

/* `ctx` is copied; its strings and the vfs must outlive the sys. Freed with sys_free. umask 0. */
struct sys *vfs_sys_new(struct vfs *vfs, const struct vfs_ctx *ctx);

#endif
