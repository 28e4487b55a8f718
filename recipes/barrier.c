/* barrier.c - a barrier: a znode that many wait to see gone. */
#include "await.h"
#include "children.h"
#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"
#include "remove.h"

#include <zklock/barrier.h>

static int enter(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    if (!session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "session is NULL");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    return rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
}

/* --- is the path somebody's queue? ----------------------------------------------------------- */

struct answer {
    enum zkl__rc rc;
    int zk_code;
    int32_t child_count;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    *(struct answer *)arg = (struct answer){reply->rc, reply->zk_code, reply->stat.child_count};
}

static bool is_contender(const char *name)
{
    return zkl__name_parse(name).kind != ZKL_KIND_FOREIGN;
}

struct queue {
    const zkl_heap *heap;
    struct zkl__children *contenders;
};

static void take_contenders(void *arg, const struct zkl__reply *reply)
{
    struct queue *queue = arg;
    if (reply->rc == ZKL__RC_OK) {
        queue->contenders = zkl__children_copy(queue->heap, reply, NULL, is_contender);
    }
}

/* Asked for only where a barrier has children, which it has none of. Those that live with no
 * session are nobody's. */
static int check_use(zkl_session *session, const char *path, int64_t deadline, zkl_error *err)
{
    const struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = path};
    struct queue queue = {zkl__session_heap(session), NULL};
    int rc = zkl__session_insist(session, &list, deadline, take_contenders, &queue, err);
    if (rc != ZKL_OK || !queue.contenders) {
        return rc; /* what may not be listed, or was not for want of memory, is taken for a barrier
                    */
    }
    rc = zkl__session_judge(session, path, queue.contenders, deadline, err);
    for (size_t i = 0; rc == ZKL_OK && i < queue.contenders->count; i++) {
        const struct zkl__child *child = &queue.contenders->all[i];
        if (child->verdict == ZKL__CHILD_LIVES && child->czxid != 0) {
            rc = zkl__fail(err, ZKL_ECONFLICT, 0, path,
                           "the path is in use as a lock or an election: %.80s", child->name);
        }
    }
    zkl__free(queue.heap, queue.contenders);
    return rc;
}

/* --- up and down ----------------------------------------------------------------------------- */

/* A child would keep a barrier up for as long as it stands: a znode that has one is not deleted. So
 * nobody may create one. With credentials, or a list of the session's own, those say who may. */
static const zkl_acl *acl_of(const zkl_session *session)
{
    static const zkl_acl_entry childless[] = {{ZKL_PERM_READ, "world", "anyone"}};
    static const zkl_acl acl = {1, childless};
    const zkl_session_options *options = &zkl__session_settings(session)->options;
    return options->acl || options->auth_scheme ? NULL : &acl;
}

static int put_up(zkl_session *session, const char *path, int64_t deadline, zkl_error *err)
{
    const struct zkl__op op = {
        .kind = ZKL__OP_CREATE, .dir = path, .mode = ZKL__PERSISTENT, .acl = acl_of(session)};
    const struct zkl__op exists = {.kind = ZKL__OP_EXISTS, .dir = path};
    struct answer answer;
    int rc = zkl__session_make_above(session, path, deadline, err);
    rc = rc == ZKL_OK ? zkl__session_insist(session, &op, deadline, look, &answer, err) : rc;
    if (rc == ZKL_OK && answer.rc == ZKL__RC_NODEEXISTS) {
        rc = zkl__session_insist(session, &exists, deadline, look, &answer, err);
        return rc == ZKL_OK && answer.rc == ZKL__RC_OK && answer.child_count > 0
                   ? check_use(session, path, deadline, err)
                   : rc;
    }
    return rc != ZKL_OK || answer.rc == ZKL__RC_OK
               ? rc
               : zkl__fail(err, zkl__rc_code(answer.rc), answer.zk_code, path, "create: %s",
                           zkl__rc_name(answer.rc));
}

int zkl_barrier_set(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    int rc = enter(session, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = put_up(session, path, zkl__deadline(zkl__session_now(session), timeout_ms), err);
    zkl__session_leave(session);
    return rc;
}

int zkl_barrier_lift(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    int rc = enter(session, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    /* exactly: a barrier that somebody puts up again while we wait for an answer stays */
    struct zkl__removal removal = {.dir = path};
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    rc = zkl__session_remove_exactly(session, &removal, deadline, err);
    zkl__session_leave(session);
    if (rc == ZKL_OK && removal.rc != ZKL__RC_OK && removal.rc != ZKL__RC_NONODE) {
        rc = zkl__fail(err, zkl__rc_code(removal.rc), removal.zk_code, path,
                       "the barrier may not be lifted: %s", zkl__rc_name(removal.rc));
    }
    return rc;
}

static int wait_until_gone(struct zkl__vigil *vigil, const char *path, int64_t deadline,
                           zkl_error *err)
{
    /* get, not exists: a watch on a node that is not there would stay behind */
    const struct zkl__op get = {.kind = ZKL__OP_GET, .dir = path},
                         sync = {.kind = ZKL__OP_SYNC, .dir = path};
    struct answer answer = {.rc = ZKL__RC_OK};
    /* A follower may lag: what it shows first may be older than the barrier. Later looks follow an
     * event of this very path. */
    int rc = zkl__session_insist(vigil->session, &sync, deadline, NULL, NULL, err);
    while (rc == ZKL_OK) {
        rc = zkl__vigil_read(vigil, 0, &get, deadline, look, &answer, err);
        if (rc != ZKL_OK || answer.rc == ZKL__RC_NONODE) {
            return rc;
        }
        if (answer.rc == ZKL__RC_OK) {
            rc = answer.child_count > 0 ? check_use(vigil->session, path, deadline, err) : ZKL_OK;
            rc = rc == ZKL_OK ? zkl__vigil_wait(vigil, deadline, err) : rc;
        } else {
            return zkl__fail(err, zkl__rc_code(answer.rc), answer.zk_code, path,
                             "the barrier cannot be read: %s", zkl__rc_name(answer.rc));
        }
    }
    return rc;
}

int zkl_barrier_wait(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    struct zkl__vigil vigil;
    int rc = enter(session, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    rc = zkl__vigil_begin(&vigil, session, path, NULL, err);
    if (rc == ZKL_OK) {
        rc = wait_until_gone(&vigil, path, deadline, err);
        zkl__vigil_end(&vigil);
    }
    zkl__session_leave(session);
    return rc;
}
