/* gate_test.c - records packed, written, read back and verified, over a store in memory. */
#include "base/clock.h"
#include "base/mem.h"
#include "gate/gate.h"
#include "store/store.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- a store that keeps rows of audit only ---- */

#define ROWS 64

struct row {
	uint64_t first, last;
	int64_t at;
	unsigned char *bytes;
	size_t len;
	unsigned char hash[32];
};

struct store {
	struct row rows[ROWS];
	size_t count;
	int fail; /* what the next put answers */
};

int store_put_audit(struct store *store, uint64_t first, uint64_t last, int64_t at,
		    struct span records, const unsigned char hash[32])
{
	struct row *row = &store->rows[store->count];

	if (store->fail)
		return store->fail;
	assert_true(store->count < ROWS);
	*row = (struct row){first, last, at, mem_dup(records.data, records.len), records.len, {0}};
	memcpy(row->hash, hash, sizeof(row->hash));
	store->count++;
	return 0;
}

int store_each_audit(struct store *store, uint64_t after,
		     int (*fn)(void *arg, uint64_t first, uint64_t last, struct span records,
			       const unsigned char hash[32]),
		     void *arg)
{
	int r = 0;

	for (size_t i = 0; i < store->count && r == 0; i++) {
		const struct row *row = &store->rows[i];

		if (row->last > after)
			r = fn(arg, row->first, row->last, span_of(row->bytes, row->len),
			       row->hash);
	}
	return r;
}

void store_get_info(struct store *store, struct store_info *ret_info)
{
	*ret_info = (struct store_info){0};
	if (!store->count)
		return;
	ret_info->audit_seq = store->rows[store->count - 1].last;
	memcpy(ret_info->audit_hash, store->rows[store->count - 1].hash, 32);
}

static void store_clear(struct store *store)
{
	for (size_t i = 0; i < store->count; i++)
		free(store->rows[i].bytes);
	store->count = 0;
}

/* ---- helpers ---- */

static const unsigned char zeros[32];

static struct gate_record a_record(enum gate_op op, int64_t ino, const char *name)
{
	return (struct gate_record){
		.op = op,
		.who = {.uid = 1000,
			.gid = 100,
			.pid = 77,
			.actor = "cli",
			.backend = "direct",
			.exec = ""},
		.parent = 1,
		.ino = ino,
		.name = span_str(name),
	};
}

static void record(struct gate *gate, enum gate_op op, int64_t ino, const char *name)
{
	struct gate_record one = a_record(op, ino, name);

	gate_record(gate, &one);
}

static void record_write(struct gate *gate, int64_t ino, int64_t offset, int64_t size, int32_t pid)
{
	struct gate_record one = a_record(GATE_WRITE, ino, "");

	one.who.pid = pid;
	one.offset = offset;
	one.size = size;
	gate_record(gate, &one);
}

static void flush(struct gate *gate, struct store *store)
{
	struct gate_batch *batch = gate_take(gate);

	assert_non_null(batch);
	assert_int_equal(gate_batch_write(batch, store), 0);
	gate_batch_free(batch);
}

/* The records as text, one per line. */
static int as_text(void *arg, const struct gate_record *record)
{
	char *text = arg;
	size_t len = strlen(text);

	snprintf(text + len, 8192 - len,
		 "%d %s %s/%s/%s %u %u %d %lld,%lld,%lld %.*s,%.*s %lld+%lld\n", (int)record->seq,
		 gate_op_name(record->op), record->who.actor, record->who.backend, record->who.exec,
		 record->who.uid, record->who.gid, record->who.pid, (long long)record->parent,
		 (long long)record->ino, (long long)record->parent2, (int)record->name.len,
		 record->name.data ? record->name.data : "", (int)record->name2.len,
		 record->name2.data ? record->name2.data : "", (long long)record->offset,
		 (long long)record->size);
	return 0;
}

static int count_records(void *arg, const struct gate_record *record)
{
	uint64_t *count = arg;

	assert_int_equal(record->seq, ++*count);
	return 0;
}

/* ---- the table ---- */

static void operations_are_sorted_and_have_their_own_numbers(void **state)
{
	static const struct {
		const char *name;
		int number;
	} rows[] = {
#define OP(name, number, text) {text, number},
#include "gate/ops.def"
#undef OP
	};
	uint64_t seen = 1;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_in_range(rows[i].number, 1, GATE_OPS - 1);
		assert_false(seen >> rows[i].number & 1);
		seen |= 1ull << rows[i].number;
		assert_true(i == 0 || strcmp(rows[i - 1].name, rows[i].name) < 0);
		assert_int_equal(gate_op_find(rows[i].name), rows[i].number);
		assert_string_equal(gate_op_name((enum gate_op)rows[i].number), rows[i].name);
	}
	assert_int_equal(gate_op_find("nothing"), GATE_OPS);
	assert_string_equal(gate_op_name(GATE_OPS), "unknown");
	assert_string_equal(gate_op_name((enum gate_op)0), "unknown");
}

/* ---- there and back ---- */

static void records_come_back_as_they_were(void **state)
{
	struct gate *gate = gate_new(0, zeros);
	struct store store = {0};
	char text[8192] = "";
	struct gate_record one = a_record(GATE_RENAME, INT64_MAX, "old\nname");
	uint64_t records;

	(void)state;
	record(gate, GATE_CREATE, 2, "a");
	one.parent2 = 5;
	one.name2 = SPAN("new");
	one.who = (struct gate_who){UINT32_MAX, 0, -1, "mount", "fuse", "exec-1"};
	gate_record(gate, &one);
	one = (struct gate_record){
		.op = GATE_SNAPSHOT, .name = SPAN("s"), .offset = -7, .size = INT64_MIN};
	gate_record(gate, &one);
	record_write(gate, 2, 100, 50, 77);
	record(gate, GATE_UNLINK, 2, "a");
	flush(gate, &store);
	assert_int_equal(store.count, 1);
	assert_int_equal(store.rows[0].first, 1);
	assert_int_equal(store.rows[0].last, 5);
	assert_int_equal(gate_each(&store, 0, as_text, text), 0);
	assert_string_equal(text, "1 create cli/direct/ 1000 100 77 1,2,0 a, 0+0\n"
				  "2 rename mount/fuse/exec-1 4294967295 0 -1 "
				  "1,9223372036854775807,5 old\nname,new 0+0\n"
				  "3 snapshot // 0 0 0 0,0,0 s, -7+-9223372036854775808\n"
				  "4 write cli/direct/ 1000 100 77 1,2,0 , 100+50\n"
				  "5 unlink cli/direct/ 1000 100 77 1,2,0 a, 0+0\n");
	text[0] = '\0';
	assert_int_equal(gate_each(&store, 4, as_text, text), 0);
	assert_string_equal(text, "5 unlink cli/direct/ 1000 100 77 1,2,0 a, 0+0\n");
	assert_int_equal(gate_verify(&store, &records, NULL), 0);
	assert_int_equal(records, 5);
	assert_null(gate_take(gate));
	gate_free(gate);
	store_clear(&store);
}

static int expect_now(void *arg, const struct gate_record *record)
{
	const int64_t *begin = arg;

	/* The coarse clock is behind by at most a tick. */
	assert_true(record->at >= *begin - 20000000 && record->at <= clock_now());
	return 42;
}

static void a_record_knows_its_time(void **state)
{
	struct gate *gate = gate_new(0, zeros);
	struct store store = {0};
	int64_t begin = clock_now();

	(void)state;
	record(gate, GATE_CREATE, 2, "a");
	flush(gate, &store);
	assert_int_equal(gate_each(&store, 0, expect_now, &begin), 42);
	gate_free(gate);
	store_clear(&store);
}

static void a_small_record_is_small(void **state)
{
	struct gate *gate = gate_new(0, zeros);
	struct store store = {0};

	(void)state;
	for (int i = 0; i < 1000; i++)
		record(gate, GATE_UNLINK, 100000 + i, "file-0001");
	flush(gate, &store);
	assert_true(store.rows[0].len < 24000);
	gate_free(gate);
	store_clear(&store);
}

static void strings_too_long_are_cut(void **state)
{
	CLEANUP(mem_free) char *name = mem_alloc0(GATE_NAME_MAX + 11);
	struct gate *gate = gate_new(0, zeros);
	struct gate_record one = a_record(GATE_EXEC, 0, "");
	struct store store = {0};
	uint64_t count = 0;

	(void)state;
	memset(name, 'x', GATE_NAME_MAX + 10);
	one.name = one.name2 = span_of(name, GATE_NAME_MAX + 10);
	one.who.actor = one.who.backend = one.who.exec = name;
	for (int i = 0; i < 3; i++)
		gate_record(gate, &one);
	one.who.actor = NULL;
	gate_record(gate, &one);
	flush(gate, &store);
	assert_int_equal(gate_each(&store, 0, count_records, &count), 0);
	assert_int_equal(count, 4);
	gate_free(gate);
	store_clear(&store);
}

static void more_askers_than_numbers_are_all_kept(void **state)
{
	struct gate *gate = gate_new(0, zeros);
	struct store store = {0};
	uint64_t count = 0, records;
	char exec[32];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct gate_record one = a_record(GATE_CREATE, i + 2, "n");

		snprintf(exec, sizeof(exec), "exec-%d", i % 100);
		one.who.pid = i % 1500;
		one.who.exec = exec;
		gate_record(gate, &one);
	}
	flush(gate, &store);
	assert_int_equal(gate_each(&store, 0, count_records, &count), 0);
	assert_int_equal(count, 3000);
	assert_int_equal(gate_verify(&store, &records, NULL), 0);
	gate_free(gate);
	store_clear(&store);
}

static int expect_exec(void *arg, const struct gate_record *record)
{
	char want[32];

	(void)arg;
	snprintf(want, sizeof(want), "exec-%d", (int)(record->ino - 2) % 100);
	assert_string_equal(record->who.exec, want);
	assert_int_equal(record->who.pid, (record->ino - 2) % 1500);
	return 0;
}

static void every_record_keeps_its_own_asker(void **state)
{
	struct gate *gate = gate_new(0, zeros);
	struct store store = {0};
	char exec[32];

	(void)state;
	for (int i = 0; i < 6000; i++) {
		struct gate_record one = a_record(GATE_CREATE, i + 2, "n");

		snprintf(exec, sizeof(exec), "exec-%d", i % 100);
		one.who.pid = i % 1500;
		one.who.exec = exec; /* the same memory, other text */
		gate_record(gate, &one);
	}
	flush(gate, &store);
	assert_int_equal(gate_each(&store, 0, expect_exec, NULL), 0);
	gate_free(gate);
	store_clear(&store);
}

/* ---- writes that grow ---- */

static void writes_to_one_file_are_one_record(void **state)
{
	struct gate *gate = gate_new(0, zeros);
	struct store store = {0};
	char text[8192] = "";

	(void)state;
	record_write(gate, 2, 4096, 4096, 77);
	record_write(gate, 2, 8192, 4096, 77);
	record_write(gate, 3, 0, 10, 77);
	record_write(gate, 2, 0, 1, 77);
	record_write(gate, 2, 0, 1, 78); /* another process */
	record(gate, GATE_UNLINK, 9, "x");
	record_write(gate, 3, 5, 100, 77);
	flush(gate, &store);
	record_write(gate, 3, 5, 100, 77);
	flush(gate, &store);
	assert_int_equal(gate_each(&store, 0, as_text, text), 0);
	assert_string_equal(text, "1 write cli/direct/ 1000 100 77 1,2,0 , 0+12288\n"
				  "2 write cli/direct/ 1000 100 77 1,3,0 , 0+105\n"
				  "3 write cli/direct/ 1000 100 78 1,2,0 , 0+1\n"
				  "4 unlink cli/direct/ 1000 100 77 1,9,0 x, 0+0\n"
				  "5 write cli/direct/ 1000 100 77 1,3,0 , 5+100\n");
	gate_free(gate);
	store_clear(&store);
}

static void writes_to_many_files_are_all_recorded(void **state)
{
	struct gate *gate = gate_new(0, zeros);
	struct store store = {0};
	uint64_t count = 0;

	(void)state;
	for (int i = 0; i < 300; i++)
		record_write(gate, 2 + i % 100, i, 1, 77);
	flush(gate, &store);
	assert_int_equal(gate_each(&store, 0, count_records, &count), 0);
	assert_in_range(count, 100, 300);
	gate_free(gate);
	store_clear(&store);
}

/* ---- failed commits ---- */

static void a_failed_commit_loses_no_record(void **state)
{
	struct gate *gate = gate_new(0, zeros);
	struct store store = {0};
	struct gate_batch *batch;
	uint64_t count = 0, records;

	(void)state;
	record(gate, GATE_CREATE, 2, "a");
	flush(gate, &store);
	record_write(gate, 2, 0, 10, 77);
	batch = gate_take(gate);
	store.fail = -ENOSPC;
	assert_int_equal(gate_batch_write(batch, &store), -ENOSPC);
	record_write(gate, 2, 10, 10, 77); /* while it was out */
	gate_put_back(gate, batch);
	record(gate, GATE_UNLINK, 2, "a");
	store.fail = 0;

	/* Written, but the commit that should keep it failed. */
	batch = gate_take(gate);
	assert_int_equal(gate_batch_write(batch, &store), 0);
	free(store.rows[2].bytes);
	free(store.rows[1].bytes);
	store.count = 1;
	gate_put_back(gate, batch);
	record(gate, GATE_MKDIR, 3, "d");
	flush(gate, &store);
	record(gate, GATE_RMDIR, 3, "d");
	flush(gate, &store);

	assert_int_equal(gate_each(&store, 0, count_records, &count), 0);
	assert_int_equal(count, 6);
	assert_int_equal(gate_verify(&store, &records, NULL), 0);
	assert_int_equal(records, 6);
	gate_free(gate);
	store_clear(&store);
}

static void what_cannot_be_recorded_may_not_happen(void **state)
{
	static const struct gate_who who = {.actor = "", .backend = "", .exec = ""};
	CLEANUP(mem_free) char *name = mem_alloc0(GATE_NAME_MAX);
	struct gate *gate = gate_new(0, zeros);
	struct gate_record one = a_record(GATE_EXEC, 0, "");
	struct gate_batch *batch;
	int n = 0;

	(void)state;
	memset(name, 'x', GATE_NAME_MAX);
	one.name = one.name2 = span_of(name, GATE_NAME_MAX);
	while (gate_ask(gate, &who, GATE_CREATE, 1, SPAN("x")) == 0 && n < 100000) {
		gate_record(gate, &one);
		n++;
	}
	assert_in_range(n, 8000, 9000);
	assert_int_equal(gate_ask(gate, &who, GATE_CREATE, 1, SPAN("x")), -ENOSPC);
	assert_int_equal(gate_ask(gate, &who, GATE_READ, 1, SPAN_EMPTY), 0);
	assert_int_equal(gate_ask(gate, &who, GATE_OPEN, 1, SPAN_EMPTY), 0);
	batch = gate_take(gate);
	assert_int_equal(gate_ask(gate, &who, GATE_CREATE, 1, SPAN("x")), 0);
	gate_put_back(gate, batch);
	assert_int_equal(gate_ask(gate, &who, GATE_CREATE, 1, SPAN("x")), -ENOSPC);
	gate_free(gate);
}

static void many_records_are_several_rows(void **state)
{
	CLEANUP(mem_free) char *name = mem_alloc0(GATE_NAME_MAX);
	struct gate *gate = gate_new(0, zeros);
	struct gate_record one = a_record(GATE_EXEC, 0, "");
	struct store store = {0};
	uint64_t count = 0, records;

	(void)state;
	memset(name, 'x', GATE_NAME_MAX);
	one.name = span_of(name, GATE_NAME_MAX);
	for (int i = 0; i < 700; i++)
		gate_record(gate, &one);
	flush(gate, &store);
	assert_int_equal(store.count, 3);
	assert_int_equal(gate_each(&store, 0, count_records, &count), 0);
	assert_int_equal(count, 700);
	assert_int_equal(gate_verify(&store, &records, NULL), 0);
	assert_int_equal(records, 700);
	gate_free(gate);
	store_clear(&store);
}

static void a_gate_goes_on_where_the_last_one_ended(void **state)
{
	struct gate *gate = gate_new(0, zeros);
	struct store store = {0};
	struct store_info info;
	uint64_t records;

	(void)state;
	record(gate, GATE_CREATE, 2, "a");
	flush(gate, &store);
	record(gate, GATE_CREATE, 3, "lost"); /* never flushed */
	gate_free(gate);
	store_get_info(&store, &info);
	gate = gate_new(info.audit_seq, info.audit_hash);
	record(gate, GATE_CREATE, 3, "b");
	flush(gate, &store);
	assert_int_equal(gate_verify(&store, &records, NULL), 0);
	assert_int_equal(records, 2);
	gate_free(gate);
	store_clear(&store);
}

/* ---- damage ---- */

static void fill(struct store *store)
{
	struct gate *gate = gate_new(0, zeros);

	for (int row = 0; row < 3; row++) {
		record(gate, GATE_CREATE, 2 + row, "name");
		record_write(gate, 2 + row, 0, 100, 77);
		flush(gate, store);
	}
	gate_free(gate);
}

static void every_changed_bit_is_found(void **state)
{
	struct store store = {0};
	uint64_t records;

	(void)state;
	fill(&store);
	assert_int_equal(gate_verify(&store, &records, NULL), 0);
	for (size_t i = 0; i < store.rows[1].len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			struct err err = ERR_INIT;

			store.rows[1].bytes[i] ^= (unsigned char)(1 << bit);
			assert_int_equal(gate_verify(&store, &records, &err), -EUCLEAN);
			assert_int_equal(err.code, EUCLEAN);
			assert_non_null(strstr(err.text, "records 3 to 4"));
			store.rows[1].bytes[i] ^= (unsigned char)(1 << bit);
		}
	}
	assert_int_equal(gate_verify(&store, &records, NULL), 0);
	store_clear(&store);
}

static void missing_and_swapped_rows_are_found(void **state)
{
	struct store store = {0};
	struct row keep;
	uint64_t records;
	struct err err = ERR_INIT;

	(void)state;
	fill(&store);
	keep = store.rows[1];
	store.rows[1] = store.rows[2];
	store.count = 2;
	assert_int_equal(gate_verify(&store, &records, &err), -EUCLEAN);
	assert_string_equal(err.text, "audit: record 3 is missing, 5 follows 2");
	store.rows[2] = keep;
	store.count = 3;
	assert_int_equal(gate_verify(&store, &records, &err), -EUCLEAN);
	store.rows[2] = store.rows[1];
	store.rows[1] = keep;
	assert_int_equal(gate_verify(&store, &records, &err), 0);
	store.rows[0].hash[31] ^= 1;
	assert_int_equal(gate_verify(&store, &records, &err), -EUCLEAN);
	store_clear(&store);
}

static int nothing(void *arg, const struct gate_record *record)
{
	(void)arg;
	return record->name.len > GATE_NAME_MAX;
}

static void cut_rows_are_refused(void **state)
{
	struct store store = {0};

	(void)state;
	fill(&store);
	for (size_t len = 0; len < store.rows[0].len; len++) {
		CLEANUP(mem_free) unsigned char *copy = mem_dup(store.rows[0].bytes, len);

		assert_int_equal(gate_decode(1, 2, span_of(copy, len), nothing, NULL), -EUCLEAN);
	}
	assert_int_equal(
		gate_decode(1, 2, span_of(store.rows[0].bytes, store.rows[0].len), nothing, NULL),
		0);
	assert_int_equal(
		gate_decode(1, 3, span_of(store.rows[0].bytes, store.rows[0].len), nothing, NULL),
		-EUCLEAN);
	assert_int_equal(
		gate_decode(2, 2, span_of(store.rows[0].bytes, store.rows[0].len), nothing, NULL),
		-EUCLEAN);
	store_clear(&store);
}

static void garbage_is_refused(void **state)
{
	uint64_t seed = 1;
	unsigned char bytes[96];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t len = 2 + seed % (sizeof(bytes) - 2);
		CLEANUP(mem_free) unsigned char *copy = NULL;

		for (size_t i = 0; i < len; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			bytes[i] = (unsigned char)(seed >> 56);
		}
		bytes[0] = (unsigned char)(len - 2);
		bytes[1] = 0;
		bytes[2] = 3; /* an operation there is */
		copy = mem_dup(bytes, len);
		(void)!gate_decode(1, 1, span_of(copy, len), nothing, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_are_sorted_and_have_their_own_numbers),
		cmocka_unit_test(records_come_back_as_they_were),
		cmocka_unit_test(a_record_knows_its_time),
		cmocka_unit_test(a_small_record_is_small),
		cmocka_unit_test(strings_too_long_are_cut),
		cmocka_unit_test(more_askers_than_numbers_are_all_kept),
		cmocka_unit_test(every_record_keeps_its_own_asker),
		cmocka_unit_test(writes_to_one_file_are_one_record),
		cmocka_unit_test(writes_to_many_files_are_all_recorded),
		cmocka_unit_test(a_failed_commit_loses_no_record),
		cmocka_unit_test(what_cannot_be_recorded_may_not_happen),
		cmocka_unit_test(many_records_are_several_rows),
		cmocka_unit_test(a_gate_goes_on_where_the_last_one_ended),
		cmocka_unit_test(every_changed_bit_is_found),
		cmocka_unit_test(missing_and_swapped_rows_are_found),
		cmocka_unit_test(cut_rows_are_refused),
		cmocka_unit_test(garbage_is_refused),
	};

	return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
