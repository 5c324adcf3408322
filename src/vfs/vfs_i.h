/* vfs_i.h - the inside of vfs: inodes, entries, dirty sets and the flush.
 *
 * Locks, in this order:
 *   flush   one flush, or one exclusive section, at a time
 *   io      shared while bytes of units are read or written; the flush takes it exclusively for the
 *           moment of freezing, so that no row is committed before its bytes, and vfs_exclusive for
 *           as long as it lasts. Writers are preferred, so it is not recursive
 *   lock    everything below; held for memory work and for reading single rows, never for bytes of
 *           large files, never while waiting
 *
 * A flush freezes: under `lock` it turns all dirty inodes and entries into a self-contained list of
 * row operations (copies, and references to blobs), marks them clean, and writes the list without
 * the lock. What was frozen by flush number n may not be evicted before `flushed` >= n, since its
 * row is not there to be read yet. When a commit fails, everything in the list is marked dirty
 * again.
 */
#ifndef VFS_VFS_I_H
#define VFS_VFS_I_H

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "store/store.h"
#include "vfs/pool.h"
#include "vfs/vfs.h"

#include <pthread.h>

/* Whole content of a small file or a link target. Shared with a flush under way (refs > 1): whoever
 * wants to change it then makes a copy first (blob_own). In blob.c. */
struct blob {
	unsigned refs; /* under `lock` */
	size_t len, cap;
	char data[];
};

struct blob *blob_new(size_t cap);
void blob_unref(struct blob *blob); /* NULL allowed */
/* *blob (or a new one when NULL) with one reference, room for `cap`, the old bytes kept. */
struct blob *blob_own(struct blob **blob, size_t cap);
/* Give back to the host what no blob is in. */
void blob_trim(void);

/* UNITS_CHUNK units of one large file, loaded together. */
#define UNITS_CHUNK 64
struct units {
	struct map_node node; /* in inode.units, by first / UNITS_CHUNK */
	int64_t first;
	uint64_t dirty; /* a bit a unit: its row is not written yet */
	struct store_unit unit[UNITS_CHUNK];
};

enum inode_state {
	INODE_DIRTY = 1 << 0,   /* the row */
	INODE_CONTENT = 1 << 1, /* dirty: inline content or link target */
	INODE_UNITS = 1 << 2,   /* dirty: some units */
	INODE_XATTR = 1 << 3,   /* dirty: extended attributes */
	INODE_CUT = 1 << 4,   /* dirty: units from `cut` on are holes, but what INODE_UNITS says */
	INODE_IN_DB = 1 << 5, /* has a row, or will when the flush under way is done */
	INODE_NO_UNITS = 1 << 6, /* the database has no unit row for it: do not look */
	INODE_COMPLETE = 1 << 7, /* directory: every entry is in memory */
	INODE_GONE = 1 << 8,     /* no names, no references: to be deleted from the database */
	INODE_XATTRS_LOADED = 1 << 9,
	INODE_NO_XATTRS = 1 << 10,  /* the database has none for it: do not look */
	INODE_INLINE_OLD = 1 << 11, /* content moved to units, the inline row is to be deleted */
	INODE_SIZE = 1 << 12,       /* with INODE_DIRTY: not the times alone (for fdatasync) */
	INODE_LINKABLE = 1 << 13,   /* no name yet, may get one (O_TMPFILE) */
	INODE_STALE = 1 << 14,      /* the head is another one now and does not have it */
};

/* Any of these: it is in vfs.dirty. */
#define INODE_ANY_DIRTY \
	(INODE_DIRTY | INODE_CONTENT | INODE_UNITS | INODE_XATTR | INODE_CUT | INODE_INLINE_OLD)

struct xattr {
	struct list link; /* in inode.xattrs, in order of name */
	struct span name, value;
	bool dirty, removed;
	char bytes[]; /* name, value */
};

struct dir_slot {
	uint64_t cookie;
	struct dentry *dentry; /* NULL: it went */
};

struct inode {
	struct map_node node; /* in vfs.inodes, by ino */
	struct list lru;   /* in vfs.lru while it may be evicted: clean, flushed, no references */
	struct list dirty; /* in vfs.dirty while any dirty state is set */
	/* rdev: a directory's parent; of a file in units, how many of them are no holes */
	struct store_node row;
	unsigned state;
	uint64_t lookups; /* references that a kernel holds (vfs_lookup, vfs_forget) */
	uint32_t opens;   /* vfs_open, descriptors, and callers that drop the lock */
	uint64_t frozen;  /* the last flush that took something of it */
	/* regular file, link */
	struct blob *blob; /* inline content; NULL: not loaded, or empty */
	bool blob_loaded;
	bool busy;            /* someone changes content without the lock: wait for vfs.content */
	struct list content;  /* in vfs.contents while clean content is in memory */
	size_t content_len;   /* ... and how much of vfs.content_bytes it is */
	struct map units;     /* struct units */
	uint64_t units_epoch; /* vfs.epoch when they were loaded */
	int64_t cut;          /* INODE_CUT */
	int64_t cut_frozen;   /* where the flush `frozen` cuts; ask inode_cut */
	/* directory */
	int64_t parent;         /* 0: not known; for ".." and loops */
	struct dir_slot *order; /* COMPLETE: entries by cookie */
	size_t order_len, order_cap, order_gone;
	uint64_t next_cookie;
	uint32_t entries;     /* live ones in memory; COMPLETE: how many there are */
	uint32_t misses;      /* not COMPLETE: names the store was asked for in vain */
	struct list dentries; /* all of this directory that are in memory */
	/* rare */
	struct list xattrs;
	struct list locks; /* struct file_lock */
};

/* A name in a directory. `ino` 0: it is known not to be there (deleted, the row still to go). */
struct dentry {
	struct map_node node; /* in vfs.dentries, by dentry_hash(parent, name) */
	struct list dirty;    /* in vfs.dirty_dentries */
	struct list sibling;  /* in its directory's dentries */
	int64_t parent, ino;
	uint32_t index; /* in the directory's order; UINT32_MAX: none */
	uint32_t mode;  /* type bits, so that readdir needs no inode */
	uint64_t frozen;
	bool in_db;
	uint8_t name_len;
	char name[];
};

/* Entries with names that fit are of this size, and in a pool. */
#define DENTRY_SMALL 128

struct watch {
	struct list link;
	uint64_t id;
	bool known_only;
	void (*fn)(void *arg, const struct vfs_event *event);
	void *arg;
};

struct vfs {
	pthread_mutex_t lock;
	pthread_rwlock_t io;
	struct store *store;
	struct gate *gate;
	bool readonly;
	uint64_t seed;               /* of name hashes */
	struct map inodes, dentries; /* in memory */
	struct pool inode_pool, dentry_pool;
	struct list lru, dirty, dirty_dentries;
	size_t lru_len;
	pthread_cond_t content; /* with `lock`: an inode is no longer busy, a pull is over */
	uint64_t epoch;         /* counts vfs_exclusive: clean units in memory are stale after it */
	/* inline content dirty, plus unit bytes written since the last flush */
	uint64_t dirty_bytes;
	uint64_t dirty_max, cache_max;
	int64_t next_ino;
	uint64_t used_bytes, used_inodes, quota_bytes, quota_inodes;
	bool counters_dirty;
	/* flush */
	pthread_mutex_t flush;
	struct frozen *frozen; /* under `flush`: its arrays are used again */
	uint64_t freezing;     /* number of the newest flush that froze */
	uint64_t flushed;      /* ... that committed */
	uint64_t durable;      /* ... that is on disk */
	uint64_t changes;      /* counts every change; for "is there anything since" */
	uint64_t frozen_changes, flushed_changes, durable_changes;
	int flush_error; /* of the last flush; 0 when it succeeded */
	pthread_t flusher;
	pthread_cond_t wake; /* flusher, with `lock` */
	bool stop, flusher_runs, flusher_sleeps, flusher_hurry;
	struct list contents; /* clean content in memory, least recently used first */
	uint64_t content_bytes;
	/* others */
	struct list watches;
	uint64_t next_watch;
	const void *pull_source;
	void (*pull)(void *arg, int64_t ino);
	void *pull_arg;
	unsigned pulling; /* calls of `pull` under way */
	void (*lock_changed)(void *arg, int64_t ino);
	void *lock_changed_arg;
	struct vfs_stats stats;
};

/* Every operation holds `lock` between these. vfs_unlock evicts what is beyond cache_max, so no
 * inode without a reference (opens) is valid after it, nor after a wait for vfs.content. */
static inline void vfs_lock(struct vfs *vfs)
{
	pthread_mutex_lock(&vfs->lock);
}
void vfs_unlock(struct vfs *vfs);

/* Count a change and see to it that it is flushed. inode_dirty and the dir_ functions do so. */
void vfs_changed(struct vfs *vfs);

/* ---- inode.c: the cache ---- */

/* The inode, from memory or the store. Stays valid while `lock` is held. -ESTALE when there is
 * none, -EUCLEAN, -EIO. */
int inode_get(struct vfs *vfs, int64_t ino, struct inode **ret_inode) MUST_USE;
/* The inode if it is in memory, or NULL. */
struct inode *inode_peek(const struct vfs *vfs, int64_t ino);
/* A new one with the next number, dirty, its times now. Counters and quota are the caller's
 * (quota_take_inode). */
struct inode *inode_new(struct vfs *vfs, const struct vfs_ctx *ctx, struct inode *dir,
			uint32_t mode);
/* Enter a row that was read from the store (readdirplus loads many). Returns the one in memory if
 * there is one. */
struct inode *inode_enter(struct vfs *vfs, const struct store_node *row);
/* Mark dirty state (INODE_DIRTY | ...), enter the dirty list, wake the flusher if it sleeps. */
void inode_dirty(struct vfs *vfs, struct inode *inode, unsigned state);
/* Call after lookups, opens or nlink went down: an inode without names and references is
 * deleted, a clean one without references may be evicted. `inode` may be freed. */
void inode_settle(struct vfs *vfs, struct inode *inode);
/* Its content was loaded, used, or written to the database: keep it in memory if it is clean, and
 * let others go beyond CONTENT_MAX, least recently used first. file_load calls it each time, so the
 * content of the last few hundred files asked for is there until `lock` is dropped. */
#define CONTENT_MAX (8 << 20)
void inode_content(struct vfs *vfs, struct inode *inode);
void inode_content_drop(struct vfs *vfs, struct inode *inode);
/* Evict clean inodes, least recently used first, until at most `keep` are cached. */
void inode_evict(struct vfs *vfs, size_t keep);
/* Free all memory of an inode that is in no list (also at close). */
void inode_free(struct vfs *vfs, struct inode *inode);
void inode_attr(const struct inode *inode, struct vfs_attr *ret_attr);
/* ctime (and mtime) are now. Marks dirty. */
enum { TOUCH_CTIME = 1, TOUCH_MTIME = 2 };
void inode_touch(struct vfs *vfs, struct inode *inode, unsigned which);

/* The first unit for which the database cannot be believed: it is still to be cut there. Whoever
 * loads units takes those from here on that are not in memory as holes. INODE_CUT with `cut` alone
 * says what the next flush cuts. */
static inline int64_t inode_cut(const struct vfs *vfs, const struct inode *inode)
{
	int64_t cut = INT64_MAX;

	if (inode->frozen > vfs->flushed)
		cut = inode->cut_frozen;
	if ((inode->state & INODE_CUT) && inode->cut < cut)
		cut = inode->cut;
	return cut;
}

static inline bool inode_is_dir(const struct inode *inode)
{
	return (inode->row.mode & 0170000) == 0040000;
}

static inline bool inode_is_file(const struct inode *inode)
{
	return (inode->row.mode & 0170000) == 0100000;
}

/* ---- dir.c: entries ---- */

/* The entry, from memory or the store; -ENOENT. A dead one is never returned. */
int dir_find(struct vfs *vfs, struct inode *dir, struct span name,
	     struct dentry **ret_dentry) MUST_USE;
/* Load every entry; with `plus` every inode as well. */
int dir_complete(struct vfs *vfs, struct inode *dir, bool plus) MUST_USE;
/* 0 when the directory has no entry, -ENOTEMPTY, or an error. */
int dir_check_empty(struct vfs *vfs, struct inode *dir) MUST_USE;
/* Add a name that is not there, or point one that is there to another inode. */
void dir_set(struct vfs *vfs, struct inode *dir, struct span name, int64_t ino, uint32_t mode);
/* Take out a name that is there. */
void dir_remove(struct vfs *vfs, struct inode *dir, struct dentry *dentry);
/* Free the memory of an entry: a flush has deleted its row, or there was none. */
void dentry_free(struct vfs *vfs, struct dentry *dentry);
/* Free a directory's entries in memory (it is clean, or gone). */
void dir_forget(struct vfs *vfs, struct inode *dir);
/* The entries from the first with a cookie beyond `cookie`: an index into dir->order. */
size_t dir_seek(const struct inode *dir, uint64_t cookie);

/* ---- flush.c ---- */

/* Flush everything that was changed before the call. Without any lock held. Shares the commit of
 * concurrent callers. */
int flush_now(struct vfs *vfs, bool durable) MUST_USE;
/* Before every operation that needs space, without any lock held: waits (by flushing) while dirty
 * content is beyond its limit; after a failed flush tries again and answers its error. */
int flush_throttle(struct vfs *vfs) MUST_USE;
/* As flush_now, and holds off everybody from the last freeze until `fn` has returned. */
int flush_exclusive(struct vfs *vfs, int (*fn)(void *arg, struct store *store), void *arg) MUST_USE;
int flush_start(struct vfs *vfs) MUST_USE; /* the thread */
void flush_stop(struct vfs *vfs);
/* Free what flushes keep for the next. Under `flush`. */
void flush_trim(struct vfs *vfs);

/* ---- perm.c ---- */

/* POSIX permission: R_OK | W_OK | X_OK on an inode. 0 or -EACCES, -EROFS for W_OK on a read-only
 * workspace's files. ctx->trusted skips the check. */
int perm_check(const struct vfs *vfs, const struct vfs_ctx *ctx, const struct inode *inode,
	       int mask) MUST_USE;
/* May the asker change what only the owner may? 0 or -EPERM. */
int perm_owner(const struct vfs_ctx *ctx, const struct inode *inode) MUST_USE;
/* The sticky bit: may `inode` be removed from, or renamed in, `dir`? 0 or -EPERM. */
int perm_sticky(const struct vfs_ctx *ctx, const struct inode *dir,
		const struct inode *inode) MUST_USE;
bool perm_in_group(const struct vfs_ctx *ctx, uint32_t gid);
/* A name that is to be made: -ENAMETOOLONG, -EINVAL (bytes), -EEXIST (".", ".."). */
int perm_new_name(struct span name) MUST_USE;

/* ---- quota (attr.c) ---- */

/* Account before making: -EDQUOT. Giving back cannot fail. Marks counters dirty. */
int quota_take_inode(struct vfs *vfs) MUST_USE;
int quota_take_bytes(struct vfs *vfs, uint64_t bytes) MUST_USE;
void quota_give_inode(struct vfs *vfs);
void quota_give_bytes(struct vfs *vfs, uint64_t bytes);

/* ---- file.c, units.c: content ----
 * Bytes in use are those of regular files as store_info counts them; directories, links and special
 * files use none. */

/* Have inode->blob loaded (small files, links). Under `lock`. */
int file_load(struct vfs *vfs, struct inode *inode) MUST_USE;
/* Set the size: cut or extend with a hole; moves between inline and units. Under `io` shared, then
 * `lock`, which may be dropped and taken again (the inode is kept open meanwhile). */
int file_truncate(struct vfs *vfs, struct inode *inode, int64_t size) MUST_USE;
/* Drop all content of a file that is going (inode_settle): accounting, unit maps, blob. */
void file_drop(struct vfs *vfs, struct inode *inode);
/* Free the memory of its content alone (inode_free). */
void file_forget(struct inode *inode);
/* Content that was written as a whole, to become a file's in one step (writefile). `prepare` under
 * `io` shared alone; `put` under `lock` as well: the file has the old content or the new one. */
struct content;
int content_prepare(struct vfs *vfs, struct span bytes, struct content **ret_content) MUST_USE;
int content_put(struct vfs *vfs, struct inode *inode, struct content *content) MUST_USE;
void content_free(struct vfs *vfs, struct content *content); /* gives back what was not put */

/* ---- xattr.c ---- */
void xattr_free_all(struct inode *inode);
int xattr_load(struct vfs *vfs, struct inode *inode) MUST_USE;

/* ---- lock.c ---- */
void lock_free_all(struct inode *inode);

/* ---- watch.c ---- */

/* Tell watchers. Under `lock`. `name`s may be empty. Cheap when nobody watches. */
void watch_tell(struct vfs *vfs, const struct vfs_ctx *ctx, enum vfs_event_kind kind,
		const struct inode *inode, int64_t parent, struct span name);
void watch_tell_move(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t parent,
		     struct span name, int64_t parent2, struct span name2);
/* Have the kernel write back what it holds of `ino`, if it may hold something and the call is not
 * its own. Without any lock held; call before taking `lock` for content and attributes. */
void watch_pull(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino);

/* ---- for every operation ---- */

/* Ask the gate; 0 or -EPERM. Under `lock`. */
int vfs_ask(struct vfs *vfs, const struct vfs_ctx *ctx, enum gate_op op, int64_t ino,
	    struct span name) MUST_USE;
/* Record a change; `record` needs op, inodes and names; who is taken from ctx. Under `lock`. */
void vfs_note(struct vfs *vfs, const struct vfs_ctx *ctx, struct gate_record record);

#endif
