/* The position in the queue, as it is read anyway, and max_ahead. */
#include <stdatomic.h>
#include <string.h>

#include "handle_kit.h"
#include "lock_kit.h"

#define QUEUE "/locks/queue"

static struct mailbox positions = MAILBOX_INIT;

static void on_position(zkl_lock *lock, size_t ahead, void *payload)
{
    CU_ASSERT_EQUAL(zkl_lock_state(lock) == ZKL_STATE_LOST, false);
    mailbox_put(payload, (struct letter){.from = lock, .code = (int)ahead});
}

static zkl_lock_options asking(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.position_fn = on_position;
    options.payload = &positions;
    return options;
}

/* Its own predecessors go, one after the other; readers do not count for readers. */
static void test_told_as_it_changes(void)
{
    zkl_lock_options options = asking();
    zkl_lock *before[3];
    struct acquire acquire, waits[3];
    kit_set_up(NULL);
    mailbox_clear(&positions);
    zkl_lock *lock = kit_lock(one, QUEUE, &options);
    for (int i = 0; i < 3; i++) {
        before[i] = kit_lock(two, QUEUE, NULL);
        acquire_start(&waits[i], before[i], 10000);
        CU_ASSERT_TRUE(EVENTUALLY(kit_queue(one, QUEUE) == (size_t)i + 1));
    }
    acquire_start(&acquire, lock, 10000);
    CU_ASSERT_TRUE(mailbox_wait(&positions, 1));
    CU_ASSERT_EQUAL(mailbox_last(&positions), 3);
    CU_ASSERT_EQUAL(zkl_lock_cancel(before[2]), ZKL_OK); /* the predecessor gives up */
    CU_ASSERT_EQUAL(acquire_join(&waits[2]), ZKL_ECANCELED);
    CU_ASSERT_TRUE(mailbox_wait(&positions, 2));
    CU_ASSERT_EQUAL(mailbox_last(&positions), 2);
    CU_ASSERT_EQUAL(acquire_join(&waits[0]), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(before[0], NULL), ZKL_OK); /* not its predecessor: nothing is read */
    CU_ASSERT_EQUAL(acquire_join(&waits[1]), ZKL_OK);
    CU_ASSERT_EQUAL(mailbox_count(&positions), 2);
    CU_ASSERT_EQUAL(zkl_lock_release(before[1], NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&acquire), ZKL_OK);
    for (int i = 0; i < 3; i++) {
        zkl_lock_free(before[i]);
    }
    zkl_lock_free(lock);
    size_t count = mailbox_count(&positions);
    CU_ASSERT_TRUE(count == 2 || (count == 3 && mailbox_last(&positions) == 0));
    kit_tear_down();
}

static void test_what_counts(void)
{
    zkl_lock_options options = asking();
    zkl_lock *reader, *other, *writer;
    struct acquire acquire;
    kit_set_up(NULL);
    mailbox_clear(&positions);
    CU_ASSERT_EQUAL(zkl_read_lock_new(&reader, one, QUEUE, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_read_lock_new(&other, two, QUEUE, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_write_lock_new(&writer, two, QUEUE, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(other, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(reader, 10000, NULL, NULL), ZKL_OK); /* one reader stands before it, none counts */
    acquire_start(&acquire, writer, 10000);
    CU_ASSERT_TRUE(EVENTUALLY(mailbox_last(&positions) == 2));
    CU_ASSERT_EQUAL(zkl_lock_release(reader, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(other, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&acquire), ZKL_OK);
    zkl_lock_free(reader);
    zkl_lock_free(other);
    zkl_lock_free(writer);
    kit_tear_down();
}

static void test_max_ahead(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    struct acquire acquire;
    zkl_error err;
    kit_set_up(NULL);
    options.max_ahead = 1;
    zkl_lock *holder = kit_lock(two, QUEUE, NULL), *second = kit_lock(one, QUEUE, &options),
             *third = kit_lock(one, QUEUE, &options);
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 10000, NULL, NULL), ZKL_OK);
    acquire_start(&acquire, second, 10000);
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl_lock_acquire(third, 20000, NULL, &err), ZKL_EBUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "max_ahead"));
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&acquire), ZKL_OK);
    acquire_start(&acquire, third, 10000); /* one is before it now */
    CU_ASSERT_TRUE(EVENTUALLY(kit_queue(two, QUEUE) == 2));
    CU_ASSERT_EQUAL(zkl_lock_release(second, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(acquire_join(&acquire), ZKL_OK);
    zkl_lock_free(holder);
    zkl_lock_free(second);
    zkl_lock_free(third);
    kit_tear_down();
}

static void test_which_recipes(void)
{
    kit_set_up(NULL);
    for (int i = 0; i < handle_recipe_count; i++) {
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        zkl_lock *lock;
        zkl_error err;
        zkl_recipe recipe = handle_recipes[i].recipe;
        bool refused = recipe == ZKL_RECIPE_MULTILOCK || recipe == ZKL_RECIPE_SEMAPHORE;
        options.max_ahead = 5;
        CU_ASSERT_EQUAL(handle_recipes[i].make(&lock, one, "/locks/which", &options, &err),
                        refused ? ZKL_EINVAL : ZKL_OK);
        CU_ASSERT_EQUAL(refused, lock == NULL && strstr(err.text, "max_ahead"));
        zkl_lock_free(lock);
        options = asking();
        CU_ASSERT_EQUAL(handle_recipes[i].make(&lock, one, "/locks/which", &options, NULL),
                        refused ? ZKL_EINVAL : ZKL_OK);
        zkl_lock_free(lock);
        options = (zkl_lock_options)ZKL_LOCK_OPTIONS_INIT;
        options.max_ahead = -1;
        CU_ASSERT_EQUAL(handle_recipes[i].make(&lock, one, "/locks/which", &options, NULL), ZKL_EINVAL);
    }
    kit_tear_down();
}

TESTS("position", T(test_told_as_it_changes), T(test_what_counts), T(test_max_ahead), T(test_which_recipes))
