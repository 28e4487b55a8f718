/* What a release says to others: that the holder did not crash (the release mark), that the writer only reads from here on
 * (downgrade). */
#include "script.h"

static void enter_marked(struct script_owner *owner)
{
    script_enter(owner, CONTENDER_CONFIG(.mark = true));
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

/* Also when the reply is lost, and it is sent again. */
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
    script_reconnect(1);
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
    CU_ASSERT_STRING_EQUAL(mark(), own);
    CU_ASSERT_FALSE(is_unclean(&you));
}

/* Another one of the session follows, which lists anew: nothing is handed over to it. */
TEST_IN_SCRIPT(test_without_a_connection)
{
    hold_marked(&me);
    enter_marked(&you);
    script_answer_all();
    script_suspend(0);
    script_release(&me);
    script_wait(MS);
    script_connect();
    script_answer_granted(&you);
    CU_ASSERT_FALSE(you.unclean);
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

/* A duplicate that may not be deleted outlives the release, and goes without a mark when it may. */
TEST_IN_SCRIPT(test_a_duplicate_that_stays)
{
    enter_marked(&me);
    script_suspend(2); /* the create is done, and we do not know */
    char twin[SCRIPT_PATH];
    snprintf(twin, sizeof twin, "%.*s0000000009", (int)(strlen(script_our_path()) - 10), script_our_path());
    struct zkl__memory_node *duplicate = script_put(twin, script.store.session_id);
    duplicate->own = true;
    script_connect();
    script_answer_granted(&me);
    script_release(&me);
    OPS("multi(set,delete)");
    duplicate->own = false;
    script_answer_some(3);
    OPS("delete");
    script_answer_all();
    CU_ASSERT_EQUAL(me.released, 1);
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

/* The read before the create is put off, and whoever is the first ever needs none: its mark is written over nothing that it has not seen. */
TEST_IN_SCRIPT(test_never_read)
{
    script_write("/q", "1764288000000");
    script_find("/q")->stat.version = 0;
    enter_marked(&me);
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_answer_granted(&me);
    script_release(&me);
    script_answer_all();
    CU_ASSERT_STRING_EQUAL(mark(), "1764288000000");
}

/* What is neither empty nor a mark is somebody else's, like the record of once. It comes while the contender waits, which may have
 * given up when it reads that. */
TEST(test_data_of_somebody_else)
{
    for (int way = 0; way < 2; way++) {
        up_to_the_second_read();
        script_write("/q", "1764288000000");
        if (way == 1) {
            script_cancel(&me);
        }
        script_answer();
        OPS("delete");
        script_answer();
        CU_ASSERT_STRING_EQUAL(mark(), "1764288000000");
        script_finish_failed(&me, way == 1 ? ZKL_ECANCELED : ZKL_ECONFLICT);
    }
}

/* --- handed over ------------------------------------------------------------------------------------------------------- */

/* Behind a stranger that released when both had read the directory. Another one had waited behind it, and given up. */
static void hold_with_a_follower(void)
{
    script_begin_blocked();
    enter_marked(&third);
    script_answer_all();
    script_cancel(&third);
    script_answer_all();
    enter_marked(&me);
    enter_marked(&you);
    script_answer_all();
    script_write("/q", strrchr(SCRIPT_BLOCKER, '/') + 1);
    script_remove(SCRIPT_BLOCKER);
    script_answer_granted(&me);
    CU_ASSERT_FALSE(me.unclean);
    CU_ASSERT_EQUAL(you.granted, 0);
}

TEST(test_handed_over)
{
    hold_with_a_follower();
    script_release(&me);
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_FALSE(you.unclean);
    OPS("delete");
    script_release(&you);
    OPS("delete multi(set,delete)");
    script_answer_all();
    CU_ASSERT_FALSE(is_unclean(&third));
    script_finish();
}

/* Its data stay, and the next one is refused. */
TEST(test_data_while_held)
{
    hold_with_a_follower();
    script_write("/q", "1764288000000");
    script_release(&me);
    script_release(&you);
    script_answer_all();
    CU_ASSERT_EQUAL(you.released, 1);
    CU_ASSERT_STRING_EQUAL(mark(), "1764288000000");
    enter_marked(&third);
    script_answer_all();
    script_finish_failed(&third, ZKL_ECONFLICT);
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
    script_release(&me);
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_remove_node(&you);
    enter_marked(&third);
    script_answer_all();
    STATE(&third, "watching");
    script_run(5000 * MS);
    CU_ASSERT_EQUAL(you.lost, 1);
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_TRUE(third.unclean);
    script_finish();
}

/* --- readers and writers ------------------------------------------------------------------------------------------- */

static void enter_with(struct script_owner *owner, const struct zkl__rule *rule)
{
    script_enter(owner, CONTENDER_CONFIG(.rule = rule));
    script_answer_all();
}

/* A writer's end wakes the readers right behind it, each once, and no later writer; a reader's end wakes nobody but the writer that
 * watches it. */
TEST_IN_SCRIPT(test_one_wake_up_each)
{
    struct script_owner readers[4];
    enter_with(&me, &script_writer);
    EACH_ROW (i, readers) {
        enter_with(&readers[i], &script_reader);
    }
    enter_with(&you, &script_writer);
    enter_with(&third, &script_writer);
    int before = script.submits;
    script_release(&me);
    script_answer_all();
    CU_ASSERT_EQUAL(script.submits - before, 1); /* the delete: we are all of one session */
    EACH_ROW (i, readers) {
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
        strcpy(reader, writer);
        memcpy(strstr(reader, "-__WRIT__"), "-__READ__", 9);
        script_step((struct zkl__event){.kind = ZKL__EV_DOWNGRADE, .machine = me.machine, .rule = &script_reader});
        OPS("multi(delete,create)");
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

TESTS("contender_release")
