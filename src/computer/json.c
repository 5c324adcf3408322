/* json.c - bytes and numbers in JSON. */
#include "base/mem.h"
#include "base/text.h"
#include "computer/computer_i.h"

#include <errno.h>

json_t *json_bytes(struct span bytes)
{
	CLEANUP(mem_free) char *hex = NULL;
	json_t *value = NULL;

	if (text_is_utf8(bytes) && !(bytes.len && memchr(bytes.data, 0, bytes.len)))
		value = json_stringn(bytes.len ? bytes.data : "", bytes.len);
	if (value)
		return value;
	hex = mem_alloc(2 * bytes.len + 1);
	text_hex(bytes.data, bytes.len, hex);
	return json_pack("{s:s}", "hex", hex);
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int json_get_bytes(const json_t *value, struct buf *bytes)
{
	const char *hex;
	size_t len;

	if (json_is_string(value))
		return buf_add(bytes, json_string_value(value), json_string_length(value));
	value = json_object_get(value, "hex");
	if (!json_is_string(value))
		return -EPROTO;
	hex = json_string_value(value);
	len = json_string_length(value);
	if (len % 2)
		return -EPROTO;
	for (size_t i = 0; i < len; i += 2) {
		int high = digit(hex[i]), low = digit(hex[i + 1]);
		char byte;
		int r;

		if (high < 0 || low < 0)
			return -EPROTO;
		byte = (char)(high * 16 + low);
		r = buf_add(bytes, &byte, 1);
		if (r < 0)
			return r;
	}
	return 0;
}

int64_t json_get_int(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

bool json_get_bool(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

const char *json_get_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}
