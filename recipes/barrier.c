/* barrier.c - a barrier: a znode that many wait to see gone. */
#include "await.h"
#include "error.h"
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

int zkl_barrier_set(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    int rc = enter(session, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = zkl__session_make(session, path, zkl__deadline(zkl__session_now(session), timeout_ms), err);
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
        rc = zkl__fail(err, zkl__rc_code(removal.rc), removal.zk_code, path, "the barrier may not be lifted: %s",
                       zkl__rc_name(removal.rc));
    }
    return rc;
}

struct answer {
    enum zkl__rc rc;
    int zk_code;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    *(struct answer *)arg = (struct answer){reply->rc, reply->zk_code};
}

static int wait_until_gone(struct zkl__vigil *vigil, const char *path, int64_t deadline, zkl_error *err)
{
    /* get, not exists: a watch on a node that is not there would stay behind */
    const struct zkl__op get = {.kind = ZKL__OP_GET, .dir = path}, sync = {.kind = ZKL__OP_SYNC, .dir = path};
    struct answer answer = {.rc = ZKL__RC_OK};
    /* A follower may lag: what it shows first may be older than the barrier. Later looks follow an event of this very path. */
    int rc = zkl__session_insist(vigil->session, &sync, deadline, NULL, NULL, err);
    while (rc == ZKL_OK) {
        rc = zkl__vigil_read(vigil, 0, &get, deadline, look, &answer, err);
        if (rc != ZKL_OK || answer.rc == ZKL__RC_NONODE) {
            return rc;
        }
        if (answer.rc == ZKL__RC_OK) {
            rc = zkl__vigil_wait(vigil, deadline, err);
        } else if (answer.rc != ZKL__RC_NOTAPPLIED) {
            return zkl__fail(err, zkl__rc_code(answer.rc), answer.zk_code, path, "the barrier cannot be read: %s",
                             zkl__rc_name(answer.rc));
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
