/* announcement.h - announced release. Who held until its release and has reason to think that
 * somebody waits deletes its node and, in the same transaction before that, writes it; so the one
 * watch on it says "changed" instead of "deleted", and who waits knows without a list that the one
 * before it held and is through, and so is first. Sound, because:
 *  - nobody else can write that node: its access list gives that to a random identity of its
 * session alone (sealed; the name says so);
 *  - its session does not write it before, nor ever a second node of the same contender, or what is
 * revocable;
 *  - who waits would have heard, on the same ordered connection, if its own node had been removed
 * before that (own_watch.h);
 *  - who was handed the lock by another one of its session does not announce before that one's node
 * is known to be gone (handed);
 *  - a reader's end says nothing: others may read beside it. Only who waited for everybody is
 * believed. In a session with credentials, which has no seal and whose queues are mostly its own
 * kind's, nobody is.
 *
 * A client that may create nodes in the queue can still forge an announcement, with a node and an
 * identity of its own. So a holder that was granted by announcement lists after a heartbeat, within
 * which it would also learn that somebody had removed its node. It may have released by then, and
 * misled the next one. That ends at the border of a block of eight sequence numbers. The contender
 * behind the border is granted by announcement, too, but it lists in the same moment, and neither
 * announces nor hands over inside its session before its list has shown it first. The counter of
 * the directory gives each number once, in the order of the queue: whatever znodes a forger adds,
 * the others only come to a border earlier. */
#ifndef ZKL_PROTOCOL_ANNOUNCEMENT_H
#define ZKL_PROTOCOL_ANNOUNCEMENT_H

#include "op.h"

struct zkl__contender;

struct zkl__announcement {
    enum zkl__announcing {
        ZKL__ANNOUNCES_NOT,
        ZKL__ANNOUNCES_PERHAPS, /* it waited for somebody: others may well be waiting for us */
        ZKL__ANNOUNCES          /* with our node's delete */
    } state;
    /* What a grant rests on. */
    enum zkl__evidence {
        ZKL__EVIDENCE_LIST,         /* a list has shown us first */
        ZKL__EVIDENCE_ANNOUNCEMENT, /* no list has: our own release is announced all the same */
        ZKL__EVIDENCE_AT_BORDER     /* no list has, and nobody is to rely on us before one does */
    } evidence;
    int64_t look_at; /* when to ask for a list that shows us; 0: no need, or it is under way */
};

/* --- our own --------------------------------------------------------------------------------- */

/* Whether a node that is made now can be announced. */
bool zkl__announcement_seals(const struct zkl__contender *c);
/* It waits for somebody. */
void zkl__announcement_expect(struct zkl__contender *c);
bool zkl__announcement_expected(const struct zkl__contender *c);
/* It is released. */
void zkl__announcement_release(struct zkl__contender *c);
/* With the node's delete. */
bool zkl__announcement_due(const struct zkl__contender *c);
struct zkl__op zkl__announcement_op(const struct zkl__contender *c);
/* What is deleted from now on is a duplicate, which would say nothing. */
void zkl__announcement_made(struct zkl__contender *c);
/* The delete was not done. True: for this, and it goes without it. */
bool zkl__announcement_refused(struct zkl__contender *c, enum zkl__rc rc);

/* --- the predecessor's ----------------------------------------------------------------------- */

/* Whether its word would count. */
bool zkl__announcement_believed(const struct zkl__contender *c, const char *predecessor);
/* It came. */
void zkl__announcement_heard(struct zkl__contender *c);
/* One of this session hands over, and may itself hold by announcement only. */
void zkl__announcement_handed_on(struct zkl__contender *c, const struct zkl__contender *ahead);
/* The next one may be granted because this one was. */
bool zkl__announcement_relied_on(const struct zkl__contender *c);
/* The grant rests on a list. */
bool zkl__announcement_is_listed(const struct zkl__contender *c);
/* A list shows us first, or tells more. */
void zkl__announcement_listed(struct zkl__contender *c);

/* --- while it is held ------------------------------------------------------------------------ */

/* Granted. A list shows whether that was true: within a heartbeat, as a removal by hand is noticed,
 * or at once. */
void zkl__announcement_hold(struct zkl__contender *c);
int64_t zkl__announcement_wake(const struct zkl__contender *c);
void zkl__announcement_on_time(struct zkl__contender *c);
void zkl__announcement_on_list(struct zkl__contender *c);
void zkl__announcement_on_inspected(struct zkl__contender *c);
void zkl__announcement_on_predecessor(struct zkl__contender *c);

#endif
