/* Waits for a lock that end without a grant: try, timeout, cancel. On the in-process store. */
#include "lock_kit.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define QUEUE "/locks/test"

static void test_try(void)
{
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 0, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 0, NULL, &err), ZKL_EBUSY);
    CU_ASSERT_EQUAL(err.code, ZKL_EBUSY);
    CU_ASSERT_STRING_EQUAL(err.path, QUEUE);
    CU_ASSERT_EQUAL(zkl_lock_state(b), ZKL_STATE_IDLE);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 1));
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 0, NULL, NULL), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

/* silence makes a session that gets no response, and sound ends that. */
static void try_in(int (*silence)(int64_t session_id), int (*sound)(int64_t session_id))
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.connect_timeout_ms = 500;
    kit_set_up(&options);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    int64_t id = zkl_session_id(one), from = now_ms();
    CU_ASSERT_EQUAL(silence(id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT(now_ms() - from >= 500);
    CU_ASSERT_EQUAL(sound(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
    kit_tear_down();
}

static int hold(int64_t session_id)
{
    return zkl__memory_hold(session_id, true);
}

static int hold_no_more(int64_t session_id)
{
    return zkl__memory_hold(session_id, false);
}

static void test_try_waits_for_a_silent_server_no_longer_than_a_connect(void)
{
    try_in(hold, hold_no_more);
}

static void test_try_waits_for_a_connection_no_longer_than_a_connect(void)
{
    try_in(zkl__memory_suspend, zkl__memory_resume);
}

static void test_timeout_leaves_no_node(void)
{
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 50, NULL, &err), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(err.code, ZKL_ETIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "ms"));
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 1));
    CU_ASSERT(zkl_lock_is_held(a));
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_timeout_without_a_server(void)
{
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(one, QUEUE "2", NULL);
    int64_t id = zkl_session_id(one);
    struct acquire waiting;
    zkl_lock *holder = kit_lock(two, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 10000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, a, 100);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl__memory_suspend(id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 50, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 2); /* nobody could remove it */
    CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 1));
    zkl_lock_free(a);
    zkl_lock_free(b);
    zkl_lock_free(holder);
    kit_tear_down();
}

/* The create is applied, its answer lost, and nobody wants it any more. */
static void test_timeout_of_a_create_of_unknown_fate(void)
{
    kit_set_up(NULL);
    zkl_lock *first = kit_lock(two, QUEUE, NULL), *lock = kit_lock(one, QUEUE, NULL);
    int64_t id = zkl_session_id(one);
    CU_ASSERT_EQUAL(zkl_lock_acquire(first, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_break(id, 0, 1, 1), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 50, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 2);
    CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 1));
    zkl_lock_free(first);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_cancel(void)
{
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    CU_ASSERT_EQUAL(zkl_lock_cancel(a), ZKL_ENOTWAITING);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK); /* nothing was remembered */
    CU_ASSERT_EQUAL(zkl_lock_cancel(a), ZKL_ENOTWAITING);
    CU_ASSERT(zkl_lock_is_held(a));
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl_lock_cancel(b), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(waiting.err.code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_lock_cancel(b), ZKL_ENOTWAITING);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 1));
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 10000, NULL, NULL), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

/* Lateness of a wait against a plain timed wait in the same minute. */
static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void *plain_wait(void *arg)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    struct timespec until;
    int64_t from = now_ms();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 500000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&mutex);
    while (pthread_cond_timedwait(&cond, &mutex, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&mutex);
    *(int64_t *)arg = now_ms() - from;
    return NULL;
}

static void test_lateness(void)
{
    kit_set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    int64_t ours[20], plain[20];
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 10000, NULL, NULL), ZKL_OK);
    for (int i = 0; i < 20; i++) {
        struct acquire waiting;
        pthread_t control;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&control, NULL, plain_wait, &plain[i]), 0);
        acquire_start(&waiting, b, 500);
        CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ETIMEOUT);
        pthread_join(control, NULL);
        CU_ASSERT(waiting.took_ms >= 499);
        ours[i] = waiting.took_ms;
    }
    qsort(ours, 20, sizeof *ours, compare_numbers);
    qsort(plain, 20, sizeof *plain, compare_numbers);
    printf("median of 20 waits of 500 ms: %lld ms, plain %lld ms ... ", (long long)ours[10], (long long)plain[10]);
    CU_ASSERT(ours[10] < plain[10] + 20);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

TESTS("lock waits", T(test_try), T(test_try_waits_for_a_silent_server_no_longer_than_a_connect),
      T(test_try_waits_for_a_connection_no_longer_than_a_connect), T(test_timeout_leaves_no_node),
      T(test_timeout_without_a_server), T(test_timeout_of_a_create_of_unknown_fate), T(test_cancel), T(test_lateness))
