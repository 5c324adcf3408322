/* count_test.c - how many requests each operation of a program costs: docs/fuse-tuning.md. */
#include "live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define COSTS(live, want) assert_string_equal(live_counts(live), want)

static char byte;

static void nothing_is_asked_before_anything_is_done(void **state)
{
	struct live live;
	struct stat stat_buf;

	(void)state;
	live_open(&live, NULL);
	assert_int_equal(stat(live.mnt, &stat_buf), 0);
	live_counts(&live);
	assert_int_equal(stat(live.mnt, &stat_buf), 0);
	COSTS(&live, "");
	live_close(&live);
}

/* So many of each of the three, hardly any SETATTR, and nothing else. */
static void check_new_files(const char *counts, int files)
{
	char want[128], times[32] = "";

	for (int setattrs = 0; setattrs <= files / 2; setattrs++) {
		if (setattrs > 0)
			snprintf(times, sizeof(times), " SETATTR=%d", setattrs);
		snprintf(want, sizeof(want), "LOOKUP=%d%s WRITE=%d CREATE=%d", files, times, files,
			 files);
		if (strcmp(want, counts) == 0)
			return;
	}
	fail_msg("%s", counts);
}

static void a_new_file_costs_three(void **state)
{
	struct live live;
	int fd;

	(void)state;
	live_open(&live, NULL);
	/* The first tells the kernel that there are no extended attributes and no FLUSH. */
	live_put(&live, "first", "x");
	live_counts(&live);
	for (int i = 0; i < 50; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		fd = open(live_path(&live, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		assert_int_equal(write(fd, "hello", 5), 5);
		close(fd);
	}
	/* And a SETATTR where the clock ticked between CREATE and write: the new times. */
	check_new_files(live_counts(&live), 50);
	live_close(&live);
}

static void opening_and_reading_what_is_cached_costs_nothing(void **state)
{
	struct live live;
	struct stat stat_buf;
	int fd;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "hello");
	assert_int_equal(stat(live_path(&live, "file"), &stat_buf), 0);
	fd = open(live_path(&live, "file"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, &byte, 1), 1);
	close(fd);
	live_counts(&live);
	for (int i = 0; i < 3; i++) {
		fd = open(live_path(&live, "file"), O_RDONLY | O_CLOEXEC);
		assert_int_equal(read(fd, &byte, 1), 1);
		close(fd);
		assert_int_equal(stat(live_path(&live, "file"), &stat_buf), 0);
		assert_int_equal(access(live_path(&live, "missing"), F_OK), -1);
		assert_int_equal(access(live_path(&live, "file"), R_OK), 0);
	}
	/* Every close() of a mount that writes back makes the kernel unsure of st_blocks. */
	COSTS(&live, "LOOKUP=1 GETATTR=3");
	live_close(&live);
}

static void writing_in_small_pieces_costs_one(void **state)
{
	struct live live;
	int fd;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "x");
	fd = open(live_path(&live, "file"), O_WRONLY | O_CLOEXEC);
	usleep(20000);
	live_counts(&live);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(write(fd, "hello", 5), 5);
	COSTS(&live, "");
	close(fd);
	COSTS(&live, "SETATTR=1 WRITE=1");
	live_close(&live);
}

static void directories(void **state)
{
	struct live live;
	struct stat stat_buf;

	(void)state;
	live_open(&live, NULL);
	assert_int_equal(stat(live.mnt, &stat_buf), 0);
	live_counts(&live);
	assert_int_equal(mkdir(live_path(&live, "d"), 0755), 0);
	COSTS(&live, "LOOKUP=1 MKDIR=1");
	assert_int_equal(mkdir(live_path(&live, "d/e"), 0755), 0);
	COSTS(&live, "LOOKUP=1 MKDIR=1");
	assert_int_equal(rmdir(live_path(&live, "d/e")), 0);
	COSTS(&live, "RMDIR=1");
	assert_int_equal(symlink("x", live_path(&live, "d/s")), 0);
	COSTS(&live, "LOOKUP=1 SYMLINK=1");
	live_close(&live);
}

static void unlink_costs_itself_and_a_time(void **state)
{
	struct live live;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "x");
	live_put(&live, "old", "x");
	usleep(20000);
	live_counts(&live);
	assert_int_equal(unlink(live_path(&live, "file")), 0);
	COSTS(&live, "SETATTR=1 UNLINK=1");
	assert_int_equal(rename(live_path(&live, "old"), live_path(&live, "new")), 0);
	COSTS(&live, "LOOKUP=1 SETATTR=1 RENAME=1");
	live_close(&live);
}

/* As ls -l: every entry with its attributes. */
static int list(const struct live *live, const char *name)
{
	DIR *dir = opendir(live_path(live, name));
	struct dirent *entry;
	struct stat stat_buf;
	int count = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		assert_int_equal(fstatat(dirfd(dir), entry->d_name, &stat_buf, AT_SYMLINK_NOFOLLOW),
				 0);
		count++;
	}
	closedir(dir);
	return count;
}

static void a_listing_brings_the_attributes(void **state)
{
	struct live live;
	char name[16];

	(void)state;
	live_open(&live, NULL);
	assert_int_equal(mkdir(live_path(&live, "d"), 0755), 0);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "d/f%d", i);
		live_put(&live, name, "x");
	}
	live_counts(&live);
	assert_int_equal(list(&live, "d"), 102);
	/* The last one says that there is nothing more. The directory and the root had changed, and
	 * reading changes an atime. */
	COSTS(&live, "GETATTR=3 READDIRPLUS=2");
	assert_int_equal(list(&live, "d"), 102);
	COSTS(&live, "GETATTR=1");
	assert_int_equal(list(&live, "d"), 102);
	COSTS(&live, "");
	live_close(&live);
}

static void others_are_asked_for_permission_only_once(void **state)
{
	const struct fuse_options options = {.name = "test", .allow_other = true, .threads = 2};
	struct live live;
	struct stat stat_buf;

	(void)state;
	live_open(&live, &options);
	live_put(&live, "file", "x");
	assert_int_equal(stat(live_path(&live, "file"), &stat_buf), 0);
	live_counts(&live);
	for (int i = 0; i < 3; i++)
		assert_int_equal(stat(live_path(&live, "file"), &stat_buf), 0);
	assert_true(strlen(live_counts(&live)) <= strlen("GETATTR=1"));
	live_close(&live);
}

static void extended_attributes_cost_a_request_per_new_file(void **state)
{
	const struct fuse_options options = {.name = "test", .xattrs = true, .threads = 2};
	struct live live;
	char value[8];

	(void)state;
	live_open(&live, &options);
	live_put(&live, "file", "x");
	assert_non_null(strstr(live_counts(&live), "GETXATTR=1"));
	assert_int_equal(setxattr(live_path(&live, "file"), "user.a", "b", 1, 0), 0);
	assert_int_equal(getxattr(live_path(&live, "file"), "user.a", value, 8), 1);
	live_close(&live);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_asked_before_anything_is_done),
		cmocka_unit_test(a_new_file_costs_three),
		cmocka_unit_test(opening_and_reading_what_is_cached_costs_nothing),
		cmocka_unit_test(writing_in_small_pieces_costs_one),
		cmocka_unit_test(directories),
		cmocka_unit_test(unlink_costs_itself_and_a_time),
		cmocka_unit_test(a_listing_brings_the_attributes),
		cmocka_unit_test(others_are_asked_for_permission_only_once),
		cmocka_unit_test(extended_attributes_cost_a_request_per_new_file),
	};
	int failed;

	live_need(argc, argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	live_uring_restore();
	return failed;
}
