/* fsbench.h - a scenario of the filesystem benchmark. */
#ifndef BENCH_FSBENCH_H
#define BENCH_FSBENCH_H

#include "base/base.h"

/* One place under test, during one scenario. The scenario's own directory is the cwd. */
struct bench {
	const char *data; /* prepared material outside of what is measured */
	bool quick;
	int64_t done_ns; /* set by a run that measures itself; else the run's whole time counts */
};

enum scenario_flag {
	SCENARIO_COLD = 1 << 0, /* caches are dropped before the run */
	SCENARIO_LONG = 1 << 1, /* seconds: fewer repetitions */
	SCENARIO_HUGE = 1 << 2, /* not in a quick run */
	SCENARIO_KEEP =
		1 << 3, /* works on what the scenario before it left; its setup is skipped */
};

/* What is measured; `limit`: the promise as a ratio to the reference's minimum, in percent. */
struct scenario {
	const char *name;
	unsigned flags;
	int limit;
	int (*setup)(struct bench *bench); /* not measured; NULL: none */
	int (*run)(struct bench *bench);   /* 0 or -errno */
	const char *setup_sh, *run_sh;     /* instead of functions: /bin/sh -ec, $DATA is data */
};

extern const struct scenario micro_scenarios[], data_scenarios[], shell_scenarios[];

/* Commands with this environment. 0, or -EIO when it failed. */
int bench_shell(const struct bench *bench, const char *command);
/* Make the material that shell scenarios need in a directory. */
int bench_prepare(const char *data, bool quick);

#endif
