/* serve.c - the owner's socket: everything a peer sends is hostile. docs/wire/owner.md. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "computer/view_i.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256
#define HELLO_SECONDS 10
#define DRAIN_SECONDS 5
#define CONTROL_MAX 4096
#define STACK_BYTES (512 << 10)

struct conn {
	struct list link;
	struct owner *owner;
	int fd;
	char actor[33];
	struct gate_who who;
	bool readonly;
	struct view *view;
	struct sys *sys;
};

/* ---- answers ---- */

static json_t *error_json(int r, const struct err *err)
{
	return json_pack("{s:{s:i,s:s,s:o}}", "error", "code", -r, "name", text_errno(r), "text",
			 json_bytes(span_str(err->code ? err->text : strerror(-r))));
}

static int answer_error(int fd, enum frame_type type, int r, const struct err *err)
{
	json_t *json = error_json(r, err);

	r = frame_send_json(fd, type, json, NULL, 0);
	json_decref(json);
	return r;
}

/* ---- calls on files ---- */

static int serve_sys(struct conn *conn, const struct frame *frame)
{
	CLEANUP(buf_clear) struct buf bytes = BUF_INIT(SYS_IO_MAX);
	CLEANUP(buf_clear) struct buf reply = BUF_INIT(SYS_IO_MAX + 64);
	struct span wire = span_of(frame->payload.data, frame->payload.len);
	struct sys_req req;
	int64_t answer;
	int r = sys_req_decode(&wire, &req);

	if (r < 0 || wire.len)
		return -EPROTO;
	answer = sys_call(conn->sys, &req, &bytes);
	if (answer < 0)
		buf_clear(&bytes);
	r = sys_rep_encode(answer, span_of(bytes.data, bytes.len), &reply);
	if (r < 0)
		return r;
	return frame_send(conn->fd, FRAME_SYS, span_of(reply.data, reply.len), SPAN_EMPTY, NULL, 0);
}

/* ---- operations ---- */

/* Reads the socket while an operation that waits has the connection's thread. */
struct control {
	int socket, stop; /* `stop` is readable when the operation has ended */
	int pipe;         /* to the operation; -1: its end was sent */
};

/* False: nothing more will come. */
static bool control_frame(struct control *control)
{
	CLEANUP(frame_clear) struct frame frame = FRAME_INIT(CONTROL_MAX);
	int r = frame_recv(control->socket, &frame);

	if (r <= 0 || frame.type != FRAME_CONTROL || !frame.payload.len)
		return false;
	/* A pipe that is full has more signals than anybody can mean. */
	(void)!write(control->pipe, frame.payload.data, frame.payload.len);
	return true;
}

static void *control_main(void *arg)
{
	struct control *control = arg;
	struct pollfd polls[2] = {{.fd = control->socket, .events = POLLIN},
				  {.fd = control->stop, .events = POLLIN}};

	for (;;) {
		if (poll(polls, 2, -1) < 0)
			continue;
		if (polls[1].revents)
			break;
		if (!control_frame(control))
			break;
	}
	fd_close(&control->pipe);
	return NULL;
}

/* Run the operation with someone listening to its caller. */
static int run_controlled(struct conn *conn, const struct call_row *row, struct call *call)
{
	struct control control = {.socket = conn->fd, .stop = -1, .pipe = -1};
	CLEANUP(fd_close) int stop = eventfd(0, EFD_CLOEXEC);
	CLEANUP(fd_close) int ours = -1;
	pthread_t thread;
	int ends[2], r;

	if (stop < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_set(call->err, errno, "too many open files at the owner");
	ours = ends[0];
	control.stop = stop;
	control.pipe = ends[1];
	if (pthread_create(&thread, NULL, control_main, &control) != 0) {
		fd_close(&control.pipe);
		return err_set(call->err, EAGAIN, "too many threads at the owner");
	}
	call->control_fd = ours;
	r = call_run(row, call);
	(void)!eventfd_write(stop, 1);
	pthread_join(thread, NULL);
	return r;
}

static int send_event(struct call *call, json_t *head, struct span tail)
{
	struct conn *conn = call->event_arg;
	CLEANUP(buf_clear) struct buf bytes = BUF_INIT(FRAME_REPLY_MAX);
	char *text = json_dumps(head, JSON_COMPACT);
	uint32_t len;
	int r;

	if (!text)
		return -EINVAL;
	len = htole32((uint32_t)strlen(text));
	r = buf_add(&bytes, &len, sizeof(len));
	if (r == 0)
		r = buf_add(&bytes, text, strlen(text));
	free(text);
	if (r < 0)
		return r;
	return frame_send(conn->fd, FRAME_EVENT, span_of(bytes.data, bytes.len), tail, NULL, 0);
}

static int serve_call(struct conn *conn, const struct frame *frame)
{
	struct err err = ERR_INIT;
	json_t *request = frame_json(frame);
	const char *op = json_get_text(request, "op");
	const struct call_row *row = call_find(op);
	struct call call = {
		.owner = conn->owner,
		.view = conn->view,
		.who = &conn->who,
		.readonly = conn->readonly,
		.args = json_object_get(request, "args"),
		.fds = frame->fds,
		.fd_count = frame->fd_count,
		.control_fd = -1,
		.event = send_event,
		.event_arg = conn,
		.reply = json_object(),
		.err = &err,
	};
	int r;

	if (!request)
		r = -EPROTO;
	else if (!row)
		r = err_set(&err, ENOSYS,
			    "the workspace's owner (version " COMPUTER_VERSION
			    ") has no operation '%.32s'",
			    op);
	else if (row->flags & CALL_CONTROL)
		r = run_controlled(conn, row, &call);
	else
		r = call_run(row, &call);
	json_decref(request);
	if (r < 0)
		r = r == -EPROTO ? r : answer_error(conn->fd, FRAME_REPLY, r, &err);
	else
		r = frame_send_json(conn->fd, FRAME_REPLY, call.reply, NULL, 0);
	json_decref(call.reply);
	return r;
}

/* ---- a connection ---- */

static int check_peer(struct conn *conn, struct err *err)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return err_set(err, errno, "cannot tell who asks");
	if (cred.uid != geteuid() && cred.uid != 0)
		return err_set(err, EACCES, "'%s' belongs to user %u: run as that user, or root",
			       conn->owner->workspace.name, (unsigned)geteuid());
	conn->who = (struct gate_who){
		.uid = cred.uid,
		.gid = cred.gid,
		.pid = cred.pid,
		.actor = conn->actor,
		.backend = "direct",
		.exec = "",
	};
	return 0;
}

static int read_hello(struct conn *conn, const json_t *hello, struct err *err)
{
	const char *actor = json_get_text(hello, "actor");
	const char *snapshot = json_get_text(hello, "snapshot");
	int r;

	if (!hello || json_get_int(hello, "protocol") != 1)
		return err_set(err, EPROTO,
			       "the workspace is open in a program of another version "
			       "(" COMPUTER_VERSION "): use that one, or close it");
	if (workspace_name_check(actor, NULL) < 0 || strlen(actor) >= sizeof(conn->actor))
		return err_set(err, EINVAL, "an actor is a name of at most 32 characters");
	if (snapshot[0]) {
		r = workspace_snapshot_check(snapshot, err);
		if (r < 0)
			return r;
	}
	memcpy(conn->actor, actor, strlen(actor) + 1);
	conn->readonly = json_get_bool(hello, "readonly");
	r = view_get(conn->owner, snapshot, &conn->view, err);
	if (r == 0)
		conn->sys = view_sys(conn->view, &conn->who, conn->readonly);
	return r;
}

static void set_patience(int fd, int seconds)
{
	const struct timeval time = {.tv_sec = seconds};

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
}

/* Who is it, and what does it want to see? */
static int greet(struct conn *conn, struct frame *frame)
{
	struct err err = ERR_INIT;
	json_t *json;
	int r = check_peer(conn, &err);

	if (r == 0) {
		set_patience(conn->fd, HELLO_SECONDS);
		r = frame_recv(conn->fd, frame);
		if (r == 0)
			return -EPROTO;
		if (r == 1 && frame->type != FRAME_HELLO)
			r = -EPROTO;
		set_patience(conn->fd, 0);
	}
	if (r >= 0) {
		json = frame_json(frame);
		r = read_hello(conn, json, &err);
		json_decref(json);
	}
	if (r < 0) {
		(void)!answer_error(conn->fd, FRAME_HELLO, r, &err);
		return r;
	}
	json = json_pack("{s:i,s:s,s:I}", "protocol", 1, "version", COMPUTER_VERSION, "pid",
			 (json_int_t)getpid());
	r = frame_send_json(conn->fd, FRAME_HELLO, json, NULL, 0);
	json_decref(json);
	return r;
}

static int serve_frame(struct conn *conn, const struct frame *frame)
{
	switch (frame->type) {
	case FRAME_SYS:
		return serve_sys(conn, frame);
	case FRAME_CALL:
		return serve_call(conn, frame);
	case FRAME_CONTROL: /* for an operation that has just ended */
		return 0;
	case FRAME_HELLO:
	case FRAME_EVENT:
	case FRAME_REPLY:
		break;
	}
	return -EPROTO;
}

static void conn_free(struct conn *conn)
{
	struct owner *owner = conn->owner;

	sys_free(conn->sys);
	view_put(conn->view);
	pthread_mutex_lock(&owner->lock);
	list_del(&conn->link);
	close(conn->fd); /* under the lock: serve_stop may be about to shut it down */
	owner->conn_count--;
	pthread_cond_broadcast(&owner->changed);
	pthread_mutex_unlock(&owner->lock);
	free(conn);
}

static void *conn_main(void *arg)
{
	CLEANUP(frame_clear) struct frame frame = FRAME_INIT(FRAME_REQUEST_MAX);
	struct conn *conn = arg;
	struct err err = ERR_INIT;
	int r = greet(conn, &frame);

	if (r == 0) {
		do {
			r = frame_recv(conn->fd, &frame);
			if (r == 1)
				r = serve_frame(conn, &frame) < 0 ? -EPROTO : 1;
		} while (r == 1);
		if (r == -EMSGSIZE)
			err_set(&err, EMSGSIZE, "a message has at most %d bytes",
				FRAME_REQUEST_MAX);
		else if (r < 0)
			err_set(&err, EPROTO, "that is not the protocol of docs/wire/owner.md");
		if (r < 0)
			(void)!answer_error(conn->fd, FRAME_REPLY, r, &err);
	}
	conn_free(conn);
	return NULL;
}

static void take_connection(struct owner *owner, int fd)
{
	struct conn *conn = mem_alloc0(sizeof(*conn));
	struct err err = ERR_INIT;
	pthread_attr_t attr;
	pthread_t thread;
	bool full;
	int r = 0;

	conn->owner = owner;
	conn->fd = fd;
	pthread_mutex_lock(&owner->lock);
	full = owner->conn_count >= CONNECTIONS_MAX;
	if (!full) {
		list_add(&owner->conns, &conn->link);
		owner->conn_count++;
	}
	pthread_mutex_unlock(&owner->lock);
	if (full) {
		r = err_set(&err, EUSERS, "the workspace has %d callers already", CONNECTIONS_MAX);
		(void)!answer_error(fd, FRAME_HELLO, r, &err);
		close(fd);
		free(conn);
		return;
	}
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, conn_main, conn) != 0)
		conn_free(conn);
	pthread_attr_destroy(&attr);
}

/* ---- the host thread: accepts, and looks after what is idle ---- */

static void *host_main(void *arg)
{
	struct owner *owner = arg;
	struct pollfd polls[2] = {{.fd = owner->listener, .events = POLLIN},
				  {.fd = owner->wake, .events = POLLIN}};
	int64_t last = clock_mono();

	for (;;) {
		int fd, n = poll(polls, 2, OWNER_TICK_MS);

		if (polls[1].revents && n > 0)
			return NULL;
		if (n > 0 && polls[0].revents) {
			fd = accept4(owner->listener, NULL, NULL, SOCK_CLOEXEC);
			if (fd >= 0)
				take_connection(owner, fd);
			else if (errno == EMFILE || errno == ENFILE)
				usleep(10000); /* the connection waits, and so do we */
		}
		if (clock_mono() - last >= OWNER_TICK_MS * INT64_C(1000000)) {
			owner_tick(owner);
			last = clock_mono();
		}
	}
}

/* A folder of our own, that nobody else can put anything into. */
static int own_folder(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return -EACCES;
	return 0;
}

int runtime_path(const struct workspace *workspace, const char *suffix, char *ret_path, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	unsigned char hash[EVP_MAX_MD_SIZE];
	char name[33], folder[PATH_MAX];
	unsigned hash_len;
	int n;

	if (!EVP_Digest(workspace->path, strlen(workspace->path), hash, &hash_len, EVP_sha256(),
			NULL))
		return -EIO;
	text_hex(hash, 16, name);
	for (int attempt = 0; attempt < 2; attempt++) {
		if (attempt == 0 && (!runtime || runtime[0] != '/'))
			continue;
		if (attempt == 0)
			n = snprintf(folder, sizeof(folder), "%s/computer", runtime);
		else
			n = snprintf(folder, sizeof(folder), "/tmp/computer-%u",
				     (unsigned)geteuid());
		if (n >= (int)sizeof(folder) || own_folder(folder) < 0)
			continue;
		n = snprintf(ret_path, size, "%s/%s%s", folder, name, suffix);
		if (n < (int)size)
			return 0;
	}
	return -EACCES;
}

static int listen_at(struct owner *owner)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int r = runtime_path(&owner->workspace, ".sock", addr.sun_path, sizeof(addr.sun_path));
	int fd;

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* We hold the lock: a socket that is there was left by an owner that died. */
	(void)unlink(addr.sun_path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 64) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	memcpy(owner->socket, addr.sun_path, sizeof(owner->socket));
	owner->listener = fd;
	return 0;
}

void serve_start(struct owner *owner)
{
	pthread_attr_t attr;

	owner->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (owner->wake < 0)
		return;
	/* Without a place for a socket others are told that the workspace is in use. */
	(void)!listen_at(owner);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	owner->threaded = pthread_create(&owner->thread, &attr, host_main, owner) == 0;
	pthread_attr_destroy(&attr);
	if (owner->listener >= 0 && owner->threaded)
		(void)!store_lock_publish(&owner->lock_file, owner->socket);
}

/* No more requests come in; those that did are answered. `how` SHUT_RDWR: not even that. */
static void shut_all(struct owner *owner, int how)
{
	list_for_each (pos, &owner->conns)
		(void)shutdown(list_entry(pos, struct conn, link)->fd, how);
}

void serve_stop(struct owner *owner)
{
	struct timespec until;

	if (owner->listener >= 0)
		(void)unlink(owner->socket);
	if (owner->threaded) {
		(void)!eventfd_write(owner->wake, 1);
		pthread_join(owner->thread, NULL);
	}
	fd_close(&owner->listener);
	fd_close(&owner->wake);

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += DRAIN_SECONDS;
	pthread_mutex_lock(&owner->lock);
	shut_all(owner, SHUT_RD);
	while (owner->conn_count)
		if (pthread_cond_timedwait(&owner->changed, &owner->lock, &until) == ETIMEDOUT)
			break;
	/* Somebody does not take its answer. */
	shut_all(owner, SHUT_RDWR);
	while (owner->conn_count)
		pthread_cond_wait(&owner->changed, &owner->lock);
	pthread_mutex_unlock(&owner->lock);
}
