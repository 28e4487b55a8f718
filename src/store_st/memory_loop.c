/* memory_loop.c - the loop delivers the events of the in-process store. */
#include "loop.h"
#include "memory_store.h"

#define AT_A_TIME 64 /* in one iteration: alarms ring between them */

struct zkl__memory_notifier {
    struct zkl__source source;
    struct zkl__store *store;
};

static int64_t prepare(struct zkl__source *source, int64_t now)
{
    struct zkl__memory_notifier *notifier = (struct zkl__memory_notifier *)source;
    struct zkl__store *store = notifier->store;
    pthread_mutex_lock(&store->space->mutex);
    bool any = store->queue.first && !store->closing && !store->held;
    pthread_mutex_unlock(&store->space->mutex);
    return any ? now : INT64_MAX;
}

static void go_on(struct zkl__source *source, uint32_t events)
{
    struct zkl__memory_notifier *notifier = (struct zkl__memory_notifier *)source;
    struct zkl__store *store = notifier->store;
    (void)events;
    pthread_mutex_lock(&store->space->mutex);
    for (int i = 0; i < AT_A_TIME && zkl__memory_deliver_next(store); i++) {
    }
    pthread_mutex_unlock(&store->space->mutex);
}

int zkl__memory_notifier_start(struct zkl__store *store)
{
    struct zkl__memory_notifier *notifier = zkl__zalloc(&store->heap, sizeof *notifier);
    if (!notifier) {
        return ZKL_ENOMEM;
    }
    *notifier = (struct zkl__memory_notifier){.source = {.prepare = prepare, .go_on = go_on},
                                              .store = store};
    int rc = zkl__source_add(&notifier->source);
    if (rc != ZKL_OK) {
        zkl__free(&store->heap, notifier);
        return rc;
    }
    store->notifier = notifier;
    return ZKL_OK;
}

void zkl__memory_notifier_wake(struct zkl__store *store)
{
    if (store->notifier) {
        zkl__source_wake(&store->notifier->source);
    }
}

void zkl__memory_notifier_end(struct zkl__store *store)
{
    zkl__source_remove(&store->notifier->source);
    zkl__free(&store->heap, store->notifier);
    store->notifier = NULL;
}
