/* The in-process store, one operation at a time: it answers as a ZooKeeper server does. */
#include "check.h"
#include "memory.h"
#include "store_client.h"
#include "test_heap.h"

#include <string.h>

#define PLACE "memory:unit"

static struct client one, two;

static void set_up(void)
{
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&one, PLACE), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&two, PLACE), ZKL_OK);
}

static void tear_down(void)
{
    CU_ASSERT_EQUAL(client_close(&one), ZKL_OK);
    CU_ASSERT_EQUAL(client_close(&two), ZKL_OK);
}

static const struct zkl__reply *call(struct zkl__op op)
{
    return client_call(&one, op);
}

static enum zkl__rc rc_of(struct zkl__op op)
{
    return call(op)->rc;
}

static enum zkl__rc create(const char *path, enum zkl__create_mode mode)
{
    return rc_of(op_create(path, "", mode));
}

static const char *name_of(struct zkl__op op)
{
    const struct zkl__reply *reply = call(op);
    return reply->rc == ZKL__RC_OK && reply->name ? reply->name : zkl__rc_name(reply->rc);
}

static struct zkl__stat stat_of(const char *path)
{
    return call(op_read(ZKL__OP_EXISTS, path, false))->stat;
}

/* --- create, read, write, delete ---------------------------------------------------------------------------------- */

static void test_create_and_read(void)
{
    set_up();
    const struct zkl__reply *made = call(op_create("/a", "hello", ZKL__PERSISTENT));
    CU_ASSERT_EQUAL(made->rc, ZKL__RC_OK);
    CU_ASSERT_STRING_EQUAL(made->name, "a");
    CU_ASSERT_TRUE(made->stat.czxid > 0);
    CU_ASSERT_EQUAL(made->stat.czxid, made->stat.mzxid);
    CU_ASSERT_EQUAL(made->stat.data_size, 5);
    CU_ASSERT_EQUAL(made->stat.ephemeral_owner, 0);
    const struct zkl__reply *got = call(op_read(ZKL__OP_GET, "/a", false));
    CU_ASSERT_EQUAL(got->size, 5);
    CU_ASSERT_EQUAL(memcmp(got->data, "hello", 5), 0);
    CU_ASSERT_EQUAL(memcmp(&got->stat, &made->stat, sizeof got->stat), 0);
    CU_ASSERT_EQUAL(create("/a", ZKL__PERSISTENT), ZKL__RC_NODEEXISTS);
    CU_ASSERT_EQUAL(call(op_create("/a", "", ZKL__PERSISTENT))->zk_code, -110);
    CU_ASSERT_EQUAL(create("/b/c", ZKL__PERSISTENT), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(create("/", ZKL__PERSISTENT), ZKL__RC_NODEEXISTS);
    struct zkl__op child = op_create("/a", "", ZKL__PERSISTENT);
    child.name = "child";
    CU_ASSERT_STRING_EQUAL(name_of(child), "child");
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/a/child", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_GET, "/none", false)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/none", false)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_CHILDREN, "/none", false)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_SYNC, "/none", false)), ZKL__RC_OK);
    tear_down();
}

static void test_set(void)
{
    set_up();
    create("/a", ZKL__PERSISTENT);
    struct zkl__stat before = stat_of("/a");
    const struct zkl__reply *set = call(op_set("/a", "xyz", 0));
    CU_ASSERT_EQUAL(set->rc, ZKL__RC_OK);
    CU_ASSERT_EQUAL(set->stat.version, 1);
    CU_ASSERT_EQUAL(set->stat.data_size, 3);
    CU_ASSERT_EQUAL(set->stat.czxid, before.czxid);
    CU_ASSERT_TRUE(set->stat.mzxid > before.mzxid);
    CU_ASSERT_EQUAL(rc_of(op_set("/a", "", 0)), ZKL__RC_BADVERSION);
    CU_ASSERT_EQUAL(rc_of(op_set("/a", "", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_set("/b", "", -1)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(call(op_read(ZKL__OP_GET, "/a", false))->size, 0);
    CU_ASSERT_EQUAL(stat_of("/a").version, 2);
    tear_down();
}

static void test_delete_and_check(void)
{
    set_up();
    create("/a", ZKL__PERSISTENT);
    create("/a/b", ZKL__PERSISTENT);
    CU_ASSERT_EQUAL(rc_of(op_check("/a", 0)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_check("/a", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_check("/a", 1)), ZKL__RC_BADVERSION);
    CU_ASSERT_EQUAL(rc_of(op_check("/c", -1)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(rc_of(op_delete("/a", -1)), ZKL__RC_NOTEMPTY);
    CU_ASSERT_EQUAL(rc_of(op_delete("/a", 7)), ZKL__RC_BADVERSION);
    CU_ASSERT_EQUAL(rc_of(op_delete("/a/c", -1)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(rc_of(op_delete("/x/y", -1)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(rc_of(op_delete("/", -1)), ZKL__RC_REFUSED);
    CU_ASSERT_EQUAL(rc_of(op_delete("/zookeeper", -1)), ZKL__RC_REFUSED);
    CU_ASSERT_EQUAL(rc_of(op_delete("/a/b", 0)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_delete("/a", 0)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/a", false)), ZKL__RC_NONODE);
    tear_down();
}

/* "2 * creates - children" is what clients see; the sequence is the creates alone. */
static void test_children_and_cversion(void)
{
    set_up();
    create("/a", ZKL__PERSISTENT);
    CU_ASSERT_EQUAL(stat_of("/a").cversion, 0);
    create("/a/x", ZKL__PERSISTENT);
    create("/a/y", ZKL__PERSISTENT);
    CU_ASSERT_EQUAL(stat_of("/a").cversion, 2);
    call(op_delete("/a/x", -1));
    CU_ASSERT_EQUAL(stat_of("/a").cversion, 3);
    create("/a/z", ZKL__PERSISTENT);
    const struct zkl__reply *list = call(op_read(ZKL__OP_CHILDREN, "/a", false));
    CU_ASSERT_EQUAL(list->stat.cversion, 4);
    CU_ASSERT_EQUAL(list->stat.child_count, 2);
    CU_ASSERT_EQUAL_FATAL(list->child_count, 2);
    CU_ASSERT_TRUE(client_listed(list, "y") && client_listed(list, "z"));
    list = call(op_read(ZKL__OP_CHILDREN, "/", false));
    CU_ASSERT_EQUAL_FATAL(list->child_count, 2);
    CU_ASSERT_TRUE(client_listed(list, "a") && client_listed(list, "zookeeper"));
    CU_ASSERT_EQUAL(call(op_read(ZKL__OP_CHILDREN, "/a/y", false))->child_count, 0);
    tear_down();
}

static void test_bad_ops(void)
{
    static const char *const bad[] = {"", "a", "//", "/a/", "/a//b", "/a/./b", "/..", "/a/.."};
    static char large[1048576];
    set_up();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CU_ASSERT_EQUAL(client_try(&one, op_read(ZKL__OP_EXISTS, bad[i], false)), ZKL_EINVAL);
    }
    struct zkl__op container = op_create("/a", "", ZKL__CONTAINER), sync = op_read(ZKL__OP_SYNC, "/", false);
    CU_ASSERT_EQUAL(client_try(&one, (struct zkl__op){.kind = ZKL__OP_NONE, .dir = "/a"}), ZKL_EINVAL);
    CU_ASSERT_EQUAL(client_try(&one, (struct zkl__op){.kind = ZKL__OP_GET}), ZKL_EINVAL);
    CU_ASSERT_EQUAL(client_try(&one, op_multi(&container, 1)), ZKL_EUNSUPPORTED);
    CU_ASSERT_EQUAL(client_try(&one, op_multi(&sync, 1)), ZKL_EUNSUPPORTED);
    struct zkl__op huge = {.kind = ZKL__OP_SET, .dir = "/a", .data = large, .size = sizeof large};
    CU_ASSERT_EQUAL(client_try(&one, huge), ZKL_ELIMIT);
    tear_down();
}

/* --- sequence, ephemerals, containers ------------------------------------------------------------------------------ */

static void test_sequence(void)
{
    set_up();
    create("/q", ZKL__PERSISTENT);
    CU_ASSERT_STRING_EQUAL(name_of(op_create("/q/a-", "", ZKL__EPHEMERAL_SEQUENTIAL)), "a-0000000000");
    CU_ASSERT_STRING_EQUAL(name_of(op_create("/q/b-", "", ZKL__PERSISTENT_SEQUENTIAL)), "b-0000000001");
    create("/q/plain", ZKL__PERSISTENT);
    call(op_delete("/q/plain", -1));
    CU_ASSERT_EQUAL(create("/q/b-0000000001", ZKL__PERSISTENT), ZKL__RC_NODEEXISTS);
    CU_ASSERT_STRING_EQUAL(name_of(op_create("/q/c-", "", ZKL__PERSISTENT_SEQUENTIAL)), "c-0000000003");
    CU_ASSERT_STRING_EQUAL(name_of(op_create("/q/", "", ZKL__PERSISTENT_SEQUENTIAL)), "0000000004");
    call(op_delete("/q/a-0000000000", -1));
    call(op_delete("/q/b-0000000001", -1));
    call(op_delete("/q/c-0000000003", -1));
    call(op_delete("/q/0000000004", -1));
    CU_ASSERT_EQUAL(rc_of(op_delete("/q", -1)), ZKL__RC_OK);
    create("/q", ZKL__PERSISTENT);
    CU_ASSERT_STRING_EQUAL(name_of(op_create("/q/a-", "", ZKL__PERSISTENT_SEQUENTIAL)), "a-0000000000");
    tear_down();
}

/* The counter sticks at its end: the last name is given again once it is free, and is "exists" until then. */
static void test_sequence_end(void)
{
    set_up();
    create("/q", ZKL__PERSISTENT);
    CU_ASSERT_EQUAL(zkl__memory_set_counter(PLACE, "/q", INT32_MAX - 1), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(name_of(op_create("/q/n", "", ZKL__PERSISTENT_SEQUENTIAL)), "n2147483646");
    CU_ASSERT_STRING_EQUAL(name_of(op_create("/q/n", "", ZKL__PERSISTENT_SEQUENTIAL)), "n2147483647");
    CU_ASSERT_EQUAL(create("/q/n", ZKL__PERSISTENT_SEQUENTIAL), ZKL__RC_NODEEXISTS);
    CU_ASSERT_STRING_EQUAL(name_of(op_create("/q/m", "", ZKL__PERSISTENT_SEQUENTIAL)), "m2147483647");
    CU_ASSERT_EQUAL(rc_of(op_delete("/q/n2147483647", -1)), ZKL__RC_OK);
    CU_ASSERT_STRING_EQUAL(name_of(op_create("/q/n", "", ZKL__PERSISTENT_SEQUENTIAL)), "n2147483647");
    tear_down();
}

static void test_ephemerals(void)
{
    set_up();
    create("/d", ZKL__PERSISTENT);
    CU_ASSERT_EQUAL(create("/d/e", ZKL__EPHEMERAL), ZKL__RC_OK);
    CU_ASSERT_EQUAL(stat_of("/d/e").ephemeral_owner, one.session_id);
    CU_ASSERT_EQUAL(create("/d/e/child", ZKL__PERSISTENT), ZKL__RC_EPHEMERALPARENT);
    CU_ASSERT_EQUAL(create("/d/e/child", ZKL__EPHEMERAL_SEQUENTIAL), ZKL__RC_EPHEMERALPARENT);
    create("/d/s", ZKL__EPHEMERAL_SEQUENTIAL);
    create("/d/p", ZKL__PERSISTENT);
    struct zkl__op mine = op_create("/d/two", "", ZKL__EPHEMERAL);
    client_call(&two, mine);
    CU_ASSERT_EQUAL(client_close(&one), ZKL_OK);
    struct zkl__op list = op_read(ZKL__OP_CHILDREN, "/d", false);
    const struct zkl__reply *left = client_call(&two, list);
    CU_ASSERT_EQUAL_FATAL(left->child_count, 2);
    CU_ASSERT_TRUE(client_listed(left, "p") && client_listed(left, "two"));
    CU_ASSERT_EQUAL(client_close(&two), ZKL_OK);
}

static void test_containers(void)
{
    set_up();
    CU_ASSERT_EQUAL(create("/c", ZKL__CONTAINER), ZKL__RC_OK);
    CU_ASSERT_EQUAL(stat_of("/c").ephemeral_owner, 0); /* its mark is not shown */
    CU_ASSERT_EQUAL(create("/c/sub", ZKL__CONTAINER), ZKL__RC_OK);
    CU_ASSERT_EQUAL(create("/c/sub/e", ZKL__EPHEMERAL), ZKL__RC_OK);
    create("/new", ZKL__CONTAINER);
    CU_ASSERT_EQUAL(zkl__memory_reap("unit"), ZKL_OK);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/c/sub", false)), ZKL__RC_OK);
    call(op_delete("/c/sub/e", -1));
    CU_ASSERT_EQUAL(zkl__memory_reap(PLACE), ZKL_OK);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/c/sub", false)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/c", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(zkl__memory_reap(PLACE), ZKL_OK);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/c", false)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/new", false)), ZKL__RC_OK); /* never used: stays */
    CU_ASSERT_EQUAL(zkl__memory_reap("nobody"), ZKL_ENOENT);
    tear_down();
}

static void ignore(void *ctx, const struct zkl__connection *connection)
{
    (void)ctx, (void)connection;
}

static enum zkl__rc meddle(struct zkl__op op)
{
    enum zkl__rc rc = ZKL__RC_UNKNOWN;
    CU_ASSERT_EQUAL(zkl__memory_meddle("ticked", &op, &rc), ZKL_OK);
    return rc;
}

/* The clock is the caller's: the first tick starts it, the sweep comes a minute later. */
static void test_tick(void)
{
    const struct zkl__store_events events = {.connected = ignore};
    struct zkl__store_config config = recorder_config("memory:ticked");
    struct zkl__store *store;
    CU_ASSERT_EQUAL_FATAL(zkl__store_memory.open(&store, &config, &events, NULL, NULL), ZKL_OK);
    meddle(op_create("/c", "", ZKL__CONTAINER));
    meddle(op_create("/c/a", "", ZKL__PERSISTENT));
    meddle(op_delete("/c/a", -1));
    int64_t next = zkl__store_memory.tick(store, 1000);
    CU_ASSERT_EQUAL(next, 1000 + 60 * INT64_C(1000000000));
    CU_ASSERT_EQUAL(zkl__store_memory.tick(store, next - 1), next);
    CU_ASSERT_EQUAL(meddle(op_check("/c", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(zkl__store_memory.tick(store, next), next + 60 * INT64_C(1000000000));
    CU_ASSERT_EQUAL(meddle(op_check("/c", -1)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(zkl__store_memory.close(store, 0), ZKL_OK);
}

/* --- multi --------------------------------------------------------------------------------------------------------- */

static void test_multi(void)
{
    set_up();
    create("/q", ZKL__PERSISTENT);
    create("/q/old", ZKL__PERSISTENT);
    struct zkl__op parts[] = {op_create("/q/n-", "d", ZKL__EPHEMERAL_SEQUENTIAL), op_set("/q", "new", 0),
                              op_check("/q", 1), op_delete("/q/old", -1),
                              op_create("/q/n-", "", ZKL__EPHEMERAL_SEQUENTIAL)};
    const struct zkl__reply *reply = call(op_multi(parts, 5));
    CU_ASSERT_EQUAL(reply->rc, ZKL__RC_OK);
    CU_ASSERT_EQUAL_FATAL(reply->part_count, 5);
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(reply->parts[i].rc, ZKL__RC_OK);
    }
    CU_ASSERT_STRING_EQUAL(reply->parts[0].name, "n-0000000001");
    CU_ASSERT_STRING_EQUAL(reply->parts[4].name, "n-0000000002");
    CU_ASSERT_EQUAL(stat_of("/q").version, 1);
    CU_ASSERT_EQUAL(stat_of("/q/n-0000000001").czxid, stat_of("/q/n-0000000002").czxid);
    CU_ASSERT_EQUAL(stat_of("/q/n-0000000001").czxid, stat_of("/q").mzxid);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/q/old", false)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(client_try(&one, op_multi(NULL, 0)), ZKL_EINVAL);
    struct zkl__op twice[] = {op_set("/q", "longer", -1), op_set("/q", "", -1)};
    reply = call(op_multi(twice, 2)); /* each answers the state it made */
    CU_ASSERT_EQUAL_FATAL(reply->part_count, 2);
    CU_ASSERT_EQUAL(reply->parts[0].stat.version, 2);
    CU_ASSERT_EQUAL(reply->parts[0].stat.data_size, 6);
    CU_ASSERT_EQUAL(reply->parts[1].stat.version, 3);
    CU_ASSERT_EQUAL(reply->parts[1].stat.data_size, 0);
    struct zkl__op brief[] = {op_create("/x", "", ZKL__PERSISTENT), op_set("/x", "data", 0), op_delete("/x", 1)};
    CU_ASSERT_EQUAL(rc_of(op_multi(brief, 3)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/x", false)), ZKL__RC_NONODE);
    tear_down();
}

static void test_multi_rolls_back(void)
{
    set_up();
    create("/q", ZKL__PERSISTENT);
    call(op_set("/q", "before", -1));
    create("/q/old", ZKL__PERSISTENT);
    struct zkl__stat before = stat_of("/q");
    struct zkl__stat before_old = stat_of("/q/old");
    struct zkl__op watch = op_read(ZKL__OP_GET, "/q", true);
    client_call(&two, watch);
    struct zkl__op parts[] = {op_set("/q", "after", -1), op_create("/q/new", "x", ZKL__PERSISTENT),
                              op_delete("/q/new", -1),   op_delete("/q/old", -1),
                              op_check("/q", 77),        op_create("/q/never", "", ZKL__PERSISTENT)};
    const struct zkl__reply *reply = call(op_multi(parts, 6));
    CU_ASSERT_EQUAL(reply->rc, ZKL__RC_BADVERSION);
    CU_ASSERT_EQUAL(reply->zk_code, -103);
    CU_ASSERT_EQUAL_FATAL(reply->part_count, 6);
    for (size_t i = 0; i < 6; i++) {
        CU_ASSERT_EQUAL(reply->parts[i].rc, i == 4 ? ZKL__RC_BADVERSION : ZKL__RC_ROLLEDBACK);
    }
    CU_ASSERT_EQUAL(reply->parts[0].zk_code, 0);
    CU_ASSERT_EQUAL(reply->parts[5].zk_code, -2);
    struct zkl__stat after = stat_of("/q");
    struct zkl__stat after_old = stat_of("/q/old");
    CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof before), 0);
    CU_ASSERT_EQUAL(memcmp(&before_old, &after_old, sizeof before_old), 0);
    CU_ASSERT_EQUAL(memcmp(call(op_read(ZKL__OP_GET, "/q", false))->data, "before", 6), 0);
    CU_ASSERT_STRING_EQUAL(name_of(op_create("/q/s-", "", ZKL__PERSISTENT_SEQUENTIAL)), "s-0000000001");
    const struct record *told = client_next(&two);
    CU_ASSERT_EQUAL(told->kind, RECORD_REPLY); /* of the watch; and no more */
    CU_ASSERT_TRUE(client_quiet(&two));
    tear_down();
}

/* --- access lists -------------------------------------------------------------------------------------------------- */

static struct zkl__op create_with(const char *path, const zkl_acl *acl)
{
    struct zkl__op op = op_create(path, "", ZKL__PERSISTENT);
    op.acl = acl;
    return op;
}

static void test_permissions(void)
{
    const zkl_acl_entry read_only = {ZKL_PERM_READ, "world", "anyone"};
    const zkl_acl_entry no_read = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
    const zkl_acl closed = {1, &read_only}, blind = {1, &no_read}, empty = {0, NULL};
    set_up();
    CU_ASSERT_EQUAL(rc_of(create_with("/r", &closed)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_GET, "/r", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_check("/r", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_set("/r", "", -1)), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(create("/r/a", ZKL__PERSISTENT), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(rc_of(op_delete("/r/a", -1)), ZKL__RC_NOAUTH); /* asked of the parent, before the node */
    CU_ASSERT_EQUAL(rc_of(op_delete("/r", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(create_with("/b", &blind)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_GET, "/b", true)), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_CHILDREN, "/b", true)), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(rc_of(op_check("/b", -1)), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/b", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_UNWATCH, "/b", false)), ZKL__RC_NOWATCH);
    CU_ASSERT_EQUAL(rc_of(op_set("/b", "", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(create_with("/e", &empty)), ZKL__RC_INVALIDACL);
    tear_down();
}

static void test_invalid_acl(void)
{
    static const zkl_acl_entry entries[] = {{31, "auth", ""},    {31, "world", "nobody"}, {31, "sasl", "x"},
                                            {31, "digest", "x"}, {31, "digest", "a:b:c"}, {31, "digest", "a:"},
                                            {31, "digest", ":"}};
    static const zkl_acl_entry colons[] = {{31, "digest", "a:b:"}, {31, "digest", ":b"}};
    set_up();
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const zkl_acl acl = {1, &entries[i]};
        CU_ASSERT_EQUAL(rc_of(create_with("/i", &acl)), ZKL__RC_INVALIDACL);
        CU_ASSERT_EQUAL(rc_of(create_with("/no/parent", &acl)), ZKL__RC_INVALIDACL); /* looked at first */
    }
    for (size_t i = 0; i < 2; i++) { /* "a:b:".split(":") is two pieces in Java */
        const zkl_acl acl = {1, &colons[i]};
        CU_ASSERT_EQUAL(rc_of(create_with("/no/parent", &acl)), ZKL__RC_NONODE);
    }
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_GET, "/zookeeper/config", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_set("/zookeeper/config", "", -1)), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(create("/zookeeper/config/x", ZKL__PERSISTENT), ZKL__RC_NOAUTH);
    tear_down();
}

/* The digest of "super:test", as ZooKeeper's own documentation computes such: base64(sha1("super:test")). */
static void test_digest(void)
{
    const zkl_acl_entry creator = {ZKL_PERM_ALL, "auth", ""};
    const zkl_acl_entry known = {ZKL_PERM_ALL, "digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="};
    const zkl_acl creator_acl = {1, &creator}, known_acl = {1, &known};
    struct client owner;
    set_up();
    struct zkl__store_config config = {
        .servers = PLACE, .timeout_ms = 10000, .auth_scheme = "digest", .auth = "super:test", .auth_size = 10};
    CU_ASSERT_EQUAL_FATAL(client_open(&owner, &config), ZKL_OK);
    struct zkl__op plain = op_create("/mine", "", ZKL__PERSISTENT); /* by default: the creator's only */
    struct zkl__op shared = create_with("/named", &creator_acl);
    struct zkl__op digest = create_with("/known", &known_acl);
    CU_ASSERT_EQUAL(client_call(&owner, plain)->rc, ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_call(&owner, shared)->rc, ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(digest), ZKL__RC_OK);
    static const char *const paths[] = {"/mine", "/named", "/known"};
    for (size_t i = 0; i < 3; i++) {
        struct zkl__op set = op_set(paths[i], "x", -1);
        CU_ASSERT_EQUAL(rc_of(set), ZKL__RC_NOAUTH);
        CU_ASSERT_EQUAL(client_call(&owner, set)->rc, ZKL__RC_OK);
    }
    enum zkl__rc rc = ZKL__RC_OK;
    struct zkl__op meddle = op_set("/mine", "y", -1);
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &meddle, &rc), ZKL_OK);
    CU_ASSERT_EQUAL(rc, ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(client_close(&owner), ZKL_OK);
    tear_down();
}

static void test_default_acl(void)
{
    const zkl_acl_entry read_only = {ZKL_PERM_READ, "world", "anyone"};
    const zkl_acl closed = {1, &read_only};
    struct client limited;
    CU_ASSERT_EQUAL_FATAL(client_open(&limited, &(struct zkl__store_config){.servers = PLACE, .acl = &closed}), ZKL_OK);
    struct zkl__op make = op_create("/d", "", ZKL__PERSISTENT), set = op_set("/d", "", -1);
    CU_ASSERT_EQUAL(client_call(&limited, make)->rc, ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_call(&limited, set)->rc, ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(client_close(&limited), ZKL_OK);
}

/* --- seals ------------------------------------------------------------------------------------------------------- */

/* Of "a:secret". */
#define SEALER "a:ykSBOUl9hLQuc6QpJhp2yOFkW3o="

static int open_sealed(struct client *client, const char *seal)
{
    return client_open(client, &(struct zkl__store_config){.servers = PLACE, .timeout_ms = 10000, .seal = seal});
}

/* A sealed znode is written by its session alone; whoever may delete in the directory deletes it. */
static void test_seal(void)
{
    const zkl_acl_entry entries[] = {{ZKL_PERM_READ | ZKL_PERM_CREATE | ZKL_PERM_DELETE, "world", "anyone"},
                                     {ZKL_PERM_WRITE, "digest", SEALER}};
    const zkl_acl acl = {2, entries};
    struct client owner, other;
    set_up();
    CU_ASSERT_EQUAL_FATAL(open_sealed(&owner, "a:secret"), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(open_sealed(&other, "b:secret"), ZKL_OK);
    struct zkl__op make = create_with("/s", &acl), set = op_set("/s", "", 0), look = op_read(ZKL__OP_GET, "/s", true);
    CU_ASSERT_EQUAL(client_rc(&owner, make), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(look), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(set), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(client_rc(&other, set), ZKL__RC_NOAUTH);
    struct zkl__op parts[] = {set, op_delete("/s", -1)};
    CU_ASSERT_EQUAL(client_rc(&other, op_multi(parts, 2)), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(client_rc(&owner, op_multi(parts, 2)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_rc(&owner, make), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_delete("/s", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_close(&owner), ZKL_OK);
    CU_ASSERT_EQUAL(client_close(&other), ZKL_OK);
    tear_down();
}

/* It is no credential of the user's: nothing becomes the session's own by it. */
static void test_seal_is_no_credential(void)
{
    const zkl_acl_entry creator = {ZKL_PERM_ALL, "auth", ""};
    const zkl_acl acl = {1, &creator};
    struct client sealed;
    set_up();
    CU_ASSERT_EQUAL_FATAL(open_sealed(&sealed, "a:secret"), ZKL_OK);
    CU_ASSERT_EQUAL(client_rc(&sealed, create_with("/mine", &acl)), ZKL__RC_INVALIDACL);
    CU_ASSERT_EQUAL(client_rc(&sealed, op_create("/open", "", ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(op_set("/open", "x", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_close(&sealed), ZKL_OK);
    tear_down();
}

/* --- trees --------------------------------------------------------------------------------------------------------- */

static void test_trees(void)
{
    struct client other;
    set_up();
    create("/a", ZKL__PERSISTENT);
    int64_t first = stat_of("/a").czxid;
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&other, "memory:elsewhere"), ZKL_OK);
    struct zkl__op look = op_read(ZKL__OP_EXISTS, "/a", false);
    CU_ASSERT_EQUAL(client_call(&other, look)->rc, ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(client_call(&two, look)->rc, ZKL__RC_OK);
    CU_ASSERT_NOT_EQUAL(one.session_id, two.session_id);
    CU_ASSERT_NOT_EQUAL(one.session_id, other.session_id);
    client_close(&other);
    tear_down();
    set_up(); /* the tree went with its last session, the zxids go on */
    CU_ASSERT_EQUAL(rc_of(op_read(ZKL__OP_EXISTS, "/a", false)), ZKL__RC_NONODE);
    create("/a", ZKL__PERSISTENT);
    CU_ASSERT_TRUE(stat_of("/a").czxid > first);
    tear_down();
}

TESTS("memory", T(test_create_and_read), T(test_set), T(test_delete_and_check), T(test_children_and_cversion),
      T(test_bad_ops), T(test_sequence), T(test_sequence_end), T(test_ephemerals), T(test_containers), T(test_tick),
      T(test_multi), T(test_multi_rolls_back), T(test_permissions), T(test_invalid_acl), T(test_digest),
      T(test_default_acl), T(test_seal), T(test_seal_is_no_credential), T(test_trees))
