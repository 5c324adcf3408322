/* func_lock.c - record locks of processes (fcntl F_SETLK), and waiting for locks. */
#include "script.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

struct request {
	int fd, type;
	off_t start, len;
};

static int set_lock(int fd, int type, off_t start, off_t len)
{
	struct flock lock = {.l_type = (short)type, .l_start = start, .l_len = len};

	return fcntl(fd, F_SETLK, &lock) < 0 ? errno : 0;
}

static int child_lock(void *arg)
{
	const struct request *r = arg;

	return set_lock(r->fd, r->type, r->start, r->len);
}

/* What another process is answered. */
static int other_lock(int fd, int type, off_t start, off_t len)
{
	struct request r = {fd, type, start, len};

	return in_child(child_lock, &r);
}

static int make(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	return fd;
}

static void posix_exclusive(void)
{
	int fd = make("f");

	CHECK(set_lock(fd, F_WRLCK, 0, 10) == 0);
	CHECK(other_lock(fd, F_WRLCK, 5, 10) == EAGAIN);
	CHECK(other_lock(fd, F_RDLCK, 9, 1) == EAGAIN);
	CHECK(other_lock(fd, F_WRLCK, 10, 10) == 0);
}

static void posix_shared(void)
{
	int fd = make("f");

	CHECK(set_lock(fd, F_RDLCK, 0, 0) == 0);
	CHECK(other_lock(fd, F_RDLCK, 100, 1) == 0);
	CHECK(other_lock(fd, F_WRLCK, 100, 1) == EAGAIN);
}

static void posix_own_never_conflicts(void)
{
	int fd = make("f");
	int fd2 = make("f");

	CHECK(set_lock(fd, F_WRLCK, 0, 0) == 0);
	CHECK(set_lock(fd2, F_WRLCK, 0, 0) == 0);
	CHECK(set_lock(fd2, F_RDLCK, 0, 5) == 0);
	CHECK(other_lock(fd, F_RDLCK, 0, 5) == 0);
	CHECK(other_lock(fd, F_RDLCK, 5, 5) == EAGAIN);
}

static void posix_split_and_join(void)
{
	int fd = make("f");

	CHECK(set_lock(fd, F_WRLCK, 0, 30) == 0);
	CHECK(set_lock(fd, F_UNLCK, 10, 10) == 0);
	CHECK(other_lock(fd, F_WRLCK, 10, 10) == 0);
	CHECK(other_lock(fd, F_WRLCK, 9, 1) == EAGAIN);
	CHECK(other_lock(fd, F_WRLCK, 20, 1) == EAGAIN);
	CHECK(set_lock(fd, F_WRLCK, 10, 10) == 0);
	CHECK(other_lock(fd, F_WRLCK, 15, 1) == EAGAIN);
}

/* Closing any descriptor of the file drops the process's locks on it. */
static void posix_close_of_any_drops(void)
{
	int fd = make("f");
	int fd2 = make("f");

	CHECK(set_lock(fd, F_WRLCK, 0, 0) == 0);
	CHECK(other_lock(fd, F_WRLCK, 0, 0) == EAGAIN);
	close(fd2);
	CHECK(other_lock(fd, F_WRLCK, 0, 0) == 0);
}

static void posix_not_inherited(void)
{
	int fd = make("f");

	CHECK(set_lock(fd, F_WRLCK, 0, 0) == 0);
	CHECK(other_lock(fd, F_UNLCK, 0, 0) == 0); /* the child's own, not ours */
	CHECK(other_lock(fd, F_WRLCK, 0, 0) == EAGAIN);
}

static void posix_exit_drops(void)
{
	int fd = make("f");

	CHECK(other_lock(fd, F_WRLCK, 0, 0) == 0);
	CHECK(set_lock(fd, F_WRLCK, 0, 0) == 0);
}

static int child_getlk(void *arg)
{
	const struct request *r = arg;
	struct flock lock = {.l_type = (short)r->type, .l_start = r->start, .l_len = r->len};

	if (fcntl(r->fd, F_GETLK, &lock) < 0)
		return 100;
	if (lock.l_type == F_UNLCK)
		return 1;
	return lock.l_type == F_WRLCK && lock.l_start == 10 && lock.l_len == 5 &&
			       lock.l_pid == getppid()
		       ? 2
		       : 3;
}

static void posix_getlk(void)
{
	int fd = make("f");
	struct request in_the_way = {fd, F_RDLCK, 0, 100};
	struct request free_range = {fd, F_WRLCK, 15, 100};

	CHECK(set_lock(fd, F_WRLCK, 10, 5) == 0);
	CHECK(in_child(child_getlk, &in_the_way) == 2);
	CHECK(in_child(child_getlk, &free_range) == 1);
}

static void posix_whence(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -10, .l_len = 0};
	int fd = make("f");

	CHECK(ftruncate(fd, 100) == 0);
	CHECK(fcntl(fd, F_SETLK, &lock) == 0);
	CHECK(other_lock(fd, F_WRLCK, 89, 1) == 0);
	CHECK(other_lock(fd, F_WRLCK, 90, 1) == EAGAIN);
	CHECK(other_lock(fd, F_WRLCK, 1000, 1) == EAGAIN);
}

static void posix_needs_mode(void)
{
	int fd = make("f");
	int ro = open("f", O_RDONLY | O_CLOEXEC);
	int wo = open("f", O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0 && ro >= 0 && wo >= 0);
	CHECK(set_lock(ro, F_WRLCK, 0, 1) == EBADF);
	CHECK(set_lock(wo, F_RDLCK, 0, 1) == EBADF);
	CHECK(set_lock(fd, F_WRLCK, 10, -20) == EINVAL);
}

/* ---- waiting ---- */

struct waiter {
	int fd, ready, use_flock;
};

/* Say that we are about to wait, wait for the lock, 0 when it came. */
static int child_wait(void *arg)
{
	const struct waiter *w = arg;
	struct flock lock = {.l_type = F_WRLCK};
	int fd = open("f", O_RDWR | O_CLOEXEC);

	if (fd < 0 || write(w->ready, "x", 1) != 1)
		return 1;
	if (w->use_flock)
		return flock(fd, LOCK_EX) < 0;
	return fcntl(fd, F_SETLKW, &lock) < 0;
}

/* A waiter gets the lock once the holder lets go. */
static void check_wait(int use_flock)
{
	struct waiter w = {.fd = make("f"), .use_flock = use_flock};
	int pipe_fd[2], status;
	char c;
	pid_t pid;

	CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0);
	w.ready = pipe_fd[1];
	CHECK(use_flock ? flock(w.fd, LOCK_EX) == 0 : set_lock(w.fd, F_WRLCK, 0, 0) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(child_wait(&w));
	CHECK(read(pipe_fd[0], &c, 1) == 1);
	wait_tick();
	CHECK(waitpid(pid, &status, WNOHANG) == 0);
	CHECK(use_flock ? flock(w.fd, LOCK_UN) == 0 : set_lock(w.fd, F_UNLCK, 0, 0) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void posix_wait(void)
{
	check_wait(0);
}

static void flock_wait(void)
{
	check_wait(1);
}

/* Two processes that wait for each other: one is told. */
static void posix_deadlock(void)
{
	struct flock other = {.l_type = F_WRLCK, .l_start = 1, .l_len = 1};
	struct flock first = {.l_type = F_WRLCK, .l_start = 0, .l_len = 1};
	int pipe_fd[2], status, r;
	int fd = make("f");
	char c;
	pid_t pid;

	CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0);
	CHECK(set_lock(fd, F_WRLCK, 0, 1) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (set_lock(fd, F_WRLCK, 1, 1) != 0 || write(pipe_fd[1], "x", 1) != 1)
			_exit(1);
		_exit(fcntl(fd, F_SETLKW, &first) < 0 && errno == EDEADLK ? 2 : 0);
	}
	CHECK(read(pipe_fd[0], &c, 1) == 1);
	r = fcntl(fd, F_SETLKW, &other) < 0 ? errno : 0;
	CHECK(r == 0 || r == EDEADLK);
	CHECK(set_lock(fd, F_UNLCK, 0, 0) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	CHECK((r == EDEADLK) != (WEXITSTATUS(status) == 2));
}

static void on_alarm(int signal_number)
{
	(void)signal_number;
}

/* A signal ends the wait with EINTR. */
static void posix_wait_interrupted(void)
{
	struct sigaction act = {.sa_handler = on_alarm};
	struct flock lock = {.l_type = F_WRLCK};
	int pipe_fd[2], status;
	int fd = make("f");
	char c;
	pid_t pid;

	CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0);
	CHECK(set_lock(fd, F_WRLCK, 0, 0) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		sigaction(SIGUSR1, &act, NULL);
		if (write(pipe_fd[1], "x", 1) != 1)
			_exit(1);
		_exit(fcntl(fd, F_SETLKW, &lock) < 0 && errno == EINTR ? 0 : 1);
	}
	CHECK(read(pipe_fd[0], &c, 1) == 1);
	for (int i = 0; i < 100; i++) {
		wait_tick();
		kill(pid, SIGUSR1);
		if (waitpid(pid, &status, WNOHANG) == pid) {
			CHECK(status == 0);
			return;
		}
	}
	kill(pid, SIGKILL);
	fail("the wait went on");
}

/* An flock is the descriptor's: a fork shares it, and the last close drops it. */
static int child_unlock(void *arg)
{
	return flock(*(const int *)arg, LOCK_UN) < 0;
}

static int child_nothing(void *arg)
{
	(void)arg;
	return 0;
}

static void flock_shared_by_fork(void)
{
	int fd = make("f");
	int fd2 = make("f");

	CHECK(flock(fd, LOCK_EX) == 0);
	CHECK(in_child(child_nothing, NULL) == 0);
	CHECK(flock(fd2, LOCK_EX | LOCK_NB) < 0 && errno == EAGAIN);
	CHECK(in_child(child_unlock, &fd) == 0);
	CHECK(flock(fd2, LOCK_EX | LOCK_NB) == 0);
}

static void flock_dup(void)
{
	int fd = make("f");
	int fd2 = make("f");
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	CHECK(copy >= 0 && flock(fd, LOCK_EX) == 0);
	close(fd);
	CHECK(flock(fd2, LOCK_EX | LOCK_NB) < 0 && errno == EAGAIN);
	close(copy);
	CHECK(flock(fd2, LOCK_EX | LOCK_NB) == 0);
}

const struct posix_case func_lock[] = {
	FUNC("posixlock/exclusive", posix_exclusive),
	FUNC("posixlock/shared", posix_shared),
	FUNC("posixlock/own-never-conflicts", posix_own_never_conflicts),
	FUNC("posixlock/split-and-join", posix_split_and_join),
	FUNC("posixlock/close-of-any-drops", posix_close_of_any_drops),
	FUNC("posixlock/not-inherited", posix_not_inherited),
	FUNC("posixlock/exit-drops", posix_exit_drops),
	FUNC("posixlock/getlk", posix_getlk),
	FUNC("posixlock/whence", posix_whence),
	FUNC("posixlock/needs-mode", posix_needs_mode),
	FUNC("posixlock/wait", posix_wait),
	FUNC("posixlock/deadlock", posix_deadlock),
	FUNC("posixlock/wait-interrupted", posix_wait_interrupted),
	FUNC("flock/wait", flock_wait),
	FUNC("flock/shared-by-fork", flock_shared_by_fork),
	FUNC("flock/dup", flock_dup),
	CASES_END,
};
