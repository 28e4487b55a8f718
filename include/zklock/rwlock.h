/* zklock/rwlock.h - the read/write lock: many readers or one writer, in the order they asked.
 *
 * A reader waits for the nearest writer before it and for nothing else; a writer waits for everybody before it. So nobody barges and
 * nobody starves: a reader that comes behind a waiting writer waits, too. A plain lock (zklock/lock.h) at the same path counts as
 * a writer, here as in its own eyes. The znodes are Curator's InterProcessReadWriteLock's ("__READ__", "__WRIT__"), so readers
 * and writers of Curator and of this library keep each other out; Curator's plain InterProcessMutex does not see readers.
 *
 * Wake-ups. A writer's end wakes the readers that it kept waiting, each once, or the writer behind it. A writer behind
 * readers watches the last of them and looks again when that one goes.
 *
 * A zkl_rwlock is one contender, as a zkl_lock is: one object per thread that competes. What zklock/lock.h says of threads, callbacks,
 * leases and tokens holds here; a writer's token exceeds every earlier one, a reader's those of the writers before it. */
#ifndef ZKLOCK_RWLOCK_H
#define ZKLOCK_RWLOCK_H

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zkl_rwlock zkl_rwlock;

typedef enum zkl_rwmode {
    ZKL_RW_NONE, /* not held */
    ZKL_RW_READ,
    ZKL_RW_WRITE
} zkl_rwmode;

/* As zkl_lock_state_fn and zkl_acquired_fn. */
typedef void (*zkl_rwlock_state_fn)(zkl_rwlock *lock, zkl_state state, void *payload);
typedef void (*zkl_rwlock_acquired_fn)(zkl_rwlock *lock, int code, const zkl_grant *grant, const zkl_error *err,
                                       void *payload);

typedef struct zkl_rwlock_options {
    size_t size;          /* sizeof(zkl_rwlock_options): set by the _INIT */
    const char *metadata; /* text on our znode; UTF-8, ZKL_DATA_MAX bytes. NULL: "host:pid" */
    bool recursive; /* a second acquire while held counts instead of ZKL_EDEADLK; reading under a write does, too */
    int64_t max_hold_ms;        /* a holder is told LOST and its znode goes after this; 0: never */
    int64_t release_timeout_ms; /* how long release and downgrade wait for the server's word; 0: not at all. 1000 */
    const zkl_acl *acl;         /* of our znode and of directories made for it; NULL: the session's */
    zkl_on_expiry on_expiry;
    zkl_rwlock_state_fn state_fn;
    void *state_payload;
} zkl_rwlock_options;

#define ZKL_RWLOCK_OPTIONS_INIT                                                                   \
    {                                                                                             \
        sizeof(zkl_rwlock_options), NULL, false, 0, 1000, NULL, ZKL_ON_EXPIRY_REQUEUE, NULL, NULL \
    }

/* Makes a contender for the read/write lock at path. Talks to no server. Copies path and options (NULL: defaults). The caller
 * frees it. Errors: ZKL_EINVAL (with words), ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_rwlock_new(zkl_rwlock **out, zkl_session *session, const char *path, const zkl_rwlock_options *options,
                           zkl_error *err);

/* Queues as mode says and waits. timeout_ms: as zkl_lock_acquire (0: a try, ZKL_EBUSY).
 * ZKL_EDEADLK: this object waits or holds already, or it reads and asks to write: such an upgrade would wait for its own
 * end (and two of them for each other). Release, and queue as a writer.
 * Errors: ZKL_ETIMEOUT, ZKL_EBUSY, ZKL_ECANCELED, ZKL_ELOST (session lost; see on_expiry), ZKL_EDEADLK (see above), ZKL_EAUTH,
 * ZKL_ECONFLICT (the path is a semaphore's, or part of it an ephemeral znode), ZKL_EEXHAUSTED, ZKL_ENOENT (the chroot is gone),
 * ZKL_ELIMIT (watches), ZKL_EUNSUPPORTED (the server refused it otherwise), ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_rwlock_acquire(zkl_rwlock *lock, zkl_rwmode mode, int64_t timeout_ms, zkl_grant *grant, zkl_error *err);
/* The same without waiting: exactly one call of done follows if this returns ZKL_OK, and none otherwise. Errors of this call itself:
 * ZKL_EDEADLK, ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM, ZKL_ELIMIT (no thread for callbacks); done gets the others. */
ZKL_API int zkl_rwlock_acquire_async(zkl_rwlock *lock, zkl_rwmode mode, int64_t timeout_ms, zkl_rwlock_acquired_fn done,
                                     void *payload, zkl_error *err);
/* From any thread: the pending acquire ends with ZKL_ECANCELED and leaves no znode. ZKL_ENOTWAITING: nothing is pending. ZKL_EFORKED. */
ZKL_API int zkl_rwlock_cancel(zkl_rwlock *lock);

/* A writer becomes a reader without letting any writer in between: its znode is exchanged in one transaction for a reader's with the
 * same number, so place and token stay. Readers that wait behind it are granted when this returns ZKL_OK, up to the next
 * writer. A reader already: ZKL_OK.
 * Waits for the server's word for release_timeout_ms at most. ZKL_ETIMEOUT: it has not come yet; the lock is still held, counts
 * as a read lock from now on (zkl_rwlock_mode), and the exchange goes on by itself. ZKL_ELOST: lost, or lost meanwhile; release it.
 * ZKL_ENOTHELD, ZKL_EDEADLK (acquired several times: release all but one first), ZKL_ECLOSED, ZKL_EFORKED. */
ZKL_API int zkl_rwlock_downgrade(zkl_rwlock *lock, zkl_error *err);

/* Gives the lock back, whichever way it is held: as zkl_lock_release. ZKL_OK, ZKL_ELOST, ZKL_ENOTHELD. */
ZKL_API int zkl_rwlock_release(zkl_rwlock *lock, zkl_error *err);

/* Cancels or releases, waits for a running callback of this object (not when called from it), frees. NULL is fine. */
ZKL_API void zkl_rwlock_free(zkl_rwlock *lock);

/* How it is held now, by the lease clock; ZKL_RW_NONE from the lease end on. */
ZKL_API zkl_rwmode zkl_rwlock_mode(const zkl_rwlock *lock);
ZKL_API bool zkl_rwlock_is_held(const zkl_rwlock *lock);
ZKL_API zkl_state zkl_rwlock_state(const zkl_rwlock *lock);
/* Lease left, in ms; 0 when not held. */
ZKL_API int64_t zkl_rwlock_remaining_ms(const zkl_rwlock *lock);
/* Fencing token of the grant; 0 when not held. */
ZKL_API int64_t zkl_rwlock_token(const zkl_rwlock *lock);
/* The path it was made with. Lives as long as the object. */
ZKL_API const char *zkl_rwlock_path(const zkl_rwlock *lock);
/* Copies the name of our znode: an empty string when there is none. Returns its length. */
ZKL_API size_t zkl_rwlock_node(const zkl_rwlock *lock, char *name, size_t size);

#ifdef __cplusplus
}
#endif
#endif
