/* Who is before a contender: strangers of every kind, forgers, nodes that may not be read. */
#include "script.h"

#include <stdio.h>
#include <string.h>

/* --- a blocker that may not be read --------------------------------------------------------------------------------- */

static const enum script_rules every_rule[] = {SCRIPT_NOTHING_NEEDS_READ, SCRIPT_EVENTS_NEED_READ,
                                               SCRIPT_EXISTS_NEEDS_READ};
#define EVERY_RULE (sizeof every_rule / sizeof *every_rule)

/* Our node is there, and a list shows a blocker that refuses the get under way. */
static void find_hidden(enum script_rules rules)
{
    script_begin_blocked();
    script.rules = rules;
    script_find(SCRIPT_BLOCKER)->hidden = true;
    script_acquire(&me);
    script_answer();
    script_answer();
    OPS("get");
}

static void wait_behind_hidden(enum script_rules rules)
{
    find_hidden(rules);
    script_answer_all();
    STATE(&me, "watching");
    CU_ASSERT_EQUAL(script.watch_count, 1);
    CU_ASSERT_STRING_EQUAL(script.watches[0].path, "/q"); /* and no watch on a node whose end nobody would tell */
}

static void finish_granted(void)
{
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_finish();
}

static void test_unreadable_blocker(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        find_hidden(every_rule[i]);
        script_answer();
        OPS("exists list");
        CU_ASSERT_FALSE(script.ops[0].watch);
        CU_ASSERT_TRUE(script.ops[1].watch);
        script_answer_all();
        STATE(&me, "watching");
        script_remove(SCRIPT_BLOCKER);
        OPS("list");
        finish_granted();
    }
}

static void test_unreadable_blocker_that_goes(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        find_hidden(every_rule[i]);
        script_answer();
        script_remove(SCRIPT_BLOCKER); /* before the two are looked at */
        finish_granted();
        find_hidden(every_rule[i]);
        script_answer();
        script_answer();
        script_do();
        script_remove(SCRIPT_BLOCKER); /* between the list and its answer */
        finish_granted();
    }
}

/* Others come and go: the queue is listed, and nothing that was refused is asked again. */
static void test_unreadable_blocker_and_others(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        wait_behind_hidden(every_rule[i]);
        for (int n = 0; n < 10; n++) {
            script_put("/q/lock-0000000077", SCRIPT_STRANGER);
            script_answer_all();
            STATE(&me, "watching");
            int submits = script.submits;
            script_remove("/q/lock-0000000077");
            OPS("list");
            CU_ASSERT_TRUE(script.ops[0].watch);
            script_answer_all();
            CU_ASSERT_EQUAL(script.submits, submits + 1);
            STATE(&me, "watching");
        }
        int submits = script.submits;
        script_wait(1000 * MS);
        CU_ASSERT_EQUAL(script.submits, submits);
        script_remove(SCRIPT_BLOCKER);
        finish_granted();
    }
}

/* The event of a watch that another one of the session had set is here before the answer to our list. */
static void test_unreadable_blocker_and_an_early_event(void)
{
    find_hidden(SCRIPT_EVENTS_NEED_READ);
    script_answer();
    script_answer();
    OPS("list");
    script_step((struct zkl__event){.kind = ZKL__EV_WATCH, .watch = ZKL__WATCH_CHILDREN, .path = "/q"});
    script_answer();
    OPS("list"); /* for a watch of our own */
    script_answer_all();
    script_remove(SCRIPT_BLOCKER);
    finish_granted();
}

/* The one after it may be read: that is watched, and nothing else. */
static void test_readable_behind_an_unreadable_one(void)
{
    script_begin_blocked();
    script.rules = SCRIPT_EXISTS_NEEDS_READ;
    script_find(SCRIPT_BLOCKER)->hidden = true;
    script_put("/q/lock--000000001", SCRIPT_STRANGER);
    script_acquire(&me);
    script_answer_all();
    script_remove(SCRIPT_BLOCKER);
    script_answer();
    OPS("unwatch get");
    script_answer_all();
    STATE(&me, "watching");
    CU_ASSERT_EQUAL(script.watch_count, 1);
    CU_ASSERT_STRING_EQUAL(script.watches[0].path, "/q/lock--000000001");
    script_remove("/q/lock--000000001");
    finish_granted();
}

/* Persistent: where its stat may be seen it is passed over, else it counts. */
static void test_unreadable_and_forged(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        find_hidden(every_rule[i]);
        script_find(SCRIPT_BLOCKER)->owner = 0;
        script_answer_all();
        if (every_rule[i] == SCRIPT_EXISTS_NEEDS_READ) {
            STATE(&me, "watching");
            script_remove(SCRIPT_BLOCKER);
        }
        finish_granted();
    }
}

static void test_unreadable_and_a_try(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        script_begin_blocked();
        script.rules = every_rule[i];
        script_find(SCRIPT_BLOCKER)->hidden = true;
        struct zkl__contender_config config = script_config(&me, "/q");
        CU_ASSERT_TRUE_FATAL(script_contend(&me, &config));
        script_start(&me, INT64_MAX, true);
        script_answer_all();
        CU_ASSERT_EQUAL(script.watch_count, 0);
        script_finish_failed(&me, ZKL_EBUSY);
    }
}

/* Its stat is asked for again, later; its end is heard of meanwhile. */
static void test_unreadable_and_throttled(void)
{
    for (int gone = 0; gone < 2; gone++) {
        find_hidden(SCRIPT_EVENTS_NEED_READ);
        script_find(SCRIPT_BLOCKER)->owner = gone ? SCRIPT_STRANGER : 0;
        script_answer();
        script_answer_with(ZKL__RC_NOTAPPLIED);
        script_answer_all();
        STATE(&me, "watching");
        OPS("");
        if (gone) {
            script_remove(SCRIPT_BLOCKER);
        }
        script_wait(100 * MS);
        CU_ASSERT_EQUAL(script.op_count, 1);
        finish_granted();
    }
}

static void test_unreadable_and_a_reconnect(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        wait_behind_hidden(every_rule[i]);
        script_suspend(0);
        script_connect();
        script_answer_all();
        STATE(&me, "watching");
        script_suspend(0);
        script_remove(SCRIPT_BLOCKER);
        script_connect();
        finish_granted();
    }
}

static void test_unreadable_and_given_up(void)
{
    wait_behind_hidden(SCRIPT_EXISTS_NEEDS_READ);
    script_cancel(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_finish_failed(&me, ZKL_ECANCELED);
}

/* --- forged places --------------------------------------------------------------------------------------------------- */

static void test_forged_places_before_us(void)
{
    script_begin();
    script.next_sequence = 100;
    script_put("/q/lock-0000000003", 0); /* persistent: lives with nobody */
    script_put("/q/foreign-0000000005", SCRIPT_STRANGER);
    script_put("/q/readme", 0);
    script_acquire(&me);
    script_answer();
    script_put("/q/lock-0000000050", SCRIPT_STRANGER); /* before us in number, and younger */
    script_put("/q/lock-0000000060", SCRIPT_STRANGER);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_finish();
}

/* The czxid is not known when the forged one is looked at: the reply of the create was lost. */
static void test_forged_place_before_us_and_a_lost_reply(void)
{
    script_begin();
    script.next_sequence = 100;
    script_acquire(&me);
    script_suspend(2);
    script_put("/q/lock-0000000050", SCRIPT_STRANGER);
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_forged_place_and_a_try(void)
{
    script_begin();
    script.next_sequence = 100;
    script_put("/q/lock-0000000003", 0);
    struct zkl__contender_config config = script_config(&me, "/q");
    script_contend(&me, &config);
    script_start(&me, INT64_MAX, true);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* Curator's downgrade: a reader in the writer's place, below every waiter and younger than they are. */
static void test_downgraded_reader_is_honoured(void)
{
    static const char *const reader = "/q/_c_33333333-3333-4333-8333-333333333333-__READ__0000000000";
    static const char *const writer = "/q/_c_33333333-3333-4333-8333-333333333333-__WRIT__0000000000";
    script_begin();
    script_put(writer, SCRIPT_STRANGER);
    script.next_sequence = 1;
    script_acquire(&me);
    script_answer_all();
    script_put(reader, SCRIPT_STRANGER);
    script_remove(writer);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_STRING_EQUAL(script.watches[0].path, reader);
    script_remove(reader);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_everybodys_contenders_are_waited_for(void)
{
    static const char *const names[] = {"/q/_c_1f8fad5bd9cb469fa16570867728950e-lock-0000000000",
                                        "/q/lock-0000000000",
                                        "/q/0f8fad5bd9cb469fa16570867728950e__lock__0000000000",
                                        "/q/0f8fad5bd9cb469fa16570867728950e__rlock__0000000000",
                                        "/q/a-latch-0000000000",
                                        "/q/a-lease-0000000000"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        script_begin();
        script_put(names[i], SCRIPT_STRANGER);
        script.next_sequence = 1;
        script_acquire(&me);
        script_answer_all();
        STATE(&me, "watching");
        script_remove(names[i]);
        script_answer_all();
        CU_ASSERT_EQUAL(me.granted, 1);
        script_finish();
    }
}

/* A list from before our own place: what stands in it behind us does not count. */
static void test_names_behind_us(void)
{
    script_begin();
    script_acquire(&me);
    script_answer();
    script_put("/q/lock-0000000007", SCRIPT_STRANGER);
    script_put("/q/lock-0000000000", SCRIPT_STRANGER); /* our own number: nobody's place but ours */
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* --- a flood of forged places --------------------------------------------------------------------------------------- */

#define FLOOD 300

static void flood(int count)
{
    char path[SCRIPT_PATH];
    script_begin();
    script.next_sequence = 100;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/q/x%d-lock-%010d", i, i % 50);
        script_put(path, 0);
    }
}

struct tally {
    int lists, looks, round_trips;
};

/* Everything is answered, and all that is under way at a time as one round trip. */
static struct tally answer_and_count(void)
{
    struct tally tally = {0, 0, 0};
    while (script.op_count > 0) {
        tally.round_trips++;
        for (int i = script.op_count; i > 0; i--) {
            enum zkl__op_kind kind = script_answer().kind;
            tally.lists += kind == ZKL__OP_CHILDREN;
            tally.looks += kind == ZKL__OP_GET || kind == ZKL__OP_EXISTS;
        }
    }
    return tally;
}

static void test_flood(void)
{
    flood(FLOOD);
    script_acquire(&me);
    struct tally tally = answer_and_count();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(tally.lists, 2);
    CU_ASSERT_EQUAL(tally.looks, FLOOD);
    CU_ASSERT(tally.round_trips <= 7); /* create and list, 1, list, 1, 8, 64, the rest */
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_release(&me);
    script_answer_all();
    script_acquire(&me); /* a new contender, when none was left: it knows them all */
    tally = answer_and_count();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(tally.looks, 0);
    script_finish();
}

/* Somebody real stands among them, and then nobody. */
static void test_flood_and_a_contender(void)
{
    for (int at = 0; at < 60; at += 7) {
        char path[SCRIPT_PATH];
        flood(FLOOD);
        snprintf(path, sizeof path, "/q/real-lock-%010d", at);
        script_put(path, SCRIPT_STRANGER);
        script_acquire(&me);
        script_answer_all();
        STATE(&me, "watching");
        CU_ASSERT_EQUAL(script.watch_count, 1);
        CU_ASSERT_STRING_EQUAL(script.watches[0].path, path);
        script_remove(path);
        struct tally tally = answer_and_count();
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT(tally.looks <= FLOOD);
        script_finish();
    }
}

/* A writer before us makes itself a reader while it is looked at: it is gone, and its reader stands. */
static void test_flood_and_a_downgrade(void)
{
    static const char *const reader = "/q/_c_33333333-3333-4333-8333-333333333333-__READ__0000000000";
    static const char *const writer = "/q/_c_33333333-3333-4333-8333-333333333333-__WRIT__0000000000";
    for (int answered = 1; answered < 12; answered++) {
        script_begin();
        script_put(writer, SCRIPT_STRANGER);
        for (int i = 0; i < 5; i++) {
            char path[SCRIPT_PATH];
            snprintf(path, sizeof path, "/q/x%d-lock-0000000050", i);
            script_put(path, 0);
        }
        script.next_sequence = 100;
        script_acquire(&me);
        for (int i = 0; i < answered && script.op_count > 0; i++) {
            script_answer();
        }
        script_put(reader, SCRIPT_STRANGER);
        script_remove(writer);
        script_answer_all();
        CU_ASSERT_EQUAL(me.granted, 0);
        script_remove(reader);
        script_answer_all();
        CU_ASSERT_EQUAL(me.granted, 1);
        script_finish();
    }
}

/* Refused, throttled, interrupted, given up, expired, freed in the middle. */
static void test_flood_in_trouble(void)
{
    for (int trouble = 0; trouble < 6; trouble++) {
        for (int answered = 5; answered < 90; answered += 9) {
            flood(FLOOD);
            script_acquire(&me);
            for (int i = 0; i < answered; i++) {
                script_answer();
            }
            if (trouble == 0) {
                script_answer_with(ZKL__RC_NOTAPPLIED);
            } else if (trouble == 1) {
                script.refuse_code = ZKL_ENOMEM;
                script.refuse_skip = 20;
                script.refuse_count = 30;
            } else if (trouble == 2) {
                script_suspend(3);
                script_connect();
            } else if (trouble == 3) {
                script_cancel(&me);
            } else if (trouble == 4) {
                script_expire();
                script_connect();
            } else {
                script_deinit();
                continue;
            }
            script_run(5000 * MS);
            CU_ASSERT_EQUAL(me.granted, trouble != 3);
            script_finish();
        }
    }
}

/* The directory is made anew, and counts from the beginning: a name that was forged may be a contender's now. */
static void test_flood_of_a_former_directory(void)
{
    flood(10);
    script_acquire(&me);
    script_answer_all();
    script_release(&me);
    script_answer_all();
    for (int i = 0; i < 10; i++) {
        char path[SCRIPT_PATH];
        snprintf(path, sizeof path, "/q/x%d-lock-%010d", i, i % 50);
        script_remove(path);
    }
    script_remove("/q");
    script_put("/q", 0);
    script_put("/q/x3-lock-0000000003", SCRIPT_STRANGER);
    script.next_sequence = 4;
    script_acquire(&me);
    script_answer_all();
    STATE(&me, "watching");
    script_remove("/q/x3-lock-0000000003");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

TESTS("contender blockers", T(test_flood), T(test_flood_and_a_contender), T(test_flood_and_a_downgrade),
      T(test_flood_in_trouble), T(test_flood_of_a_former_directory), T(test_unreadable_blocker),
      T(test_unreadable_blocker_that_goes), T(test_unreadable_blocker_and_others),
      T(test_unreadable_blocker_and_an_early_event), T(test_readable_behind_an_unreadable_one),
      T(test_unreadable_and_forged), T(test_unreadable_and_a_try), T(test_unreadable_and_throttled),
      T(test_unreadable_and_a_reconnect), T(test_unreadable_and_given_up), T(test_forged_places_before_us),
      T(test_forged_place_before_us_and_a_lost_reply), T(test_forged_place_and_a_try),
      T(test_downgraded_reader_is_honoured), T(test_everybodys_contenders_are_waited_for), T(test_names_behind_us))
