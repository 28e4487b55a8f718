/* predecessor.h - the nearest contender before ours that must go first, and the watch on it. */
#ifndef ZKL_CORE_PREDECESSOR_H
#define ZKL_CORE_PREDECESSOR_H

#include "core.h"

struct zkl__contender_actions;
struct zkl__contender_event;
enum zkl__watch_change;

/* What the predecessor's access list lets us know. Since the fix of CVE-2024-23944 a server sends a
 * watch event only to a session that may READ the znode, and uses the watch up all the same
 * (WatchManager, NIOServerCnxn.process); since ZOOKEEPER-2590 exists needs READ, too
 * (FinalRequestProcessor). So a predecessor that refuses a get is not watched: the children of the
 * queue are, which every contender may list. */
enum zkl__sight {
    ZKL__SIGHT_READ, /* nothing refused: a get with a watch */
    ZKL__SIGHT_STAT, /* get is refused; an exists tells whether it is a contender at all, where that
                        is permitted */
    ZKL__SIGHT_NOTHING /* it counts as a contender */
};

struct zkl__predecessor {
    char *path;
    size_t room;
    enum zkl__sight sight;
    bool armed; /* the watch is set: on the predecessor, or on the queue's children if it may not be
                   read */
    bool changed;  /* the queue, while a list of it was under way that watches it */
    bool believed; /* if it announces its release */
    size_t told;   /* how many were last told to stand before ours, and one; 0: none */
};

void zkl__predecessor_free(struct zkl__contender *c);
/* Nothing is known of any. */
void zkl__predecessor_new_attempt(struct zkl__contender *c);
/* Asks nothing of it any more. */
void zkl__predecessor_unwatch(struct zkl__contender *c, struct zkl__contender_actions *out,
                              enum zkl__watch_change how);
/* Another connection may see more. */
void zkl__predecessor_on_connected(struct zkl__contender *c);
/* It is this child of the queue. False: no memory. */
bool zkl__predecessor_set(struct zkl__contender *c, const char *name);
/* Which child that is. */
const char *zkl__predecessor_name(const struct zkl__contender *c);
/* Whether the next list is to watch the queue. */
bool zkl__predecessor_list_watches(struct zkl__contender *c, struct zkl__contender_actions *out);
void zkl__predecessor_look(struct zkl__contender *c, struct zkl__contender_actions *out);
void zkl__predecessor_wait_for(struct zkl__contender *c, const struct zkl__contender_event *ev,
                               struct zkl__contender_actions *out, const char *name);
/* Tells the owner how many must go first, if that has changed. False: more than max_ahead. */
bool zkl__predecessor_position(struct zkl__contender *c, const struct zkl__contender_event *ev);
/* There is none. */
void zkl__predecessor_none(struct zkl__contender *c, const struct zkl__contender_event *ev,
                           struct zkl__contender_actions *out);
void zkl__predecessor_on_event(struct zkl__contender *c, const struct zkl__contender_event *ev,
                               struct zkl__contender_actions *out);
void zkl__predecessor_on_queue_event(struct zkl__contender *c,
                                     const struct zkl__contender_event *ev,
                                     struct zkl__contender_actions *out);
void zkl__predecessor_on_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                               struct zkl__contender_actions *out);
void zkl__predecessor_on_inspected(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                   struct zkl__contender_actions *out);

#endif
