/* section.c - zkl_with_lock, and what other recipes run under a grant: a function of the user, and
 * a flag that is raised early enough before the lease ends. */
#include "handle.h"

#include <sys/eventfd.h>
#include <unistd.h>

/* Session mutex held. owner: the section's flag. */
static void raise_flag(void *owner)
{
    zkl_cancel *cancel = owner;
    if (!atomic_exchange(&cancel->raised, true)) {
        eventfd_write(cancel->fd, 1);
    }
}

void zkl__sections_raise(zkl_lock *lock)
{
    ZKL__EACH (zkl_cancel, cancel, &lock->sections, link) {
        raise_flag(cancel);
    }
}

static int64_t lease_until(const void *owner)
{
    const zkl_cancel *cancel = owner;
    struct zkl__lock_status now = zkl__lock_status_locked(cancel->lock);
    return zkl__is_held_under(&now, &cancel->grant) ? now.until : 0;
}

/* ns; 0: not held under the section's grant. */
static int64_t lease_left(const zkl_cancel *cancel)
{
    struct zkl__lock_status now = zkl__lock_status(cancel->lock);
    return zkl__is_held_under(&now, &cancel->grant) ? zkl__session_left(now.until) : 0;
}

bool zkl_cancel_raised(const zkl_cancel *cancel)
{
    return atomic_load(&cancel->raised) || lease_left(cancel) <= cancel->margin.ns;
}

int64_t zkl_cancel_remaining_ms(const zkl_cancel *cancel)
{
    return lease_left(cancel) / ZKL__MS;
}

int zkl_cancel_fd(const zkl_cancel *cancel)
{
    return cancel->fd;
}

bool zkl__section_cancel(zkl_lock *lock)
{
    bool ends = lock->sections.first || lock->run;
    zkl__sections_raise(lock);
    if (lock->run) {
        raise_flag(lock->run);
    }
    /* Without leaving the mutex: no acquire of the run begins from now on, nor that of a section
     * which has none yet. */
    lock->refuses_acquires = lock->run || (ends && !lock->acquisition);
    return ends;
}

int zkl__section_run(zkl_cancel *cancel, int64_t timeout_ms, zkl_section_fn section, void *payload,
                     int *result, zkl_error *err)
{
    zkl_lock *lock = cancel->lock;
    zkl_session *session = lock->session;
    eventfd_t count;
    if (atomic_exchange(&cancel->raised, false)) {
        eventfd_read(cancel->fd, &count);
    }
    cancel->ran = false;

    /* Before the acquire, so that a cancel or a close reaches the section from then on. */
    int rc = zkl__session_enter(session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = zkl__stops_begin(session, &cancel->stops, lock->object.stop, raise_flag, cancel, err);
    if (rc == ZKL_OK) {
        zkl__session_task_begin(session, &cancel->task);
        zkl__list_prepend(&lock->sections, &cancel->link);
    }
    zkl__session_leave(session);
    if (rc != ZKL_OK) {
        return rc;
    }

    rc = zkl_lock_acquire(lock, timeout_ms, &cancel->grant, err);
    if (rc == ZKL_OK) {
        if (zkl__session_enter_if_ours(session)) {
            int64_t least = zkl__core_least_lease(session->core);
            if (cancel->third) {
                cancel->margin.ns = least > 0 ? least / 3 : 0;
            }
            zkl__margin_watch(&cancel->margin); /* raises the flag if the lock is lost already */
            zkl__session_leave(session);
        }
        cancel->ran = true;
        int value = section(cancel, cancel->grant.token, payload);
        if (result) {
            *result = value;
        }
    }

    if (rc == ZKL_OK) {
        rc = zkl__lock_release_grant(lock, &cancel->grant, cancel->release_by, zkl__caller_waits,
                                     NULL, err);
    }
    /* Another thread may have released the lock while the function ran (zkl_lock_free and
     * zkl_session_close do, too). Then the function was not protected to its end. The lock may have
     * been acquired again since, and that grant is not released here. */
    if (rc == ZKL_ENOTHELD) {
        rc = zkl__fail_at(err, ZKL_ELOST, lock->path,
                          "somebody else released the lock while the function ran");
    }
    /* After the release: until then zkl_session_close waits for the section. */
    if (zkl__session_enter_if_ours(session)) {
        zkl__alarms_set(&session->alarms, &cancel->margin.alarm, INT64_MAX);
        zkl__list_remove(&lock->sections, &cancel->link);
        lock->refuses_acquires &= lock->run != NULL;
        zkl__stops_end(&cancel->stops);
        zkl__session_task_end(session, &cancel->task);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl__margin_check(zkl_session *session, int64_t margin_ms, zkl_error *err)
{
    /* A healthy lease falls to the least one between two heartbeats, so the margin is less. Before
     * the first connection only the session timeout is known. */
    int64_t least_ms = zkl_session_least_lease_ms(session);
    return zkl__range_check(
        "margin_ms", margin_ms, 0,
        (least_ms > 0 ? least_ms : session->settings.options.session_timeout_ms) - 1, err);
}

int zkl__section_init(zkl_cancel *cancel, zkl_lock *lock, int64_t margin_ms, zkl_error *err)
{
    *cancel = (zkl_cancel){.lock = lock,
                           .fd = -1,
                           .release_by = INT64_MAX,
                           .task = {.stop = raise_flag, .owner = cancel}};
    atomic_init(&cancel->raised, false);
    cancel->margin = (struct zkl__margin){
        .session = lock->session, .until = lease_until, .reached = raise_flag, .owner = cancel};
    /* A thread that was cancelled within the function would leave the lock held, and the flag on a
     * stack that no longer exists. */
    zkl__cancel_hold();
    int rc = zkl__session_enter(lock->session, err); /* a closed or forked one is refused first */
    if (rc != ZKL_OK) {
        zkl__cancel_allow();
        return rc;
    }
    lock->object.refs++;
    zkl__session_leave(lock->session);
    rc = zkl__margin_check(lock->session, margin_ms, err);
    if (rc == ZKL_OK) {
        cancel->third = margin_ms == 0;
        cancel->margin.ns = margin_ms * ZKL__MS;
        cancel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        rc = cancel->fd < 0
                 ? zkl__fail_at(err, ZKL_ELIMIT, lock->path, "no descriptor for the flag")
                 : ZKL_OK;
    }
    if (rc != ZKL_OK) {
        zkl__section_deinit(cancel);
    }
    return rc;
}

void zkl__section_deinit(zkl_cancel *cancel)
{
    zkl_session *session = cancel->lock->session;
    if (cancel->fd >= 0) {
        close(cancel->fd);
    }
    if (zkl__session_enter_if_ours(session)) {
        zkl__object_unref(&cancel->lock->object);
        zkl__session_leave(session);
    }
    zkl__cancel_allow();
}

int zkl_with_lock(zkl_lock *lock, int64_t timeout_ms, int64_t margin_ms, zkl_section_fn section,
                  void *payload, int *result, zkl_error *err)
{
    if (!lock || !section) {
        return zkl__fail_null(err, lock ? "section" : "lock");
    }
    struct zkl_cancel cancel;
    int rc = zkl__section_init(&cancel, lock, margin_ms, err);
    if (rc == ZKL_OK) {
        rc = zkl__section_run(&cancel, timeout_ms, section, payload, result, err);
        zkl__section_deinit(&cancel);
    }
    return rc;
}
