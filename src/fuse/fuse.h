/* fuse.h - a workspace's filesystem served to the kernel over /dev/fuse.
 *
 * The kernel's own wire protocol, no library in between (fuse/wire.h, docs/wire/fuse.md): over
 * io_uring with a queue per CPU where the host allows it (kernel 6.14+, module parameter
 * enable_uring), else by read(2) and write(2) with a thread that follows the client's CPU.
 */
#ifndef FUSE_FUSE_H
#define FUSE_FUSE_H

#include "base/err.h"
#include "vfs/vfs.h"

struct fuse;

/* FUSE_AUTO is FUSE_DEV: Linux 6.18 can lose requests of a ring whose server is killed, and who
 * waits for them hangs for good (docs/decisions/0005-io-uring-by-request.md). */
enum fuse_transport { FUSE_AUTO, FUSE_DEV, FUSE_URING };

struct fuse_options {
	const char *name;    /* the mount's source in /proc/mounts: the workspace's name */
	const char *backend; /* goes to the gate: "mount", "container" */
	const char *exec;    /* "" or an exec's id */
	bool readonly;
	bool allow_other; /* every uid; else only the mounting one. Permissions by the kernel */
	/* Every write arrives at once. Needed for a second mount of the same vfs: only one may hold
	 * newer bytes than the vfs (vfs_set_pull). */
	bool write_through;
	/* Extended attributes. Without (ENOTSUP) a new file's first write costs one request less:
	 * the kernel asks for security.capability. An overlay's upper layer needs them. */
	bool xattrs;
	enum fuse_transport transport; /* FUSE_URING fails where it cannot be had */
	int threads;                   /* 0: one per CPU */
};

/*
 * A mount that is not attached anywhere: serve it, and hand the descriptor to a container, which
 * attaches it with move_mount(2). Its root is kept open until fuse_stop, so it lives until then
 * (and umount(2) without MNT_DETACH says EBUSY). As root (or with the right to mount in a user
 * namespace). -EPERM, -ENOENT (no /dev/fuse): the text says what to do.
 */
int fuse_start(struct vfs *vfs, const struct fuse_options *options, struct fuse **ret_fuse,
	       int *ret_mount_fd, struct err *err) MUST_USE;

/* Mount at `dir` and serve: as root, or through fusermount3. */
int fuse_mount(struct vfs *vfs, const char *dir, const struct fuse_options *options,
	       struct fuse **ret_fuse, struct err *err) MUST_USE;

/* Serve a connection that exists: tests and the fuzzer give one end of a socketpair. */
int fuse_serve_fd(struct vfs *vfs, int fd, const struct fuse_options *options,
		  struct fuse **ret_fuse, struct err *err) MUST_USE;

/* Wait until the kernel ended the connection (umount). `timeout_ms` -1: forever. 0 or -ETIMEDOUT.
 */
int fuse_wait(struct fuse *fuse, int timeout_ms) MUST_USE;

/* Every dirty page the kernel holds is written to us. Call before snapshots and other reads. Not
 * from within the vfs's locks, and never on a thread that serves. */
int fuse_writeback(struct fuse *fuse) MUST_USE;

/* Wait until the kernel was told of every change made so far by others than itself: call it after
 * such a change and before saying that it is done, so that mounted programs see it. Same places as
 * fuse_writeback. */
void fuse_notified(struct fuse *fuse);

/* Unmount (lazily) if still mounted, stop serving, free. NULL is allowed. */
void fuse_stop(struct fuse *fuse);

struct fuse_stats {
	bool uring;
	uint64_t requests[64]; /* by opcode, FUSE_* of wire.h */
};
void fuse_get_stats(struct fuse *fuse, struct fuse_stats *ret_stats);

/* What the host offers, for `computer doctor`. */
struct fuse_host {
	bool device;      /* /dev/fuse opens */
	bool uring;       /* enable_uring is Y */
	bool uring_known; /* the kernel knows the parameter */
	bool fusermount;  /* fusermount3 is installed */
};
void fuse_get_host(struct fuse_host *ret_host);

/* A mount point whose server died answers ENOTCONN: detach it. 0, -EINVAL when it is none. */
int fuse_clean(const char *dir, struct err *err) MUST_USE;
/* Unmount `dir` properly. */
int fuse_umount(const char *dir, struct err *err) MUST_USE;

#endif
