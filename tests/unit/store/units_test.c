/* units_test.c - the extent file: taking, giving back and reusing units. */
#include "fixture.h"

#include "base/mem.h"

#include <errno.h>

static struct fixture *of(void **state)
{
	return *state;
}

static void units_are_zero_and_in_a_row(void **state)
{
	struct store *store = of(state)->store;
	struct store_unit unit = {.layer = 0};
	CLEANUP(mem_free) char *bytes = mem_alloc(STORE_UNIT);
	int64_t pos, next;

	assert_int_equal(store_data_alloc(store, 16, &pos), 16);
	assert_int_equal(store_data_alloc(store, 1, &next), 1);
	assert_int_equal(next, pos + 16);
	OK(store_data_write(store, pos, 5, "hello", 5));
	unit.pos = pos;
	OK(store_data_read(store, unit, 0, bytes, 16));
	assert_memory_equal(bytes, "\0\0\0\0\0hello\0\0\0\0\0\0", 16);
	OK(store_data_zero(store, pos, 6, 3));
	OK(store_data_read(store, unit, 4, bytes, 8));
	assert_memory_equal(bytes, "\0h\0\0\0o\0\0", 8);
	unit.pos = next;
	memset(bytes, 1, STORE_UNIT);
	OK(store_data_read(store, unit, 0, bytes, STORE_UNIT));
	for (size_t i = 0; i < STORE_UNIT; i++)
		assert_int_equal(bytes[i], 0);
	unit.pos = STORE_HOLE;
	memset(bytes, 1, 8);
	OK(store_data_read(store, unit, 0, bytes, 8));
	assert_memory_equal(bytes, "\0\0\0\0\0\0\0\0", 8);
	OK(store_data_sync(store));
}

static void freed_units_are_used_again_and_empty(void **state)
{
	struct fixture *fixture = of(state);
	struct store_unit unit = {.layer = 0};
	struct stat st;
	char bytes[16];
	int64_t pos;

	add_large(fixture->store, "a", 2, 4, 1);
	add_large(fixture->store, "b", 3, 4, 9); /* so that the first is not at the end */
	remove_file(fixture->store, "a", 2);
	/* Not durable: a power cut could bring the file back. */
	assert_int_equal(store_data_alloc(fixture->store, 1, &pos), 1);
	assert_int_equal(pos, 8);
	store_data_free(fixture->store, pos, 1); /* looks for what can be used again */
	assert_int_equal(store_data_alloc(fixture->store, 1, &pos), 1);
	assert_int_equal(pos, 8);
	store_data_free(fixture->store, pos, 1);
	OK(store_sync(fixture->store));
	OK(stat(fixture_file(fixture, "a.data"), &st));
	assert_true(st.st_blocks * 512 <=
		    (int64_t)4 * STORE_UNIT); /* the host has the space back */
	assert_int_equal(store_data_alloc(fixture->store, 4, &pos), 4);
	assert_int_equal(pos, 0);
	unit.pos = 2;
	OK(store_data_read(fixture->store, unit, 0, bytes, sizeof(bytes)));
	assert_memory_equal(bytes, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	assert_units(fixture->store, 3, 4, 9);
	assert_clean(fixture->store);
}

static void pinned_units_stay(void **state)
{
	struct store *store = of(state)->store;
	struct store_unit unit;
	char byte;
	int64_t pos;

	add_large(store, "a", 2, 2, 1);
	add_large(store, "b", 3, 1, 9);
	store_data_pin(store);
	store_data_pin(store);
	OK(store_get_units(store, 2, 1, 1, &unit));
	remove_file(store, "a", 2);
	OK(store_sync(store));
	store_data_unpin(store);
	assert_int_equal(store_data_alloc(store, 2, &pos), 2);
	assert_int_equal(pos, 3);
	OK(store_data_read(store, unit, 0, &byte, 1));
	assert_int_equal(byte, 2);
	store_data_unpin(store);
	store_data_free(store, pos, 2); /* looks again who reads */
	assert_int_equal(store_data_alloc(store, 2, &pos), 2);
	assert_int_equal(pos, 0);
}

static void rolled_back_units_keep_their_file(void **state)
{
	struct store *store = of(state)->store;
	int64_t pos;

	add_large(store, "a", 2, 2, 1);
	OK(store_begin(store));
	OK(store_del_units(store, 2, 0));
	store_rollback(store);
	OK(store_begin(store));
	OK(store_commit(store, true));
	assert_int_equal(store_data_alloc(store, 1, &pos), 1);
	assert_int_equal(pos, 2);
	assert_units(store, 2, 2, 1);
	assert_clean(store);
}

static void free_units_are_remembered(void **state)
{
	struct fixture *fixture = of(state);
	int64_t pos;

	add_large(fixture->store, "a", 2, 3, 1);
	add_large(fixture->store, "b", 3, 1, 9);
	remove_file(fixture->store, "a", 2);
	fixture_reopen(fixture);
	assert_clean(fixture->store);
	assert_int_equal(store_data_alloc(fixture->store, 3, &pos), 3);
	assert_int_equal(pos, 0);
	assert_units(fixture->store, 3, 1, 9);
}

static void empty_extent_file_goes(void **state)
{
	struct fixture *fixture = of(state);
	struct stat st;

	add_large(fixture->store, "a", 2, 3, 1);
	remove_file(fixture->store, "a", 2);
	OK(store_sync(fixture->store));
	OK(stat(fixture_file(fixture, "a.data"), &st));
	assert_int_equal(st.st_size, 0);
	fixture_reopen(fixture);
	assert_false(file_exists(fixture_file(fixture, "a.data")));
	add_large(fixture->store, "b", 3, 1, 5);
	assert_units(fixture->store, 3, 1, 5);
}

static void unit_put_twice_is_not_freed(void **state)
{
	struct store *store = of(state)->store;
	struct store_unit unit;
	int64_t pos;

	add_large(store, "a", 2, 2, 1);
	OK(store_get_units(store, 2, 0, 1, &unit));
	OK(store_begin(store));
	OK(store_put_unit(store, 2, 0, unit.pos));
	OK(store_commit(store, true));
	assert_int_equal(store_data_alloc(store, 1, &pos), 1);
	assert_int_equal(pos, 2);
	OK(store_begin(store));
	OK(store_put_unit(store, 2, 0, pos));
	OK(store_commit(store, true));
	assert_int_equal(store_data_alloc(store, 1, &pos), 1);
	assert_int_equal(pos, 0);
}

static void truncated_file_has_holes(void **state)
{
	struct store *store = of(state)->store;
	struct store_unit unit[4];
	int64_t idx;

	add_large(store, "a", 2, 4, 1);
	OK(store_begin(store));
	OK(store_del_units(store, 2, 3));
	OK(store_put_unit(store, 2, 0, STORE_HOLE));
	OK(store_commit(store, false));
	OK(store_get_units(store, 2, 0, 4, unit));
	assert_int_equal(unit[0].pos, STORE_HOLE);
	assert_int_equal(unit[1].pos, 1);
	assert_int_equal(unit[3].pos, STORE_HOLE);
	OK(store_next_unit(store, 2, 0, &idx));
	assert_int_equal(idx, 1);
	FAILS(store_next_unit(store, 2, 3, &idx), ENXIO);
}

static void take_units_and_forget(struct store *store)
{
	char bytes[4096];
	int64_t pos;

	memset(bytes, 0xee, sizeof(bytes));
	while (store_data_alloc(store, 2, &pos) == 2 && pos < 8)
		(void)!store_data_write(store, pos, 0, bytes, sizeof(bytes));
	(void)!store_data_write(store, pos, 0, bytes, sizeof(bytes));
}

static void units_no_commit_named_are_garbage(void **state)
{
	struct fixture *fixture = of(state);
	struct store_unit unit = {.layer = 0};
	struct stat st;
	char byte = 1;
	int64_t pos;

	add_large(fixture->store, "a", 2, 2, 1);
	add_large(fixture->store, "b", 3, 2, 5);
	remove_file(fixture->store, "a", 2);
	crash(fixture, take_units_and_forget);
	OK(stat(fixture_file(fixture, "a.data"), &st));
	assert_int_equal(st.st_size, 4 * STORE_UNIT);
	assert_int_equal(store_data_alloc(fixture->store, 2, &pos), 2);
	assert_int_equal(pos, 0);
	unit.pos = pos;
	OK(store_data_read(fixture->store, unit, 0, &byte, 1));
	assert_int_equal(byte, 0);
	assert_units(fixture->store, 3, 2, 5);
	assert_clean(fixture->store);
}

static void free_without_durability(struct store *store)
{
	add_large(store, "c", 4, 3, 1);
	remove_file(store, "b", 3);
	OK(store_begin(store));
	OK(store_commit(store, true));
	take_units_and_forget(store);
}

static void crash_forgets_no_free_unit(void **state)
{
	struct fixture *fixture = of(state);
	int64_t pos;

	add_large(fixture->store, "a", 2, 1, 1);
	add_large(fixture->store, "b", 3, 2, 5);
	crash(fixture, free_without_durability);
	assert_clean(fixture->store);
	assert_int_equal(store_data_alloc(fixture->store, 2, &pos), 2);
	assert_int_equal(pos, 1);
	assert_int_equal(store_data_alloc(fixture->store, 2, &pos), 2);
	assert_int_equal(pos, 6);
	assert_units(fixture->store, 4, 3, 1);
	assert_clean(fixture->store);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(units_are_zero_and_in_a_row),
		TEST(freed_units_are_used_again_and_empty),
		TEST(pinned_units_stay),
		TEST(rolled_back_units_keep_their_file),
		TEST(free_units_are_remembered),
		TEST(empty_extent_file_goes),
		TEST(unit_put_twice_is_not_freed),
		TEST(truncated_file_has_holes),
		TEST(units_no_commit_named_are_garbage),
		TEST(crash_forgets_no_free_unit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
