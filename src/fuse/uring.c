/* uring.c - requests over io_uring: a queue per CPU, served by a thread on that CPU.
 *
 * Linux 6.14, Documentation/filesystems/fuse-io-uring.rst. Each queue has a few entries; an entry
 * is a header and a payload buffer that the kernel fills with a request, and takes the answer from
 * with the same command that asks for the next one. INIT, FORGET and INTERRUPT keep coming by
 * read(2).
 */
#include "base/fd.h"
#include "base/mem.h"
#include "fuse/fuse_i.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define ENTRIES 4     /* requests of one CPU that can be with us at a time */
#define SQ_ENTRIES 16 /* a power of two, above ENTRIES + 1 */
#define SQE_SIZE 128
#define SQE_CMD 48 /* where the command's own bytes begin in a submission entry */
#define QUEUES_MAX 1024

struct entry {
	struct queue *queue;
	struct fuse_uring_req_header *header;
	char *payload;
	struct iovec parts[2];
	bool live; /* the kernel has it, or we are serving it */
};

struct queue {
	struct uring *uring;
	pthread_t thread;
	bool started;
	int cpu; /* also the number of the queue */
	int fd;  /* of the ring */

	char *sq, *sqes, *cq; /* shared with the kernel */
	size_t sq_size, sqes_size, cq_size;
	struct io_uring_params params;
	unsigned queued; /* submission entries the kernel has not seen */

	char *memory; /* headers, then payloads */
	struct entry entries[ENTRIES];
	int live;
};

struct uring {
	struct fuse *fuse;
	int stop_fd; /* readable: end */
	atomic_bool started, failed;
	int count;
	struct queue queues[];
};

#define HEADERS_SIZE 4096
#define QUEUE_MEMORY (HEADERS_SIZE + (size_t)ENTRIES * FUSE_IO_MAX)

_Static_assert(ENTRIES * sizeof(struct fuse_uring_req_header) <= HEADERS_SIZE, "headers");

/* ---- the ring itself ---- */

static atomic_uint *word(char *base, unsigned offset)
{
	return (atomic_uint *)(void *)(base + offset);
}

static int ring_make(struct queue *queue)
{
	struct io_uring_params *params = &queue->params;

	*params = (struct io_uring_params){
		.flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER |
			 IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED,
	};
	queue->fd = (int)syscall(SYS_io_uring_setup, SQ_ENTRIES, params);
	if (queue->fd < 0)
		return -errno;
	queue->sq_size = params->sq_off.array + params->sq_entries * sizeof(unsigned);
	queue->cq_size = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
	queue->sqes_size = (size_t)params->sq_entries * SQE_SIZE;
	queue->sq = mmap(NULL, queue->sq_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			 queue->fd, (off_t)IORING_OFF_SQ_RING);
	queue->cq = mmap(NULL, queue->cq_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			 queue->fd, (off_t)IORING_OFF_CQ_RING);
	queue->sqes = mmap(NULL, queue->sqes_size, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_POPULATE, queue->fd, (off_t)IORING_OFF_SQES);
	if (queue->sq == MAP_FAILED || queue->cq == MAP_FAILED || queue->sqes == MAP_FAILED)
		return -ENOMEM;
	for (unsigned i = 0; i < params->sq_entries; i++)
		atomic_store_explicit(word(queue->sq, params->sq_off.array + i * 4), i,
				      memory_order_relaxed);
	return 0;
}

static void unmap(char *memory, size_t size)
{
	if (memory && memory != MAP_FAILED)
		munmap(memory, size);
}

static void queue_clear(struct queue *queue)
{
	unmap(queue->sq, queue->sq_size);
	unmap(queue->cq, queue->cq_size);
	unmap(queue->sqes, queue->sqes_size);
	fd_close(&queue->fd);
	unmap(queue->memory, QUEUE_MEMORY);
}

/* The next submission entry, zeroed. There is always room: one per entry and one for stopping. */
static char *next_sqe(struct queue *queue)
{
	atomic_uint *tail = word(queue->sq, queue->params.sq_off.tail);
	unsigned at = atomic_load_explicit(tail, memory_order_relaxed);
	char *sqe = queue->sqes + (size_t)(at & (queue->params.sq_entries - 1)) * SQE_SIZE;

	memset(sqe, 0, SQE_SIZE);
	queue->queued++;
	return sqe;
}

static void push_sqe(struct queue *queue)
{
	atomic_uint *tail = word(queue->sq, queue->params.sq_off.tail);

	atomic_store_explicit(tail, atomic_load_explicit(tail, memory_order_relaxed) + 1,
			      memory_order_release);
}

static void submit_command(struct entry *entry, enum fuse_uring_cmd command, uint64_t commit_id)
{
	struct queue *queue = entry->queue;
	char *sqe = next_sqe(queue);
	struct io_uring_sqe head = {
		.opcode = IORING_OP_URING_CMD,
		.fd = queue->uring->fuse->fd,
		.cmd_op = command,
		.user_data = (uint64_t)(uintptr_t)entry,
	};
	const struct fuse_uring_cmd_req request = {
		.commit_id = commit_id,
		.qid = (uint16_t)queue->cpu,
	};

	if (command == FUSE_URING_REGISTER) {
		head.addr = (uint64_t)(uintptr_t)entry->parts;
		head.len = ARRAY_LEN(entry->parts);
	}
	memcpy(sqe, &head, SQE_CMD);
	memcpy(sqe + SQE_CMD, &request, sizeof(request));
	push_sqe(queue);
}

static void submit_stop(struct queue *queue)
{
	const struct io_uring_sqe head = {
		.opcode = IORING_OP_POLL_ADD,
		.fd = queue->uring->stop_fd,
		.poll32_events = POLLIN,
		.user_data = 0,
	};

	memcpy(next_sqe(queue), &head, sizeof(head));
	push_sqe(queue);
}

/* ---- serving ---- */

static void serve_entry(struct entry *entry)
{
	struct fuse *fuse = entry->queue->uring->fuse;
	struct fuse_uring_req_header *shared = entry->header;
	struct request request = {.fuse = fuse, .out = entry->payload};
	struct fuse_out_header out;
	uint64_t commit_id = shared->ring_ent_in_out.commit_id;
	size_t payload = shared->ring_ent_in_out.payload_sz;
	int r;

	memcpy(&request.header, shared->in_out, sizeof(request.header));
	request.arg = shared->op_in;
	request.rest = span_of(entry->payload, payload < FUSE_IO_MAX ? payload : FUSE_IO_MAX);
	r = dispatch(&request, sizeof(shared->op_in));
	if (r == NO_REPLY)
		r = -EIO;
	out = (struct fuse_out_header){
		.len = (uint32_t)sizeof(out) + (r > 0 ? (uint32_t)r : 0),
		.error = r < 0 ? r : 0,
		.unique = request.header.unique,
	};
	memcpy(shared->in_out, &out, sizeof(out));
	shared->ring_ent_in_out.payload_sz = r > 0 ? (uint32_t)r : 0;
	submit_command(entry, FUSE_URING_COMMIT_AND_FETCH, commit_id);
}

/* Everything that has come. False when told to stop. */
static bool serve_all(struct queue *queue)
{
	atomic_uint *head = word(queue->cq, queue->params.cq_off.head);
	atomic_uint *tail = word(queue->cq, queue->params.cq_off.tail);
	unsigned at = atomic_load_explicit(head, memory_order_relaxed);
	bool go_on = true;

	while (at != atomic_load_explicit(tail, memory_order_acquire)) {
		struct io_uring_cqe cqe;
		struct entry *entry;

		memcpy(&cqe,
		       queue->cq + queue->params.cq_off.cqes +
			       (at & (queue->params.cq_entries - 1)) * sizeof(cqe),
		       sizeof(cqe));
		atomic_store_explicit(head, ++at, memory_order_release);
		if (cqe.user_data == 0) {
			go_on = false;
			continue;
		}
		entry = &queue->entries[((uintptr_t)cqe.user_data - (uintptr_t)queue->entries) /
					sizeof(*entry)];
		if (cqe.res == 0) {
			serve_entry(entry);
			continue;
		}
		/* ENOTCONN: the connection is over. Else the kernel refused the entry, and goes on
		 * without rings. */
		if (cqe.res != -ENOTCONN && cqe.res != -ECONNABORTED && cqe.res != -ECANCELED)
			atomic_store(&queue->uring->failed, true);
		entry->live = false;
		queue->live--;
	}
	return go_on;
}

static void *serve(void *arg)
{
	struct queue *queue = arg;
	struct fuse *fuse = queue->uring->fuse;
	bool go_on = true;

	thread_pin(queue->cpu);
	if (syscall(SYS_io_uring_register, queue->fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0) {
		atomic_store(&queue->uring->failed, true);
		go_on = false;
	} else {
		submit_stop(queue);
		for (int i = 0; i < ENTRIES; i++)
			submit_command(&queue->entries[i], FUSE_URING_REGISTER, 0);
	}
	while (go_on && queue->live > 0) {
		long n = syscall(SYS_io_uring_enter, queue->fd, queue->queued, 1,
				 IORING_ENTER_GETEVENTS, NULL, 0);

		if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY)
			break;
		if (n > 0)
			queue->queued -= (unsigned)n;
		go_on = serve_all(queue);
	}
	/* Closing it takes back what the kernel still has of ours. */
	fd_close(&queue->fd);
	serving_end(fuse);
	return NULL;
}

/* ---- life ---- */

/* One more than the highest CPU there can be: the kernel wants a queue for each. */
static int possible_cpus(void)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(4096);
	int number = 0;

	if (file_read("/sys/devices/system/cpu/possible", &text, NULL) < 0)
		return (int)sysconf(_SC_NPROCESSORS_CONF);
	/* "0-7" or "0,2-5": the last number is the highest. */
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] >= '0' && text.data[i] <= '9' && number < QUEUES_MAX)
			number = number * 10 + (text.data[i] - '0');
		else if (text.data[i] == '-' || text.data[i] == ',')
			number = 0;
	}
	return number + 1;
}

bool host_uring(bool *ret_known)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(16);

	*ret_known = file_read("/sys/module/fuse/parameters/enable_uring", &text, NULL) == 0;
	return *ret_known && text.data[0] == 'Y';
}

static int queue_init(struct queue *queue, struct uring *uring, int cpu)
{
	queue->uring = uring;
	queue->cpu = cpu;
	queue->live = ENTRIES;
	queue->memory = mmap(NULL, QUEUE_MEMORY, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (queue->memory == MAP_FAILED)
		return -ENOMEM;
	for (int i = 0; i < ENTRIES; i++) {
		struct entry *entry = &queue->entries[i];

		entry->queue = queue;
		entry->live = true;
		entry->header = (struct fuse_uring_req_header *)(void *)queue->memory + i;
		entry->payload = queue->memory + HEADERS_SIZE + (size_t)i * FUSE_IO_MAX;
		entry->parts[0] = (struct iovec){entry->header, sizeof(*entry->header)};
		entry->parts[1] = (struct iovec){entry->payload, FUSE_IO_MAX};
	}
	return ring_make(queue);
}

int uring_new(struct fuse *fuse, struct uring **ret_uring)
{
	bool known;
	int count = possible_cpus();
	struct uring *uring;
	int r = 0;

	if (!host_uring(&known))
		return -EOPNOTSUPP;
	if (count > QUEUES_MAX)
		return -EOPNOTSUPP;
	uring = mem_alloc0(sizeof(*uring) + (size_t)count * sizeof(uring->queues[0]));
	uring->fuse = fuse;
	uring->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (uring->stop_fd < 0)
		r = -errno;
	for (int i = 0; i < count && r == 0; i++) {
		uring->queues[i].fd = -1;
		uring->count = i + 1;
		r = queue_init(&uring->queues[i], uring, i);
	}
	if (r < 0) {
		uring_free(uring);
		return r;
	}
	*ret_uring = uring;
	return 0;
}

void uring_start(struct uring *uring)
{
	if (atomic_exchange(&uring->started, true))
		return;
	for (int i = 0; i < uring->count; i++) {
		struct queue *queue = &uring->queues[i];

		serving_begin(uring->fuse);
		if (thread_start(&queue->thread, serve, queue) < 0) {
			/* The kernel waits for this queue: closing the connection is all there is.
			 */
			atomic_store(&uring->failed, true);
			serving_end(uring->fuse);
			continue;
		}
		queue->started = true;
	}
}

bool uring_works(const struct uring *uring)
{
	return uring && atomic_load(&uring->started) && !atomic_load(&uring->failed);
}

void uring_stop(struct uring *uring)
{
	const uint64_t one = 1;

	if (!uring)
		return;
	(void)!write(uring->stop_fd, &one, sizeof(one));
	for (int i = 0; i < uring->count; i++)
		if (uring->queues[i].started)
			pthread_join(uring->queues[i].thread, NULL);
}

void uring_free(struct uring *uring)
{
	if (!uring)
		return;
	for (int i = 0; i < uring->count; i++)
		queue_clear(&uring->queues[i]);
	fd_close(&uring->stop_fd);
	free(uring);
}
