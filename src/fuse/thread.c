/* thread.c - starting threads that serve, and where they run. */
#include "fuse/fuse_i.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

int thread_start(pthread_t *ret_thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int r;

	/* Signals are for the program we are part of, not for our threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(ret_thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

int cpu_count(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 1;
	return CPU_COUNT(&set);
}

int cpu_nth(int n)
{
	cpu_set_t set;
	int count;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return -1;
	count = CPU_COUNT(&set);
	n %= count;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && n-- == 0)
			return cpu;
	return -1;
}

void thread_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	/* A CPU that is offline or not ours: serve from wherever we are. */
	(void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}
