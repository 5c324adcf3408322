/* history_test.c - random histories of changes, snapshots, restores, forks and merges, beside a
 * model in memory. SEED=n repeats one; HISTORY=n makes it longer. */
#include "fixture.h"

#include "base/mem.h"
#include "base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define FILES 12  /* slots of the model, one name each */
#define UNITS 5   /* of a large file */
#define STATES 10 /* snapshots */

/* One file as it should be. */
struct file {
	int64_t ino; /* 0: not there */
	bool large;
	char text[24];
	unsigned char unit[UNITS]; /* what each unit is filled with; 0: a hole */
	char attribute[8];         /* "": none */
};

struct model {
	struct file file[FILES];
	uint64_t audit;
};

struct world {
	struct fixture *fixture;
	struct store *store;
	struct model now;
	struct model states[STATES]; /* of the snapshot of that number */
	bool taken[STATES];
	int64_t next_ino;
	uint64_t seed;
	int merges;
};

static uint32_t pick(struct world *world, uint32_t below)
{
	world->seed = world->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(world->seed >> 33) % below;
}

static void name_of(int slot, char text[16])
{
	snprintf(text, 16, "f%02d", slot);
}

/* ---- changes ---- */

static struct store_node row_of(const struct file *file)
{
	struct store_node node;
	int64_t units = 0;

	if (!file->large)
		return node_file(file->ino, (int64_t)strlen(file->text));
	for (int i = 0; i < UNITS; i++)
		units += file->unit[i] != 0;
	node = node_large(file->ino, units);
	node.size = (int64_t)UNITS * STORE_UNIT;
	return node;
}

static void put_bytes(struct world *world, struct file *file, int idx)
{
	CLEANUP(mem_free) char *bytes = mem_alloc(STORE_UNIT);
	int64_t pos;

	if (pick(world, 4) == 0) {
		file->unit[idx] = 0;
		OK(store_put_unit(world->store, file->ino, idx, STORE_HOLE));
		return;
	}
	file->unit[idx] = (unsigned char)(1 + pick(world, 255));
	memset(bytes, file->unit[idx], STORE_UNIT);
	assert_int_equal(store_data_alloc(world->store, 1, &pos), 1);
	OK(store_data_write(world->store, pos, 0, bytes, STORE_UNIT));
	OK(store_put_unit(world->store, file->ino, idx, pos));
}

static void make_file(struct world *world, int slot)
{
	struct file *file = &world->now.file[slot];
	char name[16];

	name_of(slot, name);
	*file = (struct file){.ino = world->next_ino++, .large = pick(world, 3) == 0};
	OK(store_put_dirent(world->store, STORE_ROOT, span_str(name), file->ino));
	snprintf(file->text, sizeof(file->text), "%s", file->large ? "" : name);
	if (file->large)
		put_bytes(world, file, 0);
	else
		OK(store_put_inline(world->store, file->ino, span_str(file->text)));
}

static void change_file(struct world *world, struct file *file)
{
	if (file->large && pick(world, 5) == 0) {
		int first = (int)pick(world, UNITS);

		OK(store_del_units(world->store, file->ino, first));
		memset(file->unit + first, 0, UNITS - (size_t)first);
	} else if (file->large && pick(world, 5) == 0) {
		file->large = false;
		memset(file->unit, 0, sizeof(file->unit));
		snprintf(file->text, sizeof(file->text), "small");
		OK(store_del_units(world->store, file->ino, 0));
		OK(store_put_inline(world->store, file->ino, span_str(file->text)));
	} else if (file->large) {
		put_bytes(world, file, (int)pick(world, UNITS));
	} else if (pick(world, 5) == 0) {
		file->large = true;
		file->text[0] = 0;
		OK(store_del_inline(world->store, file->ino));
		put_bytes(world, file, (int)pick(world, UNITS));
	} else {
		snprintf(file->text, sizeof(file->text), "v%u", pick(world, 1000000));
		OK(store_put_inline(world->store, file->ino, span_str(file->text)));
	}
	if (pick(world, 3) == 0) {
		snprintf(file->attribute, sizeof(file->attribute), "%u", pick(world, 1000));
		OK(store_put_xattr(world->store, file->ino, SPAN("user.a"),
				   span_str(file->attribute)));
	} else if (pick(world, 3) == 0) {
		file->attribute[0] = 0;
		OK(store_del_xattr(world->store, file->ino, SPAN("user.a")));
	}
}

static void delete_file(struct world *world, int slot)
{
	char name[16];

	name_of(slot, name);
	OK(store_del_dirent(world->store, STORE_ROOT, span_str(name)));
	OK(store_del_node(world->store, world->now.file[slot].ino));
	world->now.file[slot].ino = 0;
}

/* A few operations in one transaction, sometimes undone. */
static void change(struct world *world)
{
	struct model before = world->now;
	unsigned char hash[32] = {0};
	uint64_t bytes = 0, inodes = 1;

	OK(store_begin(world->store));
	for (uint32_t n = 1 + pick(world, 4); n; n--) {
		int slot = (int)pick(world, FILES);
		struct file *file = &world->now.file[slot];
		struct store_node node;

		if (file->ino == 0)
			make_file(world, slot);
		else if (pick(world, 4) == 0)
			delete_file(world, slot);
		else
			change_file(world, file);
		if (file->ino == 0)
			continue;
		node = row_of(file);
		OK(store_put_node(world->store, &node));
	}
	for (int i = 0; i < FILES; i++) {
		struct store_node node = row_of(&world->now.file[i]);

		if (world->now.file[i].ino == 0)
			continue;
		inodes++;
		bytes += node.flags ? node.rdev * STORE_UNIT : (uint64_t)node.size;
	}
	world->now.audit++;
	hash[0] = (unsigned char)world->now.audit;
	OK(store_put_audit(world->store, world->now.audit, world->now.audit, 1, SPAN("r"), hash));
	OK(store_put_counters(world->store, world->next_ino, bytes, inodes));
	if (pick(world, 8) == 0) {
		store_rollback(world->store);
		world->now = before;
	} else {
		OK(store_commit(world->store, pick(world, 4) == 0));
	}
}

/* ---- comparing ---- */

static void compare_file(struct store *store, const struct file *file)
{
	CLEANUP(buf_clear) struct buf value = BUF_INIT(STORE_INLINE_MAX);
	struct store_unit unit[UNITS];
	struct store_node node;

	OK(store_get_node(store, file->ino, &node));
	assert_int_equal(node.flags, file->large ? STORE_NODE_EXTENTS : 0);
	OK(store_get_inline(store, file->ino, &value));
	assert_string_equal(value.data, file->text);
	OK(store_get_units(store, file->ino, 0, UNITS, unit));
	for (int i = 0; i < UNITS; i++) {
		unsigned char bytes[2];

		assert_int_equal(unit[i].pos != STORE_HOLE, file->unit[i] != 0);
		OK(store_data_read(store, unit[i], 0, &bytes[0], 1));
		OK(store_data_read(store, unit[i], STORE_UNIT - 1, &bytes[1], 1));
		assert_int_equal(bytes[0], file->unit[i]);
		assert_int_equal(bytes[1], file->unit[i]);
	}
	buf_clear(&value);
	assert_int_equal(store_get_xattr(store, file->ino, SPAN("user.a"), &value),
			 file->attribute[0] ? 0 : -ENODATA);
	assert_string_equal(value.data, file->attribute);
}

static int count_entry(void *arg, struct span name, const struct store_node *node)
{
	(void)name;
	(void)node;
	++*(int *)arg;
	return 0;
}

static int last_audit(void *arg, uint64_t first, uint64_t last, struct span records,
		      const unsigned char hash[32])
{
	uint64_t *seq = arg;

	(void)records;
	(void)hash;
	assert_int_equal(first, *seq + 1);
	*seq = last;
	return 0;
}

static void compare(struct store *store, const struct model *model)
{
	uint64_t seq = 0;
	int want = 0, entries = 0;

	for (int i = 0; i < FILES; i++) {
		const struct file *file = &model->file[i];
		char name[16];

		name_of(i, name);
		assert_name(store, name, file->ino);
		if (file->ino == 0)
			continue;
		want++;
		compare_file(store, file);
	}
	OK(store_each_dirent_node(store, STORE_ROOT, count_entry, &entries));
	assert_int_equal(entries, want);
	OK(store_each_audit(store, 0, last_audit, &seq));
	assert_int_equal(seq, model->audit);
}

/* ---- layers ---- */

static void state_name(int i, char text[16])
{
	snprintf(text, 16, "state%d", i);
}

static int free_state(const struct world *world)
{
	for (int i = 0; i < STATES; i++) {
		if (!world->taken[i])
			return i;
	}
	return -1;
}

static int some_state(struct world *world)
{
	int i = (int)pick(world, STATES);

	return world->taken[i] ? i : -1;
}

static void take_state(struct world *world)
{
	int i = free_state(world);
	char name[16];

	if (i < 0) {
		i = (int)pick(world, STATES);
		state_name(i, name);
		OK(store_delete_snapshot(world->store, name, NULL));
	}
	state_name(i, name);
	OK(store_snapshot(world->store, name, NULL));
	world->taken[i] = true;
	world->states[i] = world->now;
}

static void drop_state(struct world *world)
{
	int i = some_state(world);
	char name[16];

	if (i < 0)
		return;
	state_name(i, name);
	OK(store_delete_snapshot(world->store, name, NULL));
	world->taken[i] = false;
}

static void restore_state(struct world *world)
{
	int i = some_state(world), keep = pick(world, 2) ? free_state(world) : -1;
	uint64_t audit = world->now.audit;
	char name[16], keep_name[16];

	if (i < 0)
		return;
	state_name(i, name);
	if (keep >= 0) {
		state_name(keep, keep_name);
		world->taken[keep] = true;
		world->states[keep] = world->now;
	}
	OK(store_restore(world->store, name, keep >= 0 ? keep_name : NULL, NULL));
	world->now = world->states[i];
	world->now.audit = audit;
}

static void look_at_state(struct world *world)
{
	int i = some_state(world);
	struct store *old = NULL;
	char name[16];

	if (i < 0)
		return;
	state_name(i, name);
	OK(store_open_snapshot(world->store, name, &old, NULL));
	compare(old, &world->states[i]);
	assert_clean(old);
	store_close(old);
}

/* The fork takes the place of the workspace it is from, which is removed; or is only looked at. */
static void fork_state(struct world *world)
{
	struct fixture *fixture = world->fixture;
	int i = some_state(world);
	struct store *forked;
	char name[16];

	if (i < 0)
		return;
	state_name(i, name);
	OK(store_fork(world->store, name, fixture->other, NULL));
	forked = open_at(fixture->other, 0);
	compare(forked, &world->states[i]);
	assert_clean(forked);
	store_close(forked);
	if (pick(world, 2)) {
		OK(store_remove(fixture->other, NULL));
		return;
	}
	store_close(world->store);
	OK(store_remove(fixture->path, NULL));
	OK(store_rename(fixture->other, fixture->path, NULL));
	world->store = open_at(fixture->path, 0);
	world->now = world->states[i];
	memset(world->taken, 0, sizeof(world->taken));
}

static void pass_through_a_file(struct world *world)
{
	struct fixture *fixture = world->fixture;
	struct store *other;
	char file[256];

	snprintf(file, sizeof(file), "%s", fixture_file(fixture, "out.db"));
	OK(store_export(world->store, file, NULL));
	OK(store_import(file, fixture->other, NULL));
	other = open_at(fixture->other, 0);
	compare(other, &world->now);
	store_close(other);
	OK(store_remove(fixture->other, NULL));
	OK(unlink(file));
}

static int check_ino(void *arg, int64_t ino)
{
	bool *changed = arg;

	if (ino < 4096)
		changed[ino] = true;
	return 0;
}

static bool same_file(const struct file *a, const struct file *b)
{
	return a->large == b->large && strcmp(a->text, b->text) == 0 &&
	       memcmp(a->unit, b->unit, UNITS) == 0 && strcmp(a->attribute, b->attribute) == 0;
}

static void differences(struct world *world)
{
	CLEANUP(mem_free) bool *changed = mem_alloc0(4096);
	int i = some_state(world);
	struct store *old = NULL;
	char name[16];

	if (i < 0)
		return;
	state_name(i, name);
	OK(store_open_snapshot(world->store, name, &old, NULL));
	OK(store_each_changed(old, world->store, check_ino, changed));
	for (int slot = 0; slot < FILES; slot++) {
		const struct file *before = &world->states[i].file[slot];
		const struct file *after = &world->now.file[slot];

		if (before->ino != after->ino) {
			assert_true(!before->ino || changed[before->ino]);
			assert_true(!after->ino || changed[after->ino]);
		} else if (before->ino) {
			assert_int_equal(changed[before->ino], !same_file(before, after));
		}
	}
	store_close(old);
}

static void merge(struct world *world)
{
	struct store_info before, after;

	if (pick(world, 2)) {
		assert_true(store_prepare_merge(world->store, NULL) >= 0);
		return;
	}
	store_get_info(world->store, &before);
	assert_true(store_maintain(world->store, NULL) >= 0);
	store_get_info(world->store, &after);
	world->merges += after.depth < before.depth;
}

static void reopen(struct world *world)
{
	if (pick(world, 2)) {
		store_release_memory(world->store);
		return;
	}
	store_close(world->store);
	world->store = open_at(world->fixture->path, 0);
}

static void one_step(struct world *world)
{
	static void (*const rare[])(struct world * world) = {
		take_state,    take_state,    take_state, drop_state,
		restore_state, look_at_state, fork_state, pass_through_a_file,
		differences,   merge,         merge,      reopen,
	};

	if (pick(world, 3))
		change(world);
	else
		rare[pick(world, ARRAY_LEN(rare))](world);
	compare(world->store, &world->now);
	if (pick(world, 4) == 0)
		assert_clean(world->store);
}

static void random_history(void **state)
{
	struct world *world = mem_alloc0(sizeof(*world));
	const char *seed = getenv("SEED"), *length = getenv("HISTORY");
	uint64_t first = 20240531, steps = 300;

	if (seed)
		OK(parse_u64(seed, &first));
	if (length)
		OK(parse_u64(length, &steps));
	print_message("# SEED=%llu\n", (unsigned long long)first);
	world->fixture = *state;
	world->store = world->fixture->store;
	world->fixture->store = NULL;
	world->seed = first;
	world->next_ino = 2;
	for (uint64_t i = 0; i < steps; i++)
		one_step(world);
	assert_clean(world->store);
	assert_true(world->merges > 0 || seed || length); /* else this proves less than it says */
	store_close(world->store);
	free(world);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(random_history, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
