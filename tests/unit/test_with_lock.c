/* zkl_with_lock: a function that runs while the lock is held, and the flag that tells it to stop. */
#include "lock_kit.h"

#include <poll.h>
#include <string.h>

#define QUEUE "/locks/test"

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
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL), *other = kit_lock(two, QUEUE, NULL);
    struct section section = {.lock = lock};
    int result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 10000, 0, run_section, &section, &result, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(result, 42);
    CU_ASSERT(section.token > 0);
    CU_ASSERT_FALSE(section.raised_at_first);
    CU_ASSERT_FALSE(section.readable_at_first);
    CU_ASSERT(section.remaining_ms > 3000);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_lock_acquire(other, 10000, NULL, NULL), ZKL_OK);
    result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 50, 0, run_section, &section, &result, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(result, -1);
    CU_ASSERT_EQUAL(section.runs, 1);
    CU_ASSERT_EQUAL(zkl_lock_release(other, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 10000, 100, run_section, &section, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
    zkl_lock_free(other);
    kit_tear_down();
}

static void test_with_lock_raises_the_flag_before_the_lease_ends(void)
{
    zkl_session_options options = kit_short();
    kit_set_up(&options);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    struct section section = {.lock = lock, .harm = zkl__memory_suspend, .wait_for_session = zkl_session_id(one)};
    int result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 10000, 300, run_section, &section, &result, NULL), ZKL_OK);
    CU_ASSERT(section.readable);
    CU_ASSERT(section.raised);
    CU_ASSERT(section.remaining_ms > 0 && section.remaining_ms <= 300); /* still protected: in time to end */
    CU_ASSERT_EQUAL(zkl__memory_resume(section.wait_for_session), ZKL_OK);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_with_lock_raises_the_flag_on_loss(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    struct section section = {.lock = lock, .harm = zkl__memory_expire, .wait_for_session = zkl_session_id(one)};
    int result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 1000, 0, run_section, &section, &result, NULL), ZKL_ELOST);
    CU_ASSERT_EQUAL(result, 42);
    CU_ASSERT(section.readable);
    CU_ASSERT(section.raised);
    CU_ASSERT_EQUAL(section.remaining_ms, 0);
    zkl_lock_free(lock);
    kit_tear_down();
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
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    int result = -1;
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 10000, 0, cancel_itself, lock, &result, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(result, 42);
    CU_ASSERT_EQUAL(zkl_lock_cancel(lock), ZKL_ENOTWAITING);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 1000, 0, cancel_itself, lock, &result, NULL),
                    ZKL_OK); /* the flag is down again */
    zkl_lock_free(lock);
    kit_tear_down();
}

/* --- the grant is replaced while the section runs ------------------------------------------------------------------ */

struct replaced {
    zkl_lock *lock, *between;
    int permits;  /* of a semaphore: so many are acquired again */
    bool lingers; /* the second grant has the token of the first */
    zkl_grant second;
};

static int replace_grant(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct replaced *replaced = payload;
    while (zkl_lock_is_held(replaced->lock)) {
        CU_ASSERT_EQUAL(zkl_lock_release(replaced->lock, NULL), ZKL_OK);
    }
    CU_ASSERT_EQUAL(zkl_lock_acquire(replaced->between, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(replaced->between, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(replaced->permits
                        ? zkl_semaphore_acquire(replaced->lock, replaced->permits, 10000, &replaced->second, NULL)
                        : zkl_lock_acquire(replaced->lock, 10000, &replaced->second, NULL),
                    ZKL_OK);
    CU_ASSERT_EQUAL(replaced->second.token == token, replaced->lingers);
    CU_ASSERT_TRUE(zkl_cancel_raised(cancel));
    CU_ASSERT_EQUAL(zkl_cancel_remaining_ms(cancel), 0);
    return 0;
}

/* The section says that it was not protected, and leaves the second grant alone. */
static void check_replaced(struct replaced replaced)
{
    CU_ASSERT_EQUAL(zkl_with_lock(replaced.lock, 10000, 0, replace_grant, &replaced, NULL, NULL), ZKL_ELOST);
    CU_ASSERT_TRUE(zkl_lock_is_held(replaced.lock));
    CU_ASSERT_EQUAL(zkl_lock_token(replaced.lock), replaced.second.token);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(replaced.lock, NULL, 0), replaced.permits);
    CU_ASSERT_EQUAL(zkl_lock_release(replaced.lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_state(replaced.lock), ZKL_STATE_IDLE);
    zkl_lock_free(replaced.lock);
    zkl_lock_free(replaced.between);
}

/* All grants of a lingering znode have one token: only the serial tells them apart. */
static void test_with_lock_that_lingers_is_replaced(void)
{
    kit_set_up(NULL);
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.linger_ms = 60000;
    struct replaced replaced = {kit_lock(one, QUEUE, &options), kit_lock(one, QUEUE, &options), .lingers = true};
    zkl_grant warm;
    CU_ASSERT_EQUAL(zkl_lock_acquire(replaced.lock, 10000, &warm, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(replaced.lock, NULL), ZKL_OK);
    check_replaced(replaced);
    kit_tear_down();
}

static void test_with_a_recursive_lock_is_replaced(void)
{
    kit_set_up(NULL);
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recursive = true;
    struct replaced replaced = {kit_lock(one, QUEUE, &options), kit_lock(two, QUEUE, NULL), .lingers = false};
    CU_ASSERT_EQUAL(zkl_lock_acquire(replaced.lock, 10000, NULL, NULL), ZKL_OK);
    check_replaced(replaced);
    kit_tear_down();
}

static int release_once(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)token;
    CU_ASSERT_EQUAL(zkl_lock_release(payload, NULL), ZKL_OK);
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel));
    return 0;
}

/* Of two acquires one is released in the section, the other by it: the hold covers it to its end. */
static void test_with_a_recursive_lock_released_once(void)
{
    kit_set_up(NULL);
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recursive = true;
    zkl_lock *lock = kit_lock(one, QUEUE, &options);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 10000, 0, release_once, lock, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_with_a_permit_that_is_replaced(void)
{
    kit_set_up(NULL);
    struct replaced replaced = {.permits = 2};
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&replaced.lock, one, QUEUE, 3, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&replaced.between, two, QUEUE, 3, NULL, NULL), ZKL_OK);
    check_replaced(replaced);
    kit_tear_down();
}

static int downgrade(const zkl_cancel *cancel, int64_t token, void *payload)
{
    CU_ASSERT_EQUAL(zkl_write_lock_downgrade(payload, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_token(payload), token);
    CU_ASSERT_FALSE(zkl_cancel_raised(cancel));
    return 0;
}

/* The znode is another one then, but the grant is the same. */
static void test_with_a_write_lock_that_is_downgraded(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_write_lock_new(&lock, one, QUEUE, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 10000, 0, downgrade, lock, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_with_lock_bad_calls(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    zkl_error err;
    struct section section = {.lock = lock};
    CU_ASSERT_EQUAL(zkl_with_lock(NULL, 0, 0, run_section, &section, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 0, 0, NULL, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 0, -1, run_section, &section, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "margin_ms is -1"));
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 0, INT64_MAX, run_section, &section, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_with_lock(lock, 0, zkl_session_least_lease_ms(one), run_section, &section, NULL, &err),
                    ZKL_EINVAL);
    CU_ASSERT_EQUAL(section.runs, 0);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    zkl_lock_free(lock);
    kit_tear_down();
}

TESTS("with lock", T(test_with_lock), T(test_with_lock_raises_the_flag_before_the_lease_ends),
      T(test_with_lock_raises_the_flag_on_loss), T(test_with_lock_is_told_by_cancel),
      T(test_with_lock_that_lingers_is_replaced), T(test_with_a_recursive_lock_is_replaced),
      T(test_with_a_recursive_lock_released_once), T(test_with_a_permit_that_is_replaced),
      T(test_with_a_write_lock_that_is_downgraded), T(test_with_lock_bad_calls))
