/* zklock/semaphore.h - a limited number of permits, in the order of the queue.
 *
 * Guarantees. There are never more permits granted than the limit, by lease. Requests are granted
 * in the order of the queue, so that one for many permits is not passed over by many for one. A
 * holder knows that it has lost before its permits can be granted to others. All users of a path
 * agree on its limit. The limit stands, as decimal text, in the data of path from the first grant
 * on, until the servers delete the empty directory, some time after the last contender has left.
 *
 * The first in the queue needs a lease, since it may be granted at any moment. When its lease ends,
 * it queues again at the tail, or fails (on_expiry), even if its session turns out to live. Those
 * behind it keep their positions, as for a lock.
 *
 * The layout is that of Curator's InterProcessSemaphoreV2: a queue in path/locks, a znode for each
 * permit in path/leases. Curator's permits count, and its clients queue with ours. Curator does not
 * compare its clients' limit with that in the data.
 *
 * Errors of an acquire are those of zkl_lock_acquire. ZKL_ECONFLICT: the limit in the data is
 * another one, the path is a lock's or an election's, or a part of it is an ephemeral znode. */
#ifndef ZKLOCK_SEMAPHORE_H
#define ZKLOCK_SEMAPHORE_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_PERMITS_MAX 10000 /* limit of a semaphore */

/* Makes a contender for permits of the semaphore at path, of which there are limit: 1 to
 * ZKL_PERMITS_MAX; as zkl_lock_new. Not with the options recursive, recover and revoke_fn. */
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

#ifdef __cplusplus
}
#endif
#endif
