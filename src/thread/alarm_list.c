/* alarm_list.c - which alarms are set, and those that are due: whatever rings them, a thread or a
 * loop. */
#include "alarm.h"

void zkl__alarms_unset(struct zkl__alarms *alarms, struct zkl__alarm *alarm)
{
    zkl__timers_set(&alarms->timers, &alarm->timer, INT64_MAX);
}

void zkl__alarms_set(struct zkl__alarms *alarms, struct zkl__alarm *alarm, int64_t at)
{
    zkl__timers_set(&alarms->timers, &alarm->timer, at);
    if (at != INT64_MAX) {
        zkl__alarms_arm(alarms, at);
    }
}

void zkl__alarms_ring(struct zkl__alarms *alarms)
{
    struct zkl__alarm *alarm = NULL;
    while (!alarms->stop &&
           (alarm = (struct zkl__alarm *)zkl__timers_due(&alarms->timers, zkl__clock_now()))) {
        alarm->ring(alarm->owner);
    }
    if (zkl__timers_next(&alarms->timers) != INT64_MAX) {
        zkl__alarms_arm(alarms, zkl__timers_next(&alarms->timers));
    }
}
