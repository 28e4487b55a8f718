/* queue_remove.c - an operator takes a contender's place away. */
#include "await.h"

#include "error.h"
#include "name.h"
#include "path.h"

#include <zklock/queue.h>

#include <string.h>

struct removal {
    struct zkl__op op;
    enum zkl__rc rc;
    int zk_code;
    struct zkl__stat stat;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    struct removal *removal = arg;
    removal->rc = reply->rc;
    removal->zk_code = reply->zk_code;
    removal->stat = reply->stat;
}

/* Inside. Sent again when a lost connection left it unanswered: a second delete finds nothing, or the same znode. */
static int ask(struct removal *removal, zkl_session *session, enum zkl__op_kind kind, int64_t deadline, zkl_error *err)
{
    removal->op.kind = kind;
    return zkl__session_insist(session, &removal->op, deadline, look, removal, err);
}

/* Inside. The servers check a version, not a czxid: so the znode is looked at (in the way that needs no permission), and deleted as it
 * was. Any write raises the version without making it another one: look again. Another one of the same name and version, in between,
 * takes a client without a uuid in its names and a directory that was made anew. */
static int remove_node(struct removal *removal, zkl_session *session, int64_t token, int64_t deadline, zkl_error *err)
{
    do {
        int rc = ask(removal, session, ZKL__OP_EXISTS, deadline, err);
        if (rc != ZKL_OK) {
            return rc;
        }
        if (removal->rc == ZKL__RC_NONODE || (removal->rc == ZKL__RC_OK && token && removal->stat.czxid != token)) {
            return zkl__fail(err, ZKL_ENOTHELD, 0, removal->op.dir,
                             "no such contender: it released, or left the queue");
        }
        if (removal->rc == ZKL__RC_OK) {
            removal->op.version = removal->stat.version;
            rc = ask(removal, session, ZKL__OP_DELETE, deadline, err);
        }
        if (rc != ZKL_OK) {
            return rc;
        }
    } while (removal->rc == ZKL__RC_BADVERSION);
    return removal->rc == ZKL__RC_OK || removal->rc == ZKL__RC_NONODE
               ? ZKL_OK
               : zkl__fail(err, zkl__rc_code(removal->rc), removal->zk_code, removal->op.dir,
                           "the contender's znode may not be removed: %s", zkl__rc_name(removal->rc));
}

int zkl_queue_remove(zkl_session *session, const char *path, const char *node, int64_t token, int64_t timeout_ms,
                     zkl_error *err)
{
    if (!session || !node) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", session ? "node" : "session");
    }
    if (token < 0) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "token is %lld", (long long)token);
    }
    if (strchr(node, '/') || zkl__name_parse(node).kind == ZKL_KIND_FOREIGN) {
        return zkl__fail(err, ZKL_EINVAL, 0, path, "node is not the name of a contender's znode");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    struct removal removal = {.op = {.dir = path, .name = node}};
    rc = remove_node(&removal, session, token, zkl__deadline(zkl__session_now(session), timeout_ms), err);
    zkl__session_leave(session);
    return rc;
}
