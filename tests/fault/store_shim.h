/* store_shim.h - a SQLite VFS over the real one that fails on demand. */
#ifndef TESTS_STORE_SHIM_H
#define TESTS_STORE_SHIM_H

#include <stdbool.h>

enum shim_mode {
	SHIM_FAIL, /* the n-th write, sync or truncation is an I/O error; then all is well again */
	SHIM_FULL, /* the disk is full for that one */
	SHIM_TEAR, /* half of it is done, and the process dies */
	SHIM_LOSE, /* the power goes: so does everything that was not synced */
	SHIM_MODES
};

/* Make it the default. */
void shim_register(void);
/* Count from here on, and do it to the n-th (from 0). */
void shim_arm(enum shim_mode mode, int n);
/* Was it done? (A process that died needs no answer.) */
bool shim_fired(void);

#define SHIM_DIED 7 /* the exit status of SHIM_TEAR and SHIM_LOSE */

#endif
