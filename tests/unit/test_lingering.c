/* Locks with the option linger_ms, as their users see them. On the in-process store. */
#include "lock_kit.h"

#include <zklock/election.h>
#include <zklock/multilock.h>
#include <zklock/rwlock.h>
#include <zklock/semaphore.h>

#include <stdatomic.h>
#include <string.h>

#define QUEUE "/locks/lingering"
#define LONG 60000

static zkl_lock_options lingering(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.linger_ms = LONG;
    return options;
}

static zkl_lock *make(zkl_session *session)
{
    zkl_lock_options options = lingering();
    return kit_lock(session, QUEUE, &options);
}

static zkl_grant acquire(zkl_lock *lock)
{
    zkl_grant grant = {.token = 0};
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, 5000, &grant, NULL), ZKL_OK);
    return grant;
}

static void release(zkl_lock *lock)
{
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
}

/* --- granted again ------------------------------------------------------------------------------------------------- */

static void test_again(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = make(one);
    zkl_grant first = acquire(lock), again;
    char node[128], same[128];
    CU_ASSERT_EQUAL(first.serial, 1);
    CU_ASSERT(zkl_lock_node(lock, node, sizeof node) > 0);
    release(lock);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), 0);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    again = acquire(lock);
    CU_ASSERT_EQUAL(again.token, first.token);
    CU_ASSERT_EQUAL(again.serial, 2);
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(zkl_lock_token(lock), first.token);
    CU_ASSERT(zkl_lock_node(lock, same, sizeof same) > 0);
    CU_ASSERT_STRING_EQUAL(node, same);
    release(lock);
    zkl_lock_free(lock);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    kit_tear_down();
}

static void test_without_the_option(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    zkl_grant first = acquire(lock);
    release(lock);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0);
    zkl_grant next = acquire(lock);
    CU_ASSERT(next.token > first.token);
    CU_ASSERT_EQUAL(first.serial, 1);
    CU_ASSERT_EQUAL(next.serial, 1);
    release(lock);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_write_lock(void)
{
    kit_set_up(NULL);
    zkl_lock_options options = lingering();
    zkl_lock *writer = NULL, *reader = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_write_lock_new(&writer, one, QUEUE, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_read_lock_new(&reader, one, QUEUE, NULL, NULL), ZKL_OK);
    zkl_grant first = acquire(writer);
    release(writer);
    zkl_grant again = acquire(writer);
    CU_ASSERT_EQUAL(again.token, first.token);
    CU_ASSERT_EQUAL(zkl_write_lock_downgrade(writer, NULL), ZKL_OK);
    release(writer);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 0)); /* a reader does not linger */
    release((acquire(writer), writer));
    CU_ASSERT(acquire(reader).token > first.token); /* of the same session: what lingers gives way */
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    release(reader);
    zkl_lock_free(reader);
    zkl_lock_free(writer);
    kit_tear_down();
}

/* Objects of one session pass it on in memory, and the others see one contender. */
static void test_line(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = make(one), *other = make(one);
    zkl_grant first = acquire(lock);
    struct acquire waits;
    acquire_start(&waits, other, 5000);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_lock_state(other) == ZKL_STATE_WAITING));
    CU_ASSERT_EQUAL(zkl_lock_acquire(other, 0, NULL, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    release(lock);
    CU_ASSERT_EQUAL(acquire_join(&waits), ZKL_OK);
    CU_ASSERT_EQUAL(waits.grant.token, first.token);
    CU_ASSERT_EQUAL(waits.grant.serial, 2);
    CU_ASSERT_FALSE(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EBUSY);
    release(other);
    zkl_lock_free(other);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1); /* there is another one that may want it */
    zkl_lock_free(lock);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    kit_tear_down();
}

static void test_async(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_lock *lock = make(one);
    zkl_grant first = acquire(lock);
    release(lock);
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(lock, 5000, on_acquired, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    CU_ASSERT_EQUAL(box.letters[0].grant.token, first.token);
    CU_ASSERT_EQUAL(box.letters[0].grant.serial, 2);
    release(lock);
    zkl_lock_free(lock);
    kit_tear_down();
}

/* --- gives way ----------------------------------------------------------------------------------------------------- */

static void test_another_session_queues(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = make(one), *rival = kit_lock(two, QUEUE, NULL);
    zkl_grant first = acquire(lock);
    release(lock);
    zkl_grant theirs = acquire(rival);
    CU_ASSERT(theirs.token > first.token);
    release(rival);
    zkl_grant again = acquire(lock);
    CU_ASSERT(again.token > theirs.token);
    CU_ASSERT_EQUAL(again.serial, 1);
    release(lock);
    zkl_lock_free(rival);
    zkl_lock_free(lock);
    kit_tear_down();
}

static atomic_bool enough;
static atomic_long grants;

static void *again_and_again(void *arg)
{
    while (!atomic_load(&enough)) {
        if (zkl_lock_acquire(arg, 5000, NULL, NULL) == ZKL_OK) {
            zkl_lock_release(arg, NULL);
            atomic_fetch_add(&grants, 1);
        }
    }
    return NULL;
}

/* Whoever queues is granted between two of a thread's that wants it all the time, and that one goes on. */
static void test_a_busy_holder(void)
{
    pthread_t thread;
    kit_set_up(NULL);
    zkl_lock *lock = make(one), *rival = kit_lock(two, QUEUE, NULL);
    atomic_store(&enough, false);
    atomic_store(&grants, 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, again_and_again, lock), 0);
    for (int i = 0; i < 20; i++) {
        long before = atomic_load(&grants);
        CU_ASSERT_TRUE(EVENTUALLY(atomic_load(&grants) > before));
        acquire(rival);
        release(rival);
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    zkl_lock_free(rival);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_its_time_is_over(void)
{
    kit_set_up(NULL);
    zkl_lock_options options = lingering();
    options.linger_ms = 20;
    zkl_lock *lock = kit_lock(one, QUEUE, &options);
    acquire(lock);
    release(lock);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    CU_ASSERT_EQUAL(acquire(lock).serial, 1);
    release(lock);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_a_lost_hold_does_not_linger(void)
{
    kit_set_up(NULL);
    zkl_lock_options options = lingering();
    options.max_hold_ms = 10;
    zkl_lock *lock = kit_lock(one, QUEUE, &options);
    acquire(lock);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_LOST));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_close(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = make(one);
    acquire(lock);
    release(lock);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    kit_close(one);
    one = kit_open(NULL);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0);
    zkl_lock_free(lock);
    kit_tear_down();
}

/* --- refused ------------------------------------------------------------------------------------------------------- */

static void on_request(zkl_lock *lock, void *payload)
{
    (void)lock, (void)payload;
}

static void is_refused(int code, zkl_lock **lock, const zkl_error *err, const char *other)
{
    CU_ASSERT_EQUAL(code, ZKL_EINVAL);
    CU_ASSERT_PTR_NULL(*lock);
    *lock = (zkl_lock *)lock; /* no NULL, for the next one */
    CU_ASSERT_PTR_NOT_NULL(strstr(err->text, "linger_ms"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err->text, other));
}

static void test_refused(void)
{
    static const char *const paths[] = {"/m/a", "/m/b"};
    kit_set_up(NULL);
    zkl_lock_options options = lingering(), bad = lingering();
    zkl_lock *lock = (zkl_lock *)&lock;
    zkl_error err;
    is_refused(zkl_read_lock_new(&lock, one, QUEUE, &options, &err), &lock, &err, "read lock");
    is_refused(zkl_semaphore_new(&lock, one, QUEUE, 2, &options, &err), &lock, &err, "semaphore");
    is_refused(zkl_election_new(&lock, one, QUEUE, &options, &err), &lock, &err, "election");
    is_refused(zkl_multilock_new(&lock, one, paths, 2, &options, &err), &lock, &err, "multi-lock");
    bad.revoke_fn = on_request;
    is_refused(zkl_write_lock_new(&lock, one, QUEUE, &bad, &err), &lock, &err, "revoke_fn");
    bad.revoke_fn = NULL;
    bad.linger_ms = -1;
    is_refused(zkl_lock_new(&lock, one, QUEUE, &bad, &err), &lock, &err, "-1");
    kit_tear_down();
}

TESTS("lingering", T(test_again), T(test_without_the_option), T(test_write_lock), T(test_line), T(test_async),
      T(test_another_session_queues), T(test_a_busy_holder), T(test_its_time_is_over),
      T(test_a_lost_hold_does_not_linger), T(test_close), T(test_refused))
