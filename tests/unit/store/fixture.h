/* fixture.h - a folder with a workspace in it, for every test of the store. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/store.h"

#include <sys/stat.h>

struct fixture {
	char dir[128];
	char path[160];      /* DIR/a.db */
	char other[160];     /* DIR/b.db */
	struct store *store; /* open on `path` */
};

/* The folder alone. */
struct fixture *fixture_new(void);
int fixture_setup(void **state);
int fixture_teardown(void **state);
/* Close and open again. */
void fixture_reopen(struct fixture *fixture);
struct store *open_at(const char *path, unsigned flags);
/* DIR/name; valid until the next call. */
const char *fixture_file(struct fixture *fixture, const char *name);
bool file_exists(const char *path);
/* How many files a workspace's folder of layers has. */
int layer_files(const char *db_path);

#define OK(call) assert_int_equal((call), 0)
#define FAILS(call, code) assert_int_equal((call), -(code))

/* Rows with numbers that are told apart. */
struct store_node node_file(int64_t ino, int64_t size);
struct store_node node_large(int64_t ino, int64_t units);
struct store_node node_dir(int64_t ino, int64_t parent);
void put_file(struct store *store, int64_t parent, const char *name, int64_t ino,
	      const char *content);
/* One file of one commit. */
void add_file(struct store *store, const char *name, int64_t ino, const char *content);
/* A large file whose unit i is filled with the byte first + i. */
void add_large(struct store *store, const char *name, int64_t ino, int units, int first);
void remove_file(struct store *store, const char *name, int64_t ino);
void assert_content(struct store *store, int64_t ino, const char *want);
void assert_units(struct store *store, int64_t ino, int units, int first);
void assert_name(struct store *store, const char *name, int64_t want_ino); /* 0: not there */
/* store_check says nothing. */
void assert_clean(struct store *store);
/* Counters that fit the rows. */
void put_right_counters(struct store *store);

void set_content(struct store *store, int64_t ino, const char *content);
/* Names and inodes of the root: "a=2 b=3 ". */
void assert_list(struct store *store, const char *want);
/* "name:bytes:inodes:audit_seq " of every snapshot. */
int list_snapshot(void *arg, const struct store_snapshot *snapshot);
void assert_snapshots(struct store *store, const char *want);
/* An audit batch of one record, and what there is: "1 2 ". */
void audit_one(struct store *store, uint64_t seq);
void assert_audit(struct store *store, const char *want);
/* Snapshots s1..sN; each changes something of the one before. */
void deepen(struct store *store, int count);
/* A child opens the store, does `work` and dies without closing; then the store is opened again. */
void crash(struct fixture *fixture, void (*work)(struct store *store));
/* Copy a folder's files into another folder. */
void copy_tree(const char *from, const char *to);

#endif
