/* The ZooKeeper store against a real server: operations, chroot, credentials, watches, limits. What goes wrong with connections
 * is in test_store_faults.c. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ensemble.h"
#include "proxy.h"
#include "recorder.h"
#include "store_client.h"
#include "test_heap.h"
#include "wait.h"

static struct ensemble *server;

static struct recorder *session(void)
{
    return recorder_connect(&zkl__store_zookeeper, ensemble_servers(server));
}

static const struct zkl__reply *act(struct recorder *r, struct zkl__op op)
{
    return &recorder_do(r, &op)->reply;
}
static enum zkl__rc rc_of(struct recorder *r, struct zkl__op op)
{
    return act(r, op)->rc;
}

static const struct record *watch_told(struct recorder *r, size_t n)
{
    static const struct record none = {.path = (char *)(uintptr_t) ""};
    const struct record *record = recorder_nth(r, RECORD_WATCH, n, SOON);
    return record ? record : &none;
}

/* --- operations ---------------------------------------------------------------------------------------------------- */

static void test_create(void)
{
    struct recorder *r = session();
    CU_ASSERT_EQUAL(rc_of(r, op_create("/ops", "text", ZKL__CONTAINER)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_create("/ops", NULL, ZKL__PERSISTENT)), ZKL__RC_NODEEXISTS);
    CU_ASSERT_EQUAL(rc_of(r, op_create("/none/x", NULL, ZKL__PERSISTENT)), ZKL__RC_NONODE);
    const struct zkl__reply *made = act(r, op_create("/ops/s-", NULL, ZKL__EPHEMERAL_SEQUENTIAL));
    CU_ASSERT_STRING_EQUAL(made->name, "s-0000000000");
    CU_ASSERT(made->stat.czxid > 0);
    const struct record *connected = recorder_nth(r, RECORD_CONNECTED, 0, 0);
    CU_ASSERT_EQUAL(made->stat.ephemeral_owner, connected->connection.session_id);
    CU_ASSERT_EQUAL(act(r, op_read(ZKL__OP_EXISTS, "/ops/s-0000000000", false))->stat.czxid, made->stat.czxid);
    CU_ASSERT_EQUAL(rc_of(r, op_create("/ops/s-0000000000/x", NULL, ZKL__PERSISTENT)), ZKL__RC_EPHEMERALPARENT);
    const struct zkl__reply *second = act(r, op_create("/ops/p-", "\0\xff", ZKL__PERSISTENT_SEQUENTIAL));
    CU_ASSERT_STRING_EQUAL(second->name, "p-0000000001");
    recorder_free(r);
}

static void test_data(void)
{
    struct recorder *r = session();
    struct zkl__op binary = op_create("/data", NULL, ZKL__EPHEMERAL);
    binary.data = "a\0b\xff";
    binary.size = 4;
    CU_ASSERT_EQUAL(rc_of(r, binary), ZKL__RC_OK);
    const struct zkl__reply *got = act(r, op_read(ZKL__OP_GET, "/data", false));
    CU_ASSERT(got->size == 4 && memcmp(got->data, "a\0b\xff", 4) == 0);
    const struct zkl__reply *set = act(r, op_set("/data", NULL, 0));
    CU_ASSERT_EQUAL(set->rc, ZKL__RC_OK);
    CU_ASSERT_EQUAL(set->stat.version, 1);
    CU_ASSERT_EQUAL(rc_of(r, op_set("/data", "x", 0)), ZKL__RC_BADVERSION);
    got = act(r, op_read(ZKL__OP_GET, "/data", false));
    CU_ASSERT(got->rc == ZKL__RC_OK && got->size == 0 && got->stat.version == 1);
    CU_ASSERT_EQUAL(rc_of(r, op_delete("/data", 0)), ZKL__RC_BADVERSION);
    CU_ASSERT_EQUAL(rc_of(r, op_delete("/data", 1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_delete("/data", -1)), ZKL__RC_NONODE);
    recorder_free(r);
}

static void test_children(void)
{
    struct recorder *r = session();
    CU_ASSERT_EQUAL(rc_of(r, op_create("/kids", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    const struct zkl__reply *none = act(r, op_read(ZKL__OP_CHILDREN, "/kids", false));
    CU_ASSERT(none->rc == ZKL__RC_OK && none->child_count == 0 && none->stat.czxid > 0);
    CU_ASSERT_EQUAL(rc_of(r, op_create("/kids/\xc3\xa9", NULL, ZKL__EPHEMERAL)), ZKL__RC_OK);
    const struct zkl__reply *one = act(r, op_read(ZKL__OP_CHILDREN, "/kids", false));
    CU_ASSERT(one->child_count == 1 && one->stat.child_count == 1);
    CU_ASSERT_STRING_EQUAL(one->children[0], "\xc3\xa9");
    CU_ASSERT_EQUAL(rc_of(r, op_delete("/kids", -1)), ZKL__RC_NOTEMPTY);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_CHILDREN, "/nobody", false)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_SYNC, "/kids", false)), ZKL__RC_OK);
    recorder_free(r);
}

static void test_multi(void)
{
    struct recorder *r = session();
    int code;
    CU_ASSERT_EQUAL(rc_of(r, op_create("/multi", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_check("/multi", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_check("/multi", 7)), ZKL__RC_BADVERSION);
    CU_ASSERT_EQUAL(rc_of(r, op_check("/nobody", -1)), ZKL__RC_NONODE);
    struct zkl__op parts[] = {op_check("/multi", 0), op_create("/multi/n-", "d", ZKL__PERSISTENT_SEQUENTIAL),
                              op_set("/multi", "new", 0), op_delete("/multi/gone", -1)};
    const struct zkl__reply *whole = act(r, op_multi(parts, 3));
    CU_ASSERT(whole->rc == ZKL__RC_OK && whole->part_count == 3);
    CU_ASSERT_STRING_EQUAL(whole->parts[1].name, "n-0000000000");
    parts[0].version = parts[2].version = 1;
    const struct zkl__reply *failed = act(r, op_multi(parts, 4));
    CU_ASSERT(failed->rc == ZKL__RC_NONODE && failed->part_count == 4);
    CU_ASSERT_EQUAL(failed->parts[0].rc, ZKL__RC_ROLLEDBACK);
    CU_ASSERT_EQUAL(failed->parts[3].rc, ZKL__RC_NONODE);
    parts[1].mode = ZKL__CONTAINER; /* would abort the process inside the client library */
    struct zkl__op refused = op_multi(parts, 4);
    CU_ASSERT_EQUAL(recorder_submit(r, &refused, &code), 0);
    CU_ASSERT_EQUAL(code, ZKL_EUNSUPPORTED);
    parts[1] = op_delete("multi", -1); /* a bad path: the client library would free what is ours */
    CU_ASSERT_EQUAL(recorder_submit(r, &refused, &code), 0);
    CU_ASSERT_EQUAL(code, ZKL_EINVAL);
    recorder_free(r);
}

/* A list behind a create, sent without waiting, shows what the create made. */
static void test_create_and_list(void)
{
    struct recorder *r = session();
    uint64_t creates[200], lists[200];
    struct zkl__op create = op_create("/line/c-", NULL, ZKL__EPHEMERAL_SEQUENTIAL);
    struct zkl__op list = op_read(ZKL__OP_CHILDREN, "/line", false);
    CU_ASSERT_EQUAL(rc_of(r, op_create("/line", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    for (int i = 0; i < 200; i++) {
        creates[i] = recorder_submit(r, &create, NULL);
        lists[i] = recorder_submit(r, &list, NULL);
    }
    for (int i = 0; i < 200; i++) {
        const struct record *made = recorder_reply(r, creates[i], SOON);
        const struct record *listed = recorder_reply(r, lists[i], SOON);
        bool found = false;
        for (size_t k = 0; made && listed && k < listed->reply.child_count; k++) {
            found = found || strcmp(listed->reply.children[k], made->reply.name) == 0;
        }
        CU_ASSERT(found);
    }
    recorder_free(r);
}

/* --- chroot, credentials ------------------------------------------------------------------------------------------- */

static void test_chroot(void)
{
    char servers[128];
    struct recorder *outside = session();
    CU_ASSERT_EQUAL(rc_of(outside, op_create("/top", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(outside, op_create("/top/sub", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    snprintf(servers, sizeof servers, "%s/top/sub", ensemble_servers(server));
    struct recorder *r = recorder_connect(&zkl__store_zookeeper, servers);
    struct zkl__op named = op_create("/q", NULL, ZKL__PERSISTENT);
    CU_ASSERT_EQUAL(rc_of(r, named), ZKL__RC_OK);
    named.name = "x-";
    named.mode = ZKL__EPHEMERAL_SEQUENTIAL;
    CU_ASSERT_STRING_EQUAL(act(r, named)->name, "x-0000000000");
    CU_ASSERT_EQUAL(rc_of(outside, op_check("/top/sub/q/x-0000000000", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(act(r, op_read(ZKL__OP_CHILDREN, "/", false))->child_count, 1);
    CU_ASSERT_EQUAL(rc_of(r, op_check("/", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_CHILDREN, "/", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_GET, "/q/x-0000000000", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(outside, op_delete("/top/sub/q/x-0000000000", -1)), ZKL__RC_OK);
    CU_ASSERT_STRING_EQUAL(watch_told(r, 0)->path, "/q/x-0000000000");
    CU_ASSERT_EQUAL(rc_of(outside, op_create("/top/sub/y", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_STRING_EQUAL(watch_told(r, 1)->path, "/");
    /* Nothing leads out of it. */
    static const char *const out[] = {"way", "", "/..", "/../sub2"};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
        struct zkl__op leave = op_create(out[i], NULL, ZKL__PERSISTENT);
        int code;
        CU_ASSERT_EQUAL(recorder_submit(r, &leave, &code), 0);
        CU_ASSERT_EQUAL(code, ZKL_EINVAL);
    }
    CU_ASSERT_STRING_EQUAL(act(r, op_create("/", NULL, ZKL__EPHEMERAL_SEQUENTIAL))->name, "0000000002");
    CU_ASSERT_EQUAL(rc_of(outside, op_check("/top/sub/0000000002", -1)), ZKL__RC_OK);
    recorder_free(r);
    recorder_free(outside);
}

static struct recorder *open_with(const char *scheme, const char *auth)
{
    struct zkl__store_config config = recorder_config(ensemble_servers(server));
    config.auth_scheme = scheme;
    config.auth = auth;
    config.auth_size = strlen(auth);
    return recorder_open(&zkl__store_zookeeper, &config, NULL, NULL);
}

static void test_auth(void)
{
    struct recorder *stranger = session();
    struct recorder *r = open_with("digest", "ann:secret");
    CU_ASSERT_PTR_NOT_NULL_FATAL(recorder_nth(r, RECORD_CONNECTED, 0, SOON));
    CU_ASSERT_EQUAL(rc_of(r, op_create("/mine", "secret", ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_GET, "/mine", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(stranger, op_read(ZKL__OP_GET, "/mine", false)), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(rc_of(stranger, op_create("/mine/x", NULL, ZKL__EPHEMERAL)), ZKL__RC_NOAUTH);
    zkl_acl_entry entries[] = {{ZKL_PERM_READ, "world", "anyone"}, {ZKL_PERM_ALL, "auth", ""}};
    zkl_acl acl = {2, entries};
    struct zkl__op shown = op_create("/mine/shown", NULL, ZKL__EPHEMERAL);
    shown.acl = &acl;
    CU_ASSERT_EQUAL(rc_of(r, shown), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(stranger, op_read(ZKL__OP_GET, "/mine/shown", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(stranger, op_set("/mine/shown", "x", -1)), ZKL__RC_NOAUTH);
    acl.count = 1;
    entries[0] = entries[1]; /* "auth" of one who has none */
    shown = op_create("/open", NULL, ZKL__EPHEMERAL);
    shown.acl = &acl;
    CU_ASSERT_EQUAL(rc_of(stranger, shown), ZKL__RC_INVALIDACL);
    recorder_free(r);
    recorder_free(stranger);
}

/* The credentials go out again, before anything else, on the next connection. */
static void test_auth_after_reconnect(void)
{
    struct proxy *proxy = proxy_start(ensemble_address(server, 0));
    struct zkl__store_config config = recorder_config(proxy_address(proxy));
    config.auth_scheme = "digest";
    config.auth = "bob:secret";
    config.auth_size = strlen("bob:secret");
    struct recorder *r = recorder_open(&zkl__store_zookeeper, &config, NULL, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(recorder_nth(r, RECORD_CONNECTED, 0, SOON));
    CU_ASSERT_EQUAL(rc_of(r, op_create("/bobs", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    proxy_cut(proxy);
    CU_ASSERT_PTR_NOT_NULL_FATAL(recorder_nth(r, RECORD_CONNECTED, 1, SOON));
    CU_ASSERT_EQUAL(rc_of(r, op_delete("/bobs", -1)), ZKL__RC_OK);
    recorder_free(r);
    proxy_stop(proxy);
}

/* Whether a scheme is known is found out before the session is told that it is connected. */
static void test_auth_refused(void)
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

static void test_watches(void)
{
    struct recorder *r = session(), *other = session();
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_EXISTS, "/w", true)), ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_GET, "/w", true)), ZKL__RC_NONODE); /* watches nothing */
    CU_ASSERT_EQUAL(rc_of(other, op_create("/w", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT(watch_told(r, 0)->watch == ZKL__WATCH_CREATED && strcmp(watch_told(r, 0)->path, "/w") == 0);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_GET, "/w", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_GET, "/w", true)), ZKL__RC_OK); /* told once all the same */
    CU_ASSERT_EQUAL(rc_of(other, op_set("/w", "x", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(watch_told(r, 1)->watch, ZKL__WATCH_CHANGED);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_CHILDREN, "/w", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(other, op_create("/w/k", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(watch_told(r, 2)->watch, ZKL__WATCH_CHILDREN);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_CHILDREN, "/w/k", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_GET, "/w/k", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(other, op_delete("/w/k", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(watch_told(r, 3)->watch, ZKL__WATCH_DELETED);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_SYNC, "/w", false)),
                    ZKL__RC_OK); /* whatever else was on its way is here */
    CU_ASSERT_EQUAL(recorder_count(r, RECORD_WATCH), 4);
    recorder_free(other);
    recorder_free(r);
}

/* Watches outlive a connection, and a change made in between is told. */
static void test_watches_after_reconnect(void)
{
    struct proxy *proxy = proxy_start(ensemble_address(server, 0));
    struct recorder *r = recorder_connect(&zkl__store_zookeeper, proxy_address(proxy)), *other = session();
    CU_ASSERT_EQUAL(rc_of(other, op_create("/later", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(other, op_create("/between", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_GET, "/later", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_GET, "/between", true)), ZKL__RC_OK);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    CU_ASSERT_PTR_NOT_NULL(recorder_nth(r, RECORD_SUSPENDED, 0, SOON));
    CU_ASSERT_EQUAL(rc_of(other, op_delete("/between", -1)), ZKL__RC_OK);
    proxy_refuse(proxy, false);
    CU_ASSERT_STRING_EQUAL(watch_told(r, 0)->path, "/between");
    CU_ASSERT_EQUAL(watch_told(r, 0)->watch, ZKL__WATCH_DELETED);
    CU_ASSERT_EQUAL(rc_of(other, op_delete("/later", -1)), ZKL__RC_OK);
    CU_ASSERT_STRING_EQUAL(watch_told(r, 1)->path, "/later");
    const struct record *again = recorder_nth(r, RECORD_CONNECTED, 1, SOON);
    CU_ASSERT(again && !again->connection.fresh);
    recorder_free(other);
    recorder_free(r);
    proxy_stop(proxy);
}

static void test_unwatch(void)
{
    struct recorder *r = session(), *other = session();
    CU_ASSERT_EQUAL(rc_of(r, op_create("/un", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_GET, "/un", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_CHILDREN, "/un", true)), ZKL__RC_OK);
    CU_ASSERT(ensemble_ask_until(server, 0, "wchp", "/un\n", true, SOON));
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_UNWATCH, "/un", false)), ZKL__RC_OK);
    CU_ASSERT(ensemble_ask_until(server, 0, "wchp", "/un\n", false, 0));
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_UNWATCH, "/un", false)), ZKL__RC_NOWATCH);
    CU_ASSERT_EQUAL(rc_of(other, op_create("/un/k", NULL, ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(other, op_set("/un", "x", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_SYNC, "/un", false)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(recorder_count(r, RECORD_WATCH), 0);
    /* And it can be watched anew. */
    CU_ASSERT_EQUAL(rc_of(r, op_read(ZKL__OP_GET, "/un", true)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(other, op_set("/un", "y", -1)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(watch_told(r, 0)->watch, ZKL__WATCH_CHANGED);
    recorder_free(other);
    recorder_free(r);
}

/* --- limits, resources --------------------------------------------------------------------------------------------- */

static void test_limits(void)
{
    struct proxy *proxy = proxy_start(ensemble_address(server, 0));
    struct recorder *r = recorder_connect(&zkl__store_zookeeper, proxy_address(proxy));
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
    CU_ASSERT(recorder_log_count(r) > 0);
    recorder_free(r);
    proxy_stop(proxy);
}

static void test_servers(void)
{
    struct zkl__store_config config = recorder_config("127.0.0.1:");
    zkl_error err = {0};
    int code = ZKL_OK;
    CU_ASSERT_PTR_NULL(recorder_open(&zkl__store_zookeeper, &config, &code, &err));
    CU_ASSERT_EQUAL(code, ZKL_EINVAL);
    config.servers = "127.0.0.1:1"; /* nobody there: no session, and close has nothing to wait for */
    struct recorder *r = recorder_open(&zkl__store_zookeeper, &config, &code, &err);
    struct zkl__op exists = op_read(ZKL__OP_EXISTS, "/", false);
    CU_ASSERT_EQUAL(recorder_submit(r, &exists, &code), 0);
    CU_ASSERT_EQUAL(code, ZKL_ECONNECT);
    CU_ASSERT_EQUAL(recorder_close(r, SOON), ZKL_ECONNECT);
    recorder_free(r);
}

/* Bit n of the field SigBlk says whether signal n + 1 is blocked. */
static int threads_that_block(int signal)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        char path[300], line[256];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(line, sizeof line, status)) {
            if (strncmp(line, "SigBlk:", 7) == 0) {
                n += strtoull(line + 7, NULL, 16) & (1ULL << (signal - 1)) ? 1 : 0;
            }
        }
        if (status) {
            fclose(status);
        }
    }
    closedir(tasks);
    return n;
}

/* A thread that was joined is shown for a moment longer: as many as there are for twenty looks. */
static int threads_that_stay(int signal)
{
    int n = threads_that_block(signal), same = 0;
    for (int64_t end = now_ms() + SOON; same < 20 && look_again(end);) {
        int now = threads_that_block(signal);
        same = now == n ? same + 1 : 0;
        n = now;
    }
    return n;
}

/* The program's signal handlers do not run on the client library's two threads, but for those of the threads' own faults. */
static void test_signals(void)
{
    int before = threads_that_stay(10), before_fault = threads_that_stay(SIGSEGV);
    struct recorder *r = session();
    CU_ASSERT_EQUAL(threads_that_stay(10), before + 2);
    CU_ASSERT_EQUAL(threads_that_stay(SIGSEGV), before_fault);
    recorder_free(r);
}

static void no_memory(bool sealed)
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
        config.auth_scheme = sealed ? NULL : "digest";
        config.auth = sealed ? NULL : "a:b";
        config.auth_size = sealed ? 0 : 3;
        config.seal = sealed ? "a:b" : NULL;
        test_heap_fail(&heap, nth, false);
        struct recorder *r = recorder_open(&zkl__store_zookeeper, &config, &code, NULL);
        if (r) {
            CU_ASSERT_PTR_NOT_NULL_FATAL(recorder_nth(r, RECORD_CONNECTED, 0, SOON));
            bool sent = recorder_submit(r, &create, &code) != 0 && recorder_submit(r, &check, &code) != 0;
            CU_ASSERT(sent || code == ZKL_ENOMEM);
            CU_ASSERT_EQUAL(recorder_close(r, SOON), ZKL_OK);
            recorder_free(r);
        } else {
            CU_ASSERT_EQUAL(code, ZKL_ENOMEM);
        }
        CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
        if (test_heap_failures(&heap) == 0) {
            CU_ASSERT(nth > 10);
            return;
        }
    }
}

static void test_no_memory(void)
{
    no_memory(false);
    no_memory(true);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        T(test_create),
        T(test_data),
        T(test_children),
        T(test_multi),
        T(test_create_and_list),
        T(test_chroot),
        T(test_auth),
        T(test_auth_after_reconnect),
        T(test_auth_refused),
        T(test_watches),
        T(test_watches_after_reconnect),
        T(test_unwatch),
        T(test_limits),
        T(test_servers),
        T(test_signals),
        T(test_no_memory),
    };
    if (!ensemble_available()) {
        return 77;
    }
    server = ensemble_start(NULL);
    if (!server) {
        return 1;
    }
    int failed = check_main("store", cases, (int)(sizeof cases / sizeof *cases), argc, argv);
    ensemble_stop(server);
    return failed;
}
