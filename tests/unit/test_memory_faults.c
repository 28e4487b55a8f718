/* The in-process store when things go wrong: lost connections, ended sessions, strangers, no memory. */
#include "check.h"
#include "memory.h"
#include "store_expect.h"
#include "test_heap.h"

#include <string.h>

#define PLACE "memory:faults"

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

/* --- lost connections ---------------------------------------------------------------------------------------------- */

/* Point 3: suspended, then a reply for each operation outstanding, then connected. What was held had been applied. */
static void test_suspend(void)
{
    set_up();
    client_drain(&one);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, true), ZKL_OK);
    uint64_t make = client_send(&one, op_create("/a", "", ZKL__EPHEMERAL));
    uint64_t list = client_send(&one, op_read(ZKL__OP_CHILDREN, "/", true));
    CU_ASSERT_EQUAL(zkl__memory_suspend(one.session_id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_suspend(one.session_id), ZKL_EINVAL);
    expect(&one, RECORD_SUSPENDED);
    expect_reply(&one, make, ZKL__RC_UNKNOWN);
    expect_reply(&one, list, ZKL__RC_UNKNOWN);
    struct zkl__op get = op_read(ZKL__OP_GET, "/a", false);
    CU_ASSERT_EQUAL(client_try(&one, get), ZKL_ECONNECT);
    CU_ASSERT_EQUAL(client_rc(&two, get), ZKL__RC_OK); /* applied; and the session lives */
    CU_ASSERT_EQUAL(zkl__memory_resume(one.session_id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_resume(one.session_id), ZKL_EINVAL);
    const struct record *again = client_next(&one);
    CU_ASSERT_EQUAL(again->kind, RECORD_CONNECTED);
    CU_ASSERT_EQUAL(again->connection.session_id, one.session_id);
    CU_ASSERT_FALSE(again->connection.fresh);
    CU_ASSERT_EQUAL(again->connection.timeout_ms, 6000);
    client_rc(&two, op_create("/b", "", ZKL__EPHEMERAL)); /* the list's watch went with its reply */
    client_drain(&one);
    CU_ASSERT_EQUAL(recorder_count(one.recorder, RECORD_WATCH), 0);
    tear_down();
}

/* The plan of a break: two answered, one applied without an answer, one that never arrives. */
static void test_break(void)
{
    set_up();
    client_drain(&one);
    CU_ASSERT_EQUAL(zkl__memory_break(one.session_id, 2, 1, 1), ZKL_OK);
    uint64_t first = client_send(&one, op_create("/a", "", ZKL__EPHEMERAL));
    uint64_t second = client_send(&one, op_read(ZKL__OP_GET, "/a", true));
    uint64_t third = client_send(&one, op_create("/b", "", ZKL__EPHEMERAL));
    client_rc(&two, op_set("/a", "x", -1)); /* its event is lost with the connection, not for ever */
    uint64_t fourth = client_send(&one, op_create("/c", "", ZKL__EPHEMERAL));
    expect_reply(&one, first, ZKL__RC_OK);
    expect_reply(&one, second, ZKL__RC_OK);
    expect(&one, RECORD_SUSPENDED);
    expect_reply(&one, third, ZKL__RC_UNKNOWN);
    expect_reply(&one, fourth, ZKL__RC_UNKNOWN);
    CU_ASSERT_EQUAL(client_rc(&two, op_read(ZKL__OP_GET, "/b", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_rc(&two, op_read(ZKL__OP_GET, "/c", false)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(zkl__memory_resume(one.session_id), ZKL_OK);
    expect(&one, RECORD_CONNECTED);
    expect_watch(&one, ZKL__WATCH_CHANGED, "/a");
    client_drain(&one);
    CU_ASSERT_EQUAL(zkl__memory_break(one.session_id, 1, 0, 0), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_break(one.session_id, 0, 0, 0), ZKL_OK); /* taken back */
    client_drain(&one);
    CU_ASSERT_EQUAL(zkl__memory_break(one.session_id, 1, 0, 0), ZKL_OK);
    client_drain(&one);
    expect(&one, RECORD_SUSPENDED);
    tear_down();
}

/* Point 4, as DataTree.setWatches has it. */
static void test_watches_outlive_a_reconnect(void)
{
    static const char *const paths[] = {"/same", "/set", "/gone", "/again", "/dir"};
    set_up();
    for (size_t i = 0; i < 5; i++) {
        client_rc(&two, op_create(paths[i], "", ZKL__PERSISTENT));
        client_rc(&one, op_read(ZKL__OP_GET, paths[i], true));
    }
    client_rc(&one, op_read(ZKL__OP_CHILDREN, "/dir", true));
    client_rc(&one, op_read(ZKL__OP_CHILDREN, "/gone", true));
    client_rc(&one, op_read(ZKL__OP_EXISTS, "/new", true));
    client_rc(&one, op_read(ZKL__OP_EXISTS, "/brief", true));
    client_drain(&one);
    CU_ASSERT_EQUAL(zkl__memory_suspend(one.session_id), ZKL_OK);
    client_rc(&two, op_set("/set", "x", -1));
    client_rc(&two, op_delete("/gone", -1));
    client_rc(&two, op_delete("/again", -1));
    client_rc(&two, op_create("/again", "", ZKL__PERSISTENT));
    client_rc(&two, op_create("/dir/child", "", ZKL__PERSISTENT));
    client_rc(&two, op_create("/new", "", ZKL__PERSISTENT));
    client_rc(&two, op_create("/brief", "", ZKL__PERSISTENT));
    client_rc(&two, op_delete("/brief", -1));
    expect(&one, RECORD_SUSPENDED);
    CU_ASSERT_TRUE(client_quiet(&one));
    CU_ASSERT_EQUAL(zkl__memory_resume(one.session_id), ZKL_OK);
    expect(&one, RECORD_CONNECTED);
    size_t from = one.seen;
    client_drain(&one);
    static const struct {
        enum zkl__watch_event event;
        const char *path;
    } wanted[] = {{ZKL__WATCH_CHANGED, "/set"},
                  {ZKL__WATCH_DELETED, "/gone"},
                  {ZKL__WATCH_CHANGED, "/again"}, /* deleted and made again: the server cannot tell */
                  {ZKL__WATCH_CHILDREN, "/dir"},
                  {ZKL__WATCH_CREATED, "/new"}};
    CU_ASSERT_EQUAL(one.seen - from, 5 + 1); /* each once, and the drain's reply */
    for (size_t i = 0; i < 5; i++) {
        size_t found = 0;
        for (size_t k = from; k < one.seen; k++) {
            const struct record *told = recorder_at(one.recorder, k, 0);
            found +=
                told->kind == RECORD_WATCH && told->watch == wanted[i].event && strcmp(told->path, wanted[i].path) == 0;
        }
        CU_ASSERT_EQUAL(found, 1);
    }
    client_rc(&two, op_set("/same", "x", -1)); /* what did not change is watched on */
    client_rc(&two, op_create("/brief", "", ZKL__PERSISTENT));
    client_rc(&two, op_set("/dir", "", -1));
    expect_watch(&one, ZKL__WATCH_CHANGED, "/same");
    expect_watch(&one, ZKL__WATCH_CREATED, "/brief");
    expect_watch(&one, ZKL__WATCH_CHANGED, "/dir");
    tear_down();
}

/* A watch that fired but was not told when the connection went is told after the reconnect. */
static void test_untold_watch_comes_back(void)
{
    set_up();
    client_rc(&two, op_create("/a", "", ZKL__PERSISTENT));
    client_rc(&one, op_read(ZKL__OP_GET, "/a", true));
    client_drain(&one);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, true), ZKL_OK);
    client_rc(&two, op_delete("/a", -1));
    CU_ASSERT_EQUAL(zkl__memory_suspend(one.session_id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_resume(one.session_id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_suspend(one.session_id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_resume(one.session_id), ZKL_OK);
    client_drain(&one);
    CU_ASSERT_EQUAL(recorder_count(one.recorder, RECORD_WATCH), 1);
    tear_down();
}

/* --- the end of a session ------------------------------------------------------------------------------------------ */

/* Point 5. */
static void test_expire(void)
{
    set_up();
    client_rc(&one, op_create("/e", "", ZKL__EPHEMERAL));
    client_rc(&two, op_read(ZKL__OP_GET, "/e", true));
    client_rc(&one, op_read(ZKL__OP_GET, "/", true));
    client_drain(&one);
    client_drain(&two);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, true), ZKL_OK);
    uint64_t get = client_send(&one, op_read(ZKL__OP_GET, "/e", false));
    CU_ASSERT_EQUAL(zkl__memory_expire(one.session_id), ZKL_OK);
    expect_watch(&two, ZKL__WATCH_DELETED, "/e");
    expect(&one, RECORD_SUSPENDED);
    expect_reply(&one, get, ZKL__RC_UNKNOWN);
    const struct record *end = client_next(&one);
    CU_ASSERT_EQUAL(end->kind, RECORD_EXPIRED);
    CU_ASSERT_EQUAL(end->end, ZKL__END_EXPIRED);
    struct zkl__op op = op_set("/", "", -1);
    CU_ASSERT_EQUAL(client_try(&one, op), ZKL_ECONNECT);
    client_rc(&two, op);
    CU_ASSERT_TRUE(client_quiet(&one));
    CU_ASSERT_EQUAL(zkl__memory_expire(one.session_id), ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl__memory_suspend(one.session_id), ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl__memory_resume(one.session_id), ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, true), ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl__memory_break(one.session_id, 1, 1, 1), ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl__memory_suspend(12345), ZKL_ENOENT);
    tear_down();
}

/* A session that ends while suspended: others see it at once, its client at the reconnect. */
static void test_expire_while_suspended(void)
{
    set_up();
    client_rc(&one, op_create("/e", "", ZKL__EPHEMERAL));
    client_rc(&one, op_read(ZKL__OP_GET, "/e", true));
    client_drain(&one);
    CU_ASSERT_EQUAL(zkl__memory_suspend(one.session_id), ZKL_OK);
    expect(&one, RECORD_SUSPENDED);
    CU_ASSERT_EQUAL(zkl__memory_expire(one.session_id), ZKL_OK);
    CU_ASSERT_EQUAL(client_rc(&two, op_read(ZKL__OP_EXISTS, "/e", false)), ZKL__RC_NONODE);
    CU_ASSERT_TRUE(client_quiet(&one));
    CU_ASSERT_EQUAL(zkl__memory_resume(one.session_id), ZKL_OK);
    expect(&one, RECORD_EXPIRED);
    tear_down();
}

static void test_unknown_scheme(void)
{
    struct client odd;
    struct zkl__store_config config = {.servers = PLACE, .auth_scheme = "kerberos", .auth = "x", .auth_size = 1};
    CU_ASSERT_EQUAL_FATAL(client_open(&odd, &config), ZKL_OK);
    const struct record *end = client_next(&odd);
    CU_ASSERT_EQUAL(end->kind, RECORD_EXPIRED);
    CU_ASSERT_EQUAL(end->end, ZKL__END_AUTH);
    struct zkl__op op = op_read(ZKL__OP_GET, "/", false);
    CU_ASSERT_EQUAL(client_try(&odd, op), ZKL_ECONNECT);
    CU_ASSERT_EQUAL(client_close(&odd), ZKL_OK);
}

/* Point 6: close with replies under way, held, suspended, after the end. */
static void test_close(void)
{
    struct client third;
    set_up();
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&third, PLACE), ZKL_OK);
    for (int i = 0; i < 100; i++) {
        client_send(&third, op_create("/n-", "", ZKL__EPHEMERAL_SEQUENTIAL));
        client_send(&third, op_read(ZKL__OP_CHILDREN, "/", true));
    }
    CU_ASSERT_EQUAL(zkl__memory_hold(third.session_id, true), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_break(third.session_id, 0, 5, 5), ZKL_OK);
    client_send(&third, op_read(ZKL__OP_CHILDREN, "/", true));
    CU_ASSERT_EQUAL(client_close(&third), ZKL_OK);
    struct zkl__op list = op_read(ZKL__OP_CHILDREN, "/", false);
    CU_ASSERT_EQUAL(client_call(&two, list)->child_count, 1);
    client_rc(&one, op_create("/e", "", ZKL__EPHEMERAL));
    client_rc(&one, op_read(ZKL__OP_GET, "/e", true));
    zkl__memory_suspend(one.session_id);
    CU_ASSERT_EQUAL(client_close(&one), ZKL_ECONNECT); /* no server was told; the memory of it ends all the same */
    CU_ASSERT_EQUAL(client_rc(&two, op_read(ZKL__OP_EXISTS, "/e", false)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(zkl__memory_expire(two.session_id), ZKL_OK);
    CU_ASSERT_EQUAL(client_close(&two), ZKL_OK);
}

static void test_stranger(void)
{
    enum zkl__rc rc = ZKL__RC_UNKNOWN;
    set_up();
    client_rc(&one, op_create("/e", "", ZKL__EPHEMERAL));
    client_rc(&one, op_read(ZKL__OP_GET, "/e", true));
    client_drain(&one);
    struct zkl__op set = op_set("/e", "__REVOKE__", -1), gone = op_delete("/e", -1);
    CU_ASSERT_EQUAL(zkl__memory_meddle("faults", &set, &rc), ZKL_OK);
    CU_ASSERT_EQUAL(rc, ZKL__RC_OK);
    expect_watch(&one, ZKL__WATCH_CHANGED, "/e");
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &gone, &rc), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &gone, &rc), ZKL_OK);
    CU_ASSERT_EQUAL(rc, ZKL__RC_NONODE);
    struct zkl__op ephemeral = op_create("/x", "", ZKL__EPHEMERAL), read = op_read(ZKL__OP_GET, "/", false);
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &ephemeral, &rc), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &read, &rc), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl__memory_meddle("nobody", &gone, &rc), ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl__memory_set_counter(PLACE, "/none", 1), ZKL_ENOENT);
    tear_down();
}

/* --- no memory ----------------------------------------------------------------------------------------------------- */

static struct test_heap heap = TEST_HEAP_INIT;

static const zkl_acl_entry creator = {ZKL_PERM_ALL, "auth", ""};
static const zkl_acl creator_acl = {1, &creator};

static struct zkl__store_config scarce(void)
{
    return (struct zkl__store_config){.servers = "memory:scarce",
                                      .timeout_ms = 1000,
                                      .auth_scheme = "digest",
                                      .auth = "a:b",
                                      .auth_size = 3,
                                      .acl = &creator_acl,
                                      .heap = test_heap(&heap)};
}

static void open_without_memory(const char *seal)
{
    long nth = 0;
    int code;
    do {
        struct client client;
        struct zkl__store_config config = scarce();
        config.auth_scheme = seal ? NULL : config.auth_scheme;
        config.seal = seal;
        test_heap_fail(&heap, ++nth, false);
        code = client_open(&client, &config);
        CU_ASSERT_TRUE(code == ZKL_OK || code == ZKL_ENOMEM);
        test_heap_fail(&heap, 0, false);
        if (code == ZKL_OK) {
            client_close(&client);
        }
        CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
    } while (code != ZKL_OK && nth < 100);
    CU_ASSERT_TRUE(nth > 5);
}

static void test_open_without_memory(void)
{
    open_without_memory(NULL);
    open_without_memory("a:b");
}

/* What a client can see of the tree, as one number that a change alters. */
static int64_t look(struct client *client)
{
    static const char *const paths[] = {"/", "/q", "/q/a"};
    int64_t sum = 0;
    for (size_t i = 0; i < 3; i++) {
        struct zkl__op get = op_read(ZKL__OP_GET, paths[i], false);
        const struct zkl__reply *reply = client_call(client, get);
        const struct zkl__stat *stat = &reply->stat;
        sum = sum * 31 + (int64_t)reply->rc + stat->version * 7 + stat->cversion * 5 + stat->mzxid + stat->child_count;
        sum = sum * 31 + (int64_t)reply->size;
    }
    return sum;
}

/* Every allocation of every kind of operation fails once: refused with ZKL_ENOMEM and nothing changed, until it succeeds. */
static void test_submit_without_memory(void)
{
    struct zkl__op parts[] = {op_create("/q/p-", "data", ZKL__EPHEMERAL_SEQUENTIAL), op_set("/q/a", "more", -1),
                              op_check("/q", -1), op_create("/q/b", "data", ZKL__EPHEMERAL), op_delete("/q/b", -1)};
    struct zkl__op ops[] = {op_create("/q/c-", "data", ZKL__EPHEMERAL_SEQUENTIAL),
                            op_set("/q/a", "other", -1),
                            op_check("/q/a", -1),
                            op_multi(parts, 5),
                            op_read(ZKL__OP_SYNC, "/", false),
                            op_read(ZKL__OP_CHILDREN, "/q", true),
                            op_read(ZKL__OP_GET, "/q/a", true),
                            op_read(ZKL__OP_EXISTS, "/none", true),
                            op_read(ZKL__OP_UNWATCH, "/q", false),
                            op_delete("/q/a", -1)};
    struct zkl__store_config config = scarce();
    struct client client;
    CU_ASSERT_EQUAL_FATAL(client_open(&client, &config), ZKL_OK);
    client_rc(&client, op_create("/q", "", ZKL__PERSISTENT));
    client_rc(&client, op_create("/q/a", "data", ZKL__PERSISTENT));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        int code = ZKL_ENOMEM;
        int64_t before = look(&client);
        long nth = 0;
        while (code == ZKL_ENOMEM && nth < 100) {
            client_drain(&client);
            test_heap_fail(&heap, ++nth, false);
            uint64_t id = recorder_submit(client.recorder, &ops[i], &code);
            test_heap_fail(&heap, 0, false);
            if (code == ZKL_OK) {
                CU_ASSERT_TRUE(recorder_reply(client.recorder, id, 10000)->reply.rc <= ZKL__RC_NONODE);
            } else {
                CU_ASSERT_EQUAL(code, ZKL_ENOMEM);
                CU_ASSERT_EQUAL(look(&client), before);
            }
        }
        CU_ASSERT_TRUE(nth > 1 && nth < 100);
    }
    CU_ASSERT_EQUAL(client_close(&client), ZKL_OK);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
}

/* What was promised comes without any memory: replies under way, watches set, the end of a session. */
static void test_tell_without_memory(void)
{
    struct client client, other;
    struct zkl__store_config config = scarce();
    CU_ASSERT_EQUAL_FATAL(client_open(&client, &config), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(client_open(&other, &config), ZKL_OK);
    client_rc(&client, op_create("/e", "", ZKL__EPHEMERAL));
    client_rc(&other, op_read(ZKL__OP_GET, "/e", true));
    client_rc(&other, op_read(ZKL__OP_CHILDREN, "/", true));
    client_drain(&other);
    zkl__memory_hold(other.session_id, true);
    uint64_t get = client_send(&other, op_read(ZKL__OP_GET, "/e", false));
    test_heap_fail(&heap, 1, true);
    CU_ASSERT_EQUAL(client_close(&client), ZKL_OK);
    zkl__memory_hold(other.session_id, false);
    expect_reply(&other, get, ZKL__RC_OK);
    expect_watch(&other, ZKL__WATCH_DELETED, "/e");
    expect_watch(&other, ZKL__WATCH_CHILDREN, "/");
    CU_ASSERT_EQUAL(zkl__memory_suspend(other.session_id), ZKL_ENOMEM);
    CU_ASSERT_EQUAL(zkl__memory_expire(other.session_id), ZKL_ENOMEM);
    CU_ASSERT_TRUE(client_quiet(&other));
    test_heap_fail(&heap, 2, false); /* the second of the two notices */
    CU_ASSERT_EQUAL(zkl__memory_expire(other.session_id), ZKL_ENOMEM);
    test_heap_fail(&heap, 0, false);
    CU_ASSERT_EQUAL(zkl__memory_break(other.session_id, 0, 1, 0), ZKL_OK);
    test_heap_fail(&heap, 1, true);
    CU_ASSERT_EQUAL(client_try(&other, op_read(ZKL__OP_GET, "/", true)), ZKL_ENOMEM); /* the suspension has none */
    test_heap_fail(&heap, 0, false);
    get = client_send(&other, op_read(ZKL__OP_GET, "/", true));
    expect(&other, RECORD_SUSPENDED);
    expect_reply(&other, get, ZKL__RC_UNKNOWN);
    test_heap_fail(&heap, 1, true);
    CU_ASSERT_EQUAL(zkl__memory_resume(other.session_id), ZKL_ENOMEM);
    test_heap_fail(&heap, 0, false);
    CU_ASSERT_EQUAL(zkl__memory_resume(other.session_id), ZKL_OK);
    expect(&other, RECORD_CONNECTED);
    CU_ASSERT_EQUAL(client_close(&other), ZKL_OK);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
}

TESTS("memory faults", T(test_suspend), T(test_break), T(test_watches_outlive_a_reconnect),
      T(test_untold_watch_comes_back), T(test_expire), T(test_expire_while_suspended), T(test_unknown_scheme),
      T(test_close), T(test_stranger), T(test_open_without_memory), T(test_submit_without_memory),
      T(test_tell_without_memory))
