/* vigil.h - waiting for a change of what was read, as a part of a procedure: read, then wait, and
 * again. Inside enter/leave. */
#ifndef ZKL_SESSION_VIGIL_H
#define ZKL_SESSION_VIGIL_H

#include "procedure.h"

struct zkl__vigil {
    struct zkl__procedure *by; /* NULL: not begun, or ended */
    struct zkl__watch watches[2];
    bool changed; /* since the last wait */
};

/* paths live until the end; the second may be NULL. */
void zkl__vigil_begin(struct zkl__vigil *vigil, struct zkl__procedure *by, const char *first,
                      const char *second);
/* The path of that number is watched from now on: for a read of it that is sent with `watch`.
 * ZKL_OK, ZKL_ELIMIT with words. */
int zkl__vigil_watch(struct zkl__vigil *vigil, int number, zkl_error *err);
/* For the procedure's advance. ZKL_OK: something that is watched has changed, the session too.
 * ZKL__PENDING, ZKL_ECLOSED. */
int zkl__vigil_advance(struct zkl__vigil *vigil, zkl_error *err);
/* For its end. Not begun: nothing. */
void zkl__vigil_end(struct zkl__vigil *vigil);

#endif
