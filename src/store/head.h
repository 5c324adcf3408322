/* head.h - making heads: the file that stands on a chain of layers. Private to store. */
#ifndef STORE_HEAD_H
#define STORE_HEAD_H

#include "store/store_i.h"

/* What a new head holds. */
struct head_plan {
	const char *path; /* a file that is not there yet */
	const struct state *state;
	bool root;             /* an empty root directory */
	struct store *from;    /* NULL, or whose meta to copy */
	bool snapshots;        /* its list of snapshots too */
	struct store *orphans; /* NULL, or the state whose newest layer lists unlinked inodes */
	bool audit;            /* copy audit records after `audit_after` */
	uint64_t audit_after;
	const struct store_snapshot *add; /* NULL, or one more snapshot */
	const char *add_layers;
};

/* Write it; syncing (path_sync) is left to the caller, who knows when that costs least. Nothing is
 * left when it fails. */
int head_build(const struct head_plan *plan) MUST_USE;

/* Begin a database that is filled without a journal; end marks it WAL and closes it. */
int head_begin(const char *path, bool portable, sqlite3 **ret_db) MUST_USE;
int head_end(sqlite3 **db) MUST_USE;
/* Write the state row of a database under construction. */
int head_put_state(sqlite3 *db, const struct state *state) MUST_USE;
/* Write a row with the values of another. */
int head_copy_row(sqlite3_stmt *from, sqlite3_stmt *to, int columns) MUST_USE;

#endif
