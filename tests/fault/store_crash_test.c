/* store_crash_test.c - dying at every step of what changes layers. */
#include "fixture.h"

#include "base/mem.h"
#include "store/store_i.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int steps_left;

static void die_at_step(const char *name)
{
	(void)name;
	if (steps_left-- == 0)
		_exit(7);
}

struct crash {
	void (*prepare)(struct fixture *fixture);
	int (*work)(struct fixture *fixture);
	void (*verify)(struct fixture *fixture, bool done);
};

/* Die at step 0, 1, ... until the work is done before it comes to that; look after each. */
static void crash_everywhere(void **state, const struct crash *crash)
{
	struct fixture *start;
	bool done = false;

	OK(fixture_setup((void **)&start));
	crash->prepare(start);
	store_close(start->store);
	start->store = NULL;
	for (int n = 0; !done; n++) {
		struct fixture *fixture = fixture_new();
		int status;
		pid_t pid;

		assert_true(n < 200);
		copy_tree(start->dir, fixture->dir);
		pid = fork();
		if (pid == 0) {
			fixture->store = open_at(fixture->path, 0);
			steps_left = n;
			store_step = die_at_step;
			_exit(crash->work(fixture) == 0 ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 1);
		done = WEXITSTATUS(status) == 0;
		crash->verify(fixture, done);
		fixture_teardown((void **)&fixture);
	}
	fixture_teardown((void **)&start);
	(void)state;
}

static void three_layers(struct fixture *fixture)
{
	audit_one(fixture->store, 1);
	deepen(fixture->store, 1);
	add_large(fixture->store, "head", 300, 2, 8);
	audit_one(fixture->store, 2);
}

static int take_snapshot(struct fixture *fixture)
{
	return store_snapshot(fixture->store, "new", NULL);
}

static void verify_snapshot(struct fixture *fixture, bool done)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(4096);
	bool there;

	fixture->store = open_at(fixture->path, 0);
	assert_clean(fixture->store);
	assert_list(fixture->store, "all=100 big=101 head=300 s1=201 ");
	assert_units(fixture->store, 300, 2, 8);
	assert_audit(fixture->store, "1 2 ");
	OK(store_each_snapshot(fixture->store, list_snapshot, &text));
	there = strstr(text.data, "new:");
	assert_true(there || !done);
	assert_int_equal(layer_files(fixture->path), there ? 4 : 2);
	add_large(fixture->store, "after", 301, 1, 3);
	OK(store_snapshot(fixture->store, there ? "newer" : "new", NULL));
	assert_units(fixture->store, 300, 2, 8);
	assert_units(fixture->store, 301, 1, 3);
	assert_clean(fixture->store);
}

static void dying_in_a_snapshot(void **state)
{
	crash_everywhere(state, &(struct crash){three_layers, take_snapshot, verify_snapshot});
}

static int restore_dropping(struct fixture *fixture)
{
	return store_restore(fixture->store, "s1", NULL, NULL);
}

static int restore_keeping(struct fixture *fixture)
{
	return store_restore(fixture->store, "s1", "kept", NULL);
}

static void verify_restore(struct fixture *fixture, bool done)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(4096);
	int64_t ino;
	bool restored;

	fixture->store = open_at(fixture->path, 0);
	assert_clean(fixture->store);
	restored = store_get_dirent(fixture->store, STORE_ROOT, SPAN("head"), &ino) == -ENOENT;
	assert_true(restored || !done);
	if (!restored)
		assert_units(fixture->store, 300, 2, 8);
	assert_units(fixture->store, 101, 3, 1);
	assert_audit(fixture->store, "1 2 ");
	OK(store_each_snapshot(fixture->store, list_snapshot, &text));
	if (strstr(text.data, "kept:")) {
		struct store *kept = NULL;

		assert_true(restored);
		OK(store_open_snapshot(fixture->store, "kept", &kept, NULL));
		assert_units(kept, 300, 2, 8);
		store_close(kept);
	} else {
		assert_int_equal(layer_files(fixture->path), 2);
	}
	add_large(fixture->store, "after", 301, 1, 3);
	assert_clean(fixture->store);
}

static void dying_in_a_restore(void **state)
{
	crash_everywhere(state, &(struct crash){three_layers, restore_dropping, verify_restore});
}

static void dying_in_a_restore_that_keeps(void **state)
{
	crash_everywhere(state, &(struct crash){three_layers, restore_keeping, verify_restore});
}

static int fork_away(struct fixture *fixture)
{
	return store_fork(fixture->store, "s1", fixture->other, NULL);
}

static void verify_fork(struct fixture *fixture, bool done)
{
	struct store *forked;

	fixture->store = open_at(fixture->path, 0);
	assert_clean(fixture->store);
	assert_units(fixture->store, 300, 2, 8);
	assert_true(file_exists(fixture->other) || !done);
	if (!file_exists(fixture->other)) /* what is left is in nobody's way */
		OK(fork_away(fixture));
	forked = open_at(fixture->other, 0);
	assert_list(forked, "all=100 big=101 s1=201 ");
	assert_units(forked, 101, 3, 1);
	assert_clean(forked);
	store_close(forked);
}

static void dying_in_a_fork(void **state)
{
	crash_everywhere(state, &(struct crash){three_layers, fork_away, verify_fork});
}

static void nine_layers(struct fixture *fixture)
{
	deepen(fixture->store, 9);
	for (int i = 1; i < 9; i++) {
		char name[16];

		snprintf(name, sizeof(name), "s%d", i);
		OK(store_delete_snapshot(fixture->store, name, NULL));
	}
}

static int merge_all(struct fixture *fixture)
{
	return store_maintain(fixture->store, NULL);
}

static void verify_merge(struct fixture *fixture, bool done)
{
	struct store_info info;

	fixture->store = open_at(fixture->path, 0);
	store_get_info(fixture->store, &info);
	assert_true(info.depth == 9 || info.depth == 8);
	assert_true(info.depth == 8 || !done);
	assert_int_equal(layer_files(fixture->path), info.depth == 9 ? 10 : 10 + 1);
	assert_list(fixture->store, "all=100 big=101 s9=209 ");
	assert_content(fixture->store, 100, "s9");
	assert_units(fixture->store, 101, 3, 1);
	assert_clean(fixture->store);
}

static void dying_in_a_merge(void **state)
{
	crash_everywhere(state, &(struct crash){nine_layers, merge_all, verify_merge});
}

static int delete_old(struct fixture *fixture)
{
	OK(store_restore(fixture->store, "s1", "kept", NULL));
	return store_delete_snapshot(fixture->store, "kept", NULL);
}

static void dying_in_a_deletion(void **state)
{
	crash_everywhere(state, &(struct crash){three_layers, delete_old, verify_restore});
}

static int rename_away(struct fixture *fixture)
{
	store_close(fixture->store);
	return store_rename(fixture->path, fixture->other, NULL);
}

static void verify_rename(struct fixture *fixture, bool done)
{
	struct store *store;
	bool moved = file_exists(fixture->other);

	assert_true(moved || !done);
	assert_int_equal(file_exists(fixture->path), !moved);
	store = open_at(moved ? fixture->other : fixture->path, 0);
	assert_list(store, "all=100 big=101 head=300 s1=201 ");
	assert_units(store, 300, 2, 8);
	assert_units(store, 101, 3, 1);
	assert_clean(store);
	store_close(store);
	/* The other name can be used at once, whatever is left of it. */
	store = open_at(moved ? fixture->path : fixture->other, STORE_CREATE);
	assert_clean(store);
	assert_int_equal(layer_files(moved ? fixture->path : fixture->other), 0);
	store_close(store);
}

static void dying_in_a_rename(void **state)
{
	crash_everywhere(state, &(struct crash){three_layers, rename_away, verify_rename});
}

static int import_there(struct fixture *fixture)
{
	char file[256];

	snprintf(file, sizeof(file), "%s", fixture_file(fixture, "out.db"));
	OK(store_export(fixture->store, file, NULL));
	return store_import(file, fixture->other, NULL);
}

static void verify_import(struct fixture *fixture, bool done)
{
	struct store *store;

	fixture->store = open_at(fixture->path, 0);
	assert_true(file_exists(fixture->other) || !done);
	if (!file_exists(fixture->other)) {
		unlink(fixture_file(fixture, "out.db"));
		OK(import_there(fixture));
	}
	store = open_at(fixture->other, 0);
	assert_units(store, 300, 2, 8);
	assert_clean(store);
	store_close(store);
}

static void dying_in_an_import(void **state)
{
	crash_everywhere(state, &(struct crash){three_layers, import_there, verify_import});
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(dying_in_a_snapshot),
		cmocka_unit_test(dying_in_a_restore),
		cmocka_unit_test(dying_in_a_restore_that_keeps),
		cmocka_unit_test(dying_in_a_fork),
		cmocka_unit_test(dying_in_a_merge),
		cmocka_unit_test(dying_in_a_deletion),
		cmocka_unit_test(dying_in_a_rename),
		cmocka_unit_test(dying_in_an_import),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
