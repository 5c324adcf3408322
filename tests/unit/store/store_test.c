/* store_test.c - rows, transactions and the lock, in one layer. */
#include "fixture.h"

#include "base/fd.h"
#include "base/mem.h"
#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fixture *of(void **state)
{
	return *state;
}

/* ---- rows ---- */

static void new_workspace_has_a_root(void **state)
{
	struct store *store = of(state)->store;
	struct store_info info;
	struct store_node root;

	store_get_info(store, &info);
	assert_int_equal(strlen(info.id), 32);
	assert_int_equal(info.next_ino, 2);
	assert_int_equal(info.inodes, 1);
	assert_int_equal(info.bytes, 0);
	assert_int_equal(info.depth, 0);
	OK(store_get_node(store, STORE_ROOT, &root));
	assert_true(S_ISDIR(root.mode));
	assert_int_equal(root.nlink, 2);
	assert_clean(store);
}

static void assert_same_node(const struct store_node *a, const struct store_node *b)
{
	assert_int_equal(a->ino, b->ino);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_int_equal(a->nlink, b->nlink);
	assert_int_equal(a->rdev, b->rdev);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->atime, b->atime);
	assert_int_equal(a->mtime, b->mtime);
	assert_int_equal(a->ctime, b->ctime);
	assert_int_equal(a->btime, b->btime);
	assert_int_equal(a->flags, b->flags);
}

static void node_comes_back_as_it_was(void **state)
{
	struct store *store = of(state)->store;
	struct store_node in = {.ino = 77,
				.mode = S_IFCHR | 07654,
				.uid = UINT32_MAX,
				.gid = 12,
				.nlink = 3,
				.rdev = ((uint64_t)9 << 32) | 5,
				.size = (int64_t)16 << 40,
				.atime = -1,
				.mtime = INT64_MIN,
				.ctime = INT64_MAX,
				.btime = 4,
				.flags = 0};
	struct store_node out;

	OK(store_begin(store));
	OK(store_put_node(store, &in));
	FAILS(store_get_node(store, 77, &out), ENOENT); /* the reader sees commits only */
	OK(store_commit(store, false));
	OK(store_get_node(store, 77, &out));
	assert_same_node(&in, &out);
	fixture_reopen(of(state));
	OK(store_get_node(of(state)->store, 77, &out));
	assert_same_node(&in, &out);
}

static int collect_names(void *arg, struct span name, int64_t ino, uint32_t mode)
{
	struct buf *names = arg;
	char text[300];
	int len = snprintf(text, sizeof(text), "%.*s=%lld/%o ", (int)name.len, name.data,
			   (long long)ino, mode);

	return buf_add(names, text, (size_t)len);
}

static int collect_nodes(void *arg, struct span name, const struct store_node *node)
{
	return collect_names(arg, name, node->ino, node->mode);
}

static void directory_is_listed_in_order(void **state)
{
	struct store *store = of(state)->store;
	CLEANUP(buf_clear) struct buf names = BUF_INIT(4096);
	CLEANUP(buf_clear) struct buf nodes = BUF_INIT(4096);

	add_file(store, "b", 2, "x");
	add_file(store, "a\xff", 3, "y");
	add_file(store, "B", 4, "");
	OK(store_each_dirent(store, STORE_ROOT, collect_names, &names));
	assert_string_equal(names.data, "B=4/100644 a\xff=3/100644 b=2/100644 ");
	OK(store_each_dirent_node(store, STORE_ROOT, collect_nodes, &nodes));
	assert_string_equal(nodes.data, names.data);
	assert_clean(store);
}

static int stop_at_once(void *arg, struct span name, int64_t ino, uint32_t mode)
{
	(void)name;
	(void)ino;
	(void)mode;
	++*(int *)arg;
	return 42;
}

static void callback_stops_a_listing(void **state)
{
	struct store *store = of(state)->store;
	int calls = 0;

	add_file(store, "a", 2, "");
	add_file(store, "b", 3, "");
	assert_int_equal(store_each_dirent(store, STORE_ROOT, stop_at_once, &calls), 42);
	assert_int_equal(calls, 1);
}

static int look_inside(void *arg, struct span name, int64_t ino, uint32_t mode)
{
	struct store *store = arg;
	CLEANUP(buf_clear) struct buf names = BUF_INIT(4096);
	struct store_node node;

	(void)name;
	(void)mode;
	OK(store_get_node(store, ino, &node));
	OK(store_each_dirent(store, STORE_ROOT, collect_names, &names));
	assert_string_equal(names.data, "a=2/100644 b=3/100644 ");
	return 0;
}

static void callback_may_read(void **state)
{
	struct store *store = of(state)->store;

	add_file(store, "a", 2, "");
	add_file(store, "b", 3, "");
	OK(store_each_dirent(store, STORE_ROOT, look_inside, store));
}

static void entry_without_inode_is_left_out(void **state)
{
	struct store *store = of(state)->store;
	int calls = 0;

	OK(store_begin(store));
	OK(store_put_dirent(store, STORE_ROOT, SPAN("ghost"), 99));
	OK(store_commit(store, false));
	OK(store_each_dirent(store, STORE_ROOT, stop_at_once, &calls));
	assert_int_equal(calls, 0);
}

static void content_and_attributes(void **state)
{
	struct store *store = of(state)->store;
	CLEANUP(buf_clear) struct buf value = BUF_INIT(STORE_INLINE_MAX);
	CLEANUP(mem_free) char *big = mem_alloc0(STORE_INLINE_MAX + 1);

	add_file(store, "a", 2, "first");
	OK(store_begin(store));
	OK(store_put_inline(store, 2, span_of(big, STORE_INLINE_MAX)));
	OK(store_put_xattr(store, 2, SPAN("user.b"), SPAN_EMPTY));
	OK(store_put_xattr(store, 2, SPAN("user.a"), SPAN("1")));
	OK(store_put_xattr(store, 2, SPAN("user.a"), SPAN("2")));
	OK(store_commit(store, false));
	OK(store_get_inline(store, 2, &value));
	assert_int_equal(value.len, STORE_INLINE_MAX);
	buf_clear(&value);
	OK(store_get_xattr(store, 2, SPAN("user.a"), &value));
	assert_string_equal(value.data, "2");
	OK(store_get_xattr(store, 2, SPAN("user.b"), &value));
	FAILS(store_get_xattr(store, 2, SPAN("user.c"), &value), ENODATA);

	OK(store_begin(store));
	OK(store_del_xattr(store, 2, SPAN("user.a")));
	OK(store_del_inline(store, 2));
	OK(store_commit(store, false));
	FAILS(store_get_xattr(store, 2, SPAN("user.a"), &value), ENODATA);
	assert_content(store, 2, "");

	OK(store_begin(store));
	FAILS(store_put_inline(store, 2, span_of(big, STORE_INLINE_MAX + 1)), EFBIG);
	FAILS(store_commit(store, false), EFBIG); /* what failed is not committed in part */
}

static void deleted_inode_takes_everything_with_it(void **state)
{
	struct fixture *fixture = of(state);
	CLEANUP(buf_clear) struct buf value = BUF_INIT(64);
	struct store_node node;

	fixture_reopen(fixture); /* so that nothing is remembered of there being attributes */
	add_file(fixture->store, "a", 2, "text");
	OK(store_begin(fixture->store));
	OK(store_put_xattr(fixture->store, 2, SPAN("user.a"), SPAN("1")));
	OK(store_commit(fixture->store, false));
	add_large(fixture->store, "big", 3, 2, 1);
	fixture_reopen(fixture);
	remove_file(fixture->store, "a", 2);
	remove_file(fixture->store, "big", 3);
	FAILS(store_get_node(fixture->store, 2, &node), ENOENT);
	FAILS(store_get_xattr(fixture->store, 2, SPAN("user.a"), &value), ENODATA);
	assert_content(fixture->store, 2, "");
	assert_clean(fixture->store);
}

static void meta_is_kept_and_deleted(void **state)
{
	struct store *store = of(state)->store;
	CLEANUP(buf_clear) struct buf value = BUF_INIT(64);

	FAILS(store_get_meta(store, "k", &value), ENODATA);
	OK(store_begin(store));
	OK(store_put_meta(store, "k", span_of("a\0b", 3)));
	OK(store_commit(store, true));
	OK(store_get_meta(store, "k", &value));
	assert_int_equal(value.len, 3);
	OK(store_begin(store));
	OK(store_put_meta(store, "k", SPAN_EMPTY));
	OK(store_commit(store, true));
	FAILS(store_get_meta(store, "k", &value), ENODATA);
}

static int count_audit(void *arg, uint64_t first, uint64_t last, struct span records,
		       const unsigned char hash[32])
{
	struct buf *text = arg;
	char line[64];
	int len = snprintf(line, sizeof(line), "%d-%d:%.*s:%d ", (int)first, (int)last,
			   (int)records.len, records.data, hash[0]);

	return buf_add(text, line, (size_t)len);
}

static void put_audit(struct store *store, uint64_t first, uint64_t last, const char *records)
{
	unsigned char hash[32] = {(unsigned char)last};

	OK(store_begin(store));
	OK(store_put_audit(store, first, last, 5, span_str(records), hash));
	OK(store_commit(store, false));
}

static void audit_is_read_from_any_record_on(void **state)
{
	struct store *store = of(state)->store;
	CLEANUP(buf_clear) struct buf text = BUF_INIT(256);
	struct store_info info;

	put_audit(store, 1, 3, "abc");
	put_audit(store, 4, 4, "d");
	put_audit(store, 5, 9, "e");
	OK(store_each_audit(store, 0, count_audit, &text));
	assert_string_equal(text.data, "1-3:abc:3 4-4:d:4 5-9:e:9 ");
	buf_clear(&text);
	OK(store_each_audit(store, 2, count_audit, &text));
	assert_string_equal(text.data, "1-3:abc:3 4-4:d:4 5-9:e:9 ");
	buf_clear(&text);
	OK(store_each_audit(store, 3, count_audit, &text));
	assert_string_equal(text.data, "4-4:d:4 5-9:e:9 ");
	buf_clear(&text);
	OK(store_each_audit(store, 9, count_audit, &text));
	assert_string_equal(text.data, "");
	fixture_reopen(of(state));
	store_get_info(of(state)->store, &info);
	assert_int_equal(info.audit_seq, 9);
	assert_int_equal(info.audit_hash[0], 9);
	assert_clean(of(state)->store);
}

static void rollback_leaves_nothing(void **state)
{
	struct store *store = of(state)->store;
	struct store_info info;
	struct store_node node;

	OK(store_begin(store));
	put_file(store, STORE_ROOT, "a", 2, "x");
	OK(store_put_counters(store, 50, 60, 70));
	OK(store_put_quota(store, 80, 90));
	store_rollback(store);
	FAILS(store_get_node(store, 2, &node), ENOENT);
	store_get_info(store, &info);
	assert_int_equal(info.next_ino, 2);
	OK(store_begin(store));
	OK(store_commit(store, false));
	fixture_reopen(of(state));
	store_get_info(of(state)->store, &info);
	assert_int_equal(info.inodes, 1);
	assert_int_equal(info.quota_bytes, 0);
}

static void counters_and_quota_are_kept(void **state)
{
	struct store_info info;

	OK(store_begin(of(state)->store));
	OK(store_put_counters(of(state)->store, 50, 60, 70));
	OK(store_put_quota(of(state)->store, 80, 90));
	OK(store_commit(of(state)->store, true));
	fixture_reopen(of(state));
	store_get_info(of(state)->store, &info);
	assert_int_equal(info.next_ino, 50);
	assert_int_equal(info.bytes, 60);
	assert_int_equal(info.inodes, 70);
	assert_int_equal(info.quota_bytes, 80);
	assert_int_equal(info.quota_inodes, 90);
}

static void memory_can_be_given_back_at_any_time(void **state)
{
	struct store *store = of(state)->store;

	for (int64_t i = 2; i < 6; i++) {
		char name[8];

		snprintf(name, sizeof(name), "f%d", (int)i);
		add_file(store, name, i, "x");
		store_release_memory(store);
		assert_name(store, name, i);
		store_release_memory(store);
	}
	assert_clean(store);
}

static void orphans_are_collected_by_the_next_open(void **state)
{
	struct fixture *fixture = of(state);
	struct store_node node = node_large(3, 2);
	struct store_info info;

	add_file(fixture->store, "stays", 2, "text");
	add_large(fixture->store, "open", 3, 2, 7);
	add_large(fixture->store, "linked-again", 4, 1, 7);
	OK(store_begin(fixture->store));
	OK(store_del_dirent(fixture->store, STORE_ROOT, SPAN("open")));
	node.nlink = 0;
	node.flags |= STORE_NODE_ORPHAN;
	OK(store_put_node(fixture->store, &node));
	node = node_large(4, 1);
	node.flags |= STORE_NODE_ORPHAN;
	OK(store_put_node(fixture->store, &node));
	node.flags &= ~(unsigned)STORE_NODE_ORPHAN;
	OK(store_put_node(fixture->store, &node));
	OK(store_commit(fixture->store, false));
	assert_clean(fixture->store);
	store_get_info(fixture->store, &info);
	assert_int_equal(info.inodes, 4);
	fixture_reopen(fixture);
	FAILS(store_get_node(fixture->store, 3, &node), ENOENT);
	OK(store_get_node(fixture->store, 4, &node));
	store_get_info(fixture->store, &info);
	assert_int_equal(info.inodes, 3);
	assert_int_equal(info.bytes, 4 + STORE_UNIT);
	assert_clean(fixture->store);
}

/* ---- crashes, full disks ---- */

static void commit_without_close(struct store *store)
{
	add_file(store, "a", 2, "text");
	OK(store_begin(store));
	put_file(store, STORE_ROOT, "b", 3, "never committed");
}

static void crash_keeps_what_was_committed(void **state)
{
	struct fixture *fixture = of(state);

	crash(fixture, commit_without_close);
	assert_name(fixture->store, "a", 2);
	assert_content(fixture->store, 2, "text");
	assert_name(fixture->store, "b", 0);
	assert_clean(fixture->store);
}

static void full_disk_undoes_a_commit(void **state)
{
	struct fixture *fixture = of(state);
	struct rlimit old, small = {.rlim_max = RLIM_INFINITY};
	CLEANUP(mem_free) char *big = mem_alloc0(STORE_INLINE_MAX);
	struct store_node node;
	int r = 0;

	add_file(fixture->store, "a", 2, "text");
	/* The limit on the size of files stands for the disk: same error path, no mount. */
	OK(getrlimit(RLIMIT_FSIZE, &old));
	small.rlim_cur = 2 << 20;
	signal(SIGXFSZ, SIG_IGN);
	OK(setrlimit(RLIMIT_FSIZE, &small));
	OK(store_begin(fixture->store));
	for (int64_t i = 10; i < 300 && r == 0; i++)
		r = store_put_inline(fixture->store, i, span_of(big, STORE_INLINE_MAX));
	r = store_commit(fixture->store, true);
	small.rlim_cur = old.rlim_cur;
	OK(setrlimit(RLIMIT_FSIZE, &old));
	assert_true(r < 0);
	assert_name(fixture->store, "a", 2);
	add_file(fixture->store, "b", 3, "after");
	OK(store_get_node(fixture->store, 3, &node));
	assert_clean(fixture->store);
	fixture_reopen(fixture);
	assert_content(fixture->store, 3, "after");
	assert_clean(fixture->store);
}

static void many_commits_checkpoint(void **state)
{
	struct fixture *fixture = of(state);
	CLEANUP(mem_free) char *big = mem_alloc0(STORE_INLINE_MAX);
	struct stat st;

	for (int64_t round = 0; round < 12; round++) {
		OK(store_begin(fixture->store));
		for (int64_t i = 0; i < 200; i++)
			OK(store_put_inline(fixture->store, 2 + i, span_of(big, STORE_INLINE_MAX)));
		OK(store_commit(fixture->store, false));
		assert_content(fixture->store, 2, ""); /* a reader that stays at its state */
	}
	OK(stat(fixture_file(fixture, "a.db-wal"), &st));
	assert_true(st.st_size < 24 << 20);
	store_close(fixture->store);
	fixture->store = NULL;
	assert_false(file_exists(fixture_file(fixture, "a.db-wal")));
}

static void sync_is_cheap_and_safe(void **state)
{
	struct store *store = of(state)->store;

	OK(store_sync(store));
	add_file(store, "a", 2, "x");
	OK(store_sync(store));
	OK(store_sync(store));
	store_release_memory(store);
	OK(store_sync(store));
	OK(store_begin(store));
	OK(store_commit(store, true));
}

static void readonly_cannot_be_written(void **state)
{
	struct fixture *fixture = of(state);
	struct store *store;
	int64_t pos;

	add_file(fixture->store, "a", 2, "x");
	store_close(fixture->store);
	store = fixture->store = open_at(fixture->path, STORE_READONLY);
	assert_name(store, "a", 2);
	FAILS(store_begin(store), EROFS);
	FAILS(store_data_alloc(store, 1, &pos), EROFS);
	FAILS(store_snapshot(store, "s", NULL), EROFS);
	store_release_memory(store);
	assert_content(store, 2, "x");
	assert_clean(store);
}

/* ---- lock ---- */

static void lock_excludes_and_names_its_owner(void **state)
{
	struct fixture *fixture = of(state);
	struct store_lock lock = STORE_LOCK_INIT, second = STORE_LOCK_INIT;
	struct store_owner owner = {0};
	struct err err = ERR_INIT;

	OK(store_lock_take(fixture->path, &lock, &owner, NULL));
	FAILS(store_lock_take(fixture->path, &second, &owner, &err), EBUSY);
	assert_int_equal(owner.pid, getpid());
	assert_string_equal(owner.socket, "");
	OK(store_lock_publish(&lock, "/run/some.sock"));
	FAILS(store_lock_take(fixture->path, &second, &owner, NULL), EBUSY);
	assert_string_equal(owner.socket, "/run/some.sock");
	FAILS(store_lock_publish(&lock, "a\nb"), EINVAL);
	store_lock_drop(&lock);
	OK(store_lock_take(fixture->path, &second, &owner, NULL));
	store_lock_drop(&second);
	store_lock_drop(&second);
	FAILS(store_lock_take("nodb", &lock, &owner, &err), EINVAL);
}

static void crash_releases_the_lock(void **state)
{
	struct fixture *fixture = of(state);
	struct store_lock lock = STORE_LOCK_INIT;
	struct store_owner owner = {0};
	int ready[2], status;
	char byte;
	pid_t pid;

	OK(pipe2(ready, O_CLOEXEC));
	pid = fork();
	if (pid == 0) {
		if (store_lock_take(fixture->path, &lock, &owner, NULL) < 0)
			_exit(1);
		(void)!write(ready[1], "x", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	FAILS(store_lock_take(fixture->path, &lock, &owner, NULL), EBUSY);
	assert_int_equal(owner.pid, pid);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	OK(store_lock_take(fixture->path, &lock, &owner, NULL));
	store_lock_drop(&lock);
	close(ready[0]);
	close(ready[1]);
}

static void lock_of_a_removed_workspace_is_made_anew(void **state)
{
	struct fixture *fixture = of(state);
	struct store_lock lock = STORE_LOCK_INIT, second = STORE_LOCK_INIT;
	struct store_owner owner = {0};

	OK(store_lock_take(fixture->path, &lock, &owner, NULL));
	store_close(fixture->store);
	fixture->store = NULL;
	OK(store_remove(fixture->path, NULL));
	assert_false(file_exists(fixture_file(fixture, "a.lock")));
	OK(store_lock_take(fixture->path, &second, &owner, NULL));
	store_lock_drop(&lock);
	store_lock_drop(&second);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(new_workspace_has_a_root),
		TEST(node_comes_back_as_it_was),
		TEST(directory_is_listed_in_order),
		TEST(callback_stops_a_listing),
		TEST(callback_may_read),
		TEST(entry_without_inode_is_left_out),
		TEST(content_and_attributes),
		TEST(deleted_inode_takes_everything_with_it),
		TEST(meta_is_kept_and_deleted),
		TEST(audit_is_read_from_any_record_on),
		TEST(rollback_leaves_nothing),
		TEST(counters_and_quota_are_kept),
		TEST(memory_can_be_given_back_at_any_time),
		TEST(orphans_are_collected_by_the_next_open),
		TEST(crash_keeps_what_was_committed),
		TEST(full_disk_undoes_a_commit),
		TEST(many_commits_checkpoint),
		TEST(sync_is_cheap_and_safe),
		TEST(readonly_cannot_be_written),
		TEST(lock_excludes_and_names_its_owner),
		TEST(crash_releases_the_lock),
		TEST(lock_of_a_removed_workspace_is_made_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
