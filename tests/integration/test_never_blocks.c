/* One thread with one epoll loop: it opens a session, campaigns, publishes, commits, joins a group, lists, waits for
 * barriers and closes, and no call of the library keeps it: with a server, without one, and with one that is stopped. Built with libzklock_st as well (tests/st).
 *
 * What is measured of each call: the processor's time that its thread took, and for how long the thread slept, that is, neither ran nor stood
 * ready without a processor (the kernel counts that apart: /proc/thread-self/schedstat). A machine that is busy with other things adds to
 * neither. But open waits until the client library's threads run (wait_for_others in its mt_adaptor.c), and any call for a mutex that a
 * thread of the library has, and such a thread may be without a processor: so a control, before each call, starts a thread and waits for
 * its end, and what the worst control slept is no call's fault. */
#include <pthread.h>
#include <sys/epoll.h>

#include <zklock/zklock.h>
#include <zklock/zookeeper.h>

#include "on_servers.h"
#include "wait.h"

#define TICK 500
#define TIMEOUT 12000
#define PATIENCE_MS 300 /* of a call that nobody answers */
#define HOUR INT64_C(3600000)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_NS (40 * MS)
#else
#define LIMIT_NS (2 * MS)
#endif

/* --- measuring ------------------------------------------------------------------------------------------------------- */

struct times {
    int64_t wall, ran, ready; /* ns */
};

static int run_delay = -1;

static struct times now_is(void)
{
    return (struct times){
        .wall = clock_ns(CLOCK_MONOTONIC), .ran = clock_ns(CLOCK_THREAD_CPUTIME_ID), .ready = run_delay_ns(run_delay)};
}

/* The worst so far. */
struct cost {
    const char *name;
    int64_t ran, slept;
};

static void add(struct cost *cost, struct times from, struct times to)
{
    int64_t ran = to.ran - from.ran, slept = to.wall - from.wall - ran - (to.ready - from.ready);
    cost->ran = ran > cost->ran ? ran : cost->ran;
    cost->slept = slept > cost->slept ? slept : cost->slept;
}

static struct cost control = {.name = "(control)"};

static void *end_at_once(void *arg)
{
    return arg;
}

static void measure_control(void)
{
    pthread_t thread;
    struct times from = now_is();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, end_at_once, NULL), 0);
    pthread_join(thread, NULL);
    add(&control, from, now_is());
}

#define COSTS 64
static struct cost costs[COSTS];

static struct cost *cost_of(const char *name)
{
    struct cost *cost = costs;
    while (cost->name && strcmp(cost->name, name) != 0) {
        cost++;
    }
    CU_ASSERT_FATAL(cost < costs + COSTS - 1);
    cost->name = name;
    return cost;
}

#define TIMED(called, call)                    \
    do {                                       \
        measure_control();                     \
        struct times from_ = now_is();         \
        call;                                  \
        add(cost_of(called), from_, now_is()); \
    } while (0)

static bool is_kept(const struct cost *cost)
{
    int64_t limit = LIMIT_NS * check_setting("ZKLOCK_TEST_SLOWNESS", 1);
    return cost->ran > limit || cost->slept > limit + control.slept;
}

static void show(const struct cost *cost, const char *remark)
{
    printf("%-22s ran %7.3f ms, slept %7.3f ms at most%s\n", cost->name, (double)cost->ran / 1e6,
           (double)cost->slept / 1e6, remark);
}

/* True: each call was short. */
static bool judge(void)
{
    bool kept = false;
    for (const struct cost *cost = costs; cost->name; cost++) {
        show(cost, is_kept(cost) ? "  TOO LONG" : "");
        kept = kept || is_kept(cost);
    }
    show(&control, "");
    return !kept;
}

static void begin_measuring(void)
{
    memset(costs, 0, sizeof costs);
    control.ran = control.slept = 0;
    run_delay = run_delay_open();
}

static bool end_measuring(void)
{
    bool short_ones = judge();
    close(run_delay);
    return short_ones;
}

/* A call that waits does so each time; what the machine does to one that does not (a host that takes the processor away, which this kernel
 * counts as time that the thread ran) does not come three times in a row. */
static void measure(void (*scene)(void))
{
    bool short_ones = false;
    for (int i = 0; i < 3 && !short_ones; i++) {
        begin_measuring();
        scene();
        short_ones = end_measuring();
    }
    CU_ASSERT(short_ones);
}

/* --- the program ----------------------------------------------------------------------------------------------------- */

static struct {
    int tests;
    char path[32];        /* of a job, another one in each test */
    int64_t timeout_ms;   /* of the next calls */
    zkl_session *session; /* NULL once its last completion was called */
    int epoll;
    zkl_lock *held, *lock, *leader;
    zkl_double_barrier *both;
    zkl_group *group;
    zkl_members *members;
    zkl_once_slot slot;
    zkl_data *data;
    zkl_queue *queue;
    int64_t last, recorded;
} p;

static struct outcome {
    int code, count;
} outcomes[COSTS];
static int begun, ended;

static void on_done(int code, const zkl_error *err, void *payload)
{
    struct outcome *outcome = payload;
    outcome->code = code;
    outcome->count++;
    ended++;
}

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    on_done(code, err, payload);
}

static void on_closed(int code, const zkl_error *err, void *payload)
{
    on_done(code, err, payload);
    p.session = NULL;
}

/* Goes on with what there is; false when nothing came for a while. */
static bool turn(int64_t end)
{
    struct epoll_event event;
    int64_t left = end - now_ms();
    int ready = left > 0 ? epoll_wait(p.epoll, &event, 1, (int)left) : 0;
    if (ready > 0) {
        TIMED("dispatch", zkl_session_dispatch(p.session));
    }
    return left > 0;
}

static void pump(void)
{
    for (int64_t end = now_ms() + SOON; ended < begun && turn(end);) {
    }
    CU_ASSERT_EQUAL(ended, begun);
}

#define LATER p.timeout_ms, on_done, o, NULL

/* In this order each call succeeds where a server serves. */
#define CALLS(ROW)                                                                                                \
    ROW(PREPARE, zkl_once_prepare_async(p.session, p.path, LATER))                                                \
    ROW(ACQUIRE_HELD, zkl_lock_acquire_async(p.held, p.timeout_ms, on_acquired, o, NULL))                         \
    ROW(CAMPAIGN, zkl_lock_acquire_async(p.leader, p.timeout_ms, on_acquired, o, NULL))                           \
    ROW(PUBLISH, zkl_election_publish_async(p.leader, "here", LATER))                                             \
    ROW(ACQUIRE, zkl_lock_acquire_async(p.lock, p.timeout_ms, on_acquired, o, NULL))                              \
    ROW(COMMIT, zkl_lock_commit_async(p.held, &op, 1, p.timeout_ms, NULL, on_done, o, NULL))                      \
    ROW(READ, zkl_lock_read_async(&p.data, p.held, "/", true, LATER))                                             \
    ROW(LOOK, zkl_once_look_async(p.held, HOUR, 0, p.timeout_ms, &p.slot, on_done, o, NULL))                      \
    ROW(RECORD, zkl_once_record_async(p.held, &p.slot, LATER))                                                    \
    ROW(LAST, zkl_once_last_async(p.session, p.path, HOUR, p.timeout_ms, &p.last, &p.recorded, on_done, o, NULL)) \
    ROW(LIST, zkl_queue_list_async(&p.queue, p.session, p.path, LATER))                                           \
    ROW(SET, zkl_barrier_set_async(p.session, "/never/barrier", LATER))                                           \
    ROW(LIFT, zkl_barrier_lift_async(p.session, "/never/barrier", LATER))                                         \
    ROW(WAIT, zkl_barrier_wait_async(p.session, "/never/barrier", LATER))                                         \
    ROW(ENTER, zkl_double_barrier_enter_async(p.both, LATER))                                                     \
    ROW(LEAVE, zkl_double_barrier_leave_async(p.both, LATER))                                                     \
    ROW(RELEASE, zkl_lock_release_async(p.lock, on_done, o, NULL))                                                \
    ROW(JOIN, zkl_group_join_async(p.group, LATER))                                                               \
    ROW(MEMBERS, zkl_group_list_async(&p.members, p.session, "/never/group", LATER))                              \
    ROW(PART, zkl_group_leave_async(p.group, on_done, o, NULL))

#define ROW_NUMBER(name, call) name,
enum row { CALLS(ROW_NUMBER) ROWS };

static int begin(enum row row, struct outcome *o)
{
    static const zkl_op op = {.kind = ZKL_OP_CHECK, .path = "/", .version = ZKL_ANY_VERSION};
    switch (row) {
#define ROW_CASE(name, call) \
    case name:               \
        return call;
        CALLS(ROW_CASE)
    case ROWS:
        break;
    }
    return ZKL_EINVAL;
}

#define ROW_NAME(name, call) #name,
static const char *const row_names[] = {CALLS(ROW_NAME)};

static struct outcome *begin_row(int i)
{
    struct outcome *outcome = &outcomes[i];
    int code = ZKL_OK;
    *outcome = (struct outcome){0};
    TIMED(row_names[i], code = begin((enum row)i, outcome));
    begun += code == ZKL_OK;
    outcome->code = code == ZKL_OK ? outcome->code : code;
    return outcome;
}

static void drop_results(void)
{
    zkl_data_free(p.data);
    zkl_queue_free(p.queue);
    zkl_members_free(p.members);
}

static void run_one_by_one(void)
{
    for (int i = 0; i < ROWS; i++) {
        const struct outcome *outcome = begin_row(i);
        pump();
        if (outcome->code != ZKL_OK || outcome->count != 1) {
            printf("%s: %s, %d completions\n", row_names[i], zkl_error_name(outcome->code), outcome->count);
        }
        ASSERT_OK(outcome->code);
        CU_ASSERT_EQUAL(outcome->count, 1);
    }
    drop_results();
}

/* Nobody answers: each ends all the same, once. */
static void run_at_once(void)
{
    int before = begun;
    p.timeout_ms = PATIENCE_MS;
    for (int i = 0; i < ROWS; i++) {
        begin_row(i);
    }
    CU_ASSERT(begun - before > 5);
    pump();
    for (int i = 0; i < ROWS; i++) {
        CU_ASSERT(outcomes[i].count <= 1);
        bool goes_on = i == RELEASE || i == PART; /* when there is a server: it succeeds without one */
        CU_ASSERT(outcomes[i].count == 0 || outcomes[i].code != ZKL_OK || goes_on);
    }
    drop_results();
}

static void open_session(const char *servers, struct outcome *outcome)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    struct epoll_event event = {.events = EPOLLIN};
    int code = ZKL_OK, fd = -1;
    options.session_timeout_ms = TIMEOUT;
    options.tick_ms = TICK;
    options.callbacks = ZKL_CALLBACKS_DISPATCH;
    *outcome = (struct outcome){0};
    begun = ended = 0;
    TIMED("open", code = zkl_session_open_async(&p.session, servers, &options, on_done, outcome, NULL));
    ASSERT_OK_FATAL(code);
    p.timeout_ms = SOON;
    snprintf(p.path, sizeof p.path, "/never/job%d", p.tests++);
    TIMED("fd", fd = zkl_session_fd(p.session));
    p.epoll = epoll_create1(EPOLL_CLOEXEC);
    CU_ASSERT_EQUAL_FATAL(epoll_ctl(p.epoll, EPOLL_CTL_ADD, fd, &event), 0);
    ASSERT_OK(zkl_election_new(&p.leader, p.session, "/never/election", NULL, NULL));
    ASSERT_OK(zkl_double_barrier_new(&p.both, p.session, "/never/both", 1, NULL));
    ASSERT_OK(zkl_group_new(&p.group, p.session, "/never/group", "me", NULL, NULL));
    TIMED("new", code = zkl_lock_new(&p.lock, p.session, "/never/lock", NULL, NULL));
    TIMED("new", code = zkl_lock_new(&p.held, p.session, p.path, NULL, NULL));
}

/* Closed with what it still holds and waits for, then freed. */
static void close_session(int64_t timeout_ms, int expected)
{
    struct outcome closed = {0};
    int code = ZKL_OK;
    TIMED("close", code = zkl_session_close_async(p.session, timeout_ms, on_closed, &closed, NULL));
    ASSERT_OK_FATAL(code);
    begun++;
    for (int64_t end = now_ms() + SOON; p.session && turn(end);) {
    }
    CU_ASSERT_EQUAL(ended, begun);
    CU_ASSERT_EQUAL(closed.count, 1);
    CU_ASSERT_EQUAL(closed.code, expected);
    TIMED("free", zkl_lock_free(p.lock));
    TIMED("free", zkl_lock_free(p.held));
    TIMED("free", zkl_lock_free(p.leader));
    TIMED("free", zkl_double_barrier_free(p.both));
    TIMED("free", zkl_group_free(p.group));
    close(p.epoll);
}

static void open_and_wait(const char *servers)
{
    struct outcome opened;
    open_session(servers, &opened);
    begun++;
    pump();
    ASSERT_OK_FATAL(opened.code);
}

static void with_a_server(void)
{
    open_and_wait(ensemble_servers(server));
    run_one_by_one();
    close_session(SOON, ZKL_OK);
}

static void without_a_server(void)
{
    struct outcome opened;
    open_session("127.0.0.1:1", &opened); /* nobody listens there */
    run_at_once();
    CU_ASSERT_EQUAL(opened.count, 0);
    begun++;
    close_session(PATIENCE_MS, ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(opened.code, ZKL_ECLOSED);
}

static void with_a_stopped_server(void)
{
    open_and_wait(ensemble_servers(server));
    run_one_by_one();
    ensemble_freeze(server, 0);
    run_at_once();
    close_session(PATIENCE_MS, ZKL_ETIMEOUT);
    ensemble_thaw(server, 0);
}

/* What would keep the program is seen: a call that waits for a server that is stopped. */
TEST(test_a_call_that_waits_is_found)
{
    zkl_queue *queue = NULL;
    begin_measuring();
    open_and_wait(ensemble_servers(server));
    ensemble_freeze(server, 0);
    struct times from = now_is();
    struct cost cost = {.name = "a list that waits"};
    CU_ASSERT_NOT_EQUAL(zkl_queue_list(&queue, p.session, p.path, 10 * PATIENCE_MS, NULL), ZKL_OK);
    add(&cost, from, now_is());
    show(&cost, "");
    CU_ASSERT(is_kept(&cost));
    ensemble_thaw(server, 0);
    close_session(SOON, ZKL_OK);
    end_measuring();
}

TEST(test_with_a_server)
{
    measure(with_a_server);
}

TEST(test_without_a_server)
{
    measure(without_a_server);
}

TEST(test_with_a_stopped_server)
{
    measure(with_a_stopped_server);
}

TESTS_ON_SERVERS("never blocks", (&(struct ensemble_options){.tick_ms = TICK}))
