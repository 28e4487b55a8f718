/* A store that has told its end still has replies to tell, for what was under way. The session opens another one meanwhile, and first closes
 * the old one, which waits for its thread: so that thread must not wait for the session. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"
#include "store.h"
#include "wait.h"

#include <zklock/zklock.h>

#define OPS_MAX 1000

struct zkl__store {
    const struct zkl__store_events *events;
    void *ctx;
    pthread_t thread;
    int number;
    atomic_ullong ids[OPS_MAX]; /* of requests, in their order */
    atomic_uint asked, answered;
    atomic_bool closing;
};

static atomic_int opened;
static atomic_bool end_it; /* the first one */

static void wait_for(atomic_bool *flag)
{
    for (int64_t end = now_ms() + SOON; !atomic_load(flag) && look_again(end);) {
    }
}

static void *run(void *arg)
{
    struct zkl__store *store = arg;
    const struct zkl__connection connection = {
        .session_id = store->number, .timeout_ms = 10000, .fresh = true, .began_ns = boot_ns()};
    store->events->connected(store->ctx, &connection);
    while (!atomic_load(&store->closing)) {
        const struct zkl__reply ok = {.rc = ZKL__RC_OK}, unknown = {.rc = ZKL__RC_UNKNOWN};
        if (store->number == 1 && atomic_load(&end_it)) {
            store->events->expired(store->ctx, ZKL__END_EXPIRED);
            wait_for(&store->closing);
            store->events->reply(store->ctx, atomic_load(&store->ids[0]), &unknown);
        } else if (atomic_load(&store->answered) < atomic_load(&store->asked)) {
            unsigned i = atomic_fetch_add(&store->answered, 1);
            store->events->reply(store->ctx, atomic_load(&store->ids[i]), &ok);
        }
        look_again(0);
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
    store->number = atomic_fetch_add(&opened, 1) + 1;
    *out = store;
    return pthread_create(&store->thread, NULL, run, store) == 0 ? ZKL_OK : ZKL_ELIMIT;
}

static int submit_it(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    (void)op;
    unsigned i = atomic_load(&store->asked); /* one thread at a time submits */
    if (i == OPS_MAX) {
        return ZKL_ELIMIT;
    }
    atomic_store(&store->ids[i], id);
    atomic_store(&store->asked, i + 1);
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

static void test_replies_after_the_end(void)
{
    zkl_session *session = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_session_open(&session, "test:1", NULL, NULL), ZKL_OK);
    atomic_store(&end_it, true);
    int64_t end = now_ms() + SOON;
    while (zkl_session_id(session) != 2 && look_again(end)) {
    }
    CU_ASSERT_EQUAL_FATAL(zkl_session_id(session), 2); /* else close would not end either */
    CU_ASSERT_EQUAL(zkl_session_close(session, SOON), ZKL_OK);
}

TESTS("store ends", T(test_replies_after_the_end))
