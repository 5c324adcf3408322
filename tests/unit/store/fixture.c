/* fixture.c - see fixture.h. */
#include "fixture.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

struct store *open_at(const char *path, unsigned flags)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	if (store_open(path, flags, &store, &err) < 0)
		fail_msg("%s", err.text);
	return store;
}

int fixture_setup(void **state)
{
	struct fixture *fixture = mem_alloc0(sizeof(*fixture));
	const char *tmp = getenv("TMPDIR");

	snprintf(fixture->dir, sizeof(fixture->dir), "%s/store-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(fixture->dir))
		return -1;
	snprintf(fixture->path, sizeof(fixture->path), "%s/a.db", fixture->dir);
	snprintf(fixture->other, sizeof(fixture->other), "%s/b.db", fixture->dir);
	fixture->store = open_at(fixture->path, STORE_CREATE);
	*state = fixture;
	return 0;
}

int fixture_teardown(void **state)
{
	struct fixture *fixture = *state;

	store_close(fixture->store);
	nftw(fixture->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(fixture);
	return 0;
}

void fixture_reopen(struct fixture *fixture)
{
	store_close(fixture->store);
	fixture->store = NULL;
	fixture->store = open_at(fixture->path, 0);
}

const char *fixture_file(struct fixture *fixture, const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", fixture->dir, name);
	return path;
}

bool file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

int layer_files(const char *db_path)
{
	char path[256];
	DIR *dir;
	int count = 0;

	snprintf(path, sizeof(path), "%.*s.layers", (int)strlen(db_path) - 3, db_path);
	dir = opendir(path);
	if (!dir)
		return 0;
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

struct store_node node_file(int64_t ino, int64_t size)
{
	return (struct store_node){.ino = ino,
				   .mode = S_IFREG | 0644,
				   .uid = 1,
				   .gid = 2,
				   .nlink = 1,
				   .size = size,
				   .atime = 1000 + ino,
				   .mtime = 2000 + ino,
				   .ctime = 3000 + ino,
				   .btime = 4000 + ino};
}

struct store_node node_large(int64_t ino, int64_t units)
{
	struct store_node node = node_file(ino, units * STORE_UNIT);

	node.flags = STORE_NODE_EXTENTS;
	node.rdev = (uint64_t)units;
	return node;
}

struct store_node node_dir(int64_t ino, int64_t parent)
{
	struct store_node node = node_file(ino, 0);

	node.mode = S_IFDIR | 0755;
	node.nlink = 2;
	node.rdev = (uint64_t)parent;
	return node;
}

void put_file(struct store *store, int64_t parent, const char *name, int64_t ino,
	      const char *content)
{
	struct store_node node = node_file(ino, (int64_t)strlen(content));

	OK(store_put_node(store, &node));
	OK(store_put_dirent(store, parent, span_str(name), ino));
	OK(store_put_inline(store, ino, span_str(content)));
}

static void count(struct store *store, int64_t bytes, int inodes, int64_t ino)
{
	struct store_info info;
	int64_t next;

	store_get_info(store, &info);
	next = info.next_ino > ino ? info.next_ino : ino + 1;
	OK(store_put_counters(store, next, (uint64_t)((int64_t)info.bytes + bytes),
			      (uint64_t)((int64_t)info.inodes + inodes)));
}

void add_file(struct store *store, const char *name, int64_t ino, const char *content)
{
	OK(store_begin(store));
	put_file(store, STORE_ROOT, name, ino, content);
	count(store, (int64_t)strlen(content), 1, ino);
	OK(store_commit(store, false));
}

void add_large(struct store *store, const char *name, int64_t ino, int units, int first)
{
	struct store_node node = node_large(ino, units);
	char *bytes = mem_alloc(STORE_UNIT);

	OK(store_begin(store));
	OK(store_put_node(store, &node));
	OK(store_put_dirent(store, STORE_ROOT, span_str(name), ino));
	for (int i = 0; i < units; i++) {
		int64_t pos;

		assert_int_equal(store_data_alloc(store, 1, &pos), 1);
		memset(bytes, first + i, STORE_UNIT);
		OK(store_data_write(store, pos, 0, bytes, STORE_UNIT));
		OK(store_put_unit(store, ino, i, pos));
	}
	count(store, (int64_t)units * STORE_UNIT, 1, ino);
	OK(store_commit(store, false));
	free(bytes);
}

void remove_file(struct store *store, const char *name, int64_t ino)
{
	struct store_node node;
	int64_t bytes;

	OK(store_get_node(store, ino, &node));
	bytes = node.flags & STORE_NODE_EXTENTS ? (int64_t)node.rdev * STORE_UNIT : node.size;
	OK(store_begin(store));
	OK(store_del_dirent(store, STORE_ROOT, span_str(name)));
	OK(store_del_node(store, ino));
	count(store, -bytes, -1, 0);
	OK(store_commit(store, false));
}

void assert_content(struct store *store, int64_t ino, const char *want)
{
	CLEANUP(buf_clear) struct buf content = BUF_INIT(STORE_INLINE_MAX);

	OK(store_get_inline(store, ino, &content));
	assert_string_equal(content.data, want);
}

void assert_units(struct store *store, int64_t ino, int units, int first)
{
	struct store_unit *unit = mem_alloc((size_t)units * sizeof(*unit));
	char *bytes = mem_alloc(STORE_UNIT), *want = mem_alloc(STORE_UNIT);

	OK(store_get_units(store, ino, 0, (size_t)units, unit));
	for (int i = 0; i < units; i++) {
		assert_int_not_equal(unit[i].pos, STORE_HOLE);
		OK(store_data_read(store, unit[i], 0, bytes, STORE_UNIT));
		memset(want, first + i, STORE_UNIT);
		assert_memory_equal(bytes, want, STORE_UNIT);
	}
	free(unit);
	free(bytes);
	free(want);
}

void assert_name(struct store *store, const char *name, int64_t want_ino)
{
	int64_t ino = 0;
	int r = store_get_dirent(store, STORE_ROOT, span_str(name), &ino);

	assert_int_equal(r, want_ino ? 0 : -ENOENT);
	assert_int_equal(ino, want_ino);
}

static void print_problem(void *arg, enum store_problem problem, const char *text, bool repaired)
{
	(void)arg;
	print_message("problem %d: %s%s\n", (int)problem, text, repaired ? " (repaired)" : "");
}

void assert_clean(struct store *store)
{
	struct err err = ERR_INIT;
	int r = store_check(store, false, print_problem, NULL, &err);

	if (r < 0)
		fail_msg("check: %s", err.text);
	assert_int_equal(r, 0);
}

static void ignore_problem(void *arg, enum store_problem problem, const char *text, bool repaired)
{
	(void)arg;
	(void)text;
	(void)repaired;
	assert_int_equal(problem, STORE_COUNTERS);
}

void put_right_counters(struct store *store)
{
	OK(store_check(store, true, ignore_problem, NULL, NULL));
}
