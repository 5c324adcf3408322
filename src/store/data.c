/* data.c - the extent file: taking, reading, writing and giving back units.
 *
 * A unit that was given back by a commit goes limbo -> parked -> free: limbo until that commit is
 * durable (a power cut could bring its old owner back), parked until nobody who looked it up before
 * reads it any more. Free units are holes of the file, and read as zeros when handed out again.
 */
#include "base/fd.h"
#include "store/store_i.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLOW_BYTES (4 << 20) /* push a sequential write to the disk in pieces of this */

void data_init(struct data *data)
{
	*data = (struct data){.fd = -1};
	pthread_mutex_init(&data->lock, NULL);
}

void data_clear(struct data *data)
{
	int fd = data->fd;

	fd_close(&fd);
	data->fd = -1;
	runs_clear(&data->free);
	runs_clear(&data->parked);
	runs_clear(&data->limbo);
	pthread_mutex_destroy(&data->lock);
}

/* The table that the last close left. false: it does not fit, read all rows instead. */
static int load_free(struct store *store)
{
	CLEANUP(use_end) struct use use = USE_INIT;
	struct data *data = &store->data;
	int r = use_begin(&use, store, 0, WRITER, STMT_EACH_FREE);

	if (r < 0)
		return r;
	for (r = use_step(&use); r == 1; r = use_step(&use)) {
		int64_t pos, count;

		r = column_int(use.stmt, 0, 0, data->end - 1, &pos);
		if (r == 0)
			r = column_int(use.stmt, 1, 1, data->end - pos, &count);
		if (r == 0 && !runs_add(&data->free, pos, count))
			r = -EUCLEAN;
		if (r < 0)
			break;
	}
	if (r == 0) {
		data->loaded = true;
		data->free_on_disk = true;
	} else {
		runs_clear(&data->free);
	}
	return r == -EUCLEAN ? 0 : r;
}

int data_open(struct store *store, struct err *err)
{
	struct data *data = &store->data;
	CLEANUP(mem_free) char *path = path_sibling(store->path, ".data");
	CLEANUP(fd_close) int fd = -1;
	struct stat st;
	int r;

	data->end = store->state.data_end;
	if (data->end == 0) {
		/* What is there was never named by a commit, or belongs to a layer by now. */
		data->loaded = true;
		data->free_on_disk = store->state.free_known;
		r = store->readonly ? 0 : path_unlink(path);
		return r < 0 ? err_set(err, -r, "cannot remove '%s'", path) : 0;
	}
	fd = open(path, (store->readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, EUCLEAN, "'%s' is missing", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "cannot open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EUCLEAN, "'%s' is not a regular file", path);
	data->fd = fd_take(&fd);
	if (store->readonly || !store->state.free_known)
		return 0;
	r = load_free(store);
	if (r < 0)
		return err_set(err, -r, "cannot read '%s'", store->path);
	if (data->loaded && st.st_size > data->end * STORE_UNIT &&
	    ftruncate(data->fd, data->end * STORE_UNIT) < 0)
		return err_set(err, errno, "cannot cut '%s'", path);
	return 0;
}

static int punch(int fd, int64_t offset, int64_t len)
{
	static const char zeros[STORE_UNIT];
	int r = 0;

	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, len) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	for (int64_t done = 0; done < len && r == 0; done += STORE_UNIT) {
		int64_t n = len - done < STORE_UNIT ? len - done : STORE_UNIT;

		r = fd_pwrite_all(fd, zeros, (size_t)n, offset + done);
	}
	return r;
}

/* Mark units in use in a bitmap that covers positions below `end`. */
static int mark_used(sqlite3 *db, unsigned char *used, int64_t end, int64_t *ret_top)
{
	sqlite3_stmt *stmt = NULL;
	int r = db_prepare(db, STMT_EACH_POS, &stmt), rc;
	int64_t top = 0;

	if (r < 0)
		return r;
	for (rc = sqlite3_step(stmt); rc == SQLITE_ROW; rc = sqlite3_step(stmt)) {
		int64_t pos = sqlite3_column_int64(stmt, 0);

		if (pos < 0 || pos >= end)
			continue; /* damage, which store_check reports */
		used[pos / 8] |= (unsigned char)(1 << (pos % 8));
		if (pos >= top)
			top = pos + 1;
	}
	if (rc != SQLITE_DONE)
		r = db_error(db, rc);
	sqlite3_finalize(stmt);
	*ret_top = top;
	return r;
}

/* After a crash: what no row names is free. */
int data_load(struct store *store)
{
	struct data *data = &store->data;
	CLEANUP(db_close) sqlite3 *db = NULL;
	CLEANUP(mem_free) unsigned char *used = NULL;
	int64_t top = 0;
	int fd = data->fd, r;

	if (data->loaded)
		return 0;
	r = db_open(store->path, DB_READONLY, 512, &db);
	if (r < 0)
		return r;
	used = mem_alloc0((size_t)data->end / 8 + 1);
	r = mark_used(db, used, data->end, &top);
	if (r < 0)
		return r;
	if (ftruncate(fd, top * STORE_UNIT) < 0)
		return -errno;
	for (int64_t pos = 0; pos < top; pos++) {
		int64_t first = pos;

		while (pos < top && !(used[pos / 8] & (1 << (pos % 8))))
			pos++;
		if (pos == first)
			continue;
		r = punch(fd, first * STORE_UNIT, (pos - first) * STORE_UNIT);
		if (r < 0) {
			runs_clear(&data->free);
			return r;
		}
		(void)runs_add(&data->free, first, pos - first);
	}
	data->end = top;
	data->loaded = true;
	return 0;
}

/* Make the extent file. Under data.lock. */
static int data_create(struct store *store)
{
	CLEANUP(mem_free) char *path = path_sibling(store->path, ".data");
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	store->data.fd = fd;
	store->data.new_file = true;
	return 0;
}

/* A free run to take from: the lowest that is long enough, or, when much is free but in pieces, the
 * longest; else none (SIZE_MAX), so that a long write stays in one piece at the end of the file. */
static size_t choose_run(const struct data *data, int64_t want)
{
	size_t longest = SIZE_MAX;
	int64_t total = 0;

	for (size_t i = 0; i < data->free.len; i++) {
		if (data->free.item[i].count >= want)
			return i;
		total += data->free.item[i].count;
		if (longest == SIZE_MAX ||
		    data->free.item[i].count > data->free.item[longest].count)
			longest = i;
	}
	return total > data->end / 4 && total >= 64 ? longest : SIZE_MAX;
}

ssize_t store_data_alloc(struct store *store, size_t want, int64_t *ret_pos)
{
	struct data *data = &store->data;
	int64_t pos = 0, count = want > 4096 ? 4096 : (int64_t)want;
	size_t run;
	int r;

	if (store->readonly)
		return -EROFS;
	if (count == 0)
		return -EINVAL;
	pthread_mutex_lock(&data->lock);
	r = data_load(store);
	if (r == 0 && data->fd < 0)
		r = data_create(store);
	run = r == 0 ? choose_run(data, count) : SIZE_MAX;
	if (run != SIZE_MAX) {
		pos = data->free.item[run].pos;
		if (count > data->free.item[run].count)
			count = data->free.item[run].count;
		runs_remove(&data->free, run, count);
	} else if (r == 0 && data->end + count > STORE_UNITS_MAX) {
		r = -ENOSPC;
	} else if (r == 0) {
		pos = data->end;
		data->end += count;
	}
	if (r == 0)
		data->changed = true;
	pthread_mutex_unlock(&data->lock);
	if (r < 0)
		return r;
	/* It is a hole, unless a crash came between handing it out and the first commit. */
	if (run != SIZE_MAX) {
		r = punch(data->fd, pos * STORE_UNIT, count * STORE_UNIT);
		if (r < 0) {
			store_data_free(store, pos, (size_t)count);
			return r;
		}
	}
	*ret_pos = pos;
	return count;
}

/* Enter runs that are holes now among the free ones, and cut off the end of the file that is free.
 * Under data.lock. */
static void data_put_free(struct data *data, struct runs *runs)
{
	int64_t end = data->end;

	runs_move(&data->free, runs);
	while (data->free.len) {
		const struct run *last = &data->free.item[data->free.len - 1];

		if (last->pos + last->count != end)
			break;
		end = last->pos;
		data->free.len--;
	}
	if (end == data->end)
		return;
	/* Failing that, the units are garbage that the next one to take them must not see. */
	if (ftruncate(data->fd, end * STORE_UNIT) == 0)
		data->end = end;
	else
		(void)runs_add(&data->free, end, data->end - end);
}

/* Turn parked units into free ones when nobody reads them. */
static void data_reclaim(struct store *store)
{
	struct data *data = &store->data;
	struct runs runs = {0};
	int64_t end;

	pthread_mutex_lock(&data->lock);
	end = data->end;
	if (data->pins == 0 && data->parked.len)
		runs_move(&runs, &data->parked);
	pthread_mutex_unlock(&data->lock);
	if (runs.len == 0)
		return;
	/* Outside the lock: this may take a while. A failure leaves the space allocated; it is
	 * tried again when the unit is handed out. */
	for (size_t i = 0; i < runs.len; i++) {
		if (runs.item[i].pos + runs.item[i].count < end)
			(void)punch(data->fd, runs.item[i].pos * STORE_UNIT,
				    runs.item[i].count * STORE_UNIT);
	}
	pthread_mutex_lock(&data->lock);
	data_put_free(data, &runs);
	pthread_mutex_unlock(&data->lock);
	runs_clear(&runs);
}

void data_freed(struct store *store, struct runs *runs)
{
	struct data *data = &store->data;

	pthread_mutex_lock(&data->lock);
	runs_move(&data->limbo, runs);
	data->changed = true;
	pthread_mutex_unlock(&data->lock);
}

void data_durable(struct store *store)
{
	struct data *data = &store->data;

	pthread_mutex_lock(&data->lock);
	if (data->limbo.len)
		runs_move(&data->parked, &data->limbo);
	pthread_mutex_unlock(&data->lock);
	data_reclaim(store);
}

void store_data_free(struct store *store, int64_t pos, size_t count)
{
	struct data *data = &store->data;

	/* No commit names it, so there is nothing to wait for but readers. */
	pthread_mutex_lock(&data->lock);
	if (count)
		(void)runs_add(&data->parked, pos, (int64_t)count);
	pthread_mutex_unlock(&data->lock);
	data_reclaim(store);
}

void store_data_pin(struct store *store)
{
	atomic_fetch_add(&store->data.pins, 1);
}

void store_data_unpin(struct store *store)
{
	atomic_fetch_sub(&store->data.pins, 1);
}

/* Open the extent file of a base. */
int data_layer_fd(struct store *store, size_t index)
{
	struct layer *layer = &store->layers[index];
	CLEANUP(mem_free) char *path = NULL;
	int fd = layer->data_fd, none = -1;

	if (!layer->id[0])
		return store->data.fd >= 0 ? store->data.fd : -EUCLEAN;
	if (fd >= 0)
		return fd;
	path = path_sibling(layer->path, ".data");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -EUCLEAN : -errno;
	if (!atomic_compare_exchange_strong(&layer->data_fd, &none, fd)) {
		close(fd); /* another thread was faster */
		fd = none;
	}
	return fd;
}

int store_data_read(struct store *store, struct store_unit unit, int64_t offset, void *ret_bytes,
		    size_t len)
{
	ssize_t n;
	int fd;

	if (unit.pos == STORE_HOLE) {
		memset(ret_bytes, 0, len);
		return 0;
	}
	fd = data_layer_fd(store, (size_t)unit.layer);
	if (fd < 0)
		return fd;
	n = fd_pread_full(fd, ret_bytes, len, unit.pos * STORE_UNIT + offset);
	if (n < 0)
		return (int)n;
	/* Beyond the end of the file nothing was written yet. */
	memset((char *)ret_bytes + n, 0, len - (size_t)n);
	return 0;
}

/* Have the disk begin early with what a long write puts in, so that the sync at its end is short.
 */
static void data_flow(struct data *data, int64_t offset, int64_t len)
{
	int64_t from, bytes = 0;

	pthread_mutex_lock(&data->lock);
	if (offset != data->flow_to)
		data->flow_from = offset;
	data->flow_to = offset + len;
	from = data->flow_from;
	if (data->flow_to - from >= FLOW_BYTES) {
		bytes = data->flow_to - from;
		data->flow_from = data->flow_to;
	}
	pthread_mutex_unlock(&data->lock);
	if (bytes)
		(void)sync_file_range(data->fd, from, bytes, SYNC_FILE_RANGE_WRITE);
}

int store_data_write(struct store *store, int64_t pos, int64_t offset, const void *bytes,
		     size_t len)
{
	struct data *data = &store->data;
	int64_t at = pos * STORE_UNIT + offset;
	int r;

	if (data->fd < 0)
		return -EBADF;
	atomic_store(&data->dirty, true);
	r = fd_pwrite_all(data->fd, bytes, len, at);
	if (r == -ENOSPC || r == -EDQUOT)
		atomic_store(&data->want_sync, true);
	if (r == 0 && len >= STORE_UNIT)
		data_flow(data, at, (int64_t)len);
	return r;
}

int store_data_zero(struct store *store, int64_t pos, int64_t offset, int64_t len)
{
	struct data *data = &store->data;

	if (data->fd < 0)
		return -EBADF;
	if (len <= 0)
		return 0;
	atomic_store(&data->dirty, true);
	return punch(data->fd, pos * STORE_UNIT + offset, len);
}

int store_data_sync(struct store *store)
{
	struct data *data = &store->data;
	bool new_file;
	int r = 0;

	if (data->fd < 0 || !atomic_exchange(&data->dirty, false))
		return 0;
	if (fdatasync(data->fd) < 0)
		r = -errno;
	pthread_mutex_lock(&data->lock);
	new_file = data->new_file;
	pthread_mutex_unlock(&data->lock);
	if (r == 0 && new_file)
		r = path_sync_dir(store->path);
	if (r < 0) {
		atomic_store(&data->dirty, true);
		return r;
	}
	if (new_file) {
		pthread_mutex_lock(&data->lock);
		data->new_file = false;
		pthread_mutex_unlock(&data->lock);
	}
	return 0;
}
