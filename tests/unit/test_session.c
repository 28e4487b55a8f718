/* Sessions: options, the changes of their state, their threads, what their log says, and those that are open at once. */
#include "lock_kit.h"
#include "thread.h"

#include <dirent.h>

#define QUEUE "/locks/session"
#define SOON 30000           /* ms: nothing here takes that long, on any machine */
#define NOBODY "127.0.0.1:1" /* nobody listens there */

/* --- open ---------------------------------------------------------------------------------------------------------- */

static void expect_refusal(const char *servers, const zkl_session_options *options, int code, const char *word)
{
    zkl_session *session = (zkl_session *)&code;
    zkl_error err = {0};
    CU_ASSERT_EQUAL(zkl_session_open(&session, servers, options, &err), code);
    CU_ASSERT_EQUAL(err.code, code);
    CU_ASSERT_PTR_NULL(session);
    if (!strstr(err.text, word)) {
        fprintf(stderr, "\n%s: \"%s\", no \"%s\" in it\n", servers, err.text, word);
        CU_FAIL("another text");
    }
}

static const struct {
    const zkl_session_options *options;
    const char *text;
} bad_options[] = {
    {SESSION_OPTIONS(.size = 4), "options.size is 4"},
    {SESSION_OPTIONS(.session_timeout_ms = 99), "session_timeout_ms is 99; 100 to 86400000 is possible"},
    {SESSION_OPTIONS(.tick_ms = 86400001), "tick_ms is 86400001; 1 to 86400000 is possible"},
    {SESSION_OPTIONS(.leader_pause_ms = INT64_MAX), "leader_pause_ms is 9223372036854775807; 0 to 86400000 is"},
    {SESSION_OPTIONS(.connect_timeout_ms = INT64_MIN), "connect_timeout_ms is -9223372036854775808; 1 to 86400000 is"},
    {SESSION_OPTIONS(.log_level = (zkl_log_level)9), "log_level is 9; 1 to 4 is possible"},
    {SESSION_OPTIONS(.callbacks = (zkl_callbacks)5), "callbacks is 5"},
    {SESSION_OPTIONS(.auth_scheme = "digest"), "without auth"},
    {SESSION_OPTIONS(.auth = "x"), "auth_scheme"},
    {SESSION_OPTIONS(.auth_scheme = "", .auth = "x"), "auth_scheme"},
    {SESSION_OPTIONS(.auth_scheme = "digest", .auth = "x"), "auth_size is 0"},
    {SESSION_OPTIONS(.acl = &(const zkl_acl){0, NULL}), "acl"},
    {SESSION_OPTIONS(.heap = &(const zkl_heap){0}), "heap"},
    {SESSION_OPTIONS(.tls = "ca.pem", .sasl = &(const zkl_sasl){.mechanisms = "GSSAPI", .host = "zoo"}),
     "tls and sasl"},
    {SESSION_OPTIONS(.tls = ""), "\"ca.pem[,cert.pem,key.pem]\""},
    {SESSION_OPTIONS(.tls = ",cert.pem,key.pem"), "\"ca.pem[,cert.pem,key.pem]\""},
    {SESSION_OPTIONS(.tls = "ca.pem,cert.pem,,password"), "\"ca.pem[,cert.pem,key.pem]\""},
    {SESSION_OPTIONS(.sasl = &(const zkl_sasl){.host = "zoo"}), "its mechanisms or its host"},
    {SESSION_OPTIONS(.sasl = &(const zkl_sasl){.mechanisms = "GSSAPI"}), "its mechanisms or its host"},
};

TEST(test_bad_options)
{
    expect_refusal("", NULL, ZKL_EINVAL, "servers");
    expect_refusal("host:port", NULL, ZKL_EINVAL, "port");
    EACH_ROW (i, bad_options) {
        expect_refusal(PLACE, bad_options[i].options, ZKL_EINVAL, bad_options[i].text);
    }
}

TEST(test_a_session_timeout_too_short_for_a_lease)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session = NULL;
    zkl_error err;
    options.session_timeout_ms = 2000;
    CU_ASSERT_EQUAL(zkl_session_open(&session, PLACE, &options, &err), ZKL_EINVAL);
    ASSERT_SAYS(err, "session timeout of 2000 ms");
    ASSERT_SAYS(err, "tick_ms 2000");
    ASSERT_SAYS(err, "leader_pause_ms 500");
    const char *enough = strstr(err.text, "; ");
    CU_ASSERT_PTR_NOT_NULL_FATAL(enough);
    options.session_timeout_ms = atoll(enough + 2); /* what the message proposes is enough */
    CU_ASSERT(options.session_timeout_ms > 2000 && options.session_timeout_ms < 10000);
    session = kit_open(&options);
    CU_ASSERT(zkl_session_least_lease_ms(session) >= options.session_timeout_ms / 10);
    kit_close(session);
}

TEST(test_nobody_answers)
{
    const zkl_session_options *options = SESSION_OPTIONS(.connect_timeout_ms = 200);
    int64_t from = now_ms();
    expect_refusal(NOBODY, options, ZKL_ECONNECT, NOBODY);
    expect_refusal(NOBODY, options, ZKL_ECONNECT, "200 ms");
    CU_ASSERT(now_ms() - from >= 400 && now_ms() - from < SOON);
}

TEST(test_credentials_refused)
{
    for (int i = 0; i < 20; i++) { /* refused right behind the connect: at any moment of the open */
        expect_refusal(PLACE, SESSION_OPTIONS(.auth_scheme = "nosuch", .auth = "secret", .auth_size = 6), ZKL_EAUTH,
                       "nosuch");
    }
}

/* --- states -------------------------------------------------------------------------------------------------------- */

static void expire(zkl_session *session)
{
    int64_t id = zkl_session_id(session);
    kit_expire(session);
    ASSERT_EVENTUALLY(zkl_session_id(session) != id && zkl_session_state(session) == ZKL_SESSION_CONNECTED);
    CU_ASSERT_NOT_EQUAL(zkl_session_id(session), 0);
}

static int losses(const struct mailbox *box)
{
    int count = 0;
    for (size_t i = 0; i < box->count; i++) {
        count += box->letters[i].code == ZKL_SESSION_LOST;
    }
    return count;
}

/* A state_fn that sleeps through many changes hears of those that matter: losses, and the last one. */
TEST(test_many_changes_for_a_slow_listener)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_session *session = kit_open(
        SESSION_OPTIONS(.state_fn = on_session_state, .state_payload = &box, .callbacks = ZKL_CALLBACKS_DISPATCH));
    for (int i = 0; i < 20; i++) {
        kit_suspend(session);
        kit_await_session(session, ZKL_SESSION_SUSPENDED);
        kit_resume(session);
        kit_await_session(session, ZKL_SESSION_CONNECTED);
        if (i == 10) {
            expire(session);
        }
    }
    CU_ASSERT_EQUAL(zkl_session_dispatch(session), 1);
    CU_ASSERT_EQUAL(box.count, 16);
    CU_ASSERT_EQUAL(losses(&box), 1);
    CU_ASSERT_EQUAL(box.letters[14].code, ZKL_SESSION_SUSPENDED);
    CU_ASSERT_EQUAL(box.letters[15].code, ZKL_SESSION_CONNECTED);
    mailbox_clear(&box);
    for (int i = 0; i < 20; i++) {
        expire(session);
    }
    CU_ASSERT_EQUAL(zkl_session_dispatch(session), 1);
    CU_ASSERT_EQUAL(box.count, 16);
    CU_ASSERT_EQUAL(losses(&box), 15);
    CU_ASSERT_EQUAL(box.letters[15].code, ZKL_SESSION_CONNECTED);
    kit_close(session);
}

/* --- threads ---------------------------------------------------------------------------------------------------------- */

/* Of that thread: whether it has the library's name, and whether it takes no signals. */
static bool is_ours(const char *task, bool *takes_none)
{
    char path[300], line[256], name[32] = "";
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "Name: %31s", name);
        sscanf(line, "SigBlk: %llx", &blocked);
    }
    if (file) {
        fclose(file);
    }
    /* HUP INT USR1 USR2... TERM: whatever a program may handle; not SEGV, BUS, FPE, ILL: a thread's own faults */
    *takes_none = (blocked & 0x4a03) == 0x4a03 && (blocked & 0x4c8) == 0;
    return strcmp(name, "zklock") == 0;
}

TEST(test_our_threads_take_no_signals)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_session *session = kit_open(SESSION_OPTIONS(.state_fn = on_session_state, .state_payload = &box));
    int ours = 0;
    DIR *dir = opendir("/proc/self/task"); /* a sanitizer may have threads of its own */
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        bool takes_none;
        if (is_ours(entry->d_name, &takes_none)) {
            ours++;
            /* at first a new thread blocks all */
            ASSERT_EVENTUALLY(is_ours(entry->d_name, &takes_none) && takes_none);
        }
    }
    closedir(dir);
    CU_ASSERT_EQUAL(ours, zkl__threadless ? 0 : 3); /* the store's, the alarms', the callbacks' */
    kit_close(session);
}

/* --- log ----------------------------------------------------------------------------------------------------------- */

static struct {
    atomic_int deep, bad;
} logged;

static void on_log(const zkl_log_record *record, void *payload)
{
    logged.deep += record->level == ZKL_LOG_DEBUG;
    for (const char *c = record->line; *c; c++) {
        logged.bad += (unsigned char)*c < 0x20 || *c == 0x7f;
    }
    logged.bad += record->path && strncmp(record->line, record->path, strlen(record->path)) != 0;
    logged.bad += strcmp(record->line + strlen(record->line) - strlen(record->text), record->text) != 0;
}

TEST(test_log)
{
    for (int deep = 0; deep < 2; deep++) {
        zkl_session *session =
            kit_open(SESSION_OPTIONS(.log_fn = on_log, .log_level = deep ? ZKL_LOG_DEBUG : ZKL_LOG_INFO));
        kit_release(kit_hold(session, QUEUE, NULL));
        kit_close(session);
        CU_ASSERT(deep ? logged.deep > 5 : logged.deep == 0);
    }
    CU_ASSERT_EQUAL(logged.bad, 0);
}

/* What it says of the lock goes to payload, as a letter. */
static void on_alarm(const zkl_log_record *record, void *payload)
{
    if (strcmp(record->source, "lock") == 0 && record->path && strcmp(record->path, QUEUE) == 0) {
        struct letter letter = {.code = (int)record->level};
        snprintf(letter.text, sizeof letter.text, "%s", record->line);
        mailbox_put(payload, letter);
    } else {
        CU_ASSERT_NOT_EQUAL(record->level, ZKL_LOG_ERROR);
    }
}

static void expect_alarm(struct mailbox *alarms, zkl_log_level level, const char *line)
{
    ASSERT_EVENTUALLY(mailbox_last(alarms) == (int)level);
    CU_ASSERT_EQUAL(strncmp(alarms->letters[mailbox_count(alarms) - 1].text, line, strlen(line)), 0);
}

/* What its holder has to know is in the log without any callback of the lock's. */
TEST(test_log_of_a_loss)
{
    struct mailbox alarms = MAILBOX_INIT;
    zkl_session *session = kit_open(SESSION_OPTIONS(.log_fn = on_alarm, .log_payload = &alarms));
    zkl_lock *lock = kit_hold(session, QUEUE, NULL);
    kit_suspend(session);
    expect_alarm(&alarms, ZKL_LOG_WARN, QUEUE ": in jeopardy: ");
    kit_resume(session);
    expect_alarm(&alarms, ZKL_LOG_INFO, QUEUE ": held: ");
    kit_expire(session);
    expect_alarm(&alarms, ZKL_LOG_ERROR, QUEUE ": lost: ");
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    kit_free(lock);
    kit_close(session);
}

/* --- open without waiting ------------------------------------------------------------------------------------------------ */

#define open_async(servers, options, box) \
    ASSERT_OK_FATAL(zkl_session_open_async(&one, servers, options, on_ended, box, NULL))

/* In session one, which is not open yet. */
static zkl_lock *acquire_early(int64_t timeout_ms, struct mailbox *box)
{
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    ASSERT_OK(zkl_lock_acquire_async(lock, timeout_ms, on_acquired, box, NULL));
    return lock;
}

TEST(test_used_at_once)
{
    struct mailbox opened = MAILBOX_INIT, acquired = MAILBOX_INIT;
    open_async(PLACE, NULL, &opened);
    zkl_lock *lock = acquire_early(10000, &acquired);
    ASSERT_OK(mailbox_code(&opened, 1));
    ASSERT_OK(mailbox_code(&acquired, 1));
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
    kit_free(lock);
    kit_close(one);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 1);
}

TEST(test_without_a_server)
{
    struct mailbox opened = MAILBOX_INIT, acquired = MAILBOX_INIT;
    zkl_queue *queue;
    open_async(NOBODY, SESSION_OPTIONS(.callbacks = ZKL_CALLBACKS_DISPATCH, .connect_timeout_ms = 1), &opened);
    CU_ASSERT_EQUAL(zkl_session_state(one), ZKL_SESSION_SUSPENDED);
    zkl_lock *lock = acquire_early(50, &acquired);
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, QUEUE, 50, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl_queue_revoke(one, QUEUE, "x-lock-0000000000", 50, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl_session_least_lease_ms(one), 0);
    ASSERT_EVENTUALLY(zkl_session_dispatch(one) >= 0 && mailbox_count(&acquired) == 1);
    CU_ASSERT_EQUAL(mailbox_last(&acquired), ZKL_ETIMEOUT);
    kit_free(lock);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 0);
    zkl_session_close(one, 1000);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 1);
    CU_ASSERT_EQUAL(mailbox_last(&opened), ZKL_ECLOSED);
    CU_ASSERT_PTR_NOT_NULL(strstr(opened.letters[0].text, "no response from " NOBODY));
    CU_ASSERT_PTR_NULL(strstr(opened.letters[0].text, "within 1 ms"));
}

TEST(test_stopped)
{
    struct mailbox opened = MAILBOX_INIT;
    zkl_stop stop = ZKL_STOP_INIT;
    const zkl_session_options *options = SESSION_OPTIONS(.stop = &stop);
    open_async(NOBODY, options, &opened);
    zkl_lock *lock = kit_lock(one, QUEUE, NULL);
    zkl_stop_raise(&stop);
    CU_ASSERT_EQUAL(mailbox_code(&opened, 1), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_ECLOSED);
    kit_free(lock);
    zkl_session_close(one, 1000);
    CU_ASSERT_EQUAL(zkl_session_open_async(&one, NOBODY, options, on_ended, &opened, NULL), ZKL_ECANCELED);
    CU_ASSERT_PTR_NULL(one);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 1);
}

/* Connected, and no lease fits the session's timeout: what was made meanwhile ends. */
TEST(test_refused_for_good)
{
    struct mailbox opened = MAILBOX_INIT, acquired = MAILBOX_INIT, states = MAILBOX_INIT;
    const zkl_session_options *options =
        SESSION_OPTIONS(.session_timeout_ms = 2000, .state_fn = on_session_state, .state_payload = &states);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_session_open(&one, PLACE, options, &err), ZKL_EINVAL);
    open_async(PLACE, options, &opened);
    zkl_lock *lock;
    if (zkl_lock_new(&lock, one, QUEUE, NULL, NULL) == ZKL_OK) { /* else it is closed already */
        if (zkl_lock_acquire_async(lock, 10000, on_acquired, &acquired, NULL) == ZKL_OK) {
            CU_ASSERT_EQUAL(mailbox_code(&acquired, 1), ZKL_ECLOSED);
        }
        kit_free(lock);
    }
    CU_ASSERT_EQUAL(mailbox_code(&opened, 1), ZKL_EINVAL);
    CU_ASSERT_STRING_EQUAL(opened.letters[0].text, err.text);
    ASSERT_EVENTUALLY(mailbox_last(&states) == ZKL_SESSION_CLOSED);
    CU_ASSERT_EQUAL(zkl_session_state(one), ZKL_SESSION_CLOSED);
    zkl_session_close(one, 1000);
    CU_ASSERT_EQUAL(mailbox_last(&states), ZKL_SESSION_CLOSED);
}

/* --- the locks of a session --------------------------------------------------------------------------------------------- */

enum { RECIPES = 6, WAITS = 7 };

static const char *const paths[] = {"/lock",    "/reader",   "/writer",      "/multi",
                                    "/permits", "/election", "/multi-other", "/waits"};
static int64_t tokens[WAITS + 1]; /* 0: it waits */
static int shown[WAITS + 1];      /* how often */

static void visit(const char *path, zkl_state state, int64_t token, void *payload)
{
    EACH_ROW (i, paths) {
        if (strcmp(path, paths[i]) == 0) {
            CU_ASSERT_EQUAL(state, i < WAITS ? ZKL_STATE_HELD : ZKL_STATE_WAITING);
            CU_ASSERT_EQUAL(token, tokens[i]);
            shown[i]++;
        }
    }
}

TEST_WITH_SESSIONS(test_every_kind)
{
    static struct mailbox ended = MAILBOX_INIT; /* outlives this function: the acquire ends with the session */
    zkl_lock *locks[WAITS + 1];
    zkl_election_observer *observer;
    for (int i = 0; i < RECIPES; i++) {
        locks[i] = kit_make((zkl_recipe)i, one, paths[i], NULL);
    }
    locks[RECIPES] = locks[ZKL_RECIPE_MULTILOCK]; /* its other path */
    locks[WAITS] = kit_lock(one, paths[WAITS], NULL);
    kit_make(ZKL_RECIPE_ELECTION, one, "/idle", NULL);
    ASSERT_OK_FATAL(zkl_election_observe(&observer, one, "/election", on_leader, &ended, NULL));
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, NULL), 0);

    for (int i = 0; i < RECIPES; i++) {
        kit_acquire(locks[i]);
    }
    kit_hold(two, paths[WAITS], NULL);
    kit_acquire_async(locks[WAITS], on_acquired, &ended);
    EACH_ROW (i, locks) {
        tokens[i] = zkl_lock_token(locks[i]);
    }
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, NULL), WAITS + 1);
    EACH_ROW (i, shown) {
        CU_ASSERT_EQUAL(shown[i], 1);
    }
    zkl_election_observer_free(observer);
}

TESTS("session")
