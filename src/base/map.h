/* map.h - a hash table whose links live inside the things it holds. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/base.h"

/* The link inside an element. `hash` is kept, so that growing never asks the element for it. */
struct map_node {
	struct map_node *next;
	uint64_t hash;
};

/*
 * Chained, a power of two of buckets, grown at load 1. The owner of the elements decides what
 * makes two of them equal: a lookup walks map_first/map_next over equal hashes and compares.
 * Start with MAP_INIT. Not safe against concurrent use.
 */
struct map {
	struct map_node **buckets;
	size_t count;
	size_t mask; /* buckets - 1; 0 with NULL buckets */
};

#define MAP_INIT ((struct map){0})

/* A seeded hash of bytes: an outsider who picks names cannot pick collisions. */
uint64_t map_hash_bytes(const void *bytes, size_t len, uint64_t seed);

static inline uint64_t map_hash_u64(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ (x >> 32);
}

/* The first element with this hash, or NULL; then the next one after `node` with the same hash. */
struct map_node *map_first(const struct map *map, uint64_t hash);
struct map_node *map_next(const struct map_node *node);

/* Enter an element that is not in the map. */
void map_add(struct map *map, struct map_node *node, uint64_t hash);

/* Take out an element that is in the map. */
void map_del(struct map *map, struct map_node *node);

/* Free the buckets, not the elements. The map is empty afterwards. */
void map_clear(struct map *map);

/*
 * Walk everything: for (size_t b = 0; b <= map.mask && map.buckets; b++) over map.buckets[b].
 * The macro below does it; the current element may be deleted in the body.
 */
#define map_for_each(pos, map)                                                        \
	for (size_t pos##_b = 0; (map)->buckets && pos##_b <= (map)->mask; pos##_b++) \
		for (struct map_node *pos = (map)->buckets[pos##_b],                  \
				     *pos##_next = pos ? pos->next : NULL;            \
		     pos; pos = pos##_next, pos##_next = pos ? pos->next : NULL)

#define map_entry(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
