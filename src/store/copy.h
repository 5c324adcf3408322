/* copy.h - writing the rows and units of several layers into one file. Private to store. */
#ifndef STORE_COPY_H
#define STORE_COPY_H

#include "store/store_i.h"

/*
 * Layers first..last-1 of `from` go into the database `to`, the newest row of each key. Every row
 * is checked on the way: a damaged one is -EUCLEAN.
 */
struct copy {
	struct store *from;
	enum side side;
	size_t first, last;
	bool tombstones; /* there is something below that they hide */
	sqlite3 *to;
	int data_fd;      /* units go here from its start; -1: into `chunk` rows */
	int64_t data_end; /* out: units written */
	/* private */
	int64_t *dead; /* inodes with a tombstone, in order: their other rows are garbage */
	size_t dead_count, dead_cap;
	struct run run; /* units read in a row and not written yet */
	size_t run_layer;
	int64_t run_to;
};

/* node, dirent, inline, extent (and units), xattr, audit; meta and orphan of the newest layer. */
int copy_all(struct copy *copy) MUST_USE;
void copy_clear(struct copy *copy); /* for CLEANUP */

/* The bytes of one file at another place of another; holes stay holes. */
int copy_bytes(int in, int64_t in_pos, int out, int64_t out_pos, int64_t len) MUST_USE;

#endif
