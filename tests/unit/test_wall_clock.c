/* The wall clock jumps by an hour, a day, back again, at every look: nothing of a lock's depends on it. Linked with --wrap for what
 * tells it. */
#include "lock_kit.h"

#include <sys/time.h>

static atomic_long looks, leap;

static time_t jump(void)
{
    if (leap) { /* instead */
        return leap;
    }
    static const time_t jumps[] = {3600, -3600, 86400, -86400 * 365, 0};
    return jumps[(unsigned long)looks++ % (sizeof jumps / sizeof *jumps)];
}

int __real_clock_gettime(clockid_t clock, struct timespec *at);
int __wrap_clock_gettime(clockid_t clock, struct timespec *at);
int __real_gettimeofday(struct timeval *at, void *zone);
int __wrap_gettimeofday(struct timeval *at, void *zone);
time_t __real_time(time_t *at);
time_t __wrap_time(time_t *at);

int __wrap_clock_gettime(clockid_t clock, struct timespec *at)
{
    int rc = __real_clock_gettime(clock, at);
    at->tv_sec += clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? jump() : 0;
    return rc;
}

int __wrap_gettimeofday(struct timeval *at, void *zone)
{
    int rc = __real_gettimeofday(at, zone);
    at->tv_sec += jump();
    return rc;
}

time_t __wrap_time(time_t *at)
{
    time_t now = __real_time(NULL) + jump();
    if (at) {
        *at = now;
    }
    return now;
}

/* It does jump, here. */
TEST(test_it_jumps)
{
    struct timespec a, b;
    clock_gettime(CLOCK_REALTIME, &a);
    clock_gettime(CLOCK_REALTIME, &b);
    CU_ASSERT(labs((long)(b.tv_sec - a.tv_sec)) > 1000);
}

TEST_WITH_SESSIONS(test_lease_and_wait)
{
    int64_t timeout_ms = zkl_session_timeout_ms(one);
    zkl_lock *lock = kit_hold(one, "/clock", NULL), *late = kit_lock(two, "/clock", NULL);
    int64_t token = zkl_lock_token(lock);
    int64_t began = now_ms();
    CU_ASSERT_EQUAL(zkl_lock_acquire(late, 500, NULL, NULL), ZKL_ETIMEOUT);
    int64_t took = now_ms() - began;
    CU_ASSERT(took >= 500 && took < 60000);
    CU_ASSERT(kit_renewed(lock, 6000)); /* renewed again and again */
    CU_ASSERT_EQUAL(zkl_lock_token(lock), token);
    CU_ASSERT(zkl_lock_remaining_ms(lock) > 0 && zkl_lock_remaining_ms(lock) <= timeout_ms);
    kit_suspend(one); /* and ends when it must */
    ASSERT_EVENTUALLY(!zkl_lock_is_held(lock));
    kit_resume(one);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
}

static int no_work(const zkl_cancel *cancel, int64_t token, void *payload)
{
    return 0;
}

/* The servers' clock was years ahead when a job was recorded. */
TEST_WITH_SESSIONS(test_a_record_of_a_wrong_clock)
{
    static const struct {
        time_t leap;
        bool runs;
    } rows[] = {{3600L * 24 * 365 * 14, true}, {1, true}, {2, false}};
    zkl_lock *lock = kit_lock(one, "/job", NULL);
    EACH_ROW (i, rows) {
        bool ran;
        int result;
        leap = rows[i].leap;
        ASSERT_OK(zkl_once_run(lock, 24 * 3600000, 0, 10000, no_work, NULL, &ran, &result, NULL));
        CU_ASSERT_EQUAL(ran, rows[i].runs);
    }
    leap = 0;
}

TESTS("wall clock")
