/* zklock/partition.h - named pieces of work, assigned evenly to the members that are alive.
 *
 * Say 100 topics and 10 processes: each makes a zkl_partition at the same path with the same pieces
 * and starts it, and is notified which pieces are assigned to it. When one dies, the others take
 * over its pieces; when one joins, each of the others passes some on. Every member watches the list
 * of members and computes the same assignment from it, without a coordinator. So that two never
 * work on one piece while they see different lists, each piece has a lock of its own
 * (PATH/pieces/NAME), and a piece is assigned when its lock is held.
 *
 * Guarantees. A piece has at most one owner by lease, as a lock has at most one holder; a fencing
 * token with every assignment, rising for each piece; the work on a piece has ended before it is
 * passed on, unless it was lost: `revoked` has returned, or with the option done_later was
 * confirmed; nobody works on more than cap; once things have settled no member has two pieces more
 * than another; a member that joins or leaves moves little more than its own pieces. Caveats. As
 * with a lock: give the token to the resource, and let it refuse older ones. Members with other
 * pieces or another cap compute other assignments: no piece gets two owners then, but some may get
 * none. Rolling out a changed list of pieces ends that by itself. */
#ifndef ZKLOCK_PARTITION_H
#define ZKLOCK_PARTITION_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_PARTITION_PIECES_MAX 4096

typedef struct zkl_partition zkl_partition;

/* The piece is assigned to this member from now on. token: of its lock's grant. piece: its name,
 * lives as long as the partition. Runs as callbacks do (zklock/session.h): begin the work and
 * return; a callback that blocks delays all others, also those that say that a lease has ended. May
 * call anything of this partition. */
typedef void (*zkl_partition_assigned_fn)(zkl_partition *partition, const char *piece,
                                          int64_t token, void *payload);

/* The piece is no longer assigned to this member. lost false: it is still under our lock, and is
 * passed on when this has returned: end the work on it first. With the option done_later the
 * function may return before the work has ended, and the piece is passed on when its user calls
 * zkl_partition_done. lost true: its lease has ended, or the session was closed: others
 * may have it already. Follows each assigned exactly once, but for those that zkl_partition_free
 * leaves out. Runs as callbacks do. */
typedef void (*zkl_partition_revoked_fn)(zkl_partition *partition, const char *piece, bool lost,
                                         void *payload);

/* A change of the lease under which the work on a piece runs, from assigned to the end of that
 * work: ZKL_STATE_JEOPARDY (no server renews it: finish or stop), ZKL_STATE_HELD (renewed again),
 * and ZKL_STATE_LOST for a piece whose work was still ending (for others revoked says so). Runs as
 * callbacks do; of changes that follow each other quickly only the latest is reported. */
typedef void (*zkl_partition_state_fn)(zkl_partition *partition, const char *piece, zkl_state state,
                                       void *payload);

typedef struct zkl_partition_options {
    size_t size; /* sizeof(zkl_partition_options): set by the _INIT */
    size_t cap;  /* a member works on no more pieces than this; the rest waits for more members. 0:
                    no limit */
    zkl_partition_assigned_fn assigned_fn; /* both are needed */
    zkl_partition_revoked_fn revoked_fn;
    void *payload;        /* of all callbacks */
    const char *metadata; /* text on our znodes, shown to operators; UTF-8, ZKL_DATA_MAX bytes.
                             NULL: "host:pid" */
    const zkl_acl *acl;   /* of our znodes and of directories made for them; NULL: the session's */
    bool done_later;      /* revoked is confirmed by zkl_partition_done: see there */
    int64_t margin_ms; /* revoked is called, with lost false, as soon as less than this is left of
                          the lease, so that the work may end before the lease does. Less than
                          zkl_session_least_lease_ms, or than the session timeout while that is
                          unknown; a piece is not assigned with less. 0: revoked is called when the
                          lease has ended */
    zkl_partition_state_fn state_fn; /* NULL: none */
} zkl_partition_options;

#define ZKL_PARTITION_OPTIONS_INIT                                                     \
    {                                                                                  \
        sizeof(zkl_partition_options), 0, NULL, NULL, NULL, NULL, NULL, false, 0, NULL \
    }

/* Makes a member of the partition at path, which has not joined yet (an absolute znode path under
 * the session's chroot). Talks to no server. pieces: count different names, from 1 to
 * ZKL_PARTITION_PIECES_MAX, each one component of a path; their order does not matter. Copies
 * everything. The caller frees it, before or after the session is closed.
 * Errors: ZKL_EINVAL (the text names what is wrong), ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM,
 * ZKL_ELIMIT. */
ZKL_API int zkl_partition_new(zkl_partition **out, zkl_session *session, const char *path,
                              const char *const *pieces, size_t count,
                              const zkl_partition_options *options, zkl_error *err);

/* Joins, and returns without waiting for anything; assigned follows. From now on it takes part
 * until it is stopped: over lost connections, and over the end of its session too: then everything
 * is revoked at the end of the lease, and it joins again by itself. What the servers refuse (no
 * permission, a quota, a limit) is tried again, after 100 ms at first and 5 s in the end, and
 * reported in the session's log: once for each path, as ZKL_LOG_WARN. It lists path/members and
 * the queues of its pieces, never path itself, so it does not notice contenders for a lock there.
 * They and the partition do not disturb each other; from then on an acquire at path is refused
 * (ZKL_ECONFLICT). Started already: nothing happens. Errors: ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED.
 */
ZKL_API int zkl_partition_start(zkl_partition *partition, zkl_error *err);

/* The option done_later: the work on a piece has ended, which revoked has requested. Only now is
 * the piece passed on; until then it stays under our lock, counts for cap, and is not assigned to
 * this member again. So a slow piece delays no callback: neither those of other pieces nor those
 * that say that a lease has ended. Owed once for every revoked, also with lost. From any thread and
 * from any callback, revoked itself included; also when the partition was stopped or the session
 * closed. Returns without waiting for a server. Errors: ZKL_ENOTHELD (nothing is owed for this
 * piece), ZKL_EINVAL (no such piece), ZKL_EFORKED. */
ZKL_API int zkl_partition_done(zkl_partition *partition, const char *piece, zkl_error *err);

/* Leaves: when it returns, revoked has returned for every piece, maybe run inside this call
 * (zklock/session.h: calls that end an object), no callback starts any more but state_fn for
 * a piece that is yet to be confirmed, and the pieces and the membership are released in the
 * background; with done_later a piece is released when it is confirmed, which this does not wait
 * for. May be started again. From a callback of this partition: the piece that it is about follows
 * when it has returned. Stop before zkl_session_close, which takes the locks away first and has
 * revoked called with lost afterwards. Errors: ZKL_EINVAL, ZKL_EFORKED. */
ZKL_API int zkl_partition_stop(zkl_partition *partition, zkl_error *err);
/* The same without waiting for callbacks (zkl_done_fn in zklock/types.h): done is called when
 * revoked has returned for every piece, with done_later when each was confirmed, and no callback of
 * the partition starts any more. From a
 * callback of this partition too. No stop token ends it. In done: ZKL_ECANCELED (it was started
 * again meanwhile, or freed in a callback of its own), ZKL_ECLOSED (revoked may still follow).
 * Errors of the call: ZKL_EINVAL, ZKL_ELIMIT, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM: then it runs
 * on. */
ZKL_API int zkl_partition_stop_async(zkl_partition *partition, zkl_done_fn done, void *payload,
                                     zkl_error *err);

/* Stops, and frees. No callback of it starts afterwards; from a callback of its own: revoked is not
 * called for the piece that this is about. What zkl_partition_done owes is settled by this: end
 * the work first. NULL is fine. */
ZKL_API void zkl_partition_free(zkl_partition *partition);

/* The pieces assigned to this member: from the beginning of assigned to the beginning of revoked,
 * and only while their lease lasts. Writes up to room names (they live as long as the partition) to
 * names, which may be NULL when room is 0. Returns how many there are. */
ZKL_API size_t zkl_partition_owned(const zkl_partition *partition, const char **names, size_t room);
/* True while this piece is assigned to this member, by the lease clock: false from the lease end
 * on, before any message says so. */
ZKL_API bool zkl_partition_owns(const zkl_partition *partition, const char *piece);
/* Lease left, in ms, of the work on a piece, which lasts longer: from the beginning of assigned
 * until revoked has returned, or with done_later until it is confirmed. It grows again with every
 * heartbeat. 0: the lease has ended, or this member does not work on the piece. Any thread.
 * zkl_partition_commit is in zklock/zookeeper.h. */
ZKL_API int64_t zkl_partition_remaining_ms(const zkl_partition *partition, const char *piece);

#ifdef __cplusplus
}
#endif
#endif
