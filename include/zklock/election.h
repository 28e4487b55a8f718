/* zklock/election.h - one leader at a time, and observers that are notified who leads.
 *
 * A candidate is a zkl_lock: it stands in the queue at path, and the first leads. To acquire is to
 * campaign, to release is to resign, to hold is to lead. Its metadata (a host and port, say) is
 * what it publishes: the data of its znode, for observers and for Curator's LeaderLatch, whose
 * format this is. Candidates of both libraries stand in one queue.
 *
 * Errors of an acquire are those of zkl_lock_acquire. ZKL_ECONFLICT: the path is a semaphore's or a
 * partition's, or a part of it is an ephemeral znode; with recover or delay_after_crash_ms, its
 * data is neither empty nor a release mark.
 *
 * Caveat. An observer sees the servers' view: that leader may have lost its lease already. Only the
 * leader itself may act as the leader, and zkl_lock_is_held is the only test for that. A client
 * with the permission CREATE can make an ephemeral znode with a lower number than the leader's.
 * Observers report that one, although zkl_queue_list marks it as forged and no candidate waits for
 * it. */
#ifndef ZKLOCK_ELECTION_H
#define ZKLOCK_ELECTION_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a candidate for the election at path; as zkl_lock_new. With a revoke_fn the request of
 * zkl_queue_revoke, "__REVOKE__", is what observers see as its value until it publishes again or
 * resigns. */
ZKL_API int zkl_election_new(zkl_lock **out, zkl_session *session, const char *path,
                             const zkl_lock_options *options, zkl_error *err);

/* Publishes another value: observers are notified, and later terms begin with it. Only the leader
 * may. Of values that are published at the same time, the one of the last call stays. Waits
 * timeout_ms at most for the server's response; sent again when a lost connection left it
 * unanswered. Errors: ZKL_ENOTHELD (does not lead), ZKL_EINVAL (value, or lock is no election),
 * ZKL_ETIMEOUT (it may yet be published), ZKL_ELOST (lost meanwhile), ZKL_EAUTH, ZKL_ECLOSED,
 * ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_election_publish(zkl_lock *lock, const char *value, int64_t timeout_ms,
                                 zkl_error *err);
/* The same without waiting (zkl_done_fn in zklock/types.h). */
ZKL_API int zkl_election_publish_async(zkl_lock *lock, const char *value, int64_t timeout_ms,
                                       zkl_done_fn done, void *payload, zkl_error *err);

/* Runs lead in this thread whenever this candidate leads: acquires, calls lead, releases that grant
 * when it has returned (as zkl_with_lock does), and acquires again, at the end of the queue; so two
 * terms of ours never overlap. lead is given a flag (zklock/lock.h: zkl_cancel_raised,
 * zkl_cancel_fd) that is raised when less than margin_ms of lease is left (0: a third of the least
 * lease), when leadership is lost, and by zkl_lock_cancel: then it must stop leading and return. It
 * returns 0 to stand again, anything else to end. When lead ended it, its value is in *result (may
 * be NULL; else untouched), and the return is that of the last release: ZKL_OK, or ZKL_ELOST. Else
 * why no acquire can follow: ZKL_ECANCELED, ZKL_ECLOSED, ZKL_EAUTH, ZKL_EDEADLK (an acquire or a
 * run of this object is under way), ZKL_ELIMIT (no descriptor for the flag), ZKL_EINVAL (lock is no
 * election), another result of zkl_lock_acquire, and ZKL_ELOST with ZKL_ON_EXPIRY_FAIL. The lock
 * must not be freed while it runs: cancel it first and let it return. */
ZKL_API int zkl_election_run(zkl_lock *lock, int64_t margin_ms, zkl_section_fn lead, void *payload,
                             int *result, zkl_error *err);

/* What becomes of a candidate that stands. ZKL_STATE_HELD: it leads (again safe, if it was in
 * jeopardy); token is the fencing token of the term. ZKL_STATE_JEOPARDY: it still leads, and no
 * server renews the lease. ZKL_STATE_LOST: it no longer leads, err says why; the next campaign
 * begins when this call has returned, so return only when nothing leads any more. Who cannot wait
 * there calls zkl_election_leave, and stands again after ZKL_STATE_IDLE has returned.
 * ZKL_STATE_IDLE: the last call: it stands no longer. err->code is ZKL_OK after zkl_election_leave,
 * else why no campaign can follow; what it still held is released when the call has returned. Runs
 * as callbacks do (zklock/session.h). */
typedef void (*zkl_election_state_fn)(zkl_lock *lock, zkl_state state, int64_t token,
                                      const zkl_error *err, void *payload);

/* Stands for election until zkl_election_leave, without a thread and without waiting: campaigns,
 * leads, and campaigns again after a loss. With ZKL_CALLBACKS_DISPATCH all of it is in the thread
 * of the event loop. To give way and stand again, at the end of the queue: zkl_lock_release.
 *
 * A campaign that fails for a reason that may pass (zkl_error_class: RETRY or LOST) is repeated,
 * 100 ms later and with backoff up to 5 s. Any other reason ends it, and so do zkl_lock_cancel
 * (while it does not lead), a stop token (ZKL_ECANCELED), zkl_session_close (ZKL_ECLOSED) and
 * zkl_lock_free, which makes the last call before it returns. Only when changed itself calls
 * zkl_lock_free does the last call follow later, as soon as changed has returned. Errors:
 * ZKL_EDEADLK (it stands already, or an acquire or a run of this object is under way), ZKL_EINVAL
 * (lock is no election), ZKL_ECANCELED (a stop token is raised), ZKL_ELIMIT, ZKL_ENOMEM,
 * ZKL_ECLOSED, ZKL_EFORKED: then changed is never called. */
ZKL_API int zkl_election_stand(zkl_lock *lock, zkl_election_state_fn changed, void *payload,
                               zkl_error *err);

/* Stands no longer: withdraws from the queue, or resigns. Does not wait: the last call of changed
 * follows. A leader calls it when it has stopped leading. ZKL_ENOTWAITING: it does not stand.
 * ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED. */
ZKL_API int zkl_election_leave(zkl_lock *lock, zkl_error *err);

/* --- observing the leader without taking part. zkl_queue_list (zklock/queue.h) lists all
 * candidates  */

typedef struct zkl_leader {
    const char *node; /* name of its znode */
    /* what it publishes, NUL-terminated for convenience; may be cut at ZKL_DATA_MAX */
    const char *value;
    size_t value_size;
    int64_t token; /* fencing token of its term */
    int64_t session_id;
    bool readable; /* false: its access list hides the value; and token and session_id, 0 then, from
                      ZooKeeper 3.8.4 and 3.9.2 on */
} zkl_leader;

typedef struct zkl_election_observer zkl_election_observer;

/* leader: NULL when there is no candidate. Runs as callbacks do (zklock/session.h); leader lives
 * until it returns. The first call reports the leader at the start, later calls every change of
 * leader, token or value; of quick changes only the latest is reported. */
typedef void (*zkl_election_changed_fn)(zkl_election_observer *observer, const zkl_leader *leader,
                                        void *payload);

/* Observes the election at path until freed, also over lost connections and sessions: then the last
 * report stands until a server responds again. It polls nothing: it watches the leader's znode, and
 * the list of candidates only while nobody leads or the leader's znode may not be read. *out is
 * NULL on failure. The caller frees it, before or after the session is closed. Errors: as
 * zkl_lock_new. */
ZKL_API int zkl_election_observe(zkl_election_observer **out, zkl_session *session,
                                 const char *path, zkl_election_changed_fn changed, void *payload,
                                 zkl_error *err);
/* Ends it; waits for a running call of changed (not when called from it). None starts afterwards.
 * NULL is fine. */
ZKL_API void zkl_election_observer_free(zkl_election_observer *observer);

#ifdef __cplusplus
}
#endif
#endif
