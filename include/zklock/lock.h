/* zklock/lock.h - the handle: whatever can be acquired, held, lost and released.
 *
 * A zkl_lock is one contender. Its constructor decides the recipe: a lock (here), a read or a write
 * lock (zklock/rwlock.h), a multi-lock (zklock/multilock.h), permits of a semaphore
 * (zklock/semaphore.h), or a candidate of an election (zklock/election.h). All functions of this
 * header work for all of them. A lock belongs to no thread: any thread may wait for it, cancel it
 * or release it. Threads that compete with each other use one zkl_lock each.
 *
 * Guarantees. A lock has at most one holder by lease: zkl_lock_is_held is false before the next
 * contender is granted the lock. Grants follow the order of the queue. Each exclusive grant has a
 * higher token than the one before it; with linger_ms, a session that is granted its own lingering
 * znode again gets the same token. No znode is left behind, however an acquire ends.
 * Exceptions to the first: an assumption of docs/lease.md#assumptions fails, somebody deletes the
 * holder's znode, or the other holder is of another library, which has no lease
 * (docs/failure-model.md#forced-removal).
 * Caveat. A lock cannot stop a write that is already on its way when the lease ends: give the
 * token to the resource and let it refuse older ones. */
#ifndef ZKLOCK_LOCK_H
#define ZKLOCK_LOCK_H

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which constructor made a zkl_lock. */
typedef enum zkl_recipe {
    ZKL_RECIPE_LOCK,       /* zkl_lock_new */
    ZKL_RECIPE_READ_LOCK,  /* zkl_read_lock_new */
    ZKL_RECIPE_WRITE_LOCK, /* zkl_write_lock_new */
    ZKL_RECIPE_MULTILOCK,  /* zkl_multilock_new */
    ZKL_RECIPE_SEMAPHORE,  /* zkl_semaphore_new */
    ZKL_RECIPE_ELECTION    /* zkl_election_new */
} zkl_recipe;

/* A change of a grant: ZKL_STATE_HELD (granted, or jeopardy has passed), _JEOPARDY or _LOST. Runs
 * as callbacks do (zklock/session.h). The state may have changed since: call zkl_lock_is_held. Of
 * changes that follow each other quickly only the latest is reported, but LOST is never left out.
 */
typedef void (*zkl_lock_state_fn)(zkl_lock *lock, zkl_state state, void *payload);

/* Another client requests that the holder release the lock (zkl_queue_revoke, Curator's Revoker).
 * Runs as callbacks do, while the lock is held. Requests that follow each other closely may share
 * one call. The program decides whether and when it releases. */
typedef void (*zkl_lock_revoke_fn)(zkl_lock *lock, void *payload);

/* The queue position: ahead is the number of contenders before it in the queue, the holder
 * included. A contender lists the queue when it queues, and when its predecessor
 * has ended. The callback reports a number that has changed since the last list, so it costs no
 * request. Between two lists the queue may have become shorter. Forged znodes count until they are
 * known as such. Runs as callbacks do. Of changes that follow each other quickly only the latest is
 * reported, and none after the grant. */
typedef void (*zkl_lock_position_fn)(zkl_lock *lock, size_t ahead, void *payload);

/* The one completion of an asynchronous acquire. code: as zkl_lock_acquire returns. grant: NULL
 * unless ZKL_OK. err: the error's text. payload: as given to the acquire. */
typedef void (*zkl_acquired_fn)(zkl_lock *lock, int code, const zkl_grant *grant,
                                const zkl_error *err, void *payload);

/* Options of every recipe. A constructor refuses an option that makes no sense for its recipe with
 * ZKL_EINVAL; the text names both. */
typedef struct zkl_lock_options {
    size_t size;          /* sizeof(zkl_lock_options): set by the _INIT */
    const char *metadata; /* text on our znode for operators, and what an election publishes; UTF-8,
                           * ZKL_DATA_MAX bytes. NULL: "host:pid" */
    bool recursive; /* a second acquire while held counts instead of ZKL_EDEADLK. It counts per
                     * object, not per thread: a second thread that acquires a held object enters
                     * beside the first. No semaphore */
    bool recover;   /* grants say whether the last holder released (zkl_grant.unclean): see below.
                     * Only zkl_lock_new and zkl_election_new */
    /* After this a grant is LOST, and then its znode is deleted; 0: never. A holder that hangs
     * does not notice, and may run on beside the next one */
    int64_t max_hold_ms;
    int64_t release_timeout_ms; /* how long a release waits for the server's response; 0: not at
                                   all. 1000 */
    const zkl_acl *acl; /* of our znode and of directories made for it; NULL: the session's */
    zkl_on_expiry on_expiry;
    zkl_lock_state_fn state_fn;
    zkl_lock_revoke_fn revoke_fn; /* NULL: requests to release are ignored. No semaphore */
    void *payload;                /* of state_fn, revoke_fn and position_fn */
    /* ends every wait of this lock (zklock/stop.h), besides the session's; NULL: none */
    zkl_stop *stop;
    /* The highest queue position (see zkl_lock_position_fn) at which an acquire queues. If more
     * contenders are ahead, it ends with ZKL_EBUSY; also when it queues again after its session was
     * lost. It reads their znodes first, one more than the limit, for anybody may make names. 0: no
     * limit. Not for multi-locks and semaphores */
    int64_t max_ahead;
    zkl_lock_position_fn position_fn; /* not for multi-locks and semaphores */
    /* ms that our znode stays after a release, so that this session is granted the lock again
     * without a request: see below. 0: none; a day at most. Only zkl_lock_new and
     * zkl_write_lock_new; not with revoke_fn */
    int64_t linger_ms;
    /* ms from the grant on that nobody else is granted the lock, also when it is released earlier:
     * see below. 0: none; a day at most, and no more than max_hold_ms. Only zkl_lock_new; not with
     * linger_ms */
    int64_t hold_at_least_ms;
    /* ms that a contender which is next waits before its grant if the last holder did not release:
     * see below. 0: none; a day at most. Only zkl_lock_new and zkl_election_new */
    int64_t delay_after_crash_ms;
} zkl_lock_options;

#define ZKL_LOCK_OPTIONS_INIT                                                                     \
    {                                                                                             \
        sizeof(zkl_lock_options), NULL, false, false, 0, 1000, NULL, ZKL_ON_EXPIRY_REQUEUE, NULL, \
            NULL, NULL, NULL, 0, NULL, 0, 0, 0                                                    \
    }

/* The option recover. A release writes the name of the contender's znode into the data of the znode
 * at path, in the transaction that deletes the contender's znode. Nothing is written at a grant. A
 * contender that is granted the lock and does not find the mark of the last holder gets
 * zkl_grant.unclean: that holder crashed, lost its session, was removed by an operator, held for
 * longer than max_hold_ms, or released after a loss. This does not depend on whether anybody was
 * queued at that time. A holder that crashes during the clean-up leaves no mark either, so the
 * next grant is unclean, too. All this holds inside one session as well, with hand-over and
 * linger_ms.
 *
 * False alarms. A grant is also unclean, though nothing crashed while it held, after
 *  - a waiter that ended between the release of the lock and its own grant;
 *  - a session that ended while its lock lingered or stayed for hold_at_least_ms;
 *  - a holder without the option, a multi-lock, or a holder of another library;
 *  - the last holder before the option was first used at path.
 * The first grant ever at a path is clean.
 *
 * Costs and caveats. The mark is read in one request more, which is sent together with the others;
 * if it shows no release, it is read a second time before the grant. The option needs READ and
 * WRITE on path: without WRITE every release looks like a crash, and the log says so. All users of
 * the path should set it, or delay_after_crash_ms. The path is made persistent. A path that was
 * first used without these options is a container, which the servers delete with its data when it
 * has been empty for a while. No client can see that a znode is a container. So delete such a path
 * once, before the option is used for it. An acquire that finds other data at path, as the record
 * of zklock/once.h, ends with ZKL_ECONFLICT, and writes nothing. Data that somebody writes while
 * the lock is held stay as well: the release succeeds, and leaves no mark. */

/* The option linger_ms. A release keeps the znode for linger_ms, if nobody else is in the queue. An
 * acquire of this session in that time is granted immediately, without any request.
 *
 * Token. The new grant has the same token and a higher zkl_grant.serial. Storage refuses lower
 * tokens, not equal ones, so it cannot distinguish these grants. They belong to one session, which
 * never has two of them at a time.
 *
 * Sharing. The lock passes from one lock object to another while nobody else is in the queue, in
 * the order of their acquires. The objects must belong to one session and one path, come from the
 * same constructor, and have the same metadata and acl. An object that waits for such a grant has
 * no znode, unless it has max_ahead or position_fn. After another session's contender these objects
 * queue with a znode each. When nobody else is in the queue any more, they give up their znodes and
 * share one again, but not with recover or delay_after_crash_ms.
 *
 * End. When anybody else queues, a znode that nobody holds is deleted immediately, and one that
 * is held is deleted at its release. A lingering znode is also deleted when the connection is lost
 * or the lease ends, when the last such lock object of the path is freed, and by zkl_session_close.
 * After the end of a hold by max_hold_ms nothing lingers. A lingering znode costs the heartbeats of
 * a hold (docs/lease.md#what-it-costs). */

/* The option hold_at_least_ms, for jobs. A host whose clock is a little late starts the same job
 * after a short job has ended; it still finds the lock held (ShedLock's lockAtLeastFor). A release
 * before that time returns as always, and the object is idle, but the znode stays in the queue
 * until then. So does that of a lock that is freed while it is held. An acquire of the same session
 * waits for it, too. It costs no request. The znode ends with its session: zkl_session_close
 * deletes it, and after the end of the process the servers do, by session timeout. A grant that was
 * lost keeps nothing. zklock/once.h is the other way: it records that the job of a time slot is
 * done, and needs no session that lasts. */

/* The option delay_after_crash_ms (the lock-delay of Chubby and Consul). After a holder has died,
 * its last requests may still be on their way to a system that checks no token. With this option
 * the next contender is granted the lock only delay_after_crash_ms after it has seen that nothing
 * shows a release of the last holder. It decides that by the mark of the option recover, with the
 * same false alarms, costs and caveats, and its grants say zkl_grant.unclean in the same way, with
 * or without recover. After a release there is no delay.
 *
 * Time. The delay is measured by the contender's own clock, from the moment at which it is first
 * and has read that nobody released. Nobody knows when a crash was that no contender saw, so it is
 * the whole delay also long after the crash. It counts against the timeout of the acquire: the text
 * of ZKL_ETIMEOUT says so, and a try ends with ZKL_EBUSY. If all acquires of a path have a timeout
 * that is shorter than the delay, none succeeds after a crash. A contender with recover alone does
 * not wait, and after its release nobody does. Lists of the queue (zklock/queue.h) show a contender
 * that waits for its delay as the holder. */

/* Makes a contender for the lock at path (an absolute znode path under the session's chroot), which
 * has one holder at a time. Talks to no server. Copies path and options (NULL: defaults). The
 * caller frees it with zkl_lock_free, before or after the session is closed. *out is NULL on
 * failure. Errors: ZKL_EINVAL (the text names what is wrong with path or options), ZKL_ECLOSED,
 * ZKL_EFORKED, ZKL_ENOMEM, ZKL_ELIMIT (no thread for callbacks). */
ZKL_API int zkl_lock_new(zkl_lock **out, zkl_session *session, const char *path,
                         const zkl_lock_options *options, zkl_error *err);

/* Queues and waits for the grant. With a semaphore it acquires one permit. With an election it
 * returns when this candidate leads. A positive timeout_ms is one deadline over the whole call,
 * with or without a server. ZKL_WAIT_FOREVER: no deadline. 0: a try, which ends with ZKL_EBUSY as
 * soon as the servers show a contender before ours. It may block: without a connection, and while
 * no server responds, a try waits for connect_timeout_ms of the session (10 s by default), and then
 * ends with ZKL_ETIMEOUT. On every result but ZKL_OK our znode is deleted, or being
 * deleted in the background. May be called from a callback, which then blocks the callbacks behind
 * it. Errors: ZKL_ETIMEOUT, ZKL_EBUSY, ZKL_ECANCELED, ZKL_ELOST (session lost; see on_expiry),
 * ZKL_EDEADLK (already pending or held), ZKL_EAUTH, ZKL_ECONFLICT (the path is a semaphore's or a
 * partition's; with recover or delay_after_crash_ms: its data is neither empty nor a release mark;
 * of a semaphore: its limit is another one, or the path is a lock's or an election's; or a part of
 * the path is an ephemeral znode), ZKL_EEXHAUSTED, ZKL_ENOENT (the chroot does not exist),
 * ZKL_ELIMIT (watches, or a request of more than 1 MB), ZKL_EUNSUPPORTED (the server refused it
 * otherwise), ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_lock_acquire(zkl_lock *lock, int64_t timeout_ms, zkl_grant *grant, zkl_error *err);

/* The same without waiting: exactly one call of done follows if this returns ZKL_OK, and none
 * otherwise. Errors of this call itself: ZKL_EDEADLK, ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED,
 * ZKL_ENOMEM, ZKL_ELIMIT (no thread for callbacks); done gets the others. */
ZKL_API int zkl_lock_acquire_async(zkl_lock *lock, int64_t timeout_ms, zkl_acquired_fn done,
                                   void *payload, zkl_error *err);

/* From any thread: the pending acquire ends with ZKL_ECANCELED and leaves no znode, and so do
 * asynchronous calls of this lock that are pending (commit, read, publish). If a section of
 * zkl_with_lock or zkl_election_run runs, its flag is raised, and it keeps the lock until it has
 * returned; zkl_election_run then ends with ZKL_ECANCELED. ZKL_ENOTWAITING: there is neither (the
 * next acquire is not affected; a stop token, zklock/stop.h, also ends later ones). ZKL_ECLOSED,
 * ZKL_EFORKED. */
ZKL_API int zkl_lock_cancel(zkl_lock *lock);

/* Gives the lock another stop token (zklock/stop.h) in place of zkl_lock_options.stop; NULL: none.
 * Only while it is idle: ZKL_EDEADLK when an acquire is pending, it is held, or it stands for
 * election. */
ZKL_API int zkl_lock_set_stop(zkl_lock *lock, zkl_stop *stop, zkl_error *err);

/* Ends the hold. With a semaphore it releases all permits. With the option recursive, the hold ends
 * when zkl_lock_release has been called as often as zkl_lock_acquire. ZKL_OK: the lease covered the
 * hold up to this call. ZKL_ELOST: it did not, the critical section was not protected. Either way
 * this object is idle again, and its znodes are deleted or being deleted in the background. Waits
 * for the server's response for release_timeout_ms at most. ZKL_ENOTHELD: never granted, or
 * released already. */
ZKL_API int zkl_lock_release(zkl_lock *lock, zkl_error *err);

/* The same without waiting (zkl_done_fn in zklock/types.h): the lock is idle when this returns, and
 * done is called with the result when the server has responded, or release_timeout_ms later. It
 * ends something: neither zkl_lock_cancel nor a stop token stops it. ZKL_ENOTHELD is the result of
 * this call, not of done. ZKL_ENOMEM, ZKL_ELIMIT: it is held still; zkl_lock_release and
 * zkl_lock_free need neither memory nor a thread. */
ZKL_API int zkl_lock_release_async(zkl_lock *lock, zkl_done_fn done, void *payload, zkl_error *err);

/* Cancels or releases what is pending or held, waits for a running callback of this lock (not when
 * called from it), and frees. done of a pending zkl_lock_acquire_async runs before it returns,
 * maybe inside it (zklock/session.h: calls that end an object), and no callback of this lock starts
 * afterwards, but for the last one of a candidate that its own changed frees (zklock/election.h).
 * An acquire that waits in another thread ends. If a section of zkl_with_lock runs, its flag is
 * raised, and it goes on without the lock: cancel first and let it return. NULL is fine. */
ZKL_API void zkl_lock_free(zkl_lock *lock);

/* Which constructor made it. A write lock that was downgraded stays ZKL_RECIPE_WRITE_LOCK. */
ZKL_API zkl_recipe zkl_lock_recipe(const zkl_lock *lock);
/* Whether it is held, by the lease clock: false from the end of the lease on, before any event
 * reports it. True in jeopardy. A semaphore is held while none of its permits is lost. Any thread.
 * It takes the session's mutex and reads the clock; no request. */
ZKL_API bool zkl_lock_is_held(const zkl_lock *lock);
/* Its state now, by the same clock. */
ZKL_API zkl_state zkl_lock_state(const zkl_lock *lock);
/* Lease left, in ms, which grows again with every heartbeat; or what is left of max_hold_ms, if
 * that is less. 0 when not held. */
ZKL_API int64_t zkl_lock_remaining_ms(const zkl_lock *lock);
/* Fencing token of the grant; 0 when not held, also after a loss: so copy zkl_grant.token
 * once for the storage. Of a read lock it exceeds those of the writers
 * before it. Of a multi-lock it is the same at every path. Of a semaphore it is that of the first
 * permit, and a fencing token only with limit 1. */
ZKL_API int64_t zkl_lock_token(const zkl_lock *lock);
/* The path it was made with; of a multi-lock the first. Lives as long as the lock. */
ZKL_API const char *zkl_lock_path(const zkl_lock *lock);
/* Copies the path of our znode relative to zkl_lock_path into name, which has size bytes, cut to
 * fit. This is the name of the znode; of a multi-lock the one at the first path. A semaphore has
 * "locks/" and a name while it waits, then "leases/" and the name of its first permit. An empty
 * string: there is no znode. Returns the full length. */
ZKL_API size_t zkl_lock_node(const zkl_lock *lock, char *name, size_t size);

/* A flag that zkl_with_lock and zkl_election_run raise before the lease ends. */
typedef struct zkl_cancel zkl_cancel;
/* True once the section must end. Any thread, while the function runs. */
ZKL_API bool zkl_cancel_raised(const zkl_cancel *cancel);
/* As zkl_lock_remaining_ms: the time that the section has to end. */
ZKL_API int64_t zkl_cancel_remaining_ms(const zkl_cancel *cancel);
/* A descriptor that becomes readable when the flag is raised: for poll. Owned by the flag. */
ZKL_API int zkl_cancel_fd(const zkl_cancel *cancel);
/* The section: zkl_with_lock passes its result on. token: the grant's fencing token. */
typedef int (*zkl_section_fn)(const zkl_cancel *cancel, int64_t token, void *payload);

/* Acquires (of a semaphore one permit), runs section in this thread, releases that grant. The flag
 * is raised when less than margin_ms of lease, or of max_hold_ms, is left (0: a third of the least
 * lease), when the lock is lost, and by zkl_lock_cancel. *result gets the return of section, if it
 * ran. Returns the result of the acquire if that failed (section did not run), else that of the
 * release. ZKL_ELOST also when somebody else released the lock while section ran (zkl_lock_release,
 * zkl_lock_free, zkl_session_close). If the lock has been acquired again by then, that grant stays.
 * section did not run with ZKL_ELIMIT (no descriptor for the flag) and ZKL_EINVAL (margin_ms is not
 * less than the least lease or, before the first connection, than session_timeout_ms). */
ZKL_API int zkl_with_lock(zkl_lock *lock, int64_t timeout_ms, int64_t margin_ms,
                          zkl_section_fn section, void *payload, int *result, zkl_error *err);

/* Calls visit for everything of the session that is waiting, held, in jeopardy or lost: locks of
 * every recipe (a multi-lock once for each of its paths), memberships of double barriers, members
 * and pieces of partitions. Runs with the session's mutex held: copy and return. token is 0 unless
 * held.
 * Returns how many times, or ZKL_EINVAL, ZKL_EFORKED, ZKL_ECLOSED. */
typedef void (*zkl_session_locks_fn)(const char *path, zkl_state state, int64_t token,
                                     void *payload);
ZKL_API int zkl_session_locks(zkl_session *session, zkl_session_locks_fn visit, void *payload);

#ifdef __cplusplus
}
#endif
#endif
