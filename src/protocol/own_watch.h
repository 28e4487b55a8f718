/* own_watch.h - the watch on our own znode. It serves three: a waiter that may be granted by an
 * announced release (announcement.h), a holder that takes requests to release (config.revocable),
 * and a holder whose znode somebody deletes by hand. The watch reports such a delete immediately,
 * however many locks the session holds. */
#ifndef ZKL_PROTOCOL_OWN_WATCH_H
#define ZKL_PROTOCOL_OWN_WATCH_H

#include "core.h"

struct zkl__own_watch {
    char *path;
    size_t room;
    bool armed;
    enum zkl__guard {
        ZKL__GUARD_NOT,
        ZKL__GUARD_LATER, /* at guard_at */
        ZKL__GUARD_NOW
    } guard;
    int64_t guard_at;
    int64_t revoked; /* mzxid of the last request that the owner was notified of */
};

/* The watch is set, as a response confirmed, and has not fired. */
static inline bool zkl__own_watch_armed(const struct zkl__own_watch *own)
{
    return own->armed;
}

void zkl__own_watch_free(struct zkl__contender *c);
void zkl__own_watch_stop(struct zkl__contender *c);
void zkl__own_watch_ask(struct zkl__contender *c);
/* The lock is held: decides from when on the znode is watched. */
void zkl__own_watch_hold(struct zkl__contender *c);
void zkl__own_watch_on_time(struct zkl__contender *c);
int64_t zkl__own_watch_wake(const struct zkl__contender *c);
/* Sends the request that the watch of a holder needs. */
void zkl__own_watch_advance(struct zkl__contender *c);
void zkl__own_watch_on_event(struct zkl__contender *c);
void zkl__own_watch_on_reply(struct zkl__contender *c);

#endif
