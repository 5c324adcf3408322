/* parse.c - see parse.h. */
#include "base/parse.h"

#include <errno.h>
#include <string.h>

/* Digits of `base` at the start of `*text`, which moves past them. */
static int parse_digits(const char **text, unsigned base, uint64_t *ret_value)
{
	const char *p = *text;
	uint64_t value = 0;

	if (*p < '0' || *p >= (char)('0' + base))
		return -EINVAL;
	for (; *p >= '0' && *p < (char)('0' + base); p++) {
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	}
	*text = p;
	*ret_value = value;
	return 0;
}

int parse_u64(const char *text, uint64_t *ret_value)
{
	uint64_t value;
	int r = parse_digits(&text, 10, &value);

	if (r < 0)
		return r;
	if (*text)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int parse_i64(const char *text, int64_t *ret_value)
{
	bool minus = *text == '-';
	uint64_t value;
	int r = parse_u64(text + minus, &value);

	if (r < 0)
		return r;
	if (value > (uint64_t)INT64_MAX + minus)
		return -ERANGE;
	*ret_value = minus ? (int64_t)(0 - value) : (int64_t)value;
	return 0;
}

int parse_mode(const char *text, uint32_t max, uint32_t *ret_value)
{
	uint64_t value;
	int r = parse_digits(&text, 8, &value);

	if (r < 0)
		return r;
	if (*text)
		return -EINVAL;
	if (value > max)
		return -ERANGE;
	*ret_value = (uint32_t)value;
	return 0;
}

struct unit {
	const char *suffix;
	uint64_t factor;
};

/* A number and one of the suffixes in `units`, a table that ends in NULL. */
static int parse_with_unit(const char *text, const struct unit *units, uint64_t *ret_value)
{
	uint64_t value;
	int r = parse_digits(&text, 10, &value);

	if (r < 0)
		return r;
	for (; units->suffix; units++) {
		if (strcmp(text, units->suffix) != 0)
			continue;
		if (__builtin_mul_overflow(value, units->factor, ret_value))
			return -ERANGE;
		return 0;
	}
	return -EINVAL;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{"", 1},           {"B", 1},
		{"K", 1ull << 10}, {"KiB", 1ull << 10},
		{"M", 1ull << 20}, {"MiB", 1ull << 20},
		{"G", 1ull << 30}, {"GiB", 1ull << 30},
		{"T", 1ull << 40}, {"TiB", 1ull << 40},
		{NULL, 0},
	};
	uint64_t value;
	int r = parse_with_unit(text, units, &value);

	if (r == 0)
		*ret_bytes = value;
	return r;
}

int parse_duration(const char *text, int64_t *ret_ns)
{
	static const struct unit units[] = {
		{"", 1000000000},
		{"ms", 1000000},
		{"s", 1000000000},
		{"m", 60ull * 1000000000},
		{"h", 3600ull * 1000000000},
		{"d", 86400ull * 1000000000},
		{NULL, 0},
	};
	uint64_t value;
	int r = parse_with_unit(text, units, &value);

	if (r < 0)
		return r;
	if (value > INT64_MAX)
		return -ERANGE;
	*ret_ns = (int64_t)value;
	return 0;
}
