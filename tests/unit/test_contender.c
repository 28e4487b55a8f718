/* A contender's life, word by word: what it asks of the store, what it makes of the answers. */
#include "script.h"

#include <string.h>

#define FIRST "/q/_c_11111111-1111-4111-8111-111111111111-lock-0000000000"
#define SECOND "/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000001"

/* --- the good days ------------------------------------------------------------------------------------------------- */

static void test_uncontended_in_one_round_trip(void)
{
    script_begin();
    script_acquire(&me);
    OPS("create list"); /* together: one round trip */
    CU_ASSERT_EQUAL(script_answer().mode, ZKL__EPHEMERAL_SEQUENTIAL);
    CU_ASSERT_EQUAL(me.granted, 0);
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(me.token, script_find(script_our_path())->czxid);
    CU_ASSERT_EQUAL(zkl__contender_token(me.contender), me.token);
    CU_ASSERT_STRING_EQUAL(zkl__contender_node(me.contender), script_our_path() + 3);
    STATE(&me, "held");
    OPS("");
    script_release(&me);
    OPS("delete");
    CU_ASSERT_EQUAL(me.released, 0);
    script_answer();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_OK);
    script_finish();
}

static void test_start_before_the_connection(void)
{
    script_init();
    script_acquire(&me);
    STATE(&me, "new");
    OPS("");
    script_connect();
    OPS("create list");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_try(void)
{
    script_begin();
    struct zkl__contender_config config = script_config(&me, "/q");
    script_put(FIRST, SCRIPT_STRANGER);
    script.next_sequence = 1;
    script_contend(&me, &config);
    script_start(&me, INT64_MAX, true);
    script_answer();
    script_answer();
    OPS("get");
    CU_ASSERT_FALSE(script.ops[0].watch); /* nobody waits: no watch is left behind */
    script_answer();
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_EBUSY);
    OPS("delete");
    script_answer();
    CU_ASSERT_EQUAL(script_ours(), 0);
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_remove(FIRST);
    script_contend(&me, &config);
    script_start(&me, INT64_MAX, true);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* A permit, a member: that its node is there is all. */
static void test_who_waits_for_nobody_needs_no_list(void)
{
    static const struct zkl__rule nobody = {"lease-", 0};
    script_begin();
    struct zkl__contender_config config = script_config(&me, "/q");
    config.rule = &nobody;
    script_contend(&me, &config);
    script_start(&me, INT64_MAX, false);
    OPS("create");
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 1);
    OPS("");
    script_release(&me);
    script_answer_all();
    script_contend(&me, &config);
    script_start(&me, INT64_MAX, false);
    script_suspend(1); /* done, and not answered */
    script_connect();
    CU_ASSERT_PTR_NOT_NULL(strstr(script_ops(), "create list")); /* sent again: which of the two is it? */
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script_ours(), 1);
    script_finish();
}

static void test_hand_over(void)
{
    script_begin();
    script_put(FIRST, SCRIPT_STRANGER);
    script.next_sequence = 1;
    script_acquire(&me);
    script_answer_all();
    STATE(&me, "watching");
    CU_ASSERT_EQUAL(script.watch_count, 1); /* its predecessor */
    int before = script.submits;
    script_remove(FIRST);
    OPS("list"); /* it is woken, and looks again */
    script_answer_all();
    CU_ASSERT_EQUAL(script.submits - before, 1);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_finish();
}

static void test_predecessor_gone_before_the_watch(void)
{
    script_begin();
    script_put(FIRST, SCRIPT_STRANGER);
    script.next_sequence = 1;
    script_acquire(&me);
    script_answer();
    script_answer();
    OPS("get");
    char place[SCRIPT_PATH];
    strcpy(place, script_our_path());
    script_remove(FIRST);
    script_answer(); /* no node */
    OPS("list");
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_STRING_EQUAL(script_our_path(), place);
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_finish();
}

/* The event outruns the answer of the get that set the watch for somebody else. */
static void test_event_before_the_answer_of_the_get(void)
{
    script_begin();
    script_put(FIRST, SCRIPT_STRANGER);
    script.next_sequence = 1;
    script_acquire(&me);
    script_answer();
    script_answer();
    script_do(); /* the get: done, not delivered */
    script_step((struct zkl__event){.kind = ZKL__EV_WATCH, .watch = ZKL__WATCH_CHANGED, .path = FIRST});
    OPS("list");
    script_deliver();
    STATE(&me, "listing");
    script_answer();
    OPS("get");
    script_answer();
    STATE(&me, "watching");
    script_remove(FIRST);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_a_crashed_predecessor_is_no_grant(void)
{
    script_begin();
    script_put(FIRST, SCRIPT_STRANGER);
    script_put(SECOND, SCRIPT_STRANGER);
    script.next_sequence = 2;
    script_acquire(&me);
    script_answer_all();
    CU_ASSERT_STRING_EQUAL(script.watches[0].path, SECOND);
    script_remove(SECOND); /* left the queue: the one before it still holds */
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_STRING_EQUAL(script.watches[0].path, FIRST);
    script_change(FIRST); /* a write on it is no release */
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_EQUAL(script.watch_count, 1);
    script_remove(FIRST);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* Debian's server does not wrap, its counter sticks: several nodes may then have the last number. None of them is a place. */
static void test_numbers_used_up(void)
{
    script_begin();
    script.next_sequence = INT32_MAX;
    script_acquire(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_EQUAL(me.code, ZKL_EEXHAUSTED);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

/* --- a create of unknown fate -------------------------------------------------------------------------------------- */

static void lost_create(int done)
{
    script_begin();
    script_acquire(&me);
    script_suspend(done);
    STATE(&me, "creating");
    CU_ASSERT_EQUAL(script_ours(), done);
    script_connect();
    OPS("create list"); /* the same again: a write that no server can skip */
}

static void test_lost_create_that_was_done(void)
{
    lost_create(1);
    char first[SCRIPT_PATH];
    strcpy(first, script_our_path());
    script_answer();
    CU_ASSERT_EQUAL(script_ours(), 2);
    CU_ASSERT_EQUAL(strncmp(first, script_our_path(), strlen(first) - 10), 0); /* one uuid */
    script_answer();
    OPS("delete list"); /* the double goes, the lowest stays */
    script_answer();
    CU_ASSERT_STRING_EQUAL(script_our_path(), first);
    CU_ASSERT_EQUAL(me.granted, 0);
    script_answer();
    OPS("exists"); /* the reply that had its czxid is lost */
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(me.token, script_find(first)->czxid);
    script_finish();
}

static void test_lost_create_that_was_not_done(void)
{
    lost_create(0);
    script_answer();
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script_ours(), 1);
    script_finish();
}

static void test_lost_create_and_both_removed(void)
{
    lost_create(0);
    script_answer();
    script_remove(script_our_path()); /* by somebody, before the list */
    script_answer();
    OPS("create list");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* A server that answers with a name that cannot be: as if the reply were lost. */
static void test_created_name_that_is_too_long(void)
{
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        script_begin();
        script_acquire(&me);
        script_do();
        memset(script.news[0].name, 'x', 200);
        if (cancelled) {
            script_cancel(&me);
        }
        script_deliver();
        script_answer();
        OPS("");
        script_run(100 * MS);
        CU_ASSERT_EQUAL(me.granted, !cancelled);
        CU_ASSERT_EQUAL(script_ours(), !cancelled);
        script_finish();
    }
}

static void test_create_lost_many_times(void)
{
    script_begin();
    script_acquire(&me);
    for (int i = 0; i < 4; i++) {
        script_suspend(1);
        script_connect();
    }
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 1);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* The double's delete is refused, or lost with the connection. */
static void test_double_that_stays(void)
{
    lost_create(1);
    script_answer();
    script_answer();
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_answer();
    OPS("delete list");
    script_suspend(0);
    script_connect();
    OPS("list sync");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 1);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* Somebody put a name with our uuid there that we may not delete: not ours. */
static void test_double_that_is_a_strangers(void)
{
    char forged[SCRIPT_PATH];
    script_begin();
    script.next_sequence = 5;
    script_acquire(&me);
    script_suspend(1);
    snprintf(forged, sizeof forged, "%.*s0000000009", (int)strlen(script_our_path()) - 10, script_our_path());
    script_put(forged, SCRIPT_STRANGER)->fixed = true;
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 1);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* ... and below our own: it costs us our place, and nothing of ours is forgotten. */
static void test_forged_place_before_ours(void)
{
    char forged[SCRIPT_PATH];
    script_begin();
    script.next_sequence = 5;
    script_acquire(&me);
    script_suspend(1);
    snprintf(forged, sizeof forged, "%.*s0000000003", (int)strlen(script_our_path()) - 10, script_our_path());
    script_put(forged, SCRIPT_STRANGER);
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 1);
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_STRING_EQUAL(script.watches[0].path, forged);
    script_remove(forged);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script_ours(), 1);
    script_finish();
}

/* A name that carries our uuid and is longer than the server makes ours: nobody's double. */
static void test_long_name_with_our_uuid(void)
{
    char longer[SCRIPT_PATH];
    script_begin();
    script_acquire(&me);
    script_suspend(1);
    snprintf(longer, sizeof longer, "%.42s-%050d-lock-0000000009", script_our_path(), 0);
    script_put(longer, SCRIPT_STRANGER);
    script_connect();
    script_answer_all();
    CU_ASSERT_PTR_NOT_NULL(script_find(longer));
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_lost_create_then_cancel(void)
{
    script_begin();
    script_acquire(&me);
    script_suspend(1);
    script_cancel(&me);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_ECANCELED);
    script_connect();
    OPS("check list"); /* a committed write, and the list behind it */
    script_answer();
    script_answer();
    OPS("delete");
    script_answer();
    CU_ASSERT_EQUAL(script_ours(), 0);
    OPS("check list"); /* until a list lacks it */
    script_answer_all();
    OPS("");
    script_finish();
}

/* A barrier that was not passed, or a list that was not seen, is no proof. */
static void test_lost_create_then_cancel_and_trouble(void)
{
    script_begin();
    script_acquire(&me);
    script_suspend(1);
    script_cancel(&me);
    script_connect();
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_answer();
    CU_ASSERT_EQUAL(script_ours(), 1);
    OPS("");
    script_wait(100 * MS);
    OPS("check list");
    script_answer();
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_wait(100 * MS);
    OPS("check list");
    script_suspend(2);
    script_connect();
    OPS("check list");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_lost_create_then_cancel_without_a_directory(void)
{
    script_begin();
    script_acquire(&me);
    script_suspend(0);
    script_cancel(&me);
    script_remove("/q");
    script_connect();
    OPS("check list");
    script_answer_all(); /* no node, twice: nothing of ours either */
    OPS("");
    CU_ASSERT_EQUAL(script.submits, 5);
    script_finish();
}

static void test_cancel_before_the_create_is_answered(void)
{
    script_begin();
    script_acquire(&me);
    script_cancel(&me);
    CU_ASSERT_EQUAL(me.failed, 1);
    OPS("create list");
    script_answer();
    OPS("list delete");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_cancel_and_then_the_create_is_lost(void)
{
    for (int done = 0; done < 2; done++) {
        script_begin();
        script_acquire(&me);
        script_cancel(&me);
        script_suspend(done);
        script_connect();
        OPS("check list");
        script_answer_all();
        CU_ASSERT_EQUAL(script_ours(), 0);
        script_finish();
    }
}

static void test_cancel_while_the_double_is_deleted(void)
{
    lost_create(1);
    script_answer();
    script_answer();
    OPS("delete list");
    script_cancel(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

TESTS("contender", T(test_uncontended_in_one_round_trip), T(test_start_before_the_connection), T(test_try),
      T(test_who_waits_for_nobody_needs_no_list), T(test_hand_over), T(test_predecessor_gone_before_the_watch),
      T(test_event_before_the_answer_of_the_get), T(test_a_crashed_predecessor_is_no_grant), T(test_numbers_used_up),
      T(test_lost_create_that_was_done), T(test_lost_create_that_was_not_done), T(test_create_lost_many_times),
      T(test_lost_create_and_both_removed), T(test_created_name_that_is_too_long), T(test_double_that_stays),
      T(test_double_that_is_a_strangers), T(test_forged_place_before_ours), T(test_long_name_with_our_uuid),
      T(test_lost_create_then_cancel), T(test_lost_create_then_cancel_and_trouble),
      T(test_lost_create_then_cancel_without_a_directory), T(test_cancel_before_the_create_is_answered),
      T(test_cancel_and_then_the_create_is_lost), T(test_cancel_while_the_double_is_deleted))
