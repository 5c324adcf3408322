/* reply.c - pieces of answers, and names out of requests. */
#include "base/parse.h"
#include "fuse/fuse_i.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define SECRET ".computer-\x01-"

void secret_name(int64_t ino, char ret_name[SECRET_NAME])
{
	snprintf(ret_name, SECRET_NAME, SECRET "%lld", (long long)ino);
}

int64_t secret_ino(struct span name)
{
	const size_t head = sizeof(SECRET) - 1;
	int64_t ino;

	if (name.len <= head || name.len >= SECRET_NAME || memcmp(name.data, SECRET, head) != 0 ||
	    parse_i64(name.data + head, &ino) < 0)
		return 0;
	return ino;
}

static uint64_t seconds(int64_t ns)
{
	int64_t s = ns / 1000000000;

	if (ns % 1000000000 < 0)
		s--;
	return (uint64_t)s;
}

static uint32_t nanoseconds(int64_t ns)
{
	int64_t rest = ns % 1000000000;

	return (uint32_t)(rest < 0 ? rest + 1000000000 : rest);
}

void fill_attr(const struct vfs_attr *attr, struct fuse_attr *ret_attr)
{
	*ret_attr = (struct fuse_attr){
		.ino = (uint64_t)attr->ino,
		.size = (uint64_t)attr->size,
		.blocks = (uint64_t)attr->blocks,
		.atime = seconds(attr->atime),
		.mtime = seconds(attr->mtime),
		.ctime = seconds(attr->ctime),
		.atimensec = nanoseconds(attr->atime),
		.mtimensec = nanoseconds(attr->mtime),
		.ctimensec = nanoseconds(attr->ctime),
		.mode = attr->mode,
		.nlink = attr->nlink,
		.uid = attr->uid,
		.gid = attr->gid,
		.rdev = (uint32_t)attr->rdev, /* both sides encode small numbers the same way */
		.blksize = 4096,
	};
}

void fill_entry(const struct vfs_attr *attr, struct fuse_entry_out *ret_entry)
{
	*ret_entry = (struct fuse_entry_out){
		.nodeid = (uint64_t)attr->ino,
		.entry_valid = FUSE_TIMEOUT_S,
		.attr_valid = FUSE_TIMEOUT_S,
	};
	fill_attr(attr, &ret_entry->attr);
}

int reply_entry(struct request *request, const struct vfs_attr *attr)
{
	struct fuse_entry_out entry;

	refs_add(&request->fuse->refs, attr->ino);
	fill_entry(attr, &entry);
	memcpy(request->out, &entry, sizeof(entry));
	return (int)sizeof(entry);
}

int reply_attr(struct request *request, const struct vfs_attr *attr)
{
	struct fuse_attr_out out = {.attr_valid = FUSE_TIMEOUT_S};

	fill_attr(attr, &out.attr);
	memcpy(request->out, &out, sizeof(out));
	return (int)sizeof(out);
}

int take_string(struct span *rest, struct span *ret_string)
{
	const char *end = rest->len ? memchr(rest->data, '\0', rest->len) : NULL;

	if (!end)
		return -EINVAL;
	*ret_string = span_of(rest->data, (size_t)(end - rest->data));
	rest->len -= ret_string->len + 1;
	rest->data = end + 1;
	return 0;
}

int take_name(struct span *rest, struct span *ret_name)
{
	struct span name;
	int r = take_string(rest, &name);

	if (r < 0)
		return r;
	if (name.len == 0 || memchr(name.data, '/', name.len) || span_eq(name, SPAN(".")) ||
	    span_eq(name, SPAN("..")))
		return -EINVAL;
	if (name.len > VFS_NAME_MAX)
		return -ENAMETOOLONG;
	*ret_name = name;
	return 0;
}
