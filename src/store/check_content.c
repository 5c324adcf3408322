/* check_content.c - content belongs to an inode, and every unit to one. */
#include "store/check_i.h"

#include <assert.h>
#include <sys/stat.h>

static bool is_large(const struct item *item)
{
	return S_ISREG(item->mode) && item->flags & STORE_NODE_EXTENTS;
}

int check_inline(struct check *check)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	struct store *store = check->store;
	int r;

	r = merge_begin(&merge, all_layers(store, READER), STMT_WALK_INLINE_LEN, NULL);
	if (r < 0)
		return r;
	for (r = merge_next(&merge); r == 1; r = merge_next(&merge)) {
		sqlite3_stmt *row = merge_row(&merge);
		int64_t ino = sqlite3_column_int64(row, 0), len = sqlite3_column_int64(row, 1);
		struct item *item = check_find(check, ino);

		if (sqlite3_column_type(row, 1) == SQLITE_NULL)
			continue;
		/* In a layer below it may belong to an inode that was deleted since. */
		if (!item && merge_layer(&merge) > 0)
			continue;
		if (item && (S_ISLNK(item->mode) || (S_ISREG(item->mode) && !is_large(item))) &&
		    len <= STORE_INLINE_MAX) {
			item->content = len;
			continue;
		}
		check_report(check, STORE_SIZE, check->repair,
			     "there is inline content of inode %lld, which can have none",
			     (long long)ino);
		if (check->repair && store_del_inline(store, ino) < 0)
			return store->failed;
	}
	return r;
}

/* Which units of each layer's extent file were met. */
struct used {
	unsigned char *bits;
	int64_t end;
};

static int used_init(struct store *store, size_t layer, struct used *used)
{
	CLEANUP(mem_free) struct state *state = mem_alloc0(sizeof(*state));
	int r = layer_open(store, layer, READER);

	if (r == 0)
		r = state_load(store->layers[layer].conn[READER].db, state);
	if (r < 0)
		return r;
	used->end = state->data_end;
	/* Without its file no unit is where a row says. */
	if (used->end && data_layer_fd(store, layer) < 0)
		used->end = 0;
	used->bits = mem_alloc0((size_t)used->end / 8 + 1);
	return 0;
}

static const char *unit_wrong(const struct used *used, int64_t pos)
{
	if (pos < 0 || pos >= used->end)
		return "beyond the end of the extent file";
	if (used->bits[pos / 8] & (1 << (pos % 8)))
		return "which another one is in";
	used->bits[pos / 8] |= (unsigned char)(1 << (pos % 8));
	return NULL;
}

static int make_hole(struct check *check, int64_t ino, int64_t idx)
{
	struct conn *conn = &check->store->layers[0].conn[WRITER];
	sqlite3_stmt *stmt;
	int r = stmt_prepare(conn, STMT_PUT_UNIT);

	/* Not store_put_unit: that would give back what may be somebody else's. */
	if (r < 0)
		return r;
	stmt = conn->stmt[STMT_PUT_UNIT];
	sqlite3_bind_int64(stmt, 1, ino);
	sqlite3_bind_int64(stmt, 2, idx);
	sqlite3_bind_int64(stmt, 3, STORE_HOLE);
	check->units_repaired = true;
	return stmt_run(check->store, stmt);
}

static int check_unit(struct check *check, sqlite3_stmt *row, size_t layer, const struct used *used)
{
	int64_t ino = sqlite3_column_int64(row, 0), idx = sqlite3_column_int64(row, 1);
	int64_t pos = sqlite3_column_int64(row, 2);
	struct item *item = check_find(check, ino);
	const char *wrong;

	if (pos == STORE_HOLE || (!item && layer > 0))
		return 0;
	if (!item || !is_large(item)) {
		check_report(check, STORE_SIZE, check->repair,
			     "there is a unit of inode %lld, which can have none", (long long)ino);
		return check->repair ? make_hole(check, ino, idx) : 0;
	}
	wrong = unit_wrong(&used[layer], pos);
	if (wrong || idx < 0) {
		check_report(check, STORE_UNIT_BAD, check->repair,
			     "unit %lld of inode %lld is at %lld, %s", (long long)idx,
			     (long long)ino, (long long)pos, wrong ? wrong : "before its start");
		return check->repair ? make_hole(check, ino, idx) : 0;
	}
	if (idx >= (item->size + STORE_UNIT - 1) / STORE_UNIT)
		item->beyond++;
	else
		item->content++;
	return 0;
}

static int walk_units(struct check *check, struct used *used)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	struct store *store = check->store;
	int r = merge_begin(&merge, all_layers(store, READER), STMT_WALK_EXTENT, NULL);

	if (r < 0)
		return r;
	for (r = merge_next(&merge); r == 1; r = merge_next(&merge)) {
		r = check_unit(check, merge_row(&merge), merge_layer(&merge), used);
		if (r < 0)
			return r;
	}
	return r;
}

/* Nothing in use is in the list of free units. */
static void check_free(struct check *check, const struct used *used)
{
	struct data *data = &check->store->data;

	assert(used->bits);
	pthread_mutex_lock(&data->lock);
	for (size_t i = 0; data->loaded && i < data->free.len; i++) {
		struct run run = data->free.item[i];

		for (int64_t pos = run.pos; pos < run.pos + run.count && pos < used->end; pos++) {
			if (!(used->bits[pos / 8] & (1 << (pos % 8))))
				continue;
			check_report(check, STORE_UNIT_BAD, check->repair,
				     "unit %lld of the extent file is in use and free",
				     (long long)pos);
			check->units_repaired |= check->repair;
		}
	}
	pthread_mutex_unlock(&data->lock);
}

int check_units(struct check *check)
{
	struct store *store = check->store;
	struct used *used = mem_alloc0(store->count * sizeof(*used));
	int r = 0;

	for (size_t i = 0; i < store->count && r == 0; i++)
		r = used_init(store, i, &used[i]);
	if (r == 0)
		r = walk_units(check, used);
	if (r == 0 && !store->readonly)
		check_free(check, &used[0]);
	for (size_t i = 0; i < store->count; i++)
		free(used[i].bits);
	free(used);
	return r;
}

int check_xattrs(struct check *check)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	struct store *store = check->store;
	int64_t last = 0;
	int r = merge_begin(&merge, all_layers(store, READER), STMT_WALK_XATTR, NULL);

	if (r < 0)
		return r;
	for (r = merge_next(&merge); r == 1; r = merge_next(&merge)) {
		int64_t ino = sqlite3_column_int64(merge_row(&merge), 0);

		if (ino == last || merge_layer(&merge) > 0 || check_find(check, ino) ||
		    sqlite3_column_type(merge_row(&merge), 2) == SQLITE_NULL)
			continue;
		last = ino;
		check_report(check, STORE_NO_NODE, check->repair,
			     "there are attributes of inode %lld, which is not there",
			     (long long)ino);
		/* Deleting the inode that is not there takes with it what refers to it. */
		if (check->repair && store_del_node(store, ino) < 0)
			return store->failed;
	}
	return r;
}
