/* registry.c - names of workspaces, and where they are. */
#include "base/fd.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "computer/computer_i.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static bool ends_in_db(const char *text)
{
	size_t len = strlen(text);

	return len > 3 && strcmp(text + len - 3, ".db") == 0 && text[len - 4] != '/';
}

static int name_check(const char *name, size_t max, const char *what, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	CLEANUP(buf_clear) struct buf shown = BUF_INIT(1024);
	size_t len = strlen(name);

	if (len >= 1 && len <= max && strspn(name, letters) == len && name[0] != '.' &&
	    name[0] != '-')
		return 0;
	if (text_add_escaped(&shown, span_of(name, len < 100 ? len : 100)) < 0)
		return err_set(err, EINVAL, "bad name of a %s", what);
	return err_set(err, EINVAL,
		       "'%s' is no name of a %s: 1 to %zu letters, digits, '.', '_' or '-', not "
		       "starting with '.' or '-'",
		       shown.data, what, max);
}

int workspace_name_check(const char *name, struct err *err)
{
	return name_check(name, WORKSPACE_NAME_MAX, "workspace", err);
}

int workspace_snapshot_check(const char *name, struct err *err)
{
	return name_check(name, WORKSPACE_SNAPSHOT_MAX, "snapshot", err);
}

int workspace_home(char ret_path[PATH_MAX], struct err *err)
{
	static const char *const ways[][2] = {
		{"COMPUTER_HOME", ""},
		{"XDG_DATA_HOME", "/computer"},
		{"HOME", "/.local/share/computer"},
	};

	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		const char *value = getenv(ways[i][0]);
		char path[PATH_MAX];
		int n;

		/* The XDG specification has relative paths ignored; we do so for all. */
		if (!value || value[0] != '/')
			continue;
		n = snprintf(path, sizeof(path), "%s%s", value, ways[i][1]);
		if (n >= (int)sizeof(path) - 256)
			return err_set(err, ENAMETOOLONG, "$%s is too long", ways[i][0]);
		while (n > 1 && path[n - 1] == '/')
			path[--n] = '\0';
		memcpy(ret_path, path, (size_t)n + 1);
		return 0;
	}
	return err_set(err, ENOENT,
		       "no place for workspaces: set HOME or COMPUTER_HOME to an absolute path");
}

/* Absolute, and the same however it is spelled, so that everybody finds the same lock. */
static int normal_path(const char *text, char ret_path[PATH_MAX], struct err *err)
{
	CLEANUP(mem_free) char *real = realpath(text, NULL);
	CLEANUP(mem_free) char *dir = NULL;
	const char *base = strrchr(text, '/');
	int n;

	if (real && ends_in_db(real) && strlen(real) < PATH_MAX) {
		memcpy(ret_path, real, strlen(real) + 1);
		return 0;
	}
	if (real)
		return err_set(err, EINVAL, "'%s' leads to a file that does not end in '.db'",
			       text);
	base = base ? base + 1 : text;
	dir = mem_dup(text, (size_t)(base - text) + 2);
	if (base == text)
		memcpy(dir, ".", 2);
	else
		dir[base - text] = '\0';
	free(real);
	real = realpath(dir, NULL);
	if (!real)
		return err_set(err, errno, "cannot look into '%s'", dir);
	n = snprintf(ret_path, PATH_MAX, "%s/%s", strcmp(real, "/") == 0 ? "" : real, base);
	if (n >= PATH_MAX)
		return err_set(err, ENAMETOOLONG, "the path of the workspace is too long");
	return 0;
}

static int resolve_path(const char *text, struct workspace *workspace, struct err *err)
{
	const char *base;
	size_t len;
	int r;

	if (!ends_in_db(text))
		return err_set(err, EINVAL, "'%s': the path of a workspace ends in '.db'", text);
	if (strpbrk(text, "\n\r"))
		return err_set(err, EINVAL, "the path of a workspace has no line breaks");
	r = normal_path(text, workspace->path, err);
	if (r < 0)
		return r;
	base = strrchr(workspace->path, '/') + 1;
	len = strlen(base) - 3;
	memcpy(workspace->name, base, len);
	workspace->name[len] = '\0';
	return 0;
}

static int resolve_name(const char *name, struct workspace *workspace, struct err *err)
{
	char home[PATH_MAX], path[PATH_MAX];
	int r = workspace_name_check(name, err), n;

	if (r == 0)
		r = workspace_home(home, err);
	if (r < 0)
		return r;
	memcpy(workspace->name, name, strlen(name) + 1);
	n = snprintf(path, sizeof(path), "%s/%s.db", home, name);
	if (n >= (int)sizeof(path))
		return err_set(err, ENAMETOOLONG, "the path of the workspace is too long");
	/* When the home is not there yet nothing in it has two spellings. */
	if (normal_path(path, workspace->path, NULL) < 0)
		memcpy(workspace->path, path, (size_t)n + 1);
	return 0;
}

int workspace_resolve(const char *text, struct workspace *ret_workspace, struct err *err)
{
	struct workspace workspace = {0};
	CLEANUP(mem_free) char *copy = NULL;
	char *at;
	int r;

	if (strlen(text) >= PATH_MAX)
		return err_set(err, ENAMETOOLONG, "the name of the workspace is too long");
	copy = mem_strdup(text);
	at = ends_in_db(copy) ? NULL : strrchr(copy, '@');
	if (at) {
		*at++ = '\0';
		r = workspace_snapshot_check(at, err);
		if (r < 0)
			return r;
		memcpy(workspace.snapshot, at, strlen(at) + 1);
	}
	if (strchr(copy, '/') || ends_in_db(copy))
		r = resolve_path(copy, &workspace, err);
	else
		r = resolve_name(copy, &workspace, err);
	if (r == 0)
		*ret_workspace = workspace;
	return r;
}

bool workspace_exists(const struct workspace *workspace)
{
	struct stat st;

	return stat(workspace->path, &st) == 0;
}

/* ---- listing ---- */

/* Who holds the lock beside `path`, without taking it: a pid, or 0. */
static int64_t lock_holder(const char *path)
{
	CLEANUP(fd_close) int fd = -1;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char name[PATH_MAX + 8], text[32] = "";
	int64_t pid;
	ssize_t n;

	snprintf(name, sizeof(name), "%.*s.lock", (int)strlen(path) - 3, path);
	fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return 0;
	n = fd_pread_full(fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return parse_i64(text, &pid) == 0 ? pid : -1;
}

static uint64_t disk_bytes(const char *path, const char *suffix)
{
	char name[PATH_MAX + 8];
	struct stat st;

	snprintf(name, sizeof(name), "%.*s%s", (int)strlen(path) - 3, path, suffix);
	return stat(name, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static int see(const char *home, const char *file,
	       int (*fn)(void *, const struct workspace_entry *), void *arg)
{
	struct workspace_entry entry = {0};
	size_t len = strlen(file) - 3;
	struct stat st;
	int n;

	memcpy(entry.workspace.name, file, len);
	if (workspace_name_check(entry.workspace.name, NULL) < 0)
		return 0;
	n = snprintf(entry.workspace.path, sizeof(entry.workspace.path), "%s/%s", home, file);
	if (n >= PATH_MAX || stat(entry.workspace.path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	entry.disk_bytes = disk_bytes(entry.workspace.path, ".db") +
			   disk_bytes(entry.workspace.path, ".db-wal") +
			   disk_bytes(entry.workspace.path, ".data");
	entry.mtime = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	entry.owner = lock_holder(entry.workspace.path);
	return fn(arg, &entry);
}

static int is_db(const struct dirent *entry)
{
	return ends_in_db(entry->d_name);
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int workspace_each(int (*fn)(void *arg, const struct workspace_entry *entry), void *arg,
		   struct err *err)
{
	struct dirent **entries;
	char home[PATH_MAX];
	int r = workspace_home(home, err), count;

	if (r < 0)
		return r;
	count = scandir(home, &entries, is_db, by_bytes);
	if (count < 0)
		return errno == ENOENT ? 0 : err_set(err, errno, "cannot list '%s'", home);
	for (int i = 0; i < count; i++) {
		if (r == 0)
			r = see(home, entries[i]->d_name, fn, arg);
		free(entries[i]);
	}
	free(entries);
	return r;
}
