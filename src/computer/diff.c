/* diff.c - what changed between two states of a workspace.
 *
 * The store says which inodes differ. Their names are found by a walk through both trees that ends
 * as soon as all are seen. An entry is known by its directory and name, so that moving a directory
 * is one difference and not one for each file in it; a name that leads to another inode than before
 * (as an editor leaves it) is a change of what is there.
 */
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "computer/diff_i.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATCHES_MAX ((size_t)256 << 20)
#define PATH_LIMIT (1 << 20)

enum { FROM, TO, SIDES };

/* A name of a differing inode, in one of the states. */
struct name {
	struct map_node node; /* of diffing.names: those that are gone, by directory and name */
	struct list link;     /* of item.names */
	struct item *item;
	int64_t parent;
	size_t base; /* where the last part of the path starts */
	size_t len;
	char path[]; /* with a NUL */
};

struct item {
	struct map_node node;
	int64_t ino;
	struct side_file side[SIDES];
	struct list names[SIDES]; /* that do not stand in the other state as they are */
	struct list kept;         /* those of TO that do */
	int64_t left;             /* names still to be found in the walk under way */
};

struct output {
	char *path; /* to sort by */
	json_t *head;
	char *patch;
	size_t patch_len;
};

struct diffing {
	struct store *store[SIDES]; /* FROM: NULL for nothing */
	bool own_to;                /* store[TO] is ours to close */
	const char *from, *to;
	bool stat, patch;
	struct map items, names;
	int64_t names_left;
	struct output *outputs;
	size_t count, cap, patch_bytes;
	struct err *err;
};

/* ---- which inodes ---- */

static int load(struct store *store, int64_t ino, struct side_file *file)
{
	int r = store ? store_get_node(store, ino, &file->node) : -ENOENT;

	file->store = r == 0 ? store : NULL;
	return r == -ENOENT ? 0 : r;
}

static int add_item(void *arg, int64_t ino)
{
	struct diffing *diffing = arg;
	struct item *item = mem_alloc0(sizeof(*item));
	int r;

	item->ino = ino;
	list_init(&item->names[FROM]);
	list_init(&item->names[TO]);
	list_init(&item->kept);
	map_add(&diffing->items, &item->node, map_hash_u64((uint64_t)ino));
	r = load(diffing->store[FROM], ino, &item->side[FROM]);
	return r < 0 ? r : load(diffing->store[TO], ino, &item->side[TO]);
}

static struct item *find_item(const struct diffing *diffing, int64_t ino)
{
	for (struct map_node *n = map_first(&diffing->items, map_hash_u64((uint64_t)ino)); n;
	     n = map_next(n)) {
		struct item *item = map_entry(n, struct item, node);

		if (item->ino == ino)
			return item;
	}
	return NULL;
}

/* ---- their names ---- */

struct folder {
	struct list link;
	int64_t ino;
	size_t len;
	char path[];
};

struct walk {
	struct diffing *diffing;
	int side;
	struct list todo;
	const struct folder *now;
};

static void add_folder(struct walk *walk, int64_t ino, const char *path, size_t len)
{
	struct folder *folder = mem_alloc(sizeof(*folder) + len + 1);

	folder->ino = ino;
	folder->len = len;
	memcpy(folder->path, path, len);
	folder->path[len] = '\0';
	list_add(&walk->todo, &folder->link);
}

static int see_entry(void *arg, struct span name, int64_t ino, uint32_t mode)
{
	struct walk *walk = arg;
	const struct folder *now = walk->now;
	struct item *item = find_item(walk->diffing, ino);
	size_t len = now->len + 1 + name.len;
	struct name *entry;

	if (!item && !S_ISDIR(mode))
		return 0;
	if (len > PATH_LIMIT)
		return -ENAMETOOLONG;
	entry = mem_alloc0(sizeof(*entry) + len + 1);
	entry->item = item;
	entry->parent = now->ino;
	entry->base = now->len + 1;
	entry->len = len;
	memcpy(entry->path, now->path, now->len);
	entry->path[now->len] = '/';
	memcpy(entry->path + entry->base, name.data, name.len);
	if (S_ISDIR(mode))
		add_folder(walk, ino, entry->path, len);
	if (!item) {
		free(entry);
		return 0;
	}
	list_add(&item->names[walk->side], &entry->link);
	if (item->left > 0) {
		item->left--;
		walk->diffing->names_left--;
	}
	return walk->diffing->names_left == 0;
}

static int find_names(struct diffing *diffing, int side)
{
	struct walk walk = {.diffing = diffing, .side = side};
	int r = 0;

	diffing->names_left = 0;
	map_for_each (node, &diffing->items) {
		struct item *item = map_entry(node, struct item, node);
		const struct store_node *row = &item->side[side].node;

		item->left = 0;
		if (item->side[side].store && item->ino != STORE_ROOT)
			item->left = S_ISDIR(row->mode) ? 1 : row->nlink;
		diffing->names_left += item->left;
	}
	list_init(&walk.todo);
	if (diffing->names_left)
		add_folder(&walk, STORE_ROOT, "", 0);
	while (!list_empty(&walk.todo)) {
		struct folder *folder = list_entry(walk.todo.next, struct folder, link);

		list_del(&folder->link);
		walk.now = folder;
		if (r == 0)
			r = store_each_dirent(diffing->store[side], folder->ino, see_entry, &walk);
		free(folder);
	}
	return r < 0 ? r : 0;
}

/* ---- names against names ---- */

static bool same_entry(const struct name *a, const struct name *b)
{
	return a->parent == b->parent && strcmp(a->path + a->base, b->path + b->base) == 0;
}

static struct name *find_same(const struct list *names, const struct name *name)
{
	list_for_each (pos, names) {
		struct name *other = list_entry(pos, struct name, link);

		if (same_entry(other, name))
			return other;
	}
	return NULL;
}

static uint64_t entry_hash(const struct name *name)
{
	return map_hash_bytes(name->path + name->base, name->len - name->base,
			      (uint64_t)name->parent);
}

/* Names that stand in both states are kept; what is only in FROM can be looked up by entry. */
static void sort_names(struct diffing *diffing, struct item *item)
{
	list_for_each_safe(pos, &item->names[TO])
	{
		struct name *name = list_entry(pos, struct name, link);
		struct name *before = find_same(&item->names[FROM], name);

		if (!before)
			continue;
		list_del(&before->link);
		free(before);
		list_del(&name->link);
		list_add(&item->kept, &name->link);
	}
	list_for_each (pos, &item->names[FROM]) {
		struct name *name = list_entry(pos, struct name, link);

		map_add(&diffing->names, &name->node, entry_hash(name));
	}
}

static void drop_gone(struct diffing *diffing, struct name *name)
{
	map_del(&diffing->names, &name->node);
	list_del(&name->link);
	free(name);
}

static struct name *find_gone(const struct diffing *diffing, const struct name *name)
{
	for (struct map_node *n = map_first(&diffing->names, entry_hash(name)); n;
	     n = map_next(n)) {
		struct name *gone = map_entry(n, struct name, node);

		if (same_entry(gone, name))
			return gone;
	}
	return NULL;
}

/* ---- saying it ---- */

static const char *const kind_names[] = {
	[DIFF_ADDED] = "added", [DIFF_CHANGED] = "changed", [DIFF_DELETED] = "deleted",
	[DIFF_MODE] = "mode",   [DIFF_RENAMED] = "renamed",
};

static const struct side_file nothing;

static json_t *path_json(const struct name *name)
{
	return json_bytes(name ? span_of(name->path, name->len) : SPAN_EMPTY);
}

static int say(struct diffing *diffing, enum diff_kind kind, const struct name *name,
	       const struct name *old_name, const struct side_file *from,
	       const struct side_file *to)
{
	struct diff_lines lines = {.patch = BUF_INIT(FRAME_REPLY_MAX / 2)};
	struct span path = span_of(name->path, name->len);
	struct span old_path = old_name ? span_of(old_name->path, old_name->len) : path;
	bool text = (!from->store || S_ISREG(from->node.mode)) &&
		    (!to->store || S_ISREG(to->node.mode));
	struct output *out;
	int r = 0;

	if ((diffing->stat || diffing->patch) && text && kind != DIFF_MODE)
		r = diff_lines(from, to, old_path, path, diffing->patch, &lines);
	diffing->patch_bytes += lines.patch.len;
	if (r == 0 && diffing->patch_bytes > PATCHES_MAX)
		r = err_set(diffing->err, EFBIG,
			    "the differences are over %zu MiB: ask without their text",
			    PATCHES_MAX >> 20);
	if (r < 0) {
		buf_clear(&lines.patch);
		return r;
	}
	if (diffing->count == diffing->cap) {
		diffing->cap = diffing->cap ? 2 * diffing->cap : 64;
		diffing->outputs =
			mem_realloc(diffing->outputs, diffing->cap * sizeof(*diffing->outputs));
	}
	out = &diffing->outputs[diffing->count++];
	out->path = mem_strdup(name->path);
	out->head = json_pack("{s:s,s:o,s:o,s:i,s:i,s:I,s:I,s:I,s:I,s:b}", "kind", kind_names[kind],
			      "path", path_json(name), "old_path", path_json(old_name), "mode",
			      (int)(to->store ? to->node.mode : 0), "old_mode",
			      (int)(from->store ? from->node.mode : 0), "size",
			      (json_int_t)(to->store ? to->node.size : 0), "old_size",
			      (json_int_t)(from->store ? from->node.size : 0), "added",
			      (json_int_t)lines.added, "removed", (json_int_t)lines.removed,
			      "binary", lines.binary);
	out->patch = buf_take(&lines.patch, &out->patch_len);
	return 0;
}

/* The same name before and after, for two states of what is there. */
static int say_changed(struct diffing *diffing, const struct name *name,
		       const struct side_file *from, const struct side_file *to)
{
	int same;

	if ((from->node.mode & S_IFMT) != (to->node.mode & S_IFMT)) {
		int r = say(diffing, DIFF_DELETED, name, NULL, from, &nothing);

		return r < 0 ? r : say(diffing, DIFF_ADDED, name, NULL, &nothing, to);
	}
	same = diff_same_content(from, to);
	if (same < 0)
		return same;
	if (!same)
		return say(diffing, DIFF_CHANGED, name, NULL, from, to);
	same = diff_same_xattrs(from, to);
	if (same < 0)
		return same;
	if (!same || from->node.mode != to->node.mode || from->node.uid != to->node.uid ||
	    from->node.gid != to->node.gid)
		return say(diffing, DIFF_MODE, name, NULL, from, to);
	return 0; /* only times differ */
}

static int say_kept(struct diffing *diffing, const struct item *item)
{
	int r = 0;

	list_for_each (pos, &item->kept)
		if (r == 0)
			r = say_changed(diffing, list_entry(pos, struct name, link),
					&item->side[FROM], &item->side[TO]);
	return r;
}

/* Names that lead to another inode now. */
static int say_replaced(struct diffing *diffing, struct item *item)
{
	int r = 0;

	list_for_each_safe(pos, &item->names[TO])
	{
		struct name *name = list_entry(pos, struct name, link);
		struct name *gone = find_gone(diffing, name);

		if (!gone || r < 0)
			continue;
		r = say_changed(diffing, name, &gone->item->side[FROM], &item->side[TO]);
		drop_gone(diffing, gone);
		list_del(&name->link);
		free(name);
	}
	return r;
}

/* A name that came: from another one of the same inode, or from nowhere. */
static int say_new(struct diffing *diffing, struct item *item, const struct name *name)
{
	struct list *gone = item->names[FROM].next;
	struct name *old = list_entry(gone, struct name, link);
	int r;

	if (gone == &item->names[FROM])
		return say(diffing, DIFF_ADDED, name, NULL, &nothing, &item->side[TO]);
	r = say(diffing, DIFF_RENAMED, name, old, &item->side[FROM], &item->side[TO]);
	drop_gone(diffing, old);
	return r;
}

/* What is left: names that came and names that went. */
static int say_came(struct diffing *diffing, struct item *item)
{
	int r = 0;

	list_for_each (pos, &item->names[TO])
		if (r == 0)
			r = say_new(diffing, item, list_entry(pos, struct name, link));
	return r;
}

static int say_went(struct diffing *diffing, struct item *item)
{
	int r = 0;

	list_for_each (pos, &item->names[FROM])
		if (r == 0)
			r = say(diffing, DIFF_DELETED, list_entry(pos, struct name, link), NULL,
				&item->side[FROM], &nothing);
	return r;
}

static int say_root(struct diffing *diffing)
{
	const struct item *root = find_item(diffing, STORE_ROOT);
	CLEANUP(mem_free) struct name *name = mem_alloc0(sizeof(*name) + 2);

	if (!root || !root->side[FROM].store || !root->side[TO].store)
		return 0;
	name->path[0] = '/';
	name->len = 1;
	return say_changed(diffing, name, &root->side[FROM], &root->side[TO]);
}

static int say_all(struct diffing *diffing)
{
	static int (*const steps[])(struct diffing *, struct item *) = {say_replaced, say_came,
									say_went};
	int r = say_root(diffing);

	map_for_each (node, &diffing->items)
		sort_names(diffing, map_entry(node, struct item, node));
	map_for_each (node, &diffing->items)
		if (r == 0)
			r = say_kept(diffing, map_entry(node, struct item, node));
	for (size_t step = 0; step < ARRAY_LEN(steps); step++)
		map_for_each (node, &diffing->items)
			if (r == 0)
				r = steps[step](diffing, map_entry(node, struct item, node));
	return r;
}

/* ---- the two states ---- */

struct newest {
	const char *before; /* NULL: any */
	bool passed;
	int64_t at;
	char name[STORE_SNAPSHOT_NAME_MAX + 1];
};

static int see_snapshot(void *arg, const struct store_snapshot *snapshot)
{
	struct newest *newest = arg;

	if (newest->before && strcmp(snapshot->name, newest->before) == 0)
		newest->passed = true;
	if (newest->passed || snapshot->at < newest->at)
		return 0;
	newest->at = snapshot->at;
	memcpy(newest->name, snapshot->name, sizeof(newest->name));
	return 0;
}

static int open_states(struct diffing *diffing, struct store *store)
{
	struct newest newest = {.before = diffing->to, .at = INT64_MIN};
	int r = 0;

	if (!diffing->from) {
		r = store_each_snapshot(store, see_snapshot, &newest);
		diffing->from = newest.name[0] ? newest.name : NULL;
	}
	if (r == 0 && diffing->from)
		r = store_open_snapshot(store, diffing->from, &diffing->store[FROM], diffing->err);
	diffing->from = NULL; /* it may be ours, and is not needed any more */
	if (r == 0 && diffing->to) {
		r = store_open_snapshot(store, diffing->to, &diffing->store[TO], diffing->err);
		diffing->own_to = r == 0;
	} else if (r == 0) {
		diffing->store[TO] = store;
	}
	return r;
}

/* What is looked at holds still: the head under vfs_exclusive, a snapshot by itself. */
static int find_differences(void *arg, struct store *store)
{
	struct diffing *diffing = arg;
	int r = open_states(diffing, store);

	if (r == 0)
		r = store_each_changed(diffing->store[FROM], diffing->store[TO], add_item, diffing);
	for (int side = FROM; side <= TO && r == 0; side++)
		if (diffing->store[side])
			r = find_names(diffing, side);
	if (r == 0)
		r = say_all(diffing);
	return r;
}

static void free_names(struct list *names)
{
	list_for_each_safe(pos, names)
	{
		list_del(pos);
		free(list_entry(pos, struct name, link));
	}
}

static void diffing_clear(struct diffing *diffing)
{
	map_clear(&diffing->names);
	map_for_each (node, &diffing->items) {
		struct item *item = map_entry(node, struct item, node);

		free_names(&item->names[FROM]);
		free_names(&item->names[TO]);
		free_names(&item->kept);
		free(item);
	}
	map_clear(&diffing->items);
	for (size_t i = 0; i < diffing->count; i++) {
		free(diffing->outputs[i].path);
		free(diffing->outputs[i].patch);
		json_decref(diffing->outputs[i].head);
	}
	free(diffing->outputs);
	store_close(diffing->store[FROM]);
	if (diffing->own_to)
		store_close(diffing->store[TO]);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct output *)a)->path, ((const struct output *)b)->path);
}

int op_diff(struct call *call)
{
	CLEANUP(diffing_clear)
	struct diffing diffing = {
		.from = json_string_value(json_object_get(call->args, "from")),
		.to = json_string_value(json_object_get(call->args, "to")),
		.stat = json_get_bool(call->args, "stat"),
		.patch = json_get_bool(call->args, "patch"),
		.err = call->err,
	};
	int r;

	if (!diffing.to && call->view->snapshot[0])
		diffing.to = call->view->snapshot;
	r = owner_exclusive(call->owner, find_differences, &diffing);
	if (r < 0)
		return call->err->code ? r : err_set(call->err, -r, "cannot compare");
	if (diffing.count)
		qsort(diffing.outputs, diffing.count, sizeof(*diffing.outputs), by_path);
	for (size_t i = 0; i < diffing.count && r == 0; i++) {
		const struct output *out = &diffing.outputs[i];

		r = call_event_take(call, json_incref(out->head),
				    span_of(out->patch, out->patch_len));
	}
	return r < 0 ? r : 0;
}

/* ---- for callers ---- */

struct taker {
	int (*fn)(void *arg, const struct diff_entry *entry);
	void *arg;
};

static int take_difference(void *arg, const json_t *head, struct span tail)
{
	const struct taker *taker = arg;
	CLEANUP(buf_clear) struct buf path = BUF_INIT(PATH_LIMIT);
	CLEANUP(buf_clear) struct buf old_path = BUF_INIT(PATH_LIMIT);
	struct diff_entry entry = {
		.kind = DIFF_CHANGED,
		.mode = (uint32_t)json_get_int(head, "mode"),
		.old_mode = (uint32_t)json_get_int(head, "old_mode"),
		.size = json_get_int(head, "size"),
		.old_size = json_get_int(head, "old_size"),
		.added = (uint64_t)json_get_int(head, "added"),
		.removed = (uint64_t)json_get_int(head, "removed"),
		.binary = json_get_bool(head, "binary"),
		.patch = tail,
	};
	const char *kind = json_get_text(head, "kind");

	for (size_t i = 0; i < ARRAY_LEN(kind_names); i++)
		if (strcmp(kind, kind_names[i]) == 0)
			entry.kind = (enum diff_kind)i;
	if (json_get_bytes(json_object_get(head, "path"), &path) < 0 ||
	    json_get_bytes(json_object_get(head, "old_path"), &old_path) < 0)
		return -EPROTO;
	entry.path = span_of(path.data, path.len);
	entry.old_path = span_of(old_path.data, old_path.len);
	return taker->fn(taker->arg, &entry);
}

int computer_diff(struct computer *computer, const struct diff_options *options,
		  int (*fn)(void *arg, const struct diff_entry *entry), void *arg, struct err *err)
{
	struct taker taker = {fn, arg};
	const struct call_request request = {
		.op = "diff",
		.args = json_pack("{s:s?,s:s?,s:b,s:b}", "from", options->from, "to", options->to,
				  "stat", options->stat, "patch", options->patch),
		.control_fd = -1,
		.event = take_difference,
		.arg = &taker,
	};
	struct err own = ERR_INIT;

	return computer_call(computer, &request, NULL, err ? err : &own);
}
