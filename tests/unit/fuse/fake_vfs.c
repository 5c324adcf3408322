/* fake_vfs.c - just enough of a vfs, in memory, to answer what the FUSE module asks.
 *
 * No permissions, no times to speak of, no locks but one. It counts references, so that a test can
 * see that all come back.
 */
#include "fake_vfs.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODES_MAX 4096
#define SIZE_MAX_FAKE (8 << 20)

struct node {
	struct vfs_attr attr;
	char *bytes;
	int64_t parent; /* of its only name; 0: no name */
	char name[VFS_NAME_MAX + 1];
	size_t name_len;
	uint64_t refs;
	char xattr[VFS_NAME_MAX + 1]; /* one extended attribute */
	char *value;
	size_t value_len;
};

struct vfs {
	pthread_mutex_t lock;
	struct node *nodes[NODES_MAX]; /* by ino */
	int64_t next;
	void (*watch)(void *arg, const struct vfs_event *event);
	void *watch_arg;
	void (*pull)(void *arg, int64_t ino);
	void *pull_arg;
};

static struct node *node_make(struct vfs *vfs, int64_t parent, struct span name, uint32_t mode)
{
	struct node *node = mem_alloc0(sizeof(*node));

	node->attr = (struct vfs_attr){.ino = vfs->next++,
				       .mode = mode,
				       .nlink = S_ISDIR(mode) ? 2 : 1,
				       .mtime = 1000000000,
				       .ctime = 1000000000};
	node->parent = parent;
	node->name_len = name.len;
	if (name.len)
		memcpy(node->name, name.data, name.len);
	vfs->nodes[node->attr.ino] = node;
	return node;
}

struct vfs *fake_vfs_new(void)
{
	struct vfs *vfs = mem_alloc0(sizeof(*vfs));

	pthread_mutex_init(&vfs->lock, NULL);
	vfs->next = VFS_ROOT;
	node_make(vfs, 0, SPAN_EMPTY, S_IFDIR | 0755);
	return vfs;
}

void fake_vfs_free(struct vfs *vfs)
{
	for (int64_t i = 0; i < NODES_MAX; i++)
		if (vfs->nodes[i]) {
			free(vfs->nodes[i]->bytes);
			free(vfs->nodes[i]->value);
			free(vfs->nodes[i]);
		}
	pthread_mutex_destroy(&vfs->lock);
	free(vfs);
}

uint64_t fake_vfs_refs(struct vfs *vfs)
{
	uint64_t refs = 0;

	pthread_mutex_lock(&vfs->lock);
	for (int64_t i = 0; i < NODES_MAX; i++)
		if (vfs->nodes[i])
			refs += vfs->nodes[i]->refs;
	pthread_mutex_unlock(&vfs->lock);
	return refs;
}

void fake_vfs_event(struct vfs *vfs, const struct vfs_event *event)
{
	pthread_mutex_lock(&vfs->lock);
	if (vfs->watch)
		vfs->watch(vfs->watch_arg, event);
	pthread_mutex_unlock(&vfs->lock);
}

void fake_vfs_pull(struct vfs *vfs, int64_t ino)
{
	if (vfs->pull)
		vfs->pull(vfs->pull_arg, ino);
}

/* ---- inside the lock ---- */

static struct node *get(struct vfs *vfs, int64_t ino)
{
	return ino > 0 && ino < NODES_MAX ? vfs->nodes[ino] : NULL;
}

static struct node *find(struct vfs *vfs, int64_t parent, struct span name)
{
	for (int64_t i = 1; i < vfs->next; i++) {
		struct node *node = vfs->nodes[i];

		if (node && node->parent == parent &&
		    span_eq(span_of(node->name, node->name_len), name))
			return node;
	}
	return NULL;
}

static void drop(struct vfs *vfs, struct node *node)
{
	if (node->parent != 0 || node->refs > 0 || node->attr.ino == VFS_ROOT)
		return;
	vfs->nodes[node->attr.ino] = NULL;
	free(node->bytes);
	free(node->value);
	free(node);
}

static int resize(struct node *node, int64_t size)
{
	if (size > SIZE_MAX_FAKE)
		return -EFBIG;
	node->bytes = mem_realloc(node->bytes, (size_t)size);
	if (size > node->attr.size)
		memset(node->bytes + node->attr.size, 0, (size_t)(size - node->attr.size));
	node->attr.size = size;
	node->attr.blocks = (size + 511) / 512;
	return 0;
}

static int make(struct vfs *vfs, int64_t parent, struct span name, uint32_t mode,
		struct vfs_attr *ret_attr)
{
	struct node *dir = get(vfs, parent);
	struct node *node;

	if (!dir)
		return -ESTALE;
	if (!S_ISDIR(dir->attr.mode))
		return -ENOTDIR;
	if (name.len && find(vfs, parent, name))
		return -EEXIST;
	if (vfs->next >= NODES_MAX)
		return -ENOSPC;
	node = node_make(vfs, name.len ? parent : 0, name, mode);
	node->refs++;
	*ret_attr = node->attr;
	return 0;
}

/* ---- the calls ---- */

#define LOCKED(vfs, expression)                           \
	({                                                \
		pthread_mutex_lock(&(vfs)->lock);         \
		__typeof__(expression) r_ = (expression); \
		pthread_mutex_unlock(&(vfs)->lock);       \
		r_;                                       \
	})
#define UNUSED __attribute__((unused))

int vfs_watch(struct vfs *vfs, bool known_only UNUSED,
	      void (*fn)(void *arg, const struct vfs_event *event), void *arg, uint64_t *ret_id)
{
	pthread_mutex_lock(&vfs->lock);
	vfs->watch = fn;
	vfs->watch_arg = arg;
	*ret_id = 1;
	pthread_mutex_unlock(&vfs->lock);
	return 0;
}

void vfs_unwatch(struct vfs *vfs, uint64_t id UNUSED)
{
	pthread_mutex_lock(&vfs->lock);
	vfs->watch = NULL;
	pthread_mutex_unlock(&vfs->lock);
}

void vfs_set_pull(struct vfs *vfs, const void *source UNUSED, void (*pull)(void *arg, int64_t ino),
		  void *arg)
{
	pthread_mutex_lock(&vfs->lock);
	vfs->pull = pull;
	vfs->pull_arg = arg;
	pthread_mutex_unlock(&vfs->lock);
}

size_t vfs_known_files(struct vfs *vfs, int64_t *ret_inos, size_t max)
{
	size_t count = 0;

	pthread_mutex_lock(&vfs->lock);
	for (int64_t i = 1; i < vfs->next; i++)
		if (vfs->nodes[i] && vfs->nodes[i]->refs && S_ISREG(vfs->nodes[i]->attr.mode)) {
			if (count < max)
				ret_inos[count] = i;
			count++;
		}
	pthread_mutex_unlock(&vfs->lock);
	return count;
}

static int lookup(struct vfs *vfs, int64_t parent, struct span name, struct vfs_attr *ret_attr)
{
	struct node *node = find(vfs, parent, name);

	if (!get(vfs, parent))
		return -ESTALE;
	if (!node)
		return -ENOENT;
	node->refs++;
	*ret_attr = node->attr;
	return 0;
}

int vfs_lookup(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t parent, struct span name,
	       struct vfs_attr *ret_attr)
{
	return LOCKED(vfs, lookup(vfs, parent, name, ret_attr));
}

void vfs_forget(struct vfs *vfs, int64_t ino, uint64_t count)
{
	struct node *node;

	pthread_mutex_lock(&vfs->lock);
	node = get(vfs, ino);
	if (!node || node->refs < count)
		abort(); /* more than was given: the module must not ask for that */
	node->refs -= count;
	drop(vfs, node);
	pthread_mutex_unlock(&vfs->lock);
}

static int getattr(struct vfs *vfs, int64_t ino, struct vfs_attr *ret_attr)
{
	struct node *node = get(vfs, ino);

	if (!node)
		return -ESTALE;
	*ret_attr = node->attr;
	return 0;
}

int vfs_getattr(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino,
		struct vfs_attr *ret_attr)
{
	return LOCKED(vfs, getattr(vfs, ino, ret_attr));
}

static int setattr(struct vfs *vfs, int64_t ino, unsigned set, const struct vfs_attr *attr,
		   struct vfs_attr *ret_attr)
{
	struct node *node = get(vfs, ino);
	int r = 0;

	if (!node)
		return -ESTALE;
	if ((set & VFS_SET_SIZE) && !S_ISREG(node->attr.mode))
		return -EISDIR;
	if (set & VFS_SET_SIZE)
		r = resize(node, attr->size);
	if (r < 0)
		return r;
	if (set & VFS_SET_MODE)
		node->attr.mode = (node->attr.mode & S_IFMT) | attr->mode;
	if (set & VFS_SET_UID)
		node->attr.uid = attr->uid;
	if (set & VFS_SET_GID)
		node->attr.gid = attr->gid;
	if (set & VFS_SET_MTIME)
		node->attr.mtime = attr->mtime;
	if (set & VFS_SET_CTIME)
		node->attr.ctime = attr->ctime;
	*ret_attr = node->attr;
	return 0;
}

int vfs_setattr(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino, unsigned set,
		const struct vfs_attr *attr, struct vfs_attr *ret_attr)
{
	return LOCKED(vfs, setattr(vfs, ino, set, attr, ret_attr));
}

int vfs_create(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t parent, struct span name,
	       uint32_t mode, int flags UNUSED, struct vfs_attr *ret_attr)
{
	return LOCKED(vfs, make(vfs, parent, name, S_IFREG | mode, ret_attr));
}

int vfs_tmpfile(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t parent, uint32_t mode,
		struct vfs_attr *ret_attr)
{
	return LOCKED(vfs, make(vfs, parent, SPAN_EMPTY, S_IFREG | mode, ret_attr));
}

int vfs_mknod(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t parent, struct span name,
	      uint32_t mode, uint64_t rdev UNUSED, struct vfs_attr *ret_attr)
{
	return LOCKED(vfs, make(vfs, parent, name, mode, ret_attr));
}

int vfs_mkdir(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t parent, struct span name,
	      uint32_t mode, struct vfs_attr *ret_attr)
{
	return LOCKED(vfs, make(vfs, parent, name, S_IFDIR | mode, ret_attr));
}

static ssize_t store(struct node *node, int64_t offset, const void *bytes, size_t len)
{
	int r = 0;

	if (offset + (int64_t)len > node->attr.size)
		r = resize(node, offset + (int64_t)len);
	if (r < 0)
		return r;
	if (len)
		memcpy(node->bytes + offset, bytes, len);
	return (ssize_t)len;
}

int vfs_symlink(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t parent, struct span name,
		struct span target, struct vfs_attr *ret_attr)
{
	int r = LOCKED(vfs, make(vfs, parent, name, S_IFLNK | 0777, ret_attr));

	if (r == 0)
		(void)!store(vfs->nodes[ret_attr->ino], 0, target.data, target.len);
	return r;
}

int vfs_link(struct vfs *vfs UNUSED, const struct vfs_ctx *ctx UNUSED, int64_t ino UNUSED,
	     int64_t parent UNUSED, struct span name UNUSED, struct vfs_attr *ret_attr UNUSED)
{
	return -EMLINK;
}

static int readlink_of(struct vfs *vfs, int64_t ino, struct buf *target)
{
	struct node *node = get(vfs, ino);

	if (!node)
		return -ESTALE;
	if (!S_ISLNK(node->attr.mode))
		return -EINVAL;
	return buf_add(target, node->bytes, (size_t)node->attr.size);
}

int vfs_readlink(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino, struct buf *target)
{
	return LOCKED(vfs, readlink_of(vfs, ino, target));
}

static int unlink_at(struct vfs *vfs, int64_t parent, struct span name)
{
	struct node *node = find(vfs, parent, name);

	if (!node)
		return -ENOENT;
	node->parent = 0;
	node->attr.nlink = 0;
	drop(vfs, node);
	return 0;
}

int vfs_unlink(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t parent, struct span name)
{
	return LOCKED(vfs, unlink_at(vfs, parent, name));
}

int vfs_rmdir(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t parent, struct span name)
{
	return LOCKED(vfs, unlink_at(vfs, parent, name));
}

static int rename_at(struct vfs *vfs, int64_t parent, struct span name, int64_t parent2,
		     struct span name2)
{
	struct node *node = find(vfs, parent, name);
	struct node *there = find(vfs, parent2, name2);

	if (!node)
		return -ENOENT;
	if (!get(vfs, parent2))
		return -ESTALE;
	if (there && there != node)
		(void)!unlink_at(vfs, parent2, name2);
	node->parent = parent2;
	node->name_len = name2.len;
	memcpy(node->name, name2.data, name2.len);
	return 0;
}

int vfs_rename(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t parent, struct span name,
	       int64_t parent2, struct span name2, unsigned flags UNUSED)
{
	return LOCKED(vfs, rename_at(vfs, parent, name, parent2, name2));
}

static ssize_t read_at(struct vfs *vfs, int64_t ino, int64_t offset, void *ret_bytes, size_t len)
{
	struct node *node = get(vfs, ino);

	if (!node)
		return -ESTALE;
	if (offset >= node->attr.size)
		return 0;
	if ((int64_t)len > node->attr.size - offset)
		len = (size_t)(node->attr.size - offset);
	memcpy(ret_bytes, node->bytes + offset, len);
	return (ssize_t)len;
}

ssize_t vfs_read(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino, int64_t offset,
		 void *ret_bytes, size_t len)
{
	return LOCKED(vfs, read_at(vfs, ino, offset, ret_bytes, len));
}

ssize_t vfs_write(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino, int64_t offset,
		  const void *bytes, size_t len, unsigned flags UNUSED)
{
	ssize_t n = -ESTALE;

	pthread_mutex_lock(&vfs->lock);
	if (offset > SIZE_MAX_FAKE)
		n = -EFBIG;
	else if (get(vfs, ino))
		n = store(get(vfs, ino), offset, bytes, len);
	pthread_mutex_unlock(&vfs->lock);
	return n;
}

int vfs_fallocate(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino, int mode UNUSED,
		  int64_t offset UNUSED, int64_t len UNUSED)
{
	return LOCKED(vfs, get(vfs, ino) ? 0 : -ESTALE);
}

int64_t vfs_lseek(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino, int64_t offset,
		  int whence)
{
	struct vfs_attr attr;
	int r = LOCKED(vfs, getattr(vfs, ino, &attr));

	if (r < 0)
		return r;
	if (offset >= attr.size)
		return -ENXIO;
	return whence == SEEK_HOLE ? attr.size : offset;
}

ssize_t vfs_copy(struct vfs *vfs UNUSED, const struct vfs_ctx *ctx UNUSED, int64_t ino UNUSED,
		 int64_t offset UNUSED, int64_t ino2 UNUSED, int64_t offset2 UNUSED, int64_t len)
{
	return (ssize_t)len;
}

int vfs_fsync(struct vfs *vfs UNUSED, int64_t ino UNUSED, bool data_only UNUSED)
{
	return 0;
}

int vfs_flush(struct vfs *vfs UNUSED, bool durable UNUSED)
{
	return 0;
}

int vfs_readdir(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino, uint64_t cookie,
		bool plus, int (*fn)(void *arg, const struct vfs_entry *entry), void *arg)
{
	static const char *const dots[] = {".", ".."};
	struct vfs_entry entry;

	for (uint64_t i = cookie; i < 2; i++) {
		entry = (struct vfs_entry){span_str(dots[i]), i + 1, {.ino = ino, .mode = S_IFDIR}};
		if (fn(arg, &entry))
			return 0;
	}
	pthread_mutex_lock(&vfs->lock);
	for (int64_t i = cookie < 2 ? 1 : (int64_t)cookie - 1; i > 0 && i < vfs->next; i++) {
		struct node *node = vfs->nodes[i];

		if (!node || node->parent != ino)
			continue;
		entry = (struct vfs_entry){span_of(node->name, node->name_len), (uint64_t)i + 2,
					   node->attr};
		if (fn(arg, &entry))
			break;
		node->refs += plus;
	}
	pthread_mutex_unlock(&vfs->lock);
	return 0;
}

int vfs_statfs(struct vfs *vfs UNUSED, struct vfs_statfs *ret_statfs)
{
	*ret_statfs = (struct vfs_statfs){1 << 30, 1 << 29, 1000, 900};
	return 0;
}

static int getxattr_of(struct vfs *vfs, int64_t ino, struct span name, struct buf *value)
{
	struct node *node = get(vfs, ino);

	if (!node)
		return -ESTALE;
	if (!node->value || !span_eq(span_str(node->xattr), name))
		return -ENODATA;
	return buf_add(value, node->value, node->value_len);
}

int vfs_getxattr(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino, struct span name,
		 struct buf *value)
{
	return LOCKED(vfs, getxattr_of(vfs, ino, name, value));
}

static int setxattr_of(struct vfs *vfs, int64_t ino, struct span name, struct span value)
{
	struct node *node = get(vfs, ino);

	if (!node)
		return -ESTALE;
	if (name.len > VFS_NAME_MAX)
		return -ERANGE;
	memcpy(node->xattr, name.data, name.len);
	node->xattr[name.len] = '\0';
	free(node->value);
	node->value = mem_dup(value.data, value.len);
	node->value_len = value.len;
	return 0;
}

int vfs_setxattr(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino, struct span name,
		 struct span value, int flags UNUSED)
{
	return LOCKED(vfs, setxattr_of(vfs, ino, name, value));
}

int vfs_listxattr(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino, struct buf *names)
{
	struct node *node = LOCKED(vfs, get(vfs, ino));

	if (!node)
		return -ESTALE;
	return node->value ? buf_add(names, node->xattr, strlen(node->xattr) + 1) : 0;
}

int vfs_removexattr(struct vfs *vfs, const struct vfs_ctx *ctx UNUSED, int64_t ino,
		    struct span name UNUSED)
{
	return LOCKED(vfs, get(vfs, ino) ? 0 : -ESTALE);
}
