/* The mark on the directory by which the next holder learns that the last one crashed. */
#include "script.h"

#include <string.h>

static struct script s;
static struct script_owner me, you, third;

static void ask_marking(struct script_owner *owner, int64_t deadline)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    config.mark = true;
    CU_ASSERT_TRUE_FATAL(script_contend(&s, owner, &config));
    script_start(&s, owner, deadline, false);
}

static const char *mark(void)
{
    return script_find(&s, "/q")->data;
}

static void test_mark_comes_and_goes(void)
{
    script_begin(&s);
    ask_marking(&me, INT64_MAX);
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "get");
    script_answer(&s);
    OPS(&s, "multi(check,set)");
    CU_ASSERT_EQUAL(me.granted, 0);
    script_answer(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_FALSE(me.unclean);
    CU_ASSERT_EQUAL(strncmp(mark(), "held by ", 8), 0);
    script_release(&s, &me);
    OPS(&s, "multi(delete,set)");
    script_answer(&s);
    CU_ASSERT_STRING_EQUAL(mark(), "");
    script_finish(&s);
}

static void crash(struct script_owner *owner)
{
    script_expire(&s);
    CU_ASSERT_EQUAL(owner->lost, 1);
    script_connect(&s);
    script_release(&s, owner);
    script_answer_all(&s);
}

static void test_crash_is_told_to_the_next(void)
{
    script_begin(&s);
    ask_marking(&me, INT64_MAX);
    script_answer_all(&s);
    crash(&me);
    for (int i = 0; i < 2; i++) { /* to whoever comes next, until one has released */
        ask_marking(&you, INT64_MAX);
        script_answer_all(&s);
        CU_ASSERT_TRUE(you.unclean);
        if (i == 0) {
            crash(&you);
        }
    }
    script_release(&s, &you);
    script_answer_all(&s);
    ask_marking(&third, INT64_MAX);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_FALSE(third.unclean);
    script_finish(&s);
}

static void test_crash_is_told_to_one_in_the_queue(void)
{
    script_begin(&s);
    ask_marking(&me, INT64_MAX);
    script_answer_all(&s);
    ask_marking(&you, INT64_MAX);
    script_answer_all(&s);
    script_remove(&s, script_our_path(&s)); /* the waiter's: it queues again, at the tail */
    script_answer_all(&s);
    for (int i = 0; i < s.node_count; i++) { /* the holder's */
        if (strstr(s.nodes[i].path, "lock-0000000000")) {
            script_remove(&s, s.nodes[i].path);
        }
    }
    script_run(&s, 5000 * MS);
    CU_ASSERT_EQUAL(me.lost, 1); /* by its next heartbeat; and only then */
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_TRUE(you.unclean);
    script_release(&s, &me); /* lost: takes no mark away */
    script_answer_all(&s);
    CU_ASSERT_EQUAL(strncmp(mark(), "held by ", 8), 0);
    script_finish(&s);
}

static void test_who_only_waited_leaves_no_mark(void)
{
    script_begin(&s);
    ask_marking(&me, INT64_MAX);
    script_answer_all(&s);
    ask_marking(&you, s.now + 100 * MS);
    script_answer_all(&s);
    script_run(&s, 200 * MS);
    CU_ASSERT_EQUAL(you.code, ZKL_ETIMEOUT);
    script_release(&s, &me);
    script_answer_all(&s);
    CU_ASSERT_STRING_EQUAL(mark(), "");
    script_finish(&s);
}

/* Given up at any moment between the first request and the grant, with and without the answer: it looks like no crash. Only the
 * end of the session there does. */
static void test_given_up_before_the_grant(void)
{
    for (int answered = 0; answered < 4; answered++) {
        for (int way = 0; way < 3; way++) {
            script_begin(&s);
            ask_marking(&me, INT64_MAX);
            for (int i = 0; i < answered; i++) {
                script_answer(&s);
            }
            if (me.granted) {
                script_finish(&s);
                continue;
            }
            if (way > 0) {
                script_suspend(&s, way - 1);
            }
            script_cancel(&s, &me);
            if (way > 0) {
                script_connect(&s);
            }
            script_run(&s, 5000 * MS);
            CU_ASSERT_EQUAL(script_ours(&s), 0);
            ask_marking(&you, INT64_MAX);
            script_answer_all(&s);
            CU_ASSERT_EQUAL(you.granted, 1);
            CU_ASSERT_FALSE(you.unclean);
            script_finish(&s);
        }
    }
}

/* Who was told and gave up did not clean up. */
static void test_given_up_after_a_crash(void)
{
    for (int answered = 0; answered < 4; answered++) {
        script_begin(&s);
        ask_marking(&me, INT64_MAX);
        script_answer_all(&s);
        crash(&me);
        ask_marking(&you, INT64_MAX);
        for (int i = 0; i < answered; i++) {
            script_answer(&s);
        }
        if (!you.granted) {
            script_cancel(&s, &you);
            script_run(&s, 5000 * MS);
            ask_marking(&third, INT64_MAX);
            script_answer_all(&s);
            CU_ASSERT_TRUE(third.unclean);
        }
        script_finish(&s);
    }
}

static void test_lost_reply_of_the_mark(void)
{
    for (int applied = 0; applied <= 1; applied++) {
        script_begin(&s);
        ask_marking(&me, INT64_MAX);
        for (int i = 0; i < 3; i++) {
            script_answer(&s);
        }
        OPS(&s, "multi(check,set)");
        script_suspend(&s, applied);
        script_connect(&s);
        script_answer_all(&s);
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT_FALSE(me.unclean);
        script_release(&s, &me);
        script_answer_all(&s);
        CU_ASSERT_STRING_EQUAL(mark(), "");
        script_finish(&s);
    }
}

static void answer_up_to_the_mark(void)
{
    for (int i = 0; i < 3; i++) {
        script_answer(&s);
    }
    OPS(&s, "multi(check,set)");
}

/* The session ends with the mark under way: what an attempt of ours left is no crash of a holder. */
static void test_expiry_with_the_mark_under_way(void)
{
    for (int applied = 0; applied <= 1; applied++) {
        script_begin(&s);
        ask_marking(&me, INT64_MAX);
        answer_up_to_the_mark();
        script_suspend(&s, applied);
        CU_ASSERT_EQUAL(strncmp(mark(), "held by ", 8) == 0, applied);
        script_expire(&s);
        script_connect(&s);
        script_answer_all(&s);
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT_FALSE(me.unclean);
        script_finish(&s);
    }
}

/* Somebody removes our node before the mark is made: the mark is not, and we queue again. */
static void test_removed_before_the_mark(void)
{
    script_begin(&s);
    ask_marking(&me, INT64_MAX);
    answer_up_to_the_mark();
    script_remove(&s, script_our_path(&s));
    script_answer(&s);
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_STRING_EQUAL(mark(), "");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

/* The directory may not be read: no grant without knowing. */
static void test_read_of_the_mark_refused(void)
{
    script_begin(&s);
    ask_marking(&me, INT64_MAX);
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "get");
    script_answer_with(&s, ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_EAUTH);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(script_ours(&s), 0);
    script_finish(&s);
}

static void test_release_with_a_lost_reply(void)
{
    for (int applied = 0; applied <= 1; applied++) {
        script_begin(&s);
        ask_marking(&me, INT64_MAX);
        script_answer_all(&s);
        script_release(&s, &me);
        script_suspend(&s, applied);
        script_connect(&s);
        script_answer_all(&s);
        CU_ASSERT_EQUAL(me.released, 1);
        CU_ASSERT_STRING_EQUAL(mark(), "");
        script_finish(&s);
    }
}

/* The right to write the directory was taken away meanwhile: the node goes nevertheless. */
static void test_release_when_the_mark_may_not_be_written(void)
{
    script_begin(&s);
    ask_marking(&me, INT64_MAX);
    script_answer_all(&s);
    script_release(&s, &me);
    OPS(&s, "multi(delete,set)");
    script_answer_with(&s, ZKL__RC_NOAUTH);
    script_run(&s, 1000 * MS);
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(script_ours(&s), 0);
    script_finish(&s);
}

static void test_mark_refused(void)
{
    script_begin(&s);
    ask_marking(&me, INT64_MAX);
    for (int i = 0; i < 3; i++) {
        script_answer(&s);
    }
    script_answer_with(&s, ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_EAUTH);
    script_answer_with(&s, ZKL__RC_NOAUTH);
    script_run(&s, 1000 * MS);
    CU_ASSERT_EQUAL(script_ours(&s), 0);
    script_finish(&s);
}

static void test_directory_is_made_persistent(void)
{
    script_begin(&s);
    struct zkl__contender_config config = script_config(&me, "/new/dir");
    config.mark = true;
    CU_ASSERT_TRUE_FATAL(script_contend(&s, &me, &config));
    script_start(&s, &me, INT64_MAX, false);
    while (!me.granted) {
        struct script_op op = script_answer(&s);
        CU_ASSERT(op.kind != ZKL__OP_CREATE || op.mode == ZKL__PERSISTENT || op.mode == ZKL__EPHEMERAL_SEQUENTIAL);
    }
    script_finish(&s);
}

TESTS("contender mark", T(test_mark_comes_and_goes), T(test_crash_is_told_to_the_next),
      T(test_crash_is_told_to_one_in_the_queue), T(test_who_only_waited_leaves_no_mark),
      T(test_given_up_before_the_grant), T(test_given_up_after_a_crash), T(test_lost_reply_of_the_mark),
      T(test_expiry_with_the_mark_under_way), T(test_removed_before_the_mark), T(test_read_of_the_mark_refused),
      T(test_release_with_a_lost_reply), T(test_release_when_the_mark_may_not_be_written), T(test_mark_refused),
      T(test_directory_is_made_persistent))
