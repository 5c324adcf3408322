/* plain.c - requests by read(2), answers by writev(2): works everywhere.
 *
 * One thread per CPU, pinned, all blocked in read(2) on the one descriptor. docs/fuse-tuning.md
 * has the measurements behind that.
 */
#include "base/mem.h"
#include "fuse/fuse_i.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* A request of the largest kind begins so far before a page that its bytes start on the page. */
#define HEAD (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
#define PAGE 4096
#define BUFFER (PAGE + FUSE_IO_MAX + PAGE)
#define NAP_NS 10000000 /* between reads when only references come this way */

struct plain_thread {
	struct plain *plain;
	pthread_t thread;
	int cpu; /* -1: wherever */
	char *memory;
};

struct plain {
	struct fuse *fuse;
	int count;
	struct plain_thread threads[];
};

static void answer(struct fuse *fuse, struct request *request, struct fuse_out_header *out)
{
	struct iovec parts[2] = {
		{.iov_base = out, .iov_len = sizeof(*out)},
		{.iov_base = request->out, .iov_len = out->len - sizeof(*out)},
	};
	ssize_t n;

	do
		n = writev(fuse->fd, parts, out->len > sizeof(*out) ? 2 : 1);
	while (n < 0 && errno == EINTR);
	/* Whatever else goes wrong, the request is gone and the next read says so. */
}

/* Read and serve one message. False at the end of the connection. */
static bool serve_one(struct plain_thread *self)
{
	struct fuse *fuse = self->plain->fuse;
	char *message = self->memory + PAGE - HEAD;
	struct request request = {.fuse = fuse, .out = self->memory + PAGE};
	struct fuse_out_header out;
	ssize_t n;

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	n = read(fuse->fd, message, BUFFER - (PAGE - HEAD));
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	/* ENOENT: the request was withdrawn while it was being read. */
	if (n < 0)
		return errno == EINTR || errno == EAGAIN || errno == ENOENT;
	if (n == 0)
		return false;
	if (dispatch_message(&request, message, (size_t)n, &out))
		answer(fuse, &request, &out);
	if (fuse->uring_agreed && request.header.opcode == FUSE_INIT)
		uring_start(fuse->uring);
	return true;
}

static void nap(void)
{
	const struct timespec rest = {.tv_nsec = NAP_NS};

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	nanosleep(&rest, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static void *serve(void *arg)
{
	struct plain_thread *self = arg;
	struct fuse *fuse = self->plain->fuse;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	thread_pin(self->cpu);
	while (serve_one(self))
		if (fuse->uring_agreed && uring_works(fuse->uring))
			nap();
	serving_end(fuse);
	return NULL;
}

int plain_start(struct fuse *fuse, int threads, struct err *err)
{
	struct plain *plain =
		mem_alloc0(sizeof(*plain) + (size_t)threads * sizeof(plain->threads[0]));

	plain->fuse = fuse;
	fuse->plain = plain;
	for (int i = 0; i < threads; i++) {
		struct plain_thread *self = &plain->threads[i];
		int r;

		self->plain = plain;
		self->cpu = threads > 1 ? cpu_nth(i) : -1;
		self->memory = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (self->memory == MAP_FAILED)
			return err_set(err, ENOMEM, "no memory for serving requests");
		serving_begin(fuse);
		r = thread_start(&self->thread, serve, self);
		if (r < 0) {
			munmap(self->memory, BUFFER);
			serving_end(fuse);
			return err_set(err, -r, "cannot start a thread");
		}
		plain->count = i + 1;
	}
	return 0;
}

void plain_stop(struct fuse *fuse)
{
	struct plain *plain = fuse->plain;

	if (!plain)
		return;
	for (int i = 0; i < plain->count; i++)
		pthread_cancel(plain->threads[i].thread);
	for (int i = 0; i < plain->count; i++) {
		void *result;

		pthread_join(plain->threads[i].thread, &result);
		/* One that was cancelled has not said that it ended. */
		if (result == PTHREAD_CANCELED)
			serving_end(fuse);
		munmap(plain->threads[i].memory, BUFFER);
	}
	free(plain);
	fuse->plain = NULL;
}
