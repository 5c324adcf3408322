/* maintain.c - merging layers of a deep chain into one. The long part, writing the merged files,
 * needs no lock: it reads files that never change, through connections of its own. */
#include "base/fd.h"
#include "store/copy.h"
#include "store/head.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A merge that is written, or being written. */
struct merging {
	char id[STORE_ID + 1];
	char run[STORE_LAYERS_TEXT]; /* the layers it takes the place of */
};

const char *merging_id(const struct store *store)
{
	return store->merging ? store->merging->id : NULL;
}

static int64_t file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? 0 : (int64_t)st.st_blocks * 512;
}

/* The cheapest run of layers whose merge makes the chain short enough. */
static size_t choose_run(const struct store *chain, size_t len)
{
	int64_t sizes[STORE_LAYERS_MAX] = {0}, best = INT64_MAX;
	size_t found = 0;

	for (size_t i = 0; i < chain->count; i++) {
		CLEANUP(mem_free) char *data = path_sibling(chain->layers[i].path, ".data");

		sizes[i] = file_bytes(chain->layers[i].path) + file_bytes(data);
	}
	for (size_t i = 0; i + len <= chain->count; i++) {
		int64_t sum = 0;

		for (size_t j = i; j < i + len; j++)
			sum += sizes[j];
		if (sum < best) {
			best = sum;
			found = i;
		}
	}
	return found;
}

/* Write layers first..last-1 of `chain` as one new layer. */
static int write_layer(struct store *chain, size_t first, size_t last, const char *id)
{
	CLEANUP(mem_free) char *db_path = path_layer(chain->path, id, ".db");
	CLEANUP(mem_free) char *db_half = path_layer(chain->path, id, ".db.new");
	CLEANUP(mem_free) char *data_path = path_layer(chain->path, id, ".data");
	CLEANUP(mem_free) char *data_half = path_layer(chain->path, id, ".data.new");
	CLEANUP(copy_clear) struct copy copy = {.from = chain, .side = READER, .first = first};
	CLEANUP(fd_close) int fd = -1;
	CLEANUP(mem_free) struct state *state = mem_alloc(sizeof(*state));
	int r;

	copy.last = last;
	copy.tombstones = last < chain->count;
	fd = open(data_half, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	copy.data_fd = fd;
	r = head_begin(db_half, false, &copy.to);
	if (r == 0)
		r = copy_all(&copy);
	step("merge: copied");
	if (r == 0)
		r = state_load(chain->layers[first].conn[READER].db, state);
	if (r == 0) {
		state->data_end = copy.data_end;
		state->free_known = false;
		state->layers[0] = 0;
		r = head_put_state(copy.to, state);
	}
	if (r == 0)
		r = head_end(&copy.to);
	if (r == 0)
		r = path_sync(db_half);
	db_close(&copy.to);
	if (r == 0 && copy.data_end && (fsync(fd) < 0 || rename(data_half, data_path) < 0))
		r = -errno;
	step("merge: data");
	if (r == 0 && rename(db_half, db_path) < 0)
		r = -errno;
	step("merge: database");
	if (r == 0)
		r = path_sync_dir(db_path);
	ignore(path_unlink(data_half)); /* the next open removes what is left */
	if (r < 0) {
		ignore(path_unlink(db_half));
		ignore(path_unlink(db_path));
		ignore(path_unlink(data_path));
	}
	return r;
}

/* The ids first..last-1 of a chain's text. */
static struct span chain_part(const char *layers, size_t first, size_t last)
{
	return span_of(layers + first * (STORE_ID + 1), (last - first) * (STORE_ID + 1) - 1);
}

/* Announce a merge, so that its files are nobody's garbage. NULL: forget it. */
static void announce(struct store *store, struct merging *merging, bool ready)
{
	pthread_mutex_lock(&store->info_lock);
	if (store->merging != merging)
		free(store->merging);
	store->merging = merging;
	store->merging_ready = ready;
	pthread_mutex_unlock(&store->info_lock);
}

int store_prepare_merge(struct store *store, struct err *err)
{
	CLEANUP(mem_free) char *layers = NULL;
	struct store *chain = NULL;
	struct merging *merging;
	struct span run;
	size_t first, len;
	int r;

	if (store->readonly)
		return 0;
	pthread_mutex_lock(&store->info_lock);
	layers = mem_strdup(store->chain);
	len = store->merging ? 0 : strlen(layers) / (STORE_ID + 1) + 1;
	pthread_mutex_unlock(&store->info_lock);
	if (len <= STORE_CHAIN_MAX)
		return 0; /* nothing to do, or already under way */
	r = store_open_chain(store->path, layers, &chain);
	if (r < 0)
		return err_set(err, -r, "cannot open the layers of '%s'", store->path);
	len = chain->count - STORE_CHAIN_MAX + 1;
	first = choose_run(chain, len);
	merging = mem_alloc0(sizeof(*merging));
	id_new(merging->id);
	run = chain_part(layers, first, first + len);
	memcpy(merging->run, run.data, run.len);
	announce(store, merging, false);
	r = write_layer(chain, first, first + len, merging->id);
	store_close(chain);
	announce(store, r < 0 ? NULL : merging, true);
	if (r < 0)
		free(merging);
	return r < 0 ? err_set(err, -r, "cannot merge layers of '%s'", store->path) : 1;
}

/* The chain with the merged layer in the place of its run. false: the run is not there any more. */
static bool chain_switch(const char *layers, const struct merging *merging,
			 char ret_layers[STORE_LAYERS_TEXT])
{
	const char *at = strstr(layers, merging->run);

	if (!at)
		return false;
	snprintf(ret_layers, STORE_LAYERS_TEXT, "%.*s%s%s", (int)(at - layers), layers, merging->id,
		 at + strlen(merging->run));
	return true;
}

/* Stand on the merged layer. */
static int switch_chain(struct store *store, struct merging *merging)
{
	CLEANUP(mem_free) char *layers = mem_alloc(STORE_LAYERS_TEXT);
	int r;

	if (!chain_switch(store->state.layers, merging, layers))
		return 0;
	r = store_begin(store);
	if (r < 0)
		return r;
	memcpy(store->state.layers, layers, STORE_LAYERS_TEXT);
	store->state_dirty = true;
	r = store_commit(store, true);
	step("merge: switched");
	if (r < 0)
		return r;
	r = chain_open(store);
	store->state.info.depth = (int)store->count - 1;
	store_publish(store);
	return r;
}

int store_maintain(struct store *store, struct err *err)
{
	int r = store_prepare_merge(store, err);
	bool ready;

	if (r < 0 || store->readonly)
		return r;
	pthread_mutex_lock(&store->info_lock);
	ready = store->merging && store->merging_ready;
	pthread_mutex_unlock(&store->info_lock);
	if (!ready)
		return 0;
	r = switch_chain(store, store->merging);
	announce(store, NULL, false);
	if (r == 0)
		r = chain_collect(store);
	step("merge: collected");
	if (r < 0)
		return err_set(err, -r, "cannot merge layers of '%s'", store->path);
	return store->count - 1 > STORE_CHAIN_MAX;
}
