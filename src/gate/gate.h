/* gate.h - the one place where an operation is asked for, and recorded.
 *
 * vfs calls gate_ask() before every operation and gate_record() after every change; nobody else
 * does. Rules come later: today every operation is allowed. Records are collected in memory and
 * written with the rows they describe, in the same transaction (gate_flush_*).
 */
#ifndef GATE_GATE_H
#define GATE_GATE_H

#include "base/err.h"
#include "base/span.h"

struct gate;
struct store;

/* Who asks. Borrowed strings; empty ones are allowed. */
struct gate_who {
	uint32_t uid, gid;
	int32_t pid;
	const char *actor;   /* "cli", "mount", "container", a token's name later */
	const char *backend; /* "direct", "fuse", "shell", ... */
	const char *exec;    /* id of the exec it belongs to, or "" */
};

/* What is asked for. The rows are gate/ops.def. */
enum gate_op {
#define OP(name, number, text) GATE_##name = (number),
#include "gate/ops.def"
#undef OP
	GATE_OPS = 64 /* none of them */
};

/* One record of the audit. Names are as the operation saw them; an inode says where. */
struct gate_record {
	uint64_t seq;
	int64_t at; /* ns since 1970 */
	enum gate_op op;
	struct gate_who who;
	int64_t parent, ino, parent2; /* 0 when the operation has none; parent2: rename's target */
	struct span name, name2;
	int64_t offset,
		size; /* write, truncate, fallocate; mode for chmod, uid and gid for chown */
};

#define GATE_TEXT_MAX 255  /* bytes of actor, backend, exec: cut beyond */
#define GATE_NAME_MAX 4096 /* bytes of a name: cut beyond */

/* Never NULL: "unknown" for one that a newer version wrote. */
const char *gate_op_name(enum gate_op op);
/* The operation with this name, or GATE_OPS. */
enum gate_op gate_op_find(const char *name);

/* The gate of a workspace, continuing its audit chain at (seq, hash). */
struct gate *gate_new(uint64_t seq, const unsigned char hash[32]);
void gate_free(struct gate *gate);

/*
 * 0 when allowed, or -EPERM. -ENOSPC for a change while so many records wait that could not be
 * written: what cannot be recorded may not happen. Under the vfs lock.
 */
int gate_ask(struct gate *gate, const struct gate_who *who, enum gate_op op, int64_t ino,
	     struct span name) MUST_USE;

/* Record a change that was made. Fills in seq and at. Under the vfs lock. A write to the same file
 * by the same asker since the last flush widens the record that is already there. */
void gate_record(struct gate *gate, const struct gate_record *record);

/*
 * Take everything recorded so far for a transaction (under the vfs lock), write it (flusher), and
 * free it once that is committed, which moves the chain on; after a failed commit put it back
 * instead (under the vfs lock), so that nothing is lost. One batch is out at a time.
 */
struct gate_batch;
struct gate_batch *gate_take(struct gate *gate); /* NULL: nothing recorded */
int gate_batch_write(struct gate_batch *batch, struct store *store) MUST_USE;
void gate_batch_free(struct gate_batch *batch);
void gate_put_back(struct gate *gate, struct gate_batch *batch);

/* Every record after `after`, oldest first; stops when `fn` is non-zero and returns that. The
 * record is borrowed for the call. -EUCLEAN: damaged. */
int gate_each(struct store *store, uint64_t after,
	      int (*fn)(void *arg, const struct gate_record *record), void *arg) MUST_USE;

/* The records of one row (store_each_audit), as gate_each gives them. -EUCLEAN: damaged. */
int gate_decode(uint64_t first, uint64_t last, struct span records,
		int (*fn)(void *arg, const struct gate_record *record), void *arg) MUST_USE;

/* Recompute the whole chain. 0, or -EUCLEAN with the first record that does not fit in `err`. */
int gate_verify(struct store *store, uint64_t *ret_records, struct err *err) MUST_USE;

#endif
