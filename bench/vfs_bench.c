/* vfs_bench - what an operation of vfs costs, without any transport: ns each, and what a flush
 * does. */
#include "base/clock.h"
#include "base/parse.h"
#include "store/store.h"
#include "vfs/vfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct vfs *vfs;
static const struct vfs_ctx ctx = {.who = {.actor = "bench", .backend = "direct", .exec = ""}};

struct mark {
	int64_t wall, thread, process;
};

static struct mark mark;

static int64_t cpu(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct mark now(void)
{
	return (struct mark){clock_mono(), cpu(CLOCK_THREAD_CPUTIME_ID),
			     cpu(CLOCK_PROCESS_CPUTIME_ID)};
}

static void start(void)
{
	mark = now();
}

static void report(const char *what, int count, struct mark since)
{
	struct mark end = now();

	printf("%-28s %8d x %8lld %8lld %8lld ns\n", what, count,
	       (long long)((end.wall - since.wall) / count),
	       (long long)((end.thread - since.thread) / count),
	       (long long)((end.process - since.process) / count));
}

static void stop(const char *what, int count)
{
	report(what, count, mark);
}

static void must(int64_t r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror((int)-r));
	exit(1);
}

static void open_it(const char *path, unsigned flags)
{
	struct vfs_options options = {.cache_max = 2000000};
	struct err err = ERR_INIT;
	struct store *store;
	int r;

	r = store_open(path, flags, &store, &err);
	if (r == 0)
		r = vfs_open_take(store, &options, &vfs, &err);
	if (r < 0) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
}

static struct span number(int i)
{
	static char name[32];

	return span_of(name, (size_t)snprintf(name, sizeof(name), "file-%d", i));
}

static int take(void *arg, const struct vfs_entry *entry)
{
	int *count = arg;

	(void)entry;
	(*count)++;
	return 0;
}

static void create_all(int64_t dir, int count, const void *content, size_t len)
{
	struct vfs_attr attr;

	for (int i = 0; i < count; i++) {
		must(vfs_create(vfs, &ctx, dir, number(i), 0644, 0, &attr), "create");
		if (len)
			must(vfs_write(vfs, &ctx, attr.ino, 0, content, len, 0), "write");
		vfs_forget(vfs, attr.ino, 1);
	}
}

static void lookup_all(int64_t dir, int count)
{
	struct vfs_attr attr;

	for (int i = 0; i < count; i++) {
		must(vfs_lookup(vfs, &ctx, dir, number(i), &attr), "lookup");
		vfs_forget(vfs, attr.ino, 1);
	}
}

static void unlink_all(int64_t dir, int count)
{
	for (int i = 0; i < count; i++)
		must(vfs_unlink(vfs, &ctx, dir, number(i)), "unlink");
}

static void flush(const char *what, int count)
{
	start();
	must(vfs_flush(vfs, false), "flush");
	stop(what, count);
}

static void bench(const char *path, int count)
{
	static char content[4096];
	struct vfs_attr dir, attr;
	int entries = 0;

	memset(content, 'c', sizeof(content));
	open_it(path, STORE_CREATE);
	must(vfs_mkdir(vfs, &ctx, VFS_ROOT, SPAN("d"), 0755, &dir), "mkdir");
	must(vfs_flush(vfs, false), "flush");

	/* The flusher is at work meanwhile; the sum of it and of what is left is "in all". */
	struct mark all = now();

	start();
	create_all(dir.ino, count, NULL, 0);
	stop("create, empty", count);
	flush("  flush of what is left", count);
	report("  in all", count, all);
	start();
	lookup_all(dir.ino, count);
	stop("lookup", count);
	start();
	for (int i = 0; i < count; i++)
		(void)!vfs_lookup(vfs, &ctx, dir.ino, number(-i - 1), &attr);
	stop("lookup, not there", count);
	start();
	must(vfs_readdir(vfs, &ctx, dir.ino, 0, false, take, &entries), "readdir");
	stop("readdir", count);
	all = now();
	start();
	unlink_all(dir.ino, count);
	stop("unlink", count);
	flush("  flush of what is left", count);
	report("  in all", count, all);

	all = now();
	start();
	create_all(dir.ino, count, content, sizeof(content));
	stop("create, write 4 KiB", count);
	flush("  flush of what is left", count);
	report("  in all", count, all);

	must(vfs_close(vfs, NULL), "close");
	start();
	open_it(path, 0);
	stop("open", 1);
	start();
	lookup_all(dir.ino, count);
	stop("lookup, from the store", count);
	must(vfs_close(vfs, NULL), "close");
	open_it(path, 0);
	start();
	must(vfs_readdir(vfs, &ctx, dir.ino, 0, true, take, &entries), "readdir");
	stop("readdir plus, from the store", count);
	start();
	for (int i = 0; i < count; i++) {
		must(vfs_lookup(vfs, &ctx, dir.ino, number(i), &attr), "lookup");
		must(vfs_read(vfs, &ctx, attr.ino, 0, content, sizeof(content)), "read");
		vfs_forget(vfs, attr.ino, 1);
	}
	stop("lookup, read 4 KiB, store", count);
	must(vfs_close(vfs, NULL), "close");
}

int main(int argc, char **argv)
{
	char dir[] = "/var/tmp/vfs-bench-XXXXXX", path[64];
	struct err err = ERR_INIT;
	uint64_t count = 20000;

	if (argc > 1 && (parse_u64(argv[1], &count) < 0 || count < 1 || count > 10000000))
		return 2;
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/w.db", dir);
	bench(path, (int)count);
	must(store_remove(path, &err), "remove");
	rmdir(dir);
	return 0;
}
