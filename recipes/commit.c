/* commit.c - what only the holder may do with znodes: the guarded transaction, which is a check of
 * each znode of the hold and the user's operations, all or none; and a read. */
#include "handle.h"
#include "name.h"

#include <zklock/zookeeper.h>

#include <string.h>

struct commit {
    struct zkl__call call; /* first */
    const zkl_op *ops;     /* the user's memory, until the call has begun */
    size_t count;
    zkl_op_result *results;
    /* The call's block is the transaction: checks of the hold's znodes, then the user's operations.
     */
    size_t checks;
    /* From the reply: */
    bool lost;     /* a check failed */
    size_t failed; /* which operation of the user failed; count: none, or it is unknown */
};

/* --- the reply ------------------------------------------------------------------------------- */

/* In a step. The call's answer becomes the one of the operation that failed. */
static void take_results(struct zkl__call *call, const struct zkl__reply *reply)
{
    struct commit *commit = (struct commit *)call;
    const struct zkl__op *transaction = call->block, *ops = transaction->parts + commit->checks;
    if (reply->part_count != commit->checks + commit->count) {
        return; /* the transaction as a whole was refused */
    }
    for (size_t i = 0; i < commit->checks; i++) {
        commit->lost |= reply->parts[i].rc == ZKL__RC_NONODE;
    }
    for (size_t i = 0; i < commit->count; i++) {
        const struct zkl__reply *part = &reply->parts[commit->checks + i];
        bool failed = part->rc != ZKL__RC_OK && part->rc != ZKL__RC_ROLLEDBACK;
        if (failed && commit->failed == commit->count) {
            commit->failed = i;
            call->answer.rc = part->rc;
            call->answer.zk_code = part->zk_code;
        }
        if (!commit->results) {
            continue;
        }
        zkl_op_result *result = &commit->results[i];
        *result = (zkl_op_result){.code = failed ? zkl__rc_code(part->rc) : ZKL_ECANCELED,
                                  .zk_code = failed ? part->zk_code : 0};
        if (reply->rc != ZKL__RC_OK) {
            continue;
        }
        result->code = ZKL_OK;
        result->version = ops[i].kind == ZKL__OP_SET ? part->stat.version : 0;
        if (ops[i].kind == ZKL__OP_CREATE) { /* the directory, and the name that the server gave */
            size_t dir = (size_t)(strrchr(ops[i].dir, '/') - ops[i].dir) + 1;
            size_t length = strlen(part->name);
            if (dir + length < sizeof result->path) {
                memcpy(result->path, ops[i].dir, dir);
                memcpy(result->path + dir, part->name, length + 1);
            }
        }
    }
}

/* --- the call -------------------------------------------------------------------------------- */

/* A transaction that is sent twice could be carried out twice, so it is sent once. When its reply
 * is lost, the error says that it may be done, or not. */
static int run_commit(struct zkl__call *call)
{
    const struct commit *commit = (const struct commit *)call;
    const struct zkl__answer *answer = &call->answer;
    const struct zkl__op *transaction = call->block;
    CALL_BEGIN(call);
    call->doubt = "it may be done, or not: ";
    call->unsent = "not done: ";
    AWAIT_ONCE(call, take_results, *transaction);
    if (answer->rc == ZKL__RC_OK) {
        return ZKL_OK;
    }
    if (commit->lost) {
        FAIL_REPLY(call, ZKL_ELOST, "a znode of the hold is deleted, the lock was lost");
    }
    if (commit->failed < commit->count) {
        return zkl__fail(call->err, zkl__rc_code(answer->rc), answer->zk_code,
                         transaction->parts[commit->checks + commit->failed].dir,
                         "operation %zu: %s", commit->failed, zkl__rc_name(answer->rc));
    }
    if (answer->rc == ZKL__RC_NOTAPPLIED) {
        FAIL_REPLY(call, ZKL_ECONNECT, "the servers ask to try again");
    }
    REFUSED(call, "the transaction");
    CALL_END(call);
}

/* Only the holder may make the call, so it ends with the lease, too. At the end of the lease the
 * result is ZKL_ECONNECT, because the servers gave no reply in time. */
static int begin_held(struct zkl__call *call, struct zkl__lock_status *held, const char *before)
{
    int rc = zkl__lock_check_held((zkl_lock *)call->owner, held, before, call->err);
    if (rc == ZKL_OK && held->until <= call->deadline) {
        call->deadline = held->until;
        call->late_code = ZKL_ECONNECT;
    }
    return rc;
}

/* Copies everything: while the call waits, the hold may end, and the user may free its memory. */
static int begin_commit(struct zkl__call *call)
{
    static const enum zkl__op_kind kinds[] = {ZKL__OP_CREATE, ZKL__OP_SET, ZKL__OP_DELETE,
                                              ZKL__OP_CHECK};
    struct commit *commit = (struct commit *)call;
    const zkl_heap *heap = &call->session->heap;
    struct zkl__lock_status held;
    struct zkl__held_node nodes[ZKL_COMMIT_MAX];
    zkl_lock *lock = (zkl_lock *)call->owner;
    int rc = begin_held(call, &held, "not done: ");
    if (rc != ZKL_OK) {
        return rc;
    }
    if (!zkl__core_facts(call->session->core).connected) {
        FAIL(call, ZKL_ECONNECT, "not done: no connection");
    }
    commit->checks = zkl__lock_nodes(lock, nodes, ZKL_COMMIT_MAX);
    if (commit->checks > ZKL_COMMIT_MAX) {
        FAIL(call, ZKL_ELIMIT, "not done: the hold has %zu znodes, more than %d", commit->checks,
             ZKL_COMMIT_MAX);
    }
    size_t count = commit->checks + commit->count;
    struct zkl__op *parts = zkl__alloc(heap, count * sizeof *parts);
    for (size_t i = 0; parts && i < count; i++) {
        if (i < commit->checks) {
            parts[i] = (struct zkl__op){.kind = ZKL__OP_CHECK,
                                        .dir = nodes[i].dir,
                                        .name = nodes[i].name,
                                        .version = ZKL_ANY_VERSION};
            continue;
        }
        const zkl_op *op = &commit->ops[i - commit->checks];
        parts[i] =
            (struct zkl__op){.kind = kinds[op->kind], .dir = op->path, .version = op->version};
        if (op->kind == ZKL_OP_CREATE) {
            parts[i].mode = (enum zkl__create_mode)op->mode; /* numbered alike */
            parts[i].acl = op->acl;
        }
        if (op->kind == ZKL_OP_CREATE || op->kind == ZKL_OP_SET) {
            parts[i].data = op->data;
            parts[i].size = op->size;
        }
    }
    const struct zkl__op transaction = {.kind = ZKL__OP_MULTI, .parts = parts, .part_count = count};
    call->block = parts ? zkl__op_copy(heap, &transaction) : NULL;
    zkl__free(heap, parts);
    if (!call->block) {
        FAIL(call, ZKL_ENOMEM, "not done: no memory");
    }
    return ZKL_OK;
}

int zkl_lock_commit_async(zkl_lock *lock, const zkl_op *ops, size_t count, int64_t timeout_ms,
                          zkl_op_result *results, zkl_done_fn done, void *payload, zkl_error *err)
{
    struct commit given = {
        .call = {.run = run_commit, .begin = begin_commit, .owner = (struct zkl__object *)lock},
        .ops = ops,
        .count = count,
        .results = results,
        .failed = count};
    size_t bytes = 0;
    if (count > 0 && !ops) {
        return zkl__fail_null(err, "ops");
    }
    if (count > ZKL_COMMIT_MAX) {
        return zkl__fail_at(err, ZKL_ELIMIT, NULL, "%zu operations are more than %d", count,
                            ZKL_COMMIT_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        const zkl_op *op = &ops[i];
        if (op->reserved[0] != 0 || op->reserved[1] != 0) {
            return zkl__fail_at(err, ZKL_EINVAL, NULL,
                                "operation %zu: reserved is not zero: start from ZKL_OP_INIT", i);
        }
        int rc = zkl__range_check("kind", (int64_t)op->kind, ZKL_OP_CREATE, ZKL_OP_CHECK, err);
        bool create = op->kind == ZKL_OP_CREATE;
        if (rc == ZKL_OK && create) {
            rc = zkl__range_check("mode", (int64_t)op->mode, ZKL_CREATE_PERSISTENT,
                                  ZKL_CREATE_EPHEMERAL_SEQUENTIAL, err);
            rc = rc == ZKL_OK ? zkl__acl_check(op->acl, err) : rc;
        }
        if (rc != ZKL_OK) {
            return rc;
        }
        bool sequential = create && op->mode >= ZKL_CREATE_PERSISTENT_SEQUENTIAL;
        size_t most = ZKL_PATH_MAX - (sequential ? 10 : 0); /* the servers add ten digits */
        if (!op->path || strlen(op->path) > most || !zkl__path_form(op->path, sequential)) {
            return zkl__fail_at(err, ZKL_EINVAL, op->path,
                                "operation %zu: not an absolute znode path", i);
        }
        size_t size = create || op->kind == ZKL_OP_SET ? op->size : 0;
        if (size > 0 && !op->data) {
            return zkl__fail_at(err, ZKL_EINVAL, op->path,
                                "operation %zu: data is NULL, size is %zu", i, size);
        }
        bytes = size <= ZKL_COMMIT_DATA_MAX ? bytes + size : SIZE_MAX;
        if (bytes > ZKL_COMMIT_DATA_MAX) {
            return zkl__fail_at(err, ZKL_ELIMIT, NULL, "more than %d bytes of data",
                                ZKL_COMMIT_DATA_MAX);
        }
    }
    if (!lock) {
        return zkl__fail_null(err, "lock");
    }
    return zkl__call_go(&given, sizeof given, lock->session, lock->path, timeout_ms, done, payload,
                        err);
}

int zkl_lock_commit(zkl_lock *lock, const zkl_op *ops, size_t count, int64_t timeout_ms,
                    zkl_op_result *results, zkl_error *err)
{
    return zkl_lock_commit_async(lock, ops, count, timeout_ms, results, zkl__caller_waits, NULL,
                                 err);
}

/* === reading under a grant ==================================================================== */

/* A read carries no check of our znode, because a transaction cannot read data. It needs none: the
 * server that has shown us our grant replies, and it had applied by then what earlier holders wrote
 * (ZooKeeper Programmer's Guide, Consistency Guarantees: single system image, and updates in
 * order). The lease says afterwards whether another holder may have written in between. */

/* The caller gets a pointer to the first member. */
struct data {
    zkl_data public;
    zkl_heap heap;
    char bytes[]; /* NUL-terminated */
};

struct reading {
    struct zkl__call call; /* first */
    zkl_grant grant;       /* that it began under */
    bool fresh;
    zkl_data **out; /* what was read is the call's block until then */
};

void zkl_data_free(zkl_data *data)
{
    if (data) {
        zkl_heap heap = ((struct data *)data)->heap;
        zkl__free(&heap, data);
    }
}

/* In a step. */
static void take_data(struct zkl__call *call, const struct zkl__reply *reply)
{
    const zkl_heap *heap = &call->session->heap;
    if (reply->rc != ZKL__RC_OK) {
        return;
    }
    struct data *data = call->block = zkl__zalloc(heap, sizeof *data + reply->size + 1);
    if (!data) {
        return;
    }
    data->heap = *heap;
    data->public = (zkl_data){.data = data->bytes,
                              .size = reply->size,
                              .version = reply->stat.version,
                              .mzxid = reply->stat.mzxid};
    if (reply->size > 0) {
        memcpy(data->bytes, reply->data, reply->size);
    }
}

/* Requests that change nothing: when a reply is lost, the request is sent again. */
static int run_read(struct zkl__call *call)
{
    struct reading *reading = (struct reading *)call;
    CALL_BEGIN(call);
    if (reading->fresh) {
        AWAIT(call, {.kind = ZKL__OP_SYNC});
    }
    if (call->answer.rc == ZKL__RC_OK) { /* of the sync, if there was one */
        AWAIT_REPLY(call, take_data, {.kind = ZKL__OP_GET});
    }
    const struct zkl__lock_status now = zkl__lock_status_locked((zkl_lock *)call->owner);
    if (!zkl__is_held_under(&now, &reading->grant)) {
        FAIL(call, ZKL_ELOST, "the lock was lost or released before the response came");
    }
    if (call->answer.rc != ZKL__RC_OK) {
        REFUSED(call, "read");
    }
    if (!call->block) {
        FAIL(call, ZKL_ENOMEM, "no memory for the data");
    }
    *reading->out = call->block;
    call->block = NULL;
    CALL_END(call);
}

static int begin_read(struct zkl__call *call)
{
    struct reading *reading = (struct reading *)call;
    struct zkl__lock_status held;
    int rc = begin_held(call, &held, "not read: ");
    reading->grant.token = held.token;
    reading->grant.serial = held.serial;
    return rc;
}

int zkl_lock_read_async(zkl_data **out, zkl_lock *lock, const char *path, bool fresh,
                        int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    struct reading given = {
        .call = {.run = run_read, .begin = begin_read, .owner = (struct zkl__object *)lock},
        .fresh = fresh,
        .out = out};
    ZKL__CLEAR(out);
    if (!lock || !out) {
        return zkl__fail_null(err, lock ? "out" : "lock");
    }
    if (!path || strlen(path) > ZKL_PATH_MAX || !zkl__path_form(path, false)) {
        return zkl__fail_at(err, ZKL_EINVAL, path, "not an absolute znode path");
    }
    return zkl__call_go(&given, sizeof given, lock->session, path, timeout_ms, done, payload, err);
}

int zkl_lock_read(zkl_data **out, zkl_lock *lock, const char *path, bool fresh, int64_t timeout_ms,
                  zkl_error *err)
{
    return zkl_lock_read_async(out, lock, path, fresh, timeout_ms, zkl__caller_waits, NULL, err);
}
