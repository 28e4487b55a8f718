/* member_list.h - who is in a group: the children of a znode that live with a session (op.h),
 * shown on every change of them.
 *
 * The children are listed with a watch, and those of which nothing is known are looked at. A child
 * that was deleted before the look is not shown: the watch on the list has fired, and the next list
 * is without it. While the znode is missing nobody is shown, and the watch waits for it. */
#ifndef ZKL_PROTOCOL_MEMBER_LIST_H
#define ZKL_PROTOCOL_MEMBER_LIST_H

#include "children.h"
#include "watcher.h"

#define ZKL__LOOKS_MOST 16 /* under way: hides the round trip */

enum zkl__member_list_state {
    ZKL__LIST_STALE,   /* to be listed */
    ZKL__LIST_MISSING, /* the znode was; is it still? */
    ZKL__LIST_LOOKS,   /* listed: which of them live with a session? */
    ZKL__LIST_SHOWN,
    ZKL__LIST_STATES
};

struct zkl__member_list {
    struct zkl__watcher watcher;      /* first */
    const char *dir;                  /* the owner's */
    bool (*counts)(const char *name); /* NULL: all children do */
    /* Whether it may be listed now; when that becomes so, the owner wakes the watcher. NULL: it
     * always may. */
    bool (*wanted)(void *owner);
    /* Inside a step: these are the members. They are the owner's to free from now on. */
    void (*show)(void *owner, struct zkl__names *members);
    /* Inside a step: the servers refuse to list them, until they are shown. NULL: nobody asks. */
    void (*refused)(void *owner, enum zkl__rc rc);
    enum zkl__member_list_state state;
    struct zkl__children *children; /* of the last list; NULL: there was none */
    size_t looked; /* of them: the next look is at the first unknown from here on */
};

/* What the owner fills in is filled in. */
void zkl__member_list_begin(struct zkl__member_list *list, struct zkl__core *core, void *owner);
void zkl__member_list_end(struct zkl__member_list *list);
/* What was shown is out of date. The owner wakes the watcher. */
void zkl__member_list_renew(struct zkl__member_list *list);

#endif
