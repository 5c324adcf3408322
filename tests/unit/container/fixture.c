/* fixture.c - a container over a folder under $TMPDIR, and commands in it. */
#include "fixture.h"

#include "base/fd.h"

#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY 65534

static int probe_fd = -1;

void box_prepare(int argc, char **argv)
{
	if (argc > 1)
		probe_fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (probe_fd < 0) {
		puts("Bail out! usage: TEST PROBE [nobody]");
		exit(1);
	}
	if (argc > 2 && geteuid() == 0 &&
	    (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
	     setresuid(NOBODY, NOBODY, NOBODY) < 0)) {
		puts("1..0 # SKIP cannot become nobody");
		exit(0);
	}
}

static void copy_probe(const char *dir)
{
	CLEANUP(fd_close) int out = -1;
	char path[600], chunk[65536];
	int64_t pos = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/probe", dir);
	out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	assert_true(out >= 0);
	while ((n = pread(probe_fd, chunk, sizeof(chunk), pos)) > 0) {
		assert_int_equal(fd_write_all(out, chunk, (size_t)n), 0);
		pos += n;
	}
	assert_int_equal(n, 0);
}

static void make_dir(struct box *box)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(box->dir, sizeof(box->dir), "%s/computer-container-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(box->dir));
	copy_probe(box->dir);
	/* As root a mount of nobody's, as FUSE gives; otherwise the folder itself. */
	box->mount_fd = open_tree(AT_FDCWD, box->dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (box->mount_fd < 0)
		box->mount_fd = open(box->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(box->mount_fd >= 0);
}

static int start(struct box *box, uint64_t memory_max, uint64_t pids_max, struct err *err)
{
	const struct container_options options = {.mount_fd = box->mount_fd,
						  .hostname = "Some Workspace!",
						  .memory_max = memory_max,
						  .pids_max = pids_max};

	return container_start(&options, &box->container, err);
}

static void remove_dir(struct box *box)
{
	char command[700];

	close(box->mount_fd);
	snprintf(command, sizeof(command), "rm -rf '%s'", box->dir);
	/* NOLINTNEXTLINE(cert-env33-c): our own folder */
	assert_int_equal(system(command), 0);
}

void box_open(struct box *box, uint64_t memory_max, uint64_t pids_max)
{
	struct err err = ERR_INIT;

	make_dir(box);
	if (start(box, memory_max, pids_max, &err) < 0)
		fail_msg("%s", err.text);
}

void box_close(struct box *box)
{
	container_stop(box->container);
	remove_dir(box);
}

const char *box_trouble(void)
{
	static struct err err;
	struct box box = {0};
	int r;

	make_dir(&box);
	r = start(&box, 0, 0, &err);
	if (r == 0)
		container_stop(box.container);
	remove_dir(&box);
	return r < 0 ? err.text : NULL;
}

static void read_all(int fd, char *ret_text, size_t size)
{
	ssize_t n = fd_pread_full(fd, ret_text, size - 1, 0);

	assert_true(n >= 0);
	ret_text[n] = '\0';
}

void box_run(struct box *box, const char *const *argv, struct outcome *ret_outcome)
{
	CLEANUP(fd_close) int out = memfd_create("out", MFD_CLOEXEC);
	CLEANUP(fd_close) int errors = memfd_create("err", MFD_CLOEXEC);
	struct container_exec exec = BOX_EXEC(.argv = argv, .timeout_ns = INT64_C(60000000000));
	struct err err = ERR_INIT;

	exec.fds[1] = out;
	exec.fds[2] = errors;
	*ret_outcome = (struct outcome){0};
	if (container_run(box->container, &exec, &ret_outcome->result, &err) < 0)
		fail_msg("%s", err.text);
	read_all(out, ret_outcome->out, sizeof(ret_outcome->out));
	read_all(errors, ret_outcome->err, sizeof(ret_outcome->err));
}

void box_sh(struct box *box, const char *script, struct outcome *ret_outcome)
{
	const char *const argv[] = {"sh", "-c", script, NULL};

	box_run(box, argv, ret_outcome);
}
