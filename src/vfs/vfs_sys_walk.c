/* vfs_sys_walk.c - paths: confined to the root, links followed, under one lock from start to end.
 */
#include "base/mem.h"
#include "vfs/vfs_sys_i.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct walker {
	struct vfs_sys *s;
	unsigned flags;
	struct place *place;
	struct buf *trail;
	struct inode *at;
	/* What is still to be walked, innermost last: the path, and the links it led through. */
	struct span todo[VFS_SYMLINKS_MAX + 1];
	struct blob *held[VFS_SYMLINKS_MAX + 1];
	int depth, links;
};

static void hold(struct inode *inode)
{
	if (inode)
		content_hold(inode);
}

void place_drop(struct place *place)
{
	if (place->dir)
		content_release(place->s->vfs, place->dir);
	if (place->inode)
		content_release(place->s->vfs, place->inode);
	place->dir = place->inode = NULL;
}

void place_release(struct place *place)
{
	if (!place->dir && !place->inode)
		return;
	vfs_lock(place->s->vfs);
	place_drop(place);
	vfs_unlock(place->s->vfs);
}

/* ---- the trail, for realpath ---- */

static int trail_push(struct walker *w, struct span name)
{
	int r;

	if (!w->trail)
		return 0;
	r = buf_add(w->trail, "/", 1);
	if (r == 0)
		r = buf_add(w->trail, name.data, name.len);
	return r < 0 ? -ENAMETOOLONG : 0;
}

static void trail_pop(struct walker *w)
{
	size_t len;

	if (!w->trail || !w->trail->len)
		return;
	len = w->trail->len - 1;
	while (len && w->trail->data[len] != '/')
		len--;
	buf_truncate(w->trail, len);
}

/* The name that leads to a directory in its parent. */
static int name_in(struct vfs *vfs, struct inode *parent, int64_t ino, struct span *ret_name)
{
	int r;

	r = dir_complete(vfs, parent, false);
	if (r < 0)
		return r;
	list_for_each (link, &parent->dentries) {
		const struct dentry *dentry = list_entry(link, struct dentry, sibling);

		if (dentry->ino != ino)
			continue;
		*ret_name = span_of(dentry->name, dentry->name_len);
		return 0;
	}
	return -ENOENT;
}

/* The path of a directory that a descriptor stands for. */
static int trail_start(struct walker *w, struct inode *dir)
{
	CLEANUP(buf_clear) struct buf rest = BUF_INIT(SYS_PATH_MAX);
	int r = 0;

	/* Upwards, each name before those that were found. */
	for (int depth = 0; dir->row.ino != VFS_ROOT && r == 0; depth++) {
		CLEANUP(buf_clear) struct buf path = BUF_INIT(SYS_PATH_MAX);
		struct inode *parent;
		struct span name = SPAN_EMPTY;

		if (depth > SYS_PATH_MAX / 2)
			return -ENAMETOOLONG;
		if (dir->row.nlink == 0)
			return -ENOENT;
		r = names_parent(w->s->vfs, dir, &parent);
		if (r == 0)
			r = name_in(w->s->vfs, parent, dir->row.ino, &name);
		if (r < 0)
			return r;
		r = buf_add(&path, "/", 1);
		if (r == 0)
			r = buf_add(&path, name.data, name.len);
		if (r == 0)
			r = buf_add(&path, rest.data, rest.len);
		if (r == 0) {
			struct buf old = rest;

			rest = path;
			path = old;
		}
		dir = parent;
	}
	if (r == 0)
		r = buf_add(w->trail, rest.data, rest.len);
	return r == -EFBIG ? -ENAMETOOLONG : r;
}

/* ---- the walk ---- */

static int walk_start(struct walker *w, int64_t dir, struct span path)
{
	struct vfs *vfs = w->s->vfs;
	int64_t ino = VFS_ROOT;
	int r;

	if (path.len == 0)
		return -ENOENT;
	if (path.data[0] != '/' && dir != SYS_CWD) {
		const struct descriptor *fd = sys_fd(w->s, dir);

		if (!fd)
			return -EBADF;
		ino = fd->ino;
	}
	r = inode_get(vfs, ino, &w->at);
	if (r < 0)
		return r;
	w->todo[0] = path;
	return w->trail ? trail_start(w, w->at) : 0;
}

static void strip_slashes(struct span *path)
{
	while (path->len && path->data[0] == '/') {
		path->data++;
		path->len--;
	}
}

/* The next name. False: the path is at its end. */
static bool next_name(struct walker *w, struct span *ret_name)
{
	struct span *top;
	size_t len = 0;

	for (;; w->depth--) {
		top = &w->todo[w->depth];
		strip_slashes(top);
		if (top->len || w->depth == 0)
			break;
		blob_unref(w->held[w->depth]);
		w->held[w->depth] = NULL;
	}
	while (len < top->len && top->data[len] != '/')
		len++;
	*ret_name = span_of(top->data, len);
	*top = span_of(top->data + len, top->len - len);
	return len > 0;
}

/* Is that name the last, and does a slash follow it? */
static bool at_end(const struct walker *w, bool *ret_slash)
{
	bool slash = false;

	for (int i = w->depth; i >= 0; i--) {
		struct span rest = w->todo[i];

		slash = slash || rest.len;
		strip_slashes(&rest);
		if (rest.len)
			return false;
	}
	*ret_slash = slash;
	return true;
}

static int follow(struct walker *w, struct inode *link)
{
	int r;

	if (++w->links > VFS_SYMLINKS_MAX)
		return -ELOOP;
	r = file_load(w->s->vfs, link);
	if (r < 0)
		return r;
	if (!link->blob || !link->blob->len)
		return -ENOENT;
	link->blob->refs++; /* the path is walked in its bytes */
	w->depth++;
	w->held[w->depth] = link->blob;
	w->todo[w->depth] = span_of(link->blob->data, link->blob->len);
	if (link->blob->data[0] == '/') {
		if (w->trail)
			buf_truncate(w->trail, 0);
		return inode_get(w->s->vfs, VFS_ROOT, &w->at);
	}
	return 0;
}

static void arrive(struct walker *w, struct inode *dir, struct span name, struct inode *inode)
{
	struct place *place = w->place;

	if (dir) {
		memcpy(place->name_bytes, name.data, name.len);
		place->name = span_of(place->name_bytes, name.len);
	}
	place->dir = dir;
	place->inode = inode;
}

static int walk_dots(struct walker *w, struct span name)
{
	bool up = name.len == 2;
	int r = 0;

	w->place->kind = up ? PLACE_DOTDOT : PLACE_DOT;
	if (!up)
		return 0;
	if (w->at->row.ino != VFS_ROOT)
		r = names_parent(w->s->vfs, w->at, &w->at);
	trail_pop(w);
	return r == -ESTALE ? -ENOENT : r;
}

/* One name. 1: arrived. */
static int walk_name(struct walker *w, struct span name)
{
	struct inode *dir = w->at, *inode = NULL;
	struct dentry *dentry;
	bool slash = false, last = at_end(w, &slash);
	int r;

	r = names_find(w->s->vfs, dir, name, &dentry, &inode);
	if (r == -ENOENT && last && (w->flags & (WALK_PARENT | WALK_CREATE)))
		inode = NULL;
	else if (r < 0)
		return r;
	w->place->kind = PLACE_NAME;
	if (last)
		w->place->slash = slash;
	if (inode && S_ISLNK(inode->row.mode)) {
		bool whole = last && (w->flags & WALK_PARENT);

		if (!whole && (!last || slash || (w->flags & WALK_FOLLOW)))
			return follow(w, inode);
	}
	if (last) {
		arrive(w, dir, name, inode);
		return trail_push(w, name) < 0 ? -ENAMETOOLONG : 1;
	}
	w->at = inode;
	return trail_push(w, name);
}

static bool is_dots(struct span name)
{
	return span_eq(name, SPAN(".")) || span_eq(name, SPAN(".."));
}

/* 1: arrived by a name. 0: at a directory that has none here. */
static int walk_on(struct walker *w)
{
	struct span name;
	int r = 0;

	w->place->kind = PLACE_ROOT;
	while (r == 0 && next_name(w, &name)) {
		if (name.len > VFS_NAME_MAX)
			return -ENAMETOOLONG;
		if (!inode_is_dir(w->at))
			return -ENOTDIR;
		r = perm_check(w->s->vfs, &w->s->ctx, w->at, X_OK);
		if (r == 0)
			r = is_dots(name) ? walk_dots(w, name) : walk_name(w, name);
	}
	return r;
}

int sys_walk(struct vfs_sys *s, int64_t dir, struct span path, unsigned flags, struct place *place,
	     struct buf *trail)
{
	struct walker w = {.s = s, .flags = flags, .place = place, .trail = trail};
	int r;

	r = walk_start(&w, dir, path);
	if (r == 0)
		r = walk_on(&w);
	for (int i = 1; i <= w.depth; i++)
		blob_unref(w.held[i]);
	if (r == 0)
		arrive(&w, NULL, SPAN_EMPTY, w.at);
	if (r >= 0 && place->inode && place->slash && !(flags & WALK_PARENT) &&
	    !inode_is_dir(place->inode))
		r = -ENOTDIR;
	if (r < 0) {
		place->dir = place->inode = NULL;
		return r;
	}
	hold(place->dir);
	hold(place->inode);
	if (trail && trail->len == 0)
		r = buf_add(trail, "/", 1);
	return r < 0 ? r : 0;
}

/* ---- for the calls ---- */

static int resolve_empty(struct vfs_sys *s, int64_t dir, struct place *place)
{
	const struct descriptor *fd = sys_fd(s, dir);
	struct inode *inode;
	int r;

	if (!fd && dir != SYS_CWD)
		return -EBADF;
	r = inode_get(s->vfs, fd ? fd->ino : VFS_ROOT, &inode);
	if (r < 0)
		return r;
	place->kind = PLACE_DOT;
	place->inode = inode;
	hold(inode);
	return 0;
}

int sys_resolve_locked(struct vfs_sys *s, int64_t dir, struct span path, int64_t at, int allowed,
		       struct place *place)
{
	unsigned flags = at & AT_SYMLINK_NOFOLLOW ? 0 : WALK_FOLLOW;

	if (at & ~(int64_t)allowed)
		return -EINVAL;
	if (path.len == 0 && (at & AT_EMPTY_PATH))
		return resolve_empty(s, dir, place);
	return sys_walk(s, dir, path, flags, place, NULL);
}

int sys_resolve(struct vfs_sys *s, int64_t dir, struct span path, int64_t at, int allowed,
		struct place *place)
{
	int r;

	vfs_lock(s->vfs);
	r = sys_resolve_locked(s, dir, path, at, allowed, place);
	vfs_unlock(s->vfs);
	return r;
}

int sys_resolve_parent(struct vfs_sys *s, int64_t dir, struct span path, struct place *place)
{
	int r;

	vfs_lock(s->vfs);
	r = sys_walk(s, dir, path, WALK_PARENT, place, NULL);
	vfs_unlock(s->vfs);
	return r;
}
