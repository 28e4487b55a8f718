/* The lock on one real server: queue, results, what an operator does, what the server refuses, the end of sessions. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "contest.h"
#include "ensemble.h"
#include "proxy.h"
#include "store_client.h"

#define TICK 500     /* ms, of the server */
#define TIMEOUT 4000 /* ms, of sessions */

static struct ensemble *server;
static struct recorder *eye;

static zkl_session *open_one(void)
{
    return contest_session(ensemble_servers(server), TIMEOUT, TICK);
}

static void close_one(zkl_session *session)
{
    CU_ASSERT_EQUAL(zkl_session_close(session, SOON), ZKL_OK);
}

/* --- queue ----------------------------------------------------------------------------------------------------------- */

#define CROWD 8

/* Several sessions: granted in the order of the queue, one at a time, with tokens that rise. */
static void test_order(void)
{
    zkl_session *sessions[CROWD];
    zkl_lock *locks[CROWD];
    struct waiter waiters[CROWD];
    int64_t last = 0;
    for (int i = 0; i < CROWD; i++) {
        sessions[i] = open_one();
        locks[i] = contest_lock(sessions[i], "/order", NULL);
        waiter_queue(&waiters[i], locks[i], SOON);
    }
    for (int i = 0; i < CROWD; i++) {
        CU_ASSERT_EQUAL(waiter_end(&waiters[i]), ZKL_OK);
        CU_ASSERT(zkl_lock_is_held(locks[i]));
        CU_ASSERT(waiters[i].grant.token > last && waiters[i].grant.token == zkl_lock_token(locks[i]));
        last = waiters[i].grant.token;
        for (int k = i + 1; k < CROWD; k++) {
            CU_ASSERT(!atomic_load(&waiters[k].done) && !zkl_lock_is_held(locks[k]));
        }
        CU_ASSERT_EQUAL(zkl_lock_release(locks[i], NULL), ZKL_OK);
        CU_ASSERT_EQUAL(zkl_lock_token(locks[i]), 0);
    }
    CU_ASSERT(queue_becomes(eye, "/order", 0));
    for (int i = 0; i < CROWD; i++) {
        zkl_lock_free(locks[i]);
        close_one(sessions[i]);
    }
}

struct crowd {
    atomic_int inside;
    atomic_int overlaps, grants, wrong;
    atomic_llong last; /* token */
};

static struct crowd crowd;

static void *crowd_member(void *arg)
{
    zkl_session *session = arg;
    zkl_lock *lock = contest_lock(session, "/crowd", NULL);
    for (int i = 0; i < 25; i++) {
        zkl_grant grant;
        if (zkl_lock_acquire(lock, SOON, &grant, NULL) != ZKL_OK) {
            atomic_fetch_add(&crowd.wrong, 1);
            continue;
        }
        atomic_fetch_add(&crowd.overlaps, atomic_fetch_add(&crowd.inside, 1) > 0);
        atomic_fetch_add(&crowd.wrong, atomic_exchange(&crowd.last, grant.token) >= grant.token);
        atomic_fetch_add(&crowd.grants, 1);
        atomic_fetch_sub(&crowd.inside, 1);
        atomic_fetch_add(&crowd.wrong, zkl_lock_release(lock, NULL) != ZKL_OK);
    }
    zkl_lock_free(lock);
    return NULL;
}

/* Threads of two sessions, all at once. */
static void test_exclusion(void)
{
    zkl_session *sessions[2] = {open_one(), open_one()};
    pthread_t threads[CROWD];
    for (int i = 0; i < CROWD; i++) {
        pthread_create(&threads[i], NULL, crowd_member, sessions[i % 2]);
    }
    for (int i = 0; i < CROWD; i++) {
        pthread_join(threads[i], NULL);
    }
    CU_ASSERT_EQUAL(atomic_load(&crowd.grants), CROWD * 25);
    CU_ASSERT_EQUAL(atomic_load(&crowd.overlaps), 0);
    CU_ASSERT_EQUAL(atomic_load(&crowd.wrong), 0);
    CU_ASSERT(queue_becomes(eye, "/crowd", 0));
    close_one(sessions[0]);
    close_one(sessions[1]);
}

/* Numbers start again when the directory is made anew; tokens do not. */
static void test_token_outlives_directory(void)
{
    zkl_session *session = open_one();
    zkl_lock *lock = contest_lock(session, "/anew", NULL);
    zkl_grant first, second;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, &first, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    struct zkl__op remove = op_delete("/anew", -1);
    CU_ASSERT_EQUAL(recorder_do(eye, &remove)->reply.rc, ZKL__RC_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, &second, NULL), ZKL_OK);
    CU_ASSERT(second.token > first.token);
    zkl_lock_free(lock);
    close_one(session);
}

/* --- results --------------------------------------------------------------------------------------------------------- */

static void test_try(void)
{
    zkl_session *session = open_one(), *other = open_one();
    zkl_lock *lock = contest_lock(session, "/try", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_OK);
    zkl_lock *late = contest_lock(other, "/try", NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(late, 0, NULL, &err), ZKL_EBUSY);
    CU_ASSERT_STRING_EQUAL(err.path, "/try");
    CU_ASSERT_EQUAL(zkl_lock_state(late), ZKL_STATE_IDLE);
    CU_ASSERT(queue_becomes(eye, "/try", 1));
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(late, 0, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
    zkl_lock_free(late);
    close_one(session);
    close_one(other);
}

static void test_timeout(void)
{
    zkl_session *session = open_one();
    zkl_lock *holder = contest_holder(session, "/timeout"), *late = contest_lock(session, "/timeout", NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(late, 100, NULL, &err), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(err.code, ZKL_ETIMEOUT);
    CU_ASSERT_STRING_EQUAL(err.path, "/timeout");
    CU_ASSERT(queue_becomes(eye, "/timeout", 1));
    CU_ASSERT(zkl_lock_is_held(holder));
    zkl_lock_free(holder);
    CU_ASSERT_EQUAL(zkl_lock_acquire(late, SOON, NULL, NULL), ZKL_OK);
    zkl_lock_free(late);
    CU_ASSERT(queue_becomes(eye, "/timeout", 0));
    close_one(session);
}

static void test_cancel(void)
{
    zkl_session *session = open_one();
    zkl_lock *holder = contest_holder(session, "/cancel"), *late = contest_lock(session, "/cancel", NULL);
    struct waiter waiter;
    CU_ASSERT_EQUAL(zkl_lock_cancel(late), ZKL_ENOTWAITING);
    waiter_queue(&waiter, late, ZKL_WAIT_FOREVER);
    CU_ASSERT_EQUAL(zkl_lock_acquire(late, 0, NULL, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(zkl_lock_release(late, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_lock_cancel(late), ZKL_OK);
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_ECANCELED);
    CU_ASSERT(queue_becomes(eye, "/cancel", 1));
    CU_ASSERT_EQUAL(zkl_lock_cancel(late), ZKL_ENOTWAITING);
    CU_ASSERT_EQUAL(zkl_lock_cancel(holder), ZKL_ENOTWAITING);
    CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 0, NULL, NULL), ZKL_EDEADLK);
    zkl_lock_free(late);
    zkl_lock_free(holder);
    close_one(session);
}

static void test_free_while_waiting(void)
{
    zkl_session *session = open_one();
    zkl_lock *holder = contest_holder(session, "/free"), *late = contest_lock(session, "/free", NULL);
    struct waiter waiter;
    waiter_queue(&waiter, late, ZKL_WAIT_FOREVER);
    zkl_lock_free(late);
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_ECANCELED);
    CU_ASSERT(queue_becomes(eye, "/free", 1));
    CU_ASSERT(zkl_lock_is_held(holder));
    zkl_lock_free(holder);
    CU_ASSERT(queue_becomes(eye, "/free", 0));
    close_one(session);
}

/* What an operator sees of a queue. */
static void test_metadata(void)
{
    zkl_session *session = open_one();
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.metadata = "nightly backup, ask \xc3\x85sa";
    zkl_lock *lock = contest_lock(session, "/meta", &options), *plain = contest_lock(session, "/meta", NULL);
    struct waiter waiter;
    zkl_queue *queue = NULL;
    char node[128], whoami[32];
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    waiter_queue(&waiter, plain, SOON);
    CU_ASSERT_EQUAL_FATAL(zkl_queue_list(&queue, session, "/meta", SOON, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(queue->count, 2);
    const zkl_queue_entry *first = &queue->entries[0], *second = &queue->entries[1];
    zkl_lock_node(lock, node, sizeof node);
    CU_ASSERT_STRING_EQUAL(first->name, node);
    CU_ASSERT_STRING_EQUAL(first->data, options.metadata);
    CU_ASSERT(first->kind == ZKL_KIND_LOCK && first->readable);
    CU_ASSERT_EQUAL(first->token, zkl_lock_token(lock));
    CU_ASSERT_EQUAL(first->session_id, zkl_session_id(session));
    snprintf(whoami, sizeof whoami, ":%d", (int)getpid());
    CU_ASSERT_PTR_NOT_NULL(strstr(second->data, whoami));
    zkl_queue_free(queue);
    zkl_lock_free(lock);
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_OK);
    zkl_lock_free(plain);
    close_one(session);
}

/* Missing directories are made, as containers: a server, here one in a hurry, removes them when nobody is in them any more. */
static void test_directories(void)
{
    setenv("JAVA_TOOL_OPTIONS", "-Dznode.container.checkIntervalMs=100", 1);
    struct ensemble *tidy = ensemble_start(NULL);
    unsetenv("JAVA_TOOL_OPTIONS");
    CU_ASSERT_PTR_NOT_NULL_FATAL(tidy);
    struct recorder *look = queue_eye(ensemble_servers(tidy));
    zkl_session *session = contest_session(ensemble_servers(tidy), TIMEOUT, TICK);
    for (int i = 0; i < 2; i++) { /* and once more when they are gone */
        zkl_lock *lock = contest_holder(session, "/made/on/the/way");
        CU_ASSERT_EQUAL(queue_length(look, "/made/on/the/way"), 1);
        zkl_lock_free(lock);
        CU_ASSERT(queue_becomes(look, "/made", 0));
        CU_ASSERT(queue_becomes(look, "/", 1)); /* but for /zookeeper */
    }
    close_one(session);
    recorder_free(look);
    ensemble_stop(tidy);
}

/* --- an operator removes our node ------------------------------------------------------------------------------------ */

static void remove_node_of(zkl_lock *lock)
{
    char node[128];
    CU_ASSERT(zkl_lock_node(lock, node, sizeof node) > 0);
    CU_ASSERT(queue_remove(eye, zkl_lock_path(lock), node));
}

/* The holder hears of it with the next heartbeat, which comes every TIMEOUT / 12. */
static void test_removed_while_held(void)
{
    zkl_session *session = open_one();
    int64_t late[7];
    for (int i = 0; i < 7; i++) {
        struct heard heard = HEARD_INIT;
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        options.state_fn = heard_fn;
        options.state_payload = &heard;
        zkl_lock *lock = contest_lock(session, "/held", &options);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
        int64_t removed = boot_ns();
        remove_node_of(lock);
        late[i] = heard_when(&heard, ZKL_STATE_LOST, SOON) - removed;
        CU_ASSERT(late[i] > 0);
        CU_ASSERT(!zkl_lock_is_held(lock));
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_LOST);
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
        zkl_lock_free(lock);
        CU_ASSERT_EQUAL(heard_count(&heard, ZKL_STATE_LOST), 1);
    }
    int64_t middle = median(late, 7);
    printf("told after %lld..%lld ms, a heartbeat is %d ms; ", (long long)(late[0] / MS), (long long)(late[6] / MS),
           TIMEOUT / 12);
    CU_ASSERT(middle < (TIMEOUT / 12 + 50) * MS);
    close_one(session);
}

/* Of three, the second's node is removed: the third goes on waiting for the first, and the second queues behind it. */
static void test_removed_while_waiting(void)
{
    zkl_session *sessions[3];
    zkl_lock *locks[3];
    struct waiter waiters[3];
    char before[128], after[128] = "";
    for (int i = 0; i < 3; i++) {
        sessions[i] = open_one();
        locks[i] = contest_lock(sessions[i], "/middle", NULL);
        waiter_queue(&waiters[i], locks[i], SOON);
    }
    CU_ASSERT_EQUAL(waiter_end(&waiters[0]), ZKL_OK);
    zkl_lock_node(locks[1], before, sizeof before);
    remove_node_of(locks[1]);
    /* A waiter that watches its predecessor alone hears of it when that goes. */
    CU_ASSERT_EQUAL(zkl_lock_release(locks[0], NULL), ZKL_OK);
    CU_ASSERT_EQUAL(waiter_end(&waiters[2]), ZKL_OK);
    CU_ASSERT(queue_becomes(eye, "/middle", 2));
    CU_ASSERT(!atomic_load(&waiters[1].done));
    zkl_lock_node(locks[1], after, sizeof after);
    CU_ASSERT_STRING_NOT_EQUAL(before, after);
    CU_ASSERT_EQUAL(zkl_lock_release(locks[2], NULL), ZKL_OK);
    CU_ASSERT_EQUAL(waiter_end(&waiters[1]), ZKL_OK);
    CU_ASSERT(waiters[1].grant.token > waiters[2].grant.token);
    for (int i = 0; i < 3; i++) {
        zkl_lock_free(locks[i]);
        close_one(sessions[i]);
    }
    CU_ASSERT(queue_becomes(eye, "/middle", 0));
}

static void test_removed_while_waiting_fails_by_option(void)
{
    zkl_session *first = open_one(), *session = open_one();
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.on_expiry = ZKL_ON_EXPIRY_FAIL;
    zkl_lock *holder = contest_holder(first, "/fails"), *lock = contest_lock(session, "/fails", &options);
    struct waiter waiter;
    waiter_queue(&waiter, lock, SOON);
    remove_node_of(lock);
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_ELOST);
    CU_ASSERT(queue_becomes(eye, "/fails", 0));
    zkl_lock_free(lock);
    zkl_lock_free(holder);
    close_one(session);
    close_one(first);
}

/* --- what is refused ------------------------------------------------------------------------------------------------- */

static int try_open(const char *servers, const zkl_session_options *options, zkl_error *err)
{
    zkl_session *session = NULL;
    *err = (zkl_error){.code = 1};
    int code = zkl_session_open(&session, servers, options, err);
    if (code == ZKL_OK) {
        zkl_session_close(session, SOON);
    } else {
        CU_ASSERT_PTR_NULL(session);
        CU_ASSERT_EQUAL(err->code, code);
        CU_ASSERT(strlen(err->text) > 10);
    }
    return code;
}

static void test_no_server(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_error err;
    options.connect_timeout_ms = 300;
    CU_ASSERT_EQUAL(try_open("127.0.0.1:1", &options, &err), ZKL_ECONNECT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "127.0.0.1:1"));
    CU_ASSERT_EQUAL(try_open("no-such-host.invalid:2181", &options, &err), ZKL_ECONNECT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no-such-host.invalid"));
    CU_ASSERT_EQUAL(try_open("127.0.0.1:2181,", &options, &err), ZKL_EINVAL);
    struct proxy *silent = proxy_start(ensemble_address(server, 0));
    proxy_hold(silent, PROXY_TO_CLIENT, true);
    CU_ASSERT_EQUAL(try_open(proxy_address(silent), &options, &err), ZKL_ECONNECT);
    proxy_stop(silent);
}

static void test_chroot(void)
{
    char servers[128];
    zkl_error err;
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    snprintf(servers, sizeof servers, "%s/not/there", ensemble_servers(server));
    CU_ASSERT_EQUAL(try_open(servers, &options, &err), ZKL_ENOENT);
    CU_ASSERT_STRING_EQUAL(err.path, "/not/there");
    struct zkl__op make = op_create("/inner", NULL, ZKL__PERSISTENT);
    CU_ASSERT_EQUAL(recorder_do(eye, &make)->reply.rc, ZKL__RC_OK);
    snprintf(servers, sizeof servers, "%s/inner", ensemble_servers(server));
    zkl_session *session = contest_session(servers, TIMEOUT, TICK);
    zkl_lock *lock = contest_holder(session, "/lock");
    CU_ASSERT_EQUAL(queue_length(eye, "/inner/lock"), 1);
    zkl_lock_free(lock);
    close_one(session);
}

static void test_session_timeout_too_short(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_error err;
    options.session_timeout_ms = 1500; /* with a tick of 2000 */
    CU_ASSERT_EQUAL(try_open(ensemble_servers(server), &options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1500"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "2000"));
    /* And when it is the ensemble that grants less than it was asked for. */
    struct ensemble *strict = ensemble_start(&(struct ensemble_options){.extra = "maxSessionTimeout=1200"});
    CU_ASSERT_PTR_NOT_NULL_FATAL(strict);
    options.session_timeout_ms = 10000;
    CU_ASSERT_EQUAL(try_open(ensemble_servers(strict), &options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1200"));
    ensemble_stop(strict);
}

/* A directory that only its owner may use; and one that strangers may fill, but not list. */
static void test_no_permission(void)
{
    static const zkl_acl_entry owner[] = {{ZKL_PERM_ALL, "digest", "ann:IQfT1Pl8qgIZ/9hWRLwO8n4MoZ4="}};
    static const zkl_acl_entry blind[] = {{ZKL_PERM_CREATE | ZKL_PERM_DELETE, "world", "anyone"}};
    static const zkl_acl acls[] = {{1, owner}, {1, blind}};
    static const char *const paths[] = {"/closed", "/blind"};
    zkl_session *session = open_one();
    for (int i = 0; i < 2; i++) {
        struct zkl__op make = op_create(paths[i], NULL, ZKL__PERSISTENT);
        zkl_error err;
        zkl_lock *lock = contest_lock(session, paths[i], NULL);
        make.acl = &acls[i];
        CU_ASSERT_EQUAL(recorder_do(eye, &make)->reply.rc, ZKL__RC_OK);
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, &err), ZKL_EAUTH);
        CU_ASSERT_EQUAL(err.code, ZKL_EAUTH);
        CU_ASSERT_EQUAL(err.zk_code, -102);
        CU_ASSERT_STRING_EQUAL(err.path, paths[i]);
        CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
        zkl_lock_free(lock);
    }
    close_one(session);
}

/* With credentials what is made is the maker's alone: contenders need the same ones. */
static void test_credentials(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session, *same, *stranger = open_one();
    zkl_error err;
    options.session_timeout_ms = TIMEOUT;
    options.tick_ms = TICK;
    options.auth_scheme = "digest";
    options.auth = "bob:secret";
    options.auth_size = strlen("bob:secret");
    CU_ASSERT_EQUAL_FATAL(zkl_session_open(&session, ensemble_servers(server), &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_session_open(&same, ensemble_servers(server), &options, NULL), ZKL_OK);
    zkl_lock *lock = contest_holder(session, "/bobs/lock"), *second = contest_lock(same, "/bobs/lock", NULL);
    zkl_lock *no = contest_lock(stranger, "/bobs/lock", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(no, SOON, NULL, &err), ZKL_EAUTH);
    CU_ASSERT_EQUAL(zkl_lock_acquire(second, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(second, SOON, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
    zkl_lock_free(second);
    zkl_lock_free(no);
    close_one(session);
    close_one(same);
    close_one(stranger);
    options.auth_scheme = "nonsense";
    CU_ASSERT_EQUAL(try_open(ensemble_servers(server), &options, &err), ZKL_EAUTH);
    CU_ASSERT_PTR_NULL(strstr(err.text, "secret"));
}

static void test_bad_arguments(void)
{
    static char lengthy[ZKL_PATH_MAX + 2];
    static const char *const paths[] = {"",        "lock",          "/",          "/a/",    "/a//b",
                                        "/a/../b", "/a/./b",        "/a\x01",     "/a\x7f", "/a\xff",
                                        "/\xc3",   "/\xed\xa0\x80", "/zookeeper", lengthy,  "/a-0000000001"};
    zkl_session *session = open_one();
    memset(lengthy, 'a', sizeof lengthy - 1);
    lengthy[0] = '/';
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        zkl_lock *lock = NULL;
        zkl_error err = {.code = 1};
        CU_ASSERT_EQUAL(zkl_lock_new(&lock, session, paths[i], NULL, &err), ZKL_EINVAL);
        CU_ASSERT(lock == NULL && err.code == ZKL_EINVAL && err.text[0]);
    }
    zkl_lock *lock = contest_lock(session, "/args", NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_release(lock, &err), ZKL_ENOTHELD);
    CU_ASSERT_STRING_EQUAL(err.path, "/args");
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, -2, NULL, &err), ZKL_EINVAL);
    close_one(session);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, &err), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, &err), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(zkl_lock_cancel(lock), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_IDLE);
    zkl_lock_free(lock);
}

/* A part of the path is an ephemeral znode. */
static void test_conflict(void)
{
    zkl_session *session = open_one();
    struct zkl__op make = op_create("/fleeting", NULL, ZKL__EPHEMERAL);
    CU_ASSERT_EQUAL(recorder_do(eye, &make)->reply.rc, ZKL__RC_OK);
    zkl_lock *lock = contest_lock(session, "/fleeting", NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, &err), ZKL_ECONFLICT);
    CU_ASSERT_STRING_EQUAL(err.path, "/fleeting");
    zkl_lock_free(lock);
    close_one(session);
}

/* --- the end of a session ---------------------------------------------------------------------------------------------- */

struct broken {
    struct proxy *proxy;
    zkl_session *session;
};

static struct broken open_behind_proxy(void)
{
    struct broken b = {.proxy = proxy_start(ensemble_address(server, 0))};
    b.session = contest_session(proxy_address(b.proxy), TIMEOUT, TICK);
    return b;
}

/* Returns when the server has ended the session. */
static void expire(struct broken *b)
{
    char id[32];
    snprintf(id, sizeof id, "0x%llx", (unsigned long long)zkl_session_id(b->session));
    proxy_refuse(b->proxy, true);
    proxy_cut(b->proxy);
    CU_ASSERT(ensemble_ask_until(server, 0, "dump", id, false, SOON));
}

static void test_expiry_while_held(void)
{
    struct broken b = open_behind_proxy();
    struct heard heard = HEARD_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = heard_fn;
    options.state_payload = &heard;
    zkl_lock *lock = contest_lock(b.session, "/expiry-held", &options);
    zkl_session *other = open_one();
    zkl_lock *next = contest_lock(other, "/expiry-held", NULL);
    struct waiter waiter;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    waiter_queue(&waiter, next, ZKL_WAIT_FOREVER);
    expire(&b);
    CU_ASSERT_EQUAL(waiter_end(&waiter), ZKL_OK);
    int64_t lost = heard_when(&heard, ZKL_STATE_LOST, SOON);
    CU_ASSERT(heard_when(&heard, ZKL_STATE_JEOPARDY, 0) > 0);
    CU_ASSERT(lost > 0 && lost < waiter.ended_ns);
    CU_ASSERT(!zkl_lock_is_held(lock));
    proxy_refuse(b.proxy, false);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    /* The object goes on, in a new session. */
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_lock_release(next, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    zkl_lock_free(lock);
    zkl_lock_free(next);
    close_one(other);
    close_one(b.session);
    proxy_stop(b.proxy);
}

/* A waiter queues again in a new session; or fails, as it was told to. */
static void test_expiry_while_waiting(void)
{
    struct broken b = open_behind_proxy();
    zkl_session *other = open_one();
    zkl_lock *holder = contest_holder(other, "/expiry-waits");
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.on_expiry = ZKL_ON_EXPIRY_FAIL;
    zkl_lock *again = contest_lock(b.session, "/expiry-waits", NULL);
    zkl_lock *fails = contest_lock(b.session, "/expiry-waits", &options);
    struct waiter patient, strict;
    waiter_queue(&patient, again, ZKL_WAIT_FOREVER);
    waiter_queue(&strict, fails, ZKL_WAIT_FOREVER);
    CU_ASSERT(queue_becomes(eye, "/expiry-waits", 3));
    expire(&b);
    CU_ASSERT(queue_becomes(eye, "/expiry-waits", 1));
    proxy_refuse(b.proxy, false);
    CU_ASSERT_EQUAL(waiter_end(&strict), ZKL_ELOST);
    CU_ASSERT(queue_becomes(eye, "/expiry-waits", 2));
    CU_ASSERT(!atomic_load(&patient.done));
    CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(waiter_end(&patient), ZKL_OK);
    zkl_lock_free(again);
    zkl_lock_free(fails);
    zkl_lock_free(holder);
    close_one(other);
    close_one(b.session);
    CU_ASSERT(queue_becomes(eye, "/expiry-waits", 0));
    proxy_stop(b.proxy);
}

/* A connection that goes and comes back costs a holder nothing but a warning. */
static void test_reconnect_while_held(void)
{
    struct broken b = open_behind_proxy();
    struct heard heard = HEARD_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = heard_fn;
    options.state_payload = &heard;
    zkl_lock *lock = contest_lock(b.session, "/blink", &options);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    int64_t token = zkl_lock_token(lock);
    proxy_cut(b.proxy);
    CU_ASSERT(heard_when(&heard, ZKL_STATE_JEOPARDY, SOON) > 0);
    int64_t end = now_ms() + SOON;
    while (zkl_lock_state(lock) != ZKL_STATE_HELD && look_again(end)) {
    }
    CU_ASSERT_EQUAL(zkl_lock_state(lock), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_lock_token(lock), token);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(heard_count(&heard, ZKL_STATE_LOST), 0);
    zkl_lock_free(lock);
    close_one(b.session);
    proxy_stop(b.proxy);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        T(test_order),
        T(test_exclusion),
        T(test_token_outlives_directory),
        T(test_try),
        T(test_timeout),
        T(test_cancel),
        T(test_free_while_waiting),
        T(test_metadata),
        T(test_directories),
        T(test_removed_while_held),
        T(test_removed_while_waiting),
        T(test_removed_while_waiting_fails_by_option),
        T(test_no_server),
        T(test_chroot),
        T(test_session_timeout_too_short),
        T(test_no_permission),
        T(test_credentials),
        T(test_bad_arguments),
        T(test_conflict),
        T(test_expiry_while_held),
        T(test_expiry_while_waiting),
        T(test_reconnect_while_held),
    };
    if (!ensemble_available()) {
        return 77;
    }
    server = ensemble_start(&(struct ensemble_options){.tick_ms = TICK});
    if (!server) {
        return 1;
    }
    eye = queue_eye(ensemble_servers(server));
    int failed = check_main("lock on a real server", cases, (int)(sizeof cases / sizeof *cases), argc, argv);
    recorder_free(eye);
    ensemble_stop(server);
    return failed;
}
