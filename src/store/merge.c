/* merge.c - rows of one table through several layers in order of key; the newest layer wins. */
#include "store/store_i.h"

#include <errno.h>

/* How many leading columns identify a row. */
static int key_columns(enum stmt which)
{
	return which == STMT_WALK_DIRENT || which == STMT_WALK_EXTENT || which == STMT_WALK_XATTR
		       ? 2
		       : 1;
}

int merge_begin(struct merge *merge, struct range range, enum stmt which, const int64_t *args)
{
	merge->count = range.last - range.first;
	merge->first = range.first;
	merge->keys = key_columns(which);
	merge->use = mem_alloc0(merge->count * sizeof(*merge->use));
	merge->end = mem_alloc0(merge->count * sizeof(*merge->end));
	for (size_t i = 0; i < merge->count; i++) {
		sqlite3_stmt *stmt;
		int r = use_begin(&merge->use[i], range.store, range.first + i, range.side, which);

		if (r < 0)
			return r;
		stmt = merge->use[i].stmt;
		for (int arg = 0; arg < sqlite3_bind_parameter_count(stmt); arg++)
			sqlite3_bind_int64(stmt, arg + 1, args[arg]);
	}
	return 0;
}

void merge_end(struct merge *merge)
{
	for (size_t i = 0; i < merge->count && merge->use; i++)
		use_end(&merge->use[i]);
	free(merge->use);
	free(merge->end);
	*merge = MERGE_INIT;
}

static int compare_column(sqlite3_stmt *a, sqlite3_stmt *b, int column)
{
	int a_len, b_len, order;
	const void *a_bytes, *b_bytes;

	if (sqlite3_column_type(a, column) == SQLITE_INTEGER) {
		int64_t left = sqlite3_column_int64(a, column);
		int64_t right = sqlite3_column_int64(b, column);

		return left < right ? -1 : left > right;
	}
	a_bytes = sqlite3_column_blob(a, column);
	b_bytes = sqlite3_column_blob(b, column);
	a_len = sqlite3_column_bytes(a, column);
	b_len = sqlite3_column_bytes(b, column);
	order = a_len && b_len ? memcmp(a_bytes, b_bytes, (size_t)(a_len < b_len ? a_len : b_len))
			       : 0;
	if (order)
		return order;
	return a_len < b_len ? -1 : a_len > b_len;
}

static int compare_row(const struct merge *merge, size_t a, size_t b)
{
	int order = 0;

	for (int key = 0; key < merge->keys && order == 0; key++)
		order = compare_column(merge->use[a].stmt, merge->use[b].stmt, key);
	return order;
}

static int advance(struct merge *merge, size_t i)
{
	int r = use_step(&merge->use[i]);

	if (r == 0)
		merge->end[i] = true;
	return r;
}

int merge_next(struct merge *merge)
{
	size_t best = merge->count;
	int r;

	if (!merge->started) {
		merge->started = true;
		for (size_t i = 0; i < merge->count; i++) {
			r = advance(merge, i);
			if (r < 0)
				return r;
		}
	} else {
		/* Older rows of the same key first: they are compared with the current one. */
		for (size_t i = merge->count; i-- > merge->now;) {
			if (merge->end[i] || (i != merge->now && compare_row(merge, i, merge->now)))
				continue;
			r = advance(merge, i);
			if (r < 0)
				return r;
		}
	}
	for (size_t i = 0; i < merge->count; i++) {
		if (!merge->end[i] && (best == merge->count || compare_row(merge, i, best) < 0))
			best = i;
	}
	merge->now = best;
	return best < merge->count;
}
