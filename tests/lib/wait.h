/* wait.h - the time, and waiting for what does not tell of itself:
 *
 *   bool is_there = EVENTUALLY(there_it_is());
 */
#ifndef ZKL_TESTS_WAIT_H
#define ZKL_TESTS_WAIT_H

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

#define LOOK_EACH_MS 5 /* ten tests at once that look each millisecond keep a sixth of a processor busy */

/* A short pause between two looks. False when there is to be no other one. */
static inline bool look_again(int64_t end_ms)
{
    poll(NULL, 0, LOOK_EACH_MS);
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

/* How long a thread stood ready to run and got no processor, as the kernel's scheduler counts it: a thread beside it cannot tell. */

/* A descriptor for the calling thread's count; -1: this kernel does not tell. */
static inline int run_delay_open(void)
{
    return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

/* ns since the thread began; 0 for -1. Any thread. */
static inline int64_t run_delay_ns(int fd)
{
    char text[128];
    long long ran, delayed;
    ssize_t length = fd >= 0 ? pread(fd, text, sizeof text - 1, 0) : 0;
    text[length > 0 ? length : 0] = '\0';
    return sscanf(text, "%lld %lld", &ran, &delayed) == 2 ? delayed : 0;
}

#endif
