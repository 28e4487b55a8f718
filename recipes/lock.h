/* lock.h - the handle: an object that waits for something in a queue and holds it.
 *
 * A recipe is a table (struct zkl__recipe) and a constructor. What a recipe has besides stands
 * behind the zkl_lock with which its struct begins. The functions of zklock/lock.h work for all of
 * them, and recipes call them, too.
 *
 * One acquire is one contender, in an `acquisition`: its result, who waits for it, and later its
 * hold. An acquisition outlives its time in the object when threads still look at it: so an object
 * may be released, acquired again and freed under a thread that is just waking up. */
#ifndef ZKL_RECIPES_LOCK_H
#define ZKL_RECIPES_LOCK_H

#include "shell.h"

#include <zklock/lock.h>

struct zkl__acquisition;
struct zkl__completion;

/* One znode of a hold. */
struct zkl__held_node {
    const char *dir;
    const char *name;
};

/* Of a recipe whose acquire is one of a semaphore. Both inside enter/leave. */
struct zkl__semaphore;
struct zkl__semaphore_ops {
    /* For count permits. NULL: no memory. */
    struct zkl__semaphore *(*make)(zkl_lock *lock, int count,
                                   const struct zkl__contender_config *config);
    /* The znodes that it has, in the order of their tokens, room at most; how many there are. */
    size_t (*nodes)(const zkl_lock *lock, const struct zkl__semaphore *semaphore,
                    struct zkl__held_node *nodes, size_t room);
};

/* Options that not every recipe has. */
enum {
    ZKL__TAKES_RECURSIVE = 1,
    ZKL__TAKES_RECOVER = 2,
    ZKL__TAKES_REVOKE_FN = 4,
    ZKL__TAKES_POSITION = 8,
    ZKL__TAKES_LINGER = 16,
    ZKL__TAKES_LEAST = 32,
    ZKL__TAKES_DELAY = 64
};

struct zkl__recipe {
    struct zkl__object_ops object; /* noun, zkl__lock_give_up, zkl__lock_describe */
    zkl_recipe id;
    size_t size;                  /* of the struct that begins with the zkl_lock */
    unsigned takes;               /* ZKL__TAKES_... */
    const struct zkl__rule *rule; /* how it queues */
    bool announces;               /* see protocol/contender.h */
    bool several;                 /* in the queues of all its paths at once */
    bool internal; /* part of another object: no stop token of the session ends its waits */
    const struct zkl__semaphore_ops *semaphore; /* NULL: a contender, or several as one */
    void (*destroy)(
        zkl_lock *lock); /* frees what the recipe allocated, but not the lock. NULL: nothing */
};

/* Called when a hold ends, by loss or by release, inside the mutex. The owner's memory. */
struct zkl__listener {
    void (*ended)(void *owner);
    void *owner;
    struct zkl__listener *next;
};

struct zkl_lock {
    struct zkl__object object; /* first */
    const struct zkl__recipe *recipe;
    zkl_session *session;
    const char *path; /* the first of: */
    char **paths;
    size_t path_count;
    zkl_lock_options options;         /* its metadata and acl are ours */
    struct zkl__local_queue *lingers; /* where it may; NULL: it does not, or the handle is gone */
    unsigned refs;                    /* the user's handle, acquisitions, a callback that runs */
    bool freed;                       /* the handle is gone */
    bool barred;                      /* no acquire begins: `run` ends */
    zkl_cancel *run; /* of the zkl_election_run that is under way; NULL: there is none */
    struct zkl__acquisition *acquisition; /* pending or held; NULL: idle */
    struct zkl__stand *stand; /* of the zkl_election_stand that is under way; NULL: there is none */
    bool standing;            /* it is this that begins an acquire just now */
    struct zkl__completion *completions;
    struct zkl__listener *listeners;
    struct zkl__callback notice;
    zkl_state latest; /* to be told; ZKL_STATE_IDLE: nothing */
    zkl_state told;
    unsigned losses; /* to be told: each, before latest */
    bool revoked;    /* to be told */
    bool moved;      /* to be told: */
    size_t ahead;
};

/* Checks and copies; memory of recipe->size bytes, zeroed, with the lock at its beginning. *out is
 * NULL on failure. Errors: as zkl_lock_new. */
int zkl__lock_make(zkl_lock **out, const struct zkl__recipe *recipe, zkl_session *session,
                   const char *const *paths, size_t count, const zkl_lock_options *options,
                   zkl_error *err);
extern const struct zkl__recipe zkl__plain_lock; /* of zkl_lock_new */
/* ZKL_EINVAL with both names when lock is NULL or of another recipe. */
int zkl__lock_check(const zkl_lock *lock, const struct zkl__recipe *recipe, zkl_error *err);

/* As zkl_lock_acquire and zkl_lock_acquire_async, for count of what the recipe has. */
int zkl__lock_acquire(zkl_lock *lock, int count, int64_t timeout_ms, zkl_grant *grant,
                      zkl_error *err);
int zkl__lock_acquire_async(zkl_lock *lock, int count, int64_t timeout_ms, zkl_acquired_fn done,
                            void *payload, zkl_error *err);
/* As zkl_lock_release, but ends only this grant (NULL: whichever the lock has): when the lock has
 * another one by now, nothing happens, and the result is ZKL_ENOTHELD. Waits no longer for the
 * server's response than until the deadline (CLOCK_BOOTTIME, ns). */
int zkl__lock_release_grant(zkl_lock *lock, const zkl_grant *grant, int64_t deadline,
                            zkl_error *err);
/* What is so now, by the lease clock. */
struct zkl__standing {
    zkl_state state;
    int64_t token, serial;    /* of the grant; 0 when not held */
    int64_t until;            /* of the lease, or of max_hold_ms; 0 when not held */
    char node[ZKL__NAME_MAX]; /* of a lock with one contender; else "" */
};
struct zkl__standing zkl__lock_standing(const zkl_lock *lock);
struct zkl__standing zkl__lock_look(const zkl_lock *lock); /* the same, inside enter/leave */
/* Held under this very grant. The token alone does not tell: all grants of a lingering znode have
 * the same. */
static inline bool zkl__stands_under(const struct zkl__standing *now, const zkl_grant *grant)
{
    return now->token != 0 && now->token == grant->token && now->serial == grant->serial;
}

/* Held, or in jeopardy. */
static inline bool zkl__state_holds(zkl_state state)
{
    return state == ZKL_STATE_HELD || state == ZKL_STATE_JEOPARDY;
}
/* Inside. The znodes of what is pending or held, room at most; how many there are. Their names live
 * as long as the mutex is held. */
size_t zkl__lock_nodes(const zkl_lock *lock, struct zkl__held_node *nodes, size_t room);

/* Around a call that waits inside enter/leave: its object may be freed meanwhile. The session is to
 * be left after the second. */
void zkl__lock_ref(zkl_lock *lock);
void zkl__lock_unref(zkl_lock *lock);
/* The same around several calls, as a pair: not inside. Errors: ZKL_ECLOSED, ZKL_EFORKED: then it
 * is not kept. */
int zkl__lock_keep(zkl_lock *lock, zkl_error *err);
void zkl__lock_let_go(zkl_lock *lock);

/* Both inside enter/leave. */
void zkl__lock_listen(zkl_lock *lock, struct zkl__listener *listener);
void zkl__lock_unlisten(zkl_lock *lock, struct zkl__listener *listener);

/* For zkl__object_ops. */
bool zkl__lock_give_up(struct zkl__object *object, int code);
int zkl__lock_describe(const struct zkl__object *object, zkl__visit_fn visit, void *payload);

#endif
