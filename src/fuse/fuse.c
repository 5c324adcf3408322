/* fuse.c - the life of a connection: from its descriptor to its end. */
#include "base/fd.h"
#include "base/mem.h"
#include "fuse/fuse_i.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

void serving_begin(struct fuse *fuse)
{
	pthread_mutex_lock(&fuse->lock);
	fuse->serving++;
	pthread_mutex_unlock(&fuse->lock);
}

static void give_back(void *arg, int64_t ino, uint64_t count)
{
	struct fuse *fuse = arg;

	vfs_forget(fuse->vfs, ino, count);
}

void serving_end(struct fuse *fuse)
{
	bool last;

	pthread_mutex_lock(&fuse->lock);
	last = --fuse->serving == 0;
	pthread_mutex_unlock(&fuse->lock);
	if (!last)
		return;
	/* The kernel does not say goodbye to inodes when it drops the whole filesystem. */
	refs_drain(&fuse->refs, give_back, fuse);
	pthread_mutex_lock(&fuse->lock);
	fuse->ended = true;
	pthread_cond_broadcast(&fuse->changed);
	pthread_mutex_unlock(&fuse->lock);
}

static void fuse_free(struct fuse *fuse)
{
	uring_free(fuse->uring);
	refs_clear(&fuse->refs);
	hand_stop(fuse);
	pthread_mutex_destroy(&fuse->hand_lock);
	fd_close(&fuse->fd);
	pthread_cond_destroy(&fuse->noticed);
	pthread_cond_destroy(&fuse->changed);
	pthread_mutex_destroy(&fuse->lock);
	free(fuse->name);
	free(fuse->backend);
	free(fuse->exec);
	free(fuse->dir);
	free(fuse);
}

static struct fuse *fuse_new(struct vfs *vfs, int fd, const struct fuse_options *options)
{
	struct fuse *fuse = mem_alloc0(sizeof(*fuse));
	pthread_condattr_t attr;

	fuse->vfs = vfs;
	fuse->fd = fd;
	fuse->hand = -1;
	fuse->hand_pid = -1;
	pthread_mutex_init(&fuse->hand_lock, NULL);
	fuse->name = mem_strdup(options->name ? options->name : "computer");
	fuse->backend = mem_strdup(options->backend ? options->backend : "mount");
	fuse->exec = mem_strdup(options->exec ? options->exec : "");
	fuse->readonly = options->readonly;
	fuse->allow_other = options->allow_other;
	fuse->write_through = options->write_through;
	fuse->xattrs = options->xattrs;
	refs_init(&fuse->refs);
	pthread_mutex_init(&fuse->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&fuse->changed, &attr);
	pthread_condattr_destroy(&attr);
	pthread_cond_init(&fuse->noticed, NULL);
	return fuse;
}

static int threads_wanted(const struct fuse_options *options)
{
	int threads = options->threads > 0 ? options->threads : cpu_count();

	return threads < FUSE_THREADS_MAX ? threads : FUSE_THREADS_MAX;
}

int fuse_begin(struct vfs *vfs, int fd, bool is_device, const struct fuse_options *options,
	       struct fuse **ret_fuse, struct err *err)
{
	struct fuse *fuse = fuse_new(vfs, fd, options);
	int threads = threads_wanted(options);
	int r = 0;

	fuse->is_device = is_device;
	/* Only when asked for: docs/decisions/0005-io-uring-by-request.md. */
	if (is_device && options->transport == FUSE_URING)
		r = uring_new(fuse, &fuse->uring);
	if (r < 0) {
		fuse_free(fuse);
		return err_set(
			err, -r,
			"FUSE over io_uring is not to be had here: it needs Linux 6.14 and, as "
			"root, echo Y > /sys/module/fuse/parameters/enable_uring");
	}
	r = notify_start(fuse, err);
	if (r == 0)
		r = plain_start(fuse, fuse->uring ? 1 : threads, err);
	if (r < 0) {
		fuse_stop(fuse);
		return r;
	}
	*ret_fuse = fuse;
	return 0;
}

int fuse_serve_fd(struct vfs *vfs, int fd, const struct fuse_options *options,
		  struct fuse **ret_fuse, struct err *err)
{
	return fuse_begin(vfs, fd, false, options, ret_fuse, err);
}

int fuse_wait(struct fuse *fuse, int timeout_ms)
{
	struct timespec end;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	if (timeout_ms >= 0) {
		end.tv_sec += timeout_ms / 1000;
		end.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
		end.tv_sec += end.tv_nsec / 1000000000;
		end.tv_nsec %= 1000000000;
	}
	pthread_mutex_lock(&fuse->lock);
	while (!fuse->ended && r != ETIMEDOUT)
		r = timeout_ms < 0 ? pthread_cond_wait(&fuse->changed, &fuse->lock)
				   : pthread_cond_timedwait(&fuse->changed, &fuse->lock, &end);
	r = fuse->ended ? 0 : -ETIMEDOUT;
	pthread_mutex_unlock(&fuse->lock);
	return r;
}

static bool has_ended(struct fuse *fuse)
{
	return fuse_wait(fuse, 0) == 0;
}

/*
 * The order matters: as long as our threads serve, nobody else gets stuck in the kernel. So first
 * what still wants answers (dirty pages, notifications, other threads' pulls), then the threads,
 * then the descriptor, whose closing ends the connection for everybody who still has files open.
 */
void fuse_stop(struct fuse *fuse)
{
	if (!fuse)
		return;
	if (fuse->plain && !has_ended(fuse) && fuse->is_device) {
		(void)!fuse_writeback(fuse);
		mount_detach(fuse);
	}
	notify_stop(fuse);
	plain_stop(fuse); /* one of them may be starting the rings */
	uring_stop(fuse->uring);
	fuse_free(fuse);
}

void fuse_get_stats(struct fuse *fuse, struct fuse_stats *ret_stats)
{
	ret_stats->uring = fuse->uring_agreed && uring_works(fuse->uring);
	for (int i = 0; i < FUSE_OPCODES; i++)
		ret_stats->requests[i] =
			atomic_load_explicit(&fuse->requests[i], memory_order_relaxed);
}
