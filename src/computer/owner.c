/* owner.c - a workspace this process has open: made, and given up. */
#include "base/mem.h"
#include "computer/computer_i.h"
#include "computer/view_i.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Make the folder of a new workspace, and those above. */
int workspace_make_folders(const struct workspace *workspace, struct err *err)
{
	const char *path = workspace->path;
	char dir[PATH_MAX];
	size_t len = (size_t)(strrchr(path, '/') - path);

	memcpy(dir, path, len);
	dir[len] = '\0';
	for (char *p = dir + 1; len; p++) {
		char end = *p;

		if (end && end != '/')
			continue;
		*p = '\0';
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			return err_set(err, errno, "cannot make the folder '%s'", dir);
		*p = end;
		if (!end)
			break;
	}
	return 0;
}

static int check_exists(const struct workspace *workspace, unsigned flags, struct err *err)
{
	bool exists = workspace_exists(workspace);

	/* A folder that we may not enter says nothing of what is in it. */
	if (!exists && errno != ENOENT && errno != ENOTDIR)
		return err_set(err, errno, "cannot look at '%s'", workspace->path);
	if (exists && (flags & OWNER_EXCL))
		return err_set(err, EEXIST, "there is a workspace '%s' already", workspace->name);
	if (!exists && !(flags & OWNER_CREATE))
		return err_set(err, ENOENT,
			       "there is no workspace '%s'; 'computer create' makes one, "
			       "'computer ls' lists them",
			       workspace->name);
	return exists;
}

static struct owner *owner_new(const struct workspace *workspace, struct store_lock lock)
{
	struct owner *owner = mem_alloc0(sizeof(*owner));

	owner->workspace = *workspace;
	owner->workspace.snapshot[0] = '\0';
	owner->lock_file = lock;
	owner->listener = owner->wake = -1;
	list_init(&owner->views);
	list_init(&owner->conns);
	pthread_mutex_init(&owner->lock, NULL);
	pthread_mutex_init(&owner->container_lock, NULL);
	pthread_cond_init(&owner->changed, NULL);
	return owner;
}

static void owner_free(struct owner *owner)
{
	store_lock_drop(&owner->lock_file);
	pthread_cond_destroy(&owner->changed);
	pthread_mutex_destroy(&owner->container_lock);
	pthread_mutex_destroy(&owner->lock);
	free(owner);
}

/* The root of a new workspace belongs to whoever makes it, or nobody but root could write there. */
static void own_root(struct owner *owner)
{
	const struct vfs_attr mine = {.uid = geteuid(), .gid = getegid()};
	const struct vfs_ctx ctx = {.who = {.actor = "", .backend = "", .exec = ""},
				    .trusted = true};
	struct vfs_attr attr;

	if (mine.uid != 0)
		(void)!vfs_setattr(owner->head->vfs, &ctx, VFS_ROOT,
				   VFS_SET_UID | VFS_SET_GID | VFS_SET_QUIET, &mine, &attr);
}

int owner_open(const struct workspace *workspace, unsigned flags, struct owner **ret_owner,
	       struct store_owner *ret_other, struct err *err)
{
	CLEANUP(store_lock_drop) struct store_lock lock = STORE_LOCK_INIT;
	struct owner *owner;
	struct store *store;
	bool made;
	int r = check_exists(workspace, flags, err);

	if (r == 0)
		r = workspace_make_folders(workspace, err);
	if (r < 0)
		return r;
	r = store_lock_take(workspace->path, &lock, ret_other, err);
	if (r < 0)
		return r;
	/* Again: it may have come or gone before we had the lock. */
	r = check_exists(workspace, flags, err);
	if (r < 0)
		return r;
	made = r == 0;
	r = store_open(workspace->path, made ? STORE_CREATE : 0, &store, err);
	if (r < 0)
		return r;
	owner = owner_new(workspace, lock);
	lock = STORE_LOCK_INIT;
	r = view_head(owner, store, err);
	if (r < 0) {
		owner_free(owner);
		return r;
	}
	if (made)
		own_root(owner);
	serve_start(owner);
	*ret_owner = owner;
	return 0;
}

/* ---- merging layers: the long part while everything goes on, the short one with all held off ----
 */

static int find_depth(void *arg, struct store *store)
{
	struct owner *owner = arg;
	struct store_info info;

	store_get_info(store, &info);
	owner->store = store;
	return info.depth;
}

static int maintain(void *arg, struct store *store)
{
	(void)arg;
	return store_maintain(store, NULL);
}

static bool is_deep(struct owner *owner)
{
	return vfs_exclusive(owner->head->vfs, find_depth, owner) > STORE_CHAIN_MAX;
}

/* One step. True: there may be more to do. */
static bool merge_step(struct owner *owner)
{
	return store_prepare_merge(owner->store, NULL) > 0 &&
	       vfs_exclusive(owner->head->vfs, maintain, NULL) > 0;
}

static void *merge_main(void *arg)
{
	struct owner *owner = arg;

	while (!atomic_load(&owner->merge_stop) && is_deep(owner) && merge_step(owner))
		continue;
	atomic_store(&owner->merge_done, true);
	return NULL;
}

static void merge_start(struct owner *owner)
{
	if (owner->merging && !atomic_load(&owner->merge_done))
		return;
	if (owner->merging)
		pthread_join(owner->merger, NULL);
	owner->merging = false;
	if (!is_deep(owner))
		return;
	atomic_store(&owner->merge_done, false);
	owner->merging = pthread_create(&owner->merger, NULL, merge_main, owner) == 0;
}

static void merge_end(struct owner *owner)
{
	atomic_store(&owner->merge_stop, true);
	if (owner->merging)
		pthread_join(owner->merger, NULL);
	/* Programs that come and go would never be idle: each does one step. */
	if (is_deep(owner))
		(void)merge_step(owner);
}

void owner_tick(struct owner *owner)
{
	struct vfs_stats stats;

	container_tick(owner);
	view_reap(owner->head);
	vfs_get_stats(owner->head->vfs, &stats);
	if (stats.commits != owner->last_commits) {
		owner->last_commits = stats.commits;
		return; /* somebody is at work */
	}
	merge_start(owner);
	vfs_idle(owner->head->vfs);
}

int owner_close(struct owner *owner, struct err *err)
{
	int r = 0;

	serve_stop(owner);
	container_end(owner);
	view_unmount_all(owner->head);
	merge_end(owner);
	list_for_each_safe(pos, &owner->views)
	{
		list_del(pos);
		view_free(list_entry(pos, struct view, link), err, &r);
	}
	owner_free(owner);
	return r;
}

int owner_exclusive(struct owner *owner, int (*fn)(void *arg, struct store *store), void *arg)
{
	int r = view_writeback(owner->head);

	return r < 0 ? r : vfs_exclusive(owner->head->vfs, fn, arg);
}
