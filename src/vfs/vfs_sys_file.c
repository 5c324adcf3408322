/* vfs_sys_file.c - the calls on content: open, read, write and their like. */
#include "base/mem.h"
#include "vfs/vfs_sys_i.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- open ---- */

static int64_t new_fd(struct vfs_sys *s, int64_t ino, int flags)
{
	int fd = sys_fd_new(s, ino, flags);

	if (fd < 0)
		vfs_release(s->vfs, ino);
	return fd;
}

/* Turn the reference that comes with something new into an open one. Under `lock`. */
static void keep_new(struct inode *inode)
{
	content_hold(inode);
	inode->lookups--;
}

static int64_t open_tmpfile(struct vfs_sys *s, int64_t dir, struct span path, int flags,
			    uint32_t mode)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	struct vfs_attr attr = {0};
	struct inode *inode;
	int r;

	if ((flags & O_ACCMODE) == O_RDONLY)
		return -EINVAL;
	r = sys_resolve(s, dir, path, 0, 0, &place);
	if (r == 0)
		r = vfs_tmpfile(s->vfs, &s->ctx, place.inode->row.ino, mode, &attr);
	if (r < 0)
		return r;
	vfs_lock(s->vfs);
	r = inode_get(s->vfs, attr.ino, &inode);
	if (r == 0) {
		keep_new(inode);
		if (flags & O_EXCL)
			inode->state &= ~(unsigned)INODE_LINKABLE;
	}
	vfs_unlock(s->vfs);
	return r < 0 ? r : new_fd(s, attr.ino, flags);
}

/* What is there, for open(2) with these flags. */
static int check_open(const struct inode *inode, int flags)
{
	uint32_t mode = inode->row.mode;

	if ((flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	if ((flags & O_CREAT) && S_ISDIR(mode))
		return -EISDIR;
	if (S_ISLNK(mode) && !(flags & O_PATH))
		return flags & O_DIRECTORY ? -ENOTDIR : -ELOOP;
	if ((flags & O_DIRECTORY) && !S_ISDIR(mode))
		return -ENOTDIR;
	if (!S_ISREG(mode) && !S_ISDIR(mode) && !(flags & O_PATH))
		return -ENXIO; /* nobody is at the other end */
	return 0;
}

/* Walk, and make the file if it is missing: one step. Under `lock`. 1: made, and held. */
static int find_or_make(struct vfs_sys *s, const struct sys_req *req, int flags,
			struct place *place)
{
	bool nofollow = (flags & O_NOFOLLOW) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
	unsigned walk = nofollow ? 0 : WALK_FOLLOW;
	struct inode *inode;
	int r;

	if (flags & O_CREAT)
		walk |= WALK_CREATE;
	r = sys_walk(s, req->a[0], req->in[0], walk, place, NULL);
	if (r < 0)
		return r;
	if (place->inode)
		return check_open(place->inode, flags);
	if (place->slash)
		return -EISDIR;
	r = names_create(s->vfs, &s->ctx, place->dir->row.ino, place->name, (uint32_t)req->a[2],
			 &inode);
	if (r < 0)
		return r;
	keep_new(inode);
	place->inode = inode; /* the one hold is the descriptor's, or the place's */
	return 1;
}

int64_t answer_open(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	int flags = (int)req->a[1];
	int64_t ino;
	int r;

	(void)out;
	if (req->a[1] < 0 || req->a[1] > INT32_MAX || (flags & O_ACCMODE) == O_ACCMODE)
		return -EINVAL;
	if (!sys_fd_room(s))
		return -EMFILE;
	if (flags & O_PATH)
		flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW;
	if ((flags & O_TMPFILE) == O_TMPFILE)
		return open_tmpfile(s, req->a[0], req->in[0], flags, (uint32_t)req->a[2]);
	if ((flags & O_CREAT) && (flags & O_DIRECTORY))
		return -EINVAL;
	if (flags & O_CREAT) {
		r = flush_throttle(s->vfs);
		if (r < 0)
			return r;
	}
	vfs_lock(s->vfs);
	r = find_or_make(s, req, flags, &place);
	if (r == 0 && (flags & O_PATH))
		content_hold(place.inode);
	vfs_unlock(s->vfs);
	if (r < 0)
		return r;
	ino = place.inode->row.ino;
	if (r == 1) /* whatever its mode says: who made it may use it */
		place.inode = NULL;
	else if (!(flags & O_PATH))
		r = vfs_open(s->vfs, &s->ctx, ino, flags & (O_ACCMODE | O_TRUNC));
	return r < 0 ? r : new_fd(s, ino, flags);
}

/* ---- read and write ---- */

static int sync_after(struct vfs_sys *s, const struct descriptor *fd)
{
	if (!(fd->flags & O_DSYNC)) /* O_SYNC has its bit as well */
		return 0;
	return vfs_fsync(s->vfs, fd->ino, (fd->flags & O_SYNC) != O_SYNC);
}

int64_t answer_read(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	struct descriptor *fd = sys_fd_for(s, req->a[0], O_RDONLY);
	int64_t len = req->a[1], offset = req->a[2];
	char *room;
	ssize_t n;
	int r;

	if (!fd)
		return -EBADF;
	if (len < 0 || offset < -1)
		return -EINVAL;
	if ((uint64_t)len > out->max - out->len)
		len = (int64_t)(out->max - out->len);
	if (len > SYS_IO_MAX)
		len = SYS_IO_MAX;
	r = buf_reserve(out, (size_t)len, &room);
	if (r < 0)
		return r;
	n = vfs_read(s->vfs, &s->ctx, fd->ino, offset < 0 ? fd->pos : offset, room, (size_t)len);
	if (n < 0)
		return n;
	buf_filled(out, (size_t)n);
	if (offset < 0)
		fd->pos += n;
	return n;
}

int64_t answer_write(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	struct descriptor *fd = sys_fd_for(s, req->a[0], O_WRONLY);
	struct span bytes = req->in[0];
	int64_t offset = req->a[1];
	unsigned flags = 0;
	ssize_t n;
	int r;

	(void)out;
	if (!fd)
		return -EBADF;
	if (offset < -1)
		return -EINVAL;
	if (fd->flags & O_APPEND)
		flags |= VFS_WRITE_APPEND;
	n = vfs_write(s->vfs, &s->ctx, fd->ino, offset < 0 ? fd->pos : offset, bytes.data,
		      bytes.len, flags);
	if (n < 0)
		return n;
	if (offset < 0 && (fd->flags & O_APPEND)) {
		struct vfs_attr attr;

		if (vfs_getattr(s->vfs, &s->ctx, fd->ino, &attr) == 0)
			fd->pos = attr.size;
	} else if (offset < 0) {
		fd->pos += n;
	}
	r = sync_after(s, fd);
	return r < 0 ? r : n;
}

/* Where a seek starts from, and 0; or an error. */
static int seek_base(struct vfs_sys *s, const struct descriptor *fd, int64_t whence,
		     int64_t *ret_base)
{
	struct vfs_attr attr;
	int r;

	*ret_base = whence == SEEK_CUR ? fd->pos : 0;
	if (whence != SEEK_END)
		return 0;
	r = vfs_getattr(s->vfs, &s->ctx, fd->ino, &attr);
	if (r == 0)
		*ret_base = attr.size;
	return r;
}

int64_t answer_lseek(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	struct descriptor *fd = sys_fd(s, req->a[0]);
	int64_t offset = req->a[1], whence = req->a[2], pos;
	int r;

	(void)out;
	if (!fd || (fd->flags & O_PATH))
		return -EBADF;
	if (whence == SEEK_DATA || whence == SEEK_HOLE) {
		pos = vfs_lseek(s->vfs, &s->ctx, fd->ino, offset, (int)whence);
		if (pos >= 0)
			fd->pos = pos;
		return pos;
	}
	if (whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END)
		return -EINVAL;
	r = seek_base(s, fd, whence, &pos);
	if (r < 0)
		return r;
	if (__builtin_add_overflow(pos, offset, &pos))
		return -EOVERFLOW;
	if (pos < 0)
		return -EINVAL;
	fd->pos = pos;
	return pos;
}

int64_t answer_falloc(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	struct descriptor *fd = sys_fd_for(s, req->a[0], O_WRONLY);

	(void)out;
	if (!fd)
		return -EBADF;
	if (req->a[1] < 0 || req->a[1] > INT32_MAX)
		return -EOPNOTSUPP;
	return vfs_fallocate(s->vfs, &s->ctx, fd->ino, (int)req->a[1], req->a[2], req->a[3]);
}

int64_t answer_fsync(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	struct descriptor *fd = sys_fd(s, req->a[0]);

	(void)out;
	if (req->a[0] == SYS_CWD)
		return vfs_flush(s->vfs, true);
	if (!fd || (fd->flags & O_PATH))
		return -EBADF;
	return vfs_fsync(s->vfs, fd->ino, req->a[1] != 0);
}

int64_t answer_copy(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	struct descriptor *fd = sys_fd_for(s, req->a[0], O_RDONLY);
	struct descriptor *fd2 = sys_fd_for(s, req->a[2], O_WRONLY);
	int64_t from = req->a[1], to = req->a[3];
	ssize_t n;
	int r;

	(void)out;
	if (!fd || !fd2 || (fd2->flags & O_APPEND))
		return -EBADF;
	if (from < -1 || to < -1)
		return -EINVAL;
	n = vfs_copy(s->vfs, &s->ctx, fd->ino, from < 0 ? fd->pos : from, fd2->ino,
		     to < 0 ? fd2->pos : to, req->a[4]);
	if (n < 0)
		return n;
	if (from < 0)
		fd->pos += n;
	if (to < 0)
		fd2->pos += n;
	r = sync_after(s, fd2);
	return r < 0 ? r : n;
}

/* ---- whole files ---- */

/* Under io_lock, held. */
static int64_t read_whole(struct vfs_sys *s, struct inode *inode, int64_t offset, size_t len,
			  struct buf *out)
{
	struct vfs_attr attr;
	struct sys_stat st;
	char *room = NULL;
	ssize_t n;
	int r;

	if (!inode_is_file(inode))
		return inode_is_dir(inode) ? -EISDIR : -EINVAL;
	r = perm_check(s->vfs, &s->ctx, inode, R_OK);
	if (r == 0)
		r = vfs_ask(s->vfs, &s->ctx, GATE_READ, inode->row.ino, SPAN_EMPTY);
	if (r < 0)
		return r;
	if (offset >= inode->row.size)
		len = 0;
	else if (len > (uint64_t)(inode->row.size - offset))
		len = (size_t)(inode->row.size - offset);
	inode_attr(inode, &attr);
	sys_stat_of(&attr, &st);
	r = buf_add(out, &st, sizeof(st));
	if (r == 0)
		r = buf_reserve(out, len, &room);
	if (r < 0)
		return r;
	n = len ? content_read(s->vfs, inode, offset, room, len) : 0;
	if (n >= 0)
		buf_filled(out, (size_t)n);
	return n;
}

int64_t answer_readfile(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	size_t room = out->max - out->len;
	int64_t len = req->a[2], n;
	int r;

	if (req->a[1] < 0 || len < 0)
		return -EINVAL;
	if (room < sizeof(struct sys_stat))
		return -EFBIG;
	room -= sizeof(struct sys_stat);
	if (len > SYS_IO_MAX - (int64_t)sizeof(struct sys_stat))
		len = SYS_IO_MAX - (int64_t)sizeof(struct sys_stat);
	r = sys_resolve(s, req->a[0], req->in[0], 0, 0, &place);
	if (r < 0)
		return r;
	watch_pull(s->vfs, &s->ctx, place.inode->row.ino);
	io_lock(s->vfs);
	n = read_whole(s, place.inode, req->a[1], (uint64_t)len < room ? (size_t)len : room, out);
	io_unlock(s->vfs);
	return n;
}

struct whole {
	struct vfs_sys *s;
	const struct sys_req *req;
	struct place *place;
	struct content *content;
};

/* Is what the path led to still what its name leads to? Under `lock`. */
static bool still_there(const struct whole *w)
{
	const struct place *place = w->place;
	struct dentry *dentry;
	int r;

	if (!place->dir) /* a directory, and refused */
		return true;
	r = dir_find(w->s->vfs, place->dir, place->name, &dentry);
	if (place->inode)
		return r == 0 && dentry->ino == place->inode->row.ino;
	return r == -ENOENT;
}

static int check_replace(const struct whole *w, const struct inode *inode)
{
	int64_t mtime = w->req->a[3];
	int r;

	if (w->req->a[1] & O_EXCL)
		return -EEXIST;
	if (S_ISLNK(inode->row.mode))
		return -ELOOP;
	r = content_check(w->s->vfs, inode);
	if (r == 0)
		r = perm_check(w->s->vfs, &w->s->ctx, inode, W_OK);
	if (r == 0 && mtime != SYS_OMIT && mtime != SYS_NOW)
		r = perm_owner(&w->s->ctx, inode);
	return r;
}

/* Make the file that is missing; what would fail afterwards is tried before. */
static int make_whole(const struct whole *w, struct inode **ret_inode)
{
	struct vfs *vfs = w->s->vfs;
	const struct place *place = w->place;
	uint64_t need = w->req->in[1].len;
	int r;

	if (place->slash)
		return -EISDIR;
	if (need > STORE_INLINE_MAX)
		need = (uint64_t)units_of((int64_t)need) * STORE_UNIT;
	r = quota_take_bytes(vfs, need);
	if (r < 0)
		return r;
	quota_give_bytes(vfs, need);
	r = names_create(vfs, &w->s->ctx, place->dir->row.ino, place->name, (uint32_t)w->req->a[2],
			 ret_inode);
	if (r < 0)
		return r;
	content_hold(*ret_inode);
	(*ret_inode)->lookups--;
	return 0;
}

/* Under io_lock. 1: something else is there by now. */
static int write_whole(const struct whole *w)
{
	struct vfs *vfs = w->s->vfs;
	struct inode *inode = w->place->inode;
	int64_t mtime = w->req->a[3];
	int r;

	if (inode)
		content_wait(vfs, inode);
	if (!still_there(w))
		return 1;
	if (inode) {
		r = check_replace(w, inode);
		content_hold(inode);
	} else {
		r = make_whole(w, &inode);
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = vfs_ask(vfs, &w->s->ctx, GATE_WRITE, inode->row.ino, w->place->name);
	if (r == 0)
		r = content_put(vfs, inode, w->content);
	if (r == 0) {
		if (file_kills_privileges(&w->s->ctx, false) && w->place->inode)
			file_drop_privileges(vfs, &w->s->ctx, inode);
		inode_touch(vfs, inode, TOUCH_CTIME | TOUCH_MTIME);
		if (mtime != SYS_OMIT && mtime != SYS_NOW)
			inode->row.mtime = mtime;
		vfs_note(vfs, &w->s->ctx,
			 (struct gate_record){.op = GATE_WRITE,
					      .ino = inode->row.ino,
					      .size = (int64_t)w->req->in[1].len});
		watch_tell(vfs, &w->s->ctx, VFS_EVENT_MODIFY, inode, 0, SPAN_EMPTY);
	}
	content_release(vfs, inode);
	return r;
}

/* Once. 1: try again. */
static int try_whole(struct vfs_sys *s, const struct sys_req *req)
{
	CLEANUP(place_release) struct place place = PLACE_INIT(s);
	struct whole w = {.s = s, .req = req, .place = &place};
	unsigned flags =
		req->a[1] & (O_NOFOLLOW | O_EXCL) ? WALK_CREATE : WALK_CREATE | WALK_FOLLOW;
	int r;

	vfs_lock(s->vfs);
	r = sys_walk(s, req->a[0], req->in[0], flags, &place, NULL);
	if (r == 0 && place.inode)
		r = check_replace(&w, place.inode); /* before a megabyte is written */
	vfs_unlock(s->vfs);
	if (r < 0)
		return r;
	if (place.inode)
		watch_pull(s->vfs, &s->ctx, place.inode->row.ino);
	pthread_rwlock_rdlock(&s->vfs->io);
	r = content_prepare(s->vfs, req->in[1], &w.content);
	if (r == 0) {
		vfs_lock(s->vfs);
		r = write_whole(&w);
		vfs_unlock(s->vfs);
		content_free(s->vfs, w.content);
	}
	pthread_rwlock_unlock(&s->vfs->io);
	return r;
}

int64_t answer_writefile(struct vfs_sys *s, const struct sys_req *req, struct buf *out)
{
	const int64_t known =
		O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW | O_SYNC | O_CLOEXEC | O_NOCTTY;
	int r;

	(void)out;
	if (req->a[1] & ~known)
		return -EINVAL;
	r = flush_throttle(s->vfs);
	if (r < 0)
		return r;
	do
		r = try_whole(s, req);
	while (r == 1);
	if (r == 0 && (req->a[1] & O_DSYNC))
		r = vfs_flush(s->vfs, true);
	return r;
}
