/* serve.h - the handlers of ops.def. Each: bytes of the answer, a negative errno, or NO_REPLY. */
#ifndef FUSE_SERVE_H
#define FUSE_SERVE_H

struct request;

/* serve_name.c: directories and names */
int serve_lookup(struct request *request);
int serve_create(struct request *request);
int serve_tmpfile(struct request *request);
int serve_mknod(struct request *request);
int serve_mkdir(struct request *request);
int serve_symlink(struct request *request);
int serve_link(struct request *request);
int serve_unlink(struct request *request);
int serve_rmdir(struct request *request);
int serve_rename(struct request *request);
int serve_rename2(struct request *request);
int serve_readdir(struct request *request);
int serve_readdirplus(struct request *request);

/* serve_file.c: inodes and bytes */
int serve_getattr(struct request *request);
int serve_statx(struct request *request);
int serve_setattr(struct request *request);
int serve_readlink(struct request *request);
int serve_read(struct request *request);
int serve_write(struct request *request);
int serve_fallocate(struct request *request);
int serve_lseek(struct request *request);
int serve_copy(struct request *request);
int serve_copy_64(struct request *request);
int serve_fsync(struct request *request);
int serve_getxattr(struct request *request);
int serve_setxattr(struct request *request);
int serve_listxattr(struct request *request);
int serve_removexattr(struct request *request);

/* serve_session.c: the connection and its references */
int serve_init(struct request *request);
int serve_forget(struct request *request);
int serve_batch_forget(struct request *request);
int serve_interrupt(struct request *request);
int serve_statfs(struct request *request);
int serve_syncfs(struct request *request);

#endif
