/* live.h - a workspace of its own, mounted for real, for one test. */
#ifndef TEST_FUSE_LIVE_H
#define TEST_FUSE_LIVE_H

#include "base/base.h"
#include "fuse/fuse.h"
#include "vfs/vfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct live {
	char dir[128], mnt[160];
	struct vfs *vfs;
	struct fuse *fuse;
	struct fuse_stats before;
	struct vfs_ctx ctx; /* of somebody who does not come through the mount */
};

/* Skips the whole program (exit 77) where nothing can be mounted. With the argument "uring": over
 * io_uring, which is switched on for this program where root may. */
void live_need(int argc, char **argv);
void live_uring_restore(void);

void live_open(struct live *live, const struct fuse_options *options);
/* Unmount, close, remove. */
void live_close(struct live *live);

/* A path in the mount; good until the next but three. */
const char *live_path(const struct live *live, const char *name);

/* The requests since the last call, "LOOKUP=1 CREATE=1"; without those that come whenever they
 * want. */
const char *live_counts(struct live *live);

/* The file's bytes become `text`, through the mount / behind its back. */
void live_put(const struct live *live, const char *name, const char *text);
void live_put_behind(struct live *live, int64_t ino, const char *text);
/* Its inode, and what is in it, behind the mount's back. */
int64_t live_ino(const struct live *live, const char *name);
void live_check_behind(struct live *live, int64_t ino, const char *text);
/* What is in an open file of the mount. */
void live_check_fd(int fd, const char *text);

/* Run `fn` in a process of its own with that uid and gid; its exit status. */
int live_as(uint32_t uid, int (*fn)(const struct live *live), const struct live *live);

#endif
