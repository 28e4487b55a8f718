/* zookeeper.c - the store that is a ZooKeeper ensemble, through its C client library: open, events,
 * housekeeping, close.
 *
 * Defects and limits of that library, and what is done about each. No other file knows of them.
 * Seen with 3.8.0, and not repaired in 3.9 or 3.10 where no version is named. Tests are those of
 * tests/integration unless another folder is named.
 *
 * Addresses
 *  - ZOOKEEPER-2466: of an even number of addresses it never tries every other one. An odd number
 *    is given (remaining). Test: fuzz_servers.
 *  - It resolves names on its I/O thread, and spins when that fails. It is given addresses
 *    (zookeeper_addresses.c). Test: test_store_names.c.
 *  - ZOOKEEPER-1998: it parses all addresses in every iteration of its loop. Switched off
 *    (start). No test: only speed suffers.
 *  - ZOOKEEPER-4699, repaired in 3.9.4: zoo_set_servers takes no care of the I/O thread. Called
 *    only without a connection (zkl__zk_take_addresses). Test: test_server_moves.
 *  - ZOOKEEPER-4810: zoo_get_current_server shares one buffer. What is no address of ours is not
 *    believed (begin_next). No test: a race in the library.
 *  - A server that is silent holds an attempt for two thirds of the timeout. An attempt has a limit
 *    of ours (zkl__zk_attempt_next). Test: test_frozen_server.
 * Connections
 *  - ZOOKEEPER-800: zoo_add_auth is refused without a connection, and cuts a request in two that is
 *    half sent. Called first of all on the first connection (on_connected). Test:
 *    test_auth_after_reconnect.
 *  - It does not report a loss when its socket is closed from outside its I/O thread. A loss
 *    precedes every connection (on_connected). Test: test_cuts_under_load.
 *  - It reports whatever state a server puts into a watch event, also behind the end of the
 *    session. That is ignored (zkl__zk_watcher). Test: test_garbage.c.
 *  - ZOOKEEPER-4537, a server of 3.6.0 to 3.8.0: it sleeps on a committed write; and the library
 *    sends no ping while it waits for a response. A request is sent (store_tick). Test:
 *    test_stalled_answer.
 *  - ZOOKEEPER-706: it sets all watches again in one packet. Their bytes are limited
 *    (watch_bytes_max). Test: unit_tables.
 *  - Its socket and its pipe stay open in programs that are started. They are found and marked
 *    (zkl__zk_init_hidden, zkl__zk_hide_socket). Test:
 *    test_nothing_is_inherited.
 *  - Its signal mask is the caller's (zkl__signals_hold). Test: test_signals.
 * Operations
 *  - Its blocking calls have no time limit, and its read-only mode makes up responses. Neither is
 *    used. Test: test_never_blocks.c.
 *  - ZOOKEEPER-2894, ZOOKEEPER-3868: at a loss or a close, completions come late or never. The
 *    table of operations is ours (zookeeper_ops.c). Test: test_close_with_500_outstanding.
 *  - It aborts on the response to a container in a multi, frees foreign memory for a bad path
 *    in one, or on a dead handle; its chroot is unsafe there. Refused before, and paths have
 *    the chroot (zkl__store_check, path_make, send_multi). Tests: test_refused_parts,
 *    tests/conformance.
 *  - It takes a list that ends too early for a whole one. As if throttled (is_whole). Test:
 *    test_garbage.c.
 *  - It calls every distinct watcher for every session event. There is one (zkl__zk_watcher). Test:
 *    tests/cost.
 *  - Its log callback has no context. Each store has one of its own (zkl__zk_log_open). Test:
 *    fuzz_log.
 * The end
 *  - It closes with responses unread, which resets the connection, so the server drops its
 *    closeSession. All is read before (drain). Test: test_busy of test_close.c.
 *  - zookeeper_close takes up to 4.5 s and does not report whether the server responded. It runs
 *    on a thread of its own, which looks for the response (close_and_confirm). Tests:
 *    test_slow_goodbye, test_goodbye_without_an_answer.
 * Security
 *  - A failure of SASL ends its I/O thread without an event (store_tick); its TLS never
 *    compares the server's name, and names no cause (zkl__zk_tls_check). Test:
 *    tests/unit/test_tls_peers.c, tests/security/soak_secure.sh.
 *  - Repaired in 3.10: its TLS takes no authority alone (zkl__zk_takes_ca_alone). Test:
 *    tests/security/test_transport.c. */
#include <stdio.h>
#include <string.h>

#include "acl.h"
#include "base.h"
#include "zookeeper_store.h"

#define REFRESH_NS (1000 * ZKL__MS)
#define RESOLVE_NS (5000 * ZKL__MS)
#define NAMES_WAIT_MS 200
#define NUDGE_NS (100 * ZKL__MS)

/* --- events, on the library's completion thread ---------------------------------------------- */

/* Drops the mutex. up: from now on the session is connected. */
static void unlock_and_report(struct zkl__store *store, bool up)
{
    struct zkl__connection connection = {.session_id = zoo_client_id(store->zh)->client_id,
                                         .timeout_ms = zoo_recv_timeout(store->zh),
                                         .fresh = !store->fresh_reported,
                                         .began_ns = store->began_ns};
    store->up = store->up || up;
    store->fresh_reported = store->fresh_reported || up;
    zkl__signal_raise(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    if (up) {
        store->events.connected(store->ctx, &connection);
    }
}

static void probed(int rc, const struct Stat *stat, const void *data)
{
    struct zkl__store *store = (struct zkl__store *)(uintptr_t)data;
    (void)stat;
    pthread_mutex_lock(&store->mutex);
    store->inside = true;
    store->probe_count--;
    bool answered = zkl__rc_is_response(zkl__zk_rc(rc)) && store->linked;
    store->drained = answered ? store->phase == ZK_CLOSING : store->drained;
    unlock_and_report(store, answered && store->phase == ZK_OPEN && !store->up);
    zkl__zk_leave(store);
}

/* exists("/"), with the mutex held. Its response proves that all earlier ones have arrived. */
static void probe(struct zkl__store *store)
{
    store->probe_count += zoo_aexists(store->zh, "/", 0, probed, store) == ZOK;
}

/* A connection or, when it has ended, the session is lost. The library queues this event before the
 * responses that it makes up for pending operations. Nothing waits for them: an op that is
 * submitted while the connection breaks is kept for the next one. */
static void on_lost(struct zkl__store *store, enum zkl__end end)
{
    pthread_mutex_lock(&store->mutex);
    bool was_up = store->up, tell = store->phase != ZK_CLOSED;
    store->linked = store->up = store->drained = false;
    store->answered_ns = store->resolve_ns = 0;
    store->end = end;
    zkl__signal_raise(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    if (tell && end != ZKL__END_NONE) {
        store->events.expired(store->ctx, end);
    } else if (tell && was_up) {
        store->events.suspended(store->ctx);
    }
    zkl__zk_reply_unknown(store);
}

/* First the loss of the connection before: the library does not report it when its socket is closed
 * from outside its I/O thread (a full pipe, zoo_set_servers).
 *
 * Credentials go out before anybody can submit, for the library puts them in front of its queue,
 * which would cut a request in two that is half sent. Not in open: the library refuses them
 * whenever its last attempt to connect has just failed (ZOOKEEPER-800). From then on it sends them
 * itself, first of all, on every connection. A probe is sent behind them, and its response shows
 * that they were accepted. */
static void on_connected(struct zkl__store *store)
{
    const struct zkl__store_config *config = &store->config;
    on_lost(store, ZKL__END_NONE);
    pthread_mutex_lock(&store->mutex);
    zkl__zk_hide_socket(store);
    store->linked = true;
    store->ever = true;
    bool proven = !config->auth_scheme || store->fresh_reported;
    if (store->phase == ZK_OPEN && !proven) {
        /* Refused, it is lost already: with the next one. */
        store->auth_given =
            store->auth_given || zoo_add_auth(store->zh, config->auth_scheme, config->auth,
                                              (int)config->auth_size, NULL, NULL) == ZOK;
        if (store->auth_given) {
            probe(store);
        }
    }
    unlock_and_report(store, store->phase == ZK_OPEN && proven);
}

/* One function and one context for all watches of a handle: the library calls every distinct pair
 * for every session event, and finds them by a linear search with a lock held. It passes on
 * whatever state a server puts into a watch event (deliverWatchers), also one behind the end of the
 * session: that is no news. Nor is what comes of a handle that was given up. */
void zkl__zk_watcher(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
    struct zkl__store *store = ctx;
    pthread_mutex_lock(&store->mutex);
    bool ours = zh == store->zh, over = store->end != ZKL__END_NONE,
         tell = store->phase != ZK_CLOSED;
    store->inside = store->inside || ours;
    pthread_mutex_unlock(&store->mutex);
    if (!ours) {
        return;
    }
    bool session = !over && type == ZOO_SESSION_EVENT;
    if (session && state == ZOO_CONNECTED_STATE) {
        on_connected(store);
    } else if (session) {
        on_lost(store, state == ZOO_AUTH_FAILED_STATE       ? ZKL__END_AUTH
                       : state == ZOO_EXPIRED_SESSION_STATE ? ZKL__END_EXPIRED
                                                            : ZKL__END_NONE);
    } else if (!over && tell && path && strncmp(path, store->chroot, strlen(store->chroot)) == 0) {
        enum zkl__watch_event event = ZKL__WATCH_CHANGED;
        if (type == ZOO_CREATED_EVENT) {
            event = ZKL__WATCH_CREATED;
        } else if (type == ZOO_DELETED_EVENT) {
            event = ZKL__WATCH_DELETED;
        } else if (type == ZOO_CHILD_EVENT) {
            event = ZKL__WATCH_CHILDREN;
        }
        path += strlen(store->chroot);
        store->events.watch(store->ctx, event, *path == '\0' ? "/" : path);
    }
    zkl__zk_leave(store);
}

/* --- open ------------------------------------------------------------------------------------ */

void zkl__zk_free(struct zkl__store *store)
{
    zkl_heap heap = store->heap;
    zkl__zk_drive_end(store);
    zkl__zk_log_close(store);
    zkl__zk_drop_all(store);
    zkl__zk_names_drop(store->names);
    zkl__free(&heap, store->addresses);
    zkl__free(&heap, store->given);
    zkl__signal_deinit(&store->changed);
    pthread_mutex_destroy(&store->mutex);
    pthread_mutex_destroy(&store->complaint_mutex);
    zkl__free(&heap, store);
}

static const zkl_acl_entry anyone = {ZKL_PERM_ALL, "world", "anyone"};
static const zkl_acl open_to_all = {1, &anyone};

/* A name server that does not respond soon is left to tick, and with TLS to the next try, which
 * checks the servers' certificates first. Events wait at the mutex until *out is written. */
static int reach_servers(struct zkl__store **out, struct zkl__store *store, zkl_error *err)
{
    int hosts = (int)strcspn(store->config.servers, "/");
    zkl__zk_names_resolve(store->names);
    bool answered = zkl__zk_names_wait(store->names, NAMES_WAIT_MS);
    if (store->config.tls && !answered) {
        return zkl__fail_at(err, ZKL_ECONNECT, NULL, "the names of %.*s are not resolved yet",
                            hosts, store->config.servers);
    }
    int code = zkl__zk_tls_check(store, err);
    if (code != ZKL_OK) {
        return code;
    }
    pthread_mutex_lock(&store->mutex);
    code = zkl__zk_take_addresses(store, err);
    if (code == ZKL_OK && answered && !store->zh) {
        code = zkl__fail_at(err, ZKL_ECONNECT, NULL, "no server name of %.*s resolves", hosts,
                            store->config.servers);
    }
    if (code == ZKL_OK) {
        *out = store;
    }
    pthread_mutex_unlock(&store->mutex);
    return code;
}

static int store_open(struct zkl__store **out, const struct zkl__store_config *config,
                      const struct zkl__store_events *events, void *ctx, zkl_error *err)
{
    int code = zkl__zk_secure_check(config, err);
    if (code != ZKL_OK) {
        return code;
    }
    struct zkl__store *store = zkl__zalloc(&config->heap, sizeof *store);
    if (!store) {
        return zkl__fail_at(err, ZKL_ENOMEM, NULL, "out of memory");
    }
    store->heap = config->heap;
    store->events = *events;
    store->ctx = ctx;
    store->config = *config;
    if (!config->acl) {
        store->config.acl = config->auth_scheme ? &zkl__store_creator_only : &open_to_all;
    }
    store->chroot = config->servers + strcspn(config->servers, "/");
    store->chroot += strcmp(store->chroot, "/") == 0;
    store->part_bytes = strlen(store->chroot) + zkl__acl_size(store->config.acl);
    store->names = zkl__zk_names_new(config->servers);
    pthread_mutex_init(&store->complaint_mutex, NULL);
    pthread_mutex_init(&store->mutex, NULL);
    zkl__signal_init(&store->changed);
    zkl__zk_log_open(store);
    code = store->names ? zkl__zk_drive_start(store) : ZKL_ENOMEM;
    if (code != ZKL_OK) {
        zkl__fail_at(err, code, NULL, "%s", zkl_strerror(code));
    } else {
        code = reach_servers(out, store, err);
    }
    if (code != ZKL_OK) {
        zkl__zk_free(store);
    }
    return code;
}

/* --- housekeeping ---------------------------------------------------------------------------- */

static int64_t store_tick(struct zkl__store *store, int64_t now)
{
    int64_t next = INT64_MAX;
    pthread_mutex_lock(&store->mutex);
    bool open = store->phase == ZK_OPEN && store->end == ZKL__END_NONE;
    /* The library does not report that SASL failed: it sets the state of the handle, and its I/O
     * thread ends (zk_sasl.c, zoo_sasl_mark_failed). */
    bool failed =
        open && store->config.sasl && store->zh && zoo_state(store->zh) == ZOO_AUTH_FAILED_STATE;
    if (open && !failed && !store->linked) {
        /* Servers may have moved to other addresses while we were connected to one: ask, when the
         * connection is lost, and again. */
        if (now >= store->resolve_ns) {
            zkl__zk_names_resolve(store->names);
            store->resolve_ns = now + RESOLVE_NS;
        }
        bool answered = zkl__zk_names_wait(store->names, 0);
        if (answered || !store->zh) {
            (void)zkl__zk_take_addresses(store, NULL); /* what fails now is tried again */
        }
        int64_t attempt = zkl__zk_attempt_next(store, now);
        next = now + (answered ? REFRESH_NS : NUDGE_NS);
        next = attempt < next ? attempt : next;
    } else if (open && !failed && store->waiting.first) {
        /* ZOOKEEPER-4537: a server may commit a write and then sleep on it until it gets another
         * request; and the library sends no pings while it waits for a response. So send a request.
         */
        int64_t sent = ((struct zk_op *)store->waiting.first)->sent_ns;
        int64_t since = sent > store->nudge_ns ? sent : store->nudge_ns;
        if (now - since >= NUDGE_NS) {
            probe(store);
            since = store->nudge_ns = now;
        }
        next = since + NUDGE_NS;
    }
    pthread_mutex_unlock(&store->mutex);
    if (failed) {
        on_lost(store, ZKL__END_AUTH);
    }
    return next;
}

static void store_complaint(struct zkl__store *store, char *text, size_t size)
{
    pthread_mutex_lock(&store->mutex);
    bool known = store->addresses != NULL;
    pthread_mutex_unlock(&store->mutex);
    pthread_mutex_lock(&store->complaint_mutex);
    snprintf(text, size, "%s", known ? store->complaint : "no name server says where that is");
    pthread_mutex_unlock(&store->complaint_mutex);
}

/* --- close ----------------------------------------------------------------------------------- */

/* Until every response was read: a socket that is closed with responses unread resets the
 * connection, the server then drops the library's closeSession, and the session with its znodes
 * lives on for its whole timeout. Sends a probe, unless nothing is on its way. Sends it again,
 * after twice the time each: more often than the network responds, a response would always be on
 * its way. False: responses are still to be read, and there is time; again at *wake. */
static bool drain(struct zkl__store *store, int64_t deadline, int64_t *wake)
{
    int64_t now = zkl__clock_now();
    if (store->phase == ZK_OPEN) {
        store->phase = ZK_CLOSING;
        store->drain_ns = store->probe_ns = now;
        /* The last request was sent a moment ago and has its response, so no ping is on its way
         * either: the library sends one when it has sent nothing for a third of the session timeout
         * (zookeeper_interest). */
        store->drained = store->linked && store->op_count == 0 && store->answered_ns > 0 &&
                         now - store->answered_ns < zoo_recv_timeout(store->zh) * ZKL__MS / 6;
    }
    bool all = store->drained && !store->waiting.first && store->probe_count == 0;
    if (!store->ever || store->end != ZKL__END_NONE || all || now >= deadline) {
        store->all_read = all;
        store->close_code = store->end == ZKL__END_EXPIRED ? ZKL_OK
                            : store->linked                ? ZKL_ETIMEOUT
                                                           : ZKL_ECONNECT;
        return true;
    }
    if (store->linked && now >= store->probe_ns) {
        probe(store);
        int64_t pause = now - store->drain_ns;
        store->probe_ns = now + (pause > NUDGE_NS ? pause : NUDGE_NS);
    }
    *wake = now + NUDGE_NS < deadline ? now + NUDGE_NS : deadline;
    return false;
}

static int store_close(struct zkl__store *store, int64_t timeout_ms, int64_t *again_ms)
{
    bool limited = timeout_ms >= 0 && timeout_ms <= INT64_MAX / ZKL__MS / 2, parted = false;
    int64_t deadline = limited ? zkl__clock_now() + timeout_ms * ZKL__MS : INT64_MAX, wake;
    pthread_mutex_lock(&store->mutex);
    while (!parted) {
        if (store->phase == ZK_CLOSED || drain(store, deadline, &wake)) {
            store->phase = ZK_CLOSED;
            wake = deadline;
            pthread_mutex_unlock(&store->mutex);
            parted = zkl__zk_part(store, deadline);
            pthread_mutex_lock(&store->mutex);
        }
        if (!parted && again_ms && zkl__threadless) {
            int64_t left = wake - zkl__clock_now();
            *again_ms = wake == INT64_MAX ? ZKL_WAIT_FOREVER : left > 0 ? left / ZKL__MS + 1 : 1;
            pthread_mutex_unlock(&store->mutex);
            return ZKL_OK;
        }
        if (!parted) {
            zkl__signal_wait(&store->changed, &store->mutex, wake);
        }
    }
    int code = store->all_read && store->confirmed ? ZKL_OK : store->close_code;
    bool orphaned = store->orphaned = store->parting > 0;
    pthread_mutex_unlock(&store->mutex);
    if (!orphaned) {
        zkl__zk_free(store);
    }
    return code;
}

const struct zkl__store_ops zkl__store_zookeeper = {
    .name = "zookeeper",
    .has_observers = true,
    .watch_bytes_max = 700000, /* ZOOKEEPER-706: all watches are set again in one packet, and the
                                  server takes 1 MB */
    .ops_max = 10000,
    .open = store_open,
    .submit = zkl__zk_submit,
    .tick = store_tick,
    .close = store_close,
    .complaint = store_complaint,
};
