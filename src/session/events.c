/* events.c - events of the store become steps of the core, operations of the core go to the store,
 * and changes of the session are reported to the user. */
#include "call.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_SOON (100 * ZKL__MS)

/* path NULL: about none; else contender: its number, 0: about the object. */
static void put(const zkl_session *session, zkl_log_level level, const char *source,
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

/* who: "session", "client", or a contender's "path#number". */
static void log_line(const zkl_session *session, zkl_log_level level, const char *who,
                     const char *what)
{
    char path[ZKL_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s", who);
    char *number = who[0] == '/' ? strrchr(path, '#') : NULL;
    if (number) {
        *number = '\0';
        put(session, level, "contender", path, (unsigned)strtoul(number + 1, NULL, 10), what);
    } else {
        put(session, level, who, NULL, 0, what);
    }
}

void zkl__session_log(const zkl_session *session, zkl_log_level level, const char *noun,
                      const char *path, const char *what)
{
    put(session, level, noun, path, 0, what);
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
    zkl__session_event(session, event);
    zkl__session_arm(session);
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
        log_line(session, ZKL_LOG_WARN, "session", text);
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

static void on_log(void *ctx, zkl_log_level level, const char *line)
{
    log_line(ctx, level, "client", line);
}

static const struct zkl__store_events events = {
    .connected = on_connected,
    .suspended = on_suspended,
    .expired = on_expired,
    .reply = on_reply,
    .watch = on_watch,
    .closing = on_closing,
    .log = on_log,
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

void zkl__session_set_state(zkl_session *session, zkl_connection_state state, int why)
{
    static const char *const names[] = {"connected", "suspended", "lost", "closed"};
    if (state == session->status.state || session->status.failed) {
        return;
    }
    session->status.state = state;
    session->status.why = why;
    log_line(session,
             state == ZKL_SESSION_CONNECTED || why == ZKL_ECLOSED ? ZKL_LOG_INFO : ZKL_LOG_WARN,
             "session", names[state]);
    if (state == ZKL_SESSION_LOST) {
        zkl__alarms_set(&session->alarms, &session->open.alarm, 0);
    }
    zkl__session_wake(session);
    zkl__calls_poke(session, NULL);
    if (session->status.reports_changes && session->settings.options.state_fn) {
        note_state(session, state);
    }
}

void zkl__session_report_state(zkl_session *session)
{
    if (session->settings.options.state_fn && session->status.state != ZKL_SESSION_SUSPENDED) {
        note_state(session, session->status.state);
    }
}

static void on_state(void *ctx, zkl_connection_state state, int code)
{
    zkl__session_set_state(ctx, state, code);
}

static void on_trace(void *ctx, const char *who, const char *what)
{
    log_line(ctx, ZKL_LOG_DEBUG, who, what);
}

static void on_warn(void *ctx, const char *who, const char *what)
{
    log_line(ctx, ZKL_LOG_WARN, who, what);
}

struct zkl__port zkl__session_port(zkl_session *session)
{
    const zkl_session_options *options = &session->settings.options;
    bool traced = options->log_fn && options->log_level == ZKL_LOG_DEBUG;
    return (struct zkl__port){session, submit, on_state, traced ? on_trace : NULL, on_warn};
}

/* --- to the user ----------------------------------------------------------------------------- */

void zkl__session_run_notice(void *arg)
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

void zkl__session_ring_core(void *arg)
{
    zkl_session *session = arg;
    zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_TIME});
    zkl__session_arm(session);
}

void zkl__session_ring_tick(void *arg)
{
    zkl_session *session = arg;
    struct zkl__store *store = session->store;
    struct zkl__status *status = &session->status;
    bool away = status->reports_changes && status->state == ZKL_SESSION_SUSPENDED;
    bool without = away && zkl__out_of_descriptors();
    if (without && !status->without) {
        log_line(session, ZKL_LOG_WARN, "session", ZKL__NO_DESCRIPTOR);
    }
    status->without = without;
    if (store) {
        pthread_mutex_unlock(
            &session->mutex); /* a tick may take what is held around event functions */
        int64_t next = session->store_ops->tick(store, zkl__clock_now());
        pthread_mutex_lock(&session->mutex);
        /* Meanwhile something may have been submitted, or the server lost. */
        bool sooner = session->tick_alarm.timer.set && session->tick_alarm.timer.at < next;
        zkl__alarms_set(&session->alarms, &session->tick_alarm,
                        sooner ? session->tick_alarm.timer.at : next);
    }
}

void zkl__session_ring_open(void *arg)
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
    };
    zkl_error err = {.code = ZKL_OK};
    struct zkl__store *old = session->store, *fresh = NULL;
    session->store = NULL;
    session->opening = true; /* an ended store tells nothing any more, so closing it waits for
                                nobody who waits for this */
    pthread_mutex_unlock(&session->mutex);
    if (old) { /* it is finished. Closing and opening may take their time */
        session->store_ops->close(old, 0, NULL);
    }
    int rc = session->store_ops->open(&fresh, &config, &events, session, &err);
    pthread_mutex_lock(&session->mutex);
    session->opening = false;
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
        log_line(session, ZKL_LOG_WARN, "session", text);
    }
    zkl__signal_raise(&session->status.changed);
    zkl__session_wake(session);
    zkl__calls_poke(session, NULL);
}
