/* How a lock is lost, and what its holder and its waiters hear of it. On the in-process store. */
#include "lock_kit.h"

#define QUEUE "/locks/test"

static void test_lease_runs_out(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_session_options options = kit_short();
    zkl_lock_options lock_options = ZKL_LOCK_OPTIONS_INIT;
    lock_options.state_fn = on_lock_state;
    lock_options.payload = &box;
    kit_set_up(&options);
    zkl_lock *lock = kit_lock(one, QUEUE, &lock_options);
    int64_t id = zkl_session_id(one);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(zkl__memory_suspend(id), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_JEOPARDY);
    CU_ASSERT(zkl_lock_is_held(lock));
    CU_ASSERT(zkl_lock_token(lock) > 0);
    int64_t end = now_ms() + zkl_lock_remaining_ms(lock);
    CU_ASSERT(EVENTUALLY(!zkl_lock_is_held(lock)));
    int64_t seen = now_ms();
    CU_ASSERT(seen >= end && seen <= end + 500);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), 0);
    CU_ASSERT(mailbox_wait(&box, 3));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_STATE_JEOPARDY);
    CU_ASSERT_EQUAL(box.letters[2].code, ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1); /* the session lives: the node keeps others out until the release */
    CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, &err), ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "lease"));
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_jeopardy_that_passes(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_lock_state;
    options.payload = &box;
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, &options);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(zkl__memory_suspend(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 3));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_STATE_JEOPARDY);
    CU_ASSERT_EQUAL(box.letters[2].code, ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    kit_tear_down();
}

/* Heartbeats keep a lease for much longer than it is. */
static void test_lease_is_renewed(void)
{
    zkl_session_options options = kit_short();
    kit_set_up(&options);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT(kit_held_for(lock, 4500));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_session_expires_while_holding(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_lock_state;
    options.payload = &box;
    options.recursive = true;
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, &options);
    zkl_error err;
    int64_t id = zkl_session_id(one);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(zkl__memory_expire(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(mailbox_last(&box) == ZKL_STATE_LOST));
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 1000, NULL, &err), ZKL_ELOST);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, &err), ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "session"));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK); /* in the new session */
    CU_ASSERT(zkl_session_id(one) != id);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_session_expires_while_waiting(void)
{
    zkl_lock_options fail = ZKL_LOCK_OPTIONS_INIT;
    fail.on_expiry = ZKL_ON_EXPIRY_FAIL;
    kit_set_up(NULL);
    zkl_lock *holder = kit_lock(two, QUEUE, NULL), *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(one, QUEUE, &fail);
    struct acquire requeues, fails;
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 10000, NULL, NULL), ZKL_OK);
    acquire_start(&requeues, a, ZKL_WAIT_FOREVER);
    acquire_start(&fails, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 3));
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&fails), ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(fails.err.text, "session"));
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_WAITING);
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&requeues), ZKL_OK);
    zkl_lock_free(holder);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_an_operator_removes_our_node(void)
{
    zkl_session_options options = kit_short();
    kit_set_up(&options);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    char before[128], after[128];
    zkl_lock_node(b, before, sizeof before);
    kit_remove_node(b);
    CU_ASSERT(EVENTUALLY(zkl_lock_node(b, after, sizeof after) > 0 && strcmp(before, after) != 0)); /* queued again */
    kit_remove_node(a); /* the holder is told within a heartbeat */
    CU_ASSERT(EVENTUALLY(zkl_lock_state(a) == ZKL_STATE_LOST));
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(a, &err), ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "removed"));
    CU_ASSERT(zkl_lock_is_held(b));
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_max_hold(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_lock_state;
    options.payload = &box;
    options.max_hold_ms = 150;
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, &options), *b = kit_lock(two, QUEUE, NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT(zkl_lock_remaining_ms(a) <= 150);
    int64_t from = now_ms();
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 5000, NULL, NULL), ZKL_OK); /* its node goes, though it does not release */
    CU_ASSERT(now_ms() - from >= 100);
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_LOST);
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_lock_release(a, &err), ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "max_hold"));
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

TESTS("lock loss", T(test_lease_runs_out), T(test_jeopardy_that_passes), T(test_lease_is_renewed),
      T(test_session_expires_while_holding), T(test_session_expires_while_waiting),
      T(test_an_operator_removes_our_node), T(test_max_hold))
