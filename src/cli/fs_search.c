/* fs_search.c - fs find, grep: where something is. */
#include "base/mem.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <regex.h>
#include <string.h>
#include <sys/stat.h>

/* ---- find ---- */

enum { FIND_NAME, FIND_TYPE, FIND_DEPTH, FIND_NEWER, FIND_LARGER, FIND_PRINT0 };

static const struct option find_options[] = {
	[FIND_NAME] = {"name", 'n', OPTION_TEXT, "PATTERN",
		       "with * and ?, of the last part of the path"},
	[FIND_TYPE] = {"type", 't', OPTION_TEXT, "f|d|l|p|s|c|b", "only this kind"},
	[FIND_DEPTH] = {"max-depth", 'L', OPTION_NUMBER, "N", "no deeper than this"},
	[FIND_NEWER] = {"newer", 0, OPTION_TIME, "TIME",
			"written after: a time, or how long ago (10m)"},
	[FIND_LARGER] = {"larger", 0, OPTION_SIZE, "SIZE", "with more bytes than this"},
	[FIND_PRINT0] = {"print0", '0', OPTION_FLAG, NULL, "end each path with a NUL"},
};

static bool find_wanted(struct cli *cli, const struct fs_entry *entry)
{
	const struct value *opt = cli->opt;

	if (opt[FIND_TYPE].count) {
		char letter = fs_type_letter(entry->stat->mode);

		if ((letter == '-' ? 'f' : letter) != opt[FIND_TYPE].text[0])
			return false;
	}
	if (opt[FIND_NEWER].count && entry->stat->mtime <= opt[FIND_NEWER].number)
		return false;
	if (opt[FIND_LARGER].count && entry->stat->size <= opt[FIND_LARGER].number)
		return false;
	if (opt[FIND_NAME].count) {
		char name[SYS_PATH_MAX + 1];

		if (entry->name.len > SYS_PATH_MAX)
			return false;
		memcpy(name, entry->name.data, entry->name.len);
		name[entry->name.len] = '\0';
		return fnmatch(opt[FIND_NAME].text, name, 0) == 0;
	}
	return true;
}

static int find_entry(void *arg, const struct fs_entry *entry)
{
	struct cli *cli = arg;
	bool deepest = cli->opt[FIND_DEPTH].count && entry->depth >= cli->opt[FIND_DEPTH].number;

	if (!find_wanted(cli, entry))
		return deepest;
	if (cli->json) {
		json_t *one = json_object();

		json_set_bytes(one, "path", entry->path);
		json_set_stat(one, entry->stat);
		out_json_take(one);
	} else if (cli->opt[FIND_PRINT0].count) {
		out_bytes(entry->path.data, entry->path.len);
		putchar('\0');
	} else {
		out_name(cli, entry->path);
		putchar('\n');
	}
	if (ferror(stdout))
		return -EPIPE;
	return deepest;
}

static int run_find(struct cli *cli)
{
	static char root[] = "/";
	int status, count = cli->argc ? cli->argc : 1;

	if (cli->opt[FIND_TYPE].count && (strlen(cli->opt[FIND_TYPE].text) != 1 ||
					  !strchr("fdlpscb", cli->opt[FIND_TYPE].text[0])))
		return cli_usage(cli, "--type is one of f d l p s c b");
	status = cli_open(cli, cli->workspace, 0);
	if (status != EXIT_OK)
		return status;
	for (int i = 0; i < count; i++) {
		struct span path = span_str(cli->argc ? cli->argv[i] : root);
		int r = fs_walk(cli, path, find_entry, cli);

		if (r == -EPIPE)
			return EXIT_FAILED;
		if (r < 0)
			cli_complain(cli, r, path);
		if (r == -ECANCELED)
			return EXIT_CANCELLED;
	}
	return EXIT_OK;
}

const struct command fs_find_command = {
	.name = "find",
	.operands = "[PATH...]",
	.summary = "Find files by name, kind, time or size",
	.help = "With --json one object a line.",
	.max = -1,
	.options = find_options,
	.options_count = ARRAY_LEN(find_options),
	.run = run_find,
};

/* ---- grep ---- */

#define LINE_MAX_BYTES (64 << 20)

enum { GREP_IGNORE, GREP_FILES, GREP_INVERT, GREP_COUNT, GREP_FIXED, GREP_BASIC, GREP_NAME };

static const struct option grep_options[] = {
	[GREP_IGNORE] = {"ignore-case", 'i', OPTION_FLAG, NULL,
			 "upper and lower case are the same"},
	[GREP_FILES] = {"files", 'l', OPTION_FLAG, NULL, "only the names of the files"},
	[GREP_INVERT] = {"invert", 'v', OPTION_FLAG, NULL, "the lines that do not match"},
	[GREP_COUNT] = {"count", 'c', OPTION_FLAG, NULL, "only how many lines of each file"},
	[GREP_FIXED] = {"fixed", 'F', OPTION_FLAG, NULL, "PATTERN is text, not an expression"},
	[GREP_BASIC] = {"basic", 'G', OPTION_FLAG, NULL,
			"PATTERN is a basic expression (extended is usual)"},
	[GREP_NAME] = {"name", 0, OPTION_TEXT, "PATTERN", "only in files whose name matches"},
};

struct grep {
	struct cli *cli;
	regex_t regex;
	const char *fixed; /* or NULL */
	struct span path;
	uint64_t line_number, matches;
	uint64_t all_matches;
	bool binary;
};

static bool contains(const struct grep *grep, struct span line)
{
	size_t len = strlen(grep->fixed);

	if (!grep->cli->opt[GREP_IGNORE].count)
		return memmem(line.data, line.len, grep->fixed, len) != NULL;
	for (size_t i = 0; i + len <= line.len; i++)
		if (strncasecmp(line.data + i, grep->fixed, len) == 0)
			return true;
	return false;
}

static bool line_matches(const struct grep *grep, struct span line)
{
	regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t)line.len};
	bool found = grep->fixed ? contains(grep, line)
				 : regexec(&grep->regex, line.data, 1, &range, REG_STARTEND) == 0;

	return found != (grep->cli->opt[GREP_INVERT].count != 0);
}

static void print_match(const struct grep *grep, struct span line)
{
	struct cli *cli = grep->cli;

	if (cli->json) {
		json_t *one = json_object();

		json_set_bytes(one, "path", grep->path);
		json_set_int(one, "line", (int64_t)grep->line_number);
		json_set_bytes(one, "text", line);
		out_json_take(one);
		return;
	}
	out_colour(cli, COLOUR_CYAN);
	out_name(cli, grep->path);
	out_colour(cli, COLOUR_NONE);
	printf(":%llu:", (unsigned long long)grep->line_number);
	out_name(cli, line);
	putchar('\n');
}

/* One line of the file. False: the rest of it does not matter. */
static bool grep_line(struct grep *grep, struct span line)
{
	struct cli *cli = grep->cli;

	grep->line_number++;
	if (!line_matches(grep, line))
		return true;
	grep->matches++;
	if (cli->opt[GREP_FILES].count || (grep->binary && !cli->opt[GREP_COUNT].count))
		return false;
	if (!cli->opt[GREP_COUNT].count)
		print_match(grep, line);
	return !ferror(stdout);
}

/* Every whole line in `text`; what is left of the last one stays. */
static bool grep_lines(struct grep *grep, struct buf *text, bool end)
{
	size_t start = 0;
	bool more = true;

	while (more && start < text->len) {
		const char *line = text->data + start;
		const char *newline = memchr(line, '\n', text->len - start);
		size_t len = newline ? (size_t)(newline - line) : text->len - start;

		if (!newline && !end)
			break;
		more = grep_line(grep, span_of(line, len));
		start += len + (newline != NULL);
	}
	memmove(text->data, text->data + start, text->len - start);
	text->len -= start;
	return more;
}

static int grep_content(struct grep *grep)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(LINE_MAX_BYTES + SYS_IO_MAX);
	struct sys *sys = computer_sys(grep->cli->computer);
	int64_t offset = 0;
	int fd = sys_open(sys, SYS_CWD, grep->path, O_RDONLY | O_CLOEXEC, 0);
	ssize_t n;
	int r = 0;

	if (fd < 0)
		return fd;
	do {
		n = sys_read(sys, fd, 256 << 10, offset, &text);
		if (n < 0)
			r = (int)n;
		else if (n > 0 && offset == 0)
			grep->binary = memchr(text.data, '\0', (size_t)n) != NULL;
		if (n > 0)
			offset += n;
		if (cancelled())
			r = -ECANCELED;
	} while (r == 0 && grep_lines(grep, &text, n == 0) && n > 0);
	sys_close(sys, fd);
	return r;
}

static void grep_summary(struct grep *grep)
{
	struct cli *cli = grep->cli;

	if (cli->opt[GREP_COUNT].count && cli->json) {
		json_t *one = json_object();

		json_set_bytes(one, "path", grep->path);
		json_set_int(one, "count", (int64_t)grep->matches);
		out_json_take(one);
	} else if (cli->opt[GREP_COUNT].count) {
		out_name(cli, grep->path);
		printf(":%llu\n", (unsigned long long)grep->matches);
	} else if (!grep->matches) {
		return;
	} else if (cli->json && (cli->opt[GREP_FILES].count || grep->binary)) {
		json_t *one = json_object();

		json_set_bytes(one, "path", grep->path);
		json_set_bool(one, "binary", grep->binary);
		out_json_take(one);
	} else if (cli->opt[GREP_FILES].count) {
		out_name(cli, grep->path);
		putchar('\n');
	} else if (grep->binary) {
		out_name(cli, grep->path);
		printf(": binary file matches\n");
	}
}

static int grep_entry(void *arg, const struct fs_entry *entry)
{
	struct grep *grep = arg;
	struct cli *cli = grep->cli;
	int r;

	if (!S_ISREG(entry->stat->mode))
		return 0;
	if (cli->opt[GREP_NAME].count) {
		char name[SYS_PATH_MAX + 1];

		if (entry->name.len > SYS_PATH_MAX)
			return 0;
		memcpy(name, entry->name.data, entry->name.len);
		name[entry->name.len] = '\0';
		if (fnmatch(cli->opt[GREP_NAME].text, name, 0) != 0)
			return 0;
	}
	grep->path = entry->path;
	grep->line_number = grep->matches = 0;
	grep->binary = false;
	r = grep_content(grep);
	if (r == -ECANCELED)
		return r;
	if (r < 0)
		cli_complain(cli, r, entry->path);
	else
		grep_summary(grep);
	grep->all_matches += grep->matches;
	return ferror(stdout) ? -EPIPE : 0;
}

static int grep_paths(struct cli *cli, struct grep *grep)
{
	static char root[] = "/";
	int count = cli->argc > 1 ? cli->argc - 1 : 1;

	for (int i = 0; i < count; i++) {
		CLEANUP(buf_clear) struct buf real = BUF_INIT(SYS_PATH_MAX);
		struct span path = span_str(cli->argc > 1 ? cli->argv[1 + i] : root);
		struct sys_stat st;
		int r = sys_stat(computer_sys(cli->computer), SYS_CWD, path, AT_SYMLINK_NOFOLLOW,
				 &st);

		/* A link that is named is followed. */
		if (r == 0 && S_ISLNK(st.mode)) {
			r = sys_realpath(computer_sys(cli->computer), SYS_CWD, path, &real);
			if (r == 0)
				path = span_of(real.data, real.len);
		}
		if (r >= 0)
			r = fs_walk(cli, path, grep_entry, grep);
		if (r == -EPIPE)
			return EXIT_FAILED;
		if (r < 0)
			cli_complain(cli, r, path);
		if (r == -ECANCELED)
			return EXIT_CANCELLED;
	}
	return cli->failed ? EXIT_USAGE : grep->all_matches ? EXIT_OK : EXIT_FAILED;
}

static int run_grep(struct cli *cli)
{
	struct grep grep = {.cli = cli};
	int status, flags = REG_NEWLINE;

	if (cli->opt[GREP_FIXED].count) {
		grep.fixed = cli->argv[0];
	} else {
		int code;

		if (cli->opt[GREP_IGNORE].count)
			flags |= REG_ICASE;
		if (!cli->opt[GREP_BASIC].count)
			flags |= REG_EXTENDED;
		code = regcomp(&grep.regex, cli->argv[0], flags);
		if (code) {
			char why[128];

			regerror(code, &grep.regex, why, sizeof(why));
			return cli_usage(cli, "'%s' is no expression: %s; -F takes it as text",
					 cli->argv[0], why);
		}
	}
	status = cli_open(cli, cli->workspace, 0);
	if (status == EXIT_OK)
		status = grep_paths(cli, &grep);
	if (!grep.fixed)
		regfree(&grep.regex);
	return status;
}

const struct command fs_grep_command = {
	.name = "grep",
	.operands = "PATTERN [PATH...]",
	.summary = "Find lines by an extended regular expression",
	.help = "In files, and in everything below directories. With --json one object a line. "
		"Exit status 0\n"
		"when something was found, 1 when not, 2 for an error, as with grep(1).",
	.min = 1,
	.max = -1,
	.options = grep_options,
	.options_count = ARRAY_LEN(grep_options),
	.run = run_grep,
};
