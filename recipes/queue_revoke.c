/* queue_revoke.c - asking a holder to give way. Its side of it is in the contender
 * (core/contender.h, revocable). */
#include "call.h"

#include "error.h"
#include "path.h"

#include <zklock/lock.h>
#include <zklock/queue.h>

#include <string.h>

static void look(void *arg, const struct zkl__reply *reply)
{
    *(enum zkl__rc *)arg = reply->rc;
}

/* What is sealed does not listen, and even its own session, which may, must not write it: whoever
 * waits behind it would take that for the announcement of its release. Then all there is to say is
 * whether it is there. */
static int write_request(zkl_session *session, const char *path, const char *node, int64_t deadline,
                         zkl_error *err)
{
    enum zkl__rc answer = ZKL__RC_UNKNOWN;
    bool sealed = zkl__name_sealed(node);
    struct zkl__op op = {.kind = ZKL__OP_SET, .dir = path, .name = node, .version = -1};
    if (sealed) {
        op.kind = ZKL__OP_CHECK;
    } else {
        op.data = ZKL__REVOKE;
        op.size = sizeof ZKL__REVOKE - 1;
    }
    int rc = zkl__session_enter(session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = zkl__session_call(session, &op, deadline, look, &answer, err);
    zkl__session_leave(session);
    if (rc == ZKL_OK && answer == ZKL__RC_NONODE) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, path,
                         "no such contender: it released, or left the queue");
    }
    if (rc == ZKL_OK && (answer == ZKL__RC_NOAUTH || (sealed && answer == ZKL__RC_OK))) {
        return zkl__fail(err, ZKL_EAUTH, 0, path,
                         "the request may not be written: the holder does not listen (it has no "
                         "revoke_fn), or the "
                         "access list of its znode does not permit it");
    }
    if (rc == ZKL_OK && answer != ZKL__RC_OK) {
        return zkl__fail(err, zkl__rc_code(answer), 0, path, "the request may not be written: %s",
                         zkl__rc_name(answer));
    }
    return rc;
}

static int revoke_first(zkl_session *session, const char *path, int64_t deadline, zkl_error *err)
{
    int64_t left =
        deadline == INT64_MAX ? ZKL_WAIT_FOREVER : (deadline - zkl__session_now(session)) / ZKL__MS;
    zkl_queue *queue;
    int rc =
        zkl_queue_list(&queue, session, path, left < 0 && deadline != INT64_MAX ? 0 : left, err);
    if (rc == ZKL_OK) {
        rc = queue->count > 0
                 ? write_request(session, path, queue->entries[0].name, deadline, err)
                 : zkl__fail(err, ZKL_ENOTHELD, 0, path, "nobody holds it or waits for it");
        zkl_queue_free(queue);
    }
    return rc;
}

int zkl_queue_revoke(zkl_session *session, const char *path, const char *node, int64_t timeout_ms,
                     zkl_error *err)
{
    if (!session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "session is NULL");
    }
    if (node && zkl__name_parse(node).kind == ZKL_KIND_FOREIGN) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "node is not the name of a contender's znode");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    return node ? write_request(session, path, node, deadline, err)
                : revoke_first(session, path, deadline, err);
}
