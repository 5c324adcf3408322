/* head.c - see head.h. */
#include "store/head.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int run(sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);

	sqlite3_reset(stmt);
	return rc == SQLITE_DONE ? 0 : db_error(sqlite3_db_handle(stmt), rc);
}

int head_begin(const char *path, bool portable, sqlite3 **ret_db)
{
	int r = path_unlink(path), fd;

	if (r < 0)
		return r;
	/* What is in it is its owner's business; SQLite would let the umask decide. */
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	if (r == 0)
		r = db_open(path, DB_NEW, 4096, ret_db);
	if (r == 0)
		r = schema_create(*ret_db, portable);
	if (r == 0)
		r = db_exec(*ret_db, "BEGIN");
	return r;
}

int head_end(sqlite3 **db)
{
	int r = db_exec(*db, "COMMIT");

	if (r == 0)
		r = db_exec(*db, "PRAGMA journal_mode=WAL");
	db_close(db);
	return r;
}

int head_put_state(sqlite3 *db, const struct state *state)
{
	sqlite3_stmt *stmt = NULL;
	int r = db_prepare(db, STMT_PUT_STATE, &stmt);

	if (r < 0)
		return r;
	state_bind(stmt, state);
	r = run(stmt);
	sqlite3_finalize(stmt);
	return r;
}

int head_copy_row(sqlite3_stmt *from, sqlite3_stmt *to, int columns)
{
	for (int i = 0; i < columns; i++)
		sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i));
	return run(to);
}

/* Copy a small table of the newest layer of a store. */
static int copy_table(sqlite3 *db, struct store *from, enum stmt walk, enum stmt put, int columns)
{
	CLEANUP(use_end) struct use use = USE_INIT;
	sqlite3_stmt *stmt = NULL;
	int r = use_begin(&use, from, 0, READER, walk);

	if (r == 0)
		r = db_prepare(db, put, &stmt);
	while (r == 0) {
		r = use_step(&use);
		if (r <= 0)
			break;
		r = head_copy_row(use.stmt, stmt, columns);
	}
	sqlite3_finalize(stmt);
	return r;
}

static int put_root(sqlite3 *db, const struct state *state)
{
	sqlite3_stmt *stmt = NULL;
	int64_t now = state->info.created;
	int64_t values[] = {STORE_ROOT, S_IFDIR | 0755,
			    geteuid(),  getegid(),
			    2,          STORE_ROOT,
			    0,          now,
			    now,        now,
			    now,        0};
	int r = db_prepare(db, STMT_PUT_NODE, &stmt);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		sqlite3_bind_int64(stmt, (int)i + 1, values[i]);
	r = run(stmt);
	sqlite3_finalize(stmt);
	return r;
}

static int put_snapshot(sqlite3 *db, const struct store_snapshot *row, const char *layers)
{
	sqlite3_stmt *stmt = NULL;
	int r = db_prepare(db, STMT_PUT_SNAPSHOT, &stmt);

	if (r < 0)
		return r;
	sqlite3_bind_text(stmt, 1, row->name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 2, row->at);
	sqlite3_bind_text(stmt, 3, layers, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 4, (int64_t)row->bytes);
	sqlite3_bind_int64(stmt, 5, (int64_t)row->inodes);
	sqlite3_bind_int64(stmt, 6, (int64_t)row->audit_seq);
	r = run(stmt);
	sqlite3_finalize(stmt);
	return r;
}

static int copy_audit(sqlite3 *db, struct store *from, uint64_t after)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	sqlite3_stmt *stmt = NULL;
	int64_t arg = (int64_t)after;
	int r;

	r = merge_begin(&merge, all_layers(from, READER), STMT_EACH_AUDIT, &arg);
	if (r == 0)
		r = db_prepare(db, STMT_PUT_AUDIT, &stmt);
	while (r == 0) {
		r = merge_next(&merge);
		if (r <= 0)
			break;
		r = head_copy_row(merge_row(&merge), stmt, 5);
	}
	sqlite3_finalize(stmt);
	return r;
}

int head_build(const struct head_plan *plan)
{
	CLEANUP(db_close) sqlite3 *db = NULL;
	int r = head_begin(plan->path, false, &db);

	if (r == 0)
		r = head_put_state(db, plan->state);
	if (r == 0 && plan->root)
		r = put_root(db, plan->state);
	if (r == 0 && plan->from)
		r = copy_table(db, plan->from, STMT_WALK_META, STMT_PUT_META, 2);
	if (r == 0 && plan->from && plan->snapshots)
		r = copy_table(db, plan->from, STMT_EACH_SNAPSHOT, STMT_PUT_SNAPSHOT, 6);
	if (r == 0 && plan->orphans)
		r = copy_table(db, plan->orphans, STMT_EACH_ORPHAN, STMT_PUT_ORPHAN, 1);
	if (r == 0 && plan->add)
		r = put_snapshot(db, plan->add, plan->add_layers);
	if (r == 0 && plan->from && plan->audit)
		r = copy_audit(db, plan->from, plan->audit_after);
	if (r == 0)
		r = head_end(&db);
	if (r < 0) {
		db_close(&db);
		ignore(path_unlink(plan->path));
	}
	return r;
}
