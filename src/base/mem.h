/* mem.h - memory that is there, or the process ends (docs/style.md, "Out of memory"). */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* The caller frees with free(). A size of 0 gives a pointer that can be freed. */
static inline void *mem_alloc(size_t size)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		abort();
	return p;
}

static inline void *mem_alloc0(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p)
		abort();
	return p;
}

static inline void *mem_realloc(void *old, size_t size)
{
	void *p = realloc(old, size ? size : 1);

	if (!p)
		abort();
	return p;
}

static inline void *mem_dup(const void *bytes, size_t len)
{
	void *p = mem_alloc(len);

	if (len)
		memcpy(p, bytes, len);
	return p;
}

static inline char *mem_strdup(const char *text)
{
	return mem_dup(text, strlen(text) + 1);
}

/* For CLEANUP(mem_free) on a pointer variable of any type. */
static inline void mem_free(void *pointer_to_pointer)
{
	void *p;

	memcpy(&p, pointer_to_pointer, sizeof(p));
	free(p);
}

#endif
