/* sys_path_test.c - where the paths of struct sys lead. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* ---- paths ---- */

static void paths_lead_where_linux_says(void **state)
{
	static const struct {
		const char *path;
		int flags, want;
	} rows[] = {
		{"/", 0, 0},
		{"//", 0, 0},
		{".", 0, 0},
		{"..", 0, 0},
		{"../../..", 0, 0},
		{"../../d/e/../file", 0, 0},
		{"d/file", 0, 0},
		{"d//file", 0, 0},
		{"d/./file", 0, 0},
		{"d/file/", 0, -ENOTDIR},
		{"d/file/.", 0, -ENOTDIR},
		{"d/file/..", 0, -ENOTDIR},
		{"d/file/x", 0, -ENOTDIR},
		{"d/missing", 0, -ENOENT},
		{"d/missing/x", 0, -ENOENT},
		{"", 0, -ENOENT},
		{"", AT_EMPTY_PATH, 0},
		{"link", 0, 0},
		{"link/", 0, 0},
		{"link/f", 0, 0},
		{"link/../file", 0, 0},
		{"link", AT_SYMLINK_NOFOLLOW, 0},
		{"link/", AT_SYMLINK_NOFOLLOW, 0},
		{"abs", 0, 0},
		{"abs/", 0, -ENOTDIR},
		{"up/file", 0, 0},
		{"up/../d/file", 0, 0},
		{"loop", 0, -ELOOP},
		{"loop", AT_SYMLINK_NOFOLLOW, 0},
		{"loop/", AT_SYMLINK_NOFOLLOW, -ELOOP},
		{"loop/x", 0, -ELOOP},
		{"none", 0, -ENOENT},
		{"none", AT_SYMLINK_NOFOLLOW, 0},
		{"none/", AT_SYMLINK_NOFOLLOW, -ENOENT},
		{"d/file", 0x40000000, -EINVAL},
	};
	struct bench b;

	(void)state;
	start(&b);
	make_tree(&b);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int r = do_stat(b.sys, rows[i].path, rows[i].flags);

		if (r != rows[i].want)
			fail_msg("'%s' %x: %d, not %d", rows[i].path, rows[i].flags, r,
				 rows[i].want);
	}
	finish(&b);
}

static void names_and_paths_have_their_limits(void **state)
{
	char name[SYS_NAME_MAX + 2], path[SYS_PATH_MAX + 2];
	struct bench b;

	(void)state;
	start(&b);
	memset(name, 'n', sizeof(name));
	name[SYS_NAME_MAX + 1] = '\0';
	assert_int_equal(do_stat(b.sys, name, 0), -ENAMETOOLONG);
	assert_int_equal(do_mkdir(b.sys, name), -ENAMETOOLONG);
	name[SYS_NAME_MAX] = '\0';
	assert_int_equal(do_mkdir(b.sys, name), 0);
	memset(path, '/', sizeof(path));
	path[SYS_PATH_MAX] = '\0';
	assert_int_equal(do_stat(b.sys, path, 0), 0);
	path[SYS_PATH_MAX] = '/';
	path[SYS_PATH_MAX + 1] = '\0';
	assert_int_equal(do_stat(b.sys, path, 0), -ENAMETOOLONG);
	assert_int_equal(sys_mkdir(b.sys, SYS_CWD, span_of("a\0b", 3), 0755), -EINVAL);
	finish(&b);
}

static void forty_links_are_followed_and_no_more(void **state)
{
	char name[16], target[16];
	struct bench b;

	(void)state;
	start(&b);
	put(b.sys, "l0", "end");
	for (int i = 1; i <= 41; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		snprintf(target, sizeof(target), "l%d", i - 1);
		assert_int_equal(do_symlink(b.sys, name, target), 0);
	}
	check_file(b.sys, "l40", "end");
	assert_int_equal(do_stat(b.sys, "l41", 0), -ELOOP);
	finish(&b);
}

static void real_paths_have_no_links(void **state)
{
	static const struct {
		const char *path, *want;
		int r;
	} rows[] = {
		{"/", "/", 0},
		{"d/../..", "/", 0},
		{"link/f", "/d/e/f", 0},
		{"up/e", "/d/e", 0},
		{"abs", "/d/file", 0},
		{"link/..", "/d", 0},
		{"d/e/./../e", "/d/e", 0},
		{"none", "", -ENOENT},
		{"loop", "", -ELOOP},
	};
	struct bench b;
	int fd;

	(void)state;
	start(&b);
	make_tree(&b);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_clear) struct buf path = BUF_INIT(SYS_PATH_MAX);

		assert_int_equal(sys_realpath(b.sys, SYS_CWD, span_str(rows[i].path), &path),
				 rows[i].r);
		assert_string_equal(path.data, rows[i].want);
	}
	fd = do_open(b.sys, "link", O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	for (int i = 0; i < 2; i++) {
		CLEANUP(buf_clear) struct buf path = BUF_INIT(SYS_PATH_MAX);

		assert_int_equal(sys_realpath(b.sys, fd, i ? SPAN("../file") : SPAN("f"), &path),
				 0);
		assert_string_equal(path.data, i ? "/d/file" : "/d/e/f");
	}
	finish(&b);
}

static void paths_start_at_descriptors(void **state)
{
	struct sys_stat st;
	struct bench b;
	int d, f, p;

	(void)state;
	start(&b);
	make_tree(&b);
	d = do_open(b.sys, "d", O_RDONLY | O_DIRECTORY);
	f = do_open(b.sys, "d/file", O_RDONLY);
	p = do_open(b.sys, "link", O_PATH | O_NOFOLLOW);
	assert_true(d >= 0 && f >= 0 && p >= 0);
	assert_int_equal(sys_stat(b.sys, d, SPAN("e/f"), 0, &st), 0);
	assert_int_equal(sys_stat(b.sys, d, SPAN("../d/file"), 0, &st), 0);
	assert_int_equal(sys_stat(b.sys, d, SPAN("../../../../d/file"), 0, &st), 0);
	assert_int_equal(sys_stat(b.sys, d, SPAN("/d/file"), 0, &st), 0);
	assert_int_equal(sys_stat(b.sys, f, SPAN("x"), 0, &st), -ENOTDIR);
	assert_int_equal(sys_stat(b.sys, f, SPAN("/d/file"), 0, &st), 0);
	assert_int_equal(sys_stat(b.sys, 99, SPAN("x"), 0, &st), -EBADF);
	assert_int_equal(sys_stat(b.sys, 99, SPAN("/d"), 0, &st), 0);
	assert_int_equal(sys_stat(b.sys, f, SPAN(""), AT_EMPTY_PATH, &st), 0);
	assert_int_equal(st.size, 4);
	assert_int_equal(sys_stat(b.sys, p, SPAN(""), AT_EMPTY_PATH, &st), 0);
	assert_true(S_ISLNK(st.mode));
	/* A directory that is gone has no names, and one that was moved goes with its names. */
	assert_int_equal(do_rename(b.sys, "d", "moved", 0), 0);
	assert_int_equal(sys_stat(b.sys, d, SPAN("e/f"), 0, &st), 0);
	assert_int_equal(sys_close(b.sys, d), 0);
	assert_int_equal(sys_stat(b.sys, d, SPAN("e/f"), 0, &st), -EBADF);
	assert_int_equal(do_mkdir(b.sys, "gone"), 0);
	d = do_open(b.sys, "gone", O_RDONLY);
	assert_int_equal(do_unlink(b.sys, "gone", AT_REMOVEDIR), 0);
	assert_int_equal(sys_stat(b.sys, d, SPAN("x"), 0, &st), -ENOENT);
	assert_int_equal(sys_mkdir(b.sys, d, SPAN("x"), 0755), -ENOENT);
	assert_int_equal(sys_fstat(b.sys, d, &st), 0);
	assert_int_equal(st.nlink, 0);
	finish(&b);
}

static void last_names_are_judged_as_linux_does(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	make_tree(&b);
	assert_int_equal(do_mkdir(b.sys, "/"), -EEXIST);
	assert_int_equal(do_mkdir(b.sys, "d/."), -EEXIST);
	assert_int_equal(do_mkdir(b.sys, "d/.."), -EEXIST);
	assert_int_equal(do_mkdir(b.sys, "none"), -EEXIST);
	assert_int_equal(do_mkdir(b.sys, "none/"), -EEXIST);
	assert_int_equal(do_symlink(b.sys, "new/", "x"), -ENOENT);
	assert_int_equal(do_symlink(b.sys, "d/", "x"), -EEXIST);
	assert_int_equal(do_symlink(b.sys, "new", ""), -ENOENT);
	assert_int_equal(do_unlink(b.sys, ".", AT_REMOVEDIR), -EINVAL);
	assert_int_equal(do_unlink(b.sys, "d/..", AT_REMOVEDIR), -ENOTEMPTY);
	assert_int_equal(do_unlink(b.sys, "/", AT_REMOVEDIR), -EBUSY);
	assert_int_equal(do_unlink(b.sys, "d", AT_REMOVEDIR), -ENOTEMPTY);
	assert_int_equal(do_unlink(b.sys, "link/", AT_REMOVEDIR), -ENOTDIR);
	assert_int_equal(do_unlink(b.sys, "/", 0), -EISDIR);
	assert_int_equal(do_unlink(b.sys, "d", 0), -EISDIR);
	assert_int_equal(do_unlink(b.sys, "d/", 0), -EISDIR);
	assert_int_equal(do_unlink(b.sys, "d/file/", 0), -ENOTDIR);
	assert_int_equal(do_unlink(b.sys, "x/", 0), -ENOENT);
	assert_int_equal(do_unlink(b.sys, "d/file", 1), -EINVAL);
	assert_int_equal(do_rename(b.sys, ".", "x", 0), -EBUSY);
	assert_int_equal(do_rename(b.sys, "d", "/", 0), -EBUSY);
	assert_int_equal(do_rename(b.sys, "d", "..", 1 /* RENAME_NOREPLACE */), -EEXIST);
	assert_int_equal(do_rename(b.sys, "d/file", "x/", 0), -ENOTDIR);
	assert_int_equal(do_rename(b.sys, "d/file/", "x", 0), -ENOTDIR);
	assert_int_equal(do_rename(b.sys, "missing", "x", 0), -ENOENT);
	assert_int_equal(do_rename(b.sys, "d/e", "y/", 0), 0);
	assert_int_equal(do_stat(b.sys, "y/f", 0), 0);
	assert_int_equal(do_rename(b.sys, "d/file", "link", 0), 0); /* the link, not what it says */
	check_file(b.sys, "link", "file");
	finish(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_lead_where_linux_says),
		cmocka_unit_test(names_and_paths_have_their_limits),
		cmocka_unit_test(forty_links_are_followed_and_no_more),
		cmocka_unit_test(real_paths_have_no_links),
		cmocka_unit_test(paths_start_at_descriptors),
		cmocka_unit_test(last_names_are_judged_as_linux_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
