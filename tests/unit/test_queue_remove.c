/* zkl_queue_remove: exactly the one that was meant, and what it learns of it. */
#include "lock_kit.h"

#include <string.h>

#define QUEUE "/locks/queue"

static void set_up(void)
{
    zkl_session_options brief = kit_short();
    one = kit_open(&brief);
    two = kit_open(NULL);
}

static int remove_at(const char *path, const char *node, int64_t token, zkl_error *err)
{
    return zkl_queue_remove(two, path, node, token, 5000, err);
}

static void test_holder(void)
{
    set_up();
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    char node[128];
    zkl_error err;
    zkl_grant first, second;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, &first, NULL), ZKL_OK);
    zkl_lock_node(a, node, sizeof node);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    CU_ASSERT_EQUAL(remove_at(QUEUE, node, first.token + 1, &err), ZKL_ENOTHELD); /* another one of that name */
    CU_ASSERT(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(remove_at(QUEUE, node, first.token, &err), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_OK);
    second.token = zkl_lock_token(b);
    CU_ASSERT(second.token > first.token);
    CU_ASSERT(EVENTUALLY(zkl_lock_state(a) == ZKL_STATE_LOST)); /* with the next heartbeat */
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(remove_at(QUEUE, node, first.token, &err), ZKL_ENOTHELD);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no such contender"));
    CU_ASSERT_STRING_EQUAL(err.path, QUEUE);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_waiter(void)
{
    set_up();
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    zkl_queue *queue;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    CU_ASSERT_EQUAL_FATAL(zkl_queue_list(&queue, one, QUEUE, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(remove_at(QUEUE, queue->entries[1].name, queue->entries[1].token, NULL), ZKL_OK);
    zkl_queue_free(queue);
    CU_ASSERT(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_OK); /* queued again */
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

#define NODE "nobody-lock-0000000001" /* as a client names it that has no uuid: the name comes again */

static void make_node(void)
{
    const struct zkl__op op = {.kind = ZKL__OP_CREATE, .dir = QUEUE, .name = NODE, .mode = ZKL__PERSISTENT};
    enum zkl__rc rc = ZKL__RC_UNKNOWN;
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &op, &rc), ZKL_OK);
    CU_ASSERT_EQUAL(rc, ZKL__RC_OK);
}

static void *run_remove(void *arg)
{
    *(int *)arg = remove_at(QUEUE, NODE, 0, NULL);
    return NULL;
}

/* The delete is done, its answer lost, and before it is known another one has the name. */
static void test_another_one_of_that_name_meanwhile(void)
{
    pthread_t thread;
    int code = -1;
    set_up();
    zkl_lock *a = kit_lock(one, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    make_node();
    CU_ASSERT_EQUAL(zkl__memory_break(zkl_session_id(two), 1, 1, 0), ZKL_OK); /* a look, the delete */
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_remove, &code), 0);
    CU_ASSERT(EVENTUALLY(zkl_session_state(two) == ZKL_SESSION_SUSPENDED));
    make_node();
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(two)), ZKL_OK);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(code, ZKL_OK);
    CU_ASSERT_EQUAL(kit_queue(one, QUEUE), 2);
    zkl_lock_free(a);
    kit_tear_down();
}

static void deaf_to_request(zkl_lock *lock, void *payload)
{
    (void)lock;
    (void)payload;
}

/* A request to give way is a write: the version differs, the znode does not. */
static void test_written_meanwhile(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.revoke_fn = deaf_to_request;
    set_up();
    zkl_lock *a = kit_lock(one, QUEUE, &options);
    char node[128];
    zkl_grant grant;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, &grant, NULL), ZKL_OK);
    zkl_lock_node(a, node, sizeof node);
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, NULL, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(remove_at(QUEUE, node, grant.token, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0);
    zkl_lock_free(a);
    kit_tear_down();
}

/* Who may not read a znode may still remove it: deleting is a matter of the directory's list. */
static void test_unreadable(void)
{
    static const zkl_acl_entry nobody[] = {{ZKL_PERM_DELETE, "world", "anyone"}};
    static const zkl_acl hidden = {1, nobody};
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    set_up();
    zkl_lock *a = kit_lock(one, "/open", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK); /* makes the directory for everybody */
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    options.acl = &hidden;
    zkl_lock *b = kit_lock(one, "/open", &options);
    char node[128];
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 10000, NULL, NULL), ZKL_OK);
    zkl_lock_node(b, node, sizeof node);
    CU_ASSERT_EQUAL(remove_at("/open", node, 1, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl__memory_set_rules("kit", ZKL__RULES_EXISTS_NEEDS_READ), ZKL_OK);
    CU_ASSERT_EQUAL(remove_at("/open", node, 1, NULL), ZKL_EAUTH); /* whether it is that one is not told */
    CU_ASSERT_EQUAL(remove_at("/open", node, 0, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(remove_at("/open", node, 0, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(kit_queue(two, "/open"), 0);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_not_permitted(void)
{
    static const zkl_acl_entry entries[] = {{ZKL_PERM_READ | ZKL_PERM_CREATE, "world", "anyone"}};
    static const zkl_acl closed = {1, entries};
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.acl = &closed; /* of the directory, too */
    set_up();
    zkl_lock *a = kit_lock(one, "/closed", &options);
    char node[128];
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    zkl_lock_node(a, node, sizeof node);
    CU_ASSERT_EQUAL(remove_at("/closed", node, 0, &err), ZKL_EAUTH);
    CU_ASSERT(zkl_lock_is_held(a));
    zkl_lock_free(a);
    kit_tear_down();
}

static void test_bad_calls(void)
{
    static const char node[] = "_c_00000000-1111-4222-8333-444444444444-lock-0000000000";
    set_up();
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_queue_remove(NULL, QUEUE, node, 0, 0, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "session"));
    CU_ASSERT_EQUAL(remove_at(QUEUE, NULL, 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(remove_at(NULL, node, 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(remove_at("locks", node, 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(remove_at(QUEUE, "readme", 0, &err), ZKL_EINVAL); /* contenders only */
    CU_ASSERT_EQUAL(remove_at("/locks", "queue/lock-0000000000", 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(remove_at(QUEUE, node, -1, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_queue_remove(two, QUEUE, node, 0, -7, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "-7"));
    CU_ASSERT_EQUAL(zkl_queue_remove(two, QUEUE, node, 0, 0, &err), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(remove_at(QUEUE, node, 0, &err), ZKL_ENOTHELD);
    kit_tear_down();
}

TESTS("queue_remove", T(test_holder), T(test_waiter), T(test_another_one_of_that_name_meanwhile),
      T(test_written_meanwhile), T(test_unreadable), T(test_not_permitted), T(test_bad_calls))
