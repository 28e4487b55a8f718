/* release_mark.h - config.mark: whether the last holder released, for the options recover and
 * delay_after_crash_ms.
 *
 * Writing. A holder that releases deletes its znode and, in the same transaction, writes the name
 * of this znode into the data of the directory. Nothing is written at a grant. So the mark is there
 * exactly when the release was done. If the reply is lost, the transaction is sent again, and finds
 * the znode gone or does both. Every other end leaves no mark: a crash, also between two grants of
 * one session, an expired session, a removal by hand, a release after a loss, and a hold that was
 * longer than config.max_hold. A duplicate of the znode is deleted without a mark, because a later
 * holder may have ended since. Two contenders differ:
 *  - A contender that gives up while it is first writes the mark, too, if it knows that the last
 *    holder released. Otherwise no grant has reported the crash yet, and it writes none.
 *  - A holder that hands over inside its session writes none. Its follower holds while the holder's
 *    znode still stands, and somebody may remove the follower's by hand before that one is deleted.
 *    The mark of the follower's own release counts for both. A holder whose delete is under
 *    way with the mark hands over to nobody.
 *
 * Reading. A grant reports the unclean end of the last holder, or rests on its mark. So each mark
 * covers all holders before it. A contender concludes that the last holder released if one of these
 * is true:
 *  - The mark names the contender that was right before ours: a list has shown it there, and its
 *    znode was read after that. So nobody between the two was in the queue then or is later, and
 *    nobody between them held before, for that one stood.
 *  - The mark names the number right before ours, if no list has shown us anybody.
 *  - Our number is 0: nobody was before us in this directory.
 *  - The directory was read before our create: it had no children, and the last change of them was
 *    in the transaction that wrote the data last (pzxid, mzxid), which was a release or the create
 *    of the directory; and our number is the next one that the counter gave then (the number of
 *    creates of children: PrepRequestProcessor, pRequest2TxnCreate). So nobody queued in between.
 *    This one is for contenders that came and left while another one held.
 *  - The predecessor hands over in this session, and config.mark is set for it as well.
 * An announcement (announcement.h) is not enough. A contender without config.mark may announce, and
 * its own grant reported no crash. So the directory is read after an announcement. If it has no
 * mark of that release, the queue is listed, because the announcement may be forged.
 *
 * Otherwise the grant is unclean, after config.delay. A contender concludes this only from a read
 * that was sent after the list that shows it first. An earlier one may be older than the release.
 * The delay begins with that read.
 *
 * Missing evidence means unclean. So these ends look like a crash, though they are none: of a
 * waiter that ends between the release of its predecessor and its own grant, of a session that ends
 * while its lock lingers or stays for config.least, of a holder without config.mark or of another
 * library, and of a holder that may not write the directory. So does whatever was in the directory
 * before the first use of config.mark. Contenders with and without a delay read and write the same
 * mark: a contender without one reports a crash immediately, and after its release nobody waits. */
#ifndef ZKL_PROTOCOL_RELEASE_MARK_H
#define ZKL_PROTOCOL_RELEASE_MARK_H

#include "op.h"

struct zkl__contender;

struct zkl__release_mark {
    enum zkl__release_mark_state {
        ZKL__MARK_UNKNOWN, /* whether the last holder released */
        ZKL__MARK_CLEAN,   /* it did */
        ZKL__MARK_DELAYS,  /* nothing shows that it did, and config.delay is not over */
        ZKL__MARK_UNCLEAN, /* nothing shows that it did, and config.delay is over */
        ZKL__MARK_WRITES   /* the delete of our znode writes the mark */
    } state;
    int32_t before;   /* number of the contender that was right before ours; -1: none was */
    int32_t released; /* number in the last mark that was read; -1: none */
    int32_t next;     /* that the counter gave when the queue was empty, since a release; -1 */
    int64_t until;    /* DELAYS */
};

void zkl__mark_new_attempt(struct zkl__contender *c);
/* It waits for this one. Only of what is known to be a contender: behind another child of the queue
 * somebody may hold. */
void zkl__mark_behind(struct zkl__contender *c, const char *name);
/* The last holder is of this session, and released. */
void zkl__mark_clean(struct zkl__contender *c);
/* The grant need not wait for evidence or a delay, or config.mark is off. */
bool zkl__mark_permits(const struct zkl__contender *c);
static inline bool zkl__mark_unclean(const struct zkl__release_mark *mark)
{
    return mark->state == ZKL__MARK_UNCLEAN;
}
/* Reads the directory, beside what else is asked. */
void zkl__mark_ask(struct zkl__contender *c);
void zkl__mark_on_read(struct zkl__contender *c);
static inline bool zkl__mark_delays(const struct zkl__release_mark *mark)
{
    return mark->state == ZKL__MARK_DELAYS;
}
/* The delete under way writes the mark, so it hands over to nobody any more. */
static inline bool zkl__mark_writes(const struct zkl__release_mark *mark)
{
    return mark->state == ZKL__MARK_WRITES;
}
int64_t zkl__mark_wake(const struct zkl__contender *c);
void zkl__mark_on_time(struct zkl__contender *c);

/* The contender leaves: decides whether the delete of its znode writes the mark. */
void zkl__mark_leave(struct zkl__contender *c);
/* Whether the delete that is sent now does. */
bool zkl__mark_due(struct zkl__contender *c);
struct zkl__op zkl__mark_op(const struct zkl__contender *c);
/* What is deleted from now on is a duplicate. */
void zkl__mark_written(struct zkl__contender *c);
/* The delete was not done, or its reply was lost. True: it was refused for the mark, and
 * goes without it, because a directory that may not be written must not keep the znode. */
bool zkl__mark_refused(struct zkl__contender *c, const struct zkl__reply *reply);

#endif
