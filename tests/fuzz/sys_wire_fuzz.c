/* sys_wire_fuzz.c - bytes as requests, replies and directory records: never a crash, one encoding.
 */
#include "base/mem.h"
#include "sys/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct span input;

static int64_t answer(struct sys *sys, const struct sys_req *req, struct buf *out)
{
	(void)sys;
	if (req->call == SYS_readdir && req->a[1] != 0)
		return 0;
	if (out && buf_add(out, input.data, input.len) < 0)
		return -EFBIG;
	return (int64_t)input.len;
}

static int see(void *arg, const struct sys_entry *entry)
{
	(void)arg;
	return entry->name.len > SYS_NAME_MAX ? abort(), 0 : 0;
}

static int done(void *arg, uint32_t index, int64_t r, struct span bytes)
{
	(void)arg;
	return index == UINT32_MAX && r == 0 && bytes.len == 0;
}

static void as_requests(void)
{
	struct span rest = input;
	struct sys_req req;

	while (rest.len) {
		CLEANUP(buf_clear) struct buf again = BUF_INIT(1 << 22);
		const struct sys_call_info *info;
		struct span before = rest;
		struct sys_req second;
		struct span wire;

		if (sys_req_decode(&rest, &req) < 0)
			return;
		if (rest.len >= before.len)
			abort();
		(void)!sys_req_check(&req);
		info = sys_call_info(req.call);
		if (sys_req_encode(&req, &again) < 0)
			abort();
		/* What has the row's own shape has one encoding. */
		if (info && (unsigned char)before.data[6] == info->args &&
		    (unsigned char)before.data[7] == info->in &&
		    !span_eq(span_of(again.data, again.len),
			     span_of(before.data, before.len - rest.len)))
			abort();
		wire = span_of(again.data, again.len);
		if (sys_req_decode(&wire, &second) < 0 || wire.len)
			abort();
	}
}

static void as_replies(void)
{
	struct span rest = input;
	struct span bytes;
	int64_t r;

	while (rest.len && sys_rep_decode(&rest, &r, &bytes) == 0)
		if (bytes.len > input.len)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sys_ops ops = {.call = answer};
	struct sys sys = {&ops};
	struct sys_batch batch = SYS_BATCH_INIT(&sys);
	CLEANUP(buf_clear) struct buf content = BUF_INIT(SYS_IO_MAX);
	struct sys_stat stat;

	input = span_of(data, size);
	as_requests();
	as_replies();
	(void)!sys_each_entry(&sys, 3, see, NULL);
	(void)!sys_readfile(&sys, SYS_CWD, SPAN("f"), 0, 100, &stat, &content);
	(void)!sys_fstat(&sys, 3, &stat);
	batch.done = done;
	for (int i = 0; i < 3; i++)
		if (sys_batch_add(&batch, &(struct sys_req){.call = SYS_close}) < 0)
			abort();
	(void)!sys_batch_run(&batch);
	sys_batch_clear(&batch);
	return 0;
}
