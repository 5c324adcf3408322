/* base_test.c - buffers, maps, lists, numbers from text, text for people, time, errors, files. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- buf ---- */

static void a_buf_is_always_a_string(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(10);

	(void)state;
	assert_string_equal(buf.data, "");
	assert_int_equal(buf_add(&buf, "", 0), 0);
	assert_int_equal(buf.cap, 0);
	assert_int_equal(buf_add(&buf, "a\0b", 3), 0);
	assert_int_equal(buf.len, 3);
	assert_int_equal(buf.data[3], '\0');
	buf_clear(&buf);
	assert_string_equal(buf.data, "");
	assert_int_equal(buf.max, 10);
}

static void a_buf_past_its_limit_is_unchanged(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(4);

	(void)state;
	assert_int_equal(buf_add(&buf, "abc", 3), 0);
	assert_int_equal(buf_add(&buf, "de", 2), -EFBIG);
	assert_int_equal(buf_add(&buf, "de", SIZE_MAX), -EFBIG);
	assert_string_equal(buf.data, "abc");
	assert_int_equal(buf_add(&buf, "d", 1), 0);
	assert_string_equal(buf.data, "abcd");
	assert_int_equal(buf_add(&buf, "", 0), 0);
}

static void a_taken_buf_starts_anew(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(100);
	CLEANUP(mem_free) char *first = NULL;
	CLEANUP(mem_free) char *second = NULL;
	size_t len;

	(void)state;
	assert_int_equal(buf_add(&buf, "abc", 3), 0);
	first = buf_take(&buf, &len);
	assert_string_equal(first, "abc");
	assert_int_equal(len, 3);
	assert_int_equal(buf.len, 0);
	second = buf_take(&buf, NULL);
	assert_string_equal(second, "");
	assert_int_equal(buf_add(&buf, "d", 1), 0);
	assert_string_equal(buf.data, "d");
}

static void a_buf_grows_to_any_size(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(1 << 20);

	(void)state;
	for (int i = 0; i < 3000; i++) {
		char c = (char)i;

		assert_int_equal(buf_add(&buf, &c, 1), 0);
	}
	assert_int_equal(buf.len, 3000);
	for (int i = 0; i < 3000; i++)
		assert_int_equal(buf.data[i], (char)i);
}

/* ---- map ---- */

struct thing {
	struct map_node node;
	struct list link;
	int key;
};

static struct thing *find(const struct map *map, int key, uint64_t hash)
{
	for (struct map_node *n = map_first(map, hash); n; n = map_next(n)) {
		struct thing *thing = map_entry(n, struct thing, node);

		if (thing->key == key)
			return thing;
	}
	return NULL;
}

static void a_map_finds_what_it_holds(void **state)
{
	static struct thing things[1000];
	struct map map = MAP_INIT;
	int seen = 0;

	(void)state;
	assert_null(map_first(&map, 1));
	map_for_each (pos, &map)
		seen++;
	assert_int_equal(seen, 0);
	for (int i = 0; i < 1000; i++) {
		things[i].key = i;
		map_add(&map, &things[i].node, map_hash_u64((uint64_t)i));
	}
	assert_int_equal(map.count, 1000);
	for (int i = 0; i < 1000; i++)
		assert_ptr_equal(find(&map, i, map_hash_u64((uint64_t)i)), &things[i]);
	assert_null(find(&map, 1000, map_hash_u64(1000)));
	for (int i = 0; i < 1000; i += 2)
		map_del(&map, &things[i].node);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(find(&map, i, map_hash_u64((uint64_t)i)) != NULL, i % 2);
	map_for_each (pos, &map) {
		seen++;
		map_del(&map, pos);
	}
	assert_int_equal(seen, 500);
	assert_int_equal(map.count, 0);
	map_clear(&map);
	assert_null(map.buckets);
}

static void a_map_tells_equal_hashes_apart(void **state)
{
	static struct thing things[20];
	struct map map = MAP_INIT;

	(void)state;
	for (int i = 0; i < 20; i++) {
		things[i].key = i;
		/* Ten with one hash, ten in the same bucket with others. */
		map_add(&map, &things[i].node, i < 10 ? 7 : 7 + ((uint64_t)i << 32));
	}
	for (int i = 0; i < 20; i++)
		assert_ptr_equal(find(&map, i, i < 10 ? 7 : 7 + ((uint64_t)i << 32)), &things[i]);
	map_del(&map, &things[5].node);
	assert_null(find(&map, 5, 7));
	assert_non_null(find(&map, 6, 7));
	map_clear(&map);
}

static void hashes_depend_on_every_byte_and_the_seed(void **state)
{
	char bytes[20] = "0123456789abcdefghi";
	uint64_t hash = map_hash_bytes(bytes, 19, 1);

	(void)state;
	assert_true(hash == map_hash_bytes(bytes, 19, 1));
	assert_true(hash != map_hash_bytes(bytes, 19, 2));
	assert_true(hash != map_hash_bytes(bytes, 18, 1));
	for (int i = 0; i < 19; i++) {
		bytes[i] ^= 1;
		assert_true(hash != map_hash_bytes(bytes, 19, 1));
		bytes[i] ^= 1;
	}
	assert_true(map_hash_bytes("", 0, 1) != map_hash_bytes("\0", 1, 1));
}

/* ---- list ---- */

static int sum(const struct list *head)
{
	int digits = 0;

	list_for_each (pos, head)
		digits = digits * 10 + list_entry(pos, struct thing, link)->key;
	return digits;
}

static void a_list_keeps_its_order(void **state)
{
	struct thing things[5];
	struct list a, b;

	(void)state;
	list_init(&a);
	list_init(&b);
	assert_true(list_empty(&a));
	for (int i = 0; i < 5; i++) {
		things[i].key = i + 1;
		list_add(i < 3 ? &a : &b, &things[i].link);
	}
	assert_int_equal(sum(&a), 123);
	list_del(&things[1].link);
	list_del(&things[1].link);
	assert_int_equal(sum(&a), 13);
	list_splice(&a, &b);
	assert_int_equal(sum(&a), 1345);
	assert_true(list_empty(&b));
	list_splice(&a, &b);
	assert_int_equal(sum(&a), 1345);
	list_for_each_safe(pos, &a) list_del(pos);
	assert_true(list_empty(&a));
}

/* ---- parse ---- */

static void numbers_are_read_whole_or_not_at_all(void **state)
{
	static const struct {
		const char *text;
		int want_unsigned, want_signed;
		uint64_t value;
	} rows[] = {
		{"0", 0, 0, 0},
		{"42", 0, 0, 42},
		{"007", 0, 0, 7},
		{"9223372036854775807", 0, 0, INT64_MAX},
		{"9223372036854775808", 0, -ERANGE, (uint64_t)INT64_MAX + 1},
		{"18446744073709551615", 0, -ERANGE, UINT64_MAX},
		{"18446744073709551616", -ERANGE, -ERANGE, 0},
		{"99999999999999999999999", -ERANGE, -ERANGE, 0},
		{"", -EINVAL, -EINVAL, 0},
		{" 1", -EINVAL, -EINVAL, 0},
		{"1 ", -EINVAL, -EINVAL, 0},
		{"+1", -EINVAL, -EINVAL, 0},
		{"--1", -EINVAL, -EINVAL, 0},
		{"-", -EINVAL, -EINVAL, 0},
		{"0x10", -EINVAL, -EINVAL, 0},
		{"1e3", -EINVAL, -EINVAL, 0},
		{"1.5", -EINVAL, -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t u = 4711;
		int64_t s = 4711;

		assert_int_equal(parse_u64(rows[i].text, &u), rows[i].want_unsigned);
		assert_true(u == (rows[i].want_unsigned ? 4711 : rows[i].value));
		assert_int_equal(parse_i64(rows[i].text, &s), rows[i].want_signed);
		assert_true((uint64_t)s == (rows[i].want_signed ? 4711 : rows[i].value));
	}
}

static void negative_numbers_have_their_own_end(void **state)
{
	uint64_t u;
	int64_t s = 0;

	(void)state;
	assert_int_equal(parse_u64("-1", &u), -EINVAL);
	assert_int_equal(parse_i64("-1", &s), 0);
	assert_true(s == -1);
	assert_int_equal(parse_i64("-9223372036854775808", &s), 0);
	assert_true(s == INT64_MIN);
	assert_int_equal(parse_i64("-9223372036854775809", &s), -ERANGE);
	assert_true(s == INT64_MIN);
}

static void modes_are_octal_and_bounded(void **state)
{
	uint32_t mode = 1;

	(void)state;
	assert_int_equal(parse_mode("755", 07777, &mode), 0);
	assert_int_equal(mode, 0755);
	assert_int_equal(parse_mode("7777", 07777, &mode), 0);
	assert_int_equal(parse_mode("10000", 07777, &mode), -ERANGE);
	assert_int_equal(parse_mode("8", 07777, &mode), -EINVAL);
	assert_int_equal(parse_mode("7a", 07777, &mode), -EINVAL);
	assert_int_equal(parse_mode("", 07777, &mode), -EINVAL);
	assert_int_equal(parse_mode("7777777777777777777777777", 07777, &mode), -ERANGE);
	assert_int_equal(mode, 07777);
}

static void sizes_and_durations_know_their_units(void **state)
{
	static const struct {
		const char *text;
		int want;
		uint64_t value;
	} sizes[] =
		{
			{"0", 0, 0},
			{"512", 0, 512},
			{"512B", 0, 512},
			{"64K", 0, 65536},
			{"64KiB", 0, 65536},
			{"16M", 0, 16777216},
			{"2GiB", 0, 2147483648},
			{"1T", 0, 1099511627776},
			{"64k", -EINVAL, 0},
			{"64KB", -EINVAL, 0},
			{"K", -EINVAL, 0},
			{"-1K", -EINVAL, 0},
			{"1.5G", -EINVAL, 0},
			{"16777216T", -ERANGE, 0},
		},
	  durations[] = {
		  {"250ms", 0, 250000000},    {"10", 0, 10000000000},
		  {"10s", 0, 10000000000},    {"5m", 0, 300000000000},
		  {"2h", 0, 7200000000000},   {"1d", 0, 86400000000000},
		  {"1w", -EINVAL, 0},         {"", -EINVAL, 0},
		  {"s", -EINVAL, 0},          {"1 s", -EINVAL, 0},
		  {"9223372037", -ERANGE, 0}, {"200000000000000000d", -ERANGE, 0},
	  };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint64_t value = 0;

		assert_int_equal(parse_size(sizes[i].text, &value), sizes[i].want);
		assert_true(value == sizes[i].value);
	}
	for (size_t i = 0; i < ARRAY_LEN(durations); i++) {
		int64_t value = 0;

		assert_int_equal(parse_duration(durations[i].text, &value), durations[i].want);
		assert_true((uint64_t)value == durations[i].value);
	}
}

/* ---- text ---- */

static void utf8_is_recognised(void **state)
{
	static const struct {
		const char *text;
		bool good;
	} rows[] = {
		{"", true},
		{"abc", true},
		{"\xc3\xa4", true},
		{"\xe2\x82\xac", true},
		{"\xf0\x9f\x98\x80", true},
		{"\xf4\x8f\xbf\xbf", true},
		{"\x80", false},             /* continuation alone */
		{"\xc3", false},             /* cut */
		{"\xe2\x82", false},         /* cut */
		{"\xc0\xaf", false},         /* overlong */
		{"\xe0\x80\xaf", false},     /* overlong */
		{"\xf0\x80\x80\xaf", false}, /* overlong */
		{"\xed\xa0\x80", false},     /* surrogate */
		{"\xf4\x90\x80\x80", false}, /* beyond U+10FFFF */
		{"\xf5\x80\x80\x80", false},
		{"\xff", false},
		{"a\xc3z", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(text_is_utf8(span_str(rows[i].text)), rows[i].good);
}

static void nothing_that_moves_a_terminal_gets_through(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(1000);

	(void)state;
	assert_int_equal(
		text_add_escaped(&buf, SPAN("a\n\x1b[1m\x7f\\\xc3\xa4\xff\xc2\x9b\xc2\xa0")), 0);
	assert_string_equal(buf.data, "a\\x0a\\x1b[1m\\x7f\\x5c\xc3\xa4\\xff\\xc2\\x9b\xc2\xa0");
	buf_clear(&buf);
	buf.max = 3;
	assert_int_equal(text_add_escaped(&buf, SPAN("a\n")), -EFBIG);
}

static void text_is_formatted_into_a_buf(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(8);

	(void)state;
	assert_int_equal(text_add(&buf, "%d-%s", 12, "ab"), 0);
	assert_int_equal(text_add(&buf, "%s", "much more"), -EFBIG);
	assert_string_equal(buf.data, "12-ab");
}

static void bytes_become_hexadecimal(void **state)
{
	char text[9];

	(void)state;
	text_hex("\x00\x0f\xa5\xff", 4, text);
	assert_string_equal(text, "000fa5ff");
	text_hex("", 0, text);
	assert_string_equal(text, "");
}

static void sizes_are_short(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *want;
	} rows[] = {
		{0, "0 B"},        {1023, "1023 B"},     {1024, "1.0 KiB"},
		{1536, "1.5 KiB"}, {1 << 20, "1.0 MiB"}, {UINT64_MAX, "16.0 EiB"},
	};
	char text[TEXT_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		text_size(rows[i].bytes, text);
		assert_string_equal(text, rows[i].want);
	}
}

static void errno_has_a_name(void **state)
{
	(void)state;
	assert_string_equal(text_errno(ENOENT), "ENOENT");
	assert_string_equal(text_errno(-EDQUOT), "EDQUOT");
	assert_string_equal(text_errno(99999), "E?");
}

/* ---- clock ---- */

static void times_are_formatted_in_utc(void **state)
{
	char text[CLOCK_TEXT];

	(void)state;
	clock_format(0, text);
	assert_string_equal(text, "1970-01-01T00:00:00.000Z");
	clock_format(1709210096123456789, text);
	assert_string_equal(text, "2024-02-29T12:34:56.123Z");
	clock_format(-1, text);
	assert_string_equal(text, "1969-12-31T23:59:59.999Z");
	clock_format(INT64_MAX, text);
	assert_string_equal(text, "2262-04-11T23:47:16.854Z");
	clock_format(INT64_MIN, text);
	assert_string_equal(text, "1677-09-21T00:12:43.145Z");
}

static void clocks_do_not_go_back(void **state)
{
	int64_t before = clock_mono(), stamp = clock_stamp(), now = clock_now();

	(void)state;
	assert_true(clock_mono() >= before);
	assert_true(stamp <= now);
	assert_true(now > 1600000000ll * 1000000000);
}

/* ---- err ---- */

static void an_error_says_what_and_where(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(err_set(&err, ENOENT, "no '%s'", "x"), -ENOENT);
	assert_int_equal(err.code, ENOENT);
	assert_string_equal(err.text, "no 'x'");
	assert_int_equal(err_wrap(&err, -ENOENT, "opening %d", 7), -ENOENT);
	assert_string_equal(err.text, "opening 7: no 'x'");
	assert_int_equal(err_set(NULL, EIO, "nobody reads"), -EIO);
	assert_int_equal(err_wrap(NULL, -EIO, "nobody reads"), -EIO);
}

static void an_error_too_long_is_cut(void **state)
{
	struct err err = ERR_INIT;
	char big[400];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	assert_int_equal(err_set(&err, EIO, "%s", big), -EIO);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_int_equal(err_wrap(&err, -EIO, "%s", big), -EIO);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_int_equal(err_set(&err, EIO, "short"), -EIO);
	assert_int_equal(err_wrap(&err, -EIO, "w"), -EIO);
	assert_string_equal(err.text, "w: short");
}

/* ---- fd ---- */

static void files_are_written_and_read_whole(void **state)
{
	const char *tmp = getenv("TMPDIR");
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(20000);
	CLEANUP(fd_close) int fd = -1;
	char path[256], bytes[10000], got[100];
	struct err err = ERR_INIT;

	(void)state;
	snprintf(path, sizeof(path), "%s/base-test-XXXXXX", tmp ? tmp : "/tmp");
	fd = mkostemp(path, O_CLOEXEC);
	assert_true(fd >= 0);
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(fd_write_all(fd, bytes, sizeof(bytes)), 0);
	assert_int_equal(fd_pwrite_all(fd, "abc", 3, 5000), 0);
	assert_int_equal(fd_pread_full(fd, got, 4, 4999), 4);
	assert_memory_equal(got, "xabc", 4);
	assert_int_equal(fd_pread_full(fd, got, 100, 9990), 10);
	assert_int_equal(fd_pread_full(fd, got, 100, 20000), 0);
	assert_int_equal(file_read(path, &buf, &err), 0);
	assert_int_equal(buf.len, 10000);
	assert_memory_equal(buf.data + 5000, "abc", 3);
	buf_clear(&buf);
	buf.max = 9999;
	assert_int_equal(file_read(path, &buf, &err), -EFBIG);
	assert_non_null(strstr(err.text, "larger than 9999 bytes"));
	unlink(path);
	assert_int_equal(file_read(path, &buf, &err), -ENOENT);
	assert_non_null(strstr(err.text, "cannot open"));
}

static void a_closed_descriptor_is_forgotten(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), copy = fd;

	(void)state;
	assert_true(fd >= 0);
	fd_close(&fd);
	assert_int_equal(fd, -1);
	assert_int_equal(fcntl(copy, F_GETFD), -1);
	fd_close(&fd);
	assert_int_equal(fd_write_all(copy, "x", 1), -EBADF);
	assert_int_equal(fd_pwrite_all(copy, "x", 1, 0), -EBADF);
	assert_int_equal(fd_pread_full(copy, &copy, 1, 0), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_buf_is_always_a_string),
		cmocka_unit_test(a_buf_past_its_limit_is_unchanged),
		cmocka_unit_test(a_taken_buf_starts_anew),
		cmocka_unit_test(a_buf_grows_to_any_size),
		cmocka_unit_test(a_map_finds_what_it_holds),
		cmocka_unit_test(a_map_tells_equal_hashes_apart),
		cmocka_unit_test(hashes_depend_on_every_byte_and_the_seed),
		cmocka_unit_test(a_list_keeps_its_order),
		cmocka_unit_test(numbers_are_read_whole_or_not_at_all),
		cmocka_unit_test(negative_numbers_have_their_own_end),
		cmocka_unit_test(modes_are_octal_and_bounded),
		cmocka_unit_test(sizes_and_durations_know_their_units),
		cmocka_unit_test(utf8_is_recognised),
		cmocka_unit_test(nothing_that_moves_a_terminal_gets_through),
		cmocka_unit_test(text_is_formatted_into_a_buf),
		cmocka_unit_test(bytes_become_hexadecimal),
		cmocka_unit_test(sizes_are_short),
		cmocka_unit_test(errno_has_a_name),
		cmocka_unit_test(times_are_formatted_in_utc),
		cmocka_unit_test(clocks_do_not_go_back),
		cmocka_unit_test(an_error_says_what_and_where),
		cmocka_unit_test(an_error_too_long_is_cut),
		cmocka_unit_test(files_are_written_and_read_whole),
		cmocka_unit_test(a_closed_descriptor_is_forgotten),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
