/* vfs.h - the filesystem of a workspace, in memory in front of its store.
 *
 * While a workspace is awake the inode cache is the truth. A change is made in memory under one
 * lock, asks the gate, is recorded, and marks rows dirty; a flusher thread writes all dirty rows in
 * one transaction every VFS_FLUSH_MS, and on fsync. What is on disk is therefore always a state
 * that existed. Every function may be called from any thread.
 *
 * Inode operations are those of a kernel filesystem and serve FUSE; path operations are sys/sys.h
 * through vfs_sys.h. Both end in the same functions (vfs_i.h).
 *
 * Standard: POSIX.1-2024 with Linux's additions (openat2(2), rename(2) flags, fallocate(2)).
 * Deviations: docs/posix.md.
 */
#ifndef VFS_VFS_H
#define VFS_VFS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "gate/gate.h"

#include <sys/types.h>

#define VFS_ROOT 1
#define VFS_FLUSH_MS 100
#define VFS_NAME_MAX 255
#define VFS_LINK_MAX 65000
#define VFS_SIZE_MAX ((int64_t)16 << 40) /* largest file, 16 TiB */
#define VFS_SYMLINKS_MAX 40
#define VFS_XATTR_VALUE_MAX 65536
#define VFS_XATTRS_MAX 65536 /* bytes of names and values of one inode */

struct vfs;
struct store;

/* Who asks; `who` goes to the gate. Supplementary groups are asked for only when they can matter:
 * `in_group` is NULL (none) or answers whether the asker is in `gid`. */
struct vfs_ctx {
	struct gate_who who;
	bool (*in_group)(const struct vfs_ctx *ctx, uint32_t gid);
	/* Permissions were checked already (by the kernel: default_permissions), or do not apply.
	 */
	bool trusted;
	/* The kernel cache the call came through (a struct fuse), or NULL: it is not told of its
	 * own changes and not asked to write back what it is just writing. */
	const void *source;
};

struct vfs_attr {
	int64_t ino;
	uint32_t mode, nlink, uid, gid;
	uint64_t rdev;
	int64_t size, blocks; /* of 512 bytes */
	int64_t atime, mtime, ctime, btime;
};

/* ---- life ---- */

struct vfs_options {
	bool readonly;
	uint64_t dirty_max; /* bytes of dirty content before writers wait; 0: 64 MiB */
	uint64_t cache_max; /* inodes kept in memory while clean; 0: 100,000 */
};

/* Takes the store over (also on failure). Starts the flusher, or not when read-only. */
int vfs_open_take(struct store *store, const struct vfs_options *options, struct vfs **ret_vfs,
		  struct err *err) MUST_USE;

/* Flush and close; the store too. A failed flush is reported. NULL is allowed. */
int vfs_close(struct vfs *vfs, struct err *err);

/* Everything done so far is in the database; `durable`: through a power cut. */
int vfs_flush(struct vfs *vfs, bool durable) MUST_USE;

/* Give back memory that is held only for speed: nobody has called for a while. */
void vfs_idle(struct vfs *vfs);

/* Run `fn` with all flushed, no flush under way and every other caller held off: for snapshots,
 * restore, check. It may use the store's [both] calls. */
int vfs_exclusive(struct vfs *vfs, int (*fn)(void *arg, struct store *store), void *arg) MUST_USE;

/* Forget everything cached: the store's head is another one now (restore, repair). Call inside
 * vfs_exclusive. Open handles and kernel inodes whose inode is gone answer ESTALE. */
void vfs_reset(struct vfs *vfs);

/* ---- what others see: kernel caches, watchers ---- */

enum vfs_event_kind {
	VFS_EVENT_CREATE,
	VFS_EVENT_MODIFY, /* content */
	VFS_EVENT_ATTR,
	VFS_EVENT_DELETE,
	VFS_EVENT_MOVE,  /* `parent`, `name` is where it was; parent2, name2 where it is */
	VFS_EVENT_RESET, /* everything may be different */
};

struct vfs_event {
	enum vfs_event_kind kind;
	int64_t ino, parent, parent2;
	struct span name, name2; /* borrowed for the call */
	const void *source;      /* of the vfs_ctx that made the change */
};

/*
 * `fn` is called after every change, under the vfs lock: it may only queue. `known_only`: only for
 * inodes that a kernel holds references to (vfs_lookup). 0 or -ENOSPC (VFS_WATCH_MAX).
 */
#define VFS_WATCH_MAX 1024
int vfs_watch(struct vfs *vfs, bool known_only,
	      void (*fn)(void *arg, const struct vfs_event *event), void *arg,
	      uint64_t *ret_id) MUST_USE;
void vfs_unwatch(struct vfs *vfs, uint64_t id);

/*
 * A kernel that writes back holds newer bytes than we do. Before a call from elsewhere (another
 * ctx.source) reads or changes content, size or times of a regular file to which the kernel holds
 * references, `pull` is called without the lock held: it makes the kernel write its dirty pages
 * of that inode and drop its cache, and returns when they arrived. One mount at a time per vfs.
 * NULL ends it.
 */
void vfs_set_pull(struct vfs *vfs, const void *source, void (*pull)(void *arg, int64_t ino),
		  void *arg);

/* Every regular file that a kernel holds references to (for a write-back of everything). */
size_t vfs_known_files(struct vfs *vfs, int64_t *ret_inos, size_t max);

/* ---- inode operations ---- */

/* Look a name up. Counts one reference that vfs_forget gives back. -ENOENT, -ENOTDIR, -EACCES. */
int vfs_lookup(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
	       struct vfs_attr *ret_attr) MUST_USE;
void vfs_forget(struct vfs *vfs, int64_t ino, uint64_t count);

int vfs_getattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino,
		struct vfs_attr *ret_attr) MUST_USE;

enum vfs_set {
	VFS_SET_MODE = 1 << 0,
	VFS_SET_UID = 1 << 1,
	VFS_SET_GID = 1 << 2,
	VFS_SET_SIZE = 1 << 3,
	VFS_SET_ATIME = 1 << 4,
	VFS_SET_MTIME = 1 << 5,
	VFS_SET_CTIME = 1 << 6, /* the kernel's own, when it writes back */
	VFS_SET_ATIME_NOW = 1 << 7,
	VFS_SET_MTIME_NOW = 1 << 8,
	VFS_SET_KILLPRIV = 1 << 9, /* with SIZE or UID: drop setuid, setgid */
	VFS_SET_QUIET = 1 << 10,   /* bookkeeping of a cache: neither asked nor recorded */
	VFS_SET_HANDLE =
		1 << 11, /* through a descriptor open for writing: SIZE needs no permission */
};

int vfs_setattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, unsigned set,
		const struct vfs_attr *attr, struct vfs_attr *ret_attr) MUST_USE;

/* Make a regular file, counts a reference. `flags`: O_EXCL, O_TRUNC. An existing one is opened. */
int vfs_create(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
	       uint32_t mode, int flags, struct vfs_attr *ret_attr) MUST_USE;
/* A file without a name, until vfs_link gives it one (O_TMPFILE). Counts a reference. */
int vfs_tmpfile(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, uint32_t mode,
		struct vfs_attr *ret_attr) MUST_USE;
int vfs_mknod(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
	      uint32_t mode, uint64_t rdev, struct vfs_attr *ret_attr) MUST_USE;
int vfs_mkdir(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
	      uint32_t mode, struct vfs_attr *ret_attr) MUST_USE;
int vfs_symlink(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
		struct span target, struct vfs_attr *ret_attr) MUST_USE;
int vfs_link(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t parent,
	     struct span name, struct vfs_attr *ret_attr) MUST_USE;
int vfs_readlink(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino,
		 struct buf *target) MUST_USE;
int vfs_unlink(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent,
	       struct span name) MUST_USE;
int vfs_rmdir(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent,
	      struct span name) MUST_USE;
/* `flags`: RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT. */
int vfs_rename(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t parent, struct span name,
	       int64_t parent2, struct span name2, unsigned flags) MUST_USE;

/* Opening keeps an unlinked inode alive until the matching release. `flags`: O_ACCMODE, O_TRUNC. */
int vfs_open(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int flags) MUST_USE;
void vfs_release(struct vfs *vfs, int64_t ino);

/* Bytes. Permissions were checked at open. The count; reads stop at the end of the file. */
ssize_t vfs_read(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t offset,
		 void *ret_bytes, size_t len) MUST_USE;
/* `append`: at the end, wherever that is. -EFBIG, -EDQUOT, -ENOSPC with nothing written. */
enum vfs_write_flag {
	VFS_WRITE_APPEND = 1 << 0,
	VFS_WRITE_KILLPRIV = 1 << 1, /* drop setuid and setgid */
	VFS_WRITE_CACHE = 1 << 2,    /* a kernel writing back: times are the kernel's to set */
};
ssize_t vfs_write(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t offset,
		  const void *bytes, size_t len, unsigned flags) MUST_USE;
int vfs_fallocate(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int mode, int64_t offset,
		  int64_t len) MUST_USE;
/* SEEK_DATA and SEEK_HOLE. -ENXIO. */
int64_t vfs_lseek(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t offset,
		  int whence) MUST_USE;
ssize_t vfs_copy(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int64_t offset,
		 int64_t ino2, int64_t offset2, int64_t len) MUST_USE;
/* This file, and all before it, is durable. Concurrent calls share one commit. */
int vfs_fsync(struct vfs *vfs, int64_t ino, bool data_only) MUST_USE;

/*
 * Entries after `cookie` (0: from the start), "." and ".." first. Cookies are stable: an entry that
 * stays is seen exactly once by a full walk, whatever comes and goes meanwhile. `fn` answers 0 to
 * go on, 1 when it is full (the entry was not taken). With `plus` each entry's reference is
 * counted as by vfs_lookup unless `fn` answers 1; "." and ".." never are.
 */
struct vfs_entry {
	struct span name;
	uint64_t cookie;
	struct vfs_attr attr; /* without `plus`: ino and the type in mode only */
};
int vfs_readdir(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, uint64_t cookie, bool plus,
		int (*fn)(void *arg, const struct vfs_entry *entry), void *arg) MUST_USE;

int vfs_access(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int mask) MUST_USE;

struct vfs_statfs {
	uint64_t bytes, bytes_free, inodes, inodes_free;
};
int vfs_statfs(struct vfs *vfs, struct vfs_statfs *ret_statfs) MUST_USE;

/* -ENODATA, -ERANGE (ret_len 0 asks for the size), -ENOTSUP (namespace), -EEXIST. */
int vfs_getxattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, struct span name,
		 struct buf *value) MUST_USE;
int vfs_setxattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, struct span name,
		 struct span value, int flags) MUST_USE;
int vfs_listxattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino,
		  struct buf *names) MUST_USE;
int vfs_removexattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino,
		    struct span name) MUST_USE;

/* ---- locks of open files: POSIX records (fcntl) and whole files (flock) ---- */

struct vfs_lock {
	int type; /* F_RDLCK, F_WRLCK, F_UNLCK */
	bool flock;
	int64_t start, end; /* inclusive; end INT64_MAX: to the end */
	uint64_t owner;
	int32_t pid;
};
/* 0, or -EAGAIN with the lock in the way in `ret_other` (NULL allowed). Never waits. */
int vfs_lock_set(struct vfs *vfs, int64_t ino, const struct vfs_lock *lock,
		 struct vfs_lock *ret_other) MUST_USE;
/* The first lock that would be in the way, or type F_UNLCK. */
int vfs_lock_get(struct vfs *vfs, int64_t ino, const struct vfs_lock *lock,
		 struct vfs_lock *ret_other) MUST_USE;
/* `fn` is called (under the vfs lock) whenever a lock goes: try waiting ones again. */
void vfs_lock_on_change(struct vfs *vfs, void (*fn)(void *arg, int64_t ino), void *arg);

/* ---- numbers ---- */

struct vfs_stats {
	uint64_t inodes_cached, inodes_dirty, bytes_dirty, bytes_cached;
	uint64_t flushes, commits, rows;
	uint64_t bytes, inodes, quota_bytes, quota_inodes;
};
void vfs_get_stats(struct vfs *vfs, struct vfs_stats *ret_stats);
int vfs_set_quota(struct vfs *vfs, uint64_t bytes, uint64_t inodes) MUST_USE;

/* Record something that is not a file operation (exec, mount, snapshot), durably with the next
 * flush. */
void vfs_record(struct vfs *vfs, const struct gate_record *record);

#endif
