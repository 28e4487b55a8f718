/* dirty_marker.h - config.mark: whoever holds writes its mark on the directory, and takes it away
 * when it releases. So the next one learns of a holder that did not. */
#ifndef ZKL_CORE_DIRTY_MARKER_H
#define ZKL_CORE_DIRTY_MARKER_H

#include "name.h"
#include "op.h"

struct zkl__contender;
struct zkl__contender_actions;
struct zkl__contender_event;

#define ZKL__MARK "held by "
#define ZKL__MARK_MAX (sizeof ZKL__MARK + ZKL__UUID_LENGTH)

/* Of who holds, on the directory. */
struct zkl__marks {
    char own[ZKL__MARK_MAX];   /* of this attempt */
    char older[ZKL__MARK_MAX]; /* of an attempt of ours that never came to hold */
};

struct zkl__marker {
    enum zkl__marker_state {
        ZKL__MARKER_UNREAD,
        ZKL__MARKER_READ, /* did the last holder release? */
        ZKL__MARKER_SENT, /* ours */
        ZKL__MARKER_SET,
        ZKL__MARKER_CLEARS /* our node's delete takes it away with it */
    } state;
    bool unclean;             /* the last holder did not release */
    struct zkl__marks *marks; /* NULL without */
};

static inline bool zkl__marker_unclean(const struct zkl__marker *marker)
{
    return marker->unclean;
}

/* False: no memory. */
bool zkl__marker_init(struct zkl__contender *c);
void zkl__marker_free(struct zkl__contender *c);
void zkl__marker_new_attempt(struct zkl__contender *c);
/* Set, or none is wanted. */
bool zkl__marker_done(const struct zkl__contender *c);
void zkl__marker_ask(struct zkl__contender *c, struct zkl__contender_actions *out);
void zkl__marker_on_read(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out);
void zkl__marker_on_written(struct zkl__contender *c, const struct zkl__contender_event *ev,
                            struct zkl__contender_actions *out);

/* It never held, or holds no more: whether the delete clears. */
void zkl__marker_give_up(struct zkl__contender *c);
void zkl__marker_release(struct zkl__contender *c);
bool zkl__marker_clears(const struct zkl__contender *c);
struct zkl__op zkl__marker_clear_op(const struct zkl__contender *c);
/* The delete took it away: what is there when a duplicate goes is the next holder's. */
void zkl__marker_cleared(struct zkl__contender *c);
/* The delete was not done. A directory that may not be written must not keep the node alive. */
void zkl__marker_refused(struct zkl__contender *c, enum zkl__rc rc);

#endif
