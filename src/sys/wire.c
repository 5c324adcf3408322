/* wire.c - requests and replies as bytes (docs/wire/sys.md). Decoding trusts nothing. */
#include "sys/sys.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define REQ_HEADER 8
#define REP_HEADER 16

static void put_u32(unsigned char *p, uint32_t value)
{
	value = htole32(value);
	memcpy(p, &value, sizeof(value));
}

static void put_u64(unsigned char *p, uint64_t value)
{
	value = htole64(value);
	memcpy(p, &value, sizeof(value));
}

static uint32_t get_u32(const void *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return le32toh(value);
}

static uint64_t get_u64(const void *p)
{
	uint64_t value;

	memcpy(&value, p, sizeof(value));
	return le64toh(value);
}

int sys_req_encode(const struct sys_req *req, struct buf *out)
{
	const struct sys_call_info *info = sys_call_info(req->call);
	int args = info ? info->args : (int)ARRAY_LEN(req->a);
	int in = info ? info->in : (int)ARRAY_LEN(req->in);
	unsigned char head[REQ_HEADER + 8 * ARRAY_LEN(req->a) + 4 * ARRAY_LEN(req->in)];
	size_t used = REQ_HEADER;
	uint64_t size;
	int r;

	for (int i = 0; i < args; i++, used += 8)
		put_u64(head + used, (uint64_t)req->a[i]);
	size = used + 4 * (size_t)in;
	for (int i = 0; i < in; i++, used += 4) {
		if (req->in[i].len > UINT32_MAX)
			return -EFBIG;
		put_u32(head + used, (uint32_t)req->in[i].len);
		size += req->in[i].len;
	}
	/* All or nothing: nothing is appended unless the whole request fits. */
	if (size > UINT32_MAX || size > out->max - out->len || req->call > UINT16_MAX)
		return -EFBIG;
	put_u32(head, (uint32_t)size);
	put_u32(head + 4, req->call | (uint32_t)args << 16 | (uint32_t)in << 24);
	r = buf_add(out, head, used);
	for (int i = 0; i < in && r == 0; i++)
		r = buf_add(out, req->in[i].data, req->in[i].len);
	return r;
}

int sys_req_decode(struct span *wire, struct sys_req *ret_req)
{
	struct sys_req req = {0};
	const char *p = wire->data;
	size_t size, used, args, in;

	if (wire->len < REQ_HEADER)
		return -EPROTO;
	size = get_u32(p);
	req.call = get_u32(p + 4) & 0xffff;
	args = (unsigned char)p[6];
	in = (unsigned char)p[7];
	if (size > wire->len || args > ARRAY_LEN(req.a) || in > ARRAY_LEN(req.in))
		return -EPROTO;
	used = REQ_HEADER + 8 * args + 4 * in;
	if (size < used)
		return -EPROTO;
	for (size_t i = 0; i < args; i++)
		req.a[i] = (int64_t)get_u64(p + REQ_HEADER + 8 * i);
	for (size_t i = 0; i < in; i++) {
		size_t len = get_u32(p + REQ_HEADER + 8 * args + 4 * i);

		if (len > size - used)
			return -EPROTO;
		req.in[i] = span_of(p + used, len);
		used += len;
	}
	if (used != size)
		return -EPROTO;
	*wire = span_of(p + size, wire->len - size);
	*ret_req = req;
	return 0;
}

int sys_rep_encode(int64_t r, struct span bytes, struct buf *out)
{
	unsigned char head[REP_HEADER] = {0};
	int fail;

	if (bytes.len > UINT32_MAX - REP_HEADER || out->max - out->len < REP_HEADER ||
	    bytes.len > out->max - out->len - REP_HEADER)
		return -EFBIG;
	put_u32(head, (uint32_t)(REP_HEADER + bytes.len));
	put_u64(head + 8, (uint64_t)r);
	fail = buf_add(out, head, sizeof(head));
	return fail < 0 ? fail : buf_add(out, bytes.data, bytes.len);
}

int sys_rep_decode(struct span *wire, int64_t *ret_r, struct span *ret_bytes)
{
	const char *p = wire->data;
	size_t size;

	if (wire->len < REP_HEADER)
		return -EPROTO;
	size = get_u32(p);
	if (size < REP_HEADER || size > wire->len || get_u32(p + 4) != 0)
		return -EPROTO;
	*ret_r = (int64_t)get_u64(p + 8);
	*ret_bytes = span_of(p + REP_HEADER, size - REP_HEADER);
	*wire = span_of(p + size, wire->len - size);
	return 0;
}
