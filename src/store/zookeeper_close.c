/* zookeeper_close.c - the end of a session with the servers, in the time that is given for it. */
#include <time.h>

#include "zookeeper_store.h"

#define MS INT64_C(1000000)
#define ASK_NS (100 * MS)

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What was asked a moment ago has been answered, so there is no ping on its way either: the library
 * sends one when it has sent nothing for a third of the session timeout (zookeeper_interest). */
static bool just_answered(const struct zkl__store *store)
{
    int64_t silence = clock_ns(CLOCK_BOOTTIME) - store->answered_ns;
    return store->linked && store->op_count == 0 && store->answered_ns > 0 &&
           silence < zoo_recv_timeout(store->zh) * MS / 6;
}

static bool all_answered(const struct zkl__store *store)
{
    return store->drained && !store->waiting.head && store->probe_count == 0;
}

/* Until every answer was read: a socket that is closed with answers unread resets the connection,
 * the server then drops the library's goodbye, and the session with its znodes lives on for its
 * whole timeout. Asks, unless it is known that nothing is on its way. Asks again, which nudges as
 * well, at twice the time each: asked more often than the network answers, something would always
 * be on its way. */
bool zkl__zk_drain(struct zkl__store *store, int64_t now, int64_t deadline, int64_t *ask,
                   int64_t *wake)
{
    if (store->phase != ZK_CLOSING) {
        store->phase = ZK_CLOSING;
        store->drain_ns = now;
        store->drained = just_answered(store);
    }
    if (!store->ever || store->ended || all_answered(store) || now >= deadline) {
        return true;
    }
    if (store->linked && now >= *ask) {
        zkl__zk_probe(store);
        *ask = now + (now - store->drain_ns > ASK_NS ? now - store->drain_ns : ASK_NS);
    }
    *wake = now + ASK_NS < deadline ? now + ASK_NS : deadline;
    return false;
}

struct zk_close zkl__zk_drained(struct zkl__store *store)
{
    store->phase = ZK_CLOSED;
    return (struct zk_close){all_answered(store), store->linked,
                             store->ended && store->end == ZKL__END_EXPIRED};
}

int zkl__zk_close_result(const struct zk_close *close, bool heard)
{
    if ((close->drained && heard) || close->expired) {
        return ZKL_OK;
    }
    return close->linked ? ZKL_ETIMEOUT : ZKL_ECONNECT;
}

int zkl__zk_close(struct zkl__store *store, int64_t timeout_ms)
{
    bool limited = timeout_ms >= 0 && timeout_ms <= INT64_MAX / MS / 2;
    int64_t now = clock_ns(CLOCK_MONOTONIC), ask = now, wake;
    int64_t deadline = limited ? now + timeout_ms * MS : INT64_MAX;
    pthread_mutex_lock(&store->mutex);
    while (!zkl__zk_drain(store, now, deadline, &ask, &wake)) {
        zkl__zk_wait(store, wake);
        now = clock_ns(CLOCK_MONOTONIC);
    }
    struct zk_close close = zkl__zk_drained(store);
    pthread_mutex_unlock(&store->mutex);
    if (!zkl__zk_part(store, deadline, close.drained)) {
        return close.linked ? ZKL_ETIMEOUT : ZKL_ECONNECT;
    }
    bool heard = store->heard;
    zkl__zk_release(store);
    return zkl__zk_close_result(&close, heard);
}
