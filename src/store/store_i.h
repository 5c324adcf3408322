/* store_i.h - the inside of store: layers, connections, units.
 *
 * A store is an array of layers. layers[0] is the head (of a snapshot that was opened: its newest
 * layer), the rest are its bases, newest first. Every layer has a connection for each side, opened
 * when first used and closed by store_release_memory, so an idle store holds none.
 */
#ifndef STORE_STORE_I_H
#define STORE_STORE_I_H

#include "base/mem.h"
#include "store/store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#define STORE_PAGE 16384
#define STORE_ID 32           /* hex digits of a layer's or workspace's id */
#define STORE_LAYERS_MAX 64   /* in one chain, the head not counted */
#define STORE_NAME_MAX 255    /* of an entry or an attribute */
#define STORE_TARGET_MAX 4095 /* of a link */
#define STORE_VALUE_MAX 65536 /* of an attribute, or of meta */
#define STORE_AUDIT_MAX (32 << 20)
#define STORE_SIZE_MAX ((int64_t)16 << 40)
#define STORE_INO_MAX ((int64_t)1 << 62)
#define STORE_UNITS_MAX ((int64_t)1 << 28) /* in an extent file, and in a file */

#define WAL_LIMIT 1024      /* frames (16 MiB): checkpoint then */
#define FREE_RUNS_MAX 65536 /* more are not written down, but found again by reading all rows */
#define STORE_LAYERS_TEXT (STORE_LAYERS_MAX * (STORE_ID + 1) + 1)

enum stmt {
#define STMT(name, sql) STMT_##name,
#include "store/stmts.def"
#undef STMT
	STMT_COUNT
};

enum side { READER, WRITER };

/* A failure that changes nothing; the call says why. */
static inline void ignore(int r)
{
	(void)r;
}

/* A connection and its kept statements. */
struct conn {
	sqlite3 *db; /* NULL: closed */
	sqlite3_stmt *stmt[STMT_COUNT];
};

struct layer {
	char id[STORE_ID + 1]; /* "": the head */
	char *path;            /* of the database */
	struct conn conn[2];
	_Atomic int data_fd; /* -1: not open yet. The head's is data.fd. */
	bool portable;       /* an exported file: has `chunk` rows */
};

/* One statement in use; for CLEANUP(use_end). */
struct use {
	sqlite3_stmt *stmt;
	bool extra;            /* the kept one was busy (a call inside a callback) */
	struct store *reading; /* whose read transaction it is in, or NULL */
};

#define USE_INIT ((struct use){0})

/* Sorted runs of units, disjoint, never touching. */
struct run {
	int64_t pos, count;
};

struct runs {
	struct run *item;
	size_t len, cap;
};

/* The head's extent file. Everything but `pins` and `fd` is under `lock`. */
struct data {
	pthread_mutex_t lock;
	_Atomic int fd;    /* -1: there is no file */
	bool loaded;       /* `end` and `free` are right; else the extent rows must be read first */
	bool free_on_disk; /* the `free` table is right */
	bool changed;      /* units were taken or freed since it was */
	bool new_file;     /* its directory entry is not synced yet */
	int64_t end;       /* units from here on were never handed out, or cut off again */
	struct runs free;  /* may be handed out */
	struct runs parked; /* durably free, but somebody may still read them (pins) */
	struct runs limbo;  /* freed by a commit that is not durable yet */
	_Atomic unsigned pins;
	_Atomic bool dirty; /* written since the last sync */
	_Atomic bool
		want_sync; /* the disk was full: make the next commit durable, to get space back */
	int64_t flow_from, flow_to; /* a sequential write under way: bytes not pushed out yet */
};

/* What one row of `state` says, beyond store_info. */
struct state {
	struct store_info info;
	int64_t data_end;
	bool free_known;
	char layers[STORE_LAYERS_TEXT]; /* ids, newest first, spaces between */
};

struct store {
	char *path;
	bool readonly;
	bool snapshot; /* store_open_snapshot: no head */
	struct layer *layers;
	size_t count;
	struct data data;
	/* writer */
	bool in_transaction, state_dirty;
	int failed;         /* the first error since store_begin */
	struct state state; /* as the transaction will leave it */
	struct state saved; /* as of the last commit */
	struct runs freed;  /* by this transaction */
	_Atomic uint64_t commits;
	/* reader: one read transaction for many calls, until there is a newer commit. Recursive,
	 * held while a statement of the head is in use; so that the writer can end it for a
	 * checkpoint. */
	pthread_mutex_t reading;
	unsigned reading_depth;
	bool reading_begun;
	uint64_t reading_commit; /* `commits` when it began */
	bool has_xattrs;         /* the head may have rows in xattr */
	bool unsynced;           /* a commit is not durable yet */
	bool wal_doubt;          /* syncing the WAL failed: what it holds may be gone */
	int wal_frames, wal_limit;
	pthread_mutex_t info_lock;
	/* for any thread, under info_lock: */
	struct store_info info;  /* of the last commit */
	char *chain;             /* ids of the layers below the head */
	struct merging *merging; /* maintain.c: written, or being written */
	bool merging_ready;
};

/* ---- path.c ---- */

/* The sibling of "X.db": "X" + suffix. The caller frees. */
char *path_sibling(const char *db_path, const char *suffix);
/* "X.layers/ID" + suffix. The caller frees. */
char *path_layer(const char *db_path, const char *id, const char *suffix);
/* An absolute path that ends in ".db", or -EINVAL, -ENAMETOOLONG. */
int path_absolute(const char *path, char **ret_path, struct err *err) MUST_USE;
/* Sync the folder that holds `path`. */
int path_sync_dir(const char *path) MUST_USE;
/* The database's WAL is not there, or empty: -EIO if it holds something. Removes it. */
int path_drop_wal(const char *db_path) MUST_USE;
/* Hard links to every file of one folder in a new one. Nothing to do when there is none. */
int path_link_all(const char *from, const char *to) MUST_USE;
int path_sync(const char *path) MUST_USE;
/* Remove if it is there. */
int path_unlink(const char *path) MUST_USE;
/* `to` becomes a hard link to `from`, or a copy of it on another filesystem. */
int path_link(const char *from, const char *to) MUST_USE;
/* `from` to `to`, which must not exist. */
int path_rename_new(const char *from, const char *to) MUST_USE;
/* Remove everything but the database that belongs to a workspace; its layers too. */
int path_remove_siblings(const char *db_path) MUST_USE;
void id_new(char ret_id[STORE_ID + 1]);
bool id_valid(const char *id, size_t len);

/* Take a descriptor out of a variable that would close it. */
static inline int fd_take(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/* ---- db.c: connections ---- */

enum db_kind {
	DB_HEAD,      /* WAL, read and write */
	DB_IMMUTABLE, /* nobody changes the file */
	DB_READONLY,  /* somebody may */
	DB_NEW,       /* make the file; no journal, never synced: a crash loses it whole */
};

int db_open(const char *path, enum db_kind kind, int cache_kib, sqlite3 **ret_db) MUST_USE;
/* Run SQL without results. */
int db_exec(sqlite3 *db, const char *sql) MUST_USE;
int db_prepare(sqlite3 *db, enum stmt which, sqlite3_stmt **ret_stmt) MUST_USE;
/* The errno (negative) for what SQLite said last. */
int db_error(sqlite3 *db, int rc) MUST_USE;
void db_close(sqlite3 **db); /* for CLEANUP */

/* Have the connection of a side open. */
int layer_open(struct store *store, size_t index, enum side side) MUST_USE;
void layer_close(struct layer *layer);
void conn_close(struct conn *conn);
/* The kept statement, or another one if that is busy. */
int use_begin(struct use *use, struct store *store, size_t index, enum side side,
	      enum stmt which) MUST_USE;
void use_end(struct use *use);
/* Enter and leave the reader's transaction on the head: all reads between see one state. */
int reading_begin(struct store *store) MUST_USE;
void reading_end(struct store *store);
/* Close the transaction if no reader is at it, so that it is in no checkpoint's way. */
void reading_stop(struct store *store);
/* 1 a row, 0 no more, or an error. */
int use_step(struct use *use) MUST_USE;
/* Bind, run, reset a kept statement of the writer's head. */
int stmt_prepare(struct conn *conn, enum stmt which) MUST_USE;
int stmt_run(struct store *store, sqlite3_stmt *stmt) MUST_USE;

/* Bytes as a blob that is never NULL. SQLite borrows them until the statement is bound again. */
static inline void bind_span(sqlite3_stmt *stmt, int index, struct span span)
{
	sqlite3_bind_blob(stmt, index, span.data ? span.data : "", (int)span.len, SQLITE_STATIC);
}

/* ---- schema.c ---- */

int schema_create(sqlite3 *db, bool portable) MUST_USE;
/* Is this our file, of a version we know, with exactly our tables? -EPROTO, -EPROTONOSUPPORT,
 * -EUCLEAN. */
int schema_verify(sqlite3 *db, const char *path, bool *ret_portable, struct err *err) MUST_USE;
/* Look at the first bytes, without SQLite. -EPROTO. */
int schema_sniff(const char *path, struct err *err) MUST_USE;
int state_read(sqlite3_stmt *stmt, struct state *ret_state) MUST_USE;
void state_bind(sqlite3_stmt *stmt, const struct state *state);
/* Read a database's state row by a statement of its own. */
int state_load(sqlite3 *db, struct state *ret_state) MUST_USE;

/* ---- merge.c: rows of one table through several layers, newest wins ---- */

struct merge {
	struct use *use;
	bool *end;
	size_t count, first;
	int keys;   /* leading columns that identify a row */
	size_t now; /* whose row is the current one */
	bool started;
};

#define MERGE_INIT ((struct merge){0})

/* Layers first..last-1 of a store. */
struct range {
	struct store *store;
	enum side side;
	size_t first, last;
};

static inline struct range all_layers(struct store *store, enum side side)
{
	return (struct range){store, side, 0, store->count};
}

/* `args` are bound to the statement's parameters, if it has any. */
int merge_begin(struct merge *merge, struct range range, enum stmt which,
		const int64_t *args) MUST_USE;
/* 1 and the next row (tombstones too), 0, or an error. */
int merge_next(struct merge *merge) MUST_USE;
void merge_end(struct merge *merge); /* for CLEANUP */

static inline sqlite3_stmt *merge_row(const struct merge *merge)
{
	return merge->use[merge->now].stmt;
}

/* The layer the current row is from. */
static inline size_t merge_layer(const struct merge *merge)
{
	return merge->first + merge->now;
}

/* ---- read.c ---- */

/* Decode columns from..: ino (unless `ino` is given), mode, ... -EUCLEAN. */
int row_node(sqlite3_stmt *stmt, int from, struct store_node *ret_node) MUST_USE;
/* The newest row in layers first.. . 1, 0 (none, or a tombstone), or an error. */
int find_node(struct store *store, enum side side, size_t first, int64_t ino,
	      struct store_node *ret_node) MUST_USE;
int find_dirent(struct store *store, enum side side, size_t first, int64_t parent, struct span name,
		int64_t *ret_ino) MUST_USE;
int find_inline(struct store *store, enum side side, size_t first, int64_t ino,
		struct buf *content) MUST_USE;
int find_unit(struct store *store, enum side side, size_t first, int64_t ino, int64_t idx,
	      struct store_unit *ret_unit) MUST_USE;
int find_xattr(struct store *store, enum side side, size_t first, int64_t ino, struct span name,
	       struct buf *value) MUST_USE;
bool name_valid(struct span name);
/* A blob of at most `max` bytes. -EUCLEAN. */
int column_span(sqlite3_stmt *stmt, int column, size_t max, struct span *ret_span) MUST_USE;
/* An integer in [min, max]. -EUCLEAN. */
int column_int(sqlite3_stmt *stmt, int column, int64_t min, int64_t max,
	       int64_t *ret_value) MUST_USE;

/* ---- open.c ---- */

/* Tell other threads what the state is now. */
void store_publish(struct store *store);
/* Open a chain of layers of the workspace at `path`, read-only, all files at once: they may be
 * removed meanwhile. */
int store_open_chain(const char *path, const char *layers, struct store **ret_store) MUST_USE;
/* Open an exported file, read-only. */
int store_open_portable(const char *file, struct store **ret_store) MUST_USE;

/* Content bytes that an inode uses, as store_info counts them. */
int store_content_bytes(struct store *store, enum side side, const struct store_node *node,
			uint64_t *ret_bytes) MUST_USE;

/* Delete the inodes that were unlinked and still open when their owner ended. */
int orphans_collect(struct store *store) MUST_USE;

/* ---- write.c ---- */

/* Checkpoint; everything is durable and in the database afterwards. `truncate`: leave no WAL. */
int store_checkpoint(struct store *store, bool truncate) MUST_USE;
/* Note a failure inside the transaction; returns it. */
int store_fail(struct store *store, int r);

/* ---- runs.c ---- */

void runs_clear(struct runs *runs);
/* Enter a run. false: it overlaps one that is there (nothing changes). */
bool runs_add(struct runs *runs, int64_t pos, int64_t count);
void runs_remove(struct runs *runs, size_t index, int64_t count); /* the first `count` of a run */
int64_t runs_total(const struct runs *runs);
void runs_move(struct runs *to, struct runs *from);

/* ---- data.c ---- */

void data_init(struct data *data);
void data_clear(struct data *data);
/* Open the head's extent file as its state says; drop what nobody named. */
int data_open(struct store *store, struct err *err) MUST_USE;
/* Know what is free. Under data.lock. */
int data_load(struct store *store) MUST_USE;
/* The transaction that freed `runs` is committed. Empties `runs`. */
void data_freed(struct store *store, struct runs *runs);
/* Everything committed is durable: what was freed may be used again. */
void data_durable(struct store *store);
/* The descriptor of a layer's extent file, or an error. */
int data_layer_fd(struct store *store, size_t index) MUST_USE;

/* ---- maintain.c ---- */

/* The id of the layer that is being made, or NULL. Under info_lock. */
const char *merging_id(const struct store *store);

/* ---- chain.c ---- */

bool snapshot_name_valid(struct span name);
/* Every snapshot with its layers; stops when `fn` is non-zero and returns that. */
int snapshot_each(struct store *store, enum side side,
		  int (*fn)(void *arg, const struct store_snapshot *row, const char *layers),
		  void *arg) MUST_USE;

/* The row of a snapshot, and its layers. -ENOENT, -EUCLEAN. */
int snapshot_find(struct store *store, const char *name, struct store_snapshot *ret_row,
		  char ret_layers[STORE_LAYERS_TEXT], struct err *err) MUST_USE;

/* Parse "id id ..." into ids. The count, or -EUCLEAN. */
ssize_t chain_parse(const char *text, char (*ret_ids)[STORE_ID + 1]) MUST_USE;
/* Fill store->layers from store->state.layers. */
int chain_open(struct store *store) MUST_USE;
void chain_close(struct store *store);
/* Remove layer files that neither the head nor a snapshot stands on, and half-made ones. */
int chain_collect(struct store *store) MUST_USE;

/* Tests stop the process at a named step of what must survive it. */
extern void (*store_step)(const char *name);

static inline void step(const char *name)
{
	if (store_step)
		store_step(name);
}

#endif
