/* semaphore_step.h - the fields of a semaphore's acquire, for semaphore.c and for whoever looks at
 * all of the core's memory. */
#ifndef ZKL_PROTOCOL_SEMAPHORE_STEP_H
#define ZKL_PROTOCOL_SEMAPHORE_STEP_H

#include "children.h"
#include "semaphore.h"
#include "session_inside.h"

enum zkl__semaphore_state {
    ZKL__SEMAPHORE_NEW,
    ZKL__SEMAPHORE_ASKING,    /* for the limit, while it queues: who has no chance need not wait to
                                 hear it */
    ZKL__SEMAPHORE_SEARCHING, /* nobody has set one: is the path in use as something else? */
    ZKL__SEMAPHORE_SEARCHED,  /* the last contender there: does it live with a session? */
    ZKL__SEMAPHORE_QUEUED,    /* until it is the head */
    ZKL__SEMAPHORE_MAKING, /* until its leases are there; then all are to be read, with the limit */
    ZKL__SEMAPHORE_READING,
    ZKL__SEMAPHORE_SETTING, /* nobody has set a limit: ours is written */
    ZKL__SEMAPHORE_JUDGING, /* too many stand: which of them live with a session? */
    ZKL__SEMAPHORE_WAITING, /* for fewer leases, or a higher limit */
    ZKL__SEMAPHORE_HELD,
    ZKL__SEMAPHORE_LOST,      /* was held, and told */
    ZKL__SEMAPHORE_RELEASING, /* until no lease is left */
    ZKL__SEMAPHORE_GONE,
    ZKL__SEMAPHORE_STATES
};

/* Of the path, as its head has read it since its own leases stand: from 1 on, or */
enum { ZKL__LIMIT_UNREAD = 0, ZKL__LIMIT_UNSET = -1 };

struct zkl__permit {
    struct zkl__semaphore *semaphore;
    struct zkl__contender *contender; /* NULL: not made yet, or given back */
    int64_t token;                    /* 0: it has no node yet */
};

struct zkl__semaphore {
    struct zkl__machine machine; /* first. Its step follows those of its contenders */
    struct zkl__core *core;
    struct zkl__semaphore *next, *prev; /* of the session */
    struct zkl__semaphore_config config;
    unsigned number; /* for traces: that of its first place */
    enum zkl__semaphore_state state;

    uint32_t mail; /* bits */
    int code, zk_code;
    const char *why;
    const struct zkl__reply *reply; /* NULL: what was asked was not answered */
    const struct zkl__reply *limit_reply;

    struct zkl__contender *place; /* in the queue; NULL: let go */
    int64_t deadline;             /* of the acquire; once granted, of the hold */
    bool try_only;
    bool jeopardy; /* was told */
    /* Whom SEARCHING found: of any library, so the name may be longer than ours. */
    char last[ZKL__NAME_LONGEST + 1];
    int limit;               /* ZKL__LIMIT_UNREAD, ... */
    int32_t version;         /* of PATH, whose data is empty */
    bool busy;               /* its one operation is under way */
    bool crowded;            /* too many leases stand: read both with watches */
    struct zkl__watch watch; /* of the leases */
    struct zkl__watch limit_watch;
    int stand;                    /* leases, by the last list */
    struct zkl__children *leases; /* of the last list that was judged; NULL: none was */
    size_t looks;                 /* at leases, under way */
    bool unanswered;              /* one of these */
    int64_t retry_at, patience;   /* nothing is asked before; of the last putting-off */
    struct zkl__permit permits[]; /* config.count */
};

static inline bool zkl__semaphore_waits(const struct zkl__semaphore *s)
{
    return s->state < ZKL__SEMAPHORE_HELD;
}

#endif
