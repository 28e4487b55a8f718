/* partition_inside.h - a partition: its pieces, each a place of its own, its member among the
 * others, and the agent that reads those. partition.c makes it and answers its user;
 * partition_shares.c decides. */
#ifndef ZKL_RECIPES_PARTITION_INSIDE_H
#define ZKL_RECIPES_PARTITION_INSIDE_H

#include "agent.h"
#include "lock.h"

#include <zklock/partition.h>

struct zkl__piece {
    zkl_lock place; /* first */
    zkl_partition *partition;
    const char *name; /* the end of its path */
    bool wanted;      /* by our share of the members we know */
    bool assigned;    /* told so; guarded */
    bool calling;     /* its user's function runs */
    bool refused;     /* by the servers, and that was said */
};

struct zkl__member {
    zkl_lock place; /* first */
    zkl_partition *partition;
    bool refused;
};

struct zkl__members {
    size_t count;
    const char *names[]; /* their text follows */
};

struct zkl_partition {
    struct zkl__agent agent; /* first */
    zkl_partition_options options;
    size_t count;
    struct zkl__piece **pieces;
    const char **names; /* of pieces */
    size_t *owners;     /* room for a result */
    struct zkl__member *member;
    struct zkl__members *view; /* what is acted upon: those that live with a session */
    struct zkl__jury jury;
    /* guarded: */
    struct zkl__members *news; /* NULL, or a newer one */
    bool running;
    enum zkl__reading {
        ZKL__READ,
        ZKL__TO_LIST,
        ZKL__TO_JUDGE         /* listed: which of them live with a session? */
    } reading;                /* of the members */
    bool retry;               /* something was refused */
    bool unread;              /* the members could not be listed, and that was said */
    int64_t patience;         /* ns, before what was refused is tried again */
    char node[ZKL__NAME_MAX]; /* ours among the members, the last one */
    unsigned depth;           /* of callbacks, one inside the other */
    bool orphan;              /* freed from inside */
};

/* --- partition_shares.c ---------------------------------------------------------------------- */

extern const struct zkl__agent_ops zkl__partition_ops;
extern const struct zkl__recipe zkl__piece_recipe, zkl__member_recipe;

/* Their state_fn. */
void zkl__piece_told(zkl_lock *place, zkl_state state, void *payload);
void zkl__member_told(zkl_lock *place, zkl_state state, void *payload);

/* Not inside. The end of it: no callback runs, and none will. */
void zkl__partition_dismantle(zkl_partition *partition);

#endif
