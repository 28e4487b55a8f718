/* Semaphores when replies are lost, leases run out, sessions end, operators remove nodes and memory is short. */
#include "semaphore_kit.h"

#include "test_heap.h"

#include <string.h>

static void on_state(zkl_lock *semaphore, zkl_state state, void *payload)
{
    mailbox_put(payload, (struct letter){.from = semaphore, .code = (int)state});
}

/* Whatever reply is lost, wherever the connection breaks: a lease is never doubled, so limit 1 does not wait for itself. */
static void test_lost_replies(void)
{
    kit_set_up(NULL);
    for (size_t whole = 0; whole < 14; whole++) {
        for (size_t half = 0; half < 3; half++) {
            zkl_lock *a = pool_contender(one, 2);
            struct mailbox box = MAILBOX_INIT;
            zkl__memory_break(zkl_session_id(one), whole, half, half == 0);
            CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(a, 2, 20000, on_permitted, &box, NULL), ZKL_OK);
            CU_ASSERT(EVENTUALLY(mailbox_count(&box) == 1 || zkl__memory_resume(zkl_session_id(one)) == ZKL_OK));
            CU_ASSERT(mailbox_wait(&box, 1));
            CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
            CU_ASSERT_EQUAL(zkl_semaphore_tokens(a, NULL, 0), 2);
            zkl__memory_suspend(zkl_session_id(one)); /* what is left of the plan goes with the connection */
            CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
            CU_ASSERT_EQUAL(kit_queue(two, POOL "/leases"), 2);
            CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_OK);
            CU_ASSERT(EVENTUALLY(kit_queue(two, POOL "/leases") == 0 && kit_queue(two, POOL "/locks") == 0));
            zkl_lock_free(a);
        }
    }
    kit_tear_down();
}

static void test_expiry_while_holding(void)
{
    struct mailbox states = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_state;
    options.payload = &states;
    zkl_lock *a = NULL;
    kit_set_up(NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&a, one, POOL, 3, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 3, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&states, 1));
    CU_ASSERT_EQUAL(states.letters[0].code, ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl__memory_suspend(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(mailbox_wait(&states, 2));
    CU_ASSERT_EQUAL(states.letters[1].code, ZKL_STATE_JEOPARDY); /* once, not once for each */
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_JEOPARDY);
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(mailbox_wait(&states, 3));
    CU_ASSERT_EQUAL(states.letters[2].code, ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(EVENTUALLY(mailbox_last(&states) == ZKL_STATE_LOST));
    size_t told = mailbox_count(&states);
    CU_ASSERT_FALSE(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(a, NULL, 0), 0);
    CU_ASSERT_EQUAL(zkl_lock_token(a), 0);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 1, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 3, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&states, told + 1));
    zkl_lock_free(a);
    kit_tear_down();
}

static void test_lease_runs_out(void)
{
    zkl_session_options options = kit_short();
    kit_set_up(&options);
    zkl_lock *a = pool_contender(one, 1);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_suspend(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(EVENTUALLY(!zkl_lock_is_held(a)));
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_ELOST);
    CU_ASSERT(EVENTUALLY(pool_leases() == 0));
    zkl_lock_free(a);
    kit_tear_down();
}

static void test_expiry_while_waiting(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.on_expiry = ZKL_ON_EXPIRY_FAIL;
    zkl_lock *c = NULL;
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(one, 2), *b = pool_contender(two, 2);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(b, 2, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 3));
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(two)), ZKL_OK); /* the head: queues again */
    CU_ASSERT(EVENTUALLY(pool_leases() == 3));
    CU_ASSERT_EQUAL(zkl__memory_suspend(zkl_session_id(two)), ZKL_OK); /* what happens meanwhile is not missed */
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(two)), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&c, one, POOL, 2, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(c, 2, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 4));
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(one)), ZKL_OK); /* by option: fails */
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_ELOST);
    CU_ASSERT(zkl_lock_is_held(b));
    zkl_lock_free(a);
    zkl_lock_free(b);
    zkl_lock_free(c);
    kit_tear_down();
}

static void test_an_operator_removes_nodes(void)
{
    zkl_session_options options = kit_short();
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(&options);
    zkl_lock *a = pool_contender(one, 2), *b = pool_contender(two, 2);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 2, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(b, 2, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 4));
    pool_remove_node(POOL "/leases", 3); /* of the head that waits: it begins again */
    CU_ASSERT(EVENTUALLY(pool_leases() == 4 && pool_queued() == 1));
    pool_remove_node(POOL "/locks", 0); /* its place in the queue: the same */
    CU_ASSERT(EVENTUALLY(pool_leases() == 4 && pool_queued() == 1));
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    pool_remove_node(POOL "/leases", 0); /* one that is held: all of it is lost */
    CU_ASSERT(EVENTUALLY(!zkl_lock_is_held(a)));
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_ELOST);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_release(b, 0, NULL), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_close_while_waiting_and_holding(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(one, 2), *b = pool_contender(two, 2), *c = pool_contender(two, 2);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 2, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(b, 1, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(c, 1, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 3));
    kit_tear_down();
    CU_ASSERT_EQUAL(mailbox_count(&box), 2);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 10, NULL, NULL), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 1, NULL), ZKL_ECLOSED);
    zkl_lock_free(a);
    zkl_lock_free(b);
    zkl_lock_free(c);
}

static void test_no_memory(void)
{
    struct test_heap heap = TEST_HEAP_INIT;
    zkl_heap functions = test_heap(&heap);
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.heap = &functions;
    one = kit_open(&options);
    for (long nth = 1; nth < 60; nth++) {
        zkl_lock *a = NULL;
        test_heap_fail(&heap, nth, false);
        int code = zkl_semaphore_new(&a, one, POOL, 2, NULL, NULL);
        if (code == ZKL_OK) {
            code = zkl_semaphore_acquire(a, 2, 5000, NULL, NULL);
        }
        test_heap_fail(&heap, 0, false);
        CU_ASSERT(code == ZKL_OK || code == ZKL_ENOMEM);
        zkl_lock_free(a);
        CU_ASSERT(EVENTUALLY(pool_leases() == 0 && pool_queued() == 0));
    }
    kit_close(one);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
}

TESTS("semaphore faults", T(test_lost_replies), T(test_expiry_while_holding), T(test_lease_runs_out),
      T(test_expiry_while_waiting), T(test_an_operator_removes_nodes), T(test_close_while_waiting_and_holding),
      T(test_no_memory))
