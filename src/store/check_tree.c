/* check_tree.c - every entry leads to an inode, and every inode has a way from the root. */
#include "base/clock.h"
#include "store/check_i.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* A root that is missing, or no directory. */
static int make_root(struct check *check)
{
	int64_t now = clock_stamp();
	struct store_node root = {.ino = STORE_ROOT,
				  .mode = S_IFDIR | 0755,
				  .nlink = 2,
				  .rdev = STORE_ROOT,
				  .atime = now,
				  .mtime = now,
				  .ctime = now,
				  .btime = now};

	check_report(check, STORE_DAMAGED, check->repair, "there is no root directory");
	check_add(check, &root);
	check->made++;
	return check->repair ? store_put_node(check->store, &root) : 0;
}

/* A row that cannot be decoded. A tombstone takes its place, as deleting would read it. */
static int bad_row(struct check *check, int64_t ino, size_t layer)
{
	struct conn *conn = &check->store->layers[0].conn[WRITER];
	int r;

	/* Nobody can ask for it by such a number. */
	if ((ino < STORE_ROOT || ino > STORE_INO_MAX) && layer > 0)
		return 0;
	check_report(check, STORE_DAMAGED, check->repair, "the row of inode %lld makes no sense",
		     (long long)ino);
	if (!check->repair)
		return 0;
	if (ino >= STORE_ROOT && ino <= STORE_INO_MAX)
		return store_put_node(check->store, &(struct store_node){.ino = ino});
	r = stmt_prepare(conn, STMT_DEL_NODE);
	if (r < 0)
		return r;
	sqlite3_bind_int64(conn->stmt[STMT_DEL_NODE], 1, ino);
	return stmt_run(check->store, conn->stmt[STMT_DEL_NODE]);
}

int check_nodes(struct check *check)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	struct store *store = check->store;
	struct store_node node;
	int r = merge_begin(&merge, all_layers(store, READER), STMT_WALK_NODE, NULL);

	if (r < 0)
		return r;
	for (r = merge_next(&merge); r == 1; r = merge_next(&merge)) {
		int64_t ino = sqlite3_column_int64(merge_row(&merge), 0);

		if (ino >= check->next_ino && ino <= STORE_INO_MAX)
			check->next_ino = ino + 1;
		if (row_node(merge_row(&merge), 0, &node) < 0) {
			r = bad_row(check, ino, merge_layer(&merge));
			if (r < 0)
				return r;
			continue;
		}
		if (node.mode == 0)
			continue;
		if (check->len == 0 && (ino != STORE_ROOT || !S_ISDIR(node.mode))) {
			r = make_root(check);
			if (r < 0)
				return r;
		}
		if (ino != STORE_ROOT || S_ISDIR(node.mode))
			check_add(check, &node);
	}
	if (r == 0 && check->len == 0)
		r = make_root(check);
	return r;
}

/* What is wrong with an entry, or NULL. */
static const char *entry_wrong(struct check *check, int64_t parent, struct span name, int64_t ino,
			       enum store_problem *ret_problem)
{
	struct item *dir = check_find(check, parent), *item = check_find(check, ino);

	*ret_problem = STORE_NO_NODE;
	if (!dir || !S_ISDIR(dir->mode))
		return "is in no directory";
	if (!name_valid(name))
		return "has an impossible name";
	if (!item)
		return "leads to no inode";
	if (!S_ISDIR(item->mode))
		return NULL;
	*ret_problem = STORE_CYCLE;
	if (ino == STORE_ROOT)
		return "leads to the root";
	return item->names ? "is a second name of a directory" : NULL;
}

int check_entries(struct check *check)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	struct store *store = check->store;
	int r = merge_begin(&merge, all_layers(store, READER), STMT_WALK_DIRENT, NULL);

	if (r < 0)
		return r;
	for (r = merge_next(&merge); r == 1; r = merge_next(&merge)) {
		sqlite3_stmt *row = merge_row(&merge);
		int64_t parent = sqlite3_column_int64(row, 0), ino = sqlite3_column_int64(row, 2);
		struct span name =
			span_of(sqlite3_column_blob(row, 1), (size_t)sqlite3_column_bytes(row, 1));
		enum store_problem problem;
		const char *wrong;
		struct item *item;

		if (ino == 0)
			continue;
		wrong = entry_wrong(check, parent, name, ino, &problem);
		if (wrong) {
			check_report(check, problem, check->repair,
				     "an entry of directory %lld that names inode %lld %s",
				     (long long)parent, (long long)ino, wrong);
			if (check->repair && store_del_dirent(store, parent, name) < 0)
				return store->failed;
			continue;
		}
		item = check_find(check, ino);
		item->names++;
		if (S_ISDIR(item->mode)) {
			item->parent = parent;
			check_find(check, parent)->folders++;
		}
	}
	return r;
}

/* ---- /lost+found ---- */

static int find_lost(struct check *check)
{
	static const char *const names[] = {"lost+found", "lost+found-1", "lost+found-2"};
	struct store *store = check->store;
	int64_t now = clock_stamp(), ino;
	struct store_node node = {.mode = S_IFDIR | 0700,
				  .nlink = 2,
				  .rdev = STORE_ROOT,
				  .atime = now,
				  .mtime = now,
				  .ctime = now,
				  .btime = now};

	for (size_t i = 0; i < ARRAY_LEN(names) && !check->lost; i++) {
		struct item *item;
		int r = find_dirent(store, WRITER, 0, STORE_ROOT, span_str(names[i]), &ino);

		if (r < 0)
			return r;
		item = r ? check_find(check, ino) : NULL;
		if (item && S_ISDIR(item->mode) && item->parent == STORE_ROOT) {
			check->lost = ino;
		} else if (r == 0) {
			node.ino = check->next_ino > STORE_ROOT ? check->next_ino : STORE_ROOT + 1;
			check->next_ino = node.ino + 1;
			r = store_put_node(store, &node);
			if (r == 0)
				r = store_put_dirent(store, STORE_ROOT, span_str(names[i]),
						     node.ino);
			if (r < 0)
				return r;
			item = check_add(check, &node);
			check->made++;
			item->names = 1;
			item->parent = STORE_ROOT;
			item->reachable = item->touched = true;
			check->item[0].touched = true;
			check->item[0].folders++;
			check->lost = node.ino;
		}
	}
	return check->lost ? 0 : -EEXIST;
}

/* Give an inode a name in /lost+found. The item may move in memory: find it again. */
static int rescue(struct check *check, int64_t ino)
{
	struct item *item;
	char name[32];
	int64_t other;
	int r, len = snprintf(name, sizeof(name), "#%lld", (long long)ino);

	r = find_lost(check);
	while (r == 0) {
		r = find_dirent(check->store, WRITER, 0, check->lost, span_of(name, (size_t)len),
				&other);
		if (r == 0)
			break;
		if (r < 0 || (size_t)len + 1 >= sizeof(name))
			return r < 0 ? r : -EEXIST;
		name[len++] = '_';
		r = 0;
	}
	if (r == 0)
		r = store_put_dirent(check->store, check->lost, span_of(name, (size_t)len), ino);
	if (r < 0)
		return r;
	item = check_find(check, ino);
	item->names++;
	if (S_ISDIR(item->mode)) {
		item->parent = check->lost;
		item = check_find(check, check->lost);
		item->folders++;
		item->touched = true;
	}
	return 0;
}

/* ---- cycles ---- */

struct name_of {
	int64_t ino;
	char name[STORE_NAME_MAX];
	size_t len;
};

static int name_of(void *arg, struct span name, int64_t ino, uint32_t mode)
{
	struct name_of *find = arg;

	(void)mode;
	if (ino != find->ino)
		return 0;
	memcpy(find->name, name.data, name.len);
	find->len = name.len;
	return 1;
}

/* Take a directory out of the one that it is in. */
static int cut_out(struct check *check, int64_t ino)
{
	struct item *item = check_find(check, ino);
	struct name_of find = {.ino = ino};
	int r = store_each_dirent(check->store, item->parent, name_of, &find);

	if (r < 0)
		return r;
	if (r == 1)
		r = store_del_dirent(check->store, item->parent, span_of(find.name, find.len));
	check_find(check, item->parent)->folders--;
	check_find(check, item->parent)->touched = true;
	item->names = 0;
	item->parent = 0;
	return r;
}

/* Follow a directory to the root, to one that is known to be reachable, to one without a name, or
 * into a cycle: returns where it ended. */
static struct item *climb(struct check *check, struct item *item, uint32_t pass)
{
	while (!item->reachable && item->pass != pass && item->parent) {
		item->pass = pass;
		item = check_find(check, item->parent);
	}
	return item;
}

static int check_directory(struct check *check, size_t index, uint32_t pass)
{
	struct item *end = climb(check, &check->item[index], pass);
	int64_t ino = end->ino;
	int r = 0;

	if (!end->reachable && end->parent) {
		end->touched = true;
		check_report(check, STORE_CYCLE, check->repair,
			     "directory %lld is inside of itself", (long long)ino);
		if (check->repair)
			r = cut_out(check, ino);
		if (r == 0 && check->repair)
			r = rescue(check, ino);
	} else if (!end->reachable && !(end->flags & STORE_NODE_ORPHAN)) {
		check_report(check, STORE_UNREACHABLE, check->repair, "directory %lld has no name",
			     (long long)ino);
		if (check->repair)
			r = rescue(check, ino);
	}
	/* All on the way are settled now, or reported. */
	for (struct item *item = &check->item[index]; item && !item->reachable;
	     item = check_find(check, item->parent))
		item->reachable = true;
	return r;
}

int check_tree(struct check *check)
{
	size_t count = check->len;
	int r = 0;

	check->item[0].reachable = true;
	for (size_t i = 1; i < count && r == 0; i++) {
		struct item *item = &check->item[i];

		if (S_ISDIR(item->mode)) {
			if (!item->reachable)
				r = check_directory(check, i, (uint32_t)i);
			continue;
		}
		if (item->names || item->flags & STORE_NODE_ORPHAN)
			continue;
		item->touched = true;
		check_report(check, STORE_UNREACHABLE, check->repair, "inode %lld has no name",
			     (long long)item->ino);
		if (check->repair)
			r = rescue(check, item->ino);
	}
	return r;
}
