/* attr.c - attributes, permission to use, quota, how full it is. */
#include "base/clock.h"
#include "vfs/units_i.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- quota ---- */

int quota_take_inode(struct vfs *vfs)
{
	if (vfs->quota_inodes && vfs->used_inodes >= vfs->quota_inodes)
		return -EDQUOT;
	vfs->used_inodes++;
	vfs->counters_dirty = true;
	return 0;
}

int quota_take_bytes(struct vfs *vfs, uint64_t bytes)
{
	if (bytes == 0)
		return 0;
	if (vfs->quota_bytes &&
	    (vfs->used_bytes >= vfs->quota_bytes || bytes > vfs->quota_bytes - vfs->used_bytes))
		return -EDQUOT;
	vfs->used_bytes += bytes;
	vfs->counters_dirty = true;
	return 0;
}

/* Counters of a damaged file may be too small. */
void quota_give_inode(struct vfs *vfs)
{
	if (vfs->used_inodes)
		vfs->used_inodes--;
	vfs->counters_dirty = true;
}

void quota_give_bytes(struct vfs *vfs, uint64_t bytes)
{
	if (bytes == 0)
		return;
	vfs->used_bytes -= bytes < vfs->used_bytes ? bytes : vfs->used_bytes;
	vfs->counters_dirty = true;
}

int vfs_statfs(struct vfs *vfs, struct vfs_statfs *ret_statfs)
{
	struct vfs_statfs st = {0};
	uint64_t size, room, left;
	int r;

	r = store_get_disk(vfs->store, &size, &room);
	if (r < 0)
		return r;
	vfs_lock(vfs);
	st.bytes = size;
	st.bytes_free = room;
	if (vfs->quota_bytes) {
		left = vfs->used_bytes < vfs->quota_bytes ? vfs->quota_bytes - vfs->used_bytes : 0;
		if (vfs->quota_bytes < size)
			st.bytes = vfs->quota_bytes;
		if (left < room)
			st.bytes_free = left;
	}
	if (vfs->quota_inodes) {
		st.inodes = vfs->quota_inodes;
		if (vfs->used_inodes < vfs->quota_inodes)
			st.inodes_free = vfs->quota_inodes - vfs->used_inodes;
	}
	vfs_unlock(vfs);
	*ret_statfs = st;
	return 0;
}

/* ---- looking ---- */

int vfs_getattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, struct vfs_attr *ret_attr)
{
	struct inode *inode;
	int r;

	watch_pull(vfs, ctx, ino);
	vfs_lock(vfs);
	r = inode_get(vfs, ino, &inode);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_STAT, ino, SPAN_EMPTY);
	if (r == 0)
		inode_attr(inode, ret_attr);
	vfs_unlock(vfs);
	return r;
}

int vfs_access(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, int mask)
{
	struct inode *inode;
	int r;

	if (mask & ~(R_OK | W_OK | X_OK))
		return -EINVAL;
	vfs_lock(vfs);
	r = inode_get(vfs, ino, &inode);
	if (r == 0)
		r = vfs_ask(vfs, ctx, GATE_STAT, ino, SPAN_EMPTY);
	if (r == 0 && mask)
		r = perm_check(vfs, ctx, inode, mask);
	vfs_unlock(vfs);
	return r;
}

/* ---- changing ---- */

struct setting {
	struct vfs *vfs;
	const struct vfs_ctx *ctx;
	struct inode *inode;
	unsigned set;
	const struct vfs_attr *attr;
};

static bool is_root(const struct vfs_ctx *ctx)
{
	return ctx->trusted || ctx->who.uid == 0;
}

static int check_owner(const struct setting *s)
{
	const struct store_node *row = &s->inode->row;
	bool own = s->ctx->who.uid == row->uid;

	if ((s->set & VFS_SET_UID) && !is_root(s->ctx) && !(own && s->attr->uid == row->uid))
		return -EPERM;
	if ((s->set & VFS_SET_GID) && !is_root(s->ctx) &&
	    !(own && (s->attr->gid == row->gid || perm_in_group(s->ctx, s->attr->gid))))
		return -EPERM;
	return (s->set & VFS_SET_MODE) ? perm_owner(s->ctx, s->inode) : 0;
}

static int check_times(const struct setting *s)
{
	const unsigned exact = VFS_SET_ATIME | VFS_SET_MTIME | VFS_SET_CTIME;
	const unsigned now = VFS_SET_ATIME_NOW | VFS_SET_MTIME_NOW;

	if (s->set & (VFS_SET_QUIET | VFS_SET_SIZE))
		return 0; /* times that come with a write */
	if (s->set & exact)
		return perm_owner(s->ctx, s->inode);
	if (!(s->set & now) || perm_owner(s->ctx, s->inode) == 0)
		return 0;
	/* utimensat(2): who may write may touch, but not choose which of the two. */
	if ((s->set & now) != now)
		return -EPERM;
	return perm_check(s->vfs, s->ctx, s->inode, W_OK);
}

static int check_size(const struct setting *s)
{
	int r;

	if (!(s->set & VFS_SET_SIZE))
		return 0;
	r = content_check(s->vfs, s->inode);
	if (r == 0 && !(s->set & VFS_SET_HANDLE))
		r = perm_check(s->vfs, s->ctx, s->inode, W_OK);
	return r;
}

/* What is asked of the gate, and recorded, for each kind of change. */
static const struct {
	unsigned set;
	enum gate_op op;
} kinds[] = {
	{VFS_SET_SIZE, GATE_TRUNCATE},
	{VFS_SET_UID | VFS_SET_GID, GATE_CHOWN},
	{VFS_SET_MODE, GATE_CHMOD},
	{VFS_SET_ATIME | VFS_SET_MTIME | VFS_SET_ATIME_NOW | VFS_SET_MTIME_NOW, GATE_UTIMES},
};

/* Times that come with a new size are no change of their own. */
static bool is_kind(unsigned set, size_t kind)
{
	return (set & kinds[kind].set) && !(kinds[kind].op == GATE_UTIMES && (set & VFS_SET_SIZE));
}

static int check(const struct setting *s)
{
	int r;

	if (s->vfs->readonly)
		return -EROFS;
	r = check_size(s);
	if (r == 0)
		r = check_owner(s);
	if (r == 0)
		r = check_times(s);
	if (s->set & VFS_SET_QUIET)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(kinds) && r == 0; i++)
		if (is_kind(s->set, i))
			r = vfs_ask(s->vfs, s->ctx, kinds[i].op, s->inode->row.ino, SPAN_EMPTY);
	return r;
}

static void note(const struct setting *s)
{
	const struct store_node *row = &s->inode->row;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct gate_record record = {.op = kinds[i].op, .ino = row->ino};

		if (!is_kind(s->set, i))
			continue;
		if (record.op == GATE_TRUNCATE) {
			record.size = row->size;
		} else if (record.op == GATE_CHOWN) {
			record.offset = row->uid;
			record.size = row->gid;
		} else if (record.op == GATE_CHMOD) {
			record.size = row->mode;
		}
		vfs_note(s->vfs, s->ctx, record);
	}
}

static void set_mode(const struct setting *s)
{
	struct store_node *row = &s->inode->row;
	uint32_t mode = s->attr->mode & 07777;

	/* setgid is not for somebody outside the group to give. */
	if ((mode & S_ISGID) && !is_root(s->ctx) && !perm_in_group(s->ctx, row->gid))
		mode &= ~(uint32_t)S_ISGID;
	row->mode = (row->mode & S_IFMT) | mode;
}

static void set_owner(const struct setting *s)
{
	struct store_node *row = &s->inode->row;

	if (s->set & VFS_SET_UID)
		row->uid = s->attr->uid;
	if (s->set & VFS_SET_GID)
		row->gid = s->attr->gid;
	if (!(s->set & VFS_SET_MODE))
		file_drop_privileges(s->vfs, s->ctx, s->inode);
}

static void set_times(const struct setting *s)
{
	struct store_node *row = &s->inode->row;
	int64_t now = clock_stamp();

	row->ctime = s->set & VFS_SET_CTIME ? s->attr->ctime : now;
	if (s->set & VFS_SET_ATIME)
		row->atime = s->attr->atime;
	if (s->set & VFS_SET_ATIME_NOW)
		row->atime = now;
	if (s->set & VFS_SET_MTIME)
		row->mtime = s->attr->mtime;
	if (s->set & (VFS_SET_MTIME_NOW | VFS_SET_SIZE) && !(s->set & VFS_SET_MTIME))
		row->mtime = now;
}

/* Under io_lock, held open. */
static int apply(const struct setting *s)
{
	const unsigned any = VFS_SET_MODE | VFS_SET_UID | VFS_SET_GID | VFS_SET_SIZE |
			     VFS_SET_ATIME | VFS_SET_MTIME | VFS_SET_CTIME | VFS_SET_ATIME_NOW |
			     VFS_SET_MTIME_NOW;
	bool kill = file_kills_privileges(s->ctx, s->set & VFS_SET_KILLPRIV);
	int r = 0;

	if (s->set & VFS_SET_SIZE)
		r = file_truncate(s->vfs, s->inode, s->attr->size);
	if (r < 0 || !(s->set & any))
		return r;
	if ((s->set & VFS_SET_SIZE) && kill)
		file_drop_privileges(s->vfs, s->ctx, s->inode);
	if (s->set & (VFS_SET_UID | VFS_SET_GID))
		set_owner(s);
	if (s->set & VFS_SET_MODE)
		set_mode(s);
	set_times(s);
	inode_dirty(s->vfs, s->inode, INODE_DIRTY);
	if (s->set & (VFS_SET_MODE | VFS_SET_UID | VFS_SET_GID))
		inode_dirty(s->vfs, s->inode, INODE_DIRTY | INODE_SIZE);
	if (s->set & VFS_SET_QUIET)
		return 0;
	note(s);
	watch_tell(s->vfs, s->ctx, s->set & VFS_SET_SIZE ? VFS_EVENT_MODIFY : VFS_EVENT_ATTR,
		   s->inode, 0, SPAN_EMPTY);
	return 0;
}

int vfs_setattr(struct vfs *vfs, const struct vfs_ctx *ctx, int64_t ino, unsigned set,
		const struct vfs_attr *attr, struct vfs_attr *ret_attr)
{
	struct setting s = {.vfs = vfs, .ctx = ctx, .set = set, .attr = attr};
	int r;

	watch_pull(vfs, ctx, ino);
	io_lock(vfs);
	r = inode_get(vfs, ino, &s.inode);
	if (r == 0)
		r = check(&s);
	if (r == 0) {
		content_hold(s.inode);
		r = apply(&s);
		if (r == 0)
			inode_attr(s.inode, ret_attr);
		content_release(vfs, s.inode);
	}
	io_unlock(vfs);
	return r;
}
