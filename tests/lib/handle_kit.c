#include "handle_kit.h"

#include "check.h"
#include "wait.h"

#include <stdatomic.h>

/* --- the recipes --------------------------------------------------------------------------------------------------- */

/* The rival's paths are in another order. */
static int make_multilock(zkl_lock **out, zkl_session *session, const char *path, const zkl_lock_options *options,
                          zkl_error *err)
{
    static atomic_uint times;
    char other[256];
    snprintf(other, sizeof other, "%s-other", path);
    bool swapped = times++ % 2 == 1;
    const char *const paths[] = {swapped ? other : path, swapped ? path : other};
    return zkl_multilock_new(out, session, paths, 2, options, err);
}

static int make_semaphore(zkl_lock **out, zkl_session *session, const char *path, const zkl_lock_options *options,
                          zkl_error *err)
{
    return zkl_semaphore_new(out, session, path, 1, options, err);
}

const struct handle_recipe handle_recipes[] = {
    {ZKL_RECIPE_LOCK, "lock", zkl_lock_new},
    {ZKL_RECIPE_READ_LOCK, "read lock", zkl_read_lock_new},
    {ZKL_RECIPE_WRITE_LOCK, "write lock", zkl_write_lock_new},
    {ZKL_RECIPE_MULTILOCK, "multi-lock", make_multilock},
    {ZKL_RECIPE_SEMAPHORE, "semaphore", make_semaphore},
    {ZKL_RECIPE_ELECTION, "election", zkl_election_new},
};

zkl_lock *handle_make(const struct handle_recipe *recipe, zkl_session *session, const char *path,
                      const zkl_lock_options *options)
{
    zkl_lock *lock = NULL;
    ASSERT_OK_FATAL(recipe->make(&lock, session, path, options, NULL));
    CU_ASSERT_EQUAL(zkl_lock_recipe(lock), recipe->recipe);
    return lock;
}

zkl_stats kit_stats(zkl_session *session)
{
    zkl_stats stats = ZKL_STATS_INIT;
    ASSERT_OK(zkl_session_stats(session, &stats));
    return stats;
}

/* --- driving ------------------------------------------------------------------------------------------------------- */

/* Writes the record anew, and asks whether our znode is where zkl_lock_node says. */
static void write_record(zkl_lock *lock, const char *record)
{
    char name[256], node[1400];
    CU_ASSERT_FATAL(zkl_lock_node(lock, name, sizeof name) > 0);
    snprintf(node, sizeof node, "%s/%s", zkl_lock_path(lock), name);
    const zkl_op ops[] = {
        {.kind = ZKL_OP_CREATE, .path = record},
        {.kind = ZKL_OP_SET, .path = record, .data = "under it", .size = 8, .version = 0},
        {.kind = ZKL_OP_DELETE, .path = record, .version = 1},
        {.kind = ZKL_OP_CHECK, .path = node, .version = ZKL_ANY_VERSION},
    };
    zkl_op_result results[4];
    ASSERT_OK_FATAL(zkl_lock_commit(lock, ops, 4, SOON, results, NULL));
    CU_ASSERT_EQUAL(results[1].version, 1);
    ASSERT_OK(results[3].code);
}

static void check_idle(zkl_lock *lock, const char *record)
{
    char name[8] = "x";
    zkl_data *data;
    zkl_op op = {.kind = ZKL_OP_CREATE, .path = record};
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    CU_ASSERT_FALSE(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(zkl_lock_token(lock), 0);
    CU_ASSERT_EQUAL(zkl_lock_remaining_ms(lock), 0);
    CU_ASSERT_EQUAL(zkl_lock_node(lock, name, sizeof name), 0);
    CU_ASSERT_STRING_EQUAL(name, "");
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, SOON, NULL, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, zkl_lock_path(lock), false, SOON, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_lock_cancel(lock), ZKL_ENOTWAITING);
}

static void check_held(zkl_lock *lock, int64_t token, const char *record)
{
    CU_ASSERT(token > 0);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), token);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_HELD);
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
    CU_ASSERT(zkl_lock_remaining_ms(lock) > 0);
    write_record(lock, record);
    for (int fresh = 0; fresh < 2; fresh++) {
        zkl_data *data;
        ASSERT_OK(zkl_lock_read(&data, lock, zkl_lock_path(lock), fresh, SOON, NULL));
        CU_ASSERT(data && data->mzxid > 0);
        zkl_data_free(data);
    }
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EDEADLK);
}

struct outcome {
    atomic_int times, code;
};

static void on_done(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct outcome *outcome = payload;
    CU_ASSERT_EQUAL(grant != NULL, code == ZKL_OK);
    outcome->code = code;
    outcome->times++;
}

static int completed(struct outcome *outcome)
{
    ASSERT_EVENTUALLY(outcome->times > 0);
    CU_ASSERT_EQUAL(outcome->times, 1);
    return outcome->code;
}

/* The rival waits and is cancelled, then waits and is granted. */
static void wait_behind(zkl_lock *lock, zkl_lock *rival)
{
    struct outcome cancelled = {0}, stopped = {0}, granted = {0};
    zkl_stop stop = ZKL_STOP_INIT;
    zkl_error err = {.text = ""};
    CU_ASSERT_EQUAL(zkl_lock_acquire(rival, 0, NULL, NULL), ZKL_EBUSY);
    ASSERT_OK(zkl_lock_acquire_async(rival, ZKL_WAIT_FOREVER, on_done, &cancelled, NULL));
    CU_ASSERT_EQUAL(zkl_lock_state(rival), ZKL_STATE_WAITING);
    CU_ASSERT_EQUAL(zkl_lock_acquire(rival, 0, NULL, &err), ZKL_EDEADLK);
    ASSERT_SAYS(err, "is pending");
    CU_ASSERT_EQUAL(zkl_lock_release(rival, &err), ZKL_ENOTHELD);
    ASSERT_SAYS(err, "still waiting; cancel it");
    ASSERT_OK(zkl_lock_cancel(rival));
    CU_ASSERT_EQUAL(completed(&cancelled), ZKL_ECANCELED);
    ASSERT_OK(zkl_lock_set_stop(rival, &stop, NULL));
    ASSERT_OK(zkl_lock_acquire_async(rival, ZKL_WAIT_FOREVER, on_done, &stopped, NULL));
    CU_ASSERT_EQUAL(zkl_lock_set_stop(rival, NULL, NULL), ZKL_EDEADLK);
    zkl_stop_raise(&stop);
    CU_ASSERT_EQUAL(completed(&stopped), ZKL_ECANCELED);
    ASSERT_OK(zkl_lock_set_stop(rival, NULL, NULL));
    ASSERT_OK(zkl_lock_acquire_async(rival, ZKL_WAIT_FOREVER, on_done, &granted, NULL));
    kit_release(lock);
    ASSERT_OK(completed(&granted));
    kit_release(rival);
}

static int in_section(const zkl_cancel *cancel, int64_t token, void *lock)
{
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel));
    CU_ASSERT(zkl_cancel_remaining_ms(cancel) > 0);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), token);
    ASSERT_OK(zkl_lock_cancel(lock));
    CU_ASSERT_TRUE(zkl_cancel_raised(cancel));
    CU_ASSERT_TRUE(zkl_lock_is_held(lock)); /* until this returns */
    return 7;
}

int handle_replace(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct handle_replaced *replaced = payload;
    replaced->first = token;
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel)); /* also when an earlier section was told to stop */
    kit_release(replaced->lock);
    ASSERT_OK(zkl_lock_acquire(replaced->rival, SOON, NULL, NULL));
    kit_release(replaced->rival);
    ASSERT_OK(zkl_lock_acquire(replaced->lock, SOON, &replaced->second, NULL));
    CU_ASSERT_TRUE(zkl_cancel_raised(cancel));
    CU_ASSERT_EQUAL(zkl_cancel_remaining_ms(cancel), 0);
    return replaced->result;
}

static void replace_in_a_section(zkl_lock *lock, zkl_lock *rival)
{
    struct handle_replaced replaced = {.lock = lock, .rival = rival, .result = 8};
    zkl_error err = {0};
    int result = 0;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, SOON, 0, handle_replace, &replaced, &result, &err), ZKL_ELOST);
    CU_ASSERT_EQUAL(err.code, ZKL_ELOST);
    CU_ASSERT_EQUAL(result, 8);
    CU_ASSERT(replaced.second.token > replaced.first);
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(zkl_lock_token(lock), replaced.second.token);
    kit_release(lock);
}

void handle_drive(const struct handle_recipe *recipe, zkl_session *session, zkl_session *other, const char *path,
                  const char *record)
{
    const struct handle_recipe *against = recipe->recipe == ZKL_RECIPE_READ_LOCK ? recipe + 1 : recipe; /* a writer */
    zkl_lock *lock = handle_make(recipe, session, path, NULL), *rival = handle_make(against, other, path, NULL);
    zkl_grant grant = {.token = -1};
    int result = 0;
    check_idle(lock, record);
    ASSERT_OK(zkl_lock_acquire(lock, SOON, &grant, NULL));
    check_held(lock, grant.token, record);
    wait_behind(lock, rival);
    check_idle(lock, record);
    ASSERT_OK(zkl_with_lock(lock, SOON, 0, in_section, lock, &result, NULL));
    CU_ASSERT_EQUAL(result, 7);
    replace_in_a_section(lock, rival);
    check_idle(lock, record);
    zkl_lock_free(lock);
    zkl_lock_free(rival);
}
