/* span.h - bytes that somebody else owns. */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include "base/base.h"

#include <string.h>

/* Borrowed for the call. `data` may hold NULs and need not end in one; it may be NULL if len is 0.
 */
struct span {
	const char *data;
	size_t len;
};

#define SPAN(literal) ((struct span){(literal), sizeof(literal) - 1})
#define SPAN_EMPTY ((struct span){NULL, 0})

static inline struct span span_of(const void *data, size_t len)
{
	return (struct span){data, len};
}

static inline struct span span_str(const char *text)
{
	return (struct span){text, strlen(text)};
}

static inline bool span_eq(struct span a, struct span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

#endif
