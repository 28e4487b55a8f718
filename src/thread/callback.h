/* callback.h - a queue of calls to user code: one at a time, with no lock held, on a thread of its
 * own or in dispatch; where there is no thread, in whatever waits, or in dispatch. */
#ifndef ZKL_THREAD_CALLBACK_H
#define ZKL_THREAD_CALLBACK_H

#include "collections.h"
#include "thread.h"

/* Part of the object it belongs to, so that a notice never needs memory. */
struct zkl__callback {
    void (*run)(void *owner); /* without the mutex; may free the callback */
    void *owner;
    struct zkl__link link;
    bool queued;
};

struct zkl__callbacks {
    pthread_mutex_t *mutex; /* guards everything here */
    pthread_t thread;
    bool dispatched, started, stop;
    int fd;      /* eventfd when dispatched, else -1; where there is no thread, once it is wanted */
    int poll_fd; /* what the user polls: see zkl__callbacks_fd */
    bool hushed; /* a dispatch with nothing to do emptied fd: it is set again when the callback that
                    runs is done */
    struct zkl__list queue;
    struct zkl__frame *running; /* the callbacks that run, each inside the next one */
    pthread_t runner;           /* while running */
    struct zkl__signal posted, done;
    struct zkl__visitor visitor; /* where there is no thread, and */
    bool visited;                /* it runs them just now */
    void (*left)(void *owner);   /* see zkl__callbacks_retire */
    void *owner;
};

/* ZKL_OK, ZKL_ELIMIT, ZKL_ENOMEM: then there is nothing to deinit. */
int zkl__callbacks_init(struct zkl__callbacks *callbacks, pthread_mutex_t *mutex, bool dispatched);
void zkl__callbacks_deinit(struct zkl__callbacks *callbacks);
/* Without the mutex, not from a callback: runs what waits, joins the thread. A callback may fork:
 * in the child nothing is touched then. */
void zkl__callbacks_stop(struct zkl__callbacks *callbacks);

/* The rest with the mutex. */

/* The same from a callback, the last one, and nobody waits. left: called without the mutex when the
 * memory is not looked at any more, by the thread as its last act; in a dispatch of the user's, who
 * keeps the memory, at once. */
void zkl__callbacks_retire(struct zkl__callbacks *callbacks, void (*left)(void *owner),
                           void *owner);

/* Starts the thread if one is needed and there is none. ZKL_OK, ZKL_ELIMIT. */
int zkl__callbacks_want(struct zkl__callbacks *callbacks);
/* Queued already: once is enough. */
void zkl__callbacks_post(struct zkl__callbacks *callbacks, struct zkl__callback *callback);
/* Takes it out of the queue. Running on another thread: waits until it is done, dropping the mutex.
 */
void zkl__callbacks_unpost(struct zkl__callbacks *callbacks, struct zkl__callback *callback);
/* The callback, if it was queued or running, has run when this returns, unless this is called from
 * it. Waits for the thread; where there is none, or this is it, runs it here. Drops the mutex. It
 * may fork: in the child this returns without the mutex. */
void zkl__callbacks_finish(struct zkl__callbacks *callbacks, struct zkl__callback *callback);
/* What is readable while something waits; where there is no thread, also when there is anything
 * else to go on with. -1: there is none. With the mutex. */
int zkl__callbacks_fd(struct zkl__callbacks *callbacks);
/* Runs what waits now; how many. None when another thread is at it, or this one: callbacks run one
 * at a time; fd is silent then until that callback is done. ZKL_EFORKED: one of them has forked,
 * and this is the child; then without the mutex. */
int zkl__callbacks_dispatch(struct zkl__callbacks *callbacks);
/* Is this thread running this callback (NULL: any)? */
bool zkl__callbacks_inside(const struct zkl__callbacks *callbacks,
                           const struct zkl__callback *callback);

#endif
