/* One contender, step by step: what it asks of the servers, what it makes of their answers, and
 * of what others do. */
#include "script.h"

/* --- a create of unknown fate -------------------------------------------------------------------------------------- */

/* Its znode is there, number 5; the connection is not. */
static void lose_the_reply_of_a_create(void)
{
    script_begin();
    script_number_from(5);
    script_acquire(&me);
    script_suspend(1);
}

/* While the reply to our create is lost, somebody else makes a znode whose name has our uuid. It is
 * not taken for ours, and before ours it is waited for. */
TEST(test_strangers_with_our_uuid)
{
    static const struct {
        int kept; /* characters of our name, up to the number or up to the uuid's end */
        const char *rest;
        bool may_be_deleted, is_waited_for;
    } strangers[] = {
        {-10, "0000000009", false, false},
        {-10, "0000000003", true, true},
        {42, "-00000000000000000000000000000000000000000000000000-lock-0000000009", true, false},
    };
    EACH_ROW (i, strangers) {
        char path[SCRIPT_PATH];
        lose_the_reply_of_a_create();
        int kept = strangers[i].kept > 0 ? strangers[i].kept : (int)strlen(script_our_path()) + strangers[i].kept;
        snprintf(path, sizeof path, "%.*s%s", kept, script_our_path(), strangers[i].rest);
        script_put(path, SCRIPT_STRANGER)->own = !strangers[i].may_be_deleted;
        script_connect();
        script_answer_all();
        CU_ASSERT_PTR_NOT_NULL(script_find(path));
        CU_ASSERT_EQUAL(me.granted, !strangers[i].is_waited_for);
        if (strangers[i].is_waited_for) {
            script_remove(path);
        }
        script_answer_granted(&me);
        CU_ASSERT_EQUAL(script_ours(), 1);
        script_finish();
    }
}

/* The same, two of them, before and behind ours, with children: nothing of ours is left. Who waits keeps its znode. */
TEST(test_strangers_with_children)
{
    for (int cancelled = 0; cancelled <= 1; cancelled++) {
        char path[SCRIPT_PATH];
        lose_the_reply_of_a_create();
        int kept = (int)strlen(script_our_path()) - 1;
        script_find(script_our_path())->own = !cancelled;
        snprintf(path, sizeof path, "%.*s0/k", kept, script_our_path());
        for (; path[kept] <= '9'; path[kept] += 9) {
            path[kept + 1] = '\0';
            script_put(path, 0);
            path[kept + 1] = '/';
            script_put(path, 0);
        }
        if (cancelled) {
            script_cancel(&me);
        }
        script_connect();
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(me.granted, !cancelled);
        CU_ASSERT_EQUAL(script_ours(), !cancelled);
        if (!cancelled) {
            script_find(script_our_path())->own = false;
        }
        script_finish();
    }
}

/* The same, and it has the number that our second create gets: that one is refused, and our first znode is found. */
TEST(test_a_stranger_with_our_next_name)
{
    for (int may_be_deleted = 0; may_be_deleted <= 1; may_be_deleted++) {
        for (int listed = 0; listed <= 1; listed++) {
            char path[SCRIPT_PATH];
            lose_the_reply_of_a_create();
            snprintf(path, sizeof path, "%.*s0000000006", (int)strlen(script_our_path()) - 10, script_our_path());
            script_put(path, SCRIPT_STRANGER)->own = !may_be_deleted;
            script_number_from(6);
            script_connect();
            script_answer_until(ZKL__OP_CREATE);
            OPS("create list");
            script_answer();
            if (!listed) {
                script_answer_with(ZKL__RC_NOTAPPLIED);
            }
            script_run(1000 * MS);
            CU_ASSERT_EQUAL(me.granted, 1);
            CU_ASSERT_EQUAL(script_ours(), 1);
            script_finish();
        }
    }
}

/* --- a blocker that may not be read --------------------------------------------------------------------------------- */

static const enum zkl__memory_rules every_rule[] = {ZKL__RULES_NOTHING_NEEDS_READ, ZKL__RULES_EVENTS_NEED_READ,
                                                    ZKL__RULES_EXISTS_NEEDS_READ};
#define EVERY_RULE (sizeof every_rule / sizeof *every_rule)

/* Our node is there, and a list shows a blocker that refuses the get under way. */
static void find_hidden(enum zkl__memory_rules rules)
{
    script_begin_blocked();
    script.space.rules = rules;
    script_forbid(script_find(SCRIPT_BLOCKER), ZKL_PERM_READ);
    script_acquire(&me);
    script_answer();
    script_answer();
    OPS("get");
}

static void finish_granted(void)
{
    script_answer_granted(&me);
    script_finish();
}

TEST(test_unreadable_blocker)
{
    EACH_ROW (i, every_rule) {
        find_hidden(every_rule[i]);
        script_answer();
        OPS("exists list");
        CU_ASSERT_FALSE(script.ops[0].op->watch);
        CU_ASSERT_TRUE(script.ops[1].op->watch);
        script_answer_all();
        STATE(&me, "watching");
        script_remove(SCRIPT_BLOCKER);
        OPS("list");
        finish_granted();
    }
}

/* Persistent: where its stat may be seen it is passed over, else it counts. */
TEST(test_unreadable_and_forged)
{
    EACH_ROW (i, every_rule) {
        find_hidden(every_rule[i]);
        script_find(SCRIPT_BLOCKER)->stat.ephemeral_owner = 0;
        script_answer_all();
        if (every_rule[i] == ZKL__RULES_EXISTS_NEEDS_READ) {
            STATE(&me, "watching");
            script_remove(SCRIPT_BLOCKER);
        }
        finish_granted();
    }
}

/* --- a flood of forged places --------------------------------------------------------------------------------------- */

#define FLOOD 300

/* owner 0: of nobody. */
static void put_places(int count, int64_t owner)
{
    char path[SCRIPT_PATH];
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/q/%c%d-lock-%010d", owner ? 'y' : 'x', i, i % 50);
        script_put(path, owner);
    }
}

static void flood(void)
{
    script_begin();
    put_places(FLOOD, 0);
}

struct tally {
    int lists, looks, round_trips;
};

#define WITHOUT_END 1000 /* round trips */

/* Everything is answered, and all that is under way at a time as one round trip. */
static struct tally answer_and_count(void)
{
    struct tally tally = {0, 0, 0};
    while (script.op_count > 0 && tally.round_trips < WITHOUT_END) {
        tally.round_trips++;
        for (int i = script.op_count; i > 0; i--) {
            enum zkl__op_kind kind = script_answer();
            tally.lists += kind == ZKL__OP_CHILDREN;
            tally.looks += kind == ZKL__OP_GET || kind == ZKL__OP_EXISTS;
        }
    }
    return tally;
}

TEST(test_flood)
{
    flood();
    script_acquire(&me);
    struct tally tally = answer_and_count();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(tally.lists, 2);
    CU_ASSERT_EQUAL(tally.looks, FLOOD);
    CU_ASSERT(tally.round_trips <= 7); /* create and list, 1, list, 1, 8, 64, the rest */
    CU_ASSERT_EQUAL(script_watches(), 0);
    script_release(&me);
    script_answer_all();
    script_acquire(&me); /* a new contender, when none was left: it knows them all */
    tally = answer_and_count();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(tally.looks, 0);
    script_finish();
}

/* Between a blocker that may not be read and us somebody has made readers' names, which are looked at each time: not for ever. */
TEST(test_unreadable_behind_forged_readers)
{
    for (size_t i = 0; i < 3 * EVERY_RULE; i++) {
        char path[SCRIPT_PATH];
        script_begin_blocked();
        script.space.rules = every_rule[i / 3];
        script_forbid(script_find(SCRIPT_BLOCKER), ZKL_PERM_READ);
        for (int forged = 1; forged <= 4; forged++) {
            snprintf(path, sizeof path, "/q/_c_%08d-2222-4222-8222-222222222222-__READ__%010d", forged, forged);
            script_put(path, 0);
        }
        script_enter(&me, CONTENDER_CONFIG(.max_ahead = i % 3 * 2));
        CU_ASSERT_TRUE(answer_and_count().lists < 6);
        STATE(&me, "watching");
        script_remove(path);
        CU_ASSERT_TRUE(answer_and_count().lists < 3);
        STATE(&me, "watching");
        script_remove(SCRIPT_BLOCKER);
        finish_granted();
    }
}

/* Such a name may not be read itself: where its stat may be seen it is passed over, else it counts. */
TEST(test_unreadable_and_forged_reader)
{
    EACH_ROW (i, every_rule) {
        script_begin();
        script.space.rules = every_rule[i];
        script_forbid(script_put("/q/_c_22222222-2222-4222-8222-222222222222-__READ__0000000000", 0), ZKL_PERM_READ);
        script_acquire(&me);
        CU_ASSERT_TRUE(answer_and_count().lists < 4);
        CU_ASSERT_EQUAL(me.granted, every_rule[i] != ZKL__RULES_EXISTS_NEEDS_READ);
        script_finish();
    }
}

/* max_ahead counts contenders, not names. */
TEST(test_flood_and_max_ahead)
{
    for (int standing = 0; standing < 4; standing++) {
        flood();
        put_places(standing, SCRIPT_STRANGER);
        script_enter(&me, CONTENDER_CONFIG(.max_ahead = 2));
        struct tally tally = answer_and_count();
        CU_ASSERT(tally.looks <= FLOOD + standing + 1);
        if (standing == 0) {
            CU_ASSERT_EQUAL(me.granted, 1);
            script_finish();
        } else if (standing <= 2) {
            STATE(&me, "watching");
            script_finish();
        } else {
            CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "max_ahead"));
            script_finish_failed(&me, ZKL_EBUSY);
        }
    }
}

/* One round trip more, and no more requests than are needed to know. */
TEST(test_max_ahead_in_a_long_queue)
{
    script_begin();
    put_places(FLOOD, SCRIPT_STRANGER);
    script_enter(&me, CONTENDER_CONFIG(.max_ahead = 2));
    struct tally tally = answer_and_count();
    CU_ASSERT_EQUAL(tally.looks, 3);
    CU_ASSERT_EQUAL(tally.round_trips, 3); /* create and list, 3, delete */
    script_finish_failed(&me, ZKL_EBUSY);
}

/* A writer before us makes itself a reader while it is looked at: it is gone, and its reader stands. */
TEST(test_flood_and_a_downgrade)
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
        script_number_from(100);
        script_acquire(&me);
        for (int i = 0; i < answered && script.op_count > 0; i++) {
            script_answer();
        }
        script_put(reader, SCRIPT_STRANGER);
        script_remove(writer);
        script_answer_all();
        CU_ASSERT_EQUAL(me.granted, 0);
        script_remove(reader);
        finish_granted();
    }
}

/* The numbers are used up. The server says so, or its counter sticks at the last one, or wraps
 * between requests that follow each other closely. */
TEST(test_sequence_used_up)
{
    for (int way = 0; way < 3; way++) {
        script_begin();
        script_number_from(way == 1 ? INT32_MAX : INT32_MIN);
        script_acquire(&me);
        if (way == 0) {
            script_answer_with(ZKL__RC_NODEEXISTS);
        }
        script_answer_all();
        CU_ASSERT_EQUAL(script_ours(), 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "2147483647"));
        script_finish_failed(&me, ZKL_EEXHAUSTED);
    }
}

/* What the server refuses, after how many answers, and what the owner is told. */
static const struct refusal {
    enum { AT_ONCE, WITHOUT_A_DIRECTORY, AFTER_A_LOST_CREATE } way;
    int answers;
    const char *under_way;
    enum zkl__rc rc;
    int code;
} refusals[] = {
    {AT_ONCE, 0, "create list", ZKL__RC_NOAUTH, ZKL_EAUTH},
    {AT_ONCE, 0, "create list", ZKL__RC_INVALIDACL, ZKL_EAUTH},
    {AT_ONCE, 0, "create list", ZKL__RC_EPHEMERALPARENT, ZKL_ECONFLICT},
    {AT_ONCE, 0, "create list", ZKL__RC_REFUSED, ZKL_EUNSUPPORTED},
    {AT_ONCE, 1, "list", ZKL__RC_NOAUTH, ZKL_EAUTH},
    {WITHOUT_A_DIRECTORY, 2, "create", ZKL__RC_EPHEMERALPARENT, ZKL_ECONFLICT},
    {WITHOUT_A_DIRECTORY, 2, "create", ZKL__RC_NOAUTH, ZKL_EAUTH},
    {AFTER_A_LOST_CREATE, 4, "exists", ZKL__RC_NOAUTH, ZKL_EAUTH},
};

TEST(test_refused)
{
    EACH_ROW (i, refusals) {
        const struct refusal *refusal = &refusals[i];
        script_begin();
        if (refusal->way == WITHOUT_A_DIRECTORY) {
            script_remove("/q");
        }
        script_acquire(&me);
        if (refusal->way == AFTER_A_LOST_CREATE) {
            script_reconnect(2);
        }
        script_answer_some(refusal->answers);
        OPS(refusal->under_way);
        script_answer_with(refusal->rc);
        CU_ASSERT_EQUAL(me.zk_code, -100);
        script_finish_failed(&me, refusal->code);
    }
}

/* Who may not read its own node learns from the refusal that it is there, and that the session lives: it is granted, and it holds. */
TEST(test_own_node_hidden)
{
    script_begin();
    script_enter(&me, CONTENDER_CONFIG(.revocable = true));
    script_answer();
    script_forbid(script_find(script_our_path()), ZKL_PERM_READ);
    script_answer_granted(&me);
    script_run(10 * script.timeout);
    CU_ASSERT_EQUAL(me.lost, 0);
    CU_ASSERT_EQUAL(me.jeopardy, 0);
    CU_ASSERT_EQUAL(script.warnings, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(script.warned, "/q#1: READ on our own znode _c_"));
    script_release(&me);
    OPS("delete"); /* at once, though the watch on it is refused again and again */
    script_finish();
    script_begin_proving(&me);
    script_forbid(script_find(script_our_path()), ZKL_PERM_READ);
    OPS("check");
    script_answer_all();
    script_run(2 * script.timeout);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* Never forgotten: until it is gone, or the session is. */
TEST(test_delete_refused)
{
    static const enum zkl__rc rcs[] = {ZKL__RC_NOAUTH, ZKL__RC_NOTAPPLIED, ZKL__RC_REFUSED};
    EACH_ROW (i, rcs) {
        script_begin();
        script_hold(&me);
        script_release(&me);
        CU_ASSERT_EQUAL(script.warnings, 0);
        for (int n = 0; n < 20; n++) {
            OPS("delete");
            script_answer_with(rcs[i]);
            CU_ASSERT_EQUAL(me.released, 0);
            while (script_count(ZKL__OP_DELETE) == 0) {
                script_answer_all();
                script_wait(100 * MS);
            }
        }
        CU_ASSERT_EQUAL(script.warnings, i == 0); /* by its name, once in all the time */
        CU_ASSERT(i > 0 || strstr(script.warned, "/q#1: DELETE on the directory is missing"));
        if (i == 0) {
            script_answer_all();
        } else {
            script_expire();
        }
        CU_ASSERT_EQUAL(me.released, 1);
        CU_ASSERT_EQUAL(me.code, i == 0 ? ZKL_OK : ZKL_ELOST);
        script_finish();
    }
}

/* A create of unknown fate is not wanted any more, and what carries its uuid may not be deleted: a stranger's is left alone, ours is
 * not forgotten. */
TEST(test_delete_of_what_a_lost_create_made_refused)
{
    for (int ours = 0; ours <= 1; ours++) {
        lose_the_reply_of_a_create();
        script_cancel(&me);
        struct zkl__memory_node *node = script_find(script_our_path());
        node->own = true;
        node->stat.ephemeral_owner = ours ? script.store.session_id : SCRIPT_STRANGER;
        script_connect();
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(zkl__core_idle(script.core), !ours);
        CU_ASSERT_EQUAL(script_ours(), ours);
        node->own = false;
        script_run(5000 * MS);
        CU_ASSERT_EQUAL(script_ours(), 0);
        script_finish();
    }
}

static void enter_and_answer(struct script_owner *owner, const char *path)
{
    script_enter(owner, CONTENDER_CONFIG(.path = path));
    script_answer_all();
}

/* --- operators ----------------------------------------------------------------------------------------------------- */

TEST(test_removed_by_somebody_to_fail)
{
    script_begin_blocked();
    script_enter(&me, CONTENDER_CONFIG(.fail_on_expiry = true));
    script_answer_all();
    script_remove(script_our_path());
    script_remove(SCRIPT_BLOCKER);
    script_answer_all();
    script_finish_failed(&me, ZKL_ELOST);
}

/* The watch on our own znode ends the grant without a request. */
TEST_IN_SCRIPT(test_removed_while_held)
{
    script_hold(&me);
    script_run(script.timeout / 2);
    script_remove_node(&me);
    CU_ASSERT_EQUAL(me.lost, 1);
}

/* One transaction deletes our znode and creates another one under its name. Our watch is not set yet, or the connection is lost meanwhile:
 * then the watch reports a change when it is set again. */
TEST(test_replaced_by_somebody)
{
    for (int lost_connection = 0; lost_connection <= 1; lost_connection++) {
        char path[SCRIPT_PATH];
        script_begin();
        script_hold(&me);
        snprintf(path, sizeof path, "%s", script_our_path());
        if (lost_connection) {
            script_run(script.timeout / 2);
            script_suspend(0);
        }
        script_remove_node(&me);
        script_put(path, 0);
        if (lost_connection) {
            script_connect();
            script_answer_all();
        } else {
            script_run(script.timeout / 2);
        }
        CU_ASSERT_EQUAL(me.lost, 1);
        script_finish();
    }
}

/* --- directories --------------------------------------------------------------------------------------------------- */

TEST(test_chroot_missing)
{
    script_begin();
    script_enter(&me, CONTENDER_CONFIG(.path = "/q/deeper"));
    while (script.op_count > 0) {
        script_answer_with(ZKL__RC_NONODE);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "chroot"));
    script_finish_failed(&me, ZKL_ENOENT);
}

/* A damaged reply of the create names no znode of ours, or none that can be: as if it were lost. */
TEST(test_reply_without_our_name)
{
    static const struct zkl__rule nobody = {"-lease-", 0};
    static char too_long[201];
    memset(too_long, 'x', sizeof too_long - 1);
    const char *const names[] = {NULL, "", "lock-0000000000", "_c_", too_long};
    enum { WAITS, WAITS_FOR_NOBODY, CANCELLED };
    EACH_ROW (i, names) {
        for (int way = WAITS; way <= CANCELLED; way++) {
            script_begin();
            script_enter(&me, CONTENDER_CONFIG(.rule = way == WAITS_FOR_NOBODY ? &nobody : NULL));
            if (way == CANCELLED) {
                script_cancel(&me);
            }
            script_answer_named(names[i]);
            script_run(3000 * MS);
            CU_ASSERT_EQUAL(me.granted, way != CANCELLED);
            CU_ASSERT_EQUAL(script_ours(), way != CANCELLED);
            script_finish();
        }
    }
}

/* Two are first, each in its queue, and wait for a lease, which the next heartbeat brings. The heartbeats check their znodes in turn: the last
 * one has checked /q's, and the next one is on /r's. */
static void wait_for_the_last_heartbeat(void)
{
    script_begin_proving(&me);
    enter_and_answer(&you, "/r");
    for (int beats = 0; beats < 15; beats++) {
        STATE(&me, "proving");
        STATE(&you, "proving");
        script_wait(script.timeout / 12);
        OPS("check");
        script_answer_all();
    }
}

/* Its znode was seen more than a heartbeat ago, and may have been removed since: it is checked before the grant. */
TEST(test_first_on_old_evidence)
{
    wait_for_the_last_heartbeat();
    script_wait(script.timeout / 12);
    script_remove_node(&me);
    script_wait(MS);
    script_answer();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(me.granted, 0);
    OPS("check");
    script_finish();
}

/* Another one of its session lists the queue, without it. */
TEST(test_first_and_not_in_the_list_of_another)
{
    wait_for_the_last_heartbeat();
    script_remove_node(&me);
    enter_and_answer(&third, "/q");
    script_wait(script.timeout / 12);
    script_answer_granted(&third);
    CU_ASSERT_EQUAL(me.granted, 0);
    script_finish();
}

static void hold_revocably(struct script_owner *owner)
{
    script_enter(owner, CONTENDER_CONFIG(.revocable = true));
    script_answer_all();
    CU_ASSERT_EQUAL_FATAL(owner->granted, 1);
}

/* So many requests were told by the time all is answered. */
static void answer_revoked(int times)
{
    script_answer_all();
    CU_ASSERT_EQUAL(me.revoked, times);
}

TEST_IN_SCRIPT(test_request_is_told_once_over_reconnects)
{
    hold_revocably(&me);
    script_write(script_our_path(), "__REVOKE__");
    script_suspend(1); /* while we look */
    script_connect();
    answer_revoked(1);
    script_reconnect(0);
    answer_revoked(1);
    script_step((struct zkl__event){.kind = ZKL__EV_WATCH, .watch = ZKL__WATCH_CHANGED, .path = script_our_path()});
    answer_revoked(1); /* the same request, seen again */
    script_suspend(0);
    script_write(script_our_path(), "__REVOKE__"); /* seen only afterwards */
    script_connect();
    answer_revoked(2);
}

/* Another contender of the session watches our znode, too. Its event comes while our own watch is not set yet. */
TEST_IN_SCRIPT(test_an_event_before_the_reply)
{
    script_enter(&me, CONTENDER_CONFIG(.revocable = true));
    script_answer_until(ZKL__OP_GET);
    script_step((struct zkl__event){.kind = ZKL__EV_WATCH, .watch = ZKL__WATCH_CHANGED, .path = script_our_path()});
    script_answer_all();
    script_write(script_our_path(), "__REVOKE__");
    answer_revoked(1);
}

TEST_IN_SCRIPT(test_watch_refused)
{
    script.refuse_kind = ZKL__OP_GET;
    script.refuse_code = ZKL_ELIMIT;
    script.refuse_count = 3;
    hold_revocably(&me);
    CU_ASSERT_EQUAL(script_watches(), 0);
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(script_watches(), 1);
    script_write(script_our_path(), "__REVOKE__");
    answer_revoked(1);
}

TESTS("contender")
