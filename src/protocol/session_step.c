#include "session_inside.h"

#include "heap.h"
#include "name.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* path NULL: the session itself. */
__attribute__((format(printf, 5, 0))) static void
say(const struct zkl__core *core, void (*to)(void *ctx, const char *who, const char *what),
    const char *path, unsigned number, const char *format, va_list args)
{
    char who[ZKL_PATH_MAX + 16], what[512];
    if (to) {
        snprintf(who, sizeof who, path ? "%s#%u" : "session", path ? path : "", number);
        vsnprintf(what, sizeof what, format, args);
        to(core->port.ctx, who, what);
    }
}

void zkl__core_trace_at(struct zkl__core *core, const char *path, unsigned number,
                        const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(core, core->port.trace, path, number, format, args);
    va_end(args);
}

static const char *path_of(const struct zkl__contender *contender)
{
    return contender ? contender->config.path : NULL;
}

void zkl__core_trace(struct zkl__core *core, const struct zkl__contender *contender,
                     const char *format, ...)
{
    if (!core->port.trace) {
        return; /* several times for each acquire, and seldom does anybody listen */
    }
    va_list args;
    va_start(args, format);
    say(core, core->port.trace, path_of(contender), contender ? contender->number : 0, format,
        args);
    va_end(args);
}

void zkl__core_warn(struct zkl__core *core, const struct zkl__contender *contender,
                    const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(core, core->port.warn, path_of(contender), contender ? contender->number : 0, format, args);
    va_end(args);
}

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(
        0x9e3779b97f4a7c15); /* splitmix64: a bijection, so two counts never give one number */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void zkl__core_uuid(struct zkl__core *core, char out[ZKL__UUID_LENGTH + 1])
{
    uint64_t seed[2], words[2];
    memcpy(seed, core->config.seed, sizeof seed);
    core->uuids++;
    words[0] = mix(seed[0] ^ mix(core->uuids));
    words[1] = mix(seed[1] + core->uuids);
    zkl__uuid_format(out, (const uint8_t *)words);
}

/* --- connections ----------------------------------------------------------------------------- */

static void on_connected(struct zkl__core *core, const struct zkl__event *ev)
{
    int64_t gap = core->config.tick_ns / 2 + core->config.pause_ns;
    core->connected = true;
    core->connected_at = core->now;
    core->timeout = ev->timeout;
    core->session_id = ev->session_id;
    if (ev->fresh) {
        zkl__lease_begin(&core->lease, ev->timeout, gap, ev->began);
        core->stats.all.sessions++;
    } else {
        core->stats.all.reconnects++;
        zkl__lease_reconnect(&core->lease, ev->timeout, core->now);
    }
    core->proof_at = core->beat_at = core->now; /* the chain begins at once */
    zkl__core_trace(core, NULL, ev->fresh ? "a new session" : "connected again");
    zkl__core_find_hops(core);
    core->port.state(core->port.ctx, ZKL_SESSION_CONNECTED, ZKL_OK);
    zkl__contenders_post(core, ZKL__CE_CONNECTED, ZKL_OK);
    zkl__semaphores_post(core, ZKL__CE_CONNECTED, ZKL_OK);
    zkl__watchers_wake(core);
}

/* Told when everybody has acted on it. */
static void owe_state(struct zkl__core *core, zkl_connection_state state, int code)
{
    core->owes_state = true;
    core->state = state;
    core->state_code = code;
}

static void tell_state(struct zkl__core *core)
{
    if (core->owes_state) {
        core->port.state(core->port.ctx, core->state, core->state_code);
        core->owes_state = false;
        core->state = (zkl_connection_state)0;
        core->state_code = ZKL_OK;
    }
}

#define AT_ONCE INT64_C(1000000000) /* ns */
#define BROKEN_MOST 5               /* in a row */

/* Behind its connect the client library sets all watches again in one request; a server that takes
 * no request so large (jute.maxbuffer, NIOServerCnxn.readLength) closes the connection, and that
 * goes on for ever. */
static void note_broken(struct zkl__core *core)
{
    bool at_once = core->now - core->connected_at < AT_ONCE;
    if (!at_once || core->watches.count >
                        core->set_again) { /* contenders look anew; the library forgets none */
        core->set_again = core->watches.count;
        core->set_again_bytes = core->watches.bytes;
    }
    core->broken = at_once && core->set_again > 0 ? core->broken + 1 : 0;
    if (core->broken == BROKEN_MOST) {
        zkl__core_warn(
            core, NULL,
            "each of the last %d connections was lost within a second. Each sets %zu watches again "
            "in one "
            "request (their paths: %zu bytes): if the servers' log says \"Len error\", raise "
            "jute.maxbuffer there, or wait for fewer locks in one session",
            BROKEN_MOST, core->set_again, core->set_again_bytes);
    }
}

static void on_suspended(struct zkl__core *core)
{
    if (!core->connected) {
        return;
    }
    core->connected = false;
    note_broken(core);
    core->stats.all.suspensions++;
    for (struct zkl__contender *c = zkl__holders_first(core); c; c = zkl__holders_after(c)) {
        if (c->config.linger > 0) {
            zkl__contender_post(c, ZKL__CE_YIELD);
        }
    }
    zkl__core_trace(core, NULL, "no server");
    zkl__core_answer_unknown(core);
    owe_state(core, ZKL_SESSION_SUSPENDED, ZKL_ECONNECT);
}

static void fire(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct zkl__contender *c = watch->owner;
    if (watch->fired) {
        watch->fired(watch, event);
        return;
    }
    c->mail.watch = event;
    zkl__contender_post(c, ZKL__CE_WATCH + (enum zkl__contender_event_kind)(watch - c->watches));
}

/* The session is over: nothing that was made in it is ours any more. */
static void on_expired(struct zkl__core *core, int code)
{
    core->connected = false;
    core->session_id = 0;
    core->stats.all.expiries++;
    zkl__lease_end(&core->lease);
    zkl__core_trace(core, NULL, "the session ended");
    zkl__core_answer_unknown(core);
    core->ended = code == ZKL_EAUTH;
    zkl__contenders_post(core, ZKL__CE_EXPIRED, code);
    if (core->ended) {
        zkl__contenders_post(core, ZKL__CE_END, code);
        zkl__semaphores_post(core, ZKL__CE_END, code);
    }
    struct zkl__watch *watch;
    while ((watch = zkl__watches_take_any(&core->watches))) {
        fire(watch, ZKL__WATCH_CHANGED);
    }
    zkl__watchers_over(core);
    owe_state(core, core->ended ? ZKL_SESSION_CLOSED : ZKL_SESSION_LOST, code);
}

static void on_watch(struct zkl__core *core, enum zkl__watch_event event, const char *path)
{
    struct zkl__watch *fired = zkl__watches_take(&core->watches, path);
    core->stats.all.watches++;
    while (fired) {
        struct zkl__watch *watch = fired;
        fired = fired->next;
        watch->next = NULL;
        fire(watch, event);
    }
}

static void on_close(struct zkl__core *core)
{
    core->closing = true;
    zkl__contenders_post(core, ZKL__CE_END, ZKL_ECLOSED);
    zkl__semaphores_post(core, ZKL__CE_END, ZKL_ECLOSED);
}

/* --- the step -------------------------------------------------------------------------------- */

static void cancel(const struct zkl__event *ev, int code)
{
    if (ev->joint) {
        zkl__joint_cancel(ev->joint, code);
    } else if (ev->semaphore) {
        zkl__semaphore_cancel(ev->semaphore, code);
    } else {
        ev->contender->mail.code = code;
        zkl__contender_post(ev->contender, ZKL__CE_CANCEL);
    }
}

static void on_start(struct zkl__core *core, const struct zkl__event *ev)
{
    if (ev->joint) {
        zkl__joint_start(ev->joint, ev->deadline, ev->try_only);
    } else if (ev->semaphore) {
        zkl__semaphore_start(ev->semaphore, ev->deadline, ev->try_only);
    } else {
        zkl__contender_start(ev->contender, ev->deadline, ev->try_only);
    }
    if (core->ended || core->closing) {
        cancel(ev, core->ended ? ZKL_EAUTH : ZKL_ECLOSED);
    }
}

static void on_release(const struct zkl__event *ev)
{
    if (ev->joint) {
        zkl__joint_release(ev->joint);
    } else if (ev->semaphore) {
        zkl__semaphore_release(ev->semaphore);
    } else {
        zkl__contender_post(ev->contender, ZKL__CE_RELEASE);
    }
}

static void on_let_go(const struct zkl__event *ev)
{
    if (ev->joint) {
        zkl__joint_end(ev->joint);
    } else if (ev->semaphore) {
        zkl__semaphore_let_go(ev->semaphore);
    } else {
        zkl__contender_leave(ev->contender);
    }
}

static void on_reply(struct zkl__core *core, const struct zkl__event *ev)
{
    struct zkl__pending *p = zkl__pending_find(&core->pendings, ev->id);
    if (p) {
        zkl__core_answer(core, p, ev->reply);
    }
}

/* What concerns one contender, semaphore, watcher or request. */
static void admit_object(struct zkl__core *core, const struct zkl__event *ev)
{
    switch (ev->kind) {
    case ZKL__EV_START:
        on_start(core, ev);
        break;
    case ZKL__EV_CANCEL:
        cancel(ev, ev->code);
        break;
    case ZKL__EV_RELEASE:
        on_release(ev);
        break;
    case ZKL__EV_LET_GO:
        on_let_go(ev);
        break;
    case ZKL__EV_GIVE_BACK:
        zkl__semaphore_give_back(ev->semaphore, ev->count);
        break;
    case ZKL__EV_DOWNGRADE:
        ev->contender->mail.rule = ev->rule;
        zkl__contender_post(ev->contender, ZKL__CE_DOWNGRADE);
        break;
    case ZKL__EV_REQUEST:
        zkl__core_request(core, ev->request, ev->op);
        break;
    case ZKL__EV_WAKE:
        zkl__watcher_wake(ev->watcher);
        break;
    default: /* the session's: admit */
        break;
    }
}

/* What the event changes is changed, and every machine that it concerns has mail. */
static void admit(struct zkl__core *core, const struct zkl__event *ev)
{
    switch (ev->kind) {
    case ZKL__EV_CONNECTED:
        on_connected(core, ev);
        break;
    case ZKL__EV_SUSPENDED:
        on_suspended(core);
        break;
    case ZKL__EV_EXPIRED:
        on_expired(core, ev->code);
        break;
    case ZKL__EV_REPLY:
        on_reply(core, ev);
        break;
    case ZKL__EV_WATCH:
        on_watch(core, ev->watch, ev->path);
        break;
    case ZKL__EV_TIME:
        break;
    case ZKL__EV_LINGER_STOP:
        zkl__core_stop_lingering(core, ev->path);
        break;
    case ZKL__EV_CLOSE:
        on_close(core);
        break;
    case ZKL__EV_START:
    case ZKL__EV_CANCEL:
    case ZKL__EV_RELEASE:
    case ZKL__EV_LET_GO:
    case ZKL__EV_GIVE_BACK:
    case ZKL__EV_DOWNGRADE:
    case ZKL__EV_REQUEST:
    case ZKL__EV_WAKE:
        admit_object(core, ev);
        break;
    }
}

void zkl__session_step(struct zkl__core *core, const struct zkl__event *event)
{
    zkl__core_begin(core, event->now);
    if (event->kind == ZKL__EV_LET_GO && event->semaphore) {
        zkl__semaphore_silence(event->semaphore); /* nor is it told what this very step finds */
    }
    /* Time first: who has lost by the clock has lost, whatever the event says. */
    zkl__core_end_lapsed_leases(core);
    zkl__core_drain(core);
    admit(core, event);
    zkl__core_drain(core);
    tell_state(core);
    zkl__free(&core->config.heap, core->index); /* the reply that it is of was read by all */
    core->index = NULL;
    bool due = zkl__core_post_due_timers(core);
    zkl__core_keep_alive(core);
    while (due) {
        zkl__core_drain(core);
        due = zkl__core_post_due_timers(core);
    }
    zkl__core_drain(core);
    zkl__core_end_lapsed_leases(core);
    zkl__core_finish(core);
}

bool zkl__core_holds(const struct zkl__core *core, const struct zkl__contender *contender,
                     const struct zkl__joint *joint, const struct zkl__semaphore *semaphore,
                     int64_t now)
{
    return joint       ? zkl__joint_holds(core, joint, now)
           : semaphore ? zkl__semaphore_holds(core, semaphore, now)
                       : zkl__contender_holds(core, contender, now);
}

/* --- life, and facts ------------------------------------------------------------------------- */

struct zkl__core *zkl__core_new(const struct zkl__core_config *config, const struct zkl__port *port)
{
    struct zkl__core *core = zkl__zalloc(&config->heap, sizeof *core);
    if (core) {
        core->config = *config;
        core->port = *port;
        core->pendings.heap = &core->config.heap;
        core->roles_at = INT64_MAX;
        zkl__window_init(&core->window, config->ops_max);
        zkl__stats_init(&core->stats);
        if (!zkl__watches_init(&core->watches, &core->config.heap)) {
            zkl__free(&config->heap, core);
            return NULL;
        }
        if (!zkl__local_queues_init(&core->queues, &core->config.heap, config->names_key)) {
            zkl__watches_deinit(&core->watches, &config->heap);
            zkl__free(&config->heap, core);
            return NULL;
        }
    }
    return core;
}

void zkl__core_free(struct zkl__core *core)
{
    zkl_heap heap = core->config.heap;
    zkl__contenders_drop(core);
    zkl__semaphores_drop(core);
    zkl__core_drop_waiting(core);
    zkl__watches_deinit(&core->watches, &heap);
    zkl__stats_deinit(&core->stats, &heap);
    zkl__local_queues_deinit(&core->queues);
    zkl__free(&heap, core->pendings.slots);
    zkl__free(&heap, core);
}

void zkl__core_unseal(struct zkl__core *core)
{
    core->config.seal = NULL;
}

const zkl_acl *zkl__core_seal(const struct zkl__core *core)
{
    return core->config.seal;
}

bool zkl__core_seals(const struct zkl__core *core)
{
    return core->config.seal && !core->seal_off;
}

void zkl__core_seal_off(struct zkl__core *core)
{
    zkl__core_trace(core, NULL, "seals nothing any more");
    core->seal_off = true;
}

const zkl_heap *zkl__core_heap(const struct zkl__core *core)
{
    return &core->config.heap;
}

const struct zkl__stats *zkl__core_stats(const struct zkl__core *core)
{
    return &core->stats;
}

bool zkl__core_connected(const struct zkl__core *core)
{
    return core->connected;
}
int64_t zkl__core_session_id(const struct zkl__core *core)
{
    return core->session_id;
}
int64_t zkl__core_timeout(const struct zkl__core *core)
{
    return core->timeout;
}
int64_t zkl__core_lease_until(const struct zkl__core *core)
{
    return core->lease.until;
}
int64_t zkl__core_least_lease(const struct zkl__core *core)
{
    int64_t timeout = core->lease.timeout < core->timeout ? core->lease.timeout : core->timeout;
    return zkl__lease_least(timeout, core->config.tick_ns / 2 + core->config.pause_ns,
                            core->lease.hops);
}
enum zkl__hops zkl__core_hops(const struct zkl__core *core)
{
    return core->lease.hops;
}
int64_t zkl__core_low_lease(const struct zkl__core *core)
{
    return core->connected ? zkl__lease_low(&core->lease, core->now) : 0;
}
/* The servers refuse to delete its node by its name: only the session's end does that, which asks
 * for no permission (PrepRequestProcessor.pRequest2Txn, closeSession). */
static bool ends_with_the_session(const struct zkl__contender *c)
{
    return c->state == ZKL__REMOVING && zkl__node_stays(&c->node) && !zkl__node_unsure(&c->node);
}

bool zkl__core_idle(const struct zkl__core *core)
{
    ZKL__ENSURE(zkl__core_settled(core));
    if (core->semaphores || core->pendings.on_count > 0) {
        return false;
    }
    const struct zkl__contender *c = zkl__contenders_first(core);
    while (c && ends_with_the_session(c)) {
        c = zkl__contenders_after(c);
    }
    return !c;
}
