/* No more threads, no more descriptors: each that is asked for is refused once, alone and with all behind it. An error by name, and
 * nothing left. Linked with --wrap for what asks for them. */
#include "lock_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static atomic_long asked, refused;
static atomic_long refuse_at; /* the one of this number (from 1); 0: none */
static atomic_bool refuse_on; /* and all behind it */

static bool is_refused(void)
{
    long number = asked++ + 1, at = refuse_at;
    bool yes = at > 0 && (number == at || (number > at && refuse_on));
    refused += yes;
    return yes;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return is_refused() ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

static int no_descriptor(void)
{
    errno = EMFILE;
    return -1;
}

int __wrap_eventfd(unsigned count, int flags)
{
    return is_refused() ? no_descriptor() : __real_eventfd(count, flags);
}

int __wrap_timerfd_create(int clock, int flags)
{
    return is_refused() ? no_descriptor() : __real_timerfd_create(clock, flags);
}

static int section(const zkl_cancel *cancel, int64_t token, void *payload)
{
    return zkl_cancel_raised(cancel);
}

/* All that a session and a lock ever start. */
static int life(zkl_callbacks callbacks)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_session *session = NULL;
    zkl_lock *lock = NULL;
    int result;
    int code = zkl_session_open(&session, PLACE, SESSION_OPTIONS(.callbacks = callbacks), NULL);
    if (code != ZKL_OK) {
        CU_ASSERT_PTR_NULL(session);
        return code;
    }
    code = zkl_lock_new(&lock, session, "/limits", STATES_TO(&box), NULL);
    code = code == ZKL_OK ? zkl_with_lock(lock, 10000, 100, section, NULL, &result, NULL) : code;
    kit_await_queue(session, "/limits", 0);
    zkl_lock_free(lock);
    kit_close(session);
    return code;
}

static void refuse_each(zkl_callbacks callbacks, bool on)
{
    bool more = true;
    ASSERT_OK(life(callbacks)); /* what the C library keeps for good is there */
    size_t descriptors = kit_entries("/proc/self/fd"), threads = kit_entries("/proc/self/task");
    for (long nth = 1; more && nth < 50; nth++) {
        asked = 0;
        refused = 0;
        refuse_on = on;
        refuse_at = nth;
        int code = life(callbacks);
        refuse_at = 0;
        more = refused > 0;
        CU_ASSERT_EQUAL(code, more ? ZKL_ELIMIT : ZKL_OK);
        CU_ASSERT_EQUAL(kit_entries("/proc/self/fd"), descriptors);
        /* a thread that was joined may still be listed when they were first counted */
        ASSERT_EVENTUALLY(kit_entries("/proc/self/task") <= threads);
        CU_ASSERT(nth > 2 || more);
    }
    CU_ASSERT(!more);
}

/* One alone, or all from it on. */
TEST(test_one_is_refused)
{
    for (int on = 0; on < 2; on++) {
        refuse_each(ZKL_CALLBACKS_THREAD, on);
        refuse_each(ZKL_CALLBACKS_DISPATCH, on);
    }
}

/* The client library ends the process when it has one thread too few. */
TEST(test_no_second_thread_for_a_server)
{
    asked = 0;
    refuse_at = 2;
    CU_ASSERT_EQUAL(zkl_session_open(&one, "127.0.0.1:1", NULL, NULL), ZKL_ELIMIT);
    refuse_at = 0;
}

/* The client library's pipe. The last test: it leaves no low descriptor. */
TEST(test_high_descriptors_are_not_inherited)
{
    struct mailbox ended = MAILBOX_INIT;
    struct stat is;
    size_t threads = kit_entries("/proc/self/task");
    int fd = 0;
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){2000, 2000});
    while (fd < FD_SETSIZE) {
        fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
    }
    zkl_session_open_async(&one, "127.0.0.1:1", NULL, on_ended, &ended, NULL);
    while (fstat(++fd, &is) == 0) {
        CU_ASSERT(!S_ISFIFO(is.st_mode) || fcntl(fd, F_GETFD) == FD_CLOEXEC);
    }
    zkl_session_close(one, 0);
    ASSERT_EVENTUALLY(kit_entries("/proc/self/task") <= threads); /* whose memory memcheck would miss */
}

TESTS("limits")
