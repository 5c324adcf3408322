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
	serve_start(owner);
	*ret_owner = owner;
	return 0;
}

/* Merging many layers is put off until nobody waits for an answer. */
static int maintain(void *arg, struct store *store)
{
	struct store_info info;
	int *ret_more = arg;

	store_get_info(store, &info);
	*ret_more = info.depth > STORE_CHAIN_MAX && store_maintain(store, NULL) > 0;
	return 0;
}

void owner_tick(struct owner *owner)
{
	struct vfs_stats stats;
	int more;

	container_tick(owner);
	view_reap(owner->head);
	vfs_get_stats(owner->head->vfs, &stats);
	if (stats.commits != owner->last_commits) {
		owner->last_commits = stats.commits;
		return; /* somebody is at work */
	}
	(void)!vfs_exclusive(owner->head->vfs, maintain, &more);
	vfs_idle(owner->head->vfs);
}

int owner_close(struct owner *owner, struct err *err)
{
	int r = 0, more = 1;

	serve_stop(owner);
	container_end(owner);
	view_unmount_all(owner->head);
	while (more && vfs_exclusive(owner->head->vfs, maintain, &more) == 0)
		continue;
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
