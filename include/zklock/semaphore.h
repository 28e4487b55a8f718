/* zklock/semaphore.h - a limited number of permits, in the order of the queue.
 *
 * Guarantees. There are never more permits granted than the limit, by lease. Requests are granted
 * in the order of the queue, so that one for many permits is not passed over by many for one.
 * zkl_lock_is_held is false before a holder's permits are granted to others, with the exceptions of
 * zklock/lock.h. All users of a path agree on its limit. The limit stands, as decimal text, in the
 * data of path from the first grant on, until the servers delete the empty directory, some time
 * after the last contender has left. A znode that was made by hand, with the limit as its data,
 * stays.
 *
 * While the limit changes. After zkl_semaphore_resize, a contender that creates its permits is
 * granted them by the new limit. A higher limit wakes the first in the queue. A lower one takes
 * nothing away: holders finish, and the next is granted when few enough are left.
 *
 * The first in the queue needs a lease, since it may be granted at any moment. When its lease ends,
 * it queues again at the tail, or fails (on_expiry), even if its session turns out to live. Those
 * behind it keep their positions, as for a lock.
 *
 * The layout is that of Curator's InterProcessSemaphoreV2: a queue in path/locks, a znode for each
 * permit in path/leases. Curator's permits count, and its clients queue with ours. Curator does not
 * compare its clients' limit with that in the data, so after a resize it still uses its own:
 * maxLeases, or its SharedCount, which has another znode and another format. Change these, too.
 *
 * Errors of an acquire are those of zkl_lock_acquire. ZKL_ECONFLICT: the limit in the data is
 * another one, it is none, for limit 0 there is none or it is lower than count, the path is a
 * lock's or an election's, or a part of it is an ephemeral znode. */
#ifndef ZKLOCK_SEMAPHORE_H
#define ZKLOCK_SEMAPHORE_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_PERMITS_MAX 10000 /* limit of a semaphore */

/* Makes a contender for permits of the semaphore at path, of which there are limit: 1 to
 * ZKL_PERMITS_MAX; as zkl_lock_new. 0: as many as the path says, also after a resize; its data
 * has to have the limit, in decimal: of a path that somebody created so, or from a contender with a
 * limit. Not with the options recursive, recover and revoke_fn. */
ZKL_API int zkl_semaphore_new(zkl_lock **out, zkl_session *session, const char *path, int limit,
                              const zkl_lock_options *options, zkl_error *err);

/* As zkl_lock_acquire, which takes one: queues for count permits (1 to the limit), all or none, and
 * waits. A try also leaves with ZKL_EBUSY when there are too few permits. Errors besides:
 * ZKL_EINVAL (count, or lock is no semaphore). */
ZKL_API int zkl_semaphore_acquire(zkl_lock *lock, int count, int64_t timeout_ms, zkl_grant *grant,
                                  zkl_error *err);
/* The same without waiting; as zkl_lock_acquire_async. */
ZKL_API int zkl_semaphore_acquire_async(zkl_lock *lock, int count, int64_t timeout_ms,
                                        zkl_acquired_fn done, void *payload, zkl_error *err);

/* Releases count permits; 0: all that are held, as zkl_lock_release. ZKL_OK: the lease covered the
 * hold up to this call; ZKL_ELOST: it did not. With some left it does not wait. Those with the
 * highest tokens are released first. Errors: ZKL_ENOTHELD, ZKL_EINVAL (more than are held, or lock
 * is no semaphore), ZKL_ECLOSED, ZKL_EFORKED. */
ZKL_API int zkl_semaphore_release(zkl_lock *lock, int count, zkl_error *err);

/* The token of each permit held, ascending, into tokens, at most room of them. Returns how many are
 * held; 0 also when they are lost, or lock is no semaphore. */
ZKL_API int zkl_semaphore_tokens(const zkl_lock *lock, int64_t *tokens, int room);

/* Sets the limit of the semaphore at path to limit (1 to ZKL_PERMITS_MAX), while it is used. Only a
 * limit is replaced, by a write at the version that was read; of two resizes at the same time the
 * later one stands. Contenders that were made with another limit than 0 get ZKL_ECONFLICT from then
 * on, unless it is this one; what they hold they keep. timeout_ms: for the whole call. ZKL_OK: from
 * now on this limit is in force, or one that was set later. Errors: ZKL_EINVAL, ZKL_ENOENT (no such
 * path), ZKL_ECONFLICT (nobody has set a limit there, or its data is none), ZKL_EAUTH (it takes
 * READ and WRITE on path), ZKL_ETIMEOUT, ZKL_ECANCELED (the session's stop token), ZKL_ELIMIT,
 * ZKL_ENOMEM, ZKL_ECLOSED, ZKL_EFORKED. The text says when it may be done all the same. */
ZKL_API int zkl_semaphore_resize(zkl_session *session, const char *path, int limit,
                                 int64_t timeout_ms, zkl_error *err);
/* The same without waiting; as zkl_done_fn says. */
ZKL_API int zkl_semaphore_resize_async(zkl_session *session, const char *path, int limit,
                                       int64_t timeout_ms, zkl_done_fn done, void *payload,
                                       zkl_error *err);

#ifdef __cplusplus
}
#endif
#endif
