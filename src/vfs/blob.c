/* blob.c - memory for the content of small files, shared by all workspaces of the process. */
#include "base/mem.h"
#include "vfs/vfs_i.h"

/* In pools, for the same reason as inodes: a new file's content is fresh memory each time. */
static const size_t sizes[] = {128, 512, 1024, 2048, 4096 + 64, 8192 + 64, STORE_INLINE_MAX + 64};

static struct pool pools[ARRAY_LEN(sizes)];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The smallest that holds it, or NULL. */
static struct pool *pool_for(size_t cap)
{
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		if (sizeof(struct blob) + cap <= sizes[i])
			return &pools[i];
	return NULL;
}

struct blob *blob_new(size_t cap)
{
	struct pool *pool = pool_for(cap);
	struct blob *blob;

	if (pool) {
		pthread_mutex_lock(&lock);
		if (!pool->size)
			pool_init(pool, sizes[pool - pools]);
		blob = pool_get(pool);
		cap = pool->size - sizeof(*blob);
		pthread_mutex_unlock(&lock);
	} else {
		blob = mem_alloc(sizeof(*blob) + cap);
	}
	blob->refs = 1;
	blob->len = 0;
	blob->cap = cap;
	return blob;
}

void blob_unref(struct blob *blob)
{
	struct pool *pool;

	if (!blob || --blob->refs > 0)
		return;
	pool = pool_for(blob->cap);
	if (pool) {
		pthread_mutex_lock(&lock);
		pool_put(pool, blob);
		pthread_mutex_unlock(&lock);
	} else {
		free(blob);
	}
}

struct blob *blob_own(struct blob **blob, size_t cap)
{
	struct blob *old = *blob, *own;

	if (old && old->refs == 1 && old->cap >= cap)
		return old;
	if (old && cap < old->len)
		cap = old->len;
	own = blob_new(cap);
	if (old && old->len) {
		memcpy(own->data, old->data, old->len);
		own->len = old->len;
	}
	blob_unref(old);
	*blob = own;
	return own;
}

void blob_trim(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < ARRAY_LEN(pools); i++)
		if (pools[i].size)
			pool_trim(&pools[i]);
	pthread_mutex_unlock(&lock);
}
