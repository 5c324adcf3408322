/* fd.h - file descriptors that close themselves. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include "base/buf.h"
#include "base/err.h"

#include <sys/types.h>

/* For CLEANUP(fd_close): closes *fd unless it is negative. */
void fd_close(int *fd);

/* Read a whole host file into `buf`. 0, or a negative errno. */
int file_read(const char *path, struct buf *buf, struct err *err) MUST_USE;

/* Write all of it, at the file's position or at `pos`. 0, or a negative errno. */
int fd_write_all(int fd, const void *bytes, size_t len) MUST_USE;
int fd_pwrite_all(int fd, const void *bytes, size_t len, int64_t pos) MUST_USE;

/* Read until `len` bytes or the end of the file. The count, or a negative errno. */
ssize_t fd_pread_full(int fd, void *ret_bytes, size_t len, int64_t pos) MUST_USE;

#endif
