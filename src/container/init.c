/* init.c - the program that becomes pid 1 of a container (protocol_i.h).
 *
 * It is executed from memory by the owner, as the launcher: makes the namespaces and the init in
 * them, and ends. The init builds the root and then starts commands for as long as the owner holds
 * the control socket. Single-threaded, no secrets, no descriptor but that socket.
 */
#include "container/init_i.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 5

struct run {
	pid_t pid; /* of the runner; 0: free */
	int socket;
	bool killed;
};

static struct run runs[RUNS_MAX];
static struct run_state *states; /* one for each of `runs`, shared with the runners */

static void tell(const struct status_message *message)
{
	if (send(CONTROL_FD, message, sizeof(*message), MSG_NOSIGNAL) < 0)
		_exit(1); /* the owner is gone */
}

void init_fail(enum setup_step step, const char *fmt, ...)
{
	struct status_message message = {.kind = MESSAGE_FAILED, .code = errno, .step = step};
	va_list args;

	va_start(args, fmt);
	vsnprintf(message.text, sizeof(message.text), fmt, args);
	va_end(args);
	tell(&message);
	_exit(1);
}

pid_t init_clone(uint64_t flags)
{
	struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};

	if (flags & CLONE_PARENT)
		args.exit_signal = 0; /* the kernel takes the parent's */
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* One message and its descriptors, unused ones -1. The length, 0 at the end, or -1. */
static ssize_t receive(void *message, size_t size, int fds[DESCRIPTORS_MAX])
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {message, size};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *cmsg;
	ssize_t n;

	do {
		n = recvmsg(CONTROL_FD, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	for (int i = 0; i < DESCRIPTORS_MAX; i++)
		fds[i] = -1;
	cmsg = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(cmsg), cmsg->cmsg_len - CMSG_LEN(0));
	return n;
}

static void close_all(int fds[DESCRIPTORS_MAX])
{
	for (int i = 0; i < DESCRIPTORS_MAX; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static void write_proc(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		init_fail(STEP_USER_NAMESPACE, "cannot write %s", path);
	close(fd);
}

/* Without rights over the host's ids, root inside is the calling user outside and nobody else. */
static void map_own_ids(uid_t uid, gid_t gid)
{
	char text[64];

	write_proc("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "0 %u 1", uid);
	write_proc("/proc/self/uid_map", text);
	snprintf(text, sizeof(text), "0 %u 1", gid);
	write_proc("/proc/self/gid_map", text);
}

static void make_user_namespace(const struct setup_message *setup)
{
	struct status_message message = {.kind = MESSAGE_MAP};
	int fds[DESCRIPTORS_MAX];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER) < 0)
		init_fail(STEP_USER_NAMESPACE, "cannot make a user namespace");
	if (!setup->root) {
		map_own_ids(uid, gid);
		return;
	}
	tell(&message);
	if (receive(&message, sizeof(message), fds) != sizeof(message) ||
	    message.kind != MESSAGE_GO)
		_exit(1);
	/* Where the owner's own namespace denies setgroups, the groups have no names in here. */
	if ((setgroups(0, NULL) < 0 && errno != EPERM) || setresgid(0, 0, 0) < 0 ||
	    setresuid(0, 0, 0) < 0)
		init_fail(STEP_USER_NAMESPACE, "cannot become root of the user namespace");
}

static void bring_loopback_up(void)
{
	struct ifreq request = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		init_fail(STEP_OTHER, "cannot look at the loopback interface");
	request.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		init_fail(STEP_OTHER, "cannot bring the loopback interface up");
	close(fd);
}

static struct run *find_run(pid_t pid)
{
	for (size_t i = 0; i < RUNS_MAX; i++) {
		if (runs[i].pid == pid)
			return &runs[i];
	}
	return NULL;
}

static void answer(int socket, const struct run_state *state)
{
	struct run_done done = {
		.wait_status = state->wait_status, .code = state->code, .step = state->step};

	(void)!send(socket, &done, sizeof(done), MSG_NOSIGNAL);
	close(socket);
}

static void start_run(const struct setup_message *setup, const struct run_message *message,
		      int fds[DESCRIPTORS_MAX])
{
	struct run_request request = {.message = *message, .args = fds[1], .fds = {-1, -1, -1}};
	struct run *run = find_run(0);
	struct run_state refused = {.code = EAGAIN, .step = RUN_SETUP};
	int next = 2;

	for (int i = 0; i < 3; i++) {
		if (message->fd_mask & (1u << i))
			request.fds[i] = fds[next++];
	}
	if (run) {
		run->killed = false;
		run->pid = run_start(setup, &request, &states[run - runs]);
		if (run->pid > 0) {
			run->socket = fds[0];
			fds[0] = -1;
			close_all(fds);
			return;
		}
		refused.code = errno;
		run->pid = 0;
	}
	answer(fds[0], &refused);
	fds[0] = -1;
	close_all(fds);
}

static void serve_control(const struct setup_message *setup)
{
	struct run_message message;
	int fds[DESCRIPTORS_MAX];
	ssize_t n = receive(&message, sizeof(message), fds);

	if (n <= 0)
		_exit(0); /* the owner let go; the kernel kills the rest */
	if (n != sizeof(message) || message.kind != MESSAGE_RUN || fds[0] < 0 || fds[1] < 0) {
		close_all(fds);
		return;
	}
	start_run(setup, &message, fds);
}

static void reap(int signals)
{
	struct signalfd_siginfo info;
	struct run *run;
	pid_t pid;

	(void)!read(signals, &info, sizeof(info));
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		run = find_run(pid);
		if (!run)
			continue;
		answer(run->socket, &states[run - runs]);
		*run = (struct run){0};
	}
}

/* The owner has a signal for the command, which its runner passes on; or wants it dead: the runner
 * goes, and its namespace with it. */
static void signal_run(size_t index)
{
	unsigned char number = 0;
	ssize_t n;

	if (!runs[index].pid || runs[index].killed)
		return;
	n = recv(runs[index].socket, &number, 1, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n == 1 && number > 0 && number < NSIG) {
		kill(runs[index].pid, number);
		return;
	}
	kill(runs[index].pid, SIGKILL);
	runs[index].killed = true;
}

static _Noreturn void serve(const struct setup_message *setup, int signals)
{
	static struct pollfd polls[2 + RUNS_MAX];
	static size_t indices[RUNS_MAX];

	polls[0] = (struct pollfd){.fd = CONTROL_FD, .events = POLLIN};
	polls[1] = (struct pollfd){.fd = signals, .events = POLLIN};
	for (;;) {
		size_t count = 0;

		for (size_t i = 0; i < RUNS_MAX; i++) {
			if (!runs[i].pid || runs[i].killed)
				continue;
			polls[2 + count] = (struct pollfd){.fd = runs[i].socket, .events = POLLIN};
			indices[count++] = i;
		}
		if (poll(polls, 2 + count, -1) < 0)
			continue;
		for (size_t i = 0; i < count; i++) {
			if (polls[2 + i].revents)
				signal_run(indices[i]);
		}
		if (polls[1].revents)
			reap(signals);
		if (polls[0].revents)
			serve_control(setup);
	}
}

static _Noreturn void become_init(const struct setup_message *setup, int workspace)
{
	struct status_message ready = {.kind = MESSAGE_READY};
	struct rlimit limit;
	sigset_t child;
	int signals;

	root_enter(setup, workspace);
	close(workspace);
	if (sethostname(setup->hostname, strlen(setup->hostname)) < 0)
		init_fail(STEP_OTHER, "cannot set the host name");
	bring_loopback_up();

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	states = mmap(NULL, sizeof(*states) * RUNS_MAX, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signals = signalfd(-1, &child, SFD_CLOEXEC);
	if (states == MAP_FAILED || signals < 0)
		init_fail(STEP_OTHER, "cannot prepare the init");
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	tell(&ready);
	serve(setup, signals);
}

static void forget_the_owner(void)
{
	sigset_t none;

	if (syscall(SYS_close_range, (unsigned int)CONTROL_FD + 1, ~0u, 0u) < 0)
		init_fail(STEP_OTHER, "cannot close descriptors");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC);
	syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	prctl(PR_SET_NAME, "computer-init", 0, 0, 0); /* it was the number of the memfd */
	umask(022);
}

int main(void)
{
	struct status_message message = {.kind = MESSAGE_PID};
	struct setup_message setup;
	int fds[DESCRIPTORS_MAX];
	pid_t pid;

	forget_the_owner();
	if (receive(&setup, sizeof(setup), fds) != sizeof(setup) || setup.kind != MESSAGE_SETUP ||
	    fds[0] < 0)
		return 1;
	setup.hostname[sizeof(setup.hostname) - 1] = '\0';
	make_user_namespace(&setup);
	pid = init_clone(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
			 CLONE_NEWCGROUP | CLONE_PARENT);
	if (pid < 0)
		init_fail(STEP_NAMESPACES, "cannot make the namespaces");
	if (pid == 0)
		become_init(&setup, fds[0]);
	message.pid = pid;
	tell(&message);
	return 0;
}
