/* mount_test.c - mounting, what a mounted program can do, and how a mount ends. */
#include "fuse/wire.h"
#include "live.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- what programs do ---- */

static void an_unlinked_file_lives_while_open(void **state)
{
	struct live live;
	struct stat stat_buf;
	int fd;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "still here");
	fd = open(live_path(&live, "file"), O_RDWR | O_CLOEXEC);
	assert_int_equal(unlink(live_path(&live, "file")), 0);
	live_check_fd(fd, "still here");
	assert_int_equal(pwrite(fd, "STILL", 5, 0), 5);
	assert_int_equal(fsync(fd), 0);
	live_check_fd(fd, "STILL here");
	assert_int_equal(fstat(fd, &stat_buf), 0);
	assert_int_equal(stat_buf.st_nlink, 0);
	close(fd);
	live_close(&live);
}

static void truncation_and_append(void **state)
{
	struct live live;
	int fd;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "a long first version");
	live_put(&live, "file", "short");
	fd = open(live_path(&live, "file"), O_RDWR | O_APPEND | O_CLOEXEC);
	live_check_fd(fd, "short");
	assert_int_equal(write(fd, "er", 2), 2);
	live_check_fd(fd, "shorter");
	assert_int_equal(ftruncate(fd, 2), 0);
	live_check_fd(fd, "sh");
	close(fd);
	assert_int_equal(truncate(live_path(&live, "file"), 1), 0);
	live_check_behind(&live, live_ino(&live, "file"), "s");
	live_close(&live);
}

static void a_file_without_a_name_gets_one(void **state)
{
	struct live live;
	char path[64];
	int fd;

	(void)state;
	live_open(&live, NULL);
	fd = open(live.mnt, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "hidden", 6), 6);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(
		linkat(AT_FDCWD, path, AT_FDCWD, live_path(&live, "named"), AT_SYMLINK_FOLLOW), 0);
	close(fd);
	live_check_behind(&live, live_ino(&live, "named"), "hidden");
	live_close(&live);
}

static void holes_copies_and_space(void **state)
{
	struct live live;
	struct stat stat_buf;
	loff_t from = 0, to = 0;
	int fd, fd2;

	(void)state;
	live_open(&live, NULL);
	fd = open(live_path(&live, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(pwrite(fd, "end", 3, 1 << 20), 3);
	assert_in_range(lseek(fd, 0, SEEK_DATA), 0,
			1 << 20); /* not a hole before it is written back */
	assert_int_equal(lseek(fd, 1 << 20, SEEK_DATA), 1 << 20);
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(fdatasync(fd), 0);
	assert_int_equal(lseek(fd, 2 << 20, SEEK_DATA), -1);
	assert_int_equal(errno, ENXIO);
	fd2 = open(live_path(&live, "copy"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	while (from < (1 << 20) + 3)
		assert_true(copy_file_range(fd, &from, fd2, &to, (1 << 20) + 3 - (size_t)from, 0) >
			    0);
	assert_int_equal(fstat(fd2, &stat_buf), 0);
	assert_int_equal(stat_buf.st_size, (1 << 20) + 3);
	assert_int_equal(fallocate(fd2, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20), 0);
	assert_int_equal(fallocate(fd2, 0, 0, 2 << 20), 0);
	assert_int_equal(fstat(fd2, &stat_buf), 0);
	assert_int_equal(stat_buf.st_size, 2 << 20);
	close(fd);
	close(fd2);
	live_close(&live);
}

static void names(void **state)
{
	struct live live;
	struct statfs statfs_buf;
	struct statx statx_buf;
	char target[16];

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "a", "A");
	live_put(&live, "b", "B");
	assert_int_equal(renameat2(AT_FDCWD, live_path(&live, "a"), AT_FDCWD, live_path(&live, "b"),
				   RENAME_NOREPLACE),
			 -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(renameat2(AT_FDCWD, live_path(&live, "a"), AT_FDCWD, live_path(&live, "b"),
				   RENAME_EXCHANGE),
			 0);
	live_check_behind(&live, live_ino(&live, "a"), "B");
	assert_int_equal(link(live_path(&live, "a"), live_path(&live, "c")), 0);
	assert_int_equal(live_ino(&live, "a"), live_ino(&live, "c"));
	assert_int_equal(symlink("a", live_path(&live, "s")), 0);
	assert_int_equal(readlink(live_path(&live, "s"), target, sizeof(target)), 1);
	assert_int_equal(mkfifo(live_path(&live, "p"), 0644), 0);
	assert_int_equal(mkdir(live_path(&live, "d"), 0755), 0);
	assert_int_equal(rmdir(live_path(&live, "d")), 0);
	assert_int_equal(statfs(live.mnt, &statfs_buf), 0);
	assert_true(statfs_buf.f_blocks > 0);
	assert_int_equal(statx(AT_FDCWD, live_path(&live, "a"), 0, STATX_BTIME, &statx_buf), 0);
	assert_true(statx_buf.stx_mask & STATX_BTIME);
	assert_true(statx_buf.stx_btime.tv_sec > 1700000000);
	live_close(&live);
}

static void extended_attributes(void **state)
{
	const struct fuse_options options = {.name = "test", .xattrs = true, .threads = 2};
	struct live live;
	char value[16];

	(void)state;
	live_open(&live, &options);
	live_put(&live, "file", "x");
	assert_int_equal(setxattr(live_path(&live, "file"), "user.a", "value", 5, 0), 0);
	assert_int_equal(setxattr(live_path(&live, "file"), "user.a", "value", 5, XATTR_CREATE),
			 -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(getxattr(live_path(&live, "file"), "user.a", value, sizeof(value)), 5);
	assert_memory_equal(value, "value", 5);
	assert_int_equal(getxattr(live_path(&live, "file"), "user.a", value, 2), -1);
	assert_int_equal(errno, ERANGE);
	assert_int_equal(listxattr(live_path(&live, "file"), value, sizeof(value)), 7);
	assert_int_equal(removexattr(live_path(&live, "file"), "user.a"), 0);
	assert_int_equal(getxattr(live_path(&live, "file"), "user.a", value, sizeof(value)), -1);
	assert_int_equal(errno, ENODATA);
	live_close(&live);
}

static int try_lock(const struct live *live)
{
	struct flock lock = {.l_type = F_WRLCK, .l_start = 5, .l_len = 1};
	int fd = open(live_path(live, "file"), O_RDWR | O_CLOEXEC);

	if (fcntl(fd, F_SETLK, &lock) == 0)
		return 0;
	return errno == EAGAIN && flock(fd, LOCK_EX | LOCK_NB) == 0 ? 1 : 2;
}

static void locks_are_the_kernels_own(void **state)
{
	struct flock lock = {.l_type = F_WRLCK, .l_len = 10};
	struct live live;
	int fd, fd2;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "x");
	fd = open(live_path(&live, "file"), O_RDWR | O_CLOEXEC);
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	assert_int_equal(live_as(0, try_lock, &live), 1);
	/* POSIX: closing any descriptor of the file drops the lock. */
	fd2 = open(live_path(&live, "file"), O_RDONLY | O_CLOEXEC);
	close(fd2);
	assert_int_equal(live_as(0, try_lock, &live), 0);
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(live_as(0, try_lock, &live), 2);
	close(fd);
	assert_int_equal(live_as(0, try_lock, &live), 0);
	live_close(&live);
}

static void writing_drops_setuid(void **state)
{
	const struct fuse_options options = {.name = "test", .allow_other = true, .threads = 2};
	struct live live;
	struct stat stat_buf;

	(void)state;
	live_open(&live, &options);
	live_put(&live, "file", "x");
	assert_int_equal(chmod(live_path(&live, "file"), 06755), 0);
	assert_int_equal(stat(live_path(&live, "file"), &stat_buf), 0);
	assert_int_equal(stat_buf.st_mode & 07777, 06755);
	assert_int_equal(chown(live_path(&live, "file"), 65534, 65534), 0);
	assert_int_equal(stat(live_path(&live, "file"), &stat_buf), 0);
	assert_int_equal(stat_buf.st_mode & 07777, 0755);
	live_close(&live);
}

/* ---- who may ---- */

static int look_inside(const struct live *live)
{
	struct stat stat_buf;

	if (stat(live_path(live, "file"), &stat_buf) < 0)
		return errno;
	return open(live_path(live, "file"), O_RDONLY | O_CLOEXEC) < 0 ? errno : 0;
}

static void a_private_mount_is_roots(void **state)
{
	struct live live;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "x");
	assert_int_equal(live_as(65534, look_inside, &live), EACCES);
	live_close(&live);
}

static void a_shared_mount_checks_permissions(void **state)
{
	const struct fuse_options options = {.name = "test", .allow_other = true, .threads = 2};
	struct live live;

	(void)state;
	live_open(&live, &options);
	live_put(&live, "file", "x");
	assert_int_equal(live_as(65534, look_inside, &live), 0);
	assert_int_equal(chmod(live_path(&live, "file"), 0600), 0);
	assert_int_equal(live_as(65534, look_inside, &live), EACCES);
	assert_int_equal(chown(live_path(&live, "file"), 65534, 0), 0);
	assert_int_equal(live_as(65534, look_inside, &live), 0);
	live_close(&live);
}

/* In a process of its own, that is not root: through fusermount3, without handles. */
static int mount_as_user(const struct live *unused)
{
	const struct fuse_options options = {.name = "a, b", .threads = 1};
	struct live live;
	int64_t ino;
	int fd;

	(void)unused;
	if (setgid(65534) < 0 || setuid(65534) < 0)
		return 1;
	setenv("CMOCKA_TEST_ABORT", "1", 1); /* else a failure goes on in the parent's place */
	live_open(&live, &options);
	live_put(&live, "file", "short");
	ino = live_ino(&live, "file");
	fd = open(live_path(&live, "file"), O_RDWR | O_CLOEXEC);
	live_put_behind(&live, ino, "now it is much longer");
	live_check_fd(fd, "now it is much longer");
	live_put_behind(&live, ino, "tiny");
	live_check_fd(fd, "tiny");
	assert_int_equal(pwrite(fd, "T", 1, 0), 1);
	live_check_behind(&live, ino, "Tiny");
	assert_int_equal(unlink(live_path(&live, "file")), 0);
	close(fd);
	live_close(&live);
	return 0;
}

/* Some hosts keep the device from users: here it is everybody's. */
static int with_a_device_for_all(const struct live *live)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/device", live->dir);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mknod(path, S_IFCHR, makedev(10, 229)) < 0 || chmod(path, 0666) < 0)
		return 77;
	if (mount(path, "/dev/fuse", NULL, MS_BIND, NULL) < 0 || unlink(path) < 0)
		return 77;
	return mount_as_user(live);
}

static void an_ordinary_user_mounts(void **state)
{
	struct fuse_host host;
	struct live live;
	int status;

	(void)state;
	fuse_get_host(&host);
	if (!host.fusermount)
		skip();
	live_open(&live, NULL);
	status = live_as(0, with_a_device_for_all, &live);
	live_close(&live);
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

static void read_only_is(void **state)
{
	const struct fuse_options options = {.name = "test", .readonly = true, .threads = 1};
	struct live live;

	(void)state;
	live_open(&live, &options);
	assert_int_equal(mkdir(live_path(&live, "d"), 0755), -1);
	assert_int_equal(errno, EROFS);
	live_close(&live);
}

/* ---- the ends of mounts ---- */

static void umount_ends_serving(void **state)
{
	struct live live;
	struct err err = ERR_INIT;
	int64_t inos[4];

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "x");
	assert_int_equal(fuse_wait(live.fuse, 50), -ETIMEDOUT);
	assert_int_equal(fuse_umount(live.mnt, &err), 0);
	assert_int_equal(fuse_wait(live.fuse, 10000), 0);
	/* The kernel's references went with it. */
	assert_int_equal(vfs_known_files(live.vfs, inos, 4), 0);
	assert_int_equal(fuse_writeback(live.fuse), 0);
	fuse_notified(live.fuse);
	live_close(&live);
}

static void stopping_a_mount_in_use_fails_those_inside(void **state)
{
	struct live live;
	int fd, dir;

	(void)state;
	live_open(&live, NULL);
	live_put(&live, "file", "x");
	fd = open(live_path(&live, "file"), O_RDWR | O_CLOEXEC);
	dir = open(live.mnt, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "unsaved", 7, 0), 7);
	fuse_stop(live.fuse);
	live.fuse = NULL;
	assert_int_equal(openat(dir, "file", O_RDONLY | O_CLOEXEC), -1);
	/* What was dirty was written first. */
	close(fd);
	close(dir);
	{
		struct vfs_attr attr;

		assert_int_equal(vfs_lookup(live.vfs, &live.ctx, 1, SPAN("file"), &attr), 0);
		live_check_behind(&live, attr.ino, "unsaved");
		vfs_forget(live.vfs, attr.ino, 1);
	}
	live_close(&live);
}

static void a_mount_can_be_handed_over(void **state)
{
	const struct fuse_options options = {.name = "test", .threads = 1};
	struct err err = ERR_INIT;
	struct fuse *fuse;
	struct live live;
	int mount_fd, fd;

	(void)state;
	live_open(&live, &options);
	assert_int_equal(fuse_umount(live.mnt, &err), 0);
	fuse_stop(live.fuse);
	assert_int_equal(fuse_start(live.vfs, &options, &fuse, &mount_fd, &err), 0);
	fd = openat(mount_fd, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	assert_int_equal(move_mount(mount_fd, "", AT_FDCWD, live.mnt, MOVE_MOUNT_F_EMPTY_PATH), 0);
	close(mount_fd);
	live_check_behind(&live, live_ino(&live, "file"), "x");
	assert_int_equal(umount2(live.mnt, MNT_DETACH), 0);
	live.fuse = fuse;
	live_close(&live);
}

static void where_nothing_can_be_mounted_it_says_why(void **state)
{
	const struct fuse_options options = {.name = "test", .threads = 1};
	struct err err = ERR_INIT;
	struct fuse *fuse = NULL;
	char path[256];
	struct live live;

	(void)state;
	live_open(&live, NULL);
	assert_int_equal(fuse_mount(live.vfs, live.mnt, &options, &fuse, &err), -EBUSY);
	assert_non_null(strstr(err.text, "in use"));
	snprintf(path, sizeof(path), "%s/missing", live.dir);
	assert_int_equal(fuse_mount(live.vfs, path, &options, &fuse, &err), -ENOENT);
	assert_non_null(strstr(err.text, "does not exist"));
	snprintf(path, sizeof(path), "%s/w.db", live.dir);
	assert_int_equal(fuse_mount(live.vfs, path, &options, &fuse, &err), -ENOTDIR);
	assert_non_null(strstr(err.text, "not a directory"));
	assert_int_equal(fuse_clean(live.mnt, &err), -EINVAL);
	assert_int_equal(fuse_umount(live.dir, &err), -EINVAL);
	assert_null(fuse);
	live_close(&live);
}

static void a_mount_in_use_is_not_unmounted(void **state)
{
	struct live live;
	struct err err = ERR_INIT;
	int fd;

	(void)state;
	live_open(&live, NULL);
	fd = open(live.mnt, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fuse_umount(live.mnt, &err), -EBUSY);
	assert_non_null(strstr(err.text, "in use"));
	close(fd);
	assert_int_equal(fuse_umount(live.mnt, &err), 0);
	live_close(&live);
}

static int mount_and_die(const struct live *live)
{
	const struct fuse_options options = {.name = "dead", .threads = 1};
	struct fuse *fuse;

	if (fuse_mount(live->vfs, live->mnt, &options, &fuse, NULL) < 0)
		_exit(1);
	raise(SIGKILL);
	return 0;
}

static void a_dead_mount_is_cleaned(void **state)
{
	const struct fuse_options options = {.name = "test", .threads = 1};
	struct err err = ERR_INIT;
	struct live live;
	struct stat stat_buf;
	int status;
	pid_t pid;

	(void)state;
	live_open(&live, NULL);
	assert_int_equal(fuse_umount(live.mnt, &err), 0);
	fuse_stop(live.fuse);
	live.fuse = NULL;
	for (int i = 0; i < 2; i++) {
		pid = fork();
		if (pid == 0)
			_exit(mount_and_die(&live));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		if (i == 0)
			assert_int_equal(fuse_clean(live.mnt, &err), 0);
	}
	/* Mounting there cleans up by itself. */
	assert_int_equal(fuse_mount(live.vfs, live.mnt, &options, &live.fuse, &err), 0);
	assert_int_equal(stat(live.mnt, &stat_buf), 0);
	live_close(&live);
}

static void the_mount_says_whose_it_is(void **state)
{
	const struct fuse_options options = {.name = "my,work space", .threads = 1};
	struct live live;
	char line[512], want[256];
	bool found = false;
	FILE *mounts;

	(void)state;
	live_open(&live, &options);
	snprintf(want, sizeof(want), "my,work\\040space %s fuse.computer rw,nosuid,nodev",
		 live.mnt);
	mounts = fopen("/proc/mounts", "re");
	while (fgets(line, sizeof(line), mounts))
		found |= strncmp(line, want, strlen(want)) == 0;
	fclose(mounts);
	assert_true(found);
	live_close(&live);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unlinked_file_lives_while_open),
		cmocka_unit_test(truncation_and_append),
		cmocka_unit_test(a_file_without_a_name_gets_one),
		cmocka_unit_test(holes_copies_and_space),
		cmocka_unit_test(names),
		cmocka_unit_test(extended_attributes),
		cmocka_unit_test(locks_are_the_kernels_own),
		cmocka_unit_test(writing_drops_setuid),
		cmocka_unit_test(a_private_mount_is_roots),
		cmocka_unit_test(a_shared_mount_checks_permissions),
		cmocka_unit_test(an_ordinary_user_mounts),
		cmocka_unit_test(read_only_is),
		cmocka_unit_test(umount_ends_serving),
		cmocka_unit_test(stopping_a_mount_in_use_fails_those_inside),
		cmocka_unit_test(a_mount_can_be_handed_over),
		cmocka_unit_test(where_nothing_can_be_mounted_it_says_why),
		cmocka_unit_test(a_mount_in_use_is_not_unmounted),
		cmocka_unit_test(a_dead_mount_is_cleaned),
		cmocka_unit_test(the_mount_says_whose_it_is),
	};
	int failed;

	live_need(argc, argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	live_uring_restore();
	return failed;
}
