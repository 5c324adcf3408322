/* check_test.c - files that are refused, and problems that are found and repaired. */
#include "fixture.h"

#include "base/fd.h"
#include "base/mem.h"
#include "store/store_i.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static struct fixture *of(void **state)
{
	return *state;
}

/* ---- what is refused ---- */

static void refused(struct fixture *fixture, const char *path, int code, const char *words)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;
	char text[300];

	(void)fixture;
	assert_int_equal(store_open(path, 0, &store, &err), -code);
	assert_null(store);
	assert_int_equal(err.code, code);
	snprintf(text, sizeof(text), "%s", err.text);
	if (!strstr(text, words))
		fail_msg("'%s' does not say '%s'", text, words);
}

static void write_file(const char *path, const void *bytes, size_t len)
{
	CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	OK(fd_write_all(fd, bytes, len));
}

/* Run SQL on the closed workspace as an outsider could. */
static void vandalize(struct fixture *fixture, const char *sql)
{
	char *message = NULL;
	sqlite3 *db = NULL;

	store_close(fixture->store);
	fixture->store = NULL;
	OK(sqlite3_open(fixture->path, &db));
	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
		fail_msg("%s: %s", sql, message);
	sqlite3_close(db);
}

static void not_a_workspace(void **state)
{
	struct fixture *fixture = of(state);
	struct store *store = NULL;
	sqlite3 *db = NULL;

	refused(fixture, fixture->other, ENOENT, "there is no workspace");
	refused(fixture, fixture->dir, EINVAL, "does not end in '.db'");
	write_file(fixture->other, "", 0);
	refused(fixture, fixture->other, EPROTO, "is not a workspace");
	write_file(fixture->other, "SQLite format 3", 16);
	refused(fixture, fixture->other, EPROTO, "is not a workspace");
	unlink(fixture->other);
	OK(mkdir(fixture->other, 0700));
	refused(fixture, fixture->other, EISDIR, "cannot read");
	OK(rmdir(fixture->other));
	OK(sqlite3_open(fixture->other, &db));
	OK(sqlite3_exec(db, "CREATE TABLE t(a)", NULL, NULL, NULL));
	sqlite3_close(db);
	refused(fixture, fixture->other, EPROTO, "but not a workspace");
	FAILS(store_open(fixture->path, STORE_CREATE, &store, NULL), EEXIST);
	FAILS(store_import(fixture->other, fixture_file(fixture, "c.db"), NULL), EPROTO);
	assert_false(file_exists(fixture_file(fixture, "c.db")));
}

static void newer_and_foreign_versions(void **state)
{
	struct fixture *fixture = of(state);

	vandalize(fixture, "PRAGMA user_version=2");
	refused(fixture, fixture->path, EPROTONOSUPPORT, "upgrade computer");
	vandalize(fixture, "PRAGMA user_version=0");
	refused(fixture, fixture->path, EUCLEAN, "damaged");
	vandalize(fixture, "PRAGMA user_version=1");
	fixture->store = open_at(fixture->path, 0);
}

static void other_tables_are_refused(void **state)
{
	static const char *const sql[] = {
		"CREATE TRIGGER t AFTER INSERT ON node BEGIN DELETE FROM node; END",
		"CREATE VIEW v AS SELECT 1",
		"CREATE TABLE zzz(a)",
		"CREATE TABLE aaa(a)",
		"CREATE TABLE chunk(ino INTEGER)",
		"CREATE INDEX i ON node(uid)",
		"DROP TABLE xattr",
		"ALTER TABLE node ADD COLUMN more INTEGER",
		"DROP TABLE meta; CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB)",
	};

	for (size_t i = 0; i < ARRAY_LEN(sql); i++) {
		struct fixture *fixture = fixture_new();

		fixture->store = open_at(fixture->path, STORE_CREATE);
		vandalize(fixture, sql[i]);
		refused(fixture, fixture->path, EUCLEAN, "its tables");
		fixture_teardown((void **)&fixture);
	}
	(void)state;
}

static void state_that_makes_no_sense(void **state)
{
	static const char twice[] = "UPDATE state SET layers='0123456789abcdef0123456789abcdef "
				    "0123456789abcdef0123456789abcdef'";
	static const char *const sql[] = {
		"DELETE FROM state",
		"UPDATE state SET workspace='x'",
		"UPDATE state SET next_ino=0",
		"UPDATE state SET bytes=-1",
		"UPDATE state SET audit_hash=x'00'",
		"UPDATE state SET data_end=9223372036854775807",
		"UPDATE state SET layers='../../../../../../../../etc/pass'",
		"UPDATE state SET layers='0123456789abcdef0123456789abcdef '",
		twice,
		"UPDATE state SET layers='0123456789abcdef0123456789abcdef'", /* is not there */
		"UPDATE state SET data_end=3",                                /* is not there */
	};

	for (size_t i = 0; i < ARRAY_LEN(sql); i++) {
		struct fixture *fixture = fixture_new();

		fixture->store = open_at(fixture->path, STORE_CREATE);
		vandalize(fixture, sql[i]);
		refused(fixture, fixture->path, EUCLEAN, "");
		fixture_teardown((void **)&fixture);
	}
	(void)state;
}

/* Every bit of the file flipped, sparsely: an error or an answer, never more. */
static int any_entry(void *arg, struct span name, const struct store_node *node)
{
	struct store *store = arg;
	CLEANUP(buf_clear) struct buf content = BUF_INIT(STORE_INLINE_MAX);
	struct store_unit unit[4];
	char byte;

	assert_true(name.len > 0 && name.len <= 255);
	assert_true(node->size >= 0);
	if (store_get_inline(store, node->ino, &content) < 0)
		return 0;
	if (store_get_units(store, node->ino, 0, 4, unit) == 0)
		(void)!store_data_read(store, unit[0], 0, &byte, 1);
	return 0;
}

static void use_somehow(const char *path)
{
	struct store *store = NULL;

	if (store_open(path, 0, &store, NULL) < 0)
		return;
	(void)!store_each_dirent_node(store, STORE_ROOT, any_entry, store);
	(void)!store_check(store, false, NULL, NULL, NULL);
	(void)!store_check(store, true, NULL, NULL, NULL);
	store_close(store);
}

static void damaged_bytes_are_survived(void **state)
{
	struct fixture *fixture = of(state);
	CLEANUP(buf_clear) struct buf bytes = BUF_INIT(8 << 20);

	add_file(fixture->store, "a", 2, "text");
	add_large(fixture->store, "big", 3, 2, 1);
	store_close(fixture->store);
	fixture->store = NULL;
	OK(file_read(fixture->path, &bytes, NULL));
	for (size_t page = 0; page < bytes.len; page += STORE_PAGE) {
		for (size_t i = 0; i < 8; i++) {
			/* Headers of pages, the file's header, and the cells at the end. */
			size_t at = page + (page == 0 ? 16 + 7 * i
					    : i < 9   ? i
						      : STORE_PAGE - 9 * i);
			char old = bytes.data[at];

			bytes.data[at] = (char)(i % 2 ? ~old : old ^ 1);
			write_file(fixture->path, bytes.data, bytes.len);
			use_somehow(fixture->path);
			bytes.data[at] = old;
		}
	}
	write_file(fixture->path, bytes.data, bytes.len / 2);
	use_somehow(fixture->path);
}

/* ---- what is found, and repaired ---- */

struct found {
	int count[STORE_AUDIT_GAP + 1], repaired;
};

static void note(void *arg, enum store_problem problem, const char *text, bool repaired)
{
	struct found *found = arg;

	assert_true(strlen(text) > 0);
	found->count[problem]++;
	found->repaired += repaired;
}

/* `want` problems of a kind; a repair mends them and what comes with them. */
static void assert_repaired(struct fixture *fixture, enum store_problem problem, int want)
{
	struct found found = {0};
	struct store *store;
	int r;

	if (!fixture->store)
		fixture->store = open_at(fixture->path, 0);
	store = fixture->store;
	r = store_check(store, false, note, &found, NULL);
	assert_true(r >= want);
	assert_int_equal(found.count[problem], want);
	assert_int_equal(found.repaired, 0);
	OK(store_check(store, true, note, &found, NULL));
	assert_true(found.repaired >= want);
	assert_clean(store);
	fixture_reopen(fixture);
	assert_clean(fixture->store);
}

static void some_files(struct fixture *fixture)
{
	struct store_node dir = node_dir(10, STORE_ROOT), sub = node_dir(11, 10), root;

	add_file(fixture->store, "a", 2, "text");
	add_file(fixture->store, "b", 3, "more");
	add_large(fixture->store, "big", 4, 3, 1);
	OK(store_begin(fixture->store));
	OK(store_get_node(fixture->store, STORE_ROOT, &root));
	root.nlink = 3;
	dir.nlink = 3;
	OK(store_put_node(fixture->store, &root));
	OK(store_put_node(fixture->store, &dir));
	OK(store_put_node(fixture->store, &sub));
	OK(store_put_dirent(fixture->store, STORE_ROOT, SPAN("dir"), 10));
	OK(store_put_dirent(fixture->store, 10, SPAN("sub"), 11));
	put_file(fixture->store, 11, "deep", 12, "x");
	OK(store_put_counters(fixture->store, 13, 9 + 3 * STORE_UNIT, 7));
	OK(store_commit(fixture->store, false));
	assert_clean(fixture->store);
}

static void entries_that_lead_nowhere(void **state)
{
	some_files(of(state));
	vandalize(of(state), "INSERT INTO dirent VALUES(1,x'7a',99),(2,x'7a',3),(77,x'7a',3),"
			     "(1,x'612f62',3),(1,x'2e2e',3)");
	assert_repaired(of(state), STORE_NO_NODE, 5);
	assert_name(of(state)->store, "a", 2);
}

static void wrong_link_counts(void **state)
{
	some_files(of(state));
	vandalize(of(state), "UPDATE node SET nlink=7 WHERE ino IN (1,2,10)");
	assert_repaired(of(state), STORE_NLINK, 3);
}

static void names_that_were_lost(void **state)
{
	struct fixture *fixture = of(state);
	int64_t lost, ino;

	some_files(fixture);
	vandalize(fixture, "DELETE FROM dirent WHERE ino IN (2,10)");
	assert_repaired(fixture, STORE_UNREACHABLE, 2);
	OK(store_get_dirent(fixture->store, STORE_ROOT, SPAN("lost+found"), &lost));
	OK(store_get_dirent(fixture->store, lost, SPAN("#2"), &ino));
	assert_int_equal(ino, 2);
	OK(store_get_dirent(fixture->store, lost, SPAN("#10"), &ino));
	assert_int_equal(ino, 10);
	assert_content(fixture->store, 2, "text");
}

static void lost_and_found_twice(void **state)
{
	struct fixture *fixture = of(state);
	int64_t lost, ino;

	some_files(fixture);
	vandalize(fixture, "UPDATE dirent SET name=CAST('lost+found' AS BLOB) WHERE ino=3;"
			   "DELETE FROM dirent WHERE ino=2");
	assert_repaired(fixture, STORE_UNREACHABLE, 1);
	OK(store_get_dirent(fixture->store, STORE_ROOT, SPAN("lost+found-1"), &lost));
	vandalize(fixture, "UPDATE dirent SET ino=3 WHERE ino=2");
	assert_repaired(fixture, STORE_UNREACHABLE, 1);
	OK(store_get_dirent(fixture->store, lost, SPAN("#2_"), &ino));
	assert_int_equal(ino, 2);
}

static void directories_in_themselves(void **state)
{
	struct fixture *fixture = of(state);

	some_files(fixture);
	vandalize(fixture, "UPDATE dirent SET parent=11 WHERE ino=10");
	assert_repaired(fixture, STORE_CYCLE, 1);
	vandalize(fixture, "INSERT INTO dirent VALUES(11,x'7a',1),(11,x'7b',10)");
	/* To the root, a second name, and that one makes a circle. */
	assert_repaired(fixture, STORE_CYCLE, 3);
	assert_content(fixture->store, 12, "x");
}

static void sizes_and_content(void **state)
{
	struct fixture *fixture = of(state);
	struct store_node node;

	some_files(fixture);
	vandalize(fixture, "UPDATE node SET size=6 WHERE ino=2;"
			   "UPDATE node SET size=1000000 WHERE ino=3;"
			   "UPDATE node SET size=70000 WHERE ino=4;"
			   "INSERT INTO inline VALUES(4,x'00'),(10,x'00'),(99,x'00');"
			   "INSERT INTO extent VALUES(2,0,1),(98,0,2)");
	assert_repaired(fixture, STORE_SIZE, 9); /* and the count of units of 4 */
	OK(store_get_node(fixture->store, 2, &node));
	assert_int_equal(node.size, 6);
	OK(store_get_node(fixture->store, 3, &node));
	assert_int_equal(node.size, 4);
	OK(store_get_node(fixture->store, 4, &node));
	assert_int_equal(node.rdev, 2);
	assert_units(fixture->store, 4, 2, 1);
}

static void units_in_two_places(void **state)
{
	struct fixture *fixture = of(state);
	struct store_unit unit[3];
	int64_t pos;

	some_files(fixture);
	add_large(fixture->store, "second", 13, 2, 5);
	vandalize(fixture, "UPDATE extent SET pos=0 WHERE ino=13 AND idx=1;"
			   "UPDATE extent SET pos=1000 WHERE ino=4 AND idx=2");
	assert_repaired(fixture, STORE_UNIT_BAD, 2);
	OK(store_get_units(fixture->store, 13, 0, 2, unit));
	assert_int_equal(unit[0].pos, 3);
	assert_int_equal(unit[1].pos, STORE_HOLE);
	/* What the two shared is not free. */
	assert_int_equal(store_data_alloc(fixture->store, 1, &pos), 1);
	assert_int_equal(pos, 2);
	assert_units(fixture->store, 4, 2, 1);
}

static void units_in_use_and_free(void **state)
{
	struct fixture *fixture = of(state);
	int64_t pos;

	some_files(fixture);
	vandalize(fixture, "INSERT INTO free VALUES(1,1)");
	assert_repaired(fixture, STORE_UNIT_BAD, 1);
	assert_int_equal(store_data_alloc(fixture->store, 1, &pos), 1);
	assert_int_equal(pos, 3);
	store_data_free(fixture->store, pos, 1);
	/* A list that makes no sense at all is not used. */
	vandalize(fixture, "UPDATE state SET free_known=1; DELETE FROM free;"
			   "INSERT INTO free VALUES(1,-5),(2,100)");
	fixture->store = open_at(fixture->path, 0);
	assert_int_equal(store_data_alloc(fixture->store, 1, &pos), 1);
	assert_int_equal(pos, 3);
	assert_units(fixture->store, 4, 3, 1);
}

static void missing_extent_file(void **state)
{
	struct fixture *fixture = of(state);
	struct store_unit unit;
	char *data, byte;

	some_files(fixture);
	OK(store_snapshot(fixture->store, "s1", NULL));
	data = path_layer(fixture->path, fixture->store->layers[1].id, ".data");
	OK(unlink(data));
	free(data);
	OK(store_get_units(fixture->store, 4, 0, 1, &unit));
	FAILS(store_data_read(fixture->store, unit, 0, &byte, 1), EUCLEAN);
	assert_repaired(fixture, STORE_UNIT_BAD, 3);
}

static void counters_that_are_wrong(void **state)
{
	struct fixture *fixture = of(state);
	struct store_info info;

	some_files(fixture);
	vandalize(fixture, "UPDATE state SET next_ino=5, bytes=1, inodes=1");
	assert_repaired(fixture, STORE_COUNTERS, 1);
	store_get_info(fixture->store, &info);
	assert_int_equal(info.next_ino, 13);
	assert_int_equal(info.inodes, 7);
}

static void no_root(void **state)
{
	some_files(of(state));
	vandalize(of(state), "DELETE FROM node WHERE ino=1");
	assert_repaired(of(state), STORE_DAMAGED, 1);
	assert_name(of(state)->store, "a", 2);
	vandalize(of(state), "UPDATE node SET mode=33188 WHERE ino=1");
	assert_repaired(of(state), STORE_DAMAGED, 1);
	vandalize(of(state), "DELETE FROM node");
	assert_repaired(of(state), STORE_DAMAGED, 1);
}

static void impossible_rows(void **state)
{
	struct fixture *fixture = of(state);
	struct store_node node;

	some_files(fixture);
	vandalize(fixture, "UPDATE node SET mode=0170000 WHERE ino=2; "
			   "UPDATE node SET size=-1 WHERE ino=3");
	fixture->store = open_at(fixture->path, 0);
	FAILS(store_get_node(fixture->store, 2, &node), EUCLEAN);
	assert_repaired(fixture, STORE_DAMAGED, 2);
	FAILS(store_get_node(fixture->store, 2, &node), ENOENT);
}

static void orphans_with_names(void **state)
{
	struct fixture *fixture = of(state);
	struct found found = {0};
	struct store_node node = node_file(2, 4);

	some_files(fixture);
	node.flags = STORE_NODE_ORPHAN; /* no row in `orphan`: the next open leaves it */
	vandalize(fixture, "UPDATE node SET flags=flags|2 WHERE ino=2");
	assert_repaired(fixture, STORE_NLINK, 1);
	assert_name(fixture->store, "a", 2);
	OK(store_get_node(fixture->store, 2, &node));
	assert_int_equal(node.flags, 0);
	OK(store_check(fixture->store, true, note, &found, NULL));
}

static void attributes_of_nobody(void **state)
{
	some_files(of(state));
	vandalize(of(state), "INSERT INTO xattr VALUES(99,x'61',x'62'),(99,x'62',x'62')");
	assert_repaired(of(state), STORE_NO_NODE, 1);
}

static void gaps_in_the_audit(void **state)
{
	struct fixture *fixture = of(state);
	struct found found = {0};

	audit_one(fixture->store, 1);
	audit_one(fixture->store, 2);
	audit_one(fixture->store, 3);
	vandalize(fixture, "DELETE FROM audit WHERE first=2");
	fixture->store = open_at(fixture->path, 0);
	assert_int_equal(store_check(fixture->store, true, note, &found, NULL), 1);
	assert_int_equal(found.count[STORE_AUDIT_GAP], 1);
	vandalize(fixture, "DELETE FROM audit WHERE first=3");
	fixture->store = open_at(fixture->path, 0);
	memset(&found, 0, sizeof(found));
	assert_int_equal(store_check(fixture->store, true, note, &found, NULL), 1);
	assert_int_equal(found.count[STORE_AUDIT_GAP], 1);
}

static void problems_through_layers(void **state)
{
	struct fixture *fixture = of(state);

	some_files(fixture);
	vandalize(fixture, "INSERT INTO dirent VALUES(1,x'7a',99);"
			   "UPDATE node SET nlink=5 WHERE ino=3;"
			   "UPDATE extent SET pos=0 WHERE ino=4 AND idx=1;"
			   "DELETE FROM dirent WHERE ino=2");
	fixture->store = open_at(fixture->path, 0);
	OK(store_snapshot(fixture->store, "bad", NULL));
	assert_repaired(fixture, STORE_UNIT_BAD, 1);
	OK(store_snapshot(fixture->store, "good", NULL));
	assert_clean(fixture->store);
	OK(store_restore(fixture->store, "bad", NULL, NULL));
	assert_repaired(fixture, STORE_NO_NODE, 1);
}

static void import_is_mended(void **state)
{
	struct fixture *fixture = of(state);
	struct store *other;
	char file[256];
	sqlite3 *db;

	some_files(fixture);
	snprintf(file, sizeof(file), "%s", fixture_file(fixture, "out.db"));
	OK(store_export(fixture->store, file, NULL));
	OK(sqlite3_open(file, &db));
	OK(sqlite3_exec(db,
			"UPDATE node SET nlink=9 WHERE ino=2; UPDATE state SET inodes=0;"
			"UPDATE chunk SET bytes=x'01' WHERE idx=1",
			NULL, NULL, NULL));
	sqlite3_close(db);
	OK(store_import(file, fixture->other, NULL));
	other = open_at(fixture->other, 0);
	assert_clean(other);
	store_close(other);
	OK(store_remove(fixture->other, NULL));
	OK(sqlite3_open(file, &db));
	OK(sqlite3_exec(db, "INSERT INTO chunk VALUES(4,7,zeroblob(70000))", NULL, NULL, NULL));
	sqlite3_close(db);
	FAILS(store_import(file, fixture->other, NULL), EUCLEAN);
	assert_false(file_exists(fixture->other));
	assert_false(file_exists(fixture_file(fixture, "b.data")));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(not_a_workspace),
		TEST(newer_and_foreign_versions),
		TEST(other_tables_are_refused),
		TEST(state_that_makes_no_sense),
		TEST(damaged_bytes_are_survived),
		TEST(entries_that_lead_nowhere),
		TEST(wrong_link_counts),
		TEST(names_that_were_lost),
		TEST(lost_and_found_twice),
		TEST(directories_in_themselves),
		TEST(sizes_and_content),
		TEST(units_in_two_places),
		TEST(units_in_use_and_free),
		TEST(missing_extent_file),
		TEST(counters_that_are_wrong),
		TEST(no_root),
		TEST(impossible_rows),
		TEST(orphans_with_names),
		TEST(attributes_of_nobody),
		TEST(gaps_in_the_audit),
		TEST(problems_through_layers),
		TEST(import_is_mended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
