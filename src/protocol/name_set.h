/* name_set.h - names of znodes that are passed over, each with a number. Anybody may make such
 * names by the thousand: they are found by a hash whose key nobody else knows. */
#ifndef ZKL_PROTOCOL_NAME_SET_H
#define ZKL_PROTOCOL_NAME_SET_H

#include "base.h"

/* splitmix64: a bijection, so two numbers never give one. */
static inline uint64_t zkl__mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The same with its step before, for numbers that are close to each other. */
static inline uint64_t zkl__next_mix(uint64_t x)
{
    return zkl__mix(x + UINT64_C(0x9e3779b97f4a7c15));
}

/* Zeroes: empty. */
struct zkl__name_set {
    struct zkl__name_entry {
        char *name; /* NULL: free */
        uint64_t hash;
        int64_t value;
    } * entries;
    size_t room, count; /* room: a power of two, or 0 */
    uint64_t key;
};

/* NULL: it is not there. */
const int64_t *zkl__name_set_find(const struct zkl__name_set *set, const char *name);
/* Copies it; the number of one that is there already changes. False: no memory. */
bool zkl__name_set_put(struct zkl__name_set *set, const zkl_heap *heap, const char *name,
                       int64_t value);
/* Forgets all but these. */
void zkl__name_set_keep(struct zkl__name_set *set, const zkl_heap *heap, const char *const *names,
                        size_t count);
void zkl__name_set_clear(struct zkl__name_set *set, const zkl_heap *heap);

#endif
