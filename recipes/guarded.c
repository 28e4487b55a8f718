#include "guarded.h"

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
