/* mount.c - a view's files in the host's tree, and under the container.
 *
 * As root there is one filesystem for all of it, made at the first need and attached nowhere; each
 * mount is a copy of it (open_tree), so that all share one cache. Where it cannot be copied (a
 * kernel before 6.15, options that differ, no root) a mount is a filesystem of its own; every one
 * after the first then writes through, because only one kernel cache may hold newer bytes.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "base/parse.h"
#include "computer/computer_i.h"
#include "computer/view_i.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARED_FLAGS                                                              \
	(COMPUTER_MOUNT_ALLOW_OTHER | COMPUTER_MOUNT_DEV | COMPUTER_MOUNT_URING | \
	 COMPUTER_MOUNT_XATTRS)
#define FLAGS (SHARED_FLAGS | COMPUTER_MOUNT_READONLY)

struct mount {
	struct list link;
	struct fuse *fuse; /* NULL: a copy of the shared one */
	uint64_t id;       /* of the mount, as in mountinfo */
	char *dir;
};

static struct fuse_options options_for(const struct view *view, unsigned flags)
{
	return (struct fuse_options){
		.name = view->owner->workspace.name,
		.backend = "mount",
		.exec = "",
		.readonly = view->snapshot[0] || (flags & COMPUTER_MOUNT_READONLY),
		.allow_other = flags & COMPUTER_MOUNT_ALLOW_OTHER,
		.write_through = atomic_load(&view->fuses) > 0,
		.xattrs = flags & COMPUTER_MOUNT_XATTRS,
		.transport = flags & COMPUTER_MOUNT_URING ? FUSE_URING
			     : flags & COMPUTER_MOUNT_DEV ? FUSE_DEV
							  : FUSE_AUTO,
	};
}

static uint64_t mount_id(int dir, const char *path)
{
	struct statx stat;

	if (statx(dir, path, AT_EMPTY_PATH | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_MNT_ID,
		  &stat) < 0)
		return 0;
	return stat.stx_mnt_id;
}

/* Is the mount with this number still somewhere in our tree? */
static bool is_mounted(uint64_t id)
{
	CLEANUP(buf_clear) struct buf table = BUF_INIT(64 << 20);
	char start[32];
	int len = snprintf(start, sizeof(start), "\n%llu ", (unsigned long long)id);

	/* Unknown is taken for mounted: nobody's files are taken away by mistake. */
	if (buf_add(&table, "\n", 1) < 0 || file_read("/proc/self/mountinfo", &table, NULL) < 0)
		return true;
	return memmem(table.data, table.len, start, (size_t)len) != NULL;
}

/* ---- the shared filesystem; under mount_lock for writing ---- */

static int shared_make(struct view *view, unsigned flags, struct err *err)
{
	const struct fuse_options options = options_for(view, flags & SHARED_FLAGS);
	int r = fuse_start(view->vfs, &options, &view->shared, &view->shared_fd, err);

	if (r < 0)
		return r;
	view->shared_flags = flags & SHARED_FLAGS;
	atomic_fetch_add(&view->fuses, 1);
	return 0;
}

static void shared_drop(struct view *view)
{
	if (!view->shared)
		return;
	fd_close(&view->shared_fd);
	fuse_stop(view->shared);
	view->shared = NULL;
	atomic_fetch_sub(&view->fuses, 1);
	if (view->shared_dir) {
		(void)rmdir(view->shared_dir);
		free(view->shared_dir);
		view->shared_dir = NULL;
	}
}

static bool has_copies(const struct view *view)
{
	list_for_each (pos, &view->mounts)
		if (!list_entry(pos, struct mount, link)->fuse)
			return true;
	return false;
}

/* A copy of the shared mount, made for these flags if need be. -EAGAIN: it cannot be had. */
static int copy_shared(struct view *view, unsigned flags, int *ret_tree, struct err *err)
{
	int tree, r;

	if (view->shared && view->shared_flags != (flags & SHARED_FLAGS)) {
		if (view->shared_busy || has_copies(view))
			return -EAGAIN;
		shared_drop(view);
	}
	if (!view->shared) {
		r = shared_make(view, flags, err);
		if (r < 0)
			return r;
	}
	tree = open_tree(view->shared_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (tree < 0) {
		if (!view->shared_busy && !has_copies(view))
			shared_drop(view);
		return -EAGAIN;
	}
	*ret_tree = tree;
	return 0;
}

/* ---- mounting ---- */

static int check_dir(const char *dir, struct err *err)
{
	struct statx stat;

	if (statx(AT_FDCWD, dir, AT_NO_AUTOMOUNT, STATX_TYPE, &stat) < 0) {
		if (errno == ENOTCONN)
			return fuse_clean(dir, err);
		if (errno == ENOENT)
			return err_set(err, ENOENT, "mount point '%s' does not exist: mkdir it",
				       dir);
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

static int attach(int tree, const char *dir, unsigned flags, struct err *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

	if ((flags & COMPUTER_MOUNT_READONLY) &&
	    mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_set(err, errno, "cannot make the mount read-only");
	if (move_mount(tree, "", AT_FDCWD, dir, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(err, errno, "cannot mount at '%s'", dir);
	return 0;
}

/* A filesystem of its own. */
static int mount_alone(struct view *view, const char *dir, unsigned flags, struct mount *mount,
		       struct err *err)
{
	const struct fuse_options options = options_for(view, flags);
	int r = fuse_mount(view->vfs, dir, &options, &mount->fuse, err);

	if (r < 0)
		return r;
	atomic_fetch_add(&view->fuses, 1);
	mount->id = mount_id(AT_FDCWD, dir);
	return 0;
}

static int mount_locked(struct view *view, const char *dir, unsigned flags, struct mount *mount,
			struct err *err)
{
	CLEANUP(fd_close) int tree = -1;
	int r = check_dir(dir, err);

	if (r < 0)
		return r;
	r = geteuid() == 0 ? copy_shared(view, flags, &tree, err) : -EAGAIN;
	if (r == -EAGAIN)
		return mount_alone(view, dir, flags, mount, err);
	if (r < 0)
		return r;
	mount->id = mount_id(tree, "");
	return attach(tree, dir, flags, err);
}

int view_mount(struct view *view, const char *dir, unsigned flags, struct err *err)
{
	struct mount *mount = mem_alloc0(sizeof(*mount));
	int r;

	view_reap(view);
	mount->dir = mem_strdup(dir);
	pthread_rwlock_wrlock(&view->mount_lock);
	r = mount_locked(view, dir, flags, mount, err);
	if (r == 0)
		list_add(&view->mounts, &mount->link);
	pthread_rwlock_unlock(&view->mount_lock);
	if (r < 0) {
		free(mount->dir);
		free(mount);
	}
	return r;
}

static void mount_forget(struct view *view, struct mount *mount)
{
	list_del(&mount->link);
	if (mount->fuse) {
		fuse_stop(mount->fuse);
		atomic_fetch_sub(&view->fuses, 1);
	}
	free(mount->dir);
	free(mount);
}

void view_reap(struct view *view)
{
	pthread_rwlock_wrlock(&view->mount_lock);
	list_for_each_safe(pos, &view->mounts)
	{
		struct mount *mount = list_entry(pos, struct mount, link);

		if (!is_mounted(mount->id))
			mount_forget(view, mount);
	}
	if (view->shared && !view->shared_busy && !has_copies(view)) {
		(void)!fuse_writeback(view->shared);
		shared_drop(view);
	}
	pthread_rwlock_unlock(&view->mount_lock);
}

int view_umount(struct view *view, struct err *err)
{
	size_t count = 0;
	int r = 0;

	pthread_rwlock_rdlock(&view->mount_lock);
	list_for_each (pos, &view->mounts) {
		const struct mount *mount = list_entry(pos, struct mount, link);

		if (!is_mounted(mount->id))
			continue;
		count++;
		if (r == 0)
			r = fuse_umount(mount->dir, err);
	}
	pthread_rwlock_unlock(&view->mount_lock);
	view_reap(view);
	if (r == 0 && count == 0)
		return err_set(err, EINVAL, "'%s' is not mounted", view->owner->workspace.name);
	return r;
}

void view_unmount_all(struct view *view)
{
	(void)!view_writeback(view);
	pthread_rwlock_wrlock(&view->mount_lock);
	list_for_each_safe(pos, &view->mounts)
	{
		struct mount *mount = list_entry(pos, struct mount, link);

		/* A copy lives on after its filesystem: it would answer ENOTCONN. */
		if (!mount->fuse && is_mounted(mount->id))
			(void)umount2(mount->dir, MNT_DETACH | UMOUNT_NOFOLLOW);
		mount_forget(view, mount);
	}
	shared_drop(view);
	pthread_rwlock_unlock(&view->mount_lock);
}

size_t view_mount_count(struct view *view)
{
	size_t count = 0;

	pthread_rwlock_rdlock(&view->mount_lock);
	list_for_each (pos, &view->mounts)
		count += is_mounted(list_entry(pos, struct mount, link)->id);
	pthread_rwlock_unlock(&view->mount_lock);
	return count;
}

bool view_uring(struct view *view)
{
	struct fuse_stats stats = {0};

	pthread_rwlock_rdlock(&view->mount_lock);
	if (view->shared)
		fuse_get_stats(view->shared, &stats);
	list_for_each (pos, &view->mounts) {
		struct mount *mount = list_entry(pos, struct mount, link);

		if (mount->fuse && !stats.uring)
			fuse_get_stats(mount->fuse, &stats);
	}
	pthread_rwlock_unlock(&view->mount_lock);
	return stats.uring;
}

/* ---- what kernels hold back, and what they must be told ---- */

int view_writeback(struct view *view)
{
	int r = 0;

	if (!atomic_load(&view->fuses))
		return 0;
	pthread_rwlock_rdlock(&view->mount_lock);
	if (view->shared)
		r = fuse_writeback(view->shared);
	list_for_each (pos, &view->mounts) {
		struct mount *mount = list_entry(pos, struct mount, link);

		if (mount->fuse && r == 0)
			r = fuse_writeback(mount->fuse);
	}
	pthread_rwlock_unlock(&view->mount_lock);
	return r;
}

void view_notified(struct view *view)
{
	if (!atomic_load(&view->fuses))
		return;
	pthread_rwlock_rdlock(&view->mount_lock);
	if (view->shared)
		fuse_notified(view->shared);
	list_for_each (pos, &view->mounts) {
		struct mount *mount = list_entry(pos, struct mount, link);

		if (mount->fuse)
			fuse_notified(mount->fuse);
	}
	pthread_rwlock_unlock(&view->mount_lock);
}

/* ---- under the container ---- */

/* Without root: where fusermount can put it, in a folder only we can enter. */
static int shared_by_fusermount(struct view *view, struct err *err)
{
	struct fuse_options options = options_for(view, 0);
	char dir[PATH_MAX];
	int r = runtime_path(&view->owner->workspace, ".mnt", dir, sizeof(dir));

	if (r < 0)
		return err_set(err, -r,
			       "no folder for the container's mount in "
			       "$XDG_RUNTIME_DIR or /tmp");
	if (mkdir(dir, 0700) < 0 && errno != EEXIST && errno != ENOTCONN)
		return err_set(err, errno, "cannot make '%s'", dir);
	r = fuse_mount(view->vfs, dir, &options, &view->shared, err);
	if (r < 0)
		return r;
	atomic_fetch_add(&view->fuses, 1);
	view->shared_flags = 0;
	view->shared_dir = mem_strdup(dir);
	view->shared_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (view->shared_fd < 0) {
		r = err_set(err, errno, "cannot open '%s'", dir);
		shared_drop(view);
	}
	return r;
}

int view_container_mount(struct view *view, int *ret_fd, struct err *err)
{
	int r = 0;

	pthread_rwlock_wrlock(&view->mount_lock);
	if (!view->shared)
		r = geteuid() == 0 ? shared_make(view, 0, err) : shared_by_fusermount(view, err);
	if (r == 0) {
		*ret_fd = fcntl(view->shared_fd, F_DUPFD_CLOEXEC, 0);
		if (*ret_fd < 0)
			r = err_set(err, errno, "too many open files");
	}
	if (r == 0)
		view->shared_busy = true;
	pthread_rwlock_unlock(&view->mount_lock);
	return r;
}

void view_container_end(struct view *view)
{
	pthread_rwlock_wrlock(&view->mount_lock);
	view->shared_busy = false;
	pthread_rwlock_unlock(&view->mount_lock);
	view_reap(view);
}

/* ---- operations ---- */

int op_mount(struct call *call)
{
	CLEANUP(buf_clear) struct buf dir = BUF_INIT(PATH_MAX - 1);
	unsigned flags = (unsigned)json_get_int(call->args, "flags");
	int r;

	if (json_get_bytes(json_object_get(call->args, "dir"), &dir) < 0 || dir.data[0] != '/' ||
	    strlen(dir.data) != dir.len || (flags & ~(unsigned)FLAGS))
		return err_set(call->err, EINVAL, "mount: 'dir' is an absolute path");
	if (call->readonly)
		flags |= COMPUTER_MOUNT_READONLY;
	r = view_mount(call->view, dir.data, flags, call->err);
	if (r == 0)
		call_record(call, GATE_MOUNT, dir.data, call->view->snapshot, "");
	return r;
}

int op_umount(struct call *call)
{
	int r = view_umount(call->view, call->err);

	if (r == 0)
		call_record(call, GATE_UMOUNT, "", call->view->snapshot, "");
	return r;
}

static bool any_at(struct view *view, const char *dir)
{
	bool found = false;

	pthread_rwlock_rdlock(&view->mount_lock);
	list_for_each (pos, &view->mounts) {
		const struct mount *mount = list_entry(pos, struct mount, link);

		found = found || (strcmp(mount->dir, dir) == 0 && is_mounted(mount->id));
	}
	pthread_rwlock_unlock(&view->mount_lock);
	return found;
}

int op_mount_wait(struct call *call)
{
	CLEANUP(buf_clear) struct buf dir = BUF_INIT(PATH_MAX - 1);
	CLEANUP(fd_close) int table = -1;
	int r = json_get_bytes(json_object_get(call->args, "dir"), &dir);

	if (r < 0)
		return err_set(call->err, EINVAL, "mount_wait: 'dir' is a path");
	table = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (table < 0)
		return err_set(call->err, errno, "cannot watch the mounts");
	while (any_at(call->view, dir.data)) {
		struct pollfd polls[2] = {{.fd = table, .events = POLLPRI},
					  {.fd = call->control_fd, .events = POLLIN}};

		if (poll(polls, 2, 1000) > 0 && polls[1].revents)
			return err_set(call->err, ECANCELED, "cancelled");
	}
	view_reap(call->view);
	return 0;
}

/* ---- for callers ---- */

static int ask_mount(struct computer *computer, struct err *err)
{
	return computer_ask_take(computer, "mount",
				 json_pack("{s:o,s:i}", "dir",
					   json_bytes(span_str(computer->mount_dir)), "flags",
					   (int)computer->mount_flags),
				 NULL, err);
}

int computer_mount(struct computer *computer, const char *dir, unsigned flags,
		   struct computer_err *api_err)
{
	struct err *err = (struct err *)(void *)api_err;
	CLEANUP(mem_free) char *real = NULL;
	int r;

	if (flags & ~(unsigned)FLAGS)
		return err_set(err, EINVAL, "unknown mount flags");
	real = realpath(dir, NULL);
	if (!real && errno == ENOTCONN) {
		r = fuse_clean(dir, err);
		if (r < 0)
			return r;
		real = realpath(dir, NULL);
	}
	if (!real && errno == ENOENT)
		return err_set(err, ENOENT, "mount point '%s' does not exist: mkdir it", dir);
	if (!real)
		return err_set(err, errno, "cannot mount at '%s'", dir);
	free(computer->mount_dir);
	computer->mount_dir = real;
	real = NULL;
	computer->mount_flags = flags;
	return ask_mount(computer, err);
}

int computer_umount(struct computer *computer, struct computer_err *err)
{
	return computer_ask_take(computer, "umount", json_object(), NULL,
				 (struct err *)(void *)err);
}

int computer_mount_wait(struct computer *computer, int cancel_fd, struct err *err)
{
	struct err own = ERR_INIT;
	int r;

	err = err ? err : &own;
	if (!computer->mount_dir)
		return err_set(err, EINVAL, "nothing was mounted");
	for (;;) {
		const struct call_request request = {
			.op = "mount_wait",
			.args = json_pack("{s:o}", "dir",
					  json_bytes(span_str(computer->mount_dir))),
			.control_fd = cancel_fd,
		};
		bool ours = computer->owner != NULL;

		r = computer_call(computer, &request, NULL, err);
		/* Their owner ended, and the mount with it: ours goes on. */
		if (ours || (r != -EPIPE && r != -ECANCELED) ||
		    (computer->client && client_stopped(computer->client)))
			return r;
		*err = ERR_INIT;
		r = ask_mount(computer, err);
		if (r == -EPIPE) {
			*err = ERR_INIT;
			r = ask_mount(computer, err);
		}
		if (r < 0)
			return r;
	}
}

/* ---- a directory, whoever serves it ---- */

/* Is the mount at `path` one of ours, by its type in mountinfo ("fuse.computer")? */
static bool is_ours(const char *path)
{
	CLEANUP(buf_clear) struct buf table = BUF_INIT(64 << 20);
	uint64_t id = mount_id(AT_FDCWD, path);
	char start[32], *line, *end;
	int len = snprintf(start, sizeof(start), "\n%llu ", (unsigned long long)id);

	if (!id || buf_add(&table, "\n", 1) < 0 ||
	    file_read("/proc/self/mountinfo", &table, NULL) < 0)
		return false;
	line = memmem(table.data, table.len, start, (size_t)len);
	if (!line)
		return false;
	end = strchrnul(line + 1, '\n');
	*end = '\0';
	line = strstr(line, " - ");
	return line && strncmp(line, " - fuse.computer ", 17) == 0;
}

int workspace_umount(const char *dir, struct err *err)
{
	struct stat st;

	if (lstat(dir, &st) < 0 && errno == ENOTCONN)
		return fuse_clean(dir, err);
	if (lstat(dir, &st) < 0)
		return err_set(err, errno, "cannot unmount '%s'", dir);
	if (!is_ours(dir))
		return err_set(err, EINVAL, "no workspace is mounted at '%s'", dir);
	return fuse_umount(dir, err);
}
