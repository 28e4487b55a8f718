/* guarded.h - a call on a lock as a procedure: it ends with the lock, and what only the holder may
 * do ends with the lease, too. All inside enter/leave. */
#ifndef ZKL_RECIPES_GUARDED_H
#define ZKL_RECIPES_GUARDED_H

#include "call.h"
#include "lock.h"

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
