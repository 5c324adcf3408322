/* write.c - one transaction of rows, its commit, and what makes it durable. */
#include "base/clock.h"
#include "store/store_i.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>

#define LIMBO_LIMIT 256 /* units: free this much space and the next commit is made durable */

int store_fail(struct store *store, int r)
{
	if (store->failed == 0)
		store->failed = r;
	return r;
}

/* A kept statement of the head, ready to be bound; NULL and store->failed. */
static sqlite3_stmt *head_stmt(struct store *store, enum stmt which)
{
	struct conn *conn = &store->layers[0].conn[WRITER];
	int r;

	assert(store->in_transaction);
	if (conn->stmt[which])
		return conn->stmt[which];
	r = stmt_prepare(conn, which);
	if (r < 0) {
		store_fail(store, r);
		return NULL;
	}
	return conn->stmt[which];
}

static int run_ino(struct store *store, enum stmt which, int64_t ino)
{
	sqlite3_stmt *stmt = head_stmt(store, which);

	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, ino);
	return stmt_run(store, stmt);
}

int store_begin(struct store *store)
{
	struct conn *conn;
	int r;

	if (store->readonly)
		return -EROFS;
	assert(!store->in_transaction);
	r = layer_open(store, 0, WRITER);
	conn = &store->layers[0].conn[WRITER];
	if (r == 0)
		r = stmt_prepare(conn, STMT_BEGIN);
	if (r < 0)
		return r;
	store->failed = 0;
	r = stmt_run(store, conn->stmt[STMT_BEGIN]);
	if (r < 0)
		return r;
	store->in_transaction = true;
	store->saved = store->state;
	return 0;
}

int store_put_node(struct store *store, const struct store_node *node)
{
	sqlite3_stmt *stmt = head_stmt(store, STMT_PUT_NODE);
	int r;

	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, node->ino);
	sqlite3_bind_int64(stmt, 2, node->mode);
	sqlite3_bind_int64(stmt, 3, node->uid);
	sqlite3_bind_int64(stmt, 4, node->gid);
	sqlite3_bind_int64(stmt, 5, node->nlink);
	sqlite3_bind_int64(stmt, 6, (int64_t)node->rdev);
	sqlite3_bind_int64(stmt, 7, node->size);
	sqlite3_bind_int64(stmt, 8, node->atime);
	sqlite3_bind_int64(stmt, 9, node->mtime);
	sqlite3_bind_int64(stmt, 10, node->ctime);
	sqlite3_bind_int64(stmt, 11, node->btime);
	sqlite3_bind_int64(stmt, 12, node->flags);
	r = stmt_run(store, stmt);
	/* One that gets a name again leaves a row here, which the next open looks at and drops. */
	if (r == 0 && node->flags & STORE_NODE_ORPHAN)
		r = run_ino(store, STMT_PUT_ORPHAN, node->ino);
	return r;
}

/* The row of the head itself: 1, 0, or an error. */
static int head_node(struct store *store, int64_t ino, struct store_node *ret_node)
{
	sqlite3_stmt *stmt = head_stmt(store, STMT_GET_NODE);
	int rc, r = 0;

	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, ino);
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW) {
		r = row_node(stmt, 0, ret_node);
		r = r < 0 ? store_fail(store, r) : 1;
	} else if (rc != SQLITE_DONE) {
		r = store_fail(store, db_error(sqlite3_db_handle(stmt), rc));
	}
	sqlite3_reset(stmt);
	return r;
}

/* The head's units of a file from `first` on become free with this transaction. */
static int free_units(struct store *store, int64_t ino, int64_t first)
{
	sqlite3_stmt *stmt = head_stmt(store, STMT_EACH_UNIT);
	int rc, r = 0;

	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, ino);
	sqlite3_bind_int64(stmt, 2, first);
	sqlite3_bind_int64(stmt, 3, INT64_MAX);
	for (rc = sqlite3_step(stmt); rc == SQLITE_ROW && r == 0; rc = sqlite3_step(stmt)) {
		int64_t pos;

		r = column_int(stmt, 1, STORE_HOLE, STORE_UNITS_MAX - 1, &pos);
		if (r == 0 && pos != STORE_HOLE)
			(void)runs_add(&store->freed, pos, 1);
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_error(sqlite3_db_handle(stmt), rc);
	sqlite3_reset(stmt);
	if (r < 0)
		return store_fail(store, r);
	stmt = head_stmt(store, STMT_DEL_UNITS);
	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, ino);
	sqlite3_bind_int64(stmt, 2, first);
	return stmt_run(store, stmt);
}

int store_del_node(struct store *store, int64_t ino)
{
	struct store_node node = {0}, below = {0};
	int found = head_node(store, ino, &node), r = 0;
	bool deep = store->count > 1;

	if (found < 0)
		return found;
	/*
	 * Rows of the layers below need no tombstones of their own but the node's: a number is
	 * never used again, so nobody asks for them.
	 */
	if (deep) {
		r = find_node(store, WRITER, 1, ino, &below);
		if (r < 0)
			return store_fail(store, r);
	}
	if (r > 0) {
		struct store_node gone = {.ino = ino};

		r = store_put_node(store, &gone);
	} else if (found) {
		r = run_ino(store, STMT_DEL_NODE, ino);
	}
	if (r == 0 && (!found || node.flags & STORE_NODE_ORPHAN || below.flags & STORE_NODE_ORPHAN))
		r = run_ino(store, STMT_DEL_ORPHAN, ino);
	if (r == 0)
		r = run_ino(store, STMT_DEL_INLINE, ino);
	/* The flag says whether a file has units; without a row of our own any may be here. */
	if (r == 0 && (!found || node.flags & STORE_NODE_EXTENTS || deep))
		r = free_units(store, ino, 0);
	if (r == 0 && store->has_xattrs)
		r = run_ino(store, STMT_DEL_XATTRS, ino);
	return r;
}

static int put_dirent(struct store *store, int64_t parent, struct span name, int64_t ino)
{
	sqlite3_stmt *stmt = head_stmt(store, STMT_PUT_DIRENT);

	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, parent);
	bind_span(stmt, 2, name);
	sqlite3_bind_int64(stmt, 3, ino);
	return stmt_run(store, stmt);
}

int store_put_dirent(struct store *store, int64_t parent, struct span name, int64_t ino)
{
	assert(ino > 0);
	return put_dirent(store, parent, name, ino);
}

int store_del_dirent(struct store *store, int64_t parent, struct span name)
{
	sqlite3_stmt *stmt;
	int64_t below;
	int r = store->count > 1 ? find_dirent(store, WRITER, 1, parent, name, &below) : 0;

	if (r < 0)
		return store_fail(store, r);
	if (r > 0)
		return put_dirent(store, parent, name, 0);
	stmt = head_stmt(store, STMT_DEL_DIRENT);
	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, parent);
	bind_span(stmt, 2, name);
	return stmt_run(store, stmt);
}

int store_put_inline(struct store *store, int64_t ino, struct span content)
{
	sqlite3_stmt *stmt = head_stmt(store, STMT_PUT_INLINE);

	if (!stmt)
		return store->failed;
	if (content.len > STORE_INLINE_MAX)
		return store_fail(store, -EFBIG);
	sqlite3_bind_int64(stmt, 1, ino);
	bind_span(stmt, 2, content);
	return stmt_run(store, stmt);
}

int store_del_inline(struct store *store, int64_t ino)
{
	sqlite3_stmt *stmt;
	int r = store->count > 1 ? find_inline(store, WRITER, 1, ino, NULL) : 0;

	if (r < 0)
		return store_fail(store, r);
	if (r == 0)
		return run_ino(store, STMT_DEL_INLINE, ino);
	stmt = head_stmt(store, STMT_PUT_INLINE);
	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, ino);
	sqlite3_bind_null(stmt, 2);
	return stmt_run(store, stmt);
}

static int put_unit(struct store *store, int64_t ino, int64_t idx, int64_t pos)
{
	sqlite3_stmt *stmt = head_stmt(store, STMT_PUT_UNIT);

	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, ino);
	sqlite3_bind_int64(stmt, 2, idx);
	sqlite3_bind_int64(stmt, 3, pos);
	return stmt_run(store, stmt);
}

/* Where the head has a unit: 1 and its position (may be a hole), 0, or an error. */
static int head_unit(struct store *store, int64_t ino, int64_t idx, int64_t *ret_pos)
{
	sqlite3_stmt *stmt = head_stmt(store, STMT_GET_UNIT);
	int rc, r = 0;

	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, ino);
	sqlite3_bind_int64(stmt, 2, idx);
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW) {
		r = column_int(stmt, 0, STORE_HOLE, STORE_UNITS_MAX - 1, ret_pos);
		r = r < 0 ? store_fail(store, r) : 1;
	} else if (rc != SQLITE_DONE) {
		r = store_fail(store, db_error(sqlite3_db_handle(stmt), rc));
	}
	sqlite3_reset(stmt);
	return r;
}

int store_put_unit(struct store *store, int64_t ino, int64_t idx, int64_t pos)
{
	struct store_unit below;
	sqlite3_stmt *stmt;
	int64_t old = STORE_HOLE;
	int found = head_unit(store, ino, idx, &old), r = 0;

	if (found < 0)
		return found;
	if (found && old == pos)
		return 0;
	if (found && old != STORE_HOLE)
		(void)runs_add(&store->freed, old, 1);
	if (pos != STORE_HOLE)
		return put_unit(store, ino, idx, pos);
	if (store->count > 1)
		r = find_unit(store, WRITER, 1, ino, idx, &below);
	if (r < 0)
		return store_fail(store, r);
	if (r > 0)
		return put_unit(store, ino, idx, STORE_HOLE);
	if (!found)
		return 0;
	stmt = head_stmt(store, STMT_DEL_UNIT);
	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, ino);
	sqlite3_bind_int64(stmt, 2, idx);
	return stmt_run(store, stmt);
}

int store_del_units(struct store *store, int64_t ino, int64_t first)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	int64_t args[] = {ino, first, INT64_MAX};
	int r = free_units(store, ino, first);

	if (r < 0 || store->count == 1)
		return r;
	r = merge_begin(&merge, (struct range){store, WRITER, 1, store->count}, STMT_EACH_UNIT,
			args);
	if (r < 0)
		return store_fail(store, r);
	for (r = merge_next(&merge); r == 1; r = merge_next(&merge)) {
		int64_t idx, pos;

		r = column_int(merge_row(&merge), 0, 0, STORE_UNITS_MAX, &idx);
		if (r == 0)
			r = column_int(merge_row(&merge), 1, STORE_HOLE, STORE_UNITS_MAX, &pos);
		if (r == 0 && pos != STORE_HOLE)
			r = put_unit(store, ino, idx, STORE_HOLE);
		if (r < 0)
			break;
	}
	return r < 0 ? store_fail(store, r) : 0;
}

int store_put_xattr(struct store *store, int64_t ino, struct span name, struct span value)
{
	sqlite3_stmt *stmt = head_stmt(store, STMT_PUT_XATTR);

	if (!stmt)
		return store->failed;
	if (name.len == 0 || name.len > STORE_NAME_MAX || value.len > STORE_VALUE_MAX)
		return store_fail(store, -EINVAL);
	store->has_xattrs = true;
	sqlite3_bind_int64(stmt, 1, ino);
	bind_span(stmt, 2, name);
	bind_span(stmt, 3, value);
	return stmt_run(store, stmt);
}

int store_del_xattr(struct store *store, int64_t ino, struct span name)
{
	sqlite3_stmt *stmt;
	int r = store->count > 1 ? find_xattr(store, WRITER, 1, ino, name, NULL) : 0;

	if (r < 0)
		return store_fail(store, r);
	store->has_xattrs = store->has_xattrs || r > 0;
	stmt = head_stmt(store, r > 0 ? STMT_PUT_XATTR : STMT_DEL_XATTR);
	if (!stmt)
		return store->failed;
	sqlite3_bind_int64(stmt, 1, ino);
	bind_span(stmt, 2, name);
	if (r > 0)
		sqlite3_bind_null(stmt, 3);
	return stmt_run(store, stmt);
}

int store_put_audit(struct store *store, uint64_t first, uint64_t last, int64_t at,
		    struct span records, const unsigned char hash[32])
{
	sqlite3_stmt *stmt = head_stmt(store, STMT_PUT_AUDIT);

	if (!stmt)
		return store->failed;
	if (records.len > STORE_AUDIT_MAX || first > last || last > INT64_MAX)
		return store_fail(store, -EINVAL);
	sqlite3_bind_int64(stmt, 1, (int64_t)first);
	sqlite3_bind_int64(stmt, 2, (int64_t)last);
	sqlite3_bind_int64(stmt, 3, at);
	bind_span(stmt, 4, records);
	bind_span(stmt, 5, span_of(hash, 32));
	store->state.info.audit_seq = last;
	memcpy(store->state.info.audit_hash, hash, 32);
	store->state_dirty = true;
	return stmt_run(store, stmt);
}

int store_put_counters(struct store *store, int64_t next_ino, uint64_t bytes, uint64_t inodes)
{
	assert(store->in_transaction);
	store->state.info.next_ino = next_ino;
	store->state.info.bytes = bytes;
	store->state.info.inodes = inodes;
	store->state_dirty = true;
	return 0;
}

int store_put_quota(struct store *store, uint64_t bytes, uint64_t inodes)
{
	assert(store->in_transaction);
	if (bytes > INT64_MAX || inodes > INT64_MAX)
		return store_fail(store, -EINVAL);
	store->state.info.quota_bytes = bytes;
	store->state.info.quota_inodes = inodes;
	store->state_dirty = true;
	return 0;
}

int store_put_meta(struct store *store, const char *key, struct span value)
{
	sqlite3_stmt *stmt = head_stmt(store, value.len ? STMT_PUT_META : STMT_DEL_META);

	if (!stmt)
		return store->failed;
	if (strlen(key) > STORE_NAME_MAX || value.len > STORE_VALUE_MAX)
		return store_fail(store, -EINVAL);
	sqlite3_bind_text(stmt, 1, key, -1, SQLITE_STATIC);
	if (value.len)
		bind_span(stmt, 2, value);
	return stmt_run(store, stmt);
}

/* ---- commit ---- */

void store_rollback(struct store *store)
{
	struct conn *conn = &store->layers[0].conn[WRITER];

	if (!store->in_transaction)
		return;
	store->in_transaction = false;
	/* SQLite has done it itself after some errors. Undoing cannot fail: it forgets memory. */
	if (!sqlite3_get_autocommit(conn->db) && stmt_prepare(conn, STMT_ROLLBACK) == 0) {
		sqlite3_step(conn->stmt[STMT_ROLLBACK]);
		sqlite3_reset(conn->stmt[STMT_ROLLBACK]);
	}
	store->state = store->saved;
	store->state_dirty = false;
	store->freed.len = 0;
}

/* Write the row of counters, with what must be told about the extent file. */
static int put_state(struct store *store)
{
	struct data *data = &store->data;
	struct state *state = &store->state;
	sqlite3_stmt *stmt;

	pthread_mutex_lock(&data->lock);
	if (store->freed.len) {
		int r = data_load(store);

		if (r < 0) {
			pthread_mutex_unlock(&data->lock);
			return store_fail(store, r);
		}
		data->changed = true;
	}
	if (data->loaded && state->data_end != data->end) {
		state->data_end = data->end;
		store->state_dirty = true;
	}
	if (data->changed && state->free_known) {
		state->free_known = false;
		store->state_dirty = true;
	}
	pthread_mutex_unlock(&data->lock);
	if (!store->state_dirty)
		return 0;
	stmt = head_stmt(store, STMT_PUT_STATE);
	if (!stmt)
		return store->failed;
	state_bind(stmt, state);
	return stmt_run(store, stmt);
}

/* Everything in the WAL is on disk. */
static int sync_wal(struct store *store)
{
	sqlite3 *db = store->layers[0].conn[WRITER].db;
	sqlite3_file *file = NULL;
	int rc;

	rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
	if (rc != SQLITE_OK || !file || !file->pMethods)
		return -EIO;
	rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
	return rc == SQLITE_OK ? 0 : -EIO;
}

/*
 * Whether the database can grow to what the WAL holds. On a full disk a checkpoint that cannot end
 * would eat, page by page, the room that the next commit needs, and give nothing back.
 */
static bool room_for_checkpoint(struct store *store, sqlite3 *db)
{
	sqlite3_stmt *stmt = NULL;
	uint64_t bytes, room, pages = 0;
	struct stat st;

	if (store_get_disk(store, &bytes, &room) < 0 || stat(store->path, &st) < 0)
		return true;
	if (sqlite3_prepare_v2(db, "PRAGMA page_count", -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		pages = (uint64_t)sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return pages * STORE_PAGE <= (uint64_t)st.st_size + room;
}

int store_checkpoint(struct store *store, bool truncate)
{
	sqlite3 *db = store->layers[0].conn[WRITER].db;
	int all = 0, done = 0, rc, r;
	bool room;

	if (!db)
		return 0;
	room = room_for_checkpoint(store, db);
	/* Closing must not try what we do not; the WAL waits for the next open. */
	for (size_t i = 0; i < ARRAY_LEN(store->layers[0].conn); i++)
		if (store->layers[0].conn[i].db)
			sqlite3_db_config(store->layers[0].conn[i].db,
					  SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !room, NULL);
	if (!room)
		return -ENOSPC;
	/* Rows reach the database only after the units they name. */
	r = store_data_sync(store);
	if (r < 0)
		return r;
	reading_stop(store);
	rc = sqlite3_wal_checkpoint_v2(
		db, NULL, truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, &all,
		&done);
	if (rc != SQLITE_OK) {
		if ((rc & 0xff) == SQLITE_IOERR)
			store->wal_doubt = true;
		return db_error(db, rc);
	}
	store->wal_limit = WAL_LIMIT;
	if (done < all) {
		store->wal_limit = all + WAL_LIMIT; /* a reader is in the way */
		return truncate ? -EBUSY : 0;
	}
	store->wal_doubt = false;
	store->unsynced = false;
	data_durable(store);
	return 0;
}

int store_sync(struct store *store)
{
	int r;

	if (!store->unsynced)
		return 0;
	r = store_data_sync(store);
	if (r < 0)
		return r;
	/* After a failed sync the kernel may call clean what it lost: write it all again. */
	if (store->wal_doubt)
		return store_checkpoint(store, true);
	r = sync_wal(store);
	if (r < 0) {
		store->wal_doubt = true;
		return r;
	}
	store->unsynced = false;
	data_durable(store);
	return 0;
}

int store_commit(struct store *store, bool durable)
{
	struct conn *conn = &store->layers[0].conn[WRITER];
	int64_t limbo;
	int r = store->failed;

	assert(store->in_transaction);
	if (r == 0)
		r = put_state(store);
	if (r == 0 && durable)
		r = store_data_sync(store);
	if (r == 0)
		r = stmt_prepare(conn, STMT_COMMIT);
	if (r == 0)
		r = stmt_run(store, conn->stmt[STMT_COMMIT]);
	if (r < 0) {
		store_rollback(store);
		/* A WAL that is written back begins again at its start: room for the next try. */
		if (r == -ENOSPC || r == -EDQUOT)
			ignore(store_checkpoint(store, false));
		return r;
	}
	store->in_transaction = false;
	store->state_dirty = false;
	store->unsynced = true;
	atomic_fetch_add(&store->commits, 1);
	pthread_mutex_lock(&store->info_lock);
	store->info = store->state.info;
	pthread_mutex_unlock(&store->info_lock);
	data_freed(store, &store->freed);

	pthread_mutex_lock(&store->data.lock);
	limbo = runs_total(&store->data.limbo);
	pthread_mutex_unlock(&store->data.lock);
	if (durable)
		r = store_sync(store);
	else if (limbo >= LIMBO_LIMIT || (limbo && atomic_exchange(&store->data.want_sync, false)))
		ignore(store_sync(store)); /* for the space; nobody was promised anything */
	/* A failure here loses nothing: the WAL has it all, and the next commit tries again. */
	if (store->wal_frames >= store->wal_limit)
		ignore(store_checkpoint(store, false));
	return r;
}
