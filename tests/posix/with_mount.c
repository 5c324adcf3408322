/* with_mount.c - run a command with a fresh workspace mounted.
 *
 *   with_mount [--dev|--uring] [--xattrs] COMMAND ARGS...
 *
 * "@", alone or after "=", is the mount point. The workspace lies under $TMPDIR (/var/tmp: a disk),
 * is mounted for every user, and is closed and checked afterwards. Exit status: the command's; 99
 * when the workspace is damaged; 77 when this host cannot mount.
 */
#include "base/text.h"
#include "computer.h"
#include "computer/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIP 77
#define DAMAGED 99
#define WORDS_MAX 64

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

/* "@" and "NAME=@" are the mount point. */
static char *mount_point(char *word, char *dir)
{
	size_t len = strlen(word);
	char *text;

	if (strcmp(word, "@") == 0)
		return dir;
	if (len < 2 || strcmp(word + len - 2, "=@") != 0)
		return word;
	if (asprintf(&text, "%.*s%s", (int)len - 1, word, dir) < 0)
		abort();
	return text; /* until exec */
}

static int run(int argc, char **argv, char *dir)
{
	char *words[WORDS_MAX + 1] = {NULL};
	int status;
	pid_t pid;

	for (int i = 0; i < argc && i < WORDS_MAX; i++)
		words[i] = mount_point(argv[i], dir);
	pid = fork();
	if (pid == 0) {
		execvp(words[0], words);
		perror(words[0]);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 126;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void say_problem(void *arg, const char *text, bool repaired)
{
	(void)arg;
	(void)repaired;
	fprintf(stderr, "with_mount: check: %s\n", text);
}

/* What reopening says: 0 or DAMAGED. */
static int reopen(const char *db)
{
	struct err err = ERR_INIT;
	struct computer *computer;
	uint64_t left = 0;
	int r;

	r = computer_open(db, 0, &computer, err_api(&err));
	if (r < 0) {
		fprintf(stderr, "with_mount: reopening: %s\n", err.text);
		return DAMAGED;
	}
	r = computer_check(computer, false, say_problem, NULL, &left, &err);
	if (r < 0)
		fprintf(stderr, "with_mount: check: %s\n", err.text);
	if (computer_close(computer, err_api(&err)) < 0)
		r = -EIO;
	return r < 0 || left ? DAMAGED : 0;
}

static int with_mount(int argc, char **argv, const char *db, char *dir, unsigned flags)
{
	struct computer_err err = {0};
	struct computer *computer = NULL;
	int status, r;

	r = computer_open(db, COMPUTER_CREATE | COMPUTER_EXCL, &computer, &err);
	if (r == 0)
		r = computer_mount(computer, dir, flags | COMPUTER_MOUNT_ALLOW_OTHER, &err);
	if (r < 0) {
		fprintf(stderr, "with_mount: %s\n", err.text);
		computer_close(computer, NULL);
		return r == -EPERM || r == -ENOENT || r == -EACCES || r == -EOPNOTSUPP ? SKIP : 1;
	}
	status = run(argc, argv, dir);
	if (computer_umount(computer, &err) < 0)
		fprintf(stderr, "with_mount: umount: %s\n", err.text);
	if (computer_close(computer, &err) < 0) {
		fprintf(stderr, "with_mount: close: %s\n", err.text);
		return DAMAGED;
	}
	r = reopen(db);
	return r ? r : status;
}

#define NO_FLAG (1u << 31)

static unsigned flag_of(const char *word)
{
	if (strcmp(word, "--dev") == 0)
		return COMPUTER_MOUNT_DEV;
	if (strcmp(word, "--uring") == 0)
		return COMPUTER_MOUNT_URING;
	return strcmp(word, "--xattrs") == 0 ? COMPUTER_MOUNT_XATTRS : NO_FLAG;
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	char base[256], db[300], dir[300];
	unsigned flags = 0;
	int status, skip = 1;

	for (; skip < argc && argv[skip][0] == '-'; skip++)
		flags |= flag_of(argv[skip]);
	if (skip >= argc || (flags & NO_FLAG)) {
		fprintf(stderr, "usage: with_mount [--dev|--uring] [--xattrs] COMMAND ARGS...\n");
		return 2;
	}
	snprintf(base, sizeof(base), "%s/with-mount.XXXXXX", tmp ? tmp : "/var/tmp");
	if (!mkdtemp(base)) {
		perror(base);
		return 1;
	}
	snprintf(db, sizeof(db), "%s/test.db", base);
	snprintf(dir, sizeof(dir), "%s/mnt", base);
	if (chmod(base, 0755) < 0 || mkdir(dir, 0755) < 0) {
		perror(dir);
		return 1;
	}
	status = with_mount(argc - skip, argv + skip, db, dir, flags);
	nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return status;
}
