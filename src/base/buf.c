/* buf.c - see buf.h. */
#include "base/buf.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char buf_empty[1];

static void buf_grow(struct buf *buf, size_t need)
{
	size_t cap = buf->cap ? buf->cap : 64;
	char *data;

	while (cap < need)
		cap *= 2;
	data = mem_realloc(buf->cap ? buf->data : NULL, cap);
	buf->data = data;
	buf->cap = cap;
}

int buf_add(struct buf *buf, const void *bytes, size_t len)
{
	if (len > buf->max - buf->len)
		return -EFBIG;
	if (len == 0)
		return 0;
	if (buf->len + len + 1 > buf->cap)
		buf_grow(buf, buf->len + len + 1);
	memcpy(buf->data + buf->len, bytes, len);
	buf->len += len;
	buf->data[buf->len] = '\0';
	return 0;
}

int buf_reserve(struct buf *buf, size_t len, char **ret_room)
{
	if (len > buf->max - buf->len)
		return -EFBIG;
	if (buf->len + len + 1 > buf->cap)
		buf_grow(buf, buf->len + len + 1);
	*ret_room = buf->data + buf->len;
	return 0;
}

void buf_filled(struct buf *buf, size_t len)
{
	buf->len += len;
	buf->data[buf->len] = '\0';
}

void buf_truncate(struct buf *buf, size_t len)
{
	if (len < buf->len) {
		buf->len = len;
		buf->data[len] = '\0';
	}
}

char *buf_take(struct buf *buf, size_t *ret_len)
{
	char *data;

	if (!buf->cap)
		buf_grow(buf, 1);
	data = buf->data;
	data[buf->len] = '\0';
	if (ret_len)
		*ret_len = buf->len;
	*buf = BUF_INIT(buf->max);
	return data;
}

void buf_clear(struct buf *buf)
{
	if (buf->cap)
		free(buf->data);
	*buf = BUF_INIT(buf->max);
}
