/* One session asks for thousands of free locks at once, and the server is slow: none is lost for that its own requests stand before its
 * heartbeats, and who asks for few beside it is served. */
#include <signal.h>
#include <stdio.h>

#include "one_server.h"

#define MANY 5000
#define FEW 10
#define STOPPED 40 /* ms, and then it runs for: */
#define RUNS 10
#define RATIO 10
#define LONG (8 * SOON) /* a machine that has other work to do, too */

/* --- a server that runs a fifth of the time --------------------------------------------------------------------------- */

struct slow {
    pthread_t thread;
    pid_t pid;
    atomic_bool stop;
};

static void *run_slow(void *arg)
{
    struct slow *slow = arg;
    while (!atomic_load(&slow->stop)) {
        kill(slow->pid, SIGSTOP);
        poll(NULL, 0, STOPPED);
        kill(slow->pid, SIGCONT);
        poll(NULL, 0, RUNS);
    }
    return NULL;
}

static void slow_down(struct slow *slow)
{
    slow->pid = ensemble_pid(server, 0);
    atomic_init(&slow->stop, false);
    CU_ASSERT_FATAL(slow->pid > 0 && pthread_create(&slow->thread, NULL, run_slow, slow) == 0);
}

static void speed_up(struct slow *slow)
{
    atomic_store(&slow->stop, true);
    pthread_join(slow->thread, NULL);
}

/* --- what many heard --------------------------------------------------------------------------------------------------- */

struct count {
    atomic_int granted, refused, lost;
};

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct count *count = payload;
    (void)lock;
    (void)grant;
    (void)err;
    atomic_fetch_add(code == ZKL_OK ? &count->granted : &count->refused, 1);
}

static void on_state(zkl_lock *lock, zkl_state state, void *payload)
{
    struct count *count = payload;
    (void)lock;
    atomic_fetch_add(&count->lost, state == ZKL_STATE_LOST);
}

static void ask_for_many(zkl_lock *locks[MANY], zkl_session *session, struct count *count)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_state;
    options.state_payload = count;
    for (int i = 0; i < MANY; i++) {
        char path[32];
        snprintf(path, sizeof path, "/many/%d", i);
        locks[i] = contest_lock(session, path, &options);
        CU_ASSERT_EQUAL(zkl_lock_acquire_async(locks[i], LONG, on_acquired, count, NULL), ZKL_OK);
    }
}

/* ms for all of them, one after the other. */
static int64_t acquire_few(zkl_session *session, const char *name)
{
    int64_t began = now_ms();
    for (int i = 0; i < FEW; i++) {
        char path[32];
        snprintf(path, sizeof path, "/few/%s%d", name, i);
        zkl_lock *lock = contest_lock(session, path, NULL);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, LONG, NULL, NULL), ZKL_OK);
        zkl_lock_free(lock);
    }
    return now_ms() - began;
}

static void test_many_at_once(void)
{
    static zkl_lock *locks[MANY];
    struct slow slow;
    struct count count = {0};
    zkl_session *session = open_one(), *other = open_one();
    slow_down(&slow);
    int64_t alone = acquire_few(other, "alone"), began = now_ms(), end = began + LONG;
    ask_for_many(locks, session, &count);
    while (atomic_load(&count.granted) < MANY / 10 && look_again(end)) {
    }
    int before = atomic_load(&count.granted);
    int64_t beside = acquire_few(other, "beside");
    int after = atomic_load(&count.granted);
    while (atomic_load(&count.granted) + atomic_load(&count.refused) < MANY && look_again(end)) {
    }
    printf("%d granted in %lld ms, %d lost; %d of another session took %lld ms, without them %lld ms (%d to %d); ",
           atomic_load(&count.granted), (long long)(now_ms() - began), atomic_load(&count.lost), FEW, (long long)beside,
           (long long)alone, before, after);
    CU_ASSERT_EQUAL(atomic_load(&count.granted), MANY);
    CU_ASSERT(after < MANY); /* they were asked for beside the many */
    CU_ASSERT(beside <= RATIO * alone);
    speed_up(&slow);
    int held = 0;
    for (int i = 0; i < MANY; i++) {
        held += zkl_lock_is_held(locks[i]);
    }
    CU_ASSERT_EQUAL(held, MANY);
    CU_ASSERT_EQUAL(atomic_load(&count.lost), 0);
    close_one(session);
    for (int i = 0; i < MANY; i++) {
        zkl_lock_free(locks[i]);
    }
    close_one(other);
}

TESTS_ON_ONE_SERVER("many locks", T(test_many_at_once))
