/* units.c - where the units of large files are, in memory and in the store. */
#include "base/mem.h"
#include "vfs/units_i.h"

#include <errno.h>

/* Chunks kept of one file while they are clean: 4 GiB of it. */
#define CHUNKS_MAX 1024

static struct units *chunk_find(const struct inode *inode, int64_t idx)
{
	int64_t first = idx - idx % UNITS_CHUNK;
	struct map_node *node = map_first(&inode->units, map_hash_u64((uint64_t)first));

	for (; node; node = map_next(node)) {
		struct units *chunk = map_entry(node, struct units, node);

		if (chunk->first == first)
			return chunk;
	}
	return NULL;
}

void units_forget(struct inode *inode)
{
	map_for_each (node, &inode->units)
		free(map_entry(node, struct units, node));
	map_clear(&inode->units);
}

void units_fresh(struct vfs *vfs, struct inode *inode)
{
	const unsigned dirty = INODE_UNITS | INODE_CUT;
	bool stale = inode->units_epoch && inode->units_epoch != vfs->epoch + 1;

	/* Layers may have moved in vfs_exclusive; everything is flushed by then. */
	if (stale || (inode->units.count > CHUNKS_MAX && !inode->busy && !(inode->state & dirty) &&
		      inode->frozen <= vfs->flushed)) {
		units_forget(inode);
		inode->state &= ~(unsigned)INODE_NO_UNITS;
	}
	inode->units_epoch = vfs->epoch + 1;
}

static int chunk_load(struct vfs *vfs, const struct inode *inode, struct units *chunk)
{
	int64_t cut = inode_cut(vfs, inode);
	int r = 0;

	if ((inode->state & INODE_NO_UNITS) || cut <= chunk->first)
		cut = chunk->first;
	else
		r = store_get_units(vfs->store, inode->row.ino, chunk->first, UNITS_CHUNK,
				    chunk->unit);
	for (int i = 0; i < UNITS_CHUNK && r >= 0; i++)
		if (chunk->first + i >= cut)
			chunk->unit[i] = (struct store_unit){.pos = STORE_HOLE};
	return r < 0 ? r : 0;
}

int units_chunk(struct vfs *vfs, struct inode *inode, int64_t idx, bool make,
		struct units **ret_chunk)
{
	struct units *chunk = chunk_find(inode, idx);
	int64_t first = idx - idx % UNITS_CHUNK;
	int r;

	if (chunk ||
	    (!make && ((inode->state & INODE_NO_UNITS) || inode_cut(vfs, inode) <= first))) {
		*ret_chunk = chunk;
		return 0;
	}
	chunk = mem_alloc0(sizeof(*chunk));
	chunk->first = first;
	r = chunk_load(vfs, inode, chunk);
	if (r < 0) {
		free(chunk);
		return r;
	}
	map_add(&inode->units, &chunk->node, map_hash_u64((uint64_t)first));
	*ret_chunk = chunk;
	return 0;
}

int units_get(struct vfs *vfs, struct inode *inode, int64_t first, size_t count,
	      struct store_unit *ret_units)
{
	struct units *chunk = NULL;

	for (size_t i = 0; i < count; i++) {
		int64_t idx = first + (int64_t)i;

		if (i == 0 || idx % UNITS_CHUNK == 0) {
			int r = units_chunk(vfs, inode, idx, false, &chunk);

			if (r < 0)
				return r;
		}
		ret_units[i] = chunk ? chunk->unit[idx % UNITS_CHUNK]
				     : (struct store_unit){.pos = STORE_HOLE};
	}
	return 0;
}

/* The first chunk in memory from unit `from` on. */
static int64_t next_in_memory(const struct inode *inode, int64_t from)
{
	int64_t next = INT64_MAX;

	map_for_each (node, &inode->units) {
		const struct units *chunk = map_entry(node, struct units, node);

		if (chunk->first >= from && chunk->first < next)
			next = chunk->first;
	}
	return next;
}

/* The first unit from `from` on that has a row which is to be believed; INT64_MAX: none. */
static int next_in_store(struct vfs *vfs, const struct inode *inode, int64_t from, int64_t *ret_idx)
{
	int64_t cut = inode_cut(vfs, inode);
	int r = -ENXIO;

	*ret_idx = INT64_MAX;
	if (!(inode->state & INODE_NO_UNITS) && from < cut)
		r = store_next_unit(vfs->store, inode->row.ino, from, ret_idx);
	if (r == -ENXIO || (r == 0 && *ret_idx >= cut))
		*ret_idx = INT64_MAX;
	return r == -ENXIO ? 0 : r;
}

int units_next(struct vfs *vfs, struct inode *inode, int64_t from, int64_t *ret_idx)
{
	for (;;) {
		const struct units *chunk = chunk_find(inode, from);
		int64_t stored, first;
		int r;

		for (; chunk && from < chunk->first + UNITS_CHUNK; from++) {
			if (chunk->unit[from % UNITS_CHUNK].pos == STORE_HOLE)
				continue;
			*ret_idx = from;
			return 0;
		}
		if (chunk)
			continue;
		r = next_in_store(vfs, inode, from, &stored);
		if (r < 0)
			return r;
		first = next_in_memory(inode, from);
		if (stored == INT64_MAX && first == INT64_MAX)
			return -ENXIO;
		if (stored < first) {
			*ret_idx = stored;
			return 0;
		}
		/* What is in memory from `first` on is newer than any row. */
		from = first;
	}
}

static int64_t chunk_count(const struct units *chunk, int64_t first, int64_t last)
{
	int64_t count = 0;

	for (int i = 0; i < UNITS_CHUNK; i++)
		if (chunk->first + i >= first && chunk->first + i <= last)
			count += chunk->unit[i].pos != STORE_HOLE;
	return count;
}

int units_count(struct vfs *vfs, struct inode *inode, int64_t first, int64_t last,
		int64_t *ret_count)
{
	int64_t count = 0, idx = first;
	int r;

	map_for_each (node, &inode->units)
		count += chunk_count(map_entry(node, struct units, node), first, last);
	for (;;) { /* chunks that are rows alone */
		struct units chunk;

		r = next_in_store(vfs, inode, idx, &idx);
		if (r < 0)
			return r;
		if (idx == INT64_MAX || idx > last)
			break;
		chunk.first = idx - idx % UNITS_CHUNK;
		if (!chunk_find(inode, idx)) {
			r = chunk_load(vfs, inode, &chunk);
			if (r < 0)
				return r;
			count += chunk_count(&chunk, first, last);
		}
		idx = chunk.first + UNITS_CHUNK;
	}
	*ret_count = count;
	return 0;
}

void units_set(struct vfs *vfs, struct inode *inode, int64_t idx, int64_t pos)
{
	struct units *chunk = chunk_find(inode, idx);
	struct store_unit *unit = &chunk->unit[idx % UNITS_CHUNK];
	uint64_t bit = (uint64_t)1 << (idx % UNITS_CHUNK);

	if (unit->pos != STORE_HOLE) {
		inode->row.rdev--;
		if (chunk->dirty & bit)
			store_data_free(vfs->store, unit->pos, 1);
	}
	if (pos != STORE_HOLE)
		inode->row.rdev++;
	*unit = (struct store_unit){.pos = pos};
	chunk->dirty |= bit;
}

/* Units of a chunk from `from` on that no row names go back to the store, in runs. */
static void chunk_give_back(struct vfs *vfs, struct units *chunk, int from)
{
	int64_t start = 0;
	size_t run = 0;

	for (int i = from; i < UNITS_CHUNK; i++) {
		bool ours = (chunk->dirty >> i & 1) && chunk->unit[i].pos != STORE_HOLE;

		if (run && (!ours || chunk->unit[i].pos != start + (int64_t)run)) {
			store_data_free(vfs->store, start, run);
			run = 0;
		}
		if (ours && run == 0)
			start = chunk->unit[i].pos;
		run += ours;
	}
	if (run)
		store_data_free(vfs->store, start, run);
}

void units_give_back(struct vfs *vfs, struct inode *inode)
{
	map_for_each (node, &inode->units) {
		struct units *chunk = map_entry(node, struct units, node);

		if (chunk->dirty)
			chunk_give_back(vfs, chunk, 0);
	}
	units_forget(inode);
}

void units_cut(struct vfs *vfs, struct inode *inode, int64_t first, int64_t gone)
{
	map_for_each (node, &inode->units) {
		struct units *chunk = map_entry(node, struct units, node);
		int from = 0;

		if (chunk->first + UNITS_CHUNK <= first)
			continue;
		if (first > chunk->first)
			from = (int)(first - chunk->first);
		if (chunk->dirty)
			chunk_give_back(vfs, chunk, from);
		for (int i = from; i < UNITS_CHUNK; i++)
			chunk->unit[i] = (struct store_unit){.pos = STORE_HOLE};
		chunk->dirty &= from ? ((uint64_t)1 << from) - 1 : 0;
		if (from == 0) { /* all holes, and the cut says so */
			map_del(&inode->units, &chunk->node);
			free(chunk);
		}
	}
	inode->row.rdev -= (uint64_t)gone;
	if (first == 0)
		inode->state |= INODE_NO_UNITS; /* or none that a flush will not delete */
	if (!(inode->state & INODE_IN_DB))
		return; /* no row to delete */
	if (!(inode->state & INODE_CUT) || first < inode->cut)
		inode->cut = first;
	inode_dirty(vfs, inode, INODE_CUT);
}
