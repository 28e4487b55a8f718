/* session.c - the session as its user sees it: open, close, callbacks, facts. */
#include "await.h"
#include "inside.h"
#include "procedure.h"

#include "error.h"
#include "sized.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GIVE_UP_MS 500 /* for the end of a session that did not come to be */

/* --- open ------------------------------------------------------------------------------------ */

static bool hopeless(int code)
{
    return code != ZKL_OK && code != ZKL_ECONNECT;
}

/* What the store says about it; empty: nothing. */
static void ask_store(zkl_session *session, char *words, size_t size)
{
    *words = '\0';
    if (session->store && session->store_ops->complaint) {
        session->store_ops->complaint(session->store, words, size);
    }
}

static int refused(zkl_session *session, zkl_error *err)
{
    const struct zkl__settings *settings = zkl__session_settings(session);
    if (settings->sasl) {
        char words[160];
        ask_store(session, words, sizeof words);
        return zkl__fail(err, zkl__session_status(session)->why, 0, NULL, "%.60s: SASL failed: %s",
                         settings->servers,
                         words[0] ? words : "the servers refuse the credentials");
    }
    return zkl__fail(err, zkl__session_status(session)->why, 0, NULL,
                     "%.120s: credentials of scheme \"%s\" refused", settings->servers,
                     settings->scheme ? settings->scheme : "none");
}

/* A port that was forgotten is the likeliest reason where one is missing. */
static int no_answer(zkl_session *session, zkl_error *err)
{
    const struct zkl__settings *settings = zkl__session_settings(session);
    size_t length = 0;
    const char *portless = zkl__store_without_port(settings->servers, &length);
    char hint[96] = "", words[sizeof err->text];
    snprintf(words, sizeof words, "%s", zkl__session_status(session)->open_error.text);
    if (portless) {
        snprintf(hint, sizeof hint, " ('%.*s' has no port: 2181 is tried)",
                 (int)(length < 48 ? length : 48), portless);
    }
    if (!words[0]) {
        ask_store(session, words, sizeof words);
    }
    return zkl__fail(err, ZKL_ECONNECT, 0, NULL, "no answer from %.120s within %lld ms%s%s%s",
                     settings->servers, (long long)settings->options.connect_timeout_ms, hint,
                     words[0] ? ": " : "", words);
}

/* The client library does not say that it got no socket. */
static bool out_of_descriptors(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    if (fd < 0) {
        return errno == EMFILE || errno == ENFILE;
    }
    close(fd);
    return false;
}

/* Inside. Names of servers that do not resolve yet are tried again until the deadline, as servers
 * that do not answer are. */
static int await_connection(zkl_session *session, int64_t deadline, zkl_error *err)
{
    struct zkl__status *status = zkl__session_status(session);
    bool more = true;
    while (status->state != ZKL_SESSION_CONNECTED && status->state != ZKL_SESSION_CLOSED && more &&
           !hopeless(status->open_error.code) && !zkl__session_stopped(session)) {
        more = zkl__session_wait(session, &status->changed, deadline);
    }
    if (status->state == ZKL_SESSION_CONNECTED) {
        return ZKL_OK;
    }
    if (status->state == ZKL_SESSION_CLOSED) {
        return refused(session, err);
    }
    if (zkl__session_stopped(session)) {
        return zkl__fail(err, ZKL_ECANCELED, 0, NULL, "the stop token is raised");
    }
    const zkl_error *failed = &status->open_error;
    if (out_of_descriptors()) {
        return zkl__fail(
            err, ZKL_ELIMIT, 0, NULL,
            "no file descriptor is left for a connection: raise the limit (ulimit -n)");
    }
    if (hopeless(failed->code)) {
        return zkl__fail(err, failed->code, failed->zk_code, NULL, "%s", failed->text);
    }
    return no_answer(session, err);
}

static void look_exists(void *arg, const struct zkl__reply *reply)
{
    *(bool *)arg = reply->rc != ZKL__RC_NONODE;
}

/* Inside. A chroot is never made here: one that is missing is most often a slip of the pen. */
static int check_chroot(zkl_session *session, int64_t deadline, zkl_error *err)
{
    const char *servers = zkl__session_settings(session)->servers;
    bool there = true;
    const struct zkl__op op = {.kind = ZKL__OP_EXISTS, .dir = "/"};
    zkl_error why;
    int rc = zkl__session_insist(session, &op, deadline, look_exists, &there, &why);
    if (rc == ZKL_ECLOSED) {
        return refused(session, err); /* first connected, then refused: so the servers do it */
    }
    if (rc != ZKL_OK && rc != ZKL_ETIMEOUT) {
        return zkl__fail(err, rc, 0, NULL, "%s", why.text);
    }
    if (rc != ZKL_OK) {
        return zkl__fail(err, ZKL_ECONNECT, 0, NULL,
                         "%.120s took the connection and gave no further answer", servers);
    }
    if (!there) {
        return zkl__fail(err, ZKL_ENOENT, 0, strchr(servers, '/'),
                         "the chroot of %.120s does not exist", servers);
    }
    return ZKL_OK;
}

static int await_open(zkl_session *session, zkl_error *err)
{
    const zkl_session_options *options = &zkl__session_settings(session)->options;
    struct zkl__status *status = zkl__session_status(session);
    int rc = zkl__session_enter_even_closed(session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    int64_t deadline = zkl__deadline(zkl__session_now(session), options->connect_timeout_ms);
    rc = await_connection(session, deadline, err);
    if (rc == ZKL_OK) {
        rc = check_chroot(session, deadline, err);
    }
    if (rc ==
        ZKL_OK) { /* the servers' roles are known by now: they were asked for before the chroot */
        const struct zkl__core *core = zkl__session_core(session);
        rc = zkl__lease_check(options, zkl__core_timeout(core), zkl__core_hops(core), err);
    }
    if (rc == ZKL_OK && options->state_fn &&
        zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        rc = zkl__fail(err, ZKL_ELIMIT, 0, NULL, "no thread for callbacks");
    }
    status->told = rc == ZKL_OK;
    status->closing = rc != ZKL_OK;
    zkl__session_leave(session);
    return rc;
}

ZKL__SIZED(sized, zkl_session_options, ZKL_SESSION_OPTIONS_INIT, sasl, stop);

int zkl__session_options_take(zkl_session_options *own, const zkl_session_options *given,
                              zkl_error *err)
{
    return zkl__sized_take(own, given, &sized, err);
}

static int start_and_await(zkl_session **out, const char *servers,
                           const zkl_session_options *options, zkl_error *err)
{
    zkl_session_options o;
    zkl_session *session = NULL;
    int rc = zkl__session_options_take(&o, options, err);
    rc = rc == ZKL_OK ? zkl__session_start(&session, servers, &o, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = await_open(session, err);
    if (rc != ZKL_OK) {
        zkl__session_stop(session, zkl__deadline(zkl__session_now(session), GIVE_UP_MS));
        return rc;
    }
    *out = session;
    return ZKL_OK;
}

int zkl_session_open(zkl_session **out, const char *servers, const zkl_session_options *options,
                     zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !servers) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "servers" : "out");
    }
    zkl__cancel_hold();
    int rc = start_and_await(out, servers, options, err);
    zkl__cancel_allow();
    return rc;
}

/* --- close ----------------------------------------------------------------------------------- */

static void note_waiting(const char *path, zkl_state state, int64_t token, void *payload)
{
    (void)path, (void)token;
    *(bool *)payload = state == ZKL_STATE_WAITING;
}

/* Inside. What runs under a grant is told to end, and what it holds stays held until it has: close
 * lets nobody in beside it while there is time. What waits is given up at once, since what is to
 * end may wait for it. */
static void stop_tasks(zkl_session *session, int64_t deadline)
{
    bool more = zkl__session_has_tasks(session);
    if (!more) {
        return;
    }
    zkl__session_stop_tasks(session);
    for (struct zkl__object *object = zkl__session_objects(session), *next; object; object = next) {
        bool waiting = false;
        next = object->next;
        object->ops->describe(object, note_waiting, &waiting);
        if (waiting) {
            object->ops->give_up(object, ZKL_ECLOSED);
        }
    }
    while (more && zkl__session_has_tasks(session)) {
        more = zkl__session_wait(session, &zkl__session_status(session)->changed, deadline);
    }
}

/* Inside. Everything pending is told, everything held is on its way out; then until the core has
 * seen it all go. */
static void give_up_all(zkl_session *session, int64_t deadline)
{
    struct zkl__status *status = zkl__session_status(session);
    status->closing = true;
    for (struct zkl__object *object = zkl__session_objects(session), *next; object; object = next) {
        next = object->next; /* what its user has freed already may end here */
        object->ops->give_up(object, ZKL_ECLOSED);
    }
    zkl__procedures_end(session, NULL, ZKL_ECLOSED);
    zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_CLOSE});
    bool more = true;
    while (more && !zkl__core_idle(zkl__session_core(session))) {
        more = zkl__session_wait(session, &status->changed, deadline);
    }
}

int zkl_session_close(zkl_session *session, int64_t timeout_ms)
{
    if (!session) {
        return ZKL_OK;
    }
    int rc = zkl__session_enter_even_closed(session, NULL);
    if (rc != ZKL_OK) {
        return rc;
    }
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    const struct zkl__status *status = zkl__session_status(session);
    if (zkl__callbacks_inside(zkl__session_callbacks(session), NULL) ||
        zkl__session_in_task(session)) {
        rc = ZKL_EDEADLK;
    } else if (status->closing || status->stopping) {
        rc = ZKL_ECLOSED;
    } else {
        stop_tasks(session, deadline);
        give_up_all(session, deadline);
    }
    zkl__session_leave(session);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl__cancel_hold();
    rc = zkl__session_stop(session, deadline);
    zkl__cancel_allow();
    return rc == ZKL_OK || rc == ZKL_EFORKED ? rc : ZKL_ETIMEOUT;
}

/* --- callbacks ------------------------------------------------------------------------------- */

int zkl_session_fd(zkl_session *session)
{
    return session && !zkl__session_forked(session) ? zkl__session_callbacks(session)->fd : -1;
}

int zkl_session_dispatch(zkl_session *session)
{
    if (!session) {
        return ZKL_EINVAL;
    }
    int rc = zkl__session_enter_even_closed(session, NULL);
    if (rc == ZKL_OK) {
        struct zkl__callbacks *callbacks = zkl__session_callbacks(session);
        rc = callbacks->dispatched ? zkl__callbacks_dispatch(callbacks) : ZKL_EUNSUPPORTED;
        zkl__session_leave(session);
    }
    return rc;
}

/* --- facts: of a closed session too; in a child of fork there are none ----------------------- */

const char *zkl_session_state_name(zkl_session_state state)
{
    static const char *const names[] = {"connected", "suspended", "lost", "closed"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "?";
}

static int64_t fact(zkl_session *session, int64_t (*get)(const struct zkl__core *core),
                    int64_t unit)
{
    if (!session || zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return 0;
    }
    int64_t value = get(zkl__session_core(session)) / unit;
    zkl__session_leave(session);
    return value;
}

zkl_session_state zkl_session_get_state(zkl_session *session)
{
    zkl_session_state state = ZKL_SESSION_CLOSED;
    if (session && zkl__session_enter(session, NULL) == ZKL_OK) {
        state = zkl__session_status(session)->state;
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
