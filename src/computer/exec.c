/* exec.c - programs in the owner's container. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "computer/pump_i.h"
#include "computer/view_i.h"
#include "container/container.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define IDLE_NS (INT64_C(300) * 1000000000)
#define STRINGS_MAX 65536

/* ---- the container ---- */

static void stop_locked(struct owner *owner)
{
	if (!owner->container)
		return;
	container_stop(owner->container);
	owner->container = NULL;
	view_container_end(owner->head);
}

static int start_locked(struct owner *owner, struct err *err)
{
	struct computer_limits limits;
	CLEANUP(fd_close) int fd = -1;
	struct container_options options;
	int r = owner_get_limits(owner, &limits, err);

	if (r == 0)
		r = view_container_mount(owner->head, &fd, err);
	if (r < 0)
		return r;
	options = (struct container_options){
		.mount_fd = fd,
		.hostname = owner->workspace.name,
		.memory_max = limits.memory_max,
		.pids_max = limits.pids_max,
		.cpu_percent = limits.cpu_percent,
	};
	r = container_start(&options, &owner->container, err);
	if (r < 0) {
		owner->container = NULL;
		view_container_end(owner->head);
	}
	return r;
}

/* The container, running, with one more exec in it. */
static int container_enter(struct owner *owner, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&owner->container_lock);
	if (owner->container && !owner->execs && !container_alive(owner->container))
		stop_locked(owner);
	if (!owner->container)
		r = start_locked(owner, err);
	if (r == 0)
		owner->execs++;
	pthread_mutex_unlock(&owner->container_lock);
	return r;
}

static void container_leave(struct owner *owner)
{
	pthread_mutex_lock(&owner->container_lock);
	owner->execs--;
	owner->idle_since = clock_mono();
	pthread_mutex_unlock(&owner->container_lock);
}

void container_tick(struct owner *owner)
{
	pthread_mutex_lock(&owner->container_lock);
	if (owner->container && !owner->execs && clock_mono() - owner->idle_since > IDLE_NS)
		stop_locked(owner);
	pthread_mutex_unlock(&owner->container_lock);
}

void container_end(struct owner *owner)
{
	pthread_mutex_lock(&owner->container_lock);
	stop_locked(owner);
	pthread_mutex_unlock(&owner->container_lock);
}

unsigned container_execs(struct owner *owner, bool *ret_started)
{
	unsigned execs;

	pthread_mutex_lock(&owner->container_lock);
	execs = owner->execs;
	*ret_started = owner->container != NULL;
	pthread_mutex_unlock(&owner->container_lock);
	return execs;
}

/* ---- the operation ---- */

/* Strings one after the other, each with its NUL, and pointers to them. */
struct strings {
	struct buf bytes;
	const char **list; /* NULL: there were none; else ends with NULL */
};
#define STRINGS_INIT ((struct strings){.bytes = BUF_INIT(CONTAINER_ARGS_MAX)})

static void strings_clear(struct strings *strings)
{
	buf_clear(&strings->bytes);
	free(strings->list);
	strings->list = NULL;
}

static int strings_take(struct strings *strings, const json_t *array)
{
	size_t count = json_array_size(array), pos = 0;

	if (!json_is_array(array))
		return array && !json_is_null(array) ? -EINVAL : 0;
	if (count > STRINGS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < count; i++) {
		size_t before = strings->bytes.len;
		int r = json_get_bytes(json_array_get(array, i), &strings->bytes);

		if (r == 0 && memchr(strings->bytes.data + before, 0, strings->bytes.len - before))
			return -EINVAL;
		if (r == 0)
			r = buf_add(&strings->bytes, "", 1);
		if (r < 0)
			return r == -EFBIG ? -E2BIG : -EINVAL;
	}
	strings->list = mem_alloc0((count + 1) * sizeof(*strings->list));
	for (size_t i = 0; i < count; i++) {
		strings->list[i] = strings->bytes.data + pos;
		pos += strlen(strings->list[i]) + 1;
	}
	return 0;
}

/* `fds` says which of the three came along, in order. */
static int take_fds(struct call *call, struct container_exec *exec)
{
	const json_t *have = json_object_get(call->args, "fds");
	size_t next = 0;

	for (size_t i = 0; i < 3; i++) {
		exec->fds[i] = -1;
		if (!json_is_true(json_array_get(have, i)))
			continue;
		if (next == call->fd_count)
			return -EINVAL;
		exec->fds[i] = call->fds[next++];
	}
	return next == call->fd_count ? 0 : -EINVAL;
}

/* The command as one line, for the audit. */
static void command_line(const char *const *argv, char *ret_line, size_t size)
{
	CLEANUP(buf_clear) struct buf line = BUF_INIT(GATE_NAME_MAX);

	for (; *argv; argv++)
		if ((line.len && buf_add(&line, " ", 1) < 0) ||
		    buf_add(&line, *argv, strlen(*argv)) < 0)
			break;
	snprintf(ret_line, size, "%s", line.data);
}

static int run(struct call *call, struct container_exec *exec)
{
	struct owner *owner = call->owner;
	struct container_result result = {0};
	char line[GATE_NAME_MAX + 1], id[17];
	struct pump pumps[3];
	uint64_t random = 0;
	int r = container_enter(owner, call->err);

	if (r < 0)
		return r;
	r = pumps_start(pumps, exec->fds);
	if (r < 0) {
		container_leave(owner);
		return err_set(call->err, -r, "cannot pass on the program's streams");
	}
	(void)!getrandom(&random, sizeof(random), 0);
	snprintf(id, sizeof(id), "%016llx", (unsigned long long)random);
	command_line(exec->argv, line, sizeof(line));
	call_record(call, GATE_EXEC, line, exec->cwd ? exec->cwd : "", id);
	r = container_run(owner->container, exec, &result, call->err);
	container_leave(owner);
	pumps_stop(pumps);
	if (r < 0)
		return r;
	/* What a program wrote outlives the owner's crash once it has ended. */
	r = vfs_flush(owner->head->vfs, false);
	if (r < 0)
		return err_set(call->err, -r, "what the program wrote cannot be stored");
	json_object_update_new(call->reply,
			       json_pack("{s:i,s:i,s:b,s:b,s:s}", "status", result.status, "signal",
					 result.signal, "timed_out", result.timed_out, "killed",
					 result.killed, "exec", id));
	return 0;
}

int op_exec(struct call *call)
{
	CLEANUP(strings_clear) struct strings argv = STRINGS_INIT;
	CLEANUP(strings_clear) struct strings envp = STRINGS_INIT;
	CLEANUP(strings_clear) struct strings cwd = STRINGS_INIT;
	struct container_exec exec = {
		.timeout_ns = json_get_int(call->args, "timeout"),
		.cancel_fd = call->control_fd,
		.cancel_signals = true,
	};
	int r = strings_take(&argv, json_object_get(call->args, "argv"));

	if (r == 0)
		r = strings_take(&envp, json_object_get(call->args, "envp"));
	if (r == 0)
		r = strings_take(&cwd, json_object_get(call->args, "cwd"));
	if (r == 0)
		r = take_fds(call, &exec);
	if (r == -E2BIG)
		return err_set(call->err, E2BIG, "command line and environment are over %d bytes",
			       CONTAINER_ARGS_MAX);
	if (r < 0 || !argv.list || !argv.list[0] || exec.timeout_ns < 0)
		return err_set(call->err, EINVAL, "exec does not take these arguments");
	exec.argv = argv.list;
	exec.envp = envp.list;
	exec.cwd = cwd.list ? cwd.list[0] : NULL;
	return run(call, &exec);
}

/* ---- for callers ---- */

static json_t *strings_json(const char *const *list)
{
	json_t *array = json_array();

	for (; *list; list++)
		json_array_append_new(array, json_bytes(span_str(*list)));
	return array;
}

int computer_exec_control(struct computer *computer, const struct computer_exec *exec,
			  int control_fd, struct computer_result *ret_result, bool *ret_killed,
			  struct err *err)
{
	const int given[3] = {exec->stdin_fd, exec->stdout_fd, exec->stderr_fd};
	const char *const cwd[] = {exec->cwd, NULL};
	struct call_request request = {.op = "exec", .control_fd = control_fd};
	struct err own = ERR_INIT;
	json_t *reply = NULL, *have = json_array();
	int fds[3], r;

	err = err ? err : &own;
	for (int i = 0; i < 3; i++) {
		json_array_append_new(have, json_boolean(given[i] >= 0));
		if (given[i] >= 0)
			fds[request.fd_count++] = given[i];
	}
	request.fds = fds;
	request.args = json_pack("{s:o,s:o,s:I}", "argv", strings_json(exec->argv), "fds", have,
				 "timeout", (json_int_t)exec->timeout_ns);
	if (exec->envp)
		json_object_set_new(request.args, "envp", strings_json(exec->envp));
	if (exec->cwd)
		json_object_set_new(request.args, "cwd", strings_json(cwd));
	r = computer_call(computer, &request, &reply, err);
	if (r < 0)
		return r;
	*ret_result = (struct computer_result){
		.status = (int)json_get_int(reply, "status"),
		.signal = (int)json_get_int(reply, "signal"),
		.timed_out = json_get_bool(reply, "timed_out"),
	};
	if (ret_killed)
		*ret_killed = json_get_bool(reply, "killed");
	json_decref(reply);
	return 0;
}

int computer_exec(struct computer *computer, const struct computer_exec *exec,
		  struct computer_result *ret_result, struct computer_err *err)
{
	return computer_exec_control(computer, exec, -1, ret_result, NULL,
				     (struct err *)(void *)err);
}
