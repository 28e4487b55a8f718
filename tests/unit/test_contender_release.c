/* What a release says to others: that it is one (announced release), that the holder did not
 * crash (the release mark and the delay), that the writer only reads from here on (downgrade). */
#include "name.h"
#include "script.h"

#define SEALED "/q/_c_11111111-1111-8111-8111-111111111111-lock-0000000000"

#define DELAY (1000 * MS)

static void enter_announcing(struct script_owner *owner, bool mark, int64_t delay)
{
    script_enter(owner, CONTENDER_CONFIG(.announces = true, .mark = mark, .delay = delay));
}

/* Behind that stranger, with a list, but nothing that follows it answered. */
static void ask_behind(const char *blocker)
{
    script_begin_behind(blocker);
    enter_announcing(&me, false, 0);
    script_answer();
    script_answer();
    STATE(&me, "watching");
}

static void wait_behind(const char *blocker)
{
    ask_behind(blocker);
    script_answer_all();
}

static bool is_sealed(const struct script_owner *owner)
{
    return zkl__name_sealed(zkl__contender_node(owner->contender));
}

/* --- believed ------------------------------------------------------------------------------------------------------ */

/* The watch that the client library has set again fires before the reply to the get that sets ours: nobody hears of a removal then. */
TEST(test_an_event_before_the_reply)
{
    wait_behind(SEALED);
    script_reconnect(0);
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

/* One transaction deletes our znode and creates another one under its name, before our watch on it is set or behind that. */
TEST(test_own_node_replaced_while_it_waits)
{
    for (int watched = 0; watched <= 1; watched++) {
        char path[SCRIPT_PATH];
        (watched ? wait_behind : ask_behind)(SEALED);
        snprintf(path, sizeof path, "%s", script_our_path());
        script_remove(path);
        script_put(path, 0);
        script_remove(SEALED);
        script_answer_granted(&me);
        CU_ASSERT_EQUAL(script_ours(), 1);
        script_finish();
    }
}

/* --- announced ----------------------------------------------------------------------------------------------------- */

/* Once: others may stand between our node and a double of it, which could not be deleted when it was found. */
TEST(test_a_double_is_not_announced)
{
    script_begin_behind(SEALED);
    enter_announcing(&me, false, 0);
    script_suspend(1); /* the create is applied, and its reply lost */
    script_connect();
    script_answer_until(ZKL__OP_DELETE);
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

/* A server took the seal and its answer was lost, the next one takes none: what the first one made must not be forgotten. */
TEST_IN_SCRIPT(test_no_seal_after_a_lost_reply)
{
    enter_announcing(&me, false, 0);
    script_reconnect(1);
    script_answer_until(ZKL__OP_CREATE);
    script_answer_with(ZKL__RC_INVALIDACL);
    script_run(3000 * MS);
    STATE(&me, "held");
    CU_ASSERT_EQUAL(script_ours(), 1);
    CU_ASSERT_TRUE(is_sealed(&me)); /* the node that was there first */
    script_release(&me);
    OPS("delete"); /* nobody may write it but another session: it is not announced */
}

TEST(test_who_must_not)
{
    static const zkl_acl_entry anyone = {ZKL_PERM_ALL, "world", "anyone"};
    static const zkl_acl open = {1, &anyone};
    const struct zkl__contender_config configs[] = {{.announces = true, .revocable = true},
                                                    {.announces = true, .acl = &open},
                                                    {.announces = true, .rule = &script_reader}};
    for (int i = 0; i < 3; i++) {
        script_begin();
        script_enter(&me, &configs[i]);
        script_answer_all();
        STATE(&me, "held");
        CU_ASSERT_FALSE(is_sealed(&me));
        script_finish();
    }
}

/* --- how far a lie goes --------------------------------------------------------------------------------------------- */

/* The release of SEALED was announced, and it is gone, but somebody stands before us: the list of the next heartbeat is under way. */
static void hold_before(const char *const *before_us, int count)
{
    wait_behind(SEALED);
    script_change(SEALED);
    script_remove(SEALED);
    for (int i = 0; i < count; i++) {
        script_put(before_us[i], 0); /* persistent */
    }
    script_wait(script.timeout / 12);
    OPS("check list");
}

static void finish_with_evidence(void)
{
    CU_ASSERT_EQUAL(me.contender->announcement.evidence, ZKL__EVIDENCE_ANNOUNCEMENT);
    script_run(script.timeout / 2);
    STATE(&me, "held");
    CU_ASSERT_EQUAL(me.contender->announcement.evidence, ZKL__EVIDENCE_LIST);
    script_finish();
}

/* While it inspects such places, the server asks to try one again, or one is deleted: it lists once more, and holds meanwhile. */
TEST(test_an_inspection_that_shows_nothing)
{
    static const char *const before_us[] = {"/q/a-lock-0000000000", "/q/b-lock-0000000000", "/q/c-lock-0000000000"};
    for (int deleted = 0; deleted < 2; deleted++) {
        hold_before(before_us, 3);
        script_answer();
        script_answer();
        OPS("exists");
        script_answer();
        OPS("list");
        script_answer();
        OPS("exists exists");
        if (deleted) {
            char path[ZKL__STORE_PATH];
            CU_ASSERT_TRUE(zkl__store_path(path, script.ops[0].op));
            script_remove(path);
            script_answer();
            script_answer();
            OPS("list");
        } else {
            script_answer_with(ZKL__RC_NOTAPPLIED);
            script_answer();
            CU_ASSERT(me.contender->announcement.look_at > script.now);
        }
        finish_with_evidence();
    }
}

/* Without memory, neither for whom to look at nor to note that it is no contender, it looks once more, and holds meanwhile. */
TEST(test_no_memory_for_a_look)
{
    static const char *const before_us[] = {
        "/q/_c_22222222-2222-4222-8222-222222222222-__WRIT__0000000000", /* longer than what was watched */
        "/q/_c_22222222-2222-4222-8222-222222222222-lock-0000000000",
    };
    for (int i = 0; i < 2; i++) {
        hold_before(&before_us[i], 1);
        test_heap_fail(&script.heap, 1, true);
        script_answer_all();
        CU_ASSERT_EQUAL(test_heap_failures(&script.heap), 1);
        CU_ASSERT(me.contender->announcement.look_at > script.now);
        test_heap_fail(&script.heap, 0, false);
        finish_with_evidence();
    }
}

static void enter_marked(struct script_owner *owner)
{
    enter_announcing(owner, true, 0);
}

static void hold_marked(struct script_owner *owner)
{
    enter_marked(owner);
    script_answer_granted(owner);
}

static const char *mark(void)
{
    return script_find("/q")->data;
}

static bool is_unclean(struct script_owner *owner)
{
    hold_marked(owner);
    return owner->unclean;
}

/* --- who writes it --------------------------------------------------------------------------------------------------- */

TEST_IN_SCRIPT(test_with_the_release)
{
    enter_marked(&me);
    OPS("get create list");
    script_answer_granted(&me);
    CU_ASSERT_FALSE(me.unclean);
    CU_ASSERT_STRING_EQUAL(mark(), "");
    char own[SCRIPT_PATH];
    snprintf(own, sizeof own, "%s", zkl__contender_node(me.contender));
    script_release(&me);
    OPS("multi(set,delete)");
    script_answer();
    CU_ASSERT_STRING_EQUAL(mark(), own);
    CU_ASSERT_FALSE(is_unclean(&you));
}

/* The directory may not be written: the znode is deleted nevertheless, and that looks like a crash. */
TEST_IN_SCRIPT(test_not_permitted)
{
    hold_marked(&me);
    script_release(&me);
    script_answer_with(ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(script.warnings, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(script.warned, "WRITE"));
    OPS("delete");
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_TRUE(is_unclean(&you));
}

/* The servers refuse the delete for a while, and not the mark: it is written later, with the delete. */
TEST_IN_SCRIPT(test_delete_not_permitted)
{
    hold_marked(&me);
    script_forbid(script_find("/q"), ZKL_PERM_DELETE);
    script_release(&me);
    script_run(100 * MS);
    CU_ASSERT_EQUAL(me.released, 0);
    CU_ASSERT_STRING_EQUAL(mark(), "");
    script_forbid(script_find("/q"), 0);
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_FALSE(is_unclean(&you));
}

/* --- what else is in the directory ----------------------------------------------------------------------------------- */

static void up_to_the_second_read(void)
{
    script_begin();
    enter_marked(&me);
    script_answer();
    script_number_from(7); /* others have held meanwhile */
    script_answer();
    script_answer();
    STATE(&me, "proving");
    OPS("get");
}

TEST(test_read_refused)
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
    script_answer_granted(&me);
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

/* A lie: no release has left a mark, and a list shows that it still stands. */
TEST(test_announced_by_a_liar)
{
    script_begin_behind(SEALED);
    enter_announcing(&me, true, DELAY);
    script_answer_all();
    script_change(SEALED);
    script_run(2 * DELAY);
    STATE(&me, "watching");
    CU_ASSERT_EQUAL(me.granted, 0);
    script_finish();
}

static void hold_with_a_follower(void)
{
    script_begin();
    hold_marked(&me);
    enter_marked(&you);
    script_answer_all();
    CU_ASSERT_EQUAL(you.granted, 0);
    script_release(&me);
}

TEST(test_handed_over)
{
    hold_with_a_follower();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_FALSE(you.unclean);
    OPS("delete");
    script_release(&you);
    OPS("delete multi(set,delete)");
    script_answer_all();
    CU_ASSERT_FALSE(is_unclean(&third));
    script_finish();
}

/* The delete with the mark is under way when another one of the session sees that it is next: nothing is handed over. */
TEST_IN_SCRIPT(test_not_handed_over_late)
{
    hold_marked(&me);
    enter_marked(&you);
    script_answer();
    script_answer();
    script_release(&me);
    script_answer();
    OPS("multi(set,delete) get list");
    CU_ASSERT_EQUAL(you.granted, 0);
    script_answer_granted(&you);
    CU_ASSERT_FALSE(you.unclean);
}

/* The same, and the predecessor's delete is put off: another follower comes before it is deleted. */
TEST(test_handed_over_once)
{
    hold_with_a_follower();
    char follower[SCRIPT_PATH];
    snprintf(follower, sizeof follower, "/q/%s", zkl__contender_node(you.contender));
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_remove(follower);
    enter_marked(&third);
    script_answer_all();
    STATE(&third, "watching");
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(you.lost, 1);
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_TRUE(third.unclean);
    script_finish();
}

/* --- with a delay ---------------------------------------------------------------------------------------------------- */

static void enter_with(struct script_owner *owner, const struct zkl__rule *rule)
{
    script_enter(owner, CONTENDER_CONFIG(.rule = rule));
    script_answer_all();
}

/* --- readers and writers ------------------------------------------------------------------------------------------- */

/* A writer's end wakes the readers right behind it, each once, and no later writer; a reader's end wakes nobody but the writer that
 * watches it. */
TEST_IN_SCRIPT(test_one_wake_up_each)
{
    struct script_owner readers[4];
    enter_with(&me, &script_writer);
    for (int i = 0; i < 4; i++) {
        enter_with(&readers[i], &script_reader);
    }
    enter_with(&you, &script_writer);
    enter_with(&third, &script_writer);
    int before = script.submits;
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(script.submits - before, 1); /* the delete: we are all of one session */
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(readers[i].granted, 1);
    }
    before = script.submits;
    for (int i = 0; i < 3; i++) {
        script_release(&readers[i]);
        script_answer_all();
    }
    CU_ASSERT_EQUAL(script.submits - before, 3); /* the writer waits for the last of them */
    script_release(&readers[3]);
    script_answer_granted(&you);
    CU_ASSERT_EQUAL(script.submits - before, 3 + 2); /* others may read beside the last one: so it looks again */
    before = script.submits;
    script_release(&you);
    script_answer_granted(&third);
    CU_ASSERT_EQUAL(script.submits - before, 1);
}

/* A downgrade to this name. */
static void downgrade_ours(char *reader)
{
    snprintf(reader, SCRIPT_PATH, "%s", script_our_path());
    memcpy(strstr(reader, "-__WRIT__"), "-__READ__", 9);
    script_step((struct zkl__event){.kind = ZKL__EV_DOWNGRADE, .contender = me.contender, .rule = &script_reader});
    OPS("multi(delete,create)");
}

/* Its reply is lost, and the name is there: the replacement's, another znode that was there before and refused it, or one that was
 * created when somebody had deleted ours. */
TEST(test_downgrade_of_unknown_fate)
{
    enum { DONE, REFUSED, REMOVED, HIDDEN, WAYS };
    for (int way = 0; way < WAYS; way++) {
        char reader[SCRIPT_PATH], writer[SCRIPT_PATH];
        script_begin();
        enter_with(&me, &script_writer);
        snprintf(writer, sizeof writer, "%s", script_our_path());
        downgrade_ours(reader);
        if (way == REFUSED || way == REMOVED) {
            script_put(reader, 0);
        }
        script_suspend(1);
        if (way == REMOVED) {
            script_remove(writer);
        }
        script_forbid(script_find(reader), way == HIDDEN ? ZKL_PERM_READ : 0);
        script_connect();
        script_run(1000 * MS);
        CU_ASSERT_EQUAL(me.downgraded, way == DONE || way == HIDDEN);
        CU_ASSERT_EQUAL(me.not_downgraded, way == REFUSED);
        CU_ASSERT_EQUAL(me.lost, way == REMOVED);
        script_release(&me);
        script_answer_all();
        CU_ASSERT_EQUAL(me.released, 1);
        CU_ASSERT_EQUAL(script_ours(), 0);
        CU_ASSERT_EQUAL(script_find(reader) != NULL, way == REFUSED || way == REMOVED);
        script_finish();
    }
}

/* The same, and released before anything more of it is known. */
TEST(test_release_during_a_downgrade_of_unknown_fate)
{
    for (int answers = 0; answers <= 1; answers++) {
        for (int taken = 0; taken <= 1; taken++) {
            char reader[SCRIPT_PATH];
            script_begin();
            enter_with(&me, &script_writer);
            downgrade_ours(reader);
            if (taken) {
                script_put(reader, 0);
            }
            script_reconnect(1);
            for (int i = 0; i < answers; i++) {
                script_answer();
            }
            script_release(&me);
            script_run(1000 * MS);
            CU_ASSERT_EQUAL(me.released, 1);
            CU_ASSERT_EQUAL(script_ours(), 0);
            script_finish();
        }
    }
}

TESTS("contender_release")
