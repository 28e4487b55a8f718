/* session.c - a session: its memory and threads, its callbacks, its facts. */
#include "shell.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* === making a session ========================================================================= */

static void *plain_alloc(void *payload, size_t size)
{
    (void)payload;
    return malloc(size);
}

static void *plain_resize(void *payload, void *ptr, size_t size)
{
    (void)payload;
    return realloc(ptr, size);
}

static void plain_release(void *payload, void *ptr)
{
    (void)payload;
    free(ptr);
}

static const zkl_heap plain_heap = {plain_alloc, plain_resize, plain_release, NULL};

static int make_core(zkl_session *session)
{
    const zkl_session_options *options = &session->settings.options;
    int64_t masters = options->observer_masters;
    bool none = !session->store_ops->has_observers || masters == ZKL_OBSERVER_MASTERS_NONE;
    struct zkl__core_config config = {
        .heap = session->heap,
        .tick_ns = options->tick_ms * ZKL__MS,
        .pause_ns = options->leader_pause_ms * ZKL__MS,
        .masters = none                                   ? ZKL__MASTERS_NONE
                   : masters == ZKL_OBSERVER_MASTERS_SOME ? ZKL__MASTERS_SOME
                                                          : ZKL__MASTERS_ASK,
        .watch_bytes_max = session->store_ops->watch_bytes_max,
        .ops_max = session->store_ops->ops_max,
    };
    if (getrandom(config.seed, sizeof config.seed, 0) != sizeof config.seed ||
        getrandom(&config.names_key, sizeof config.names_key, 0) != sizeof config.names_key) {
        return ZKL_ELIMIT;
    }
    struct zkl__port port = zkl__session_port(session);
    session->core = zkl__core_new(&config, &port);
    return session->core ? ZKL_OK : ZKL_ENOMEM;
}

/* Memory only: no threads, nothing on a server. */
static int make(zkl_session **out, const char *servers, const zkl_session_options *options,
                const struct zkl__store_ops *store_ops)
{
    const zkl_heap *heap = options->heap ? options->heap : &plain_heap;
    zkl_session *session = zkl__zalloc(heap, sizeof *session);
    if (!session) {
        return ZKL_ENOMEM;
    }
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0) {
        snprintf(host, sizeof host, "?");
    }
    session->heap = *heap;
    session->pid = getpid();
    session->process = zkl__process();
    session->store_ops = store_ops;
    session->status.state = ZKL_SESSION_SUSPENDED;
    session->core_alarm = (struct zkl__alarm){.ring = zkl__session_ring_core, .owner = session};
    session->tick_alarm = (struct zkl__alarm){.ring = zkl__session_ring_tick, .owner = session};
    session->open.alarm = (struct zkl__alarm){.ring = zkl__session_ring_open, .owner = session};
    session->notice = (struct zkl__callback){.run = zkl__session_run_notice, .owner = session};
    session->alarms.fd = session->alarms.poke_fd = -1;
    atomic_init(&session->refs, 1);
    snprintf(session->whoami, sizeof session->whoami, "%s:%ld", host, (long)session->pid);
    zkl__signal_init(&session->status.changed);
    pthread_mutex_init(&session->mutex, NULL);
    int rc = zkl__callbacks_init(&session->callbacks, &session->mutex,
                                 options->callbacks == ZKL_CALLBACKS_DISPATCH);
    if (rc == ZKL_OK) {
        rc = zkl__settings_copy(&session->settings, heap, servers, options) ? make_core(session)
                                                                            : ZKL_ENOMEM;
    }
    if (rc != ZKL_OK) {
        zkl__session_free(session);
        return rc;
    }
    *out = session;
    return ZKL_OK;
}

void zkl__session_free(zkl_session *session)
{
    zkl_heap heap = session->heap;
    if (session->core) {
        zkl__core_free(session->core);
    }
    zkl__callbacks_deinit(&session->callbacks);
    zkl__alarms_close(&session->alarms);
    zkl__signal_deinit(&session->status.changed);
    pthread_mutex_destroy(&session->mutex);
    zkl__settings_free(&session->settings, &heap);
    zkl__free(&heap, session);
}

int zkl__session_start(zkl_session **out, const char *servers, const zkl_session_options *options,
                       zkl_error *err)
{
    zkl_session *session = NULL;
    int rc = zkl__options_check(options, err);
    const struct zkl__store_ops *store_ops = rc == ZKL_OK ? zkl__store_find(servers, err) : NULL;
    if (!store_ops) {
        return ZKL_EINVAL;
    }
    rc = make(&session, servers, options, store_ops);
    if (rc != ZKL_OK) {
        return zkl__fail_at(err, rc, NULL, "no memory, descriptor or random bytes for a session");
    }
    rc = zkl__alarms_start(&session->alarms, &session->mutex);
    if (rc != ZKL_OK) {
        zkl__session_stop(session, 0);
        return zkl__fail_at(
            err, rc, NULL,
            "no thread or no descriptor for a session: raise the limits (ulimit -n, ulimit -u)");
    }
    pthread_mutex_lock(&session->mutex);
    rc = zkl__stop_watch(session, err);
    if (rc == ZKL_OK) {
        zkl__alarms_set(&session->alarms, &session->open.alarm, 0);
    }
    pthread_mutex_unlock(&session->mutex);
    if (rc != ZKL_OK) {
        zkl__session_stop(session, 0);
        return rc;
    }
    *out = session;
    return ZKL_OK;
}

/* === as its user sees it ====================================================================== */

/* --- callbacks ------------------------------------------------------------------------------- */

int zkl_session_fd(zkl_session *session)
{
    int fd = -1;
    if (session && zkl__session_enter_even_closed(session, NULL) == ZKL_OK) {
        fd = zkl__callbacks_fd(&session->callbacks);
        zkl__session_leave(session);
    }
    return fd;
}

int zkl_session_dispatch(zkl_session *session)
{
    if (!session) {
        return ZKL_EINVAL;
    }
    if (zkl__session_forked(session)) {
        return ZKL_EFORKED;
    }
    zkl__session_retain(session); /* its last callback may run in the loop, and free it */
    zkl__loop_go_on();
    int rc = zkl__session_enter_even_closed(session, NULL);
    if (rc == ZKL_OK) {
        struct zkl__callbacks *callbacks = &session->callbacks;
        rc = callbacks->dispatched ? zkl__callbacks_dispatch(callbacks) : ZKL_EUNSUPPORTED;
        rc = rc >= 0 && callbacks->stop ? ZKL_ECLOSED : rc;
        zkl__session_leave(session);
    }
    if (rc != ZKL_EFORKED) { /* a callback forked: the child frees nothing */
        zkl__session_drop(session);
    }
    return rc;
}

/* --- facts: none of a closed session, nor in a child of fork --------------------------------- */

static int64_t fact(zkl_session *session, int64_t (*get)(const struct zkl__core *core),
                    int64_t unit)
{
    if (!session || zkl__session_enter(session, NULL) != ZKL_OK) {
        return 0;
    }
    int64_t value = get(session->core) / unit;
    zkl__session_leave(session);
    return value;
}

zkl_connection_state zkl_session_state(zkl_session *session)
{
    zkl_connection_state state = ZKL_SESSION_CLOSED;
    if (session && zkl__session_enter(session, NULL) == ZKL_OK) {
        state = session->status.state;
        zkl__session_leave(session);
    }
    return state;
}

int64_t zkl_session_id(zkl_session *session)
{
    return fact(session, zkl__core_session_id, 1);
}

int64_t zkl_session_timeout_ms(zkl_session *session)
{
    return fact(session, zkl__core_timeout, ZKL__MS);
}

int64_t zkl_session_least_lease_ms(zkl_session *session)
{
    return fact(session, zkl__core_least_lease, ZKL__MS);
}

int64_t zkl_session_low_lease_ms(zkl_session *session)
{
    int64_t low = fact(session, zkl__core_low_lease, ZKL__MS);
    return low > 0 ? low : 0;
}
