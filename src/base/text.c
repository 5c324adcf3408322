/* text.c - see text.h. */
#include "base/text.h"

#include "base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int text_add(struct buf *buf, const char *fmt, ...)
{
	CLEANUP(mem_free) char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	return buf_add(buf, text, (size_t)n);
}

/* Length of the UTF-8 sequence at the start of `bytes`, 0 if it is none. */
static size_t utf8_len(struct span bytes)
{
	const unsigned char *p = (const unsigned char *)bytes.data;
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (n == 0 || n > bytes.len || p[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

bool text_is_utf8(struct span bytes)
{
	while (bytes.len) {
		size_t n = utf8_len(bytes);

		if (!n)
			return false;
		bytes = span_of(bytes.data + n, bytes.len - n);
	}
	return true;
}

int text_add_escaped(struct buf *buf, struct span bytes)
{
	int r = 0;

	while (bytes.len && r == 0) {
		unsigned char c = (unsigned char)bytes.data[0];
		size_t n = utf8_len(bytes);
		/* C1 controls are two bytes in UTF-8 and move a terminal just as C0 do. */
		bool control = c < 0x20 || c == 0x7f || c == '\\' ||
			       (n == 2 && c == 0xc2 && (unsigned char)bytes.data[1] < 0xa0);

		if (n == 0 || control) {
			r = text_add(buf, "\\x%02x", c);
			n = 1;
		} else {
			r = buf_add(buf, bytes.data, n);
		}
		bytes = span_of(bytes.data + n, bytes.len - n);
	}
	return r;
}

void text_hex(const void *bytes, size_t len, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *p = bytes;

	for (size_t i = 0; i < len; i++) {
		ret_text[2 * i] = digits[p[i] >> 4];
		ret_text[2 * i + 1] = digits[p[i] & 15];
	}
	ret_text[2 * len] = '\0';
}

void text_size(uint64_t bytes, char ret_text[TEXT_SIZE])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < ARRAY_LEN(units)) {
		value /= 1024;
		unit++;
	}
	snprintf(ret_text, TEXT_SIZE, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

const char *text_errno(int code)
{
	const char *name = strerrorname_np(code < 0 ? -code : code);

	return name ? name : "E?";
}
