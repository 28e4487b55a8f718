/* alarm_list.c - which alarms are set, and those that are due: whatever rings them, a thread or a
 * loop. */
#include "alarm.h"

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
    zkl__alarms_arm(alarms, at);
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
    while (alarm && !alarms->stop && alarm->at <= zkl__clock_now()) {
        zkl__alarms_unset(alarms, alarm);
        alarm->ring(alarm->owner);
        alarm = earliest(alarms);
    }
    if (alarm) {
        zkl__alarms_arm(alarms, alarm->at);
    }
}
