/* port_i.h - workspaces to and from the outside: what the forms have in common. */
#ifndef COMPUTER_PORT_I_H
#define COMPUTER_PORT_I_H

#include "base/map.h"
#include "computer/computer_i.h"

#include <locale.h>

#define PORT_DEPTH_MAX 900 /* a descriptor is open at each level */
#define PORT_SMALL 65536   /* files up to this travel in batches */

/* One export or import. */
struct port {
	struct sys *sys;
	const struct port_options *options;
	struct port_result result;
	struct map links; /* struct port_link: files with several names */
	struct err *err;
};

/* `options` NULL: the default ones. */
void port_init(struct port *port, struct computer *computer, const struct port_options *options,
	       struct err *err);
void port_clear(struct port *port);

/* One more is done. 0, or -ECANCELED because the caller wants no more. */
int port_done(struct port *port, struct span path, uint64_t bytes) MUST_USE;
/* Say what failed with `path`. Answers r. */
int port_fail(struct port *port, int r, const char *what, struct span path);

/* The first name of a file that has several, by (dev, ino); NULL: this is the first, now known. */
const char *port_link(struct port *port, uint64_t dev, int64_t ino, struct span path);

/* Names of any language, whatever the program's locale: libarchive converts by it. */
locale_t port_locale_begin(locale_t *ret_old);
void port_locale_end(locale_t locale, locale_t old);

/* ---- export.c: a walk through the workspace ---- */

struct export_entry {
	int dir;          /* descriptor of its directory */
	struct span name; /* in it */
	struct span path; /* from where the export starts; empty: that itself */
	const struct sys_stat *stat;
};
/* Call `fn` for everything at and below options->path, directories before what is in them and, with
 * `after`, again behind it. In order of name. */
int export_walk(struct port *port, int (*fn)(void *arg, const struct export_entry *entry),
		int (*after)(void *arg, const struct export_entry *entry), void *arg) MUST_USE;
/* Content of a regular file, piece by piece; holes are not called for. */
int export_content(struct port *port, const struct export_entry *entry,
		   int (*fn)(void *arg, struct span bytes, int64_t offset), void *arg) MUST_USE;
int export_xattrs(struct port *port, const struct export_entry *entry,
		  int (*fn)(void *arg, struct span name, struct span value), void *arg) MUST_USE;

/* ---- import.c: putting files into the workspace ---- */

struct import {
	struct port port;
	struct buf root; /* path of where everything goes, without a slash at the end */
	struct sys_batch batch;
	char **paths; /* of the requests in the batch */
	uint32_t paths_base;
	size_t paths_len, paths_cap;
	struct map dirs;      /* directories known to be no links */
	struct buf dir_times; /* struct dir_time: set at the end, inner ones first */
	int failure;
};

struct import_file {
	struct span path; /* from the start of the import, clean: import_clean */
	uint32_t mode;
	int64_t uid, gid;
	uint64_t rdev;
	int64_t mtime;
};

void import_init(struct import *import, struct computer *computer,
		 const struct port_options *options, struct err *err);
void import_clear(struct import *import);

/* The path without "/", "./" and doubled slashes at its parts. -EPERM: it leads out with "..". */
int import_clean(struct import *import, struct span path, struct buf *ret_path) MUST_USE;

int import_dir(struct import *import, const struct import_file *file) MUST_USE;
int import_small(struct import *import, const struct import_file *file, struct span bytes) MUST_USE;
/* A file of any size: open it, write, finish. Answers a descriptor. */
int import_open(struct import *import, const struct import_file *file) MUST_USE;
int import_write(struct import *import, int fd, struct span path, struct span bytes,
		 int64_t offset) MUST_USE;
int import_finish(struct import *import, int fd, const struct import_file *file,
		  int64_t size) MUST_USE;
int import_symlink(struct import *import, const struct import_file *file,
		   struct span target) MUST_USE;
int import_link(struct import *import, struct span path, struct span to) MUST_USE;
int import_special(struct import *import, const struct import_file *file) MUST_USE;
int import_xattr(struct import *import, struct span path, struct span name,
		 struct span value) MUST_USE;
/* Send what waits, set the times of directories, record the import from `source`. */
int import_end(struct import *import, struct computer *computer, const char *source) MUST_USE;

#endif
