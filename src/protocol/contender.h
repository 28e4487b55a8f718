/* contender.h - one contender in one queue: the protocol of every queue recipe, as a step function.
 *
 * A contender is one ephemeral sequential znode. Its create is sent together with a list of the
 * queue. It watches the one znode that its rule names, and is granted when a list shows no
 * conflicting contender before it and the session has a lease. A recipe is a rule. There is no
 * clock, thread, socket or random number in here: events carry the time and the uuid, actions are
 * operations for the store and outcomes for the owner.
 *
 * Life: new -> (start) -> waiting states -> held -> (release) -> removing -> gone; or, after the
 * release, lingering -> held, for another owner. The owner of a contender that is
 * cancelled, timed out or failed is notified in that step, and the contender goes on deleting its
 * znode by itself. */
#ifndef ZKL_PROTOCOL_CONTENDER_H
#define ZKL_PROTOCOL_CONTENDER_H

#include "name.h"
#include "op.h"

/* What makes a queue recipe: the tag in a znode's name, and the kinds of contender that must go
 * first. A contender waits for the nearest znode before its own of such a kind. If there is none,
 * it is first. */
struct zkl__rule {
    const char *tag;    /* "lock-": behind the uuid, before the ten digits */
    uint32_t waits_for; /* ZKL__KIND bits */
};

/* Nobody of any kind may be before us. */
extern const struct zkl__rule zkl__rule_mutex;

enum zkl__contender_state {
    ZKL__NEW,      /* not started, or waiting for a connection to start on */
    ZKL__CREATING, /* create and list are on their way */
    ZKL__MAKING,   /* the directory is being made */
    ZKL__LISTING,  /* our node is there; who is before us? */
    ZKL__WATCHING, /* somebody is: watched, or about to be */
    ZKL__PROVING,  /* nobody is: waiting for a lease */
    ZKL__HELD,
    ZKL__LOST,      /* was held; the node may still be there */
    ZKL__LINGERING, /* released, and kept for the next owner */
    ZKL__REMOVING,  /* not wanted any more: until no node of ours is left */
    ZKL__ENDED,
    ZKL__CONTENDER_STATES
};
const char *zkl__contender_state_name(enum zkl__contender_state state);

enum zkl__outcome_kind {
    ZKL__GRANTED,
    ZKL__FAILED,   /* last word: never granted. The owner forgets the contender */
    ZKL__JEOPARDY, /* held, but no response renews the lease */
    ZKL__SAFE,     /* held, and the lease is renewed again */
    ZKL__LOSS,     /* was held. Reported once; the owner still has to release it */
    ZKL__RELEASED, /* last word after a release: no node is left, or the session is over. The owner
                      forgets the contender */
    ZKL__DOWNGRADED,    /* held: its node is of the weaker kind now */
    ZKL__REVOKED,       /* held, config.revocable: another client requests that we release */
    ZKL__NOT_DOWNGRADED /* held as before: somebody else's znode has the name */
};
struct zkl__outcome {
    enum zkl__outcome_kind kind;
    int code;                         /* FAILED: why. RELEASED: ZKL_OK when the server confirmed */
    int zk_code;                      /* ZooKeeper's number if it was its word */
    const char *why;                  /* static text */
    const char *path;                 /* FAILED, of a multi-contender: whose queue it was */
    int64_t token;                    /* GRANTED, as the next three */
    int64_t serial;                   /* how many grants this node has had, this one included */
    struct zkl__contender *contender; /* that holds: another one than the owner made, when that
                                         one's lock had lingered. NULL: no contender's grant */
    bool unclean; /* with config.mark: nothing shows that the last holder released */
    int64_t now;
};

struct zkl__contender_config {
    const struct zkl__rule *rule;
    const char *path;     /* of the queue; copied */
    const char *metadata; /* copied */
    const zkl_acl *acl;   /* kept by the owner until its last word; NULL: the store's default */
    bool fail_on_expiry;
    bool mark;      /* a release writes a mark into the directory, so that the next holder learns of
                       a crash: contender.c. The directory is made persistent. Not for a
                       multi-contender, and only with a rule that waits for every kind */
    bool revocable; /* REVOKED is wanted: our node is watched while it is held */
    int64_t max_hold; /* ns; 0: none */
    int64_t linger;   /* ns that the node stays after a release; 0: none. Not with revocable */
    int64_t least; /* ns from the grant on that the node stays, also when it is released earlier; 0:
                      none. Not with linger or a multi-contender */
    int64_t delay; /* ns that it waits when it is first, unless the last holder released; 0: none.
                      Only with mark */
    size_t max_ahead; /* fails with ZKL_EBUSY rather than queue behind more; 0: no limit */
    /* Called inside the step, as notify, when a list that is read anyway shows another number of
     * contenders before ours that must go first. NULL: nobody wants to know. */
    void (*position)(void *owner, size_t follows);
    /* Called inside the step, under the session's mutex: note and signal, call nothing of the core.
     * NULL: nobody listens. */
    void (*notify)(void *owner, const struct zkl__outcome *outcome);
    void *owner;
};

struct zkl__contender; /* its fields: core_internal.h, for the core alone */

#endif
