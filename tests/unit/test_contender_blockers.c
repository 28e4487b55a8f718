/* Who is before a contender: strangers of every kind, forgers, nodes that may not be read. */
#include "script.h"

#include <stdio.h>
#include <string.h>

static struct script s;
static struct script_owner me;

/* --- a blocker that may not be read --------------------------------------------------------------------------------- */

static const enum script_rules every_rule[] = {SCRIPT_NOTHING_NEEDS_READ, SCRIPT_EVENTS_NEED_READ,
                                               SCRIPT_EXISTS_NEEDS_READ};
#define EVERY_RULE (sizeof every_rule / sizeof *every_rule)

/* Our node is there, and a list shows a blocker that refuses the get under way. */
static void find_hidden(enum script_rules rules)
{
    script_begin_blocked(&s);
    s.rules = rules;
    script_find(&s, SCRIPT_BLOCKER)->hidden = true;
    script_acquire(&s, &me);
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "get");
}

static void wait_behind_hidden(enum script_rules rules)
{
    find_hidden(rules);
    script_answer_all(&s);
    STATE(&me, "watching");
    CU_ASSERT_EQUAL(s.watch_count, 1);
    CU_ASSERT_STRING_EQUAL(s.watches[0].path, "/q"); /* and no watch on a node whose end nobody would tell */
}

static void finish_granted(void)
{
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    script_finish(&s);
}

static void test_unreadable_blocker(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        find_hidden(every_rule[i]);
        script_answer(&s);
        OPS(&s, "exists list");
        CU_ASSERT_FALSE(s.ops[0].watch);
        CU_ASSERT_TRUE(s.ops[1].watch);
        script_answer_all(&s);
        STATE(&me, "watching");
        script_remove(&s, SCRIPT_BLOCKER);
        OPS(&s, "list");
        finish_granted();
    }
}

static void test_unreadable_blocker_that_goes(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        find_hidden(every_rule[i]);
        script_answer(&s);
        script_remove(&s, SCRIPT_BLOCKER); /* before the two are looked at */
        finish_granted();
        find_hidden(every_rule[i]);
        script_answer(&s);
        script_answer(&s);
        script_do(&s);
        script_remove(&s, SCRIPT_BLOCKER); /* between the list and its answer */
        finish_granted();
    }
}

/* Others come and go: the queue is listed, and nothing that was refused is asked again. */
static void test_unreadable_blocker_and_others(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        wait_behind_hidden(every_rule[i]);
        for (int n = 0; n < 10; n++) {
            script_put(&s, "/q/lock-0000000077", SCRIPT_STRANGER);
            script_answer_all(&s);
            STATE(&me, "watching");
            int submits = s.submits;
            script_remove(&s, "/q/lock-0000000077");
            OPS(&s, "list");
            CU_ASSERT_TRUE(s.ops[0].watch);
            script_answer_all(&s);
            CU_ASSERT_EQUAL(s.submits, submits + 1);
            STATE(&me, "watching");
        }
        int submits = s.submits;
        script_wait(&s, 1000 * MS);
        CU_ASSERT_EQUAL(s.submits, submits);
        script_remove(&s, SCRIPT_BLOCKER);
        finish_granted();
    }
}

/* The event of a watch that another one of the session had set is here before the answer to our list. */
static void test_unreadable_blocker_and_an_early_event(void)
{
    find_hidden(SCRIPT_EVENTS_NEED_READ);
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "list");
    script_step(&s, (struct zkl__event){.kind = ZKL__EV_WATCH, .watch = ZKL__WATCH_CHILDREN, .path = "/q"});
    script_answer(&s);
    OPS(&s, "list"); /* for a watch of our own */
    script_answer_all(&s);
    script_remove(&s, SCRIPT_BLOCKER);
    finish_granted();
}

/* The one after it may be read: that is watched, and nothing else. */
static void test_readable_behind_an_unreadable_one(void)
{
    script_begin_blocked(&s);
    s.rules = SCRIPT_EXISTS_NEEDS_READ;
    script_find(&s, SCRIPT_BLOCKER)->hidden = true;
    script_put(&s, "/q/lock--000000001", SCRIPT_STRANGER);
    script_acquire(&s, &me);
    script_answer_all(&s);
    script_remove(&s, SCRIPT_BLOCKER);
    script_answer(&s);
    OPS(&s, "unwatch get");
    script_answer_all(&s);
    STATE(&me, "watching");
    CU_ASSERT_EQUAL(s.watch_count, 1);
    CU_ASSERT_STRING_EQUAL(s.watches[0].path, "/q/lock--000000001");
    script_remove(&s, "/q/lock--000000001");
    finish_granted();
}

/* Persistent: where its stat may be seen it is passed over, else it counts. */
static void test_unreadable_and_forged(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        find_hidden(every_rule[i]);
        script_find(&s, SCRIPT_BLOCKER)->owner = 0;
        script_answer_all(&s);
        if (every_rule[i] == SCRIPT_EXISTS_NEEDS_READ) {
            STATE(&me, "watching");
            script_remove(&s, SCRIPT_BLOCKER);
        }
        finish_granted();
    }
}

static void test_unreadable_and_a_try(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        script_begin_blocked(&s);
        s.rules = every_rule[i];
        script_find(&s, SCRIPT_BLOCKER)->hidden = true;
        struct zkl__contender_config config = script_config(&me, "/q");
        CU_ASSERT_TRUE_FATAL(script_contend(&s, &me, &config));
        script_start(&s, &me, INT64_MAX, true);
        script_answer_all(&s);
        CU_ASSERT_EQUAL(s.watch_count, 0);
        script_finish_failed(&s, &me, ZKL_EBUSY);
    }
}

/* Its stat is asked for again, later; its end is heard of meanwhile. */
static void test_unreadable_and_throttled(void)
{
    for (int gone = 0; gone < 2; gone++) {
        find_hidden(SCRIPT_EVENTS_NEED_READ);
        script_find(&s, SCRIPT_BLOCKER)->owner = gone ? SCRIPT_STRANGER : 0;
        script_answer(&s);
        script_answer_with(&s, ZKL__RC_NOTAPPLIED);
        script_answer_all(&s);
        STATE(&me, "watching");
        OPS(&s, "");
        if (gone) {
            script_remove(&s, SCRIPT_BLOCKER);
        }
        script_wait(&s, 100 * MS);
        CU_ASSERT_EQUAL(s.op_count, 1);
        finish_granted();
    }
}

static void test_unreadable_and_a_reconnect(void)
{
    for (size_t i = 0; i < EVERY_RULE; i++) {
        wait_behind_hidden(every_rule[i]);
        script_suspend(&s, 0);
        script_connect(&s);
        script_answer_all(&s);
        STATE(&me, "watching");
        script_suspend(&s, 0);
        script_remove(&s, SCRIPT_BLOCKER);
        script_connect(&s);
        finish_granted();
    }
}

static void test_unreadable_and_given_up(void)
{
    wait_behind_hidden(SCRIPT_EXISTS_NEEDS_READ);
    script_cancel(&s, &me);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    script_finish_failed(&s, &me, ZKL_ECANCELED);
}

/* --- forged places --------------------------------------------------------------------------------------------------- */

static void test_forged_places_before_us(void)
{
    script_begin(&s);
    s.next_sequence = 100;
    script_put(&s, "/q/lock-0000000003", 0); /* persistent: lives with nobody */
    script_put(&s, "/q/foreign-0000000005", SCRIPT_STRANGER);
    script_put(&s, "/q/readme", 0);
    script_acquire(&s, &me);
    script_answer(&s);
    script_put(&s, "/q/lock-0000000050", SCRIPT_STRANGER); /* before us in number, and younger */
    script_put(&s, "/q/lock-0000000060", SCRIPT_STRANGER);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    script_finish(&s);
}

/* The czxid is not known when the forged one is looked at: the reply of the create was lost. */
static void test_forged_place_before_us_and_a_lost_reply(void)
{
    script_begin(&s);
    s.next_sequence = 100;
    script_acquire(&s, &me);
    script_suspend(&s, 2);
    script_put(&s, "/q/lock-0000000050", SCRIPT_STRANGER);
    script_connect(&s);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

static void test_forged_place_and_a_try(void)
{
    script_begin(&s);
    s.next_sequence = 100;
    script_put(&s, "/q/lock-0000000003", 0);
    struct zkl__contender_config config = script_config(&me, "/q");
    script_contend(&s, &me, &config);
    script_start(&s, &me, INT64_MAX, true);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

/* Curator's downgrade: a reader in the writer's place, below every waiter and younger than they are. */
static void test_downgraded_reader_is_honoured(void)
{
    static const char *const reader = "/q/_c_33333333-3333-4333-8333-333333333333-__READ__0000000000";
    static const char *const writer = "/q/_c_33333333-3333-4333-8333-333333333333-__WRIT__0000000000";
    script_begin(&s);
    script_put(&s, writer, SCRIPT_STRANGER);
    s.next_sequence = 1;
    script_acquire(&s, &me);
    script_answer_all(&s);
    script_put(&s, reader, SCRIPT_STRANGER);
    script_remove(&s, writer);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 0);
    CU_ASSERT_STRING_EQUAL(s.watches[0].path, reader);
    script_remove(&s, reader);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
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
        script_begin(&s);
        script_put(&s, names[i], SCRIPT_STRANGER);
        s.next_sequence = 1;
        script_acquire(&s, &me);
        script_answer_all(&s);
        STATE(&me, "watching");
        script_remove(&s, names[i]);
        script_answer_all(&s);
        CU_ASSERT_EQUAL(me.granted, 1);
        script_finish(&s);
    }
}

/* A list from before our own place: what stands in it behind us does not count. */
static void test_names_behind_us(void)
{
    script_begin(&s);
    script_acquire(&s, &me);
    script_answer(&s);
    script_put(&s, "/q/lock-0000000007", SCRIPT_STRANGER);
    script_put(&s, "/q/lock-0000000000", SCRIPT_STRANGER); /* our own number: nobody's place but ours */
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

/* --- a flood of forged places --------------------------------------------------------------------------------------- */

#define FLOOD 300

static void flood(int count)
{
    char path[SCRIPT_PATH];
    script_begin(&s);
    s.next_sequence = 100;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/q/x%d-lock-%010d", i, i % 50);
        script_put(&s, path, 0);
    }
}

struct tally {
    int lists, looks, round_trips;
};

/* Everything is answered, and all that is under way at a time as one round trip. */
static struct tally answer_and_count(void)
{
    struct tally tally = {0, 0, 0};
    while (s.op_count > 0) {
        tally.round_trips++;
        for (int i = s.op_count; i > 0; i--) {
            enum zkl__op_kind kind = script_answer(&s).kind;
            tally.lists += kind == ZKL__OP_CHILDREN;
            tally.looks += kind == ZKL__OP_GET || kind == ZKL__OP_EXISTS;
        }
    }
    return tally;
}

static void test_flood(void)
{
    flood(FLOOD);
    script_acquire(&s, &me);
    struct tally tally = answer_and_count();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(tally.lists, 2);
    CU_ASSERT_EQUAL(tally.looks, FLOOD);
    CU_ASSERT(tally.round_trips <= 7); /* create and list, 1, list, 1, 8, 64, the rest */
    CU_ASSERT_EQUAL(s.watch_count, 0);
    script_release(&s, &me);
    script_answer_all(&s);
    script_acquire(&s, &me); /* a new contender, when none was left: it knows them all */
    tally = answer_and_count();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(tally.looks, 0);
    script_finish(&s);
}

/* Somebody real stands among them, and then nobody. */
static void test_flood_and_a_contender(void)
{
    for (int at = 0; at < 60; at += 7) {
        char path[SCRIPT_PATH];
        flood(FLOOD);
        snprintf(path, sizeof path, "/q/real-lock-%010d", at);
        script_put(&s, path, SCRIPT_STRANGER);
        script_acquire(&s, &me);
        script_answer_all(&s);
        STATE(&me, "watching");
        CU_ASSERT_EQUAL(s.watch_count, 1);
        CU_ASSERT_STRING_EQUAL(s.watches[0].path, path);
        script_remove(&s, path);
        struct tally tally = answer_and_count();
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT(tally.looks <= FLOOD);
        script_finish(&s);
    }
}

/* A writer before us makes itself a reader while it is looked at: it is gone, and its reader stands. */
static void test_flood_and_a_downgrade(void)
{
    static const char *const reader = "/q/_c_33333333-3333-4333-8333-333333333333-__READ__0000000000";
    static const char *const writer = "/q/_c_33333333-3333-4333-8333-333333333333-__WRIT__0000000000";
    for (int answered = 1; answered < 12; answered++) {
        script_begin(&s);
        script_put(&s, writer, SCRIPT_STRANGER);
        for (int i = 0; i < 5; i++) {
            char path[SCRIPT_PATH];
            snprintf(path, sizeof path, "/q/x%d-lock-0000000050", i);
            script_put(&s, path, 0);
        }
        s.next_sequence = 100;
        script_acquire(&s, &me);
        for (int i = 0; i < answered && s.op_count > 0; i++) {
            script_answer(&s);
        }
        script_put(&s, reader, SCRIPT_STRANGER);
        script_remove(&s, writer);
        script_answer_all(&s);
        CU_ASSERT_EQUAL(me.granted, 0);
        script_remove(&s, reader);
        script_answer_all(&s);
        CU_ASSERT_EQUAL(me.granted, 1);
        script_finish(&s);
    }
}

/* Refused, throttled, interrupted, given up, expired, freed in the middle. */
static void test_flood_in_trouble(void)
{
    for (int trouble = 0; trouble < 6; trouble++) {
        for (int answered = 5; answered < 90; answered += 9) {
            flood(FLOOD);
            script_acquire(&s, &me);
            for (int i = 0; i < answered; i++) {
                script_answer(&s);
            }
            if (trouble == 0) {
                script_answer_with(&s, ZKL__RC_NOTAPPLIED);
            } else if (trouble == 1) {
                s.refuse_code = ZKL_ENOMEM;
                s.refuse_skip = 20;
                s.refuse_count = 30;
            } else if (trouble == 2) {
                script_suspend(&s, 3);
                script_connect(&s);
            } else if (trouble == 3) {
                script_cancel(&s, &me);
            } else if (trouble == 4) {
                script_expire(&s);
                script_connect(&s);
            } else {
                script_deinit(&s);
                continue;
            }
            script_run(&s, 5000 * MS);
            CU_ASSERT_EQUAL(me.granted, trouble != 3);
            script_finish(&s);
        }
    }
}

/* The directory is made anew, and counts from the beginning: a name that was forged may be a contender's now. */
static void test_flood_of_a_former_directory(void)
{
    flood(10);
    script_acquire(&s, &me);
    script_answer_all(&s);
    script_release(&s, &me);
    script_answer_all(&s);
    for (int i = 0; i < 10; i++) {
        char path[SCRIPT_PATH];
        snprintf(path, sizeof path, "/q/x%d-lock-%010d", i, i % 50);
        script_remove(&s, path);
    }
    script_remove(&s, "/q");
    script_put(&s, "/q", 0);
    script_put(&s, "/q/x3-lock-0000000003", SCRIPT_STRANGER);
    s.next_sequence = 4;
    script_acquire(&s, &me);
    script_answer_all(&s);
    STATE(&me, "watching");
    script_remove(&s, "/q/x3-lock-0000000003");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

TESTS("contender blockers", T(test_flood), T(test_flood_and_a_contender), T(test_flood_and_a_downgrade),
      T(test_flood_in_trouble), T(test_flood_of_a_former_directory), T(test_unreadable_blocker),
      T(test_unreadable_blocker_that_goes), T(test_unreadable_blocker_and_others),
      T(test_unreadable_blocker_and_an_early_event), T(test_readable_behind_an_unreadable_one),
      T(test_unreadable_and_forged), T(test_unreadable_and_a_try), T(test_unreadable_and_throttled),
      T(test_unreadable_and_a_reconnect), T(test_unreadable_and_given_up), T(test_forged_places_before_us),
      T(test_forged_place_before_us_and_a_lost_reply), T(test_forged_place_and_a_try),
      T(test_downgraded_reader_is_honoured), T(test_everybodys_contenders_are_waited_for), T(test_names_behind_us))
