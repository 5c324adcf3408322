/* coherence_test.c - a mount and somebody who does not come through it see the same files. */
#include "base/parse.h"
#include "live.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void an_open_file_grows_and_shrinks(void **state)
{
	struct live live;
	int64_t ino;
	int fd;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "short");
	ino = live_ino(&live, "file");
	fd = open(live_path(&live, "file"), O_RDONLY | O_CLOEXEC);
	live_check_fd(fd, "short");
	live_put_behind(&live, ino, "now it is much longer than before");
	live_check_fd(fd, "now it is much longer than before");
	live_put_behind(&live, ino, "tiny");
	live_check_fd(fd, "tiny");
	live_put_behind(&live, ino, "");
	live_check_fd(fd, "");
	live_put_behind(&live, ino, "back");
	live_check_fd(fd, "back");
	close(fd);
	live_close(&live);
}

static void a_closed_file_changes(void **state)
{
	struct live live;
	int64_t ino;
	int fd;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "before");
	ino = live_ino(&live, "file");
	live_put_behind(&live, ino, "afterwards");
	fd = open(live_path(&live, "file"), O_RDONLY | O_CLOEXEC);
	live_check_fd(fd, "afterwards");
	close(fd);
	live_close(&live);
}

static void appending_goes_to_the_end_others_made(void **state)
{
	struct live live;
	int64_t ino;
	int fd;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "one ");
	ino = live_ino(&live, "file");
	fd = open(live_path(&live, "file"), O_RDWR | O_APPEND | O_CLOEXEC);
	live_put_behind(&live, ino, "one two ");
	assert_int_equal(write(fd, "three", 5), 5);
	live_check_fd(fd, "one two three");
	close(fd);
	live_check_behind(&live, ino, "one two three");
	live_close(&live);
}

static void a_mapping_sees_changes_and_its_own_are_seen(void **state)
{
	struct live live;
	int64_t ino;
	char *map;
	int fd;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "aaaa");
	ino = live_ino(&live, "file");
	fd = open(live_path(&live, "file"), O_RDWR | O_CLOEXEC);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	assert_memory_equal(map, "aaaa", 4);
	live_put_behind(&live, ino, "bbbb");
	assert_memory_equal(map, "bbbb", 4);
	/* Dirty, and nobody said msync. */
	map[0] = 'c';
	live_check_behind(&live, ino, "cbbb");
	map[1] = 'c';
	live_put_behind(&live, ino, "dddddd");
	assert_memory_equal(map, "dddddd", 6);
	munmap(map, 4096);
	close(fd);
	live_check_behind(&live, ino, "dddddd");
	live_close(&live);
}

static void what_is_written_and_not_closed_is_seen(void **state)
{
	struct live live;
	struct vfs_attr attr;
	int64_t ino;
	int fd;

	(void)state;
	live_open(&live, NULL);
	fd = open(live_path(&live, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	ino = live_ino(&live, "file");
	assert_int_equal(write(fd, "hello", 5), 5);
	assert_int_equal(vfs_getattr(live.vfs, &live.ctx, ino, &attr), 0);
	assert_int_equal(attr.size, 5);
	live_check_behind(&live, ino, "hello");
	assert_int_equal(write(fd, " world", 6), 6);
	live_check_behind(&live, ino, "hello world");
	close(fd);
	live_close(&live);
}

static void writeback_brings_everything(void **state)
{
	const struct vfs_ctx own_template = {
		.who = {.actor = "test", .backend = "fuse", .exec = ""}};
	struct vfs_ctx own = own_template;
	struct live live;
	char name[16], bytes[8];
	int64_t inos[20];
	int fds[20];

	(void)state;
	live_open(&live, NULL);
	own.source = live.fuse; /* so that reading does not ask the kernel first */
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		fds[i] = open(live_path(&live, name), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		inos[i] = live_ino(&live, name);
		assert_int_equal(write(fds[i], "dirty", 5), 5);
		assert_int_equal(vfs_read(live.vfs, &own, inos[i], 0, bytes, 8), 0);
	}
	assert_int_equal(fuse_writeback(live.fuse), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(vfs_read(live.vfs, &own, inos[i], 0, bytes, 8), 5);
		close(fds[i]);
	}
	live_close(&live);
}

static void names_come_and_go(void **state)
{
	struct live live;
	struct vfs_attr attr;
	struct stat stat_buf;
	int64_t dir;

	(void)state;
	live_open(&live, NULL);
	assert_int_equal(mkdir(live_path(&live, "d"), 0755), 0);
	dir = live_ino(&live, "d");
	/* A name that the kernel knows not to be there. */
	assert_int_equal(stat(live_path(&live, "d/x"), &stat_buf), -1);
	assert_int_equal(vfs_create(live.vfs, &live.ctx, dir, SPAN("x"), 0644, 0, &attr), 0);
	fuse_notified(live.fuse);
	assert_int_equal(stat(live_path(&live, "d/x"), &stat_buf), 0);
	assert_int_equal(stat_buf.st_ino, attr.ino);
	assert_int_equal(vfs_rename(live.vfs, &live.ctx, dir, SPAN("x"), 1, SPAN("y"), 0), 0);
	fuse_notified(live.fuse);
	assert_int_equal(stat(live_path(&live, "d/x"), &stat_buf), -1);
	assert_int_equal(stat(live_path(&live, "y"), &stat_buf), 0);
	assert_int_equal(vfs_unlink(live.vfs, &live.ctx, 1, SPAN("y")), 0);
	fuse_notified(live.fuse);
	assert_int_equal(stat(live_path(&live, "y"), &stat_buf), -1);
	vfs_forget(live.vfs, attr.ino, 1);
	assert_int_equal(vfs_rmdir(live.vfs, &live.ctx, 1, SPAN("d")), 0);
	fuse_notified(live.fuse);
	assert_int_equal(stat(live_path(&live, "d"), &stat_buf), -1);
	live_close(&live);
}

static int count_listing(const struct live *live, const char *name)
{
	char command[300];
	char line[32];
	int64_t count;
	FILE *pipe;

	snprintf(command, sizeof(command), "ls -a %s | wc -l", live_path(live, name));
	pipe = popen(command, "re");
	assert_non_null(pipe);
	assert_non_null(fgets(line, sizeof(line), pipe));
	line[strcspn(line, "\n")] = '\0';
	pclose(pipe);
	assert_int_equal(parse_i64(line, &count), 0);
	return (int)count;
}

static void a_cached_listing_is_renewed(void **state)
{
	struct live live;
	struct vfs_attr attr;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "one", "1");
	assert_int_equal(count_listing(&live, ""), 3);
	assert_int_equal(count_listing(&live, ""), 3);
	assert_int_equal(vfs_create(live.vfs, &live.ctx, 1, SPAN("two"), 0644, 0, &attr), 0);
	vfs_forget(live.vfs, attr.ino, 1);
	fuse_notified(live.fuse);
	assert_int_equal(count_listing(&live, ""), 4);
	assert_int_equal(vfs_unlink(live.vfs, &live.ctx, 1, SPAN("one")), 0);
	fuse_notified(live.fuse);
	assert_int_equal(count_listing(&live, ""), 3);
	live_close(&live);
}

static void attributes_change(void **state)
{
	struct live live;
	struct vfs_attr attr = {.mode = 0600, .uid = 5, .mtime = 1234567890123456789};
	struct stat stat_buf;
	int64_t ino;
	int fd;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "x");
	ino = live_ino(&live, "file");
	fd = open(live_path(&live, "file"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(vfs_setattr(live.vfs, &live.ctx, ino,
				     VFS_SET_MODE | VFS_SET_UID | VFS_SET_MTIME, &attr, &attr),
			 0);
	fuse_notified(live.fuse);
	assert_int_equal(fstat(fd, &stat_buf), 0);
	assert_int_equal(stat_buf.st_mode, S_IFREG | 0600);
	assert_int_equal(stat_buf.st_uid, 5);
	assert_int_equal(stat_buf.st_mtim.tv_sec, 1234567890);
	assert_int_equal(stat_buf.st_mtim.tv_nsec, 123456789);
	/* And telling the kernel has not changed what we have. */
	assert_int_equal(vfs_getattr(live.vfs, &live.ctx, ino, &attr), 0);
	assert_int_equal(attr.mtime, 1234567890123456789);
	assert_int_equal(attr.size, 1);
	close(fd);
	live_close(&live);
}

static void times_of_the_kernel_arrive(void **state)
{
	const struct timespec times[2] = {{.tv_sec = 1000, .tv_nsec = 1},
					  {.tv_sec = 2000, .tv_nsec = 2}};
	struct live live;
	struct vfs_attr attr;
	int64_t ino;
	int fd;

	(void)state;
	live_open(&live, NULL);
	fd = open(live_path(&live, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	ino = live_ino(&live, "file");
	assert_int_equal(write(fd, "hello", 5), 5);
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
	assert_int_equal(vfs_getattr(live.vfs, &live.ctx, ino, &attr), 0);
	assert_int_equal(attr.mtime, 2000LL * 1000000000 + 2);
	assert_int_equal(attr.atime, 1000LL * 1000000000 + 1);
	live_close(&live);
}

/* Writers on both sides, each in its own half of the file, and nothing gets lost. */
static void both_sides_write(void **state)
{
	const size_t half = 1 << 19;
	char *want = calloc(2, half), *have = calloc(2, half);
	struct live live;
	unsigned seed = 3;
	int64_t ino;
	int fd;

	(void)state;
	live_open(&live, NULL);
	fd = open(live_path(&live, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(ftruncate(fd, (off_t)(2 * half)), 0);
	ino = live_ino(&live, "file");
	for (int i = 0; i < 300; i++) {
		bool behind = i % 3 == 0;
		size_t at = (size_t)rand_r(&seed) % (half - 5000) + (behind ? half : 0);
		size_t len = 1 + (size_t)rand_r(&seed) % 5000;

		for (size_t k = 0; k < len; k++)
			want[at + k] = (char)rand_r(&seed);
		if (!behind)
			assert_int_equal(pwrite(fd, want + at, len, (off_t)at), len);
		else
			assert_int_equal(
				vfs_write(live.vfs, &live.ctx, ino, (int64_t)at, want + at, len, 0),
				len);
		if (behind && i % 2)
			fuse_notified(live.fuse);
	}
	fuse_notified(live.fuse);
	assert_int_equal(pread(fd, have, 2 * half, 0), 2 * half);
	assert_memory_equal(have, want, 2 * half);
	memset(have, 0, 2 * half);
	assert_int_equal(vfs_read(live.vfs, &live.ctx, ino, 0, have, 2 * half), 2 * half);
	assert_memory_equal(have, want, 2 * half);
	close(fd);
	free(want);
	free(have);
	live_close(&live);
}

static void with_write_through_too(void **state)
{
	const struct fuse_options options = {.name = "test", .write_through = true, .threads = 2};
	struct live live;
	int64_t ino;
	int fd;

	(void)state;
	live_open(&live, &options);
	live_put(&live, "file", "short");
	ino = live_ino(&live, "file");
	fd = open(live_path(&live, "file"), O_RDWR | O_CLOEXEC);
	live_put_behind(&live, ino, "now it is longer");
	live_check_fd(fd, "now it is longer");
	live_put_behind(&live, ino, "tiny");
	live_check_fd(fd, "tiny");
	assert_int_equal(pwrite(fd, "T", 1, 0), 1);
	live_check_behind(&live, ino, "Tiny");
	close(fd);
	live_close(&live);
}

static int take_snapshot(void *arg, struct store *store)
{
	(void)arg;
	return store_snapshot(store, "before", NULL);
}

static int restore(void *arg, struct store *store)
{
	int r = store_restore(store, "before", NULL, NULL);

	if (r == 0)
		vfs_reset(arg);
	return r;
}

static void another_state_is_restored(void **state)
{
	struct live live;
	struct stat stat_buf;
	char *map;
	int fd;

	(void)state;
	live_open(&live, NULL);
	assert_int_equal(mkdir(live_path(&live, "d"), 0755), 0);
	live_put(&live, "d/file", "before");
	live_put(&live, "gone", "x");
	assert_int_equal(fuse_writeback(live.fuse), 0);
	assert_int_equal(vfs_exclusive(live.vfs, take_snapshot, NULL), 0);

	live_put(&live, "d/file", "something longer");
	live_put(&live, "new", "x");
	assert_int_equal(unlink(live_path(&live, "gone")), 0);
	fd = open(live_path(&live, "d/file"), O_RDONLY | O_CLOEXEC);
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_memory_equal(map, "something longer", 16);
	assert_int_equal(stat(live_path(&live, "gone"), &stat_buf), -1);

	assert_int_equal(fuse_writeback(live.fuse), 0);
	assert_int_equal(vfs_exclusive(live.vfs, restore, live.vfs), 0);
	fuse_notified(live.fuse);
	live_check_fd(fd, "before");
	assert_memory_equal(map, "before", 7);
	assert_int_equal(stat(live_path(&live, "gone"), &stat_buf), 0);
	assert_int_equal(stat(live_path(&live, "new"), &stat_buf), -1);
	live_put(&live, "new", "works");
	munmap(map, 4096);
	close(fd);
	live_close(&live);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_open_file_grows_and_shrinks),
		cmocka_unit_test(a_closed_file_changes),
		cmocka_unit_test(appending_goes_to_the_end_others_made),
		cmocka_unit_test(a_mapping_sees_changes_and_its_own_are_seen),
		cmocka_unit_test(what_is_written_and_not_closed_is_seen),
		cmocka_unit_test(writeback_brings_everything),
		cmocka_unit_test(names_come_and_go),
		cmocka_unit_test(a_cached_listing_is_renewed),
		cmocka_unit_test(attributes_change),
		cmocka_unit_test(times_of_the_kernel_arrive),
		cmocka_unit_test(both_sides_write),
		cmocka_unit_test(with_write_through_too),
		cmocka_unit_test(another_state_is_restored),
	};
	int failed;

	live_need(argc, argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	live_uring_restore();
	return failed;
}
