/* diff_i.h - between finding out what differs and saying how. */
#ifndef COMPUTER_DIFF_I_H
#define COMPUTER_DIFF_I_H

#include "computer/computer_i.h"
#include "store/store.h"

#define DIFF_TEXT_MAX (8 << 20) /* larger files are not compared by line */

/* A file in one of two states. */
struct side_file {
	struct store *store; /* NULL: it is not there */
	struct store_node node;
};

/* 1: content (or link target, or device) and extended attributes are the same; 0: not. */
int diff_same_content(const struct side_file *from, const struct side_file *to) MUST_USE;
int diff_same_xattrs(const struct side_file *from, const struct side_file *to) MUST_USE;

struct diff_lines {
	bool binary;
	uint64_t added, removed;
	struct buf patch;
};
/* Count lines and, if asked for, append a patch. `path` and `old_path` head it. */
int diff_lines(const struct side_file *from, const struct side_file *to, struct span old_path,
	       struct span path, bool want_patch, struct diff_lines *lines) MUST_USE;

#endif
