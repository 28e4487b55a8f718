/* shell.c - what recipes stand on: the mutex, the clock, waiting, the session's objects. */

#include "shell.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* === the shell ================================================================================ */

#define PAUSE_LEAST (100 * ZKL__MS)
#define PAUSE_MOST (5000 * ZKL__MS)

bool zkl__session_forked(const zkl_session *session)
{
    return zkl__process_known() != session->process;
}

bool zkl__session_enter_if_ours(zkl_session *session)
{
    /* In a child of fork the mutex may be held by a thread that does not exist there: it is not
     * even looked at. */
    if (zkl__session_forked(session)) {
        return false;
    }
    zkl__cancel_hold();
    zkl__session_retain(session);
    pthread_mutex_lock(&session->mutex);
    return true;
}

int zkl__session_enter_even_closed(zkl_session *session, zkl_error *err)
{
    return zkl__session_enter_if_ours(session)
               ? ZKL_OK
               : zkl__fail_at(err, ZKL_EFORKED, NULL,
                              "the session was opened by process %ld: open one in this process",
                              (long)session->pid);
}

int zkl__session_enter(zkl_session *session, zkl_error *err)
{
    int rc = zkl__session_enter_even_closed(session, err);
    if (rc != ZKL_OK || (!session->status.closing && session->status.state != ZKL_SESSION_CLOSED)) {
        return rc;
    }
    const char *why = session->status.closing ? "zkl_session_close was called"
                                              : zkl_strerror(session->status.why);
    zkl__session_leave(session);
    return zkl__fail_at(err, ZKL_ECLOSED, NULL, "the session is closed: %s", why);
}

void zkl__session_leave(zkl_session *session)
{
    /* When a callback forked since enter, the child has no mutex, and the timer is the parent's,
     * too. */
    if (!zkl__session_forked(session)) {
        zkl__session_arm(session);
        pthread_mutex_unlock(&session->mutex);
        zkl__session_drop(session);
    }
    zkl__cancel_allow();
}

int zkl__session_want_callbacks(zkl_session *session, const char *path, zkl_error *err)
{
    return zkl__callbacks_want(&session->callbacks) == ZKL_OK
               ? ZKL_OK
               : zkl__fail_at(err, ZKL_ELIMIT, path, "no thread for callbacks");
}

void zkl__session_retain(zkl_session *session)
{
    atomic_fetch_add(&session->refs, 1);
}

void zkl__session_drop(zkl_session *session)
{
    if (atomic_fetch_sub(&session->refs, 1) == 1) {
        zkl__session_free(session);
    }
}

void zkl__session_arm(zkl_session *session)
{
    zkl__alarms_set(&session->alarms, &session->core_alarm, zkl__core_next(session->core));
}

int64_t zkl__session_deadline(int64_t timeout_ms)
{
    bool never = timeout_ms < 0 || timeout_ms > INT64_MAX / 2 / ZKL__MS;
    return never ? INT64_MAX : zkl__clock_now() + timeout_ms * ZKL__MS;
}

int64_t zkl__session_left(int64_t until)
{
    int64_t now = zkl__clock_now();
    return until > now ? until - now : 0;
}

void zkl__session_event(zkl_session *session, struct zkl__event event)
{
    event.now =
        zkl__clock_now(); /* read inside the mutex: no step is earlier than the one before */
    zkl__session_step(session->core, &event);
    if (session->status.closing) {
        zkl__session_poke_close(session); /* it waits for the core to be idle */
    }
}

bool zkl__out_of_descriptors(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    if (fd < 0) {
        return errno == EMFILE || errno == ENFILE;
    }
    close(fd);
    return false;
}

/* --- waiting --------------------------------------------------------------------------------- */

bool zkl__session_wait(zkl_session *session, struct zkl__signal *signal, int64_t deadline)
{
    if (session->status.closed || zkl__clock_now() >= deadline) {
        return false;
    }
    struct zkl__sleeper me = {.signal = signal};
    zkl__list_prepend(&session->sleepers, &me.link);
    zkl__session_arm(session);
    zkl__signal_wait(signal, &session->mutex, deadline);
    zkl__list_remove(&session->sleepers, &me.link);
    return !session->status.closed && zkl__clock_now() < deadline;
}

/* --- being called at a time ------------------------------------------------------------------ */

void zkl__retry_later(zkl_session *session, struct zkl__retry *retry)
{
    retry->pause = zkl__backoff(retry->pause, PAUSE_LEAST, PAUSE_MOST);
    zkl__alarms_set(&session->alarms, &retry->alarm, zkl__clock_now() + retry->pause);
}

static void look(void *owner)
{
    struct zkl__margin *margin = owner;
    int64_t until = margin->until(margin->owner), left = zkl__session_left(until);
    if (left <= margin->ns) {
        margin->reached(margin->owner);
    } else {
        zkl__alarms_set(&margin->session->alarms, &margin->alarm,
                        until < INT64_MAX ? until - margin->ns : until);
    }
}

void zkl__margin_watch(struct zkl__margin *margin)
{
    margin->alarm.ring = look;
    margin->alarm.owner = margin;
    look(margin);
}

/* --- tasks ----------------------------------------------------------------------------------- */

void zkl__session_task_begin(zkl_session *session, struct zkl__task *task)
{
    task->thread = pthread_self();
    zkl__list_prepend(&session->tasks, &task->link);
}

void zkl__session_task_end(zkl_session *session, struct zkl__task *task)
{
    zkl__list_remove(&session->tasks, &task->link);
    zkl__session_poke_close(session); /* it may wait for the last one */
}

/* === stop tokens ============================================================================== */

static void end_wait(struct zkl__stop_wait *wait)
{
    if (wait->stop) {
        zkl__list_remove(wait->in, &wait->link);
        zkl__stop_give_back(wait->stop, wait->slot);
        wait->stop = NULL;
    }
}

void zkl__stops_end(struct zkl__stops *stops)
{
    end_wait(&stops->waits[0]);
    end_wait(&stops->waits[1]);
}

void zkl__stops_end_all(zkl_session *session)
{
    ZKL__EACH_LEAVING (struct zkl__stop_wait, wait, &session->stop_waits, link) {
        end_wait(wait);
    }
}

int zkl__stops_begin(zkl_session *session, struct zkl__stops *stops, zkl_stop *own,
                     void (*raised)(void *owner), void *owner, zkl_error *err)
{
    zkl_stop *both[2] = {session->settings.options.stop, own};
    int rc = ZKL_OK;
    *stops = (struct zkl__stops){{{.stop = NULL}, {.stop = NULL}}};
    for (int i = 0; i < 2 && rc == ZKL_OK; i++) {
        zkl_stop *stop = both[i];
        struct zkl__stop_wait *wait = &stops->waits[i];
        if (!stop) {
            continue;
        }
        int descriptor = zkl__alarms_poke_descriptor(&session->alarms, &session->stop_alarm);
        int slot = descriptor >= 0 ? zkl__stop_take(stop, session->process, descriptor) : -1;
        if (slot >= 0) {
            *wait = (struct zkl__stop_wait){.stop = stop,
                                            .slot = slot,
                                            .raised = raised,
                                            .owner = owner,
                                            .in = &session->stop_waits};
            zkl__list_prepend(wait->in, &wait->link);
        } else {
            rc = zkl__fail_at(err, ZKL_ELIMIT, NULL,
                              descriptor >= 0 ? "%d sessions wait under this stop token already"
                                              : "no descriptor for a stop token",
                              ZKL_STOP_SESSIONS_MAX);
        }
    }
    /* Behind taking the slots: raised before that, and nobody has written to us. */
    if (rc == ZKL_OK && (zkl_stop_raised(both[0]) || zkl_stop_raised(both[1]))) {
        rc = zkl__fail_at(err, ZKL_ECANCELED, NULL, "the stop token is raised");
    }
    if (rc != ZKL_OK) {
        zkl__stops_end(stops);
    }
    return rc;
}

/* --- the session's own, and the alarm -------------------------------------------------------- */

static void wake_all(void *session)
{
    zkl__session_wake(session);
}

/* Calls each wait whose token is raised. A call may end waits, also others' than its own: those are
 * in a list of their own until they are called. */
static void session_ring_stop(void *arg)
{
    zkl_session *session = arg;
    struct zkl__list *raised = &session->stop_raised;
    ZKL__EACH_LEAVING (struct zkl__stop_wait, wait, &session->stop_waits, link) {
        if (zkl_stop_raised(wait->stop)) {
            zkl__list_remove(&session->stop_waits, &wait->link);
            wait->in = raised;
            zkl__list_append(raised, &wait->link);
        }
    }
    while (raised->first) {
        struct zkl__stop_wait *wait = ZKL__OWNER(raised->first, struct zkl__stop_wait, link);
        end_wait(wait);
        wait->raised(wait->owner);
    }
    zkl__session_arm(session);
}

int zkl__stop_watch(zkl_session *session, zkl_error *err)
{
    session->stop_alarm = (struct zkl__alarm){.ring = session_ring_stop, .owner = session};
    return zkl__stops_begin(session, &session->stops, NULL, wake_all, session, err);
}
