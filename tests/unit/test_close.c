/* Closing a session: what it held and waited for ends, whatever other threads do meanwhile. A close that nobody waits for: its completion is
 * the last callback, behind everything that it ends. */
#include "lock_kit.h"
#include "zookeeper_store.h"
#include "shell.h"
#include "test_heap.h"

#define QUEUE "/locks/close"
#define CLOSE_MS 20000 /* all the time that a close has */

/* The servers refuse to delete what the session made in a directory without DELETE. Its end does that: there is nothing to wait for. */
TEST_WITH_SESSIONS(test_close_where_no_delete_is_permitted)
{
    static const zkl_acl_entry entry[] = {{ZKL_PERM_ALL & ~ZKL_PERM_DELETE, "world", "anyone"}};
    static const zkl_acl fixed = {1, entry};
    kit_create("/fixed", NULL, NULL, &fixed);
    kit_hold(one, "/fixed", NULL);
    struct acquire waiting;
    acquire_start(&waiting, kit_lock(one, "/fixed", NULL), ZKL_WAIT_FOREVER);
    kit_await_queue(two, "/fixed", 2);
    int64_t from = now_ms();
    ASSERT_OK(zkl_session_close(one, CLOSE_MS));
    CU_ASSERT(now_ms() - from < CLOSE_MS);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(kit_queue(two, "/fixed"), 0);
    one = kit_open(NULL);
}

/* A wait adds the time that passes between two looks at the clock to its deadline: it would be over at once, for ever, where that overflows. */
TEST(test_deadlines)
{
    const int64_t centuries[] = {ZKL_WAIT_FOREVER, INT64_MAX, INT64_MAX / ZKL__MS,
                                 (INT64_MAX - zkl__clock_now()) / ZKL__MS};
    EACH_ROW (i, centuries) {
        CU_ASSERT_EQUAL(zkl__session_deadline(centuries[i]), INT64_MAX);
    }
    CU_ASSERT(zkl__session_deadline(1000) <= zkl__clock_now() + 1000 * ZKL__MS);
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

static void begin(const zkl_heap *heap, bool dispatched)
{
    mailbox_clear(&closed);
    mailbox_clear(&ended);
    mailbox_clear(&states);
    one =
        kit_open(SESSION_OPTIONS(.heap = heap, .callbacks = dispatched ? ZKL_CALLBACKS_DISPATCH : ZKL_CALLBACKS_THREAD,
                                 .state_fn = on_session_state, .state_payload = &states));
    two = kit_open(NULL);
    dispatches = zkl_session_fd(one) >= 0;
}

static void end_everything(bool dispatched)
{
    struct test_heap memory = TEST_HEAP_INIT;
    zkl_heap heap = test_heap(&memory);
    zkl_lock *waiting[5];
    begin(&heap, dispatched);
    zkl_lock *holder = kit_hold(one, QUEUE, NULL);
    EACH_ROW (i, waiting) {
        waiting[i] = kit_lock(one, QUEUE, NULL);
        kit_acquire_async(waiting[i], on_acquired, &ended);
    }
    kit_await_queue(two, QUEUE, 6);
    ASSERT_OK(zkl_session_close_async(one, CLOSE_MS, on_closed, &closed, NULL));
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 0, NULL, NULL), ZKL_ECLOSED);
    CU_ASSERT_FALSE(zkl_lock_is_held(holder));
    ASSERT_EVENTUALLY(all_gone_on(one, two));
    ASSERT_OK(mailbox_last(&closed));
    CU_ASSERT_EQUAL(mailbox_count(&ended), 5); /* all before the last */
    for (int i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(ended.letters[i].code, ZKL_ECLOSED);
    }
    CU_ASSERT_EQUAL(mailbox_last(&states), ZKL_SESSION_CLOSED);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0);
    CU_ASSERT_EQUAL(zkl_lock_state(waiting[0]), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_ECLOSED);
    EACH_ROW (i, waiting) {
        kit_free(waiting[i]);
    }
    kit_free(holder);
    CU_ASSERT_EQUAL(mailbox_count(&closed), 1);
    kit_close(two);                                  /* and the tree with it */
    ASSERT_EVENTUALLY(test_heap_live(&memory) == 0); /* by the session's threads */
}

TEST(test_ends_everything)
{
    end_everything(true);
    end_everything(false);
}

TEST(test_without_a_server)
{
    begin(NULL, true);
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    ASSERT_OK(zkl_testing_cut(one, NULL));
    int64_t from = now_ms();
    ASSERT_OK(zkl_session_close_async(one, 100, on_closed, &closed, NULL));
    CU_ASSERT_EQUAL(mailbox_count(&closed), 0);
    ASSERT_EVENTUALLY(all_gone_on(one, NULL));
    CU_ASSERT(now_ms() - from >= 100);
    CU_ASSERT_EQUAL(mailbox_last(&closed), ZKL_ETIMEOUT);
    ASSERT_SAYS(closed.letters[0], "did not confirm");
    kit_free(lock);
    kit_close(two);
}

static void *wait_at_a_barrier(void *payload)
{
    *(int *)payload = zkl_barrier_wait(one, "/barrier", ZKL_WAIT_FOREVER, NULL);
    return NULL;
}

/* A call in another thread does not wait for the servers that the close waits for. */
TEST(test_ends_calls_of_other_threads_first)
{
    pthread_t waiter;
    int waited = 0;
    begin(NULL, false);
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    ASSERT_OK(zkl_barrier_set(two, "/barrier", 10000, NULL));
    uint64_t before = kit_requests(one);
    kit_delay(one, true); /* no response wakes the waiter */
    kit_start_thread(&waiter, wait_at_a_barrier, &waited);
    ASSERT_EVENTUALLY(kit_requests(one) > before);
    int64_t id = zkl_session_id(one);
    ASSERT_OK(zkl_session_close_async(one, CLOSE_MS, on_closed, &closed, NULL));
    pthread_join(waiter, NULL);
    CU_ASSERT_EQUAL(one->status.state, ZKL_SESSION_CONNECTED);
    CU_ASSERT_EQUAL(waited, ZKL_ECLOSED);
    ASSERT_OK(zkl__memory_hold(id, false));
    ASSERT_OK(mailbox_code(&closed, 1));
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
        begin(NULL, dispatched);
        zkl_lock *lock = kit_lock(one, QUEUE, NULL);
        kit_acquire_async(lock, close_in_callback, &ended);
        ASSERT_EVENTUALLY(all_gone_on(one, two));
        ASSERT_OK(mailbox_last(&closed));
        ASSERT_OK(mailbox_last(&ended));
        CU_ASSERT_EQUAL(mailbox_count(&ended), 1);
        CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0);
        kit_close(two);
    }
}

/* The dispatch that called done says so: a loop needs nothing else to know that the session is gone. */
TEST(test_the_last_dispatch)
{
    begin(NULL, true);
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

/* The session stays in memory until its last object is freed. */
TEST(test_credentials_are_wiped)
{
    one = kit_open(SESSION_OPTIONS(.auth_scheme = "digest", .auth = "ann:x", .auth_size = 5));
    zkl_lock *lock = kit_lock(one, "/locks/a", NULL);
    const char *auth = one->settings.options.auth;
    kit_close(one);
    CU_ASSERT_EQUAL(*auth, 0);
    kit_free(lock);
}

/* An event of a watch is no response to closeSession; the response may come in two parts. */
TEST(test_goodbye)
{
    const char bytes[] = "\0\0\0\5\377\377\377\377\1\0\0\0\20\0\0\0\11";
    struct zk_goodbye goodbye = {0};
    CU_ASSERT_FALSE(zkl__zk_goodbye(&goodbye, bytes, 14));
    CU_ASSERT(zkl__zk_goodbye(&goodbye, bytes + 14, 3));
}

TESTS("close")
