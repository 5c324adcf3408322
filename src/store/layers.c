/* layers.c - snapshot, restore, fork: heads that come and go. Each has one step that decides, a
 * rename; before it nothing has changed, after it only garbage is left to remove. */
#include "base/clock.h"
#include "store/head.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new head that is to take the place of the one there is. */
struct change {
	struct state state;
	struct head_plan plan;
	char id[STORE_ID + 1];          /* the old head becomes this layer; "": it is dropped */
	struct store_snapshot snapshot; /* which stands on it */
	char layers[STORE_LAYERS_TEXT];
};

/* The old head, with no WAL beside it, becomes a layer too. It stays the head until the rename. */
static int freeze(struct store *store, const char *id)
{
	CLEANUP(mem_free) char *dir = path_sibling(store->path, ".layers");
	CLEANUP(mem_free) char *db = path_layer(store->path, id, ".db");
	CLEANUP(mem_free) char *data = path_layer(store->path, id, ".data");
	CLEANUP(mem_free) char *head_data = path_sibling(store->path, ".data");
	int r;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	step("freeze: folder");
	r = path_link(store->path, db);
	step("freeze: database");
	if (r == 0 && store->state.data_end)
		r = path_link(head_data, data);
	step("freeze: data");
	return r;
}

/* Close the head; all of it is in its database then. */
static int settle(struct store *store)
{
	int r = layer_open(store, 0, WRITER);

	if (r == 0)
		r = store_checkpoint(store, true);
	if (r < 0)
		return r;
	conn_close(&store->layers[0].conn[READER]);
	conn_close(&store->layers[0].conn[WRITER]);
	store->wal_frames = 0;
	/* A WAL with frames would be played into the next database of that name. */
	return path_drop_wal(store->path);
}

/* The new head is in place: let go of everything that was the old one's. `unsure`: a power cut may
 * bring the old one back, so its files stay; the next open looks again. */
static int enter(struct store *store, const struct state *state, bool unsure)
{
	CLEANUP(mem_free) char *path = path_sibling(store->path, ".data");
	struct data *data = &store->data;
	int fd = data->fd, r = 0;

	data->fd = -1;
	if (fd >= 0)
		close(fd);
	runs_clear(&data->free);
	runs_clear(&data->parked);
	runs_clear(&data->limbo);
	data->loaded = true;
	data->changed = data->new_file = false;
	data->dirty = false;
	data->want_sync = false;
	data->end = data->flow_from = data->flow_to = 0;
	if (!unsure)
		r = path_unlink(path);
	step("enter: data");
	store->state = *state;
	store->has_xattrs = false;
	atomic_fetch_add(&store->commits, 1);
	if (r == 0)
		r = chain_open(store);
	store->state.info.depth = (int)store->count - 1;
	store_publish(store);
	if (r == 0 && !unsure)
		r = chain_collect(store);
	step("enter: collected");
	return r;
}

/* All that the rename stands on. The file first: on most filesystems that writes the folders'
 * changes as well, and syncing them costs no more. */
static int sync_before(struct store *store, const char *half, bool layers)
{
	CLEANUP(mem_free) char *dir = path_sibling(store->path, ".layers");
	int r = path_sync(half);

	if (r == 0 && layers)
		r = path_sync(dir);
	return r == 0 ? path_sync_dir(store->path) : r; /* the WAL is gone for good */
}

static int replace(struct store *store, struct change *change)
{
	CLEANUP(mem_free) char *half = path_sibling(store->path, ".db.new");
	int r;

	change->state.data_end = 0;
	change->state.free_known = true;
	change->plan.path = half;
	change->plan.state = &change->state;
	change->plan.from = store;
	change->plan.snapshots = true;
	r = head_build(&change->plan);
	step("replace: built");
	if (r == 0)
		r = settle(store);
	step("replace: settled");
	if (r == 0 && change->id[0])
		r = freeze(store, change->id);
	step("replace: frozen");
	if (r == 0)
		r = sync_before(store, half, change->id[0]);
	step("replace: synced");
	if (r == 0 && rename(half, store->path) < 0)
		r = -errno;
	step("replace: renamed");
	if (r < 0) {
		ignore(path_unlink(half)); /* the next open does it otherwise */
		ignore(chain_collect(store));
		return r;
	}
	r = path_sync_dir(store->path);
	if (r < 0) {
		ignore(enter(store, &change->state, true));
		return r;
	}
	return enter(store, &change->state, false);
}

static int check_new_name(struct store *store, const char *name, struct err *err)
{
	char layers[STORE_LAYERS_TEXT];
	struct store_snapshot row;
	struct err ignored = ERR_INIT;
	int r;

	if (!snapshot_name_valid(span_str(name)))
		return err_set(err, EINVAL,
			       "a snapshot's name is 1 to %d bytes of text without '/' and control "
			       "characters",
			       STORE_SNAPSHOT_NAME_MAX);
	r = snapshot_find(store, name, &row, layers, &ignored);
	if (r == 0)
		return err_set(err, EEXIST, "there is a snapshot '%s' already", name);
	return r == -ENOENT ? 0 : err_set(err, -r, "cannot read the list of snapshots");
}

/* The old head goes on as a layer below the snapshot `name`. */
static int keep_head(struct store *store, struct change *change, const char *name)
{
	const struct store_info *info = &store->state.info;
	struct store_snapshot *row = &change->snapshot;
	int len;

	id_new(change->id);
	snprintf(row->name, sizeof(row->name), "%s", name);
	row->at = clock_now();
	row->bytes = info->bytes;
	row->inodes = info->inodes;
	row->audit_seq = info->audit_seq;
	len = snprintf(change->layers, sizeof(change->layers), "%s%s%s", change->id,
		       store->state.layers[0] ? " " : "", store->state.layers);
	if (len < 0 || (size_t)len >= sizeof(change->layers))
		return -E2BIG;
	change->plan.add = row;
	change->plan.add_layers = change->layers;
	return 0;
}

static int make_room(struct store *store, struct err *err)
{
	int r = 0;

	if (store->readonly)
		return err_set(err, EROFS, "the workspace is open for reading only");
	if (store->count > STORE_LAYERS_MAX)
		r = store_maintain(store, err);
	return r < 0 ? r : 0;
}

int store_snapshot(struct store *store, const char *name, struct err *err)
{
	CLEANUP(mem_free) struct change *change = mem_alloc0(sizeof(*change));
	int r = make_room(store, err);

	if (r == 0)
		r = check_new_name(store, name, err);
	if (r < 0)
		return r;
	change->state = store->state;
	r = keep_head(store, change, name);
	memcpy(change->state.layers, change->layers, sizeof(change->layers));
	change->plan.orphans = store;
	if (r == 0)
		r = replace(store, change);
	return r < 0 ? err_set(err, -r, "cannot take the snapshot '%s'", name) : 0;
}

int store_restore(struct store *store, const char *snapshot, const char *keep, struct err *err)
{
	CLEANUP(mem_free) struct change *change = mem_alloc0(sizeof(*change));
	struct store *to = NULL;
	int r = make_room(store, err);

	if (r == 0 && keep)
		r = check_new_name(store, keep, err);
	if (r == 0)
		r = store_open_snapshot(store, snapshot, &to, err);
	if (r < 0)
		return r;
	assert(to);
	change->state = store->state;
	if (keep)
		r = keep_head(store, change, keep);
	memcpy(change->state.layers, to->state.layers, sizeof(to->state.layers));
	change->state.info.bytes = to->state.info.bytes;
	change->state.info.inodes = to->state.info.inodes;
	change->plan.orphans = to;
	change->plan.audit = true;
	change->plan.audit_after = to->state.info.audit_seq;
	if (r == 0)
		r = replace(store, change);
	store_close(to);
	if (r == 0)
		r = orphans_collect(store);
	return r < 0 ? err_set(err, -r, "cannot restore '%s'", snapshot) : 0;
}

/* Link the files of every layer into another workspace. */
static int link_layers(struct store *to, const char *path)
{
	CLEANUP(mem_free) char *dir = path_sibling(path, ".layers");
	int r = 0;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	for (size_t i = 0; i < to->count && r == 0; i++) {
		const char *id = to->layers[i].id;
		CLEANUP(mem_free) char *data = path_sibling(to->layers[i].path, ".data");
		CLEANUP(mem_free) char *new_db = path_layer(path, id, ".db");
		CLEANUP(mem_free) char *new_data = path_layer(path, id, ".data");

		r = path_link(to->layers[i].path, new_db);
		step("fork: database");
		if (r == 0 && access(data, F_OK) == 0)
			r = path_link(data, new_data);
		step("fork: data");
	}
	return r;
}

static int fork_to(struct store *store, struct store *to, const char *path)
{
	CLEANUP(mem_free) char *half = path_sibling(path, ".db.new");
	CLEANUP(mem_free) char *dir = path_sibling(path, ".layers");
	CLEANUP(mem_free) struct state *state = mem_dup(&to->state, sizeof(*state));
	struct head_plan plan = {.path = half, .state = state, .from = store, .orphans = to};
	int r;

	id_new(state->info.id);
	state->info.created = clock_now();
	state->info.quota_bytes = store->state.info.quota_bytes;
	state->info.quota_inodes = store->state.info.quota_inodes;
	state->data_end = 0;
	state->free_known = true;
	r = path_remove_siblings(path);
	if (r == 0)
		r = link_layers(to, path);
	step("fork: linked");
	if (r == 0)
		r = head_build(&plan);
	step("fork: built");
	if (r == 0)
		r = path_sync(half);
	if (r == 0)
		r = path_sync(dir);
	step("fork: synced");
	if (r == 0)
		r = path_rename_new(half, path);
	step("fork: renamed");
	if (r == 0)
		return path_sync_dir(path);
	if (access(path, F_OK) < 0)
		ignore(path_remove_siblings(path)); /* else the next one to use that name does */
	return r;
}

int store_fork(struct store *store, const char *snapshot, const char *path, struct err *err)
{
	CLEANUP(mem_free) char *full = NULL;
	struct store *to = NULL;
	int r = path_absolute(path, &full, err);

	if (r < 0)
		return r;
	if (access(full, F_OK) == 0)
		return err_set(err, EEXIST, "there is a workspace '%s' already", path);
	r = store_open_snapshot(store, snapshot, &to, err);
	if (r < 0)
		return r;
	r = fork_to(store, to, full);
	store_close(to);
	if (r < 0)
		return err_set(err, -r,
			       r == -EEXIST ? "there is a workspace '%s' already"
					    : "cannot fork to '%s'",
			       path);
	return 0;
}

int store_delete_snapshot(struct store *store, const char *name, struct err *err)
{
	char layers[STORE_LAYERS_TEXT];
	struct store_snapshot row;
	struct conn *conn = &store->layers[0].conn[WRITER];
	int r = snapshot_find(store, name, &row, layers, err);

	if (r == 0)
		r = store_begin(store);
	if (r < 0)
		return r == -ENOENT ? r : err_set(err, -r, "cannot delete snapshot '%s'", name);
	r = stmt_prepare(conn, STMT_DEL_SNAPSHOT);
	if (r == 0) {
		sqlite3_bind_text(conn->stmt[STMT_DEL_SNAPSHOT], 1, name, -1, SQLITE_STATIC);
		r = stmt_run(store, conn->stmt[STMT_DEL_SNAPSHOT]);
	}
	if (r < 0)
		store_rollback(store);
	else
		r = store_commit(store, true);
	step("delete: committed");
	/* Durable, so its layers are needed by nobody. */
	if (r == 0)
		r = chain_collect(store);
	return r < 0 ? err_set(err, -r, "cannot delete snapshot '%s'", name) : 0;
}
