/* path.c - the files of a workspace: where they are, linking, renaming, syncing. */
#include "base/fd.h"
#include "base/text.h"
#include "store/store_i.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static char *path_join(const char *head, size_t head_len, const char *middle, const char *tail)
{
	size_t size = head_len + strlen(middle) + strlen(tail) + 1;
	char *path = mem_alloc(size);

	snprintf(path, size, "%.*s%s%s", (int)head_len, head, middle, tail);
	return path;
}

char *path_sibling(const char *db_path, const char *suffix)
{
	return path_join(db_path, strlen(db_path) - 3, "", suffix);
}

char *path_layer(const char *db_path, const char *id, const char *suffix)
{
	CLEANUP(mem_free) char *dir = path_sibling(db_path, ".layers/");

	return path_join(dir, strlen(dir), id, suffix);
}

int path_absolute(const char *path, char **ret_path, struct err *err)
{
	size_t len = strlen(path);
	CLEANUP(mem_free) char *cwd = NULL;

	if (len < 4 || strcmp(path + len - 3, ".db") != 0 || path[len - 4] == '/')
		return err_set(err, EINVAL, "'%s' does not end in '.db'", path);
	/* Room for "-wal", ".layers/ID.data.new" and the like. */
	if (len >= PATH_MAX - 128)
		return err_set(err, ENAMETOOLONG, "the path of the workspace is too long");
	if (path[0] == '/') {
		*ret_path = mem_strdup(path);
		return 0;
	}
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return err_set(err, errno, "cannot find the current folder");
	if (strlen(cwd) + len >= PATH_MAX - 128)
		return err_set(err, ENAMETOOLONG, "the path of the workspace is too long");
	*ret_path = path_join(cwd, strlen(cwd), "/", path);
	return 0;
}

int path_sync(const char *path)
{
	CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

int path_sync_dir(const char *path)
{
	const char *slash = strrchr(path, '/');
	CLEANUP(mem_free)
	char *dir = path_join(path, slash ? (size_t)(slash - path) : 0, slash ? "/" : ".", "");

	return path_sync(dir);
}

int path_drop_wal(const char *db_path)
{
	CLEANUP(mem_free) char *wal = path_sibling(db_path, ".db-wal");
	struct stat st;

	if (stat(wal, &st) == 0 && st.st_size)
		return -EIO;
	return path_unlink(wal);
}

int path_unlink(const char *path)
{
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

static int path_copy(const char *from, const char *to)
{
	CLEANUP(fd_close) int in = -1;
	CLEANUP(fd_close) int out = -1;
	struct stat st;
	ssize_t n = 1;

	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0 || fstat(in, &st) < 0)
		return -errno;
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	while (n > 0) {
		CLEANUP(mem_free) char *bytes = NULL;

		n = copy_file_range(in, NULL, out, NULL, (size_t)1 << 30, 0);
		if (n >= 0 || (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP))
			continue;
		bytes = mem_alloc(STORE_UNIT);
		n = read(in, bytes, STORE_UNIT);
		if (n > 0) {
			int r = fd_write_all(out, bytes, (size_t)n);

			if (r < 0)
				return r;
		}
	}
	return n < 0 || fsync(out) < 0 ? -errno : 0;
}

int path_link(const char *from, const char *to)
{
	CLEANUP(mem_free) char *part = NULL;
	int r;

	if (link(from, to) == 0)
		return 0;
	if (errno == EEXIST)
		return 0; /* a layer never changes, so it is the same one */
	if (errno != EXDEV && errno != EPERM && errno != EMLINK && errno != EOPNOTSUPP)
		return -errno;
	part = path_join(to, strlen(to), ".new", "");
	r = path_unlink(part);
	if (r == 0)
		r = path_copy(from, part);
	if (r < 0)
		return r;
	return rename(part, to) < 0 ? -errno : 0;
}

int path_rename_new(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* A filesystem without NOREPLACE. */
	if (link(from, to) < 0)
		return -errno;
	return unlink(from) < 0 ? -errno : 0;
}

int path_link_all(const char *from, const char *to)
{
	DIR *dir = opendir(from);
	int r = 0;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	if (mkdir(to, 0700) < 0 && errno != EEXIST)
		r = -errno;
	for (struct dirent *entry = NULL; r == 0 && (entry = readdir(dir));) {
		CLEANUP(mem_free) char *old = path_join(from, strlen(from), "/", entry->d_name);
		CLEANUP(mem_free) char *new = path_join(to, strlen(to), "/", entry->d_name);

		if (entry->d_name[0] != '.')
			r = path_link(old, new);
	}
	closedir(dir);
	return r == 0 ? path_sync(to) : r;
}

static int path_remove_layers(const char *db_path)
{
	CLEANUP(mem_free) char *path = path_sibling(db_path, ".layers");
	DIR *dir = opendir(path);
	int r = 0;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	for (struct dirent *entry = readdir(dir); entry && r == 0; entry = readdir(dir)) {
		if (entry->d_name[0] == '.')
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) < 0 && errno != ENOENT)
			r = -errno;
	}
	closedir(dir);
	if (r == 0 && rmdir(path) < 0)
		r = -errno;
	return r;
}

int path_remove_siblings(const char *db_path)
{
	static const char *const suffixes[] = {".db-wal",     ".db-shm", ".db.new",  ".db.new-wal",
					       ".db.new-shm", ".data",   ".data.new"};

	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		CLEANUP(mem_free) char *path = path_sibling(db_path, suffixes[i]);
		int r = path_unlink(path);

		if (r < 0)
			return r;
	}
	return path_remove_layers(db_path);
}

void id_new(char ret_id[STORE_ID + 1])
{
	unsigned char bytes[STORE_ID / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		abort(); /* no ids without randomness; the call cannot fail for 16 bytes */
	text_hex(bytes, sizeof(bytes), ret_id);
}

bool id_valid(const char *id, size_t len)
{
	return len == STORE_ID && strspn(id, "0123456789abcdef") >= STORE_ID;
}
