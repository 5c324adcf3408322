/* launch.c - how the owner starts a container's init (protocol_i.h). */
#include "container/container_i.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 5
#define PROC_FILE_MAX 65536
#define FIRST_HIGH_FD 10 /* above what the child's descriptors will be */
#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif

/* The init's executable, put here by the assembler (meson.build). */
extern const char container_init_image[];
extern const uint64_t container_init_image_size;

static pthread_mutex_t image_lock = PTHREAD_MUTEX_INITIALIZER;
static int image_fd = -1;

static int make_image(void)
{
	const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	CLEANUP(fd_close) int fd = -1;
	int r;

	fd = (int)syscall(SYS_memfd_create, "computer-init", flags | MFD_EXEC);
	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 every memfd is executable */
		fd = (int)syscall(SYS_memfd_create, "computer-init", flags);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, container_init_image, container_init_image_size);
	if (r < 0)
		return r;
	/* What runs as pid 1 is what was built, whatever a command does to /proc/1/exe. */
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	r = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_HIGH_FD);
	return r < 0 ? -errno : r;
}

/* Kept for the life of the process: every container runs the same file. */
static int get_image(void)
{
	int fd;

	pthread_mutex_lock(&image_lock);
	if (image_fd < 0)
		image_fd = make_image();
	fd = image_fd;
	pthread_mutex_unlock(&image_lock);
	return fd;
}

int control_send(int control, const void *message, size_t len, const int *fds, size_t count)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX)];
		struct cmsghdr header;
	} rights = {{0}};
	struct iovec iov = {.iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	memcpy(&iov.iov_base, &message, sizeof(message)); /* sendmsg does not write there */
	if (count) {
		rights.header.cmsg_len = CMSG_LEN(sizeof(int) * count);
		rights.header.cmsg_level = SOL_SOCKET;
		rights.header.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&rights.header), fds, sizeof(int) * count);
		msg.msg_control = rights.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
	}
	do {
		n = sendmsg(control, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* A letter or digit of a host name, small; '-' for everything else. */
static char fit_letter(char c)
{
	static const char from[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
			  to[] = "abcdefghijklmnopqrstuvwxyz";
	const char *large = strchr(from, c);

	if (large)
		return to[large - from];
	if (strchr(to, c) || (c >= '0' && c <= '9'))
		return c;
	return '-';
}

/* The name as DNS and sethostname take it: no '-' first, last or twice. */
static void fit_hostname(const char *name, char ret_name[64])
{
	size_t len = 0;

	for (; name && *name && len < 63; name++) {
		char c = fit_letter(*name);

		if (c != '-' || (len > 0 && ret_name[len - 1] != '-'))
			ret_name[len++] = c;
	}
	if (len > 0 && ret_name[len - 1] == '-')
		len--;
	ret_name[len] = '\0';
	if (len == 0)
		snprintf(ret_name, 64, "computer");
}

/* Every id that we have stands for itself inside, so that owners in the workspace are the same. */
static int write_map(pid_t pid, const char *name)
{
	CLEANUP(buf_clear) struct buf own = BUF_INIT(PROC_FILE_MAX);
	CLEANUP(buf_clear) struct buf map = BUF_INIT(PROC_FILE_MAX);
	CLEANUP(fd_close) int fd = -1;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/self/%s", name);
	r = file_read(path, &own, NULL);
	if (r < 0)
		return r;
	for (char *line = own.data, *next; *line; line = next) {
		char *end = strchrnul(line, '\n');
		uint32_t inside, outside, count;

		next = *end ? end + 1 : end;
		*end = '\0';
		/* NOLINTNEXTLINE(cert-err34-c): the kernel's own table, padded with spaces */
		if (sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu32, &inside, &outside, &count) !=
		    3)
			return -EINVAL;
		r = text_add(&map, "%" PRIu32 " %" PRIu32 " %" PRIu32 "\n", inside, inside, count);
		if (r < 0)
			return r;
	}
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fd_write_all(fd, map.data, map.len);
}

static int map_ids(int control, pid_t launcher, struct err *err)
{
	struct status_message go = {.kind = MESSAGE_GO};
	int r;

	r = write_map(launcher, "uid_map");
	if (r == 0)
		r = write_map(launcher, "gid_map");
	if (r < 0)
		return err_set(err, -r, "cannot map the user ids of the container");
	r = control_send(control, &go, sizeof(go), NULL, 0);
	return r < 0 ? err_set(err, -r, "cannot reach the container") : 0;
}

static bool setting_is(const char *path, char value)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(64);

	return file_read(path, &text, NULL) == 0 && text.len > 0 && text.data[0] == value &&
	       (text.len == 1 || text.data[1] == '\n');
}

/* What a person can do about it. */
static const char *advice(const struct status_message *message)
{
	switch ((enum setup_step)message->step) {
	case STEP_USER_NAMESPACE:
	case STEP_NAMESPACES:
		if (setting_is("/proc/sys/user/max_user_namespaces", '0'))
			return "; set sysctl user.max_user_namespaces above 0";
		if (setting_is("/proc/sys/kernel/unprivileged_userns_clone", '0'))
			return "; set sysctl kernel.unprivileged_userns_clone=1, or run as root";
		if (setting_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1'))
			return "; set sysctl kernel.apparmor_restrict_unprivileged_userns=0, give "
			       "the program an AppArmor profile with userns, or run as root";
		return message->code == EPERM
			       ? "; this host (perhaps a container itself) forbids new namespaces"
			       : "";
	case STEP_PROC:
		return "; the host hides parts of its own /proc, as containers do: run outside "
		       "of one, or with its masked paths lifted";
	case STEP_WORKSPACE:
	case STEP_OTHER:
		break;
	}
	return "";
}

static int report(struct status_message *message, struct err *err)
{
	int code = message->code > 0 ? message->code : EIO;

	message->text[sizeof(message->text) - 1] = '\0';
	return err_set(err, code, "%s: %s%s", message->text, text_errno(code), advice(message));
}

/* Follow the start until the init is ready. `ret_pid` is set as soon as there is one. */
static int follow(int control, pid_t launcher, pid_t *ret_pid, struct err *err)
{
	struct status_message message;
	bool ready = false;
	ssize_t n;
	int r;

	while (!ready || *ret_pid <= 0) {
		n = recv(control, &message, sizeof(message), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(message))
			return err_set(err, ECHILD, "the container's init ended while starting");
		switch ((enum message_kind)message.kind) {
		case MESSAGE_MAP:
			r = map_ids(control, launcher, err);
			if (r < 0)
				return r;
			break;
		case MESSAGE_PID:
			*ret_pid = message.pid;
			break;
		case MESSAGE_READY:
			ready = true;
			break;
		case MESSAGE_FAILED:
			return report(&message, err);
		case MESSAGE_SETUP:
		case MESSAGE_GO:
		case MESSAGE_RUN:
			return err_set(err, EPROTO, "the container's init answers nonsense");
		}
	}
	return 0;
}

static int spawn_launcher(int control, pid_t *ret_pid, struct err *err)
{
	char arg0[] = "computer-init";
	char *argv[] = {arg0, NULL};
	char *envp[] = {NULL};
	posix_spawn_file_actions_t actions;
	char path[64];
	int image = get_image();
	int r;

	if (image < 0)
		return err_set(err, -image, "cannot prepare the container's init");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", image);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, control, CONTROL_FD);
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	r = posix_spawn(ret_pid, path, &actions, NULL, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	return r ? err_set(err, r, "cannot start the container's init") : 0;
}

static int send_setup(int control, const struct container_options *options,
		      const struct cgroup *cgroup, struct err *err)
{
	struct setup_message setup = {
		.kind = MESSAGE_SETUP,
		.root = host_is_root(),
		.scratch_max = options->memory_max / 2,
		.data_max = cgroup->memory ? 0 : options->memory_max,
		.pids_max = options->pids_max,
	};
	CLEANUP(fd_close) int tree = -1;
	int fd, r;

	fit_hostname(options->hostname, setup.hostname);
	/* A copy of the mount, so that it serves the next container too. Before Linux 6.15 a
	 * detached mount cannot be copied: it goes itself. */
	tree = open_tree(options->mount_fd, "",
			 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	fd = tree >= 0 ? tree : options->mount_fd;
	r = control_send(control, &setup, sizeof(setup), &fd, 1);
	return r < 0 ? err_set(err, -r, "cannot reach the container") : 0;
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
}

int init_spawn(const struct container_options *options, const struct cgroup *cgroup,
	       struct init_process *ret_init, struct err *err)
{
	struct init_process init = {.control = -1, .pidfd = -1, .pid = -1};
	CLEANUP(fd_close) int far = -1;
	CLEANUP(fd_close) int near = -1;
	pid_t launcher = -1;
	int ends[2];
	int r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_set(err, errno, "cannot make a socket pair");
	near = ends[0];
	far = fcntl(ends[1], F_DUPFD_CLOEXEC, FIRST_HIGH_FD);
	close(ends[1]);
	if (far < 0)
		return err_set(err, errno, "cannot make a socket pair");

	r = spawn_launcher(far, &launcher, err);
	if (r < 0)
		return r;
	fd_close(&far);
	far = -1;
	r = cgroup_join(cgroup, launcher, err);
	if (r == 0)
		r = send_setup(near, options, cgroup, err);
	if (r == 0)
		r = follow(near, launcher, &init.pid, err);
	if (r == 0) {
		init.pidfd = (int)syscall(SYS_pidfd_open, init.pid, 0);
		if (init.pidfd < 0)
			r = err_set(err, errno, "cannot watch the container's init");
	}
	if (r < 0) {
		/* The launcher and the init end when nobody holds the other end. */
		fd_close(&near);
		near = -1;
		kill(launcher, SIGKILL);
		if (init.pid > 0) {
			kill(init.pid, SIGKILL);
			reap(init.pid);
		}
	}
	reap(launcher);
	if (r < 0)
		return r;
	init.control = fd_steal(&near);
	*ret_init = init;
	return 0;
}
