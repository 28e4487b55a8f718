/* The lock on one real server: its queue, its directories, and a lock of every recipe. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "handle_kit.h"
#include "one_server.h"
#include "store_client.h"

#include <zklock/testing.h>

/* --- queue ----------------------------------------------------------------------------------------------------------- */

#define CROWD 8

/* Several sessions: granted in the order of the queue, one at a time, with tokens that rise. */
static void test_order(void)
{
    zkl_session *sessions[CROWD];
    zkl_lock *locks[CROWD];
    struct waiter waiters[CROWD];
    int64_t last = 0;
    for (int i = 0; i < CROWD; i++) {
        sessions[i] = open_one();
        locks[i] = contest_lock(sessions[i], "/order", NULL);
        waiter_queue(&waiters[i], locks[i], SOON);
    }
    for (int i = 0; i < CROWD; i++) {
        CU_ASSERT_EQUAL(waiter_end(&waiters[i]), ZKL_OK);
        CU_ASSERT(zkl_lock_is_held(locks[i]));
        CU_ASSERT(waiters[i].grant.token > last && waiters[i].grant.token == zkl_lock_token(locks[i]));
        last = waiters[i].grant.token;
        for (int k = i + 1; k < CROWD; k++) {
            CU_ASSERT(!atomic_load(&waiters[k].done) && !zkl_lock_is_held(locks[k]));
        }
        CU_ASSERT_EQUAL(zkl_lock_release(locks[i], NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_token(locks[i]), 0);
    }
    CU_ASSERT(queue_becomes(eye, "/order", 0));
    for (int i = 0; i < CROWD; i++) {
        zkl_lock_free(locks[i]);
        close_one(sessions[i]);
    }
}

struct crowd {
    atomic_int inside;
    atomic_int overlaps, grants, wrong;
    atomic_llong last; /* token */
};

static struct crowd crowd;

static void *crowd_member(void *arg)
{
    zkl_session *session = arg;
    zkl_lock *lock = contest_lock(session, "/crowd", NULL);
    for (int i = 0; i < 25; i++) {
        zkl_grant grant;
        if (zkl_lock_acquire(lock, SOON, &grant, NULL) != ZKL_OK) {
            atomic_fetch_add(&crowd.wrong, 1);
            continue;
        }
        atomic_fetch_add(&crowd.overlaps, atomic_fetch_add(&crowd.inside, 1) > 0);
        atomic_fetch_add(&crowd.wrong, atomic_exchange(&crowd.last, grant.token) >= grant.token);
        atomic_fetch_add(&crowd.grants, 1);
        atomic_fetch_sub(&crowd.inside, 1);
        atomic_fetch_add(&crowd.wrong, zkl_lock_release(lock, NULL) != ZKL_OK);
    }
    zkl_lock_free(lock);
    return NULL;
}

/* Threads of two sessions, all at once. */
static void test_exclusion(void)
{
    zkl_session *sessions[2] = {open_one(), open_one()};
    pthread_t threads[CROWD];
    for (int i = 0; i < CROWD; i++) {
        pthread_create(&threads[i], NULL, crowd_member, sessions[i % 2]);
    }
    for (int i = 0; i < CROWD; i++) {
        pthread_join(threads[i], NULL);
    }
    CU_ASSERT_EQUAL(atomic_load(&crowd.grants), CROWD * 25);
    CU_ASSERT_EQUAL(atomic_load(&crowd.overlaps), 0);
    CU_ASSERT_EQUAL(atomic_load(&crowd.wrong), 0);
    CU_ASSERT(queue_becomes(eye, "/crowd", 0));
    close_one(sessions[0]);
    close_one(sessions[1]);
}

/* Numbers start again when the directory is made anew; tokens do not. */
static void test_token_outlives_directory(void)
{
    zkl_session *session = open_one();
    zkl_lock *lock = contest_lock(session, "/anew", NULL);
    zkl_grant first, second;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, &first, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    struct zkl__op remove = op_delete("/anew", -1);
    CU_ASSERT_EQUAL(recorder_do(eye, &remove)->reply.rc, ZKL__RC_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, &second, NULL), ZKL_OK);
    CU_ASSERT(second.token > first.token);
    zkl_lock_free(lock);
    close_one(session);
}

/* What an operator sees of a queue. */
static void test_metadata(void)
{
    zkl_session *session = open_one();
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.metadata = "nightly backup, ask \xc3\x85sa";
    zkl_lock *lock = contest_lock(session, "/meta", &options), *plain = contest_lock(session, "/meta", NULL);
    struct waiter waiter;
    zkl_queue *queue = NULL;
    char node[128], whoami[32];
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    waiter_queue(&waiter, plain, SOON);
    CU_ASSERT_EQUAL_FATAL(zkl_queue_list(&queue, session, "/meta", SOON, NULL), ZKL_OK);
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
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_OK);
    zkl_lock_free(plain);
    close_one(session);
}

/* Missing directories are made, as containers: a server, here one in a hurry, removes them when nobody is in them any more. */
static void test_directories(void)
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
static void test_every_recipe(void)
{
    zkl_session *session = open_one(), *other = open_one();
    CU_ASSERT_EQUAL(zkl_once_prepare(session, "/records", SOON, NULL), ZKL_OK);
    for (int i = 0; i < handle_recipe_count; i++) {
        char path[64];
        snprintf(path, sizeof path, "/handle/%d", i);
        handle_drive(&handle_recipes[i], session, other, path, "/records/one");
    }
    close_one(session);
    close_one(other);
}

/* What rehearses loss in a service's unit tests leaves real servers alone. */
static void test_nothing_is_rehearsed_here(void)
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

TESTS_ON_ONE_SERVER("lock on a real server", T(test_order), T(test_exclusion), T(test_token_outlives_directory),
                    T(test_metadata), T(test_directories), T(test_every_recipe), T(test_nothing_is_rehearsed_here))
