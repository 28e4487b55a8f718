/* grant.h - the gate before a grant, and how it ends. */
#ifndef ZKL_CORE_GRANT_H
#define ZKL_CORE_GRANT_H

#include <stdbool.h>
#include <stdint.h>

struct zkl__contender;
struct zkl__contender_actions;
struct zkl__contender_event;

struct zkl__grant {
    bool proved; /* the check that it may need was sent */
    int64_t hold_until;
    enum zkl__grant_end {
        ZKL__GRANT_KEPT,
        ZKL__GRANT_OVERSTAYED, /* the node is to go without waiting for the owner */
        ZKL__GRANT_RELEASED,   /* RELEASED is owed */
        ZKL__GRANT_HANDED_OVER /* the same, and it held until then: who is next may start as soon as
                                  the delete is on its way */
    } end;
};

/* By max_hold_ms, at that time. */
static inline bool zkl__grant_lasts(const struct zkl__grant *grant, int64_t now)
{
    return now < grant->hold_until;
}

/* RELEASED is owed. */
static inline bool zkl__grant_released(const struct zkl__grant *grant)
{
    return grant->end >= ZKL__GRANT_RELEASED;
}

static inline bool zkl__grant_overstayed(const struct zkl__grant *grant)
{
    return grant->end == ZKL__GRANT_OVERSTAYED;
}

static inline bool zkl__grant_hands_over(const struct zkl__grant *grant)
{
    return grant->end == ZKL__GRANT_HANDED_OVER;
}

/* Nobody is before us. */
void zkl__grant_prove(struct zkl__contender *c, const char *why);
/* The check was refused, or not done. */
void zkl__grant_unproved(struct zkl__contender *c);
/* Grants, or asks for what is missing. */
void zkl__grant_advance(struct zkl__contender *c, const struct zkl__contender_event *ev,
                        struct zkl__contender_actions *out);
void zkl__grant_give(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out);
/* When max_hold_ms have passed; not known yet: INT64_MAX. */
int64_t zkl__grant_wake(const struct zkl__contender *c);
/* They have. Also of an owner that lost before, and hangs: the node goes. */
void zkl__grant_overstay(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out);
void zkl__grant_lose(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out, const char *why);
void zkl__grant_on_release(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out);

#endif
