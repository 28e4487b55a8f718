/* zklock/zookeeper.h - writes to other znodes under the protection of a lock. Not part of
 * zklock/zklock.h: include it where needed.
 *
 * A lease shows a holder when to stop, but cannot stop a write that is already on its way. A
 * guarded transaction is safe: the servers carry it out only while the holder's znode exists, so
 * never after anybody else was granted the lock. The library gives out no raw ZooKeeper handle,
 * because the handle would end with the session while its user still has it. */
#ifndef ZKLOCK_ZOOKEEPER_H
#define ZKLOCK_ZOOKEEPER_H

#include <zklock/lock.h>
#include <zklock/partition.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_COMMIT_MAX 100            /* operations of one transaction */
#define ZKL_COMMIT_DATA_MAX 500000    /* bytes of data of all of them together */
#define ZKL_ANY_VERSION ((int32_t)-1) /* as a version: whatever it is */

typedef enum zkl_op_kind {
    ZKL_OP_CREATE, /* path, data, size, mode, acl */
    ZKL_OP_SET,    /* path, data, size, version */
    ZKL_OP_DELETE, /* path, version */
    ZKL_OP_CHECK   /* path, version */
} zkl_op_kind;

typedef enum zkl_create_mode {
    ZKL_CREATE_PERSISTENT,
    ZKL_CREATE_EPHEMERAL, /* ends with the session that the lock belongs to */
    ZKL_CREATE_PERSISTENT_SEQUENTIAL,
    ZKL_CREATE_EPHEMERAL_SEQUENTIAL
} zkl_create_mode;

/* One operation. What its kind does not use is ignored. It starts from ZKL_OP_INIT; a struct of
 * zeros means version 0. */
typedef struct zkl_op {
    zkl_op_kind kind;
    const char *path; /* absolute, under the session's chroot. A sequential create gives the part
                         before the ten digits, which count in ZKL_PATH_MAX */
    const void *data; /* NULL with size 0: empty */
    size_t size;
    int32_t version;
    zkl_create_mode mode;
    const zkl_acl *acl;  /* NULL: the session's */
    int64_t reserved[2]; /* zero */
} zkl_op;

#define ZKL_OP_INIT                                                                 \
    {                                                                               \
        ZKL_OP_CREATE, NULL, NULL, 0, ZKL_ANY_VERSION, ZKL_CREATE_PERSISTENT, NULL, \
        {                                                                           \
            0, 0                                                                    \
        }                                                                           \
    }

/* The result of one operation. */
typedef struct zkl_op_result {
    int code; /* ZKL_OK; the error, if this operation failed; ZKL_ECANCELED: another one failed */
    int zk_code;                 /* ZooKeeper's own code, 0 when there is none */
    int32_t version;             /* of the znode after a set */
    char path[ZKL_PATH_MAX + 1]; /* of the znode made by a create */
    int64_t reserved[2];         /* zero */
} zkl_op_result;

/* Carries out count operations in one transaction, all or none, if every znode of the hold still
 * exists when the servers process it. With count 0 it only makes this check. For every recipe.
 * results has count members, written when the servers respond; it may be NULL. May be called from
 * any thread, also from a callback. Waits timeout_ms at most (ZKL_WAIT_FOREVER: no limit of its
 * own), and never beyond the lease as known at the call.
 *
 * Returns ZKL_OK: done. ZKL_ELOST: not done, the lock was lost; or, if it is held still, a
 * downgrade that had returned ZKL_ETIMEOUT has replaced the znode meanwhile: again. ZKL_ENOTHELD:
 * not done, the lock was not held. ZKL_ENOENT (no such znode, or no parent), ZKL_ECONFLICT (another
 * version, exists already, has children), ZKL_EAUTH, ZKL_EUNSUPPORTED: not done, because an
 * operation failed; the text and results say which. ZKL_EINVAL, ZKL_ELIMIT (too much for one
 * request, or more than ZKL_COMMIT_MAX permits are held), ZKL_ENOMEM, ZKL_EFORKED: not done.
 * ZKL_ETIMEOUT (no response within timeout_ms), ZKL_ECONNECT (no connection, or no response),
 * ZKL_ECANCELED (a stop token, or the lock was freed), ZKL_ECLOSED (the session was closed): the
 * text begins with "not done" if the transaction was never sent, else with "it may be done, or
 * not". In that case read the znodes that it would have changed. It is not carried out any more
 * once somebody else has been granted the lock. */
ZKL_API int zkl_lock_commit(zkl_lock *lock, const zkl_op *ops, size_t count, int64_t timeout_ms,
                            zkl_op_result *results, zkl_error *err);

/* The same without waiting (zkl_done_fn in zklock/types.h). ops and all they point to are copied;
 * results is the caller's memory until done is called. */
ZKL_API int zkl_lock_commit_async(zkl_lock *lock, const zkl_op *ops, size_t count,
                                  int64_t timeout_ms, zkl_op_result *results, zkl_done_fn done,
                                  void *payload, zkl_error *err);

/* The same under the lock of a partition's piece (zklock/partition.h), while this member works on
 * it. ZKL_ENOTHELD: it does not; ZKL_EINVAL: no such piece. zkl_partition_free ends the second with
 * ZKL_ECANCELED. */
ZKL_API int zkl_partition_commit(zkl_partition *partition, const char *piece, const zkl_op *ops,
                                 size_t count, int64_t timeout_ms, zkl_op_result *results,
                                 zkl_error *err);
ZKL_API int zkl_partition_commit_async(zkl_partition *partition, const char *piece,
                                       const zkl_op *ops, size_t count, int64_t timeout_ms,
                                       zkl_op_result *results, zkl_done_fn done, void *payload,
                                       zkl_error *err);

/* The data of a znode. */
typedef struct zkl_data {
    const void *data; /* NUL-terminated for convenience */
    size_t size;
    int32_t version; /* for the set, the delete or the check of a transaction */
    int64_t mzxid;   /* of the transaction that wrote it last */
} zkl_data;

/* Reads the znode at path (absolute, under the session's chroot) under the lock. The read includes
 * every guarded transaction of earlier holders, and all that they wrote before they released. With
 * fresh it also includes all that clients without the lock wrote before the call: a sync precedes
 * the read, which costs one round trip more. For every recipe. May be called from any thread, also
 * from a callback. Waits timeout_ms at most, and never beyond the lease as known at the call. Free
 * with zkl_data_free. *out is NULL on failure. Errors: ZKL_ENOENT (no such znode), ZKL_ENOTHELD,
 * ZKL_ELOST (the lock was lost before the response came, so the data may be old), ZKL_EAUTH,
 * ZKL_ETIMEOUT, ZKL_ECONNECT (the lease ended before timeout_ms), ZKL_EINVAL, ZKL_ECLOSED,
 * ZKL_EFORKED, ZKL_ENOMEM. */
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
