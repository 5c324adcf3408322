/* audit.c - audit: what happened in a workspace, and whether the record is whole. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

enum {
	AUDIT_SINCE,
	AUDIT_UNTIL,
	AUDIT_ACTOR,
	AUDIT_OP,
	AUDIT_PATH,
	AUDIT_EXEC,
	AUDIT_LIMIT,
	AUDIT_FOLLOW
};

static const struct option audit_options[] = {
	[AUDIT_SINCE] = {"since", 0, OPTION_TIME, "TIME",
			 "not before: a time, a date, or how long ago (10m)"},
	[AUDIT_UNTIL] = {"until", 0, OPTION_TIME, "TIME", "not after"},
	[AUDIT_ACTOR] = {"actor", 0, OPTION_TEXT, "WHO", "cli, mount, container, ..."},
	[AUDIT_OP] = {"op", 0, OPTION_LIST, "OPERATION", "write, unlink, ...; may be given again"},
	[AUDIT_PATH] = {"path", 0, OPTION_TEXT, "PATH",
			"this, or below it; or a pattern with * and ?"},
	[AUDIT_EXEC] = {"exec", 0, OPTION_TEXT, "ID", "of this exec"},
	[AUDIT_LIMIT] = {"limit", 'n', OPTION_NUMBER, "N", "only the last N"},
	[AUDIT_FOLLOW] = {"follow", 'f', OPTION_FLAG, NULL, "wait for more"},
};

/* The last lines that --limit lets through, in a ring. */
struct lines {
	char **line;
	size_t size, next, count;
};

struct audit_run {
	struct cli *cli;
	bool ops[GATE_OPS];
	struct lines last; /* size 0: print at once */
};

static bool path_matches(const char *pattern, struct span path)
{
	CLEANUP(mem_free) char *text = mem_alloc(path.len + 1);
	size_t len = strlen(pattern);

	memcpy(text, path.len ? path.data : "", path.len);
	text[path.len] = '\0';
	if (strpbrk(pattern, "*?["))
		return fnmatch(pattern, text, 0) == 0;
	while (len > 1 && pattern[len - 1] == '/')
		len--;
	if (len == 1 && pattern[0] == '/')
		return true;
	return path.len >= len && memcmp(text, pattern, len) == 0 &&
	       (path.len == len || text[len] == '/');
}

static bool wanted(const struct audit_run *run, const struct audit_entry *entry)
{
	const struct value *opt = run->cli->opt;
	const struct gate_record *record = entry->record;

	if (opt[AUDIT_SINCE].count && record->at < opt[AUDIT_SINCE].number)
		return false;
	if (opt[AUDIT_UNTIL].count && record->at > opt[AUDIT_UNTIL].number)
		return false;
	if (opt[AUDIT_ACTOR].count && strcmp(record->who.actor, opt[AUDIT_ACTOR].text) != 0)
		return false;
	if (opt[AUDIT_EXEC].count && strcmp(record->who.exec, opt[AUDIT_EXEC].text) != 0)
		return false;
	if (opt[AUDIT_OP].count && !run->ops[record->op])
		return false;
	return !opt[AUDIT_PATH].count || path_matches(opt[AUDIT_PATH].text, entry->path) ||
	       path_matches(opt[AUDIT_PATH].text, entry->path2);
}

static char *json_line(const struct audit_entry *entry)
{
	const struct gate_record *record = entry->record;
	json_t *one = json_object();
	char *line;

	json_set_int(one, "seq", (int64_t)record->seq);
	json_set_time(one, "at", record->at);
	json_set_text(one, "op", gate_op_name(record->op));
	json_set_text(one, "actor", record->who.actor);
	json_set_text(one, "backend", record->who.backend);
	json_set_text(one, "exec", record->who.exec);
	json_set_int(one, "uid", record->who.uid);
	json_set_int(one, "gid", record->who.gid);
	json_set_int(one, "pid", record->who.pid);
	if (entry->path.len)
		json_set_bytes(one, "path", entry->path);
	if (entry->path2.len)
		json_set_bytes(one, "path2", entry->path2);
	json_set_bytes(one, "name", record->name);
	if (record->name2.len)
		json_set_bytes(one, "name2", record->name2);
	json_set_int(one, "ino", record->ino);
	json_set_int(one, "offset", record->offset);
	json_set_int(one, "size", record->size);
	line = json_dumps(one, JSON_COMPACT);
	json_decref(one);
	return line;
}

static void add_name(struct cli *cli, struct buf *line, struct span name)
{
	if (cli->tty_out)
		(void)!text_add_escaped(line, name);
	else
		(void)!buf_add(line, name.data, name.len);
}

static void add_details(struct buf *line, const struct gate_record *record)
{
	long long offset = record->offset, size = record->size;

	if (record->op == GATE_WRITE || record->op == GATE_ALLOC || record->op == GATE_COPY)
		(void)text_add(line, " (%lld bytes at %lld)", size, offset);
	else if (record->op == GATE_TRUNCATE)
		(void)text_add(line, " (to %lld bytes)", size);
	else if (record->op == GATE_CHMOD)
		(void)text_add(line, " (to %04llo)", (unsigned long long)size & 07777);
	else if (record->op == GATE_CHOWN)
		(void)text_add(line, " (to %lld:%lld)", offset, size);
}

static char *text_line(struct cli *cli, const struct audit_entry *entry)
{
	CLEANUP(buf_clear) struct buf line = BUF_INIT(1 << 20);
	const struct gate_record *record = entry->record;
	char when[CLOCK_TEXT];
	size_t len;

	clock_format(record->at, when);
	(void)text_add(&line, "%8llu %s %-9s %-9s ", (unsigned long long)record->seq, when,
		       record->who.actor, gate_op_name(record->op));
	if (entry->path.len)
		add_name(cli, &line, entry->path);
	else if (record->name.len)
		add_name(cli, &line, record->name);
	else if (record->ino)
		(void)text_add(&line, "inode %lld", (long long)record->ino);
	if (entry->path2.len || record->name2.len) {
		(void)text_add(&line, " -> ");
		add_name(cli, &line, entry->path2.len ? entry->path2 : record->name2);
	}
	add_details(&line, record);
	if (record->who.exec[0])
		(void)text_add(&line, " [%s]", record->who.exec);
	return buf_take(&line, &len);
}

static int on_record(void *arg, const struct audit_entry *entry)
{
	struct audit_run *run = arg;
	struct lines *last = &run->last;
	char *line;

	if (cancelled())
		return -ECANCELED;
	if (!wanted(run, entry))
		return 0;
	line = run->cli->json ? json_line(entry) : text_line(run->cli, entry);
	if (last->size) {
		free(last->line[last->next]);
		last->line[last->next] = line;
		last->next = (last->next + 1) % last->size;
		last->count++;
		return 0;
	}
	puts(line);
	free(line);
	if (run->cli->opt[AUDIT_FOLLOW].count && fflush(stdout) != 0)
		return -EPIPE;
	return 0;
}

static void print_last(struct lines *last)
{
	for (size_t i = 0; i < last->size; i++) {
		char *line = last->line[(last->next + i) % last->size];

		if (line)
			puts(line);
		free(line);
	}
	free(last->line);
	*last = (struct lines){0};
}

static int run_verify(struct cli *cli)
{
	struct err err = ERR_INIT;
	uint64_t records = 0;
	int status = cli_open(cli, cli->argv[1], 0), r;

	if (status != EXIT_OK)
		return status;
	r = computer_audit_verify(cli->computer, &records, &err);
	if (r < 0)
		return cli_fail(cli, r, &err, "%s", "");
	if (cli->json) {
		json_t *answer = json_object();

		json_set_bool(answer, "whole", true);
		json_set_int(answer, "records", (int64_t)records);
		out_json_take(answer);
	} else {
		printf("%llu records, the chain is whole\n", (unsigned long long)records);
	}
	return EXIT_OK;
}

/* Follow after the last records of --limit: those first, then what comes. */
static int audit_all(struct cli *cli, struct audit_run *run, struct err *err)
{
	struct audit_options options = {.cancel_fd = cancel_fd()};
	struct computer_info info;
	bool follow = cli->opt[AUDIT_FOLLOW].count;
	int r;

	if (!run->last.size || !follow) {
		options.follow = follow;
		return computer_audit(cli->computer, &options, on_record, run, err);
	}
	r = computer_get_info(cli->computer, &info, err);
	if (r == 0)
		r = computer_audit(cli->computer, &options, on_record, run, err);
	if (r < 0)
		return r;
	print_last(&run->last);
	fflush(stdout);
	options.after = info.audit_records;
	options.follow = true;
	return computer_audit(cli->computer, &options, on_record, run, err);
}

static int run_audit(struct cli *cli)
{
	struct audit_run run = {.cli = cli};
	struct err err = ERR_INIT;
	int status, r;

	if (cli->argc == 2 && strcmp(cli->argv[0], "verify") == 0)
		return run_verify(cli);
	if (cli->argc == 2)
		return cli_usage(cli, "expected NAME, or verify NAME");
	for (size_t i = 0; i < cli->opt[AUDIT_OP].count; i++) {
		enum gate_op op = gate_op_find(cli->opt[AUDIT_OP].list[i]);

		if (op == GATE_OPS)
			return cli_usage(cli, "--op: there is no operation '%s'",
					 cli->opt[AUDIT_OP].list[i]);
		run.ops[op] = true;
	}
	if (cli->opt[AUDIT_LIMIT].count) {
		int64_t limit = cli->opt[AUDIT_LIMIT].number;

		if (limit < 1 || limit > 1000000)
			return cli_usage(cli, "--limit is 1 to 1000000");
		run.last.size = (size_t)limit;
		run.last.line = mem_alloc0(run.last.size * sizeof(char *));
	}
	status = cli_open(cli, cli->argv[0], 0);
	if (status == EXIT_OK) {
		r = audit_all(cli, &run, &err);
		if (r == -ECANCELED && cli->opt[AUDIT_FOLLOW].count)
			r = 0;
		if (r < 0 && r != -EPIPE)
			status = cli_fail(cli, r, &err, "%s", "");
	}
	print_last(&run.last);
	return status;
}

const struct command cmd_audit = {
	.name = "audit",
	.operands = "NAME | verify NAME",
	.summary = "Show what changed the files, who and when",
	.help = "Oldest first; with --json one object a line. `audit verify NAME` recomputes the "
		"hash chain,\n"
		"and says which record does not fit.",
	.min = 1,
	.max = 2,
	.options = audit_options,
	.options_count = ARRAY_LEN(audit_options),
	.run = run_audit,
};
