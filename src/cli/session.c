/* session.c - one run's workspace, and how it is asked to end. */
#include "base/fd.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

int cli_open(struct cli *cli, const char *text, unsigned flags)
{
	struct err err = ERR_INIT;
	int r;

	cli->workspace = text;
	r = computer_open_as(text, flags, "cli", &cli->computer, &err);
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	return EXIT_OK;
}

int cli_close(struct cli *cli, int status)
{
	struct computer *computer = cli->computer;
	struct err err = ERR_INIT;
	int r;

	cli->computer = NULL;
	if (!computer)
		return status;
	r = computer_close(computer, err_api(&err));
	if (r < 0) {
		int failed = cli_fail(cli, r, &err, "%s", "");

		return status == EXIT_OK ? failed : status;
	}
	return status;
}

static volatile sig_atomic_t was_cancelled;
static bool forwarding;
static int cancel_pipe[2] = {-1, -1};
static int cut_fd = -1, null_fd = -1;

static void on_signal(int number)
{
	int saved = errno;
	unsigned char byte = (unsigned char)number;
	ssize_t n = write(cancel_pipe[1], &byte, 1);

	(void)n; /* a full pipe is readable, which is all that matters */
	if (!forwarding) {
		was_cancelled = 1;
		if (cut_fd >= 0)
			dup2(null_fd, cut_fd);
		signal(number, SIG_DFL);
	}
	errno = saved;
}

void cancel_init(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = on_signal};

	/* Standard descriptors that are closed would become the workspace's own. */
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)!open("/dev/null", O_RDWR); /* NOLINT(android-cloexec-open) */
	fd_close(&cancel_pipe[0]);
	fd_close(&cancel_pipe[1]);
	if (pipe2(cancel_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		struct sigaction before;

		/* nohup, and a shell's background jobs. */
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
	signal(SIGPIPE, SIG_IGN);
}

bool cancelled(void)
{
	return was_cancelled;
}

int cancel_fd(void)
{
	return cancel_pipe[0];
}

void cancel_cut(int fd)
{
	if (fd >= 0 && null_fd < 0)
		null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cut_fd = null_fd < 0 ? -1 : fd;
	if (cut_fd >= 0 && was_cancelled)
		dup2(null_fd, cut_fd);
}

int cancel_forward(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	forwarding = true;
	/* Keys that mean something to a program. */
	sigaction(SIGQUIT, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	return cancel_pipe[0];
}
