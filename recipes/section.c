/* section.c - zkl_with_lock: a function under a lock, and a flag that tells it in time to end. */
#include "place.h"

#include "error.h"

#include <zklock/lock.h>

#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct zkl_cancel {
    zkl_lock *lock; /* begins with its place */
    zkl_session *session;
    int64_t margin_ns;
    int fd;
    atomic_bool raised;
    struct zkl__alarm alarm; /* when the lease, as known now, is down to the margin */
    struct zkl__ear ear;
};

static void raise_flag(void *owner)
{
    struct zkl_cancel *cancel = owner;
    if (!atomic_exchange(&cancel->raised, true)) {
        eventfd_write(cancel->fd, 1);
    }
}

/* The lease has most often grown since the alarm was set. */
static void look(void *owner)
{
    struct zkl_cancel *cancel = owner;
    struct zkl__standing now = zkl__place_look((const struct zkl__place *)cancel->lock);
    int64_t rest = now.remaining_ns - cancel->margin_ns;
    if (rest <= 0) {
        raise_flag(cancel);
    } else {
        zkl__alarms_set(zkl__session_alarms(cancel->session), &cancel->alarm, zkl__session_now(cancel->session) + rest);
    }
}

bool zkl_cancel_raised(const zkl_cancel *cancel)
{
    const struct zkl__place *place = (const struct zkl__place *)cancel->lock;
    return atomic_load(&cancel->raised) || zkl__place_standing(place).remaining_ns <= cancel->margin_ns;
}

int64_t zkl_cancel_remaining_ms(const zkl_cancel *cancel)
{
    return zkl_lock_remaining_ms(cancel->lock);
}

int zkl_cancel_fd(const zkl_cancel *cancel)
{
    return cancel->fd;
}

static void watch(struct zkl_cancel *cancel)
{
    if (zkl__session_enter(cancel->session, true, NULL) == ZKL_OK) {
        zkl__place_listen((struct zkl__place *)cancel->lock, &cancel->ear);
        look(cancel); /* not held any more: raised at once */
        zkl__session_leave(cancel->session);
    }
}

static void unwatch(struct zkl_cancel *cancel)
{
    if (zkl__session_enter(cancel->session, true, NULL) == ZKL_OK) {
        zkl__alarms_unset(zkl__session_alarms(cancel->session), &cancel->alarm);
        zkl__place_unlisten((struct zkl__place *)cancel->lock, &cancel->ear);
        zkl__session_leave(cancel->session);
    }
}

/* Refuses a margin that a lease in good health goes below between two heartbeats. */
static int set_margin(struct zkl_cancel *cancel, int64_t margin_ms, zkl_error *err)
{
    int64_t least_ms = zkl_session_least_lease_ms(cancel->session);
    cancel->margin_ns = margin_ms > 0 ? margin_ms * ZKL__MS : least_ms * ZKL__MS / 3;
    return zkl__range_check("margin_ms", margin_ms, 0, least_ms > 0 ? least_ms - 1 : 0, err);
}

static int run_section(struct zkl_cancel *cancel, int64_t timeout_ms, zkl_section_fn section, void *payload,
                       int *result, zkl_error *err)
{
    zkl_grant grant;
    int rc = zkl_lock_acquire(cancel->lock, timeout_ms, &grant, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    watch(cancel);
    int value = section(cancel, grant.token, payload);
    unwatch(cancel);
    if (result) {
        *result = value;
    }
    return zkl_lock_release(cancel->lock, err);
}

int zkl_with_lock(zkl_lock *lock, int64_t timeout_ms, int64_t margin_ms, zkl_section_fn section, void *payload,
                  int *result, zkl_error *err)
{
    if (!lock || !section) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", lock ? "section" : "lock");
    }
    struct zkl_cancel cancel = {.lock = lock, .session = ((struct zkl__place *)lock)->session};
    atomic_init(&cancel.raised, false);
    cancel.alarm = (struct zkl__alarm){.ring = look, .owner = &cancel};
    cancel.ear = (struct zkl__ear){.ended = raise_flag, .owner = &cancel};
    int rc = zkl__session_enter(cancel.session, false, err); /* closed, forked: said before anything else is */
    if (rc == ZKL_OK) {
        zkl__session_leave(cancel.session);
        rc = set_margin(&cancel, margin_ms, err);
    }
    if (rc != ZKL_OK) {
        return rc;
    }
    cancel.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cancel.fd < 0) {
        return zkl__fail(err, ZKL_ELIMIT, 0, zkl_lock_path(lock), "no descriptor for the flag");
    }
    rc = run_section(&cancel, timeout_ms, section, payload, result, err);
    close(cancel.fd);
    return rc;
}
