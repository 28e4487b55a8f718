/* Contenders of one session in one queue: what they spare each other, and when they must not. */
#include "contender_inside.h"
#include "script.h"

#include <string.h>

#define OWNERS 8
#define MANY 9 /* of so many one lists nothing */

static struct script_owner owners[MANY];
static struct script_owner *const first = &owners[0], *const second = &owners[1], *const after = &owners[2];
static struct script_owner *const last_but_one = &owners[MANY - 2], *const last = &owners[MANY - 1];
static const struct zkl__rule writer = {"__WRIT__", ZKL__KIND_ANY};
static const struct zkl__rule reader = {"__READ__", ZKL__KIND_ANY & ~ZKL__KIND(ZKL_KIND_READ)};

static void ask(struct script_owner *owner, const struct zkl__rule *rule)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    config.rule = rule;
    CU_ASSERT_TRUE_FATAL(script_contend(owner, &config));
    script_start(owner, INT64_MAX, false);
    script_answer_all();
}

/* The first of so many holds, the others wait in their order. */
static void queue_up(int count)
{
    script_begin();
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
    script_remove(path);
}

/* --- what it costs ------------------------------------------------------------------------------------------------- */

/* A list that was on its way shows a holder whose delete is on its way by now. */
static void test_follows_one_that_leaves(void)
{
    queue_up(1);
    struct zkl__contender_config config = script_config(second, "/q");
    CU_ASSERT_TRUE_FATAL(script_contend(second, &config));
    script_start(second, INT64_MAX, false);
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
static void test_handed_at_second_hand(void)
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

static void test_hand_over_costs_its_delete(void)
{
    queue_up(OWNERS);
    CU_ASSERT_EQUAL(script.watch_count, 0);
    for (int i = 0; i < OWNERS - 1; i++) {
        int before = script.submits;
        script_release(&owners[i]); /* nothing is answered yet */
        CU_ASSERT_EQUAL(owners[i + 1].granted, 1);
        CU_ASSERT(owners[i + 1].token > owners[i].token);
        CU_ASSERT_EQUAL(script.submits - before, 1);
    }
    OPS("delete delete delete delete delete delete delete");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 1);
    script_finish();
}

/* Who waits gives up, and the delete of the one before it changes nothing: it is not granted, nor does it list. */
static void test_close_hands_nothing_over(void)
{
    queue_up(3);
    script_close();
    CU_ASSERT_EQUAL(second->granted, 0);
    OPS("delete delete delete");
    script_finish();
}

static void test_lists_are_shared(void)
{
    script_begin();
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
    script_finish();
}

static int count_lists(void)
{
    int lists = 0;
    for (int i = 0; i < script.op_count; i++) {
        lists += script.ops[i].kind == ZKL__OP_CHILDREN;
    }
    return lists;
}

/* All but the last two have held. The last one has sent its create alone, and follows the other by its number. */
static void hold_before_an_unlisted_one(void)
{
    queue_up(MANY - 1);
    struct zkl__contender_config config = script_config(last, "/q");
    CU_ASSERT_TRUE_FATAL(script_contend(last, &config));
    script_start(last, INT64_MAX, false);
    OPS("create");
    script_answer();
    OPS("");
    STATE(last, "watching");
    for (int i = 0; i < MANY - 2; i++) {
        script_release(&owners[i]);
        CU_ASSERT_EQUAL(count_lists(), 0);
        script_answer_all();
    }
    CU_ASSERT_EQUAL(last_but_one->granted, 1);
}

/* No list has shown it: it sends one behind the delete. */
static void test_unlisted_lists_in_its_turn(void)
{
    hold_before_an_unlisted_one();
    script_release(last_but_one);
    OPS("delete list");
    CU_ASSERT_EQUAL(last->granted, 0);
    script_answer_all();
    CU_ASSERT_EQUAL(last->granted, 1);
    script_finish();
}

static void test_unlisted_reads_the_list_of_another(void)
{
    hold_before_an_unlisted_one();
    ask(first, &zkl__rule_mutex);
    script_release(last_but_one);
    OPS("delete");
    CU_ASSERT_EQUAL(last->granted, 1);
    script_finish();
}

/* The directory was made anew, and counts from the beginning: numbers are no neighbours any more. */
static void test_unlisted_behind_one_that_was_removed(void)
{
    hold_before_an_unlisted_one();
    remove_node(last_but_one);
    script_put("/q/_c_00000000-0000-4000-8000-000000000000-lock-0000000000", 99)->czxid = 1;
    ask(first, &zkl__rule_mutex);
    script_release(last_but_one);
    script_answer_all();
    CU_ASSERT_EQUAL(last->granted, 0);
    script_finish();
}

static void test_together_they_look_once_more(void)
{
    queue_up(OWNERS);
    script_suspend(0);
    script_connect();
    CU_ASSERT_EQUAL(count_lists(), 1);
    script_answer_all();
    STATE(&owners[OWNERS - 1], "watching");
    script_finish();
}

static void test_try_behind_our_own(void)
{
    queue_up(1);
    struct zkl__contender_config config = script_config(second, "/q");
    CU_ASSERT_TRUE_FATAL(script_contend(second, &config));
    script_start(second, INT64_MAX, true);
    OPS("create list");
    script_answer();
    script_answer();
    CU_ASSERT_EQUAL(second->code, ZKL_EBUSY);
    OPS("delete"); /* nobody had to be asked */
    script_answer_all();
    script_finish();
}

/* --- when it must not be ------------------------------------------------------------------------------------------- */

static void test_no_lease_no_hand_over(void)
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

static void test_not_while_disconnected(void)
{
    queue_up(2);
    script_suspend(0);
    script_release(first);
    CU_ASSERT_EQUAL(second->granted, 0);
    script_connect();
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(second->granted, 1);
    script_finish();
}

static void test_not_on_an_old_list(void)
{
    queue_up(2);
    script_run(2000 * MS);
    script_release(first);
    CU_ASSERT_EQUAL(second->granted, 0);
    OPS("delete list"); /* behind it: no watch, one round trip */
    script_answer_all();
    CU_ASSERT_EQUAL(second->granted, 1);
    script_finish();
}

static void test_delete_that_was_not_sent(void)
{
    queue_up(2);
    script.refuse_kind = ZKL__OP_DELETE;
    script.refuse_code = ZKL_ELIMIT;
    script.refuse_count = 1;
    script_release(first);
    CU_ASSERT_EQUAL(second->granted, 0);
    script_wait(100 * MS);
    CU_ASSERT_EQUAL(second->granted, 1);
    OPS("delete");
    script_finish();
}

static void test_own_delete_does_not_overtake(void)
{
    queue_up(3);
    script_release(first);
    script_answer_with(ZKL__RC_NOTAPPLIED);
    STATE(second, "held");
    script_release(second);
    OPS("");
    CU_ASSERT_EQUAL(after->granted, 0);
    script_wait(100 * MS);
    OPS("delete delete");
    CU_ASSERT_EQUAL(after->granted, 1);
    script_answer_all();
    CU_ASSERT_EQUAL(first->released, 1);
    CU_ASSERT_EQUAL(second->released, 1);
    script_finish();
}

/* The delete of the first is put off, that of the second is not: the third has to wait for the first. */
static void test_nor_that_of_one_before(void)
{
    queue_up(4);
    script_release(first);
    script_release(second);
    CU_ASSERT_EQUAL(after->granted, 1);
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_answer();
    CU_ASSERT_EQUAL(second->released, 1);
    script_release(after);
    OPS("");
    CU_ASSERT_EQUAL(owners[3].granted, 0);
    script_wait(100 * MS);
    OPS("delete delete");
    CU_ASSERT_EQUAL(owners[3].granted, 1);
    script_finish();
}

static void test_order_after_a_lost_connection(void)
{
    queue_up(2);
    char path[SCRIPT_PATH];
    snprintf(path, sizeof path, "/q/%s", zkl__contender_node(first->contender));
    script_release(first);
    script_release(second);
    OPS("delete delete");
    script_suspend(0);
    script_connect();
    int seen = 0;
    for (int i = 0; i < script.op_count; i++) {
        if (script.ops[i].kind == ZKL__OP_DELETE) {
            CU_ASSERT_EQUAL(strcmp(script.ops[i].path, path) == 0, seen++ == 0);
        }
    }
    CU_ASSERT_EQUAL(seen, 2);
    script_answer_all();
    script_finish();
}

static void test_who_gave_up_is_removed_first(void)
{
    queue_up(3);
    script_cancel(second);
    script_release(first);
    CU_ASSERT_EQUAL(second->granted, 0);
    CU_ASSERT_EQUAL(after->granted, 0);
    OPS("delete list delete");
    script_answer_all();
    CU_ASSERT_EQUAL(after->granted, 1);
    script_finish();
}

static void test_stranger_between(void)
{
    queue_up(1);
    script_put("/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000001", SCRIPT_STRANGER);
    script.next_sequence = 2;
    ask(second, &zkl__rule_mutex);
    CU_ASSERT_EQUAL(script.watch_count, 1);
    script_release(first);
    script_answer_all();
    CU_ASSERT_EQUAL(second->granted, 0);
    script_remove("/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000001");
    script_answer_all();
    CU_ASSERT_EQUAL(second->granted, 1);
    script_finish();
}

static void test_not_from_a_reader_to_a_writer(void)
{
    script_begin();
    ask(first, &reader);
    ask(second, &reader);
    ask(after, &writer);
    script_release(second); /* the one right before it */
    CU_ASSERT_EQUAL(after->granted, 0);
    script_answer_all();
    CU_ASSERT_EQUAL(after->granted, 0);
    script_release(first);
    script_answer_all();
    CU_ASSERT_EQUAL(after->granted, 1);
    script_finish();
}

static void test_from_a_writer_to_all_its_readers(void)
{
    script_begin();
    ask(first, &writer);
    ask(second, &reader);
    ask(after, &reader);
    ask(&owners[3], &writer);
    script_release(first);
    CU_ASSERT_EQUAL(second->granted, 1);
    CU_ASSERT_EQUAL(after->granted, 1);
    CU_ASSERT_EQUAL(owners[3].granted, 0);
    script_finish();
}

/* So many that their one list is sorted first: in it, too, readers stand behind the writer, not behind each other. */
static void test_from_a_writer_to_many_readers(void)
{
    script_begin();
    ask(first, &writer);
    for (int i = 1; i < OWNERS; i++) {
        struct zkl__contender_config config = script_config(&owners[i], "/q");
        config.rule = &reader;
        CU_ASSERT_TRUE_FATAL(script_contend(&owners[i], &config));
        script_start(&owners[i], INT64_MAX, false);
    }
    script_answer_all();
    script_release(first);
    for (int i = 1; i < OWNERS; i++) {
        CU_ASSERT_EQUAL(owners[i].granted, 1);
    }
    script_finish();
}

static void test_one_of_the_readers_gives_up(void)
{
    script_begin();
    ask(first, &writer);
    ask(second, &reader);
    ask(after, &reader);
    script_cancel(second);
    script_release(first);
    CU_ASSERT_EQUAL(second->granted, 0);
    CU_ASSERT_EQUAL(after->granted, 1);
    script_finish();
}

/* --- what somebody else does --------------------------------------------------------------------------------------- */

static void test_waiter_removed_by_somebody(void)
{
    queue_up(2);
    remove_node(second);
    ask(after, &zkl__rule_mutex); /* its list shows that */
    int64_t token = zkl__contender_token(after->contender);
    CU_ASSERT(zkl__contender_token(second->contender) > token); /* it queued again, at the tail */
    script_release(first);
    script_answer_all();
    CU_ASSERT_EQUAL(second->granted, 0);
    CU_ASSERT_EQUAL(after->granted, 1);
    script_finish();
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
    script_finish();
}

static void test_waiter_of_many_removed_by_somebody(void)
{
    waiter_of_many_removed(second);
    waiter_of_many_removed(&owners[OWNERS - 2]);
}

static void test_holder_removed_by_somebody(void)
{
    queue_up(2);
    remove_node(first);
    CU_ASSERT_EQUAL(second->granted, 0);
    script_run(2000 * MS);
    CU_ASSERT_EQUAL(first->lost, 1); /* and then: */
    CU_ASSERT_EQUAL(second->granted, 1);
    script_finish();
}

static void test_session_ends(void)
{
    queue_up(4);
    script_release(first); /* handed over, not answered */
    script_expire();
    CU_ASSERT_EQUAL(first->released, 1);
    CU_ASSERT_EQUAL(second->lost, 1);
    script_connect();
    script_answer_all();
    CU_ASSERT_EQUAL(after->granted + owners[3].granted, 1);
    CU_ASSERT_EQUAL(script_ours(), 2);
    script_finish();
}

static void test_many_at_once(void)
{
    static struct script_owner many[300];
    script_begin();
    for (int i = 0; i < 300; i++) {
        script_acquire(&many[i]);
    }
    script_answer_all();
    CU_ASSERT_EQUAL(script.submits, 1 + 300 + 2);
    CU_ASSERT_EQUAL(script.watch_count, 0);
    for (int i = 0; i < 300; i++) {
        CU_ASSERT_EQUAL(many[i].granted, 1);
        script_release(&many[i]);
        script_answer_all();
    }
    CU_ASSERT_EQUAL(script.submits, 1 + 300 + 2 + 300);
    script_finish();
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
    script_begin();
    for (int i = 0; i < 8;
         i++) { /* two operations each, the second but one, since it shares the first one's list: one is left of 16 */
        char path[20];
        snprintf(path, sizeof path, i < 2 ? "/q" : "/q%d", i);
        struct zkl__contender_config config = script_config(&before[i], path);
        CU_ASSERT_TRUE_FATAL(script_contend(&before[i], &config));
        script_start(&before[i], INT64_MAX, false);
    }
    CU_ASSERT_EQUAL(script.op_count, 15);
    struct zkl__contender_config config = script_config(first, "/other");
    CU_ASSERT_TRUE_FATAL(script_contend(first, &config));
    test_heap_fail(&script.heap, 1, false);
    script_start(first, INT64_MAX, false);
    CU_ASSERT_EQUAL(test_heap_failures(&script.heap), 1);
    script_answer_all();
    CU_ASSERT_EQUAL(first->granted, 1);
    CU_ASSERT_EQUAL(before[0].granted, 1);
    script_finish();
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
