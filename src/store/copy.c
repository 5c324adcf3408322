/* copy.c - see copy.h. */
#include "store/copy.h"

#include "base/fd.h"
#include "store/head.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

void copy_clear(struct copy *copy)
{
	free(copy->dead);
	copy->dead = NULL;
	copy->dead_count = copy->dead_cap = 0;
}

/* ---- bytes ---- */

/* A piece without holes. */
static int copy_piece(int in, int64_t in_pos, int out, int64_t out_pos, int64_t len)
{
	CLEANUP(mem_free) char *bytes = NULL;

	while (len > 0) {
		ssize_t n = copy_file_range(in, &in_pos, out, &out_pos, (size_t)len, 0);
		int r;

		if (n == 0)
			return 0; /* the end of the file: nothing there */
		if (n > 0) {
			len -= n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
			return -errno;
		if (!bytes)
			bytes = mem_alloc(STORE_UNIT);
		n = fd_pread_full(in, bytes, len < STORE_UNIT ? (size_t)len : STORE_UNIT, in_pos);
		if (n <= 0)
			return (int)n;
		r = fd_pwrite_all(out, bytes, (size_t)n, out_pos);
		if (r < 0)
			return r;
		in_pos += n;
		out_pos += n;
		len -= n;
	}
	return 0;
}

int copy_bytes(int in, int64_t in_pos, int out, int64_t out_pos, int64_t len)
{
	int64_t end = in_pos + len, shift = out_pos - in_pos;

	while (in_pos < end) {
		int64_t from = lseek(in, in_pos, SEEK_DATA), to;
		int r;

		if (from < 0 && errno == ENXIO)
			return 0;
		if (from < 0)
			return -errno;
		if (from >= end)
			return 0;
		to = lseek(in, from, SEEK_HOLE);
		if (to < 0)
			return -errno;
		if (to > end)
			to = end;
		r = copy_piece(in, from, out, from + shift, to - from);
		if (r < 0)
			return r;
		in_pos = to;
	}
	return 0;
}

/* ---- rows ---- */

static int put(sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);

	sqlite3_reset(stmt);
	return rc == SQLITE_DONE ? 0 : db_error(sqlite3_db_handle(stmt), rc);
}

static bool is_dead(const struct copy *copy, int64_t ino)
{
	size_t low = 0, high = copy->dead_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (copy->dead[middle] == ino)
			return true;
		if (copy->dead[middle] < ino)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* What is done with a row: 1 it goes, 0 it is left out, or an error. */

static int take_node(struct copy *copy, sqlite3_stmt *row)
{
	struct store_node node;
	int r = row_node(row, 0, &node);

	if (r < 0 || node.mode)
		return r < 0 ? r : 1;
	if (copy->dead_count && node.ino <= copy->dead[copy->dead_count - 1])
		return -EUCLEAN;
	if (copy->dead_count == copy->dead_cap) {
		copy->dead_cap = copy->dead_cap ? 2 * copy->dead_cap : 256;
		copy->dead = mem_realloc(copy->dead, copy->dead_cap * sizeof(*copy->dead));
	}
	copy->dead[copy->dead_count++] = node.ino;
	return copy->tombstones;
}

static int take_dirent(struct copy *copy, sqlite3_stmt *row)
{
	int64_t parent = 0, ino = 0;
	struct span name = SPAN_EMPTY;
	int r = column_int(row, 0, STORE_ROOT, INT64_MAX, &parent);

	if (r == 0)
		r = column_span(row, 1, STORE_NAME_MAX, &name);
	if (r == 0)
		r = column_int(row, 2, 0, INT64_MAX, &ino);
	if (r < 0 || !name_valid(name))
		return r < 0 ? r : -EUCLEAN;
	return ino != 0 || copy->tombstones;
}

static int take_inline(struct copy *copy, sqlite3_stmt *row)
{
	int64_t ino;
	struct span bytes;
	int r = column_int(row, 0, STORE_ROOT, INT64_MAX, &ino);

	if (r < 0)
		return r;
	if (is_dead(copy, ino))
		return 0;
	if (sqlite3_column_type(row, 1) == SQLITE_NULL)
		return copy->tombstones;
	r = column_span(row, 1, STORE_INLINE_MAX, &bytes);
	return r < 0 ? r : 1;
}

static int take_xattr(struct copy *copy, sqlite3_stmt *row)
{
	int64_t ino;
	struct span name, value;
	int r = column_int(row, 0, STORE_ROOT, INT64_MAX, &ino);

	if (r == 0)
		r = column_span(row, 1, STORE_NAME_MAX, &name);
	if (r < 0)
		return r;
	if (is_dead(copy, ino))
		return 0;
	if (sqlite3_column_type(row, 2) == SQLITE_NULL)
		return copy->tombstones;
	r = column_span(row, 2, STORE_VALUE_MAX, &value);
	return r < 0 ? r : 1;
}

static int take_audit(struct copy *copy, sqlite3_stmt *row)
{
	int64_t first, last, at;
	struct span records, hash;
	int r = column_int(row, 0, 0, INT64_MAX, &first);

	(void)copy;
	if (r == 0)
		r = column_int(row, 1, first, INT64_MAX, &last);
	if (r == 0)
		r = column_int(row, 2, INT64_MIN, INT64_MAX, &at);
	if (r == 0)
		r = column_span(row, 3, STORE_AUDIT_MAX, &records);
	if (r == 0)
		r = column_span(row, 4, 32, &hash);
	return r < 0 ? r : 1;
}

static int take_meta(struct copy *copy, sqlite3_stmt *row)
{
	struct span value;
	int r = column_span(row, 1, STORE_VALUE_MAX, &value);

	(void)copy;
	if (r < 0 || sqlite3_column_type(row, 0) != SQLITE_TEXT)
		return -EUCLEAN;
	return 1;
}

static int take_orphan(struct copy *copy, sqlite3_stmt *row)
{
	int64_t ino;
	int r = column_int(row, 0, STORE_ROOT, INT64_MAX, &ino);

	(void)copy;
	return r < 0 ? r : 1;
}

struct table {
	enum stmt walk, put;
	int keys, columns;
	bool newest_only; /* not layered: every head has its own */
	int (*take)(struct copy *copy, sqlite3_stmt *row);
};

/* node first: it fills `dead`. */
static const struct table tables[] = {
	{STMT_WALK_NODE, STMT_PUT_NODE, 1, 12, false, take_node},
	{STMT_WALK_DIRENT, STMT_PUT_DIRENT, 2, 3, false, take_dirent},
	{STMT_WALK_INLINE, STMT_PUT_INLINE, 1, 2, false, take_inline},
	{STMT_WALK_XATTR, STMT_PUT_XATTR, 2, 3, false, take_xattr},
	{STMT_EACH_AUDIT, STMT_PUT_AUDIT, 1, 5, false, take_audit},
	{STMT_WALK_META, STMT_PUT_META, 1, 2, true, take_meta},
	{STMT_EACH_ORPHAN, STMT_PUT_ORPHAN, 1, 1, true, take_orphan},
};

static int copy_table(struct copy *copy, const struct table *table)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	sqlite3_stmt *stmt = NULL;
	const int64_t all = 0; /* of EACH_AUDIT; the others have no parameter */
	size_t last = table->newest_only ? copy->first + 1 : copy->last;
	int r;

	r = merge_begin(&merge, (struct range){copy->from, copy->side, copy->first, last},
			table->walk, &all);
	if (r == 0)
		r = db_prepare(copy->to, table->put, &stmt);
	while (r == 0) {
		r = merge_next(&merge);
		if (r <= 0)
			break;
		r = table->take(copy, merge_row(&merge));
		if (r > 0)
			r = head_copy_row(merge_row(&merge), stmt, table->columns);
	}
	sqlite3_finalize(stmt);
	return r;
}

/* ---- units ---- */

/* Write the units that were collected in a row. */
static int flush_run(struct copy *copy)
{
	struct run run = copy->run;
	int fd;

	copy->run.count = 0;
	if (run.count == 0)
		return 0;
	fd = data_layer_fd(copy->from, copy->run_layer);
	if (fd < 0)
		return fd;
	return copy_bytes(fd, run.pos * STORE_UNIT, copy->data_fd, copy->run_to * STORE_UNIT,
			  run.count * STORE_UNIT);
}

/* One unit into the new extent file. */
static int add_unit(struct copy *copy, sqlite3_stmt *stmt, int64_t pos, size_t layer)
{
	int r = 0;

	sqlite3_bind_int64(stmt, 3, copy->data_end);
	if (copy->run.count == 0 || copy->run_layer != layer ||
	    copy->run.pos + copy->run.count != pos || copy->run.count >= 256) {
		r = flush_run(copy);
		copy->run = (struct run){pos, 0};
		copy->run_layer = layer;
		copy->run_to = copy->data_end;
	}
	if (copy->data_end >= STORE_UNITS_MAX)
		return -EFBIG;
	copy->run.count++;
	copy->data_end++;
	return r;
}

/* One unit as a row; zeros at its end are left out. */
static int add_chunk(struct copy *copy, sqlite3_stmt *stmt, int64_t pos, size_t layer, char *bytes)
{
	struct store_unit unit = {.pos = pos, .layer = (int)layer};
	size_t len = STORE_UNIT;
	int r = store_data_read(copy->from, unit, 0, bytes, STORE_UNIT);

	while (len && !bytes[len - 1])
		len--;
	bind_span(stmt, 3, span_of(bytes, len));
	return r;
}

static int copy_units(struct copy *copy)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	CLEANUP(mem_free) char *bytes = copy->data_fd < 0 ? mem_alloc(STORE_UNIT) : NULL;
	sqlite3_stmt *stmt = NULL;
	int64_t ino = 0, idx = 0, pos = STORE_HOLE;
	int r;

	r = merge_begin(&merge, (struct range){copy->from, copy->side, copy->first, copy->last},
			STMT_WALK_EXTENT, NULL);
	if (r == 0)
		r = db_prepare(copy->to, bytes ? STMT_PUT_CHUNK : STMT_PUT_UNIT, &stmt);
	while (r == 0) {
		sqlite3_stmt *row;

		r = merge_next(&merge);
		if (r <= 0)
			break;
		row = merge_row(&merge);
		r = column_int(row, 0, STORE_ROOT, INT64_MAX, &ino);
		if (r == 0)
			r = column_int(row, 1, 0, STORE_UNITS_MAX - 1, &idx);
		if (r == 0)
			r = column_int(row, 2, STORE_HOLE, STORE_UNITS_MAX - 1, &pos);
		if (r < 0)
			break;
		if (is_dead(copy, ino) || (pos == STORE_HOLE && !copy->tombstones))
			continue;
		sqlite3_bind_int64(stmt, 1, ino);
		sqlite3_bind_int64(stmt, 2, idx);
		if (pos == STORE_HOLE)
			sqlite3_bind_int64(stmt, 3, STORE_HOLE);
		else if (bytes)
			r = add_chunk(copy, stmt, pos, merge_layer(&merge), bytes);
		else
			r = add_unit(copy, stmt, pos, merge_layer(&merge));
		if (r == 0)
			r = put(stmt);
	}
	sqlite3_finalize(stmt);
	return r < 0 ? r : flush_run(copy);
}

/* The rows of an exported file back into units. */
static int copy_chunks(struct copy *copy)
{
	CLEANUP(use_end) struct use use = USE_INIT;
	sqlite3_stmt *stmt = NULL;
	int64_t ino = 0, idx = 0;
	struct span bytes = SPAN_EMPTY;
	int r = use_begin(&use, copy->from, copy->first, copy->side, STMT_WALK_CHUNK);

	if (r == 0)
		r = db_prepare(copy->to, STMT_PUT_UNIT, &stmt);
	while (r == 0) {
		r = use_step(&use);
		if (r <= 0)
			break;
		r = column_int(use.stmt, 0, STORE_ROOT, INT64_MAX, &ino);
		if (r == 0)
			r = column_int(use.stmt, 1, 0, STORE_UNITS_MAX - 1, &idx);
		if (r == 0)
			r = column_span(use.stmt, 2, STORE_UNIT, &bytes);
		if (r == 0 && copy->data_end >= STORE_UNITS_MAX)
			r = -EFBIG;
		if (r < 0)
			break;
		r = fd_pwrite_all(copy->data_fd, bytes.data, bytes.len,
				  copy->data_end * STORE_UNIT);
		if (r < 0)
			break;
		sqlite3_bind_int64(stmt, 1, ino);
		sqlite3_bind_int64(stmt, 2, idx);
		sqlite3_bind_int64(stmt, 3, copy->data_end++);
		r = put(stmt);
	}
	sqlite3_finalize(stmt);
	return r;
}

int copy_all(struct copy *copy)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(tables) && r == 0; i++)
		r = copy_table(copy, &tables[i]);
	if (r == 0)
		r = copy->from->layers[copy->first].portable ? copy_chunks(copy) : copy_units(copy);
	return r;
}
