/* fs.c - `computer fs`: what its commands share. */
#include "base/mem.h"
#include "cli/cli_i.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FS_COMMAND(name) extern const struct command fs_##name##_command;
#include "cli/fs_commands.def"
#undef FS_COMMAND

const struct command *const fs_commands[] = {
#define FS_COMMAND(name) &fs_##name##_command,
#include "cli/fs_commands.def"
#undef FS_COMMAND
	NULL,
};

const struct command cmd_fs = {
	.name = "fs",
	.operands = "NAME",
	.summary = "Look at and change the files: ls, cat, put, get, find, grep",
	.help = "Paths are absolute or relative to the workspace's root. Names are printed as they "
		"are, but\n"
		"escaped on a terminal.",
	.sub = fs_commands,
};

/* ---- paths ---- */

void fs_join(struct buf *ret_path, struct span dir, struct span name)
{
	buf_clear(ret_path);
	ret_path->max = 1 << 16;
	(void)!buf_add(ret_path, dir.data, dir.len);
	if (dir.len && dir.data[dir.len - 1] != '/')
		(void)!buf_add(ret_path, "/", 1);
	(void)!buf_add(ret_path, name.data, name.len);
}

struct span fs_base(struct span path)
{
	while (path.len > 1 && path.data[path.len - 1] == '/')
		path.len--;
	for (size_t i = path.len; i > 0; i--)
		if (path.data[i - 1] == '/' && i < path.len)
			return span_of(path.data + i, path.len - i);
	return path;
}

bool fs_is_dir(struct cli *cli, struct span path)
{
	struct sys_stat st;

	return sys_stat(computer_sys(cli->computer), SYS_CWD, path, 0, &st) == 0 &&
	       S_ISDIR(st.mode);
}

void fs_target(struct cli *cli, struct span to, struct span from, struct buf *ret_path)
{
	struct span name = fs_base(from);
	bool into = to.len && (to.data[to.len - 1] == '/' || fs_is_dir(cli, to));

	/* "/" and ".." have no name to take along. */
	if (into && name.len && !span_eq(name, SPAN("/")) && !span_eq(name, SPAN(".")) &&
	    !span_eq(name, SPAN("..")))
		fs_join(ret_path, to, name);
	else
		fs_join(ret_path, SPAN_EMPTY, to);
}

char fs_type_letter(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFIFO:
		return 'p';
	case S_IFSOCK:
		return 's';
	case S_IFCHR:
		return 'c';
	case S_IFBLK:
		return 'b';
	default:
		return '-';
	}
}

void fs_mode_text(uint32_t mode, char ret_text[11])
{
	memcpy(ret_text, "-rwxrwxrwx", 11);
	ret_text[0] = fs_type_letter(mode);
	for (int i = 0; i < 9; i++)
		if (!(mode & (0400u >> i)))
			ret_text[1 + i] = '-';
	if (mode & S_ISUID)
		ret_text[3] = mode & 0100 ? 's' : 'S';
	if (mode & S_ISGID)
		ret_text[6] = mode & 0010 ? 's' : 'S';
	if (mode & S_ISVTX)
		ret_text[9] = mode & 0001 ? 't' : 'T';
}

/* ---- the walk ---- */

struct child {
	char *name;
	size_t len;
	struct sys_stat stat;
};

struct children {
	struct child *list;
	size_t count, size;
};

static int add_child(void *arg, const struct sys_entry *entry)
{
	struct children *children = arg;

	if (cancelled())
		return -ECANCELED;
	if (children->count == children->size) {
		children->size = children->size ? 2 * children->size : 64;
		children->list = mem_realloc(children->list, children->size * sizeof(struct child));
	}
	children->list[children->count++] = (struct child){
		.name = mem_dup(entry->name.data, entry->name.len),
		.len = entry->name.len,
		.stat = *entry->stat,
	};
	return 0;
}

static int compare_children(const void *a, const void *b)
{
	const struct child *x = a, *y = b;
	int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void children_clear(struct children *children)
{
	for (size_t i = 0; i < children->count; i++)
		free(children->list[i].name);
	free(children->list);
	*children = (struct children){0};
}

struct walk {
	struct cli *cli;
	int (*fn)(void *arg, const struct fs_entry *entry);
	void *arg;
};

static int read_children(struct cli *cli, struct span path, struct children *children)
{
	struct sys *sys = computer_sys(cli->computer);
	int fd = sys_open(sys, SYS_CWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return fd;
	r = sys_each_entry(sys, fd, add_child, children);
	sys_close(sys, fd);
	if (r == 0 && children->count)
		qsort(children->list, children->count, sizeof(struct child), compare_children);
	return r;
}

/* The depth is bounded: a path has at most SYS_PATH_MAX bytes. */
static int walk_one(struct walk *walk, const struct fs_entry *entry) /* NOLINT(misc-no-recursion) */
{
	CLEANUP(children_clear) struct children children = {0};
	CLEANUP(buf_clear) struct buf path = FS_PATH_INIT;
	int r;

	if (cancelled())
		return -ECANCELED;
	r = walk->fn(walk->arg, entry);
	if (r != 0 || !S_ISDIR(entry->stat->mode))
		return r < 0 ? r : 0;
	if (entry->depth >= FS_TREE_DEPTH_MAX)
		return -ELOOP;
	r = read_children(walk->cli, entry->path, &children);
	if (r == -ECANCELED)
		return r;
	if (r < 0)
		cli_complain(walk->cli, r, entry->path);
	for (size_t i = 0; i < children.count; i++) {
		const struct child *child = &children.list[i];
		struct fs_entry next = {.name = span_of(child->name, child->len),
					.stat = &child->stat,
					.depth = entry->depth + 1,
					.last = i + 1 == children.count};

		fs_join(&path, entry->path, next.name);
		next.path = span_of(path.data, path.len);
		r = walk_one(walk, &next);
		if (r < 0)
			return r;
	}
	return 0;
}

int fs_walk(struct cli *cli, struct span path, int (*fn)(void *arg, const struct fs_entry *entry),
	    void *arg)
{
	struct walk walk = {.cli = cli, .fn = fn, .arg = arg};
	struct sys_stat st;
	struct fs_entry start = {.path = path, .name = fs_base(path), .stat = &st, .last = true};
	int r = sys_stat(computer_sys(cli->computer), SYS_CWD, path, AT_SYMLINK_NOFOLLOW, &st);

	return r < 0 ? r : walk_one(&walk, &start);
}
