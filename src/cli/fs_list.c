/* fs_list.c - fs ls, stat, tree: what is there. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static void out_kind_colour(struct cli *cli, uint32_t mode)
{
	if (S_ISDIR(mode))
		out_colour(cli, COLOUR_BLUE);
	else if (S_ISLNK(mode))
		out_colour(cli, COLOUR_CYAN);
	else if (S_ISREG(mode) && (mode & 0111))
		out_colour(cli, COLOUR_GREEN);
}

/* Where a symbolic link leads; empty when it cannot be read. */
static void link_target(struct cli *cli, struct span path, struct buf *target)
{
	(void)!sys_readlink(computer_sys(cli->computer), SYS_CWD, path, target);
}

/* ---- ls ---- */

enum { LS_LONG, LS_ALL, LS_RECURSIVE, LS_DIR };

static const struct option ls_options[] = {
	[LS_LONG] = {"long", 'l', OPTION_FLAG, NULL, "mode, owner, size and time too"},
	[LS_ALL] = {"all", 'a', OPTION_FLAG, NULL, "names that start with a dot too"},
	[LS_RECURSIVE] = {"recursive", 'r', OPTION_FLAG, NULL, "everything below, as paths"},
	[LS_DIR] = {"directory", 'd', OPTION_FLAG, NULL, "the directory itself, not what is in it"},
};

struct ls_run {
	struct cli *cli;
	json_t *list;
	int listed_depth; /* only entries of this depth or more */
};

static void print_entry(struct ls_run *run, const struct fs_entry *entry, struct span shown)
{
	struct cli *cli = run->cli;
	const struct sys_stat *st = entry->stat;
	CLEANUP(buf_clear) struct buf target = BUF_INIT(SYS_PATH_MAX);
	char mode[11], when[CLOCK_TEXT];

	if (cli->opt[LS_LONG].count) {
		fs_mode_text(st->mode, mode);
		clock_format(st->mtime, when);
		printf("%s %3u %5u %5u %12lld %.19sZ ", mode, st->nlink, st->uid, st->gid,
		       (long long)st->size, when);
	}
	out_kind_colour(cli, st->mode);
	out_name(cli, shown);
	out_colour(cli, COLOUR_NONE);
	if (cli->opt[LS_LONG].count && S_ISLNK(st->mode)) {
		link_target(cli, entry->path, &target);
		printf(" -> ");
		out_name(cli, span_of(target.data, target.len));
	}
	putchar('\n');
}

static int ls_entry(void *arg, const struct fs_entry *entry)
{
	struct ls_run *run = arg;
	struct cli *cli = run->cli;
	bool recursive = cli->opt[LS_RECURSIVE].count;

	if (entry->depth > 0 && entry->name.data[0] == '.' && !cli->opt[LS_ALL].count && !recursive)
		return 1;
	if (entry->depth >= run->listed_depth) {
		struct span shown = recursive || run->listed_depth == 0 ? entry->path : entry->name;

		if (run->list) {
			CLEANUP(buf_clear) struct buf target = BUF_INIT(SYS_PATH_MAX);
			json_t *one = json_object();

			json_set_bytes(one, "name", entry->name);
			json_set_bytes(one, "path", entry->path);
			json_set_stat(one, entry->stat);
			if (S_ISLNK(entry->stat->mode)) {
				link_target(cli, entry->path, &target);
				json_set_bytes(one, "target", span_of(target.data, target.len));
			}
			json_array_append_new(run->list, one);
		} else {
			print_entry(run, entry, shown);
		}
	}
	return entry->depth >= 1 && !recursive ? 1 : cli->opt[LS_DIR].count ? 1 : 0;
}

static int ls_path(struct ls_run *run, struct span path)
{
	struct cli *cli = run->cli;
	struct sys_stat st;
	int r = sys_stat(computer_sys(cli->computer), SYS_CWD, path, 0, &st);
	CLEANUP(buf_clear) struct buf real = BUF_INIT(SYS_PATH_MAX);

	if (r == 0 && S_ISDIR(st.mode) && !cli->opt[LS_DIR].count) {
		/* `ls LINK` lists where it leads. */
		r = sys_realpath(computer_sys(cli->computer), SYS_CWD, path, &real);
		if (r < 0)
			return r;
		run->listed_depth = 1;
		return fs_walk(cli, span_of(real.data, real.len), ls_entry, run);
	}
	run->listed_depth = 0;
	return fs_walk(cli, path, ls_entry, run);
}

static int run_ls(struct cli *cli)
{
	static char root[] = "/";
	struct ls_run run = {.cli = cli};
	int status = cli_open(cli, cli->workspace, 0);
	int count = cli->argc ? cli->argc : 1;

	if (status != EXIT_OK)
		return status;
	run.list = cli->json ? json_array() : NULL;
	for (int i = 0; i < count; i++) {
		struct span path = span_str(cli->argc ? cli->argv[i] : root);
		int r;

		if (count > 1 && !run.list && !cli->opt[LS_RECURSIVE].count && fs_is_dir(cli, path))
			printf("%s%s:\n", i ? "\n" : "", cli->argv[i]);
		r = ls_path(&run, path);
		if (r < 0)
			cli_complain(cli, r, path);
		if (r == -ECANCELED)
			break;
	}
	if (run.list)
		out_json_take(run.list);
	return EXIT_OK;
}

const struct command fs_ls_command = {
	.name = "ls",
	.operands = "[PATH...]",
	.summary = "List a directory",
	.max = -1,
	.options = ls_options,
	.options_count = ARRAY_LEN(ls_options),
	.run = run_ls,
};

/* ---- stat ---- */

static void print_stat(struct cli *cli, struct span path, const struct sys_stat *st,
		       struct span target)
{
	char mode[11], times[4][CLOCK_TEXT];

	fs_mode_text(st->mode, mode);
	clock_format(st->atime, times[0]);
	clock_format(st->mtime, times[1]);
	clock_format(st->ctime, times[2]);
	clock_format(st->btime, times[3]);
	printf("path    ");
	out_name(cli, path);
	if (S_ISLNK(st->mode)) {
		printf(" -> ");
		out_name(cli, target);
	}
	printf("\nmode    %s (%04o)\nowner   %u:%u\nsize    %lld bytes, %lld blocks\n", mode,
	       st->mode & 07777, st->uid, st->gid, (long long)st->size, (long long)st->blocks);
	printf("inode   %lld, %u links\n", (long long)st->ino, st->nlink);
	printf("read    %s\nwritten %s\nchanged %s\nborn    %s\n", times[0], times[1], times[2],
	       times[3]);
}

static int run_stat(struct cli *cli)
{
	struct sys *sys;
	int status = cli_open(cli, cli->workspace, 0);
	json_t *list;

	if (status != EXIT_OK)
		return status;
	sys = computer_sys(cli->computer);
	list = cli->json ? json_array() : NULL;
	for (int i = 0; i < cli->argc; i++) {
		CLEANUP(buf_clear) struct buf target = BUF_INIT(SYS_PATH_MAX);
		struct span path = span_str(cli->argv[i]);
		struct sys_stat st;
		int r = sys_stat(sys, SYS_CWD, path, AT_SYMLINK_NOFOLLOW, &st);

		if (r < 0) {
			cli_complain(cli, r, path);
			continue;
		}
		if (S_ISLNK(st.mode))
			link_target(cli, path, &target);
		if (list) {
			json_t *one = json_object();

			json_set_bytes(one, "path", path);
			json_set_stat(one, &st);
			json_set_time(one, "atime", st.atime);
			json_set_time(one, "ctime", st.ctime);
			json_set_time(one, "btime", st.btime);
			json_set_int(one, "blocks", st.blocks);
			json_set_int(one, "mtime_ns", st.mtime);
			if (S_ISLNK(st.mode))
				json_set_bytes(one, "target", span_of(target.data, target.len));
			json_array_append_new(list, one);
		} else {
			if (i)
				putchar('\n');
			print_stat(cli, path, &st, span_of(target.data, target.len));
		}
	}
	if (list)
		out_json_take(list);
	return EXIT_OK;
}

const struct command fs_stat_command = {
	.name = "stat",
	.operands = "PATH...",
	.summary = "Say what there is to know of a file",
	.min = 1,
	.max = -1,
	.run = run_stat,
};

/* ---- tree ---- */

enum { TREE_DEPTH };

static const struct option tree_options[] = {
	[TREE_DEPTH] = {"depth", 'L', OPTION_NUMBER, "N", "no deeper than this"},
};

struct tree_run {
	struct cli *cli;
	json_t *stack[FS_TREE_DEPTH_MAX + 1]; /* the "entries" of each directory above; borrowed */
	json_t *root;
	bool last[FS_TREE_DEPTH_MAX + 1];
	uint64_t dirs, files;
};

static void tree_json(struct tree_run *run, const struct fs_entry *entry)
{
	json_t *one = json_object();

	json_set_bytes(one, "name", entry->name);
	json_set_stat(one, entry->stat);
	if (S_ISDIR(entry->stat->mode)) {
		run->stack[entry->depth] = json_array();
		json_object_set_new(one, "entries", run->stack[entry->depth]);
	}
	if (entry->depth == 0)
		run->root = one;
	else
		json_array_append_new(run->stack[entry->depth - 1], one);
}

static int tree_entry(void *arg, const struct fs_entry *entry)
{
	struct tree_run *run = arg;
	struct cli *cli = run->cli;
	int most = cli->opt[TREE_DEPTH].count && cli->opt[TREE_DEPTH].number < FS_TREE_DEPTH_MAX
			   ? (int)cli->opt[TREE_DEPTH].number
			   : FS_TREE_DEPTH_MAX;

	if (entry->depth > most)
		return 1;
	if (entry->depth > 0)
		*(S_ISDIR(entry->stat->mode) ? &run->dirs : &run->files) += 1;
	if (cli->json) {
		tree_json(run, entry);
		return entry->depth >= most;
	}
	run->last[entry->depth] = entry->last;
	for (int i = 1; i < entry->depth; i++)
		fputs(run->last[i] ? "    " : "\342\224\202   ", stdout);
	if (entry->depth > 0)
		fputs(entry->last ? "\342\224\224\342\224\200\342\224\200 "
				  : "\342\224\234\342\224\200\342\224\200 ",
		      stdout);
	out_kind_colour(cli, entry->stat->mode);
	out_name(cli, entry->depth ? entry->name : entry->path);
	out_colour(cli, COLOUR_NONE);
	if (S_ISLNK(entry->stat->mode)) {
		CLEANUP(buf_clear) struct buf target = BUF_INIT(SYS_PATH_MAX);

		link_target(cli, entry->path, &target);
		printf(" -> ");
		out_name(cli, span_of(target.data, target.len));
	}
	putchar('\n');
	return entry->depth >= most;
}

static int run_tree(struct cli *cli)
{
	CLEANUP(mem_free) struct tree_run *run = NULL;
	struct span path = span_str(cli->argc ? cli->argv[0] : "/");
	int status = cli_open(cli, cli->workspace, 0), r;

	if (status != EXIT_OK)
		return status;
	run = mem_alloc0(sizeof(*run));
	run->cli = cli;
	r = fs_walk(cli, path, tree_entry, run);
	if (r < 0) {
		json_decref(run->root);
		return cli_fail(cli, r, NULL, "%.*s", (int)path.len, path.data);
	}
	if (cli->json)
		out_json_take(run->root);
	else
		printf("\n%llu directories, %llu files\n", (unsigned long long)run->dirs,
		       (unsigned long long)run->files);
	return EXIT_OK;
}

const struct command fs_tree_command = {
	.name = "tree",
	.operands = "[PATH]",
	.summary = "Draw a directory and all below",
	.max = 1,
	.options = tree_options,
	.options_count = ARRAY_LEN(tree_options),
	.run = run_tree,
};
