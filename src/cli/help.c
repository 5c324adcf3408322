/* help.c - --help, from the tables. */
#include "cli/cli_i.h"

#include <string.h>

static void print_options(FILE *out, const struct command *command)
{
	const struct option *option = command->options;

	fprintf(out, "\nOptions:\n");
	for (size_t i = 0; i < command->options_count; i++, option++) {
		char left[64];

		snprintf(left, sizeof(left), "%c%c%s--%s%s%s", option->letter ? '-' : ' ',
			 option->letter ? option->letter : ' ', option->letter ? ", " : "  ",
			 option->name, option->value ? " " : "",
			 option->value ? option->value : "");
		fprintf(out, "  %-28s %s\n", left, option->help);
	}
	fprintf(out, "  %-28s %s\n", "    --json", "the answer as JSON");
	fprintf(out, "  %-28s %s\n", "-h, --help", "this text");
}

void help_command(FILE *out, const char *group, const struct command *command)
{
	if (command->sub)
		fprintf(out, "Usage: computer %s NAME COMMAND [OPTION...] [ARGUMENT...]\n",
			command->name);
	else if (group)
		fprintf(out, "Usage: computer %s NAME %s [OPTION...] %s\n", group, command->name,
			command->operands);
	else
		fprintf(out, "Usage: computer %s %s%s\n", command->name,
			command->options_count ? "[OPTION...] " : "", command->operands);
	fprintf(out, "%s.\n", command->summary);
	if (command->help)
		fprintf(out, "\n%s\n", command->help);
	if (!command->sub) {
		print_options(out, command);
		return;
	}
	fprintf(out, "\nCommands:\n");
	for (const struct command *const *sub = command->sub; *sub; sub++)
		fprintf(out, "  %-8s %-28s %s\n", (*sub)->name, (*sub)->operands, (*sub)->summary);
	fprintf(out, "\n`computer %s NAME COMMAND --help` says more.\n", command->name);
}

void help_all(FILE *out)
{
	static const struct {
		const char *title, *names[8];
	} groups[] = {
		{"Workspaces", {"create", "ls", "info", "rename", "rm", "limit"}},
		{"Files", {"fs", "mount", "umount", "export", "import"}},
		{"Programs", {"exec"}},
		{"Time", {"snapshot", "snapshots", "restore", "fork", "diff"}},
		{"Trust", {"audit", "check", "doctor"}},
		{"Help", {"help", "version", "completion"}},
	};

	fprintf(out, "Usage: computer COMMAND [OPTION...] [ARGUMENT...]\n"
		     "A computer for an AI agent, in one file.\n");
	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		fprintf(out, "\n%s:\n", groups[g].title);
		for (size_t i = 0; i < ARRAY_LEN(groups[g].names) && groups[g].names[i]; i++) {
			const struct command *command = command_find(commands, groups[g].names[i]);

			fprintf(out, "  %-11s %s\n", command->name, command->summary);
		}
	}
	fprintf(out, "\nA workspace is a name (kept in $COMPUTER_HOME, or "
		     "$XDG_DATA_HOME/computer), or a path\n"
		     "that ends in .db; NAME@SNAPSHOT is how it was then, read-only. Every command "
		     "knows\n"
		     "--help and --json. Exit status: 0, 1 failure, 2 wrong use; exec: the "
		     "program's own.\n");
}
