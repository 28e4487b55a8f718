/* A server that puts off what it is asked ("try again": throttled, or the session has moved) is asked again later, each time later than
 * before, by calls that block and by what runs in the background. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"
#include "store.h"
#include "wait.h"

#include <zklock/zklock.h>

#define OPS_MAX 10000
#define SECOND 1000 /* ms */
#define FEW 20      /* requests in a second */

enum mood { CONTENT, BUSY, BUSY_WITH_WRITES };

static atomic_int mood = CONTENT;
static atomic_uint asked, answered;

struct zkl__store {
    const struct zkl__store_events *events;
    void *ctx;
    pthread_t thread;
    struct {
        atomic_ullong id;
        atomic_bool read;
    } ops[OPS_MAX];
    atomic_bool closing;
};

static void *run(void *arg)
{
    struct zkl__store *store = arg;
    const struct zkl__connection connection = {
        .session_id = 1, .timeout_ms = 600000, .fresh = true, .began_ns = boot_ns()};
    store->events->connected(store->ctx, &connection);
    while (!atomic_load(&store->closing)) {
        unsigned i = atomic_load(&answered);
        if (i < atomic_load(&asked)) {
            bool read = atomic_load(&store->ops[i].read);
            bool fine = atomic_load(&mood) == CONTENT || (atomic_load(&mood) == BUSY_WITH_WRITES && read);
            const struct zkl__reply reply = {.rc = fine ? ZKL__RC_OK : ZKL__RC_NOTAPPLIED};
            atomic_store(&answered, i + 1);
            store->events->reply(store->ctx, atomic_load(&store->ops[i].id), &reply);
        } else {
            look_again(0);
        }
    }
    return NULL;
}

static int open_it(struct zkl__store **out, const struct zkl__store_config *config,
                   const struct zkl__store_events *events, void *ctx, zkl_error *err)
{
    (void)config;
    (void)err;
    struct zkl__store *store = calloc(1, sizeof *store);
    store->events = events;
    store->ctx = ctx;
    atomic_store(&asked, 0);
    atomic_store(&answered, 0);
    *out = store;
    return pthread_create(&store->thread, NULL, run, store) == 0 ? ZKL_OK : ZKL_ELIMIT;
}

static int submit_it(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    unsigned i = atomic_load(&asked); /* one thread at a time submits */
    if (i == OPS_MAX) {
        return ZKL_ELIMIT;
    }
    atomic_store(&store->ops[i].id, id);
    atomic_store(&store->ops[i].read,
                 op->kind == ZKL__OP_EXISTS || op->kind == ZKL__OP_GET || op->kind == ZKL__OP_CHILDREN);
    atomic_store(&asked, i + 1);
    return ZKL_OK;
}

static int64_t tick_it(struct zkl__store *store, int64_t now_ns)
{
    (void)store;
    (void)now_ns;
    return INT64_MAX;
}

static int close_it(struct zkl__store *store, int64_t timeout_ms)
{
    (void)timeout_ms;
    atomic_store(&store->closing, true);
    pthread_join(store->thread, NULL);
    free(store);
    return ZKL_OK;
}

/* Instead of the store that the servers string means (a linker option). */
const struct zkl__store_ops *__wrap_zkl__store_find(const char *servers, zkl_error *err);
const struct zkl__store_ops *__wrap_zkl__store_find(const char *servers, zkl_error *err)
{
    static const struct zkl__store_ops ops = {
        .name = "test", .ops_max = 100, .open = open_it, .submit = submit_it, .tick = tick_it, .close = close_it};
    (void)servers;
    (void)err;
    return &ops;
}

/* --- calls, for a second each -------------------------------------------------------------------------------------- */

static int set(zkl_session *session)
{
    return zkl_barrier_set(session, "/barrier", SECOND, NULL);
}

static int wait_at(zkl_session *session)
{
    return zkl_barrier_wait(session, "/barrier", SECOND, NULL);
}

static int lift(zkl_session *session)
{
    return zkl_barrier_lift(session, "/barrier", SECOND, NULL);
}

static int prepare(zkl_session *session)
{
    return zkl_once_prepare(session, "/once", SECOND, NULL);
}

static int last(zkl_session *session)
{
    int64_t last_ms, recorded_ms;
    return zkl_once_last(session, "/once", 0, SECOND, &last_ms, &recorded_ms, NULL);
}

static int list(zkl_session *session)
{
    zkl_queue *queue;
    return zkl_queue_list(&queue, session, "/queue", SECOND, NULL);
}

static int find(zkl_session *session)
{
    zkl_paths *paths;
    return zkl_queue_find(&paths, session, "/", SECOND, NULL);
}

static int take_out(zkl_session *session)
{
    return zkl_queue_remove(session, "/queue", "x-lock-0000000001", 0, SECOND, NULL);
}

static int members(zkl_session *session)
{
    zkl_members *all;
    return zkl_group_list(&all, session, "/group", SECOND, NULL);
}

static int join(zkl_session *session)
{
    zkl_group *group;
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&group, session, "/group", "us", NULL, NULL), ZKL_OK);
    int code = zkl_group_join(group, SECOND, NULL);
    zkl_group_free(group);
    return code;
}

static int acquire(zkl_session *session)
{
    zkl_lock *lock;
    CU_ASSERT_EQUAL_FATAL(zkl_lock_new(&lock, session, "/lock", NULL, NULL), ZKL_OK);
    int code = zkl_lock_acquire(lock, SECOND, NULL, NULL);
    zkl_lock_free(lock);
    return code;
}

static void expect_few(const char *name, int (*call)(zkl_session *session), enum mood when)
{
    zkl_session *session = NULL;
    atomic_store(&mood, CONTENT);
    CU_ASSERT_EQUAL_FATAL(zkl_session_open(&session, "test:1", NULL, NULL), ZKL_OK);
    atomic_store(&mood, when);
    unsigned before = atomic_load(&asked);
    int code = call(session);
    unsigned sent = atomic_load(&asked) - before;
    printf("%s: %u requests, %s\n", name, sent, zkl_error_name(code));
    CU_ASSERT_EQUAL(code, ZKL_ETIMEOUT);
    CU_ASSERT(sent > 1 && sent < FEW);
    (void)zkl_session_close(session, 0);
}

static void test_few_requests(void)
{
    expect_few("barrier set", set, BUSY);
    expect_few("barrier wait", wait_at, BUSY);
    expect_few("barrier lift", lift, BUSY);
    expect_few("once prepare", prepare, BUSY);
    expect_few("once last", last, BUSY);
    expect_few("queue list", list, BUSY);
    expect_few("queue find", find, BUSY);
    expect_few("queue remove", take_out, BUSY);
    expect_few("group list", members, BUSY);
    expect_few("group join", join, BUSY);
    expect_few("acquire", acquire, BUSY);
}

/* The session has moved, say: reads are answered. */
static void test_few_writes(void)
{
    expect_few("barrier set", set, BUSY_WITH_WRITES);
    expect_few("barrier lift", lift, BUSY_WITH_WRITES);
    expect_few("queue remove", take_out, BUSY_WITH_WRITES);
}

static void *be_content(void *arg)
{
    const unsigned *from = arg;
    for (int64_t end = now_ms() + SOON; atomic_load(&answered) < *from + 3 && look_again(end);) {
    }
    atomic_store(&mood, CONTENT);
    return NULL;
}

/* And is done in the end. */
static void test_done_later(void)
{
    zkl_session *session = NULL;
    pthread_t thread;
    atomic_store(&mood, CONTENT);
    CU_ASSERT_EQUAL_FATAL(zkl_session_open(&session, "test:1", NULL, NULL), ZKL_OK);
    atomic_store(&mood, BUSY);
    unsigned from = atomic_load(&answered);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, be_content, &from), 0);
    CU_ASSERT_EQUAL(zkl_barrier_set(session, "/barrier", SOON, NULL), ZKL_OK);
    pthread_join(thread, NULL);
    zkl_paths *paths;
    atomic_store(&mood, BUSY);
    from = atomic_load(&answered);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, be_content, &from), 0);
    CU_ASSERT_EQUAL(zkl_queue_find(&paths, session, "/", SOON, NULL), ZKL_OK);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(paths->refused_count, 0);
    zkl_paths_free(paths);
    (void)zkl_session_close(session, 0);
}

TESTS("put off", T(test_few_requests), T(test_few_writes), T(test_done_later))
