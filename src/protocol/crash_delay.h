/* crash_delay.h - config.delay: a contender that is first waits that long before its grant, unless
 * it has evidence that the last holder released.
 *
 * The evidence is a mark, the data of the directory: the name of the znode whose holder released
 * last. The transaction that deletes that znode writes it, so it is there exactly when the release
 * was done. Who writes it had evidence about the holder before it, or has waited. So a mark says
 * that every holder up to its number ended cleanly, or ended a delay ago.
 *
 * A contender is granted without a delay if one of these is true:
 *  - The mark names the contender that was right before ours: a list has shown it there, and its
 *    znode was read after that. So nobody between the two was in the queue then or is later, and
 *    nobody between them held before, for that one stood.
 *  - The same for the number right before ours, if no list has shown us anybody; or ours is 0.
 *  - The directory was read before our create: it had no children, and the last change of them was
 *    in the transaction that wrote the data last (pzxid, mzxid), which was a release or the create
 *    of the directory; and our number is the next one that the counter gave then (the number of
 *    creates of children: PrepRequestProcessor, pRequest2TxnCreate). So nobody queued in between.
 *    This one is for contenders that came and left while another one held.
 *  - Who was before us announced its release (announcement.h), or handed over in this session.
 * Otherwise the delay begins when the directory has been read after a list that shows us first. */
#ifndef ZKL_PROTOCOL_CRASH_DELAY_H
#define ZKL_PROTOCOL_CRASH_DELAY_H

#include "op.h"

struct zkl__contender;
struct zkl__contender_actions;
struct zkl__contender_event;

struct zkl__crash_delay {
    enum zkl__crash_delay_state {
        ZKL__DELAY_UNKNOWN, /* how the holder before us ended */
        ZKL__DELAY_RUNS,    /* nothing shows that it ended cleanly */
        ZKL__DELAY_OVER,    /* it ended cleanly, or the delay is over */
        ZKL__DELAY_MARKS    /* left cleanly: the delete of our znode writes the mark */
    } state;
    int32_t before;   /* number of the contender that was right before ours; -1: none was */
    int32_t released; /* number in the last mark that was read; -1: none */
    int32_t next;     /* that the counter gave when the queue was empty, since a release; -1 */
    int64_t until;    /* RUNS */
};

void zkl__delay_new_attempt(struct zkl__contender *c);
/* It waits for this one. Only of what is known to be a contender: behind another child of the queue
 * somebody may hold. */
void zkl__delay_behind(struct zkl__contender *c, const char *name);
/* Who was before it has told that it releases. */
void zkl__delay_none(struct zkl__contender *c);
/* Nothing delays its grant any more, or config.delay is off. */
bool zkl__delay_over(const struct zkl__contender *c);
/* Reads the directory, beside what else is asked. */
void zkl__delay_ask(struct zkl__contender *c);
void zkl__delay_on_read(struct zkl__contender *c);
bool zkl__delay_runs(const struct zkl__contender *c);
int64_t zkl__delay_wake(const struct zkl__contender *c);
void zkl__delay_on_time(struct zkl__contender *c, int64_t now);

/* The contender leaves: it held until its release, or it could have been granted. */
void zkl__delay_leave(struct zkl__contender *c);
bool zkl__delay_marks(const struct zkl__contender *c);
struct zkl__op zkl__delay_mark_op(const struct zkl__contender *c);
/* What is deleted from now on is a duplicate. */
void zkl__delay_marked(struct zkl__contender *c);
/* The delete was refused. True: maybe for the mark, and it goes without it, because a directory
 * that may not be written must not keep the znode. */
bool zkl__delay_refused(struct zkl__contender *c, enum zkl__rc rc);

#endif
