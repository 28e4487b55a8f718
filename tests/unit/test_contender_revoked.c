/* A holder that is asked to give way, by a write on its node. */
#include "script.h"

#include <string.h>

static void hold_revocably(struct script_owner *owner)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    config.revocable = true;
    CU_ASSERT_TRUE_FATAL(script_contend(owner, &config));
    script_start(owner, INT64_MAX, false);
    script_answer_all();
    CU_ASSERT_EQUAL_FATAL(owner->granted, 1);
}

static void test_request_is_told(void)
{
    script_begin();
    hold_revocably(&me);
    CU_ASSERT_EQUAL(script.watch_count, 1);
    for (int i = 1; i <= 3; i++) {
        script_write(script_our_path(), "__REVOKE__");
        script_answer_all();
        CU_ASSERT_EQUAL(me.revoked, i);
    }
    STATE(&me, "held"); /* whether it goes is its own affair */
    script_write(script_our_path(), "__REVOKE__!");
    script_write(script_our_path(), "");
    script_answer_all();
    CU_ASSERT_EQUAL(me.revoked, 3);
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_finish();
}

static void test_request_made_while_we_waited(void)
{
    script_begin();
    script_put("/q/_c_11111111-1111-4111-8111-111111111111-lock-0000000000", SCRIPT_STRANGER);
    script.next_sequence = 1;
    struct zkl__contender_config config = script_config(&me, "/q");
    config.revocable = true;
    CU_ASSERT_TRUE_FATAL(script_contend(&me, &config));
    script_start(&me, INT64_MAX, false);
    script_answer_all();
    script_write(script_our_path(), "__REVOKE__");
    CU_ASSERT_EQUAL(me.revoked, 0);
    script_remove("/q/_c_11111111-1111-4111-8111-111111111111-lock-0000000000");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(me.revoked, 1);
    script_finish();
}

static void test_request_is_told_once_over_reconnects(void)
{
    script_begin();
    hold_revocably(&me);
    script_write(script_our_path(), "__REVOKE__");
    script_suspend(1); /* while we look */
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(me.revoked, 1);
    script_suspend(0);
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(me.revoked, 1);
    script_step((struct zkl__event){.kind = ZKL__EV_WATCH, .watch = ZKL__WATCH_CHANGED, .path = script_our_path()});
    script_answer_all(); /* the same request, seen again */
    CU_ASSERT_EQUAL(me.revoked, 1);
    script_suspend(0);
    script_write(script_our_path(), "__REVOKE__"); /* seen only afterwards */
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(me.revoked, 2);
    script_finish();
}

static void test_removal_is_noticed_at_once(void)
{
    script_begin();
    hold_revocably(&me);
    script_remove(script_our_path());
    script_answer_all();
    CU_ASSERT_EQUAL(me.lost, 1);
    script_finish();
}

static void test_removed_before_we_look(void)
{
    char path[SCRIPT_PATH];
    script_begin();
    hold_revocably(&me);
    strcpy(path, script_our_path());
    script_change(path);
    OPS("get");
    script_remove(path); /* nothing is watched meanwhile */
    CU_ASSERT_EQUAL(me.lost, 0);
    script_answer();
    CU_ASSERT_EQUAL(me.lost, 1);
    script_finish();
}

static void test_watch_refused(void)
{
    script_begin();
    script.refuse_kind = ZKL__OP_GET;
    script.refuse_code = ZKL_ELIMIT;
    script.refuse_count = 3;
    hold_revocably(&me);
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(script.watch_count, 1);
    script_write(script_our_path(), "__REVOKE__");
    script_answer_all();
    CU_ASSERT_EQUAL(me.revoked, 1);
    script_finish();
}

TESTS("contender revoked", T(test_request_is_told), T(test_request_made_while_we_waited),
      T(test_request_is_told_once_over_reconnects), T(test_removal_is_noticed_at_once), T(test_removed_before_we_look),
      T(test_watch_refused))
