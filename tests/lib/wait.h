/* wait.h - the time, and waiting for what does not tell of itself:
 *
 *   bool is_there = EVENTUALLY(there_it_is());
 */
#ifndef ZKL_TESTS_WAIT_H
#define ZKL_TESTS_WAIT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define SOON 30000 /* ms: nothing that is expected takes that long, on any machine */
#define MS INT64_C(1000000)

static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The clock of leases, the same in every process of this machine. */
static inline int64_t boot_ns(void)
{
    return clock_ns(CLOCK_BOOTTIME);
}

static inline int64_t now_ms(void)
{
    return clock_ns(CLOCK_MONOTONIC) / MS;
}

/* A short pause between two looks. False when there is to be no other one. */
static inline bool look_again(int64_t end_ms)
{
    poll(NULL, 0, 1);
    return now_ms() < end_ms;
}

/* True as soon as the condition is, false after so many ms. */
#define WITHIN(ms, condition)                              \
    __extension__({                                        \
        int64_t end_ = now_ms() + (ms);                    \
        bool so_;                                          \
        while (!(so_ = (condition)) && look_again(end_)) { \
        }                                                  \
        so_;                                               \
    })
#define EVENTUALLY(condition) WITHIN(SOON, condition)

static inline int compare_int64(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Sorts them. */
static inline int64_t median(int64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_int64);
    return values[count / 2];
}

#endif
