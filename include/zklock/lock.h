/* zklock/lock.h - the lock: one holder at a time, in the order they asked.
 *
 * A zkl_lock is one contender. It has no thread: any thread may wait for it, cancel it or release it. Threads that compete
 * with each other use one zkl_lock each.
 *
 * Guarantees. At most one holder by lease; grants in the order of the queue; a token that rises with every grant; a holder
 * that knows it has lost before anybody else can be granted; no znode left behind, however an acquire ends.
 * Caveats. A lock cannot stop a write that is already on its way when the lease ends: give the token to the resource and let
 * it refuse older ones. What the lease rests on is in docs/lease.md. */
#ifndef ZKLOCK_LOCK_H
#define ZKLOCK_LOCK_H

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A change of a granted lock: ZKL_STATE_HELD, _JEOPARDY or _LOST. Runs as callbacks do (zklock/session.h): the state may have
 * changed since, ask zkl_lock_is_held. Quick changes are told as the latest one; LOST is never left out. */
typedef void (*zkl_lock_state_fn)(zkl_lock *lock, zkl_state state, void *payload);

/* Somebody asks the holder to give way (zkl_lock_revoke, Curator's Revoker). Runs as callbacks do, while the lock is held, once
 * for each request or for several that follow each other closely. Whether and when to release is up to the callback. */
typedef void (*zkl_lock_revoke_fn)(zkl_lock *lock, void *payload);

/* The one completion of an asynchronous acquire. code: as zkl_lock_acquire returns; grant: NULL unless ZKL_OK; err: its words. */
typedef void (*zkl_acquired_fn)(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload);

typedef struct zkl_lock_options {
    size_t size;                /* sizeof(zkl_lock_options): set by the _INIT */
    const char *metadata;       /* text on our znode, shown to operators; UTF-8, ZKL_DATA_MAX bytes. NULL: "host:pid" */
    bool recursive;             /* a second acquire while held counts instead of ZKL_EDEADLK */
    bool recover;               /* grants say whether the last holder crashed (zkl_grant.unclean): see below */
    int64_t max_hold_ms;        /* a holder is told LOST and its znode goes after this; 0: never */
    int64_t release_timeout_ms; /* how long release waits for the server's word; 0: not at all. 1000 */
    const zkl_acl *acl;         /* of our znode and of directories made for it; NULL: the session's */
    zkl_lock_state_fn state_fn;
    void *state_payload;
    zkl_on_expiry on_expiry;
    zkl_lock_revoke_fn revoke_fn; /* NULL: requests to give way are not heard */
    void *revoke_payload;
} zkl_lock_options;

#define ZKL_LOCK_OPTIONS_INIT                                                                                      \
    {                                                                                                              \
        sizeof(zkl_lock_options), NULL, false, false, 0, 1000, NULL, NULL, NULL, ZKL_ON_EXPIRY_REQUEUE, NULL, NULL \
    }

/* The option recover. Each grant writes "held by" and the contender's uuid into the data of the znode at path, and a release takes
 * it away in the transaction that gives the lock back; whoever is granted the lock and finds it there is told unclean, also when
 * nobody was queued as the holder went: it crashed, lost its session, was removed by an operator, or released after it had
 * lost. What was found stays until somebody has acquired the lock and released it, so a crash during the clean-up is not
 * forgotten. A predecessor that only waited and gave up leaves nothing; in one case unclean is told without need: a session
 * that ended between the write and the grant.
 * It costs two round trips more per grant, needs the permissions READ and WRITE on path, and holds only when all who use the
 * path use the option: who does not writes nothing, and where the first to come makes the directory as a container (as the
 * library does without the option), it goes with what stands in it when it is empty for a while. A container that is there
 * already cannot be told from another directory: remove it once, before the option is used for a path. */

/* Makes a contender for the lock at path (an absolute znode path under the session's chroot). Talks to no server.
 * Copies path and options (NULL: defaults). The caller frees it, before or after the session is closed.
 * Errors: ZKL_EINVAL (the text names what is wrong with path or options), ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM, ZKL_ELIMIT (no thread
 * for callbacks). */
ZKL_API int zkl_lock_new(zkl_lock **out, zkl_session *session, const char *path, const zkl_lock_options *options,
                         zkl_error *err);

/* Queues and waits. timeout_ms: one deadline over the whole call, with or without a server; ZKL_WAIT_FOREVER; 0: a
 * try, which leaves at once with ZKL_EBUSY when somebody is before us (and waits for the server's answer no longer
 * than the session's connect_timeout_ms). On every result but ZKL_OK our znode is gone or being removed in the
 * background. May be called from a callback, which then blocks the callbacks behind it. Errors: ZKL_ETIMEOUT,
 * ZKL_EBUSY, ZKL_ECANCELED, ZKL_ELOST (session lost; see on_expiry), ZKL_EDEADLK (already pending or held),
 * ZKL_EAUTH, ZKL_ECONFLICT (the path is a semaphore's: its limit or somebody is there; or part of it an ephemeral
 * znode), ZKL_EEXHAUSTED, ZKL_ENOENT (the chroot is gone), ZKL_ELIMIT (watches), ZKL_EUNSUPPORTED (the server refused
 * it otherwise), ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_lock_acquire(zkl_lock *lock, int64_t timeout_ms, zkl_grant *grant, zkl_error *err);

/* The same without waiting: exactly one call of done follows if this returns ZKL_OK, and none otherwise. Errors of this call itself:
 * ZKL_EDEADLK, ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM, ZKL_ELIMIT (no thread for callbacks); done gets the others. */
ZKL_API int zkl_lock_acquire_async(zkl_lock *lock, int64_t timeout_ms, zkl_acquired_fn done, void *payload,
                                   zkl_error *err);

/* From any thread: the pending acquire ends with ZKL_ECANCELED and leaves no znode; a section of zkl_with_lock has its flag raised, and
 * keeps the lock until it has returned. ZKL_ENOTWAITING when there is neither (nothing is remembered for the next acquire), ZKL_EFORKED. */
ZKL_API int zkl_lock_cancel(zkl_lock *lock);

/* Gives the lock back. ZKL_OK: the lease covered the hold up to this call. ZKL_ELOST: it did not, the section was not
 * protected. Either way this object is idle again and its znode gone or being removed in the background; waits for the
 * server's word for release_timeout_ms at most. ZKL_ENOTHELD: never granted, or released already. */
ZKL_API int zkl_lock_release(zkl_lock *lock, zkl_error *err);

/* Cancels or releases what is pending or held, waits for a callback of this lock that is running (not when called
 * from it), and frees. done of a pending zkl_lock_acquire_async runs before it returns, maybe inside it
 * (zklock/session.h: calls that end an object), and no callback of this lock starts afterwards. A call of another
 * thread that waits for it ends; a section of zkl_with_lock has its flag raised and goes on without the lock: cancel
 * it and let it return before. NULL is fine. */
ZKL_API void zkl_lock_free(zkl_lock *lock);

/* By the lease clock: false from the lease end on, before any message says so. Any thread. */
ZKL_API bool zkl_lock_is_held(const zkl_lock *lock);
/* Where it stands now, by the same clock. */
ZKL_API zkl_state zkl_lock_state(const zkl_lock *lock);
/* Lease left, in ms; it grows again with every heartbeat. 0 when not held. */
ZKL_API int64_t zkl_lock_remaining_ms(const zkl_lock *lock);
/* Fencing token of the grant; 0 when not held. */
ZKL_API int64_t zkl_lock_token(const zkl_lock *lock);
/* The path it was made with. Lives as long as the lock. */
ZKL_API const char *zkl_lock_path(const zkl_lock *lock);
/* Copies the name of our znode (its last component) into name, which has size bytes, cut to fit: an empty string when there is none.
 * Returns its full length. */
ZKL_API size_t zkl_lock_node(const zkl_lock *lock, char *name, size_t size);

/* Asks whoever holds path to give way: writes Curator's "__REVOKE__" on its znode, and returns without waiting for what the holder
 * does. A holder without revoke_fn (or without Curator's makeRevocable) does not hear it; one of ours usually lets nobody else write
 * its znode then (ZKL_EAUTH). node: name of the contender's znode (zkl_queue_entry.name); NULL: the first of the queue. Needs the
 * permission WRITE on that znode. Waits timeout_ms at most.
 * Errors: ZKL_ENOTHELD (nobody is there, or not any more), ZKL_EINVAL, ZKL_ETIMEOUT, ZKL_ECONNECT (the connection went: the request
 * may have been made), ZKL_EAUTH, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_lock_revoke(zkl_session *session, const char *path, const char *node, int64_t timeout_ms,
                            zkl_error *err);

/* A flag that zkl_with_lock raises before the lease ends. */
typedef struct zkl_cancel zkl_cancel;
/* True once the section must end. Any thread, while the function runs. */
ZKL_API bool zkl_cancel_raised(const zkl_cancel *cancel);
/* Lease left, in ms: the time that the section has to end. */
ZKL_API int64_t zkl_cancel_remaining_ms(const zkl_cancel *cancel);
/* A descriptor that becomes readable when the flag is raised: for poll. Owned by the flag. */
ZKL_API int zkl_cancel_fd(const zkl_cancel *cancel);
/* The section: zkl_with_lock passes its result on. token: the grant's fencing token. */
typedef int (*zkl_section_fn)(const zkl_cancel *cancel, int64_t token, void *payload);

/* Acquires, runs section in this thread, always releases. The flag is raised when less than margin_ms of lease is left
 * (0: a third of the least lease), when the lock is lost, and by zkl_lock_cancel. *result gets what section returned, if it ran.
 * Returns what acquire returned if it failed (section did not run), else what release returned; ZKL_ELOST also when somebody else gave
 * the lock back while section ran (zkl_lock_release, zkl_lock_free, zkl_session_release_all); ZKL_ELIMIT when there was no descriptor
 * for the flag (section did not run). */
ZKL_API int zkl_with_lock(zkl_lock *lock, int64_t timeout_ms, int64_t margin_ms, zkl_section_fn section, void *payload,
                          int *result, zkl_error *err);

/* Releases or cancels every zkl_lock that the session holds or waits for, without waiting for the server.
 * Returns how many, or ZKL_EFORKED, ZKL_ECLOSED. */
ZKL_API int zkl_session_release_all(zkl_session *session);

/* Calls visit for everything of the session that is waiting, held, in jeopardy or lost: locks, read/write locks, multi-locks (once for
 * each of their paths), semaphores, elections, memberships of double barriers, members and pieces of partitions. With the session
 * locked: copy and return. token is 0 unless held. Returns how many times, or ZKL_EINVAL, ZKL_EFORKED, ZKL_ECLOSED. */
typedef void (*zkl_lock_visit_fn)(const char *path, zkl_state state, int64_t token, void *payload);
ZKL_API int zkl_session_locks(zkl_session *session, zkl_lock_visit_fn visit, void *payload);

#ifdef __cplusplus
}
#endif
#endif
