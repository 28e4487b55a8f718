/* pthread_cancel: no call of the library is a cancellation point, and none keeps the session's mutex. */
#include "lock_kit.h"

#define PATH "/cancel"

/* A thread that is cancelled: in the middle of what it does, or before it begins. */
struct victim {
    pthread_t thread;
    zkl_lock *lock; /* of session one */
    int (*act)(struct victim *victim);
    int code, calls;
    atomic_bool ready, go;
};

static void *live(void *arg)
{
    struct victim *victim = arg;
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    victim->ready = true;
    while (!victim->go) {
        usleep(100);
    }
    pthread_setcancelstate(before, NULL);
    victim->code = victim->act(victim);
    pthread_testcancel();
    return NULL;
}

static void victim_start(struct victim *victim, int (*act)(struct victim *))
{
    victim->act = act;
    victim->code = 99;
    kit_start_thread(&victim->thread, live, victim);
    ASSERT_EVENTUALLY(victim->ready);
}

/* Its end was that of a cancelled thread, and not before its call had returned. */
static int victim_end(struct victim *victim)
{
    void *result;
    ASSERT_OK(pthread_join(victim->thread, &result));
    CU_ASSERT_PTR_EQUAL(result, PTHREAD_CANCELED);
    return victim->code;
}

/* Cancelled before its first call. */
static int victim_run(struct victim *victim, int (*act)(struct victim *))
{
    victim_start(victim, act);
    pthread_cancel(victim->thread);
    victim->go = true;
    return victim_end(victim);
}

static int wait_for_it(struct victim *victim)
{
    return zkl_lock_acquire(victim->lock, 60000, NULL, NULL);
}

TEST_WITH_SESSIONS(test_while_it_waits)
{
    zkl_lock *first = kit_hold(one, PATH, NULL);
    struct victim victim = {.lock = kit_lock(one, PATH, NULL)};
    victim_start(&victim, wait_for_it);
    victim.go = true;
    kit_await_queue(one, PATH, 2);
    pthread_cancel(victim.thread);
    kit_release(first);
    ASSERT_OK(victim_end(&victim));
    CU_ASSERT(zkl_lock_is_held(victim.lock)); /* as if it had ended by itself: it is anybody's to release */
    kit_release(victim.lock);
}

/* A cancellation point. */
static void pause_a_little(void)
{
    usleep(1);
}

static void log_slowly(const zkl_log_record *record, void *payload)
{
    pause_a_little();
}

static int section(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct victim *victim = payload;
    pause_a_little();
    victim->calls++;
    return zkl_cancel_raised(cancel);
}

static int do_everything(struct victim *victim)
{
    static zkl_stop stop;
    zkl_session *other;
    zkl_lock *lock;
    int rc = zkl_lock_acquire(victim->lock, 10000, NULL, NULL);
    rc = rc == ZKL_OK ? zkl_lock_release(victim->lock, NULL) : rc;
    rc = rc == ZKL_OK ? zkl_with_lock(victim->lock, 10000, 0, section, victim, NULL, NULL) : rc;
    rc = rc == ZKL_OK ? zkl_session_open(&other, PLACE, SESSION_OPTIONS(.stop = &stop), NULL) : rc;
    rc = rc == ZKL_OK ? zkl_lock_new(&lock, other, PATH "/2", NULL, NULL) : rc;
    rc = rc == ZKL_OK ? zkl_lock_acquire(lock, 0, NULL, NULL) : rc;
    if (rc == ZKL_OK) {
        zkl_lock_free(lock);
        zkl_stop_raise(&stop);
        rc = zkl_session_close(other, 10000);
    }
    return rc;
}

TEST(test_before_many_calls)
{
    kit_set_up(SESSION_OPTIONS(.log_fn = log_slowly, .log_level = ZKL_LOG_DEBUG));
    struct victim victim = {.lock = kit_lock(one, PATH, NULL)};
    ASSERT_OK(victim_run(&victim, do_everything));
    CU_ASSERT_EQUAL(victim.calls, 1);
    kit_acquire(victim.lock);
    kit_tear_down();
}

static void on_done(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct victim *victim = payload;
    pause_a_little();
    victim->calls++;
}

static int dispatch(struct victim *victim)
{
    return zkl_session_dispatch(one);
}

/* Callbacks in dispatch, too: else nobody's would run any more. */
TEST_WITH_SESSIONS_OF(kit_dispatched, test_in_dispatch)
{
    struct victim victim = {.lock = kit_lock(one, PATH, NULL)};
    kit_acquire_async(victim.lock, on_done, &victim);
    ASSERT_EVENTUALLY(zkl_lock_is_held(victim.lock));
    CU_ASSERT_EQUAL(victim_run(&victim, dispatch), 1);
    CU_ASSERT_EQUAL(victim.calls, 1);
    kit_release(victim.lock);
    kit_acquire_async(victim.lock, on_done, &victim);
    ASSERT_EVENTUALLY((zkl_session_dispatch(one), victim.calls == 2));
}

/* Who has switched cancellation off finds it so. */
static int look_at_state(struct victim *victim)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    zkl_lock_state(victim->lock);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    return before;
}

TEST_WITH_SESSIONS(test_its_own_state_is_kept)
{
    struct victim victim = {.lock = kit_lock(one, PATH, NULL)};
    CU_ASSERT_EQUAL(victim_run(&victim, look_at_state), PTHREAD_CANCEL_DISABLE);
}

TESTS("thread_cancel")
