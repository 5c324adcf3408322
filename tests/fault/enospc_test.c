/* enospc_test.c - a workspace on a disk that is full.
 *
 * On a tmpfs of 24 MiB: fill it through the library and through the mount. The error must be ENOSPC
 * (never EIO or worse), what was acknowledged before must stay, the check must be clean, and all
 * must work again as soon as something else makes room, without reopening.
 */
#include "base/fd.h"
#include "base/text.h"
#include "computer.h"
#include "computer/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DISK "size=24m,mode=755"
#define CHUNK (256 << 10)
#define SMALL 8000
#define BALLAST (6 << 20) /* a file beside the workspace; removing it makes room */
#define SKIP 77

static char base[256], disk[300], db[340], mnt[300], ballast[340];
static int number, failed;

static bool ok(bool good, const char *what, int r)
{
	printf("%s %d - %s", good ? "ok" : "not ok", ++number, what);
	if (!good)
		printf(": %s", r < 0 ? text_errno(-r) : "");
	printf("\n");
	fflush(stdout);
	failed += !good;
	return good;
}

static void fill(char *bytes, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1664525 + 1013904223;
		bytes[i] = (char)(seed >> 24);
	}
}

static int make_ballast(void)
{
	static const char bytes[65536] = "x";
	int fd = open(ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : 0;

	for (int i = 0; i < BALLAST / (int)sizeof(bytes) && r == 0; i++)
		r = fd_write_all(fd, bytes, sizeof(bytes));
	fd_close(&fd);
	return r;
}

static void count_problem(void *arg, const char *text, bool repaired)
{
	(void)arg;
	(void)repaired;
	printf("# check: %s\n", text);
}

static void check(struct computer *computer, const char *what)
{
	struct err err = ERR_INIT;
	uint64_t left = 0;
	int r = computer_check(computer, false, count_problem, NULL, &left, &err);

	ok(r == 0 && left == 0, what, r);
}

static struct computer *open_workspace(unsigned flags)
{
	struct computer_err err = {0};
	struct computer *computer = NULL;
	int r = computer_open(db, flags, &computer, &err);

	if (!ok(r == 0, "the workspace opens", r))
		printf("# %s\n", err.text);
	return computer;
}

/* ---- by the library ---- */

/* How many files of `size` were acknowledged with a sync before ENOSPC; *ret_error is the error. */
static int fill_by_library(struct computer *computer, const char *prefix, size_t size,
			   int *ret_error)
{
	static char bytes[CHUNK];
	char name[64];
	int r;

	for (int i = 0;; i++) {
		snprintf(name, sizeof(name), "/%s-%d", prefix, i);
		fill(bytes, size, (unsigned)i);
		r = computer_write_file(computer, name, bytes, size, 0644);
		if (r == 0 && i % 16 == 0)
			r = computer_sync(computer);
		if (r < 0) {
			*ret_error = r;
			return i - i % 16;
		}
	}
}

static int verify_by_library(struct computer *computer, const char *prefix, size_t size, int count)
{
	static char want[CHUNK];
	char name[64];

	for (int i = 0; i < count; i++) {
		size_t len = 0;
		void *got = NULL;
		int r, same;

		snprintf(name, sizeof(name), "/%s-%d", prefix, i);
		r = computer_read_file(computer, name, CHUNK, &got, &len);
		if (r < 0)
			return r;
		fill(want, size, (unsigned)i);
		same = len == size && memcmp(got, want, size) == 0;
		free(got);
		if (!same)
			return -EUCLEAN;
	}
	return count;
}

static void by_library(const char *prefix, size_t size)
{
	struct computer *computer;
	int r = make_ballast(), error = 0, count;

	ok(r == 0, "something else takes space", r);
	computer = open_workspace(COMPUTER_CREATE);
	if (!computer)
		return;
	count = fill_by_library(computer, prefix, size, &error);
	ok(error == -ENOSPC, "a full disk is ENOSPC", error);
	ok(count > 0, "some files were kept before", count);
	r = verify_by_library(computer, prefix, size, count);
	ok(r == count, "what was acknowledged can be read while it is full", r);
	unlink(ballast);
	r = computer_write_file(computer, "/again", "again", 5, 0644);
	if (r == 0)
		r = computer_sync(computer);
	ok(r == 0, "works at once when there is space again", r);
	check(computer, "the check is clean");
	r = computer_close(computer, NULL);
	ok(r == 0, "closes", r);

	computer = open_workspace(0);
	if (!computer)
		return;
	r = verify_by_library(computer, prefix, size, count);
	ok(r == count, "what was acknowledged is there after reopening", r);
	check(computer, "the check is clean after reopening");
	for (int i = 0;; i++) {
		char name[64];

		snprintf(name, sizeof(name), "/%s-%d", prefix, i);
		if (computer_unlink(computer, name) < 0)
			break;
	}
	r = computer_close(computer, NULL);
	ok(r == 0, "files can be removed", r);
}

/* ---- through the mount: in a child, the parent serves ---- */

static int write_file(const char *name, size_t size, unsigned seed)
{
	static char bytes[CHUNK];
	char path[400];
	int fd, r;

	snprintf(path, sizeof(path), "%s/%s", mnt, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	fill(bytes, size, seed);
	r = fd_write_all(fd, bytes, size);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}

static int verify_file(const char *name, size_t size, unsigned seed)
{
	static char want[CHUNK], got[CHUNK + 1];
	char path[400];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", mnt, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = fd_pread_full(fd, got, sizeof(got), 0);
	close(fd);
	fill(want, size, seed);
	return n == (ssize_t)size && memcmp(got, want, size) == 0 ? 0 : -EUCLEAN;
}

/* The number of tests that failed; numbers go on from `number`. */
static int through_mount(void)
{
	char name[64];
	int r = 0, count = 0;

	while (r == 0 && count < 1000) {
		snprintf(name, sizeof(name), "m%d", count);
		r = write_file(name, count % 2 ? SMALL : CHUNK, (unsigned)count);
		count += r == 0;
	}
	ok(r == -ENOSPC, "a full disk is ENOSPC for a program", r);
	ok(count > 0, "some files were kept before", count);
	for (int i = r = 0; i < count && r == 0; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		r = verify_file(name, i % 2 ? SMALL : CHUNK, (unsigned)i);
	}
	ok(r == 0, "every fsynced file is there while it is full", r);
	unlink(ballast);
	r = write_file("again", SMALL, 7);
	if (r == 0)
		r = verify_file("again", SMALL, 7);
	ok(r == 0, "a program can write at once when there is space again", r);
	return failed;
}

static void by_mount(void)
{
	struct computer_err err = {0};
	struct computer *computer;
	int status, r;
	pid_t pid;

	r = computer_remove(db, &err);
	ok(r == 0, "a workspace on a full disk can be removed", r);
	r = make_ballast();
	ok(r == 0, "something else takes space", r);
	computer = open_workspace(COMPUTER_CREATE);
	if (!computer)
		return;
	r = computer_mount(computer, mnt, 0, &err);
	if (r < 0) {
		printf("ok %d - by a mount # SKIP %s\n", ++number, err.text);
		(void)computer_close(computer, NULL);
		return;
	}
	pid = fork();
	if (pid == 0)
		_exit(through_mount() != 0);
	if (waitpid(pid, &status, 0) != pid)
		status = -1;
	number += 4;
	failed += status != 0;
	r = computer_umount(computer, &err);
	ok(r == 0, "unmounts", r);
	check(computer, "the check is clean");
	r = computer_close(computer, &err);
	ok(r == 0, "closes", r);
	computer = open_workspace(0);
	if (!computer)
		return;
	check(computer, "the check is clean after reopening");
	r = computer_close(computer, &err);
	ok(r == 0, "closes", r);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(base, sizeof(base), "%s/enospc.XXXXXX", tmp ? tmp : "/tmp");
	if (geteuid() != 0)
		return SKIP;
	if (!mkdtemp(base))
		return 1;
	snprintf(disk, sizeof(disk), "%s/disk", base);
	snprintf(mnt, sizeof(mnt), "%s/mnt", base);
	snprintf(db, sizeof(db), "%s/w.db", disk);
	snprintf(ballast, sizeof(ballast), "%s/ballast", disk);
	if (mkdir(disk, 0755) < 0 || mkdir(mnt, 0755) < 0)
		return 1;
	if (mount("tmpfs", disk, "tmpfs", 0, DISK) == 0) {
		printf("# large files by the library\n");
		by_library("large", CHUNK);
		printf("# small files by the library\n");
		by_library("small", SMALL);
		printf("# through a mount\n");
		by_mount();
		umount2(disk, MNT_DETACH);
	} else {
		printf("ok %d - full disk # SKIP cannot mount a tmpfs\n", ++number);
	}
	rmdir(disk);
	rmdir(mnt);
	rmdir(base);
	printf("1..%d\n", number);
	return failed != 0;
}
