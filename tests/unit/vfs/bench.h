/* bench.h - for tests of struct sys: a world with two callers, and short forms of calls. */
#ifndef TEST_BENCH_H
#define TEST_BENCH_H

#include "world.h"

#include "vfs/vfs_sys.h"

struct bench {
	struct world world;
	struct sys *sys, *user; /* root, and uid 1000 */
};

void start(struct bench *b);
void finish(struct bench *b);
void put(struct sys *sys, const char *path, const char *text);
void check_file(struct sys *sys, const char *path, const char *text);
int do_stat(struct sys *sys, const char *path, int flags);
int do_open(struct sys *sys, const char *path, int flags);
int do_symlink(struct sys *sys, const char *path, const char *target);
int do_mkdir(struct sys *sys, const char *path);
int do_unlink(struct sys *sys, const char *path, int flags);
int do_rename(struct sys *sys, const char *path, const char *path2, unsigned flags);

/* /d/e/f, /d/file, /link -> d/e, /loop -> loop2 -> loop, /up -> ../../../d, /abs -> /d/file */
void make_tree(struct bench *b);

#endif
