/* permits.h - one acquire of a semaphore: a place in the queue, and when that is its head, a node
 * for each permit. For its lock (semaphore.c) it is a claim; permits.c makes, tells and takes back;
 * permits_step.c decides, one operation after the other. */
#ifndef ZKL_RECIPES_PERMITS_H
#define ZKL_RECIPES_PERMITS_H

#include "jury.h"
#include "lock.h"

#include <zklock/semaphore.h>

struct zkl__semaphore {
    zkl_lock lock; /* first; its path is PATH */
    int limit;
    char *locks, *leases;
    char conflict[160];           /* words of the last ZKL_ECONFLICT */
    struct zkl__permits *permits; /* of the latest acquire; NULL: there is none any more */
};

struct zkl__permit {
    struct zkl__permits *permits;
    struct zkl__contender *contender; /* NULL: not made yet, or given back */
    bool held;                        /* it has its node */
    int64_t token;
};

/* One acquire: its place in the queue, then its permits. */
struct zkl__permits {
    struct zkl__semaphore *semaphore;
    struct zkl__contender_config config; /* whom to tell; what to write on nodes */
    struct zkl__contender *place;        /* in the queue; NULL: let go */
    int64_t deadline; /* of the acquire; once granted, of the hold (max_hold_ms) */
    bool try_only;

    enum {
        ASKING,    /* for the limit, while we queue: who has no chance need not wait to hear it */
        SEARCHING, /* nobody has set one: is the path in use as something else? */
        SEARCHED,  /* the last contender there: does it live with a session? */
        QUEUED,    /* until we are the head; then the limit is looked at once more, and permits are
                      made */
        AGREED,    /* until the permits are there; then the leases are to be read */
        READING,
        JUDGING, /* too many stand: which of them live with a session? */
        WAITING, /* for fewer leases */
        GRANTED
    } step;
    bool head;    /* the first in the queue */
    bool crowded; /* too many leases stand: read them with a watch */
    bool over;    /* failed: code, zk_code, why */
    bool again;   /* the place or a permit was lost before the grant */
    bool lost;    /* after it: told */
    bool told_jeopardy;
    int code, zk_code;
    const char *why;
    char last[ZKL__NAME_LONGEST + 1];
    int32_t version; /* of PATH, whose data is empty */
    bool set;        /* the limit has to be written there */

    bool busy;
    struct zkl__request request;
    struct zkl__watch watch; /* of the leases */
    struct zkl__jury jury;   /* of the same */
    struct zkl__alarm alarm; /* to act after a step, and at the deadline */
    int left;                /* permits whose RELEASED is awaited */
    int count;
    struct zkl__permit permits[];
};

/* What a semaphore's lock claims. */
extern const struct zkl__claim_ops zkl__permits_claims;

/* How it queues. */
extern const struct zkl__rule zkl__permits_queue;

/* The contender lets go; *contender is NULL then. */
void zkl__permits_drop(struct zkl__permits *p, struct zkl__contender **contender);
/* Acts after the step; at that time, or at the deadline, when that comes first. */
void zkl__permits_wake(struct zkl__permits *p);
void zkl__permits_wake_at(struct zkl__permits *p, int64_t at);

/* --- permits.c, for permits_step.c ----------------------------------------------------------- */

static inline zkl_session *zkl__permits_session(const struct zkl__permits *p)
{
    return p->semaphore->lock.session;
}

void zkl__permits_tell(struct zkl__permits *p, enum zkl__outcome_kind kind, const char *why);
/* Noted inside a step, told after it. */
void zkl__permits_fail(struct zkl__permits *p, int code, int zk_code, const char *why);
/* A node for each. */
void zkl__permits_make(struct zkl__permits *p);
/* What it waited for was lost: once more at the tail, or an end. */
void zkl__permits_begin_again(struct zkl__permits *p);
/* The last word of one that was never granted; p is gone. */
void zkl__permits_end(struct zkl__permits *p);
/* Held for max_hold_ms. */
void zkl__permits_lose(struct zkl__permits *p);
/* By the lease. */
bool zkl__permits_hold(const struct zkl__permits *p);

/* --- permits_step.c, for permits.c ----------------------------------------------------------- */

void zkl__permits_go_on(struct zkl__permits *p);
void zkl__permits_on_done(struct zkl__request *request, const struct zkl__reply *reply);
void zkl__permits_on_fired(struct zkl__watch *watch, enum zkl__watch_event event);
void zkl__permits_on_judged(void *owner, bool answered);
void zkl__permits_ring(void *owner);

#endif
