/* clock.h - what time it is. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/base.h"

/* Nanoseconds since 1970, exact. */
int64_t clock_now(void);

/*
 * Nanoseconds since 1970 as the kernel stamps files: the time of its last tick. What a
 * filesystem writes into timestamps must use this one, so that its stamps and those the kernel
 * makes for cached writes are in one order.
 */
int64_t clock_stamp(void);

/*
 * The kernel stamped something with `ns`. Its time of the last tick can be ahead of what it tells
 * programs (since Linux 6.13, when somebody looked closely at a file's time within the tick), and
 * clock_stamp() follows. Ignored unless it lies between the tick and now.
 */
void clock_stamp_seen(int64_t ns);

/* Nanoseconds of a clock that never jumps; only differences mean something. */
int64_t clock_mono(void);

/* Format as RFC 3339 in UTC with milliseconds. `ret_text` holds CLOCK_TEXT bytes. */
#define CLOCK_TEXT 32
void clock_format(int64_t ns, char ret_text[CLOCK_TEXT]);

#endif
