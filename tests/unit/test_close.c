/* Closing a session: what it held and waited for ends, whatever other threads do meanwhile. A close that nobody waits for: its completion is
 * the last callback, behind everything that it ends. */
#include <string.h>
#include <zklock/testing.h>
#include <zklock/zookeeper.h>

#include "lock_kit.h"
#include "test_heap.h"

#define QUEUE "/locks/close"
#define CLOSE_MS 20000 /* all the time that a close has */

TEST(test_close_without_a_server)
{
    zkl_session *session = kit_open(NULL), *other = kit_open(NULL);
    zkl_lock *holder = kit_hold(session, QUEUE, NULL);
    kit_suspend(session);
    int64_t from = now_ms();
    CU_ASSERT_EQUAL(zkl_session_close(session, 100), ZKL_ETIMEOUT);
    CU_ASSERT(now_ms() - from < 1000);
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_ECLOSED);
    kit_free(holder);
    kit_close(other);
}

static void *release(void *arg)
{
    zkl_lock_release(arg, NULL);
    return NULL;
}

TEST(test_close_ends_a_release_that_waits)
{
    pthread_t thread;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.release_timeout_ms = 60000;
    zkl_session *session = kit_open(NULL), *other = kit_open(NULL);
    zkl_lock *lock = kit_hold(session, QUEUE, &options);
    ASSERT_OK(zkl__memory_hold(zkl_session_id(session), true));
    int64_t from = now_ms();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, release, lock), 0);
    ASSERT_EVENTUALLY(kit_queue(other, QUEUE) == 0); /* gone on the server, but nobody is told */
    ASSERT_OK(zkl_session_close(session, 50));
    pthread_join(thread, NULL);
    CU_ASSERT(now_ms() - from < 15000);
    kit_free(lock);
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
    kit_free(lock);
    return code == ZKL_ECLOSED ? NULL : arg;
}

TEST(test_close_under_load)
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
        ASSERT_EVENTUALLY(kit_queue(other, QUEUE) > 1);
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

/* The servers refuse to delete what the session made in a directory without DELETE. Its end does that: there is nothing to wait for. */
TEST(test_close_where_no_delete_is_permitted)
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
    kit_acquire(holder);
    acquire_start(&waiting, waiter, ZKL_WAIT_FOREVER);
    ASSERT_EVENTUALLY(kit_queue(other, "/fixed") == 2);
    int64_t from = now_ms();
    ASSERT_OK(zkl_session_close(session, CLOSE_MS));
    CU_ASSERT(now_ms() - from < CLOSE_MS);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(kit_queue(other, "/fixed"), 0);
    kit_free(holder);
    kit_free(waiter);
    kit_close(other);
}

/* --- without waiting ------------------------------------------------------------------------------------------------- */

static struct mailbox closed = MAILBOX_INIT, ended = MAILBOX_INIT, states = MAILBOX_INIT;

/* The session is gone: only what the callback was given is looked at. */
static void on_closed(int code, const zkl_error *err, void *payload)
{
    CU_ASSERT_EQUAL(mailbox_count(&closed), 0);
    on_ended(code, err, payload);
}

static bool dispatches; /* else a thread calls back, and the session may be gone at any moment */

static bool all_gone_on(zkl_session *session, zkl_session *other)
{
    if (dispatches && mailbox_count(&closed) == 0) {
        zkl_session_dispatch(session);
    }
    if (other) {
        zkl_session_dispatch(other);
    }
    return mailbox_count(&closed) > 0;
}

static void begin(zkl_session_options *options, bool dispatched)
{
    mailbox_clear(&closed);
    mailbox_clear(&ended);
    mailbox_clear(&states);
    options->callbacks = dispatched ? ZKL_CALLBACKS_DISPATCH : ZKL_CALLBACKS_THREAD;
    options->state_fn = on_session_state;
    options->state_payload = &states;
    one = kit_open(options);
    two = kit_open(NULL);
    dispatches = zkl_session_fd(one) >= 0;
}

static void end_everything(bool dispatched)
{
    struct test_heap memory = TEST_HEAP_INIT;
    zkl_heap heap = test_heap(&memory);
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_lock *waiting[5];
    zkl_data *data;
    zkl_error err;
    options.heap = &heap;
    begin(&options, dispatched);
    zkl_lock *holder = kit_hold(one, QUEUE, NULL);
    for (int i = 0; i < 5; i++) {
        waiting[i] = kit_lock(one, QUEUE, NULL);
        ASSERT_OK(zkl_lock_acquire_async(waiting[i], ZKL_WAIT_FOREVER, on_acquired, &ended, NULL));
    }
    ASSERT_EVENTUALLY(kit_queue(two, QUEUE) == 6);
    ASSERT_OK(zkl_testing_delay(one, true, NULL));
    ASSERT_OK(zkl_lock_read_async(&data, holder, QUEUE, false, 5000, on_ended, &ended, NULL));
    ASSERT_OK(zkl_testing_delay(one, false, NULL));
    ASSERT_OK(zkl_session_close_async(one, CLOSE_MS, on_closed, &closed, NULL));
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 0, NULL, &err), ZKL_ECLOSED);
    CU_ASSERT_FALSE(zkl_lock_is_held(holder));
    ASSERT_EVENTUALLY(all_gone_on(one, two));
    ASSERT_OK(mailbox_last(&closed));
    CU_ASSERT_EQUAL(mailbox_count(&ended), 6); /* all before the last */
    for (int i = 0; i < 5; i++) {
        CU_ASSERT(ended.letters[i].code == ZKL_ECLOSED || ended.letters[i].code == ZKL_OK); /* the read may be quick */
    }
    CU_ASSERT_EQUAL(mailbox_last(&states), ZKL_SESSION_CLOSED);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0);
    CU_ASSERT_EQUAL(zkl_lock_state(waiting[0]), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_ECLOSED);
    for (int i = 0; i < 5; i++) {
        kit_free(waiting[i]);
    }
    kit_free(holder);
    for (size_t i = 0; i < ended.count; i++) {
        if (ended.letters[i].code == ZKL_OK) {
            zkl_data_free(data);
        }
    }
    CU_ASSERT_EQUAL(mailbox_count(&closed), 1);
    kit_close(two);                                  /* and the tree with it */
    ASSERT_EVENTUALLY(test_heap_live(&memory) == 0); /* by the session's threads */
}

TEST(test_ends_everything)
{
    end_everything(true);
    end_everything(false);
}

/* Whatever was under way: exactly once, and nothing is left. */
TEST(test_many_times)
{
    for (int i = 0; i < 50; i++) {
        struct test_heap memory = TEST_HEAP_INIT;
        zkl_heap heap = test_heap(&memory);
        zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
        options.heap = &heap;
        begin(&options, i % 2);
        zkl_lock *lock = kit_lock(one, QUEUE, NULL);
        ASSERT_OK(zkl_lock_acquire_async(lock, 1000, on_acquired, &ended, NULL));
        if (i % 3 == 0) {
            zkl_testing_expire(one, NULL); /* a new session is being opened */
        }
        if (i % 4 == 0) {
            kit_free(lock);
        }
        ASSERT_OK(zkl_session_close_async(one, CLOSE_MS, on_closed, &closed, NULL));
        ASSERT_EVENTUALLY(all_gone_on(one, two));
        ASSERT_OK(mailbox_last(&closed));
        CU_ASSERT_EQUAL(mailbox_count(&ended), 1);
        if (i % 4 != 0) {
            kit_free(lock);
        }
        kit_close(two);
        ASSERT_EVENTUALLY(test_heap_live(&memory) == 0);
    }
}

TEST(test_without_a_server)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    begin(&options, true);
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    ASSERT_OK(zkl_testing_cut(one, NULL));
    int64_t from = now_ms();
    ASSERT_OK(zkl_session_close_async(one, 100, on_closed, &closed, NULL));
    CU_ASSERT_EQUAL(mailbox_count(&closed), 0);
    ASSERT_EVENTUALLY(all_gone_on(one, NULL));
    CU_ASSERT(now_ms() - from >= 100);
    CU_ASSERT_EQUAL(mailbox_last(&closed), ZKL_ETIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(closed.letters[0].text, "did not confirm"));
    kit_free(lock);
    kit_close(two);
}

static void close_in_callback(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    on_acquired(lock, code, grant, err, payload);
    CU_ASSERT_EQUAL(zkl_session_close(one, 0), ZKL_EDEADLK);
    ASSERT_OK(zkl_session_close_async(one, CLOSE_MS, on_closed, &closed, NULL));
    CU_ASSERT_EQUAL(zkl_session_close_async(one, CLOSE_MS, on_closed, &closed, NULL), ZKL_ECLOSED);
    kit_free(lock);
}

TEST(test_from_a_callback)
{
    for (int dispatched = 0; dispatched < 2; dispatched++) {
        zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
        begin(&options, dispatched);
        zkl_lock *lock = kit_lock(one, QUEUE, NULL);
        ASSERT_OK(zkl_lock_acquire_async(lock, 1000, close_in_callback, &ended, NULL));
        ASSERT_EVENTUALLY(all_gone_on(one, two));
        ASSERT_OK(mailbox_last(&closed));
        ASSERT_OK(mailbox_last(&ended));
        CU_ASSERT_EQUAL(mailbox_count(&ended), 1);
        CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0);
        kit_close(two);
    }
}

/* A stop token ends waits, and a close is none. */
TEST(test_with_a_stop_token)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_stop stop = ZKL_STOP_INIT;
    options.stop = &stop;
    begin(&options, true);
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    zkl_stop_raise(&stop);
    ASSERT_OK(zkl_session_close_async(one, CLOSE_MS, on_closed, &closed, NULL));
    ASSERT_EVENTUALLY(all_gone_on(one, two));
    ASSERT_OK(mailbox_last(&closed));
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0);
    kit_free(lock);
    kit_close(two);
}

TEST(test_while_it_opens)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    mailbox_clear(&closed);
    mailbox_clear(&ended);
    options.callbacks = ZKL_CALLBACKS_DISPATCH;
    ASSERT_OK_FATAL(zkl_session_open_async(&one, PLACE, &options, on_ended, &ended, NULL));
    dispatches = true;
    ASSERT_OK(zkl_session_close_async(one, CLOSE_MS, on_closed, &closed, NULL));
    ASSERT_EVENTUALLY(all_gone_on(one, NULL));
    ASSERT_OK(mailbox_last(&closed));
    CU_ASSERT_EQUAL(mailbox_count(&ended), 1);
}

/* The dispatch that called done says so: a loop needs nothing else to know that the session is gone. */
TEST(test_the_last_dispatch)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    begin(&options, true);
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    CU_ASSERT(zkl_session_dispatch(one) >= 0);
    ASSERT_OK(zkl_session_close_async(one, CLOSE_MS, on_closed, &closed, NULL));
    int ran = 0;
    ASSERT_EVENTUALLY((ran = zkl_session_dispatch(one)) < 0 || mailbox_count(&closed) > 0);
    CU_ASSERT_EQUAL(ran, ZKL_ECLOSED);
    CU_ASSERT_EQUAL(mailbox_count(&closed), 1);
    ASSERT_OK(mailbox_last(&closed));
    kit_free(lock);
    kit_close(two);
}

TESTS("close")
