/* fixture.c - see fixture.h. */
#include "fixture.h"

#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/wait.h>
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

struct fixture *fixture_new(void)
{
	struct fixture *fixture = mem_alloc0(sizeof(*fixture));
	const char *tmp = getenv("TMPDIR");

	/* In memory where possible: these tests sync thousands of times, and lose no power. */
	if (!tmp)
		tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(fixture->dir, sizeof(fixture->dir), "%s/store-XXXXXX", tmp);
	if (!mkdtemp(fixture->dir))
		fail_msg("cannot make a folder in %s", tmp);
	snprintf(fixture->path, sizeof(fixture->path), "%s/a.db", fixture->dir);
	snprintf(fixture->other, sizeof(fixture->other), "%s/b.db", fixture->dir);
	return fixture;
}

int fixture_setup(void **state)
{
	struct fixture *fixture = fixture_new();

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

void set_content(struct store *store, int64_t ino, const char *content)
{
	struct store_node node;
	struct store_info info;

	OK(store_get_node(store, ino, &node));
	store_get_info(store, &info);
	OK(store_begin(store));
	OK(store_put_counters(
		store, info.next_ino,
		(uint64_t)((int64_t)info.bytes + (int64_t)strlen(content) - node.size),
		info.inodes));
	node.size = (int64_t)strlen(content);
	OK(store_put_node(store, &node));
	OK(store_put_inline(store, ino, span_str(content)));
	OK(store_commit(store, false));
}

static int list(void *arg, struct span name, int64_t ino, uint32_t mode)
{
	char text[300];
	int len = snprintf(text, sizeof(text), "%.*s=%d ", (int)name.len, name.data, (int)ino);

	(void)mode;
	return buf_add(arg, text, (size_t)len);
}

static int list_node(void *arg, struct span name, const struct store_node *node)
{
	return list(arg, name, node->ino, node->mode);
}

void assert_list(struct store *store, const char *want)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(4096);
	CLEANUP(buf_clear) struct buf nodes = BUF_INIT(4096);

	OK(store_each_dirent(store, STORE_ROOT, list, &text));
	assert_string_equal(text.data, want);
	OK(store_each_dirent_node(store, STORE_ROOT, list_node, &nodes));
	assert_string_equal(nodes.data, want);
}

int list_snapshot(void *arg, const struct store_snapshot *snapshot)
{
	char text[300];
	int len = snprintf(text, sizeof(text), "%s:%d:%d:%d ", snapshot->name, (int)snapshot->bytes,
			   (int)snapshot->inodes, (int)snapshot->audit_seq);

	return buf_add(arg, text, (size_t)len);
}

void assert_snapshots(struct store *store, const char *want)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(4096);

	OK(store_each_snapshot(store, list_snapshot, &text));
	assert_string_equal(text.data, want);
}

void audit_one(struct store *store, uint64_t seq)
{
	unsigned char hash[32] = {(unsigned char)seq};

	OK(store_begin(store));
	OK(store_put_audit(store, seq, seq, 5, SPAN("r"), hash));
	OK(store_commit(store, false));
}

static int list_audit(void *arg, uint64_t first, uint64_t last, struct span records,
		      const unsigned char hash[32])
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%d ", (int)first);

	(void)records;
	assert_int_equal(first, last);
	assert_int_equal(hash[0], first);
	return buf_add(arg, text, (size_t)len);
}

void assert_audit(struct store *store, const char *want)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(4096);

	OK(store_each_audit(store, 0, list_audit, &text));
	assert_string_equal(text.data, want);
}

/* A chain of `count` layers; each changes something of the one before. */
void deepen(struct store *store, int count)
{
	char name[16];

	add_file(store, "all", 100, "0");
	add_large(store, "big", 101, 3, 1);
	for (int i = 1; i <= count; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		set_content(store, 100, name);
		add_file(store, name, 200 + i, name);
		if (i > 1) {
			char last[16];

			snprintf(last, sizeof(last), "s%d", i - 1);
			remove_file(store, last, 200 + i - 1);
		}
		OK(store_snapshot(store, name, NULL));
	}
}

/* A child that does `work` and dies without closing. */
void crash(struct fixture *fixture, void (*work)(struct store *store))
{
	pid_t pid;
	int status;

	store_close(fixture->store);
	fixture->store = NULL;
	pid = fork();
	if (pid == 0) {
		struct store *store = NULL;

		if (store_open(fixture->path, 0, &store, NULL) == 0)
			work(store);
		_exit(7);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 7);
	fixture->store = open_at(fixture->path, 0);
}

/* ---- copies of a whole folder ---- */

static const char *copy_from, *copy_to;

static int copy_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	CLEANUP(buf_clear) struct buf bytes = BUF_INIT((size_t)1 << 30);
	CLEANUP(fd_close) int fd = -1;
	char to[300];

	(void)ftw;
	snprintf(to, sizeof(to), "%s%s", copy_to, path + strlen(copy_from));
	if (type == FTW_D)
		return mkdir(to, 0700) < 0 && errno != EEXIST ? -1 : 0;
	fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, st->st_mode);
	return file_read(path, &bytes, NULL) < 0 || fd_write_all(fd, bytes.data, bytes.len) < 0;
}

void copy_tree(const char *from, const char *to)
{
	copy_from = from;
	copy_to = to;
	OK(nftw(from, copy_one, 16, FTW_PHYS));
}
