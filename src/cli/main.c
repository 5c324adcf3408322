/* main.c - `computer`: find the command, run it, end with the right status. */
#include "base/text.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND(name) extern const struct command cmd_##name;
#include "cli/commands.def"
#undef COMMAND

const struct command *const commands[] = {
#define COMMAND(name) &cmd_##name,
#include "cli/commands.def"
#undef COMMAND
	NULL,
};

static bool is_help(const char *text)
{
	return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

static int unknown_command(struct cli *cli, const struct command *const *table, const char *name)
{
	const char *nearest = args_nearest(table, name);

	if (nearest)
		return cli_usage(cli, "unknown command '%s', perhaps '%s'", name, nearest);
	return cli_usage(cli, "unknown command '%s'", name);
}

static int run_command(struct cli *cli, int argc, char **argv)
{
	int status = args_parse(cli, argc, argv);

	if (cli->help)
		help_command(stdout, cli->group, cli->command);
	else if (status == EXIT_OK)
		status = cli->command->run(cli);
	status = cli_close(cli, status);
	if (status == EXIT_OK && cli->failed)
		status = EXIT_FAILED;
	args_clear(cli);
	return status;
}

/* `computer fs NAME COMMAND ...`: NAME is opened by the command, as its first operand is not. */
static int run_group(struct cli *cli, const struct command *group, int argc, char **argv)
{
	if (argc == 0 || is_help(argv[0]) || (argc > 1 && is_help(argv[1]))) {
		help_command(argc ? stdout : stderr, NULL, group);
		return argc ? EXIT_OK : EXIT_USAGE;
	}
	cli->command = group;
	if (argc < 2)
		return cli_usage(cli, "expected NAME COMMAND");
	cli->command = command_find(group->sub, argv[1]);
	if (!cli->command) {
		cli->command = group;
		return unknown_command(cli, group->sub, argv[1]);
	}
	cli->group = group->name;
	cli->workspace = argv[0];
	return run_command(cli, argc - 2, argv + 2);
}

static int run(struct cli *cli, int argc, char **argv)
{
	const struct command *command;
	const char *name;

	if (argc < 2) {
		help_all(stderr);
		return EXIT_USAGE;
	}
	if (is_help(argv[1])) {
		help_all(stdout);
		return EXIT_OK;
	}
	name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
	command = command_find(commands, name);
	if (!command)
		return unknown_command(cli, commands, name);
	if (command->sub)
		return run_group(cli, command, argc - 2, argv + 2);
	cli->command = command;
	return run_command(cli, argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
	const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
	struct cli cli = {0};
	int status;

	setlocale(LC_CTYPE, "C.UTF-8");
	cancel_init();
	cli.tty_out = isatty(1);
	cli.tty_err = isatty(2);
	cli.colour = cli.tty_out && !(no_colour && *no_colour) && term && strcmp(term, "dumb") != 0;

	status = run(&cli, argc, argv);

	progress_end(&cli);
	/* A reader that went away (head) is no failure worth a word; a full disk is. */
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout)) {
		if (errno != EPIPE)
			fprintf(stderr, "computer: cannot write the output: %s\n", strerror(errno));
		if (status == EXIT_OK)
			status = EXIT_FAILED;
	}
	return status;
}
