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

#include "call.h"
#include "error.h"
#include "semaphore.h"
#include "shell.h"

#include <zklock/lock.h>

/* === the lock ================================================================================= */

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

/* === what its files share ===================================================================== */

/* What the files of the handle share: a lock's acquisitions, completions and
 * notices. Everything inside enter/leave. */

/* One acquire and what came of it, until its release. Guarded by the session's mutex, as everything
 * here. */
struct zkl__acquisition {
    zkl_lock *lock;
    const struct zkl__rule *rule;
    struct zkl__contender *contender; /* or: */
    struct zkl__joint *joint;         /* or: */
    struct zkl__semaphore *semaphore; /* all NULL after the last word, or when it was let go */
    struct zkl__signal changed;
    unsigned
        refs; /* the lock while it is its acquisition, threads and completions that look at it */
    unsigned depth; /* acquires not yet released */
    bool settled;   /* the acquire has its result: */
    bool granted, jeopardy, released;
    bool downgraded; /* no downgrade is under way */
    bool unclean;
    int code, zk_code;
    const char *why;
    int64_t token, serial;
    int64_t asked_at, settled_at, deadline;
    struct zkl__stops *stops;           /* until it is settled; NULL: under no token */
    struct zkl__completion *completion; /* of the acquire that began it; NULL: a thread waits */
};

/* The one call of the user for an asynchronous acquire. */
struct zkl__completion {
    struct zkl__callback callback;
    struct zkl__acquisition *acquisition;
    struct zkl__completion *next;
    bool again; /* of a lock held already */
    zkl_acquired_fn done;
    void *payload;
};

/* lock.c */
int64_t zkl__lock_max_hold(const zkl_lock *lock); /* ns */
int zkl__lock_enter(zkl_lock *lock, int64_t timeout_ms,
                    zkl_error *err); /* for an acquire; not inside */
/* Inside. Returns ZKL_ENOTHELD, and err says that the lock was not granted. */
int zkl__lock_not_granted(const zkl_lock *lock, zkl_error *err);

void zkl__lock_note(zkl_lock *lock, zkl_state state);
void zkl__lock_note_revoked(zkl_lock *lock);
void zkl__lock_run_notes(void *lock); /* not inside: of lock->notice */
void zkl__lock_tell_end(zkl_lock *lock);

/* acquisition.c */

/* An acquisition that is not started yet, or the one that is held already and counts; with a
 * reference for the caller. */
int zkl__acquisition_begin(struct zkl__acquisition **out, zkl_lock *lock, int count,
                           zkl_error *err);
void zkl__acquisition_start(struct zkl__acquisition *acquisition, int64_t timeout_ms);
void zkl__acquisition_await(struct zkl__acquisition *acquisition);
/* Fills the caller's grant or error after an acquire. It compares the lease with the clock again,
 * because the caller's thread may have slept since the grant. */
int zkl__acquisition_conclude(struct zkl__acquisition *acquisition, bool again, zkl_grant *grant,
                              zkl_error *err);
bool zkl__acquisition_holds(const struct zkl__acquisition *acquisition);
/* A step for what the acquisition has in the core. */
void zkl__acquisition_event(struct zkl__acquisition *acquisition, struct zkl__event event);
void zkl__acquisition_cancel(struct zkl__acquisition *acquisition, int code);
/* The lock is idle again; what was held is deleted in the background. */
void zkl__acquisition_drop(zkl_lock *lock);
/* The same, but waits for the server's response as long as the options say, and until the deadline
 * at most. */
void zkl__acquisition_hand_back(zkl_lock *lock, int64_t deadline);
/* What hand_back begins and ends with: the lock is idle again, and its reference to the acquisition
 * is the caller's, who looks at `released` and then lets go. NULL: nothing is left to wait for. */
struct zkl__acquisition *zkl__acquisition_send_release(zkl_lock *lock);
void zkl__acquisition_let_go(struct zkl__acquisition *acquisition);
/* What lingers at its path is deleted. */
void zkl__lock_stop_lingering(zkl_lock *lock);
void zkl__acquisition_unref(struct zkl__acquisition *acquisition);

/* election.c: the acquisition has changed; also in a step. */
void zkl__stand_poke(zkl_lock *lock);
/* For zkl_lock_free: it leaves, and its last call is made when this returns, but for one that this
 * very thread is in. */
void zkl__stand_finish(zkl_lock *lock);

/* === what a transaction is guarded by ========================================================= */

/* A call on a lock: it ends with the lock, and what only the holder may do ends with
 * the lease, too. */

/* zkl__call_go on a lock. path: checked; NULL: the lock's. Not inside. */
int zkl__lock_call(const struct zkl__call_kind *kind, const void *given, zkl_lock *lock,
                   const char *path, int64_t timeout_ms, const struct zkl__later *later,
                   zkl_error *err);

/* For the begin of a call, which ends with the lock and under its stop token. Takes a reference to
 * the lock, which the call's end gives back. */
void zkl__call_bind(struct zkl__call *call, zkl_lock *lock);
/* The same of what only the holder may do: it ends with the lease, too. It is not the caller's time
 * that is up then: the servers gave no reply, ZKL_ECONNECT. */
void zkl__call_bind_lease(struct zkl__call *call, zkl_lock *lock, const struct zkl__standing *held);

#endif
