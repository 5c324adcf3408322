/* gate_store_test.c - the audit in a real workspace: through commits, snapshots and restores. */
#include "base/buf.h"
#include "gate/gate.h"
#include "store/store.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
	char dir[64], path[80];
	struct store *store;
	struct gate *gate;
};

static void world_open(struct world *world, unsigned flags)
{
	struct store_info info;
	struct err err = ERR_INIT;

	if (store_open(world->path, flags, &world->store, &err) < 0)
		fail_msg("%s", err.text);
	store_get_info(world->store, &info);
	world->gate = gate_new(info.audit_seq, info.audit_hash);
}

static void world_close(struct world *world)
{
	gate_free(world->gate);
	store_close(world->store);
}

static void world_init(struct world *world)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(world->dir, sizeof(world->dir), "%s/gate-test-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(world->dir));
	snprintf(world->path, sizeof(world->path), "%s/w.db", world->dir);
	world_open(world, STORE_CREATE);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void world_clear(struct world *world)
{
	world_close(world);
	nftw(world->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void record(struct world *world, int64_t ino)
{
	const struct gate_record one = {
		.op = GATE_CREATE,
		.who = {.uid = 7, .actor = "test", .backend = "direct", .exec = ""},
		.parent = 1,
		.ino = ino,
		.name = SPAN("name"),
	};

	gate_record(world->gate, &one);
}

/* One transaction; `good` false: it is undone. */
static void flush(struct world *world, bool good)
{
	struct gate_batch *batch = gate_take(world->gate);

	assert_non_null(batch);
	assert_int_equal(store_begin(world->store), 0);
	assert_int_equal(gate_batch_write(batch, world->store), 0);
	if (good) {
		assert_int_equal(store_commit(world->store, false), 0);
		gate_batch_free(batch);
	} else {
		store_rollback(world->store);
		gate_put_back(world->gate, batch);
	}
}

static int in_order(void *arg, const struct gate_record *record)
{
	uint64_t *count = arg;

	assert_int_equal(record->seq, ++*count);
	assert_int_equal(record->ino, 100 + *count);
	assert_string_equal(record->who.actor, "test");
	return 0;
}

static void expect_records(struct world *world, uint64_t want)
{
	struct err err = ERR_INIT;
	uint64_t count = 0, records;

	assert_int_equal(gate_each(world->store, 0, in_order, &count), 0);
	assert_int_equal(count, want);
	if (gate_verify(world->store, &records, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(records, want);
}

static void records_survive_closing_and_undone_transactions(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	record(&world, 101);
	record(&world, 102);
	flush(&world, true);
	record(&world, 103);
	flush(&world, false);
	record(&world, 104);
	flush(&world, true);
	expect_records(&world, 4);
	world_close(&world);
	world_open(&world, 0);
	record(&world, 105);
	flush(&world, true);
	expect_records(&world, 5);
	world_clear(&world);
}

static void the_chain_goes_on_through_layers(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	record(&world, 101);
	flush(&world, true);
	assert_int_equal(store_snapshot(world.store, "s", NULL), 0);
	record(&world, 102);
	flush(&world, true);
	assert_int_equal(store_restore(world.store, "s", NULL, NULL), 0);
	record(&world, 103);
	flush(&world, true);
	expect_records(&world, 3);
	world_close(&world);
	world_open(&world, 0);
	expect_records(&world, 3);
	record(&world, 104);
	flush(&world, true);
	assert_int_equal(store_snapshot(world.store, "t", NULL), 0);
	expect_records(&world, 4);
	world_clear(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_survive_closing_and_undone_transactions),
		cmocka_unit_test(the_chain_goes_on_through_layers),
	};

	return cmocka_run_group_tests_name("gate-store", tests, NULL, NULL);
}
