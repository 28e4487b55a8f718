/* folders.h - whether the path of a lock is a semaphore's or a partition's: asked only where the
 * list shows both of its folders. Folders alone say nothing: anybody can leave two empty znodes
 * behind, which would deny the lock for ever. */
#ifndef ZKL_PROTOCOL_FOLDERS_H
#define ZKL_PROTOCOL_FOLDERS_H

#include <stdbool.h>

struct zkl__contender;
struct zkl__contender_actions;
struct zkl__contender_event;

struct zkl__folders {
    enum zkl__folders_stage {
        ZKL__FOLDERS_UNSEEN,
        ZKL__FOLDERS_LIMIT,  /* does its limit stand in the data of the path? */
        ZKL__FOLDERS_LOCKS,  /* who is the last in the one, */
        ZKL__FOLDERS_WAITER, /* and lives with a session? */
        ZKL__FOLDERS_LEASES, /* in the other? */
        ZKL__FOLDERS_LEASE,
        ZKL__FOLDERS_EMPTY /* no: they do not matter */
    } stage;
    bool partition; /* they are a partition's */
};

/* The list shows them, and it is not known whose they are: asked. */
bool zkl__folders_seen(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out);
bool zkl__folders_asked(const struct zkl__contender *c);
void zkl__folders_ask(struct zkl__contender *c, struct zkl__contender_actions *out);
void zkl__folders_on_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out);

#endif
