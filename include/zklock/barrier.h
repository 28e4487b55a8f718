/* zklock/barrier.h - a barrier that many wait for, and a double barrier that many enter and leave
 * together.
 *
 * The znodes are those of Curator's DistributedBarrier and DistributedDoubleBarrier: both kinds of
 * client may use one path. Every call blocks, for its timeout at most, and may be made from any
 * thread. The forms that end in _async do not block (zkl_done_fn in zklock/types.h).
 *
 * A stop token (zklock/stop.h) ends set, wait and enter. It does not end lift and leave, which
 * others wait for: a program that has to stop can still let them go on. */
#ifndef ZKLOCK_BARRIER_H
#define ZKLOCK_BARRIER_H

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The barrier is up while the znode at path exists. It belongs to no session, so it outlives the
 * process that set it. */

/* Puts the barrier up; ZKL_OK also when it was up already. In a session without credentials and
 * without an access list nobody may create below it, since a znode with a child cannot be deleted.
 * The servers delete a lock's directory, and one above other znodes of recipes, when it is empty.
 * Set makes such an empty directory anew as a barrier. Errors: ZKL_EINVAL, ZKL_ETIMEOUT, ZKL_EAUTH
 * (also when a znode is there that may not be read), ZKL_ECONFLICT (somebody queues there for a
 * lock or an election; or the znode is ephemeral, or has children, or had some and has data),
 * ZKL_ENOENT (chroot), ZKL_ELIMIT (a quota, watches, no thread for callbacks), ZKL_EUNSUPPORTED (by
 * the server), ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_barrier_set(zkl_session *session, const char *path, int64_t timeout_ms,
                            zkl_error *err);
ZKL_API int zkl_barrier_set_async(zkl_session *session, const char *path, int64_t timeout_ms,
                                  zkl_done_fn done, void *payload, zkl_error *err);
/* Deletes it: all waiters go on. ZKL_OK also when it was not there. One call deletes one barrier:
 * if it is put up again before the server's response is known, the new one stays. No stop token
 * ends it. Errors as above. */
ZKL_API int zkl_barrier_lift(zkl_session *session, const char *path, int64_t timeout_ms,
                             zkl_error *err);
ZKL_API int zkl_barrier_lift_async(zkl_session *session, const char *path, int64_t timeout_ms,
                                   zkl_done_fn done, void *payload, zkl_error *err);
/* Waits until it is down. ZKL_OK: it was down at some time after the call. ZKL_ETIMEOUT: it was up
 * all the time. ZKL_ECANCELED: a stop token. Errors as above. */
ZKL_API int zkl_barrier_wait(zkl_session *session, const char *path, int64_t timeout_ms,
                             zkl_error *err);
ZKL_API int zkl_barrier_wait_async(zkl_session *session, const char *path, int64_t timeout_ms,
                                   zkl_done_fn done, void *payload, zkl_error *err);

/* One member of a double barrier. Members are the children of path that a session owns; other
 * children do not count. The last ones to leave delete path, as a server deletes an empty
 * container: an access list that is to stay belongs to the directory above. */
typedef struct zkl_double_barrier zkl_double_barrier;

/* Members that begin together are `count` at path; each makes an object of its own. Each of them
 * looks at all others, so n members send about 2 n * n requests in all. Talks to no server. Copies
 * path; the caller frees it. Errors: ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_double_barrier_new(zkl_double_barrier **out, zkl_session *session, const char *path,
                                   size_t count, zkl_error *err);
/* Waits until count members have entered; from then on all of them are in, even if one leaves
 * immediately. ZKL_ETIMEOUT: too few came in time; we have left again, and our znode is deleted or
 * being deleted. ZKL_ELOST: our lease ended while we waited. ZKL_EDEADLK: entered already.
 * ZKL_ECONFLICT: somebody queues there for a read/write lock, an election or a semaphore (a mutex's
 * contenders look as members do, and are not distinguished from them). Others: ZKL_EAUTH,
 * ZKL_ECANCELED (freed meanwhile, or a stop token; we have left again), ZKL_EINVAL, ZKL_ECLOSED,
 * ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_double_barrier_enter(zkl_double_barrier *barrier, int64_t timeout_ms,
                                     zkl_error *err);
ZKL_API int zkl_double_barrier_enter_async(zkl_double_barrier *barrier, int64_t timeout_ms,
                                           zkl_done_fn done, void *payload, zkl_error *err);
/* Leaves, and waits until every member has left that was in when it was called, not for those that
 * enter again meanwhile; a member that crashed has left when its session ends. ZKL_ETIMEOUT: some
 * are still in; we have left. ZKL_ENOTHELD: not entered. Others:
 * ZKL_EAUTH, ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM: we have left in any case. No stop
 * token ends it. */
ZKL_API int zkl_double_barrier_leave(zkl_double_barrier *barrier, int64_t timeout_ms,
                                     zkl_error *err);
ZKL_API int zkl_double_barrier_leave_async(zkl_double_barrier *barrier, int64_t timeout_ms,
                                           zkl_done_fn done, void *payload, zkl_error *err);
/* Leaves without waiting, if entered. When no member has finished a leave, path and its child
 * "ready" stay, and the next members use them. An enter or a leave that is under way ends with
 * ZKL_ECANCELED; its done is called before this returns. NULL is fine. */
ZKL_API void zkl_double_barrier_free(zkl_double_barrier *barrier);

#ifdef __cplusplus
}
#endif
#endif
