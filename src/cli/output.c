/* output.c - what people and programs read: errors, names, JSON, progress. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

/* What to do about an errno that comes without words of its own. */
static const char *hint(int code)
{
	switch (code) {
	case EACCES:
		return "check the permissions, or be another user";
	case EBUSY:
		return "end what uses it, then try again";
	case ECANCELED:
		return "run it again to finish it";
	case EDQUOT:
		return "remove something, or raise the quota: computer limit NAME";
	case EEXIST:
		return "choose another name, or remove it first";
	case EINVAL:
		return "see --help for what is expected";
	case EIO:
	case EUCLEAN:
		return "computer check NAME says more";
	case EISDIR:
		return "name a file in it, or use -r";
	case ENOENT:
		return "look what there is: computer fs NAME ls";
	case ENOSPC:
		return "free some space on the host's disk";
	case ENOTDIR:
		return "a part of the path is a file";
	case ENOTEMPTY:
		return "use rm -r to remove it with everything in it";
	case EPERM:
		return "it needs root, or a host that allows it: computer doctor";
	case EROFS:
		return "snapshots are read-only: fork it to change it";
	default:
		return "computer doctor says what this host can do";
	}
}

struct err cli_host_err(int code)
{
	struct err err = {.code = code};

	snprintf(err.text, sizeof(err.text), "%s; check the path and its permissions on the host",
		 strerror(code));
	return err;
}

/* One line: what the message carries along (names, paths) may hold anything. */
static void print_line(struct span line)
{
	CLEANUP(buf_clear) struct buf escaped = BUF_INIT(1 << 20);

	/* A backslash of the message's own is no danger. */
	while (line.len) {
		const char *slash = memchr(line.data, '\\', line.len);
		size_t len = slash ? (size_t)(slash - line.data) : line.len;

		if (text_add_escaped(&escaped, span_of(line.data, len)) < 0 ||
		    (slash && buf_add(&escaped, "\\", 1) < 0))
			return;
		line = span_of(line.data + len + (slash != NULL), line.len - len - (slash != NULL));
	}
	fprintf(stderr, "computer: %s\n", escaped.data);
}

static void add_what(struct cli *cli, struct buf *line)
{
	if (cli->group)
		(void)text_add(line, "%s ", cli->group);
	if (cli->command)
		(void)text_add(line, "%s: ", cli->command->name);
}

int cli_fail(struct cli *cli, int r, const struct err *err, const char *fmt, ...)
{
	CLEANUP(buf_clear) struct buf line = BUF_INIT(1 << 20);
	CLEANUP(mem_free) char *what = NULL;
	int code = r < 0 ? -r : r;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&what, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	progress_end(cli);
	add_what(cli, &line);
	if (*what)
		(void)text_add(&line, "%s: ", what);
	/* The library's words say what; why and what to do are said only where it knows better than
	 * its errno, and then after a semicolon. */
	if (err && err->text[0])
		(void)text_add(&line, "%s", err->text);
	if (!err || !err->text[0])
		(void)text_add(&line, "%s; %s", strerror(code), hint(code));
	else if (!strchr(err->text, ';'))
		(void)text_add(&line, "%s%s; %s", strstr(err->text, strerror(code)) ? "" : ": ",
			       strstr(err->text, strerror(code)) ? "" : strerror(code), hint(code));
	print_line(span_of(line.data, line.len));
	return code == ECANCELED ? EXIT_CANCELLED : EXIT_FAILED;
}

int cli_usage(struct cli *cli, const char *fmt, ...)
{
	CLEANUP(buf_clear) struct buf line = BUF_INIT(1 << 20);
	CLEANUP(mem_free) char *what = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&what, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	add_what(cli, &line);
	if (!cli->command)
		(void)text_add(&line, "%s; see 'computer help'", what);
	else if (cli->group)
		(void)text_add(&line, "%s; see 'computer help %s %s'", what, cli->group,
			       cli->command->name);
	else
		(void)text_add(&line, "%s; see 'computer %s --help'", what, cli->command->name);
	print_line(span_of(line.data, line.len));
	return EXIT_USAGE;
}

void cli_complain(struct cli *cli, int r, struct span path)
{
	cli_fail(cli, r, NULL, "%.*s", (int)path.len, path.data);
	cli->failed = true;
}

void out_bytes(const void *bytes, size_t len)
{
	fwrite(bytes, 1, len, stdout);
}

void out_name(struct cli *cli, struct span name)
{
	CLEANUP(buf_clear) struct buf escaped = BUF_INIT(1 << 20);

	if (!cli->tty_out || text_add_escaped(&escaped, name) < 0) {
		out_bytes(name.data, name.len);
		return;
	}
	out_bytes(escaped.data, escaped.len);
}

void out_colour(struct cli *cli, enum colour colour)
{
	static const char *const codes[] = {
		[COLOUR_NONE] = "0",   [COLOUR_BOLD] = "1",    [COLOUR_RED] = "31",
		[COLOUR_GREEN] = "32", [COLOUR_YELLOW] = "33", [COLOUR_BLUE] = "34",
		[COLOUR_CYAN] = "36",
	};

	if (cli->colour)
		printf("\033[%sm", codes[colour]);
}

void out_json_take(json_t *json)
{
	json_dumpf(json, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
	putchar('\n');
	json_decref(json);
}

void json_set_text(json_t *object, const char *key, const char *text)
{
	json_set_bytes(object, key, span_str(text));
}

void json_set_int(json_t *object, const char *key, int64_t value)
{
	json_object_set_new(object, key, json_integer(value));
}

void json_set_bool(json_t *object, const char *key, bool value)
{
	json_object_set_new(object, key, json_boolean(value));
}

void json_set_bytes(json_t *object, const char *key, struct span bytes)
{
	CLEANUP(buf_clear) struct buf escaped = BUF_INIT(1 << 28);
	CLEANUP(mem_free) char *hex = NULL;
	char hex_key[64];

	if (text_is_utf8(bytes)) {
		json_object_set_new(object, key,
				    json_stringn(bytes.len ? bytes.data : "", bytes.len));
		return;
	}
	if (text_add_escaped(&escaped, bytes) < 0)
		return;
	json_object_set_new(object, key, json_stringn(escaped.data, escaped.len));
	snprintf(hex_key, sizeof(hex_key), "%s_hex", key);
	hex = mem_alloc(2 * bytes.len + 1);
	text_hex(bytes.data, bytes.len, hex);
	json_object_set_new(object, hex_key, json_string(hex));
}

void json_set_time(json_t *object, const char *key, int64_t ns)
{
	char text[CLOCK_TEXT];

	clock_format(ns, text);
	json_set_text(object, key, text);
}

void json_set_stat(json_t *object, const struct sys_stat *stat)
{
	static const char *const types[] = {
		[S_IFIFO >> 12] = "fifo",   [S_IFCHR >> 12] = "char", [S_IFDIR >> 12] = "directory",
		[S_IFBLK >> 12] = "block",  [S_IFREG >> 12] = "file", [S_IFLNK >> 12] = "symlink",
		[S_IFSOCK >> 12] = "socket"};
	uint32_t kind = (stat->mode & S_IFMT) >> 12;
	const char *type = kind < ARRAY_LEN(types) && types[kind] ? types[kind] : "unknown";
	char mode[16];

	snprintf(mode, sizeof(mode), "%04o", stat->mode & 07777);
	json_set_text(object, "type", type);
	json_set_text(object, "mode", mode);
	json_set_int(object, "size", stat->size);
	json_set_int(object, "uid", stat->uid);
	json_set_int(object, "gid", stat->gid);
	json_set_int(object, "nlink", stat->nlink);
	json_set_int(object, "ino", stat->ino);
	json_set_time(object, "mtime", stat->mtime);
}

void progress_show(struct cli *cli, uint64_t files, uint64_t bytes, struct span path)
{
	CLEANUP(buf_clear) struct buf escaped = BUF_INIT(1 << 16);
	int64_t now = clock_mono();
	char size[TEXT_SIZE];

	if (!cli->tty_err)
		return;
	/* What is quick needs no progress; what is slow, ten lines a second. */
	if (cli->progress_at == 0)
		cli->progress_at = now + 300000000;
	if (now < cli->progress_at)
		return;
	cli->progress_at = now + 100000000;
	cli->progress_drawn = true;
	text_size(bytes, size);
	if (text_add_escaped(&escaped, span_of(path.data, path.len > 60 ? 60 : path.len)) < 0)
		return;
	if (files)
		fprintf(stderr, "\r\033[K%llu files, %s  %s", (unsigned long long)files, size,
			escaped.data);
	else
		fprintf(stderr, "\r\033[K%s  %s", size, escaped.data);
	fflush(stderr);
}

void progress_end(struct cli *cli)
{
	if (cli->progress_drawn)
		fprintf(stderr, "\r\033[K");
	cli->progress_drawn = false;
	cli->progress_at = 0;
}

int progress_port(void *arg, const struct port_progress *progress)
{
	progress_show(arg, progress->files, progress->bytes, progress->path);
	return cancelled();
}
