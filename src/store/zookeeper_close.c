/* zookeeper_close.c - the end of a session with the servers, in the time that is given for it. */
#include <time.h>

#include "zookeeper_store.h"

#define MS INT64_C(1000000)
#define ASK_NS (100 * MS)

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
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
        zkl__zk_wait(store, wake < deadline ? wake : deadline);
        now = monotonic_ns();
    }
    return all_answered(store);
}

int zkl__zk_close(struct zkl__store *store, int64_t timeout_ms)
{
    bool limited = timeout_ms >= 0 && timeout_ms <= INT64_MAX / MS / 2;
    int64_t deadline = limited ? monotonic_ns() + timeout_ms * MS : INT64_MAX;
    pthread_mutex_lock(&store->mutex);
    bool drained = drain(store, deadline);
    bool linked = store->linked;
    bool expired = store->ended && store->end == ZKL__END_EXPIRED;
    store->phase = ZK_CLOSED;
    pthread_mutex_unlock(&store->mutex);
    if (!zkl__zk_part(store, deadline, drained)) {
        return linked ? ZKL_ETIMEOUT : ZKL_ECONNECT;
    }
    bool word = drained && store->heard;
    zkl__zk_release(store);
    if (word || expired) {
        return ZKL_OK;
    }
    return linked ? ZKL_ETIMEOUT : ZKL_ECONNECT;
}
