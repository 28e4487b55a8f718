/* testing.c - the in-process store's fault hooks for the unit tests of services: zklock/testing.h.
 */
#include "memory.h"
#include "shell.h"

#include <zklock/lock.h>
#include <zklock/testing.h>

/* ZKL_OK: a session of the in-process store, and *id is the present one's. */
static int find(zkl_session *session, int64_t *id, zkl_error *err)
{
    if (!session) {
        return zkl__fail_null(err, "session");
    }
    if (zkl__session_forked(session)) {
        return zkl__fail_at(err, ZKL_EFORKED, NULL, "the session belongs to the parent process");
    }
    if (session->store_ops != &zkl__store_memory) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "only sessions of \"memory:NAME\" are tested so: this one is of %.120s",
                            session->settings.servers);
    }
    *id = zkl_session_id(session);
    return ZKL_OK;
}

/* What a hook of the store answered. */
static int tell(int code, const char *what, zkl_error *err)
{
    if (code == ZKL_OK) {
        return ZKL_OK;
    }
    if (code == ZKL_ENOMEM) {
        return zkl__fail_at(err, code, NULL, "no memory to %s", what);
    }
    /* no such session there, or in another state */
    return zkl__fail_at(err, ZKL_EINVAL, NULL, "the session is not in a state to %s", what);
}

static int change(zkl_session *session, int (*hook)(int64_t session_id), const char *what,
                  zkl_error *err)
{
    int64_t id;
    int rc = find(session, &id, err);
    return rc == ZKL_OK ? tell(hook(id), what, err) : rc;
}

int zkl_testing_cut(zkl_session *session, zkl_error *err)
{
    return change(session, zkl__memory_suspend, "be cut off: it is not connected", err);
}

int zkl_testing_heal(zkl_session *session, zkl_error *err)
{
    return change(session, zkl__memory_resume, "be healed: it is not cut off", err);
}

static void note_held(const char *path, zkl_state state, int64_t token, void *payload)
{
    bool *held = payload;
    (void)path, (void)token;
    *held = *held || state == ZKL_STATE_HELD || state == ZKL_STATE_JEOPARDY;
}

/* A server ends a session only when its lease is over. A connected session is told at once; one
 * that is cut off would go on as the holder beside the next one. */
int zkl_testing_expire(zkl_session *session, zkl_error *err)
{
    int64_t id;
    bool held = false;
    int rc = find(session, &id, err);
    if (rc == ZKL_OK && zkl__memory_is_cut(id)) {
        zkl_session_locks(session, note_held, &held);
    }
    if (held) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "the session is cut off and still holds a lock by its lease, so "
                            "servers would not end it yet: wait until zkl_lock_is_held is false");
    }
    return change(session, zkl__memory_expire, "be ended: there is none on the servers", err);
}

int zkl_testing_lose_reply(zkl_session *session, zkl_error *err)
{
    return change(session, zkl__memory_lose_reply, "lose a reply: it is not connected", err);
}

int zkl_testing_delay(zkl_session *session, bool on, zkl_error *err)
{
    int64_t id;
    int rc = find(session, &id, err);
    return rc == ZKL_OK ? tell(zkl__memory_hold(id, on), "be delayed: it is not connected", err)
                        : rc;
}

int zkl_testing_refuse(zkl_session *session, int code, size_t count, zkl_error *err)
{
    int64_t id;
    int rc = find(session, &id, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    enum zkl__rc refusal;
    switch (code) {
    case ZKL_EAUTH:
        refusal = ZKL__RC_NOAUTH;
        break;
    case ZKL_ELIMIT:
        refusal = ZKL__RC_QUOTA;
        break;
    case ZKL_EUNSUPPORTED:
        refusal = ZKL__RC_LOCAL;
        break;
    default:
        return zkl__fail_at(
            err, ZKL_EINVAL, NULL,
            "servers refuse with ZKL_EAUTH, ZKL_ELIMIT or ZKL_EUNSUPPORTED, and not with %s",
            zkl_strerror(code));
    }
    return tell(zkl__memory_refuse(id, refusal, count), "be refused", err);
}
