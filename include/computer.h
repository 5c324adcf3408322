/* computer.h - a computer for an AI agent, as a C library.
 *
 * A workspace is one SQLite file: files that last, snapshots, forks, an audit, and a container that
 * sees the same live files. Link with -lcomputer (pkg-config computer). Only what is declared here
 * is exported.
 *
 * Functions answer 0 (or a count) or a negative errno; where a person will read the reason, pass a
 * struct computer_err. A struct computer may be used from one thread at a time. If another process
 * owns the workspace (a mount, a running exec), every call here works through that owner.
 */
#ifndef COMPUTER_H
#define COMPUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COMPUTER_API __attribute__((visibility("default")))

/* Why something failed. `text` is one line without a newline. */
struct computer_err {
	int code; /* positive errno */
	char text[256];
};

/* A workspace that is open. */
struct computer;

/* ---- life ---- */

enum computer_open_flag {
	COMPUTER_CREATE = 1 << 0, /* make it; with COMPUTER_EXCL it must not exist */
	COMPUTER_EXCL = 1 << 1,
	COMPUTER_READONLY = 1 << 2,
};

/* `workspace`: a name (kept under $COMPUTER_HOME or $XDG_DATA_HOME/computer), a path ending in
 * ".db", or either with "@SNAPSHOT" for a read-only look at one. */
COMPUTER_API int computer_open(const char *workspace, unsigned flags,
			       struct computer **ret_computer, struct computer_err *err);
/* Flushes; what was written is durable afterwards. NULL is allowed. */
COMPUTER_API int computer_close(struct computer *computer, struct computer_err *err);
COMPUTER_API int computer_remove(const char *workspace, struct computer_err *err);
COMPUTER_API int computer_rename(const char *from, const char *to, struct computer_err *err);

/* ---- files: paths are absolute or relative to the root, at most 4,096 bytes ---- */

struct computer_stat {
	int64_t ino;
	uint32_t mode, nlink, uid, gid;
	uint64_t rdev;
	int64_t size, blocks;
	int64_t atime, mtime, ctime, btime; /* ns since 1970 */
};

COMPUTER_API int computer_stat(struct computer *computer, const char *path, bool follow,
			       struct computer_stat *ret_stat);
/* The whole file, in memory the caller frees. `max`: -EFBIG beyond. */
COMPUTER_API int computer_read_file(struct computer *computer, const char *path, size_t max,
				    void **ret_bytes, size_t *ret_len);
/* Create or replace a file; readers see the old content or the new, never a part. */
COMPUTER_API int computer_write_file(struct computer *computer, const char *path, const void *bytes,
				     size_t len, uint32_t mode);
COMPUTER_API ssize_t computer_pread(struct computer *computer, const char *path, void *ret_bytes,
				    size_t len, int64_t offset);
COMPUTER_API ssize_t computer_pwrite(struct computer *computer, const char *path, const void *bytes,
				     size_t len, int64_t offset);
COMPUTER_API int computer_truncate(struct computer *computer, const char *path, int64_t size);
COMPUTER_API int computer_mkdir(struct computer *computer, const char *path, uint32_t mode,
				bool parents);
COMPUTER_API int computer_unlink(struct computer *computer, const char *path);
COMPUTER_API int computer_rmdir(struct computer *computer, const char *path);
/* With everything in it. A path that is not there is -ENOENT. */
COMPUTER_API int computer_remove_tree(struct computer *computer, const char *path);
COMPUTER_API int computer_rename_file(struct computer *computer, const char *from, const char *to);
COMPUTER_API int computer_link(struct computer *computer, const char *from, const char *to);
COMPUTER_API int computer_symlink(struct computer *computer, const char *target, const char *path);
COMPUTER_API ssize_t computer_readlink(struct computer *computer, const char *path,
				       char *ret_target, size_t size);
COMPUTER_API int computer_chmod(struct computer *computer, const char *path, uint32_t mode);
/* Every entry but "." and "..": stops when `fn` answers non-zero, and answers that. */
COMPUTER_API int
computer_list(struct computer *computer, const char *path,
	      int (*fn)(void *arg, const char *name, const struct computer_stat *stat), void *arg);
/* Everything done so far survives a power cut. */
COMPUTER_API int computer_sync(struct computer *computer);

/* ---- snapshots ---- */

struct computer_snapshot {
	char name[129];
	int64_t at;
	uint64_t bytes, inodes;
};

COMPUTER_API int computer_snapshot(struct computer *computer, const char *name,
				   struct computer_err *err);
COMPUTER_API int computer_snapshots(struct computer *computer,
				    int (*fn)(void *arg, const struct computer_snapshot *snapshot),
				    void *arg);
COMPUTER_API int computer_snapshot_remove(struct computer *computer, const char *name,
					  struct computer_err *err);
/* The files are those of the snapshot. What was there before is kept as snapshot `keep`, or lost
 * when `keep` is NULL. */
COMPUTER_API int computer_restore(struct computer *computer, const char *snapshot, const char *keep,
				  struct computer_err *err);
/* A new workspace with these files, at once and without copying. `snapshot` NULL: as it is now. */
COMPUTER_API int computer_fork(struct computer *computer, const char *snapshot,
			       const char *workspace, struct computer_err *err);

/* ---- the kernel's view ---- */

enum computer_mount_flag {
	COMPUTER_MOUNT_READONLY = 1 << 0,
	COMPUTER_MOUNT_ALLOW_OTHER = 1 << 1, /* every user; else only the one who mounts */
	/* How the kernel is served; without either, /dev/fuse. Over io_uring it is faster, but on
	 * Linux 6.18 programs on the mount can hang for good when its owner is killed. */
	COMPUTER_MOUNT_DEV = 1 << 2,   /* by read(2) and write(2) */
	COMPUTER_MOUNT_URING = 1 << 3, /* by io_uring, or fail with -EOPNOTSUPP */
	/* Extended attributes: else ENOTSUP, and a new file's first write is one request cheaper.
	 */
	COMPUTER_MOUNT_XATTRS = 1 << 4,
};

/* Mount the files at `dir` for as long as this process has the workspace open. */
COMPUTER_API int computer_mount(struct computer *computer, const char *dir, unsigned flags,
				struct computer_err *err);
COMPUTER_API int computer_umount(struct computer *computer, struct computer_err *err);

/* ---- running programs in a container ---- */

struct computer_exec {
	const char *const *argv;            /* ends with NULL */
	const char *const *envp;            /* NULL: a default one */
	const char *cwd;                    /* NULL: /workspace */
	int stdin_fd, stdout_fd, stderr_fd; /* borrowed; -1: /dev/null */
	int64_t timeout_ns;                 /* 0: none */
};

struct computer_result {
	int status; /* 0..255, as a shell reports it */
	int signal;
	bool timed_out;
};

COMPUTER_API int computer_exec(struct computer *computer, const struct computer_exec *exec,
			       struct computer_result *ret_result, struct computer_err *err);

COMPUTER_API const char *computer_version(void);

#ifdef __cplusplus
}
#endif

#endif
