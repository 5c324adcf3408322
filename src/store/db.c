/* db.c - SQLite connections: how they are opened, kept statements, errors. */
#include "store/store_i.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const char *const stmt_sql[STMT_COUNT] = {
#define STMT(name, sql) [STMT_##name] = (sql),
#include "store/stmts.def"
#undef STMT
};

int db_error(sqlite3 *db, int rc)
{
	int host;

	switch (rc & 0xff) {
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_IOERR:
		host = db ? sqlite3_system_errno(db) : 0;
		if (host == ENOSPC || host == EDQUOT)
			return -host;
		return rc == SQLITE_IOERR_NOMEM ? -ENOMEM : -EIO;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_CONSTRAINT: /* a foreign file with rows its own schema forbids */
	case SQLITE_MISMATCH:
	case SQLITE_SCHEMA:
	case SQLITE_ERROR: /* a statement of ours that does not fit the file's tables */
	case SQLITE_TOOBIG:
		return -EUCLEAN;
	case SQLITE_READONLY:
	case SQLITE_PERM:
		return -EROFS;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_CANTOPEN:
		host = db ? sqlite3_system_errno(db) : 0;
		return host ? -host : -EIO;
	default:
		return -EIO;
	}
}

int db_exec(sqlite3 *db, const char *sql)
{
	int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : db_error(db, rc);
}

void db_close(sqlite3 **db)
{
	sqlite3_close_v2(*db);
	*db = NULL;
}

/* "file:PATH?immutable=1" with what a URI gives a meaning to escaped. */
static char *uri_immutable(const char *path)
{
	static const char tail[] = "?immutable=1";
	static const char head[] = "file:";
	char *uri = mem_alloc(sizeof(head) + 3 * strlen(path) + sizeof(tail));
	char *p = uri + sizeof(head) - 1;

	memcpy(uri, head, sizeof(head));
	for (; *path; path++) {
		if (strchr("?#%", *path))
			p += snprintf(p, 4, "%%%02x", (unsigned)(unsigned char)*path);
		else
			*p++ = *path;
	}
	memcpy(p, tail, sizeof(tail));
	return uri;
}

static void db_once(void)
{
	/* Statistics take a mutex at every allocation. Fails if SQLite runs already: no harm. */
	(void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

int db_open(const char *path, enum db_kind kind, int cache_kib, sqlite3 **ret_db)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static const char *const by_kind[] = {
		[DB_HEAD] = ("PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;"
			     "PRAGMA wal_autocheckpoint=0;PRAGMA secure_delete=OFF;"
			     "PRAGMA cache_spill=OFF;"),
		[DB_IMMUTABLE] = "PRAGMA query_only=ON;",
		[DB_READONLY] = "PRAGMA query_only=ON;",
		[DB_NEW] = "PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;"
			   "PRAGMA locking_mode=EXCLUSIVE;PRAGMA secure_delete=OFF;",
	};
	CLEANUP(mem_free) char *uri = NULL;
	CLEANUP(db_close) sqlite3 *db = NULL;
	char cache[64];
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, rc, r;

	pthread_once(&once, db_once);
	if (kind == DB_IMMUTABLE) {
		uri = uri_immutable(path);
		flags |= SQLITE_OPEN_URI | SQLITE_OPEN_READONLY;
	} else if (kind == DB_READONLY) {
		flags |= SQLITE_OPEN_READONLY;
	} else {
		flags |= SQLITE_OPEN_READWRITE | (kind == DB_NEW ? SQLITE_OPEN_CREATE : 0);
	}
	rc = sqlite3_open_v2(uri ? uri : path, &db, flags, NULL);
	if (rc != SQLITE_OK)
		return db_error(db, rc);
	/* Defensive would also forbid having no journal; a new file has nobody else's rows. */
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, kind != DB_NEW, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, STORE_AUDIT_MAX + 65536);
	sqlite3_limit(db, SQLITE_LIMIT_COLUMN, 64);
	sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, kind == DB_NEW ? 1 : 0);
	/* Our own other connection may be reading the WAL in at this moment (BUSY_RECOVERY). */
	sqlite3_busy_timeout(db, kind == DB_HEAD ? 1000 : 0);
	snprintf(cache, sizeof(cache), "PRAGMA cache_size=-%d;PRAGMA cell_size_check=ON;",
		 cache_kib);
	r = db_exec(db, cache);
	if (r == 0 && kind == DB_NEW)
		r = db_exec(db, "PRAGMA page_size=16384;");
	if (r == 0)
		r = db_exec(db, by_kind[kind]);
	if (r < 0)
		return r;
	*ret_db = db;
	db = NULL;
	return 0;
}

void conn_close(struct conn *conn)
{
	for (size_t i = 0; i < STMT_COUNT; i++) {
		sqlite3_finalize(conn->stmt[i]);
		conn->stmt[i] = NULL;
	}
	db_close(&conn->db);
}

static int on_wal(void *arg, sqlite3 *db, const char *name, int frames)
{
	struct store *store = arg;

	(void)db;
	(void)name;
	store->wal_frames = frames;
	return SQLITE_OK;
}

int layer_open(struct store *store, size_t index, enum side side)
{
	struct layer *layer = &store->layers[index];
	struct conn *conn = &layer->conn[side];
	int r;

	if (conn->db)
		return 0;
	if (layer->id[0]) {
		bool portable;

		r = db_open(layer->path, DB_IMMUTABLE, 1024, &conn->db);
		if (r == -ENOENT)
			return -EUCLEAN;
		if (r == 0)
			r = schema_verify(conn->db, layer->path, &portable, NULL);
		if (r == -EPROTO)
			r = -EUCLEAN;
	} else if (store->readonly) {
		r = db_open(layer->path, DB_READONLY, 2048, &conn->db);
		if (r < 0) /* without a WAL, and where none can be made */
			r = db_open(layer->path, DB_IMMUTABLE, 2048, &conn->db);
	} else {
		r = db_open(layer->path, DB_HEAD, 8192, &conn->db);
		if (r == 0 && side == READER)
			r = db_exec(conn->db, "PRAGMA query_only=ON;");
		if (r == 0 && side == WRITER)
			sqlite3_wal_hook(conn->db, on_wal, store);
	}
	if (r < 0)
		conn_close(conn);
	return r;
}

void layer_close(struct layer *layer)
{
	int fd = layer->data_fd;

	conn_close(&layer->conn[READER]);
	conn_close(&layer->conn[WRITER]);
	if (fd >= 0)
		close(fd);
	layer->data_fd = -1;
	free(layer->path);
	layer->path = NULL;
}

int db_prepare(sqlite3 *db, enum stmt which, sqlite3_stmt **ret_stmt)
{
	int rc = sqlite3_prepare_v3(db, stmt_sql[which], -1, SQLITE_PREPARE_PERSISTENT, ret_stmt,
				    NULL);

	return rc == SQLITE_OK ? 0 : db_error(db, rc);
}

int stmt_prepare(struct conn *conn, enum stmt which)
{
	if (conn->stmt[which])
		return 0;
	return db_prepare(conn->db, which, &conn->stmt[which]);
}

static int run_reader(struct conn *conn, enum stmt which)
{
	int r = stmt_prepare(conn, which), rc;

	if (r < 0)
		return r;
	rc = sqlite3_step(conn->stmt[which]);
	sqlite3_reset(conn->stmt[which]);
	return rc == SQLITE_DONE ? 0 : db_error(conn->db, rc);
}

int reading_begin(struct store *store)
{
	struct conn *conn = &store->layers[0].conn[READER];
	uint64_t commits = atomic_load(&store->commits);
	int r = 0;

	/* Locks on the WAL's index cost more than most look-ups: take them once a commit. */
	pthread_mutex_lock(&store->reading);
	if (!conn->db)
		r = layer_open(store, 0, READER);
	if (r == 0 && store->reading_depth == 0 &&
	    (!store->reading_begun || store->reading_commit != commits)) {
		if (store->reading_begun)
			r = run_reader(conn, STMT_COMMIT);
		store->reading_begun = false;
		if (r == 0)
			r = run_reader(conn, STMT_BEGIN_READ);
		if (r == 0) {
			store->reading_begun = true;
			store->reading_commit = commits;
		}
	}
	if (r < 0) {
		pthread_mutex_unlock(&store->reading);
		return r;
	}
	store->reading_depth++;
	return 0;
}

void reading_end(struct store *store)
{
	store->reading_depth--;
	pthread_mutex_unlock(&store->reading);
}

void reading_stop(struct store *store)
{
	if (pthread_mutex_trylock(&store->reading) != 0)
		return;
	if (store->reading_depth == 0 && store->reading_begun) {
		ignore(run_reader(&store->layers[0].conn[READER], STMT_COMMIT));
		store->reading_begun = false;
	}
	pthread_mutex_unlock(&store->reading);
}

int use_begin(struct use *use, struct store *store, size_t index, enum side side, enum stmt which)
{
	struct conn *conn = &store->layers[index].conn[side];
	int r = 0;

	if (side == READER && index == 0 && !store->readonly) {
		r = reading_begin(store);
		if (r == 0)
			use->reading = store;
	} else if (!conn->db) {
		r = layer_open(store, index, side);
	}
	if (r == 0 && !conn->stmt[which])
		r = stmt_prepare(conn, which);
	if (r < 0)
		return r;
	use->stmt = conn->stmt[which];
	if (!sqlite3_stmt_busy(use->stmt))
		return 0;
	use->extra = true;
	use->stmt = NULL;
	return db_prepare(conn->db, which, &use->stmt);
}

void use_end(struct use *use)
{
	if (use->extra)
		sqlite3_finalize(use->stmt);
	else if (use->stmt)
		sqlite3_reset(use->stmt);
	if (use->reading)
		reading_end(use->reading);
	*use = USE_INIT;
}

int use_step(struct use *use)
{
	int rc = sqlite3_step(use->stmt);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc == SQLITE_DONE)
		return 0;
	return db_error(sqlite3_db_handle(use->stmt), rc);
}

int stmt_run(struct store *store, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt), r = 0;

	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		r = store_fail(store, db_error(sqlite3_db_handle(stmt), rc));
	sqlite3_reset(stmt);
	return r;
}
