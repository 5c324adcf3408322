/* chain.c - which layers a workspace stands on, and which files nobody stands on. */
#include "base/text.h"
#include "store/store_i.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

void (*store_step)(const char *name);

ssize_t chain_parse(const char *text, char (*ret_ids)[STORE_ID + 1])
{
	size_t count = 0, len = strlen(text);

	for (size_t at = 0; at < len; at += STORE_ID + 1) {
		if (count == STORE_LAYERS_MAX || len - at < STORE_ID ||
		    !id_valid(text + at, STORE_ID))
			return -EUCLEAN;
		if (text[at + STORE_ID] != (at + STORE_ID == len ? 0 : ' ') ||
		    at + STORE_ID + 1 == len)
			return -EUCLEAN;
		memcpy(ret_ids[count], text + at, STORE_ID);
		ret_ids[count][STORE_ID] = 0;
		for (size_t i = 0; i < count; i++) {
			if (strcmp(ret_ids[i], ret_ids[count]) == 0)
				return -EUCLEAN;
		}
		count++;
	}
	return (ssize_t)count;
}

int chain_open(struct store *store)
{
	CLEANUP(mem_free) char(*ids)[STORE_ID + 1] = mem_alloc(STORE_LAYERS_MAX * sizeof(*ids));
	ssize_t count = chain_parse(store->state.layers, ids);
	size_t head = store->snapshot ? 0 : 1;
	struct layer *layers;

	if (count < 0)
		return (int)count;
	if (count == 0 && !head)
		return -EUCLEAN;
	layers = mem_alloc0((head + (size_t)count) * sizeof(*layers));
	if (head) {
		/* Its connections stay. */
		if (store->count) {
			layers[0] = store->layers[0];
			store->layers[0] = (struct layer){.data_fd = -1};
		} else {
			layers[0] = (struct layer){.path = mem_strdup(store->path), .data_fd = -1};
		}
	}
	chain_close(store);
	for (size_t i = 0; i < (size_t)count; i++) {
		struct layer *layer = &layers[head + i];

		memcpy(layer->id, ids[i], sizeof(layer->id));
		layer->path = path_layer(store->path, ids[i], ".db");
		layer->data_fd = -1;
	}
	store->layers = layers;
	store->count = head + (size_t)count;
	return 0;
}

void chain_close(struct store *store)
{
	for (size_t i = 0; i < store->count; i++)
		layer_close(&store->layers[i]);
	free(store->layers);
	store->layers = NULL;
	store->count = 0;
}

/* ---- snapshots' rows ---- */

bool snapshot_name_valid(struct span name)
{
	if (name.len == 0 || name.len > STORE_SNAPSHOT_NAME_MAX || !text_is_utf8(name))
		return false;
	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.data[i];

		if (c < ' ' || c == 0x7f || c == '/')
			return false;
	}
	return true;
}

/* Decode the current row of EACH_SNAPSHOT. */
static int snapshot_row(sqlite3_stmt *stmt, struct store_snapshot *ret_row, const char **ret_layers)
{
	const char *name = (const char *)sqlite3_column_text(stmt, 0);
	const char *layers = (const char *)sqlite3_column_text(stmt, 2);
	int64_t bytes = 0, inodes = 0, seq = 0;
	int r;

	if (!name || !layers || (size_t)sqlite3_column_bytes(stmt, 0) != strlen(name) ||
	    !snapshot_name_valid(span_str(name)) || strlen(layers) >= STORE_LAYERS_TEXT)
		return -EUCLEAN;
	*ret_row = (struct store_snapshot){0};
	memcpy(ret_row->name, name, strlen(name));
	r = column_int(stmt, 1, INT64_MIN, INT64_MAX, &ret_row->at);
	if (r == 0)
		r = column_int(stmt, 3, 0, INT64_MAX, &bytes);
	if (r == 0)
		r = column_int(stmt, 4, 0, INT64_MAX, &inodes);
	if (r == 0)
		r = column_int(stmt, 5, 0, INT64_MAX, &seq);
	if (r < 0)
		return r;
	ret_row->bytes = (uint64_t)bytes;
	ret_row->inodes = (uint64_t)inodes;
	ret_row->audit_seq = (uint64_t)seq;
	*ret_layers = layers;
	return 0;
}

int snapshot_each(struct store *store, enum side side,
		  int (*fn)(void *arg, const struct store_snapshot *row, const char *layers),
		  void *arg)
{
	CLEANUP(use_end) struct use use = USE_INIT;
	struct store_snapshot row;
	const char *layers;
	int r, stop = 0;

	if (store->snapshot)
		return 0;
	r = use_begin(&use, store, 0, side, STMT_EACH_SNAPSHOT);
	if (r < 0)
		return r;
	for (r = use_step(&use); r == 1 && !stop; r = stop ? 0 : use_step(&use)) {
		r = snapshot_row(use.stmt, &row, &layers);
		if (r < 0)
			return r;
		stop = fn(arg, &row, layers);
	}
	return r < 0 ? r : stop;
}

struct each_call {
	int (*fn)(void *arg, const struct store_snapshot *snapshot);
	void *arg;
};

static int each_call(void *arg, const struct store_snapshot *row, const char *layers)
{
	struct each_call *call = arg;

	(void)layers;
	return call->fn(call->arg, row);
}

int store_each_snapshot(struct store *store,
			int (*fn)(void *arg, const struct store_snapshot *snapshot), void *arg)
{
	struct each_call call = {fn, arg};

	return snapshot_each(store, READER, each_call, &call);
}

struct find_call {
	const char *name;
	struct store_snapshot row;
	char layers[STORE_LAYERS_TEXT];
};

static int find_call(void *arg, const struct store_snapshot *row, const char *layers)
{
	struct find_call *call = arg;

	if (strcmp(row->name, call->name) != 0)
		return 0;
	call->row = *row;
	memcpy(call->layers, layers, strlen(layers) + 1);
	return 1;
}

int snapshot_find(struct store *store, const char *name, struct store_snapshot *ret_row,
		  char ret_layers[STORE_LAYERS_TEXT], struct err *err)
{
	struct find_call call = {.name = name};
	int r = snapshot_each(store, READER, find_call, &call);

	if (r < 0)
		return err_set(err, -r, "cannot read the list of snapshots");
	if (r == 0)
		return err_set(err, ENOENT, "there is no snapshot '%s'", name);
	*ret_row = call.row;
	memcpy(ret_layers, call.layers, sizeof(call.layers));
	return 0;
}

/* ---- collecting ---- */

struct ids {
	char (*id)[STORE_ID + 1];
	size_t count, cap;
};

static int ids_add(struct ids *ids, const char *layers)
{
	ssize_t n;

	if (ids->count + STORE_LAYERS_MAX > ids->cap) {
		ids->cap = 2 * (ids->cap + STORE_LAYERS_MAX);
		ids->id = mem_realloc(ids->id, ids->cap * sizeof(*ids->id));
	}
	n = chain_parse(layers, ids->id + ids->count);
	if (n < 0)
		return (int)n;
	ids->count += (size_t)n;
	return 0;
}

static int ids_add_snapshot(void *arg, const struct store_snapshot *row, const char *layers)
{
	(void)row;
	return ids_add(arg, layers);
}

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, STORE_ID);
}

/* Is it a file that we made and nobody needs? Names that are not ours are left alone, and what a
 * merge in another thread is writing. */
static bool is_garbage(const struct ids *ids, const char *making, const char *name)
{
	static const char *const suffixes[] = {".db",         ".data",   ".db.new", ".data.new",
					       ".db-journal", ".db-wal", ".db-shm"};
	const char *tail = name + STORE_ID;

	if (strlen(name) <= STORE_ID || !id_valid(name, STORE_ID))
		return false;
	if (making[0] && memcmp(making, name, STORE_ID) == 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		if (strcmp(tail, suffixes[i]) != 0)
			continue;
		return i >= 2 || !ids->count ||
		       !bsearch(name, ids->id, ids->count, sizeof(*ids->id), compare_ids);
	}
	return false;
}

int chain_collect(struct store *store)
{
	CLEANUP(mem_free) char *path = path_sibling(store->path, ".layers");
	struct ids ids = {0};
	char making[STORE_ID + 1] = "";
	DIR *dir = opendir(path);
	int r;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	pthread_mutex_lock(&store->info_lock);
	if (store->merging)
		memcpy(making, merging_id(store), sizeof(making));
	pthread_mutex_unlock(&store->info_lock);
	r = ids_add(&ids, store->state.layers);
	if (r == 0)
		r = snapshot_each(store, WRITER, ids_add_snapshot, &ids);
	if (r == 0 && ids.count)
		qsort(ids.id, ids.count, sizeof(*ids.id), compare_ids);
	for (struct dirent *entry = NULL; r == 0 && (entry = readdir(dir));) {
		if (is_garbage(&ids, making, entry->d_name) &&
		    unlinkat(dirfd(dir), entry->d_name, 0) < 0 && errno != ENOENT)
			r = -errno;
	}
	free(ids.id);
	closedir(dir);
	if (r == 0)
		(void)rmdir(path); /* when nothing is left in it */
	return r;
}
