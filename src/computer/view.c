/* view.c - files of an owner: those of the head, or of a snapshot. */
#include "base/mem.h"
#include "computer/view_i.h"
#include "store/store.h"
#include "vfs/vfs_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct snapshot_open {
	const char *name;
	struct store *store;
	struct err *err;
};

static int open_snapshot(void *arg, struct store *store)
{
	struct snapshot_open *open = arg;

	return store_open_snapshot(store, open->name, &open->store, open->err);
}

static struct view *view_make(struct owner *owner, const char *snapshot, struct vfs *vfs)
{
	struct view *view = mem_alloc0(sizeof(*view));

	view->owner = owner;
	view->vfs = vfs;
	view->refs = 1;
	view->shared_fd = -1;
	memcpy(view->snapshot, snapshot, strlen(snapshot) + 1);
	list_init(&view->mounts);
	pthread_rwlock_init(&view->mount_lock, NULL);
	pthread_mutex_lock(&owner->lock);
	list_add(&owner->views, &view->link);
	pthread_mutex_unlock(&owner->lock);
	return view;
}

int view_head(struct owner *owner, struct store *store, struct err *err)
{
	struct vfs *vfs;
	int r = vfs_open_take(store, &(struct vfs_options){0}, &vfs, err);

	if (r == 0)
		owner->head = view_make(owner, "", vfs);
	return r;
}

static struct view *find_view(struct owner *owner, const char *snapshot)
{
	struct view *found = NULL;

	pthread_mutex_lock(&owner->lock);
	list_for_each (pos, &owner->views) {
		struct view *view = list_entry(pos, struct view, link);

		if (strcmp(view->snapshot, snapshot) == 0)
			found = view;
	}
	if (found)
		found->refs++;
	pthread_mutex_unlock(&owner->lock);
	return found;
}

int view_get(struct owner *owner, const char *snapshot, struct view **ret_view, struct err *err)
{
	struct snapshot_open open = {.name = snapshot, .err = err};
	struct view *view = find_view(owner, snapshot);
	struct vfs *vfs = NULL;
	int r;

	if (!view) {
		r = owner_exclusive(owner, open_snapshot, &open);
		if (r == 0)
			r = vfs_open_take(open.store, &(struct vfs_options){.readonly = true}, &vfs,
					  err);
		if (r < 0)
			return r;
		view = view_make(owner, snapshot, vfs);
	}
	*ret_view = view;
	return 0;
}

void view_free(struct view *view, struct err *err, int *ret_r)
{
	int r;

	view_unmount_all(view);
	r = vfs_close(view->vfs, err);
	if (ret_r && *ret_r == 0)
		*ret_r = r;
	pthread_rwlock_destroy(&view->mount_lock);
	free(view);
}

void view_put(struct view *view)
{
	bool last = false;

	if (!view)
		return;
	pthread_mutex_lock(&view->owner->lock);
	if (--view->refs == 0) {
		list_del(&view->link);
		last = true;
	}
	pthread_mutex_unlock(&view->owner->lock);
	if (last)
		view_free(view, NULL, NULL);
}

/* ---- files for one caller ---- */

struct guard {
	struct sys sys;
	struct sys *inner;
	struct view *view;
	bool readonly;
};

/* Does the call change anything? */
static bool changes(const struct sys_req *req)
{
	const int writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

	switch (req->call) {
	case SYS_open:
		return (req->a[1] & writing) || (req->a[1] & O_TMPFILE) == O_TMPFILE;
	case SYS_write:
	case SYS_falloc:
	case SYS_copy:
		return true;
	default:
		return sys_call_info(req->call)->right == SYS_RIGHT_WRITE;
	}
}

static bool batch_changes(const struct sys_req *batch)
{
	struct span rest = batch->in[0];
	struct sys_req req;

	while (rest.len) {
		if (sys_req_decode(&rest, &req) < 0)
			return false; /* it ends there */
		if (sys_call_info(req.call) && changes(&req))
			return true;
	}
	return false;
}

static int64_t guard_call(struct sys *sys, const struct sys_req *req, struct buf *out)
{
	struct guard *guard = (struct guard *)(void *)sys;
	bool changing = req->call == SYS_batch ? batch_changes(req) : changes(req);
	int64_t r;

	if (changing && guard->readonly)
		return -EROFS;
	r = sys_call(guard->inner, req, out);
	if (changing && r >= 0 && atomic_load(&guard->view->fuses))
		view_notified(guard->view);
	return r;
}

static void guard_free(struct sys *sys)
{
	struct guard *guard = (struct guard *)(void *)sys;

	sys_free(guard->inner);
	free(guard);
}

struct sys *view_sys(struct view *view, const struct gate_who *who, bool readonly)
{
	static const struct sys_ops ops = {.call = guard_call, .free = guard_free};
	struct guard *guard = mem_alloc0(sizeof(*guard));
	/* Whoever may open the workspace's file may do everything in it. */
	const struct vfs_ctx ctx = {.who = *who, .trusted = true};

	guard->sys.ops = &ops;
	guard->inner = vfs_sys_new(view->vfs, &ctx);
	guard->view = view;
	guard->readonly = readonly || view->snapshot[0];
	return &guard->sys;
}
