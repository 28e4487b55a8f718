/* What a real server refuses, and what is refused before it is asked. */
#include <sys/resource.h>

#include "one_server.h"

/* The servers grant less than they were asked for, and less than a lease needs. */
TEST(test_session_timeout_too_short)
{
    zkl_session_options options = contest_options(10000, 2000);
    zkl_session *session = NULL;
    zkl_error err;
    struct ensemble *strict = ensemble_start(&(struct ensemble_options){.extra = "maxSessionTimeout=1200"});
    CU_ASSERT_PTR_NOT_NULL_FATAL(strict);
    CU_ASSERT_EQUAL(zkl_session_open(&session, ensemble_servers(strict), &options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NULL(session);
    ASSERT_SAYS(err, "1200");
    ensemble_stop(strict);
}

/* Warnings with these words. */
struct warnings {
    const char *words;
    atomic_int count;
};

static void count_warning(const zkl_log_record *record, void *payload)
{
    struct warnings *warnings = payload;
    if (record->level == ZKL_LOG_WARN && strstr(record->text, warnings->words)) {
        warnings->count++;
    }
}

#define WATCHED 100 /* their paths together are more than the server takes */

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload) {}

/* What the client library asks for behind each connect is too large for this server, which closes the connection: an operator is told. */
TEST(test_watches_too_large)
{
    struct ensemble *small =
        ensemble_start(&(struct ensemble_options){.tick_ms = TICK, .java = "-Djute.maxbuffer=4096"});
    CU_ASSERT_PTR_NOT_NULL_FATAL(small);
    struct proxy *proxy = proxy_start(ensemble_address(small, 0));
    zkl_session *holder = contest_session(ensemble_servers(small), TIMEOUT, TICK), *session = NULL;
    zkl_session_options options = contest_options(TIMEOUT, TICK);
    zkl_lock *held[WATCHED], *wanted[WATCHED];
    struct warnings warnings = {.words = "jute.maxbuffer"};
    options.log_fn = count_warning;
    options.log_payload = &warnings;
    ASSERT_OK_FATAL(zkl_session_open(&session, proxy_address(proxy), &options, NULL));
    for (int i = 0; i < WATCHED; i++) {
        char path[32];
        snprintf(path, sizeof path, "/w%d", i);
        held[i] = contest_holder(holder, path);
        wanted[i] = contest_lock(session, path, NULL);
        ASSERT_OK(zkl_lock_acquire_async(wanted[i], 2 * SOON, on_acquired, NULL, NULL));
    }
    ASSERT_EVENTUALLY(proxy_count(proxy, PROXY_OP_GET) >= WATCHED); /* of the holder's znodes */
    CU_ASSERT_EQUAL(warnings.count, 0);
    proxy_cut(proxy);
    ASSERT_EVENTUALLY(warnings.count == 1);
    for (int i = 0; i < WATCHED; i++) {
        zkl_lock_free(wanted[i]);
        zkl_lock_free(held[i]);
    }
    zkl_session_close(session, 0); /* it is not connected */
    kit_close(holder);
    proxy_stop(proxy);
    ensemble_stop(small);
}

/* --- no descriptor left ------------------------------------------------------------------------------------------------ */

#define FEW 16 /* poll takes no more descriptors than the limit says */

/* The numbers below FEW are all taken from now on, until they are closed. */
static void take_numbers(int taken[FEW], int *count)
{
    for (int fd = dup(STDERR_FILENO); fd >= 0; fd = dup(STDERR_FILENO)) {
        if (fd >= FEW) {
            close(fd);
            return;
        }
        taken[(*count)++] = fd;
    }
}

/* The connection goes, and this process, with the proxy, gets no new descriptor. Those that are open stay. */
TEST(test_no_descriptor)
{
    struct rlimit before;
    struct warnings named = {.words = "ulimit -n"};
    zkl_error err = {0};
    zkl_session *session = NULL;
    zkl_session_options options = contest_options(60000, TICK); /* the session is there when the limit is raised */
    int taken[FEW], count = 0;
    take_numbers(taken, &count);
    struct proxy *proxy = proxy_here();
    CU_ASSERT_PTR_NOT_NULL_FATAL(proxy);
    options.connect_timeout_ms = 1000; /* how long a try waits for a connection */
    options.log_fn = count_warning;
    options.log_payload = &named;
    ASSERT_EVENTUALLY_FATAL(zkl_session_open(&session, proxy_address(proxy), &options, NULL) == ZKL_OK);
    zkl_lock *lock = contest_lock(session, "/descriptors", NULL);
    zkl_lock *permit;
    ASSERT_OK_FATAL(zkl_semaphore_new(&permit, session, "/permits", 1, NULL, NULL));
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_OK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){FEW, before.rlim_max}));
    proxy_cut(proxy);
    ASSERT_EVENTUALLY(zkl_session_state(session) != ZKL_SESSION_CONNECTED);
    ASSERT_EVENTUALLY(named.count == 1); /* once for each time that the connection is gone */
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 500, NULL, &err), ZKL_ETIMEOUT);
    ASSERT_SAYS(err, "descriptor");
    ASSERT_SAYS(err, "ulimit -n");
    CU_ASSERT_EQUAL(zkl_lock_acquire(permit, 0, NULL, &err), ZKL_ETIMEOUT);
    ASSERT_SAYS(err, "ulimit -n");
    ASSERT_OK(setrlimit(RLIMIT_NOFILE, &before));
    ASSERT_OK(zkl_lock_acquire(lock, SOON, NULL, &err));
    CU_ASSERT_EQUAL(named.count, 1);
    /* There is no connection either while the server refuses it: that is no want of descriptors. */
    zkl_lock *other = contest_lock(session, "/descriptors/other", NULL);
    proxy_down(proxy);
    ASSERT_EVENTUALLY(zkl_session_state(session) != ZKL_SESSION_CONNECTED);
    CU_ASSERT_EQUAL(zkl_lock_acquire(other, 500, NULL, &err), ZKL_ETIMEOUT);
    CU_ASSERT_PTR_NULL(strstr(err.text, "descriptor"));
    proxy_refuse(proxy, false);
    zkl_lock_free(other);
    zkl_lock_free(permit);
    zkl_lock_free(lock);
    close_behind(session, proxy);
    while (count > 0) {
        close(taken[--count]);
    }
    CU_ASSERT_EQUAL(named.count, 1);
}

TESTS_ON_ONE_SERVER("lock refused")
