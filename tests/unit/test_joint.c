/* Contenders in several queues that stand and fall together: what the core asks, and what its owner hears. */
#include "script.h"

#include <string.h>

static const char *const ab[] = {"/a", "/b"}, *const ba[] = {"/b", "/a"};

static void begin(void)
{
    script_init();
    script_put("/a", 0);
    script_put("/b", 0);
    script_connect();
    script_answer_all();
    OPS("");
}

static void ask(struct script_owner *owner, const char *const *paths, int64_t deadline, bool try_only)
{
    struct zkl__contender_config config = script_config(owner, "");
    CU_ASSERT_TRUE_FATAL(script_contend_jointly(owner, &config, paths, 2));
    script_start(owner, deadline, try_only);
}

static void hold(struct script_owner *owner)
{
    ask(owner, ab, INT64_MAX, false);
    script_answer_all();
    CU_ASSERT_EQUAL_FATAL(owner->granted, 1);
}

static struct script_node *child_of(const char *dir)
{
    for (int i = 0; i < script.node_count; i++) {
        if (strncmp(script.nodes[i].path, dir, strlen(dir)) == 0 && script.nodes[i].path[strlen(dir)] == '/') {
            return &script.nodes[i];
        }
    }
    return NULL;
}

static void ignore_reply(struct zkl__request *request, const struct zkl__reply *reply)
{
    (void)request;
    (void)reply;
}

/* --- the good days ------------------------------------------------------------------------------------------------- */

static void test_one_transaction_gives_all(void)
{
    begin();
    ask(&me, ab, INT64_MAX, false);
    OPS("multi(create,create) list list");
    script_answer();
    script_answer();
    script_answer();
    OPS("exists exists"); /* a multi tells no czxid */
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 0);
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(me.token, child_of("/a")->czxid);
    CU_ASSERT_EQUAL(me.token, child_of("/b")->czxid); /* one token, good for both */
    CU_ASSERT_STRING_EQUAL(zkl__joint_node(me.joint, 1), child_of("/b")->path + 3);
    CU_ASSERT_TRUE(zkl__joint_holds(script.core, me.joint, script.now));
    script_release(&me);
    OPS("multi(delete,delete)");
    CU_ASSERT_EQUAL(me.released, 0);
    script_answer();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_OK);
    script_finish();
}

static void test_no_deadlock_whatever_the_order_of_paths(void)
{
    begin();
    ask(&me, ab, INT64_MAX, false);
    ask(&you, ba, INT64_MAX, false);
    ask(&third, ab, INT64_MAX, false);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(you.granted + third.granted, 0);
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(third.granted, 0);
    CU_ASSERT(you.token > me.token);
    script_release(&you);
    script_answer_all();
    CU_ASSERT_EQUAL(third.granted, 1);
    script_finish();
}

/* First in one queue and not in the other: holds nothing, and is told nothing. */
static void test_granted_only_when_all_are_first(void)
{
    begin();
    script_put("/b/_c_11111111-1111-4111-8111-111111111111-lock-0000000000", SCRIPT_STRANGER);
    script.next_sequence = 1;
    ask(&me, ab, INT64_MAX, false);
    script_run(30000 * MS);
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_FALSE(zkl__joint_holds(script.core, me.joint, script.now));
    script_remove("/b/_c_11111111-1111-4111-8111-111111111111-lock-0000000000");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_single_contenders_queue_with_it(void)
{
    begin();
    struct zkl__contender_config config = script_config(&you, "/b");
    hold(&me);
    CU_ASSERT_TRUE_FATAL(script_contend(&you, &config));
    script_start(&you, INT64_MAX, false);
    ask(&third, ab, INT64_MAX, false);
    script_answer_all();
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(third.granted, 0);
    script_release(&you);
    script_answer_all();
    CU_ASSERT_EQUAL(third.granted, 1);
    script_finish();
}

/* --- ends without a grant ------------------------------------------------------------------------------------------ */

static void test_try(void)
{
    begin();
    script_put("/b/_c_11111111-1111-4111-8111-111111111111-lock-0000000000", SCRIPT_STRANGER);
    script.next_sequence = 1;
    ask(&me, ab, INT64_MAX, true);
    script_answer_all();
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_EBUSY);
    CU_ASSERT_EQUAL(script_ours(), 0);
    CU_ASSERT_PTR_NULL(child_of("/a"));
    script_finish();
}

static void test_timeout_and_cancel_leave_nothing(void)
{
    begin();
    hold(&me);
    ask(&you, ab, script.now + 5000 * MS, false);
    ask(&third, ba, INT64_MAX, false);
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 6);
    script_run(6000 * MS);
    CU_ASSERT_EQUAL(you.failed, 1);
    CU_ASSERT_EQUAL(you.code, ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(script_ours(), 4);
    script_cancel(&third);
    CU_ASSERT_EQUAL(third.code, ZKL_ECANCELED);
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 2);
    script_finish();
}

static void test_cancel_while_the_transaction_is_under_way(void)
{
    begin();
    ask(&me, ab, INT64_MAX, false);
    script_cancel(&me);
    CU_ASSERT_EQUAL(me.failed, 1);
    script_run(1000 * MS);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_cancel_before_it_was_sent(void)
{
    begin();
    script.refuse_kind = ZKL__OP_MULTI;
    script.refuse_code = ZKL_ECONNECT;
    script.refuse_count = 1;
    ask(&me, ab, INT64_MAX, false);
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_cancel(&me);
    CU_ASSERT_EQUAL(me.code, ZKL_ECANCELED);
    script_run(1000 * MS);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

/* One queue refuses us: the other is left, too. */
static void test_one_refusal_ends_all(void)
{
    begin();
    script.next_sequence = INT64_C(1) + INT32_MAX;
    ask(&me, ab, INT64_MAX, false);
    script_answer_all();
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_EEXHAUSTED);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

/* --- directories, refusals, connections ---------------------------------------------------------------------------- */

static void test_missing_directories_are_made_at_once(void)
{
    begin();
    static const char *const deep[] = {"/x/one", "/y/two"};
    int64_t before = script.now;
    ask(&me, deep, INT64_MAX, false);
    script_answer_all(); /* no time goes by: nothing waits for a retry */
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script.now, before);
    script_finish();
}

static void test_not_applied_is_asked_again(void)
{
    begin();
    ask(&me, ab, INT64_MAX, false);
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_run(100 * MS);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script_ours(), 2);
    script_finish();
}

static void test_lost_reply_leaves_no_double(void)
{
    begin();
    ask(&me, ab, INT64_MAX, false);
    script_suspend(1); /* applied, the answer is lost */
    CU_ASSERT_EQUAL(script_ours(), 2);
    int64_t first = child_of("/a")->czxid;
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(me.token, first);
    CU_ASSERT_EQUAL(script_ours(), 2);
    script_finish();
}

static void test_lost_request_is_sent_again(void)
{
    begin();
    ask(&me, ab, INT64_MAX, false);
    script_suspend(0);
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script_ours(), 2);
    script_finish();
}

/* Of a double, the first was taken away in one queue meanwhile: the two places would not be of one transaction. */
static void test_places_of_two_transactions_are_none(void)
{
    begin();
    ask(&me, ab, INT64_MAX, false);
    script_suspend(1);
    char place[SCRIPT_PATH];
    strcpy(place, child_of("/a")->path);
    script_remove(place);
    script_connect();
    script_run(1000 * MS);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_ELOST);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_node_removed_while_waiting(void)
{
    begin();
    hold(&me);
    char holders[SCRIPT_PATH], path[SCRIPT_PATH];
    strcpy(holders, child_of("/a")->path);
    ask(&you, ab, INT64_MAX, false);
    script_answer_all();
    for (int i = 0; i < script.node_count; i++) {
        if (strncmp(script.nodes[i].path, "/a/", 3) == 0 && strcmp(script.nodes[i].path, holders) != 0) {
            strcpy(path, script.nodes[i].path);
        }
    }
    script_remove(path);
    script_release(&me); /* the list that follows shows it */
    script_answer_all();
    CU_ASSERT_EQUAL(you.failed, 1);
    CU_ASSERT_EQUAL(you.code, ZKL_ELOST);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_waits_on_after_an_expiry(void)
{
    begin();
    script_put("/b/_c_11111111-1111-4111-8111-111111111111-lock-0000000000", SCRIPT_STRANGER);
    script.next_sequence = 1;
    ask(&me, ab, INT64_MAX, false);
    script_answer_all();
    script_expire();
    CU_ASSERT_EQUAL(me.failed, 0);
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 2);
    script_remove("/b/_c_11111111-1111-4111-8111-111111111111-lock-0000000000");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_fails_at_an_expiry_if_told_so(void)
{
    begin();
    hold(&you);
    struct zkl__contender_config config = script_config(&me, "");
    config.fail_on_expiry = true;
    CU_ASSERT_TRUE_FATAL(script_contend_jointly(&me, &config, ab, 2));
    script_start(&me, INT64_MAX, false);
    script_answer_all();
    script_expire();
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_ELOST);
    CU_ASSERT_EQUAL(you.lost, 1);
    script_connect();
    script_release(&you);
    script_answer_all();
    CU_ASSERT_EQUAL(you.released, 1);
    script_finish();
}

/* --- loss ---------------------------------------------------------------------------------------------------------- */

static void test_lost_when_one_is(void)
{
    begin();
    hold(&me);
    script_remove(child_of("/b")->path);
    script_run(3000 * MS); /* heartbeats take turns on the nodes */
    CU_ASSERT_EQUAL(me.lost, 1);
    CU_ASSERT_FALSE(zkl__joint_holds(script.core, me.joint, script.now));
    CU_ASSERT_EQUAL(script_ours(), 1); /* still keeping others out */
    script_release(&me);
    script_answer_all();
    script_run(1000 * MS);
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_told_once_of_each(void)
{
    begin();
    hold(&me);
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
    script_finish();
}

/* --- release ------------------------------------------------------------------------------------------------------- */

static void test_release_falls_back_to_single_deletes(void)
{
    begin();
    hold(&me);
    script_remove(child_of("/a")->path);
    script_release(&me); /* before a heartbeat told */
    OPS("multi(delete,delete)");
    script_answer();
    CU_ASSERT_EQUAL(me.released, 0);
    script_wait(20 * MS);
    OPS("delete");
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_release_with_a_lost_reply(void)
{
    for (int applied = 0; applied <= 1; applied++) {
        begin();
        hold(&me);
        script_release(&me);
        script_suspend(applied);
        script_connect();
        script_answer_all();
        CU_ASSERT_EQUAL(me.released, 1);
        CU_ASSERT_EQUAL(script_ours(), 0);
        script_finish();
    }
}

static void test_let_go(void)
{
    begin();
    hold(&me);
    script_let_go(&me);
    OPS("multi(delete,delete)");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 0);
    hold(&me);
    ask(&you, ab, INT64_MAX, false);
    script_answer_all();
    script_let_go(&you);
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 2);
    struct zkl__contender_config config = script_config(&third, "");
    CU_ASSERT_TRUE_FATAL(script_contend_jointly(&third, &config, ab, 2));
    script_let_go(&third); /* never started */
    script_finish();
}

static void test_close_releases(void)
{
    begin();
    hold(&me);
    ask(&you, ab, INT64_MAX, false);
    script_answer_all();
    script_close();
    CU_ASSERT_EQUAL(you.code, ZKL_ECLOSED);
    script_run(1000 * MS);
    CU_ASSERT_EQUAL(me.released, 1);
    ask(&third, ab, INT64_MAX, false); /* too late */
    CU_ASSERT_EQUAL(third.code, ZKL_ECLOSED);
    script_finish();
}

/* A close that ran out of time: the core goes with what is in it. */
static void test_goes_with_its_core(void)
{
    for (int held = 0; held <= 1; held++) {
        begin();
        ask(&me, ab, INT64_MAX, false);
        if (held) {
            script_answer_all();
        }
        script_deinit(); /* no byte is left */
    }
}

/* No memory for what is under way when it is to be sent: it is as if the servers had put it off. */
static void test_no_memory_to_send(void)
{
    for (long nth = 1; nth <= 3; nth++) {
        begin();
        for (int i = 0; i < 64; i++) { /* as many operations as there is room for at first */
            static struct zkl__request request;
            request = (struct zkl__request){.done = ignore_reply, .owner = NULL};
            const struct zkl__op op = {.kind = ZKL__OP_SYNC, .dir = "/"};
            script_step((struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &request, .op = &op});
        }
        struct zkl__contender_config config = script_config(&me, "");
        CU_ASSERT_TRUE_FATAL(script_contend_jointly(&me, &config, ab, 2));
        test_heap_fail(&script.heap, nth, true);
        script_start(&me, INT64_MAX, false);
        test_heap_fail(&script.heap, 0, false);
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(me.granted + me.failed, 1);
        script_finish();
    }
}

/* The paths fit, but with the session's chroot before them they do not: a caller's mistake, said at once. */
static void test_paths_too_long_under_the_chroot(void)
{
    begin();
    script.refuse_kind = ZKL__OP_MULTI;
    script.refuse_code = ZKL_EINVAL;
    script.refuse_count = 1000;
    ask(&me, ab, INT64_MAX, false);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, ZKL_EINVAL);
    script_finish();
}

/* Any allocation may fail: it ends, one way or another, and leaves nothing. */
static void test_no_memory_anywhere(void)
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
        struct zkl__contender_config config = script_config(&me, "");
        if (script_contend_jointly(&me, &config, ab, 2)) {
            script_start(&me, script.now + 5000 * MS, false);
            script_run(6000 * MS);
            CU_ASSERT_EQUAL(me.granted + me.failed, 1);
            granted += me.granted;
        }
        script_finish();
    }
    CU_ASSERT(granted > 0);
}

TESTS("joint", T(test_one_transaction_gives_all), T(test_no_deadlock_whatever_the_order_of_paths),
      T(test_granted_only_when_all_are_first), T(test_single_contenders_queue_with_it), T(test_try),
      T(test_timeout_and_cancel_leave_nothing), T(test_cancel_while_the_transaction_is_under_way),
      T(test_cancel_before_it_was_sent), T(test_one_refusal_ends_all), T(test_missing_directories_are_made_at_once),
      T(test_not_applied_is_asked_again), T(test_lost_reply_leaves_no_double), T(test_lost_request_is_sent_again),
      T(test_places_of_two_transactions_are_none), T(test_node_removed_while_waiting), T(test_waits_on_after_an_expiry),
      T(test_fails_at_an_expiry_if_told_so), T(test_lost_when_one_is), T(test_told_once_of_each),
      T(test_release_falls_back_to_single_deletes), T(test_release_with_a_lost_reply), T(test_let_go),
      T(test_close_releases), T(test_goes_with_its_core), T(test_no_memory_to_send),
      T(test_paths_too_long_under_the_chroot), T(test_no_memory_anywhere))
