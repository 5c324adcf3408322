/* parse.h - numbers from text, all of it or nothing. */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include "base/base.h"

/* A decimal number and nothing else. 0, -EINVAL (not a number) or -ERANGE. */
int parse_u64(const char *text, uint64_t *ret_value) MUST_USE;
int parse_i64(const char *text, int64_t *ret_value) MUST_USE;

/* Octal digits only, as in a file mode, at most `max`. 0, -EINVAL or -ERANGE. */
int parse_mode(const char *text, uint32_t max, uint32_t *ret_value) MUST_USE;

/* "512", "64K", "16M", "2G", "1T", with or without "iB"; powers of 1024. 0, -EINVAL or -ERANGE. */
int parse_size(const char *text, uint64_t *ret_bytes) MUST_USE;

/* "250ms", "10s", "5m", "2h", "1d", or plain seconds. 0, -EINVAL or -ERANGE. */
int parse_duration(const char *text, int64_t *ret_ns) MUST_USE;

#endif
