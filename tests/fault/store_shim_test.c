/* store_shim_test.c - for every n: the n-th write, sync or truncation of a workspace's life fails,
 * or is the last. What is found afterwards is clean, and a state that was committed. */
#include "fixture.h"
#include "store_shim.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define VALUES_MAX 64

/*
 * What the child did, in memory that it shares. Every state is one number, which all rows of a
 * transaction carry. After a death the state is one of value[safe..count-1]: `safe` is the last
 * that was promised.
 */
struct notes {
	int value[VALUES_MAX];
	int count, safe;
	bool fired;
};

static struct notes *notes;

/* ---- a state: all of it says the same number ---- */

static void name_of(int value, char text[16])
{
	snprintf(text, 16, "n%d", value);
}

static int write_state(struct store *store, int old, int value, bool durable)
{
	struct store_node node = node_file(2, 0), large = node_large(4, 1);
	unsigned char byte = (unsigned char)value;
	char name[16], old_name[16];
	int64_t pos;
	int r;

	name_of(value, name);
	name_of(old, old_name);
	if (store_data_alloc(store, 1, &pos) != 1)
		return -EIO;
	r = store_data_write(store, pos, 0, &byte, 1);
	if (r == 0)
		r = store_begin(store);
	if (r < 0) {
		store_data_free(store, pos, 1);
		return r;
	}
	node.size = (int64_t)strlen(name);
	r = store_put_node(store, &node);
	if (r == 0)
		r = store_put_node(store, &large);
	if (r == 0 && old)
		r = store_del_dirent(store, STORE_ROOT, span_str(old_name));
	if (r == 0)
		r = store_put_dirent(store, STORE_ROOT, span_str(name), 2);
	if (r == 0)
		r = store_put_inline(store, 2, span_str(name));
	if (r == 0)
		r = store_put_meta(store, "value", span_str(name));
	if (r == 0)
		r = store_put_dirent(store, STORE_ROOT, SPAN("large"), 4);
	if (r == 0)
		r = store_put_unit(store, 4, 0, pos);
	if (r == 0)
		r = store_put_counters(store, 5, (uint64_t)node.size + STORE_UNIT, 3);
	if (r == 0)
		return store_commit(store, durable);
	store_rollback(store);
	return r;
}

/* The number, or -EUCLEAN when it is not everywhere the same. */
static int read_state(struct store *store)
{
	CLEANUP(buf_clear) struct buf content = BUF_INIT(64);
	struct store_unit unit;
	unsigned char byte = 0;
	char name[16];
	int64_t ino;
	int r = store_get_units(store, 4, 0, 1, &unit);

	if (r == 0)
		r = store_data_read(store, unit, 0, &byte, 1);
	if (r == 0)
		r = store_get_inline(store, 2, &content);
	if (r < 0)
		return r;
	name_of(byte, name);
	if (byte == 0)
		return content.len == 0 ? 0 : -EUCLEAN;
	if (strcmp(content.data, name) != 0 ||
	    store_get_dirent(store, STORE_ROOT, span_str(name), &ino) < 0)
		return -EUCLEAN;
	return byte;
}

/* ---- the child ---- */

/* Note what will be, do it, and find out what is. */
static void begin_step(int value)
{
	notes->value[notes->count++] = value;
}

static int end_step(struct store *store, int r, bool promised)
{
	int now = read_state(store);

	if (now < 0 || (r == 0 && now != notes->value[notes->count - 1]))
		_exit(2); /* what it says it did it did not do */
	if (r < 0 && !shim_fired())
		_exit(3); /* nothing was wrong */
	notes->value[notes->count++] = now;
	if (promised && r == 0)
		notes->safe = notes->count - 1;
	return now;
}

static int set(struct store *store, int now, int value, bool durable, bool power)
{
	begin_step(value);
	return end_step(store, write_state(store, now, value, durable), durable || !power);
}

static void work(struct fixture *fixture, bool power)
{
	struct store *store = NULL;
	int now, r;

	if (store_open(fixture->path, 0, &store, NULL) < 0) {
		/* Failing is allowed, as is anything but damage. */
		if (!shim_fired())
			_exit(3);
		store = open_at(fixture->path, 0);
	}
	now = set(store, read_state(store), 2, false, power);
	now = set(store, now, 3, true, power);
	now = set(store, now, 4, false, power);
	begin_step(now);
	now = end_step(store, store_sync(store), true);
	begin_step(now);
	now = end_step(store, store_snapshot(store, "s1", NULL), true);
	r = now;
	now = set(store, now, 5, false, power);
	(void)set(store, now, 6, true, power);
	store_release_memory(store);
	begin_step(r);
	now = end_step(store, store_restore(store, "s1", "kept", NULL), true);
	now = set(store, now, 7, false, power);
	begin_step(now);
	now = end_step(store, store_delete_snapshot(store, "kept", NULL), true);
	(void)set(store, now, 8, false, power);
	begin_step(read_state(store));
	store_close(store);
	notes->safe = notes->count - 1;
	notes->fired = shim_fired();
}

/* ---- the parent ---- */

static int print_state(void *arg, const struct store_snapshot *snapshot)
{
	struct store *store = arg, *old = NULL;

	OK(store_open_snapshot(store, snapshot->name, &old, NULL));
	assert_clean(old);
	assert_true(read_state(old) >= 0);
	store_close(old);
	return 0;
}

static void look(struct fixture *fixture, enum shim_mode mode, int n)
{
	bool found = false;
	int now;

	fixture->store = open_at(fixture->path, 0);
	assert_clean(fixture->store);
	now = read_state(fixture->store);
	for (int i = notes->safe; i < notes->count; i++)
		found |= notes->value[i] == now;
	if (!found)
		fail_msg("mode %d, n %d: state %d was never promised", (int)mode, n, now);
	OK(store_each_snapshot(fixture->store, print_state, fixture->store));
	OK(write_state(fixture->store, now, 99, true)); /* and it goes on */
	assert_int_equal(read_state(fixture->store), 99);
	assert_clean(fixture->store);
}

static void every_n(void **state, enum shim_mode mode)
{
	struct fixture *start = *state;
	bool fired = true;
	int n;

	OK(write_state(start->store, 0, 1, true));
	store_close(start->store);
	start->store = NULL;
	/* A full disk takes the path of an I/O error with another number: a sample does. */
	for (n = 0; fired; n += mode == SHIM_FULL ? 4 : 1) {
		struct fixture *fixture = fixture_new();
		int status;
		pid_t pid;

		assert_true(n < 2000);
		copy_tree(start->dir, fixture->dir);
		*notes = (struct notes){.value = {1}, .count = 1, .fired = true};
		pid = fork();
		if (pid == 0) {
			shim_register();
			shim_arm(mode, n);
			work(fixture, mode == SHIM_LOSE);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || (WEXITSTATUS(status) && WEXITSTATUS(status) != SHIM_DIED))
			fail_msg("mode %d, n %d: status %x after %d states", (int)mode, n, status,
				 notes->count);
		fired = notes->fired;
		look(fixture, mode, n);
		fixture_teardown((void **)&fixture);
	}
	print_message("# %d places\n", n);
	assert_true(n > 40); /* it had something to fail */
}

static void an_io_error(void **state)
{
	every_n(state, SHIM_FAIL);
}

static void a_full_disk(void **state)
{
	every_n(state, SHIM_FULL);
}

static void a_torn_write(void **state)
{
	every_n(state, SHIM_TEAR);
}

static void a_power_cut(void **state)
{
	every_n(state, SHIM_LOSE);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(an_io_error),
		TEST(a_full_disk),
		TEST(a_torn_write),
		TEST(a_power_cut),
	};

	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (notes == MAP_FAILED)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
