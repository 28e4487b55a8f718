/* collections.h - lists, maps by path, timers, one sort: none of them needs memory of its own for
 * what is in it. */
#ifndef ZKL_BASE_COLLECTIONS_H
#define ZKL_BASE_COLLECTIONS_H

#include "base.h"

/* === lists ==================================================================================== */

/* A list whose links are part of what is in it, so that nothing here needs memory and
 * whatever is in it can be taken out immediately. */

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

/* === maps ===================================================================================== */

/* splitmix64: a bijection, so two numbers never give one. */
static inline uint64_t zkl__mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The same with its step before, for numbers that are close to each other. */
static inline uint64_t zkl__next_mix(uint64_t x)
{
    return zkl__mix(x + UINT64_C(0x9e3779b97f4a7c15));
}

/* What belongs to which path: a hash table that links its owners' own structs, so that
 * adding one needs no memory. */

struct zkl__map_entry {
    struct zkl__map_entry *next;  /* in its bucket */
    struct zkl__map_entry **link; /* what points to it there; NULL: it is in no map */
    const char *path;             /* the owner's to set, before it is added; its memory */
};

struct zkl__map {
    const zkl_heap *heap;
    struct zkl__map_entry **buckets;
    size_t bucket_count, count;
    uint64_t key; /* nobody else knows it, where anybody may make names by the thousand */
};

/* False: no memory. */
bool zkl__map_init(struct zkl__map *map, const zkl_heap *heap);
/* Drops what is in it. As empty as a new set of names. */
void zkl__map_deinit(struct zkl__map *map);
/* Several entries may have the same path. Without memory for more buckets the chains become longer,
 * and that is all. */
void zkl__map_add(struct zkl__map *map, struct zkl__map_entry *entry);
/* It has to be in the map. Its cost is the same however many there are of its path. */
void zkl__map_remove(struct zkl__map *map, struct zkl__map_entry *entry);
/* Of this path, the latest one; NULL: there is none. */
struct zkl__map_entry *zkl__map_find(const struct zkl__map *map, const char *path);
/* Of any path; NULL: the map is empty. */
struct zkl__map_entry *zkl__map_any(const struct zkl__map *map);

/* --- sets of names --------------------------------------------------------------------------- */

/* Maps of names, each with a number, in blocks of their own. Heap, key, and zeroes: empty. */

/* NULL: it is not there. */
const int64_t *zkl__names_find(const struct zkl__map *names, const char *name);
/* Copies it; the number of one that is there already changes. False: no memory. */
bool zkl__names_put(struct zkl__map *names, const char *name, int64_t value);
/* Forgets all but these. */
void zkl__names_keep(struct zkl__map *names, const char *const *these, size_t count);
void zkl__names_clear(struct zkl__map *names);

/* === timers =================================================================================== */

/* Which time comes next: a binary heap of timers that are part of their owners, so that
 * setting one needs no memory. */

/* Zeroes: not set. */
struct zkl__timer {
    int64_t at; /* while set */
    bool set;
    struct zkl__timer *parent, *child[2];
};

struct zkl__timers {
    struct zkl__timer *root;
    size_t count;
};

/* Set already: moves it. INT64_MAX: it is not set any more. */
void zkl__timers_set(struct zkl__timers *timers, struct zkl__timer *timer, int64_t at);
/* The earliest one, if it is due, no longer set; NULL: none is. */
struct zkl__timer *zkl__timers_due(struct zkl__timers *timers, int64_t now);
/* INT64_MAX: none is set. */
int64_t zkl__timers_next(const struct zkl__timers *timers);

/* The pause before something is tried again: twice the last one, within bounds. last: 0 at first.
 * All of one unit. */
static inline int64_t zkl__backoff(int64_t last, int64_t least, int64_t most)
{
    int64_t longer = 2 * last < most ? 2 * last : most;
    return longer > least ? longer : least;
}

/* === sorting ================================================================================== */

/* One sort: in place, without memory, and never slow, since names are anybody's. */

/* The smallest first. size: of each, a multiple of 8. compare: less than, equal to, or greater than
 * 0, as for qsort, which may ask for memory by itself. */
void zkl__sort(void *base, size_t count, size_t size,
               int (*compare)(const void *one, const void *other));

#endif
