/* queue_revoke.c - asking a holder to give way. Its side of it is in the contender
 * (protocol/contender.h, revocable). */
#include "queue_inside.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "text.h"

#include <zklock/lock.h>

#include <string.h>

struct revoking {
    struct zkl__procedure procedure; /* first */
    enum { FIND, WRITE } step;
    struct zkl__queue_listing listing; /* which one is the first? */
    char *node;
    struct zkl__single single;
    struct zkl__op op;
    enum zkl__rc rc;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    ((struct revoking *)arg)->rc = reply->rc;
}

/* What is sealed does not listen, and even its own session, which may, must not write it: whoever
 * waits behind it would take that for the announcement of its release. Then all there is to say is
 * whether it is there. */
static void write_request(struct revoking *revoking)
{
    bool sealed = zkl__name_sealed(revoking->node);
    struct zkl__op op = {.kind = ZKL__OP_SET,
                         .dir = revoking->procedure.path,
                         .name = revoking->node,
                         .version = -1};
    if (sealed) {
        op.kind = ZKL__OP_CHECK;
    } else {
        op.data = ZKL__REVOKE;
        op.size = sizeof ZKL__REVOKE - 1;
    }
    revoking->op = op;
    revoking->step = WRITE;
    zkl__single_begin(&revoking->single, &revoking->procedure, ZKL__ONCE, &revoking->op, look,
                      revoking);
}

static int take_first(struct revoking *revoking, zkl_error *err)
{
    zkl_session *session = revoking->procedure.session;
    zkl_queue *queue;
    int rc = zkl__queue_listing_advance(&revoking->listing, &queue, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    bool somebody = queue->count > 0;
    if (somebody) {
        const char *name = queue->entries[0].name;
        revoking->node = zkl__copy(zkl__session_heap(session), name, strlen(name));
    }
    zkl_queue_free(queue);
    if (!somebody) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, revoking->procedure.path,
                         "nobody holds it or waits for it");
    }
    return revoking->node
               ? ZKL_OK
               : zkl__fail(err, ZKL_ENOMEM, 0, revoking->procedure.path, "no memory for the call");
}

static int judge(const struct revoking *revoking, zkl_error *err)
{
    const char *path = revoking->procedure.path;
    bool sealed = revoking->op.kind == ZKL__OP_CHECK;
    if (revoking->rc == ZKL__RC_NONODE) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, path,
                         "no such contender: it released, or left the queue");
    }
    if (revoking->rc == ZKL__RC_NOAUTH || (sealed && revoking->rc == ZKL__RC_OK)) {
        return zkl__fail(err, ZKL_EAUTH, 0, path,
                         "the request may not be written: the holder does not listen (it has no "
                         "revoke_fn), or the access list of its znode does not permit it");
    }
    return revoking->rc == ZKL__RC_OK
               ? ZKL_OK
               : zkl__fail(err, zkl__rc_code(revoking->rc), 0, path,
                           "the request may not be written: %s", zkl__rc_name(revoking->rc));
}

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct revoking *revoking = (struct revoking *)procedure;
    int rc = ZKL_OK;
    if (revoking->step == FIND) {
        rc = take_first(revoking, err);
        if (rc == ZKL_OK) {
            write_request(revoking);
        }
    }
    rc = rc == ZKL_OK ? zkl__run_advance(&revoking->single.run, err) : rc;
    return rc == ZKL_OK ? judge(revoking, err) : rc;
}

static void end(struct zkl__procedure *procedure)
{
    struct revoking *revoking = (struct revoking *)procedure;
    zkl__queue_listing_end(&revoking->listing);
    zkl__run_end(&revoking->single.run);
    zkl__free(zkl__session_heap(procedure->session), revoking->node);
}

/* Inside. */
static int begin(zkl_session *session, const char *path, const char *node, int64_t timeout_ms,
                 const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {.advance = advance, .end = end};
    const zkl_heap *heap = zkl__session_heap(session);
    struct revoking *revoking =
        zkl__procedure_make(session, sizeof *revoking, &ops, path, timeout_ms, err);
    if (!revoking) {
        return ZKL_ENOMEM;
    }
    revoking->node = node ? zkl__copy(heap, node, strlen(node)) : NULL;
    if (node && !revoking->node) {
        return zkl__procedure_drop(&revoking->procedure,
                                   zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory for the call"));
    }
    if (node) {
        write_request(revoking);
    } else {
        revoking->step = FIND;
        zkl__queue_listing_begin(&revoking->listing, &revoking->procedure,
                                 revoking->procedure.path);
    }
    return zkl__procedure_go(&revoking->procedure, later, err);
}

static int revoke(zkl_session *session, const char *path, const char *node, int64_t timeout_ms,
                  const struct zkl__later *later, zkl_error *err)
{
    if (node && !zkl__name_contends(node)) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "node is not the name of a contender's znode");
    }
    int rc = zkl__session_enter_at(session, path, timeout_ms, err);
    if (rc == ZKL_OK) {
        rc = begin(session, path, node, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_queue_revoke(zkl_session *session, const char *path, const char *node, int64_t timeout_ms,
                     zkl_error *err)
{
    return revoke(session, path, node, timeout_ms, NULL, err);
}

int zkl_queue_revoke_async(zkl_session *session, const char *path, const char *node,
                           int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return revoke(session, path, node, timeout_ms, &later, err);
}
