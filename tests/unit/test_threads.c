/* The library's own threads, as the program they run in sees them. */
#include "lock_kit.h"

#include <signal.h>

#define QUEUE "/threads"

struct seen {
    struct mailbox box;
    sigset_t blocked;
    char name[16];
};

static void look(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct seen *seen = payload;
    pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
    pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
    on_acquired(lock, code, grant, err, &seen->box);
}

/* Signals of the program's go to its own threads. Those that a fault of the thread itself brings have to come through: blocked, they would
 * end the process without the handler that it has for them. */
static void test_signals_and_names(void)
{
    static const int program[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1, SIGALRM, SIGPIPE};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    static struct seen seen = {.box = MAILBOX_INIT};
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire_async(lock, 10000, look, &seen, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&seen.box, 1));
    for (size_t i = 0; i < sizeof program / sizeof *program; i++) {
        CU_ASSERT_EQUAL(sigismember(&seen.blocked, program[i]), 1);
    }
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        CU_ASSERT_EQUAL(sigismember(&seen.blocked, faults[i]), 0);
    }
    CU_ASSERT_STRING_EQUAL(seen.name, "zklock");
    zkl_lock_free(lock);
    kit_tear_down();
}

TESTS("threads", T(test_signals_and_names))
