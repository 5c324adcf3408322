/* refs.h - how many references the kernel holds to each inode.
 *
 * The kernel gives them back by FORGET, except when the mount ends: then nothing comes, and we
 * give back what is left.
 */
#ifndef FUSE_REFS_H
#define FUSE_REFS_H

#include "base/base.h"

#include <pthread.h>

struct ref {
	int64_t ino; /* 0: free */
	uint64_t count;
	uint64_t ghosts; /* those the vfs does not know of (adopt.c); given back first */
};

/* Open addressing with linear probing; a power of two of slots. Safe to use from any thread. */
struct refs {
	pthread_mutex_t lock;
	struct ref *slots;
	size_t mask; /* slots - 1; 0 with NULL slots */
	size_t used;
};

void refs_init(struct refs *refs);
void refs_clear(struct refs *refs);

void refs_add(struct refs *refs, int64_t ino);
/* One more for an inode that has some already, without the vfs. False: it has none. */
bool refs_add_ghost(struct refs *refs, int64_t ino);
/* Take up to `count` off; the number taken, which is what the vfs is told. */
uint64_t refs_sub(struct refs *refs, int64_t ino, uint64_t count);
bool refs_has(struct refs *refs, int64_t ino);

/* Every inode with references, as an array the caller frees. */
int64_t *refs_list(struct refs *refs, size_t *ret_count);
/* Take everything out, calling `fn` for each (not under the lock). */
void refs_drain(struct refs *refs, void (*fn)(void *arg, int64_t ino, uint64_t count), void *arg);

#endif
