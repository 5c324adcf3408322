/* workspace.c - create, ls, info, rm, rename, limit: workspaces as a whole. */
#include "base/clock.h"
#include "base/text.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- create, fork ---- */

/* A new workspace from another one, or from its snapshot. */
static int fork_from(struct cli *cli, const char *from, const char *name)
{
	struct workspace source = {0}, target = {0};
	struct err err = ERR_INIT;
	int status, r;

	r = workspace_resolve(name, &target, &err);
	if (r == 0)
		r = workspace_resolve(from, &source, &err);
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	if (target.snapshot[0])
		return cli_usage(cli, "'%s' names a snapshot, not a new workspace", name);
	status = cli_open(cli, source.path, 0);
	if (status != EXIT_OK)
		return status;
	r = computer_fork(cli->computer, source.snapshot[0] ? source.snapshot : NULL, name,
			  err_api(&err));
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	return cli_close(cli, EXIT_OK);
}

static int set_quota(struct cli *cli, const struct value *bytes, const struct value *inodes)
{
	struct computer_limits limits;
	struct err err = ERR_INIT;
	int r;

	if (!bytes->count && !inodes->count)
		return EXIT_OK;
	r = computer_get_limits(cli->computer, &limits, &err);
	if (r == 0) {
		if (bytes->count)
			limits.bytes = (uint64_t)bytes->number;
		if (inodes->count)
			limits.inodes = (uint64_t)inodes->number;
		r = computer_set_limits(cli->computer, &limits, &err);
	}
	return r < 0 ? cli_fail(cli, r, &err, "%s", "") : EXIT_OK;
}

enum { CREATE_FROM, CREATE_BYTES, CREATE_INODES };

static const struct option create_options[] = {
	[CREATE_FROM] = {"from", 'f', OPTION_TEXT, "WORKSPACE[@SNAPSHOT]",
			 "start with these files"},
	[CREATE_BYTES] = {"quota-bytes", 0, OPTION_SIZE, "SIZE",
			  "most bytes of its files (0: no limit)"},
	[CREATE_INODES] = {"quota-inodes", 0, OPTION_NUMBER, "N", "most files and directories"},
};

static int run_create(struct cli *cli)
{
	const char *name = cli->argv[0];
	int status;

	if (cli->opt[CREATE_FROM].count) {
		status = fork_from(cli, cli->opt[CREATE_FROM].text, name);
		if (status == EXIT_OK &&
		    (cli->opt[CREATE_BYTES].count || cli->opt[CREATE_INODES].count))
			status = cli_open(cli, name, 0);
	} else {
		status = cli_open(cli, name, COMPUTER_CREATE | COMPUTER_EXCL);
	}
	if (status != EXIT_OK)
		return status;
	status = set_quota(cli, &cli->opt[CREATE_BYTES], &cli->opt[CREATE_INODES]);
	if (status == EXIT_OK && cli->json) {
		struct workspace workspace;
		json_t *answer = json_object();

		if (workspace_resolve(name, &workspace, NULL) == 0) {
			json_set_text(answer, "name", workspace.name);
			json_set_text(answer, "path", workspace.path);
		}
		out_json_take(answer);
	}
	return status;
}

const struct command cmd_create = {
	.name = "create",
	.operands = "NAME",
	.summary = "Make a workspace",
	.help = "NAME is 1 to 64 letters, digits, '.', '_' or '-', or a path that ends in .db.\n"
		"With --from it shares what it has in common with the other one: at once, no copy.",
	.min = 1,
	.max = 1,
	.options = create_options,
	.options_count = ARRAY_LEN(create_options),
	.run = run_create,
};

static int run_fork(struct cli *cli)
{
	return fork_from(cli, cli->argv[0], cli->argv[1]);
}

const struct command cmd_fork = {
	.name = "fork",
	.operands = "NAME[@SNAPSHOT] NEW",
	.summary = "Make a workspace with the same files, at once",
	.min = 2,
	.max = 2,
	.run = run_fork,
};

/* ---- ls ---- */

static int list_one(void *arg, const struct workspace_entry *entry)
{
	struct cli *cli = arg;
	char when[CLOCK_TEXT], size[TEXT_SIZE];

	clock_format(entry->mtime, when);
	text_size(entry->disk_bytes, size);
	out_colour(cli, COLOUR_BOLD);
	printf("%-24s", entry->workspace.name);
	out_colour(cli, COLOUR_NONE);
	printf(" %10s  %.19sZ  ", size, when);
	if (entry->owner)
		printf("awake (pid %lld)\n", (long long)entry->owner);
	else
		printf("asleep\n");
	return 0;
}

static int list_one_json(void *arg, const struct workspace_entry *entry)
{
	json_t *one = json_object();

	json_set_text(one, "name", entry->workspace.name);
	json_set_text(one, "path", entry->workspace.path);
	json_set_int(one, "disk_bytes", (int64_t)entry->disk_bytes);
	json_set_time(one, "changed", entry->mtime);
	json_set_bool(one, "awake", entry->owner != 0);
	json_object_set_new(one, "owner", entry->owner ? json_integer(entry->owner) : json_null());
	json_array_append_new(arg, one);
	return 0;
}

static int run_ls(struct cli *cli)
{
	json_t *list = cli->json ? json_array() : NULL;
	struct err err = ERR_INIT;
	int r = list ? workspace_each(list_one_json, list, &err)
		     : workspace_each(list_one, cli, &err);

	if (r < 0) {
		json_decref(list);
		return cli_fail(cli, r, &err, "%s", "");
	}
	if (list)
		out_json_take(list);
	return EXIT_OK;
}

const struct command cmd_ls = {
	.name = "ls",
	.operands = "",
	.summary = "List the workspaces",
	.help = "Their size on disk (what they share with others not counted), when they were "
		"changed,\n"
		"and the process that has them open.",
	.run = run_ls,
};

/* ---- info ---- */

static void print_quota(const char *what, uint64_t used, uint64_t quota, bool bytes)
{
	char a[TEXT_SIZE], b[TEXT_SIZE];

	if (bytes) {
		text_size(used, a);
		text_size(quota, b);
	} else {
		snprintf(a, sizeof(a), "%llu", (unsigned long long)used);
		snprintf(b, sizeof(b), "%llu", (unsigned long long)quota);
	}
	if (quota)
		printf("%-10s %s of %s\n", what, a, b);
	else
		printf("%-10s %s\n", what, a);
}

static void print_info(struct cli *cli, const struct computer_info *info)
{
	const struct workspace *workspace = computer_workspace(cli->computer);
	char when[CLOCK_TEXT], size[TEXT_SIZE];

	clock_format(info->created, when);
	text_size(info->disk_bytes, size);
	printf("name       %s%s%s\n", workspace->name, workspace->snapshot[0] ? "@" : "",
	       workspace->snapshot);
	printf("path       ");
	out_name(cli, span_str(workspace->path));
	printf("\nid         %s\ncreated    %s\n", info->id, when);
	print_quota("content", info->bytes, info->quota_bytes, true);
	print_quota("inodes", info->inodes, info->quota_inodes, false);
	printf("on disk    %s\n", size);
	printf("layers     %lld\n", (long long)info->depth);
	printf("audit      %llu records\n", (unsigned long long)info->audit_records);
	if (computer_is_owner(cli->computer))
		printf("owner      none\n");
	else
		printf("owner      pid %lld, %llu mounts, %llu programs running\n",
		       (long long)info->owner, (unsigned long long)info->mounts,
		       (unsigned long long)info->execs);
}

static int run_info(struct cli *cli)
{
	struct computer_info info;
	struct err err = ERR_INIT;
	json_t *answer;
	int status = cli_open(cli, cli->argv[0], 0), r;
	bool other;

	if (status != EXIT_OK)
		return status;
	r = computer_get_info(cli->computer, &info, &err);
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	if (!cli->json) {
		print_info(cli, &info);
		return EXIT_OK;
	}
	other = !computer_is_owner(cli->computer);
	answer = json_object();
	json_set_text(answer, "name", computer_workspace(cli->computer)->name);
	json_set_text(answer, "path", computer_workspace(cli->computer)->path);
	json_set_text(answer, "id", info.id);
	json_set_time(answer, "created", info.created);
	json_set_int(answer, "bytes", (int64_t)info.bytes);
	json_set_int(answer, "inodes", (int64_t)info.inodes);
	json_set_int(answer, "quota_bytes", (int64_t)info.quota_bytes);
	json_set_int(answer, "quota_inodes", (int64_t)info.quota_inodes);
	json_set_int(answer, "disk_bytes", (int64_t)info.disk_bytes);
	json_set_int(answer, "layers", info.depth);
	json_set_int(answer, "audit_records", (int64_t)info.audit_records);
	json_object_set_new(answer, "owner", other ? json_integer(info.owner) : json_null());
	json_set_int(answer, "mounts", (int64_t)info.mounts);
	json_set_int(answer, "execs", (int64_t)info.execs);
	json_set_bool(answer, "container", info.container);
	json_set_bool(answer, "uring", info.uring);
	json_set_int(answer, "inodes_cached", (int64_t)info.inodes_cached);
	json_set_int(answer, "inodes_dirty", (int64_t)info.inodes_dirty);
	json_set_int(answer, "bytes_cached", (int64_t)info.bytes_cached);
	json_set_int(answer, "bytes_dirty", (int64_t)info.bytes_dirty);
	json_set_int(answer, "flushes", (int64_t)info.flushes);
	json_set_int(answer, "commits", (int64_t)info.commits);
	out_json_take(answer);
	return EXIT_OK;
}

const struct command cmd_info = {
	.name = "info",
	.operands = "NAME",
	.summary = "Say what there is to know of a workspace",
	.min = 1,
	.max = 1,
	.run = run_info,
};

/* ---- rm, rename ---- */

enum { RM_YES };

static const struct option rm_options[] = {
	[RM_YES] = {"yes", 'y', OPTION_FLAG, NULL, "do not ask"},
};

/* On a terminal, a person says yes first. */
static bool agreed(struct cli *cli, const char *name)
{
	char line[16];

	if (cli->opt[RM_YES].count || !cli->tty_err)
		return true;
	fprintf(stderr, "Remove workspace %s and everything in it? [y/N] ", name);
	return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

static int run_rm(struct cli *cli)
{
	for (int i = 0; i < cli->argc; i++) {
		struct err err = ERR_INIT;
		struct workspace workspace;
		int r = workspace_resolve(cli->argv[i], &workspace, &err);

		if (r == 0 && workspace.snapshot[0])
			return cli_usage(cli,
					 "'%s' is a snapshot: computer snapshot %s %s --delete",
					 cli->argv[i], workspace.name, workspace.snapshot);
		if (r == 0 && workspace_exists(&workspace) && !agreed(cli, workspace.name))
			return EXIT_FAILED;
		if (r == 0)
			r = computer_remove(cli->argv[i], err_api(&err));
		if (r < 0) {
			cli_fail(cli, r, &err, "%s", "");
			cli->failed = true;
		}
	}
	return EXIT_OK;
}

const struct command cmd_rm = {
	.name = "rm",
	.operands = "NAME...",
	.summary = "Remove workspaces, with their snapshots",
	.help = "Layers that forks still stand on stay. Asks first on a terminal.",
	.min = 1,
	.max = -1,
	.options = rm_options,
	.options_count = ARRAY_LEN(rm_options),
	.run = run_rm,
};

static int run_rename(struct cli *cli)
{
	struct err err = ERR_INIT;
	int r = computer_rename(cli->argv[0], cli->argv[1], err_api(&err));

	return r < 0 ? cli_fail(cli, r, &err, "%s", "") : EXIT_OK;
}

const struct command cmd_rename = {
	.name = "rename",
	.operands = "NAME NEW",
	.summary = "Give a workspace another name",
	.min = 2,
	.max = 2,
	.run = run_rename,
};

/* ---- limit ---- */

enum { LIMIT_BYTES, LIMIT_INODES, LIMIT_MEMORY, LIMIT_PIDS, LIMIT_CPU };

static const struct option limit_options[] = {
	[LIMIT_BYTES] = {"bytes", 0, OPTION_SIZE, "SIZE", "most bytes of the files"},
	[LIMIT_INODES] = {"inodes", 0, OPTION_NUMBER, "N", "most files and directories"},
	[LIMIT_MEMORY] = {"memory", 0, OPTION_SIZE, "SIZE", "most memory of the container"},
	[LIMIT_PIDS] = {"pids", 0, OPTION_NUMBER, "N", "most processes of the container"},
	[LIMIT_CPU] = {"cpu", 0, OPTION_NUMBER, "PERCENT", "most of one processor"},
};

static void print_limit(const char *what, uint64_t value, bool bytes)
{
	char size[TEXT_SIZE];

	if (bytes)
		text_size(value, size);
	else
		snprintf(size, sizeof(size), "%llu", (unsigned long long)value);
	printf("%-8s %s\n", what, value ? size : "none");
}

static int run_limit(struct cli *cli)
{
	struct computer_limits limits = {0};
	struct err err = ERR_INIT;
	int status = cli_open(cli, cli->argv[0], 0), r;
	uint64_t *const fields[] = {&limits.bytes, &limits.inodes, &limits.memory_max,
				    &limits.pids_max, &limits.cpu_percent};
	bool change = false;

	if (status != EXIT_OK)
		return status;
	r = computer_get_limits(cli->computer, &limits, &err);
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		if (!cli->opt[i].count)
			continue;
		*fields[i] = (uint64_t)cli->opt[i].number;
		change = true;
	}
	if (change)
		r = computer_set_limits(cli->computer, &limits, &err);
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	if (cli->json) {
		json_t *answer = json_object();

		for (size_t i = 0; i < ARRAY_LEN(fields); i++)
			json_set_int(answer, limit_options[i].name, (int64_t)*fields[i]);
		out_json_take(answer);
		return EXIT_OK;
	}
	if (change)
		return EXIT_OK;
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		print_limit(limit_options[i].name, *fields[i],
			    limit_options[i].kind == OPTION_SIZE);
	return EXIT_OK;
}

const struct command cmd_limit = {
	.name = "limit",
	.operands = "NAME",
	.summary = "Show or set a workspace's limits",
	.help = "0 takes a limit away (for the container: back to its default). Those of the "
		"container\n"
		"hold from its next start on.",
	.min = 1,
	.max = 1,
	.options = limit_options,
	.options_count = ARRAY_LEN(limit_options),
	.run = run_limit,
};
