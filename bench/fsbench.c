/* fsbench.c - the same work on several filesystems, interleaved, as ratios.
 *
 *   fsbench [--quick] [--json] [--reps N] [--only TEXT] [--data DIR] NAME=DIR NAME=DIR...
 *
 * The first place is the reference (ext4 on the same disk). Every scenario runs on each place in
 * turn, and again, so that a busy moment hits all; shown are medians, minima, and both divided by
 * the reference's *minimum*, which flatters nobody. "cold" drops the kernel's caches first and
 * needs root. Exit status 0 also when a promise is missed: a bench measures.
 */
#include "fsbench.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACES_MAX 8
#define REPS_MAX 64
#define ROWS_MAX 64

struct place {
	char name[32], dir[512];
};

struct row {
	const struct scenario *scenario;
	int64_t ns[PLACES_MAX][REPS_MAX];
	int count, error;
};

static struct {
	struct place places[PLACES_MAX];
	int count;
	uint64_t reps;
	bool quick, json, root;
	const char *only;
	char data[512];
	bool own_data;
} options = {.reps = 5, .only = ""};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_DP)
		rmdir(path);
	else
		unlink(path);
	return 0;
}

static void remove_all(const char *dir)
{
	nftw(dir, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

/* Nothing that one run leaves to be written shall be paid by the next. */
static void settle(void)
{
	for (int i = 0; i < options.count; i++) {
		int fd = open(options.places[i].dir, O_RDONLY | O_CLOEXEC);

		if (fd >= 0) {
			(void)syncfs(fd);
			close(fd);
		}
	}
}

static void drop_caches(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "3", 1) != 1)
		fprintf(stderr, "fsbench: cannot drop caches\n");
	if (fd >= 0)
		close(fd);
}

static int step(struct bench *bench, int (*fn)(struct bench *bench), const char *command)
{
	if (fn)
		return fn(bench);
	return command ? bench_shell(bench, command) : 0;
}

/* One run in one place. The time in ns, or a negative errno. */
static int64_t run_once(const struct scenario *s, const struct place *place)
{
	struct bench bench = {.data = options.data, .quick = options.quick};
	char dir[600];
	int64_t before, after;
	int r;

	snprintf(dir, sizeof(dir), "%s/fsbench", place->dir);
	if (!(s->flags & SCENARIO_KEEP)) {
		remove_all(dir);
		if (mkdir(dir, 0755) < 0)
			return -errno;
	}
	if (chdir(dir) < 0)
		return -errno;
	r = s->flags & SCENARIO_KEEP ? 0 : step(&bench, s->setup, s->setup_sh);
	if (r < 0)
		return r;
	settle();
	if (s->flags & SCENARIO_COLD)
		drop_caches();
	before = clock_mono();
	r = step(&bench, s->run, s->run_sh);
	after = clock_mono();
	if (chdir("/") < 0)
		return -errno;
	return r < 0 ? r : after - before;
}

static bool wanted(const struct scenario *s)
{
	if (s->flags & SCENARIO_HUGE && options.quick)
		return false;
	if (s->flags & SCENARIO_COLD && !options.root)
		return false;
	return strstr(s->name, options.only) != NULL;
}

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* ---- output ---- */

static double ms(int64_t ns)
{
	return (double)ns / 1e6;
}

static void print_head(void)
{
	printf("%-40s", "ms: median (min)");
	for (int i = 0; i < options.count; i++)
		printf(" %20s", options.places[i].name);
	for (int i = 1; i < options.count; i++)
		printf("  %9.9s/ref", options.places[i].name);
	printf("  promised\n");
}

static void print_row(struct row *row)
{
	const struct scenario *s = row->scenario;
	int64_t reference;
	bool missed = false;

	if (row->error) {
		printf("%-40s failed: %s\n", s->name, text_errno(-row->error));
		return;
	}
	for (int i = 0; i < options.count; i++)
		qsort(row->ns[i], (size_t)row->count, sizeof(row->ns[i][0]), by_number);
	reference = row->ns[0][0] ? row->ns[0][0] : 1;
	printf("%-40s", s->name);
	for (int i = 0; i < options.count; i++) {
		int64_t median = row->ns[i][row->count / 2];

		printf(" %10.2f (%7.2f)", ms(median), ms(row->ns[i][0]));
	}
	for (int i = 1; i < options.count; i++) {
		int64_t median = row->ns[i][row->count / 2];
		double ratio = (double)median / (double)reference;

		printf("  %5.2f (%4.2f)", ratio, (double)row->ns[i][0] / (double)reference);
		missed |= s->limit && i == 1 && ratio * 100 > s->limit;
	}
	if (s->limit)
		printf("  %.1f%s", s->limit / 100.0, missed ? " missed" : "");
	printf("\n");
}

static void print_json_row(struct row *row, bool first)
{
	const struct scenario *s = row->scenario;

	printf("%s\n  {\"scenario\": \"%s\"", first ? "" : ",", s->name);
	if (row->error)
		printf(", \"error\": \"%s\"", text_errno(-row->error));
	for (int i = 0; i < options.count && !row->error; i++) {
		qsort(row->ns[i], (size_t)row->count, sizeof(row->ns[i][0]), by_number);
		printf(", \"%s\": {\"median_ns\": %lld, \"min_ns\": %lld}", options.places[i].name,
		       (long long)row->ns[i][row->count / 2], (long long)row->ns[i][0]);
	}
	if (s->limit)
		printf(", \"limit\": %.2f", s->limit / 100.0);
	printf("}");
}

static void print_load(const char *when)
{
	double load[3] = {0};

	if (getloadavg(load, 3) == 3 && !options.json)
		printf("# load %s: %.2f %.2f %.2f on %ld CPUs%s\n", when, load[0], load[1], load[2],
		       sysconf(_SC_NPROCESSORS_ONLN),
		       load[0] > 0.5 ? " (not idle: latencies are not to be trusted)" : "");
}

/* ---- all ---- */

/*
 * Scenarios that work on what the one before left form a group; a group runs whole in a place
 * before the next place has its turn.
 */
static void run_group(struct row *rows, int count)
{
	uint64_t reps = options.reps;

	if (rows[0].scenario->flags & SCENARIO_LONG)
		reps = reps > 3 && !options.quick ? 3 : options.quick ? 1 : reps;
	for (uint64_t rep = 0; rep < reps; rep++)
		for (int p = 0; p < options.count; p++) {
			int place = (p + (int)rep) % options.count;

			for (int i = 0; i < count; i++) {
				int64_t ns = run_once(rows[i].scenario, &options.places[place]);

				if (ns < 0)
					rows[i].error = (int)ns;
				rows[i].ns[place][rep] = ns;
				rows[i].count = (int)rep + 1;
			}
		}
}

static void run_table(const struct scenario *table, bool *first)
{
	static struct row rows[ROWS_MAX];

	for (const struct scenario *s = table; s->name;) {
		bool any = false;
		int count = 0;

		memset(rows, 0, sizeof(rows));
		do {
			any |= wanted(s);
			if (options.root || !(s->flags & SCENARIO_COLD))
				rows[count++].scenario = s;
			s++;
		} while (s->name && s->flags & SCENARIO_KEEP);
		if (!any || !count || (count == 1 && !wanted(rows[0].scenario)))
			continue;
		run_group(rows, count);
		for (int i = 0; i < count; i++) {
			if (options.json)
				print_json_row(&rows[i], *first);
			else
				print_row(&rows[i]);
			*first = false;
		}
		fflush(stdout);
	}
}

static int usage(void)
{
	fprintf(stderr, "usage: fsbench [--quick] [--json] [--reps N] [--only TEXT] [--data DIR] "
			"NAME=DIR NAME=DIR...\n");
	return 2;
}

static int add_place(const char *text)
{
	const char *equals = strchr(text, '=');
	struct place *place = &options.places[options.count];

	if (!equals || options.count == PLACES_MAX)
		return usage();
	snprintf(place->name, sizeof(place->name), "%.*s", (int)(equals - text), text);
	snprintf(place->dir, sizeof(place->dir), "%s", equals + 1);
	options.count++;
	return 0;
}

static int parse_args(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		bool more = i + 1 < argc;

		if (strcmp(word, "--quick") == 0) {
			options.quick = true;
			options.reps = 3;
		} else if (strcmp(word, "--json") == 0) {
			options.json = true;
		} else if (strcmp(word, "--only") == 0 && more) {
			options.only = argv[++i];
		} else if (strcmp(word, "--data") == 0 && more) {
			snprintf(options.data, sizeof(options.data), "%s", argv[++i]);
		} else if (strcmp(word, "--reps") == 0 && more) {
			if (parse_u64(argv[++i], &options.reps) < 0 || !options.reps ||
			    options.reps > REPS_MAX)
				return usage();
		} else if (word[0] == '-' || add_place(word)) {
			return usage();
		}
	}
	return options.count ? 0 : usage();
}

static int make_data(void)
{
	if (options.data[0])
		return 0;
	snprintf(options.data, sizeof(options.data), "/dev/shm/fsbench.XXXXXX");
	options.own_data = true;
	if (!mkdtemp(options.data))
		return -errno;
	return bench_prepare(options.data, options.quick);
}

int main(int argc, char **argv)
{
	bool first = true;
	int r;

	if (parse_args(argc, argv))
		return 2;
	options.root = geteuid() == 0;
	umask(022);
	r = make_data();
	if (r < 0) {
		fprintf(stderr, "fsbench: cannot make the material: %s\n", text_errno(-r));
		return 1;
	}
	print_load("before");
	if (options.json)
		printf("[");
	else
		print_head();
	if (options.quick && !options.json)
		printf("# quick: trees of 30000 have 6000 files, directories of 100000 have "
		       "20000\n");
	run_table(micro_scenarios, &first);
	run_table(data_scenarios, &first);
	run_table(shell_scenarios, &first);
	if (options.json)
		printf("\n]\n");
	print_load("after");
	for (int i = 0; i < options.count; i++) {
		char dir[600];

		snprintf(dir, sizeof(dir), "%s/fsbench", options.places[i].dir);
		remove_all(dir);
	}
	if (options.own_data)
		remove_all(options.data);
	return 0;
}
