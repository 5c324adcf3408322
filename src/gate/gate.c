/* gate.c - records in memory, packed as they will lie on disk, and their way there. */
#include "gate/gate.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "gate/gate_i.h"
#include "store/store.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define BATCH_MAX (1 << 20)    /* bytes in a row; then another one is begun */
#define PENDING_MAX (64 << 20) /* bytes that wait while nothing can be written */
#define WHO_SLOTS 256
#define WRITES 8
/* The most one record takes: two names, three texts, and numbers of at most 10 bytes. */
#define RECORD_MAX ((size_t)(2 * GATE_NAME_MAX + 3 * GATE_TEXT_MAX + 20 * 10))

struct text_at {
	uint32_t pos, len; /* in the batch's bytes */
};

struct who_at {
	uint32_t uid, gid;
	int32_t pid;
	uint16_t texts[3];
};

/* A write that may grow in place. */
struct write_at {
	int64_t ino; /* 0: none */
	uint32_t who, pos;
};

/* Records that become one row. */
struct gate_batch {
	struct gate *gate;
	struct gate_batch *next;
	uint64_t first, count;
	int64_t at; /* of the last record */
	unsigned char *bytes;
	size_t len, cap;
	struct who_at *askers;
	uint32_t who_count, who_cap, text_count;
	struct text_at texts[GATE_TEXTS];
	uint16_t slots[WHO_SLOTS]; /* hash of a who -> its number, 0: none */
	struct write_at writes[WRITES];
	unsigned next_write;
	bool written; /* `hash` is the chain after it */
	unsigned char hash[GATE_HASH];
};

struct gate {
	uint64_t seq;                        /* of the last record */
	struct gate_batch *pending, *newest; /* first and last of a list */
	size_t pending_bytes;
	/* flusher only: */
	unsigned char hash[GATE_HASH]; /* of the last committed record */
};

/* ---- the table of operations ---- */

static const char *const op_names[GATE_OPS] = {
#define OP(name, number, text) [number] = (text),
#include "gate/ops.def"
#undef OP
};

const char *gate_op_name(enum gate_op op)
{
	return (unsigned)op < GATE_OPS && op_names[op] ? op_names[op] : "unknown";
}

enum gate_op gate_op_find(const char *name)
{
	for (int op = 0; op < GATE_OPS; op++)
		if (op_names[op] && strcmp(op_names[op], name) == 0)
			return (enum gate_op)op;
	return GATE_OPS;
}

/* ---- life ---- */

struct gate *gate_new(uint64_t seq, const unsigned char hash[GATE_HASH])
{
	struct gate *gate = mem_alloc0(sizeof(*gate));

	gate->seq = seq;
	memcpy(gate->hash, hash, GATE_HASH);
	return gate;
}

static void batch_free(struct gate_batch *batch)
{
	free(batch->bytes);
	free(batch->askers);
	free(batch);
}

void gate_free(struct gate *gate)
{
	struct gate_batch *batch, *next;

	if (!gate)
		return;
	for (batch = gate->pending; batch; batch = next) {
		next = batch->next;
		batch_free(batch);
	}
	free(gate);
}

int gate_ask(struct gate *gate, const struct gate_who *who, enum gate_op op, int64_t ino,
	     struct span name)
{
	bool changes = op != GATE_OPEN && op != GATE_READ && op != GATE_READDIR && op != GATE_STAT;

	/* The rules will be asked here. */
	(void)who;
	(void)ino;
	(void)name;
	return changes && gate->pending_bytes > PENDING_MAX ? -ENOSPC : 0;
}

/* ---- packing ---- */

/* Records are written behind `len`; batch_room made sure that one fits. */
static void put_byte(struct gate_batch *batch, unsigned char byte)
{
	batch->bytes[batch->len++] = byte;
}

static void put_number(struct gate_batch *batch, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put_byte(batch, (unsigned char)(value | 0x80));
	put_byte(batch, (unsigned char)value);
}

static void put_signed(struct gate_batch *batch, int64_t value)
{
	put_number(batch, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

static void put_wide(unsigned char *p, int64_t value)
{
	uint64_t bits = htole64((uint64_t)value);

	memcpy(p, &bits, sizeof(bits));
}

static int64_t get_wide(const unsigned char *p)
{
	uint64_t bits;

	memcpy(&bits, p, sizeof(bits));
	return (int64_t)le64toh(bits);
}

static void put_name(struct gate_batch *batch, struct span name)
{
	size_t len = name.len < GATE_NAME_MAX ? name.len : GATE_NAME_MAX;

	put_number(batch, len);
	if (len)
		memcpy(batch->bytes + batch->len, name.data, len);
	batch->len += len;
}

static bool text_is(const struct gate_batch *batch, unsigned number, struct span text)
{
	const struct text_at *at = &batch->texts[number - 1];

	return at->len == text.len && memcmp(batch->bytes + at->pos, text.data, text.len) == 0;
}

static struct span text_span(const char *text)
{
	return text ? span_of(text, strnlen(text, GATE_TEXT_MAX)) : SPAN("");
}

/* The number it has from now on, 0 when there are too many. */
static unsigned put_text(struct gate_batch *batch, struct span text)
{
	for (unsigned number = 1; number <= batch->text_count; number++) {
		if (text_is(batch, number, text)) {
			put_number(batch, number);
			return number;
		}
	}
	put_number(batch, 0);
	put_name(batch, text);
	if (batch->text_count == GATE_TEXTS)
		return 0;
	batch->texts[batch->text_count++] = (struct text_at){
		.pos = (uint32_t)(batch->len - text.len),
		.len = (uint32_t)text.len,
	};
	return batch->text_count;
}

static bool who_is(const struct gate_batch *batch, unsigned number, const struct gate_who *who,
		   const struct span texts[3])
{
	const struct who_at *at = &batch->askers[number - 1];

	if (at->uid != who->uid || at->gid != who->gid || at->pid != who->pid)
		return false;
	for (int i = 0; i < 3; i++)
		if (!text_is(batch, at->texts[i], texts[i]))
			return false;
	return true;
}

static void who_remember(struct gate_batch *batch, const struct who_at *at)
{
	if (batch->who_count == batch->who_cap) {
		batch->who_cap *= 2;
		batch->askers = mem_realloc(batch->askers, batch->who_cap * sizeof(*batch->askers));
	}
	batch->askers[batch->who_count++] = *at;
}

/*
 * The number `who` has in this batch, 0 when it has none. Only its slot is looked at: another who
 * with the same slot is written again, which costs bytes and nothing else.
 */
static unsigned find_who(struct gate_batch *batch, const struct gate_who *who,
			 const struct span texts[3], uint16_t **ret_slot)
{
	uint64_t hash = map_hash_u64((uint64_t)(uint32_t)who->pid << 32 ^ who->uid);
	uint16_t *slot = &batch->slots[(hash ^ texts[2].len) % WHO_SLOTS];

	*ret_slot = slot;
	return *slot && who_is(batch, *slot, who, texts) ? *slot : 0;
}

static unsigned put_who(struct gate_batch *batch, const struct gate_who *who, unsigned number,
			const struct span texts[3], uint16_t *slot)
{
	struct who_at at = {.uid = who->uid, .gid = who->gid, .pid = who->pid};
	bool all = true;

	put_number(batch, number);
	if (number)
		return number;
	put_number(batch, who->uid);
	put_number(batch, who->gid);
	put_signed(batch, who->pid);
	for (int i = 0; i < 3; i++) {
		at.texts[i] = (uint16_t)put_text(batch, texts[i]);
		all = all && at.texts[i];
	}
	if (batch->who_count == GATE_ASKERS)
		return 0;
	/* The reader counts this one, so we do too, even if it can never be found again. */
	who_remember(batch, &at);
	if (all)
		*slot = (uint16_t)batch->who_count;
	return all ? batch->who_count : 0;
}

/* ---- recording ---- */

/* The batch the next record goes into, with room for it. */
static struct gate_batch *batch_room(struct gate *gate)
{
	struct gate_batch *batch = gate->newest;

	if (!batch || batch->len > BATCH_MAX) {
		batch = mem_alloc0(sizeof(*batch));
		batch->gate = gate;
		batch->first = gate->seq + 1;
		batch->who_cap = 8;
		batch->askers = mem_alloc0(batch->who_cap * sizeof(*batch->askers));
		if (gate->newest)
			gate->newest->next = batch;
		else
			gate->pending = batch;
		gate->newest = batch;
	}
	if (batch->cap - batch->len < RECORD_MAX) {
		batch->cap = batch->cap ? 2 * batch->cap : 2 * RECORD_MAX;
		batch->bytes = mem_realloc(batch->bytes, batch->cap);
	}
	return batch;
}

/* Make the write that is already there cover this one too. */
static bool widen(struct gate_batch *batch, unsigned who, const struct gate_record *record)
{
	for (int i = 0; i < WRITES; i++) {
		const struct write_at *at = &batch->writes[i];
		int64_t start, end;

		if (at->ino != record->ino || at->who != who)
			continue;
		start = get_wide(batch->bytes + at->pos);
		end = start + get_wide(batch->bytes + at->pos + 8);
		if (record->offset + record->size > end)
			end = record->offset + record->size;
		if (record->offset < start)
			start = record->offset;
		put_wide(batch->bytes + at->pos, start);
		put_wide(batch->bytes + at->pos + 8, end - start);
		return true;
	}
	return false;
}

static void put_fields(struct gate_batch *batch, const struct gate_record *record, unsigned who)
{
	bool wide = record->op == GATE_WRITE;
	unsigned fields = (record->parent ? FIELD_PARENT : 0) | (record->ino ? FIELD_INO : 0) |
			  (record->parent2 ? FIELD_PARENT2 : 0) |
			  (record->name.len ? FIELD_NAME : 0) |
			  (record->name2.len ? FIELD_NAME2 : 0) |
			  (record->offset && !wide ? FIELD_OFFSET : 0) |
			  (record->size && !wide ? FIELD_SIZE : 0) | (wide ? FIELD_WIDE : 0);

	put_byte(batch, (unsigned char)fields);
	if (fields & FIELD_PARENT)
		put_signed(batch, record->parent);
	if (fields & FIELD_INO)
		put_signed(batch, record->ino);
	if (fields & FIELD_PARENT2)
		put_signed(batch, record->parent2);
	if (fields & FIELD_NAME)
		put_name(batch, record->name);
	if (fields & FIELD_NAME2)
		put_name(batch, record->name2);
	if (fields & FIELD_OFFSET)
		put_signed(batch, record->offset);
	if (fields & FIELD_SIZE)
		put_signed(batch, record->size);
	if (!wide)
		return;
	if (who && record->ino)
		batch->writes[batch->next_write++ % WRITES] = (struct write_at){
			.ino = record->ino, .who = who, .pos = (uint32_t)batch->len};
	put_wide(batch->bytes + batch->len, record->offset);
	put_wide(batch->bytes + batch->len + 8, record->size);
	batch->len += 16;
}

void gate_record(struct gate *gate, const struct gate_record *record)
{
	struct gate_batch *batch = batch_room(gate);
	const struct span texts[3] = {text_span(record->who.actor), text_span(record->who.backend),
				      text_span(record->who.exec)};
	size_t begin = batch->len;
	int64_t at = clock_stamp();
	uint16_t *slot, length;
	unsigned who = find_who(batch, &record->who, texts, &slot);

	if (record->op == GATE_WRITE && who && record->ino && widen(batch, who, record))
		return;
	batch->len += sizeof(length);
	put_byte(batch, (unsigned char)record->op);
	put_signed(batch, at - batch->at);
	who = put_who(batch, &record->who, who, texts, slot);
	put_fields(batch, record, who);
	length = htole16((uint16_t)(batch->len - begin - sizeof(length)));
	memcpy(batch->bytes + begin, &length, sizeof(length));
	batch->at = at;
	batch->count++;
	gate->seq++;
	gate->pending_bytes += batch->len - begin;
}

/* ---- to the store ---- */

struct gate_batch *gate_take(struct gate *gate)
{
	struct gate_batch *batch = gate->pending;

	gate->pending = NULL;
	gate->newest = NULL;
	gate->pending_bytes = 0;
	return batch;
}

int gate_batch_write(struct gate_batch *batch, struct store *store)
{
	CLEANUP(chain_free) struct chain *chain = chain_new(batch->gate->hash);
	int r = 0;

	for (; batch && r == 0; batch = batch->next) {
		struct span rest = span_of(batch->bytes, batch->len), body;

		while (gate_take_body(&rest, &body))
			chain_add(chain, body);
		memcpy(batch->hash, chain_hash(chain), GATE_HASH);
		batch->written = true;
		r = store_put_audit(store, batch->first, batch->first + batch->count - 1, batch->at,
				    span_of(batch->bytes, batch->len), batch->hash);
	}
	return r;
}

void gate_batch_free(struct gate_batch *batch)
{
	while (batch) {
		struct gate_batch *next = batch->next;

		if (batch->written)
			memcpy(batch->gate->hash, batch->hash, GATE_HASH);
		batch_free(batch);
		batch = next;
	}
}

void gate_put_back(struct gate *gate, struct gate_batch *batch)
{
	struct gate_batch *each = batch;

	for (;; each = each->next) {
		/* It goes as it is: growing its writes would put them before what happened since.
		 */
		memset(each->writes, 0, sizeof(each->writes));
		each->written = false;
		gate->pending_bytes += each->len;
		if (!each->next)
			break;
	}
	each->next = gate->pending;
	gate->pending = batch;
	if (!gate->newest)
		gate->newest = each;
}
