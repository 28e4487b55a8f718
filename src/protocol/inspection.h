/* inspection.h - finds forged znodes among those before a contender, many at a time, nearest first.
 *
 * A client with CREATE on the queue can create thousands of persistent znodes with contenders'
 * names. A contender must know that a znode is forged before it ignores it. The C client has no
 * request that returns the owners of several znodes: it can neither read in a transaction nor list
 * a session's ephemeral znodes. But a transaction can find the first ephemeral one of many. An
 * ephemeral znode has no children (PrepRequestProcessor.pRequest2TxnCreate throws
 * NoChildrenForEphemerals). So a transaction that creates a child below each of them fails at the
 * first ephemeral one, and the response says at which. Its last parts always fail, so it never
 * creates anything.
 *
 * After the first forged znode, eight are read, each by a request of its own. If no session owns
 * any of them and 300 are left, transactions of a thousand parts inspect those. Access lists of the
 * forged znodes can refuse the creates. Then every znode is read by a request of its own, in
 * batches that grow up to 500, each one round trip. The queue keeps the result (local_queue.h): a
 * later contender of the session inspects none of them again. */
#ifndef ZKL_PROTOCOL_INSPECTION_H
#define ZKL_PROTOCOL_INSPECTION_H

#include "contender_step.h"

struct zkl__list_index;

/* The predecessor was forged, so the next list starts an inspection; or it was not. */
void zkl__suspect(struct zkl__contender *c, bool forged);
bool zkl__suspected(const struct zkl__contender *c);
/* Starts an inspection of this list, if the predecessor was forged. False: there is none. Without
 * memory predecessors are read one by one. */
bool zkl__inspection_begin(struct zkl__contender *c, const struct zkl__contender_event *ev);
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
/* The server did not respond to a request of the last batch. */
bool zkl__inspection_broken(const struct zkl__contender *c);
/* One of the znodes was deleted, and another may have replaced it, as in a downgrade of a writer. A
 * new list is needed. */
bool zkl__inspection_stale(const struct zkl__contender *c);
/* The core is freed: requests under way get no response. */
bool zkl__inspection_abandon(const struct zkl__request *request);

#endif
