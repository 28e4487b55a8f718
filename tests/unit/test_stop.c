/* Stop tokens: raised before, during and after a wait; what they end, and what they do not. */
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "lock_kit.h"

static zkl_stop stop;

static void begin(void)
{
    memset(&stop, 0, sizeof stop);
    one = kit_open(SESSION_OPTIONS(.stop = &stop));
    two = kit_open(NULL);
}

#define TEST_WITH_A_TOKEN(name) TEST_BETWEEN(begin(), name, kit_tear_down())

static int no_section(const zkl_cancel *cancel, int64_t token, void *payload)
{
    CU_FAIL_FATAL("ran under a raised token");
    return 0;
}

/* The calls that have an asynchronous form: unit_public_calls. */
TEST(test_raised_before_every_wait)
{
    zkl_error err;
    struct mailbox box = MAILBOX_INIT;
    begin();
    zkl_lock *lock = kit_lock(one, "/locks/stop", NULL);
    zkl_stop_raise(&stop);
    CU_ASSERT_TRUE(zkl_stop_raised(&stop));
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, &err), ZKL_ECANCELED);
    ASSERT_SAYS(err, "stop token");
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(lock, 1000, on_acquired, &box, NULL), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 1000, 0, no_section, NULL, NULL, NULL), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(kit_queue(two, "/locks/stop"), 0);
    zkl_session *third;
    CU_ASSERT_EQUAL(zkl_session_open(&third, PLACE, SESSION_OPTIONS(.stop = &stop), &err), ZKL_ECANCELED);
    CU_ASSERT_PTR_NULL(third);
    kit_free(lock);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    kit_tear_down();
    CU_ASSERT_EQUAL(kit_slots_taken(&stop), 0);
}

/* The thread that makes the calls sleeps: it is in its wait. Nothing of the library is called to see it, for libzklock_st belongs to that
 * one thread. */
static bool caller_sleeps(void)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state == 'S';
}

/* Or when it was not found asleep for a while: on a loaded machine it is found waiting for a processor each time. */
static void await_sleep(void)
{
    int64_t until = now_ms() + 100;
    while (!caller_sleeps() && now_ms() < until) {
        poll(NULL, 0, 1); /* not look_again: this thread may not turn libzklock_st's loop */
    }
}

static void on_signal(int number)
{
    zkl_stop_raise(&stop);
}

static void *signal_when_waited_for(void *thread)
{
    await_sleep();
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
    return NULL;
}

/* The waiting thread itself takes the signal, with the session's mutex or in its sleep. */
TEST(test_raised_in_a_signal_handler)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    pthread_t self = pthread_self(), sender;
    sigaction(SIGUSR1, &action, &before);
    begin();
    zkl_lock *holder = kit_hold(two, "/locks/stop", NULL), *waiter = kit_lock(one, "/locks/stop", NULL);
    kit_start_thread(&sender, signal_when_waited_for, &self);
    CU_ASSERT_EQUAL(zkl_lock_acquire(waiter, ZKL_WAIT_FOREVER, NULL, NULL), ZKL_ECANCELED);
    pthread_join(sender, NULL);
    kit_await_queue(two, "/locks/stop", 1);
    kit_free(waiter);
    kit_free(holder);
    kit_tear_down();
    sigaction(SIGUSR1, &before, NULL);
}

/* A server that takes the connection and says nothing. */
static void *raise_when_connected(void *arg)
{
    int fd = accept(*(int *)arg, NULL, NULL);
    CU_ASSERT_TRUE(fd >= 0);
    zkl_stop_raise(&stop);
    return (void *)(intptr_t)fd;
}

/* The calls that have an asynchronous form: unit_public_calls. */
TEST(test_an_open_ends)
{
    pthread_t raiser;
    char servers[32];
    void *accepted;
    int listener = kit_listen(servers, sizeof servers);
    memset(&stop, 0, sizeof stop);
    kit_start_thread(&raiser, raise_when_connected, &listener);
    CU_ASSERT_EQUAL(
        zkl_session_open(&one, servers, SESSION_OPTIONS(.stop = &stop, .connect_timeout_ms = 3600000), NULL),
        ZKL_ECANCELED);
    pthread_join(raiser, &accepted);
    close((int)(intptr_t)accepted);
    close(listener);
}

static int section(const zkl_cancel *cancel, int64_t token, void *payload)
{
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel));
    zkl_stop_raise(payload);
    return EVENTUALLY(zkl_cancel_raised(cancel)) ? 7 : 0;
}

TEST_WITH_A_TOKEN(test_section_and_what_ends_something)
{
    int result = 0;
    zkl_lock *lock = kit_lock(one, "/locks/stop", NULL), *held = kit_hold(one, "/locks/held", NULL);
    ASSERT_OK(zkl_with_lock(lock, 10000, 0, section, &stop, &result, NULL));
    CU_ASSERT_EQUAL(result, 7);
    CU_ASSERT_TRUE(zkl_lock_is_held(held));
    kit_release(held);
    CU_ASSERT_EQUAL(kit_queue(two, "/locks/held"), 0); /* the release has waited for the response */
}

static zkl_stop of_lock;

static int free_it(const zkl_cancel *cancel, int64_t token, void *lock)
{
    kit_free(lock);
    CU_ASSERT_EQUAL(kit_slots_taken(&of_lock), 0);
    return 0;
}

TEST_WITH_SESSIONS(test_a_freed_lock_has_no_token)
{
    zkl_lock *lock = kit_lock(one, "/locks/stop", NULL);
    ASSERT_OK(zkl_lock_set_stop(lock, &of_lock, NULL));
    zkl_with_lock(lock, 10000, 0, free_it, lock, NULL, NULL);
}

static int job(const zkl_cancel *cancel, int64_t token, void *payload)
{
    zkl_stop_raise(payload);
    return 0;
}

/* The job is done: that it was stopped behind its end does not make others do it again. */
TEST_WITH_A_TOKEN(test_done_is_recorded)
{
    bool ran = false;
    int64_t last = 0, at;
    ASSERT_OK(zkl_once_prepare(one, "/job", 10000, NULL));
    zkl_lock *lock = kit_lock(one, "/job", NULL);
    ASSERT_OK(zkl_once_run(lock, 3600000, 0, 10000, job, &stop, &ran, NULL, NULL));
    CU_ASSERT_TRUE(ran);
    ASSERT_OK(zkl_once_last(two, "/job", 3600000, 10000, &last, &at, NULL));
    CU_ASSERT_TRUE(last > INT64_MIN);
}

/* Begun and raised at the same time, in any order: it always ends. */
static void *raise_now(void *arg)
{
    zkl_stop_raise(arg);
    return NULL;
}

TEST_WITH_SESSIONS(test_no_raise_is_missed)
{
    kit_hold(two, "/locks/stop", NULL);
    zkl_lock *waiter = kit_lock(one, "/locks/stop", NULL);
    for (int i = 0; i < (SLOWLY ? 100 : 500); i++) {
        zkl_stop own = ZKL_STOP_INIT;
        pthread_t raiser;
        ASSERT_OK(zkl_lock_set_stop(waiter, &own, NULL));
        kit_start_thread(&raiser, raise_now, &own);
        CU_ASSERT_EQUAL(zkl_lock_acquire(waiter, ZKL_WAIT_FOREVER, NULL, NULL), ZKL_ECANCELED);
        pthread_join(raiser, NULL);
        CU_ASSERT_EQUAL(kit_slots_taken(&own), 0);
    }
}

TEST(test_sixteenth_session)
{
    zkl_session *sessions[ZKL_STOP_SESSIONS_MAX], *more;
    const zkl_session_options *options = SESSION_OPTIONS(.stop = &stop);
    zkl_error err;
    memset(&stop, 0, sizeof stop);
    EACH_ROW (i, sessions) {
        sessions[i] = kit_open(options);
    }
    CU_ASSERT_EQUAL(zkl_session_open(&more, PLACE, options, &err), ZKL_ELIMIT);
    kit_close(sessions[3]);
    sessions[3] = kit_open(options);
    EACH_ROW (i, sessions) {
        kit_close(sessions[i]);
    }
    CU_ASSERT_EQUAL(kit_slots_taken(&stop), 0);
}

TESTS("stop")
