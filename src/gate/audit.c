/* audit.c - reading the records back. A database may be foreign: nothing in it is trusted. */
#include "base/mem.h"
#include "gate/gate.h"
#include "gate/gate_i.h"
#include "store/store.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct who {
	uint32_t uid, gid;
	int32_t pid;
	char texts[3][GATE_TEXT_MAX + 1];
};

/* What the records of a row refer to. */
struct tables {
	unsigned texts, askers;
	char text[GATE_TEXTS][GATE_TEXT_MAX + 1];
	struct who *who; /* grown as they come: a row rarely has many */
	unsigned who_cap;
	struct who once; /* the one without a number */
};

bool gate_take_body(struct span *records, struct span *ret_body)
{
	uint16_t length;

	if (records->len < sizeof(length))
		return false;
	memcpy(&length, records->data, sizeof(length));
	length = le16toh(length);
	if (length > records->len - sizeof(length))
		return false;
	*ret_body = span_of(records->data + sizeof(length), length);
	*records = span_of(records->data + sizeof(length) + length,
			   records->len - sizeof(length) - length);
	return true;
}

static bool get_byte(struct span *body, unsigned *ret_byte)
{
	if (!body->len)
		return false;
	*ret_byte = (unsigned char)body->data[0];
	*body = span_of(body->data + 1, body->len - 1);
	return true;
}

static bool get_number(struct span *body, uint64_t *ret_value)
{
	uint64_t value = 0;
	unsigned byte;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (!get_byte(body, &byte) || (shift == 63 && byte > 1))
			return false;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret_value = value;
			return true;
		}
	}
	return false;
}

static bool get_signed(struct span *body, int64_t *ret_value)
{
	uint64_t bits;

	if (!get_number(body, &bits))
		return false;
	*ret_value = (int64_t)(bits >> 1 ^ (bits & 1 ? UINT64_MAX : 0));
	return true;
}

static bool get_wide(struct span *body, int64_t *ret_value)
{
	uint64_t bits;

	if (body->len < sizeof(bits))
		return false;
	memcpy(&bits, body->data, sizeof(bits));
	*ret_value = (int64_t)le64toh(bits);
	*body = span_of(body->data + sizeof(bits), body->len - sizeof(bits));
	return true;
}

static bool get_name(struct span *body, size_t max, struct span *ret_name)
{
	uint64_t len;

	if (!get_number(body, &len) || len > max || len > body->len)
		return false;
	*ret_name = span_of(body->data, len);
	*body = span_of(body->data + len, body->len - len);
	return true;
}

static bool get_text(struct span *body, struct tables *tables, char ret_text[GATE_TEXT_MAX + 1])
{
	struct span text;
	uint64_t number;

	if (!get_number(body, &number) || number > tables->texts)
		return false;
	if (number) {
		memcpy(ret_text, tables->text[number - 1], GATE_TEXT_MAX + 1);
		return true;
	}
	if (!get_name(body, GATE_TEXT_MAX, &text) || memchr(text.data, 0, text.len))
		return false;
	memset(ret_text, 0, GATE_TEXT_MAX + 1);
	memcpy(ret_text, text.data, text.len);
	if (tables->texts < GATE_TEXTS)
		memcpy(tables->text[tables->texts++], ret_text, GATE_TEXT_MAX + 1);
	return true;
}

static const struct who *get_who(struct span *body, struct tables *tables)
{
	struct who *who = &tables->once;
	uint64_t number, uid, gid;
	int64_t pid;

	if (!get_number(body, &number) || number > tables->askers)
		return NULL;
	if (number)
		return &tables->who[number - 1];
	if (!get_number(body, &uid) || uid > UINT32_MAX || !get_number(body, &gid) ||
	    gid > UINT32_MAX || !get_signed(body, &pid) || pid > INT32_MAX || pid < INT32_MIN)
		return NULL;
	who->uid = (uint32_t)uid;
	who->gid = (uint32_t)gid;
	who->pid = (int32_t)pid;
	for (int i = 0; i < 3; i++)
		if (!get_text(body, tables, who->texts[i]))
			return NULL;
	if (tables->askers == GATE_ASKERS)
		return who;
	if (tables->askers == tables->who_cap) {
		tables->who_cap = tables->who_cap ? 2 * tables->who_cap : 8;
		tables->who = mem_realloc(tables->who, tables->who_cap * sizeof(*tables->who));
	}
	tables->who[tables->askers] = *who;
	return &tables->who[tables->askers++];
}

/* `record->at` is the one of the record before, or 0. */
static bool get_record(struct span body, struct tables *tables, struct gate_record *record)
{
	const struct who *who;
	unsigned op, fields;
	int64_t since, at;

	if (!get_byte(&body, &op) || op >= GATE_OPS || !get_signed(&body, &since) ||
	    __builtin_add_overflow(record->at, since, &at))
		return false;
	who = get_who(&body, tables);
	if (!who || !get_byte(&body, &fields))
		return false;
	*record = (struct gate_record){
		.seq = record->seq,
		.at = at,
		.op = (enum gate_op)op,
		.who = {.uid = who->uid,
			.gid = who->gid,
			.pid = who->pid,
			.actor = who->texts[0],
			.backend = who->texts[1],
			.exec = who->texts[2]},
	};
	if (((fields & FIELD_PARENT) && !get_signed(&body, &record->parent)) ||
	    ((fields & FIELD_INO) && !get_signed(&body, &record->ino)) ||
	    ((fields & FIELD_PARENT2) && !get_signed(&body, &record->parent2)) ||
	    ((fields & FIELD_NAME) && !get_name(&body, GATE_NAME_MAX, &record->name)) ||
	    ((fields & FIELD_NAME2) && !get_name(&body, GATE_NAME_MAX, &record->name2)) ||
	    ((fields & FIELD_OFFSET) && !get_signed(&body, &record->offset)) ||
	    ((fields & FIELD_SIZE) && !get_signed(&body, &record->size)) ||
	    ((fields & FIELD_WIDE) &&
	     (!get_wide(&body, &record->offset) || !get_wide(&body, &record->size))))
		return false;
	return body.len == 0;
}

static void tables_free(struct tables **tables)
{
	free((*tables)->who);
	free(*tables);
}

int gate_decode(uint64_t first, uint64_t last, struct span records,
		int (*fn)(void *arg, const struct gate_record *record), void *arg)
{
	CLEANUP(tables_free) struct tables *tables = mem_alloc(sizeof(*tables));
	struct gate_record record = {.seq = first};
	struct span body;
	int r;

	tables->texts = tables->askers = tables->who_cap = 0;
	tables->who = NULL;
	while (records.len) {
		if (record.seq > last || !gate_take_body(&records, &body) ||
		    !get_record(body, tables, &record))
			return -EUCLEAN;
		r = fn(arg, &record);
		if (r != 0)
			return r;
		record.seq++;
	}
	return record.seq == last + 1 ? 0 : -EUCLEAN;
}

struct each {
	uint64_t after;
	int (*fn)(void *arg, const struct gate_record *record);
	void *arg;
};

static int each_record(void *arg, const struct gate_record *record)
{
	const struct each *each = arg;

	return record->seq > each->after ? each->fn(each->arg, record) : 0;
}

static int each_row(void *arg, uint64_t first, uint64_t last, struct span records,
		    const unsigned char hash[GATE_HASH])
{
	(void)hash;
	return gate_decode(first, last, records, each_record, arg);
}

int gate_each(struct store *store, uint64_t after,
	      int (*fn)(void *arg, const struct gate_record *record), void *arg)
{
	struct each each = {after, fn, arg};

	return store_each_audit(store, after, each_row, &each);
}

/* ---- verify ---- */

struct verify {
	struct chain *chain;
	uint64_t seq; /* of the last record */
	bool told;    /* `err` says what is wrong */
	struct err *err;
};

static int ignore_record(void *arg, const struct gate_record *record)
{
	(void)arg;
	(void)record;
	return 0;
}

static int verify_row(void *arg, uint64_t first, uint64_t last, struct span records,
		      const unsigned char hash[GATE_HASH])
{
	struct verify *verify = arg;
	struct span rest = records, body;

	verify->told = true;
	if (first != verify->seq + 1)
		return err_set(verify->err, EUCLEAN,
			       "audit: record %" PRIu64 " is missing, %" PRIu64 " follows %" PRIu64,
			       verify->seq + 1, first, verify->seq);
	if (last < first || gate_decode(first, last, records, ignore_record, NULL) < 0)
		return err_set(verify->err, EUCLEAN,
			       "audit: records %" PRIu64 " to %" PRIu64 " cannot be read", first,
			       last);
	while (gate_take_body(&rest, &body))
		chain_add(verify->chain, body);
	if (memcmp(chain_hash(verify->chain), hash, GATE_HASH) != 0)
		return err_set(verify->err, EUCLEAN,
			       "audit: records %" PRIu64 " to %" PRIu64
			       " are not those that were written",
			       first, last);
	verify->told = false;
	verify->seq = last;
	return 0;
}

static void verify_end(struct verify *verify)
{
	chain_free(&verify->chain);
}

int gate_verify(struct store *store, uint64_t *ret_records, struct err *err)
{
	static const unsigned char zeros[GATE_HASH];
	CLEANUP(verify_end) struct verify verify = {.chain = chain_new(zeros), .err = err};
	struct store_info info;
	int r = store_each_audit(store, 0, verify_row, &verify);

	if (r < 0)
		return verify.told ? r : err_set(err, -r, "the audit cannot be read");
	store_get_info(store, &info);
	if (info.audit_seq != verify.seq)
		return err_set(err, EUCLEAN,
			       "audit: ends at record %" PRIu64 " instead of %" PRIu64, verify.seq,
			       info.audit_seq);
	if (memcmp(chain_hash(verify.chain), info.audit_hash, GATE_HASH) != 0)
		return err_set(err, EUCLEAN, "audit: the last record is not the one recorded");
	*ret_records = verify.seq;
	return 0;
}
