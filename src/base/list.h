/* list.h - a list whose links are part of what is in it, so that nothing here needs memory and
 * whatever is in it can be taken out immediately. */
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

static inline void *zkl__link_owner(struct zkl__link *link, size_t offset)
{
    return link ? (char *)link - offset : NULL;
}

/* The struct of which this link is a member; NULL of NULL. */
#define ZKL__OWNER(link, type, member) \
    ((type *)zkl__link_owner((struct zkl__link *)(link), offsetof(type, member)))

/* A loop over the list. What it is at must stay in the list until the next round. */
#define ZKL__EACH(type, it, list, member)                          \
    for (type *it = ZKL__OWNER((list)->first, type, member); (it); \
         (it) = ZKL__OWNER((it)->member.next, type, member))

/* The same. What it is at may leave the list, the next one may not. */
#define ZKL__EACH_LEAVING(type, it, list, member)                        \
    for (type *it = ZKL__OWNER((list)->first, type, member), *it##_next; \
         (it) && (it##_next = ZKL__OWNER((it)->member.next, type, member), 1); (it) = it##_next)

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
