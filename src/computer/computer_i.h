/* computer_i.h - an open workspace: the owner's side, a caller's side, and what lies between.
 *
 *   struct computer   what a caller holds; works on a view of its own owner (local) or through a
 *                     client, a connection to another process's owner (remote)
 *   struct owner      a workspace this process has open: lock, store, vfs, socket, container
 *   struct view       files of an owner: those of the head, or of a snapshot
 *   struct call       one operation at an owner (ops.def), from a caller here or from a connection
 *
 * Locks, outer first: view.mount_lock, owner.lock. Neither is held while a vfs call may wait for
 * a kernel's answer, except mount_lock for reading (view_notified) and while mounting.
 */
#ifndef COMPUTER_COMPUTER_I_H
#define COMPUTER_COMPUTER_I_H

#include "base/buf.h"
#include "base/list.h"
#include "computer/ops.h"
#include "fuse/fuse.h"
#include "store/lock.h"
#include "vfs/vfs.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

struct container;
struct store;

/* ---- view.c: files of an owner ---- */

struct view {
	struct owner *owner;
	struct list link;                          /* owner.views */
	char snapshot[WORKSPACE_SNAPSHOT_MAX + 1]; /* empty: the head */
	unsigned refs;                             /* under owner.lock */
	struct vfs *vfs;

	pthread_rwlock_t mount_lock;
	struct list mounts;    /* struct mount, attached in the host's tree */
	atomic_uint fuses;     /* how many struct fuse serve this view */
	struct fuse *shared;   /* attached nowhere itself; mounts are copies of it, or NULL */
	int shared_fd;         /* its mount */
	unsigned shared_flags; /* SHARED_FLAGS of mount.c: what it was made with */
	bool shared_busy;      /* the container stands on it */
	char *shared_dir;      /* where it had to be attached (fusermount), or NULL */
};

/* The view of a snapshot ("": the head), counted. -ENOENT. */
int view_get(struct owner *owner, const char *snapshot, struct view **ret_view,
	     struct err *err) MUST_USE;
void view_put(struct view *view);

/* Its files for one caller; `who`'s strings must outlive it. A read-only one answers -EROFS. */
struct sys *view_sys(struct view *view, const struct gate_who *who, bool readonly);

/* ---- mount.c ---- */

int view_mount(struct view *view, const char *dir, unsigned flags, struct err *err) MUST_USE;
int view_umount(struct view *view, struct err *err) MUST_USE;
size_t view_mount_count(struct view *view);
bool view_uring(struct view *view);
/* Forget mounts that are gone, stop serving what nobody uses. */
void view_reap(struct view *view);
/* Everything a kernel holds back is in the vfs. */
int view_writeback(struct view *view) MUST_USE;
/* Every mounted program sees what was changed so far. */
void view_notified(struct view *view);
/* A mount for the container, owned by the caller; until view_container_end. */
int view_container_mount(struct view *view, int *ret_fd, struct err *err) MUST_USE;
void view_container_end(struct view *view);
/* Unmount everything and stop serving. */
void view_unmount_all(struct view *view);

/* ---- owner.c: a workspace this process has open ---- */

struct owner {
	struct workspace workspace;
	struct store_lock lock_file;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a connection ended, an exec ended */
	struct view *head;
	struct list views;
	uint64_t last_commits; /* host thread: seen at the last tick */
	struct store *store;   /* of the head; for store_prepare_merge only */
	bool merging;          /* there is a thread `merger` to be joined */
	atomic_bool merge_stop, merge_done;
	pthread_t merger;

	/* serve.c */
	int listener; /* -1: nobody is served */
	int wake;     /* eventfd: the host thread shall look */
	bool threaded;
	pthread_t thread;
	struct list conns;
	unsigned conn_count;
	char socket[108];

	/* exec.c */
	pthread_mutex_t container_lock;
	struct container *container;
	unsigned execs; /* under `lock` */
	int64_t idle_since;
};

enum { OWNER_CREATE = 1 << 0, OWNER_EXCL = 1 << 1 };
/* -EBUSY: another process has it; `ret_other` says who. */
int owner_open(const struct workspace *workspace, unsigned flags, struct owner **ret_owner,
	       struct store_owner *ret_other, struct err *err) MUST_USE;
/* Ends what callers do, flushes, lets go. */
int owner_close(struct owner *owner, struct err *err);

/* Make the folder of a new workspace, and those above. */
int workspace_make_folders(const struct workspace *workspace, struct err *err) MUST_USE;
/* The lock's file goes with the workspace, while it is still held. */
void workspace_unlink_lock(const struct workspace *workspace);

/* Run `fn` with kernels written back and everybody held off (vfs_exclusive). */
int owner_exclusive(struct owner *owner, int (*fn)(void *arg, struct store *store),
		    void *arg) MUST_USE;

/* ---- serve.c: the owner's socket ---- */

/* Begin to serve; without a place for a socket the owner serves nobody. */
void serve_start(struct owner *owner);
/* Let every caller finish what it asked for, then end. */
void serve_stop(struct owner *owner);

/* ---- call.c: operations ---- */

struct call {
	struct owner *owner;
	struct view *view;
	const struct gate_who *who;
	bool readonly;
	json_t *args;
	const int *fds;
	size_t fd_count;
	int control_fd; /* -1, or: bytes are signals, the end means to stop */
	/* Tell the caller something before the answer. Non-zero: it wants no more. */
	int (*event)(struct call *call, json_t *head, struct span tail);
	void *event_arg;
	json_t *reply; /* an object to fill in */
	struct err *err;
};

typedef int call_handler(struct call *call);

enum call_flag {
	CALL_CONTROL = 1 << 0, /* it waits: needs control_fd */
	CALL_CHANGES = 1 << 1, /* refused on a read-only handle */
	CALL_HEAD = 1 << 2,    /* refused on a snapshot's view */
};

struct call_row {
	const char *name;
	call_handler *run;
	unsigned flags;
};
const struct call_row *call_find(const char *name);

/* Check what the row says, and run it. */
int call_run(const struct call_row *row, struct call *call) MUST_USE;

/* -EINVAL: arguments are not what the operation takes. */
int call_bad(struct call *call, const json_error_t *error);
/* Send an event; gives `head` up. */
int call_event_take(struct call *call, json_t *head, struct span tail) MUST_USE;
/* Record an operation that is not one on a file. */
void call_record(struct call *call, enum gate_op op, const char *name, const char *name2,
		 const char *exec);
/* True once the caller does not want the answer any more; waits up to `ms` for that. */
bool call_wait_stop(struct call *call, int ms);

#define OP(name, flags) call_handler op_##name;
#include "computer/ops.def"
#undef OP

/* ---- json.c: bytes and numbers in JSON ---- */

/* A string where the bytes are UTF-8 without NUL, else {"hex": ...}. */
json_t *json_bytes(struct span bytes);
/* 0, or -EPROTO. */
int json_get_bytes(const json_t *value, struct buf *bytes) MUST_USE;
int64_t json_get_int(const json_t *object, const char *key);
bool json_get_bool(const json_t *object, const char *key);
const char *json_get_text(const json_t *object, const char *key); /* "" when there is none */

/* ---- frame.c: messages on the socket (docs/wire/owner.md) ---- */

#define FRAME_HEADER 8
#define FRAME_FDS_MAX 3
#define FRAME_REQUEST_MAX (4 << 20)
#define FRAME_REPLY_MAX (64 << 20)

enum frame_type {
	FRAME_HELLO = 1,   /* both ways: JSON */
	FRAME_SYS = 2,     /* a request, or its reply: docs/wire/sys.md */
	FRAME_CALL = 3,    /* JSON {"op":, "args":}; with descriptors */
	FRAME_CONTROL = 4, /* signals, a byte each; empty: stop */
	FRAME_EVENT = 5,   /* length of a JSON text (4), it, bytes */
	FRAME_REPLY = 6,   /* JSON, with "error" on failure */
};

struct frame {
	enum frame_type type;
	struct buf payload;
	int fds[FRAME_FDS_MAX];
	size_t fd_count;
};
#define FRAME_INIT(limit) ((struct frame){.payload = BUF_INIT(limit)})
void frame_clear(struct frame *frame);
/* 0; -EPIPE and the like: the other end is gone, and did not get all of it. */
int frame_send(int socket, enum frame_type type, struct span head, struct span tail, const int *fds,
	       size_t fd_count) MUST_USE;
int frame_send_json(int socket, enum frame_type type, const json_t *json, const int *fds,
		    size_t fd_count) MUST_USE;
/* The next frame, replacing what is in `frame`. 1; 0 at the end; -EMSGSIZE, -EPROTO. */
int frame_recv(int socket, struct frame *frame) MUST_USE;
/* The payload as a JSON object, or NULL. */
json_t *frame_json(const struct frame *frame);

/* ---- client.c: a connection to another process's owner ---- */

struct client;

/* -ECONNREFUSED: nobody is there (any more); other failures are the owner's own. */
int client_connect(const struct store_owner *other, const struct workspace *workspace,
		   const char *actor, bool readonly, struct client **ret_client,
		   struct err *err) MUST_USE;
void client_free(struct client *client);
/* -EPIPE: the owner is gone and did not see the request. -ECONNRESET: it may have. */
int64_t client_sys(struct client *client, const struct sys_req *req, struct buf *out);
struct call_request {
	const char *op;
	json_t *args; /* given up */
	const int *fds;
	size_t fd_count;
	int control_fd;
	int (*event)(void *arg, const json_t *head, struct span tail);
	void *arg;
};
int client_call(struct client *client, const struct call_request *request, json_t **ret_reply,
		struct err *err) MUST_USE;
/* Did the last operation get anything from its control_fd? */
bool client_stopped(const struct client *client);

/* ---- open.c: what a caller holds ---- */

struct computer {
	struct sys sys; /* what computer_sys answers: to the view or the client, whichever it is */
	struct workspace workspace;
	bool readonly;
	char actor[33];
	struct gate_who who;
	struct owner *owner; /* local, or NULL */
	struct view *view;
	struct sys *files;
	struct client *client; /* remote, or NULL */
	unsigned fds;          /* open descriptors: they would not survive another owner */
	char *mount_dir;       /* of the last computer_mount, made again if its owner ends */
	unsigned mount_flags;
};

/* Run an operation, here or at the owner. `ret_reply` NULL: not wanted. */
int computer_call(struct computer *computer, const struct call_request *request, json_t **ret_reply,
		  struct err *err) MUST_USE;
/* The common case: no descriptors, no events. Gives `args` up. */
int computer_ask_take(struct computer *computer, const char *op, json_t *args, json_t **ret_reply,
		      struct err *err) MUST_USE;

/* An absolute form of a host path, for another process: 0, or -ENAMETOOLONG. */
int path_for_owner(const char *path, char ret_path[PATH_MAX], struct err *err) MUST_USE;

/* ---- lines.c: differences of texts ---- */

struct lines_result {
	uint64_t added, removed;
};
/* Compare two texts by lines; append hunks (without file names) to `patch` unless it is NULL. */
int lines_diff(struct span old, struct span new, struct buf *patch,
	       struct lines_result *ret_result) MUST_USE;

#endif
