/* Who is before a contender: strangers of every kind, forgers, nodes that may not be read. */
#include "script.h"

#include <string.h>

static struct script s;
static struct script_owner me;

static void test_unreadable_blocker(void)
{
    script_begin_blocked(&s);
    script_find(&s, SCRIPT_BLOCKER)->hidden = true;
    script_acquire(&s, &me);
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "get");
    script_answer(&s);
    OPS(&s, "exists"); /* needs no permission */
    script_answer(&s);
    STATE(&me, "watching");
    script_remove(&s, SCRIPT_BLOCKER);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    script_finish(&s);
}

static void test_unreadable_blocker_that_goes(void)
{
    script_begin_blocked(&s);
    script_find(&s, SCRIPT_BLOCKER)->hidden = true;
    script_acquire(&s, &me);
    for (int i = 0; i < 3; i++) {
        script_answer(&s);
    }
    OPS(&s, "exists");
    script_remove(&s, SCRIPT_BLOCKER);
    script_answer(&s);
    OPS(&s, "unwatch list"); /* exists leaves a watch on what is not there */
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    script_finish(&s);
}

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

TESTS("contender blockers", T(test_unreadable_blocker), T(test_unreadable_blocker_that_goes),
      T(test_forged_places_before_us), T(test_forged_place_before_us_and_a_lost_reply), T(test_forged_place_and_a_try),
      T(test_downgraded_reader_is_honoured), T(test_everybodys_contenders_are_waited_for), T(test_names_behind_us))
