/* Several locks at once: on the in-process store, and the core's part of them, step by step. */
#include "lock_kit.h"
#include "script.h"

static const char *const abc[] = {"/m/a", "/m/b", "/m/c"};

static zkl_lock *make(void)
{
    zkl_lock *lock;
    ASSERT_OK_FATAL(zkl_multilock_new(&lock, one, abc, 3, NULL, NULL));
    return kit_keep(lock);
}

static size_t stand_at(const char *const *paths, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += kit_queue(two, paths[i]);
    }
    return sum;
}

/* --- all or none --------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_single_locks_queue_with_it)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *single = kit_lock(two, "/m/b", NULL);
    ASSERT_OK(zkl_lock_acquire(single, 0, NULL, NULL));
    zkl_lock *lock = make();
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, &err), ZKL_EBUSY);
    CU_ASSERT_STRING_EQUAL(err.path, "/m/b");
    ASSERT_EVENTUALLY(stand_at(abc, 3) == 1); /* nowhere, not even where it was first */
    kit_acquire_async(lock, on_acquired, &box);
    ASSERT_EVENTUALLY(stand_at(abc, 3) == 4);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_WAITING);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    zkl_lock_release(single, NULL);
    ASSERT_OK(mailbox_code(&box, 1));
    CU_ASSERT_EQUAL(zkl_lock_acquire(single, 0, NULL, NULL), ZKL_EBUSY);
}

TEST_WITH_SESSIONS(test_as_many_as_there_may_be)
{
    char names[ZKL_MULTILOCK_MAX + 1][16];
    const char *paths[ZKL_MULTILOCK_MAX + 1];
    char text[ZKL_DATA_MAX + 1];
    zkl_lock *lock = NULL;
    zkl_error err;
    EACH_ROW (i, paths) {
        snprintf(names[i], sizeof names[i], "/m/%zu", i);
        paths[i] = names[i];
    }
    memset(text, 'x', ZKL_DATA_MAX);
    text[ZKL_DATA_MAX] = '\0';
    CU_ASSERT_EQUAL(zkl_multilock_new(&lock, one, paths, ZKL_MULTILOCK_MAX + 1, NULL, &err), ZKL_ELIMIT);
    ASSERT_SAYS(err, "101");
    ASSERT_OK_FATAL(zkl_multilock_new(&lock, one, paths, ZKL_MULTILOCK_MAX, LOCK_OPTIONS(.metadata = text), NULL));
    kit_acquire(lock);
    CU_ASSERT_EQUAL(stand_at(paths, ZKL_MULTILOCK_MAX), ZKL_MULTILOCK_MAX);
    CU_ASSERT_STRING_EQUAL(zkl_multilock_path(lock, ZKL_MULTILOCK_MAX - 1), paths[ZKL_MULTILOCK_MAX - 1]);
    CU_ASSERT_PTR_NULL(zkl_multilock_path(lock, ZKL_MULTILOCK_MAX));
    CU_ASSERT_PTR_NULL(zkl_multilock_path(lock, SIZE_MAX));
    kit_release(lock);
    CU_ASSERT_EQUAL(stand_at(paths, ZKL_MULTILOCK_MAX), 0);
    kit_free(lock);
}

/* --- trouble ------------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_release_when_one_is_gone)
{
    zkl_lock *lock = make();
    kit_acquire(lock);
    kit_remove_first(abc[2]);
    kit_release(lock); /* the lease covered it; nobody has told us */
    CU_ASSERT_EQUAL(stand_at(abc, 3), 0);
}

TEST_WITH_SESSIONS(test_bad_calls)
{
    static const char *const twice[] = {"/m/a", "/m/b", "/m/a"}, *const wrong[] = {"/m/a", "m"},
                             *const hole[] = {"/m/a", NULL};
    zkl_lock *lock = NULL;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_multilock_new(&lock, one, twice, 3, NULL, &err), ZKL_EINVAL);
    ASSERT_SAYS(err, "/m/a is there twice");
    CU_ASSERT_STRING_EQUAL(err.path, "/m/a");
    CU_ASSERT_EQUAL(zkl_multilock_new(&lock, one, wrong, 2, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_multilock_new(&lock, one, hole, 2, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_multilock_new(&lock, one, abc, SIZE_MAX, NULL, &err), ZKL_ELIMIT);
    CU_ASSERT_EQUAL(zkl_multilock_new(&lock, one, abc, 0, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NULL(lock);
}

/* --- the core: what it asks, and what its owner hears --------------------------------------------------------------------- */

static const char *const ab[] = {"/a", "/b"};

static void begin(void)
{
    script_init();
    script_put("/a", 0);
    script_put("/b", 0);
    script_connect();
    script_answer_all();
    OPS("");
}

#define TEST_IN_BOTH(name) TEST_BETWEEN(begin(), name, script_finish())

static void ask(struct script_owner *owner, size_t count)
{
    CU_ASSERT_TRUE_FATAL(script_contend_jointly(owner, ab, count));
    script_start(owner, INT64_MAX, false);
}

static struct zkl__memory_node *child_of(const char *dir)
{
    return ZKL__OWNER(script_find(dir)->children.first, struct zkl__memory_node, sibling);
}

/* --- one transaction ---------------------------------------------------------------------------------------------- */

TEST_IN_BOTH(test_one_transaction_gives_all)
{
    ask(&me, 2);
    OPS("multi(create,create) list list");
    script_answer();
    script_answer();
    script_answer();
    OPS("exists exists"); /* a multi tells no czxid */
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 0);
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(me.token, child_of("/a")->stat.czxid);
    CU_ASSERT_EQUAL(me.token, child_of("/b")->stat.czxid); /* one token, good for both */
    CU_ASSERT_STRING_EQUAL(zkl__multi_node(me.joint, 1), child_of("/b")->path + 3);
    CU_ASSERT_TRUE(me.machine->ops->holds(me.machine, script.now));
    script_release(&me);
    OPS("multi(delete,delete)");
    CU_ASSERT_EQUAL(me.released, 0);
    script_answer();
    CU_ASSERT_EQUAL(me.released, 1);
    ASSERT_OK(me.code);
}

/* --- ends without a grant ------------------------------------------------------------------------------------------ */

/* One queue refuses us: the other is left, too. */
TEST_IN_BOTH(test_one_refusal_ends_all)
{
    script_find("/b")->stat.cversion = INT32_MAX;
    ask(&me, 2);
    script_answer_all();
    CU_ASSERT_EQUAL(me.code, ZKL_EEXHAUSTED);
    CU_ASSERT_EQUAL(script_ours(), 0);
}

/* The paths fit, but with the session's chroot before them they do not: a caller's mistake, said at once. So is a
 * request that is too large. */
TEST_IN_BOTH(test_paths_too_long_under_the_chroot)
{
    script.refuse_kind = ZKL__OP_MULTI;
    script.refuse_code = ZKL_EINVAL;
    script.refuse_count = 1000;
    ask(&me, 2);
    CU_ASSERT_EQUAL(me.code, ZKL_EINVAL);
    script.refuse_code = ZKL_ELIMIT;
    ask(&me, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "request is larger"));
}

/* Any allocation may fail: it ends, one way or another, and leaves nothing. */
TEST(test_no_memory_anywhere)
{
    int granted = 0;
    for (long nth = 1; nth < 80; nth++) {
        if (!script_init_failing(nth, false)) {
            script_deinit();
            continue;
        }
        script_put("/a", 0);
        script_connect();
        script_answer_all();
        if (script_contend_jointly(&me, ab, 2)) {
            script_start(&me, script.now + 5000 * MS, false);
            script_run(6000 * MS);
            CU_ASSERT_EQUAL(me.granted + me.failed, 1);
            granted += me.granted;
        }
        script_finish();
    }
    CU_ASSERT(granted > 0);
}

#define BLOCKER "/b/_c_11111111-1111-4111-8111-111111111111-lock-0000000000"

/* All were first in the session before. That proves nothing in the next one, where somebody is before us. */
TEST_IN_BOTH(test_lists_of_an_earlier_session)
{
    script_put(BLOCKER, SCRIPT_STRANGER);
    ask(&me, 2);
    script_answer_all();
    script_wait(MS); /* then the list of /a is older, and asked for again */
    script_remove(BLOCKER);
    while (me.joint->listed_at == 0) {
        script_answer();
    }
    script_expire();
    script_put(BLOCKER, SCRIPT_STRANGER);
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(me.joint->listed_at, 0);
}

/* --- loss ---------------------------------------------------------------------------------------------------------- */

TEST_IN_BOTH(test_told_once_of_each)
{
    ask(&me, 1); /* the first word of each decides */
    script_answer_granted(&me);
    script_suspend(0);
    script_wait(100 * MS);
    CU_ASSERT_EQUAL(me.jeopardy, 1);
    script_connect();
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.safe, 1);
    script_suspend(0);
    script_wait(20000 * MS);
    CU_ASSERT_EQUAL(me.jeopardy, 2);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_connect();
    script_answer_all();
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(me.lost, 1);
}

TESTS("multilock")
