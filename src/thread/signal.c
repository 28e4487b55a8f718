/* signal.c - waiting where threads of the library do the work meanwhile. */
#include "thread.h"

#include <zklock/error.h>

#include <stddef.h>
#include <time.h>

static int64_t monotonic_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

int zkl__signal_init(struct zkl__signal *signal)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0) {
        return ZKL_ENOMEM;
    }
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&signal->cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc == 0 ? ZKL_OK : ZKL_ENOMEM;
}

void zkl__signal_deinit(struct zkl__signal *signal)
{
    pthread_cond_destroy(&signal->cond);
}

void zkl__signal_raise(struct zkl__signal *signal)
{
    pthread_cond_broadcast(&signal->cond);
}

void zkl__signal_wait(struct zkl__signal *signal, pthread_mutex_t *mutex, int64_t deadline)
{
    if (deadline == INT64_MAX) {
        pthread_cond_wait(&signal->cond, mutex);
        return;
    }
    int64_t now = zkl__clock_now();
    if (deadline <= now) {
        return;
    }
    /* Condition variables do not know CLOCK_BOOTTIME. After the machine slept this one is late; an
     * alarm is not. */
    int64_t until = monotonic_ns() + (deadline - now);
    struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    pthread_cond_timedwait(&signal->cond, mutex, &at);
}
