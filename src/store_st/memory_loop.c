/* memory_loop.c - what happened in the in-process store is told by the loop. */
#include "loop.h"
#include "memory_session.h"

#define AT_A_TIME 64 /* in one turn: alarms ring between them */

struct zkl__memory_voice {
    struct zkl__source source;
    struct zkl__store *store;
};

static int64_t prepare(struct zkl__source *source, int64_t now)
{
    struct zkl__memory_voice *voice = (struct zkl__memory_voice *)source;
    struct zkl__store *store = voice->store;
    pthread_mutex_lock(&store->space->mutex);
    bool any = store->queue.first && !store->closing && !store->held;
    pthread_mutex_unlock(&store->space->mutex);
    return any ? now : INT64_MAX;
}

static void go_on(struct zkl__source *source, uint32_t events)
{
    struct zkl__memory_voice *voice = (struct zkl__memory_voice *)source;
    struct zkl__store *store = voice->store;
    (void)events;
    pthread_mutex_lock(&store->space->mutex);
    for (int i = 0; i < AT_A_TIME && zkl__memory_tell_next(store); i++) {
    }
    pthread_mutex_unlock(&store->space->mutex);
}

int zkl__memory_voice_start(struct zkl__store *store)
{
    struct zkl__memory_voice *voice = zkl__zalloc(&store->heap, sizeof *voice);
    if (!voice) {
        return ZKL_ENOMEM;
    }
    *voice =
        (struct zkl__memory_voice){.source = {.prepare = prepare, .go_on = go_on}, .store = store};
    int rc = zkl__source_add(&voice->source);
    if (rc != ZKL_OK) {
        zkl__free(&store->heap, voice);
        return rc;
    }
    store->voice = voice;
    return ZKL_OK;
}

void zkl__memory_voice_wake(struct zkl__store *store)
{
    if (store->voice) {
        zkl__source_wake(&store->voice->source);
    }
}

void zkl__memory_voice_end(struct zkl__store *store)
{
    zkl__source_remove(&store->voice->source);
    zkl__free(&store->heap, store->voice);
    store->voice = NULL;
}
