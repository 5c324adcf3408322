/* info.c - what there is to know of a workspace, its limits, and whether it is sound. */
#include "base/mem.h"
#include "computer/view_i.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIMITS_KEY "limits"
#define LIMITS_MAX 4096 /* bytes of the row that holds them */

/* ---- limits: those of files are the store's quota, those of containers a row of ours ---- */

static int read_limits(void *arg, struct store *store)
{
	struct computer_limits *limits = arg;
	CLEANUP(buf_clear) struct buf text = BUF_INIT(LIMITS_MAX);
	struct store_info info;
	json_t *json;
	int r;

	store_get_info(store, &info);
	*limits = (struct computer_limits){.bytes = info.quota_bytes, .inodes = info.quota_inodes};
	r = store_get_meta(store, LIMITS_KEY, &text);
	if (r == -ENODATA)
		return 0;
	if (r < 0)
		return r;
	json = json_loadb(text.data, text.len, 0, NULL);
	limits->memory_max = (uint64_t)json_get_int(json, "memory");
	limits->pids_max = (uint64_t)json_get_int(json, "pids");
	limits->cpu_percent = (uint64_t)json_get_int(json, "cpu");
	json_decref(json);
	return 0;
}

int owner_get_limits(struct owner *owner, struct computer_limits *ret_limits, struct err *err)
{
	int r = vfs_exclusive(owner->head->vfs, read_limits, ret_limits);

	return r < 0 ? err_set(err, -r, "cannot read the limits") : 0;
}

static int write_limits(void *arg, struct store *store)
{
	const struct computer_limits *limits = arg;
	json_t *json =
		json_pack("{s:I,s:I,s:I}", "memory", (json_int_t)limits->memory_max, "pids",
			  (json_int_t)limits->pids_max, "cpu", (json_int_t)limits->cpu_percent);
	char *text = json_dumps(json, JSON_COMPACT);
	int r = store_begin(store);

	if (r == 0) {
		r = store_put_meta(store, LIMITS_KEY, span_str(text));
		if (r == 0)
			r = store_commit(store, true);
		else
			store_rollback(store);
	}
	free(text);
	json_decref(json);
	return r;
}

int op_limits(struct call *call)
{
	struct computer_limits limits;
	int r = owner_get_limits(call->owner, &limits, call->err);

	if (r == 0)
		json_object_update_new(call->reply, json_pack("{s:I,s:I,s:I,s:I,s:I}", "bytes",
							      (json_int_t)limits.bytes, "inodes",
							      (json_int_t)limits.inodes, "memory",
							      (json_int_t)limits.memory_max, "pids",
							      (json_int_t)limits.pids_max, "cpu",
							      (json_int_t)limits.cpu_percent));
	return r;
}

int op_limits_set(struct call *call)
{
	static const char *const keys[] = {"bytes", "inodes", "memory", "pids", "cpu"};
	struct vfs *vfs = call->owner->head->vfs;
	struct computer_limits limits;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (json_get_int(call->args, keys[i]) < 0)
			return err_set(call->err, EINVAL, "a limit of %s is not negative", keys[i]);
	limits = (struct computer_limits){
		.bytes = (uint64_t)json_get_int(call->args, "bytes"),
		.inodes = (uint64_t)json_get_int(call->args, "inodes"),
		.memory_max = (uint64_t)json_get_int(call->args, "memory"),
		.pids_max = (uint64_t)json_get_int(call->args, "pids"),
		.cpu_percent = (uint64_t)json_get_int(call->args, "cpu"),
	};
	r = vfs_set_quota(vfs, limits.bytes, limits.inodes);
	if (r == 0)
		r = vfs_exclusive(vfs, write_limits, &limits);
	return r < 0 ? err_set(call->err, -r, "cannot store the limits") : 0;
}

int computer_get_limits(struct computer *computer, struct computer_limits *ret_limits,
			struct err *err)
{
	json_t *reply = NULL;
	int r = computer_ask_take(computer, "limits", json_object(), &reply, err);

	if (r < 0)
		return r;
	*ret_limits = (struct computer_limits){
		.bytes = (uint64_t)json_get_int(reply, "bytes"),
		.inodes = (uint64_t)json_get_int(reply, "inodes"),
		.memory_max = (uint64_t)json_get_int(reply, "memory"),
		.pids_max = (uint64_t)json_get_int(reply, "pids"),
		.cpu_percent = (uint64_t)json_get_int(reply, "cpu"),
	};
	json_decref(reply);
	return 0;
}

int computer_set_limits(struct computer *computer, const struct computer_limits *limits,
			struct err *err)
{
	return computer_ask_take(
		computer, "limits_set",
		json_pack("{s:I,s:I,s:I,s:I,s:I}", "bytes", (json_int_t)limits->bytes, "inodes",
			  (json_int_t)limits->inodes, "memory", (json_int_t)limits->memory_max,
			  "pids", (json_int_t)limits->pids_max, "cpu",
			  (json_int_t)limits->cpu_percent),
		NULL, err);
}

/* ---- info ---- */

static int read_info(void *arg, struct store *store)
{
	store_get_info(store, arg);
	return 0;
}

static int64_t disk_bytes(const char *path, const char *suffix)
{
	char name[PATH_MAX + 8];
	struct stat st;

	snprintf(name, sizeof(name), "%.*s%s", (int)strlen(path) - 3, path, suffix);
	return stat(name, &st) == 0 ? st.st_blocks * 512 : 0;
}

static void set_int(json_t *object, const char *key, int64_t value)
{
	json_object_set_new(object, key, json_integer(value));
}

int op_info(struct call *call)
{
	struct owner *owner = call->owner;
	const char *path = owner->workspace.path;
	struct vfs_stats stats;
	struct store_info info;
	json_t *reply = call->reply;
	unsigned execs, clients;
	bool container;
	int r = vfs_exclusive(call->view->vfs, read_info, &info);

	if (r < 0)
		return err_set(call->err, -r, "cannot look at the workspace");
	vfs_get_stats(call->view->vfs, &stats);
	execs = container_execs(owner, &container);
	pthread_mutex_lock(&owner->lock);
	clients = owner->conn_count;
	pthread_mutex_unlock(&owner->lock);
	json_object_set_new(reply, "id", json_string(info.id));
	json_object_set_new(reply, "container", json_boolean(container));
	json_object_set_new(reply, "uring", json_boolean(view_uring(call->view)));
	set_int(reply, "created", info.created);
	set_int(reply, "bytes", (int64_t)stats.bytes);
	set_int(reply, "inodes", (int64_t)stats.inodes);
	set_int(reply, "quota_bytes", (int64_t)stats.quota_bytes);
	set_int(reply, "quota_inodes", (int64_t)stats.quota_inodes);
	set_int(reply, "disk_bytes",
		disk_bytes(path, ".db") + disk_bytes(path, ".db-wal") + disk_bytes(path, ".data"));
	set_int(reply, "audit_records", (int64_t)info.audit_seq);
	set_int(reply, "depth", info.depth);
	set_int(reply, "owner", getpid());
	set_int(reply, "clients", clients);
	set_int(reply, "mounts", (int64_t)view_mount_count(call->view));
	set_int(reply, "execs", execs);
	set_int(reply, "inodes_cached", (int64_t)stats.inodes_cached);
	set_int(reply, "inodes_dirty", (int64_t)stats.inodes_dirty);
	set_int(reply, "bytes_cached", (int64_t)stats.bytes_cached);
	set_int(reply, "bytes_dirty", (int64_t)stats.bytes_dirty);
	set_int(reply, "flushes", (int64_t)stats.flushes);
	set_int(reply, "commits", (int64_t)stats.commits);
	return 0;
}

int computer_get_info(struct computer *computer, struct computer_info *ret_info, struct err *err)
{
	struct computer_info info = {0};
	struct {
		const char *key;
		uint64_t *value;
	} rows[] = {
		{"bytes", &info.bytes},
		{"inodes", &info.inodes},
		{"quota_bytes", &info.quota_bytes},
		{"quota_inodes", &info.quota_inodes},
		{"disk_bytes", &info.disk_bytes},
		{"audit_records", &info.audit_records},
		{"clients", &info.clients},
		{"mounts", &info.mounts},
		{"execs", &info.execs},
		{"inodes_cached", &info.inodes_cached},
		{"inodes_dirty", &info.inodes_dirty},
		{"bytes_cached", &info.bytes_cached},
		{"bytes_dirty", &info.bytes_dirty},
		{"flushes", &info.flushes},
		{"commits", &info.commits},
	};
	json_t *reply = NULL;
	int r = computer_ask_take(computer, "info", json_object(), &reply, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		*rows[i].value = (uint64_t)json_get_int(reply, rows[i].key);
	snprintf(info.id, sizeof(info.id), "%s", json_get_text(reply, "id"));
	info.created = json_get_int(reply, "created");
	info.depth = json_get_int(reply, "depth");
	info.owner = json_get_int(reply, "owner");
	info.container = json_get_bool(reply, "container");
	info.uring = json_get_bool(reply, "uring");
	json_decref(reply);
	*ret_info = info;
	return 0;
}

/* ---- check ---- */

/* Problems are kept until everybody may go on: a slow caller shall hold nobody off. */
struct check {
	struct vfs *vfs;
	bool repair, repaired;
	uint64_t left;
	json_t *problems;
	struct err *err;
};

#define PROBLEMS_MAX 10000

static void note(void *arg, enum store_problem problem, const char *text, bool repaired)
{
	struct check *check = arg;

	(void)problem;
	check->repaired = check->repaired || repaired;
	if (json_array_size(check->problems) < PROBLEMS_MAX)
		json_array_append_new(check->problems,
				      json_pack("{s:o,s:b}", "text", json_bytes(span_str(text)),
						"repaired", repaired));
}

static int do_check(void *arg, struct store *store)
{
	struct check *check = arg;
	struct err chain = ERR_INIT;
	uint64_t records;
	int r = store_check(store, check->repair, note, check, check->err);

	if (check->repaired)
		vfs_reset(check->vfs);
	if (r < 0)
		return r;
	check->left = (uint64_t)r;
	r = gate_verify(store, &records, &chain);
	if (r == -EUCLEAN) {
		note(check, STORE_AUDIT_GAP, chain.text, false);
		check->left++;
		r = 0;
	}
	return r;
}

int op_check(struct call *call)
{
	struct check check = {
		.vfs = call->view->vfs,
		.repair = json_get_bool(call->args, "repair"),
		.problems = json_array(),
		.err = call->err,
	};
	json_t *problem;
	size_t i;
	int r;

	if (check.repair && (call->readonly || call->view != call->owner->head))
		r = err_set(call->err, EROFS, "'%s' was opened read-only: it cannot be repaired",
			    call->owner->workspace.name);
	else if (call->view == call->owner->head)
		r = owner_exclusive(call->owner, do_check, &check);
	else
		r = vfs_exclusive(call->view->vfs, do_check, &check);
	json_array_foreach(check.problems, i, problem) if (r == 0) r =
		call_event_take(call, json_incref(problem), SPAN_EMPTY);
	json_decref(check.problems);
	if (r < 0)
		return r;
	if (check.repaired) {
		call_record(call, GATE_REPAIR, "", "", "");
		view_notified(call->owner->head);
	}
	json_object_set_new(call->reply, "left", json_integer((json_int_t)check.left));
	return 0;
}

struct checker {
	void (*fn)(void *arg, const char *text, bool repaired);
	void *arg;
};

static int take_problem(void *arg, const json_t *head, struct span tail)
{
	const struct checker *checker = arg;
	CLEANUP(buf_clear) struct buf text = BUF_INIT(1 << 16);

	(void)tail;
	if (json_get_bytes(json_object_get(head, "text"), &text) == 0)
		checker->fn(checker->arg, text.data, json_get_bool(head, "repaired"));
	return 0;
}

int computer_check(struct computer *computer, bool repair,
		   void (*fn)(void *arg, const char *text, bool repaired), void *arg,
		   uint64_t *ret_left, struct err *err)
{
	struct checker checker = {fn, arg};
	const struct call_request request = {
		.op = "check",
		.args = json_pack("{s:b}", "repair", repair),
		.control_fd = -1,
		.event = take_problem,
		.arg = &checker,
	};
	json_t *reply = NULL;
	struct err own = ERR_INIT;
	int r = computer_call(computer, &request, &reply, err ? err : &own);

	if (r < 0)
		return r;
	*ret_left = (uint64_t)json_get_int(reply, "left");
	json_decref(reply);
	return 0;
}
