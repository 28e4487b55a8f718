/* The in-process store, behind its port. That it answers as a ZooKeeper server does is shown by conformance; here is what no script of that
 * has: lost and ended sessions, strangers, containers, limits, no memory. */
#include "check.h"
#include "memory.h"
#include "store_client.h"
#include "test_heap.h"

#define PLACE "memory:unit"

static struct client one, two;

static void set_up(void)
{
    ASSERT_OK_FATAL(client_open_plain(&one, PLACE));
    ASSERT_OK_FATAL(client_open_plain(&two, PLACE));
}

static void tear_down(void)
{
    client_close(&one);
    client_close(&two);
}

/* Both sessions are open. */
#define TEST_ON_A_TREE(name) TEST_BETWEEN(set_up(), name, tear_down())

/* The next thing told is of this kind. */
static const struct record *expect(struct client *client, enum record_kind kind)
{
    const struct record *record = client_next(client);
    CU_ASSERT_PTR_NOT_NULL_FATAL(record);
    CU_ASSERT_EQUAL_FATAL(record->kind, kind);
    return record;
}

static void expect_reply(struct client *client, uint64_t id, enum zkl__rc rc)
{
    const struct record *record = expect(client, RECORD_REPLY);
    CU_ASSERT_EQUAL(record->id, id);
    CU_ASSERT_EQUAL(record->reply.rc, rc);
}

static void expect_watch(struct client *client, enum zkl__watch_event event, const char *path)
{
    const struct record *record = expect(client, RECORD_WATCH);
    CU_ASSERT_EQUAL(record->watch, event);
    CU_ASSERT_STRING_EQUAL(record->path, path);
}

#define suspend(client, code) CU_ASSERT_EQUAL(zkl__memory_suspend((client)->session_id), code)
#define resume(client, code) CU_ASSERT_EQUAL(zkl__memory_resume((client)->session_id), code)
#define hold(client, on) ASSERT_OK(zkl__memory_hold((client)->session_id, on))
#define break_off(client, ...) ASSERT_OK(zkl__memory_break((client)->session_id, __VA_ARGS__))
#define expire(client, code) CU_ASSERT_EQUAL(zkl__memory_expire((client)->session_id), code)

static enum zkl__rc rc_of(struct zkl__op op)
{
    return client_rc(&one, op);
}

static void expect_exists(struct client *client, const char *path, enum zkl__rc rc)
{
    CU_ASSERT_EQUAL(client_rc(client, op_read(ZKL__OP_EXISTS, path, false)), rc);
}

static enum zkl__rc create(const char *path, enum zkl__create_mode mode)
{
    return rc_of(op_create(path, "", mode));
}

static void expect_name(const char *path, const char *name)
{
    const struct zkl__reply *reply = client_call(&one, op_create(path, "", ZKL__PERSISTENT_SEQUENTIAL));
    CU_ASSERT_EQUAL_FATAL(reply->rc, ZKL__RC_OK);
    CU_ASSERT_STRING_EQUAL(reply->name, name);
}

/* --- names, containers, credentials -------------------------------------------------------------------------------- */

TEST_ON_A_TREE(test_bad_ops)
{
    static char large[1048576];
    CU_ASSERT_EQUAL(client_try(&one, op_read(ZKL__OP_EXISTS, "/a/..", false)), ZKL_EINVAL); /* all forms: unit_text */
    struct zkl__op container = op_create("/a", "", ZKL__CONTAINER), sync = op_read(ZKL__OP_SYNC, "/", false);
    CU_ASSERT_EQUAL(client_try(&one, (struct zkl__op){.kind = ZKL__OP_NONE, .dir = "/a"}), ZKL_EINVAL);
    CU_ASSERT_EQUAL(client_try(&one, (struct zkl__op){.kind = ZKL__OP_GET}), ZKL_EINVAL);
    CU_ASSERT_EQUAL(client_try(&one, op_multi(&container, 1)), ZKL_EUNSUPPORTED);
    CU_ASSERT_EQUAL(client_try(&one, op_multi(&sync, 1)), ZKL_EUNSUPPORTED);
    struct zkl__op huge = {.kind = ZKL__OP_SET, .dir = "/a", .data = large, .size = sizeof large};
    CU_ASSERT_EQUAL(client_try(&one, huge), ZKL_ELIMIT);
}

/* The counter sticks at its end: the last name is given again once it is free, and is "exists" until then. */
TEST_ON_A_TREE(test_sequence_end)
{
    create("/q", ZKL__PERSISTENT);
    ASSERT_OK(zkl__memory_set_counter(PLACE, "/q", INT32_MAX - 1));
    expect_name("/q/n", "n2147483646");
    expect_name("/q/n", "n2147483647");
    CU_ASSERT_EQUAL(create("/q/n", ZKL__PERSISTENT_SEQUENTIAL), ZKL__RC_NODEEXISTS);
    expect_name("/q/m", "m2147483647");
    CU_ASSERT_EQUAL(rc_of(op_delete("/q/n2147483647", -1)), ZKL__RC_OK);
    expect_name("/q/n", "n2147483647");
}

static void ignore(void *ctx, const struct zkl__connection *connection) {}

static enum zkl__rc meddle(struct zkl__op op)
{
    enum zkl__rc rc = ZKL__RC_UNKNOWN;
    ASSERT_OK(zkl__memory_meddle("memory:ticked", &op, &rc));
    return rc;
}

/* The clock is the caller's: the first tick starts it, the sweep comes a minute later. */
TEST(test_tick)
{
    const struct zkl__store_events events = {.connected = ignore};
    struct zkl__store_config config = recorder_config("memory:ticked");
    struct zkl__store *store;
    ASSERT_OK_FATAL(zkl__store_memory.open(&store, &config, &events, NULL, NULL));
    meddle(op_create("/c", "", ZKL__CONTAINER));
    meddle(op_create("/c/a", "", ZKL__PERSISTENT));
    meddle(op_delete("/c/a", -1));
    int64_t next = zkl__store_memory.tick(store, 1000);
    CU_ASSERT_EQUAL(next, 1000 + 60 * INT64_C(1000000000));
    CU_ASSERT_EQUAL(zkl__store_memory.tick(store, next - 1), next);
    CU_ASSERT_EQUAL(meddle(op_check("/c", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(zkl__store_memory.tick(store, next), next + 60 * INT64_C(1000000000));
    CU_ASSERT_EQUAL(meddle(op_check("/c", -1)), ZKL__RC_NONODE);
    ASSERT_OK(zkl__store_memory.close(store, 0, NULL));
}

/* As the server's, since the header of a transaction has it. Long ones, many of which are carried out while a millisecond ends. */
TEST_ON_A_TREE(test_one_time_for_a_transaction)
{
    enum { PARTS = 100 };
    char paths[PARTS][8];
    struct zkl__op creates[PARTS], deletes[PARTS];
    EACH_ROW (i, paths) {
        snprintf(paths[i], sizeof paths[i], "/%zu", i);
        creates[i] = op_create(paths[i], "", ZKL__PERSISTENT);
        deletes[i] = op_delete(paths[i], -1);
    }
    for (int64_t times = 0, latest = 0; times < 100;) {
        CU_ASSERT_EQUAL_FATAL(rc_of(op_multi(creates, PARTS)), ZKL__RC_OK);
        int64_t first = client_call(&one, op_read(ZKL__OP_EXISTS, paths[0], false))->stat.ctime_ms;
        CU_ASSERT_EQUAL(client_call(&one, op_read(ZKL__OP_EXISTS, paths[PARTS - 1], false))->stat.ctime_ms, first);
        CU_ASSERT_EQUAL_FATAL(rc_of(op_multi(deletes, PARTS)), ZKL__RC_OK);
        times += first != latest;
        latest = first;
    }
}

/* Before that rule it told, and since another one it does not even say that the node is there. */
TEST_ON_A_TREE(test_unreadable_by_other_rules)
{
    const zkl_acl_entry no_read = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
    const zkl_acl blind = {1, &no_read};
    struct zkl__op create = op_create("/b", "", ZKL__PERSISTENT);
    create.acl = &blind;
    CU_ASSERT_EQUAL(zkl__memory_set_rules("no such tree", ZKL__RULES_NOTHING_NEEDS_READ), ZKL_ENOENT);
    ASSERT_OK(zkl__memory_set_rules(PLACE, ZKL__RULES_NOTHING_NEEDS_READ));
    client_rc(&one, op_read(ZKL__OP_EXISTS, "/b", true));
    client_drain(&one);
    CU_ASSERT_EQUAL(client_rc(&two, create), ZKL__RC_OK);
    expect_watch(&one, ZKL__WATCH_CREATED, "/b");
    CU_ASSERT_EQUAL(client_rc(&one, op_read(ZKL__OP_EXISTS, "/b", true)), ZKL__RC_OK);
    ASSERT_OK(zkl__memory_set_rules(PLACE, ZKL__RULES_EXISTS_NEEDS_READ));
    expect_exists(&one, "/b", ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(client_rc(&two, op_delete("/b", -1)), ZKL__RC_OK);
    expect_exists(&one, "/b", ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(recorder_count(one.recorder, RECORD_WATCH), 1);
}

/* --- lost connections ---------------------------------------------------------------------------------------------- */

/* Point 3: suspended, then a reply for each operation outstanding, then connected. What was held had been applied. */
TEST_ON_A_TREE(test_suspend)
{
    client_drain(&one);
    hold(&one, true);
    uint64_t make = client_send(&one, op_create("/a", "", ZKL__EPHEMERAL));
    uint64_t list = client_send(&one, op_read(ZKL__OP_CHILDREN, "/", true));
    suspend(&one, ZKL_OK);
    suspend(&one, ZKL_EINVAL);
    expect(&one, RECORD_SUSPENDED);
    expect_reply(&one, make, ZKL__RC_UNKNOWN);
    expect_reply(&one, list, ZKL__RC_UNKNOWN);
    struct zkl__op get = op_read(ZKL__OP_GET, "/a", false);
    CU_ASSERT_EQUAL(client_try(&one, get), ZKL_ECONNECT);
    CU_ASSERT_EQUAL(client_rc(&two, get), ZKL__RC_OK); /* applied; and the session lives */
    resume(&one, ZKL_OK);
    resume(&one, ZKL_EINVAL);
    const struct record *again = client_next(&one);
    CU_ASSERT_EQUAL(again->kind, RECORD_CONNECTED);
    CU_ASSERT_EQUAL(again->connection.session_id, one.session_id);
    CU_ASSERT_FALSE(again->connection.fresh);
    CU_ASSERT_EQUAL(again->connection.timeout_ms, 6000);
    client_rc(&two, op_create("/b", "", ZKL__EPHEMERAL)); /* the list's watch went with its reply */
    client_drain(&one);
    CU_ASSERT_EQUAL(recorder_count(one.recorder, RECORD_WATCH), 0);
}

/* The plan of a break: two answered, one applied without an answer, one that never arrives. */
TEST_ON_A_TREE(test_break)
{
    client_drain(&one);
    break_off(&one, 2, 1, 1);
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
    resume(&one, ZKL_OK);
    expect(&one, RECORD_CONNECTED);
    expect_watch(&one, ZKL__WATCH_CHANGED, "/a");
    client_drain(&one);
    break_off(&one, 1, 0, 0);
    break_off(&one, 0, 0, 0); /* taken back */
    client_drain(&one);
    break_off(&one, 1, 0, 0);
    client_drain(&one);
    expect(&one, RECORD_SUSPENDED);
}

/* --- the end of a session ------------------------------------------------------------------------------------------ */

/* Point 5. */
TEST_ON_A_TREE(test_expire)
{
    client_rc(&one, op_create("/e", "", ZKL__EPHEMERAL));
    client_rc(&two, op_read(ZKL__OP_GET, "/e", true));
    client_rc(&one, op_read(ZKL__OP_GET, "/", true));
    client_drain(&one);
    client_drain(&two);
    hold(&one, true);
    uint64_t get = client_send(&one, op_read(ZKL__OP_GET, "/e", false));
    expire(&one, ZKL_OK);
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
    expire(&one, ZKL_ENOENT);
    suspend(&one, ZKL_ENOENT);
    resume(&one, ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl__memory_hold(one.session_id, true), ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl__memory_break(one.session_id, 1, 1, 1), ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl__memory_suspend(12345), ZKL_ENOENT);
}

/* Point 6: close with replies under way, held, suspended, after the end. */
TEST(test_close)
{
    struct client third;
    set_up();
    ASSERT_OK_FATAL(client_open_plain(&third, PLACE));
    for (int i = 0; i < 100; i++) {
        client_send(&third, op_create("/n-", "", ZKL__EPHEMERAL_SEQUENTIAL));
        client_send(&third, op_read(ZKL__OP_CHILDREN, "/", true));
    }
    hold(&third, true);
    break_off(&third, 0, 5, 5);
    client_send(&third, op_read(ZKL__OP_CHILDREN, "/", true));
    ASSERT_OK(client_close(&third));
    struct zkl__op list = op_read(ZKL__OP_CHILDREN, "/", false);
    CU_ASSERT_EQUAL(client_call(&two, list)->child_count, 1);
    client_rc(&one, op_create("/e", "", ZKL__EPHEMERAL));
    client_rc(&one, op_read(ZKL__OP_GET, "/e", true));
    zkl__memory_suspend(one.session_id);
    CU_ASSERT_EQUAL(client_close(&one), ZKL_ECONNECT); /* no server was told; the memory of it ends all the same */
    expect_exists(&two, "/e", ZKL__RC_NONODE);
    expire(&two, ZKL_OK);
    ASSERT_OK(client_close(&two));
}

/* --- limits ----------------------------------------------------------------------------------------------- */

TEST_ON_A_TREE(test_limit)
{
    struct zkl__op op = op_read(ZKL__OP_SYNC, "/", false);
    client_drain(&one);
    hold(&one, true);
    for (size_t i = 0; i < zkl__store_memory.ops_max; i++) {
        ASSERT_OK_FATAL(client_try(&one, op));
    }
    CU_ASSERT_EQUAL(client_try(&one, op), ZKL_ELIMIT);
    hold(&one, false);
    CU_ASSERT_PTR_NOT_NULL(recorder_at(one.recorder, one.seen + zkl__store_memory.ops_max - 1, 10000));
    CU_ASSERT_EQUAL(client_rc(&one, op), ZKL__RC_OK);
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

/* What was promised comes without any memory: replies under way, watches set, the end of a session. */
TEST(test_tell_without_memory)
{
    struct client client, other;
    struct zkl__store_config config = scarce();
    ASSERT_OK_FATAL(client_open(&client, &config));
    ASSERT_OK_FATAL(client_open(&other, &config));
    client_rc(&client, op_create("/e", "", ZKL__EPHEMERAL));
    client_rc(&other, op_read(ZKL__OP_GET, "/e", true));
    client_rc(&other, op_read(ZKL__OP_CHILDREN, "/", true));
    client_drain(&other);
    hold(&other, true);
    uint64_t get = client_send(&other, op_read(ZKL__OP_GET, "/e", false));
    test_heap_fail(&heap, 1, true);
    ASSERT_OK(client_close(&client));
    hold(&other, false);
    expect_reply(&other, get, ZKL__RC_OK);
    expect_watch(&other, ZKL__WATCH_DELETED, "/e");
    expect_watch(&other, ZKL__WATCH_CHILDREN, "/");
    suspend(&other, ZKL_ENOMEM);
    expire(&other, ZKL_ENOMEM);
    CU_ASSERT_TRUE(client_quiet(&other));
    test_heap_fail(&heap, 2, false); /* the second of the two notices */
    expire(&other, ZKL_ENOMEM);
    test_heap_fail(&heap, 0, false);
    break_off(&other, 0, 1, 0);
    test_heap_fail(&heap, 1, true);
    CU_ASSERT_EQUAL(client_try(&other, op_read(ZKL__OP_GET, "/", true)), ZKL_ENOMEM); /* the suspension has none */
    test_heap_fail(&heap, 0, false);
    get = client_send(&other, op_read(ZKL__OP_GET, "/", true));
    expect(&other, RECORD_SUSPENDED);
    expect_reply(&other, get, ZKL__RC_UNKNOWN);
    test_heap_fail(&heap, 1, true);
    resume(&other, ZKL_ENOMEM);
    test_heap_fail(&heap, 0, false);
    resume(&other, ZKL_OK);
    expect(&other, RECORD_CONNECTED);
    ASSERT_OK(client_close(&other));
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
}

TESTS("memory")
