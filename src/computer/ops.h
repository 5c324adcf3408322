/* ops.h - what the command line uses of a workspace beyond include/computer.h.
 *
 * Every function works alike whether this process owns the workspace or another one does: then the
 * call is carried to the owner's socket (docs/wire/owner.md). Brings sys/sys.h along: file commands
 * are written against computer_sys(). Nothing here is exported from libcomputer.so.
 */
#ifndef COMPUTER_OPS_H
#define COMPUTER_OPS_H

#include "base/err.h"
#include "base/span.h"
#include "computer.h"
#include "gate/gate.h"
#include "sys/sys.h"

#include <limits.h>

/* The public error is the internal one under another name: pass ours where the library wants its.
 */
_Static_assert(sizeof(struct err) == sizeof(struct computer_err), "same shape");
_Static_assert(offsetof(struct err, text) == offsetof(struct computer_err, text), "same shape");
static inline struct computer_err *err_api(struct err *err)
{
	return (struct computer_err *)(void *)err;
}

/* ---- registry: which workspaces there are, and where ---- */

#define WORKSPACE_NAME_MAX 64
#define WORKSPACE_SNAPSHOT_MAX 128

struct workspace {
	char name[NAME_MAX + 1]; /* as people say it; for a path: the file's name without ".db" */
	char path[PATH_MAX];     /* absolute, of the .db file */
	char snapshot[WORKSPACE_SNAPSHOT_MAX + 1]; /* after "@", or empty */
};

/* 1..64 of [A-Za-z0-9._-], not starting with "." or "-". -EINVAL: the text says what is expected.
 */
int workspace_name_check(const char *name, struct err *err) MUST_USE;
/* The same rule with up to 128 characters, for snapshots. */
int workspace_snapshot_check(const char *name, struct err *err) MUST_USE;

/* $COMPUTER_HOME, else $XDG_DATA_HOME/computer, else ~/.local/share/computer. -ENOENT: no home. */
int workspace_home(char ret_path[PATH_MAX], struct err *err) MUST_USE;

/* What "NAME", "PATH.db" or either with "@SNAPSHOT" means; whether it exists is not looked at. */
int workspace_resolve(const char *text, struct workspace *ret_workspace, struct err *err) MUST_USE;
bool workspace_exists(const struct workspace *workspace);

struct workspace_entry {
	struct workspace workspace;
	uint64_t disk_bytes; /* of the files beside each other, layers not counted */
	int64_t mtime;
	int64_t owner; /* pid of the process that has it open, 0: asleep */
};
/* Every workspace of the home in order of name; stops when `fn` answers non-zero, returns that. */
int workspace_each(int (*fn)(void *arg, const struct workspace_entry *entry), void *arg,
		   struct err *err) MUST_USE;

/* A new workspace from a workspace file (exported or not). -EEXIST; nothing is left on failure. */
int workspace_import(const char *file, const char *workspace, struct err *err) MUST_USE;

/* ---- an open workspace ---- */

/* As computer_open; `actor` is what the audit calls us ("cli"). */
int computer_open_as(const char *workspace, unsigned flags, const char *actor,
		     struct computer **ret_computer, struct err *err) MUST_USE;

const struct workspace *computer_workspace(const struct computer *computer);
/* True when this process has it open itself: what is mounted ends with us. */
bool computer_is_owner(const struct computer *computer);

/* Files. One struct sys per computer, valid until computer_close; of one thread, as computer is. */
struct sys *computer_sys(struct computer *computer);

struct computer_info {
	char id[33];
	int64_t created;
	uint64_t bytes, inodes;             /* in use */
	uint64_t quota_bytes, quota_inodes; /* 0: no limit */
	uint64_t disk_bytes;
	uint64_t audit_records;
	int64_t depth;    /* layers below the head */
	int64_t owner;    /* pid */
	uint64_t clients; /* other processes connected to the owner */
	uint64_t mounts;  /* attached in the host's tree */
	uint64_t execs;   /* running */
	bool container;   /* started */
	bool uring;       /* a mount is served through io_uring */
	uint64_t inodes_cached, inodes_dirty, bytes_cached, bytes_dirty, flushes, commits;
};
int computer_get_info(struct computer *computer, struct computer_info *ret_info,
		      struct err *err) MUST_USE;

/* 0 means no limit, or for memory and pids the container's default. */
struct computer_limits {
	uint64_t bytes, inodes;                     /* of the files: EDQUOT */
	uint64_t memory_max, pids_max, cpu_percent; /* of the container, from its next start */
};
int computer_get_limits(struct computer *computer, struct computer_limits *ret_limits,
			struct err *err) MUST_USE;
int computer_set_limits(struct computer *computer, const struct computer_limits *limits,
			struct err *err) MUST_USE;

/* Verify everything, audit included; `fn` gets each problem as one line. `ret_left`: not repaired.
 */
int computer_check(struct computer *computer, bool repair,
		   void (*fn)(void *arg, const char *text, bool repaired), void *arg,
		   uint64_t *ret_left, struct err *err) MUST_USE;

/* ---- differences ---- */

enum diff_kind { DIFF_ADDED, DIFF_CHANGED, DIFF_DELETED, DIFF_MODE, DIFF_RENAMED };

struct diff_entry {
	enum diff_kind kind;
	struct span path, old_path; /* old_path: of DIFF_RENAMED, else empty */
	uint32_t mode, old_mode;    /* 0 where there is none */
	int64_t size, old_size;
	uint64_t added, removed; /* lines, when asked for and not binary */
	bool binary;
	struct span patch; /* unified diff with its "---" and "+++", when asked for */
};

struct diff_options {
	const char *from; /* snapshot; NULL: the newest snapshot before `to` */
	const char *to;   /* snapshot; NULL: as it is now */
	bool stat;        /* count lines */
	bool patch;       /* and give the text; files over 8 MiB count as binary */
};
/* In order of path; the entry is borrowed. Stops when `fn` answers non-zero, and returns that. */
int computer_diff(struct computer *computer, const struct diff_options *options,
		  int (*fn)(void *arg, const struct diff_entry *entry), void *arg,
		  struct err *err) MUST_USE;

/* ---- in and out ---- */

struct port_progress {
	uint64_t files, bytes;
	struct span path; /* of the last one */
};
struct port_options {
	const char *path; /* where in the workspace; NULL: the root */
	/* NULL allowed; a non-zero answer ends it with -ECANCELED. */
	int (*progress)(void *arg, const struct port_progress *progress);
	void *arg;
	bool owner; /* keep uid and gid (else: of the one who imports, or who exports) */
};
struct port_result {
	uint64_t files, bytes;
	uint64_t skipped; /* sockets and the like; existing directories are not counted */
};
/* One portable .db file; it must not exist. */
int computer_export_db(struct computer *computer, const char *file, struct err *err) MUST_USE;
/* `filter`: NULL, "gzip", "zstd", "xz", "bzip2". pax format. */
int computer_export_tar(struct computer *computer, int fd, const char *filter,
			const struct port_options *options, struct port_result *ret_result,
			struct err *err) MUST_USE;
/* `dir` is made, or must be empty. */
int computer_export_dir(struct computer *computer, const char *dir,
			const struct port_options *options, struct port_result *ret_result,
			struct err *err) MUST_USE;
/* Any tar (or cpio, zip) libarchive knows, also compressed. Names cannot leave `path`. */
int computer_import_tar(struct computer *computer, int fd, const struct port_options *options,
			struct port_result *ret_result, struct err *err) MUST_USE;
int computer_import_dir(struct computer *computer, const char *dir,
			const struct port_options *options, struct port_result *ret_result,
			struct err *err) MUST_USE;

/* ---- audit ---- */

struct audit_entry {
	const struct gate_record *record; /* op: gate_op_name() */
	/* Where it happened as the audit itself tells, or empty: path2 is a rename's or link's. */
	struct span path, path2;
};
struct audit_options {
	uint64_t after; /* only records with a higher seq */
	bool follow;    /* wait for more until `fn` answers non-zero or cancel_fd is readable */
	int cancel_fd;  /* -1: none */
};
/* Oldest first; the entry is borrowed. Stops when `fn` answers non-zero, and returns that. */
int computer_audit(struct computer *computer, const struct audit_options *options,
		   int (*fn)(void *arg, const struct audit_entry *entry), void *arg,
		   struct err *err) MUST_USE;
/* -EUCLEAN: the text says which record does not fit. */
int computer_audit_verify(struct computer *computer, uint64_t *ret_records,
			  struct err *err) MUST_USE;

/* ---- the kernel's view ---- */

/* After computer_mount: until the mount is gone (0) or `cancel_fd` is readable (-ECANCELED). If the
 * owner was another process that ended, we become the owner and mount again. */
int computer_mount_wait(struct computer *computer, int cancel_fd, struct err *err) MUST_USE;

/* Unmount a directory, whichever process serves it; a dead mount is cleaned up. -EINVAL: not ours.
 */
int workspace_umount(const char *dir, struct err *err) MUST_USE;

/* ---- exec ---- */

/*
 * As computer_exec. Each byte read from `control_fd` (-1: none) is the number of a signal for the
 * command; its end kills everything. `ret_killed` (NULL allowed): ended because of us.
 */
int computer_exec_control(struct computer *computer, const struct computer_exec *exec,
			  int control_fd, struct computer_result *ret_result, bool *ret_killed,
			  struct err *err) MUST_USE;

/* ---- doctor ---- */

struct doctor {
	char kernel[65];
	char sqlite[16];
	char home[PATH_MAX];
	int home_error;     /* 0, or the errno that keeps us from writing there */
	uint64_t home_free; /* bytes */
	bool root;
	bool fuse_device;      /* /dev/fuse opens */
	bool fuse_uring;       /* FUSE over io_uring is enabled */
	bool fuse_uring_known; /* the kernel could */
	bool fusermount;       /* fusermount3 is installed */
	bool user_namespaces;
	bool seccomp;
	int cgroup; /* 0: no usable one, 1: v1, 2: v2 */
};
void workspace_doctor(struct doctor *ret_doctor);

#endif
