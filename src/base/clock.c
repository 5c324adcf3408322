/* clock.c - see clock.h. */
#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define NS 1000000000

static int64_t clock_read(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * NS + ts.tv_nsec;
}

int64_t clock_now(void)
{
	return clock_read(CLOCK_REALTIME);
}

static _Atomic int64_t stamp_floor;

int64_t clock_stamp(void)
{
	int64_t tick = clock_read(CLOCK_REALTIME_COARSE);
	int64_t floor = stamp_floor;

	/* No tick is that long: the clock was set back. */
	return floor > tick && floor - tick < NS / 10 ? floor : tick;
}

void clock_stamp_seen(int64_t ns)
{
	int64_t floor = stamp_floor;

	if (ns <= clock_stamp() || ns > clock_now())
		return;
	while (floor < ns || floor - ns > NS)
		if (atomic_compare_exchange_weak(&stamp_floor, &floor, ns))
			break;
}

int64_t clock_mono(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

void clock_format(int64_t ns, char ret_text[CLOCK_TEXT])
{
	int64_t rest = ns % NS;
	time_t sec = (time_t)(ns / NS);
	struct tm tm;
	size_t n;

	if (rest < 0) {
		rest += NS;
		sec--;
	}
	if (!gmtime_r(&sec, &tm)) {
		snprintf(ret_text, CLOCK_TEXT, "%lld", (long long)sec);
		return;
	}
	n = strftime(ret_text, CLOCK_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret_text + n, CLOCK_TEXT - n, ".%03dZ", (int)(rest / 1000000));
}
