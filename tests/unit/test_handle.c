/* A lock of every recipe, driven by the same verbs; reading and writing under it; what a recipe does not have, refused by name; and the wrong
 * uses that a program makes. */
#include "handle_kit.h"
#include "lock_kit.h"

#include <stdio.h>
#include <string.h>

#include <zklock/testing.h>

#define RECORD "/records/one"
#define ACCOUNT "/account"

static const char *path_of(int recipe)
{
    static char path[64];
    snprintf(path, sizeof path, "/handle/%d", recipe);
    return path;
}

static void begin(void)
{
    kit_set_up(NULL);
    ASSERT_OK_FATAL(zkl_once_prepare(one, "/records", 10000, NULL));
}

TEST(test_every_recipe)
{
    begin();
    for (int i = 0; i < handle_recipe_count; i++) {
        handle_drive(&handle_recipes[i], one, two, path_of(i), RECORD);
    }
    kit_tear_down();
}

/* --- reads and commits ------------------------------------------------------------------------------------------------- */

/* A znode to read, made under another lock. */
static void make_account(zkl_session *session, const char *text)
{
    zkl_lock *lock = kit_lock(session, "/locks/maker", NULL);
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = ACCOUNT, .data = text, .size = strlen(text)};
    kit_acquire(lock);
    ASSERT_OK(zkl_lock_commit(lock, &op, 1, 10000, NULL, NULL));
    kit_free(lock);
}

TEST(test_every_recipe_reads_and_commits)
{
    for (int i = 0; i < handle_recipe_count; i++) {
        struct mailbox box = MAILBOX_INIT;
        zkl_data *data;
        zkl_op_result result;
        kit_set_up(NULL);
        make_account(two, "100");
        zkl_lock *lock = handle_make(&handle_recipes[i], one, "/locks/guarded", NULL);
        CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, ACCOUNT, false, 1000, NULL), ZKL_ENOTHELD);
        CU_ASSERT_PTR_NULL(data);
        kit_acquire(lock);
        for (int fresh = 0; fresh < 2; fresh++) {
            ASSERT_OK_FATAL(zkl_lock_read(&data, lock, ACCOUNT, fresh, 10000, NULL));
            CU_ASSERT_STRING_EQUAL(data->data, "100");
            CU_ASSERT_EQUAL(data->size, 3);
            CU_ASSERT_EQUAL(data->version, 0);
            zkl_data_free(data);
        }
        char text[] = "90";
        zkl_op op = {.kind = ZKL_OP_SET, .path = ACCOUNT, .data = text, .size = 2, .version = 0};
        ASSERT_OK(zkl_lock_commit_async(lock, &op, 1, 1000, &result, on_ended, &box, NULL));
        strcpy(text, "xx"); /* it was copied */
        op.path = NULL;
        ASSERT_OK(mailbox_code(&box, 1));
        CU_ASSERT_EQUAL(result.version, 1);
        ASSERT_OK(zkl_lock_read_async(&data, lock, ACCOUNT, true, 1000, on_ended, &box, NULL));
        CU_ASSERT_TRUE(mailbox_wait(&box, 2));
        CU_ASSERT_STRING_EQUAL_FATAL(data->data, "90");
        CU_ASSERT_EQUAL(data->version, 1);
        zkl_data_free(data);
        CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, "/nowhere", false, 1000, NULL), ZKL_ENOENT);
        kit_release(lock);
        CU_ASSERT_EQUAL(zkl_lock_read_async(&data, lock, ACCOUNT, false, 1000, on_ended, &box, NULL), ZKL_ENOTHELD);
        kit_free(lock);
        CU_ASSERT_EQUAL(mailbox_count(&box), 2);
        kit_tear_down();
    }
}

/* The response comes after the loss: what was read may be old. */
TEST(test_lost_before_the_response)
{
    zkl_session_options options = kit_short();
    struct mailbox box = MAILBOX_INIT, ended = MAILBOX_INIT;
    zkl_data *data;
    zkl_error err;
    kit_set_up(&options);
    make_account(two, "100");
    zkl_lock *lock = handle_make(&handle_recipes[ZKL_RECIPE_LOCK], one, "/locks/guarded", NULL);
    kit_acquire(lock);
    char node[ZKL_PATH_MAX + 1];
    zkl_lock_node(lock, node, sizeof node);
    ASSERT_OK(zkl_testing_delay(one, true, NULL));
    ASSERT_OK(zkl_lock_read_async(&data, lock, ACCOUNT, false, ZKL_WAIT_FOREVER, on_ended, &box, NULL));
    CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, ACCOUNT, false, ZKL_WAIT_FOREVER, &err), ZKL_ECONNECT);
    CU_ASSERT_FALSE(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_ECONNECT);
    ASSERT_OK(zkl_testing_delay(one, false, NULL));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);

    kit_acquire(lock);
    ASSERT_OK(zkl_testing_delay(one, true, NULL));
    ASSERT_OK(zkl_lock_read_async(&data, lock, ACCOUNT, false, 5000, on_ended, &box, NULL));
    ASSERT_OK(zkl_lock_release_async(lock, on_ended, &ended, NULL)); /* the read is on its way */
    ASSERT_OK(zkl_testing_delay(one, false, NULL));
    CU_ASSERT_EQUAL(mailbox_code(&box, 2), ZKL_ELOST);
    CU_ASSERT_PTR_NULL(data);
    CU_ASSERT_TRUE(mailbox_wait(&ended, 1));
    kit_free(lock);
    kit_tear_down();
}

/* The result is known at the call; the response is waited for, a cancel and a stop token do not change that. */
TEST(test_release)
{
    for (int i = 0; i < handle_recipe_count; i++) {
        struct mailbox box = MAILBOX_INIT;
        zkl_stop stop = ZKL_STOP_INIT;
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        kit_set_up(NULL);
        options.stop = &stop;
        options.release_timeout_ms = 60000;
        zkl_lock *lock = handle_make(&handle_recipes[i], one, "/locks/guarded", &options);
        zkl_lock *next = handle_make(&handle_recipes[i], two, "/locks/guarded", NULL);
        CU_ASSERT_EQUAL(zkl_lock_release_async(lock, on_ended, &box, NULL), ZKL_ENOTHELD);
        kit_acquire(lock);
        CU_ASSERT_EQUAL(zkl_lock_release_async(lock, NULL, NULL, NULL), ZKL_EINVAL);
        ASSERT_OK(zkl_testing_delay(one, true, NULL));
        ASSERT_OK(zkl_lock_release_async(lock, on_ended, &box, NULL));
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
        CU_ASSERT_EQUAL(zkl_lock_cancel(lock), ZKL_ENOTWAITING);
        zkl_stop_raise(&stop);
        kit_acquire(next); /* it was sent */
        CU_ASSERT_EQUAL(mailbox_count(&box), 0);
        ASSERT_OK(zkl_testing_delay(one, false, NULL));
        ASSERT_OK(mailbox_code(&box, 1));
        ASSERT_OK(zkl_testing_delay(two, true, NULL));
        ASSERT_OK(zkl_lock_release_async(next, on_ended, &box, NULL));
        kit_free(next); /* delivers */
        CU_ASSERT_EQUAL(mailbox_count(&box), 2);
        ASSERT_OK(zkl_testing_delay(two, false, NULL));
        kit_free(lock);
        CU_ASSERT_EQUAL(mailbox_count(&box), 2);
        kit_tear_down();
    }
}

/* A record of a later release may be larger. */
TEST(test_reserved)
{
    zkl_error err;
    begin();
    zkl_lock *lock = kit_hold(one, "/locks/guarded", NULL);
    zkl_op op = ZKL_OP_INIT;
    op.path = "/growing";
    op.reserved[1] = 1;
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, 10000, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "ZKL_OP_INIT"));
    op.reserved[1] = 0;
    ASSERT_OK(zkl_lock_commit(lock, &op, 1, 10000, NULL, &err));
    op.kind = ZKL_OP_DELETE; /* of any version */
    ASSERT_OK(zkl_lock_commit(lock, &op, 1, 10000, NULL, &err));
    kit_free(lock);
    kit_tear_down();
}

/* --- every znode of a hold ----------------------------------------------------------------------------------------- */

static void check_commit_is_not_done(zkl_lock *lock)
{
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = RECORD};
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, NULL), ZKL_ELOST);
    zkl_lock_release(lock, NULL);
    kit_acquire(lock);
    ASSERT_OK(zkl_lock_commit(lock, &op, 1, ZKL_WAIT_FOREVER, NULL, NULL)); /* it was not there */
    kit_free(lock);
}

TEST(test_commit_after_one_znode_of_several_is_gone)
{
    begin();
    zkl_lock *lock = handle_make(&handle_recipes[ZKL_RECIPE_MULTILOCK], one, "/several", NULL);
    kit_acquire(lock);
    kit_remove_first(zkl_multilock_path(lock, 1));
    check_commit_is_not_done(lock);
    kit_tear_down();
}

TEST(test_commit_after_one_permit_of_several_is_gone)
{
    begin();
    zkl_lock *lock = NULL;
    zkl_queue *queue = NULL;
    ASSERT_OK_FATAL(zkl_semaphore_new(&lock, one, "/pool", 3, NULL, NULL));
    ASSERT_OK(zkl_semaphore_acquire(lock, 3, 10000, NULL, NULL));
    ASSERT_OK(zkl_queue_list(&queue, two, "/pool/leases", 10000, NULL));
    CU_ASSERT_EQUAL_FATAL(queue->count, 3);
    kit_must_write(ZKL__OP_DELETE, "/pool/leases", queue->entries[2].name, NULL);
    zkl_queue_free(queue);
    check_commit_is_not_done(lock);
    kit_tear_down();
}

TEST(test_commit_refuses_more_znodes_than_fit)
{
    begin();
    zkl_lock *lock = NULL;
    zkl_error err = {0};
    ASSERT_OK_FATAL(zkl_semaphore_new(&lock, one, "/pool", ZKL_COMMIT_MAX + 1, NULL, NULL));
    ASSERT_OK(zkl_semaphore_acquire(lock, ZKL_COMMIT_MAX + 1, 10000, NULL, NULL));
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, NULL, 0, 10000, NULL, &err), ZKL_ELIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "101 znodes"));
    ASSERT_OK(zkl_semaphore_release(lock, 1, NULL));
    ASSERT_OK(zkl_lock_commit(lock, NULL, 0, 10000, NULL, &err));
    kit_free(lock);
    kit_tear_down();
}

/* --- options ------------------------------------------------------------------------------------------------------- */

TEST(test_max_hold)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    struct mailbox box = MAILBOX_INIT;
    options.max_hold_ms = 60;
    options.state_fn = on_lock_state;
    options.payload = &box;
    begin();
    for (int i = 0; i < handle_recipe_count; i++) {
        zkl_lock *lock = handle_make(&handle_recipes[i], one, path_of(i), &options);
        zkl_lock *next = handle_make(&handle_recipes[i], two, path_of(i), NULL);
        mailbox_clear(&box);
        kit_acquire(lock);
        CU_ASSERT(zkl_lock_remaining_ms(lock) <= 60);
        kit_acquire(next); /* though nobody released it */
        ASSERT_EVENTUALLY(mailbox_last(&box) == ZKL_STATE_LOST);
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_LOST);
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
        kit_release(next);
        kit_free(lock);
        kit_free(next);
    }
    kit_tear_down();
}

static void on_revoke(zkl_lock *lock, void *payload)
{
    mailbox_put(payload, (struct letter){.from = lock, .code = 1});
}

TEST(test_recursive)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recursive = true;
    begin();
    for (int i = 0; i < handle_recipe_count; i++) {
        if (handle_recipes[i].recipe != ZKL_RECIPE_SEMAPHORE) {
            zkl_lock *lock = handle_make(&handle_recipes[i], one, path_of(i), &options);
            kit_acquire(lock);
            kit_acquire(lock);
            kit_release(lock);
            CU_ASSERT_TRUE(zkl_lock_is_held(lock));
            kit_release(lock);
            CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ENOTHELD);
            kit_free(lock);
        }
    }
    kit_tear_down();
}

TEST(test_revocation)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    struct mailbox box = MAILBOX_INIT;
    options.revoke_fn = on_revoke;
    options.payload = &box;
    begin();
    for (int i = 0; i < handle_recipe_count; i++) {
        if (handle_recipes[i].recipe != ZKL_RECIPE_SEMAPHORE) {
            zkl_lock *lock = handle_make(&handle_recipes[i], one, path_of(i), &options);
            mailbox_clear(&box);
            kit_acquire(lock);
            ASSERT_OK(zkl_queue_revoke(two, path_of(i), NULL, 10000, NULL));
            CU_ASSERT_TRUE(mailbox_wait(&box, 1));
            kit_release(lock);
            CU_ASSERT_EQUAL(kit_queue(two, path_of(i)), 0);
            kit_free(lock);
        }
    }
    kit_tear_down();
}

/* A leader that publishes has its value back, and is asked by nobody. */
TEST(test_a_revocable_leader_publishes)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    struct mailbox box = MAILBOX_INIT;
    zkl_queue *queue = NULL;
    options.revoke_fn = on_revoke;
    options.payload = &box;
    begin();
    zkl_lock *lock = handle_make(&handle_recipes[ZKL_RECIPE_ELECTION], one, "/leader", &options);
    kit_acquire(lock);
    ASSERT_OK(zkl_election_publish(lock, "here", 10000, NULL));
    ASSERT_OK(zkl_queue_revoke(two, "/leader", NULL, 10000, NULL));
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    ASSERT_OK(zkl_election_publish(lock, "there", 10000, NULL));
    ASSERT_OK(zkl_queue_list(&queue, two, "/leader", 10000, NULL));
    CU_ASSERT_STRING_EQUAL(queue->entries[0].data, "there");
    CU_ASSERT_EQUAL(mailbox_count(&box), 1);
    zkl_queue_free(queue);
    kit_free(lock);
    kit_tear_down();
}

/* --- what is refused by name --------------------------------------------------------------------------------------- */

static bool names(const zkl_error *err, const char *first, const char *second)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", second);
    return strstr(err->text, first) && strstr(err->text, quoted);
}

#define ON(recipe) (1U << ZKL_RECIPE_##recipe)
#define DAY INT64_C(86400000)

static void on_position(zkl_lock *lock, size_t ahead, void *payload)
{
    (void)lock, (void)ahead, (void)payload;
}

/* An option that some recipes take, or with another `problem` a value or a second option that a lock refuses. */
static const struct refusal {
    zkl_lock_options options;
    unsigned taken_by; /* a bit for each recipe */
    const char *name, *problem;
} refusals[] = {
    {{.recursive = true}, ~ON(SEMAPHORE), "recursive", NULL},
    {{.recover = true}, ON(LOCK) | ON(ELECTION), "recover", NULL},
    {{.revoke_fn = on_revoke}, ~ON(SEMAPHORE), "revoke_fn", NULL},
    {{.metadata = "\xc3("}, 0, "metadata", "UTF-8"},
    {{.metadata = "__REVOKE__"}, 0, "metadata", "REVOKE"},
    {{.max_hold_ms = -1}, 0, "max_hold_ms", "-1"},
    {{.max_hold_ms = INT64_MAX}, 0, "max_hold_ms", "9223372036854775807"},
    {{.release_timeout_ms = -1}, 0, "release_timeout_ms", "-1"},
    {{.on_expiry = (zkl_on_expiry)7}, 0, "on_expiry", "7"},
    {{.acl = &(const zkl_acl){0, NULL}}, 0, "acl", "acl"},
    {{.delay_after_crash_ms = 1}, ON(LOCK) | ON(ELECTION), "delay_after_crash_ms", NULL},
    {{.delay_after_crash_ms = -1}, 0, "delay_after_crash_ms", "-1"},
    {{.delay_after_crash_ms = DAY + 1}, 0, "delay_after_crash_ms", "86400001"},
    {{.hold_at_least_ms = 1}, ON(LOCK), "hold_at_least_ms", NULL},
    {{.hold_at_least_ms = -1}, 0, "hold_at_least_ms", "-1"},
    {{.hold_at_least_ms = DAY + 1}, 0, "hold_at_least_ms", "86400001"},
    {{.hold_at_least_ms = 1000, .max_hold_ms = 999}, 0, "hold_at_least_ms", "max_hold_ms"},
    {{.hold_at_least_ms = 1000, .linger_ms = 1}, 0, "hold_at_least_ms", "linger_ms"},
    {{.linger_ms = 1}, ON(LOCK) | ON(WRITE_LOCK), "linger_ms", NULL},
    {{.linger_ms = -1}, 0, "linger_ms", "-1"},
    {{.linger_ms = 1, .revoke_fn = on_revoke}, 0, "linger_ms", "revoke_fn"},
    {{.max_ahead = 1}, ~(ON(MULTILOCK) | ON(SEMAPHORE)), "max_ahead", NULL},
    {{.max_ahead = -1}, 0, "max_ahead", "-1"},
    {{.position_fn = on_position}, ~(ON(MULTILOCK) | ON(SEMAPHORE)), "position_fn", NULL},
};

TEST_WITH_SESSIONS(test_refused_options)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *refusal = &refusals[i];
        zkl_lock_options options = refusal->options;
        options.size = sizeof options;
        for (int j = 0; j < (refusal->problem ? 1 : handle_recipe_count); j++) {
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

static int run_nothing(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)cancel, (void)token, (void)payload;
    return 1;
}

static int call_verb(int verb, zkl_lock *lock, zkl_error *err)
{
    switch (verb) {
    case 0:
        return zkl_write_lock_downgrade(lock, err);
    case 1:
        return zkl_semaphore_acquire(lock, 1, 0, NULL, err);
    case 2:
        return zkl_semaphore_acquire_async(lock, 1, 0, on_acquired, NULL, err);
    case 3:
        return zkl_semaphore_release(lock, 1, err);
    case 4:
        return zkl_election_publish(lock, "value", 0, err);
    default:
        return zkl_election_run(lock, 0, run_nothing, NULL, NULL, err);
    }
}

TEST(test_refused_verbs)
{
    static const zkl_recipe of[] = {ZKL_RECIPE_WRITE_LOCK, ZKL_RECIPE_SEMAPHORE, ZKL_RECIPE_SEMAPHORE,
                                    ZKL_RECIPE_SEMAPHORE,  ZKL_RECIPE_ELECTION,  ZKL_RECIPE_ELECTION};
    begin();
    for (int i = 0; i < handle_recipe_count; i++) {
        zkl_lock *lock = handle_make(&handle_recipes[i], one, path_of(i), NULL);
        for (int verb = 0; verb < 6; verb++) {
            char needed[64];
            zkl_error err = {0};
            snprintf(needed, sizeof needed, "\"%s\"", handle_recipes[of[verb]].noun);
            if (of[verb] != handle_recipes[i].recipe) {
                CU_ASSERT_EQUAL(call_verb(verb, lock, &err), ZKL_EINVAL);
                CU_ASSERT_TRUE(names(&err, needed, handle_recipes[i].noun));
                CU_ASSERT_EQUAL(call_verb(verb, NULL, &err), ZKL_EINVAL);
            }
        }
        CU_ASSERT_EQUAL(zkl_multilock_path(lock, 0) != NULL, handle_recipes[i].recipe == ZKL_RECIPE_MULTILOCK);
        CU_ASSERT_EQUAL(zkl_semaphore_tokens(lock, NULL, 0), 0);
        kit_free(lock);
    }
    kit_tear_down();
}

TEST(test_a_revocable_writer_is_not_downgraded)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_error err = {0};
    options.revoke_fn = on_revoke;
    begin();
    zkl_lock *lock = handle_make(&handle_recipes[ZKL_RECIPE_WRITE_LOCK], one, "/rw", &options);
    kit_acquire(lock);
    CU_ASSERT_EQUAL(zkl_write_lock_downgrade(lock, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "revoke_fn"));
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
    kit_free(lock);
    kit_tear_down();
}

/* --- wrong uses, each told by name --------------------------------------------------------------------------------- */

static bool told(int got, int wanted, const zkl_error *err, const char *words)
{
    bool is = got == wanted && err->code == wanted && strstr(err->text, words);
    if (!is) {
        fprintf(stderr, "%s: %s, not: %s\n", zkl_error_name(got), err->text, words);
    }
    return is;
}

TEST(test_wrong_acquires)
{
    begin();
    for (int i = 0; i < handle_recipe_count; i++) {
        zkl_lock *lock = handle_make(&handle_recipes[i], one, path_of(i), NULL);
        zkl_error err = {0};
        CU_ASSERT_TRUE(told(zkl_lock_release(lock, &err), ZKL_ENOTHELD, &err, "never granted, or released"));
        kit_acquire(lock);
        CU_ASSERT_TRUE(told(zkl_lock_acquire(lock, 0, NULL, &err), ZKL_EDEADLK, &err, "is not recursive"));
        kit_expire(one);
        ASSERT_EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_LOST);
        CU_ASSERT_TRUE(told(zkl_lock_acquire(lock, 0, NULL, &err), ZKL_EDEADLK, &err, "lost it"));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "release it first"));
        CU_ASSERT_TRUE(told(zkl_lock_commit(lock, NULL, 0, 1000, NULL, &err), ZKL_ELOST, &err, "lost"));
        CU_ASSERT_TRUE(told(zkl_lock_release(lock, &err), ZKL_ELOST, &err, "lost while it was held"));
        kit_free(lock);
        ASSERT_EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_CONNECTED);
    }
    kit_tear_down();
}

TEST(test_a_pending_acquire)
{
    begin();
    for (int i = 0; i < handle_recipe_count; i++) {
        int against = handle_recipes[i].recipe == ZKL_RECIPE_READ_LOCK ? i + 1 : i;
        zkl_lock *lock = handle_make(&handle_recipes[i], one, path_of(i), NULL);
        zkl_lock *holder = handle_make(&handle_recipes[against], two, path_of(i), NULL);
        struct mailbox box = MAILBOX_INIT;
        zkl_error err = {0};
        kit_acquire(holder);
        ASSERT_OK(zkl_lock_acquire_async(lock, ZKL_WAIT_FOREVER, on_acquired, &box, NULL));
        CU_ASSERT_TRUE(told(zkl_lock_acquire(lock, 0, NULL, &err), ZKL_EDEADLK, &err, "is pending"));
        CU_ASSERT_TRUE(told(zkl_lock_release(lock, &err), ZKL_ENOTHELD, &err, "still waiting; cancel it"));
        kit_free(lock);
        CU_ASSERT_EQUAL(mailbox_count(&box), 1);
        kit_free(holder);
    }
    kit_tear_down();
}

/* Of one recipe at the path of another: the znodes tell. */
TEST(test_mixed_recipes)
{
    begin();
    for (int i = 0; i < handle_recipe_count; i++) {
        bool semaphore = handle_recipes[i].recipe == ZKL_RECIPE_SEMAPHORE;
        zkl_lock *holder = handle_make(&handle_recipes[i], one, path_of(i), NULL);
        zkl_lock *other = handle_make(&handle_recipes[semaphore ? 0 : ZKL_RECIPE_SEMAPHORE], two, path_of(i), NULL);
        zkl_error err = {0};
        kit_acquire(holder);
        CU_ASSERT_TRUE(told(zkl_lock_acquire(other, 10000, NULL, &err), ZKL_ECONFLICT, &err,
                            semaphore ? "in use as a semaphore" : "in use as a lock"));
        kit_free(other);
        kit_free(holder);
    }
    kit_tear_down();
}

static void close_from_within(zkl_lock *lock, zkl_state state, void *payload)
{
    (void)lock, (void)state;
    mailbox_put(payload, (struct letter){.code = zkl_session_close(one, 0)});
}

TEST(test_wrong_ends)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    struct mailbox box = MAILBOX_INIT;
    options.state_fn = close_from_within;
    options.payload = &box;
    begin();
    zkl_lock *locks[8] = {NULL};
    for (int i = 0; i < handle_recipe_count; i++) {
        locks[i] = handle_make(&handle_recipes[i], one, path_of(i), i == 0 ? &options : NULL);
    }
    kit_acquire(locks[0]);
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_EDEADLK);
    kit_tear_down();
    for (int i = 0; i < handle_recipe_count; i++) {
        zkl_error err = {0};
        CU_ASSERT_TRUE(told(zkl_lock_acquire(locks[i], 0, NULL, &err), ZKL_ECLOSED, &err, "closed"));
        CU_ASSERT_EQUAL(zkl_lock_release(locks[i], NULL), ZKL_ECLOSED);
        CU_ASSERT_FALSE(zkl_lock_is_held(locks[i]));
        kit_free(locks[i]);
    }
}

TESTS("handle")
