/* Once per slot, on the in-process store. */
#include "lock_kit.h"

#define JOB "/jobs/report"
#define SLOT INT64_C(315360000000) /* ms: so long that none ends in the middle of a test */

static int runs;

static int work(const zkl_cancel *cancel, int64_t token, void *payload)
{
    CU_ASSERT(!zkl_cancel_raised(cancel));
    CU_ASSERT(token > 0);
    runs++;
    return *(int *)payload;
}

/* The job, which ends with that result, runs or does not. */
static void once(zkl_lock *lock, int result, bool runs_now)
{
    zkl_error err = {0};
    int got = 99, before = runs;
    bool ran;
    ASSERT_OK(zkl_once_run(lock, SLOT, 0, 10000, work, &result, &ran, &got, &err));
    CU_ASSERT_EQUAL(err.code, ZKL_OK); /* untouched when all is well */
    CU_ASSERT_EQUAL(ran, runs_now);
    CU_ASSERT_EQUAL(runs - before, runs_now ? 1 : 0);
    CU_ASSERT_EQUAL(got, runs_now ? result : 99);
}

/* What is recorded of its slots of that length. */
static void expect_last(int64_t length_ms, int64_t expected_ms)
{
    int64_t last_ms = 7, recorded_ms = 7;
    zkl_error err = {0};
    ASSERT_OK(zkl_once_last(one, JOB, length_ms, 10000, &last_ms, &recorded_ms, &err));
    CU_ASSERT_EQUAL(err.code, 0);
    CU_ASSERT_EQUAL(last_ms, expected_ms);
    CU_ASSERT_EQUAL(recorded_ms == INT64_MIN, last_ms == INT64_MIN);
}

static zkl_once_slot look(zkl_lock *lock, bool done)
{
    zkl_once_slot slot;
    ASSERT_OK(zkl_once_look(lock, SLOT, 0, 10000, &slot, NULL));
    CU_ASSERT_EQUAL(slot.done, done);
    return slot;
}

TEST_WITH_SESSIONS(test_once_over_all_hosts)
{
    zkl_lock *locks[2] = {kit_lock(one, JOB, NULL), kit_lock(two, JOB, NULL)};
    for (int i = 0; i < 6; i++) {
        once(locks[i % 2], 0, i == 0);
    }
}

/* What operators are told: nothing, nothing of a failure, and then the slot, with its time. */
TEST_WITH_SESSIONS(test_what_is_recorded)
{
    zkl_lock *lock = kit_lock(one, JOB, NULL);
    int64_t last_ms, recorded_ms;
    expect_last(SLOT, INT64_MIN);
    once(lock, 1, true);
    expect_last(0, INT64_MIN);
    once(lock, 0, true);
    ASSERT_OK(zkl_once_last(one, JOB, SLOT, 10000, &last_ms, &recorded_ms, NULL));
    CU_ASSERT_EQUAL(last_ms % SLOT, 0);
    CU_ASSERT(recorded_ms >= last_ms - SLOT / 2);
    CU_ASSERT_EQUAL(zkl_once_last(one, JOB, 10, 1000, &last_ms, &recorded_ms, NULL), ZKL_EINVAL);
}

/* The winner is killed half-way: who queued behind it in the same slot runs it. */
TEST_WITH_SESSIONS(test_taken_over_from_the_dead)
{
    zkl_lock *next = kit_lock(two, JOB, NULL);
    zkl_error err;
    struct acquire acquire = {0};
    ASSERT_OK(zkl_once_prepare(one, JOB, 10000, NULL));
    zkl_lock *first = kit_hold(one, JOB, NULL);
    zkl_once_slot slot = look(first, false);
    acquire_start(&acquire, next, 10000);
    kit_await_queue(two, JOB, 2);
    kit_expire(one);
    ASSERT_OK(acquire_join(&acquire));
    kit_await_state(first, ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_once_record(first, &slot, 1000, NULL), ZKL_ELOST);
    slot = look(next, false);
    ASSERT_OK(zkl_testing_refuse(two, ZKL_ELIMIT, 1, NULL));
    CU_ASSERT_EQUAL(zkl_once_record(next, &slot, 10000, NULL), ZKL_ELIMIT);
    ASSERT_OK(zkl_once_record(next, &slot, 10000, NULL));
    slot = look(next, true);
    CU_ASSERT_EQUAL(slot.last_ms, slot.round_ms);
    zkl_once_slot wrong[] = {slot, {0} /* never looked */, slot};
    wrong[2].done = false;
    wrong[2].last_ms = INT64_MIN;
    wrong[2].reserved[0] = 1;
    EACH_ROW (i, wrong) {
        CU_ASSERT_EQUAL(zkl_once_record(next, &wrong[i], 1000, &err), ZKL_EINVAL);
        CU_ASSERT(i != 1 || strstr(err.text, "zkl_once_look"));
    }
}

/* The path was a lock's first, or above one: its directory is a container, and servers remove those when they are empty. */
TEST_WITH_SESSIONS(test_the_record_outlives_a_container)
{
    zkl_lock *lock = kit_hold(one, JOB, NULL), *below = kit_hold(two, JOB "/keeps-the-record", NULL);
    zkl_lock *step = kit_hold(two, JOB "/step", NULL);
    kit_release(lock);
    CU_ASSERT_EQUAL(zkl_once_prepare(one, JOB, 10000, NULL), ZKL_ECONFLICT);
    kit_release(below);
    once(lock, 0, true);
    kit_release(step);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(zkl__memory_reap(PLACE));
    }
    once(lock, 0, false);
    CU_ASSERT_EQUAL(kit_children(one, JOB), 1); /* which keeps it */
}

/* Whoever may not read it has no record, and hears of it before the job waits for its lock. */
TEST_WITH_SESSIONS(test_a_hidden_record)
{
    const zkl_acl hidden = {1, &(const zkl_acl_entry){ZKL_PERM_CREATE, "world", "anyone"}};
    zkl_session *admin = kit_open(SESSION_OPTIONS(.acl = &hidden));
    ASSERT_OK(zkl_barrier_set(admin, JOB, 10000, NULL));
    CU_ASSERT_EQUAL(zkl_once_prepare(one, JOB, 10000, NULL), ZKL_EAUTH);
    kit_close(admin);
}

/* Where once was first, nobody has to keep it, whether a job has succeeded or not. */
TEST_WITH_SESSIONS(test_a_job_of_its_own_needs_no_keeper)
{
    zkl_lock *lock = kit_lock(one, JOB, NULL);
    once(lock, 1, true);
    kit_must_write(ZKL__OP_CREATE, JOB, "locks", NULL); /* with these it is no semaphore */
    kit_must_write(ZKL__OP_CREATE, JOB, "leases", NULL);
    once(lock, 0, true);
    CU_ASSERT_EQUAL(kit_children(one, JOB), 2);
}

/* A record of a slot that has not begun by the servers' clock is nobody's: else nobody would ever run the job again. */
TEST_WITH_SESSIONS(test_a_record_of_the_far_future)
{
    zkl_lock *lock = kit_lock(one, JOB, NULL);
    ASSERT_OK(zkl_once_prepare(one, JOB, 10000, NULL));
    kit_must_write(ZKL__OP_SET, JOB, NULL, "999999999999999999");
    expect_last(0, INT64_C(999999999999999999));
    expect_last(SLOT, INT64_MIN);
    once(lock, 0, true);
    once(lock, 0, false);
}

TEST_WITH_SESSIONS(test_a_record_that_is_none)
{
    zkl_lock *lock = kit_lock(one, JOB, NULL);
    int64_t last_ms, recorded_ms;
    zkl_error err = {0};
    zkl_once_slot slot;
    ASSERT_OK(zkl_once_prepare(one, JOB, 10000, NULL));
    CU_ASSERT_EQUAL(zkl_once_look(lock, SLOT, 0, 1000, &slot, NULL), ZKL_ENOTHELD);
    kit_acquire(lock);
    kit_must_write(ZKL__OP_SET, JOB, NULL, "held by x");
    CU_ASSERT_EQUAL(zkl_once_look(lock, SLOT, 0, 1000, &slot, &err), ZKL_ECONFLICT);
    CU_ASSERT_STRING_EQUAL(err.path, JOB);
    CU_ASSERT_EQUAL(zkl_once_last(one, JOB, SLOT, 1000, &last_ms, &recorded_ms, NULL), ZKL_ECONFLICT);
    CU_ASSERT_EQUAL(zkl_once_look(lock, 10, 0, 1000, &slot, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_once_look(lock, SLOT, SLOT, 1000, &slot, NULL), ZKL_EINVAL);
}

static int lose(const zkl_cancel *cancel, int64_t token, void *payload)
{
    kit_remove_node(payload);
    kit_await_state(payload, ZKL_STATE_LOST);
    return 0;
}

/* The record is refused, and then the release says something, too. */
TEST_WITH_SESSIONS(test_code_and_words_belong_together)
{
    zkl_error err;
    bool ran = false;
    zkl_lock *lock = kit_lock(one, JOB "/lost", NULL);
    CU_ASSERT_EQUAL(zkl_once_run(lock, SLOT, 0, 10000, lose, lock, &ran, NULL, &err), ZKL_ELOST);
    CU_ASSERT(ran);
    CU_ASSERT_EQUAL(err.code, ZKL_ELOST);
    CU_ASSERT_STRING_EQUAL(err.text, "the lock was lost");
}

/* --- done, and then the lock is lost -------------------------------------------------------------------------------- */

struct away {
    zkl_lock *lock; /* of session one */
    pthread_t thread;
};

/* Comes back when the lease is over. */
static void *come_back(void *lock)
{
    kit_await_session(one, ZKL_SESSION_SUSPENDED);
    ASSERT_EVENTUALLY(!zkl_lock_is_held(lock));
    kit_resume(one);
    return NULL;
}

/* A job that succeeds, and whose connection goes before the record is answered. */
static int succeed_and_go_away(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct away *away = payload;
    kit_break(one, 0, 0, 1);
    kit_start_thread(&away->thread, come_back, away->lock);
    return 0;
}

/* ZKL_OK says that the slot is recorded, also when the lock is lost by then. */
TEST_WITH_SESSIONS_OF(kit_ends_soon, test_recorded_after_the_lease)
{
    struct away away = {.lock = kit_lock(one, JOB, NULL)};
    zkl_error err = {.code = 77};
    bool ran = false;
    ASSERT_OK(zkl_once_run(away.lock, SLOT, 0, 10000, succeed_and_go_away, &away, &ran, NULL, &err));
    pthread_join(away.thread, NULL);
    CU_ASSERT(ran);
    CU_ASSERT_EQUAL(err.code, 77);
    look(kit_hold(two, JOB, NULL), true);
}

/* Two readers would both run the job; permits have a queue of their own; a znode that lingers has the ctime of an earlier slot; and
 * a release mark is written where the record is. So nobody may write one over a record. */
TEST_WITH_SESSIONS(test_only_under_a_plain_lock)
{
    static const struct {
        zkl_recipe recipe;
        int64_t linger_ms, delay_ms;
        bool recover;
    } others[] = {{.recipe = ZKL_RECIPE_READ_LOCK},
                  {.recipe = ZKL_RECIPE_SEMAPHORE},
                  {.recipe = ZKL_RECIPE_ELECTION, .delay_ms = 100},
                  {.linger_ms = 60000},
                  {.recover = true},
                  {.delay_ms = 100}};
    zkl_once_slot slot = {.done = false};
    zkl_error err;
    bool ran = true;
    zkl_lock *nowhere = kit_lock(one, JOB "/nowhere", NULL);
    CU_ASSERT_EQUAL(zkl_once_run(nowhere, 1000, 1000, 0, work, NULL, NULL, NULL, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(kit_write(ZKL__OP_CHECK, JOB, "nowhere", NULL), ZKL__RC_NONODE);
    once(kit_lock(one, JOB, NULL), 0, true);
    EACH_ROW (i, others) {
        zkl_lock *lock = kit_make(others[i].recipe, one, JOB,
                                  LOCK_OPTIONS(.linger_ms = others[i].linger_ms, .recover = others[i].recover,
                                               .delay_after_crash_ms = others[i].delay_ms));
        CU_ASSERT_EQUAL(zkl_once_run(lock, 60000, 0, 5000, work, NULL, &ran, NULL, &err), ZKL_EINVAL);
        CU_ASSERT_FALSE(ran);
        ASSERT_SAYS(err, others[i].recipe == ZKL_RECIPE_LOCK ? "linger_ms, recover" : "recipe");
        CU_ASSERT_EQUAL(zkl_once_look(lock, 60000, 0, 5000, &slot, NULL), ZKL_EINVAL);
        CU_ASSERT_EQUAL(zkl_once_record(lock, &slot, 5000, NULL), ZKL_EINVAL);
        if (others[i].recover || others[i].delay_ms > 0) {
            CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, &err), ZKL_ECONFLICT);
            ASSERT_SAYS(err, "a job's record (once)");
            CU_ASSERT_STRING_EQUAL(err.path, JOB);
        }
    }
    once(kit_lock(two, JOB, NULL), 0, false);
}

/* Another host held the lock while the job ran, and the same object holds it again: the job is not
 * recorded under that grant, and the grant stays. */
TEST_WITH_SESSIONS(test_a_grant_that_is_replaced)
{
    struct handle_replaced replaced = {.lock = kit_lock(one, JOB, NULL), .rival = kit_lock(two, JOB, NULL)};
    bool ran = false;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_once_run(replaced.lock, SLOT, 0, 10000, handle_replace, &replaced, &ran, NULL, &err),
                    ZKL_ELOST);
    CU_ASSERT_EQUAL(err.code, ZKL_ELOST);
    CU_ASSERT(ran);
    expect_last(SLOT, INT64_MIN);
    CU_ASSERT_EQUAL(zkl_lock_token(replaced.lock), replaced.second.token);
    kit_release(replaced.lock);
}

TESTS("once")
