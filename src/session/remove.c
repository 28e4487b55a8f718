#include "remove.h"

#include "await.h"

struct answer {
    enum zkl__rc rc;
    int zk_code;
    struct zkl__stat stat;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    *(struct answer *)arg = (struct answer){reply->rc, reply->zk_code, reply->stat};
}

/* Sent once. *unsure: nobody knows what became of it. */
static int send_delete(zkl_session *session, const struct zkl__removal *removal, int32_t version,
                       int64_t deadline, struct answer *answer, bool *unsure, zkl_error *err)
{
    const struct zkl__op op = {
        .kind = ZKL__OP_DELETE, .dir = removal->dir, .name = removal->name, .version = version};
    zkl_error last;
    int rc = zkl__session_call(session, &op, deadline, look, answer, &last);
    *unsure = rc == ZKL_ECONNECT;
    if (rc != ZKL_OK && !*unsure && err) {
        *err = last;
    }
    return *unsure ? ZKL_OK : rc;
}

/* A check of the parent, whatever its answer is: ZooKeeper commits a transaction that failed as
 * well. */
static int pass_barrier(zkl_session *session, const struct zkl__removal *removal, int64_t deadline,
                        zkl_error *err)
{
    const struct zkl__op op = {.kind = ZKL__OP_CHECK, .dir = removal->dir, .version = -1};
    return zkl__session_insist(session, &op, deadline, NULL, NULL, err);
}

int zkl__session_remove_exactly(zkl_session *session, struct zkl__removal *removal,
                                int64_t deadline, zkl_error *err)
{
    const struct zkl__op exists = {
        .kind = ZKL__OP_EXISTS, .dir = removal->dir, .name = removal->name};
    struct answer answer = {.rc = ZKL__RC_BADVERSION};
    bool unsure = false, sent = false;
    int64_t pause = 0;
    int rc = ZKL_OK;
    while (rc == ZKL_OK &&
           (unsure || answer.rc == ZKL__RC_BADVERSION || answer.rc == ZKL__RC_NOTAPPLIED)) {
        if (answer.rc == ZKL__RC_NOTAPPLIED) {
            pause = zkl__session_longer(pause);
            (void)zkl__session_pause(session, pause,
                                     deadline); /* when the time is up, what follows says so */
        }
        rc = unsure ? pass_barrier(session, removal, deadline, err) : ZKL_OK;
        unsure = false;
        rc =
            rc == ZKL_OK ? zkl__session_insist(session, &exists, deadline, look, &answer, err) : rc;
        if (rc != ZKL_OK || answer.rc != ZKL__RC_OK) {
            continue;
        }
        removal->czxid = removal->czxid ? removal->czxid : answer.stat.czxid;
        if (answer.stat.czxid != removal->czxid) {
            answer.rc = ZKL__RC_NONODE;
        } else {
            rc =
                send_delete(session, removal, answer.stat.version, deadline, &answer, &unsure, err);
            sent = true;
        }
    }
    removal->rc = sent && answer.rc == ZKL__RC_NONODE ? ZKL__RC_OK : answer.rc;
    removal->zk_code = answer.zk_code;
    return rc;
}
