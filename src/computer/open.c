/* open.c - a workspace in a caller's hand: opened here, or reached through its owner. */
#include "base/clock.h"
#include "base/mem.h"
#include "computer/computer_i.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_NS (2 * INT64_C(1000000000)) /* for an owner that is just opening or closing */
#define PATIENCE_ALL_NS (30 * INT64_C(1000000000)) /* when owners come and go meanwhile */

#define OWNERS_MAX 100 /* that may end, one after the other, before one does what we ask */

/* ---- finding whoever has it ---- */

static int become_owner(struct computer *computer, unsigned flags, struct store_owner *other,
			struct err *err)
{
	struct owner *owner;
	int r = owner_open(&computer->workspace, flags, &owner, other, err);

	if (r < 0)
		return r;
	r = view_get(owner, computer->workspace.snapshot, &computer->view, err);
	if (r < 0) {
		(void)owner_close(owner, NULL);
		return r;
	}
	computer->owner = owner;
	computer->files = view_sys(computer->view, &computer->who, computer->readonly);
	return 0;
}

/* Waiting for others to let go. */
struct patience {
	int64_t until, end;
	struct store_owner seen;
};

static struct patience patience_start(void)
{
	int64_t now = clock_mono();

	return (struct patience){.until = now + PATIENCE_NS, .end = now + PATIENCE_ALL_NS};
}

/* Wait a little. False: whoever has it has been the same, and deaf, for too long. */
static bool patience_wait(struct patience *patience, const struct store_owner *other)
{
	int64_t now = clock_mono();

	if (other->pid != patience->seen.pid ||
	    (other->socket[0] == '\0') != (patience->seen.socket[0] == '\0'))
		patience->until = now + PATIENCE_NS;
	patience->seen = *other;
	if (now > patience->until || now > patience->end)
		return false;
	usleep(1000);
	return true;
}

/* Open it, or reach who has it; an owner that is just going is waited for. */
static int attach(struct computer *computer, unsigned flags, struct err *err)
{
	struct patience patience = patience_start();

	for (;;) {
		struct store_owner other = {0};
		int r = become_owner(computer, flags, &other, err);

		if (r != -EBUSY)
			return r;
		if (flags & OWNER_EXCL)
			return err_set(err, EEXIST, "there is a workspace '%s' already",
				       computer->workspace.name);
		if (other.socket[0])
			r = client_connect(&other, &computer->workspace, computer->actor,
					   computer->readonly, &computer->client, err);
		if (r != -EBUSY && r != -ECONNREFUSED)
			return r;
		if (!patience_wait(&patience, &other))
			return err_set(err, EBUSY,
				       "'%s' is in use by process %lld, which does not answer",
				       computer->workspace.name, (long long)other.pid);
	}
}

static int detach(struct computer *computer, struct err *err)
{
	struct owner *owner = computer->owner;

	sys_free(computer->files);
	client_free(computer->client);
	computer->files = NULL;
	computer->client = NULL;
	computer->owner = NULL;
	if (!owner)
		return 0;
	view_put(computer->view);
	computer->view = NULL;
	return owner_close(owner, err);
}

/* The owner is gone and did not do what we asked for: find the next one, or be it. */
static int attach_again(struct computer *computer, struct err *err)
{
	if (computer->fds)
		return err_set(err, EPIPE,
			       "the process that had '%s' open ended while files were open",
			       computer->workspace.name);
	client_free(computer->client);
	computer->client = NULL;
	return attach(computer, 0, err);
}

/* ---- files, wherever they are ---- */

static int64_t front_call(struct sys *sys, const struct sys_req *req, struct buf *out)
{
	struct computer *computer = (struct computer *)(void *)sys;
	int64_t r = -EPIPE;

	for (int attempt = 0; attempt < OWNERS_MAX && r == -EPIPE; attempt++) {
		if (computer->files)
			r = sys_call(computer->files, req, out);
		else if (computer->client)
			r = client_sys(computer->client, req, out);
		else
			return -EPIPE;
		if (r == -EPIPE && computer->client && attach_again(computer, NULL) < 0)
			return -EPIPE;
	}
	if (req->call == SYS_open && r >= 0)
		computer->fds++;
	if (req->call == SYS_close && r >= 0 && computer->fds)
		computer->fds--;
	return r == -ECONNRESET ? -EPIPE : r;
}

static void front_free(struct sys *sys)
{
	(void)sys; /* it is part of the computer */
}

struct sys *computer_sys(struct computer *computer)
{
	return &computer->sys;
}

const struct workspace *computer_workspace(const struct computer *computer)
{
	return &computer->workspace;
}

bool computer_is_owner(const struct computer *computer)
{
	return computer->owner != NULL;
}

/* ---- operations, wherever they are carried out ---- */

/* A caller in this process. */
struct local {
	const struct call_request *request;
	int stop;
};

static int local_event(struct call *call, json_t *head, struct span tail)
{
	struct local *local = call->event_arg;

	if (local->request->event && !local->stop)
		local->stop = local->request->event(local->request->arg, head, tail);
	return local->stop;
}

static int call_here(struct computer *computer, const struct call_request *request,
		     json_t **ret_reply, struct err *err)
{
	const struct call_row *row = call_find(request->op);
	struct local local = {.request = request};
	struct call call = {
		.owner = computer->owner,
		.view = computer->view,
		.who = &computer->who,
		.readonly = computer->readonly,
		.args = request->args,
		.fds = request->fds,
		.fd_count = request->fd_count,
		.control_fd = request->control_fd,
		.event = local_event,
		.event_arg = &local,
		.reply = json_object(),
		.err = err,
	};
	int r = call_run(row, &call);

	if (local.stop)
		r = local.stop;
	if (r == 0 && ret_reply)
		*ret_reply = json_incref(call.reply);
	json_decref(call.reply);
	return r;
}

int computer_call(struct computer *computer, const struct call_request *request, json_t **ret_reply,
		  struct err *err)
{
	int r = -EPIPE;

	for (int attempt = 0; attempt < OWNERS_MAX; attempt++) {
		struct call_request one = *request;

		if (computer->owner) {
			r = call_here(computer, &one, ret_reply, err);
			break;
		}
		one.args = json_incref(request->args);
		r = computer->client ? client_call(computer->client, &one, ret_reply, err) : -EPIPE;
		/* With a text: it ended in the middle, and may have done it. */
		if (r != -EPIPE || (err && err->code == EPIPE))
			break;
		r = attach_again(computer, err);
		if (r < 0)
			break;
	}
	json_decref(request->args);
	return r;
}

int computer_ask_take(struct computer *computer, const char *op, json_t *args, json_t **ret_reply,
		      struct err *err)
{
	const struct call_request request = {.op = op, .args = args, .control_fd = -1};
	struct err own = ERR_INIT;

	return computer_call(computer, &request, ret_reply, err ? err : &own);
}

int path_for_owner(const char *path, char ret_path[PATH_MAX], struct err *err)
{
	CLEANUP(mem_free) char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0);
	char full[PATH_MAX];
	int n = snprintf(full, sizeof(full), "%s%s%s", cwd ? cwd : "", cwd ? "/" : "", path);

	if (n >= (int)sizeof(full) || !*path)
		return err_set(err, *path ? ENAMETOOLONG : ENOENT, "bad path '%.100s'", path);
	memcpy(ret_path, full, (size_t)n + 1);
	return 0;
}

/* ---- life ---- */

int computer_open_as(const char *workspace, unsigned flags, const char *actor,
		     struct computer **ret_computer, struct err *err)
{
	static const struct sys_ops ops = {.call = front_call, .free = front_free};
	struct computer *computer = mem_alloc0(sizeof(*computer));
	struct err own = ERR_INIT;
	unsigned owner_flags = 0;
	int r;

	err = err ? err : &own;
	computer->sys.ops = &ops;
	computer->readonly = flags & COMPUTER_READONLY;
	snprintf(computer->actor, sizeof(computer->actor), "%s", actor);
	computer->who = (struct gate_who){
		.uid = geteuid(),
		.gid = getegid(),
		.pid = getpid(),
		.actor = computer->actor,
		.backend = "direct",
		.exec = "",
	};
	if (flags & COMPUTER_CREATE)
		owner_flags |= OWNER_CREATE | (flags & COMPUTER_EXCL ? OWNER_EXCL : 0);
	r = workspace_resolve(workspace, &computer->workspace, err);
	if (r == 0 && computer->workspace.snapshot[0] && owner_flags)
		r = err_set(err, EINVAL, "'%s' names a snapshot: it cannot be created so",
			    workspace);
	if (r == 0)
		r = attach(computer, owner_flags, err);
	if (r < 0) {
		free(computer);
		return r;
	}
	*ret_computer = computer;
	return 0;
}

int computer_open(const char *workspace, unsigned flags, struct computer **ret_computer,
		  struct computer_err *err)
{
	return computer_open_as(workspace, flags, "library", ret_computer,
				(struct err *)(void *)err);
}

int computer_close(struct computer *computer, struct computer_err *err)
{
	struct err *own = (struct err *)(void *)err;
	int r = 0, closed;

	if (!computer)
		return 0;
	/* Another process goes on with it: what we wrote shall be durable all the same. */
	if (computer->client && !computer->readonly && !computer->workspace.snapshot[0]) {
		r = (int)client_sys(computer->client,
				    &(struct sys_req){.call = SYS_fsync, .a = {SYS_CWD}}, NULL);
		r = r == -EPIPE ? 0 : r; /* it flushed when it closed */
		if (r < 0)
			(void)err_set(own, -r, "cannot write everything to the disk");
	}
	closed = detach(computer, own);
	free(computer->mount_dir);
	free(computer);
	return r < 0 ? r : closed;
}

/* ---- whole workspaces ---- */

/* Lock a workspace nobody has open, for something done to its files. */
static int lock_closed(const struct workspace *workspace, struct store_lock *lock, struct err *err)
{
	int64_t until = clock_mono() + PATIENCE_NS;

	for (;;) {
		struct store_owner other = {0};
		int r = store_lock_take(workspace->path, lock, &other, err);

		if (r != -EBUSY)
			return r;
		if (clock_mono() > until)
			return err_set(err, EBUSY,
				       "'%s' is open in process %lld: close it first (umount, or "
				       "end that process)",
				       workspace->name, (long long)other.pid);
		usleep(5000);
	}
}

static int find_closed(const char *text, struct workspace *workspace, struct err *err)
{
	int r = workspace_resolve(text, workspace, err);

	if (r == 0 && workspace->snapshot[0])
		return err_set(err, EINVAL, "'%s' names a snapshot, not a workspace", text);
	if (r == 0 && !workspace_exists(workspace))
		return err_set(err, ENOENT, "there is no workspace '%s'", workspace->name);
	return r;
}

/* The lock's file goes with the workspace, while we still hold it. */
void workspace_unlink_lock(const struct workspace *workspace)
{
	char path[PATH_MAX + 8];

	snprintf(path, sizeof(path), "%.*s.lock", (int)strlen(workspace->path) - 3,
		 workspace->path);
	(void)unlink(path);
}

int computer_remove(const char *text, struct computer_err *api_err)
{
	CLEANUP(store_lock_drop) struct store_lock lock = STORE_LOCK_INIT;
	struct err *err = (struct err *)(void *)api_err;
	struct workspace workspace;
	int r = find_closed(text, &workspace, err);

	if (r == 0)
		r = lock_closed(&workspace, &lock, err);
	if (r == 0)
		r = store_remove(workspace.path, err);
	if (r == 0)
		workspace_unlink_lock(&workspace);
	return r;
}

int computer_rename(const char *from_text, const char *to_text, struct computer_err *api_err)
{
	CLEANUP(store_lock_drop) struct store_lock from_lock = STORE_LOCK_INIT;
	CLEANUP(store_lock_drop) struct store_lock to_lock = STORE_LOCK_INIT;
	struct err *err = (struct err *)(void *)api_err;
	struct workspace from, to = {0};
	int r = find_closed(from_text, &from, err);

	if (r == 0)
		r = workspace_resolve(to_text, &to, err);
	if (r < 0)
		return r;
	if (to.snapshot[0])
		return err_set(err, EINVAL, "'%s' names a snapshot, not a workspace", to_text);
	if (workspace_exists(&to))
		return err_set(err, EEXIST, "there is a workspace '%s' already", to.name);
	r = lock_closed(&from, &from_lock, err);
	if (r == 0)
		r = lock_closed(&to, &to_lock, err);
	if (r < 0)
		return r;
	r = store_rename(from.path, to.path, err);
	workspace_unlink_lock(r < 0 ? &to : &from);
	return r;
}

const char *computer_version(void)
{
	return COMPUTER_VERSION;
}
