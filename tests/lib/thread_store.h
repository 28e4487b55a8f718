/* thread_store.h - a store that is one thread of a test, instead of the store that the servers string means: link with
 * --wrap=zkl__store_find (unit/wrapped). It takes every operation; the test's `turn` answers. */
#ifndef ZKL_TESTS_THREAD_STORE_H
#define ZKL_TESTS_THREAD_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "store.h"

#define THREAD_STORE_OPS 10000

struct zkl__store {
    const struct zkl__store_events *events;
    void *ctx;
    pthread_t thread;
    int number; /* the first that the program opened is 1 */
    struct {
        atomic_ullong id;
        atomic_bool read;
    } ops[THREAD_STORE_OPS]; /* in their order */
    atomic_uint asked, answered;
    atomic_bool closing;
};

/* Called on the thread, without a pause between, until the store is closed. Before the first session. */
void thread_store_begin(void (*turn)(struct zkl__store *store));
/* Answers the first that has no answer yet. */
void thread_store_answer(struct zkl__store *store, enum zkl__rc rc);
/* The one that was opened last; while it is open. */
struct zkl__store *thread_store_last(void);
/* From now on the next one takes its time to open, until this is false again; held: it is at it. */
void thread_store_hold(bool hold);
bool thread_store_held(void);
/* How many there have been. */
int thread_store_opened(void);
int thread_store_closed(void);

#endif
