/* A server that puts off what it is asked ("try again": throttled, or the session has moved) is
 * asked again later, each time later than before. And a store that ends while replies are under
 * way, or while the next one opens, or that connects before the call which opens it goes on. */

#include "lock_kit.h"
#include "memory_store.h"

#define SECOND 1000 /* ms */
#define FEW 20      /* requests in a second */

/* --- the in-process store, with an open and a close of the test's (unit/wrapped) ------------------------------------ */

static atomic_int opened, closed; /* how many there have been */
/* The next one takes its time to open until this is false again; and it is at it. */
static atomic_bool slow_to_open, opening;
static atomic_bool connects_first; /* the next session is connected before its call takes the mutex again */
static atomic_size_t left;         /* so many requests are put off */
static atomic_bool swallows;       /* what is submitted has no reply: */
static atomic_ullong swallowed;
static struct zkl__store_events events; /* of the newest */
static void *events_ctx;

static int open_it(struct zkl__store **out, const struct zkl__store_config *config,
                   const struct zkl__store_events *of_session, void *ctx, zkl_error *err)
{
    for (int64_t end = now_ms() + 20000; slow_to_open && look_again(end);) {
        opening = true;
    }
    opened++;
    events = *of_session;
    events_ctx = ctx;
    return zkl__store_memory.open(out, config, of_session, ctx, err);
}

bool __real_zkl__session_enter_if_ours(zkl_session *session);
bool __wrap_zkl__session_enter_if_ours(zkl_session *session);
bool __wrap_zkl__session_enter_if_ours(zkl_session *session)
{
    if (atomic_exchange(&connects_first, false)) {
        kit_await_session(session, ZKL_SESSION_CONNECTED);
    }
    return __real_zkl__session_enter_if_ours(session);
}

static int submit_it(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    if (swallows) {
        swallowed = id;
        return ZKL_OK;
    }
    if (left > 0) { /* in its place a write that is refused so */
        const struct zkl__op write = {.kind = ZKL__OP_SET, .dir = "/"};
        left--;
        ASSERT_OK(zkl__memory_refuse(store->session_id, ZKL__RC_NOTAPPLIED, 1));
        return zkl__store_memory.submit(store, id, &write);
    }
    return zkl__store_memory.submit(store, id, op);
}

static int close_it(struct zkl__store *store, int64_t timeout_ms, int64_t *again_ms)
{
    const struct zkl__reply unknown = {.rc = ZKL__RC_UNKNOWN};
    uint64_t id = atomic_exchange(&swallowed, 0);
    if (id != 0) {
        events.reply(events_ctx, id, &unknown);
    }
    closed++;
    return zkl__store_memory.close(store, timeout_ms, again_ms);
}

static struct zkl__store_ops ops;
static pthread_once_t ops_made = PTHREAD_ONCE_INIT;

static void make_ops(void)
{
    ops = zkl__store_memory;
    ops.open = open_it;
    ops.submit = submit_it;
    ops.close = close_it;
}

const struct zkl__store_ops *__wrap_zkl__store_find(const char *servers, zkl_error *err);
const struct zkl__store_ops *__wrap_zkl__store_find(const char *servers, zkl_error *err)
{
    pthread_once(&ops_made, make_ops);
    return &ops;
}

/* --- calls, for a second each -------------------------------------------------------------------------------------- */

static int set(void)
{
    return zkl_barrier_set(one, "/barrier", SECOND, NULL);
}

static int lift(void)
{
    return zkl_barrier_lift(one, "/barrier", SECOND, NULL);
}

static int list(void)
{
    zkl_queue *queue;
    return zkl_queue_list(&queue, one, "/queue", SECOND, NULL);
}

static int join(void)
{
    zkl_group *group;
    ASSERT_OK_FATAL(zkl_group_new(&group, one, "/group", "us", NULL, NULL));
    int code = zkl_group_join(group, SECOND, NULL);
    zkl_group_free(group);
    return code;
}

static int acquire(void)
{
    zkl_lock *lock = kit_lock(one, "/lock", NULL);
    int code = zkl_lock_acquire(lock, SECOND, NULL, NULL);
    kit_free(lock);
    return code;
}

static int64_t took_ms; /* the last call; longer than its second, if its thread stands still */

static uint64_t count_requests(const char *name, int (*call)(void))
{
    uint64_t before = kit_requests(one);
    int64_t from = now_ms();
    int code = call();
    took_ms = now_ms() - from;
    uint64_t sent = kit_requests(one) - before;
    printf("%s: %d requests, %s\n", name, (int)sent, zkl_error_name(code));
    CU_ASSERT_EQUAL(code, ZKL_ETIMEOUT);
    return sent;
}

/* How many it were. A thread may stand still for all of the second: then it is tried again. */
static uint64_t expect_few(const char *name, int (*call)(void))
{
    uint64_t sent = count_requests(name, call);
    for (int again = 0; sent <= 1 && again < 9; again++) {
        sent = count_requests(name, call);
    }
    CU_ASSERT(sent > 1 && sent < FEW);
    return sent;
}

/* One at once, then one after each pause of 0.2, 0.4, 0.8 s and so on. */
static uint64_t most_in(int64_t ms)
{
    uint64_t most = 1;
    for (int64_t pause = 200; ms >= pause; pause *= 2) {
        ms -= pause;
        most++;
    }
    return most;
}

/* One call of each way to send. */
TEST_WITH_SESSIONS(test_few_requests)
{
    left = SIZE_MAX;
    expect_few("barrier set", set);
    expect_few("barrier lift", lift);
    expect_few("queue list", list);
    /* The join's own until its second is over. Then the leave asks at once, and once more at the group's end, if it has its answer. */
    uint64_t sent = expect_few("group join", join);
    CU_ASSERT(sent <= most_in(took_ms) + most_in(took_ms - SECOND) + 1);
    expect_few("acquire", acquire);
    left = 0;
}

/* The session has moved, say: reads are answered. */
TEST_WITH_SESSIONS(test_few_writes)
{
    ASSERT_OK(zkl__memory_refuse(zkl_session_id(one), ZKL__RC_NOTAPPLIED, SIZE_MAX));
    expect_few("barrier set", set);
    ASSERT_OK(zkl__memory_refuse(zkl_session_id(one), ZKL__RC_OK, 0));
    ASSERT_OK(set());
    ASSERT_OK(zkl__memory_refuse(zkl_session_id(one), ZKL__RC_NOTAPPLIED, SIZE_MAX));
    expect_few("barrier lift", lift);
    ASSERT_OK(zkl__memory_refuse(zkl_session_id(one), ZKL__RC_OK, 0));
}

/* And is done in the end. */
TEST_WITH_SESSIONS(test_done_later)
{
    zkl_queue *queue = NULL;
    left = 3;
    ASSERT_OK(zkl_barrier_set(one, "/barrier", 20000, NULL));
    CU_ASSERT_EQUAL(left, 0);
    left = 3;
    ASSERT_OK(zkl_queue_list(&queue, one, "/", 20000, NULL));
    CU_ASSERT_EQUAL(left, 0);
    zkl_queue_free(queue);
}

TEST(test_replies_after_the_end)
{
    struct mailbox box = MAILBOX_INIT;
    one = kit_open(NULL);
    int64_t before = zkl_session_id(one);
    swallows = true;
    ASSERT_OK(zkl_barrier_set_async(one, "/barrier", 20000, on_ended, &box, NULL));
    ASSERT_EVENTUALLY(swallowed != 0);
    swallows = false;
    kit_expire(one);
    ASSERT_EVENTUALLY_FATAL(zkl_session_id(one) != before); /* else close would not end either */
    ASSERT_OK(mailbox_code(&box, 1));
    kit_close(one);
}

/* However early the store's thread is: it may be before the call has taken the session's mutex again. */
TEST(test_connected_is_reported)
{
    struct mailbox done = MAILBOX_INIT, states = MAILBOX_INIT;
    const zkl_session_options *options = SESSION_OPTIONS(.state_fn = on_session_state, .state_payload = &states);
    connects_first = true;
    ASSERT_OK_FATAL(zkl_session_open_async(&one, PLACE, options, on_ended, &done, NULL));
    CU_ASSERT_FALSE(connects_first);
    ASSERT_OK(mailbox_code(&done, 1));
    kit_close(one);
    CU_ASSERT_EQUAL_FATAL(mailbox_count(&states), 2); /* and that it is closed */
    CU_ASSERT_EQUAL(states.letters[0].code, ZKL_SESSION_CONNECTED);
}

/* The session is closed, without waiting, while its next store is being opened: that one is closed as well. */
TEST(test_closed_while_it_opens)
{
    struct mailbox box = MAILBOX_INIT;
    one = kit_open(NULL);
    slow_to_open = true;
    kit_expire(one);
    ASSERT_EVENTUALLY(opening);
    ASSERT_OK(zkl_session_close_async(one, 20000, on_ended, &box, NULL));
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    slow_to_open = false;
    ASSERT_OK(mailbox_code(&box, 1));
    CU_ASSERT_EQUAL(closed, opened);
}

TESTS("put_off")
