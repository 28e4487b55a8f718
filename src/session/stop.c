#include "shell.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>

/* Values of zkl_stop.raised. 0: it is not raised. */
#define RAISED 1
#define RAISING 2 /* raised; zkl_stop_raise is at the slots, so no descriptor in them is closed */

/* zkl_stop.process: the process whose sessions are in the slots. 0: no session was in them. */
static uint32_t tag_of(uint64_t process)
{
    return (uint32_t)process << 1;
}

#define CLEARING 1u /* added to the tag: a thread of that process clears the slots */

/* --- what a signal handler may do ------------------------------------------------------------ */

static bool set_raised(zkl_stop *stop, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(&stop->raised, &from, to, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* In a child of fork the parent's descriptors may be other files by now: it writes only to those of
 * this process. A slot that is taken meanwhile is no slot it has to see: its session looks at the
 * flag after taking it. */
void zkl_stop_raise(zkl_stop *stop)
{
    int before = errno;
    if (!stop || !set_raised(stop, 0, RAISED)) {
        return;
    }
    uint32_t process = __atomic_load_n(&stop->process, __ATOMIC_SEQ_CST);
    if (process != 0 && process == tag_of(zkl__process_known())) {
        __atomic_store_n(&stop->raised, RAISING, __ATOMIC_SEQ_CST);
        for (int i = 0; i < ZKL_STOP_SESSIONS_MAX; i++) {
            int descriptor = __atomic_load_n(&stop->sessions[i].descriptor, __ATOMIC_SEQ_CST);
            if (descriptor > 0) {
                eventfd_write(descriptor - 1, 1);
            }
        }
        __atomic_store_n(&stop->raised, RAISED, __ATOMIC_SEQ_CST);
    }
    errno = before;
}

bool zkl_stop_raised(const zkl_stop *stop)
{
    return stop && __atomic_load_n(&stop->raised, __ATOMIC_SEQ_CST);
}

/* --- a session in a token -------------------------------------------------------------------- */

/* Before a session of this process takes a slot. In a child of fork the slots have the parent's
 * sessions, and a thread that was raising the token does not exist. Other sessions of the child may
 * be here at the same time: one of them clears the slots. */
static void clear_slots_of_parent(zkl_stop *stop, uint32_t own)
{
    uint32_t process = __atomic_load_n(&stop->process, __ATOMIC_SEQ_CST);
    while (process != own) {
        if (process == (own | CLEARING)) {
            sched_yield();
            process = __atomic_load_n(&stop->process, __ATOMIC_SEQ_CST);
        } else if (__atomic_compare_exchange_n(&stop->process, &process, own | CLEARING, false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            memset(stop->sessions, 0, sizeof stop->sessions);
            set_raised(stop, RAISING, RAISED);
            __atomic_store_n(&stop->process, own, __ATOMIC_SEQ_CST);
            process = own;
        }
    }
}

/* The slot of the session, which is taken if it has none; -1: all are others'. The descriptor is
 * kept as one more than it is, so that a zeroed token has no session. */
static int take_slot(zkl_stop *stop, int descriptor)
{
    for (int i = 0; i < ZKL_STOP_SESSIONS_MAX; i++) {
        if (__atomic_load_n(&stop->sessions[i].descriptor, __ATOMIC_SEQ_CST) == descriptor + 1) {
            return i;
        }
    }
    for (int i = 0; i < ZKL_STOP_SESSIONS_MAX; i++) {
        int32_t nobody = 0;
        if (__atomic_compare_exchange_n(&stop->sessions[i].descriptor, &nobody, descriptor + 1,
                                        false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            return i;
        }
    }
    return -1;
}

/* Afterwards nobody writes to the descriptor by way of this token. */
static void leave_slot(zkl_stop *stop, int slot)
{
    __atomic_store_n(&stop->sessions[slot].descriptor, 0, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&stop->raised, __ATOMIC_SEQ_CST) == RAISING) {
        sched_yield();
    }
}

static int begin(zkl_session *session, struct zkl__stop_wait *wait, zkl_error *err)
{
    zkl_stop *stop = wait->stop;
    int descriptor = zkl__alarms_poke_descriptor(&session->alarms, &session->stop_alarm);
    clear_slots_of_parent(stop, tag_of(session->process));
    wait->slot = descriptor >= 0 ? take_slot(stop, descriptor) : -1;
    if (wait->slot < 0) {
        wait->stop = NULL;
        return zkl__fail_at(err, ZKL_ELIMIT, NULL,
                            descriptor >= 0 ? "%d sessions wait under this stop token already"
                                            : "no descriptor for a stop token",
                            ZKL_STOP_SESSIONS_MAX);
    }
    stop->sessions[wait->slot].waits++; /* the session's mutex guards it: the slot is its own */
    wait->in = &session->stop_waits;
    zkl__list_prepend(wait->in, &wait->link);
    return ZKL_OK;
}

static void end(struct zkl__stop_wait *wait)
{
    zkl_stop *stop = wait->stop;
    if (!stop) {
        return;
    }
    if (wait->in) {
        zkl__list_remove(wait->in, &wait->link);
    }
    if (--stop->sessions[wait->slot].waits == 0) {
        leave_slot(stop, wait->slot);
    }
    wait->stop = NULL;
}

void zkl__stops_end(zkl_session *session, struct zkl__stops *stops)
{
    (void)session;
    end(&stops->waits[0]);
    end(&stops->waits[1]);
}

int zkl__stops_begin(zkl_session *session, struct zkl__stops *stops, zkl_stop *own,
                     void (*raised)(void *owner), void *owner, zkl_error *err)
{
    zkl_stop *both[2] = {session->settings.options.stop, own};
    int rc = ZKL_OK;
    *stops = (struct zkl__stops){{{.stop = NULL}, {.stop = NULL}}};
    for (int i = 0; i < 2 && rc == ZKL_OK; i++) {
        if (both[i]) {
            stops->waits[i] =
                (struct zkl__stop_wait){.stop = both[i], .raised = raised, .owner = owner};
            rc = begin(session, &stops->waits[i], err);
        }
    }
    /* Behind taking the slots: raised before that, and nobody has written to us. */
    if (rc == ZKL_OK && (zkl_stop_raised(both[0]) || zkl_stop_raised(both[1]))) {
        rc = zkl__fail_at(err, ZKL_ECANCELED, NULL, "the stop token is raised");
    }
    if (rc != ZKL_OK) {
        zkl__stops_end(session, stops);
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
        zkl__list_remove(raised, &wait->link);
        wait->in = NULL;
        wait->raised(wait->owner);
    }
    zkl__session_arm(session);
}

int zkl__stop_watch(zkl_session *session, zkl_error *err)
{
    session->stop_alarm = (struct zkl__alarm){.ring = session_ring_stop, .owner = session};
    return zkl__stops_begin(session, &session->stops, NULL, wake_all, session, err);
}
