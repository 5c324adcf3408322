/* refs.c - how many references the kernel holds to each inode. */
#include "fuse/refs.h"
#include "base/map.h"
#include "base/mem.h"

#define REFS_MIN 64

void refs_init(struct refs *refs)
{
	*refs = (struct refs){0};
	pthread_mutex_init(&refs->lock, NULL);
}

void refs_clear(struct refs *refs)
{
	free(refs->slots);
	pthread_mutex_destroy(&refs->lock);
	*refs = (struct refs){0};
}

static size_t home_of(const struct refs *refs, int64_t ino)
{
	return (size_t)map_hash_u64((uint64_t)ino) & refs->mask;
}

/* The slot of `ino`, or the free one where it belongs. There is always a free one. */
static struct ref *slot_of(const struct refs *refs, int64_t ino)
{
	size_t at = home_of(refs, ino);

	while (refs->slots[at].ino != 0 && refs->slots[at].ino != ino)
		at = (at + 1) & refs->mask;
	return &refs->slots[at];
}

static void resize(struct refs *refs, size_t slots)
{
	struct ref *old = refs->slots;
	size_t old_slots = old ? refs->mask + 1 : 0;

	refs->slots = mem_alloc0(slots * sizeof(*refs->slots));
	refs->mask = slots - 1;
	for (size_t i = 0; i < old_slots; i++)
		if (old[i].ino != 0)
			*slot_of(refs, old[i].ino) = old[i];
	free(old);
}

/* Empty a slot and move up those behind it that it had pushed away. */
static void remove_slot(struct refs *refs, struct ref *slot)
{
	size_t hole = (size_t)(slot - refs->slots);
	size_t at = hole;

	for (;;) {
		size_t home;

		at = (at + 1) & refs->mask;
		if (refs->slots[at].ino == 0)
			break;
		home = home_of(refs, refs->slots[at].ino);
		if (((at - home) & refs->mask) < ((at - hole) & refs->mask))
			continue;
		refs->slots[hole] = refs->slots[at];
		hole = at;
	}
	refs->slots[hole] = (struct ref){0};
	refs->used--;
}

void refs_add(struct refs *refs, int64_t ino)
{
	struct ref *slot;

	pthread_mutex_lock(&refs->lock);
	if (!refs->slots)
		resize(refs, REFS_MIN);
	else if (refs->used * 3 > refs->mask * 2)
		resize(refs, (refs->mask + 1) * 2);
	slot = slot_of(refs, ino);
	if (slot->ino == 0)
		refs->used++;
	slot->ino = ino;
	slot->count++;
	pthread_mutex_unlock(&refs->lock);
}

bool refs_add_ghost(struct refs *refs, int64_t ino)
{
	struct ref *slot = NULL;

	pthread_mutex_lock(&refs->lock);
	if (refs->slots && ino != 0)
		slot = slot_of(refs, ino);
	if (slot && slot->ino != ino)
		slot = NULL;
	if (slot)
		slot->ghosts++;
	pthread_mutex_unlock(&refs->lock);
	return slot != NULL;
}

uint64_t refs_sub(struct refs *refs, int64_t ino, uint64_t count)
{
	struct ref *slot = NULL;
	uint64_t taken = 0;

	if (ino == 0)
		return 0;
	pthread_mutex_lock(&refs->lock);
	if (refs->slots)
		slot = slot_of(refs, ino);
	if (slot && slot->ino == ino) {
		uint64_t ghosts = count < slot->ghosts ? count : slot->ghosts;

		slot->ghosts -= ghosts;
		count -= ghosts;
		taken = count < slot->count ? count : slot->count;
		slot->count -= taken;
		if (slot->count == 0 && slot->ghosts == 0)
			remove_slot(refs, slot);
		if (refs->mask + 1 > REFS_MIN && refs->used * 8 < refs->mask)
			resize(refs, (refs->mask + 1) / 2);
	}
	pthread_mutex_unlock(&refs->lock);
	return taken;
}

bool refs_has(struct refs *refs, int64_t ino)
{
	bool has = false;

	if (ino == 0)
		return false;
	pthread_mutex_lock(&refs->lock);
	if (refs->slots)
		has = slot_of(refs, ino)->ino == ino;
	pthread_mutex_unlock(&refs->lock);
	return has;
}

int64_t *refs_list(struct refs *refs, size_t *ret_count)
{
	int64_t *list;
	size_t n = 0;

	pthread_mutex_lock(&refs->lock);
	list = mem_alloc(refs->used * sizeof(*list));
	for (size_t i = 0; refs->slots && i <= refs->mask; i++)
		if (refs->slots[i].ino != 0)
			list[n++] = refs->slots[i].ino;
	pthread_mutex_unlock(&refs->lock);
	*ret_count = n;
	return list;
}

void refs_drain(struct refs *refs, void (*fn)(void *arg, int64_t ino, uint64_t count), void *arg)
{
	struct ref *slots;
	size_t mask;

	pthread_mutex_lock(&refs->lock);
	slots = refs->slots;
	mask = refs->mask;
	refs->slots = NULL;
	refs->mask = refs->used = 0;
	pthread_mutex_unlock(&refs->lock);

	for (size_t i = 0; slots && i <= mask; i++)
		if (slots[i].ino != 0 && slots[i].count != 0)
			fn(arg, slots[i].ino, slots[i].count);
	free(slots);
}
