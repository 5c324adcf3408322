/* crash_work.c - write, note, and check. */
#include "crash.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PAGE 4096
#define PATCHED_SIZE (256 << 10)
#define CONTENT_MAX (1 << 20)

struct word {
	uint32_t version, index;
};

uint64_t crash_random(uint64_t *rng)
{
	uint64_t z = (*rng += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Chance that is the same for everyone who asks about the same thing. */
static uint64_t chance(uint64_t seed, uint64_t a, uint64_t b)
{
	uint64_t state = seed ^ (a * 0x9e3779b97f4a7c15u) ^ (b << 20);

	crash_random(&state);
	return crash_random(&state);
}

static void file_name(int file, char *name, size_t size)
{
	snprintf(name, size, "file-%d", file);
}

/* How long version v of a file that is replaced is. */
static size_t length_of(const struct crash_log *log, int file, uint32_t version)
{
	uint64_t x = chance(log->seed, (uint64_t)file + 100, version);

	if (file == CRASH_PATCHED)
		return PATCHED_SIZE;
	if (file == CRASH_PAGE)
		return PAGE;
	if (file == CRASH_BORDER) /* inline content ends at 16 KiB */
		return 16384 - 16 + x % 5 * 8;
	return file < 6 ? 8 + x % 2000 * 8 : 16384 + x % 24000 * 8;
}

static void fill(struct word *words, size_t len, uint32_t first, uint32_t version)
{
	for (size_t i = 0; i < len / sizeof(*words); i++)
		words[i] = (struct word){version, first + (uint32_t)i};
}

/* ---- writing files ---- */

static int write_grow(struct place *place, const char *name, uint32_t version, bool durable)
{
	uint32_t page = version % CRASH_GROW;
	struct word words[PAGE / sizeof(struct word)];
	int r = 0;

	fill(words, PAGE, page * (PAGE / (uint32_t)sizeof(struct word)), version);
	if (page == 0)
		r = place->ops->truncate(place, name, 0);
	return r < 0 ? r
		     : place->ops->patch(place, name, words, PAGE, (int64_t)page * PAGE, durable);
}

/* Some pages in place; or, to promise all of a version, every one. */
static int write_patched(struct place *place, const char *name, uint32_t version, bool durable,
			 uint64_t *rng)
{
	size_t at = 0, len = PATCHED_SIZE;
	struct word *words;
	int r;

	if (!durable) {
		at = crash_random(rng) % (PATCHED_SIZE / PAGE) * PAGE;
		len = crash_random(rng) % (PATCHED_SIZE - at) / 8 * 8 + 8;
		if (len > PATCHED_SIZE - at)
			len = PATCHED_SIZE - at;
	}
	words = mem_alloc(len);
	fill(words, len, (uint32_t)(at / sizeof(struct word)), version);
	r = place->ops->patch(place, name, words, len, (int64_t)at, durable);
	free(words);
	return r;
}

static int write_version(struct place *place, const struct crash_log *log, int file,
			 uint32_t version, bool durable, uint64_t *rng)
{
	size_t len = length_of(log, file, version);
	struct word *words;
	char name[32];
	int r;

	file_name(file, name, sizeof(name));
	if (file == CRASH_GROWING)
		return write_grow(place, name, version, durable);
	if (file == CRASH_PATCHED)
		return write_patched(place, name, version, durable, rng);
	words = mem_alloc(len);
	fill(words, len, 0, version);
	if (file == CRASH_PAGE)
		r = place->ops->patch(place, name, words, len, 0, durable);
	else
		r = place->ops->replace(place, name, words, len, durable);
	free(words);
	return r;
}

int crash_write_step(struct place *place, struct crash_log *log, uint64_t *rng)
{
	int file = (int)(crash_random(rng) % CRASH_FILES);
	bool durable = crash_random(rng) % 4 == 0;
	uint32_t version = atomic_load(&log->next[file]);
	int r;

	atomic_store(&log->started[file], version);
	atomic_store(&log->next[file], version + 1);
	r = write_version(place, log, file, version, durable, rng);
	if (r < 0)
		return r;
	atomic_fetch_add(&log->writes, 1);
	if (durable) {
		atomic_store(&log->acked[file], version);
		atomic_fetch_add(&log->syncs, 1);
	}
	return 0;
}

/* ---- a history of a directory ---- */

#define NAMES 16

/* What a name leads to: an id, which is its permission bits as well. */
struct object {
	uint32_t id, nlink;
	bool directory;
};

struct crash_history {
	uint64_t seed;
	uint32_t round, steps, next_id;
	int name[NAMES]; /* index in objects, -1: not there */
	struct object objects[NAMES];
};

enum step_kind { STEP_MKFILE, STEP_MKDIR, STEP_RENAME, STEP_LINK, STEP_CHMOD, STEP_REMOVE };

struct step {
	enum step_kind kind;
	int from, to;
	uint32_t mode;
	bool directory;
};

static void history_reset(struct crash_history *h, const struct crash_log *log)
{
	memset(h, 0, sizeof(*h));
	h->seed = log->seed;
	h->round = atomic_load(&log->round);
	for (int i = 0; i < NAMES; i++)
		h->name[i] = -1;
}

struct crash_history *crash_history_new(const struct crash_log *log)
{
	struct crash_history *h = mem_alloc(sizeof(*h));

	history_reset(h, log);
	return h;
}

static void drop_name(struct crash_history *h, int name)
{
	if (h->name[name] >= 0)
		h->objects[h->name[name]].nlink--;
	h->name[name] = -1;
}

static int new_object(struct crash_history *h, bool directory, uint32_t mode)
{
	for (int i = 0; i < NAMES; i++)
		if (h->objects[i].nlink == 0) {
			h->objects[i] = (struct object){mode, 1, directory};
			return i;
		}
	return -1; /* cannot be: as many objects as names */
}

/* Whether `kind` makes sense from name to name. */
static bool step_fits(const struct crash_history *h, const struct step *step)
{
	const struct object *from =
		h->name[step->from] < 0 ? NULL : &h->objects[h->name[step->from]];
	const struct object *to = h->name[step->to] < 0 ? NULL : &h->objects[h->name[step->to]];

	switch (step->kind) {
	case STEP_MKFILE:
	case STEP_MKDIR:
		return !to;
	case STEP_RENAME:
		return from && from != to && (!to || from->directory == to->directory);
	case STEP_LINK:
		return from && !from->directory && !to;
	case STEP_CHMOD:
	case STEP_REMOVE:
		return from;
	}
	return false;
}

static void history_apply(struct crash_history *h, const struct step *step)
{
	switch (step->kind) {
	case STEP_MKFILE:
	case STEP_MKDIR:
		h->name[step->to] = new_object(h, step->kind == STEP_MKDIR, step->mode);
		break;
	case STEP_RENAME:
		drop_name(h, step->to);
		h->name[step->to] = h->name[step->from];
		h->name[step->from] = -1;
		break;
	case STEP_LINK:
		h->name[step->to] = h->name[step->from];
		h->objects[h->name[step->from]].nlink++;
		break;
	case STEP_CHMOD:
		h->objects[h->name[step->from]].id = step->mode;
		break;
	case STEP_REMOVE:
		drop_name(h, step->from);
		break;
	}
	h->steps++;
}

/* The step that comes next, the same whoever asks. */
static struct step history_next(const struct crash_history *h)
{
	uint64_t rng = chance(h->seed, h->round, h->steps + 1000000);
	struct step step;

	do {
		step.kind = (enum step_kind)(crash_random(&rng) % 6);
		step.from = (int)(crash_random(&rng) % NAMES);
		step.to = (int)(crash_random(&rng) % NAMES);
	} while (!step_fits(h, &step));
	step.mode = (h->steps * 7 + 1) % 01000 | 0700;
	step.directory = h->name[step.from] >= 0 && h->objects[h->name[step.from]].directory;
	return step;
}

static void entry_name(const struct crash_history *h, int i, char *name, size_t size)
{
	snprintf(name, size, "history-%u/%c", h->round, 'a' + i);
}

static int perform(struct place *place, const struct crash_history *h, const struct step *step)
{
	char from[64], to[64];

	entry_name(h, step->from, from, sizeof(from));
	entry_name(h, step->to, to, sizeof(to));
	switch (step->kind) {
	case STEP_MKFILE:
		return place->ops->mkfile(place, to, step->mode);
	case STEP_MKDIR:
		return place->ops->mkdir(place, to, step->mode);
	case STEP_RENAME:
		return place->ops->rename(place, from, to);
	case STEP_LINK:
		return place->ops->link(place, from, to);
	case STEP_CHMOD:
		return place->ops->chmod(place, from, step->mode);
	case STEP_REMOVE:
		return place->ops->remove(place, from, step->directory);
	}
	return -EINVAL;
}

int crash_dir_step(struct place *place, struct crash_log *log, struct crash_history *history,
		   uint64_t *rng)
{
	struct step step = history_next(history);
	char name[64];
	int r;

	atomic_store(&log->dir_started, history->steps + 1);
	r = perform(place, history, &step);
	if (r < 0)
		return r;
	history_apply(history, &step);
	atomic_fetch_add(&log->writes, 1);
	if (crash_random(rng) % 32 != 0)
		return 0;
	snprintf(name, sizeof(name), "history-%u", history->round);
	r = place->ops->sync(place, name);
	if (r < 0)
		return r;
	atomic_store(&log->dir_acked, history->steps);
	atomic_fetch_add(&log->syncs, 1);
	return 0;
}

/* ---- before ---- */

struct old_names {
	char name[NAMES][8];
	bool directory[NAMES];
	int count;
};

static void add_old(void *arg, const struct place_entry *entry)
{
	struct old_names *old = arg;

	if (old->count == NAMES)
		return;
	snprintf(old->name[old->count], sizeof(old->name[0]), "%.7s", entry->name);
	old->directory[old->count++] = S_ISDIR(entry->mode);
}

static void remove_history(struct place *place, uint32_t round)
{
	struct old_names old = {.count = 0};
	char name[64];

	snprintf(name, sizeof(name), "history-%u", round);
	if (place->ops->list(place, name, add_old, &old) < 0)
		return;
	for (int i = 0; i < old.count; i++) {
		snprintf(name, sizeof(name), "history-%u/%s", round, old.name[i]);
		(void)place->ops->remove(place, name, old.directory[i]);
	}
	snprintf(name, sizeof(name), "history-%u", round);
	(void)place->ops->remove(place, name, true);
}

int crash_prepare(struct place *place, struct crash_log *log)
{
	uint32_t round = atomic_load(&log->round);
	uint64_t rng = log->seed;
	char name[64];
	int r;

	atomic_store(&log->round, 0);
	for (int i = 0; i < CRASH_FILES; i++) {
		char file[32];

		if (atomic_load(&log->next[i])) /* there since an earlier round */
			continue;
		file_name(i, file, sizeof(file));
		(void)place->ops->mkfile(place, file,
					 0644); /* there already: killed in here before */
		r = write_version(place, log, i, CRASH_GROW, true, &rng);
		if (r < 0)
			return r;
		atomic_store(&log->started[i], CRASH_GROW);
		atomic_store(&log->acked[i], CRASH_GROW);
		atomic_store(&log->next[i], CRASH_GROW + 1);
	}
	if (round)
		remove_history(place, round);
	snprintf(name, sizeof(name), "history-%u", round + 1);
	remove_history(place, round + 1);
	r = place->ops->mkdir(place, name, 0755);
	if (r == 0)
		r = place->ops->sync(place, ".");
	if (r == 0)
		r = place->ops->sync(place, name);
	if (r < 0)
		return r;
	atomic_store(&log->dir_started, 0);
	atomic_store(&log->dir_acked, 0);
	atomic_store(&log->phase, CRASH_RUN);
	atomic_store(&log->round, round + 1);
	atomic_store(&log->ready, 1);
	return 0;
}

/* ---- after ---- */

static int complain(int file, const char *what, uint32_t a, uint32_t b)
{
	printf("# file-%d: %s (%u, %u)\n", file, what, a, b);
	return 1;
}

/* All words of one version, the right ones. */
static int check_whole(const struct crash_log *log, int file, const struct buf *content,
		       uint32_t *ret_version)
{
	const struct word *words = (const void *)content->data;
	size_t count = content->len / sizeof(*words);

	if (count == 0 || content->len % sizeof(*words))
		return complain(file, "is cut short: bytes", (uint32_t)content->len, 0);
	*ret_version = words[0].version;
	if (content->len != length_of(log, file, words[0].version))
		return complain(file, "has another length: version, bytes", words[0].version,
				(uint32_t)content->len);
	for (size_t i = 0; i < count; i++)
		if (words[i].version != words[0].version || words[i].index != i)
			return complain(file, "is a mixture: at, version", (uint32_t)i,
					words[i].version);
	return 0;
}

/* Written in place: each word of some version since the last promise. */
static int check_patched(int file, const struct buf *content, uint32_t low, uint32_t high,
			 uint32_t *ret_version)
{
	const struct word *words = (const void *)content->data;

	if (content->len != PATCHED_SIZE)
		return complain(file, "has another length: bytes", (uint32_t)content->len, 0);
	*ret_version = words[0].version;
	for (uint32_t i = 0; i < PATCHED_SIZE / sizeof(*words); i++) {
		if (words[i].index != i || words[i].version < low || words[i].version > high)
			return complain(file, "wrong word: at, version", i, words[i].version);
		if (words[i].version > *ret_version)
			*ret_version = words[i].version;
	}
	return 0;
}

/* Pages of consecutive versions; or nothing, between cutting and the first page. */
static int check_growing(int file, const struct buf *content, uint32_t low, uint32_t high,
			 uint32_t *ret_version)
{
	const struct word *words = (const void *)content->data;
	uint32_t per_page = PAGE / sizeof(*words);
	uint32_t pages = (uint32_t)(content->len / PAGE);
	uint32_t first;

	if (content->len % PAGE || pages > CRASH_GROW)
		return complain(file, "has another length: bytes", (uint32_t)content->len, 0);
	if (pages == 0) { /* just cut for the first version of a cycle that was begun */
		first = high - high % CRASH_GROW;
		*ret_version = first;
		return first > low ? 0 : complain(file, "is empty: promised, begun", low, high);
	}
	first = words[0].version;
	*ret_version = first + pages - 1;
	if (first % CRASH_GROW)
		return complain(file, "begins with another page: version", first, 0);
	for (uint32_t i = 0; i < pages * per_page; i++)
		if (words[i].index != i || words[i].version != first + i / per_page)
			return complain(file, "wrong word: at, version", i, words[i].version);
	return 0;
}

static int check_file(struct place *place, const struct crash_log *log, int file,
		      uint32_t *ret_version)
{
	uint32_t low = atomic_load(&log->acked[file]), high = atomic_load(&log->started[file]);
	struct buf content = BUF_INIT(CONTENT_MAX);
	char name[32];
	int r;

	*ret_version = 0;
	file_name(file, name, sizeof(name));
	r = place->ops->read(place, name, &content);
	if (r < 0) {
		printf("# %s: cannot be read: %s\n", name, text_errno(-r));
		return 1;
	}
	if (file == CRASH_PATCHED)
		r = check_patched(file, &content, low, high, ret_version);
	else if (file == CRASH_GROWING)
		r = check_growing(file, &content, low, high, ret_version);
	else
		r = check_whole(log, file, &content, ret_version);
	buf_clear(&content);
	if (r == 0 && (*ret_version < low || *ret_version > high))
		r = complain(file, "promised and begun", low, high) +
		    complain(file, "but is of version", *ret_version, 0);
	return r;
}

struct listing {
	struct place_entry entry[NAMES];
	bool there[NAMES];
	int strange;
};

static void add_listed(void *arg, const struct place_entry *entry)
{
	struct listing *listing = arg;
	int i = entry->name[0] - 'a';

	if (i < 0 || i >= NAMES || entry->name[1]) {
		listing->strange++;
		return;
	}
	listing->there[i] = true;
	listing->entry[i] = *entry;
}

static bool history_is(const struct crash_history *h, const struct listing *listing)
{
	for (int i = 0; i < NAMES; i++) {
		const struct object *o = h->name[i] < 0 ? NULL : &h->objects[h->name[i]];
		const struct place_entry *e = &listing->entry[i];

		if (listing->there[i] != (o != NULL))
			return false;
		if (!o)
			continue;
		if ((e->mode & 07777) != o->id || S_ISDIR(e->mode) != o->directory)
			return false;
		if (!o->directory && e->nlink != o->nlink)
			return false;
	}
	return true;
}

/* The number of steps after which the directory looked so; more than one may fit: the last. */
static int check_history(struct place *place, const struct crash_log *log, uint32_t *ret_low,
			 uint32_t *ret_high)
{
	uint32_t started = atomic_load(&log->dir_started);
	struct listing listing = {.strange = 0};
	struct crash_history h;
	char name[64];
	bool found = false;
	int r;

	history_reset(&h, log);
	snprintf(name, sizeof(name), "history-%u", h.round);
	r = place->ops->list(place, name, add_listed, &listing);
	if (r < 0 || listing.strange) {
		printf("# %s: cannot be read: %s, %d strange names\n", name, text_errno(-r),
		       listing.strange);
		return 1;
	}
	for (;;) {
		struct step step;

		if (history_is(&h, &listing)) {
			if (!found)
				*ret_low = h.steps;
			*ret_high = h.steps;
			found = true;
		}
		if (h.steps >= started)
			break;
		step = history_next(&h);
		history_apply(&h, &step);
	}
	if (found && *ret_high >= atomic_load(&log->dir_acked))
		return 0;
	printf("# %s: no prefix of its %u steps with the %u promised\n", name, started,
	       atomic_load(&log->dir_acked));
	return 1;
}

static bool equals(const uint32_t *a, const uint32_t *b)
{
	for (int i = 0; i < CRASH_FILES; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

/* A restore was begun: all is as in the snapshot, or all as before it. */
static int check_restore(const struct crash_log *log, const uint32_t *versions, uint32_t low,
			 uint32_t high)
{
	bool old = equals(versions, log->at_snapshot) && low <= log->dir_at_snapshot &&
		   high >= log->dir_at_snapshot;
	bool new = equals(versions, log->after) && low <= log->dir_after &&high >= log->dir_after;

	if (old || (new &&atomic_load(&log->phase) == CRASH_RESTORE))
		return 0;
	printf("# neither the snapshot nor what was before its restore (phase %u)\n",
	       atomic_load(&log->phase));
	for (int i = 0; i < CRASH_FILES; i++)
		printf("#   file-%d: %u, snapshot %u, before %u\n", i, versions[i],
		       log->at_snapshot[i], log->after[i]);
	printf("#   history: %u to %u, snapshot %u, before %u\n", low, high, log->dir_at_snapshot,
	       log->dir_after);
	return 1;
}

/* For check_file the promise is that of the snapshot while a restore may have happened. */
static void lower_promise(struct crash_log *log)
{
	for (int i = 0; i < CRASH_FILES; i++)
		atomic_store(&log->acked[i], i == CRASH_PATCHED ? 0 : log->at_snapshot[i]);
	atomic_store(&log->dir_acked, log->dir_at_snapshot);
}

int crash_verify(struct place *place, struct crash_log *log)
{
	bool restoring = atomic_load(&log->phase) >= CRASH_RESTORE;
	uint32_t versions[CRASH_FILES], low = 0, high = 0;
	int bad = 0;

	if (atomic_load(&log->next[CRASH_FILES - 1]) == 0)
		return 0; /* killed before all files were there for the first time */
	if (restoring)
		lower_promise(log);
	for (int i = 0; i < CRASH_FILES; i++)
		bad += check_file(place, log, i, &versions[i]);
	if (atomic_load(&log->round))
		bad += check_history(place, log, &low, &high);
	if (restoring && !bad)
		bad += check_restore(log, versions, low, high);
	for (int i = 0; i < CRASH_FILES && !bad; i++) {
		uint32_t begun = atomic_load(&log->started[i]);

		if (i == CRASH_GROWING) /* may be empty, cut for that version */
			atomic_store(&log->acked[i], versions[i] - 1);
		else if (i != CRASH_PATCHED) /* whose other words are older */
			atomic_store(&log->acked[i], versions[i]);
		/* a new cycle of CRASH_GROWING begins with a multiple */
		atomic_store(&log->next[i], (begun / CRASH_GROW + 2) * CRASH_GROW);
		atomic_store(&log->started[i], versions[i]);
	}
	return bad;
}
