/* Barriers, on the in-process store. How each call ends without being waited for: unit_public_calls. */
#include "lock_kit.h"

#define PATH "/barriers/a"

#define put_up(session) ASSERT_OK(zkl_barrier_set(session, PATH, 10000, NULL))
#define lift(session) ASSERT_OK(zkl_barrier_lift(session, PATH, 10000, NULL))

#define wait_for(session) ASSERT_OK(zkl_barrier_wait_async(session, PATH, 10000, on_ended, &box, NULL))

/* Something else changes at the path: it is still up (Curator let one through: GH-1290). */
TEST_WITH_SESSIONS(test_a_wake_up_is_not_a_lift)
{
    struct mailbox box = MAILBOX_INIT;
    put_up(one);
    put_up(two); /* it is up */
    wait_for(one);
    wait_for(two);
    for (int i = 0; i < 20; i++) {
        kit_suspend(one);
        kit_resume(one);
        kit_await_session(one, ZKL_SESSION_CONNECTED);
    }
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    lift(one);
    ASSERT_OK(mailbox_code(&box, 1));
    ASSERT_OK(mailbox_code(&box, 2));
    /* For the next round, before who waits knows. */
    put_up(one);
    kit_break(one, 2, 0, 0); /* a sync, a look */
    wait_for(one);
    kit_await_session(one, ZKL_SESSION_SUSPENDED);
    lift(two);
    put_up(two);
    kit_resume(one);
    ASSERT_OK(mailbox_code(&box, 3));
}

/* Lifted, the answer lost, and put up again by somebody before the one who lifted it knows. */
TEST_WITH_SESSIONS(test_a_lift_takes_one_barrier)
{
    struct mailbox box = MAILBOX_INIT;
    put_up(two);
    kit_break(one, 1, 1, 0); /* a look, the delete */
    ASSERT_OK(zkl_barrier_lift_async(one, PATH, 10000, on_ended, &box, NULL));
    kit_await_session(one, ZKL_SESSION_SUSPENDED);
    put_up(two);
    kit_resume(one);
    ASSERT_OK(mailbox_code(&box, 1));
    CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH, 50, NULL), ZKL_ETIMEOUT);
}

/* --- double -------------------------------------------------------------------------------------------------------- */

#define MEMBERS 3
static struct member {
    zkl_session *session;
    zkl_double_barrier *barrier;
    struct mailbox ended;
} members[MEMBERS];

static zkl_double_barrier *make_barrier(zkl_session *session, size_t count)
{
    zkl_double_barrier *barrier;
    ASSERT_OK_FATAL(zkl_double_barrier_new(&barrier, session, PATH, count, NULL));
    return barrier;
}

static void gather(void)
{
    EACH_ROW (i, members) {
        members[i] = (struct member){.session = kit_open(NULL), .ended = MAILBOX_INIT};
        members[i].barrier = make_barrier(members[i].session, MEMBERS);
    }
}

static void scatter(void)
{
    EACH_ROW (i, members) {
        zkl_double_barrier_free(members[i].barrier);
        zkl_testing_delay(members[i].session, false, NULL); /* one that was ended may be without a session yet */
        kit_close(members[i].session);
    }
}

static void enter_for(size_t member, int64_t ms)
{
    mailbox_clear(&members[member].ended);
    ASSERT_OK(zkl_double_barrier_enter_async(members[member].barrier, ms, on_ended, &members[member].ended, NULL));
}

static void enter(size_t member)
{
    enter_for(member, 10000);
}

static void leave(size_t member)
{
    mailbox_clear(&members[member].ended);
    ASSERT_OK(zkl_double_barrier_leave_async(members[member].barrier, 10000, on_ended, &members[member].ended, NULL));
}

static int ended(size_t member)
{
    return mailbox_code(&members[member].ended, 1);
}

static void all_succeed(void)
{
    EACH_ROW (i, members) {
        ASSERT_OK(ended(i));
    }
}

static void do_all(void (*begin)(size_t member))
{
    EACH_ROW (i, members) {
        begin(i);
    }
    all_succeed();
}

static bool is_over(size_t member)
{
    return mailbox_count(&members[member].ended) > 0;
}

static size_t inside(void)
{
    return kit_queue(members[0].session, PATH);
}

#define TEST_OF_MEMBERS(name) TEST_BETWEEN(gather(), name, scatter())

TEST_OF_MEMBERS(test_begin_and_end_together)
{
    for (int round = 0; round < 5; round++) {
        enter(0);
        enter(1);
        ASSERT_EVENTUALLY(inside() == MEMBERS - 1);
        CU_ASSERT_EQUAL(zkl_double_barrier_enter(members[0].barrier, 0, NULL), ZKL_EDEADLK); /* it enters already */
        CU_ASSERT_EQUAL(zkl_double_barrier_leave(members[0].barrier, 10000, NULL), ZKL_ENOTHELD);
        CU_ASSERT(!is_over(0) && !is_over(1));
        enter(2);
        all_succeed();
        leave(0);
        leave(1);
        ASSERT_EVENTUALLY(inside() < MEMBERS);
        CU_ASSERT(!is_over(0) && !is_over(1));
        leave(2);
        all_succeed();
    }
}

/* Whose znode comes first by its name. */
static int first(void)
{
    zkl_queue *queue;
    ASSERT_OK_FATAL(zkl_queue_list(&queue, members[0].session, PATH, 10000, NULL));
    const zkl_queue_entry *lowest = &queue->entries[0];
    for (size_t i = 1; i < queue->count; i++) {
        lowest = strcmp(queue->entries[i].name, lowest->name) < 0 ? &queue->entries[i] : lowest;
    }
    int member = 0;
    while (zkl_session_id(members[member].session) != lowest->session_id) {
        member++;
    }
    zkl_queue_free(queue);
    return member;
}

/* Curator's members, once out, take it for the end of all when the first znode has gone. One that hears late finds it in the next round
 * already, and does not wait for that. */
TEST_OF_MEMBERS(test_the_first_one_leaves_last)
{
    do_all(enter);
    int a = first(), b = a == 1 ? 2 : 1, c = MEMBERS - a - b;
    leave(a);
    leave(b);
    ASSERT_EVENTUALLY(inside() == 2);
    CU_ASSERT_EQUAL(first(), a);
    kit_delay(members[b].session, true);
    ASSERT_OK(zkl_double_barrier_leave(members[c].barrier, 10000, NULL));
    ASSERT_OK(ended(a));
    CU_ASSERT_EQUAL(inside(), 0);
    enter(a);
    ASSERT_EVENTUALLY(inside() == 1);
    kit_delay(members[b].session, false);
    ASSERT_OK(ended(b));
}

/* Curator counts a member that has timed out (CURATOR-536). When the servers put the delete of its znode off, it does not count twice. */
TEST_OF_MEMBERS(test_one_who_gave_up_does_not_count)
{
    enter(1);
    enter_for(0, 300);
    for (int i = 0; i < 9; i++) { /* behind each answer it has gone a step further, until it waits */
        ASSERT_OK(zkl_barrier_lift(members[0].session, "/barriers/none", 10000, NULL));
    }
    ASSERT_OK(zkl__memory_refuse(zkl_session_id(members[0].session), ZKL__RC_NOTAPPLIED, 1));
    CU_ASSERT_EQUAL(ended(0), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(members[0].barrier, 200, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(inside(), 1);
    enter(2);
    ASSERT_EVENTUALLY(inside() == 2);
    CU_ASSERT(!is_over(1) && !is_over(2));
    ASSERT_OK(zkl_double_barrier_enter(members[0].barrier, 10000, NULL));
    ASSERT_OK(ended(1));
    ASSERT_OK(ended(2));
    CU_ASSERT_EQUAL(zkl_double_barrier_leave(members[0].barrier, 50, NULL), ZKL_ETIMEOUT);
}

TEST_OF_MEMBERS(test_one_who_crashed_has_left)
{
    do_all(enter);
    leave(0);
    leave(1);
    ASSERT_EVENTUALLY(inside() < MEMBERS);
    CU_ASSERT(!is_over(0));
    kit_expire(members[2].session);
    ASSERT_OK(ended(0));
    ASSERT_OK(ended(1));
}

TEST_OF_MEMBERS(test_loss_while_waiting)
{
    enter(0);
    kit_await_queue(members[1].session, PATH, 1);
    kit_expire(members[0].session);
    CU_ASSERT_EQUAL(ended(0), ZKL_ELOST);
}

/* Lost, and all have left nevertheless: that is what was asked for. */
TEST_OF_MEMBERS(test_leave_after_a_loss)
{
    zkl_error err = {.code = 77};
    do_all(enter);
    for (int i = 1; i < MEMBERS; i++) {
        zkl_double_barrier_free(members[i].barrier);
        members[i].barrier = NULL;
    }
    kit_expire(members[0].session);
    ASSERT_OK(zkl_double_barrier_leave(members[0].barrier, 10000, &err));
    CU_ASSERT_EQUAL(err.code, 77);
}

/* The others, who enter again, wait for who has lost its place: it does not wait for them. */
TEST_OF_MEMBERS(test_in_again_while_a_lost_one_leaves)
{
    do_all(enter);
    kit_expire(members[0].session);
    ASSERT_EVENTUALLY(zkl_lock_state((zkl_lock *)members[0].barrier) == ZKL_STATE_LOST);
    kit_await_session(members[0].session, ZKL_SESSION_CONNECTED);
    uint64_t before = kit_requests(members[0].session);
    leave(0);
    ASSERT_EVENTUALLY(kit_requests(members[0].session) > before);
    kit_delay(members[0].session, true);
    leave(1);
    leave(2);
    ASSERT_OK(ended(1));
    ASSERT_OK(ended(2));
    enter(1);
    enter(2);
    kit_await_queue(members[1].session, PATH, 2);
    kit_delay(members[0].session, false);
    ASSERT_OK(ended(0));
}

/* The first one has seen all of them, and loses its connection before it has written the ready node; the others hear of nothing. */
static void lose_the_sign(void)
{
    enter(1);
    enter(2);
    kit_await_queue(members[1].session, PATH, 2);
    kit_break(members[0].session, 5, 0, 0); /* its znode, the list, a look at each */
    kit_delay(members[1].session, true);
    kit_delay(members[2].session, true);
    enter(0);
    kit_await_session(members[0].session, ZKL_SESSION_SUSPENDED);
}

TEST_OF_MEMBERS(test_who_is_lost_writes_no_sign)
{
    lose_the_sign();
    kit_expire(members[0].session);
    kit_resume(members[0].session);
    CU_ASSERT_EQUAL(ended(0), ZKL_ELOST);
}

/* It may enter when it is back, and nobody who came when the others had given up. */
TEST_OF_MEMBERS(test_a_late_sign_is_not_for_newcomers)
{
    lose_the_sign();
    for (int i = 1; i < MEMBERS; i++) {
        zkl_double_barrier_free(members[i].barrier);
        members[i].barrier = make_barrier(members[i].session, MEMBERS);
        kit_delay(members[i].session, false);
    }
    kit_await_queue(members[1].session, PATH, 1);
    enter_for(1, 1000);
    kit_await_queue(members[2].session, PATH, 2);
    kit_resume(members[0].session);
    ASSERT_OK(ended(0));
    CU_ASSERT_EQUAL(ended(1), ZKL_ETIMEOUT);
}

static void *enter_and_wait(void *code)
{
    *(int *)code = zkl_double_barrier_enter(members[0].barrier, 10000, NULL);
    return NULL;
}

TEST_OF_MEMBERS(test_a_free_ends_an_enter)
{
    pthread_t thread;
    int code;
    kit_start_thread(&thread, enter_and_wait, &code);
    ASSERT_EVENTUALLY(inside() == 1);
    zkl_double_barrier_free(members[0].barrier);
    members[0].barrier = NULL;
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(code, ZKL_ECANCELED);
}

/* The lease ends, and not the session, whose znode others count until then: who waits has to take it away. */
TEST(test_a_lease_that_ends_while_waiting)
{
    struct mailbox box = MAILBOX_INIT;
    const zkl_session_options brief = kit_short();
    zkl_session *session = kit_open(&brief);
    zkl_double_barrier *barrier = make_barrier(session, 2);
    ASSERT_OK(zkl_double_barrier_enter_async(barrier, 60000, on_ended, &box, NULL));
    kit_await_queue(session, PATH, 1);
    for (int i = 0; i < 9; i++) { /* behind each answer it has gone a step further, until it waits */
        ASSERT_OK(zkl_barrier_lift(session, "/barriers/none", 10000, NULL));
    }
    kit_suspend(session);
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_ELOST);
    kit_resume(session);
    zkl_double_barrier_free(barrier);
    kit_close(session);
}

/* Those who wait for us to leave, and enter again before we have seen that they left, are not waited for. */
TEST_OF_MEMBERS(test_in_again_while_the_first_one_leaves)
{
    do_all(enter);
    int a = first();
    leave(a);
    kit_delay(members[a].session, true);
    EACH_ROW (i, members) {
        if ((int)i != a) {
            zkl_double_barrier_free(members[i].barrier);
            members[i].barrier = make_barrier(members[i].session, MEMBERS);
            enter(i);
            ASSERT_OK(ended(i));
        }
    }
    kit_delay(members[a].session, false);
    ASSERT_OK(ended(a));
}

/* In again, while the leave still waits for the others: the end of that leave leaves the new place alone. */
TEST_OF_MEMBERS(test_in_again_before_all_are_out)
{
    struct mailbox box = MAILBOX_INIT;
    do_all(enter);
    zkl_double_barrier *leaver = members[(first() + 1) % MEMBERS].barrier; /* the first would leave last */
    ASSERT_OK(zkl_double_barrier_leave_async(leaver, 100, on_ended, &box, NULL));
    ASSERT_EVENTUALLY(inside() == MEMBERS - 1);
    ASSERT_OK(zkl_double_barrier_enter_async(leaver, 10000, on_ended, &box, NULL));
    kit_await_letters(&box, 2);
    CU_ASSERT_EQUAL(box.letters[0].code + box.letters[1].code, ZKL_OK + ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(inside(), MEMBERS);
}

/* --- strays, and answers that come too late -------------------------------------------------------------------------- */

/* A directory that anybody may create in. */
static void make_path(void)
{
    kit_must_write(ZKL__OP_CREATE, "/", "barriers", NULL);
    kit_must_write(ZKL__OP_CREATE, "/barriers", "a", NULL);
}

/* Children that live with no session stand for nobody: they let nobody in, and keep nobody from leaving. */
TEST_OF_MEMBERS(test_strays_are_no_members)
{
    make_path();
    kit_must_write(ZKL__OP_CREATE, PATH, "_c_00000000-stray", NULL);
    kit_must_write(ZKL__OP_CREATE, PATH, "stray", NULL);
    kit_create_longest(PATH);
    kit_create_longest(PATH);
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(members[0].barrier, 300, NULL), ZKL_ETIMEOUT);
    do_all(enter);
    do_all(leave);
}

/* A lock's directory would be a barrier that nobody lifts: whoever queues there shows that it is none. */
TEST_WITH_SESSIONS(test_a_lock_is_no_barrier)
{
    for (int read = 0; read < 2; read++) {
        zkl_error errs[3] = {{0}, {0}, {0}};
        zkl_lock *lock = kit_make(read ? ZKL_RECIPE_READ_LOCK : ZKL_RECIPE_LOCK, one, PATH, NULL);
        zkl_double_barrier *barrier = make_barrier(two, 2);
        kit_acquire(lock);
        CU_ASSERT_EQUAL(zkl_barrier_set(two, PATH, 5000, &errs[0]), ZKL_ECONFLICT);
        CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH, 5000, &errs[1]), ZKL_ECONFLICT);
        if (read) { /* the members of a double one have the names of locks */
            CU_ASSERT_EQUAL(zkl_double_barrier_enter(barrier, 5000, &errs[2]), ZKL_ECONFLICT);
        }
        for (int i = 0; i < 2 + read; i++) {
            ASSERT_SAYS(errs[i], "in use as a lock");
        }
        zkl_double_barrier_free(barrier);
        kit_free(lock);
    }
}

/* What lives with no session stands for nobody, and does not make a lock of a barrier. */
TEST_WITH_SESSIONS(test_strays_below_a_barrier)
{
    make_path();
    kit_must_write(ZKL__OP_CREATE, PATH, "x-lock-0000000000", NULL);
    CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH, 30, NULL), ZKL_ETIMEOUT);
}

/* The path was above another barrier first: it is a container, and servers remove those when they are empty. */
TEST_WITH_SESSIONS(test_a_barrier_outlives_a_container)
{
    zkl_error err;
    struct mailbox box = MAILBOX_INIT;
    ASSERT_OK(zkl_testing_refuse(one, ZKL_EAUTH, 1, NULL)); /* the directory above */
    CU_ASSERT_EQUAL(zkl_barrier_set(one, PATH "/1", 10000, &err), ZKL_EAUTH);
    CU_ASSERT_EQUAL(err.zk_code, -102);
    ASSERT_OK(zkl_barrier_set(one, PATH "/1", 10000, NULL));
    CU_ASSERT_EQUAL(zkl_barrier_set(two, PATH, 10000, &err), ZKL_ECONFLICT);
    ASSERT_SAYS(err, "has or had children");
    ASSERT_OK(zkl_barrier_lift(one, PATH "/1", 10000, NULL));
    kit_must_write(ZKL__OP_SET, PATH, NULL, "a mark");
    CU_ASSERT_EQUAL(zkl_barrier_set(two, PATH, 10000, NULL), ZKL_ECONFLICT);
    kit_must_write(ZKL__OP_SET, PATH, NULL, "");
    kit_break(two, 2, 0, 0); /* a sync, a look */
    wait_for(two);
    kit_await_session(two, ZKL_SESSION_SUSPENDED);
    put_up(one); /* made anew, and never down */
    put_up(one);
    ASSERT_OK(zkl__memory_reap(PLACE));
    kit_resume(two);
    CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH, 50, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    CU_ASSERT_EQUAL(kit_write(ZKL__OP_CREATE, PATH, "x", NULL), ZKL__RC_NOAUTH);
    lift(one);
    ASSERT_OK(mailbox_code(&box, 1));
}

/* The reply to the write before that is lost, or to the transaction: the copy takes no barrier that stands. */
TEST_WITH_SESSIONS(test_a_barrier_is_made_anew_once)
{
    for (int whole = 3; whole <= 4; whole++) { /* the directory, a create, a look; the write */
        struct mailbox set = MAILBOX_INIT, box = MAILBOX_INIT;
        ASSERT_OK(zkl_barrier_set(one, PATH "/1", 10000, NULL));
        ASSERT_OK(zkl_barrier_lift(one, PATH "/1", 10000, NULL));
        kit_break(one, whole, 1, 0);
        ASSERT_OK(zkl_barrier_set_async(one, PATH, 10000, on_ended, &set, NULL));
        kit_await_session(one, ZKL_SESSION_SUSPENDED);
        wait_for(two);
        CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH, 50, NULL), ZKL_ETIMEOUT);
        kit_resume(one);
        ASSERT_OK(mailbox_code(&set, 1));
        CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH, 50, NULL), ZKL_ETIMEOUT);
        CU_ASSERT_EQUAL(mailbox_count(&box), 0);
        lift(one);
        ASSERT_OK(mailbox_code(&box, 1));
    }
}

/* Nobody keeps a barrier up by a child, and it outlives every session. */
TEST_WITH_SESSIONS(test_a_barrier_has_no_children)
{
    put_up(one);
    CU_ASSERT_EQUAL(kit_write(ZKL__OP_CREATE, PATH, "x", NULL), ZKL__RC_NOAUTH);
    lift(two);
    zkl_op op = ZKL_OP_INIT;
    op.path = PATH;
    op.mode = ZKL_CREATE_EPHEMERAL;
    ASSERT_OK(zkl_lock_commit(kit_hold(one, "/locks/a", NULL), &op, 1, 10000, NULL, NULL));
    CU_ASSERT_EQUAL(zkl_barrier_set(two, PATH, 10000, NULL), ZKL_ECONFLICT);
}

static void hide_sign(int perms)
{
    const zkl_acl hidden = {1, &(const zkl_acl_entry){perms, "world", "anyone"}};
    kit_create(PATH, "ready", NULL, &hidden);
    ASSERT_OK(zkl__memory_set_rules("memory:kit", ZKL__RULES_EXISTS_NEEDS_READ));
}

/* Refused by name, and asked once: whether all are there, or one looks for the sign because they are not. The last one may be read and
 * not be written. */
TEST(test_a_sign_that_may_not_be_read)
{
    for (int way = 0; way < 3; way++) {
        kit_set_up(NULL);
        zkl_error err = {.text = ""};
        make_path();
        hide_sign(way < 2 ? ZKL_PERM_DELETE : ZKL_PERM_READ);
        zkl_double_barrier *barrier = make_barrier(one, 1 + way % 2);
        uint64_t before = kit_requests(one);
        CU_ASSERT_EQUAL(zkl_double_barrier_enter(barrier, 10000, &err), ZKL_EAUTH);
        CU_ASSERT(kit_requests(one) - before < 20);
        ASSERT_SAYS(err, way < 2 ? "the ready node may not be read" : "the ready node cannot be written");
        CU_ASSERT_STRING_EQUAL(err.path, PATH "/ready");
        zkl_double_barrier_free(barrier);
        kit_tear_down();
    }
}

/* Refused, too, and asked once. */
TEST_WITH_SESSIONS(test_a_member_that_may_not_be_read)
{
    static const zkl_acl_entry others[] = {{ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"}};
    static const zkl_acl acl = {1, others};
    zkl_session *session = kit_open(SESSION_OPTIONS(.acl = &acl));
    zkl_double_barrier *barrier = make_barrier(session, 1);
    make_path();
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(barrier, 1000, NULL), ZKL_EAUTH);
    zkl_double_barrier_free(barrier);
    kit_close(session);
}

struct entering {
    zkl_double_barrier *barrier;
    int ends, refused;
};

static void enter_again(int code, const zkl_error *err, void *payload)
{
    struct entering *entering = payload;
    CU_ASSERT_EQUAL(code, ZKL_ECANCELED);
    if (entering->ends++ < 3) {
        entering->refused = zkl_double_barrier_enter_async(entering->barrier, 10000, enter_again, payload, NULL);
    }
}

/* Else a program that enters until it is in would never come back from the free. */
TEST_WITH_SESSIONS(test_no_enter_of_what_is_freed)
{
    struct entering entering = {.barrier = make_barrier(one, 2)};
    ASSERT_OK(zkl_double_barrier_enter_async(entering.barrier, 10000, enter_again, &entering, NULL));
    zkl_double_barrier_free(entering.barrier);
    CU_ASSERT_EQUAL(entering.refused, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(entering.ends, 1);
}

static bool sign_stands(void)
{
    return kit_write(ZKL__OP_CHECK, PATH, "ready", NULL) == ZKL__RC_OK;
}

/* The last to leave loses its connection at each answer in turn, and another one enters before it is back. */
TEST(test_a_late_leave_spares_the_next_time)
{
    int unanswered = 0;
    for (size_t whole = 0; whole < 10; whole++) {
        struct mailbox box = MAILBOX_INIT;
        kit_set_up(NULL);
        zkl_double_barrier *last = make_barrier(one, 1), *next = make_barrier(two, 1);
        ASSERT_OK(zkl_double_barrier_enter(last, 10000, NULL));
        kit_break(one, whole, 1, 0);
        ASSERT_OK(zkl_double_barrier_leave_async(last, 10000, on_ended, &box, NULL));
        ASSERT_EVENTUALLY(mailbox_count(&box) > 0 || zkl_session_state(one) == ZKL_SESSION_SUSPENDED);
        bool taken_down = !sign_stands() && mailbox_count(&box) == 0;
        ASSERT_OK(zkl_double_barrier_enter(next, 10000, NULL));
        CU_ASSERT(sign_stands());
        zkl__memory_resume(zkl_session_id(one));
        if (taken_down) { /* it asks again */
            kit_await_letters(&box, 1);
            CU_ASSERT(sign_stands());
            unanswered++;
        }
        ASSERT_OK(zkl_double_barrier_leave(next, 10000, NULL));
        ASSERT_OK(mailbox_code(&box, 1));
        zkl_double_barrier_free(last);
        zkl_double_barrier_free(next);
        kit_tear_down();
    }
    CU_ASSERT(unanswered > 0);
}

TESTS("barrier")
