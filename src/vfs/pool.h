/* pool.h - memory for many things of one size.
 *
 * A page that is touched for the first time costs as much as the operation that touches it, and in
 * virtual machines ten times that. So things come from chunks that the kernel is asked to back with
 * huge pages; the first chunk is small, since most workspaces are. Under the lock of its owner.
 */
#ifndef VFS_POOL_H
#define VFS_POOL_H

#include "base/list.h"

struct pool {
	struct list partial, full; /* chunks with room, and without */
	size_t size;
};

void pool_init(struct pool *pool, size_t size);
/* Everything must have been put back. */
void pool_clear(struct pool *pool);

/* Not zeroed; zeroed. */
void *pool_get(struct pool *pool);
void *pool_get0(struct pool *pool);
void pool_put(struct pool *pool, void *item);

/* Give back to the host what nothing is in. */
void pool_trim(struct pool *pool);

#endif
