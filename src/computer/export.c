/* export.c - a walk through the workspace, whatever form it goes into. */
#include "base/mem.h"
#include "computer/port_i.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX ((size_t)1 << 30)

struct walk {
	struct port *port;
	int (*fn)(void *arg, const struct export_entry *entry);
	int (*after)(void *arg, const struct export_entry *entry);
	void *arg;
	struct buf path;
};

/* The entries of a directory: struct child, the name, a NUL. */
struct child {
	struct sys_stat stat;
	size_t len;
};

static int collect_child(void *arg, const struct sys_entry *entry)
{
	const struct child child = {*entry->stat, entry->name.len};
	int r;

	/* The owner of the files may be another process: names go into the host's tree. */
	if (memchr(entry->name.data, '/', entry->name.len) ||
	    memchr(entry->name.data, 0, entry->name.len))
		return -EPROTO;
	r = buf_add(arg, &child, sizeof(child));
	if (r == 0)
		r = buf_add(arg, entry->name.data, entry->name.len);
	return r == 0 ? buf_add(arg, "", 1) : r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Pointers to the names, sorted; the child is in front of each. */
static const char **sort_children(const struct buf *children, size_t *ret_count)
{
	const char **names = NULL;
	size_t count = 0, cap = 0;

	for (size_t pos = 0; pos < children->len;) {
		struct child child;

		memcpy(&child, children->data + pos, sizeof(child));
		if (count == cap) {
			cap = cap ? 2 * cap : 64;
			names = mem_realloc(names, cap * sizeof(*names));
		}
		names[count++] = children->data + pos + sizeof(child);
		pos += sizeof(child) + child.len + 1;
	}
	if (count)
		qsort(names, count, sizeof(*names), by_name);
	*ret_count = count;
	return names;
}

static int walk_dir(struct walk *walk, int fd, int depth);

static int walk_entry(struct walk *walk, const struct export_entry *entry, int depth)
{
	int r = walk->fn(walk->arg, entry), fd;

	if (r < 0 || !S_ISDIR(entry->stat->mode))
		return r;
	if (depth > PORT_DEPTH_MAX)
		return port_fail(walk->port, -ELOOP, "too many directories in each other at",
				 entry->path);
	fd = sys_open(walk->port->sys, entry->dir, entry->name,
		      O_RDONLY | O_DIRECTORY | (depth ? O_NOFOLLOW : 0), 0);
	if (fd < 0)
		return port_fail(walk->port, fd, "cannot open", entry->path);
	r = walk_dir(walk, fd, depth);
	(void)sys_close(walk->port->sys, fd);
	if (r == 0 && walk->after) {
		/* The buffer may have moved, its content is as it was. */
		struct export_entry again = *entry;

		again.path = span_of(walk->path.data, entry->path.len);
		r = walk->after(walk->arg, &again);
	}
	return r;
}

static int walk_child(struct walk *walk, int fd, const char *name, int depth)
{
	size_t before = walk->path.len;
	struct child child;
	int r = before ? buf_add(&walk->path, "/", 1) : 0;

	memcpy(&child, name - sizeof(child), sizeof(child));
	if (r == 0)
		r = buf_add(&walk->path, name, child.len);
	if (r == 0) {
		const struct export_entry entry = {
			.dir = fd,
			.name = span_of(name, child.len),
			.path = span_of(walk->path.data, walk->path.len),
			.stat = &child.stat,
		};

		r = walk_entry(walk, &entry, depth + 1);
	}
	walk->path.len = before;
	walk->path.data[before] = '\0';
	return r;
}

static int walk_dir(struct walk *walk, int fd, int depth)
{
	CLEANUP(buf_clear) struct buf children = BUF_INIT(NAMES_MAX);
	CLEANUP(mem_free) const char **names = NULL;
	size_t count;
	int r = sys_each_entry(walk->port->sys, fd, collect_child, &children);

	if (r < 0)
		return port_fail(walk->port, r, "cannot list",
				 span_of(walk->path.data, walk->path.len));
	names = sort_children(&children, &count);
	for (size_t i = 0; i < count && r == 0; i++)
		r = walk_child(walk, fd, names[i], depth);
	return r;
}

static void walk_clear(struct walk *walk)
{
	buf_clear(&walk->path);
}

int export_walk(struct port *port, int (*fn)(void *arg, const struct export_entry *entry),
		int (*after)(void *arg, const struct export_entry *entry), void *arg)
{
	CLEANUP(walk_clear) struct walk walk = {port, fn, after, arg, BUF_INIT(1 << 20)};
	struct span start = span_str(port->options->path ? port->options->path : "/");
	struct sys_stat stat;
	const struct export_entry entry = {.dir = SYS_CWD, .name = start, .stat = &stat};
	int r = sys_stat(port->sys, SYS_CWD, start, 0, &stat);

	/* "/" may be given in any spelling; its buffer must be one that can be cut. */
	if (r == 0)
		r = buf_add(&walk.path, "x", 1);
	walk.path.len = 0;
	if (r == 0 && !S_ISDIR(stat.mode))
		r = -ENOTDIR;
	if (r < 0)
		return port_fail(port, r, "cannot export", start);
	walk.path.data[0] = '\0';
	return walk_entry(&walk, &entry, 0);
}

int export_content(struct port *port, const struct export_entry *entry,
		   int (*fn)(void *arg, struct span bytes, int64_t offset), void *arg)
{
	CLEANUP(buf_clear) struct buf bytes = BUF_INIT(SYS_IO_MAX);
	struct sys *sys = port->sys;
	struct sys_stat stat;
	int64_t offset, next;
	ssize_t n;
	int fd, r = 0;

	if (entry->stat->size == 0)
		return 0;
	if (entry->stat->size <= PORT_SMALL) { /* one call instead of four */
		n = sys_readfile(sys, entry->dir, entry->name, 0, PORT_SMALL, &stat, &bytes);
		if (n < 0)
			return port_fail(port, (int)n, "cannot read", entry->path);
		return n ? fn(arg, span_of(bytes.data, bytes.len), 0) : 0;
	}
	fd = sys_open(sys, entry->dir, entry->name, O_RDONLY | O_NOFOLLOW, 0);
	if (fd < 0)
		return port_fail(port, fd, "cannot read", entry->path);
	for (offset = 0; r == 0 && offset < entry->stat->size; offset += n) {
		next = sys_lseek(sys, fd, offset, SEEK_DATA);
		if (next == -ENXIO)
			break;
		offset = next > offset ? next : offset;
		bytes.len = 0;
		n = sys_read(sys, fd, SYS_IO_MAX, offset, &bytes);
		if (n < 0)
			r = port_fail(port, (int)n, "cannot read", entry->path);
		if (n <= 0)
			break;
		r = fn(arg, span_of(bytes.data, bytes.len), offset);
	}
	(void)sys_close(sys, fd);
	return r;
}

int export_xattrs(struct port *port, const struct export_entry *entry,
		  int (*fn)(void *arg, struct span name, struct span value), void *arg)
{
	CLEANUP(buf_clear) struct buf names = BUF_INIT(SYS_XATTR_MAX);
	int r = sys_listxattr(port->sys, entry->dir, entry->name, AT_SYMLINK_NOFOLLOW, &names);

	for (size_t pos = 0; r == 0 && pos < names.len;) {
		CLEANUP(buf_clear) struct buf value = BUF_INIT(SYS_XATTR_MAX);
		struct span name = span_str(names.data + pos);

		pos += name.len + 1;
		r = sys_getxattr(port->sys, entry->dir, entry->name, name, AT_SYMLINK_NOFOLLOW,
				 &value);
		if (r == 0)
			r = fn(arg, name, span_of(value.data, value.len));
	}
	return r < 0 ? port_fail(port, r, "cannot read the attributes of", entry->path) : 0;
}
