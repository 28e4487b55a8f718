/* list.h - a list whose links are part of what is in it, so that nothing here needs memory and
 * whatever is in it can be taken out at once. */
#ifndef ZKL_BASE_LIST_H
#define ZKL_BASE_LIST_H

#include <stddef.h>

struct zkl__link {
    struct zkl__link *next, *prev;
};

/* Zeroes: empty. */
struct zkl__list {
    struct zkl__link *first, *last;
};

/* What this link is a member of. */
#define ZKL__OWNER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void zkl__list_append(struct zkl__list *list, struct zkl__link *link)
{
    link->next = NULL;
    link->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = link;
    list->last = link;
}

static inline void zkl__list_prepend(struct zkl__list *list, struct zkl__link *link)
{
    link->next = list->first;
    link->prev = NULL;
    *(list->first ? &list->first->prev : &list->last) = link;
    list->first = link;
}

/* It has to be in the list. */
static inline void zkl__list_remove(struct zkl__list *list, struct zkl__link *link)
{
    *(link->prev ? &link->prev->next : &list->first) = link->next;
    *(link->next ? &link->next->prev : &list->last) = link->prev;
    link->next = link->prev = NULL;
}

#endif
