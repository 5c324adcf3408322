/* lines.c - differences of texts as a unified diff.
 *
 * Myers, "An O(N*D) difference algorithm and its variations" (1986), figure 2, on lines made
 * numbers: equal lines have equal numbers. Two texts with more than COST_MAX differences count as
 * replaced from the first to the last of them, which is correct, only longer.
 */
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "computer/computer_i.h"

#include <errno.h>
#include <string.h>

#define CONTEXT 3
#define COST_MAX 2000

struct line {
	struct map_node node;
	struct span text;
	int32_t number;
};

struct side {
	struct line *lines;
	int32_t count;
	int32_t *numbers;
	bool *changed;
	bool no_newline; /* at the end of the last line */
};

struct compare {
	struct side a, b;
	int32_t start, end; /* so many lines are the same at both ends */
};

/* ---- lines to numbers ---- */

static void side_split(struct side *side, struct span text)
{
	size_t cap = 0;

	side->no_newline = text.len && text.data[text.len - 1] != '\n';
	while (text.len) {
		const char *end = memchr(text.data, '\n', text.len);
		size_t len = end ? (size_t)(end - text.data) + 1 : text.len;

		if ((size_t)side->count == cap) {
			cap = cap ? 2 * cap : 64;
			side->lines = mem_realloc(side->lines, cap * sizeof(*side->lines));
		}
		side->lines[side->count++] = (struct line){.text = span_of(text.data, len)};
		text = span_of(text.data + len, text.len - len);
	}
	side->numbers = mem_alloc0((size_t)side->count * sizeof(*side->numbers));
	side->changed = mem_alloc0((size_t)side->count * sizeof(*side->changed));
}

static void side_number(struct side *side, struct map *known, int32_t *next)
{
	for (int32_t i = 0; i < side->count; i++) {
		struct line *line = &side->lines[i];
		uint64_t hash = map_hash_bytes(line->text.data, line->text.len, 1);
		const struct line *same = NULL;

		for (struct map_node *n = map_first(known, hash); n && !same; n = map_next(n)) {
			const struct line *other = map_entry(n, struct line, node);

			if (span_eq(other->text, line->text))
				same = other;
		}
		line->number = same ? same->number : (*next)++;
		if (!same)
			map_add(known, &line->node, hash);
		side->numbers[i] = line->number;
	}
}

static void side_clear(struct side *side)
{
	free(side->lines);
	free(side->numbers);
	free(side->changed);
}

/* ---- the comparison ---- */

#define NOWHERE (INT32_MIN / 2) /* a diagonal that left the texts */

/* How far one gets on diagonal `k` with `cost` differences. */
static int32_t furthest(const struct compare *c, const int32_t *v, int32_t cost, int32_t k)
{
	bool down = k == -cost || (k != cost && v[k - 1] < v[k + 1]);
	int32_t i = down ? v[k + 1] : v[k - 1] + 1, j = i - k;

	if (i < 0 || j < 0 || i > c->a.count - c->end || j > c->b.count - c->end)
		return NOWHERE;
	while (i < c->a.count - c->end && j < c->b.count - c->end &&
	       c->a.numbers[i] == c->b.numbers[j]) {
		i++;
		j++;
	}
	return i;
}

/* Go back from the end and mark what each difference was. */
static void mark_path(struct compare *c, int32_t **trace, int32_t cost)
{
	int32_t i = c->a.count - c->end, j = c->b.count - c->end;

	for (; cost > 0; cost--) {
		const int32_t *v = trace[cost - 1] + (cost - 1);
		int32_t k = i - j;
		bool down = k == -cost || (k != cost && v[k - 1] < v[k + 1]);

		k += down ? 1 : -1;
		i = v[k];
		j = i - k;
		if (down)
			c->b.changed[j] = true;
		else
			c->a.changed[i] = true;
	}
}

static void mark_all(struct compare *c)
{
	for (int32_t i = c->start; i < c->a.count - c->end; i++)
		c->a.changed[i] = true;
	for (int32_t j = c->start; j < c->b.count - c->end; j++)
		c->b.changed[j] = true;
}

static void compare(struct compare *c)
{
	CLEANUP(mem_free) int32_t *room = mem_alloc((2 * COST_MAX + 3) * sizeof(*room));
	CLEANUP(mem_free) int32_t **trace = mem_alloc0((COST_MAX + 1) * sizeof(*trace));
	int32_t *v = room + COST_MAX + 1, cost = 0;
	bool met = false;

	v[1] = c->start;
	for (; !met && cost <= COST_MAX; cost++) {
		for (int32_t k = -cost; k <= cost && !met; k += 2) {
			v[k] = furthest(c, v, cost, k);
			met = v[k] == c->a.count - c->end && v[k] - k == c->b.count - c->end;
		}
		v[-cost - 1] = v[cost + 1] = NOWHERE;
		trace[cost] = mem_dup(v - cost, (size_t)(2 * cost + 1) * sizeof(*v));
	}
	if (met)
		mark_path(c, trace, cost - 1);
	else
		mark_all(c);
	for (int32_t d = 0; d <= COST_MAX; d++)
		free(trace[d]);
}

/* What is the same at both ends needs no search. */
static void trim(struct compare *c)
{
	int32_t least = c->a.count < c->b.count ? c->a.count : c->b.count;

	while (c->start < least && c->a.numbers[c->start] == c->b.numbers[c->start])
		c->start++;
	while (c->end < least - c->start &&
	       c->a.numbers[c->a.count - 1 - c->end] == c->b.numbers[c->b.count - 1 - c->end])
		c->end++;
}

/* ---- the patch ---- */

static int put_line(struct buf *patch, const struct side *side, int32_t i, char sign)
{
	struct span text = side->lines[i].text;
	int r = buf_add(patch, &sign, 1);

	if (r == 0)
		r = buf_add(patch, text.data, text.len);
	if (r == 0 && i == side->count - 1 && side->no_newline)
		r = text_add(patch, "\n\\ No newline at end of file\n");
	return r;
}

/* "start,count" as diff(1) has it: a count of 1 is left out, before an empty range is the line. */
static int put_range(struct buf *patch, int32_t start, int32_t count)
{
	if (count == 1)
		return text_add(patch, "%d", start + 1);
	return text_add(patch, "%d,%d", count ? start + 1 : start, count);
}

struct hunk {
	int32_t a0, a1, b0, b1;
};

static int put_hunk(struct buf *patch, const struct compare *c, const struct hunk *h)
{
	int32_t i = h->a0, j = h->b0;
	int r = text_add(patch, "@@ -");

	if (r == 0)
		r = put_range(patch, h->a0, h->a1 - h->a0);
	if (r == 0)
		r = text_add(patch, " +");
	if (r == 0)
		r = put_range(patch, h->b0, h->b1 - h->b0);
	if (r == 0)
		r = text_add(patch, " @@\n");
	while (r == 0 && (i < h->a1 || j < h->b1)) {
		if (i < h->a1 && c->a.changed[i]) {
			r = put_line(patch, &c->a, i++, '-');
		} else if (j < h->b1 && c->b.changed[j]) {
			r = put_line(patch, &c->b, j++, '+');
		} else {
			r = put_line(patch, &c->a, i++, ' ');
			j++;
		}
	}
	return r;
}

/* The next change at or after (i, j), with everything that is too near to be told apart. */
static bool next_hunk(const struct compare *c, int32_t i, int32_t j, struct hunk *ret_hunk)
{
	struct hunk h;
	int32_t same = 0;

	while (i < c->a.count && j < c->b.count && !c->a.changed[i] && !c->b.changed[j]) {
		i++;
		j++;
	}
	if (i == c->a.count && j == c->b.count)
		return false;
	h = (struct hunk){i, i, j, j};
	while ((i < c->a.count || j < c->b.count) && same <= 2 * CONTEXT) {
		bool left = i < c->a.count && c->a.changed[i];
		bool right = j < c->b.count && c->b.changed[j];

		i += left || !right;
		j += right || !left;
		if (left && right) { /* one after the other: the lines removed come first */
			j--;
		}
		if (left || right) {
			same = 0;
			h.a1 = i;
			h.b1 = j;
		} else {
			same++;
		}
	}
	*ret_hunk = h;
	return true;
}

static int put_hunks(struct buf *patch, const struct compare *c)
{
	int32_t i = 0, j = 0;
	struct hunk h;
	int r = 0;

	while (r == 0 && next_hunk(c, i, j, &h)) {
		int32_t before = h.a0 - i < CONTEXT ? h.a0 - i : CONTEXT;
		int32_t after = c->a.count - h.a1 < CONTEXT ? c->a.count - h.a1 : CONTEXT;

		i = h.a1 + after;
		j = h.b1 + after;
		h = (struct hunk){h.a0 - before, i, h.b0 - before, j};
		r = put_hunk(patch, c, &h);
	}
	return r;
}

static void compare_clear(struct compare *c)
{
	side_clear(&c->a);
	side_clear(&c->b);
}

int lines_diff(struct span old, struct span new, struct buf *patch, struct lines_result *ret_result)
{
	CLEANUP(compare_clear) struct compare c = {0};
	struct lines_result result = {0};
	struct map known = MAP_INIT;
	int32_t next = 0;
	int r = 0;

	side_split(&c.a, old);
	side_split(&c.b, new);
	side_number(&c.a, &known, &next);
	side_number(&c.b, &known, &next);
	map_clear(&known);
	trim(&c);
	compare(&c);
	for (int32_t i = 0; i < c.a.count; i++)
		result.removed += c.a.changed[i];
	for (int32_t j = 0; j < c.b.count; j++)
		result.added += c.b.changed[j];
	if (patch)
		r = put_hunks(patch, &c);
	if (r == 0)
		*ret_result = result;
	return r;
}
