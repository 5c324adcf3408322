/* container_i.h - the owner's parts of a container. */
#ifndef CONTAINER_CONTAINER_I_H
#define CONTAINER_CONTAINER_I_H

#include "container/container.h"
#include "container/protocol_i.h"

#define CGROUPS_MAX 3

/* The folders of one container's limits: one per controller (v1) or one (v2). */
struct cgroup {
	char *dirs[CGROUPS_MAX];
	int count;
	bool memory; /* the sum of memory is bounded */
};

#define CGROUP_INIT ((struct cgroup){0})

/* 0: none that we may write, 1 or 2. */
int cgroup_version(void);

/* Make the folders and set the limits, as far as the host allows: see `count` and `memory`. */
void cgroup_create(const struct container_options *options, struct cgroup *ret_cgroup);

/* Move a process in, and with it all that it will start. */
int cgroup_join(const struct cgroup *cgroup, pid_t pid, struct err *err) MUST_USE;

/* Take the folders away; nothing may run in them. Empty afterwards. */
void cgroup_clear(struct cgroup *cgroup);

struct init_process {
	int control; /* our end of the control socket */
	int pidfd;
	pid_t pid;
};

/* Start the launcher and, through it, the init; both are reaped on failure. */
int init_spawn(const struct container_options *options, const struct cgroup *cgroup,
	       struct init_process *ret_init, struct err *err) MUST_USE;

/* Send `message` with descriptors. 0 or a negative errno. */
int control_send(int control, const void *message, size_t len, const int *fds,
		 size_t count) MUST_USE;

/* Hand a descriptor over that would be closed at the end of its scope. */
static inline int fd_steal(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/* Our own rights decide how ids are mapped and who may mount. */
bool host_is_root(void);

#endif
