/* zklock/testing.h - rehearse loss: what a service's own unit tests do to a session of the
 * in-process store ("memory:NAME").
 *
 * No server is needed, and a lease is as short as the session's options make it: with a session
 * timeout of 300 ms, a tick of 20 ms and a leader's pause of 10 ms a lock is lost a quarter of a
 * second after the cut. examples/testing.c is a unit test of a service.
 *
 * Another holder is another session of the same name: open it, make a lock at the same path,
 * acquire it. A waiter does not see a difference to a holder in another process, or to one of
 * Curator's. An operator who deletes a contender by hand is zkl_queue_remove (zklock/queue.h).
 *
 * All functions: any thread, also from callbacks. They return immediately; their effects are
 * reported as always, by callbacks and by waits that end. Errors, with a text in err (may be NULL):
 * ZKL_EINVAL (session is NULL; it is no session of memory:; it is not in the state that the
 * function needs), ZKL_ENOMEM (nothing happened), ZKL_EFORKED.
 *
 * Not part of <zklock/zklock.h>: a program that ships has no use for it. */
#ifndef ZKLOCK_TESTING_H
#define ZKLOCK_TESTING_H

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The connection is lost now. Requests without a response get none, new ones wait, locks that are
 * held are in jeopardy, and lost at their lease's end. Nothing reconnects until zkl_testing_heal.
 * ZKL_EINVAL: it is cut already, or not connected yet. */
ZKL_API int zkl_testing_cut(zkl_session *session, zkl_error *err);

/* The connection is back. If the session was ended meanwhile (zkl_testing_expire), that is reported
 * now. ZKL_EINVAL: it was not cut. */
ZKL_API int zkl_testing_heal(zkl_session *session, zkl_error *err);

/* The servers end the session: its znodes are deleted, and the next contenders are granted. A
 * connected session is notified immediately and opens its next one; a session that is cut learns of
 * it at zkl_testing_heal only, as from real servers. Like these, it does not end a session that is
 * cut while the lease of anything that it holds lasts (ZKL_EINVAL): wait until zkl_lock_is_held is
 * false. */
ZKL_API int zkl_testing_expire(zkl_session *session, zkl_error *err);

/* on: requests are carried out, and no response and no event arrives, until it is called with false
 * (or the connection is cut). This is a server that hangs, or a network that is slow: leases run
 * out under it as under a cut. */
ZKL_API int zkl_testing_delay(zkl_session *session, bool on, zkl_error *err);

/* The next count writes of the session are refused with this code: ZKL_EAUTH (an access list),
 * ZKL_ELIMIT (a quota) or ZKL_EUNSUPPORTED (a local session). A count of 0 cancels the rest. Reads
 * are not refused. ZKL_EINVAL: another code. */
ZKL_API int zkl_testing_refuse(zkl_session *session, int code, size_t count, zkl_error *err);

/* The next write is carried out, its reply is lost, and the connection with it. So the client does
 * not know whether its znode is there (an acquire), is deleted (a release), or whether its
 * transaction was applied (zkl_lock_commit). Goes on at zkl_testing_heal. */
ZKL_API int zkl_testing_lose_reply(zkl_session *session, zkl_error *err);

#ifdef __cplusplus
}
#endif

#endif
