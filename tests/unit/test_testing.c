/* zklock/testing.h: each way to rehearse, seen from a service that knows the public headers alone. */
#include "lock_kit.h"

#define QUEUE "/locks/test"

TEST_WITH_SESSIONS_OF(kit_short, test_cut_and_heal)
{
    zkl_error err;
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_testing_heal(one, &err), ZKL_EINVAL);
    ASSERT_SAYS(err, "not cut off");
    int64_t from = now_ms();
    ASSERT_OK(zkl_testing_cut(one, NULL));
    CU_ASSERT_EQUAL(zkl_testing_cut(one, &err), ZKL_EINVAL);
    ASSERT_SAYS(err, "not connected");
    kit_await_state(lock, ZKL_STATE_LOST);
    CU_ASSERT(now_ms() - from < 20000);
    ASSERT_OK(zkl_testing_heal(one, NULL));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    kit_acquire(lock);
}

/* The next one is granted only once the session has ended; the holder that is cut off knows by then. */
TEST_WITH_SESSIONS_OF(kit_short, test_expire_while_cut)
{
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    int64_t id = zkl_session_id(one);
    zkl_error err;
    ASSERT_OK(zkl_testing_cut(one, NULL));
    int rc = ZKL_OK; /* no server ends it while the lease lasts */
    ASSERT_EVENTUALLY((rc = zkl_testing_expire(one, &err)) == ZKL_OK || !strstr(err.text, "zkl_lock_is_held"));
    ASSERT_OK(rc);
    CU_ASSERT_FALSE(zkl_lock_is_held(lock));
    kit_hold(two, QUEUE, NULL);
    ASSERT_OK(zkl_testing_heal(one, NULL));
    ASSERT_EVENTUALLY(zkl_session_id(one) != id && zkl_session_id(one) != 0); /* its next session */
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
}

/* Nothing is held: there is no lease to wait for. */
TEST_WITH_SESSIONS(test_expire_an_idle_session_while_cut)
{
    int64_t id = zkl_session_id(one);
    ASSERT_OK(zkl_testing_cut(one, NULL));
    ASSERT_OK(zkl_testing_expire(one, NULL));
    ASSERT_OK(zkl_testing_heal(one, NULL));
    ASSERT_EVENTUALLY(zkl_session_id(one) != id && zkl_session_id(one) != 0);
}

static void refused_with(int code)
{
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    ASSERT_OK(zkl_testing_refuse(one, code, 1, NULL));
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 20000, NULL, NULL), code);
    kit_acquire(lock); /* the next one is taken */
    kit_free(lock);
}

TEST_WITH_SESSIONS(test_refuse)
{
    zkl_error err;
    refused_with(ZKL_EAUTH);
    refused_with(ZKL_ELIMIT);
    refused_with(ZKL_EUNSUPPORTED);
    CU_ASSERT_EQUAL(zkl_testing_refuse(one, ZKL_ETIMEOUT, 1, &err), ZKL_EINVAL);
    ASSERT_SAYS(err, "time");
    ASSERT_OK(zkl_testing_refuse(one, ZKL_EAUTH, 1000, NULL));
    ASSERT_OK(zkl_testing_refuse(one, ZKL_EAUTH, 0, NULL)); /* taken back */
    kit_hold(one, QUEUE, NULL);
}

/* Nobody knows whether there is a znode: it is found again, and there is one in the end, not two. */
TEST_WITH_SESSIONS(test_lose_reply_of_a_create)
{
    struct acquire acquire;
    zkl_lock *lock = kit_hold(one, QUEUE, NULL); /* the directory is made */
    kit_release(lock);
    ASSERT_OK(zkl_testing_lose_reply(one, NULL));
    acquire_start(&acquire, lock, 10000);
    kit_await_queue(two, QUEUE, 1); /* carried out */
    ASSERT_EVENTUALLY(zkl_testing_heal(one, NULL) == ZKL_OK);
    ASSERT_OK(acquire_join(&acquire));
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    kit_release(lock);
}

TESTS("testing")
