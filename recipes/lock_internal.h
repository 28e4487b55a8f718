/* lock_internal.h - what the files of the handle share: a lock's acquisitions, completions and
 * notices. Everything inside enter/leave. */
#ifndef ZKL_RECIPES_LOCK_INTERNAL_H
#define ZKL_RECIPES_LOCK_INTERNAL_H

#include "lock.h"

#include "error.h"
#include "semaphore.h"

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

/* lock_notice.c */
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
/* What one acquire came to, for its caller: who looks at the clock once more, since he may have
 * slept since the grant. */
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

/* election.c: ZKL_EINVAL when it is no election. */
int zkl__election_check(const zkl_lock *lock, zkl_error *err);
/* election_stand.c: the acquisition has changed; also in a step. */
void zkl__stand_poke(zkl_lock *lock);
/* For zkl_lock_free: it leaves, and its last call is made when this returns, but for one that this
 * very thread is in. */
void zkl__stand_finish(zkl_lock *lock);

/* lock_async.c: runs, or waits for, the completions that are owed, but for those that this very
 * thread is running. */
void zkl__lock_finish(zkl_lock *lock);

#endif
