/* Reading under a lock, and transactions and reads that nobody waits for: every recipe, and each way to end. */
#include <string.h>
#include <zklock/testing.h>

#include "handle_kit.h"
#include "lock_kit.h"

#define ACCOUNT "/account"

static void on_done(int code, const zkl_error *err, void *payload)
{
    struct letter letter = {.code = code, .thread = pthread_self()};
    snprintf(letter.text, sizeof letter.text, "%s", code == ZKL_OK ? "" : err->text);
    mailbox_put(payload, letter);
}

/* A znode to read, made under another lock. */
static void make_account(zkl_session *session, const char *text)
{
    zkl_lock *lock = kit_lock(session, "/locks/maker", NULL);
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = ACCOUNT, .data = text, .size = strlen(text)};
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, 10000, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
}

static zkl_lock *held(const char *path)
{
    zkl_lock *lock = kit_lock(one, path, NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    return lock;
}

static void test_every_recipe_reads_and_commits(void)
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
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
        for (int fresh = 0; fresh < 2; fresh++) {
            CU_ASSERT_EQUAL_FATAL(zkl_lock_read(&data, lock, ACCOUNT, fresh, 10000, NULL), ZKL_OK);
            CU_ASSERT_STRING_EQUAL(data->data, "100");
            CU_ASSERT_EQUAL(data->size, 3);
            CU_ASSERT_EQUAL(data->version, 0);
            zkl_data_free(data);
        }
        char text[] = "90";
        zkl_op op = {.kind = ZKL_OP_SET, .path = ACCOUNT, .data = text, .size = 2, .version = 0};
        CU_ASSERT_EQUAL(zkl_lock_commit_async(lock, &op, 1, 1000, &result, on_done, &box, NULL), ZKL_OK);
        strcpy(text, "xx"); /* it was copied */
        op.path = NULL;
        CU_ASSERT_TRUE(mailbox_wait(&box, 1));
        CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
        CU_ASSERT_EQUAL(result.version, 1);
        CU_ASSERT_EQUAL(zkl_lock_read_async(&data, lock, ACCOUNT, true, 1000, on_done, &box, NULL), ZKL_OK);
        CU_ASSERT_TRUE(mailbox_wait(&box, 2));
        CU_ASSERT_STRING_EQUAL_FATAL(data->data, "90");
        CU_ASSERT_EQUAL(data->version, 1);
        zkl_data_free(data);
        CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, "/nowhere", false, 1000, NULL), ZKL_ENOENT);
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_read_async(&data, lock, ACCOUNT, false, 1000, on_done, &box, NULL), ZKL_ENOTHELD);
        zkl_lock_free(lock);
        CU_ASSERT_EQUAL(mailbox_count(&box), 2);
        kit_tear_down();
    }
}

/* The response comes after the loss: what was read may be old. */
static void test_lost_before_the_response(void)
{
    zkl_session_options options = kit_short();
    struct mailbox box = MAILBOX_INIT, ended = MAILBOX_INIT;
    zkl_data *data;
    zkl_error err;
    kit_set_up(&options);
    make_account(two, "100");
    zkl_lock *lock = held("/locks/guarded");
    char node[ZKL_PATH_MAX + 1];
    zkl_lock_node(lock, node, sizeof node);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_read_async(&data, lock, ACCOUNT, false, ZKL_WAIT_FOREVER, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, ACCOUNT, false, ZKL_WAIT_FOREVER, &err), ZKL_ECONNECT);
    CU_ASSERT_FALSE(zkl_lock_is_held(lock));
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_ECONNECT);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);

    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_read_async(&data, lock, ACCOUNT, false, 5000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release_async(lock, on_done, &ended, NULL), ZKL_OK); /* the read is on its way */
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_ELOST);
    CU_ASSERT_PTR_NULL(data);
    CU_ASSERT_TRUE(mailbox_wait(&ended, 1));
    zkl_lock_free(lock);
    kit_tear_down();
}

/* Each of them once: the time, a cancel, a stop token, a free, a close. */
static void begin_both(zkl_lock *lock, int64_t timeout_ms, zkl_data **data, struct mailbox *box)
{
    static const zkl_op op = {.kind = ZKL_OP_CHECK, .path = ACCOUNT, .version = ZKL_ANY_VERSION};
    CU_ASSERT_EQUAL(zkl_lock_commit_async(lock, &op, 1, timeout_ms, NULL, on_done, box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_read_async(data, lock, ACCOUNT, true, timeout_ms, on_done, box, NULL), ZKL_OK);
}

static void test_ways_to_end(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_data *data;
    zkl_stop stop = ZKL_STOP_INIT;
    kit_set_up(NULL);
    make_account(two, "100");
    zkl_lock *lock = kit_lock(one, "/locks/guarded", NULL);
    CU_ASSERT_EQUAL(zkl_lock_cancel(lock), ZKL_ENOTWAITING);
    CU_ASSERT_EQUAL(zkl_lock_set_stop(lock, &stop, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    begin_both(lock, 20, &data, &box);
    CU_ASSERT_TRUE(mailbox_wait(&box, 2));
    begin_both(lock, 5000, &data, &box);
    CU_ASSERT_EQUAL(zkl_lock_cancel(lock), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 4));
    begin_both(lock, 5000, &data, &box);
    zkl_stop_raise(&stop);
    CU_ASSERT_TRUE(mailbox_wait(&box, 6));
    CU_ASSERT_EQUAL(zkl_lock_read_async(&data, lock, ACCOUNT, true, 5000, on_done, &box, NULL), ZKL_ECANCELED);
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    zkl_lock_free(lock);
    lock = held("/locks/guarded");
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    begin_both(lock, 5000, &data, &box);
    zkl_lock_free(lock);
    CU_ASSERT_EQUAL(mailbox_count(&box), 8); /* before it returned */
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    lock = held("/locks/guarded");
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    begin_both(lock, 5000, &data, &box);
    zkl_session_close(one, 10);
    kit_close(two);
    CU_ASSERT_EQUAL(mailbox_count(&box), 10);
    zkl_lock_free(lock);
    static const int codes[] = {ZKL_ETIMEOUT, ZKL_ECANCELED, ZKL_ECANCELED, ZKL_ECANCELED, ZKL_ECLOSED};
    for (int i = 0; i < 10; i++) {
        CU_ASSERT_EQUAL(box.letters[i].code, codes[i / 2]);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(box.letters[0].text, "it may be done, or not"));
}

/* Completions begin the next call, and free the lock of the last. */
struct chain {
    zkl_lock *lock;
    zkl_data *data;
    struct mailbox *box;
    int left;
};

static void on_link(int code, const zkl_error *err, void *payload)
{
    struct chain *chain = payload;
    if (code == ZKL_OK && --chain->left > 0) {
        zkl_data_free(chain->data);
        CU_ASSERT_EQUAL(zkl_lock_read_async(&chain->data, chain->lock, ACCOUNT, false, 5000, on_link, chain, NULL),
                        ZKL_OK);
        return;
    }
    zkl_data_free(chain->data);
    zkl_lock_free(chain->lock);
    on_done(code, err, chain->box);
}

static void test_completions_call_the_library(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_session_options options = kit_dispatched();
    one = kit_open(&options);
    two = kit_open(NULL);
    make_account(two, "100");
    struct chain chain = {held("/locks/guarded"), NULL, &box, 50};
    CU_ASSERT_EQUAL(zkl_lock_read_async(&chain.data, chain.lock, ACCOUNT, false, 5000, on_link, &chain, NULL), ZKL_OK);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_session_dispatch(one) >= 0 && mailbox_count(&box) == 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    kit_tear_down();
}

/* The result is known at the call; the response is waited for, a cancel and a stop token do not change that. */
static void test_release(void)
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
        CU_ASSERT_EQUAL(zkl_lock_release_async(lock, on_done, &box, NULL), ZKL_ENOTHELD);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_release_async(lock, NULL, NULL, NULL), ZKL_EINVAL);
        CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_release_async(lock, on_done, &box, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
        CU_ASSERT_EQUAL(zkl_lock_cancel(lock), ZKL_ENOTWAITING);
        zkl_stop_raise(&stop);
        CU_ASSERT_EQUAL(zkl_lock_acquire(next, 5000, NULL, NULL), ZKL_OK); /* it was sent */
        CU_ASSERT_EQUAL(mailbox_count(&box), 0);
        CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
        CU_ASSERT_TRUE(mailbox_wait(&box, 1));
        CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
        CU_ASSERT_EQUAL(zkl_testing_delay(two, true, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_release_async(next, on_done, &box, NULL), ZKL_OK);
        zkl_lock_free(next); /* delivers */
        CU_ASSERT_EQUAL(mailbox_count(&box), 2);
        CU_ASSERT_EQUAL(zkl_testing_delay(two, false, NULL), ZKL_OK);
        zkl_lock_free(lock);
        CU_ASSERT_EQUAL(mailbox_count(&box), 2);
        kit_tear_down();
    }
}

static void test_release_after_a_loss(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_lock *lock = held("/locks/guarded");
    CU_ASSERT_EQUAL(zkl_testing_expire(one, NULL), ZKL_OK);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_LOST));
    CU_ASSERT_EQUAL(zkl_lock_release_async(lock, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_ELOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(box.letters[0].text, "lost while it was held"));
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_bad_calls(void)
{
    zkl_data *data;
    zkl_error err;
    kit_set_up(NULL);
    zkl_lock *lock = held("/locks/guarded");
    CU_ASSERT_EQUAL(zkl_lock_read(NULL, lock, ACCOUNT, false, 0, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_read(&data, NULL, ACCOUNT, false, 0, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, "account", false, 0, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, NULL, false, 0, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_read(&data, lock, ACCOUNT, false, -2, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_read_async(&data, lock, ACCOUNT, false, 0, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_STRING_EQUAL(err.text, "done is NULL");
    CU_ASSERT_EQUAL(zkl_lock_commit_async(lock, NULL, 0, 0, NULL, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_commit_async(NULL, NULL, 0, 0, NULL, on_done, NULL, &err), ZKL_EINVAL);
    zkl_op op = ZKL_OP_INIT;
    op.path = "/growing";
    op.reserved[1] = 1; /* of a later release, perhaps */
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, 10000, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "ZKL_OP_INIT"));
    op.reserved[1] = 0;
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, 10000, NULL, &err), ZKL_OK);
    op.kind = ZKL_OP_DELETE; /* of any version */
    CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, 10000, NULL, &err), ZKL_OK);
    zkl_lock_free(lock);
    zkl_data_free(NULL);
    kit_tear_down();
}

TESTS("guarded", T(test_every_recipe_reads_and_commits), T(test_lost_before_the_response), T(test_ways_to_end),
      T(test_completions_call_the_library), T(test_release), T(test_release_after_a_loss), T(test_bad_calls))
