/* predecessor.h - the nearest conflicting contender before ours, and the watch on it. */
#ifndef ZKL_PROTOCOL_PREDECESSOR_H
#define ZKL_PROTOCOL_PREDECESSOR_H

#include "core.h"

enum zkl__watch_change;

/* What the predecessor's access list permits. Since the fix of CVE-2024-23944 a server sends a
 * watch event only to a session that may READ the znode, and uses up the watch in any case
 * (WatchManager, NIOServerCnxn.process). Since ZOOKEEPER-2590 exists needs READ, too
 * (FinalRequestProcessor). So a contender that may not get its predecessor watches the children of
 * the queue instead, which every contender may list. */
enum zkl__sight {
    ZKL__SIGHT_READ,   /* nothing was refused: send a get with a watch */
    ZKL__SIGHT_STAT,   /* the get was refused: send an exists, whose stat shows whether it is a
                          contender at all */
    ZKL__SIGHT_NOTHING /* the exists was refused, too: it counts as a contender */
};

struct zkl__predecessor {
    char *path;
    size_t room;
    enum zkl__sight sight;
    bool armed; /* the watch is set: on the predecessor, or on the queue's children if it may not be
                   read */
    bool changed;  /* the queue changed while a list with a watch on it was under way */
    bool believed; /* an announcement of its release would count */
    size_t told;   /* 1 + the queue position that the owner was last notified of; 0: none */
};

void zkl__predecessor_free(struct zkl__contender *c);
/* Forgets what is known of a predecessor. */
void zkl__predecessor_new_attempt(struct zkl__contender *c);
/* Stops watching it. */
void zkl__predecessor_unwatch(struct zkl__contender *c, enum zkl__watch_change how);
/* After a reconnect the server may permit more. */
void zkl__predecessor_on_connected(struct zkl__contender *c);
/* Sets the predecessor: this child of the queue. False: no memory. */
bool zkl__predecessor_set(struct zkl__contender *c, const char *name);
/* The name of that child. */
const char *zkl__predecessor_name(const struct zkl__contender *c);
/* Whether the next list must set a watch on the queue. */
bool zkl__predecessor_list_watches(struct zkl__contender *c);
void zkl__predecessor_look(struct zkl__contender *c);
void zkl__predecessor_wait_for(struct zkl__contender *c, const char *name);
/* Notifies the owner of the queue position, if it has changed. False: it exceeds max_ahead. */
bool zkl__predecessor_position(struct zkl__contender *c);
/* There is no predecessor: the grant is next. */
void zkl__predecessor_none(struct zkl__contender *c);
void zkl__predecessor_on_event(struct zkl__contender *c);
void zkl__predecessor_on_queue_event(struct zkl__contender *c);
void zkl__predecessor_on_reply(struct zkl__contender *c);
void zkl__predecessor_on_inspected(struct zkl__contender *c);

#endif
