/* Sessions of the in-process store while all is well: order, threads, watches. */
#include "check.h"
#include "memory.h"
#include "store_expect.h"
#include "test_heap.h"

#include <time.h>

#define PLACE "memory:session"

static struct client one, two;

static void set_up(void)
{
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&one, PLACE), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&two, PLACE), ZKL_OK);
}

static void tear_down(void)
{
    CU_ASSERT_EQUAL(one.overlaps + two.overlaps, 0);
    client_close(&one);
    client_close(&two);
}

/* --- watches ------------------------------------------------------------------------------------------------------- */

static void test_data_watches(void)
{
    set_up();
    rc_of(&one, op_create("/a", "", ZKL__PERSISTENT));
    rc_of(&one, op_read(ZKL__OP_GET, "/a", true));
    rc_of(&one, op_read(ZKL__OP_EXISTS, "/a", true)); /* the same table: still told once */
    drain(&one);
    rc_of(&two, op_set("/a", "x", -1));
    rc_of(&two, op_set("/a", "y", -1));
    expect_watch(&one, ZKL__WATCH_CHANGED, "/a");
    drain(&one);
    rc_of(&one, op_read(ZKL__OP_GET, "/a", true));
    drain(&one);
    rc_of(&two, op_delete("/a", -1));
    expect_watch(&one, ZKL__WATCH_DELETED, "/a");
    CU_ASSERT_EQUAL(rc_of(&one, op_read(ZKL__OP_GET, "/a", true)), ZKL__RC_NONODE); /* sets no watch */
    CU_ASSERT_EQUAL(rc_of(&one, op_read(ZKL__OP_UNWATCH, "/a", false)), ZKL__RC_NOWATCH);
    CU_ASSERT_EQUAL(rc_of(&one, op_read(ZKL__OP_EXISTS, "/a", true)), ZKL__RC_NONODE); /* does */
    drain(&one);
    rc_of(&two, op_create("/a", "", ZKL__PERSISTENT));
    expect_watch(&one, ZKL__WATCH_CREATED, "/a");
    rc_of(&two, op_delete("/a", -1));
    drain(&one);
    tear_down();
}

static void test_child_watches(void)
{
    set_up();
    rc_of(&one, op_create("/d", "", ZKL__PERSISTENT));
    rc_of(&one, op_read(ZKL__OP_CHILDREN, "/d", true));
    drain(&one);
    rc_of(&two, op_set("/d", "x", -1)); /* not of the children */
    rc_of(&two, op_create("/d/a", "", ZKL__PERSISTENT));
    expect_watch(&one, ZKL__WATCH_CHILDREN, "/d");
    rc_of(&one, op_read(ZKL__OP_CHILDREN, "/d", true));
    rc_of(&one, op_read(ZKL__OP_CHILDREN, "/", true));
    drain(&one);
    rc_of(&two, op_delete("/d/a", -1));
    expect_watch(&one, ZKL__WATCH_CHILDREN, "/d");
    /* Data and children watched: the end of the node is told once, then what it means to the parent. */
    rc_of(&one, op_read(ZKL__OP_CHILDREN, "/d", true));
    rc_of(&one, op_read(ZKL__OP_GET, "/d", true));
    drain(&one);
    rc_of(&two, op_delete("/d", -1));
    expect_watch(&one, ZKL__WATCH_DELETED, "/d");
    expect_watch(&one, ZKL__WATCH_CHILDREN, "/");
    drain(&one);
    tear_down();
}

static void test_unwatch(void)
{
    set_up();
    rc_of(&one, op_create("/a", "", ZKL__PERSISTENT));
    CU_ASSERT_EQUAL(rc_of(&one, op_read(ZKL__OP_UNWATCH, "/a", false)), ZKL__RC_NOWATCH);
    rc_of(&one, op_read(ZKL__OP_GET, "/a", true));
    rc_of(&one, op_read(ZKL__OP_CHILDREN, "/a", true));
    rc_of(&two, op_read(ZKL__OP_GET, "/a", true));
    CU_ASSERT_EQUAL(rc_of(&one, op_read(ZKL__OP_UNWATCH, "/a", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(&one, op_read(ZKL__OP_UNWATCH, "/a", false)), ZKL__RC_NOWATCH);
    drain(&one);
    drain(&two);
    rc_of(&two, op_delete("/a", -1));
    expect_watch(&two, ZKL__WATCH_DELETED, "/a"); /* another's stays */
    drain(&one);
    CU_ASSERT_EQUAL(one.told[one.count - 1]->kind, TOLD_REPLY);
    tear_down();
}

/* Point 2: told before any reply that shows the new state, to the writer itself, too. */
static void test_watch_before_reply(void)
{
    set_up();
    rc_of(&one, op_create("/a", "", ZKL__PERSISTENT));
    rc_of(&one, op_read(ZKL__OP_GET, "/a", true));
    drain(&one);
    uint64_t set = send_op(&one, op_set("/a", "x", -1));
    expect_watch(&one, ZKL__WATCH_CHANGED, "/a");
    expect_reply(&one, set, ZKL__RC_OK);
    uint64_t get = send_op(&one, op_read(ZKL__OP_GET, "/a", true));
    expect_reply(&one, get, ZKL__RC_OK);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, true), ZKL_OK);
    rc_of(&two, op_delete("/a", -1));
    get = send_op(&one, op_read(ZKL__OP_GET, "/a", false));
    CU_ASSERT_TRUE(client_quiet(&one));
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, false), ZKL_OK);
    expect_watch(&one, ZKL__WATCH_DELETED, "/a");
    expect_reply(&one, get, ZKL__RC_NONODE);
    tear_down();
}

/* --- order and threads --------------------------------------------------------------------------------------------- */

/* Points 1 and 2: many operations under way, answered in order, a list behind a create shows what it made. */
static void test_pipelined(void)
{
    enum { PAIRS = 2000 };
    set_up();
    rc_of(&one, op_create("/q", "", ZKL__PERSISTENT));
    drain(&one);
    for (int i = 0; i < PAIRS; i++) {
        CU_ASSERT_NOT_EQUAL_FATAL(send_op(&one, op_create("/q/n-", "", ZKL__EPHEMERAL_SEQUENTIAL)), 0);
        CU_ASSERT_NOT_EQUAL_FATAL(send_op(&one, op_read(ZKL__OP_EXISTS, "/q", false)), 0);
    }
    uint64_t id = one.ids - 2 * PAIRS;
    for (int32_t i = 1; i <= PAIRS; i++) {
        expect_reply(&one, ++id, ZKL__RC_OK);
        const struct told *shown = client_next(&one);
        CU_ASSERT_PTR_NOT_NULL_FATAL(shown);
        CU_ASSERT_EQUAL(shown->id, ++id);
        CU_ASSERT_EQUAL(shown->reply.stat.child_count, i);
    }
    tear_down();
}

static void test_limit(void)
{
    int code = ZKL_OK;
    set_up();
    struct zkl__op op = op_read(ZKL__OP_SYNC, "/", false);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, true), ZKL_OK);
    for (size_t i = 0; i < one.ops->ops_max; i++) {
        client_send(&one, &op, &code);
        CU_ASSERT_EQUAL_FATAL(code, ZKL_OK);
    }
    CU_ASSERT_EQUAL(client_send(&one, &op, &code), 0);
    CU_ASSERT_EQUAL(code, ZKL_ELIMIT);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, false), ZKL_OK);
    CU_ASSERT_PTR_NOT_NULL(client_reply(&one, one.ops->ops_max));
    CU_ASSERT_EQUAL(rc_of(&one, op), ZKL__RC_OK);
    tear_down();
}

static void *submit_many(void *arg)
{
    struct client *client = arg;
    for (uint64_t i = 0; i < 500; i++) {
        struct zkl__op op = op_create("/q/n-", "", ZKL__EPHEMERAL_SEQUENTIAL);
        (void)client->ops->submit(client->store, 1000 + i, &op);
        op = op_read(ZKL__OP_CHILDREN, "/q", true);
        (void)client->ops->submit(client->store, 2000 + i, &op);
    }
    return NULL;
}

/* Two sessions write and watch one directory from two threads while a third session is opened, expired, closed. */
static void test_busy(void)
{
    pthread_t threads[2];
    set_up();
    rc_of(&one, op_create("/q", "", ZKL__PERSISTENT));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[0], NULL, submit_many, &one), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[1], NULL, submit_many, &two), 0);
    for (int i = 0; i < 20; i++) {
        struct client third;
        CU_ASSERT_EQUAL_FATAL(client_open_plain(&third, PLACE), ZKL_OK);
        rc_of(&third, op_create("/q/third", "", ZKL__EPHEMERAL));
        send_op(&third, op_read(ZKL__OP_CHILDREN, "/q", true));
        if (i % 2) {
            zkl__memory_expire(third.session_id);
        }
        client_close(&third);
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CU_ASSERT_PTR_NOT_NULL(client_reply(&one, 2499));
    CU_ASSERT_PTR_NOT_NULL(client_reply(&two, 2499));
    struct zkl__op list = op_read(ZKL__OP_EXISTS, "/q", false);
    CU_ASSERT_EQUAL(client_call(&one, &list)->stat.child_count, 1000);
    tear_down();
}

/* --- event functions ----------------------------------------------------------------------------------------------- */

/* Point 1: they are called on a thread of the store's own and may submit. Each answer asks for the next, down to zero. */
struct chain {
    struct zkl__store *store;
    pthread_t opener;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int left;
    int on_opener; /* how many were called on the opener's own thread */
};

static void chain_next(struct chain *chain)
{
    struct zkl__op op = op_read(ZKL__OP_EXISTS, "/", false);
    pthread_mutex_lock(&chain->mutex);
    chain->on_opener += pthread_equal(chain->opener, pthread_self()) != 0;
    if (--chain->left == 0) {
        pthread_cond_signal(&chain->cond);
    } else {
        zkl__store_memory.submit(chain->store, 1, &op);
    }
    pthread_mutex_unlock(&chain->mutex);
}

static void chain_connected(void *ctx, const struct zkl__connection *connection)
{
    (void)connection;
    chain_next(ctx);
}

static void chain_reply(void *ctx, uint64_t id, const struct zkl__reply *reply)
{
    (void)id, (void)reply;
    chain_next(ctx);
}

static void test_submit_from_events(void)
{
    struct chain chain = {.opener = pthread_self(), .left = 1000};
    const struct zkl__store_events events = {.connected = chain_connected, .reply = chain_reply};
    struct test_heap heap = TEST_HEAP_INIT;
    const struct zkl__store_config config = {.servers = PLACE, .heap = test_heap(&heap)};
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_init(&chain.mutex, NULL);
    pthread_cond_init(&chain.cond, NULL);
    pthread_mutex_lock(&chain.mutex);
    CU_ASSERT_EQUAL_FATAL(zkl__store_memory.open(&chain.store, &config, &events, &chain, NULL), ZKL_OK);
    while (chain.left > 0 && pthread_cond_timedwait(&chain.cond, &chain.mutex, &until) == 0) {
    }
    CU_ASSERT_EQUAL(chain.left, 0);
    CU_ASSERT_EQUAL(chain.on_opener, 0);
    pthread_mutex_unlock(&chain.mutex);
    CU_ASSERT_EQUAL(zkl__store_memory.close(chain.store, 0), ZKL_OK);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
    pthread_cond_destroy(&chain.cond);
    pthread_mutex_destroy(&chain.mutex);
}

TESTS("memory sessions", T(test_data_watches), T(test_child_watches), T(test_unwatch), T(test_watch_before_reply),
      T(test_pipelined), T(test_limit), T(test_busy), T(test_submit_from_events))
