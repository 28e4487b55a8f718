/* memory_thread.c - the thread of each session of the in-process store that tells what happened. */
#include <assert.h>

#include "memory_session.h"
#include "signals.h"

struct zkl__memory_voice {
    pthread_t thread;
    pthread_cond_t cond;
};

static void *run(void *arg)
{
    struct zkl__store *store = arg;
    pthread_mutex_lock(&store->space->mutex);
    while (!store->closing) {
        if (!zkl__memory_tell_next(store)) {
            pthread_cond_wait(&store->voice->cond, &store->space->mutex);
        }
    }
    pthread_mutex_unlock(&store->space->mutex);
    return NULL;
}

/* The program's signal handlers do not run on our threads. The thread is held up by the mutex until
 * the store knows its voice. */
int zkl__memory_voice_start(struct zkl__store *store)
{
    struct zkl__memory_voice *voice = zkl__zalloc(&store->heap, sizeof *voice);
    if (!voice) {
        return ZKL_ENOMEM;
    }
    pthread_cond_init(&voice->cond, NULL);
    pthread_mutex_lock(&store->space->mutex);
    bool started = zkl__start_thread(&voice->thread, run, store);
    store->voice = started ? voice : NULL;
    pthread_mutex_unlock(&store->space->mutex);
    if (!started) {
        pthread_cond_destroy(&voice->cond);
        zkl__free(&store->heap, voice);
        return ZKL_ELIMIT;
    }
    return ZKL_OK;
}

void zkl__memory_voice_wake(struct zkl__store *store)
{
    if (store->voice) {
        pthread_cond_signal(&store->voice->cond);
    }
}

void zkl__memory_voice_end(struct zkl__store *store)
{
    assert(!pthread_equal(pthread_self(), store->voice->thread));
    pthread_join(store->voice->thread, NULL);
    pthread_cond_destroy(&store->voice->cond);
    zkl__free(&store->heap, store->voice);
    store->voice = NULL;
}
