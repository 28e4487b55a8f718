#include "thread_store.h"

#include <stdlib.h>

#include "wait.h"

#include <zklock/error.h>

static void (*test_turn)(struct zkl__store *store);
static atomic_int opened, closed;
static atomic_bool hold, held;
static _Atomic(struct zkl__store *) last;

void thread_store_begin(void (*turn)(struct zkl__store *store))
{
    test_turn = turn;
    atomic_store(&opened, 0);
    atomic_store(&closed, 0);
}

struct zkl__store *thread_store_last(void)
{
    return atomic_load(&last);
}

void thread_store_hold(bool on)
{
    atomic_store(&held, false);
    atomic_store(&hold, on);
}

bool thread_store_held(void)
{
    return atomic_load(&held);
}

int thread_store_opened(void)
{
    return atomic_load(&opened);
}

int thread_store_closed(void)
{
    return atomic_load(&closed);
}

void thread_store_answer(struct zkl__store *store, enum zkl__rc rc)
{
    const struct zkl__reply reply = {.rc = rc};
    unsigned i = atomic_fetch_add(&store->answered, 1);
    store->events->reply(store->ctx, atomic_load(&store->ops[i].id), &reply);
}

static void *run(void *arg)
{
    struct zkl__store *store = arg;
    const struct zkl__connection connection = {
        .session_id = store->number, .timeout_ms = 600000, .fresh = true, .began_ns = boot_ns()};
    store->events->connected(store->ctx, &connection);
    while (!atomic_load(&store->closing)) {
        test_turn(store);
    }
    return NULL;
}

static int open_it(struct zkl__store **out, const struct zkl__store_config *config,
                   const struct zkl__store_events *events, void *ctx, zkl_error *err)
{
    (void)config;
    (void)err;
    struct zkl__store *store = calloc(1, sizeof *store);
    for (int64_t end = now_ms() + SOON; atomic_load(&hold) && look_again(end);) {
        atomic_store(&held, true);
    }
    store->events = events;
    store->ctx = ctx;
    store->number = atomic_fetch_add(&opened, 1) + 1;
    atomic_store(&last, store);
    *out = store;
    return pthread_create(&store->thread, NULL, run, store) == 0 ? ZKL_OK : ZKL_ELIMIT;
}

static int submit_it(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    unsigned i = atomic_load(&store->asked); /* one thread at a time submits */
    if (i == THREAD_STORE_OPS) {
        return ZKL_ELIMIT;
    }
    atomic_store(&store->ops[i].id, id);
    atomic_store(&store->ops[i].read,
                 op->kind == ZKL__OP_EXISTS || op->kind == ZKL__OP_GET || op->kind == ZKL__OP_CHILDREN);
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
    atomic_fetch_add(&closed, 1);
    free(store);
    return ZKL_OK;
}

const struct zkl__store_ops *__wrap_zkl__store_find(const char *servers, zkl_error *err);
const struct zkl__store_ops *__wrap_zkl__store_find(const char *servers, zkl_error *err)
{
    static const struct zkl__store_ops ops = {
        .name = "test", .ops_max = 100, .open = open_it, .submit = submit_it, .tick = tick_it, .close = close_it};
    (void)servers;
    (void)err;
    return &ops;
}
