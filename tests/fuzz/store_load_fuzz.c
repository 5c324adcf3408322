/* store_load_fuzz.c - any bytes as the database of a workspace, and as an exported file; or, when
 * they do not begin as one does, any rows in the tables of a workspace. */
#include "store/store.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static char dir[64], file[128], copy[128];

/* A folder of this process, in memory where possible, that is empty again after every input. */
static void make_places(void)
{
	snprintf(dir, sizeof(dir), "%s/store-fuzz-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(dir))
		abort();
	snprintf(file, sizeof(file), "%s/a.db", dir);
	snprintf(copy, sizeof(copy), "%s/b.db", dir);
}

static void remove_dir(void)
{
	if (rmdir(dir) < 0)
		perror(dir);
}

static int use_attribute(void *arg, struct span name, struct span value)
{
	(void)arg;
	if (name.len == 0 || name.len > 255 || value.len > 65536)
		abort();
	return 0;
}

static int use_entry(void *arg, struct span name, const struct store_node *node)
{
	struct store *store = arg;
	CLEANUP(buf_clear) struct buf content = BUF_INIT(STORE_INLINE_MAX);
	struct store_unit unit[8];
	char byte;

	if (name.len == 0 || name.len > 255 || node->ino < 1 || node->size < 0)
		abort();
	(void)!store_get_inline(store, node->ino, &content);
	(void)!store_each_xattr(store, node->ino, use_attribute, NULL);
	if (store_get_units(store, node->ino, 0, 8, unit) == 0) {
		for (int i = 0; i < 8; i++)
			(void)!store_data_read(store, unit[i], 0, &byte, 1);
	}
	return 0;
}

static int use_audit(void *arg, uint64_t first, uint64_t last, struct span records,
		     const unsigned char hash[32])
{
	(void)arg;
	(void)records;
	(void)hash;
	if (first > last)
		abort();
	return 0;
}

static int use_snapshot(void *arg, const struct store_snapshot *snapshot)
{
	struct store *store = arg, *old = NULL;

	if (store_open_snapshot(store, snapshot->name, &old, NULL) == 0)
		store_close(old);
	return 0;
}

/* With SHOW=1: what a repair said, to understand a finding. */
static void show(void *arg, enum store_problem problem, const char *text, bool repaired)
{
	if (getenv("SHOW"))
		fprintf(stderr, "%s: problem %d: %s%s\n", (const char *)arg, (int)problem, text,
			repaired ? " (repaired)" : "");
}

static void use(struct store *store)
{
	static char repair[] = "repair", again[] = "again";
	struct store_node node;
	int64_t pos;

	for (int64_t ino = 1; ino < 8; ino++)
		(void)!store_each_dirent_node(store, ino, use_entry, store);
	(void)!store_get_node(store, 2, &node);
	(void)!store_each_audit(store, 0, use_audit, NULL);
	(void)!store_each_snapshot(store, use_snapshot, store);
	(void)!store_check(store, false, NULL, NULL, NULL);
	if (store_data_alloc(store, 1, &pos) == 1)
		store_data_free(store, pos, 1);
	if (store_check(store, true, show, repair, NULL) == 0 &&
	    store_check(store, false, show, again, NULL) > 0)
		abort(); /* repaired, it says */
	if (store_begin(store) == 0) {
		if (store_del_node(store, 2) == 0 && store_del_dirent(store, 1, SPAN("a")) == 0)
			(void)!store_commit(store, false);
		else
			store_rollback(store);
	}
	(void)!store_snapshot(store, "s", NULL);
}

/* Numbers that are near each other, so that rows meet; now and then an extreme one. */
static int64_t number(uint8_t byte)
{
	return byte == 0xff   ? INT64_MAX
	       : byte == 0xfe ? INT64_MIN
	       : byte == 0xfd ? 1 << 20
			      : byte % 8;
}

/* Six bytes a row: a table and values. */
static void put_rows(sqlite3 *db, const uint8_t *bytes, size_t len)
{
	static const char *const sql[] = {
		"REPLACE INTO node VALUES(?1,?2*4096+420,0,0,?3,?4,?5,1,2,3,4,?3%4)",
		"REPLACE INTO node VALUES(?1,32768+420,0,0,?2,?3,?4*65536,1,2,3,4,?5%4)",
		"REPLACE INTO node VALUES(?1,16384+493,0,0,?2,?3,0,1,2,3,4,0)",
		"REPLACE INTO dirent VALUES(?1,CAST(?2 AS BLOB),?3)",
		"REPLACE INTO dirent VALUES(?1,CAST('lost+found' AS BLOB),?3)",
		"REPLACE INTO inline VALUES(?1,zeroblob(?2%20000))",
		"REPLACE INTO extent VALUES(?1,?2,?3)",
		"REPLACE INTO xattr VALUES(?1,CAST(?2 AS BLOB),CAST(?3 AS BLOB))",
		"REPLACE INTO orphan VALUES(?1)",
		"REPLACE INTO free VALUES(?1,?2)",
		"REPLACE INTO audit VALUES(?1,?2,?3,x'00',zeroblob(32))",
		"UPDATE state SET next_ino=?1,bytes=?2,inodes=?3",
		"UPDATE state SET data_end=?1%9,free_known=?2%2",
		"REPLACE INTO snapshot VALUES('s'||?1,?2,?3,0,0,0)",
	};

	for (size_t at = 0; at + 6 <= len; at += 6) {
		sqlite3_stmt *stmt = NULL;

		if (sqlite3_prepare_v2(db, sql[bytes[at] % (sizeof(sql) / sizeof(*sql))], -1, &stmt,
				       NULL) != SQLITE_OK)
			abort();
		for (int i = 1; i <= 5; i++)
			sqlite3_bind_int64(stmt, i, number(bytes[at + (size_t)i]));
		sqlite3_step(stmt); /* what the tables refuse is left out */
		sqlite3_finalize(stmt);
	}
}

/* A workspace with those rows; the extent file has room for the units that are named. */
static void make_workspace(const uint8_t *bytes, size_t len)
{
	struct store *store = NULL;
	sqlite3 *db = NULL;
	int64_t pos;

	if (store_open(file, STORE_CREATE, &store, NULL) < 0 ||
	    store_data_alloc(store, 8, &pos) != 8 || store_data_write(store, 0, 0, "x", 1) < 0 ||
	    store_begin(store) < 0 || store_commit(store, false) < 0)
		abort();
	store_close(store);
	if (sqlite3_open(file, &db) != SQLITE_OK)
		abort();
	sqlite3_exec(db, "PRAGMA synchronous=OFF", NULL, NULL, NULL);
	put_rows(db, bytes, len);
	sqlite3_close(db);
}

static void make_file(const uint8_t *bytes, size_t len)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || fd_write_all(fd, bytes, len) < 0)
		abort();
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct store *store = NULL;

	if (!file[0]) {
		make_places();
		atexit(remove_dir);
	}
	if (len > 16 && memcmp(bytes, "SQLite format 3", 16) == 0)
		make_file(bytes, len);
	else
		make_workspace(bytes, len);
	if (store_import(file, copy, NULL) == 0 && store_remove(copy, NULL) < 0)
		abort();
	if (store_open(file, 0, &store, NULL) == 0) {
		use(store);
		store_close(store);
	}
	if (store_remove(file, NULL) < 0)
		abort();
	return 0;
}
