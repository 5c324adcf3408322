/* runs.c - sets of units as sorted runs. */
#include "store/store_i.h"

void runs_clear(struct runs *runs)
{
	free(runs->item);
	*runs = (struct runs){0};
}

/* The first run that ends beyond `pos`. */
static size_t runs_find(const struct runs *runs, int64_t pos)
{
	size_t low = 0, high = runs->len;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (runs->item[middle].pos + runs->item[middle].count > pos)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void runs_delete(struct runs *runs, size_t index)
{
	runs->len--;
	memmove(&runs->item[index], &runs->item[index + 1],
		(runs->len - index) * sizeof(*runs->item));
}

bool runs_add(struct runs *runs, int64_t pos, int64_t count)
{
	size_t i = runs_find(runs, pos);
	bool joins_next, joins_last;

	if (i < runs->len && runs->item[i].pos < pos + count)
		return false;
	joins_next = i < runs->len && runs->item[i].pos == pos + count;
	joins_last = i > 0 && runs->item[i - 1].pos + runs->item[i - 1].count == pos;
	if (joins_last) {
		runs->item[i - 1].count += count;
		if (joins_next) {
			runs->item[i - 1].count += runs->item[i].count;
			runs_delete(runs, i);
		}
		return true;
	}
	if (joins_next) {
		runs->item[i].pos = pos;
		runs->item[i].count += count;
		return true;
	}
	if (runs->len == runs->cap) {
		runs->cap = runs->cap ? 2 * runs->cap : 16;
		runs->item = mem_realloc(runs->item, runs->cap * sizeof(*runs->item));
	}
	memmove(&runs->item[i + 1], &runs->item[i], (runs->len - i) * sizeof(*runs->item));
	runs->item[i] = (struct run){pos, count};
	runs->len++;
	return true;
}

void runs_remove(struct runs *runs, size_t index, int64_t count)
{
	runs->item[index].pos += count;
	runs->item[index].count -= count;
	if (runs->item[index].count == 0)
		runs_delete(runs, index);
}

int64_t runs_total(const struct runs *runs)
{
	int64_t total = 0;

	for (size_t i = 0; i < runs->len; i++)
		total += runs->item[i].count;
	return total;
}

void runs_move(struct runs *to, struct runs *from)
{
	if (to->len == 0) {
		struct runs empty = *to;

		*to = *from;
		*from = empty;
	} else {
		for (size_t i = 0; i < from->len; i++)
			(void)runs_add(to, from->item[i].pos, from->item[i].count);
		from->len = 0;
	}
}
