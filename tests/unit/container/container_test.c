/* container_test.c - commands in a container: what they get and how they end. */
#include "fixture.h"

#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 20
#define PATIENCE_MS 20000 /* for what must happen, but at no time in particular */
#define STREAM_BYTES (INT64_C(100) << 20)

static struct box box;
static struct outcome outcome;

static int open_box(void **state)
{
	(void)state;
	box_open(&box, 0, 0);
	return 0;
}

static int close_box(void **state)
{
	(void)state;
	box_close(&box);
	return 0;
}

static void statuses_are_those_of_a_shell(void **state)
{
	static const struct {
		const char *script;
		int status, signal;
	} rows[] = {
		{"exit 0", 0, 0},
		{"exit 3", 3, 0},
		{"exit 255", 255, 0},
		{"kill -TERM $$", 128 + SIGTERM, SIGTERM},
		{"kill -KILL $$", 128 + SIGKILL, SIGKILL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		box_sh(&box, rows[i].script, &outcome);
		assert_int_equal(outcome.result.status, rows[i].status);
		assert_int_equal(outcome.result.signal, rows[i].signal);
		assert_false(outcome.result.timed_out);
		assert_false(outcome.result.killed);
	}
}

static void a_program_that_is_not_there_is_127(void **state)
{
	static const char *const missing[] = {"no-such-program", NULL};
	static const char *const folder[] = {"/usr", NULL};

	(void)state;
	box_run(&box, missing, &outcome);
	assert_int_equal(outcome.result.status, 127);
	assert_string_equal(outcome.err, "no-such-program: command not found\n");
	box_run(&box, folder, &outcome);
	assert_int_equal(outcome.result.status, 126);
	assert_string_equal(outcome.err, "/usr: Permission denied\n");
}

static void a_missing_working_directory_is_an_error(void **state)
{
	static const char *const argv[] = {"true", NULL};
	struct container_exec exec = BOX_EXEC(.argv = argv, .cwd = "/workspace/none");
	struct container_result result = {.status = 99};
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(container_run(box.container, &exec, &result, &err), -ENOENT);
	assert_string_equal(err.text, "cannot enter '/workspace/none'");
	assert_int_equal(result.status, 99);
}

static void arguments_arrive_as_they_are(void **state)
{
	static const char *const argv[] = {
		"sh", "-c", "printf '[%s]' \"$#\" \"$@\"", "sh", "", "a b", "c\nx", "*", NULL};

	(void)state;
	box_run(&box, argv, &outcome);
	assert_string_equal(outcome.out, "[4][][a b][c\nx][*]");
}

static void a_long_command_line_arrives_and_a_longer_one_is_refused(void **state)
{
	const size_t words = 9000;
	char word[101];
	const char **argv = mem_alloc0(sizeof(*argv) * (2 * words + 1));
	struct container_exec exec = BOX_EXEC(.argv = argv);
	struct container_result result;

	(void)state;
	memset(word, 'x', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	for (size_t i = 0; i < 2 * words; i++)
		argv[i] = word;
	assert_int_equal(container_run(box.container, &exec, &result, NULL), -E2BIG);
	argv[0] = "sh";
	argv[1] = "-c";
	argv[2] = "echo $#";
	argv[words] = NULL;
	box_run(&box, argv, &outcome);
	assert_string_equal(outcome.out, "8996\n");
	free(argv);
}

static void the_environment_is_ours_and_nothing_of_the_owner(void **state)
{
	static const char *const env[] = {"/usr/bin/env", NULL};
	static const char *const given[] = {"A=1", "B=two words", NULL};
	CLEANUP(fd_close) int out = -1;
	int pipe_fds[2];
	struct container_exec exec = BOX_EXEC(.argv = env, .envp = given);
	char text[64];
	ssize_t n;

	(void)state;
	assert_int_equal(setenv("OWNER_SECRET", "1", 1), 0);
	box_run(&box, env, &outcome);
	assert_string_equal(outcome.out,
			    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
			    "HOME=/root\nLANG=C.UTF-8\nTERM=dumb\n");
	assert_int_equal(unsetenv("OWNER_SECRET"), 0);

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	out = pipe_fds[0];
	exec.fds[1] = pipe_fds[1];
	assert_int_equal(container_run(box.container, &exec, &outcome.result, NULL), 0);
	close(pipe_fds[1]);
	n = read(out, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_string_equal(text, "A=1\nB=two words\n");
}

static void standard_streams_are_three(void **state)
{
	static const char *const argv[] = {"sh", "-c", "cat; echo out; echo err >&2", NULL};
	struct container_exec exec = BOX_EXEC(.argv = argv);
	int in[2], out[2], errors[2];
	char text[64] = "";

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(errors, O_CLOEXEC), 0);
	exec.fds[0] = in[0];
	exec.fds[1] = out[1];
	exec.fds[2] = errors[1];
	assert_int_equal(write(in[1], "in\n", 3), 3);
	close(in[1]);
	assert_int_equal(container_run(box.container, &exec, &outcome.result, NULL), 0);
	assert_int_equal(read(out[0], text, sizeof(text) - 1), 7);
	assert_string_equal(text, "in\nout\n");
	memset(text, 0, sizeof(text));
	assert_int_equal(read(errors[0], text, sizeof(text) - 1), 4);
	assert_string_equal(text, "err\n");
	close(in[0]);
	for (int i = 0; i < 2; i++) {
		close(out[i]);
		close(errors[i]);
	}
}

static void no_other_descriptor_arrives(void **state)
{
	(void)state;
	box_sh(&box, "ls /proc/self/fd | tr '\\n' ' '; readlink /proc/self/fd/0", &outcome);
	/* 3 is ls's own, on the folder. */
	assert_string_equal(outcome.out, "0 1 2 3 /dev/null\n");
}

static void *count_bytes(void *pointer)
{
	int fd = *(int *)pointer;
	static char chunk[1 << 16];
	int64_t total = 0;
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		total += n;
	return mem_dup(&total, sizeof(total));
}

static void a_hundred_megabytes_stream_through_a_pipe(void **state)
{
	static const char *const argv[] = {"head", "-c", "104857600", "/dev/zero", NULL};
	struct container_exec exec = BOX_EXEC(.argv = argv);
	pthread_t reader;
	int64_t *total;
	void *ret;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	exec.fds[1] = fds[1];
	assert_int_equal(pthread_create(&reader, NULL, count_bytes, &fds[0]), 0);
	assert_int_equal(container_run(box.container, &exec, &outcome.result, NULL), 0);
	close(fds[1]);
	assert_int_equal(pthread_join(reader, &ret), 0);
	total = ret;
	assert_int_equal(*total, STREAM_BYTES);
	assert_int_equal(outcome.result.status, 0);
	free(total);
	close(fds[0]);
}

/* Nobody holds the writing end of the pipe any more. */
static void assert_closed(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	char chunk[4096];
	ssize_t n;

	do {
		assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
		n = read(fd, chunk, sizeof(chunk));
		assert_true(n >= 0);
	} while (n > 0);
}

static void what_is_left_in_the_background_is_killed(void **state)
{
	static const char *const scripts[] = {
		"sleep 1000 & exit 4",
		"nohup setsid sleep 1000 >&2 & exit 4",
		"/workspace/probe hide; exit 4",
	};
	int fds[2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
		const char *const argv[] = {"sh", "-c", scripts[i], NULL};
		struct container_exec exec = BOX_EXEC(.argv = argv);

		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		exec.fds[1] = exec.fds[2] = fds[1];
		assert_int_equal(container_run(box.container, &exec, &outcome.result, NULL), 0);
		assert_int_equal(outcome.result.status, 4);
		close(fds[1]);
		assert_closed(fds[0]);
		close(fds[0]);
	}
}

static void a_timeout_kills_the_whole_tree(void **state)
{
	static const char *const argv[] = {"sh", "-c",
					   "trap '' TERM; /workspace/probe hide; sleep 1000", NULL};
	struct container_exec exec = BOX_EXEC(.argv = argv, .timeout_ns = INT64_C(200000000));
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	exec.fds[1] = fds[1];
	assert_int_equal(container_run(box.container, &exec, &outcome.result, NULL), 0);
	assert_true(outcome.result.timed_out);
	assert_int_equal(outcome.result.status, 124);
	close(fds[1]);
	assert_closed(fds[0]);
	close(fds[0]);
	assert_true(container_alive(box.container));
}

static void a_command_can_be_cancelled(void **state)
{
	static const char *const argv[] = {"sleep", "1000", NULL};
	struct container_exec exec = BOX_EXEC(.argv = argv);
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	exec.cancel_fd = fds[0];
	assert_int_equal(container_run(box.container, &exec, &outcome.result, NULL), 0);
	assert_true(outcome.result.killed);
	assert_false(outcome.result.timed_out);
	assert_int_equal(outcome.result.status, 128 + SIGKILL);
	close(fds[0]);
	close(fds[1]);
}

struct interrupter {
	int output, control;
};

/* Once the command is ready, which it says, it gets a ^C. */
static void *interrupt(void *pointer)
{
	const struct interrupter *with = pointer;
	const unsigned char number = SIGINT;
	char line[8];

	if (read(with->output, line, sizeof(line)) > 0)
		(void)!write(with->control, &number, 1);
	return NULL;
}

static void a_signal_reaches_the_command(void **state)
{
	static const char script[] = "trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done";
	static const char *const argv[] = {"sh", "-c", script, NULL};
	struct container_exec exec = BOX_EXEC(.argv = argv);
	struct interrupter with;
	int control[2], output[2];
	pthread_t thread;

	(void)state;
	assert_int_equal(pipe2(control, O_CLOEXEC), 0);
	assert_int_equal(pipe2(output, O_CLOEXEC), 0);
	with = (struct interrupter){.output = output[0], .control = control[1]};
	exec.fds[1] = output[1];
	exec.cancel_fd = control[0];
	exec.cancel_signals = true;
	exec.timeout_ns = INT64_C(20000000000);
	assert_int_equal(pthread_create(&thread, NULL, interrupt, &with), 0);
	assert_int_equal(container_run(box.container, &exec, &outcome.result, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(outcome.result.status, 9);
	assert_false(outcome.result.killed);
	assert_false(outcome.result.timed_out);
	for (int i = 0; i < 2; i++) {
		close(control[i]);
		close(output[i]);
	}
}

struct worker {
	pthread_t thread;
	int number;
	int r;
	struct outcome outcome;
};

static void *work(void *pointer)
{
	struct worker *worker = pointer;
	char script[128];
	const char *argv[] = {"sh", "-c", script, NULL};
	struct container_exec exec = BOX_EXEC(.argv = argv);

	snprintf(script, sizeof(script), "echo %d >/workspace/out-%d; exit %d", worker->number,
		 worker->number, worker->number);
	worker->r = container_run(box.container, &exec, &worker->outcome.result, NULL);
	return NULL;
}

static void twenty_run_at_once(void **state)
{
	struct worker *workers = mem_alloc0(sizeof(*workers) * THREADS);

	(void)state;
	for (int i = 0; i < THREADS; i++) {
		workers[i].number = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		assert_int_equal(workers[i].r, 0);
		assert_int_equal(workers[i].outcome.result.status, i);
	}
	box_sh(&box, "cat /workspace/out-* | sort -n | tr '\\n' ' '; rm /workspace/out-*",
	       &outcome);
	assert_string_equal(outcome.out, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ");
	free(workers);
}

static void the_workspace_is_the_same_on_both_sides(void **state)
{
	char path[600];
	struct stat st;

	(void)state;
	box_sh(&box, "pwd; echo hello >greeting; stat -c %u:%g greeting", &outcome);
	assert_string_equal(outcome.out, "/workspace\n0:0\n");
	snprintf(path, sizeof(path), "%s/greeting", box.dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(st.st_gid, getegid());
	assert_int_equal(st.st_size, 6);
	assert_int_equal(unlink(path), 0);
	box_sh(&box, "test -e greeting", &outcome);
	assert_int_equal(outcome.result.status, 1);
}

static void scratch_lives_as_long_as_the_container(void **state)
{
	(void)state;
	box_sh(&box, "echo 1 >/tmp/a; echo 2 >/root/b; echo 3 >/dev/shm/c; echo 4 >/run/d",
	       &outcome);
	assert_int_equal(outcome.result.status, 0);
	box_sh(&box, "cat /tmp/a ~/b /dev/shm/c /run/d; hostname; stat -c %a /tmp /root", &outcome);
	assert_string_equal(outcome.out, "1\n2\n3\n4\nsome-workspace\n1777\n700\n");
}

static void one_mount_serves_several_containers(void **state)
{
	const struct container_options options = {.mount_fd = box.mount_fd, .hostname = NULL};
	struct box second = box;

	(void)state;
	assert_int_equal(container_start(&options, &second.container, NULL), 0);
	box_sh(&second, "echo shared >/workspace/from-second; hostname", &outcome);
	assert_string_equal(outcome.out, "computer\n");
	box_sh(&box,
	       "cat /workspace/from-second; ls /tmp/*second* 2>&1 | grep -c second; "
	       "rm /workspace/from-second",
	       &outcome);
	assert_string_equal(outcome.out, "shared\n1\n");
	container_stop(second.container);
	assert_true(container_alive(box.container));
}

static void programs_find_their_set_up(void **state)
{
	(void)state;
	box_sh(&box,
	       "id -un; bash -c 'cat <(echo sub) | wc -l'; getent hosts localhost | wc -l; "
	       "test -r /etc/ld.so.cache && echo cache; stat -c %a /dev/null; "
	       "echo $(( $(nproc) > 0 ))",
	       &outcome);
	assert_string_equal(outcome.out, "root\n1\n1\ncache\n666\n1\n");
	assert_string_equal(outcome.err, "");
}

static void a_terminal_can_be_opened(void **state)
{
	(void)state;
	box_sh(&box,
	       "command -v script >/dev/null || { echo /dev/pts/0; exit; }; "
	       "script -qec tty /dev/null | tr -d '\\r'",
	       &outcome);
	assert_string_equal(outcome.out, "/dev/pts/0\n");
}

static void a_folder_as_a_stream_is_refused(void **state)
{
	static const char *const argv[] = {"true", NULL};
	CLEANUP(fd_close) int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct container_exec exec = BOX_EXEC(.argv = argv);

	(void)state;
	exec.fds[0] = fd;
	assert_int_equal(container_run(box.container, &exec, &outcome.result, NULL), -EISDIR);
}

static void *run_forever(void *pointer)
{
	struct worker *worker = pointer;
	static const char *const argv[] = {"sh", "-c", "echo started; sleep 1000", NULL};
	struct container_exec exec = BOX_EXEC(.argv = argv);

	exec.fds[1] = worker->number;
	worker->r = container_run(box.container, &exec, &worker->outcome.result, NULL);
	return NULL;
}

static void stopping_ends_what_runs(void **state)
{
	struct worker *worker = mem_alloc0(sizeof(*worker));
	char text[8];
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	worker->number = fds[1];
	assert_int_equal(pthread_create(&worker->thread, NULL, run_forever, worker), 0);
	assert_int_equal(read(fds[0], text, sizeof(text)), 8);
	container_stop(box.container);
	assert_int_equal(pthread_join(worker->thread, NULL), 0);
	assert_int_equal(worker->r, -ESRCH);
	close(fds[1]);
	assert_closed(fds[0]);
	close(fds[0]);
	free(worker);
	box.container = NULL; /* container_stop(NULL) is allowed */
}

/* In a process of its own: start a container, run something in it, and say so. */
static _Noreturn void be_an_owner(int out)
{
	static const char *const argv[] = {"sh", "-c",
					   "/workspace/probe hide; echo started; sleep 1000", NULL};
	const struct container_options options = {.mount_fd = box.mount_fd, .hostname = "x"};
	struct container_exec exec = BOX_EXEC(.argv = argv);
	struct container *container;
	struct container_result result;

	exec.fds[1] = out;
	if (container_start(&options, &container, NULL) == 0)
		(void)!container_run(container, &exec, &result, NULL);
	_exit(1);
}

static void an_owner_that_is_killed_takes_everything_with_it(void **state)
{
	char text[8];
	int fds[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_an_owner(fds[1]);
	close(fds[1]);
	assert_int_equal(read(fds[0], text, sizeof(text)), 8);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_closed(fds[0]);
	close(fds[0]);
}

static size_t count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void runs_leave_no_descriptors(void **state)
{
	static const char *const argv[] = {"true", NULL};
	static const char *const missing[] = {"no-such-program", NULL};
	size_t before = count_descriptors();

	(void)state;
	for (int i = 0; i < 20; i++) {
		box_run(&box, i % 2 ? argv : missing, &outcome);
		assert_int_equal(outcome.result.status, i % 2 ? 0 : 127);
	}
	assert_int_equal(count_descriptors(), before);
}

static void a_start_without_a_mount_says_what_failed(void **state)
{
	CLEANUP(fd_close) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const struct container_options options = {.mount_fd = fd, .hostname = "x"};
	struct container *container = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_true(container_start(&options, &container, &err) < 0);
	assert_null(container);
	assert_non_null(strstr(err.text, "cannot start a container: cannot attach the workspace"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statuses_are_those_of_a_shell),
		cmocka_unit_test(a_program_that_is_not_there_is_127),
		cmocka_unit_test(a_missing_working_directory_is_an_error),
		cmocka_unit_test(arguments_arrive_as_they_are),
		cmocka_unit_test(a_long_command_line_arrives_and_a_longer_one_is_refused),
		cmocka_unit_test(the_environment_is_ours_and_nothing_of_the_owner),
		cmocka_unit_test(standard_streams_are_three),
		cmocka_unit_test(no_other_descriptor_arrives),
		cmocka_unit_test(a_hundred_megabytes_stream_through_a_pipe),
		cmocka_unit_test(what_is_left_in_the_background_is_killed),
		cmocka_unit_test(a_timeout_kills_the_whole_tree),
		cmocka_unit_test(a_command_can_be_cancelled),
		cmocka_unit_test(a_signal_reaches_the_command),
		cmocka_unit_test(twenty_run_at_once),
		cmocka_unit_test(the_workspace_is_the_same_on_both_sides),
		cmocka_unit_test(scratch_lives_as_long_as_the_container),
		cmocka_unit_test(one_mount_serves_several_containers),
		cmocka_unit_test(programs_find_their_set_up),
		cmocka_unit_test(a_terminal_can_be_opened),
		cmocka_unit_test(a_folder_as_a_stream_is_refused),
		cmocka_unit_test(an_owner_that_is_killed_takes_everything_with_it),
		cmocka_unit_test(runs_leave_no_descriptors),
		cmocka_unit_test(stopping_ends_what_runs),
		cmocka_unit_test(a_start_without_a_mount_says_what_failed),
	};
	const char *trouble;

	box_prepare(argc, argv);
	trouble = box_trouble();
	if (trouble) {
		printf("1..0 # SKIP %s\n", trouble);
		return 0;
	}
	return cmocka_run_group_tests_name("container", tests, open_box, close_box);
}
