/* lock.c - see lock.h. */
#include "store/lock.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"
#include "store/store_i.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file: "PID\nSOCKET\n". A reader may see it before it is written: then nobody is named. */
static void read_owner(int fd, struct store_owner *ret_owner)
{
	char text[160];
	ssize_t n = fd_pread_full(fd, text, sizeof(text) - 1, 0);
	char *line, *end;

	*ret_owner = (struct store_owner){0};
	if (n <= 0)
		return;
	text[n] = 0;
	line = strchr(text, '\n');
	if (!line)
		return;
	*line++ = 0;
	if (parse_i64(text, &ret_owner->pid) < 0)
		ret_owner->pid = 0;
	end = strchr(line, '\n');
	if (!end || (size_t)(end - line) >= sizeof(ret_owner->socket))
		return;
	*end = 0;
	memcpy(ret_owner->socket, line, (size_t)(end - line) + 1);
}

static int write_owner(int fd, const char *socket)
{
	char text[160];
	int len = snprintf(text, sizeof(text), "%lld\n%s\n", (long long)getpid(), socket);
	int r = fd_pwrite_all(fd, text, (size_t)len, 0);

	if (r == 0 && ftruncate(fd, len) < 0)
		r = -errno;
	return r;
}

int store_lock_take(const char *db_path, struct store_lock *ret_lock, struct store_owner *ret_owner,
		    struct err *err)
{
	CLEANUP(mem_free) char *full = NULL;
	CLEANUP(mem_free) char *path = NULL;
	int r = path_absolute(db_path, &full, err);

	if (r < 0)
		return r;
	path = path_sibling(full, ".lock");
	for (;;) {
		CLEANUP(fd_close) int fd = -1;
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		struct stat mine, there;

		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return err_set(err, errno, "cannot open '%s'", path);
		if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
			if (errno != EAGAIN && errno != EACCES)
				return err_set(err, errno, "cannot lock '%s'", path);
			read_owner(fd, ret_owner);
			return err_set(err, EBUSY, "'%s' is in use by process %lld", db_path,
				       (long long)ret_owner->pid);
		}
		/* Was it removed, with its workspace, between opening and locking? */
		if (fstat(fd, &mine) < 0)
			return err_set(err, errno, "cannot look at '%s'", path);
		if (stat(path, &there) < 0 || there.st_ino != mine.st_ino ||
		    there.st_dev != mine.st_dev)
			continue;
		r = write_owner(fd, "");
		if (r < 0)
			return err_set(err, -r, "cannot write '%s'", path);
		ret_lock->fd = fd_take(&fd);
		return 0;
	}
}

int store_lock_publish(struct store_lock *lock, const char *socket)
{
	if (strlen(socket) >= sizeof(((struct store_owner *)0)->socket) || strchr(socket, '\n'))
		return -EINVAL;
	return write_owner(lock->fd, socket);
}

void store_lock_drop(struct store_lock *lock)
{
	if (lock->fd >= 0)
		(void)!ftruncate(lock->fd, 0); /* nobody is named while nobody has it */
	fd_close(&lock->fd);
}
