/* watcher.h - a machine that watches a path: it sends one operation after the other, keeps one
 * watch, and pauses, each time for longer, after what the servers refused or did not answer. It
 * acts after those who wait for a lock.
 *
 * A membership, the list of a group's members and the observer of an election are watchers. Each
 * decides with the functions below, which are called inside a step, and know no time. */
#ifndef ZKL_PROTOCOL_WATCHER_H
#define ZKL_PROTOCOL_WATCHER_H

#include "core.h"

struct zkl__watcher;
struct zkl__watcher_ops {
    /* Connected, and its operation is not under way: the next one; false: none is to be sent now.
     * *look: -1, or the number of a look, of which several may be under way beside each other. */
    bool (*next)(struct zkl__watcher *watcher, struct zkl__op *op, int *look);
    /* The server's reply, but for "try again" (ZKL__RC_NOTAPPLIED), which is none. No look that was
     * sent before is answered any more. */
    void (*answered)(struct zkl__watcher *watcher, const struct zkl__reply *reply);
    /* The same of a look. NULL: it has none. */
    void (*looked)(struct zkl__watcher *watcher, int look, const struct zkl__reply *reply);
    /* What it watches changed, or the session is over. Never between an operation and its reply,
     * unless the session is over. */
    void (*changed)(struct zkl__watcher *watcher, bool session_over);
    /* The last thing in a step in which nothing was to be sent: it may end here. NULL: nothing. */
    void (*rests)(struct zkl__watcher *watcher);
};

/* The owner's memory, zeroed before it begins. */
struct zkl__watcher {
    struct zkl__machine machine; /* first */
    const struct zkl__watcher_ops *ops;
    void *owner;
    struct zkl__core *core; /* NULL: not begun, or ended */
    struct zkl__link in_session;
    bool busy;        /* its operation is under way */
    bool missed;      /* and what it watches changed meanwhile */
    size_t looks;     /* under way */
    int64_t retry_at; /* nothing is sent before; 0: now */
    int64_t pause;    /* ns: the last one; 0: nothing was refused */
    bool over_limit;  /* the session had no room for the last watch: logged */
    struct zkl__watch watch;
    char *path; /* of the watch */
    size_t room;
};

/* It sends nothing before it is woken, or the session is connected. */
void zkl__watcher_begin(struct zkl__watcher *watcher, struct zkl__core *core,
                        const struct zkl__watcher_ops *ops, void *owner);
/* It acts no more, and its memory may go. Not begun, or ended: nothing. */
void zkl__watcher_end(struct zkl__watcher *watcher);

/* It acts in this step, whatever pause it made. From outside: ZKL__EV_WAKE. */
void zkl__watcher_wake(struct zkl__watcher *watcher);
/* It acts after a pause, each time a longer one until it sends nothing any more. */
void zkl__watcher_retry(struct zkl__watcher *watcher);
/* It watches nothing. */
void zkl__watcher_unwatch(struct zkl__watcher *watcher);

#endif
