/* readdir.c - the entries of a directory, in slices. */
#include "vfs/names_i.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COOKIE_DOT = 1, COOKIE_DOTDOT = 2 };

struct walk {
	struct vfs *vfs;
	bool plus;
	int (*fn)(void *arg, const struct vfs_entry *entry);
	void *arg;
};

static int give(const struct walk *walk, struct span name, uint64_t cookie, int64_t ino,
		uint32_t mode)
{
	struct vfs_entry entry = {.name = name, .cookie = cookie};

	entry.attr.ino = ino;
	entry.attr.mode = mode;
	return walk->fn(walk->arg, &entry);
}

static int give_plus(const struct walk *walk, const struct dir_slot *slot)
{
	const struct dentry *dentry = slot->dentry;
	struct vfs_entry entry = {
		.name = span_of(dentry->name, dentry->name_len),
		.cookie = slot->cookie,
	};
	struct inode *inode;
	int r;

	r = inode_get(walk->vfs, dentry->ino, &inode);
	if (r < 0)
		return r == -ESTALE ? -EUCLEAN : r;
	inode_attr(inode, &entry.attr);
	inode->lookups++; /* before: `fn` may make the reference known */
	r = walk->fn(walk->arg, &entry);
	if (r != 0)
		inode->lookups--;
	return r;
}

static int give_dots(const struct walk *walk, const struct inode *dir, uint64_t cookie)
{
	int r = 0;

	if (cookie < COOKIE_DOT)
		r = give(walk, SPAN("."), COOKIE_DOT, dir->row.ino, S_IFDIR);
	if (r == 0 && cookie < COOKIE_DOTDOT)
		r = give(walk, SPAN(".."), COOKIE_DOTDOT, dir->parent ? dir->parent : VFS_ROOT,
			 S_IFDIR);
	return r;
}

static int give_entries(const struct walk *walk, const struct inode *dir, uint64_t cookie)
{
	for (size_t i = dir_seek(dir, cookie); i < dir->order_len; i++) {
		const struct dir_slot *slot = &dir->order[i];
		const struct dentry *dentry = slot->dentry;
		int r;

		if (!dentry)
			continue;
		if (walk->plus)
			r = give_plus(walk, slot);
		else
			r = give(walk, span_of(dentry->name, dentry->name_len), slot->cookie,
				 dentry->ino, dentry->mode);
		if (r != 0)
			return r;
	}
	return 0;
}

static int readdir_in(const struct walk *walk, const struct vfs_ctx *ctx, int64_t ino,
		      uint64_t cookie)
{
	struct vfs *vfs = walk->vfs;
	struct inode *dir;
	int r;

	r = inode_get(vfs, ino, &dir);
	if (r < 0)
		return r;
	if (!inode_is_dir(dir))
		return -ENOTDIR;
	r = perm_check(vfs, ctx, dir, R_OK);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_READDIR, ino, SPAN_EMPTY);
	if (r == 0 && dir->row.nlink == 0)
		r = -ENOENT;
	if (r == 0)
		r = dir_complete(vfs, dir, walk->plus);
	if (r == 0)
		r = give_dots(walk, dir, cookie);
	if (r == 0)
		r = give_entries(walk, dir, cookie);
	return r < 0 ? r : 0;
}

int vfs_readdir(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, uint64_t cookie, bool plus,
		int (*fn)(void *arg, const struct vfs_entry *entry), void *arg)
{
	struct walk walk = {.vfs = vfs, .plus = plus, .fn = fn, .arg = arg};
	int r;

	vfs_lock(vfs);
	r = readdir_in(&walk, ctx, ino, cookie);
	vfs_unlock(vfs);
	return r;
}
