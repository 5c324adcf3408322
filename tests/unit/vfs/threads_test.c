/* threads_test.c - many callers at once: names, content, walks, flushes and exclusive sections. */
#include "world.h"

#include "store/store.h"

#include <errno.h>
#include <pthread.h>

#define R VFS_ROOT
#define THREADS 6
#define ROUNDS 400

static struct world world;
static int64_t shared_dir;

struct worker {
	pthread_t thread;
	int id, failures; /* asserting is for the main thread alone */
	int64_t dir;      /* its own */
};

static void expect(struct worker *worker, bool yes)
{
	worker->failures += !yes;
}

static void check_content(struct worker *worker, int64_t ino, const char *text)
{
	char bytes[32] = {0};

	expect(worker, vfs_read(world.vfs, &root_ctx, ino, 0, bytes, sizeof(bytes)) ==
				       (ssize_t)strlen(text) &&
			       strcmp(bytes, text) == 0);
}

/* In its own directory everything must be exactly as it was done; the shared one is fought over. */
static void round_of(struct worker *worker, int round)
{
	char name[32], other[32];
	int64_t ino;

	snprintf(name, sizeof(name), "%d-%d", worker->id, round);
	snprintf(other, sizeof(other), "%d", round % 10);
	ino = world_create(&world, worker->dir, name);
	expect(worker, ino > 0);
	expect(worker, vfs_write(world.vfs, &root_ctx, ino, 0, name, strlen(name), 0) ==
			       (ssize_t)strlen(name));
	expect(worker, world_find(&world, worker->dir, name) == ino);
	check_content(worker, ino, name);
	expect(worker, world_link(&world, ino, shared_dir, name) == 0);
	(void)world_rename(&world, shared_dir, name, shared_dir, other, 0);
	(void)world_find(&world, shared_dir, other);
	if (round % 2) {
		(void)world_unlink(&world, shared_dir, other);
		expect(worker, world_unlink(&world, worker->dir, name) == 0);
		expect(worker, world_find(&world, worker->dir, name) == -ENOENT);
	} else {
		check_content(worker, ino, name);
	}
	if (round % 16 == 0)
		expect(worker, vfs_flush(world.vfs, round % 64 == 0) == 0);
	if (round % 8 == 0)
		expect(worker, world_count(&world, shared_dir) >= 0);
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	for (int round = 0; round < ROUNDS; round++)
		round_of(worker, round);
	return NULL;
}

static int touch_nothing(void *arg, struct store *store)
{
	struct store_info info;

	(void)arg;
	store_get_info(store, &info);
	return info.inodes > 0 ? 0 : -EIO;
}

static void callers_do_not_disturb_each_other(void **state)
{
	struct vfs_options options = {.cache_max = 100};
	struct worker workers[THREADS] = {0};
	struct vfs_stats before, after;
	char name[16];

	(void)state;
	world_open(&world, &options);
	shared_dir = world_mkdir(&world, R, "shared");
	for (int i = 0; i < THREADS; i++) {
		snprintf(name, sizeof(name), "%d", i);
		workers[i].id = i;
		workers[i].dir = world_mkdir(&world, R, name);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < 20; i++) {
		assert_int_equal(vfs_exclusive(world.vfs, touch_nothing, NULL), 0);
		vfs_get_stats(world.vfs, &before);
		if (i % 5 == 0)
			vfs_idle(world.vfs);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		assert_int_equal(workers[i].failures, 0);
	}
	vfs_get_stats(world.vfs, &before);
	world_reopen(&world);
	vfs_get_stats(world.vfs, &after);
	assert_int_equal(before.inodes, after.inodes);
	assert_int_equal(before.bytes, after.bytes);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(world_count(&world, workers[i].dir), ROUNDS / 2);
	world_close(&world);
}

static void *sync_often(void *arg)
{
	struct worker *worker = arg;
	char name[16];

	for (int i = 0; i < 50; i++) {
		int64_t ino;

		snprintf(name, sizeof(name), "%d-%d", worker->id, i);
		ino = world_create(&world, R, name);
		expect(worker, ino > 0 && vfs_fsync(world.vfs, ino, false) == 0);
	}
	return NULL;
}

static void syncs_share_commits(void **state)
{
	struct worker workers[THREADS] = {0};
	struct vfs_stats stats;

	(void)state;
	world_open(&world, NULL);
	for (int i = 0; i < THREADS; i++) {
		workers[i].id = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, sync_often, &workers[i]),
				 0);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		assert_int_equal(workers[i].failures, 0);
	}
	vfs_get_stats(world.vfs, &stats);
	print_message("# %d syncs in %u commits\n", THREADS * 50, (unsigned)stats.commits);
	assert_int_equal(world_count(&world, R), THREADS * 50);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(callers_do_not_disturb_each_other),
		cmocka_unit_test(syncs_share_commits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
