/* protocol_i.h - what the owner and a container's init say to each other.
 *
 * One SOCK_SEQPACKET pair, descriptor CONTROL_FD in the container. The init trusts the owner and
 * nothing else; no command ever holds an end of it.
 *
 *   owner                     launcher (host)             init (pid 1)
 *   SETUP, mount fd  ------->
 *                    <------- MAP    (as root only: the launcher cannot map ids itself)
 *   GO               ------->
 *                    <------- PID    (and ends)
 *                    <---------------------------------- READY
 *   RUN, fds         ---------------------------------->
 *
 * FAILED instead of any answer ends the start. MAP, PID and READY come in any order. Each RUN
 * carries a socket of its own: the init answers there with `struct run_done` once every process of
 * the command is gone. A byte from the owner is a signal for the command; 0, or the end of file,
 * kills them all.
 */
#ifndef CONTAINER_PROTOCOL_I_H
#define CONTAINER_PROTOCOL_I_H

#include <stdint.h>

#define CONTROL_FD 3
#define MESSAGE_TEXT 200
#define RUNS_MAX 1024

enum message_kind {
	MESSAGE_SETUP = 1,
	MESSAGE_MAP,
	MESSAGE_GO,
	MESSAGE_PID,
	MESSAGE_READY,
	MESSAGE_FAILED,
	MESSAGE_RUN,
};

struct setup_message {
	uint32_t kind;
	uint32_t root;        /* the owner maps the ids; otherwise the launcher maps its own */
	uint64_t scratch_max; /* bytes in /tmp, /root, /run, /var/tmp and /dev/shm together */
	uint64_t data_max;    /* RLIMIT_DATA of each process; 0: none, a cgroup bounds memory */
	uint64_t pids_max;
	char hostname[64];
};

/* MAP, GO, PID, READY, FAILED. */
struct status_message {
	uint32_t kind;
	int32_t code;  /* FAILED: a positive errno */
	int32_t pid;   /* PID: of the init, as the owner sees it */
	uint32_t step; /* FAILED: enum setup_step, for the owner's advice */
	char text[MESSAGE_TEXT];
};

enum setup_step { STEP_OTHER, STEP_USER_NAMESPACE, STEP_NAMESPACES, STEP_PROC, STEP_WORKSPACE };

/* Descriptors: the run's socket, `args`, then those of 0..2 whose bit is set in `fd_mask`. */
struct run_message {
	uint32_t kind;
	uint32_t fd_mask;
	uint32_t args_len;
	uint32_t argc;
	uint32_t envc;
};

/* `args`: the working directory, argc arguments, envc variables; each ends in a NUL. */

enum run_step { RUN_STARTED, RUN_SETUP, RUN_CWD };

struct run_done {
	int32_t wait_status; /* as waitpid gives it */
	int32_t code;        /* not RUN_STARTED: a positive errno */
	uint32_t step;       /* enum run_step: how far it came */
};

#endif
