/* local_place.h - a contender among those of its session in the same queue: local_queue.c's. */
#ifndef ZKL_PROTOCOL_LOCAL_PLACE_H
#define ZKL_PROTOCOL_LOCAL_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct zkl__contender;
struct zkl__local_queue;

struct zkl__local_place {
    struct zkl__local_queue *queue;
    struct zkl__contender *next, *prev; /* in this queue */
    uint64_t list;                      /* number of the list it waits for; 0: none */
    struct zkl__contender *ahead;       /* whom it follows: the predecessor is its node. NULL:
                                           nobody here */
    struct zkl__contender *behind, *next_behind; /* who follows it */
    bool handed;                                 /* granted before the node of `ahead` is gone */
    bool moved;                                  /* the node of `ahead` went, or is another one */
};

/* Its predecessor is the node of another one here. */
static inline bool zkl__local_follows(const struct zkl__local_place *place)
{
    return place->ahead;
}

static inline bool zkl__local_followed(const struct zkl__local_place *place)
{
    return place->behind;
}

/* Who follows it; NULL: nobody. */
static inline struct zkl__contender *zkl__local_follower(const struct zkl__local_place *place)
{
    return place->behind;
}

/* By the one that it follows, whose node may still be there. */
static inline bool zkl__local_handed(const struct zkl__local_place *place)
{
    return place->handed;
}

#endif
