/* fsdiff.h - one operation, and the places where it is tried. */
#ifndef POSIX_FSDIFF_H
#define POSIX_FSDIFF_H

#include "base/buf.h"
#include "base/span.h"

#define SLOTS 6 /* open files of one worker */
#define PATH_SIZE 300
#define IO_MAX (192 << 10)
#define OFFSET_MAX (6 << 20)

enum op_kind {
#define OP(name, weight, path, path2, slot) OP_##name,
#include "fsdiff_ops.def"
#undef OP
	OP_KINDS
};

/* Everything an operation may need; each kind uses some. */
struct op {
	enum op_kind kind;
	uint32_t uid; /* who acts: also the gid */
	char path[PATH_SIZE], path2[PATH_SIZE];
	int slot, slot2;
	int flags;
	uint32_t mode;
	int64_t offset, offset2, len;
	uint32_t fill; /* seed of the bytes that are written, or an id */
};

/* What came of it: a number or a negative errno, and a hash of what was seen. */
struct result {
	int64_t r;
	uint64_t seen;
	char text[96]; /* in words, of a stat */
};

/* A tree seen by one worker: where operations go. Used by one thread. */
struct view {
	const struct view_ops *ops;
};

struct view_ops {
	void (*run)(struct view *view, const struct op *op, struct result *ret_result);
	/* The whole tree as sorted lines: names, attributes, content. 0 or a negative errno. */
	int (*dump)(struct view *view, struct buf *out);
	void (*free)(struct view *view);
};

/* A filesystem. `root` is made under it if it is not there, with mode 777. NULL: cannot. */
struct view *posix_view_new(const char *dir, const char *root);

#ifdef FSDIFF_SYS
/* A workspace through vfs alone: opened at the first use of its path, closed by sys_close_all. */
struct view *sys_view_new(const char *db, const char *root);
void sys_close_all(void);
#endif

/* The bytes an operation writes. */
void fill_bytes(void *bytes, size_t len, uint32_t seed);
uint64_t hash_more(uint64_t hash, const void *bytes, size_t len);

/* One line of a dump. Times that were not set by utimens (small ones) say only that. */
struct shown {
	const char *path;
	uint32_t mode, nlink, uid, gid;
	int64_t size, mtime;
	uint64_t content; /* of a file or link, and its extended attributes */
};
/* What a stat says: compared and, on a difference, shown. */
void see_attr(struct result *result, const struct shown *shown);
void show_line(struct buf *out, const struct shown *shown);

#endif
