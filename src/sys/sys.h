/* sys.h - the calls a guest program may make on its computer: the narrow waist.
 *
 * Shell, commands, JavaScript and git are written against this alone. vfs implements it directly
 * (vfs/vfs_sys.h); the owner's socket and, later, an isolate's ring carry the same requests. One
 * shape serves every call, so carrying one needs no knowledge of it: up to five numbers and three
 * byte strings in, a number and bytes out. The typed wrappers below are what callers use.
 */
#ifndef SYS_SYS_H
#define SYS_SYS_H

#include "base/buf.h"
#include "base/span.h"

#include <sys/types.h>

#define SYS_CWD (-100) /* in place of a descriptor: the root */
#define SYS_PATH_MAX 4096
#define SYS_NAME_MAX 255
#define SYS_IO_MAX (1 << 20) /* bytes in one read, write or batch */
#define SYS_XATTR_MAX 65536
#define SYS_NOW INT64_MIN
#define SYS_OMIT (INT64_MIN + 1)

enum sys_call {
#define CALL(name, number, right, args, in, max_out) SYS_##name = (number),
#include "sys/calls.def"
#undef CALL
};

enum sys_right { SYS_RIGHT_NONE, SYS_RIGHT_OPEN, SYS_RIGHT_READ, SYS_RIGHT_WRITE };

/* A request. Nothing in it is trusted; `in` is borrowed for the call. */
struct sys_req {
	uint32_t call;
	int64_t a[5];
	struct span in[3];
};

struct sys_stat {
	int64_t ino;
	uint32_t mode, nlink, uid, gid;
	uint64_t rdev;
	int64_t size, blocks;               /* of 512 bytes */
	int64_t atime, mtime, ctime, btime; /* ns since 1970 */
};

struct sys_statfs {
	uint64_t bytes, bytes_free;   /* the quota or the host's disk, whichever is less */
	uint64_t inodes, inodes_free; /* 0 inodes: no limit */
};

/* One entry of SYS_readdir: this, then the name, then zeros to a multiple of 8. */
struct sys_dirent {
	int64_t cookie; /* give it back to go on after this entry */
	uint32_t name_len;
	uint32_t has_stat; /* 0: only ino and the type in mode are set ("." and "..") */
	struct sys_stat stat;
};

/* What a call needs, by number. NULL for a number that is none. */
struct sys_call_info {
	const char *name;
	enum sys_right right;
	int args, in;
	size_t max_out;
};
const struct sys_call_info *sys_call_info(uint32_t call);

/* Check a request's shape: -ENOSYS, -EINVAL (a path with NUL), -ENAMETOOLONG, -E2BIG. */
int sys_req_check(const struct sys_req *req) MUST_USE;

/*
 * The thing called. `call` answers the number (>= 0 or a negative errno) and appends bytes to
 * `out`, whose `max` it respects (SYS_batch ends before the request whose reply does not fit);
 * `out` is untouched on failure and may be NULL for calls without bytes. Not safe against
 * concurrent use of one `struct sys`.
 */
struct sys {
	const struct sys_ops *ops;
};
struct sys_ops {
	int64_t (*call)(struct sys *sys, const struct sys_req *req, struct buf *out);
	void (*free)(struct sys *sys); /* closes every descriptor */
};

/* Checks the request (sys_req_check), then calls. */
int64_t sys_call(struct sys *sys, const struct sys_req *req, struct buf *out);
void sys_free(struct sys *sys);

/* ---- the wire form of a request or a reply: docs/wire/sys.md ---- */

/* Append. 0 or -EFBIG. */
int sys_req_encode(const struct sys_req *req, struct buf *out) MUST_USE;
int sys_rep_encode(int64_t r, struct span bytes, struct buf *out) MUST_USE;
/* Decode from the front of *wire, which moves past it. Spans point into it. -EPROTO. */
int sys_req_decode(struct span *wire, struct sys_req *ret_req) MUST_USE;
int sys_rep_decode(struct span *wire, int64_t *ret_r, struct span *ret_bytes) MUST_USE;

/* ---- batches: many requests in one (SYS_batch): encoded requests in, encoded replies out ---- */

#define SYS_BATCH_STOP 1 /* end at the first failure; later ones are not answered */
/* In a batch, a descriptor of SYS_LAST is the one the last open of the batch answered. */
#define SYS_LAST (-101)

/*
 * Requests collected into batches: sys_batch_add sends what is there when the next one does not
 * fit, sys_batch_run sends the rest. `done` (NULL allowed) gets every answer in the order of the
 * adds, numbered from 0; when it answers non-zero the requests not answered yet are forgotten and
 * the value is returned. With SYS_BATCH_STOP a failed request ends its batch, not those added
 * later. A single request that fills a batch is -EFBIG: call it directly. One whose answer does not
 * fit behind the earlier ones is asked for again, so SYS_LAST is for requests with small answers.
 */
struct sys_batch {
	struct sys *sys;
	int flags; /* SYS_BATCH_* */
	int (*done)(void *arg, uint32_t index, int64_t r, struct span bytes);
	void *arg;
	struct buf requests;
	uint32_t count, first;
};
#define SYS_BATCH_INIT(of) ((struct sys_batch){.sys = (of), .requests = BUF_INIT(SYS_IO_MAX)})
int sys_batch_add(struct sys_batch *batch, const struct sys_req *req) MUST_USE;
int sys_batch_run(struct sys_batch *batch) MUST_USE;
/* Forget what was not sent; for CLEANUP. */
void sys_batch_clear(struct sys_batch *batch);

/* ---- typed wrappers ---- */

struct sys_entry { /* of sys_each_entry */
	struct span name;
	const struct sys_stat *stat;
};

int sys_open(struct sys *sys, int dir, struct span path, int flags, uint32_t mode) MUST_USE;
int sys_close(struct sys *sys, int fd);
ssize_t sys_read(struct sys *sys, int fd, size_t len, int64_t offset, struct buf *out) MUST_USE;
ssize_t sys_write(struct sys *sys, int fd, struct span bytes, int64_t offset) MUST_USE;
int64_t sys_lseek(struct sys *sys, int fd, int64_t offset, int whence) MUST_USE;
int sys_stat(struct sys *sys, int dir, struct span path, int flags,
	     struct sys_stat *ret_stat) MUST_USE;
int sys_fstat(struct sys *sys, int fd, struct sys_stat *ret_stat) MUST_USE;
/* Every entry but "." and "..", until `fn` answers non-zero, which is returned. */
int sys_each_entry(struct sys *sys, int fd, int (*fn)(void *arg, const struct sys_entry *entry),
		   void *arg) MUST_USE;
int sys_readlink(struct sys *sys, int dir, struct span path, struct buf *target) MUST_USE;
int sys_mkdir(struct sys *sys, int dir, struct span path, uint32_t mode) MUST_USE;
int sys_mknod(struct sys *sys, int dir, struct span path, uint32_t mode, uint64_t rdev) MUST_USE;
int sys_unlink(struct sys *sys, int dir, struct span path, int flags) MUST_USE;
int sys_rename(struct sys *sys, int dir, struct span path, int dir2, struct span path2,
	       unsigned flags) MUST_USE;
int sys_link(struct sys *sys, int dir, struct span path, int dir2, struct span path2,
	     int flags) MUST_USE;
int sys_symlink(struct sys *sys, int dir, struct span path, struct span target) MUST_USE;
int sys_chmod(struct sys *sys, int dir, struct span path, uint32_t mode, int flags) MUST_USE;
int sys_chown(struct sys *sys, int dir, struct span path, int64_t uid, int64_t gid,
	      int flags) MUST_USE;
int sys_utimens(struct sys *sys, int dir, struct span path, int64_t atime, int64_t mtime,
		int flags) MUST_USE;
int sys_truncate(struct sys *sys, int dir, struct span path, int64_t size, int flags) MUST_USE;
int sys_fallocate(struct sys *sys, int fd, int mode, int64_t offset, int64_t len) MUST_USE;
int sys_fsync(struct sys *sys, int fd, bool data_only) MUST_USE;
int sys_access(struct sys *sys, int dir, struct span path, int mode, int flags) MUST_USE;
int sys_realpath(struct sys *sys, int dir, struct span path, struct buf *ret_path) MUST_USE;
int sys_statfs(struct sys *sys, struct sys_statfs *ret_statfs) MUST_USE;
int sys_getxattr(struct sys *sys, int dir, struct span path, struct span name, int flags,
		 struct buf *value) MUST_USE;
int sys_setxattr(struct sys *sys, int dir, struct span path, struct span name, struct span value,
		 int xflags, int flags) MUST_USE;
int sys_listxattr(struct sys *sys, int dir, struct span path, int flags,
		  struct buf *names) MUST_USE;
int sys_rmxattr(struct sys *sys, int dir, struct span path, struct span name, int flags) MUST_USE;
int sys_flock(struct sys *sys, int fd, int operation) MUST_USE;
/* Attributes and up to `len` bytes of content from `offset`, in one call. The count of bytes. */
ssize_t sys_readfile(struct sys *sys, int dir, struct span path, int64_t offset, size_t len,
		     struct sys_stat *ret_stat, struct buf *content) MUST_USE;
/* Create or replace a whole file in one call, atomically (at most SYS_IO_MAX). */
int sys_writefile(struct sys *sys, int dir, struct span path, int flags, uint32_t mode,
		  int64_t mtime, struct span bytes) MUST_USE;
ssize_t sys_copy(struct sys *sys, int fd, int64_t offset, int fd2, int64_t offset2,
		 int64_t len) MUST_USE;

#endif
