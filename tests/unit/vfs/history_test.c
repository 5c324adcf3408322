/* history_test.c - random histories of names against a model: every answer, then everything.
 *
 * VFS_HISTORY=SEED runs one seed for longer. */
#include "world.h"

#include "base/parse.h"
#include "store/store.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#define NODES 250
#define NAMES 9
#define STEPS 4000
#define TEXT 24

/* ---- the model ---- */

enum kind { GONE, A_FILE, A_DIR, A_LINK };

struct node {
	enum kind kind;
	int64_t ino;
	uint32_t nlink;
	int parent, opens;
	int entry[NAMES]; /* of a directory, by name; 0: none (0 is the root, which has no name) */
	char text[TEXT];  /* content or target */
};

static const char *const names[NAMES] = {"a",      "b",        "c", "dd", "ee",
					 "a name", "\xff\xfe", "z", "a0"};

static struct world world;
static struct node nodes[NODES];
static int count; /* of nodes ever made */
static uint64_t rng;
static _Atomic int commit_error;

int real_store_commit(struct store *store, bool durable) __asm__("__real_store_commit");
int wrap_store_commit(struct store *store, bool durable) __asm__("__wrap_store_commit");

/* What happens while a flush that was asked for here has frozen, and not yet committed. */
static _Atomic unsigned steps_in_commit;
static bool last_failed; /* then what needs space would flush again */
static void steps_during_commit(void);

int wrap_store_commit(struct store *store, bool durable)
{
	if (steps_in_commit)
		steps_during_commit();
	last_failed = commit_error != 0;
	if (commit_error) {
		store_rollback(store);
		return commit_error;
	}
	return real_store_commit(store, durable);
}

static unsigned pick(unsigned n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (unsigned)((rng >> 33) % n);
}

static bool is_empty(const struct node *dir)
{
	for (int i = 0; i < NAMES; i++)
		if (dir->entry[i])
			return false;
	return true;
}

static bool is_below(int above, int node)
{
	for (; node != above; node = nodes[node].parent)
		if (node == 0)
			return false;
	return true;
}

/* A directory mostly, so that something happens. */
static int pick_node(void)
{
	int node = 0;

	for (int i = 0; i < 8; i++) {
		node = (int)pick((unsigned)count);
		if (nodes[node].kind == A_DIR)
			break;
	}
	return node;
}

static void lose_name(int node)
{
	nodes[node].nlink = nodes[node].kind == A_DIR ? 0 : nodes[node].nlink - 1;
	if (nodes[node].nlink == 0 && nodes[node].opens == 0)
		nodes[node].kind = GONE;
}

static int dir_error(int dir)
{
	if (nodes[dir].kind == GONE)
		return -ESTALE;
	return nodes[dir].kind == A_DIR ? 0 : -ENOTDIR;
}

static void check(int got, int want, const char *what)
{
	if (got != want)
		fail_msg("%s: got %d, want %d", what, got, want);
}

/* ---- steps ---- */

/* One more, or in place of one that is gone. 0: there are enough. */
static int new_node(void)
{
	if (count < NODES)
		return count++;
	for (int i = 0; i < NODES; i++) {
		int node = (int)pick(NODES);

		if (nodes[node].kind == GONE)
			return node;
	}
	return 0;
}

static void step_make(enum kind kind)
{
	int dir = pick_node(), name = (int)pick(NAMES), want = dir_error(dir), made;
	struct node new = {.kind = kind, .nlink = kind == A_DIR ? 2 : 1, .parent = dir};
	int64_t ino;

	if (want == 0 && nodes[dir].entry[name])
		want = -EEXIST;
	if (kind == A_FILE) {
		ino = world_create(&world, nodes[dir].ino, names[name]);
	} else if (kind == A_DIR) {
		ino = world_mkdir(&world, nodes[dir].ino, names[name]);
	} else {
		snprintf(new.text, TEXT, "target%u", pick(1000));
		ino = world_symlink(&world, nodes[dir].ino, names[name], new.text);
	}
	check(ino < 0 ? (int)ino : 0, want, "make");
	if (want < 0)
		return;
	made = new_node();
	if (!made) {
		assert_int_equal(kind == A_DIR ? world_rmdir(&world, nodes[dir].ino, names[name])
					       : world_unlink(&world, nodes[dir].ino, names[name]),
				 0);
		return;
	}
	new.ino = ino;
	nodes[made] = new;
	nodes[dir].entry[name] = made;
	nodes[dir].nlink += kind == A_DIR;
}

static void step_link(void)
{
	int dir = pick_node(), name = (int)pick(NAMES), node = (int)pick((unsigned)count), want;

	want = nodes[node].kind == GONE ? -ESTALE : dir_error(dir);
	if (want == 0 && nodes[dir].entry[name])
		want = -EEXIST;
	if (want == 0 && nodes[node].kind == A_DIR)
		want = -EPERM;
	if (want == 0 && nodes[node].nlink == 0)
		want = -ENOENT;
	check(world_link(&world, nodes[node].ino, nodes[dir].ino, names[name]), want, "link");
	if (want < 0)
		return;
	nodes[dir].entry[name] = node;
	nodes[node].nlink++;
}

static void step_remove(bool is_rmdir)
{
	int dir = pick_node(), name = (int)pick(NAMES), want = dir_error(dir), node = 0, got;

	if (want == 0) {
		node = nodes[dir].entry[name];
		if (!node)
			want = -ENOENT;
		else if (is_rmdir && nodes[node].kind != A_DIR)
			want = -ENOTDIR;
		else if (is_rmdir && !is_empty(&nodes[node]))
			want = -ENOTEMPTY;
		else if (!is_rmdir && nodes[node].kind == A_DIR)
			want = -EISDIR;
	}
	if (is_rmdir)
		got = world_rmdir(&world, nodes[dir].ino, names[name]);
	else
		got = world_unlink(&world, nodes[dir].ino, names[name]);
	check(got, want, is_rmdir ? "rmdir" : "unlink");
	if (want < 0)
		return;
	nodes[dir].entry[name] = 0;
	nodes[dir].nlink -= is_rmdir;
	lose_name(node);
}

static int rename_error(int dir, int old, int dir2, int new, unsigned flags)
{
	bool exchange = flags & RENAME_EXCHANGE;

	if (!old || (!new &&exchange))
		return -ENOENT;
	if (new && (flags & RENAME_NOREPLACE))
		return -EEXIST;
	if (dir != dir2 && nodes[old].kind == A_DIR && is_below(old, dir2))
		return -EINVAL;
	if (dir != dir2 && new &&nodes[new].kind == A_DIR && is_below(new, dir))
		return exchange ? -EINVAL : -ENOTEMPTY;
	if (!new || exchange || old == new)
		return 0;
	if (nodes[old].kind == A_DIR && nodes[new].kind != A_DIR)
		return -ENOTDIR;
	if (nodes[old].kind != A_DIR && nodes[new].kind == A_DIR)
		return -EISDIR;
	return nodes[new].kind == A_DIR && !is_empty(&nodes[new]) ? -ENOTEMPTY : 0;
}

static void set_parent(int node, int dir)
{
	if (nodes[node].kind != A_DIR)
		return;
	nodes[nodes[node].parent].nlink--;
	nodes[dir].nlink++;
	nodes[node].parent = dir;
}

static void step_rename(void)
{
	static const unsigned some_flags[] = {0, 0, 0, RENAME_EXCHANGE, RENAME_NOREPLACE};
	unsigned flags = some_flags[pick(ARRAY_LEN(some_flags))];
	int dir = pick_node(), name = (int)pick(NAMES), dir2 = pick(3) ? pick_node() : dir;
	int name2 = (int)pick(NAMES), want = dir_error(dir), old = 0, new = 0;

	if (want == 0)
		want = dir_error(dir2);
	if (want == 0) {
		old = nodes[dir].entry[name];
		new = nodes[dir2].entry[name2];
		want = rename_error(dir, old, dir2, new, flags);
		if (want == 0 && !new &&nodes[dir2].nlink == 0)
			want = -ENOENT;
	}
	check(world_rename(&world, nodes[dir].ino, names[name], nodes[dir2].ino, names[name2],
			   flags),
	      want, "rename");
	if (want < 0 || old == new)
		return;
	nodes[dir2].entry[name2] = old;
	nodes[dir].entry[name] = flags & RENAME_EXCHANGE ? new : 0;
	if (new && !(flags & RENAME_EXCHANGE)) {
		nodes[dir2].nlink -= nodes[new].kind == A_DIR;
		lose_name(new);
	} else if (new) {
		set_parent(new, dir);
	}
	set_parent(old, dir2);
}

static void step_write(void)
{
	int node = (int)pick((unsigned)count);

	if (nodes[node].kind != A_FILE)
		return;
	snprintf(nodes[node].text, TEXT, "text %u", pick(1000000));
	world_put(&world, nodes[node].ino, nodes[node].text);
}

static void step_open(void)
{
	int node = (int)pick((unsigned)count);

	if (nodes[node].kind != A_FILE)
		return;
	if (nodes[node].opens && pick(2)) {
		vfs_release(world.vfs, nodes[node].ino);
		if (--nodes[node].opens == 0 && nodes[node].nlink == 0)
			nodes[node].kind = GONE;
		return;
	}
	assert_int_equal(vfs_open(world.vfs, &root_ctx, nodes[node].ino, 0), 0);
	nodes[node].opens++;
}

/* ---- comparing ---- */

struct seen {
	const struct node *dir;
	unsigned count;
	bool plus;
	bool name[NAMES];
};

static int see(void *arg, const struct vfs_entry *entry)
{
	static const uint32_t modes[] = {[A_FILE] = S_IFREG, [A_DIR] = S_IFDIR, [A_LINK] = S_IFLNK};
	struct seen *seen = arg;

	if (span_eq(entry->name, SPAN("."))) {
		assert_int_equal(entry->attr.ino, seen->dir->ino);
		return 0;
	}
	if (span_eq(entry->name, SPAN(".."))) {
		assert_int_equal(entry->attr.ino, nodes[seen->dir->parent].ino);
		return 0;
	}
	for (int i = 0; i < NAMES; i++) {
		const struct node *node = &nodes[seen->dir->entry[i]];

		if (!seen->dir->entry[i] || !span_eq(entry->name, span_str(names[i])))
			continue;
		assert_false(seen->name[i]);
		seen->name[i] = true;
		seen->count++;
		assert_int_equal(entry->attr.ino, node->ino);
		assert_int_equal(entry->attr.mode & S_IFMT, modes[node->kind]);
		if (seen->plus)
			assert_int_equal(entry->attr.nlink, node->nlink);
		return 0;
	}
	fail_msg("an entry that should not be there");
	return 0;
}

static void compare_dir(struct node *dir, bool plus)
{
	struct seen seen = {.dir = dir, .plus = plus};
	unsigned want = 0;

	for (int i = 0; i < NAMES; i++) {
		int64_t ino = world_find(&world, dir->ino, names[i]);

		assert_int_equal(ino, dir->entry[i] ? nodes[dir->entry[i]].ino : -ENOENT);
		want += dir->entry[i] != 0;
	}
	assert_int_equal(vfs_readdir(world.vfs, &root_ctx, dir->ino, 0, plus, see, &seen),
			 dir->nlink ? 0 : -ENOENT);
	assert_int_equal(seen.count, want);
	for (int i = 0; i < NAMES && plus; i++)
		if (dir->entry[i])
			vfs_forget(world.vfs, nodes[dir->entry[i]].ino, 1);
}

static void compare(void)
{
	CLEANUP(buf_clear) struct buf target = BUF_INIT(PATH_MAX);
	uint64_t bytes = 0, inodes = 0;
	struct vfs_stats stats;

	for (int i = 0; i < count; i++) {
		struct node *node = &nodes[i];

		assert_int_equal(world_nlink(&world, node->ino), node->nlink);
		if (node->kind == GONE)
			continue;
		inodes++;
		if (node->kind == A_DIR) {
			compare_dir(node, pick(2));
		} else if (node->kind == A_FILE) {
			world_check_text(&world, node->ino, node->text);
			bytes += strlen(node->text);
		} else {
			buf_clear(&target);
			target.max = PATH_MAX;
			assert_int_equal(vfs_readlink(world.vfs, &root_ctx, node->ino, &target), 0);
			assert_string_equal(target.data, node->text);
		}
	}
	vfs_get_stats(world.vfs, &stats);
	assert_int_equal(stats.inodes, inodes);
	assert_int_equal(stats.bytes, bytes);
}

/* Nothing survives that has no name. */
static void reopen(void)
{
	world_reopen(&world);
	for (int i = 0; i < count; i++) {
		nodes[i].opens = 0;
		if (nodes[i].nlink == 0)
			nodes[i].kind = GONE;
	}
}

static void flush(bool durable)
{
	int r;

	steps_in_commit = pick(3) ? pick(30) : 0;
	r = vfs_flush(world.vfs, durable);
	steps_in_commit = 0;
	assert_true(r == 0 || r == commit_error);
}

static void fail_for_a_while(void)
{
	step_write();
	commit_error = -ENOSPC;
	for (unsigned i = pick(6); i; i--)
		step_remove(pick(4) == 0);
	flush(false);
	for (unsigned i = pick(6); i; i--)
		step_remove(pick(4) == 0);
	flush(true);
	if (pick(2))
		compare();
	commit_error = 0;
}

static void sometimes(void)
{
	unsigned what = pick(3000);

	if (what < 60)
		flush(what < 5);
	else if (what < 64)
		reopen();
	else if (what < 70)
		fail_for_a_while();
	else if (what < 80)
		vfs_idle(world.vfs);
	else if (what < 100)
		compare();
}

static void step(void)
{
	unsigned what = pick(100);

	if (what < 18)
		step_make(A_FILE);
	else if (what < 26)
		step_make(A_DIR);
	else if (what < 30)
		step_make(A_LINK);
	else if (what < 40)
		step_link();
	else if (what < 56)
		step_remove(false);
	else if (what < 64)
		step_remove(true);
	else if (what < 84)
		step_rename();
	else if (what < 94)
		step_write();
	else
		step_open();
}

static void steps_during_commit(void)
{
	unsigned steps = steps_in_commit;

	steps_in_commit = 0;
	for (; steps; steps--) {
		if (last_failed)
			step_remove(pick(4) == 0);
		else
			step();
	}
	if (pick(2))
		compare();
}

static int steps_done; /* for the message */

static void run(uint64_t seed, uint64_t cache_max, int steps)
{
	struct vfs_options options = {.cache_max = cache_max};

	rng = seed * 0x9e3779b97f4a7c15u + 1;
	world_open(&world, &options);
	nodes[0] = (struct node){.kind = A_DIR, .ino = VFS_ROOT, .nlink = 2};
	count = 1;
	print_message("# seed %llu\n", (unsigned long long)seed);
	for (steps_done = 0; steps_done < steps; steps_done++) {
		step();
		sometimes();
	}
	compare();
	reopen();
	compare();
	world_close(&world);
}

static void random_histories(void **state)
{
	const char *text = getenv("VFS_HISTORY");
	uint64_t seed;

	(void)state;
	if (text && parse_u64(text, &seed) == 0) {
		run(seed, 0, STEPS * 100);
		return;
	}
	for (seed = 1; seed <= 4; seed++)
		run(seed, 0, STEPS);
}

static void random_histories_in_little_memory(void **state)
{
	(void)state;
	for (uint64_t seed = 101; seed <= 104; seed++)
		run(seed, 10, STEPS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_histories),
		cmocka_unit_test(random_histories_in_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
