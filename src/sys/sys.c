/* sys.c - the table of calls, and the check every request passes first. */
#include "sys/sys.h"

#include <errno.h>
#include <string.h>

static const struct sys_call_info infos[] = {
#define CALL(name, number, right, args, in, max_out) \
	[number] = {#name, SYS_RIGHT_##right, (args), (in), (max_out)},
#include "sys/calls.def"
#undef CALL
};

const struct sys_call_info *sys_call_info(uint32_t call)
{
	if (call >= ARRAY_LEN(infos) || !infos[call].name)
		return NULL;
	return &infos[call];
}

/* The most bytes the last string of a request may have, or 0 when it is a path or a name. */
static size_t data_max(uint32_t call)
{
	switch (call) {
	case SYS_write:
	case SYS_writefile:
	case SYS_batch:
		return SYS_IO_MAX;
	case SYS_setxattr:
		return SYS_XATTR_MAX;
	default:
		return 0;
	}
}

int sys_req_check(const struct sys_req *req)
{
	const struct sys_call_info *info = sys_call_info(req->call);
	size_t max;
	int texts;

	if (!info)
		return -ENOSYS;
	max = data_max(req->call);
	texts = max ? info->in - 1 : info->in;
	for (int i = 0; i < texts; i++) {
		if (req->in[i].len > SYS_PATH_MAX)
			return -ENAMETOOLONG;
		if (req->in[i].len && memchr(req->in[i].data, 0, req->in[i].len))
			return -EINVAL;
	}
	if (max && req->in[texts].len > max)
		return -E2BIG;
	return 0;
}

int64_t sys_call(struct sys *sys, const struct sys_req *req, struct buf *out)
{
	int r = sys_req_check(req);

	if (r < 0)
		return r;
	return sys->ops->call(sys, req, out);
}

void sys_free(struct sys *sys)
{
	if (sys)
		sys->ops->free(sys);
}
