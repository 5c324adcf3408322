/* workspace_bench.c - what a workspace costs: waking, snapshot, fork, memory.
 *
 *   workspace_bench [--quick] [--json] [DIR]
 *
 * Makes workspaces of growing size in DIR ($TMPDIR, /var/tmp), closes them, and measures in a fresh
 * process each: open and read one file, with the host's caches warm and dropped; snapshot; fork;
 * and how much memory (PSS) one of many open, idle workspaces takes.
 */
#include "base/clock.h"
#include "base/text.h"
#include "computer.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REPS 7
#define PER_DIR 1000
#define OPEN_MANY 1000

static struct {
	char base[256];
	bool quick, json;
} options;

static _Noreturn void die(const char *what, int r, const struct computer_err *err)
{
	fprintf(stderr, "workspace_bench: %s: %s %s\n", what, text_errno(r < 0 ? -r : r),
		err ? err->text : "");
	_exit(1);
}

static struct computer *open_or_die(const char *db, unsigned flags)
{
	struct computer_err err = {0};
	struct computer *computer;
	int r = computer_open(db, flags, &computer, &err);

	if (r < 0)
		die(db, r, &err);
	return computer;
}

static void close_or_die(struct computer *computer)
{
	struct computer_err err = {0};
	int r = computer_close(computer, &err);

	if (r < 0)
		die("close", r, &err);
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

/* Directories of PER_DIR small files. */
static void make_workspace(const char *db, int64_t inodes)
{
	struct computer *computer = open_or_die(db, COMPUTER_CREATE);
	char path[64];

	for (int64_t i = 0; i < inodes; i++) {
		int r = 0;

		if (i % PER_DIR == 0) {
			snprintf(path, sizeof(path), "/d%lld", (long long)(i / PER_DIR));
			r = computer_mkdir(computer, path, 0755, false);
		}
		snprintf(path, sizeof(path), "/d%lld/f%lld", (long long)(i / PER_DIR),
			 (long long)i);
		if (r == 0)
			r = computer_write_file(computer, path, path, strlen(path), 0644);
		if (r < 0)
			die(path, r, NULL);
	}
	close_or_die(computer);
}

/* Run in a child; what it measured, or the whole bench ends. */
static int64_t in_child(int64_t (*fn)(const char *db, int64_t arg), const char *db, int64_t arg)
{
	int pipe_fd[2], status;
	int64_t value = -1;
	pid_t pid;

	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		die("pipe", errno, NULL);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		value = fn(db, arg);
		_exit(write(pipe_fd[1], &value, sizeof(value)) != sizeof(value));
	}
	close(pipe_fd[1]);
	if (read(pipe_fd[0], &value, sizeof(value)) != sizeof(value) ||
	    waitpid(pid, &status, 0) != pid || status != 0)
		exit(1);
	close(pipe_fd[0]);
	return value;
}

static void drop_caches(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "3", 1) != 1)
		fprintf(stderr, "workspace_bench: cannot drop caches: \"cold\" is warm\n");
	if (fd >= 0)
		close(fd);
}

static int64_t wake(const char *db, int64_t inodes)
{
	struct computer *computer;
	char path[64];
	int64_t start;
	size_t len;
	void *bytes;
	int r;

	snprintf(path, sizeof(path), "/d%lld/f%lld", (long long)(inodes / 2 / PER_DIR),
		 (long long)(inodes / 2));
	start = clock_mono();
	computer = open_or_die(db, 0);
	r = computer_read_file(computer, path, 4096, &bytes, &len);
	start = clock_mono() - start;
	if (r < 0)
		die(path, r, NULL);
	free(bytes);
	close_or_die(computer);
	return start;
}

static int64_t snapshot(const char *db, int64_t number)
{
	struct computer *computer = open_or_die(db, 0);
	struct computer_err err = {0};
	char name[32];
	int64_t start;
	int r;

	r = computer_write_file(computer, "/d0/f0", "changed", 7, 0644);
	if (r < 0)
		die("write", r, NULL);
	snprintf(name, sizeof(name), "s%lld", (long long)number);
	start = clock_mono();
	r = computer_snapshot(computer, name, &err);
	start = clock_mono() - start;
	if (r < 0)
		die("snapshot", r, &err);
	close_or_die(computer);
	return start;
}

static int64_t fork_it(const char *db, int64_t number)
{
	struct computer *computer = open_or_die(db, 0);
	struct computer_err err = {0};
	char path[400];
	int64_t start;
	int r;

	snprintf(path, sizeof(path), "%s/fork-%lld-%lld.db", options.base, (long long)number,
		 (long long)getpid());
	start = clock_mono();
	r = computer_fork(computer, "s0", path, &err);
	start = clock_mono() - start;
	if (r < 0)
		die("fork", r, &err);
	close_or_die(computer);
	return start;
}

/* Bytes of this process's own memory. */
static int64_t pss(void)
{
	char line[256];
	long long kib = 0;
	FILE *file = fopen("/proc/self/smaps_rollup", "re");

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "Pss:", 4) == 0)
			for (const char *c = line + 4; *c; c++)
				if (*c >= '0' && *c <= '9')
					kib = kib * 10 + (*c - '0');
	if (file)
		fclose(file);
	return kib * 1024;
}

static int64_t memory(const char *db, int64_t count)
{
	struct rlimit limit = {65536, 65536};
	struct timespec idle = {.tv_sec = 4};
	int64_t before;
	char path[400];

	(void)db;
	setrlimit(RLIMIT_NOFILE, &limit);
	snprintf(path, sizeof(path), "%s/m-first.db", options.base);
	(void)open_or_die(path, COMPUTER_CREATE);
	before = pss();
	for (int64_t i = 0; i < count; i++) {
		struct computer *computer;

		snprintf(path, sizeof(path), "%s/m-%lld.db", options.base, (long long)i);
		computer = open_or_die(path, COMPUTER_CREATE);
		if (computer_write_file(computer, "/file", "used", 4, 0644) < 0)
			die("write", EIO, NULL);
	}
	nanosleep(&idle, NULL); /* what a workspace keeps when nobody calls */
	return (pss() - before) / count;
}

/* ---- results ---- */

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void print(const char *what, int64_t inodes, int64_t *values, int count, double limit_ms)
{
	double median, min;
	int64_t middle;

	qsort(values, (size_t)count, sizeof(values[0]), by_number);
	middle = values[count / 2];
	median = (double)middle / 1e6;
	min = (double)values[0] / 1e6;
	if (options.json)
		printf("{\"what\": \"%s\", \"inodes\": %lld, \"median_ms\": %.3f, \"min_ms\": "
		       "%.3f, "
		       "\"limit_ms\": %.1f}\n",
		       what, (long long)inodes, median, min, limit_ms);
	else
		printf("%-28s %9lld inodes  %8.2f ms (min %.2f)  promised %.0f%s\n", what,
		       (long long)inodes, median, min, limit_ms,
		       limit_ms > 0 && median > limit_ms ? "  missed" : "");
	fflush(stdout);
}

static void measure(int64_t inodes, double wake_limit)
{
	int64_t warm[REPS], cold[REPS], snapshots[REPS], forks[REPS];
	char db[400];

	snprintf(db, sizeof(db), "%s/size-%lld.db", options.base, (long long)inodes);
	make_workspace(db, inodes);
	for (int i = 0; i < REPS; i++) {
		drop_caches();
		cold[i] = in_child(wake, db, inodes);
		warm[i] = in_child(wake, db, inodes);
	}
	for (int i = 0; i < REPS; i++) {
		snapshots[i] = in_child(snapshot, db, i);
		forks[i] = in_child(fork_it, db, i);
	}
	print("wake and read, caches warm", inodes, warm, REPS, wake_limit);
	print("wake and read, caches cold", inodes, cold, REPS, wake_limit);
	print("snapshot", inodes, snapshots, REPS, 10);
	print("fork", inodes, forks, REPS, 10);
}

int main(int argc, char **argv)
{
	const char *dir = getenv("TMPDIR");
	int64_t bytes, count;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--quick") == 0)
			options.quick = true;
		else if (strcmp(argv[i], "--json") == 0)
			options.json = true;
		else
			dir = argv[i];
	}
	snprintf(options.base, sizeof(options.base), "%s/workspace-bench.XXXXXX",
		 dir ? dir : "/var/tmp");
	if (!mkdtemp(options.base)) {
		perror(options.base);
		return 1;
	}
	measure(100, 5);
	measure(10000, 5);
	if (!options.quick)
		measure(1000000, 10);
	count = options.quick ? OPEN_MANY / 10 : OPEN_MANY;
	bytes = in_child(memory, "", count);
	if (options.json)
		printf("{\"what\": \"idle\", \"workspaces\": %lld, \"pss_bytes\": %lld, "
		       "\"limit_bytes\": "
		       "262144}\n",
		       (long long)count, (long long)bytes);
	else
		printf("%-28s %9lld open    %8.1f KiB each (PSS)  promised 256%s\n", "idle",
		       (long long)count, (double)bytes / 1024, bytes > 262144 ? "  missed" : "");
	nftw(options.base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
