/* What is taken from under a contender, or is not there: its node, the directory, the chroot. */
#include "script.h"

#include <string.h>

static struct script s;
static struct script_owner me, you, third;

static void start(struct script_owner *owner, const char *path)
{
    struct zkl__contender_config config = script_config(owner, path);
    CU_ASSERT_TRUE_FATAL(script_contend(&s, owner, &config));
    script_start(&s, owner, INT64_MAX, false);
    script_answer_all(&s);
}

/* --- operators ----------------------------------------------------------------------------------------------------- */

static void test_our_node_removed_while_waiting(void)
{
    char before[SCRIPT_PATH];
    script_begin_blocked(&s);
    script_acquire(&s, &me);
    script_answer_all(&s);
    strcpy(before, script_our_path(&s));
    script_remove(&s, before);
    script_remove(&s, SCRIPT_BLOCKER);
    OPS(&s, "list"); /* which proves whether our own node is there */
    script_answer(&s);
    CU_ASSERT_EQUAL(me.granted, 0);
    OPS(&s, "create list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT(strncmp(before, script_our_path(&s), 40) != 0); /* another uuid */
    script_finish(&s);
}

static void test_our_node_removed_while_proving(void)
{
    script_begin_proving(&s, &me);
    OPS(&s, "check");
    script_remove(&s, script_our_path(&s));
    script_answer(&s);
    OPS(&s, "create list");
    script_run(&s, 2 * s.timeout);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

static void test_our_node_removed_while_held(void)
{
    script_begin(&s);
    script_hold(&s, &me);
    script_remove(&s, script_our_path(&s));
    script_run(&s, 1000 * MS); /* the next heartbeat is a check of the node */
    CU_ASSERT_EQUAL(me.lost, 1);
    CU_ASSERT_STRING_EQUAL(zkl__contender_node(me.contender), "");
    CU_ASSERT_FALSE(zkl__contender_holds(s.core, me.contender, s.now));
    script_release(&s, &me);
    CU_ASSERT_EQUAL(me.released, 1);
    script_finish(&s);
}

static void test_our_node_removed_before_the_list(void)
{
    script_begin(&s);
    script_acquire(&s, &me);
    script_answer(&s);
    script_remove(&s, script_our_path(&s));
    script_answer(&s);
    STATE(&me, "creating");
    OPS(&s, "create list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

/* Our czxid is still asked for, a watch fires, and then it turns out that our own node is gone, with a list under way. */
static void test_our_node_removed_between_watch_and_stat(void)
{
    script_begin_blocked(&s);
    script_acquire(&s, &me);
    script_suspend(&s, 2);
    script_connect(&s);
    while (strcmp(script_state(&me), "watching") != 0) {
        script_answer(&s);
    }
    OPS(&s, "exists get");
    script_step(&s, (struct zkl__event){.kind = ZKL__EV_WATCH, .watch = ZKL__WATCH_CHANGED, .path = SCRIPT_BLOCKER});
    OPS(&s, "exists get list");
    script_remove(&s, script_our_path(&s));
    script_remove(&s, SCRIPT_BLOCKER);
    script_answer(&s);
    STATE(&me, "new");
    OPS(&s, "get list"); /* of the last attempt: its list is no answer for the next one */
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "create list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(script_ours(&s), 1);
    script_finish(&s);
}

static void test_directory_removed_while_waiting(void)
{
    script_begin_blocked(&s);
    script_acquire(&s, &me);
    script_answer_all(&s);
    script_remove(&s, script_our_path(&s));
    script_remove(&s, "/q");
    script_remove(&s, SCRIPT_BLOCKER);
    OPS(&s, "list");
    script_answer(&s);
    OPS(&s, "create list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

static void test_removed_by_somebody_to_fail(void)
{
    script_begin_blocked(&s);
    struct zkl__contender_config config = script_config(&me, "/q");
    config.fail_on_expiry = true;
    script_contend(&s, &me, &config);
    script_start(&s, &me, INT64_MAX, false);
    script_answer_all(&s);
    script_remove(&s, script_our_path(&s));
    script_remove(&s, SCRIPT_BLOCKER);
    script_answer_all(&s);
    script_finish_failed(&s, &me, ZKL_ELOST);
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
    script_begin(&s);
    struct zkl__contender_config config = script_config(&me, "/a/bb/c");
    script_contend(&s, &me, &config);
    script_start(&s, &me, INT64_MAX, false);
    OPS(&s, "create list");
    script_answer(&s);
    STATE(&me, "making");
    OPS(&s, "list create");
    script_answer(&s);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        OPS(&s, "create");
        if (asked[i].rc == ZKL__RC_NODEEXISTS) {
            script_put(&s, asked[i].path, 0); /* somebody else makes it at the same time */
        }
        struct script_op op = script_answer(&s);
        CU_ASSERT_STRING_EQUAL(op.path, asked[i].path);
        CU_ASSERT_EQUAL(op.mode, ZKL__CONTAINER);
    }
    OPS(&s, "create list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

/* A container is reaped between its making and the create. */
static void test_directory_reaped_again(void)
{
    script_begin(&s);
    script_remove(&s, "/q");
    script_acquire(&s, &me);
    script_answer(&s);
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "create list");
    script_remove(&s, "/q");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

static void test_making_in_trouble(void)
{
    script_begin(&s);
    script_remove(&s, "/q");
    script_acquire(&s, &me);
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "create");
    script_answer_with(&s, ZKL__RC_NOTAPPLIED);
    OPS(&s, "");
    script_wait(&s, 50 * MS);
    OPS(&s, "create");
    script_suspend(&s, 1);
    script_connect(&s);
    OPS(&s, "create");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

static void test_chroot_missing(void)
{
    script_begin(&s);
    s.chroot_missing = true;
    struct zkl__contender_config config = script_config(&me, "/q/deeper");
    script_contend(&s, &me, &config);
    script_start(&s, &me, INT64_MAX, false);
    script_answer_all(&s);
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "chroot"));
    script_finish_failed(&s, &me, ZKL_ENOENT);
}

/* A damaged reply of the create names no node of ours: as if it had been lost. */
static void test_reply_without_our_name(void)
{
    static const char *const names[] = {NULL, "", "lock-0000000000", "_c_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int lists = 0; lists < 2; lists++) {
            static const struct zkl__rule nobody = {"-lease-", 0};
            script_begin(&s);
            struct zkl__contender_config config = script_config(&me, "/q");
            config.rule = lists ? config.rule : &nobody;
            script_contend(&s, &me, &config);
            script_start(&s, &me, INT64_MAX, false);
            script_answer_named(&s, names[i]);
            script_run(&s, 3000 * MS);
            CU_ASSERT_EQUAL(me.granted, 1);
            CU_ASSERT_EQUAL(script_ours(&s), 1);
            script_finish(&s);
        }
    }
}

/* Two are first, each in its queue, and wait for a lease, which the next heartbeat brings. The heartbeats check their znodes in turn: the last
 * one has checked /q's, and the next one is on /r's. */
static void wait_for_the_last_heartbeat(void)
{
    script_begin_proving(&s, &me);
    start(&you, "/r");
    for (int beats = 0; beats < 15; beats++) {
        STATE(&me, "proving");
        STATE(&you, "proving");
        script_wait(&s, s.timeout / 12);
        OPS(&s, "check");
        script_answer_all(&s);
    }
}

static void remove_ours(void)
{
    char path[SCRIPT_PATH];
    snprintf(path, sizeof path, "/q/%s", zkl__contender_node(me.contender));
    script_remove(&s, path);
}

/* Its znode was seen more than a heartbeat ago, and may have been removed since: it is checked before the grant. */
static void test_first_on_old_evidence(void)
{
    wait_for_the_last_heartbeat();
    script_wait(&s, s.timeout / 12);
    remove_ours();
    script_wait(&s, MS);
    script_answer(&s);
    CU_ASSERT_EQUAL(you.granted, 1);
    CU_ASSERT_EQUAL(me.granted, 0);
    OPS(&s, "check");
    script_finish(&s);
}

/* Another one of its session lists the queue, without it. */
static void test_first_and_not_in_the_list_of_another(void)
{
    wait_for_the_last_heartbeat();
    remove_ours();
    start(&third, "/q");
    script_wait(&s, s.timeout / 12);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(third.granted, 1);
    CU_ASSERT_EQUAL(me.granted, 0);
    script_finish(&s);
}

TESTS("contender removed", T(test_first_on_old_evidence), T(test_first_and_not_in_the_list_of_another),
      T(test_our_node_removed_while_waiting), T(test_our_node_removed_while_proving),
      T(test_our_node_removed_while_held), T(test_our_node_removed_before_the_list),
      T(test_our_node_removed_between_watch_and_stat), T(test_directory_removed_while_waiting),
      T(test_removed_by_somebody_to_fail), T(test_directories_are_made), T(test_directory_reaped_again),
      T(test_making_in_trouble), T(test_chroot_missing), T(test_reply_without_our_name))
