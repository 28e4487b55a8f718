/* Contenders that read and write: who is granted beside whom, and the writer that becomes a reader. */
#include "script.h"

#include <string.h>

static const struct zkl__rule writer = {"__WRIT__", ZKL__KIND_ANY};
static const struct zkl__rule reader = {"__READ__", ZKL__KIND_ANY & ~ZKL__KIND(ZKL_KIND_READ)};

static void ask(struct script_owner *owner, const struct zkl__rule *rule)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    config.rule = rule;
    CU_ASSERT_TRUE_FATAL(script_contend(owner, &config));
    script_start(owner, INT64_MAX, false);
    script_answer_all();
}

static void downgrade(struct script_owner *owner)
{
    script_step((struct zkl__event){.kind = ZKL__EV_DOWNGRADE, .contender = owner->contender, .rule = &reader});
}

/* --- readers and writers ------------------------------------------------------------------------------------------- */

static void test_readers_together_writers_alone(void)
{
    struct script_owner readers[3];
    script_begin();
    ask(&readers[0], &reader);
    ask(&readers[1], &reader);
    CU_ASSERT_EQUAL(readers[0].granted + readers[1].granted, 2);
    ask(&me, &writer);
    ask(&readers[2], &reader); /* behind a writer that waits: it waits, too */
    CU_ASSERT_EQUAL(me.granted + readers[2].granted, 0);
    script_release(&readers[0]);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 0);
    script_release(&readers[1]);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(readers[2].granted, 0);
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(readers[2].granted, 1);
    script_finish();
}

static void test_readers_wait_for_every_other_kind(void)
{
    static const char *const others[] = {
        "/q/_c_11111111-1111-4111-8111-111111111111-lock-0000000000",
        "/q/_c_11111111-1111-4111-8111-111111111111-__WRIT__0000000000",
        "/q/11111111111141118111111111111111__lock__0000000000",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        script_begin();
        script_put(others[i], SCRIPT_STRANGER);
        script.next_sequence = 1;
        ask(&me, &reader);
        CU_ASSERT_EQUAL(me.granted, 0);
        ask(&you, &zkl__rule_mutex); /* behind a reader that waits */
        script_remove(others[i]);
        script_answer_all();
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT_EQUAL(you.granted, 0);
        script_finish();
    }
}

/* A writer's end wakes the readers right behind it, each once, and no later writer; a reader's end wakes nobody but the writer that
 * watches it. */
static void test_one_wake_up_each(void)
{
    struct script_owner readers[4];
    script_begin();
    ask(&me, &writer);
    for (int i = 0; i < 4; i++) {
        ask(&readers[i], &reader);
    }
    ask(&you, &writer);
    ask(&third, &writer);
    int before = script.submits;
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(script.submits - before, 1); /* the delete: we are all of one session */
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(readers[i].granted, 1);
    }
    before = script.submits;
    for (int i = 0; i < 3; i++) {
        script_release(&readers[i]);
        script_answer_all();
    }
    CU_ASSERT_EQUAL(script.submits - before, 3); /* the writer waits for the last of them */
    script_release(&readers[3]);
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(script.submits - before, 3 + 2); /* others may read beside the last one: so it looks again */
    before = script.submits;
    script_release(&you);
    script_answer_all();
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_EQUAL(script.submits - before, 1);
    script_finish();
}

/* --- downgrade ----------------------------------------------------------------------------------------------------- */

static void test_downgrade_keeps_place_and_token(void)
{
    script_begin();
    ask(&me, &writer);
    ask(&you, &reader);
    ask(&third, &writer);
    char old[SCRIPT_PATH];
    strcpy(old, zkl__contender_node(me.contender));
    downgrade(&me);
    OPS("multi(create,delete)");
    CU_ASSERT_EQUAL(me.downgraded, 0);
    script_answer_all();
    CU_ASSERT_EQUAL(me.downgraded, 1);
    CU_ASSERT_EQUAL(me.token, zkl__contender_token(me.contender));
    const char *new = zkl__contender_node(me.contender);
    CU_ASSERT_EQUAL(strncmp(new, old, 40), 0); /* the same uuid */
    CU_ASSERT_STRING_EQUAL(new + strlen(new) - 18, "__READ__0000000000");
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(third.granted, 0); /* a writer waits for the reader that we are now */
    script_run(20000 * MS);
    CU_ASSERT_EQUAL(me.lost, 0); /* heartbeats are on the new node */
    script_release(&you);
    script_answer_all();
    CU_ASSERT_EQUAL(third.granted, 0);
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(third.granted, 1);
    script_finish();
}

static void test_downgrade_with_a_lost_reply(void)
{
    for (int applied = 0; applied <= 1; applied++) {
        script_begin();
        ask(&me, &writer);
        downgrade(&me);
        script_suspend(applied);
        script_connect();
        script_answer_all();
        CU_ASSERT_EQUAL(me.downgraded, 1);
        CU_ASSERT_EQUAL(script_ours(), 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(script_our_path(), "__READ__"));
        script_run(20000 * MS);
        CU_ASSERT_EQUAL(me.lost, 0);
        script_finish();
    }
}

static void test_downgrade_without_a_connection(void)
{
    script_begin();
    ask(&me, &writer);
    script_suspend(0);
    downgrade(&me);
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(me.downgraded, 1);
    script_finish();
}

static void test_downgrade_put_off_is_done_later(void)
{
    script_begin();
    ask(&me, &writer);
    downgrade(&me);
    script_answer_with(ZKL__RC_NOTAPPLIED);
    CU_ASSERT_EQUAL(me.downgraded, 0);
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.downgraded, 1);
    CU_ASSERT_EQUAL(me.lost, 0);
    script_finish();
}

/* Release, loss, expiry and close while it is under way: one node or the other, it goes. */
static void test_downgrade_interrupted(void)
{
    for (int way = 0; way < 5; way++) {
        for (int applied = 0; applied <= 1; applied++) {
            script_begin();
            ask(&me, &writer);
            downgrade(&me);
            if (way == 0) {
                script_release(&me);
            } else if (way == 1) {
                script_suspend(applied);
                script_release(&me);
            } else if (way == 2) {
                script_suspend(applied);
                script_wait(12000 * MS);
                CU_ASSERT_EQUAL(me.lost, 1);
                script_connect();
                script_release(&me);
            } else if (way == 3) {
                script_expire();
                CU_ASSERT_EQUAL(me.lost, 1);
                script_connect();
                script_release(&me);
            }
            script_finish();
        }
    }
}

/* The time to hold passes while the fate of the change is unknown: whichever node is there, it goes. */
static void test_downgrade_of_unknown_fate_beyond_max_hold(void)
{
    for (int applied = 0; applied <= 1; applied++) {
        script_begin();
        struct zkl__contender_config config = script_config(&me, "/q");
        config.rule = &writer;
        config.max_hold = 2000 * MS;
        CU_ASSERT_TRUE_FATAL(script_contend(&me, &config));
        script_start(&me, INT64_MAX, false);
        script_answer_all();
        downgrade(&me);
        script_suspend(applied);
        script_wait(2500 * MS);
        CU_ASSERT_EQUAL(me.lost, 1);
        CU_ASSERT_EQUAL(script_ours(), 1);
        script_connect();
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(script_ours(), 0); /* without waiting for the owner */
        script_release(&me);
        script_answer_all();
        CU_ASSERT_EQUAL(me.released, 1);
        script_finish();
    }
}

/* The lease ends while the change is under way, and its answer is lost, or a refusal: it is not asked for again. */
static void test_downgrade_answered_after_the_loss(void)
{
    static const enum zkl__rc rcs[] = {ZKL__RC_UNKNOWN, ZKL__RC_NOTAPPLIED, ZKL__RC_OK};
    for (size_t i = 0; i < sizeof rcs / sizeof *rcs; i++) {
        script_begin();
        ask(&me, &writer);
        downgrade(&me);
        script_wait(12000 * MS); /* nothing is answered */
        CU_ASSERT_EQUAL(me.lost, 1);
        if (rcs[i] == ZKL__RC_UNKNOWN) {
            script_suspend(1);
            script_connect();
        } else if (rcs[i] == ZKL__RC_OK) {
            script_answer();
        } else {
            script_answer_with(rcs[i]);
        }
        script_answer_all();
        CU_ASSERT_EQUAL(me.downgraded, 0);
        script_release(&me);
        script_run(1000 * MS);
        CU_ASSERT_EQUAL(me.released, 1);
        CU_ASSERT_EQUAL(script_ours(), 0);
        script_finish();
    }
}

static void test_downgrade_of_a_node_that_went(void)
{
    script_begin();
    ask(&me, &writer);
    script_remove(script_our_path());
    downgrade(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(me.downgraded, 0);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    script_finish();
}

/* A heartbeat under way before and behind the change. */
static void test_downgrade_and_heartbeat_together(void)
{
    for (int64_t delay = 0; delay < 3000; delay += 50) {
        script_begin();
        ask(&me, &writer);
        script_wait(delay * MS);
        downgrade(&me);
        script_wait(2000 * MS); /* heartbeats pile up behind it */
        script_answer_all();
        CU_ASSERT_EQUAL(me.downgraded, 1);
        CU_ASSERT_EQUAL(me.lost, 0);
        script_finish();
    }
}

TESTS("contender shared", T(test_readers_together_writers_alone), T(test_readers_wait_for_every_other_kind),
      T(test_one_wake_up_each), T(test_downgrade_keeps_place_and_token), T(test_downgrade_with_a_lost_reply),
      T(test_downgrade_without_a_connection), T(test_downgrade_put_off_is_done_later), T(test_downgrade_interrupted),
      T(test_downgrade_of_unknown_fate_beyond_max_hold), T(test_downgrade_answered_after_the_loss),
      T(test_downgrade_of_a_node_that_went), T(test_downgrade_and_heartbeat_together))
