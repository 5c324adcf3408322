/* map.c - see map.h. */
#include "base/map.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

uint64_t map_hash_bytes(const void *bytes, size_t len, uint64_t seed)
{
	const unsigned char *p = bytes;
	uint64_t h = seed ^ (len * 0x9e3779b97f4a7c15u);
	uint64_t word;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&word, p, 8);
		h = map_hash_u64(h ^ word) + seed;
	}
	word = 0;
	if (len)
		memcpy(&word, p, len);
	return map_hash_u64(h ^ word ^ ((uint64_t)len << 56));
}

struct map_node *map_first(const struct map *map, uint64_t hash)
{
	struct map_node *node;

	if (!map->buckets)
		return NULL;
	node = map->buckets[hash & map->mask];
	while (node && node->hash != hash)
		node = node->next;
	return node;
}

struct map_node *map_next(const struct map_node *node)
{
	struct map_node *next = node->next;

	while (next && next->hash != node->hash)
		next = next->next;
	return next;
}

static void map_grow(struct map *map)
{
	size_t old = map->buckets ? map->mask + 1 : 0;
	size_t size = old ? old * 2 : 8;
	struct map_node **buckets = mem_alloc0(size * sizeof(*buckets));

	for (size_t b = 0; b < old; b++) {
		struct map_node *node = map->buckets[b], *next;

		for (; node; node = next) {
			next = node->next;
			node->next = buckets[node->hash & (size - 1)];
			buckets[node->hash & (size - 1)] = node;
		}
	}
	free(map->buckets);
	map->buckets = buckets;
	map->mask = size - 1;
}

void map_add(struct map *map, struct map_node *node, uint64_t hash)
{
	if (!map->buckets || map->count > map->mask)
		map_grow(map);
	node->hash = hash;
	node->next = map->buckets[hash & map->mask];
	map->buckets[hash & map->mask] = node;
	map->count++;
}

void map_del(struct map *map, struct map_node *node)
{
	struct map_node **link = &map->buckets[node->hash & map->mask];

	while (*link != node)
		link = &(*link)->next;
	*link = node->next;
	node->next = NULL;
	map->count--;
}

void map_clear(struct map *map)
{
	free(map->buckets);
	*map = MAP_INIT;
}
