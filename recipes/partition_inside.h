/* partition_inside.h - a partition: its pieces, each a place of its own, its member among the
 * others, and the list of those. partition.c makes it and answers its user;
 * partition_shares.c decides who works on what, partition_piece.c what becomes of one piece. */
#ifndef ZKL_RECIPES_PARTITION_INSIDE_H
#define ZKL_RECIPES_PARTITION_INSIDE_H

#include "agent.h"
#include "lock.h"
#include "member_list.h"
#include "name_set.h"
#include "call.h"

#include <zklock/partition.h>

/* Whether it takes part. */
enum zkl__partition_life {
    ZKL__PARTITION_IDLE, /* not started, or stopped: no callback of its user's starts */
    ZKL__PARTITION_RUNNING,
    ZKL__PARTITION_STOPPING, /* what it has is to be revoked */
    ZKL__PARTITION_UNWINDING /* that was done, but for the callbacks that are running */
};

/* The work of our user on a piece. */
enum zkl__work {
    ZKL__WORK_NONE,
    ZKL__WORK_RUNS, /* assigned */
    ZKL__WORK_ENDS  /* revoked, and that was not answered yet: the piece stays under our lock */
};

struct zkl__piece {
    zkl_lock place; /* first */
    zkl_partition *partition;
    const char *name;    /* the end of its path */
    enum zkl__work work; /* guarded */
    bool wanted;         /* by our share of the members we know */
    zkl_state told;      /* what its user knows of its lease, while there is work */
    bool calling;        /* its user's function runs */
    bool refused;        /* by the servers, and that was said */
};

struct zkl__member {
    zkl_lock place; /* first */
    zkl_partition *partition;
    bool refused;
};

struct zkl_partition {
    struct zkl__agent agent; /* first */
    zkl_partition_options options;
    size_t count;
    struct zkl__piece **pieces;
    const char **names;         /* of pieces */
    struct zkl__name_set index; /* by name */
    size_t *owners;             /* room for a result */
    struct zkl__member *member;
    struct zkl__names *view; /* what is acted upon: those that live with a session */
    struct zkl__member_list list;
    /* guarded: */
    struct zkl__names *news; /* NULL, or a newer one */
    enum zkl__partition_life life;
    struct zkl__retry retry;   /* something was refused */
    bool unread;               /* the members could not be listed, and that was said */
    char node[ZKL__NAME_MAX];  /* ours among the members, the last one */
    unsigned depth;            /* of callbacks, one inside the other */
    bool orphan;               /* freed from inside */
    size_t busy, running;      /* pieces that there is work on, and those whose work runs */
    bool held_up;              /* a piece waits until the work on another one has ended: cap */
    struct zkl__margin margin; /* of the lease, while there is work */
};

/* --- partition_shares.c ---------------------------------------------------------------------- */

extern const struct zkl__agent_ops zkl__partition_ops;
/* Inside. Begins the list of its members; false: no memory. */
bool zkl__partition_list(zkl_partition *partition, const char *members);
extern const struct zkl__recipe zkl__piece_recipe, zkl__member_recipe;

/* Inside. Another life: it may go from any to RUNNING, and from there through the others in their
 * order. */
void zkl__partition_live(zkl_partition *partition, enum zkl__partition_life life);

/* Begins an acquire, or says why not, and tries again later. */
void zkl__partition_acquire(zkl_partition *partition, zkl_lock *place, zkl_acquired_fn done,
                            bool *said);
/* Looks again in a while, each time a longer one. */
void zkl__partition_try_later(zkl_partition *partition);

/* --- partition_piece.c ----------------------------------------------------------------------- */

/* From a callback, without the session's mutex. Acquires or releases the lock, and calls the user,
 * until the piece is in the state that the assignment wants. */
void zkl__piece_settle(struct zkl__piece *piece);
/* Inside. The work has ended: the piece is released, and nothing is owed for it any more. */
void zkl__piece_end_work(struct zkl__piece *piece);

/* --- partition_shares.c: functions that its locks call ------------------------------------------
 */

void zkl__piece_completed(zkl_lock *place, int code, const zkl_grant *grant, const zkl_error *err,
                          void *payload);
/* The state_fn of the pieces' locks and of the member's. */
void zkl__piece_told(zkl_lock *place, zkl_state state, void *payload);
void zkl__member_told(zkl_lock *place, zkl_state state, void *payload);

/* Not inside. The end of it: no callback runs, and none will. */
void zkl__partition_dismantle(zkl_partition *partition);

#endif
