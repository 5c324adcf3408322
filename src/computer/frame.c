/* frame.c - messages on the owner's socket: docs/wire/owner.md. */
#include "base/fd.h"
#include "computer/computer_i.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* A control message with room for the descriptors of one frame. */
union rights {
	struct cmsghdr header;
	char room[CMSG_SPACE(FRAME_FDS_MAX * sizeof(int))];
};

void frame_clear(struct frame *frame)
{
	for (size_t i = 0; i < frame->fd_count; i++)
		fd_close(&frame->fds[i]);
	frame->fd_count = 0;
	buf_clear(&frame->payload);
}

/* Move past `sent` bytes; the parts that are left. */
static int skip_sent(struct iovec **parts, int count, size_t sent)
{
	while (count && sent >= (*parts)->iov_len) {
		sent -= (*parts)->iov_len;
		(*parts)++;
		count--;
	}
	if (count) {
		(*parts)->iov_base = (char *)(*parts)->iov_base + sent;
		(*parts)->iov_len -= sent;
	}
	return count;
}

int frame_send(int socket, enum frame_type type, struct span head, struct span tail, const int *fds,
	       size_t fd_count)
{
	uint32_t header[2] = {htole32((uint32_t)(head.len + tail.len)), htole32(type)};
	union rights rights = {0};
	struct iovec iov[3] = {{header, sizeof(header)}}, *parts = iov;
	struct msghdr msg = {0};
	int count = 3;

	if (head.len + tail.len > FRAME_REPLY_MAX)
		return -EMSGSIZE;
	/* sendmsg only reads, but iovec has no const. */
	memcpy(&iov[1].iov_base, &head.data, sizeof(head.data));
	memcpy(&iov[2].iov_base, &tail.data, sizeof(tail.data));
	iov[1].iov_len = head.len;
	iov[2].iov_len = tail.len;
	if (fd_count) {
		rights.header = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(fd_count * sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(&rights.header), fds, fd_count * sizeof(int));
		msg.msg_control = &rights;
		msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
	}
	while (count) {
		ssize_t n;

		msg.msg_iov = parts;
		msg.msg_iovlen = (size_t)count;
		n = sendmsg(socket, &msg, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		msg.msg_control = NULL;
		msg.msg_controllen = 0;
		count = skip_sent(&parts, count, (size_t)n);
	}
	return 0;
}

int frame_send_json(int socket, enum frame_type type, const json_t *json, const int *fds,
		    size_t fd_count)
{
	char *text = json_dumps(json, JSON_COMPACT);
	int r;

	if (!text)
		return -EINVAL;
	r = frame_send(socket, type, span_str(text), SPAN_EMPTY, fds, fd_count);
	free(text);
	return r;
}

/* Take over the descriptors that came along. False: more than a frame has. */
static bool take_fds(struct msghdr *msg, struct frame *frame)
{
	bool good = !(msg->msg_flags & MSG_CTRUNC);

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (frame->fd_count < FRAME_FDS_MAX) {
				frame->fds[frame->fd_count++] = fd;
			} else {
				close(fd);
				good = false;
			}
		}
	}
	return good;
}

/* Fill `bytes`. 1; 0 at the end before the first one; -EPROTO in the middle. */
static int recv_all(int socket, void *bytes, size_t len, struct frame *frame)
{
	char *p = bytes;
	size_t got = 0;

	while (got < len) {
		union rights rights;
		struct iovec iov = {p + got, len - got};
		struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
		ssize_t n;

		if (frame) {
			msg.msg_control = &rights;
			msg.msg_controllen = sizeof(rights);
		}
		n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return got || !frame ? -EPROTO : 0;
		if (frame && !take_fds(&msg, frame))
			return -EPROTO;
		got += (size_t)n;
	}
	return 1;
}

int frame_recv(int socket, struct frame *frame)
{
	uint32_t header[2];
	size_t len;
	int r;

	frame_clear(frame);
	r = recv_all(socket, header, sizeof(header), frame);
	if (r <= 0)
		return r;
	len = le32toh(header[0]);
	if (len > frame->payload.max)
		return -EMSGSIZE;
	frame->type = (enum frame_type)le32toh(header[1]);
	/* Read piece by piece: who announces much must also send it before we hold it. */
	while (frame->payload.len < len) {
		char piece[65536];
		size_t want = len - frame->payload.len;

		want = want < sizeof(piece) ? want : sizeof(piece);
		r = recv_all(socket, piece, want, NULL);
		if (r == 1)
			r = buf_add(&frame->payload, piece, want);
		if (r < 0)
			return r;
	}
	return 1;
}

json_t *frame_json(const struct frame *frame)
{
	json_t *json = json_loadb(frame->payload.data, frame->payload.len,
				  JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

	if (json && !json_is_object(json)) {
		json_decref(json);
		return NULL;
	}
	return json;
}
