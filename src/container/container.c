/* container.c - a container's life, and commands in it. */
#include "container/container_i.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_DEFAULT (UINT64_C(2) << 30)
#define PIDS_DEFAULT 1024
#define NS_PER_MS 1000000
#define STATUS_TIMEOUT 124
#define GRACE_NS (5 * INT64_C(1000000000)) /* for the init to kill one command */

struct container {
	struct init_process init;
	struct cgroup cgroup;
	pthread_mutex_t lock;
	pthread_cond_t idle;
	unsigned int running; /* under `lock`: threads in container_run */
};

int container_start(const struct container_options *options, struct container **ret_container,
		    struct err *err)
{
	struct container_options full = *options;
	struct container *container;
	int r;

	if (full.mount_fd < 0)
		return err_set(err, EBADF, "cannot start a container: no mount was given");
	if (full.memory_max == 0)
		full.memory_max = MEMORY_DEFAULT;
	if (full.pids_max == 0)
		full.pids_max = PIDS_DEFAULT;
	container = mem_alloc0(sizeof(*container));
	cgroup_create(&full, &container->cgroup);
	r = init_spawn(&full, &container->cgroup, &container->init, err);
	if (r < 0) {
		cgroup_clear(&container->cgroup);
		free(container);
		return err_wrap(err, r, "cannot start a container");
	}
	pthread_mutex_init(&container->lock, NULL);
	pthread_cond_init(&container->idle, NULL);
	*ret_container = container;
	return 0;
}

static void kill_all(struct container *container)
{
	(void)syscall(SYS_pidfd_send_signal, container->init.pidfd, SIGKILL, NULL, 0);
}

void container_stop(struct container *container)
{
	if (!container)
		return;
	kill_all(container);
	pthread_mutex_lock(&container->lock);
	while (container->running > 0)
		pthread_cond_wait(&container->idle, &container->lock);
	pthread_mutex_unlock(&container->lock);

	close(container->init.control);
	/* The init is reaped only after everything in its pid namespace. */
	while (waitpid(container->init.pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	close(container->init.pidfd);
	cgroup_clear(&container->cgroup);
	pthread_cond_destroy(&container->idle);
	pthread_mutex_destroy(&container->lock);
	free(container);
}

bool container_alive(struct container *container)
{
	struct pollfd gone = {.fd = container->init.pidfd, .events = POLLIN};

	return poll(&gone, 1, 0) == 0;
}

static const char *const default_environment[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root",
	"LANG=C.UTF-8",
	"TERM=dumb",
	NULL,
};

/* Append strings with their NULs. The count, or -E2BIG. */
static int add_strings(struct buf *args, const char *const *strings)
{
	int count = 0;

	for (; strings[count]; count++) {
		if (buf_add(args, strings[count], strlen(strings[count]) + 1) < 0)
			return -E2BIG;
	}
	return count;
}

/* Put the working directory, arguments and environment where the init can read them. */
static int pack_args(const struct container_exec *exec, struct run_message *message, int *ret_fd,
		     struct err *err)
{
	CLEANUP(buf_clear) struct buf args = BUF_INIT(CONTAINER_ARGS_MAX);
	CLEANUP(fd_close) int fd = -1;
	const char *const cwd[] = {exec->cwd ? exec->cwd : "/workspace", NULL};
	int argc, envc, r;

	if (!exec->argv[0])
		return err_set(err, EINVAL, "no command was given");
	r = add_strings(&args, cwd);
	argc = r < 0 ? r : add_strings(&args, exec->argv);
	envc = argc < 0 ? argc : add_strings(&args, exec->envp ? exec->envp : default_environment);
	if (envc < 0)
		return err_set(err, E2BIG, "command line and environment are over %d bytes",
			       CONTAINER_ARGS_MAX);
	fd = memfd_create("computer-args", MFD_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "cannot pass the command line");
	r = fd_write_all(fd, args.data, args.len);
	if (r < 0)
		return err_set(err, -r, "cannot pass the command line");
	message->args_len = (uint32_t)args.len;
	message->argc = (uint32_t)argc;
	message->envc = (uint32_t)envc;
	*ret_fd = fd_steal(&fd);
	return 0;
}

/* A folder of the host as standard input would be a way out: openat(2) with "..". */
static int refuse_folders(const int fds[3], struct err *err)
{
	struct stat st;

	for (int i = 0; i < 3; i++) {
		if (fds[i] < 0)
			continue;
		if (fstat(fds[i], &st) < 0)
			return err_set(err, errno, "descriptor %d of the command", i);
		if (S_ISDIR(st.st_mode))
			return err_set(err, EISDIR, "descriptor %d of the command is a folder", i);
	}
	return 0;
}

/* Ask the init for the command. `ret_socket` is where it answers. */
static int request_run(struct container *container, const struct container_exec *exec,
		       int *ret_socket, struct err *err)
{
	struct run_message message = {.kind = MESSAGE_RUN};
	CLEANUP(fd_close) int near = -1;
	CLEANUP(fd_close) int far = -1;
	CLEANUP(fd_close) int args = -1;
	int fds[5], ends[2];
	size_t count = 0;
	int r;

	r = refuse_folders(exec->fds, err);
	if (r < 0)
		return r;
	r = pack_args(exec, &message, &args, err);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_set(err, errno, "cannot make a socket pair");
	near = ends[0];
	far = ends[1];
	fds[count++] = far;
	fds[count++] = args;
	for (int i = 0; i < 3; i++) {
		if (exec->fds[i] < 0)
			continue;
		message.fd_mask |= 1u << i;
		fds[count++] = exec->fds[i];
	}
	r = control_send(container->init.control, &message, sizeof(message), fds, count);
	if (r == -EPIPE || r == -ECONNRESET)
		return err_set(err, ESRCH, "the container is gone");
	if (r < 0)
		return err_set(err, -r, "cannot reach the container");
	*ret_socket = fd_steal(&near);
	return 0;
}

/* Milliseconds until `deadline`, rounded up; -1: none. */
static int time_left(int64_t deadline)
{
	int64_t left;

	if (deadline == 0)
		return -1;
	left = deadline - clock_mono();
	if (left <= 0)
		return 0;
	left = (left + NS_PER_MS - 1) / NS_PER_MS;
	return left > INT_MAX ? INT_MAX : (int)left;
}

/* 0 kills the command and all it started. */
static void signal_run(int socket, unsigned char number)
{
	(void)!send(socket, &number, 1, MSG_NOSIGNAL);
}

/* Pass on what the caller asks for. True: the command shall be killed. */
static bool pass_signals(const struct container_exec *exec, int socket)
{
	unsigned char bytes[16];
	ssize_t n;

	if (!exec->cancel_signals)
		return true;
	n = read(exec->cancel_fd, bytes, sizeof(bytes));
	if (n < 0)
		return errno != EINTR && errno != EAGAIN;
	for (ssize_t i = 0; i < n; i++) {
		if (bytes[i] == 0 || bytes[i] == SIGKILL)
			return true;
		signal_run(socket, bytes[i]);
	}
	return n == 0;
}

/* Wait for the init's answer; kill the command when its time is over or the caller asks. */
static int await_run(struct container *container, const struct container_exec *exec, int socket,
		     struct run_done *ret_done, struct container_result *result)
{
	int64_t deadline = exec->timeout_ns > 0 ? clock_mono() + exec->timeout_ns : 0;
	struct pollfd polls[2] = {{.fd = socket, .events = POLLIN},
				  {.fd = exec->cancel_fd, .events = POLLIN}};
	bool killing = false;
	ssize_t n;
	int r;

	for (;;) {
		r = poll(polls, 2, time_left(deadline));
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r < 0)
			continue;
		if (polls[0].revents)
			break;
		if (r == 0 && killing) {
			kill_all(container); /* the init does not answer any more */
			deadline = 0;
			continue;
		}
		if (r > 0 && !pass_signals(exec, socket))
			continue;
		if (r == 0)
			result->timed_out = true;
		else
			result->killed = true;
		signal_run(socket, 0);
		killing = true;
		deadline = clock_mono() + GRACE_NS;
		polls[1].fd = -1;
	}
	n = recv(socket, ret_done, sizeof(*ret_done), 0);
	if (n < 0)
		return -errno;
	return n == sizeof(*ret_done) ? 0 : -ESRCH;
}

static int judge(const struct run_done *done, const struct container_exec *exec,
		 struct container_result *result, struct err *err)
{
	int status = done->wait_status;

	if (!result->timed_out && !result->killed) {
		if (done->step == RUN_CWD)
			return err_set(err, done->code, "cannot enter '%s'",
				       exec->cwd ? exec->cwd : "/workspace");
		if (done->step != RUN_STARTED)
			return err_set(err, done->code ? done->code : EIO,
				       "cannot start '%s' in the container", exec->argv[0]);
	}
	result->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	result->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	if (result->timed_out)
		result->status = STATUS_TIMEOUT;
	return 0;
}

static int run(struct container *container, const struct container_exec *exec,
	       struct container_result *ret_result, struct err *err)
{
	struct container_result result = {0};
	CLEANUP(fd_close) int socket = -1;
	struct run_done done = {0};
	int r;

	r = request_run(container, exec, &socket, err);
	if (r < 0)
		return r;
	r = await_run(container, exec, socket, &done, &result);
	if (r < 0 && (result.timed_out || result.killed)) {
		done = (struct run_done){.wait_status = SIGKILL}; /* with all the others */
		r = 0;
	}
	if (r < 0)
		return err_set(err, ESRCH, "the container ended while '%s' ran", exec->argv[0]);
	r = judge(&done, exec, &result, err);
	if (r == 0)
		*ret_result = result;
	return r;
}

int container_run(struct container *container, const struct container_exec *exec,
		  struct container_result *ret_result, struct err *err)
{
	int r;

	pthread_mutex_lock(&container->lock);
	container->running++;
	pthread_mutex_unlock(&container->lock);
	r = run(container, exec, ret_result, err);
	pthread_mutex_lock(&container->lock);
	if (--container->running == 0)
		pthread_cond_broadcast(&container->idle);
	pthread_mutex_unlock(&container->lock);
	return r;
}
