/* init_i.h - the parts of a container's init. A static program of its own: libc only. */
#ifndef CONTAINER_INIT_I_H
#define CONTAINER_INIT_I_H

#include "base/base.h"
#include "container/protocol_i.h"

#include <linux/sched.h>
#include <sys/types.h>

/* Tell the owner what failed, with errno, and end. */
_Noreturn void init_fail(enum setup_step step, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* clone3 as fork: the child goes on with a copy of everything. The pid, 0 in the child, or -1. */
pid_t init_clone(uint64_t flags);

/* Build the root, enter it and let go of the host's. `workspace` is the mount, or a directory. */
void root_enter(const struct setup_message *setup, int workspace);

/* A fresh /proc for the calling pid namespace, with what tells of the host covered. 0 or -1. */
int root_mount_proc(void);

/* Take away every dangerous system call from this process and what it starts. 0 or -1. */
int filter_install(void);

struct run_request {
	struct run_message message;
	int args;
	int fds[3]; /* -1: /dev/null */
};

/* In shared memory: the runner and the command, until it is executed, write it. */
struct run_state {
	volatile int32_t wait_status;
	volatile int32_t code;
	volatile uint32_t step;
};

/* Start a command in its own pid namespace. The pid of its runner, or -1. */
pid_t run_start(const struct setup_message *setup, const struct run_request *request,
		struct run_state *state);

#endif
