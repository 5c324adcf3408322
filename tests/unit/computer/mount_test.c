/* mount_test.c - mounts and programs, through an owner here and one elsewhere. Needs root. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void both(void (*body)(struct home *home))
{
	struct doctor doctor;

	workspace_doctor(&doctor);
	if (!doctor.root || !doctor.fuse_device)
		skip();
	for (int remote = 0; remote < 2; remote++) {
		struct home home;

		home_init(&home);
		home_owned(&home, remote);
		assert_int_equal(mkdir(home_file(&home, "m"), 0755), 0);
		assert_int_equal(mkdir(home_file(&home, "n"), 0755), 0);
		body(&home);
		(void)umount2(home_file(&home, "m"), MNT_DETACH);
		(void)umount2(home_file(&home, "n"), MNT_DETACH);
		home_clear(&home);
	}
}

static void expect_file(const char *path, const char *want)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(1000);

	assert_int_equal(file_read(path, &text, NULL), 0);
	assert_string_equal(text.data, want);
}

static void write_host(const char *path, const char *text)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static void put(struct computer *c, const char *path, const char *text)
{
	assert_int_equal(computer_write_file(c, path, text, strlen(text), 0644), 0);
}

static void expect(struct computer *c, const char *path, const char *want)
{
	void *bytes;
	size_t len;

	assert_int_equal(computer_read_file(c, path, 1000, &bytes, &len), 0);
	assert_string_equal(bytes, want);
	free(bytes);
}

static bool is_mounted(const char *path)
{
	struct statx st;

	assert_int_equal(statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_TYPE, &st), 0);
	return st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* A second mount, read-only: the same files at once. */
static void mount_again(struct home *home, struct computer *c)
{
	struct computer_info info;
	struct err err = ERR_INIT;

	assert_call(computer_mount(c, home_file(home, "n"), COMPUTER_MOUNT_READONLY, err_api(&err)),
		    0);
	expect_file(home_file(home, "n/g"), "from outside");
	assert_int_equal(open(home_file(home, "n/h"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644), -1);
	assert_int_equal(errno, EROFS);
	assert_call(computer_get_info(c, &info, &err), 0);
	assert_int_equal(info.mounts, 2);
	assert_call(workspace_umount(home_file(home, "n"), &err), 0);
	assert_false(is_mounted(home_file(home, "n")));
	assert_call(workspace_umount(home_file(home, "n"), &err), -EINVAL);
}

static void mount_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	struct err err = ERR_INIT;

	put(c, "/f", "before");
	assert_call(computer_umount(c, err_api(&err)), -EINVAL);
	assert_call(computer_mount(c, home_file(home, "none"), 0, err_api(&err)), -ENOENT);
	assert_call(computer_mount(c, home_file(home, "m"), 0, err_api(&err)), 0);
	assert_call(computer_mount(c, home_file(home, "m"), 0, err_api(&err)), -EBUSY);
	expect_file(home_file(home, "m/f"), "before");
	put(c, "/f", "after it");
	expect_file(home_file(home, "m/f"), "after it");
	write_host(home_file(home, "m/g"), "from outside");
	expect(c, "/g", "from outside");

	mount_again(home, c);
	assert_call(computer_umount(c, err_api(&err)), 0);
	assert_false(is_mounted(home_file(home, "m")));
	assert_call(computer_mount(c, home_file(home, "m"), 0, err_api(&err)), 0);
	expect_file(home_file(home, "m/g"), "from outside");
	home_close(c);
	home_release(home);
	assert_false(is_mounted(home_file(home, "m")));
}

static void a_mount_shows_the_live_files(void **state)
{
	(void)state;
	both(mount_body);
}

static void snapshot_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	CLEANUP(fd_close) int fd = -1;
	struct err err = ERR_INIT;

	assert_call(computer_mount(c, home_file(home, "m"), 0, err_api(&err)), 0);
	/* Written, but kept back by the kernel: it belongs to the snapshot all the same. */
	fd = open(home_file(home, "m/f"), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, "one", 3), 3);
	assert_call(computer_snapshot(c, "s", err_api(&err)), 0);
	assert_int_equal(pwrite(fd, "two", 3, 0), 3);
	fd_close(&fd);
	expect_file(home_file(home, "m/f"), "two");
	assert_call(computer_restore(c, "s", NULL, err_api(&err)), 0);
	expect_file(home_file(home, "m/f"), "one");
	write_host(home_file(home, "m/g"), "new");
	assert_call(computer_restore(c, "s", NULL, err_api(&err)), 0);
	assert_int_equal(access(home_file(home, "m/g"), F_OK), -1);
	home_close(c);
}

static void a_mounted_workspace_is_kept_and_restored(void **state)
{
	(void)state;
	both(snapshot_body);
}

static void past_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0), *past;
	struct err err = ERR_INIT;

	put(c, "/f", "then");
	assert_call(computer_snapshot(c, "s", err_api(&err)), 0);
	put(c, "/f", "now");
	home_close(c);
	past = home_open(home, "w@s", 0);
	assert_call(computer_mount(past, home_file(home, "m"), 0, err_api(&err)), 0);
	expect_file(home_file(home, "m/f"), "then");
	assert_int_equal(open(home_file(home, "m/f"), O_WRONLY | O_CLOEXEC), -1);
	assert_int_equal(errno, EROFS);
	home_close(past);
}

static void a_snapshot_can_be_mounted(void **state)
{
	(void)state;
	both(past_body);
}

static void wait_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	struct err err = ERR_INIT;
	int ends[2], status;
	pid_t child;

	assert_call(computer_mount(c, home_file(home, "m"), 0, err_api(&err)), 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_call(computer_mount_wait(c, ends[0], &err), -ECANCELED);
	close(ends[0]);
	close(ends[1]);
	child = fork();
	if (child == 0) {
		usleep(50000);
		_exit(umount2(home_file(home, "m"), 0) < 0);
	}
	assert_call(computer_mount_wait(c, -1, &err), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	home_close(c);
}

static void waiting_ends_with_the_mount(void **state)
{
	(void)state;
	both(wait_body);
}

static void a_mount_outlives_the_owner_it_came_from(void **state)
{
	struct doctor doctor;
	struct computer *c;
	struct err err = ERR_INIT;
	struct home home;
	pid_t child;
	int status;

	(void)state;
	workspace_doctor(&doctor);
	if (!doctor.root || !doctor.fuse_device)
		skip();
	home_init(&home);
	home_owned(&home, true);
	assert_int_equal(mkdir(home_file(&home, "m"), 0755), 0);
	child = fork();
	if (child == 0) {
		fd_close(&home.stop); /* or the owner would never see it end */
		/* Mounted through the owner; that ends, and we go on with it. */
		if (computer_open_as("w", 0, "test", &c, &err) < 0 || computer_is_owner(c) ||
		    computer_mount(c, home_file(&home, "m"), 0, err_api(&err)) < 0 ||
		    computer_mount_wait(c, -1, &err) < 0 || !computer_is_owner(c) ||
		    computer_close(c, err_api(&err)) < 0) {
			fprintf(stderr, "# %d %s\n", err.code, err.text);
			_exit(1);
		}
		_exit(0);
	}
	for (int i = 0; i < 500 && !is_mounted(home_file(&home, "m")); i++)
		usleep(10000);
	assert_true(is_mounted(home_file(&home, "m")));
	usleep(50000); /* it waits by now, or will find the mount gone */
	home_release(&home);
	for (int i = 0; i < 500 && !is_mounted(home_file(&home, "m")); i++)
		usleep(10000);
	write_host(home_file(&home, "m/f"), "still here");
	assert_int_equal(umount2(home_file(&home, "m"), 0), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	c = home_open(&home, "w", 0);
	expect(c, "/f", "still here");
	home_close(c);
	home_clear(&home);
}

/* ---- programs ---- */

static bool has_container(struct computer *c)
{
	const char *const argv[] = {"true", NULL};
	const struct computer_exec exec = {
		.argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
	struct computer_result result;
	struct computer_err err = {0};

	if (computer_exec(c, &exec, &result, &err) == 0)
		return true;
	print_message("# no container here: %s\n", err.text);
	return false;
}

static int run(struct computer *c, const char *script, int in, int out, int64_t timeout,
	       int control, bool *ret_killed)
{
	const char *const argv[] = {"sh", "-c", script, NULL};
	const struct computer_exec exec = {.argv = argv,
					   .stdin_fd = in,
					   .stdout_fd = out,
					   .stderr_fd = -1,
					   .timeout_ns = timeout};
	struct computer_result result = {0};
	struct err err = ERR_INIT;
	bool killed = false;

	assert_call(computer_exec_control(c, &exec, control, &result, &killed, &err), 0);
	if (ret_killed)
		*ret_killed = killed;
	return result.timed_out ? -ETIMEDOUT : result.status;
}

/* A child that says SIGTERM at `to` once `from` said something. */
static pid_t signal_when_told(int from, int to)
{
	pid_t child = fork();
	char byte;

	assert_true(child >= 0);
	if (child == 0) {
		const char term = SIGTERM;

		if (read(from, &byte, 1) == 1)
			(void)!write(to, &term, 1);
		_exit(0);
	}
	return child;
}

static void exec_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	char bytes[100] = "";
	int in[2], out[2];
	bool killed;
	pid_t teller;

	if (!has_container(c)) {
		home_close(c);
		return;
	}
	put(c, "/f", "content");
	assert_int_equal(run(c, "exit 7", -1, -1, 0, -1, NULL), 7);
	assert_int_equal(run(c, "test \"$(cat f)\" = content", -1, -1, 0, -1, NULL), 0);
	assert_int_equal(run(c, "echo new > g; kill -9 $$", -1, -1, 0, -1, NULL), 128 + 9);
	expect(c, "/g", "new\n");
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(write(in[1], "lower", 5), 5);
	close(in[1]);
	assert_int_equal(run(c, "tr a-z A-Z", in[0], out[1], 0, -1, NULL), 0);
	assert_int_equal(read(out[0], bytes, sizeof(bytes)), 5);
	assert_string_equal(bytes, "LOWER");
	close(in[0]);
	close(out[0]);
	close(out[1]);
	assert_int_equal(run(c, "sleep 100", -1, -1, 50000000, -1, NULL), -ETIMEDOUT);
	/* A byte is a signal, the end is the end. */
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	teller = signal_when_told(out[0], in[1]);
	assert_int_equal(run(c, "trap 'exit 9' TERM; echo go; while :; do sleep 0.05; done", -1,
			     out[1], 0, in[0], &killed),
			 9);
	assert_false(killed);
	assert_int_equal(waitpid(teller, NULL, 0), teller);
	for (int i = 0; i < 2; i++) {
		close(in[i]);
		close(out[i]);
	}
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	close(in[1]);
	(void)run(c, "sleep 100", -1, -1, 0, in[0], &killed);
	assert_true(killed);
	close(in[0]);
	home_close(c);
}

static void programs_see_the_live_files(void **state)
{
	(void)state;
	both(exec_body);
}

/* Another process's regular file must not become writable by being somebody's input. */
static void regular_body(struct home *home)
{
	struct computer *c = home_open(home, "w", 0);
	int in, out;

	if (!has_container(c)) {
		home_close(c);
		return;
	}
	write_host(home_file(home, "in"), "input");
	in = open(home_file(home, "in"), O_RDONLY | O_CLOEXEC);
	out = open(home_file(home, "out"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_int_equal(
		run(c, "cat; echo -n broken > /proc/self/fd/0 || true", in, out, 0, -1, NULL), 0);
	expect_file(home_file(home, "in"), "input");
	expect_file(home_file(home, "out"), "input");
	close(in);
	/* More than a pipe holds, and not all of it is read. */
	in = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	assert_int_equal(run(c, "head -c 3 | od -An -c", in, out, 0, -1, NULL), 0);
	close(in);
	close(out);
	home_close(c);
}

static void files_of_the_host_are_only_streams(void **state)
{
	(void)state;
	both(regular_body);
}

static void a_caller_that_dies_takes_its_program_along(void **state)
{
	struct computer_info info = {.execs = 1};
	struct computer *c;
	struct doctor doctor;
	struct home home;
	pid_t child;

	(void)state;
	workspace_doctor(&doctor);
	if (!doctor.root || !doctor.fuse_device)
		skip();
	home_init(&home);
	home_owned(&home, true);
	c = home_open(&home, "w", 0);
	if (has_container(c)) {
		child = fork();
		if (child == 0) {
			struct computer *mine;

			fd_close(&home.stop);
			if (computer_open("w", 0, &mine, NULL) == 0)
				(void)run(mine, "echo > started; sleep 100", -1, -1, 0, -1, NULL);
			_exit(1);
		}
		for (int i = 0; i < 500; i++) {
			struct computer_stat st;

			if (computer_stat(c, "/started", true, &st) == 0)
				break;
			usleep(10000);
		}
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		for (int i = 0; i < 500 && info.execs; i++) {
			assert_int_equal(computer_get_info(c, &info, NULL), 0);
			usleep(10000);
		}
		assert_int_equal(info.execs, 0);
	}
	home_close(c);
	home_clear(&home);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mount_shows_the_live_files),
		cmocka_unit_test(a_mounted_workspace_is_kept_and_restored),
		cmocka_unit_test(a_snapshot_can_be_mounted),
		cmocka_unit_test(waiting_ends_with_the_mount),
		cmocka_unit_test(a_mount_outlives_the_owner_it_came_from),
		cmocka_unit_test(programs_see_the_live_files),
		cmocka_unit_test(files_of_the_host_are_only_streams),
		cmocka_unit_test(a_caller_that_dies_takes_its_program_along),
	};

	return cmocka_run_group_tests_name("computer-mount", tests, NULL, NULL);
}
