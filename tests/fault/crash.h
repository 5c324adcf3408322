/* crash.h - writers that note what they were promised, and a check of what is left after a crash.
 *
 * Content says what it is: a file of version v is words of {version, index}. A writer notes in a
 * log outside (shared memory or a mapped file, which a killed filesystem cannot lose) that it
 * starts version v, and that v was promised to last (fsync came back). Afterwards every file must
 * be of a version between the two, and whole. A directory is changed by a history that can be
 * repeated: what is left must be a prefix of it.
 */
#ifndef FAULT_CRASH_H
#define FAULT_CRASH_H

#include "base/base.h"
#include "base/buf.h"

#include <stdatomic.h>
#include <sys/types.h>

/* ---- where files are ---- */

struct place {
	const struct place_ops *ops;
};

struct place_entry {
	const char *name;
	uint32_t mode, nlink;
};

/* All answer 0 or a negative errno. Names are relative to the place. */
struct place_ops {
	/* A new file under another name, renamed over `name`; `durable`: it survives on return. */
	int (*replace)(struct place *place, const char *name, const void *bytes, size_t len,
		       bool durable);
	int (*patch)(struct place *place, const char *name, const void *bytes, size_t len,
		     int64_t offset, bool durable);
	int (*truncate)(struct place *place, const char *name, int64_t size);
	int (*mkfile)(struct place *place, const char *name, uint32_t mode);
	int (*mkdir)(struct place *place, const char *name, uint32_t mode);
	int (*rename)(struct place *place, const char *from, const char *to);
	int (*link)(struct place *place, const char *from, const char *to);
	int (*chmod)(struct place *place, const char *name, uint32_t mode);
	int (*remove)(struct place *place, const char *name, bool directory);
	/* The directory, and all before it, survives. */
	int (*sync)(struct place *place, const char *directory);
	int (*read)(struct place *place, const char *name, struct buf *content);
	int (*list)(struct place *place, const char *directory,
		    void (*fn)(void *arg, const struct place_entry *entry), void *arg);
	void (*free)(struct place *place);
};

/* A directory of this machine; NULL when it is none. */
struct place *place_dir_new(const char *dir);
struct computer;
/* A workspace by the library; borrowed. */
struct place *place_lib_new(struct computer *computer);

/* ---- what was promised ---- */

#define CRASH_FILES 12
#define CRASH_GROW 12 /* pages that file CRASH_GROWING grows to, one a version */
enum crash_file { CRASH_PATCHED = 8, CRASH_PAGE = 9, CRASH_GROWING = 10, CRASH_BORDER = 11 };

enum crash_phase {
	CRASH_RUN,
	CRASH_SNAPSHOT, /* a snapshot of at_snapshot[] is being made */
	CRASH_LATER,    /* it is made, work goes on */
	CRASH_RESTORE,  /* nothing is written; all of after[] lasts; a restore is under way */
	CRASH_RESTORED,
};

struct crash_log {
	uint64_t seed;
	_Atomic uint32_t ready;                /* the place can be used */
	_Atomic uint32_t killed;               /* from here on calls may fail */
	_Atomic uint32_t next[CRASH_FILES];    /* version to write next */
	_Atomic uint32_t started[CRASH_FILES]; /* last one begun */
	_Atomic uint32_t acked[CRASH_FILES];   /* last one promised to last */
	_Atomic uint32_t round;                /* names the directory with a history; 0: none */
	_Atomic uint32_t dir_started;          /* operations of the history */
	_Atomic uint32_t dir_acked;
	_Atomic uint32_t phase;
	uint32_t at_snapshot[CRASH_FILES], after[CRASH_FILES];
	uint32_t dir_at_snapshot, dir_after;
	_Atomic uint64_t writes, syncs; /* how much was done, for the report */
};

/* Make all files in their first version, and a new directory for a history. 0 or -errno. */
int crash_prepare(struct place *place, struct crash_log *log);

/* One random operation on files, or one step of the history. 0 or -errno. */
int crash_write_step(struct place *place, struct crash_log *log, uint64_t *rng);
struct crash_history;
int crash_dir_step(struct place *place, struct crash_log *log, struct crash_history *history,
		   uint64_t *rng);
struct crash_history *crash_history_new(const struct crash_log *log);

uint64_t crash_random(uint64_t *rng);

/* Everything must be as the log says; complains on stdout. The number of complaints. Then the log
 * is moved on to what was found, for a next round. */
int crash_verify(struct place *place, struct crash_log *log);

#endif
