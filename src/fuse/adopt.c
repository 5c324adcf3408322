/* adopt.c - a kernel that writes back trusts its own size and times of a file more than ours.
 *
 * As long as the inode is in its cache, no answer and no notification changes them (Linux,
 * fs/fuse/inode.c: fuse_get_cache_mask): that is how a file changed by somebody else would keep its
 * old length in a program that has it open. Only system calls change them. So after such a change
 * our notifier opens the file by its handle and truncates it to the size it has; the SETATTR that
 * this sends to us is answered with what the file is, and that the kernel takes over.
 *
 * The hand is a child process without a descriptor of the connection, which alone makes system
 * calls on our own mount. A server that is killed while it waits for its own answer would never
 * end, would hold the connection open, and everybody on the mount would hang with it; the hand's
 * calls end with the connection, and it with its socket.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "fuse/fuse_i.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define HANDLE_TYPE 0x81 /* FILEID_INO64_GEN: node id, high half first, and generation */
#define FLUSH_MAX 256

enum hand_op { HAND_ADOPT, HAND_FLUSH, HAND_SHRINK };

/* What the hand is asked to do; it answers with an int: 0, a negative errno, or ALIAS. */
struct hand_ask {
	enum hand_op op;
	dev_t dev;
	size_t count; /* of `inos` */
	int64_t inos[FLUSH_MAX], size;
	struct timespec mtime;
	char alias[SECRET_NAME], dir[PATH_MAX];
};

#define ALIAS 1 /* done, and the secret name was looked up */

/* ---- in the hand, a copy of a process with threads: nothing but system calls ---- */

/* The root of the mount: `kept`, or what is at `dir`, unless something was mounted over it. */
static int root_open(int kept, const struct hand_ask *ask)
{
	struct stat stat;
	int fd;

	if (kept >= 0)
		return fcntl(kept, F_DUPFD_CLOEXEC, 0);
	if (!ask->dir[0])
		return -1;
	fd = open(ask->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &stat) < 0 || stat.st_dev != ask->dev))
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

static int hand_adopt(int root, const struct hand_ask *ask)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, ask->mtime};
	CLEANUP(fd_close) int file = inode_open(root, ask->inos[0], O_WRONLY);
	int r = 0;

	/* Without the right to use handles: by a name that leads to it just now. */
	if (file < 0 && errno == EPERM) {
		file = openat(root, ask->alias, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
		r = ALIAS;
	}
	if (file >= 0) {
		(void)!ftruncate(file, ask->size);
		(void)futimens(file, times);
	}
	return r;
}

static int hand_flush(int root, const struct hand_ask *ask)
{
	for (size_t i = 0; i < ask->count; i++) {
		CLEANUP(fd_close) int file = inode_open(root, ask->inos[i], O_RDONLY);

		if (file < 0 && errno == EPERM)
			return -EPERM;
		if (file >= 0)
			(void)sync_file_range(file, 0, 0,
					      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
						      SYNC_FILE_RANGE_WAIT_AFTER);
	}
	return 0;
}

/* Reconfiguring a filesystem, even to what it is, drops every unused name of it. */
static int hand_shrink(int root)
{
	CLEANUP(fd_close) int config = fspick(root, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);

	if (config >= 0)
		(void)fsconfig(config, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0);
	return 0;
}

static int hand_do(int kept, const struct hand_ask *ask)
{
	CLEANUP(fd_close) int root = root_open(kept, ask);

	if (root < 0)
		return -EPERM;
	if (ask->op == HAND_ADOPT)
		return hand_adopt(root, ask);
	return ask->op == HAND_FLUSH ? hand_flush(root, ask) : hand_shrink(root);
}

/*
 * Do once what we answer with ENOSYS, so that the kernel stops asking. Above all: open a directory
 * and a file. Without that it would tell of every close until somebody happens to open an existing
 * file. The root, opened, or -1.
 */
static int prime(int mount, const char *name, bool xattrs)
{
	int dir = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int file = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_CLOEXEC);

	fd_close(&file); /* FLUSH too */
	if (dir < 0)
		return -1;
	(void)!faccessat(dir, ".", R_OK, 0);
	if (!xattrs) {
		(void)!fgetxattr(dir, "user.computer", NULL, 0);
		(void)!flistxattr(dir, NULL, 0);
	}
	return dir;
}

static void close_all_but(int a, int b)
{
	unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);

	if (low > 0)
		(void)close_range(0, low - 1, 0);
	if (high > low + 1)
		(void)close_range(low + 1, high - 1, 0);
	(void)close_range(high + 1, ~0U, 0);
}

static _Noreturn void hand_main(int sock, int mount, bool keep, const char *name, bool xattrs)
{
	static struct hand_ask ask;
	int root, r = 0;

	close_all_but(sock, mount);
	(void)!chdir("/");
	root = prime(mount, name, xattrs);
	close(mount);
	if (!keep) /* it would keep the mount from being unmounted */
		fd_close(&root);
	while (send(sock, &r, sizeof(r), MSG_NOSIGNAL) == (ssize_t)sizeof(r)) {
		if (recv(sock, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask))
			break;
		r = hand_do(root, &ask);
	}
	_exit(0);
}

/* ---- in the server ---- */

static int hand_hear(const struct fuse *fuse, int *ret_answer)
{
	ssize_t n;

	do
		n = recv(fuse->hand, ret_answer, sizeof(*ret_answer), 0);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*ret_answer) ? 0 : -EPIPE;
}

void hand_start(struct fuse *fuse, int mount, bool keep)
{
	char name[SECRET_NAME];
	sigset_t all, before;
	int ends[2], answer;
	struct statx stat;

	if (statx(mount, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &stat) == 0)
		fuse->dev = makedev(stat.stx_dev_major, stat.stx_dev_minor);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return;
	secret_name(PRIME_INO, name);
	atomic_store(&fuse->priming, true);
	/* Signals are for the program we are part of. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	fuse->hand_pid = fork();
	if (fuse->hand_pid == 0)
		hand_main(ends[1], mount, keep, name, fuse->xattrs);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	fuse->hand = ends[0];
	if (fuse->hand_pid < 0 || hand_hear(fuse, &answer) < 0)
		hand_stop(fuse);
	else
		atomic_store(&fuse->adopter, fuse->hand_pid);
	atomic_store(&fuse->priming, false);
	notify_entry(fuse, VFS_ROOT, span_str(name));
}

void hand_stop(struct fuse *fuse)
{
	pthread_mutex_lock(&fuse->hand_lock);
	fd_close(&fuse->hand);
	while (fuse->hand_pid > 0 && waitpid(fuse->hand_pid, NULL, 0) < 0 && errno == EINTR)
		;
	fuse->hand_pid = -1;
	pthread_mutex_unlock(&fuse->hand_lock);
}

/* Have it done. What the hand answers, or -EPERM when there is none. */
static int hand_ask(struct fuse *fuse, struct hand_ask *ask)
{
	int r = -EPERM, answer;

	pthread_mutex_lock(&fuse->hand_lock);
	ask->dev = fuse->dev;
	if (fuse->dir && strlen(fuse->dir) < sizeof(ask->dir))
		memcpy(ask->dir, fuse->dir, strlen(fuse->dir) + 1);
	if (fuse->hand >= 0 &&
	    send(fuse->hand, ask, sizeof(*ask), MSG_NOSIGNAL) == (ssize_t)sizeof(*ask) &&
	    hand_hear(fuse, &answer) == 0)
		r = answer;
	pthread_mutex_unlock(&fuse->hand_lock);
	return r;
}

void adopt(struct fuse *fuse, int64_t ino)
{
	const struct vfs_ctx ctx = {.trusted = true, .source = fuse, .who = {.backend = "fuse"}};
	struct hand_ask ask = {.op = HAND_ADOPT, .inos = {ino}, .count = 1};
	struct vfs_attr attr;

	if (!fuse->writeback || !fuse->is_device || !refs_has(&fuse->refs, ino) ||
	    vfs_getattr(fuse->vfs, &ctx, ino, &attr) < 0 || !S_ISREG(attr.mode))
		return;
	ask.size = attr.size;
	ask.mtime.tv_sec = attr.mtime / 1000000000;
	ask.mtime.tv_nsec = attr.mtime % 1000000000;
	secret_name(ino, ask.alias);
	if (hand_ask(fuse, &ask) == ALIAS)
		notify_entry(fuse, VFS_ROOT, span_str(ask.alias));
}

int adopt_flush(struct fuse *fuse, const int64_t *inos, size_t count)
{
	struct hand_ask ask = {.op = HAND_FLUSH};
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i += ask.count) {
		ask.count = count - i < FLUSH_MAX ? count - i : FLUSH_MAX;
		memcpy(ask.inos, inos + i, ask.count * sizeof(*inos));
		r = hand_ask(fuse, &ask);
	}
	return r;
}

void adopt_shrink(struct fuse *fuse)
{
	struct hand_ask ask = {.op = HAND_SHRINK};

	if (fuse->is_device)
		(void)hand_ask(fuse, &ask);
}
