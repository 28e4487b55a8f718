/* zklock/multilock.h - several locks, all or none.
 *
 * One transaction queues at every path, so any two multi-locks stand in the same order in every
 * queue that both use. They cannot deadlock with each other, in whatever order their paths are
 * named, and no caller has to sort names. There is no partial grant: a multi-lock holds nothing
 * until it is first at every path. Single locks (zkl_lock_new, Curator, go-zookeeper) at the same
 * paths queue with it. All znodes come from one transaction, so one token is valid for every path.
 *
 * Caveats. Only the paths of one multi-lock are safe from deadlock. A process that holds a lock at
 * path a and acquires a lock at path b can wait for ever, if a multi-lock of a and b has queued
 * between the two. While a multi-lock waits at one path it keeps its positions at the others, and
 * the contenders behind it wait. If somebody deletes one of its znodes, the whole multi-lock ends:
 * with ZKL_ELOST while it waits, with the state LOST while it is held. A release deletes all znodes
 * in one transaction, or one by one where the transaction fails. */
#ifndef ZKLOCK_MULTILOCK_H
#define ZKLOCK_MULTILOCK_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_MULTILOCK_MAX \
    100 /* paths: what fits into one request of a megabyte with room to spare */

/* Makes a contender for the locks at count paths, in the same way as zkl_lock_new. Copies paths.
 * Not with the option recover. Errors as of zkl_lock_new, and: ZKL_EINVAL (a path is wrong, or
 * given twice; the text names it), ZKL_ELIMIT (more than ZKL_MULTILOCK_MAX). */
ZKL_API int zkl_multilock_new(zkl_lock **out, zkl_session *session, const char *const *paths,
                              size_t count, const zkl_lock_options *options, zkl_error *err);

/* The path number index (from 0), in the order given to zkl_multilock_new. Lives as long as the
 * object. NULL: there is no path of that number, or lock is no multi-lock. */
ZKL_API const char *zkl_multilock_path(const zkl_lock *lock, size_t index);

#ifdef __cplusplus
}
#endif
#endif
