/* Objects that are freed under a call of another thread: the call ends, and touches nothing that is gone. */
#include "lock_kit.h"

#include <stdatomic.h>

#define QUEUE "/freed"

struct call {
    pthread_t thread;
    int (*run)(struct call *call);
    zkl_group *group;
    zkl_double_barrier *barrier;
    zkl_lock *lock;
    zkl_lock *election;
    atomic_bool runs; /* the function of the user's */
    int code;
};

static void *run_call(void *arg)
{
    struct call *call = arg;
    call->code = call->run(call);
    return NULL;
}

static void start(struct call *call)
{
    CU_ASSERT_EQUAL_FATAL(pthread_create(&call->thread, NULL, run_call, call), 0);
}

static int finish(struct call *call)
{
    CU_ASSERT_EQUAL(pthread_join(call->thread, NULL), 0);
    return call->code;
}

static int join_group(struct call *call)
{
    return zkl_group_join(call->group, ZKL_WAIT_FOREVER, NULL);
}

static void test_join_of_a_group(void)
{
    zkl_group *rival;
    struct call call = {.run = join_group};
    kit_set_up(NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&rival, one, QUEUE, "id", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&call.group, two, QUEUE, "id", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_join(rival, 10000, NULL), ZKL_OK);
    start(&call);
    CU_ASSERT(EVENTUALLY(zkl_group_state(call.group) == ZKL_STATE_WAITING));
    zkl_group_free(call.group);
    CU_ASSERT_EQUAL(finish(&call), ZKL_ECANCELED);
    zkl_group_free(rival);
    kit_tear_down();
}

static int enter_barrier(struct call *call)
{
    return zkl_double_barrier_enter(call->barrier, ZKL_WAIT_FOREVER, NULL);
}

static void test_enter_of_a_double_barrier(void)
{
    struct call call = {.run = enter_barrier};
    kit_set_up(NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_double_barrier_new(&call.barrier, one, QUEUE, 2, NULL), ZKL_OK);
    start(&call);
    CU_ASSERT(EVENTUALLY(kit_queue(two, QUEUE) == 1));
    zkl_double_barrier_free(call.barrier);
    int code = finish(&call); /* others see its znode before it has heard of it itself */
    CU_ASSERT(code == ZKL_ELOST || code == ZKL_ECANCELED);
    kit_tear_down();
}

static int until_told(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)token;
    atomic_store((atomic_bool *)payload, true);
    CU_ASSERT(EVENTUALLY(zkl_cancel_raised(cancel)));
    CU_ASSERT_EQUAL(zkl_cancel_remaining_ms(cancel), 0);
    return 0;
}

static int run_section(struct call *call)
{
    zkl_error err = {0};
    int rc = zkl_with_lock(call->lock, ZKL_WAIT_FOREVER, 0, until_told, &call->runs, NULL, &err);
    CU_ASSERT_EQUAL(err.code, rc);
    return rc;
}

static void test_section_under_a_lock(void)
{
    struct call call = {.run = run_section};
    kit_set_up(NULL);
    call.lock = kit_lock(one, QUEUE, NULL);
    start(&call);
    CU_ASSERT(EVENTUALLY(atomic_load(&call.runs)));
    zkl_lock_free(call.lock);
    CU_ASSERT_EQUAL(finish(&call), ZKL_ELOST);
    kit_tear_down();
}

static int run_terms(struct call *call)
{
    return zkl_election_run(call->election, 0, until_told, &call->runs, NULL, NULL);
}

static void test_terms_of_an_election(void)
{
    struct call call = {.run = run_terms};
    kit_set_up(NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&call.election, one, QUEUE, NULL, NULL), ZKL_OK);
    start(&call);
    CU_ASSERT(EVENTUALLY(atomic_load(&call.runs)));
    zkl_lock_free(call.election);
    CU_ASSERT_EQUAL(finish(&call), ZKL_ECANCELED);
    kit_tear_down();
}

TESTS("freed meanwhile", T(test_join_of_a_group), T(test_enter_of_a_double_barrier), T(test_section_under_a_lock),
      T(test_terms_of_an_election))
