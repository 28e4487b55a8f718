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
 * token with every assignment, rising for each piece; `revoked` has returned before a piece is
 * passed on, unless it was lost; nobody owns more than cap; once things have settled no member has
 * two pieces more than another; a member that joins or leaves moves little more than its own
 * pieces. Caveats. As with a lock: give the token to the resource, and let it refuse older ones.
 * Members with other pieces or another cap compute other assignments: no piece gets two owners
 * then, but some may get none. Rolling out a changed list of pieces ends that by itself. */
#ifndef ZKLOCK_PARTITION_H
#define ZKLOCK_PARTITION_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_PARTITION_PIECES_MAX 4096

typedef struct zkl_partition zkl_partition;

/* A piece is ours from now on. token: of its lock's grant. piece: its name, lives as long as the
 * partition. Runs as callbacks do (zklock/session.h): begin the work and return; a callback that
 * blocks delays all others, also those that say that a lease has ended. May call anything of this
 * partition. */
typedef void (*zkl_assigned_fn)(zkl_partition *partition, const char *piece, int64_t token,
                                void *payload);

/* A piece is not ours any more. lost false: it is still under our lock, and is passed on when this
 * has returned: end the work on it first. lost true: its lease has ended, or the session was
 * closed: others may have it already. Follows each assigned exactly once, but for those that
 * zkl_partition_free leaves out. Runs as callbacks do. */
typedef void (*zkl_revoked_fn)(zkl_partition *partition, const char *piece, bool lost,
                               void *payload);

typedef struct zkl_partition_options {
    size_t size; /* sizeof(zkl_partition_options): set by the _INIT */
    size_t cap;  /* a member owns no more pieces than this; the rest waits for more members. 0: no
                    limit */
    zkl_assigned_fn assigned_fn; /* both are needed */
    zkl_revoked_fn revoked_fn;
    void *payload;        /* of both */
    const char *metadata; /* text on our znodes, shown to operators; UTF-8, ZKL_DATA_MAX bytes.
                             NULL: "host:pid" */
    const zkl_acl *acl;   /* of our znodes and of directories made for them; NULL: the session's */
} zkl_partition_options;

#define ZKL_PARTITION_OPTIONS_INIT                                     \
    {                                                                  \
        sizeof(zkl_partition_options), 0, NULL, NULL, NULL, NULL, NULL \
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

/* Leaves: when it returns, revoked has returned for every piece, maybe run inside this call
 * (zklock/session.h: calls that end an object), no callback starts any more, and the pieces and the
 * membership are released in the background. May be started again. From a callback of this
 * partition: the piece that it is about follows when it has returned. Stop before
 * zkl_session_close, which takes the locks away first and has revoked called with lost afterwards.
 * Errors: ZKL_EINVAL, ZKL_EFORKED. */
ZKL_API int zkl_partition_stop(zkl_partition *partition, zkl_error *err);

/* Stops, and frees. No callback of it starts afterwards; from a callback of its own: revoked is not
 * called for the piece that this is about. NULL is fine. */
ZKL_API void zkl_partition_free(zkl_partition *partition);

/* The pieces that are ours: from the beginning of assigned to the beginning of revoked, and only
 * while the lease lasts. Writes up to room names (they live as long as the partition) to names,
 * which may be NULL when room is 0. Returns how many are ours. */
ZKL_API size_t zkl_partition_owned(const zkl_partition *partition, const char **names, size_t room);
/* Is this one? By the lease clock: false from the lease end on, before any message says so. */
ZKL_API bool zkl_partition_owns(const zkl_partition *partition, const char *piece);
/* Fencing token under which it is ours; 0 when it is not. */
ZKL_API int64_t zkl_partition_token(const zkl_partition *partition, const char *piece);
/* The path it was made with. Lives as long as the partition. */
ZKL_API const char *zkl_partition_path(const zkl_partition *partition);

#ifdef __cplusplus
}
#endif
#endif
