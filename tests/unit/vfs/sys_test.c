/* sys_test.c - struct sys over a vfs: descriptors, whole files, batches, hostility. */
#include "bench.h"

#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define UNIT ((int64_t)STORE_UNIT)

/* ---- open ---- */

static void open_flags_are_those_of_linux(void **state)
{
	static const struct {
		const char *path;
		int flags, want; /* 0: a descriptor */
	} rows[] = {
		{"d/file", O_RDONLY, 0},
		{"d/file", O_RDWR, 0},
		{"d/file", O_ACCMODE, -EINVAL},
		{"d/file", O_WRONLY | O_CREAT, 0},
		{"d/file", O_WRONLY | O_CREAT | O_EXCL, -EEXIST},
		{"d/file", O_RDONLY | O_DIRECTORY, -ENOTDIR},
		{"d", O_RDONLY, 0},
		{"d", O_WRONLY, -EISDIR},
		{"d", O_RDONLY | O_CREAT, -EISDIR},
		{"d", O_RDONLY | O_TRUNC, -EISDIR},
		{"new/", O_WRONLY | O_CREAT, -EISDIR},
		{"d", O_RDONLY | O_DIRECTORY | O_CREAT, -EINVAL},
		{"missing", O_RDONLY, -ENOENT},
		{"link", O_RDONLY | O_NOFOLLOW, -ELOOP},
		{"link", O_RDONLY | O_NOFOLLOW | O_DIRECTORY, -ENOTDIR},
		{"link", O_PATH | O_NOFOLLOW, 0},
		{"abs", O_RDONLY, 0},
		{"loop", O_RDONLY, -ELOOP},
		{"none", O_RDONLY, -ENOENT},
		{"none", O_WRONLY | O_CREAT | O_EXCL, -EEXIST},
		{"fifo", O_RDONLY, -ENXIO},
		{"fifo", O_PATH, 0},
		{"none", O_WRONLY | O_CREAT, 0}, /* makes d/missing */
		{"d/missing", O_RDONLY, 0},
		{"", O_RDONLY | O_CREAT, -ENOENT},
	};
	struct bench b;

	(void)state;
	start(&b);
	make_tree(&b);
	assert_int_equal(sys_mknod(b.sys, SYS_CWD, SPAN("fifo"), S_IFIFO | 0644, 0), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int r = do_open(b.sys, rows[i].path, rows[i].flags);

		if (r >= 0)
			sys_close(b.sys, r);
		if ((r >= 0 ? 0 : r) != rows[i].want)
			fail_msg("'%s' %o: %d, not %d", rows[i].path, rows[i].flags, r,
				 rows[i].want);
	}
	finish(&b);
}

static void a_file_made_unwritable_is_written_by_its_maker(void **state)
{
	struct bench b;
	int fd;

	(void)state;
	start(&b);
	assert_int_equal(sys_chmod(b.sys, SYS_CWD, SPAN("/"), 0777, 0), 0);
	fd = sys_open(b.user, SYS_CWD, SPAN("f"), O_WRONLY | O_CREAT, 0444);
	assert_true(fd >= 0);
	assert_int_equal(sys_write(b.user, fd, SPAN("text"), -1), 4);
	assert_int_equal(do_open(b.user, "f", O_WRONLY), -EACCES);
	assert_int_equal(do_open(b.user, "f", O_RDONLY | O_TRUNC), -EACCES);
	check_file(b.user, "f", "text");
	finish(&b);
}

static void descriptors_end_at_their_limit(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	put(b.sys, "f", "x");
	for (int i = 0; i < VFS_SYS_FDS_MAX; i++)
		assert_int_equal(do_open(b.sys, "f", O_RDONLY), i);
	assert_int_equal(do_open(b.sys, "f", O_RDONLY), -EMFILE);
	assert_int_equal(do_open(b.sys, "new", O_WRONLY | O_CREAT), -EMFILE);
	assert_int_equal(do_stat(b.sys, "new", 0), -ENOENT);
	assert_int_equal(sys_close(b.sys, 700), 0);
	assert_int_equal(sys_close(b.sys, 700), -EBADF);
	assert_int_equal(sys_close(b.sys, 7), 0);
	assert_int_equal(do_open(b.sys, "f", O_RDONLY), 7);
	assert_int_equal(do_open(b.sys, "f", O_RDONLY), 700);
	finish(&b);
}

static void positions_move_as_expected(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(64);
	struct bench b;
	int fd, add;

	(void)state;
	start(&b);
	fd = do_open(b.sys, "f", O_RDWR | O_CREAT);
	add = do_open(b.sys, "f", O_WRONLY | O_APPEND);
	assert_int_equal(sys_write(b.sys, fd, SPAN("hello"), -1), 5);
	assert_int_equal(sys_write(b.sys, add, SPAN(" world"), -1), 6);
	assert_int_equal(sys_lseek(b.sys, add, 0, SEEK_CUR), 11);
	assert_int_equal(sys_lseek(b.sys, fd, 0, SEEK_CUR), 5);
	assert_int_equal(sys_read(b.sys, fd, 100, -1, &buf), 6);
	assert_int_equal(sys_read(b.sys, fd, 100, -1, &buf), 0);
	assert_int_equal(sys_read(b.sys, fd, 5, 0, &buf), 5);
	assert_string_equal(buf.data, " worldhello");
	assert_int_equal(sys_lseek(b.sys, fd, 0, SEEK_CUR), 11);
	assert_int_equal(sys_lseek(b.sys, fd, -1, SEEK_END), 10);
	assert_int_equal(sys_lseek(b.sys, fd, -11, SEEK_CUR), -EINVAL);
	assert_int_equal(sys_lseek(b.sys, fd, INT64_MAX, SEEK_CUR), -EOVERFLOW);
	assert_int_equal(sys_lseek(b.sys, fd, 0, 77), -EINVAL);
	assert_int_equal(sys_lseek(b.sys, fd, 3, SEEK_DATA), 3);
	assert_int_equal(sys_lseek(b.sys, fd, 3, SEEK_HOLE), 11);
	assert_int_equal(sys_lseek(b.sys, fd, 11, SEEK_DATA), -ENXIO);
	assert_int_equal(sys_read(b.sys, add, 1, 0, &buf), -EBADF);
	assert_int_equal(sys_read(b.sys, fd, 1, -2, &buf), -EINVAL);
	assert_int_equal(sys_write(b.sys, fd, SPAN("x"), VFS_SIZE_MAX), -EFBIG);
	assert_int_equal(sys_write(b.sys, fd, SPAN("x"), INT64_MAX), -EFBIG);
	assert_int_equal(sys_fsync(b.sys, fd, true), 0);
	assert_int_equal(sys_fsync(b.sys, SYS_CWD, false), 0);
	assert_int_equal(sys_copy(b.sys, fd, 0, add, 0, 5), -EBADF); /* it appends */
	assert_int_equal(sys_copy(b.sys, fd, 0, fd, 11, 5), 5);
	check_file(b.sys, "f", "hello worldhello");
	finish(&b);
}

static void an_unlinked_file_lives_while_it_is_open(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(64);
	struct vfs_stats stats;
	struct sys_stat st;
	struct bench b;
	int fd, tmp;

	(void)state;
	start(&b);
	fd = do_open(b.sys, "f", O_RDWR | O_CREAT);
	assert_int_equal(sys_write(b.sys, fd, SPAN("still"), -1), 5);
	assert_int_equal(do_unlink(b.sys, "f", 0), 0);
	assert_int_equal(sys_read(b.sys, fd, 10, 0, &buf), 5);
	assert_int_equal(sys_fstat(b.sys, fd, &st), 0);
	assert_int_equal(st.nlink, 0);
	assert_int_equal(sys_link(b.sys, fd, SPAN(""), SYS_CWD, SPAN("back"), AT_EMPTY_PATH),
			 -ENOENT);
	assert_int_equal(sys_close(b.sys, fd), 0);
	vfs_get_stats(b.world.vfs, &stats);
	assert_int_equal(stats.inodes, 1);
	assert_int_equal(stats.bytes, 0);
	/* One that never had a name may get one. */
	tmp = sys_open(b.sys, SYS_CWD, SPAN("/"), O_TMPFILE | O_RDWR, 0600);
	assert_true(tmp >= 0);
	assert_int_equal(sys_write(b.sys, tmp, SPAN("temporary"), -1), 9);
	assert_int_equal(sys_link(b.sys, tmp, SPAN(""), SYS_CWD, SPAN("named"), AT_EMPTY_PATH), 0);
	assert_int_equal(sys_close(b.sys, tmp), 0);
	check_file(b.sys, "named", "temporary");
	tmp = sys_open(b.sys, SYS_CWD, SPAN("/"), O_TMPFILE | O_RDWR | O_EXCL, 0600);
	assert_int_equal(sys_link(b.sys, tmp, SPAN(""), SYS_CWD, SPAN("not"), AT_EMPTY_PATH),
			 -ENOENT);
	finish(&b);
}

/* ---- attributes ---- */

static void attributes_are_set_by_who_may(void **state)
{
	struct sys_stat st;
	struct bench b;
	int fd;

	(void)state;
	start(&b);
	put(b.sys, "f", "12345");
	assert_int_equal(sys_chmod(b.user, SYS_CWD, SPAN("f"), 0600, 0), -EPERM);
	assert_int_equal(sys_chown(b.user, SYS_CWD, SPAN("f"), 1000, -1, 0), -EPERM);
	assert_int_equal(sys_truncate(b.user, SYS_CWD, SPAN("f"), 0, 0), -EACCES);
	assert_int_equal(sys_utimens(b.user, SYS_CWD, SPAN("f"), SYS_NOW, SYS_NOW, 0), -EACCES);
	assert_int_equal(sys_utimens(b.user, SYS_CWD, SPAN("f"), 5, SYS_OMIT, 0), -EPERM);
	assert_int_equal(sys_utimens(b.user, SYS_CWD, SPAN("f"), SYS_NOW, SYS_OMIT, 0), -EPERM);
	assert_int_equal(sys_utimens(b.user, SYS_CWD, SPAN("f"), SYS_OMIT, SYS_OMIT, 0), 0);
	assert_int_equal(sys_chown(b.sys, SYS_CWD, SPAN("f"), 1000, 1000, 0), 0);
	assert_int_equal(sys_chmod(b.user, SYS_CWD, SPAN("f"), 06755, 0), 0);
	assert_int_equal(sys_chown(b.user, SYS_CWD, SPAN("f"), 0, -1, 0), -EPERM);
	assert_int_equal(sys_chown(b.user, SYS_CWD, SPAN("f"), -1, 7, 0), -EPERM);
	assert_int_equal(sys_stat(b.sys, SYS_CWD, SPAN("f"), 0, &st), 0);
	assert_int_equal(st.mode, S_IFREG | 06755);
	/* A write by somebody who is not root takes setuid and setgid away. */
	fd = do_open(b.user, "f", O_WRONLY);
	assert_int_equal(sys_write(b.user, fd, SPAN("x"), 0), 1);
	assert_int_equal(sys_fstat(b.sys, 0, &st), -EBADF);
	assert_int_equal(sys_fstat(b.user, fd, &st), 0);
	assert_int_equal(st.mode, S_IFREG | 0755);
	assert_int_equal(sys_utimens(b.user, SYS_CWD, SPAN("f"), 1500000000, -1, 0), 0);
	assert_int_equal(sys_truncate(b.user, fd, SPAN(""), 3, AT_EMPTY_PATH), 0);
	assert_int_equal(sys_fstat(b.user, fd, &st), 0);
	assert_int_equal(st.size, 3);
	assert_int_equal(st.atime, 1500000000);
	assert_true(st.mtime > 0 && st.ctime >= st.btime);
	assert_int_equal(sys_truncate(b.user, SYS_CWD, SPAN("f"), -1, 0), -EINVAL);
	assert_int_equal(sys_truncate(b.user, SYS_CWD, SPAN("/"), 1, 0), -EISDIR);
	assert_int_equal(sys_truncate(b.sys, SYS_CWD, SPAN("f"), VFS_SIZE_MAX + 1, 0), -EFBIG);
	assert_int_equal(sys_truncate(b.sys, SYS_CWD, SPAN("f"), VFS_SIZE_MAX, 0), 0);
	assert_int_equal(sys_truncate(b.sys, SYS_CWD, SPAN("f"), 0, 0), 0);
	assert_int_equal(sys_chown(b.sys, SYS_CWD, SPAN("f"), UINT32_MAX, 0, 0), -EINVAL);
	assert_int_equal(sys_chown(b.sys, SYS_CWD, SPAN("f"), -2, 0, 0), -EINVAL);
	finish(&b);
}

static void access_is_what_the_bits_say(void **state)
{
	struct sys_statfs fs;
	struct bench b;

	(void)state;
	start(&b);
	make_tree(&b);
	assert_int_equal(sys_access(b.user, SYS_CWD, SPAN("d/file"), R_OK, 0), 0);
	assert_int_equal(sys_access(b.user, SYS_CWD, SPAN("d/file"), W_OK, 0), -EACCES);
	assert_int_equal(sys_access(b.user, SYS_CWD, SPAN("missing"), F_OK, 0), -ENOENT);
	assert_int_equal(sys_access(b.user, SYS_CWD, SPAN("d/file"), 8, 0), -EINVAL);
	assert_int_equal(sys_chmod(b.sys, SYS_CWD, SPAN("d"), 0700, 0), 0);
	assert_int_equal(sys_access(b.user, SYS_CWD, SPAN("d/file"), F_OK, 0), -EACCES);
	assert_int_equal(do_stat(b.user, "link/f", 0), -EACCES);
	assert_int_equal(do_stat(b.user, "d", 0), 0);
	assert_int_equal(do_stat(b.user, "d/..", 0), -EACCES);
	assert_int_equal(do_mkdir(b.user, "mine"), -EACCES);
	assert_int_equal(do_open(b.user, "d", O_RDONLY), -EACCES);
	assert_int_equal(sys_statfs(b.user, &fs), 0);
	assert_true(fs.bytes > 0 && fs.inodes == 0);
	assert_int_equal(vfs_set_quota(b.world.vfs, 1000000, 100), 0);
	assert_int_equal(sys_statfs(b.user, &fs), 0);
	assert_int_equal(fs.bytes, 1000000);
	assert_int_equal(fs.bytes_free, 1000000 - 5);
	assert_int_equal(fs.inodes, 100);
	finish(&b);
}

/* ---- directories ---- */

struct seen {
	int count;
	int64_t size;
};

static int see(void *arg, const struct sys_entry *entry)
{
	struct seen *seen = arg;

	seen->count++;
	seen->size += entry->stat->size;
	assert_true(S_ISREG(entry->stat->mode));
	return 0;
}

static void listings_carry_attributes(void **state)
{
	CLEANUP(buf_clear) struct buf out = BUF_INIT(SYS_IO_MAX);
	struct seen seen = {0};
	struct sys_dirent entry = {0};
	struct bench b;
	char name[32];
	int fd, count = 0;

	(void)state;
	start(&b);
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "file-%d", i);
		put(b.sys, name, "abc");
	}
	fd = do_open(b.sys, "/", O_RDONLY);
	assert_int_equal(sys_each_entry(b.sys, fd, see, &seen), 0);
	assert_int_equal(seen.count, 2000);
	assert_int_equal(seen.size, 6000);
	/* One at a time, some going meanwhile. */
	for (;;) {
		const struct sys_req req = {SYS_readdir, {fd, entry.cookie, 160}, {{0}}};

		buf_truncate(&out, 0);
		assert_true(sys_call(b.sys, &req, &out) >= 0);
		if (!out.len)
			break;
		memcpy(&entry, out.data, sizeof(entry));
		assert_true(out.len <= 160);
		if (++count == 1000)
			assert_int_equal(do_unlink(b.sys, "file-10", 0), 0);
	}
	assert_int_equal(count, 2002);
	{
		const struct sys_req small = {SYS_readdir, {fd, 0, 20}, {{0}}};
		const struct sys_req bad = {SYS_readdir, {fd, -1, 4096}, {{0}}};

		assert_int_equal(sys_call(b.sys, &small, &out), -EINVAL);
		assert_int_equal(sys_call(b.sys, &bad, &out), -EINVAL);
	}
	fd = do_open(b.sys, "file-1", O_RDONLY);
	assert_int_equal(sys_each_entry(b.sys, fd, see, &seen), -ENOTDIR);
	finish(&b);
}

/* ---- whole files ---- */

static void whole_files_are_replaced_in_place(void **state)
{
	CLEANUP(buf_clear) struct buf big = BUF_INIT(SYS_IO_MAX);
	static char bytes[SYS_IO_MAX];
	struct sys_stat st, st2;
	struct bench b;

	(void)state;
	start(&b);
	put(b.sys, "f", "one");
	assert_int_equal(sys_chmod(b.sys, SYS_CWD, SPAN("f"), 0640, 0), 0);
	assert_int_equal(sys_link(b.sys, SYS_CWD, SPAN("f"), SYS_CWD, SPAN("g"), 0), 0);
	assert_int_equal(do_symlink(b.sys, "s", "f"), 0);
	assert_int_equal(sys_stat(b.sys, SYS_CWD, SPAN("f"), 0, &st), 0);
	put(b.sys, "s", "two and more");
	check_file(b.sys, "g", "two and more");
	assert_int_equal(sys_stat(b.sys, SYS_CWD, SPAN("g"), 0, &st2), 0);
	assert_int_equal(st.ino, st2.ino);
	assert_int_equal(st2.mode, S_IFREG | 0640);
	memset(bytes, 'x', sizeof(bytes));
	for (size_t len = 1; len <= sizeof(bytes); len = len * 5 + 3) {
		buf_truncate(&big, 0);
		assert_int_equal(
			sys_writefile(b.sys, SYS_CWD, SPAN("f"), 0, 0, 77, span_of(bytes, len)), 0);
		assert_int_equal(sys_readfile(b.sys, SYS_CWD, SPAN("g"), 0, SYS_IO_MAX, &st, &big),
				 len);
		assert_memory_equal(big.data, bytes, len);
		assert_int_equal(st.mtime, 77);
	}
	put(b.sys, "f", "");
	check_file(b.sys, "g", "");
	assert_int_equal(sys_writefile(b.sys, SYS_CWD, SPAN("f"), O_EXCL, 0, SYS_OMIT, SPAN("")),
			 -EEXIST);
	assert_int_equal(
		sys_writefile(b.sys, SYS_CWD, SPAN("s"), O_NOFOLLOW, 0, SYS_OMIT, SPAN("")),
		-ELOOP);
	assert_int_equal(sys_writefile(b.sys, SYS_CWD, SPAN("/"), 0, 0, SYS_OMIT, SPAN("")),
			 -EISDIR);
	assert_int_equal(sys_writefile(b.sys, SYS_CWD, SPAN("n/"), 0, 0, SYS_OMIT, SPAN("")),
			 -EISDIR);
	assert_int_equal(sys_writefile(b.sys, SYS_CWD, SPAN("f"), O_APPEND, 0, SYS_OMIT, SPAN("")),
			 -EINVAL);
	assert_int_equal(sys_writefile(b.user, SYS_CWD, SPAN("f"), 0, 0, SYS_OMIT, SPAN("")),
			 -EACCES);
	assert_int_equal(sys_writefile(b.user, SYS_CWD, SPAN("new"), 0, 0, SYS_OMIT, SPAN("")),
			 -EACCES);
	assert_int_equal(sys_readfile(b.sys, SYS_CWD, SPAN("/"), 0, 10, &st, &big), -EISDIR);
	assert_int_equal(sys_readfile(b.user, SYS_CWD, SPAN("f"), 0, 10, &st, &big), -EACCES);
	assert_int_equal(sys_readfile(b.sys, SYS_CWD, SPAN("f"), 99, 10, &st, &big), 0);
	finish(&b);
}

static void check_quota(struct bench *b, uint64_t bytes, uint64_t inodes)
{
	struct vfs_stats stats;

	vfs_get_stats(b->world.vfs, &stats);
	assert_int_equal(stats.bytes, bytes);
	assert_int_equal(stats.inodes, inodes);
}

static void quota_is_exact_and_failure_changes_nothing(void **state)
{
	static char bytes[4 * UNIT];
	struct bench b;
	int fd;

	(void)state;
	start(&b);
	memset(bytes, 'q', sizeof(bytes));
	assert_int_equal(vfs_set_quota(b.world.vfs, 3 * UNIT + 100, 4), 0);
	fd = do_open(b.sys, "big", O_RDWR | O_CREAT);
	assert_int_equal(sys_write(b.sys, fd, span_of(bytes, 1000), 0), 1000);
	check_quota(&b, 1000, 2);
	/* From inline to units: 1000 bytes go, units come. */
	assert_int_equal(sys_write(b.sys, fd, span_of(bytes, 4 * UNIT), 0), -EDQUOT);
	check_quota(&b, 1000, 2);
	assert_int_equal(sys_write(b.sys, fd, span_of(bytes, 3 * UNIT), 0), 3 * UNIT);
	check_quota(&b, 3 * UNIT, 2);
	assert_int_equal(sys_write(b.sys, fd, SPAN("x"), 3 * UNIT), -EDQUOT);
	assert_int_equal(sys_write(b.sys, fd, SPAN("x"), 0), 1); /* what is there is paid for */
	assert_int_equal(sys_fallocate(b.sys, fd, 0, 0, 4 * UNIT), -EDQUOT);
	assert_int_equal(sys_lseek(b.sys, fd, 0, SEEK_END), 3 * UNIT);
	check_quota(&b, 3 * UNIT, 2);
	assert_int_equal(
		sys_writefile(b.sys, SYS_CWD, SPAN("new"), 0, 0644, SYS_OMIT, span_of(bytes, 101)),
		-EDQUOT);
	assert_int_equal(do_stat(b.sys, "new", 0), -ENOENT);
	assert_int_equal(
		sys_writefile(b.sys, SYS_CWD, SPAN("new"), 0, 0644, SYS_OMIT, span_of(bytes, 100)),
		0);
	check_quota(&b, 3 * UNIT + 100, 3);
	assert_int_equal(
		sys_writefile(b.sys, SYS_CWD, SPAN("new"), 0, 0644, SYS_OMIT, span_of(bytes, 101)),
		-EDQUOT);
	/* A large file replaced by a smaller one, and the other way round. */
	assert_int_equal(sys_writefile(b.sys, SYS_CWD, SPAN("big"), 0, 0644, SYS_OMIT,
				       span_of(bytes, 2 * UNIT - 5)),
			 0);
	check_quota(&b, 2 * UNIT + 100, 3);
	assert_int_equal(sys_writefile(b.sys, SYS_CWD, SPAN("new"), 0, 0644, SYS_OMIT,
				       span_of(bytes, UNIT + 1)),
			 -EDQUOT);
	check_quota(&b, 2 * UNIT + 100, 3);
	assert_int_equal(sys_truncate(b.sys, SYS_CWD, SPAN("big"), UNIT + 1, 0), 0);
	check_quota(&b, 2 * UNIT + 100, 3);
	assert_int_equal(sys_truncate(b.sys, SYS_CWD, SPAN("big"), 10, 0), 0);
	check_quota(&b, 110, 3);
	assert_int_equal(do_mkdir(b.sys, "d"), 0);
	assert_int_equal(do_mkdir(b.sys, "e"), -EDQUOT);
	assert_int_equal(do_open(b.sys, "e", O_WRONLY | O_CREAT), -EDQUOT);
	assert_int_equal(do_unlink(b.sys, "d", AT_REMOVEDIR), 0);
	assert_int_equal(do_mkdir(b.sys, "e"), 0);
	sys_free(b.sys);
	sys_free(b.user);
	world_reopen(&b.world);
	check_quota(&b, 110, 4);
	b.sys = vfs_sys_new(b.world.vfs, &root_ctx);
	b.user = vfs_sys_new(b.world.vfs, &root_ctx);
	finish(&b);
}

/* ---- batches ---- */

struct answers {
	int64_t r[16];
	size_t count;
	char text[256];
};

static int take_answer(void *arg, uint32_t index, int64_t r, struct span bytes)
{
	struct answers *answers = arg;

	assert_int_equal(index, answers->count);
	answers->r[answers->count++] = r;
	if (bytes.len && bytes.len < sizeof(answers->text)) {
		memcpy(answers->text, bytes.data, bytes.len);
		answers->text[bytes.len] = '\0';
	}
	return 0;
}

static void batches_answer_in_order(void **state)
{
	static const struct sys_req reqs[] = {
		{SYS_mkdir, {SYS_CWD, 0755}, {{"d", 1}}},
		{SYS_open, {SYS_CWD, O_RDONLY, 0}, {{"d", 1}}},
		{SYS_open, {SYS_LAST, O_RDWR | O_CREAT, 0644}, {{"f", 1}}},
		{SYS_write, {SYS_LAST, -1}, {{"batched", 7}}},
		{SYS_read, {SYS_LAST, 10, 0}, {{0}}},
		{SYS_batch, {0}, {{"", 0}}},
		{SYS_open, {SYS_CWD, O_RDONLY, 0}, {{"missing", 7}}},
		{SYS_fstat, {SYS_LAST}, {{0}}},
		{SYS_unlink, {SYS_CWD, 0}, {{"d/f", 3}}},
	};
	static const int64_t want[] = {0, 0, 1, 7, 7, -EINVAL, -ENOENT, -EBADF, 0};
	struct sys_batch batch;
	struct answers answers = {0};
	struct bench b;

	(void)state;
	start(&b);
	batch = SYS_BATCH_INIT(b.sys);
	batch.done = take_answer;
	batch.arg = &answers;
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++)
		assert_int_equal(sys_batch_add(&batch, &reqs[i]), 0);
	assert_int_equal(sys_batch_run(&batch), 0);
	assert_int_equal(answers.count, ARRAY_LEN(want));
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_int_equal(answers.r[i], want[i]);
	assert_string_equal(answers.text, "batched");
	/* Up to the first failure. */
	answers = (struct answers){0};
	batch.flags = SYS_BATCH_STOP;
	batch.first = 0;
	assert_int_equal(sys_batch_add(&batch, &reqs[0]), 0);
	assert_int_equal(sys_batch_add(&batch, &reqs[0]), 0);
	assert_int_equal(sys_batch_run(&batch), 0);
	assert_int_equal(answers.count, 1);
	assert_int_equal(answers.r[0], -EEXIST);
	sys_batch_clear(&batch);
	finish(&b);
}

static void a_batch_ends_where_its_answers_end(void **state)
{
	static char bytes[300000];
	struct sys_batch batch;
	struct answers answers = {0};
	struct bench b;

	(void)state;
	start(&b);
	assert_int_equal(sys_writefile(b.sys, SYS_CWD, SPAN("f"), 0, 0644, SYS_OMIT,
				       span_of(bytes, sizeof(bytes))),
			 0);
	assert_int_equal(do_open(b.sys, "f", O_RDONLY), 0);
	batch = SYS_BATCH_INIT(b.sys);
	batch.done = take_answer;
	batch.arg = &answers;
	for (int i = 0; i < 10; i++) {
		const struct sys_req req = {SYS_read, {0, sizeof(bytes), 0}, {{0}}};

		assert_int_equal(sys_batch_add(&batch, &req), 0);
	}
	assert_int_equal(sys_batch_run(&batch), 0);
	assert_int_equal(answers.count, 10);
	for (int i = 0; i < 10; i++)
		assert_int_equal(answers.r[i], sizeof(bytes));
	sys_batch_clear(&batch);
	finish(&b);
}

/* ---- flock, extended attributes by path ---- */

static void flock_is_of_the_descriptor(void **state)
{
	struct bench b;
	int a, c;

	(void)state;
	start(&b);
	put(b.sys, "f", "");
	a = do_open(b.sys, "f", O_RDONLY);
	c = do_open(b.sys, "f", O_RDONLY);
	assert_int_equal(sys_flock(b.sys, a, LOCK_SH), 0);
	assert_int_equal(sys_flock(b.sys, c, LOCK_SH | LOCK_NB), 0);
	assert_int_equal(sys_flock(b.sys, c, LOCK_EX | LOCK_NB), -EWOULDBLOCK);
	assert_int_equal(sys_flock(b.sys, a, LOCK_UN), 0);
	assert_int_equal(sys_flock(b.sys, c, LOCK_EX), 0);
	assert_int_equal(sys_flock(b.sys, a, LOCK_SH), -EWOULDBLOCK);
	assert_int_equal(sys_close(b.sys, c), 0);
	assert_int_equal(sys_flock(b.sys, a, LOCK_EX), 0);
	assert_int_equal(sys_flock(b.sys, a, 99), -EINVAL);
	assert_int_equal(sys_flock(b.sys, c, LOCK_SH), -EBADF);
	finish(&b);
}

/* ---- hostility ---- */

static uint64_t random_state = 88172645463325252u;

static uint64_t next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static int64_t some_number(void)
{
	static const int64_t numbers[] = {0,
					  1,
					  2,
					  3,
					  -1,
					  SYS_CWD,
					  SYS_LAST,
					  4096,
					  65536,
					  1 << 20,
					  INT32_MAX,
					  INT32_MIN,
					  UINT32_MAX,
					  INT64_MAX,
					  INT64_MIN,
					  SYS_OMIT,
					  0777,
					  O_CREAT | O_RDWR,
					  VFS_SIZE_MAX,
					  AT_EMPTY_PATH,
					  AT_SYMLINK_NOFOLLOW,
					  AT_REMOVEDIR,
					  16385};

	return next() % 4 ? numbers[next() % ARRAY_LEN(numbers)] : (int64_t)next();
}

static struct span some_span(char bytes[5000])
{
	static const struct span spans[] = {
		{"", 0},           {"/", 1},        {".", 1},      {"..", 2},
		{"a", 1},          {"d", 1},        {"d/a", 3},    {"d/../a/", 7},
		{"l", 1},          {"l/x", 3},      {"user.x", 6}, {"security.capability", 19},
		{"trusted.t", 9},  {"system.p", 8}, {"\0", 1},     {"x\0y", 3},
		{"\xff\xfe\n", 3}, {"user.", 5},
	};
	size_t len;

	if (next() % 8)
		return spans[next() % ARRAY_LEN(spans)];
	len = next() % 5000;
	for (size_t i = 0; i < len; i++)
		bytes[i] = "ab/.\0x"[next() % 6];
	return span_of(bytes, len);
}

static void hostile_requests_are_answered(void **state)
{
	CLEANUP(buf_clear) struct buf out = BUF_INIT(SYS_IO_MAX);
	static char bytes[3][5000];
	struct bench b;

	(void)state;
	start(&b);
	assert_int_equal(vfs_set_quota(b.world.vfs, 32 << 20, 200), 0);
	assert_int_equal(do_mkdir(b.sys, "d"), 0);
	assert_int_equal(do_symlink(b.sys, "l", "d/../l2"), 0);
	put(b.sys, "a", "content");
	for (int i = 0; i < 20000; i++) {
		struct sys_req req = {.call = (uint32_t)(next() % 36)};
		struct sys *sys = next() % 4 ? b.sys : b.user;
		bool no_out = next() % 16 == 0;
		int64_t r;

		if (next() % 3 == 0)
			req.call = SYS_open;
		if (next() % 64 == 0)
			req.call = (uint32_t)next();
		for (size_t a = 0; a < ARRAY_LEN(req.a); a++)
			req.a[a] = some_number();
		for (size_t a = 0; a < ARRAY_LEN(req.in); a++)
			req.in[a] = some_span(bytes[a]);
		if (req.call == SYS_fsync && next() % 32)
			continue; /* slow */
		buf_truncate(&out, 0);
		r = sys_call(sys, &req, no_out ? NULL : &out);
		assert_true(r >= 0 || (r > -4096 && out.len == 0));
		assert_true(out.len <= SYS_IO_MAX);
		/* Past what the wire checks, as if a caller forgot to. */
		(void)sys->ops->call(sys, &req, &out);
		if (next() % 16 == 0)
			(void)sys_close(sys, (int)(next() % 64));
	}
	finish(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_flags_are_those_of_linux),
		cmocka_unit_test(a_file_made_unwritable_is_written_by_its_maker),
		cmocka_unit_test(descriptors_end_at_their_limit),
		cmocka_unit_test(positions_move_as_expected),
		cmocka_unit_test(an_unlinked_file_lives_while_it_is_open),
		cmocka_unit_test(attributes_are_set_by_who_may),
		cmocka_unit_test(access_is_what_the_bits_say),
		cmocka_unit_test(listings_carry_attributes),
		cmocka_unit_test(whole_files_are_replaced_in_place),
		cmocka_unit_test(quota_is_exact_and_failure_changes_nothing),
		cmocka_unit_test(batches_answer_in_order),
		cmocka_unit_test(a_batch_ends_where_its_answers_end),
		cmocka_unit_test(flock_is_of_the_descriptor),
		cmocka_unit_test(hostile_requests_are_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
