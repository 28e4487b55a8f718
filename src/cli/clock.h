/* clock.h - the two clocks of the command. CLOCK_BOOTTIME counts while the machine sleeps: leases
 * are measured by it. */
#ifndef CLI_CLOCK_H
#define CLI_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS 1000000LL

static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000LL + now.tv_nsec;
}

static inline int64_t clock_ms(clockid_t clock)
{
    return clock_ns(clock) / NS_PER_MS;
}

static inline int64_t now_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

#endif
