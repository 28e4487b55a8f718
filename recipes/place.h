/* place.h - an object that waits for and holds one place in a queue: what every queue recipe is made of.
 *
 * A recipe is an admission rule (core/contender.h), a struct that begins with a zkl__place, two functions that call the user, and
 * public functions that hand on to the ones below. See lock.c.
 *
 * One acquire is one contender, in a `turn`: its result, who waits for it, and later its hold. A turn outlives its place in the object when
 * threads still look at it: so an object may be released, acquired again and freed under a thread that is just waking up. */
#ifndef ZKL_RECIPES_PLACE_H
#define ZKL_RECIPES_PLACE_H

#include "shell.h"

struct zkl__place;
struct zkl__turn;
struct zkl__completion;

typedef void (*zkl__any_fn)(void); /* a user's function, whatever its type */

/* What an acquire of a recipe is in the core, where it is more than contenders: told outcomes as a contender's owner is. It is
 * freed by let_go, or by itself once it has told ZKL__FAILED. All inside enter/leave. */
struct zkl__claim_ops {
    void *(*make)(struct zkl__place *place, const struct zkl__contender_config *config); /* NULL: no memory */
    void (*event)(void *claim, const struct zkl__event *event);                          /* _START, _CANCEL, _RELEASE */
    bool (*holds)(const void *claim);
    void (*let_go)(void *claim); /* tells no more, and leaves nothing */
};

struct zkl__place_ops {
    struct zkl__object_ops object; /* noun, zkl__place_give_up, zkl__place_describe */
    /* Call the user. Outside the mutex. */
    void (*tell)(struct zkl__place *place, zkl_state state);
    void (*revoked)(struct zkl__place *place); /* NULL: nobody can be asked to release */
    void (*complete)(struct zkl__place *place, zkl__any_fn done, void *payload, int code, const zkl_grant *grant,
                     const zkl_error *err);
    const struct zkl__claim_ops *claims;       /* NULL: a contender, or several as one */
    void (*destroy)(struct zkl__place *place); /* frees what the recipe allocated, but not the place. NULL: nothing */
};

/* Options that all queue recipes have. */
struct zkl__place_config {
    const char *metadata; /* NULL: "host:pid" */
    const zkl_acl *acl;   /* NULL: the session's */
    bool recursive;
    bool recover;
    bool listens;   /* ops->tell is wanted */
    bool revocable; /* ops->revoked is wanted */
    bool announces; /* see core/contender.h */
    zkl_on_expiry on_expiry;
    int64_t max_hold_ms;
    int64_t release_timeout_ms;
    const char *const *paths; /* NULL: the one that zkl__place_new has; else all, of which that is the first */
    size_t path_count;
};

/* Called when a hold ends, by loss or by release, inside the mutex. The owner's memory. */
struct zkl__listener {
    void (*ended)(void *owner);
    void *owner;
    struct zkl__listener *next;
};

struct zkl__place {
    struct zkl__object object; /* first */
    const struct zkl__place_ops *ops;
    zkl_session *session;
    char *path;
    struct zkl__place_config config; /* its metadata, acl and paths are ours */
    unsigned refs;                   /* the user's handle, turns, a callback that runs */
    bool freed;                      /* the handle is gone */
    bool barred;                     /* no acquire begins until its recipe says so */
    struct zkl__turn *turn;          /* pending or held; NULL: idle */
    struct zkl__completion *completions;
    struct zkl__listener *listeners;
    struct zkl__callback notice;
    zkl_state latest; /* to be told; ZKL_STATE_IDLE: nothing */
    zkl_state told;
    unsigned losses; /* to be told: each, before latest */
    bool revoked;    /* to be told */
};

/* Checks and copies; memory of size bytes, zeroed, with the place at its beginning. Errors: as zkl_lock_new. */
int zkl__place_new(struct zkl__place **out, size_t size, const struct zkl__place_ops *ops, zkl_session *session,
                   const char *path, const struct zkl__place_config *config, zkl_error *err);
void zkl__place_free(struct zkl__place *place); /* as zkl_lock_free */

/* As the functions of lock.h of the same names. */
int zkl__place_acquire(struct zkl__place *place, const struct zkl__rule *rule, int64_t timeout_ms, zkl_grant *grant,
                       zkl_error *err);
int zkl__place_acquire_async(struct zkl__place *place, const struct zkl__rule *rule, int64_t timeout_ms,
                             zkl__any_fn done, void *payload, zkl_error *err);
int zkl__place_cancel(struct zkl__place *place);
int zkl__place_release(struct zkl__place *place, zkl_error *err);
/* The same, and waits no longer for the server's word than until the deadline (CLOCK_BOOTTIME, ns): for a call with a timeout of its own. */
int zkl__place_release_by(struct zkl__place *place, int64_t deadline, zkl_error *err);
/* From the rule it was acquired with to a weaker one, keeping place and token. As zkl_rwlock_downgrade. */
int zkl__place_downgrade(struct zkl__place *place, const struct zkl__rule *rule, zkl_error *err);

/* What is so now, by the lease clock. */
struct zkl__standing {
    zkl_state state;
    int64_t token;                /* 0 when not held */
    int64_t remaining_ns;         /* of the lease, and of max_hold_ms; 0 when not held */
    const struct zkl__rule *rule; /* NULL when not held */
    char node[ZKL__NAME_MAX];     /* "" for a multi-lock */
};
struct zkl__standing zkl__place_standing(const struct zkl__place *place);
struct zkl__standing zkl__place_look(const struct zkl__place *place); /* the same, inside enter/leave */

/* Held, or in jeopardy. */
static inline bool zkl__state_holds(zkl_state state)
{
    return state == ZKL_STATE_HELD || state == ZKL_STATE_JEOPARDY;
}
bool zkl__place_holds(const struct zkl__place *place);
/* As zkl_lock_node; at: in the queue of that number, of a multi-lock's. */
size_t zkl__place_node(const struct zkl__place *place, char *name, size_t size);
size_t zkl__place_node_at(const struct zkl__place *place, size_t seat, char *name, size_t size);

/* Around a call that waits inside enter/leave: its object may be freed meanwhile. The session is to be left after the second. */
void zkl__place_ref(struct zkl__place *place);
void zkl__place_unref(struct zkl__place *place);
/* The same around several calls, as a pair: not inside. Errors: ZKL_ECLOSED, ZKL_EFORKED: then it is not kept. */
int zkl__place_keep(struct zkl__place *place, zkl_error *err);
void zkl__place_let_go(struct zkl__place *place);

/* Both inside enter/leave. */
void zkl__place_listen(struct zkl__place *place, struct zkl__listener *listener);
void zkl__place_unlisten(struct zkl__place *place, struct zkl__listener *listener);

/* For zkl__object_ops. */
bool zkl__place_give_up(struct zkl__object *object, int code);
int zkl__place_describe(const struct zkl__object *object, zkl__visit_fn visit, void *payload);

/* Over all objects of a session: gives up each with these ops, or shows each that is not idle. How many, or ZKL_EFORKED, ZKL_ECLOSED,
 * ZKL_EINVAL. */
int zkl__places_release_all(zkl_session *session, const struct zkl__place_ops *ops);
int zkl__places_visit(zkl_session *session, zkl__visit_fn visit, void *payload);

#endif
