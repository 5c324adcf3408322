/* check_i.h - the inside of store_check. */
#ifndef STORE_CHECK_I_H
#define STORE_CHECK_I_H

#include "store/store_i.h"

/* What is known of one inode: its row, and what the other tables say. */
struct item {
	int64_t ino, size, rdev;
	int64_t parent;  /* of a directory: where its name is, or 0 */
	int64_t content; /* bytes inline, or units */
	uint32_t mode, nlink, flags;
	uint32_t names, folders; /* entries that lead to it; directories in it */
	uint32_t beyond;         /* units behind its end */
	uint32_t pass;           /* of the search for cycles that met it last */
	bool reachable;
	bool touched; /* its names change by what was reported already */
};

struct check {
	struct store *store;
	bool repair;
	void (*fn)(void *arg, enum store_problem problem, const char *text, bool repaired);
	void *arg;
	int left;          /* problems not repaired */
	struct item *item; /* in order of inode */
	size_t len, cap;
	int64_t lost;     /* /lost+found, or 0 */
	int64_t next_ino; /* above every number in use */
	size_t made;      /* inodes that a repair made */
	bool units_repaired;
};

struct item *check_find(struct check *check, int64_t ino);
struct item *check_add(struct check *check, const struct store_node *node);
void check_report(struct check *check, enum store_problem problem, bool repaired, const char *fmt,
		  ...) PRINTF_LIKE(4, 5);

/* check_tree.c: entries, cycles, what cannot be reached. */
int check_nodes(struct check *check) MUST_USE;
int check_entries(struct check *check) MUST_USE;
int check_tree(struct check *check) MUST_USE;

/* check_content.c: inline bytes, units, attributes. */
int check_inline(struct check *check) MUST_USE;
int check_units(struct check *check) MUST_USE;
int check_xattrs(struct check *check) MUST_USE;

#endif
