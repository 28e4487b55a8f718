/* timers.h - which time comes next: a binary heap of timers that are part of their owners, so that
 * setting one needs no memory. */
#ifndef ZKL_BASE_TIMERS_H
#define ZKL_BASE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroes: not set. */
struct zkl__timer {
    int64_t at; /* while set */
    bool set;
    struct zkl__timer *parent, *child[2];
};

struct zkl__timers {
    struct zkl__timer *root;
    size_t count;
};

/* Set already: moves it. INT64_MAX: it is not set any more. */
void zkl__timers_set(struct zkl__timers *timers, struct zkl__timer *timer, int64_t at);
/* The earliest one, if it is due, no longer set; NULL: none is. */
struct zkl__timer *zkl__timers_due(struct zkl__timers *timers, int64_t now);
/* INT64_MAX: none is set. */
int64_t zkl__timers_next(const struct zkl__timers *timers);

/* The pause before something is tried again: twice the last one, within bounds. last: 0 at first.
 * All of one unit. */
static inline int64_t zkl__backoff(int64_t last, int64_t least, int64_t most)
{
    int64_t longer = 2 * last < most ? 2 * last : most;
    return longer > least ? longer : least;
}

#endif
