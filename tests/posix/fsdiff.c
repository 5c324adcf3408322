/* fsdiff.c - the same random operations in several places, compared step by step.
 *
 *   fsdiff [--steps N] [--seed S] [--threads T] [--every N] [--trace] TARGET TARGET...
 *
 * A target is a directory, or sys:PATH.db: a workspace through vfs alone. First one worker does N
 * steps, then T of them do N each at the same time, everyone in a tree of its own. After every step
 * numbers, errnos and what was seen must be equal everywhere; every 500 (--every N), and at the
 * end, whole trees. As root, operations are made by several uids. On a difference the seed, the
 * step and its result in each target are printed, and the trees are left.
 */
#include "fsdiff.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <linux/falloc.h>
#include <linux/fs.h>

#define TARGETS_MAX 8
#define THREADS_MAX 16
#define DUMP_MAX (64u << 20)
#define LAST 12 /* operations shown before a difference */

static const struct {
	const char *name;
	int weight;
	bool path, path2, slot;
} kinds[OP_KINDS] = {
#define OP(name, weight, path, path2, slot) {#name, weight, path, path2, slot},
#include "fsdiff_ops.def"
#undef OP
};

static struct {
	const char *target[TARGETS_MAX];
	size_t targets;
	uint64_t steps, seed, threads, every;
	bool trace, root;
	bool protected; /* fs.protected_hardlinks and its like are on */
} options = {.steps = 5000, .threads = 3, .every = 500};

static atomic_bool stop; /* one worker found a difference: the others end too */

/* ---- chance ---- */

static uint64_t next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t below(uint64_t *state, uint64_t n)
{
	return next(state) % n;
}

void fill_bytes(void *bytes, size_t len, uint32_t seed)
{
	unsigned char *to = bytes;
	uint32_t x = seed | 1;

	for (size_t i = 0; i < len; i++) {
		x = x * 1664525 + 1013904223;
		to[i] = (unsigned char)(x >> 24);
	}
}

uint64_t hash_more(uint64_t hash, const void *bytes, size_t len)
{
	const unsigned char *from = bytes;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ from[i]) * 0x100000001b3u;
	return hash;
}

/* ---- an operation ---- */

#define RECENT 32

/* What went well before, so that most operations meet something. */
struct memory {
	char path[RECENT][PATH_SIZE];
	unsigned paths;
	bool open[SLOTS];
};

/* One to three names of few, so that they meet; now and then something odd. */
static void choose_path(uint64_t *rng, const struct memory *memory, char *ret_path)
{
	static const char *const odd[] = {".", "a/.", "a/", "", "a//b", "b/../a"};
	int depth = 1 + (int)below(rng, 3);
	size_t len = 0;

	if (below(rng, 40) == 0) {
		snprintf(ret_path, PATH_SIZE, "%s", odd[below(rng, ARRAY_LEN(odd))]);
		return;
	}
	if (below(rng, 100) == 0) {
		len = 254 + below(rng, 3);
		memset(ret_path, 'n', len);
		ret_path[len] = '\0';
		return;
	}
	if (memory->paths && below(rng, 2)) {
		unsigned known = memory->paths < RECENT ? memory->paths : RECENT;

		memcpy(ret_path, memory->path[below(rng, known)], PATH_SIZE);
		return;
	}
	for (int i = 0; i < depth; i++)
		len += (size_t)snprintf(ret_path + len, PATH_SIZE - len, "%s%c", i ? "/" : "",
					(int)('a' + below(rng, 5)));
}

/* Small, or near a border that may matter, or anything. */
static int64_t choose_offset(uint64_t *rng)
{
	static const int64_t borders[] = {4096, 16384, 65536, 131072, 1 << 20};

	switch (below(rng, 4)) {
	case 0:
		return (int64_t)below(rng, 5000);
	case 1:
		return borders[below(rng, ARRAY_LEN(borders))] + (int64_t)below(rng, 5) - 2;
	case 2:
		return (int64_t)below(rng, 200000);
	default:
		return (int64_t)below(rng, below(rng, 8) ? 400000 : OFFSET_MAX);
	}
}

static int choose_open_flags(uint64_t *rng)
{
	static const int access[] = {O_RDWR, O_RDWR, O_RDWR, O_RDWR, O_WRONLY, O_RDONLY};
	int flags = access[below(rng, ARRAY_LEN(access))];

	if (below(rng, 3))
		flags |= O_CREAT;
	if (below(rng, 8) == 0)
		flags |= O_EXCL | O_CREAT;
	if (below(rng, 6) == 0)
		flags |= O_TRUNC;
	if (below(rng, 5) == 0)
		flags |= O_APPEND;
	if (below(rng, 20) == 0)
		flags |= O_NOFOLLOW;
	if (below(rng, 25) == 0)
		flags = O_RDONLY | O_DIRECTORY;
	return flags | O_CLOEXEC | O_NONBLOCK;
}

/* What is not about the filesystem: host policy, and which of two errors comes first. */
static void soften(struct op *op)
{
	size_t len = strlen(op->path);

	if ((op->kind == OP_link && options.protected) || len > 250)
		op->uid = 0;
	if (options.protected && op->mode & 01000)
		op->mode = 0777;
	if (kinds[op->kind].path2 && (len > 250 || strlen(op->path2) > 250)) {
		op->path[1] = '\0';
		op->path2[1] = '\0';
	}
	if ((op->kind == OP_open || op->kind == OP_rename) && len && op->path[len - 1] == '/')
		op->path[len - 1] = '\0';
	len = strlen(op->path2);
	if (len && op->path2[len - 1] == '/')
		op->path2[len - 1] = '\0';
	if (op->kind == OP_chown && op->fill % 16 == 15) /* neither uid nor gid, yet setuid goes */
		op->fill++;
	if (op->kind == OP_readlink && !*op->path)
		op->path[0] = '.';
}

static void choose_flags(uint64_t *rng, struct op *op)
{
	static const int rename_flags[] = {0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
	static const int falloc_modes[] = {0, FALLOC_FL_KEEP_SIZE,
					   FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
					   FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE};

	if (op->kind == OP_open)
		op->flags = choose_open_flags(rng);
	else if (op->kind == OP_rename)
		op->flags = rename_flags[below(rng, ARRAY_LEN(rename_flags))];
	else if (op->kind == OP_falloc)
		op->flags = falloc_modes[below(rng, ARRAY_LEN(falloc_modes))];
	else
		op->flags = (int)below(rng, 8);
}

/* Mostly one that is open. */
static int choose_slot(uint64_t *rng, const struct memory *memory)
{
	int slot = (int)below(rng, SLOTS);

	for (int i = 0; i < SLOTS && !memory->open[slot] && below(rng, 16); i++)
		slot = (slot + 1) % SLOTS;
	return slot;
}

static void remember(struct memory *memory, const struct op *op, int64_t r)
{
	if (op->kind == OP_open)
		memory->open[op->slot] = r >= 0;
	if (op->kind == OP_close)
		memory->open[op->slot] = false;
	if (r < 0 || !kinds[op->kind].path)
		return;
	memcpy(memory->path[memory->paths % RECENT], op->kind == OP_rename ? op->path2 : op->path,
	       PATH_SIZE);
	memory->paths++;
}

static void choose_op(uint64_t *rng, const struct memory *memory, struct op *op)
{
	static const uint32_t uids[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1001, 1002};
	static const uint32_t modes[] = {0777, 0755, 0644, 0666, 0700, 0, 01777, 02777, 04755};
	int sum = 0, at;

	memset(op, 0, sizeof(*op));
	for (int i = 0; i < OP_KINDS; i++)
		sum += kinds[i].weight;
	at = (int)below(rng, (uint64_t)sum);
	while (at >= kinds[op->kind].weight)
		at -= kinds[op->kind++].weight;
	if (options.root)
		op->uid = uids[below(rng, ARRAY_LEN(uids))];
	choose_path(rng, memory, op->path);
	choose_path(rng, memory, op->path2);
	op->slot = op->kind == OP_open ? (int)below(rng, SLOTS) : choose_slot(rng, memory);
	op->slot2 = choose_slot(rng, memory);
	op->mode = below(rng, 3) ? 0777 : modes[below(rng, ARRAY_LEN(modes))];
	op->offset = choose_offset(rng);
	op->offset2 = choose_offset(rng);
	op->len = 1 + (int64_t)below(rng, below(rng, 3) ? 6000 : IO_MAX);
	op->fill = (uint32_t)next(rng);
	choose_flags(rng, op);
	soften(op);
}

static void describe(const struct op *op, char *text, size_t size)
{
	size_t n;

	n = (size_t)snprintf(text, size, "%s uid=%u", kinds[op->kind].name, op->uid);
	if (kinds[op->kind].path && n < size)
		n += (size_t)snprintf(text + n, size - n, " '%.80s'", op->path);
	if (kinds[op->kind].path2 && n < size)
		n += (size_t)snprintf(text + n, size - n, " '%.80s'", op->path2);
	if (kinds[op->kind].slot && n < size)
		n += (size_t)snprintf(text + n, size - n, " slot %d, slot2 %d", op->slot,
				      op->slot2);
	if (n < size)
		snprintf(text + n, size - n,
			 " flags 0%o mode 0%o at %lld, %lld, %lld bytes, fill %u",
			 (unsigned)op->flags, op->mode, (long long)op->offset,
			 (long long)op->offset2, (long long)op->len, op->fill);
}

/* ---- dumps ---- */

void see_attr(struct result *result, const struct shown *shown)
{
	snprintf(result->text, sizeof(result->text), "%o nlink %u %u:%u size %lld", shown->mode,
		 shown->nlink, shown->uid, shown->gid,
		 S_ISDIR(shown->mode) ? 0 : (long long)shown->size);
	result->seen = hash_more(0, result->text, strlen(result->text));
}

void show_line(struct buf *out, const struct shown *shown)
{
	bool set = shown->mtime < (int64_t)1000000000 * 1000000000;
	bool dir = S_ISDIR(shown->mode);

	text_add(out, "%s %o nlink %u %u:%u size %lld mtime ", shown->path, shown->mode,
		 shown->nlink, shown->uid, shown->gid, dir ? 0 : (long long)shown->size);
	if (set)
		text_add(out, "%lld", (long long)shown->mtime);
	else
		text_add(out, "now");
	text_add(out, " %016llx\n", (unsigned long long)shown->content);
}

/* Print the first line that differs. */
static void print_difference(const char *name, const char *a, const char *name2, const char *b)
{
	while (*a && *b) {
		size_t la = strcspn(a, "\n"), lb = strcspn(b, "\n");

		if (la != lb || memcmp(a, b, la) != 0)
			break;
		a += la + 1;
		b += lb + 1;
	}
	printf("# %s: %.*s\n# %s: %.*s\n", name, (int)strcspn(a, "\n"), a, name2,
	       (int)strcspn(b, "\n"), b);
}

/* ---- a worker ---- */

struct worker {
	struct view *view[TARGETS_MAX];
	uint64_t rng, step;
	bool failed;
	char root[31];
	struct memory memory;
	struct op last[LAST];
};

static void worker_say(struct worker *w, const char *what)
{
	char text[512];

	atomic_store(&stop, true);
	w->failed = true;
	printf("not ok %s: %s at step %llu of '%s' (--seed %llu --steps %llu --threads %llu)\n",
	       "fsdiff", what, (unsigned long long)w->step, w->root,
	       (unsigned long long)options.seed, (unsigned long long)options.steps,
	       (unsigned long long)options.threads);
	for (uint64_t i = w->step < LAST ? 0 : w->step - LAST + 1; i <= w->step; i++) {
		describe(&w->last[i % LAST], text, sizeof(text));
		printf("#   %llu: %s\n", (unsigned long long)i, text);
	}
}

static void worker_compare_trees(struct worker *w)
{
	struct buf first = BUF_INIT(DUMP_MAX);

	for (size_t i = 0; i < options.targets && !w->failed; i++) {
		struct buf dump = BUF_INIT(DUMP_MAX);
		int r = w->view[i]->ops->dump(w->view[i], i ? &dump : &first);

		if (r < 0) {
			worker_say(w, "cannot read the tree");
			printf("# %s: %s\n", options.target[i], text_errno(-r));
		} else if (i && (dump.len != first.len ||
				 memcmp(dump.data, first.data, dump.len) != 0)) {
			worker_say(w, "trees differ");
			print_difference(options.target[0], first.data, options.target[i],
					 dump.data);
		}
		buf_clear(&dump);
	}
	buf_clear(&first);
}

static void worker_step(struct worker *w)
{
	struct op *op = &w->last[w->step % LAST];
	struct result result[TARGETS_MAX] = {0};
	char text[512];
	bool same = true;

	choose_op(&w->rng, &w->memory, op);
	for (size_t i = 0; i < options.targets; i++) {
		w->view[i]->ops->run(w->view[i], op, &result[i]);
		same &= result[i].r == result[0].r && result[i].seen == result[0].seen;
	}
	if (options.trace) {
		describe(op, text, sizeof(text));
		printf("# %s %llu: %s = %lld\n", w->root, (unsigned long long)w->step, text,
		       (long long)result[0].r);
	}
	remember(&w->memory, op, result[0].r);
	if (same)
		return;
	worker_say(w, "results differ");
	for (size_t i = 0; i < options.targets; i++)
		printf("# %s: %lld %s, saw %016llx %s\n", options.target[i], (long long)result[i].r,
		       result[i].r < 0 ? text_errno((int)-result[i].r) : "",
		       (unsigned long long)result[i].seen, result[i].text);
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;

	for (w->step = 0; w->step < options.steps && !w->failed && !atomic_load(&stop); w->step++) {
		worker_step(w);
		if (!w->failed && w->step % options.every == options.every - 1)
			worker_compare_trees(w);
	}
	if (w->step)
		w->step--;
	if (!w->failed)
		worker_compare_trees(w);
	return NULL;
}

static struct view *view_new(const char *target, const char *root)
{
	if (strncmp(target, "sys:", 4) == 0) {
#ifdef FSDIFF_SYS
		return sys_view_new(target + 4, root);
#else
		return NULL;
#endif
	}
	return posix_view_new(target, root);
}

static bool worker_open(struct worker *w)
{
	for (size_t i = 0; i < options.targets; i++) {
		w->view[i] = view_new(options.target[i], w->root);
		if (!w->view[i]) {
			printf("Bail out! cannot use '%s'\n", options.target[i]);
			return false;
		}
	}
	return true;
}

static void worker_close(struct worker *w)
{
	for (size_t i = 0; i < options.targets; i++)
		if (w->view[i])
			w->view[i]->ops->free(w->view[i]);
}

/* `count` workers at the same time. */
static bool run_phase(const char *name, uint64_t count)
{
	static struct worker workers[THREADS_MAX];
	pthread_t thread[THREADS_MAX];
	bool ok = true;

	memset(workers, 0, sizeof(workers));
	for (uint64_t i = 0; i < count && ok; i++) {
		workers[i].rng = options.seed + i * 1000003 + count;
		snprintf(workers[i].root, sizeof(workers[i].root), "%s-%llu", name,
			 (unsigned long long)i);
		ok = worker_open(&workers[i]);
	}
	for (uint64_t i = 0; i < count && ok; i++)
		if (pthread_create(&thread[i], NULL, worker_run, &workers[i]) != 0)
			abort();
	for (uint64_t i = 0; i < count; i++) {
		if (ok)
			pthread_join(thread[i], NULL);
	}
	for (uint64_t i = 0; i < count; i++) {
		ok &= !workers[i].failed;
		worker_close(&workers[i]);
	}
	if (ok)
		printf("ok %s: %llu x %llu steps in %zu places\n", name, (unsigned long long)count,
		       (unsigned long long)options.steps, options.targets);
	fflush(stdout);
	return ok;
}

static int usage(void)
{
	fprintf(stderr, "usage: fsdiff [--steps N] [--seed S] [--threads T] [--every N] [--trace] "
			"TARGET TARGET...\n");
	return 2;
}

static int parse_args(int argc, char **argv)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	options.seed = (uint64_t)now.tv_nsec;
	for (int i = 1; i < argc; i++) {
		uint64_t *number = strcmp(argv[i], "--steps") == 0     ? &options.steps
				   : strcmp(argv[i], "--seed") == 0    ? &options.seed
				   : strcmp(argv[i], "--threads") == 0 ? &options.threads
				   : strcmp(argv[i], "--every") == 0   ? &options.every
								       : NULL;

		if (number) {
			if (++i == argc || parse_u64(argv[i], number) < 0)
				return usage();
		} else if (strcmp(argv[i], "--trace") == 0) {
			options.trace = true;
		} else if (argv[i][0] == '-' || options.targets == TARGETS_MAX) {
			return usage();
		} else {
			options.target[options.targets++] = argv[i];
		}
	}
	return options.targets < 1 || !options.every || options.threads > THREADS_MAX ? usage() : 0;
}

static bool is_protected(void)
{
	static const char *const names[] = {"fifos", "hardlinks", "regular", "symlinks"};
	char path[64], value = '0';

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		int fd;

		snprintf(path, sizeof(path), "/proc/sys/fs/protected_%s", names[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, &value, 1) == 1 && value != '0') {
			close(fd);
			return true;
		}
		fd_close(&fd);
	}
	return false;
}

int main(int argc, char **argv)
{
	bool ok;

	if (parse_args(argc, argv))
		return 2;
	umask(0);
	options.root = geteuid() == 0;
	options.protected = is_protected();
	if (options.root && setgroups(0, NULL) < 0)
		return 2;
	ok = run_phase("alone", 1);
	if (ok && options.threads)
		ok = run_phase("together", options.threads);
#ifdef FSDIFF_SYS
	sys_close_all();
#endif
	printf("1..%d\n", options.threads ? 2 : 1);
	return ok ? 0 : 1;
}
