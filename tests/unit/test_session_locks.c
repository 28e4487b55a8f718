/* zkl_session_locks: everything that a session holds or waits for, whatever its kind. */
#include "lock_kit.h"

#include <string.h>

/* What was visited, by path. */
struct shown {
    const char *path;
    zkl_state state;
    int64_t token;
    int times;
};

struct visits {
    struct shown *shown;
    size_t count;
    int strangers;
};

static void visit(const char *path, zkl_state state, int64_t token, void *payload)
{
    struct visits *visits = payload;
    for (size_t i = 0; i < visits->count; i++) {
        if (strcmp(visits->shown[i].path, path) == 0) {
            visits->shown[i].state = state;
            visits->shown[i].token = token;
            visits->shown[i].times++;
            return;
        }
    }
    visits->strangers++;
}

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)observer, (void)leader, (void)payload;
}

static void test_every_kind(void)
{
    static const char *const both[] = {"/m/a", "/m/b"};
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, "/lock", NULL), *waiter = kit_lock(one, "/waits", NULL);
    zkl_lock *blocker = kit_lock(two, "/waits", NULL);
    struct acquire waiting;
    zkl_lock *rwlock;
    zkl_lock *multilock;
    zkl_lock *semaphore;
    zkl_lock *election, *idle;
    zkl_election_observer *observer;
    CU_ASSERT_EQUAL_FATAL(zkl_read_lock_new(&rwlock, one, "/rw", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_multilock_new(&multilock, one, both, 2, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&semaphore, one, "/s", 3, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&election, one, "/e", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&idle, one, "/idle", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_election_observe(&observer, one, "/e", on_leader, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &(struct visits){.count = 0}), 0);

    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(blocker, 5000, NULL, NULL), ZKL_OK);
    acquire_start(&waiting, waiter, ZKL_WAIT_FOREVER);
    CU_ASSERT_EQUAL(zkl_lock_acquire(rwlock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(multilock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(semaphore, 2, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(election, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(zkl_lock_state(waiter) == ZKL_STATE_WAITING));

    struct shown shown[] = {{.path = "/lock"}, {.path = "/rw"}, {.path = "/m/a"},  {.path = "/m/b"},
                            {.path = "/s"},    {.path = "/e"},  {.path = "/waits"}};
    struct visits visits = {shown, sizeof shown / sizeof *shown, 0};
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &visits), 7);
    CU_ASSERT_EQUAL(visits.strangers, 0);
    const int64_t tokens[] = {zkl_lock_token(lock),      zkl_lock_token(rwlock),    zkl_lock_token(multilock),
                              zkl_lock_token(multilock), zkl_lock_token(semaphore), zkl_lock_token(election)};
    for (size_t i = 0; i < visits.count; i++) {
        bool held = i < sizeof tokens / sizeof *tokens;
        CU_ASSERT_EQUAL(shown[i].times, 1);
        CU_ASSERT_EQUAL(shown[i].state, held ? ZKL_STATE_HELD : ZKL_STATE_WAITING);
        CU_ASSERT_EQUAL(shown[i].token, held ? tokens[i] : 0);
    }

    zkl_lock_cancel(waiter);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECANCELED);
    zkl_election_observer_free(observer);
    zkl_lock_free(election);
    zkl_lock_free(idle);
    zkl_lock_free(semaphore);
    zkl_lock_free(multilock);
    zkl_lock_free(rwlock);
    zkl_lock_free(lock);
    zkl_lock_free(waiter);
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &visits), 0);
    zkl_lock_free(blocker);
    kit_tear_down();
}

static void test_path_check(void)
{
    zkl_error err = {.code = 99};
    CU_ASSERT_EQUAL(zkl_path_check("/locks/backup", &err), ZKL_OK);
    CU_ASSERT_EQUAL(err.code, 99);
    CU_ASSERT_EQUAL(zkl_path_check("/locks/../backup", &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(err.code, ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "'..' is not allowed"));
    CU_ASSERT_STRING_EQUAL(err.path, "/locks/../backup");
    CU_ASSERT_EQUAL(zkl_path_check(NULL, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_path_check("/", NULL), ZKL_EINVAL);
}

TESTS("session_locks", T(test_every_kind), T(test_path_check))
