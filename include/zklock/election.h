/* zklock/election.h - one leader at a time: for the job that must run once, and for those who want to know who runs it.
 *
 * A zkl_election is one candidate. It stands in the queue at path as a contender for a lock does, and whoever stands first leads. What it
 * publishes (a host and port, say) is the data of its znode, for observers and for Curator's LeaderLatch, whose format this is: candidates of
 * both libraries stand in one queue.
 *
 * Guarantees. At most one leader by lease; a leader that knows it has lost before anybody else can lead; a token that rises with every
 * leader; the order of the queue. Threads, callbacks and timeouts are as in zklock/lock.h.
 * Caveat. An observer is told what the servers know: the leader it is told of may have lost its lease already. Only the leader
 * itself may act as the leader, and zkl_election_is_leader is the only test for that. */
#ifndef ZKLOCK_ELECTION_H
#define ZKLOCK_ELECTION_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zkl_election zkl_election;

/* A change of a won election: ZKL_STATE_HELD (leads), _JEOPARDY or _LOST; as zkl_lock_state_fn. */
typedef void (*zkl_election_state_fn)(zkl_election *election, zkl_state state, void *payload);

/* The one completion of an asynchronous campaign. code: as zkl_election_campaign returns; grant: NULL unless ZKL_OK; err: its words. */
typedef void (*zkl_elected_fn)(zkl_election *election, int code, const zkl_grant *grant, const zkl_error *err,
                               void *payload);

typedef struct zkl_election_options {
    size_t size;       /* sizeof(zkl_election_options): set by the _INIT */
    const char *value; /* published while a candidate and as leader; UTF-8, ZKL_DATA_MAX bytes. NULL: "host:pid" */
    int64_t resign_timeout_ms; /* how long resign waits for the server's word; 0: not at all. 1000 */
    const zkl_acl *acl;        /* of our znode and of directories made for it; NULL: the session's */
    zkl_on_expiry on_expiry;   /* of a candidate that waits when its session ends */
    zkl_election_state_fn state_fn;
    void *state_payload;
} zkl_election_options;

#define ZKL_ELECTION_OPTIONS_INIT                                                         \
    {                                                                                     \
        sizeof(zkl_election_options), NULL, 1000, NULL, ZKL_ON_EXPIRY_REQUEUE, NULL, NULL \
    }

/* Makes a candidate for the election at path (an absolute znode path under the session's chroot). Talks to no server. Copies path and
 * options (NULL: defaults). The caller frees it, before or after the session is closed.
 * Errors: ZKL_EINVAL (the text names what is wrong with path or options), ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM, ZKL_ELIMIT. */
ZKL_API int zkl_election_new(zkl_election **out, zkl_session *session, const char *path,
                             const zkl_election_options *options, zkl_error *err);

/* Stands for election and waits until it leads. timeout_ms: as zkl_lock_acquire (0: a try: ZKL_EBUSY if anybody else stands).
 * Errors: ZKL_ETIMEOUT, ZKL_EBUSY, ZKL_ECANCELED, ZKL_ELOST (session lost; see on_expiry), ZKL_EDEADLK (already pending or leading), ZKL_EAUTH,
 * ZKL_ECONFLICT (the path is a semaphore's, or part of it an ephemeral znode), ZKL_EEXHAUSTED, ZKL_ENOENT (the chroot is gone),
 * ZKL_ELIMIT (watches), ZKL_EUNSUPPORTED (the server refused it otherwise), ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_election_campaign(zkl_election *election, int64_t timeout_ms, zkl_grant *grant, zkl_error *err);

/* The same without waiting: exactly one call of done follows if this returns ZKL_OK, and none otherwise. Errors of this call itself:
 * ZKL_EDEADLK, ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM, ZKL_ELIMIT (no thread for callbacks); done gets the others. */
ZKL_API int zkl_election_campaign_async(zkl_election *election, int64_t timeout_ms, zkl_elected_fn done, void *payload,
                                        zkl_error *err);

/* From any thread: the pending campaign ends with ZKL_ECANCELED and leaves no znode; a zkl_election_run has its flag raised, and ends with
 * ZKL_ECANCELED when its function has returned. ZKL_ENOTWAITING when there is neither (nothing is remembered), ZKL_EFORKED. */
ZKL_API int zkl_election_cancel(zkl_election *election);

/* Gives leadership up. ZKL_OK: the lease covered the term up to this call. ZKL_ELOST: it did not. Either way this object is idle again,
 * its znode gone or being removed in the background. ZKL_ENOTHELD: does not lead. */
ZKL_API int zkl_election_resign(zkl_election *election, zkl_error *err);

/* Cancels or resigns, waits for a callback of this election that is running (not when called from it), and frees. No callback of it starts
 * afterwards. Not while zkl_election_run runs: cancel that first and let it return. NULL is fine. */
ZKL_API void zkl_election_free(zkl_election *election);

/* By the lease clock: false from the lease end on, before any message says so. Any thread. */
ZKL_API bool zkl_election_is_leader(const zkl_election *election);
ZKL_API zkl_state zkl_election_state(const zkl_election *election);
/* Lease left, in ms; it grows again with every heartbeat. 0 when it does not lead. */
ZKL_API int64_t zkl_election_remaining_ms(const zkl_election *election);
/* Fencing token of this term; 0 when it does not lead. */
ZKL_API int64_t zkl_election_token(const zkl_election *election);
/* The path it was made with. Lives as long as the election. */
ZKL_API const char *zkl_election_path(const zkl_election *election);
/* Copies the name of our znode (its last component) into name: an empty string when there is none. Returns its length. */
ZKL_API size_t zkl_election_node(const zkl_election *election, char *name, size_t size);

/* Publishes another value: observers are told, and later campaigns begin with it. Only the leader may. Waits timeout_ms at most for the
 * server's word; sent again when a lost connection left it unanswered.
 * Errors: ZKL_ENOTHELD (does not lead), ZKL_EINVAL (value), ZKL_ETIMEOUT (it may yet be published), ZKL_ELOST (lost meanwhile),
 * ZKL_EAUTH, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_election_publish(zkl_election *election, const char *value, int64_t timeout_ms, zkl_error *err);

/* Runs lead in this thread whenever this candidate leads: campaigns, calls lead, resigns when it has returned, and campaigns again, at the
 * end of the queue; so a term of ours never overlaps the last one. lead is given a flag (zklock/lock.h: zkl_cancel_raised,
 * zkl_cancel_fd) that is raised when less than margin_ms of lease is left (0: a third of the least lease), when leadership is
 * lost, and by zkl_election_cancel: then it must stop leading and return. It returns 0 to stand again, anything else to end.
 * When lead ended it, its value is in *result (may be NULL; else untouched), and the return is that of the last resign: ZKL_OK, or ZKL_ELOST.
 * Else why no campaign can follow: ZKL_ECANCELED, ZKL_ECLOSED, ZKL_EAUTH, ZKL_EDEADLK (a campaign or a run of this object is under
 * way), ZKL_ELIMIT (no descriptor for the flag), what else zkl_election_campaign returns, and ZKL_ELOST with ZKL_ON_EXPIRY_FAIL. */
ZKL_API int zkl_election_run(zkl_election *election, int64_t margin_ms, zkl_section_fn lead, void *payload, int *result,
                             zkl_error *err);

/* --- to know who leads, without taking part. The list of all candidates, in order: zkl_queue_list (zklock/queue.h) ----- */

typedef struct zkl_leader {
    const char *node;  /* name of its znode */
    const char *value; /* what it publishes, NUL-terminated for convenience; may be cut at ZKL_DATA_MAX */
    size_t value_size;
    int64_t token; /* fencing token of its term */
    int64_t session_id;
    bool
        readable; /* false: its access list hides the value; and token and session_id, 0 then, from ZooKeeper 3.9.2 on */
} zkl_leader;

typedef struct zkl_election_observer zkl_election_observer;

/* leader: NULL when nobody stands. Runs as callbacks do (zklock/session.h); leader lives until it returns. Told first what is
 * found when the observer begins, then every change of leader, token or value; quick changes are told as the latest one. */
typedef void (*zkl_leader_fn)(zkl_election_observer *observer, const zkl_leader *leader, void *payload);

/* Observes the election at path until freed, also over lost connections and sessions: then what was told last stands until a server is
 * heard again. It polls nothing: it watches the leader's znode, and the list of candidates only while nobody leads or the leader's znode may not be
 * read.
 * The caller frees it, before or after the session is closed. Errors: as zkl_election_new. */
ZKL_API int zkl_election_observe(zkl_election_observer **out, zkl_session *session, const char *path,
                                 zkl_leader_fn told, void *payload, zkl_error *err);
/* Ends it; waits for a running call of told (not when called from it). None starts afterwards. NULL is fine. */
ZKL_API void zkl_election_observer_free(zkl_election_observer *observer);

#ifdef __cplusplus
}
#endif
#endif
