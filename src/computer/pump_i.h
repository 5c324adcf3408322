/* pump_i.h - streams between a program in the container and what its caller gave it. */
#ifndef COMPUTER_PUMP_I_H
#define COMPUTER_PUMP_I_H

#include "base/base.h"

#include <pthread.h>

struct pump {
	bool running, input;
	int from, to;
	int theirs; /* the program's end of the pipe */
	int stop;   /* readable when the program has ended */
	pthread_t thread;
};

/* Put a pipe in place of each of `fds` (standard input, output, error; -1: none) that is neither
 * pipe, socket nor terminal. 0 or -EAGAIN, -EMFILE. */
int pumps_start(struct pump pumps[3], int fds[3]) MUST_USE;

/* After the program has ended: pass on what it wrote last, and end. */
void pumps_stop(struct pump pumps[3]);

#endif
