/* zklock/queue.h - who holds and who waits: for operators, probes and tests. All but zkl_queue_remove and
 * zkl_queue_revoke only read. */
#ifndef ZKLOCK_QUEUE_H
#define ZKLOCK_QUEUE_H

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whose znode it is, by its name. */
typedef enum zkl_kind {
    ZKL_KIND_FOREIGN,   /* does not parse as a contender of anybody's: ignored by the lock */
    ZKL_KIND_LOCK,      /* ours, Curator's InterProcessMutex and LeaderSelector, go-zookeeper's Lock: "lock-" */
    ZKL_KIND_READ,      /* Curator's and our reader: "__READ__" */
    ZKL_KIND_WRITE,     /* Curator's and our writer: "__WRIT__" */
    ZKL_KIND_LATCH,     /* Curator's LeaderLatch, our election: "latch-" */
    ZKL_KIND_LEASE,     /* a semaphore's permit: "lease-" */
    ZKL_KIND_KAZOO,     /* kazoo's Lock and WriteLock: "__lock__" */
    ZKL_KIND_KAZOO_READ /* kazoo's ReadLock: "__rlock__" */
} zkl_kind;
/* "foreign", "lock", "read", "write", "latch", "lease", "kazoo", "kazoo-read". Static. */
ZKL_API const char *zkl_kind_name(zkl_kind kind);

typedef struct zkl_queue_entry {
    const char *name; /* last component of the znode's path; bytes as the server has them */
    zkl_kind kind;
    int32_t sequence;   /* the ten digits */
    int64_t token;      /* czxid */
    int64_t session_id; /* 0: not ephemeral */
    int64_t created_ms; /* ctime by the server's clock, ms since 1970 */
    const char *data;   /* metadata, NUL-terminated for convenience; may be cut at ZKL_DATA_MAX */
    size_t data_size;
    bool readable; /* false: its ACL hides data and the fields that need a read */
    bool
        forged; /* nobody's place, contenders go past it: it lives with no session, or its number is not that of its age */
    bool holds; /* the first that is not forged; of readers, and of a semaphore's permits, all that hold together */
} zkl_queue_entry;

/* A snapshot of a queue, in queue order. Foreign children are counted, not listed. */
typedef struct zkl_queue {
    size_t count;
    const zkl_queue_entry *entries;
    size_t foreign;
    int64_t server_ms; /* newest ctime seen: no clock of ours is in it */
} zkl_queue;

/* Lists the contenders at path, in order. A path that does not exist is an empty queue. Free with zkl_queue_free.
 * Waits timeout_ms at most. Errors: ZKL_EINVAL, ZKL_ETIMEOUT, ZKL_EAUTH, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_queue_list(zkl_queue **out, zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err);
ZKL_API void zkl_queue_free(zkl_queue *queue);

typedef struct zkl_paths {
    size_t count;
    const char *const *paths; /* sorted */
    size_t refused_count;
    const char *const
        *refused; /* sorted; directories whose children may not be listed: what is below them is not known */
} zkl_paths;

/* Finds the paths at and below prefix at which somebody waits or holds. Free with zkl_paths_free. Waits timeout_ms at most. Errors as
 * above; ZKL_EAUTH: prefix itself may not be listed. */
ZKL_API int zkl_queue_find(zkl_paths **out, zkl_session *session, const char *prefix, int64_t timeout_ms,
                           zkl_error *err);
ZKL_API void zkl_paths_free(zkl_paths *paths);

/* Removes a contender from the queue at path, whether it holds or waits: the operator's way to get rid of one that is stuck. Exactly the
 * one that was listed: node and token are zkl_queue_entry.name and .token, and a znode of that name with another token stays.
 * token 0 (of an entry that may not be read): whatever has the name. For a semaphore, path is its "leases" or its "locks".
 *
 * This breaks a holder's lock by force, and is the one exception from mutual exclusion: the next one may be granted at once, while the
 * removed holder learns of it within one heartbeat only (a twelfth of the session timeout; docs/lease.md says for how many locks of a
 * session; Curator and kazoo do not look at all), and what it does meanwhile is not protected. Tokens still rise: a resource
 * that refuses older ones is safe. A holder of this library is told LOST; a waiter queues again the next time it looks at the queue.
 *
 * Needs the permission DELETE on path. Waits timeout_ms at most. From any thread, from a callback too. ZKL_OK: it is gone.
 * Errors: ZKL_ENOTHELD (it was gone already), ZKL_EINVAL, ZKL_ETIMEOUT (it may yet go), ZKL_EAUTH, ZKL_ECLOSED, ZKL_EFORKED,
 * ZKL_ENOMEM. */
ZKL_API int zkl_queue_remove(zkl_session *session, const char *path, const char *node, int64_t token,
                             int64_t timeout_ms, zkl_error *err);

/* Asks a holder to give way: writes Curator's "__REVOKE__" on its znode, and returns without waiting for
 * what the holder does. A holder without revoke_fn (or without Curator's makeRevocable) does not hear
 * it; one of ours usually lets nobody else write its znode then (ZKL_EAUTH). node:
 * zkl_queue_entry.name; NULL: the first of the queue. Needs the permission WRITE on that znode. Waits
 * timeout_ms at most. From any thread.
 * Errors: ZKL_ENOTHELD (nobody is there, or not any more), ZKL_EINVAL, ZKL_ETIMEOUT, ZKL_ECONNECT (the
 * connection was lost: the request may have been made), ZKL_EAUTH, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_queue_revoke(zkl_session *session, const char *path, const char *node, int64_t timeout_ms,
                             zkl_error *err);

#ifdef __cplusplus
}
#endif
#endif
