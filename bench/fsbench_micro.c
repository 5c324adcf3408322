/* fsbench_micro.c - one kind of operation at a time, from C. */
#include "fsbench.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 1000
#define SIZE 4096

static int put(const char *name, size_t size)
{
	static char bytes[SIZE];
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int r;

	if (fd < 0)
		return -errno;
	bytes[0] = name[0];
	r = fd_write_all(fd, bytes, size);
	close(fd);
	return r;
}

static int create_some(const char *prefix, int count)
{
	char name[64];
	int r = 0;

	for (int i = 0; i < count && r == 0; i++) {
		snprintf(name, sizeof(name), "%s%d", prefix, i);
		r = put(name, SIZE);
	}
	return r;
}

static int create(struct bench *bench)
{
	(void)bench;
	return create_some("f", FILES);
}

static int stat_all(struct bench *bench)
{
	struct stat st;
	char name[64];

	(void)bench;
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		if (stat(name, &st) < 0)
			return -errno;
	}
	return 0;
}

/* Files that are there, and known to the kernel. */
static int create_and_stat(struct bench *bench)
{
	int r = create(bench);

	return r ? r : stat_all(bench);
}

static int read_all(struct bench *bench)
{
	char name[64], bytes[SIZE];

	(void)bench;
	for (int i = 0; i < FILES; i++) {
		int fd;

		snprintf(name, sizeof(name), "f%d", i);
		fd = open(name, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || read(fd, bytes, SIZE) != SIZE)
			return -EIO;
		close(fd);
	}
	return 0;
}

static int create_and_read(struct bench *bench)
{
	int r = create(bench);

	return r ? r : read_all(bench);
}

static int rename_all(struct bench *bench)
{
	char from[64], to[64];

	(void)bench;
	for (int i = 0; i < FILES; i++) {
		snprintf(from, sizeof(from), "f%d", i);
		snprintf(to, sizeof(to), "g%d", i);
		if (rename(from, to) < 0)
			return -errno;
	}
	return 0;
}

static int unlink_all(struct bench *bench)
{
	char name[64];

	(void)bench;
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		if (unlink(name) < 0)
			return -errno;
	}
	return 0;
}

/* ---- a tree of 10 x 10 x 10 ---- */

static int each_dir(int (*fn)(const char *path), bool top_first)
{
	char path[64];
	int r = 0;

	for (int i = 0; i < 10 && r == 0; i++) {
		snprintf(path, sizeof(path), "d%d", i);
		r = top_first ? fn(path) : 0;
		for (int j = 0; j < 10 && r == 0; j++) {
			snprintf(path, sizeof(path), "d%d/d%d", i, j);
			r = top_first ? fn(path) : 0;
			for (int k = 0; k < 10 && r == 0; k++) {
				snprintf(path, sizeof(path), "d%d/d%d/d%d", i, j, k);
				r = fn(path);
			}
			snprintf(path, sizeof(path), "d%d/d%d", i, j);
			r = r == 0 && !top_first ? fn(path) : r;
		}
		snprintf(path, sizeof(path), "d%d", i);
		r = r == 0 && !top_first ? fn(path) : r;
	}
	return r;
}

static int make_dir(const char *path)
{
	return mkdir(path, 0755) < 0 ? -errno : 0;
}

static int remove_dir(const char *path)
{
	return rmdir(path) < 0 ? -errno : 0;
}

static int make_dir_and_file(const char *path)
{
	char name[80];

	if (mkdir(path, 0755) < 0)
		return -errno;
	snprintf(name, sizeof(name), "%s/file", path);
	return put(name, 100);
}

static int mkdir_tree(struct bench *bench)
{
	(void)bench;
	return each_dir(make_dir, true);
}

static int rmdir_tree(struct bench *bench)
{
	(void)bench;
	return each_dir(remove_dir, false);
}

static int tree_with_files(struct bench *bench)
{
	(void)bench;
	return each_dir(make_dir_and_file, true);
}

static int seen;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path;
	(void)ftw;
	seen += type == FTW_F && st->st_size == 100;
	return 0;
}

/* find with stat of everything, in this process. */
static int walk(struct bench *bench)
{
	(void)bench;
	seen = 0;
	if (nftw(".", count_one, 32, FTW_PHYS) < 0 || seen != 1110)
		return -EIO;
	return 0;
}

/* ---- does a directory's size matter: per operation at 100,000 entries ---- */

#define CROWD 100000

static int crowd(struct bench *bench)
{
	char name[64];

	for (int i = 0; i < (bench->quick ? CROWD / 5 : CROWD); i++) {
		snprintf(name, sizeof(name), "crowd-%d", i);
		if (mknod(name, S_IFREG | 0644, 0) < 0)
			return -errno;
	}
	return 0;
}

static int in_crowd(struct bench *bench)
{
	int r = create(bench);

	if (r == 0)
		r = stat_all(bench);
	if (r == 0)
		r = unlink_all(bench);
	return r;
}

const struct scenario micro_scenarios[] = {
	{.name = "create 1000 x 4K", .limit = 200, .run = create},
	{.name = "stat 1000 first", .limit = 100, .setup = create, .run = stat_all},
	{.name = "stat 1000 warm", .limit = 120, .setup = create_and_stat, .run = stat_all},
	{.name = "stat 1000 cold",
	 .limit = 100,
	 .setup = create,
	 .run = stat_all,
	 .flags = SCENARIO_COLD},
	{.name = "open+read+close 1000 warm",
	 .limit = 120,
	 .setup = create_and_read,
	 .run = read_all},
	{.name = "open+read+close 1000 cold",
	 .limit = 100,
	 .setup = create,
	 .run = read_all,
	 .flags = SCENARIO_COLD},
	{.name = "rewrite 1000 x 4K", .limit = 100, .setup = create, .run = create},
	{.name = "rename 1000", .limit = 100, .setup = create, .run = rename_all},
	{.name = "unlink 1000", .limit = 100, .setup = create, .run = unlink_all},
	{.name = "mkdir tree 1110", .limit = 100, .run = mkdir_tree},
	{.name = "rmdir tree 1110", .limit = 100, .setup = mkdir_tree, .run = rmdir_tree},
	{.name = "find tree warm", .limit = 120, .setup = tree_with_files, .run = walk},
	{.name = "find tree cold",
	 .limit = 100,
	 .setup = tree_with_files,
	 .run = walk,
	 .flags = SCENARIO_COLD},
	{.name = "create+stat+unlink 1000, alone", .run = in_crowd},
	{.name = "create+stat+unlink 1000, among 100000",
	 .setup = crowd,
	 .run = in_crowd,
	 .flags = SCENARIO_LONG},
	{.name = NULL},
};
