/* observer.h - who leads an election, for a process that does not take part.
 *
 * The list is read; of the first candidate in it one get brings data and watch. Only while there is
 * no candidate is the list itself watched, or, while there is no directory, its making: so
 * candidates that come and go behind the leader wake nobody. The first candidate stays first until
 * its znode is deleted, since numbers only rise.
 *
 * A first candidate that may not be read is not watched: servers keep its events from us (see enum
 * zkl__read_access in queue.c). The list is, by the request that shows it still first. */
#ifndef ZKL_PROTOCOL_OBSERVER_H
#define ZKL_PROTOCOL_OBSERVER_H

#include "children.h"
#include "name_set.h"
#include "watcher.h"

enum zkl__observer_state {
    ZKL__OBSERVER_STALE,   /* to be listed */
    ZKL__OBSERVER_MISSING, /* the directory was; is it still? */
    ZKL__OBSERVER_EMPTY,   /* no candidate was in the list; is there still none? */
    ZKL__OBSERVER_READS,   /* the first candidate */
    ZKL__OBSERVER_REFUSED, /* it may not be read: does it live with a session? */
    ZKL__OBSERVER_HIDDEN,  /* it does, or nobody knows; is it still the first? */
    ZKL__OBSERVER_SHOWN,
    ZKL__OBSERVER_SHOWN_HIDDEN,
    ZKL__OBSERVER_STATES
};

/* Lives until show returns. */
struct zkl__leader {
    const char *node; /* NULL: nobody leads, and nothing of the rest is set */
    bool readable;    /* by us; else without data, and stat as far as the server tells it */
    struct zkl__stat stat;
    const void *data;
    size_t size;
};

struct zkl__observer {
    struct zkl__watcher watcher; /* first */
    const char *dir;             /* the owner's */
    /* Inside a step: that is so. False: no memory, it is to be shown again. */
    bool (*show)(void *owner, const struct zkl__leader *leader);
    enum zkl__observer_state state;
    char *first;                  /* name of the first candidate */
    struct zkl__stat stat;        /* of it, while it may not be read */
    struct zkl__name_set skipped; /* names that are no candidates': they live with no session */
    struct zkl__children *listed; /* in the order of their numbers; NULL: none was skipped before */
    size_t next;                  /* of these: those before it were skipped */
};

/* What the owner fills in is filled in. */
void zkl__observer_begin(struct zkl__observer *observer, struct zkl__core *core, void *owner);
void zkl__observer_end(struct zkl__observer *observer);

#endif
