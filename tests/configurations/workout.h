/* workout.h - what has to hold under every configuration of the servers: contenders acquire, release
 * and hand over, one at a time, in the order of the queue, with tokens that rise. */
#ifndef ZKL_CONFIGURATIONS_WORKOUT_H
#define ZKL_CONFIGURATIONS_WORKOUT_H

#include <stdatomic.h>

#include "check.h"
#include "contest.h"
#include "ensemble.h"
#include "store_client.h"

#define FIELD_SERVERS 4

/* Where contenders come from: session i is connected to servers[i % count]. */
struct field {
    const char *servers[FIELD_SERVERS];
    int count;
    int64_t timeout_ms, tick_ms;
};

/* One connect string for all. */
struct field field_of(const char *servers, int64_t timeout_ms, int64_t tick_ms);
/* Each of the servers by itself: who is behind an observer is behind nobody else. */
struct field field_of_each(const struct ensemble *e, int64_t timeout_ms, int64_t tick_ms);

/* A holder, and contenders in a known order behind it; each has a session of its own. */
struct queue_of {
    int count;
    zkl_session **sessions;
    zkl_lock **locks; /* the first one is held */
    struct waiter *waiters;
};

struct queue_of queue_up(const struct field *field, const char *path, int count);
/* Releases the holder and checks the order of all the others; frees all. */
void queue_drain(struct queue_of *queue);

/* A queue of six, and four threads that acquire ten times each. */
void workout(const struct field *field, const char *path);

/* The lease of a held lock has so much left, at some time soon. */
bool lease_becomes(const zkl_lock *lock, int64_t remaining_ms);

/* The result of a test, for docs/compatibility.md: printed if nothing has failed in it.
 * Ends with "HOLDS|configuration|what". */
void holds(const char *configuration, const char *what);
/* What zkl_session_open says: its code, with the error in err. Closes what it opened. */
int try_session(const char *servers, int64_t timeout_ms, int64_t tick_ms, zkl_error *err);

#endif
