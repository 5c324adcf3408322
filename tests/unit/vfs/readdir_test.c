/* readdir_test.c - walks of directories in slices, small and large, while entries come and go. */
#include "world.h"

#include "base/mem.h"

#include <errno.h>
#include <sys/stat.h>

#define R VFS_ROOT
#define MANY 100000
#define LESS 30000

static struct world world;

static int setup(void **state)
{
	(void)state;
	world_open(&world, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	world_close(&world);
	return 0;
}

/* Good until the next but one. */
static const char *number(int i)
{
	static char names[2][16];
	static unsigned turn;
	char *name = names[turn++ % 2];

	snprintf(name, sizeof(names[0]), "n%06d", i);
	return name;
}

/* A walk that takes `slice` entries at a time. */
struct walk {
	int64_t dir;
	uint64_t cookie;
	int slice, taken;
	unsigned char *seen; /* by number; NULL: not asked for */
	int dots;
};

static int take(void *arg, const struct vfs_entry *entry)
{
	struct walk *walk = arg;
	int i = 0;

	if (walk->taken == walk->slice)
		return 1;
	walk->taken++;
	assert_true(entry->cookie > walk->cookie);
	walk->cookie = entry->cookie;
	if (entry->name.data[0] == '.') {
		walk->dots++;
		return 0;
	}
	for (size_t c = 1; c < entry->name.len; c++)
		i = i * 10 + (entry->name.data[c] - '0');
	assert_true(i < 2 * MANY);
	if (walk->seen)
		walk->seen[i]++;
	return 0;
}

/* The count of entries, 0 at the end. */
static int slice(struct walk *walk)
{
	walk->taken = 0;
	assert_int_equal(
		vfs_readdir(world.vfs, &root_ctx, walk->dir, walk->cookie, false, take, walk), 0);
	return walk->taken;
}

static void dots_come_first_and_an_end_comes(void **state)
{
	struct walk walk = {.dir = world_mkdir(&world, R, "d"), .slice = 1};

	(void)state;
	assert_int_equal(slice(&walk), 1);
	assert_int_equal(slice(&walk), 1);
	assert_int_equal(walk.dots, 2);
	assert_int_equal(slice(&walk), 0);
	assert_int_equal(slice(&walk), 0);
	/* What is made afterwards comes after. */
	world_create(&world, walk.dir, number(1));
	assert_int_equal(slice(&walk), 1);
	assert_int_equal(slice(&walk), 0);
	assert_int_equal(vfs_readdir(world.vfs, &root_ctx, world_create(&world, R, "f"), 0, false,
				     take, &walk),
			 -ENOTDIR);
}

static void reading_needs_permission(void **state)
{
	struct vfs_ctx user = user_ctx(1000, 1000);
	struct vfs_attr attr = {.mode = 0711}, got;
	int64_t dir = world_mkdir(&world, R, "d");
	struct walk walk = {.dir = dir, .slice = 10};

	(void)state;
	assert_int_equal(vfs_readdir(world.vfs, &user, dir, 0, false, take, &walk), 0);
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, dir, VFS_SET_MODE, &attr, &got), 0);
	assert_int_equal(vfs_readdir(world.vfs, &user, dir, 0, false, take, &walk), -EACCES);
	user.trusted = true;
	walk.cookie = 0;
	assert_int_equal(vfs_readdir(world.vfs, &user, dir, 0, false, take, &walk), 0);
}

struct plus {
	int64_t inos[64];
	int count, max;
};

static int take_plus(void *arg, const struct vfs_entry *entry)
{
	struct plus *plus = arg;

	if (entry->name.data[0] == '.')
		return 0;
	if (plus->count == plus->max)
		return 1;
	assert_int_equal(entry->attr.mode, S_IFREG | 0644);
	plus->inos[plus->count++] = entry->attr.ino;
	return 0;
}

/* The reference that each entry counts keeps an unlinked file; the one not taken has none. */
static void plus_counts_references(void **state)
{
	struct plus plus = {.max = 9};
	int64_t dir = world_mkdir(&world, R, "d");
	struct vfs_attr attr;

	(void)state;
	for (int i = 0; i < 10; i++)
		world_create(&world, dir, number(i));
	world_reopen(&world);
	assert_int_equal(vfs_readdir(world.vfs, &root_ctx, dir, 0, true, take_plus, &plus), 0);
	assert_int_equal(plus.count, 9);
	for (int i = 0; i < 10; i++)
		assert_int_equal(world_unlink(&world, dir, number(i)), 0);
	for (int i = 0; i < 9; i++) {
		assert_int_equal(world_stat(&world, plus.inos[i], &attr), 0);
		vfs_forget(world.vfs, plus.inos[i], 1);
		assert_int_equal(world_stat(&world, plus.inos[i], &attr), -ESTALE);
	}
	assert_int_equal(world_stat(&world, plus.inos[8] + 1, &attr), -ESTALE);
}

/* Entries that stay are seen once, whatever comes and goes between the slices. */
static void walk_while_changing(int64_t dir)
{
	struct walk walk = {.dir = dir, .slice = 500};
	int made = MANY, step = 0;

	walk.seen = mem_alloc0((size_t)2 * MANY);
	while (slice(&walk)) {
		/* Of each ten: one goes, one is renamed, one is replaced, a new one comes. */
		for (int i = step; i < step + 200; i += 10) {
			assert_int_equal(world_unlink(&world, dir, number(i)), 0);
			assert_int_equal(
				world_rename(&world, dir, number(i + 1), dir, number(made++), 0),
				0);
			assert_true(world_create(&world, dir, number(made)) > 0);
			assert_int_equal(
				world_rename(&world, dir, number(made++), dir, number(i + 2), 0),
				0);
			assert_true(world_create(&world, dir, number(made++)) > 0);
		}
		step += 200;
		if (step > MANY - 200)
			break;
	}
	while (slice(&walk))
		;
	for (int i = 0; i < MANY; i++)
		if (i >= step || i % 10 >= 3)
			assert_int_equal(walk.seen[i], 1);
		else
			assert_true(walk.seen[i] <= 1);
	for (int i = MANY; i < 2 * MANY; i++)
		assert_true(walk.seen[i] <= 1);
	free(walk.seen);
	assert_int_equal(walk.dots, 2);
}

static void a_large_directory_is_walked_while_it_changes(void **state)
{
	int64_t dir = world_mkdir(&world, R, "d");

	(void)state;
	for (int i = 0; i < MANY; i++)
		assert_true(world_create(&world, dir, number(i)) > 0);
	assert_int_equal(vfs_open(world.vfs, &root_ctx, dir, 0), 0);
	walk_while_changing(dir);
	vfs_release(world.vfs, dir);
	world_reopen(&world);
	assert_int_equal(world_count(&world, dir), MANY);
}

/* What rm -r does: read a slice, remove it, read on. */
static void a_large_directory_is_emptied(void **state)
{
	int64_t dir = world_mkdir(&world, R, "d");
	struct walk walk = {.dir = dir, .slice = 1000};
	int removed = 0;

	(void)state;
	for (int i = 0; i < LESS; i++)
		assert_true(world_create(&world, dir, number(i)) > 0);
	world_reopen(&world);
	assert_int_equal(vfs_open(world.vfs, &root_ctx, dir, 0), 0);
	walk.seen = mem_alloc0((size_t)2 * MANY);
	while (slice(&walk)) {
		for (int i = removed; i < LESS && walk.seen[i]; i++) {
			assert_int_equal(world_unlink(&world, dir, number(i)), 0);
			removed++;
		}
	}
	free(walk.seen);
	assert_int_equal(removed, LESS);
	vfs_release(world.vfs, dir);
	assert_int_equal(world_rmdir(&world, R, "d"), 0);
	world_reopen(&world);
	assert_int_equal(world_count(&world, R), 0);
}

/* A directory that was not loaded whole: names asked for one by one, new ones, then the walk. */
static void a_directory_known_in_part_is_walked(void **state)
{
	int64_t dir = world_mkdir(&world, R, "d");
	struct walk walk = {.dir = dir, .slice = 7};

	(void)state;
	for (int i = 0; i < 1000; i++)
		world_create(&world, dir, number(i));
	world_reopen(&world);
	for (int i = 0; i < 1000; i += 50)
		assert_true(world_find(&world, dir, number(i)) > 0);
	assert_int_equal(world_unlink(&world, dir, number(50)), 0);
	assert_int_equal(world_unlink(&world, dir, number(51)), 0);
	assert_true(world_create(&world, dir, number(50)) > 0);
	assert_true(world_create(&world, dir, number(1000)) > 0);
	for (int i = 2000; i < 2100; i++)
		assert_int_equal(world_find(&world, dir, number(i)), -ENOENT);
	assert_int_equal(vfs_open(world.vfs, &root_ctx, dir, 0), 0);
	walk.seen = mem_alloc0((size_t)2 * MANY);
	while (slice(&walk))
		;
	for (int i = 0; i < 1001; i++)
		assert_int_equal(walk.seen[i], i != 51);
	free(walk.seen);
	vfs_release(world.vfs, dir);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(dots_come_first_and_an_end_comes),
		CASE(reading_needs_permission),
		CASE(plus_counts_references),
		CASE(a_large_directory_is_walked_while_it_changes),
		CASE(a_large_directory_is_emptied),
		CASE(a_directory_known_in_part_is_walked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
