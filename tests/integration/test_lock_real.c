/* The lock on one real server: numbers that begin anew, and a lock of every recipe. */
#include "handle_kit.h"
#include "one_server.h"
#include "store_client.h"

#include <zklock/testing.h>

/* Numbers start again when the directory is made anew; tokens do not. */
TEST(test_token_outlives_directory)
{
    zkl_session *session = open_one();
    zkl_lock *lock = contest_lock(session, "/anew", NULL);
    zkl_grant first, second;
    ASSERT_OK(zkl_lock_acquire(lock, SOON, &first, NULL));
    kit_release(lock);
    ASSERT_EVENTUALLY(recorder_rc(eye, op_delete("/anew", -1)) ==
                      ZKL__RC_OK); /* a release waits for a second at most */
    ASSERT_OK(zkl_lock_acquire(lock, SOON, &second, NULL));
    CU_ASSERT(second.token > first.token);
    zkl_lock_free(lock);
    kit_close(session);
}

/* A lock of every recipe is driven by the same verbs. */
TEST(test_every_recipe)
{
    zkl_session *session = open_one(), *other = open_one();
    ASSERT_OK(zkl_once_prepare(session, "/records", SOON, NULL));
    EACH_ROW (i, handle_recipes) {
        char path[64];
        snprintf(path, sizeof path, "/handle/%zu", i);
        handle_drive(&handle_recipes[i], session, other, path, "/records/one");
    }
    kit_close(session);
    kit_close(other);
}

/* What rehearses loss in a service's unit tests leaves real servers alone. */
TEST(test_nothing_is_rehearsed_here)
{
    zkl_session *session = open_one();
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_testing_cut(session, &err), ZKL_EINVAL);
    ASSERT_SAYS(err, "memory:NAME");
    kit_close(session);
}

TESTS_ON_ONE_SERVER("lock on a real server")
