/* Contenders of one session in one queue: what they spare each other, a lock that lingers for
 * them, and when it gives way. */
#include "script.h"

#define KEPT (5000 * MS)
#define SOMEBODY "/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000077"

#define LINGERING CONTENDER_CONFIG(.linger = KEPT)

static void enter(struct script_owner *owner)
{
    script_enter(owner, LINGERING);
}

/* Held, and armed. */
static void hold(void)
{
    script_begin();
    enter(&me);
    OPS("create list");
    script_answer_all();
    STATE(&me, "held");
}

#define TEST_WHILE_HELD(name) TEST_BETWEEN(hold(), name, script_finish())

static void release_keeps_with(struct script_owner *owner, const char *ops)
{
    script_release(owner);
    OPS(ops);
    CU_ASSERT_EQUAL(owner->released, 1);
    CU_ASSERT_EQUAL(script_ours(), 1);
}

static void release_keeps(struct script_owner *owner)
{
    release_keeps_with(owner, "");
}

static void release_deletes(struct script_owner *owner)
{
    int ours = script_ours();
    script_release(owner);
    OPS("delete");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), ours - 1);
}

/* --- the end of its time ------------------------------------------------------------------------------------------- */

/* The release is read before the time. */
TEST_IN_SCRIPT(test_released_after_max_hold)
{
    script_enter(&me, CONTENDER_CONFIG(.linger = KEPT, .max_hold = 100 * MS, .mark = true));
    script_answer_all();
    script.now += 101 * MS;
    release_deletes(&me); /* and writes no mark: it had lost the lock */
}

/* --- who may have it ----------------------------------------------------------------------------------------------- */

static const zkl_acl_entry entries[] = {{ZKL_PERM_ALL, "world", "anyone"}, {ZKL_PERM_ALL, "ip", "10.0.0.1"}};

TEST_IN_SCRIPT(test_same_access_list)
{
    zkl_acl lists[] = {{2, entries}, {2, entries}, {2, entries}, {1, entries}};
    script_enter(&me, CONTENDER_CONFIG(.linger = KEPT, .acl = &lists[0]));
    script_answer_all();
    release_keeps(&me);
    for (uint64_t serial = 2; serial <= 3; serial++) {
        lists[serial - 2].count = 0; /* its owner's memory is gone */
        script_enter(&you, CONTENDER_CONFIG(.linger = KEPT, .acl = &lists[serial - 1]));
        CU_ASSERT_EQUAL(you.serial, serial);
        release_keeps(&you);
    }
    script_enter(&you, CONTENDER_CONFIG(.linger = KEPT, .acl = &lists[3]));
    CU_ASSERT_EQUAL(you.granted, 0);
    OPS("create delete list");
}

/* Whoever needs a znode of another kind, or is to be in the list, queues, and what lingers gives way. */
TEST(test_who_differs)
{
    const struct zkl__contender_config others[] = {
        {.linger = KEPT, .rule = &script_writer},
        {.linger = KEPT, .metadata = "you"},
        {.linger = KEPT, .delay = MS},
        {.linger = 0},
        {.linger = KEPT, .max_ahead = 1},
    };
    EACH_ROW (i, others) {
        hold();
        release_keeps(&me);
        script_enter(&you, &others[i]);
        CU_ASSERT_EQUAL(you.granted, 0);
        script_answer_all();
        script_run(2 * MS); /* of the one with a delay: the end of the other one is no clean one */
        CU_ASSERT_EQUAL(you.serial, 1);
        CU_ASSERT_EQUAL(script_ours(), 1);
        script_finish();
    }
}

/* --- it gives way -------------------------------------------------------------------------------------------------- */

/* Nothing has shown the node for longer than a heartbeat, since no reply comes: one check is sent, whoever waits, and the line stays. */
TEST_WHILE_HELD(test_not_shown_lately)
{
    script_wait(script.timeout / 12 + MS);
    OPS("check get");
    script_answer_with(ZKL__RC_NOTAPPLIED); /* does not show the node */
    script_answer();
    enter(&you);
    release_keeps_with(&me, "check");
    enter(&third);
    OPS("check");
    CU_ASSERT_EQUAL(you.granted + third.granted, 0);
    script_answer();
    CU_ASSERT_EQUAL(you.serial, 2);
    release_keeps(&you);
    CU_ASSERT_EQUAL(third.serial, 3);
}

/* Used all the time, it is shown again before that: the check is sent beside a grant, and nobody waits for it. */
TEST_WHILE_HELD(test_shown_in_time)
{
    script_wait(script.timeout / 12 - MS); /* no heartbeat is due yet */
    OPS("");
    enter(&you);
    release_keeps_with(&me, "check");
    CU_ASSERT_EQUAL(you.granted, 1);
    enter(&me);
    release_keeps_with(&you, "check"); /* the same one */
    CU_ASSERT_EQUAL(me.granted, 1);
    script_answer();
    OPS("");
    release_keeps(&me);
}

/* A step brings the release, and the deadline of the first in line has passed: the next one is granted. */
TEST_WHILE_HELD(test_late_in_line)
{
    CU_ASSERT_TRUE_FATAL(script_contend(&you, LINGERING));
    script_start(&you, script.now + 10 * MS, false);
    enter(&third);
    script.now += 11 * MS;
    release_keeps(&me);
    CU_ASSERT_EQUAL(you.granted, 0);
    CU_ASSERT_EQUAL(you.code, ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(third.granted, 1);
}

/* --- a line again --------------------------------------------------------------------------------------------------- */

/* me holds, you and third stand behind it on the server, and nobody else: all began together. */
static void stand_apart(void)
{
    script_begin();
    enter(&me);
    enter(&you);
    enter(&third);
    script_answer_all();
    STATE(&me, "held");
    STATE(&you, "watching");
    STATE(&third, "watching");
    CU_ASSERT_EQUAL(script_ours(), 3);
}

/* The znode is passed on, the others' go, and when a list shows it alone it is granted in memory. */
TEST(test_line_again)
{
    stand_apart();
    script_release(&me);
    OPS("delete");
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(you.serial, 2);
    CU_ASSERT_EQUAL(you.token, me.token);
    enter(&me); /* in line */
    script_release(&you);
    OPS("delete delete list");
    CU_ASSERT_EQUAL(third.serial, 3);
    script_release(&third);
    CU_ASSERT_EQUAL(me.granted, 0); /* before the list says that nobody else waits */
    script_answer_granted(&me);
    CU_ASSERT_EQUAL(me.serial, 4);
    CU_ASSERT_EQUAL(script_ours(), 1);
    release_keeps(&me);
    script_put(SOMEBODY, SCRIPT_STRANGER);
    script_deliver(); /* the event */
    OPS("delete");
    script_finish();
}

/* What was sent on the lost connection may be done as long as the holder's znode stands: it is not passed on. */
TEST(test_not_over_a_lost_connection)
{
    stand_apart();
    script_reconnect(0);
    script_answer_all();
    STATE(&you, "watching");
    release_deletes(&me);
    CU_ASSERT_EQUAL(you.serial, 1);
    script_finish();
}

/* The list of another one does not show the holder's znode, which somebody has deleted by hand: it is not passed on. */
TEST_IN_SCRIPT(test_removed_and_another_lists)
{
    enter(&me);
    enter(&you);
    script_answer();
    script_answer_all();
    STATE(&me, "held");
    script_enter(&third, CONTENDER_CONFIG(.linger = KEPT, .metadata = "third"));
    script_answer();
    script_remove_node(&me);
    script_answer_all();
    script_release(&me);
    script_answer_granted(&you);
    CU_ASSERT_EQUAL(you.serial, 1);
}

/* A holder that is let go of does not linger. */
TEST_WHILE_HELD(test_let_go)
{
    struct zkl__event event = {.kind = ZKL__EV_LET_GO, .machine = me.machine};
    me.machine = NULL; /* an outcome from here on is a failure */
    script_step(event);
    OPS("delete");
}

/* --- what is under way --------------------------------------------------------------------------------------------- */

static void done(struct zkl__request *request, const struct zkl__reply *reply) {}

static void send_set(struct zkl__request *request)
{
    const struct zkl__op set = {.kind = ZKL__OP_SET, .dir = "/q", .data = "x", .size = 1, .version = -1};
    *request = (struct zkl__request){.done = done};
    script_step((struct zkl__event){.kind = ZKL__EV_REQUEST, .request = request, .op = &set});
}

/* What the last holder sent might be done under the next grant, behind another connection. */
TEST_WHILE_HELD(test_a_transaction_is_under_way)
{
    static struct zkl__request request, another; /* answered by script_finish */
    send_set(&request);
    script_release(&me);
    OPS("set");
    enter(&you);
    OPS("set check"); /* answered behind it */
    script_answer();
    CU_ASSERT_EQUAL(you.granted, 0);
    send_set(&another);
    script_answer();
    CU_ASSERT_EQUAL(you.serial, 2); /* nobody else's writes are waited for */
}

/* A check that was sent before the release says nothing of what the holder sent after it. */
TEST_WHILE_HELD(test_a_check_of_before)
{
    script_wait(script.timeout / 12 - MS);
    enter(&you);
    release_keeps_with(&me, "check");
    static struct zkl__request request;
    send_set(&request);
    enter(&third);
    release_keeps_with(&you, "check set");
    script_answer();
    CU_ASSERT_EQUAL(third.granted, 0);
    OPS("set check");
    script_answer();
    script_answer();
    CU_ASSERT_EQUAL(third.granted, 1);
}

TEST_IN_SCRIPT(test_no_memory_for_an_access_list)
{
    static const zkl_acl acl = {2, entries};
    script_enter(&me, CONTENDER_CONFIG(.linger = KEPT, .acl = &acl));
    script_answer_all();
    test_heap_fail(&script.heap, 1, false);
    script_release(&me);
    test_heap_fail(&script.heap, 0, false);
    OPS("delete");
}

/* Without a server the line is dissolved; its contenders queue in its order when the session is connected again. */
TEST_WHILE_HELD(test_order_over_a_lost_connection)
{
    enter(&you);
    enter(&third);
    script_reconnect(0);
    script_answer_all();
    release_deletes(&me);
    script_answer_granted(&you);
    CU_ASSERT_EQUAL(third.granted, 0);
}

#define OWNERS 8
#define MANY 9 /* of so many one lists nothing */

static struct script_owner owners[MANY];
static struct script_owner *const first = &owners[0], *const second = &owners[1], *const after = &owners[2];
static struct script_owner *const last_but_one = &owners[MANY - 2], *const last = &owners[MANY - 1];

/* The first of so many holds, the others wait in their order. */
static void queue_up(int count)
{
    script_begin();
    for (int i = 0; i < count; i++) {
        script_acquire(&owners[i]);
        script_answer_all();
        STATE(&owners[i], i == 0 ? "held" : "watching");
    }
}

/* --- what it costs ------------------------------------------------------------------------------------------------- */

/* A list that was on its way shows a holder whose delete is on its way by now. */
TEST(test_follows_one_that_leaves)
{
    queue_up(1);
    script_acquire(second);
    OPS("create list");
    script_do();
    script_do();
    script_release(first);
    script_deliver();
    script_deliver();
    CU_ASSERT_EQUAL(second->granted, 1);
    OPS("delete");
    script_finish();
}

/* The first delete is put off while the second is under way, and the third waits for both. */
TEST(test_handed_at_second_hand)
{
    queue_up(3);
    script_release(first);
    script_release(second);
    CU_ASSERT_EQUAL(after->granted, 1);
    OPS("delete delete");
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_release(after);
    OPS("delete");
    script_wait(25 * MS);
    OPS("delete delete delete");
    script_finish();
}

/* Who waits gives up, and the delete of the one before it changes nothing: it is not granted, nor does it list. */
TEST(test_close_hands_nothing_over)
{
    queue_up(3);
    script_close();
    CU_ASSERT_EQUAL(second->granted, 0);
    OPS("delete delete delete");
    script_finish();
}

TEST_IN_SCRIPT(test_lists_are_shared)
{
    for (int i = 0; i < OWNERS; i++) {
        script_acquire(&owners[i]);
    }
    OPS("create list create create create create create create create");
    script_answer();
    script_answer(); /* a list serves only who was there when it was sent */
    OPS("create create create create create create create list");
    STATE(first, "held");
    STATE(second, "creating");
    script_answer_all();
    CU_ASSERT_EQUAL(script.submits, 1 + OWNERS + 2); /* the session's sync, first */
    for (int i = 1; i < OWNERS; i++) {
        STATE(&owners[i], "watching");
    }
}

/* All but the last two have held. The last one has sent its create alone, and follows the other by its number. */
static void hold_before_an_unlisted_one(void)
{
    queue_up(MANY - 1);
    script_acquire(last);
    OPS("create");
    script_answer();
    OPS("");
    STATE(last, "watching");
    for (int i = 0; i < MANY - 2; i++) {
        script_release(&owners[i]);
        CU_ASSERT_EQUAL(script_count(ZKL__OP_CHILDREN), 0);
        script_answer_all();
    }
    CU_ASSERT_EQUAL(last_but_one->granted, 1);
}

/* No list has shown it: it sends one behind the delete. */
TEST(test_unlisted_lists_in_its_turn)
{
    hold_before_an_unlisted_one();
    script_release(last_but_one);
    OPS("delete list");
    CU_ASSERT_EQUAL(last->granted, 0);
    script_answer_granted(last);
    script_finish();
}

/* The directory was made anew, and counts from the beginning: numbers are no neighbours any more. */
TEST(test_unlisted_behind_one_that_was_removed)
{
    hold_before_an_unlisted_one();
    script_remove_node(last_but_one);
    script_put("/q/_c_00000000-0000-4000-8000-000000000000-lock-0000000000", 99)->stat.czxid = 1;
    script_acquire(first);
    script_answer_all();
    script_release(last_but_one);
    script_answer_all();
    CU_ASSERT_EQUAL(last->granted, 0);
    script_finish();
}

/* --- when it must not be ------------------------------------------------------------------------------------------- */

TEST(test_no_lease_no_hand_over)
{
    queue_up(2);
    script_suspend(0);
    script_wait(8500 * MS); /* too little is left to grant on, and the list that comes now is no proof of life */
    STATE(first, "held");
    script_connect();
    script_answer_all();
    STATE(second, "watching");
    script_release(first);
    CU_ASSERT_EQUAL(second->granted, 0);
    OPS("delete list");
    script_run(2 * script.timeout);
    CU_ASSERT_EQUAL(second->granted, 1);
    script_finish();
}

TESTS("linger")
