/* port_test.c - workspaces to and from folders, archives and files: what goes in comes out. */
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "fixture.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t old_time = INT64_C(1000000000) * 1000000000 + 123456789;

/* A tree with one of everything. */
static void make_tree(struct computer *c)
{
	CLEANUP(mem_free) char *large = mem_alloc(300000);
	struct sys *sys = computer_sys(c);
	int fd;

	for (int i = 0; i < 300000; i++)
		large[i] = (char)(i >> 8);
	assert_int_equal(computer_mkdir(c, "/t/d/e", 0750, true), 0);
	assert_int_equal(computer_write_file(c, "/t/small", "hello", 5, 0640), 0);
	assert_int_equal(computer_write_file(c, "/t/d/large", large, 300000, 0755), 0);
	assert_int_equal(computer_write_file(c, "/t/\xc3\xa4 \xff name", "", 0, 0644), 0);
	assert_int_equal(computer_link(c, "/t/small", "/t/d/again"), 0);
	assert_int_equal(computer_symlink(c, "../small", "/t/d/link"), 0);
	assert_int_equal(sys_mknod(sys, SYS_CWD, SPAN("/t/fifo"), S_IFIFO | 0600, 0), 0);
	assert_int_equal(sys_mknod(sys, SYS_CWD, SPAN("/t/socket"), S_IFSOCK | 0600, 0), 0);
	fd = sys_open(sys, SYS_CWD, SPAN("/t/sparse"), O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	assert_int_equal(sys_write(sys, fd, SPAN("end"), 10 << 20), 3);
	assert_int_equal(sys_close(sys, fd), 0);
	assert_int_equal(
		sys_setxattr(sys, SYS_CWD, SPAN("/t/small"), SPAN("user.k"), SPAN("v\0w"), 0, 0),
		0);
	assert_int_equal(sys_utimens(sys, SYS_CWD, SPAN("/t/small"), old_time, old_time, 0), 0);
	assert_int_equal(sys_utimens(sys, SYS_CWD, SPAN("/t/d"), old_time, old_time, 0), 0);
}

/* Everything of make_tree, as it was, at `root`. */
static void expect_tree(struct computer *c, const char *root)
{
	CLEANUP(buf_clear) struct buf value = BUF_INIT(100);
	struct computer_stat small, again, st;
	struct sys *sys = computer_sys(c);
	char path[200];
	void *bytes;
	size_t len;

#define AT(name) (snprintf(path, sizeof(path), "%s/%s", root, name), path)
	assert_int_equal(computer_stat(c, AT("small"), false, &small), 0);
	assert_int_equal(computer_stat(c, AT("d/again"), false, &again), 0);
	assert_int_equal(small.mode, S_IFREG | 0640);
	assert_int_equal(small.nlink, 2);
	assert_int_equal(small.ino, again.ino);
	assert_int_equal(small.mtime, old_time);
	assert_int_equal(computer_stat(c, AT("d"), false, &st), 0);
	assert_int_equal(st.mtime, old_time);
	assert_int_equal(computer_stat(c, AT("d/e"), false, &st), 0);
	assert_int_equal(st.mode, S_IFDIR | 0750);
	assert_int_equal(computer_read_file(c, AT("d/link"), 100, &bytes, &len), 0);
	assert_string_equal(bytes, "hello");
	free(bytes);
	assert_int_equal(computer_read_file(c, AT("d/large"), 1 << 20, &bytes, &len), 0);
	assert_int_equal(len, 300000);
	for (int i = 0; i < 300000; i++)
		assert_int_equal(((char *)bytes)[i], (char)(i >> 8));
	free(bytes);
	assert_int_equal(computer_stat(c, AT("\xc3\xa4 \xff name"), false, &st), 0);
	assert_int_equal(computer_stat(c, AT("fifo"), false, &st), 0);
	assert_int_equal(st.mode, S_IFIFO | 0600);
	assert_int_equal(computer_stat(c, AT("sparse"), false, &st), 0);
	assert_int_equal(st.size, (10 << 20) + 3);
	assert_int_equal(
		sys_getxattr(sys, SYS_CWD, span_str(AT("small")), SPAN("user.k"), 0, &value), 0);
	assert_int_equal(value.len, 3);
#undef AT
}

static struct computer *with_tree(struct home *home, bool remote)
{
	struct computer *c;

	home_init(home);
	home_owned(home, remote);
	c = home_open(home, "w", 0);
	make_tree(c);
	return c;
}

static void a_folder_goes_out_and_in_again(void **state)
{
	(void)state;
	for (int remote = 0; remote < 2; remote++) {
		struct port_options out = {.path = "/t"}, in = {.path = "/back"};
		struct port_result result;
		struct err err = ERR_INIT;
		struct stat st;
		struct home home;
		struct computer *c = with_tree(&home, remote);

		assert_call(computer_export_dir(c, home_file(&home, "out"), &out, &result, &err),
			    0);
		assert_int_equal(result.files, 9);
		assert_int_equal(result.skipped, 1);
		assert_int_equal(stat(home_file(&home, "out/sparse"), &st), 0);
		assert_true(st.st_blocks < 1000);
		assert_call(computer_export_dir(c, home_file(&home, "out"), &out, &result, &err),
			    -ENOTEMPTY);
		assert_call(computer_import_dir(c, home_file(&home, "out"), &in, &result, &err), 0);
		assert_int_equal(result.files, 9);
		expect_tree(c, "/back");
		/* Again over what is there: the same. */
		assert_call(computer_import_dir(c, home_file(&home, "out"), &in, &result, &err), 0);
		expect_tree(c, "/back");
		out.path = "/none";
		assert_call(computer_export_dir(c, home_file(&home, "out2"), &out, &result, &err),
			    -ENOENT);
		home_close(c);
		home_clear(&home);
	}
}

static void an_archive_goes_out_and_in_again(void **state)
{
	static const char *const filters[] = {NULL, "gzip", "zstd"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
		struct port_options out = {.path = "/t", .owner = true}, in = {.path = "/a/b/"};
		CLEANUP(fd_close) int fd = -1;
		struct port_result result;
		struct err err = ERR_INIT;
		struct home home;
		struct computer *c = with_tree(&home, i == 1);

		fd = open(home_file(&home, "t.tar"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
		assert_call(computer_export_tar(c, fd, filters[i], &out, &result, &err), 0);
		assert_int_equal(result.files, 9);
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		assert_call(computer_import_tar(c, fd, &in, &result, &err), 0);
		expect_tree(c, "/a/b");
		assert_call(computer_export_tar(c, fd, "nothing", &out, &result, &err), -EINVAL);
		home_close(c);
		home_clear(&home);
	}
}

static int stop_at_three(void *arg, const struct port_progress *progress)
{
	(void)arg;
	return progress->files == 3;
}

static void a_caller_can_end_it(void **state)
{
	struct port_options options = {.path = "/t", .progress = stop_at_three};
	struct port_result result;
	struct err err = ERR_INIT;
	struct home home;
	struct computer *c = with_tree(&home, false);

	(void)state;
	assert_call(computer_export_dir(c, home_file(&home, "out"), &options, &result, &err),
		    -ECANCELED);
	options.progress = NULL;
	assert_call(computer_export_dir(c, home_file(&home, "out2"), &options, &result, &err), 0);
	options.progress = stop_at_three;
	options.path = "/in";
	assert_call(computer_import_dir(c, home_file(&home, "out2"), &options, &result, &err),
		    -ECANCELED);
	home_close(c);
	home_clear(&home);
}

static void a_workspace_file_goes_out_and_in_again(void **state)
{
	(void)state;
	for (int remote = 0; remote < 2; remote++) {
		struct err err = ERR_INIT;
		struct home home;
		struct computer *c = with_tree(&home, remote);

		assert_call(computer_export_db(c, home_file(&home, "out.db"), &err), 0);
		assert_call(computer_export_db(c, home_file(&home, "out.db"), &err), -EEXIST);
		assert_call(computer_export_db(c, home_file(&home, "out.txt"), &err), -EINVAL);
		home_close(c);
		home_release(&home);
		assert_call(workspace_import(home_file(&home, "out.db"), "copy", &err), 0);
		assert_call(workspace_import(home_file(&home, "out.db"), "copy", &err), -EEXIST);
		assert_call(workspace_import(home_file(&home, "none.db"), "c2", &err), -ENOENT);
		c = home_open(&home, "copy", 0);
		expect_tree(c, "/t");
		home_close(c);
		home_clear(&home);
	}
}

static void a_file_that_is_no_workspace_is_refused(void **state)
{
	struct err err = ERR_INIT;
	struct home home;
	int fd;

	(void)state;
	home_init(&home);
	fd = open(home_file(&home, "x.db"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "this is no database, whatever it is called", 42), 42);
	close(fd);
	assert_true(workspace_import(home_file(&home, "x.db"), "new", &err) < 0);
	assert_true(err.text[0] && !strchr(err.text, '\n'));
	assert_int_equal(access(home_file(&home, "new.db"), F_OK), -1);
	assert_int_equal(access(home_file(&home, "new.lock"), F_OK), -1);
	home_clear(&home);
}

/* ---- hostile archives ---- */

struct member {
	const char *name;
	mode_t type;
	const char *link; /* symbolic, or hard for a regular file */
};

/* An archive with these members, in a file. */
static int make_archive(const struct home *home, const struct member *members, size_t count)
{
	struct archive *a = archive_write_new();
	struct archive_entry *entry = archive_entry_new();
	int fd = open(home_file(home, "hostile.tar"), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	archive_write_set_format_ustar(a);
	assert_int_equal(archive_write_open_fd(a, fd), ARCHIVE_OK);
	for (size_t i = 0; i < count; i++) {
		archive_entry_clear(entry);
		archive_entry_set_pathname(entry, members[i].name);
		archive_entry_set_mode(entry, members[i].type | 0644);
		if (members[i].link && members[i].type == S_IFLNK)
			archive_entry_set_symlink(entry, members[i].link);
		else if (members[i].link)
			archive_entry_set_hardlink(entry, members[i].link);
		archive_entry_set_size(entry,
				       members[i].type == S_IFREG && !members[i].link ? 4 : 0);
		assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
		if (members[i].type == S_IFREG && !members[i].link)
			assert_int_equal(archive_write_data(a, "evil", 4), 4);
	}
	archive_entry_free(entry);
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void archives_cannot_write_beside_their_place(void **state)
{
	static const struct {
		struct member members[3];
		size_t count;
		int want;
	} rows[] = {
		{{{"../out", S_IFREG, NULL}}, 1, -EPERM},
		{{{"a/../../out", S_IFREG, NULL}}, 1, -EPERM},
		{{{"/out", S_IFREG, NULL}}, 1, 0}, /* inside all the same */
		{{{"l", S_IFLNK, "/"}, {"l/out", S_IFREG, NULL}}, 2, -ELOOP},
		{{{"l", S_IFLNK, ".."}, {"l/d/out", S_IFREG, NULL}}, 2, -ELOOP},
		{{{"l", S_IFLNK, "/"}, {"l", S_IFDIR, NULL}, {"l/out", S_IFREG, NULL}}, 3, -ELOOP},
		{{{"l", S_IFLNK, "/out"}, {"l", S_IFREG, NULL}}, 2, -ELOOP},
		{{{"h", S_IFREG, "../secret"}}, 1, -EPERM},
		{{{"l", S_IFLNK, "/"}, {"h", S_IFREG, "l/secret"}}, 2, -ELOOP},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct port_options in = {.path = "/in"};
		struct port_result result;
		struct err err = ERR_INIT;
		struct computer_stat st;
		struct home home;
		struct computer *c;
		int fd;

		home_init(&home);
		home_owned(&home, false);
		c = home_open(&home, "w", 0);
		assert_int_equal(computer_write_file(c, "/secret", "s", 1, 0600), 0);
		fd = make_archive(&home, rows[i].members, rows[i].count);
		assert_call(computer_import_tar(c, fd, &in, &result, &err), rows[i].want);
		close(fd);
		assert_int_equal(computer_stat(c, "/out", false, &st), -ENOENT);
		assert_int_equal(computer_stat(c, "/secret", false, &st), 0);
		assert_int_equal(st.nlink, 1);
		home_close(c);
		home_clear(&home);
	}
}

static void damaged_archives_are_refused(void **state)
{
	static const struct member members[] = {{"f", S_IFREG, NULL}, {"g", S_IFREG, NULL}};
	struct port_options in = {.path = "/in"};
	struct port_result result;
	struct err err = ERR_INIT;
	struct home home;
	struct computer *c;
	int fd;

	(void)state;
	home_init(&home);
	home_owned(&home, false);
	c = home_open(&home, "w", 0);
	fd = make_archive(&home, members, 2);
	assert_int_equal(pwrite(fd, "garbage", 7, 1024 + 148), 7); /* the second checksum */
	assert_true(computer_import_tar(c, fd, &in, &result, &err) < 0);
	assert_non_null(strstr(err.text, "cannot read the archive"));
	close(fd);
	home_close(c);
	home_clear(&home);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_goes_out_and_in_again),
		cmocka_unit_test(an_archive_goes_out_and_in_again),
		cmocka_unit_test(a_caller_can_end_it),
		cmocka_unit_test(a_workspace_file_goes_out_and_in_again),
		cmocka_unit_test(a_file_that_is_no_workspace_is_refused),
		cmocka_unit_test(archives_cannot_write_beside_their_place),
		cmocka_unit_test(damaged_archives_are_refused),
	};

	return cmocka_run_group_tests_name("computer-port", tests, NULL, NULL);
}
