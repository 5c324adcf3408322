/* port.c - export, import: a workspace to and from the outside. */
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum form { FORM_UNKNOWN, FORM_DB, FORM_TAR, FORM_DIR };

static const struct {
	const char *suffix, *filter;
} tar_names[] = {
	{".tar", NULL},    {".tar.gz", "gzip"}, {".tgz", "gzip"},      {".tar.zst", "zstd"},
	{".tar.xz", "xz"}, {".txz", "xz"},      {".tar.bz2", "bzip2"}, {".tbz2", "bzip2"},
};

static bool ends_with(const char *text, const char *suffix)
{
	size_t a = strlen(text), b = strlen(suffix);

	return a > b && strcmp(text + a - b, suffix) == 0;
}

static enum form form_of_name(const char *file, const char **ret_filter)
{
	struct stat st;

	*ret_filter = NULL;
	if (strcmp(file, "-") == 0)
		return FORM_TAR;
	if (ends_with(file, ".db"))
		return FORM_DB;
	for (size_t i = 0; i < ARRAY_LEN(tar_names); i++) {
		if (!ends_with(file, tar_names[i].suffix))
			continue;
		*ret_filter = tar_names[i].filter;
		return FORM_TAR;
	}
	if (ends_with(file, "/") || (stat(file, &st) == 0 && S_ISDIR(st.st_mode)))
		return FORM_DIR;
	return FORM_UNKNOWN;
}

static enum form form_find(const char *name)
{
	static const char *const names[] = {NULL, "db", "tar", "dir"};

	for (size_t i = 1; i < ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return (enum form)i;
	return FORM_UNKNOWN;
}

static void report(struct cli *cli, const struct port_result *result)
{
	char size[TEXT_SIZE];

	progress_end(cli);
	if (cli->json) {
		json_t *answer = json_object();

		json_set_int(answer, "files", (int64_t)result->files);
		json_set_int(answer, "bytes", (int64_t)result->bytes);
		json_set_int(answer, "skipped", (int64_t)result->skipped);
		out_json_take(answer);
		return;
	}
	if (result->skipped)
		fprintf(stderr, "computer: %s: %llu sockets or other special files were left out\n",
			cli->command->name, (unsigned long long)result->skipped);
	if (!cli->tty_err)
		return;
	text_size(result->bytes, size);
	fprintf(stderr, "%llu files, %s\n", (unsigned long long)result->files, size);
}

/* ---- export ---- */

enum { EXPORT_FORM, EXPORT_PATH, EXPORT_OWNER, EXPORT_FORCE };

static const struct option export_options[] = {
	[EXPORT_FORM] = {"format", 0, OPTION_TEXT, "db|tar|dir", "instead of what the name says"},
	[EXPORT_PATH] = {"path", 0, OPTION_TEXT, "PATH", "only this directory"},
	[EXPORT_OWNER] = {"owner", 0, OPTION_FLAG, NULL, "keep owners and groups"},
	[EXPORT_FORCE] = {"force", 'f', OPTION_FLAG, NULL, "replace FILE"},
};

static int export_tar(struct cli *cli, const char *file, const char *filter,
		      const struct port_options *options)
{
	CLEANUP(fd_close) int fd = -1;
	bool force = cli->opt[EXPORT_FORCE].count, is_stdout = strcmp(file, "-") == 0;
	struct port_result result = {0};
	struct err err = ERR_INIT;
	int r;

	if (is_stdout && cli->tty_out)
		return cli_usage(cli, "a tar file is not for a terminal: redirect the output");
	if (is_stdout && cli->json)
		return cli_usage(cli,
				 "--json and a tar file on standard output exclude each other");
	if (!is_stdout) {
		fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL), 0666);
		if (fd < 0 && errno == EEXIST)
			return cli_fail(
				cli, EEXIST,
				&(struct err){EEXIST, "it is there already; --force replaces it"},
				"'%s'", file);
		if (fd < 0) {
			err = cli_host_err(errno);
			return cli_fail(cli, err.code, &err, "cannot create '%s'", file);
		}
	}
	r = computer_export_tar(cli->computer, is_stdout ? STDOUT_FILENO : fd, filter, options,
				&result, &err);
	if (r == 0 && !is_stdout && fsync(fd) < 0 && errno != EINVAL)
		r = err_set(&err, errno, "cannot write '%s'", file);
	if (r < 0) {
		if (!is_stdout)
			unlink(file);
		return cli_fail(cli, r, &err, "%s", "");
	}
	if (!is_stdout)
		report(cli, &result);
	return EXIT_OK;
}

static int export_db(struct cli *cli, const char *file)
{
	struct err err = ERR_INIT;
	struct port_result result = {0};
	struct computer_info info = {0};
	CLEANUP(mem_free) char *beside = NULL;
	int r;

	if (cli->opt[EXPORT_PATH].count)
		return cli_usage(cli, "--path is for tar files and directories");
	/* What is replaced goes only once the new one is whole. */
	if (cli->opt[EXPORT_FORCE].count && asprintf(&beside, "%s.%d.db", file, (int)getpid()) < 0)
		abort();
	r = computer_export_db(cli->computer, beside ? beside : file, &err);
	if (r == 0 && beside && rename(beside, file) < 0) {
		r = err_set(&err, errno, "cannot replace '%s': %s", file, strerror(errno));
		unlink(beside);
	}
	if (r == 0)
		r = computer_get_info(cli->computer, &info, &err);
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	result.files = info.inodes;
	result.bytes = info.bytes;
	report(cli, &result);
	return EXIT_OK;
}

static int run_export(struct cli *cli)
{
	const char *file = cli->argv[1], *filter;
	enum form form = form_of_name(file, &filter);
	struct port_options options = {.path = cli->opt[EXPORT_PATH].text,
				       .progress = progress_port,
				       .arg = cli,
				       .owner = cli->opt[EXPORT_OWNER].count};
	struct port_result result = {0};
	struct err err = ERR_INIT;
	int status, r;

	if (cli->opt[EXPORT_FORM].count) {
		form = form_find(cli->opt[EXPORT_FORM].text);
		if (form == FORM_UNKNOWN)
			return cli_usage(cli, "--format is db, tar or dir");
	}
	if (form == FORM_UNKNOWN)
		return cli_usage(
			cli,
			"'%s' says no format: end it in .db, .tar, .tar.gz, .tar.zst or '/', or "
			"use --format",
			file);
	if (strcmp(file, "-") == 0 && form != FORM_TAR)
		return cli_usage(cli, "only a tar file can go to standard output");
	status = cli_open(cli, cli->argv[0], 0);
	if (status != EXIT_OK)
		return status;
	if (form == FORM_TAR)
		return export_tar(cli, file, filter, &options);
	if (form == FORM_DB)
		return export_db(cli, file);
	r = computer_export_dir(cli->computer, file, &options, &result, &err);
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	report(cli, &result);
	return EXIT_OK;
}

const struct command cmd_export = {
	.name = "export",
	.operands = "NAME[@SNAPSHOT] FILE|DIR|-",
	.summary = "Write a workspace to a file, a tar or a directory",
	.help = "The name says the format: .db is one portable workspace file; .tar, .tar.gz, "
		".tar.zst,\n"
		".tar.xz and .tar.bz2 are tar files; what ends in '/' or exists as one is a "
		"directory, which\n"
		"must be empty; - is a tar file on standard output.",
	.min = 2,
	.max = 2,
	.options = export_options,
	.options_count = ARRAY_LEN(export_options),
	.run = run_export,
};

/* ---- import ---- */

enum { IMPORT_TO, IMPORT_OWNER };

static const struct option import_options[] = {
	[IMPORT_TO] = {"to", 0, OPTION_TEXT, "PATH", "into this directory of a workspace"},
	[IMPORT_OWNER] = {"owner", 0, OPTION_FLAG, NULL, "keep owners and groups"},
};

static bool is_workspace_file(const char *file)
{
	CLEANUP(fd_close) int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char head[16] = {0};

	return fd >= 0 && fd_pread_full(fd, head, sizeof(head), 0) == sizeof(head) &&
	       memcmp(head, "SQLite format 3", sizeof(head)) == 0;
}

static int import_into(struct cli *cli, const char *from, struct port_result *result,
		       struct err *err)
{
	struct port_options options = {.path = cli->opt[IMPORT_TO].text,
				       .progress = progress_port,
				       .arg = cli,
				       .owner = cli->opt[IMPORT_OWNER].count};
	CLEANUP(fd_close) int fd = -1;
	struct stat st;

	int r;

	if (strcmp(from, "-") == 0) {
		cancel_cut(STDIN_FILENO);
		r = computer_import_tar(cli->computer, STDIN_FILENO, &options, result, err);
		cancel_cut(-1);
		return cancelled() ? err_set(err, ECANCELED,
					     "cancelled; import again to have all of it")
				   : r;
	}
	if (stat(from, &st) < 0)
		return err_set(err, errno, "cannot read '%s': %s; name a file, a directory or -",
			       from, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return computer_import_dir(cli->computer, from, &options, result, err);
	fd = open(from, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "cannot read '%s': %s; check its permissions", from,
			       strerror(errno));
	cancel_cut(fd);
	r = computer_import_tar(cli->computer, fd, &options, result, err);
	cancel_cut(-1);
	return cancelled() ? err_set(err, ECANCELED, "cancelled; import again to have all of it")
			   : r;
}

static int run_import(struct cli *cli)
{
	const char *from = cli->argv[0], *name = cli->argv[1];
	const struct err exists = {EEXIST,
				   "it is there already; to import into it, say where: --to /"};
	struct port_result result = {0};
	struct err err = ERR_INIT;
	struct workspace workspace;
	struct stat st;
	bool existed;
	int status, r = workspace_resolve(name, &workspace, &err);

	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	/* Nothing is made for an import that cannot begin. */
	if (strcmp(from, "-") != 0 && stat(from, &st) < 0) {
		err = cli_host_err(errno);
		return cli_fail(cli, err.code, &err, "cannot read '%s'", from);
	}
	existed = workspace_exists(&workspace);
	if (strcmp(from, "-") != 0 && is_workspace_file(from)) {
		if (cli->opt[IMPORT_TO].count)
			return cli_usage(
				cli,
				"a workspace file becomes a workspace: --to is for the others");
		r = workspace_import(from, name, &err);
		if (r < 0)
			return cli_fail(cli, r, &err, "%s", "");
		return EXIT_OK;
	}
	if (existed && !cli->opt[IMPORT_TO].count)
		return cli_fail(cli, EEXIST, &exists, "workspace '%s'", name);
	if (strcmp(from, "-") == 0 && isatty(STDIN_FILENO))
		return cli_usage(cli, "a tar file on standard input is expected, not a terminal");
	status = cli_open(cli, name, existed ? 0 : COMPUTER_CREATE | COMPUTER_EXCL);
	if (status != EXIT_OK)
		return status;
	r = cli->opt[IMPORT_TO].count
		    ? computer_mkdir(cli->computer, cli->opt[IMPORT_TO].text, 0755, true)
		    : 0;
	if (r < 0)
		err_set(&err, -r, "cannot make the directory '%s': %s", cli->opt[IMPORT_TO].text,
			strerror(-r));
	else
		r = import_into(cli, from, &result, &err);
	if (r < 0) {
		status = cli_fail(cli, r, &err, "%s", "");
		cli_close(cli, status);
		if (!existed)
			(void)computer_remove(name, NULL);
		return status;
	}
	report(cli, &result);
	return EXIT_OK;
}

const struct command cmd_import = {
	.name = "import",
	.operands = "FILE|DIR|- NAME",
	.summary = "Make a workspace of a file, a tar or a directory",
	.help = "FILE is an exported workspace, or a tar, cpio or zip file, also compressed; - is "
		"a tar file\n"
		"on standard input. With --to it may go into a workspace that exists.",
	.min = 2,
	.max = 2,
	.options = import_options,
	.options_count = ARRAY_LEN(import_options),
	.run = run_import,
};
