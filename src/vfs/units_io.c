/* units_io.c - bytes of large files: reading, writing, zeroing, copy-on-write. */
#include "base/mem.h"
#include "vfs/units_i.h"

#include <errno.h>

/* Units of a call that fit on the stack: those of 1 MiB wherever it starts. */
#define FEW_UNITS ((1 << 20) / STORE_UNIT + 1)

/* One unit of a write: where it was, and where it will be. */
struct target {
	struct store_unit old;
	int64_t pos;
	bool fresh; /* just allocated: no row names it */
};

struct plan {
	struct vfs *vfs;
	int64_t first; /* unit */
	int64_t size;  /* of the file: beyond it there is nothing to keep */
	size_t count, fresh;
	struct target *targets;
	struct target few[FEW_UNITS];
};

static void plan_clear(struct plan *plan)
{
	if (plan->targets != plan->few)
		free(plan->targets);
}

/* ---- the extent file ---- */

void units_free(struct vfs *vfs, const int64_t *pos, size_t count)
{
	for (size_t i = 0, run = 0; i < count; i += run) {
		for (run = 1; i + run < count && pos[i + run] == pos[i] + (int64_t)run;)
			run++;
		store_data_free(vfs->store, pos[i], run);
	}
}

int units_alloc(struct vfs *vfs, size_t count, int64_t *ret_pos)
{
	size_t done = 0;

	while (done < count) {
		int64_t pos;
		ssize_t n = store_data_alloc(vfs->store, count - done, &pos);

		if (n < 0) {
			units_free(vfs, ret_pos, done);
			return (int)n;
		}
		for (ssize_t i = 0; i < n; i++)
			ret_pos[done++] = pos + i;
	}
	return 0;
}

int units_store(struct vfs *vfs, struct span bytes, int64_t *ret_pos)
{
	size_t count = (size_t)units_of((int64_t)bytes.len);
	int r;

	r = units_alloc(vfs, count, ret_pos);
	if (r < 0)
		return r;
	for (size_t i = 0, run = 0; i < count && r == 0; i += run) {
		size_t offset = i * STORE_UNIT, len;

		for (run = 1; i + run < count && ret_pos[i + run] == ret_pos[i] + (int64_t)run;)
			run++;
		len = run * STORE_UNIT < bytes.len - offset ? run * STORE_UNIT : bytes.len - offset;
		r = store_data_write(vfs->store, ret_pos[i], 0, bytes.data + offset, len);
	}
	if (r < 0)
		units_free(vfs, ret_pos, count);
	return r;
}

/* ---- reading ---- */

static int read_runs(struct vfs *vfs, const struct store_unit *units, int64_t start,
		     char *ret_bytes, size_t len)
{
	size_t done = 0, i = 0;
	int r = 0;

	while (done < len && r == 0) {
		size_t run = 1, room = (size_t)(STORE_UNIT - start);
		bool hole = units[i].pos == STORE_HOLE;

		for (; room < len - done; room += STORE_UNIT, run++) {
			const struct store_unit *next = &units[i + run];

			if (hole ? next->pos != STORE_HOLE
				 : next->pos != units[i].pos + (int64_t)run ||
					    next->layer != units[i].layer)
				break;
		}
		if (room > len - done)
			room = len - done;
		if (hole)
			memset(ret_bytes + done, 0, room);
		else
			r = store_data_read(vfs->store, units[i], start, ret_bytes + done, room);
		done += room;
		i += run;
		start = 0;
	}
	return r;
}

int units_read(struct vfs *vfs, struct inode *inode, int64_t offset, char *ret_bytes, size_t len)
{
	int64_t first = offset / STORE_UNIT;
	size_t count = (size_t)(units_of(offset + (int64_t)len) - first);
	struct store_unit few[FEW_UNITS], *units = few;
	int r;

	units_fresh(vfs, inode);
	if (count > FEW_UNITS)
		units = mem_alloc(count * sizeof(*units));
	r = units_get(vfs, inode, first, count, units);
	if (r == 0) {
		/* Nobody may change what `units` says for as long as it is pinned. */
		store_data_pin(vfs->store);
		vfs_unlock(vfs);
		r = read_runs(vfs, units, offset % STORE_UNIT, ret_bytes, len);
		store_data_unpin(vfs->store);
		vfs_lock(vfs);
	}
	if (units != few)
		free(units);
	return r;
}

/* ---- writing ---- */

int units_holes(struct vfs *vfs, struct inode *inode, int64_t offset, size_t len,
		int64_t *ret_holes)
{
	int64_t first = offset / STORE_UNIT, last = units_of(offset + (int64_t)len) - 1, count;
	int r;

	if (last - first < UNITS_CHUNK) {
		struct store_unit units[UNITS_CHUNK];

		r = units_get(vfs, inode, first, (size_t)(last - first + 1), units);
		count = 0;
		for (int64_t i = 0; i <= last - first && r == 0; i++)
			count += units[i].pos != STORE_HOLE;
	} else {
		r = units_count(vfs, inode, first, last, &count);
	}
	if (r == 0)
		*ret_holes = last - first + 1 - count;
	return r;
}

/* Have the chunks of units first .. last in memory, for good. */
static int load_chunks(struct vfs *vfs, struct inode *inode, int64_t first, int64_t last)
{
	struct units *chunk;
	int r = 0;

	for (int64_t idx = first - first % UNITS_CHUNK; idx <= last && r == 0; idx += UNITS_CHUNK)
		r = units_chunk(vfs, inode, idx, true, &chunk);
	return r;
}

static int plan_init(struct plan *plan, struct vfs *vfs, struct inode *inode, int64_t first,
		     size_t count)
{
	struct store_unit unit = {.pos = STORE_HOLE};
	int r;

	plan->vfs = vfs;
	plan->first = first;
	plan->size = inode->row.size;
	plan->count = count;
	plan->fresh = 0;
	plan->targets = plan->few;
	plan->targets[0] = (struct target){.old = unit};
	if (count > FEW_UNITS)
		plan->targets = mem_alloc0(count * sizeof(*plan->targets));
	r = load_chunks(vfs, inode, first, first + (int64_t)count - 1);
	for (size_t i = 0; i < count && r == 0; i++) {
		bool ours;

		r = units_get(vfs, inode, first + (int64_t)i, 1, &unit);
		ours = unit.pos != STORE_HOLE && unit.layer == 0;
		plan->targets[i] = (struct target){unit, ours ? unit.pos : 0, !ours};
		plan->fresh += !ours;
	}
	return r;
}

/* Without `lock`. */
static int plan_alloc(struct plan *plan)
{
	CLEANUP(mem_free) int64_t *pos = mem_alloc(plan->fresh * sizeof(*pos));
	size_t used = 0;
	int r;

	r = units_alloc(plan->vfs, plan->fresh, pos);
	for (size_t i = 0; i < plan->count && r == 0; i++)
		if (plan->targets[i].fresh)
			plan->targets[i].pos = pos[used++];
	return r;
}

static void plan_undo(struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		if (plan->targets[i].fresh)
			store_data_free(plan->vfs->store, plan->targets[i].pos, 1);
}

/* Bring bytes from .. to of a unit into its new place. Without `lock`. */
static int copy_bytes(struct vfs *vfs, const struct target *target, int64_t from, int64_t to)
{
	CLEANUP(mem_free) char *bytes = NULL;
	size_t len;
	int r;

	if (!target->fresh || target->old.pos == STORE_HOLE || from >= to)
		return 0;
	len = (size_t)(to - from);
	bytes = mem_alloc(len);
	r = store_data_read(vfs->store, target->old, from, bytes, len);
	return r < 0 ? r : store_data_write(vfs->store, target->pos, from, bytes, len);
}

static int copy_part(struct plan *plan, size_t index, int64_t from, int64_t to)
{
	int64_t end = plan->size - (plan->first + (int64_t)index) * STORE_UNIT;

	return copy_bytes(plan->vfs, &plan->targets[index], from, to < end ? to : end);
}

/* Without `lock`. */
static int plan_write(struct plan *plan, int64_t offset, struct span bytes)
{
	const struct target *targets = plan->targets;
	int64_t start = offset - plan->first * STORE_UNIT;
	int64_t end = start + (int64_t)bytes.len;
	size_t last = plan->count - 1, i = 0, done = 0;
	int r;

	/* What of a base's units stays as it is: before the first byte and behind the last. */
	r = copy_part(plan, 0, 0, start);
	if (r == 0)
		r = copy_part(plan, last, end - (int64_t)last * STORE_UNIT, STORE_UNIT);
	while (done < bytes.len && r == 0) {
		size_t run = 1, room = (size_t)(STORE_UNIT - start);

		for (; room < bytes.len - done; room += STORE_UNIT, run++)
			if (targets[i + run].pos != targets[i].pos + (int64_t)run)
				break;
		if (room > bytes.len - done)
			room = bytes.len - done;
		r = store_data_write(plan->vfs->store, targets[i].pos, start, bytes.data + done,
				     room);
		done += room;
		i += run;
		start = 0;
	}
	return r;
}

/* Name the new units. */
static void plan_publish(const struct plan *plan, struct inode *inode)
{
	for (size_t i = 0; i < plan->count; i++)
		if (plan->targets[i].fresh)
			units_set(plan->vfs, inode, plan->first + (int64_t)i, plan->targets[i].pos);
	if (plan->fresh)
		inode_dirty(plan->vfs, inode, INODE_DIRTY | INODE_SIZE | INODE_UNITS);
}

static size_t plan_holes(const struct plan *plan)
{
	size_t holes = 0;

	for (size_t i = 0; i < plan->count; i++)
		holes += plan->targets[i].old.pos == STORE_HOLE;
	return holes;
}

int units_write(struct vfs *vfs, struct inode *inode, int64_t offset, struct span bytes)
{
	CLEANUP(plan_clear) struct plan plan;
	int64_t first = offset / STORE_UNIT;
	size_t count = (size_t)(units_of(offset + (int64_t)bytes.len) - first);
	int r;

	r = plan_init(&plan, vfs, inode, first, count);
	if (r < 0) {
		int64_t holes = 0;

		/* Nothing was counted if counting fails as well: the disk is broken. */
		(void)!units_holes(vfs, inode, offset, bytes.len, &holes);
		quota_give_bytes(vfs, (uint64_t)holes * STORE_UNIT);
		return r;
	}
	vfs_unlock(vfs);
	r = plan.fresh ? plan_alloc(&plan) : 0;
	if (r == 0) {
		r = plan_write(&plan, offset, bytes);
		if (r < 0)
			plan_undo(&plan);
	}
	vfs_lock(vfs);
	if (r < 0) {
		quota_give_bytes(vfs, plan_holes(&plan) * STORE_UNIT);
		return r;
	}
	plan_publish(&plan, inode);
	vfs->dirty_bytes += bytes.len;
	vfs_changed(vfs);
	return 0;
}

int units_zero(struct vfs *vfs, struct inode *inode, int64_t offset, int64_t len)
{
	int64_t start = offset % STORE_UNIT;
	CLEANUP(plan_clear) struct plan plan;
	int r;

	r = plan_init(&plan, vfs, inode, offset / STORE_UNIT, 1);
	if (r < 0 || plan.targets[0].old.pos == STORE_HOLE)
		return r;
	vfs_unlock(vfs);
	if (plan.fresh) {
		r = plan_alloc(&plan);
		if (r == 0) {
			r = copy_part(&plan, 0, 0, start);
			if (r == 0)
				r = copy_part(&plan, 0, start + len, STORE_UNIT);
			if (r < 0)
				plan_undo(&plan);
		}
	} else {
		r = store_data_zero(vfs->store, plan.targets[0].pos, start, len);
	}
	vfs_lock(vfs);
	if (r == 0) {
		plan_publish(&plan, inode);
		vfs_changed(vfs);
	}
	return r;
}

int units_copy_head(struct vfs *vfs, struct inode *inode, int64_t idx, int64_t keep,
		    int64_t *ret_pos)
{
	struct target target = {.fresh = true};
	int r;

	r = load_chunks(vfs, inode, idx, idx);
	if (r == 0)
		r = units_get(vfs, inode, idx, 1, &target.old);
	if (r < 0)
		return r;
	vfs_unlock(vfs);
	r = units_alloc(vfs, 1, &target.pos);
	if (r == 0) {
		r = copy_bytes(vfs, &target, 0, keep);
		if (r < 0)
			units_free(vfs, &target.pos, 1);
	}
	vfs_lock(vfs);
	if (r == 0)
		*ret_pos = target.pos;
	return r;
}

/* The holes of one chunk. */
static int fill_chunk(struct vfs *vfs, struct inode *inode, int64_t first, int64_t last)
{
	int64_t holes[UNITS_CHUNK], pos[UNITS_CHUNK];
	struct units *chunk;
	size_t count = 0;
	int r;

	r = units_chunk(vfs, inode, first, true, &chunk);
	if (r < 0)
		return r;
	for (int64_t idx = first; idx <= last; idx++)
		if (chunk->unit[idx % UNITS_CHUNK].pos == STORE_HOLE)
			holes[count++] = idx;
	if (count == 0)
		return 0;
	vfs_unlock(vfs);
	r = units_alloc(vfs, count, pos);
	vfs_lock(vfs);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		units_set(vfs, inode, holes[i], pos[i]);
	inode_dirty(vfs, inode, INODE_DIRTY | INODE_SIZE | INODE_UNITS);
	return 0;
}

int units_fill(struct vfs *vfs, struct inode *inode, int64_t first, int64_t last)
{
	int64_t count = 0;
	int r = 0;

	for (int64_t idx = first, end; idx <= last && r == 0; idx = end + 1) {
		end = idx - idx % UNITS_CHUNK + UNITS_CHUNK - 1;
		if (end > last)
			end = last;
		r = fill_chunk(vfs, inode, idx, end);
	}
	if (r < 0) { /* what stayed a hole is paid back */
		(void)!units_count(vfs, inode, first, last, &count);
		quota_give_bytes(vfs, (uint64_t)(last - first + 1 - count) * STORE_UNIT);
	}
	return r;
}
