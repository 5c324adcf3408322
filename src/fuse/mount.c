/* mount.c - from nothing to a mount, and back: as root, or through fusermount3. */
#include "base/fd.h"
#include "base/mem.h"
#include "fuse/fuse_i.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEVICE "/dev/fuse"

static int device_open(int *ret_fd, struct err *err)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
		return err_set(err, ENOENT,
			       DEVICE " is not there: load the fuse module (modprobe fuse), or run "
				      "where it is allowed");
	if (errno == EPERM || errno == EACCES)
		return err_set(err, errno,
			       DEVICE " may not be opened: run as root, or where it is allowed");
	return err_set(err, errno, "cannot open " DEVICE);
}

/* One parameter of the new filesystem; a flag when `value` is NULL. */
static int set(int config, const char *key, const char *value, struct err *err)
{
	unsigned command = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;

	if (fsconfig(config, command, key, value, 0) < 0)
		return err_set(err, errno, "the kernel refuses the mount option %s", key);
	return 0;
}

/*
 * A mount that only root may use needs no permission checks: whoever gets in may do everything, and
 * without them the kernel does not ask for a directory's attributes again after each change in it.
 */
static bool needs_checks(const struct fuse_options *options)
{
	return options->allow_other || geteuid() != 0;
}

static int configure(int config, int device, const struct fuse_options *options, struct err *err)
{
	char number[3][16];
	const char *rows[][2] = {
		{"source", options->name && *options->name ? options->name : "computer"},
		{"subtype", "computer"},
		{"fd", number[0]},
		{"rootmode", "40000"},
		{"user_id", number[1]},
		{"group_id", number[2]},
	};
	int r = 0;

	snprintf(number[0], sizeof(number[0]), "%d", device);
	snprintf(number[1], sizeof(number[1]), "%u", (unsigned)geteuid());
	snprintf(number[2], sizeof(number[2]), "%u", (unsigned)getegid());
	for (size_t i = 0; i < ARRAY_LEN(rows) && r == 0; i++)
		r = set(config, rows[i][0], rows[i][1], err);
	if (r == 0 && needs_checks(options))
		r = set(config, "default_permissions", NULL, err);
	if (r == 0 && options->allow_other)
		r = set(config, "allow_other", NULL, err);
	if (r == 0 && options->readonly)
		r = set(config, "ro", NULL, err);
	if (r == 0 && fsconfig(config, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		r = err_set(err, errno, "the kernel refuses to mount");
	return r;
}

/* A filesystem for the connection, attached nowhere. */
static int mount_make(int device, const struct fuse_options *options, int *ret_mount,
		      struct err *err)
{
	CLEANUP(fd_close) int config = -1;
	unsigned attr = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID;
	int mount, r;

	config = fsopen("fuse", FSOPEN_CLOEXEC);
	if (config < 0 && errno == EPERM)
		return err_set(err, EPERM,
			       "mounting needs root (or a user namespace of one's own)");
	if (config < 0 && errno == ENODEV)
		return err_set(err, ENODEV, "this kernel has no FUSE: modprobe fuse");
	if (config < 0)
		return err_set(err, errno, "cannot make a mount");
	r = configure(config, device, options, err);
	if (r < 0)
		return r;
	if (options->readonly)
		attr |= MOUNT_ATTR_RDONLY;
	mount = fsmount(config, FSMOUNT_CLOEXEC, attr);
	if (mount < 0)
		return err_set(err, errno, "cannot make a mount");
	*ret_mount = mount;
	return 0;
}

/* A connection, its filesystem, and us serving it. */
static int start(struct vfs *vfs, const struct fuse_options *options, bool keep,
		 struct fuse **ret_fuse, int *ret_mount, struct err *err)
{
	CLEANUP(fd_close) int mount = -1;
	int device = -1, r;

	r = device_open(&device, err);
	if (r < 0)
		return r;
	r = mount_make(device, options, &mount, err);
	if (r < 0) {
		fd_close(&device);
		return r;
	}
	r = fuse_begin(vfs, device, true, options, ret_fuse, err);
	if (r < 0)
		return r;
	hand_start(*ret_fuse, mount, keep);
	*ret_mount = mount;
	mount = -1;
	return 0;
}

int fuse_start(struct vfs *vfs, const struct fuse_options *options, struct fuse **ret_fuse,
	       int *ret_mount_fd, struct err *err)
{
	return start(vfs, options, true, ret_fuse, ret_mount_fd, err);
}

/* ---- at a directory ---- */

/* statx, and again for as long as a dying mount fails what was asked of it before it died. */
static int look_at(const char *dir, int flags, struct statx *ret_stat)
{
	const struct timespec rest = {.tv_nsec = 1000000};
	int r = -1;

	for (int i = 0; i < 1000; i++) {
		r = statx(AT_FDCWD, dir, flags | AT_NO_AUTOMOUNT, STATX_TYPE, ret_stat);
		if (r == 0 || (errno != ECONNABORTED && errno != ECANCELED))
			break;
		nanosleep(&rest, NULL);
	}
	return r;
}

/* What is at `dir`: 0 when something can be mounted there. */
static int check_dir(const char *dir, struct err *err)
{
	struct statx stat;

	if (look_at(dir, 0, &stat) < 0) {
		if (errno == ENOENT)
			return err_set(err, ENOENT, "mount point '%s' does not exist: mkdir it",
				       dir);
		if (errno == ENOTCONN)
			return err_set(err, ENOTCONN, "'%s' is a mount whose server died", dir);
		return err_set(err, errno, "cannot mount at '%s'", dir);
	}
	if (!S_ISDIR(stat.stx_mode))
		return err_set(err, ENOTDIR, "mount point '%s' is not a directory", dir);
	if (stat.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return err_set(err, EBUSY,
			       "'%s' is in use as a mount point: umount it, or choose another",
			       dir);
	return 0;
}

int fuse_mount(struct vfs *vfs, const char *dir, const struct fuse_options *options,
	       struct fuse **ret_fuse, struct err *err)
{
	CLEANUP(fd_close) int mount = -1;
	CLEANUP(mem_free) char *path = NULL;
	struct fuse *fuse;
	int r = check_dir(dir, err);

	if (r == -ENOTCONN)
		r = fuse_clean(dir, err);
	if (r < 0)
		return r;
	path = realpath(dir, NULL);
	if (!path)
		return err_set(err, errno, "cannot mount at '%s'", dir);
	if (geteuid() != 0)
		return fusermount_mount(vfs, path, options, ret_fuse, err);
	r = start(vfs, options, false, &fuse, &mount, err);
	if (r < 0)
		return r;
	if (move_mount(mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
		r = err_set(err, errno, "cannot mount at '%s'", dir);
		fd_close(&mount);
		fuse_stop(fuse);
		return r;
	}
	fuse->dir = path;
	path = NULL;
	*ret_fuse = fuse;
	return 0;
}

void fuse_adopt_dir(struct fuse *fuse, const char *path)
{
	CLEANUP(fd_close) int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	fuse->dir = mem_strdup(path);
	if (dir >= 0)
		hand_start(fuse, dir, false);
}

void mount_detach(struct fuse *fuse)
{
	struct stat stat;

	hand_stop(fuse);
	if (!fuse->dir)
		return;
	/* Ours still, and not something that was mounted there since? */
	if (lstat(fuse->dir, &stat) < 0 || stat.st_dev != fuse->dev)
		return;
	if (umount2(fuse->dir, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && errno == EPERM)
		(void)!fusermount_umount(fuse->dir, true, NULL);
}

int fuse_clean(const char *dir, struct err *err)
{
	struct statx stat;

	if (look_at(dir, AT_SYMLINK_NOFOLLOW, &stat) == 0 || errno != ENOTCONN)
		return err_set(err, EINVAL, "'%s' is not a mount whose server died", dir);
	if (umount2(dir, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		return 0;
	if (errno == EPERM)
		return fusermount_umount(dir, true, err);
	return err_set(err, errno, "cannot detach the dead mount at '%s'", dir);
}

int fuse_umount(const char *dir, struct err *err)
{
	struct statx stat;

	if (look_at(dir, AT_SYMLINK_NOFOLLOW, &stat) < 0) {
		if (errno == ENOTCONN)
			return fuse_clean(dir, err);
		return err_set(err, errno, "cannot unmount '%s'", dir);
	}
	if (!(stat.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return err_set(err, EINVAL, "'%s' is not a mount point", dir);
	if (umount2(dir, UMOUNT_NOFOLLOW) == 0)
		return 0;
	if (errno == EPERM)
		return fusermount_umount(dir, false, err);
	if (errno == EBUSY)
		return err_set(err, EBUSY,
			       "'%s' is in use: close what is open in it (fuser -m '%s')", dir,
			       dir);
	return err_set(err, errno, "cannot unmount '%s'", dir);
}

void fuse_get_host(struct fuse_host *ret_host)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	*ret_host = (struct fuse_host){.device = fd >= 0, .fusermount = fusermount_path() != NULL};
	ret_host->uring = host_uring(&ret_host->uring_known);
	fd_close(&fd);
}
