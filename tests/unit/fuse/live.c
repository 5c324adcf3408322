/* live.c - see live.h. */
#include "live.h"
#include "fuse/wire.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARAMETER "/sys/module/fuse/parameters/enable_uring"

static enum fuse_transport live_transport = FUSE_DEV;
static bool uring_was_off;

static void skip_all(const char *why)
{
	printf("1..0 # SKIP %s\n", why);
	exit(77);
}

static bool uring_set(char value)
{
	int fd = open(PARAMETER, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, &value, 1) == 1;

	if (fd >= 0)
		close(fd);
	return done;
}

void live_need(int argc, char **argv)
{
	struct fuse_host host;

	fuse_get_host(&host);
	if (geteuid() != 0 || !host.device)
		skip_all("needs root and /dev/fuse");
	if (argc < 2 || strcmp(argv[1], "uring") != 0)
		return;
	live_transport = FUSE_URING;
	if (!host.uring && host.uring_known)
		uring_was_off = uring_set('Y');
	if (!host.uring && !uring_was_off)
		skip_all("needs FUSE over io_uring");
}

void live_uring_restore(void)
{
	if (uring_was_off)
		(void)!uring_set('N');
	uring_was_off = false;
}

void live_open(struct live *live, const struct fuse_options *options)
{
	const char *tmp = getenv("TMPDIR");
	struct fuse_options usual = {.name = "test", .threads = 2};
	const struct vfs_options vfs_options = {0};
	struct err err = ERR_INIT;
	struct store *store;
	char db[192];
	int r;

	*live = (struct live){.ctx = {.who = {.actor = "test", .backend = "direct", .exec = ""}}};
	if (options)
		usual = *options;
	usual.transport = live_transport;
	snprintf(live->dir, sizeof(live->dir), "%s/fuse-test-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(live->dir));
	assert_int_equal(chmod(live->dir, 0755), 0);
	snprintf(live->mnt, sizeof(live->mnt), "%s/mnt", live->dir);
	snprintf(db, sizeof(db), "%s/w.db", live->dir);
	assert_int_equal(mkdir(live->mnt, 0755), 0);
	r = store_open(db, STORE_CREATE, &store, &err);
	if (r == 0)
		r = vfs_open_take(store, &vfs_options, &live->vfs, &err);
	if (r == 0)
		r = fuse_mount(live->vfs, live->mnt, &usual, &live->fuse, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	if (live_transport == FUSE_URING) {
		struct stat stat_buf;

		assert_int_equal(stat(live->mnt, &stat_buf), 0);
		fuse_get_stats(live->fuse, &live->before);
		assert_true(live->before.uring);
	}
	fuse_get_stats(live->fuse, &live->before);
}

static int remove_one(const char *path, const struct stat *stat_buf, int type, struct FTW *where)
{
	(void)stat_buf;
	(void)type;
	(void)where;
	return remove(path);
}

void live_close(struct live *live)
{
	struct err err = ERR_INIT;

	fuse_stop(live->fuse);
	if (vfs_close(live->vfs, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(rmdir(live->mnt), 0); /* nothing is mounted there any more */
	assert_int_equal(nftw(live->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT), 0);
}

const char *live_path(const struct live *live, const char *name)
{
	static char paths[4][512];
	static int next;

	next = (next + 1) % 4;
	snprintf(paths[next], sizeof(paths[next]), "%s/%s", live->mnt, name);
	return paths[next];
}

const char *live_counts(struct live *live)
{
	static const char *const names[FUSE_OPCODES] = {
#define OP(number, name, size, handler) [number] = #name,
#include "fuse/ops.def"
#undef OP
	};
	static char text[1024];
	struct fuse_stats now;
	size_t len = 0;

	text[0] = '\0';
	fuse_get_stats(live->fuse, &now);
	for (int i = 0; i < FUSE_OPCODES; i++) {
		uint64_t count = now.requests[i] - live->before.requests[i];

		if (count == 0 || i == FUSE_FORGET || i == FUSE_BATCH_FORGET)
			continue;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=%llu", len ? " " : "",
					names[i], (unsigned long long)count);
	}
	live->before = now;
	return text;
}

void live_put(const struct live *live, const char *name, const char *text)
{
	int fd = open(live_path(live, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(close(fd), 0);
}

void live_put_behind(struct live *live, int64_t ino, const char *text)
{
	struct vfs_attr attr = {.size = 0};
	ssize_t len = (ssize_t)strlen(text);

	assert_int_equal(vfs_setattr(live->vfs, &live->ctx, ino, VFS_SET_SIZE, &attr, &attr), 0);
	assert_int_equal(vfs_write(live->vfs, &live->ctx, ino, 0, text, (size_t)len, 0), len);
	fuse_notified(live->fuse);
}

int64_t live_ino(const struct live *live, const char *name)
{
	struct stat stat_buf;

	assert_int_equal(stat(live_path(live, name), &stat_buf), 0);
	return (int64_t)stat_buf.st_ino;
}

void live_check_behind(struct live *live, int64_t ino, const char *text)
{
	char bytes[8192];
	ssize_t n = vfs_read(live->vfs, &live->ctx, ino, 0, bytes, sizeof(bytes));

	assert_int_equal(n, (ssize_t)strlen(text));
	assert_memory_equal(bytes, text, (size_t)n);
}

void live_check_fd(int fd, const char *text)
{
	char bytes[8192];
	struct stat stat_buf;
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);

	assert_int_equal(n, (ssize_t)strlen(text));
	assert_memory_equal(bytes, text, (size_t)n);
	assert_int_equal(fstat(fd, &stat_buf), 0);
	assert_int_equal(stat_buf.st_size, n);
}

int live_as(uint32_t uid, int (*fn)(const struct live *live), const struct live *live)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (uid != 0 && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0))
			_exit(99);
		_exit(fn(live));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}
