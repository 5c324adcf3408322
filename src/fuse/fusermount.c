/* fusermount.c - mounting without root: fusermount3 opens the connection and hands it over.
 *
 * Protocol: fusermount3 gets one end of a socket by the environment variable _FUSE_COMMFD and sends
 * the descriptor of the mounted connection over it (libfuse, util/fusermount.c).
 */
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "fuse/fuse_i.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS_MAX 4096

const char *fusermount_path(void)
{
	static const char *const paths[] = {"/usr/bin/fusermount3", "/bin/fusermount3",
					    "/usr/local/bin/fusermount3"};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (access(paths[i], X_OK) == 0)
			return paths[i];
	return NULL;
}

/* Run it with `comm` as its socket (-1: none) and what it complains about in `complaint`. */
static int run(char *const argv[], int comm, struct buf *complaint, struct err *err)
{
	CLEANUP(fd_close) int in = -1;
	CLEANUP(fd_close) int out = -1;
	char chunk[256], variable[32];
	char path[] = "PATH=/usr/bin:/bin";
	char *envp[] = {path, variable, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2], status = 0, r;
	pid_t pid;
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, errno, "cannot run fusermount3");
	in = ends[0];
	out = ends[1];
	/* dup2 to another number drops close-on-exec: 3 is never one of ours in the child. */
	snprintf(variable, sizeof(variable), "_FUSE_COMMFD=%d", 3);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, 2);
	if (comm >= 0)
		posix_spawn_file_actions_adddup2(&actions, comm, 3);
	r = posix_spawn(&pid, argv[0], &actions, NULL, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return err_set(err, r, "cannot run %s", argv[0]);
	fd_close(&out);
	while ((n = read(in, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			(void)!buf_add(complaint, chunk, (size_t)n);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

static int complain(const struct buf *complaint, const char *dir, struct err *err)
{
	size_t len = complaint->len;

	while (len > 0 && complaint->data[len - 1] == '\n')
		len--;
	if (len == 0)
		return err_set(err, EPERM, "fusermount3 failed at '%s'", dir);
	return err_set(err, EPERM, "%.*s", (int)(len < 200 ? len : 200), complaint->data);
}

/* The descriptor that came over the socket, or -1. */
static int receive(int comm)
{
	char byte;
	struct iovec part = {&byte, 1};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	const struct cmsghdr *head;
	int fd = -1;

	if (recvmsg(comm, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0)
		return -1;
	head = CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

/* The mount options; a name is bytes, and a comma or backslash in it is escaped. */
static void options_text(const struct fuse_options *options, struct buf *text)
{
	const char *name = options->name && *options->name ? options->name : "computer";

	text_add(text, "nosuid,nodev,default_permissions,subtype=computer%s%s,fsname=",
		 options->readonly ? ",ro" : "", options->allow_other ? ",allow_other" : "");
	for (; *name; name++)
		text_add(text, "%s%c", *name == ',' || *name == '\\' ? "\\" : "", *name);
}

int fusermount_mount(struct vfs *vfs, const char *dir, const struct fuse_options *options,
		     struct fuse **ret_fuse, struct err *err)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(OPTIONS_MAX);
	CLEANUP(buf_clear) struct buf complaint = BUF_INIT(4096);
	CLEANUP(fd_close) int ours = -1;
	CLEANUP(fd_close) int theirs = -1;
	CLEANUP(mem_free) char *program = NULL;
	CLEANUP(mem_free) char *path = mem_strdup(dir);
	char flag[] = "-o", end[] = "--";
	int pair[2], fd, r;

	if (!fusermount_path())
		return err_set(err, EPERM, "mounting needs root, or fusermount3 (install fuse3)");
	program = mem_strdup(fusermount_path());
	options_text(options, &text);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "cannot run fusermount3");
	ours = pair[0];
	theirs = pair[1];
	{
		char *argv[] = {program, flag, text.data, end, path, NULL};

		r = run(argv, theirs, &complaint, err);
	}
	fd_close(&theirs);
	fd = r == 0 ? receive(ours) : -1;
	if (fd < 0)
		return complain(&complaint, dir, err);
	r = fuse_begin(vfs, fd, true, options, ret_fuse, err);
	if (r < 0) {
		(void)!fusermount_umount(dir, true, NULL);
		return r;
	}
	fuse_adopt_dir(*ret_fuse, dir);
	return 0;
}

int fusermount_umount(const char *dir, bool lazy, struct err *err)
{
	CLEANUP(buf_clear) struct buf complaint = BUF_INIT(4096);
	CLEANUP(mem_free) char *program = NULL;
	CLEANUP(mem_free) char *path = mem_strdup(dir);
	char flag[] = "-u", flag_lazy[] = "-z", end[] = "--";

	if (!fusermount_path())
		return err_set(err, EPERM, "unmounting needs root, or fusermount3 (install fuse3)");
	program = mem_strdup(fusermount_path());
	{
		char *argv[] = {program,
				flag,
				lazy ? flag_lazy : end,
				lazy ? end : path,
				lazy ? path : NULL,
				NULL};
		int r = run(argv, -1, &complaint, err);

		return r == 0 ? 0 : complain(&complaint, dir, err);
	}
}
