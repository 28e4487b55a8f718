/* A store that has told its end still has replies to tell, for what was under way. The session opens another one meanwhile, and first closes
 * the old one, which waits for its thread: so that thread must not wait for the session. */
#include "check.h"
#include "thread_store.h"
#include "wait.h"

#include <zklock/zklock.h>

static atomic_int doomed; /* the number of the one that is to end */

static void wait_for(atomic_bool *flag)
{
    for (int64_t end = now_ms() + SOON; !atomic_load(flag) && look_again(end);) {
    }
}

static void turn(struct zkl__store *store)
{
    if (store->number == atomic_load(&doomed)) {
        const struct zkl__reply unknown = {.rc = ZKL__RC_UNKNOWN};
        store->events->expired(store->ctx, ZKL__END_EXPIRED);
        wait_for(&store->closing);
        store->events->reply(store->ctx, atomic_load(&store->ops[0].id), &unknown);
    } else if (atomic_load(&store->answered) < atomic_load(&store->asked)) {
        thread_store_answer(store, ZKL__RC_OK);
    }
    look_again(0);
}

static void test_replies_after_the_end(void)
{
    zkl_session *session = NULL;
    thread_store_begin(turn);
    CU_ASSERT_EQUAL_FATAL(zkl_session_open(&session, "test:1", NULL, NULL), ZKL_OK);
    atomic_store(&doomed, 1);
    int64_t end = now_ms() + SOON;
    while (zkl_session_id(session) != 2 && look_again(end)) {
    }
    CU_ASSERT_EQUAL_FATAL(zkl_session_id(session), 2); /* else close would not end either */
    CU_ASSERT_EQUAL(zkl_session_close(session, SOON), ZKL_OK);
}

static void on_closed(int code, const zkl_error *err, void *payload)
{
    CU_ASSERT_EQUAL(code, ZKL_OK);
    (void)err;
    atomic_store((atomic_bool *)payload, true);
}

/* The session is closed, without waiting, while its next store is being opened: that one is closed as well. */
static void test_closed_while_it_opens(void)
{
    zkl_session *session = NULL;
    atomic_bool done = false;
    thread_store_begin(turn);
    CU_ASSERT_EQUAL_FATAL(zkl_session_open(&session, "test:1", NULL, NULL), ZKL_OK);
    thread_store_hold(true);
    atomic_store(&doomed, thread_store_opened());
    for (int64_t end = now_ms() + SOON; !thread_store_held() && look_again(end);) {
    }
    CU_ASSERT_EQUAL(zkl_session_close_async(session, SOON, on_closed, &done, NULL), ZKL_OK);
    CU_ASSERT_FALSE(atomic_load(&done));
    thread_store_hold(false);
    wait_for(&done);
    CU_ASSERT(atomic_load(&done));
    CU_ASSERT_EQUAL(thread_store_closed(), thread_store_opened());
}

TESTS("store ends", T(test_replies_after_the_end), T(test_closed_while_it_opens))
