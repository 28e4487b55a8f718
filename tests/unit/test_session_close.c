/* Closing a session: what it held and waited for ends, whatever other threads do meanwhile. */
#include "lock_kit.h"

#include <string.h>

#define QUEUE "/locks/session"
#define CLOSE_MS 20000 /* all the time that a close has */

static void test_close_ends_everything(void)
{
    struct acquire waiting[5];
    zkl_lock *locks[5];
    zkl_session *session = kit_open(NULL), *other = kit_open(NULL);
    zkl_lock *holder = kit_lock(session, QUEUE, NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 10000, NULL, NULL), ZKL_OK);
    for (int i = 0; i < 5; i++) {
        locks[i] = kit_lock(session, QUEUE, NULL);
        acquire_start(&waiting[i], locks[i], ZKL_WAIT_FOREVER);
    }
    CU_ASSERT(EVENTUALLY(kit_queue(other, QUEUE) == 6));
    kit_close(session);
    CU_ASSERT_EQUAL(kit_queue(other, QUEUE), 0);
    for (int i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(acquire_join(&waiting[i]), ZKL_ECLOSED);
        CU_ASSERT_EQUAL(zkl_lock_state(locks[i]), ZKL_STATE_IDLE);
    }
    CU_ASSERT_FALSE(zkl_lock_is_held(holder));
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 0, NULL, &err), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(err.code, ZKL_ECLOSED);
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(zkl_lock_cancel(holder), ZKL_ECLOSED);
    CU_ASSERT_STRING_EQUAL(zkl_lock_path(holder), QUEUE);
    for (int i = 0; i < 5; i++) {
        zkl_lock_free(locks[i]);
    }
    zkl_lock_free(holder);
    kit_close(other);
    CU_ASSERT_EQUAL(zkl_session_close(NULL, 0), ZKL_OK);
}

static void test_close_without_a_server(void)
{
    zkl_session *session = kit_open(NULL), *other = kit_open(NULL);
    zkl_lock *holder = kit_lock(session, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_suspend(zkl_session_id(session)), ZKL_OK);
    int64_t from = now_ms();
    CU_ASSERT_EQUAL(zkl_session_close(session, 100), ZKL_ETIMEOUT);
    CU_ASSERT(now_ms() - from < 1000);
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_ECLOSED);
    zkl_lock_free(holder);
    kit_close(other);
}

static void test_close_while_a_new_session_is_being_opened(void)
{
    for (int i = 0; i < 50; i++) {
        zkl_session *session = kit_open(NULL);
        CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(session)), ZKL_OK);
        kit_close(session);
    }
}

static void *release(void *arg)
{
    zkl_lock_release(arg, NULL);
    return NULL;
}

static void test_close_ends_a_release_that_waits(void)
{
    pthread_t thread;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.release_timeout_ms = 60000;
    zkl_session *session = kit_open(NULL), *other = kit_open(NULL);
    zkl_lock *lock = kit_lock(session, QUEUE, &options);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(session), true), ZKL_OK);
    int64_t from = now_ms();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, release, lock), 0);
    CU_ASSERT(EVENTUALLY(kit_queue(other, QUEUE) == 0)); /* gone on the server, but nobody is told */
    CU_ASSERT_EQUAL(zkl_session_close(session, 50), ZKL_OK);
    pthread_join(thread, NULL);
    CU_ASSERT(now_ms() - from < 15000);
    zkl_lock_free(lock);
    kit_close(other);
}

static void *use_until_closed(void *arg)
{
    zkl_lock *lock = arg;
    int code;
    do {
        code = zkl_lock_acquire(lock, 60000, NULL, NULL);
        if (code == ZKL_OK) {
            zkl_lock_release(lock, NULL);
        }
    } while (code == ZKL_OK || code == ZKL_ELOST); /* lost: this thread was stopped for a lease */
    zkl_lock_free(lock);
    return code == ZKL_ECLOSED ? NULL : arg;
}

static void test_close_under_load(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_session *other = kit_open(NULL);
    for (int round = 0; round < 20; round++) {
        pthread_t threads[6];
        zkl_session *session = kit_open(NULL);
        for (int i = 0; i < 6; i++) {
            options.release_timeout_ms = i % 2 ? 1000 : 0;
            zkl_lock *lock = kit_lock(session, QUEUE, &options);
            CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, use_until_closed, lock), 0);
        }
        CU_ASSERT(EVENTUALLY(kit_queue(other, QUEUE) > 1));
        kit_close(session);
        for (int i = 0; i < 6; i++) {
            void *wrong = NULL;
            pthread_join(threads[i], &wrong);
            CU_ASSERT_PTR_NULL(wrong);
        }
        CU_ASSERT_EQUAL(kit_queue(other, QUEUE), 0);
    }
    kit_close(other);
}

static void *list_for_long(void *arg)
{
    zkl_queue *queue = NULL;
    int code = zkl_queue_list(&queue, arg, QUEUE, ZKL_WAIT_FOREVER, NULL);
    CU_ASSERT_EQUAL(code, ZKL_ECLOSED);
    return NULL;
}

static void test_close_ends_a_list_that_waits(void)
{
    pthread_t thread;
    zkl_session *session = kit_open(NULL);
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(session), true), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, list_for_long, session), 0);
    /* Nothing outside shows that the thread has asked: one that comes too late would use a closed session. */
    struct patience patience = {0};
    for (int i = 0; i < 50; i++) {
        patience_left(&patience);
    }
    CU_ASSERT_EQUAL(zkl_session_close(session, 50), ZKL_OK);
    pthread_join(thread, NULL);
}

/* The servers refuse to delete what the session made in a directory without DELETE. Its end does that: there is nothing to wait for. */
static void test_close_where_no_delete_is_permitted(void)
{
    static const zkl_acl_entry entry[] = {{ZKL_PERM_ALL & ~ZKL_PERM_DELETE, "world", "anyone"}};
    static const zkl_acl fixed = {1, entry};
    const struct zkl__op make = {.kind = ZKL__OP_CREATE, .dir = "/fixed", .mode = ZKL__PERSISTENT, .acl = &fixed};
    zkl_session *session = kit_open(NULL), *other = kit_open(NULL);
    enum zkl__rc rc;
    CU_ASSERT(zkl__memory_meddle("kit", &make, &rc) == ZKL_OK && rc == ZKL__RC_OK);
    zkl_lock *holder = kit_lock(session, "/fixed", NULL);
    zkl_lock *waiter = kit_lock(session, "/fixed", NULL);
    struct acquire waiting;
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 10000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, waiter, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(other, "/fixed") == 2));
    int64_t from = now_ms();
    CU_ASSERT_EQUAL(zkl_session_close(session, CLOSE_MS), ZKL_OK);
    CU_ASSERT(now_ms() - from < CLOSE_MS);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(kit_queue(other, "/fixed"), 0);
    zkl_lock_free(holder);
    zkl_lock_free(waiter);
    kit_close(other);
}

TESTS("session close", T(test_close_ends_everything), T(test_close_where_no_delete_is_permitted),
      T(test_close_without_a_server), T(test_close_while_a_new_session_is_being_opened),
      T(test_close_ends_a_release_that_waits), T(test_close_under_load), T(test_close_ends_a_list_that_waits))
