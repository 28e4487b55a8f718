/* Fork, in a callback and while holding: the child touches nothing of the session, and the parent's goes on. */
#include "lock_kit.h"
#include "memory_store.h"

#include <dirent.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "thread.h"

#define QUEUE "/locks/fork"

/* Of a child that ends then. */
#define ASSERT_IN_CHILD(condition)      \
    do {                                \
        pid_t child = fork();           \
        if (child == 0) {               \
            alarm(20);                  \
            _exit((condition) ? 0 : 1); \
        }                               \
        kit_await(child);               \
    } while (0)

/* --- in one of the functions that a call runs ------------------------------------------------------------------------- */

struct forker {
    pid_t child;
    int calls; /* the first one forks */
};

static void fork_once(struct forker *forker)
{
    if (forker->calls++ == 0) {
        forker->child = fork();
        if (forker->child == 0) {
            alarm(20);
            setrlimit(RLIMIT_CPU, &(const struct rlimit){2, 2}); /* of a child with a bug that goes on for ever */
        }
    }
}

static void fork_when_ended(int code, const zkl_error *err, void *payload)
{
    fork_once(payload);
}

static void fork_when_granted(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    fork_when_ended(code, err, payload);
}

static bool a_call_can_be_cancelled(void)
{
    int state;
    zkl__cancel_hold();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    zkl__cancel_allow();
    return state == PTHREAD_CANCEL_ENABLE;
}

/* Of the child: no other function was called there, and its calls begin and end as others do. */
static void check_child(const struct forker *forker, bool fine)
{
    if (forker->child == 0) {
        fine = fine && forker->calls == 1 && zkl_session_dispatch(one) == ZKL_EFORKED && !a_call_can_be_cancelled();
        _exit(fine ? 0 : 1);
    }
    kit_await(forker->child);
}

static void fork_when_suspended(zkl_session *session, zkl_connection_state state, void *payload)
{
    if (state == ZKL_SESSION_SUSPENDED) {
        fork_once(payload);
    }
}

static void fork_when_held(zkl_lock *lock, zkl_state state, void *payload)
{
    fork_once(payload);
}

static void dispatch_and_fork(const struct forker *forker)
{
    CU_ASSERT(kit_readable(one, 10000));
    int ran = zkl_session_dispatch(one);
    check_child(forker, ran == ZKL_EFORKED);
    CU_ASSERT(ran > 0);
}

TEST(test_fork_in_state_callbacks)
{
    struct forker of_lock = {.child = -1}, of_session = {.child = -1};
    one = kit_open(SESSION_OPTIONS(.callbacks = ZKL_CALLBACKS_DISPATCH, .state_fn = fork_when_suspended,
                                   .state_payload = &of_session));
    zkl_lock *lock = kit_hold(one, QUEUE, LOCK_OPTIONS(.state_fn = fork_when_held, .payload = &of_lock));
    dispatch_and_fork(&of_lock);
    kit_release(lock);
    kit_free(lock);
    kit_suspend(one);
    dispatch_and_fork(&of_session);
    kit_resume(one);
    kit_close(one);
}

/* Close runs what waits in a session that is dispatched. */
TEST(test_fork_in_close)
{
    struct forker forker = {.child = -1};
    one = kit_open(SESSION_OPTIONS(.callbacks = ZKL_CALLBACKS_DISPATCH));
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    kit_acquire_async(lock, fork_when_granted, &forker);
    CU_ASSERT(kit_readable(one, 10000));
    int closed = zkl_session_close(one, 10000);
    check_child(&forker, closed == ZKL_EFORKED);
    ASSERT_OK(closed);
    kit_free(lock);
}

TEST_WITH_SESSIONS_OF(kit_dispatched, test_fork_in_a_free_that_owes_completions)
{
    struct forker forker = {.child = -1};
    zkl_lock *lock = kit_lock(one, QUEUE, LOCK_OPTIONS(.recursive = true));
    kit_acquire(lock);
    for (int i = 0; i < 2; i++) {
        kit_acquire_async(lock, fork_when_granted, &forker);
    }
    kit_free(lock);
    check_child(&forker, true);
    CU_ASSERT_EQUAL(forker.calls, 2);
}

TEST_WITH_SESSIONS_OF(kit_dispatched, test_fork_in_a_free_that_owes_calls)
{
    struct forker forker = {.child = -1};
    zkl_data *data[2] = {NULL, NULL};
    zkl_lock *lock = kit_hold(one, QUEUE, NULL);
    EACH_ROW (i, data) {
        ASSERT_OK(zkl_lock_read_async(&data[i], lock, QUEUE, false, 20000, fork_when_ended, &forker, NULL));
    }
    kit_free(lock);
    check_child(&forker, true);
    CU_ASSERT_EQUAL(forker.calls, 2);
    zkl_data_free(data[0]);
    zkl_data_free(data[1]);
}

struct forking_member {
    struct forker assigned, revoked;
};

static void fork_when_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    fork_once(&((struct forking_member *)payload)->assigned);
}

static void fork_when_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    fork_once(&((struct forking_member *)payload)->revoked);
}

TEST_WITH_SESSIONS_OF(kit_dispatched, test_fork_in_the_functions_of_a_partition)
{
    static const char *const pieces[] = {"a", "b"};
    struct forking_member member = {.assigned.child = -1, .revoked.child = -1};
    zkl_partition *partition;
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    options.assigned_fn = fork_when_assigned;
    options.revoked_fn = fork_when_revoked;
    options.payload = &member;
    ASSERT_OK_FATAL(zkl_partition_new(&partition, one, "/work", pieces, 2, &options, NULL));
    ASSERT_OK_FATAL(zkl_partition_start(partition, NULL));
    int ran = 0;
    while (member.assigned.child != 0 && member.assigned.calls < 2 && kit_readable(one, 10000)) {
        ran = zkl_session_dispatch(one);
    }
    check_child(&member.assigned, ran == ZKL_EFORKED);
    CU_ASSERT_EQUAL(member.assigned.calls, 2);
    int stopped = zkl_partition_stop(partition, NULL);
    check_child(&member.revoked, stopped == ZKL_EFORKED);
    ASSERT_OK(stopped);
    CU_ASSERT_EQUAL(member.revoked.calls, 2);
    zkl_partition_free(partition);
}

/* --- sessions of parent and child ---------------------------------------------------------------------------------- */

#if !defined(__SANITIZE_THREAD__) /* which starts no thread in the child of a process with threads */
/* It has the mutex nearly all of the time. */
static void *use_the_registry(void *ends)
{
    while (!*(atomic_bool *)ends) {
        pthread_mutex_lock(&zkl__memory_registry.mutex);
        for (int64_t until = now_ms() + 2; now_ms() < until;) {
        }
        pthread_mutex_unlock(&zkl__memory_registry.mutex);
    }
    return NULL;
}

/* A thread of the parent opens or closes another session at that moment. */
TEST(test_a_session_of_the_child)
{
    pthread_t thread;
    atomic_bool ends = false;
    zkl_session *session;
    one = kit_open(NULL);
    kit_start_thread(&thread, use_the_registry, &ends);
    for (int i = 0; i < 3; i++) {
        ASSERT_IN_CHILD(zkl_session_open(&session, PLACE, NULL, NULL) == ZKL_OK &&
                        zkl_session_close(session, 10000) == ZKL_OK);
    }
    ends = true;
    pthread_join(thread, NULL);
    kit_close(one);
}

static int pause_ms = 50;
static atomic_int looks;

/* In the place of the C library's: the client library's pipe is being looked for all the time. */
DIR *opendir(const char *name)
{
    looks++;
    poll(NULL, 0, pause_ms);
    return NULL;
}

static void *open_one(void *payload)
{
    ASSERT_OK(zkl_session_open_async(&one, "127.0.0.1:1", NULL, on_ended, payload, NULL));
    return NULL;
}

static int open_without_end(void)
{
    zkl_session *session;
    pause_ms = -1;
    looks = 0;
    return zkl_session_open(&session, "127.0.0.1:1", SESSION_OPTIONS(.connect_timeout_ms = 100), NULL);
}

/* A thread of the parent is in zookeeper_init. The child comes as far, and is not detained by what never ends there. */
TEST(test_no_server_for_a_child)
{
    static struct mailbox ends = MAILBOX_INIT;
    pthread_t thread;
    kit_start_thread(&thread, open_one, &ends);
    poll(NULL, 0, 20);
    ASSERT_IN_CHILD(open_without_end() == ZKL_ECONNECT && (looks > 0 || zkl__threadless));
    pthread_join(thread, NULL);
    zkl_session_close(one, 0);
}
#endif

/* --- a stop token of the parent, in the child ------------------------------------------------------------------------------ */

static zkl_stop stop;

static zkl_session *open_with_token(void)
{
    return kit_open(SESSION_OPTIONS(.stop = &stop));
}

/* The child closed the descriptors of its parent, and has a file with the number of the session's. */
static int reuse_descriptor(int parents)
{
    int file = eventfd(0, EFD_NONBLOCK);
    CU_ASSERT_EQUAL_FATAL(dup2(file, parents), parents);
    return file;
}

/* An inherited signal handler raises it. */
static bool raise_token(void)
{
    eventfd_t written;
    int file = reuse_descriptor(stop.sessions[0].descriptor - 1);
    zkl_stop_raise(&stop);
    return zkl_stop_raised(&stop) && eventfd_read(file, &written) != 0;
}

TEST(test_a_raise_in_the_child)
{
    memset(&stop, 0, sizeof stop);
    one = open_with_token();
    ASSERT_IN_CHILD(raise_token());
    CU_ASSERT_FALSE(zkl_stop_raised(&stop));
    kit_close(one);
}

#if !defined(__SANITIZE_THREAD__)
/* What the child's session waits for ends, and nothing is left of either session. */
static bool use_token(int parents)
{
    eventfd_t written;
    int file = reuse_descriptor(parents);
    zkl_session *session = open_with_token();
    zkl_lock *lock = kit_lock(session, QUEUE, NULL);
    kit_acquire(lock);
    kit_release(lock);
    zkl_stop_raise(&stop);
    bool ended = zkl_lock_acquire(lock, 10000, NULL, NULL) == ZKL_ECANCELED;
    kit_free(lock);
    kit_close(session);
    return ended && kit_slots_taken(&stop) == 0 && eventfd_read(file, &written) != 0;
}

TEST(test_a_token_of_the_parent)
{
    memset(&stop, 0, sizeof stop);
    one = open_with_token();
    ASSERT_IN_CHILD(use_token(stop.sessions[0].descriptor - 1));
    CU_ASSERT_FALSE(zkl_stop_raised(&stop));
    kit_close(one);
}

static void *raise_stop(void *arg)
{
    zkl_stop_raise(&stop);
    return NULL;
}

/* A thread of the parent is in zkl_stop_raise meanwhile: it waits for room in the last descriptor. */
TEST(test_fork_while_a_token_is_raised)
{
    pthread_t raiser;
    eventfd_t count;
    int before = eventfd(0, 0), full = eventfd(0, 0);
    memset(&stop, 0, sizeof stop);
    one = open_with_token();
    eventfd_write(full, UINT64_MAX - 1);
    stop.sessions[ZKL_STOP_SESSIONS_MAX - 2].descriptor = before + 1;
    stop.sessions[ZKL_STOP_SESSIONS_MAX - 1].descriptor = full + 1;
    kit_start_thread(&raiser, raise_stop, NULL);
    eventfd_read(before, &count);
    ASSERT_IN_CHILD(zkl_session_open(&one, PLACE, SESSION_OPTIONS(.stop = &stop), NULL) == ZKL_ECANCELED);
    eventfd_read(full, &count);
    pthread_join(raiser, NULL);
    kit_close(one);
    close(before);
    close(full);
}
#endif

TESTS("fork")
