/* The lock, on the in-process store: what zklock/lock.h promises of an acquire, a wait, a loss and the options. What is so for every recipe:
 * unit_handle. */
#include "lock_kit.h"

#define QUEUE "/locks/test"

/* --- acquire and release ------------------------------------------------------------------------------------------- */

/* What is so for every recipe: unit_handle. */
TEST_WITH_SESSIONS(test_acquire_and_release)
{
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    char node[128] = "x";
    zkl_grant grant = {.token = -1};
    CU_ASSERT_STRING_EQUAL(zkl_lock_path(lock), QUEUE);
    int64_t from = now_ms();
    ASSERT_OK_FATAL(zkl_lock_acquire(lock, 20000, &grant, NULL));
    CU_ASSERT(grant.queued_ms >= 0 && grant.queued_ms <= now_ms() - from + 1);
    CU_ASSERT_FALSE(grant.unclean);
    CU_ASSERT(zkl_lock_remaining_ms(lock) > 1000 && zkl_lock_remaining_ms(lock) <= 10000);
    CU_ASSERT_EQUAL(zkl_lock_node(lock, node, sizeof node), strlen(node));
    CU_ASSERT_EQUAL(strncmp(node, "_c_", 3), 0);
    CU_ASSERT_EQUAL(zkl_lock_node(lock, node, 4), 40 + 5 + 10); /* as snprintf: the length it has */
    CU_ASSERT_STRING_EQUAL(node, "_c_");
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    kit_release(lock);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0); /* release waited for the server's word */
}

TEST_WITH_SESSIONS(test_release_waits_only_so_long)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    int64_t id = zkl_session_id(one);
    for (options.release_timeout_ms = 0; options.release_timeout_ms <= 60; options.release_timeout_ms += 60) {
        zkl_lock *lock = kit_hold(one, QUEUE, &options);
        ASSERT_OK(zkl__memory_hold(id, true));
        int64_t from = now_ms();
        kit_release(lock);
        CU_ASSERT(now_ms() - from >= options.release_timeout_ms - 1);
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
        struct acquire again; /* its old node may still be there */
        acquire_start(&again, lock, 5000);
        kit_await_state(lock, ZKL_STATE_WAITING);
        ASSERT_OK(zkl__memory_hold(id, false));
        ASSERT_OK(acquire_join(&again));
        CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
        kit_free(lock);
    }
}

/* --- waits that end without a grant ------------------------------------------------------------------------------------ */

/* In a session that gets no response. */
static void try_in_silence(bool suspended)
{
    kit_set_up(SESSION_OPTIONS(.connect_timeout_ms = 500));
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    int64_t id = zkl_session_id(one), from = now_ms();
    ASSERT_OK(suspended ? zkl__memory_suspend(id) : zkl__memory_hold(id, true));
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT(now_ms() - from >= 500);
    ASSERT_OK(suspended ? zkl__memory_resume(id) : zkl__memory_hold(id, false));
    kit_await_queue(two, QUEUE, 0);
    kit_acquire(lock);
    kit_tear_down();
}

TEST(test_try_waits_no_longer_than_a_connect)
{
    try_in_silence(false);
    try_in_silence(true);
}

/* --- loss -------------------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS_OF(kit_ends_soon, test_lease_runs_out)
{
    struct mailbox states = MAILBOX_INIT;
    zkl_error err;
    zkl_lock *lock = kit_hold(one, QUEUE, STATES_TO(&states));
    CU_ASSERT_EQUAL(mailbox_code(&states, 1), ZKL_STATE_HELD);
    kit_suspend(one);
    CU_ASSERT_EQUAL(mailbox_code(&states, 2), ZKL_STATE_JEOPARDY);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_JEOPARDY);
    CU_ASSERT(zkl_lock_is_held(lock));
    CU_ASSERT(zkl_lock_token(lock) > 0);
    int64_t before = now_ms(), left = zkl_lock_remaining_ms(lock), after = now_ms(), asked;
    do {
        asked = now_ms();
    } while (zkl_lock_is_held(lock) && asked <= after + left + 2 && look_again(INT64_MAX));
    CU_ASSERT_FALSE(zkl_lock_is_held(lock)); /* not later */
    CU_ASSERT(now_ms() >= before + left);    /* nor sooner */
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), 0);
    CU_ASSERT_EQUAL(mailbox_code(&states, 3), ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1); /* the session lives: the node keeps others out until the release */
    kit_resume(one);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, &err), ZKL_ELOST);
    ASSERT_SAYS(err, "lease");
    kit_await_queue(two, QUEUE, 0);
    kit_acquire(lock);
}

/* --- recover ------------------------------------------------------------------------------------------------------- */

#define RECOVERING LOCK_OPTIONS(.recover = true)

/* Acquires and releases: was the last holder clean? */
static bool unclean(zkl_session *session)
{
    zkl_lock *lock = kit_lock(session, QUEUE, RECOVERING);
    bool was = kit_unclean(lock);
    kit_free(lock);
    return was;
}

TEST_WITH_SESSIONS(test_crash_with_nobody_queued)
{
    CU_ASSERT_FALSE(unclean(two));
    zkl_lock *lock = kit_hold(one, QUEUE, RECOVERING);
    kit_expire(one);
    kit_await_state(lock, ZKL_STATE_LOST);
    zkl__memory_reap(PLACE); /* the directory stays, and what it knows */
    zkl__memory_reap(PLACE);
    CU_ASSERT_TRUE(unclean(two));
    CU_ASSERT_FALSE(unclean(two)); /* told until somebody released */
    kit_free(lock);
    CU_ASSERT_FALSE(unclean(two));
}

/* --- revocation ---------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_holder_is_asked)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = kit_hold(one, QUEUE, REVOKE_TO(&box));
    ASSERT_OK(zkl_queue_revoke(two, QUEUE, NULL, 5000, NULL));
    kit_await_letters(&box, 1);
    CU_ASSERT_TRUE(zkl_lock_is_held(lock)); /* it decided to stay */
    char path[256], node[128];
    zkl_lock_node(lock, node, sizeof node);
    snprintf(path, sizeof path, "%s/%s", QUEUE, node);
    kit_must_write(ZKL__OP_SET, path, NULL, "something else");
    kit_must_write(ZKL__OP_SET, path, NULL, "__REVOKE__ please");
    CU_ASSERT_EQUAL(kit_queue(one, QUEUE), 1);
    CU_ASSERT_EQUAL(mailbox_count(&box), 1);
    kit_must_write(ZKL__OP_SET, path, NULL, "__REVOKE__"); /* as Curator's Revoker does */
    kit_await_letters(&box, 2);
    kit_release(lock);
}

/* Asked while it waited: told with the grant. Asked by the name of its znode. */
TEST_WITH_SESSIONS(test_waiter_is_asked)
{
    struct mailbox box = MAILBOX_INIT;
    struct acquire waiter;
    char node[128] = "";
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    zkl_lock *next = kit_lock(two, QUEUE, REVOKE_TO(&box));
    acquire_start(&waiter, next, 10000);
    ASSERT_EVENTUALLY(zkl_lock_node(next, node, sizeof node) > 0);
    ASSERT_OK(zkl_queue_revoke(one, QUEUE, node, 5000, NULL));
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    kit_release(lock);
    ASSERT_OK(acquire_join(&waiter));
    kit_await_letters(&box, 1);
}

/* A znode without a session is first by its name, and holds nothing. */
TEST_WITH_SESSIONS(test_no_stray_is_asked)
{
    static const char node[] = "_c_11111111-1111-4111-8111-111111111111-lock-0000000007"; /* of nobody */
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = kit_hold(one, QUEUE, REVOKE_TO(&box));
    kit_must_write(ZKL__OP_CREATE, QUEUE, "_c_00000000-lock-0000000000", NULL);
    ASSERT_OK(zkl_queue_revoke(two, QUEUE, NULL, 5000, NULL));
    kit_await_letters(&box, 1);
    kit_release(lock);
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, NULL, 5000, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, node, 5000, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, "config", 5000, NULL), ZKL_EINVAL); /* no contender's */
}

/* --- the guarded transaction --------------------------------------------------------------------------------------- */

/* Done whole, or not at all. */
TEST_WITH_SESSIONS(test_commit)
{
    zkl_op_result results[3];
    zkl_op ops[] = {{.kind = ZKL_OP_CREATE, .path = "/whole"},
                    {.kind = ZKL_OP_SET, .path = "/locks", .version = 77},
                    {.kind = ZKL_OP_CREATE, .path = "/whole2"}};
    zkl_error err;
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, ops, 3, ZKL_WAIT_FOREVER, results, &err), ZKL_ECONFLICT);
    ASSERT_SAYS(err, "operation 1: bad version");
    CU_ASSERT_STRING_EQUAL(err.path, "/locks");
    CU_ASSERT(err.zk_code != 0);
    CU_ASSERT_EQUAL(results[0].code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(results[1].code, ZKL_ECONFLICT);
    CU_ASSERT_EQUAL(results[2].code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(kit_write(ZKL__OP_DELETE, "/whole", NULL, NULL), ZKL__RC_NONODE);
    ops[1] = (zkl_op){.kind = ZKL_OP_CHECK, .path = "/nowhere", .version = ZKL_ANY_VERSION};
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, ops, 3, ZKL_WAIT_FOREVER, results, &err),
                    ZKL_ENOENT); /* not our node's: theirs */
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
    ops[1] = (zkl_op){.kind = ZKL_OP_CREATE, .path = "/whole/n-", .mode = ZKL_CREATE_PERSISTENT_SEQUENTIAL};
    ASSERT_OK(zkl_lock_commit(lock, ops, 3, ZKL_WAIT_FOREVER, results, &err));
    CU_ASSERT_STRING_EQUAL(results[0].path, "/whole");
    CU_ASSERT_STRING_EQUAL(results[1].path, "/whole/n-0000000000");
    ASSERT_OK(results[2].code);
}

/* The connection goes with the request or with the answer: both look alike from here, and the words say so. */
TEST(test_commit_of_unknown_fate)
{
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = "/maybe"};
    for (size_t half = 0; half <= 1; half++) {
        zkl_error err;
        kit_set_up(NULL);
        zkl_lock *lock = kit_hold(one, QUEUE, NULL);
        kit_break(one, 0, half, 1 - half);
        CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, &err), ZKL_ECONNECT);
        ASSERT_SAYS(err, "may be done, or not");
        CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, &err), ZKL_ECONNECT);
        ASSERT_SAYS(err, "not done: no connection");
        CU_ASSERT_EQUAL(kit_write(ZKL__OP_DELETE, "/maybe", NULL, NULL), half ? ZKL__RC_OK : ZKL__RC_NONODE);
        kit_resume(one);
        kit_tear_down();
    }
}

TEST_WITH_SESSIONS(test_commit_bad_calls)
{
    static char much[ZKL_COMMIT_DATA_MAX / 2 + 1];
    static zkl_op many[ZKL_COMMIT_MAX + 1];
    const zkl_op large = {.kind = ZKL_OP_SET, .path = "/x", .data = much, .size = sizeof much};
    const struct {
        zkl_op ops[2];
        size_t count;
        int code;
    } bad[] = {
        {{{.kind = (zkl_op_kind)9, .path = "/x"}}, 1, ZKL_EINVAL},
        {{{.kind = ZKL_OP_CREATE, .path = "/x", .mode = (zkl_create_mode)9}}, 1, ZKL_EINVAL},
        {{{.kind = ZKL_OP_CREATE, .path = "/x", .acl = &(zkl_acl){0, NULL}}}, 1, ZKL_EINVAL},
        {{{.kind = ZKL_OP_SET}}, 1, ZKL_EINVAL},
        {{{.kind = ZKL_OP_SET, .path = "x"}}, 1, ZKL_EINVAL},
        {{{.kind = ZKL_OP_SET, .path = "/x", .size = 1}}, 1, ZKL_EINVAL},
        {{large, large}, 2, ZKL_ELIMIT},
        {{{.kind = ZKL_OP_SET, .path = "/x", .data = much, .size = SIZE_MAX}}, 1, ZKL_ELIMIT},
    };
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    EACH_ROW (i, bad) {
        zkl_error err;
        CU_ASSERT_EQUAL(zkl_lock_commit(lock, bad[i].ops, bad[i].count, ZKL_WAIT_FOREVER, NULL, &err), bad[i].code);
        CU_ASSERT(err.code == bad[i].code && err.text[0]);
    }
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, many, ZKL_COMMIT_MAX + 1, ZKL_WAIT_FOREVER, NULL, NULL), ZKL_ELIMIT);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, NULL, 1, ZKL_WAIT_FOREVER, NULL, NULL), ZKL_EINVAL);
}

TESTS("lock")
