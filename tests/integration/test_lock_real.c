/* The lock on one real server: its directories, what an operator sees, and a lock of every recipe. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    ASSERT_OK(zkl_lock_release(lock, NULL));
    struct zkl__op remove = op_delete("/anew", -1);
    CU_ASSERT_EQUAL(recorder_do(eye, &remove)->reply.rc, ZKL__RC_OK);
    ASSERT_OK(zkl_lock_acquire(lock, SOON, &second, NULL));
    CU_ASSERT(second.token > first.token);
    zkl_lock_free(lock);
    close_one(session);
}

/* What an operator sees of a queue. */
TEST(test_metadata)
{
    zkl_session *session = open_one();
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.metadata = "nightly backup, ask \xc3\x85sa";
    zkl_lock *lock = contest_lock(session, "/meta", &options), *plain = contest_lock(session, "/meta", NULL);
    struct waiter waiter;
    zkl_queue *queue = NULL;
    char node[128], whoami[32];
    ASSERT_OK(zkl_lock_acquire(lock, SOON, NULL, NULL));
    waiter_queue(&waiter, plain, SOON);
    ASSERT_OK_FATAL(zkl_queue_list(&queue, session, "/meta", SOON, NULL));
    CU_ASSERT_EQUAL_FATAL(queue->count, 2);
    const zkl_queue_entry *first = &queue->entries[0], *second = &queue->entries[1];
    zkl_lock_node(lock, node, sizeof node);
    CU_ASSERT_STRING_EQUAL(first->name, node);
    CU_ASSERT_STRING_EQUAL(first->data, options.metadata);
    CU_ASSERT(first->kind == ZKL_KIND_LOCK && first->readable);
    CU_ASSERT_EQUAL(first->token, zkl_lock_token(lock));
    CU_ASSERT_EQUAL(first->session_id, zkl_session_id(session));
    snprintf(whoami, sizeof whoami, ":%d", (int)getpid());
    CU_ASSERT_PTR_NOT_NULL(strstr(second->data, whoami));
    zkl_queue_free(queue);
    zkl_lock_free(lock);
    ASSERT_OK(waiter_end(&waiter));
    zkl_lock_free(plain);
    close_one(session);
}

/* Missing directories are made, as containers: a server, here one in a hurry, removes them when nobody is in them any more. */
TEST(test_directories)
{
    setenv("JAVA_TOOL_OPTIONS", "-Dznode.container.checkIntervalMs=100", 1);
    struct ensemble *tidy = ensemble_start(NULL);
    unsetenv("JAVA_TOOL_OPTIONS");
    CU_ASSERT_PTR_NOT_NULL_FATAL(tidy);
    struct recorder *look = queue_eye(ensemble_servers(tidy));
    zkl_session *session = contest_session(ensemble_servers(tidy), TIMEOUT, TICK);
    for (int i = 0; i < 2; i++) { /* and once more when they are gone */
        zkl_lock *lock = contest_holder(session, "/made/on/the/way");
        CU_ASSERT_EQUAL(queue_length(look, "/made/on/the/way"), 1);
        zkl_lock_free(lock);
        CU_ASSERT(queue_becomes(look, "/made", 0));
        CU_ASSERT(queue_becomes(look, "/", 1)); /* but for /zookeeper */
    }
    close_one(session);
    recorder_free(look);
    ensemble_stop(tidy);
}

/* A lock of every recipe is driven by the same verbs. */
TEST(test_every_recipe)
{
    zkl_session *session = open_one(), *other = open_one();
    ASSERT_OK(zkl_once_prepare(session, "/records", SOON, NULL));
    for (int i = 0; i < handle_recipe_count; i++) {
        char path[64];
        snprintf(path, sizeof path, "/handle/%d", i);
        handle_drive(&handle_recipes[i], session, other, path, "/records/one");
    }
    close_one(session);
    close_one(other);
}

/* What rehearses loss in a service's unit tests leaves real servers alone. */
TEST(test_nothing_is_rehearsed_here)
{
    zkl_session *session = open_one();
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_testing_cut(session, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "memory:NAME"));
    CU_ASSERT_EQUAL(zkl_testing_heal(session, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_testing_expire(session, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_testing_delay(session, true, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_testing_refuse(session, ZKL_EAUTH, 1, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_testing_lose_reply(session, NULL), ZKL_EINVAL);
    close_one(session);
}

TESTS_ON_ONE_SERVER("lock on a real server")
