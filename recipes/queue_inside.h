/* queue_inside.h - what the functions for operators share: how they begin, and the list of a
 * queue. */
#ifndef ZKL_RECIPES_QUEUE_INSIDE_H
#define ZKL_RECIPES_QUEUE_INSIDE_H

#include "survey.h"

#include <zklock/queue.h>

/* Checks, and enters the session. out: where a result goes. */
int zkl__queue_enter(zkl_session *session, const void *out, const char *path, int64_t timeout_ms,
                     zkl_error *err);
struct zkl__queue_snapshot;
/* The list of a queue, as a part of a procedure. */
struct zkl__queue_listing {
    struct zkl__survey survey; /* first */
    struct zkl__queue_snapshot *snapshot;
};
/* path: lives until the end. */
void zkl__queue_listing_begin(struct zkl__queue_listing *listing, struct zkl__procedure *by,
                              const char *path);
/* ZKL_OK: *out is the list, and the caller's. */
int zkl__queue_listing_advance(struct zkl__queue_listing *listing, zkl_queue **out, zkl_error *err);
void zkl__queue_listing_end(struct zkl__queue_listing *listing);

#endif
