/* guarded.h - a call on a lock: it ends with the lock, and what only the holder may do ends with
 * the lease, too. */
#ifndef ZKL_RECIPES_GUARDED_H
#define ZKL_RECIPES_GUARDED_H

#include "call.h"
#include "lock.h"

/* zkl__call_go on a lock. path: checked; NULL: the lock's. Not inside. */
int zkl__lock_call(const struct zkl__call_kind *kind, const void *given, zkl_lock *lock,
                   const char *path, int64_t timeout_ms, const struct zkl__later *later,
                   zkl_error *err);

/* For the begin of a call, which ends with the lock and under its stop token. Takes a reference to
 * the lock, which the call's end gives back. */
void zkl__call_bind(struct zkl__call *call, zkl_lock *lock);
/* The same of what only the holder may do: it ends with the lease, too. It is not the caller's time
 * that is up then: the servers gave no reply, ZKL_ECONNECT. */
void zkl__call_bind_lease(struct zkl__call *call, zkl_lock *lock, const struct zkl__standing *held);

#endif
