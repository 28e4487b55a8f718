/* handle.h - the handle: an object that waits for something in a queue and holds it.
 *
 * A recipe is a table (struct zkl__recipe) and a constructor. What a recipe has besides stands
 * behind the zkl_lock with which its struct begins. The functions of zklock/lock.h work for all of
 * them, and recipes call them, too.
 *
 * One acquire is one contender, in an `acquisition`: its result, who waits for it, and later its
 * hold. An acquisition outlives its time in the object when threads still look at it: so an object
 * may be released, acquired again and freed under a thread that is just waking up. */
#ifndef ZKL_RECIPES_HANDLE_H
#define ZKL_RECIPES_HANDLE_H

#include "call.h"
#include "core.h"

#include <zklock/lock.h>

/* === the lock ================================================================================= */

struct zkl__acquisition;
struct zkl__completion;

/* One znode of a hold. */
struct zkl__held_node {
    const char *dir;
    const char *name;
};

struct zkl__recipe {
    const char *noun; /* "lock" */
    zkl_recipe id;
    size_t size;                  /* of the struct that begins with the zkl_lock */
    const struct zkl__rule *rule; /* how it queues */
    bool several;                 /* in the queues of all its paths at once */
    bool internal; /* part of another object: no stop token of the session ends its waits */
    /* Session mutex held. Of a recipe whose acquire is one of a semaphore, for count permits.
     * Returns NULL without memory. NULL: an acquire is a contender, or several as one. */
    struct zkl__semaphore *(*make)(zkl_lock *lock, int count,
                                   const struct zkl__contender_config *config);
    /* The znodes that it has, in the order of their tokens, room at most; how many there are. */
    size_t (*nodes)(const zkl_lock *lock, const struct zkl__semaphore *semaphore,
                    struct zkl__held_node *nodes, size_t room);
};

struct zkl_lock {
    struct zkl__object object; /* first */
    const struct zkl__recipe *recipe;
    zkl_session *session;
    const char *path; /* the first of: */
    const char **paths;
    size_t path_count;
    zkl_lock_options options; /* its metadata and acl are ours */
    zkl_cancel *run;          /* of the zkl_election_run that is under way; NULL: there is none */
    struct zkl__acquisition *acquisition; /* pending or held; NULL: idle */
    struct zkl__campaign *campaign;       /* of zkl_election_stand; NULL: there is none */
    struct zkl__list completions;
    struct zkl__list sections; /* their flags are raised when a hold ends, by loss or by release */
    /* What the object's notice reports to the user: */
    zkl_state latest; /* ZKL_STATE_IDLE: no state */
    zkl_state reported;
    unsigned losses; /* each one, before latest */
    bool revoked, position_changed;
    bool refuses_acquires;  /* a section or zkl_election_run is ending */
    bool campaign_acquires; /* the acquire that begins now is the campaign's */
    size_t position;        /* of a queue, if it has changed */
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
/* As zkl_lock_release_async, but ends only this grant (NULL: whichever the lock has): when the lock
 * has another one by now, nothing happens, and the result is ZKL_ENOTHELD. Waits no longer for the
 * server's response than until the deadline (CLOCK_BOOTTIME, ns). */
int zkl__lock_release_grant(zkl_lock *lock, const zkl_grant *grant, int64_t deadline,
                            zkl_done_fn done, void *payload, zkl_error *err);
/* The current state, by the lease clock. */
struct zkl__lock_status {
    zkl_state state;
    int64_t token, serial;    /* of the grant; 0 when it is neither held nor in jeopardy */
    int64_t until;            /* of the lease, or of max_hold_ms; 0 when not held */
    char node[ZKL__NAME_MAX]; /* of a lock with one contender; else "" */
};
struct zkl__lock_status zkl__lock_status(const zkl_lock *lock);
struct zkl__lock_status zkl__lock_status_locked(const zkl_lock *lock); /* session mutex held */
/* Held under this very grant. All grants of a lingering znode have the same token, so the serial
 * counts, too. */
static inline bool zkl__is_held_under(const struct zkl__lock_status *now, const zkl_grant *grant)
{
    return now->token != 0 && now->token == grant->token && now->serial == grant->serial;
}
/* Session mutex held. ZKL_ENOTHELD, ZKL_ELOST; before begins the text. */
int zkl__lock_check_held(const zkl_lock *lock, struct zkl__lock_status *held, const char *before,
                         zkl_error *err);
/* Session mutex held. The znodes of what is pending or held, room at most; how many there are.
 * Their names live as long as the mutex is held. */
size_t zkl__lock_nodes(const zkl_lock *lock, struct zkl__held_node *nodes, size_t room);

/* Session mutex held. What is pending ends with this code, and what is held is released. */
void zkl__lock_give_up(zkl_lock *lock, int code);

/* === acquisitions and completions ============================================================= */

/* Session mutex held, from here to the end of the section. */

/* One acquire and its result, until the release. */
struct zkl__acquisition {
    zkl_lock *lock;
    const struct zkl__rule *rule;
    /* A contender, a multi-contender or a semaphore, as the recipe says. NULL after the core's last
     * outcome, or its end here. */
    struct zkl__machine *machine;
    struct zkl__signal changed;
    unsigned
        refs; /* the lock while it is its acquisition, threads and completions that look at it */
    unsigned depth; /* acquires not yet released */
    bool settled;   /* the acquire has its result: */
    bool granted, jeopardy;
    bool downgraded; /* no downgrade is under way */
    bool unclean;
    uint8_t failed; /* which of the lock's paths could not be had */
    int code, zk_code;
    const char *why;
    int64_t token, serial;
    int64_t requested_at, settled_at, deadline;
    struct zkl__stops *stops;           /* until it is settled; NULL: under no token */
    struct zkl__completion *completion; /* of the acquire that began it; NULL: a thread waits */
};

/* The one call of the user for an asynchronous acquire. */
struct zkl__completion {
    struct zkl__link link; /* first; of the lock's */
    struct zkl__callback callback;
    struct zkl__acquisition *acquisition;
    bool again; /* of a lock held already */
    zkl_acquired_fn done;
    void *payload;
};

int zkl__lock_enter(zkl_lock *lock, int64_t timeout_ms,
                    zkl_error *err); /* for an acquire; session mutex not held */
/* Session mutex held. Returns ZKL_ENOTHELD, and err says that the lock was not granted. */
int zkl__lock_not_granted(const zkl_lock *lock, zkl_error *err);

void zkl__lock_run_notice(void *lock); /* session mutex not held: of lock->notice */
/* An acquisition that begins, or the one that is held already and counts; with a reference for the
 * caller. completion: posted when one that begins is settled; NULL: nobody is called. */
int zkl__acquisition_begin(struct zkl__acquisition **out, zkl_lock *lock, int count,
                           int64_t timeout_ms, struct zkl__completion *completion, zkl_error *err);
/* Fills the caller's grant or error after an acquire. It compares the lease with the clock again,
 * because the caller's thread may have slept since the grant. */
int zkl__acquisition_result(struct zkl__acquisition *acquisition, bool again, zkl_grant *grant,
                            zkl_error *err);
bool zkl__acquisition_holds(const struct zkl__acquisition *acquisition);
/* A step for what the acquisition has in the core, if it has anything there. */
void zkl__acquisition_event(struct zkl__acquisition *acquisition, struct zkl__event event);
void zkl__acquisition_cancel(struct zkl__acquisition *acquisition, int code);
/* Unless its lock has another one by now, or none: cancels the acquire, or releases what it holds.
 * The caller has a reference. */
void zkl__acquisition_withdraw(struct zkl__acquisition *acquisition);
/* The two halves of a release, between which the caller waits. The lock is idle again, and the
 * caller gets its reference to the acquisition: it waits until its machine is NULL, and lets go. */
struct zkl__acquisition *zkl__acquisition_send_release(zkl_lock *lock);
void zkl__acquisition_let_go(struct zkl__acquisition *acquisition);
void zkl__acquisition_unref(struct zkl__acquisition *acquisition);

/* election.c: the acquisition has changed; also in a step. */
void zkl__campaign_wake(zkl_lock *lock);
/* The last call follows, with this code and text. ZKL_OK, of a leave, is not replaced by another
 * code. False: there is no campaign, or its last call was made. */
bool zkl__campaign_end(zkl_lock *lock, int code, const char *why);
/* For zkl_lock_free: the campaign ends, and its last callback has returned when this returns, but
 * for one that this very thread is in. */
void zkl__campaign_finish(zkl_lock *lock);

/* === sections ================================================================================= */

/* section.c: a function of the user under a grant, and the flag that asks it to end. */
struct zkl_cancel {
    struct zkl__link link; /* first; of the lock's sections */
    zkl_lock *lock;
    int fd;
    atomic_bool raised;
    bool ran;           /* the function was called */
    bool third;         /* the margin is a third of the least lease, known from the grant on */
    zkl_grant grant;    /* the section ends with this grant, and releases no other one */
    int64_t release_by; /* deadline of the release; INT64_MAX: only release_timeout_ms counts */
    struct zkl__margin margin;
    struct zkl__task task;
    struct zkl__stops stops;
};

/* Session mutex not held. ZKL_EINVAL: a margin that does not fit the lease. */
int zkl__margin_check(zkl_session *session, int64_t margin_ms, zkl_error *err);
/* Session mutex not held. Until deinit the thread is not cancelled. Errors: ZKL_EINVAL (a margin
 * that does not fit the lease), ZKL_ELIMIT (no descriptor), ZKL_ECLOSED, ZKL_EFORKED: then there is
 * nothing to deinit. */
int zkl__section_init(zkl_cancel *cancel, zkl_lock *lock, int64_t margin_ms, zkl_error *err);
void zkl__section_deinit(zkl_cancel *cancel);

/* Session mutex not held. Acquires, runs, releases: as zkl_with_lock. May be called again, with the
 * flag down.
 */
int zkl__section_run(zkl_cancel *cancel, int64_t timeout_ms, zkl_section_fn section, void *payload,
                     int *result, zkl_error *err);
/* Session mutex held. Raises the flag of whatever runs under this lock, and ends its
 * zkl_election_run; false when nothing does. */
bool zkl__section_cancel(zkl_lock *lock);
/* Session mutex held. Raises the flag of whatever runs under this lock. */
void zkl__sections_raise(zkl_lock *lock);

#endif
