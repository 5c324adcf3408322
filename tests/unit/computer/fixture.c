/* fixture.c - see fixture.h. */
#include "fixture.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void home_init(struct home *home)
{
	const char *tmp = getenv("TMPDIR");

	*home = (struct home){.stop = -1};
	snprintf(home->path, sizeof(home->path), "%s/computer-test-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(home->path));
	setenv("COMPUTER_HOME", home->path, 1);
	setenv("XDG_RUNTIME_DIR", home->path, 1);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void home_clear(struct home *home)
{
	home_release(home);
	nftw(home->path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* The other process: has the workspace open until its pipe ends. */
static void be_owner(int ready, int stop)
{
	struct computer *computer;
	struct computer_err err = {0};
	char byte = 0;

	if (computer_open("w", 0, &computer, &err) < 0) {
		fprintf(stderr, "the owner cannot open it: %s\n", err.text);
		_exit(1);
	}
	(void)!write(ready, &byte, 1);
	(void)!read(stop, &byte, 1);
	_exit(computer_close(computer, &err) < 0);
}

void home_owned(struct home *home, bool remote)
{
	struct computer_err err = {0};
	struct computer *computer;
	int ready[2], stop[2];
	char byte;

	home->remote = remote;
	if (computer_open("w", COMPUTER_CREATE, &computer, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(computer_close(computer, &err), 0);
	if (!remote)
		return;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
	home->owner = fork();
	assert_true(home->owner >= 0);
	if (home->owner == 0) {
		close(stop[1]);
		be_owner(ready[1], stop[0]);
	}
	close(ready[1]);
	close(stop[0]);
	home->stop = stop[1];
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
}

void home_release(struct home *home)
{
	int status;

	if (!home->owner)
		return;
	fd_close(&home->stop);
	assert_int_equal(waitpid(home->owner, &status, 0), home->owner);
	home->owner = 0;
	home->remote = false;
	assert_int_equal(status, 0);
}

struct computer *home_open(const struct home *home, const char *workspace, unsigned flags)
{
	struct computer *computer = NULL;
	struct err err = ERR_INIT;

	assert_call(computer_open_as(workspace, flags, "test", &computer, &err), 0);
	assert_int_equal(computer_is_owner(computer), !home->remote);
	return computer;
}

void home_close(struct computer *computer)
{
	struct err err = ERR_INIT;

	assert_call(computer_close(computer, err_api(&err)), 0);
}

const char *home_file(const struct home *home, const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", home->path, name);
	return path;
}
