/* alarm.c - alarms that the loop rings: alarm.h without the thread. */
#include "alarm.h"

#include "loop.h"

#include <zklock/error.h>

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
    if (alarms->started) {
        zkl__loop_arm(at);
    }
}

static struct zkl__alarm *earliest(const struct zkl__alarms *alarms)
{
    struct zkl__alarm *best = alarms->first;
    for (struct zkl__alarm *alarm = best; alarm; alarm = alarm->next) {
        best = alarm->at < best->at ? alarm : best;
    }
    return best;
}

void zkl__alarms_ring(struct zkl__alarms *alarms)
{
    struct zkl__alarm *alarm = earliest(alarms);
    while (alarm && alarm->at <= zkl__clock_now()) {
        zkl__alarms_unset(alarms, alarm);
        alarm->ring(alarm->owner);
        alarm = earliest(alarms);
    }
    if (alarm) {
        zkl__loop_arm(alarm->at);
    }
}

int zkl__alarms_start(struct zkl__alarms *alarms, pthread_mutex_t *mutex)
{
    alarms->mutex = mutex;
    int rc = zkl__loop_join(alarms);
    alarms->started = rc == ZKL_OK;
    return rc;
}

void zkl__alarms_stop(struct zkl__alarms *alarms)
{
    if (alarms->started) {
        zkl__loop_part(alarms);
    }
    alarms->started = false;
    alarms->stop = true;
}
