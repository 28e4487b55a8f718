/* Sessions: options, the changes of their state, what they cost, what their log says, and those that are open at once. */
#include "lock_kit.h"
#include "thread.h"
#include "test_heap.h"

#include <dirent.h>
#include <unistd.h>

#define QUEUE "/locks/session"
#define SOON 30000           /* ms: nothing here takes that long, on any machine */
#define NOBODY "127.0.0.1:1" /* nobody listens there */

/* --- open ---------------------------------------------------------------------------------------------------------- */

static void expect_refusal(const char *servers, const zkl_session_options *options, int code, const char *word)
{
    zkl_session *session = (zkl_session *)&code;
    zkl_error err = {0};
    int got = zkl_session_open(&session, servers, options, &err);
    CU_ASSERT_EQUAL(got, code);
    CU_ASSERT_EQUAL(err.code, code);
    ASSERT_SAYS(err, word);
    if (got != code || !strstr(err.text, word)) {
        fprintf(stderr, "\n%s: %s: \"%s\", no \"%s\" in it\n", servers, zkl_error_name(got), err.text, word);
    }
    CU_ASSERT_PTR_NULL(session);
}

/* 0: what ZKL_SESSION_OPTIONS_INIT says. */
static const struct {
    zkl_session_options options;
    const char *text;
} bad_options[] = {
    {{.size = 4}, "options.size is 4"},
    {{.session_timeout_ms = 99}, "session_timeout_ms is 99; 100 to 86400000 is possible"},
    {{.tick_ms = -1}, "tick_ms is -1; 1 to 86400000 is possible"},
    {{.tick_ms = 86400001}, "tick_ms is 86400001"},
    {{.leader_pause_ms = -1}, "leader_pause_ms is -1; 0 to"},
    {{.connect_timeout_ms = -1}, "connect_timeout_ms is -1; 1 to"},
    {{.log_level = (zkl_log_level)9}, "log_level is 9; 1 to 4 is possible"},
    {{.callbacks = (zkl_callbacks)5}, "callbacks is 5"},
    {{.auth_scheme = "digest"}, "without auth"},
    {{.auth = "x"}, "auth_scheme"},
    {{.auth_scheme = "", .auth = "x"}, "auth_scheme"},
    {{.auth_scheme = "digest", .auth = "x"}, "auth_size is 0"},
    {{.acl = &(const zkl_acl){0, NULL}}, "acl"},
    {{.heap = &(const zkl_heap){0}}, "heap"},
};

TEST(test_bad_options)
{
    const zkl_session_options good = ZKL_SESSION_OPTIONS_INIT;
    expect_refusal("", NULL, ZKL_EINVAL, "servers");
    expect_refusal("host:port", NULL, ZKL_EINVAL, "port");
    for (size_t i = 0; i < sizeof bad_options / sizeof *bad_options; i++) {
        zkl_session_options bad = bad_options[i].options;
        bad.size = bad.size ? bad.size : good.size;
        bad.session_timeout_ms = bad.session_timeout_ms ? bad.session_timeout_ms : good.session_timeout_ms;
        bad.tick_ms = bad.tick_ms ? bad.tick_ms : good.tick_ms;
        bad.connect_timeout_ms = bad.connect_timeout_ms ? bad.connect_timeout_ms : good.connect_timeout_ms;
        bad.log_level = bad.log_level ? bad.log_level : good.log_level;
        expect_refusal(PLACE, &bad, ZKL_EINVAL, bad_options[i].text);
    }
}

TEST(test_a_session_timeout_too_short_for_a_lease)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session = NULL;
    zkl_error err = {0};
    options.session_timeout_ms = 2000;
    expect_refusal(PLACE, &options, ZKL_EINVAL, "session timeout of 2000 ms");
    expect_refusal(PLACE, &options, ZKL_EINVAL, "tick_ms 2000");
    expect_refusal(PLACE, &options, ZKL_EINVAL, "leader_pause_ms 500");
    CU_ASSERT_EQUAL(zkl_session_open(&session, PLACE, &options, &err), ZKL_EINVAL);
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
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.connect_timeout_ms = 200;
    int64_t from = now_ms();
    expect_refusal("127.0.0.1:1", &options, ZKL_ECONNECT, "127.0.0.1:1");
    expect_refusal("127.0.0.1:1", &options, ZKL_ECONNECT, "200 ms");
    CU_ASSERT(now_ms() - from >= 400 && now_ms() - from < SOON);
}

TEST(test_credentials_refused)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.auth_scheme = "nosuch";
    options.auth = "secret";
    options.auth_size = 6;
    for (int i = 0; i < 20; i++) { /* refused right behind the connect: at any moment of the open */
        expect_refusal(PLACE, &options, ZKL_EAUTH, "nosuch");
    }
}

/* --- states -------------------------------------------------------------------------------------------------------- */

TEST(test_states)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.state_fn = on_session_state;
    options.state_payload = &box;
    zkl_session *session = kit_open(&options);
    int64_t id = zkl_session_id(session);
    ASSERT_OK(zkl__memory_suspend(id));
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(zkl_session_state(session), ZKL_SESSION_SUSPENDED);
    CU_ASSERT_EQUAL(zkl_session_id(session), id);
    ASSERT_OK(zkl__memory_resume(id));
    CU_ASSERT(mailbox_wait(&box, 2));
    ASSERT_OK(zkl__memory_expire(id));
    ASSERT_EVENTUALLY(mailbox_count(&box) >= 4 && zkl_session_state(session) == ZKL_SESSION_CONNECTED);
    CU_ASSERT(zkl_session_id(session) != 0 && zkl_session_id(session) != id);
    kit_close(session);
    static const zkl_connection_state expected[] = {ZKL_SESSION_SUSPENDED, ZKL_SESSION_CONNECTED, ZKL_SESSION_SUSPENDED,
                                                    ZKL_SESSION_LOST,      ZKL_SESSION_CONNECTED, ZKL_SESSION_CLOSED};
    CU_ASSERT_EQUAL_FATAL(box.count, 6);
    for (size_t i = 0; i < 6; i++) {
        CU_ASSERT_EQUAL(box.letters[i].code, (int)expected[i]);
        CU_ASSERT_PTR_EQUAL(box.letters[i].from, session);
    }
}

static void suspend_and_resume(zkl_session *session, int times)
{
    int64_t id = zkl_session_id(session);
    for (int i = 0; i < times; i++) {
        ASSERT_OK(zkl__memory_suspend(id));
        ASSERT_EVENTUALLY(zkl_session_state(session) == ZKL_SESSION_SUSPENDED);
        ASSERT_OK(zkl__memory_resume(id));
        ASSERT_EVENTUALLY(zkl_session_state(session) == ZKL_SESSION_CONNECTED);
    }
}

static void expire(zkl_session *session)
{
    int64_t id = zkl_session_id(session);
    ASSERT_OK(zkl__memory_expire(id));
    ASSERT_EVENTUALLY(zkl_session_id(session) != id && zkl_session_state(session) == ZKL_SESSION_CONNECTED);
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
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.state_fn = on_session_state;
    options.state_payload = &box;
    options.callbacks = ZKL_CALLBACKS_DISPATCH;
    zkl_session *session = kit_open(&options);
    suspend_and_resume(session, 10);
    expire(session);
    suspend_and_resume(session, 10);
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

/* --- what it costs ------------------------------------------------------------------------------------------------- */

static int count_entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir)) {
        count++;
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}

static void use(zkl_session *session, struct mailbox *box)
{
    zkl_lock *lock = kit_lock(session, QUEUE, NULL);
    ASSERT_OK(zkl_lock_acquire_async(lock, SOON, on_acquired, box, NULL));
    CU_ASSERT(mailbox_wait(box, 1));
    kit_release(lock);
    kit_free(lock);
}

TEST(test_nothing_is_left_after_close)
{
    struct test_heap counter = TEST_HEAP_INIT;
    zkl_heap heap = test_heap(&counter);
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.heap = &heap;
    int files = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    for (int i = 0; i < 2; i++) {
        struct mailbox box = MAILBOX_INIT;
        options.callbacks = i ? ZKL_CALLBACKS_DISPATCH : ZKL_CALLBACKS_THREAD;
        zkl_session *session = kit_open(&options);
        if (i) {
            zkl_lock *lock = kit_lock(session, QUEUE, NULL);
            ASSERT_OK(zkl_lock_acquire_async(lock, 1000, on_acquired, &box, NULL));
            kit_close(session);
            kit_free(lock);
        } else {
            use(session, &box);
            kit_close(session);
        }
        CU_ASSERT_EQUAL(box.count, 1);
        CU_ASSERT_EQUAL(test_heap_live(&counter), 0);
        CU_ASSERT_EQUAL(count_entries("/proc/self/fd"), files);
        ASSERT_EVENTUALLY(count_entries("/proc/self/task") == threads); /* joined, and soon off the list */
    }
}

static bool takes_no_signals(const char *task)
{
    char path[300], line[256];
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "SigBlk: %llx", &blocked);
    }
    if (file) {
        fclose(file);
    }
    /* HUP INT USR1 USR2... TERM: whatever a program may handle; not SEGV, BUS, FPE, ILL: a thread's own faults */
    return (blocked & 0x4a03) == 0x4a03 && (blocked & 0x4c8) == 0;
}

TEST(test_our_threads_take_no_signals)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    struct mailbox box = MAILBOX_INIT;
    char before[64][16];
    int known = 0, ours = 0;
    DIR *dir = opendir("/proc/self/task"); /* a sanitizer may have threads of its own */
    for (struct dirent *entry; dir && (entry = readdir(dir)) && known < 64;) {
        snprintf(before[known++], sizeof *before, "%.15s", entry->d_name);
    }
    closedir(dir);
    options.state_fn = on_session_state;
    options.state_payload = &box;
    zkl_session *session = kit_open(&options);
    dir = opendir("/proc/self/task");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        bool old = false;
        for (int i = 0; i < known; i++) {
            old = old || strcmp(before[i], entry->d_name) == 0;
        }
        if (!old) {
            ours++;
            ASSERT_EVENTUALLY(takes_no_signals(entry->d_name)); /* at first a new thread blocks all */
        }
    }
    closedir(dir);
    CU_ASSERT_EQUAL(ours, zkl__threadless ? 0 : 3); /* the store's, the alarms', the callbacks' */
    kit_close(session);
}

/* --- log ----------------------------------------------------------------------------------------------------------- */

struct log {
    pthread_mutex_t mutex;
    int lines, bad, deep, of_the_session, of_the_lock;
};

static void on_log(const zkl_log_record *record, void *payload)
{
    struct log *log = payload;
    pthread_mutex_lock(&log->mutex);
    log->lines++;
    log->deep += record->level == ZKL_LOG_DEBUG;
    log->of_the_session += strcmp(record->source, "session") == 0 && !record->path && record->contender == 0;
    log->of_the_lock += strcmp(record->source, "contender") == 0 && record->contender > 0;
    for (const char *c = record->line; *c; c++) {
        log->bad += (unsigned char)*c < 0x20 || *c == 0x7f;
    }
    log->bad += record->path && strncmp(record->line, record->path, strlen(record->path)) != 0;
    log->bad += strcmp(record->line + strlen(record->line) - strlen(record->text), record->text) != 0;
    pthread_mutex_unlock(&log->mutex);
}

TEST(test_log)
{
    struct log log = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct mailbox box = MAILBOX_INIT;
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.log_fn = on_log;
    options.log_payload = &log;
    zkl_session *session = kit_open(&options);
    use(session, &box);
    kit_close(session);
    CU_ASSERT(log.lines >= 2);
    CU_ASSERT_EQUAL(log.deep, 0);
    options.log_level = ZKL_LOG_DEBUG;
    box.count = 0;
    session = kit_open(&options);
    use(session, &box);
    kit_close(session);
    CU_ASSERT(log.deep > 5);
    CU_ASSERT(log.of_the_session >= 2);
    CU_ASSERT(log.of_the_lock > 3);
    CU_ASSERT_EQUAL(log.bad, 0);
}

struct alarms {
    pthread_mutex_t mutex;
    int jeopardy, held, lost, others;
};

static void on_alarm(const zkl_log_record *record, void *payload)
{
    struct alarms *alarms = payload;
    bool ours = strcmp(record->source, "lock") == 0 && record->path && strcmp(record->path, "/locks/logged") == 0;
    pthread_mutex_lock(&alarms->mutex);
    alarms->jeopardy += ours && record->level == ZKL_LOG_WARN && strncmp(record->text, "in jeopardy: ", 13) == 0;
    alarms->held += ours && record->level == ZKL_LOG_INFO && strncmp(record->text, "held: ", 6) == 0;
    alarms->lost += ours && record->level == ZKL_LOG_ERROR && strncmp(record->text, "lost: ", 6) == 0 &&
                    strncmp(record->line, "/locks/logged: lost: ", 21) == 0;
    alarms->others += !ours && record->level == ZKL_LOG_ERROR;
    pthread_mutex_unlock(&alarms->mutex);
}

static int alarms_of(struct alarms *alarms, const int *count)
{
    pthread_mutex_lock(&alarms->mutex);
    int value = *count;
    pthread_mutex_unlock(&alarms->mutex);
    return value;
}

/* What its holder has to know is in the log without any callback of the lock's. */
TEST(test_log_of_a_loss)
{
    struct alarms alarms = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.log_fn = on_alarm;
    options.log_payload = &alarms;
    zkl_session *session = kit_open(&options);
    zkl_lock *lock = kit_hold(session, "/locks/logged", NULL);
    kit_suspend(session);
    ASSERT_EVENTUALLY(alarms_of(&alarms, &alarms.jeopardy) == 1);
    kit_resume(session);
    ASSERT_EVENTUALLY(alarms_of(&alarms, &alarms.held) == 1);
    kit_expire(session);
    ASSERT_EVENTUALLY(alarms_of(&alarms, &alarms.lost) == 1);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    kit_free(lock);
    kit_close(session);
    CU_ASSERT_EQUAL(alarms.others, 0);
}

/* --- open without waiting ------------------------------------------------------------------------------------------------ */

TEST(test_used_at_once)
{
    zkl_session_options options = kit_short();
    struct mailbox opened = MAILBOX_INIT, acquired = MAILBOX_INIT, states = MAILBOX_INIT;
    options.state_fn = on_session_state;
    options.state_payload = &states;
    ASSERT_OK_FATAL(zkl_session_open_async(&one, PLACE, &options, on_ended, &opened, NULL));
    zkl_lock *lock = kit_lock(one, "/locks/early", NULL);
    ASSERT_OK(zkl_lock_acquire_async(lock, 10000, on_acquired, &acquired, NULL));
    CU_ASSERT_TRUE(mailbox_wait(&opened, 1) && mailbox_wait(&acquired, 1) && mailbox_wait(&states, 1));
    ASSERT_OK(mailbox_last(&opened));
    ASSERT_OK(mailbox_last(&acquired));
    CU_ASSERT_EQUAL(states.letters[0].code, ZKL_SESSION_CONNECTED);
    CU_ASSERT_TRUE(zkl_lock_is_held(lock));
    kit_free(lock);
    kit_close(one);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 1);
}

/* However early the store's thread is: it may be before the call has taken the session's mutex again. */
TEST(test_connected_is_reported)
{
    enum { TIMES = 400 };
    for (int i = 0; i < TIMES; i++) {
        zkl_session_options options = kit_short();
        struct mailbox opened = MAILBOX_INIT, states = MAILBOX_INIT;
        options.state_fn = on_session_state;
        options.state_payload = &states;
        ASSERT_OK_FATAL(zkl_session_open_async(&one, PLACE, &options, on_ended, &opened, NULL));
        CU_ASSERT_TRUE(mailbox_wait(&opened, 1));
        kit_close(one);
        CU_ASSERT_EQUAL_FATAL(mailbox_count(&states), 2);
        CU_ASSERT_EQUAL(states.letters[0].code, ZKL_SESSION_CONNECTED);
        CU_ASSERT_EQUAL(states.letters[1].code, ZKL_SESSION_CLOSED);
    }
}

TEST(test_without_a_server)
{
    zkl_session_options options = kit_dispatched();
    struct mailbox opened = MAILBOX_INIT, acquired = MAILBOX_INIT;
    zkl_queue *queue;
    ASSERT_OK_FATAL(zkl_session_open_async(&one, NOBODY, &options, on_ended, &opened, NULL));
    CU_ASSERT_EQUAL(zkl_session_state(one), ZKL_SESSION_SUSPENDED);
    zkl_lock *lock = kit_lock(one, "/locks/early", NULL);
    ASSERT_OK(zkl_lock_acquire_async(lock, 50, on_acquired, &acquired, NULL));
    CU_ASSERT_EQUAL(zkl_queue_list(&queue, one, "/locks/early", 50, NULL), ZKL_ETIMEOUT);
    ASSERT_EVENTUALLY(zkl_session_dispatch(one) >= 0 && mailbox_count(&acquired) == 1);
    CU_ASSERT_EQUAL(mailbox_last(&acquired), ZKL_ETIMEOUT);
    kit_free(lock);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 0);
    zkl_session_close(one, 1000);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 1);
    CU_ASSERT_EQUAL(mailbox_last(&opened), ZKL_ECLOSED);
}

TEST(test_stopped)
{
    zkl_session_options options = kit_short();
    struct mailbox opened = MAILBOX_INIT;
    zkl_stop stop = ZKL_STOP_INIT;
    zkl_error err;
    options.stop = &stop;
    ASSERT_OK_FATAL(zkl_session_open_async(&one, NOBODY, &options, on_ended, &opened, NULL));
    zkl_lock *lock = kit_lock(one, "/locks/early", NULL);
    zkl_stop_raise(&stop);
    CU_ASSERT_EQUAL(mailbox_code(&opened, 1), ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_ECLOSED);
    kit_free(lock);
    zkl_session_close(one, 1000);
    CU_ASSERT_EQUAL(zkl_session_open_async(&one, NOBODY, &options, on_ended, &opened, &err), ZKL_ECANCELED);
    CU_ASSERT_PTR_NULL(one);
    CU_ASSERT_EQUAL(mailbox_count(&opened), 1);
}

/* Connected, and no lease fits the session's timeout: what was made meanwhile ends. */
TEST(test_refused_for_good)
{
    zkl_session_options options = kit_short();
    struct mailbox opened = MAILBOX_INIT, acquired = MAILBOX_INIT, states = MAILBOX_INIT;
    zkl_session *blocking;
    zkl_error err;
    options.session_timeout_ms = 2000;
    options.tick_ms = 2000;
    options.leader_pause_ms = 500;
    options.state_fn = on_session_state;
    options.state_payload = &states;
    int code = zkl_session_open(&blocking, PLACE, &options, &err);
    CU_ASSERT_EQUAL(code, ZKL_EINVAL);
    ASSERT_OK_FATAL(zkl_session_open_async(&one, PLACE, &options, on_ended, &opened, NULL));
    zkl_lock *lock;
    if (zkl_lock_new(&lock, one, "/locks/early", NULL, NULL) == ZKL_OK) { /* else it is closed already */
        if (zkl_lock_acquire_async(lock, 10000, on_acquired, &acquired, NULL) == ZKL_OK) {
            CU_ASSERT_EQUAL(mailbox_code(&acquired, 1), ZKL_ECLOSED);
        }
        kit_free(lock);
    }
    CU_ASSERT_EQUAL(mailbox_code(&opened, 1), code);
    CU_ASSERT_STRING_EQUAL(opened.letters[0].text, err.text);
    ASSERT_EVENTUALLY(mailbox_last(&states) == ZKL_SESSION_CLOSED);
    CU_ASSERT_EQUAL(zkl_session_state(one), ZKL_SESSION_CLOSED);
    zkl_session_close(one, 1000);
    CU_ASSERT_EQUAL(mailbox_last(&states), ZKL_SESSION_CLOSED);
}

/* --- the locks of a session --------------------------------------------------------------------------------------------- */

/* What was visited, by path. */
struct shown {
    const char *path;
    zkl_state state;
    int64_t token;
    int times;
};

struct visits {
    struct shown *shown;
    size_t count;
    int strangers;
};

static void visit(const char *path, zkl_state state, int64_t token, void *payload)
{
    struct visits *visits = payload;
    for (size_t i = 0; i < visits->count; i++) {
        if (strcmp(visits->shown[i].path, path) == 0) {
            visits->shown[i].state = state;
            visits->shown[i].token = token;
            visits->shown[i].times++;
            return;
        }
    }
    visits->strangers++;
}

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)observer, (void)leader, (void)payload;
}

TEST_WITH_SESSIONS(test_every_kind)
{
    static const char *const both[] = {"/m/a", "/m/b"};
    zkl_lock *lock = kit_lock(one, "/lock", NULL), *waiter = kit_lock(one, "/waits", NULL);
    zkl_lock *blocker = kit_lock(two, "/waits", NULL);
    struct acquire waiting;
    zkl_lock *rwlock;
    zkl_lock *multilock;
    zkl_lock *semaphore;
    zkl_lock *election, *idle;
    zkl_election_observer *observer;
    ASSERT_OK_FATAL(zkl_read_lock_new(&rwlock, one, "/rw", NULL, NULL));
    ASSERT_OK_FATAL(zkl_multilock_new(&multilock, one, both, 2, NULL, NULL));
    ASSERT_OK_FATAL(zkl_semaphore_new(&semaphore, one, "/s", 3, NULL, NULL));
    ASSERT_OK_FATAL(zkl_election_new(&election, one, "/e", NULL, NULL));
    ASSERT_OK_FATAL(zkl_election_new(&idle, one, "/idle", NULL, NULL));
    ASSERT_OK_FATAL(zkl_election_observe(&observer, one, "/e", on_leader, NULL, NULL));
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &(struct visits){.count = 0}), 0);

    kit_acquire(lock);
    kit_acquire(blocker);
    acquire_start(&waiting, waiter, ZKL_WAIT_FOREVER);
    kit_acquire(rwlock);
    kit_acquire(multilock);
    ASSERT_OK(zkl_semaphore_acquire(semaphore, 2, 5000, NULL, NULL));
    kit_acquire(election);
    ASSERT_EVENTUALLY(zkl_lock_state(waiter) == ZKL_STATE_WAITING);

    struct shown shown[] = {{.path = "/lock"}, {.path = "/rw"}, {.path = "/m/a"},  {.path = "/m/b"},
                            {.path = "/s"},    {.path = "/e"},  {.path = "/waits"}};
    struct visits visits = {shown, sizeof shown / sizeof *shown, 0};
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &visits), 7);
    CU_ASSERT_EQUAL(visits.strangers, 0);
    const int64_t tokens[] = {zkl_lock_token(lock),      zkl_lock_token(rwlock),    zkl_lock_token(multilock),
                              zkl_lock_token(multilock), zkl_lock_token(semaphore), zkl_lock_token(election)};
    for (size_t i = 0; i < visits.count; i++) {
        bool held = i < sizeof tokens / sizeof *tokens;
        CU_ASSERT_EQUAL(shown[i].times, 1);
        CU_ASSERT_EQUAL(shown[i].state, held ? ZKL_STATE_HELD : ZKL_STATE_WAITING);
        CU_ASSERT_EQUAL(shown[i].token, held ? tokens[i] : 0);
    }

    zkl_lock_cancel(waiter);
    CU_ASSERT_EQUAL(acquire_join(&waiting), ZKL_ECANCELED);
    zkl_election_observer_free(observer);
    kit_free(election);
    kit_free(idle);
    kit_free(semaphore);
    kit_free(multilock);
    kit_free(rwlock);
    kit_free(lock);
    kit_free(waiter);
    CU_ASSERT_EQUAL(zkl_session_locks(one, visit, &visits), 0);
}

TESTS("session")
