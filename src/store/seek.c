/* seek.c - the next unit that is no hole, and how much room the disk has. */
#include "store/store_i.h"

#include <errno.h>
#include <sys/statvfs.h>

/* The first row of one layer from `from` on, hole or not. 1, 0 when there is none, or an error. */
static int first_row(struct store *store, size_t layer, int64_t ino, int64_t from, int64_t *ret_idx,
		     int64_t *ret_pos)
{
	CLEANUP(use_end) struct use use = USE_INIT;
	int r = use_begin(&use, store, layer, READER, STMT_EACH_UNIT);

	if (r < 0)
		return r;
	sqlite3_bind_int64(use.stmt, 1, ino);
	sqlite3_bind_int64(use.stmt, 2, from);
	sqlite3_bind_int64(use.stmt, 3, INT64_MAX);
	r = use_step(&use);
	if (r != 1)
		return r;
	r = column_int(use.stmt, 0, from, STORE_UNITS_MAX, ret_idx);
	if (r == 0)
		r = column_int(use.stmt, 1, STORE_HOLE, STORE_UNITS_MAX - 1, ret_pos);
	return r < 0 ? r : 1;
}

int store_next_unit(struct store *store, int64_t ino, int64_t from, int64_t *ret_idx)
{
	for (;;) {
		int64_t first = INT64_MAX, first_pos = STORE_HOLE;

		for (size_t layer = 0; layer < store->count; layer++) {
			int64_t idx = 0, pos = STORE_HOLE;
			int r = first_row(store, layer, ino, from, &idx, &pos);

			if (r < 0)
				return r;
			if (r == 1 && idx < first) { /* on a tie the newer layer wins */
				first = idx;
				first_pos = pos;
			}
		}
		if (first == INT64_MAX)
			return -ENXIO;
		if (first_pos != STORE_HOLE) {
			*ret_idx = first;
			return 0;
		}
		from = first + 1;
	}
}

int store_get_disk(struct store *store, uint64_t *ret_bytes, uint64_t *ret_free)
{
	struct statvfs st;

	if (statvfs(store->path, &st) < 0)
		return -errno;
	*ret_bytes = (uint64_t)st.f_blocks * st.f_frsize;
	*ret_free = (uint64_t)st.f_bavail * st.f_frsize;
	return 0;
}
