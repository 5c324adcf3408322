/* crash_test.c - kill the owner of a workspace, often, and see that nothing promised is lost.
 *
 *   crash_test [--kills N] [--seed S] [--mounted PERCENT] [DIR]
 *
 * Each round forks an owner that opens the workspace and works on it, through the library or, with
 * writers beside it, through a mount; kills it with SIGKILL at a random moment; opens the workspace
 * again, runs the check, and compares with what was promised (crash.h). Rounds differ in what goes
 * on meanwhile: snapshots, their removal, merges of long chains, restore, being killed while
 * opening. The workspace stays the same for ROUNDS_EACH rounds, so recovery follows recovery.
 */
#include "crash.h"

#include "base/parse.h"
#include "base/text.h"
#include "computer.h"
#include "computer/ops.h"

#include <assert.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
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

#define ROUNDS_EACH 40
#define READY_MS 20000
#define SKIP 77

/* What goes on beside the writing. */
enum beside { NOTHING, SNAPSHOTS, CHAINS, RESTORE, OPENING, BESIDES };

static const char *const beside_name[BESIDES] = {"writing", "snapshots", "chains", "restore",
						 "opening"};

static struct {
	uint64_t kills, seed, mounted;
	char base[256], db[320], mount[320];
	struct crash_log *log;
} test = {.kills = 300, .mounted = 35};

static void sleep_us(uint64_t us)
{
	struct timespec t = {.tv_sec = (time_t)(us / 1000000),
			     .tv_nsec = (long)(us % 1000000 * 1000)};

	nanosleep(&t, NULL);
}

static int complain_open(const char *what, int r, const struct computer_err *err)
{
	printf("# %s: %s: %s\n", what, text_errno(-r), err->text);
	fflush(stdout);
	return 1;
}

/* ---- the owner: ends only by being killed ---- */

static int snapshot_step(struct computer *computer, uint64_t *rng, int *number, bool chains)
{
	struct computer_err err = {0};
	char name[32];
	int r;

	snprintf(name, sizeof(name), "s%d-%d", (int)getpid(), *number);
	r = computer_snapshot(computer, name, &err);
	if (r < 0)
		return complain_open("snapshot", r, &err);
	++*number;
	if (chains || *number < 3)
		return 0;
	snprintf(name, sizeof(name), "s%d-%d", (int)getpid(),
		 *number - 1 - (int)(crash_random(rng) % 3));
	r = computer_snapshot_remove(computer, name, &err);
	return r < 0 && r != -ENOENT ? complain_open("snapshot_remove", r, &err) : 0;
}

static int write_steps(struct place *place, struct crash_history *history, uint64_t *rng, int count)
{
	int r = 0;

	for (int i = 0; i < count && r == 0; i++) {
		r = crash_write_step(place, test.log, rng);
		for (int j = 0; j < 3 && r == 0; j++)
			r = crash_dir_step(place, test.log, history, rng);
	}
	return r;
}

static void note(uint32_t *ret_versions, uint32_t *ret_steps)
{
	for (int i = 0; i < CRASH_FILES; i++)
		ret_versions[i] = atomic_load(&test.log->started[i]);
	*ret_steps = atomic_load(&test.log->dir_started);
}

static int restore_round(struct computer *computer, struct place *place,
			 struct crash_history *history, uint64_t *rng)
{
	struct crash_log *log = test.log;
	struct computer_err err = {0};
	char name[32];
	int r;

	snprintf(name, sizeof(name), "r%d", (int)getpid());
	r = write_steps(place, history, rng, 8);
	note(log->at_snapshot, &log->dir_at_snapshot);
	atomic_store(&log->phase, CRASH_SNAPSHOT);
	if (r == 0)
		r = computer_snapshot(computer, name, &err);
	atomic_store(&log->phase, CRASH_LATER);
	if (r == 0)
		r = write_steps(place, history, rng, 8);
	if (r == 0)
		r = computer_sync(computer);
	if (r < 0)
		return complain_open("before restore", r, &err);
	note(log->after, &log->dir_after);
	atomic_store(&log->phase, CRASH_RESTORE);
	r = computer_restore(computer, name, crash_random(rng) % 2 ? "kept" : NULL, &err);
	if (r < 0 && r != -EEXIST)
		return complain_open("restore", r, &err);
	if (r == 0)
		atomic_store(&log->phase, CRASH_RESTORED);
	for (;;)
		pause();
}

static int work_by_library(struct computer *computer, enum beside beside, uint64_t rng)
{
	struct place *place = place_lib_new(computer);
	struct crash_history *history;
	int number = 0;
	int r = crash_prepare(place, test.log);

	history = crash_history_new(test.log);
	if (r == 0 && beside == RESTORE)
		return restore_round(computer, place, history, &rng);
	while (r == 0) {
		r = write_steps(place, history, &rng, 1);
		if (r == 0 && (beside == SNAPSHOTS || beside == CHAINS))
			r = -snapshot_step(computer, &rng, &number, beside == CHAINS);
	}
	printf("# writing by the library: %s\n", text_errno(-r));
	fflush(stdout);
	return 1;
}

/* Beside writers on the mount: this process owns and serves. */
static int serve(struct computer *computer, enum beside beside, uint64_t rng)
{
	struct computer_err err = {0};
	int number = 0;
	int r = computer_mount(computer, test.mount, 0, &err);

	if (r < 0) {
		complain_open("mount", r, &err);
		return SKIP;
	}
	atomic_store(&test.log->ready, 1);
	for (;;) {
		if (beside != SNAPSHOTS && beside != CHAINS)
			pause();
		sleep_us(crash_random(&rng) % 20000);
		if (snapshot_step(computer, &rng, &number, beside == CHAINS))
			return 1;
	}
}

static int owner(enum beside beside, bool mounted, uint64_t rng)
{
	struct computer_err err = {0};
	struct computer *computer;
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (beside == OPENING)
		atomic_store(&test.log->ready, 1);
	r = computer_open(test.db, COMPUTER_CREATE, &computer, &err);
	if (r < 0)
		return complain_open("open", r, &err);
	return mounted ? serve(computer, beside, rng) : work_by_library(computer, beside, rng);
}

/* ---- writers on the mount: end when it goes away ---- */

static int writer(bool names, uint64_t rng)
{
	struct place *place = place_dir_new(test.mount);
	struct crash_history *history = names ? crash_history_new(test.log) : NULL;
	int r = place ? 0 : -errno;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (r == 0)
		r = names ? crash_dir_step(place, test.log, history, &rng)
			  : crash_write_step(place, test.log, &rng);
	/* what a call says that was under way when its server died, or comes after */
	if (atomic_load(&test.log->killed) &&
	    (r == -ENOTCONN || r == -ECONNABORTED || r == -ECANCELED || r == -ENODEV || r == -EIO))
		return 0;
	printf("# a writer was told %s\n", text_errno(-r));
	fflush(stdout);
	return 1;
}

static int prepare_mounted(void)
{
	struct place *place = place_dir_new(test.mount);
	int r = place ? crash_prepare(place, test.log) : -errno;

	if (r == -ENOTCONN || r == -ECONNABORTED || r == -ECANCELED)
		return 0; /* the owner's own trouble, told by it */
	if (r < 0)
		printf("# preparing: %s\n", text_errno(-r));
	fflush(stdout);
	return r < 0;
}

/* ---- after the kill ---- */

static void say_problem(void *arg, const char *text, bool repaired)
{
	(void)arg;
	(void)repaired;
	printf("# check: %s\n", text);
}

static int check_again(void)
{
	struct computer_err err = {0};
	struct err check_err = ERR_INIT;
	struct computer *computer;
	struct place *place;
	uint64_t left = 0;
	int bad = 0;
	int r;

	r = computer_open(test.db, COMPUTER_CREATE, &computer, &err);
	if (r < 0)
		return complain_open("reopening", r, &err);
	r = computer_check(computer, false, say_problem, NULL, &left, &check_err);
	if (r < 0 || left) {
		printf("# check: %s, %llu problems\n", check_err.text, (unsigned long long)left);
		bad++;
	}
	place = place_lib_new(computer);
	bad += crash_verify(place, test.log);
	place->ops->free(place);
	r = computer_close(computer, &err);
	if (r < 0)
		bad += complain_open("closing", r, &err);
	fflush(stdout);
	return bad != 0;
}

/* ---- a round ---- */

static pid_t start(int (*fn)(void))
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	return pid;
}

/* The exit status, 128 + signal, or -1 when it does not end in time (then it is killed). */
static int finish(pid_t pid, uint64_t ms)
{
	int status;

	for (uint64_t waited = 0; waited <= ms * 1000; waited += 2000) {
		pid_t r = waitpid(pid, &status, WNOHANG);

		if (r == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (r < 0)
			return -1;
		sleep_us(2000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return -1;
}

/* 0, SKIP, or 1 when the owner ended by itself or was never ready. */
static int wait_ready(pid_t pid)
{
	int status;

	for (int i = 0; i < READY_MS; i++) {
		if (atomic_load(&test.log->ready))
			return 0;
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) && WEXITSTATUS(status) == SKIP ? SKIP : 1;
		sleep_us(1000);
	}
	printf("# the owner is not ready after %d ms\n", READY_MS);
	return 1;
}

/* Let it work, then kill. 0, or 1 when something ended that should not have. */
static int work_and_kill(pid_t pid, enum beside beside, bool mounted, uint64_t *rng)
{
	uint64_t pause_us = crash_random(rng) % (beside == OPENING ? 12000 : 80000);
	pid_t writers[2] = {-1, -1};
	int bad = 0, status;

	if (mounted && beside != OPENING) {
		bad = finish(start(prepare_mounted), READY_MS);
		for (int i = 0; i < 2 && !bad; i++) {
			writers[i] = fork();
			if (writers[i] == 0)
				_exit(writer(i == 1, *rng + (uint64_t)i));
		}
	}
	/* a restore is short: come when it begins */
	for (int i = 0;
	     beside == RESTORE && i < 2000 && atomic_load(&test.log->phase) < CRASH_LATER; i++)
		sleep_us(500);
	sleep_us(beside == RESTORE ? pause_us / 4 : pause_us);
	if (waitpid(pid, &status, WNOHANG) == pid) {
		printf("# the owner ended by itself: 0x%x\n", (unsigned)status);
		bad = 1;
	} else {
		atomic_store(&test.log->killed, 1);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	for (int i = 0; i < 2; i++) {
		if (writers[i] > 0 && finish(writers[i], 10000) != 0)
			bad = 1;
	}
	if (mounted)
		umount2(test.mount, MNT_DETACH);
	return bad;
}

static int round_of(enum beside beside, bool mounted, uint64_t *rng)
{
	uint64_t seed = crash_random(rng);
	int r;
	pid_t pid;

	atomic_store(&test.log->ready, 0);
	atomic_store(&test.log->killed, 0);
	atomic_store(&test.log->phase, CRASH_RUN);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(owner(beside, mounted, seed));
	r = wait_ready(pid);
	if (r == 0)
		r = work_and_kill(pid, beside, mounted, rng);
	else
		finish(pid, 0);
	if (r == SKIP)
		return SKIP;
	/* a writer that complained may be told by what is found as well */
	return finish(start(check_again), 60000) != 0 || r;
}

/* ---- all of it ---- */

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

static void clear_workspace(void)
{
	nftw(test.base, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	assert(test.log); /* from main */
	memset(test.log, 0, sizeof(*test.log));
	if (mkdir(test.base, 0755) < 0 || mkdir(test.mount, 0755) < 0)
		perror(test.base);
}

static int parse_args(int argc, char **argv)
{
	const char *dir = getenv("TMPDIR");

	test.seed = (uint64_t)time(NULL);
	for (int i = 1; i < argc; i++) {
		uint64_t *number = strcmp(argv[i], "--kills") == 0     ? &test.kills
				   : strcmp(argv[i], "--seed") == 0    ? &test.seed
				   : strcmp(argv[i], "--mounted") == 0 ? &test.mounted
								       : NULL;

		if (number && i + 1 < argc) {
			if (parse_u64(argv[++i], number) < 0)
				return 2;
		} else if (argv[i][0] == '-') {
			return 2;
		} else {
			dir = argv[i];
		}
	}
	snprintf(test.base, sizeof(test.base), "%s/crash-test.XXXXXX", dir ? dir : "/var/tmp");
	return mkdtemp(test.base) ? 0 : 2;
}

static int run(void)
{
	uint64_t rng = test.seed, kills = 0, by_kind[BESIDES] = {0}, mounted_kills = 0;
	uint64_t writes = 0, syncs = 0;

	for (; kills < test.kills; kills++) {
		enum beside beside = (enum beside)(crash_random(&rng) % BESIDES);
		bool mounted = crash_random(&rng) % 100 < test.mounted && beside != RESTORE;
		int r;

		if (kills % ROUNDS_EACH == 0) {
			writes += atomic_load(&test.log->writes);
			syncs += atomic_load(&test.log->syncs);
			clear_workspace();
			test.log->seed = crash_random(&rng);
		}
		r = round_of(beside, mounted, &rng);
		if (r == SKIP) {
			test.mounted = 0;
			printf("# this host cannot mount: by the library only\n");
			continue;
		}
		if (r) {
			printf("not ok crash_test: kill %llu (%s, %s) --seed %llu --kills %llu; "
			       "left in %s\n",
			       (unsigned long long)kills, beside_name[beside],
			       mounted ? "mounted" : "library", (unsigned long long)test.seed,
			       (unsigned long long)test.kills, test.base);
			return 1;
		}
		by_kind[beside]++;
		mounted_kills += mounted;
	}
	writes += atomic_load(&test.log->writes);
	syncs += atomic_load(&test.log->syncs);
	for (int i = 0; i < BESIDES; i++)
		printf("# %llu while %s\n", (unsigned long long)by_kind[i], beside_name[i]);
	printf("ok crash_test: %llu kills, %llu mounted, %llu writes, %llu promises (seed "
	       "%llu)\n1..1\n",
	       (unsigned long long)kills, (unsigned long long)mounted_kills,
	       (unsigned long long)writes, (unsigned long long)syncs,
	       (unsigned long long)test.seed);
	return 0;
}

int main(int argc, char **argv)
{
	int r;

	if (parse_args(argc, argv)) {
		fprintf(stderr,
			"usage: crash_test [--kills N] [--seed S] [--mounted PERCENT] [DIR]\n");
		return 2;
	}
	snprintf(test.db, sizeof(test.db), "%s/w.db", test.base);
	snprintf(test.mount, sizeof(test.mount), "%s/mnt", test.base);
	test.log = mmap(NULL, sizeof(*test.log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (test.log == MAP_FAILED)
		return 2;
	r = run();
	if (r == 0)
		nftw(test.base, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return r;
}
