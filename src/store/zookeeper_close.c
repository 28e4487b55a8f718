/* zookeeper_close.c - the end of a session with the servers, in the time that is given for it. */
#include <time.h>

#include "signals.h"
#include "zookeeper_store.h"

#define MS INT64_C(1000000)
#define ASK_NS (100 * MS)
/* zookeeper_close waits 1500 ms for the server's word and does not say whether it came. */
#define WORD_NS (1400 * MS)
#define PART_NS (5 * MS) /* what parting takes when nothing hinders it, and more */

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool zkl__zk_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t before;
    zkl__block_signals(&before);
    bool started = pthread_create(thread, NULL, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* --- draining -------------------------------------------------------------------------------- */

static void wait_until(struct zkl__store *store, int64_t deadline)
{
    struct timespec at = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    pthread_cond_timedwait(&store->changed, &store->mutex, &at);
}

static bool all_answered(const struct zkl__store *store)
{
    return store->drained && !store->waiting.head && store->probe_count == 0;
}

/* Waits until every answer was read: a socket that is closed with answers unread resets the
 * connection, the server then drops the library's goodbye, and the session with its znodes lives on
 * for its whole timeout. Asks every 100 ms, which nudges as well. With the mutex held. */
static bool drain(struct zkl__store *store, int64_t deadline)
{
    int64_t now = monotonic_ns();
    int64_t ask = now;
    store->phase = ZK_CLOSING;
    while (store->ever && !store->ended && !all_answered(store) && now < deadline) {
        if (store->linked && now >= ask) {
            zkl__zk_probe(store);
            ask = now + ASK_NS;
        }
        int64_t wake = now + ASK_NS;
        wait_until(store, wake < deadline ? wake : deadline);
        now = monotonic_ns();
    }
    return all_answered(store);
}

/* --- parting --------------------------------------------------------------------------------- */

static void *part(void *arg)
{
    struct zkl__store *store = arg;
    int64_t began = monotonic_ns();
    if (store->zh) {
        zookeeper_close(store->zh);
    }
    pthread_mutex_lock(&store->mutex);
    store->parted = true;
    store->heard = monotonic_ns() - began < WORD_NS;
    bool abandoned = store->abandoned;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    if (abandoned) {
        zkl__zk_release(store);
    }
    return NULL;
}

/* Nobody is told anything any more, and nobody is being told. True when parting came to its end
 * meanwhile, after all. */
static bool abandon(struct zkl__store *store)
{
    pthread_mutex_lock(&store->mutex);
    while (store->inside && !store->parted) {
        pthread_cond_wait(&store->changed, &store->mutex);
    }
    pthread_mutex_unlock(&store->mutex);
    zkl__zk_log_mute(store);
    pthread_mutex_lock(&store->mutex);
    store->abandoned = !store->parted;
    bool parted = store->parted;
    pthread_mutex_unlock(&store->mutex);
    return parted;
}

/* The library takes 3 s to send its goodbye, if it must, and 1.5 s more to hear the server's,
 * whatever time we are given: so it does that on a thread of its own. False: it is still at it, and
 * the store is its own now. */
static bool part_in_time(struct zkl__store *store, int64_t deadline)
{
    pthread_t thread;
    if (!zkl__zk_thread_start(&thread, part, store)) {
        part(store);
        return true;
    }
    int64_t least = monotonic_ns() + PART_NS;
    int64_t until = deadline > least ? deadline : least;
    pthread_mutex_lock(&store->mutex);
    while (!store->parted && monotonic_ns() < until) {
        wait_until(store, until);
    }
    bool parted = store->parted;
    pthread_mutex_unlock(&store->mutex);
    if (!parted && !abandon(store)) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    return true;
}

/* Handles that were given up on the way to the first connection are usually closed long since. */
static void await_parting(struct zkl__store *store, int64_t deadline)
{
    int64_t least = monotonic_ns() + PART_NS;
    int64_t until = deadline > least ? deadline : least;
    pthread_mutex_lock(&store->mutex);
    while (store->parting > 0 && monotonic_ns() < until) {
        wait_until(store, until);
    }
    bool parting = store->parting > 0;
    pthread_mutex_unlock(&store->mutex);
    if (parting) {
        zkl__zk_log_mute(store);
    }
}

int zkl__zk_close(struct zkl__store *store, int64_t timeout_ms)
{
    bool limited = timeout_ms >= 0 && timeout_ms <= INT64_MAX / MS / 2;
    int64_t deadline = limited ? monotonic_ns() + timeout_ms * MS : INT64_MAX;
    pthread_mutex_lock(&store->mutex);
    bool drained = drain(store, deadline);
    bool linked = store->linked;
    bool ended = store->ended || !store->zh;
    bool expired = store->ended && store->end == ZKL__END_EXPIRED;
    store->phase = ZK_CLOSED;
    pthread_mutex_unlock(&store->mutex);
    if (ended) {
        part(store); /* there is nobody to say goodbye to */
    } else if (!part_in_time(store, deadline)) {
        return linked ? ZKL_ETIMEOUT : ZKL_ECONNECT;
    }
    bool word = drained && store->heard;
    await_parting(store, deadline);
    zkl__zk_release(store);
    if (word || expired) {
        return ZKL_OK;
    }
    return linked ? ZKL_ETIMEOUT : ZKL_ECONNECT;
}
