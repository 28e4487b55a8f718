/* Sessions that are open at once: with a server, without one, refused for good, stopped, closed. */
#include <string.h>

#include "lock_kit.h"

#define NOBODY "127.0.0.1:1" /* nobody listens there */

static void on_open(int code, const zkl_error *err, void *payload)
{
    struct letter letter = {.code = code, .thread = pthread_self()};
    snprintf(letter.text, sizeof letter.text, "%s", code == ZKL_OK ? "" : err->text);
    mailbox_put(payload, letter);
}

static void test_used_at_once(void)
{
    zkl_session_options options = kit_short();
    struct mailbox opened = MAILBOX_INIT, acquired = MAILBOX_INIT, states = MAILBOX_INIT;
    options.state_fn = on_session_state;
    options.state_payload = &states;
    CU_ASSERT_EQUAL_FATAL(zkl_session_open_async(&one, PLACE, &options, on_open, &opened, NULL), ZKL_OK);
    zkl_lock *lock = kit_lock(one, "/locks/early", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(lock, 10000, on_acquired, &acquired, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&opened, 1) && mailbox_wait(&acquired, 1) && mailbox_wait(&states, 1));
    CU_ASSERT_EQUAL(mailbox_last(&opened), ZKL_OK);
    CU_ASSERT_EQUAL(mailbox_last(&acquired), ZKL_OK);
    CU_ASSERT_EQUAL(states.letters[0].code, ZKL_SESSION_CONNECTED);
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
    zkl_lock_free(lock);
    kit_close(one);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 1);
}

/* However early the store's thread is: it may be before the call has taken the session's mutex again. */
static void test_connected_is_reported(void)
{
    enum { TIMES = 400 };
    for (int i = 0; i < TIMES; i++) {
        zkl_session_options options = kit_short();
        struct mailbox opened = MAILBOX_INIT, states = MAILBOX_INIT;
        options.state_fn = on_session_state;
        options.state_payload = &states;
        CU_ASSERT_EQUAL_FATAL(zkl_session_open_async(&one, PLACE, &options, on_open, &opened, NULL), ZKL_OK);
        CU_ASSERT_TRUE(mailbox_wait(&opened, 1));
        kit_close(one);
        CU_ASSERT_EQUAL_FATAL(mailbox_count(&states), 2);
        CU_ASSERT_EQUAL(states.letters[0].code, ZKL_SESSION_CONNECTED);
        CU_ASSERT_EQUAL(states.letters[1].code, ZKL_SESSION_CLOSED);
    }
}

static void test_without_a_server(void)
{
    zkl_session_options options = kit_dispatched();
    struct mailbox opened = MAILBOX_INIT, acquired = MAILBOX_INIT;
    zkl_queue *queue;
    CU_ASSERT_EQUAL_FATAL(zkl_session_open_async(&one, NOBODY, &options, on_open, &opened, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_session_state(one), ZKL_SESSION_SUSPENDED);
    zkl_lock *lock = kit_lock(one, "/locks/early", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(lock, 50, on_acquired, &acquired, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, "/locks/early", 50, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_session_dispatch(one) >= 0 && mailbox_count(&acquired) == 1));
    CU_ASSERT_EQUAL(mailbox_last(&acquired), ZKL_ETIMEOUT);
    zkl_lock_free(lock);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 0);
    zkl_session_close(one, 1000);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 1);
    CU_ASSERT_EQUAL(mailbox_last(&opened), ZKL_ECLOSED);
}

static void test_stopped(void)
{
    zkl_session_options options = kit_short();
    struct mailbox opened = MAILBOX_INIT;
    zkl_stop stop = ZKL_STOP_INIT;
    zkl_error err;
    options.stop = &stop;
    CU_ASSERT_EQUAL_FATAL(zkl_session_open_async(&one, NOBODY, &options, on_open, &opened, NULL), ZKL_OK);
    zkl_lock *lock = kit_lock(one, "/locks/early", NULL);
    zkl_stop_raise(&stop);
    CU_ASSERT_TRUE(mailbox_wait(&opened, 1));
    CU_ASSERT_EQUAL(mailbox_last(&opened), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_ECLOSED);
    zkl_lock_free(lock);
    zkl_session_close(one, 1000);
    CU_ASSERT_EQUAL(zkl_session_open_async(&one, NOBODY, &options, on_open, &opened, &err), ZKL_ECANCELED);
    CU_ASSERT_PTR_NULL(one);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 1);
}

/* Connected, and no lease fits the session's timeout: what was made meanwhile ends. */
static void test_refused_for_good(void)
{
    zkl_session_options options = kit_short();
    struct mailbox opened = MAILBOX_INIT, acquired = MAILBOX_INIT, states = MAILBOX_INIT;
    zkl_session *blocking;
    zkl_error err;
    options.session_timeout_ms = 2000;
    options.tick_ms = 2000;
    options.leader_pause_ms = 500;
    options.state_fn = on_session_state;
    options.state_payload = &states;
    int code = zkl_session_open(&blocking, PLACE, &options, &err);
    CU_ASSERT_EQUAL(code, ZKL_EINVAL);
    CU_ASSERT_EQUAL_FATAL(zkl_session_open_async(&one, PLACE, &options, on_open, &opened, NULL), ZKL_OK);
    zkl_lock *lock;
    if (zkl_lock_new(&lock, one, "/locks/early", NULL, NULL) == ZKL_OK) { /* else it is closed already */
        if (zkl_lock_acquire_async(lock, 10000, on_acquired, &acquired, NULL) == ZKL_OK) {
            CU_ASSERT_TRUE(mailbox_wait(&acquired, 1));
            CU_ASSERT_EQUAL(mailbox_last(&acquired), ZKL_ECLOSED);
        }
        zkl_lock_free(lock);
    }
    CU_ASSERT_TRUE(mailbox_wait(&opened, 1));
    CU_ASSERT_EQUAL(mailbox_last(&opened), code);
    CU_ASSERT_STRING_EQUAL(opened.letters[0].text, err.text);
    CU_ASSERT_TRUE(EVENTUALLY(mailbox_last(&states) == ZKL_SESSION_CLOSED));
    CU_ASSERT_EQUAL(zkl_session_state(one), ZKL_SESSION_CLOSED);
    zkl_session_close(one, 1000);
    CU_ASSERT_EQUAL(mailbox_last(&states), ZKL_SESSION_CLOSED);
}

static void test_arguments(void)
{
    zkl_error err;
    struct mailbox opened = MAILBOX_INIT;
    CU_ASSERT_EQUAL(zkl_session_open_async(&one, PLACE, NULL, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_STRING_EQUAL(err.text, "done is NULL");
    CU_ASSERT_PTR_NULL(one);
    CU_ASSERT_EQUAL(zkl_session_open_async(&one, "no port:x", NULL, on_open, &opened, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_session_open_async(NULL, PLACE, NULL, on_open, &opened, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_session_open_async(&one, NULL, NULL, on_open, &opened, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 0);
}

TESTS("open async", T(test_used_at_once), T(test_connected_is_reported), T(test_without_a_server), T(test_stopped),
      T(test_refused_for_good), T(test_arguments))
