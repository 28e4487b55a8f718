/* Several locks at once, on the in-process store. */
#include "lock_kit.h"

#include <stdatomic.h>

static const char *const abc[] = {"/m/a", "/m/b", "/m/c"}, *const cba[] = {"/m/c", "/m/b", "/m/a"};

static zkl_lock *make(zkl_session *session, const char *const *paths, size_t count)
{
    zkl_lock *lock = NULL;
    ASSERT_OK_FATAL(zkl_multilock_new(&lock, session, paths, count, NULL, NULL));
    return kit_keep(lock);
}

static zkl_lock *hold(zkl_session *session, const char *const *paths, size_t count)
{
    zkl_lock *lock = make(session, paths, count);
    kit_acquire(lock);
    return lock;
}

static size_t stand_at(const char *const *paths, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += kit_queue(two, paths[i]);
    }
    return sum;
}

/* --- all or none --------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_acquire_and_release)
{
    zkl_lock *lock = make(one, abc, 3);
    zkl_grant grant = {.token = -1};
    CU_ASSERT_STRING_EQUAL(zkl_multilock_path(lock, 2), "/m/c");
    CU_ASSERT_PTR_NULL(zkl_multilock_path(lock, 3));
    for (int round = 0; round < 2; round++) { /* the directories are new, and then they are there */
        ASSERT_OK_FATAL(zkl_lock_acquire(lock, 5000, &grant, NULL));
        CU_ASSERT_EQUAL(zkl_lock_token(lock), grant.token);
        for (size_t i = 0; i < 3; i++) {
            zkl_queue *queue = NULL;
            ASSERT_OK_FATAL(zkl_queue_list(&queue, two, abc[i], 5000, NULL));
            CU_ASSERT_EQUAL_FATAL(queue->count, 1);
            CU_ASSERT_EQUAL(queue->entries[0].token, grant.token); /* of one transaction */
            zkl_queue_free(queue);
        }
        kit_release(lock);
        CU_ASSERT_EQUAL(stand_at(abc, 3), 0);
    }
}

TEST_WITH_SESSIONS(test_single_locks_queue_with_it)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *single = kit_lock(two, "/m/b", NULL);
    ASSERT_OK(zkl_lock_acquire(single, 0, NULL, NULL));
    zkl_lock *lock = make(one, abc, 3);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EBUSY);
    ASSERT_EVENTUALLY(stand_at(abc, 3) == 1); /* nowhere, not even where it was first */
    ASSERT_OK(zkl_lock_acquire_async(lock, 10000, on_acquired, &box, NULL));
    ASSERT_EVENTUALLY(stand_at(abc, 3) == 4);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_WAITING);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    zkl_lock_release(single, NULL);
    ASSERT_OK(mailbox_code(&box, 1));
    CU_ASSERT_EQUAL(zkl_lock_acquire(single, 0, NULL, NULL), ZKL_EBUSY);
}

static atomic_int held[3], overlaps, turns;

static void *work(void *arg)
{
    static atomic_int numbers;
    int number = numbers++;
    const char *const *paths = number % 2 ? abc : cba;
    size_t first = (size_t)number % 3, count = first == 2 ? 1 : 2; /* a b, b c, c; c b, b a, a */
    zkl_lock *lock = make(arg, paths + first, count);
    for (int i = 0; i < 40; i++) {
        if (zkl_lock_acquire(lock, 30000, NULL, NULL) != ZKL_OK) {
            break;
        }
        for (size_t j = 0; j < count; j++) {
            overlaps += atomic_fetch_add(&held[zkl_multilock_path(lock, j)[3] - 'a'], 1) != 0;
        }
        turns++;
        for (size_t j = 0; j < count; j++) {
            atomic_fetch_sub(&held[zkl_multilock_path(lock, j)[3] - 'a'], 1);
        }
        if (zkl_lock_release(lock, NULL) != ZKL_OK) {
            break;
        }
    }
    kit_free(lock);
    return NULL;
}

TEST_WITH_SESSIONS(test_no_deadlock_in_any_order)
{
    pthread_t threads[6];
    overlaps = turns = 0;
    for (int i = 0; i < 6; i++) {
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, work, i % 2 ? one : two), 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
    }
    CU_ASSERT_EQUAL(turns, 6 * 40);
    CU_ASSERT_EQUAL(overlaps, 0);
    CU_ASSERT_EQUAL(stand_at(abc, 3), 0);
}

TEST_WITH_SESSIONS(test_as_many_as_there_may_be)
{
    char names[ZKL_MULTILOCK_MAX + 1][16];
    const char *paths[ZKL_MULTILOCK_MAX + 1];
    char text[ZKL_DATA_MAX + 1];
    zkl_lock *lock = NULL;
    zkl_error err;
    for (int i = 0; i <= ZKL_MULTILOCK_MAX; i++) {
        snprintf(names[i], sizeof names[i], "/m/%d", i);
        paths[i] = names[i];
    }
    memset(text, 'x', ZKL_DATA_MAX);
    text[ZKL_DATA_MAX] = '\0';
    CU_ASSERT_EQUAL(zkl_multilock_new(&lock, one, paths, ZKL_MULTILOCK_MAX + 1, NULL, &err), ZKL_ELIMIT);
    ASSERT_SAYS(err, "101");
    ASSERT_OK_FATAL(zkl_multilock_new(&lock, one, paths, ZKL_MULTILOCK_MAX, LOCK_OPTIONS(.metadata = text), NULL));
    kit_acquire(lock);
    CU_ASSERT_EQUAL(stand_at(paths, ZKL_MULTILOCK_MAX), ZKL_MULTILOCK_MAX);
    kit_release(lock);
    CU_ASSERT_EQUAL(stand_at(paths, ZKL_MULTILOCK_MAX), 0);
    kit_free(lock);
}

/* --- trouble ------------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_release_when_one_is_gone)
{
    zkl_lock *lock = hold(one, abc, 3);
    kit_remove_first(abc[2]);
    kit_release(lock); /* the lease covered it; nobody has told us */
    CU_ASSERT_EQUAL(stand_at(abc, 3), 0);
}

TEST_WITH_SESSIONS(test_bad_calls)
{
    static const char *const twice[] = {"/m/a", "/m/b", "/m/a"}, *const wrong[] = {"/m/a", "m"};
    zkl_lock *lock = NULL;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_multilock_new(&lock, one, twice, 3, NULL, &err), ZKL_EINVAL);
    ASSERT_SAYS(err, "/m/a is there twice");
    CU_ASSERT_STRING_EQUAL(err.path, "/m/a");
    CU_ASSERT_EQUAL(zkl_multilock_new(&lock, one, wrong, 2, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_multilock_new(&lock, one, abc, 0, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NULL(lock);
}

TESTS("multilock")
