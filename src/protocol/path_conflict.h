/* path_conflict.h - refuses a lock at the path of a semaphore or of a partition.
 *
 * The list that a contender reads anyway shows the two directories of either. The names alone prove
 * nothing: a client that may only create could deny the lock for ever with two persistent znodes.
 * A semaphore of ours has its limit in the data of the path, and the stat of the list has the
 * length of these data: no request more, and nobody without WRITE can forge it. A partition, and a
 * semaphore of Curator's, write no data there. For these the contender asks whether a session owns
 * the newest znode in `members` or `leases`. A lock beside a semaphore is a mistake to be told of,
 * and endangers neither. */
#ifndef ZKL_PROTOCOL_PATH_CONFLICT_H
#define ZKL_PROTOCOL_PATH_CONFLICT_H

#include <stdbool.h>

struct zkl__contender;

struct zkl__path_conflict {
    enum {
        ZKL__CONFLICT_UNSEEN,
        ZKL__CONFLICT_LISTS, /* the directory is listed, */
        ZKL__CONFLICT_STATS, /* and the newest znode in it read */
        ZKL__CONFLICT_NONE   /* nobody lives there: the directories do not matter */
    } stage;
    const char *directory; /* see zkl__list_user */
};

/* The list shows the directories. The contender fails, or asks who lives there. */
bool zkl__path_conflict_seen(struct zkl__contender *c);
/* False: there is nothing to ask. */
bool zkl__path_conflict_ask(struct zkl__contender *c);
void zkl__path_conflict_on_reply(struct zkl__contender *c);

#endif
