/* wrappers.c - the calls with their types: what callers use. */
#include "base/mem.h"
#include "sys/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define READDIR_CHUNK 65536

/* A call that answers a number alone. */
static int64_t plain(struct sys *sys, const struct sys_req *req)
{
	return sys_call(sys, req, NULL);
}

/* A call whose bytes are exactly one structure. */
static int fixed(struct sys *sys, const struct sys_req *req, void *ret_value, size_t size)
{
	CLEANUP(buf_clear) struct buf out = BUF_INIT(size);
	int64_t r = sys_call(sys, req, &out);

	if (r < 0)
		return (int)r;
	if (out.len != size)
		return -EPROTO;
	memcpy(ret_value, out.data, size);
	return 0;
}

int sys_open(struct sys *sys, int dir, struct span path, int flags, uint32_t mode)
{
	return (int)plain(sys, &(struct sys_req){SYS_open, {dir, flags, mode}, {path}});
}

int sys_close(struct sys *sys, int fd)
{
	return (int)plain(sys, &(struct sys_req){SYS_close, {fd}, {{0}}});
}

ssize_t sys_read(struct sys *sys, int fd, size_t len, int64_t offset, struct buf *out)
{
	size_t before = out->len;
	int64_t r;

	if (len > SYS_IO_MAX)
		len = SYS_IO_MAX;
	r = sys_call(sys, &(struct sys_req){SYS_read, {fd, (int64_t)len, offset}, {{0}}}, out);
	return r < 0 ? r : (ssize_t)(out->len - before);
}

ssize_t sys_write(struct sys *sys, int fd, struct span bytes, int64_t offset)
{
	return plain(sys, &(struct sys_req){SYS_write, {fd, offset}, {bytes}});
}

int64_t sys_lseek(struct sys *sys, int fd, int64_t offset, int whence)
{
	return plain(sys, &(struct sys_req){SYS_lseek, {fd, offset, whence}, {{0}}});
}

int sys_stat(struct sys *sys, int dir, struct span path, int flags, struct sys_stat *ret_stat)
{
	const struct sys_req req = {SYS_stat, {dir, flags}, {path}};

	return fixed(sys, &req, ret_stat, sizeof(*ret_stat));
}

int sys_fstat(struct sys *sys, int fd, struct sys_stat *ret_stat)
{
	const struct sys_req req = {SYS_fstat, {fd}, {{0}}};

	return fixed(sys, &req, ret_stat, sizeof(*ret_stat));
}

/* Take one record from the front of `*records`. False: they are damaged. */
static bool take_dirent(struct span *records, struct sys_dirent *ret_dirent, struct span *ret_name)
{
	struct sys_dirent dirent;
	size_t size;

	if (records->len < sizeof(dirent))
		return false;
	memcpy(&dirent, records->data, sizeof(dirent));
	if (dirent.name_len == 0 || dirent.name_len > SYS_NAME_MAX)
		return false;
	size = (sizeof(dirent) + dirent.name_len + 7) & ~(size_t)7;
	if (size > records->len)
		return false;
	*ret_name = span_of(records->data + sizeof(dirent), dirent.name_len);
	*ret_dirent = dirent;
	*records = span_of(records->data + size, records->len - size);
	return true;
}

int sys_each_entry(struct sys *sys, int fd, int (*fn)(void *arg, const struct sys_entry *entry),
		   void *arg)
{
	CLEANUP(buf_clear) struct buf out = BUF_INIT(READDIR_CHUNK);
	int64_t cookie = 0;

	for (;;) {
		const struct sys_req req = {SYS_readdir, {fd, cookie, READDIR_CHUNK}, {{0}}};
		struct sys_dirent dirent;
		struct sys_entry entry = {.stat = &dirent.stat};
		struct span rest;
		int64_t r;

		out.len = 0;
		r = sys_call(sys, &req, &out);
		if (r < 0)
			return (int)r;
		rest = span_of(out.data, out.len);
		if (!rest.len)
			return 0;
		while (rest.len) {
			int stop;

			if (!take_dirent(&rest, &dirent, &entry.name))
				return -EPROTO;
			if (span_eq(entry.name, SPAN(".")) || span_eq(entry.name, SPAN("..")))
				continue;
			stop = fn(arg, &entry);
			if (stop != 0)
				return stop;
		}
		if (dirent.cookie == cookie) /* it would go round for ever */
			return -EPROTO;
		cookie = dirent.cookie;
	}
}

int sys_readlink(struct sys *sys, int dir, struct span path, struct buf *target)
{
	int64_t r = sys_call(sys, &(struct sys_req){SYS_readlink, {dir}, {path}}, target);

	return r < 0 ? (int)r : 0;
}

int sys_mkdir(struct sys *sys, int dir, struct span path, uint32_t mode)
{
	return (int)plain(sys, &(struct sys_req){SYS_mkdir, {dir, mode}, {path}});
}

int sys_mknod(struct sys *sys, int dir, struct span path, uint32_t mode, uint64_t rdev)
{
	return (int)plain(sys, &(struct sys_req){SYS_mknod, {dir, mode, (int64_t)rdev}, {path}});
}

int sys_unlink(struct sys *sys, int dir, struct span path, int flags)
{
	return (int)plain(sys, &(struct sys_req){SYS_unlink, {dir, flags}, {path}});
}

int sys_rename(struct sys *sys, int dir, struct span path, int dir2, struct span path2,
	       unsigned flags)
{
	return (int)plain(sys, &(struct sys_req){SYS_rename, {dir, dir2, flags}, {path, path2}});
}

int sys_link(struct sys *sys, int dir, struct span path, int dir2, struct span path2, int flags)
{
	return (int)plain(sys, &(struct sys_req){SYS_link, {dir, dir2, flags}, {path, path2}});
}

int sys_symlink(struct sys *sys, int dir, struct span path, struct span target)
{
	return (int)plain(sys, &(struct sys_req){SYS_symlink, {dir}, {path, target}});
}

int sys_chmod(struct sys *sys, int dir, struct span path, uint32_t mode, int flags)
{
	return (int)plain(sys, &(struct sys_req){SYS_chmod, {dir, mode, flags}, {path}});
}

int sys_chown(struct sys *sys, int dir, struct span path, int64_t uid, int64_t gid, int flags)
{
	return (int)plain(sys, &(struct sys_req){SYS_chown, {dir, uid, gid, flags}, {path}});
}

int sys_utimens(struct sys *sys, int dir, struct span path, int64_t atime, int64_t mtime, int flags)
{
	return (int)plain(sys, &(struct sys_req){SYS_utimens, {dir, atime, mtime, flags}, {path}});
}

int sys_truncate(struct sys *sys, int dir, struct span path, int64_t size, int flags)
{
	return (int)plain(sys, &(struct sys_req){SYS_truncate, {dir, size, flags}, {path}});
}

int sys_fallocate(struct sys *sys, int fd, int mode, int64_t offset, int64_t len)
{
	return (int)plain(sys, &(struct sys_req){SYS_falloc, {fd, mode, offset, len}, {{0}}});
}

int sys_fsync(struct sys *sys, int fd, bool data_only)
{
	return (int)plain(sys, &(struct sys_req){SYS_fsync, {fd, data_only}, {{0}}});
}

int sys_access(struct sys *sys, int dir, struct span path, int mode, int flags)
{
	return (int)plain(sys, &(struct sys_req){SYS_access, {dir, mode, flags}, {path}});
}

int sys_realpath(struct sys *sys, int dir, struct span path, struct buf *ret_path)
{
	int64_t r = sys_call(sys, &(struct sys_req){SYS_realpath, {dir}, {path}}, ret_path);

	return r < 0 ? (int)r : 0;
}

int sys_statfs(struct sys *sys, struct sys_statfs *ret_statfs)
{
	const struct sys_req req = {.call = SYS_statfs};

	return fixed(sys, &req, ret_statfs, sizeof(*ret_statfs));
}

int sys_getxattr(struct sys *sys, int dir, struct span path, struct span name, int flags,
		 struct buf *value)
{
	const struct sys_req req = {SYS_getxattr, {dir, flags}, {path, name}};
	int64_t r = sys_call(sys, &req, value);

	return r < 0 ? (int)r : 0;
}

int sys_setxattr(struct sys *sys, int dir, struct span path, struct span name, struct span value,
		 int xflags, int flags)
{
	const struct sys_req req = {SYS_setxattr, {dir, flags, xflags}, {path, name, value}};

	return (int)plain(sys, &req);
}

int sys_listxattr(struct sys *sys, int dir, struct span path, int flags, struct buf *names)
{
	int64_t r = sys_call(sys, &(struct sys_req){SYS_listxattr, {dir, flags}, {path}}, names);

	return r < 0 ? (int)r : 0;
}

int sys_rmxattr(struct sys *sys, int dir, struct span path, struct span name, int flags)
{
	return (int)plain(sys, &(struct sys_req){SYS_rmxattr, {dir, flags}, {path, name}});
}

int sys_flock(struct sys *sys, int fd, int operation)
{
	return (int)plain(sys, &(struct sys_req){SYS_flock, {fd, operation}, {{0}}});
}

ssize_t sys_readfile(struct sys *sys, int dir, struct span path, int64_t offset, size_t len,
		     struct sys_stat *ret_stat, struct buf *content)
{
	CLEANUP(buf_clear) struct buf out = BUF_INIT(SYS_IO_MAX);
	int64_t r;
	size_t got;
	int fail;

	if (len > SYS_IO_MAX - sizeof(*ret_stat))
		len = SYS_IO_MAX - sizeof(*ret_stat);
	r = sys_call(sys, &(struct sys_req){SYS_readfile, {dir, offset, (int64_t)len}, {path}},
		     &out);
	if (r < 0)
		return r;
	if (out.len < sizeof(*ret_stat))
		return -EPROTO;
	got = out.len - sizeof(*ret_stat);
	fail = buf_add(content, out.data + sizeof(*ret_stat), got);
	if (fail < 0)
		return fail;
	memcpy(ret_stat, out.data, sizeof(*ret_stat));
	return (ssize_t)got;
}

int sys_writefile(struct sys *sys, int dir, struct span path, int flags, uint32_t mode,
		  int64_t mtime, struct span bytes)
{
	const struct sys_req req = {SYS_writefile, {dir, flags, mode, mtime}, {path, bytes}};

	return (int)plain(sys, &req);
}

ssize_t sys_copy(struct sys *sys, int fd, int64_t offset, int fd2, int64_t offset2, int64_t len)
{
	return plain(sys, &(struct sys_req){SYS_copy, {fd, offset, fd2, offset2, len}, {{0}}});
}
