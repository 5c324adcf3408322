/* batch.c - many requests in one call, sent whenever they fill a message. */
#include "sys/sys.h"

#include <errno.h>
#include <string.h>

void sys_batch_clear(struct sys_batch *batch)
{
	buf_clear(&batch->requests);
	batch->count = 0;
}

/* Drop the first `count` requests, which were answered. */
static int drop_answered(struct sys_batch *batch, uint32_t count)
{
	struct span rest = span_of(batch->requests.data, batch->requests.len);
	struct sys_req req;

	for (uint32_t i = 0; i < count; i++) {
		int r = sys_req_decode(&rest, &req);

		if (r < 0)
			return r;
	}
	memmove(batch->requests.data, rest.data, rest.len);
	batch->requests.len = rest.len;
	batch->requests.data[rest.len] = '\0';
	batch->count -= count;
	return 0;
}

/* Send what there is once, and hand out the replies; what was not answered stays. */
static int run_once(struct sys_batch *batch)
{
	CLEANUP(buf_clear) struct buf out = BUF_INIT(SYS_IO_MAX);
	const struct sys_req req = {
		.call = SYS_batch,
		.a = {batch->flags},
		.in = {span_of(batch->requests.data, batch->requests.len)},
	};
	int64_t r = sys_call(batch->sys, &req, &out);
	struct span rest = span_of(out.data, out.len);
	bool failed = false;
	uint32_t done = 0;

	if (r < 0)
		return (int)r;
	for (; rest.len && done < batch->count; done++) {
		struct span bytes;
		int stop = sys_rep_decode(&rest, &r, &bytes);

		if (stop == 0 && batch->done)
			stop = batch->done(batch->arg, batch->first + done, r, bytes);
		if (stop != 0)
			return stop;
		failed = failed || r < 0;
	}
	if (rest.len)
		return -EPROTO;
	if (failed && (batch->flags & SYS_BATCH_STOP))
		done = batch->count;
	batch->first += done;
	if (done == 0) /* one whose reply does not fit alone never will */
		return -EFBIG;
	return drop_answered(batch, done);
}

int sys_batch_run(struct sys_batch *batch)
{
	int r = 0;

	while (r == 0 && batch->count)
		r = run_once(batch);
	/* After a failure nobody knows which of the rest shall still happen. */
	if (r != 0)
		sys_batch_clear(batch);
	return r;
}

int sys_batch_add(struct sys_batch *batch, const struct sys_req *req)
{
	int r = sys_req_check(req);

	if (r < 0)
		return r;
	r = sys_req_encode(req, &batch->requests);
	if (r == -EFBIG && batch->count) {
		r = sys_batch_run(batch);
		if (r == 0)
			r = sys_req_encode(req, &batch->requests);
	}
	if (r == 0)
		batch->count++;
	return r;
}
