/* The option delay_after_crash_ms on a real server: the next holder waits after a holder whose session ended without a release, and after no
 * other end. */
#include <string.h>

#include "one_server.h"

#define PATH "/crash-delay"
#define DELAY 3000
#define LONG 3600000 /* whoever is granted with this delay has not waited for it */

static zkl_lock *careful(zkl_session *session, int64_t delay_ms)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.delay_after_crash_ms = delay_ms;
    return contest_lock(session, PATH, &options);
}

static bool is_granted_at_once(zkl_session *session)
{
    zkl_lock *lock = careful(session, LONG);
    int code = zkl_lock_acquire(lock, SOON, NULL, NULL);
    if (code == ZKL_OK) {
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    }
    zkl_lock_free(lock);
    return code == ZKL_OK;
}

static bool is_delayed(zkl_session *session)
{
    zkl_lock *lock = careful(session, LONG);
    zkl_error err = {.text = ""};
    int code = zkl_lock_acquire(lock, 0, NULL, &err);
    zkl_lock_free(lock);
    return code == ZKL_EBUSY && strstr(err.text, "delay_after_crash_ms");
}

/* Free, handed over to another session, and in the same one. */
static void test_clean_ends(void)
{
    zkl_session *one = open_one(), *two = open_one();
    zkl_lock *first = careful(one, LONG), *second = careful(two, LONG), *third = careful(two, LONG);
    struct waiter waits, behind;
    for (int round = 0; round < 10; round++) {
        CU_ASSERT(is_granted_at_once(one));
        CU_ASSERT(is_granted_at_once(two));
        CU_ASSERT_EQUAL(zkl_lock_acquire(first, SOON, NULL, NULL), ZKL_OK);
        waiter_queue(&waits, second, SOON);
        CU_ASSERT(queue_becomes(eye, PATH, 2));
        waiter_queue(&behind, third, SOON);
        CU_ASSERT(queue_becomes(eye, PATH, 3));
        CU_ASSERT_EQUAL(zkl_lock_release(first, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(waiter_end(&waits), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_release(second, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(waiter_end(&behind), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_release(third, NULL), ZKL_OK);
    }
    CU_ASSERT_EQUAL(zkl_lock_acquire(first, SOON, NULL, NULL), ZKL_OK);
    close_one(one); /* which releases */
    CU_ASSERT(is_granted_at_once(two));
    zkl_lock_free(first);
    zkl_lock_free(second);
    zkl_lock_free(third);
    close_one(two);
}

/* When the queue was last seen to be so long: whoever goes, goes later. */
static int64_t last_time_of(size_t length)
{
    int64_t seen = now_ms(), at = seen;
    while (queue_length(eye, PATH) == length) {
        seen = at;
        at = now_ms();
    }
    return seen;
}

/* The holder's session expires with somebody behind it, or with nobody. For the servers that is a process that was killed. */
static void test_killed(void)
{
    zkl_session *session = open_one();
    for (int later = 0; later < 2; later++) {
        struct proxy *proxy;
        zkl_session *doomed = open_behind(&proxy);
        zkl_lock *holder = careful(doomed, DELAY), *next = careful(session, DELAY);
        struct waiter waits;
        CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(holder, SOON, NULL, NULL), ZKL_OK);
        if (!later) {
            waiter_queue(&waits, next, SOON);
        }
        CU_ASSERT_EQUAL(queue_length(eye, PATH), later ? 1 : 2);
        proxy_refuse(proxy, true);
        proxy_cut(proxy);
        int64_t before = last_time_of(later ? 1 : 2);
        if (later) {
            CU_ASSERT(is_delayed(session));
            waiter_start(&waits, next, SOON);
        }
        CU_ASSERT_EQUAL(waiter_end(&waits), ZKL_OK);
        CU_ASSERT(now_ms() - before >= DELAY);
        CU_ASSERT_EQUAL(zkl_lock_release(next, NULL), ZKL_OK);
        CU_ASSERT(is_granted_at_once(session));
        proxy_refuse(proxy, false);
        zkl_lock_free(holder);
        zkl_lock_free(next);
        close_behind(doomed, proxy);
    }
    close_one(session);
}

TESTS_ON_ONE_SERVER("delay after a crash", T(test_clean_ends), T(test_killed))
