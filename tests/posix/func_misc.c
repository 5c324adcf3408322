/* func_misc.c - programs and text busy, O_DIRECT, races of appending and creating, limits, btime.
 */
#include "script.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* A copy of this program, executable, as "prog". */
static void make_program(void)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = open("prog", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	char bytes[65536];
	ssize_t n;

	CHECK(from >= 0 && to >= 0);
	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		CHECK(write(to, bytes, (size_t)n) == n);
	CHECK(n == 0);
	close(from);
	close(to);
}

/* Starts "prog"; it runs when this returns. */
static pid_t start_program(void)
{
	int pipe_fd[2];
	char c;
	pid_t pid;

	CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		dup2(pipe_fd[1], STDOUT_FILENO);
		execl("./prog", "prog", "--pause", "x", NULL);
		_exit(127);
	}
	close(pipe_fd[1]);
	CHECK(read(pipe_fd[0], &c, 1) == 1);
	close(pipe_fd[0]);
	return pid;
}

static void stop_program(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void exec_runs(void)
{
	pid_t pid;

	make_program();
	pid = start_program();
	CHECK(unlink("prog") == 0); /* it goes on */
	CHECK(kill(pid, 0) == 0);
	stop_program(pid);
}

static void exec_busy_writer(void)
{
	pid_t pid;

	make_program();
	pid = start_program();
	CHECK(open("prog", O_WRONLY | O_CLOEXEC) < 0 && errno == ETXTBSY);
	CHECK(open("prog", O_RDWR | O_TRUNC | O_CLOEXEC) < 0 && errno == ETXTBSY);
	CHECK(truncate("prog", 0) < 0 && errno == ETXTBSY);
	CHECK(rename("prog", "gorp") == 0 && unlink("gorp") == 0);
	stop_program(pid);
}

static int try_exec(void *arg)
{
	execl("./prog", "prog", "--pause", (char *)NULL);
	(void)arg;
	return errno;
}

static void exec_while_written(void)
{
	int fd;

	make_program();
	fd = open("prog", O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && in_child(try_exec, NULL) == ETXTBSY);
}

static void exec_needs_x(void)
{
	make_program();
	CHECK(chmod("prog", 0644) == 0 && in_child(try_exec, NULL) == EACCES);
	CHECK(chmod("prog", 0) == 0 && in_child(try_exec, NULL) == EACCES);
}

/* ---- races ---- */

static int append_lines(void *arg)
{
	int fd = open("f", O_WRONLY | O_APPEND | O_CLOEXEC);
	char line[16];

	for (int i = 0; i < 300; i++) {
		memset(line, *(const char *)arg, sizeof(line));
		if (write(fd, line, sizeof(line)) != sizeof(line))
			return 1;
	}
	return 0;
}

/* Two processes append: no line is lost or torn. */
static void append_race(void)
{
	char line[16], letter = 'a';
	int count[2] = {0};
	int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	int status;
	pid_t pid;

	CHECK(fd >= 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(append_lines(&letter));
	letter = 'b';
	CHECK(append_lines(&letter) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	while (read(fd, line, sizeof(line)) == sizeof(line)) {
		for (size_t i = 1; i < sizeof(line); i++)
			CHECK(line[i] == line[0]);
		count[line[0] - 'a']++;
	}
	CHECK(count[0] == 300 && count[1] == 300);
}

static int excl_all(void *arg)
{
	int won = 0;

	(void)arg;
	for (int i = 0; i < 200; i++) {
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "x%d", i);
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd >= 0)
			won++;
		else if (errno != EEXIST)
			return 255;
		if (fd >= 0)
			close(fd);
	}
	return won;
}

/* Each name is won by one of two. */
static void excl_race(void)
{
	int mine, status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(excl_all(NULL));
	mine = excl_all(NULL);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	CHECK(mine + WEXITSTATUS(status) == 200);
}

static int rename_over(void *arg)
{
	(void)arg;
	for (int i = 0; i < 300; i++) {
		int fd = open("tmp", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

		if (fd < 0 || write(fd, "whole", 5) != 5 || close(fd) < 0 || rename("tmp", "f") < 0)
			return 1;
	}
	return 0;
}

/* Replacing by rename is atomic: a reader finds the name, and all of the content. */
static void rename_race(void)
{
	char got[16];
	int status;
	pid_t pid;

	CHECK(rename_over(NULL) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(rename_over(NULL));
	while (waitpid(pid, &status, WNOHANG) == 0) {
		int fd = open("f", O_RDONLY | O_CLOEXEC);

		CHECK(fd >= 0 && read(fd, got, sizeof(got)) == 5);
		close(fd);
	}
	CHECK(status == 0);
}

/* ---- kinds of IO ---- */

static void direct_io(void)
{
	char *bytes = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open("f", O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0644);
	int fd2 = open("f", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0 && fd2 >= 0 && bytes != MAP_FAILED);
	memset(bytes, 'd', 8192);
	CHECK(pwrite(fd, bytes, 8192, 0) == 8192);
	CHECK(pread(fd2, bytes, 1, 5000) == 1 && bytes[0] == 'd');
	CHECK(pwrite(fd2, "xyz", 3, 4096) == 3);
	CHECK(pread(fd, bytes, 4096, 4096) == 4096 && memcmp(bytes, "xyzd", 4) == 0);
}

static void vectors(void)
{
	char a[3] = "", b[4] = "";
	struct iovec out[2] = {{.iov_base = (char[]){'a', 'b'}, .iov_len = 2},
			       {.iov_base = (char[]){'c', 'd', 'e'}, .iov_len = 3}};
	struct iovec in[2] = {{.iov_base = a, .iov_len = 2}, {.iov_base = b, .iov_len = 3}};
	int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	CHECK(writev(fd, out, 2) == 5 && preadv(fd, in, 2, 0) == 5);
	CHECK(strcmp(a, "ab") == 0 && strcmp(b, "cde") == 0);
}

static void send_file(void)
{
	char got[6] = "";
	off_t at = 1;
	int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	int fd2 = open("g", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	CHECK(write(fd, "abcdef", 6) == 6);
	CHECK(sendfile(fd2, fd, &at, 4) == 4 && at == 5);
	CHECK(pread(fd2, got, 6, 0) == 4 && strcmp(got, "bcde") == 0);
}

static void unix_socket_connects(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "s"};
	int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(bind(server, (const struct sockaddr *)&addr, sizeof(addr)) == 0);
	CHECK(connect(client, (const struct sockaddr *)&addr, sizeof(addr)) < 0 &&
	      errno == ECONNREFUSED);
	CHECK(listen(server, 1) == 0);
	CHECK(connect(client, (const struct sockaddr *)&addr, sizeof(addr)) == 0);
}

static void fifo_carries(void)
{
	char got[4] = "";
	int fd;

	CHECK(mkfifo("p", 0644) == 0);
	fd = open("p", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, "abc", 3) == 3 && read(fd, got, 3) == 3);
	CHECK(strcmp(got, "abc") == 0);
}

/* RLIMIT_FSIZE: a short write up to it, then EFBIG. */
static void file_size_limit(void)
{
	struct rlimit limit = {1000, 1000};
	char bytes[600] = {0};
	int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	signal(SIGXFSZ, SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(write(fd, bytes, 600) == 600);
	CHECK(write(fd, bytes, 600) == 400); /* up to the limit */
	CHECK(write(fd, bytes, 1) < 0 && errno == EFBIG);
	CHECK(ftruncate(fd, 2000) < 0 && errno == EFBIG);
}

static void xattr_big_value(void)
{
	static char value[65537], got[65536];
	int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	memset(value, 'v', sizeof(value));
	CHECK(fsetxattr(fd, "user.a", value, 3000, 0) == 0);
	CHECK(fgetxattr(fd, "user.a", got, sizeof(got)) == 3000 && memcmp(got, value, 3000) == 0);
	CHECK(fsetxattr(fd, "user.a", value, sizeof(value), 0) < 0 && errno == E2BIG);
}

static void xattr_many(void)
{
	char name[32], list[4096];
	int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "user.name-%02d", i);
		CHECK(fsetxattr(fd, name, name, strlen(name), 0) == 0);
	}
	CHECK(flistxattr(fd, list, sizeof(list)) == (ssize_t)(50 * 13));
	CHECK(flistxattr(fd, list, 100) < 0 && errno == ERANGE);
	CHECK(flistxattr(fd, NULL, 0) == (ssize_t)(50 * 13));
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "user.name-%02d", i);
		CHECK(fremovexattr(fd, name) == 0);
	}
	CHECK(flistxattr(fd, list, sizeof(list)) == 0);
}

static void btime_stays(void)
{
	struct statx before, after;

	CHECK(close(open("f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) == 0);
	CHECK(statx(AT_FDCWD, "f", 0, STATX_BTIME, &before) == 0);
	CHECK(before.stx_mask & STATX_BTIME);
	wait_tick();
	CHECK(chmod("f", 0600) == 0 && rename("f", "g") == 0 && truncate("g", 5) == 0);
	CHECK(statx(AT_FDCWD, "g", 0, STATX_BTIME, &after) == 0);
	CHECK(after.stx_btime.tv_sec == before.stx_btime.tv_sec &&
	      after.stx_btime.tv_nsec == before.stx_btime.tv_nsec);
}

/* Inode numbers of files that are there differ, and stay. */
static void inode_numbers(void)
{
	struct stat a, b, c;

	CHECK(close(open("a", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) == 0);
	CHECK(close(open("b", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) == 0);
	CHECK(stat("a", &a) == 0 && stat("b", &b) == 0 && a.st_ino != b.st_ino);
	CHECK(rename("a", "b") == 0 && stat("b", &c) == 0 && c.st_ino == a.st_ino);
	CHECK(a.st_dev == b.st_dev && a.st_blksize >= 512);
}

/* 40 links in a row are followed, 41 are not. */
static void link_limit(void)
{
	char from[8], to[8];
	struct stat st;

	CHECK(close(open("0", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) == 0);
	for (int i = 1; i <= 41; i++) {
		snprintf(from, sizeof(from), "%d", i - 1);
		snprintf(to, sizeof(to), "%d", i);
		CHECK(symlink(from, to) == 0);
	}
	CHECK(stat("40", &st) == 0);
	CHECK(stat("41", &st) < 0 && errno == ELOOP);
}

static void bad_pointers(void)
{
	const char *bad = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct stat st;
	int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK(stat(bad, &st) < 0 && errno == EFAULT);
	CHECK(mkdir(bad, 0755) < 0 && errno == EFAULT);
	CHECK(write(fd, bad, 10) < 0 && errno == EFAULT);
	CHECK(fstat(fd, &st) == 0 && st.st_size == 0);
}

/* What is written in a child is there for the parent at once, without any sync. */
static int write_child(void *arg)
{
	int fd = open("f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	(void)arg;
	return write(fd, "abc", 3) != 3;
}

static void other_process_sees(void)
{
	char got[4] = "";
	struct stat st;
	int fd;

	CHECK(in_child(write_child, NULL) == 0);
	CHECK(stat("f", &st) == 0 && st.st_size == 3);
	fd = open("f", O_RDONLY | O_CLOEXEC);
	CHECK(read(fd, got, 3) == 3 && strcmp(got, "abc") == 0);
}

const struct posix_case func_misc[] = {
	FUNC("exec/runs", exec_runs),
	FUNC("exec/busy-writer", exec_busy_writer),
	FUNC("exec/while-written", exec_while_written),
	FUNC("exec/needs-x", exec_needs_x),
	FUNC("race/append", append_race),
	FUNC("race/excl", excl_race),
	FUNC("race/rename", rename_race),
	FUNC("io/direct", direct_io),
	FUNC("io/vectors", vectors),
	FUNC("io/sendfile", send_file),
	FUNC("io/unix-socket-connects", unix_socket_connects),
	FUNC("io/fifo-carries", fifo_carries),
	FUNC("io/file-size-limit", file_size_limit),
	FUNC("io/bad-pointers", bad_pointers),
	FUNC("io/other-process-sees", other_process_sees),
	FUNC("xattr/big-value", xattr_big_value),
	FUNC("xattr/many", xattr_many),
	FUNC("stat/btime-stays", btime_stays),
	FUNC("stat/inode-numbers", inode_numbers),
	FUNC("symlink/limit-of-40", link_limit),
	CASES_END,
};
