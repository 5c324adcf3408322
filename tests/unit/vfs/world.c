/* world.c - see world.h. */
#include "world.h"

#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

const struct vfs_ctx root_ctx = {.who = {.actor = "test", .backend = "direct", .exec = ""}};

struct vfs_ctx user_ctx(uint32_t uid, uint32_t gid)
{
	struct vfs_ctx ctx = root_ctx;

	ctx.who.uid = uid;
	ctx.who.gid = gid;
	return ctx;
}

static void open_store(struct world *world, unsigned flags)
{
	struct err err = ERR_INIT;
	int r;

	r = store_open(world->db, flags, &world->store, &err);
	if (r == 0)
		r = vfs_open_take(world->store, &world->options, &world->vfs, &err);
	if (r < 0)
		fail_msg("open: %s", err.text);
}

void world_open(struct world *world, const struct vfs_options *options)
{
	const char *tmp = getenv("TMPDIR");

	*world = (struct world){0};
	if (options)
		world->options = *options;
	snprintf(world->dir, sizeof(world->dir), "%s/vfs-test-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(world->dir));
	snprintf(world->db, sizeof(world->db), "%s/w.db", world->dir);
	open_store(world, STORE_CREATE);
}

void world_reopen(struct world *world)
{
	struct err err = ERR_INIT;

	if (vfs_close(world->vfs, &err) < 0)
		fail_msg("close: %s", err.text);
	open_store(world, 0);
}

static void remove_all(const char *path)
{
	char name[512];
	struct dirent *entry;
	DIR *dir = opendir(path);

	while (dir && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (entry->d_type == DT_DIR)
			remove_all(name);
		else
			unlink(name);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

void world_close(struct world *world)
{
	struct err err = ERR_INIT;
	int r;

	r = vfs_close(world->vfs, &err);
	remove_all(world->dir);
	if (r < 0)
		fail_msg("close: %s", err.text);
}

/* The reference that came with it is given back. */
static int64_t done(struct world *world, int r, const struct vfs_attr *attr)
{
	if (r < 0)
		return r;
	vfs_forget(world->vfs, attr->ino, 1);
	return attr->ino;
}

int64_t world_find(struct world *world, int64_t parent, const char *name)
{
	struct vfs_attr attr;

	return done(world, vfs_lookup(world->vfs, &root_ctx, parent, span_str(name), &attr), &attr);
}

int world_stat(struct world *world, int64_t ino, struct vfs_attr *ret_attr)
{
	return vfs_getattr(world->vfs, &root_ctx, ino, ret_attr);
}

int64_t world_create(struct world *world, int64_t parent, const char *name)
{
	struct vfs_attr attr;

	return done(world,
		    vfs_create(world->vfs, &root_ctx, parent, span_str(name), 0644, O_EXCL, &attr),
		    &attr);
}

int64_t world_mkdir(struct world *world, int64_t parent, const char *name)
{
	struct vfs_attr attr;

	return done(world, vfs_mkdir(world->vfs, &root_ctx, parent, span_str(name), 0755, &attr),
		    &attr);
}

int64_t world_symlink(struct world *world, int64_t parent, const char *name, const char *target)
{
	struct vfs_attr attr;

	return done(
		world,
		vfs_symlink(world->vfs, &root_ctx, parent, span_str(name), span_str(target), &attr),
		&attr);
}

int world_link(struct world *world, int64_t ino, int64_t parent, const char *name)
{
	struct vfs_attr attr;
	int r;

	r = vfs_link(world->vfs, &root_ctx, ino, parent, span_str(name), &attr);
	if (r == 0)
		vfs_forget(world->vfs, attr.ino, 1);
	return r;
}

int world_unlink(struct world *world, int64_t parent, const char *name)
{
	return vfs_unlink(world->vfs, &root_ctx, parent, span_str(name));
}

int world_rmdir(struct world *world, int64_t parent, const char *name)
{
	return vfs_rmdir(world->vfs, &root_ctx, parent, span_str(name));
}

int world_rename(struct world *world, int64_t parent, const char *name, int64_t parent2,
		 const char *name2, unsigned flags)
{
	return vfs_rename(world->vfs, &root_ctx, parent, span_str(name), parent2, span_str(name2),
			  flags);
}

uint32_t world_nlink(struct world *world, int64_t ino)
{
	struct vfs_attr attr;

	return world_stat(world, ino, &attr) < 0 ? 0 : attr.nlink;
}

static int count_one(void *arg, const struct vfs_entry *entry)
{
	int *count = arg;

	if (!span_eq(entry->name, SPAN(".")) && !span_eq(entry->name, SPAN("..")))
		(*count)++;
	return 0;
}

int world_count(struct world *world, int64_t dir)
{
	int count = 0, r;

	r = vfs_readdir(world->vfs, &root_ctx, dir, 0, false, count_one, &count);
	return r < 0 ? r : count;
}

void world_put(struct world *world, int64_t ino, const char *text)
{
	struct vfs_attr size = {.size = (int64_t)strlen(text)}, attr;

	assert_int_equal(vfs_write(world->vfs, &root_ctx, ino, 0, text, strlen(text), 0),
			 strlen(text));
	assert_int_equal(vfs_setattr(world->vfs, &root_ctx, ino, VFS_SET_SIZE, &size, &attr), 0);
}

void world_check_text(struct world *world, int64_t ino, const char *text)
{
	char bytes[4096] = {0};
	ssize_t n;

	n = vfs_read(world->vfs, &root_ctx, ino, 0, bytes, sizeof(bytes) - 1);
	assert_true(n >= 0);
	assert_string_equal(bytes, text);
}
