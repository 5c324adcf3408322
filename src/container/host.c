/* host.c - what the host allows containers to have. */
#include "container/container_i.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

bool host_is_root(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	const uint32_t needed = (1u << CAP_SYS_ADMIN) | (1u << CAP_SETUID) | (1u << CAP_SETGID);

	return geteuid() == 0 && syscall(SYS_capget, &header, data) == 0 &&
	       (data[0].effective & needed) == needed;
}

/* Tried in a child, as somebody without rights: settings alone do not tell (AppArmor, seccomp). */
static bool can_make_user_namespace(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		bool ok;

		if (geteuid() == 0 && (syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) < 0 ||
				       syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY) < 0))
			_exit(1);
		ok = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
		     mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
		_exit(ok ? 0 : 1);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool has_seccomp(void)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

void container_get_host(struct container_host *ret_host)
{
	*ret_host = (struct container_host){
		.root = host_is_root(),
		.user_namespaces = can_make_user_namespace(),
		.seccomp = has_seccomp(),
		.cgroup = cgroup_version(),
	};
}
