/* zklock/multilock.h - several locks, all or none.
 *
 * One transaction queues at every path, so any two multi-locks stand in the same order in every
 * queue that both use. They cannot deadlock with each other, in whatever order their paths are
 * named, and no caller has to sort names. There is no partial grant: until it is first everywhere
 * it holds nothing. Single locks (zkl_lock_new, Curator, go-zookeeper) at the same paths queue with
 * it. All znodes come from one transaction, so there is one token, good for every path.
 *
 * Caveats. Only the paths of one multi-lock are safe from deadlock. A process that holds a lock at
 * a and acquires one at b, while a multi-lock of a and b waits behind it, waits for ever, as with
 * any two locks. While it waits for one path it keeps its positions at the others, and those behind
 * it wait. If somebody removes one of its znodes, all of it ends: with ZKL_ELOST while waiting,
 * with the state LOST when held. A release deletes all znodes in one transaction; where that fails,
 * one by one. */
#ifndef ZKLOCK_MULTILOCK_H
#define ZKLOCK_MULTILOCK_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_MULTILOCK_MAX \
    100 /* paths: what fits into one request of a megabyte with room to spare */

/* Makes a contender for the locks at count paths; as zkl_lock_new. Copies paths. Not with the
 * option recover. Errors besides: ZKL_EINVAL (the text names the path that is wrong, or there
 * twice), ZKL_ELIMIT (more than ZKL_MULTILOCK_MAX). */
ZKL_API int zkl_multilock_new(zkl_lock **out, zkl_session *session, const char *const *paths,
                              size_t count, const zkl_lock_options *options, zkl_error *err);

/* The paths in the order given. Live as long as the object. NULL: there are not more than index, or
 * lock is no multi-lock. */
ZKL_API const char *zkl_multilock_path(const zkl_lock *lock, size_t index);
/* As zkl_lock_node, of our znode at that path. */
ZKL_API size_t zkl_multilock_node(const zkl_lock *lock, size_t index, char *name, size_t size);

#ifdef __cplusplus
}
#endif
#endif
