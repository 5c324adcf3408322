/* watch.c - telling others what changed, and having a kernel write back what it holds. */
#include "base/mem.h"
#include "vfs/vfs_i.h"

#include <errno.h>

int vfs_watch(struct vfs *vfs, bool known_only,
	      void (*fn)(void *arg, const struct vfs_event *event), void *arg, uint64_t *ret_id)
{
	size_t count = 0;
	struct watch *watch;

	vfs_lock(vfs);
	list_for_each (link, &vfs->watches)
		count++;
	if (count >= VFS_WATCH_MAX) {
		vfs_unlock(vfs);
		return -ENOSPC;
	}
	watch = mem_alloc0(sizeof(*watch));
	*watch = (struct watch){
		.id = ++vfs->next_watch, .known_only = known_only, .fn = fn, .arg = arg};
	list_add(&vfs->watches, &watch->link);
	*ret_id = watch->id;
	vfs_unlock(vfs);
	return 0;
}

void vfs_unwatch(struct vfs *vfs, uint64_t id)
{
	vfs_lock(vfs);
	list_for_each_safe(link, &vfs->watches)
	{
		struct watch *watch = list_entry(link, struct watch, link);

		if (watch->id != id)
			continue;
		list_del(&watch->link);
		free(watch);
	}
	vfs_unlock(vfs);
}

/* May a kernel have it in its cache? The root it always has. */
static bool known(const struct vfs *vfs, int64_t ino)
{
	const struct inode *inode;

	if (ino == VFS_ROOT)
		return true;
	inode = ino ? inode_peek(vfs, ino) : NULL;
	return inode && inode->lookups;
}

static void tell(struct vfs *vfs, struct vfs_event *event, const struct vfs_ctx *ctx, bool is_known)
{
	if (ctx)
		event->source = ctx->source;
	list_for_each_safe(link, &vfs->watches)
	{
		struct watch *watch = list_entry(link, struct watch, link);

		if (!watch->known_only || is_known)
			watch->fn(watch->arg, event);
	}
}

void watch_tell(struct vfs *vfs, const struct vfs_ctx *ctx, enum vfs_event_kind kind,
		const struct inode *inode, int64_t parent, struct span name)
{
	struct vfs_event event = {.kind = kind, .parent = parent, .name = name};
	bool is_known;

	if (list_empty(&vfs->watches))
		return;
	if (inode)
		event.ino = inode->row.ino;
	is_known = kind == VFS_EVENT_RESET || known(vfs, event.ino) || known(vfs, parent);
	tell(vfs, &event, ctx, is_known);
}

void watch_tell_move(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t parent,
		     struct span name, int64_t parent2, struct span name2)
{
	struct vfs_event event = {
		.kind = VFS_EVENT_MOVE,
		.ino = ino,
		.parent = parent,
		.parent2 = parent2,
		.name = name,
		.name2 = name2,
	};

	if (list_empty(&vfs->watches))
		return;
	tell(vfs, &event, ctx, known(vfs, ino) || known(vfs, parent) || known(vfs, parent2));
}

void vfs_set_pull(struct vfs *vfs, const void *source, void (*pull)(void *arg, int64_t ino),
		  void *arg)
{
	vfs_lock(vfs);
	__atomic_store_n(&vfs->pull, pull, __ATOMIC_RELEASE);
	vfs->pull_source = source;
	vfs->pull_arg = arg;
	/* Whoever ends it frees `arg` next. */
	while (vfs->pulling)
		pthread_cond_wait(&vfs->content, &vfs->lock);
	vfs_unlock(vfs);
}

void watch_pull(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino)
{
	void (*pull)(void *arg, int64_t ino) = NULL;
	const struct inode *inode;
	void *arg = NULL;

	if (!__atomic_load_n(&vfs->pull, __ATOMIC_ACQUIRE))
		return;
	vfs_lock(vfs);
	inode = inode_peek(vfs, ino);
	if (vfs->pull && ctx->source != vfs->pull_source && inode && inode->lookups &&
	    inode_is_file(inode)) {
		pull = vfs->pull;
		arg = vfs->pull_arg;
		vfs->pulling++;
	}
	vfs_unlock(vfs);
	if (!pull)
		return;
	pull(arg, ino);
	vfs_lock(vfs);
	if (--vfs->pulling == 0)
		pthread_cond_broadcast(&vfs->content);
	vfs_unlock(vfs);
}

size_t vfs_known_files(struct vfs *vfs, int64_t *ret_inos, size_t max)
{
	size_t count = 0;

	vfs_lock(vfs);
	map_for_each (node, &vfs->inodes) {
		const struct inode *inode = map_entry(node, struct inode, node);

		if (count < max && inode->lookups && inode_is_file(inode))
			ret_inos[count++] = inode->row.ino;
	}
	vfs_unlock(vfs);
	return count;
}
