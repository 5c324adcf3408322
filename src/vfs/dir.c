/* dir.c - the entries of directories: found, loaded, added, taken out. */
#include "vfs/vfs_i.h"

#include <errno.h>
#include <sys/stat.h>

#define NO_INDEX UINT32_MAX
#define MISSES_FEW 4     /* names that are not there, before all that are are worth loading */
#define LOAD_PER_MISS 16 /* how many entries may be loaded for each of them */
#define COMPACT_MIN 64

static uint64_t dentry_hash(const struct vfs *vfs, int64_t parent, struct span name)
{
	return map_hash_bytes(name.data, name.len, vfs->seed ^ map_hash_u64((uint64_t)parent));
}

/* Also a dead one. */
static struct dentry *find(const struct vfs *vfs, int64_t parent, struct span name, uint64_t hash)
{
	struct map_node *node = map_first(&vfs->dentries, hash);

	for (; node; node = map_next(node)) {
		struct dentry *dentry = map_entry(node, struct dentry, node);

		if (dentry->parent == parent && dentry->name_len == name.len &&
		    memcmp(dentry->name, name.data, name.len) == 0)
			return dentry;
	}
	return NULL;
}

static bool is_small(size_t name_len)
{
	return offsetof(struct dentry, name) + name_len <= DENTRY_SMALL;
}

static struct dentry *dentry_new(struct vfs *vfs, struct inode *dir, struct span name,
				 uint64_t hash)
{
	struct dentry *dentry;

	if (is_small(name.len))
		dentry = pool_get(&vfs->dentry_pool);
	else
		dentry = mem_alloc(sizeof(*dentry) + name.len);
	*dentry = (struct dentry){
		.parent = dir->row.ino,
		.index = NO_INDEX,
		.name_len = (uint8_t)name.len,
	};
	memcpy(dentry->name, name.data, name.len);
	list_init(&dentry->dirty);
	list_add(&dir->dentries, &dentry->sibling);
	map_add(&vfs->dentries, &dentry->node, hash);
	return dentry;
}

static void dentry_dirty(struct vfs *vfs, struct dentry *dentry)
{
	if (list_empty(&dentry->dirty))
		list_add(&vfs->dirty_dentries, &dentry->dirty);
}

void dentry_free(struct vfs *vfs, struct dentry *dentry)
{
	list_del(&dentry->dirty);
	list_del(&dentry->sibling);
	map_del(&vfs->dentries, &dentry->node);
	if (is_small(dentry->name_len))
		pool_put(&vfs->dentry_pool, dentry);
	else
		free(dentry);
}

/* ---- order ---- */

static void order_add(struct inode *dir, struct dentry *dentry)
{
	if (dir->order_len == dir->order_cap) {
		dir->order_cap = dir->order_cap ? dir->order_cap * 2 : 8;
		dir->order = mem_realloc(dir->order, dir->order_cap * sizeof(*dir->order));
	}
	dentry->index = (uint32_t)dir->order_len;
	dir->order[dir->order_len++] = (struct dir_slot){dir->next_cookie++, dentry};
}

static void order_compact(struct inode *dir)
{
	size_t to = 0;

	for (size_t from = 0; from < dir->order_len; from++) {
		if (!dir->order[from].dentry)
			continue;
		dir->order[to] = dir->order[from];
		dir->order[to].dentry->index = (uint32_t)to;
		to++;
	}
	dir->order_len = to;
	dir->order_gone = 0;
}

static void order_del(struct inode *dir, struct dentry *dentry)
{
	if (dentry->index == NO_INDEX)
		return;
	dir->order[dentry->index].dentry = NULL;
	dentry->index = NO_INDEX;
	dir->order_gone++;
	if (dir->order_gone > COMPACT_MIN && dir->order_gone > dir->order_len / 2)
		order_compact(dir);
}

size_t dir_seek(const struct inode *dir, uint64_t cookie)
{
	size_t low = 0, high = dir->order_len;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (dir->order[mid].cookie > cookie)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* ---- loading ---- */

struct load {
	struct vfs *vfs;
	struct inode *dir;
	size_t left; /* how many may be loaded still */
};

/* What is in memory is newer than the row. */
static int load_entry(struct load *load, struct span name, int64_t ino, uint32_t mode)
{
	uint64_t hash = dentry_hash(load->vfs, load->dir->row.ino, name);
	struct dentry *dentry;

	if (load->left == 0)
		return -EAGAIN;
	load->left--;
	if (name.len == 0 || name.len > VFS_NAME_MAX)
		return -EUCLEAN;
	if (find(load->vfs, load->dir->row.ino, name, hash))
		return 0;
	dentry = dentry_new(load->vfs, load->dir, name, hash);
	dentry->ino = ino;
	dentry->mode = mode & S_IFMT;
	dentry->in_db = true;
	load->dir->entries++;
	return 0;
}

static int load_row(void *arg, struct span name, int64_t ino, uint32_t mode)
{
	return load_entry(arg, name, ino, mode);
}

static int load_row_plus(void *arg, struct span name, const struct store_node *node)
{
	struct load *load = arg;

	/* Only as far as they would stay: the rest comes one by one. */
	if (load->vfs->lru_len < load->vfs->cache_max)
		(void)inode_enter(load->vfs, node);
	return load_entry(load, name, node->ino, node->mode);
}

/* -EAGAIN: more than `max`. */
static int load_all(struct vfs *vfs, struct inode *dir, bool plus, size_t max)
{
	struct load load = {.vfs = vfs, .dir = dir, .left = max};
	int r;

	if (plus)
		r = store_each_dirent_node(vfs->store, dir->row.ino, load_row_plus, &load);
	else
		r = store_each_dirent(vfs->store, dir->row.ino, load_row, &load);
	if (r < 0)
		return r;
	list_for_each (link, &dir->dentries) {
		struct dentry *dentry = list_entry(link, struct dentry, sibling);

		if (dentry->ino)
			order_add(dir, dentry);
	}
	dir->state |= INODE_COMPLETE;
	return 0;
}

int dir_complete(struct vfs *vfs, struct inode *dir, bool plus)
{
	if (dir->state & INODE_COMPLETE)
		return 0;
	return load_all(vfs, dir, plus, SIZE_MAX);
}

/* A name is not there. Asking the store for one after another costs more, in the end, than knowing
 * all that are: load as many entries as there were misses, in steps that double. */
static int miss(struct vfs *vfs, struct inode *dir)
{
	int r;

	dir->misses++;
	if (dir->misses < MISSES_FEW || (dir->misses & (dir->misses - 1)) != 0)
		return -ENOENT;
	r = load_all(vfs, dir, false, (size_t)dir->misses * LOAD_PER_MISS);
	return r < 0 && r != -EAGAIN ? r : -ENOENT;
}

int dir_find(struct vfs *vfs, struct inode *dir, struct span name, struct dentry **ret_dentry)
{
	struct dentry *dentry;
	struct inode *inode;
	uint64_t hash;
	int64_t ino;
	int r;

	if (name.len > VFS_NAME_MAX)
		return -ENAMETOOLONG;
	hash = dentry_hash(vfs, dir->row.ino, name);
	dentry = find(vfs, dir->row.ino, name, hash);
	if (!dentry) {
		if (dir->state & INODE_COMPLETE)
			return -ENOENT;
		r = store_get_dirent(vfs->store, dir->row.ino, name, &ino);
		if (r < 0)
			return r == -ENOENT ? miss(vfs, dir) : r;
		r = inode_get(vfs, ino, &inode);
		if (r < 0)
			return r == -ESTALE ? -EUCLEAN : r;
		dentry = dentry_new(vfs, dir, name, hash);
		dentry->ino = ino;
		dentry->mode = inode->row.mode & S_IFMT;
		dentry->in_db = true;
		dir->entries++;
	}
	if (!dentry->ino)
		return -ENOENT;
	*ret_dentry = dentry;
	return 0;
}

static int find_live(void *arg, struct span name, int64_t ino, uint32_t mode)
{
	struct load *load = arg;
	int64_t parent = load->dir->row.ino;
	struct dentry *dentry = find(load->vfs, parent, name, dentry_hash(load->vfs, parent, name));

	(void)ino;
	(void)mode;
	return !dentry || dentry->ino ? -ENOTEMPTY : 0;
}

int dir_check_empty(struct vfs *vfs, struct inode *dir)
{
	struct load load = {.vfs = vfs, .dir = dir};

	if (dir->entries)
		return -ENOTEMPTY;
	if (dir->state & INODE_COMPLETE)
		return 0;
	return store_each_dirent(vfs->store, dir->row.ino, find_live, &load);
}

/* ---- changing ---- */

void dir_set(struct vfs *vfs, struct inode *dir, struct span name, int64_t ino, uint32_t mode)
{
	uint64_t hash = dentry_hash(vfs, dir->row.ino, name);
	struct dentry *dentry = find(vfs, dir->row.ino, name, hash);

	if (!dentry)
		dentry = dentry_new(vfs, dir, name, hash);
	if (!dentry->ino) {
		dir->entries++;
		if (dir->state & INODE_COMPLETE)
			order_add(dir, dentry);
	}
	dentry->ino = ino;
	dentry->mode = mode & S_IFMT;
	dentry_dirty(vfs, dentry);
	inode_dirty(vfs, dir, INODE_DIRTY);
}

void dir_remove(struct vfs *vfs, struct inode *dir, struct dentry *dentry)
{
	order_del(dir, dentry);
	dir->entries--;
	dentry->ino = 0;
	if (dentry->in_db)
		dentry_dirty(vfs, dentry);
	else
		dentry_free(vfs, dentry);
	inode_dirty(vfs, dir, INODE_DIRTY);
}

void dir_forget(struct vfs *vfs, struct inode *dir)
{
	while (!list_empty(&dir->dentries))
		dentry_free(vfs, list_entry(dir->dentries.next, struct dentry, sibling));
	free(dir->order);
	dir->order = NULL;
	dir->order_len = dir->order_cap = dir->order_gone = 0;
	dir->entries = dir->misses = 0;
	dir->state &= ~(unsigned)INODE_COMPLETE;
}
