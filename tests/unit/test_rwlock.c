/* The read/write lock, on the in-process store. */
#include "lock_kit.h"

#define QUEUE "/locks/rw"

static zkl_lock *make_reader(zkl_session *session, const zkl_lock_options *options)
{
    return kit_make(ZKL_RECIPE_READ_LOCK, session, QUEUE, options);
}

static zkl_lock *make_writer(zkl_session *session, const zkl_lock_options *options)
{
    return kit_make(ZKL_RECIPE_WRITE_LOCK, session, QUEUE, options);
}

static zkl_lock *hold(zkl_lock *lock)
{
    kit_acquire(lock);
    return lock;
}

#define expect_try(lock, code) CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), code)
#define downgrade(lock, code) CU_ASSERT_EQUAL(zkl_write_lock_downgrade(lock, NULL), code)

/* Without waiting; it queues as the nth. */
static void queue_as(size_t nth, zkl_lock *lock, struct mailbox *box)
{
    kit_acquire_async(lock, on_acquired, box);
    ASSERT_EVENTUALLY_FATAL(kit_queue(one, QUEUE) == nth);
}

/* By our znode's name, so not while it is being replaced. */
static bool holds_as(const zkl_lock *lock, const char *tag)
{
    char node[128];
    zkl_lock_node(lock, node, sizeof node);
    return zkl_lock_is_held(lock) && strstr(node, tag) != NULL;
}

static bool reads(const zkl_lock *lock)
{
    return holds_as(lock, "-__READ__");
}

static bool writes(const zkl_lock *lock)
{
    return holds_as(lock, "-__WRIT__");
}

/* --- who excludes whom --------------------------------------------------------------------------------------------- */

/* A reader does not pass a writer that waits: no writer starves. */
TEST_WITH_SESSIONS(test_nobody_barges)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *reader = hold(make_reader(one, NULL)), *writer = make_writer(two, NULL), *later[3];
    queue_as(2, writer, &box);
    EACH_ROW (i, later) {
        later[i] = make_reader(i % 2 ? one : two, NULL);
        queue_as(i + 3, later[i], &box);
    }
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    zkl_lock_release(reader, NULL);
    kit_await_letters(&box, 1);
    CU_ASSERT_TRUE(writes(writer));
    CU_ASSERT_EQUAL(mailbox_count(&box), 1);
    zkl_lock_release(writer, NULL);
    kit_await_letters(&box, 4); /* all three at once */
    EACH_ROW (i, later) {
        CU_ASSERT_TRUE(reads(later[i]));
    }
}

TEST_WITH_SESSIONS(test_a_plain_lock_is_a_writer)
{
    zkl_lock *plain = kit_lock(one, QUEUE, NULL);
    zkl_lock *reader = make_reader(two, NULL);
    expect_try(plain, ZKL_OK);
    expect_try(reader, ZKL_EBUSY);
    zkl_lock_release(plain, NULL);
    expect_try(reader, ZKL_OK);
    expect_try(plain, ZKL_EBUSY);
}

/* --- upgrade, recursion -------------------------------------------------------------------------------------------- */

TEST(test_upgrade_is_refused)
{
    for (int recursive = 0; recursive <= 1; recursive++) {
        zkl_error err;
        kit_set_up(NULL);
        zkl_lock *lock = hold(make_writer(one, LOCK_OPTIONS(.recursive = recursive)));
        downgrade(lock, ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 1000, NULL, &err), ZKL_EDEADLK);
        ASSERT_SAYS(err, "upgrade");
        CU_ASSERT_TRUE(reads(lock));
        kit_release(lock);
        kit_acquire(lock);
        CU_ASSERT_TRUE(writes(lock));
        kit_tear_down();
    }
}

TEST_WITH_SESSIONS(test_recursion)
{
    zkl_lock *lock = make_writer(one, LOCK_OPTIONS(.recursive = true)), *other = make_reader(two, NULL);
    expect_try(lock, ZKL_OK);
    expect_try(lock, ZKL_OK);
    downgrade(lock, ZKL_EDEADLK); /* others of its calls count on it */
    kit_release(lock);
    expect_try(other, ZKL_EBUSY);
    downgrade(lock, ZKL_OK);
    expect_try(lock, ZKL_EDEADLK);
    expect_try(other, ZKL_OK);
    kit_release(lock);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ENOTHELD);
}

/* --- downgrade ----------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_downgrade)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = hold(make_writer(one, NULL)), *reader = make_reader(two, NULL), *writer = make_writer(two, NULL);
    char before[128], after[128];
    int64_t token = zkl_lock_token(lock);
    zkl_lock_node(lock, before, sizeof before);
    queue_as(2, reader, &box);
    queue_as(3, writer, &box);
    downgrade(lock, ZKL_OK);
    CU_ASSERT_TRUE(reads(lock));
    CU_ASSERT_EQUAL(zkl_lock_token(lock), token);
    zkl_lock_node(lock, after, sizeof after);
    CU_ASSERT_EQUAL(strncmp(after, before, 39), 0);
    CU_ASSERT_EQUAL(strncmp(after + 39, "-__READ__", 9), 0);
    CU_ASSERT_STRING_EQUAL(after + 48, before + 48); /* the number */
    kit_await_letters(&box, 1);
    CU_ASSERT_TRUE(reads(reader));
    downgrade(lock, ZKL_OK); /* a reader already */
    kit_release(reader);
    CU_ASSERT_EQUAL(zkl_lock_state(writer), ZKL_STATE_WAITING); /* the downgraded one keeps it out */
    kit_release(lock);
    kit_await_letters(&box, 2);
    CU_ASSERT_TRUE(writes(writer));
    downgrade(lock, ZKL_ENOTHELD);
}

/* The connection goes in the middle of it: applied or not, one node is left, and it is a reader's. */
TEST(test_downgrade_when_the_connection_goes)
{
    for (size_t half = 0; half <= 1; half++) {
        zkl_error err;
        kit_set_up(NULL);
        zkl_lock *lock = hold(make_writer(one, LOCK_OPTIONS(.release_timeout_ms = 100))),
                 *reader = make_reader(two, NULL);
        kit_break(one, 0, half, 1 - half);
        CU_ASSERT_EQUAL(zkl_write_lock_downgrade(lock, &err), ZKL_ETIMEOUT); /* no answer comes */
        ASSERT_SAYS(err, "goes on");
        kit_resume(one);
        ASSERT_EVENTUALLY(zkl_write_lock_downgrade(lock, NULL) == ZKL_OK); /* waits for the one under way */
        CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
        expect_try(reader, ZKL_OK);
        kit_release(lock);
        CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
        kit_tear_down();
    }
}

/* --- loss ---------------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS_OF(kit_short, test_lost_while_it_downgrades)
{
    zkl_lock *lock = hold(make_writer(one, LOCK_OPTIONS(.release_timeout_ms = 60000)));
    int64_t from = now_ms();
    kit_suspend(one);
    downgrade(lock, ZKL_ELOST); /* at the lease end, not after a minute */
    CU_ASSERT(now_ms() - from < 40000);
    kit_resume(one);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
}

static void *downgrade_it(void *lock)
{
    downgrade(lock, ZKL_ELOST);
    return NULL;
}

TEST_WITH_SESSIONS(test_freed_while_it_downgrades)
{
    pthread_t thread;
    zkl_lock *lock = hold(make_writer(one, LOCK_OPTIONS(.release_timeout_ms = 60000)));
    int64_t from = now_ms();
    uint64_t before = kit_requests(one);
    kit_delay(one, true);
    kit_start_thread(&thread, downgrade_it, lock);
    ASSERT_EVENTUALLY(kit_requests(one) > before);
    kit_free(lock);
    pthread_join(thread, NULL);
    CU_ASSERT(now_ms() - from < 40000);
    kit_delay(one, false);
}

/* A waiter that is to fail then does not queue again in the next session. */
TEST_WITH_SESSIONS(test_fails_on_expiry)
{
    struct mailbox box = MAILBOX_INIT;
    hold(make_writer(two, NULL));
    queue_as(2, make_reader(one, LOCK_OPTIONS(.on_expiry = ZKL_ON_EXPIRY_FAIL)), &box);
    kit_expire(one);
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_ELOST);
    kit_await_queue(two, QUEUE, 1);
}

TESTS("rwlock")
