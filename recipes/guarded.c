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
    call->procedure.owner = &lock->object;
    call->procedure.stop = lock->options.stop;
}

void zkl__call_bind_lease(struct zkl__call *call, zkl_lock *lock, const struct zkl__standing *held)
{
    zkl__call_bind(call, lock);
    if (held->until <= call->procedure.deadline) {
        call->procedure.deadline = held->until;
        call->procedure.late_code = ZKL_ECONNECT;
    }
}

void zkl__lock_procedure(struct zkl__procedure *procedure, zkl_lock *lock,
                         const struct zkl__procedure_ops *ops, int64_t timeout_ms)
{
    zkl__lock_ref(lock);
    procedure->ops = ops;
    procedure->session = lock->session;
    procedure->owner = &lock->object;
    procedure->stop = lock->options.stop;
    zkl__procedure_limit(procedure, timeout_ms);
}

struct zkl__standing zkl__guarded_begin(struct zkl__guarded *guarded, zkl_lock *lock,
                                        const struct zkl__procedure_ops *ops, int64_t timeout_ms)
{
    struct zkl__standing held = zkl__lock_look(lock);
    zkl__lock_procedure(&guarded->procedure, lock, ops, timeout_ms);
    guarded->lock = lock;
    guarded->in_lease = guarded->procedure.deadline < held.until;
    guarded->procedure.deadline = guarded->in_lease ? guarded->procedure.deadline : held.until;
    return held;
}

int zkl__guarded_code(const struct zkl__guarded *guarded, int rc)
{
    return rc == ZKL_ETIMEOUT && !guarded->in_lease ? ZKL_ECONNECT : rc;
}
