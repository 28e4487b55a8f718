/* section.h - a function of the user under a grant, and the flag that asks it to end. */
#ifndef ZKL_RECIPES_SECTION_H
#define ZKL_RECIPES_SECTION_H

#include "lock.h"

#include <stdatomic.h>

struct zkl_cancel {
    zkl_lock *lock;
    int fd;
    atomic_bool raised;
    bool ran;           /* the function was called */
    zkl_grant grant;    /* the section ends with this grant, and releases no other one */
    int64_t release_by; /* deadline of the release; INT64_MAX: only release_timeout_ms counts */
    struct zkl__margin margin;
    struct zkl__listener listener;
    struct zkl__task task;
    struct zkl__stops stops;
};

/* Session mutex not held. Until deinit the thread is not cancelled. Errors: ZKL_EINVAL (a margin
 * that does not fit the lease), ZKL_ELIMIT (no descriptor), ZKL_ECLOSED, ZKL_EFORKED: then there is
 * nothing to deinit. */
int zkl__section_init(zkl_cancel *cancel, zkl_lock *lock, int64_t margin_ms, zkl_error *err);
void zkl__section_deinit(zkl_cancel *cancel);

/* Session mutex not held. Acquires, runs, releases: as zkl_with_lock. May be called again, with the
 * flag down.
 */
int zkl__section_run(zkl_cancel *cancel, int64_t timeout_ms, zkl_section_fn section, void *payload,
                     int *result, zkl_error *err);
/* Session mutex not held. Raises the flag of whatever runs under this lock, and ends its
 * zkl_election_run; false when nothing does. */
bool zkl__section_cancel(zkl_lock *lock);

#endif
