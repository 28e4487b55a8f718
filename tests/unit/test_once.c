/* Once per slot, on the in-process store. */
#include "lock_kit.h"

#define JOB "/jobs/report"
#define HOUR INT64_C(3600000)

static int runs;

static int work(const zkl_cancel *cancel, int64_t token, void *payload)
{
    CU_ASSERT(!zkl_cancel_raised(cancel));
    CU_ASSERT(token > 0);
    runs++;
    return *(int *)payload;
}

static int once(zkl_lock *lock, int result, bool *ran)
{
    zkl_error err = {0};
    int got = 99;
    int rc = zkl_once_run(lock, HOUR, 0, 10000, work, &result, ran, &got, &err);
    CU_ASSERT_EQUAL(err.code, rc); /* untouched when all is well */
    if (rc == ZKL_OK && *ran) {
        CU_ASSERT_EQUAL(got, result);
    }
    return rc;
}

TEST(test_once_over_all_hosts)
{
    zkl_session *sessions[2] = {kit_open(NULL), kit_open(NULL)};
    zkl_lock *locks[2] = {kit_lock(sessions[0], JOB, NULL), kit_lock(sessions[1], JOB, NULL)};
    bool ran;
    runs = 0;
    for (int i = 0; i < 6; i++) {
        ASSERT_OK(once(locks[i % 2], 0, &ran));
        CU_ASSERT_EQUAL(ran, i == 0);
    }
    CU_ASSERT_EQUAL(runs, 1);
    for (int i = 0; i < 2; i++) {
        kit_free(locks[i]);
        kit_close(sessions[i]);
    }
}

TEST_WITH_SESSIONS(test_a_failure_is_not_recorded)
{
    zkl_lock *lock = kit_lock(one, JOB, NULL);
    bool ran;
    runs = 0;
    ASSERT_OK(once(lock, 1, &ran));
    CU_ASSERT(ran);
    ASSERT_OK(once(lock, 0, &ran));
    CU_ASSERT(ran);
    ASSERT_OK(once(lock, 0, &ran));
    CU_ASSERT(!ran);
    CU_ASSERT_EQUAL(runs, 2);
}

/* What operators are told: nothing, nothing of a failure, and then the slot, with its time. */
TEST_WITH_SESSIONS(test_what_is_recorded)
{
    zkl_lock *lock = kit_lock(one, JOB, NULL);
    int64_t last_ms = 7, recorded_ms = 7;
    zkl_error err = {0};
    bool ran;
    ASSERT_OK(zkl_once_last(one, JOB, HOUR, 10000, &last_ms, &recorded_ms, &err));
    CU_ASSERT(last_ms == INT64_MIN && recorded_ms == INT64_MIN);
    CU_ASSERT_EQUAL(err.code, 0);
    ASSERT_OK(once(lock, 1, &ran));
    ASSERT_OK(zkl_once_last(one, JOB, 0, 10000, &last_ms, &recorded_ms, &err));
    CU_ASSERT(last_ms == INT64_MIN && recorded_ms == INT64_MIN);
    ASSERT_OK(once(lock, 0, &ran));
    ASSERT_OK(zkl_once_last(one, JOB, HOUR, 10000, &last_ms, &recorded_ms, &err));
    CU_ASSERT_EQUAL(last_ms % HOUR, 0);
    CU_ASSERT(recorded_ms >= last_ms - HOUR / 2);
    CU_ASSERT_EQUAL(zkl_once_last(one, JOB, 10, 1000, &last_ms, &recorded_ms, &err), ZKL_EINVAL);
}

/* The winner is killed half-way: who queued behind it in the same slot runs it. */
TEST_WITH_SESSIONS(test_taken_over_from_the_dead)
{
    zkl_lock *first = kit_lock(one, JOB, NULL), *next = kit_lock(two, JOB, NULL);
    zkl_once_slot slot;
    struct acquire acquire = {0};
    ASSERT_OK(zkl_once_prepare(one, JOB, 10000, NULL));
    kit_acquire(first);
    ASSERT_OK(zkl_once_look(first, HOUR, 0, 10000, &slot, NULL));
    CU_ASSERT(!slot.done);
    acquire_start(&acquire, next, 10000);
    ASSERT_EVENTUALLY(kit_queue(two, JOB) == 2);
    zkl__memory_expire(zkl_session_id(one));
    ASSERT_OK(acquire_join(&acquire));
    ASSERT_EVENTUALLY(zkl_lock_state(first) == ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_once_record(first, &slot, 1000, NULL), ZKL_ELOST);
    ASSERT_OK(zkl_once_look(next, HOUR, 0, 10000, &slot, NULL));
    CU_ASSERT(!slot.done);
    ASSERT_OK(zkl_once_record(next, &slot, 10000, NULL));
    ASSERT_OK(zkl_once_look(next, HOUR, 0, 10000, &slot, NULL));
    CU_ASSERT(slot.done && slot.last_ms == slot.round_ms);
    CU_ASSERT_EQUAL(zkl_once_record(next, &slot, 1000, NULL), ZKL_EINVAL);
    zkl_once_slot never_looked = {0};
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_once_record(next, &never_looked, 1000, &err), ZKL_EINVAL);
    ASSERT_SAYS(err, "zkl_once_look");
    slot.done = false;
    slot.last_ms = INT64_MIN;
    slot.reserved[0] = 1;
    CU_ASSERT_EQUAL(zkl_once_record(next, &slot, 1000, NULL), ZKL_EINVAL);
}

/* The path was a lock's first: its directory is a container, and servers remove those when they are empty. */
TEST_WITH_SESSIONS(test_the_record_outlives_a_container)
{
    zkl_lock *lock = kit_lock(one, JOB, NULL);
    bool ran;
    runs = 0;
    kit_acquire(lock);
    kit_release(lock);
    ASSERT_OK(once(lock, 0, &ran));
    CU_ASSERT(ran);
    ASSERT_OK(zkl__memory_reap(PLACE));
    ASSERT_OK(once(lock, 0, &ran));
    CU_ASSERT(!ran);
    CU_ASSERT_EQUAL(runs, 1);
}

/* A record of a slot that has not begun by the servers' clock is nobody's: else nobody would ever run the job again. */
TEST_WITH_SESSIONS(test_a_record_of_the_far_future)
{
    zkl_lock *lock = kit_lock(one, JOB, NULL);
    struct zkl__op op = {.kind = ZKL__OP_SET, .dir = JOB, .data = "999999999999999999", .size = 18, .version = -1};
    enum zkl__rc done;
    int64_t last_ms, recorded_ms;
    bool ran;
    runs = 0;
    ASSERT_OK(zkl_once_prepare(one, JOB, 10000, NULL));
    ASSERT_OK(zkl__memory_meddle(PLACE, &op, &done));
    ASSERT_OK(zkl_once_last(one, JOB, 0, 10000, &last_ms, &recorded_ms, NULL));
    CU_ASSERT_EQUAL(last_ms, INT64_C(999999999999999999));
    ASSERT_OK(zkl_once_last(one, JOB, HOUR, 10000, &last_ms, &recorded_ms, NULL));
    CU_ASSERT(last_ms == INT64_MIN && recorded_ms == INT64_MIN);
    ASSERT_OK(once(lock, 0, &ran));
    CU_ASSERT(ran);
    ASSERT_OK(once(lock, 0, &ran));
    CU_ASSERT(!ran);
    CU_ASSERT_EQUAL(runs, 1);
}

TEST_WITH_SESSIONS(test_a_record_that_is_none)
{
    zkl_lock *lock = kit_lock(one, JOB, NULL);
    struct zkl__op op = {.kind = ZKL__OP_SET, .dir = JOB, .data = "held by x", .size = 9, .version = -1};
    enum zkl__rc done;
    zkl_error err = {0};
    zkl_once_slot slot;
    ASSERT_OK(zkl_once_prepare(one, JOB, 10000, NULL));
    CU_ASSERT_EQUAL(zkl_once_look(lock, HOUR, 0, 1000, &slot, &err), ZKL_ENOTHELD);
    kit_acquire(lock);
    zkl__memory_meddle(PLACE, &op, &done);
    CU_ASSERT_EQUAL(zkl_once_look(lock, HOUR, 0, 1000, &slot, &err), ZKL_ECONFLICT);
    int64_t last_ms, recorded_ms;
    CU_ASSERT_EQUAL(zkl_once_last(one, JOB, HOUR, 1000, &last_ms, &recorded_ms, NULL), ZKL_ECONFLICT);
    CU_ASSERT_STRING_EQUAL(err.path, JOB);
    CU_ASSERT_EQUAL(zkl_once_look(lock, 10, 0, 1000, &slot, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_once_look(lock, HOUR, HOUR, 1000, &slot, &err), ZKL_EINVAL);
}

static int lose(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)cancel, (void)token;
    kit_remove_node(payload);
    ASSERT_EVENTUALLY(zkl_lock_state(payload) == ZKL_STATE_LOST);
    return 0;
}

/* The record is refused, and then the release says something, too. */
TEST_WITH_SESSIONS(test_code_and_words_belong_together)
{
    zkl_error err = {0};
    bool ran = false;
    zkl_lock *lock = kit_lock(one, JOB "/lost", NULL);
    CU_ASSERT_EQUAL(zkl_once_run(lock, HOUR, 0, 10000, lose, lock, &ran, NULL, &err), ZKL_ELOST);
    CU_ASSERT(ran);
    CU_ASSERT_EQUAL(err.code, ZKL_ELOST);
    CU_ASSERT_STRING_EQUAL(err.text, "the lock was lost");
}

/* --- done, and then the lock is lost -------------------------------------------------------------------------------- */

struct away {
    zkl_session *session;
    zkl_lock *lock;
    int64_t id;
    bool ends; /* the session, while it is away */
    pthread_t thread;
};

/* Comes back when the lease is over; the session may have ended meanwhile. */
static void *come_back(void *arg)
{
    struct away *away = arg;
    ASSERT_EVENTUALLY(zkl_session_state(away->session) == ZKL_SESSION_SUSPENDED);
    ASSERT_EVENTUALLY(!zkl_lock_is_held(away->lock));
    if (away->ends) {
        zkl__memory_expire(away->id);
    }
    zkl__memory_resume(away->id);
    return NULL;
}

/* A job that succeeds, and whose connection goes before the record is answered. */
static int succeed_and_go_away(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct away *away = payload;
    (void)cancel, (void)token;
    away->id = zkl_session_id(away->session);
    zkl__memory_break(away->id, 0, away->ends, !away->ends);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&away->thread, NULL, come_back, away), 0);
    return 0;
}

static bool is_done(zkl_session *session, const char *path)
{
    zkl_once_slot slot = {.done = false};
    zkl_lock *lock = kit_hold(session, path, NULL);
    ASSERT_OK(zkl_once_look(lock, HOUR, 0, 10000, &slot, NULL));
    kit_free(lock);
    return slot.done;
}

/* ZKL_OK says that the slot is recorded, and nothing else does. */
static void run_and_go_away(const char *path, bool ends)
{
    zkl_session_options options = kit_short();
    zkl_error err = {.code = 77};
    bool ran = false;
    zkl_session *other = kit_open(NULL);
    struct away away = {.session = kit_open(&options), .ends = ends};
    away.lock = kit_lock(away.session, path, NULL);
    int rc = zkl_once_run(away.lock, HOUR, 0, 10000, succeed_and_go_away, &away, &ran, NULL, &err);
    pthread_join(away.thread, NULL);
    CU_ASSERT(ran);
    CU_ASSERT_EQUAL(rc == ZKL_OK, is_done(other, path));
    CU_ASSERT_EQUAL(err.code, rc == ZKL_OK ? 77 : rc);
    CU_ASSERT(rc == ZKL_OK || ends); /* a heartbeat may have been what was applied in the record's place */
    kit_free(away.lock);
    kit_close(away.session);
    kit_close(other);
}

TEST(test_recorded_after_the_lease)
{
    run_and_go_away(JOB "/late", false);
}

TEST(test_recorded_and_then_lost)
{
    run_and_go_away(JOB "/recorded", true);
}

/* Two readers would both run the job; permits have a queue of their own. */
TEST_WITH_SESSIONS(test_only_under_a_lock)
{
    zkl_once_slot slot = {.done = false};
    zkl_lock *others[3];
    zkl_error err;
    ASSERT_OK_FATAL(zkl_read_lock_new(&others[0], one, "/jobs/read", NULL, NULL));
    ASSERT_OK_FATAL(zkl_semaphore_new(&others[1], one, "/jobs/permits", 2, NULL, NULL));
    ASSERT_OK_FATAL(zkl_election_new(&others[2], one, "/jobs/leader", NULL, NULL));
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(zkl_once_run(others[i], 60000, 0, 5000, work, NULL, NULL, NULL, &err), ZKL_EINVAL);
        ASSERT_SAYS(err, "recipe");
        CU_ASSERT_EQUAL(zkl_once_look(others[i], 60000, 0, 5000, &slot, NULL), ZKL_EINVAL);
        CU_ASSERT_EQUAL(zkl_once_record(others[i], &slot, 5000, NULL), ZKL_EINVAL);
        kit_free(others[i]);
    }
}

struct replaced {
    zkl_lock *lock, *rival;
    int64_t second;
};

static int replace_grant(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct replaced *replaced = payload;
    zkl_grant grant;
    kit_release(replaced->lock);
    kit_acquire(replaced->rival);
    kit_release(replaced->rival);
    ASSERT_OK(zkl_lock_acquire(replaced->lock, 10000, &grant, NULL));
    CU_ASSERT(grant.token > token && zkl_cancel_raised(cancel));
    replaced->second = grant.token;
    return 0;
}

/* Another host held the lock while the job ran, and the same object holds it again: the job is not
 * recorded under that grant, and the grant stays. */
TEST_WITH_SESSIONS(test_a_grant_that_is_replaced)
{
    struct replaced replaced = {kit_lock(one, JOB, NULL), kit_lock(two, JOB, NULL), 0};
    int64_t last_ms, recorded_ms;
    bool ran = false;
    zkl_error err = {0};
    CU_ASSERT_EQUAL(zkl_once_run(replaced.lock, HOUR, 0, 10000, replace_grant, &replaced, &ran, NULL, &err), ZKL_ELOST);
    CU_ASSERT_EQUAL(err.code, ZKL_ELOST);
    CU_ASSERT_TRUE(ran);
    ASSERT_OK(zkl_once_last(one, JOB, HOUR, 10000, &last_ms, &recorded_ms, NULL));
    CU_ASSERT_EQUAL(last_ms, INT64_MIN);
    CU_ASSERT_EQUAL(zkl_lock_token(replaced.lock), replaced.second);
    kit_release(replaced.lock);
    kit_free(replaced.lock);
    kit_free(replaced.rival);
}

TESTS("once")
