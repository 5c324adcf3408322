/* crash_place_lib.c - files of a workspace, by the library. */
#include "crash.h"

#include "base/mem.h"
#include "computer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct lib_place {
	struct place place;
	struct computer *computer;
};

static struct computer *of(const struct place *place)
{
	return ((const struct lib_place *)place)->computer;
}

static int sync_if(struct place *place, bool durable, ssize_t r)
{
	return r < 0 ? (int)r : durable ? computer_sync(of(place)) : 0;
}

static int lib_replace(struct place *place, const char *name, const void *bytes, size_t len,
		       bool durable)
{
	char temp[64];
	int r;

	if (len % 24) /* the library's own way, and the usual one */
		return sync_if(place, durable,
			       computer_write_file(of(place), name, bytes, len, 0644));
	snprintf(temp, sizeof(temp), "%s.tmp", name);
	r = computer_write_file(of(place), temp, bytes, len, 0644);
	if (r == 0)
		r = computer_rename_file(of(place), temp, name);
	return sync_if(place, durable, r);
}

static int lib_patch(struct place *place, const char *name, const void *bytes, size_t len,
		     int64_t offset, bool durable)
{
	return sync_if(place, durable, computer_pwrite(of(place), name, bytes, len, offset));
}

static int lib_truncate(struct place *place, const char *name, int64_t size)
{
	return computer_truncate(of(place), name, size);
}

static int lib_mkfile(struct place *place, const char *name, uint32_t mode)
{
	return computer_write_file(of(place), name, "", 0, mode);
}

static int lib_mkdir(struct place *place, const char *name, uint32_t mode)
{
	return computer_mkdir(of(place), name, mode, false);
}

static int lib_rename(struct place *place, const char *from, const char *to)
{
	return computer_rename_file(of(place), from, to);
}

static int lib_link(struct place *place, const char *from, const char *to)
{
	return computer_link(of(place), from, to);
}

static int lib_chmod(struct place *place, const char *name, uint32_t mode)
{
	return computer_chmod(of(place), name, mode);
}

static int lib_remove(struct place *place, const char *name, bool directory)
{
	return directory ? computer_rmdir(of(place), name) : computer_unlink(of(place), name);
}

static int lib_sync(struct place *place, const char *directory)
{
	(void)directory;
	return computer_sync(of(place));
}

static int lib_read(struct place *place, const char *name, struct buf *content)
{
	void *bytes;
	size_t len;
	int r = computer_read_file(of(place), name, content->max, &bytes, &len);

	if (r < 0)
		return r;
	r = buf_add(content, bytes, len);
	free(bytes);
	return r;
}

struct listing {
	void (*fn)(void *arg, const struct place_entry *entry);
	void *arg;
};

static int pass_on(void *arg, const char *name, const struct computer_stat *stat)
{
	const struct listing *listing = arg;

	listing->fn(listing->arg, &(struct place_entry){name, stat->mode, stat->nlink});
	return 0;
}

static int lib_list(struct place *place, const char *directory,
		    void (*fn)(void *arg, const struct place_entry *entry), void *arg)
{
	struct listing listing = {fn, arg};

	return computer_list(of(place), directory, pass_on, &listing);
}

static void lib_free(struct place *place)
{
	free(place);
}

static const struct place_ops lib_ops = {
	.replace = lib_replace,
	.patch = lib_patch,
	.truncate = lib_truncate,
	.mkfile = lib_mkfile,
	.mkdir = lib_mkdir,
	.rename = lib_rename,
	.link = lib_link,
	.chmod = lib_chmod,
	.remove = lib_remove,
	.sync = lib_sync,
	.read = lib_read,
	.list = lib_list,
	.free = lib_free,
};

struct place *place_lib_new(struct computer *computer)
{
	struct lib_place *p = mem_alloc0(sizeof(*p));

	p->place.ops = &lib_ops;
	p->computer = computer;
	return &p->place;
}
