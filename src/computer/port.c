/* port.c - what exports and imports have in common. */
#include "computer/port_i.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

struct port_link {
	struct map_node node;
	uint64_t dev;
	int64_t ino;
	char path[];
};

void port_init(struct port *port, struct computer *computer, const struct port_options *options,
	       struct err *err)
{
	static const struct port_options none;

	*port = (struct port){
		.sys = computer_sys(computer),
		.options = options ? options : &none,
		.links = MAP_INIT,
		.err = err,
	};
}

void port_clear(struct port *port)
{
	map_for_each (node, &port->links)
		free(map_entry(node, struct port_link, node));
	map_clear(&port->links);
}

int port_done(struct port *port, struct span path, uint64_t bytes)
{
	struct port_progress progress;

	port->result.files++;
	port->result.bytes += bytes;
	if (!port->options->progress)
		return 0;
	progress = (struct port_progress){port->result.files, port->result.bytes, path};
	if (port->options->progress(port->options->arg, &progress) == 0)
		return 0;
	return err_set(port->err, ECANCELED, "cancelled after %llu files",
		       (unsigned long long)port->result.files);
}

int port_fail(struct port *port, int r, const char *what, struct span path)
{
	CLEANUP(buf_clear) struct buf shown = BUF_INIT(1 << 16);

	if (port->err && port->err->code == -r)
		return r; /* said already, nearer to the cause */
	(void)!text_add_escaped(&shown, span_of(path.data, path.len < 150 ? path.len : 150));
	return err_set(port->err, -r, "%s '%s': %s", what, shown.len ? shown.data : "/",
		       strerror(-r));
}

const char *port_link(struct port *port, uint64_t dev, int64_t ino, struct span path)
{
	uint64_t hash = map_hash_u64(dev * 31 + (uint64_t)ino);
	struct port_link *link;

	for (struct map_node *n = map_first(&port->links, hash); n; n = map_next(n)) {
		link = map_entry(n, struct port_link, node);
		if (link->dev == dev && link->ino == ino)
			return link->path;
	}
	link = mem_alloc0(sizeof(*link) + path.len + 1);
	link->dev = dev;
	link->ino = ino;
	memcpy(link->path, path.data, path.len);
	map_add(&port->links, &link->node, hash);
	return NULL;
}

locale_t port_locale_begin(locale_t *ret_old)
{
	locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);

	*ret_old = locale ? uselocale(locale) : (locale_t)0;
	return locale;
}

void port_locale_end(locale_t locale, locale_t old)
{
	if (!locale)
		return;
	uselocale(old);
	freelocale(locale);
}
