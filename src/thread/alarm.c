/* alarm.c - what threads of the library do, and waiting for it. In libzklock_st src/loop does that.
 */
#include "thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* === alarms =================================================================================== */

void zkl__alarms_arm(struct zkl__alarms *alarms, int64_t at)
{
    if (!alarms->stop) {
        zkl__timerfd_arm(alarms->fd, &alarms->armed, at);
    }
}

/* Without the mutex. True: somebody has written to poke_fd. */
static bool sleep_until_due(int fd, int poke_fd)
{
    uint64_t count;
    struct pollfd both[] = {{.fd = fd, .events = POLLIN}, {.fd = poke_fd, .events = POLLIN}};
    if (poke_fd >= 0 && poll(both, 2, -1) <= 0) {
        return false;
    }
    if (poke_fd < 0 || both[0].revents) {
        ssize_t got = read(fd, &count, sizeof count);
        (void)got; /* whatever woke us, the clock says what is due */
    }
    return both[1].revents && read(poke_fd, &count, sizeof count) > 0;
}

static void *run(void *arg)
{
    struct zkl__alarms *alarms = arg;
    pthread_mutex_lock(alarms->mutex);
    zkl__alarms_ring(alarms); /* those that were set before there was a thread */
    while (!alarms->stop) {
        int poke_fd = alarms->poke_fd;
        pthread_mutex_unlock(alarms->mutex);
        bool poked = sleep_until_due(alarms->fd, poke_fd);
        pthread_mutex_lock(alarms->mutex);
        alarms->armed = INT64_MAX;
        if (poked) {
            zkl__alarms_set(alarms, alarms->poked, 0);
        }
        zkl__alarms_ring(alarms);
    }
    zkl__unlock_and_leave(alarms->mutex, alarms->left, alarms->owner);
    return NULL;
}

int zkl__alarms_start(struct zkl__alarms *alarms, pthread_mutex_t *mutex)
{
    alarms->mutex = mutex;
    alarms->armed = INT64_MAX;
    alarms->poke_fd = -1;
    alarms->fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    alarms->started = alarms->fd >= 0 && zkl__thread_start(&alarms->thread, run, alarms) == ZKL_OK;
    return alarms->started ? ZKL_OK : ZKL_ELIMIT;
}

void zkl__alarms_stop(struct zkl__alarms *alarms)
{
    pthread_mutex_lock(alarms->mutex);
    if (alarms->started) {
        zkl__alarms_arm(alarms, 0);
    }
    alarms->stop = true;
    bool ringing = alarms->ringing;
    pthread_mutex_unlock(alarms->mutex);
    if (ringing) {
        zkl__alarms_join(alarms);
    }
}

void zkl__alarms_join(struct zkl__alarms *alarms)
{
    if (alarms->started) {
        pthread_join(alarms->thread, NULL);
    }
    if (alarms->fd >= 0) {
        close(alarms->fd); /* nobody looks at it any more, see arm */
    }
    alarms->started = false;
    alarms->fd = -1;
}

void zkl__alarms_retire(struct zkl__alarms *alarms, void (*left)(void *owner), void *owner)
{
    alarms->stop = true;
    alarms->started = false;
    alarms->left = left;
    alarms->owner = owner;
    pthread_detach(alarms->thread);
    close(alarms->fd); /* nobody looks at it any more, see arm */
    alarms->fd = -1;
}

int zkl__alarms_poke_descriptor(struct zkl__alarms *alarms, struct zkl__alarm *poked)
{
    if (alarms->poke_fd < 0 && !alarms->stop) {
        alarms->poked = poked;
        alarms->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        zkl__alarms_arm(alarms, 0); /* the thread sleeps on the timer alone until then */
    }
    return alarms->poke_fd;
}

/* === waiting ================================================================================== */

/* Waiting where threads of the library do the work meanwhile. */

/* None of these fails on Linux: nptl/pthread_cond_init.c of glibc and
 * src/thread/pthread_cond_init.c of musl store the attributes and return 0, and both know
 * CLOCK_MONOTONIC. */
void zkl__signal_init(struct zkl__signal *signal)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&signal->cond, &attr);
    pthread_condattr_destroy(&attr);
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
    int64_t until = zkl__clock_read(CLOCK_MONOTONIC) + (deadline - now);
    struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    pthread_cond_timedwait(&signal->cond, mutex, &at);
}
