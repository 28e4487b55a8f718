/* commit.c - the guarded transaction: a check of our own znode and the user's operations, all or none. */
#include "call.h"
#include "place.h"

#include "acl.h"
#include "error.h"
#include "name.h"
#include "path.h"

#include <zklock/zookeeper.h>

#include <string.h>

struct commit {
    zkl_lock *lock; /* begins with its place */
    const zkl_op *ops;
    size_t count;
    zkl_op_result *results;
    struct zkl__op *parts; /* the check, then the user's */
    /* the answer: */
    enum zkl__rc rc;
    bool lost;     /* it was the check that failed */
    size_t failed; /* index of the user's that did; count: none, or nobody knows */
    int zk_code;
};

/* --- what is asked for --------------------------------------------------------------------------------------------- */

static int check_op(const zkl_op *op, size_t index, zkl_error *err)
{
    int rc = zkl__range_check("kind", (int64_t)op->kind, ZKL_OP_CREATE, ZKL_OP_CHECK, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    bool create = op->kind == ZKL_OP_CREATE, data = create || op->kind == ZKL_OP_SET;
    if (create) {
        rc = zkl__range_check("mode", (int64_t)op->mode, ZKL_CREATE_PERSISTENT, ZKL_CREATE_EPHEMERAL_SEQUENTIAL, err);
        rc = rc == ZKL_OK ? zkl__acl_check(op->acl, err) : rc;
    }
    if (rc != ZKL_OK) {
        return rc;
    }
    bool sequential = create && op->mode >= ZKL_CREATE_PERSISTENT_SEQUENTIAL;
    if (!op->path || strlen(op->path) > ZKL_PATH_MAX || !zkl__path_form(op->path, sequential)) {
        return zkl__fail(err, ZKL_EINVAL, 0, op->path, "operation %zu: not an absolute znode path", index);
    }
    const char *slash = strrchr(op->path, '/');
    if (op->kind == ZKL_OP_SET && zkl__name_sealed(slash + 1)) {
        return zkl__fail(err, ZKL_EINVAL, 0, op->path, "operation %zu: it is the znode of a lock, which nobody writes",
                         index);
    }
    if (data && op->size > 0 && !op->data) {
        return zkl__fail(err, ZKL_EINVAL, 0, op->path, "operation %zu: data is NULL, size is %zu", index, op->size);
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
        return zkl__fail(err, ZKL_ELIMIT, 0, NULL, "%zu operations are more than %d", count, ZKL_COMMIT_MAX);
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
            return zkl__fail(err, ZKL_ELIMIT, 0, NULL, "more than %d bytes of data", ZKL_COMMIT_DATA_MAX);
        }
    }
    return ZKL_OK;
}

static struct zkl__op part_of(const zkl_op *op)
{
    static const enum zkl__op_kind kinds[] = {ZKL__OP_CREATE, ZKL__OP_SET, ZKL__OP_DELETE, ZKL__OP_CHECK};
    static const enum zkl__create_mode modes[] = {ZKL__PERSISTENT, ZKL__EPHEMERAL, ZKL__PERSISTENT_SEQUENTIAL,
                                                  ZKL__EPHEMERAL_SEQUENTIAL};
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

/* --- the answer ---------------------------------------------------------------------------------------------------- */

/* dir of the path, and the name that the server made of the rest. */
static void put_created(zkl_op_result *result, const zkl_op *op, const char *name)
{
    size_t dir = (size_t)(strrchr(op->path, '/') - op->path) + 1;
    size_t length = strlen(name);
    if (dir + length < sizeof result->path) {
        memcpy(result->path, op->path, dir);
        memcpy(result->path + dir, name, length + 1);
    }
}

static void put_result(zkl_op_result *result, const zkl_op *op, const struct zkl__reply *part, bool done)
{
    *result = (zkl_op_result){.code = ZKL_ECANCELED};
    if (done) {
        result->code = ZKL_OK;
        result->version = op->kind == ZKL_OP_SET ? part->stat.version : 0;
        if (op->kind == ZKL_OP_CREATE) {
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
    commit->rc = reply->rc;
    commit->zk_code = reply->zk_code;
    if (reply->part_count != commit->count + 1) {
        return; /* the transaction as a whole was refused */
    }
    commit->lost = reply->parts[0].rc == ZKL__RC_NONODE;
    for (size_t i = 0; i < commit->count; i++) {
        const struct zkl__reply *part = &reply->parts[i + 1];
        if (part->rc != ZKL__RC_OK && part->rc != ZKL__RC_ROLLEDBACK && commit->failed == commit->count) {
            commit->failed = i;
            commit->rc = part->rc;
            commit->zk_code = part->zk_code;
        }
        if (commit->results) {
            put_result(&commit->results[i], &commit->ops[i], part, reply->rc == ZKL__RC_OK);
        }
    }
}

static int judge(const struct commit *commit, zkl_error *err)
{
    const char *path = commit->lock ? zkl_lock_path(commit->lock) : NULL;
    if (commit->rc == ZKL__RC_OK) {
        return ZKL_OK;
    }
    if (commit->lost) {
        return zkl__fail(err, ZKL_ELOST, commit->zk_code, path, "not done: our znode is gone, the lock was lost");
    }
    if (commit->rc == ZKL__RC_NOTAPPLIED) {
        return zkl__fail(err, ZKL_ECONNECT, commit->zk_code, path, "not done: the servers ask to try again");
    }
    if (commit->failed < commit->count) {
        return zkl__fail(err, zkl__rc_code(commit->rc), commit->zk_code, commit->ops[commit->failed].path,
                         "not done: operation %zu: %s", commit->failed, zkl__rc_name(commit->rc));
    }
    return zkl__fail(err, zkl__rc_code(commit->rc), commit->zk_code, path, "not done: %s", zkl__rc_name(commit->rc));
}

/* --- the call ------------------------------------------------------------------------------------------------------ */

/* Inside. */
static int submit(struct commit *commit, zkl_error *err)
{
    struct zkl__place *place = (struct zkl__place *)commit->lock;
    struct zkl__standing now = zkl__place_look(place);
    if (now.state == ZKL_STATE_IDLE || now.state == ZKL_STATE_WAITING) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, place->path, "not done: the lock is not held");
    }
    if (now.state == ZKL_STATE_LOST) {
        return zkl__fail(err, ZKL_ELOST, 0, place->path, "not done: the lock was lost");
    }
    if (!zkl__core_connected(zkl__session_core(place->session))) {
        return zkl__fail(err, ZKL_ECONNECT, 0, place->path, "not done: no connection");
    }
    commit->parts[0] =
        (struct zkl__op){.kind = ZKL__OP_CHECK, .dir = place->path, .name = now.node, .version = ZKL_ANY_VERSION};
    struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = commit->parts, .part_count = commit->count + 1};
    int64_t deadline = zkl__session_now(place->session) + now.remaining_ns;
    zkl_error why = {.code = ZKL_OK};
    int rc = zkl__session_call(place->session, &op, deadline, look, commit, &why);
    if (rc == ZKL_OK) {
        return judge(commit, err);
    }
    if (rc == ZKL_ENOMEM || rc == ZKL_ELIMIT) {
        return zkl__fail(err, rc, 0, place->path, "not done: %s", why.text);
    }
    return zkl__fail(err, ZKL_ECONNECT, 0, place->path, "it may be done, or not: %s", why.text);
}

int zkl_lock_commit(zkl_lock *lock, const zkl_op *ops, size_t count, zkl_op_result *results, zkl_error *err)
{
    if (!lock) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "lock is NULL");
    }
    struct zkl__place *place = (struct zkl__place *)lock;
    zkl_session *session = place->session;
    int rc = check_ops(ops, count, err);
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    const zkl_heap *heap = zkl__session_heap(session);
    zkl__place_ref(place);
    struct commit commit = {.lock = lock, .ops = ops, .count = count, .results = results, .failed = count};
    commit.parts = zkl__alloc(heap, (count + 1) * sizeof *commit.parts);
    if (commit.parts) {
        for (size_t i = 0; i < count; i++) {
            commit.parts[i + 1] = part_of(&ops[i]);
        }
        rc = submit(&commit, err);
    } else {
        rc = zkl__fail(err, ZKL_ENOMEM, 0, zkl_lock_path(lock), "not done: no memory");
    }
    zkl__free(heap, commit.parts);
    zkl__place_unref(place);
    zkl__session_leave(session);
    return rc;
}
