/* mount.c - mount, umount: a workspace as a folder of the host. */
#include "base/fd.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOUNT_READONLY, MOUNT_AT, MOUNT_OTHER, MOUNT_FOREGROUND, MOUNT_TRANSPORT };

static const struct option mount_options[] = {
	[MOUNT_READONLY] = {"read-only", 'r', OPTION_FLAG, NULL,
			    "nothing can be changed through it"},
	[MOUNT_AT] = {"at", 0, OPTION_TEXT, "SNAPSHOT", "as it was then, read-only"},
	[MOUNT_OTHER] = {"allow-other", 0, OPTION_FLAG, NULL, "for every user, not only you"},
	[MOUNT_FOREGROUND] = {"foreground", 'f', OPTION_FLAG, NULL,
			      "stay until it is unmounted, or ^C"},
	[MOUNT_TRANSPORT] = {"transport", 0, OPTION_TEXT, "auto|dev|uring",
			     "how the kernel is served"},
};

/* What the process in the background tells the one that a person waits for. */
struct mounted {
	int r;
	struct err err;
};

static int do_mount(struct cli *cli, const char *workspace, const char *dir, unsigned flags,
		    struct err *err)
{
	unsigned open_flags = cli->opt[MOUNT_AT].count ? COMPUTER_READONLY : 0;
	int r;

	if (cancelled())
		return err_set(err, ECANCELED, "cancelled");
	r = computer_open_as(workspace, open_flags, "mount", &cli->computer, err);
	if (r < 0)
		return r;
	return computer_mount(cli->computer, dir, flags, err_api(err));
}

/* Until it is unmounted, or somebody wants us to end: then it is unmounted first. */
static int stay(struct cli *cli, struct err *err)
{
	int r = computer_mount_wait(cli->computer, cancel_fd(), err);

	if (r != -ECANCELED)
		return r;
	return computer_umount(cli->computer, err_api(err));
}

/* Never answers: the process that owns the mount, or keeps it, in a session of its own. */
static void background(struct cli *cli, const char *workspace, const char *dir, unsigned flags,
		       int report)
{
	struct mounted mounted = {0};
	struct err err = ERR_INIT;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	cancel_init(); /* a pipe of our own: the other process's ^C is not ours */
	mounted.r = do_mount(cli, workspace, dir, flags, &mounted.err);
	/* Whoever waits for the end of our output must not wait for the mount's. */
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
	    chdir("/") < 0)
		mounted.r = err_set(&mounted.err, errno, "cannot leave for the background");
	if (fd_write_all(report, &mounted, sizeof(mounted)) < 0)
		mounted.r = -EPIPE;
	close(report);
	if (mounted.r == 0)
		(void)stay(cli, &err);
	_exit(cli_close(cli, EXIT_OK));
}

static int mount_behind(struct cli *cli, const char *workspace, const char *dir, unsigned flags,
			struct err *err)
{
	struct mounted mounted;
	int ends[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, errno, "cannot start the process that keeps the mount");
	pid = fork();
	if (pid < 0) {
		close(ends[0]);
		close(ends[1]);
		return err_set(err, errno, "cannot start the process that keeps the mount");
	}
	if (pid == 0) {
		close(ends[0]);
		background(cli, workspace, dir, flags, ends[1]);
	}
	close(ends[1]);
	do {
		n = read(ends[0], &mounted, sizeof(mounted));
	} while (n < 0 && errno == EINTR && !cancelled());
	close(ends[0]);
	if (n == (ssize_t)sizeof(mounted)) {
		*err = mounted.err;
		/* A mount that did not come to be leaves nothing behind: wait until it let go. */
		if (mounted.r < 0)
			waitpid(pid, NULL, 0);
		return mounted.r;
	}
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	return cancelled() ? err_set(err, ECANCELED, "cancelled")
			   : err_set(err, EIO, "the process that keeps the mount died");
}

static int transport_flag(const char *name, unsigned *flags)
{
	if (!name || strcmp(name, "auto") == 0)
		return 0;
	if (strcmp(name, "dev") == 0)
		*flags |= COMPUTER_MOUNT_DEV;
	else if (strcmp(name, "uring") == 0)
		*flags |= COMPUTER_MOUNT_URING;
	else
		return -EINVAL;
	return 0;
}

static int run_mount(struct cli *cli)
{
	const char *name = cli->argv[0], *dir = cli->argv[1];
	unsigned flags = (cli->opt[MOUNT_READONLY].count || cli->opt[MOUNT_AT].count
				  ? COMPUTER_MOUNT_READONLY
				  : 0) |
			 (cli->opt[MOUNT_OTHER].count ? COMPUTER_MOUNT_ALLOW_OTHER : 0);
	CLEANUP(buf_clear) struct buf at = BUF_INIT((size_t)2 * PATH_MAX);
	struct err err = ERR_INIT;
	int r;

	if (transport_flag(cli->opt[MOUNT_TRANSPORT].text, &flags) < 0)
		return cli_usage(cli, "--transport is auto, dev or uring");
	if (cli->opt[MOUNT_AT].count) {
		if (strchr(name, '@'))
			return cli_usage(cli, "'%s' names a snapshot already", name);
		r = buf_add(&at, name, strlen(name));
		if (r == 0)
			r = buf_add(&at, "@", 1);
		if (r == 0)
			r = buf_add(&at, cli->opt[MOUNT_AT].text, strlen(cli->opt[MOUNT_AT].text));
		if (r < 0)
			return cli_fail(cli, ENAMETOOLONG, NULL, "--at");
		name = at.data;
	}
	if (!cli->opt[MOUNT_FOREGROUND].count) {
		r = mount_behind(cli, name, dir, flags, &err);
		return r < 0 ? cli_fail(cli, r, &err, "%s", "") : EXIT_OK;
	}
	r = do_mount(cli, name, dir, flags, &err);
	if (r == 0)
		r = stay(cli, &err);
	return r < 0 ? cli_fail(cli, r, &err, "%s", "") : EXIT_OK;
}

const struct command cmd_mount = {
	.name = "mount",
	.operands = "NAME DIR",
	.summary = "Show a workspace's files as a folder of the host",
	.help = "A process in the background keeps it until `computer umount DIR`, or umount(8). "
		"As root,\n"
		"or through fusermount3. What a mount that died left at DIR is cleaned up.",
	.min = 2,
	.max = 2,
	.options = mount_options,
	.options_count = ARRAY_LEN(mount_options),
	.run = run_mount,
};

/* ---- umount ---- */

/* Something is mounted at `text` (or was, and its server died). */
static bool is_mount_point(const char *text)
{
	char above[PATH_MAX + 4];
	struct stat st, st_above;

	if (stat(text, &st) < 0)
		return errno == ENOTCONN || errno == ECONNABORTED;
	snprintf(above, sizeof(above), "%s/..", text);
	return S_ISDIR(st.st_mode) && stat(above, &st_above) == 0 && st.st_dev != st_above.st_dev;
}

static int run_umount(struct cli *cli)
{
	const char *text = cli->argv[0];
	struct workspace workspace;
	struct err err = ERR_INIT;
	int status, r;

	if (is_mount_point(text) ||
	    (strchr(text, '/') && workspace_resolve(text, &workspace, NULL) < 0)) {
		r = workspace_umount(text, &err);
		return r < 0 ? cli_fail(cli, r, &err, "%s", "") : EXIT_OK;
	}
	status = cli_open(cli, text, 0);
	if (status != EXIT_OK)
		return status;
	if (computer_is_owner(cli->computer))
		return cli_fail(cli, EINVAL,
				&(struct err){EINVAL, "it is not mounted; nothing to do"}, "%s",
				text);
	r = computer_umount(cli->computer, err_api(&err));
	return r < 0 ? cli_fail(cli, r, &err, "%s", "") : EXIT_OK;
}

const struct command cmd_umount = {
	.name = "umount",
	.operands = "DIR|NAME",
	.summary = "Unmount a folder, or a workspace wherever it is mounted",
	.help = "What was written is durable afterwards.",
	.min = 1,
	.max = 1,
	.run = run_umount,
};
