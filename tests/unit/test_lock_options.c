/* What a lock does when asked to: tell of crashes, hear requests to give way, guard other writes. On the in-process store. */
#include "lock_kit.h"

#include <zklock/zookeeper.h>

#include <stdatomic.h>
#include <string.h>

#define QUEUE "/locks/options"

static enum zkl__rc meddle(enum zkl__op_kind kind, const char *path, const char *data)
{
    enum zkl__rc rc = ZKL__RC_UNKNOWN;
    struct zkl__op op = {.kind = kind, .dir = path, .version = -1, .data = data, .size = data ? strlen(data) : 0};
    CU_ASSERT_EQUAL_FATAL(zkl__memory_meddle(PLACE, &op, &rc), ZKL_OK);
    return rc;
}

static zkl_lock *hold(zkl_session *session, const zkl_lock_options *options)
{
    zkl_lock *lock = kit_lock(session, QUEUE, options);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    return lock;
}

/* --- recover ------------------------------------------------------------------------------------------------------- */

static zkl_lock_options recovering(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recover = true;
    return options;
}

/* Acquires and releases: was the last holder clean? */
static bool unclean(zkl_session *session)
{
    zkl_lock_options options = recovering();
    zkl_lock *lock = kit_lock(session, QUEUE, &options);
    zkl_grant grant = {0};
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, &grant, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    return grant.unclean;
}

static void test_crash_with_nobody_queued(void)
{
    zkl_lock_options options = recovering();
    kit_set_up(NULL);
    CU_ASSERT_FALSE(unclean(two));
    zkl_lock *lock = hold(one, &options);
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_LOST));
    zkl__memory_reap(PLACE); /* the directory stays, and what it knows */
    zkl__memory_reap(PLACE);
    CU_ASSERT_TRUE(unclean(two));
    CU_ASSERT_FALSE(unclean(two)); /* told until somebody released */
    zkl_lock_free(lock);
    CU_ASSERT_FALSE(unclean(two));
    kit_tear_down();
}

static void test_crash_with_one_queued(void)
{
    zkl_lock_options options = recovering();
    struct acquire waiter;
    kit_set_up(NULL);
    zkl_lock *lock = hold(one, &options), *next = kit_lock(two, QUEUE, &options);
    acquire_start(&waiter, next, 10000);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waiter), ZKL_OK);
    CU_ASSERT_TRUE(waiter.grant.unclean);
    zkl_lock_free(next); /* that is a release, too */
    zkl_lock_free(lock);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    CU_ASSERT_FALSE(unclean(two));
    kit_tear_down();
}

static void test_clean_ends_are_no_crash(void)
{
    zkl_lock_options options = recovering();
    struct acquire waiter;
    kit_set_up(NULL);
    zkl_lock *lock = hold(one, &options), *next = kit_lock(two, QUEUE, &options);
    CU_ASSERT_EQUAL(zkl_lock_acquire(next, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_lock_acquire(next, 30, NULL, NULL), ZKL_ETIMEOUT);
    acquire_start(&waiter, next, ZKL_WAIT_FOREVER);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_lock_cancel(next) == ZKL_OK));
    CU_ASSERT_EQUAL(acquire_join(&waiter), ZKL_ECANCELED);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 1));
    zkl_lock_release(lock, NULL);
    CU_ASSERT_FALSE(unclean(two));
    zkl_lock_acquire(lock, 5000, NULL, NULL);
    kit_close(one); /* a close releases */
    zkl_lock_free(lock);
    zkl_lock_free(next);
    CU_ASSERT_FALSE(unclean(two));
    one = kit_open(NULL);
    kit_tear_down();
}

static void test_a_hold_cut_short_is_a_crash(void)
{
    zkl_lock_options options = recovering();
    options.max_hold_ms = 50;
    kit_set_up(NULL);
    zkl_lock *lock = hold(one, &options);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    CU_ASSERT_TRUE(unclean(two));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    zkl_lock_free(lock);
    CU_ASSERT_FALSE(unclean(two));
    lock = hold(one, NULL); /* without the option: its release is not seen */
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_TRUE(unclean(two));
    zkl_lock_free(lock);
    kit_tear_down();
}

static atomic_bool enough;

static void *resume(void *arg)
{
    struct patience patience = {0};
    while (!enough && patience_left(&patience)) {
        zkl__memory_resume(*(int64_t *)arg);
    }
    return NULL;
}

/* The connection goes anywhere between the acquire and the end of the release: no false alarm, nothing left. */
static void test_connection_goes_anywhere(void)
{
    for (size_t whole = 0; whole < 9; whole++) {
        for (size_t half = 0; half <= 1; half++) {
            pthread_t thread;
            kit_set_up(NULL);
            CU_ASSERT_FALSE(unclean(one));
            int64_t id = zkl_session_id(one);
            enough = false;
            CU_ASSERT_EQUAL(zkl__memory_break(id, whole, half, 1 - half), ZKL_OK);
            CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, resume, &id), 0);
            CU_ASSERT_FALSE(unclean(one));
            CU_ASSERT_FALSE(unclean(two));
            zkl__memory_break(id, 0, 0, 0);
            enough = true;
            pthread_join(thread, NULL);
            zkl__memory_resume(id);
            CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0);
            kit_tear_down();
        }
    }
}

/* --- revocation ---------------------------------------------------------------------------------------------------- */

static void on_revoke(zkl_lock *lock, void *payload)
{
    mailbox_put(payload, (struct letter){.from = lock});
}

static void on_revoke_release(zkl_lock *lock, void *payload)
{
    int code = zkl_lock_release(lock, NULL);
    mailbox_put(payload, (struct letter){.from = lock, .code = code});
}

static void test_holder_is_asked(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.revoke_fn = on_revoke;
    options.payload = &box;
    kit_set_up(NULL);
    zkl_lock *lock = hold(one, &options);
    for (size_t i = 1; i <= 3; i++) {
        CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, NULL, 5000, NULL), ZKL_OK);
        CU_ASSERT_TRUE(mailbox_wait(&box, i));
    }
    CU_ASSERT_TRUE(zkl_lock_is_held(lock)); /* it decided to stay */
    char path[256], node[128];
    zkl_lock_node(lock, node, sizeof node);
    snprintf(path, sizeof path, "%s/%s", QUEUE, node);
    CU_ASSERT_EQUAL(meddle(ZKL__OP_SET, path, "something else"), ZKL__RC_OK);
    CU_ASSERT_EQUAL(meddle(ZKL__OP_SET, path, "__REVOKE__ please"), ZKL__RC_OK);
    CU_ASSERT_EQUAL(kit_queue(one, QUEUE), 1);
    CU_ASSERT_EQUAL(mailbox_count(&box), 3);
    CU_ASSERT_EQUAL(meddle(ZKL__OP_SET, path, "__REVOKE__"), ZKL__RC_OK); /* as Curator's Revoker does */
    CU_ASSERT_TRUE(mailbox_wait(&box, 4));
    zkl_lock_release(lock, NULL);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_holder_gives_way(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    struct acquire waiter;
    options.revoke_fn = on_revoke_release;
    options.payload = &box;
    kit_set_up(NULL);
    zkl_lock *lock = hold(one, &options), *next = kit_lock(two, QUEUE, NULL);
    acquire_start(&waiter, next, 10000);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, NULL, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waiter), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(mailbox_last(&box), ZKL_OK);
    zkl_lock_free(next);
    zkl_lock_free(lock);
    kit_tear_down();
}

/* Asked while it waited: told with the grant. Asked by the name of its znode. */
static void test_waiter_is_asked(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    struct acquire waiter;
    char node[128] = "";
    options.revoke_fn = on_revoke;
    options.payload = &box;
    kit_set_up(NULL);
    zkl_lock *lock = hold(one, NULL), *next = kit_lock(two, QUEUE, &options);
    acquire_start(&waiter, next, 10000);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_lock_node(next, node, sizeof node) > 0));
    CU_ASSERT_EQUAL(zkl_queue_revoke(one, QUEUE, node, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    zkl_lock_release(lock, NULL);
    CU_ASSERT_EQUAL(acquire_join(&waiter), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    zkl_lock_free(next);
    zkl_lock_free(lock);
    kit_tear_down();
}

/* Without revoke_fn nobody but its own session may write the znode, and that does not either: who waits would take it for the
 * announcement of a release. Who asks is told so. */
static void test_who_does_not_listen(void)
{
    zkl_error err;
    kit_set_up(NULL);
    zkl_lock *lock = hold(one, NULL);
    zkl_session *const sessions[] = {one, two};
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(zkl_queue_revoke(sessions[i], QUEUE, NULL, 5000, &err), ZKL_EAUTH);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "does not listen"));
    }
    CU_ASSERT(zkl_lock_is_held(lock));
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_nobody_to_ask(void)
{
    zkl_error err;
    kit_set_up(NULL);
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, NULL, 5000, &err), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, "_c_11111111-1111-4111-8111-111111111111-lock-0000000007", 5000, &err),
                    ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, "config", 5000, &err), ZKL_EINVAL); /* no contender's */
    CU_ASSERT_EQUAL(zkl_queue_revoke(NULL, QUEUE, NULL, 5000, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, "x", NULL, 5000, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_queue_revoke(two, QUEUE, NULL, -2, &err), ZKL_EINVAL);
    kit_tear_down();
}

/* --- the guarded transaction --------------------------------------------------------------------------------------- */

static void test_commit(void)
{
    zkl_op_result results[4];
    const zkl_op ops[] = {
        {.kind = ZKL_OP_CREATE, .path = "/data", .data = "one", .size = 3},
        {.kind = ZKL_OP_CREATE, .path = "/data/n-", .mode = ZKL_CREATE_PERSISTENT_SEQUENTIAL},
        {.kind = ZKL_OP_SET, .path = "/data", .data = "two", .size = 3, .version = 0},
        {.kind = ZKL_OP_CHECK, .path = "/data", .version = 1},
    };
    const zkl_op away[] = {{.kind = ZKL_OP_DELETE, .path = "/data/n-0000000000", .version = ZKL_ANY_VERSION},
                           {.kind = ZKL_OP_DELETE, .path = "/data", .version = 1}};
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, ops, 4, ZKL_WAIT_FOREVER, results, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, NULL, 0, ZKL_WAIT_FOREVER, NULL, NULL), ZKL_OK); /* the bare question */
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, ops, 4, ZKL_WAIT_FOREVER, results, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(results[0].path, "/data");
    CU_ASSERT_STRING_EQUAL(results[1].path, "/data/n-0000000000");
    CU_ASSERT_EQUAL(results[2].version, 1);
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(results[i].code, ZKL_OK);
    }
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, away, 2, ZKL_WAIT_FOREVER, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(meddle(ZKL__OP_DELETE, "/data", NULL), ZKL__RC_NONODE);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_commit_fails_whole(void)
{
    zkl_op_result results[3];
    zkl_op ops[] = {{.kind = ZKL_OP_CREATE, .path = "/whole"},
                    {.kind = ZKL_OP_SET, .path = "/locks", .version = 77},
                    {.kind = ZKL_OP_CREATE, .path = "/whole2"}};
    zkl_error err;
    kit_set_up(NULL);
    zkl_lock *lock = hold(one, NULL);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, ops, 3, ZKL_WAIT_FOREVER, results, &err), ZKL_ECONFLICT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "operation 1: bad version"));
    CU_ASSERT_STRING_EQUAL(err.path, "/locks");
    CU_ASSERT(err.zk_code != 0);
    CU_ASSERT_EQUAL(results[0].code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(results[1].code, ZKL_ECONFLICT);
    CU_ASSERT_EQUAL(results[2].code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(meddle(ZKL__OP_DELETE, "/whole", NULL), ZKL__RC_NONODE);
    ops[1] = (zkl_op){.kind = ZKL_OP_CHECK, .path = "/nowhere", .version = ZKL_ANY_VERSION};
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, ops, 3, ZKL_WAIT_FOREVER, results, &err),
                    ZKL_ENOENT); /* not our node's: theirs */
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_commit_after_a_loss(void)
{
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = "/late"};
    zkl_error err;
    kit_set_up(NULL);
    zkl_lock *lock = hold(one, NULL);
    kit_remove_node(lock); /* and we do not know it yet */
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, &err), ZKL_ELOST);
    CU_ASSERT_EQUAL(meddle(ZKL__OP_DELETE, "/late", NULL), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_LOST));
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, &err), ZKL_ELOST);
    zkl_lock_free(lock);
    kit_tear_down();
}

/* The connection goes with the request or with the answer: both look alike from here, and the words say so. */
static void test_commit_of_unknown_fate(void)
{
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = "/maybe"};
    for (size_t half = 0; half <= 1; half++) {
        zkl_error err;
        kit_set_up(NULL);
        zkl_lock *lock = hold(one, NULL);
        CU_ASSERT_EQUAL(zkl__memory_break(zkl_session_id(one), 0, half, 1 - half), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, &err), ZKL_ECONNECT);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "may be done, or not"));
        CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, &err), ZKL_ECONNECT);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "not done: no connection"));
        CU_ASSERT_EQUAL(meddle(ZKL__OP_DELETE, "/maybe", NULL), half ? ZKL__RC_OK : ZKL__RC_NONODE);
        CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
        zkl_lock_free(lock);
        kit_tear_down();
    }
}

static void test_commit_without_an_answer(void)
{
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = "/maybe"};
    zkl_session_options brief = kit_short();
    zkl_error err;
    kit_set_up(&brief);
    zkl_lock *lock = hold(one, NULL);
    int64_t from = now_ms();
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(one), true), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, &err),
                    ZKL_ECONNECT); /* by the end of the lease */
    CU_ASSERT(now_ms() - from < 5000);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "may be done, or not"));
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(one), false), ZKL_OK);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void *commit_slowly(void *arg)
{
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = "/maybe"};
    zkl_error err;
    CU_ASSERT_NOT_EQUAL(zkl_lock_commit(arg, &op, 1, ZKL_WAIT_FOREVER, NULL, &err), ZKL_OK);
    return NULL;
}

/* What it looks at stays until it has returned: memcheck and the sanitizers would say so. */
static void test_lock_is_freed_under_a_commit(void)
{
    pthread_t thread;
    zkl_session_options brief = kit_short();
    zkl_stats before = ZKL_STATS_INIT, now = ZKL_STATS_INIT;
    kit_set_up(&brief);
    zkl_lock *lock = hold(one, NULL);
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(one), true), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_session_stats(one, &before), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, commit_slowly, lock), 0);
    uint64_t asked = before.requests - before.heartbeats;
    CU_ASSERT(EVENTUALLY(zkl_session_stats(one, &now) == ZKL_OK && now.requests - now.heartbeats > asked));
    zkl_lock_free(lock);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(one), false), ZKL_OK);
    kit_tear_down();
}

static void expect(zkl_lock *lock, const zkl_op *op, size_t count, int code)
{
    zkl_error err = {0};
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, op, count, ZKL_WAIT_FOREVER, NULL, &err), code);
    CU_ASSERT_EQUAL(err.code, code);
    CU_ASSERT(strlen(err.text) > 0);
}

static void test_commit_bad_calls(void)
{
    static char much[ZKL_COMMIT_DATA_MAX / 2 + 1];
    static zkl_op many[ZKL_COMMIT_MAX + 1];
    kit_set_up(NULL);
    zkl_lock *lock = hold(one, NULL);
    expect(NULL, many, 1, ZKL_EINVAL);
    expect(lock, NULL, 1, ZKL_EINVAL);
    expect(lock, &(zkl_op){.kind = (zkl_op_kind)9, .path = "/x"}, 1, ZKL_EINVAL);
    expect(lock, &(zkl_op){.kind = ZKL_OP_CREATE, .path = "/x", .mode = (zkl_create_mode)9}, 1, ZKL_EINVAL);
    expect(lock, &(zkl_op){.kind = ZKL_OP_CREATE, .path = "/x", .acl = &(zkl_acl){0, NULL}}, 1, ZKL_EINVAL);
    expect(lock, &(zkl_op){.kind = ZKL_OP_SET}, 1, ZKL_EINVAL);
    expect(lock, &(zkl_op){.kind = ZKL_OP_SET, .path = "x"}, 1, ZKL_EINVAL);
    expect(lock,
           &(zkl_op){.kind = ZKL_OP_SET, .path = QUEUE "/_c_11111111-1111-8111-8111-111111111111-lock-0000000000"}, 1,
           ZKL_EINVAL); /* would be taken for a release */
    expect(lock, &(zkl_op){.kind = ZKL_OP_SET, .path = "/x/"}, 1, ZKL_EINVAL);
    expect(lock, &(zkl_op){.kind = ZKL_OP_SET, .path = "/x", .size = 1}, 1, ZKL_EINVAL);
    expect(lock, many, ZKL_COMMIT_MAX + 1, ZKL_ELIMIT);
    zkl_op large = {.kind = ZKL_OP_SET, .path = "/x", .data = much, .size = sizeof much};
    expect(lock, (zkl_op[]){large, large}, 2, ZKL_ELIMIT);
    large.size = SIZE_MAX;
    expect(lock, &large, 1, ZKL_ELIMIT);
    zkl_lock_free(lock);
    kit_tear_down();
}

TESTS("lock_options", T(test_crash_with_nobody_queued), T(test_crash_with_one_queued), T(test_clean_ends_are_no_crash),
      T(test_a_hold_cut_short_is_a_crash), T(test_connection_goes_anywhere), T(test_holder_is_asked),
      T(test_holder_gives_way), T(test_waiter_is_asked), T(test_who_does_not_listen), T(test_nobody_to_ask),
      T(test_commit), T(test_commit_fails_whole), T(test_commit_after_a_loss), T(test_commit_of_unknown_fate),
      T(test_commit_without_an_answer), T(test_lock_is_freed_under_a_commit), T(test_commit_bad_calls))
