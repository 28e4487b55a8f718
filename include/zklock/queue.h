/* zklock/queue.h - holders and waiters of a path: for operators, probes and tests. All but
 * zkl_queue_remove and zkl_queue_revoke only read.
 *
 * Each call has an asynchronous form (zkl_done_fn in zklock/types.h). No object belongs to it, so
 * only its timeout, the session's stop token and zkl_session_close end it early. */
#ifndef ZKLOCK_QUEUE_H
#define ZKLOCK_QUEUE_H

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whose znode it is, by its name. */
typedef enum zkl_kind {
    ZKL_KIND_FOREIGN, /* does not parse as a contender of anybody's: ignored by the lock */
    ZKL_KIND_LOCK,    /* ours, Curator's InterProcessMutex and LeaderSelector, go-zookeeper's Lock:
                         "lock-" */
    ZKL_KIND_READ,    /* Curator's and our reader: "__READ__" */
    ZKL_KIND_WRITE,   /* Curator's and our writer: "__WRIT__" */
    ZKL_KIND_LATCH,   /* Curator's LeaderLatch, our election: "latch-" */
    ZKL_KIND_LEASE,   /* a semaphore's permit: "lease-" */
    ZKL_KIND_KAZOO,   /* kazoo's Lock and WriteLock: "__lock__" */
    ZKL_KIND_KAZOO_READ /* kazoo's ReadLock: "__rlock__" */
} zkl_kind;

typedef struct zkl_queue_entry {
    const char *name; /* last component of the znode's path; bytes as the server has them */
    zkl_kind kind;
    int32_t sequence;   /* the ten digits */
    int64_t token;      /* czxid */
    int64_t session_id; /* 0: not ephemeral */
    int64_t created_ms; /* ctime by the server's clock, ms since 1970 */
    const char *data;   /* metadata, NUL-terminated for convenience; may be cut at ZKL_DATA_MAX */
    size_t data_size;
    bool readable; /* false: its ACL hides the data; and token, session_id and created_ms, 0 then,
                      from ZooKeeper 3.8.4 and 3.9.2 on */
    bool forged;   /* passed over by contenders: no session owns it, or its number does not fit its
                      age */
    bool holds; /* the first that is not forged; of readers and permits all that hold together. With
                  delay_after_crash_ms, such a one may still wait for its delay. Of a semaphore, the
                  first in its "locks" has a znode in "leases" already, and waits for a permit */
    int64_t reserved[2]; /* zero */
} zkl_queue_entry;

/* A snapshot of a queue, in queue order. */
typedef struct zkl_queue {
    size_t count;
    const zkl_queue_entry *entries;
    size_t foreign;                   /* children that are no contenders */
    int64_t server_ms;                /* newest ctime seen: no clock of ours is in it */
    const char *const *foreign_names; /* so many, in no order: a queue may be below each of them */
} zkl_queue;

/* Lists the contenders at path, in order. A path that does not exist is an empty queue. Free with
 * zkl_queue_free. Waits timeout_ms at most. Errors: ZKL_EINVAL, ZKL_ETIMEOUT, ZKL_EAUTH,
 * ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_queue_list(zkl_queue **out, zkl_session *session, const char *path,
                           int64_t timeout_ms, zkl_error *err);
/* The same without waiting. out is written before done is called with ZKL_OK, and is NULL else.
 * Errors, of the call or in done: as above, ZKL_ECANCELED, ZKL_ELIMIT. */
ZKL_API int zkl_queue_list_async(zkl_queue **out, zkl_session *session, const char *path,
                                 int64_t timeout_ms, zkl_done_fn done, void *payload,
                                 zkl_error *err);
/* NULL is fine. */
ZKL_API void zkl_queue_free(zkl_queue *queue);

/* Removes a contender from the queue at path, a holder or a waiter: for operators, when one is
 * stuck. Deletes exactly the one that was listed: node and token are zkl_queue_entry.name and
 * .token, and a znode of that name with another token stays. token 0 (of an entry that may not be
 * read): the znode of that name, whatever its token. For a semaphore, path is its "leases" or its
 * "locks".
 *
 * This breaks a holder's lock by force, and is the one exception from mutual exclusion
 * (docs/failure-model.md#forced-removal says when the holder notices). The next contender may be
 * granted the lock immediately, so the holder's work is not protected until it notices. Tokens
 * still rise: a resource that refuses older ones is safe. A holder of this library gets the state
 * LOST; a waiter queues again the next time it reads the queue.
 *
 * Needs the permission DELETE on path. Waits timeout_ms at most. From any thread, from a callback
 * too. ZKL_OK: it is deleted.
 * Errors: ZKL_ENOTHELD (it had ended already), ZKL_EINVAL (also when it has children, which no
 * contender's znode has), ZKL_ETIMEOUT (it may yet be deleted), ZKL_EAUTH, ZKL_ECLOSED,
 * ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_queue_remove(zkl_session *session, const char *path, const char *node,
                             int64_t token, int64_t timeout_ms, zkl_error *err);
/* The same without waiting. Errors, of the call or in done: as above, ZKL_ELIMIT, ZKL_ECANCELED (it
 * may yet be deleted). */
ZKL_API int zkl_queue_remove_async(zkl_session *session, const char *path, const char *node,
                                   int64_t token, int64_t timeout_ms, zkl_done_fn done,
                                   void *payload, zkl_error *err);

/* Requests that a holder release: writes Curator's "__REVOKE__" to its znode, and returns without
 * waiting for the holder. The name of a holder of this library says whether it has a revoke_fn. If
 * it has none, as every semaphore, nothing is written, and the call ends with ZKL_EAUTH. A holder
 * of another library ignores the request unless it listens (Curator's makeRevocable). node:
 * zkl_queue_entry.name; NULL: the first that holds. Needs the permission WRITE on that znode. Waits
 * timeout_ms at most. From any thread.
 * Errors: ZKL_ENOTHELD (there is no such contender, or no longer), ZKL_EINVAL,
 * ZKL_ETIMEOUT and ZKL_ECONNECT (the request may have been made), ZKL_EAUTH, ZKL_ECLOSED,
 * ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_queue_revoke(zkl_session *session, const char *path, const char *node,
                             int64_t timeout_ms, zkl_error *err);
/* The same without waiting. Errors, of the call or in done: as above, ZKL_ELIMIT, ZKL_ECANCELED
 * (the request may have been made). */
ZKL_API int zkl_queue_revoke_async(zkl_session *session, const char *path, const char *node,
                                   int64_t timeout_ms, zkl_done_fn done, void *payload,
                                   zkl_error *err);

#ifdef __cplusplus
}
#endif
#endif
