/* path_walk_fuzz.c - paths over a small tree that the input makes: never out of the root, and what
 * realpath says is where stat led. */
#include "base/mem.h"
#include "store/store.h"
#include "vfs/vfs_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEPS_MAX 64

static struct vfs *vfs;
static char dir[128];

static void finish(void)
{
	static const char *const names[] = {"w.db", "w.data", "w.db-wal", "w.db-shm", "w.lock"};
	char path[160];

	if (vfs_close(vfs, NULL) < 0)
		abort();
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

static void start(void)
{
	const struct gate_record record = {.op = GATE_MOUNT,
					   .who = {.actor = "", .backend = "", .exec = ""}};
	const struct vfs_options options = {0};
	const char *tmp = getenv("TMPDIR");
	struct store *store = NULL;
	char path[160];

	snprintf(dir, sizeof(dir), "%s/path-walk-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		abort();
	snprintf(path, sizeof(path), "%s/w.db", dir);
	if (store_open(path, STORE_CREATE, &store, NULL) < 0 ||
	    vfs_open_take(store, &options, &vfs, NULL) < 0)
		abort();
	/* A first commit has libcrypto register its end before ours, so that it comes after it. */
	vfs_record(vfs, &record);
	if (vfs_flush(vfs, true) < 0)
		abort();
	atexit(finish);
}

/* The next string of the input: up to a newline. */
static struct span take(struct span *input)
{
	const char *end = input->len ? memchr(input->data, '\n', input->len) : NULL;
	size_t len = end ? (size_t)(end - input->data) : input->len;
	struct span text = span_of(input->data, len);

	len += end != NULL;
	*input = span_of(input->data + len, input->len - len);
	return text;
}

static bool has_dots(struct span path)
{
	for (size_t i = 0, len; i < path.len; i += len + 1) {
		struct span name;

		for (len = 0; i + len < path.len && path.data[i + len] != '/';)
			len++;
		name = span_of(path.data + i, len);
		if (span_eq(name, SPAN(".")) || span_eq(name, SPAN("..")))
			return true;
	}
	return false;
}

static void check_real(struct sys *sys, int fd, struct span path)
{
	CLEANUP(buf_clear) struct buf real = BUF_INIT(SYS_PATH_MAX);
	struct sys_stat st, st2;
	int r = sys_stat(sys, fd, path, 0, &st), r2;

	r2 = sys_realpath(sys, fd, path, &real);
	if (r2 == -ENAMETOOLONG || r == -ENAMETOOLONG)
		return;
	/* A descriptor's directory may be gone: then it has no path. */
	if (r < 0 || (r2 < 0 && fd != SYS_CWD))
		return;
	if (r2 < 0 || !real.len || real.data[0] != '/')
		abort();
	if (has_dots(span_of(real.data, real.len)))
		abort();
	if (sys_stat(sys, SYS_CWD, span_of(real.data, real.len), AT_SYMLINK_NOFOLLOW, &st2) < 0)
		abort();
	if (st.ino != st2.ino)
		abort();
}

static void step(struct sys *sys, unsigned char op, struct span *input, int *fd)
{
	int at = op & 0x80 ? *fd : SYS_CWD, r;
	struct span path = take(input);

	switch (op % 8) {
	case 0:
		(void)!sys_mkdir(sys, at, path, 0755);
		break;
	case 1:
		(void)!sys_symlink(sys, at, path, take(input));
		break;
	case 2:
		r = sys_open(sys, at, path, O_RDWR | O_CREAT | (op & 0x40 ? O_NOFOLLOW : 0), 0644);
		if (r >= 0)
			sys_close(sys, r);
		break;
	case 3:
		r = sys_open(sys, at, path, O_PATH | (op & 0x40 ? O_DIRECTORY : 0), 0);
		if (r >= 0) {
			sys_close(sys, *fd);
			*fd = r;
		}
		break;
	case 4:
		(void)!sys_rename(sys, at, path, SYS_CWD, take(input), op >> 4 & 3);
		break;
	case 5:
		(void)!sys_unlink(sys, at, path, op & 0x40 ? AT_REMOVEDIR : 0);
		break;
	case 6:
		(void)!sys_link(sys, at, path, SYS_CWD, take(input),
				op & 0x40 ? AT_SYMLINK_FOLLOW : 0);
		break;
	default:
		check_real(sys, at, path);
		break;
	}
}

struct emptying {
	struct sys *sys;
	int fd;
};

static int remove_one(void *arg, const struct sys_entry *entry);

static void remove_all(struct sys *sys, int fd)
{
	struct emptying emptying = {sys, fd};

	if (sys_each_entry(sys, fd, remove_one, &emptying) < 0)
		abort();
}

static int remove_one(void *arg, const struct sys_entry *entry)
{
	const struct emptying *emptying = arg;
	bool is_dir = S_ISDIR(entry->stat->mode);

	if (is_dir) {
		int fd = sys_open(emptying->sys, emptying->fd, entry->name,
				  O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

		if (fd < 0)
			abort();
		remove_all(emptying->sys, fd);
		sys_close(emptying->sys, fd);
	}
	if (sys_unlink(emptying->sys, emptying->fd, entry->name, is_dir ? AT_REMOVEDIR : 0) < 0)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct vfs_ctx ctx = {.who = {.actor = "", .backend = "", .exec = ""}};
	struct span input = span_of(data, size);
	struct sys *sys;
	int fd = -1, root;

	if (!vfs)
		start();
	sys = vfs_sys_new(vfs, &ctx);
	for (int i = 0; i < STEPS_MAX && input.len; i++) {
		unsigned char op = (unsigned char)input.data[0];

		input = span_of(input.data + 1, input.len - 1);
		step(sys, op, &input, &fd);
	}
	sys_close(sys, fd);
	root = sys_open(sys, SYS_CWD, SPAN("/"), O_RDONLY, 0);
	if (root < 0)
		abort();
	remove_all(sys, root);
	sys_free(sys);
	return 0;
}
