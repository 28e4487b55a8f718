/* Contenders in several queues that stand and fall together: what the core asks, and what its owner hears. */
#include "script.h"

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

static void ask(struct script_owner *owner)
{
    CU_ASSERT_TRUE_FATAL(script_contend_jointly(owner, ab));
    script_start(owner, INT64_MAX, false);
}

static struct zkl__memory_node *child_of(const char *dir)
{
    return ZKL__OWNER(script_find(dir)->children.first, struct zkl__memory_node, sibling);
}

/* --- the good days ------------------------------------------------------------------------------------------------- */

TEST_IN_BOTH(test_one_transaction_gives_all)
{
    ask(&me);
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
    CU_ASSERT_TRUE(zkl__multi_holds(script.core, me.joint, script.now));
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
    script_find("/b")->creates = INT32_MAX;
    ask(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(me.code, ZKL_EEXHAUSTED);
    CU_ASSERT_EQUAL(script_ours(), 0);
}

/* The paths fit, but with the session's chroot before them they do not: a caller's mistake, said at once. */
TEST_IN_BOTH(test_paths_too_long_under_the_chroot)
{
    script.refuse_kind = ZKL__OP_MULTI;
    script.refuse_code = ZKL_EINVAL;
    script.refuse_count = 1000;
    ask(&me);
    CU_ASSERT_EQUAL(me.code, ZKL_EINVAL);
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
        if (script_contend_jointly(&me, ab)) {
            script_start(&me, script.now + 5000 * MS, false);
            script_run(6000 * MS);
            CU_ASSERT_EQUAL(me.granted + me.failed, 1);
            granted += me.granted;
        }
        script_finish();
    }
    CU_ASSERT(granted > 0);
}

/* --- loss ---------------------------------------------------------------------------------------------------------- */

TEST_IN_BOTH(test_told_once_of_each)
{
    ask(&me);
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

TESTS("joint")
