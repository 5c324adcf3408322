/* fd.c - see fd.h. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int file_read(const char *path, struct buf *buf, struct err *err)
{
	CLEANUP(fd_close) int fd = -1;
	char chunk[4096];
	ssize_t n;
	int r;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "cannot open '%s'", path);

	for (;;) {
		n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, errno, "cannot read '%s'", path);
		if (n == 0)
			return 0;

		r = buf_add(buf, chunk, (size_t)n);
		if (r < 0)
			return err_set(err, -r, "'%s' is larger than %zu bytes", path, buf->max);
	}
}

int fd_write_all(int fd, const void *bytes, size_t len)
{
	const char *p = bytes;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_pwrite_all(int fd, const void *bytes, size_t len, int64_t pos)
{
	const char *p = bytes;

	while (len) {
		ssize_t n = pwrite(fd, p, len, pos);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		pos += n;
		len -= (size_t)n;
	}
	return 0;
}

ssize_t fd_pread_full(int fd, void *ret_bytes, size_t len, int64_t pos)
{
	char *p = ret_bytes;
	size_t got = 0;

	while (got < len) {
		ssize_t n = pread(fd, p + got, len - got, pos + (int64_t)got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}
