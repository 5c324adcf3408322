/* fs_change.c - fs mkdir, rm, mv, cp, ln, chmod: changes of names and files. */
#include "base/parse.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* ---- mkdir ---- */

enum { MKDIR_PARENTS, MKDIR_MODE };

static const struct option mkdir_options[] = {
	[MKDIR_PARENTS] = {"parents", 'p', OPTION_FLAG, NULL,
			   "those above it too; none is an error if there"},
	[MKDIR_MODE] = {"mode", 'm', OPTION_TEXT, "OCTAL", "its permissions (0755)"},
};

static int run_mkdir(struct cli *cli)
{
	uint32_t mode = 0755;
	int status;

	if (cli->opt[MKDIR_MODE].count && parse_mode(cli->opt[MKDIR_MODE].text, 07777, &mode) < 0)
		return cli_usage(cli, "--mode: '%s' is not octal: 0755", cli->opt[MKDIR_MODE].text);
	status = cli_open(cli, cli->workspace, 0);
	if (status != EXIT_OK)
		return status;
	for (int i = 0; i < cli->argc; i++) {
		int r = computer_mkdir(cli->computer, cli->argv[i], mode,
				       cli->opt[MKDIR_PARENTS].count);

		if (r < 0)
			cli_complain(cli, r, span_str(cli->argv[i]));
	}
	return EXIT_OK;
}

const struct command fs_mkdir_command = {
	.name = "mkdir",
	.operands = "PATH...",
	.summary = "Make directories",
	.min = 1,
	.max = -1,
	.options = mkdir_options,
	.options_count = ARRAY_LEN(mkdir_options),
	.run = run_mkdir,
};

/* ---- rm ---- */

enum { RM_RECURSIVE, RM_FORCE };

static const struct option rm_options[] = {
	[RM_RECURSIVE] = {"recursive", 'r', OPTION_FLAG, NULL,
			  "directories, with everything in them"},
	[RM_FORCE] = {"force", 'f', OPTION_FLAG, NULL, "what is not there is no error"},
};

static int run_rm(struct cli *cli)
{
	int status = cli_open(cli, cli->workspace, 0);

	if (status != EXIT_OK)
		return status;
	for (int i = 0; i < cli->argc && !cancelled(); i++) {
		const char *path = cli->argv[i];
		struct sys_stat st;
		int r = sys_stat(computer_sys(cli->computer), SYS_CWD, span_str(path),
				 AT_SYMLINK_NOFOLLOW, &st);

		if (r == 0 && S_ISDIR(st.mode) && !cli->opt[RM_RECURSIVE].count)
			r = -EISDIR;
		else if (r == 0 && S_ISDIR(st.mode))
			r = computer_remove_tree(cli->computer, path);
		else if (r == 0)
			r = computer_unlink(cli->computer, path);
		if (r < 0 && !(r == -ENOENT && cli->opt[RM_FORCE].count))
			cli_complain(cli, r, span_str(path));
	}
	return cancelled() ? EXIT_CANCELLED : EXIT_OK;
}

const struct command fs_rm_command = {
	.name = "rm",
	.operands = "PATH...",
	.summary = "Remove files, and directories with -r",
	.min = 1,
	.max = -1,
	.options = rm_options,
	.options_count = ARRAY_LEN(rm_options),
	.run = run_rm,
};

/* ---- mv ---- */

enum { MV_NO_REPLACE };

static const struct option mv_options[] = {
	[MV_NO_REPLACE] = {"no-replace", 'n', OPTION_FLAG, NULL, "fail if the target is there"},
};

/* For mv and cp: several sources need a directory to go into. */
static int check_target(struct cli *cli)
{
	const char *to = cli->argv[cli->argc - 1];

	if (cli->argc > 2 && !fs_is_dir(cli, span_str(to)))
		return cli_fail(cli, ENOTDIR,
				&(struct err){ENOTDIR,
					      "it is no directory, but several files shall "
					      "go there; make it with fs mkdir"},
				"%s", to);
	return EXIT_OK;
}

static int run_mv(struct cli *cli)
{
	unsigned flags = cli->opt[MV_NO_REPLACE].count ? 1 /* RENAME_NOREPLACE */ : 0;
	int status = cli_open(cli, cli->workspace, 0);

	if (status == EXIT_OK)
		status = check_target(cli);
	for (int i = 0; status == EXIT_OK && i + 1 < cli->argc; i++) {
		CLEANUP(buf_clear) struct buf target = FS_PATH_INIT;
		struct span from = span_str(cli->argv[i]);
		int r;

		fs_target(cli, span_str(cli->argv[cli->argc - 1]), from, &target);
		r = sys_rename(computer_sys(cli->computer), SYS_CWD, from, SYS_CWD,
			       span_of(target.data, target.len), flags);
		if (r < 0)
			cli_complain(cli, r, from);
	}
	return status;
}

const struct command fs_mv_command = {
	.name = "mv",
	.operands = "PATH... TARGET",
	.summary = "Rename a file or directory, or move it into a directory",
	.min = 2,
	.max = -1,
	.options = mv_options,
	.options_count = ARRAY_LEN(mv_options),
	.run = run_mv,
};

/* ---- cp ---- */

enum { CP_RECURSIVE };

static const struct option cp_options[] = {
	[CP_RECURSIVE] = {"recursive", 'r', OPTION_FLAG, NULL,
			  "directories, with everything in them"},
};

struct cp_run {
	struct cli *cli;
	struct span from, to;
	int64_t to_dir; /* inode of what is copied into, so that it is not copied into itself */
	uint64_t files, bytes;
};

static int copy_content(struct cp_run *run, struct span from, struct span to,
			const struct sys_stat *st)
{
	static const struct err same = {EINVAL, "it is the same file; name another target"};
	struct sys *sys = computer_sys(run->cli->computer);
	struct sys_stat old;
	int64_t offset = 0;
	int in, out;
	ssize_t n = 0;

	/* The same file: truncating it would lose it. */
	if (sys_stat(sys, SYS_CWD, to, 0, &old) == 0 && old.ino == st->ino) {
		cli_fail(run->cli, EINVAL, &same, "%.*s", (int)to.len, to.data);
		run->cli->failed = true;
		return 0;
	}
	in = sys_open(sys, SYS_CWD, from, O_RDONLY | O_CLOEXEC, 0);
	if (in < 0)
		return in;
	out = sys_open(sys, SYS_CWD, to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
		       st->mode & 07777);
	if (out < 0) {
		sys_close(sys, in);
		return out;
	}
	do {
		n = sys_copy(sys, in, offset, out, offset, SYS_IO_MAX);
		if (n > 0)
			offset += n;
		progress_show(run->cli, run->files, run->bytes + (uint64_t)offset, from);
		if (cancelled())
			n = -ECANCELED;
	} while (n > 0);
	sys_close(sys, in);
	sys_close(sys, out);
	run->bytes += (uint64_t)offset;
	return (int)n;
}

static int copy_link(struct sys *sys, struct span from, struct span to)
{
	CLEANUP(buf_clear) struct buf target = BUF_INIT(SYS_PATH_MAX);
	int r = sys_readlink(sys, SYS_CWD, from, &target);

	return r < 0 ? r : sys_symlink(sys, SYS_CWD, to, span_of(target.data, target.len));
}

static int copy_entry(void *arg, const struct fs_entry *entry)
{
	struct cp_run *run = arg;
	struct cli *cli = run->cli;
	struct sys *sys = computer_sys(cli->computer);
	CLEANUP(buf_clear) struct buf to = FS_PATH_INIT;
	const struct sys_stat *st = entry->stat;
	size_t below = run->from.len;
	int r;

	/* Directories and links below keep their relative place; `from` may end in slashes. */
	while (below < entry->path.len && entry->path.data[below] == '/')
		below++;
	if (entry->depth == 0)
		fs_join(&to, SPAN_EMPTY, run->to);
	else
		fs_join(&to, run->to, span_of(entry->path.data + below, entry->path.len - below));
	if (S_ISDIR(st->mode) && entry->depth > 0 && st->ino == run->to_dir)
		return 1;
	run->files++;
	switch (st->mode & S_IFMT) {
	case S_IFDIR:
		r = sys_mkdir(sys, SYS_CWD, span_of(to.data, to.len), st->mode & 07777);
		if (r == -EEXIST && fs_is_dir(cli, span_of(to.data, to.len)))
			r = 0;
		if (r == 0 && entry->depth == 0) {
			struct sys_stat made;

			if (sys_stat(sys, SYS_CWD, span_of(to.data, to.len), 0, &made) == 0)
				run->to_dir = made.ino;
		}
		break;
	case S_IFREG:
		r = copy_content(run, entry->path, span_of(to.data, to.len), st);
		break;
	case S_IFLNK:
		r = copy_link(sys, entry->path, span_of(to.data, to.len));
		break;
	default:
		r = sys_mknod(sys, SYS_CWD, span_of(to.data, to.len), st->mode, st->rdev);
		break;
	}
	if (r == -ECANCELED)
		return r;
	if (r < 0)
		cli_complain(cli, r, entry->path);
	return r < 0 ? 1 : 0;
}

static int copy_one(struct cli *cli, struct span from, struct span to)
{
	struct cp_run run = {.cli = cli, .from = from, .to = to};
	CLEANUP(buf_clear) struct buf real = BUF_INIT(SYS_PATH_MAX);
	struct sys_stat st;
	int r = sys_stat(computer_sys(cli->computer), SYS_CWD, from, 0, &st);

	if (r < 0)
		return r;
	if (S_ISDIR(st.mode)) {
		if (!cli->opt[CP_RECURSIVE].count)
			return -EISDIR;
	} else {
		/* A link that is named is followed; those found below are copied as links. */
		r = sys_realpath(computer_sys(cli->computer), SYS_CWD, from, &real);
		if (r < 0)
			return r;
		run.from = span_of(real.data, real.len);
	}
	return fs_walk(cli, run.from, copy_entry, &run);
}

static int run_cp(struct cli *cli)
{
	int status = cli_open(cli, cli->workspace, 0);

	if (status == EXIT_OK)
		status = check_target(cli);
	for (int i = 0; status == EXIT_OK && i + 1 < cli->argc; i++) {
		CLEANUP(buf_clear) struct buf target = FS_PATH_INIT;
		struct span from = span_str(cli->argv[i]);
		int r;

		fs_target(cli, span_str(cli->argv[cli->argc - 1]), from, &target);
		r = copy_one(cli, from, span_of(target.data, target.len));
		if (r < 0)
			cli_complain(cli, r, from);
		if (r == -ECANCELED)
			status = EXIT_CANCELLED;
	}
	progress_end(cli);
	return status;
}

const struct command fs_cp_command = {
	.name = "cp",
	.operands = "PATH... TARGET",
	.summary = "Copy files, and directories with -r, within the workspace",
	.min = 2,
	.max = -1,
	.options = cp_options,
	.options_count = ARRAY_LEN(cp_options),
	.run = run_cp,
};

/* ---- ln ---- */

enum { LN_SYMBOLIC, LN_FORCE };

static const struct option ln_options[] = {
	[LN_SYMBOLIC] = {"symbolic", 's', OPTION_FLAG, NULL,
			 "a symbolic link; TARGET is text then"},
	[LN_FORCE] = {"force", 'f', OPTION_FLAG, NULL, "replace LINK"},
};

static int run_ln(struct cli *cli)
{
	struct span target = span_str(cli->argv[0]);
	CLEANUP(buf_clear) struct buf link = FS_PATH_INIT;
	struct sys *sys;
	int status = cli_open(cli, cli->workspace, 0), r = 0;

	if (status != EXIT_OK)
		return status;
	sys = computer_sys(cli->computer);
	fs_target(cli, span_str(cli->argv[1]), target, &link);
	if (cli->opt[LN_FORCE].count)
		r = sys_unlink(sys, SYS_CWD, span_of(link.data, link.len), 0);
	if (r == 0 || r == -ENOENT)
		r = cli->opt[LN_SYMBOLIC].count
			    ? sys_symlink(sys, SYS_CWD, span_of(link.data, link.len), target)
			    : sys_link(sys, SYS_CWD, target, SYS_CWD, span_of(link.data, link.len),
				       0);
	return r < 0 ? cli_fail(cli, r, NULL, "%s", link.data) : EXIT_OK;
}

const struct command fs_ln_command = {
	.name = "ln",
	.operands = "TARGET LINK",
	.summary = "Make a link",
	.min = 2,
	.max = 2,
	.options = ln_options,
	.options_count = ARRAY_LEN(ln_options),
	.run = run_ln,
};

/* ---- chmod ---- */

enum { CHMOD_RECURSIVE };

static const struct option chmod_options[] = {
	[CHMOD_RECURSIVE] = {"recursive", 'R', OPTION_FLAG, NULL, "everything below too"},
};

/* The bits of "rwxXst" for the classes in `who` (bits as in a mode: 0700, 0070, 0007). */
static int symbolic_bits(const char **text, uint32_t who, uint32_t mode, uint32_t *ret_bits)
{
	uint32_t bits = 0;

	for (; **text && **text != ','; ++*text) {
		switch (**text) {
		case 'r':
			bits |= 0444 & who;
			break;
		case 'w':
			bits |= 0222 & who;
			break;
		case 'X':
			if (!S_ISDIR(mode) && !(mode & 0111))
				break;
			bits |= 0111 & who;
			break;
		case 'x':
			bits |= 0111 & who;
			break;
		case 's':
			bits |= (who & 0100 ? S_ISUID : 0) | (who & 0010 ? S_ISGID : 0);
			break;
		case 't':
			bits |= S_ISVTX;
			break;
		default:
			return -EINVAL;
		}
	}
	*ret_bits = bits;
	return 0;
}

/* chmod(1): octal, or clauses like u+rwX,go-w. */
static int apply_mode(const char *text, uint32_t mode, uint32_t *ret_mode)
{
	uint32_t result = mode & 07777, bits = 0;

	if (*text >= '0' && *text <= '7')
		return parse_mode(text, 07777, ret_mode);
	while (*text) {
		uint32_t who = 0;
		char op;

		for (; *text && strchr("ugoa", *text); text++)
			who |= *text == 'u'   ? 0700u
			       : *text == 'g' ? 0070u
			       : *text == 'o' ? 0007u
					      : 0777u;
		if (!who)
			who = 0777;
		op = *text;
		if (op != '+' && op != '-' && op != '=')
			return -EINVAL;
		text++;
		if (symbolic_bits(&text, who, mode & S_IFMT ? mode : result, &bits) < 0)
			return -EINVAL;
		if (op == '=')
			result &= ~(who | (who & 0100 ? S_ISUID : 0) | (who & 0010 ? S_ISGID : 0));
		result = op == '-' ? result & ~bits : result | bits;
		if (*text == ',' && *++text == '\0')
			return -EINVAL;
	}
	*ret_mode = result;
	return 0;
}

static int chmod_entry(void *arg, const struct fs_entry *entry)
{
	struct cli *cli = arg;
	uint32_t mode = 0;
	int r;

	/* A link has no permissions of its own; what it leads to may be elsewhere. */
	if (S_ISLNK(entry->stat->mode))
		return 0;
	r = apply_mode(cli->argv[0], entry->stat->mode, &mode);
	if (r == 0)
		r = sys_chmod(computer_sys(cli->computer), SYS_CWD, entry->path, mode, 0);
	if (r < 0)
		cli_complain(cli, r, entry->path);
	return 0;
}

static int run_chmod(struct cli *cli)
{
	uint32_t mode;
	int status;

	if (apply_mode(cli->argv[0], S_IFREG, &mode) < 0)
		return cli_usage(cli, "'%s' is no mode: 0644, u+x, go-w", cli->argv[0]);
	status = cli_open(cli, cli->workspace, 0);
	if (status != EXIT_OK)
		return status;
	for (int i = 1; i < cli->argc; i++) {
		struct span path = span_str(cli->argv[i]);
		struct sys_stat st;
		struct fs_entry entry = {.path = path, .stat = &st};
		int r;

		if (cli->opt[CHMOD_RECURSIVE].count) {
			r = fs_walk(cli, path, chmod_entry, cli);
		} else {
			r = sys_stat(computer_sys(cli->computer), SYS_CWD, path, 0, &st);
			if (r == 0)
				r = chmod_entry(cli, &entry);
		}
		if (r < 0)
			cli_complain(cli, r, path);
	}
	return EXIT_OK;
}

const struct command fs_chmod_command = {
	.name = "chmod",
	.operands = "MODE PATH...",
	.summary = "Change permissions",
	.min = 2,
	.max = -1,
	.options = chmod_options,
	.options_count = ARRAY_LEN(chmod_options),
	.run = run_chmod,
};
