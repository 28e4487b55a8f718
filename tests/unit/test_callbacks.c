/* Callbacks: how often, on which thread, in which order, and what may be done in them. */
#include "thread.h"
#include "lock_kit.h"

#define QUEUE "/locks/callbacks"

/* --- completions --------------------------------------------------------------------------------------------------- */

/* Of two sessions in one queue: each in its turn, and no other one then. */
TEST_WITH_SESSIONS(test_async_acquires_complete_once)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *locks[10];
    zkl_lock *holder = kit_hold(two, QUEUE, NULL);
    EACH_ROW (i, locks) {
        locks[i] = kit_lock(i % 3 ? one : two, QUEUE, NULL);
        kit_acquire_async(locks[i], on_acquired, &box);
        ASSERT_EVENTUALLY_FATAL(kit_queue(two, QUEUE) == i + 2);
    }
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    int64_t token = zkl_lock_token(holder);
    kit_release(holder);
    EACH_ROW (i, locks) {
        CU_ASSERT_FATAL(mailbox_wait(&box, i + 1));
        CU_ASSERT_EQUAL(mailbox_count(&box), i + 1);
        CU_ASSERT_PTR_EQUAL(box.letters[i].from, locks[i]);
        ASSERT_OK(box.letters[i].code);
        CU_ASSERT(box.letters[i].granted);
        CU_ASSERT(box.letters[i].grant.token > token);
        token = box.letters[i].grant.token;
        CU_ASSERT_EQUAL(token, zkl_lock_token(locks[i]));
        CU_ASSERT_FALSE(pthread_equal(box.letters[i].thread, pthread_self()));
        kit_release(locks[i]);
    }
    CU_ASSERT_EQUAL(mailbox_count(&box), 10);
}

/* --- what a completion may do -------------------------------------------------------------------------------------- */

static void free_in_completion(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    kit_free(lock);
    on_acquired(lock, code, grant, err, payload);
}

static void acquire_again(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    kit_release(lock);
    kit_acquire_async(lock, free_in_completion, payload);
    on_acquired(lock, code, grant, err, payload);
}

/* What they are about: the same lock. Calls of other objects: test_from_callbacks of unit_public_calls. */
TEST_WITH_SESSIONS(test_completions_may_call_the_library)
{
    struct mailbox box = MAILBOX_INIT;
    kit_acquire_async(kit_lock(one, QUEUE, NULL), acquire_again, &box);
    CU_ASSERT_FATAL(mailbox_wait(&box, 2));
    ASSERT_OK(box.letters[0].code);
    ASSERT_OK(box.letters[1].code);
    kit_await_queue(two, QUEUE, 0);
}

struct gate {
    struct mailbox entered, leave;
    atomic_bool left;
    zkl_lock *victim, *inner;
};

static void wait_at_gate(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct gate *gate = payload;
    on_acquired(lock, code, grant, err, &gate->entered);
    mailbox_wait(&gate->leave, 1);
}

static void wait_in_completion(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    wait_at_gate(lock, code, grant, err, payload);
    ((struct gate *)payload)->left = true;
}

static void *free_victim(void *arg)
{
    struct gate *gate = arg;
    kit_free(gate->victim);
    return gate->left ? arg : NULL;
}

/* A callback that blocks delays callbacks, but no heartbeat and no grant. */
TEST_WITH_SESSIONS(test_a_callback_that_blocks)
{
    struct gate gate = {.entered = MAILBOX_INIT, .leave = MAILBOX_INIT};
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = kit_lock(one, QUEUE, NULL), *other = kit_lock(one, QUEUE "/other", NULL);
    kit_acquire_async(lock, wait_in_completion, &gate);
    CU_ASSERT_FATAL(mailbox_wait(&gate.entered, 1));
    kit_acquire_async(other, on_acquired, &box);
    ASSERT_EVENTUALLY(zkl_lock_is_held(other));
    CU_ASSERT(kit_renewed(lock, 2500)); /* by three heartbeats */
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    mailbox_put(&gate.leave, (struct letter){0});
    kit_await_letters(&box, 1);
}

/* --- a callback inside another ------------------------------------------------------------------------------------- */

/* Three kinds of callbacks of the victim, which free the inner lock: its completion runs inside them. */
static void free_inner_when_ended(int code, const zkl_error *err, void *payload)
{
    struct gate *gate = payload;
    kit_free(gate->inner);
    gate->left = true;
}

static void free_inner_when_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err,
                                     void *payload)
{
    free_inner_when_ended(code, err, payload);
}

static void free_inner_when_held(zkl_lock *lock, zkl_state state, void *payload)
{
    free_inner_when_ended((int)state, NULL, payload);
}

#define KINDS 3

static void begin_nested(struct gate *gate, int kind, zkl_acquired_fn inside, zkl_data **data)
{
    kit_hold(two, QUEUE "/inner", NULL);
    gate->inner = kit_lock(one, QUEUE "/inner", NULL);
    gate->victim =
        kit_lock(one, QUEUE, LOCK_OPTIONS(.state_fn = kind == 0 ? free_inner_when_held : NULL, .payload = gate));
    kit_acquire_async(gate->inner, inside, gate);
    if (kind == 0) {
        zkl_lock_acquire(gate->victim, 10000, NULL, NULL); /* a free may end it */
    } else if (kind == 1) {
        kit_acquire_async(gate->victim, free_inner_when_acquired, gate);
    } else {
        kit_acquire(gate->victim);
        ASSERT_OK(zkl_lock_read_async(data, gate->victim, QUEUE, false, 20000, free_inner_when_ended, gate, NULL));
    }
    CU_ASSERT_FATAL(mailbox_wait(&gate->entered, 1));
}

TEST(test_free_waits_for_a_callback_around_another)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct gate gate = {.entered = MAILBOX_INIT, .leave = MAILBOX_INIT};
        pthread_t thread;
        void *waited = NULL;
        zkl_data *data = NULL;
        kit_set_up(NULL);
        begin_nested(&gate, kind, wait_at_gate, &data);
        kit_start_thread(&thread, free_victim, &gate);
        kit_await_queue(two, QUEUE, 0); /* the free has begun: it released */
        mailbox_put(&gate.leave, (struct letter){0});
        pthread_join(thread, &waited);
        CU_ASSERT_PTR_NOT_NULL_FATAL(waited);
        zkl_data_free(data);
        kit_tear_down();
    }
}

static void free_victim_inside(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct gate *gate = payload;
    kit_free(gate->victim);
    on_acquired(lock, code, grant, err, &gate->entered);
}

TEST(test_free_inside_a_callback_of_the_same_lock)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct gate gate = {.entered = MAILBOX_INIT};
        zkl_data *data = NULL;
        kit_set_up(NULL);
        begin_nested(&gate, kind, free_victim_inside, &data);
        ASSERT_EVENTUALLY(gate.left);
        kit_await_queue(two, QUEUE, 0);
        zkl_data_free(data);
        kit_tear_down();
    }
}

/* --- dispatch ------------------------------------------------------------------------------------------------------ */

/* In a callback it does nothing. */
static void dispatch_in_completion(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err,
                                   void *payload)
{
    on_acquired(lock, zkl_session_dispatch(one), grant, err, payload);
}

#define THOUSAND 1000

TEST_WITH_SESSIONS_OF(kit_dispatched, test_dispatch_thousands_from_one_thread)
{
    static zkl_lock *locks[THOUSAND];
    static char path[64];
    struct mailbox box = MAILBOX_INIT;
    CU_ASSERT_FALSE(kit_readable(one, 0));
    CU_ASSERT_EQUAL(zkl_session_dispatch(one), 0);
    EACH_ROW (i, locks) {
        snprintf(path, sizeof path, QUEUE "/%zu", i % 250); /* four in each queue */
        locks[i] = kit_lock(one, path, NULL);
        kit_acquire_async(locks[i], dispatch_in_completion, &box);
    }
    CU_ASSERT(kit_readable(one, 10000));
    CU_ASSERT_EQUAL(box.count, 0);
    int done = 0;
    while (done < 250 && kit_readable(one, 10000)) {
        done += zkl_session_dispatch(one);
    }
    CU_ASSERT_EQUAL(done, 250);
    CU_ASSERT_FALSE(kit_readable(one, 0));
    for (size_t i = 0; i < 250; i++) {
        CU_ASSERT_EQUAL(box.letters[i].code, 0);
        CU_ASSERT(box.letters[i].granted);
        CU_ASSERT(pthread_equal(box.letters[i].thread, pthread_self()));
    }
    EACH_ROW (i, locks) {
        kit_free(locks[i]); /* and the waiters' completions run in here */
    }
    CU_ASSERT_EQUAL(zkl_session_dispatch(one), 0);
}

static zkl_session_options short_and_dispatched(void)
{
    zkl_session_options options = kit_short();
    options.callbacks = ZKL_CALLBACKS_DISPATCH;
    return options;
}

/* A grant that nobody took note of until its lease was over is no grant. */
TEST_WITH_SESSIONS_OF(short_and_dispatched, test_a_completion_that_comes_too_late)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    kit_acquire_async(lock, on_acquired, &box);
    CU_ASSERT(kit_readable(one, 20000)); /* its completion waits; the lease may be over already */
    kit_suspend(one);
    ASSERT_EVENTUALLY(!zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(zkl_session_dispatch(one), 1);
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_ELOST);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    kit_resume(one);
    kit_await_queue(two, QUEUE, 0);
}

/* Nor is one that was given up before its completion could run. */
TEST_WITH_SESSIONS_OF(kit_dispatched, test_a_grant_given_up_before_its_completion)
{
    struct mailbox box = MAILBOX_INIT;
    for (int way = 0; way < 2; way++) {
        zkl_lock *lock = kit_lock(one, QUEUE, NULL);
        mailbox_clear(&box);
        kit_acquire_async(lock, on_acquired, &box);
        ASSERT_EVENTUALLY(zkl_lock_is_held(lock));
        if (way == 1) {
            kit_close(one);
        }
        kit_free(lock); /* of a closed session, too */
        CU_ASSERT_EQUAL(box.count, 1);
        CU_ASSERT_EQUAL(box.letters[0].code, way == 0 ? ZKL_ECANCELED : ZKL_ECLOSED);
        CU_ASSERT_FALSE(box.letters[0].granted);
        kit_await_queue(two, QUEUE, 0);
    }
    one = kit_open(NULL);
}

static _Thread_local struct mailbox *awaited;

void __real_zkl__session_leave(zkl_session *session);
void __wrap_zkl__session_leave(zkl_session *session);
void __wrap_zkl__session_leave(zkl_session *session)
{
    struct mailbox *box = awaited;
    awaited = NULL;
    __real_zkl__session_leave(session);
    CU_ASSERT_TRUE(!box || mailbox_wait(box, 1));
}

static void on_opened(int code, const zkl_error *err, void *payload)
{
    CU_ASSERT_PTR_NOT_NULL(one);
    on_ended(code, err, payload);
}

/* Before the call that opens the session returns, as soon as it leaves the session's mutex. */
TEST(test_a_session_is_written_before_its_done)
{
    struct mailbox box = MAILBOX_INIT;
    one = NULL;
    awaited = &box;
    ASSERT_OK_FATAL(zkl_session_open_async(&one, PLACE, NULL, on_opened, &box, NULL));
    CU_ASSERT_EQUAL(mailbox_count(&box), 1);
    kit_close(one);
}

/* --- states -------------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS_OF(kit_dispatched, test_states_are_told_as_the_latest_but_every_loss_is)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = kit_lock(one, QUEUE, STATES_TO(&box));
    for (int i = 0; i < 2; i++) { /* held, lost, released: twice; nobody listens meanwhile */
        kit_acquire(lock);
        kit_expire(one);
        kit_await_state(lock, ZKL_STATE_LOST);
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    }
    kit_acquire(lock);
    CU_ASSERT(kit_readable(one, 10000));
    CU_ASSERT_EQUAL(zkl_session_dispatch(one), 1);
    CU_ASSERT_EQUAL(box.count, 3);
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(box.letters[2].code, ZKL_STATE_HELD);
    kit_release(lock);
    kit_acquire(lock);
    kit_release(lock);
    kit_acquire(lock);
    zkl_session_dispatch(one);
    CU_ASSERT_EQUAL(box.count, 4);
    kit_suspend(one);
    kit_await_state(lock, ZKL_STATE_JEOPARDY);
    kit_resume(one);
    kit_await_state(lock, ZKL_STATE_HELD);
    zkl_session_dispatch(one); /* there and back again: nothing to tell */
    CU_ASSERT_EQUAL(box.count, 4);
    kit_release(lock);
    kit_acquire(lock);
    kit_release(lock);
    zkl_session_dispatch(one); /* held and released: there is nothing left to tell */
    CU_ASSERT_EQUAL(box.count, 4);
}

/* --- several threads that dispatch: one of them runs callbacks, the others sleep ------------------------------------------ */

static void *dispatch(void *arg)
{
    return (void *)(intptr_t)zkl_session_dispatch(one);
}

/* While another thread runs a callback, what is posted is announced, and dispatch has nothing to do: then the descriptor must not go on
 * saying that it has. As soon as the other is done, it does. */
static void busy_elsewhere(void *(*there)(void *gate))
{
    struct gate gate = {.entered = MAILBOX_INIT, .leave = MAILBOX_INIT};
    struct mailbox box = MAILBOX_INIT;
    pthread_t other;
    zkl_lock *lock = kit_lock(one, QUEUE "/b", NULL);
    gate.victim = kit_lock(one, QUEUE "/a", NULL);
    kit_acquire_async(gate.victim, wait_in_completion, &gate);
    CU_ASSERT(kit_readable(one, 10000));
    kit_start_thread(&other, there, &gate);
    CU_ASSERT_FATAL(mailbox_wait(&gate.entered, 1));
    kit_acquire_async(lock, on_acquired, &box);
    CU_ASSERT(kit_readable(one, 10000));
    ASSERT_EVENTUALLY(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(zkl_session_dispatch(one), 0);
    CU_ASSERT_FALSE(kit_readable(one, 0)); /* no spinning */
    mailbox_put(&gate.leave, (struct letter){0});
    CU_ASSERT(kit_readable(one, 10000)); /* nothing forgotten */
    ASSERT_OK(pthread_join(other, NULL));
    CU_ASSERT_EQUAL(zkl_session_dispatch(one), 1);
    ASSERT_OK(mailbox_last(&box));
    CU_ASSERT_FALSE(kit_readable(one, 0));
}

TEST_WITH_SESSIONS_OF(kit_dispatched, test_another_thread_dispatches)
{
    busy_elsewhere(dispatch);
}

TEST_WITH_SESSIONS_OF(kit_dispatched, test_another_thread_frees)
{
    busy_elsewhere(free_victim); /* which runs the completion that is owed */
}

/* --- the end --------------------------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    struct zkl__callbacks callbacks;
    struct zkl__callback late;
    pthread_t poster;
    atomic_bool is_between, has_run;
} end = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void run_late(void *owner)
{
    end.has_run = true;
}

static void *post_and_finish(void *arg)
{
    pthread_mutex_lock(&end.mutex);
    zkl__callbacks_post(&end.callbacks, &end.late);
    zkl__callbacks_finish(&end.callbacks, &end.late);
    pthread_mutex_unlock(&end.mutex);
    return arg;
}

/* Whoever has posted it has the mutex until it waits. */
static bool somebody_waits(void)
{
    pthread_mutex_lock(&end.mutex);
    bool waits = end.late.queued;
    pthread_mutex_unlock(&end.mutex);
    return waits;
}

int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
    int rc = __real_pthread_join(thread, result);
    if (atomic_exchange(&end.is_between, false)) {
        kit_start_thread(&end.poster, post_and_finish, NULL);
        ASSERT_EVENTUALLY_FATAL(somebody_waits());
    }
    return rc;
}

/* Between the end of the thread and the moment in which that is known somebody posts a callback, and waits for it. */
TEST(test_a_callback_that_the_thread_did_not_see)
{
    end.late = (struct zkl__callback){.run = run_late};
    ASSERT_OK_FATAL(zkl__callbacks_init(&end.callbacks, &end.mutex, false));
    pthread_mutex_lock(&end.mutex);
    ASSERT_OK_FATAL(zkl__callbacks_want(&end.callbacks));
    pthread_mutex_unlock(&end.mutex);
    end.is_between = true;
    zkl__callbacks_stop(&end.callbacks);
    ASSERT_EVENTUALLY_FATAL(end.has_run);
    pthread_join(end.poster, NULL);
    zkl__callbacks_deinit(&end.callbacks);
}

TESTS("callbacks")
