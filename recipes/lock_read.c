/* lock_read.c - reading a znode under a grant.
 *
 * No check goes with the read, since a transaction cannot read data. It needs none: a read is
 * answered by the server that has shown us our grant, and that server had applied by then what the
 * holders before us wrote (ZooKeeper Programmer's Guide, Consistency Guarantees: single system
 * image, and updates in order). The lease says afterwards whether somebody may have come in
 * between. */
#include "guarded.h"

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
    struct zkl__call call; /* first */
    zkl_lock *lock;
    int64_t token; /* of the grant that it began under */
    bool fresh;
    zkl_data **out;
    struct data *data; /* NULL: not read, or no memory */
};

void zkl_data_free(zkl_data *data)
{
    if (data) {
        zkl_heap heap = ((struct data *)data)->heap;
        zkl__free(&heap, (void *)(uintptr_t)data->data);
        zkl__free(&heap, data);
    }
}

/* In a step. */
static void take_data(struct zkl__call *call, const struct zkl__reply *reply)
{
    struct reading *reading = (struct reading *)call;
    const zkl_heap *heap = zkl__session_heap(reading->call.session);
    if (reply->rc != ZKL__RC_OK) {
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

/* Requests that change nothing: when a reply is lost, the request is sent again. */
static int run(struct zkl__call *call)
{
    struct reading *reading = (struct reading *)call;
    const char *path = call->path;
    CALL_BEGIN(call);
    if (reading->fresh) {
        AWAIT(call, {.kind = ZKL__OP_SYNC, .dir = path});
    }
    if (call->answer.rc == ZKL__RC_OK) { /* of the sync, if there was one */
        AWAIT_REPLY(call, take_data, {.kind = ZKL__OP_GET, .dir = path});
    }
    if (zkl__lock_look(reading->lock).token != reading->token) {
        RETURN(call, zkl__fail(call->err, ZKL_ELOST, 0, path,
                               "the lock was lost or released before the response came"));
    }
    if (call->answer.rc != ZKL__RC_OK) {
        RETURN(call, zkl__call_refused(call, path, "read"));
    }
    if (!reading->data) {
        RETURN(call, zkl__fail(call->err, ZKL_ENOMEM, 0, path, "no memory for the data"));
    }
    *reading->out = &reading->data->public;
    reading->data = NULL;
    CALL_END(call);
}

static int begin(struct zkl__call *call, zkl_error *err)
{
    struct reading *reading = (struct reading *)call;
    zkl_lock *lock = reading->lock;
    struct zkl__standing held = zkl__lock_look(lock);
    if (held.state == ZKL_STATE_LOST) {
        return zkl__fail(err, ZKL_ELOST, 0, lock->path, "not read: the lock was lost");
    }
    if (!zkl__state_holds(held.state)) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, lock->path, "not read: the lock is not held");
    }
    reading->token = held.token;
    zkl__call_bind_lease(call, lock, &held);
    return ZKL_OK;
}

static void end(struct zkl__call *call)
{
    const struct reading *reading = (const struct reading *)call;
    zkl_data_free(reading->data ? &reading->data->public : NULL);
    zkl__lock_unref(reading->lock);
}

static int read_under(zkl_data **out, zkl_lock *lock, const char *path, bool fresh,
                      int64_t timeout_ms, const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__call_kind kind = {
        sizeof(struct reading), run, NULL, begin, end, false};
    const struct reading given = {.lock = lock, .fresh = fresh, .out = out};
    ZKL__CLEAR(out);
    if (!lock || !out) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", lock ? "out" : "lock");
    }
    if (!path || strlen(path) > ZKL_PATH_MAX || !zkl__path_form(path, false)) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "not an absolute znode path");
    }
    return zkl__lock_call(&kind, &given, lock, path, timeout_ms, later, err);
}

int zkl_lock_read(zkl_data **out, zkl_lock *lock, const char *path, bool fresh, int64_t timeout_ms,
                  zkl_error *err)
{
    return read_under(out, lock, path, fresh, timeout_ms, NULL, err);
}

int zkl_lock_read_async(zkl_data **out, zkl_lock *lock, const char *path, bool fresh,
                        int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    return read_under(out, lock, path, fresh, timeout_ms, &(struct zkl__later){done, payload}, err);
}
