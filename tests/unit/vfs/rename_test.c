/* rename_test.c - rename: every kind onto every kind, flags, loops, permissions, counts. */
#include "world.h"

#include <errno.h>
#include <sys/stat.h>

#define R VFS_ROOT

static struct world world;

static int setup(void **state)
{
	(void)state;
	world_open(&world, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	world_close(&world);
	return 0;
}

enum kind { NONE, A_FILE, A_DIR, A_FULL_DIR, A_LINK, SAME, KINDS };

static int64_t make_kind(int64_t dir, const char *name, enum kind kind, int64_t same)
{
	int64_t ino;

	switch (kind) {
	case A_FILE:
		return world_create(&world, dir, name);
	case A_DIR:
		return world_mkdir(&world, dir, name);
	case A_FULL_DIR:
		ino = world_mkdir(&world, dir, name);
		assert_true(world_create(&world, ino, "inside") > 0);
		return ino;
	case A_LINK:
		return world_symlink(&world, dir, name, "target");
	case SAME:
		assert_int_equal(world_link(&world, same, dir, name), 0);
		return same;
	case NONE:
	case KINDS:
		break;
	}
	return -ENOENT;
}

static bool is_dir_kind(enum kind kind)
{
	return kind == A_DIR || kind == A_FULL_DIR;
}

/* What Linux answers, without permissions. */
static int expect(enum kind from, enum kind to, unsigned flags)
{
	if (from == NONE)
		return -ENOENT;
	if (to == NONE)
		return flags & RENAME_EXCHANGE ? -ENOENT : 0;
	if (flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (to == SAME || (flags & RENAME_EXCHANGE))
		return 0;
	if (is_dir_kind(from) && !is_dir_kind(to))
		return -ENOTDIR;
	if (!is_dir_kind(from) && is_dir_kind(to))
		return -EISDIR;
	return to == A_FULL_DIR ? -ENOTEMPTY : 0;
}

static void check_pair(enum kind from, enum kind to, unsigned flags, bool same_dir)
{
	static unsigned pairs;
	char top_name[16];
	int64_t top, a, b, old, new, now_old, now_new;
	int want = expect(from, to, flags), r;
	bool happened = want == 0 && to != SAME;
	uint32_t dirs_a = 2, dirs_b = 2;

	snprintf(top_name, sizeof(top_name), "pair %u", pairs++);
	top = world_mkdir(&world, R, top_name);
	a = world_mkdir(&world, top, "a");
	b = same_dir ? a : world_mkdir(&world, top, "b");
	now_old = old = make_kind(a, "old", from, 0);
	now_new = new = make_kind(b, "new", to, old);
	r = world_rename(&world, a, "old", b, "new", flags);
	if (r != want)
		fail_msg("kind %d onto %d, flags %x, %s: got %d, want %d", (int)from, (int)to,
			 flags, same_dir ? "same directory" : "two", r, want);
	if (happened) {
		now_new = old;
		now_old = flags & RENAME_EXCHANGE ? new : -ENOENT;
	}
	if (!(happened && (flags & RENAME_WHITEOUT)))
		assert_int_equal(world_find(&world, a, "old"), now_old);
	assert_int_equal(world_find(&world, b, "new"), now_new);
	if (happened && !(flags & RENAME_EXCHANGE) && to != NONE)
		assert_int_equal(world_nlink(&world, new), 0);
	dirs_a += is_dir_kind(from) && !(happened && !(flags & RENAME_EXCHANGE) && !same_dir);
	dirs_b += is_dir_kind(to);
	if (happened && !same_dir) {
		dirs_a = 2 + ((flags & RENAME_EXCHANGE) && is_dir_kind(to));
		dirs_b = 2 + is_dir_kind(from);
	}
	if (same_dir)
		dirs_a += is_dir_kind(to) && !(happened && !(flags & RENAME_EXCHANGE));
	assert_int_equal(world_nlink(&world, a), dirs_a);
	if (!same_dir)
		assert_int_equal(world_nlink(&world, b), dirs_b);
	if (now_new > 0 && is_dir_kind(happened ? from : to))
		assert_int_equal(world_find(&world, now_new, ".."), b);
	if (now_old > 0 && is_dir_kind(happened ? to : from))
		assert_int_equal(world_find(&world, now_old, ".."), a);
}

static void every_kind_onto_every_kind(void **state)
{
	static const unsigned flags[] = {0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT};

	(void)state;
	for (size_t f = 0; f < ARRAY_LEN(flags); f++)
		for (enum kind from = NONE; from < SAME; from++)
			for (enum kind to = NONE; to < KINDS; to++) {
				if (to == SAME && (from == NONE || is_dir_kind(from)))
					continue;
				check_pair(from, to, flags[f], true);
				check_pair(from, to, flags[f], false);
			}
}

static void names_that_are_none(void **state)
{
	int64_t dir = world_mkdir(&world, R, "d");
	char name[VFS_NAME_MAX + 2];

	(void)state;
	memset(name, 'n', sizeof(name));
	name[VFS_NAME_MAX + 1] = 0;
	assert_int_equal(world_rename(&world, dir, ".", R, "x", 0), -EBUSY);
	assert_int_equal(world_rename(&world, R, "d", dir, "..", 0), -EBUSY);
	assert_int_equal(world_rename(&world, R, "d", R, ".", RENAME_NOREPLACE), -EEXIST);
	assert_int_equal(world_rename(&world, R, "d", R, "a/b", 0), -EINVAL);
	assert_int_equal(world_rename(&world, R, "d", R, "", 0), -EINVAL);
	assert_int_equal(world_rename(&world, R, "d", R, name, 0), -ENAMETOOLONG);
	assert_int_equal(world_rename(&world, R, name, R, "x", 0), -ENAMETOOLONG);
	assert_int_equal(world_rename(&world, R, "none", R, name, 0), -ENOENT);
}

static void flags_that_are_none(void **state)
{
	(void)state;
	world_create(&world, R, "a");
	world_create(&world, R, "b");
	assert_int_equal(world_rename(&world, R, "a", R, "b", 8), -EINVAL);
	assert_int_equal(world_rename(&world, R, "a", R, "b", RENAME_EXCHANGE | RENAME_NOREPLACE),
			 -EINVAL);
	assert_int_equal(world_rename(&world, R, "a", R, "b", RENAME_EXCHANGE | RENAME_WHITEOUT),
			 -EINVAL);
}

/* With everything in memory, and again with nothing: the way up is then read from the database. */
static void a_directory_cannot_go_into_itself(void **state)
{
	int64_t a = world_mkdir(&world, R, "a"), b = world_mkdir(&world, a, "b");
	int64_t c = world_mkdir(&world, b, "c"), x = world_mkdir(&world, R, "x");

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(world_rename(&world, R, "a", a, "y", 0), -EINVAL);
		assert_int_equal(world_rename(&world, R, "a", c, "y", 0), -EINVAL);
		assert_int_equal(world_rename(&world, a, "b", c, "y", 0), -EINVAL);
		assert_int_equal(world_rename(&world, b, "c", R, "a", 0), -ENOTEMPTY);
		assert_int_equal(world_rename(&world, b, "c", R, "a", RENAME_EXCHANGE), -EINVAL);
		assert_int_equal(world_rename(&world, R, "a", b, "c", RENAME_EXCHANGE), -EINVAL);
		world_reopen(&world);
	}
	assert_int_equal(world_rename(&world, b, "c", x, "c", 0), 0);
	assert_int_equal(world_rename(&world, R, "a", c, "y", 0), 0);
	assert_int_equal(world_rename(&world, R, "x", b, "z", 0), -EINVAL);
	world_reopen(&world);
	assert_int_equal(world_rename(&world, R, "x", b, "z", 0), -EINVAL);
	assert_int_equal(world_find(&world, c, ".."), x);
	assert_int_equal(world_nlink(&world, R), 3);
	assert_int_equal(world_nlink(&world, c), 3);
}

static void a_whiteout_is_left_behind(void **state)
{
	struct vfs_attr attr;
	int64_t file = world_create(&world, R, "a");

	(void)state;
	assert_int_equal(world_rename(&world, R, "a", R, "b", RENAME_WHITEOUT), 0);
	world_reopen(&world);
	assert_int_equal(world_find(&world, R, "b"), file);
	assert_int_equal(vfs_lookup(world.vfs, &root_ctx, R, SPAN("a"), &attr), 0);
	assert_int_equal(attr.mode, S_IFCHR);
	assert_int_equal(attr.rdev, 0);
}

static void moving_needs_permissions_on_both_sides(void **state)
{
	struct vfs_ctx user = user_ctx(1000, 1000);
	int64_t mine = world_mkdir(&world, R, "mine"), other = world_mkdir(&world, R, "other");
	struct vfs_attr attr = {.uid = 1000}, got;

	(void)state;
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, mine, VFS_SET_UID, &attr, &got), 0);
	world_create(&world, mine, "f");
	world_create(&world, other, "f");
	world_mkdir(&world, mine, "d");
	assert_int_equal(vfs_rename(world.vfs, &user, mine, SPAN("f"), other, SPAN("g"), 0),
			 -EACCES);
	assert_int_equal(vfs_rename(world.vfs, &user, other, SPAN("f"), mine, SPAN("g"), 0),
			 -EACCES);
	assert_int_equal(vfs_rename(world.vfs, &user, mine, SPAN("f"), mine, SPAN("g"), 0), 0);
	/* A directory of somebody else may be renamed, but its ".." not be changed. */
	assert_int_equal(vfs_rename(world.vfs, &user, mine, SPAN("d"), mine, SPAN("e"), 0), 0);
	attr.mode = 0777;
	assert_int_equal(vfs_setattr(world.vfs, &root_ctx, other, VFS_SET_MODE, &attr, &got), 0);
	assert_int_equal(vfs_rename(world.vfs, &user, mine, SPAN("e"), other, SPAN("e"), 0),
			 -EACCES);
	assert_int_equal(vfs_rename(world.vfs, &user, mine, SPAN("g"), other, SPAN("g"), 0), 0);
}

static void a_replaced_open_file_lives_on(void **state)
{
	int64_t old = world_create(&world, R, "a"), new = world_create(&world, R, "b");

	(void)state;
	world_put(&world, new, "replaced");
	assert_int_equal(vfs_open(world.vfs, &root_ctx, new, 0), 0);
	assert_int_equal(world_rename(&world, R, "a", R, "b", 0), 0);
	assert_int_equal(vfs_flush(world.vfs, false), 0);
	assert_int_equal(world_find(&world, R, "b"), old);
	world_check_text(&world, new, "replaced");
	vfs_release(world.vfs, new);
	assert_int_equal(world_nlink(&world, new), 0);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(every_kind_onto_every_kind),    CASE(names_that_are_none),
		CASE(flags_that_are_none),           CASE(a_directory_cannot_go_into_itself),
		CASE(a_whiteout_is_left_behind),     CASE(moving_needs_permissions_on_both_sides),
		CASE(a_replaced_open_file_lives_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
