/* loop.h - one loop for all sessions of a process in which no thread is ours (libzklock_st).
 *
 * Whoever waits turns it (thread.h), and the user's own loop does by
 * zkl_session_dispatch. A turn asks every source what to wait for, sleeps until something is due,
 * lets the sources go on, rings alarms, and runs callbacks last: they may turn the loop again, and
 * end what they like.
 *
 * It belongs to one thread, as the client library's handles do. */
#ifndef ZKL_LOOP_LOOP_H
#define ZKL_LOOP_LOOP_H

#include "thread.h"

/* Something that would have a thread of its own elsewhere. The owner's memory between add and
 * remove. */
struct zkl__source {
    /* Before the loop sleeps: sets what it is to be woken for (zkl__source_watch), and returns when
     * it wants to go on in any case, CLOCK_BOOTTIME ns. */
    int64_t (*prepare)(struct zkl__source *source, int64_t now);
    /* Goes on. events: what its descriptor is ready for (EPOLLIN, ...), 0: the time has come.
     * Neither this nor prepare waits, or adds or removes a source. */
    void (*go_on)(struct zkl__source *source, uint32_t events);
    int fd; /* a copy of the descriptor that it watches; -1: none */
    uint32_t wanted, ready;
    int64_t due;
    struct zkl__source *next, *prev;
};
int zkl__source_add(struct zkl__source *source); /* ZKL_OK, ZKL_ELIMIT */
void zkl__source_remove(struct zkl__source *source);
/* Wakes the loop for these events of the descriptor, of which a copy is made: it may be closed, and
 * its number be another's, before we hear of that. It is the same one until zkl__source_drop.
 * False: no descriptor is left. */
bool zkl__source_watch(struct zkl__source *source, int fd, uint32_t events);
void zkl__source_drop(struct zkl__source *source);
/* It wants to go on as soon as can be. */
void zkl__source_wake(struct zkl__source *source);

/* Sleeps until something is due, for news, or until the deadline; goes on with what is due. Without
 * a mutex. */
void zkl__loop_turn(int64_t deadline);
/* What has happened may be what somebody waits for: the turn does not sleep. */
void zkl__loop_news(void);

/* For alarm.c. */
int zkl__loop_join(struct zkl__alarms *alarms); /* ZKL_OK, ZKL_ELIMIT */
void zkl__loop_part(struct zkl__alarms *alarms);
void zkl__loop_arm(int64_t at); /* wakes it by then */

#endif
