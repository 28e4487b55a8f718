/* queue_list.h - what a contender reads in the list of its queue: its own nodes, and the one node
 * to wait for. */
#ifndef ZKL_PROTOCOL_QUEUE_LIST_H
#define ZKL_PROTOCOL_QUEUE_LIST_H

#include "contender_step.h"
#include "queue_order.h"

/* The contenders of a list in the order of their places: for who reads it many times. */
struct zkl__list_index {
    int32_t base;
    const char *user; /* see zkl__list_user */
    size_t count;
    struct zkl__list_entry {
        const char *name;
        int32_t place; /* number less base */
        zkl_kind kind;
    } entries[];
};
/* base: the number of a contender that reads it. NULL: no memory. */
struct zkl__list_index *zkl__list_index_new(const zkl_heap *heap, const struct zkl__reply *list,
                                            int32_t base);

/* Below, index may be NULL. */
bool zkl__list_has(const struct zkl__reply *list, const struct zkl__list_index *index,
                   const char *name);

/* "leases" for a path that also has "locks", a semaphore's (Curator's InterProcessSemaphoreV2);
 * "members" for one that also has "pieces", a partition's; else NULL. */
const char *zkl__list_user(const struct zkl__reply *list, const struct zkl__list_index *index);

/* The contender, or lease, with the highest number; NULL: there is none. */
const char *zkl__list_last(const struct zkl__reply *list);

/* Of the nodes that carry our uuid the lowest, and another one; NULL where there is none. */
void zkl__list_mine(const struct zkl__contender *c, const struct zkl__reply *list,
                    const char **lowest, const char **other);

/* The nearest contender before us of a kind that must go first; NULL: we are admitted. */
const char *zkl__list_blocker(const struct zkl__contender *c, const struct zkl__reply *list,
                              const struct zkl__list_index *index);

/* How many must go first. */
size_t zkl__list_blockers(const struct zkl__contender *c, const struct zkl__reply *list,
                          const struct zkl__list_index *index);

/* How many entries stand before ours. */
size_t zkl__list_before(const struct zkl__contender *c, const struct zkl__list_index *index);
/* Of a kind that must go first, and not known as forged. */
bool zkl__list_blocks(const struct zkl__contender *c, const char *name);

/* zkl__stat_forged, as this contender sees it. */
bool zkl__list_forged(const struct zkl__contender *c, const char *name,
                      const struct zkl__stat *stat);
/* From now on the contenders of this session in the queue pass it over, as far as it is forged for
 * them. False: no memory. */
bool zkl__list_pass_over(struct zkl__contender *c, const char *name, const struct zkl__stat *stat);

#endif
