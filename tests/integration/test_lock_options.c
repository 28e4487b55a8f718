/* delay_after_crash_ms on a real server: the next holder waits after a holder whose session ended without a release, and after no other
 * end. */
#include <string.h>

#include "handle_kit.h"
#include "one_server.h"

#define CRASHING "/crash-delay"
#define DELAY 3000

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
