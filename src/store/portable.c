/* portable.c - a whole workspace in one file, and back. */
#include "base/clock.h"
#include "base/fd.h"
#include "store/copy.h"
#include "store/head.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* All of `store` into a new database, of the workspace `id` (NULL: the same). */
static int write_all(struct store *store, const char *path, int data_fd, const char *id)
{
	CLEANUP(copy_clear) struct copy copy = {.from = store, .side = READER, .data_fd = data_fd};
	CLEANUP(mem_free) struct state *state = mem_alloc0(sizeof(*state));
	int r;

	copy.last = store->count;
	r = head_begin(path, data_fd < 0, &copy.to);
	if (r == 0)
		r = copy_all(&copy);
	if (r == 0)
		r = state_load(store->layers[0].conn[READER].db, state);
	if (r == 0) {
		if (id) {
			memcpy(state->info.id, id, STORE_ID + 1);
			state->info.created = clock_now();
		}
		state->layers[0] = 0;
		state->data_end = copy.data_end;
		state->free_known = true;
		r = head_put_state(copy.to, state);
	}
	if (r == 0)
		r = head_end(&copy.to);
	if (r == 0)
		r = path_sync(path);
	db_close(&copy.to);
	return r;
}

int store_export(struct store *store, const char *path, struct err *err)
{
	CLEANUP(mem_free) char *half = mem_alloc(strlen(path) + sizeof(".new"));
	int r = 0;

	if (access(path, F_OK) == 0)
		return err_set(err, EEXIST, "there is a file '%s' already", path);
	snprintf(half, strlen(path) + sizeof(".new"), "%s.new", path);
	/* One state throughout, and its units stay where they are. */
	store_data_pin(store);
	if (!store->readonly)
		r = reading_begin(store);
	if (r == 0) {
		r = write_all(store, half, -1, NULL);
		if (!store->readonly)
			reading_end(store);
	}
	store_data_unpin(store);
	if (r == 0)
		r = path_rename_new(half, path);
	if (r < 0) {
		ignore(path_unlink(half));
		return err_set(err, -r, "cannot export to '%s'", path);
	}
	r = path_sync_dir(path);
	return r < 0 ? err_set(err, -r, "cannot sync the folder of '%s'", path) : 0;
}

/* An exported file, or a workspace where it is. */
static int open_source(const char *file, struct store **ret_store, struct err *err)
{
	CLEANUP(mem_free) char *full = NULL;
	CLEANUP(db_close) sqlite3 *db = NULL;
	bool portable;
	int r = schema_sniff(file, err);

	if (r < 0)
		return r;
	full = realpath(file, NULL);
	if (!full)
		return err_set(err, errno, "cannot find '%s'", file);
	r = db_open(full, DB_IMMUTABLE, 512, &db);
	if (r < 0)
		return err_set(err, -r, r == -EUCLEAN ? "'%s' is damaged" : "cannot open '%s'",
			       file);
	r = schema_verify(db, file, &portable, err);
	if (r < 0)
		return r;
	if (!portable)
		return store_open(full, STORE_READONLY, ret_store, err);
	r = store_open_portable(full, ret_store);
	return r < 0 ? err_set(err, -r, "'%s' is damaged", file) : 0;
}

static void count_problem(void *arg, enum store_problem problem, const char *text, bool repaired)
{
	(void)arg;
	(void)problem;
	(void)text;
	(void)repaired;
}

/* What came from elsewhere is checked, and mended where that is safe. */
static int check_import(const char *path, struct err *err)
{
	struct store *store = NULL;
	int left, r = store_open(path, 0, &store, err);

	if (r < 0)
		return r;
	left = store_check(store, true, count_problem, NULL, err);
	store_close(store);
	if (left > 0)
		return err_set(err, EUCLEAN, "it is damaged: %d problems that cannot be repaired",
			       left);
	return left;
}

static int import_files(struct store *from, const char *path)
{
	CLEANUP(mem_free) char *db_new = path_sibling(path, ".db.new");
	CLEANUP(mem_free) char *data_new = path_sibling(path, ".data.new");
	CLEANUP(mem_free) char *data = path_sibling(path, ".data");
	CLEANUP(fd_close) int fd = -1;
	char id[STORE_ID + 1];
	int r = path_remove_siblings(path);

	if (r < 0)
		return r;
	fd = open(data_new, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	id_new(id);
	r = write_all(from, db_new, fd, id);
	step("import: written");
	if (r == 0 && (fsync(fd) < 0 || rename(data_new, data) < 0))
		r = -errno;
	step("import: data");
	if (r == 0)
		r = path_rename_new(db_new, path);
	step("import: database");
	return r == 0 ? path_sync_dir(path) : r;
}

int store_import(const char *file, const char *path, struct err *err)
{
	CLEANUP(mem_free) char *full = NULL;
	struct store *from = NULL;
	int r = path_absolute(path, &full, err);

	if (r < 0)
		return r;
	if (access(full, F_OK) == 0)
		return err_set(err, EEXIST, "there is a workspace '%s' already", path);
	r = open_source(file, &from, err);
	if (r < 0)
		return r;
	assert(from);
	r = import_files(from, full);
	store_close(from);
	if (r == -EEXIST)
		return err_set(err, EEXIST, "there is a workspace '%s' already", path);
	if (r < 0)
		err_set(err, -r, r == -EUCLEAN ? "'%s' is damaged" : "cannot import '%s'", file);
	else
		r = check_import(full, err);
	if (r < 0) {
		ignore(path_unlink(full));
		ignore(path_remove_siblings(full));
		return err_wrap(err, r, "importing '%s'", file);
	}
	return 0;
}

int store_remove(const char *path, struct err *err)
{
	CLEANUP(mem_free) char *full = NULL;
	CLEANUP(mem_free) char *lock = NULL;
	int r = path_absolute(path, &full, err);

	if (r < 0)
		return r;
	if (unlink(full) < 0)
		return err_set(err, errno,
			       errno == ENOENT ? "there is no workspace '%s'"
					       : "cannot remove '%s'",
			       path);
	step("remove: database");
	/* What a crash leaves from here on goes when the name is used again. */
	r = path_remove_siblings(full);
	step("remove: siblings");
	lock = path_sibling(full, ".lock");
	if (r == 0)
		r = path_unlink(lock);
	return r < 0 ? err_set(err, -r, "cannot remove all of '%s'", path) : 0;
}

/* Hard links under the new name for everything but the database. */
static int link_siblings(struct store *store, const char *to)
{
	CLEANUP(mem_free) char *data = path_sibling(store->path, ".data");
	CLEANUP(mem_free) char *new_data = path_sibling(to, ".data");
	CLEANUP(mem_free) char *from_dir = path_sibling(store->path, ".layers");
	CLEANUP(mem_free) char *to_dir = path_sibling(to, ".layers");
	int r = path_remove_siblings(to);

	if (r == 0 && store->state.data_end)
		r = path_link(data, new_data);
	if (r == 0)
		r = path_link_all(from_dir, to_dir);
	return r;
}

int store_rename(const char *from, const char *to, struct err *err)
{
	CLEANUP(mem_free) char *full_from = NULL;
	CLEANUP(mem_free) char *full_to = NULL;
	CLEANUP(mem_free) char *lock = NULL;
	struct store *store = NULL;
	int r = path_absolute(from, &full_from, err);

	if (r == 0)
		r = path_absolute(to, &full_to, err);
	if (r < 0)
		return r;
	assert(full_from && full_to);
	if (access(full_to, F_OK) == 0)
		return err_set(err, EEXIST, "there is a workspace '%s' already", to);
	/* Opening and closing brings what a crash left in the WAL into the database. */
	r = store_open(full_from, 0, &store, err);
	if (r < 0)
		return r;
	assert(store);
	r = link_siblings(store, full_to);
	step("rename: linked");
	store_close(store);
	if (r == 0)
		r = path_drop_wal(full_from);
	if (r == 0)
		r = path_rename_new(full_from, full_to);
	step("rename: renamed");
	if (r == 0)
		r = path_sync_dir(full_to);
	if (r == 0)
		r = path_sync_dir(full_from);
	if (r < 0) {
		if (access(full_to, F_OK) < 0)
			ignore(path_remove_siblings(full_to));
		return err_set(err, -r,
			       r == -EEXIST ? "there is a workspace '%s' already"
					    : "cannot rename to '%s'",
			       to);
	}
	r = path_remove_siblings(full_from);
	lock = path_sibling(full_from, ".lock");
	if (r == 0)
		r = path_unlink(lock);
	return r < 0 ? err_set(err, -r, "cannot remove what is left of '%s'", from) : 0;
}
