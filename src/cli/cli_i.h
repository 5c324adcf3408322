/* cli_i.h - the program's own parts: commands in a table, options, output, errors.
 *
 * A command is a row: name, operands, options, help and a function. The table's reader (main.c,
 * args.c) has checked all of it before the function runs: the number of operands, that options are
 * known and their values well-formed. A command answers its exit status: EXIT_OK, EXIT_FAILED,
 * EXIT_USAGE, or what cli_fail and cli_usage answered.
 */
#ifndef CLI_CLI_I_H
#define CLI_CLI_I_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "computer/ops.h"

#include <jansson.h>
#include <stdio.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_TIMED_OUT = 124, EXIT_CANCELLED = 130 };

enum option_kind {
	OPTION_FLAG,
	OPTION_TEXT,
	OPTION_LIST,     /* text, may be given again */
	OPTION_NUMBER,   /* decimal */
	OPTION_SIZE,     /* bytes: 512, 64K, 2G */
	OPTION_DURATION, /* 250ms, 10s, 5m: nanoseconds */
	OPTION_TIME,     /* a date, a time or how long ago: nanoseconds since 1970 */
};

struct option {
	const char *name; /* long, without "--" */
	char letter;      /* 0: none */
	enum option_kind kind;
	const char *value; /* what help calls it: "SNAPSHOT" */
	const char *help;
};

#define OPTIONS_MAX 16

/* What was given for an option. */
struct value {
	size_t count; /* 0: not given */
	const char *text;
	int64_t number;
	const char **list; /* OPTION_LIST: `count` of them */
};

struct cli;

struct command {
	const char *name;
	const char *operands; /* "NAME [SNAPSHOT]" */
	const char *summary;  /* one line, for the list */
	const char *help;     /* what there is to know besides; NULL: nothing */
	int min, max;         /* operands; max -1: any number */
	bool program;         /* operands after the first are a program's own: no options there */
	const struct option *options;
	size_t options_count;
	/* Exactly one of these two. */
	int (*run)(struct cli *cli);
	const struct command *const *sub; /* `computer fs NAME SUB`; ends with NULL */
};

/* One run of the program. */
struct cli {
	const struct command *command;
	const char *group; /* "fs", or NULL */
	int argc;          /* operands */
	char **argv;
	struct value opt[OPTIONS_MAX]; /* by the command's option index */
	bool json;
	bool help; /* asked for: nothing else is done */
	bool tty_out, tty_err;
	bool colour;               /* of standard output */
	struct computer *computer; /* opened by cli_open, closed by main */
	const char *workspace;     /* as it was given */
	int64_t progress_at;       /* when the progress line may be drawn again */
	bool progress_drawn;
	bool failed; /* something was reported and the command went on */
};

/* ---- args.c ---- */

/* Find a command; NULL. */
const struct command *command_find(const struct command *const *table, const char *name);
extern const struct command *const commands[];
extern const struct command *const fs_commands[];

/* Take argv (after the command's name) apart. EXIT_OK, or EXIT_USAGE after saying why. */
int args_parse(struct cli *cli, int argc, char **argv);
void args_clear(struct cli *cli);
/* The name in `table` nearest to a wrong one, or NULL. */
const char *args_nearest(const struct command *const *table, const char *name);
/* A date, a time, or how long ago. 0 or -EINVAL. */
int args_time(const char *text, int64_t *ret_ns) MUST_USE;

/* ---- help.c ---- */

void help_command(FILE *out, const char *group, const struct command *command);
void help_all(FILE *out);

/* ---- output.c ---- */

/* `computer: WHAT: WHY; what to do` on standard error. Answers EXIT_FAILED. `err` may be NULL. */
int cli_fail(struct cli *cli, int r, const struct err *err, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* What to give it for a file of the host, not of the workspace. */
struct err cli_host_err(int code);
/* A use that is wrong: as above, with a pointer to --help. Answers EXIT_USAGE. */
int cli_usage(struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* As cli_fail, and remembered: the command goes on and ends with EXIT_FAILED. */
void cli_complain(struct cli *cli, int r, struct span path);

/* A name for people: escaped on a terminal only. */
void out_name(struct cli *cli, struct span name);
void out_bytes(const void *bytes, size_t len);
enum colour {
	COLOUR_NONE,
	COLOUR_BOLD,
	COLOUR_RED,
	COLOUR_GREEN,
	COLOUR_YELLOW,
	COLOUR_BLUE,
	COLOUR_CYAN
};
void out_colour(struct cli *cli, enum colour colour);

/* Print a JSON document and give it up. */
void out_json_take(json_t *json);
/* Bytes as a JSON string; what is not UTF-8 is escaped, and exact in KEY_hex. */
void json_set_bytes(json_t *object, const char *key, struct span bytes);
void json_set_text(json_t *object, const char *key, const char *text);
void json_set_int(json_t *object, const char *key, int64_t value);
void json_set_bool(json_t *object, const char *key, bool value);
/* Times as RFC 3339. */
void json_set_time(json_t *object, const char *key, int64_t ns);
void json_set_stat(json_t *object, const struct sys_stat *stat);

/* One line on a terminal, redrawn; nothing elsewhere. */
void progress_show(struct cli *cli, uint64_t files, uint64_t bytes, struct span path);
void progress_end(struct cli *cli);
/* For struct port_options. */
int progress_port(void *arg, const struct port_progress *progress);

/* ---- session.c ---- */

/* Open the workspace that operand `text` names, as cli->computer. EXIT_OK, or said why not. */
int cli_open(struct cli *cli, const char *text, unsigned flags);
/* Close it. Turns EXIT_OK into EXIT_FAILED, and says why, when what was done is not durable. */
int cli_close(struct cli *cli, int status);

/* SIGINT, SIGTERM and SIGHUP ask to end; a second one ends at once. */
void cancel_init(void);
bool cancelled(void);
/* Once cancelled, this descriptor is at its end: for a reader that does not ask. -1: none. */
void cancel_cut(int fd);
/* Readable once cancelled. */
int cancel_fd(void);
/* Give signals to a program instead: each is one byte at the other end of the descriptor. */
int cancel_forward(void);

/* ---- fs.c ---- */

#define FS_TREE_DEPTH_MAX 2048

struct fs_entry {
	struct span path, name;
	const struct sys_stat *stat;
	int depth; /* of the start: 0 */
	bool last; /* of its directory */
};
/*
 * Call `fn` for the file at `path` and, if it is a directory, everything below, in order of name.
 * `fn` answers 0, 1 (do not go into this one) or a negative errno, which ends the walk and is
 * answered. What cannot be read is complained about. -ECANCELED after SIGINT.
 */
int fs_walk(struct cli *cli, struct span path, int (*fn)(void *arg, const struct fs_entry *entry),
	    void *arg) MUST_USE;

/* Where `name` would be in directory `dir`. */
void fs_join(struct buf *ret_path, struct span dir, struct span name);
struct span fs_base(struct span path);
/* The target of cp, mv, put: `to` itself, or a place of the same name in it if it is a directory.
 */
void fs_target(struct cli *cli, struct span to, struct span from, struct buf *ret_path);
bool fs_is_dir(struct cli *cli, struct span path);
/* "-rw-r--r--"; ret_text holds 11 bytes. */
void fs_mode_text(uint32_t mode, char ret_text[11]);
char fs_type_letter(uint32_t mode);

#define FS_PATH_INIT BUF_INIT(1 << 16)

#endif
