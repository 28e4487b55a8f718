/* semaphore.h - one acquire of a semaphore, in Curator's layout (InterProcessSemaphoreV2): a queue
 * node in PATH/locks, and when that is first, a lease in PATH/leases for each permit.
 *
 * It is a machine made of contenders: its queue node, and its leases, which wait for nobody. To its
 * owner it is one contender, with the same outcomes: GRANTED with the lowest token when its leases
 * are among no more than the limit, FAILED as soon as it cannot be, LOSS with the first lease lost.
 * The core owns it until its owner is notified of FAILED or RELEASED, or lets go. */
#ifndef ZKL_PROTOCOL_SEMAPHORE_H
#define ZKL_PROTOCOL_SEMAPHORE_H

#include "core.h"

#define ZKL__CONFLICT_MAX 160

struct zkl__semaphore_config {
    const char *path, *locks, *leases; /* the owner's, as what follows, until the last word */
    char *conflict;                    /* ZKL__CONFLICT_MAX bytes for the words of ZKL_ECONFLICT */
    int limit;                         /* 0: what the path says */
    int count;
    struct zkl__contender_config contender; /* the owner, and the data of the znodes */
};

/* How it queues, and what its leases are. */
extern const struct zkl__rule zkl__semaphore_queue;

/* NULL: no memory. */
struct zkl__semaphore *zkl__semaphore_new(struct zkl__core *core,
                                          const struct zkl__semaphore_config *config);

/* Its node in the queue; "" while there is none. */
const char *zkl__semaphore_queue_node(const struct zkl__semaphore *semaphore);
/* The node of that permit, of so many that were asked for, and its token; NULL: it has none yet, or
 * none any more. */
const char *zkl__semaphore_permit(const struct zkl__semaphore *semaphore, int index,
                                  int64_t *token);
int zkl__semaphore_count(const struct zkl__semaphore *semaphore);
/* How many of these have one, or are about to; and the lowest token. */
int zkl__semaphore_held(const struct zkl__semaphore *semaphore);
int64_t zkl__semaphore_token(const struct zkl__semaphore *semaphore);
/* Granted, and not released. */
bool zkl__semaphore_granted(const struct zkl__semaphore *semaphore);

#endif
