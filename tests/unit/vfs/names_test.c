/* names_test.c - making, finding and removing names: results, errors, counts, bits. */
#include "world.h"

#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#define R VFS_ROOT

static struct world world;

static int setup(void **state)
{
	(void)state;
	world_open(&world, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	world_close(&world);
	return 0;
}

static void check_nlink(int64_t ino, uint32_t nlink)
{
	assert_int_equal(world_nlink(&world, ino), nlink);
}

static void set_mode(int64_t ino, uint32_t mode, uint32_t uid, uint32_t gid)
{
	struct vfs_attr attr = {.mode = mode, .uid = uid, .gid = gid}, got;

	assert_int_equal(
		vfs_setattr(world.vfs, &root_ctx, ino, VFS_SET_UID | VFS_SET_GID, &attr, &got), 0);
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, ino, VFS_SET_MODE, &attr, &got), 0);
}

static void what_is_made_is_found_and_gone_when_removed(void **state)
{
	int64_t file, dir;

	(void)state;
	file = world_create(&world, R, "file");
	assert_true(file > R);
	dir = world_mkdir(&world, R, "dir");
	assert_true(dir > file);
	assert_int_equal(world_find(&world, R, "file"), file);
	assert_int_equal(world_find(&world, R, "dir"), dir);
	assert_int_equal(world_find(&world, dir, "."), dir);
	assert_int_equal(world_find(&world, dir, ".."), R);
	assert_int_equal(world_find(&world, R, ".."), R);
	assert_int_equal(world_count(&world, R), 2);
	assert_int_equal(world_unlink(&world, R, "file"), 0);
	assert_int_equal(world_rmdir(&world, R, "dir"), 0);
	assert_int_equal(world_find(&world, R, "file"), -ENOENT);
	assert_int_equal(world_find(&world, R, "dir"), -ENOENT);
	assert_int_equal(world_count(&world, R), 0);
	check_nlink(file, 0);
}

static void lookups_say_why_not(void **state)
{
	char name[VFS_NAME_MAX + 2];
	int64_t file = world_create(&world, R, "file");

	(void)state;
	memset(name, 'n', sizeof(name));
	name[VFS_NAME_MAX + 1] = 0;
	assert_int_equal(world_find(&world, R, name), -ENAMETOOLONG);
	assert_int_equal(world_create(&world, R, name), -ENAMETOOLONG);
	name[VFS_NAME_MAX] = 0;
	assert_true(world_create(&world, R, name) > 0);
	assert_int_equal(world_find(&world, file, "x"), -ENOTDIR);
	assert_int_equal(world_find(&world, 4711, "x"), -ESTALE);
	assert_int_equal(world_find(&world, -1, "x"), -ESTALE);
	assert_int_equal(world_find(&world, R, ""), -ENOENT);
}

static void making_says_why_not(void **state)
{
	static char target[PATH_MAX + 1];
	struct vfs_attr attr;
	int64_t file = world_create(&world, R, "file"), dir = world_mkdir(&world, R, "dir");

	(void)state;
	assert_int_equal(world_create(&world, R, "file"), -EEXIST);
	assert_int_equal(world_create(&world, R, "dir"), -EEXIST);
	assert_int_equal(world_mkdir(&world, R, "file"), -EEXIST);
	assert_int_equal(world_mkdir(&world, file, "x"), -ENOTDIR);
	assert_int_equal(world_mkdir(&world, R, "."), -EEXIST);
	assert_int_equal(world_mkdir(&world, R, ".."), -EEXIST);
	assert_int_equal(world_mkdir(&world, R, "a/b"), -EINVAL);
	assert_int_equal(world_mkdir(&world, R, ""), -EINVAL);
	assert_int_equal(vfs_mkdir(world.vfs, &root_ctx, R, span_of("a\0b", 3), 0755, &attr),
			 -EINVAL);
	assert_int_equal(world_symlink(&world, R, "l", ""), -ENOENT);
	memset(target, 't', sizeof(target));
	target[PATH_MAX] = 0;
	assert_int_equal(world_symlink(&world, R, "l", target), -ENAMETOOLONG);
	target[PATH_MAX - 1] = 0;
	assert_true(world_symlink(&world, R, "l", target) > 0);
	assert_int_equal(world_link(&world, dir, R, "hard"), -EPERM);
	assert_int_equal(world_link(&world, file, R, "dir"), -EEXIST);
	assert_int_equal(world_link(&world, 4711, R, "x"), -ESTALE);
	assert_int_equal(vfs_mknod(world.vfs, &root_ctx, R, SPAN("n"), S_IFDIR | 0755, 0, &attr),
			 -EPERM);
	assert_int_equal(vfs_mknod(world.vfs, &root_ctx, R, SPAN("n"), S_IFLNK | 0755, 0, &attr),
			 -EINVAL);
	assert_int_equal(vfs_create(world.vfs, &root_ctx, R, SPAN("dir"), 0644, O_RDWR, &attr),
			 -EISDIR);
	assert_int_equal(vfs_create(world.vfs, &root_ctx, R, SPAN("l"), 0644, O_RDWR, &attr),
			 -ELOOP);
}

static void removing_says_why_not(void **state)
{
	int64_t file = world_create(&world, R, "file"), dir = world_mkdir(&world, R, "dir");

	(void)state;
	assert_true(world_create(&world, dir, "x") > 0);
	assert_int_equal(world_unlink(&world, R, "none"), -ENOENT);
	assert_int_equal(world_rmdir(&world, R, "none"), -ENOENT);
	assert_int_equal(world_unlink(&world, R, "dir"), -EISDIR);
	assert_int_equal(world_rmdir(&world, R, "file"), -ENOTDIR);
	assert_int_equal(world_rmdir(&world, R, "dir"), -ENOTEMPTY);
	assert_int_equal(world_unlink(&world, file, "x"), -ENOTDIR);
	assert_int_equal(world_rmdir(&world, dir, "."), -EINVAL);
	assert_int_equal(world_rmdir(&world, dir, ".."), -ENOTEMPTY);
	assert_int_equal(world_unlink(&world, dir, "."), -EISDIR);
	assert_int_equal(world_unlink(&world, dir, "x"), 0);
	assert_int_equal(world_rmdir(&world, R, "dir"), 0);
}

static void a_removed_directory_takes_nothing_in(void **state)
{
	struct vfs_attr attr;
	int64_t dir;

	(void)state;
	assert_int_equal(vfs_mkdir(world.vfs, &root_ctx, R, SPAN("d"), 0755, &attr), 0);
	dir = attr.ino;
	assert_int_equal(world_rmdir(&world, R, "d"), 0);
	assert_int_equal(world_create(&world, dir, "x"), -ENOENT);
	assert_int_equal(world_mkdir(&world, dir, "x"), -ENOENT);
	assert_int_equal(world_count(&world, dir), -ENOENT);
	assert_int_equal(vfs_tmpfile(world.vfs, &root_ctx, dir, 0600, &attr), -ENOENT);
	world_create(&world, R, "f");
	assert_int_equal(world_rename(&world, R, "f", dir, "f", 0), -ENOENT);
	check_nlink(dir, 0);
	assert_int_equal(world_stat(&world, dir, &attr), 0);
	vfs_forget(world.vfs, dir, 1);
	assert_int_equal(world_stat(&world, dir, &attr), -ESTALE);
}

static void links_are_counted(void **state)
{
	int64_t file = world_create(&world, R, "a"), dir = world_mkdir(&world, R, "d");

	(void)state;
	check_nlink(R, 3);
	check_nlink(dir, 2);
	assert_int_equal(world_link(&world, file, dir, "b"), 0);
	check_nlink(file, 2);
	assert_int_equal(world_find(&world, dir, "b"), file);
	world_mkdir(&world, dir, "sub");
	check_nlink(dir, 3);
	assert_int_equal(world_unlink(&world, R, "a"), 0);
	check_nlink(file, 1);
	world_put(&world, file, "still here");
	world_reopen(&world);
	check_nlink(file, 1);
	check_nlink(dir, 3);
	check_nlink(R, 3);
	world_check_text(&world, file, "still here");
	assert_int_equal(world_rmdir(&world, dir, "sub"), 0);
	check_nlink(dir, 2);
}

static void links_have_a_limit(void **state)
{
	int64_t file = world_create(&world, R, "a");
	char name[16];

	(void)state;
	for (int i = 1; i < VFS_LINK_MAX; i++) {
		snprintf(name, sizeof(name), "%d", i);
		assert_int_equal(world_link(&world, file, R, name), 0);
	}
	check_nlink(file, VFS_LINK_MAX);
	assert_int_equal(world_link(&world, file, R, "more"), -EMLINK);
}

static void a_symlink_keeps_its_target(void **state)
{
	CLEANUP(buf_clear) struct buf target = BUF_INIT(PATH_MAX);
	int64_t link = world_symlink(&world, R, "l", "../some/where");
	struct vfs_attr attr;

	(void)state;
	world_reopen(&world);
	assert_int_equal(vfs_readlink(world.vfs, &root_ctx, link, &target), 0);
	assert_string_equal(target.data, "../some/where");
	assert_int_equal(world_stat(&world, link, &attr), 0);
	assert_int_equal(attr.size, 13);
	assert_int_equal(attr.mode, S_IFLNK | 0777);
	assert_int_equal(vfs_readlink(world.vfs, &root_ctx, R, &target), -EINVAL);
}

static void special_files_keep_their_numbers(void **state)
{
	struct vfs_ctx user = user_ctx(1000, 1000);
	struct vfs_attr attr;

	(void)state;
	set_mode(R, 0777, 0, 0);
	assert_int_equal(
		vfs_mknod(world.vfs, &root_ctx, R, SPAN("null"), S_IFCHR | 0666, 0x103, &attr), 0);
	vfs_forget(world.vfs, attr.ino, 1);
	assert_int_equal(vfs_mknod(world.vfs, &user, R, SPAN("x"), S_IFBLK | 0666, 0x103, &attr),
			 -EPERM);
	assert_int_equal(vfs_mknod(world.vfs, &user, R, SPAN("fifo"), S_IFIFO | 0666, 0, &attr), 0);
	vfs_forget(world.vfs, attr.ino, 1);
	world_reopen(&world);
	assert_int_equal(vfs_lookup(world.vfs, &root_ctx, R, SPAN("null"), &attr), 0);
	assert_int_equal(attr.rdev, 0x103);
	assert_int_equal(attr.mode, S_IFCHR | 0666);
	assert_int_equal(vfs_lookup(world.vfs, &root_ctx, R, SPAN("fifo"), &attr), 0);
	assert_int_equal(attr.mode, S_IFIFO | 0666);
	assert_int_equal(attr.uid, 1000);
}

static void directories_need_permission(void **state)
{
	struct vfs_ctx user = user_ctx(1000, 1000);
	int64_t dir = world_mkdir(&world, R, "d");
	struct vfs_attr attr;

	(void)state;
	world_create(&world, dir, "f");
	assert_int_equal(vfs_lookup(world.vfs, &user, dir, SPAN("f"), &attr), 0);
	vfs_forget(world.vfs, attr.ino, 1);
	assert_int_equal(vfs_create(world.vfs, &user, dir, SPAN("g"), 0644, 0, &attr), -EACCES);
	assert_int_equal(vfs_mkdir(world.vfs, &user, dir, SPAN("f"), 0755, &attr), -EEXIST);
	assert_int_equal(vfs_unlink(world.vfs, &user, dir, SPAN("f")), -EACCES);
	assert_int_equal(vfs_unlink(world.vfs, &user, dir, SPAN("none")), -ENOENT);
	set_mode(dir, 0766, 0, 0);
	assert_int_equal(vfs_lookup(world.vfs, &user, dir, SPAN("f"), &attr), -EACCES);
	assert_int_equal(vfs_unlink(world.vfs, &user, dir, SPAN("none")), -EACCES);
	set_mode(dir, 0070, 0, 1000);
	assert_int_equal(vfs_create(world.vfs, &user, dir, SPAN("g"), 0600, 0, &attr), 0);
	assert_int_equal(attr.uid, 1000);
	assert_int_equal(attr.gid, 1000);
	vfs_forget(world.vfs, attr.ino, 1);
	user.trusted = true;
	set_mode(dir, 0, 0, 0);
	assert_int_equal(vfs_unlink(world.vfs, &user, dir, SPAN("f")), 0);
}

static void sticky_protects_what_others_own(void **state)
{
	struct vfs_ctx alice = user_ctx(1000, 1000), bob = user_ctx(1001, 1001);
	int64_t dir = world_mkdir(&world, R, "tmp");
	struct vfs_attr attr;

	(void)state;
	set_mode(dir, 01777, 0, 0);
	assert_int_equal(vfs_create(world.vfs, &alice, dir, SPAN("a"), 0666, 0, &attr), 0);
	vfs_forget(world.vfs, attr.ino, 1);
	assert_int_equal(vfs_create(world.vfs, &bob, dir, SPAN("b"), 0666, 0, &attr), 0);
	vfs_forget(world.vfs, attr.ino, 1);
	assert_int_equal(vfs_unlink(world.vfs, &bob, dir, SPAN("a")), -EPERM);
	assert_int_equal(vfs_rename(world.vfs, &bob, dir, SPAN("a"), dir, SPAN("c"), 0), -EPERM);
	assert_int_equal(vfs_rename(world.vfs, &bob, dir, SPAN("b"), dir, SPAN("a"), 0), -EPERM);
	assert_int_equal(vfs_rename(world.vfs, &bob, dir, SPAN("b"), dir, SPAN("c"), 0), 0);
	set_mode(dir, 01777, 1001, 0);
	assert_int_equal(vfs_unlink(world.vfs, &bob, dir, SPAN("a")), 0);
}

static bool in_group_7(const struct vfs_ctx *ctx, uint32_t gid)
{
	(void)ctx;
	return gid == 7;
}

static void setgid_is_inherited(void **state)
{
	struct vfs_ctx user = user_ctx(1000, 1000);
	int64_t dir = world_mkdir(&world, R, "d");
	struct vfs_attr attr;

	(void)state;
	set_mode(dir, 02777, 0, 7);
	assert_int_equal(vfs_mkdir(world.vfs, &user, dir, SPAN("sub"), 0755, &attr), 0);
	vfs_forget(world.vfs, attr.ino, 1);
	assert_int_equal(attr.gid, 7);
	assert_int_equal(attr.mode, S_IFDIR | 02755);
	assert_int_equal(vfs_create(world.vfs, &user, dir, SPAN("f"), 02755, 0, &attr), 0);
	vfs_forget(world.vfs, attr.ino, 1);
	assert_int_equal(attr.gid, 7);
	assert_int_equal(attr.mode, S_IFREG | 0755);
	assert_int_equal(vfs_create(world.vfs, &user, dir, SPAN("g"), 02745, 0, &attr), 0);
	vfs_forget(world.vfs, attr.ino, 1);
	assert_int_equal(attr.mode, S_IFREG | 02745);
	user.in_group = in_group_7;
	assert_int_equal(vfs_create(world.vfs, &user, dir, SPAN("h"), 02755, 0, &attr), 0);
	vfs_forget(world.vfs, attr.ino, 1);
	assert_int_equal(attr.mode, S_IFREG | 02755);
	assert_int_equal(vfs_mkdir(world.vfs, &root_ctx, R, SPAN("e"), 06755, &attr), 0);
	vfs_forget(world.vfs, attr.ino, 1);
	assert_int_equal(attr.mode, S_IFDIR | 0755);
}

static void an_open_file_without_a_name_lives_on(void **state)
{
	struct vfs_attr attr;
	int64_t file = world_create(&world, R, "f");

	(void)state;
	world_put(&world, file, "text");
	assert_int_equal(vfs_open(world.vfs, &root_ctx, file, O_RDWR), 0);
	assert_int_equal(world_unlink(&world, R, "f"), 0);
	assert_int_equal(vfs_flush(world.vfs, false), 0);
	world_check_text(&world, file, "text");
	world_put(&world, file, "more text");
	assert_int_equal(vfs_flush(world.vfs, false), 0);
	check_nlink(file, 0);
	assert_int_equal(world_link(&world, file, R, "again"), -ENOENT);
	vfs_release(world.vfs, file);
	assert_int_equal(world_stat(&world, file, &attr), -ESTALE);
	assert_int_equal(vfs_flush(world.vfs, false), 0);
	assert_int_equal(world_stat(&world, file, &attr), -ESTALE);
}

static void an_orphan_goes_with_the_workspace(void **state)
{
	struct vfs_stats before, after;
	struct vfs_attr attr;
	int64_t file;

	(void)state;
	vfs_get_stats(world.vfs, &before);
	file = world_create(&world, R, "f");
	world_put(&world, file, "text");
	assert_int_equal(vfs_open(world.vfs, &root_ctx, file, O_RDWR), 0);
	assert_int_equal(world_unlink(&world, R, "f"), 0);
	assert_int_equal(vfs_flush(world.vfs, false), 0);
	world_reopen(&world);
	assert_int_equal(world_stat(&world, file, &attr), -ESTALE);
	vfs_get_stats(world.vfs, &after);
	assert_int_equal(after.bytes, before.bytes);
	assert_int_equal(after.inodes, before.inodes);
}

static void a_tmpfile_gets_a_name(void **state)
{
	struct vfs_attr attr, other;
	int64_t file;

	(void)state;
	assert_int_equal(vfs_tmpfile(world.vfs, &root_ctx, R, 0600, &attr), 0);
	file = attr.ino;
	assert_int_equal(attr.nlink, 0);
	world_put(&world, file, "text");
	assert_int_equal(vfs_flush(world.vfs, false), 0);
	assert_int_equal(world_link(&world, file, R, "named"), 0);
	assert_int_equal(vfs_tmpfile(world.vfs, &root_ctx, R, 0600, &other), 0);
	assert_int_equal(world_count(&world, R), 1);
	world_reopen(&world);
	check_nlink(file, 1);
	assert_int_equal(world_find(&world, R, "named"), file);
	world_check_text(&world, file, "text");
	assert_int_equal(world_stat(&world, other.ino, &attr), -ESTALE);
}

static void a_hostile_forget_is_not_believed(void **state)
{
	int64_t file = world_create(&world, R, "f");
	struct vfs_attr attr;

	(void)state;
	assert_int_equal(vfs_lookup(world.vfs, &root_ctx, R, SPAN("f"), &attr), 0);
	vfs_forget(world.vfs, file, UINT64_MAX);
	vfs_forget(world.vfs, file, 1);
	vfs_forget(world.vfs, 0, 1);
	vfs_forget(world.vfs, R, UINT64_MAX);
	assert_int_equal(world_find(&world, R, "f"), file);
}

static void times_are_those_of_the_change(void **state)
{
	int64_t dir = world_mkdir(&world, R, "d"), file = world_create(&world, dir, "f");
	struct vfs_attr past = {.atime = 1, .mtime = 2}, attr;
	const unsigned set = VFS_SET_ATIME | VFS_SET_MTIME;

	(void)state;
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, dir, set, &past, &attr), 0);
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, file, set, &past, &attr), 0);
	assert_int_equal(world_link(&world, file, dir, "g"), 0);
	assert_int_equal(world_stat(&world, file, &attr), 0);
	assert_int_equal(attr.mtime, 2);
	assert_true(attr.ctime >= attr.btime);
	assert_int_equal(world_stat(&world, dir, &attr), 0);
	assert_true(attr.mtime >= attr.btime);
	assert_int_equal(attr.mtime, attr.ctime);
	assert_int_equal(attr.atime, 1);
}

static void inodes_have_a_quota(void **state)
{
	struct vfs_stats stats;

	(void)state;
	vfs_get_stats(world.vfs, &stats);
	assert_int_equal(vfs_set_quota(world.vfs, 0, stats.inodes + 2), 0);
	assert_true(world_create(&world, R, "a") > 0);
	assert_true(world_mkdir(&world, R, "b") > 0);
	assert_int_equal(world_create(&world, R, "c"), -EDQUOT);
	assert_int_equal(world_symlink(&world, R, "c", "x"), -EDQUOT);
	assert_int_equal(world_unlink(&world, R, "a"), 0);
	world_reopen(&world);
	assert_true(world_create(&world, R, "c") > 0);
	assert_int_equal(world_create(&world, R, "d"), -EDQUOT);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(what_is_made_is_found_and_gone_when_removed),
		CASE(lookups_say_why_not),
		CASE(making_says_why_not),
		CASE(removing_says_why_not),
		CASE(a_removed_directory_takes_nothing_in),
		CASE(links_are_counted),
		CASE(links_have_a_limit),
		CASE(a_symlink_keeps_its_target),
		CASE(special_files_keep_their_numbers),
		CASE(directories_need_permission),
		CASE(sticky_protects_what_others_own),
		CASE(setgid_is_inherited),
		CASE(an_open_file_without_a_name_lives_on),
		CASE(an_orphan_goes_with_the_workspace),
		CASE(a_tmpfile_gets_a_name),
		CASE(a_hostile_forget_is_not_believed),
		CASE(times_are_those_of_the_change),
		CASE(inodes_have_a_quota),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
