/* threads_test.c - a reader, a writer, one who merges and one who moves bytes, all at once. */
#include "fixture.h"

#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define COMMITS 150
#define FIRST_INO 500

/* Asserts of cmocka jump, which only its own thread may do: the others count what is wrong. */
struct shared {
	struct store *store;
	_Atomic bool stop;
	_Atomic int wrong, reads;
};

static bool whole(const char *bytes, size_t len)
{
	for (size_t i = 1; i < len; i++) {
		if (bytes[i] != bytes[0])
			return false;
	}
	return true;
}

/* Units that are looked up under a pin hold what they held. */
static void read_large(struct shared *shared, int64_t ino, char *bytes)
{
	struct store_unit unit[2];

	store_data_pin(shared->store);
	shared->wrong += store_get_units(shared->store, ino, 0, 2, unit) < 0;
	for (int i = 0; i < 2; i++) {
		if (store_data_read(shared->store, unit[i], 0, bytes, STORE_UNIT) < 0 ||
		    !whole(bytes, STORE_UNIT) || (unit[i].pos != STORE_HOLE && !bytes[0]))
			shared->wrong++;
	}
	store_data_unpin(shared->store);
}

static int read_entry(void *arg, struct span name, const struct store_node *node)
{
	struct shared *shared = arg;

	shared->wrong += name.len == 0 || node->ino == 0;
	shared->reads++;
	return 0;
}

static void *reader(void *arg)
{
	struct shared *shared = arg;
	CLEANUP(mem_free) char *bytes = mem_alloc(STORE_UNIT);
	struct store_info info;
	struct store_node node;

	while (!shared->stop) {
		int r = store_each_dirent_node(shared->store, STORE_ROOT, read_entry, shared);

		shared->wrong += r < 0;
		for (int64_t ino = FIRST_INO; ino < FIRST_INO + COMMITS && !shared->stop; ino++) {
			r = store_get_node(shared->store, ino, &node);
			shared->wrong += r < 0 && r != -ENOENT;
			read_large(shared, ino, bytes);
		}
		store_get_info(shared->store, &info);
	}
	return NULL;
}

static void *merger(void *arg)
{
	struct shared *shared = arg;

	shared->wrong += store_prepare_merge(shared->store, NULL) < 0;
	return NULL;
}

static void *mover(void *arg)
{
	struct shared *shared = arg;
	CLEANUP(mem_free) char *bytes = mem_alloc0(STORE_UNIT);

	while (!shared->stop) {
		struct store_unit unit = {.layer = 0};
		ssize_t n = store_data_alloc(shared->store, 3, &unit.pos);
		char byte = 1;

		if (n < 1 || store_data_read(shared->store, unit, 7, &byte, 1) < 0 || byte) {
			shared->wrong++;
			break;
		}
		memset(bytes, 9, STORE_UNIT);
		if (store_data_write(shared->store, unit.pos, 0, bytes, STORE_UNIT) < 0 ||
		    store_data_sync(shared->store) < 0)
			shared->wrong++;
		store_data_free(shared->store, unit.pos, (size_t)n);
	}
	return NULL;
}

/* Each commit makes a file, and every second one removes an older. */
static void write_rounds(struct store *store)
{
	for (int i = 0; i < COMMITS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		add_large(store, name, FIRST_INO + i, 2, 1 + i % 100);
		if (i % 2) {
			snprintf(name, sizeof(name), "f%d", i / 2);
			OK(store_begin(store));
			OK(store_del_dirent(store, STORE_ROOT, span_str(name)));
			OK(store_del_node(store, FIRST_INO + i / 2));
			OK(store_commit(store, i % 20 == 1));
		}
	}
}

static void everybody_at_once(void **state)
{
	struct fixture *fixture = *state;
	struct shared shared = {.store = fixture->store};
	pthread_t threads[3];

	deepen(fixture->store, 10);
	OK(pthread_create(&threads[0], NULL, merger, &shared));
	OK(pthread_create(&threads[1], NULL, mover, &shared));
	OK(pthread_create(&threads[2], NULL, reader, &shared));
	write_rounds(fixture->store);
	shared.stop = true;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		OK(pthread_join(threads[i], NULL));
	assert_int_equal(shared.wrong, 0);
	assert_true(shared.reads > 0);
	while (store_maintain(fixture->store, NULL) == 1)
		;
	put_right_counters(fixture->store);
	assert_clean(fixture->store);
	fixture_reopen(fixture);
	assert_units(fixture->store, 101, 3, 1);
	assert_clean(fixture->store);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(everybody_at_once, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
