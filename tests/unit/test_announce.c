/* Announced release: when "changed" is believed to be the end of a hold, and when a holder says so. */
#include "name.h"
#include "script.h"

#include <string.h>

#define SEALED "/q/_c_11111111-1111-8111-8111-111111111111-lock-0000000000"
#define SEALED_READER "/q/_c_11111111-1111-8111-8111-111111111111-__READ__0000000000"

static void ask(struct script_owner *owner)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    config.announces = true;
    CU_ASSERT_TRUE_FATAL(script_contend(owner, &config));
    script_start(owner, INT64_MAX, false);
}

/* Behind that stranger, with a list, but nothing that follows it answered. */
static void ask_behind(const char *blocker)
{
    script_begin();
    script_put(blocker, SCRIPT_STRANGER);
    script.next_sequence = 1;
    ask(&me);
    script_answer();
    script_answer();
    STATE(&me, "watching");
}

static void wait_behind(const char *blocker)
{
    ask_behind(blocker);
    script_answer_all();
}

/* Holds, and had to wait for it. */
static void hold_after_waiting(void)
{
    wait_behind(SEALED);
    script_remove(SEALED);
    script_answer_all();
    STATE(&me, "held");
}

static bool is_sealed(const struct script_owner *owner)
{
    return zkl__name_sealed(zkl__contender_node(owner->contender));
}

/* --- believed ------------------------------------------------------------------------------------------------------ */

static void test_spares_the_list(void)
{
    ask_behind(SEALED);
    OPS("get get"); /* our own node first */
    script_answer_all();
    CU_ASSERT_EQUAL(script.watch_count, 2);
    script_change(SEALED);
    STATE(&me, "held");
    OPS("");
    script_remove(SEALED);
    script_finish();
}

static void test_removed_is_not_announced(void)
{
    wait_behind(SEALED);
    script_remove(SEALED);
    STATE(&me, "listing");
    OPS("list");
    script_finish();
}

/* Whose node anybody may write says nothing by being written. */
static void test_other_nodes_are_not_believed(void)
{
    ask_behind(SCRIPT_BLOCKER);
    OPS("get");
    script_answer_all();
    script_change(SCRIPT_BLOCKER);
    STATE(&me, "listing");
    script_answer_all();
    STATE(&me, "watching");
    script_finish();
}

/* Others may read beside it. */
static void test_readers_are_not_believed(void)
{
    ask_behind(SEALED_READER);
    OPS("get");
    script_answer_all();
    script_change(SEALED_READER);
    STATE(&me, "listing");
    script_finish();
}

static void test_not_without_an_eye_on_our_own_node(void)
{
    ask_behind(SEALED);
    script_answer_with(ZKL__RC_NOAUTH);
    script_answer_all();
    script_change(SEALED);
    STATE(&me, "listing");
    script_finish();
}

/* The event may be here before the answer to what set the watch. */
static void test_not_before_the_answers(void)
{
    ask_behind(SEALED);
    script_answer();
    script_change(SEALED); /* before the watch is set: no event */
    STATE(&me, "watching");
    script_answer_all();
    STATE(&me, "watching");
    script_finish();
}

static void test_our_own_node_is_removed_first(void)
{
    char path[SCRIPT_PATH];
    wait_behind(SEALED);
    strcpy(path, script_our_path());
    script_remove(path);
    STATE(&me, "listing");
    script_change(SEALED);
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 0); /* queued again */
    STATE(&me, "watching");
    script_finish();
}

static void test_our_own_node_is_removed_at_once(void)
{
    char path[SCRIPT_PATH];
    ask_behind(SEALED);
    strcpy(path, script_our_path());
    script_remove(path);
    STATE(&me, "watching"); /* not heard: the watch is not set */
    script_answer();
    STATE(&me, "creating");
    script_answer_all();
    STATE(&me, "watching");
    CU_ASSERT_STRING_NOT_EQUAL(path, script_our_path());
    script_finish();
}

/* And we would be granted but for a lease. */
static void test_our_own_node_is_removed_while_proving(void)
{
    char path[SCRIPT_PATH];
    wait_behind(SEALED);
    script_wait(12000 * MS); /* no answer: no lease */
    script_change(SEALED);
    STATE(&me, "proving");
    strcpy(path, script_our_path());
    script_remove(path);
    STATE(&me, "listing");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 0);
    STATE(&me, "watching");
    script_finish();
}

static void test_nothing_is_believed_after_a_reconnect(void)
{
    wait_behind(SEALED);
    script_suspend(0);
    script_connect();
    script_change(SEALED); /* the client library sets its watches again: this one is told */
    STATE(&me, "listing");
    script_answer_all();
    STATE(&me, "watching");
    script_finish();
}

/* The watch that the client library has set again fires before the reply to the get that sets ours: nobody hears of a removal then. */
static void test_an_event_before_the_reply(void)
{
    wait_behind(SEALED);
    script_suspend(0);
    script_connect();
    while (script.op_count > 0 && strcmp(script_ops(), "get get") != 0) {
        script_answer();
    }
    OPS("get get");
    script_change(script_our_path());
    STATE(&me, "listing");
    OPS("get get unwatch list");
    for (int i = 0; i < 4; i++) {
        script_answer();
    }
    STATE(&me, "watching");
    OPS("get get"); /* our own node again */
    script_finish();
}

static void test_a_try_sets_no_watch(void)
{
    struct zkl__contender_config config = script_config(&me, "/q");
    config.announces = true;
    script_begin();
    script_put(SEALED, SCRIPT_STRANGER);
    script.next_sequence = 1;
    CU_ASSERT_TRUE_FATAL(script_contend(&me, &config));
    script_start(&me, INT64_MAX, true);
    script_answer_all();
    CU_ASSERT_EQUAL(script.watch_count, 0);
    script_finish_failed(&me, ZKL_EBUSY);
}

/* --- announced ----------------------------------------------------------------------------------------------------- */

static void test_who_waited_announces(void)
{
    hold_after_waiting();
    CU_ASSERT_TRUE(is_sealed(&me));
    script_release(&me);
    OPS("multi(set,delete)");
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

/* Nobody was before it: most likely nobody is behind it. */
static void test_who_did_not_wait_just_goes(void)
{
    script_begin();
    ask(&me);
    script_answer_all();
    script_release(&me);
    OPS("delete");
    script_finish();
}

static void test_who_never_held_announces_nothing(void)
{
    wait_behind(SEALED);
    script_cancel(&me);
    OPS("unwatch delete");
    script_finish_failed(&me, ZKL_ECANCELED);
}

static void test_who_lost_announces_nothing(void)
{
    hold_after_waiting();
    script_suspend(0);
    script_wait(script.timeout);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_release(&me);
    script_connect();
    OPS("delete");
    script_finish();
}

/* As long as the node of whom it was handed over from may be there. */
static void test_who_was_handed_announces_later(void)
{
    hold_after_waiting();
    ask(&you);
    script_answer_all();
    script_release(&me);
    STATE(&you, "held");
    script_release(&you);
    OPS("delete delete");
    script_finish();

    hold_after_waiting();
    ask(&you);
    script_answer_all();
    script_release(&me);
    script_answer_all();
    script_release(&you);
    OPS("multi(set,delete)");
    script_finish();
}

static void test_a_node_that_was_written_just_goes(void)
{
    hold_after_waiting();
    script_release(&me);
    script_answer_with(ZKL__RC_BADVERSION);
    OPS("delete");
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    script_finish();
}

static void test_a_lost_answer(void)
{
    hold_after_waiting();
    script_release(&me);
    script_suspend(0);
    script_connect();
    OPS("multi(set,delete)");
    script_suspend(1);
    script_connect();
    script_answer_all(); /* no such node */
    CU_ASSERT_EQUAL(me.released, 1);
    script_finish();
}

/* Once: others may stand between our node and a double of it, which could not be deleted when it was found. */
static void test_a_double_is_not_announced(void)
{
    script_begin();
    script_put(SEALED, SCRIPT_STRANGER);
    script.next_sequence = 1;
    ask(&me);
    script_suspend(1); /* the create is applied, and its reply lost */
    script_connect();
    while (script.ops[0].kind != ZKL__OP_DELETE) {
        script_answer();
    }
    script_answer_with(ZKL__RC_NOAUTH);
    script_answer_all();
    STATE(&me, "watching");
    CU_ASSERT_EQUAL(script_ours(), 2);
    script_remove(SEALED);
    script_answer_all();
    STATE(&me, "held");
    script_release(&me);
    OPS("multi(set,delete)");
    script_answer();
    OPS("check list");
    script_answer();
    script_answer();
    OPS("delete");
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

/* The servers know another digest than we do. */
static void test_not_our_identity(void)
{
    hold_after_waiting();
    script_release(&me);
    script_answer_with(ZKL__RC_NOAUTH);
    OPS("delete");
    script_answer_all();
    ask(&you);
    script_answer_all();
    CU_ASSERT_FALSE(is_sealed(&you));
    script_finish();
}

/* The servers know no digest at all. */
static void test_no_seal(void)
{
    script_begin();
    ask(&me);
    script_answer_with(ZKL__RC_INVALIDACL);
    script_answer_all();
    STATE(&me, "held");
    CU_ASSERT_FALSE(is_sealed(&me));
    CU_ASSERT_EQUAL(script_ours(), 1);
    script_finish();
}

/* A server took the seal and its answer was lost, the next one takes none: what the first one made must not be forgotten. */
static void test_no_seal_after_a_lost_reply(void)
{
    script_begin();
    ask(&me);
    script_suspend(1);
    script_connect();
    while (script.ops[0].kind != ZKL__OP_CREATE) {
        script_answer();
    }
    script_answer_with(ZKL__RC_INVALIDACL);
    script_run(3000 * MS);
    STATE(&me, "held");
    CU_ASSERT_EQUAL(script_ours(), 1);
    CU_ASSERT_TRUE(is_sealed(&me)); /* the node that was there first */
    script_release(&me);
    OPS("delete"); /* nobody may write it but another session: it is not announced */
    script_finish();
}

/* The servers refused the identity when the session said it. */
static void test_unsealed(void)
{
    script_begin();
    zkl__core_unseal(script.core);
    ask(&me);
    script_answer_all();
    STATE(&me, "held");
    CU_ASSERT_FALSE(is_sealed(&me));
    script_finish();
}

static void test_who_must_not(void)
{
    struct zkl__contender_config config = script_config(&me, "/q");
    static const zkl_acl_entry anyone = {ZKL_PERM_ALL, "world", "anyone"};
    static const zkl_acl open = {1, &anyone};
    static const struct zkl__rule reader = {"__READ__", ZKL__KIND_ANY & ~ZKL__KIND(ZKL_KIND_READ)};
    for (int i = 0; i < 3; i++) {
        config = script_config(&me, "/q");
        config.announces = true;
        config.revocable = i == 0;
        config.acl = i == 1 ? &open : NULL;
        config.rule = i == 2 ? &reader : config.rule;
        script_begin();
        CU_ASSERT_TRUE_FATAL(script_contend(&me, &config));
        script_start(&me, INT64_MAX, false);
        script_answer_all();
        STATE(&me, "held");
        CU_ASSERT_FALSE(is_sealed(&me));
        script_finish();
    }
}

/* Who may create nodes in the queue can lie: it is found out within a heartbeat, as a removal by hand is. */
static void test_a_lie(void)
{
    ask_behind(SEALED); /* whoever that is behind holds */
    script_put("/q/_c_22222222-2222-4222-8222-222222222222-lock--000000001", SCRIPT_STRANGER);
    script_answer_all();
    script_change(SEALED);
    STATE(&me, "held");
    script_wait(script.timeout / 12 - 1);
    OPS("");
    script_wait(1);
    OPS("check list");
    script_answer_all();
    CU_ASSERT_EQUAL(me.lost, 1);
    script_finish();
}

/* --- how far a lie goes --------------------------------------------------------------------------------------------- */

#define SEALED_6 "/q/_c_11111111-1111-8111-8111-111111111111-lock-0000000006"
#define SEALED_7 "/q/_c_11111111-1111-8111-8111-111111111111-lock-0000000007"

static void wait_as(const char *blocker, int32_t number)
{
    script_begin();
    script_put(blocker, SCRIPT_STRANGER);
    script.next_sequence = number;
    ask(&me);
    script_answer_all();
}

static void hold_by_announcement(const char *blocker, int32_t number)
{
    wait_as(blocker, number);
    script_change(blocker);
    STATE(&me, "held");
}

static void test_announced_on_inside_a_block(void)
{
    hold_by_announcement(SEALED_6, 7);
    OPS("");
    script_release(&me);
    OPS("multi(set,delete)");
    script_remove(SEALED_6);
    script_finish();
}

/* Granted as fast as the others, and with a list behind it. Until that is here, whoever is next looks for itself. */
static void test_not_announced_on_at_the_border(void)
{
    hold_by_announcement(SEALED_7, 8);
    OPS("list");
    script_release(&me);
    OPS("list delete");
    script_remove(SEALED_7);
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    script_finish();
}

static void test_announced_when_a_list_has_shown_it(void)
{
    hold_by_announcement(SEALED_7, 8);
    script_remove(SEALED_7);
    script_answer();
    CU_ASSERT_EQUAL(me.contender->announcement.evidence, ZKL__EVIDENCE_LIST);
    script_wait(script.timeout / 12);
    OPS("check"); /* the heartbeat; no list once more */
    script_release(&me);
    OPS("check multi(set,delete)");
    script_finish();
}

static void test_a_lie_ends_at_the_border(void)
{
    hold_by_announcement(SEALED_7, 8);
    script_answer();
    OPS("exists");
    script_answer();
    CU_ASSERT_EQUAL(me.lost, 1);
    script_release(&me);
    OPS("delete");
    script_finish();
}

/* Its list is lost with the connection: it looks once more, and says nothing before. */
static void test_a_list_lost_at_the_border(void)
{
    hold_by_announcement(SEALED_7, 8);
    script_suspend(0);
    script_connect();
    CU_ASSERT_EQUAL(me.contender->announcement.evidence, ZKL__EVIDENCE_AT_BORDER);
    CU_ASSERT(me.contender->announcement.look_at > script.now);
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_remove(SEALED_7);
    script_finish();
}

/* The border is between two of one session: the second is handed the lock, and lists. */
static void test_a_border_inside_a_session(void)
{
    wait_as(SEALED_6, 7);
    ask(&you);
    script_answer_all();
    script_change(SEALED_6);
    OPS("");
    script_release(&me);
    STATE(&you, "held");
    OPS("delete list");
    script_answer_all();
    CU_ASSERT_EQUAL(you.lost, 1); /* the one that said it was through */
    script_finish();
}

/* Its release is as good a word as an announcement: so it hands nothing over before its list is here. */
static void test_not_handed_over_at_the_border(void)
{
    wait_as(SEALED_7, 8);
    ask(&you);
    script_answer_all();
    script_change(SEALED_7);
    STATE(&me, "held");
    script_release(&me);
    STATE(&you, "listing");
    OPS("list delete list");
    script_answer_all();
    STATE(&you, "watching");
    script_remove(SEALED_7);
    script_finish();

    wait_as(SEALED_7, 8);
    ask(&you);
    script_answer_all();
    script_change(SEALED_7);
    script_remove(SEALED_7);
    script_answer_all();
    script_release(&me);
    STATE(&you, "held");
    OPS("delete");
    script_finish();
}

/* What is before us is no contender, or is gone: we hold. */
static void test_no_lie(void)
{
    wait_behind(SEALED);
    script_change(SEALED);
    script_remove(SEALED);
    script_put("/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000000", 0); /* persistent */
    script_run(script.timeout / 12);
    OPS("");
    STATE(&me, "held");
    script_finish();

    wait_behind(SEALED);
    script_change(SEALED);
    script_wait(script.timeout / 12);
    OPS("check list");
    script_answer();
    script_answer();
    OPS("exists");
    script_remove(SEALED);
    script_answer();
    OPS("list");
    script_run(2 * script.timeout);
    STATE(&me, "held");
    script_finish();
}

/* Without an answer it looks once more. */
static void test_no_list(void)
{
    wait_behind(SEALED);
    script_change(SEALED);
    script_remove(SEALED);
    script_wait(script.timeout / 12);
    OPS("check list");
    script_suspend(0);
    script_connect();
    script_run(script.timeout / 2);
    STATE(&me, "held");
    CU_ASSERT_EQUAL(me.contender->announcement.evidence, ZKL__EVIDENCE_LIST);
    script_finish();
}

/* Nor without a word about who is before it, nor while there is no connection. */
static void test_no_answer_about_who_is_before(void)
{
    wait_behind(SEALED);
    script_change(SEALED);
    script_wait(script.timeout / 12);
    script_answer();
    script_answer();
    OPS("exists");
    script_suspend(0);
    script_wait(script.timeout / 12);
    CU_ASSERT_EQUAL(me.contender->announcement.evidence, ZKL__EVIDENCE_ANNOUNCEMENT);
    CU_ASSERT(me.contender->announcement.look_at > script.now);
    script_connect();
    script_remove(SEALED);
    script_run(script.timeout / 2);
    STATE(&me, "held");
    CU_ASSERT_EQUAL(me.contender->announcement.evidence, ZKL__EVIDENCE_LIST);
    script_finish();
}

/* Without memory, neither for whom to look at nor to note that it is no contender, it looks once more, and holds meanwhile. */
static void test_no_memory_for_a_look(void)
{
    static const char *const before_us[] = {
        "/q/_c_22222222-2222-4222-8222-222222222222-__WRIT__0000000000", /* longer than what was watched */
        "/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000000",
    };
    for (int i = 0; i < 2; i++) {
        wait_behind(SEALED);
        script_change(SEALED);
        script_remove(SEALED);
        script_put(before_us[i], 0); /* persistent */
        script_wait(script.timeout / 12);
        OPS("check list");
        test_heap_fail(&script.heap, 1, true);
        script_answer_all();
        CU_ASSERT_EQUAL(test_heap_failures(&script.heap), 1);
        CU_ASSERT_EQUAL(me.contender->announcement.evidence, ZKL__EVIDENCE_ANNOUNCEMENT);
        CU_ASSERT(me.contender->announcement.look_at > script.now);
        test_heap_fail(&script.heap, 0, false);
        script_run(script.timeout / 2);
        STATE(&me, "held");
        CU_ASSERT_EQUAL(me.contender->announcement.evidence, ZKL__EVIDENCE_LIST);
        script_finish();
    }
}

/* It hears of that at once, not with the next heartbeat. */
static void test_removed_while_held(void)
{
    char path[SCRIPT_PATH];
    hold_after_waiting();
    strcpy(path, script_our_path());
    script_remove(path);
    CU_ASSERT_EQUAL(me.lost, 1);
    script_finish();
}

TESTS("announce", T(test_spares_the_list), T(test_removed_is_not_announced), T(test_other_nodes_are_not_believed),
      T(test_readers_are_not_believed), T(test_not_without_an_eye_on_our_own_node), T(test_not_before_the_answers),
      T(test_our_own_node_is_removed_first), T(test_our_own_node_is_removed_at_once),
      T(test_our_own_node_is_removed_while_proving), T(test_nothing_is_believed_after_a_reconnect),
      T(test_an_event_before_the_reply), T(test_a_try_sets_no_watch), T(test_who_waited_announces),
      T(test_who_did_not_wait_just_goes), T(test_who_never_held_announces_nothing), T(test_who_lost_announces_nothing),
      T(test_who_was_handed_announces_later), T(test_a_node_that_was_written_just_goes), T(test_a_lost_answer),
      T(test_a_double_is_not_announced), T(test_not_our_identity), T(test_no_seal), T(test_no_seal_after_a_lost_reply),
      T(test_unsealed), T(test_who_must_not), T(test_no_answer_about_who_is_before), T(test_no_memory_for_a_look),
      T(test_removed_while_held), T(test_announced_on_inside_a_block), T(test_not_announced_on_at_the_border),
      T(test_announced_when_a_list_has_shown_it), T(test_a_lie_ends_at_the_border), T(test_a_list_lost_at_the_border),
      T(test_a_border_inside_a_session), T(test_not_handed_over_at_the_border), T(test_a_lie), T(test_no_lie),
      T(test_no_list))
