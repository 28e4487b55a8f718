#include "thread.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A callback that runs, on the stack of its thread. */
struct zkl__frame {
    const struct zkl__callback *callback;
    struct zkl__frame *outer; /* of the callback that runs this one in zkl__callbacks_finish */
};

/* Compares pointers only: the callback may be no more. */
static bool is_running(const struct zkl__callbacks *callbacks, const struct zkl__callback *callback)
{
    const struct zkl__frame *at = callbacks->running;
    while (at && at->callback != callback) {
        at = at->outer;
    }
    return at;
}

bool zkl__callbacks_inside(const struct zkl__callbacks *callbacks,
                           const struct zkl__callback *callback)
{
    bool any = callback ? is_running(callbacks, callback) : callbacks->running != NULL;
    return any && pthread_equal(callbacks->runner, pthread_self());
}

static struct zkl__callback *first_of(const struct zkl__callbacks *callbacks)
{
    return ZKL__OWNER(callbacks->queue.first, struct zkl__callback, link);
}

/* fd is readable while something waits. */
static void announce(struct zkl__callbacks *callbacks)
{
    if (callbacks->fd >= 0 && callbacks->queue.first) {
        eventfd_write(callbacks->fd, 1);
    }
}

static void take_out(struct zkl__callbacks *callbacks, struct zkl__callback *callback)
{
    zkl__list_remove(&callbacks->queue, &callback->link);
    callback->queued = 0;
}

/* The callback may be no more: what is in its memory now has another number. */
static bool is_in_queue(const struct zkl__callbacks *callbacks,
                        const struct zkl__callback *callback, uint64_t number)
{
    const struct zkl__link *at = callbacks->queue.first;
    while (at && !(at == &callback->link && callback->queued == number)) {
        at = at->next;
    }
    return at;
}

/* Drops the mutex meanwhile. Afterwards the callback is not touched: it may have freed itself.
 * False: it has forked, and this is the child, where the mutex may be held by a thread that does
 * not exist. */
static bool run_one(struct zkl__callbacks *callbacks, struct zkl__callback *callback)
{
    struct zkl__frame frame = {callback, callbacks->running};
    pid_t process = getpid();
    take_out(callbacks, callback);
    callbacks->running = &frame;
    callbacks->runner = pthread_self();
    pthread_mutex_unlock(callbacks->mutex);
    callback->run(callback->owner);
    if (getpid() != process) {
        callbacks->running = frame.outer;
        return false;
    }
    pthread_mutex_lock(callbacks->mutex);
    callbacks->running = frame.outer;
    zkl__signal_raise(&callbacks->done);
    if (callbacks->hushed && !frame.outer) {
        callbacks->hushed = false;
        announce(callbacks);
    }
    return true;
}

void zkl__unlock_and_leave(pthread_mutex_t *mutex, void (*left)(void *owner), void *owner)
{
    pthread_mutex_unlock(mutex);
    if (left) {
        left(owner);
    }
}

static void *run(void *arg)
{
    struct zkl__callbacks *callbacks = arg;
    struct zkl__callback *next;
    pthread_mutex_lock(callbacks->mutex);
    while ((next = first_of(callbacks)) || !callbacks->stop) {
        if (!next) {
            zkl__signal_wait(&callbacks->posted, callbacks->mutex, INT64_MAX);
        } else if (!run_one(callbacks, next)) {
            return NULL;
        }
    }
    zkl__unlock_and_leave(callbacks->mutex, callbacks->left, callbacks->owner);
    return NULL;
}

int zkl__callbacks_want(struct zkl__callbacks *callbacks)
{
    if (!callbacks->dispatched && !callbacks->started) {
        callbacks->started = zkl__thread_start(&callbacks->thread, run, callbacks) == ZKL_OK;
    }
    return callbacks->dispatched || callbacks->started ? ZKL_OK : ZKL_ELIMIT;
}

void zkl__callbacks_post(struct zkl__callbacks *callbacks, struct zkl__callback *callback)
{
    if (callback->queued) {
        return;
    }
    callback->queued = ++callbacks->posts;
    zkl__list_append(&callbacks->queue, &callback->link);
    zkl__signal_raise(&callbacks->posted);
    announce(callbacks);
}

void zkl__callbacks_unpost(struct zkl__callbacks *callbacks, struct zkl__callback *callback)
{
    if (callback->queued) {
        take_out(callbacks, callback);
    }
    while (is_running(callbacks, callback) && !zkl__callbacks_inside(callbacks, NULL)) {
        zkl__signal_wait(&callbacks->done, callbacks->mutex, INT64_MAX);
    }
}

void zkl__callbacks_finish(struct zkl__callbacks *callbacks, struct zkl__callback *callback)
{
    const uint64_t number = callback->queued;
    bool queued = number > 0;
    for (;;) {
        bool ours =
            zkl__callbacks_inside(callbacks, NULL) || (!callbacks->started && !callbacks->running);
        if (queued && ours) {
            run_one(callbacks, callback);
            return;
        }
        if (!queued && (ours || !is_running(callbacks, callback))) {
            return;
        }
        zkl__signal_wait(&callbacks->done, callbacks->mutex, INT64_MAX);
        queued = is_in_queue(callbacks, callback, number);
    }
}

int zkl__callbacks_dispatch(struct zkl__callbacks *callbacks)
{
    eventfd_t count;
    if (callbacks->fd >= 0) {
        eventfd_read(callbacks->fd, &count);
    }
    if (callbacks->running) {
        callbacks->hushed = true; /* else who polls would be back here at once, again and again */
        return 0;
    }
    int waiting = 0, ran = 0; /* not those that are posted meanwhile: this ends */
    for (struct zkl__link *at = callbacks->queue.first; at; at = at->next) {
        waiting++;
    }
    for (struct zkl__callback *next; ran < waiting && (next = first_of(callbacks)); ran++) {
        if (!run_one(callbacks, next)) {
            return ZKL_EFORKED;
        }
    }
    announce(callbacks);
    return ran;
}

/* --- where there is no thread ---------------------------------------------------------------- */

static bool is_waiting(void *owner)
{
    const struct zkl__callbacks *callbacks = owner;
    return callbacks->queue.first && !callbacks->running;
}

/* In a child of fork there is nothing to go back to: as on a thread of ours, the process ends. */
static void run_waiting(void *owner)
{
    struct zkl__callbacks *callbacks = owner;
    pthread_mutex_lock(callbacks->mutex);
    callbacks->visited = true;
    if (zkl__callbacks_dispatch(callbacks) == ZKL_EFORKED) {
        exit(0);
    }
    callbacks->visited = false;
    zkl__unlock_and_leave(callbacks->mutex, callbacks->left, callbacks->owner);
}

int zkl__callbacks_fd(struct zkl__callbacks *callbacks)
{
    if (zkl__threadless && callbacks->fd < 0) {
        callbacks->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        announce(callbacks);
    }
    if (callbacks->fd >= 0 && callbacks->poll_fd < 0) {
        callbacks->poll_fd = zkl__loop_descriptor(callbacks->fd);
    }
    return callbacks->poll_fd;
}

/* --- life ------------------------------------------------------------------------------------ */

int zkl__callbacks_init(struct zkl__callbacks *callbacks, pthread_mutex_t *mutex, bool dispatched)
{
    *callbacks = (struct zkl__callbacks){
        .mutex = mutex, .dispatched = dispatched || zkl__threadless, .fd = -1, .poll_fd = -1};
    zkl__signal_init(&callbacks->posted);
    zkl__signal_init(&callbacks->done);
    if (dispatched && !zkl__threadless) {
        callbacks->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (callbacks->fd < 0) {
            return ZKL_ELIMIT;
        }
    }
    if (!dispatched) {
        callbacks->visitor =
            (struct zkl__visitor){.waiting = is_waiting, .run = run_waiting, .owner = callbacks};
        zkl__loop_invite(&callbacks->visitor);
    }
    return ZKL_OK;
}

void zkl__callbacks_stop(struct zkl__callbacks *callbacks)
{
    pthread_mutex_lock(callbacks->mutex);
    callbacks->stop = true;
    zkl__signal_raise(&callbacks->posted);
    struct zkl__callback *next;
    while (!callbacks->started && ((next = first_of(callbacks)) || callbacks->running)) {
        if (callbacks->running) {
            zkl__signal_wait(&callbacks->done, callbacks->mutex, INT64_MAX);
        } else if (!run_one(callbacks, next)) {
            return;
        }
    }
    bool join = callbacks->started;
    pthread_mutex_unlock(callbacks->mutex);
    if (join) {
        pthread_join(callbacks->thread, NULL);
        pthread_mutex_lock(callbacks->mutex);
        callbacks->started = false;
        zkl__signal_raise(&callbacks->done); /* who waits for what was posted meanwhile runs it */
        pthread_mutex_unlock(callbacks->mutex);
    }
}

void zkl__callbacks_retire(struct zkl__callbacks *callbacks, void (*left)(void *owner), void *owner)
{
    callbacks->stop = true;
    if (callbacks->started) {
        callbacks->started = false;
        pthread_detach(callbacks->thread);
    } else if (!callbacks->visited) {
        left(owner);
        return;
    }
    callbacks->left = left;
    callbacks->owner = owner;
}

void zkl__callbacks_deinit(struct zkl__callbacks *callbacks)
{
    zkl__signal_deinit(&callbacks->posted);
    zkl__signal_deinit(&callbacks->done);
    zkl__loop_dismiss(&callbacks->visitor);
    if (callbacks->poll_fd >= 0 && callbacks->poll_fd != callbacks->fd) {
        close(callbacks->poll_fd);
    }
    if (callbacks->fd >= 0) {
        close(callbacks->fd);
    }
}
