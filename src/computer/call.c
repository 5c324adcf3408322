/* call.c - the table of operations, and what every one of them needs. */
#include "computer/computer_i.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static const struct call_row rows[] = {
#define OP(name, flags) {#name, op_##name, (flags)},
#include "computer/ops.def"
#undef OP
};

static int by_name(const void *name, const void *row)
{
	return strcmp(name, ((const struct call_row *)row)->name);
}

const struct call_row *call_find(const char *name)
{
	return bsearch(name, rows, ARRAY_LEN(rows), sizeof(rows[0]), by_name);
}

int call_run(const struct call_row *row, struct call *call)
{
	if (!json_is_object(call->args))
		return err_set(call->err, EINVAL, "%s: arguments are missing", row->name);
	if ((row->flags & CALL_HEAD) && call->view != call->owner->head)
		return err_set(call->err, EROFS,
			       "this is how '%s' was at snapshot '%s': it cannot be changed",
			       call->owner->workspace.name, call->view->snapshot);
	if ((row->flags & CALL_CHANGES) && call->readonly)
		return err_set(call->err, EROFS, "'%s' was opened read-only",
			       call->owner->workspace.name);
	return row->run(call);
}

int call_bad(struct call *call, const json_error_t *error)
{
	return err_set(call->err, EINVAL, "the operation does not take this: %s", error->text);
}

int call_event_take(struct call *call, json_t *head, struct span tail)
{
	int r = call->event ? call->event(call, head, tail) : 0;

	json_decref(head);
	return r;
}

void call_record(struct call *call, enum gate_op op, const char *name, const char *name2,
		 const char *exec)
{
	struct gate_record record = {
		.op = op,
		.who = *call->who,
		.name = span_str(name),
		.name2 = span_str(name2),
	};

	record.who.exec = exec;
	vfs_record(call->owner->head->vfs, &record);
}

bool call_wait_stop(struct call *call, int ms)
{
	struct pollfd stop = {.fd = call->control_fd, .events = POLLIN};

	return poll(&stop, 1, ms) > 0;
}
