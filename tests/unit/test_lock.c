/* The lock, on the in-process store: what zklock/lock.h promises, promise by promise. */
#include "lock_kit.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define QUEUE "/locks/test"

static zkl_session *one, *two;

static void set_up(const zkl_session_options *options)
{
    one = kit_open(options);
    two = kit_open(options);
}

static void tear_down(void)
{
    kit_close(one);
    kit_close(two);
}

/* --- acquire and release ------------------------------------------------------------------------------------------- */

static void test_acquire_and_release(void)
{
    set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    char node[128] = "x";
    zkl_grant grant = {.token = -1};
    CU_ASSERT_STRING_EQUAL(zkl_lock_path(lock), QUEUE);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_node(lock, node, sizeof node), 0);
    CU_ASSERT_STRING_EQUAL(node, "");
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, 5000, &grant, NULL), ZKL_OK);
    CU_ASSERT(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_HELD);
    CU_ASSERT(grant.token > 0);
    CU_ASSERT(grant.queued_ms >= 0 && grant.queued_ms < 5000);
    CU_ASSERT_FALSE(grant.unclean);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), grant.token);
    CU_ASSERT(zkl_lock_remaining_ms(lock) > 5000 && zkl_lock_remaining_ms(lock) <= 10000);
    CU_ASSERT_EQUAL(zkl_lock_node(lock, node, sizeof node), strlen(node));
    CU_ASSERT_EQUAL(strncmp(node, "_c_", 3), 0);
    CU_ASSERT_EQUAL(zkl_lock_node(lock, node, 4), 40 + 5 + 10); /* as snprintf: the length it has */
    CU_ASSERT_STRING_EQUAL(node, "_c_");
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 0); /* release waited for the server's word */
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), 0);
    CU_ASSERT_EQUAL(zkl_lock_remaining_ms(lock), 0);
    int64_t before = grant.token;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, ZKL_WAIT_FOREVER, &grant, NULL), ZKL_OK);
    CU_ASSERT(grant.token > before);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    zkl_lock_free(NULL);
    tear_down();
}

#define CROWD 12

static void test_first_come_first_served(void)
{
    set_up(NULL);
    zkl_lock *holder = kit_lock(one, QUEUE, NULL);
    zkl_lock *locks[CROWD];
    struct acquire acquires[CROWD];
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(holder, 5000, NULL, NULL), ZKL_OK);
    for (int i = 0; i < CROWD; i++) {
        locks[i] = kit_lock(i % 3 ? one : two, QUEUE, NULL);
        acquire_start(&acquires[i], locks[i], 20000);
        CU_ASSERT_FATAL(EVENTUALLY(kit_queue(one, QUEUE) == (size_t)i + 2));
    }
    int64_t token = zkl_lock_token(holder);
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_OK);
    for (int i = 0; i < CROWD; i++) {
        CU_ASSERT_EQUAL(acquire_join(&acquires[i]), ZKL_OK);
        CU_ASSERT(acquires[i].grant.token > token);
        token = acquires[i].grant.token;
        for (int j = 0; j < CROWD; j++) {
            CU_ASSERT_EQUAL(zkl_lock_is_held(locks[j]), j == i);
        }
        CU_ASSERT_EQUAL(zkl_lock_release(locks[i], NULL), ZKL_OK);
    }
    for (int i = 0; i < CROWD; i++) {
        zkl_lock_free(locks[i]);
    }
    zkl_lock_free(holder);
    tear_down();
}

static atomic_int inside, overlaps, turns;
static int64_t last_token; /* guarded by the lock under test */

static void *work(void *arg)
{
    zkl_lock *lock = kit_lock(arg, QUEUE, NULL);
    for (int i = 0; i < 60; i++) {
        zkl_grant grant;
        if (zkl_lock_acquire(lock, 30000, &grant, NULL) != ZKL_OK) {
            break;
        }
        overlaps += atomic_fetch_add(&inside, 1) != 0;
        overlaps += grant.token <= last_token;
        last_token = grant.token;
        turns++;
        atomic_fetch_sub(&inside, 1);
        if (zkl_lock_release(lock, NULL) != ZKL_OK) {
            break;
        }
    }
    zkl_lock_free(lock);
    return NULL;
}

static void test_one_at_a_time(void)
{
    pthread_t threads[8];
    set_up(NULL);
    inside = overlaps = turns = 0;
    last_token = 0;
    for (int i = 0; i < 8; i++) {
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, work, i % 2 ? one : two), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    CU_ASSERT_EQUAL(overlaps, 0);
    CU_ASSERT_EQUAL(turns, 8 * 60);
    CU_ASSERT_EQUAL(kit_queue(one, QUEUE), 0);
    tear_down();
}

static void test_locks_of_other_paths_do_not_meet(void)
{
    set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(one, QUEUE "/deeper", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 0, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 0, NULL, NULL), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    tear_down();
}

/* --- waits that end without a grant -------------------------------------------------------------------------------- */

static void test_try(void)
{
    set_up(NULL);
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
    tear_down();
}

static void test_try_waits_for_a_silent_server_no_longer_than_a_connect(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.connect_timeout_ms = 100;
    set_up(&options);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    int64_t id = zkl_session_id(one), from = now_ms();
    CU_ASSERT_EQUAL(zkl__memory_hold(id, true), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT(now_ms() - from >= 100);
    CU_ASSERT_EQUAL(zkl__memory_hold(id, false), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    zkl_lock_free(lock);
    tear_down();
}

static void test_timeout_leaves_no_node(void)
{
    set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 50, NULL, &err), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(err.code, ZKL_ETIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "ms"));
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 1));
    CU_ASSERT(zkl_lock_is_held(a));
    zkl_lock_free(a);
    zkl_lock_free(b);
    tear_down();
}

static void test_timeout_without_a_server(void)
{
    set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(one, QUEUE "2", NULL);
    int64_t id = zkl_session_id(one);
    struct acquire waiting;
    zkl_lock *holder = kit_lock(two, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 1000, NULL, NULL), ZKL_OK);
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
    tear_down();
}

/* The create is applied, its answer lost, and nobody wants it any more. */
static void test_timeout_of_a_create_of_unknown_fate(void)
{
    set_up(NULL);
    zkl_lock *first = kit_lock(two, QUEUE, NULL), *lock = kit_lock(one, QUEUE, NULL);
    int64_t id = zkl_session_id(one);
    CU_ASSERT_EQUAL(zkl_lock_acquire(first, 1000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_break(id, 0, 1, 1), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 50, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 2);
    CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 1));
    zkl_lock_free(first);
    zkl_lock_free(lock);
    tear_down();
}

static void test_cancel(void)
{
    set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    CU_ASSERT_EQUAL(zkl_lock_cancel(a), ZKL_ENOTWAITING);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_OK); /* nothing was remembered */
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
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 1000, NULL, NULL), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    tear_down();
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
    set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    int64_t ours[20], plain[20];
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_OK);
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
    tear_down();
}

/* --- one object, several calls ------------------------------------------------------------------------------------- */

static void test_a_second_acquire(void)
{
    set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, &err), ZKL_EDEADLK);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "recursive"));
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 0, NULL, NULL), ZKL_EDEADLK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(zkl_lock_state(b) == ZKL_STATE_WAITING));
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 1000, NULL, &err), ZKL_EDEADLK);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "pending"));
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    tear_down();
}

static void test_recursion(void)
{
    set_up(NULL);
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recursive = true;
    zkl_lock *a = kit_lock(one, QUEUE, &options), *b = kit_lock(two, QUEUE, NULL);
    zkl_grant first, second;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, &first, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 0, &second, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(second.token, first.token);
    CU_ASSERT_EQUAL(second.queued_ms, 0);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 1000, NULL, NULL), ZKL_OK);
    struct acquire waiting; /* a pending one is not a held one */
    acquire_start(&waiting, a, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(zkl_lock_state(a) == ZKL_STATE_WAITING));
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(zkl_lock_cancel(a), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECANCELED);
    zkl_lock_free(a);
    zkl_lock_free(b);
    tear_down();
}

static void test_release_without_holding(void)
{
    set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_release(b, &err), ZKL_ENOTHELD);
    CU_ASSERT_STRING_EQUAL(err.path, QUEUE);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(zkl_lock_state(b) == ZKL_STATE_WAITING));
    CU_ASSERT_EQUAL(zkl_lock_release(b, &err), ZKL_ENOTHELD);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "waiting"));
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    tear_down();
}

static void test_release_waits_only_so_long(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    set_up(NULL);
    int64_t id = zkl_session_id(one);
    for (options.release_timeout_ms = 0; options.release_timeout_ms <= 60; options.release_timeout_ms += 60) {
        zkl_lock *lock = kit_lock(one, QUEUE, &options);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 1000, NULL, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl__memory_hold(id, true), ZKL_OK);
        int64_t from = now_ms();
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
        CU_ASSERT(now_ms() - from >= options.release_timeout_ms - 1);
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
        struct acquire again; /* its old node may still be there */
        acquire_start(&again, lock, 5000);
        CU_ASSERT(EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_WAITING));
        CU_ASSERT_EQUAL(zkl__memory_hold(id, false), ZKL_OK);
        CU_ASSERT_EQUAL(acquire_join(&again), ZKL_OK);
        CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1);
        zkl_lock_free(lock);
    }
    tear_down();
}

static void test_free_while_waiting_and_held(void)
{
    set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL), *c = kit_lock(two, QUEUE, NULL);
    struct acquire waiting, next;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    acquire_start(&next, c, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 3));
    zkl_lock_free(b);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECANCELED);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    zkl_lock_free(a);
    CU_ASSERT_EQUAL(acquire_join(&next), ZKL_OK);
    zkl_lock_free(c);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 0));
    tear_down();
}

struct visits {
    int waiting, held;
    int64_t token;
};

static void visit(const char *path, zkl_state state, int64_t token, void *payload)
{
    struct visits *visits = payload;
    CU_ASSERT_STRING_EQUAL(path, QUEUE);
    visits->waiting += state == ZKL_STATE_WAITING;
    visits->held += state == ZKL_STATE_HELD;
    visits->token += token;
}

static void test_release_all_and_locks(void)
{
    set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(one, QUEUE, NULL), *idle = kit_lock(one, QUEUE, NULL);
    struct acquire waiting;
    struct visits visits = {0};
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &visits), 0);
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &visits), 2);
    CU_ASSERT_EQUAL(visits.waiting, 1);
    CU_ASSERT_EQUAL(visits.held, 1);
    CU_ASSERT_EQUAL(visits.token, zkl_lock_token(a));
    CU_ASSERT_EQUAL(zkl_session_locks(two, visit, &visits), 0);
    CU_ASSERT_EQUAL(zkl_session_release_all(two), 0);
    CU_ASSERT_EQUAL(zkl_session_release_all(one), 2);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECANCELED);
    CU_ASSERT_FALSE(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_lock_release(a, NULL), ZKL_ENOTHELD);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    CU_ASSERT_EQUAL(zkl_session_release_all(one), 0);
    CU_ASSERT_EQUAL(zkl_session_locks(one, NULL, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_session_locks(NULL, visit, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_session_release_all(NULL), ZKL_EINVAL);
    zkl_lock_free(a);
    zkl_lock_free(b);
    zkl_lock_free(idle);
    tear_down();
}

/* --- loss ---------------------------------------------------------------------------------------------------------- */

static void test_lease_runs_out(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_session_options options = kit_short();
    zkl_lock_options lock_options = ZKL_LOCK_OPTIONS_INIT;
    lock_options.state_fn = on_lock_state;
    lock_options.state_payload = &box;
    set_up(&options);
    zkl_lock *lock = kit_lock(one, QUEUE, &lock_options);
    int64_t id = zkl_session_id(one);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 1000, NULL, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(zkl__memory_suspend(id), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_JEOPARDY);
    CU_ASSERT(zkl_lock_is_held(lock));
    CU_ASSERT(zkl_lock_token(lock) > 0);
    int64_t end = now_ms() + zkl_lock_remaining_ms(lock);
    CU_ASSERT(EVENTUALLY(!zkl_lock_is_held(lock)));
    int64_t seen = now_ms();
    CU_ASSERT(seen >= end && seen <= end + 500);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), 0);
    CU_ASSERT(mailbox_wait(&box, 3));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_STATE_JEOPARDY);
    CU_ASSERT_EQUAL(box.letters[2].code, ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(kit_queue(two, QUEUE), 1); /* the session lives: the node keeps others out until the release */
    CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, &err), ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "lease"));
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 0));
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 1000, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
    tear_down();
}

static void test_jeopardy_that_passes(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_lock_state;
    options.state_payload = &box;
    set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, &options);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 1000, NULL, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(zkl__memory_suspend(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 3));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_STATE_JEOPARDY);
    CU_ASSERT_EQUAL(box.letters[2].code, ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    tear_down();
}

/* Heartbeats keep a lease for much longer than it is. */
static void test_lease_is_renewed(void)
{
    zkl_session_options options = kit_short();
    set_up(&options);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 1000, NULL, NULL), ZKL_OK);
    CU_ASSERT(kit_held_for(lock, 4500));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    tear_down();
}

static void test_session_expires_while_holding(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_lock_state;
    options.state_payload = &box;
    options.recursive = true;
    set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, &options);
    zkl_error err;
    int64_t id = zkl_session_id(one);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 1000, NULL, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(zkl__memory_expire(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(mailbox_last(&box) == ZKL_STATE_LOST));
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 1000, NULL, &err), ZKL_ELOST);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, &err), ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "session"));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK); /* in the new session */
    CU_ASSERT(zkl_session_id(one) != id);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
    tear_down();
}

static void test_session_expires_while_waiting(void)
{
    zkl_lock_options fail = ZKL_LOCK_OPTIONS_INIT;
    fail.on_expiry = ZKL_ON_EXPIRY_FAIL;
    set_up(NULL);
    zkl_lock *holder = kit_lock(two, QUEUE, NULL), *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(one, QUEUE, &fail);
    struct acquire requeues, fails;
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 1000, NULL, NULL), ZKL_OK);
    acquire_start(&requeues, a, ZKL_WAIT_FOREVER);
    acquire_start(&fails, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 3));
    CU_ASSERT_EQUAL(zkl__memory_expire(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&fails), ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(fails.err.text, "session"));
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_WAITING);
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&requeues), ZKL_OK);
    zkl_lock_free(holder);
    zkl_lock_free(a);
    zkl_lock_free(b);
    tear_down();
}

static void test_an_operator_removes_our_node(void)
{
    zkl_session_options options = kit_short();
    set_up(&options);
    zkl_lock *a = kit_lock(one, QUEUE, NULL), *b = kit_lock(two, QUEUE, NULL);
    struct acquire waiting;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, b, ZKL_WAIT_FOREVER);
    CU_ASSERT(EVENTUALLY(kit_queue(one, QUEUE) == 2));
    kit_remove_node(b);
    CU_ASSERT_EQUAL(kit_queue(one, QUEUE), 1);
    kit_remove_node(a); /* the holder is told within a heartbeat; the waiter, when its turn comes, queues again */
    CU_ASSERT(EVENTUALLY(zkl_lock_state(a) == ZKL_STATE_LOST));
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(a, &err), ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "removed"));
    CU_ASSERT(zkl_lock_is_held(b));
    zkl_lock_free(a);
    zkl_lock_free(b);
    tear_down();
}

static void test_max_hold(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_lock_state;
    options.state_payload = &box;
    options.max_hold_ms = 150;
    set_up(NULL);
    zkl_lock *a = kit_lock(one, QUEUE, &options), *b = kit_lock(two, QUEUE, NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(a, 1000, NULL, NULL), ZKL_OK);
    CU_ASSERT(zkl_lock_remaining_ms(a) <= 150);
    int64_t from = now_ms();
    CU_ASSERT_EQUAL(zkl_lock_acquire(b, 5000, NULL, NULL), ZKL_OK); /* its node goes, though it does not release */
    CU_ASSERT(now_ms() - from >= 100);
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_LOST);
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_lock_release(a, &err), ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "max_hold"));
    zkl_lock_free(a);
    zkl_lock_free(b);
    tear_down();
}

/* --- zkl_with_lock ------------------------------------------------------------------------------------------------- */

struct section {
    zkl_lock *lock;
    int64_t token;
    bool raised_at_first, readable_at_first, raised, readable;
    int64_t remaining_ms;
    int64_t wait_for_session; /* != 0: what to do to this session, then wait for the flag */
    int (*harm)(int64_t session_id);
    int runs;
};

static bool readable(const zkl_cancel *cancel, int timeout_ms)
{
    struct pollfd poller = {.fd = zkl_cancel_fd(cancel), .events = POLLIN};
    return poll(&poller, 1, timeout_ms) == 1;
}

static int run_section(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct section *section = payload;
    section->runs++;
    section->token = token;
    section->raised_at_first = zkl_cancel_raised(cancel);
    section->readable_at_first = readable(cancel, 0);
    section->remaining_ms = zkl_cancel_remaining_ms(cancel);
    if (section->harm) {
        CU_ASSERT_EQUAL(section->harm(section->wait_for_session), ZKL_OK);
        section->readable = readable(cancel, 3000); /* much sooner than a lease of ten seconds ends */
        section->raised = zkl_cancel_raised(cancel);
        section->remaining_ms = zkl_cancel_remaining_ms(cancel);
    }
    return 42;
}

static void test_with_lock(void)
{
    set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL), *other = kit_lock(two, QUEUE, NULL);
    struct section section = {.lock = lock};
    int result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 1000, 0, run_section, &section, &result, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(result, 42);
    CU_ASSERT(section.token > 0);
    CU_ASSERT_FALSE(section.raised_at_first);
    CU_ASSERT_FALSE(section.readable_at_first);
    CU_ASSERT(section.remaining_ms > 3000);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_acquire(other, 1000, NULL, NULL), ZKL_OK);
    result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 50, 0, run_section, &section, &result, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(result, -1);
    CU_ASSERT_EQUAL(section.runs, 1);
    CU_ASSERT_EQUAL(zkl_lock_release(other, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 1000, 100, run_section, &section, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
    zkl_lock_free(other);
    tear_down();
}

static void test_with_lock_raises_the_flag_before_the_lease_ends(void)
{
    zkl_session_options options = kit_short();
    set_up(&options);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    struct section section = {.lock = lock, .harm = zkl__memory_suspend, .wait_for_session = zkl_session_id(one)};
    int result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 1000, 300, run_section, &section, &result, NULL), ZKL_OK);
    CU_ASSERT(section.readable);
    CU_ASSERT(section.raised);
    CU_ASSERT(section.remaining_ms > 0 && section.remaining_ms <= 300); /* still protected: in time to end */
    CU_ASSERT_EQUAL(zkl__memory_resume(section.wait_for_session), ZKL_OK);
    zkl_lock_free(lock);
    tear_down();
}

static void test_with_lock_raises_the_flag_on_loss(void)
{
    set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    struct section section = {.lock = lock, .harm = zkl__memory_expire, .wait_for_session = zkl_session_id(one)};
    int result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 1000, 0, run_section, &section, &result, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(result, 42);
    CU_ASSERT(section.readable);
    CU_ASSERT(section.raised);
    CU_ASSERT_EQUAL(section.remaining_ms, 0);
    zkl_lock_free(lock);
    tear_down();
}

static int cancel_itself(const zkl_cancel *cancel, int64_t token, void *payload)
{
    zkl_lock *lock = payload;
    CU_ASSERT(token > 0 && !zkl_cancel_raised(cancel));
    CU_ASSERT_EQUAL(zkl_lock_cancel(lock), ZKL_OK);
    CU_ASSERT_TRUE(zkl_cancel_raised(cancel));
    CU_ASSERT_TRUE(zkl_lock_is_held(lock)); /* until this returns */
    return 42;
}

static void test_with_lock_is_told_by_cancel(void)
{
    set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    int result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 1000, 0, cancel_itself, lock, &result, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(result, 42);
    CU_ASSERT_EQUAL(zkl_lock_cancel(lock), ZKL_ENOTWAITING);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 1000, 0, cancel_itself, lock, &result, NULL),
                    ZKL_OK); /* the flag is down again */
    zkl_lock_free(lock);
    tear_down();
}

/* --- arguments ----------------------------------------------------------------------------------------------------- */

static void expect_refusal(zkl_session *session, const char *path, const zkl_lock_options *options, int code,
                           const char *word)
{
    zkl_lock *lock = (zkl_lock *)&session;
    zkl_error err = {0};
    int got = zkl_lock_new(&lock, session, path, options, &err);
    CU_ASSERT_EQUAL(got, code);
    CU_ASSERT_EQUAL(err.code, code);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, word));
    if (got != code || !strstr(err.text, word)) {
        fprintf(stderr, "\n%s: %s: \"%s\", no \"%s\" in it\n", path ? path : "NULL", zkl_error_name(got), err.text,
                word);
    }
    CU_ASSERT_PTR_EQUAL(lock, (zkl_lock *)&session); /* written on success only */
}

static void test_bad_paths(void)
{
    char longest[ZKL_PATH_MAX + 3];
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    set_up(NULL);
    expect_refusal(one, NULL, NULL, ZKL_EINVAL, "path");
    expect_refusal(one, "", NULL, ZKL_EINVAL, "path");
    expect_refusal(one, "relative", NULL, ZKL_EINVAL, "absolute");
    expect_refusal(one, "/", NULL, ZKL_EINVAL, "path");
    expect_refusal(one, "/a/../b", NULL, ZKL_EINVAL, "..");
    expect_refusal(one, "/a/./b", NULL, ZKL_EINVAL, "component");
    expect_refusal(one, "/a//b", NULL, ZKL_EINVAL, "empty");
    expect_refusal(one, "/a/", NULL, ZKL_EINVAL, "empty");
    expect_refusal(one, "/a\nb", NULL, ZKL_EINVAL, "U+000A");
    expect_refusal(one, "/a\xff", NULL, ZKL_EINVAL, "UTF-8");
    expect_refusal(one, "/zookeeper/x", NULL, ZKL_EINVAL, "zookeeper");
    expect_refusal(one, "/a-0123456789", NULL, ZKL_EINVAL, "contender");
    expect_refusal(one, longest, NULL, ZKL_EINVAL, "longer");
    tear_down();
}

static void test_bad_options(void)
{
    const zkl_lock_options good = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock_options bad;
    char text[ZKL_DATA_MAX + 2];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    set_up(NULL);
    expect_refusal(NULL, QUEUE, NULL, ZKL_EINVAL, "session");
    CU_ASSERT_EQUAL(zkl_lock_new(NULL, one, QUEUE, NULL, NULL), ZKL_EINVAL);
    bad = good;
    bad.size = 8;
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "size");
    bad = good;
    bad.metadata = text;
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "metadata");
    bad.metadata = "\xc3(";
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "UTF-8");
    bad.metadata = "__REVOKE__";
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "REVOKE");
    bad = good;
    bad.max_hold_ms = -1;
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "max_hold_ms is -1");
    bad = good;
    bad.release_timeout_ms = -1;
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "release_timeout_ms is -1");
    bad = good;
    bad.on_expiry = (zkl_on_expiry)7;
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "on_expiry is 7");
    bad = good;
    bad.acl = &(zkl_acl){0, NULL};
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "acl");
    bad.acl = &(zkl_acl){1, &(zkl_acl_entry){ZKL_PERM_ALL, NULL, "x"}};
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "scheme");
    bad.acl = &(zkl_acl){1, &(zkl_acl_entry){32, "world", "anyone"}};
    expect_refusal(one, QUEUE, &bad, ZKL_EINVAL, "32");
    tear_down();
}

static void test_bad_calls(void)
{
    set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    zkl_error err;
    struct section section = {.lock = lock};
    CU_ASSERT_EQUAL(zkl_lock_acquire(NULL, 0, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, -2, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "timeout_ms is -2"));
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(lock, 0, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "done"));
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(NULL, 0, on_acquired, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_cancel(NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_release(NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_state(NULL), ZKL_STATE_IDLE);
    CU_ASSERT_FALSE(zkl_lock_is_held(NULL));
    CU_ASSERT_EQUAL(zkl_lock_token(NULL), 0);
    CU_ASSERT_EQUAL(zkl_lock_remaining_ms(NULL), 0);
    CU_ASSERT_EQUAL(zkl_with_lock(NULL, 0, 0, run_section, &section, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 0, 0, NULL, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 0, -1, run_section, &section, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "margin_ms is -1"));
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 0, INT64_MAX, run_section, &section, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 0, zkl_session_least_lease_ms(one), run_section, &section, NULL, &err),
                    ZKL_EINVAL);
    CU_ASSERT_EQUAL(section.runs, 0);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    CU_ASSERT_STRING_EQUAL(zkl_state_name(ZKL_STATE_IDLE), "idle");
    CU_ASSERT_STRING_EQUAL(zkl_state_name(ZKL_STATE_LOST), "lost");
    CU_ASSERT_STRING_EQUAL(zkl_state_name((zkl_state)99), "?");
    zkl_lock_free(lock);
    tear_down();
}

static void test_access_refused(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.auth_scheme = "digest";
    options.auth = "me:secret";
    options.auth_size = 9;
    set_up(NULL);
    zkl_session *mine = kit_open(&options); /* what it creates is its own alone */
    zkl_lock *owner = kit_lock(mine, "/private/door", NULL), *stranger = kit_lock(one, "/private/door", NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(owner, 1000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(stranger, 1000, NULL, &err), ZKL_EAUTH);
    CU_ASSERT_STRING_EQUAL(err.path, "/private/door");
    CU_ASSERT(err.zk_code != 0);
    zkl_lock_free(owner);
    zkl_lock_free(stranger);
    kit_close(mine);
    tear_down();
}

TESTS("lock", T(test_acquire_and_release), T(test_first_come_first_served), T(test_one_at_a_time),
      T(test_locks_of_other_paths_do_not_meet), T(test_try),
      T(test_try_waits_for_a_silent_server_no_longer_than_a_connect), T(test_timeout_leaves_no_node),
      T(test_timeout_without_a_server), T(test_timeout_of_a_create_of_unknown_fate), T(test_cancel), T(test_lateness),
      T(test_a_second_acquire), T(test_recursion), T(test_release_without_holding), T(test_release_waits_only_so_long),
      T(test_free_while_waiting_and_held), T(test_release_all_and_locks), T(test_lease_runs_out),
      T(test_jeopardy_that_passes), T(test_lease_is_renewed), T(test_session_expires_while_holding),
      T(test_session_expires_while_waiting), T(test_an_operator_removes_our_node), T(test_max_hold), T(test_with_lock),
      T(test_with_lock_raises_the_flag_before_the_lease_ends), T(test_with_lock_raises_the_flag_on_loss),
      T(test_with_lock_is_told_by_cancel), T(test_bad_paths), T(test_bad_options), T(test_bad_calls),
      T(test_access_refused))
