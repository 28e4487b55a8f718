/* dice.h - randomness that replays: numbers from a seed, and numbers from a seed and a place.
 *
 * What a plan rolls once comes from a stream (dice_next). What every message rolls (its delay) is a function of the seed and of the
 * message's place in its channel (dice_at), so that taking one fault out of a plan does not roll everything else anew: a
 * shrinker needs that. Unsigned arithmetic only: the same on every compiler. */
#ifndef ZKL_TESTS_DICE_H
#define ZKL_TESTS_DICE_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t dice_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t dice_at(uint64_t seed, uint64_t place, uint64_t count)
{
    return dice_mix(dice_mix(seed ^ (place * 0x9e3779b97f4a7c15u)) + count * 0xd1342543de82ef95u);
}

static inline uint64_t dice_next(uint64_t *stream)
{
    *stream += 0x9e3779b97f4a7c15u;
    return dice_mix(*stream);
}

/* 0 .. bound - 1. */
static inline int64_t dice_below(uint64_t *stream, int64_t bound)
{
    return (int64_t)((dice_next(stream) >> 1) % (uint64_t)bound);
}

static inline int64_t dice_between(uint64_t *stream, int64_t low, int64_t high)
{
    return low + dice_below(stream, high - low + 1);
}

/* True once in n. */
static inline bool dice_once_in(uint64_t *stream, int64_t n)
{
    return dice_below(stream, n) == 0;
}

#endif
