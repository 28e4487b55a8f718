/* alarm.h - one thread that does things at their time, on a timer that goes on while the machine
 * sleeps. */
#ifndef ZKL_THREAD_ALARM_H
#define ZKL_THREAD_ALARM_H

#include "thread.h"
#include "collections.h"

/* Something to do at a time. The owner's memory while it is set. */
struct zkl__alarm {
    struct zkl__timer timer; /* first. CLOCK_BOOTTIME ns */
    /* With the mutex held, on the alarms' thread; may drop the mutex meanwhile. No longer set then,
     * may be set again. */
    void (*ring)(void *owner);
    void *owner;
};

struct zkl__alarms {
    pthread_mutex_t *mutex; /* guards everything here */
    pthread_t thread;
    bool started, stop;
    int fd;                   /* timerfd */
    int64_t armed;            /* when fd fires; INT64_MAX: not before somebody sets an alarm */
    int poke_fd;              /* eventfd; -1: nobody has asked for it */
    struct zkl__alarm *poked; /* rings when somebody has written to it */
    struct zkl__poke *poke;   /* where there is no thread: who hears of that */
    struct zkl__timers timers;
    void (*left)(void *owner); /* see zkl__alarms_retire */
    void *owner;
    struct zkl__alarms *next; /* of those that the loop rings, where there is no thread */
};

/* Takes zeroed memory. ZKL_OK, ZKL_ELIMIT; stop in either case. */
int zkl__alarms_start(struct zkl__alarms *alarms, pthread_mutex_t *mutex);
/* Without the mutex. Nothing rings afterwards. */
void zkl__alarms_stop(struct zkl__alarms *alarms);
void zkl__alarms_close(struct zkl__alarms *alarms);
/* The same in a ring, with the mutex, and nobody waits: nothing rings any more behind this one.
 * left: called without the mutex when the memory is not looked at any more, by the thread as its
 * last act; where there is none, at once. */
void zkl__alarms_retire(struct zkl__alarms *alarms, void (*left)(void *owner), void *owner);

/* With the mutex. A descriptor (an eventfd that never blocks) for who can take no mutex, as a
 * signal handler: a write to it sets the alarm, which is the same in every call, for now. -1: there
 * is no descriptor. It stays open until zkl__alarms_close, for who still writes to it. */
int zkl__alarms_poke_descriptor(struct zkl__alarms *alarms, struct zkl__alarm *poked);

/* With the mutex. Set already: moves it. INT64_MAX: as unset. */
void zkl__alarms_set(struct zkl__alarms *alarms, struct zkl__alarm *alarm, int64_t at);
void zkl__alarms_unset(struct zkl__alarms *alarms, struct zkl__alarm *alarm);

/* With the mutex; between the list of alarms and what rings them. Somebody is to call ring at this
 * time, or earlier. */
void zkl__alarms_arm(struct zkl__alarms *alarms, int64_t at);
void zkl__alarms_ring(struct zkl__alarms *alarms); /* what is due */

#endif
