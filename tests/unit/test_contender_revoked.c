/* A holder that is asked to give way, by a write on its node. */
#include "script.h"

#include <string.h>

static struct script s;
static struct script_owner me;

static void hold_revocably(struct script_owner *owner)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    config.revocable = true;
    CU_ASSERT_TRUE_FATAL(script_contend(&s, owner, &config));
    script_start(&s, owner, INT64_MAX, false);
    script_answer_all(&s);
    CU_ASSERT_EQUAL_FATAL(owner->granted, 1);
}

static void test_request_is_told(void)
{
    script_begin(&s);
    hold_revocably(&me);
    CU_ASSERT_EQUAL(s.watch_count, 1);
    for (int i = 1; i <= 3; i++) {
        script_write(&s, script_our_path(&s), "__REVOKE__");
        script_answer_all(&s);
        CU_ASSERT_EQUAL(me.revoked, i);
    }
    STATE(&me, "held"); /* whether it goes is its own affair */
    script_write(&s, script_our_path(&s), "__REVOKE__!");
    script_write(&s, script_our_path(&s), "");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.revoked, 3);
    script_release(&s, &me);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    script_finish(&s);
}

static void test_request_made_while_we_waited(void)
{
    script_begin(&s);
    script_put(&s, "/q/_c_11111111-1111-4111-8111-111111111111-lock-0000000000", SCRIPT_STRANGER);
    s.next_sequence = 1;
    struct zkl__contender_config config = script_config(&me, "/q");
    config.revocable = true;
    CU_ASSERT_TRUE_FATAL(script_contend(&s, &me, &config));
    script_start(&s, &me, INT64_MAX, false);
    script_answer_all(&s);
    script_write(&s, script_our_path(&s), "__REVOKE__");
    CU_ASSERT_EQUAL(me.revoked, 0);
    script_remove(&s, "/q/_c_11111111-1111-4111-8111-111111111111-lock-0000000000");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(me.revoked, 1);
    script_finish(&s);
}

static void test_request_is_told_once_over_reconnects(void)
{
    script_begin(&s);
    hold_revocably(&me);
    script_write(&s, script_our_path(&s), "__REVOKE__");
    script_suspend(&s, 1); /* while we look */
    script_connect(&s);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.revoked, 1);
    script_suspend(&s, 0);
    script_connect(&s);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.revoked, 1);
    script_step(&s,
                (struct zkl__event){.kind = ZKL__EV_WATCH, .watch = ZKL__WATCH_CHANGED, .path = script_our_path(&s)});
    script_answer_all(&s); /* the same request, seen again */
    CU_ASSERT_EQUAL(me.revoked, 1);
    script_suspend(&s, 0);
    script_write(&s, script_our_path(&s), "__REVOKE__"); /* seen only afterwards */
    script_connect(&s);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.revoked, 2);
    script_finish(&s);
}

static void test_removal_is_noticed_at_once(void)
{
    script_begin(&s);
    hold_revocably(&me);
    script_remove(&s, script_our_path(&s));
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_finish(&s);
}

static void test_removed_before_we_look(void)
{
    char path[SCRIPT_PATH];
    script_begin(&s);
    hold_revocably(&me);
    strcpy(path, script_our_path(&s));
    script_change(&s, path);
    OPS(&s, "get");
    script_remove(&s, path); /* nothing is watched meanwhile */
    CU_ASSERT_EQUAL(me.lost, 0);
    script_answer(&s);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_finish(&s);
}

static void test_watch_refused(void)
{
    script_begin(&s);
    s.refuse_kind = ZKL__OP_GET;
    s.refuse_code = ZKL_ELIMIT;
    s.refuse_count = 3;
    hold_revocably(&me);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    script_run(&s, 5000 * MS);
    CU_ASSERT_EQUAL(s.watch_count, 1);
    script_write(&s, script_our_path(&s), "__REVOKE__");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.revoked, 1);
    script_finish(&s);
}

TESTS("contender revoked", T(test_request_is_told), T(test_request_made_while_we_waited),
      T(test_request_is_told_once_over_reconnects), T(test_removal_is_noticed_at_once), T(test_removed_before_we_look),
      T(test_watch_refused))
