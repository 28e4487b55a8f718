/* inspection.h - the znodes before a contender, looked at many at a time, nearest first.
 *
 * Whoever may create in a queue may put persistent nodes with contenders' names into it, thousands
 * of them, and each has to be judged before it can be passed over. The C client has no request that
 * tells the owners of several znodes: neither reads in a transaction nor the list of a session's
 * ephemeral znodes. But a transaction can tell who lives with no session. An ephemeral znode has no
 * children (PrepRequestProcessor.pRequest2TxnCreate throws NoChildrenForEphemerals), so the
 * creation of a child below each of many fails at the first that is ephemeral, and the reply says
 * at which. Its last parts always fail, so nothing is made.
 *
 * So, after the first forged one, eight are looked at each. If none of them lives with a session
 * and 300 are left, these are judged a thousand to a transaction. Whoever forges can refuse us the
 * right to create below, and then all are looked at, in batches that grow up to 500, each one round
 * trip. What is found is the queue's to keep (local_queue.h): a later contender of the session
 * looks at none of them again. */
#ifndef ZKL_CORE_INSPECTION_H
#define ZKL_CORE_INSPECTION_H

#include "contender_step.h"

struct zkl__list_index;

/* Who was before us was forged: the next list is for an inspection; or not. */
void zkl__suspect(struct zkl__contender *c, bool forged);
bool zkl__suspected(const struct zkl__contender *c);
/* If that is so, with this list. False: none; without memory they are looked at one by one. */
bool zkl__inspection_begin(struct zkl__contender *c, const struct zkl__contender_event *ev);
/* The next batch is wanted. */
void zkl__inspection_go_on(struct zkl__contender *c);
/* None is, for now. */
void zkl__inspection_pause(struct zkl__contender *c);
bool zkl__inspection_goes_on(const struct zkl__contender *c);

/* Of all in the list that it has to wait for and that are not known as forged. The functions below
 * need that there is one. */
bool zkl__inspected(const struct zkl__contender *c);
/* Not wanted any more. */
void zkl__inspection_drop(struct zkl__contender *c);
/* The nearest one that is not excluded, NULL: none is left. *seen: it was looked at, and may well
 * be a contender. */
const char *zkl__inspection_nearest(const struct zkl__contender *c, bool *seen);
/* The nearest one is no contender. */
void zkl__inspection_exclude(const struct zkl__contender *c);
/* Sends the next batch, or what of the last one was not answered, if it is not under way;
 * ZKL__CE_INSPECTED follows when all of it is answered. */
void zkl__inspection_send(struct zkl__core *core, struct zkl__contender *c);
/* One of the last batch was not answered by the server. */
bool zkl__inspection_broken(const struct zkl__contender *c);
/* One of them is gone, and may have left another in its place, as a writer that is downgraded does:
 * there has to be a new list. */
bool zkl__inspection_stale(const struct zkl__contender *c);
/* The core goes: nothing that is under way will be answered. */
bool zkl__inspection_abandon(const struct zkl__request *request);

#endif
