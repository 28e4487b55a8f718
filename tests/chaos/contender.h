/* contender.h - the threads of one contender. */
#ifndef ZKL_CHAOS_CONTENDER_H
#define ZKL_CHAOS_CONTENDER_H

#include <pthread.h>

#include "process.h"

#define CLIENT_OBJECTS 8

/* One that contends: for one thing after the other, and holds it for a while. */
struct client {
    char name[HISTORY_WORD];
    pthread_t thread;
    uint64_t dice;
    struct object objects[CLIENT_OBJECTS][2]; /* of each word of the process, without and with max_hold_ms */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int completions; /* of the acquire that is pending */
    int code;
    int64_t token;
    atomic_int told;
    atomic_bool asked; /* to give way */
    int delay;         /* run_delay_open of the thread */
    atomic_llong
        cancelled_delay; /* run_delay_ns of the callbacks' thread when the pending acquire was cancelled; -1: it was not */
};

void client_init(struct client *c, int number, uint64_t seed);
/* Until the process has enough. */
void *client_run(void *client);
void client_deinit(struct client *c);

/* The others, until the process has enough. seed: a uint64_t. */

/* With sessions of its own, one after the other: each asks for a few things, and is closed in the middle of it. */
void *guest_run(void *seed);
/* Is a member of a group, now and then not, and sees who else is. */
void *member_run(void *seed);
/* Takes part in a partition, now and then not, and says which pieces it owns. */
void *pieces_run(void *seed);

#endif
