/* A lock that lingers, on a real server: another session that queues behind it is granted immediately. */
#include "one_server.h"

#include <stdatomic.h>

#define PATH "/lingering"
#define LONG 60000

static zkl_lock *lock_in(zkl_session *session, int64_t linger_ms)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.linger_ms = linger_ms;
    return contest_lock(session, PATH, &options);
}

static zkl_grant acquire(zkl_lock *lock)
{
    zkl_grant grant = {.token = 0};
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, SOON, &grant, NULL), ZKL_OK);
    return grant;
}

static void release(zkl_lock *lock)
{
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
}

/* Each round: granted again without a request; then another session, which finds it idle or held, is granted, with a higher token. */
static void test_another_session(void)
{
    zkl_session *one = open_one(), *two = open_one();
    zkl_lock *lock = lock_in(one, LONG), *rival = lock_in(two, 0);
    int64_t last = 0;
    struct waiter waiter;
    for (int round = 0; round < 20; round++) {
        zkl_grant first = acquire(lock);
        CU_ASSERT(first.token > last);
        CU_ASSERT_EQUAL(first.serial, 1);
        release(lock);
        CU_ASSERT_EQUAL(queue_length(eye, PATH), 1);
        zkl_grant again = acquire(lock);
        CU_ASSERT_EQUAL(again.token, first.token);
        CU_ASSERT_EQUAL(again.serial, 2);
        if (round % 2 == 0) {
            release(lock);
            last = acquire(rival).token;
        } else {
            waiter_queue(&waiter, rival, SOON);
            CU_ASSERT(queue_becomes(eye, PATH, 2));
            release(lock);
            CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_OK);
            last = waiter.grant.token;
        }
        CU_ASSERT(last > first.token);
        CU_ASSERT_FALSE(zkl_lock_is_held(lock));
        release(rival);
    }
    CU_ASSERT(queue_becomes(eye, PATH, 0));
    zkl_lock_free(lock);
    zkl_lock_free(rival);
    close_one(one);
    close_one(two);
}

static atomic_bool enough;
static atomic_int inside;
static atomic_long grants;

static void *again_and_again(void *arg)
{
    while (!atomic_load(&enough)) {
        acquire(arg);
        CU_ASSERT_EQUAL(atomic_fetch_add(&inside, 1), 0);
        atomic_fetch_sub(&inside, 1);
        release(arg);
        atomic_fetch_add(&grants, 1);
    }
    return NULL;
}

/* Three threads of one session pass it on among themselves all the time; another session is granted between them, again and again. */
static void test_busy_session(void)
{
    enum { THREADS = 3, ROUNDS = 50 };
    zkl_session *one = open_one(), *two = open_one();
    zkl_lock *locks[THREADS], *rival = lock_in(two, 0);
    pthread_t threads[THREADS];
    int64_t last = 0;
    atomic_store(&enough, false);
    for (int i = 0; i < THREADS; i++) {
        locks[i] = lock_in(one, LONG);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, again_and_again, locks[i]), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        long before = atomic_load(&grants);
        int64_t end = now_ms() + SOON;
        while (atomic_load(&grants) == before && look_again(end)) {
        }
        CU_ASSERT(atomic_load(&grants) > before);
        zkl_grant grant = acquire(rival);
        CU_ASSERT_EQUAL(atomic_fetch_add(&inside, 1), 0);
        CU_ASSERT(grant.token > last);
        last = grant.token;
        atomic_fetch_sub(&inside, 1);
        release(rival);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        zkl_lock_free(locks[i]);
    }
    printf("%ld grants beside %d of the other session; ", atomic_load(&grants), ROUNDS);
    zkl_lock_free(rival);
    CU_ASSERT(queue_becomes(eye, PATH, 0));
    close_one(one);
    close_one(two);
}

TESTS_ON_ONE_SERVER("linger", T(test_another_session), T(test_busy_session))
