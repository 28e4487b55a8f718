/* A lock of every recipe, driven by the same verbs; reading and writing under it; what a recipe does not have, refused by name; and the wrong
 * uses that a program makes. */
#include "lock_kit.h"

#define RECORD "/records/one"
#define ACCOUNT "/account"

static const char *path_of(size_t recipe)
{
    static char path[64];
    snprintf(path, sizeof path, "/handle/%zu", recipe);
    return path;
}

static void begin(void)
{
    kit_set_up(NULL);
    ASSERT_OK_FATAL(zkl_once_prepare(one, "/records", 10000, NULL));
}

/* With a directory for RECORD. */
#define TEST_OF_RECORDS(name) TEST_BETWEEN(begin(), name, kit_tear_down())

/* A lock of that recipe at the path of its own. */
static zkl_lock *make(size_t recipe, zkl_session *session, const zkl_lock_options *options)
{
    return kit_make((zkl_recipe)recipe, session, path_of(recipe), options);
}

TEST_OF_RECORDS(test_every_recipe)
{
    EACH_ROW (i, handle_recipes) {
        handle_drive(&handle_recipes[i], one, two, path_of(i), RECORD);
    }
}

/* --- reads and commits ------------------------------------------------------------------------------------------------- */

/* A znode to read, made by somebody else. */
static void make_account(void)
{
    kit_must_write(ZKL__OP_CREATE, ACCOUNT, NULL, "100");
}

/* Without waiting. The verbs that wait: test_every_recipe. */
TEST_WITH_SESSIONS(test_reads_and_commits)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_data *data;
    zkl_op_result result;
    make_account();
    zkl_lock *lock = kit_hold(one, "/locks/guarded", NULL);
    char text[] = "90";
    zkl_op op = {.kind = ZKL_OP_SET, .path = ACCOUNT, .data = text, .size = 2, .version = 0};
    ASSERT_OK(zkl_lock_commit_async(lock, &op, 1, 20000, &result, on_ended, &box, NULL));
    strcpy(text, "xx"); /* it was copied */
    op.path = NULL;
    ASSERT_OK(mailbox_code(&box, 1));
    CU_ASSERT_EQUAL(result.version, 1);
    ASSERT_OK(zkl_lock_read_async(&data, lock, ACCOUNT, true, 20000, on_ended, &box, NULL));
    kit_await_letters(&box, 2);
    CU_ASSERT_STRING_EQUAL_FATAL(data->data, "90");
    CU_ASSERT_EQUAL(data->size, 2);
    CU_ASSERT_EQUAL(data->version, 1);
    zkl_data_free(data);
    CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, "/nowhere", false, 20000, NULL), ZKL_ENOENT);
    CU_ASSERT_PTR_NULL(data);
    kit_release(lock);
    CU_ASSERT_EQUAL(zkl_lock_read_async(&data, lock, ACCOUNT, false, 1000, on_ended, &box, NULL), ZKL_ENOTHELD);
    kit_free(lock);
    CU_ASSERT_EQUAL(mailbox_count(&box), 2);
}

/* The response comes after the loss: what was read may be old. */
TEST_WITH_SESSIONS_OF(kit_short, test_lost_before_the_response)
{
    struct mailbox box = MAILBOX_INIT, ended = MAILBOX_INIT;
    zkl_data *data;
    make_account();
    zkl_lock *lock = kit_hold(one, "/locks/guarded", NULL);
    kit_delay(one, true);
    ASSERT_OK(zkl_lock_read_async(&data, lock, ACCOUNT, false, ZKL_WAIT_FOREVER, on_ended, &box, NULL));
    CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, ACCOUNT, false, ZKL_WAIT_FOREVER, NULL), ZKL_ECONNECT);
    CU_ASSERT_FALSE(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_ECONNECT);
    kit_delay(one, false);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);

    kit_acquire(lock);
    kit_delay(one, true);
    ASSERT_OK(zkl_lock_read_async(&data, lock, ACCOUNT, false, 5000, on_ended, &box, NULL));
    ASSERT_OK(zkl_lock_release_async(lock, on_ended, &ended, NULL)); /* the read is on its way */
    kit_delay(one, false);
    CU_ASSERT_EQUAL(mailbox_code(&box, 2), ZKL_ELOST);
    CU_ASSERT_PTR_NULL(data);
    kit_await_letters(&ended, 1);

    zkl_lock *lingers = kit_hold(one, "/locks/lingering", LOCK_OPTIONS(.linger_ms = 60000));
    kit_delay(one, true);
    ASSERT_OK(zkl_lock_read_async(&data, lingers, ACCOUNT, false, 5000, on_ended, &box, NULL));
    kit_release(lingers);
    kit_acquire(lingers); /* with the same token */
    kit_delay(one, false);
    CU_ASSERT_EQUAL(mailbox_code(&box, 3), ZKL_ELOST);
}

/* The result is known at the call; the response is waited for, a cancel and a stop token do not change that. */
TEST_WITH_SESSIONS(test_release)
{
    EACH_ROW (i, handle_recipes) {
        struct mailbox box = MAILBOX_INIT;
        zkl_stop stop = ZKL_STOP_INIT;
        const zkl_lock_options options = {.size = sizeof options, .release_timeout_ms = 60000, .stop = &stop};
        zkl_lock *lock = make(i, one, &options), *next = make(i, two, NULL);
        CU_ASSERT_EQUAL(zkl_lock_release_async(lock, on_ended, &box, NULL), ZKL_ENOTHELD);
        kit_acquire(lock);
        kit_delay(one, true);
        ASSERT_OK(zkl_lock_release_async(lock, on_ended, &box, NULL));
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
        CU_ASSERT_EQUAL(zkl_lock_cancel(lock), ZKL_ENOTWAITING);
        zkl_stop_raise(&stop);
        kit_acquire(next); /* it was sent */
        CU_ASSERT_EQUAL(mailbox_count(&box), 0);
        kit_delay(one, false);
        ASSERT_OK(mailbox_code(&box, 1));
        kit_delay(two, true);
        ASSERT_OK(zkl_lock_release_async(next, on_ended, &box, NULL));
        kit_free(next); /* delivers */
        CU_ASSERT_EQUAL(mailbox_count(&box), 2);
        kit_delay(two, false);
        kit_free(lock);
        CU_ASSERT_EQUAL(mailbox_count(&box), 2);
    }
}

/* A record of a later release may be larger. */
TEST_WITH_SESSIONS(test_reserved)
{
    zkl_error err;
    zkl_lock *lock = kit_hold(one, "/locks/guarded", NULL);
    zkl_op op = ZKL_OP_INIT;
    op.path = "/growing";
    op.reserved[1] = 1;
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, 10000, NULL, &err), ZKL_EINVAL);
    ASSERT_SAYS(err, "ZKL_OP_INIT");
    op.reserved[1] = 0;
    ASSERT_OK(zkl_lock_commit(lock, &op, 1, 10000, NULL, &err));
    op.kind = ZKL_OP_DELETE; /* of any version */
    ASSERT_OK(zkl_lock_commit(lock, &op, 1, 10000, NULL, &err));
}

/* --- every znode of a hold ----------------------------------------------------------------------------------------- */

static void check_commit_is_not_done(zkl_lock *lock)
{
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = RECORD};
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, NULL), ZKL_ELOST);
    zkl_lock_release(lock, NULL);
    kit_acquire(lock);
    ASSERT_OK(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, NULL)); /* it was not there */
}

TEST_OF_RECORDS(test_commit_after_one_znode_of_several_is_gone)
{
    zkl_lock *lock = make(ZKL_RECIPE_MULTILOCK, one, NULL);
    kit_acquire(lock);
    kit_remove_first(zkl_multilock_path(lock, 1));
    check_commit_is_not_done(lock);
}

static zkl_lock *make_pool(int permits)
{
    zkl_lock *lock;
    ASSERT_OK_FATAL(zkl_semaphore_new(&lock, one, "/pool", permits, NULL, NULL));
    return kit_keep(lock);
}

TEST_OF_RECORDS(test_commit_after_one_permit_of_several_is_gone)
{
    zkl_queue *queue = NULL;
    zkl_lock *lock = make_pool(3);
    ASSERT_OK(zkl_semaphore_acquire(lock, 3, 10000, NULL, NULL));
    ASSERT_OK(zkl_queue_list(&queue, two, "/pool/leases", 10000, NULL));
    CU_ASSERT_EQUAL_FATAL(queue->count, 3);
    kit_must_write(ZKL__OP_DELETE, "/pool/leases", queue->entries[2].name, NULL);
    zkl_queue_free(queue);
    check_commit_is_not_done(lock);
}

TEST_WITH_SESSIONS(test_commit_refuses_more_znodes_than_fit)
{
    zkl_error err;
    zkl_lock *lock = make_pool(ZKL_COMMIT_MAX + 1);
    ASSERT_OK(zkl_semaphore_acquire(lock, ZKL_COMMIT_MAX + 1, 10000, NULL, NULL));
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, NULL, 0, 10000, NULL, &err), ZKL_ELIMIT);
    ASSERT_SAYS(err, "101 znodes");
    ASSERT_OK(zkl_semaphore_release(lock, 1, NULL));
    ASSERT_OK(zkl_lock_commit(lock, NULL, 0, 10000, NULL, &err));
}

/* --- options ------------------------------------------------------------------------------------------------------- */

/* On a machine that is slow all its time may be over before the call returns: then it is tried again. */
static bool acquired_in_time(zkl_lock *lock)
{
    int code = zkl_lock_acquire(lock, 10000, NULL, NULL);
    CU_ASSERT(code == ZKL_OK || code == ZKL_ELOST);
    return code == ZKL_OK;
}

TEST_WITH_SESSIONS(test_max_hold)
{
    struct mailbox box = MAILBOX_INIT;
    EACH_ROW (i, handle_recipes) {
        zkl_lock *lock = make(i, one, LOCK_OPTIONS(.max_hold_ms = 60, .state_fn = on_lock_state, .payload = &box));
        zkl_lock *next = make(i, two, NULL);
        mailbox_clear(&box);
        ASSERT_EVENTUALLY_FATAL(acquired_in_time(lock));
        CU_ASSERT(zkl_lock_remaining_ms(lock) <= 60);
        kit_acquire(next); /* though nobody released it */
        ASSERT_EVENTUALLY(mailbox_last(&box) == ZKL_STATE_LOST);
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_LOST);
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
        kit_release(next);
    }
}

TEST_WITH_SESSIONS(test_recursive)
{
    EACH_ROW (i, handle_recipes) {
        if (i != ZKL_RECIPE_SEMAPHORE) {
            zkl_error err;
            zkl_lock *lock = make(i, one, LOCK_OPTIONS(.recursive = true));
            kit_acquire(lock);
            kit_acquire(lock);
            kit_release(lock);
            CU_ASSERT_TRUE(zkl_lock_is_held(lock));
            kit_release(lock);
            CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ENOTHELD);
            kit_acquire(lock);
            kit_expire(one);
            kit_await_state(lock, ZKL_STATE_LOST);
            CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 1000, NULL, NULL), ZKL_ELOST);
            CU_ASSERT_EQUAL(zkl_lock_release(lock, &err), ZKL_ELOST);
            ASSERT_SAYS(err, "session");
            CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ENOTHELD);
            kit_acquire(lock); /* in the next session */
            kit_free(lock);
        }
    }
}

TEST_WITH_SESSIONS(test_revocation)
{
    struct mailbox box = MAILBOX_INIT;
    EACH_ROW (i, handle_recipes) {
        if (i != ZKL_RECIPE_SEMAPHORE) {
            zkl_lock *lock = make(i, one, REVOKE_TO(&box));
            mailbox_clear(&box);
            kit_acquire(lock);
            ASSERT_OK(zkl_queue_revoke(two, path_of(i), NULL, 10000, NULL));
            kit_await_letters(&box, 1);
            kit_release(lock);
            CU_ASSERT_EQUAL(kit_queue(two, path_of(i)), 0);
        }
    }
}

/* A leader that publishes has its value back, and is asked by nobody. */
TEST_WITH_SESSIONS(test_a_revocable_leader_publishes)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_queue *queue = NULL;
    zkl_lock *lock = make(ZKL_RECIPE_ELECTION, one, REVOKE_TO(&box));
    kit_acquire(lock);
    ASSERT_OK(zkl_election_publish(lock, "here", 10000, NULL));
    ASSERT_OK(zkl_queue_revoke(two, zkl_lock_path(lock), NULL, 10000, NULL));
    kit_await_letters(&box, 1);
    ASSERT_OK(zkl_election_publish(lock, "there", 10000, NULL));
    ASSERT_OK(zkl_queue_list(&queue, two, zkl_lock_path(lock), 10000, NULL));
    CU_ASSERT_EQUAL(queue->entries[0].kind, ZKL_KIND_LATCH);
    CU_ASSERT_STRING_EQUAL(queue->entries[0].data, "there");
    CU_ASSERT_EQUAL(mailbox_count(&box), 1);
    kit_delay(one, true);
    ASSERT_OK(zkl_queue_revoke(two, zkl_lock_path(lock), NULL, 10000, NULL));
    CU_ASSERT_EQUAL(zkl_election_publish(lock, "over it", 10, NULL), ZKL_ETIMEOUT);
    kit_delay(one, false);
    kit_await_letters(&box, 2);
    zkl_queue_free(queue);
}

/* --- what is refused by name --------------------------------------------------------------------------------------- */

static bool quotes(const zkl_error *err, size_t recipe)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", handle_recipes[recipe].noun);
    return strstr(err->text, quoted);
}

#define ON(recipe) (1U << ZKL_RECIPE_##recipe)

static void on_position(zkl_lock *lock, size_t ahead, void *payload) {}

/* An option that some recipes take, or with another `problem` a value or a second option that a lock refuses. */
static const struct refusal {
    zkl_lock_options options;
    unsigned taken_by; /* a bit for each recipe */
    const char *name, *problem;
} refusals[] = {
    {{.recursive = true}, ~ON(SEMAPHORE), "recursive", NULL},
    {{.recover = true}, ON(LOCK) | ON(ELECTION), "recover", NULL},
    {{.revoke_fn = on_revoke}, ~ON(SEMAPHORE), "revoke_fn", NULL},
    {{.metadata = "__REVOKE__"}, 0, "metadata", "REVOKE"},
    {{.max_hold_ms = -1}, 0, "max_hold_ms", "-1; 0 to 864000000000 is"},
    {{.release_timeout_ms = -1}, 0, "release_timeout_ms", "-1; 0 to 86400000 is"},
    {{.on_expiry = (zkl_on_expiry)7}, 0, "on_expiry", "7"},
    {{.acl = &(const zkl_acl){0, NULL}}, 0, "acl", "acl"},
    {{.delay_after_crash_ms = 1}, ON(LOCK) | ON(ELECTION), "delay_after_crash_ms", NULL},
    {{.delay_after_crash_ms = -1}, 0, "delay_after_crash_ms", "-1; 0 to 86400000 is"},
    {{.hold_at_least_ms = 1}, ON(LOCK), "hold_at_least_ms", NULL},
    {{.hold_at_least_ms = -1}, 0, "hold_at_least_ms", "-1; 0 to 86400000 is"},
    {{.hold_at_least_ms = 1000, .max_hold_ms = 999}, 0, "hold_at_least_ms", "max_hold_ms"},
    {{.hold_at_least_ms = 1000, .linger_ms = 1}, 0, "hold_at_least_ms", "linger_ms"},
    {{.linger_ms = 1}, ON(LOCK) | ON(WRITE_LOCK), "linger_ms", NULL},
    {{.linger_ms = -1}, 0, "linger_ms", "-1; 0 to 86400000 is"},
    {{.linger_ms = 1, .revoke_fn = on_revoke}, 0, "linger_ms", "revoke_fn"},
    {{.max_ahead = 1}, ~(ON(MULTILOCK) | ON(SEMAPHORE)), "max_ahead", NULL},
    {{.max_ahead = -1}, 0, "max_ahead", "-1; 0 to 2147483647 is"},
    {{.position_fn = on_position}, ~(ON(MULTILOCK) | ON(SEMAPHORE)), "position_fn", NULL},
};

TEST_WITH_SESSIONS(test_refused_options)
{
    EACH_ROW (i, refusals) {
        const struct refusal *refusal = &refusals[i];
        zkl_lock_options options = refusal->options;
        options.size = sizeof options;
        for (size_t j = 0; j < (refusal->problem ? 1 : HANDLE_RECIPES); j++) {
            const struct handle_recipe *recipe = &handle_recipes[j];
            zkl_lock *lock = (zkl_lock *)&options;
            zkl_error err = {.text = ""};
            bool taken = refusal->taken_by & 1U << recipe->recipe;
            CU_ASSERT_EQUAL(recipe->make(&lock, one, path_of(j), &options, &err), taken ? ZKL_OK : ZKL_EINVAL);
            CU_ASSERT_EQUAL(lock != NULL, taken);
            CU_ASSERT(taken || strstr(err.text, refusal->name));
            CU_ASSERT(taken || strstr(err.text, refusal->problem ? refusal->problem : recipe->noun));
            kit_free(lock);
        }
    }
}

TEST_WITH_SESSIONS(test_refused_verbs)
{
    struct mailbox box = MAILBOX_INIT;
    EACH_ROW (i, handle_recipes) {
        zkl_lock *lock = make(i, one, NULL);
        zkl_error errors[6] = {{0}};
        const struct {
            zkl_recipe of;
            int code;
        } verbs[] = {
            {ZKL_RECIPE_WRITE_LOCK, zkl_write_lock_downgrade(lock, &errors[0])},
            {ZKL_RECIPE_SEMAPHORE, zkl_semaphore_acquire(lock, 1, 0, NULL, &errors[1])},
            {ZKL_RECIPE_SEMAPHORE, zkl_semaphore_acquire_async(lock, 1, 0, on_acquired, &box, &errors[2])},
            {ZKL_RECIPE_SEMAPHORE, zkl_semaphore_release(lock, 1, &errors[3])},
            {ZKL_RECIPE_ELECTION, zkl_election_publish(lock, "value", 0, &errors[4])},
            {ZKL_RECIPE_ELECTION, zkl_election_run(lock, 0, run_nothing, NULL, NULL, &errors[5])},
        };
        EACH_ROW (verb, verbs) {
            if (verbs[verb].of != i) {
                CU_ASSERT_EQUAL(verbs[verb].code, ZKL_EINVAL);
                CU_ASSERT(quotes(&errors[verb], verbs[verb].of) && quotes(&errors[verb], i));
            }
        }
        CU_ASSERT_EQUAL(zkl_multilock_path(lock, 0) != NULL, i == ZKL_RECIPE_MULTILOCK);
        CU_ASSERT_EQUAL(zkl_semaphore_tokens(lock, NULL, 0), 0);
        kit_free(lock); /* its own verbs were called, too */
    }
}

TEST_WITH_SESSIONS(test_a_revocable_writer_is_not_downgraded)
{
    zkl_error err;
    zkl_lock *lock = make(ZKL_RECIPE_WRITE_LOCK, one, LOCK_OPTIONS(.revoke_fn = on_revoke));
    kit_acquire(lock);
    CU_ASSERT_EQUAL(zkl_write_lock_downgrade(lock, &err), ZKL_EINVAL);
    ASSERT_SAYS(err, "revoke_fn");
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
}

/* --- wrong uses, each told by name --------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_wrong_acquires)
{
    EACH_ROW (i, handle_recipes) {
        zkl_lock *lock = make(i, one, NULL);
        zkl_error err;
        CU_ASSERT_EQUAL(zkl_lock_release(lock, &err), ZKL_ENOTHELD);
        ASSERT_SAYS(err, "never granted, or released");
        kit_acquire(lock);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, &err), ZKL_EDEADLK);
        ASSERT_SAYS(err, "is not recursive");
        kit_expire(one);
        kit_await_state(lock, ZKL_STATE_LOST);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, &err), ZKL_EDEADLK);
        ASSERT_SAYS(err, "lost it");
        ASSERT_SAYS(err, "release it first");
        CU_ASSERT_EQUAL(zkl_lock_commit(lock, NULL, 0, 1000, NULL, &err), ZKL_ELOST);
        ASSERT_SAYS(err, "not done: the lock was lost");
        CU_ASSERT_EQUAL(zkl_lock_release(lock, &err), ZKL_ELOST);
        ASSERT_SAYS(err, "lost while it was held");
        kit_await_session(one, ZKL_SESSION_CONNECTED);
    }
}

TESTS("handle")
