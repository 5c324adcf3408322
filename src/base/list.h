/* list.h - a doubly linked list inside the things it links. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/base.h"

/* A head, or a link inside an element. A head is empty when it points to itself. */
struct list {
	struct list *next, *prev;
};

#define list_entry(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define list_for_each(pos, head) \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* As list_for_each, and `pos` may be removed in the body. */
#define list_for_each_safe(pos, head)                                                 \
	for (struct list *pos = (head)->next, *pos##_next = pos->next; pos != (head); \
	     pos = pos##_next, pos##_next = pos->next)

static inline void list_init(struct list *head)
{
	head->next = head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

/* Put `item` last. It must not be in a list. */
static inline void list_add(struct list *head, struct list *item)
{
	item->prev = head->prev;
	item->next = head;
	head->prev->next = item;
	head->prev = item;
}

/* Take `item` out; afterwards it is an empty head of its own, so a second removal is harmless. */
static inline void list_del(struct list *item)
{
	item->next->prev = item->prev;
	item->prev->next = item->next;
	list_init(item);
}

/* Move all of `from` to the end of `to`; `from` is empty afterwards. */
static inline void list_splice(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#endif
