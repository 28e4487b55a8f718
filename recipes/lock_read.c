/* lock_read.c - reading a znode under a grant.
 *
 * No check goes with the read, since a transaction cannot read data. It needs none: a read is
 * answered by the server that has shown us our grant, and that server had applied by then what the
 * holders before us wrote (ZooKeeper Programmer's Guide, Consistency Guarantees: single system
 * image, and updates in order). The lease says afterwards whether somebody may have come in
 * between. */
#include "guarded.h"
#include "lock_internal.h"

#include "error.h"
#include "heap.h"
#include "path.h"

#include <zklock/zookeeper.h>

#include <string.h>

/* What the caller gets is the first member. */
struct data {
    zkl_data public;
    zkl_heap heap;
};

struct reading {
    struct zkl__guarded guarded; /* first */
    struct zkl__single single;
    enum { SYNC, GET } step;
    struct zkl__op op;
    int64_t token; /* of the grant that it began under */
    char *path;
    zkl_data **out;
    struct data *data;
    enum zkl__rc rc;
    int zk_code;
};

void zkl_data_free(zkl_data *data)
{
    if (data) {
        zkl_heap heap = ((struct data *)data)->heap;
        zkl__free(&heap, (void *)(uintptr_t)data->data);
        zkl__free(&heap, data);
    }
}

static void look(void *arg, const struct zkl__reply *reply)
{
    struct reading *reading = arg;
    const zkl_heap *heap = zkl__session_heap(reading->guarded.procedure.session);
    reading->rc = reply->rc;
    reading->zk_code = reply->zk_code;
    if (reading->step == SYNC || reply->rc != ZKL__RC_OK) {
        return;
    }
    struct data *data = zkl__zalloc(heap, sizeof *data);
    char *bytes = data ? zkl__copy(heap, reply->data, reply->size) : NULL;
    if (!bytes) {
        zkl__free(heap, data);
        return;
    }
    data->heap = *heap;
    data->public = (zkl_data){.data = bytes,
                              .size = reply->size,
                              .version = reply->stat.version,
                              .mzxid = reply->stat.mzxid};
    reading->data = data;
}

static void send(struct reading *reading)
{
    reading->op = (struct zkl__op){.kind = reading->step == SYNC ? ZKL__OP_SYNC : ZKL__OP_GET,
                                   .dir = reading->path};
    zkl__single_begin(&reading->single, &reading->guarded.procedure, ZKL__INSIST, &reading->op,
                      look, reading);
}

static int judge(struct reading *reading, zkl_error *err)
{
    if (zkl__lock_look(reading->guarded.lock).token != reading->token) {
        return zkl__fail(err, ZKL_ELOST, 0, reading->path,
                         "the lock was lost or released before the response came");
    }
    if (reading->rc != ZKL__RC_OK) {
        return zkl__fail(err, zkl__rc_code(reading->rc), reading->zk_code, reading->path,
                         "read: %s", zkl__rc_name(reading->rc));
    }
    if (!reading->data) {
        return zkl__fail(err, ZKL_ENOMEM, 0, reading->path, "no memory for the data");
    }
    *reading->out = &reading->data->public;
    reading->data = NULL;
    return ZKL_OK;
}

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct reading *reading = (struct reading *)procedure;
    int rc = zkl__run_advance(&reading->single.run, err);
    if (rc == ZKL_OK && reading->step == SYNC && reading->rc == ZKL__RC_OK) {
        reading->step = GET;
        send(reading);
        rc = zkl__run_advance(&reading->single.run, err);
    }
    return rc == ZKL_OK ? judge(reading, err) : rc;
}

static int explain(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err)
{
    const struct reading *reading = (const struct reading *)procedure;
    return zkl__fail(err, zkl__guarded_code(&reading->guarded, rc), why->zk_code, reading->path,
                     "%s", why->text);
}

static void end(struct zkl__procedure *procedure)
{
    struct reading *reading = (struct reading *)procedure;
    zkl__run_end(&reading->single.run);
    zkl_data_free(reading->data ? &reading->data->public : NULL);
    zkl__free(zkl__session_heap(procedure->session), reading->path);
    zkl__lock_unref(reading->guarded.lock);
}

static const struct zkl__procedure_ops ops = {advance, explain, end};

static int check_held(const zkl_lock *lock, const struct zkl__standing *now, zkl_error *err)
{
    if (now->state == ZKL_STATE_LOST) {
        return zkl__fail(err, ZKL_ELOST, 0, lock->path, "not read: the lock was lost");
    }
    return zkl__state_holds(now->state)
               ? ZKL_OK
               : zkl__fail(err, ZKL_ENOTHELD, 0, lock->path, "not read: the lock is not held");
}

/* Inside. Takes a reference to the lock in any case. */
static int prepare(struct reading *reading, zkl_lock *lock, const char *path, bool fresh,
                   int64_t timeout_ms, zkl_error *err)
{
    struct zkl__standing held = zkl__guarded_begin(&reading->guarded, lock, &ops, timeout_ms);
    reading->token = held.token;
    reading->step = fresh ? SYNC : GET;
    int rc = check_held(lock, &held, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    reading->path = zkl__copy(zkl__session_heap(lock->session), path, strlen(path));
    if (!reading->path) {
        return zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory for a read");
    }
    send(reading);
    return ZKL_OK;
}

/* Inside. */
static int begin(zkl_data **out, zkl_lock *lock, const char *path, bool fresh, int64_t timeout_ms,
                 const struct zkl__later *later, zkl_error *err)
{
    struct reading *reading = zkl__procedure_new(lock->session, sizeof *reading);
    if (!reading) {
        return zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory for a read");
    }
    reading->out = out;
    int rc = prepare(reading, lock, path, fresh, timeout_ms, err);
    if (rc != ZKL_OK) {
        return zkl__procedure_drop(&reading->guarded.procedure, rc);
    }
    return zkl__procedure_go(&reading->guarded.procedure, later, err);
}

static int read_under(zkl_data **out, zkl_lock *lock, const char *path, bool fresh,
                      int64_t timeout_ms, const struct zkl__later *later, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!lock || !out) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", lock ? "out" : "lock");
    }
    if (!path || strlen(path) > ZKL_PATH_MAX || !zkl__path_form(path, false)) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "not an absolute znode path");
    }
    int rc = zkl__lock_enter(lock, timeout_ms, err);
    if (rc == ZKL_OK) {
        zkl_session *session = lock->session;
        rc = begin(out, lock, path, fresh, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_lock_read(zkl_data **out, zkl_lock *lock, const char *path, bool fresh, int64_t timeout_ms,
                  zkl_error *err)
{
    return read_under(out, lock, path, fresh, timeout_ms, NULL, err);
}

int zkl_lock_read_async(zkl_data **out, zkl_lock *lock, const char *path, bool fresh,
                        int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return read_under(out, lock, path, fresh, timeout_ms, &later, err);
}
