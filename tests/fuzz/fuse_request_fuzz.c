/* fuse_request_fuzz.c - requests as a hostile kernel would send them, down to a real vfs.
 *
 * An input is a row of messages: two bytes of length, then a kind, then the rest. Kind 0: the
 * message as it is. Else: an opcode, a node id and a body, and the header is made right.
 */
#include "base/base.h"
#include "fuse/fuse.h"
#include "fuse/wire.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE_MAX 4096
#define INPUTS_PER_WORLD 512 /* then a new workspace: what one input made is not there for ever */
#define LAST UINT64_MAX

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[128];
static struct vfs *vfs;
static unsigned inputs;

static void world_end(void)
{
	static const char *const files[] = {"w.db", "w.db-wal", "w.db-shm", "w.data"};
	char path[160];

	if (!vfs)
		return;
	if (vfs_close(vfs, NULL) < 0)
		abort();
	vfs = NULL;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		unlink(path);
	}
	rmdir(dir);
}

static void world_begin(void)
{
	const struct vfs_options options = {0};
	const char *tmp = getenv("TMPDIR");
	struct store *store;
	char path[160];

	snprintf(dir, sizeof(dir), "%s/fuse-fuzz-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		abort();
	snprintf(path, sizeof(path), "%s/w.db", dir);
	if (store_open(path, STORE_CREATE, &store, NULL) < 0 ||
	    vfs_open_take(store, &options, &vfs, NULL) < 0 || vfs_set_quota(vfs, 8 << 20, 500) < 0)
		abort();
}

/* Take what has come; true when the answer to the last request was there. Waits for it if asked. */
static bool drain(int fd, bool wait)
{
	static char bytes[1 << 18];
	struct fuse_out_header header;
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), wait ? 0 : MSG_DONTWAIT)) > 0) {
		if (n < (ssize_t)sizeof(header))
			abort();
		memcpy(&header, bytes, sizeof(header));
		if (header.len != (size_t)n || header.error < -511)
			abort();
		if (header.unique == LAST)
			return true;
	}
	return false;
}

static void ask(int fd, uint32_t opcode, uint64_t nodeid, uint64_t unique, const void *body,
		size_t len)
{
	char message[sizeof(struct fuse_in_header) + MESSAGE_MAX];
	const struct fuse_in_header header = {
		.len = (uint32_t)(sizeof(header) + len),
		.opcode = opcode,
		.unique = unique,
		.nodeid = nodeid,
		.pid = 1,
	};

	memcpy(message, &header, sizeof(header));
	if (len)
		memcpy(message + sizeof(header), body, len);
	(void)!send(fd, message, sizeof(header) + len, MSG_NOSIGNAL);
}

static void message(int fd, const uint8_t *data, size_t len)
{
	if (len < 3)
		return;
	if (data[0] == 0)
		(void)!send(fd, data + 1, len - 1, MSG_NOSIGNAL);
	else
		ask(fd, data[1], data[2] == 255 ? UINT64_MAX : data[2], 2, data + 3, len - 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fuse_options options = {.name = "fuzz", .threads = 1, .xattrs = true};
	const struct fuse_init_in init = {.major = 7, .minor = 45, .flags = ~0U, .flags2 = ~0U};
	struct fuse *fuse;
	int ends[2];

	if (inputs % INPUTS_PER_WORLD == 0) {
		world_end();
		world_begin();
	}
	inputs++;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ||
	    fuse_serve_fd(vfs, ends[1], &options, &fuse, NULL) < 0)
		abort();
	/* One in two begins as a connection does; the others may do it wrong. */
	if (size == 0 || data[size - 1] % 2 == 0)
		ask(ends[0], FUSE_INIT, 0, 1, &init, sizeof(init));
	while (size >= 2) {
		size_t len = (size_t)data[0] | (size_t)data[1] << 8;

		data += 2;
		size -= 2;
		len = len % MESSAGE_MAX;
		if (len > size)
			len = size;
		message(ends[0], data, len);
		drain(ends[0], false);
		data += len;
		size -= len;
	}
	/* It still answers. */
	ask(ends[0], FUSE_STATFS, 1, LAST, NULL, 0);
	if (!drain(ends[0], true))
		abort();
	close(ends[0]);
	if (fuse_wait(fuse, 10000) < 0)
		abort();
	fuse_stop(fuse);
	return 0;
}
