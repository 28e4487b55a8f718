/* How long a lock is kept, and how far back its user waits: delay_after_crash_ms,
 * hold_at_least_ms, linger_ms, position_fn and max_ahead, as their users see them. */
#include "lock_kit.h"

#define PATH "/locks/kept"
#define LONG INT64_C(3600000) /* ms: longer than any test */
#define SHORT 50
#define DELAYED LOCK_OPTIONS(.delay_after_crash_ms = LONG)

/* Servers remove empty containers with all that they know. */
TEST_WITH_SESSIONS(test_persistent)
{
    zkl_error err;
    kit_hold(one, PATH, DELAYED);
    kit_expire(one);
    kit_await_session(one, ZKL_SESSION_CONNECTED);
    ASSERT_OK(zkl__memory_reap("memory:kit"));
    CU_ASSERT_EQUAL(zkl_lock_acquire(kit_lock(two, PATH, DELAYED), 0, NULL, &err), ZKL_EBUSY);
    ASSERT_SAYS(err, "delay_after_crash_ms");
}

/* A lock that lingers, or stays for its least time, was released: its end is clean. With the option recover, too. */
TEST(test_with_other_options)
{
    for (int way = 0; way < 4; way++) {
        kit_set_up(NULL);
        bool recover = way >= 2;
        zkl_lock *lock =
            kit_lock(one, PATH,
                     LOCK_OPTIONS(.recover = recover, .delay_after_crash_ms = recover ? 0 : LONG,
                                  .linger_ms = way % 2 == 0 ? 1000 : 0, .hold_at_least_ms = way % 2 == 1 ? SHORT : 0));
        zkl_lock *plain = kit_lock(one, PATH, NULL);
        if (recover) { /* one that leaves no mark */
            kit_acquire(plain);
            kit_release(plain);
        }
        for (int i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL(kit_unclean(lock), recover && i == 0);
        }
        CU_ASSERT_FALSE(kit_unclean(kit_lock(two, PATH, DELAYED)));
        CU_ASSERT_FALSE(kit_unclean(kit_lock(one, PATH, DELAYED)));
        kit_tear_down();
    }
}

static zkl_lock *keeper(zkl_session *session, int64_t least_ms)
{
    return kit_lock(session, PATH, LOCK_OPTIONS(.hold_at_least_ms = least_ms));
}

/* Released at once, and nobody else has it before the time. */
TEST_WITH_SESSIONS(test_released_early)
{
    zkl_lock *first = keeper(one, SHORT), *second = kit_lock(two, PATH, NULL);
    zkl_grant grant;
    int64_t before = now_ms();
    ASSERT_OK(zkl_lock_acquire(first, 5000, &grant, NULL));
    kit_release(first);
    CU_ASSERT_EQUAL(zkl_lock_state(first), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_release(first, NULL), ZKL_ENOTHELD);
    ASSERT_OK(zkl_lock_acquire(second, 10000, &grant, NULL));
    CU_ASSERT(now_ms() - before >= SHORT);
    kit_release(second);
    kit_await_queue(two, PATH, 0);
}

static int try_it(zkl_session *session)
{
    zkl_lock *lock = kit_lock(session, PATH, NULL);
    int rc = zkl_lock_acquire(lock, 0, NULL, NULL);
    kit_free(lock);
    return rc;
}

/* Freed after its release, freed while it is held: it stays. Closed: it goes. */
TEST(test_ends)
{
    for (int way = 0; way < 3; way++) {
        zkl_session *session = kit_open(NULL), *other = kit_open(NULL);
        zkl_lock *lock = keeper(session, LONG);
        kit_acquire(lock);
        if (way == 0) {
            kit_release(lock);
        }
        if (way < 2) {
            kit_free(lock);
            CU_ASSERT_EQUAL(try_it(session), ZKL_EBUSY); /* its own session waits, too */
            CU_ASSERT_EQUAL(try_it(other), ZKL_EBUSY);
            CU_ASSERT_EQUAL(kit_queue(other, PATH), 1);
        }
        kit_close(session);
        ASSERT_OK(try_it(other));
        if (way == 2) {
            kit_free(lock);
        }
        kit_close(other);
    }
}

static int64_t acquire(zkl_lock *lock)
{
    kit_acquire(lock);
    return zkl_lock_token(lock);
}

TEST_WITH_SESSIONS(test_a_write_lock_lingers)
{
    zkl_lock *writer = kit_make(ZKL_RECIPE_WRITE_LOCK, one, PATH, LOCK_OPTIONS(.linger_ms = LONG));
    zkl_lock *reader = kit_make(ZKL_RECIPE_READ_LOCK, one, PATH, NULL);
    int64_t first = acquire(writer);
    kit_release(writer);
    CU_ASSERT_EQUAL(acquire(writer), first);
    ASSERT_OK(zkl_write_lock_downgrade(writer, NULL));
    kit_release(writer);
    kit_await_queue(two, PATH, 0); /* a reader does not linger */
    kit_acquire(writer);
    kit_release(writer);
    CU_ASSERT(acquire(reader) > first); /* of the same session: what lingers gives way */
    CU_ASSERT_EQUAL(kit_queue(two, PATH), 1);
}

static struct mailbox positions = MAILBOX_INIT;

static void on_position(zkl_lock *lock, size_t ahead, void *payload)
{
    CU_ASSERT_EQUAL(zkl_lock_state(lock) == ZKL_STATE_LOST, false);
    mailbox_put(payload, (struct letter){.from = lock, .code = (int)ahead});
}

#define ASKING LOCK_OPTIONS(.position_fn = on_position, .payload = &positions)

/* Its own predecessors go, one after the other; readers do not count for readers. */
TEST_WITH_SESSIONS(test_told_as_it_changes)
{
    zkl_lock *before[3];
    struct acquire acquire, waits[3];
    mailbox_clear(&positions);
    zkl_lock *lock = kit_lock(one, PATH, ASKING);
    EACH_ROW (i, before) {
        before[i] = kit_lock(two, PATH, NULL);
        acquire_start(&waits[i], before[i], 10000);
        kit_await_queue(one, PATH, i + 1);
    }
    acquire_start(&acquire, lock, 10000);
    CU_ASSERT_EQUAL(mailbox_code(&positions, 1), 3);
    ASSERT_OK(zkl_lock_cancel(before[2])); /* the predecessor gives up */
    CU_ASSERT_EQUAL(acquire_join(&waits[2]), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(mailbox_code(&positions, 2), 2);
    ASSERT_OK(acquire_join(&waits[0]));
    kit_release(before[0]); /* not its predecessor: nothing is read */
    ASSERT_OK(acquire_join(&waits[1]));
    CU_ASSERT_EQUAL(mailbox_count(&positions), 2);
    kit_release(before[1]);
    ASSERT_OK(acquire_join(&acquire));
    kit_free(lock);
    size_t count = mailbox_count(&positions);
    CU_ASSERT_TRUE(count == 2 || (count == 3 && mailbox_last(&positions) == 0));
}

TEST_WITH_SESSIONS(test_what_counts)
{
    struct acquire acquire;
    mailbox_clear(&positions);
    zkl_lock *reader = kit_make(ZKL_RECIPE_READ_LOCK, one, PATH, ASKING);
    zkl_lock *other = kit_make(ZKL_RECIPE_READ_LOCK, two, PATH, NULL);
    zkl_lock *writer = kit_make(ZKL_RECIPE_WRITE_LOCK, two, PATH, ASKING);
    kit_acquire(other);
    kit_acquire(reader); /* one reader stands before it, none counts */
    acquire_start(&acquire, writer, 10000);
    ASSERT_EVENTUALLY(mailbox_last(&positions) == 2);
    kit_release(reader);
    kit_release(other);
    ASSERT_OK(acquire_join(&acquire));
}

TEST_WITH_SESSIONS(test_max_ahead)
{
    struct acquire acquire;
    zkl_error err;
    zkl_lock *holder = kit_hold(two, PATH, NULL);
    zkl_lock *second = kit_lock(one, PATH, LOCK_OPTIONS(.max_ahead = 1));
    zkl_lock *third = kit_lock(one, PATH, LOCK_OPTIONS(.max_ahead = 1));
    acquire_start(&acquire, second, 10000);
    kit_await_queue(two, PATH, 2);
    CU_ASSERT_EQUAL(zkl_lock_acquire(third, 20000, NULL, &err), ZKL_EBUSY);
    ASSERT_SAYS(err, "max_ahead");
    kit_await_queue(two, PATH, 2);
    kit_release(holder);
    ASSERT_OK(acquire_join(&acquire));
    acquire_start(&acquire, third, 10000); /* one is before it now */
    kit_await_queue(two, PATH, 2);
    kit_release(second);
    ASSERT_OK(acquire_join(&acquire));
}

TESTS("lock_keeping")
