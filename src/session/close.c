/* close.c - the end of a session, blocking or asynchronous.
 *
 * Both forms wait for the same. The blocking one then ends the session's threads and its
 * store in the caller's thread (zkl__session_stop). The asynchronous one does that where alarms
 * ring: in libzklock that is a thread, which may wait for the servers, since nothing else is left
 * to do; in libzklock_st it is the loop, and the store is closed in turns. */
#include "call.h"
#include "shell.h"
#include "store.h"

/* --- what runs, what is pending, what is held: session mutex held ---------------------------- */

/* ZKL_OK, from then on each time: the session has nothing on the servers any more, as far as it
 * knows, or the time is up. */
static int await_nothing_left(zkl_session *session)
{
    struct zkl__closing *closing = &session->closing;
    bool late = zkl__clock_now() >= closing->deadline;
    CALL_BEGIN(closing);
    /* Close requests that each function under a grant ends, and its lock stays held until then:
     * while there is time nobody else is granted it. Acquires that wait are given up immediately,
     * because such a function may wait for one of them. */
    if (session->tasks.first) {
        session->status.stopping = true;
        ZKL__EACH (struct zkl__task, task, &session->tasks, link) {
            task->stop(task->owner);
        }
        zkl__session_wake(session);
        ZKL__EACH_LEAVING (struct zkl__object, object, &session->objects, link) {
            if (object->ops->is_waiting && object->ops->is_waiting(object)) {
                zkl__object_stop(object);
            }
        }
    }
    AWAIT_UNTIL(closing, late || !session->tasks.first);
    /* Everything that is pending ends, and everything that is held is released. */
    session->status.closing = true;
    ZKL__EACH_LEAVING (struct zkl__object, object, &session->objects, link) {
        zkl__object_stop(object); /* what its user has freed may end here */
    }
    zkl__calls_close(session);
    zkl__session_wake(session); /* calls that wait in other threads */
    zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_CLOSE});
    AWAIT_UNTIL(closing, late || zkl__core_idle(session->core));
    return ZKL_OK;
    CALL_END(closing);
}

void zkl__session_poke_close(zkl_session *session)
{
    zkl__signal_raise(&session->status.changed);
    if (session->closing.done) {
        zkl__alarms_set(&session->alarms, &session->closing.alarm, 0);
    }
}

/* --- the threads and the store end ------------------------------------------------------------ */

#define OPENING_NS (500 * ZKL__MS) /* more than an open takes that waits for nobody */

/* Until the deadline, as a timeout. */
static int64_t time_left_ms(int64_t deadline)
{
    return deadline == INT64_MAX ? ZKL_WAIT_FOREVER : zkl__session_left(deadline) / ZKL__MS;
}

/* Session mutex held. The store, if there is one, is the caller's to close. */
static void take_store(zkl_session *session)
{
    struct zkl__closing *closing = &session->closing;
    closing->store = session->store;
    closing->nothing_left = !closing->store || session->status.state == ZKL_SESSION_LOST;
    session->store = NULL; /* before it is closed: who lets go of an object meanwhile has nothing to
                              send any more */
}

/* Session mutex held: nothing will happen any more. */
static void mark_closed(zkl_session *session)
{
    session->status.closed = true;
    zkl__settings_wipe(&session->settings); /* its memory may stay until the last object is freed */
    zkl__stops_end_all(session);
    zkl__session_set_state(session, ZKL_SESSION_CLOSED, ZKL_ECLOSED);
    zkl__session_wake(session);
}

static void drop(void *session)
{
    zkl__session_drop(session);
}

/* Who opens a store may wait for a name server, or in a child of fork for ever, for a lock of the C
 * library's that a thread of the parent had. True: it is left behind, with the session's memory. */
static bool leave_opener(zkl_session *session, int64_t deadline)
{
    int64_t least = zkl__clock_now() + OPENING_NS;
    deadline = deadline > least ? deadline : least;
    pthread_mutex_lock(&session->mutex);
    while (session->opening && zkl__clock_now() < deadline) {
        zkl__signal_wait(&session->status.changed, &session->mutex, deadline);
    }
    bool left = session->opening;
    if (left) {
        zkl__session_retain(session);
        zkl__alarms_retire(&session->alarms, drop, session);
    }
    pthread_mutex_unlock(&session->mutex);
    return left;
}

int zkl__session_stop(zkl_session *session, int64_t deadline)
{
    bool left_behind = session->opening && leave_opener(session, deadline);
    zkl__alarms_stop(&session->alarms);
    int64_t left = time_left_ms(deadline);
    struct zkl__closing *closing = &session->closing;
    pthread_mutex_lock(&session->mutex);
    take_store(session);
    pthread_mutex_unlock(&session->mutex);
    int rc = closing->store ? session->store_ops->close(closing->store, left, NULL) : ZKL_OK;
    rc = left_behind ? ZKL_ETIMEOUT : closing->nothing_left ? ZKL_OK : rc;
    pthread_mutex_lock(&session->mutex);
    mark_closed(session);
    pthread_mutex_unlock(&session->mutex);
    zkl__alarms_join(&session->alarms);
    zkl__callbacks_stop(&session->callbacks);
    if (zkl__session_forked(session)) {
        return ZKL_EFORKED; /* by a callback that was run here */
    }
    zkl__session_drop(session);
    return rc;
}

/* --- waited for ------------------------------------------------------------------------------ */

int zkl_session_close(zkl_session *session, int64_t timeout_ms)
{
    if (!session) {
        return ZKL_OK;
    }
    int rc = zkl__timeout_check(timeout_ms, NULL);
    rc = rc == ZKL_OK ? zkl__session_enter_even_closed(session, NULL) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    struct zkl__closing *closing = &session->closing;
    bool inside = zkl__callbacks_inside(&session->callbacks, NULL);
    ZKL__EACH (struct zkl__task, task, &session->tasks, link) {
        inside = inside || pthread_equal(task->thread, pthread_self());
    }
    if (inside) {
        rc = ZKL_EDEADLK;
    } else if (closing->deadline > 0) {
        rc = ZKL_ECLOSED;
    } else {
        closing->deadline = zkl__session_deadline(timeout_ms);
        while (await_nothing_left(session) != ZKL_OK) {
            zkl__session_wait(session, &session->status.changed, closing->deadline);
        }
    }
    zkl__session_leave(session);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl__cancel_hold();
    rc = zkl__session_stop(session, closing->deadline);
    zkl__cancel_allow();
    return rc == ZKL_OK || rc == ZKL_EFORKED ? rc : ZKL_ETIMEOUT;
}

/* --- asynchronous ---------------------------------------------------------------------------- */

/* Session mutex not held. The thread that runs callbacks keeps the memory until this returns. */
static void run_done(void *owner)
{
    zkl_session *session = owner;
    zkl_error err = {.code = ZKL_OK};
    if (!zkl__session_enter_if_ours(session)) {
        return;
    }
    struct zkl__closing closing = session->closing;
    zkl__session_retain(session);
    zkl__callbacks_retire(&session->callbacks, drop, session);
    zkl__session_drop(session); /* the user's */
    zkl__session_leave(session);
    if (closing.code != ZKL_OK) {
        zkl__fail_at(&err, closing.code, NULL,
                     "closed; the servers did not confirm in time that the session has ended");
    }
    closing.done(closing.code, &err, closing.payload);
}

/* The ring of closing->alarm. */
static void go_on(void *owner)
{
    zkl_session *session = owner;
    struct zkl__closing *closing = &session->closing;
    int64_t again = closing->deadline, again_ms = 0;
    int rc = ZKL_OK;
    if (!closing->parting && await_nothing_left(session) == ZKL_OK) {
        closing->parting = true;
        take_store(session);
    }
    if (closing->store) {
        int64_t left_ms = time_left_ms(closing->deadline);
        pthread_mutex_unlock(&session->mutex);
        rc = session->store_ops->close(closing->store, left_ms, &again_ms);
        pthread_mutex_lock(&session->mutex);
        again = zkl__session_deadline(again_ms);
    }
    if (!closing->parting || again_ms != 0) {
        if (!closing->alarm.timer.set) { /* else something came of the steps just made */
            zkl__alarms_set(&session->alarms, &closing->alarm, again);
        }
        zkl__session_arm(session);
        return;
    }
    closing->code = rc == ZKL_OK || closing->nothing_left ? ZKL_OK : ZKL_ETIMEOUT;
    mark_closed(session);
    zkl__callbacks_post(&session->callbacks, &closing->callback);
    zkl__alarms_set(&session->alarms, &closing->alarm, INT64_MAX);
    zkl__session_retain(session);
    zkl__alarms_retire(&session->alarms, drop, session);
}

int zkl_session_close_async(zkl_session *session, int64_t timeout_ms, zkl_done_fn done,
                            void *payload, zkl_error *err)
{
    if (!session || !done) {
        return zkl__fail_null(err, session ? "done" : "session");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    rc = rc == ZKL_OK ? zkl__session_enter_even_closed(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    struct zkl__closing *closing = &session->closing;
    rc = closing->deadline > 0 ? zkl__fail_at(err, ZKL_ECLOSED, NULL,
                                              "the session is closed: zkl_session_close was called")
                               : zkl__session_want_callbacks(session, NULL, err);
    if (rc == ZKL_OK) {
        closing->done = done;
        closing->payload = payload;
        closing->alarm = (struct zkl__alarm){.ring = go_on, .owner = session};
        closing->callback = (struct zkl__callback){.run = run_done, .owner = session};
        closing->deadline = zkl__session_deadline(timeout_ms);
        (void)await_nothing_left(
            session); /* the rest where alarms ring: a store may be being opened there */
        zkl__session_poke_close(session);
    }
    zkl__session_leave(session);
    return rc;
}
