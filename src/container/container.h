/* container.h - full Linux for one command, over the workspace's live files.
 *
 * Our own launcher: user, pid, mount, net, ipc, uts and cgroup namespaces, pivot_root into a
 * prepared root (the host's /usr read-only, private /tmp), seccomp, no new privileges, dropped
 * capabilities, masked /proc, cgroup limits where the host allows. pid 1 is a small init that
 * starts commands on request, so the second exec costs no new namespaces. No network but loopback.
 */
#ifndef CONTAINER_CONTAINER_H
#define CONTAINER_CONTAINER_H

#include "base/err.h"

#include <sys/types.h>

struct container;

struct container_options {
	/* A detached mount for /workspace (fuse_start), or a descriptor of the folder where it is
	 * mounted (unprivileged, by fusermount3). Borrowed; it serves any number of containers,
	 * but only one before Linux 6.15. */
	int mount_fd;
	const char *hostname; /* the workspace's name, made fit */
	uint64_t memory_max;  /* bytes; 0: 2 GiB */
	uint64_t pids_max;    /* 0: 1024 */
	uint64_t cpu_percent; /* of one CPU; 0: no limit */
};

/* As root, or unprivileged through a user namespace. -EPERM and the like: the text says what the
 * host forbids and what to do. */
int container_start(const struct container_options *options, struct container **ret_container,
		    struct err *err) MUST_USE;

/* Kills everything inside and waits for it. NULL is allowed. */
void container_stop(struct container *container);

/* False once pid 1 is gone. */
bool container_alive(struct container *container);

struct container_exec {
	const char *const *argv; /* NULL at the end */
	const char *const *envp; /* NULL: PATH, HOME, LANG, TERM of ours */
	const char *cwd;         /* NULL: /workspace */
	/* Pipes, sockets and terminals. Through /proc/self/fd a command can open a file again, for
	 * writing too; folders are refused. */
	int fds[3];         /* borrowed: stdin, stdout, stderr of the command; -1: /dev/null */
	int64_t timeout_ns; /* 0: none. At the end the whole tree is killed */
	int cancel_fd;      /* -1, or readable when the command shall be killed */
	/* Each byte there is a signal for the command (SIGINT and the like) instead; SIGKILL, 0 or
	 * the end kill. */
	bool cancel_signals;
};

struct container_result {
	int status; /* 0..255: exit status; 128 + signal when killed by one; 126, 127 as a shell */
	int signal; /* 0, or the signal that ended it */
	bool timed_out;
	bool killed; /* by cancel_fd */
};

/* Run one command and wait for it: for the process that was started, not for what it left in the
 * background; that is killed. Any thread; several may run at once. */
int container_run(struct container *container, const struct container_exec *exec,
		  struct container_result *ret_result, struct err *err) MUST_USE;

/* The longest command line and environment taken: -E2BIG. */
#define CONTAINER_ARGS_MAX (1 << 20)

/* What the host allows, for `computer doctor`. */
struct container_host {
	bool root;            /* enough rights to start without a user namespace's mapping tools */
	bool user_namespaces; /* an unprivileged one can be made */
	bool seccomp;
	int cgroup; /* 0: no usable one, 1: v1, 2: v2 */
};
void container_get_host(struct container_host *ret_host);

#endif
