/* snapshots.c - keep a state, go back to one, go on from one in a new workspace. */
#include "base/mem.h"
#include "computer/computer_i.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct step {
	const char *name;
	const char *other; /* restore: keep; fork: path */
	struct vfs *vfs;
	json_t *list;
	struct err *err;
};

static int text_argument(struct call *call, const char *key, const char **ret_text)
{
	json_error_t error;

	if (json_unpack_ex(call->args, &error, 0, "{s:s}", key, ret_text) < 0)
		return call_bad(call, &error);
	return 0;
}

/* ---- snapshot ---- */

static int do_snapshot(void *arg, struct store *store)
{
	const struct step *step = arg;

	return store_snapshot(store, step->name, step->err);
}

int op_snapshot(struct call *call)
{
	struct step step = {.err = call->err};
	int r = text_argument(call, "name", &step.name);

	if (r == 0)
		r = workspace_snapshot_check(step.name, call->err);
	if (r == 0)
		r = owner_exclusive(call->owner, do_snapshot, &step);
	if (r == 0)
		call_record(call, GATE_SNAPSHOT, step.name, "", "");
	return r;
}

int computer_snapshot(struct computer *computer, const char *name, struct computer_err *err)
{
	return computer_ask_take(computer, "snapshot", json_pack("{s:s}", "name", name), NULL,
				 (struct err *)(void *)err);
}

/* ---- list ---- */

static int add_snapshot(void *arg, const struct store_snapshot *snapshot)
{
	const struct step *step = arg;

	return json_array_append_new(step->list,
				     json_pack("{s:s,s:I,s:I,s:I}", "name", snapshot->name, "at",
					       (json_int_t)snapshot->at, "bytes",
					       (json_int_t)snapshot->bytes, "inodes",
					       (json_int_t)snapshot->inodes));
}

static int list_snapshots(void *arg, struct store *store)
{
	return store_each_snapshot(store, add_snapshot, arg);
}

int op_snapshots(struct call *call)
{
	struct step step = {.list = json_array()};
	int r = vfs_exclusive(call->owner->head->vfs, list_snapshots, &step);

	json_object_set_new(call->reply, "snapshots", step.list);
	return r < 0 ? err_set(call->err, -r, "cannot list the snapshots") : 0;
}

int computer_snapshots(struct computer *computer,
		       int (*fn)(void *arg, const struct computer_snapshot *snapshot), void *arg)
{
	json_t *reply = NULL, *row;
	size_t i;
	int r = computer_ask_take(computer, "snapshots", json_object(), &reply, NULL);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(reply, "snapshots"), i, row)
	{
		struct computer_snapshot snapshot = {
			.at = json_get_int(row, "at"),
			.bytes = (uint64_t)json_get_int(row, "bytes"),
			.inodes = (uint64_t)json_get_int(row, "inodes"),
		};

		snprintf(snapshot.name, sizeof(snapshot.name), "%s", json_get_text(row, "name"));
		r = fn(arg, &snapshot);
		if (r != 0)
			break;
	}
	json_decref(reply);
	return r;
}

/* ---- remove ---- */

static int do_remove(void *arg, struct store *store)
{
	const struct step *step = arg;

	return store_delete_snapshot(store, step->name, step->err);
}

int op_snapshot_remove(struct call *call)
{
	struct step step = {.err = call->err};
	int r = text_argument(call, "name", &step.name);

	if (r == 0)
		r = vfs_exclusive(call->owner->head->vfs, do_remove, &step);
	if (r == 0)
		call_record(call, GATE_SNAPSHOT, step.name, "removed", "");
	return r;
}

int computer_snapshot_remove(struct computer *computer, const char *name, struct computer_err *err)
{
	return computer_ask_take(computer, "snapshot_remove", json_pack("{s:s}", "name", name),
				 NULL, (struct err *)(void *)err);
}

/* ---- restore ---- */

static int do_restore(void *arg, struct store *store)
{
	const struct step *step = arg;
	int r = store_restore(store, step->name, step->other, step->err);

	/* In any case: after a failure nobody knows which head it is. */
	vfs_reset(step->vfs);
	return r;
}

int op_restore(struct call *call)
{
	struct step step = {.vfs = call->owner->head->vfs, .err = call->err};
	const json_t *keep = json_object_get(call->args, "keep");
	int r = text_argument(call, "name", &step.name);

	if (r == 0 && json_is_string(keep)) {
		step.other = json_string_value(keep);
		r = workspace_snapshot_check(step.other, call->err);
	}
	if (r == 0)
		r = owner_exclusive(call->owner, do_restore, &step);
	if (r < 0)
		return r;
	call_record(call, GATE_RESTORE, step.name, step.other ? step.other : "", "");
	view_notified(call->owner->head);
	return 0;
}

int computer_restore(struct computer *computer, const char *snapshot, const char *keep,
		     struct computer_err *err)
{
	return computer_ask_take(computer, "restore",
				 json_pack("{s:s,s:s?}", "name", snapshot, "keep", keep), NULL,
				 (struct err *)(void *)err);
}

/* ---- fork ---- */

/* From the state as it is now: a snapshot that has a name only as long as the fork takes. */
static int do_fork_now(void *arg, struct store *store)
{
	const struct step *step = arg;
	uint64_t random = 0;
	char name[64];
	int r;

	(void)!getrandom(&random, sizeof(random), 0);
	snprintf(name, sizeof(name), "fork-%016llx", (unsigned long long)random);
	r = store_snapshot(store, name, step->err);
	if (r < 0)
		return r;
	r = store_fork(store, name, step->other, step->err);
	if (store_delete_snapshot(store, name, NULL) < 0 && r == 0)
		return err_set(step->err, EIO, "forked, but snapshot '%s' is left", name);
	return r;
}

static int do_fork(void *arg, struct store *store)
{
	const struct step *step = arg;

	return store_fork(store, step->name, step->other, step->err);
}

int op_fork(struct call *call)
{
	CLEANUP(store_lock_drop) struct store_lock lock = STORE_LOCK_INIT;
	const json_t *name = json_object_get(call->args, "name");
	struct step step = {.name = json_string_value(name), .err = call->err};
	struct store_owner other = {0};
	struct workspace to;
	int r = text_argument(call, "path", &step.other);

	if (r == 0)
		r = workspace_resolve(step.other, &to, call->err);
	if (r == 0 && (to.snapshot[0] || workspace_exists(&to)))
		r = err_set(call->err, EEXIST, "there is a workspace '%s' already", to.name);
	if (r == 0)
		r = store_lock_take(to.path, &lock, &other, call->err);
	if (r < 0)
		return r;
	step.other = to.path;
	if (!step.name && call->view->snapshot[0])
		step.name = call->view->snapshot;
	r = owner_exclusive(call->owner, step.name ? do_fork : do_fork_now, &step);
	if (r == 0)
		call_record(call, GATE_FORK, step.name ? step.name : "", to.name, "");
	return r;
}

int computer_fork(struct computer *computer, const char *snapshot, const char *workspace,
		  struct computer_err *api_err)
{
	struct err *err = (struct err *)(void *)api_err;
	struct workspace to;
	int r = workspace_resolve(workspace, &to, err);

	if (r < 0)
		return r;
	if (to.snapshot[0])
		return err_set(err, EINVAL, "'%s' names a snapshot, not a workspace", workspace);
	return computer_ask_take(
		computer, "fork",
		json_pack("{s:s?,s:o}", "name", snapshot, "path", json_bytes(span_str(to.path))),
		NULL, err);
}
