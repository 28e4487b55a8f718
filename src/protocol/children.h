/* children.h - the children of a znode: which of them a session owns (op.h), and which znodes of a
 * queue are contenders and hold, for contenders and for operators alike.
 *
 * A list brings names only, so each child is read once. Whether a session owns it is known as long
 * as the lists show its name and nobody can have created that name anew: as many children were
 * created between two lists as names are new. Else all are read again. A child that may not be read
 * counts: to pass over it would be unsafe. */
#ifndef ZKL_PROTOCOL_CHILDREN_H
#define ZKL_PROTOCOL_CHILDREN_H

#include "op.h"

#include <zklock/queue.h>

struct zkl__child {
    const char *name;
    enum zkl__child_verdict {
        ZKL__CHILD_UNKNOWN,
        ZKL__CHILD_EPHEMERAL,
        ZKL__CHILD_DELETED,   /* before it could be read: nobody knows whether it counted, and the
                                 list is older */
        ZKL__CHILD_PERSISTENT /* lives with no session */
    } verdict;
    int64_t czxid; /* 0: not known */
};

/* One block; by name. */
struct zkl__children {
    size_t count;
    size_t others;    /* children that do not count by their names */
    int64_t czxid;    /* of the znode */
    uint32_t created; /* twice the number of children that were ever created there */
    struct zkl__child all[];
};

/* *children becomes those of the list that counts says yes to (NULL: all), and none when there is
 * no such znode. It was NULL, or what was listed before, of which what is known stays known. False:
 * no memory, and it is NULL. */
bool zkl__children_renew(const zkl_heap *heap, struct zkl__children **children,
                         const struct zkl__reply *list, bool (*counts)(const char *name));
/* The server's word on a look (exists, get) at this one. */
void zkl__child_judge(struct zkl__child *child, const struct zkl__reply *reply);
/* The first of which nothing is known, from `from` on; count: there is none. */
size_t zkl__children_unknown(const struct zkl__children *children, size_t from);
/* How many of them are so. EPHEMERAL: they count for sure. Where none must be overlooked, all but
 * the PERSISTENT ones may count. */
size_t zkl__children_count(const struct zkl__children *children, enum zkl__child_verdict verdict);
/* Their names, in one block. */
struct zkl__names {
    size_t count;
    const char *all[]; /* sorted; their text follows */
};
/* Of those that count for sure. NULL: no memory. */
struct zkl__names *zkl__children_names(const zkl_heap *heap, const struct zkl__children *children);
struct zkl__child *zkl__children_find(struct zkl__children *children,
                                      const char *name); /* NULL: not there */

/* === of a queue ================================================================================
 */

/* A znode is a contender only if a session owns it. If its number is lower than ours, it must be
 * older than ours, too, except Curator's downgraded reader, which is created with its writer's
 * number. Any other znode was put there by hand. czxid: of our node; 0: not known yet. */
bool zkl__stat_forged(zkl_kind kind, const struct zkl__stat *stat, int64_t czxid);

/* Fills in forged and holds of all entries, which are in queue order. directory: its stat, as it
 * came with the list. */
void zkl__queue_judge(zkl_queue_entry *entries, size_t count, const struct zkl__stat *directory);

#endif
