/* hello.c - libcomputer in one page: files that last, a snapshot, a program that sees the same
 * files.
 *
 *   cc hello.c $(pkg-config --cflags --libs computer) && ./a.out hello
 */
#include <computer.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what, int r, const struct computer_err *err)
{
	fprintf(stderr, "hello: %s: %s\n", what, err->text[0] ? err->text : strerror(-r));
	return 1;
}

static int show(void *arg, const char *name, const struct computer_stat *stat)
{
	(void)arg;
	printf("  %s, %lld bytes\n", name, (long long)stat->size);
	return 0;
}

/* Run a program in the container. Not every host allows one: that is said, and no failure. */
static int run(struct computer *computer, struct computer_err *err)
{
	const char *const argv[] = {"sh", "-c", "tr a-z A-Z < greeting.txt | tee LOUD.txt", NULL};
	const struct computer_exec exec = {
		.argv = argv,
		.stdin_fd = -1,
		.stdout_fd = STDOUT_FILENO,
		.stderr_fd = STDERR_FILENO,
	};
	struct computer_result result;
	int r;

	fflush(stdout);
	r = computer_exec(computer, &exec, &result, err);
	if (r == -EPERM || r == -ENOENT || r == -ENOSYS || r == -EACCES) {
		printf("no container on this host: %s\n", err->text);
		return 0;
	}
	if (r == 0)
		printf("the program ended with status %d\n", result.status);
	return r;
}

static int use(struct computer *computer, struct computer_err *err)
{
	const char *text = "hello, world\n";
	void *bytes;
	size_t len;
	int r = computer_write_file(computer, "greeting.txt", text, strlen(text), 0644);

	if (r == 0)
		r = computer_snapshot(computer, "start", err);
	if (r == 0)
		r = run(computer, err);
	if (r == 0)
		r = computer_write_file(computer, "greeting.txt", "oops\n", 5, 0644);
	if (r == 0) {
		printf("files:\n");
		r = computer_list(computer, "/", show, NULL);
	}
	/* Back to where we were. */
	if (r == 0)
		r = computer_restore(computer, "start", NULL, err);
	if (r == 0)
		r = computer_read_file(computer, "greeting.txt", 1 << 20, &bytes, &len);
	if (r == 0) {
		printf("restored: %s", (const char *)bytes);
		free(bytes);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct computer_err err = {0};
	struct computer *computer;
	int r, closed;

	if (argc != 2) {
		fprintf(stderr, "usage: hello WORKSPACE\n");
		return 2;
	}
	r = computer_open(argv[1], COMPUTER_CREATE | COMPUTER_EXCL, &computer, &err);
	if (r < 0)
		return fail("cannot create the workspace", r, &err);
	r = use(computer, &err);
	closed = computer_close(computer, &err);
	if (r < 0 || closed < 0)
		return fail("something went wrong", r < 0 ? r : closed, &err);
	return 0;
}
