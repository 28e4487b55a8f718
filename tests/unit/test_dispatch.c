/* Several threads in zkl_session_dispatch: one of them runs callbacks, the others sleep. */
#include "lock_kit.h"

#include <poll.h>

#define QUEUE "/locks/dispatch"

static bool fd_readable(int timeout_ms)
{
    struct pollfd poller = {.fd = zkl_session_fd(one), .events = POLLIN};
    return poll(&poller, 1, timeout_ms) == 1;
}

/* A callback that says that it runs, and goes on when it is told to. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool entered, open;
};
#define GATE_INIT                                                         \
    {                                                                     \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false \
    }

static void pass(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct gate *gate = payload;
    (void)lock, (void)code, (void)grant, (void)err;
    pthread_mutex_lock(&gate->mutex);
    gate->entered = true;
    pthread_cond_broadcast(&gate->cond);
    while (!gate->open) {
        pthread_cond_wait(&gate->cond, &gate->mutex);
    }
    pthread_mutex_unlock(&gate->mutex);
}

static void await_entry(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    while (!gate->entered) {
        pthread_cond_wait(&gate->cond, &gate->mutex);
    }
    pthread_mutex_unlock(&gate->mutex);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->cond);
    pthread_mutex_unlock(&gate->mutex);
}

static void *dispatch(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)zkl_session_dispatch(one);
}

static void *let_go(void *arg)
{
    zkl_lock_free(arg); /* runs the completion that is owed */
    return NULL;
}

/* While another thread runs a callback, what is posted is announced, and dispatch has nothing to do: then the descriptor must not go on
 * saying that it has. As soon as the other is done, it does. */
static void busy_elsewhere(bool freeing)
{
    struct gate gate = GATE_INIT;
    struct mailbox box = MAILBOX_INIT;
    zkl_session_options options = kit_dispatched();
    pthread_t other;
    one = kit_open(&options);
    zkl_lock *a = kit_lock(one, QUEUE "/a", NULL), *b = kit_lock(one, QUEUE "/b", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(a, 1000, pass, &gate, NULL), ZKL_OK);
    CU_ASSERT(fd_readable(10000));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&other, NULL, freeing ? let_go : dispatch, a), 0);
    await_entry(&gate);
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(b, 1000, on_acquired, &box, NULL), ZKL_OK);
    CU_ASSERT(fd_readable(10000));
    CU_ASSERT(EVENTUALLY(zkl_lock_is_held(b)));
    CU_ASSERT_EQUAL(zkl_session_dispatch(one), 0);
    CU_ASSERT_FALSE(fd_readable(0)); /* no spinning */
    open_gate(&gate);
    CU_ASSERT(fd_readable(10000)); /* nothing forgotten */
    CU_ASSERT_EQUAL(pthread_join(other, NULL), 0);
    CU_ASSERT_EQUAL(zkl_session_dispatch(one), 1);
    CU_ASSERT_EQUAL(mailbox_last(&box), ZKL_OK);
    CU_ASSERT_FALSE(fd_readable(0));
    zkl_lock_free(b);
    if (!freeing) {
        zkl_lock_free(a);
    }
    kit_close(one);
}

static void test_another_thread_dispatches(void)
{
    busy_elsewhere(false);
}

static void test_another_thread_frees(void)
{
    busy_elsewhere(true);
}

#define LOCKS 200

static void *poll_and_dispatch(void *arg)
{
    struct mailbox *box = arg;
    intptr_t in_vain = 0;
    while (mailbox_count(box) < LOCKS) {
        in_vain += fd_readable(10) && zkl_session_dispatch(one) == 0;
    }
    return (void *)in_vain;
}

/* Announced is each post, what is left when a dispatch returns, and what was silenced meanwhile: each may wake both in vain, and no more. */
static void test_two_threads_share_the_work(void)
{
    static zkl_lock *locks[LOCKS];
    struct mailbox box = MAILBOX_INIT;
    zkl_session_options options = kit_dispatched();
    pthread_t threads[2];
    one = kit_open(&options);
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, poll_and_dispatch, &box), 0);
    }
    for (size_t i = 0; i < LOCKS; i++) {
        char path[64];
        snprintf(path, sizeof path, QUEUE "/%zu", i);
        locks[i] = kit_lock(one, path, NULL);
        CU_ASSERT_EQUAL(zkl_lock_acquire_async(locks[i], ZKL_WAIT_FOREVER, on_acquired, &box, NULL), ZKL_OK);
    }
    CU_ASSERT(mailbox_wait(&box, LOCKS));
    intptr_t in_vain = 0;
    for (size_t i = 0; i < 2; i++) {
        void *result = NULL;
        CU_ASSERT_EQUAL(pthread_join(threads[i], &result), 0);
        in_vain += (intptr_t)result;
    }
    CU_ASSERT(in_vain <= 6 * LOCKS);
    for (size_t i = 0; i < LOCKS; i++) {
        CU_ASSERT(zkl_lock_is_held(locks[i]));
        zkl_lock_free(locks[i]);
    }
    kit_close(one);
}

TESTS("dispatch from several threads", T(test_another_thread_dispatches), T(test_another_thread_frees),
      T(test_two_threads_share_the_work))
