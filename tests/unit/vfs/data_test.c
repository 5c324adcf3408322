/* data_test.c - content: random changes against a model in memory, through snapshots and reopening.
 */
#include "world.h"

#include "base/mem.h"
#include "base/parse.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdatomic.h>
#include <unistd.h>

#define UNIT ((int64_t)STORE_UNIT)
#define NEAR_SIZE (40 * UNIT) /* the model holds bytes here ... */
#define FAR_START (INT64_C(1) << 32)
#define FAR_SIZE (8 * UNIT) /* ... and there, zeros in between */
#define FILES 2

struct model {
	int64_t ino, size;
	unsigned char *near, *far;
};

struct run {
	struct world world;
	struct model file[FILES];
	uint64_t random;
	int step, snapshots;
	char what[128]; /* the step, for when it fails */
};

/* ---- commits that fail ---- */

int real_store_commit(struct store *store, bool durable) __asm__("__real_store_commit");
int wrap_store_commit(struct store *store, bool durable) __asm__("__wrap_store_commit");

static atomic_int to_fail;

int wrap_store_commit(struct store *store, bool durable)
{
	if (atomic_load(&to_fail) > 0) {
		atomic_fetch_sub(&to_fail, 1);
		store_rollback(store);
		return -EIO;
	}
	return real_store_commit(store, durable);
}

static uint64_t next(struct run *run)
{
	run->random ^= run->random << 13;
	run->random ^= run->random >> 7;
	run->random ^= run->random << 17;
	return run->random;
}

static int64_t below(struct run *run, int64_t limit)
{
	return (int64_t)(next(run) % (uint64_t)limit);
}

/* ---- the model ---- */

static unsigned char *model_at(const struct model *model, int64_t offset, size_t *ret_room)
{
	if (offset < NEAR_SIZE) {
		*ret_room = (size_t)(NEAR_SIZE - offset);
		return model->near + offset;
	}
	if (offset < FAR_START) {
		*ret_room = (size_t)(FAR_START - offset);
		return NULL;
	}
	assert_true(offset < FAR_START + FAR_SIZE);
	*ret_room = (size_t)(FAR_START + FAR_SIZE - offset);
	return model->far + (offset - FAR_START);
}

/* Bytes into the model, NULL for zeros; or, with `ret_bytes`, out of it. */
static void model_move(const struct model *model, int64_t offset, size_t len,
		       const unsigned char *bytes, unsigned char *ret_bytes)
{
	for (size_t done = 0, room; done < len; done += room) {
		unsigned char *at = model_at(model, offset + (int64_t)done, &room);

		if (room > len - done)
			room = len - done;
		if (ret_bytes && at)
			memcpy(ret_bytes + done, at, room);
		else if (ret_bytes)
			memset(ret_bytes + done, 0, room);
		else if (bytes && at)
			memcpy(at, bytes + done, room);
		else if (at)
			memset(at, 0, room);
	}
}

/* What is beyond the size is zero in the model, so that growing shows zeros. */
static void model_resize(struct model *model, int64_t size)
{
	if (size < model->size) {
		int64_t end = model->size;

		if (size < NEAR_SIZE)
			memset(model->near + size, 0, (size_t)(NEAR_SIZE - size));
		if (end > FAR_START) {
			int64_t from = size > FAR_START ? size : FAR_START;

			memset(model->far + (from - FAR_START), 0, (size_t)(end - from));
		}
	}
	model->size = size;
}

/* ---- one step ---- */

static int64_t some_offset(struct run *run)
{
	static const int64_t bases[] = {0,         0,         STORE_INLINE_MAX,
					UNIT,      2 * UNIT,  7 * UNIT,
					20 * UNIT, FAR_START, FAR_START + 3 * UNIT};
	int64_t offset = bases[below(run, ARRAY_LEN(bases))];

	switch (below(run, 4)) {
	case 0:
		return offset;
	case 1:
		offset += below(run, 3) - 1;
		break;
	case 2:
		offset += below(run, 9000) - 4500;
		break;
	default:
		offset += below(run, 2 * UNIT) - UNIT;
		break;
	}
	if (offset >= NEAR_SIZE && offset < FAR_START)
		offset = FAR_START;
	return offset < 0 ? 0 : offset;
}

static int64_t some_len(struct run *run, int64_t offset)
{
	static const int64_t lens[] = {1,    10,           100, 4096, 5000, STORE_INLINE_MAX,
				       UNIT, 3 * UNIT + 17};
	int64_t len = lens[below(run, ARRAY_LEN(lens))];
	int64_t end = offset < NEAR_SIZE ? NEAR_SIZE : FAR_START + FAR_SIZE;

	if (below(run, 3) == 0)
		len = 1 + below(run, len);
	return offset + len > end ? end - offset : len;
}

static unsigned char *some_bytes(struct run *run, size_t len)
{
	unsigned char *bytes = mem_alloc(len);
	uint64_t value = next(run) | 1;

	for (size_t i = 0; i < len; i++) {
		value = value * 6364136223846793005u + 1442695040888963407u;
		bytes[i] = (unsigned char)(value >> 56);
	}
	return bytes;
}

static void step_write(struct run *run, struct model *model, bool append)
{
	int64_t offset = some_offset(run), len;
	unsigned char *bytes;

	if (append) {
		offset = model->size;
		if ((offset >= NEAR_SIZE && offset < FAR_START) || offset >= FAR_START + FAR_SIZE)
			return;
	}
	len = some_len(run, offset);
	snprintf(run->what, sizeof(run->what), "%s %lld+%lld", append ? "append" : "write",
		 (long long)offset, (long long)len);
	bytes = some_bytes(run, (size_t)len);
	assert_int_equal(vfs_write(run->world.vfs, &root_ctx, model->ino, append ? 0 : offset,
				   bytes, (size_t)len, append ? VFS_WRITE_APPEND : 0),
			 len);
	model_move(model, offset, (size_t)len, bytes, NULL);
	if (offset + len > model->size)
		model->size = offset + len;
	free(bytes);
}

static void step_truncate(struct run *run, struct model *model)
{
	struct vfs_attr attr = {.size = below(run, 4) ? some_offset(run) : 0}, now;

	snprintf(run->what, sizeof(run->what), "truncate %lld", (long long)attr.size);
	assert_int_equal(
		vfs_setattr(run->world.vfs, &root_ctx, model->ino, VFS_SET_SIZE, &attr, &now), 0);
	assert_int_equal(now.size, attr.size);
	model_resize(model, attr.size);
}

static void step_alloc(struct run *run, struct model *model)
{
	static const int modes[] = {0,
				    FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_ZERO_RANGE,
				    FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
	int mode = modes[below(run, ARRAY_LEN(modes))];
	int64_t offset = some_offset(run), len = some_len(run, offset), end = offset + len;

	snprintf(run->what, sizeof(run->what), "falloc %d %lld+%lld", mode, (long long)offset,
		 (long long)len);
	assert_int_equal(vfs_fallocate(run->world.vfs, &root_ctx, model->ino, mode, offset, len),
			 0);
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		model_move(model, offset, (size_t)len, NULL, NULL);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && end > model->size)
		model->size = end;
}

static void step_copy(struct run *run)
{
	struct model *from = &run->file[below(run, FILES)], *to = &run->file[below(run, FILES)];
	int64_t offset = some_offset(run), offset2 = some_offset(run);
	int64_t len = some_len(run, offset), len2 = some_len(run, offset2);
	unsigned char *bytes;

	if (len > len2)
		len = len2;
	snprintf(run->what, sizeof(run->what), "copy %lld to %lld+%lld", (long long)offset,
		 (long long)offset2, (long long)len);
	if (offset >= from->size)
		len2 = 0;
	else
		len2 = from->size - offset < len ? from->size - offset : len;
	if (from == to && offset < offset2 + len2 && offset2 < offset + len2) {
		assert_int_equal(vfs_copy(run->world.vfs, &root_ctx, from->ino, offset, to->ino,
					  offset2, len),
				 -EINVAL);
		return;
	}
	assert_int_equal(
		vfs_copy(run->world.vfs, &root_ctx, from->ino, offset, to->ino, offset2, len),
		len2);
	if (!len2)
		return;
	bytes = mem_alloc((size_t)len2);
	model_move(from, offset, (size_t)len2, NULL, bytes);
	model_move(to, offset2, (size_t)len2, bytes, NULL);
	if (offset2 + len2 > to->size)
		to->size = offset2 + len2;
	free(bytes);
}

static void check_range(struct run *run, const struct model *model, int64_t offset, size_t len)
{
	unsigned char *have = mem_alloc(len), *want = mem_alloc(len);
	int64_t there = offset >= model->size ? 0 : model->size - offset;
	size_t count = (uint64_t)there < len ? (size_t)there : len;

	assert_int_equal(vfs_read(run->world.vfs, &root_ctx, model->ino, offset, have, len), count);
	model_move(model, offset, count, NULL, want);
	for (size_t i = 0; i < count; i++)
		if (have[i] != want[i])
			fail_msg("byte %lld is %d, not %d", (long long)offset + (long long)i,
				 have[i], want[i]);
	free(have);
	free(want);
}

static void step_read(struct run *run, const struct model *model)
{
	int64_t offset = some_offset(run), len = some_len(run, offset);

	snprintf(run->what, sizeof(run->what), "read %lld+%lld", (long long)offset, (long long)len);
	check_range(run, model, offset, (size_t)len);
}

/* Where data is said to be, and not: holes have none. */
static void check_holes(struct run *run, const struct model *model)
{
	int64_t at = 0;

	while (at < model->size) {
		int64_t data = vfs_lseek(run->world.vfs, &root_ctx, model->ino, at, SEEK_DATA);
		int64_t end = data == -ENXIO ? model->size : data;

		assert_true(end >= at);
		for (; at < end; at += UNIT) {
			static unsigned char bytes[UNIT], zeros[UNIT];
			size_t len = end - at < UNIT ? (size_t)(end - at) : UNIT;

			if (at >= NEAR_SIZE && at + UNIT < FAR_START && end >= FAR_START) {
				at = FAR_START - UNIT - at % UNIT;
				continue;
			}
			model_move(model, at, len, NULL, bytes);
			assert_memory_equal(bytes, zeros, len);
		}
		at = end;
		if (data == -ENXIO)
			break;
		end = vfs_lseek(run->world.vfs, &root_ctx, model->ino, at, SEEK_HOLE);
		assert_true(end > at && end <= model->size);
		at = end;
	}
}

/* ---- all of it ---- */

static void check_problem(void *arg, enum store_problem problem, const char *text, bool repaired)
{
	(void)arg;
	(void)problem;
	(void)repaired;
	print_message("# check: %s\n", text);
}

static int check_store(void *arg, struct store *store)
{
	struct err err = ERR_INIT;

	(void)arg;
	return store_check(store, false, check_problem, NULL, &err);
}

static void check_all(struct run *run)
{
	struct vfs_stats stats;
	uint64_t bytes = 0;

	for (int i = 0; i < FILES; i++) {
		const struct model *model = &run->file[i];
		struct vfs_attr attr;

		assert_int_equal(world_stat(&run->world, model->ino, &attr), 0);
		assert_int_equal(attr.size, model->size);
		check_range(run, model, 0, NEAR_SIZE);
		if (model->size > FAR_START - UNIT)
			check_range(run, model, FAR_START - UNIT, FAR_SIZE + UNIT);
		check_holes(run, model);
		bytes += attr.size > STORE_INLINE_MAX ? (uint64_t)attr.blocks * 512
						      : (uint64_t)attr.size;
	}
	vfs_get_stats(run->world.vfs, &stats);
	assert_int_equal(stats.bytes, bytes);
}

static int snapshot(void *arg, struct store *store)
{
	struct err err = ERR_INIT;
	char name[32];
	struct run *run = arg;
	int r;

	snprintf(name, sizeof(name), "s%d", run->snapshots++);
	r = store_snapshot(store, name, &err);
	if (r < 0)
		print_message("# snapshot: %s\n", err.text);
	return r;
}

static void step_life(struct run *run)
{
	switch (below(run, 4)) {
	case 0:
		snprintf(run->what, sizeof(run->what), "reopen");
		world_reopen(&run->world);
		break;
	case 1:
		snprintf(run->what, sizeof(run->what), "snapshot");
		if (run->snapshots < 6)
			assert_int_equal(vfs_exclusive(run->world.vfs, snapshot, run), 0);
		break;
	case 2:
		snprintf(run->what, sizeof(run->what), "idle");
		assert_int_equal(vfs_flush(run->world.vfs, false), 0);
		vfs_idle(run->world.vfs);
		break;
	default:
		snprintf(run->what, sizeof(run->what), "check");
		assert_int_equal(vfs_exclusive(run->world.vfs, check_store, NULL), 0);
		break;
	}
	check_all(run);
}

static void step_flush(struct run *run, bool durable)
{
	bool fail = below(run, 2);

	snprintf(run->what, sizeof(run->what), "flush%s", fail ? " that fails" : "");
	atomic_store(&to_fail, fail);
	if (!fail)
		assert_int_equal(vfs_flush(run->world.vfs, durable), 0);
	else
		(void)!vfs_flush(run->world.vfs, durable); /* there may be nothing to write */
	atomic_store(&to_fail, 0);
}

static void step(struct run *run)
{
	struct model *model = &run->file[below(run, FILES)];
	int64_t kind = below(run, 100);

	if (kind < 35)
		step_write(run, model, false);
	else if (kind < 45)
		step_write(run, model, true);
	else if (kind < 55)
		step_truncate(run, model);
	else if (kind < 67)
		step_alloc(run, model);
	else if (kind < 75)
		step_copy(run);
	else if (kind < 94)
		step_read(run, model);
	else if (kind < 97)
		step_flush(run, kind == 94);
	else
		step_life(run);
}

static void run_steps(uint64_t seed, int steps)
{
	static const char *const names[FILES] = {"a", "b"};
	struct run *run = mem_alloc0(sizeof(*run));

	run->random = seed * 0x9e3779b97f4a7c15u + 1;
	world_open(&run->world, NULL);
	for (int i = 0; i < FILES; i++) {
		run->file[i].ino = world_create(&run->world, VFS_ROOT, names[i]);
		run->file[i].near = mem_alloc0(NEAR_SIZE);
		run->file[i].far = mem_alloc0(FAR_SIZE);
	}
	for (run->step = 0; run->step < steps; run->step++) {
		step(run);
		if (getenv("DATA_TEST_TRACE"))
			print_message("# seed %llu step %d: %s\n", (unsigned long long)seed,
				      run->step, run->what);
	}
	check_all(run);
	world_reopen(&run->world);
	check_all(run);
	assert_int_equal(vfs_exclusive(run->world.vfs, check_store, NULL), 0);
	for (int i = 0; i < FILES; i++)
		assert_int_equal(world_unlink(&run->world, VFS_ROOT, names[i]), 0);
	world_reopen(&run->world);
	{
		struct vfs_stats stats;

		vfs_get_stats(run->world.vfs, &stats);
		assert_int_equal(stats.bytes, 0);
		assert_int_equal(stats.inodes, 1);
	}
	world_close(&run->world);
	for (int i = 0; i < FILES; i++) {
		free(run->file[i].near);
		free(run->file[i].far);
	}
	free(run);
}

static void random_changes_are_those_of_the_model(void **state)
{
	const char *seed = getenv("DATA_TEST_SEED"), *steps = getenv("DATA_TEST_STEPS");

	(void)state;
	if (seed) { /* to look into one */
		uint64_t number = 0, count = 400;

		assert_int_equal(parse_u64(seed, &number), 0);
		if (steps)
			assert_int_equal(parse_u64(steps, &count), 0);
		run_steps(number, (int)count);
		return;
	}
	for (uint64_t i = 1; i <= 3; i++)
		run_steps(i, 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_changes_are_those_of_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
