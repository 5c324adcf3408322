/* pool.c - see pool.h. */
#include "vfs/pool.h"

#include "base/mem.h"

#include <assert.h>
#include <sys/mman.h>

/* A chunk starts at a multiple of CHUNK, so that it is found from what is in it. What is used is in
 * its header, not in the free memory, so that free pages can be given back. */
#define CHUNK ((size_t)2 << 20)
#define FIRST_CHUNK ((size_t)64 << 10)
#define PAGE ((size_t)4096)
#define WORD 64

/* A sanitizer sees more if everything is allocated by itself. */
#if defined(__SANITIZE_ADDRESS__)
#define PLAIN true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAIN true
#endif
#endif
#ifndef PLAIN
#define PLAIN false
#endif

struct chunk {
	struct list link;
	size_t len;
	unsigned slots, used;
	unsigned hint;  /* no word before it has a free slot */
	uint64_t map[]; /* a bit a slot: in use */
};

static size_t header_size(unsigned slots)
{
	size_t size = sizeof(struct chunk) + (slots + WORD - 1) / WORD * sizeof(uint64_t);

	return (size + WORD - 1) / WORD * WORD;
}

static char *slot_at(const struct pool *pool, struct chunk *chunk, unsigned slot)
{
	return (char *)chunk + header_size(chunk->slots) + slot * pool->size;
}

void pool_init(struct pool *pool, size_t size)
{
	list_init(&pool->partial);
	list_init(&pool->full);
	pool->size = (size + 15) / 16 * 16;
}

static struct chunk *chunk_new(struct pool *pool)
{
	bool first = list_empty(&pool->partial) && list_empty(&pool->full);
	size_t len = first ? FIRST_CHUNK : CHUNK, before, after;
	struct chunk *chunk;
	char *at;

	at = mmap(NULL, len + CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		abort(); /* as mem_alloc */
	before = -(uintptr_t)at & (CHUNK - 1);
	after = CHUNK - before;
	if (before)
		munmap(at, before);
	munmap(at + before + len, after);
	at += before;
	if (!first)
		(void)!madvise(at, len, MADV_HUGEPAGE);
	chunk = (struct chunk *)(void *)at;
	chunk->len = len;
	chunk->slots = (unsigned)((len - sizeof(*chunk) - WORD) * 8 / (pool->size * 8 + 1));
	while (header_size(chunk->slots) + chunk->slots * pool->size > len)
		chunk->slots--;
	list_add(&pool->partial, &chunk->link);
	return chunk;
}

static void chunk_free(struct chunk *chunk)
{
	list_del(&chunk->link);
	munmap(chunk, chunk->len);
}

void *pool_get(struct pool *pool)
{
	struct chunk *chunk;
	unsigned slot;

	if (PLAIN)
		return mem_alloc(pool->size);
	if (list_empty(&pool->partial))
		chunk = chunk_new(pool);
	else
		chunk = list_entry(pool->partial.next, struct chunk, link);
	while (chunk->map[chunk->hint] == UINT64_MAX)
		chunk->hint++;
	slot = chunk->hint * WORD + (unsigned)__builtin_ctzll(~chunk->map[chunk->hint]);
	assert(slot < chunk->slots);
	chunk->map[slot / WORD] |= UINT64_C(1) << (slot % WORD);
	if (++chunk->used == chunk->slots) {
		list_del(&chunk->link);
		list_add(&pool->full, &chunk->link);
	}
	return slot_at(pool, chunk, slot);
}

void *pool_get0(struct pool *pool)
{
	return memset(pool_get(pool), 0, pool->size);
}

void pool_put(struct pool *pool, void *item)
{
	struct chunk *chunk;
	unsigned slot;
	size_t offset;

	if (PLAIN) {
		free(item);
		return;
	}
	offset = (uintptr_t)item & (CHUNK - 1);
	chunk = (struct chunk *)(void *)((char *)item - offset);
	slot = (unsigned)((offset - header_size(chunk->slots)) / pool->size);
	assert(chunk->map[slot / WORD] >> (slot % WORD) & 1);
	chunk->map[slot / WORD] &= ~(UINT64_C(1) << (slot % WORD));
	if (chunk->hint > slot / WORD)
		chunk->hint = slot / WORD;
	if (chunk->used-- == chunk->slots) {
		list_del(&chunk->link);
		list_add(&pool->partial, &chunk->link);
	}
	/* Keep one that is empty: the next thing would need it. */
	if (chunk->used == 0 && pool->partial.next != pool->partial.prev)
		chunk_free(chunk);
}

/* Runs of pages in which nothing is used. */
static void chunk_trim(const struct pool *pool, struct chunk *chunk)
{
	char *start = (char *)chunk + (header_size(chunk->slots) + PAGE - 1) / PAGE * PAGE;

	for (unsigned slot = 0; slot <= chunk->slots; slot++) {
		char *at = slot_at(pool, chunk, slot), *end;

		if (slot < chunk->slots && !(chunk->map[slot / WORD] >> (slot % WORD) & 1))
			continue;
		end = (char *)chunk + (size_t)(at - (char *)chunk) / PAGE * PAGE;
		if (end > start)
			(void)!madvise(start, (size_t)(end - start), MADV_DONTNEED);
		at += pool->size + PAGE - 1;
		start = (char *)chunk + (size_t)(at - (char *)chunk) / PAGE * PAGE;
	}
}

void pool_trim(struct pool *pool)
{
	list_for_each_safe(link, &pool->partial)
	{
		struct chunk *chunk = list_entry(link, struct chunk, link);

		if (chunk->used == 0)
			chunk_free(chunk);
		else
			chunk_trim(pool, chunk);
	}
}

void pool_clear(struct pool *pool)
{
	pool_trim(pool);
	assert(list_empty(&pool->partial) && list_empty(&pool->full));
}
