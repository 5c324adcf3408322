/* sqlite_wal.c - SQLite's own databases on the mount: killed writers, and killed owners.
 *
 *   sqlite_wal DIR           in DIR: writers in WAL and rollback mode, killed again and again
 *   sqlite_wal --owner       a workspace whose owner is killed while they write (needs libcomputer)
 *
 * After every kill `PRAGMA integrity_check` must say ok, and every transaction whose commit was
 * acknowledged (synchronous=EXTRA, which syncs the directory as well) must be there, whole: each
 * inserts three rows.
 */
#include "base/base.h"
#include "base/text.h"
#ifdef WITH_COMPUTER
#include "computer.h"
#endif

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROWS 3
#define ROUNDS 12
#define WRITERS 2
#define SKIP 77

/* What the writers were promised, outside of what is killed. */
static struct shared {
	_Atomic int64_t committed[WRITERS];
	_Atomic int ready;
} * shared;

static void sleep_ms(int64_t ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static int sql(sqlite3 *db, const char *text)
{
	char *why = NULL;
	int r = sqlite3_exec(db, text, NULL, NULL, &why);

	if (r != SQLITE_OK && r != SQLITE_BUSY)
		printf("# %s: %s\n", text, why ? why : "?");
	sqlite3_free(why);
	return r;
}

static sqlite3 *open_db(const char *path, const char *journal)
{
	char text[128];
	sqlite3 *db;

	if (sqlite3_open(path, &db) != SQLITE_OK)
		return NULL;
	sqlite3_busy_timeout(db, 5000);
	snprintf(text, sizeof(text), "PRAGMA journal_mode=%s", journal);
	if (sql(db, text) != SQLITE_OK || sql(db, "PRAGMA synchronous=EXTRA") != SQLITE_OK ||
	    sql(db, "CREATE TABLE IF NOT EXISTS t(writer, n, part, pad)") != SQLITE_OK) {
		sqlite3_close(db);
		return NULL;
	}
	return db;
}

/* One number, or -1. */
static int64_t ask(sqlite3 *db, const char *text)
{
	sqlite3_stmt *stmt;
	int64_t value = -1;

	if (sqlite3_prepare_v2(db, text, -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return value;
}

/* Commit transactions until killed, or until the filesystem goes away. */
static int writer(const char *path, const char *journal, int who)
{
	sqlite3 *db = open_db(path, journal);
	char text[256];
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!db)
		return 1;
	for (int64_t n = atomic_load(&shared->committed[who]) + 1;; n++) {
		r = sql(db, "BEGIN IMMEDIATE");
		for (int part = 0; part < ROWS && r == SQLITE_OK; part++) {
			snprintf(text, sizeof(text),
				 "INSERT INTO t VALUES(%d, %lld, %d, randomblob(%lld))", who,
				 (long long)n, part, (long long)(n * 37 % 3000));
			r = sql(db, text);
		}
		if (r == SQLITE_OK)
			r = sql(db, "COMMIT");
		if (r != SQLITE_OK)
			return 1;
		atomic_store(&shared->committed[who], n);
		atomic_store(&shared->ready, 1);
	}
}

static int text_is_ok(void *arg, int count, char **values, char **names)
{
	(void)names;
	if (count == 1 && strcmp(values[0], "ok") == 0)
		*(bool *)arg = true;
	else
		printf("# integrity_check: %s\n", values[0]);
	return 0;
}

static int verify(const char *path, const char *journal)
{
	sqlite3 *db = open_db(path, journal);
	bool good = false;
	char text[128];
	int bad = 0;

	if (!db)
		return 1;
	sqlite3_exec(db, "PRAGMA integrity_check", text_is_ok, &good, NULL);
	bad += !good;
	if (ask(db, "SELECT count(*) FROM (SELECT count(*) c FROM t GROUP BY writer, n) WHERE c <> "
		    "3")) {
		printf("# a transaction is there in part\n");
		bad++;
	}
	for (int who = 0; who < WRITERS; who++) {
		int64_t promised = atomic_load(&shared->committed[who]), have;

		snprintf(text, sizeof(text), "SELECT count(DISTINCT n) FROM t WHERE writer = %d",
			 who);
		have = ask(db, text);
		if (have < promised) {
			printf("# writer %d: %lld transactions of %lld\n", who, (long long)have,
			       (long long)promised);
			bad++;
		}
		atomic_store(&shared->committed[who], have);
	}
	sqlite3_close(db);
	return bad;
}

static void start_writers(pid_t *pid, const char *path, const char *journal)
{
	atomic_store(&shared->ready, 0);
	fflush(stdout);
	for (int who = 0; who < WRITERS; who++) {
		pid[who] = fork();
		if (pid[who] == 0)
			_exit(writer(path, journal, who));
	}
	for (int i = 0; i < 2000 && !atomic_load(&shared->ready); i++)
		sleep_ms(5);
}

static void kill_writers(const pid_t *pid)
{
	for (int who = 0; who < WRITERS; who++) {
		kill(pid[who], SIGKILL);
		waitpid(pid[who], NULL, 0);
	}
}

/* Writers are killed, the filesystem stays. */
static int kill_writers_again_and_again(const char *dir, const char *journal)
{
	char path[512];
	int bad = 0;

	snprintf(path, sizeof(path), "%s/%s.db", dir, journal);
	memset(shared, 0, sizeof(*shared));
	for (int round = 0; round < ROUNDS && !bad; round++) {
		pid_t pid[WRITERS];

		start_writers(pid, path, journal);
		sleep_ms(20 + round * 13 % 100);
		kill_writers(pid);
		bad = verify(path, journal);
	}
	printf("%s - killed writers, journal_mode=%s: %lld transactions\n", bad ? "not ok" : "ok",
	       journal, (long long)shared->committed[0] + shared->committed[1]);
	return bad;
}

#ifdef WITH_COMPUTER
static int owner(const char *db, const char *mnt)
{
	struct computer_err err = {0};
	struct computer *computer;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (computer_open(db, COMPUTER_CREATE, &computer, &err) < 0) {
		printf("# %s\n", err.text);
		return 1;
	}
	if (computer_mount(computer, mnt, 0, &err) < 0) {
		printf("# %s\n", err.text);
		return SKIP;
	}
	atomic_store(&shared->ready, 1);
	for (;;)
		pause();
}

/* 0 when it serves. */
static int start_owner(const char *db, const char *mnt, pid_t *ret_pid)
{
	int status;

	atomic_store(&shared->ready, 0);
	fflush(stdout);
	*ret_pid = fork();
	if (*ret_pid == 0) {
		status = owner(db, mnt);
		fflush(stdout);
		_exit(status);
	}
	for (int i = 0; i < 20000 && !atomic_load(&shared->ready); i++) {
		if (waitpid(*ret_pid, &status, WNOHANG) == *ret_pid)
			return WIFEXITED(status) && WEXITSTATUS(status) == SKIP ? SKIP : 1;
		sleep_ms(1);
	}
	return !atomic_load(&shared->ready);
}

static void kill_owner(pid_t pid, const char *mnt)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	umount2(mnt, MNT_DETACH);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_DP)
		rmdir(path);
	else
		unlink(path);
	return 0;
}

/* The owner is killed while they write; what comes back is checked on a new mount. */
static int kill_owners(const char *base, const char *journal)
{
	char db[512], mnt[512], path[600];
	int bad = 0;

	snprintf(db, sizeof(db), "%s/%s.db", base, journal);
	snprintf(mnt, sizeof(mnt), "%s/mnt", base);
	snprintf(path, sizeof(path), "%s/inside.db", mnt);
	memset(shared, 0, sizeof(*shared));
	for (int round = 0; round < ROUNDS && !bad; round++) {
		pid_t pid[WRITERS], server;

		bad = start_owner(db, mnt, &server);
		if (bad)
			return bad;
		if (round)
			bad = verify(path, journal);
		start_writers(pid, path, journal);
		sleep_ms(20 + round * 37 % 150);
		kill_owner(server, mnt);
		kill_writers(pid);
	}
	printf("%s - killed owners, journal_mode=%s: %lld transactions\n", bad ? "not ok" : "ok",
	       journal, (long long)shared->committed[0] + shared->committed[1]);
	return bad;
}

static int all_owners(void)
{
	const char *tmp = getenv("TMPDIR");
	char base[256], mnt[300];
	int bad;

	snprintf(base, sizeof(base), "%s/sqlite-wal.XXXXXX", tmp ? tmp : "/var/tmp");
	if (!mkdtemp(base))
		return 1;
	snprintf(mnt, sizeof(mnt), "%s/mnt", base);
	mkdir(mnt, 0755);
	bad = kill_owners(base, "wal");
	if (!bad)
		bad = kill_owners(base, "delete");
	nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	printf("1..2\n");
	return bad == SKIP ? SKIP : bad != 0;
}
#endif

int main(int argc, char **argv)
{
	int bad;

	if (argc != 2) {
		fprintf(stderr, "usage: sqlite_wal DIR|--owner\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	if (strcmp(argv[1], "--owner") == 0) {
#ifdef WITH_COMPUTER
		return all_owners();
#else
		return SKIP;
#endif
	}
	bad = kill_writers_again_and_again(argv[1], "wal");
	bad += kill_writers_again_and_again(argv[1], "delete");
	bad += kill_writers_again_and_again(argv[1], "truncate");
	printf("1..3\n");
	return bad != 0;
}
