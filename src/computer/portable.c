/* portable.c - a whole workspace as one file, and back. */
#include "base/mem.h"
#include "base/text.h"
#include "computer/port_i.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- export: the owner writes the file ---- */

struct exporting {
	const char *path;
	struct err *err;
};

static int do_export(void *arg, struct store *store)
{
	const struct exporting *exporting = arg;

	return store_export(store, exporting->path, exporting->err);
}

int op_export(struct call *call)
{
	CLEANUP(buf_clear) struct buf path = BUF_INIT(PATH_MAX - 1);
	struct exporting exporting = {.err = call->err};
	int r = json_get_bytes(json_object_get(call->args, "path"), &path);

	if (r < 0 || path.data[0] != '/' || strlen(path.data) != path.len)
		return err_set(call->err, EINVAL, "export: 'path' is an absolute path");
	exporting.path = path.data;
	if (call->view == call->owner->head)
		return owner_exclusive(call->owner, do_export, &exporting);
	return vfs_exclusive(call->view->vfs, do_export, &exporting);
}

int computer_export_db(struct computer *computer, const char *file, struct err *err)
{
	char path[PATH_MAX];
	size_t len = strlen(file);
	int r = path_for_owner(file, path, err);

	if (r < 0)
		return r;
	if (len < 4 || strcmp(file + len - 3, ".db") != 0)
		return err_set(err, EINVAL, "'%s': a workspace file ends in '.db'", file);
	return computer_ask_take(computer, "export",
				 json_pack("{s:o}", "path", json_bytes(span_str(path))), NULL, err);
}

/* ---- import ---- */

int op_imported(struct call *call)
{
	CLEANUP(buf_clear) struct buf source = BUF_INIT((size_t)2 * PATH_MAX);

	if (json_get_bytes(json_object_get(call->args, "source"), &source) < 0)
		return err_set(call->err, EINVAL, "imported: 'source' is a text");
	call_record(call, GATE_IMPORT, source.data, "", "");
	return 0;
}

/* Files of other users could not be written through a mount of ours. */
static int own_entry(void *arg, const struct export_entry *entry)
{
	struct port *port = arg;
	int r = sys_chown(port->sys, entry->dir, entry->name, geteuid(), getegid(),
			  AT_SYMLINK_NOFOLLOW);

	return r < 0 ? port_fail(port, r, "cannot take over", entry->path) : 0;
}

static int own_all(struct computer *computer, struct err *err)
{
	CLEANUP(port_clear) struct port port = {0};

	if (geteuid() == 0)
		return 0;
	port_init(&port, computer, NULL, err);
	return export_walk(&port, own_entry, NULL, &port);
}

int workspace_import(const char *file, const char *workspace, struct err *err)
{
	CLEANUP(store_lock_drop) struct store_lock from_lock = STORE_LOCK_INIT;
	CLEANUP(store_lock_drop) struct store_lock to_lock = STORE_LOCK_INIT;
	struct store_owner other = {0};
	struct workspace from, to;
	struct computer *computer;
	struct stat st;
	int r = workspace_resolve(workspace, &to, err);

	if (r < 0)
		return r;
	if (to.snapshot[0])
		return err_set(err, EINVAL, "'%s' names a snapshot, not a workspace", workspace);
	if (workspace_exists(&to))
		return err_set(err, EEXIST, "there is a workspace '%s' already", to.name);
	if (stat(file, &st) < 0)
		return err_set(err, errno, "cannot open '%s': %s", file, strerror(errno));
	/* It may be a workspace that somebody has open right now. */
	if (workspace_resolve(file, &from, NULL) == 0) {
		r = store_lock_take(from.path, &from_lock, &other, NULL);
		if (r == -EBUSY)
			return err_set(err, EBUSY,
				       "'%s' is open in process %lld: export it instead", file,
				       (long long)other.pid);
		/* Where no lock can be made (read-only media) nobody can have it open. */
	}
	r = workspace_make_folders(&to, err);
	if (r == 0)
		r = store_lock_take(to.path, &to_lock, &other, err);
	if (r == 0)
		r = store_import(file, to.path, err);
	if (r < 0) {
		if (!workspace_exists(&to))
			workspace_unlink_lock(&to);
		return r;
	}
	store_lock_drop(&to_lock);
	/* Say in its audit where it is from. */
	r = computer_open_as(workspace, 0, "import", &computer, err);
	if (r == 0) {
		r = computer_ask_take(computer, "imported",
				      json_pack("{s:o}", "source", json_bytes(span_str(file))),
				      NULL, err);
		if (r == 0)
			r = own_all(computer, err);
		if (computer_close(computer, r < 0 ? NULL : err_api(err)) < 0 && r == 0)
			r = -EIO;
	}
	return r;
}
