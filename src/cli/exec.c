/* exec.c - exec: run a program on a workspace's files. */
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT_MAX (16 << 20) /* bytes of each stream in a JSON answer */

enum { EXEC_BACKEND, EXEC_CWD, EXEC_ENV, EXEC_TIMEOUT };

static const struct option exec_options[] = {
	[EXEC_BACKEND] = {"backend", 'b', OPTION_TEXT, "container", "where it runs"},
	[EXEC_CWD] = {"cwd", 'C', OPTION_TEXT, "DIR", "where it starts (/workspace)"},
	[EXEC_ENV] = {"env", 'e', OPTION_LIST, "NAME=VALUE",
		      "in its environment; may be given again"},
	[EXEC_TIMEOUT] = {"timeout", 't', OPTION_DURATION, "TIME",
			  "end it, and all it started, after this"},
};

/* The container's own environment, with what --env adds or replaces. */
static const char **make_env(const struct value *extra)
{
	static const char *const base[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"LANG=C.UTF-8",
	};
	const char **env = mem_alloc0((ARRAY_LEN(base) + extra->count + 1) * sizeof(char *));
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(base); i++)
		env[n++] = base[i];
	for (size_t i = 0; i < extra->count; i++) {
		size_t name = strcspn(extra->list[i], "=") + 1, k = 0;

		while (k < n && strncmp(env[k], extra->list[i], name) != 0)
			k++;
		env[k] = extra->list[i];
		if (k == n)
			n++;
	}
	return env;
}

/* A file without a name, for output that goes into a JSON answer. */
static int output_file(void)
{
	const char *dir = getenv("TMPDIR");

	return open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static int add_output(json_t *answer, const char *key, int fd)
{
	CLEANUP(mem_free) char *bytes = NULL;
	char cut_key[32];
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	bytes = mem_alloc(OUTPUT_MAX);
	n = fd_pread_full(fd, bytes, OUTPUT_MAX, 0);
	if (n < 0)
		return (int)n;
	json_set_bytes(answer, key, span_of(bytes, (size_t)n));
	snprintf(cut_key, sizeof(cut_key), "%s_bytes", key);
	json_set_int(answer, cut_key, st.st_size);
	return 0;
}

static int answer_json(struct cli *cli, const struct computer_exec *exec,
		       const struct computer_result *result, bool killed)
{
	json_t *answer = json_object();
	int r;

	json_set_int(answer, "status", result->status);
	json_set_int(answer, "signal", result->signal);
	json_set_bool(answer, "timed_out", result->timed_out);
	json_set_bool(answer, "killed", killed);
	r = add_output(answer, "stdout", exec->stdout_fd);
	if (r == 0)
		r = add_output(answer, "stderr", exec->stderr_fd);
	if (r < 0) {
		json_decref(answer);
		return cli_fail(cli, r, NULL, "cannot read the output back");
	}
	out_json_take(answer);
	return EXIT_OK;
}

static int exec_status(struct cli *cli, const struct computer_result *result)
{
	if (result->timed_out) {
		cli_fail(cli, ETIMEDOUT,
			 &(struct err){ETIMEDOUT, "it took too long and was ended, with all it "
						  "started; give it more --timeout"},
			 "%s", cli->argv[1]);
		return EXIT_TIMED_OUT;
	}
	return result->status;
}

static int check_options(struct cli *cli)
{
	const struct value *backend = &cli->opt[EXEC_BACKEND], *env = &cli->opt[EXEC_ENV];

	if (backend->count && strcmp(backend->text, "container") != 0)
		return cli_usage(cli, "there is no backend '%s' in this version: container",
				 backend->text);
	for (size_t i = 0; i < env->count; i++)
		if (env->list[i][0] == '=' || !strchr(env->list[i], '='))
			return cli_usage(cli, "--env: '%s' is not NAME=VALUE", env->list[i]);
	return EXIT_OK;
}

static int run_exec(struct cli *cli)
{
	CLEANUP(mem_free) const char **env = NULL;
	CLEANUP(fd_close) int out = -1;
	CLEANUP(fd_close) int errors = -1;
	struct computer_exec exec = {
		.argv = (const char *const *)(cli->argv + 1),
		.cwd = cli->opt[EXEC_CWD].text,
		.stdin_fd = STDIN_FILENO,
		.stdout_fd = STDOUT_FILENO,
		.stderr_fd = STDERR_FILENO,
		.timeout_ns = cli->opt[EXEC_TIMEOUT].number,
	};
	struct computer_result result = {0};
	struct err err = ERR_INIT;
	bool killed = false;
	int status = check_options(cli), r;

	if (status != EXIT_OK)
		return status;
	if (cli->opt[EXEC_ENV].count) {
		env = make_env(&cli->opt[EXEC_ENV]);
		exec.envp = env;
	}
	if (cli->json) {
		out = exec.stdout_fd = output_file();
		errors = exec.stderr_fd = output_file();
		if (out < 0 || errors < 0)
			return cli_fail(cli, errno, NULL,
					"cannot make a file for the output in $TMPDIR");
	}
	status = cli_open(cli, cli->argv[0], 0);
	if (status != EXIT_OK)
		return status;
	r = computer_exec_control(cli->computer, &exec, cancel_forward(), &result, &killed, &err);
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", cli->argv[1]);
	if (cli->json) {
		status = answer_json(cli, &exec, &result, killed);
		if (status != EXIT_OK)
			return status;
	}
	return exec_status(cli, &result);
}

const struct command cmd_exec = {
	.name = "exec",
	.operands = "NAME -- PROGRAM [ARGUMENT...]",
	.summary = "Run a program in a container that sees the live files",
	.help = "The files are at /workspace. The host's /usr is there, read-only; no network, and "
		"nothing else\n"
		"of the host. Standard input, output and error are ours; signals are passed on. "
		"Ends with the\n"
		"program's exit status, 128 + N if signal N ended it, 124 after --timeout.\n"
		"With --json: status, signal, and up to 16 MiB of each output.",
	.min = 2,
	.max = -1,
	.program = true,
	.options = exec_options,
	.options_count = ARRAY_LEN(exec_options),
	.run = run_exec,
};
