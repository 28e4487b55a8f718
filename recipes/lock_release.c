/* lock_release.c - a release that nobody waits for. */
#include "lock_internal.h"
#include "procedure.h"

struct releasing {
    struct zkl__procedure procedure; /* first */
    struct zkl__acquisition *acquisition;
    zkl_lock *lock;
    int code; /* whether the lease covered the hold: known at the call */
    zkl_error err;
};

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct releasing *releasing = (struct releasing *)procedure;
    if (releasing->acquisition && !releasing->acquisition->released) {
        return ZKL__PENDING;
    }
    if (releasing->code != ZKL_OK) {
        *err = releasing->err;
    }
    return releasing->code;
}

/* The server's response is waited for, but is no part of the result. */
static int explain(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err)
{
    const struct releasing *releasing = (const struct releasing *)procedure;
    (void)rc, (void)why;
    if (releasing->code != ZKL_OK && err) {
        *err = releasing->err;
    }
    return releasing->code;
}

static void end(struct zkl__procedure *procedure)
{
    struct releasing *releasing = (struct releasing *)procedure;
    if (releasing->acquisition) {
        zkl__acquisition_let_go(releasing->acquisition);
    }
    zkl__lock_unref(releasing->lock);
}

static const struct zkl__procedure_ops ops = {advance, explain, end};

/* Inside. Not begun on any result but ZKL_OK. */
static int begin(zkl_lock *lock, zkl_done_fn done, void *payload, zkl_error *err)
{
    zkl_session *session = lock->session;
    struct zkl__acquisition *acquisition = lock->acquisition;
    if (!done) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "done is NULL");
    }
    if (!acquisition || !acquisition->granted) {
        return zkl__lock_not_granted(lock, err);
    }
    if (zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        return zkl__fail(err, ZKL_ELIMIT, 0, lock->path, "no thread for callbacks");
    }
    struct releasing *releasing = zkl__procedure_new(session, sizeof *releasing);
    if (!releasing) {
        return zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory for a release");
    }
    zkl__lock_ref(lock);
    releasing->lock = lock;
    releasing->procedure.ops = &ops;
    releasing->procedure.owner = &lock->object;
    releasing->procedure.finishes = true;
    zkl__procedure_limit(&releasing->procedure, lock->options.release_timeout_ms);
    if (!zkl__acquisition_holds(acquisition)) {
        releasing->code = zkl__fail(&releasing->err, ZKL_ELOST, 0, lock->path,
                                    "lost while it was held: %s", acquisition->why);
    }
    if (--acquisition->depth == 0) {
        releasing->acquisition = zkl__acquisition_send_release(lock);
    }
    return zkl__procedure_start(&releasing->procedure, done, payload, err);
}

int zkl_lock_release_async(zkl_lock *lock, zkl_done_fn done, void *payload, zkl_error *err)
{
    if (!lock) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "lock is NULL");
    }
    int rc = zkl__session_enter(lock->session, err);
    if (rc == ZKL_OK) {
        zkl_session *session = lock->session;
        rc = begin(lock, done, payload, err);
        zkl__session_leave(session);
    }
    return rc;
}
