/* world.h - for tests of vfs: a workspace in a folder of its own, opened and opened again. */
#ifndef TEST_WORLD_H
#define TEST_WORLD_H

#include "base/base.h"
#include "vfs/vfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct store;

struct world {
	char dir[128], db[160];
	struct vfs_options options;
	struct vfs *vfs;
	struct store *store; /* the vfs's */
};

/* Who asks: root, and somebody whose permissions are checked. */
extern const struct vfs_ctx root_ctx;
struct vfs_ctx user_ctx(uint32_t uid, uint32_t gid);

void world_open(struct world *world,
		const struct vfs_options *options); /* a new one; NULL: usual */
void world_reopen(struct world *world); /* close, open: what is there now is what was written */
void world_close(struct world *world);  /* and remove its files */

/* By name; the reference that looking up or making counts is given back at once. 0 or an errno. */
int64_t world_find(struct world *world, int64_t parent, const char *name); /* ino or an errno */
int world_stat(struct world *world, int64_t ino, struct vfs_attr *ret_attr);
int64_t world_create(struct world *world, int64_t parent, const char *name);
int64_t world_mkdir(struct world *world, int64_t parent, const char *name);
int64_t world_symlink(struct world *world, int64_t parent, const char *name, const char *target);
int world_link(struct world *world, int64_t ino, int64_t parent, const char *name);
int world_unlink(struct world *world, int64_t parent, const char *name);
int world_rmdir(struct world *world, int64_t parent, const char *name);
int world_rename(struct world *world, int64_t parent, const char *name, int64_t parent2,
		 const char *name2, unsigned flags);
uint32_t world_nlink(struct world *world, int64_t ino); /* 0: there is no such inode */
/* The count of entries without dots, or an errno. */
int world_count(struct world *world, int64_t dir);
void world_put(struct world *world, int64_t ino, const char *text);
void world_check_text(struct world *world, int64_t ino, const char *text);

#endif
