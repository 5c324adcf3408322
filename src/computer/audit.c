/* audit.c - reading the audit: rows travel as they are stored, the caller takes them apart. */
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "computer/computer_i.h"
#include "store/store.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PIECE_MAX (4 << 20) /* bytes collected while everybody is held off */
#define FOLLOW_MS 200
#define DEPTH_MAX 256

/* ---- at the owner ---- */

struct row {
	uint64_t first, last;
	size_t pos, len;
};

struct piece {
	uint64_t after;
	struct buf rows;  /* struct row */
	struct buf bytes; /* their records */
};

static void piece_clear(struct piece *piece)
{
	buf_clear(&piece->rows);
	buf_clear(&piece->bytes);
}

static int collect_row(void *arg, uint64_t first, uint64_t last, struct span records,
		       const unsigned char hash[32])
{
	struct piece *piece = arg;
	const struct row row = {first, last, piece->bytes.len, records.len};
	int r;

	(void)hash;
	r = buf_add(&piece->bytes, records.data, records.len);
	if (r == 0)
		r = buf_add(&piece->rows, &row, sizeof(row));
	if (r < 0)
		return r;
	return piece->bytes.len > PIECE_MAX;
}

static int collect_piece(void *arg, struct store *store)
{
	struct piece *piece = arg;

	return store_each_audit(store, piece->after, collect_row, piece);
}

/* Send what there is after *after, which moves on. 1: perhaps there is more. */
static int send_piece(struct call *call, uint64_t *after)
{
	CLEANUP(piece_clear)
	struct piece piece = {
		.after = *after,
		.rows = BUF_INIT(FRAME_REPLY_MAX),
		.bytes = BUF_INIT(FRAME_REPLY_MAX),
	};
	int r = vfs_exclusive(call->view->vfs, collect_piece, &piece);

	if (r < 0)
		return err_set(call->err, -r, "the audit cannot be read");
	for (size_t pos = 0; pos < piece.rows.len; pos += sizeof(struct row)) {
		struct row row;
		int stop;

		memcpy(&row, piece.rows.data + pos, sizeof(row));
		stop = call_event_take(call,
				       json_pack("{s:I,s:I}", "first", (json_int_t)row.first,
						 "last", (json_int_t)row.last),
				       span_of(piece.bytes.data + row.pos, row.len));
		if (stop)
			return stop < 0 ? stop : -ECANCELED;
		*after = row.last;
	}
	return r;
}

/* Wait until something may have been recorded. True: the caller wants no more. */
static bool wait_for_more(struct call *call, uint64_t *commits)
{
	struct vfs_stats stats;

	for (;;) {
		if (call_wait_stop(call, FOLLOW_MS))
			return true;
		(void)!vfs_flush(call->view->vfs, false);
		vfs_get_stats(call->view->vfs, &stats);
		if (stats.commits != *commits) {
			*commits = stats.commits;
			return false;
		}
	}
}

int op_audit(struct call *call)
{
	uint64_t after = (uint64_t)json_get_int(call->args, "after"), commits = 0;
	bool follow = json_get_bool(call->args, "follow");
	int r;

	do {
		do
			r = send_piece(call, &after);
		while (r == 1);
	} while (r == 0 && follow && !wait_for_more(call, &commits));
	return r;
}

static int verify(void *arg, struct store *store)
{
	struct call *call = arg;
	uint64_t records;
	int r = gate_verify(store, &records, call->err);

	if (r == 0)
		json_object_set_new(call->reply, "records", json_integer((json_int_t)records));
	return r;
}

int op_audit_verify(struct call *call)
{
	return vfs_exclusive(call->view->vfs, verify, call);
}

/* ---- at the caller: where was it? The records themselves tell, read from the first ---- */

struct place {
	struct map_node node;
	int64_t ino, parent;
	size_t len;
	char name[];
};

struct reader {
	struct map places;
	uint64_t after;
	int (*fn)(void *arg, const struct audit_entry *entry);
	void *arg;
	struct err *err;
};

static struct place *place_find(const struct map *places, int64_t ino)
{
	for (struct map_node *n = map_first(places, map_hash_u64((uint64_t)ino)); n;
	     n = map_next(n)) {
		struct place *place = map_entry(n, struct place, node);

		if (place->ino == ino)
			return place;
	}
	return NULL;
}

static void place_forget(struct map *places, struct place *place)
{
	if (!place)
		return;
	map_del(places, &place->node);
	free(place);
}

static void place_set(struct map *places, int64_t ino, int64_t parent, struct span name)
{
	struct place *place = mem_alloc(sizeof(*place) + name.len);

	place_forget(places, place_find(places, ino));
	*place = (struct place){.ino = ino, .parent = parent, .len = name.len};
	memcpy(place->name, name.data, name.len);
	map_add(places, &place->node, map_hash_u64((uint64_t)ino));
}

/* Put the path of an inode in front of what is in `path`. False: it is not known. */
static bool place_path(const struct map *places, int64_t ino, struct span last,
		       struct buf *ret_path)
{
	const struct place *chain[DEPTH_MAX];
	int depth = 0, r = 0;

	while (ino != VFS_ROOT) {
		if (depth == DEPTH_MAX)
			return false;
		chain[depth] = place_find(places, ino);
		if (!chain[depth])
			return false;
		ino = chain[depth++]->parent;
	}
	ret_path->len = 0;
	while (depth-- > 0 && r == 0) {
		r = buf_add(ret_path, "/", 1);
		if (r == 0)
			r = buf_add(ret_path, chain[depth]->name, chain[depth]->len);
	}
	if (r == 0 && (last.len || !ret_path->len))
		r = buf_add(ret_path, "/", 1);
	if (r == 0)
		r = buf_add(ret_path, last.data, last.len);
	return r == 0;
}

static bool names_something(enum gate_op op)
{
	return op == GATE_CREATE || op == GATE_LINK || op == GATE_MKDIR || op == GATE_MKNOD ||
	       op == GATE_SYMLINK;
}

/* Learn from a record where its inode is from now on. */
static void learn(struct map *places, const struct gate_record *record)
{
	struct place *place;

	if (record->op == GATE_RENAME && record->ino) {
		place_set(places, record->ino, record->parent2, record->name2);
	} else if (names_something(record->op) && record->ino && record->name.len) {
		place_set(places, record->ino, record->parent, record->name);
	} else if (record->op == GATE_UNLINK) {
		place = place_find(places, record->ino);
		if (place && place->parent == record->parent &&
		    span_eq(span_of(place->name, place->len), record->name))
			place_forget(places, place);
	}
}

/* Is `parent` with `name` what the record is about, or is it `ino` alone? */
static bool has_places(enum gate_op op)
{
	return op != GATE_EXEC && op != GATE_FORK && op != GATE_IMPORT && op != GATE_MOUNT &&
	       op != GATE_REPAIR && op != GATE_RESTORE && op != GATE_SNAPSHOT && op != GATE_UMOUNT;
}

static int read_record(void *arg, const struct gate_record *record)
{
	struct reader *reader = arg;
	CLEANUP(buf_clear) struct buf path = BUF_INIT(1 << 20);
	CLEANUP(buf_clear) struct buf path2 = BUF_INIT(1 << 20);
	struct audit_entry entry = {.record = record};
	int r = 0;

	if (record->seq > reader->after) {
		int64_t at = record->parent ? record->parent : record->ino;
		struct span last = record->parent ? record->name : SPAN_EMPTY;

		if (has_places(record->op) && at && place_path(&reader->places, at, last, &path))
			entry.path = span_of(path.data, path.len);
		if (record->parent2 &&
		    place_path(&reader->places, record->parent2, record->name2, &path2))
			entry.path2 = span_of(path2.data, path2.len);
		r = reader->fn(reader->arg, &entry);
	}
	learn(&reader->places, record);
	return r;
}

static int read_rows(void *arg, const json_t *head, struct span tail)
{
	struct reader *reader = arg;
	int r = gate_decode((uint64_t)json_get_int(head, "first"),
			    (uint64_t)json_get_int(head, "last"), tail, read_record, reader);

	if (r == -EUCLEAN)
		return err_set(reader->err, EUCLEAN,
			       "the audit is damaged between records %lld and %lld",
			       (long long)json_get_int(head, "first"),
			       (long long)json_get_int(head, "last"));
	return r;
}

int computer_audit(struct computer *computer, const struct audit_options *options,
		   int (*fn)(void *arg, const struct audit_entry *entry), void *arg,
		   struct err *err)
{
	struct err own = ERR_INIT;
	struct reader reader = {
		.places = MAP_INIT,
		.after = options->after,
		.fn = fn,
		.arg = arg,
		.err = err ? err : &own,
	};
	const struct call_request request = {
		.op = "audit",
		.args = json_pack("{s:i,s:b}", "after", 0, "follow", options->follow),
		.control_fd = options->follow ? options->cancel_fd : -1,
		.event = read_rows,
		.arg = &reader,
	};
	int r = computer_call(computer, &request, NULL, reader.err);

	map_for_each (node, &reader.places)
		place_forget(&reader.places, map_entry(node, struct place, node));
	map_clear(&reader.places);
	return r;
}

int computer_audit_verify(struct computer *computer, uint64_t *ret_records, struct err *err)
{
	json_t *reply = NULL;
	int r = computer_ask_take(computer, "audit_verify", json_object(), &reply, err);

	if (r < 0)
		return r;
	*ret_records = (uint64_t)json_get_int(reply, "records");
	json_decref(reply);
	return 0;
}
