/* check.c - every invariant of the rows, and mending what is safe to mend.
 *
 * The reader walks the state as it was; repairs go through the writer's transaction, which the
 * walks do not see.
 */
#include "store/check_i.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

void check_report(struct check *check, enum store_problem problem, bool repaired, const char *fmt,
		  ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (!repaired)
		check->left++;
	if (check->fn)
		check->fn(check->arg, problem, text, repaired);
}

struct item *check_find(struct check *check, int64_t ino)
{
	size_t low = 0, high = check->len;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (check->item[middle].ino == ino)
			return &check->item[middle];
		if (check->item[middle].ino < ino)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

struct item *check_add(struct check *check, const struct store_node *node)
{
	if (check->len == check->cap) {
		check->cap = check->cap ? 2 * check->cap : 1024;
		check->item = mem_realloc(check->item, check->cap * sizeof(*check->item));
	}
	check->item[check->len] = (struct item){
		.ino = node->ino,
		.size = node->size,
		.rdev = (int64_t)node->rdev,
		.mode = node->mode,
		.nlink = node->nlink,
		.flags = node->flags,
	};
	return &check->item[check->len++];
}

/* 1 when SQLite finds a layer damaged, 0, or an error. */
static int check_damage(struct check *check)
{
	struct store *store = check->store;
	int found = 0;

	for (size_t i = 0; i < store->count; i++) {
		sqlite3_stmt *stmt = NULL;
		int r = layer_open(store, i, READER), rc;
		sqlite3 *db = store->layers[i].conn[READER].db;

		if (r < 0)
			return r;
		rc = sqlite3_prepare_v2(db, "PRAGMA integrity_check(10)", -1, &stmt, NULL);
		if (rc == SQLITE_OK)
			rc = sqlite3_step(stmt);
		for (; rc == SQLITE_ROW; rc = sqlite3_step(stmt)) {
			const char *text = (const char *)sqlite3_column_text(stmt, 0);

			if (text && strcmp(text, "ok") == 0)
				continue;
			check_report(check, STORE_DAMAGED, false, "'%s': %s", store->layers[i].path,
				     text ? text : "?");
			found = 1;
		}
		if (rc != SQLITE_DONE) {
			r = db_error(db, rc);
			sqlite3_finalize(stmt);
			if (r != -EUCLEAN)
				return r;
			check_report(check, STORE_DAMAGED, false, "'%s': %s", store->layers[i].path,
				     sqlite3_errmsg(db));
			found = 1;
			continue;
		}
		sqlite3_finalize(stmt);
	}
	return found;
}

/* ---- what each row should say ---- */

static uint32_t right_nlink(const struct item *item)
{
	if (!S_ISDIR(item->mode))
		return item->names;
	/* A removed directory that is still open has neither its own name nor "." */
	return item->names || item->ino == STORE_ROOT ? 2 + item->folders : 0;
}

static int64_t right_rdev(const struct item *item)
{
	if (S_ISDIR(item->mode))
		return item->ino == STORE_ROOT ? STORE_ROOT
		       : item->names           ? item->parent
					       : item->rdev;
	if (S_ISREG(item->mode))
		return item->flags & STORE_NODE_EXTENTS ? item->content : 0;
	return S_ISCHR(item->mode) || S_ISBLK(item->mode) ? item->rdev : 0;
}

/* Size and content of a small file or a link. */
static int fix_inline(struct check *check, struct item *item, int64_t *ret_size)
{
	CLEANUP(buf_clear) struct buf content = BUF_INIT(STORE_INLINE_MAX);
	int64_t size = item->size;
	int r = 0;

	if (item->content == size && (size || !S_ISLNK(item->mode)))
		return 0;
	if (S_ISLNK(item->mode) && item->content == 0) {
		check_report(check, STORE_SIZE, false, "link %lld leads nowhere",
			     (long long)item->ino);
		return 0;
	}
	check_report(check, STORE_SIZE, check->repair,
		     "inode %lld has size %lld, but %lld bytes of content", (long long)item->ino,
		     (long long)size, (long long)item->content);
	if (!check->repair)
		return 0;
	if (S_ISLNK(item->mode) || size > STORE_INLINE_MAX) {
		*ret_size = item->content;
		return 0;
	}
	r = find_inline(check->store, WRITER, 0, item->ino, &content);
	if (r < 0)
		return r;
	while (content.len < (size_t)size) {
		r = buf_add(&content, "", 1);
		if (r < 0)
			return r;
	}
	item->content = size;
	return store_put_inline(check->store, item->ino, span_of(content.data, (size_t)size));
}

static int fix_units(struct check *check, struct item *item)
{
	int64_t end = (item->size + STORE_UNIT - 1) / STORE_UNIT;

	if (item->beyond == 0)
		return 0;
	check_report(check, STORE_SIZE, check->repair, "inode %lld has %u units behind its end",
		     (long long)item->ino, item->beyond);
	check->units_repaired |= check->repair;
	return check->repair ? store_del_units(check->store, item->ino, end) : 0;
}

static int check_row(struct check *check, struct item *item)
{
	struct store_node node;
	bool large = S_ISREG(item->mode) && item->flags & STORE_NODE_EXTENTS;
	bool small = (S_ISREG(item->mode) && !large) || S_ISLNK(item->mode);
	uint32_t nlink = right_nlink(item), flags = item->flags;
	int64_t size = item->size, rdev;
	int r = small ? fix_inline(check, item, &size) : large ? fix_units(check, item) : 0;

	if (r < 0)
		return r;
	rdev = right_rdev(item);
	if (flags & STORE_NODE_ORPHAN && item->names)
		flags &= ~(unsigned)STORE_NODE_ORPHAN;
	if ((nlink != item->nlink && !item->touched) || flags != item->flags)
		check_report(check, STORE_NLINK, check->repair,
			     "inode %lld counts %u names, there are %u", (long long)item->ino,
			     item->nlink, nlink);
	if (rdev != item->rdev && !item->touched)
		check_report(check, STORE_SIZE, check->repair, "inode %lld says %lld %s, not %lld",
			     (long long)item->ino, (long long)item->rdev,
			     S_ISDIR(item->mode) ? "is its folder" : "units", (long long)rdev);
	if (!check->repair || (nlink == item->nlink && flags == item->flags && rdev == item->rdev &&
			       size == item->size))
		return 0;
	r = find_node(check->store, WRITER, 0, item->ino, &node);
	if (r <= 0)
		return r;
	node.nlink = nlink;
	node.flags = flags;
	node.rdev = (uint64_t)rdev;
	node.size = size;
	return store_put_node(check->store, &node);
}

static uint64_t item_bytes(const struct item *item)
{
	if (!S_ISREG(item->mode))
		return 0;
	return (uint64_t)item->content * (item->flags & STORE_NODE_EXTENTS ? STORE_UNIT : 1);
}

static int check_rows(struct check *check)
{
	const struct store_info *info = &check->store->state.info;
	uint64_t found = 0, bytes = 0;
	int64_t next = check->next_ino - (int64_t)check->made;
	int r = 0;

	for (size_t i = 0; i < check->len && r == 0; i++) {
		found += item_bytes(&check->item[i]);
		r = check_row(check, &check->item[i]);
		bytes += item_bytes(&check->item[i]);
	}
	if (r < 0)
		return r;
	if (info->next_ino < next || info->bytes != found ||
	    info->inodes != check->len - check->made)
		check_report(check, STORE_COUNTERS, check->repair,
			     "%llu bytes, %llu inodes, next %lld are counted; there are %llu, %zu, "
			     "%lld",
			     (unsigned long long)info->bytes, (unsigned long long)info->inodes,
			     (long long)info->next_ino, (unsigned long long)found,
			     check->len - check->made, (long long)next);
	if (!check->repair)
		return 0;
	next = info->next_ino < check->next_ino ? check->next_ino : info->next_ino;
	return store_put_counters(check->store, next, bytes, check->len);
}

/* ---- audit ---- */

struct audit_call {
	struct check *check;
	uint64_t last;
	unsigned char hash[32];
};

static int audit_call(void *arg, uint64_t first, uint64_t last, struct span records,
		      const unsigned char hash[32])
{
	struct audit_call *call = arg;

	(void)records;
	if (first != call->last + 1)
		check_report(call->check, STORE_AUDIT_GAP, false,
			     "after audit record %llu comes %llu", (unsigned long long)call->last,
			     (unsigned long long)first);
	call->last = last;
	memcpy(call->hash, hash, 32);
	return 0;
}

static int check_audit(struct check *check)
{
	const struct store_info *info = &check->store->state.info;
	struct audit_call call = {.check = check};
	int r = store_each_audit(check->store, 0, audit_call, &call);

	if (r < 0)
		return r;
	if (call.last != info->audit_seq || memcmp(call.hash, info->audit_hash, 32) != 0)
		check_report(check, STORE_AUDIT_GAP, false,
			     "the last audit record is %llu, but %llu were written",
			     (unsigned long long)call.last, (unsigned long long)info->audit_seq);
	return 0;
}

static int check_all(struct check *check)
{
	static int (*const steps[])(struct check *) = {
		check_nodes, check_entries, check_tree, check_inline,
		check_units, check_xattrs,  check_rows, check_audit,
	};
	int r = check_damage(check);

	/* Beyond this, walking what SQLite calls damaged would only guess. */
	if (r == 1)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(steps) && r == 0; i++)
		r = steps[i](check);
	return r;
}

/* Which units are free is found out again from the rows that are there now. */
static void forget_free(struct store *store)
{
	struct data *data = &store->data;

	pthread_mutex_lock(&data->lock);
	if (data->fd >= 0) {
		runs_clear(&data->free);
		runs_clear(&data->parked);
		runs_clear(&data->limbo);
		data->loaded = false;
		data->changed = true;
	}
	pthread_mutex_unlock(&data->lock);
	store->freed.len = 0;
}

int store_check(struct store *store, bool repair,
		void (*fn)(void *arg, enum store_problem problem, const char *text, bool repaired),
		void *arg, struct err *err)
{
	struct check check = {.store = store, .repair = repair, .fn = fn, .arg = arg};
	bool reading = !store->readonly;
	int r = reading ? reading_begin(store) : 0;

	if (r == 0 && repair)
		r = store_begin(store);
	if (r < 0) {
		if (reading)
			reading_end(store);
		return err_set(err, -r, "cannot check '%s'", store->path);
	}
	r = check_all(&check);
	if (reading)
		reading_end(store);
	free(check.item);
	if (repair && r < 0)
		store_rollback(store);
	if (repair && r == 0) {
		if (check.units_repaired)
			forget_free(store);
		r = store_commit(store, true);
	}
	if (r < 0)
		return err_set(err, -r, "cannot check '%s'", store->path);
	return check.left;
}
