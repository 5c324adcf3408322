/* store.h - a workspace on disk: one SQLite file on a chain of immutable ones, and an extent file.
 *
 * The newest layer that has a row wins, for every table; a deleted thing is a tombstone row. The
 * store knows rows and units, nothing of paths, permissions or caches: that is vfs.
 *
 * Two sides, which may be two threads, each single-threaded in itself:
 *   reader  the store_get_* and store_each_* calls                (the holder of the vfs lock)
 *   writer  store_begin .. store_commit, and everything that changes layers (the flusher)
 * Calls marked [both] stop both sides: the caller must hold off readers.
 * store_data_* calls may come from any thread.
 *
 * Errors: negative errno; -EUCLEAN a file that is damaged, -ENOSPC, -EIO as the host said. Format:
 * docs/formats.md.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <sys/types.h>

#define STORE_SCHEMA 1
#define STORE_APPLICATION_ID 0x636d7074 /* "cmpt" */
#define STORE_UNIT 65536                /* bytes in one unit of the extent file */
#define STORE_INLINE_MAX 16384          /* content up to this lives in the database */
#define STORE_ROOT 1                    /* the root's inode number */
#define STORE_HOLE (-1)                 /* position of a unit that is not there */
#define STORE_CHAIN_MAX 8               /* deeper chains are merged */
#define STORE_SNAPSHOT_NAME_MAX 128

struct store;

/* One row of `node`. Kinds are the S_IFMT bits of `mode`. Times are ns since 1970. `rdev` of a
 * directory is its parent, of a file with EXTENTS how many units it has. A deleted inode's number
 * is never used again. */
struct store_node {
	int64_t ino;
	uint32_t mode; /* type and permission bits */
	uint32_t uid, gid, nlink;
	uint64_t rdev;
	int64_t size;
	int64_t atime, mtime, ctime, btime;
	uint32_t flags; /* enum store_node_flag */
};

enum store_node_flag {
	STORE_NODE_EXTENTS = 1 << 0, /* content is in units, not inline; a file without has none */
	STORE_NODE_ORPHAN = 1 << 1,  /* no name left, still open: garbage for the next open */
};

/* Where a unit is: `layer` 0 is the head's extent file, n the n-th base's; `pos` counts units. */
struct store_unit {
	int64_t pos; /* STORE_HOLE: zeros */
	int layer;
};

enum store_open_flag {
	STORE_CREATE = 1 << 0,   /* make a new one, with a root directory; -EEXIST */
	STORE_READONLY = 1 << 1, /* no writer side; no lock is needed for a snapshot's layers */
};

/* What the file says of itself. */
struct store_info {
	char id[33]; /* of the workspace, hex */
	int64_t created;
	int64_t next_ino;
	/* In use: inodes; and content bytes of regular files, which is the length of an inline one,
	 * and STORE_UNIT for each unit of a large one that is no hole. */
	uint64_t bytes, inodes;
	uint64_t quota_bytes, quota_inodes; /* 0: no limit */
	uint64_t audit_seq;                 /* of the last audit record */
	unsigned char audit_hash[32];       /* of the last audit record */
	int depth;                          /* layers below the head */
};

/* ---- open and close ---- */

/*
 * Open or create the workspace at `path` (ends in ".db"). Collects what a crash left behind:
 * orphans, units no row names, half-made layers. -ENOENT, -EEXIST, -EUCLEAN, -EPROTO (no
 * workspace file), -EPROTONOSUPPORT (newer schema): the text says what to do. The caller holds the
 * owner's lock (store_lock_take).
 */
int store_open(const char *path, unsigned flags, struct store **ret_store,
	       struct err *err) MUST_USE;

/* Open the state at a snapshot, read-only; `store` may be closed before it. [both] */
int store_open_snapshot(struct store *store, const char *snapshot, struct store **ret_store,
			struct err *err) MUST_USE;

/* Checkpoints and closes. NULL is allowed. */
void store_close(struct store *store);

void store_get_info(struct store *store, struct store_info *ret_info);

/* The host's disk under the workspace: its size, and what is free to us. Any thread. */
int store_get_disk(struct store *store, uint64_t *ret_bytes, uint64_t *ret_free) MUST_USE;

/* Give back all memory that is kept only for speed: every connection is closed, and opened again
 * when something is asked for. [both] */
void store_release_memory(struct store *store);

/* ---- reader: rows ---- */

/* 0, or -ENOENT. */
int store_get_node(struct store *store, int64_t ino, struct store_node *ret_node) MUST_USE;

/* The inode a name in a directory leads to. 0, or -ENOENT. */
int store_get_dirent(struct store *store, int64_t parent, struct span name,
		     int64_t *ret_ino) MUST_USE;

/* Every entry of a directory with its inode's mode, in order of name; stops when `fn` is non-zero
 * and returns that. `name` is borrowed for the call. */
int store_each_dirent(struct store *store, int64_t parent,
		      int (*fn)(void *arg, struct span name, int64_t ino, uint32_t mode),
		      void *arg) MUST_USE;

/* As store_each_dirent, with every inode's whole row at once (for readdirplus, find, rm -r). */
int store_each_dirent_node(struct store *store, int64_t parent,
			   int (*fn)(void *arg, struct span name, const struct store_node *node),
			   void *arg) MUST_USE;

/* The whole inline content, or link target, appended. 0; a missing row is empty content. */
int store_get_inline(struct store *store, int64_t ino, struct buf *content) MUST_USE;

/* Where units first .. first+count-1 of a file are. Units without a row are holes. */
int store_get_units(struct store *store, int64_t ino, int64_t first, size_t count,
		    struct store_unit *ret_units) MUST_USE;

/* The first unit at or after `from` that is no hole. 0, or -ENXIO. */
int store_next_unit(struct store *store, int64_t ino, int64_t from, int64_t *ret_idx) MUST_USE;

/* Extended attributes. -ENODATA; each: in order of name. */
int store_get_xattr(struct store *store, int64_t ino, struct span name, struct buf *value) MUST_USE;
int store_each_xattr(struct store *store, int64_t ino,
		     int (*fn)(void *arg, struct span name, struct span value), void *arg) MUST_USE;

/* ---- writer: one transaction of rows ---- */

int store_begin(struct store *store) MUST_USE;
int store_put_node(struct store *store, const struct store_node *node) MUST_USE;
/* Forget an inode and its content, extended attributes and units. */
int store_del_node(struct store *store, int64_t ino) MUST_USE;
int store_put_dirent(struct store *store, int64_t parent, struct span name, int64_t ino) MUST_USE;
int store_del_dirent(struct store *store, int64_t parent, struct span name) MUST_USE;
int store_put_inline(struct store *store, int64_t ino, struct span content) MUST_USE;
int store_del_inline(struct store *store, int64_t ino) MUST_USE;
/* Unit `idx` of a file is now at `pos` of the head's extent file, or STORE_HOLE. The unit it was at
 * before, if in the head, becomes free when the transaction is committed. */
int store_put_unit(struct store *store, int64_t ino, int64_t idx, int64_t pos) MUST_USE;
/* Every unit from `first` on is a hole (truncate). */
int store_del_units(struct store *store, int64_t ino, int64_t first) MUST_USE;
int store_put_xattr(struct store *store, int64_t ino, struct span name, struct span value) MUST_USE;
int store_del_xattr(struct store *store, int64_t ino, struct span name) MUST_USE;

/* A batch of audit records (gate/audit.h packs it): seq first..last, and the hash of the last. */
int store_put_audit(struct store *store, uint64_t first, uint64_t last, int64_t at,
		    struct span records, const unsigned char hash[32]) MUST_USE;

/* The counters that must be true together with the rows. */
int store_put_counters(struct store *store, int64_t next_ino, uint64_t bytes,
		       uint64_t inodes) MUST_USE;
int store_put_quota(struct store *store, uint64_t bytes, uint64_t inodes) MUST_USE;

/* Small named values of the modules above: "key" -> bytes; an empty value deletes. -ENODATA. */
int store_put_meta(struct store *store, const char *key, struct span value) MUST_USE;
int store_get_meta(struct store *store, const char *key, struct buf *value) MUST_USE;

/*
 * Commit. `durable`: the extent file was synced first, the commit is on disk on return (also
 * through a power cut); else it survives a crash of the process only. On failure everything since
 * store_begin is undone and nothing changed on disk. One exception: when only the last sync of a
 * durable commit fails, the rows are there, but not safe; put them and commit again, or store_sync.
 */
int store_commit(struct store *store, bool durable) MUST_USE;
void store_rollback(struct store *store);

/* Make the last commit durable if it is not (a fsync with nothing dirty). */
int store_sync(struct store *store) MUST_USE;

/* ---- extent file: any thread ---- */

/*
 * Take up to `want` units of the head's extent file, in a row if possible. The units read as zeros.
 * The count taken (>= 1) or -ENOSPC, -EIO. Until a commit names them they are garbage after a
 * crash.
 */
ssize_t store_data_alloc(struct store *store, size_t want, int64_t *ret_pos) MUST_USE;

/* Give back units that no commit ever named. */
void store_data_free(struct store *store, int64_t pos, size_t count);

/* Bytes inside units: `offset` counts from the start of unit `pos`, may cross units that follow. */
int store_data_read(struct store *store, struct store_unit unit, int64_t offset, void *ret_bytes,
		    size_t len) MUST_USE;
int store_data_write(struct store *store, int64_t pos, int64_t offset, const void *bytes,
		     size_t len) MUST_USE;

/* Zero bytes inside units and give whole blocks back to the host. */
int store_data_zero(struct store *store, int64_t pos, int64_t offset, int64_t len) MUST_USE;

/*
 * Keep every unit that is now named where it is, until the matching unpin: between looking units
 * up and reading them, so that a freed one is not given to another file meanwhile. Cheap; nests.
 */
void store_data_pin(struct store *store);
void store_data_unpin(struct store *store);

/* Sync the extent file. Nothing to do when nothing was written since the last one. */
int store_data_sync(struct store *store) MUST_USE;

/* ---- layers: writer, [both] ---- */

struct store_snapshot {
	char name[STORE_SNAPSHOT_NAME_MAX + 1];
	int64_t at;
	uint64_t bytes, inodes; /* in use at that time */
	uint64_t audit_seq;
};

/*
 * The head becomes a layer under a new, empty head. Constant time. -EEXIST, -EINVAL (name).
 * Flush first: units that no commit names yet are lost. Afterwards every store_unit that was looked
 * up before is one layer deeper (layer + 1); after all other changes of layers, look up again.
 */
int store_snapshot(struct store *store, const char *name, struct err *err) MUST_USE;
int store_each_snapshot(struct store *store,
			int (*fn)(void *arg, const struct store_snapshot *snapshot),
			void *arg) MUST_USE;
int store_delete_snapshot(struct store *store, const char *name, struct err *err) MUST_USE;

/* A new head on the snapshot's layers. The head of before is kept as snapshot `keep`, or dropped
 * when `keep` is NULL. Audit rows are kept in any case. -ENOENT. */
int store_restore(struct store *store, const char *snapshot, const char *keep,
		  struct err *err) MUST_USE;

/* A new workspace at `path` on the same layers, of `snapshot`. Constant time. */
int store_fork(struct store *store, const char *snapshot, const char *path,
	       struct err *err) MUST_USE;

/* Merge layers while the chain is deeper than STORE_CHAIN_MAX, and drop what nobody stands on.
 * Returns after one step: 1 there is more to do, 0 nothing left. Takes long unless
 * store_prepare_merge did the work before. */
int store_maintain(struct store *store, struct err *err) MUST_USE;

/* The long part of store_maintain, from any thread, while everything goes on: write the merged
 * layer. 1: store_maintain has something to switch to, 0: nothing to merge. */
int store_prepare_merge(struct store *store, struct err *err) MUST_USE;

/* Everything but snapshots, in one portable file at `path`: one layer, all content in the database.
 * Reader side; holding it off is not needed for a snapshot that was opened. -EEXIST. */
int store_export(struct store *store, const char *path, struct err *err) MUST_USE;

/* A new workspace at `path` from an exported file, or from another workspace's database where it
 * is (the caller holds that one's lock). What is imported is checked, and mended where it can be.
 */
int store_import(const char *file, const char *path, struct err *err) MUST_USE;

/*
 * What changed between two states of one history: snapshots that were opened, or the head itself.
 * NULL for `from`: nothing was there. Calls `fn` for each inode whose row, content, attributes or
 * names differ, once; paths are the caller's business. Both stores stay open meanwhile.
 */
int store_each_changed(struct store *from, struct store *to, int (*fn)(void *arg, int64_t ino),
		       void *arg) MUST_USE;

/* Remove a workspace's files. The caller holds its lock. */
int store_remove(const char *path, struct err *err) MUST_USE;
/* Rename a workspace's files. The caller holds both locks. -EEXIST. */
int store_rename(const char *from, const char *to, struct err *err) MUST_USE;

/* ---- audit: reader ---- */

/* Every batch with a record after `after`, oldest first, through all layers. */
int store_each_audit(struct store *store, uint64_t after,
		     int (*fn)(void *arg, uint64_t first, uint64_t last, struct span records,
			       const unsigned char hash[32]),
		     void *arg) MUST_USE;

/* ---- check ---- */

enum store_problem {
	STORE_DAMAGED,     /* SQLite's own integrity check */
	STORE_NO_NODE,     /* an entry leads to no inode; repair: the entry goes */
	STORE_NLINK,       /* link count is not the number of names; repair: set it */
	STORE_UNREACHABLE, /* an inode no entry leads to; repair: into /lost+found */
	STORE_SIZE,        /* size and content disagree; repair: cut or extend with zeros */
	STORE_UNIT_BAD,    /* a unit twice in use or beyond the extent file; repair: a hole */
	STORE_COUNTERS,    /* bytes, inodes or next_ino are wrong; repair: set them */
	STORE_CYCLE,       /* directories that contain each other; repair: into /lost+found */
	STORE_AUDIT_GAP,   /* audit sequence numbers are missing or out of order; no repair */
};

/* Verify every invariant of the rows, through all layers. Calls `fn` with each problem in words;
 * `repair` mends what is safe, in one transaction. The number of problems left, or an error. */
int store_check(struct store *store, bool repair,
		void (*fn)(void *arg, enum store_problem problem, const char *text, bool repaired),
		void *arg, struct err *err) MUST_USE;

#endif
