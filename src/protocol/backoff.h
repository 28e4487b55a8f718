/* backoff.h - the pause before something is tried again: twice the last one, within bounds. */
#ifndef ZKL_PROTOCOL_BACKOFF_H
#define ZKL_PROTOCOL_BACKOFF_H

#include <stdint.h>

/* last: 0 at first. All of one unit. */
static inline int64_t zkl__backoff(int64_t last, int64_t least, int64_t most)
{
    int64_t longer = 2 * last < most ? 2 * last : most;
    return longer > least ? longer : least;
}

#endif
