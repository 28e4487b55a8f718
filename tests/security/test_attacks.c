/* What somebody who can reach the servers can do to a queue, and cannot: places forged by hand, names that carry our uuid; and with credentials, everything. */
#include "one_server.h"
#include "name.h"
#include "store_client.h"

#define UUID "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"

static zkl_session *open_as(const char *credentials, const zkl_acl *acl)
{
    zkl_session_options options = contest_options(TIMEOUT, TICK);
    zkl_session *session = NULL;
    options.auth_scheme = "digest";
    options.auth = credentials;
    options.auth_size = strlen(credentials);
    options.acl = acl;
    ASSERT_OK_FATAL(zkl_session_open(&session, ensemble_servers(server), &options, NULL));
    return session;
}

/* What the intruder's create of dir/name came to. */
static enum zkl__rc put(const char *dir, const char *name, enum zkl__create_mode mode)
{
    struct zkl__op op = {.kind = ZKL__OP_CREATE, .dir = dir, .name = name, .mode = mode};
    return recorder_rc(intruder, op);
}

/* --- an open queue ---------------------------------------------------------------------------------------------------- */

/* A node with a low number, made by hand while others wait, lives with a session, but is younger than theirs. */
TEST(test_barging)
{
    struct queue_of queue;
    CU_ASSERT_EQUAL(put("/", "barged", ZKL__PERSISTENT), ZKL__RC_OK);
    for (int i = 0; i < 5; i++) { /* so that the queue begins at five */
        char name[20];
        snprintf(name, sizeof name, "n%d", i);
        CU_ASSERT_EQUAL(put("/barged", name, ZKL__PERSISTENT), ZKL__RC_OK);
    }
    queue_here(&queue, "/barged", 2);
    CU_ASSERT_EQUAL(put("/barged", "_c_" UUID "-lock-0000000001", ZKL__EPHEMERAL), ZKL__RC_OK);
    CU_ASSERT_EQUAL(put("/barged", UUID "__WRIT__0000000002", ZKL__EPHEMERAL), ZKL__RC_OK);
    queue_drain(&queue);
    /* From now on the intruder is a contender like any other: who comes later waits until its session ends, and no longer. */
    zkl_session *session = open_one();
    zkl_lock *lock = contest_lock(session, "/barged", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EBUSY);
    recorder_free(intruder);
    intruder = queue_eye(ensemble_servers(server));
    ASSERT_OK(zkl_lock_acquire(lock, SOON, NULL, NULL));
    zkl_lock_free(lock);
    kit_close(session);
}

/* The names of somebody who holds and of somebody who waits. */
static const struct zkl__reply *two_places(struct queue_of *queue, const char *path)
{
    queue_here(queue, path, 2);
    const struct zkl__reply *list = queue_look(eye, path);
    CU_ASSERT_EQUAL(list->child_count, 2);
    return list;
}

/* Names that carry their uuid. */
TEST(test_stolen_uuid)
{
    struct queue_of queue;
    const struct zkl__reply *list = two_places(&queue, "/stolen");
    for (size_t i = 0; i < list->child_count; i++) {
        for (long number = -1; number <= 2100000000; number += 2100000001) {
            char name[ZKL__NAME_MAX];
            snprintf(name, sizeof name, "_c_%.36s-lock-%010ld", zkl__name_parse(list->children[i]).uuid, number);
            CU_ASSERT_EQUAL(put("/stolen", name, ZKL__PERSISTENT), ZKL__RC_OK);
        }
    }
    queue_drain(&queue);
    zkl_session *session = open_one();
    contest_once(session, "/stolen");
    kit_close(session);
    CU_ASSERT(queue_becomes(eye, "/stolen", 4)); /* nothing of ours; the forgeries are not ours to delete */
}

/* Anybody may write what anybody may read: the holder goes on, and its waiter looks at the list, where nothing is new. */
TEST(test_writing_places)
{
    struct queue_of queue;
    const struct zkl__reply *list = two_places(&queue, "/written");
    for (size_t i = 0; i < list->child_count; i++) {
        const struct zkl__op set = {.kind = ZKL__OP_SET,
                                    .dir = "/written",
                                    .name = list->children[i],
                                    .data = "released",
                                    .size = 8,
                                    .version = -1};
        CU_ASSERT_EQUAL(recorder_rc(intruder, set), ZKL__RC_OK);
    }
    queue_drain(&queue);
}

/* --- with credentials -------------------------------------------------------------------------------------------------- */

/* All that a stranger may try on the znode of a lock and on every directory above it: nothing, but to read where that is permitted. */
static void check_closed(const zkl_lock *lock, bool may_read)
{
    enum zkl__rc read = may_read ? ZKL__RC_OK : ZKL__RC_NOAUTH;
    char path[ZKL_PATH_MAX], node[ZKL__NAME_MAX];
    CU_ASSERT(zkl_lock_node(lock, node, sizeof node) > 0);
    snprintf(path, sizeof path, "%s/%s", zkl_lock_path(lock), node);
    CU_ASSERT_EQUAL(recorder_rc(intruder, op_read(ZKL__OP_GET, path, false)), read);
    CU_ASSERT_EQUAL(recorder_rc(intruder, op_delete(path, -1)), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(recorder_rc(intruder, op_set(path, "__REVOKE__", -1)), ZKL__RC_NOAUTH);
    for (char *slash = strrchr(path, '/'); slash != path; slash = strrchr(path, '/')) {
        *slash = '\0';
        CU_ASSERT_EQUAL(put(path, "_c_" UUID "-lock-", ZKL__EPHEMERAL_SEQUENTIAL), ZKL__RC_NOAUTH);
        CU_ASSERT_EQUAL(recorder_rc(intruder, op_read(ZKL__OP_CHILDREN, path, false)), read);
        CU_ASSERT_EQUAL(recorder_rc(intruder, op_set(path, "held by nobody", -1)), ZKL__RC_NOAUTH);
        CU_ASSERT_NOT_EQUAL(recorder_rc(intruder, op_delete(path, -1)), ZKL__RC_OK);
    }
}

TEST(test_creator_only)
{
    zkl_session *session = open_as("ann:secret", NULL);
    zkl_lock *lock = contest_holder(session, "/vault/deep/lock");
    check_closed(lock, false);
    CU_ASSERT(zkl_lock_is_held(lock));
    zkl_session *other = open_as("ben:secret", NULL);
    zkl_lock *no = contest_lock(other, "/vault/deep/lock", NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(no, SOON, NULL, &err), ZKL_EAUTH);
    CU_ASSERT_STRING_EQUAL(err.path, "/vault/deep/lock");
    zkl_lock_free(no);
    kit_close(other);
    kit_release(lock);
    zkl_lock_free(lock);
    struct zkl__op op = {.kind = ZKL__OP_DELETE, .dir = "/vault/deep", .name = "lock", .version = -1};
    CU_ASSERT_NOT_EQUAL(recorder_do(eye, &op)->reply.rc, ZKL__RC_OK);
    kit_close(session);
}

/* The same list on every level, when it is given: others may look, and no more. */
TEST(test_given_list)
{
    static const zkl_acl_entry entries[] = {{ZKL_PERM_ALL, "auth", ""}, {ZKL_PERM_READ, "world", "anyone"}};
    static const zkl_acl acl = {2, entries};
    zkl_session *session = open_as("ann:secret", &acl);
    zkl_lock *lock = contest_holder(session, "/shown/deep/lock");
    check_closed(lock, true);
    zkl_lock_free(lock);
    kit_close(session);
}

TESTS_ON_ONE_SERVER("attacks")
