/* lock_release.c - a release that nobody waits for. */
#include "call.h"
#include "lock_internal.h"

struct releasing {
    struct zkl__call call;                /* first */
    zkl_lock *lock;                       /* with a reference */
    struct zkl__acquisition *acquisition; /* that it releases; NULL: it stays held, as often as it
                                             was acquired */
    const char *lost; /* why the lease did not cover the hold: known at the call; NULL: it did */
};

/* The server's response is waited for, but is no part of the result. */
static int conclude(struct zkl__call *call, int rc)
{
    const struct releasing *releasing = (const struct releasing *)call;
    (void)rc;
    return releasing->lost ? zkl__fail(call->err, ZKL_ELOST, 0, NULL, "lost while it was held: %s",
                                       releasing->lost)
                           : ZKL_OK;
}

static int run(struct zkl__call *call)
{
    const struct releasing *releasing = (const struct releasing *)call;
    CALL_BEGIN(call);
    AWAIT_UNTIL(call, !releasing->acquisition || releasing->acquisition->released);
    RETURN(call, conclude(call, ZKL_OK));
    CALL_END(call);
}

/* The grant ends here. The contender deletes its znode until it is deleted, so no reply that is
 * lost matters. */
static int begin(struct zkl__call *call, zkl_error *err)
{
    struct releasing *releasing = (struct releasing *)call;
    zkl_lock *lock = releasing->lock;
    (void)err;
    zkl__lock_ref(lock);
    call->owner = &lock->object;
    releasing->lost = zkl__acquisition_holds(lock->acquisition) ? NULL : lock->acquisition->why;
    if (--lock->acquisition->depth == 0) {
        releasing->acquisition = zkl__acquisition_send_release(lock);
    }
    return ZKL_OK;
}

static void end(struct zkl__call *call)
{
    struct releasing *releasing = (struct releasing *)call;
    if (releasing->acquisition) {
        zkl__acquisition_let_go(releasing->acquisition);
    }
    zkl__lock_unref(releasing->lock);
}

/* Inside. Nothing but a lack of memory keeps it from being begun. */
static int check(const zkl_lock *lock, zkl_error *err)
{
    if (!lock->acquisition || !lock->acquisition->granted) {
        return zkl__lock_not_granted(lock, err);
    }
    return zkl__callbacks_want(zkl__session_callbacks(lock->session)) == ZKL_OK
               ? ZKL_OK
               : zkl__fail(err, ZKL_ELIMIT, 0, lock->path, "no thread for callbacks");
}

int zkl_lock_release_async(zkl_lock *lock, zkl_done_fn done, void *payload, zkl_error *err)
{
    static const struct zkl__call_kind kind = {
        sizeof(struct releasing), run, conclude, begin, end, true};
    const struct releasing given = {.lock = lock};
    if (!lock || !done) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", lock ? "done" : "lock");
    }
    zkl_session *session = lock->session; /* the lock may be freed meanwhile */
    int rc = zkl__session_enter(session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = check(lock, err);
    if (rc == ZKL_OK) {
        rc = zkl__call_begin(&kind, &given, session, lock->path, lock->options.release_timeout_ms,
                             &(struct zkl__later){done, payload}, err);
    }
    zkl__session_leave(session);
    return rc;
}
