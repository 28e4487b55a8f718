/* grant.h - the gate before a grant, and how it ends. */
#ifndef ZKL_PROTOCOL_GRANT_H
#define ZKL_PROTOCOL_GRANT_H

#include <stdbool.h>
#include <stdint.h>

struct zkl__contender;

struct zkl__grant {
    bool proved;         /* the check that proves a lease before the grant was sent */
    int64_t hold_until;  /* by max_hold_ms; INT64_MAX: no limit */
    int64_t least_until; /* its node stays until then, also when it is released earlier; 0: no */
    int64_t stay_until;  /* it was: removing, but not before; 0: no */
    enum zkl__grant_end {
        ZKL__GRANT_KEPT,
        ZKL__GRANT_OVERSTAYED, /* max_hold_ms passed: delete the znode before the owner releases */
        ZKL__GRANT_RELEASED,   /* the owner must still be notified that the release is done */
        ZKL__GRANT_HANDED_OVER /* the same, and it was held until the release: the follower in this
                                  session may be granted as soon as the delete is sent */
    } end;
};

/* False once max_hold_ms have passed. */
static inline bool zkl__grant_lasts(const struct zkl__grant *grant, int64_t now)
{
    return now < grant->hold_until;
}

/* The owner must still be notified that the release is done. */
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

/* No conflicting contender precedes this one: it waits for what else a grant needs (enum gate in
 * grant.c). */
void zkl__grant_prove(struct zkl__contender *c, const char *why);
/* The check was refused, or not carried out: it may be sent again. */
void zkl__grant_unproved(struct zkl__contender *c);
/* Grants the lock, or sends the request that the grant still needs. */
void zkl__grant_advance(struct zkl__contender *c);
void zkl__grant_give(struct zkl__contender *c);
/* Grants a lock that lingered to its next owner. */
void zkl__grant_again(struct zkl__contender *c);
/* The time at which max_hold_ms will have passed; INT64_MAX: there is nothing to wait for. */
int64_t zkl__grant_wake(const struct zkl__contender *c);
/* max_hold_ms have passed: the znode is deleted, also if the owner had lost the lock before and
 * does not release it. */
void zkl__grant_overstay(struct zkl__contender *c);
void zkl__grant_lose(struct zkl__contender *c, const char *why);
/* Released, but its node is not to be deleted yet. */
static inline bool zkl__grant_stays(const struct zkl__grant *grant, int64_t now)
{
    return grant->stay_until > now;
}
static inline int64_t zkl__grant_stay_wake(const struct zkl__grant *grant)
{
    return grant->stay_until ? grant->stay_until : INT64_MAX;
}
static inline void zkl__grant_stay_on_time(struct zkl__grant *grant, int64_t now)
{
    grant->stay_until = grant->stay_until <= now ? 0 : grant->stay_until;
}
/* The session is being closed: a release deletes its node. True: it was released, and stayed. */
static inline bool zkl__grant_stay_no_longer(struct zkl__grant *grant)
{
    bool stayed = grant->stay_until != 0;
    grant->least_until = grant->stay_until = 0;
    return stayed;
}
void zkl__grant_on_release(struct zkl__contender *c);

#endif
