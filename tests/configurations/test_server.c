/* Configurations of one server. Each test starts its own. */
#include "workout.h"

#define TICK 500
#define TIMEOUT 4000

static void work_out(const struct ensemble *e)
{
    workout(&(struct field){{ensemble_servers(e)}, 1, TIMEOUT, TICK, 0}, "/workout");
}

static bool doctor_is_content(const struct ensemble *e)
{
    char line[512];
    snprintf(line, sizeof line, "'%s' -q -s %s --tick 500ms --session-timeout 4s doctor >/dev/null 2>&1",
             ZKLOCK_COMMAND, ensemble_servers(e));
    return system(line) == 0;
}

/* Nothing is different. */
static const struct {
    const char *name, *what;
    struct ensemble_options options;
    const char *counter; /* that counts then; NULL: none does */
} usual[] = {
    {"`4lw.commands.whitelist=srvr` (the default)",
     "acquire, hand over; `doctor` is content",
     {.extra = "4lw.commands.whitelist=srvr\nmaxSessionTimeout=10000"},
     NULL},
    /* Who waits in the throttler for longer than a millisecond is told so, and asks again. */
    {"`request_throttle_max_requests=1`, `throttled_op_wait_time=1`",
     "acquire, hand over: refused requests are sent again",
     {.extra = "request_throttle_max_requests=1\nrequest_throttle_stall_time=20\nthrottled_op_wait_time=1"},
     "throttled_ops"},
    {"`connection_throttle_tokens=2`",
     "acquire, hand over: sessions open later",
     {.extra = "connection_throttle_tokens=2\nconnection_throttle_fill_time=2000\nconnection_throttle_fill_count=2"},
     "connection_rejected"},
    {"IPv6 (`[::1]:2181`)", "acquire, hand over; `doctor` is content", {.ipv6 = true}, NULL},
    {"`skipACL=yes`", "acquire, hand over", {.extra = "skipACL=yes"}, NULL},
};

TEST(test_usual)
{
    EACH_ROW (i, usual) {
        struct ensemble *e = begin(&usual[i].options);
        work_out(e);
        CU_ASSERT(!usual[i].counter || counted(e, 0, usual[i].counter));
        CU_ASSERT(!strstr(usual[i].what, "doctor") || doctor_is_content(e));
        ensemble_stop(e);
        holds(usual[i].name, usual[i].what);
    }
}

/* The code of a session's opening. */
static int try_session(const struct ensemble *e)
{
    zkl_session_options options = contest_options(TIMEOUT, TICK);
    zkl_session *session;
    options.connect_timeout_ms = 3000;
    int code = zkl_session_open(&session, ensemble_servers(e), &options, NULL);
    if (code == ZKL_OK) {
        kit_close(session);
    }
    return code;
}

/* A session without credentials sends none. */
TEST(test_enforced_authentication)
{
    struct ensemble *e =
        begin(&(struct ensemble_options){.extra = "enforce.auth.enabled=true\nenforce.auth.schemes=digest"});
    CU_ASSERT_EQUAL(try_session(e), ZKL_EAUTH);
    zkl_session_options options = contest_options(TIMEOUT, TICK);
    zkl_session *session;
    options.auth_scheme = "digest";
    options.auth = "ann:secret";
    options.auth_size = strlen(options.auth);
    ASSERT_OK_FATAL(zkl_session_open(&session, ensemble_servers(e), &options, NULL));
    contest_once(session, "/enforced");
    kit_close(session);
    ensemble_stop(e);
    holds("`enforce.auth.enabled=true`, `digest`",
          "with credentials acquire; without, `zkl_session_open` returns `ZKL_EAUTH`");
}

TEST(test_ticks)
{
    static const int ticks[] = {200, 6000};
    for (int i = 0; i < 2; i++) {
        struct ensemble *e = begin(&(struct ensemble_options){.tick_ms = ticks[i]});
        workout(&(struct field){{ensemble_servers(e)}, 1, 4 * ticks[i] + 1000, ticks[i], 0}, "/workout");
        ensemble_stop(e);
    }
    holds("`tickTime` 200 and 6000", "acquire, hand over");
}

/* What is held is renewed in time, whatever the servers make of the timeout that was asked for. */
static void hold_on(const struct ensemble *e, int64_t asked_ms, int64_t granted_ms)
{
    zkl_session *session = contest_session(ensemble_servers(e), asked_ms, TICK);
    CU_ASSERT_EQUAL(zkl_session_timeout_ms(session), granted_ms);
    zkl_lock *lock = contest_holder(session, "/held");
    CU_ASSERT_FALSE(WITHIN(granted_ms + TICK, !zkl_lock_is_held(lock)));
    kit_release(lock);
    zkl_lock_free(lock);
    kit_close(session);
}

TEST(test_clamped_timeouts)
{
    struct ensemble *e = begin(&(struct ensemble_options){.extra = "minSessionTimeout=5000\nmaxSessionTimeout=7000"});
    hold_on(e, 2000, 5000);
    hold_on(e, 60000, 7000);
    work_out(e);
    ensemble_stop(e);
    holds("`minSessionTimeout`, `maxSessionTimeout` that clamp", "the granted timeout counts; held beyond one timeout");
}

TEST(test_connection_limit)
{
    struct ensemble *e = begin(&(struct ensemble_options){.extra = "maxClientCnxns=2"});
    struct queue_of queue;
    queue_up(&queue, &(struct field){{ensemble_servers(e)}, 1, TIMEOUT, TICK, 0}, "/limited", 2);
    CU_ASSERT_EQUAL(try_session(e), ZKL_ECONNECT);
    queue_drain(&queue);
    ASSERT_EVENTUALLY(try_session(e) == ZKL_OK);
    ensemble_stop(e);
    holds("`maxClientCnxns=2`",
          "two sessions hand over; the third ends with `ZKL_ECONNECT`, and opens when one is closed");
}

static void make(struct recorder *eye, const char *path, const char *text)
{
    CU_ASSERT_EQUAL(recorder_rc(eye, op_create(path, text, ZKL__PERSISTENT)), ZKL__RC_OK);
}

/* The directory and two contenders. */
TEST(test_quota)
{
    struct ensemble *e = begin(&(struct ensemble_options){.extra = "enforceQuota=true"});
    struct recorder *eye = queue_eye(ensemble_servers(e));
    zkl_error err;
    make(eye, "/narrow", NULL);
    make(eye, "/zookeeper/quota/narrow", NULL);
    make(eye, "/zookeeper/quota/narrow/zookeeper_stats", "count=1,bytes=0");
    make(eye, "/zookeeper/quota/narrow/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3");
    struct queue_of queue;
    queue_up(&queue, &(struct field){{ensemble_servers(e)}, 1, TIMEOUT, TICK, 0}, "/narrow", 2);
    zkl_session *session = contest_session(ensemble_servers(e), TIMEOUT, TICK);
    zkl_lock *lock = contest_lock(session, "/narrow", NULL);
    int code = zkl_lock_acquire(lock, SOON, NULL, &err);
    printf("quota: %s: %s\n", zkl_error_name(code), err.text);
    CU_ASSERT(code != ZKL_OK && code != ZKL_ETIMEOUT);
    queue_drain(&queue);
    CU_ASSERT(queue_becomes(eye, "/narrow", 0));
    ASSERT_OK(zkl_lock_acquire(lock, SOON, NULL, &err));
    zkl_lock_free(lock);
    kit_close(session);
    recorder_free(eye);
    ensemble_stop(e);
    holds("`enforceQuota=true`", "who exceeds the quota is refused; the others hand over; later it is granted");
}

/* Directories go away between any two acquires. */
TEST(test_containers_reaped)
{
    struct ensemble *e = begin(&(struct ensemble_options){.java = "-Dznode.container.checkIntervalMs=20"});
    struct recorder *eye = queue_eye(ensemble_servers(e));
    zkl_session *session = contest_session(ensemble_servers(e), TIMEOUT, TICK);
    zkl_lock *lock = contest_lock(session, "/reaped/lock", NULL);
    for (int i = 0; i < 5; i++) {
        ASSERT_OK(zkl_lock_acquire(lock, SOON, NULL, NULL));
        kit_release(lock);
        ASSERT_EVENTUALLY(queue_look(eye, "/reaped")->rc == ZKL__RC_NONODE);
    }
    zkl_lock_free(lock);
    kit_close(session);
    work_out(e);
    recorder_free(eye);
    ensemble_stop(e);
    holds("containers reaped every 20 ms", "acquire, hand over: directories are made again");
}

/* The znodes of both, the queue and the chroot, in one transaction: nobody queues again in between. */
static void delete_chroot(struct recorder *eye, const struct queue_of *q)
{
    char paths[2][600];
    struct zkl__op parts[4];
    for (int i = 0; i < 2; i++) {
        char name[512];
        CU_ASSERT(zkl_lock_node(q->locks[i], name, sizeof name) > 0);
        snprintf(paths[i], sizeof paths[i], "/inner/lock/%s", name);
        parts[i] = op_delete(paths[i], -1);
    }
    parts[2] = op_delete("/inner/lock", -1);
    parts[3] = op_delete("/inner", -1);
    CU_ASSERT_EQUAL(recorder_rc(eye, op_multi(parts, 4)), ZKL__RC_OK);
}

/* The holder is told, the waiter ends with a name, nobody hangs, and later all goes on. */
TEST(test_chroot_deleted)
{
    struct ensemble *e = begin(NULL);
    struct recorder *eye = queue_eye(ensemble_servers(e));
    char servers[128];
    make(eye, "/inner", NULL);
    snprintf(servers, sizeof servers, "%s/inner", ensemble_servers(e));
    struct queue_of q;
    queue_up(&q, &(struct field){{servers}, 1, TIMEOUT, TICK, 0}, "/lock", 2);
    delete_chroot(eye, &q);
    ASSERT_EVENTUALLY(!zkl_lock_is_held(q.locks[0]));
    CU_ASSERT_EQUAL(waiter_end(&q.waiters[1]), ZKL_ENOENT);
    CU_ASSERT_EQUAL(zkl_lock_release(q.locks[0], NULL), ZKL_ELOST);
    make(eye, "/inner", NULL);
    ASSERT_OK(zkl_lock_acquire(q.locks[0], SOON, NULL, NULL));
    waiter_queue(&q.waiters[1], q.locks[1], ZKL_WAIT_FOREVER);
    queue_drain(&q);
    recorder_free(eye);
    ensemble_stop(e);
    holds("a chroot deleted while in use",
          "the holder is notified; waiters end with `ZKL_ENOENT`; all goes on when it is there again");
}

int main(int argc, char **argv)
{
    if (!ensemble_available()) {
        return 77;
    }
    return check_main("configurations of one server", argc, argv);
}
