/* One session asks for thousands of free locks at once, and the server is slow: none is lost for that its own requests stand before its
 * heartbeats, and who asks for few beside it is served. */
#include "one_server.h"

#define MANY 2500 /* unless $ZKLOCK_LOCKS says otherwise: scripts/soak many-locks */
#define FEW 50
#define SHORT 4000 /* ms: session timeout of who asks for many; and of who asks for few: */
#define LONG 60000
#define RUNS 10 /* ms: the server runs, and is stopped for as long, times: */
#define STOPPED 4
#define STOPPED_MOST 800 /* ms, far from the end of a session, when it ran for longer than it should */
#define RATIO 10
#define PATIENCE 48 /* ms for each lock: a machine that has other work to do, too */

/* --- a server that runs a fifth of the time --------------------------------------------------------------------------- */

struct slow {
    pthread_t thread;
    atomic_bool stop;
    int64_t stopped_ns, ran_ns; /* measured, by whoever stops it */
};

static void *run_slow(void *arg)
{
    struct slow *slow = arg;
    while (!slow->stop) {
        int64_t began = boot_ns();
        poll(NULL, 0, RUNS);
        int64_t ran = boot_ns() - began, most = STOPPED_MOST * MS;
        ensemble_freeze(server, 0);
        poll(NULL, 0, (int)((STOPPED * ran < most ? STOPPED * ran : most) / MS));
        ensemble_thaw(server, 0);
        slow->ran_ns += ran;
        slow->stopped_ns += boot_ns() - began - ran;
    }
    return NULL;
}

/* --- what many heard --------------------------------------------------------------------------------------------------- */

struct count {
    atomic_int granted, refused, lost;
};

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct count *count = payload;
    atomic_fetch_add(code == ZKL_OK ? &count->granted : &count->refused, 1);
}

static void on_state(zkl_lock *lock, zkl_state state, void *payload)
{
    struct count *count = payload;
    count->lost += state == ZKL_STATE_LOST;
}

static struct count heard;

static void ask_for_many(zkl_lock **locks, int count, zkl_session *session, int64_t timeout_ms)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_state;
    options.payload = &heard;
    for (int i = 0; i < count; i++) {
        char path[32];
        snprintf(path, sizeof path, "/many/%d", i);
        locks[i] = contest_lock(session, path, &options);
        ASSERT_OK(zkl_lock_acquire_async(locks[i], timeout_ms, on_acquired, &heard, NULL));
    }
}

/* Granted or refused. */
static void await_ends(int count, int64_t timeout_ms)
{
    (void)WITHIN(timeout_ms, heard.granted + heard.refused >= count);
}

/* ms for all of them, one after the other. */
static int64_t acquire_few(zkl_session *session, const char *name)
{
    int64_t began = now_ms();
    for (int i = 0; i < FEW; i++) {
        char path[32];
        snprintf(path, sizeof path, "/few/%s%d", name, i);
        zkl_lock *lock = contest_lock(session, path, NULL);
        ASSERT_OK(zkl_lock_acquire(lock, MANY * PATIENCE, NULL, NULL));
        zkl_lock_free(lock);
    }
    return now_ms() - began;
}

/* True: as it should be. What a process that stands still for seconds does to a lease of four does not come each time. */
static bool many_on_a_slow_server(void)
{
    int count = (int)check_setting("ZKLOCK_LOCKS", MANY), held = 0;
    int64_t timeout_ms = (int64_t)count * PATIENCE;
    zkl_lock **locks = calloc((size_t)count, sizeof *locks);
    struct slow slow = {0};
    CU_ASSERT_FATAL(locks && count >= FEW);
    heard = (struct count){0};
    zkl_session *session = contest_session(ensemble_servers(server), SHORT, TICK);
    zkl_session *other = contest_session(ensemble_servers(server), LONG, TICK);
    pthread_create(&slow.thread, NULL, run_slow, &slow);
    int64_t alone = acquire_few(other, "alone"), began = now_ms();
    ask_for_many(locks, count, session, timeout_ms);
    await_ends(count / 10, timeout_ms);
    int before = heard.granted;
    int64_t beside = acquire_few(other, "beside");
    int after = heard.granted;
    await_ends(count, timeout_ms);
    int64_t took = now_ms() - began;
    slow.stop = true;
    pthread_join(slow.thread, NULL);
    printf(
        "%d granted in %lld ms, %d lost (the server ran for %.0f %% of the time); %d of another session took %lld ms, "
        "without them %lld ms (%d to %d); ",
        heard.granted, (long long)took, heard.lost,
        100.0 * (double)slow.ran_ns / (double)(slow.ran_ns + slow.stopped_ns), FEW, (long long)beside, (long long)alone,
        before, after);
    bool beside_them = slow.stopped_ns > slow.ran_ns && after < count && beside <= RATIO * alone;
    for (int i = 0; i < count; i++) {
        held += zkl_lock_is_held(locks[i]);
    }
    bool well = beside_them && held == count && heard.lost == 0;
    ASSERT_OK(zkl_session_close(session, timeout_ms));
    for (int i = 0; i < count; i++) {
        zkl_lock_free(locks[i]);
    }
    free(locks);
    kit_close(other);
    return well;
}

TEST(test_many_on_a_slow_server)
{
    CU_ASSERT(many_on_a_slow_server() || many_on_a_slow_server() || many_on_a_slow_server());
}

TESTS_ON_ONE_SERVER("many locks")
