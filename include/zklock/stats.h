/* zklock/stats.h - what a session has done, and how long its contenders waited and held: counters
 * for graphs and alarms.
 *
 * Everything is counted since the session was opened, also across expiries, and costs a few
 * additions per step: there is no switch. docs/operations.md#monitoring says which of them deserve
 * an alert. */
#ifndef ZKLOCK_STATS_H
#define ZKLOCK_STATS_H

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_HISTOGRAM_BUCKETS 26
#define ZKL_STATS_PATHS_MAX \
    64 /* paths that are counted by themselves; those that come later are counted together */

/* Durations. Bucket i counts those of at most 128 << i microseconds (128 us, 256 us, ... 36 min)
 * that are in no bucket before it, the last one all that are longer. */
typedef struct zkl_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t buckets[ZKL_HISTOGRAM_BUCKETS];
} zkl_histogram;

/* X(field, type, name, help): the one table; the structs and Prometheus's text are made from it.
 * "seconds": the field has microseconds. */
#define ZKL_CONTENDER_STATS(X)                                                                 \
    X(waits, "counter", "waits_total", "Acquires begun.")                                      \
    X(grants, "counter", "grants_total", "Acquires that ended with a grant.")                  \
    X(timeouts, "counter", "wait_timeouts_total", "Acquires that ended by their deadline.")    \
    X(busy, "counter", "wait_busy_total", "Tries that found a contender before them.")         \
    X(cancels, "counter", "wait_cancels_total",                                                \
      "Acquires that were cancelled, or whose session was closed.")                            \
    X(failures, "counter", "wait_failures_total", "Acquires that ended by any other error.")   \
    X(requeues, "counter", "requeues_total",                                                   \
      "Times that a waiter had to go to the tail again: expiry, or its znode was deleted.")    \
    X(releases, "counter", "releases_total", "Holds that were protected up to their release.") \
    X(losses, "counter", "losses_total", "Holds whose protection ended before their release.") \
    X(wait_us, "seconds", "waited_seconds_total",                                              \
      "Time from acquire to grant, of all grants together.")                                   \
    X(hold_us, "seconds", "held_seconds_total",                                                \
      "Time from grant to release or loss, of all ended holds together.")                      \
    X(waiting, "gauge", "waiting", "Acquires that wait now.")                                  \
    X(held, "gauge", "held", "Grants that are held now.")                                      \
    X(removing, "gauge", "removing",                                                           \
      "Contenders that have ended and whose znodes may still be there.")
#define ZKL_SESSION_STATS(X)                                                                       \
    X(sessions, "counter", "sessions_total",                                                       \
      "Sessions that the servers gave us, one after the other.")                                   \
    X(expiries, "counter", "session_expiries_total",                                               \
      "Sessions that the servers ended, credentials refused included.")                            \
    X(suspensions, "counter", "suspensions_total", "Connections lost.")                            \
    X(reconnects, "counter", "reconnects_total", "Connections made again within a session.")       \
    X(requests, "counter", "requests_total", "Requests sent to the servers, heartbeats included.") \
    X(heartbeats, "counter", "heartbeats_total", "Heartbeats sent for holders.")                   \
    X(unanswered, "counter", "requests_unanswered_total",                                          \
      "Requests whose connection was lost before the response came.")                              \
    X(watches, "counter", "watch_events_total", "Watch events received.")

#define ZKL__STATS_FIELD(field, type, name, help) uint64_t field;
/* A contender is one znode in one queue. An acquire of a lock or an election is one; a multi-lock
 * is one for each of its paths; an acquire of n permits of a semaphore is one at PATH/locks and n
 * at PATH/leases. At any time waits == grants + timeouts + busy + cancels + failures + waiting,
 * grants == releases + losses + held. */
typedef struct zkl_contender_stats {
    ZKL_CONTENDER_STATS(ZKL__STATS_FIELD)
    uint64_t reserved[4]; /* zero */
} zkl_contender_stats;

typedef struct zkl_stats {
    size_t size; /* sizeof(zkl_stats): set by the _INIT, and left so */
    zkl_contender_stats contenders;
    zkl_histogram wait;    /* from the call to the grant */
    zkl_histogram hold;    /* from the grant to the release or loss */
    zkl_histogram request; /* from a request to its response */
    zkl_histogram slack;   /* what was left of a holder's lease, at each renewal and each end */
    int64_t lease_slack_min_us; /* least that was left of a holder's lease when it was renewed; 0:
                                   one ran out; -1: none was renewed */
    ZKL_SESSION_STATS(ZKL__STATS_FIELD) /* last: a later release has more of them */
} zkl_stats;
#undef ZKL__STATS_FIELD

/* All fields, one by one: clean as C and as C++, whatever the compiler warns of. */
/* clang-format off */
#define ZKL_STATS_INIT \
    {sizeof(zkl_stats), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}}, {0, 0, {0}}, \
     {0, 0, {0}}, {0, 0, {0}}, {0, 0, {0}}, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/* What has been counted up to now. stats: the caller's, from ZKL_STATS_INIT; written only on
 * success. Any thread, also from callbacks; of a closed session too, as long as its memory lasts
 * (zkl_session_close). What an earlier library than the program's does not count is 0. Errors:
 * ZKL_EINVAL (size is no zkl_stats'), ZKL_EFORKED. */
ZKL_API int zkl_session_stats(zkl_session *session, zkl_stats *stats);

/* Calls visit for each path that had a contender, with the session locked: copy and return. The
 * first ZKL_STATS_PATHS_MAX paths are reported by themselves, then all others together, with path
 * NULL. Returns how many were visited, or ZKL_EINVAL, ZKL_EFORKED. */
typedef void (*zkl_session_path_stats_fn)(const char *path, const zkl_contender_stats *stats,
                                          void *payload);
ZKL_API int zkl_session_path_stats(zkl_session *session, zkl_session_path_stats_fn visit,
                                   void *payload);

/* The same as text in the format of Prometheus (version 0.0.4), for an exporter of the program's
 * own or for a file that the node exporter collects. Names begin with zklock_; those with a label
 * path are bounded by ZKL_STATS_PATHS_MAX ("other" are the rest). name: a label session="name" on
 * everything, for programs with several sessions; NULL: none. Returns the length of the text
 * without its NUL, as snprintf does: when it is not less than size, out has a part of it, and the
 * call has to be made again with a larger buffer. size 0: out may be NULL. Or ZKL_EINVAL,
 * ZKL_EFORKED. */
ZKL_API int64_t zkl_stats_write_prometheus(zkl_session *session, const char *name, char *out,
                                           size_t size);

#ifdef __cplusplus
}
#endif
#endif
