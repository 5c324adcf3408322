/* lock.c - locks of open files: POSIX records (fcntl(2)) and whole files (flock(2)). */
#include "base/mem.h"
#include "vfs/vfs_i.h"

#include <errno.h>
#include <fcntl.h>

/* Of one inode, so that no guest fills memory with them. */
#define LOCKS_MAX 4096

/* In inode.locks. Those of one owner and kind do not overlap, and neighbours differ in type. */
struct file_lock {
	struct list link;
	struct vfs_lock lock;
};

static bool same_owner(const struct vfs_lock *a, const struct vfs_lock *b)
{
	return a->flock == b->flock && a->owner == b->owner;
}

static bool overlap(const struct vfs_lock *a, const struct vfs_lock *b)
{
	return a->start <= b->end && b->start <= a->end;
}

static bool in_the_way(const struct vfs_lock *have, const struct vfs_lock *want)
{
	return have->flock == want->flock && have->owner != want->owner && overlap(have, want) &&
	       (have->type == F_WRLCK || want->type == F_WRLCK);
}

/* The one that starts first. */
static const struct vfs_lock *find_other(const struct inode *inode, const struct vfs_lock *want)
{
	const struct vfs_lock *found = NULL;

	list_for_each (link, &inode->locks) {
		const struct file_lock *lock = list_entry(link, struct file_lock, link);

		if (in_the_way(&lock->lock, want) && (!found || lock->lock.start < found->start))
			found = &lock->lock;
	}
	return found;
}

static void add(struct inode *inode, const struct vfs_lock *lock)
{
	struct file_lock *entry = mem_alloc0(sizeof(*entry));

	entry->lock = *lock;
	list_add(&inode->locks, &entry->link);
}

/* Take the range of `lock` out of what its owner has: cuts, splits, removes. True: something was.
 */
static bool cut_out(struct inode *inode, const struct vfs_lock *lock)
{
	bool changed = false;

	list_for_each_safe(link, &inode->locks)
	{
		struct file_lock *entry = list_entry(link, struct file_lock, link);
		struct vfs_lock *have = &entry->lock;

		if (!same_owner(have, lock) || !overlap(have, lock))
			continue;
		changed = true;
		if (have->start < lock->start && have->end > lock->end) {
			struct vfs_lock rest = *have;

			rest.start = lock->end + 1;
			have->end = lock->start - 1;
			add(inode, &rest);
		} else if (have->start < lock->start) {
			have->end = lock->start - 1;
		} else if (have->end > lock->end) {
			have->start = lock->end + 1;
		} else {
			list_del(&entry->link);
			free(entry);
		}
	}
	return changed;
}

/* Enter a lock, joined with what its owner has of the same type beside it. */
static void join(struct inode *inode, const struct vfs_lock *lock)
{
	struct vfs_lock all = *lock;

	list_for_each_safe(link, &inode->locks)
	{
		struct file_lock *entry = list_entry(link, struct file_lock, link);
		const struct vfs_lock *have = &entry->lock;

		if (!same_owner(have, lock) || have->type != lock->type)
			continue;
		if (have->end != all.start - 1 &&
		    (all.end == INT64_MAX || have->start != all.end + 1))
			continue;
		if (have->start < all.start)
			all.start = have->start;
		if (have->end > all.end)
			all.end = have->end;
		list_del(&entry->link);
		free(entry);
	}
	add(inode, &all);
}

static bool is_full(const struct inode *inode)
{
	size_t count = 0;

	list_for_each (link, &inode->locks)
		count++;
	return count >= LOCKS_MAX;
}

static int set_in(struct vfs *vfs, struct inode *inode, const struct vfs_lock *lock,
		  struct vfs_lock *ret_other)
{
	const struct vfs_lock *other = NULL;
	bool changed = false;

	if (lock->type != F_UNLCK) {
		if (is_full(inode))
			return -ENOLCK;
		other = find_other(inode, lock);
	}
	if (other && ret_other)
		*ret_other = *other;
	/* As Linux: who asks flock for another type first gives up what he has. */
	if (!other || lock->flock)
		changed = cut_out(inode, lock);
	if (!other && lock->type != F_UNLCK)
		join(inode, lock);
	if (changed && vfs->lock_changed)
		vfs->lock_changed(vfs->lock_changed_arg, inode->row.ino);
	return other ? -EAGAIN : 0;
}

static int check(const struct vfs_lock *lock)
{
	if (lock->type != F_RDLCK && lock->type != F_WRLCK && lock->type != F_UNLCK)
		return -EINVAL;
	return lock->start < 0 || lock->end < lock->start ? -EINVAL : 0;
}

int vfs_lock_set(struct vfs *vfs, int64_t ino, const struct vfs_lock *lock,
		 struct vfs_lock *ret_other)
{
	struct inode *inode;
	int r;

	r = check(lock);
	if (r < 0)
		return r;
	vfs_lock(vfs);
	if (lock->type == F_UNLCK) { /* also of one that is stale by now */
		inode = inode_peek(vfs, ino);
		r = inode ? set_in(vfs, inode, lock, ret_other) : 0;
	} else {
		r = inode_get(vfs, ino, &inode);
		/* Locks live in memory: with nobody holding the inode they could be lost. */
		if (r == 0 && !inode->opens && !inode->lookups)
			r = -EBADF;
		if (r == 0)
			r = set_in(vfs, inode, lock, ret_other);
	}
	vfs_unlock(vfs);
	return r;
}

int vfs_lock_get(struct vfs *vfs, int64_t ino, const struct vfs_lock *lock,
		 struct vfs_lock *ret_other)
{
	const struct vfs_lock *other;
	struct inode *inode;
	int r;

	r = check(lock);
	if (r < 0)
		return r;
	if (lock->type == F_UNLCK)
		return -EINVAL;
	vfs_lock(vfs);
	r = inode_get(vfs, ino, &inode);
	if (r == 0) {
		other = find_other(inode, lock);
		*ret_other = *lock;
		ret_other->type = F_UNLCK;
		if (other)
			*ret_other = *other;
	}
	vfs_unlock(vfs);
	return r;
}

void vfs_lock_on_change(struct vfs *vfs, void (*fn)(void *arg, int64_t ino), void *arg)
{
	vfs_lock(vfs);
	vfs->lock_changed = fn;
	vfs->lock_changed_arg = arg;
	vfs_unlock(vfs);
}

void lock_free_all(struct inode *inode)
{
	list_for_each_safe(link, &inode->locks)
	{
		struct file_lock *entry = list_entry(link, struct file_lock, link);

		list_del(&entry->link);
		free(entry);
	}
}
