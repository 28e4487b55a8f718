/* What is taken from under a contender, or is not there: its node, the directory, the chroot. */
#include "script.h"

#include <string.h>

static void start(struct script_owner *owner, const char *path)
{
    struct zkl__contender_config config = script_config(owner, path);
    CU_ASSERT_TRUE_FATAL(script_contend(owner, &config));
    script_start(owner, INT64_MAX, false);
    script_answer_all();
}

/* --- operators ----------------------------------------------------------------------------------------------------- */

static void test_our_node_removed_while_waiting(void)
{
    char before[SCRIPT_PATH];
    script_begin_blocked();
    script_acquire(&me);
    script_answer_all();
    strcpy(before, script_our_path());
    script_remove(before);
    script_remove(SCRIPT_BLOCKER);
    OPS("list"); /* which proves whether our own node is there */
    script_answer();
    CU_ASSERT_EQUAL(me.granted, 0);
    OPS("create list");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT(strncmp(before, script_our_path(), 40) != 0); /* another uuid */
    script_finish();
}

static void test_our_node_removed_while_proving(void)
{
    script_begin_proving(&me);
    OPS("check");
    script_remove(script_our_path());
    script_answer();
    OPS("create list");
    script_run(2 * script.timeout);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_our_node_removed_while_held(void)
{
    script_begin();
    script_hold(&me);
    script_remove(script_our_path());
    script_run(1000 * MS); /* the next heartbeat is a check of the node */
    CU_ASSERT_EQUAL(me.lost, 1);
    CU_ASSERT_STRING_EQUAL(zkl__contender_node(me.contender), "");
    CU_ASSERT_FALSE(zkl__contender_holds(script.core, me.contender, script.now));
    script_release(&me);
    CU_ASSERT_EQUAL(me.released, 1);
    script_finish();
}

static void test_our_node_removed_before_the_list(void)
{
    script_begin();
    script_acquire(&me);
    script_answer();
    script_remove(script_our_path());
    script_answer();
    STATE(&me, "creating");
    OPS("create list");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* Our czxid is still asked for, a watch fires, and then it turns out that our own node is gone, with a list under way. */
static void test_our_node_removed_between_watch_and_stat(void)
{
    script_begin_blocked();
    script_acquire(&me);
    script_suspend(2);
    script_connect();
    while (strcmp(script_state(&me), "watching") != 0) {
        script_answer();
    }
    OPS("exists get");
    script_step((struct zkl__event){.kind = ZKL__EV_WATCH, .watch = ZKL__WATCH_CHANGED, .path = SCRIPT_BLOCKER});
    OPS("exists get list");
    script_remove(script_our_path());
    script_remove(SCRIPT_BLOCKER);
    script_answer();
    STATE(&me, "new");
    OPS("get list"); /* of the last attempt: its list is no answer for the next one */
    script_answer();
    script_answer();
    OPS("create list");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script_ours(), 1);
    script_finish();
}

static void test_directory_removed_while_waiting(void)
{
    script_begin_blocked();
    script_acquire(&me);
    script_answer_all();
    script_remove(script_our_path());
    script_remove("/q");
    script_remove(SCRIPT_BLOCKER);
    OPS("list");
    script_answer();
    OPS("create list");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_removed_by_somebody_to_fail(void)
{
    script_begin_blocked();
    struct zkl__contender_config config = script_config(&me, "/q");
    config.fail_on_expiry = true;
    script_contend(&me, &config);
    script_start(&me, INT64_MAX, false);
    script_answer_all();
    script_remove(script_our_path());
    script_remove(SCRIPT_BLOCKER);
    script_answer_all();
    script_finish_failed(&me, ZKL_ELOST);
}

/* --- directories --------------------------------------------------------------------------------------------------- */

static void test_directories_are_made(void)
{
    static const struct {
        const char *path;
        enum zkl__rc rc;
    } asked[] = {{"/a/bb/c", ZKL__RC_NONODE},
                 {"/a/bb", ZKL__RC_NONODE},
                 {"/a", ZKL__RC_OK},
                 {"/a/bb", ZKL__RC_NODEEXISTS},
                 {"/a/bb/c", ZKL__RC_OK}};
    script_begin();
    struct zkl__contender_config config = script_config(&me, "/a/bb/c");
    script_contend(&me, &config);
    script_start(&me, INT64_MAX, false);
    OPS("create list");
    script_answer();
    STATE(&me, "making");
    OPS("list create");
    script_answer();
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        OPS("create");
        if (asked[i].rc == ZKL__RC_NODEEXISTS) {
            script_put(asked[i].path, 0); /* somebody else makes it at the same time */
        }
        struct script_op op = script_answer();
        CU_ASSERT_STRING_EQUAL(op.path, asked[i].path);
        CU_ASSERT_EQUAL(op.mode, ZKL__CONTAINER);
    }
    OPS("create list");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

/* A container is reaped between its making and the create. */
static void test_directory_reaped_again(void)
{
    script_begin();
    script_remove("/q");
    script_acquire(&me);
    script_answer();
    script_answer();
    script_answer();
    OPS("create list");
    script_remove("/q");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_making_in_trouble(void)
{
    script_begin();
    script_remove("/q");
    script_acquire(&me);
    script_answer();
    script_answer();
    OPS("create");
    script_answer_with(ZKL__RC_NOTAPPLIED);
    OPS("");
    script_wait(50 * MS);
    OPS("create");
    script_suspend(1);
    script_connect();
    OPS("create");
    script_answer_all();
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish();
}

static void test_chroot_missing(void)
{
    script_begin();
    script.chroot_missing = true;
    struct zkl__contender_config config = script_config(&me, "/q/deeper");
    script_contend(&me, &config);
    script_start(&me, INT64_MAX, false);
    script_answer_all();
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "chroot"));
    script_finish_failed(&me, ZKL_ENOENT);
}

/* A damaged reply of the create names no node of ours: as if it had been lost. */
static void test_reply_without_our_name(void)
{
    static const char *const names[] = {NULL, "", "lock-0000000000", "_c_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int lists = 0; lists < 2; lists++) {
            static const struct zkl__rule nobody = {"-lease-", 0};
            script_begin();
            struct zkl__contender_config config = script_config(&me, "/q");
            config.rule = lists ? config.rule : &nobody;
            script_contend(&me, &config);
            script_start(&me, INT64_MAX, false);
            script_answer_named(names[i]);
            script_run(3000 * MS);
            CU_ASSERT_EQUAL(me.granted, 1);
            CU_ASSERT_EQUAL(script_ours(), 1);
            script_finish();
        }
    }
}

/* Two are first, each in its queue, and wait for a lease, which the next heartbeat brings. The heartbeats check their znodes in turn: the last
 * one has checked /q's, and the next one is on /r's. */
static void wait_for_the_last_heartbeat(void)
{
    script_begin_proving(&me);
    start(&you, "/r");
    for (int beats = 0; beats < 15; beats++) {
        STATE(&me, "proving");
        STATE(&you, "proving");
        script_wait(script.timeout / 12);
        OPS("check");
        script_answer_all();
    }
}

static void remove_ours(void)
{
    char path[SCRIPT_PATH];
    snprintf(path, sizeof path, "/q/%s", zkl__contender_node(me.contender));
    script_remove(path);
}

/* Its znode was seen more than a heartbeat ago, and may have been removed since: it is checked before the grant. */
static void test_first_on_old_evidence(void)
{
    wait_for_the_last_heartbeat();
    script_wait(script.timeout / 12);
    remove_ours();
    script_wait(MS);
    script_answer();
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(me.granted, 0);
    OPS("check");
    script_finish();
}

/* Another one of its session lists the queue, without it. */
static void test_first_and_not_in_the_list_of_another(void)
{
    wait_for_the_last_heartbeat();
    remove_ours();
    start(&third, "/q");
    script_wait(script.timeout / 12);
    script_answer_all();
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_EQUAL(me.granted, 0);
    script_finish();
}

TESTS("contender removed", T(test_first_on_old_evidence), T(test_first_and_not_in_the_list_of_another),
      T(test_our_node_removed_while_waiting), T(test_our_node_removed_while_proving),
      T(test_our_node_removed_while_held), T(test_our_node_removed_before_the_list),
      T(test_our_node_removed_between_watch_and_stat), T(test_directory_removed_while_waiting),
      T(test_removed_by_somebody_to_fail), T(test_directories_are_made), T(test_directory_reaped_again),
      T(test_making_in_trouble), T(test_chroot_missing), T(test_reply_without_our_name))
