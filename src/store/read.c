/* read.c - looking rows up, through the layers. */
#include "store/store_i.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>

int column_int(sqlite3_stmt *stmt, int column, int64_t min, int64_t max, int64_t *ret_value)
{
	int64_t value;

	if (sqlite3_column_type(stmt, column) != SQLITE_INTEGER)
		return -EUCLEAN;
	value = sqlite3_column_int64(stmt, column);
	if (value < min || value > max)
		return -EUCLEAN;
	*ret_value = value;
	return 0;
}

int column_span(sqlite3_stmt *stmt, int column, size_t max, struct span *ret_span)
{
	const void *bytes;
	int len;

	if (sqlite3_column_type(stmt, column) != SQLITE_BLOB)
		return -EUCLEAN;
	bytes = sqlite3_column_blob(stmt, column);
	len = sqlite3_column_bytes(stmt, column);
	if (len < 0 || (size_t)len > max)
		return -EUCLEAN;
	*ret_span = span_of(bytes, (size_t)len);
	return 0;
}

bool name_valid(struct span name)
{
	if (name.len == 0 || name.len > STORE_NAME_MAX || memchr(name.data, '/', name.len) ||
	    memchr(name.data, 0, name.len))
		return false;
	return name.data[0] != '.' || (name.len > 1 && (name.len > 2 || name.data[1] != '.'));
}

static bool mode_valid(int64_t mode)
{
	return (mode & ~(int64_t)(S_IFMT | 07777)) == 0 &&
	       (S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISCHR(mode) || S_ISBLK(mode) ||
		S_ISFIFO(mode) || S_ISSOCK(mode));
}

/* A tombstone has mode 0 and is valid. */
int row_node(sqlite3_stmt *stmt, int from, struct store_node *ret_node)
{
	int64_t value[12];

	for (int i = 0; i < 12; i++) {
		if (sqlite3_column_type(stmt, from + i) != SQLITE_INTEGER)
			return -EUCLEAN;
		value[i] = sqlite3_column_int64(stmt, from + i);
	}
	if (value[0] < STORE_ROOT || value[0] > STORE_INO_MAX ||
	    (value[1] && !mode_valid(value[1])) || value[2] < 0 || value[2] > UINT32_MAX ||
	    value[3] < 0 || value[3] > UINT32_MAX || value[4] < 0 || value[4] > UINT32_MAX ||
	    value[6] < 0 || value[6] > STORE_SIZE_MAX || value[11] < 0 || value[11] > UINT32_MAX)
		return -EUCLEAN;
	*ret_node = (struct store_node){
		.ino = value[0],
		.mode = (uint32_t)value[1],
		.uid = (uint32_t)value[2],
		.gid = (uint32_t)value[3],
		.nlink = (uint32_t)value[4],
		.rdev = (uint64_t)value[5],
		.size = value[6],
		.atime = value[7],
		.mtime = value[8],
		.ctime = value[9],
		.btime = value[10],
		.flags = (uint32_t)value[11],
	};
	return 0;
}

int find_node(struct store *store, enum side side, size_t first, int64_t ino,
	      struct store_node *ret_node)
{
	for (size_t i = first; i < store->count; i++) {
		CLEANUP(use_end) struct use use = USE_INIT;
		int r = use_begin(&use, store, i, side, STMT_GET_NODE);

		if (r < 0)
			return r;
		sqlite3_bind_int64(use.stmt, 1, ino);
		r = use_step(&use);
		if (r == 1) {
			r = row_node(use.stmt, 0, ret_node);
			return r < 0 ? r : ret_node->mode != 0;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int find_dirent(struct store *store, enum side side, size_t first, int64_t parent, struct span name,
		int64_t *ret_ino)
{
	for (size_t i = first; i < store->count; i++) {
		CLEANUP(use_end) struct use use = USE_INIT;
		int r = use_begin(&use, store, i, side, STMT_GET_DIRENT);

		if (r < 0)
			return r;
		sqlite3_bind_int64(use.stmt, 1, parent);
		bind_span(use.stmt, 2, name);
		r = use_step(&use);
		if (r == 1) {
			r = column_int(use.stmt, 0, 0, INT64_MAX, ret_ino);
			return r < 0 ? r : *ret_ino != 0;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* A value that is one blob, appended to `value` unless that is NULL. 1, 0 (a tombstone), error. */
static int take_value(struct use *use, size_t max, struct buf *value)
{
	struct span span;
	int r;

	if (sqlite3_column_type(use->stmt, 0) == SQLITE_NULL)
		return 0;
	r = column_span(use->stmt, 0, max, &span);
	if (r == 0 && value)
		r = buf_add(value, span.data, span.len);
	return r < 0 ? r : 1;
}

int find_inline(struct store *store, enum side side, size_t first, int64_t ino, struct buf *content)
{
	for (size_t i = first; i < store->count; i++) {
		CLEANUP(use_end) struct use use = USE_INIT;
		int r = use_begin(&use, store, i, side, STMT_GET_INLINE);

		if (r < 0)
			return r;
		sqlite3_bind_int64(use.stmt, 1, ino);
		r = use_step(&use);
		if (r == 1)
			return take_value(&use, STORE_INLINE_MAX, content);
		if (r < 0)
			return r;
	}
	return 0;
}

int find_xattr(struct store *store, enum side side, size_t first, int64_t ino, struct span name,
	       struct buf *value)
{
	for (size_t i = first; i < store->count; i++) {
		CLEANUP(use_end) struct use use = USE_INIT;
		int r = use_begin(&use, store, i, side, STMT_GET_XATTR);

		if (r < 0)
			return r;
		sqlite3_bind_int64(use.stmt, 1, ino);
		bind_span(use.stmt, 2, name);
		r = use_step(&use);
		if (r == 1)
			return take_value(&use, STORE_VALUE_MAX, value);
		if (r < 0)
			return r;
	}
	return 0;
}

int find_unit(struct store *store, enum side side, size_t first, int64_t ino, int64_t idx,
	      struct store_unit *ret_unit)
{
	for (size_t i = first; i < store->count; i++) {
		CLEANUP(use_end) struct use use = USE_INIT;
		int64_t pos = STORE_HOLE;
		int r = use_begin(&use, store, i, side, STMT_GET_UNIT);

		if (r < 0)
			return r;
		sqlite3_bind_int64(use.stmt, 1, ino);
		sqlite3_bind_int64(use.stmt, 2, idx);
		r = use_step(&use);
		if (r == 1) {
			r = column_int(use.stmt, 0, STORE_HOLE, STORE_UNITS_MAX - 1, &pos);
			*ret_unit = (struct store_unit){.pos = pos, .layer = (int)i};
			return r < 0 ? r : pos != STORE_HOLE;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int store_get_node(struct store *store, int64_t ino, struct store_node *ret_node)
{
	struct store_node node;
	int r = find_node(store, READER, 0, ino, &node);

	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	*ret_node = node;
	return 0;
}

int store_get_dirent(struct store *store, int64_t parent, struct span name, int64_t *ret_ino)
{
	int64_t ino;
	int r = find_dirent(store, READER, 0, parent, name, &ino);

	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	*ret_ino = ino;
	return 0;
}

int store_get_inline(struct store *store, int64_t ino, struct buf *content)
{
	int r = find_inline(store, READER, 0, ino, content);

	return r < 0 ? r : 0;
}

int store_get_xattr(struct store *store, int64_t ino, struct span name, struct buf *value)
{
	int r = find_xattr(store, READER, 0, ino, name, value);

	if (r < 0)
		return r;
	return r ? 0 : -ENODATA;
}

int store_get_units(struct store *store, int64_t ino, int64_t first, size_t count,
		    struct store_unit *ret_units)
{
	const int unknown = -1;
	size_t left = count;

	for (size_t i = 0; i < count; i++)
		ret_units[i] = (struct store_unit){.pos = STORE_HOLE, .layer = unknown};
	for (size_t layer = 0; layer < store->count && left; layer++) {
		CLEANUP(use_end) struct use use = USE_INIT;
		int r = use_begin(&use, store, layer, READER, STMT_EACH_UNIT);

		if (r < 0)
			return r;
		sqlite3_bind_int64(use.stmt, 1, ino);
		sqlite3_bind_int64(use.stmt, 2, first);
		sqlite3_bind_int64(use.stmt, 3, first + (int64_t)count);
		for (r = use_step(&use); r == 1; r = use_step(&use)) {
			int64_t idx, pos;

			r = column_int(use.stmt, 0, first, first + (int64_t)count - 1, &idx);
			if (r == 0)
				r = column_int(use.stmt, 1, STORE_HOLE, STORE_UNITS_MAX - 1, &pos);
			if (r < 0)
				return r;
			if (ret_units[idx - first].layer != unknown)
				continue;
			ret_units[idx - first] =
				(struct store_unit){.pos = pos, .layer = (int)layer};
			left--;
		}
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < count; i++) {
		if (ret_units[i].pos == STORE_HOLE)
			ret_units[i].layer = 0;
	}
	return 0;
}

/* What a listing hands to its caller: the whole row, or the mode alone. */
struct listing {
	int (*mode_fn)(void *arg, struct span name, int64_t ino, uint32_t mode);
	int (*node_fn)(void *arg, struct span name, const struct store_node *node);
	void *arg;
};

static int list_call(const struct listing *list, struct span name, const struct store_node *node,
		     int64_t ino, uint32_t mode)
{
	assert(list->node_fn || list->mode_fn);
	return list->node_fn ? list->node_fn(list->arg, name, node)
			     : list->mode_fn(list->arg, name, ino, mode);
}

static int list_name(sqlite3_stmt *stmt, struct span *ret_name)
{
	int r = column_span(stmt, 0, STORE_NAME_MAX, ret_name);

	return r < 0 || !name_valid(*ret_name) ? -EUCLEAN : 0;
}

/* One layer: a join. Entries that lead nowhere are left out. */
static int list_one(struct store *store, int64_t parent, const struct listing *list)
{
	CLEANUP(use_end) struct use use = USE_INIT;
	struct store_node node;
	struct span name;
	int64_t ino = 0, mode = 0;
	int r, stop = 0;

	r = use_begin(&use, store, 0, READER,
		      list->node_fn ? STMT_EACH_DIRENT_NODE : STMT_EACH_DIRENT_MODE);
	if (r < 0)
		return r;
	sqlite3_bind_int64(use.stmt, 1, parent);
	for (r = use_step(&use); r == 1 && !stop; r = stop ? 0 : use_step(&use)) {
		r = list_name(use.stmt, &name);
		if (r == 0 && list->node_fn)
			r = row_node(use.stmt, 1, &node);
		if (r == 0 && !list->node_fn) {
			r = column_int(use.stmt, 1, STORE_ROOT, INT64_MAX, &ino);
			if (r == 0)
				r = column_int(use.stmt, 2, 0, S_IFMT | 07777, &mode);
		}
		if (r < 0)
			return r;
		stop = list_call(list, name, &node, ino, (uint32_t)mode);
	}
	return r < 0 ? r : stop;
}

static int list_merged(struct store *store, int64_t parent, const struct listing *list)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	struct store_node node;
	struct span name;
	int64_t ino;
	int r, stop = 0;

	r = merge_begin(&merge, all_layers(store, READER), STMT_EACH_DIRENT, &parent);
	if (r < 0)
		return r;
	for (r = merge_next(&merge); r == 1 && !stop; r = stop ? 0 : merge_next(&merge)) {
		r = list_name(merge_row(&merge), &name);
		if (r == 0)
			r = column_int(merge_row(&merge), 1, 0, INT64_MAX, &ino);
		if (r == 0 && ino == 0)
			continue;
		if (r == 0)
			r = find_node(store, READER, 0, ino, &node);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		stop = list_call(list, name, &node, ino, node.mode);
	}
	return r < 0 ? r : stop;
}

int store_each_dirent(struct store *store, int64_t parent,
		      int (*fn)(void *arg, struct span name, int64_t ino, uint32_t mode), void *arg)
{
	struct listing list = {.mode_fn = fn, .arg = arg};

	return store->count == 1 ? list_one(store, parent, &list)
				 : list_merged(store, parent, &list);
}

int store_each_dirent_node(struct store *store, int64_t parent,
			   int (*fn)(void *arg, struct span name, const struct store_node *node),
			   void *arg)
{
	struct listing list = {.node_fn = fn, .arg = arg};

	return store->count == 1 ? list_one(store, parent, &list)
				 : list_merged(store, parent, &list);
}

int store_each_xattr(struct store *store, int64_t ino,
		     int (*fn)(void *arg, struct span name, struct span value), void *arg)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	struct span name, value;
	int r, stop = 0;

	r = merge_begin(&merge, all_layers(store, READER), STMT_EACH_XATTR, &ino);
	if (r < 0)
		return r;
	for (r = merge_next(&merge); r == 1 && !stop; r = stop ? 0 : merge_next(&merge)) {
		if (sqlite3_column_type(merge_row(&merge), 1) == SQLITE_NULL)
			continue;
		r = column_span(merge_row(&merge), 0, STORE_NAME_MAX, &name);
		if (r == 0)
			r = column_span(merge_row(&merge), 1, STORE_VALUE_MAX, &value);
		if (r < 0)
			return r;
		stop = fn(arg, name, value);
	}
	return r < 0 ? r : stop;
}

int store_get_meta(struct store *store, const char *key, struct buf *value)
{
	CLEANUP(use_end) struct use use = USE_INIT;
	struct span span;
	int r = use_begin(&use, store, 0, READER, STMT_GET_META);

	if (r < 0)
		return r;
	sqlite3_bind_text(use.stmt, 1, key, -1, SQLITE_STATIC);
	r = use_step(&use);
	if (r <= 0)
		return r < 0 ? r : -ENODATA;
	r = column_span(use.stmt, 0, STORE_VALUE_MAX, &span);
	return r < 0 ? r : buf_add(value, span.data, span.len);
}

int store_each_audit(struct store *store, uint64_t after,
		     int (*fn)(void *arg, uint64_t first, uint64_t last, struct span records,
			       const unsigned char hash[32]),
		     void *arg)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	int64_t from = after > INT64_MAX ? INT64_MAX : (int64_t)after, first, last;
	struct span records, hash;
	int r, stop = 0;

	r = merge_begin(&merge, all_layers(store, READER), STMT_EACH_AUDIT, &from);
	if (r < 0)
		return r;
	for (r = merge_next(&merge); r == 1 && !stop; r = stop ? 0 : merge_next(&merge)) {
		sqlite3_stmt *row = merge_row(&merge);

		r = column_int(row, 0, 0, INT64_MAX, &first);
		if (r == 0)
			r = column_int(row, 1, first, INT64_MAX, &last);
		if (r == 0)
			r = column_span(row, 3, STORE_AUDIT_MAX, &records);
		if (r == 0)
			r = column_span(row, 4, 32, &hash);
		if (r < 0 || hash.len != 32)
			return r < 0 ? r : -EUCLEAN;
		stop = fn(arg, (uint64_t)first, (uint64_t)last, records,
			  (const unsigned char *)hash.data);
	}
	return r < 0 ? r : stop;
}
