/* fixture.h - a home for workspaces in a folder of its own, and another process that owns one. */
#ifndef TESTS_COMPUTER_FIXTURE_H
#define TESTS_COMPUTER_FIXTURE_H

#include "computer/ops.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct home {
	char path[64];
	pid_t owner; /* of workspace "w", in remote mode; else 0 */
	int stop;    /* closing it ends the owner */
	bool remote;
};

/* Make the folder and point $COMPUTER_HOME and $XDG_RUNTIME_DIR at it. */
void home_init(struct home *home);
/* End the owner, and remove everything. */
void home_clear(struct home *home);

/* Make workspace "w"; when `remote`, a child has it open from now on. */
void home_owned(struct home *home, bool remote);
/* Let the child close it; waits for its end. */
void home_release(struct home *home);

/* Open "w" (or another), check that it is where the mode says. */
struct computer *home_open(const struct home *home, const char *workspace, unsigned flags);
void home_close(struct computer *computer);

/* FOLDER/name, in a static buffer. */
const char *home_file(const struct home *home, const char *name);

/* Assert that a call answers `want`; the error's text is shown when it does not. */
#define assert_call(call, want)                                              \
	do {                                                                 \
		int call_r = (int)(call);                                    \
		if (call_r != (want))                                        \
			print_error("%s: %d %s\n", #call, call_r, err.text); \
		assert_int_equal(call_r, (want));                            \
	} while (0)

#endif
