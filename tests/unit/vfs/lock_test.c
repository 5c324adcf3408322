/* lock_test.c - POSIX record locks against a model of bytes, and flock. */
#include "world.h"

#include <errno.h>
#include <fcntl.h>

#define BYTES 48 /* the model's; the last stands for all that follow */
#define OWNERS 3

static uint64_t random_state = 1181783497276652981u;

static int below(int limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (int)(random_state % (uint64_t)limit);
}

static struct vfs_lock posix(uint64_t owner, int type, int64_t start, int64_t end)
{
	return (struct vfs_lock){
		.type = type, .start = start, .end = end, .owner = owner, .pid = (int32_t)owner};
}

static bool may_have(int model[OWNERS][BYTES], int owner, int type, int64_t start, int64_t end)
{
	for (int other = 0; other < OWNERS; other++) {
		for (int64_t i = start; i <= end && i < BYTES && other != owner; i++) {
			int have = model[other][i];

			if (have == F_WRLCK || (have == F_RDLCK && type == F_WRLCK))
				return false;
		}
	}
	return true;
}

static void check_model(struct world *world, int64_t ino, int model[OWNERS][BYTES])
{
	for (int64_t i = 0; i < BYTES; i++) {
		int64_t end = i == BYTES - 1 ? INT64_MAX : i;
		/* Somebody else who wants to write is stopped by any lock, who wants to read by
		 * writers. */
		struct vfs_lock lock = posix(77, F_WRLCK, i, end), other;
		int worst = F_UNLCK;

		for (int owner = 0; owner < OWNERS; owner++)
			if (model[owner][i] != F_UNLCK)
				worst = model[owner][i];
		assert_int_equal(vfs_lock_get(world->vfs, ino, &lock, &other), 0);
		assert_int_equal(other.type, worst);
		lock.type = F_RDLCK;
		assert_int_equal(vfs_lock_get(world->vfs, ino, &lock, &other), 0);
		assert_int_equal(other.type, worst == F_WRLCK ? F_WRLCK : F_UNLCK);
	}
}

static void record_locks_split_and_join(void **state)
{
	static int model[OWNERS][BYTES];
	struct world world;
	int64_t ino;

	(void)state;
	world_open(&world, NULL);
	ino = world_create(&world, VFS_ROOT, "f");
	assert_int_equal(vfs_open(world.vfs, &root_ctx, ino, O_RDWR), 0);
	for (int owner = 0; owner < OWNERS; owner++)
		for (int i = 0; i < BYTES; i++)
			model[owner][i] = F_UNLCK;
	for (int step = 0; step < 3000; step++) {
		static const int types[] = {F_RDLCK, F_RDLCK, F_WRLCK, F_UNLCK};
		int owner = below(OWNERS), type = types[below(4)];
		int64_t start = below(BYTES), end = start + below(8);
		struct vfs_lock lock, other;
		bool may;
		int r;

		if (end >= BYTES - 1)
			end = INT64_MAX;
		lock = posix((uint64_t)owner + 1, type, start, end);
		may = type == F_UNLCK || may_have(model, owner, type, start, end);
		r = vfs_lock_set(world.vfs, ino, &lock, &other);
		assert_int_equal(r, may ? 0 : -EAGAIN);
		if (!may)
			assert_true(other.owner != lock.owner && other.type != F_UNLCK);
		for (int64_t i = start; i <= end && i < BYTES && may; i++)
			model[owner][i] = type;
		if (step % 10 == 0)
			check_model(&world, ino, model);
	}
	check_model(&world, ino, model);
	vfs_release(world.vfs, ino);
	world_close(&world);
}

static void ranges_must_make_sense(void **state)
{
	struct vfs_lock lock = posix(1, F_WRLCK, 5, 4), other;
	struct world world;
	int64_t ino;

	(void)state;
	world_open(&world, NULL);
	ino = world_create(&world, VFS_ROOT, "f");
	lock = posix(1, F_WRLCK, 0, 9);
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL),
			 -EBADF); /* nobody has it open */
	assert_int_equal(vfs_open(world.vfs, &root_ctx, ino, O_RDWR), 0);
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), 0);
	lock = posix(1, F_WRLCK, 5, 4);
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), -EINVAL);
	lock = posix(1, F_WRLCK, -1, 4);
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), -EINVAL);
	lock = posix(1, 99, 0, 4);
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), -EINVAL);
	lock = posix(1, F_UNLCK, 0, 4);
	assert_int_equal(vfs_lock_get(world.vfs, ino, &lock, &other), -EINVAL);
	lock = posix(1, F_WRLCK, 0, 4);
	assert_int_equal(vfs_lock_set(world.vfs, 999, &lock, NULL), -ESTALE);
	lock.type = F_UNLCK;
	assert_int_equal(vfs_lock_set(world.vfs, 999, &lock, NULL), 0);
	vfs_release(world.vfs, ino);
	world_close(&world);
}

static void there_are_only_so_many(void **state)
{
	struct vfs_lock lock;
	struct world world;
	int64_t ino, count = 0;

	(void)state;
	world_open(&world, NULL);
	ino = world_create(&world, VFS_ROOT, "f");
	assert_int_equal(vfs_open(world.vfs, &root_ctx, ino, O_RDWR), 0);
	for (int r = 0; r == 0; count++) {
		lock = posix(1, F_RDLCK, count * 2, count * 2);
		r = vfs_lock_set(world.vfs, ino, &lock, NULL);
		assert_true(r == 0 || r == -ENOLCK);
		assert_true(count < 100000);
	}
	lock = posix(1, F_UNLCK, 0, INT64_MAX);
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), 0);
	lock = posix(2, F_WRLCK, 0, INT64_MAX);
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), 0);
	vfs_release(world.vfs, ino);
	world_close(&world);
}

static void count_change(void *arg, int64_t ino)
{
	int *changes = arg;

	assert_true(ino > 0);
	(*changes)++;
}

static void waiters_hear_of_a_lock_that_goes(void **state)
{
	struct vfs_lock lock = {.flock = true, .type = F_RDLCK, .end = INT64_MAX, .owner = 1};
	struct world world;
	int64_t ino;
	int changes = 0;

	(void)state;
	world_open(&world, NULL);
	ino = world_create(&world, VFS_ROOT, "f");
	assert_int_equal(vfs_open(world.vfs, &root_ctx, ino, O_RDWR), 0);
	vfs_lock_on_change(world.vfs, count_change, &changes);
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), 0);
	lock.owner = 2;
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), 0);
	assert_int_equal(changes, 0);
	/* As Linux: who asks for more and cannot have it has lost what he had. */
	lock.type = F_WRLCK;
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), -EAGAIN);
	assert_int_equal(changes, 1);
	lock.owner = 1;
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), 0);
	assert_int_equal(changes, 2);
	/* A record lock is another thing. */
	lock = posix(3, F_WRLCK, 0, 9);
	assert_int_equal(vfs_lock_set(world.vfs, ino, &lock, NULL), 0);
	vfs_lock_on_change(world.vfs, NULL, NULL);
	vfs_release(world.vfs, ino);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(record_locks_split_and_join),
		cmocka_unit_test(ranges_must_make_sense),
		cmocka_unit_test(there_are_only_so_many),
		cmocka_unit_test(waiters_hear_of_a_lock_that_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
