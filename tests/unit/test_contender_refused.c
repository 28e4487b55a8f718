/* Servers that refuse or put off what a contender asks for. */
#include "script.h"

#include <string.h>

static void refuse(const char *under_way, enum zkl__rc rc, int code)
{
    OPS(under_way);
    script_answer_with(rc);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.zk_code, -100);
    script_finish_failed(&me, code);
}

static void test_sequence_used_up(void)
{
    script_begin();
    script.next_sequence = (int64_t)INT32_MAX + 1;
    script_acquire(&me);
    script_answer_all();
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "2147483647"));
    script_finish_failed(&me, ZKL_EEXHAUSTED);
}

/* Requests that follow each other closely see the counter wrap: such a number is nobody's place. */
static void test_negative_number(void)
{
    script_begin();
    script.next_sequence = INT32_MIN;
    script_acquire(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish_failed(&me, ZKL_EEXHAUSTED);
}

static void refuse_create(enum zkl__rc rc, int code)
{
    script_begin();
    script_acquire(&me);
    refuse("create list", rc, code);
}

static void test_create_refused(void)
{
    refuse_create(ZKL__RC_NOAUTH, ZKL_EAUTH);
    refuse_create(ZKL__RC_INVALIDACL, ZKL_EAUTH);
    refuse_create(ZKL__RC_EPHEMERALPARENT, ZKL_ECONFLICT);
    refuse_create(ZKL__RC_REFUSED, ZKL_EUNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "refused"));
}

static void test_make_refused(void)
{
    script_begin();
    script_remove("/q");
    script_acquire(&me);
    script_answer();
    script_answer();
    refuse("create", ZKL__RC_EPHEMERALPARENT, ZKL_ECONFLICT);
    script_begin();
    script_remove("/q");
    script_acquire(&me);
    script_answer();
    script_answer();
    refuse("create", ZKL__RC_NOAUTH, ZKL_EAUTH);
}

static void test_list_refused(void)
{
    script_begin();
    script_acquire(&me);
    script_answer();
    refuse("list", ZKL__RC_NOAUTH, ZKL_EAUTH);
}

/* Who may not read its own node learns from the refusal that it is there, and that the session lives: it is granted, and it holds. */
static void test_own_node_hidden(void)
{
    script_begin();
    script.hide_ours = true;
    script_hold(&me);
    script_run(10 * script.timeout);
    CU_ASSERT_EQUAL(me.lost, 0);
    CU_ASSERT_EQUAL(me.jeopardy, 0);
    CU_ASSERT_EQUAL(script.warnings, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(script.warned, "/q#1: READ on our own znode _c_"));
    script_finish();
    script_begin_proving(&me);
    script_find(script_our_path())->hidden = true;
    OPS("check");
    script_answer_all();
    script_run(2 * script.timeout);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_own_node_hidden_and_removed(void)
{
    script_begin();
    script.hide_ours = true;
    script_hold(&me);
    script_run(script.timeout);
    script_remove(script_our_path());
    script_run(script.timeout / 12 + 1000 * MS);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_finish();
}

static void test_stat_refused(void)
{
    script_begin();
    script_acquire(&me);
    script_suspend(2);
    script_connect();
    while (script.op_count != 1 || script.ops[0].kind != ZKL__OP_EXISTS) {
        script_answer();
    }
    refuse("exists", ZKL__RC_NOAUTH, ZKL_EAUTH);
}

/* Never forgotten: until it is gone, or the session is. */
static void test_delete_refused(void)
{
    static const enum zkl__rc rcs[] = {ZKL__RC_NOAUTH, ZKL__RC_NOTAPPLIED, ZKL__RC_REFUSED};
    for (size_t i = 0; i < sizeof rcs / sizeof *rcs; i++) {
        script_begin();
        script_hold(&me);
        script_release(&me);
        CU_ASSERT_EQUAL(script.warnings, 0);
        for (int n = 0; n < 20; n++) {
            OPS("delete");
            script_answer_with(rcs[i]);
            CU_ASSERT_EQUAL(me.released, 0);
            while (script.op_count == 0 || script.ops[0].kind != ZKL__OP_DELETE) {
                script_wait(100 * MS);
                while (script.op_count > 0 && script.ops[0].kind == ZKL__OP_SYNC) {
                    script_answer();
                }
            }
        }
        CU_ASSERT_EQUAL(script.warnings, i == 0); /* by its name, once in all the time */
        CU_ASSERT(i > 0 || strstr(script.warned, "/q#1: DELETE on the directory is missing"));
        if (i == 0) {
            script_answer_all();
        } else {
            script_expire();
        }
        CU_ASSERT_EQUAL(me.released, 1);
        CU_ASSERT_EQUAL(me.code, i == 0 ? ZKL_OK : ZKL_ELOST);
        script_finish();
    }
}

/* A create of unknown fate is not wanted any more, and what carries its uuid may not be deleted: a stranger's is left alone, ours is
 * not forgotten. */
static void test_delete_of_what_a_lost_create_made_refused(void)
{
    for (int ours = 0; ours <= 1; ours++) {
        script_begin();
        script_acquire(&me);
        script_suspend(1);
        script_cancel(&me);
        struct script_node *node = script_find(script_our_path());
        node->fixed = true;
        node->owner = ours ? node->owner : SCRIPT_STRANGER;
        script_connect();
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(zkl__core_idle(script.core), !ours);
        CU_ASSERT_EQUAL(script_ours(), ours);
        for (int i = 0; i < script.node_count; i++) {
            script.nodes[i].fixed = false;
        }
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(script_ours(), 0);
        script_finish();
    }
}

/* The look at whose it is stays unanswered, or is refused. */
static void test_look_at_what_a_lost_create_made_refused(void)
{
    for (int lost = 0; lost <= 1; lost++) {
        script_begin();
        script_acquire(&me);
        script_suspend(1);
        script_cancel(&me);
        script_find(script_our_path())->fixed = true;
        script_connect();
        while (script.op_count == 0 || script.ops[0].kind != ZKL__OP_EXISTS) {
            if (script.op_count > 0) {
                script_answer();
            } else {
                script_wait(100 * MS);
            }
        }
        if (lost) {
            script_suspend(0);
            script_connect();
        } else {
            script_answer_with(ZKL__RC_NOAUTH);
        }
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(script_ours(), 1);
        script_find(script_our_path())->fixed = false;
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(script_ours(), 0);
        script_finish();
    }
}

/* The list behind the barrier says that there is no directory, or is refused, or put off. */
static void test_list_of_an_unwanted_create_refused(void)
{
    static const enum zkl__rc rcs[] = {ZKL__RC_NOAUTH, ZKL__RC_NOTAPPLIED, ZKL__RC_NONODE};
    for (size_t i = 0; i < sizeof rcs / sizeof *rcs; i++) {
        script_begin();
        script_acquire(&me);
        script_suspend(1);
        script_cancel(&me);
        script_connect();
        OPS("check list");
        script_answer_with(rcs[i] == ZKL__RC_NONODE ? ZKL__RC_NOTAPPLIED : ZKL__RC_OK); /* the barrier */
        script_answer_with(rcs[i]); /* without a barrier, that there is no directory proves nothing */
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(script_ours(), 0);
        script_finish();
    }
}

/* Once is not for ever: everything that a server puts off is asked again. */
static void test_put_off_once(void)
{
    int refused = 0, total = 100;
    for (int n = 0; n < total; n++) {
        script_begin_blocked();
        script_acquire(&me);
        int answered = 0;
        for (int turn = 0; turn < 40; turn++) {
            while (script.op_count > 0) {
                if (answered++ == n) {
                    refused++;
                    script_answer_with(ZKL__RC_NOTAPPLIED);
                } else {
                    script_answer();
                }
            }
            if (turn == 20) {
                script_remove(SCRIPT_BLOCKER);
            }
            script_wait(200 * MS);
        }
        CU_ASSERT_EQUAL(me.granted, 1);
        if (me.granted) {
            script_release(&me);
        }
        script_run(100 * MS);
        CU_ASSERT_EQUAL(me.released, 1);
        total = answered;
        script_finish();
    }
    CU_ASSERT(refused > 4);
}

/* The create is put off, and its list takes longer to come back than the putting-off lasts. */
static void test_slow_list_behind_a_create_put_off(void)
{
    script_begin();
    script_acquire(&me);
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_wait(500 * MS);
    OPS("list");
    script_answer();
    OPS("create list");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

TESTS("contender refused", T(test_sequence_used_up), T(test_negative_number), T(test_create_refused),
      T(test_make_refused), T(test_list_refused), T(test_own_node_hidden), T(test_own_node_hidden_and_removed),
      T(test_stat_refused), T(test_delete_refused), T(test_delete_of_what_a_lost_create_made_refused),
      T(test_look_at_what_a_lost_create_made_refused), T(test_list_of_an_unwanted_create_refused), T(test_put_off_once),
      T(test_slow_list_behind_a_create_put_off))
