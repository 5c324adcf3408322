/* gate_i.h - how records are packed; the reasons are in docs/decisions/0002-audit-batches.md.
 *
 *   row    = record...                          seq first..last, one after the other
 *   record = length (2, little endian) body     the chain hashes the body
 *   body   = op (1) at who fields (1) [parent] [ino] [parent2] [name] [name2] [offset size]
 *   at     = signed: since the record before in the row; the first: since 1970
 *   who    = number: 0 and uid gid pid(signed) text text text (actor backend exec), or the
 *            number of one of this row, counted from 1
 *   text   = number: 0 and a name, or the number of one of this row, counted from 1
 *   name   = length and bytes
 *
 * Numbers are LEB128; signed ones zigzag first. After GATE_ASKERS or GATE_TEXTS different ones a
 * row's further ones get no number. With FIELD_WIDE offset and size are 8 bytes each, little
 * endian: they can grow in place.
 */
#ifndef GATE_GATE_I_H
#define GATE_GATE_I_H

#include "gate/gate.h"

enum gate_field {
	FIELD_PARENT = 1 << 0,
	FIELD_INO = 1 << 1,
	FIELD_PARENT2 = 1 << 2,
	FIELD_NAME = 1 << 3,
	FIELD_NAME2 = 1 << 4,
	FIELD_OFFSET = 1 << 5,
	FIELD_SIZE = 1 << 6,
	FIELD_WIDE = 1 << 7,
};

#define GATE_ASKERS 1024
#define GATE_TEXTS 64
#define GATE_HASH 32

/* SHA-256 of the hash before and a record's body, over and over. */
struct chain;
struct chain *chain_new(const unsigned char hash[GATE_HASH]);
void chain_free(struct chain **chain);
void chain_add(struct chain *chain, struct span body);
const unsigned char *chain_hash(const struct chain *chain);

/* Take one record's body from the front of `*records`. False: damaged. */
bool gate_take_body(struct span *records, struct span *ret_body);

#endif
