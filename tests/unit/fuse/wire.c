/* wire.c - see wire.h. */
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

void wire_open_raw(struct wire *wire, const struct fuse_options *options)
{
	static const struct fuse_options usual = {.name = "test", .xattrs = true, .threads = 2};
	struct err err = ERR_INIT;
	int ends[2];

	*wire = (struct wire){.vfs = fake_vfs_new()};
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	wire->fd = ends[0];
	if (fuse_serve_fd(wire->vfs, ends[1], options ? options : &usual, &wire->fuse, &err) < 0)
		fail_msg("%s", err.text);
}

void wire_open(struct wire *wire)
{
	const struct fuse_init_in in = {
		.major = 7, .minor = 45, .max_readahead = 131072, .flags = ~0U, .flags2 = ~0U};

	wire_open_raw(wire, NULL);
	assert_int_equal(wire_ask(wire, FUSE_INIT, 0, ARG(in), SPAN_EMPTY), 0);
}

void wire_close(struct wire *wire)
{
	close(wire->fd);
	assert_int_equal(fuse_wait(wire->fuse, 10000), 0);
	fuse_stop(wire->fuse);
	assert_int_equal(fake_vfs_refs(wire->vfs), 0);
	fake_vfs_free(wire->vfs);
}

void wire_send(struct wire *wire, const void *bytes, size_t len)
{
	assert_int_equal(send(wire->fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

int wire_receive(struct wire *wire, uint64_t *ret_unique)
{
	static _Thread_local char bytes[BIG + 16];
	struct pollfd ready = {.fd = wire->fd, .events = POLLIN};
	struct fuse_out_header header;
	ssize_t n;

	if (poll(&ready, 1, 10000) != 1)
		fail_msg("no answer");
	n = recv(wire->fd, bytes, sizeof(bytes), 0);
	assert_true(n >= (ssize_t)sizeof(header));
	memcpy(&header, bytes, sizeof(header));
	assert_int_equal(header.len, n);
	wire->reply_len = (size_t)n - sizeof(header);
	memcpy(wire->reply, bytes + sizeof(header), wire->reply_len);
	if (ret_unique)
		*ret_unique = header.unique;
	return header.error;
}

bool wire_silent(struct wire *wire)
{
	struct pollfd ready = {.fd = wire->fd, .events = POLLIN};

	return poll(&ready, 1, 0) == 0;
}

void wire_request(struct wire *wire, uint32_t opcode, uint64_t nodeid, struct span arg,
		  struct span rest)
{
	static _Thread_local char bytes[BIG + 256];
	struct fuse_in_header header = {
		.len = (uint32_t)(sizeof(header) + arg.len + rest.len),
		.opcode = opcode,
		.unique = wire->unique += 2,
		.nodeid = nodeid,
		.pid = 4711,
	};

	memcpy(bytes, &header, sizeof(header));
	if (arg.len)
		memcpy(bytes + sizeof(header), arg.data, arg.len);
	if (rest.len)
		memcpy(bytes + sizeof(header) + arg.len, rest.data, rest.len);
	wire_send(wire, bytes, header.len);
}

int wire_ask(struct wire *wire, uint32_t opcode, uint64_t nodeid, struct span arg, struct span rest)
{
	uint64_t unique;
	int r;

	wire_request(wire, opcode, nodeid, arg, rest);
	r = wire_receive(wire, &unique);
	assert_int_equal(unique, wire->unique);
	return r;
}

static int64_t node_of_reply(struct wire *wire, int r)
{
	struct fuse_entry_out entry;

	if (r < 0)
		return r;
	assert_true(wire->reply_len >= sizeof(entry));
	memcpy(&entry, wire->reply, sizeof(entry));
	return (int64_t)entry.nodeid;
}

int64_t wire_lookup(struct wire *wire, uint64_t parent, const char *name)
{
	return node_of_reply(wire, wire_ask(wire, FUSE_LOOKUP, parent, SPAN_EMPTY,
					    span_of(name, strlen(name) + 1)));
}

int64_t wire_create(struct wire *wire, uint64_t parent, const char *name)
{
	const struct fuse_create_in in = {.mode = 0100644};

	return node_of_reply(wire, wire_ask(wire, FUSE_CREATE, parent, ARG(in),
					    span_of(name, strlen(name) + 1)));
}

int64_t wire_mkdir(struct wire *wire, uint64_t parent, const char *name)
{
	const struct fuse_mkdir_in in = {.mode = 0755};

	return node_of_reply(
		wire, wire_ask(wire, FUSE_MKDIR, parent, ARG(in), span_of(name, strlen(name) + 1)));
}

void wire_forget(struct wire *wire, uint64_t nodeid, uint64_t count)
{
	const struct fuse_forget_in in = {.nlookup = count};

	wire_request(wire, FUSE_FORGET, nodeid, ARG(in), SPAN_EMPTY);
}

void wire_settle(struct wire *wire)
{
	/* Each thread may still be at one earlier message. */
	for (int i = 0; i < 8; i++)
		assert_int_equal(wire_ask(wire, FUSE_STATFS, 1, SPAN_EMPTY, SPAN_EMPTY), 0);
	usleep(20000);
}
