/* zklock/rwlock.h - the read/write lock: many readers or one writer, in the order of the queue.
 *
 * A reader waits for the nearest writer before it and for nothing else; a writer waits for
 * everybody before it. A reader behind a waiting writer waits, too, so that writers do not starve.
 * A plain lock (zkl_lock_new) at the same path counts as a writer. The znodes are those of
 * Curator's InterProcessReadWriteLock ("__READ__", "__WRIT__"), so readers and writers of Curator
 * and of this library exclude each other. Curator's plain InterProcessMutex does not see readers.
 *
 * Wake-ups. A writer's end wakes the readers that it kept waiting, each once, or the writer behind
 * it. A writer behind readers watches the last of them and looks again when that one ends.
 *
 * A contender that reads and writes at different times has two objects, a read lock and a write
 * lock. A holder of the one that acquires the other at the same path waits for itself: it releases
 * first, or downgrades.
 *
 * Errors of an acquire are those of zkl_lock_acquire. ZKL_ECONFLICT: the path is a semaphore's or a
 * partition's, or a part of it is an ephemeral znode. */
#ifndef ZKLOCK_RWLOCK_H
#define ZKLOCK_RWLOCK_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a reader, or a writer, for the read/write lock at path; as zkl_lock_new. Not with the
 * option recover. */
ZKL_API int zkl_read_lock_new(zkl_lock **out, zkl_session *session, const char *path,
                              const zkl_lock_options *options, zkl_error *err);
ZKL_API int zkl_write_lock_new(zkl_lock **out, zkl_session *session, const char *path,
                               const zkl_lock_options *options, zkl_error *err);

/* A writer becomes a reader without letting any writer in between: one transaction replaces its
 * znode with a reader's of the same number, so position and token stay. Readers that wait behind it
 * are granted when this returns ZKL_OK, up to the next writer. Downgraded already: ZKL_OK. After
 * its release the object queues as a writer again. Waits for the server's response for
 * release_timeout_ms at most. ZKL_ETIMEOUT: it has not come yet; the lock is still held, counts as
 * a read lock from now on, and the replacement goes on by itself. ZKL_ELOST: lost, or lost
 * meanwhile; release it. ZKL_ECONFLICT: somebody else's znode has the name that the reader's would
 * get; the lock is still held as a write lock. ZKL_EINVAL: lock is no write lock, or has a
 * revoke_fn, because requests would be lost with the znode. ZKL_ENOTHELD, ZKL_EDEADLK (acquired
 * several times: release all but one first), ZKL_ECLOSED, ZKL_EFORKED. */
ZKL_API int zkl_write_lock_downgrade(zkl_lock *lock, zkl_error *err);

#ifdef __cplusplus
}
#endif
#endif
