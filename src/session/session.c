/* session.c - a session: its memory and threads, how it is opened, its callbacks, its facts. */
#include "call.h"
#include "lease.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Checks what it is given, makes a session, starts its threads, which begin to open a store.
 * ZKL_OK, ZKL_EINVAL, ZKL_ENOMEM, ZKL_ELIMIT. */
static int start(zkl_session **out, const char *servers, const zkl_session_options *options,
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

/* === opening it ============================================================================== */

#define GIVE_UP_MS 500 /* for the end of a session that did not come to be */

/* No connection can be begun, and a later try would end alike. */
static bool is_hopeless(const zkl_error *why)
{
    return why->code != ZKL_OK && why->code != ZKL_ECONNECT;
}

/* What the store says about it; empty: nothing. */
static void get_complaint(zkl_session *session, char *words, size_t size)
{
    *words = '\0';
    if (session->store && session->store_ops->complaint) {
        session->store_ops->complaint(session->store, words, size);
    }
}

static int refused(zkl_session *session, zkl_error *err)
{
    const struct zkl__settings *settings = &session->settings;
    if (settings->options.sasl) {
        char words[160];
        get_complaint(session, words, sizeof words);
        return zkl__fail_at(err, session->status.why, NULL, "%.60s: SASL failed: %s",
                            settings->servers,
                            words[0] ? words : "the servers refuse the credentials");
    }
    return zkl__fail_at(err, session->status.why, NULL,
                        "%.120s: credentials of scheme \"%s\" refused", settings->servers,
                        settings->options.auth_scheme ? settings->options.auth_scheme : "none");
}

static int fail_unreachable(zkl_session *session, int64_t waited_ms, zkl_error *err)
{
    const struct zkl__settings *settings = &session->settings;
    const zkl_error *why = &session->status.open_error;
    if (zkl__out_of_descriptors()) {
        return zkl__fail_at(err, ZKL_ELIMIT, NULL, "%s", ZKL__NO_DESCRIPTOR);
    }
    if (is_hopeless(why)) {
        return zkl__fail(err, why->code, why->zk_code, NULL, "%s", why->text);
    }
    /* A port that was forgotten is the likeliest reason where one is missing. */
    size_t length = 0;
    const char *portless = zkl__store_without_port(settings->servers, &length);
    char hint[96] = "", words[sizeof err->text];
    snprintf(words, sizeof words, "%s", why->text);
    if (portless) {
        snprintf(hint, sizeof hint, " ('%.*s' has no port: 2181 is tried)",
                 (int)(length < 48 ? length : 48), portless);
    }
    if (!words[0]) {
        get_complaint(session, words, sizeof words);
    }
    return zkl__fail_at(err, ZKL_ECONNECT, NULL, "no response from %.120s within %lld ms%s%s%s",
                        settings->servers, (long long)waited_ms, hint, words[0] ? ": " : "", words);
}

ZKL__SIZED(sized, zkl_session_options, ZKL_SESSION_OPTIONS_INIT, sasl, stop);

/* --- how it goes ------------------------------------------------------------------------------ */

struct opening {
    struct zkl__call call; /* first */
    int64_t began;         /* CLOCK_BOOTTIME, ns */
    bool connected;
};

static int fail_to_open(const struct opening *opening)
{
    const struct zkl__call *call = &opening->call;
    const struct zkl__settings *settings = &call->session->settings;
    int64_t waited_ms = (zkl__clock_now() - opening->began) / ZKL__MS;
    int64_t wanted_ms = settings->options.connect_timeout_ms;
    if (opening->connected) {
        return zkl__fail_at(call->err, ZKL_ECONNECT, NULL,
                            "%.120s took the connection and gave no further answer",
                            settings->servers);
    }
    return fail_unreachable(call->session, waited_ms < wanted_ms ? waited_ms : wanted_ms,
                            call->err);
}

/* Names of servers that do not resolve yet are tried again, as servers that do not answer are. */
static int await_connection(const struct opening *opening)
{
    const struct zkl__status *status = &opening->call.session->status;
    if (status->state == ZKL_SESSION_CONNECTED) {
        return ZKL_OK;
    }
    return is_hopeless(&status->open_error) ? fail_to_open(opening) : ZKL__PENDING;
}

/* A chroot is never made here: one that is missing is most often a slip of the pen. The look for it
 * is sent again when its reply is lost. */
static int await_session(struct opening *opening)
{
    struct zkl__call *call = &opening->call;
    zkl_session *session = call->session;
    const struct zkl__status *status = &session->status;
    if (status->state == ZKL_SESSION_CLOSED && !status->closing) {
        return refused(session, call->err); /* also when connected first: so the servers do it */
    }
    CALL_BEGIN(call);
    AWAIT_CALL(call, await_connection(opening));
    opening->connected = true;
    AWAIT(call, {.kind = ZKL__OP_EXISTS, .dir = "/"});
    if (call->answer.rc == ZKL__RC_NONODE) {
        const char *servers = session->settings.servers;
        RETURN(call, zkl__fail_at(call->err, ZKL_ENOENT, strchr(servers, '/'),
                                  "the chroot of %.120s does not exist", servers));
    }
    /* The servers' roles are known by now: they were asked for before the chroot. */
    const struct zkl__core_facts facts = zkl__core_facts(session->core);
    RETURN(call,
           zkl__lease_check(&session->settings.options, facts.timeout, facts.hops, call->err));
    CALL_END(call);
}

/* Only the form that blocks ends by the time. */
static int run(struct zkl__call *call)
{
    struct opening *opening = (struct opening *)call;
    int rc = await_session(opening);
    bool late = zkl__clock_now() >= call->deadline;
    return rc == ZKL__PENDING && late ? fail_to_open(opening) : rc;
}

/* Whoever closes it meanwhile is told, too, why it is not open yet. */
static int conclude(struct zkl__call *call, int rc)
{
    if (rc == ZKL_ECLOSED) {
        fail_to_open((struct opening *)call);
    }
    return rc;
}

/* When it was begun, and did not come to be, nothing that was made from it meanwhile goes on. */
static void end(struct zkl__call *call)
{
    zkl_session *session = call->session;
    if (call->over && call->code != ZKL_OK && !session->status.closing &&
        session->status.state != ZKL_SESSION_CLOSED) {
        zkl__session_set_state(session, ZKL_SESSION_CLOSED, call->code);
        session->status.failed = true;
        ZKL__EACH_LEAVING (struct zkl__object, object, &session->objects, link) {
            object->ops->give_up(object, ZKL_ECLOSED);
        }
    }
}

static const struct zkl__call_kind kind = {
    .size = sizeof(struct opening), .run = run, .conclude = conclude, .end = end};

/* --- the calls ------------------------------------------------------------------------------- */

int zkl_session_open_async(zkl_session **out, const char *servers,
                           const zkl_session_options *options, zkl_done_fn done, void *payload,
                           zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !servers || !done) {
        return zkl__fail_null(err, !out ? "out" : !servers ? "servers" : "done");
    }
    bool waits = done == zkl__caller_waits;
    zkl_session_options o;
    zkl_session *session = NULL;
    struct opening opening = {.began = zkl__clock_now()};
    zkl__cancel_hold();
    int rc = zkl__sized_take(&o, options, &sized, err);
    rc = rc == ZKL_OK ? start(&session, servers, &o, err) : rc;
    if (rc == ZKL_OK) {
        zkl__session_enter_even_closed(session, NULL);
        rc = zkl__call_begin(&kind, &opening, session, "",
                             waits ? o.connect_timeout_ms : ZKL_WAIT_FOREVER, done, payload, err);
        if (rc == ZKL_OK && waits && o.state_fn) {
            rc = zkl__session_want_callbacks(session, NULL, err);
        }
        session->status.reports_changes = rc == ZKL_OK;
        if (rc == ZKL_OK && !waits) {
            zkl__session_report_state(session); /* the store's thread may have been here before */
        }
        session->status.closing = rc != ZKL_OK;
        *out = rc == ZKL_OK ? session : NULL; /* before done or state_fn can be called */
        zkl__session_leave(session);
        if (rc != ZKL_OK) {
            zkl__session_stop(session, zkl__session_deadline(waits ? GIVE_UP_MS : 0));
        }
    }
    zkl__cancel_allow();
    return rc;
}

int zkl_session_open(zkl_session **out, const char *servers, const zkl_session_options *options,
                     zkl_error *err)
{
    return zkl_session_open_async(out, servers, options, zkl__caller_waits, NULL, err);
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

static struct zkl__core_facts facts_of(zkl_session *session)
{
    struct zkl__core_facts facts = {0};
    if (session && zkl__session_enter(session, NULL) == ZKL_OK) {
        facts = zkl__core_facts(session->core);
        zkl__session_leave(session);
    }
    return facts;
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
    return facts_of(session).session_id;
}

int64_t zkl_session_timeout_ms(zkl_session *session)
{
    return facts_of(session).timeout / ZKL__MS;
}

static int64_t lease_ms(zkl_session *session, int64_t (*get)(const struct zkl__core *core))
{
    int64_t lease = 0;
    if (session && zkl__session_enter(session, NULL) == ZKL_OK) {
        lease = get(session->core) / ZKL__MS;
        zkl__session_leave(session);
    }
    return lease;
}

int64_t zkl_session_least_lease_ms(zkl_session *session)
{
    return lease_ms(session, zkl__core_least_lease);
}

int64_t zkl_session_low_lease_ms(zkl_session *session)
{
    int64_t low = lease_ms(session, zkl__core_low_lease);
    return low > 0 ? low : 0;
}
