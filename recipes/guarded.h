/* guarded.h - a call on a lock as a procedure: it ends with the lock, and what only the holder may
 * do ends with the lease, too. All inside enter/leave. */
#ifndef ZKL_RECIPES_GUARDED_H
#define ZKL_RECIPES_GUARDED_H

#include "await.h"
#include "lock.h"

/* zkl__call_go on a lock. path: checked; NULL: the lock's. Not inside. */
int zkl__lock_call(const struct zkl__call_kind *kind, const void *given, zkl_lock *lock,
                   const char *path, int64_t timeout_ms, const struct zkl__later *later,
                   zkl_error *err);

/* For begin of a call, which ends with the lock and under its stop token. Takes a reference to the
 * lock, which the call's end gives back. */
void zkl__call_bind(struct zkl__call *call, zkl_lock *lock);
/* The same of what only the holder may do: it ends with the lease, too. It is not the caller's time
 * that is up then: the servers gave no reply, ZKL_ECONNECT. */
void zkl__call_bind_lease(struct zkl__call *call, zkl_lock *lock, const struct zkl__standing *held);

/* Takes a reference to the lock, which the procedure's end gives back. */
void zkl__lock_procedure(struct zkl__procedure *procedure, zkl_lock *lock,
                         const struct zkl__procedure_ops *ops, int64_t timeout_ms);

struct zkl__guarded {
    struct zkl__procedure procedure; /* first */
    zkl_lock *lock;
    bool in_lease; /* the caller's deadline comes before the lease's end */
};
/* The same, with the lease's end as deadline if that comes first. Returns how the lock stands. */
struct zkl__standing zkl__guarded_begin(struct zkl__guarded *guarded, zkl_lock *lock,
                                        const struct zkl__procedure_ops *ops, int64_t timeout_ms);
/* For its explain: the code of a result that is no success. When the lease's end came first, it is
 * not the caller's time that was up: the servers gave no answer. */
int zkl__guarded_code(const struct zkl__guarded *guarded, int rc);

#endif
