/* zklock/semaphore.h - n permits: so many at a time, in the order they asked.
 *
 * A zkl_semaphore is one contender for one or several of the permits of a path. Threads that compete with each other use one each; it has
 * no thread itself. Threads, callbacks and timeouts are as in zklock/lock.h.
 *
 * Guarantees. Never more permits granted than the limit, by lease; requests are granted in the order of the queue, so that one for many
 * permits is not passed over by many for one; a holder that knows it has lost before its permits can be granted to others.
 * All who use a path agree on its limit: it stands, as decimal text, in the data of path, from the first grant on, and goes
 * when the servers remove the directory, some time after the last one has left.
 * Who is first in the queue stands there by lease, since it may be granted at any moment: cut off for longer, it queues again at the
 * tail, or fails (on_expiry), though its session may turn out to live. Those behind it keep their places, as for a lock.
 * The layout is that of Curator's InterProcessSemaphoreV2: a queue in path/locks, a znode for each permit in path/leases; Curator's
 * permits count, and its clients queue with ours. Their limit is what they were told, and not compared with that in the data. */
#ifndef ZKLOCK_SEMAPHORE_H
#define ZKLOCK_SEMAPHORE_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_PERMITS_MAX 10000 /* limit of a semaphore */

typedef struct zkl_semaphore zkl_semaphore;

/* A change of granted permits: ZKL_STATE_HELD, _JEOPARDY or _LOST; as zkl_lock_state_fn. */
typedef void (*zkl_semaphore_state_fn)(zkl_semaphore *semaphore, zkl_state state, void *payload);

/* The one completion of an asynchronous acquire. code: as zkl_semaphore_acquire returns; grant: NULL unless ZKL_OK; err: its words. */
typedef void (*zkl_permitted_fn)(zkl_semaphore *semaphore, int code, const zkl_grant *grant, const zkl_error *err,
                                 void *payload);

typedef struct zkl_semaphore_options {
    size_t size;          /* sizeof(zkl_semaphore_options): set by the _INIT */
    const char *metadata; /* text on our znodes, shown to operators; UTF-8, ZKL_DATA_MAX bytes. NULL: "host:pid" */
    int64_t release_timeout_ms; /* how long release waits for the server's word; 0: not at all. 1000 */
    const zkl_acl *acl;         /* of our znodes and of directories made for them; NULL: the session's */
    zkl_on_expiry on_expiry;
    zkl_semaphore_state_fn state_fn;
    void *state_payload;
} zkl_semaphore_options;

#define ZKL_SEMAPHORE_OPTIONS_INIT                                                         \
    {                                                                                      \
        sizeof(zkl_semaphore_options), NULL, 1000, NULL, ZKL_ON_EXPIRY_REQUEUE, NULL, NULL \
    }

/* Makes a contender for permits of the semaphore at path (an absolute znode path under the session's chroot), of which there are limit: 1
 * to ZKL_PERMITS_MAX. Talks to no server. Copies path and options (NULL: defaults). The caller frees it, before or after the
 * session is closed.
 * Errors: ZKL_EINVAL (the text names what is wrong), ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM, ZKL_ELIMIT (no thread for callbacks). */
ZKL_API int zkl_semaphore_new(zkl_semaphore **out, zkl_session *session, const char *path, int limit,
                              const zkl_semaphore_options *options, zkl_error *err);

/* Queues for count permits (1 to the limit), all or none, and waits. timeout_ms: one deadline over the whole call; 0: a try, which leaves at
 * once with ZKL_EBUSY when there are too few permits or somebody is before us in the queue, if only for a moment.
 * On every result but ZKL_OK no znode of ours stays.
 * Errors: ZKL_EINVAL (count), ZKL_ECONFLICT (others use this path with another limit: the text has both; or as a lock), ZKL_ETIMEOUT,
 * ZKL_EBUSY, ZKL_ECANCELED, ZKL_ELOST (session lost; see on_expiry), ZKL_EDEADLK (this object waits or holds already), ZKL_EAUTH,
 * ZKL_EEXHAUSTED, ZKL_ENOENT (the chroot is gone), ZKL_ELIMIT, ZKL_EUNSUPPORTED, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_semaphore_acquire(zkl_semaphore *semaphore, int count, int64_t timeout_ms, zkl_grant *grant,
                                  zkl_error *err);

/* The same without waiting: exactly one call of done follows if this returns ZKL_OK, and none otherwise. Errors of this call itself:
 * ZKL_EDEADLK, ZKL_EINVAL (count), ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM, ZKL_ELIMIT (no thread for callbacks); done gets the others. */
ZKL_API int zkl_semaphore_acquire_async(zkl_semaphore *semaphore, int count, int64_t timeout_ms, zkl_permitted_fn done,
                                        void *payload, zkl_error *err);

/* From any thread: the pending acquire ends with ZKL_ECANCELED and leaves no znode. ZKL_ENOTWAITING when nothing is pending, ZKL_EFORKED. */
ZKL_API int zkl_semaphore_cancel(zkl_semaphore *semaphore);

/* Gives count permits back; 0: all that are held. ZKL_OK: the lease covered the hold up to this call; ZKL_ELOST: it did not. When none are
 * left the object is idle again, and the call has waited for the server's word for release_timeout_ms at most; with some left
 * it does not wait. Those with the highest tokens go first. Errors: ZKL_ENOTHELD, ZKL_EINVAL (more than are held), ZKL_ECLOSED, ZKL_EFORKED. */
ZKL_API int zkl_semaphore_release(zkl_semaphore *semaphore, int count, zkl_error *err);

/* Cancels or releases what is pending or held, waits for a callback of this semaphore that is running (not when called from it), and
 * frees. No callback of it starts afterwards. NULL is fine. */
ZKL_API void zkl_semaphore_free(zkl_semaphore *semaphore);

/* By the lease clock: false from the lease end on, before any message says so; false for all permits as soon as one is lost. */
ZKL_API bool zkl_semaphore_is_held(const zkl_semaphore *semaphore);
ZKL_API zkl_state zkl_semaphore_state(const zkl_semaphore *semaphore);
/* Lease left, in ms; it grows again with every heartbeat. 0 when not held. */
ZKL_API int64_t zkl_semaphore_remaining_ms(const zkl_semaphore *semaphore);
/* How many permits are held; 0 also when they are lost. */
ZKL_API int zkl_semaphore_held(const zkl_semaphore *semaphore);
/* Token of the grant: that of its first permit, as in zkl_grant. Greater than every token of the grants before; with limit 1 a fencing
 * token. 0 when not held. */
ZKL_API int64_t zkl_semaphore_token(const zkl_semaphore *semaphore);
/* The token of each permit held, ascending, into tokens, room at most. Returns how many are held. */
ZKL_API int zkl_semaphore_tokens(const zkl_semaphore *semaphore, int64_t *tokens, int room);
/* The path it was made with. Lives as long as the semaphore. */
ZKL_API const char *zkl_semaphore_path(const zkl_semaphore *semaphore);
/* The limit it was made with. */
ZKL_API int zkl_semaphore_limit(const zkl_semaphore *semaphore);

#ifdef __cplusplus
}
#endif
#endif
