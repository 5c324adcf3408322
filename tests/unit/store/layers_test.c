/* layers_test.c - snapshot, restore, fork, merge, differences, one portable file. */
#include "fixture.h"

#include "base/mem.h"
#include "store/store_i.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static struct fixture *of(void **state)
{
	return *state;
}

/* ---- newest row wins ---- */

static void rows_through_layers(void **state)
{
	struct fixture *fixture = of(state);
	struct store *store = fixture->store;
	CLEANUP(buf_clear) struct buf value = BUF_INIT(64);
	struct store_info info;
	struct store_node node;

	add_file(store, "a", 2, "one");
	add_file(store, "b", 3, "two");
	add_file(store, "c", 4, "three");
	OK(store_begin(store));
	OK(store_put_xattr(store, 2, SPAN("user.x"), SPAN("old")));
	OK(store_put_xattr(store, 2, SPAN("user.y"), SPAN("same")));
	OK(store_put_meta(store, "setting", SPAN("kept")));
	OK(store_commit(store, false));
	OK(store_snapshot(store, "s1", NULL));
	assert_false(file_exists(fixture_file(fixture, "a.data")));
	store_get_info(store, &info);
	assert_int_equal(info.depth, 1);
	assert_int_equal(info.inodes, 4);
	assert_list(store, "a=2 b=3 c=4 ");
	assert_content(store, 2, "one");
	assert_clean(store);

	set_content(store, 2, "new");
	remove_file(store, "b", 3);
	add_file(store, "ab", 5, "four");
	OK(store_begin(store));
	OK(store_put_xattr(store, 2, SPAN("user.x"), SPAN("new")));
	OK(store_del_xattr(store, 2, SPAN("user.y")));
	OK(store_commit(store, false));
	assert_list(store, "a=2 ab=5 c=4 ");
	assert_content(store, 2, "new");
	FAILS(store_get_node(store, 3, &node), ENOENT);
	FAILS(store_get_xattr(store, 2, SPAN("user.y"), &value), ENODATA);
	OK(store_get_xattr(store, 2, SPAN("user.x"), &value));
	assert_string_equal(value.data, "new");
	assert_clean(store);

	fixture_reopen(fixture);
	store = fixture->store;
	OK(store_snapshot(store, "s2", NULL));
	assert_list(store, "a=2 ab=5 c=4 ");
	add_file(store, "b", 6, "again");
	assert_list(store, "a=2 ab=5 b=6 c=4 ");
	assert_clean(store);
	buf_clear(&value);
	OK(store_get_meta(store, "setting", &value));
	assert_string_equal(value.data, "kept");
	assert_snapshots(store, "s1:11:4:0 s2:12:4:0 ");
}

static void units_through_layers(void **state)
{
	struct store *store = of(state)->store;
	struct store_unit unit[4];
	struct store_node node = node_large(2, 4);
	int64_t pos, idx;

	add_large(store, "big", 2, 4, 1);
	OK(store_snapshot(store, "s1", NULL));
	assert_units(store, 2, 4, 1);
	OK(store_get_units(store, 2, 0, 4, unit));
	assert_int_equal(unit[2].layer, 1);
	/* One unit is written again: only that one is in the head. */
	assert_int_equal(store_data_alloc(store, 1, &pos), 1);
	assert_int_equal(pos, 0);
	OK(store_data_write(store, pos, 0, "new", 3));
	OK(store_begin(store));
	OK(store_put_unit(store, 2, 1, pos));
	OK(store_put_unit(store, 2, 2, STORE_HOLE));
	node.rdev = 3;
	OK(store_put_node(store, &node));
	OK(store_commit(store, false));
	put_right_counters(store);
	OK(store_get_units(store, 2, 0, 4, unit));
	assert_int_equal(unit[0].layer, 1);
	assert_int_equal(unit[1].layer, 0);
	assert_int_equal(unit[2].pos, STORE_HOLE);
	OK(store_next_unit(store, 2, 2, &idx));
	assert_int_equal(idx, 3);
	assert_clean(store);
	/* Cut below, then whole again: what was cut stays a hole. */
	OK(store_begin(store));
	OK(store_del_units(store, 2, 1));
	node.rdev = 1;
	OK(store_put_node(store, &node));
	OK(store_commit(store, false));
	put_right_counters(store);
	OK(store_get_units(store, 2, 0, 4, unit));
	assert_int_equal(unit[0].layer, 1);
	assert_int_equal(unit[1].pos, STORE_HOLE);
	assert_int_equal(unit[3].pos, STORE_HOLE);
	remove_file(store, "big", 2);
	assert_clean(store);
}

static void snapshot_is_read_as_it_was(void **state)
{
	struct store *store = of(state)->store, *old = NULL;
	struct store_info info;
	int64_t pos;

	add_file(store, "a", 2, "one");
	add_large(store, "big", 3, 2, 1);
	OK(store_snapshot(store, "s1", NULL));
	set_content(store, 2, "two!");
	remove_file(store, "big", 3);
	OK(store_open_snapshot(store, "s1", &old, NULL));
	OK(store_delete_snapshot(store, "s1", NULL));
	assert_list(old, "a=2 big=3 ");
	assert_content(old, 2, "one");
	assert_units(old, 3, 2, 1);
	store_get_info(old, &info);
	assert_int_equal(info.inodes, 3);
	assert_int_equal(info.bytes, 3 + 2 * STORE_UNIT);
	FAILS(store_begin(old), EROFS);
	FAILS(store_data_alloc(old, 1, &pos), EROFS);
	assert_clean(old);
	assert_snapshots(old, "");
	store_close(old);
	assert_content(store, 2, "two!");
	assert_clean(store);
}

static void names_of_snapshots(void **state)
{
	struct store *store = of(state)->store, *other;
	char longest[STORE_SNAPSHOT_NAME_MAX + 2];
	struct err err = ERR_INIT;

	memset(longest, 'x', sizeof(longest));
	longest[STORE_SNAPSHOT_NAME_MAX + 1] = 0;
	FAILS(store_snapshot(store, "", &err), EINVAL);
	FAILS(store_snapshot(store, "a/b", &err), EINVAL);
	FAILS(store_snapshot(store, "a\nb", &err), EINVAL);
	FAILS(store_snapshot(store, "\xff", &err), EINVAL);
	FAILS(store_snapshot(store, longest, &err), EINVAL);
	longest[STORE_SNAPSHOT_NAME_MAX] = 0;
	OK(store_snapshot(store, longest, &err));
	OK(store_snapshot(store, "käse", &err));
	FAILS(store_snapshot(store, "käse", &err), EEXIST);
	FAILS(store_restore(store, "nope", NULL, &err), ENOENT);
	FAILS(store_restore(store, "käse", "käse", &err), EEXIST);
	FAILS(store_delete_snapshot(store, "nope", &err), ENOENT);
	FAILS(store_open_snapshot(store, "nope", &other, &err), ENOENT);
	FAILS(store_fork(store, "nope", of(state)->other, &err), ENOENT);
	FAILS(store_fork(store, "käse", of(state)->path, &err), EEXIST);
	FAILS(store_fork(store, "käse", "nodb", &err), EINVAL);
	assert_clean(store);
}

static void restore_keeps_the_head_and_the_audit(void **state)
{
	struct fixture *fixture = of(state);
	struct store *store = fixture->store;
	struct store_info info;

	audit_one(store, 1);
	add_file(store, "a", 2, "one");
	add_large(store, "big", 3, 2, 1);
	OK(store_snapshot(store, "s1", NULL));
	audit_one(store, 2);
	add_file(store, "b", 4, "two");
	remove_file(store, "big", 3);
	OK(store_restore(store, "s1", "before", NULL));
	assert_list(store, "a=2 big=3 ");
	assert_units(store, 3, 2, 1);
	assert_audit(store, "1 2 ");
	store_get_info(store, &info);
	assert_int_equal(info.audit_seq, 2);
	assert_int_equal(info.next_ino, 5); /* numbers are never used again */
	assert_int_equal(info.bytes, 3 + 2 * STORE_UNIT);
	assert_clean(store);
	audit_one(store, 3);
	OK(store_restore(store, "before", NULL, NULL));
	assert_list(store, "a=2 b=4 ");
	assert_audit(store, "1 2 3 ");
	assert_clean(store);
	fixture_reopen(fixture);
	store = fixture->store;
	assert_list(store, "a=2 b=4 ");
	assert_audit(store, "1 2 3 ");
	assert_snapshots(store, "s1:131075:3:1 before:6:3:2 ");
	assert_clean(store);
	OK(store_delete_snapshot(store, "before", NULL)); /* the head stands on it still */
	assert_list(store, "a=2 b=4 ");
	OK(store_restore(store, "s1", NULL, NULL));
	assert_int_equal(layer_files(fixture->path), 2); /* one layer, with its units */
	assert_audit(store, "1 2 3 ");
	assert_clean(store);
}

static void orphans_of_a_snapshot_are_gone_after_restore(void **state)
{
	struct fixture *fixture = of(state);
	struct store *store = fixture->store, *forked;
	struct store_node node = node_file(2, 4);
	struct store_info info;

	add_file(store, "a", 2, "text");
	OK(store_begin(store));
	OK(store_del_dirent(store, STORE_ROOT, SPAN("a")));
	node.nlink = 0;
	node.flags = STORE_NODE_ORPHAN;
	OK(store_put_node(store, &node));
	OK(store_commit(store, false));
	OK(store_snapshot(store, "s1", NULL));
	OK(store_get_node(store, 2, &node)); /* still open */
	OK(store_fork(store, "s1", fixture->other, NULL));
	OK(store_restore(store, "s1", NULL, NULL));
	FAILS(store_get_node(store, 2, &node), ENOENT);
	store_get_info(store, &info);
	assert_int_equal(info.inodes, 1);
	assert_int_equal(info.bytes, 0);
	assert_clean(store);
	forked = open_at(fixture->other, 0);
	FAILS(store_get_node(forked, 2, &node), ENOENT);
	assert_clean(forked);
	store_close(forked);
}

static void fork_is_a_workspace_of_its_own(void **state)
{
	struct fixture *fixture = of(state);
	struct store *store = fixture->store, *forked;
	struct store_info one, two;

	audit_one(store, 1);
	add_file(store, "a", 2, "one");
	add_large(store, "big", 3, 2, 1);
	OK(store_begin(store));
	OK(store_put_quota(store, 1 << 30, 1000));
	OK(store_put_meta(store, "k", SPAN("v")));
	OK(store_commit(store, false));
	OK(store_snapshot(store, "s1", NULL));
	audit_one(store, 2);
	OK(store_fork(store, "s1", fixture->other, NULL));
	forked = open_at(fixture->other, 0);
	assert_list(forked, "a=2 big=3 ");
	assert_audit(forked, "1 ");
	assert_snapshots(forked, "");
	store_get_info(store, &one);
	store_get_info(forked, &two);
	assert_string_not_equal(one.id, two.id);
	assert_int_equal(two.audit_seq, 1);
	assert_int_equal(two.quota_inodes, 1000);
	set_content(forked, 2, "fork");
	set_content(store, 2, "main");
	remove_file(store, "big", 3);
	OK(store_delete_snapshot(store, "s1", NULL));
	assert_content(forked, 2, "fork");
	assert_units(forked, 3, 2, 1);
	assert_clean(forked);
	assert_clean(store);
	/* The one can be removed under the other. */
	store_close(store);
	fixture->store = NULL;
	OK(store_remove(fixture->path, NULL));
	assert_int_equal(layer_files(fixture->path), 0);
	assert_units(forked, 3, 2, 1);
	store_close(forked);
}

static void deep_chain_is_merged(void **state)
{
	struct fixture *fixture = of(state);
	struct store *store = fixture->store, *old = NULL;
	struct store_info info;
	int r;

	audit_one(store, 1);
	deepen(store, 12);
	audit_one(store, 2);
	store_get_info(store, &info);
	assert_int_equal(info.depth, 12);
	for (r = 1; r == 1;)
		r = store_maintain(store, NULL);
	OK(r);
	store_get_info(store, &info);
	assert_int_equal(info.depth, STORE_CHAIN_MAX);
	assert_list(store, "all=100 big=101 s12=212 ");
	assert_content(store, 100, "s12");
	assert_units(store, 101, 3, 1);
	assert_audit(store, "1 2 ");
	assert_clean(store);
	OK(store_open_snapshot(store, "s3", &old, NULL)); /* stands on its own layers */
	assert_list(old, "all=100 big=101 s3=203 ");
	assert_clean(old);
	store_close(old);
	for (int i = 1; i <= 12; i++) {
		char name[16];

		snprintf(name, sizeof(name), "s%d", i);
		OK(store_delete_snapshot(store, name, NULL));
	}
	assert_true(layer_files(fixture->path) <= STORE_CHAIN_MAX + 1);
	fixture_reopen(fixture);
	assert_list(fixture->store, "all=100 big=101 s12=212 ");
	assert_units(fixture->store, 101, 3, 1);
	assert_clean(fixture->store);
}

static void merge_survives_changes_of_the_chain(void **state)
{
	struct store *store = of(state)->store;
	struct store_info info;

	deepen(store, 10);
	assert_int_equal(store_prepare_merge(store, NULL), 1);
	assert_int_equal(store_prepare_merge(store, NULL), 0);
	OK(store_snapshot(store, "in-between", NULL));
	OK(store_delete_snapshot(store, "s4", NULL)); /* must not collect what is being made */
	assert_int_equal(store_maintain(store, NULL), 1);
	OK(store_maintain(store, NULL));
	store_get_info(store, &info);
	assert_int_equal(info.depth, STORE_CHAIN_MAX);
	assert_clean(store);
	deepen(store, 0);
}

static void prepared_merge_of_another_chain_is_dropped(void **state)
{
	struct store *store = of(state)->store;
	struct store_info info;

	deepen(store, 10);
	assert_int_equal(store_prepare_merge(store, NULL), 1);
	OK(store_restore(store, "s1", NULL, NULL));
	OK(store_maintain(store, NULL));
	store_get_info(store, &info);
	assert_int_equal(info.depth, 1);
	assert_list(store, "all=100 big=101 s1=201 ");
	assert_clean(store);
}

static void deepest_chain_makes_room(void **state)
{
	struct store *store = of(state)->store;
	struct store_info info;
	char name[16];

	add_file(store, "a", 2, "x");
	for (int i = 0; i < STORE_LAYERS_MAX + 2; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		OK(store_snapshot(store, name, NULL));
	}
	store_get_info(store, &info);
	assert_true(info.depth < STORE_LAYERS_MAX);
	assert_list(store, "a=2 ");
	assert_clean(store);
}

/* ---- differences ---- */

static int list_ino(void *arg, int64_t ino)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%d ", (int)ino);

	return buf_add(arg, text, (size_t)len);
}

static void assert_changed(struct store *from, struct store *to, const char *want)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(4096);

	OK(store_each_changed(from, to, list_ino, &text));
	assert_string_equal(text.data, want);
}

static void differences_between_states(void **state)
{
	struct store *store = of(state)->store, *s1 = NULL, *s2 = NULL;
	struct store_node node;
	int64_t pos;

	add_file(store, "a", 2, "one");
	add_file(store, "b", 3, "two");
	add_file(store, "moved", 4, "three");
	add_large(store, "big", 5, 2, 1);
	OK(store_snapshot(store, "s1", NULL));
	OK(store_open_snapshot(store, "s1", &s1, NULL));
	assert_changed(s1, store, "");
	assert_changed(NULL, s1, "1 2 3 4 5 ");
	set_content(store, 2, "one"); /* the same rows again */
	remove_file(store, "b", 3);
	add_file(store, "c", 6, "new");
	OK(store_begin(store));
	OK(store_del_dirent(store, STORE_ROOT, SPAN("moved")));
	OK(store_put_dirent(store, STORE_ROOT, SPAN("to"), 4));
	OK(store_get_node(store, 2, &node));
	node.atime++;
	OK(store_put_node(store, &node)); /* reading is no change */
	OK(store_commit(store, false));
	assert_changed(s1, store, "3 4 6 ");
	assert_int_equal(store_data_alloc(store, 1, &pos), 1);
	OK(store_data_write(store, pos, 0, "x", 1));
	OK(store_begin(store));
	OK(store_put_unit(store, 5, 1, pos));
	OK(store_put_xattr(store, 2, SPAN("user.a"), SPAN("1")));
	OK(store_commit(store, false));
	assert_changed(s1, store, "2 3 4 5 6 ");
	OK(store_snapshot(store, "s2", NULL));
	OK(store_open_snapshot(store, "s2", &s2, NULL));
	assert_changed(s2, store, "");
	assert_changed(s1, s2, "2 3 4 5 6 ");
	assert_changed(s2, s1, "2 3 4 5 6 "); /* either way */
	add_file(store, "gone", 7, "x");
	remove_file(store, "gone", 7);
	assert_changed(s2, store, "");
	store_close(s1);
	store_close(s2);
}

static void merged_layers_make_no_difference(void **state)
{
	struct store *store = of(state)->store, *old = NULL;

	deepen(store, 10);
	OK(store_open_snapshot(store, "s10", &old, NULL));
	while (store_maintain(store, NULL) == 1)
		;
	OK(store_delete_snapshot(store, "s2", NULL));
	assert_changed(old, store, "");
	set_content(store, 100, "other");
	assert_changed(old, store, "100 ");
	store_close(old);
}

/* ---- one file, and names ---- */

static void export_and_import(void **state)
{
	struct fixture *fixture = of(state);
	struct store *store = fixture->store, *other = NULL;
	CLEANUP(buf_clear) struct buf value = BUF_INIT(64);
	char file[256];
	struct err err = ERR_INIT;
	struct store_info one, two;

	audit_one(store, 1);
	deepen(store, 3);
	OK(store_begin(store));
	OK(store_put_xattr(store, 100, SPAN("user.x"), SPAN("v")));
	OK(store_put_meta(store, "k", SPAN("v")));
	OK(store_put_quota(store, 1 << 30, 99));
	OK(store_commit(store, false));
	snprintf(file, sizeof(file), "%s", fixture_file(fixture, "out.db"));
	OK(store_export(store, file, NULL));
	FAILS(store_export(store, file, &err), EEXIST);
	FAILS(store_open(file, 0, &other, &err), EPROTO);
	assert_non_null(strstr(err.text, "import it"));
	OK(store_import(file, fixture->other, &err));
	FAILS(store_import(file, fixture->other, &err), EEXIST);
	other = open_at(fixture->other, 0);
	assert_list(other, "all=100 big=101 s3=203 ");
	assert_content(other, 100, "s3");
	assert_units(other, 101, 3, 1);
	assert_audit(other, "1 ");
	OK(store_get_xattr(other, 100, SPAN("user.x"), &value));
	OK(store_get_meta(other, "k", &value));
	assert_string_equal(value.data, "vv");
	assert_snapshots(other, "");
	store_get_info(store, &one);
	store_get_info(other, &two);
	assert_string_not_equal(one.id, two.id);
	assert_int_equal(one.next_ino, two.next_ino);
	assert_int_equal(one.bytes, two.bytes);
	assert_int_equal(two.quota_inodes, 99);
	assert_clean(other);
	add_large(other, "more", 300, 2, 5);
	assert_units(other, 101, 3, 1);
	assert_units(other, 300, 2, 5);
	store_close(other);
}

static void import_of_a_workspace_where_it_is(void **state)
{
	struct fixture *fixture = of(state);
	struct store *other;

	deepen(fixture->store, 3);
	store_close(fixture->store);
	fixture->store = NULL;
	OK(store_import(fixture->path, fixture->other, NULL));
	other = open_at(fixture->other, 0);
	assert_list(other, "all=100 big=101 s3=203 ");
	assert_units(other, 101, 3, 1);
	assert_clean(other);
	store_close(other);
	fixture->store = open_at(fixture->path, 0);
	assert_clean(fixture->store);
}

static void snapshot_can_be_exported(void **state)
{
	struct fixture *fixture = of(state);
	struct store *old = NULL, *other;
	char file[256];

	deepen(fixture->store, 3);
	OK(store_open_snapshot(fixture->store, "s2", &old, NULL));
	snprintf(file, sizeof(file), "%s", fixture_file(fixture, "out.db"));
	OK(store_export(old, file, NULL));
	store_close(old);
	OK(store_import(file, fixture->other, NULL));
	other = open_at(fixture->other, 0);
	assert_list(other, "all=100 big=101 s2=202 ");
	assert_clean(other);
	store_close(other);
}

static void workspace_is_renamed(void **state)
{
	struct fixture *fixture = of(state);
	struct store *store;

	deepen(fixture->store, 3);
	add_large(fixture->store, "head", 300, 1, 8);
	store_close(fixture->store);
	fixture->store = NULL;
	store = open_at(fixture->other, STORE_CREATE);
	store_close(store);
	FAILS(store_rename(fixture->path, fixture->other, NULL), EEXIST);
	OK(store_remove(fixture->other, NULL));
	OK(store_rename(fixture->path, fixture->other, NULL));
	assert_false(file_exists(fixture->path));
	assert_int_equal(layer_files(fixture->path), 0);
	store = open_at(fixture->other, 0);
	assert_list(store, "all=100 big=101 head=300 s3=203 ");
	assert_units(store, 300, 1, 8);
	assert_snapshots(store, "s1:196612:4:0 s2:196612:4:0 s3:196612:4:0 ");
	assert_clean(store);
	store_close(store);
	FAILS(store_remove(fixture->path, NULL), ENOENT);
	FAILS(store_rename(fixture->path, fixture->dir, NULL), EINVAL);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(rows_through_layers),
		TEST(units_through_layers),
		TEST(snapshot_is_read_as_it_was),
		TEST(names_of_snapshots),
		TEST(restore_keeps_the_head_and_the_audit),
		TEST(orphans_of_a_snapshot_are_gone_after_restore),
		TEST(fork_is_a_workspace_of_its_own),
		TEST(deep_chain_is_merged),
		TEST(merge_survives_changes_of_the_chain),
		TEST(prepared_merge_of_another_chain_is_dropped),
		TEST(deepest_chain_makes_room),
		TEST(differences_between_states),
		TEST(merged_layers_make_no_difference),
		TEST(export_and_import),
		TEST(import_of_a_workspace_where_it_is),
		TEST(snapshot_can_be_exported),
		TEST(workspace_is_renamed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
