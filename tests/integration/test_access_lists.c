/* Programs with different credentials in one open queue, on a real server; what each version tells of a znode that may not be
 * read stands at enum zkl__read_access. */
#include "access_kit.h"
#include "one_server.h"

#include <zookeeper/zookeeper.h>

#define ROUNDS 20
#define SECOND_NS INT64_C(1000000000)

/* What all but a quarter of the rounds need: a busy machine stands still in some. */
static int64_t most_need(struct access *access, const struct access_kind *kind)
{
    int64_t took[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        took[i] = access_hand_over(access, kind, NULL);
    }
    (void)median(took, ROUNDS);
    return took[ROUNDS * 3 / 4 - 1];
}

/* Within a second, and what the same hand-overs take on this machine when all may be read. */
TEST(test_hand_over)
{
    struct access open, closed;
    access_begin(&open, ensemble_servers(server), false, TICK);
    access_begin(&closed, ensemble_servers(server), true, TICK);
    EACH_ROW (i, access_kinds) {
        const struct access_kind *kind = &access_kinds[i];
        int64_t control = most_need(&open, kind);
        int64_t most = most_need(&closed, kind);
        fprintf(stderr, "%s: %d of %d, three quarters within %.1f ms (all readable: %.1f ms)\n", kind->name, 2 * ROUNDS,
                2 * ROUNDS, (double)most / 1e6, (double)control / 1e6);
        CU_ASSERT(most < control + SECOND_NS);
    }
    access_end(&open);
    access_end(&closed);
}

/* Whom the list of a znode permits what: that anybody may do everything, and nothing else. */
static void expect_open(zhandle_t *zh, const char *path)
{
    struct ACL_vector acl = {0};
    struct Stat stat;
    CU_ASSERT_EQUAL_FATAL(zoo_get_acl(zh, path, &acl, &stat), ZOK);
    CU_ASSERT_EQUAL_FATAL(acl.count, 1);
    CU_ASSERT_EQUAL(acl.data[0].perms, ZOO_PERM_ALL);
    CU_ASSERT_STRING_EQUAL(acl.data[0].id.scheme, "world");
    CU_ASSERT_STRING_EQUAL(acl.data[0].id.id, "anyone");
    deallocate_ACL_vector(&acl);
}

/* Without credentials our znodes have the list that a server keeps in no table. A list that comes and goes with the last znode that has it can
 * be missing after a restart (ZOOKEEPER-4689): then the znode can neither be read nor deleted, or the server does not start. */
TEST(test_default_list)
{
    struct queue_of queue;
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zhandle_t *zh = zookeeper_init(ensemble_servers(server), NULL, 60000, NULL, NULL, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(zh);
    queue_here(&queue, "/default/lock", 2);
    expect_open(zh, "/default");
    expect_open(zh, "/default/lock");
    for (int i = 0; i < 2; i++) {
        char path[ZKL_PATH_MAX], node[ZKL__NAME_MAX];
        CU_ASSERT(zkl_lock_node(queue.locks[i], node, sizeof node) > 0);
        snprintf(path, sizeof path, "/default/lock/%s", node);
        expect_open(zh, path);
    }
    queue_drain(&queue);
    CU_ASSERT_EQUAL(zookeeper_close(zh), ZOK);
}

TESTS_ON_ONE_SERVER("access lists")
