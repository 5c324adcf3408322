/* io_test.c - threads on the same files: writers, readers, whole files, snapshots in between. */
#include "world.h"

#include "base/mem.h"
#include "store/store.h"
#include "vfs/vfs_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define WRITERS 3
#define ROUNDS 60
#define SLICE 40000 /* bytes a writer has in each unit or so: never on a unit's edge */

struct team {
	struct world world;
	int64_t ino;
	atomic_bool stop, failed;
	int snapshots;
};

struct member {
	pthread_t thread;
	struct team *team;
	int number;
};

static void expect(struct team *team, bool yes, const char *what)
{
	if (yes)
		return;
	if (!atomic_exchange(&team->failed, true))
		print_message("# failed: %s\n", what);
}

/* Writer n owns every n-th slice, and always finds there what it put last. */
static void *write_slices(void *arg)
{
	struct member *member = arg;
	struct team *team = member->team;
	char *bytes = mem_alloc(SLICE), *have = mem_alloc(SLICE);

	for (int round = 0; round < ROUNDS; round++) {
		int64_t slice = (round * 7) % 20 * WRITERS + member->number;
		int64_t offset = slice * SLICE;

		memset(bytes, 'a' + round % 26, SLICE);
		expect(team,
		       vfs_write(team->world.vfs, &root_ctx, team->ino, offset, bytes, SLICE, 0) ==
			       SLICE,
		       "write");
		expect(team,
		       vfs_read(team->world.vfs, &root_ctx, team->ino, offset, have, SLICE) ==
			       SLICE,
		       "read");
		expect(team, memcmp(have, bytes, SLICE) == 0, "what was written");
		if (round % 10 == 0)
			expect(team, vfs_fsync(team->world.vfs, team->ino, round % 20) == 0,
			       "fsync");
	}
	free(bytes);
	free(have);
	return NULL;
}

/* Sizes on both sides of what is inline. */
static size_t size_of(int round)
{
	static const size_t sizes[] = {1,     9000,  STORE_INLINE_MAX, STORE_INLINE_MAX + 1,
				       70000, 200000};

	return sizes[(unsigned)round % ARRAY_LEN(sizes)];
}

static void *replace_wholes(void *arg)
{
	struct member *member = arg;
	struct team *team = member->team;
	struct sys *sys = vfs_sys_new(team->world.vfs, &root_ctx);
	char *bytes = mem_alloc(200000);

	for (int round = 0; round < ROUNDS; round++) {
		size_t len = size_of(round + member->number);

		memset(bytes, (int)(len % 251), len);
		expect(team,
		       sys_writefile(sys, SYS_CWD, SPAN("whole"), 0, 0644, SYS_OMIT,
				     span_of(bytes, len)) == 0,
		       "writefile");
		if (round % 16 == 15)
			(void)!sys_unlink(sys, SYS_CWD, SPAN("whole"), 0);
	}
	free(bytes);
	sys_free(sys);
	return NULL;
}

/* Old or new, never a mixture, and never a file that is not written yet. */
static void *read_wholes(void *arg)
{
	struct member *member = arg;
	struct team *team = member->team;
	struct sys *sys = vfs_sys_new(team->world.vfs, &root_ctx);

	while (!atomic_load(&team->stop)) {
		CLEANUP(buf_clear) struct buf buf = BUF_INIT(SYS_IO_MAX);
		struct sys_stat st;
		ssize_t n = sys_readfile(sys, SYS_CWD, SPAN("whole"), 0, SYS_IO_MAX, &st, &buf);

		if (n == -ENOENT)
			continue;
		expect(team, n > 0 && st.size == n, "size of a whole");
		for (ssize_t i = 0; i < n; i++)
			if ((unsigned char)buf.data[i] != (unsigned char)(n % 251)) {
				expect(team, false, "a mixture");
				break;
			}
	}
	sys_free(sys);
	return NULL;
}

static int snapshot(void *arg, struct store *store)
{
	struct team *team = arg;
	struct err err = ERR_INIT;
	char name[32];

	snprintf(name, sizeof(name), "s%d", team->snapshots++);
	return store_snapshot(store, name, &err);
}

static void *take_snapshots(void *arg)
{
	struct member *member = arg;
	struct team *team = member->team;

	for (int i = 0; i < 4 && !atomic_load(&team->stop); i++) {
		expect(team, vfs_exclusive(team->world.vfs, snapshot, team) == 0, "snapshot");
		usleep(20000);
	}
	return NULL;
}

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

static void threads_on_one_file_see_what_they_wrote(void **state)
{
	static void *(*const work[])(void *arg) = {write_slices,   write_slices,   write_slices,
						   replace_wholes, replace_wholes, take_snapshots,
						   read_wholes};
	struct member members[ARRAY_LEN(work)];
	struct team team = {0};
	size_t last = ARRAY_LEN(work) - 1;

	(void)state;
	world_open(&team.world, NULL);
	team.ino = world_create(&team.world, VFS_ROOT, "f");
	assert_int_equal(vfs_open(team.world.vfs, &root_ctx, team.ino, O_RDWR), 0);
	for (size_t i = 0; i < ARRAY_LEN(work); i++) {
		members[i].team = &team;
		members[i].number = (int)(i % WRITERS);
		assert_int_equal(pthread_create(&members[i].thread, NULL, work[i], &members[i]), 0);
	}
	for (size_t i = 0; i < last; i++)
		pthread_join(members[i].thread, NULL);
	atomic_store(&team.stop, true);
	pthread_join(members[last].thread, NULL);
	assert_false(atomic_load(&team.failed));
	vfs_release(team.world.vfs, team.ino);
	assert_int_equal(vfs_exclusive(team.world.vfs, check_store, NULL), 0);
	world_reopen(&team.world);
	assert_int_equal(vfs_exclusive(team.world.vfs, check_store, NULL), 0);
	world_close(&team.world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_on_one_file_see_what_they_wrote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
