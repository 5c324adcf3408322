/* schema.c - the tables, and telling our files from others. */
#include "base/fd.h"
#include "store/store_i.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/*
 * In order of name. The text in a file must be exactly this: so it holds no trigger, no view and no
 * column that does something.
 */
static const struct {
	const char *name, *sql;
} tables[] = {
	{"audit", "CREATE TABLE audit(first INTEGER PRIMARY KEY, last INTEGER NOT NULL, "
		  "at INTEGER NOT NULL, records BLOB NOT NULL, hash BLOB NOT NULL) STRICT"},
	{"chunk", "CREATE TABLE chunk(ino INTEGER NOT NULL, idx INTEGER NOT NULL, "
		  "bytes BLOB NOT NULL, PRIMARY KEY(ino, idx)) STRICT, WITHOUT ROWID"},
	{"dirent", "CREATE TABLE dirent(parent INTEGER NOT NULL, name BLOB NOT NULL, "
		   "ino INTEGER NOT NULL, PRIMARY KEY(parent, name)) STRICT, WITHOUT ROWID"},
	{"extent", "CREATE TABLE extent(ino INTEGER NOT NULL, idx INTEGER NOT NULL, "
		   "pos INTEGER NOT NULL, PRIMARY KEY(ino, idx)) STRICT, WITHOUT ROWID"},
	{"free", "CREATE TABLE free(pos INTEGER PRIMARY KEY, count INTEGER NOT NULL) STRICT"},
	{"inline", "CREATE TABLE inline(ino INTEGER PRIMARY KEY, bytes BLOB) STRICT"},
	{"meta", "CREATE TABLE meta(key TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) "
		 "STRICT, WITHOUT ROWID"},
	{"node", "CREATE TABLE node(ino INTEGER PRIMARY KEY, mode INTEGER NOT NULL, "
		 "uid INTEGER NOT NULL, gid INTEGER NOT NULL, nlink INTEGER NOT NULL, "
		 "rdev INTEGER NOT NULL, size INTEGER NOT NULL, atime INTEGER NOT NULL, "
		 "mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, btime INTEGER NOT NULL, "
		 "flags INTEGER NOT NULL) STRICT"},
	{"orphan", "CREATE TABLE orphan(ino INTEGER PRIMARY KEY) STRICT"},
	{"snapshot", "CREATE TABLE snapshot(name TEXT NOT NULL PRIMARY KEY, at INTEGER NOT NULL, "
		     "layers TEXT NOT NULL, bytes INTEGER NOT NULL, inodes INTEGER NOT NULL, "
		     "audit_seq INTEGER NOT NULL) STRICT, WITHOUT ROWID"},
	{"state", "CREATE TABLE state(id INTEGER PRIMARY KEY, workspace TEXT NOT NULL, "
		  "created INTEGER NOT NULL, next_ino INTEGER NOT NULL, bytes INTEGER NOT NULL, "
		  "inodes INTEGER NOT NULL, quota_bytes INTEGER NOT NULL, "
		  "quota_inodes INTEGER NOT NULL, audit_seq INTEGER NOT NULL, "
		  "audit_hash BLOB NOT NULL, data_end INTEGER NOT NULL, "
		  "free_known INTEGER NOT NULL, layers TEXT NOT NULL) STRICT"},
	{"xattr", "CREATE TABLE xattr(ino INTEGER NOT NULL, name BLOB NOT NULL, value BLOB, "
		  "PRIMARY KEY(ino, name)) STRICT, WITHOUT ROWID"},
};

/* Only exported files have this one. */
#define CHUNK "chunk"

int schema_create(sqlite3 *db, bool portable)
{
	char sql[96];
	int r = db_exec(db, "BEGIN");

	for (size_t i = 0; i < ARRAY_LEN(tables) && r == 0; i++) {
		if (portable || strcmp(tables[i].name, CHUNK) != 0)
			r = db_exec(db, tables[i].sql);
	}
	snprintf(sql, sizeof(sql), "PRAGMA application_id=%d;PRAGMA user_version=%d;COMMIT",
		 STORE_APPLICATION_ID, STORE_SCHEMA);
	if (r == 0)
		r = db_exec(db, sql);
	return r;
}

int schema_sniff(const char *path, struct err *err)
{
	static const char magic[16] = "SQLite format 3";
	CLEANUP(fd_close) int fd = -1;
	unsigned char head[100];
	ssize_t n;
	uint32_t id;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, errno,
			       errno == ENOENT ? "there is no workspace '%s'" : "cannot open '%s'",
			       path);
	n = fd_pread_full(fd, head, sizeof(head), 0);
	if (n < 0)
		return err_set(err, (int)-n, "cannot read '%s'", path);
	if (n < (ssize_t)sizeof(head) || memcmp(head, magic, sizeof(magic)) != 0)
		return err_set(err, EPROTO, "'%s' is not a workspace", path);
	id = (uint32_t)head[68] << 24 | (uint32_t)head[69] << 16 | (uint32_t)head[70] << 8 |
	     head[71];
	if (id != STORE_APPLICATION_ID)
		return err_set(err, EPROTO, "'%s' is a database, but not a workspace", path);
	return 0;
}

static int pragma_int(sqlite3 *db, const char *sql, int64_t *ret_value)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), r;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW) {
		*ret_value = sqlite3_column_int64(stmt, 0);
		r = 0;
	} else {
		r = rc == SQLITE_DONE ? -EUCLEAN : db_error(db, rc);
	}
	sqlite3_finalize(stmt);
	return r;
}

/* Is a row of sqlite_schema the table that is expected at `index`? */
static bool table_matches(sqlite3_stmt *stmt, size_t index)
{
	const char *text[3];

	if (index >= ARRAY_LEN(tables))
		return false;
	for (int i = 0; i < 3; i++) {
		text[i] = (const char *)sqlite3_column_text(stmt, i);
		if (!text[i])
			return false;
	}
	return strcmp(text[0], "table") == 0 && strcmp(text[1], tables[index].name) == 0 &&
	       strcmp(text[2], tables[index].sql) == 0;
}

/* 0, -EUCLEAN, or what reading said. */
static int verify_tables(sqlite3 *db, bool *ret_portable)
{
	sqlite3_stmt *stmt = NULL;
	size_t index = 0;
	bool portable = true;
	int rc, r = 0;

	rc = sqlite3_prepare_v2(db, "SELECT type,name,sql FROM sqlite_schema ORDER BY name", -1,
				&stmt, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	for (; rc == SQLITE_ROW && r == 0; rc = sqlite3_step(stmt), index++) {
		const char *name = (const char *)sqlite3_column_text(stmt, 1);

		if (index < ARRAY_LEN(tables) && strcmp(tables[index].name, CHUNK) == 0 && name &&
		    strcmp(name, CHUNK) != 0) {
			portable = false;
			index++;
		}
		if (!table_matches(stmt, index))
			r = -EUCLEAN;
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_error(db, rc);
	if (r == 0 && index != ARRAY_LEN(tables))
		r = -EUCLEAN;
	sqlite3_finalize(stmt);
	*ret_portable = portable;
	return r;
}

int schema_verify(sqlite3 *db, const char *path, bool *ret_portable, struct err *err)
{
	int64_t id = 0, version = 0;
	int r = pragma_int(db, "PRAGMA application_id", &id);

	if (r == 0)
		r = pragma_int(db, "PRAGMA user_version", &version);
	if (r < 0)
		return err_set(err, -r, r == -EUCLEAN ? "'%s' is damaged" : "cannot read '%s'",
			       path);
	if (id != STORE_APPLICATION_ID)
		return err_set(err, EPROTO, "'%s' is a database, but not a workspace", path);
	if (version > STORE_SCHEMA)
		return err_set(err, EPROTONOSUPPORT,
			       "'%s' was made by a newer version (format %lld, this one knows %d): "
			       "upgrade computer",
			       path, (long long)version, STORE_SCHEMA);
	if (version != STORE_SCHEMA)
		return err_set(err, EUCLEAN, "'%s' is damaged: it has no format %lld", path,
			       (long long)version);
	r = verify_tables(db, ret_portable);
	if (r == -EUCLEAN)
		return err_set(err, EUCLEAN,
			       "'%s' is damaged: its tables are not those of a "
			       "workspace",
			       path);
	if (r < 0)
		return err_set(err, -r, "cannot read '%s'", path);
	return 0;
}

int state_load(sqlite3 *db, struct state *ret_state)
{
	sqlite3_stmt *stmt = NULL;
	int r = db_prepare(db, STMT_GET_STATE, &stmt), rc;

	if (r < 0)
		return r;
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		r = state_read(stmt, ret_state);
	else
		r = rc == SQLITE_DONE ? -EUCLEAN : db_error(db, rc);
	sqlite3_finalize(stmt);
	return r;
}

int state_read(sqlite3_stmt *stmt, struct state *ret_state)
{
	struct state state = {0};
	struct span hash = SPAN_EMPTY;
	const char *workspace = (const char *)sqlite3_column_text(stmt, 0);
	const char *layers = (const char *)sqlite3_column_text(stmt, 11);
	int64_t number[8], free_known = 0;
	static const int columns[] = {1, 2, 3, 4, 5, 6, 7, 9};
	int r = 0;

	if (!workspace || !layers || !id_valid(workspace, strlen(workspace)) ||
	    strlen(layers) >= sizeof(state.layers))
		return -EUCLEAN;
	memcpy(state.info.id, workspace, STORE_ID + 1);
	memcpy(state.layers, layers, strlen(layers) + 1);
	for (size_t i = 0; i < ARRAY_LEN(columns) && r == 0; i++)
		r = column_int(stmt, columns[i], 0, INT64_MAX, &number[i]);
	if (r == 0)
		r = column_span(stmt, 8, sizeof(state.info.audit_hash), &hash);
	if (r == 0)
		r = column_int(stmt, 10, 0, 1, &free_known);
	if (r < 0 || hash.len != sizeof(state.info.audit_hash) || number[7] > STORE_UNITS_MAX ||
	    number[1] < STORE_ROOT)
		return -EUCLEAN;
	state.info.created = number[0];
	state.info.next_ino = number[1];
	state.info.bytes = (uint64_t)number[2];
	state.info.inodes = (uint64_t)number[3];
	state.info.quota_bytes = (uint64_t)number[4];
	state.info.quota_inodes = (uint64_t)number[5];
	state.info.audit_seq = (uint64_t)number[6];
	memcpy(state.info.audit_hash, hash.data, hash.len);
	state.data_end = number[7];
	state.free_known = free_known;
	*ret_state = state;
	return 0;
}

void state_bind(sqlite3_stmt *stmt, const struct state *state)
{
	const struct store_info *info = &state->info;

	sqlite3_bind_text(stmt, 1, info->id, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 2, info->created);
	sqlite3_bind_int64(stmt, 3, info->next_ino);
	sqlite3_bind_int64(stmt, 4, (int64_t)info->bytes);
	sqlite3_bind_int64(stmt, 5, (int64_t)info->inodes);
	sqlite3_bind_int64(stmt, 6, (int64_t)info->quota_bytes);
	sqlite3_bind_int64(stmt, 7, (int64_t)info->quota_inodes);
	sqlite3_bind_int64(stmt, 8, (int64_t)info->audit_seq);
	sqlite3_bind_blob(stmt, 9, info->audit_hash, sizeof(info->audit_hash), SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 10, state->data_end);
	sqlite3_bind_int64(stmt, 11, state->free_known);
	sqlite3_bind_text(stmt, 12, state->layers, -1, SQLITE_STATIC);
}
