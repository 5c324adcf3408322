/* fake_vfs.h - a vfs of a test's own behind vfs/vfs.h. */
#ifndef FAKE_VFS_H
#define FAKE_VFS_H

#include "vfs/vfs.h"

struct vfs *fake_vfs_new(void);
void fake_vfs_free(struct vfs *vfs);
/* References that a kernel holds, all inodes together. */
uint64_t fake_vfs_refs(struct vfs *vfs);
/* As if somebody had changed something. */
void fake_vfs_event(struct vfs *vfs, const struct vfs_event *event);
/* As before a call from elsewhere. */
void fake_vfs_pull(struct vfs *vfs, int64_t ino);

#endif
