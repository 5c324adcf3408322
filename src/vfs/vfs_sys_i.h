/* vfs_sys_i.h - between the vfs_sys files: struct sys over a vfs. */
#ifndef VFS_VFS_SYS_I_H
#define VFS_VFS_SYS_I_H

#include "vfs/names_i.h"
#include "vfs/units_i.h"
#include "vfs/vfs_sys.h"

struct descriptor {
	int64_t ino; /* held open; 0: free */
	int flags;   /* O_* */
	int64_t pos;
	uint64_t owner; /* of its flock; 0: it has none */
};

struct vfs_sys {
	struct sys sys; /* first */
	struct vfs *vfs;
	struct vfs_ctx ctx;
	struct descriptor *fds;
	size_t fds_len;
	size_t lowest; /* no descriptor below is free */
};

/* ---- descriptors (vfs_sys.c) ---- */

/* A new one for an inode that was opened. -EMFILE. */
int sys_fd_new(struct vfs_sys *s, int64_t ino, int flags) MUST_USE;
bool sys_fd_room(const struct vfs_sys *s);
/* NULL: there is none. */
struct descriptor *sys_fd(struct vfs_sys *s, int64_t fd);
/* One that is open for reading, or writing (both O_ACCMODE values, not O_PATH). NULL: EBADF. */
struct descriptor *sys_fd_for(struct vfs_sys *s, int64_t fd, int accmode);
void sys_fd_close(struct vfs_sys *s, struct descriptor *fd);

/* ---- paths (vfs_sys_walk.c) ---- */

enum walk_flag {
	WALK_FOLLOW = 1 << 0, /* a link at the end */
	WALK_PARENT = 1 << 1, /* the end need not exist, and is looked up in its directory */
	WALK_CREATE = 1 << 2, /* the end need not exist, links to it are followed */
};

enum place_kind { PLACE_NAME, PLACE_DOT, PLACE_DOTDOT, PLACE_ROOT };

/* Where a path led. Both inodes are held open. */
struct place {
	struct vfs_sys *s;
	struct inode *dir;   /* with an entry `name`, or where it would be; NULL: not by a name */
	struct inode *inode; /* NULL: it is not there */
	enum place_kind kind;
	bool slash; /* the path ended in one: it must be a directory */
	struct span name;
	char name_bytes[VFS_NAME_MAX];
};
#define PLACE_INIT(of) ((struct place){.s = (of)})

/* Under `lock`: walk, from the descriptor or the root. `trail`, if not NULL, becomes the path
 * without links. -ENOENT, -ENOTDIR, -EACCES, -ELOOP, -ENAMETOOLONG, -EBADF. */
int sys_walk(struct vfs_sys *s, int64_t dir, struct span path, unsigned flags, struct place *place,
	     struct buf *trail) MUST_USE;
/* Let go of the inodes; `lock` held, or not. For CLEANUP: the second. */
void place_drop(struct place *place);
void place_release(struct place *place);

/* What a path of an AT_* call leads to: `allowed` flags, AT_EMPTY_PATH the descriptor itself. Takes
 * `lock` and gives it back. */
int sys_resolve(struct vfs_sys *s, int64_t dir, struct span path, int64_t at, int allowed,
		struct place *place) MUST_USE;
/* The same with `lock` held. */
int sys_resolve_locked(struct vfs_sys *s, int64_t dir, struct span path, int64_t at, int allowed,
		       struct place *place) MUST_USE;
/* The directory and last name of a path. Takes `lock` and gives it back. */
int sys_resolve_parent(struct vfs_sys *s, int64_t dir, struct span path,
		       struct place *place) MUST_USE;

void sys_stat_of(const struct vfs_attr *attr, struct sys_stat *ret_stat);

/* ---- one a row of calls.def ---- */
#define CALL(name, number, right, args, in, max_out) \
	int64_t answer_##name(struct vfs_sys *s, const struct sys_req *req, struct buf *out);
#include "sys/calls.def"
#undef CALL

#endif
