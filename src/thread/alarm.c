#include "alarm.h"

#include <zklock/error.h>

#include <sys/timerfd.h>
#include <unistd.h>

static void arm(struct zkl__alarms *alarms, int64_t at)
{
    if (at >= alarms->armed || alarms->stop) {
        return; /* firing early does no harm */
    }
    alarms->armed = at;
    at = at > 0 ? at : 1; /* 0 would disarm it */
    struct itimerspec when = {.it_value = {(time_t)(at / 1000000000), (long)(at % 1000000000)}};
    timerfd_settime(alarms->fd, TFD_TIMER_ABSTIME, &when,
                    NULL); /* reaches a read that is blocked already, too */
}

void zkl__alarms_unset(struct zkl__alarms *alarms, struct zkl__alarm *alarm)
{
    struct zkl__alarm **at = &alarms->first;
    while (*at && *at != alarm) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = alarm->next;
    }
    alarm->set = false;
}

void zkl__alarms_set(struct zkl__alarms *alarms, struct zkl__alarm *alarm, int64_t at)
{
    if (at == INT64_MAX) {
        zkl__alarms_unset(alarms, alarm);
        return;
    }
    if (!alarm->set) { /* in no order: there are few */
        alarm->next = alarms->first;
        alarms->first = alarm;
        alarm->set = true;
    }
    alarm->at = at;
    arm(alarms, at);
}

static struct zkl__alarm *earliest(const struct zkl__alarms *alarms)
{
    struct zkl__alarm *best = alarms->first;
    for (struct zkl__alarm *alarm = best; alarm; alarm = alarm->next) {
        best = alarm->at < best->at ? alarm : best;
    }
    return best;
}

static void ring_due(struct zkl__alarms *alarms)
{
    struct zkl__alarm *alarm = earliest(alarms);
    while (alarm && !alarms->stop && alarm->at <= zkl__clock_now()) {
        zkl__alarms_unset(alarms, alarm);
        alarm->ring(alarm->owner);
        alarm = earliest(alarms);
    }
    if (alarm) {
        arm(alarms, alarm->at);
    }
}

static void *run(void *arg)
{
    struct zkl__alarms *alarms = arg;
    pthread_mutex_lock(alarms->mutex);
    while (!alarms->stop) {
        uint64_t count;
        pthread_mutex_unlock(alarms->mutex);
        ssize_t got = read(alarms->fd, &count, sizeof count);
        (void)got; /* whatever woke us, the clock says what is due */
        pthread_mutex_lock(alarms->mutex);
        alarms->armed = INT64_MAX;
        ring_due(alarms);
    }
    pthread_mutex_unlock(alarms->mutex);
    return NULL;
}

int zkl__alarms_start(struct zkl__alarms *alarms, pthread_mutex_t *mutex)
{
    alarms->mutex = mutex;
    alarms->armed = INT64_MAX;
    alarms->fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    alarms->started = alarms->fd >= 0 && zkl__thread_start(&alarms->thread, run, alarms) == ZKL_OK;
    return alarms->started ? ZKL_OK : ZKL_ELIMIT;
}

void zkl__alarms_stop(struct zkl__alarms *alarms)
{
    pthread_mutex_lock(alarms->mutex);
    if (alarms->started) {
        arm(alarms, 0);
    }
    alarms->stop = true;
    bool join = alarms->started;
    pthread_mutex_unlock(alarms->mutex);
    if (join) {
        pthread_join(alarms->thread, NULL);
    }
    if (alarms->fd >= 0) {
        close(alarms->fd); /* nobody looks at it any more, see arm */
    }
}
