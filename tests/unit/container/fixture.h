/* fixture.h - a container over a folder under $TMPDIR, and commands in it. */
#ifndef TEST_CONTAINER_FIXTURE_H
#define TEST_CONTAINER_FIXTURE_H

#include "base/buf.h"
#include "container/container.h"

struct box {
	char dir[512]; /* /workspace, seen from the host; `probe` is in it */
	int mount_fd;
	struct container *container;
};

/* Only once, first of all: open the probe, and become nobody if `argv` says so. */
void box_prepare(int argc, char **argv);

/* NULL, or why this host cannot run containers. */
const char *box_trouble(void);

/* Start with these limits (0: the usual ones). Everything is asserted. */
void box_open(struct box *box, uint64_t memory_max, uint64_t pids_max);
void box_close(struct box *box);

struct outcome {
	struct container_result result;
	char out[65536]; /* cut */
	char err[4096];
};

/* `sh -c script`, its output kept. Asserts that it could be started. */
void box_sh(struct box *box, const char *script, struct outcome *ret_outcome);

/* Run a program with these arguments (NULL at the end). */
void box_run(struct box *box, const char *const *argv, struct outcome *ret_outcome);

#define BOX_EXEC(...) ((struct container_exec){.fds = {-1, -1, -1}, .cancel_fd = -1, __VA_ARGS__})

#endif
