/* A lock that lingers: when it is granted again without a request, and when it gives way. */
#include "contender_inside.h"
#include "script.h"

#include <string.h>

#define KEPT (5000 * MS)
#define SOMEBODY "/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000077"

static const struct zkl__rule writer = {"__WRIT__", ZKL__KIND_ANY};

static struct zkl__contender_config lingering(struct script_owner *owner)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    config.linger = KEPT;
    return config;
}

static void want(struct script_owner *owner, const struct zkl__contender_config *config)
{
    CU_ASSERT_TRUE_FATAL(script_contend(owner, config));
    script_start(owner, INT64_MAX, false);
}

static void ask(struct script_owner *owner)
{
    struct zkl__contender_config config = lingering(owner);
    want(owner, &config);
}

/* Held, and armed. */
static void hold(void)
{
    script_begin();
    ask(&me);
    OPS("create list");
    script_answer_all();
    STATE(&me, "held");
}

static void release_keeps(struct script_owner *owner)
{
    script_release(owner);
    OPS("");
    CU_ASSERT_EQUAL(owner->released, 1);
    CU_ASSERT_EQUAL(script_ours(), 1);
}

static void release_keeps_with(struct script_owner *owner, const char *ops)
{
    script_release(owner);
    OPS(ops);
    CU_ASSERT_EQUAL(owner->released, 1);
}

static void release_deletes(struct script_owner *owner)
{
    int ours = script_ours();
    script_release(owner);
    OPS("delete");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), ours - 1);
}

static void idle(void)
{
    hold();
    release_keeps(&me);
}

/* Not any more: whoever wants it queues. */
static void is_given_up(void)
{
    OPS("delete");
    ask(&you);
    OPS("delete create list");
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(you.serial, 1);
    script_finish();
}

static void queue_behind(void)
{
    script_put(SOMEBODY, SCRIPT_STRANGER);
    script.next_sequence = 78;
    script_deliver(); /* the event */
}

/* --- granted again ------------------------------------------------------------------------------------------------- */

static void test_again_without_a_request(void)
{
    idle();
    int64_t token = me.token;
    CU_ASSERT_EQUAL(me.serial, 1);
    for (int64_t serial = 2; serial < 5; serial++) {
        int submits = script.submits;
        ask(&me);
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT_EQUAL(me.token, token);
        CU_ASSERT_EQUAL(me.serial, serial);
        release_keeps(&me);
        CU_ASSERT_EQUAL(script.submits, submits);
    }
    script_finish();
}

/* The line passes it on in order, with one token. */
static void test_line(void)
{
    hold();
    ask(&you);
    ask(&third);
    OPS("");
    CU_ASSERT_EQUAL(you.granted + third.granted, 0);
    release_keeps(&me);
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(third.granted, 0);
    ask(&me); /* behind the third */
    release_keeps(&you);
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_EQUAL(me.granted, 0);
    release_keeps(&third);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(me.serial, 4);
    CU_ASSERT_EQUAL(me.token, third.token);
    script_finish();
}

static void test_line_and_its_ends(void)
{
    struct zkl__contender_config config = lingering(&third);
    hold();
    ask(&you);
    CU_ASSERT_TRUE_FATAL(script_contend(&third, &config));
    script_start(&third, script.now + 10 * MS, false);
    script_cancel(&you);
    CU_ASSERT_EQUAL(you.code, ZKL_ECANCELED);
    script_wait(11 * MS);
    CU_ASSERT_EQUAL(third.code, ZKL_ETIMEOUT);
    CU_ASSERT_TRUE_FATAL(script_contend(&third, &config));
    script_start(&third, INT64_MAX, true);
    CU_ASSERT_EQUAL(third.code, ZKL_EBUSY);
    OPS("");
    release_keeps(&me);
    CU_ASSERT_TRUE_FATAL(script_contend(&third, &config));
    script_start(&third, INT64_MAX, true);
    CU_ASSERT_EQUAL(third.granted, 1);
    script_finish();
}

/* max_hold counts anew with each grant. */
static void test_max_hold(void)
{
    idle();
    struct zkl__contender_config config = lingering(&you);
    config.max_hold = 100 * MS;
    want(&you, &config);
    CU_ASSERT_EQUAL(you.granted, 1);
    script_wait(99 * MS);
    CU_ASSERT_EQUAL(you.lost, 0);
    script_wait(2 * MS);
    CU_ASSERT_EQUAL(you.lost, 1);
    OPS("delete");
    script_answer_all();
    script_release(&you);
    script_finish();
}

/* The release is read before the time. */
static void test_released_after_max_hold(void)
{
    script_begin();
    struct zkl__contender_config config = lingering(&me);
    config.max_hold = 100 * MS;
    want(&me, &config);
    script_answer_all();
    script.now += 101 * MS;
    release_deletes(&me);
    script_finish();
}

/* --- who may have it ----------------------------------------------------------------------------------------------- */

static const zkl_acl_entry entries[] = {{ZKL_PERM_ALL, "world", "anyone"}, {ZKL_PERM_ALL, "ip", "10.0.0.1"}};

static void idle_for(zkl_acl *acl)
{
    script_begin();
    struct zkl__contender_config config = lingering(&me);
    config.acl = acl;
    want(&me, &config);
    script_answer_all();
    release_keeps(&me);
    *acl = (zkl_acl){0, NULL}; /* its owner's memory is gone */
}

static void test_same_access_list(void)
{
    zkl_acl acl = {2, entries}, same = {2, entries}, other = {1, entries};
    struct zkl__contender_config config = lingering(&you);
    idle_for(&acl);
    config.acl = &same;
    want(&you, &config);
    CU_ASSERT_EQUAL(you.serial, 2);
    release_keeps(&you);
    config.acl = &other;
    want(&you, &config);
    CU_ASSERT_EQUAL(you.granted, 0);
    OPS("create delete list");
    script_finish();
}

enum difference { RULE, METADATA, DELAY, NO_LINGER, MAX_AHEAD, DIFFERENCES };

/* Whoever needs a znode of another kind, or is to be in the list, queues, and what lingers gives way. */
static void test_who_differs(void)
{
    for (enum difference at = RULE; at < DIFFERENCES; at++) {
        idle();
        struct zkl__contender_config config = lingering(&you);
        config.rule = at == RULE ? &writer : config.rule;
        config.metadata = at == METADATA ? "you" : config.metadata;
        config.delay = at == DELAY ? MS : 0;
        config.linger = at == NO_LINGER ? 0 : config.linger;
        config.max_ahead = at == MAX_AHEAD;
        want(&you, &config);
        CU_ASSERT_EQUAL(you.granted, 0);
        script_answer_all();
        script_run(2 * MS); /* DELAY: the end of the other one is no clean one */
        CU_ASSERT_EQUAL(you.granted, 1);
        CU_ASSERT_EQUAL(you.serial, 1);
        CU_ASSERT_EQUAL(script_ours(), 1);
        script_finish();
    }
}

/* One that queues while it is held: nobody comes before that one in memory. */
static void test_held_while_another_queues(void)
{
    hold();
    struct zkl__contender_config config = lingering(&you);
    config.rule = &writer;
    want(&you, &config);
    ask(&third);
    OPS("create list create");
    script_answer_all();
    script_release(&me);
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(third.granted, 0);
    script_finish();
}

/* --- it gives way -------------------------------------------------------------------------------------------------- */

static void test_its_time_is_over(void)
{
    idle();
    script_run(KEPT - MS);
    CU_ASSERT_EQUAL(script_ours(), 1);
    script_run(2 * MS);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_somebody_queues(void)
{
    idle();
    queue_behind();
    OPS("delete");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_somebody_queues_while_held(void)
{
    hold();
    ask(&you);
    ask(&third);
    OPS("");
    queue_behind();
    OPS("create create list");
    script_answer_all();
    release_deletes(&me);
    CU_ASSERT_EQUAL(you.granted + third.granted, 0); /* behind the stranger */
    script_finish();
}

static void test_somebody_is_there_already(void)
{
    script_begin();
    ask(&me);
    script_do();
    script_put(SOMEBODY, SCRIPT_STRANGER);
    script_answer_all();
    STATE(&me, "held");
    release_deletes(&me);
    script_finish();
}

static void test_connection_lost(void)
{
    idle();
    script_suspend(0);
    script_connect();
    is_given_up();
}

static void test_connection_lost_while_held(void)
{
    hold();
    ask(&you);
    script_suspend(0);
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 0);
    STATE(&you, "watching");
    release_deletes(&me);
    CU_ASSERT_EQUAL(you.granted, 1);
    script_finish();
}

static void test_lease_ends(void)
{
    idle();
    script_wait(script.timeout);
    CU_ASSERT_EQUAL(script_ours(), 1);
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_session_ends(void)
{
    idle();
    script_expire();
    script_connect();
    ask(&you);
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(you.serial, 1);
    script_finish();
}

/* No heartbeat's reply shows the node. */
static void let_evidence_age(void)
{
    script_wait(script.timeout / 12 + MS);
    while (script.op_count > 0) {
        if (script.ops[0].kind == ZKL__OP_CHECK) {
            script_answer_with(ZKL__RC_NOTAPPLIED);
        } else {
            script_answer();
        }
    }
}

/* Nothing has shown the node for longer than a heartbeat, since no reply comes: one check is sent, whoever waits, and the line stays. */
static void test_not_shown_lately(void)
{
    hold();
    let_evidence_age();
    ask(&you);
    release_keeps_with(&me, "check");
    ask(&third);
    OPS("check");
    CU_ASSERT_EQUAL(you.granted + third.granted, 0);
    script_answer();
    CU_ASSERT_EQUAL(you.serial, 2);
    release_keeps(&you);
    CU_ASSERT_EQUAL(third.serial, 3);
    script_finish();
}

/* The check is not answered, or is refused: those in line queue. */
static void test_check_refused(void)
{
    for (int refused = 0; refused < 2; refused++) {
        hold();
        let_evidence_age();
        ask(&you);
        release_keeps_with(&me, "check");
        if (refused) {
            script_answer_with(ZKL__RC_NOTAPPLIED);
            OPS("delete create list");
        } else {
            script_suspend(0);
            script_connect();
        }
        script_answer_all();
        CU_ASSERT_EQUAL(you.granted, 1);
        CU_ASSERT_EQUAL(you.serial, 1);
        script_finish();
    }
}

/* Used all the time, it is shown again before that: the check is sent beside a grant, and nobody waits for it. */
static void test_shown_in_time(void)
{
    hold();
    script_wait(script.timeout / 12 - MS); /* no heartbeat is due yet */
    OPS("");
    ask(&you);
    release_keeps_with(&me, "check");
    CU_ASSERT_EQUAL(you.granted, 1);
    ask(&me);
    release_keeps_with(&you, "check"); /* the same one */
    CU_ASSERT_EQUAL(me.granted, 1);
    script_answer();
    OPS("");
    release_keeps(&me);
    script_finish();
}

/* A step brings the release, and the deadline of the first in line has passed: the next one is granted. */
static void test_late_in_line(void)
{
    hold();
    struct zkl__contender_config config = lingering(&you);
    CU_ASSERT_TRUE_FATAL(script_contend(&you, &config));
    script_start(&you, script.now + 10 * MS, false);
    ask(&third);
    script.now += 11 * MS;
    release_keeps(&me);
    CU_ASSERT_EQUAL(you.granted, 0);
    CU_ASSERT_EQUAL(you.code, ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(third.granted, 1);
    script_finish();
}

/* --- a line again --------------------------------------------------------------------------------------------------- */

/* me holds, you and third stand behind it on the server, and nobody else: all began together. */
static void stand_apart(void)
{
    script_begin();
    ask(&me);
    ask(&you);
    ask(&third);
    script_answer_all();
    STATE(&me, "held");
    STATE(&you, "watching");
    STATE(&third, "watching");
    CU_ASSERT_EQUAL(script_ours(), 3);
}

/* The znode is passed on, the others' go, and when a list shows it alone it is granted in memory. */
static void test_line_again(void)
{
    stand_apart();
    script_release(&me);
    OPS("delete");
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(you.serial, 2);
    CU_ASSERT_EQUAL(you.token, me.token);
    ask(&me); /* in line */
    script_release(&you);
    OPS("delete delete list");
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_EQUAL(third.serial, 3);
    script_release(&third);
    CU_ASSERT_EQUAL(me.granted, 0); /* before the list says that nobody else waits */
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(me.serial, 4);
    CU_ASSERT_EQUAL(script_ours(), 1);
    release_keeps(&me);
    queue_behind();
    OPS("delete");
    script_finish();
}

/* Somebody else came meanwhile: those whose znodes stood before that are granted, and who is in line queues. */
static void test_somebody_comes_while_it_gathers(void)
{
    stand_apart();
    script_release(&me);
    ask(&me);
    script_put(SOMEBODY, SCRIPT_STRANGER);
    script.next_sequence = 78;
    script_release(&you);
    CU_ASSERT_EQUAL(third.granted, 1);
    script_answer_all();
    STATE(&me, "watching");
    script_release(&third);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 0);
    script_remove(SOMEBODY);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(me.serial, 1);
    script_finish();
}

/* Between two of ours stands somebody else, as a list has shown: each deletes its own znode. */
static void test_somebody_between(void)
{
    script_begin();
    ask(&me);
    script_answer_all();
    queue_behind();
    ask(&you);
    ask(&third);
    script_answer_all();
    script_remove(SOMEBODY);
    script_answer_all();
    release_deletes(&me);
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(you.serial, 1);
    script_finish();
}

/* The next one is cancelled, or gives up, while the holder's znode waits for it. */
static void test_next_one_leaves(void)
{
    stand_apart();
    script_release(&me);
    script_cancel(&third);
    CU_ASSERT_EQUAL(third.code, ZKL_ECANCELED);
    release_keeps_with(&you, "delete delete list");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 1);
    ask(&third);
    CU_ASSERT_EQUAL(third.serial, 3);
    script_finish();
}

/* What was sent on the lost connection may be done as long as the holder's znode stands: it is not passed on. */
static void test_not_over_a_lost_connection(void)
{
    stand_apart();
    script_suspend(0);
    script_connect();
    script_answer_all();
    STATE(&you, "watching");
    release_deletes(&me);
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(you.serial, 1);
    script_finish();
}

/* The connection is lost while it gathers: the reply to the follower's delete is lost, too. */
static void test_lost_while_it_gathers(void)
{
    for (int done = 0; done < 2; done++) {
        stand_apart();
        script_release(&me);
        OPS("delete");
        ask(&me);
        script_suspend(done);
        script_connect();
        script_answer_all();
        STATE(&you, "held");
        STATE(&third, "watching");
        STATE(&me, "watching");
        release_deletes(&you);
        CU_ASSERT_EQUAL(third.granted, 1);
        CU_ASSERT_EQUAL(third.serial, 1);
        script_finish();
    }
}

#define LIAR "/q/_c_11111111-1111-8111-8111-111111111111-lock-0000000001"

/* A forged announcement lets somebody in while another one of this session holds, and is gone: no list shows somebody else. What it let
 * in passes its znode on to nobody. */
static void test_not_on_an_announcement(void)
{
    struct zkl__contender_config mine = lingering(&me), yours = lingering(&you);
    mine.announces = yours.announces = true;
    script_begin();
    want(&me, &mine);
    script_answer_all();
    script_put(LIAR, SCRIPT_STRANGER);
    script.next_sequence = 2;
    script_deliver();
    want(&you, &yours);
    script_answer_all();
    script_change(LIAR);
    CU_ASSERT_EQUAL(you.granted, 1); /* both hold */
    script_remove(LIAR);
    ask(&third);
    script_answer_all();
    STATE(&third, "watching");
    script_release(&you);
    CU_ASSERT_EQUAL(third.serial, 1);
    script_finish();
}

/* One of another kind is next: the znode goes. */
static void test_another_kind_is_next(void)
{
    script_begin();
    struct zkl__contender_config config = lingering(&third);
    config.metadata = "third";
    ask(&me);
    ask(&you);
    want(&third, &config);
    script_answer_all();
    script_release(&me);
    CU_ASSERT_EQUAL(you.serial, 2);
    script_answer_all();
    release_deletes(&you);
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_EQUAL(third.serial, 1);
    script_finish();
}

/* It is released while the next one's create is under way: it waits for that one. */
static void test_next_one_is_coming(void)
{
    script_begin();
    ask(&me);
    ask(&you);
    script_answer();
    script_answer();
    script_answer();
    STATE(&me, "held");
    STATE(&you, "creating");
    script_release(&me);
    CU_ASSERT_EQUAL(me.released, 1);
    script_answer_all();
    CU_ASSERT_EQUAL(you.serial, 2);
    CU_ASSERT_EQUAL(script_ours(), 1);
    script_finish();
}

static void test_removed_by_hand(void)
{
    idle();
    script_remove(script_our_path());
    script_answer_all();
    ask(&you);
    OPS("create list");
    script_answer_all();
    CU_ASSERT_EQUAL(you.serial, 1);
    script_finish();
}

/* The list of another one does not show the holder's znode, which somebody has deleted by hand: it is not passed on. */
static void test_removed_and_another_lists(void)
{
    script_begin();
    struct zkl__contender_config config = lingering(&third);
    config.metadata = "third";
    ask(&me);
    ask(&you);
    script_answer();
    char holder[128];
    snprintf(holder, sizeof holder, "%s", script_our_path());
    script_answer_all();
    STATE(&me, "held");
    want(&third, &config);
    script_answer();
    script_remove(holder);
    script_answer_all();
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(you.serial, 1);
    script_finish();
}

static void test_stopped(void)
{
    idle();
    script_step((struct zkl__event){.kind = ZKL__EV_LINGER_STOP, .path = "/elsewhere"});
    OPS("");
    script_step((struct zkl__event){.kind = ZKL__EV_LINGER_STOP, .path = "/q"});
    is_given_up();
}

static void test_close(void)
{
    idle();
    script_close();
    OPS("delete");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_deinit();
}

/* A holder that is let go of does not linger. */
static void test_let_go(void)
{
    hold();
    script_let_go(&me);
    OPS("delete");
    script_finish();
}

/* --- what is under way --------------------------------------------------------------------------------------------- */

static void done(struct zkl__request *request, const struct zkl__reply *reply)
{
    (void)request, (void)reply;
}

/* What the last holder sent might be done under the next grant, behind another connection. */
static void test_a_transaction_is_under_way(void)
{
    hold();
    struct zkl__request request = {.done = done};
    const struct zkl__op set = {.kind = ZKL__OP_SET, .dir = "/q", .data = "x", .size = 1, .version = -1};
    script_step((struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &request, .op = &set});
    script_release(&me);
    OPS("set");
    ask(&you);
    OPS("set check"); /* answered behind it */
    script_answer();
    CU_ASSERT_EQUAL(you.granted, 0);
    const struct zkl__op more = {.kind = ZKL__OP_SET, .dir = "/q", .data = "y", .size = 1, .version = -1};
    struct zkl__request another = {.done = done};
    script_step((struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &another, .op = &more});
    script_answer();
    CU_ASSERT_EQUAL(you.serial, 2); /* nobody else's writes are waited for */
    script_finish();
}

/* A check that was sent before the release says nothing of what the holder sent after it. */
static void test_a_check_of_before(void)
{
    hold();
    script_wait(script.timeout / 12 - MS);
    ask(&you);
    release_keeps_with(&me, "check");
    struct zkl__request request = {.done = done};
    const struct zkl__op set = {.kind = ZKL__OP_SET, .dir = "/q", .data = "x", .size = 1, .version = -1};
    script_step((struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &request, .op = &set});
    ask(&third);
    release_keeps_with(&you, "check set");
    script_answer();
    CU_ASSERT_EQUAL(third.granted, 0);
    OPS("set check");
    script_answer();
    script_answer();
    CU_ASSERT_EQUAL(third.granted, 1);
    script_finish();
}

/* Our own delete fires the watch that was set before, while the next list is under way: that list sets it again. */
static void test_event_of_before(void)
{
    idle();
    script_step((struct zkl__event){.kind = ZKL__EV_LINGER_STOP, .path = "/q"});
    ask(&you);
    OPS("delete create list");
    script_answer_all();
    CU_ASSERT_EQUAL(you.serial, 1);
    release_keeps(&you);
    queue_behind();
    OPS("delete");
    script_finish();
}

static void test_no_memory_for_an_access_list(void)
{
    zkl_acl acl = {2, entries};
    script_begin();
    struct zkl__contender_config config = lingering(&me);
    config.acl = &acl;
    want(&me, &config);
    script_answer_all();
    test_heap_fail(&script.heap, 1, true);
    script_release(&me);
    test_heap_fail(&script.heap, 0, false);
    OPS("delete");
    script_finish();
}

/* Without a server the line is dissolved; its contenders queue in its order when the session is connected again. */
static void test_order_over_a_lost_connection(void)
{
    hold();
    ask(&you);
    ask(&third);
    script_suspend(0);
    script_connect();
    script_answer_all();
    release_deletes(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(third.granted, 0);
    script_finish();
}

TESTS("linger", T(test_again_without_a_request), T(test_line), T(test_line_and_its_ends), T(test_max_hold),
      T(test_released_after_max_hold), T(test_same_access_list), T(test_who_differs), T(test_held_while_another_queues),
      T(test_its_time_is_over), T(test_somebody_queues), T(test_somebody_queues_while_held),
      T(test_somebody_is_there_already), T(test_connection_lost), T(test_connection_lost_while_held),
      T(test_lease_ends), T(test_session_ends), T(test_not_shown_lately), T(test_check_refused), T(test_shown_in_time),
      T(test_late_in_line), T(test_line_again), T(test_order_over_a_lost_connection),
      T(test_somebody_comes_while_it_gathers), T(test_somebody_between), T(test_next_one_leaves),
      T(test_not_over_a_lost_connection), T(test_lost_while_it_gathers), T(test_not_on_an_announcement),
      T(test_another_kind_is_next), T(test_next_one_is_coming), T(test_removed_by_hand),
      T(test_removed_and_another_lists), T(test_stopped), T(test_close), T(test_let_go),
      T(test_a_transaction_is_under_way), T(test_a_check_of_before), T(test_event_of_before),
      T(test_no_memory_for_an_access_list))
