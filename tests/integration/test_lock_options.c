/* Options of a lock on a real server. linger_ms: another session that queues behind it is granted immediately. delay_after_crash_ms: the
 * next holder waits after a holder whose session ended without a release, and after no other end. */
#include <string.h>

#include "handle_kit.h"
#include "one_server.h"

#define LINGERING "/lingering"
#define LINGER 60000
#define CRASHING "/crash-delay"
#define DELAY 3000

/* --- linger_ms ---------------------------------------------------------------------------------------------------------- */

static zkl_lock *lock_in(zkl_session *session, int64_t linger_ms)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.linger_ms = linger_ms;
    return contest_lock(session, LINGERING, &options);
}

static zkl_grant acquire(zkl_lock *lock)
{
    zkl_grant grant = {.token = 0};
    ASSERT_OK_FATAL(zkl_lock_acquire(lock, SOON, &grant, NULL));
    return grant;
}

static void release(zkl_lock *lock)
{
    ASSERT_OK(zkl_lock_release(lock, NULL));
}

/* Each round: granted again without a request; then another session, which finds it idle or held, is granted, with a higher token. */
TEST(test_another_session)
{
    zkl_session *one = open_one(), *two = open_one();
    zkl_lock *lock = lock_in(one, LINGER), *rival = lock_in(two, 0);
    int64_t last = 0;
    struct waiter waiter;
    for (int round = 0; round < 20; round++) {
        zkl_grant first = acquire(lock);
        CU_ASSERT(first.token > last);
        CU_ASSERT_EQUAL(first.serial, 1);
        release(lock);
        CU_ASSERT_EQUAL(queue_length(eye, LINGERING), 1);
        zkl_grant again = acquire(lock);
        CU_ASSERT_EQUAL(again.token, first.token);
        CU_ASSERT_EQUAL(again.serial, 2);
        if (round % 2 == 0) {
            release(lock);
            last = acquire(rival).token;
        } else {
            waiter_queue(&waiter, rival, SOON);
            CU_ASSERT(queue_becomes(eye, LINGERING, 2));
            release(lock);
            ASSERT_OK(waiter_end(&waiter));
            last = waiter.grant.token;
        }
        CU_ASSERT(last > first.token);
        CU_ASSERT_FALSE(zkl_lock_is_held(lock));
        release(rival);
    }
    CU_ASSERT(queue_becomes(eye, LINGERING, 0));
    zkl_lock_free(lock);
    zkl_lock_free(rival);
    close_one(one);
    close_one(two);
}

/* --- delay_after_crash_ms ------------------------------------------------------------------------------------------------ */

static zkl_lock *careful(zkl_session *session, int64_t delay_ms)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.delay_after_crash_ms = delay_ms;
    return contest_lock(session, CRASHING, &options);
}

/* When the queue was last seen to be so long: whoever goes, goes later. */
static int64_t last_time_of(size_t length)
{
    int64_t seen = now_ms(), at = seen;
    while (queue_length(eye, CRASHING) == length) {
        seen = at;
        at = now_ms();
    }
    return seen;
}

/* The holder's session expires with somebody behind it, or with nobody. For the servers that is a process that was killed. */
TEST(test_killed)
{
    zkl_session *session = open_one();
    for (int later = 0; later < 2; later++) {
        struct proxy *proxy;
        zkl_session *doomed = open_behind(&proxy);
        zkl_lock *holder = careful(doomed, DELAY), *next = careful(session, DELAY);
        struct waiter waits;
        ASSERT_OK_FATAL(zkl_lock_acquire(holder, SOON, NULL, NULL));
        if (!later) {
            waiter_queue(&waits, next, SOON);
        }
        CU_ASSERT_EQUAL(queue_length(eye, CRASHING), later ? 1 : 2);
        proxy_down(proxy);
        int64_t before = last_time_of(later ? 1 : 2);
        if (later) {
            CU_ASSERT(handle_delayed(session, CRASHING));
            waiter_start(&waits, next, SOON);
        }
        ASSERT_OK(waiter_end(&waits));
        CU_ASSERT(now_ms() - before >= DELAY);
        ASSERT_OK(zkl_lock_release(next, NULL));
        CU_ASSERT(handle_granted_at_once(session, CRASHING));
        proxy_refuse(proxy, false);
        zkl_lock_free(holder);
        zkl_lock_free(next);
        close_behind(doomed, proxy);
    }
    close_one(session);
}

TESTS_ON_ONE_SERVER("options of a lock")
