/* contender.h - one place in one queue: the protocol of every queue recipe, as a step function.
 *
 * A contender is one ephemeral sequential znode. It is asked for together with the list of the queue, watches the one node
 * that its admission rule names, and is granted when a list shows nobody admissible before it and the session has a lease.
 * A recipe is a rule. No clock, thread, socket or random number in here: events carry the time and the uuid, actions are
 * operations for the store and outcomes for the owner.
 *
 * Life: new -> (start) -> waiting states -> held -> (release) -> removing -> gone. A contender that is cancelled, timed out or
 * failed is told so at once and goes on removing its znode by itself. */
#ifndef ZKL_CORE_CONTENDER_H
#define ZKL_CORE_CONTENDER_H

#include "heap.h"
#include "name.h"
#include "op.h"

/* A child of the queue, as a rule sees it. */
struct zkl__child {
    const char *name;
    zkl_kind kind;
    int32_t place; /* distance from our own number: negative is before us */
};

/* What makes a recipe: the part of its name, and who must go first. */
struct zkl__rule {
    const char *tag; /* "lock-" */
    /* children: those before us, nearest last, foreign ones and ones proved not to count left out. The index of the one node to
     * wait for, or -1: admitted. */
    int (*blocker)(const struct zkl__child *before, int count);
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
    ZKL__LOST,     /* was held; the node may still be there */
    ZKL__REMOVING, /* not wanted any more: until no node of ours is left */
    ZKL__GONE,
    ZKL__CONTENDER_STATES
};
const char *zkl__contender_state_name(enum zkl__contender_state state);

enum zkl__outcome_kind {
    ZKL__GRANTED,
    ZKL__FAILED,   /* last word: never granted. The owner forgets the contender */
    ZKL__JEOPARDY, /* held, but the servers cannot be heard */
    ZKL__SAFE,     /* and again they can */
    ZKL__LOSS,     /* was held: told once. Release it */
    ZKL__RELEASED  /* last word after a release: no node is left, or the session is over. The owner forgets the contender */
};
struct zkl__outcome {
    enum zkl__outcome_kind kind;
    int code;         /* FAILED: why. RELEASED: ZKL_OK when the server confirmed */
    int zk_code;      /* ZooKeeper's number if it was its word */
    const char *why;  /* static text */
    int64_t token;    /* GRANTED */
    int64_t now;
};

struct zkl__contender_config {
    const struct zkl__rule *rule;
    const char *path;     /* of the queue; copied */
    const char *metadata; /* copied */
    const zkl_acl *acl;   /* kept by the owner until its last word; NULL: the store's default */
    bool fail_on_expiry;
    int64_t max_hold; /* ns; 0: none */
    /* Called inside the step, under the session's mutex: note and signal, call nothing of the core. NULL: nobody listens. */
    void (*notify)(void *owner, const struct zkl__outcome *outcome);
    void *owner;
};

struct zkl__contender; /* its fields are for contender.c and session.c: contender_state.h */

/* What happened to a contender. */
enum zkl__contender_event_kind {
    ZKL__CE_START,
    ZKL__CE_REPLY,
    ZKL__CE_WATCH,     /* the node waited for changed or went */
    ZKL__CE_SUSPENDED, /* replies of everything outstanding follow as unknown */
    ZKL__CE_CONNECTED, /* again, or on a new session */
    ZKL__CE_EXPIRED,   /* the session is over: no node of ours is left, or none that is ours any more */
    ZKL__CE_LEASE,     /* the lease grew */
    ZKL__CE_LAPSED,    /* the lease ended */
    ZKL__CE_MISSING,   /* a heartbeat found our node gone */
    ZKL__CE_TIME,      /* the contender's own time has come */
    ZKL__CE_CANCEL,
    ZKL__CE_RELEASE
};

#endif
