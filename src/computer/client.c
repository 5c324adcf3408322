/* client.c - a connection to another process's owner: docs/wire/owner.md. */
#include "base/fd.h"
#include "base/mem.h"
#include "computer/computer_i.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct client {
	int socket;
	struct frame frame; /* the last one received */
	struct buf wire;    /* the request being sent */
	bool stopped;       /* the caller had something for the last operation */
};

void client_free(struct client *client)
{
	if (!client)
		return;
	fd_close(&client->socket);
	frame_clear(&client->frame);
	buf_clear(&client->wire);
	free(client);
}

static void client_cleanup(struct client **client)
{
	client_free(*client);
}

/* What the owner says went wrong. 0: nothing. */
static int take_error(const json_t *json, struct err *err)
{
	const json_t *error = json_object_get(json, "error");
	int64_t code = json_get_int(error, "code");

	if (!error)
		return 0;
	if (code <= 0 || code > 4095)
		code = EPROTO;
	return err_set(err, (int)code, "%s", json_get_text(error, "text"));
}

/* The next frame, which has to be one of two types. -ECONNRESET: the owner ended. */
static int receive(struct client *client, enum frame_type type, enum frame_type or_type)
{
	int r = frame_recv(client->socket, &client->frame);

	if (r == 0 || r == -EPIPE || (r == -EPROTO && client->frame.payload.len == 0))
		return -ECONNRESET;
	if (r < 0)
		return r;
	if (client->frame.type != type && client->frame.type != or_type)
		return -EPROTO;
	return 0;
}

static int greet(struct client *client, const struct workspace *workspace, const char *actor,
		 bool readonly, struct err *err)
{
	json_t *json = json_pack("{s:i,s:s,s:s,s:b}", "protocol", 1, "actor", actor, "snapshot",
				 workspace->snapshot, "readonly", readonly);
	int sent = frame_send_json(client->socket, FRAME_HELLO, json, NULL, 0), r;

	json_decref(json);
	/* It may have refused us before it read anything. */
	r = receive(client, FRAME_HELLO, FRAME_HELLO);
	if (r == -ECONNRESET || (r < 0 && sent < 0))
		return -ECONNREFUSED;
	if (r < 0)
		return err_set(err, -r, "the owner of '%s' does not speak our protocol",
			       workspace->name);
	json = frame_json(&client->frame);
	r = json ? take_error(json, err) : err_set(err, EPROTO, "the owner answers nonsense");
	json_decref(json);
	return r;
}

int client_connect(const struct store_owner *other, const struct workspace *workspace,
		   const char *actor, bool readonly, struct client **ret_client, struct err *err)
{
	CLEANUP(client_cleanup) struct client *client = mem_alloc0(sizeof(*client));
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int r;

	_Static_assert(sizeof(addr.sun_path) == sizeof(other->socket), "as long as a path can be");
	client->frame = FRAME_INIT(FRAME_REPLY_MAX);
	client->wire = BUF_INIT(FRAME_REQUEST_MAX);
	memcpy(addr.sun_path, other->socket, sizeof(addr.sun_path));
	client->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (client->socket < 0)
		return err_set(err, errno, "cannot make a socket");
	if (connect(client->socket, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno == ECONNREFUSED || errno == ENOENT || errno == EAGAIN)
			return -ECONNREFUSED;
		return err_set(err, errno, "cannot reach process %lld, which has '%s' open",
			       (long long)other->pid, workspace->name);
	}
	r = greet(client, workspace, actor, readonly, err);
	if (r < 0)
		return r;
	*ret_client = client;
	client = NULL;
	return 0;
}

int64_t client_sys(struct client *client, const struct sys_req *req, struct buf *out)
{
	struct span wire, bytes;
	int64_t answer;
	int r;

	client->wire.len = 0;
	r = sys_req_encode(req, &client->wire);
	if (r == 0)
		r = frame_send(client->socket, FRAME_SYS,
			       span_of(client->wire.data, client->wire.len), SPAN_EMPTY, NULL, 0);
	if (r < 0)
		return r == -ECONNRESET ? -EPIPE : r;
	r = receive(client, FRAME_SYS, FRAME_SYS);
	if (r < 0)
		return r;
	wire = span_of(client->frame.payload.data, client->frame.payload.len);
	r = sys_rep_decode(&wire, &answer, &bytes);
	if (r < 0)
		return r;
	if (answer < 0 || !bytes.len)
		return answer;
	r = out ? buf_add(out, bytes.data, bytes.len) : -EPROTO;
	return r < 0 ? r : answer;
}

/* ---- operations ---- */

/* Pass on what the caller has for the operation while we wait for the owner. */
static int pump_control(struct client *client, int *control_fd)
{
	struct pollfd polls[2] = {{.fd = client->socket, .events = POLLIN},
				  {.fd = *control_fd, .events = POLLIN}};
	char signals[64];
	ssize_t n;

	while (*control_fd >= 0) {
		if (poll(polls, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (polls[0].revents)
			return 0;
		n = read(*control_fd, signals, sizeof(signals));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0) /* no more: the end of our frames says so too */
			*control_fd = polls[1].fd = -1;
		client->stopped = true;
		(void)!frame_send(client->socket, FRAME_CONTROL,
				  span_of(signals, n > 0 ? (size_t)n : 0), SPAN_EMPTY, NULL, 0);
	}
	return 0;
}

static int take_event(const struct client *client, const struct call_request *request)
{
	const struct buf *payload = &client->frame.payload;
	json_t *head;
	uint32_t len;
	int r;

	if (payload->len < sizeof(len))
		return -EPROTO;
	memcpy(&len, payload->data, sizeof(len));
	len = le32toh(len);
	if (len > payload->len - sizeof(len))
		return -EPROTO;
	head = json_loadb(payload->data + sizeof(len), len, JSON_ALLOW_NUL, NULL);
	if (!head)
		return -EPROTO;
	r = request->event ? request->event(request->arg, head,
					    span_of(payload->data + sizeof(len) + len,
						    payload->len - sizeof(len) - len))
			   : 0;
	json_decref(head);
	return r;
}

bool client_stopped(const struct client *client)
{
	return client->stopped;
}

/* Events until the answer. `*ret_stop`: what the caller's function said to the last it saw. */
static int collect(struct client *client, const struct call_request *request, int *ret_stop)
{
	int control_fd = request->control_fd, r;

	for (;;) {
		r = pump_control(client, &control_fd);
		if (r == 0)
			r = receive(client, FRAME_EVENT, FRAME_REPLY);
		if (r < 0 || client->frame.type == FRAME_REPLY)
			return r;
		if (*ret_stop)
			continue;
		*ret_stop = take_event(client, request);
		/* It wants no more: an operation that waits is told, others are soon done. */
		if (*ret_stop)
			(void)!frame_send(client->socket, FRAME_CONTROL, SPAN_EMPTY, SPAN_EMPTY,
					  NULL, 0);
	}
}

int client_call(struct client *client, const struct call_request *request, json_t **ret_reply,
		struct err *err)
{
	json_t *json = json_pack("{s:s,s:o}", "op", request->op, "args", request->args);
	int r, stop = 0;

	client->stopped = false;
	r = json ? frame_send_json(client->socket, FRAME_CALL, json, request->fds,
				   request->fd_count)
		 : -EINVAL;
	json_decref(json);
	if (r == -EPIPE || r == -ECONNRESET)
		return -EPIPE;
	if (r < 0)
		return err_set(err, -r, "cannot ask for %s", request->op);
	r = collect(client, request, &stop);
	if (r < 0)
		return err_set(err, r == -ECONNRESET ? EPIPE : -r,
			       "the process that had the workspace open ended during %s",
			       request->op);
	if (stop)
		return stop;
	json = frame_json(&client->frame);
	r = json ? take_error(json, err) : err_set(err, EPROTO, "the owner answers nonsense");
	if (r == 0 && ret_reply)
		*ret_reply = json_incref(json);
	json_decref(json);
	return r;
}
