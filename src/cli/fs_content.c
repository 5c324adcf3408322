/* fs_content.c - fs cat, get, put: bytes out and in. */
#include "base/fd.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- out ---- */

static void show_bytes(struct cli *cli, uint64_t bytes, struct span path)
{
	progress_show(cli, 0, bytes, path);
}

/* The whole file to a descriptor of the host. 0 or a negative errno. */
static int copy_out(struct cli *cli, struct span path, int to)
{
	CLEANUP(buf_clear) struct buf chunk = BUF_INIT(SYS_IO_MAX);
	struct sys *sys = computer_sys(cli->computer);
	int64_t offset = 0;
	int fd = sys_open(sys, SYS_CWD, path, O_RDONLY | O_CLOEXEC, 0);
	int r = 0;

	if (fd < 0)
		return fd;
	while (r == 0) {
		ssize_t n;

		chunk.len = 0;
		n = sys_read(sys, fd, SYS_IO_MAX, offset, &chunk);
		if (n <= 0) {
			r = (int)n;
			break;
		}
		r = fd_write_all(to, chunk.data, (size_t)n);
		offset += n;
		if (r == 0 && cancelled())
			r = -ECANCELED;
		if (to != STDOUT_FILENO || !cli->tty_out)
			show_bytes(cli, (uint64_t)offset, path);
	}
	sys_close(sys, fd);
	return r;
}

static int run_cat(struct cli *cli)
{
	int status = cli_open(cli, cli->workspace, 0);

	if (status != EXIT_OK)
		return status;
	for (int i = 0; i < cli->argc; i++) {
		struct span path = span_str(cli->argv[i]);
		int r = copy_out(cli, path, STDOUT_FILENO);

		if (r == -EPIPE)
			return EXIT_FAILED; /* `cat | head`: nobody wants more */
		if (r < 0)
			cli_complain(cli, r, path);
		if (r == -ECANCELED)
			return EXIT_CANCELLED;
	}
	progress_end(cli);
	return EXIT_OK;
}

const struct command fs_cat_command = {
	.name = "cat",
	.operands = "PATH...",
	.summary = "Write files to standard output",
	.min = 1,
	.max = -1,
	.run = run_cat,
};

enum { COPY_RECURSIVE, COPY_FORCE };

static const struct option get_options[] = {
	[COPY_RECURSIVE] = {"recursive", 'r', OPTION_FLAG, NULL,
			    "directories, with everything in them"},
	[COPY_FORCE] = {"force", 'f', OPTION_FLAG, NULL, "replace a file of the host"},
};

/* Where PATH goes on the host: the operand, or under its name in a folder. */
static void host_target(const char *to, struct span from, struct buf *ret_path)
{
	struct stat st;

	if (!to)
		fs_join(ret_path, SPAN_EMPTY, fs_base(from));
	else if (stat(to, &st) == 0 && S_ISDIR(st.st_mode))
		fs_join(ret_path, span_str(to), fs_base(from));
	else
		fs_join(ret_path, SPAN_EMPTY, span_str(to));
}

static int get_dir(struct cli *cli, const char *path, const char *to)
{
	struct port_options options = {.path = path, .progress = progress_port, .arg = cli};
	struct port_result result;
	struct err err = ERR_INIT;
	int r = computer_export_dir(cli->computer, to, &options, &result, &err);

	progress_end(cli);
	return r < 0 ? cli_fail(cli, r, &err, "%s", "") : EXIT_OK;
}

static int get_file(struct cli *cli, struct span path, const char *to)
{
	CLEANUP(fd_close) int fd = -1;
	bool force = cli->opt[COPY_FORCE].count;
	struct sys_stat st;
	int r = sys_stat(computer_sys(cli->computer), SYS_CWD, path, 0, &st);

	/* The host's file is not touched for one that cannot be read. */
	if (r < 0)
		return cli_fail(cli, r, NULL, "%.*s", (int)path.len, path.data);
	if (S_ISDIR(st.mode))
		return cli_fail(cli, EISDIR, NULL, "%.*s", (int)path.len, path.data);
	fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL), st.mode & 0777);
	if (fd < 0 && errno == EEXIST)
		return cli_fail(cli, EEXIST,
				&(struct err){EEXIST, "it is there already; --force replaces it"},
				"'%s'", to);
	if (fd < 0) {
		struct err err = cli_host_err(errno);

		return cli_fail(cli, err.code, &err, "cannot create '%s'", to);
	}
	r = copy_out(cli, path, fd);
	progress_end(cli);
	if (r < 0) {
		if (!force)
			unlink(to);
		return cli_fail(cli, r, NULL, "%.*s", (int)path.len, path.data);
	}
	return EXIT_OK;
}

static int run_get(struct cli *cli)
{
	CLEANUP(buf_clear) struct buf target = FS_PATH_INIT;
	const char *to = cli->argc > 1 ? cli->argv[1] : NULL;
	struct span path = span_str(cli->argv[0]);
	int status = cli_open(cli, cli->workspace, 0), r;

	if (status != EXIT_OK)
		return status;
	if (to && strcmp(to, "-") == 0) {
		r = copy_out(cli, path, STDOUT_FILENO);
		progress_end(cli);
		return r < 0 ? cli_fail(cli, r, NULL, "%s", cli->argv[0]) : EXIT_OK;
	}
	host_target(to, path, &target);
	if (fs_is_dir(cli, path) && cli->opt[COPY_RECURSIVE].count)
		return get_dir(cli, cli->argv[0], target.data);
	return get_file(cli, path, target.data);
}

const struct command fs_get_command = {
	.name = "get",
	.operands = "PATH [HOST-PATH|-]",
	.summary = "Copy a file or directory to the host",
	.min = 1,
	.max = 2,
	.options = get_options,
	.options_count = ARRAY_LEN(get_options),
	.run = run_get,
};

/* ---- in ---- */

enum { PUT_RECURSIVE, PUT_MODE };

static const struct option put_options[] = {
	[PUT_RECURSIVE] = {"recursive", 'r', OPTION_FLAG, NULL,
			   "a directory, with everything in it"},
	[PUT_MODE] = {"mode", 'm', OPTION_TEXT, "OCTAL",
		      "its permissions (those of the host's file; 0644)"},
};

/* Up to `size` bytes of a host descriptor, less only at its end. */
static ssize_t read_some(int fd, char *bytes, size_t size)
{
	size_t len = 0;

	while (len < size) {
		struct pollfd ready[] = {{fd, POLLIN, 0}, {cancel_fd(), POLLIN, 0}};
		ssize_t n;

		/* A signal between a look and a read would not end the read. */
		n = poll(ready, ARRAY_LEN(ready), -1);
		if (cancelled())
			return -ECANCELED;
		if (n >= 0)
			n = read(fd, bytes + len, size - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

/* The rest of a large file, after its first chunk: written beside the target, then renamed over it,
 * so that a reader never sees a part and a failure leaves the old one. */
static int put_large(struct cli *cli, int from, struct span path, uint32_t mode, char *chunk,
		     size_t len)
{
	CLEANUP(buf_clear) struct buf beside = FS_PATH_INIT;
	CLEANUP(buf_clear) struct buf real = BUF_INIT(SYS_PATH_MAX);
	struct sys *sys = computer_sys(cli->computer);
	struct span base;
	char name[64];
	int64_t offset = 0;
	int fd, r;

	/* Through a symbolic link, as a write would. */
	if (sys_realpath(sys, SYS_CWD, path, &real) == 0)
		path = span_of(real.data, real.len);
	base = fs_base(path);
	snprintf(name, sizeof(name), ".put-%d-%.8s", (int)getpid(),
		 computer_workspace(cli->computer)->name);
	if (base.data == path.data)
		fs_join(&beside, SPAN_EMPTY, span_str(name));
	else
		fs_join(&beside, span_of(path.data, (size_t)(base.data - path.data)),
			span_str(name));
	fd = sys_open(sys, SYS_CWD, span_of(beside.data, beside.len),
		      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return fd;
	for (r = 0; r == 0 && len;) {
		ssize_t n = sys_write(sys, fd, span_of(chunk, len), offset);

		if (n < 0) {
			r = (int)n;
			break;
		}
		offset += n;
		memmove(chunk, chunk + n, len - (size_t)n);
		len -= (size_t)n;
		if (len == 0) {
			n = read_some(from, chunk, SYS_IO_MAX);
			r = n < 0 ? (int)n : 0;
			len = n > 0 ? (size_t)n : 0;
		}
		if (r == 0 && cancelled())
			r = -ECANCELED;
		show_bytes(cli, (uint64_t)offset, path);
	}
	sys_close(sys, fd);
	if (r == 0)
		r = sys_rename(sys, SYS_CWD, span_of(beside.data, beside.len), SYS_CWD, path, 0);
	if (r < 0)
		(void)!sys_unlink(sys, SYS_CWD, span_of(beside.data, beside.len), 0);
	return r;
}

/* The permissions of what is replaced stay, unless others are asked for. */
static uint32_t put_mode(struct cli *cli, struct span path, uint32_t asked)
{
	struct sys_stat st;

	if (!cli->opt[PUT_MODE].count &&
	    sys_stat(computer_sys(cli->computer), SYS_CWD, path, 0, &st) == 0 && S_ISREG(st.mode))
		return st.mode & 07777;
	return asked;
}

static int put_stream(struct cli *cli, int from, struct span path, uint32_t mode)
{
	CLEANUP(mem_free) char *chunk = mem_alloc(SYS_IO_MAX);
	struct sys *sys = computer_sys(cli->computer);
	struct sys_stat st;
	ssize_t n;
	int r;

	/* Said before anything is read: a stream can be read once only. */
	r = sys_stat(sys, SYS_CWD, path, 0, &st);
	if (r == 0 && S_ISDIR(st.mode))
		return -EISDIR;
	if (r < 0 && r != -ENOENT)
		return r;
	n = read_some(from, chunk, SYS_IO_MAX);
	if (n < 0)
		return (int)n;
	mode = put_mode(cli, path, mode);
	if (n == SYS_IO_MAX)
		return put_large(cli, from, path, mode, chunk, (size_t)n);
	r = sys_writefile(sys, SYS_CWD, path, O_CREAT | O_TRUNC, mode, SYS_OMIT,
			  span_of(chunk, (size_t)n));
	/* Only a new file gets its mode from the write. */
	if (r >= 0 && cli->opt[PUT_MODE].count)
		r = sys_chmod(sys, SYS_CWD, path, mode, 0);
	return r < 0 ? r : 0;
}

static int put_dir(struct cli *cli, const char *from, struct span to)
{
	struct port_options options = {.progress = progress_port, .arg = cli};
	CLEANUP(buf_clear) struct buf path = FS_PATH_INIT;
	struct port_result result;
	struct err err = ERR_INIT;
	int r;

	fs_target(cli, to, span_str(from), &path);
	options.path = path.data;
	r = computer_mkdir(cli->computer, path.data, 0755, false);
	if (r < 0 && !(r == -EEXIST && fs_is_dir(cli, span_of(path.data, path.len))))
		return cli_fail(cli, r, NULL, "%s", path.data);
	r = computer_import_dir(cli->computer, from, &options, &result, &err);
	progress_end(cli);
	return r < 0 ? cli_fail(cli, r, &err, "%s", "") : EXIT_OK;
}

static int run_put(struct cli *cli)
{
	CLEANUP(buf_clear) struct buf path = FS_PATH_INIT;
	CLEANUP(fd_close) int fd = -1;
	const char *from = cli->argv[0];
	bool is_stdin = strcmp(from, "-") == 0;
	struct span to = span_str(cli->argc > 1 ? cli->argv[1] : "/");
	struct stat st = {.st_mode = S_IFREG | 0644};
	uint32_t mode;
	int status, r;

	if (is_stdin && cli->argc < 2)
		return cli_usage(cli, "standard input needs a name: put - PATH");
	if (!is_stdin) {
		fd = open(from, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0) {
			struct err err = cli_host_err(errno);

			return cli_fail(cli, err.code, &err, "cannot read '%s'", from);
		}
	}
	if (S_ISDIR(st.st_mode) && !cli->opt[PUT_RECURSIVE].count)
		return cli_fail(cli, EISDIR, NULL, "'%s'", from);
	mode = st.st_mode & 0777;
	if (cli->opt[PUT_MODE].count) {
		if (parse_mode(cli->opt[PUT_MODE].text, 07777, &mode) < 0)
			return cli_usage(cli, "--mode: '%s' is not octal: 0644",
					 cli->opt[PUT_MODE].text);
	}
	status = cli_open(cli, cli->workspace, 0);
	if (status != EXIT_OK)
		return status;
	if (S_ISDIR(st.st_mode))
		return put_dir(cli, from, to);
	if (is_stdin)
		fs_join(&path, SPAN_EMPTY, to);
	else
		fs_target(cli, to, span_str(from), &path);
	r = put_stream(cli, is_stdin ? STDIN_FILENO : fd, span_of(path.data, path.len), mode);
	progress_end(cli);
	return r < 0 ? cli_fail(cli, r, NULL, "%s", path.data) : EXIT_OK;
}

const struct command fs_put_command = {
	.name = "put",
	.operands = "HOST-PATH|- [PATH]",
	.summary = "Copy a file or directory of the host into the workspace",
	.help = "PATH is the file, or the directory it goes into. A reader sees the old content or "
		"the new,\n"
		"never a part of it.",
	.min = 1,
	.max = 2,
	.options = put_options,
	.options_count = ARRAY_LEN(put_options),
	.run = run_put,
};
