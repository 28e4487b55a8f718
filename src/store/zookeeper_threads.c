/* zookeeper_threads.c - what the adapter does on threads, the library's and its own. In its place
 * libzklock_st has src/store_st/zookeeper_loop.c. */
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "signals.h"
#include "zookeeper_store.h"

#define MS INT64_C(1000000)
/* zookeeper_close waits 1500 ms for the server's word and does not say whether it came. */
#define WORD_NS (1400 * MS)
#define ROUND_MS 60000   /* what poll waits at a time */
#define PART_NS (5 * MS) /* what parting takes when nothing hinders it, and more */

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool start_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t before;
    zkl__block_signals(&before);
    bool started = pthread_create(thread, NULL, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* The library's threads are its own. */
int zkl__zk_drive_start(struct zkl__store *store)
{
    (void)store;
    return ZKL_OK;
}

void zkl__zk_drive_end(struct zkl__store *store)
{
    (void)store;
}

const bool zkl__zk_apart_is_here = false;

bool zkl__zk_apart(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    if (!start_thread(&thread, run, arg)) {
        return false;
    }
    pthread_detach(thread);
    return true;
}

void zkl__zk_wait(struct zkl__store *store, int64_t deadline)
{
    struct timespec at = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    pthread_cond_timedwait(&store->changed, &store->mutex, &at);
}

/* --- handles that are given up --------------------------------------------------------------- */

static void *part_from(void *arg)
{
    struct zk_parting parting = *(struct zk_parting *)arg;
    struct zkl__store *store = parting.store;
    zkl__free(&store->heap, arg);
    zookeeper_close(parting.zh);
    pthread_mutex_lock(&store->mutex);
    store->parting--;
    bool last = store->parting == 0 && store->orphaned;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    if (last) {
        zkl__zk_free(store);
    }
    return NULL;
}

void zkl__zk_part_from(struct zk_parting *parting)
{
    struct zkl__store *store = parting->store;
    store->parting++;
    if (!zkl__zk_apart(part_from, parting)) {
        /* It stays open for want of a thread to close it on: here its own threads might wait for
         * the mutex. */
        store->parting--;
        zkl__free(&store->heap, parting);
    }
}

/* --- parting --------------------------------------------------------------------------------- */

/* What is there is left there: it may belong to another session, which reads it itself. */
static bool has_response(int fd, int64_t deadline)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int64_t left_ms;
    char byte;
    do {
        left_ms = (deadline - monotonic_ns()) / MS;
        left_ms = left_ms < 0 ? 0 : left_ms < ROUND_MS ? left_ms : ROUND_MS;
    } while (poll(&poll_fd, 1, (int)left_ms) <= 0 && left_ms > 0);
    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

/* The session's connection is one that a library has closed by now. Others that were open when it
 * came up may have been closed at the same time: then each must have its response. quick: whether
 * zookeeper_close was, when none of the sockets is known. */
static bool have_response(const struct zk_sockets *sockets, bool quick, int64_t deadline)
{
    bool heard = quick;
    for (int i = 0; i < sockets->count; i++) {
        if (zkl__zk_is_closed(&sockets->each[i])) {
            heard = has_response(sockets->each[i].kept, deadline);
            if (!heard) {
                return false;
            }
        }
    }
    return heard;
}

/* The library waits 1.5 s for the first byte of the response to closeSession, or for the
 * connection's end, and does not say which it was (wait_for_session_to_be_closed). A server that
 * steps down ends it too, and has not ended the session; one with a slow disk takes longer. So the
 * connection is kept open, and looked at. Nothing else is unread: see zkl__zk_drain. */
static bool say_goodbye(struct zkl__store *store)
{
    struct zk_sockets sockets;
    int64_t began = monotonic_ns();
    pthread_mutex_lock(&store->mutex);
    bool looks = store->linked && !store->tls;
    if (looks) {
        zkl__zk_keep_sockets(store, &sockets);
    }
    pthread_mutex_unlock(&store->mutex);
    zookeeper_close(store->zh);
    bool heard = monotonic_ns() - began < WORD_NS;
    if (looks) {
        heard = have_response(&sockets, heard, store->part_deadline);
        zkl__zk_drop_sockets(&sockets);
    }
    return heard;
}

static void *part(void *arg)
{
    struct zkl__store *store = arg;
    bool heard = store->zh && say_goodbye(store);
    pthread_mutex_lock(&store->mutex);
    store->parted = true;
    store->heard = heard;
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
    if (!start_thread(&thread, part, store)) {
        part(store);
        return true;
    }
    int64_t least = monotonic_ns() + PART_NS;
    int64_t until = deadline > least ? deadline : least;
    pthread_mutex_lock(&store->mutex);
    while (!store->parted && monotonic_ns() < until) {
        zkl__zk_wait(store, until);
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
        zkl__zk_wait(store, until);
    }
    bool parting = store->parting > 0;
    pthread_mutex_unlock(&store->mutex);
    if (parting) {
        zkl__zk_log_mute(store);
    }
}

bool zkl__zk_part(struct zkl__store *store, int64_t deadline, bool drained)
{
    (void)drained;
    store->part_deadline = deadline;
    if (store->ended || !store->zh) {
        part(store); /* there is nobody to say goodbye to */
    } else if (!part_in_time(store, deadline)) {
        return false;
    }
    await_parting(store, deadline);
    return true;
}

/* On a thread that has nothing else to do. */
bool zkl__zk_close_on(struct zkl__store *store, int64_t timeout_ms, int *rc, int64_t *again_ms)
{
    (void)again_ms;
    *rc = zkl__zk_close(store, timeout_ms);
    return true;
}
