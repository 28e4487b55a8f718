/* The mark that a release writes, and what its absence says: config.mark and config.delay. */
#include "script.h"

#include <string.h>

#define DELAY (1000 * MS)
#define SEALED "_c_11111111-1111-8111-8111-111111111111-lock-0000000000"

static void contend(struct script_owner *owner, bool mark, int64_t delay, bool try_only, int64_t deadline)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    config.announces = true;
    config.mark = mark;
    config.delay = delay;
    CU_ASSERT_TRUE_FATAL(script_contend(owner, &config));
    script_start(owner, deadline, try_only);
}

static void ask(struct script_owner *owner)
{
    contend(owner, true, 0, false, INT64_MAX);
}

static void acquire(struct script_owner *owner)
{
    ask(owner);
    script_answer_all();
    CU_ASSERT_EQUAL(owner->granted, 1);
}

static void release(struct script_owner *owner)
{
    script_release(owner);
    script_answer_all();
    CU_ASSERT_EQUAL(owner->released, 1);
}

static const char *mark(void)
{
    return script_find("/q")->data;
}

static bool is_unclean(struct script_owner *owner)
{
    acquire(owner);
    return owner->unclean;
}

static void crash(struct script_owner *owner)
{
    script_expire();
    CU_ASSERT_EQUAL(owner->lost, 1);
    script_connect();
    script_release(owner);
    script_answer_all();
}

/* --- who writes it --------------------------------------------------------------------------------------------------- */

static void test_with_the_release(void)
{
    script_begin();
    ask(&me);
    OPS("get create list");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_FALSE(me.unclean);
    CU_ASSERT_STRING_EQUAL(mark(), "");
    char own[SCRIPT_PATH];
    snprintf(own, sizeof own, "%s", zkl__contender_node(me.contender));
    script_release(&me);
    OPS("multi(set,delete)");
    script_answer();
    CU_ASSERT_STRING_EQUAL(mark(), own);
    CU_ASSERT_FALSE(is_unclean(&you));
    script_finish();
}

static void test_crash_is_told_until_a_release(void)
{
    script_begin();
    acquire(&me);
    crash(&me);
    for (int i = 0; i < 2; i++) { /* the second one crashes in its clean-up */
        CU_ASSERT_TRUE(is_unclean(&you));
        if (i == 0) {
            crash(&you);
        }
    }
    release(&you);
    CU_ASSERT_FALSE(is_unclean(&third));
    script_finish();
}

static void test_crash_is_told_to_one_in_the_queue(void)
{
    script_begin();
    acquire(&me);
    ask(&you);
    script_answer_all();
    script_remove(script_our_path()); /* the waiter's: it queues again, at the tail */
    script_answer_all();
    for (int i = 0; i < script.node_count; i++) { /* the holder's */
        if (strstr(script.nodes[i].path, "lock-0000000000")) {
            script_remove(script.nodes[i].path);
        }
    }
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.lost, 1); /* by its next heartbeat; and only then */
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_TRUE(you.unclean);
    release(&me); /* lost: writes none */
    CU_ASSERT_STRING_EQUAL(mark(), "");
    script_finish();
}

/* It came and left while another one held, and says nothing. */
static void test_who_only_waited_writes_none(void)
{
    script_begin();
    acquire(&me);
    contend(&you, true, 0, false, script.now + 100 * MS);
    script_answer_all();
    script_run(200 * MS);
    CU_ASSERT_EQUAL(you.code, ZKL_ETIMEOUT);
    CU_ASSERT_STRING_EQUAL(mark(), "");
    release(&me);
    CU_ASSERT_FALSE(is_unclean(&third));
    script_finish();
}

/* Given up at any moment before the grant: nobody is told that all is well after a crash. */
static void test_given_up_after_a_crash(void)
{
    for (int answered = 0; answered < 4; answered++) {
        script_begin();
        acquire(&me);
        crash(&me);
        ask(&you);
        for (int i = 0; i < answered; i++) {
            script_answer();
        }
        CU_ASSERT_EQUAL(you.granted, 0);
        script_cancel(&you);
        script_answer_all();
        CU_ASSERT_EQUAL(script_ours(), 0);
        CU_ASSERT_TRUE(is_unclean(&third));
        script_finish();
    }
}

/* It is first, waits for a lease, and gives up: it passes on what it knows. */
static void test_given_up_while_first(void)
{
    for (int crashed = 0; crashed <= 1; crashed++) {
        script_begin();
        acquire(&me);
        crashed ? crash(&me) : release(&me);
        script_wait(script.timeout * 9 / 10);
        ask(&you);
        while (strcmp(script_state(&you), "proving") != 0) {
            script_answer();
        }
        CU_ASSERT_EQUAL(you.granted, 0);
        script_cancel(&you);
        ask(&third);
        script_run(2 * script.timeout); /* a new lease */
        CU_ASSERT_EQUAL(third.granted, 1);
        CU_ASSERT_EQUAL(third.unclean, crashed);
        script_finish();
    }
}

static void test_release_with_a_lost_reply(void)
{
    for (int applied = 0; applied <= 1; applied++) {
        script_begin();
        acquire(&me);
        script_release(&me);
        script_suspend(applied);
        script_connect();
        script_answer_all();
        CU_ASSERT_EQUAL(me.released, 1);
        CU_ASSERT_FALSE(is_unclean(&you));
        script_finish();
    }
}

/* The directory may not be written: the znode is deleted nevertheless, and that looks like a crash. */
static void test_not_permitted(void)
{
    script_begin();
    acquire(&me);
    script_release(&me);
    script_answer_with(ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(script.warnings, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(script.warned, "WRITE"));
    OPS("delete");
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_TRUE(is_unclean(&you));
    script_finish();
}

/* The servers refuse the delete for a while, and not the mark: it is written later, with the delete. */
static void test_delete_not_permitted(void)
{
    script_begin();
    acquire(&me);
    script_find(script_our_path())->fixed = true;
    script_release(&me);
    script_run(100 * MS);
    CU_ASSERT_EQUAL(me.released, 0);
    CU_ASSERT_STRING_EQUAL(mark(), "");
    script_find(script_our_path())->fixed = false;
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_FALSE(is_unclean(&you));
    script_finish();
}

/* --- what else is in the directory ----------------------------------------------------------------------------------- */

/* A dirty marker of an older version, nothing in a directory that was in use, somebody's data, another release. */
static void test_unknown_is_unclean(void)
{
    static const char *const data[] = {"held by 11111111-1111-4111-8111-111111111111", "", "data",
                                       "_c_11111111-1111-4111-8111-111111111111-lock-0000000005"};
    for (int i = 0; i < 4; i++) {
        script_begin();
        script.next_sequence = 7;
        script_write("/q", data[i]);
        CU_ASSERT_TRUE(is_unclean(&me));
        release(&me);
        CU_ASSERT_FALSE(is_unclean(&you));
        script_finish();
    }
}

/* Another library's, or one without the option: before ours, or gone when we come. */
static void test_who_writes_none(void)
{
    for (int later = 0; later <= 1; later++) {
        script_begin();
        script_put(SCRIPT_BLOCKER, SCRIPT_STRANGER);
        script.next_sequence = 1;
        if (later) {
            script_remove(SCRIPT_BLOCKER);
        }
        ask(&me);
        script_answer_all();
        if (!later) {
            CU_ASSERT_EQUAL(me.granted, 0);
            script_remove(SCRIPT_BLOCKER);
            script_answer_all();
        }
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT_TRUE(me.unclean);
        script_finish();
    }
}

static void up_to_the_second_read(void)
{
    script_begin();
    script.next_sequence = 7;
    ask(&me);
    for (int i = 0; i < 3; i++) {
        script_answer();
    }
    STATE(&me, "proving");
    OPS("get");
}

static void test_read_refused(void)
{
    up_to_the_second_read();
    script_answer_with(ZKL__RC_NOTAPPLIED); /* later once more */
    OPS("");
    CU_ASSERT_EQUAL(me.granted, 0);
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
    up_to_the_second_read();
    script_answer_with(ZKL__RC_NOAUTH);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_TRUE(me.unclean);
    script_finish();
    up_to_the_second_read();
    script_remove(script_our_path());
    script_remove("/q");
    script_answer();
    STATE(&me, "creating");
    CU_ASSERT_EQUAL(me.granted, 0);
    script_finish();
}

/* --- announced, and handed over ---------------------------------------------------------------------------------------- */

/* Whoever announces a release may have no option, and know nothing of a crash before it. */
static void test_announced(void)
{
    for (int marked = 0; marked <= 1; marked++) {
        script_begin();
        script_put("/q/" SEALED, SCRIPT_STRANGER);
        script.next_sequence = 1;
        ask(&me);
        script_answer_all();
        STATE(&me, "watching");
        if (marked) {
            script_write("/q", SEALED);
        }
        script_change("/q/" SEALED);
        script_remove("/q/" SEALED);
        STATE(&me, "proving");
        OPS("get");
        script_answer();
        OPS(marked ? "" : "get list");
        script_answer_all();
        STATE(&me, "held");
        CU_ASSERT_EQUAL(me.unclean, !marked);
        script_release(&me);
        OPS("multi(set,set,delete)"); /* it waited: others may */
        script_finish();
    }
}

/* A lie: no release has left a mark, and a list shows that it still stands. */
static void test_announced_by_a_liar(void)
{
    script_begin();
    script_put("/q/" SEALED, SCRIPT_STRANGER);
    script.next_sequence = 1;
    contend(&me, true, DELAY, false, INT64_MAX);
    script_answer_all();
    script_change("/q/" SEALED);
    script_run(2 * DELAY);
    STATE(&me, "watching");
    CU_ASSERT_EQUAL(me.granted, 0);
    script_finish();
}

static void hold_with_a_follower(bool ahead, bool behind)
{
    script_begin();
    contend(&me, ahead, 0, false, INT64_MAX);
    script_answer_all();
    contend(&you, behind, 0, false, INT64_MAX);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(you.granted, 0);
    script_release(&me);
}

static void test_handed_over(void)
{
    hold_with_a_follower(true, true);
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_FALSE(you.unclean);
    OPS("delete");
    script_release(&you);
    OPS("delete multi(set,delete)");
    script_answer_all();
    CU_ASSERT_FALSE(is_unclean(&third));
    script_finish();
}

/* One of the two has no option. */
static void test_handed_over_unmarked(void)
{
    hold_with_a_follower(false, true);
    CU_ASSERT_EQUAL(you.granted, 0);
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_TRUE(you.unclean);
    script_finish();
    hold_with_a_follower(true, false);
    CU_ASSERT_EQUAL(you.granted, 1);
    script_answer_all();
    release(&you);
    CU_ASSERT_TRUE(is_unclean(&third));
    script_finish();
}

/* An operator deletes the node of the follower, which holds, before that of its predecessor is deleted. */
static void test_handed_over_and_removed(void)
{
    for (int lost = 0; lost <= 1; lost++) {
        hold_with_a_follower(true, true);
        char follower[SCRIPT_PATH];
        snprintf(follower, sizeof follower, "/q/%s", zkl__contender_node(you.contender));
        if (lost) {
            script_suspend(0);
        }
        script_remove(follower);
        ask(&third);
        if (lost) {
            script_connect();
        }
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(you.lost, 1);
        CU_ASSERT_EQUAL(third.granted, 1);
        CU_ASSERT_TRUE(third.unclean);
        script_finish();
    }
}

/* The delete with the mark is under way when another one of the session sees that it is next: nothing is handed over. */
static void test_not_handed_over_late(void)
{
    script_begin();
    acquire(&me);
    ask(&you);
    script_answer();
    script_answer();
    script_release(&me);
    script_answer();
    OPS("multi(set,delete) get list");
    CU_ASSERT_EQUAL(you.granted, 0);
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_FALSE(you.unclean);
    script_finish();
}

/* The same, and the predecessor's delete is put off: another follower comes before it is deleted. */
static void test_handed_over_once(void)
{
    hold_with_a_follower(true, true);
    char follower[SCRIPT_PATH];
    snprintf(follower, sizeof follower, "/q/%s", zkl__contender_node(you.contender));
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_remove(follower);
    ask(&third);
    script_answer_all();
    STATE(&third, "watching");
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(you.lost, 1);
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_TRUE(third.unclean);
    script_finish();
}

/* --- with a delay ---------------------------------------------------------------------------------------------------- */

static void test_delayed_and_told(void)
{
    script_begin();
    acquire(&me);
    crash(&me);
    contend(&you, true, DELAY, true, INT64_MAX);
    script_answer_all();
    CU_ASSERT_EQUAL(you.code, ZKL_EBUSY);
    contend(&you, true, 0, true, INT64_MAX); /* a try without a delay is granted */
    script_answer_all();
    CU_ASSERT_TRUE(you.unclean);
    crash(&you);
    contend(&third, true, DELAY, false, INT64_MAX);
    script_answer_all();
    script_run(DELAY - MS);
    CU_ASSERT_EQUAL(third.granted, 0);
    script_run(2 * MS);
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_TRUE(third.unclean);
    release(&third);
    contend(&me, true, DELAY, false, INT64_MAX);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_FALSE(me.unclean);
    script_finish();
}

static void test_directory_is_made_persistent(void)
{
    script_begin();
    struct zkl__contender_config config = script_config(&me, "/new/dir");
    config.mark = true;
    CU_ASSERT_TRUE_FATAL(script_contend(&me, &config));
    script_start(&me, INT64_MAX, false);
    while (!me.granted) {
        struct script_op op = script_answer();
        CU_ASSERT(op.kind != ZKL__OP_CREATE || op.mode == ZKL__PERSISTENT || op.mode == ZKL__EPHEMERAL_SEQUENTIAL);
    }
    CU_ASSERT_FALSE(me.unclean);
    script_finish();
}

TESTS("contender mark", T(test_with_the_release), T(test_crash_is_told_until_a_release),
      T(test_crash_is_told_to_one_in_the_queue), T(test_who_only_waited_writes_none), T(test_given_up_after_a_crash),
      T(test_given_up_while_first), T(test_release_with_a_lost_reply), T(test_not_permitted),
      T(test_delete_not_permitted), T(test_unknown_is_unclean), T(test_who_writes_none), T(test_read_refused),
      T(test_announced), T(test_announced_by_a_liar), T(test_handed_over), T(test_handed_over_unmarked),
      T(test_handed_over_and_removed), T(test_handed_over_once), T(test_not_handed_over_late), T(test_delayed_and_told),
      T(test_directory_is_made_persistent))
