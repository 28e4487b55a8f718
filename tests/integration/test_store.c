/* The ZooKeeper store against a real server: credentials, limits, resources. What its operations do is in tests/conformance, and
 * what goes wrong with connections in test_store_faults.c. */
#include <dirent.h>
#include <signal.h>

#include "one_server.h"
#include "store_client.h"
#include "test_heap.h"

/* Bit n of the field SigBlk says whether signal n + 1 is blocked. */
static int threads_that_block(int signal)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        char path[300], line[256];
        unsigned long long blocked = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(line, sizeof line, status)) {
            sscanf(line, "SigBlk: %llx", &blocked);
        }
        if (status) {
            fclose(status);
        }
        n += (int)(blocked >> (signal - 1) & 1);
    }
    closedir(tasks);
    return n;
}

/* The program's signal handlers do not run on the client library's two threads, but for those of the threads' own faults. The first test: a thread
 * that was joined is shown for a moment longer. */
TEST(test_signals)
{
    int before = threads_that_block(SIGUSR1), before_fault = threads_that_block(SIGSEGV);
    struct recorder *r = queue_eye(ensemble_servers(server));
    ASSERT_EVENTUALLY(threads_that_block(SIGUSR1) == before + 2);
    ASSERT_EVENTUALLY(threads_that_block(SIGSEGV) == before_fault);
    recorder_free(r);
}

/* --- operations ---------------------------------------------------------------------------------------------------- */

/* What would abort the process inside the client library, or let it free what is ours. */
TEST(test_refused_parts)
{
    struct recorder *r = queue_eye(ensemble_servers(server));
    struct zkl__op parts[] = {op_check("/", 0), op_create("/part", NULL, ZKL__CONTAINER)};
    struct zkl__op refused = op_multi(parts, 2);
    int code;
    CU_ASSERT_EQUAL(recorder_submit(r, &refused, &code), 0);
    CU_ASSERT_EQUAL(code, ZKL_EUNSUPPORTED);
    parts[1] = op_delete("multi", -1); /* a bad path */
    CU_ASSERT_EQUAL(recorder_submit(r, &refused, &code), 0);
    CU_ASSERT_EQUAL(code, ZKL_EINVAL);
    recorder_free(r);
}

/* --- credentials --------------------------------------------------------------------------------------------------- */

static struct recorder *open_with(const char *scheme, const char *auth)
{
    struct zkl__store_config config = recorder_config(ensemble_servers(server));
    config.auth_scheme = scheme;
    config.auth = auth;
    config.auth_size = strlen(auth);
    return recorder_open(&zkl__store_zookeeper, &config, NULL, NULL);
}

/* Whether a scheme is known is found out before the session is told that it is connected. */
TEST(test_auth_refused)
{
    struct recorder *r = open_with("nonsense", "x");
    const struct record *end = recorder_nth(r, RECORD_EXPIRED, 0, SOON);
    CU_ASSERT_PTR_NOT_NULL_FATAL(end);
    CU_ASSERT_EQUAL(end->end, ZKL__END_AUTH);
    CU_ASSERT_EQUAL(recorder_count(r, RECORD_CONNECTED), 0);
    CU_ASSERT_EQUAL(recorder_close(r, SOON), ZKL_ECONNECT);
    recorder_free(r);
}

/* --- watches ------------------------------------------------------------------------------------------------------- */

/* What is told of it: conformance. Here, that the server has none left. */
TEST(test_unwatch)
{
    struct recorder *r = queue_eye(ensemble_servers(server));
    CU_ASSERT_EQUAL(recorder_rc(r, op_create("/un", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(recorder_rc(r, op_read(ZKL__OP_GET, "/un", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(recorder_rc(r, op_read(ZKL__OP_CHILDREN, "/un", true)), ZKL__RC_OK);
    CU_ASSERT(ensemble_ask_until(server, 0, "wchp", "/un\n", true, SOON));
    CU_ASSERT_EQUAL(recorder_rc(r, op_read(ZKL__OP_UNWATCH, "/un", false)), ZKL__RC_OK);
    CU_ASSERT(ensemble_ask_until(server, 0, "wchp", "/un\n", false, 0));
    recorder_free(r);
}

/* --- limits, resources --------------------------------------------------------------------------------------------- */

TEST(test_limits)
{
    struct proxy *proxy = proxy_here();
    struct zkl__store_config config = recorder_config(proxy_address(proxy));
    config.timeout_ms =
        600000; /* what the server grants at most: the client library cuts a connection that is silent for two thirds of it */
    struct recorder *r = recorder_open(&zkl__store_zookeeper, &config, NULL, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(recorder_nth(r, RECORD_CONNECTED, 0, SOON));
    struct zkl__op exists = op_read(ZKL__OP_EXISTS, "/", false), large = op_set("/", NULL, -1);
    int code = ZKL_OK;
    static const char bytes[1 << 20];
    large.data = bytes;
    large.size = sizeof bytes;
    CU_ASSERT_EQUAL(recorder_submit(r, &large, &code), 0);
    CU_ASSERT_EQUAL(code, ZKL_ELIMIT);
    proxy_hold(proxy, PROXY_TO_CLIENT, true);
    size_t taken = 0;
    while (taken <= zkl__store_zookeeper.ops_max && recorder_submit(r, &exists, &code)) {
        taken++;
    }
    CU_ASSERT_EQUAL(code, ZKL_ELIMIT);
    CU_ASSERT_EQUAL(taken, zkl__store_zookeeper.ops_max);
    proxy_hold(proxy, PROXY_TO_CLIENT, false);
    CU_ASSERT_PTR_NOT_NULL(recorder_nth(r, RECORD_REPLY, taken - 1, SOON));
    recorder_free(r);
    proxy_stop(proxy);
}

TEST(test_no_memory)
{
    for (long nth = 1;; nth++) {
        struct test_heap heap = TEST_HEAP_INIT;
        struct zkl__store_config config = recorder_config(ensemble_servers(server));
        zkl_acl_entry entry = {ZKL_PERM_ALL, "world", "anyone"};
        zkl_acl acl = {1, &entry};
        struct zkl__op create = op_create("/", NULL, ZKL__EPHEMERAL_SEQUENTIAL), check = op_check("/", -1);
        int code = ZKL_OK;
        config.heap = test_heap(&heap);
        config.acl = create.acl = &acl;
        config.auth_scheme = "digest";
        config.auth = "a:b";
        config.auth_size = 3;
        test_heap_fail(&heap, nth, false);
        struct recorder *r = recorder_open(&zkl__store_zookeeper, &config, &code, NULL);
        if (r) {
            CU_ASSERT_PTR_NOT_NULL_FATAL(recorder_nth(r, RECORD_CONNECTED, 0, SOON));
            bool sent = recorder_submit(r, &create, &code) != 0 && recorder_submit(r, &check, &code) != 0;
            CU_ASSERT(sent || code == ZKL_ENOMEM);
            ASSERT_OK(recorder_close(r, SOON));
            recorder_free(r);
        } else {
            CU_ASSERT_EQUAL(code, ZKL_ENOMEM);
        }
        CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
        if (test_heap_failures(&heap) == 0) {
            CU_ASSERT(nth > 8);
            return;
        }
    }
}

/* --- programs that are started meanwhile ----------------------------------------------------------------------------- */

/* How many descriptors a program finds that is started by fork and exec; which ones goes to stderr. */
static int descriptors_of_a_child(void)
{
    FILE *child = popen("set -- /proc/$$/fd/*; readlink $* >&2; echo $#", "r");
    int count;
    CU_ASSERT_PTR_NOT_NULL_FATAL(child);
    CU_ASSERT_EQUAL_FATAL(fscanf(child, "%d", &count), 1);
    pclose(child);
    return count;
}

static bool both_become(zkl_session *one, zkl_session *other, zkl_connection_state state)
{
    return EVENTUALLY(zkl_session_state(one) == state && zkl_session_state(other) == state);
}

TEST(test_nothing_is_inherited)
{
    int before = descriptors_of_a_child();
    zkl_session *session = open_one();
    CU_ASSERT_EQUAL(descriptors_of_a_child(), before);
    zkl_session *other = open_one();
    CU_ASSERT_EQUAL(descriptors_of_a_child(), before);
    ensemble_kill(server, 0);
    CU_ASSERT(both_become(session, other, ZKL_SESSION_SUSPENDED));
    CU_ASSERT(ensemble_restart(server, 0) && ensemble_wait(server, 4 * SOON));
    CU_ASSERT(both_become(session, other, ZKL_SESSION_CONNECTED));
    CU_ASSERT_EQUAL(descriptors_of_a_child(), before);
    kit_close(session);
    kit_close(other);
}

TESTS_ON_SERVERS("store", &(struct ensemble_options){.extra = "maxSessionTimeout=600000"})
