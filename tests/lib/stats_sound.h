/* stats_sound.h - what zklock/stats.h says of the sums of contenders, for unit tests and the simulator. */
#ifndef ZKL_TESTS_STATS_SOUND_H
#define ZKL_TESTS_STATS_SOUND_H

#include <zklock/stats.h>

static inline bool stats_sound(const zkl_contender_stats *c)
{
    return c->waits == c->grants + c->timeouts + c->busy + c->cancels + c->failures + c->waiting &&
           c->grants == c->releases + c->losses + c->held;
}

#endif
