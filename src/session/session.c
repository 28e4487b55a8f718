/* session.c - the session as its user sees it: close, callbacks, facts. */
#include "inside.h"
#include "procedure.h"

/* --- close ----------------------------------------------------------------------------------- */

static void note_waiting(const char *path, zkl_state state, int64_t token, void *payload)
{
    (void)path, (void)token;
    *(bool *)payload = state == ZKL_STATE_WAITING;
}

/* Inside. What runs under a grant is told to end, and what it holds stays held until it has: close
 * lets nobody in beside it while there is time. What waits is given up at once, since what is to
 * end may wait for it. */
static void stop_tasks(zkl_session *session, int64_t deadline)
{
    bool more = zkl__session_has_tasks(session);
    if (!more) {
        return;
    }
    zkl__session_stop_tasks(session);
    for (struct zkl__object *object = zkl__session_objects(session), *next; object; object = next) {
        bool waiting = false;
        next = object->next;
        object->ops->describe(object, note_waiting, &waiting);
        if (waiting) {
            object->ops->give_up(object, ZKL_ECLOSED);
        }
    }
    while (more && zkl__session_has_tasks(session)) {
        more = zkl__session_wait(session, &zkl__session_status(session)->changed, deadline);
    }
}

/* Inside. Everything pending is told, everything held is on its way out; then until the core has
 * seen it all go. */
static void give_up_all(zkl_session *session, int64_t deadline)
{
    struct zkl__status *status = zkl__session_status(session);
    status->closing = true;
    for (struct zkl__object *object = zkl__session_objects(session), *next; object; object = next) {
        next = object->next; /* what its user has freed already may end here */
        object->ops->give_up(object, ZKL_ECLOSED);
    }
    zkl__procedures_end(session, NULL, ZKL_ECLOSED);
    zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_CLOSE});
    bool more = true;
    while (more && !zkl__core_idle(zkl__session_core(session))) {
        more = zkl__session_wait(session, &status->changed, deadline);
    }
}

int zkl_session_close(zkl_session *session, int64_t timeout_ms)
{
    if (!session) {
        return ZKL_OK;
    }
    int rc = zkl__session_enter_even_closed(session, NULL);
    if (rc != ZKL_OK) {
        return rc;
    }
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    const struct zkl__status *status = zkl__session_status(session);
    if (zkl__callbacks_inside(zkl__session_callbacks(session), NULL) ||
        zkl__session_in_task(session)) {
        rc = ZKL_EDEADLK;
    } else if (status->closing || status->stopping) {
        rc = ZKL_ECLOSED;
    } else {
        stop_tasks(session, deadline);
        give_up_all(session, deadline);
    }
    zkl__session_leave(session);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl__cancel_hold();
    rc = zkl__session_stop(session, deadline);
    zkl__cancel_allow();
    return rc == ZKL_OK || rc == ZKL_EFORKED ? rc : ZKL_ETIMEOUT;
}

/* --- callbacks ------------------------------------------------------------------------------- */

int zkl_session_fd(zkl_session *session)
{
    return session && !zkl__session_forked(session)
               ? zkl__callbacks_fd(zkl__session_callbacks(session))
               : -1;
}

int zkl_session_dispatch(zkl_session *session)
{
    if (!session) {
        return ZKL_EINVAL;
    }
    if (!zkl__session_forked(session)) {
        zkl__loop_go_on();
    }
    int rc = zkl__session_enter_even_closed(session, NULL);
    if (rc == ZKL_OK) {
        struct zkl__callbacks *callbacks = zkl__session_callbacks(session);
        rc = callbacks->dispatched ? zkl__callbacks_dispatch(callbacks) : ZKL_EUNSUPPORTED;
        zkl__session_leave(session);
    }
    return rc;
}

/* --- facts: of a closed session too; in a child of fork there are none ----------------------- */

const char *zkl_session_state_name(zkl_session_state state)
{
    static const char *const names[] = {"connected", "suspended", "lost", "closed"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "?";
}

static int64_t fact(zkl_session *session, int64_t (*get)(const struct zkl__core *core),
                    int64_t unit)
{
    if (!session || zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return 0;
    }
    int64_t value = get(zkl__session_core(session)) / unit;
    zkl__session_leave(session);
    return value;
}

zkl_session_state zkl_session_get_state(zkl_session *session)
{
    zkl_session_state state = ZKL_SESSION_CLOSED;
    if (session && zkl__session_enter(session, NULL) == ZKL_OK) {
        state = zkl__session_status(session)->state;
        zkl__session_leave(session);
    }
    return state;
}

int64_t zkl_session_id(zkl_session *session)
{
    return fact(session, zkl__core_session_id, 1);
}

int64_t zkl_session_timeout_ms(zkl_session *session)
{
    return fact(session, zkl__core_timeout, ZKL__MS);
}

int64_t zkl_session_least_lease_ms(zkl_session *session)
{
    return fact(session, zkl__core_least_lease, ZKL__MS);
}

int64_t zkl_session_low_lease_ms(zkl_session *session)
{
    int64_t low = fact(session, zkl__core_low_lease, ZKL__MS);
    return low > 0 ? low : 0;
}
