/* A server that puts off what it is asked ("try again": throttled, or the session has moved) is
 * asked again later, each time later than before. And a store that ends while replies are under
 * way, or while the next one opens. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"
#include "store.h"
#include "wait.h"

#include <zklock/zklock.h>

#define SECOND 1000 /* ms */
#define FEW 20      /* requests in a second */

/* --- a store that is one thread, instead of the store that the servers string means (unit/wrapped): it takes every operation --------- */

#define THREAD_STORE_OPS 10000

struct zkl__store {
    const struct zkl__store_events *events;
    void *ctx;
    pthread_t thread;
    int number; /* the first that the program opened is 1 */
    struct {
        atomic_ullong id;
        atomic_bool read;
    } ops[THREAD_STORE_OPS]; /* in their order */
    atomic_uint asked, answered;
    atomic_bool closing;
};

/* Called on the thread, without a pause between, until the store is closed. */
static void (*test_turn)(struct zkl__store *store);
static atomic_int opened, closed; /* how many there have been */
/* The next one takes its time to open until this is false again; and it is at it. */
static atomic_bool slow_to_open, opening;
static _Atomic(struct zkl__store *) newest; /* while it is open */

/* Before the first session. */
static void thread_store_begin(void (*turn)(struct zkl__store *store))
{
    test_turn = turn;
    atomic_store(&opened, 0);
    atomic_store(&closed, 0);
}

/* Answers the first that has no answer yet. */
static void thread_store_answer(struct zkl__store *store, enum zkl__rc rc)
{
    const struct zkl__reply reply = {.rc = rc};
    unsigned i = atomic_fetch_add(&store->answered, 1);
    store->events->reply(store->ctx, atomic_load(&store->ops[i].id), &reply);
}

static void *run(void *arg)
{
    struct zkl__store *store = arg;
    const struct zkl__connection connection = {
        .session_id = store->number, .timeout_ms = 600000, .fresh = true, .began_ns = boot_ns()};
    store->events->connected(store->ctx, &connection);
    while (!atomic_load(&store->closing)) {
        test_turn(store);
    }
    return NULL;
}

static int open_it(struct zkl__store **out, const struct zkl__store_config *config,
                   const struct zkl__store_events *events, void *ctx, zkl_error *err)
{
    (void)config;
    (void)err;
    struct zkl__store *store = calloc(1, sizeof *store);
    for (int64_t end = now_ms() + SOON; atomic_load(&slow_to_open) && look_again(end);) {
        atomic_store(&opening, true);
    }
    store->events = events;
    store->ctx = ctx;
    store->number = atomic_fetch_add(&opened, 1) + 1;
    atomic_store(&newest, store);
    *out = store;
    return pthread_create(&store->thread, NULL, run, store) == 0 ? ZKL_OK : ZKL_ELIMIT;
}

static int submit_it(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    unsigned i = atomic_load(&store->asked); /* one thread at a time submits */
    if (i == THREAD_STORE_OPS) {
        return ZKL_ELIMIT;
    }
    atomic_store(&store->ops[i].id, id);
    atomic_store(&store->ops[i].read,
                 op->kind == ZKL__OP_EXISTS || op->kind == ZKL__OP_GET || op->kind == ZKL__OP_CHILDREN);
    atomic_store(&store->asked, i + 1);
    return ZKL_OK;
}

static int64_t tick_it(struct zkl__store *store, int64_t now_ns)
{
    (void)store;
    (void)now_ns;
    return INT64_MAX;
}

static int close_it(struct zkl__store *store, int64_t timeout_ms)
{
    (void)timeout_ms;
    atomic_store(&store->closing, true);
    pthread_join(store->thread, NULL);
    atomic_fetch_add(&closed, 1);
    free(store);
    return ZKL_OK;
}

const struct zkl__store_ops *__wrap_zkl__store_find(const char *servers, zkl_error *err);
const struct zkl__store_ops *__wrap_zkl__store_find(const char *servers, zkl_error *err)
{
    static const struct zkl__store_ops ops = {
        .name = "test", .ops_max = 100, .open = open_it, .submit = submit_it, .tick = tick_it, .close = close_it};
    (void)servers;
    (void)err;
    return &ops;
}

/* --- moods of the server -------------------------------------------------------------------------------------------------- */

enum mood { CONTENT, BUSY, BUSY_WITH_WRITES };

static atomic_int mood = CONTENT;

static void turn(struct zkl__store *store)
{
    unsigned i = atomic_load(&store->answered);
    if (i < atomic_load(&store->asked)) {
        bool read = atomic_load(&store->ops[i].read);
        bool fine = atomic_load(&mood) == CONTENT || (atomic_load(&mood) == BUSY_WITH_WRITES && read);
        thread_store_answer(store, fine ? ZKL__RC_OK : ZKL__RC_NOTAPPLIED);
    } else {
        look_again(0);
    }
}

static unsigned asked(void)
{
    return atomic_load(&atomic_load(&newest)->asked);
}

static unsigned answered(void)
{
    return atomic_load(&atomic_load(&newest)->answered);
}

/* --- calls, for a second each -------------------------------------------------------------------------------------- */

static int set(zkl_session *session)
{
    return zkl_barrier_set(session, "/barrier", SECOND, NULL);
}

static int wait_at(zkl_session *session)
{
    return zkl_barrier_wait(session, "/barrier", SECOND, NULL);
}

static int lift(zkl_session *session)
{
    return zkl_barrier_lift(session, "/barrier", SECOND, NULL);
}

static int prepare(zkl_session *session)
{
    return zkl_once_prepare(session, "/once", SECOND, NULL);
}

static int last(zkl_session *session)
{
    int64_t last_ms, recorded_ms;
    return zkl_once_last(session, "/once", 0, SECOND, &last_ms, &recorded_ms, NULL);
}

static int list(zkl_session *session)
{
    zkl_queue *queue;
    return zkl_queue_list(&queue, session, "/queue", SECOND, NULL);
}

static int take_out(zkl_session *session)
{
    return zkl_queue_remove(session, "/queue", "x-lock-0000000001", 0, SECOND, NULL);
}

static int members(zkl_session *session)
{
    zkl_members *all;
    return zkl_group_list(&all, session, "/group", SECOND, NULL);
}

static int join(zkl_session *session)
{
    zkl_group *group;
    ASSERT_OK_FATAL(zkl_group_new(&group, session, "/group", "us", NULL, NULL));
    int code = zkl_group_join(group, SECOND, NULL);
    zkl_group_free(group);
    return code;
}

static int acquire(zkl_session *session)
{
    zkl_lock *lock;
    ASSERT_OK_FATAL(zkl_lock_new(&lock, session, "/lock", NULL, NULL));
    int code = zkl_lock_acquire(lock, SECOND, NULL, NULL);
    zkl_lock_free(lock);
    return code;
}

static zkl_session *open_with(void (*turn_fn)(struct zkl__store *store))
{
    zkl_session *session = NULL;
    atomic_store(&mood, CONTENT);
    thread_store_begin(turn_fn);
    ASSERT_OK_FATAL(zkl_session_open(&session, "test:1", NULL, NULL));
    return session;
}

static unsigned count_requests(const char *name, int (*call)(zkl_session *session), enum mood when)
{
    zkl_session *session = open_with(turn);
    atomic_store(&mood, when);
    unsigned before = asked();
    int code = call(session);
    unsigned sent = asked() - before;
    printf("%s: %u requests, %s\n", name, sent, zkl_error_name(code));
    CU_ASSERT_EQUAL(code, ZKL_ETIMEOUT);
    (void)zkl_session_close(session, 0);
    return sent;
}

/* How many it were. A thread may stand still for all of the second: then it is tried again. */
static unsigned expect_few(const char *name, int (*call)(zkl_session *session), enum mood when)
{
    unsigned sent = count_requests(name, call, when);
    for (int again = 0; sent <= 1 && again < 9; again++) {
        sent = count_requests(name, call, when);
    }
    CU_ASSERT(sent > 1 && sent < FEW);
    return sent;
}

TEST(test_few_requests)
{
    expect_few("barrier set", set, BUSY);
    expect_few("barrier wait", wait_at, BUSY);
    expect_few("barrier lift", lift, BUSY);
    expect_few("once prepare", prepare, BUSY);
    expect_few("once last", last, BUSY);
    expect_few("queue list", list, BUSY);
    expect_few("queue remove", take_out, BUSY);
    expect_few("group list", members, BUSY);
    /* The pauses are 0.2, 0.4, 0.8 s; one more at the end, if its thread is quick: the leave's check. */
    CU_ASSERT(expect_few("group join", join, BUSY) <= 3 + 1);
    expect_few("acquire", acquire, BUSY);
}

/* The session has moved, say: reads are answered. */
TEST(test_few_writes)
{
    expect_few("barrier set", set, BUSY_WITH_WRITES);
    expect_few("barrier lift", lift, BUSY_WITH_WRITES);
    expect_few("queue remove", take_out, BUSY_WITH_WRITES);
}

static void *be_content(void *arg)
{
    const unsigned *from = arg;
    (void)EVENTUALLY(answered() >= *from + 3);
    atomic_store(&mood, CONTENT);
    return NULL;
}

/* And is done in the end. */
TEST(test_done_later)
{
    zkl_session *session = open_with(turn);
    for (int lists = 0; lists < 2; lists++) {
        zkl_queue *queue = NULL;
        pthread_t thread;
        atomic_store(&mood, BUSY);
        unsigned from = answered();
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, be_content, &from), 0);
        ASSERT_OK(lists ? zkl_queue_list(&queue, session, "/queue", SOON, NULL)
                        : zkl_barrier_set(session, "/barrier", SOON, NULL));
        pthread_join(thread, NULL);
        zkl_queue_free(queue);
    }
    (void)zkl_session_close(session, 0);
}

static atomic_int doomed; /* the number of the one that is to end */

static void turn_doomed(struct zkl__store *store)
{
    if (store->number == atomic_load(&doomed)) {
        const struct zkl__reply unknown = {.rc = ZKL__RC_UNKNOWN};
        store->events->expired(store->ctx, ZKL__END_EXPIRED);
        (void)EVENTUALLY(atomic_load(&store->closing));
        store->events->reply(store->ctx, atomic_load(&store->ops[0].id), &unknown);
    } else if (atomic_load(&store->answered) < atomic_load(&store->asked)) {
        thread_store_answer(store, ZKL__RC_OK);
    }
    look_again(0);
}

TEST(test_replies_after_the_end)
{
    zkl_session *session = open_with(turn_doomed);
    atomic_store(&doomed, 1);
    ASSERT_EVENTUALLY_FATAL(zkl_session_id(session) == 2); /* else close would not end either */
    ASSERT_OK(zkl_session_close(session, SOON));
}

static void on_closed(int code, const zkl_error *err, void *payload)
{
    ASSERT_OK(code);
    (void)err;
    atomic_store((atomic_bool *)payload, true);
}

/* The session is closed, without waiting, while its next store is being opened: that one is closed as well. */
TEST(test_closed_while_it_opens)
{
    atomic_bool done = false;
    atomic_store(&doomed, 0);
    zkl_session *session = open_with(turn_doomed);
    atomic_store(&slow_to_open, true);
    atomic_store(&doomed, atomic_load(&opened));
    ASSERT_EVENTUALLY(atomic_load(&opening));
    ASSERT_OK(zkl_session_close_async(session, SOON, on_closed, &done, NULL));
    CU_ASSERT_FALSE(atomic_load(&done));
    atomic_store(&slow_to_open, false);
    ASSERT_EVENTUALLY(atomic_load(&done));
    CU_ASSERT_EQUAL(atomic_load(&closed), atomic_load(&opened));
}

TESTS("put_off")
