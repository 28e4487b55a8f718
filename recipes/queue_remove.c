/* queue_remove.c - an operator takes a contender's place away. */
#include "await.h"
#include "remove.h"

#include "error.h"
#include "name.h"
#include "path.h"

#include <zklock/queue.h>

#include <string.h>

/* Inside. Since ZooKeeper 3.9.2 the look at a znode needs READ, its delete does not: whatever has
 * the name is meant. */
static int remove_hidden(zkl_session *session, const struct zkl__removal *removal, int64_t deadline,
                         zkl_error *err)
{
    const struct zkl__op op = {
        .kind = ZKL__OP_DELETE, .dir = removal->dir, .name = removal->name, .version = -1};
    return zkl__session_change(session, &op, ZKL__RC_NONODE, deadline, err);
}

/* Inside. A version is checked too, and any write raises it without making it another znode: then
 * it is looked at again. */
static int remove_node(zkl_session *session, struct zkl__removal *removal, int64_t deadline,
                       zkl_error *err)
{
    bool any = removal->czxid == 0;
    int rc = zkl__session_remove_exactly(session, removal, deadline, err);
    if (rc == ZKL_OK && any && removal->rc == ZKL__RC_NOAUTH) {
        return remove_hidden(session, removal, deadline, err);
    }
    if (rc != ZKL_OK || removal->rc == ZKL__RC_OK) {
        return rc;
    }
    if (removal->rc == ZKL__RC_NONODE) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, removal->dir,
                         "no such contender: it released, or left the queue");
    }
    return zkl__fail(err, zkl__rc_code(removal->rc), removal->zk_code, removal->dir,
                     "the contender's znode may not be removed: %s", zkl__rc_name(removal->rc));
}

int zkl_queue_remove(zkl_session *session, const char *path, const char *node, int64_t token,
                     int64_t timeout_ms, zkl_error *err)
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
    struct zkl__removal removal = {.dir = path, .name = node, .czxid = token};
    rc = remove_node(session, &removal, zkl__deadline(zkl__session_now(session), timeout_ms), err);
    zkl__session_leave(session);
    return rc;
}
