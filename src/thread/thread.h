/* thread.h - threads, the clock, and waiting. Nothing in this folder knows of sessions or locks. */
#ifndef ZKL_THREAD_THREAD_H
#define ZKL_THREAD_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define ZKL__MS ((int64_t)1000000) /* in ns */

/* CLOCK_BOOTTIME, ns: goes on while the machine sleeps, as the servers' clocks do. */
int64_t zkl__clock_now(void);

/* A thread that takes no signal of the program's, but those of its own faults. ZKL_OK, ZKL_ELIMIT.
 */
int zkl__thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* Between the two, which nest, the calling thread is not cancelled (pthread_cancel): so no call
 * that has a mutex, or owes something, ends in the middle. It is by the next cancellation point of
 * its own. */
void zkl__cancel_hold(void);
void zkl__cancel_allow(void);

/* Something that threads wait for. */
struct zkl__signal {
    pthread_cond_t cond;
};
int zkl__signal_init(struct zkl__signal *signal); /* ZKL_OK, ZKL_ENOMEM */
void zkl__signal_deinit(struct zkl__signal *signal);
/* With the mutex of those who wait: wakes them all. */
void zkl__signal_raise(struct zkl__signal *signal);
/* Sleeps until raised, the deadline (CLOCK_BOOTTIME ns, INT64_MAX: none), or for no reason. */
void zkl__signal_wait(struct zkl__signal *signal, pthread_mutex_t *mutex, int64_t deadline);

/* --- where there is no thread but the caller's (libzklock_st): src/loop ---------------------- */

/* Nothing here starts a thread then, and who waits for a signal drives a loop until something has
 * happened. In libzklock, false, and the functions do nothing. */
extern const bool zkl__threadless;

/* Goes on with what is due, and waits for nothing. Not with a mutex of the library's held. */
void zkl__loop_go_on(void);

/* A descriptor to poll: it is readable when fd is, or when the loop has something to do. The
 * caller's to close; -1: there is none left. */
int zkl__loop_descriptor(int fd);

/* Somebody who wants to be called in waits, outside every mutex. The owner's memory between invite
 * and dismiss. */
struct zkl__visitor {
    bool (*waiting)(void *owner); /* has something to do now */
    void (*run)(void *owner);     /* does it; may wait, and call anything */
    void *owner;
    uint64_t round;
    struct zkl__visitor *next;
};
void zkl__loop_invite(struct zkl__visitor *visitor);
void zkl__loop_dismiss(struct zkl__visitor *visitor);

#endif
