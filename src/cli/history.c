/* history.c - snapshot, snapshots, restore, diff: a workspace's past. */
#include "base/clock.h"
#include "base/text.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_SIZE 40

/* "restore-20260131-120000.123": a name nobody else chose. */
static void dated_name(const char *prefix, char ret_name[NAME_SIZE])
{
	char when[CLOCK_TEXT];

	clock_format(clock_now(), when);
	snprintf(ret_name, NAME_SIZE, "%s%.4s%.2s%.2s-%.2s%.2s%.2s.%.3s", prefix, when, when + 5,
		 when + 8, when + 11, when + 14, when + 17, when + 20);
}

/* ---- snapshot ---- */

enum { SNAPSHOT_DELETE };

static const struct option snapshot_options[] = {
	[SNAPSHOT_DELETE] = {"delete", 0, OPTION_FLAG, NULL, "remove the snapshot instead"},
};

static int run_snapshot(struct cli *cli)
{
	bool delete = cli->opt[SNAPSHOT_DELETE].count;
	const char *name = cli->argc > 1 ? cli->argv[1] : NULL;
	struct err err = ERR_INIT;
	char dated[NAME_SIZE];
	int status, r;

	if (delete &&!name)
		return cli_usage(cli, "which snapshot? name it");
	if (!name) {
		dated_name("", dated);
		name = dated;
	}
	status = cli_open(cli, cli->argv[0], 0);
	if (status != EXIT_OK)
		return status;
	r = delete ? computer_snapshot_remove(cli->computer, name, err_api(&err))
		   : computer_snapshot(cli->computer, name, err_api(&err));
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	if (cli->json) {
		json_t *answer = json_object();

		json_set_text(answer, "snapshot", name);
		out_json_take(answer);
	} else if (name == dated) {
		puts(name);
	}
	return EXIT_OK;
}

const struct command cmd_snapshot = {
	.name = "snapshot",
	.operands = "NAME [SNAPSHOT]",
	.summary = "Keep the files as they are now, at once",
	.help = "Without a name it is called by the time, and its name is printed.",
	.min = 1,
	.max = 2,
	.options = snapshot_options,
	.options_count = ARRAY_LEN(snapshot_options),
	.run = run_snapshot,
};

static int print_snapshot(void *arg, const struct computer_snapshot *snapshot)
{
	char when[CLOCK_TEXT], size[TEXT_SIZE];

	(void)arg;
	clock_format(snapshot->at, when);
	text_size(snapshot->bytes, size);
	printf("%-32s %.19sZ %10s %8llu inodes\n", snapshot->name, when, size,
	       (unsigned long long)snapshot->inodes);
	return 0;
}

static int add_snapshot(void *arg, const struct computer_snapshot *snapshot)
{
	json_t *one = json_object();

	json_set_text(one, "name", snapshot->name);
	json_set_time(one, "at", snapshot->at);
	json_set_int(one, "bytes", (int64_t)snapshot->bytes);
	json_set_int(one, "inodes", (int64_t)snapshot->inodes);
	json_array_append_new(arg, one);
	return 0;
}

static int run_snapshots(struct cli *cli)
{
	int status = cli_open(cli, cli->argv[0], 0), r;
	json_t *list;

	if (status != EXIT_OK)
		return status;
	list = cli->json ? json_array() : NULL;
	r = computer_snapshots(cli->computer, list ? add_snapshot : print_snapshot, list);
	if (r < 0) {
		json_decref(list);
		return cli_fail(cli, r, NULL, "cannot list them");
	}
	if (list)
		out_json_take(list);
	return EXIT_OK;
}

const struct command cmd_snapshots = {
	.name = "snapshots",
	.operands = "NAME",
	.summary = "List the snapshots, oldest first",
	.min = 1,
	.max = 1,
	.run = run_snapshots,
};

/* ---- restore ---- */

enum { RESTORE_KEEP, RESTORE_NO_KEEP };

static const struct option restore_options[] = {
	[RESTORE_KEEP] = {"keep", 0, OPTION_TEXT, "SNAPSHOT",
			  "keep what is there now under this name"},
	[RESTORE_NO_KEEP] = {"no-keep", 0, OPTION_FLAG, NULL, "lose what is there now"},
};

static int run_restore(struct cli *cli)
{
	const char *keep = cli->opt[RESTORE_KEEP].text;
	struct err err = ERR_INIT;
	char dated[NAME_SIZE];
	int status, r;

	if (keep && cli->opt[RESTORE_NO_KEEP].count)
		return cli_usage(cli, "--keep and --no-keep exclude each other");
	if (!keep && !cli->opt[RESTORE_NO_KEEP].count) {
		dated_name("before-restore-", dated);
		keep = dated;
	}
	status = cli_open(cli, cli->argv[0], 0);
	if (status != EXIT_OK)
		return status;
	r = computer_restore(cli->computer, cli->argv[1], keep, err_api(&err));
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	if (cli->json) {
		json_t *answer = json_object();

		json_set_text(answer, "snapshot", cli->argv[1]);
		json_object_set_new(answer, "kept", keep ? json_string(keep) : json_null());
		out_json_take(answer);
	} else if (keep == dated) {
		printf("what was there is kept as %s\n", keep);
	}
	return EXIT_OK;
}

const struct command cmd_restore = {
	.name = "restore",
	.operands = "NAME SNAPSHOT",
	.summary = "Make the files what they were",
	.help = "What is there now is kept as a snapshot, unless told otherwise. The audit is "
		"never undone.",
	.min = 2,
	.max = 2,
	.options = restore_options,
	.options_count = ARRAY_LEN(restore_options),
	.run = run_restore,
};

/* ---- diff ---- */

enum { DIFF_STAT, DIFF_PATCH };

static const struct option diff_options[] = {
	[DIFF_STAT] = {"stat", 0, OPTION_FLAG, NULL, "count the lines of each file"},
	[DIFF_PATCH] = {"patch", 'p', OPTION_FLAG, NULL, "show the changes as a unified diff"},
};

static const struct {
	const char *name;
	char letter;
	enum colour colour;
} kinds[] = {
	[DIFF_ADDED] = {"added", 'A', COLOUR_GREEN},
	[DIFF_CHANGED] = {"changed", 'M', COLOUR_YELLOW},
	[DIFF_DELETED] = {"deleted", 'D', COLOUR_RED},
	[DIFF_MODE] = {"mode", 'P', COLOUR_YELLOW},
	[DIFF_RENAMED] = {"renamed", 'R', COLOUR_CYAN},
};

struct diff_run {
	struct cli *cli;
	json_t *list;
	uint64_t files, added, removed;
};

static void print_paths(struct cli *cli, const struct diff_entry *entry)
{
	if (entry->old_path.len) {
		out_name(cli, entry->old_path);
		printf(" -> ");
	}
	out_name(cli, entry->path);
	if (S_ISDIR(entry->mode ? entry->mode : entry->old_mode))
		putchar('/');
	if (entry->mode && entry->old_mode && entry->mode != entry->old_mode)
		printf(" (%04o -> %04o)", entry->old_mode & 07777, entry->mode & 07777);
}

static void print_bar(struct cli *cli, const struct diff_entry *entry)
{
	uint64_t total = entry->added + entry->removed;
	uint64_t wide = total > 40 ? 40 : total, plus = total ? entry->added * wide / total : 0;

	if (entry->binary) {
		printf(" | binary, %lld -> %lld bytes", (long long)entry->old_size,
		       (long long)entry->size);
		return;
	}
	printf(" | %llu ", (unsigned long long)total);
	out_colour(cli, COLOUR_GREEN);
	for (uint64_t i = 0; i < plus; i++)
		putchar('+');
	out_colour(cli, COLOUR_RED);
	for (uint64_t i = plus; i < wide; i++)
		putchar('-');
	out_colour(cli, COLOUR_NONE);
}

/* A patch for people: coloured on a terminal; else exactly as it is. */
static void print_patch(struct cli *cli, struct span patch)
{
	while (patch.len) {
		const char *end = memchr(patch.data, '\n', patch.len);
		size_t len = end ? (size_t)(end - patch.data) : patch.len;
		char first = patch.data[0];

		if (!cli->tty_out) {
			out_bytes(patch.data, patch.len);
			return;
		}
		out_colour(cli, first == '+'   ? COLOUR_GREEN
				: first == '-' ? COLOUR_RED
				: first == '@' ? COLOUR_CYAN
					       : COLOUR_NONE);
		/* Tabs are text here, other controls are not. */
		for (struct span rest = span_of(patch.data, len); rest.len;) {
			const char *tab = memchr(rest.data, '\t', rest.len);
			size_t part = tab ? (size_t)(tab - rest.data) : rest.len;

			out_name(cli, span_of(rest.data, part));
			if (tab)
				putchar('\t');
			rest = span_of(rest.data + part + (tab != NULL),
				       rest.len - part - (tab != NULL));
		}
		out_colour(cli, COLOUR_NONE);
		putchar('\n');
		patch = end ? span_of(end + 1, patch.len - len - 1) : SPAN_EMPTY;
	}
}

static void add_change(struct diff_run *run, const struct diff_entry *entry)
{
	json_t *one = json_object();

	json_set_text(one, "change", kinds[entry->kind].name);
	json_set_bytes(one, "path", entry->path);
	if (entry->old_path.len)
		json_set_bytes(one, "old_path", entry->old_path);
	if (entry->mode) {
		json_object_set_new(one, "mode", json_sprintf("%06o", entry->mode));
		json_set_int(one, "size", entry->size);
	}
	if (entry->old_mode) {
		json_object_set_new(one, "old_mode", json_sprintf("%06o", entry->old_mode));
		json_set_int(one, "old_size", entry->old_size);
	}
	if (run->cli->opt[DIFF_STAT].count || run->cli->opt[DIFF_PATCH].count) {
		json_set_bool(one, "binary", entry->binary);
		json_set_int(one, "added", (int64_t)entry->added);
		json_set_int(one, "removed", (int64_t)entry->removed);
	}
	if (run->cli->opt[DIFF_PATCH].count)
		json_set_bytes(one, "patch", entry->patch);
	json_array_append_new(run->list, one);
}

static int on_change(void *arg, const struct diff_entry *entry)
{
	struct diff_run *run = arg;
	struct cli *cli = run->cli;

	run->files++;
	run->added += entry->added;
	run->removed += entry->removed;
	if (run->list) {
		add_change(run, entry);
	} else if (cli->opt[DIFF_PATCH].count && entry->patch.len) {
		print_patch(cli, entry->patch);
	} else {
		out_colour(cli, kinds[entry->kind].colour);
		printf("%c ", kinds[entry->kind].letter);
		out_colour(cli, COLOUR_NONE);
		print_paths(cli, entry);
		if (cli->opt[DIFF_STAT].count)
			print_bar(cli, entry);
		putchar('\n');
	}
	return cancelled() ? -ECANCELED : 0;
}

static int run_diff(struct cli *cli)
{
	struct diff_options options = {
		.from = cli->argc > 1 ? cli->argv[1] : NULL,
		.to = cli->argc > 2 ? cli->argv[2] : NULL,
		.stat = cli->opt[DIFF_STAT].count || cli->opt[DIFF_PATCH].count,
		.patch = cli->opt[DIFF_PATCH].count,
	};
	struct diff_run run = {.cli = cli};
	struct err err = ERR_INIT;
	int status = cli_open(cli, cli->argv[0], 0), r;

	if (status != EXIT_OK)
		return status;
	run.list = cli->json ? json_array() : NULL;
	r = computer_diff(cli->computer, &options, on_change, &run, &err);
	if (r < 0) {
		json_decref(run.list);
		return cli_fail(cli, r, &err, "%s", "");
	}
	if (run.list)
		out_json_take(run.list);
	else if (cli->opt[DIFF_STAT].count)
		printf("%llu changed, %llu lines added, %llu removed\n",
		       (unsigned long long)run.files, (unsigned long long)run.added,
		       (unsigned long long)run.removed);
	return EXIT_OK;
}

const struct command cmd_diff = {
	.name = "diff",
	.operands = "NAME [FROM [TO]]",
	.summary = "Show what changed",
	.help = "FROM and TO are snapshots; without TO: up to now, without FROM: since the newest "
		"snapshot.\n"
		"A added, M changed, D deleted, R renamed, P other permissions or owner.",
	.min = 1,
	.max = 3,
	.options = diff_options,
	.options_count = ARRAY_LEN(diff_options),
	.run = run_diff,
};
