/* text.h - bytes made fit for people. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/buf.h"
#include "base/span.h"

/* printf to the end of a buf. 0, or -EFBIG with nothing added. */
int text_add(struct buf *buf, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Append `bytes` with control characters, backslash and invalid UTF-8 as \xNN. 0 or -EFBIG. */
int text_add_escaped(struct buf *buf, struct span bytes) MUST_USE;

/* True for well-formed UTF-8 (RFC 3629). */
bool text_is_utf8(struct span bytes);

/* Lower-case hexadecimal; ret_text holds 2 * len + 1 bytes. */
void text_hex(const void *bytes, size_t len, char *ret_text);

/* "0 B", "12.3 KiB", ...; ret_text holds TEXT_SIZE bytes. */
#define TEXT_SIZE 24
void text_size(uint64_t bytes, char ret_text[TEXT_SIZE]);

/* The name of an errno ("ENOENT"), or "E?" for one that Linux does not have. */
const char *text_errno(int code);

#endif
