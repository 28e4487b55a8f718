/* thread.c - what libzklock and libzklock_st have in common. */
#include "thread.h"

#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

int64_t zkl__clock_read(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

int64_t zkl__clock_now(void)
{
    return zkl__clock_read(CLOCK_BOOTTIME);
}

static _Thread_local sigset_t signals_before; /* the thread's own mask */

void zkl__signals_hold(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t program;
    sigfillset(&program);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sigdelset(&program, faults[i]); /* blocked, they would end the process without the handler
                                           that it has for them */
    }
    pthread_sigmask(SIG_SETMASK, &program, &signals_before);
}

void zkl__signals_allow(void)
{
    pthread_sigmask(SIG_SETMASK, &signals_before, NULL);
}

int zkl__thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    zkl__signals_hold();
    int rc = pthread_create(thread, NULL, run, arg);
    zkl__signals_allow();
    if (rc != 0) {
        return ZKL_ELIMIT;
    }
    pthread_setname_np(*thread, "zklock");
    return ZKL_OK;
}

static _Thread_local unsigned cancel_holds;
static _Thread_local int cancel_before; /* the thread's own state */

void zkl__cancel_hold(void)
{
    if (cancel_holds++ == 0) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_before);
    }
}

void zkl__cancel_allow(void)
{
    if (--cancel_holds == 0) {
        pthread_setcancelstate(cancel_before, NULL);
    }
}

/* === alarms =================================================================================== */

/* Which alarms are set, and those that are due: whatever rings them, a thread or a
 * loop. */

void zkl__timerfd_arm(int fd, int64_t *armed, int64_t at)
{
    if (at >= *armed) {
        return; /* firing early does no harm */
    }
    *armed = at;
    at = at > 0 ? at : 1; /* 0 would disarm it */
    struct itimerspec when = {.it_value = {(time_t)(at / 1000000000), (long)(at % 1000000000)}};
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &when,
                    NULL); /* reaches a read that is blocked already, too */
}

void zkl__alarms_set(struct zkl__alarms *alarms, struct zkl__alarm *alarm, int64_t at)
{
    zkl__timers_set(&alarms->timers, &alarm->timer, at);
    zkl__alarms_arm(alarms, at);
}

void zkl__alarms_ring(struct zkl__alarms *alarms)
{
    struct zkl__alarm *alarm = NULL;
    alarms->ringing = true;
    while (!alarms->stop &&
           (alarm = (struct zkl__alarm *)zkl__timers_due(&alarms->timers, zkl__clock_now()))) {
        alarm->ring(alarm->owner);
    }
    alarms->ringing = false;
    zkl__alarms_arm(alarms, zkl__timers_next(&alarms->timers));
}

void zkl__alarms_close(struct zkl__alarms *alarms)
{
    if (alarms->poke_fd >= 0) {
        close(alarms->poke_fd);
    }
}
