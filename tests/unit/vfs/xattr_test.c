/* xattr_test.c - extended attributes: namespaces, limits, who may, what stays. */
#include "world.h"

#include "store/store.h"

#include <errno.h>
#include <sys/xattr.h>

static int set(struct world *world, int64_t ino, const char *name, const char *value, int flags)
{
	return vfs_setxattr(world->vfs, &root_ctx, ino, span_str(name), span_str(value), flags);
}

static int get(struct world *world, const struct vfs_ctx *ctx, int64_t ino, const char *name,
	       char ret_value[64])
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(63);
	int r;

	r = vfs_getxattr(world->vfs, ctx, ino, span_str(name), &buf);
	memcpy(ret_value, buf.data, buf.len + 1);
	return r;
}

static void check_value(struct world *world, int64_t ino, const char *name, const char *value)
{
	char have[64];

	assert_int_equal(get(world, &root_ctx, ino, name, have), 0);
	assert_string_equal(have, value);
}

static void check_list(struct world *world, const struct vfs_ctx *ctx, int64_t ino,
		       const char *names, size_t len)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(65536);

	assert_int_equal(vfs_listxattr(world->vfs, ctx, ino, &buf), 0);
	assert_int_equal(buf.len, len);
	assert_memory_equal(buf.data, names, len);
}

static int snapshot(void *arg, struct store *store)
{
	struct err err = ERR_INIT;

	return store_snapshot(store, arg, &err);
}

static void values_stay(void **state)
{
	static char name[] = "before";
	const struct vfs_ctx *ctx = &root_ctx;
	struct world world;
	int64_t ino;

	(void)state;
	world_open(&world, NULL);
	ino = world_create(&world, VFS_ROOT, "f");
	assert_int_equal(set(&world, ino, "user.b", "two", 0), 0);
	assert_int_equal(set(&world, ino, "user.a", "one", XATTR_CREATE), 0);
	assert_int_equal(set(&world, ino, "user.empty", "", 0), 0);
	assert_int_equal(set(&world, ino, "user.gone", "x", 0), 0);
	assert_int_equal(vfs_removexattr(world.vfs, ctx, ino, SPAN("user.gone")), 0);
	check_list(&world, ctx, ino, "user.a\0user.b\0user.empty\0", 25);
	world_reopen(&world);
	check_value(&world, ino, "user.a", "one");
	check_value(&world, ino, "user.empty", "");
	check_list(&world, ctx, ino, "user.a\0user.b\0user.empty\0", 25);
	/* Over a layer: replaced, removed, and made again. */
	assert_int_equal(vfs_exclusive(world.vfs, snapshot, name), 0);
	assert_int_equal(set(&world, ino, "user.a", "new", XATTR_REPLACE), 0);
	assert_int_equal(vfs_removexattr(world.vfs, ctx, ino, SPAN("user.b")), 0);
	assert_int_equal(vfs_flush(world.vfs, false), 0);
	assert_int_equal(vfs_removexattr(world.vfs, ctx, ino, SPAN("user.b")), -ENODATA);
	world_reopen(&world);
	check_value(&world, ino, "user.a", "new");
	check_list(&world, ctx, ino, "user.a\0user.empty\0", 18);
	assert_int_equal(set(&world, ino, "user.b", "again", XATTR_CREATE), 0);
	world_reopen(&world);
	check_value(&world, ino, "user.b", "again");
	world_close(&world);
}

static void flags_and_limits_hold(void **state)
{
	CLEANUP(buf_clear) struct buf small = BUF_INIT(2);
	static char big[VFS_XATTR_VALUE_MAX + 1], name[300];
	const struct vfs_ctx *ctx = &root_ctx;
	struct world world;
	char have[64];
	int64_t ino;

	(void)state;
	world_open(&world, NULL);
	ino = world_create(&world, VFS_ROOT, "f");
	memset(big, 'x', sizeof(big));
	memset(name, 'n', sizeof(name) - 1);
	memcpy(name, "user.", 5);
	assert_int_equal(get(&world, ctx, ino, "user.a", have), -ENODATA);
	assert_int_equal(set(&world, ino, "user.a", "x", XATTR_REPLACE), -ENODATA);
	assert_int_equal(set(&world, ino, "user.a", "xyz", 0), 0);
	assert_int_equal(set(&world, ino, "user.a", "x", XATTR_CREATE), -EEXIST);
	assert_int_equal(set(&world, ino, "user.a", "x", 4), -EINVAL);
	assert_int_equal(vfs_getxattr(world.vfs, ctx, ino, SPAN("user.a"), &small), -ERANGE);
	assert_int_equal(vfs_listxattr(world.vfs, ctx, ino, &small), -ERANGE);
	assert_int_equal(small.len, 0);
	assert_int_equal(set(&world, ino, "user.", "x", 0), -EINVAL);
	assert_int_equal(set(&world, ino, "", "x", 0), -ERANGE);
	assert_int_equal(set(&world, ino, "other.a", "x", 0), -ENOTSUP);
	assert_int_equal(set(&world, ino, "system.posix_acl_access", "x", 0), -ENOTSUP);
	assert_int_equal(get(&world, ctx, ino, "system.posix_acl_access", have), -ENOTSUP);
	assert_int_equal(set(&world, ino, name, "x", 0), -ERANGE);
	name[255] = '\0';
	assert_int_equal(set(&world, ino, name, "x", 0), 0);
	assert_int_equal(vfs_removexattr(world.vfs, ctx, ino, span_str(name)), 0);
	assert_int_equal(
		vfs_setxattr(world.vfs, ctx, ino, SPAN("user.b"), span_of(big, sizeof(big)), 0),
		-E2BIG);
	assert_int_equal(
		vfs_setxattr(world.vfs, ctx, ino, SPAN("user.b"), span_of(big, VFS_XATTRS_MAX), 0),
		-ENOSPC);
	assert_int_equal(vfs_setxattr(world.vfs, ctx, ino, SPAN("user.b"),
				      span_of(big, VFS_XATTRS_MAX - 10 - 7), 0),
			 0);
	assert_int_equal(set(&world, ino, "user.c", "", 0), -ENOSPC);
	assert_int_equal(set(&world, ino, "user.a", "xyz", 0), 0); /* in its own place */
	assert_int_equal(set(&world, ino, "user.a", "xyzz", 0), -ENOSPC);
	assert_int_equal(vfs_setxattr(world.vfs, ctx, ino, SPAN("user.b"), SPAN("y"), 0), 0);
	world_reopen(&world);
	check_list(&world, ctx, ino, "user.a\0user.b\0", 14);
	world_close(&world);
}

static void namespaces_are_for_who_may(void **state)
{
	const struct vfs_ctx user = user_ctx(1000, 1000);
	struct vfs_attr attr = {.mode = 0666}, now;
	struct world world;
	int64_t ino, link, dir;
	char have[64];

	(void)state;
	world_open(&world, NULL);
	ino = world_create(&world, VFS_ROOT, "f");
	link = world_symlink(&world, VFS_ROOT, "l", "f");
	dir = world_mkdir(&world, VFS_ROOT, "d");
	assert_int_equal(set(&world, ino, "user.a", "u", 0), 0);
	assert_int_equal(set(&world, ino, "trusted.a", "t", 0), 0);
	assert_int_equal(set(&world, ino, "security.a", "s", 0), 0);
	assert_int_equal(get(&world, &user, ino, "user.a", have), 0);
	assert_int_equal(get(&world, &user, ino, "trusted.a", have), -ENODATA);
	assert_int_equal(get(&world, &user, ino, "security.a", have), 0);
	check_list(&world, &user, ino, "security.a\0user.a\0", 18);
	check_list(&world, &root_ctx, ino, "security.a\0trusted.a\0user.a\0", 28);
	assert_int_equal(vfs_setxattr(world.vfs, &user, ino, SPAN("user.b"), SPAN("x"), 0),
			 -EACCES);
	assert_int_equal(vfs_setxattr(world.vfs, &user, ino, SPAN("trusted.b"), SPAN("x"), 0),
			 -EPERM);
	assert_int_equal(vfs_setxattr(world.vfs, &user, ino, SPAN("security.b"), SPAN("x"), 0),
			 -EPERM);
	assert_int_equal(vfs_removexattr(world.vfs, &user, ino, SPAN("user.a")), -EACCES);
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, ino, VFS_SET_MODE, &attr, &now), 0);
	assert_int_equal(vfs_setxattr(world.vfs, &user, ino, SPAN("user.b"), SPAN("x"), 0), 0);
	/* user.* is for files and directories; a sticky directory's belong to its owner. */
	assert_int_equal(set(&world, link, "user.a", "x", 0), -EPERM);
	assert_int_equal(get(&world, &root_ctx, link, "user.a", have), -ENODATA);
	assert_int_equal(set(&world, link, "trusted.a", "x", 0), 0);
	attr.mode = 01777;
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, dir, VFS_SET_MODE, &attr, &now), 0);
	assert_int_equal(vfs_setxattr(world.vfs, &user, dir, SPAN("user.b"), SPAN("x"), 0), -EPERM);
	assert_int_equal(set(&world, dir, "user.b", "x", 0), 0);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_stay),
		cmocka_unit_test(flags_and_limits_hold),
		cmocka_unit_test(namespaces_are_for_who_may),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
