/* inspection.h - finds forged znodes among those before a contender, many at a time, nearest first.
 *
 * A client with CREATE on the queue can create thousands of persistent znodes with contenders'
 * names. A contender must know that a znode is forged before it ignores it, and the C client has no
 * request that returns the owners of several znodes. So after the first forged znode, each further
 * one is read by an exists of its own. A batch of them is sent together, and batches grow up to
 * 500: their replies take some milliseconds, far less than a heartbeat. The queue keeps the result
 * (local_queue.h): a later contender of the session inspects none of them again. */
#ifndef ZKL_PROTOCOL_INSPECTION_H
#define ZKL_PROTOCOL_INSPECTION_H

#include "op.h"

#include <stdbool.h>

struct zkl__contender;
struct zkl__core;

struct zkl__suspicion {
    enum {
        ZKL__SUSPICION_NONE,
        ZKL__SUSPICION_ARISEN, /* the predecessor was forged: the next list starts an inspection */
        ZKL__SUSPICION_INSPECTED /* a batch is wanted, or under way */
    } state;
    struct zkl__inspection *inspection; /* of all that stand before it; NULL: it did not meet two
                                           forged ones */
};

/* The predecessor was forged, so the next list starts an inspection; or it was not. */
void zkl__suspect(struct zkl__contender *c, bool forged);
bool zkl__suspected(const struct zkl__contender *c);
/* Starts an inspection of this list, if the predecessor was forged. False: there is none. Without
 * memory, and while replies for an earlier inspection are due, predecessors are read one by one. */
bool zkl__inspection_begin(struct zkl__contender *c);
/* Requests the next batch. */
void zkl__inspection_go_on(struct zkl__contender *c);
/* Requests no further batch for now. */
void zkl__inspection_pause(struct zkl__contender *c);
bool zkl__inspection_goes_on(const struct zkl__contender *c);

/* Whether there is an inspection. It is about all conflicting znodes of the list that are not known
 * as forged. The functions below need one. */
bool zkl__inspected(const struct zkl__contender *c);
/* Ends the inspection. */
void zkl__inspection_drop(struct zkl__contender *c);
/* The nearest znode that is not excluded; NULL: none is left. *seen: it was inspected, and may be a
 * contender. */
const char *zkl__inspection_nearest(const struct zkl__contender *c, bool *seen);
/* The nearest one is no contender. */
void zkl__inspection_exclude(const struct zkl__contender *c);
/* Sends the next batch, or the part of the last one that got no response, unless it is under way.
 * ZKL__CE_INSPECTED follows when the whole batch has responses. */
void zkl__inspection_send(struct zkl__core *core, struct zkl__contender *c);
/* The reply to the exists of this one. */
void zkl__inspection_answered(struct zkl__contender *c, size_t which,
                              const struct zkl__reply *reply);
/* The server did not respond to a request of the last batch. */
bool zkl__inspection_broken(const struct zkl__contender *c);
/* One of the znodes was deleted, and another may have replaced it, as in a downgrade of a writer. A
 * new list is needed. */
bool zkl__inspection_stale(const struct zkl__contender *c);
void zkl__inspection_free(struct zkl__contender *c);

#endif
