/* commit.c - the guarded transaction: a check of each znode of the hold and the user's operations,
 * all or none. */
#include "guarded.h"
#include "lock_internal.h"

#include "acl.h"
#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"

#include <zklock/zookeeper.h>

#include <string.h>

struct commit {
    struct zkl__guarded guarded; /* first */
    struct zkl__single single;
    size_t count; /* of the user's operations */
    zkl_op_result *results;
    struct zkl__op op;     /* the transaction: */
    struct zkl__op *parts; /* checks of the hold's znodes, the user's; then those names */
    struct zkl__op *copy;  /* asynchronous: of op, for the caller's memory may go */
    size_t checks;
    /* the answer: */
    bool answered;
    enum zkl__rc rc;
    bool lost;     /* it was a check that failed */
    size_t failed; /* index of the user's that did; count: none, or nobody knows */
    int zk_code;
};

/* --- what is asked for ----------------------------------------------------------------------- */

static int check_op(const zkl_op *op, size_t index, zkl_error *err)
{
    if (op->reserved[0] != 0 || op->reserved[1] != 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                         "operation %zu: reserved is not zero: start from ZKL_OP_INIT", index);
    }
    int rc = zkl__range_check("kind", (int64_t)op->kind, ZKL_OP_CREATE, ZKL_OP_CHECK, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    bool create = op->kind == ZKL_OP_CREATE, data = create || op->kind == ZKL_OP_SET;
    if (create) {
        rc = zkl__range_check("mode", (int64_t)op->mode, ZKL_CREATE_PERSISTENT,
                              ZKL_CREATE_EPHEMERAL_SEQUENTIAL, err);
        rc = rc == ZKL_OK ? zkl__acl_check(op->acl, err) : rc;
    }
    if (rc != ZKL_OK) {
        return rc;
    }
    bool sequential = create && op->mode >= ZKL_CREATE_PERSISTENT_SEQUENTIAL;
    if (!op->path || strlen(op->path) > ZKL_PATH_MAX || !zkl__path_form(op->path, sequential)) {
        return zkl__fail(err, ZKL_EINVAL, 0, op->path, "operation %zu: not an absolute znode path",
                         index);
    }
    const char *slash = strrchr(op->path, '/');
    if (op->kind == ZKL_OP_SET && zkl__name_sealed(slash + 1)) {
        return zkl__fail(err, ZKL_EINVAL, 0, op->path,
                         "operation %zu: it is the znode of a lock, which nobody writes", index);
    }
    if (data && op->size > 0 && !op->data) {
        return zkl__fail(err, ZKL_EINVAL, 0, op->path, "operation %zu: data is NULL, size is %zu",
                         index, op->size);
    }
    return ZKL_OK;
}

static int check_ops(const zkl_op *ops, size_t count, zkl_error *err)
{
    size_t bytes = 0;
    if (count > 0 && !ops) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "ops is NULL");
    }
    if (count > ZKL_COMMIT_MAX) {
        return zkl__fail(err, ZKL_ELIMIT, 0, NULL, "%zu operations are more than %d", count,
                         ZKL_COMMIT_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        int rc = check_op(&ops[i], i, err);
        if (rc != ZKL_OK) {
            return rc;
        }
        if (ops[i].kind == ZKL_OP_CREATE || ops[i].kind == ZKL_OP_SET) {
            bytes = ops[i].size <= ZKL_COMMIT_DATA_MAX ? bytes + ops[i].size : SIZE_MAX;
        }
        if (bytes > ZKL_COMMIT_DATA_MAX) {
            return zkl__fail(err, ZKL_ELIMIT, 0, NULL, "more than %d bytes of data",
                             ZKL_COMMIT_DATA_MAX);
        }
    }
    return ZKL_OK;
}

static struct zkl__op part_of(const zkl_op *op)
{
    static const enum zkl__op_kind kinds[] = {ZKL__OP_CREATE, ZKL__OP_SET, ZKL__OP_DELETE,
                                              ZKL__OP_CHECK};
    static const enum zkl__create_mode modes[] = {
        ZKL__PERSISTENT, ZKL__EPHEMERAL, ZKL__PERSISTENT_SEQUENTIAL, ZKL__EPHEMERAL_SEQUENTIAL};
    struct zkl__op part = {.kind = kinds[op->kind], .dir = op->path, .version = op->version};
    if (op->kind == ZKL_OP_CREATE) {
        part.mode = modes[op->mode];
        part.acl = op->acl;
    }
    if (op->kind == ZKL_OP_CREATE || op->kind == ZKL_OP_SET) {
        part.data = op->data;
        part.size = op->size;
    }
    return part;
}

/* --- the answer ------------------------------------------------------------------------------ */

/* dir of the path, and the name that the server made of the rest. */
static void put_created(zkl_op_result *result, const struct zkl__op *op, const char *name)
{
    size_t dir = (size_t)(strrchr(op->dir, '/') - op->dir) + 1;
    size_t length = strlen(name);
    if (dir + length < sizeof result->path) {
        memcpy(result->path, op->dir, dir);
        memcpy(result->path + dir, name, length + 1);
    }
}

static void put_result(zkl_op_result *result, const struct zkl__op *op,
                       const struct zkl__reply *part, bool done)
{
    *result = (zkl_op_result){.code = ZKL_ECANCELED};
    if (done) {
        result->code = ZKL_OK;
        result->version = op->kind == ZKL__OP_SET ? part->stat.version : 0;
        if (op->kind == ZKL__OP_CREATE) {
            put_created(result, op, part->name);
        }
    } else if (part->rc != ZKL__RC_OK && part->rc != ZKL__RC_ROLLEDBACK) {
        result->code = zkl__rc_code(part->rc);
        result->zk_code = part->zk_code;
    }
}

static void look(void *arg, const struct zkl__reply *reply)
{
    struct commit *commit = arg;
    commit->answered = true;
    commit->rc = reply->rc;
    commit->zk_code = reply->zk_code;
    if (reply->part_count != commit->checks + commit->count) {
        return; /* the transaction as a whole was refused */
    }
    for (size_t i = 0; i < commit->checks; i++) {
        commit->lost = commit->lost || reply->parts[i].rc == ZKL__RC_NONODE;
    }
    for (size_t i = 0; i < commit->count; i++) {
        const struct zkl__reply *part = &reply->parts[commit->checks + i];
        if (part->rc != ZKL__RC_OK && part->rc != ZKL__RC_ROLLEDBACK &&
            commit->failed == commit->count) {
            commit->failed = i;
            commit->rc = part->rc;
            commit->zk_code = part->zk_code;
        }
        if (commit->results) {
            put_result(&commit->results[i], &commit->op.parts[commit->checks + i], part,
                       reply->rc == ZKL__RC_OK);
        }
    }
}

static int judge(const struct commit *commit, zkl_error *err)
{
    const char *path = zkl_lock_path(commit->guarded.lock);
    if (commit->rc == ZKL__RC_OK) {
        return ZKL_OK;
    }
    if (commit->lost) {
        return zkl__fail(err, ZKL_ELOST, commit->zk_code, path,
                         "not done: a znode of the hold is deleted, the lock was lost");
    }
    if (commit->rc == ZKL__RC_NOTAPPLIED) {
        return zkl__fail(err, ZKL_ECONNECT, commit->zk_code, path,
                         "not done: the servers ask to try again");
    }
    if (commit->failed < commit->count) {
        return zkl__fail(err, zkl__rc_code(commit->rc), commit->zk_code,
                         commit->op.parts[commit->checks + commit->failed].dir,
                         "not done: operation %zu: %s", commit->failed, zkl__rc_name(commit->rc));
    }
    return zkl__fail(err, zkl__rc_code(commit->rc), commit->zk_code, path, "not done: %s",
                     zkl__rc_name(commit->rc));
}

/* --- the call -------------------------------------------------------------------------------- */

/* Inside. The names are copied: the hold may end while the call waits. */
static int make_parts(struct commit *commit, const zkl_op *ops, zkl_error *err)
{
    const zkl_heap *heap = zkl__session_heap(commit->guarded.lock->session);
    const char *path = zkl_lock_path(commit->guarded.lock);
    struct zkl__held_node nodes[ZKL_COMMIT_MAX];
    commit->checks = zkl__lock_nodes(commit->guarded.lock, nodes, ZKL_COMMIT_MAX);
    if (commit->checks > ZKL_COMMIT_MAX) {
        return zkl__fail(err, ZKL_ELIMIT, 0, path,
                         "not done: the hold has %zu znodes, more than %d", commit->checks,
                         ZKL_COMMIT_MAX);
    }
    size_t parts = (commit->checks + commit->count) * sizeof *commit->parts;
    commit->parts = zkl__alloc(heap, parts + commit->checks * ZKL__NAME_MAX);
    if (!commit->parts) {
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "not done: no memory");
    }
    char *name = (char *)commit->parts + parts;
    for (size_t i = 0; i < commit->checks; i++, name += ZKL__NAME_MAX) {
        zkl__name_copy(name, nodes[i].name);
        commit->parts[i] = (struct zkl__op){
            .kind = ZKL__OP_CHECK, .dir = nodes[i].dir, .name = name, .version = ZKL_ANY_VERSION};
    }
    for (size_t i = 0; i < commit->count; i++) {
        commit->parts[commit->checks + i] = part_of(&ops[i]);
    }
    return ZKL_OK;
}

static int check_held(zkl_lock *lock, const struct zkl__standing *now, zkl_error *err)
{
    if (now->state == ZKL_STATE_IDLE || now->state == ZKL_STATE_WAITING) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, lock->path, "not done: the lock is not held");
    }
    if (now->state == ZKL_STATE_LOST) {
        return zkl__fail(err, ZKL_ELOST, 0, lock->path, "not done: the lock was lost");
    }
    return zkl__core_connected(zkl__session_core(lock->session))
               ? ZKL_OK
               : zkl__fail(err, ZKL_ECONNECT, 0, lock->path, "not done: no connection");
}

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct commit *commit = (struct commit *)procedure;
    int rc = zkl__run_advance(&commit->single.run, err);
    return rc == ZKL_OK ? judge(commit, err) : rc;
}

/* No answer: what became of it is not known, unless it was never sent. */
static int explain(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err)
{
    struct commit *commit = (struct commit *)procedure;
    bool sent = zkl__run_end(&commit->single.run);
    if (commit->answered) {
        if (err) {
            *err = *why;
        }
        return rc;
    }
    return zkl__fail(err, zkl__guarded_code(&commit->guarded, rc), 0,
                     zkl_lock_path(commit->guarded.lock), "%s: %s",
                     sent ? "it may be done, or not" : "not done", why->text);
}

static void end(struct zkl__procedure *procedure)
{
    struct commit *commit = (struct commit *)procedure;
    const zkl_heap *heap = zkl__session_heap(procedure->session);
    zkl__run_end(&commit->single.run);
    zkl__free(heap, commit->copy);
    zkl__free(heap, commit->parts);
    zkl__lock_unref(commit->guarded.lock);
}

static const struct zkl__procedure_ops commit_ops = {advance, explain, end};

/* Inside. Takes a reference to the lock in any case. */
static int prepare(struct commit *commit, zkl_lock *lock, const zkl_op *ops, size_t count,
                   int64_t timeout_ms, zkl_error *err)
{
    struct zkl__standing held = zkl__guarded_begin(&commit->guarded, lock, &commit_ops, timeout_ms);
    commit->count = commit->failed = count;
    int rc = check_held(lock, &held, err);
    rc = rc == ZKL_OK ? make_parts(commit, ops, err) : rc;
    commit->op = (struct zkl__op){
        .kind = ZKL__OP_MULTI, .parts = commit->parts, .part_count = commit->checks + count};
    return rc;
}

/* Inside. */
static int begin(zkl_lock *lock, const zkl_op *ops, size_t count, int64_t timeout_ms,
                 zkl_op_result *results, const struct zkl__later *later, zkl_error *err)
{
    struct commit *commit = zkl__procedure_new(lock->session, sizeof *commit);
    if (!commit) {
        return zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "not done: no memory");
    }
    commit->results = results;
    int rc = prepare(commit, lock, ops, count, timeout_ms, err);
    if (rc == ZKL_OK && later) {
        commit->copy = zkl__op_copy(zkl__session_heap(lock->session), &commit->op);
        rc = commit->copy ? ZKL_OK
                          : zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "not done: no memory");
    }
    if (rc != ZKL_OK) {
        return zkl__procedure_drop(&commit->guarded.procedure, rc);
    }
    commit->op = commit->copy ? *commit->copy : commit->op;
    zkl__single_begin(&commit->single, &commit->guarded.procedure, ZKL__ONCE, &commit->op, look,
                      commit);
    return zkl__procedure_go(&commit->guarded.procedure, later, err);
}

static int commit_under(zkl_lock *lock, const zkl_op *ops, size_t count, int64_t timeout_ms,
                        zkl_op_result *results, const struct zkl__later *later, zkl_error *err)
{
    int rc = check_ops(ops, count, err);
    rc = rc == ZKL_OK ? zkl__lock_enter(lock, timeout_ms, err) : rc;
    if (rc == ZKL_OK) {
        zkl_session *session = lock->session;
        rc = begin(lock, ops, count, timeout_ms, results, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_lock_commit(zkl_lock *lock, const zkl_op *ops, size_t count, int64_t timeout_ms,
                    zkl_op_result *results, zkl_error *err)
{
    return commit_under(lock, ops, count, timeout_ms, results, NULL, err);
}

int zkl_lock_commit_async(zkl_lock *lock, const zkl_op *ops, size_t count, int64_t timeout_ms,
                          zkl_op_result *results, zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return commit_under(lock, ops, count, timeout_ms, results, &later, err);
}
