/* open.c - the begin of a session, blocking or asynchronous. */
#include "call.h"
#include "shell.h"
#include "store.h"

#include "base.h"
#include "options.h"
#include "lease.h"

#include <stdio.h>
#include <string.h>

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

static int fail_unreachable(zkl_session *session, zkl_error *err)
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
                        settings->servers, (long long)settings->options.connect_timeout_ms, hint,
                        words[0] ? ": " : "", words);
}

ZKL__SIZED(sized, zkl_session_options, ZKL_SESSION_OPTIONS_INIT, sasl, stop);

/* --- how it goes ------------------------------------------------------------------------------ */

struct opening {
    struct zkl__call call; /* first */
    bool connected;
};

/* Names of servers that do not resolve yet are tried again, as servers that do not answer are. */
static int await_connection(zkl_session *session, zkl_error *err)
{
    const struct zkl__status *status = &session->status;
    if (status->state == ZKL_SESSION_CONNECTED) {
        return ZKL_OK;
    }
    return is_hopeless(&status->open_error) ? fail_unreachable(session, err) : ZKL__PENDING;
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
    AWAIT_CALL(call, await_connection(session, call->err));
    opening->connected = true;
    AWAIT(call, {.kind = ZKL__OP_EXISTS, .dir = "/"});
    if (call->answer.rc == ZKL__RC_NONODE) {
        const char *servers = session->settings.servers;
        RETURN(call, zkl__fail_at(call->err, ZKL_ENOENT, strchr(servers, '/'),
                                  "the chroot of %.120s does not exist", servers));
    }
    /* The servers' roles are known by now: they were asked for before the chroot. */
    RETURN(call, zkl__lease_check(&session->settings.options, zkl__core_timeout(session->core),
                                  zkl__core_hops(session->core), call->err));
    CALL_END(call);
}

/* Only the form that blocks ends by the time. */
static int run(struct zkl__call *call)
{
    struct opening *opening = (struct opening *)call;
    zkl_session *session = call->session;
    int rc = await_session(opening);
    if (rc != ZKL__PENDING || zkl__clock_now() < call->deadline) {
        return rc;
    }
    if (opening->connected) {
        return zkl__fail_at(call->err, ZKL_ECONNECT, NULL,
                            "%.120s took the connection and gave no further answer",
                            session->settings.servers);
    }
    return fail_unreachable(session, call->err);
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

static const struct zkl__call_kind kind = {.size = sizeof(struct opening), .run = run, .end = end};

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
    struct opening opening = {.connected = false};
    zkl__cancel_hold();
    int rc = zkl__sized_take(&o, options, &sized, err);
    rc = rc == ZKL_OK ? zkl__session_start(&session, servers, &o, err) : rc;
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
