/* wire.h - the kernel's FUSE protocol: messages, flags, numbers.
 *
 * Interface 7.45 (Linux 6.18), little or big endian as the host. Each thing names the interface
 * version that introduced it where that is later than 7.31 (Linux 5.4), the oldest we serve. Our
 * own declarations, because the header of today's stable distributions is older than their
 * kernels. Layouts are those of the kernel's include/uapi/linux/fuse.h; docs/wire/fuse.md has them
 * as tables.
 */
#ifndef FUSE_WIRE_H
#define FUSE_WIRE_H

#include "base/base.h"

#define FUSE_MAJOR 7
#define FUSE_MINOR 45
#define FUSE_MINOR_MIN 31 /* Linux 5.4 */

#define FUSE_ROOT_ID 1

enum fuse_opcode {
#define OP(number, name, size, handler) FUSE_##name = (number),
#include "fuse/ops.def"
#undef OP
};
#define FUSE_OPCODES 64 /* all of them are below */

/* ---- INIT flags: bits 0..31 in `flags`, 32..63 in `flags2` ---- */

#define FUSE_ASYNC_READ (1ULL << 0)
#define FUSE_POSIX_LOCKS (1ULL << 1)
#define FUSE_ATOMIC_O_TRUNC (1ULL << 3)
#define FUSE_EXPORT_SUPPORT (1ULL << 4)
#define FUSE_BIG_WRITES (1ULL << 5)
#define FUSE_DONT_MASK (1ULL << 6)
#define FUSE_FLOCK_LOCKS (1ULL << 10)
#define FUSE_AUTO_INVAL_DATA (1ULL << 12)
#define FUSE_DO_READDIRPLUS (1ULL << 13)
#define FUSE_READDIRPLUS_AUTO (1ULL << 14)
#define FUSE_ASYNC_DIO (1ULL << 15)
#define FUSE_WRITEBACK_CACHE (1ULL << 16)
#define FUSE_NO_OPEN_SUPPORT (1ULL << 17)
#define FUSE_PARALLEL_DIROPS (1ULL << 18)
#define FUSE_HANDLE_KILLPRIV (1ULL << 19)
#define FUSE_POSIX_ACL (1ULL << 20)
#define FUSE_ABORT_ERROR (1ULL << 21)
#define FUSE_MAX_PAGES (1ULL << 22)
#define FUSE_CACHE_SYMLINKS (1ULL << 23)
#define FUSE_NO_OPENDIR_SUPPORT (1ULL << 24)
#define FUSE_EXPLICIT_INVAL_DATA (1ULL << 25)
#define FUSE_HANDLE_KILLPRIV_V2 (1ULL << 28)   /* 7.33 */
#define FUSE_SETXATTR_EXT (1ULL << 29)         /* 7.33 */
#define FUSE_INIT_EXT (1ULL << 30)             /* 7.36: flags2 is there */
#define FUSE_CREATE_SUPP_GROUP (1ULL << 34)    /* 7.38 */
#define FUSE_HAS_EXPIRE_ONLY (1ULL << 35)      /* 7.38 */
#define FUSE_DIRECT_IO_ALLOW_MMAP (1ULL << 36) /* 7.39 */
#define FUSE_PASSTHROUGH (1ULL << 37)          /* 7.40 */
#define FUSE_OVER_IO_URING (1ULL << 41)        /* 7.42 */

/* ---- headers ---- */

struct fuse_in_header {
	uint32_t len;
	uint32_t opcode;
	uint64_t unique;
	uint64_t nodeid;
	uint32_t uid;
	uint32_t gid;
	uint32_t pid;
	uint16_t total_extlen; /* 7.38, in units of 8 bytes */
	uint16_t padding;
};

struct fuse_out_header {
	uint32_t len;
	int32_t error;
	uint64_t unique;
};

/* ---- common parts ---- */

struct fuse_attr {
	uint64_t ino;
	uint64_t size;
	uint64_t blocks;
	uint64_t atime;
	uint64_t mtime;
	uint64_t ctime;
	uint32_t atimensec;
	uint32_t mtimensec;
	uint32_t ctimensec;
	uint32_t mode;
	uint32_t nlink;
	uint32_t uid;
	uint32_t gid;
	uint32_t rdev;
	uint32_t blksize;
	uint32_t flags; /* 7.32 */
};

struct fuse_entry_out {
	uint64_t nodeid; /* 0: there is no such name, and that may be cached */
	uint64_t generation;
	uint64_t entry_valid;
	uint64_t attr_valid;
	uint32_t entry_valid_nsec;
	uint32_t attr_valid_nsec;
	struct fuse_attr attr;
};

struct fuse_attr_out {
	uint64_t attr_valid;
	uint32_t attr_valid_nsec;
	uint32_t padding;
	struct fuse_attr attr;
};

/* ---- requests and replies ---- */

struct fuse_init_in {
	uint32_t major;
	uint32_t minor;
	uint32_t max_readahead;
	uint32_t flags;
	uint32_t flags2; /* 7.36 */
	uint32_t unused[11];
};
#define FUSE_INIT_IN_MIN 16 /* up to 7.35 */

struct fuse_init_out {
	uint32_t major;
	uint32_t minor;
	uint32_t max_readahead;
	uint32_t flags;
	uint16_t max_background;
	uint16_t congestion_threshold;
	uint32_t max_write;
	uint32_t time_gran;
	uint16_t max_pages;
	uint16_t map_alignment;
	uint32_t flags2;          /* 7.36 */
	uint32_t max_stack_depth; /* 7.40 */
	uint16_t request_timeout; /* 7.43 */
	uint16_t unused[11];
};

struct fuse_forget_in {
	uint64_t nlookup;
};

struct fuse_batch_forget_in {
	uint32_t count;
	uint32_t padding;
};

struct fuse_forget_one {
	uint64_t nodeid;
	uint64_t nlookup;
};

struct fuse_getattr_in {
	uint32_t getattr_flags;
	uint32_t padding;
	uint64_t fh;
};

struct fuse_setattr_in {
	uint32_t valid;
	uint32_t padding;
	uint64_t fh;
	uint64_t size;
	uint64_t lock_owner;
	uint64_t atime;
	uint64_t mtime;
	uint64_t ctime;
	uint32_t atimensec;
	uint32_t mtimensec;
	uint32_t ctimensec;
	uint32_t mode;
	uint32_t padding2;
	uint32_t uid;
	uint32_t gid;
	uint32_t padding3;
};

#define FUSE_FATTR_MODE (1U << 0)
#define FUSE_FATTR_UID (1U << 1)
#define FUSE_FATTR_GID (1U << 2)
#define FUSE_FATTR_SIZE (1U << 3)
#define FUSE_FATTR_ATIME (1U << 4)
#define FUSE_FATTR_MTIME (1U << 5)
#define FUSE_FATTR_FH (1U << 6)
#define FUSE_FATTR_ATIME_NOW (1U << 7)
#define FUSE_FATTR_MTIME_NOW (1U << 8)
#define FUSE_FATTR_LOCKOWNER (1U << 9)
#define FUSE_FATTR_CTIME (1U << 10)
#define FUSE_FATTR_KILL_SUIDGID (1U << 11) /* 7.33 */

struct fuse_mknod_in {
	uint32_t mode;
	uint32_t rdev;
	uint32_t umask;
	uint32_t padding;
};

struct fuse_mkdir_in {
	uint32_t mode;
	uint32_t umask;
};

struct fuse_rename_in {
	uint64_t newdir;
};

struct fuse_rename2_in {
	uint64_t newdir;
	uint32_t flags;
	uint32_t padding;
};

struct fuse_link_in {
	uint64_t oldnodeid;
};

struct fuse_create_in {
	uint32_t flags;
	uint32_t mode;
	uint32_t umask;
	uint32_t open_flags; /* 7.33 */
};

struct fuse_open_in {
	uint32_t flags;
	uint32_t open_flags; /* 7.33 */
};

struct fuse_open_out {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id; /* 7.40 */
};

#define FUSE_FOPEN_KEEP_CACHE (1U << 1)

struct fuse_release_in {
	uint64_t fh;
	uint32_t flags;
	uint32_t release_flags;
	uint64_t lock_owner;
};

struct fuse_flush_in {
	uint64_t fh;
	uint32_t unused;
	uint32_t padding;
	uint64_t lock_owner;
};

struct fuse_read_in {
	uint64_t fh;
	uint64_t offset;
	uint32_t size;
	uint32_t read_flags;
	uint64_t lock_owner;
	uint32_t flags;
	uint32_t padding;
};

struct fuse_write_in {
	uint64_t fh;
	uint64_t offset;
	uint32_t size;
	uint32_t write_flags;
	uint64_t lock_owner;
	uint32_t flags;
	uint32_t padding;
};

#define FUSE_WRITE_CACHE (1U << 0)
#define FUSE_WRITE_LOCKOWNER (1U << 1)
#define FUSE_WRITE_KILL_SUIDGID (1U << 2) /* 7.31 */

struct fuse_write_out {
	uint32_t size;
	uint32_t padding;
};

struct fuse_statfs_out {
	uint64_t blocks;
	uint64_t bfree;
	uint64_t bavail;
	uint64_t files;
	uint64_t ffree;
	uint32_t bsize;
	uint32_t namelen;
	uint32_t frsize;
	uint32_t padding;
	uint32_t spare[6];
};

struct fuse_fsync_in {
	uint64_t fh;
	uint32_t fsync_flags; /* bit 0: data only */
	uint32_t padding;
};
#define FUSE_FSYNC_DATA (1U << 0)

struct fuse_setxattr_in {
	uint32_t size;
	uint32_t flags;
	uint32_t setxattr_flags; /* 7.33, with FUSE_SETXATTR_EXT */
	uint32_t padding;
};
#define FUSE_SETXATTR_IN_COMPAT 8

struct fuse_getxattr_in {
	uint32_t size;
	uint32_t padding;
};

struct fuse_getxattr_out {
	uint32_t size;
	uint32_t padding;
};

struct fuse_lk_in {
	uint64_t fh;
	uint64_t owner;
	uint64_t start;
	uint64_t end;
	uint32_t type;
	uint32_t pid;
	uint32_t lk_flags;
	uint32_t padding;
};

struct fuse_access_in {
	uint32_t mask;
	uint32_t padding;
};

struct fuse_interrupt_in {
	uint64_t unique;
};

struct fuse_fallocate_in {
	uint64_t fh;
	uint64_t offset;
	uint64_t length;
	uint32_t mode;
	uint32_t padding;
};

struct fuse_lseek_in {
	uint64_t fh;
	uint64_t offset;
	uint32_t whence;
	uint32_t padding;
};

struct fuse_lseek_out {
	uint64_t offset;
};

struct fuse_copy_file_range_in {
	uint64_t fh_in;
	uint64_t off_in;
	uint64_t nodeid_out;
	uint64_t fh_out;
	uint64_t off_out;
	uint64_t len;
	uint64_t flags;
};

struct fuse_copy_file_range_out { /* 7.45 */
	uint64_t bytes_copied;
};

struct fuse_syncfs_in { /* 7.34 */
	uint64_t padding;
};

struct fuse_statx_in { /* 7.39 */
	uint32_t getattr_flags;
	uint32_t reserved;
	uint64_t fh;
	uint32_t sx_flags;
	uint32_t sx_mask;
};

struct fuse_sx_time {
	int64_t tv_sec;
	uint32_t tv_nsec;
	int32_t reserved;
};

struct fuse_statx {
	uint32_t mask;
	uint32_t blksize;
	uint64_t attributes;
	uint32_t nlink;
	uint32_t uid;
	uint32_t gid;
	uint16_t mode;
	uint16_t spare0;
	uint64_t ino;
	uint64_t size;
	uint64_t blocks;
	uint64_t attributes_mask;
	struct fuse_sx_time atime;
	struct fuse_sx_time btime;
	struct fuse_sx_time ctime;
	struct fuse_sx_time mtime;
	uint32_t rdev_major;
	uint32_t rdev_minor;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint64_t spare2[14];
};

struct fuse_statx_out {
	uint64_t attr_valid;
	uint32_t attr_valid_nsec;
	uint32_t flags;
	uint64_t spare[2];
	struct fuse_statx stat;
};

/* An entry of READDIR: this, the name, zeros to a multiple of 8. READDIRPLUS: fuse_entry_out first.
 */
struct fuse_dirent {
	uint64_t ino;
	uint64_t off;
	uint32_t namelen;
	uint32_t type; /* S_IFMT bits >> 12 */
};

/* ---- notifications: a reply with unique 0 and the code as error ---- */

enum fuse_notify {
	FUSE_NOTIFY_INVAL_INODE = 2,
	FUSE_NOTIFY_INVAL_ENTRY = 3,
	FUSE_NOTIFY_STORE = 4,
	FUSE_NOTIFY_DELETE = 6,
	FUSE_NOTIFY_INC_EPOCH = 8, /* 7.44 */
};
#define FUSE_MINOR_EPOCH 44

struct fuse_notify_inval_inode_out {
	uint64_t ino;
	int64_t off; /* negative: attributes only */
	int64_t len; /* 0: to the end */
};

struct fuse_notify_inval_entry_out {
	uint64_t parent;
	uint32_t namelen; /* the name follows, with a NUL that does not count */
	uint32_t flags;
};

struct fuse_notify_delete_out {
	uint64_t parent;
	uint64_t child;
	uint32_t namelen;
	uint32_t padding;
};

/* ---- io_uring, 7.42: commands of IORING_OP_URING_CMD on /dev/fuse ---- */

enum fuse_uring_cmd {
	FUSE_URING_REGISTER = 1,
	FUSE_URING_COMMIT_AND_FETCH = 2,
};

/* In the second half of a 128-byte submission entry. */
struct fuse_uring_cmd_req {
	uint64_t flags;
	uint64_t commit_id;
	uint16_t qid;
	uint8_t padding[6];
};

struct fuse_uring_ent_in_out {
	uint64_t flags;
	uint64_t commit_id; /* give it back with the answer */
	uint32_t payload_sz;
	uint32_t padding;
	uint64_t reserved;
};

/* Shared with the kernel, one per entry. Requests: the header, the operation's struct, sizes; what
 * follows the struct is in the payload buffer. Answers: the header, the payload. */
struct fuse_uring_req_header {
	char in_out[128];
	char op_in[128];
	struct fuse_uring_ent_in_out ring_ent_in_out;
};

_Static_assert(sizeof(struct fuse_in_header) == 40, "fuse_in_header");
_Static_assert(sizeof(struct fuse_out_header) == 16, "fuse_out_header");
_Static_assert(sizeof(struct fuse_attr) == 88, "fuse_attr");
_Static_assert(sizeof(struct fuse_entry_out) == 128, "fuse_entry_out");
_Static_assert(sizeof(struct fuse_attr_out) == 104, "fuse_attr_out");
_Static_assert(sizeof(struct fuse_init_in) == 64, "fuse_init_in");
_Static_assert(sizeof(struct fuse_init_out) == 64, "fuse_init_out");
_Static_assert(sizeof(struct fuse_setattr_in) == 88, "fuse_setattr_in");
_Static_assert(sizeof(struct fuse_write_in) == 40, "fuse_write_in");
_Static_assert(sizeof(struct fuse_statfs_out) == 80, "fuse_statfs_out");
_Static_assert(sizeof(struct fuse_copy_file_range_in) == 56, "fuse_copy_file_range_in");
_Static_assert(sizeof(struct fuse_statx_out) == 288, "fuse_statx_out");
_Static_assert(sizeof(struct fuse_uring_req_header) == 288, "fuse_uring_req_header");

#endif
