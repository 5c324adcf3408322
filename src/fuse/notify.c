/* notify.c - telling the kernel what others changed, and asking it for what it has not told us.
 *
 * Changes are queued under the vfs lock and sent by one thread: a notification can wait in the
 * kernel for a directory's lock, whose holder waits for one of our serving threads.
 */
#include "base/mem.h"
#include "fuse/fuse_i.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Nothing that can be done about a failure: the kernel does not know the inode, or is gone. */
static void send_notice(struct fuse *fuse, enum fuse_notify code, const void *body, size_t len,
			struct span name)
{
	struct fuse_out_header header = {.error = (int32_t)code};
	struct iovec parts[3] = {{&header, sizeof(header)}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1};

	header.len = (uint32_t)(sizeof(header) + len + name.len + (name.len ? 1 : 0));
	memcpy(&parts[1].iov_base, &body, sizeof(body));
	parts[1].iov_len = len;
	memcpy(&parts[2].iov_base, &name.data, sizeof(name.data));
	parts[2].iov_len = name.len + 1;
	message.msg_iovlen = len == 0 ? 1 : name.len == 0 ? 2 : 3;
	if (fuse->is_device)
		(void)!writev(fuse->fd, parts, (int)message.msg_iovlen);
	else
		(void)!sendmsg(fuse->fd, &message, MSG_NOSIGNAL);
}

enum inode_part { INODE_ATTR, INODE_ALL };

static void notify_inode(struct fuse *fuse, int64_t ino, enum inode_part part)
{
	const struct fuse_notify_inval_inode_out out = {
		.ino = (uint64_t)ino,
		.off = part == INODE_ATTR ? -1 : 0,
	};

	if (ino != 0)
		send_notice(fuse, FUSE_NOTIFY_INVAL_INODE, &out, sizeof(out), SPAN_EMPTY);
}

/* `name` is followed by a NUL. */
void notify_entry(struct fuse *fuse, int64_t parent, struct span name)
{
	const struct fuse_notify_inval_entry_out out = {
		.parent = (uint64_t)parent,
		.namelen = (uint32_t)name.len,
	};

	if (parent != 0 && name.len > 0)
		send_notice(fuse, FUSE_NOTIFY_INVAL_ENTRY, &out, sizeof(out), name);
}

static void notify_delete(struct fuse *fuse, int64_t parent, int64_t ino, struct span name)
{
	const struct fuse_notify_delete_out out = {
		.parent = (uint64_t)parent,
		.child = (uint64_t)ino,
		.namelen = (uint32_t)name.len,
	};

	if (parent != 0 && name.len > 0)
		send_notice(fuse, FUSE_NOTIFY_DELETE, &out, sizeof(out), name);
}

/* Everything may be different (another state was restored). */
static void send_reset(struct fuse *fuse)
{
	size_t count;
	int64_t *inos;

	if (fuse->minor >= FUSE_MINOR_EPOCH)
		send_notice(fuse, FUSE_NOTIFY_INC_EPOCH, NULL, 0, SPAN_EMPTY);
	adopt_shrink(fuse);
	inos = refs_list(&fuse->refs, &count);
	for (size_t i = 0; i < count; i++) {
		notify_inode(fuse, inos[i], INODE_ALL);
		adopt(fuse, inos[i]);
	}
	notify_inode(fuse, VFS_ROOT, INODE_ALL);
	free(inos);
}

static void send_change(struct fuse *fuse, const struct notice *notice)
{
	switch (notice->kind) {
	case VFS_EVENT_CREATE:
		notify_entry(fuse, notice->parent, notice->name);
		notify_inode(fuse, notice->parent, INODE_ALL);
		notify_inode(fuse, notice->ino, INODE_ATTR); /* a link: more names */
		break;
	case VFS_EVENT_MODIFY:
		notify_inode(fuse, notice->ino, INODE_ALL);
		adopt(fuse, notice->ino);
		break;
	case VFS_EVENT_ATTR:
		notify_inode(fuse, notice->ino, INODE_ATTR);
		adopt(fuse, notice->ino);
		break;
	case VFS_EVENT_DELETE:
		notify_delete(fuse, notice->parent, notice->ino, notice->name);
		notify_entry(fuse, notice->parent, notice->name);
		notify_inode(fuse, notice->parent, INODE_ALL);
		notify_inode(fuse, notice->ino, INODE_ATTR);
		break;
	case VFS_EVENT_MOVE:
		notify_entry(fuse, notice->parent, notice->name);
		notify_entry(fuse, notice->parent2, notice->name2);
		notify_inode(fuse, notice->parent, INODE_ALL);
		notify_inode(fuse, notice->parent2, INODE_ALL);
		notify_inode(fuse, notice->ino, INODE_ATTR);
		break;
	case VFS_EVENT_RESET:
		send_reset(fuse);
		break;
	}
}

/* ---- the queue ---- */

static struct notice *notice_new(const struct vfs_event *event)
{
	size_t names = event->name.len + 1 + event->name2.len + 1;
	struct notice *notice = mem_alloc0(sizeof(*notice) + names);
	char *at = (char *)(notice + 1);

	notice->kind = event->kind;
	notice->ino = event->ino;
	notice->parent = event->parent;
	notice->parent2 = event->parent2;
	if (event->name.len)
		memcpy(at, event->name.data, event->name.len);
	notice->name = span_of(at, event->name.len);
	at += event->name.len + 1;
	if (event->name2.len)
		memcpy(at, event->name2.data, event->name2.len);
	notice->name2 = span_of(at, event->name2.len);
	return notice;
}

static void free_notices(struct notice *notice)
{
	while (notice) {
		struct notice *next = notice->next;

		free(notice);
		notice = next;
	}
}

/* Many writes to one file in a row are one notice. */
static bool is_repeated(const struct fuse *fuse, const struct vfs_event *event)
{
	const struct notice *last = fuse->notice_last;

	return last && last->kind == event->kind && last->ino == event->ino &&
	       (event->kind == VFS_EVENT_MODIFY || event->kind == VFS_EVENT_ATTR);
}

/* Under the vfs lock. */
static void on_event(void *arg, const struct vfs_event *event)
{
	struct fuse *fuse = arg;
	struct notice *notice;

	if (event->source == fuse || !atomic_load_explicit(&fuse->ready, memory_order_relaxed))
		return;
	pthread_mutex_lock(&fuse->lock);
	if (fuse->ended || fuse->stopping || is_repeated(fuse, event)) {
		pthread_mutex_unlock(&fuse->lock);
		return;
	}
	fuse->notices_in++;
	if (event->kind == VFS_EVENT_RESET || fuse->notices_count >= FUSE_NOTICES_MAX) {
		fuse->reset_due = true;
	} else if (!fuse->reset_due) {
		notice = notice_new(event);
		if (fuse->notice_last)
			fuse->notice_last->next = notice;
		else
			fuse->notices = notice;
		fuse->notice_last = notice;
		fuse->notices_count++;
	}
	pthread_cond_signal(&fuse->noticed);
	pthread_mutex_unlock(&fuse->lock);
}

static void *notify(void *arg)
{
	struct fuse *fuse = arg;

	pthread_mutex_lock(&fuse->lock);
	while (!fuse->stopping) {
		struct notice *notices = fuse->notices;
		bool reset = fuse->reset_due;
		uint64_t limit = fuse->notices_in;

		if (!notices && !reset) {
			pthread_cond_wait(&fuse->noticed, &fuse->lock);
			continue;
		}
		fuse->notices = fuse->notice_last = NULL;
		fuse->notices_count = 0;
		fuse->reset_due = false;
		pthread_mutex_unlock(&fuse->lock);

		for (const struct notice *one = notices; one && !reset; one = one->next)
			send_change(fuse, one);
		if (reset)
			send_reset(fuse);
		free_notices(notices);

		pthread_mutex_lock(&fuse->lock);
		fuse->notices_out = limit;
		pthread_cond_broadcast(&fuse->changed);
	}
	pthread_cond_broadcast(&fuse->changed);
	pthread_mutex_unlock(&fuse->lock);
	return NULL;
}

void fuse_notified(struct fuse *fuse)
{
	uint64_t limit;

	pthread_mutex_lock(&fuse->lock);
	limit = fuse->notices_in;
	while (fuse->notices_out < limit && !fuse->ended && !fuse->stopping)
		pthread_cond_wait(&fuse->changed, &fuse->lock);
	pthread_mutex_unlock(&fuse->lock);
}

/* ---- the other direction ---- */

static bool pull_begin(struct fuse *fuse)
{
	bool go;

	pthread_mutex_lock(&fuse->lock);
	go = !fuse->ended && !fuse->stopping;
	fuse->pulls += go;
	pthread_mutex_unlock(&fuse->lock);
	return go;
}

static void pull_end(struct fuse *fuse)
{
	pthread_mutex_lock(&fuse->lock);
	fuse->pulls--;
	pthread_cond_broadcast(&fuse->changed);
	pthread_mutex_unlock(&fuse->lock);
}

/* The kernel writes its dirty pages of the inode, which other threads of ours serve, and drops the
 * pages. Returns when that is done. */
static void pull(void *arg, int64_t ino)
{
	struct fuse *fuse = arg;

	if (!fuse->writeback || !refs_has(&fuse->refs, ino) || !pull_begin(fuse))
		return;
	notify_inode(fuse, ino, INODE_ALL);
	pull_end(fuse);
}

int fuse_writeback(struct fuse *fuse)
{
	CLEANUP(mem_free) int64_t *inos = NULL;
	size_t count = 0, max;

	if (!fuse->writeback || !pull_begin(fuse))
		return 0;
	do {
		max = count + 64;
		inos = mem_realloc(inos, max * sizeof(*inos));
		count = vfs_known_files(fuse->vfs, inos, max);
	} while (count > max);
	if (adopt_flush(fuse, inos, count) < 0)
		for (size_t i = 0; i < count; i++)
			notify_inode(fuse, inos[i], INODE_ALL);
	pull_end(fuse);
	return 0;
}

/* ---- start and end ---- */

int notify_start(struct fuse *fuse, struct err *err)
{
	int r = vfs_watch(fuse->vfs, true, on_event, fuse, &fuse->watch);

	if (r < 0)
		return err_set(err, -r, "too many watchers of this workspace");
	fuse->watching = true;
	r = thread_start(&fuse->notifier, notify, fuse);
	if (r < 0)
		return err_set(err, -r, "cannot start a thread");
	fuse->has_notifier = true;
	if (!fuse->readonly && !fuse->write_through) {
		vfs_set_pull(fuse->vfs, fuse, pull, fuse);
		fuse->pulling = true;
	}
	return 0;
}

void notify_stop(struct fuse *fuse)
{
	if (fuse->pulling)
		vfs_set_pull(fuse->vfs, NULL, NULL, NULL);
	if (fuse->watching)
		vfs_unwatch(fuse->vfs, fuse->watch);
	pthread_mutex_lock(&fuse->lock);
	fuse->stopping = true;
	pthread_cond_signal(&fuse->noticed);
	pthread_cond_broadcast(&fuse->changed);
	while (fuse->pulls > 0)
		pthread_cond_wait(&fuse->changed, &fuse->lock);
	pthread_mutex_unlock(&fuse->lock);
	if (fuse->has_notifier)
		pthread_join(fuse->notifier, NULL);
	free_notices(fuse->notices);
	fuse->notices = NULL;
}
