/* changed.c - what differs between two states of one history. Only layers that the two do not share
 * are read; their rows say which inodes may differ, and those are compared. */
#include "store/store_i.h"

#include <errno.h>

struct candidate {
	int64_t ino;
	bool sure; /* one of its names differs */
};

struct changed {
	struct store *from, *to; /* from: NULL for nothing */
	struct candidate *item;
	size_t len, cap;
};

static void add(struct changed *changed, int64_t ino, bool sure)
{
	/* Walks are in order of inode: most repetitions are neighbours. */
	if (changed->len && changed->item[changed->len - 1].ino == ino) {
		changed->item[changed->len - 1].sure |= sure;
		return;
	}
	if (changed->len == changed->cap) {
		changed->cap = changed->cap ? 2 * changed->cap : 256;
		changed->item = mem_realloc(changed->item, changed->cap * sizeof(*changed->item));
	}
	changed->item[changed->len++] = (struct candidate){ino, sure};
}

/* How many layers at the bottom are the same. */
static size_t shared_layers(const struct store *a, const struct store *b)
{
	size_t n = 0;

	while (n < a->count && n < b->count) {
		const char *left = a->layers[a->count - 1 - n].id;
		const char *right = b->layers[b->count - 1 - n].id;

		if (!left[0] || strcmp(left, right) != 0)
			break;
		n++;
	}
	return n;
}

static int find_name(struct store *store, int64_t parent, struct span name, int64_t *ret_ino)
{
	int r = store ? find_dirent(store, READER, 0, parent, name, ret_ino) : 0;

	if (r == 0)
		*ret_ino = 0;
	return r < 0 ? r : 0;
}

/* Inodes of the rows of one table in one layer. */
static int collect_inos(struct changed *changed, struct store *store, size_t layer, enum stmt walk)
{
	CLEANUP(use_end) struct use use = USE_INIT;
	int r = use_begin(&use, store, layer, READER, walk);

	if (r < 0)
		return r;
	for (r = use_step(&use); r == 1; r = use_step(&use))
		add(changed, sqlite3_column_int64(use.stmt, 0), false);
	return r;
}

static int collect_names(struct changed *changed, struct store *store, size_t layer)
{
	CLEANUP(use_end) struct use use = USE_INIT;
	int r = use_begin(&use, store, layer, READER, STMT_WALK_DIRENT);
	int64_t parent = 0, before = 0, after = 0;
	struct span name;

	if (r < 0)
		return r;
	for (r = use_step(&use); r == 1; r = use_step(&use)) {
		r = column_int(use.stmt, 0, STORE_ROOT, INT64_MAX, &parent);
		if (r == 0)
			r = column_span(use.stmt, 1, STORE_NAME_MAX, &name);
		if (r == 0)
			r = find_name(changed->from, parent, name, &before);
		if (r == 0)
			r = find_name(changed->to, parent, name, &after);
		if (r < 0)
			return r;
		if (before == after)
			continue;
		if (before)
			add(changed, before, true);
		if (after)
			add(changed, after, true);
	}
	return r;
}

static int collect(struct changed *changed, struct store *store, size_t shared)
{
	static const enum stmt walks[] = {STMT_WALK_NODE, STMT_WALK_INLINE_LEN, STMT_WALK_EXTENT,
					  STMT_WALK_XATTR};
	int r = 0;

	for (size_t layer = 0; layer + shared < store->count && r == 0; layer++) {
		for (size_t i = 0; i < ARRAY_LEN(walks) && r == 0; i++)
			r = collect_inos(changed, store, layer, walks[i]);
		if (r == 0)
			r = collect_names(changed, store, layer);
	}
	return r;
}

/* ---- comparing one inode: 1 it differs, 0 it does not, or an error ---- */

static int next_unit(struct merge *merge, int64_t *ret_idx, struct store_unit *ret_unit)
{
	int64_t pos = STORE_HOLE;
	int r;

	do {
		r = merge_next(merge);
		if (r <= 0)
			return r;
		r = column_int(merge_row(merge), 0, 0, STORE_UNITS_MAX, ret_idx);
		if (r == 0)
			r = column_int(merge_row(merge), 1, STORE_HOLE, STORE_UNITS_MAX - 1, &pos);
		if (r < 0)
			return r;
	} while (pos == STORE_HOLE);
	*ret_unit = (struct store_unit){.pos = pos, .layer = (int)merge_layer(merge)};
	return 1;
}

/* A merge of layers copies units, so another place may hold the same bytes. */
static int compare_unit(struct changed *changed, struct store_unit before, struct store_unit after)
{
	struct store *from = changed->from, *to = changed->to;
	const char *id = from->layers[before.layer].id;
	CLEANUP(mem_free) char *bytes = NULL;
	int r;

	if (before.pos == after.pos && id[0] && strcmp(id, to->layers[after.layer].id) == 0)
		return 0;
	bytes = mem_alloc((size_t)2 * STORE_UNIT);
	r = store_data_read(from, before, 0, bytes, STORE_UNIT);
	if (r == 0)
		r = store_data_read(to, after, 0, bytes + STORE_UNIT, STORE_UNIT);
	return r < 0 ? r : memcmp(bytes, bytes + STORE_UNIT, STORE_UNIT) != 0;
}

static int compare_units(struct changed *changed, int64_t ino)
{
	CLEANUP(merge_end) struct merge before = MERGE_INIT;
	CLEANUP(merge_end) struct merge after = MERGE_INIT;
	const int64_t args[] = {ino, 0, INT64_MAX};
	struct store_unit unit[2];
	int64_t idx[2] = {0, 0};
	int r;

	r = merge_begin(&before, all_layers(changed->from, READER), STMT_EACH_UNIT, args);
	if (r == 0)
		r = merge_begin(&after, all_layers(changed->to, READER), STMT_EACH_UNIT, args);
	while (r == 0) {
		int found = next_unit(&before, &idx[0], &unit[0]);

		r = found < 0 ? found : next_unit(&after, &idx[1], &unit[1]);
		if (r < 0)
			return r;
		if (found != r || (r && idx[0] != idx[1]))
			return 1;
		if (r == 0)
			return 0;
		r = compare_unit(changed, unit[0], unit[1]);
	}
	return r;
}

static int next_xattr(struct merge *merge)
{
	int r;

	do
		r = merge_next(merge);
	while (r == 1 && sqlite3_column_type(merge_row(merge), 1) == SQLITE_NULL);
	return r;
}

static bool same_column(sqlite3_stmt *a, sqlite3_stmt *b, int column)
{
	struct span left =
		span_of(sqlite3_column_blob(a, column), (size_t)sqlite3_column_bytes(a, column));
	struct span right =
		span_of(sqlite3_column_blob(b, column), (size_t)sqlite3_column_bytes(b, column));

	return span_eq(left, right);
}

static int compare_xattrs(struct changed *changed, int64_t ino)
{
	CLEANUP(merge_end) struct merge before = MERGE_INIT;
	CLEANUP(merge_end) struct merge after = MERGE_INIT;
	int r;

	r = merge_begin(&before, all_layers(changed->from, READER), STMT_EACH_XATTR, &ino);
	if (r == 0)
		r = merge_begin(&after, all_layers(changed->to, READER), STMT_EACH_XATTR, &ino);
	while (r == 0) {
		int found = next_xattr(&before);

		r = found < 0 ? found : next_xattr(&after);
		if (r < 0)
			return r;
		if (found != r)
			return 1;
		if (r == 0)
			return 0;
		r = !same_column(merge_row(&before), merge_row(&after), 0) ||
		    !same_column(merge_row(&before), merge_row(&after), 1);
	}
	return r;
}

static int compare_inline(struct changed *changed, int64_t ino)
{
	CLEANUP(buf_clear) struct buf before = BUF_INIT(STORE_INLINE_MAX);
	CLEANUP(buf_clear) struct buf after = BUF_INIT(STORE_INLINE_MAX);
	int r = find_inline(changed->from, READER, 0, ino, &before);

	if (r >= 0)
		r = find_inline(changed->to, READER, 0, ino, &after);
	if (r < 0)
		return r;
	return !span_eq(span_of(before.data, before.len), span_of(after.data, after.len));
}

static bool same_row(const struct store_node *a, const struct store_node *b)
{
	/* Reading is no change, so not atime. */
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->nlink == b->nlink &&
	       a->rdev == b->rdev && a->size == b->size && a->mtime == b->mtime &&
	       a->ctime == b->ctime && a->btime == b->btime && a->flags == b->flags;
}

static int differs(struct changed *changed, int64_t ino)
{
	struct store_node before, after;
	int found, r;

	found = changed->from ? find_node(changed->from, READER, 0, ino, &before) : 0;
	r = found < 0 ? found : find_node(changed->to, READER, 0, ino, &after);
	if (r < 0)
		return r;
	if (found != r)
		return 1;
	if (!found)
		return 0; /* came and went between */
	if (!same_row(&before, &after))
		return 1;
	r = after.flags & STORE_NODE_EXTENTS ? compare_units(changed, ino)
					     : compare_inline(changed, ino);
	return r ? r : compare_xattrs(changed, ino);
}

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *left = a, *right = b;

	if (left->ino != right->ino)
		return left->ino < right->ino ? -1 : 1;
	return right->sure - left->sure; /* the sure one first */
}

int store_each_changed(struct store *from, struct store *to, int (*fn)(void *arg, int64_t ino),
		       void *arg)
{
	struct changed changed = {.from = from, .to = to};
	size_t shared = from ? shared_layers(from, to) : 0;
	int r = collect(&changed, to, shared);

	if (r == 0 && from)
		r = collect(&changed, from, shared);
	if (changed.len)
		qsort(changed.item, changed.len, sizeof(*changed.item), compare_candidates);
	for (size_t i = 0; i < changed.len && r == 0; i++) {
		if (i && changed.item[i].ino == changed.item[i - 1].ino)
			continue;
		r = changed.item[i].sure ? 1 : differs(&changed, changed.item[i].ino);
		if (r == 1)
			r = fn(arg, changed.item[i].ino);
	}
	free(changed.item);
	return r;
}
