/* wire.h - a test in the kernel's place: bytes over a socketpair to a FUSE server. */
#ifndef TEST_FUSE_WIRE_H
#define TEST_FUSE_WIRE_H

#include "fake_vfs.h"
#include "fuse/fuse.h"
#include "fuse/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BIG 65536

struct wire {
	struct vfs *vfs;
	struct fuse *fuse;
	int fd; /* the kernel's end */
	uint64_t unique;
	char reply[BIG]; /* the last answer's bytes after its header */
	size_t reply_len;
};

/* A server without INIT, and one after it. The default options have extended attributes. */
void wire_open_raw(struct wire *wire, const struct fuse_options *options);
void wire_open(struct wire *wire);
void wire_close(struct wire *wire);

/* Send a message as it is. */
void wire_send(struct wire *wire, const void *bytes, size_t len);
/* One answer: its error; the bytes are in `reply`. */
int wire_receive(struct wire *wire, uint64_t *ret_unique);
bool wire_silent(struct wire *wire); /* nothing has come */

/* Send a request with a right header and two pieces of body. */
void wire_request(struct wire *wire, uint32_t opcode, uint64_t nodeid, struct span arg,
		  struct span rest);
/* And take its answer: the error. */
int wire_ask(struct wire *wire, uint32_t opcode, uint64_t nodeid, struct span arg,
	     struct span rest);

#define ARG(thing) span_of(&(thing), sizeof(thing))

/* Ask by name; the node id, or an errno. 0: no such name. */
int64_t wire_lookup(struct wire *wire, uint64_t parent, const char *name);
int64_t wire_create(struct wire *wire, uint64_t parent, const char *name);
int64_t wire_mkdir(struct wire *wire, uint64_t parent, const char *name);
void wire_forget(struct wire *wire, uint64_t nodeid, uint64_t count);
/* The server has seen everything sent before. */
void wire_settle(struct wire *wire);

#endif
