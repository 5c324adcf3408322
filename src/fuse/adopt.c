/* adopt.c - a kernel that writes back trusts its own size and times of a file more than ours.
 *
 * As long as the inode is in its cache, no answer and no notification changes them (Linux,
 * fs/fuse/inode.c: fuse_get_cache_mask): that is how a file changed by somebody else would keep its
 * old length in a program that has it open. Only system calls change them. So after such a change
 * our notifier opens the file by its handle and truncates it to the size it has; the SETATTR that
 * this sends to us is answered with what the file is, and that the kernel takes over.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "fuse/fuse_i.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDLE_TYPE 0x81 /* FILEID_INO64_GEN: node id, high half first, and generation */

/* The root of our mount, opened; -1 when we cannot reach it. */
static int root_open(const struct fuse *fuse)
{
	struct stat stat;
	int fd;

	if (fuse->root_fd >= 0)
		return fcntl(fuse->root_fd, F_DUPFD_CLOEXEC, 0);
	if (!fuse->dir)
		return -1;
	fd = open(fuse->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Something else may have been mounted over it. */
	if (fd >= 0 && (fstat(fd, &stat) < 0 || stat.st_dev != fuse->dev))
		fd_close(&fd);
	return fd;
}

/* Open an inode that is in the kernel's cache; -1 with errno ESTALE when it is not. */
static int inode_open(int root, int64_t ino, int flags)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + 12];
	} id = {.handle = {.handle_bytes = 12, .handle_type = HANDLE_TYPE}};
	const uint32_t words[3] = {(uint32_t)((uint64_t)ino >> 32), (uint32_t)ino, 0};

	memcpy(id.room + offsetof(struct file_handle, f_handle), words, sizeof(words));
	return open_by_handle_at(root, &id.handle, flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
}

/* The same without the right to use handles: by a name that leads to it just now. */
static int alias_open(struct fuse *fuse, int root, int64_t ino)
{
	char name[SECRET_NAME];
	int fd;

	secret_name(ino, name);
	fd = openat(root, name, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	notify_entry(fuse, VFS_ROOT, span_str(name));
	return fd;
}

void adopt(struct fuse *fuse, int64_t ino)
{
	const struct vfs_ctx ctx = {.trusted = true, .source = fuse, .who = {.backend = "fuse"}};
	CLEANUP(fd_close) int root = -1;
	CLEANUP(fd_close) int file = -1;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
	struct vfs_attr attr;

	if (!fuse->writeback || !fuse->is_device || !refs_has(&fuse->refs, ino) ||
	    vfs_getattr(fuse->vfs, &ctx, ino, &attr) < 0 || !S_ISREG(attr.mode))
		return;
	root = root_open(fuse);
	if (root < 0)
		return;
	file = inode_open(root, ino, O_WRONLY);
	if (file < 0 && errno == EPERM)
		file = alias_open(fuse, root, ino);
	if (file < 0)
		return;
	times[1].tv_sec = attr.mtime / 1000000000;
	times[1].tv_nsec = attr.mtime % 1000000000;
	(void)!ftruncate(file, attr.size);
	(void)futimens(file, times);
}

int adopt_flush(struct fuse *fuse, const int64_t *inos, size_t count)
{
	CLEANUP(fd_close) int root = -1;

	root = root_open(fuse);
	if (root < 0)
		return -EPERM;
	for (size_t i = 0; i < count; i++) {
		CLEANUP(fd_close) int file = inode_open(root, inos[i], O_RDONLY);

		if (file < 0 && errno == EPERM)
			return -EPERM;
		if (file >= 0)
			(void)sync_file_range(file, 0, 0,
					      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
						      SYNC_FILE_RANGE_WAIT_AFTER);
	}
	return 0;
}

void adopt_shrink(struct fuse *fuse)
{
	CLEANUP(fd_close) int root = -1;
	CLEANUP(fd_close) int config = -1;

	if (!fuse->is_device)
		return;
	root = root_open(fuse);
	if (root < 0)
		return;
	/* Reconfiguring a filesystem, even to what it is, drops every unused name of it. */
	config = fspick(root, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
	if (config >= 0)
		(void)fsconfig(config, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0);
}
