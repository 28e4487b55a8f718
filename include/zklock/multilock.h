/* zklock/multilock.h - several locks, all or none.
 *
 * One transaction queues at every path at once, so any two multi-locks stand in the same order in every queue they share: they cannot
 * deadlock with each other, in whatever order their paths are named, and nobody has to sort names. There is no partial
 * grant: until it is first everywhere it holds nothing. Single locks (zklock/lock.h, Curator, go-zookeeper) at the same paths
 * queue with it.
 *
 * Caveats. Only what one multi-lock asks for is safe from deadlock: whoever holds the lock a and then asks for b, while a multi-lock of
 * a and b waits behind it, waits for ever, as with any two locks. While it waits for one path it keeps its places at the others,
 * and those behind it wait. If somebody removes one of its places, all of it ends: with ZKL_ELOST while waiting, with the state LOST when held.
 *
 * What zklock/lock.h says of threads, callbacks, leases and tokens holds here. All places come from one transaction, so there is one
 * token, good for every path. */
#ifndef ZKLOCK_MULTILOCK_H
#define ZKLOCK_MULTILOCK_H

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_MULTILOCK_MAX 100 /* paths: what fits into one request of a megabyte with room to spare */

typedef struct zkl_multilock zkl_multilock;

/* As zkl_lock_state_fn and zkl_acquired_fn. LOST is told with the first path lost. */
typedef void (*zkl_multilock_state_fn)(zkl_multilock *lock, zkl_state state, void *payload);
typedef void (*zkl_multilock_acquired_fn)(zkl_multilock *lock, int code, const zkl_grant *grant, const zkl_error *err,
                                          void *payload);

typedef struct zkl_multilock_options {
    size_t size;                /* sizeof(zkl_multilock_options): set by the _INIT */
    const char *metadata;       /* text on our znodes; UTF-8, ZKL_DATA_MAX bytes. NULL: "host:pid" */
    int64_t release_timeout_ms; /* how long release waits for the server's word; 0: not at all. 1000 */
    const zkl_acl *acl;         /* of our znodes and of directories made for them; NULL: the session's */
    zkl_on_expiry on_expiry;
    zkl_multilock_state_fn state_fn;
    void *state_payload;
} zkl_multilock_options;

#define ZKL_MULTILOCK_OPTIONS_INIT                                                         \
    {                                                                                      \
        sizeof(zkl_multilock_options), NULL, 1000, NULL, ZKL_ON_EXPIRY_REQUEUE, NULL, NULL \
    }

/* Makes a contender for the locks at count paths. Talks to no server. Copies paths and options (NULL: defaults). The caller
 * frees it. Errors: ZKL_EINVAL (the text names the path that is wrong, or there twice), ZKL_ELIMIT (more than ZKL_MULTILOCK_MAX),
 * ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_multilock_new(zkl_multilock **out, zkl_session *session, const char *const *paths, size_t count,
                              const zkl_multilock_options *options, zkl_error *err);

/* Queues at all paths and waits until it is first at each. timeout_ms: as zkl_lock_acquire (0: a try, ZKL_EBUSY). On every
 * result but ZKL_OK our znodes are gone or being removed in the background.
 * Errors: ZKL_ETIMEOUT, ZKL_EBUSY, ZKL_ECANCELED, ZKL_ELOST (session lost; see on_expiry), ZKL_EDEADLK (already pending or held), ZKL_EAUTH,
 * ZKL_ECONFLICT (the path is a semaphore's, or part of it an ephemeral znode), ZKL_EEXHAUSTED, ZKL_ENOENT (the chroot is gone),
 * ZKL_ELIMIT (watches), ZKL_EUNSUPPORTED (the server refused it otherwise), ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_multilock_acquire(zkl_multilock *lock, int64_t timeout_ms, zkl_grant *grant, zkl_error *err);
/* The same without waiting: exactly one call of done follows if this returns ZKL_OK, and none otherwise. Errors of this call itself:
 * ZKL_EDEADLK, ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM, ZKL_ELIMIT (no thread for callbacks); done gets the others. */
ZKL_API int zkl_multilock_acquire_async(zkl_multilock *lock, int64_t timeout_ms, zkl_multilock_acquired_fn done,
                                        void *payload, zkl_error *err);
/* From any thread: the pending acquire ends with ZKL_ECANCELED and leaves no znode. ZKL_ENOTWAITING: nothing is pending. ZKL_EFORKED. */
ZKL_API int zkl_multilock_cancel(zkl_multilock *lock);

/* Gives all back in one transaction; where that fails (a znode is gone already), one by one. ZKL_OK, ZKL_ELOST, ZKL_ENOTHELD: as
 * zkl_lock_release. */
ZKL_API int zkl_multilock_release(zkl_multilock *lock, zkl_error *err);

/* Cancels or releases, waits for a running callback of this object (not when called from it), frees. NULL is fine. */
ZKL_API void zkl_multilock_free(zkl_multilock *lock);

/* All of them, by the lease clock. */
ZKL_API bool zkl_multilock_is_held(const zkl_multilock *lock);
ZKL_API zkl_state zkl_multilock_state(const zkl_multilock *lock);
/* Lease left, in ms; 0 when not held. */
ZKL_API int64_t zkl_multilock_remaining_ms(const zkl_multilock *lock);
/* Fencing token of the grant, the same at every path; 0 when not held. */
ZKL_API int64_t zkl_multilock_token(const zkl_multilock *lock);
ZKL_API size_t zkl_multilock_count(const zkl_multilock *lock);
/* The paths in the order given. Live as long as the object. NULL: index is not below the count. */
ZKL_API const char *zkl_multilock_path(const zkl_multilock *lock, size_t index);
/* Copies the name of our znode at that path: an empty string when there is none. Returns its length. */
ZKL_API size_t zkl_multilock_node(const zkl_multilock *lock, size_t index, char *name, size_t size);

#ifdef __cplusplus
}
#endif
#endif
