/* Locks with the option hold_at_least_ms, as their users see them. On the in-process store. */
#include "lock_kit.h"

#include <string.h>

#define PATH "/job"
#define LONG INT64_C(3600000) /* ms: longer than any test */
#define SHORT 300

static zkl_lock *keeper(zkl_session *session, int64_t least_ms)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.hold_at_least_ms = least_ms;
    return kit_lock(session, PATH, &options);
}

/* Released at once, and nobody else has it before the time. */
static void test_released_early(void)
{
    kit_set_up(NULL);
    zkl_lock *first = keeper(one, SHORT), *second = kit_lock(two, PATH, NULL);
    zkl_grant grant;
    int64_t before = now_ms();
    CU_ASSERT_EQUAL(zkl_lock_acquire(first, 5000, &grant, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(first, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_state(first), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_release(first, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_lock_acquire(second, 10000, &grant, NULL), ZKL_OK);
    CU_ASSERT(now_ms() - before >= SHORT);
    CU_ASSERT_EQUAL(zkl_lock_release(second, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(two, PATH) == 0));
    zkl_lock_free(first);
    zkl_lock_free(second);
    kit_tear_down();
}

/* The time has passed: the release deletes the znode as always. */
static void test_released_late(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = keeper(one, 1);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    int64_t end = now_ms() + 3;
    while (now_ms() < end) {
    }
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(kit_queue(two, PATH), 0);
    zkl_lock_free(lock);
    kit_tear_down();
}

static int try_it(zkl_session *session)
{
    zkl_lock *lock = kit_lock(session, PATH, NULL);
    int rc = zkl_lock_acquire(lock, 0, NULL, NULL);
    zkl_lock_free(lock);
    return rc;
}

/* Freed after its release, freed while it is held: it stays. Closed: it goes. */
static void test_ends(void)
{
    for (int way = 0; way < 3; way++) {
        zkl_session *session = kit_open(NULL), *other = kit_open(NULL);
        zkl_lock *lock = keeper(session, LONG);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
        if (way == 0) {
            CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
        }
        if (way < 2) {
            zkl_lock_free(lock);
            CU_ASSERT_EQUAL(try_it(session), ZKL_EBUSY); /* its own session waits, too */
            CU_ASSERT_EQUAL(try_it(other), ZKL_EBUSY);
            CU_ASSERT_EQUAL(kit_queue(other, PATH), 1);
        }
        kit_close(session);
        CU_ASSERT_EQUAL(try_it(other), ZKL_OK);
        if (way == 2) {
            zkl_lock_free(lock);
        }
        kit_close(other);
    }
}

/* The object may be used again, and queues behind its own znode. */
static void test_again(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = keeper(one, SHORT);
    int64_t last = 0;
    for (int round = 0; round < 3; round++) {
        zkl_grant grant;
        int64_t before = now_ms();
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, &grant, NULL), ZKL_OK);
        CU_ASSERT(grant.token > last);
        last = grant.token;
        CU_ASSERT(round == 0 || now_ms() - before >= SHORT / 2); /* that of the last grant */
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    }
    zkl_lock_free(lock);
    kit_tear_down();
}

/* Over a lost connection it stays; with the session it goes. */
static void test_trouble(void)
{
    zkl_session_options options = kit_short();
    kit_set_up(&options);
    zkl_lock *lock = keeper(one, LONG);
    int64_t id = zkl_session_id(one);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_suspend(id), ZKL_OK);
    CU_ASSERT_EQUAL(try_it(two), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_CONNECTED));
    CU_ASSERT_EQUAL(try_it(one), ZKL_EBUSY); /* what it sends after the reconnect is done */
    CU_ASSERT_EQUAL(try_it(two), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl__memory_expire(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(try_it(two) == ZKL_OK));
    CU_ASSERT(EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_CONNECTED));
    zkl_lock_free(lock);
    kit_tear_down();
}

/* The time passes while no server is reached: deleted when one is. */
static void test_due_while_away(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = keeper(one, SHORT);
    int64_t id = zkl_session_id(one);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    int64_t due = now_ms() + 2 * SHORT;
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_suspend(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(now_ms() >= due));
    CU_ASSERT_EQUAL(try_it(two), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(two, PATH) == 0));
    zkl_lock_free(lock);
    kit_tear_down();
}

/* There is nothing left to protect. */
static void test_lost(void)
{
    zkl_session_options options = kit_short();
    kit_set_up(&options);
    zkl_lock *lock = keeper(one, LONG);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_suspend(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_LOST));
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    CU_ASSERT(EVENTUALLY(kit_queue(two, PATH) == 0));
    zkl_lock_free(lock);
    kit_tear_down();
}

static void refuse(zkl_session *session, const zkl_lock_options *options, const char *word)
{
    zkl_lock *lock = NULL;
    zkl_error err = {.text = ""};
    CU_ASSERT_EQUAL(zkl_lock_new(&lock, session, PATH, options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "hold_at_least_ms"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, word));
}

static void test_refused_by_name(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    zkl_error err;
    zkl_session *session = kit_open(NULL);
    options.hold_at_least_ms = -1;
    refuse(session, &options, "-1");
    options.hold_at_least_ms = 25 * LONG;
    refuse(session, &options, "90000000");
    options.hold_at_least_ms = 1000;
    options.max_hold_ms = 999;
    refuse(session, &options, "max_hold_ms");
    options.max_hold_ms = 0;
    options.linger_ms = 1;
    refuse(session, &options, "linger_ms");
    options.linger_ms = 0;
    CU_ASSERT_EQUAL(zkl_semaphore_new(&lock, session, PATH, 1, &options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "hold_at_least_ms"));
    CU_ASSERT_EQUAL(zkl_write_lock_new(&lock, session, PATH, &options, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_election_new(&lock, session, PATH, &options, &err), ZKL_EINVAL);
    kit_close(session);
}

TESTS("held at least", T(test_released_early), T(test_released_late), T(test_ends), T(test_again), T(test_trouble),
      T(test_due_while_away), T(test_lost), T(test_refused_by_name))
