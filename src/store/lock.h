/* lock.h - one owner: who may open a workspace for writing.
 *
 * An open file description lock on NAME.lock beside the database, so that a crash releases it; the
 * file holds the owner's pid and the path of its socket. (Not on the database itself: closing a
 * second descriptor of that would drop SQLite's own POSIX locks.)
 */
#ifndef STORE_LOCK_H
#define STORE_LOCK_H

#include "base/err.h"

struct store_lock {
	int fd; /* -1: not held */
};

#define STORE_LOCK_INIT ((struct store_lock){.fd = -1})

/* Who has it. `socket` is empty while the owner serves nobody. */
struct store_owner {
	int64_t pid;
	char socket[108];
};

/* Take the lock of the workspace at `db_path`. 0, -EBUSY with `ret_owner` filled in (never waits).
 */
int store_lock_take(const char *db_path, struct store_lock *ret_lock, struct store_owner *ret_owner,
		    struct err *err) MUST_USE;

/* Publish the socket at which the owner serves others. */
int store_lock_publish(struct store_lock *lock, const char *socket) MUST_USE;

/* Give it up; for CLEANUP. */
void store_lock_drop(struct store_lock *lock);

#endif
