/* What operators see and do: zkl_queue_list, zkl_queue_revoke, zkl_queue_remove. How each ends without being waited for: unit_public_calls. */
#include "lock_kit.h"

#define QUEUE "/locks/queue"
#define UUID "00000000-1111-4222-8333-444444444444"

static zkl_queue *list(const char *path)
{
    zkl_queue *queue = NULL;
    zkl_error err = {0};
    ASSERT_OK_FATAL(zkl_queue_list(&queue, one, path, 5000, &err));
    return queue;
}

/* Of the second session, behind one that holds. */
static zkl_lock *wait_behind(struct acquire *waiting)
{
    zkl_lock *b = kit_lock(two, QUEUE, NULL);
    acquire_start(waiting, b, ZKL_WAIT_FOREVER);
    kit_await_queue(one, QUEUE, 2);
    return b;
}

TEST_WITH_SESSIONS(test_holder_and_waiters)
{
    zkl_lock *a = kit_hold(one, QUEUE, LOCK_OPTIONS(.metadata = "the holder"));
    struct acquire waiting;
    char node[128], whoami[64];
    wait_behind(&waiting);
    zkl_queue *queue = list(QUEUE);
    const zkl_queue_entry *entries = queue->entries;
    zkl_lock_node(a, node, sizeof node);
    CU_ASSERT_STRING_EQUAL(entries[0].name, node);
    CU_ASSERT_EQUAL(entries[0].kind, ZKL_KIND_LOCK);
    CU_ASSERT_EQUAL(entries[0].sequence, 0);
    CU_ASSERT_EQUAL(entries[0].token, zkl_lock_token(a));
    CU_ASSERT_EQUAL(entries[0].session_id, zkl_session_id(one));
    CU_ASSERT(entries[0].created_ms > INT64_C(1500000000000));
    CU_ASSERT_STRING_EQUAL(entries[0].data, "the holder");
    CU_ASSERT_EQUAL(entries[0].data_size, 10);
    CU_ASSERT(entries[0].readable);
    CU_ASSERT_EQUAL(entries[1].session_id, zkl_session_id(two));
    CU_ASSERT_EQUAL(entries[1].sequence, 1);
    snprintf(whoami, sizeof whoami, ":%ld", (long)getpid());
    CU_ASSERT_PTR_NOT_NULL(strstr(entries[1].data, whoami)); /* host:pid, when nothing else is given */
    CU_ASSERT_EQUAL(queue->server_ms, entries[1].created_ms);
    zkl_queue_free(queue);
    kit_free(a);
    ASSERT_OK(acquire_join(&waiting));
}

TEST_WITH_SESSIONS(test_strangers_in_the_queue)
{
    static const char *const names[] = {
        "_c_" UUID "-__READ__0000000003", "00001111222233334444555566667777__lock__0000000001",
        "_c_" UUID "-latch-2147483647",   "_c_" UUID "-__WRIT__0000000003",
        "_c_" UUID "-lock--2147483648", /* after the wrap */
    };
    static const zkl_kind kinds[] = {ZKL_KIND_KAZOO, ZKL_KIND_READ, ZKL_KIND_WRITE, ZKL_KIND_LATCH};
    kit_create("/mixed", NULL, NULL, NULL);
    EACH_ROW (i, kinds) {
        kit_create("/mixed", names[i], NULL, NULL);
    }
    kit_create("/mixed", "readme", NULL, NULL);
    kit_create("/mixed", "lock-", NULL, NULL);
    zkl_queue *queue = list("/mixed");
    CU_ASSERT_EQUAL_FATAL(queue->foreign, 2);
    bool first = strcmp(queue->foreign_names[0], "readme") == 0; /* in no order */
    CU_ASSERT_STRING_EQUAL(queue->foreign_names[!first], "readme");
    CU_ASSERT_STRING_EQUAL(queue->foreign_names[first], "lock-");
    CU_ASSERT_EQUAL_FATAL(queue->count, 4);
    EACH_ROW (i, kinds) {
        CU_ASSERT_EQUAL(queue->entries[i].kind, kinds[i]);
    }
    CU_ASSERT_EQUAL(queue->entries[0].session_id, 0);
    zkl_queue_free(queue);
    kit_create("/wrap", NULL, NULL, NULL);
    kit_create("/wrap", names[4], NULL, NULL);
    kit_create("/wrap", names[2], NULL, NULL);
    queue = list("/wrap");
    CU_ASSERT_EQUAL_FATAL(queue->count, 2);
    CU_ASSERT_EQUAL(queue->entries[0].sequence, INT32_MAX);
    CU_ASSERT_EQUAL(queue->entries[1].sequence, INT32_MIN);
    zkl_queue_free(queue);
}

/* Or not in time. */
TEST_WITH_SESSIONS(test_entries_that_may_not_be_read)
{
    const zkl_acl nobody = {1, &(zkl_acl_entry){ZKL_PERM_READ, "digest", "x:y"}};
    char large[ZKL_DATA_MAX + 100];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    kit_create("/shy", NULL, NULL, NULL);
    kit_create("/shy", "_c_" UUID "-lock-0000000001", "secret", &nobody);
    kit_create("/shy", "_c_" UUID "-lock-0000000002", large, NULL);
    zkl_queue *queue = list("/shy");
    CU_ASSERT_EQUAL_FATAL(queue->count, 2);
    CU_ASSERT_FALSE(queue->entries[0].readable);
    CU_ASSERT_PTR_NULL(queue->entries[0].data);
    CU_ASSERT_TRUE(queue->entries[0].forged); /* no session's */
    CU_ASSERT_EQUAL(queue->entries[1].data_size, ZKL_DATA_MAX);
    CU_ASSERT_EQUAL(strlen(queue->entries[1].data), ZKL_DATA_MAX);
    zkl_queue_free(queue);
    zkl_error err;
    for (int read = 1; read >= 0; read--) {
        kit_break(one, read ? 2 : 1, 0, 1);
        CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, "/shy", 50, &err), ZKL_ETIMEOUT);
        ASSERT_SAYS(err, read ? "before all of its children were read" : "no response from the servers");
        kit_resume(one);
    }
    kit_create("/closed", NULL, NULL, &nobody);
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, "/closed", 1000, &err), ZKL_EAUTH);
    CU_ASSERT_STRING_EQUAL(err.path, "/closed");
}

TEST_WITH_SESSIONS(test_a_thousand_entries)
{
    char name[64];
    kit_create("/long", NULL, NULL, NULL);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "_c_" UUID "-lock-%010d", (i * 7) % 1000);
        kit_create("/long", name, "somebody waits here", NULL);
    }
    zkl_queue *queue = list("/long");
    CU_ASSERT_EQUAL_FATAL(queue->count, 1000);
    for (int i = 0; i < 1000; i++) {
        CU_ASSERT_EQUAL(queue->entries[i].sequence, i);
    }
    zkl_queue_free(queue);
}

/* --- without waiting ------------------------------------------------------------------------------------------------- */

static char held_node[128]; /* the name of the holder's znode */

/* Held by the second session, which gives way. */
static zkl_lock *hold(struct mailbox *requests)
{
    zkl_lock *lock = kit_hold(two, QUEUE, REVOKE_TO(requests));
    zkl_lock_node(lock, held_node, sizeof held_node);
    return lock;
}

/* The paths and names are copied. */
TEST_WITH_SESSIONS(test_what_they_bring)
{
    struct mailbox box = MAILBOX_INIT, requests = MAILBOX_INIT;
    zkl_queue *queue = NULL;
    zkl_error err = {0};
    char path[] = QUEUE, node[sizeof held_node];
    zkl_lock *lock = hold(&requests);
    zkl_lock *next = kit_lock(one, QUEUE, NULL);
    kit_acquire_async(next, on_acquired, &box);
    kit_await_queue(one, QUEUE, 2);
    kit_delay(one, true);
    ASSERT_OK(zkl_queue_list_async(&queue, one, path, 5000, on_ended, &box, NULL));
    memset(path, 'x', sizeof path - 1); /* it was copied */
    kit_delay(one, false);
    ASSERT_OK_FATAL(mailbox_code(&box, 1));
    CU_ASSERT_EQUAL(queue->count, 2);
    CU_ASSERT_STRING_EQUAL(queue->entries[0].name, held_node);
    CU_ASSERT_EQUAL(queue->entries[0].token, zkl_lock_token(lock));
    CU_ASSERT_TRUE(queue->entries[0].holds);
    CU_ASSERT_FALSE(queue->entries[1].holds);
    ASSERT_OK(zkl_queue_revoke_async(one, QUEUE, NULL, 5000, on_ended, &box, NULL));
    ASSERT_OK(mailbox_code(&box, 2));
    kit_await_letters(&requests, 1);
    ASSERT_OK(zkl_testing_refuse(two, ZKL_EAUTH, 1, NULL));
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, NULL, 5000, &err), ZKL_EAUTH);
    CU_ASSERT_EQUAL(err.zk_code, -102); /* ZNOAUTH */
    strcpy(node, held_node);
    kit_delay(one, true);
    ASSERT_OK(zkl_queue_remove_async(one, QUEUE, node, zkl_lock_token(lock), 5000, on_ended, &box, NULL));
    memset(node, 'x', sizeof node - 1);
    kit_delay(one, false);
    kit_await_letters(&box, 4); /* and the next one is granted */
    CU_ASSERT_TRUE(zkl_lock_is_held(next));
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, NULL, 5000, &err), ZKL_EAUTH); /* it does not listen */
    ASSERT_SAYS(err, "no revoke_fn");
    ASSERT_OK(zkl_queue_remove_async(one, QUEUE, held_node, 0, 5000, on_ended, &box, NULL));
    CU_ASSERT_EQUAL(mailbox_code(&box, 5), ZKL_ENOTHELD);
    ASSERT_OK(zkl_queue_revoke_async(one, "/locks/none", NULL, 5000, on_ended, &box, NULL));
    CU_ASSERT_EQUAL(mailbox_code(&box, 6), ZKL_ENOTHELD);
    zkl_queue_free(queue);
}

/* A request whose fate is unknown is not made again: it would be a second one. */
TEST_WITH_SESSIONS(test_revoke_is_sent_once)
{
    struct mailbox box = MAILBOX_INIT, requests = MAILBOX_INIT;
    hold(&requests);
    kit_break(one, 0, 1, 0);
    ASSERT_OK(zkl_queue_revoke_async(one, QUEUE, held_node, 10000, on_ended, &box, NULL));
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_ECONNECT);
    kit_resume(one);
    kit_await_letters(&requests, 1);
}

/* --- removal: session two removes -------------------------------------------------------------------- */

static void expect_removal(const char *path, const char *node, int64_t token, int code)
{
    CU_ASSERT_EQUAL(zkl_queue_remove(two, path, node, token, 5000, NULL), code);
}

/* With that access list; NULL: the default. Its znode's name goes to held_node. */
static zkl_lock *hold_with(const char *path, const zkl_acl *acl)
{
    zkl_lock *lock = kit_hold(one, path, LOCK_OPTIONS(.acl = acl));
    zkl_lock_node(lock, held_node, sizeof held_node);
    return lock;
}

TEST_WITH_SESSIONS(test_holder)
{
    struct acquire waiting;
    zkl_error err;
    zkl_lock *a = hold_with(QUEUE, NULL), *b = wait_behind(&waiting);
    int64_t token = zkl_lock_token(a);
    expect_removal(QUEUE, held_node, token + 1, ZKL_ENOTHELD); /* another one of that name */
    CU_ASSERT(zkl_lock_is_held(a));
    expect_removal(QUEUE, held_node, token, ZKL_OK);
    ASSERT_OK(acquire_join(&waiting));
    CU_ASSERT(zkl_lock_token(b) > token);
    kit_await_state(a, ZKL_STATE_LOST); /* with the next heartbeat */
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(zkl_queue_remove(two, QUEUE, held_node, token, 5000, &err), ZKL_ENOTHELD);
    ASSERT_SAYS(err, "no such contender");
    CU_ASSERT_STRING_EQUAL(err.path, QUEUE);
}

/* Between the look at it and the delete, which is not sent. */
TEST_WITH_SESSIONS(test_ends_by_itself)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = hold_with(QUEUE, NULL);
    kit_break(two, 1, 0, 0); /* the look */
    ASSERT_OK(zkl_queue_remove_async(two, QUEUE, held_node, 0, 10000, on_ended, &box, NULL));
    kit_await_session(two, ZKL_SESSION_SUSPENDED);
    kit_release(lock);
    kit_resume(two);
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_ENOTHELD);
}

TEST_WITH_SESSIONS(test_waiter)
{
    struct acquire waiting;
    zkl_lock *a = kit_hold(one, QUEUE, NULL);
    wait_behind(&waiting);
    zkl_queue *queue = list(QUEUE);
    expect_removal(QUEUE, queue->entries[1].name, queue->entries[1].token, ZKL_OK);
    zkl_queue_free(queue);
    CU_ASSERT(zkl_lock_is_held(a));
    kit_release(a);
    ASSERT_OK(acquire_join(&waiting)); /* queued again */
    kit_must_write(ZKL__OP_CREATE, QUEUE, "lock-0000000007", NULL);
    kit_must_write(ZKL__OP_CREATE, QUEUE "/lock-0000000007", "x", NULL);
    expect_removal(QUEUE, "lock-0000000007", 0, ZKL_EINVAL);
}

/* A request to give way is a write: the version differs, the znode does not. */
TEST_WITH_SESSIONS(test_written_meanwhile)
{
    struct mailbox requests = MAILBOX_INIT;
    zkl_lock *lock = hold(&requests);
    ASSERT_OK(zkl_queue_revoke(one, QUEUE, NULL, 5000, NULL));
    ASSERT_OK(zkl_queue_remove(one, QUEUE, held_node, zkl_lock_token(lock), 5000, NULL));
    CU_ASSERT_EQUAL(kit_queue(one, QUEUE), 0);
    kit_free(lock);
}

/* Who may not read a znode may still remove it: deleting is a matter of the directory's list. */
TEST_WITH_SESSIONS(test_unreadable)
{
    const zkl_acl hidden = {1, &(const zkl_acl_entry){ZKL_PERM_DELETE, "world", "anyone"}};
    kit_release(kit_hold(one, "/open", NULL)); /* makes the directory for everybody */
    hold_with("/open", &hidden);
    expect_removal("/open", held_node, 1, ZKL_ENOTHELD);
    ASSERT_OK(zkl__memory_set_rules("memory:kit", ZKL__RULES_EXISTS_NEEDS_READ));
    expect_removal("/open", held_node, 1, ZKL_EAUTH); /* whether it is that one is not told */
    expect_removal("/open", held_node, 0, ZKL_OK);
    expect_removal("/open", held_node, 0, ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(kit_queue(two, "/open"), 0);
}

TEST_WITH_SESSIONS(test_not_permitted)
{
    const zkl_acl closed = {1, &(const zkl_acl_entry){ZKL_PERM_READ | ZKL_PERM_CREATE, "world", "anyone"}};
    zkl_lock *lock = hold_with("/closed", &closed); /* of the directory, too */
    expect_removal("/closed", held_node, 0, ZKL_EAUTH);
    CU_ASSERT(zkl_lock_is_held(lock));
}

TEST_WITH_SESSIONS(test_bad_calls)
{
    static const char node[] = "_c_" UUID "-lock-0000000000";
    expect_removal(QUEUE, "readme", 0, ZKL_EINVAL); /* contenders only */
    expect_removal("/locks", "queue/x-lock-0000000000", 0, ZKL_EINVAL);
    expect_removal(QUEUE, node, -1, ZKL_EINVAL);
    expect_removal("locks", node, 0, ZKL_EINVAL);
    expect_removal(QUEUE, node, 0, ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, "/locks", "queue/x-lock-0000000000", 5000, NULL), ZKL_EINVAL);
}

TESTS("queue")
