/* Barriers, on the in-process store. How each call ends without being waited for: unit_public_calls. */
#include "lock_kit.h"

#include <string.h>

#define PATH "/barriers/a"

struct call {
    pthread_t thread;
    int (*run)(struct call *);
    zkl_session *session;
    zkl_double_barrier *barrier;
    int64_t timeout_ms;
    int code;
    bool done;
};

static void *run_call(void *arg)
{
    struct call *call = arg;
    call->code = call->run(call);
    __atomic_store_n(&call->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void start(struct call *call)
{
    call->done = false;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&call->thread, NULL, run_call, call), 0);
}

static bool is_done(struct call *call)
{
    return __atomic_load_n(&call->done, __ATOMIC_ACQUIRE);
}

static int finish(struct call *call)
{
    pthread_join(call->thread, NULL);
    return call->code;
}

static int wait_call(struct call *call)
{
    return zkl_barrier_wait(call->session, PATH, call->timeout_ms, NULL);
}

static int enter_call(struct call *call)
{
    return zkl_double_barrier_enter(call->barrier, call->timeout_ms, NULL);
}

static int leave_call(struct call *call)
{
    return zkl_double_barrier_leave(call->barrier, call->timeout_ms, NULL);
}

TEST_WITH_SESSIONS(test_all_go_on_when_it_is_lifted)
{
    struct call calls[3];
    ASSERT_OK(zkl_barrier_set(one, PATH, 10000, NULL));
    ASSERT_OK(zkl_barrier_set(two, PATH, 10000, NULL));
    for (int i = 0; i < 3; i++) {
        calls[i] = (struct call){.run = wait_call, .session = i ? one : two, .timeout_ms = 10000};
        start(&calls[i]);
    }
    CU_ASSERT_EQUAL(zkl_barrier_wait(one, PATH, 50, NULL), ZKL_ETIMEOUT);
    CU_ASSERT(!is_done(&calls[0]) && !is_done(&calls[1]) && !is_done(&calls[2]));
    ASSERT_OK(zkl_barrier_lift(one, PATH, 10000, NULL));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(finish(&calls[i]));
    }
}

/* Something else changes at the path: it is still up (Curator let one through: GH-1290). */
TEST_WITH_SESSIONS(test_a_wake_up_is_not_a_lift)
{
    ASSERT_OK(zkl_barrier_set(one, PATH, 10000, NULL));
    struct call call = {.run = wait_call, .session = one, .timeout_ms = 10000};
    start(&call);
    for (int i = 0; i < 20; i++) {
        zkl__memory_suspend(zkl_session_id(one));
        zkl__memory_resume(zkl_session_id(one));
        ASSERT_EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_CONNECTED);
    }
    CU_ASSERT(!is_done(&call));
    ASSERT_OK(zkl_barrier_lift(one, PATH, 10000, NULL));
    ASSERT_OK(finish(&call));
}

static int lift_call(struct call *call)
{
    return zkl_barrier_lift(call->session, PATH, call->timeout_ms, NULL);
}

/* Lifted, the answer lost, and put up again by somebody before the one who lifted it knows. */
TEST_WITH_SESSIONS(test_a_lift_takes_one_barrier)
{
    struct call call = {.run = lift_call, .session = one, .timeout_ms = 10000};
    ASSERT_OK(zkl_barrier_set(two, PATH, 10000, NULL));
    ASSERT_OK(zkl__memory_break(zkl_session_id(one), 1, 1, 0)); /* a look, the delete */
    start(&call);
    ASSERT_EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_SUSPENDED);
    ASSERT_OK(zkl_barrier_set(two, PATH, 10000, NULL));
    kit_resume(one);
    ASSERT_OK(finish(&call));
    CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH, 50, NULL), ZKL_ETIMEOUT);
}

/* --- double -------------------------------------------------------------------------------------------------------- */

#define MEMBERS 3
static zkl_session *sessions[MEMBERS];
static struct call members[MEMBERS];

static void gather(const zkl_session_options *options)
{
    for (int i = 0; i < MEMBERS; i++) {
        sessions[i] = kit_open(options);
        members[i] = (struct call){.timeout_ms = 10000};
        ASSERT_OK_FATAL(zkl_double_barrier_new(&members[i].barrier, sessions[i], PATH, MEMBERS, NULL));
    }
}

/* All of them do it at once. */
static void start_all(int (*run)(struct call *))
{
    for (int i = 0; i < MEMBERS; i++) {
        members[i].run = run;
        start(&members[i]);
    }
}

static void finish_all(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        ASSERT_OK(finish(&members[i]));
    }
}

static void scatter(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        zkl_double_barrier_free(members[i].barrier);
        if (sessions[i]) {
            kit_close(sessions[i]);
        }
    }
}

TEST(test_begin_and_end_together)
{
    gather(NULL);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < MEMBERS; i++) {
            members[i].run = enter_call;
            if (i == MEMBERS - 1) {
                ASSERT_EVENTUALLY(kit_queue(sessions[0], PATH) == MEMBERS - 1);
                CU_ASSERT(!is_done(&members[0]) && !is_done(&members[1]));
            }
            start(&members[i]);
        }
        for (int i = 0; i < MEMBERS; i++) {
            ASSERT_OK(finish(&members[i]));
        }
        for (int i = 0; i < MEMBERS; i++) {
            members[i].run = leave_call;
            if (i == MEMBERS - 1) {
                ASSERT_EVENTUALLY(kit_queue(sessions[0], PATH) < MEMBERS);
                CU_ASSERT(!is_done(&members[0]) && !is_done(&members[1]));
            }
            start(&members[i]);
        }
        for (int i = 0; i < MEMBERS; i++) {
            ASSERT_OK(finish(&members[i]));
        }
    }
    scatter();
}

/* Whose znode comes first by its name. */
static int first(void)
{
    zkl_queue *queue;
    ASSERT_OK_FATAL(zkl_queue_list(&queue, sessions[0], PATH, 10000, NULL));
    const zkl_queue_entry *lowest = &queue->entries[0];
    for (size_t i = 1; i < queue->count; i++) {
        lowest = strcmp(queue->entries[i].name, lowest->name) < 0 ? &queue->entries[i] : lowest;
    }
    int member = 0;
    while (zkl_session_id(sessions[member]) != lowest->session_id) {
        member++;
    }
    zkl_queue_free(queue);
    return member;
}

/* Curator's members, once out, take it for the end of all when the first znode has gone. */
TEST(test_the_first_one_leaves_last)
{
    gather(NULL);
    start_all(enter_call);
    for (int i = 0; i < MEMBERS; i++) {
        ASSERT_OK(finish(&members[i]));
        members[i].run = leave_call;
    }
    int a = first(), b = (a + 1) % MEMBERS, c = (a + 2) % MEMBERS;
    start(&members[a]);
    start(&members[b]);
    ASSERT_EVENTUALLY(kit_queue(sessions[0], PATH) == 2);
    CU_ASSERT_EQUAL(first(), a);
    ASSERT_OK(zkl_double_barrier_leave(members[c].barrier, 10000, NULL));
    ASSERT_OK(finish(&members[a]));
    ASSERT_OK(finish(&members[b]));
    CU_ASSERT_EQUAL(kit_queue(sessions[0], PATH), 0);
    scatter();
}

/* Curator counts a member that has timed out (CURATOR-536). */
TEST(test_one_who_gave_up_does_not_count)
{
    gather(NULL);
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(members[0].barrier, 50, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(kit_queue(sessions[0], PATH), 0);
    members[1].run = members[2].run = enter_call;
    start(&members[1]);
    start(&members[2]);
    ASSERT_EVENTUALLY(kit_queue(sessions[0], PATH) == 2);
    CU_ASSERT(!is_done(&members[1]) && !is_done(&members[2]));
    ASSERT_OK(zkl_double_barrier_enter(members[0].barrier, 10000, NULL));
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(members[0].barrier, 0, NULL), ZKL_EDEADLK);
    ASSERT_OK(finish(&members[1]));
    ASSERT_OK(finish(&members[2]));
    CU_ASSERT_EQUAL(zkl_double_barrier_leave(members[0].barrier, 50, NULL), ZKL_ETIMEOUT);
    scatter();
}

TEST(test_one_who_crashed_has_left)
{
    zkl_session_options options = kit_short();
    gather(&options);
    start_all(enter_call);
    for (int i = 0; i < MEMBERS; i++) {
        ASSERT_OK(finish(&members[i]));
    }
    members[0].run = members[1].run = leave_call;
    start(&members[0]);
    start(&members[1]);
    ASSERT_EVENTUALLY(kit_queue(sessions[0], PATH) < MEMBERS);
    CU_ASSERT(!is_done(&members[0]));
    zkl__memory_expire(zkl_session_id(sessions[2]));
    ASSERT_OK(finish(&members[0]));
    ASSERT_OK(finish(&members[1]));
    scatter();
}

TEST(test_loss_while_waiting)
{
    gather(NULL);
    members[0].run = enter_call;
    start(&members[0]);
    ASSERT_EVENTUALLY(kit_queue(sessions[1], PATH) == 1);
    zkl__memory_expire(zkl_session_id(sessions[0]));
    CU_ASSERT_EQUAL(finish(&members[0]), ZKL_ELOST);
    scatter();
}

/* Lost, and all have left nevertheless: that is what was asked for. */
TEST(test_leave_after_a_loss)
{
    zkl_error err = {.code = 77};
    gather(NULL);
    start_all(enter_call);
    for (int i = 0; i < MEMBERS; i++) {
        ASSERT_OK(finish(&members[i]));
        if (i > 0) {
            zkl_double_barrier_free(members[i].barrier);
            members[i].barrier = NULL;
        }
    }
    zkl__memory_expire(zkl_session_id(sessions[0]));
    ASSERT_OK(zkl_double_barrier_leave(members[0].barrier, 10000, &err));
    CU_ASSERT_EQUAL(err.code, 77);
    scatter();
}

TEST(test_entered_twice)
{
    struct mailbox box = MAILBOX_INIT;
    gather(NULL);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(zkl_double_barrier_enter_async(members[0].barrier, 10000, on_ended, &box, NULL));
    }
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_EDEADLK);
    members[1].run = enter_call;
    start(&members[1]);
    ASSERT_OK(zkl_double_barrier_enter(members[2].barrier, 10000, NULL)); /* the first still waits */
    ASSERT_OK(mailbox_code(&box, 2));
    ASSERT_OK(finish(&members[1]));
    scatter();
    CU_ASSERT_EQUAL(mailbox_count(&box), 2);
}

/* In again, while the leave still waits for the others: the end of that leave leaves the new place alone. */
TEST(test_in_again_before_all_are_out)
{
    struct mailbox box = MAILBOX_INIT;
    gather(NULL);
    start_all(enter_call);
    finish_all();
    zkl_double_barrier *leaver = members[(first() + 1) % MEMBERS].barrier; /* the first would leave last */
    ASSERT_OK(zkl_double_barrier_leave_async(leaver, 100, on_ended, &box, NULL));
    ASSERT_EVENTUALLY(kit_queue(sessions[0], PATH) == MEMBERS - 1);
    ASSERT_OK(zkl_double_barrier_enter_async(leaver, 10000, on_ended, &box, NULL));
    CU_ASSERT_TRUE(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[0].code + box.letters[1].code, ZKL_OK + ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(kit_queue(sessions[0], PATH), MEMBERS);
    scatter();
}

/* --- strays, and answers that come too late -------------------------------------------------------------------------- */

/* A directory that anybody may create in. */
static void make_path(void)
{
    kit_must_write(ZKL__OP_CREATE, "/", "barriers", NULL);
    kit_must_write(ZKL__OP_CREATE, "/barriers", "a", NULL);
}

/* Children that live with no session stand for nobody: they let nobody in, and keep nobody from leaving. */
TEST(test_strays_are_no_members)
{
    gather(NULL);
    make_path();
    kit_must_write(ZKL__OP_CREATE, PATH, "_c_00000000-stray", NULL);
    kit_must_write(ZKL__OP_CREATE, PATH, "stray", NULL);
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(members[0].barrier, 300, NULL), ZKL_ETIMEOUT);
    start_all(enter_call);
    for (int i = 0; i < MEMBERS; i++) {
        ASSERT_OK(finish(&members[i]));
        members[i].run = leave_call;
    }
    start_all(leave_call);
    finish_all();
    scatter();
}

/* A lock's directory would be a barrier that nobody lifts: whoever queues there shows that it is none. */
TEST_WITH_SESSIONS(test_a_lock_is_no_barrier)
{
    for (int read = 0; read < 2; read++) {
        zkl_error errs[3] = {{0}, {0}, {0}};
        zkl_lock *lock = NULL;
        zkl_double_barrier *barrier = NULL;
        ASSERT_OK_FATAL((read ? zkl_read_lock_new : zkl_lock_new)(&lock, one, PATH, NULL, NULL));
        ASSERT_OK_FATAL(zkl_double_barrier_new(&barrier, two, PATH, 2, NULL));
        kit_acquire(lock);
        CU_ASSERT_EQUAL(zkl_barrier_set(two, PATH, 5000, &errs[0]), ZKL_ECONFLICT);
        CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH, 5000, &errs[1]), ZKL_ECONFLICT);
        if (read) { /* the members of a double one have the names of locks */
            CU_ASSERT_EQUAL(zkl_double_barrier_enter(barrier, 5000, &errs[2]), ZKL_ECONFLICT);
        }
        for (int i = 0; i < 2 + read; i++) {
            CU_ASSERT_PTR_NOT_NULL(strstr(errs[i].text, "in use as a lock"));
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
    ASSERT_OK(zkl_barrier_set(one, PATH, 5000, NULL));
    CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH, 30, NULL), ZKL_ETIMEOUT);
}

/* Nobody keeps a barrier up by a child. */
TEST_WITH_SESSIONS(test_a_barrier_has_no_children)
{
    ASSERT_OK(zkl_barrier_set(one, PATH, 5000, NULL));
    CU_ASSERT_EQUAL(kit_write(ZKL__OP_CREATE, PATH, "x", NULL), ZKL__RC_NOAUTH);
    ASSERT_OK(zkl_barrier_lift(two, PATH, 5000, NULL));
}

static void hide_sign(void)
{
    static const zkl_acl_entry nobody[] = {{ZKL_PERM_DELETE, "world", "anyone"}};
    static const zkl_acl hidden = {1, nobody};
    const struct zkl__op op = {
        .kind = ZKL__OP_CREATE, .dir = PATH, .name = "ready", .mode = ZKL__PERSISTENT, .acl = &hidden};
    enum zkl__rc rc = ZKL__RC_UNKNOWN;
    ASSERT_OK(zkl__memory_meddle(PLACE, &op, &rc));
    CU_ASSERT_EQUAL(rc, ZKL__RC_OK);
    ASSERT_OK(zkl__memory_set_rules("kit", ZKL__RULES_EXISTS_NEEDS_READ));
}

static uint64_t sent(zkl_session *session)
{
    zkl_stats stats = ZKL_STATS_INIT;
    ASSERT_OK(zkl_session_stats(session, &stats));
    return stats.requests;
}

/* Refused by name, and asked once: whether all are there, or one looks for the sign because they are not. */
TEST(test_a_sign_that_may_not_be_read)
{
    for (size_t count = 1; count <= 2; count++) {
        kit_set_up(NULL);
        zkl_double_barrier *barrier = NULL;
        zkl_error err = {.text = ""};
        make_path();
        hide_sign();
        ASSERT_OK_FATAL(zkl_double_barrier_new(&barrier, one, PATH, count, NULL));
        uint64_t before = sent(one);
        CU_ASSERT_EQUAL(zkl_double_barrier_enter(barrier, 10000, &err), ZKL_EAUTH);
        CU_ASSERT(sent(one) - before < 20);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the ready node may not be read"));
        CU_ASSERT_STRING_EQUAL(err.path, PATH "/ready");
        zkl_double_barrier_free(barrier);
        kit_tear_down();
    }
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
        kit_set_up(NULL);
        struct call call = {.run = leave_call, .timeout_ms = 10000};
        zkl_double_barrier *next = NULL;
        ASSERT_OK_FATAL(zkl_double_barrier_new(&call.barrier, one, PATH, 1, NULL));
        ASSERT_OK_FATAL(zkl_double_barrier_new(&next, two, PATH, 1, NULL));
        ASSERT_OK(zkl_double_barrier_enter(call.barrier, 10000, NULL));
        ASSERT_OK(zkl__memory_break(zkl_session_id(one), whole, 1, 0));
        start(&call);
        ASSERT_EVENTUALLY(is_done(&call) || zkl_session_state(one) == ZKL_SESSION_SUSPENDED);
        bool taken_down = !sign_stands() && !is_done(&call);
        ASSERT_OK(zkl_double_barrier_enter(next, 10000, NULL));
        CU_ASSERT(sign_stands());
        (void)zkl__memory_resume(zkl_session_id(one));
        if (taken_down) { /* it asks again */
            ASSERT_EVENTUALLY(is_done(&call));
            CU_ASSERT(sign_stands());
            unanswered++;
        }
        ASSERT_OK(zkl_double_barrier_leave(next, 10000, NULL));
        ASSERT_OK(finish(&call));
        zkl_double_barrier_free(call.barrier);
        zkl_double_barrier_free(next);
        kit_tear_down();
    }
    CU_ASSERT(unanswered > 0);
}

TESTS("barrier")
