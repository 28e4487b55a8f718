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
    client_close(&one);
    client_close(&two);
}

/* --- watches ------------------------------------------------------------------------------------------------------- */

static void test_data_watches(void)
{
    set_up();
    client_rc(&one, op_create("/a", "", ZKL__PERSISTENT));
    client_rc(&one, op_read(ZKL__OP_GET, "/a", true));
    client_rc(&one, op_read(ZKL__OP_EXISTS, "/a", true)); /* the same table: still told once */
    client_drain(&one);
    client_rc(&two, op_set("/a", "x", -1));
    client_rc(&two, op_set("/a", "y", -1));
    expect_watch(&one, ZKL__WATCH_CHANGED, "/a");
    client_drain(&one);
    client_rc(&one, op_read(ZKL__OP_GET, "/a", true));
    client_drain(&one);
    client_rc(&two, op_delete("/a", -1));
    expect_watch(&one, ZKL__WATCH_DELETED, "/a");
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_GET, "/a", true)), ZKL__RC_NONODE); /* sets no watch */
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_UNWATCH, "/a", false)), ZKL__RC_NOWATCH);
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_EXISTS, "/a", true)), ZKL__RC_NONODE); /* does */
    client_drain(&one);
    client_rc(&two, op_create("/a", "", ZKL__PERSISTENT));
    expect_watch(&one, ZKL__WATCH_CREATED, "/a");
    client_rc(&two, op_delete("/a", -1));
    client_drain(&one);
    tear_down();
}

static void test_child_watches(void)
{
    set_up();
    client_rc(&one, op_create("/d", "", ZKL__PERSISTENT));
    client_rc(&one, op_read(ZKL__OP_CHILDREN, "/d", true));
    client_drain(&one);
    client_rc(&two, op_set("/d", "x", -1)); /* not of the children */
    client_rc(&two, op_create("/d/a", "", ZKL__PERSISTENT));
    expect_watch(&one, ZKL__WATCH_CHILDREN, "/d");
    client_rc(&one, op_read(ZKL__OP_CHILDREN, "/d", true));
    client_rc(&one, op_read(ZKL__OP_CHILDREN, "/", true));
    client_drain(&one);
    client_rc(&two, op_delete("/d/a", -1));
    expect_watch(&one, ZKL__WATCH_CHILDREN, "/d");
    /* Data and children watched: the end of the node is told once, then what it means to the parent. */
    client_rc(&one, op_read(ZKL__OP_CHILDREN, "/d", true));
    client_rc(&one, op_read(ZKL__OP_GET, "/d", true));
    client_drain(&one);
    client_rc(&two, op_delete("/d", -1));
    expect_watch(&one, ZKL__WATCH_DELETED, "/d");
    expect_watch(&one, ZKL__WATCH_CHILDREN, "/");
    client_drain(&one);
    tear_down();
}

/* The server keeps to itself what happens to a node that may not be read, and uses the watch up all the same. */
static void test_unreadable_watch(void)
{
    const zkl_acl_entry no_read = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
    const zkl_acl blind = {1, &no_read};
    struct zkl__op create = op_create("/b", "", ZKL__PERSISTENT);
    create.acl = &blind;
    set_up();
    client_rc(&one, op_read(ZKL__OP_EXISTS, "/b", true));
    CU_ASSERT_EQUAL(client_rc(&two, create), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_UNWATCH, "/b", false)), ZKL__RC_NOWATCH);
    client_rc(&one, op_read(ZKL__OP_EXISTS, "/b", true));
    CU_ASSERT_EQUAL(client_rc(&two, op_delete("/b", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_UNWATCH, "/b", false)), ZKL__RC_NOWATCH);
    CU_ASSERT_EQUAL(recorder_count(one.recorder, RECORD_WATCH), 0);
    tear_down();
}

/* Before that rule it told, and since another one it does not even say that the node is there. */
static void test_unreadable_by_other_rules(void)
{
    const zkl_acl_entry no_read = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
    const zkl_acl blind = {1, &no_read};
    struct zkl__op create = op_create("/b", "", ZKL__PERSISTENT);
    create.acl = &blind;
    set_up();
    CU_ASSERT_EQUAL(zkl__memory_set_rules("no such tree", ZKL__RULES_NOTHING_NEEDS_READ), ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl__memory_set_rules("session", ZKL__RULES_NOTHING_NEEDS_READ), ZKL_OK);
    client_rc(&one, op_read(ZKL__OP_EXISTS, "/b", true));
    client_drain(&one);
    CU_ASSERT_EQUAL(client_rc(&two, create), ZKL__RC_OK);
    expect_watch(&one, ZKL__WATCH_CREATED, "/b");
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_EXISTS, "/b", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(zkl__memory_set_rules("session", ZKL__RULES_EXISTS_NEEDS_READ), ZKL_OK);
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_EXISTS, "/b", false)), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(client_rc(&two, op_delete("/b", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_EXISTS, "/b", false)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(recorder_count(one.recorder, RECORD_WATCH), 1);
    tear_down();
}

static void test_unwatch(void)
{
    set_up();
    client_rc(&one, op_create("/a", "", ZKL__PERSISTENT));
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_UNWATCH, "/a", false)), ZKL__RC_NOWATCH);
    client_rc(&one, op_read(ZKL__OP_GET, "/a", true));
    client_rc(&one, op_read(ZKL__OP_CHILDREN, "/a", true));
    client_rc(&two, op_read(ZKL__OP_GET, "/a", true));
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_UNWATCH, "/a", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_UNWATCH, "/a", false)), ZKL__RC_NOWATCH);
    client_drain(&one);
    client_drain(&two);
    client_rc(&two, op_delete("/a", -1));
    expect_watch(&two, ZKL__WATCH_DELETED, "/a"); /* another's stays */
    client_drain(&one);
    CU_ASSERT_EQUAL(recorder_count(one.recorder, RECORD_WATCH), 0);
    tear_down();
}

/* Point 2: told before any reply that shows the new state, to the writer itself, too. */
static void test_watch_before_reply(void)
{
    set_up();
    client_rc(&one, op_create("/a", "", ZKL__PERSISTENT));
    client_rc(&one, op_read(ZKL__OP_GET, "/a", true));
    client_drain(&one);
    uint64_t set = client_send(&one, op_set("/a", "x", -1));
    expect_watch(&one, ZKL__WATCH_CHANGED, "/a");
    expect_reply(&one, set, ZKL__RC_OK);
    uint64_t get = client_send(&one, op_read(ZKL__OP_GET, "/a", true));
    expect_reply(&one, get, ZKL__RC_OK);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, true), ZKL_OK);
    client_rc(&two, op_delete("/a", -1));
    get = client_send(&one, op_read(ZKL__OP_GET, "/a", false));
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
    client_rc(&one, op_create("/q", "", ZKL__PERSISTENT));
    client_drain(&one);
    uint64_t id = 0;
    for (int i = 0; i < PAIRS; i++) {
        uint64_t made = client_send(&one, op_create("/q/n-", "", ZKL__EPHEMERAL_SEQUENTIAL));
        CU_ASSERT_NOT_EQUAL_FATAL(made, 0);
        CU_ASSERT_EQUAL_FATAL(client_send(&one, op_read(ZKL__OP_EXISTS, "/q", false)), made + 1);
        id = id == 0 ? made : id;
    }
    for (int32_t i = 1; i <= PAIRS; i++) {
        expect_reply(&one, id++, ZKL__RC_OK);
        const struct record *shown = client_next(&one);
        CU_ASSERT_PTR_NOT_NULL_FATAL(shown);
        CU_ASSERT_EQUAL(shown->id, id++);
        CU_ASSERT_EQUAL(shown->reply.stat.child_count, i);
    }
    tear_down();
}

static void test_limit(void)
{
    struct zkl__op op = op_read(ZKL__OP_SYNC, "/", false);
    set_up();
    client_drain(&one);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, true), ZKL_OK);
    for (size_t i = 0; i < zkl__store_memory.ops_max; i++) {
        CU_ASSERT_EQUAL_FATAL(client_try(&one, op), ZKL_OK);
    }
    CU_ASSERT_EQUAL(client_try(&one, op), ZKL_ELIMIT);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, false), ZKL_OK);
    CU_ASSERT_PTR_NOT_NULL(recorder_at(one.recorder, one.seen + zkl__store_memory.ops_max - 1, 10000));
    CU_ASSERT_EQUAL(client_rc(&one, op), ZKL__RC_OK);
    tear_down();
}

static void *submit_many(void *arg)
{
    struct client *client = arg;
    for (int i = 0; i < 500; i++) {
        client_send(client, op_create("/q/n-", "", ZKL__EPHEMERAL_SEQUENTIAL));
        client_send(client, op_read(ZKL__OP_CHILDREN, "/q", true));
    }
    return NULL;
}

/* Two sessions write and watch one directory from two threads while a third session is opened, expired, closed. */
static void test_busy(void)
{
    pthread_t threads[2];
    set_up();
    client_rc(&one, op_create("/q", "", ZKL__PERSISTENT));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[0], NULL, submit_many, &one), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[1], NULL, submit_many, &two), 0);
    for (int i = 0; i < 20; i++) {
        struct client third;
        CU_ASSERT_EQUAL_FATAL(client_open_plain(&third, PLACE), ZKL_OK);
        client_rc(&third, op_create("/q/third", "", ZKL__EPHEMERAL));
        client_send(&third, op_read(ZKL__OP_CHILDREN, "/q", true));
        if (i % 2) {
            zkl__memory_expire(third.session_id);
        }
        client_close(&third);
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    client_drain(&two);
    CU_ASSERT_EQUAL(client_call(&one, op_read(ZKL__OP_EXISTS, "/q", false))->stat.child_count, 1000);
    tear_down();
}

/* --- event functions ----------------------------------------------------------------------------------------------- */

/* Point 1: they are called one at a time, on a thread of the store's own, and may submit. Each answer asks for the next, down to zero. */
struct chain {
    struct zkl__store *store;
    pthread_t opener;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int left;
    bool inside;
    int overlaps;  /* how many were called while another was */
    int on_opener; /* how many were called on the opener's own thread */
};

static void chain_next(struct chain *chain)
{
    struct zkl__op op = op_read(ZKL__OP_EXISTS, "/", false);
    pthread_mutex_lock(&chain->mutex);
    chain->overlaps += chain->inside;
    chain->inside = true;
    pthread_mutex_unlock(&chain->mutex);
    pthread_mutex_lock(&chain->mutex);
    chain->inside = false;
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
    CU_ASSERT_EQUAL(chain.overlaps, 0);
    pthread_mutex_unlock(&chain.mutex);
    CU_ASSERT_EQUAL(zkl__store_memory.close(chain.store, 0), ZKL_OK);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
    pthread_cond_destroy(&chain.cond);
    pthread_mutex_destroy(&chain.mutex);
}

TESTS("memory sessions", T(test_data_watches), T(test_child_watches), T(test_unreadable_watch),
      T(test_unreadable_by_other_rules), T(test_unwatch), T(test_watch_before_reply), T(test_pipelined), T(test_limit),
      T(test_busy), T(test_submit_from_events))
