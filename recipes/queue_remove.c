/* queue_remove.c - an operator takes a contender's place away. */
#include "queue_inside.h"
#include "remove.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"

#include <string.h>

struct removing {
    struct zkl__procedure procedure; /* first */
    enum { EXACTLY, HIDDEN } step;
    struct zkl__removal removal;
    char *node;
    bool any; /* whatever its token is */
    struct zkl__single single;
    struct zkl__op op;
    enum zkl__rc rc;
    int zk_code;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    struct removing *removing = arg;
    removing->rc = reply->rc;
    removing->zk_code = reply->zk_code;
}

/* Since ZooKeeper 3.9.2 the look at a znode needs READ, its delete does not: whatever has the name
 * is meant. */
static void send_hidden(struct removing *removing)
{
    removing->step = HIDDEN;
    removing->op = (struct zkl__op){.kind = ZKL__OP_DELETE,
                                    .dir = removing->procedure.path,
                                    .name = removing->node,
                                    .version = -1};
    zkl__single_begin(&removing->single, &removing->procedure, ZKL__INSIST, &removing->op, look,
                      removing);
}

static int judge(const struct removing *removing, zkl_error *err)
{
    const char *path = removing->procedure.path;
    if (removing->rc == ZKL__RC_OK ||
        (removing->rc == ZKL__RC_NONODE && removing->step == HIDDEN)) {
        return ZKL_OK;
    }
    if (removing->rc == ZKL__RC_NONODE) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, path,
                         "no such contender: it released, or left the queue");
    }
    return zkl__fail(err, zkl__rc_code(removing->rc), removing->zk_code, path,
                     "the contender's znode may not be removed: %s", zkl__rc_name(removing->rc));
}

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct removing *removing = (struct removing *)procedure;
    int rc = ZKL_OK;
    if (removing->step == EXACTLY) {
        rc = zkl__removal_advance(&removing->removal, err);
        removing->rc = removing->removal.rc;
        removing->zk_code = removing->removal.zk_code;
        if (rc == ZKL_OK && removing->any && removing->rc == ZKL__RC_NOAUTH) {
            send_hidden(removing);
        }
    }
    if (rc == ZKL_OK && removing->step == HIDDEN) {
        rc = zkl__run_advance(&removing->single.run, err);
    }
    return rc == ZKL_OK ? judge(removing, err) : rc;
}

static void end(struct zkl__procedure *procedure)
{
    struct removing *removing = (struct removing *)procedure;
    zkl__removal_end(&removing->removal);
    zkl__run_end(&removing->single.run);
    zkl__free(zkl__session_heap(procedure->session), removing->node);
}

/* Inside. */
static int begin(zkl_session *session, const char *path, const char *node, int64_t token,
                 int64_t timeout_ms, const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {.advance = advance, .end = end};
    struct removing *removing =
        zkl__procedure_make(session, sizeof *removing, &ops, path, timeout_ms, err);
    if (!removing) {
        return ZKL_ENOMEM;
    }
    const char *dir = removing->procedure.path;
    removing->any = token == 0;
    removing->node = zkl__copy(zkl__session_heap(session), node, strlen(node));
    if (!removing->node) {
        return zkl__procedure_drop(&removing->procedure,
                                   zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory for the call"));
    }
    removing->removal = (struct zkl__removal){.dir = dir, .name = removing->node, .czxid = token};
    zkl__removal_begin(&removing->removal, &removing->procedure);
    return zkl__procedure_go(&removing->procedure, later, err);
}

static int remove_contender(zkl_session *session, const char *path, const char *node, int64_t token,
                            int64_t timeout_ms, const struct zkl__later *later, zkl_error *err)
{
    if (!session || !node) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", session ? "node" : "session");
    }
    if (token < 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "token is %lld", (long long)token);
    }
    if (strchr(node, '/') || !zkl__name_contends(node)) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "node is not the name of a contender's znode");
    }
    int rc = zkl__session_enter_at(session, path, timeout_ms, err);
    if (rc == ZKL_OK) {
        rc = begin(session, path, node, token, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_queue_remove(zkl_session *session, const char *path, const char *node, int64_t token,
                     int64_t timeout_ms, zkl_error *err)
{
    return remove_contender(session, path, node, token, timeout_ms, NULL, err);
}

int zkl_queue_remove_async(zkl_session *session, const char *path, const char *node, int64_t token,
                           int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return remove_contender(session, path, node, token, timeout_ms, &later, err);
}
