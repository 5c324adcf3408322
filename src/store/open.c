/* open.c - opening and closing a workspace, and what a crash left behind. */
#include "base/clock.h"
#include "store/head.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void store_free(struct store *store)
{
	chain_close(store);
	data_clear(&store->data);
	runs_clear(&store->freed);
	free(store->chain);
	free(store->merging);
	pthread_mutex_destroy(&store->info_lock);
	pthread_mutex_destroy(&store->reading);
	free(store->path);
	free(store);
}

static struct store *store_new(char *path, bool readonly)
{
	struct store *store = mem_alloc0(sizeof(*store));
	pthread_mutexattr_t recursive;

	store->path = path;
	store->readonly = readonly;
	store->wal_limit = WAL_LIMIT;
	data_init(&store->data);
	pthread_mutex_init(&store->info_lock, NULL);
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&store->reading, &recursive);
	pthread_mutexattr_destroy(&recursive);
	return store;
}

void store_publish(struct store *store)
{
	pthread_mutex_lock(&store->info_lock);
	store->info = store->state.info;
	free(store->chain);
	store->chain = mem_strdup(store->state.layers);
	pthread_mutex_unlock(&store->info_lock);
}

/* Content bytes that an inode uses, as store_info counts them. */
int store_content_bytes(struct store *store, enum side side, const struct store_node *node,
			uint64_t *ret_bytes)
{
	CLEANUP(merge_end) struct merge merge = MERGE_INIT;
	CLEANUP(buf_clear) struct buf content = BUF_INIT(STORE_INLINE_MAX);
	int64_t args[] = {node->ino, 0, INT64_MAX}, pos;
	uint64_t units = 0;
	int r;

	if (!S_ISREG(node->mode)) {
		*ret_bytes = 0;
		return 0;
	}
	if (!(node->flags & STORE_NODE_EXTENTS)) {
		r = find_inline(store, side, 0, node->ino, &content);
		if (r >= 0)
			*ret_bytes = content.len;
		return r < 0 ? r : 0;
	}
	r = merge_begin(&merge, all_layers(store, side), STMT_EACH_UNIT, args);
	if (r < 0)
		return r;
	for (r = merge_next(&merge); r == 1; r = merge_next(&merge)) {
		r = column_int(merge_row(&merge), 1, STORE_HOLE, STORE_UNITS_MAX - 1, &pos);
		if (r < 0)
			return r;
		units += pos != STORE_HOLE;
	}
	if (r < 0)
		return r;
	*ret_bytes = units * STORE_UNIT;
	return 0;
}

/* One inode of the list of orphans. */
static int collect_orphan(struct store *store, int64_t ino)
{
	struct store_info *info = &store->state.info;
	sqlite3_stmt *stmt = store->layers[0].conn[WRITER].stmt[STMT_DEL_ORPHAN];
	struct store_node node;
	uint64_t bytes;
	int r = find_node(store, WRITER, 0, ino, &node);

	if (r < 0)
		return r;
	if (r == 0 || !(node.flags & STORE_NODE_ORPHAN)) {
		sqlite3_bind_int64(stmt, 1, ino);
		return stmt_run(store, stmt);
	}
	r = store_content_bytes(store, WRITER, &node, &bytes);
	if (r == 0)
		r = store_del_node(store, ino);
	if (r < 0)
		return r;
	return store_put_counters(store, info->next_ino,
				  info->bytes > bytes ? info->bytes - bytes : 0,
				  info->inodes ? info->inodes - 1 : 0);
}

static int read_orphans(struct store *store, int64_t **ret_inos, size_t *ret_count)
{
	CLEANUP(use_end) struct use use = USE_INIT;
	size_t count = 0, cap = 0;
	int64_t *inos = NULL;
	int r = use_begin(&use, store, 0, WRITER, STMT_EACH_ORPHAN);

	if (r < 0)
		return r;
	for (r = use_step(&use); r == 1; r = use_step(&use)) {
		if (count == cap) {
			cap = cap ? 2 * cap : 64;
			inos = mem_realloc(inos, cap * sizeof(*inos));
		}
		inos[count++] = sqlite3_column_int64(use.stmt, 0);
	}
	*ret_inos = inos;
	*ret_count = count;
	return r;
}

/* Delete the inodes that were unlinked and still open when their owner ended. */
int orphans_collect(struct store *store)
{
	CLEANUP(mem_free) int64_t *inos = NULL;
	size_t count = 0;
	int r = read_orphans(store, &inos, &count);

	if (r < 0 || count == 0)
		return r;
	r = store_begin(store);
	if (r < 0)
		return r;
	r = stmt_prepare(&store->layers[0].conn[WRITER], STMT_DEL_ORPHAN);
	for (size_t i = 0; i < count && r == 0; i++)
		r = collect_orphan(store, inos[i]);
	if (r < 0) {
		store_rollback(store);
		return r;
	}
	return store_commit(store, false);
}

static int open_head(struct store *store, struct err *err)
{
	enum side side = store->readonly ? READER : WRITER;
	CLEANUP(use_end) struct use use = USE_INIT;
	bool portable = false;
	sqlite3 *db;
	int r;

	/* The head alone first: the chain is in it. */
	store->layers = mem_alloc0(sizeof(*store->layers));
	store->layers[0] = (struct layer){.path = mem_strdup(store->path), .data_fd = -1};
	store->count = 1;
	r = layer_open(store, 0, side);
	if (r < 0)
		return err_set(err, -r, r == -EUCLEAN ? "'%s' is damaged" : "cannot open '%s'",
			       store->path);
	db = store->layers[0].conn[side].db;
	r = schema_verify(db, store->path, &portable, err);
	if (r < 0)
		return r;
	if (portable)
		return err_set(err, EPROTO, "'%s' is an exported workspace: import it",
			       store->path);
	r = state_load(db, &store->state);
	if (r < 0)
		return err_set(err, -r,
			       r == -EUCLEAN ? "'%s' is damaged: it does not say what it is"
					     : "cannot read '%s'",
			       store->path);
	r = use_begin(&use, store, 0, side, STMT_WALK_XATTR);
	if (r == 0)
		r = use_step(&use);
	if (r < 0)
		return err_set(err, -r, "cannot read '%s'", store->path);
	store->has_xattrs = r;
	return 0;
}

/* Every layer the chain names must be there. */
static int open_chain(struct store *store, struct err *err)
{
	int r = chain_open(store);

	if (r < 0)
		return err_set(err, -r, "'%s' is damaged: its chain of layers makes no sense",
			       store->path);
	for (size_t i = 1; i < store->count; i++) {
		if (access(store->layers[i].path, F_OK) < 0)
			return err_set(err, errno == ENOENT ? EUCLEAN : errno,
				       "the layer '%s' of '%s' is missing", store->layers[i].path,
				       store->path);
	}
	store->state.info.depth = (int)store->count - 1;
	store_publish(store);
	return 0;
}

static int open_existing(struct store *store, struct err *err)
{
	CLEANUP(mem_free) char *half = path_sibling(store->path, ".db.new");
	int r = schema_sniff(store->path, err);

	if (r == 0 && !store->readonly && path_unlink(half) < 0)
		r = err_set(err, errno, "cannot remove '%s'", half);
	if (r == 0)
		r = open_head(store, err);
	if (r == 0)
		r = open_chain(store, err);
	if (r == 0)
		r = data_open(store, err);
	if (r < 0 || store->readonly)
		return r;
	r = chain_collect(store);
	if (r == 0)
		r = orphans_collect(store);
	if (r < 0)
		return err_set(err, -r, r == -EUCLEAN ? "'%s' is damaged" : "cannot clean up '%s'",
			       store->path);
	return 0;
}

static int create(const char *path, struct err *err)
{
	CLEANUP(mem_free) char *half = path_sibling(path, ".db.new");
	struct state state = {.free_known = true};
	struct head_plan plan = {.path = half, .state = &state, .root = true};
	int r;

	if (access(path, F_OK) == 0)
		return err_set(err, EEXIST, "there is a workspace '%s' already", path);
	/* What is left of another one by that name would be taken for ours. */
	r = path_remove_siblings(path);
	if (r < 0)
		return err_set(err, -r, "cannot remove what is left of '%s'", path);
	id_new(state.info.id);
	state.info.created = clock_now();
	state.info.next_ino = STORE_ROOT + 1;
	state.info.inodes = 1;
	r = head_build(&plan);
	if (r == 0)
		r = path_sync(half);
	if (r == 0)
		r = path_rename_new(half, path);
	if (r == 0)
		r = path_sync_dir(path);
	if (r < 0) {
		ignore(path_unlink(half));
		return err_set(err, -r,
			       r == -EEXIST ? "there is a workspace '%s' already"
					    : "cannot create '%s'",
			       path);
	}
	return 0;
}

int store_open(const char *path, unsigned flags, struct store **ret_store, struct err *err)
{
	struct store *store;
	char *full;
	int r = path_absolute(path, &full, err);

	if (r < 0)
		return r;
	store = store_new(full, flags & STORE_READONLY);
	if (flags & STORE_CREATE)
		r = create(full, err);
	if (r == 0)
		r = open_existing(store, err);
	if (r < 0) {
		store_free(store);
		return r;
	}
	*ret_store = store;
	return 0;
}

/* Open every file of a store that is layers only. */
static int open_layers(struct store *store)
{
	for (size_t i = 0; i < store->count; i++) {
		int r = layer_open(store, i, READER), fd;

		if (r < 0)
			return r;
		fd = data_layer_fd(store, i);
		if (fd < 0 && fd != -EUCLEAN) /* it may have no units */
			return fd;
	}
	return state_load(store->layers[0].conn[READER].db, &store->state);
}

int store_open_chain(const char *path, const char *layers, struct store **ret_store)
{
	struct store *store = store_new(mem_strdup(path), true);
	int r;

	store->snapshot = true;
	snprintf(store->state.layers, sizeof(store->state.layers), "%s", layers);
	r = chain_open(store);
	if (r == 0)
		r = open_layers(store);
	if (r < 0) {
		store_free(store);
		return r;
	}
	/* Its own row says what was below it when it was the head. */
	snprintf(store->state.layers, sizeof(store->state.layers), "%s", layers);
	store->state.info.depth = (int)store->count - 1;
	store_publish(store);
	*ret_store = store;
	return 0;
}

int store_open_portable(const char *file, struct store **ret_store)
{
	struct store *store = store_new(mem_strdup(file), true);
	int r;

	store->snapshot = true;
	store->layers = mem_alloc0(sizeof(*store->layers));
	store->layers[0] = (struct layer){
		.id = "portable", .path = mem_strdup(file), .data_fd = -1, .portable = true};
	store->count = 1;
	r = layer_open(store, 0, READER);
	if (r == 0)
		r = state_load(store->layers[0].conn[READER].db, &store->state);
	if (r < 0) {
		store_free(store);
		return r;
	}
	store_publish(store);
	*ret_store = store;
	return 0;
}

int store_open_snapshot(struct store *store, const char *snapshot, struct store **ret_store,
			struct err *err)
{
	char layers[STORE_LAYERS_TEXT];
	struct store_snapshot row;
	int r = snapshot_find(store, snapshot, &row, layers, err);

	if (r < 0)
		return r;
	r = store_open_chain(store->path, layers, ret_store);
	return r < 0 ? err_set(err, -r, "cannot open snapshot '%s'", snapshot) : 0;
}

/* Leave the list of free units, so that the next open need not read every row for it. */
static void save_free(struct store *store)
{
	struct data *data = &store->data;
	struct conn *conn = &store->layers[0].conn[WRITER];
	int r;

	runs_move(&data->free, &data->parked);
	if (!data->changed || !data->loaded || data->limbo.len || data->free.len > FREE_RUNS_MAX)
		return;
	if (store_begin(store) < 0)
		return;
	r = stmt_prepare(conn, STMT_DEL_FREE);
	if (r == 0)
		r = stmt_run(store, conn->stmt[STMT_DEL_FREE]);
	if (r == 0)
		r = stmt_prepare(conn, STMT_PUT_FREE);
	for (size_t i = 0; i < data->free.len && r == 0; i++) {
		sqlite3_bind_int64(conn->stmt[STMT_PUT_FREE], 1, data->free.item[i].pos);
		sqlite3_bind_int64(conn->stmt[STMT_PUT_FREE], 2, data->free.item[i].count);
		r = stmt_run(store, conn->stmt[STMT_PUT_FREE]);
	}
	data->changed = false;
	store->state.free_known = true;
	store->state_dirty = true;
	if (r < 0 || store_commit(store, false) < 0)
		store_rollback(store);
}

void store_close(struct store *store)
{
	if (!store)
		return;
	if (!store->readonly) {
		store_rollback(store);
		/* What fails here is in the WAL, and done again by the next open. */
		ignore(store_sync(store));
		save_free(store);
		ignore(store_checkpoint(store, true));
	}
	store_free(store);
}

void store_get_info(struct store *store, struct store_info *ret_info)
{
	pthread_mutex_lock(&store->info_lock);
	*ret_info = store->info;
	pthread_mutex_unlock(&store->info_lock);
}

void store_release_memory(struct store *store)
{
	if (store->in_transaction)
		return;
	if (!store->readonly)
		ignore(store_checkpoint(store, true));
	if (store->snapshot)
		return; /* its files may have no name any more */
	reading_stop(store);
	for (size_t i = 0; i < store->count; i++) {
		conn_close(&store->layers[i].conn[READER]);
		conn_close(&store->layers[i].conn[WRITER]);
	}
	store->wal_frames = 0;
	malloc_trim(0); /* freed pages stay with the process otherwise: 440 KiB a workspace */
}
