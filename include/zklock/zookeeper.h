/* zklock/zookeeper.h - writes to other znodes under the protection of a lock. Not part of
 * zklock/zklock.h: include it where needed.
 *
 * A lease shows a holder when to stop; it cannot stop a write that is on its way. A guarded
 * transaction can: it is carried out by the servers only while the holder's znode is still there,
 * so never after anybody else was granted the lock. No raw handle is given out: it would die with
 * the session while its user still has it. */
#ifndef ZKLOCK_ZOOKEEPER_H
#define ZKLOCK_ZOOKEEPER_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_COMMIT_MAX 100            /* operations of one transaction */
#define ZKL_COMMIT_DATA_MAX 500000    /* bytes of data of all of them together */
#define ZKL_ANY_VERSION ((int32_t)-1) /* as a version: whatever it is */

typedef enum zkl_op_kind {
    ZKL_OP_CREATE, /* path, data, size, mode, acl */
    ZKL_OP_SET,    /* path, data, size, version. Not the znode of a lock */
    ZKL_OP_DELETE, /* path, version */
    ZKL_OP_CHECK   /* path, version */
} zkl_op_kind;

typedef enum zkl_create_mode {
    ZKL_CREATE_PERSISTENT,
    ZKL_CREATE_EPHEMERAL, /* ends with the session that the lock belongs to */
    ZKL_CREATE_PERSISTENT_SEQUENTIAL,
    ZKL_CREATE_EPHEMERAL_SEQUENTIAL
} zkl_create_mode;

/* One operation. What its kind does not use is ignored; start from zeroes, and set version. */
typedef struct zkl_op {
    zkl_op_kind kind;
    const char *path; /* absolute, under the session's chroot. A sequential create gives the part
                         before the digits */
    const void *data; /* NULL with size 0: empty */
    size_t size;
    int32_t version;
    zkl_create_mode mode;
    const zkl_acl *acl; /* NULL: the session's */
} zkl_op;

/* What became of one. */
typedef struct zkl_op_result {
    int code; /* ZKL_OK; the reason, if it was this one that failed; ZKL_ECANCELED: another one did
               */
    int zk_code;                 /* ZooKeeper's own code, 0 when there is none */
    int32_t version;             /* of the znode after a set */
    char path[ZKL_PATH_MAX + 1]; /* of the znode made by a create */
} zkl_op_result;

/* Carries out count operations in one transaction, all or none, if every znode of the hold still
 * stands when the servers come to it; count 0: only this check. For every recipe.
 * results: count of them, written when the servers respond; may be NULL. From any thread, from a
 * callback too. Waits timeout_ms at most (ZKL_WAIT_FOREVER: no limit of its own), and never beyond
 * the lease as known at the call. ZKL_OK: done. ZKL_ELOST: not done, the lock was lost.
 * ZKL_ENOTHELD: not done, it was not held. ZKL_ENOENT (no such znode, or no parent), ZKL_ECONFLICT
 * (another version, exists already, has children), ZKL_EAUTH, ZKL_EUNSUPPORTED: not done, an
 * operation failed; the text says which, results too. ZKL_EINVAL, ZKL_ELIMIT (too much for one
 * request, or more than ZKL_COMMIT_MAX permits are held), ZKL_ENOMEM, ZKL_ECLOSED, ZKL_EFORKED: not
 * done. ZKL_ETIMEOUT: no response came within timeout_ms: it may be done or not. ZKL_ECANCELED
 * (a stop token, the lock's free) and ZKL_ECLOSED (closed meanwhile): the text says whether it may
 * be done. ZKL_ECONNECT: not
 * done for lack of a connection; or no response came, and it may be done or not. The text says
 * which. Read what it would have changed. It will not be done any more once somebody else has
 * been granted the lock. */
ZKL_API int zkl_lock_commit(zkl_lock *lock, const zkl_op *ops, size_t count, int64_t timeout_ms,
                            zkl_op_result *results, zkl_error *err);

/* The same without waiting (zkl_done_fn in zklock/types.h). ops and all they point to are copied;
 * results is the caller's memory until done is called. */
ZKL_API int zkl_lock_commit_async(zkl_lock *lock, const zkl_op *ops, size_t count,
                                  int64_t timeout_ms, zkl_op_result *results, zkl_done_fn done,
                                  void *payload, zkl_error *err);

/* What a znode holds. */
typedef struct zkl_data {
    const void *data; /* NUL-terminated for convenience */
    size_t size;
    int32_t version; /* for the set, the delete or the check of a transaction */
    int64_t mzxid;   /* of the transaction that wrote it last */
} zkl_data;

/* Reads the znode at path (absolute, under the session's chroot) under the lock. It sees every
 * guarded transaction of earlier holders, and whatever they had written before they released.
 * fresh: it also sees what others, who hold no lock, had written before the call (a sync precedes
 * the read; one round trip more). For every recipe. From any thread, from a callback too. Waits
 * timeout_ms at most, and never beyond the lease as known at the call. Free with zkl_data_free.
 * *out is NULL on failure. Errors: ZKL_ENOENT (no such znode), ZKL_ENOTHELD, ZKL_ELOST (the lock
 * was lost by the time of the response: what was read may be old), ZKL_EAUTH, ZKL_ETIMEOUT,
 * ZKL_ECONNECT (the lease's end came first), ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_lock_read(zkl_data **out, zkl_lock *lock, const char *path, bool fresh,
                          int64_t timeout_ms, zkl_error *err);
/* The same without waiting (zkl_done_fn in zklock/types.h). *out is written before done is called.
 */
ZKL_API int zkl_lock_read_async(zkl_data **out, zkl_lock *lock, const char *path, bool fresh,
                                int64_t timeout_ms, zkl_done_fn done, void *payload,
                                zkl_error *err);
/* NULL is fine. */
ZKL_API void zkl_data_free(zkl_data *data);

#ifdef __cplusplus
}
#endif
#endif
