/* barrier.c - a barrier: a znode, and calls that wait until it is deleted. */
#include "call.h"
#include "name.h"

#include <zklock/barrier.h>

struct barrier {
    struct zkl__call call;        /* first */
    char level[ZKL_PATH_MAX + 1]; /* of zkl__make_persistent */
    struct zkl__removal removal;
    int64_t czxid; /* of the barrier that is waited for */
};

/* --- path conflict --------------------------------------------------------------------------- */

/* A barrier has no children, so a path with children may be a queue. Children without a session do
 * not count. Without a list, because the servers refused it or memory ran out, the path is assumed
 * to be a barrier. */
static int check_use(struct zkl__call *call)
{
    struct zkl__part *it = &call->part;
    CALL_BEGIN(it);
    AWAIT(it, {.kind = ZKL__OP_CHILDREN});
    if (!call->children) {
        RETURN(it, ZKL_OK);
    }
    AWAIT_CHILDREN(it, call->children, NULL, {.kind = ZKL__OP_EXISTS});
    for (size_t i = 0; i < call->children->count; i++) {
        const struct zkl__child *child = &call->children->all[i];
        if (child->verdict == ZKL__CHILD_EPHEMERAL && child->czxid != 0) {
            FAIL(it, ZKL_ECONFLICT, "the path is in use as a lock or an election: %.80s",
                 child->name);
        }
    }
    CALL_END(it);
}

/* --- set ------------------------------------------------------------------------------------- */

/* What has or had children may be a container still: its servers would lift it. */
static int run_set(struct zkl__call *call)
{
    struct barrier *barrier = (struct barrier *)call;
    /* A znode with a child cannot be deleted, so a child would keep the barrier set. The access
     * list therefore lets nobody create one. A session with credentials, or with its own access
     * list, decides by those. */
    static const zkl_acl_entry childless[] = {{ZKL_PERM_READ, "world", "anyone"}};
    static const zkl_acl acl = {1, childless};
    const zkl_session_options *o = &call->session->settings.options;
    bool decides = o->acl || o->auth_scheme;
    const struct zkl__op znode = {
        .kind = ZKL__OP_CREATE, .mode = ZKL__PERSISTENT, .acl = decides ? NULL : &acl};
    CALL_BEGIN(call);
    AWAIT_CALL(call, zkl__make_persistent(call, barrier->level, &znode, NULL));
    if (call->answer.stat.cversion != 0) {
        AWAIT_CALL(call, check_use(call));
        FAIL(call, ZKL_ECONFLICT, "the znode there has or had children: the servers may delete it");
    }
    CALL_END(call);
}

/* --- lift ------------------------------------------------------------------------------------ */

/* Deletes exactly the barrier that it read: one that is set again meanwhile stays. */
static int run_lift(struct zkl__call *call)
{
    struct barrier *barrier = (struct barrier *)call;
    CALL_BEGIN(call);
    AWAIT_CALL(call, zkl__remove(call, &barrier->removal));
    CHECK_REPLY(call, "the barrier may not be lifted");
    CALL_END(call);
}

/* --- wait ------------------------------------------------------------------------------------ */

/* A follower may lag behind the creation of the barrier, so the first read follows a sync. Later
 * reads follow an event of this path. The request is get, because exists would leave a watch behind
 * on a znode that does not exist. By then the barrier may be lifted and set again, which is another
 * znode. What has had children is no proof of that: a set makes it anew (zkl__make_persistent). */
static int run_wait(struct zkl__call *call)
{
    struct barrier *barrier = (struct barrier *)call;
    const struct zkl__stat *stat = &call->answer.stat;
    CALL_BEGIN(call);
    AWAIT(call, {.kind = ZKL__OP_SYNC});
    for (;;) {
        AWAIT(call, {.kind = ZKL__OP_GET, .watch = true});
        if (call->answer.rc == ZKL__RC_NONODE) {
            return ZKL_OK;
        }
        CHECK_REPLY(call, "the barrier cannot be read");
        if (barrier->czxid != 0 && stat->czxid != barrier->czxid) {
            return ZKL_OK;
        }
        barrier->czxid = stat->cversion == 0 ? stat->czxid : 0;
        if (stat->child_count > 0) {
            AWAIT_CALL(call, check_use(call));
        }
        AWAIT_CHANGE(call);
    }
    CALL_END(call);
}

/* --- the calls ------------------------------------------------------------------------------- */

int zkl_barrier_set_async(zkl_session *session, const char *path, int64_t timeout_ms,
                          zkl_done_fn done, void *payload, zkl_error *err)
{
    struct barrier given = {.call = {.run = run_set, .counts = zkl__name_contends}};
    return zkl__call_go(&given, sizeof given, session, path, timeout_ms, done, payload, err);
}

int zkl_barrier_set(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    return zkl_barrier_set_async(session, path, timeout_ms, zkl__caller_waits, NULL, err);
}

int zkl_barrier_lift_async(zkl_session *session, const char *path, int64_t timeout_ms,
                           zkl_done_fn done, void *payload, zkl_error *err)
{
    struct barrier given = {.call = {.run = run_lift, .finishes = true}};
    return zkl__call_go(&given, sizeof given, session, path, timeout_ms, done, payload, err);
}

int zkl_barrier_lift(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    return zkl_barrier_lift_async(session, path, timeout_ms, zkl__caller_waits, NULL, err);
}

int zkl_barrier_wait_async(zkl_session *session, const char *path, int64_t timeout_ms,
                           zkl_done_fn done, void *payload, zkl_error *err)
{
    struct barrier given = {.call = {.run = run_wait, .counts = zkl__name_contends}};
    return zkl__call_go(&given, sizeof given, session, path, timeout_ms, done, payload, err);
}

int zkl_barrier_wait(zkl_session *session, const char *path, int64_t timeout_ms, zkl_error *err)
{
    return zkl_barrier_wait_async(session, path, timeout_ms, zkl__caller_waits, NULL, err);
}
