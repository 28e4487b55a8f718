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

#endif
