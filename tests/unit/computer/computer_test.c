/* computer_test.c - the library, where this process owns the workspace and where another one does:
 * the same tests, the same results.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Run a test in both modes. */
static void both(void (*body)(struct home *home))
{
	for (int remote = 0; remote < 2; remote++) {
		struct home home;

		home_init(&home);
		home_owned(&home, remote);
		body(&home);
		home_clear(&home);
	}
}

static void put(struct computer *computer, const char *path, const char *text)
{
	assert_int_equal(computer_write_file(computer, path, text, strlen(text), 0644), 0);
}

static void expect(struct computer *computer, const char *path, const char *text)
{
	void *bytes = NULL;
	size_t len;
	int r = computer_read_file(computer, path, 1 << 20, &bytes, &len);

	if (!text) {
		assert_int_equal(r, -ENOENT);
		return;
	}
	assert_int_equal(r, 0);
	assert_string_equal(bytes, text);
	assert_int_equal(len, strlen(text));
	free(bytes);
}

/* ---- files ---- */

static void files_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	struct computer_stat st;
	char small[16];
	void *bytes;
	size_t len;

	put(c, "/a.txt", "hello");
	expect(c, "a.txt", "hello");
	assert_int_equal(computer_stat(c, "/a.txt", true, &st), 0);
	assert_int_equal(st.size, 5);
	assert_int_equal(st.mode, S_IFREG | 0644);
	assert_int_equal(computer_pwrite(c, "/a.txt", "J", 1, 0), 1);
	assert_int_equal(computer_pread(c, "/a.txt", small, sizeof(small), 0), 5);
	assert_memory_equal(small, "Jello", 5);
	assert_int_equal(computer_pread(c, "/a.txt", small, sizeof(small), 4), 1);
	assert_int_equal(computer_pread(c, "/a.txt", small, sizeof(small), 5), 0);
	assert_int_equal(computer_pread(c, "/a.txt", small, sizeof(small), -1), -EINVAL);
	assert_int_equal(computer_truncate(c, "/a.txt", 2), 0);
	expect(c, "/a.txt", "Je");
	assert_int_equal(computer_read_file(c, "/a.txt", 1, &bytes, &len), -EFBIG);
	assert_int_equal(computer_read_file(c, "/a.txt", 2, &bytes, &len), 0);
	free(bytes);
	assert_int_equal(computer_mkdir(c, "/d", 0700, false), 0);
	assert_int_equal(computer_mkdir(c, "/d", 0700, false), -EEXIST);
	assert_int_equal(computer_mkdir(c, "/d/e/f", 0750, true), 0);
	assert_int_equal(computer_mkdir(c, "/d/e/f", 0750, true), 0);
	assert_int_equal(computer_mkdir(c, "/a.txt/x", 0750, true), -ENOTDIR);
	assert_int_equal(computer_mkdir(c, "/a.txt", 0750, true), -EEXIST);
	assert_int_equal(computer_stat(c, "/d/e/f", true, &st), 0);
	assert_int_equal(st.mode, S_IFDIR | 0750);
	assert_int_equal(computer_symlink(c, "../a.txt", "/d/link"), 0);
	assert_int_equal(computer_readlink(c, "/d/link", small, sizeof(small)), 8);
	assert_string_equal(small, "../a.txt");
	assert_int_equal(computer_readlink(c, "/d/link", small, 8), -ERANGE);
	expect(c, "/d/link", "Je");
	assert_int_equal(computer_link(c, "/a.txt", "/b.txt"), 0);
	assert_int_equal(computer_stat(c, "/b.txt", false, &st), 0);
	assert_int_equal(st.nlink, 2);
	assert_int_equal(computer_chmod(c, "/b.txt", 0600), 0);
	assert_int_equal(computer_rename_file(c, "/b.txt", "/c.txt"), 0);
	expect(c, "/b.txt", NULL);
	assert_int_equal(computer_unlink(c, "/c.txt"), 0);
	assert_int_equal(computer_unlink(c, "/c.txt"), -ENOENT);
	assert_int_equal(computer_rmdir(c, "/d"), -ENOTEMPTY);
	assert_int_equal(computer_remove_tree(c, "/d"), 0);
	assert_int_equal(computer_remove_tree(c, "/d"), -ENOENT);
	assert_int_equal(computer_remove_tree(c, "/"), -EBUSY);
	expect(c, "/a.txt", "Je");
	assert_int_equal(computer_sync(c), 0);
	home_close(c);
}

static void files_are_read_and_written(void **state)
{
	(void)state;
	both(files_body);
}

static void large_body(struct home *home)
{
	const size_t size = (5 << 20) + 12345;
	struct computer *c = home_open(home, "w", 0);
	CLEANUP(mem_free) char *bytes = mem_alloc(size);
	CLEANUP(mem_free) char *again = mem_alloc(size);
	struct computer_stat st;
	void *whole;
	size_t len;

	for (size_t i = 0; i < size; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	put(c, "/target", "old");
	assert_int_equal(computer_symlink(c, "target", "/large"), 0);
	assert_int_equal(computer_write_file(c, "/large", bytes, size, 0640), 0);
	assert_int_equal(computer_stat(c, "/large", false, &st), 0);
	assert_true(S_ISLNK(st.mode));
	assert_int_equal(computer_read_file(c, "/target", size, &whole, &len), 0);
	assert_int_equal(len, size);
	assert_memory_equal(whole, bytes, size);
	free(whole);
	assert_int_equal(computer_read_file(c, "/target", size - 1, &whole, &len), -EFBIG);
	assert_int_equal(computer_pwrite(c, "/target", bytes + 1, size - 1, 0), size - 1);
	assert_int_equal(computer_pread(c, "/target", again, size, 0), size);
	assert_memory_equal(again, bytes + 1, size - 1);
	home_close(c);
}

static void files_larger_than_a_message_are_whole(void **state)
{
	(void)state;
	both(large_body);
}

static int count_entry(void *arg, const char *name, const struct computer_stat *st)
{
	int *count = arg;

	assert_int_equal(strncmp(name, "file", 4), 0);
	assert_true(S_ISREG(st->mode));
	return ++*count == 700 ? 42 : 0;
}

static void list_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	char path[32];
	int count = 0;

	assert_int_equal(computer_mkdir(c, "/many", 0755, false), 0);
	for (int i = 0; i < 600; i++) {
		snprintf(path, sizeof(path), "/many/file%d", i);
		put(c, path, "");
	}
	assert_int_equal(computer_list(c, "/many", count_entry, &count), 0);
	assert_int_equal(count, 600);
	assert_int_equal(computer_list(c, "/many", count_entry, &count), 42);
	assert_int_equal(computer_list(c, "/none", count_entry, &count), -ENOENT);
	assert_int_equal(computer_list(c, "/many/file1", count_entry, &count), -ENOTDIR);
	assert_int_equal(computer_remove_tree(c, "/many"), 0);
	home_close(c);
}

static void directories_are_listed_and_removed_whole(void **state)
{
	(void)state;
	both(list_body);
}

static void readonly_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	struct computer_err err;

	put(c, "/f", "x");
	home_close(c);
	c = home_open(home, "w", COMPUTER_READONLY);
	expect(c, "/f", "x");
	assert_int_equal(computer_write_file(c, "/f", "y", 1, 0644), -EROFS);
	assert_int_equal(computer_unlink(c, "/f"), -EROFS);
	assert_int_equal(sys_open(computer_sys(c), SYS_CWD, SPAN("f"), O_RDWR, 0), -EROFS);
	assert_int_equal(sys_open(computer_sys(c), SYS_CWD, SPAN("g"), O_CREAT, 0644), -EROFS);
	assert_int_equal(computer_snapshot(c, "s", &err), -EROFS);
	expect(c, "/f", "x");
	home_close(c);
}

static void a_readonly_handle_changes_nothing(void **state)
{
	(void)state;
	both(readonly_body);
}

/* ---- snapshots ---- */

static int collect_snapshot(void *arg, const struct computer_snapshot *snapshot)
{
	return text_add(arg, "%s:%llu ", snapshot->name, (unsigned long long)snapshot->inodes);
}

/* The workspace as it was at "first". */
static void expect_past(struct home *home)
{
	struct computer *past;
	struct err err = ERR_INIT;

	home->remote = true; /* we own it ourselves now, or another does: it is not free */
	past = home_open(home, "w@first", 0);
	expect(past, "/f", "one");
	expect(past, "/g", NULL);
	assert_int_equal(computer_write_file(past, "/f", "x", 1, 0644), -EROFS);
	assert_int_equal(computer_snapshot(past, "third", err_api(&err)), -EROFS);
	home_close(past);
	home->remote = home->owner != 0;
}

static void expect_forks(struct home *home)
{
	struct computer *other;

	home->remote = false;
	other = home_open(home, "fork1", 0);
	expect(other, "/f", "one");
	put(other, "/f", "mine");
	home_close(other);
	other = home_open(home, "fork2", 0);
	expect(other, "/f", "two");
	home_close(other);
	home->remote = home->owner != 0;
}

static void go_back(struct computer *c)
{
	struct err err = ERR_INIT;

	assert_call(computer_restore(c, "first", "kept", err_api(&err)), 0);
	expect(c, "/f", "one");
	expect(c, "/g", NULL);
	assert_call(computer_restore(c, "kept", NULL, err_api(&err)), 0);
	expect(c, "/f", "two");
	assert_call(computer_restore(c, "nothing", NULL, err_api(&err)), -ENOENT);
}

static void fork_twice(struct computer *c)
{
	struct err err = ERR_INIT;

	assert_call(computer_fork(c, "first", "fork1", err_api(&err)), 0);
	assert_call(computer_fork(c, NULL, "fork2", err_api(&err)), 0);
	assert_call(computer_fork(c, NULL, "fork2", err_api(&err)), -EEXIST);
	assert_call(computer_fork(c, "nothing", "fork3", err_api(&err)), -ENOENT);
}

static void snapshots_body(struct home *home)
{
	CLEANUP(buf_clear) struct buf names = BUF_INIT(1000);
	struct computer *c = home_open(home, "w", 0);
	struct err err = ERR_INIT;

	put(c, "/f", "one");
	assert_call(computer_snapshot(c, "first", err_api(&err)), 0);
	put(c, "/f", "two");
	put(c, "/g", "new");
	assert_call(computer_snapshot(c, "first", err_api(&err)), -EEXIST);
	assert_call(computer_snapshot(c, "../x", err_api(&err)), -EINVAL);
	assert_non_null(strstr(err.text, "letters, digits"));
	assert_call(computer_snapshot(c, "second", err_api(&err)), 0);
	assert_int_equal(computer_snapshots(c, collect_snapshot, &names), 0);
	assert_string_equal(names.data, "first:2 second:3 ");

	expect_past(home);
	fork_twice(c);
	go_back(c);
	assert_call(computer_snapshot_remove(c, "second", err_api(&err)), 0);
	assert_call(computer_snapshot_remove(c, "second", err_api(&err)), -ENOENT);
	home_close(c);
	expect_forks(home);
}

static void snapshots_are_kept_and_gone_back_to(void **state)
{
	(void)state;
	both(snapshots_body);
}

static void deep_chains_are_merged_on_the_way(void **state)
{
	struct computer_info info = {0};
	struct computer_err err = {0};
	struct computer *c;
	struct home home;
	char name[16];

	(void)state;
	home_init(&home);
	home_owned(&home, false);
	for (int i = 0; i < 24; i++) {
		c = home_open(&home, "w", 0);
		snprintf(name, sizeof(name), "s%d", i);
		put(c, "/f", name);
		assert_int_equal(computer_snapshot(c, name, &err), 0);
		if (i >= 4) {
			snprintf(name, sizeof(name), "s%d", i - 4);
			assert_int_equal(computer_snapshot_remove(c, name, &err), 0);
		}
		home_close(c);
	}
	c = home_open(&home, "w", 0);
	assert_int_equal(computer_get_info(c, &info, NULL), 0);
	assert_in_range(info.depth, 1, 10);
	expect(c, "/f", "s23");
	assert_int_equal(computer_restore(c, "s20", NULL, &err), 0);
	expect(c, "/f", "s20");
	home_close(c);
	home_clear(&home);
}

/* ---- differences ---- */

static int collect_difference(void *arg, const struct diff_entry *entry)
{
	static const char letters[] = "ACDMR";
	struct buf *text = arg;
	int r = text_add(text, "%c %.*s", letters[entry->kind], (int)entry->path.len,
			 entry->path.data);

	if (r == 0 && entry->old_path.len)
		r = text_add(text, " from %.*s", (int)entry->old_path.len, entry->old_path.data);
	if (r == 0 && (entry->added || entry->removed || entry->binary))
		r = text_add(text, " +%d-%d%s", (int)entry->added, (int)entry->removed,
			     entry->binary ? " binary" : "");
	if (r == 0)
		r = buf_add(text, "\n", 1);
	return r == 0 ? buf_add(text, entry->patch.data, entry->patch.len) : r;
}

static void diff_body(struct home *home)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(10000);
	struct computer *c = home_open(home, "w", 0);
	struct diff_options options = {.stat = true};
	struct err err = ERR_INIT;

	put(c, "/same", "same");
	put(c, "/changed", "a\nb\nc\n");
	put(c, "/replaced", "old\n");
	put(c, "/mode", "");
	put(c, "/gone", "1\n2\n");
	assert_int_equal(computer_mkdir(c, "/dir/sub", 0755, true), 0);
	put(c, "/dir/sub/moved", "x");
	put(c, "/dir/sub/inner", "i\n");
	assert_call(computer_snapshot(c, "s", err_api(&err)), 0);
	assert_call(computer_diff(c, &options, collect_difference, &text, &err), 0);
	assert_string_equal(text.data, "");

	put(c, "/changed", "a\nB\nc\n");
	put(c, "/tmp", "new\n");
	assert_int_equal(computer_rename_file(c, "/tmp", "/replaced"), 0);
	assert_int_equal(computer_chmod(c, "/mode", 0600), 0);
	assert_int_equal(computer_unlink(c, "/gone"), 0);
	assert_int_equal(computer_rename_file(c, "/dir", "/dir2"), 0);
	put(c, "/dir2/sub/inner", "i\nj\n");
	assert_int_equal(computer_write_file(c, "/new", "\0bin", 4, 0644), 0);
	put(c, "/same", "same");
	assert_call(computer_diff(c, &options, collect_difference, &text, &err), 0);
	assert_string_equal(text.data, "C /changed +1-1\n"
				       "R /dir2 from /dir\n"
				       "C /dir2/sub/inner +1-0\n"
				       "D /gone +0-2\n"
				       "M /mode\n"
				       "A /new +0-0 binary\n"
				       "C /replaced +1-1\n");
	buf_clear(&text);
	assert_call(computer_snapshot(c, "t", err_api(&err)), 0);
	assert_int_equal(computer_remove_tree(c, "/dir2"), 0);
	options = (struct diff_options){.from = "s", .to = "t", .patch = true};
	assert_int_equal(computer_unlink(c, "/new"), 0);
	assert_call(computer_diff(c, &options, collect_difference, &text, &err), 0);
	assert_non_null(strstr(text.data, "C /changed +1-1\n--- a/changed\n+++ b/changed\n"
					  "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"));
	assert_non_null(strstr(text.data, "D /gone +0-2\n--- a/gone\n+++ /dev/null\n"
					  "@@ -1,2 +0,0 @@\n-1\n-2\n"));
	options.from = "nothing";
	assert_call(computer_diff(c, &options, collect_difference, &text, &err), -ENOENT);
	home_close(c);
}

static void differences_are_named(void **state)
{
	(void)state;
	both(diff_body);
}

/* ---- audit, limits, info, check ---- */

static int collect_audit(void *arg, const struct audit_entry *entry)
{
	struct buf *text = arg;
	int r = text_add(text, "%s %s %.*s", entry->record->who.actor,
			 gate_op_name(entry->record->op), (int)entry->path.len,
			 entry->path.data ? entry->path.data : "");

	if (r == 0 && entry->path2.len)
		r = text_add(text, " -> %.*s", (int)entry->path2.len, entry->path2.data);
	return r == 0 ? text_add(text, "\n") : r;
}

static void audit_body(struct home *home)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(10000);
	struct computer *c = home_open(home, "w", 0);
	struct audit_options options = {.cancel_fd = -1};
	struct err err = ERR_INIT;
	uint64_t records;

	assert_int_equal(computer_mkdir(c, "/d", 0755, false), 0);
	put(c, "/d/f", "x");
	assert_int_equal(computer_rename_file(c, "/d", "/e"), 0);
	assert_int_equal(computer_chmod(c, "/e/f", 0600), 0);
	assert_call(computer_snapshot(c, "s", err_api(&err)), 0);
	assert_int_equal(computer_unlink(c, "/e/f"), 0);
	assert_call(computer_audit(c, &options, collect_audit, &text, &err), 0);
	assert_string_equal(text.data, "test mkdir /d\n"
				       "test create /d/f\n"
				       "test write /d/f\n"
				       "test rename /d -> /e\n"
				       "test chmod /e/f\n"
				       "test snapshot \n"
				       "test unlink /e/f\n");
	buf_clear(&text);
	options.after = 6;
	assert_call(computer_audit(c, &options, collect_audit, &text, &err), 0);
	assert_string_equal(text.data, "test unlink /e/f\n");
	assert_call(computer_audit_verify(c, &records, &err), 0);
	assert_int_equal(records, 7);
	home_close(c);
}

static void the_audit_names_places(void **state)
{
	(void)state;
	both(audit_body);
}

static int until_two(void *arg, const struct audit_entry *entry)
{
	int *seen = arg;

	(void)entry;
	return ++*seen == 2 ? 7 : 0;
}

static void follow_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	struct audit_options options = {.follow = true, .cancel_fd = -1};
	struct err err = ERR_INIT;
	int ends[2], seen = 0;

	put(c, "/f", "x"); /* create and write */
	assert_int_equal(computer_audit(c, &options, until_two, &seen, &err), 7);
	assert_int_equal(seen, 2);
	expect(c, "/f", "x"); /* the connection is as it was */
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	options.cancel_fd = ends[0];
	options.after = 2;
	assert_call(computer_audit(c, &options, until_two, &seen, &err), 0);
	close(ends[0]);
	close(ends[1]);
	home_close(c);
}

static void following_ends_when_told(void **state)
{
	(void)state;
	both(follow_body);
}

static void limits_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	struct computer_limits limits = {1 << 20, 10, 64 << 20, 20, 50}, got;
	struct computer_info info;
	struct err err = ERR_INIT;

	assert_call(computer_set_limits(c, &limits, &err), 0);
	assert_call(computer_get_limits(c, &got, &err), 0);
	assert_memory_equal(&got, &limits, sizeof(got));
	for (int i = 0; i < 9; i++) {
		char path[16];

		snprintf(path, sizeof(path), "/f%d", i);
		put(c, path, "x");
	}
	assert_int_equal(computer_write_file(c, "/more", "x", 1, 0644), -EDQUOT);
	assert_call(computer_get_info(c, &info, &err), 0);
	assert_int_equal(info.quota_inodes, 10);
	assert_int_equal(info.inodes, 10);
	assert_int_equal(info.bytes, 9);
	assert_int_equal(info.owner, home->remote ? home->owner : getpid());
	assert_int_equal(info.clients, home->remote ? 1 : 0);
	assert_int_equal(strlen(info.id), 32);
	home_close(c);
}

static void limits_are_kept_and_hold(void **state)
{
	(void)state;
	both(limits_body);
}

static void no_problem(void *arg, const char *text, bool repaired)
{
	(void)arg;
	(void)repaired;
	fail_msg("%s", text);
}

static void check_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	struct err err = ERR_INIT;
	uint64_t left = 1;

	put(c, "/f", "x");
	assert_call(computer_check(c, false, no_problem, NULL, &left, &err), 0);
	assert_int_equal(left, 0);
	assert_call(computer_check(c, true, no_problem, NULL, &left, &err), 0);
	home_close(c);
}

static void a_sound_workspace_has_no_problems(void **state)
{
	(void)state;
	both(check_body);
}

/* ---- whole workspaces ---- */

static void workspaces_are_made_renamed_and_removed(void **state)
{
	struct computer_err err = {0};
	struct workspace workspace;
	struct computer *c;
	struct home home;

	(void)state;
	home_init(&home);
	assert_int_equal(computer_open("none", 0, &c, &err), -ENOENT);
	assert_non_null(strstr(err.text, "there is no workspace 'none'"));
	assert_int_equal(access(home_file(&home, "none.lock"), F_OK), -1);
	assert_int_equal(computer_open("a/b", 0, &c, &err), -EINVAL);
	assert_int_equal(computer_open("a\nb", COMPUTER_CREATE, &c, &err), -EINVAL);
	assert_null(strchr(err.text, '\n'));
	assert_int_equal(computer_open("w@s", COMPUTER_CREATE, &c, &err), -EINVAL);
	assert_int_equal(computer_open("w", COMPUTER_CREATE | COMPUTER_EXCL, &c, &err), 0);
	put(c, "/f", "x");
	assert_int_equal(computer_close(c, &err), 0);
	assert_int_equal(computer_open("w", COMPUTER_CREATE | COMPUTER_EXCL, &c, &err), -EEXIST);
	assert_int_equal(computer_open("w@none", 0, &c, &err), -ENOENT);
	assert_int_equal(computer_rename("w", "v", &err), 0);
	assert_int_equal(computer_rename("w", "u", &err), -ENOENT);
	assert_int_equal(access(home_file(&home, "w.lock"), F_OK), -1);
	assert_int_equal(computer_open("v", 0, &c, &err), 0);
	expect(c, "/f", "x");
	assert_int_equal(computer_close(c, &err), 0);
	assert_int_equal(computer_remove("v", &err), 0);
	assert_int_equal(computer_remove("v", &err), -ENOENT);
	assert_int_equal(workspace_resolve("v", &workspace, NULL), 0);
	assert_false(workspace_exists(&workspace));
	home_clear(&home);
}

static void names_and_paths_are_resolved(void **state)
{
	static const char *const bad[] = {"",   ".a",   "-a",       "a b",   "a/b",   "a@",
					  "@s", "a@.s", "\xc3\xa4", "a\x1b", "x/.db", "w@a/b"};
	struct workspace workspace;
	struct err err = ERR_INIT;
	char longest[WORKSPACE_NAME_MAX + 2] = "";
	struct home home;

	(void)state;
	home_init(&home);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(workspace_resolve(bad[i], &workspace, &err), -EINVAL);
	memset(longest, 'a', WORKSPACE_NAME_MAX);
	assert_int_equal(workspace_resolve(longest, &workspace, &err), 0);
	longest[WORKSPACE_NAME_MAX] = 'a';
	assert_int_equal(workspace_resolve(longest, &workspace, &err), -EINVAL);

	assert_int_equal(workspace_resolve("w@snap.1", &workspace, &err), 0);
	assert_string_equal(workspace.name, "w");
	assert_string_equal(workspace.snapshot, "snap.1");
	assert_string_equal(workspace.path, home_file(&home, "w.db"));
	assert_int_equal(workspace_resolve(home_file(&home, "x@y.db"), &workspace, &err), 0);
	assert_string_equal(workspace.name, "x@y");
	assert_string_equal(workspace.snapshot, "");
	assert_int_equal(workspace_resolve(home_file(&home, "x.db@s"), &workspace, &err), 0);
	assert_string_equal(workspace.snapshot, "s");
	assert_int_equal(workspace_resolve("/no/such/folder/x.db", &workspace, &err), -ENOENT);
	assert_int_equal(workspace_resolve("/etc/passwd", &workspace, &err), -EINVAL);

	/* Two ways to one file are one workspace: its lock is found. */
	assert_int_equal(mkdir(home_file(&home, "real"), 0700), 0);
	assert_int_equal(symlink("real", home_file(&home, "link")), 0);
	assert_int_equal(workspace_resolve(home_file(&home, "link/x.db"), &workspace, &err), 0);
	assert_string_equal(workspace.path, home_file(&home, "real/x.db"));
	unsetenv("COMPUTER_HOME");
	setenv("XDG_DATA_HOME", "relative", 1);
	setenv("HOME", home.path, 1);
	assert_int_equal(workspace_resolve("w", &workspace, &err), 0);
	assert_string_equal(workspace.path, home_file(&home, ".local/share/computer/w.db"));
	unsetenv("HOME");
	assert_int_equal(workspace_resolve("w", &workspace, &err), -ENOENT);
	home_clear(&home);
}

static int collect_workspace(void *arg, const struct workspace_entry *entry)
{
	return text_add(arg, "%s:%d ", entry->workspace.name, (int)entry->owner);
}

static void workspaces_are_listed_with_their_owners(void **state)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(1000);
	struct computer_err err;
	struct computer *c;
	struct home home;
	char want[64];

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	assert_int_equal(computer_open("b", COMPUTER_CREATE, &c, &err), 0);
	assert_int_equal(computer_close(c, &err), 0);
	assert_int_equal(workspace_each(collect_workspace, &text, NULL), 0);
	snprintf(want, sizeof(want), "b:0 w:%d ", (int)home.owner);
	assert_string_equal(text.data, want);
	assert_int_equal(computer_remove("b", &err), 0);
	home_clear(&home);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_read_and_written),
		cmocka_unit_test(files_larger_than_a_message_are_whole),
		cmocka_unit_test(directories_are_listed_and_removed_whole),
		cmocka_unit_test(a_readonly_handle_changes_nothing),
		cmocka_unit_test(snapshots_are_kept_and_gone_back_to),
		cmocka_unit_test(deep_chains_are_merged_on_the_way),
		cmocka_unit_test(differences_are_named),
		cmocka_unit_test(the_audit_names_places),
		cmocka_unit_test(following_ends_when_told),
		cmocka_unit_test(limits_are_kept_and_hold),
		cmocka_unit_test(a_sound_workspace_has_no_problems),
		cmocka_unit_test(workspaces_are_made_renamed_and_removed),
		cmocka_unit_test(names_and_paths_are_resolved),
		cmocka_unit_test(workspaces_are_listed_with_their_owners),
	};

	return cmocka_run_group_tests_name("computer", tests, NULL, NULL);
}
