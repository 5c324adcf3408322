/* view_i.h - between the owner and what it is made of. */
#ifndef COMPUTER_VIEW_I_H
#define COMPUTER_VIEW_I_H

#include "computer/computer_i.h"

/* view.c: the view of the head; takes the store over. */
int view_head(struct owner *owner, struct store *store, struct err *err) MUST_USE;
/* Close a view nobody holds. A failed flush goes to *ret_r (NULL: nobody wants it). */
void view_free(struct view *view, struct err *err, int *ret_r);

/* exec.c: stop a container that nobody has used for a while; stop it in any case. */
void container_tick(struct owner *owner);
void container_end(struct owner *owner);
/* Execs running; whether there is a container. */
unsigned container_execs(struct owner *owner, bool *ret_started);

/* info.c */
int owner_get_limits(struct owner *owner, struct computer_limits *ret_limits,
		     struct err *err) MUST_USE;

/* serve.c: a path of the workspace's own in $XDG_RUNTIME_DIR/computer or /tmp/computer-UID, which
 * nobody else can enter. -EACCES, -ENAMETOOLONG. */
int runtime_path(const struct workspace *workspace, const char *suffix, char *ret_path,
		 size_t size) MUST_USE;

/* owner.c: nothing has happened for OWNER_TICK_MS. */
#define OWNER_TICK_MS 10000
void owner_tick(struct owner *owner);

#endif
