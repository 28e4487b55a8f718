/* session_step.c - a session of the core: its events, its contenders, its operations, and the
 * drain. */
#include "base.h"
#include "name.h"
#include "core_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* === its operations =========================================================================== */

/* Operations under way: sent, answered once whatever happens, and what each
 * answer proves for the lease. */

static bool proves_much(enum zkl__op_kind kind)
{
    return kind == ZKL__OP_CREATE || kind == ZKL__OP_DELETE || kind == ZKL__OP_SET ||
           kind == ZKL__OP_CHECK || kind == ZKL__OP_MULTI || kind == ZKL__OP_SYNC;
}

static void report(struct zkl__core *core, struct zkl__machine *owner, int role, int64_t sent,
                   const struct zkl__reply *reply)
{
    if (owner) {
        owner->ops->answered(core, owner, role, sent, reply);
    } else if (role == ZKL__ROLE_CONFIG) {
        zkl__core_take_roles(core, reply);
    }
}

static void report_refusal(struct zkl__core *core, struct zkl__machine *owner, int role, int code)
{
    const struct zkl__reply unsent = {.rc = ZKL__RC_UNSENT, .unsent = code};
    report(core, owner, role, 0, &unsent);
}

/* Not of a contender, whose roles are its own. */
static bool is_users_write(const struct zkl__pending *p)
{
    return p->role == ZKL__ROLE_NONE && (p->kind == ZKL__OP_CREATE || p->kind == ZKL__OP_SET ||
                                         p->kind == ZKL__OP_DELETE || p->kind == ZKL__OP_MULTI);
}

static void drop(struct zkl__core *core, struct zkl__pending *p)
{
    core->writes -= is_users_write(p);
    zkl__pending_drop(&core->pendings, p);
}

static void refuse(struct zkl__core *core, struct zkl__pending *p, int code)
{
    struct zkl__machine *owner = p->owner;
    int role = p->role;
    drop(core, p);
    report_refusal(core, owner, role, code);
}

static void submit(struct zkl__core *core, struct zkl__pending *p, const struct zkl__op *op)
{
    p->sent = core->now;
    int code = core->port.submit(core->port.ctx, zkl__pending_id(&core->pendings, p), op);
    if (code != ZKL_OK) {
        refuse(core, p, code);
        return;
    }
    if (p->counted) {
        zkl__window_sent(&core->window);
    }
    core->stats.all.requests++;
    core->stats.all.heartbeats += p->role == ZKL__ROLE_BEAT;
    core->beats_under_way += p->role == ZKL__ROLE_BEAT;
    if (proves_much(op->kind)) {
        core->proof_at = core->now + zkl__lease_keepalive(core->lease.timeout, core->lease.gap,
                                                          core->lease.hops);
    }
}

/* --- waiting for room ------------------------------------------------------------------------ */

static void wait_for_room(struct zkl__core *core, struct zkl__pending *p, const struct zkl__op *op)
{
    size_t at = (size_t)(p - core->pendings.slots) + 1;
    p->waiting = zkl__op_copy(&core->config.heap, op);
    if (!p->waiting) {
        refuse(core, p, ZKL_ENOMEM);
        return;
    }
    p->next = 0;
    *(core->last_waiting ? &core->pendings.slots[core->last_waiting - 1].next
                         : &core->first_waiting) = at;
    core->last_waiting = at;
}

/* *op NULL: its owner has ended. */
static struct zkl__pending *first_waiting(struct zkl__core *core, struct zkl__op **op)
{
    struct zkl__pending *p = &core->pendings.slots[core->first_waiting - 1];
    core->first_waiting = p->next;
    core->last_waiting = core->first_waiting ? core->last_waiting : 0;
    *op = p->waiting;
    p->waiting = NULL;
    return p;
}

static bool is_stale(const struct zkl__pending *p)
{
    return p->owner && p->owner->ops->wants && !p->owner->ops->wants(p->owner, p->role);
}

/* Sends operations that wait for room, as far as there is some, in the order of their requests. */
static void core_send_waiting(struct zkl__core *core)
{
    while (core->first_waiting && core->connected && zkl__window_has_room(&core->window)) {
        struct zkl__op *op;
        struct zkl__pending *p = first_waiting(core, &op);
        if (!op || is_stale(p)) {
            refuse(core, p, ZKL_ECONNECT);
        } else {
            submit(core, p, op);
        }
        zkl__free(&core->config.heap, op);
    }
}

static void refuse_waiting(struct zkl__core *core)
{
    while (core->first_waiting) {
        struct zkl__op *op;
        refuse(core, first_waiting(core, &op), ZKL_ECONNECT);
        zkl__free(&core->config.heap, op);
    }
}

/* The core goes: without a word. */
static void core_drop_waiting(struct zkl__core *core)
{
    while (core->first_waiting) {
        struct zkl__op *op;
        (void)first_waiting(core, &op);
        zkl__free(&core->config.heap, op);
    }
}

/* Heartbeats and keep-alives go before all that waits for room: none of it is about a node that
 * they look at. */
void zkl__core_send(struct zkl__core *core, struct zkl__machine *owner, int role,
                    const struct zkl__op *op)
{
    struct zkl__pending *p = zkl__pending_take(&core->pendings);
    if (!p) {
        report_refusal(core, owner, role, ZKL_ENOMEM);
        return;
    }
    p->kind = op->kind;
    p->role = role;
    zkl__pending_own(&core->pendings, p, owner);
    p->sent = core->now;
    p->waiting = NULL;
    core->writes += is_users_write(p);
    p->counted = role != ZKL__ROLE_BEAT && (owner || op->kind != ZKL__OP_SYNC);
    if (!core->connected) {
        refuse(core, p, ZKL_ECONNECT);
    } else if (p->counted && (core->first_waiting || !zkl__window_has_room(&core->window))) {
        wait_for_room(core, p, op);
    } else {
        submit(core, p, op);
    }
}

static enum zkl__proof proof_of(enum zkl__op_kind kind, enum zkl__rc rc)
{
    /* A check that is refused for the node's access list is a transaction of a living session, too
     * (OpCode.error): who may not read its own node lives by it. */
    bool done = rc == ZKL__RC_OK || (rc == ZKL__RC_NOAUTH && kind == ZKL__OP_CHECK);
    if (!done || !proves_much(kind)) {
        return ZKL__PROOF_RESPONSE;
    }
    return kind == ZKL__OP_SYNC ? ZKL__PROOF_SYNC : ZKL__PROOF_COMMIT;
}

/* The lease is a fact that others read. asker: reads it with the answer itself. */
static void prove(struct zkl__core *core, const struct zkl__machine *asker, enum zkl__op_kind kind,
                  int64_t sent, enum zkl__rc rc)
{
    int64_t left = core->lease.until - core->now;
    if (!zkl__lease_response(&core->lease, proof_of(kind, rc), sent, core->now)) {
        return;
    }
    if (core->held > 0) {
        zkl__stats_slack(&core->stats, left);
    }
    bool leased = core->provers.first && zkl__core_leased(core);
    if (!leased) {
        return;
    }
    ZKL__EACH (struct zkl__contender, c, &core->provers, proving) {
        if (&c->machine != asker) {
            zkl__contender_post(c, ZKL__CE_LOOK);
        }
    }
}

static void take_reply(struct zkl__core *core, struct zkl__pending *p,
                       const struct zkl__reply *reply)
{
    struct zkl__pending was = *p;
    drop(core, p);
    if (was.counted) {
        zkl__window_ended(&core->window, zkl__rc_is_response(reply->rc), was.sent, core->now,
                          zkl__lease_heartbeat(core->timeout));
    }
    core->beats_under_way -= was.role == ZKL__ROLE_BEAT;
    if (zkl__rc_is_response(reply->rc)) {
        zkl__histogram_add(&core->stats.all.request, core->now - was.sent);
        prove(core, was.role == ZKL__ROLE_PROVE ? was.owner : NULL, was.kind, was.sent, reply->rc);
    } else if (reply->rc == ZKL__RC_UNKNOWN) {
        core->stats.all.unanswered++;
    }
    report(core, was.owner, was.role, was.sent, reply);
}

/* Everything under way: nobody knows what became of it. */
static void end_all_unknown(struct zkl__core *core)
{
    const struct zkl__reply reply = {.rc = ZKL__RC_UNKNOWN};
    refuse_waiting(core);
    for (size_t i = 0; i < core->pendings.room; i++) {
        if (core->pendings.slots[i].on) {
            take_reply(core, &core->pendings.slots[i], &reply);
        }
    }
}

bool zkl__core_forget(struct zkl__core *core, struct zkl__machine *owner)
{
    bool sent = false;
    while (owner->pending > 0) {
        struct zkl__pending *p = &core->pendings.slots[owner->pending - 1];
        sent = sent || !p->waiting;
        zkl__free(&core->config.heap, p->waiting);
        p->waiting = NULL;
        zkl__pending_disown(&core->pendings, p);
    }
    return sent;
}

/* --- requests -------------------------------------------------------------------------------- */

static void request_answered(struct zkl__core *core, struct zkl__machine *machine, int role,
                             int64_t sent, const struct zkl__reply *reply)
{
    struct zkl__request *request = (struct zkl__request *)machine;
    (void)role, (void)sent;
    if (reply->rc != ZKL__RC_UNSENT) {
        request->done(request, reply);
        return;
    }
    request->unsent = reply->unsent;
    zkl__core_post(core, machine); /* not now: its owner may be about to ask for more */
}

static void report_unsent(struct zkl__core *core, struct zkl__machine *machine)
{
    struct zkl__request *request = (struct zkl__request *)machine;
    const struct zkl__reply reply = {.rc = ZKL__RC_UNSENT, .unsent = request->unsent};
    (void)core;
    request->done(request, &reply);
}

static const struct zkl__machine_ops request_ops = {
    .rank = ZKL__RANK_FIRST, .step = report_unsent, .answered = request_answered};

void zkl__core_request(struct zkl__core *core, struct zkl__request *request,
                       const struct zkl__op *op)
{
    request->machine = (struct zkl__machine){.ops = &request_ops};
    zkl__core_send(core, &request->machine, ZKL__ROLE_NONE, op);
}

bool zkl__request_forget(struct zkl__core *core, struct zkl__request *request)
{
    zkl__machine_unready(&request->machine);
    return zkl__core_forget(core, &request->machine);
}

/* === its watches ============================================================================== */

void zkl__core_unwatch(struct zkl__core *core, const char *path)
{
    if (core->connected && !zkl__map_find(&core->watches.map, path)) {
        struct zkl__op op = {.kind = ZKL__OP_UNWATCH, .dir = path};
        zkl__core_send(core, NULL, ZKL__ROLE_NONE,
                       &op); /* if not: it stays until it fires or the session ends */
    }
}

int zkl__watch_add(struct zkl__core *core, struct zkl__watch *watch)
{
    return zkl__watches_add(&core->watches, watch, core->config.watch_bytes_max);
}

void zkl__watch_remove(struct zkl__core *core, struct zkl__watch *watch)
{
    if (watch->entry.link) {
        zkl__watches_remove(&core->watches, watch);
        zkl__core_unwatch(core, watch->entry.path);
    }
}

/* === the drain ================================================================================ */

/* One outside event is admitted, then machines are stepped until none has mail. */

/* Steps for each contender, list and operation: a bound that no sound event comes near. */
#define STEPS_EACH 16

static void make_ready(struct zkl__core *core, struct zkl__machine *machine, enum zkl__rank rank)
{
    machine->ready = &core->ready[rank];
    zkl__list_append(machine->ready, &machine->in_ready);
}

void zkl__core_post(struct zkl__core *core, struct zkl__machine *machine)
{
    if (!machine->ready) {
        make_ready(core, machine, machine->ops->rank);
    }
}

void zkl__core_bury(struct zkl__core *core, struct zkl__machine *machine)
{
    zkl__machine_unready(machine); /* what mail it has is not read any more */
    make_ready(core, machine, ZKL__RANK_ENDED);
}

static struct zkl__machine *take_ready(struct zkl__core *core, enum zkl__rank rank)
{
    struct zkl__link *first = core->ready[rank].first;
    if (!first) {
        return NULL;
    }
    struct zkl__machine *machine = ZKL__OWNER(first, struct zkl__machine, in_ready);
    zkl__machine_unready(machine);
    return machine;
}

static struct zkl__machine *next_ready(struct zkl__core *core)
{
    struct zkl__machine *machine = take_ready(core, ZKL__RANK_FIRST);
    if (!machine && core->first_waiting) {
        core_send_waiting(core); /* what is not wanted any more is refused, which is mail */
        machine = take_ready(core, ZKL__RANK_FIRST);
    }
    machine = machine ? machine : take_ready(core, ZKL__RANK_LATER);
    return machine ? machine : take_ready(core, ZKL__RANK_LAST);
}

static bool is_any_ready(const struct zkl__core *core)
{
    return core->ready[ZKL__RANK_FIRST].first || core->ready[ZKL__RANK_LATER].first ||
           core->ready[ZKL__RANK_LAST].first;
}

/* Some steps make machines. */
static size_t steps_most(const struct zkl__core *core)
{
    return STEPS_EACH * (core->machines + core->queues.map.count + core->pendings.room + 16);
}

static void step_ready(struct zkl__core *core)
{
    size_t most = 0;
    struct zkl__machine *machine = next_ready(core);
    for (size_t steps = 1; machine; steps++, machine = next_ready(core)) {
        most = steps <= most ? most : steps_most(core);
        ZKL__ENSURE(steps <= most);
        machine->ops->step(core, machine);
    }
}

/* Steps machines until none has mail. Most times none has: a step of the session drains several
 * times. */
static void drain(struct zkl__core *core)
{
    if (core->first_waiting || is_any_ready(core)) {
        step_ready(core);
    }
}

bool zkl__core_settled(const struct zkl__core *core)
{
    return core->stepping || !is_any_ready(core);
}

/* A step of the session begins and ends: the last phase frees what has ended. Nobody else drains.
 */
static void core_begin(struct zkl__core *core, int64_t now)
{
    ZKL__ENSURE(!core->stepping); /* nobody enters the core from what it calls */
    core->stepping = true;
    core->now = now > core->now ? now : core->now;
}

static void core_finish(struct zkl__core *core)
{
    drain(core);
    struct zkl__machine *machine;
    while ((machine = take_ready(core, ZKL__RANK_ENDED))) {
        machine->ops->free(core, machine);
    }
    zkl__pendings_shrink(&core->pendings);
    core->stepping = false;
}

/* === its step ================================================================================= */

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
    core->proof_at = core->beat_at = core->now; /* the chain begins immediately */
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

static void report_state(struct zkl__core *core)
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
    if (!at_once || core->watches.map.count >
                        core->set_again) { /* contenders look anew; the library forgets none */
        core->set_again = core->watches.map.count;
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
    ZKL__EACH (struct zkl__contender, c, &core->holders, holding) {
        if (c->config.linger > 0) {
            zkl__contender_post(c, ZKL__CE_YIELD);
        }
    }
    zkl__core_trace(core, NULL, "no server");
    end_all_unknown(core);
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
    end_all_unknown(core);
    core->ended = code == ZKL_EAUTH;
    zkl__contenders_post(core, ZKL__CE_EXPIRED, code);
    if (core->ended) {
        zkl__contenders_post(core, ZKL__CE_END, code);
        zkl__semaphores_post(core, ZKL__CE_END, code);
    }
    struct zkl__map_entry *any;
    while ((any = zkl__map_any(&core->watches.map))) {
        zkl__watches_remove(&core->watches, (struct zkl__watch *)any);
        fire((struct zkl__watch *)any, ZKL__WATCH_CHANGED);
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
        fired = (struct zkl__watch *)watch->entry.next;
        watch->entry.next = NULL;
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
    if (ev->multi) {
        zkl__multi_cancel(ev->multi, code);
    } else if (ev->semaphore) {
        zkl__semaphore_cancel(ev->semaphore, code);
    } else {
        ev->contender->mail.code = code;
        zkl__contender_post(ev->contender, ZKL__CE_CANCEL);
    }
}

static void on_start(struct zkl__core *core, const struct zkl__event *ev)
{
    if (ev->multi) {
        zkl__multi_start(ev->multi, ev->deadline, ev->try_only);
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
    if (ev->multi) {
        zkl__multi_release(ev->multi);
    } else if (ev->semaphore) {
        zkl__semaphore_release(ev->semaphore);
    } else {
        zkl__contender_post(ev->contender, ZKL__CE_RELEASE);
    }
}

static void on_let_go(const struct zkl__event *ev)
{
    if (ev->multi) {
        zkl__multi_end(ev->multi);
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
        take_reply(core, p, ev->reply);
    }
}

/* Changes what the event changes, and posts mail to every machine that it concerns. */
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
    }
}

void zkl__session_step(struct zkl__core *core, const struct zkl__event *event)
{
    core_begin(core, event->now);
    if (event->kind == ZKL__EV_LET_GO && event->semaphore) {
        event->semaphore->config.contender.notify = NULL; /* also not of what this step finds */
    }
    /* Time first: who has lost by the clock has lost, whatever the event says. */
    zkl__core_end_lapsed_leases(core);
    drain(core);
    admit(core, event);
    drain(core);
    report_state(core);
    zkl__free(&core->config.heap, core->index); /* the reply that it is of was read by all */
    core->index = NULL;
    bool due = zkl__core_post_due_timers(core);
    zkl__core_keep_alive(core);
    while (due) {
        drain(core);
        due = zkl__core_post_due_timers(core);
    }
    drain(core);
    zkl__core_end_lapsed_leases(core);
    core_finish(core);
}

bool zkl__core_holds(const struct zkl__core *core, const struct zkl__contender *contender,
                     const struct zkl__multi *multi, const struct zkl__semaphore *semaphore,
                     int64_t now)
{
    return multi       ? zkl__multi_holds(core, multi, now)
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
        core->queues.names_key = config->names_key;
        if (!zkl__map_init(&core->watches.map, &core->config.heap) ||
            !zkl__map_init(&core->queues.map, &core->config.heap)) {
            zkl__map_deinit(&core->watches.map);
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
    core_drop_waiting(core);
    zkl__map_deinit(&core->watches.map);
    zkl__stats_deinit(&core->stats, &heap);
    zkl__peer_queues_deinit(&core->queues);
    zkl__free(&heap, core->pendings.slots);
    zkl__free(&heap, core);
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
    return c->state == ZKL__REMOVING && c->node.stays && !zkl__node_unsure(&c->node);
}

bool zkl__core_idle(const struct zkl__core *core)
{
    ZKL__ENSURE(zkl__core_settled(core));
    if (core->semaphores.first || core->pendings.on_count > 0) {
        return false;
    }
    ZKL__EACH (const struct zkl__contender, c, &core->contenders, in_session) {
        if (!ends_with_the_session(c)) {
            return false;
        }
    }
    return true;
}
