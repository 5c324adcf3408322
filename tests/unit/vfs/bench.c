/* bench.c - a world with two callers, and short forms of calls. */
#include "bench.h"

void start(struct bench *b)
{
	const struct vfs_ctx user = user_ctx(1000, 1000);

	world_open(&b->world, NULL);
	b->sys = vfs_sys_new(b->world.vfs, &root_ctx);
	b->user = vfs_sys_new(b->world.vfs, &user);
}

void finish(struct bench *b)
{
	sys_free(b->sys);
	sys_free(b->user);
	world_close(&b->world);
}

void put(struct sys *sys, const char *path, const char *text)
{
	assert_int_equal(
		sys_writefile(sys, SYS_CWD, span_str(path), 0, 0644, SYS_OMIT, span_str(text)), 0);
}

void check_file(struct sys *sys, const char *path, const char *text)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(SYS_IO_MAX);
	struct sys_stat st;
	ssize_t n;

	n = sys_readfile(sys, SYS_CWD, span_str(path), 0, SYS_IO_MAX, &st, &buf);
	if (n < 0)
		fail_msg("%s: %zd", path, n);
	assert_int_equal(st.size, n);
	assert_string_equal(buf.data, text);
}

int do_stat(struct sys *sys, const char *path, int flags)
{
	struct sys_stat st;

	return sys_stat(sys, SYS_CWD, span_str(path), flags, &st);
}

int do_open(struct sys *sys, const char *path, int flags)
{
	return sys_open(sys, SYS_CWD, span_str(path), flags, 0644);
}

int do_symlink(struct sys *sys, const char *path, const char *target)
{
	return sys_symlink(sys, SYS_CWD, span_str(path), span_str(target));
}

int do_mkdir(struct sys *sys, const char *path)
{
	return sys_mkdir(sys, SYS_CWD, span_str(path), 0755);
}

int do_unlink(struct sys *sys, const char *path, int flags)
{
	return sys_unlink(sys, SYS_CWD, span_str(path), flags);
}

int do_rename(struct sys *sys, const char *path, const char *path2, unsigned flags)
{
	return sys_rename(sys, SYS_CWD, span_str(path), SYS_CWD, span_str(path2), flags);
}

void make_tree(struct bench *b)
{
	assert_int_equal(do_mkdir(b->sys, "d"), 0);
	assert_int_equal(do_mkdir(b->sys, "/d/e/"), 0);
	put(b->sys, "d/e/f", "f");
	put(b->sys, "d/file", "file");
	assert_int_equal(do_symlink(b->sys, "link", "d/e"), 0);
	assert_int_equal(do_symlink(b->sys, "loop", "loop2"), 0);
	assert_int_equal(do_symlink(b->sys, "loop2", "loop"), 0);
	assert_int_equal(do_symlink(b->sys, "up", "../../../d"), 0);
	assert_int_equal(do_symlink(b->sys, "abs", "/d/file"), 0);
	assert_int_equal(do_symlink(b->sys, "none", "d/missing"), 0);
}
