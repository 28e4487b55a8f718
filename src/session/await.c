#include "await.h"

#include "error.h"
#include "path.h"

/* Until the session's state changes, or a little while. False when the time is up or the session closed. */
static bool pause_for_session(zkl_session *session, int64_t deadline)
{
    struct zkl__status *status = zkl__session_status(session);
    if (status->closing || status->state == ZKL_SESSION_CLOSED) {
        return false;
    }
    int64_t soon = zkl__session_now(session) + 100 * ZKL__MS;
    zkl__session_wait(session, &status->changed, soon < deadline ? soon : deadline);
    return zkl__session_now(session) < deadline;
}

static int failed(zkl_error *err, int rc, const zkl_error *last)
{
    if (rc != ZKL_OK && err) {
        *err = *last;
    }
    return rc;
}

int zkl__session_insist(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                        void (*look)(void *arg, const struct zkl__reply *reply), void *arg, zkl_error *err)
{
    zkl_error last; /* of a try that another one follows, the caller hears nothing */
    int rc;
    do {
        rc = zkl__session_call(session, op, deadline, look, arg, &last);
    } while (rc == ZKL_ECONNECT && pause_for_session(session, deadline));
    if (rc == ZKL_ECONNECT && zkl__session_now(session) >= deadline) {
        return zkl__fail(err, ZKL_ETIMEOUT, 0, op->dir, "no answer from the servers in time");
    }
    return failed(err, rc, &last);
}

static void take_rc(void *arg, const struct zkl__reply *reply)
{
    *(enum zkl__rc *)arg = reply->rc;
}

int zkl__session_change(zkl_session *session, const struct zkl__op *op, enum zkl__rc as_good, int64_t deadline,
                        zkl_error *err)
{
    enum zkl__rc got = ZKL__RC_NOTAPPLIED;
    int rc = ZKL_OK;
    while (rc == ZKL_OK && got == ZKL__RC_NOTAPPLIED) {
        rc = zkl__session_insist(session, op, deadline, take_rc, &got, err);
    }
    if (rc != ZKL_OK || got == ZKL__RC_OK || got == as_good) {
        return rc;
    }
    return zkl__fail(err, zkl__rc_code(got), 0, op->dir, "%s: %s", zkl__op_name(op->kind), zkl__rc_name(got));
}

/* One level; ZKL_ENOENT: the one above is missing. */
static int make_level(zkl_session *session, const char *path, int64_t deadline, zkl_error *err)
{
    enum zkl__rc got = ZKL__RC_UNKNOWN;
    const struct zkl__op op = {.kind = ZKL__OP_CREATE, .dir = path, .mode = ZKL__CONTAINER};
    int rc = zkl__session_insist(session, &op, deadline, take_rc, &got, err);
    if (rc != ZKL_OK || got == ZKL__RC_OK || got == ZKL__RC_NODEEXISTS) {
        return rc;
    }
    if (got == ZKL__RC_NOTAPPLIED) {
        return ZKL_OK; /* the next level will tell */
    }
    return zkl__fail(err, zkl__rc_code(got), 0, path, "cannot be created: %s", zkl__rc_name(got));
}

static int make_directories(zkl_session *session, const char *path, int64_t deadline, zkl_error *err)
{
    char part[ZKL_PATH_MAX + 1];
    zkl_error last; /* a level that is missing is no news to the caller */
    int rc;
    bool more;
    zkl__path_join(part, sizeof part, path, NULL);
    do {
        rc = make_level(session, part, deadline, &last);
        more = rc == ZKL_ENOENT ? zkl__path_shorten(part) : rc == ZKL_OK && zkl__path_lengthen(part, path);
    } while (more);
    return failed(err, rc, &last);
}

int zkl__session_make(zkl_session *session, const char *path, int64_t deadline, zkl_error *err)
{
    const struct zkl__op op = {.kind = ZKL__OP_CREATE, .dir = path, .mode = ZKL__PERSISTENT};
    char above[ZKL_PATH_MAX + 1];
    zkl__path_join(above, sizeof above, path, NULL);
    int rc = zkl__path_shorten(above) ? make_directories(session, above, deadline, err) : ZKL_OK;
    return rc == ZKL_OK ? zkl__session_change(session, &op, ZKL__RC_NODEEXISTS, deadline, err) : rc;
}

struct await {
    bool (*enough)(void *arg, const struct zkl__reply *reply);
    void *arg;
    bool done, changed;
    enum zkl__rc rc;
    int zk_code;
    struct zkl__signal signal;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    struct await *await = arg;
    await->rc = reply->rc;
    await->zk_code = reply->zk_code;
    await->done = (reply->rc == ZKL__RC_OK || reply->rc == ZKL__RC_NONODE) && await->enough(await->arg, reply);
}

static void fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct await *await = watch->owner;
    (void)event;
    await->changed = true;
    zkl__signal_raise(&await->signal);
}

static int wait_for_change(zkl_session *session, struct await *await, int64_t deadline, const char *path,
                           zkl_error *err)
{
    while (!await->changed) {
        if (zkl__session_status(session)->stopping) {
            return zkl__fail(err, ZKL_ECLOSED, 0, path, "the session is being closed");
        }
        if (!zkl__session_wait(session, &await->signal, deadline)) {
            bool late = zkl__session_now(session) >= deadline;
            return late ? zkl__fail(err, ZKL_ETIMEOUT, 0, path, "the time is up")
                        : zkl__fail(err, ZKL_ECLOSED, 0, path, "the session was closed meanwhile");
        }
    }
    return ZKL_OK;
}

static int await_it(zkl_session *session, const struct zkl__op *op, struct await *await, struct zkl__watch *watch,
                    int64_t deadline, zkl_error *err)
{
    for (;;) {
        await->changed = false;
        int rc = zkl__watch_add(zkl__session_core(session), watch);
        if (rc != ZKL_OK) {
            return zkl__fail(err, rc, 0, op->dir, "the session watches too much already");
        }
        rc = zkl__session_insist(session, op, deadline, look, await, err);
        if (rc != ZKL_OK || await->done) {
            return rc;
        }
        if (await->rc == ZKL__RC_NOTAPPLIED) {
            continue;
        }
        if (await->rc != ZKL__RC_OK && await->rc != ZKL__RC_NONODE) {
            return zkl__fail(err, zkl__rc_code(await->rc), await->zk_code, op->dir, "%s", zkl__rc_name(await->rc));
        }
        rc = wait_for_change(session, await, deadline, op->dir, err);
        if (rc != ZKL_OK) {
            return rc;
        }
    }
}

int zkl__session_await(zkl_session *session, const struct zkl__op *op,
                       bool (*enough)(void *arg, const struct zkl__reply *reply), void *arg, int64_t deadline,
                       zkl_error *err)
{
    struct await await = {.enough = enough, .arg = arg};
    struct zkl__op watching = *op;
    int rc = zkl__signal_init(&await.signal);
    if (rc != ZKL_OK) {
        return zkl__fail(err, rc, 0, op->dir, "no memory to wait with");
    }
    watching.watch = true;
    struct zkl__watch watch = {.fired = fired, .owner = &await, .path = op->dir};
    rc = await_it(session, &watching, &await, &watch, deadline, err);
    zkl__watch_remove(zkl__session_core(session), &watch);
    zkl__signal_deinit(&await.signal);
    return rc;
}
