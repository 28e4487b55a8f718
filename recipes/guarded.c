#include "guarded.h"

#include "lock_internal.h"

int zkl__lock_call(const struct zkl__call_kind *kind, const void *given, zkl_lock *lock,
                   const char *path, int64_t timeout_ms, const struct zkl__later *later,
                   zkl_error *err)
{
    int rc = zkl__lock_enter(lock, timeout_ms, err);
    if (rc == ZKL_OK) {
        zkl_session *session = lock->session; /* the lock may be freed while the call waits */
        rc =
            zkl__call_begin(kind, given, session, path ? path : lock->path, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

void zkl__call_bind(struct zkl__call *call, zkl_lock *lock)
{
    zkl__lock_ref(lock);
    call->owner = &lock->object;
    call->stop = lock->options.stop;
}

void zkl__call_bind_lease(struct zkl__call *call, zkl_lock *lock, const struct zkl__standing *held)
{
    zkl__call_bind(call, lock);
    if (held->until <= call->deadline) {
        call->deadline = held->until;
        call->late_code = ZKL_ECONNECT;
    }
}
