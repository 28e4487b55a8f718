/* memory_thread.c - the thread that delivers the events of one session of the in-process store. */
#include <assert.h>

#include "memory_store.h"
#include "signals.h"

struct zkl__memory_notifier {
    pthread_t thread;
    pthread_cond_t cond;
};

static void *run(void *arg)
{
    struct zkl__store *store = arg;
    pthread_mutex_lock(&store->space->mutex);
    while (!store->closing) {
        if (!zkl__memory_deliver_next(store)) {
            pthread_cond_wait(&store->notifier->cond, &store->space->mutex);
        }
    }
    pthread_mutex_unlock(&store->space->mutex);
    return NULL;
}

/* The program's signal handlers do not run on our threads. The thread is held up by the mutex until
 * the store knows its notifier. */
int zkl__memory_notifier_start(struct zkl__store *store)
{
    struct zkl__memory_notifier *notifier = zkl__zalloc(&store->heap, sizeof *notifier);
    if (!notifier) {
        return ZKL_ENOMEM;
    }
    pthread_cond_init(&notifier->cond, NULL);
    pthread_mutex_lock(&store->space->mutex);
    bool started = zkl__start_thread(&notifier->thread, run, store);
    store->notifier = started ? notifier : NULL;
    pthread_mutex_unlock(&store->space->mutex);
    if (!started) {
        pthread_cond_destroy(&notifier->cond);
        zkl__free(&store->heap, notifier);
        return ZKL_ELIMIT;
    }
    return ZKL_OK;
}

void zkl__memory_notifier_wake(struct zkl__store *store)
{
    if (store->notifier) {
        pthread_cond_signal(&store->notifier->cond);
    }
}

void zkl__memory_notifier_end(struct zkl__store *store)
{
    assert(!pthread_equal(pthread_self(), store->notifier->thread));
    pthread_join(store->notifier->thread, NULL);
    pthread_cond_destroy(&store->notifier->cond);
    zkl__free(&store->heap, store->notifier);
    store->notifier = NULL;
}
