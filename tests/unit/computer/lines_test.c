/* lines_test.c - unified differences: as diff(1) prints them, and they lead from one to the other.
 */
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "computer/computer_i.h"
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void differences_look_like_those_of_diff(void **state)
{
	static const struct {
		const char *old, *new, *want;
		uint64_t added, removed;
	} rows[] = {
		{"", "", "", 0, 0},
		{"a\n", "a\n", "", 0, 0},
		{"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n", 2, 0},
		{"a\n", "", "@@ -1 +0,0 @@\n-a\n", 0, 1},
		{"a\n", "b\n", "@@ -1 +1 @@\n-a\n+b\n", 1, 1},
		{"a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", 1, 1},
		{"a\n", "a\nb", "@@ -1 +1,2 @@\n a\n+b\n\\ No newline at end of file\n", 1, 0},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nX\n6\n7\n8\n9\n",
		 "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8\n", 1, 1},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n",
		 "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -7,3 +8,4 @@\n 7\n 8\n 9\n+10\n", 2, 0},
		{"1\n2\n3\n4\n5\n6\n", "0\n1\n2\n3\n4\n5\n6\n7\n",
		 "@@ -1,6 +1,8 @@\n+0\n 1\n 2\n 3\n 4\n 5\n 6\n+7\n", 2, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_clear) struct buf patch = BUF_INIT(10000);
		struct lines_result result;

		assert_int_equal(
			lines_diff(span_str(rows[i].old), span_str(rows[i].new), &patch, &result),
			0);
		assert_string_equal(patch.data, rows[i].want);
		assert_int_equal(result.added, rows[i].added);
		assert_int_equal(result.removed, rows[i].removed);
	}
}

/* ---- a patch is applied as patch(1) does ---- */

static const char *line_end(const char *p)
{
	const char *end = strchr(p, '\n');

	return end ? end + 1 : p + strlen(p);
}

/* Where the hunk starts in the old text, counted from 0. */
static size_t hunk_start(const char *header)
{
	char number[16] = "";
	const char *p = header + 4;
	size_t digits = strspn(p, "0123456789");
	uint64_t line;

	memcpy(number, p, digits);
	assert_int_equal(parse_u64(number, &line), 0);
	return p[digits] == ',' && p[digits + 1] == '0' ? line : line - 1;
}

static void apply(const char *old, const char *patch, struct buf *out)
{
	size_t at = 0;

	while (*patch) {
		size_t start;

		assert_memory_equal(patch, "@@ -", 4);
		start = hunk_start(patch);
		for (; at < start; at++, old = line_end(old))
			assert_int_equal(buf_add(out, old, (size_t)(line_end(old) - old)), 0);
		for (patch = line_end(patch); *patch && *patch != '@'; patch = line_end(patch)) {
			size_t len = (size_t)(line_end(patch) - patch) - 1;

			if (*patch != '-')
				assert_int_equal(buf_add(out, patch + 1, len), 0);
			if (*patch == '+')
				continue;
			assert_memory_equal(patch + 1, old, len);
			old = line_end(old);
			at++;
		}
	}
	assert_int_equal(buf_add(out, old, strlen(old)), 0);
}

static uint64_t seed = 1;

static unsigned pick(unsigned below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % below;
}

static void random_text(struct buf *text, unsigned lines, unsigned kinds)
{
	for (unsigned i = 0; i < lines; i++)
		assert_int_equal(text_add(text, "line %u\n", pick(kinds)), 0);
}

static void every_patch_leads_from_one_text_to_the_other(void **state)
{
	(void)state;
	for (int round = 0; round < 400; round++) {
		CLEANUP(buf_clear) struct buf old = BUF_INIT(100000);
		CLEANUP(buf_clear) struct buf new = BUF_INIT(100000);
		CLEANUP(buf_clear) struct buf patch = BUF_INIT(1000000);
		CLEANUP(buf_clear) struct buf got = BUF_INIT(100000);
		struct lines_result result;

		random_text(&old, pick(40), 1 + pick(12));
		random_text(&new, pick(40), 1 + pick(12));
		assert_int_equal(lines_diff(span_of(old.data, old.len), span_of(new.data, new.len),
					    &patch, &result),
				 0);
		apply(old.data, patch.data, &got);
		assert_string_equal(got.data, new.data);
	}
}

static void texts_with_nothing_in_common_are_replaced(void **state)
{
	CLEANUP(buf_clear) struct buf old = BUF_INIT(1000000);
	CLEANUP(buf_clear) struct buf new = BUF_INIT(1000000);
	CLEANUP(buf_clear) struct buf patch = BUF_INIT(1000000);
	CLEANUP(buf_clear) struct buf got = BUF_INIT(1000000);
	struct lines_result result;

	(void)state;
	assert_int_equal(text_add(&old, "first\n"), 0);
	assert_int_equal(text_add(&new, "first\n"), 0);
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(text_add(&old, "old %d\n", i), 0);
		assert_int_equal(text_add(&new, "new %d\n", i), 0);
	}
	assert_int_equal(
		lines_diff(span_of(old.data, old.len), span_of(new.data, new.len), &patch, &result),
		0);
	assert_int_equal(result.added, 3000);
	assert_int_equal(result.removed, 3000);
	apply(old.data, patch.data, &got);
	assert_string_equal(got.data, new.data);
}

static void a_patch_too_long_is_an_error(void **state)
{
	CLEANUP(buf_clear) struct buf patch = BUF_INIT(20);
	struct lines_result result;

	(void)state;
	assert_int_equal(lines_diff(SPAN("a\n"), SPAN("bbbbbbbbbbbbbbbb\n"), &patch, &result),
			 -EFBIG);
}

/* ---- bytes in JSON ---- */

static void bytes_survive_json(void **state)
{
	static const struct span rows[] = {
		{"", 0}, {"abc", 3}, {"\xc3\xa4", 2}, {"\xff\xfe", 2}, {"a\0b", 3}, {"\n\"\\", 3},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_clear) struct buf bytes = BUF_INIT(100);
		json_t *value = json_bytes(rows[i]);

		assert_non_null(value);
		assert_int_equal(json_get_bytes(value, &bytes), 0);
		assert_true(span_eq(span_of(bytes.data, bytes.len), rows[i]));
		json_decref(value);
	}
}

static void operations_are_sorted(void **state)
{
	static const char *const names[] = {
#define OP(name, flags) #name,
#include "computer/ops.def"
#undef OP
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_true(i == 0 || strcmp(names[i - 1], names[i]) < 0);
		assert_non_null(call_find(names[i]));
	}
	assert_null(call_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(differences_look_like_those_of_diff),
		cmocka_unit_test(every_patch_leads_from_one_text_to_the_other),
		cmocka_unit_test(texts_with_nothing_in_common_are_replaced),
		cmocka_unit_test(a_patch_too_long_is_an_error),
		cmocka_unit_test(bytes_survive_json),
		cmocka_unit_test(operations_are_sorted),
	};

	return cmocka_run_group_tests_name("computer-lines", tests, NULL, NULL);
}
