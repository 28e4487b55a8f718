/* dirty_marker.h - config.mark: a holder writes a dirty marker into the data of the directory, and
 * clears it when it releases. So the next holder is notified of one that did not release. */
#ifndef ZKL_PROTOCOL_DIRTY_MARKER_H
#define ZKL_PROTOCOL_DIRTY_MARKER_H

#include "name.h"
#include "op.h"

struct zkl__contender;
struct zkl__contender_actions;
struct zkl__contender_event;

#define ZKL__MARK "held by "
#define ZKL__MARK_MAX (sizeof ZKL__MARK + ZKL__UUID_LENGTH)

/* Texts of dirty markers, as they are stored in the data of the directory. */
struct zkl__marks {
    char own[ZKL__MARK_MAX];   /* of this attempt */
    char older[ZKL__MARK_MAX]; /* of an earlier attempt of ours that was never granted */
};

struct zkl__marker {
    enum zkl__marker_state {
        ZKL__MARKER_UNREAD,
        ZKL__MARKER_READ, /* did the last holder release? */
        ZKL__MARKER_SENT, /* ours */
        ZKL__MARKER_SET,
        ZKL__MARKER_CLEARS /* the delete of our znode clears it, in one transaction */
    } state;
    bool unclean;             /* the last holder did not release */
    struct zkl__marks *marks; /* NULL without config.mark */
};

static inline bool zkl__marker_unclean(const struct zkl__marker *marker)
{
    return marker->unclean;
}

/* False: no memory. */
bool zkl__marker_init(struct zkl__contender *c);
void zkl__marker_free(struct zkl__contender *c);
void zkl__marker_new_attempt(struct zkl__contender *c);
/* The marker is written, or config.mark is off. */
bool zkl__marker_done(const struct zkl__contender *c);
void zkl__marker_ask(struct zkl__contender *c);
void zkl__marker_on_read(struct zkl__contender *c);
void zkl__marker_on_written(struct zkl__contender *c);

/* The contender was never granted, or does not hold any more: decides whether its delete clears the
 * marker. */
void zkl__marker_give_up(struct zkl__contender *c);
void zkl__marker_release(struct zkl__contender *c);
bool zkl__marker_clears(const struct zkl__contender *c);
struct zkl__op zkl__marker_clear_op(const struct zkl__contender *c);
/* The delete has cleared the marker. One that is there when a duplicate is deleted is the next
 * holder's. */
void zkl__marker_cleared(struct zkl__contender *c);
/* The delete was refused. It is sent again without the marker, because a directory that may not be
 * written must not keep the znode. */
void zkl__marker_refused(struct zkl__contender *c, enum zkl__rc rc);

#endif
