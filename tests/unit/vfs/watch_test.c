/* watch_test.c - who is told of changes, and kernels that write back before others look. */
#include "world.h"

#include "vfs/vfs_sys.h"

#include <errno.h>
#include <fcntl.h>

struct heard {
	enum vfs_event_kind kinds[64];
	int64_t inos[64];
	const void *sources[64];
	char names[64][16];
	int count;
};

static void hear(void *arg, const struct vfs_event *event)
{
	struct heard *heard = arg;
	int i = heard->count;

	assert_true(i < 64 && event->name.len < 16);
	heard->kinds[i] = event->kind;
	heard->inos[i] = event->ino;
	heard->sources[i] = event->source;
	if (event->name.len)
		memcpy(heard->names[i], event->name.data, event->name.len);
	heard->count++;
}

static void check_heard(const struct heard *heard, int i, enum vfs_event_kind kind, int64_t ino,
			const char *name)
{
	assert_true(i < heard->count);
	assert_int_equal(heard->kinds[i], kind);
	assert_int_equal(heard->inos[i], ino);
	assert_string_equal(heard->names[i], name);
}

static void every_change_is_told(void **state)
{
	struct vfs_attr attr = {.mode = 0600}, now;
	struct heard heard = {0};
	struct vfs_ctx ctx = root_ctx;
	struct world world;
	int64_t ino;
	uint64_t id;

	(void)state;
	world_open(&world, NULL);
	assert_int_equal(vfs_watch(world.vfs, false, hear, &heard, &id), 0);
	ino = world_create(&world, VFS_ROOT, "f");
	ctx.source = &heard;
	assert_int_equal(vfs_write(world.vfs, &ctx, ino, 0, "x", 1, 0), 1);
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, ino, VFS_SET_MODE, &attr, &now), 0);
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, ino, VFS_SET_SIZE, &attr, &now), 0);
	assert_int_equal(world_rename(&world, VFS_ROOT, "f", VFS_ROOT, "g", 0), 0);
	assert_int_equal(world_unlink(&world, VFS_ROOT, "g"), 0);
	check_heard(&heard, 0, VFS_EVENT_CREATE, ino, "f");
	check_heard(&heard, 1, VFS_EVENT_MODIFY, ino, "");
	assert_ptr_equal(heard.sources[1], &heard);
	check_heard(&heard, 2, VFS_EVENT_ATTR, ino, "");
	check_heard(&heard, 3, VFS_EVENT_MODIFY, ino, "");
	check_heard(&heard, 4, VFS_EVENT_MOVE, ino, "f");
	check_heard(&heard, 5, VFS_EVENT_DELETE, ino, "g");
	assert_int_equal(heard.count, 6);
	vfs_unwatch(world.vfs, id);
	assert_true(world_create(&world, VFS_ROOT, "h") > 0);
	assert_int_equal(heard.count, 6);
	world_close(&world);
}

static void a_kernel_hears_of_what_it_knows(void **state)
{
	struct vfs_attr attr = {.mode = 0600}, now;
	struct heard heard = {0};
	struct world world;
	int64_t ino, dir;
	uint64_t id;

	(void)state;
	world_open(&world, NULL);
	dir = world_mkdir(&world, VFS_ROOT, "d");
	ino = world_create(&world, dir, "f");
	assert_int_equal(vfs_watch(world.vfs, true, hear, &heard, &id), 0);
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, ino, VFS_SET_MODE, &attr, &now), 0);
	assert_true(world_create(&world, dir, "unknown") > 0);
	/* The new one is known while it is made; forget that. */
	heard.count = 0;
	assert_int_equal(vfs_lookup(world.vfs, &root_ctx, dir, SPAN("f"), &attr), 0);
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, ino, VFS_SET_MODE, &attr, &now), 0);
	assert_int_equal(heard.count, 1);
	vfs_forget(world.vfs, ino, 1);
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, ino, VFS_SET_MODE, &attr, &now), 0);
	assert_int_equal(heard.count, 1);
	/* The root is always known, so are its entries. */
	assert_int_equal(world_rename(&world, VFS_ROOT, "d", VFS_ROOT, "e", 0), 0);
	assert_int_equal(heard.count, 2);
	vfs_unwatch(world.vfs, id);
	world_close(&world);
}

static void nobody(void *arg, const struct vfs_event *event)
{
	(void)arg;
	(void)event;
}

static void there_are_only_so_many(void **state)
{
	struct world world;
	uint64_t id;

	(void)state;
	world_open(&world, NULL);
	for (int i = 0; i < VFS_WATCH_MAX; i++)
		assert_int_equal(vfs_watch(world.vfs, false, nobody, NULL, &id), 0);
	assert_int_equal(vfs_watch(world.vfs, false, nobody, NULL, &id), -ENOSPC);
	vfs_unwatch(world.vfs, id);
	assert_int_equal(vfs_watch(world.vfs, false, nobody, NULL, &id), 0);
	world_close(&world);
}

/* A kernel with one byte that it has not written back yet. */
struct kernel {
	struct world *world;
	struct vfs_ctx ctx;
	int64_t dirty;
	int pulls;
};

static void write_back(void *arg, int64_t ino)
{
	struct kernel *kernel = arg;

	kernel->pulls++;
	if (kernel->dirty != ino)
		return;
	kernel->dirty = 0;
	assert_int_equal(
		vfs_write(kernel->world->vfs, &kernel->ctx, ino, 0, "K", 1, VFS_WRITE_CACHE), 1);
}

static void a_kernel_writes_back_before_others_look(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(100);
	struct kernel kernel = {.ctx = root_ctx};
	struct vfs_attr attr;
	struct sys_stat st;
	struct world world;
	struct sys *sys;
	int64_t ino, known[4];
	char byte;

	(void)state;
	world_open(&world, NULL);
	kernel.world = &world;
	kernel.ctx.source = &kernel;
	sys = vfs_sys_new(world.vfs, &root_ctx);
	ino = world_create(&world, VFS_ROOT, "f");
	vfs_set_pull(world.vfs, &kernel, write_back, &kernel);
	assert_int_equal(vfs_write(world.vfs, &root_ctx, ino, 0, "a", 1, 0), 1);
	assert_int_equal(kernel.pulls, 0); /* it does not know the file */
	assert_int_equal(vfs_known_files(world.vfs, known, 4), 0);
	assert_int_equal(vfs_lookup(world.vfs, &kernel.ctx, VFS_ROOT, SPAN("f"), &attr), 0);
	assert_int_equal(kernel.pulls, 0); /* its own calls */
	assert_int_equal(vfs_known_files(world.vfs, known, 4), 1);
	assert_int_equal(known[0], ino);
	kernel.dirty = ino;
	assert_int_equal(vfs_read(world.vfs, &kernel.ctx, ino, 0, &byte, 1), 1);
	assert_int_equal(byte, 'a');
	assert_int_equal(vfs_read(world.vfs, &root_ctx, ino, 0, &byte, 1), 1);
	assert_int_equal(byte, 'K');
	assert_int_equal(vfs_write(world.vfs, &root_ctx, ino, 0, "abc", 3, 0), 3);
	kernel.dirty = ino;
	assert_int_equal(sys_readfile(sys, SYS_CWD, SPAN("f"), 0, 10, &st, &buf), 3);
	assert_string_equal(buf.data, "Kbc");
	kernel.dirty = ino;
	assert_int_equal(sys_writefile(sys, SYS_CWD, SPAN("f"), 0, 0, SYS_OMIT, SPAN("whole")), 0);
	assert_int_equal(vfs_read(world.vfs, &kernel.ctx, ino, 0, &byte, 1), 1);
	assert_int_equal(byte, 'w');
	vfs_set_pull(world.vfs, NULL, NULL, NULL);
	kernel.pulls = 0;
	assert_int_equal(vfs_read(world.vfs, &root_ctx, ino, 0, &byte, 1), 1);
	assert_int_equal(kernel.pulls, 0);
	sys_free(sys);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_change_is_told),
		cmocka_unit_test(a_kernel_hears_of_what_it_knows),
		cmocka_unit_test(there_are_only_so_many),
		cmocka_unit_test(a_kernel_writes_back_before_others_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
