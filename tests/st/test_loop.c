/* libzklock_st by the in-process store: a session goes on in calls that wait, and in dispatch; nowhere else, and on no other thread. */
#include "st_kit.h"

#define PATH "/locks/st"

TEST(test_one_thread_and_nothing_left)
{
    size_t threads = kit_entries("/proc/self/task"), fds = kit_entries("/proc/self/fd");
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(SESSION_OPTIONS(.state_fn = on_session_state, .state_payload = &box));
    CU_ASSERT(zkl_session_fd(one) >= 0);
    kit_release(kit_hold(one, PATH, NULL));
    CU_ASSERT_EQUAL(kit_entries("/proc/self/task"), threads);
    kit_tear_down();
    CU_ASSERT_EQUAL(kit_entries("/proc/self/task"), threads);
    CU_ASSERT_EQUAL(kit_entries("/proc/self/fd"), fds);
}

/* While one session waits, the other goes on as well: its event brings the grant. */
static void release_in_callback(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    on_acquired(lock, code, grant, err, payload);
    kit_release(lock); /* waits, inside the callback */
}

TEST_WITH_SESSIONS(test_a_wait_drives_every_session)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *held = kit_hold(one, PATH, NULL), *waiting = kit_lock(two, PATH, NULL), *last = kit_lock(one, PATH, NULL);
    kit_acquire_async(waiting, release_in_callback, &box);
    CU_ASSERT_EQUAL(zkl_lock_acquire(last, 50, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    kit_release(held);
    kit_acquire(last); /* behind the one in the callback */
    ASSERT_OK(mailbox_last(&box));
    CU_ASSERT(pthread_equal(box.letters[0].thread, pthread_self()));
}

static void hand_over_by_dispatch(zkl_callbacks callbacks)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(SESSION_OPTIONS(.callbacks = callbacks));
    zkl_lock *held = kit_lock(one, PATH, NULL), *waiting = kit_lock(two, PATH, NULL);
    kit_acquire_async(held, on_acquired, &box);
    CU_ASSERT(DISPATCHED(one, mailbox_count(&box) == 1));
    kit_acquire_async(waiting, on_acquired, &box);
    CU_ASSERT(DISPATCHED(two, zkl_lock_node(waiting, NULL, 0) > 0));
    CU_ASSERT_EQUAL(mailbox_count(&box), 1);
    kit_release(held);
    CU_ASSERT(DISPATCHED(two, mailbox_count(&box) == 2));
    CU_ASSERT(zkl_lock_is_held(waiting));
    kit_tear_down();
}

TEST(test_hand_over_by_dispatch)
{
    hand_over_by_dispatch(ZKL_CALLBACKS_DISPATCH);
    hand_over_by_dispatch(ZKL_CALLBACKS_THREAD);
}

/* The loop's descriptor is silent when there is nothing to do. */
TEST(test_no_spinning)
{
    one = kit_open(NULL);
    int in_vain = 0;
    for (int i = 0; i < 1000 && kit_readable(one, 20); i++) { /* what is over from the opening */
        zkl_session_dispatch(one);
        in_vain++;
    }
    CU_ASSERT(in_vain < 20);
    kit_close(one);
}

/* The lease ends by an alarm of the loop's, with nobody there to tell of it. */
TEST_WITH_SESSIONS_OF(kit_short, test_the_lease_ends_in_the_loop)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = kit_hold(one, PATH, STATES_TO(&box));
    kit_suspend(one);
    CU_ASSERT(DISPATCHED(one, mailbox_last(&box) == ZKL_STATE_LOST));
    CU_ASSERT_FALSE(zkl_lock_is_held(lock));
    kit_expire(one);
    kit_resume(one);
    CU_ASSERT(DISPATCHED(one, zkl_session_state(one) == ZKL_SESSION_CONNECTED));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    kit_free(lock);
}

static bool acquired_in_a_new_session(void)
{
    zkl_session *session = NULL;
    zkl_lock *lock = NULL;
    bool ok = zkl_session_open(&session, "memory:child", NULL, NULL) == ZKL_OK &&
              zkl_lock_new(&lock, session, PATH, NULL, NULL) == ZKL_OK &&
              zkl_lock_acquire(lock, 20000, NULL, NULL) == ZKL_OK && zkl_lock_release(lock, NULL) == ZKL_OK;
    kit_free(lock);
    return ok && zkl_session_close(session, 1000) == ZKL_OK;
}

/* The child has a loop of its own, and the parent's goes on. A daemon closes the descriptors that it inherited. Its own files then have
 * their numbers, and stay open. */
TEST(test_fork)
{
    one = kit_open(NULL);
    int fd = zkl_session_fd(one);
    CU_ASSERT(fd >= 0);
    pid_t child = fork();
    if (child == 0) {
        bool fine = zkl_session_dispatch(one) == ZKL_EFORKED && zkl_session_fd(one) == -1 &&
                    zkl_session_close(one, 0) == ZKL_EFORKED;
        for (fd = 3; fd < 100; fd++) {
            dup2(STDERR_FILENO, fd);
        }
        fine = acquired_in_a_new_session() && fine;
        for (fd = 3; fd < 100; fd++) {
            fine = close(fd) == 0 && fine;
        }
        _exit(fine ? 0 : 1);
    }
    kit_await(child);
    kit_free(kit_hold(one, PATH, NULL));
    kit_close(one);
}

/* A callback ends its own object, and another's session, while the loop turns. */
static void end_all(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    on_acquired(lock, code, grant, err, payload);
    kit_close(two);
    kit_free(lock);
}

TEST(test_a_callback_ends_things)
{
    struct mailbox box = MAILBOX_INIT, none = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_lock *held = kit_hold(one, PATH "/held", NULL), *other = kit_lock(two, PATH "/held", NULL);
    zkl_lock *lock = kit_lock(one, PATH, NULL);
    kit_acquire_async(lock, end_all, &box);
    kit_acquire_async(other, on_acquired, &none);
    kit_await_letters(&box, 1);
    CU_ASSERT_EQUAL(mailbox_last(&none), ZKL_ECLOSED);
    kit_free(held);
    kit_free(other);
    kit_close(one);
}

/* Whoever is granted again and again waits for nothing, and hears of the one that queues all the same. */
TEST_WITH_SESSIONS(test_a_lock_that_lingers)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_grant grant = {.serial = 0};
    zkl_lock *lock = kit_hold(one, PATH, LOCK_OPTIONS(.linger_ms = 60000)), *rival = kit_lock(two, PATH, NULL);
    kit_release(lock);
    ASSERT_OK(zkl_lock_acquire(lock, 20000, &grant, NULL));
    CU_ASSERT_EQUAL(grant.serial, 2);
    kit_release(lock);
    kit_acquire_async(rival, release_in_callback, &box);
    for (int i = 0; i < 1000 && mailbox_count(&box) == 0; i++) {
        kit_acquire(lock);
        kit_release(lock);
    }
    CU_ASSERT_EQUAL(mailbox_count(&box), 1);
}

/* A call begins before it returns, whatever alarms are due, so the next call finds what it has changed. */
TEST_WITH_SESSIONS(test_a_call_begins_at_once)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = kit_lock(one, PATH, NULL);
    zkl_group *group = NULL;
    ASSERT_OK(zkl_group_new(&group, one, PATH, "member", NULL, NULL));
    kit_acquire_async(lock, on_acquired, &box);
    ASSERT_OK(zkl_group_join_async(group, ZKL_WAIT_FOREVER, on_ended, &box, NULL));
    ASSERT_OK(zkl_group_leave_async(group, on_ended, &box, NULL));
    CU_ASSERT(DISPATCHED(one, mailbox_count(&box) == 3));
    zkl_group_free(group);
}

TESTS("loop")
