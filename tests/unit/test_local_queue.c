/* Contenders of one session in one queue: what they spare each other, and when they must not. */
#include "contender_inside.h"
#include "script.h"

#include <string.h>

#define OWNERS 8
#define MANY 9 /* of so many one lists nothing */

static struct script s;
static struct script_owner owners[MANY];
static struct script_owner *const me = &owners[0], *const you = &owners[1], *const third = &owners[2];
static struct script_owner *const last_but_one = &owners[MANY - 2], *const last = &owners[MANY - 1];
static const struct zkl__rule writer = {"__WRIT__", ZKL__KIND_ANY};
static const struct zkl__rule reader = {"__READ__", ZKL__KIND_ANY & ~ZKL__KIND(ZKL_KIND_READ)};

static void ask(struct script_owner *owner, const struct zkl__rule *rule)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    config.rule = rule;
    CU_ASSERT_TRUE_FATAL(script_contend(&s, owner, &config));
    script_start(&s, owner, INT64_MAX, false);
    script_answer_all(&s);
}

/* The first of so many holds, the others wait in their order. */
static void queue_up(int count)
{
    script_begin(&s);
    for (int i = 0; i < count; i++) {
        ask(&owners[i], &zkl__rule_mutex);
        STATE(&owners[i], i == 0 ? "held" : "watching");
    }
}

/* What an operator, or the end of a session, takes away: the i-th that was made. */
static void remove_node(struct script_owner *owner)
{
    char path[SCRIPT_PATH];
    snprintf(path, sizeof path, "/q/%s", zkl__contender_node(owner->contender));
    script_remove(&s, path);
}

/* --- what it costs ------------------------------------------------------------------------------------------------- */

/* A list that was on its way shows a holder whose delete is on its way by now. */
static void test_follows_one_that_leaves(void)
{
    queue_up(1);
    struct zkl__contender_config config = script_config(you, "/q");
    CU_ASSERT_TRUE_FATAL(script_contend(&s, you, &config));
    script_start(&s, you, INT64_MAX, false);
    OPS(&s, "create list");
    script_do(&s);
    script_do(&s);
    script_release(&s, me);
    script_deliver(&s);
    script_deliver(&s);
    CU_ASSERT_EQUAL(you->granted, 1);
    OPS(&s, "delete");
    script_finish(&s);
}

/* The first delete is put off while the second is under way, and the third waits for both. */
static void test_handed_at_second_hand(void)
{
    queue_up(3);
    script_release(&s, me);
    script_release(&s, you);
    CU_ASSERT_EQUAL(third->granted, 1);
    OPS(&s, "delete delete");
    script_answer_with(&s, ZKL__RC_NOTAPPLIED);
    script_release(&s, third);
    OPS(&s, "delete");
    script_wait(&s, 25 * MS);
    OPS(&s, "delete delete delete");
    script_finish(&s);
}

static void test_hand_over_costs_its_delete(void)
{
    queue_up(OWNERS);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    for (int i = 0; i < OWNERS - 1; i++) {
        int before = s.submits;
        script_release(&s, &owners[i]); /* nothing is answered yet */
        CU_ASSERT_EQUAL(owners[i + 1].granted, 1);
        CU_ASSERT(owners[i + 1].token > owners[i].token);
        CU_ASSERT_EQUAL(s.submits - before, 1);
    }
    OPS(&s, "delete delete delete delete delete delete delete");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(script_ours(&s), 1);
    script_finish(&s);
}

/* Who waits gives up, and the delete of the one before it changes nothing: it is not granted, nor does it list. */
static void test_close_hands_nothing_over(void)
{
    queue_up(3);
    script_close(&s);
    CU_ASSERT_EQUAL(you->granted, 0);
    OPS(&s, "delete delete delete");
    script_finish(&s);
}

static void test_lists_are_shared(void)
{
    script_begin(&s);
    for (int i = 0; i < OWNERS; i++) {
        script_acquire(&s, &owners[i]);
    }
    OPS(&s, "create list create create create create create create create");
    script_answer(&s);
    script_answer(&s); /* a list serves only who was there when it was sent */
    OPS(&s, "create create create create create create create list");
    STATE(me, "held");
    STATE(you, "creating");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(s.submits, 1 + OWNERS + 2); /* the session's sync, first */
    for (int i = 1; i < OWNERS; i++) {
        STATE(&owners[i], "watching");
    }
    script_finish(&s);
}

static int count_lists(void)
{
    int lists = 0;
    for (int i = 0; i < s.op_count; i++) {
        lists += s.ops[i].kind == ZKL__OP_CHILDREN;
    }
    return lists;
}

/* All but the last two have held. The last one has sent its create alone, and follows the other by its number. */
static void hold_before_an_unlisted_one(void)
{
    queue_up(MANY - 1);
    struct zkl__contender_config config = script_config(last, "/q");
    CU_ASSERT_TRUE_FATAL(script_contend(&s, last, &config));
    script_start(&s, last, INT64_MAX, false);
    OPS(&s, "create");
    script_answer(&s);
    OPS(&s, "");
    STATE(last, "watching");
    for (int i = 0; i < MANY - 2; i++) {
        script_release(&s, &owners[i]);
        CU_ASSERT_EQUAL(count_lists(), 0);
        script_answer_all(&s);
    }
    CU_ASSERT_EQUAL(last_but_one->granted, 1);
}

/* No list has shown it: it sends one behind the delete. */
static void test_unlisted_lists_in_its_turn(void)
{
    hold_before_an_unlisted_one();
    script_release(&s, last_but_one);
    OPS(&s, "delete list");
    CU_ASSERT_EQUAL(last->granted, 0);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(last->granted, 1);
    script_finish(&s);
}

static void test_unlisted_reads_the_list_of_another(void)
{
    hold_before_an_unlisted_one();
    ask(me, &zkl__rule_mutex);
    script_release(&s, last_but_one);
    OPS(&s, "delete");
    CU_ASSERT_EQUAL(last->granted, 1);
    script_finish(&s);
}

/* The directory was made anew, and counts from the beginning: numbers are no neighbours any more. */
static void test_unlisted_behind_one_that_was_removed(void)
{
    hold_before_an_unlisted_one();
    remove_node(last_but_one);
    script_put(&s, "/q/_c_00000000-0000-4000-8000-000000000000-lock-0000000000", 99)->czxid = 1;
    ask(me, &zkl__rule_mutex);
    script_release(&s, last_but_one);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(last->granted, 0);
    script_finish(&s);
}

static void test_together_they_look_once_more(void)
{
    queue_up(OWNERS);
    script_suspend(&s, 0);
    script_connect(&s);
    CU_ASSERT_EQUAL(count_lists(), 1);
    script_answer_all(&s);
    STATE(&owners[OWNERS - 1], "watching");
    script_finish(&s);
}

static void test_try_behind_our_own(void)
{
    queue_up(1);
    struct zkl__contender_config config = script_config(you, "/q");
    CU_ASSERT_TRUE_FATAL(script_contend(&s, you, &config));
    script_start(&s, you, INT64_MAX, true);
    OPS(&s, "create list");
    script_answer(&s);
    script_answer(&s);
    CU_ASSERT_EQUAL(you->code, ZKL_EBUSY);
    OPS(&s, "delete"); /* nobody had to be asked */
    script_answer_all(&s);
    script_finish(&s);
}

/* --- when it must not be ------------------------------------------------------------------------------------------- */

static void test_no_lease_no_hand_over(void)
{
    queue_up(2);
    script_suspend(&s, 0);
    script_wait(&s, 8500 * MS); /* too little is left to grant on, and the list that comes now is no proof of life */
    STATE(me, "held");
    script_connect(&s);
    script_answer_all(&s);
    STATE(you, "watching");
    script_release(&s, me);
    CU_ASSERT_EQUAL(you->granted, 0);
    OPS(&s, "delete list");
    script_run(&s, 2 * s.timeout);
    CU_ASSERT_EQUAL(you->granted, 1);
    script_finish(&s);
}

static void test_not_while_disconnected(void)
{
    queue_up(2);
    script_suspend(&s, 0);
    script_release(&s, me);
    CU_ASSERT_EQUAL(you->granted, 0);
    script_connect(&s);
    script_run(&s, 5000 * MS);
    CU_ASSERT_EQUAL(you->granted, 1);
    script_finish(&s);
}

static void test_not_on_an_old_list(void)
{
    queue_up(2);
    script_run(&s, 2000 * MS);
    script_release(&s, me);
    CU_ASSERT_EQUAL(you->granted, 0);
    OPS(&s, "delete list"); /* behind it: no watch, one round trip */
    script_answer_all(&s);
    CU_ASSERT_EQUAL(you->granted, 1);
    script_finish(&s);
}

static void test_delete_that_was_not_sent(void)
{
    queue_up(2);
    s.refuse_kind = ZKL__OP_DELETE;
    s.refuse_code = ZKL_ELIMIT;
    s.refuse_count = 1;
    script_release(&s, me);
    CU_ASSERT_EQUAL(you->granted, 0);
    script_wait(&s, 100 * MS);
    CU_ASSERT_EQUAL(you->granted, 1);
    OPS(&s, "delete");
    script_finish(&s);
}

static void test_own_delete_does_not_overtake(void)
{
    queue_up(3);
    script_release(&s, me);
    script_answer_with(&s, ZKL__RC_NOTAPPLIED);
    STATE(you, "held");
    script_release(&s, you);
    OPS(&s, "");
    CU_ASSERT_EQUAL(third->granted, 0);
    script_wait(&s, 100 * MS);
    OPS(&s, "delete delete");
    CU_ASSERT_EQUAL(third->granted, 1);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me->released, 1);
    CU_ASSERT_EQUAL(you->released, 1);
    script_finish(&s);
}

/* The delete of the first is put off, that of the second is not: the third has to wait for the first. */
static void test_nor_that_of_one_before(void)
{
    queue_up(4);
    script_release(&s, me);
    script_release(&s, you);
    CU_ASSERT_EQUAL(third->granted, 1);
    script_answer_with(&s, ZKL__RC_NOTAPPLIED);
    script_answer(&s);
    CU_ASSERT_EQUAL(you->released, 1);
    script_release(&s, third);
    OPS(&s, "");
    CU_ASSERT_EQUAL(owners[3].granted, 0);
    script_wait(&s, 100 * MS);
    OPS(&s, "delete delete");
    CU_ASSERT_EQUAL(owners[3].granted, 1);
    script_finish(&s);
}

static void test_order_after_a_lost_connection(void)
{
    queue_up(2);
    char first[SCRIPT_PATH];
    snprintf(first, sizeof first, "/q/%s", zkl__contender_node(me->contender));
    script_release(&s, me);
    script_release(&s, you);
    OPS(&s, "delete delete");
    script_suspend(&s, 0);
    script_connect(&s);
    int seen = 0;
    for (int i = 0; i < s.op_count; i++) {
        if (s.ops[i].kind == ZKL__OP_DELETE) {
            CU_ASSERT_EQUAL(strcmp(s.ops[i].path, first) == 0, seen++ == 0);
        }
    }
    CU_ASSERT_EQUAL(seen, 2);
    script_answer_all(&s);
    script_finish(&s);
}

static void test_who_gave_up_is_removed_first(void)
{
    queue_up(3);
    script_cancel(&s, you);
    script_release(&s, me);
    CU_ASSERT_EQUAL(you->granted, 0);
    CU_ASSERT_EQUAL(third->granted, 0);
    OPS(&s, "delete list delete");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(third->granted, 1);
    script_finish(&s);
}

static void test_stranger_between(void)
{
    queue_up(1);
    script_put(&s, "/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000001", SCRIPT_STRANGER);
    s.next_sequence = 2;
    ask(you, &zkl__rule_mutex);
    CU_ASSERT_EQUAL(s.watch_count, 1);
    script_release(&s, me);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(you->granted, 0);
    script_remove(&s, "/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000001");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(you->granted, 1);
    script_finish(&s);
}

static void test_not_from_a_reader_to_a_writer(void)
{
    script_begin(&s);
    ask(me, &reader);
    ask(you, &reader);
    ask(third, &writer);
    script_release(&s, you); /* the one right before it */
    CU_ASSERT_EQUAL(third->granted, 0);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(third->granted, 0);
    script_release(&s, me);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(third->granted, 1);
    script_finish(&s);
}

static void test_from_a_writer_to_all_its_readers(void)
{
    script_begin(&s);
    ask(me, &writer);
    ask(you, &reader);
    ask(third, &reader);
    ask(&owners[3], &writer);
    script_release(&s, me);
    CU_ASSERT_EQUAL(you->granted, 1);
    CU_ASSERT_EQUAL(third->granted, 1);
    CU_ASSERT_EQUAL(owners[3].granted, 0);
    script_finish(&s);
}

/* So many that their one list is sorted first: in it, too, readers stand behind the writer, not behind each other. */
static void test_from_a_writer_to_many_readers(void)
{
    script_begin(&s);
    ask(me, &writer);
    for (int i = 1; i < OWNERS; i++) {
        struct zkl__contender_config config = script_config(&owners[i], "/q");
        config.rule = &reader;
        CU_ASSERT_TRUE_FATAL(script_contend(&s, &owners[i], &config));
        script_start(&s, &owners[i], INT64_MAX, false);
    }
    script_answer_all(&s);
    script_release(&s, me);
    for (int i = 1; i < OWNERS; i++) {
        CU_ASSERT_EQUAL(owners[i].granted, 1);
    }
    script_finish(&s);
}

static void test_one_of_the_readers_gives_up(void)
{
    script_begin(&s);
    ask(me, &writer);
    ask(you, &reader);
    ask(third, &reader);
    script_cancel(&s, you);
    script_release(&s, me);
    CU_ASSERT_EQUAL(you->granted, 0);
    CU_ASSERT_EQUAL(third->granted, 1);
    script_finish(&s);
}

/* --- what somebody else does --------------------------------------------------------------------------------------- */

static void test_waiter_removed_by_somebody(void)
{
    queue_up(2);
    remove_node(you);
    ask(third, &zkl__rule_mutex); /* its list shows that */
    int64_t token = zkl__contender_token(third->contender);
    CU_ASSERT(zkl__contender_token(you->contender) > token); /* it queued again, at the tail */
    script_release(&s, me);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(you->granted, 0);
    CU_ASSERT_EQUAL(third->granted, 1);
    script_finish(&s);
}

/* The same where a list is read for so many that it is sorted first. */
static void waiter_of_many_removed(struct script_owner *removed)
{
    queue_up(OWNERS - 1);
    int64_t token = zkl__contender_token(removed->contender);
    remove_node(removed);
    ask(&owners[OWNERS - 1], &zkl__rule_mutex);
    STATE(removed, "watching");
    CU_ASSERT(zkl__contender_token(removed->contender) > token);
    script_finish(&s);
}

static void test_waiter_of_many_removed_by_somebody(void)
{
    waiter_of_many_removed(you);
    waiter_of_many_removed(&owners[OWNERS - 2]);
}

static void test_holder_removed_by_somebody(void)
{
    queue_up(2);
    remove_node(me);
    CU_ASSERT_EQUAL(you->granted, 0);
    script_run(&s, 2000 * MS);
    CU_ASSERT_EQUAL(me->lost, 1); /* and then: */
    CU_ASSERT_EQUAL(you->granted, 1);
    script_finish(&s);
}

static void test_session_ends(void)
{
    queue_up(4);
    script_release(&s, me); /* handed over, not answered */
    script_expire(&s);
    CU_ASSERT_EQUAL(me->released, 1);
    CU_ASSERT_EQUAL(you->lost, 1);
    script_connect(&s);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(third->granted + owners[3].granted, 1);
    CU_ASSERT_EQUAL(script_ours(&s), 2);
    script_finish(&s);
}

static void test_many_at_once(void)
{
    static struct script_owner many[300];
    script_begin(&s);
    for (int i = 0; i < 300; i++) {
        script_acquire(&s, &many[i]);
    }
    script_answer_all(&s);
    CU_ASSERT_EQUAL(s.submits, 1 + 300 + 2);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    for (int i = 0; i < 300; i++) {
        CU_ASSERT_EQUAL(many[i].granted, 1);
        script_release(&s, &many[i]);
        script_answer_all(&s);
    }
    CU_ASSERT_EQUAL(s.submits, 1 + 300 + 2 + 300);
    script_finish(&s);
}

/* --- no memory ----------------------------------------------------------------------------------------------------- */

static void test_no_memory_for_more_buckets(void)
{
    static struct zkl__contender contenders[40];
    struct test_heap counter = TEST_HEAP_INIT;
    zkl_heap heap = test_heap(&counter);
    struct zkl__local_queues queues;
    char path[20];
    CU_ASSERT_TRUE_FATAL(zkl__local_queues_init(&queues, &heap, 0));
    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "/%d", i % 20);
        if (i == 16) {
            CU_ASSERT_EQUAL(queues.bucket_count, 16);
            test_heap_fail(&counter, 2, false); /* the second allocation: the first is the queue itself */
        }
        CU_ASSERT_TRUE_FATAL(zkl__local_join(&queues, &contenders[i], path));
        CU_ASSERT_EQUAL(queues.count, (size_t)(i < 20 ? i + 1 : 20));
        CU_ASSERT(i < 20 || contenders[i].local.queue == contenders[i - 20].local.queue);
    }
    CU_ASSERT_EQUAL(test_heap_failures(&counter), 1);
    for (int i = 0; i < 40; i++) {
        zkl__local_leave(&queues, &contenders[i]);
    }
    CU_ASSERT_EQUAL(queues.count, 0);
    zkl__local_queues_deinit(&queues);
    CU_ASSERT_EQUAL(test_heap_live(&counter), 0);
}

/* There is no room to note that a list was sent: who asked for it with its create asks again behind that. */
static void test_no_memory_for_a_list(void)
{
    static struct script_owner before[8];
    script_begin(&s);
    for (int i = 0; i < 8;
         i++) { /* two operations each, the second but one, since it shares the first one's list: one is left of 16 */
        char path[20];
        snprintf(path, sizeof path, i < 2 ? "/q" : "/q%d", i);
        struct zkl__contender_config config = script_config(&before[i], path);
        CU_ASSERT_TRUE_FATAL(script_contend(&s, &before[i], &config));
        script_start(&s, &before[i], INT64_MAX, false);
    }
    CU_ASSERT_EQUAL(s.op_count, 15);
    struct zkl__contender_config config = script_config(me, "/other");
    CU_ASSERT_TRUE_FATAL(script_contend(&s, me, &config));
    test_heap_fail(&s.heap, 1, false);
    script_start(&s, me, INT64_MAX, false);
    CU_ASSERT_EQUAL(test_heap_failures(&s.heap), 1);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me->granted, 1);
    CU_ASSERT_EQUAL(before[0].granted, 1);
    script_finish(&s);
}

TESTS("local_queue", T(test_hand_over_costs_its_delete), T(test_follows_one_that_leaves), T(test_handed_at_second_hand),
      T(test_close_hands_nothing_over), T(test_lists_are_shared), T(test_unlisted_lists_in_its_turn),
      T(test_unlisted_reads_the_list_of_another), T(test_unlisted_behind_one_that_was_removed),
      T(test_together_they_look_once_more), T(test_try_behind_our_own), T(test_no_lease_no_hand_over),
      T(test_not_while_disconnected), T(test_not_on_an_old_list), T(test_delete_that_was_not_sent),
      T(test_own_delete_does_not_overtake), T(test_nor_that_of_one_before), T(test_order_after_a_lost_connection),
      T(test_who_gave_up_is_removed_first), T(test_stranger_between), T(test_not_from_a_reader_to_a_writer),
      T(test_from_a_writer_to_all_its_readers), T(test_from_a_writer_to_many_readers),
      T(test_one_of_the_readers_gives_up), T(test_waiter_removed_by_somebody),
      T(test_waiter_of_many_removed_by_somebody), T(test_holder_removed_by_somebody), T(test_session_ends),
      T(test_many_at_once), T(test_no_memory_for_more_buckets), T(test_no_memory_for_a_list))
