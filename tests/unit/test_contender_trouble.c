/* What goes wrong around a contender: operators, forgers, missing directories, permissions, refused operations, no memory. */
#include "script.h"

#include <string.h>

static struct script s;
static struct script_owner me;

#define BLOCKER "/q/_c_11111111-1111-4111-8111-111111111111-lock-0000000000"

static void begin_blocked(void)
{
    script_begin(&s);
    script_put(&s, BLOCKER, SCRIPT_STRANGER);
    s.next_sequence = 1;
}

static void expect_failed(int code)
{
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.code, code);
    script_finish(&s);
}

/* --- operators ----------------------------------------------------------------------------------------------------- */

static void test_our_node_removed_while_waiting(void)
{
    char before[SCRIPT_PATH];
    begin_blocked();
    script_acquire(&s, &me);
    script_answer_all(&s);
    strcpy(before, script_our_path(&s));
    script_remove(&s, before);
    script_remove(&s, BLOCKER);
    OPS(&s, "list"); /* which proves whether our own node is there */
    script_answer(&s);
    CU_ASSERT_EQUAL(me.granted, 0);
    OPS(&s, "create list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT(strncmp(before, script_our_path(&s), 40) != 0); /* another uuid */
    script_finish(&s);
}

static void start_without_lease(void)
{
    script_begin(&s);
    script_wait(&s, 12000 * MS); /* nothing is answered */
    script_acquire(&s, &me);
    while (s.op_count > 0 && strcmp(script_state(&me), "proving") != 0) {
        script_answer(&s);
    }
    STATE(&me, "proving");
    CU_ASSERT_EQUAL(me.granted, 0);
}

static void test_our_node_removed_while_proving(void)
{
    start_without_lease();
    OPS(&s, "check");
    script_remove(&s, script_our_path(&s));
    script_answer(&s);
    OPS(&s, "create list");
    script_run(&s, 8000 * MS);
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
    begin_blocked();
    script_acquire(&s, &me);
    script_suspend(&s, 2);
    script_connect(&s);
    while (strcmp(script_state(&me), "watching") != 0) {
        script_answer(&s);
    }
    OPS(&s, "exists get");
    script_step(&s, (struct zkl__event){.kind = ZKL__EV_WATCH, .watch = ZKL__WATCH_CHANGED, .path = BLOCKER});
    OPS(&s, "exists get list");
    script_remove(&s, script_our_path(&s));
    script_remove(&s, BLOCKER);
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
    begin_blocked();
    script_acquire(&s, &me);
    script_answer_all(&s);
    script_remove(&s, script_our_path(&s));
    script_remove(&s, "/q");
    script_remove(&s, BLOCKER);
    OPS(&s, "list");
    script_answer(&s);
    OPS(&s, "create list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

static void test_removed_by_somebody_to_fail(void)
{
    begin_blocked();
    struct zkl__contender_config config = script_config(&me, "/q");
    config.fail_on_expiry = true;
    script_contend(&s, &me, &config);
    script_start(&s, &me, INT64_MAX, false);
    script_answer_all(&s);
    script_remove(&s, script_our_path(&s));
    script_remove(&s, BLOCKER);
    script_answer_all(&s);
    expect_failed(ZKL_ELOST);
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
    expect_failed(ZKL_ENOENT);
}

/* --- refusals of the server ---------------------------------------------------------------------------------------- */

static void refuse(const char *under_way, enum zkl__rc rc, int code)
{
    OPS(&s, under_way);
    script_answer_with(&s, rc);
    CU_ASSERT_EQUAL(me.failed, 1);
    CU_ASSERT_EQUAL(me.zk_code, -100);
    expect_failed(code);
}

static void test_sequence_used_up(void)
{
    script_begin(&s);
    s.next_sequence = (int64_t)INT32_MAX + 1;
    script_acquire(&s, &me);
    script_answer_all(&s);
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "2147483647"));
    expect_failed(ZKL_EEXHAUSTED);
}

/* Requests that follow each other closely see the counter wrap: such a number is nobody's place. */
static void test_negative_number(void)
{
    script_begin(&s);
    s.next_sequence = INT32_MIN;
    script_acquire(&s, &me);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(script_ours(&s), 0);
    expect_failed(ZKL_EEXHAUSTED);
}

static void refuse_create(enum zkl__rc rc, int code)
{
    script_begin(&s);
    script_acquire(&s, &me);
    refuse("create list", rc, code);
}

static void test_create_refused(void)
{
    refuse_create(ZKL__RC_NOAUTH, ZKL_EAUTH);
    refuse_create(ZKL__RC_INVALIDACL, ZKL_EAUTH);
    refuse_create(ZKL__RC_EPHEMERALPARENT, ZKL_ECONFLICT);
    refuse_create(ZKL__RC_REFUSED, ZKL_EUNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "refused"));
}

static void test_make_refused(void)
{
    script_begin(&s);
    script_remove(&s, "/q");
    script_acquire(&s, &me);
    script_answer(&s);
    script_answer(&s);
    refuse("create", ZKL__RC_EPHEMERALPARENT, ZKL_ECONFLICT);
    script_begin(&s);
    script_remove(&s, "/q");
    script_acquire(&s, &me);
    script_answer(&s);
    script_answer(&s);
    refuse("create", ZKL__RC_NOAUTH, ZKL_EAUTH);
}

static void test_list_refused(void)
{
    script_begin(&s);
    script_acquire(&s, &me);
    script_answer(&s);
    refuse("list", ZKL__RC_NOAUTH, ZKL_EAUTH);
}

static void test_exists_of_the_blocker_refused(void)
{
    begin_blocked();
    script_find(&s, BLOCKER)->hidden = true;
    script_acquire(&s, &me);
    for (int i = 0; i < 3; i++) {
        script_answer(&s);
    }
    refuse("exists", ZKL__RC_NOAUTH, ZKL_EAUTH);
}

static void test_check_refused(void)
{
    start_without_lease();
    refuse("check", ZKL__RC_NOAUTH, ZKL_EAUTH);
}

static void test_stat_refused(void)
{
    script_begin(&s);
    script_acquire(&s, &me);
    script_suspend(&s, 2);
    script_connect(&s);
    while (s.op_count != 1 || s.ops[0].kind != ZKL__OP_EXISTS) {
        script_answer(&s);
    }
    refuse("exists", ZKL__RC_NOAUTH, ZKL_EAUTH);
}

/* Never forgotten: until it is gone, or the session is. */
static void test_delete_refused(void)
{
    static const enum zkl__rc rcs[] = {ZKL__RC_NOAUTH, ZKL__RC_NOTAPPLIED, ZKL__RC_REFUSED};
    for (size_t i = 0; i < sizeof rcs / sizeof *rcs; i++) {
        script_begin(&s);
        script_hold(&s, &me);
        script_release(&s, &me);
        for (int n = 0; n < 20; n++) {
            OPS(&s, "delete");
            script_answer_with(&s, rcs[i]);
            CU_ASSERT_EQUAL(me.released, 0);
            while (s.op_count == 0 || s.ops[0].kind != ZKL__OP_DELETE) {
                script_wait(&s, 2000 * MS);
                while (s.op_count > 0 && s.ops[0].kind == ZKL__OP_SYNC) {
                    script_answer(&s);
                }
            }
        }
        if (i == 0) {
            script_answer_all(&s);
        } else {
            script_expire(&s);
        }
        CU_ASSERT_EQUAL(me.released, 1);
        CU_ASSERT_EQUAL(me.code, i == 0 ? ZKL_OK : ZKL_ELOST);
        script_finish(&s);
    }
}

/* A create of unknown fate is not wanted any more, and what carries its uuid may not be deleted: a stranger's is left alone, ours is
 * not forgotten. */
static void test_delete_of_what_a_lost_create_made_refused(void)
{
    for (int ours = 0; ours <= 1; ours++) {
        script_begin(&s);
        script_acquire(&s, &me);
        script_suspend(&s, 1);
        script_cancel(&s, &me);
        struct script_node *node = script_find(&s, script_our_path(&s));
        node->fixed = true;
        node->owner = ours ? node->owner : SCRIPT_STRANGER;
        script_connect(&s);
        script_run(&s, 5000 * MS);
        CU_ASSERT_EQUAL(zkl__core_idle(s.core), !ours);
        CU_ASSERT_EQUAL(script_ours(&s), ours);
        for (int i = 0; i < s.node_count; i++) {
            s.nodes[i].fixed = false;
        }
        script_run(&s, 5000 * MS);
        CU_ASSERT_EQUAL(script_ours(&s), 0);
        script_finish(&s);
    }
}

/* The look at whose it is stays unanswered, or is refused. */
static void test_look_at_what_a_lost_create_made_refused(void)
{
    for (int lost = 0; lost <= 1; lost++) {
        script_begin(&s);
        script_acquire(&s, &me);
        script_suspend(&s, 1);
        script_cancel(&s, &me);
        script_find(&s, script_our_path(&s))->fixed = true;
        script_connect(&s);
        while (s.op_count == 0 || s.ops[0].kind != ZKL__OP_EXISTS) {
            if (s.op_count > 0) {
                script_answer(&s);
            } else {
                script_wait(&s, 100 * MS);
            }
        }
        if (lost) {
            script_suspend(&s, 0);
            script_connect(&s);
        } else {
            script_answer_with(&s, ZKL__RC_NOAUTH);
        }
        script_run(&s, 5000 * MS);
        CU_ASSERT_EQUAL(script_ours(&s), 1);
        script_find(&s, script_our_path(&s))->fixed = false;
        script_run(&s, 5000 * MS);
        CU_ASSERT_EQUAL(script_ours(&s), 0);
        script_finish(&s);
    }
}

/* The list behind the barrier says that there is no directory, or is refused, or put off. */
static void test_list_of_an_unwanted_create_refused(void)
{
    static const enum zkl__rc rcs[] = {ZKL__RC_NOAUTH, ZKL__RC_NOTAPPLIED, ZKL__RC_NONODE};
    for (size_t i = 0; i < sizeof rcs / sizeof *rcs; i++) {
        script_begin(&s);
        script_acquire(&s, &me);
        script_suspend(&s, 1);
        script_cancel(&s, &me);
        script_connect(&s);
        OPS(&s, "check list");
        script_answer_with(&s, rcs[i] == ZKL__RC_NONODE ? ZKL__RC_NOTAPPLIED : ZKL__RC_OK); /* the barrier */
        script_answer_with(&s, rcs[i]); /* without a barrier, that there is no directory proves nothing */
        script_run(&s, 5000 * MS);
        CU_ASSERT_EQUAL(script_ours(&s), 0);
        script_finish(&s);
    }
}

/* Once is not for ever: everything that a server puts off is asked again. */
static void test_put_off_once(void)
{
    int refused = 0, total = 100;
    for (int n = 0; n < total; n++) {
        begin_blocked();
        script_acquire(&s, &me);
        int answered = 0;
        for (int turn = 0; turn < 40; turn++) {
            while (s.op_count > 0) {
                if (answered++ == n) {
                    refused++;
                    script_answer_with(&s, ZKL__RC_NOTAPPLIED);
                } else {
                    script_answer(&s);
                }
            }
            if (turn == 20) {
                script_remove(&s, BLOCKER);
            }
            script_wait(&s, 200 * MS);
        }
        CU_ASSERT_EQUAL(me.granted, 1);
        if (me.granted) {
            script_release(&s, &me);
        }
        script_run(&s, 100 * MS);
        CU_ASSERT_EQUAL(me.released, 1);
        total = answered;
        script_finish(&s);
    }
    CU_ASSERT(refused > 4);
}

/* The create is put off, and its list takes longer to come back than the putting-off lasts. */
static void test_slow_list_behind_a_create_put_off(void)
{
    script_begin(&s);
    script_acquire(&s, &me);
    script_answer_with(&s, ZKL__RC_NOTAPPLIED);
    script_wait(&s, 500 * MS);
    OPS(&s, "list");
    script_answer(&s);
    OPS(&s, "create list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    script_finish(&s);
}

/* --- who is before us ---------------------------------------------------------------------------------------------- */

static void test_unreadable_blocker(void)
{
    begin_blocked();
    script_find(&s, BLOCKER)->hidden = true;
    script_acquire(&s, &me);
    script_answer(&s);
    script_answer(&s);
    OPS(&s, "get");
    script_answer(&s);
    OPS(&s, "exists"); /* needs no permission */
    script_answer(&s);
    STATE(&me, "watching");
    script_remove(&s, BLOCKER);
    script_answer_all(&s);
    CU_ASSERT_EQUAL(me.granted, 1);
    CU_ASSERT_EQUAL(s.watch_count, 0);
    script_finish(&s);
}

static void test_unreadable_blocker_that_goes(void)
{
    begin_blocked();
    script_find(&s, BLOCKER)->hidden = true;
    script_acquire(&s, &me);
    for (int i = 0; i < 3; i++) {
        script_answer(&s);
    }
    OPS(&s, "exists");
    script_remove(&s, BLOCKER);
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

/* --- operations that cannot be sent -------------------------------------------------------------------------------- */

static void live(int code)
{
    script_acquire(&s, &me);
    script_run(&s, 4000 * MS);
    if (script_find(&s, BLOCKER)) {
        script_remove(&s, BLOCKER);
    }
    script_run(&s, 4000 * MS);
    CU_ASSERT_EQUAL(me.granted + me.failed, 1);
    CU_ASSERT(me.granted || (code != ZKL_ECONNECT && me.code == code));
    if (me.granted) {
        script_release(&s, &me);
        script_run(&s, 4000 * MS);
        CU_ASSERT_EQUAL(me.released, 1);
    }
    CU_ASSERT_EQUAL(script_ours(&s), 0);
}

static void test_refused_submits(void)
{
    static const int codes[] = {ZKL_ECONNECT, ZKL_ENOMEM, ZKL_ELIMIT};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        for (int count = 1; count <= 3; count++) {
            bool all = false;
            for (int n = 0; !all; n++) {
                unsigned failures = CU_get_number_of_failures();
                begin_blocked();
                s.refuse_code = codes[i];
                s.refuse_skip = n;
                s.refuse_count = count;
                live(codes[i]);
                all = s.refuse_count == count;
                script_finish(&s);
                if (CU_get_number_of_failures() != failures) {
                    fprintf(stderr, "\n    %s, %d submits from the %dth\n", zkl_error_name(codes[i]), count, n);
                }
            }
        }
    }
}

/* The path fits, but with the session's chroot before it the whole does not: a caller's mistake, said at once. */
static void test_path_too_long_under_the_chroot(void)
{
    script_begin(&s);
    s.refuse_code = ZKL_EINVAL;
    s.refuse_count = 2; /* the create, and its list */
    script_acquire(&s, &me);
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "chroot"));
    expect_failed(ZKL_EINVAL);
}

static void test_refused_submits_after_a_lost_create(void)
{
    for (int n = 0; n < 12; n++) {
        script_begin(&s);
        script_acquire(&s, &me);
        script_suspend(&s, 1);
        s.refuse_code = ZKL_ECONNECT;
        s.refuse_skip = n;
        s.refuse_count = 1;
        script_connect(&s);
        script_run(&s, 4000 * MS);
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT_EQUAL(script_ours(&s), 1);
        script_finish(&s);
    }
}

/* The list behind the barrier cannot be sent, and the barrier's answer takes longer than the putting-off lasts. */
static void test_slow_barrier_without_its_list(void)
{
    script_begin(&s);
    script_acquire(&s, &me);
    script_suspend(&s, 1);
    script_cancel(&s, &me);
    s.refuse_kind = ZKL__OP_CHILDREN;
    s.refuse_code = ZKL_ELIMIT;
    s.refuse_count = 1;
    script_connect(&s);
    script_wait(&s, 500 * MS);
    OPS(&s, "check");
    script_answer(&s);
    OPS(&s, "check list");
    script_answer_all(&s);
    CU_ASSERT_EQUAL(script_ours(&s), 0);
    script_finish(&s);
}

static void test_too_many_operations(void)
{
    script_begin(&s);
    static struct script_owner many[450];
    for (int i = 0; i < 450; i++) { /* a create each, and a list: more than 400 */
        script_acquire(&s, &many[i]);
    }
    CU_ASSERT_EQUAL(s.op_count, 400);
    script_run(&s, 10000 * MS);
    for (int granted = 0, i = 0; granted < 450; i++) {
        CU_ASSERT_FATAL(i < 100000);
        if (many[i % 450].contender && many[i % 450].granted) {
            script_release(&s, &many[i % 450]);
            script_answer_all(&s);
            granted++;
        }
    }
    script_finish(&s);
}

static void watch_much(struct zkl__watch *watch)
{
    static char path[99971];
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    *watch = (struct zkl__watch){.path = path};
    CU_ASSERT_EQUAL(zkl__watch_add(s.core, watch), ZKL_OK);
}

static void test_too_many_watched_bytes(void)
{
    struct zkl__watch big;
    begin_blocked();
    watch_much(&big);
    script_acquire(&s, &me);
    script_run(&s, 1000 * MS);
    CU_ASSERT_EQUAL(script_ours(&s), 0);
    expect_failed(ZKL_ELIMIT);
}

/* The same, but the get had to wait: our czxid is not known yet, and the server puts the question off. */
static void test_too_many_watched_bytes_and_a_get_put_off(void)
{
    struct zkl__watch big;
    begin_blocked();
    watch_much(&big);
    s.next_sequence = 2;
    script_put(&s, "/q/lock-0000000001", SCRIPT_STRANGER); /* short enough to be watched */
    script_acquire(&s, &me);
    script_suspend(&s, 2);
    script_connect(&s);
    while (strcmp(script_state(&me), "watching") != 0) {
        script_answer(&s);
    }
    OPS(&s, "exists get");
    script_step(&s, (struct zkl__event){.kind = ZKL__EV_WATCH, .path = "/q/lock-0000000001"});
    OPS(&s, "exists get list");
    script_answer_with(&s, ZKL__RC_NOTAPPLIED);
    script_answer(&s);
    script_remove(&s, "/q/lock-0000000001");
    script_answer(&s);
    OPS(&s, ""); /* put off */
    script_run(&s, 1000 * MS);
    expect_failed(ZKL_ELIMIT);
}

/* --- no memory ----------------------------------------------------------------------------------------------------- */

static void live_without_memory(bool lost_create)
{
    struct zkl__contender_config config = script_config(&me, "/made/here");
    script_connect(&s);
    if (!script_contend(&s, &me, &config)) {
        return;
    }
    script_start(&s, &me, INT64_MAX, false);
    if (lost_create) {
        script_answer_all(&s);
        script_end(&s, ZKL_ELOST);
        script_connect(&s);
        script_suspend(&s, 1);
        script_connect(&s);
    }
    script_run(&s, 1000 * MS);
    CU_ASSERT(me.granted + me.failed <= 1);
    CU_ASSERT(me.granted || me.code == ZKL_ENOMEM || !me.failed);
    if (me.contender && zkl__contender_state(me.contender) == ZKL__HELD) {
        script_release(&s, &me);
    }
    script_run(&s, 4000 * MS);
}

static void test_no_memory_at_every_allocation(void)
{
    for (int variant = 0; variant < 4; variant++) {
        bool on = variant & 1, failed = true;
        for (long nth = 1; failed; nth++) {
            unsigned failures = CU_get_number_of_failures();
            if (script_init_failing(&s, nth, on)) {
                s.next_sequence = 10;
                script_put(&s, "/made", 0);
                if (variant & 2) { /* something to be ignored: names are kept */
                    script_put(&s, "/made/here", 0);
                    script_put(&s, "/made/here/lock-0000000000", 0);
                    script_put(&s, "/made/here/lock-0000000001", 0);
                }
                live_without_memory(variant & 2);
                failed = test_heap_failures(&s.heap) > 0;
                test_heap_fail(&s.heap, 0, false);
                script_run(&s, 4000 * MS);
                script_finish(&s);
            } else {
                script_deinit(&s);
            }
            if (CU_get_number_of_failures() != failures) {
                fprintf(stderr, "\n    allocation %ld, variant %d\n", nth, variant);
                return;
            }
        }
    }
}

TESTS("contender trouble", T(test_our_node_removed_while_waiting), T(test_our_node_removed_while_proving),
      T(test_our_node_removed_while_held), T(test_our_node_removed_before_the_list),
      T(test_our_node_removed_between_watch_and_stat), T(test_directory_removed_while_waiting),
      T(test_removed_by_somebody_to_fail), T(test_directories_are_made), T(test_directory_reaped_again),
      T(test_making_in_trouble), T(test_chroot_missing), T(test_sequence_used_up), T(test_negative_number),
      T(test_create_refused), T(test_make_refused), T(test_list_refused), T(test_exists_of_the_blocker_refused),
      T(test_check_refused), T(test_stat_refused), T(test_delete_refused),
      T(test_delete_of_what_a_lost_create_made_refused), T(test_look_at_what_a_lost_create_made_refused),
      T(test_list_of_an_unwanted_create_refused), T(test_put_off_once), T(test_slow_list_behind_a_create_put_off),
      T(test_unreadable_blocker), T(test_unreadable_blocker_that_goes), T(test_forged_places_before_us),
      T(test_forged_place_before_us_and_a_lost_reply), T(test_forged_place_and_a_try),
      T(test_downgraded_reader_is_honoured), T(test_everybodys_contenders_are_waited_for), T(test_names_behind_us),
      T(test_refused_submits), T(test_path_too_long_under_the_chroot), T(test_refused_submits_after_a_lost_create),
      T(test_slow_barrier_without_its_list), T(test_too_many_operations), T(test_too_many_watched_bytes),
      T(test_too_many_watched_bytes_and_a_get_put_off), T(test_no_memory_at_every_allocation))
