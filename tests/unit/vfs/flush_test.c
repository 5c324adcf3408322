/* flush_test.c - what is written when, what a failed commit keeps, exclusive sections, eviction. */
#include "world.h"

#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define R VFS_ROOT

/* ---- the linker puts these between vfs and store ---- */

int real_store_commit(struct store *store, bool durable) __asm__("__real_store_commit");
int wrap_store_commit(struct store *store, bool durable) __asm__("__wrap_store_commit");
int real_store_put_node(struct store *store,
			const struct store_node *node) __asm__("__real_store_put_node");
int wrap_store_put_node(struct store *store,
			const struct store_node *node) __asm__("__wrap_store_put_node");
int real_store_del_node(struct store *store, int64_t ino) __asm__("__real_store_del_node");
int wrap_store_del_node(struct store *store, int64_t ino) __asm__("__wrap_store_del_node");

static _Atomic int commit_error, put_error; /* what it answers instead of doing it */
static _Atomic unsigned commits, durable_commits, nodes;
static void (*_Atomic before_commit)(void); /* while nobody holds a lock */

int wrap_store_commit(struct store *store, bool durable)
{
	void (*fn)(void) = before_commit;

	if (fn) {
		before_commit = NULL;
		fn();
	}
	if (commit_error) {
		store_rollback(store);
		return commit_error;
	}
	commits++;
	durable_commits += durable;
	return real_store_commit(store, durable);
}

int wrap_store_put_node(struct store *store, const struct store_node *node)
{
	nodes++;
	return put_error ? put_error : real_store_put_node(store, node);
}

int wrap_store_del_node(struct store *store, int64_t ino)
{
	nodes++;
	return real_store_del_node(store, ino);
}

static struct world world;

static int setup(void **state)
{
	(void)state;
	commit_error = put_error = 0;
	before_commit = NULL;
	world_open(&world, NULL);
	return 0;
}

static int setup_small(void **state)
{
	struct vfs_options options = {.cache_max = 10};

	(void)state;
	commit_error = put_error = 0;
	world_open(&world, &options);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	commit_error = put_error = 0;
	world_close(&world);
	return 0;
}

static void flush(void)
{
	assert_int_equal(vfs_flush(world.vfs, false), 0);
}

static void everything_is_there_again(void **state)
{
	int64_t dir = world_mkdir(&world, R, "d"), file = world_create(&world, dir, "f");
	int64_t link = world_symlink(&world, dir, "l", "target");
	struct vfs_attr before, after;

	(void)state;
	world_put(&world, file, "content");
	world_link(&world, file, R, "hard");
	assert_int_equal(world_stat(&world, file, &before), 0);
	world_reopen(&world);
	assert_int_equal(world_find(&world, R, "d"), dir);
	assert_int_equal(world_find(&world, dir, "f"), file);
	assert_int_equal(world_find(&world, dir, "l"), link);
	assert_int_equal(world_find(&world, R, "hard"), file);
	assert_int_equal(world_stat(&world, file, &after), 0);
	assert_memory_equal(&before, &after, sizeof(before));
	world_check_text(&world, file, "content");
	assert_int_equal(world_count(&world, R), 2);
	/* Numbers are not given out twice. */
	assert_true(world_create(&world, R, "new") > link);
}

static void what_comes_and_goes_between_flushes_is_not_written(void **state)
{
	char name[16];

	(void)state;
	/* The flusher may run in between, and would rightly write what is there then: once or
	 * twice. */
	flush();
	nodes = 0;
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%d", i);
		assert_true(world_create(&world, R, name) > 0);
		assert_int_equal(world_unlink(&world, R, name), 0);
	}
	flush();
	assert_true(nodes <= 10);
}

static void nothing_dirty_is_no_commit(void **state)
{
	(void)state;
	world_create(&world, R, "a");
	flush();
	commits = durable_commits = 0;
	flush();
	assert_int_equal(commits, 0);
	assert_int_equal(vfs_flush(world.vfs, true), 0);
	assert_int_equal(vfs_flush(world.vfs, true), 0);
	assert_int_equal(commits, 0);
	world_create(&world, R, "b");
	assert_int_equal(vfs_flush(world.vfs, true), 0);
	assert_true(commits >= 1);
}

static void the_flusher_writes_by_itself(void **state)
{
	(void)state;
	flush();
	commits = 0;
	world_create(&world, R, "a");
	for (int i = 0; i < 500 && commits == 0; i++)
		usleep(10000);
	assert_true(commits > 0);
}

static void a_failed_commit_keeps_everything(void **state)
{
	int64_t dir = world_mkdir(&world, R, "d"), file = world_create(&world, R, "f");
	int64_t old = world_create(&world, dir, "old"), gone = world_create(&world, dir, "gone");

	(void)state;
	world_put(&world, old, "before");
	flush();
	commit_error = -ENOSPC;
	world_put(&world, old, "after, and longer");
	assert_int_equal(vfs_flush(world.vfs, false), -ENOSPC);
	/* What needs space is refused, what gives back is not. */
	assert_int_equal(world_create(&world, R, "new"), -ENOSPC);
	assert_int_equal(world_mkdir(&world, R, "new"), -ENOSPC);
	assert_int_equal(world_unlink(&world, dir, "gone"), 0);
	assert_int_equal(vfs_flush(world.vfs, true), -ENOSPC);
	assert_int_equal(world_find(&world, dir, "gone"), -ENOENT);
	world_check_text(&world, old, "after, and longer");
	commit_error = 0;
	/* It works at once when space returns. */
	assert_true(world_create(&world, R, "new") > 0);
	world_reopen(&world);
	assert_true(world_find(&world, R, "new") > 0);
	assert_int_equal(world_find(&world, R, "f"), file);
	assert_int_equal(world_find(&world, dir, "gone"), -ENOENT);
	assert_int_equal(world_nlink(&world, gone), 0);
	world_check_text(&world, old, "after, and longer");
}

static void a_failed_row_keeps_everything(void **state)
{
	int64_t file = world_create(&world, R, "f");

	(void)state;
	put_error = -EIO;
	world_put(&world, file, "text");
	assert_int_equal(vfs_flush(world.vfs, true), -EIO);
	put_error = 0;
	world_reopen(&world);
	assert_int_equal(world_find(&world, R, "f"), file);
	world_check_text(&world, file, "text");
}

static void close_reports_what_is_lost(void **state)
{
	struct err err = ERR_INIT;
	struct world other;

	(void)state;
	world_open(&other, NULL);
	world_create(&other, R, "f");
	commit_error = -EIO;
	assert_int_equal(vfs_close(other.vfs, &err), -EIO);
	commit_error = 0;
	assert_int_equal(err.code, EIO);
	assert_string_not_equal(err.text, "");
	assert_int_equal(store_open(other.db, 0, &other.store, &err), 0);
	assert_int_equal(vfs_open_take(other.store, &other.options, &other.vfs, &err), 0);
	world_close(&other);
}

static int64_t during_file, during_dir;

static void change_during_commit(void)
{
	world_put(&world, during_file, "during the commit");
	assert_int_equal(world_unlink(&world, during_dir, "a"), 0);
	assert_true(world_create(&world, during_dir, "c") > 0);
	assert_int_equal(world_rename(&world, during_dir, "b", R, "b2", 0), 0);
	assert_int_equal(world_find(&world, during_dir, "a"), -ENOENT);
	assert_int_equal(world_count(&world, during_dir), 1);
}

static void check_changes_during_commit(int error)
{
	int64_t b;

	during_dir = world_mkdir(&world, R, "d");
	world_create(&world, during_dir, "a");
	b = world_create(&world, during_dir, "b");
	during_file = world_create(&world, R, "f");
	world_put(&world, during_file, "before");
	before_commit = change_during_commit;
	commit_error = error;
	assert_int_equal(vfs_flush(world.vfs, false), error);
	commit_error = 0;
	world_check_text(&world, during_file, "during the commit");
	world_reopen(&world);
	world_check_text(&world, during_file, "during the commit");
	assert_int_equal(world_find(&world, during_dir, "a"), -ENOENT);
	assert_int_equal(world_find(&world, R, "b2"), b);
	assert_int_equal(world_count(&world, during_dir), 1);
	assert_int_equal(world_count(&world, R), 3);
}

static void changes_during_a_commit_come_with_the_next(void **state)
{
	(void)state;
	check_changes_during_commit(0);
}

static void changes_during_a_failed_commit_come_with_the_next(void **state)
{
	(void)state;
	check_changes_during_commit(-ENOSPC);
}

/* In a directory that is not all in memory, a name is asked for in the database: not while it is
 * still there and should not be. */
static void unlink_in_commit(void)
{
	assert_int_equal(world_find(&world, during_dir, "5"), -ENOENT);
	assert_int_equal(world_unlink(&world, during_dir, "6"), 0);
	assert_int_equal(world_find(&world, during_dir, "6"), -ENOENT);
	assert_int_equal(world_count(&world, during_dir), 98);
}

static void a_name_that_goes_is_gone_during_the_commit(void **state)
{
	char name[16];

	(void)state;
	during_dir = world_mkdir(&world, R, "d");
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%d", i);
		world_create(&world, during_dir, name);
	}
	world_reopen(&world);
	assert_int_equal(world_unlink(&world, during_dir, "5"), 0);
	before_commit = unlink_in_commit;
	flush();
	assert_int_equal(world_find(&world, during_dir, "5"), -ENOENT);
	assert_int_equal(world_find(&world, during_dir, "6"), -ENOENT);
	flush();
	assert_int_equal(world_find(&world, during_dir, "6"), -ENOENT);
	world_reopen(&world);
	assert_int_equal(world_count(&world, during_dir), 98);
}

/* ---- exclusive and reset ---- */

static int snapshot(void *arg, struct store *store)
{
	return store_snapshot(store, arg, NULL);
}

static int restore(void *arg, struct store *store)
{
	int r;

	r = store_restore(store, arg, NULL, NULL);
	if (r == 0)
		vfs_reset(world.vfs);
	return r;
}

static void a_restore_shows_what_was(void **state)
{
	char name[] = "s1";
	struct vfs_attr attr;
	int64_t kept = world_create(&world, R, "kept"), dir = world_mkdir(&world, R, "d"), later;

	(void)state;
	world_put(&world, kept, "old");
	assert_int_equal(vfs_exclusive(world.vfs, snapshot, name), 0);
	world_check_text(&world, kept, "old");
	world_put(&world, kept, "new text");
	later = world_create(&world, dir, "later");
	assert_int_equal(world_unlink(&world, R, "kept"), 0);
	kept = world_create(&world, R, "kept");
	world_put(&world, kept, "another");
	assert_int_equal(vfs_lookup(world.vfs, &root_ctx, dir, SPAN("later"), &attr), 0);
	assert_int_equal(vfs_open(world.vfs, &root_ctx, kept, O_RDONLY), 0);
	assert_int_equal(vfs_open(world.vfs, &root_ctx, dir, O_RDONLY), 0);
	assert_int_equal(vfs_exclusive(world.vfs, restore, name), 0);
	assert_int_equal(world_stat(&world, later, &attr), -ESTALE);
	assert_int_equal(world_stat(&world, kept, &attr), -ESTALE);
	assert_int_equal(world_stat(&world, dir, &attr), 0);
	assert_int_equal(world_find(&world, dir, "later"), -ENOENT);
	assert_true(world_find(&world, R, "kept") < later);
	world_check_text(&world, world_find(&world, R, "kept"), "old");
	vfs_release(world.vfs, kept);
	vfs_release(world.vfs, dir);
	vfs_forget(world.vfs, later, 1);
	assert_true(world_create(&world, dir, "new") > later);
	world_reopen(&world);
	world_check_text(&world, world_find(&world, R, "kept"), "old");
	assert_int_equal(world_count(&world, dir), 1);
}

static int refuse(void *arg, struct store *store)
{
	(void)arg;
	(void)store;
	return -EBUSY;
}

static void exclusive_passes_errors_on(void **state)
{
	(void)state;
	world_create(&world, R, "a");
	assert_int_equal(vfs_exclusive(world.vfs, refuse, NULL), -EBUSY);
	world_create(&world, R, "b");
	commit_error = -ENOSPC;
	assert_int_equal(vfs_exclusive(world.vfs, refuse, NULL), -ENOSPC);
	commit_error = 0;
	assert_int_equal(world_count(&world, R), 2);
}

/* ---- memory ---- */

static void a_small_cache_changes_nothing(void **state)
{
	struct vfs_stats stats;
	int64_t dirs[10], inos[300];
	char name[16];

	(void)state;
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		dirs[i] = world_mkdir(&world, R, name);
	}
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		inos[i] = world_create(&world, dirs[i % 10], name);
		world_put(&world, inos[i], name);
		if (i % 50 == 0)
			flush();
	}
	flush();
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		assert_int_equal(world_find(&world, dirs[i % 10], name), inos[i]);
		world_check_text(&world, inos[i], name);
	}
	vfs_get_stats(world.vfs, &stats);
	assert_true(stats.inodes_cached <= 12);
	for (int i = 0; i < 10; i++)
		assert_int_equal(world_count(&world, dirs[i]), 30);
	assert_int_equal(world_nlink(&world, R), 12);
}

static void idle_gives_memory_back(void **state)
{
	struct vfs_stats stats;
	int64_t file = 0, dir = world_mkdir(&world, R, "d");
	char name[16];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		file = world_create(&world, dir, name);
		world_put(&world, file, name);
	}
	flush();
	vfs_idle(world.vfs);
	vfs_get_stats(world.vfs, &stats);
	assert_int_equal(stats.inodes_cached, 1);
	assert_int_equal(stats.bytes_cached, 0);
	world_check_text(&world, file, "2999");
	assert_int_equal(world_count(&world, dir), 3000);
}

static void records_are_written_without_any_row(void **state)
{
	struct gate_record record = {.op = GATE_EXEC, .who = root_ctx.who};
	struct store_info before, after;

	(void)state;
	flush();
	store_get_info(world.store, &before);
	vfs_record(world.vfs, &record);
	assert_int_equal(vfs_flush(world.vfs, true), 0);
	store_get_info(world.store, &after);
	assert_int_equal(after.audit_seq, before.audit_seq + 1);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(everything_is_there_again),
		CASE(what_comes_and_goes_between_flushes_is_not_written),
		CASE(nothing_dirty_is_no_commit),
		CASE(the_flusher_writes_by_itself),
		CASE(a_failed_commit_keeps_everything),
		CASE(a_failed_row_keeps_everything),
		CASE(close_reports_what_is_lost),
		CASE(changes_during_a_commit_come_with_the_next),
		CASE(changes_during_a_failed_commit_come_with_the_next),
		CASE(a_name_that_goes_is_gone_during_the_commit),
		CASE(a_restore_shows_what_was),
		CASE(exclusive_passes_errors_on),
		cmocka_unit_test_setup_teardown(a_small_cache_changes_nothing, setup_small,
						teardown),
		CASE(idle_gives_memory_back),
		CASE(records_are_written_without_any_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
