/* fuse_i.h - what the files of this module share. */
#ifndef FUSE_FUSE_I_H
#define FUSE_FUSE_I_H

#include "base/span.h"
#include "fuse/fuse.h"
#include "fuse/refs.h"
#include "fuse/wire.h"

#include <pthread.h>
#include <stdatomic.h>

#define FUSE_IO_MAX (1 << 20) /* bytes of one READ or WRITE */
#define FUSE_PAGES (FUSE_IO_MAX / 4096)
#define FUSE_TIMEOUT_S 3600   /* how long the kernel may cache; we tell it of changes */
#define FUSE_NOTICES_MAX 4096 /* waiting notifications; more become one "everything" */
#define FUSE_THREADS_MAX 256
#define FUSE_COPY_MAX (16 << 20) /* bytes one COPY_FILE_RANGE takes; the caller goes on */

/* Where a request's bytes are. `payload` is page-aligned, holds what follows `arg`, and takes the
 * answer: handlers are done with the one before they write the other. */
struct request {
	struct fuse *fuse;
	struct fuse_in_header header;
	const void *arg;  /* the operation's struct, 8-aligned; op_arg_size() bytes */
	struct span rest; /* what follows it */
	char *out;        /* FUSE_IO_MAX bytes for the answer */
	struct vfs_ctx ctx;
};

/* The handler of an operation: bytes of the answer in `out`, a negative errno, or NO_REPLY. */
#define NO_REPLY INT32_MIN

/* A change that the kernel has to be told of. */
struct notice {
	struct notice *next;
	enum vfs_event_kind kind;
	int64_t ino, parent, parent2;
	struct span name, name2; /* behind the struct, each with a NUL */
};

struct fuse {
	struct vfs *vfs;
	int fd; /* the connection */
	char *name, *backend, *exec;
	bool readonly, allow_other, write_through, xattrs;
	bool is_device; /* /dev/fuse, not a socket of a test */
	int threads;

	/* what INIT agreed on; `ready` comes last */
	atomic_bool agreed, ready;
	atomic_uint minor;
	atomic_bool setxattr_ext, writeback, uring_agreed;
	atomic_bool priming; /* the secret name of PRIME_INO is there */

	struct refs refs;
	atomic_uint_fast64_t requests[FUSE_OPCODES];

	/* serving threads and their end */
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t changed;
	int serving; /* threads still at it; the last one gives the kernel's references back */
	bool ended, stopping;
	int pulls; /* calls in fuse_pull() */

	struct plain *plain;
	struct uring *uring; /* NULL: not over io_uring */

	/* notifications */
	struct notice *notices, *notice_last;
	size_t notices_count;
	uint64_t notices_in, notices_out; /* ever queued, ever sent */
	bool reset_due;
	bool has_notifier;
	pthread_t notifier;
	pthread_cond_t noticed; /* something is queued */
	atomic_int adopter;     /* the hand: its SETATTRs only teach the kernel; 0: nobody */
	uint64_t watch;
	bool watching, pulling;

	/* mounting */
	pthread_mutex_t hand_lock; /* of the two below */
	int hand; /* socket of the process that touches our mount for us (adopt.c); -1: none */
	pid_t hand_pid;
	char *dir; /* where it is attached, absolute; NULL: nowhere that we know */
	dev_t dev; /* of its files */
};

/* ---- dispatch.c ---- */

/* How many bytes of a request are the operation's struct. */
size_t op_arg_size(const struct fuse *fuse, uint32_t opcode, size_t available);

/*
 * Serve one request. `header`, `arg` and `rest` are in place and nothing about them is trusted but
 * their lengths; arg_len is what there is. Bytes of the answer, a negative errno to answer with,
 * or NO_REPLY.
 */
int dispatch(struct request *request, size_t arg_len);

/* Split a message as read(2) gives it (8-aligned, `len` bytes), serve it, and fill in the header of
 * the answer. False: no answer. */
bool dispatch_message(struct request *request, const char *message, size_t len,
		      struct fuse_out_header *ret_out);

/* ---- helpers of handlers: reply.c ---- */

void fill_attr(const struct vfs_attr *attr, struct fuse_attr *ret_attr);
int reply_entry(struct request *request, const struct vfs_attr *attr);
void fill_entry(const struct vfs_attr *attr, struct fuse_entry_out *ret_entry);
int reply_attr(struct request *request, const struct vfs_attr *attr);

/* Take one NUL-terminated name off the front of `rest`: no '/', not "." or "..", not empty. */
int take_name(struct span *rest, struct span *ret_name) MUST_USE;
/* Any NUL-terminated string (a link's target). */
int take_string(struct span *rest, struct span *ret_string) MUST_USE;

/* A name in the root that only we ask for. Of no inode (PRIME_INO): the file that is opened once
 * after mounting, so that the kernel learns that we want no OPEN. Else of that inode, for adopt.c.
 */
#define SECRET_NAME 48
void secret_name(int64_t ino, char ret_name[SECRET_NAME]);
/* The inode of such a name, or 0. */
int64_t secret_ino(struct span name);
#define PRIME_INO INT64_MAX

/* ---- transports ---- */

/* One message at a time by read(2) and writev(2). With rings beside it, one thread is enough for
 * what they do not carry. */
int plain_start(struct fuse *fuse, int threads, struct err *err) MUST_USE;
void plain_stop(struct fuse *fuse); /* end the threads, wait for them; NULL allowed */

/* Make the rings: 0, or why there cannot be any. They serve once INIT agreed (uring_start). */
int uring_new(struct fuse *fuse, struct uring **ret_uring) MUST_USE;
void uring_start(struct uring *uring);
bool uring_works(const struct uring *uring); /* started, and no entry was refused */
void uring_stop(struct uring *uring);        /* NULL allowed */
void uring_free(struct uring *uring);        /* stopped; NULL allowed */
bool host_uring(bool *ret_known);

/* Called for each serving thread; the last one to end gives back what the kernel held. */
void serving_begin(struct fuse *fuse);
void serving_end(struct fuse *fuse);

/* ---- thread.c ---- */

int thread_start(pthread_t *ret_thread, void *(*run)(void *arg), void *arg) MUST_USE;
void thread_pin(int cpu);
int cpu_count(void); /* those we may run on */
int cpu_nth(int n);  /* the n-th of them, from 0, round and round */

/* ---- notify.c ---- */

int notify_start(struct fuse *fuse, struct err *err) MUST_USE;
void notify_stop(struct fuse *fuse);
/* The kernel forgets a name it knows. */
void notify_entry(struct fuse *fuse, int64_t parent, struct span name);

/* ---- adopt.c: making the kernel take over what it believes to know better ---- */

/* The kernel's size and times of a regular file become ours. Not from a serving thread. */
void adopt(struct fuse *fuse, int64_t ino);
/* Dirty pages of these files are written. -EPERM where that needs rights we lack. */
int adopt_flush(struct fuse *fuse, const int64_t *inos, size_t count) MUST_USE;
/* Every name nobody uses is dropped from the kernel's cache. */
void adopt_shrink(struct fuse *fuse);
/* Start the process that makes system calls on our own mount, and have it prime the kernel. `keep`:
 * it holds the root open, else it opens it where the mount is attached. */
void hand_start(struct fuse *fuse, int mount, bool keep);
void hand_stop(struct fuse *fuse); /* before the filesystem can go; none is allowed */

/* ---- fuse.c ---- */

/* Serve `fd`, which becomes the fuse's. */
int fuse_begin(struct vfs *vfs, int fd, bool is_device, const struct fuse_options *options,
	       struct fuse **ret_fuse, struct err *err) MUST_USE;

/* ---- mount.c ---- */

void mount_detach(struct fuse *fuse);
/* It is mounted at `path`. */
void fuse_adopt_dir(struct fuse *fuse, const char *path);

/* ---- fusermount.c ---- */

const char *fusermount_path(void); /* NULL: not installed */
int fusermount_mount(struct vfs *vfs, const char *dir, const struct fuse_options *options,
		     struct fuse **ret_fuse, struct err *err) MUST_USE;
int fusermount_umount(const char *dir, bool lazy, struct err *err) MUST_USE;

#endif
