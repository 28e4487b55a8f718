/* Barriers and jobs without waiting: each call ends once, whatever ends it. The table has every call; what each does when nothing is in its
 * way, test_barrier and test_once ask of the same machines in their blocking form. */
#include <string.h>
#include <zklock/testing.h>

#include "lock_kit.h"

#define PATH "/barriers/later"
#define JOB "/jobs/later"
#define HOUR INT64_C(3600000)

static struct mailbox box = MAILBOX_INIT;

static void on_done(int code, const zkl_error *err, void *payload)
{
    struct letter letter = {.code = code, .thread = pthread_self()};
    snprintf(letter.text, sizeof letter.text, "%s", code == ZKL_OK ? "" : err->text);
    mailbox_put(payload, letter);
}

/* --- every call, in a session that may not hear ---------------------------------------------------------------------- */

static struct {
    zkl_double_barrier *outside, *inside;
    zkl_lock *lock;
    zkl_once_slot slot;
    int64_t last, recorded;
} things;

static int set(int64_t ms, zkl_done_fn done, zkl_error *err)
{
    return zkl_barrier_set_async(one, PATH "/up", ms, done, &box, err);
}

static int lift(int64_t ms, zkl_done_fn done, zkl_error *err)
{
    return zkl_barrier_lift_async(one, PATH "/down", ms, done, &box, err);
}

static int wait(int64_t ms, zkl_done_fn done, zkl_error *err)
{
    return zkl_barrier_wait_async(one, PATH "/stays", ms, done, &box, err);
}

static int enter(int64_t ms, zkl_done_fn done, zkl_error *err)
{
    return zkl_double_barrier_enter_async(things.outside, ms, done, &box, err);
}

static int leave(int64_t ms, zkl_done_fn done, zkl_error *err)
{
    return zkl_double_barrier_leave_async(things.inside, ms, done, &box, err);
}

static int prepare(int64_t ms, zkl_done_fn done, zkl_error *err)
{
    return zkl_once_prepare_async(one, JOB "/other", ms, done, &box, err);
}

static int look(int64_t ms, zkl_done_fn done, zkl_error *err)
{
    return zkl_once_look_async(things.lock, HOUR, 0, ms, &things.slot, done, &box, err);
}

static int record(int64_t ms, zkl_done_fn done, zkl_error *err)
{
    zkl_once_slot slot = things.slot;
    int rc = zkl_once_record_async(things.lock, &slot, ms, done, &box, err);
    memset(&slot, 0xff, sizeof slot); /* it was copied */
    return rc;
}

static int last(int64_t ms, zkl_done_fn done, zkl_error *err)
{
    return zkl_once_last_async(one, JOB, HOUR, ms, &things.last, &things.recorded, done, &box, err);
}

static const struct call {
    const char *name;
    int (*begin)(int64_t ms, zkl_done_fn done, zkl_error *err);
    bool finishes; /* no stop token ends it */
    bool waits;    /* for others, who do not come */
} calls[] = {{"set", set, false, false},    {"lift", lift, true, false},     {"wait", wait, false, true},
             {"enter", enter, false, true}, {"leave", leave, true, true},    {"prepare", prepare, false, false},
             {"look", look, false, false},  {"record", record, true, false}, {"last", last, false, false}};
#define CALLS (sizeof calls / sizeof *calls)

static zkl_double_barrier *member(zkl_session *session, const char *path)
{
    zkl_double_barrier *barrier;
    CU_ASSERT_EQUAL_FATAL(zkl_double_barrier_new(&barrier, session, path, 2, NULL), ZKL_OK);
    return barrier;
}

static zkl_double_barrier *other; /* in with things.inside, and stays */

/* All that the calls need, with everything still well. */
static void begin(zkl_stop *stop)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    mailbox_clear(&box);
    options.stop = stop;
    one = kit_open(&options);
    two = kit_open(NULL);
    CU_ASSERT_EQUAL(zkl_barrier_set(two, PATH "/down", 10000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_barrier_set(two, PATH "/stays", 10000, NULL), ZKL_OK);
    things.outside = member(one, PATH "/outside");
    things.inside = member(one, PATH "/inside");
    other = member(two, PATH "/inside");
    CU_ASSERT_EQUAL(zkl_double_barrier_enter_async(things.inside, 10000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(other, 10000, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(mailbox_last(&box), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_once_prepare(one, JOB, 10000, NULL), ZKL_OK);
    things.lock = kit_lock(one, JOB, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(things.lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_once_look(things.lock, HOUR, 0, 10000, &things.slot, NULL), ZKL_OK);
    mailbox_clear(&box);
}

static void begin_all(int64_t ms)
{
    zkl_error err;
    for (size_t i = 0; i < CALLS; i++) {
        CU_ASSERT_EQUAL(calls[i].begin(ms, on_done, &err), ZKL_OK);
    }
}

static void free_things(void)
{
    zkl_double_barrier_free(things.outside);
    zkl_double_barrier_free(things.inside);
    zkl_lock_free(things.lock);
}

static void end(void)
{
    free_things();
    zkl_double_barrier_free(other);
    kit_tear_down();
}

static void expect_all(int code)
{
    CU_ASSERT_TRUE(mailbox_wait(&box, CALLS));
    for (size_t i = 0; i < CALLS; i++) {
        CU_ASSERT_EQUAL(box.letters[i].code, code);
    }
}

static int letters_of(int code)
{
    int count = 0;
    for (size_t i = 0; i < mailbox_count(&box); i++) {
        count += box.letters[i].code == code;
    }
    return count;
}

/* --- how they end ---------------------------------------------------------------------------------------------------- */

static size_t waiting(void)
{
    size_t count = 0;
    for (size_t i = 0; i < CALLS; i++) {
        count += calls[i].waits;
    }
    return count;
}

/* All is well: those that wait for nobody are done, the others when the others come. */
static void test_done(void)
{
    begin(NULL);
    begin_all(10000);
    CU_ASSERT_TRUE(mailbox_wait(&box, CALLS - waiting()));
    CU_ASSERT_EQUAL(letters_of(ZKL_OK), (int)(CALLS - waiting()));
    CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH "/down", 10000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH "/up", 20, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl_barrier_lift(two, PATH "/stays", 10000, NULL), ZKL_OK);
    zkl_double_barrier *last_one = member(two, PATH "/outside");
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(last_one, 10000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_double_barrier_leave(other, 10000, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, CALLS));
    CU_ASSERT_EQUAL(letters_of(ZKL_OK), (int)CALLS);
    CU_ASSERT_EQUAL(zkl_once_last(two, JOB, HOUR, 10000, &things.last, &things.recorded, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(things.last, things.slot.round_ms);
    zkl_double_barrier_free(last_one);
    end();
    CU_ASSERT_EQUAL(mailbox_count(&box), CALLS);
}

static void test_in_time(void)
{
    begin(NULL);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    begin_all(30);
    expect_all(ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(two, PATH "/outside") == 0)); /* it has left again */
    CU_ASSERT(EVENTUALLY(kit_queue(two, PATH "/inside") == 1));
    end();
}

/* A request is lost, or its reply: each call goes on when there is a connection again. */
static void test_cut_off(void)
{
    for (int half = 0; half < 3; half++) {
        for (size_t i = 0; i < CALLS; i++) {
            if (calls[i].waits) {
                continue;
            }
            begin(NULL);
            zkl__memory_break(zkl_session_id(one), (size_t)(half > 1), half > 0, half == 0);
            CU_ASSERT_EQUAL(calls[i].begin(10000, on_done, NULL), ZKL_OK);
            CU_ASSERT(EVENTUALLY(zkl_session_state(one) != ZKL_SESSION_CONNECTED || mailbox_count(&box) == 1));
            zkl__memory_break(zkl_session_id(one), 0, 0, 0);
            zkl__memory_resume(zkl_session_id(one));
            CU_ASSERT_TRUE(mailbox_wait(&box, 1));
            CU_ASSERT_EQUAL(mailbox_last(&box), ZKL_OK);
            end();
            CU_ASSERT_EQUAL(mailbox_count(&box), 1);
        }
    }
}

static void test_stopped(void)
{
    zkl_stop stop = ZKL_STOP_INIT;
    size_t ended = 0;
    begin(&stop);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    begin_all(10000);
    for (size_t i = 0; i < CALLS; i++) {
        ended += !calls[i].finishes;
    }
    zkl_stop_raise(&stop);
    CU_ASSERT_TRUE(mailbox_wait(&box, ended));
    CU_ASSERT_EQUAL(letters_of(ZKL_ECANCELED), (int)ended);
    for (size_t i = 0; i < CALLS; i++) {
        CU_ASSERT_TRUE(calls[i].finishes || calls[i].begin(10000, on_done, NULL) == ZKL_ECANCELED);
    }
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, ended + 2)); /* lift and record; leave waits for the other one */
    CU_ASSERT_EQUAL(zkl_double_barrier_leave(other, 10000, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, CALLS));
    CU_ASSERT_EQUAL(letters_of(ZKL_OK), (int)(CALLS - ended));
    CU_ASSERT_EQUAL(zkl_barrier_wait(two, PATH "/down", 10000, NULL), ZKL_OK);
    end();
}

/* The blocking forms of what others wait for. */
static void test_what_ends_something_goes_on(void)
{
    zkl_stop stop = ZKL_STOP_INIT;
    begin(&stop);
    zkl_stop_raise(&stop);
    CU_ASSERT_EQUAL(zkl_barrier_lift(one, PATH "/down", 10000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_barrier_set(one, PATH "/up", 1000, NULL), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(things.outside, 1000, NULL), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_double_barrier_leave(things.inside, 20, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(kit_queue(two, PATH "/inside"), 1);
    end();
}

/* With their objects: done is called before the free returns. What belongs to the session alone goes on. */
static void test_freed(void)
{
    begin(NULL);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    begin_all(10000);
    free_things();
    CU_ASSERT_EQUAL(letters_of(ZKL_ECANCELED), 4);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_barrier_lift(two, PATH "/stays", 10000, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, CALLS));
    CU_ASSERT_EQUAL(letters_of(ZKL_OK), (int)CALLS - 4);
    CU_ASSERT(EVENTUALLY(kit_queue(two, PATH "/inside") == 1));
    zkl_double_barrier_free(other);
    kit_tear_down();
}

static void test_closed(void)
{
    begin(NULL);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    begin_all(10000);
    zkl_session_close(one, 20);
    CU_ASSERT_EQUAL(mailbox_count(&box), CALLS);
    expect_all(ZKL_ECLOSED);
    free_things();
    CU_ASSERT_EQUAL(kit_queue(two, PATH "/inside"), 1);
    zkl_double_barrier_free(other);
    kit_close(two);
}

static void test_entered_twice(void)
{
    begin(NULL);
    CU_ASSERT_EQUAL(enter(10000, on_done, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(enter(10000, on_done, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(mailbox_last(&box), ZKL_EDEADLK);
    zkl_double_barrier *third = member(two, PATH "/outside"); /* the first still waits */
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(third, 10000, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(mailbox_last(&box), ZKL_OK);
    zkl_double_barrier_free(third);
    end();
    CU_ASSERT_EQUAL(mailbox_count(&box), 2);
}

static const char *node_of(const zkl_double_barrier *barrier, char node[ZKL_PATH_MAX + 1])
{
    zkl_lock_node((const zkl_lock *)barrier, node, ZKL_PATH_MAX + 1);
    return node;
}

/* In again, while the leave still waits for the other one: the end of that leave leaves the new place alone. */
static void test_in_again_before_all_are_out(void)
{
    char mine[ZKL_PATH_MAX + 1], others[ZKL_PATH_MAX + 1];
    begin(NULL);
    bool first = strcmp(node_of(things.inside, mine), node_of(other, others)) < 0; /* it would leave last */
    zkl_double_barrier *leaver = first ? other : things.inside;
    CU_ASSERT_EQUAL(zkl_double_barrier_leave_async(leaver, 100, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(two, PATH "/inside") == 1));
    CU_ASSERT_EQUAL(zkl_double_barrier_enter_async(leaver, 10000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(letters_of(ZKL_OK), 1);
    CU_ASSERT_EQUAL(letters_of(ZKL_ETIMEOUT), 1);
    CU_ASSERT_EQUAL(kit_queue(two, PATH "/inside"), 2);
    end();
}

static void test_bad_calls(void)
{
    zkl_error err;
    begin(NULL);
    for (size_t i = 0; i < CALLS; i++) {
        CU_ASSERT_EQUAL(calls[i].begin(10000, NULL, &err), ZKL_EINVAL);
        CU_ASSERT_STRING_EQUAL(err.text, "done is NULL");
        CU_ASSERT_EQUAL(calls[i].begin(-2, on_done, &err), ZKL_EINVAL);
    }
    CU_ASSERT_EQUAL(zkl_barrier_wait_async(NULL, PATH, 0, on_done, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_barrier_set_async(one, "no slash", 0, on_done, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_double_barrier_leave_async(things.outside, 0, on_done, &box, &err), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_double_barrier_leave_async(things.inside, 0, NULL, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(things.inside, 0, &err), ZKL_EDEADLK); /* refused: it is still in */
    CU_ASSERT_EQUAL(zkl_double_barrier_enter_async(NULL, 0, on_done, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    end();
}

TESTS("barrier async", T(test_done), T(test_in_time), T(test_cut_off), T(test_stopped),
      T(test_what_ends_something_goes_on), T(test_freed), T(test_closed), T(test_entered_twice),
      T(test_in_again_before_all_are_out), T(test_bad_calls))
