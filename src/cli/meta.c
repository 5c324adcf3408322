/* meta.c - help, version, completion: the program about itself. */
#include "base/text.h"
#include "cli/cli_i.h"

#include <string.h>

static int run_help(struct cli *cli)
{
	const struct command *command;

	if (cli->argc == 0) {
		help_all(stdout);
		return EXIT_OK;
	}
	command = command_find(commands, cli->argv[0]);
	if (!command)
		return cli_usage(cli, "no command '%s'", cli->argv[0]);
	if (cli->argc == 1) {
		help_command(stdout, NULL, command);
		return EXIT_OK;
	}
	if (!command->sub)
		return cli_usage(cli, "'%s' has no commands of its own", command->name);
	if (!command_find(command->sub, cli->argv[1]))
		return cli_usage(cli, "no command '%s %s'", command->name, cli->argv[1]);
	help_command(stdout, command->name, command_find(command->sub, cli->argv[1]));
	return EXIT_OK;
}

const struct command cmd_help = {
	.name = "help",
	.operands = "[COMMAND [SUBCOMMAND]]",
	.summary = "Say what the commands do",
	.max = 2,
	.run = run_help,
};

static int run_version(struct cli *cli)
{
	if (cli->json) {
		json_t *answer = json_object();

		json_set_text(answer, "version", computer_version());
		out_json_take(answer);
		return EXIT_OK;
	}
	printf("computer %s\n", computer_version());
	return EXIT_OK;
}

const struct command cmd_version = {
	.name = "version",
	.operands = "",
	.summary = "Print the version",
	.run = run_version,
};

/* ---- completion ---- */

static const char *const bash_script =
	"# Completion of `computer` for bash: what `computer completion bash` prints.\n"
	"_computer()\n"
	"{\n"
	"\tlocal words\n"
	"\twords=$(computer complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null) || return\n"
	"\tif [ -n \"$words\" ]; then\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
	"\telse\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
	"\tfi\n"
	"}\n"
	"complete -F _computer computer\n";

static const char *const zsh_script =
	"#compdef computer\n"
	"# Completion of `computer` for zsh: what `computer completion zsh` prints.\n"
	"_computer()\n"
	"{\n"
	"\tlocal -a found\n"
	"\tfound=(${(f)\"$(computer complete -- ${words[2,CURRENT]} 2>/dev/null)\"})\n"
	"\tif (( ${#found} )); then\n"
	"\t\tcompadd -a found\n"
	"\telse\n"
	"\t\t_files\n"
	"\tfi\n"
	"}\n"
	"_computer \"$@\"\n";

static int run_completion(struct cli *cli)
{
	if (strcmp(cli->argv[0], "bash") == 0)
		fputs(bash_script, stdout);
	else if (strcmp(cli->argv[0], "zsh") == 0)
		fputs(zsh_script, stdout);
	else
		return cli_usage(cli, "'%s' is not bash or zsh", cli->argv[0]);
	return EXIT_OK;
}

const struct command cmd_completion = {
	.name = "completion",
	.operands = "bash|zsh",
	.summary = "Print a shell's completion script",
	.help = "For bash: source <(computer completion bash)",
	.min = 1,
	.max = 1,
	.run = run_completion,
};

static int print_workspace(void *arg, const struct workspace_entry *entry)
{
	(void)arg;
	puts(entry->workspace.name);
	return 0;
}

static int print_snapshot(void *arg, const struct computer_snapshot *snapshot)
{
	(void)arg;
	puts(snapshot->name);
	return 0;
}

static void print_commands(const struct command *const *table)
{
	for (; *table; table++)
		if ((*table)->summary[0])
			puts((*table)->name);
}

static void print_options(const struct command *command)
{
	for (size_t i = 0; i < command->options_count; i++)
		printf("--%s\n", command->options[i].name);
	puts("--json\n--help");
}

/* What could stand at the last of the words typed so far: one a line. */
static int run_complete(struct cli *cli)
{
	int last = cli->argc - 1;
	const struct command *command;

	if (last <= 0) {
		print_commands(commands);
		return EXIT_OK;
	}
	command = command_find(commands, cli->argv[0]);
	if (!command)
		return EXIT_OK;
	if (command == &cmd_help) {
		print_commands(commands);
		return EXIT_OK;
	}
	if (command->sub && last == 2) {
		print_commands(command->sub);
		return EXIT_OK;
	}
	if (command->sub && last > 2)
		command = command_find(command->sub, cli->argv[2]);
	if (command && cli->argv[last][0] == '-') {
		print_options(command);
		return EXIT_OK;
	}
	if (last == 1 && strncmp(command ? command->operands : "", "NAME", 4) == 0)
		return workspace_each(print_workspace, NULL, NULL) < 0 ? EXIT_FAILED : EXIT_OK;
	if (command && last >= 2 && strstr(command->operands, "SNAPSHOT") && !command->program) {
		int status = cli_open(cli, cli->argv[1], COMPUTER_READONLY);

		if (status == EXIT_OK)
			(void)computer_snapshots(cli->computer, print_snapshot, NULL);
		return status;
	}
	return EXIT_OK;
}

const struct command cmd_complete = {
	.name = "complete",
	.operands = "WORD...",
	.summary = "",
	.help = "For completion scripts: what could stand at the last word.",
	.max = -1,
	.run = run_complete,
};
