/* How long a lock is kept, and how far back its user waits: delay_after_crash_ms,
 * hold_at_least_ms, linger_ms, position_fn and max_ahead, as their users see them. */
#include "handle_kit.h"
#include "lock_kit.h"

#include <string.h>

#define PATH "/locks/kept"
#define LONG INT64_C(3600000) /* ms: longer than any test */
#define SHORT 50

static zkl_lock *careful(zkl_session *session, int64_t delay_ms)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.delay_after_crash_ms = delay_ms;
    return kit_lock(session, PATH, &options);
}

static void crash(zkl_session *session)
{
    kit_expire(session);
    ASSERT_EVENTUALLY(zkl_session_state(session) == ZKL_SESSION_CONNECTED);
}

/* Servers remove empty containers with all that they know. */
TEST_WITH_SESSIONS(test_persistent)
{
    zkl_lock *lock = careful(one, LONG);
    ASSERT_OK(zkl_lock_acquire(lock, 5000, NULL, NULL));
    crash(one);
    ASSERT_OK(zkl__memory_reap("kit"));
    CU_ASSERT(handle_delayed(two, PATH));
}

/* A lock that lingers, or stays for its least time, was released: its end is clean. With the option recover, too. */
TEST(test_with_other_options)
{
    for (int way = 0; way < 4; way++) {
        kit_set_up(NULL);
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        zkl_grant grant;
        options.recover = way >= 2;
        options.delay_after_crash_ms = options.recover ? 0 : LONG;
        options.linger_ms = way % 2 == 0 ? 1000 : 0;
        options.hold_at_least_ms = way % 2 == 1 ? SHORT : 0;
        zkl_lock *lock = kit_lock(one, PATH, &options), *plain = kit_lock(one, PATH, NULL);
        if (options.recover) { /* one that leaves no mark */
            ASSERT_OK(zkl_lock_acquire(plain, 5000, NULL, NULL));
            ASSERT_OK(zkl_lock_release(plain, NULL));
        }
        for (int i = 0; i < 2; i++) {
            ASSERT_OK(zkl_lock_acquire(lock, 5000, &grant, NULL));
            CU_ASSERT_EQUAL(grant.unclean, options.recover && i == 0);
            ASSERT_OK(zkl_lock_release(lock, NULL));
        }
        CU_ASSERT(handle_granted_at_once(two, PATH));
        CU_ASSERT(handle_granted_at_once(one, PATH));
        kit_free(lock);
        kit_free(plain);
        kit_tear_down();
    }
}

static zkl_lock *keeper(zkl_session *session, int64_t least_ms)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.hold_at_least_ms = least_ms;
    return kit_lock(session, PATH, &options);
}

/* Released at once, and nobody else has it before the time. */
TEST_WITH_SESSIONS(test_released_early)
{
    zkl_lock *first = keeper(one, SHORT), *second = kit_lock(two, PATH, NULL);
    zkl_grant grant;
    int64_t before = now_ms();
    ASSERT_OK(zkl_lock_acquire(first, 5000, &grant, NULL));
    ASSERT_OK(zkl_lock_release(first, NULL));
    CU_ASSERT_EQUAL(zkl_lock_state(first), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_release(first, NULL), ZKL_ENOTHELD);
    ASSERT_OK(zkl_lock_acquire(second, 10000, &grant, NULL));
    CU_ASSERT(now_ms() - before >= SHORT);
    ASSERT_OK(zkl_lock_release(second, NULL));
    ASSERT_EVENTUALLY(kit_queue(two, PATH) == 0);
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
        ASSERT_OK(zkl_lock_acquire(lock, 5000, NULL, NULL));
        if (way == 0) {
            ASSERT_OK(zkl_lock_release(lock, NULL));
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

static zkl_lock_options lingering(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.linger_ms = LONG;
    return options;
}

static zkl_grant acquire(zkl_lock *lock)
{
    zkl_grant grant = {.token = 0};
    ASSERT_OK_FATAL(zkl_lock_acquire(lock, 5000, &grant, NULL));
    return grant;
}

static void release(zkl_lock *lock)
{
    ASSERT_OK(zkl_lock_release(lock, NULL));
}

TEST_WITH_SESSIONS(test_a_write_lock_lingers)
{
    zkl_lock_options options = lingering();
    zkl_lock *writer = NULL, *reader = NULL;
    ASSERT_OK_FATAL(zkl_write_lock_new(&writer, one, PATH, &options, NULL));
    ASSERT_OK_FATAL(zkl_read_lock_new(&reader, one, PATH, NULL, NULL));
    zkl_grant first = acquire(writer);
    release(writer);
    zkl_grant again = acquire(writer);
    CU_ASSERT_EQUAL(again.token, first.token);
    ASSERT_OK(zkl_write_lock_downgrade(writer, NULL));
    release(writer);
    ASSERT_EVENTUALLY(kit_queue(two, PATH) == 0); /* a reader does not linger */
    release((acquire(writer), writer));
    CU_ASSERT(acquire(reader).token > first.token); /* of the same session: what lingers gives way */
    CU_ASSERT_EQUAL(kit_queue(two, PATH), 1);
    release(reader);
    kit_free(reader);
    kit_free(writer);
}

static struct mailbox positions = MAILBOX_INIT;

static void on_position(zkl_lock *lock, size_t ahead, void *payload)
{
    CU_ASSERT_EQUAL(zkl_lock_state(lock) == ZKL_STATE_LOST, false);
    mailbox_put(payload, (struct letter){.from = lock, .code = (int)ahead});
}

static zkl_lock_options asking(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.position_fn = on_position;
    options.payload = &positions;
    return options;
}

/* Its own predecessors go, one after the other; readers do not count for readers. */
TEST_WITH_SESSIONS(test_told_as_it_changes)
{
    zkl_lock_options options = asking();
    zkl_lock *before[3];
    struct acquire acquire, waits[3];
    mailbox_clear(&positions);
    zkl_lock *lock = kit_lock(one, PATH, &options);
    for (int i = 0; i < 3; i++) {
        before[i] = kit_lock(two, PATH, NULL);
        acquire_start(&waits[i], before[i], 10000);
        ASSERT_EVENTUALLY(kit_queue(one, PATH) == (size_t)i + 1);
    }
    acquire_start(&acquire, lock, 10000);
    CU_ASSERT_EQUAL(mailbox_code(&positions, 1), 3);
    ASSERT_OK(zkl_lock_cancel(before[2])); /* the predecessor gives up */
    CU_ASSERT_EQUAL(acquire_join(&waits[2]), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(mailbox_code(&positions, 2), 2);
    ASSERT_OK(acquire_join(&waits[0]));
    ASSERT_OK(zkl_lock_release(before[0], NULL)); /* not its predecessor: nothing is read */
    ASSERT_OK(acquire_join(&waits[1]));
    CU_ASSERT_EQUAL(mailbox_count(&positions), 2);
    ASSERT_OK(zkl_lock_release(before[1], NULL));
    ASSERT_OK(acquire_join(&acquire));
    for (int i = 0; i < 3; i++) {
        kit_free(before[i]);
    }
    kit_free(lock);
    size_t count = mailbox_count(&positions);
    CU_ASSERT_TRUE(count == 2 || (count == 3 && mailbox_last(&positions) == 0));
}

TEST_WITH_SESSIONS(test_what_counts)
{
    zkl_lock_options options = asking();
    zkl_lock *reader, *other, *writer;
    struct acquire acquire;
    mailbox_clear(&positions);
    ASSERT_OK(zkl_read_lock_new(&reader, one, PATH, &options, NULL));
    ASSERT_OK(zkl_read_lock_new(&other, two, PATH, NULL, NULL));
    ASSERT_OK(zkl_write_lock_new(&writer, two, PATH, &options, NULL));
    ASSERT_OK(zkl_lock_acquire(other, 10000, NULL, NULL));
    ASSERT_OK(zkl_lock_acquire(reader, 10000, NULL, NULL)); /* one reader stands before it, none counts */
    acquire_start(&acquire, writer, 10000);
    ASSERT_EVENTUALLY(mailbox_last(&positions) == 2);
    ASSERT_OK(zkl_lock_release(reader, NULL));
    ASSERT_OK(zkl_lock_release(other, NULL));
    ASSERT_OK(acquire_join(&acquire));
    kit_free(reader);
    kit_free(other);
    kit_free(writer);
}

TEST_WITH_SESSIONS(test_max_ahead)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    struct acquire acquire;
    zkl_error err;
    options.max_ahead = 1;
    zkl_lock *holder = kit_lock(two, PATH, NULL), *second = kit_lock(one, PATH, &options),
             *third = kit_lock(one, PATH, &options);
    ASSERT_OK(zkl_lock_acquire(holder, 10000, NULL, NULL));
    acquire_start(&acquire, second, 10000);
    ASSERT_EVENTUALLY(kit_queue(two, PATH) == 2);
    CU_ASSERT_EQUAL(zkl_lock_acquire(third, 20000, NULL, &err), ZKL_EBUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "max_ahead"));
    ASSERT_EVENTUALLY(kit_queue(two, PATH) == 2);
    ASSERT_OK(zkl_lock_release(holder, NULL));
    ASSERT_OK(acquire_join(&acquire));
    acquire_start(&acquire, third, 10000); /* one is before it now */
    ASSERT_EVENTUALLY(kit_queue(two, PATH) == 2);
    ASSERT_OK(zkl_lock_release(second, NULL));
    ASSERT_OK(acquire_join(&acquire));
}

TESTS("lock_keeping")
