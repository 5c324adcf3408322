/* posix_suite.c - what POSIX and Linux say of a filesystem, tried on a directory.
 *
 *   posix_suite DIR [PREFIX]
 *
 * Runs every case whose name begins with PREFIX in a fresh directory under DIR: as root, and as
 * another user where the case says so. Prints TAP: `ok NAME`, `not ok NAME: why`. Results of two
 * filesystems can be compared line by line (posix_compare). Needs root; as another user it runs
 * what that user can.
 */
#include "script.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_SECONDS 30

static const struct posix_case *const tables[] = {
	cases_open,   cases_dir,  cases_link, cases_rename, cases_attr, cases_perm,
	cases_sticky, cases_time, cases_data, cases_xattr,  cases_node, cases_lock,
	func_lock,    func_mmap,  func_dir,   func_misc,
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_DP || type == FTW_D || type == FTW_DNR)
		rmdir(path);
	else
		unlink(path);
	return 0;
}

/* In the child: never returns. */
static void run_here(const struct posix_case *c, const char *dir, uid_t uid, int result)
{
	world.result = result;
	world.uid = uid;
	for (size_t i = 0; i < ARRAY_LEN(world.fd); i++)
		world.fd[i] = -1;
	alarm(CASE_SECONDS);
	umask(0);
	if (chdir(dir) < 0)
		fail("chdir: %s", text_errno(errno));
	if (uid != getuid()) {
		if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
		    setresuid(uid, uid, uid) < 0)
			fail("cannot become %u", (unsigned)uid);
	}
	if (c->script)
		script_run(c->script);
	else
		c->run();
	_exit(0);
}

/* 0 when the case passed; else `why` says why not. */
static int run_case(const struct posix_case *c, const char *dir, uid_t uid, char *why, size_t size)
{
	int pipe_fd[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	if (mkdir(dir, 0755) < 0 || chmod(dir, 0755) < 0 ||
	    (uid != getuid() && chown(dir, uid, uid) < 0) || pipe2(pipe_fd, O_CLOEXEC) < 0) {
		snprintf(why, size, "cannot make '%s': %s", dir, text_errno(errno));
		return -1;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		close(pipe_fd[0]);
		run_here(c, dir, uid, pipe_fd[1]);
	}
	close(pipe_fd[1]);
	while (len + 1 < size && (n = read(pipe_fd[0], why + len, size - len - 1)) > 0)
		len += (size_t)n;
	why[len] = '\0';
	close(pipe_fd[0]);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		status = -1;
	if (status != 0 && len == 0)
		snprintf(why, size, "ended with status 0x%x", (unsigned)status);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return status;
}

struct run {
	const char *dir, *prefix;
	int number, failed, skipped;
};

static void report(struct run *run, const struct posix_case *c, const char *who, uid_t uid)
{
	char name[256], dir[512], why[600] = "";

	snprintf(name, sizeof(name), "%s/%s", who, c->name);
	if (strncmp(name, run->prefix, strlen(run->prefix)) != 0)
		return;
	run->number++;
	if (getuid() != 0 && uid != getuid()) {
		run->skipped++;
		printf("ok %s # SKIP needs root\n", name);
		return;
	}
	snprintf(dir, sizeof(dir), "%s/c%d.%d", run->dir, (int)getpid(), run->number);
	if (run_case(c, dir, uid, why, sizeof(why)) == 0) {
		printf("ok %s\n", name);
		return;
	}
	run->failed++;
	printf("not ok %s: %s\n", name, why);
}

static void run_table(struct run *run, const struct posix_case *c)
{
	for (; c->name; c++) {
		if (c->flags & CASE_ROOT)
			report(run, c, "root", 0);
		if (c->flags & CASE_USER)
			report(run, c, "user", getuid() ? getuid() : UID_U);
	}
}

int main(int argc, char **argv)
{
	struct run run = {.prefix = argc > 2 ? argv[2] : ""};
	char *dir;

	if (argc == 3 &&
	    strcmp(argv[1], "--pause") == 0) { /* a program that just runs: func_misc.c */
		if (write(STDOUT_FILENO, "x", 1) == 1)
			pause();
		return 0;
	}
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: posix_suite DIR [PREFIX]\n");
		return 2;
	}
	dir = realpath(argv[1], NULL);
	if (!dir) {
		fprintf(stderr, "posix_suite: '%s': %s\n", argv[1], strerror(errno));
		return 2;
	}
	run.dir = dir;
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		run_table(&run, tables[i]);
	run_table(&run, matrix_cases());
	printf("1..%d\n# %d failed, %d skipped\n", run.number, run.failed, run.skipped);
	free(dir);
	return run.failed ? 1 : 0;
}
