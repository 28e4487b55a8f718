/* Replies to an acquire of a permit are lost, on the in-process store. */
#include "semaphore_kit.h"

#define LEASES POOL "/leases"

static void set_up(void)
{
    kit_set_up(NULL);
    zkl_lock *first = pool_contender(two, 2); /* makes the directories, and sets the limit */
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(first, 1, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_release(first, 0, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    zkl_lock_free(first);
}

/* An acquire whose connection breaks behind so many whole and half of its round trips. */
static zkl_lock *acquire_broken(struct mailbox *box, size_t whole, size_t half)
{
    zkl_lock *lock = pool_contender(one, 2);
    zkl__memory_break(zkl_session_id(one), whole, half, half == 0);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(lock, 1, 20000, on_permitted, box, NULL), ZKL_OK);
    return lock;
}

/* What is left of the plan goes with the connection. */
static void connect_again(void)
{
    zkl__memory_suspend(zkl_session_id(one));
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
}

/* Whatever reply is lost, wherever the connection breaks: one lease, no place, and its position kept. */
static void test_lost_replies(void)
{
    set_up();
    for (size_t whole = 0; whole < 9; whole++) {
        for (size_t half = 0; half < 3; half++) {
            struct mailbox box = MAILBOX_INIT;
            zkl_lock *a = acquire_broken(&box, whole, half);
            CU_ASSERT(EVENTUALLY(mailbox_count(&box) == 1 || zkl__memory_resume(zkl_session_id(one)) == ZKL_OK));
            CU_ASSERT(mailbox_wait(&box, 1));
            CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
            connect_again();
            CU_ASSERT(EVENTUALLY(kit_queue(two, LEASES) == 1 && kit_queue(two, POOL "/locks") == 0));
            CU_ASSERT(zkl_lock_is_held(a));
            CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_OK);
            CU_ASSERT(EVENTUALLY(kit_queue(two, LEASES) == 0));
            zkl_lock_free(a);
        }
    }
    kit_tear_down();
}

/* The same, and nobody wants it any more when the connection is back. */
static void test_lost_and_given_up(void)
{
    set_up();
    for (size_t whole = 0; whole < 9; whole++) {
        for (size_t half = 0; half < 3; half++) {
            struct mailbox box = MAILBOX_INIT;
            zkl_lock *a = acquire_broken(&box, whole, half);
            zkl_lock_free(a);
            CU_ASSERT(mailbox_wait(&box, 1));
            connect_again();
            CU_ASSERT(EVENTUALLY(kit_queue(two, LEASES) == 0 && kit_queue(two, POOL "/locks") == 0));
        }
    }
    kit_tear_down();
}

TESTS("semaphore_lost_replies", T(test_lost_replies), T(test_lost_and_given_up))
