/* semaphore_step.h - the fields of a semaphore's acquire, for the core alone: semaphore.c has its
 * life, semaphore_mail.c what it hears, semaphore_step.c what it does next; semaphore_limit.c and
 * semaphore_leases.c read what the servers answer. */
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

/* Its mail, read in this order. It says no more than "look". */
enum zkl__semaphore_mail {
    ZKL__SM_FAILED, /* its place or a lease: code, zk_code, why */
    ZKL__SM_END,    /* of the session: code */
    ZKL__SM_AGAIN,  /* its place or a lease was lost before the grant */
    ZKL__SM_LIMIT,  /* the limit that goes with a list of the leases: before that */
    ZKL__SM_REPLY,  /* to its one operation */
    ZKL__SM_WATCH,  /* the leases or the limit changed */
    ZKL__SM_JUDGED, /* all looks at leases were answered, or were not */
    ZKL__SM_CONNECTED,
    ZKL__SM_START,
    ZKL__SM_RELEASE,
    ZKL__SM_CANCEL, /* code */
    ZKL__SM_TIME,
    ZKL__SM_LOOK, /* at its place and its leases */
    ZKL__SM_KINDS
};

/* What its operations are for: numbers that no contender has. */
enum {
    ZKL__ROLE_SEMAPHORE = ZKL__ROLES,
    ZKL__ROLE_LIMIT, /* beside a list of the leases */
    ZKL__ROLE_LEASE  /* + which of the children */
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

/* --- semaphore_mail.c ------------------------------------------------------------------------ */

void zkl__semaphore_post(struct zkl__semaphore *s, enum zkl__semaphore_mail kind);
void zkl__semaphore_tell(struct zkl__semaphore *s, enum zkl__outcome_kind kind, const char *why);
/* Inside a step of its place, or of a lease. */
void zkl__semaphore_on_place(void *owner, const struct zkl__outcome *outcome);
void zkl__semaphore_on_lease(void *owner, const struct zkl__outcome *outcome);
void zkl__semaphore_on_fired(struct zkl__watch *watch, enum zkl__watch_event event);
void zkl__semaphore_answered(struct zkl__core *core, struct zkl__machine *machine, int role,
                             int64_t sent, const struct zkl__reply *reply);
void zkl__semaphore_refused(struct zkl__core *core, struct zkl__machine *machine, int role,
                            int code);

/* --- semaphore_step.c ------------------------------------------------------------------------ */

void zkl__semaphore_step(struct zkl__core *core, struct zkl__machine *machine);
/* False: no memory. */
bool zkl__semaphore_make_place(struct zkl__semaphore *s);
/* Nothing of it is left but its memory, until the session's step is over. */
void zkl__semaphore_end(struct zkl__semaphore *s, const char *why);
void zkl__semaphore_move(struct zkl__semaphore *s, enum zkl__semaphore_state state,
                         const char *why);
/* Its last word, if it waits: nothing of it is left. */
void zkl__semaphore_fail(struct zkl__semaphore *s, int code, int zk_code, const char *why);
/* What it waited for was lost: once more at the tail, or an end. */
void zkl__semaphore_again(struct zkl__semaphore *s);
void zkl__semaphore_grant(struct zkl__semaphore *s, const char *why);
void zkl__semaphore_put_off(struct zkl__semaphore *s);
/* Sends its one operation. */
void zkl__semaphore_ask(struct zkl__semaphore *s, struct zkl__op op);
/* All its leases are held, by the session's lease. */
bool zkl__semaphore_leased(const struct zkl__semaphore *s, int64_t now);

/* --- semaphore_limit.c ----------------------------------------------------------------------- */

/* What ASKING, SEARCHING, SEARCHED and SETTING ask, and what the answers mean. */
void zkl__semaphore_ask_limit(struct zkl__semaphore *s);
void zkl__semaphore_on_limit(struct zkl__semaphore *s, const struct zkl__reply *reply);
/* The head's look at the limit, beside a list of the leases, unless a watch says that it is what it
 * was. */
void zkl__semaphore_read_limit(struct zkl__semaphore *s);
void zkl__semaphore_on_read_limit(struct zkl__semaphore *s);

/* --- semaphore_leases.c ---------------------------------------------------------------------- */

void zkl__semaphore_read_leases(struct zkl__semaphore *s);
void zkl__semaphore_on_leases(struct zkl__semaphore *s, const struct zkl__reply *reply);
/* Sends looks at those of which nothing is known, or decides when there are none. */
void zkl__semaphore_judge(struct zkl__semaphore *s);
/* Of this one; reply NULL: not answered. */
void zkl__semaphore_on_look(struct zkl__semaphore *s, size_t which, const struct zkl__reply *reply);
void zkl__semaphore_on_judged(struct zkl__semaphore *s);
void zkl__semaphore_forget_leases(struct zkl__semaphore *s);

#endif
