/* session.c - a session: what happens to it, its memory and threads, how it is opened, its
 * callbacks, its facts. */
#include "call.h"
#include "lease.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* === what happens to it ======================================================================= */

/* Events of the store become steps of the core, operations of the core go to the store, and changes
 * of the session are reported to the user. */

#define TICK_SOON (100 * ZKL__MS)

void zkl__session_log(const zkl_session *session, zkl_log_level level, const char *source,
                      const char *path, unsigned contender, const char *what)
{
    const zkl_session_options *options = &session->settings.options;
    if (!options->log_fn || level > options->log_level) {
        return;
    }
    char about[ZKL_PATH_MAX + 16], text[1024], line[sizeof about + sizeof text + 16];
    zkl__text_escape(about, sizeof about, path ? path : source);
    zkl__text_escape(text, sizeof text, what);
    if (contender > 0) {
        snprintf(line, sizeof line, "%s#%u: %s", about, contender, text);
    } else {
        snprintf(line, sizeof line, "%s: %s", about, text);
    }
    const zkl_log_record record = {level, line, source, path ? about : NULL, contender, text};
    options->log_fn(&record, options->log_payload);
}

/* --- from the store -------------------------------------------------------------------------- */

static void step(zkl_session *session, struct zkl__event event)
{
    pthread_mutex_lock(&session->mutex);
    while (
        session->opening) { /* `connected` may come before the open that led to it has returned */
        if (event.kind == ZKL__EV_REPLY) {
            /* It is of the store that ended, whose close waits for this thread. For the core all
             * requests of that store have ended already. */
            pthread_mutex_unlock(&session->mutex);
            return;
        }
        zkl__signal_wait(&session->status.changed, &session->mutex, INT64_MAX);
    }
    if (!session->status.closed) {
        zkl__session_event(session, event);
        zkl__session_arm(session);
    }
    pthread_mutex_unlock(&session->mutex);
}

static void on_connected(void *ctx, const struct zkl__connection *connection)
{
    zkl_session *session = ctx;
    const zkl_session_options *options = &session->settings.options;
    /* The lease rests on tick_ms. A server does not tell its tickTime, but what it makes of a
     * session timeout depends on it. */
    int64_t tick_ms = zkl__tick_of_timeout(options->session_timeout_ms, connection->timeout_ms);
    if (connection->fresh && tick_ms > options->tick_ms) {
        char text[256];
        snprintf(text, sizeof text,
                 "the server changed the session timeout of %lld ms to %lld ms. Unless its "
                 "configuration sets "
                 "minSessionTimeout or maxSessionTimeout, its tickTime is %lld ms; tick_ms is "
                 "%lld, which makes the "
                 "lease unsound",
                 (long long)options->session_timeout_ms, (long long)connection->timeout_ms,
                 (long long)tick_ms, (long long)options->tick_ms);
        zkl__session_log(session, ZKL_LOG_WARN, "session", NULL, 0, text);
    }
    step(ctx, (struct zkl__event){.kind = ZKL__EV_CONNECTED,
                                  .session_id = connection->session_id,
                                  .timeout = connection->timeout_ms * ZKL__MS,
                                  .fresh = connection->fresh,
                                  .began = connection->began_ns});
}

static void on_suspended(void *ctx)
{
    zkl_session *session = ctx;
    pthread_mutex_lock(&session->mutex);
    zkl__alarms_set(&session->alarms, &session->tick_alarm,
                    0); /* it begins to look for another server */
    pthread_mutex_unlock(&session->mutex);
    step(ctx, (struct zkl__event){.kind = ZKL__EV_SUSPENDED});
}

static void on_expired(void *ctx, enum zkl__end end)
{
    step(ctx, (struct zkl__event){.kind = ZKL__EV_EXPIRED,
                                  .code = end == ZKL__END_AUTH ? ZKL_EAUTH : ZKL_ELOST});
}

static void on_reply(void *ctx, uint64_t id, const struct zkl__reply *reply)
{
    step(ctx, (struct zkl__event){.kind = ZKL__EV_REPLY, .id = id, .reply = reply});
}

static void on_watch(void *ctx, enum zkl__watch_event event, const char *path)
{
    step(ctx, (struct zkl__event){.kind = ZKL__EV_WATCH, .watch = event, .path = path});
}

static void on_closing(void *ctx)
{
    zkl_session *session = ctx;
    pthread_mutex_lock(&session->mutex);
    zkl__session_poke_close(session);
    pthread_mutex_unlock(&session->mutex);
}

static void on_client_log(void *ctx, zkl_log_level level, const char *line)
{
    zkl__session_log(ctx, level, "client", NULL, 0, line);
}

static const struct zkl__store_events store_events = {
    .connected = on_connected,
    .suspended = on_suspended,
    .expired = on_expired,
    .reply = on_reply,
    .watch = on_watch,
    .closing = on_closing,
    .log = on_client_log,
};

/* --- from the core --------------------------------------------------------------------------- */

static int submit(void *ctx, uint64_t id, const struct zkl__op *op)
{
    zkl_session *session = ctx;
    if (!session->store) {
        return ZKL_ECONNECT;
    }
    if (!session->tick_alarm.timer.set) {
        /* The store was idle: from now on it may have something to see to. */
        zkl__alarms_set(&session->alarms, &session->tick_alarm, zkl__clock_now() + TICK_SOON);
    }
    return session->store_ops->submit(session->store, id, op);
}

static void drop_notice(zkl_session *session, unsigned at)
{
    session->notice_count--;
    memmove(session->notices + at, session->notices + at + 1,
            (session->notice_count - at) * sizeof *session->notices);
}

/* A state_fn that is slow by more changes than are kept misses the oldest ones that are no losses.
 */
static void note_state(zkl_session *session, zkl_connection_state state)
{
    if (session->notice_count == ZKL__NOTICES) {
        unsigned at = 0;
        while (at < ZKL__NOTICES - 1 && session->notices[at] == ZKL_SESSION_LOST) {
            at++;
        }
        drop_notice(session, at);
    }
    session->notices[session->notice_count++] = state;
    zkl__callbacks_post(&session->callbacks, &session->notice);
}

/* The alarms' thread opens a store as soon as it runs. */
static void open_anew(zkl_session *session)
{
    zkl__alarms_set(&session->alarms, &session->open.alarm, 0);
}

void zkl__session_set_state(zkl_session *session, zkl_connection_state state, int why)
{
    static const char *const names[] = {"connected", "suspended", "lost", "closed"};
    if (state == session->status.state || session->status.state == ZKL_SESSION_CLOSED) {
        return;
    }
    session->status.state = state;
    session->status.why = why;
    zkl__session_log(
        session, state == ZKL_SESSION_CONNECTED || why == ZKL_ECLOSED ? ZKL_LOG_INFO : ZKL_LOG_WARN,
        "session", NULL, 0, names[state]);
    if (state == ZKL_SESSION_LOST) {
        open_anew(session);
    }
    zkl__session_wake(session);
    if (session->status.reports_changes && session->settings.options.state_fn) {
        note_state(session, state);
    }
}

static void on_state(void *ctx, zkl_connection_state state, int code)
{
    zkl__session_set_state(ctx, state, code);
}

static void on_log(void *ctx, zkl_log_level level, const char *path, unsigned number,
                   const char *what)
{
    zkl__session_log(ctx, level, path ? "contender" : "session", path, number, what);
}

/* --- to the user ----------------------------------------------------------------------------- */

static void run_notice(void *arg)
{
    zkl_session *session = arg;
    pthread_mutex_lock(&session->mutex);
    while (session->notice_count > 0) {
        zkl_connection_state state = session->notices[0];
        drop_notice(session, 0);
        pthread_mutex_unlock(&session->mutex);
        session->settings.options.state_fn(session, state, session->settings.options.state_payload);
        if (zkl__session_forked(session)) {
            return;
        }
        pthread_mutex_lock(&session->mutex);
    }
    pthread_mutex_unlock(&session->mutex);
}

/* --- in time: on the alarms' thread, with the mutex ------------------------------------------ */

static void ring_core(void *arg)
{
    zkl_session *session = arg;
    zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_TIME});
    zkl__session_arm(session);
}

static void ring_tick(void *arg)
{
    zkl_session *session = arg;
    struct zkl__store *store = session->store;
    struct zkl__status *status = &session->status;
    bool away = status->reports_changes && status->state == ZKL_SESSION_SUSPENDED;
    bool without = away && zkl__out_of_descriptors();
    if (without && !status->without) {
        zkl__session_log(session, ZKL_LOG_WARN, "session", NULL, 0, ZKL__NO_DESCRIPTOR);
    }
    status->without = without;
    if (store) {
        pthread_mutex_unlock(
            &session->mutex); /* a tick may take what is held around event functions */
        int64_t next = session->store_ops->tick(store, zkl__clock_now());
        pthread_mutex_lock(&session->mutex);
        /* Meanwhile something may have been submitted, or the server lost. */
        if (!session->tick_alarm.timer.set || session->tick_alarm.timer.at > next) {
            zkl__alarms_set(&session->alarms, &session->tick_alarm, next);
        }
    }
}

static void ring_open(void *arg)
{
    zkl_session *session = arg;
    if (session->status.closing) {
        return;
    }
    const zkl_session_options *options = &session->settings.options;
    const struct zkl__store_config config = {
        .servers = session->settings.servers,
        .timeout_ms = options->session_timeout_ms,
        .auth_scheme = options->auth_scheme,
        .auth = options->auth,
        .auth_size = options->auth_size,
        .acl = options->acl,
        .tls = options->tls,
        .tls_host = options->tls_host,
        .sasl = options->sasl,
        .log_level = options->log_level,
        .heap = session->heap,
        .at_once = !session->alarms.started,
    };
    zkl_error err = {.code = ZKL_OK};
    struct zkl__store *old = session->store, *fresh = NULL;
    session->store = NULL;
    session->opening = true; /* an ended store calls nothing back, so its close waits for no
                                thread that waits for this one */
    pthread_mutex_unlock(&session->mutex);
    if (old) { /* it is finished. Closing and opening may take their time */
        session->store_ops->close(old, 0, NULL);
    }
    int rc = session->store_ops->open(&fresh, &config, &store_events, session, &err);
    pthread_mutex_lock(&session->mutex);
    session->opening = false;
    zkl__signal_raise(&session->status.changed);
    if (rc == ZKL_OK && session->alarms.stop) { /* nobody waits for it any more */
        pthread_mutex_unlock(&session->mutex);
        session->store_ops->close(fresh, 0, NULL);
        pthread_mutex_lock(&session->mutex);
        return;
    }
    if (rc == ZKL_EBUSY) { /* on the alarms' thread, which may wait */
        open_anew(session);
        return;
    }
    session->status.open_error = err;
    session->status.open_error.code = rc;
    if (rc == ZKL_OK) {
        session->store = fresh;
        session->open.pause = 0;
        zkl__alarms_set(&session->alarms, &session->tick_alarm, 0);
    } else {
        zkl__retry_later(session, &session->open);
        char text[ZKL_ERROR_TEXT_MAX + 32];
        snprintf(text, sizeof text, "no connection begun: %s", err.text);
        zkl__session_log(session, ZKL_LOG_WARN, "session", NULL, 0, text);
    }
    zkl__session_wake(session);
}

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
    const struct zkl__port port = {session, submit, on_state, options->log_fn ? on_log : NULL,
                                   options->log_level};
    session->core = zkl__core_new(&config, &port);
    return session->core ? ZKL_OK : ZKL_ENOMEM;
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
    const zkl_heap *heap = options->heap ? options->heap : &plain_heap;
    int rc = zkl__options_check(options, err);
    const struct zkl__store_ops *store_ops = rc == ZKL_OK ? zkl__store_find(servers, err) : NULL;
    if (!store_ops) {
        return ZKL_EINVAL;
    }
    zkl_session *session = zkl__zalloc(heap, sizeof *session);
    rc = ZKL_ENOMEM;
    if (session) {
        char host[65] = "";
        if (gethostname(host, sizeof host - 1) != 0) {
            snprintf(host, sizeof host, "?");
        }
        session->heap = *heap;
        session->pid = getpid();
        session->process = zkl__process();
        session->store_ops = store_ops;
        session->status.state = ZKL_SESSION_SUSPENDED;
        session->core_alarm = (struct zkl__alarm){.ring = ring_core, .owner = session};
        session->tick_alarm = (struct zkl__alarm){.ring = ring_tick, .owner = session};
        session->turns_alarm = (struct zkl__alarm){.ring = zkl__calls_go_on, .owner = session};
        session->open.alarm = (struct zkl__alarm){.ring = ring_open, .owner = session};
        session->notice = (struct zkl__callback){.run = run_notice, .owner = session};
        session->alarms.fd = session->alarms.poke_fd = -1;
        atomic_init(&session->refs, 1);
        snprintf(session->whoami, sizeof session->whoami, "%s:%ld", host, (long)session->pid);
        zkl__signal_init(&session->status.changed);
        pthread_mutex_init(&session->mutex, NULL);
        rc = zkl__callbacks_init(&session->callbacks, &session->mutex,
                                 options->callbacks == ZKL_CALLBACKS_DISPATCH);
        if (rc == ZKL_OK) {
            rc = zkl__settings_copy(&session->settings, heap, servers, options) ? make_core(session)
                                                                                : ZKL_ENOMEM;
        }
        if (rc != ZKL_OK) {
            zkl__session_free(session);
        }
    }
    if (rc != ZKL_OK) {
        return zkl__fail_at(err, rc, NULL, "no memory, descriptor or random bytes for a session");
    }
    pthread_mutex_lock(&session->mutex);
    if (session->process == 1) {
        ring_open(session); /* here, where it need not wait: the connection is begun sooner */
    } else {
        /* In a child of fork a lock of the C library's may be taken for ever, as getaddrinfo's is
         * by a thread that resolved a name in the parent: that is not to stop who opens. */
        open_anew(session);
    }
    rc = zkl__alarms_start(&session->alarms, &session->mutex);
    if (rc != ZKL_OK) {
        zkl__fail_at(
            err, rc, NULL,
            "no thread or no descriptor for a session: raise the limits (ulimit -n, ulimit -u)");
    } else {
        rc = zkl__stop_watch(session, err);
    }
    session->status.closing = rc != ZKL_OK;
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

static int refused(struct zkl__call *call)
{
    zkl_session *session = call->session;
    const struct zkl__settings *settings = &session->settings;
    if (settings->options.sasl) {
        char words[160];
        get_complaint(session, words, sizeof words);
        FAIL(call, session->status.why, "%.60s: SASL failed: %s", settings->servers,
             words[0] ? words : "the servers refuse the credentials");
    }
    const char *scheme = settings->options.auth_scheme;
    FAIL(call, session->status.why,
         scheme ? "%.120s: credentials of scheme \"%s\" refused"
                : "%.120s: the servers demand credentials, and there are none",
         settings->servers, scheme);
}

ZKL__SIZED(sized, zkl_session_options, ZKL_SESSION_OPTIONS_INIT, sasl, stop);

/* --- how it goes ------------------------------------------------------------------------------ */

struct opening {
    struct zkl__call call; /* first */
    int64_t began;         /* CLOCK_BOOTTIME, ns */
    bool connected;
};

static int fail_to_open(struct zkl__call *call)
{
    const struct opening *opening = (const struct opening *)call;
    zkl_session *session = call->session;
    const struct zkl__settings *settings = &session->settings;
    const zkl_error *why = &session->status.open_error;
    int64_t waited_ms = (zkl__clock_now() - opening->began) / ZKL__MS;
    int64_t wanted_ms = session->status.closing ? waited_ms : settings->options.connect_timeout_ms;
    if (opening->connected) {
        FAIL(call, ZKL_ECONNECT, "%.120s took the connection and gave no further answer",
             settings->servers);
    }
    if (zkl__out_of_descriptors()) {
        FAIL(call, ZKL_ELIMIT, "%s", ZKL__NO_DESCRIPTOR);
    }
    if (is_hopeless(why)) {
        return zkl__fail(call->err, why->code, why->zk_code, NULL, "%s", why->text);
    }
    /* A port that was forgotten is the likeliest reason where one is missing. */
    size_t length = 0;
    const char *portless = zkl__store_without_port(settings->servers, &length);
    char hint[96] = "", words[sizeof why->text];
    snprintf(words, sizeof words, "%s", why->text);
    if (portless) {
        snprintf(hint, sizeof hint, " ('%.*s' has no port: 2181 is tried)",
                 (int)(length < 48 ? length : 48), portless);
    }
    if (!words[0]) {
        get_complaint(session, words, sizeof words);
    }
    FAIL(call, ZKL_ECONNECT, "no response from %.120s within %lld ms%s%s%s", settings->servers,
         (long long)(waited_ms < wanted_ms ? waited_ms : wanted_ms), hint, words[0] ? ": " : "",
         words);
}

/* A chroot is never made here: one that is missing is most often a slip of the pen. The look for it
 * is sent again when its reply is lost. */
static int run(struct zkl__call *call)
{
    struct opening *opening = (struct opening *)call;
    zkl_session *session = call->session;
    const struct zkl__status *status = &session->status;
    if (status->state == ZKL_SESSION_CLOSED && !status->closing) {
        return refused(call); /* also when connected first: so the servers do it */
    }
    CALL_BEGIN(call);
    /* Names of servers that do not resolve yet are tried again, as servers that do not answer are.
     */
    AWAIT_CALL(call, status->state == ZKL_SESSION_CONNECTED ? ZKL_OK
                     : is_hopeless(&status->open_error)     ? fail_to_open(call)
                                                            : ZKL__PENDING);
    opening->connected = true;
    AWAIT(call, {.kind = ZKL__OP_EXISTS, .dir = "/"});
    if (call->answer.rc == ZKL__RC_NONODE) {
        const char *servers = session->settings.servers;
        return zkl__fail_at(call->err, ZKL_ENOENT, strchr(servers, '/'),
                            "the chroot of %.120s does not exist", servers);
    }
    /* The servers' roles are known by now: they were asked for before the chroot. */
    const struct zkl__core_facts facts = zkl__core_facts(session->core);
    return zkl__lease_check(&session->settings.options, facts.timeout, facts.hops, call->err);
    CALL_END(call);
}

/* When the time is up, which only the form that blocks knows, or the session is closed before it is
 * open, the error's text says why it is not. When it was begun, and did not come to be, nothing
 * that was made from it meanwhile goes on. */
static int end(struct zkl__call *call, int rc)
{
    zkl_session *session = call->session;
    bool late = rc == ZKL_ETIMEOUT;
    int why = late || rc == ZKL_ECLOSED ? fail_to_open(call) : rc;
    if (call->done && rc != ZKL_OK && !session->status.closing &&
        session->status.state != ZKL_SESSION_CLOSED) {
        zkl__session_set_state(session, ZKL_SESSION_CLOSED, rc);
        ZKL__EACH_LEAVING (struct zkl__object, object, &session->objects, link) {
            zkl__object_stop(object);
        }
    }
    return late ? why : rc;
}

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
    struct opening opening = {.call = {.run = run, .end = end}, .began = zkl__clock_now()};
    zkl__cancel_hold();
    int rc = zkl__sized_take(&o, options, &sized, err);
    rc = rc == ZKL_OK ? start(&session, servers, &o, err) : rc;
    if (rc == ZKL_OK) {
        zkl__session_enter_if_ours(session);
        rc = zkl__call_begin(&opening, sizeof opening, session, "",
                             waits ? o.connect_timeout_ms : ZKL_WAIT_FOREVER, done, payload, err);
        if (rc == ZKL_OK && waits && o.state_fn) {
            rc = zkl__session_want_callbacks(session, NULL, err);
        }
        session->status.reports_changes = rc == ZKL_OK;
        if (rc == ZKL_OK && !waits && o.state_fn &&
            session->status.state != ZKL_SESSION_SUSPENDED) {
            note_state(session, session->status.state); /* the store's thread was here before */
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
    if (session && zkl__session_enter_if_ours(session)) {
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
    zkl__cancel_hold();
    zkl__session_retain(session); /* its last callback may run in the loop, and free it */
    zkl__loop_go_on();
    int rc = zkl__session_enter_even_closed(session, NULL);
    if (rc == ZKL_OK) {
        struct zkl__callbacks *callbacks = &session->callbacks;
        rc = callbacks->dispatched ? zkl__callbacks_dispatch(callbacks) : ZKL_EUNSUPPORTED;
        rc = rc >= 0 && callbacks->stop && !callbacks->running ? ZKL_ECLOSED : rc;
        zkl__session_leave(session);
    }
    if (rc != ZKL_EFORKED) { /* a callback forked: the child frees nothing */
        zkl__session_drop(session);
    }
    zkl__cancel_allow();
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
    return lease > 0 ? lease : 0;
}

int64_t zkl_session_least_lease_ms(zkl_session *session)
{
    return lease_ms(session, zkl__core_least_lease);
}

int64_t zkl_session_low_lease_ms(zkl_session *session)
{
    return lease_ms(session, zkl__core_low_lease);
}
