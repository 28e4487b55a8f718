/* Announced release: when "changed" is believed to be the end of a hold, and when a holder says so. */
#include "name.h"
#include "script.h"

#include <string.h>

#define SEALED "/q/_c_11111111-1111-8111-8111-111111111111-lock-0000000000"
#define SEALED_READER "/q/_c_11111111-1111-8111-8111-111111111111-__READ__0000000000"

static struct script s;
static struct script_owner owners[2];
static struct script_owner *const me = &owners[0], *const you = &owners[1];

static void ask(struct script_owner *owner)
{
    struct zkl__contender_config config = script_config(owner, "/q");
    config.announces = true;
    CU_ASSERT_TRUE_FATAL(script_contend(&s, owner, &config));
    script_start(&s, owner, INT64_MAX, false);
}

/* Behind that stranger, with a list, but nothing that follows it answered. */
static void ask_behind(const char *blocker)
{
    script_begin(&s);
    script_put(&s, blocker, SCRIPT_STRANGER);
    s.next_sequence = 1;
    ask(me);
    script_answer(&s);
    script_answer(&s);
    STATE(me, "watching");
}

static void wait_behind(const char *blocker)
{
    ask_behind(blocker);
    script_answer_all(&s);
}

/* Holds, and had to wait for it. */
static void hold_after_waiting(void)
{
    wait_behind(SEALED);
    script_remove(&s, SEALED);
    script_answer_all(&s);
    STATE(me, "held");
}

static bool is_sealed(const struct script_owner *owner)
{
    return zkl__name_sealed(zkl__contender_node(owner->contender));
}

/* --- believed ------------------------------------------------------------------------------------------------------ */

static void test_spares_the_list(void)
{
    ask_behind(SEALED);
    OPS(&s, "get get"); /* our own node first */
    script_answer_all(&s);
    CU_ASSERT_EQUAL(s.watch_count, 2);
    script_change(&s, SEALED);
    STATE(me, "held");
    OPS(&s, "");
    script_remove(&s, SEALED);
    script_finish(&s);
}

static void test_removed_is_not_announced(void)
{
    wait_behind(SEALED);
    script_remove(&s, SEALED);
    STATE(me, "listing");
    OPS(&s, "list");
    script_finish(&s);
}

/* Whose node anybody may write says nothing by being written. */
static void test_other_nodes_are_not_believed(void)
{
    ask_behind(SCRIPT_BLOCKER);
    OPS(&s, "get");
    script_answer_all(&s);
    script_change(&s, SCRIPT_BLOCKER);
    STATE(me, "listing");
    script_answer_all(&s);
    STATE(me, "watching");
    script_finish(&s);
}

/* Others may read beside it. */
static void test_readers_are_not_believed(void)
{
    ask_behind(SEALED_READER);
    OPS(&s, "get");
    script_answer_all(&s);
    script_change(&s, SEALED_READER);
    STATE(me, "listing");
    script_finish(&s);
}

static void test_not_without_an_eye_on_our_own_node(void)
{
    ask_behind(SEALED);
    script_answer_with(&s, ZKL__RC_NOAUTH);
    script_answer_all(&s);
    script_change(&s, SEALED);
    STATE(me, "listing");
    script_finish(&s);
}

/* The event may be here before the answer to what set the watch. */
static void test_not_before_the_answers(void)
{
    ask_behind(SEALED);
    script_answer(&s);
    script_change(&s, SEALED); /* before the watch is set: no event */
    STATE(me, "watching");
    script_answer_all(&s);
    STATE(me, "watching");
    script_finish(&s);
}

static void test_our_own_node_is_removed_first(void)
{
    char path[SCRIPT_PATH];
    wait_behind(SEALED);
    strcpy(path, script_our_path(&s));
    script_remove(&s, path);
    STATE(me, "listing");
    script_change(&s, SEALED);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me->granted, 0); /* queued again */
    STATE(me, "watching");
    script_finish(&s);
}

static void test_our_own_node_is_removed_at_once(void)
{
    char path[SCRIPT_PATH];
    ask_behind(SEALED);
    strcpy(path, script_our_path(&s));
    script_remove(&s, path);
    STATE(me, "watching"); /* not heard: the watch is not set */
    script_answer(&s);
    STATE(me, "creating");
    script_answer_all(&s);
    STATE(me, "watching");
    CU_ASSERT_STRING_NOT_EQUAL(path, script_our_path(&s));
    script_finish(&s);
}

/* And we would be granted but for a lease. */
static void test_our_own_node_is_removed_while_proving(void)
{
    char path[SCRIPT_PATH];
    wait_behind(SEALED);
    script_wait(&s, 12000 * MS); /* no answer: no lease */
    script_change(&s, SEALED);
    STATE(me, "proving");
    strcpy(path, script_our_path(&s));
    script_remove(&s, path);
    STATE(me, "listing");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me->granted, 0);
    STATE(me, "watching");
    script_finish(&s);
}

static void test_nothing_is_believed_after_a_reconnect(void)
{
    wait_behind(SEALED);
    script_suspend(&s, 0);
    script_connect(&s);
    script_change(&s, SEALED); /* the client library sets its watches again: this one is told */
    STATE(me, "listing");
    script_answer_all(&s);
    STATE(me, "watching");
    script_finish(&s);
}

/* The watch that the client library has set again fires before the reply to the get that sets ours: nobody hears of a removal then. */
static void test_an_event_before_the_reply(void)
{
    wait_behind(SEALED);
    script_suspend(&s, 0);
    script_connect(&s);
    while (s.op_count > 0 && strcmp(script_ops(&s), "get get") != 0) {
        script_answer(&s);
    }
    OPS(&s, "get get");
    script_change(&s, script_our_path(&s));
    STATE(me, "listing");
    OPS(&s, "get get unwatch list");
    for (int i = 0; i < 4; i++) {
        script_answer(&s);
    }
    STATE(me, "watching");
    OPS(&s, "get get"); /* our own node again */
    script_finish(&s);
}

static void test_a_try_sets_no_watch(void)
{
    struct zkl__contender_config config = script_config(me, "/q");
    config.announces = true;
    script_begin(&s);
    script_put(&s, SEALED, SCRIPT_STRANGER);
    s.next_sequence = 1;
    CU_ASSERT_TRUE_FATAL(script_contend(&s, me, &config));
    script_start(&s, me, INT64_MAX, true);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    script_finish_failed(&s, me, ZKL_EBUSY);
}

/* --- announced ----------------------------------------------------------------------------------------------------- */

static void test_who_waited_announces(void)
{
    hold_after_waiting();
    CU_ASSERT_TRUE(is_sealed(me));
    script_release(&s, me);
    OPS(&s, "multi(set,delete)");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me->released, 1);
    CU_ASSERT_EQUAL(script_ours(&s), 0);
    script_finish(&s);
}

/* Nobody was before it: most likely nobody is behind it. */
static void test_who_did_not_wait_just_goes(void)
{
    script_begin(&s);
    ask(me);
    script_answer_all(&s);
    script_release(&s, me);
    OPS(&s, "delete");
    script_finish(&s);
}

static void test_who_never_held_announces_nothing(void)
{
    wait_behind(SEALED);
    script_cancel(&s, me);
    OPS(&s, "unwatch delete");
    script_finish_failed(&s, me, ZKL_ECANCELED);
}

static void test_who_lost_announces_nothing(void)
{
    hold_after_waiting();
    script_suspend(&s, 0);
    script_wait(&s, s.timeout);
    CU_ASSERT_EQUAL(me->lost, 1);
    script_release(&s, me);
    script_connect(&s);
    OPS(&s, "delete");
    script_finish(&s);
}

/* As long as the node of whom it was handed over from may be there. */
static void test_who_was_handed_announces_later(void)
{
    hold_after_waiting();
    ask(you);
    script_answer_all(&s);
    script_release(&s, me);
    STATE(you, "held");
    script_release(&s, you);
    OPS(&s, "delete delete");
    script_finish(&s);

    hold_after_waiting();
    ask(you);
    script_answer_all(&s);
    script_release(&s, me);
    script_answer_all(&s);
    script_release(&s, you);
    OPS(&s, "multi(set,delete)");
    script_finish(&s);
}

static void test_a_node_that_was_written_just_goes(void)
{
    hold_after_waiting();
    script_release(&s, me);
    script_answer_with(&s, ZKL__RC_BADVERSION);
    OPS(&s, "delete");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me->released, 1);
    script_finish(&s);
}

static void test_a_lost_answer(void)
{
    hold_after_waiting();
    script_release(&s, me);
    script_suspend(&s, 0);
    script_connect(&s);
    OPS(&s, "multi(set,delete)");
    script_suspend(&s, 1);
    script_connect(&s);
    script_answer_all(&s); /* no such node */
    CU_ASSERT_EQUAL(me->released, 1);
    script_finish(&s);
}

/* Once: others may stand between our node and a double of it, which could not be deleted when it was found. */
static void test_a_double_is_not_announced(void)
{
    script_begin(&s);
    script_put(&s, SEALED, SCRIPT_STRANGER);
    s.next_sequence = 1;
    ask(me);
    script_suspend(&s, 1); /* the create is applied, and its reply lost */
    script_connect(&s);
    while (s.ops[0].kind != ZKL__OP_DELETE) {
        script_answer(&s);
    }
    script_answer_with(&s, ZKL__RC_NOAUTH);
    script_answer_all(&s);
    STATE(me, "watching");
    CU_ASSERT_EQUAL(script_ours(&s), 2);
    script_remove(&s, SEALED);
    script_answer_all(&s);
    STATE(me, "held");
    script_release(&s, me);
    OPS(&s, "multi(set,delete)");
    script_answer(&s);
    OPS(&s, "check list");
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "delete");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me->released, 1);
    CU_ASSERT_EQUAL(script_ours(&s), 0);
    script_finish(&s);
}

/* The servers know another digest than we do. */
static void test_not_our_identity(void)
{
    hold_after_waiting();
    script_release(&s, me);
    script_answer_with(&s, ZKL__RC_NOAUTH);
    OPS(&s, "delete");
    script_answer_all(&s);
    ask(you);
    script_answer_all(&s);
    CU_ASSERT_FALSE(is_sealed(you));
    script_finish(&s);
}

/* The servers know no digest at all. */
static void test_no_seal(void)
{
    script_begin(&s);
    ask(me);
    script_answer_with(&s, ZKL__RC_INVALIDACL);
    script_answer_all(&s);
    STATE(me, "held");
    CU_ASSERT_FALSE(is_sealed(me));
    CU_ASSERT_EQUAL(script_ours(&s), 1);
    script_finish(&s);
}

/* A server took the seal and its answer was lost, the next one takes none: what the first one made must not be forgotten. */
static void test_no_seal_after_a_lost_reply(void)
{
    script_begin(&s);
    ask(me);
    script_suspend(&s, 1);
    script_connect(&s);
    while (s.ops[0].kind != ZKL__OP_CREATE) {
        script_answer(&s);
    }
    script_answer_with(&s, ZKL__RC_INVALIDACL);
    script_run(&s, 3000 * MS);
    STATE(me, "held");
    CU_ASSERT_EQUAL(script_ours(&s), 1);
    CU_ASSERT_TRUE(is_sealed(me)); /* the node that was there first */
    script_release(&s, me);
    OPS(&s, "delete"); /* nobody may write it but another session: it is not announced */
    script_finish(&s);
}

/* The servers refused the identity when the session said it. */
static void test_unsealed(void)
{
    script_begin(&s);
    zkl__core_unseal(s.core);
    ask(me);
    script_answer_all(&s);
    STATE(me, "held");
    CU_ASSERT_FALSE(is_sealed(me));
    script_finish(&s);
}

static void test_who_must_not(void)
{
    struct zkl__contender_config config = script_config(me, "/q");
    static const zkl_acl_entry anyone = {ZKL_PERM_ALL, "world", "anyone"};
    static const zkl_acl open = {1, &anyone};
    static const struct zkl__rule reader = {"__READ__", ZKL__KIND_ANY & ~ZKL__KIND(ZKL_KIND_READ)};
    for (int i = 0; i < 3; i++) {
        config = script_config(me, "/q");
        config.announces = true;
        config.revocable = i == 0;
        config.acl = i == 1 ? &open : NULL;
        config.rule = i == 2 ? &reader : config.rule;
        script_begin(&s);
        CU_ASSERT_TRUE_FATAL(script_contend(&s, me, &config));
        script_start(&s, me, INT64_MAX, false);
        script_answer_all(&s);
        STATE(me, "held");
        CU_ASSERT_FALSE(is_sealed(me));
        script_finish(&s);
    }
}

/* Who may create nodes in the queue can lie: it is found out within a heartbeat, as a removal by hand is. */
static void test_a_lie(void)
{
    ask_behind(SEALED); /* whoever that is behind holds */
    script_put(&s, "/q/_c_22222222-2222-4222-8222-222222222222-lock--000000001", SCRIPT_STRANGER);
    script_answer_all(&s);
    script_change(&s, SEALED);
    STATE(me, "held");
    script_wait(&s, s.timeout / 12 - 1);
    OPS(&s, "");
    script_wait(&s, 1);
    OPS(&s, "check list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me->lost, 1);
    script_finish(&s);
}

/* --- how far a lie goes --------------------------------------------------------------------------------------------- */

#define SEALED_6 "/q/_c_11111111-1111-8111-8111-111111111111-lock-0000000006"
#define SEALED_7 "/q/_c_11111111-1111-8111-8111-111111111111-lock-0000000007"

static void wait_as(const char *blocker, int32_t number)
{
    script_begin(&s);
    script_put(&s, blocker, SCRIPT_STRANGER);
    s.next_sequence = number;
    ask(me);
    script_answer_all(&s);
}

static void hold_by_announcement(const char *blocker, int32_t number)
{
    wait_as(blocker, number);
    script_change(&s, blocker);
    STATE(me, "held");
}

static void test_announced_on_inside_a_block(void)
{
    hold_by_announcement(SEALED_6, 7);
    OPS(&s, "");
    script_release(&s, me);
    OPS(&s, "multi(set,delete)");
    script_remove(&s, SEALED_6);
    script_finish(&s);
}

/* Granted as fast as the others, and with a list behind it. Until that is here, whoever is next looks for itself. */
static void test_not_announced_on_at_the_border(void)
{
    hold_by_announcement(SEALED_7, 8);
    OPS(&s, "list");
    script_release(&s, me);
    OPS(&s, "list delete");
    script_remove(&s, SEALED_7);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me->released, 1);
    script_finish(&s);
}

static void test_announced_when_a_list_has_shown_it(void)
{
    hold_by_announcement(SEALED_7, 8);
    script_remove(&s, SEALED_7);
    script_answer(&s);
    CU_ASSERT_EQUAL(me->contender->announcement.evidence, ZKL__EVIDENCE_LIST);
    script_wait(&s, s.timeout / 12);
    OPS(&s, "check"); /* the heartbeat; no list once more */
    script_release(&s, me);
    OPS(&s, "check multi(set,delete)");
    script_finish(&s);
}

static void test_a_lie_ends_at_the_border(void)
{
    hold_by_announcement(SEALED_7, 8);
    script_answer(&s);
    OPS(&s, "exists");
    script_answer(&s);
    CU_ASSERT_EQUAL(me->lost, 1);
    script_release(&s, me);
    OPS(&s, "delete");
    script_finish(&s);
}

/* Its list is lost with the connection: it looks once more, and says nothing before. */
static void test_a_list_lost_at_the_border(void)
{
    hold_by_announcement(SEALED_7, 8);
    script_suspend(&s, 0);
    script_connect(&s);
    CU_ASSERT_EQUAL(me->contender->announcement.evidence, ZKL__EVIDENCE_AT_BORDER);
    CU_ASSERT(me->contender->announcement.look_at > s.now);
    script_release(&s, me);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me->released, 1);
    CU_ASSERT_EQUAL(script_ours(&s), 0);
    script_remove(&s, SEALED_7);
    script_finish(&s);
}

/* The border is between two of one session: the second is handed the lock, and lists. */
static void test_a_border_inside_a_session(void)
{
    wait_as(SEALED_6, 7);
    ask(you);
    script_answer_all(&s);
    script_change(&s, SEALED_6);
    OPS(&s, "");
    script_release(&s, me);
    STATE(you, "held");
    OPS(&s, "delete list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(you->lost, 1); /* the one that said it was through */
    script_finish(&s);
}

/* Its release is as good a word as an announcement: so it hands nothing over before its list is here. */
static void test_not_handed_over_at_the_border(void)
{
    wait_as(SEALED_7, 8);
    ask(you);
    script_answer_all(&s);
    script_change(&s, SEALED_7);
    STATE(me, "held");
    script_release(&s, me);
    STATE(you, "listing");
    OPS(&s, "list delete list");
    script_answer_all(&s);
    STATE(you, "watching");
    script_remove(&s, SEALED_7);
    script_finish(&s);

    wait_as(SEALED_7, 8);
    ask(you);
    script_answer_all(&s);
    script_change(&s, SEALED_7);
    script_remove(&s, SEALED_7);
    script_answer_all(&s);
    script_release(&s, me);
    STATE(you, "held");
    OPS(&s, "delete");
    script_finish(&s);
}

/* What is before us is no contender, or is gone: we hold. */
static void test_no_lie(void)
{
    wait_behind(SEALED);
    script_change(&s, SEALED);
    script_remove(&s, SEALED);
    script_put(&s, "/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000000", 0); /* persistent */
    script_run(&s, s.timeout / 12);
    OPS(&s, "");
    STATE(me, "held");
    script_finish(&s);

    wait_behind(SEALED);
    script_change(&s, SEALED);
    script_wait(&s, s.timeout / 12);
    OPS(&s, "check list");
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "exists");
    script_remove(&s, SEALED);
    script_answer(&s);
    OPS(&s, "list");
    script_run(&s, 2 * s.timeout);
    STATE(me, "held");
    script_finish(&s);
}

/* Without an answer it looks once more. */
static void test_no_list(void)
{
    wait_behind(SEALED);
    script_change(&s, SEALED);
    script_remove(&s, SEALED);
    script_wait(&s, s.timeout / 12);
    OPS(&s, "check list");
    script_suspend(&s, 0);
    script_connect(&s);
    script_run(&s, s.timeout / 2);
    STATE(me, "held");
    CU_ASSERT_EQUAL(me->contender->announcement.evidence, ZKL__EVIDENCE_LIST);
    script_finish(&s);
}

/* Nor without a word about who is before it, nor while there is no connection. */
static void test_no_answer_about_who_is_before(void)
{
    wait_behind(SEALED);
    script_change(&s, SEALED);
    script_wait(&s, s.timeout / 12);
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "exists");
    script_suspend(&s, 0);
    script_wait(&s, s.timeout / 12);
    CU_ASSERT_EQUAL(me->contender->announcement.evidence, ZKL__EVIDENCE_ANNOUNCEMENT);
    CU_ASSERT(me->contender->announcement.look_at > s.now);
    script_connect(&s);
    script_remove(&s, SEALED);
    script_run(&s, s.timeout / 2);
    STATE(me, "held");
    CU_ASSERT_EQUAL(me->contender->announcement.evidence, ZKL__EVIDENCE_LIST);
    script_finish(&s);
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
        script_change(&s, SEALED);
        script_remove(&s, SEALED);
        script_put(&s, before_us[i], 0); /* persistent */
        script_wait(&s, s.timeout / 12);
        OPS(&s, "check list");
        test_heap_fail(&s.heap, 1, true);
        script_answer_all(&s);
        CU_ASSERT_EQUAL(test_heap_failures(&s.heap), 1);
        CU_ASSERT_EQUAL(me->contender->announcement.evidence, ZKL__EVIDENCE_ANNOUNCEMENT);
        CU_ASSERT(me->contender->announcement.look_at > s.now);
        test_heap_fail(&s.heap, 0, false);
        script_run(&s, s.timeout / 2);
        STATE(me, "held");
        CU_ASSERT_EQUAL(me->contender->announcement.evidence, ZKL__EVIDENCE_LIST);
        script_finish(&s);
    }
}

/* It hears of that at once, not with the next heartbeat. */
static void test_removed_while_held(void)
{
    char path[SCRIPT_PATH];
    hold_after_waiting();
    strcpy(path, script_our_path(&s));
    script_remove(&s, path);
    CU_ASSERT_EQUAL(me->lost, 1);
    script_finish(&s);
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
