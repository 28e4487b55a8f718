/* section.h - a function under a grant, and the flag that tells it in time to end. */
#ifndef ZKL_RECIPES_SECTION_H
#define ZKL_RECIPES_SECTION_H

#include "lock.h"

#include <stdatomic.h>

struct zkl_cancel {
    zkl_lock *lock;
    int fd;
    atomic_bool raised;
    bool ran;        /* the function was called */
    zkl_grant grant; /* under which it was: what ends this ends the section, and no other grant of
                        the lock is the section's */
    int64_t release_by; /* how long the release may wait for the server at most; INT64_MAX: as the
                           options say */
    struct zkl__margin margin;
    struct zkl__listener listener;
    struct zkl__task task;
    struct zkl__stops stops;
};

/* Not inside. Until deinit the thread is not cancelled. Errors: ZKL_EINVAL (a margin that does not
 * fit the lease), ZKL_ELIMIT (no descriptor), ZKL_ECLOSED, ZKL_EFORKED: then there is nothing to
 * deinit. */
int zkl__section_init(zkl_cancel *cancel, zkl_lock *lock, int64_t margin_ms, zkl_error *err);
void zkl__section_deinit(zkl_cancel *cancel);

/* Not inside. Acquires, runs, releases: as zkl_with_lock. May be called again, with the flag down.
 */
int zkl__section_run(zkl_cancel *cancel, int64_t timeout_ms, zkl_section_fn section, void *payload,
                     int *result, zkl_error *err);
/* Not inside. Raises the flag of whatever runs under this lock, and ends its zkl_election_run;
 * false when nothing does. */
bool zkl__section_cancel(zkl_lock *lock);

#endif
