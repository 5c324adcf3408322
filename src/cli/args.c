/* args.c - the command line taken apart by tables. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <string.h>
#include <time.h>

const struct command *command_find(const struct command *const *table, const char *name)
{
	for (; *table; table++)
		if (strcmp((*table)->name, name) == 0)
			return *table;
	return NULL;
}

/* How many letters must change to make one word of the other (Levenshtein), up to 32 letters. */
static size_t distance(const char *a, const char *b)
{
	size_t row[33], la = strlen(a), lb = strlen(b);

	if (la > 32 || lb > 32)
		return SIZE_MAX;
	for (size_t j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t best = corner + (a[i - 1] != b[j - 1]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			corner = row[j];
			row[j] = best;
		}
	}
	return row[lb];
}

/* Near enough to be what was meant. */
static bool is_near(const char *given, const char *name, size_t *best)
{
	size_t d = distance(given, name);
	size_t most = strlen(given) < 5 ? 1 : 2;

	if (d > most || d >= *best)
		return false;
	*best = d;
	return true;
}

const char *args_nearest(const struct command *const *table, const char *name)
{
	const char *nearest = NULL;
	size_t best = SIZE_MAX;

	for (; *table; table++)
		if (is_near(name, (*table)->name, &best))
			nearest = (*table)->name;
	return nearest;
}

int args_time(const char *text, int64_t *ret_ns)
{
	static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
					    "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"};
	int64_t ago;

	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		struct tm tm = {0};
		const char *rest = strptime(text, forms[i], &tm);

		if (!rest)
			continue;
		if (*rest == '.')
			rest += 1 + strspn(rest + 1, "0123456789");
		if (*rest && strcmp(rest, "Z") != 0)
			continue;
		*ret_ns = (int64_t)timegm(&tm) * 1000000000;
		return 0;
	}
	if (parse_duration(text, &ago) < 0)
		return -EINVAL;
	*ret_ns = clock_now() - ago;
	return 0;
}

static int parse_value(struct cli *cli, const struct option *option, const char *text,
		       struct value *value)
{
	uint64_t number = 0;
	const char *want = NULL;
	int r = 0;

	switch (option->kind) {
	case OPTION_NUMBER:
		r = parse_u64(text, &number);
		want = "a number";
		break;
	case OPTION_SIZE:
		r = parse_size(text, &number);
		want = "a size: 4096, 64K, 10M, 2G";
		break;
	case OPTION_DURATION:
		r = parse_duration(text, &value->number);
		want = "a time: 250ms, 10s, 5m, 2h";
		break;
	case OPTION_TIME:
		r = args_time(text, &value->number);
		want = "a time (2026-01-31T12:00:00Z), a date, or how long ago (10m)";
		break;
	case OPTION_FLAG:
	case OPTION_TEXT:
	case OPTION_LIST:
		break;
	}
	if (r == 0 && number > INT64_MAX)
		r = -ERANGE;
	if (r < 0)
		return cli_usage(cli, "--%s: '%s' is not %s", option->name, text, want);
	if (option->kind == OPTION_NUMBER || option->kind == OPTION_SIZE)
		value->number = (int64_t)number;
	value->text = text;
	if (option->kind == OPTION_LIST) {
		value->list = mem_realloc(value->list, (value->count + 1) * sizeof(char *));
		value->list[value->count] = text;
	}
	value->count++;
	return EXIT_OK;
}

/* The option `--name` (of `len` letters) of this command, or NULL. */
static const struct option *find_long(const struct cli *cli, const char *name, size_t len)
{
	const struct option *option = cli->command->options;

	for (size_t i = 0; i < cli->command->options_count; i++, option++)
		if (strlen(option->name) == len && memcmp(option->name, name, len) == 0)
			return option;
	return NULL;
}

/* `given` starts with "--" and may hold a value. */
static int unknown_option(struct cli *cli, const char *given)
{
	CLEANUP(mem_free) char *name = strndup(given, strcspn(given, "="));
	const struct option *option = cli->command->options;
	const char *nearest = NULL;
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < cli->command->options_count; i++, option++)
		if (is_near(name + 2, option->name, &best))
			nearest = option->name;
	if (is_near(name + 2, "json", &best))
		nearest = "json";
	if (nearest)
		return cli_usage(cli, "unknown option '%s', perhaps '--%s'", name, nearest);
	return cli_usage(cli, "unknown option '%s'", name);
}

static int parse_long(struct cli *cli, char **argv, int argc, int *i)
{
	const char *name = argv[*i] + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct option *option = find_long(cli, name, len);
	struct value *value;

	if (!option && strcmp(name, "json") == 0) {
		cli->json = true;
		return EXIT_OK;
	}
	if (!option && strcmp(name, "help") == 0) {
		cli->help = true;
		return EXIT_OK;
	}
	if (!option)
		return unknown_option(cli, argv[*i]);
	value = &cli->opt[option - cli->command->options];
	if (option->kind == OPTION_FLAG) {
		if (equals)
			return cli_usage(cli, "--%s takes no value", option->name);
		value->count++;
		return EXIT_OK;
	}
	if (equals)
		return parse_value(cli, option, equals + 1, value);
	if (*i + 1 >= argc)
		return cli_usage(cli, "--%s needs a value: %s", option->name, option->value);
	return parse_value(cli, option, argv[++*i], value);
}

/* "-rl", "-n5", "-n 5". */
static int parse_letters(struct cli *cli, char **argv, int argc, int *i)
{
	for (const char *p = argv[*i] + 1; *p; p++) {
		const struct option *option = cli->command->options;
		size_t k = 0;

		while (k < cli->command->options_count && option[k].letter != *p)
			k++;
		if (k == cli->command->options_count && *p == 'h') {
			cli->help = true;
			return EXIT_OK;
		}
		if (k == cli->command->options_count)
			return cli_usage(cli, "unknown option '-%c'", *p);
		if (option[k].kind == OPTION_FLAG) {
			cli->opt[k].count++;
			continue;
		}
		if (p[1])
			return parse_value(cli, &option[k], p + 1, &cli->opt[k]);
		if (*i + 1 >= argc)
			return cli_usage(cli, "-%c needs a value: %s", *p, option[k].value);
		return parse_value(cli, &option[k], argv[++*i], &cli->opt[k]);
	}
	return EXIT_OK;
}

int args_parse(struct cli *cli, int argc, char **argv)
{
	const struct command *command = cli->command;
	bool options = true;
	int status;

	cli->argv = mem_alloc0((size_t)(argc + 1) * sizeof(char *));
	for (int i = 0; i < argc; i++) {
		if (!options || argv[i][0] != '-' || !argv[i][1]) {
			cli->argv[cli->argc++] = argv[i];
			/* `exec NAME ls -l`: the program's options are not ours. */
			if (command->program && cli->argc > 1)
				options = false;
			continue;
		}
		if (strcmp(argv[i], "--") == 0) {
			options = false;
			continue;
		}
		status = argv[i][1] == '-' ? parse_long(cli, argv, argc, &i)
					   : parse_letters(cli, argv, argc, &i);
		if (status != EXIT_OK || cli->help)
			return status;
	}
	if (cli->argc < command->min)
		return cli_usage(cli, "expected %s", command->operands);
	if (command->max >= 0 && cli->argc > command->max)
		return cli_usage(cli, "'%s' is one operand too many", cli->argv[command->max]);
	return EXIT_OK;
}

void args_clear(struct cli *cli)
{
	for (size_t i = 0; i < OPTIONS_MAX; i++)
		free(cli->opt[i].list);
	free(cli->argv);
	cli->argv = NULL;
}
