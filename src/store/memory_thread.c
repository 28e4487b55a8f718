/* memory_thread.c - the thread that delivers the events of one session of the in-process store. */
#include <assert.h>

#include "memory_store.h"

struct zkl__memory_notifier {
    pthread_t thread;
    struct zkl__signal signal;
};

static void *run(void *arg)
{
    struct zkl__store *store = arg;
    pthread_mutex_lock(&store->space->mutex);
    while (!store->closing) {
        if (!zkl__memory_deliver_next(store)) {
            zkl__signal_wait(&store->notifier->signal, &store->space->mutex, INT64_MAX);
        }
    }
    pthread_mutex_unlock(&store->space->mutex);
    return NULL;
}

/* The thread is held up by the mutex until
 * the store knows its notifier. */
int zkl__memory_notifier_start(struct zkl__store *store)
{
    struct zkl__memory_notifier *notifier = zkl__zalloc(&store->heap, sizeof *notifier);
    if (!notifier) {
        return ZKL_ENOMEM;
    }
    zkl__signal_init(&notifier->signal);
    pthread_mutex_lock(&store->space->mutex);
    int code = zkl__thread_start(&notifier->thread, run, store);
    store->notifier = code == ZKL_OK ? notifier : NULL;
    pthread_mutex_unlock(&store->space->mutex);
    if (code != ZKL_OK) {
        zkl__signal_deinit(&notifier->signal);
        zkl__free(&store->heap, notifier);
    }
    return code;
}

void zkl__memory_notifier_wake(struct zkl__store *store)
{
    if (store->notifier) {
        zkl__signal_raise(&store->notifier->signal);
    }
}

void zkl__memory_notifier_end(struct zkl__store *store)
{
    assert(!pthread_equal(pthread_self(), store->notifier->thread));
    pthread_join(store->notifier->thread, NULL);
    zkl__signal_deinit(&store->notifier->signal);
    zkl__free(&store->heap, store->notifier);
    store->notifier = NULL;
}
