/* pump.c - streams between a program in the container and what its caller gave it.
 *
 * A descriptor of a regular file or a device is more than a stream: through /proc/self/fd the
 * program could open it again, for writing too. So it gets one end of a pipe, and a thread has the
 * other. Pipes, sockets and terminals are handed over as they are.
 */
#include "computer/pump_i.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PIECE 65536

static bool is_stream(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd));
}

/* The program has a /dev/null of its own. */
static bool is_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/* Is there something to read before the program has ended? */
static bool wait_readable(const struct pump *pump)
{
	struct pollfd polls[2] = {{.fd = pump->from, .events = POLLIN},
				  {.fd = pump->stop, .events = POLLIN}};

	while (poll(polls, 2, -1) < 0)
		if (errno != EINTR)
			return false;
	return polls[0].revents && !polls[1].revents;
}

static void *pump_main(void *arg)
{
	struct pump *pump = arg;
	CLEANUP(mem_free) char *piece = mem_alloc(PIECE);
	sigset_t signals;

	/* Nobody reads any more: that is an error of write, not a reason to end. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	while (!pump->input || wait_readable(pump)) {
		ssize_t n = read(pump->from, piece, PIECE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || fd_write_all(pump->to, piece, (size_t)n) < 0)
			break;
	}
	/* The end of the pipe that is ours: the other side sees the end. */
	if (pump->input)
		fd_close(&pump->to);
	else
		fd_close(&pump->from);
	return NULL;
}

static int pump_start(struct pump *pump, int fd, bool input, int *ret_theirs)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pump->input = input;
	pump->from = input ? fd : ends[0];
	pump->to = input ? ends[1] : fd;
	pump->theirs = ends[!input];
	pump->stop = eventfd(0, EFD_CLOEXEC);
	if (pump->stop < 0 || pthread_create(&pump->thread, NULL, pump_main, pump) != 0) {
		close(ends[0]);
		close(ends[1]);
		fd_close(&pump->stop);
		return -EAGAIN;
	}
	pump->running = true;
	*ret_theirs = pump->theirs;
	return 0;
}

int pumps_start(struct pump pumps[3], int fds[3])
{
	int r = 0;

	for (int i = 0; i < 3; i++)
		pumps[i] = (struct pump){.from = -1, .to = -1, .theirs = -1, .stop = -1};
	for (int i = 0; i < 3 && r == 0; i++) {
		if (fds[i] >= 0 && is_null(fds[i]))
			fds[i] = -1;
		if (fds[i] >= 0 && !is_stream(fds[i]))
			r = pump_start(&pumps[i], fds[i], i == 0, &fds[i]);
	}
	if (r < 0)
		pumps_stop(pumps);
	return r;
}

void pumps_stop(struct pump pumps[3])
{
	for (int i = 0; i < 3; i++) {
		struct pump *pump = &pumps[i];

		if (!pump->running)
			continue;
		/* Output ends with the last writer, which is us; input when we say so. */
		fd_close(&pump->theirs);
		(void)!eventfd_write(pump->stop, 1);
		pthread_join(pump->thread, NULL);
		fd_close(&pump->stop);
		pump->running = false;
	}
}
