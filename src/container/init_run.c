/* init_run.c - one command in a container: its runner, and the way from there to execve.
 *
 * The runner is pid 1 of a pid namespace made for this command, with a /proc of its own. When the
 * command ends, so does the runner, and the kernel kills what is left in the namespace, however it
 * hid from process groups and parents. The runner keeps the capabilities that it needs for its
 * mounts; the command cannot touch it, as it has fewer, and cannot see anybody else.
 */
#include "container/init_i.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_SOFT 1024
#define FILES_HARD 65536
#define STATUS_NOT_EXECUTABLE 126
#define STATUS_NOT_FOUND 127

/* What root keeps inside: owning files, changing user, and low ports, all within the namespace. */
#define BIT(capability) (UINT64_C(1) << (capability))
#define KEPT_CAPABILITIES                                                             \
	(BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) | \
	 BIT(CAP_KILL) | BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_NET_BIND_SERVICE))

static _Noreturn void give_up(struct run_state *state, enum run_step step)
{
	state->code = errno;
	state->step = step;
	_exit(STATUS_NOT_EXECUTABLE);
}

static int set_limit(int which, rlim_t soft, rlim_t hard)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)which, &limit) < 0)
		return -1;
	if (hard > limit.rlim_max)
		hard = limit.rlim_max;
	limit.rlim_max = hard;
	limit.rlim_cur = soft < hard ? soft : hard;
	return setrlimit((__rlimit_resource_t)which, &limit);
}

static int set_limits(const struct setup_message *setup)
{
	if (set_limit(RLIMIT_CORE, 0, 0) < 0 ||
	    set_limit(RLIMIT_NOFILE, FILES_SOFT, FILES_HARD) < 0 ||
	    set_limit(RLIMIT_NPROC, setup->pids_max, setup->pids_max) < 0)
		return -1;
	if (setup->data_max && set_limit(RLIMIT_DATA, setup->data_max, setup->data_max) < 0)
		return -1;
	return 0;
}

/* If memory runs out, the kernel shall take a command and not the init. */
static void volunteer(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "500", 3) < 0) {
		/* It was higher already. */
	}
	close(fd);
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	for (int i = 0; i < 64; i++) {
		if (KEPT_CAPABILITIES & BIT(i))
			continue;
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0) {
			if (errno != EINVAL || i <= CAP_AUDIT_READ)
				return -1;
			break; /* beyond the last one this kernel has */
		}
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(data); i++) {
		data[i].effective = (uint32_t)(KEPT_CAPABILITIES >> (32 * i));
		data[i].permitted = data[i].effective;
	}
	return (int)syscall(SYS_capset, &header, data);
}

/* Put the descriptors in place; all others are closed. */
static int set_descriptors(const int fds[3])
{
	for (int i = 0; i < 3; i++) {
		int fd = fds[i] >= 0 ? fds[i] : open("/dev/null", O_RDWR | O_CLOEXEC);

		if (fd < 0 || dup2(fd, i) < 0)
			return -1;
	}
	return (int)syscall(SYS_close_range, 3u, ~0u, 0u);
}

struct command {
	char *cwd;
	char **argv;
	char **envp;
};

/* The next string of `text`, or NULL at its end. */
static char *next_string(char **text, const char *end)
{
	char *string = *text;
	char *nul = string < end ? memchr(string, '\0', (size_t)(end - string)) : NULL;

	if (!nul)
		return NULL;
	*text = nul + 1;
	return string;
}

static int read_command(const struct run_request *request, struct command *ret_command)
{
	const struct run_message *message = &request->message;
	size_t strings = (size_t)message->argc + message->envc;
	char **vector = calloc(strings + 2, sizeof(*vector));
	char *text = malloc(message->args_len);
	char *end;

	if (!vector || !text)
		return -1;
	end = text + message->args_len;
	if (pread(request->args, text, message->args_len, 0) != (ssize_t)message->args_len) {
		errno = EINVAL;
		return -1;
	}
	errno = EINVAL;
	ret_command->cwd = next_string(&text, end);
	ret_command->argv = vector;
	ret_command->envp = vector + message->argc + 1;
	for (uint32_t i = 0; i < message->argc; i++) {
		ret_command->argv[i] = next_string(&text, end);
		if (!ret_command->argv[i])
			return -1;
	}
	for (uint32_t i = 0; i < message->envc; i++) {
		ret_command->envp[i] = next_string(&text, end);
		if (!ret_command->envp[i])
			return -1;
	}
	return ret_command->cwd && ret_command->argv[0] ? 0 : -1;
}

static _Noreturn void run_command(const struct setup_message *setup,
				  const struct run_request *request, struct run_state *state)
{
	struct command command = {0};
	int code;

	if (read_command(request, &command) < 0)
		give_up(state, RUN_SETUP);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* for /proc/self; nothing secret is left in here */
	volunteer();
	setsid();
	umask(022);
	if (set_descriptors(request->fds) < 0 || set_limits(setup) < 0 || drop_capabilities() < 0)
		give_up(state, RUN_SETUP);
	if (chdir(command.cwd) < 0)
		give_up(state, RUN_CWD);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_install() < 0)
		give_up(state, RUN_SETUP);

	environ = command.envp;
	execvp(command.argv[0], command.argv);
	code = errno;
	dprintf(STDERR_FILENO, "%s: %s\n", command.argv[0],
		code == ENOENT && !strchr(command.argv[0], '/') ? "command not found"
								: strerror(code));
	_exit(code == ENOENT || code == ENOTDIR ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE);
}

static volatile pid_t command_pid;

/* To the command and those of its process group, as a terminal does it. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)context;
	/* Who signals from outside has no pid in here; a command that aims at its pid 1 has one. */
	if (info->si_pid == 0 && command_pid > 0 && kill(-command_pid, number) < 0)
		kill(command_pid, number);
	errno = saved;
}

/* Only a signal with a handler reaches the first process of a namespace. */
static void pass_signals_on(void)
{
	static const int numbers[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1,
				      SIGUSR2, SIGTERM, SIGCONT, SIGWINCH};
	struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_RESTART | SA_SIGINFO};

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		sigaction(numbers[i], &action, NULL);
}

static _Noreturn void run_namespace(const struct setup_message *setup,
				    const struct run_request *request, struct run_state *state)
{
	sigset_t none;
	int status;
	pid_t pid;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (root_mount_proc() < 0)
		give_up(state, RUN_SETUP);
	pass_signals_on();
	pid = init_clone(0);
	if (pid < 0)
		give_up(state, RUN_SETUP);
	if (pid == 0)
		run_command(setup, request, state);
	command_pid = pid;

	/* The far ends must see the end of file when the command closes its own. */
	syscall(SYS_close_range, 0u, ~0u, 0u);
	for (;;) {
		pid_t gone = waitpid(-1, &status, 0);

		if (gone == pid) {
			state->wait_status = status;
			_exit(0);
		}
		if (gone < 0 && errno != EINTR)
			_exit(STATUS_NOT_EXECUTABLE);
	}
}

pid_t run_start(const struct setup_message *setup, const struct run_request *request,
		struct run_state *state)
{
	pid_t pid;

	state->wait_status = SIGKILL; /* what it was if nobody lives to say */
	state->code = 0;
	state->step = RUN_STARTED;
	pid = init_clone(CLONE_NEWPID | CLONE_NEWNS);
	if (pid == 0)
		run_namespace(setup, request, state);
	return pid;
}
