/* dispatch.c - from the bytes of a request to its handler and the header of the answer. */
#include "fuse/fuse_i.h"
#include "fuse/serve.h"

#include <errno.h>

static int refuse(struct request *request)
{
	(void)request;
	return -ENOSYS;
}

static int nothing(struct request *request)
{
	(void)request;
	return 0;
}

static int no_tty(struct request *request)
{
	(void)request;
	return -ENOTTY;
}

static const struct {
	const char *name;
	size_t arg_size;
	int (*serve)(struct request *request);
} ops[FUSE_OPCODES] = {
#define OP(number, name, size, handler) [number] = {#name, size, handler},
#include "fuse/ops.def"
#undef OP
};

size_t op_arg_size(const struct fuse *fuse, uint32_t opcode, size_t available)
{
	if (opcode >= FUSE_OPCODES)
		return 0;
	if (opcode == FUSE_SETXATTR && fuse->setxattr_ext)
		return sizeof(struct fuse_setxattr_in);
	if (opcode == FUSE_INIT && available > FUSE_INIT_IN_MIN)
		return available < sizeof(struct fuse_init_in) ? FUSE_INIT_IN_MIN
							       : sizeof(struct fuse_init_in);
	return ops[opcode].arg_size;
}

static bool has_no_answer(uint32_t opcode)
{
	return opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT ||
	       opcode == FUSE_NOTIFY_REPLY;
}

int dispatch(struct request *request, size_t arg_len)
{
	struct fuse *fuse = request->fuse;
	const struct fuse_in_header *header = &request->header;
	uint32_t opcode = header->opcode;
	int r;

	if (opcode >= FUSE_OPCODES || !ops[opcode].serve)
		return -ENOSYS;
	atomic_fetch_add_explicit(&fuse->requests[opcode], 1, memory_order_relaxed);
	if (arg_len < ops[opcode].arg_size)
		return has_no_answer(opcode) ? NO_REPLY : -EINVAL;
	if (opcode != FUSE_INIT && !atomic_load(&fuse->ready))
		return has_no_answer(opcode) ? NO_REPLY : -EIO;
	if (header->nodeid > INT64_MAX)
		return has_no_answer(opcode) ? NO_REPLY : -ESTALE;

	request->ctx = (struct vfs_ctx){
		.who = {.uid = header->uid,
			.gid = header->gid,
			.pid = (int32_t)header->pid,
			.actor = fuse->backend,
			.backend = "fuse",
			.exec = fuse->exec},
		.trusted = true,
		.source = fuse,
	};
	r = ops[opcode].serve(request);
	/* The kernel takes an error beyond the last errno as a protocol violation. */
	if (r < -511 && r != NO_REPLY)
		return -EIO;
	return r;
}

bool dispatch_message(struct request *request, const char *message, size_t len,
		      struct fuse_out_header *ret_out)
{
	struct fuse_in_header *header = &request->header;
	size_t body, arg_size;
	int r;

	/* Without a whole header there is no `unique` to answer to. */
	if (len < sizeof(*header))
		return false;
	memcpy(header, message, sizeof(*header));
	body = len - sizeof(*header);
	arg_size = op_arg_size(request->fuse, header->opcode, body);
	if (header->len != len) {
		r = has_no_answer(header->opcode) ? NO_REPLY : -EIO;
	} else if (body < arg_size) {
		r = has_no_answer(header->opcode) ? NO_REPLY : -EINVAL;
	} else {
		request->arg = message + sizeof(*header);
		request->rest = span_of(message + sizeof(*header) + arg_size, body - arg_size);
		r = dispatch(request, arg_size);
	}
	if (r == NO_REPLY)
		return false;
	*ret_out = (struct fuse_out_header){
		.len = (uint32_t)sizeof(*ret_out) + (r > 0 ? (uint32_t)r : 0),
		.error = r < 0 ? r : 0,
		.unique = header->unique,
	};
	return true;
}
