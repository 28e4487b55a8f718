#include "session_step.h"
#include "contender_step.h"
#include "joint.h"
#include "pending.h"
#include "timers.h"
#include "watches.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BEATS_MOST 4 /* heartbeats under way: more would only pile up behind a server that does not answer */

struct zkl__core {
    struct zkl__core_config config;
    struct zkl__port port;
    int64_t now;

    bool connected, closing, ended;
    int64_t session_id;
    int64_t timeout;
    struct zkl__lease lease;
    bool jeopardy;
    int64_t beat_at;  /* next heartbeat, while somebody proves or holds */
    int64_t proof_at; /* next sync, unless something that proves as much is sent before */
    int beats_under_way;

    struct zkl__pendings pendings;
    size_t refused; /* chain of operations to be answered as unsent before the step ends, index + 1 */

    struct zkl__contender *contenders;
    struct zkl__contender *holders, *last_holder; /* proving or held; the next heartbeat is on the first's node */
    struct zkl__contender *dead;                  /* freed when the step ends */
    struct zkl__joint *unsettled;                 /* members of them stepped */
    unsigned numbers;
    unsigned held;
    struct zkl__timers timers;
    struct zkl__watches watches;
    uint64_t uuids;
};

/* --- small things -------------------------------------------------------------------------------------------------- */

void zkl__core_trace(struct zkl__core *core, const struct zkl__contender *contender, const char *format, ...)
{
    if (!core->port.trace) {
        return;
    }
    char who[ZKL_PATH_MAX + 16], what[512];
    snprintf(who, sizeof who, contender ? "%s#%u" : "session", contender ? contender->config.path : "",
             contender ? contender->number : 0);
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    core->port.trace(core->port.ctx, who, what);
}

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64: a bijection, so two counts never give one number */
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

static int64_t lease_left(const struct zkl__core *core)
{
    return core->lease.until - core->now;
}

/* A grant on the last crumbs of a lease would be lost again at once. */
static bool leased(const struct zkl__core *core)
{
    return lease_left(core) > 0 && lease_left(core) >= zkl__core_least_lease(core) / 3;
}

/* --- operations under way ------------------------------------------------------------------------------------------ */

static bool proves_much(enum zkl__op_kind kind)
{
    return kind == ZKL__OP_CREATE || kind == ZKL__OP_DELETE || kind == ZKL__OP_SET || kind == ZKL__OP_CHECK ||
           kind == ZKL__OP_MULTI || kind == ZKL__OP_SYNC;
}

/* Sends op for a contender, a request, or (neither) the session itself. What cannot be sent is answered before the step ends, so
 * that nobody is called back from inside its own call. ZKL_OK, or ZKL_ENOMEM: there will be no answer at all. */
int zkl__core_send(struct zkl__core *core, struct zkl__contender *contender, struct zkl__request *request,
                   enum zkl__role role, const struct zkl__op *op)
{
    struct zkl__pending *p = zkl__pending_take(&core->pendings);
    if (!p) {
        return ZKL_ENOMEM;
    }
    p->kind = op->kind;
    p->role = role;
    p->contender = contender;
    p->request = request;
    p->sent = core->now;
    if (contender) {
        contender->in_flight++;
        contender->listed_at = role == ZKL__ROLE_LIST ? core->now : contender->listed_at;
    }
    bool full = core->config.ops_max && core->pendings.on_count > core->config.ops_max;
    p->refused = !core->connected || full ? ZKL_ECONNECT
                                          : core->port.submit(core->port.ctx, zkl__pending_id(&core->pendings, p), op);
    if (p->refused != ZKL_OK) {
        p->next = core->refused;
        core->refused = (size_t)(p - core->pendings.slots) + 1;
    } else if (proves_much(op->kind)) {
        core->proof_at = core->now + zkl__lease_keepalive(core->timeout);
    }
    return ZKL_OK;
}

/* --- contenders ---------------------------------------------------------------------------------------------------- */

static void hold_list_remove(struct zkl__core *core, struct zkl__contender *c)
{
    *(c->prev_holder ? &c->prev_holder->next_holder : &core->holders) = c->next_holder;
    *(c->next_holder ? &c->next_holder->prev_holder : &core->last_holder) = c->prev_holder;
    c->next_holder = c->prev_holder = NULL;
    c->holder = false;
}

static void hold_list_append(struct zkl__core *core, struct zkl__contender *c)
{
    c->prev_holder = core->last_holder;
    c->next_holder = NULL;
    *(core->last_holder ? &core->last_holder->next_holder : &core->holders) = c;
    core->last_holder = c;
    c->holder = true;
}

static void unlink_contender(struct zkl__core *core, struct zkl__contender *c)
{
    zkl__watches_remove(&core->watches, &c->watch);
    zkl__timers_remove(&core->timers, c);
    zkl__joint_leave(c);
    *(c->prev ? &c->prev->next : &core->contenders) = c->next;
    if (c->next) {
        c->next->prev = c->prev;
    }
    c->prev = NULL;
    c->next = core->dead;
    c->buried = true;
    core->dead = c;
}

static void take_watch_back(struct zkl__core *core, const char *path)
{
    if (core->connected && !zkl__watches_any(&core->watches, path)) {
        struct zkl__op op = {.kind = ZKL__OP_UNWATCH, .dir = path};
        (void)zkl__core_send(core, NULL, NULL, ZKL__ROLE_NONE,
                             &op); /* if not: it stays until it fires or the session ends */
    }
}

static int change_watch(struct zkl__core *core, struct zkl__contender *c, enum zkl__watch_change change)
{
    if (change == ZKL__WATCH_ON) {
        return zkl__watches_add(&core->watches, &c->watch, core->config.watch_bytes_max);
    }
    if (change != ZKL__WATCH_KEEP && c->watch.on) {
        zkl__watches_remove(&core->watches, &c->watch);
        if (change == ZKL__WATCH_OFF) {
            take_watch_back(core, c->watch_path);
        }
    }
    return ZKL_OK;
}

static void tell_owner(struct zkl__contender *c, const struct zkl__outcome *outcome)
{
    void (*notify)(void *, const struct zkl__outcome *) = c->config.notify;
    if (outcome->kind == ZKL__FAILED || outcome->kind == ZKL__RELEASED) {
        c->config.notify = NULL; /* its last word */
    }
    if (notify) {
        notify(c->config.owner, outcome);
    }
}

static void after_step(struct zkl__core *core, struct zkl__contender *c, bool was_held)
{
    bool holder = c->state == ZKL__PROVING || c->state == ZKL__HELD;
    if (holder != c->holder) {
        if (holder) {
            if (!core->holders) {
                core->beat_at = core->now + zkl__lease_heartbeat(core->timeout);
            }
            hold_list_append(core, c);
        } else {
            hold_list_remove(core, c);
        }
    }
    bool held = c->state == ZKL__HELD;
    if (held != was_held) {
        core->held += held ? 1u : -1u;
        c->jeopardy_told = false;
    }
    zkl__timers_set(&core->timers, c, zkl__contender_wake(c));
}

static void carry_out(struct zkl__core *core, struct zkl__contender *c, const struct zkl__contender_actions *actions)
{
    const struct zkl__reply refusal = {.rc = ZKL__RC_UNSENT};
    int codes[sizeof actions->ops / sizeof *actions->ops];
    int watch_code = change_watch(core, c, actions->watch);
    for (int i = 0; i < actions->op_count; i++) {
        const struct zkl__contender_op *op = &actions->ops[i];
        codes[i] = op->role == ZKL__ROLE_WATCH ? watch_code : ZKL_OK;
        if (codes[i] == ZKL_OK && !(c->joint && zkl__joint_holds_back(c, op->role))) {
            codes[i] = zkl__core_send(core, c, NULL, op->role, &op->op);
        }
    }
    /* There was no room even to note these: refused at once. */
    for (int i = 0; i < actions->op_count && !c->buried; i++) {
        if (codes[i] != ZKL_OK) {
            zkl__core_feed(
                core, c,
                (struct zkl__contender_event){
                    .kind = ZKL__CE_REPLY, .role = actions->ops[i].role, .reply = &refusal, .code = codes[i]});
        }
    }
}

/* Not now: somebody may be walking through the contenders. */
static void settle_later(struct zkl__core *core, struct zkl__joint *joint)
{
    if (!joint->unsettled) {
        joint->unsettled = true;
        joint->refs++;
        joint->next = core->unsettled;
        core->unsettled = joint;
    }
}

void zkl__core_feed(struct zkl__core *core, struct zkl__contender *c, struct zkl__contender_event event)
{
    struct zkl__contender_actions actions;
    bool was_held = c->state == ZKL__HELD;
    event.now = core->now;
    event.connected = core->connected;
    event.session_id = core->session_id;
    event.leased = leased(core);
    event.held_up = c->joint && !c->joint->open;
    if (event.kind == ZKL__CE_EXPIRED) {
        c->held_back = 0;
    }
    zkl__contender_step(c, &event, &actions);
    after_step(core, c, was_held);
    if (actions.told) {
        tell_owner(c, &actions.outcome);
    }
    carry_out(core, c, &actions);
    if (c->joint) {
        settle_later(core, c->joint);
    }
    if (c->state == ZKL__GONE && c->in_flight == 0 && !c->buried) {
        unlink_contender(core, c);
    }
}

struct zkl__contender *zkl__contender_new(struct zkl__core *core, const struct zkl__contender_config *config)
{
    const zkl_heap *heap = &core->config.heap;
    struct zkl__contender *c = zkl__zalloc(heap, sizeof *c);
    if (!c) {
        return NULL;
    }
    const char *metadata = config->metadata ? config->metadata : "";
    c->heap = heap;
    c->core = core;
    c->config = *config;
    c->config.path = zkl__copy(heap, config->path, strlen(config->path));
    c->config.metadata = zkl__copy(heap, metadata, strlen(metadata));
    if (!c->config.path || !c->config.metadata || !zkl__timers_reserve(&core->timers, heap)) {
        zkl__contender_free(c);
        return NULL;
    }
    c->number = ++core->numbers;
    c->watch.owner = c;
    c->next = core->contenders;
    if (c->next) {
        c->next->prev = c;
    }
    core->contenders = c;
    return c;
}

enum zkl__contender_state zkl__contender_state(const struct zkl__contender *contender)
{
    return contender->state;
}
int64_t zkl__contender_token(const struct zkl__contender *contender)
{
    return contender->czxid;
}
const char *zkl__contender_node(const struct zkl__contender *contender)
{
    return contender->node;
}

bool zkl__contender_holds(const struct zkl__core *core, const struct zkl__contender *contender, int64_t now)
{
    return contender->state == ZKL__HELD && now < core->lease.until && now < contender->hold_until;
}

static void give_up(struct zkl__core *core, struct zkl__contender *c, int code)
{
    if (zkl__contender_waits(c)) {
        zkl__core_feed(core, c, (struct zkl__contender_event){.kind = ZKL__CE_CANCEL, .code = code});
    } else if (c->state == ZKL__HELD || c->state == ZKL__LOST) {
        zkl__core_feed(core, c, (struct zkl__contender_event){.kind = ZKL__CE_RELEASE});
    }
}

/* --- the session's own times --------------------------------------------------------------------------------------- */

static void beat(struct zkl__core *core)
{
    struct zkl__contender *c = core->holders;
    core->beat_at = core->now + zkl__lease_heartbeat(core->timeout);
    if (!c || core->beats_under_way >= BEATS_MOST) {
        return;
    }
    hold_list_remove(core, c);
    hold_list_append(core, c);
    /* A node that is being replaced may be gone when its answer comes: then the directory's will do. */
    struct zkl__op op = {
        .kind = ZKL__OP_CHECK, .dir = c->config.path, .name = c->swap[0] ? NULL : c->node, .version = -1};
    if (zkl__core_send(core, c, NULL, ZKL__ROLE_BEAT, &op) == ZKL_OK) {
        core->beats_under_way++;
    }
}

static void tell_jeopardy(struct zkl__core *core)
{
    for (struct zkl__contender *c = core->holders; c; c = c->next_holder) {
        if (c->state == ZKL__HELD && c->jeopardy_told != core->jeopardy) {
            struct zkl__outcome outcome = {.kind = core->jeopardy ? ZKL__JEOPARDY : ZKL__SAFE,
                                           .now = core->now,
                                           .why = core->connected ? "the servers do not answer" : "not connected"};
            if (!core->jeopardy) {
                outcome.why = "the lease is renewed";
            }
            c->jeopardy_told = core->jeopardy;
            tell_owner(c, &outcome);
        }
    }
}

static void lapse(struct zkl__core *core)
{
    for (struct zkl__contender *c = core->holders, *next; c; c = next) {
        next = c->next_holder;
        if (c->state == ZKL__HELD) {
            zkl__core_feed(core, c, (struct zkl__contender_event){.kind = ZKL__CE_LAPSED});
        }
    }
}

static void look_at_lease(struct zkl__core *core)
{
    if (core->held == 0) {
        return;
    }
    if (lease_left(core) <= 0) {
        lapse(core);
        return;
    }
    core->jeopardy = !core->connected || lease_left(core) < zkl__core_least_lease(core) / 4;
    tell_jeopardy(core);
}

static void look_at_time(struct zkl__core *core)
{
    struct zkl__contender *c;
    while ((c = zkl__timers_due(&core->timers, core->now))) {
        zkl__core_feed(core, c, (struct zkl__contender_event){.kind = ZKL__CE_TIME});
    }
    if (!core->connected || core->closing) {
        return;
    }
    if (core->holders && core->beat_at <= core->now) {
        beat(core);
    }
    if (core->proof_at <= core->now) {
        struct zkl__op op = {.kind = ZKL__OP_SYNC, .dir = "/"};
        core->proof_at = core->now + zkl__lease_keepalive(core->timeout);
        (void)zkl__core_send(core, NULL, NULL, ZKL__ROLE_NONE, &op);
    }
}

int64_t zkl__core_next(const struct zkl__core *core)
{
    int64_t next = zkl__timers_next(&core->timers);
    if (core->held > 0) {
        int64_t warn = core->lease.until - zkl__core_least_lease(core) / 4 + 1;
        int64_t look = core->jeopardy ? core->lease.until : warn;
        next = look < next ? look : next;
    }
    if (core->connected && !core->closing) {
        next = core->proof_at < next ? core->proof_at : next;
        if (core->holders && core->beat_at < next) {
            next = core->beat_at;
        }
    }
    return next;
}

/* --- answers ------------------------------------------------------------------------------------------------------- */

static enum zkl__proof proof_of(enum zkl__op_kind kind, enum zkl__rc rc)
{
    if (rc != ZKL__RC_OK || !proves_much(kind)) {
        return ZKL__PROOF_ANSWER;
    }
    return kind == ZKL__OP_SYNC ? ZKL__PROOF_SYNC : ZKL__PROOF_COMMIT;
}

static void prove(struct zkl__core *core, enum zkl__op_kind kind, int64_t sent, enum zkl__rc rc)
{
    if (!zkl__rc_answered(rc) || !zkl__lease_answer(&core->lease, proof_of(kind, rc), sent, core->now)) {
        return;
    }
    for (struct zkl__contender *c = core->holders, *next; c; c = next) {
        next = c->next_holder;
        if (c->state == ZKL__PROVING && leased(core)) {
            zkl__core_feed(core, c, (struct zkl__contender_event){.kind = ZKL__CE_TIME});
        }
    }
}

static void answer(struct zkl__core *core, struct zkl__pending *p, const struct zkl__reply *reply, int code)
{
    struct zkl__pending was = *p;
    zkl__pending_drop(&core->pendings, p);
    if (was.role == ZKL__ROLE_BEAT) {
        core->beats_under_way--;
    }
    if (code == ZKL_OK) {
        prove(core, was.kind, was.sent, reply->rc);
    }
    if (was.contender) {
        was.contender->in_flight--;
        zkl__core_feed(
            core, was.contender,
            (struct zkl__contender_event){.kind = ZKL__CE_REPLY, .role = was.role, .reply = reply, .code = code});
    } else if (was.request) {
        was.request->done(was.request, reply);
    }
}

static void answer_refused(struct zkl__core *core)
{
    while (core->refused) {
        struct zkl__pending *p = &core->pendings.slots[core->refused - 1];
        const struct zkl__reply reply = {.rc = ZKL__RC_UNSENT, .unsent = p->refused};
        core->refused = p->next;
        answer(core, p, &reply, p->refused);
    }
}

/* Until all that follows has followed. */
static void settle(struct zkl__core *core)
{
    answer_refused(core);
    while (core->unsettled) {
        struct zkl__joint *joint = core->unsettled;
        core->unsettled = joint->next;
        joint->unsettled = false;
        zkl__joint_settle(joint);
        zkl__joint_unref(joint);
        answer_refused(core);
    }
}

static void answer_all_unknown(struct zkl__core *core)
{
    const struct zkl__reply reply = {.rc = ZKL__RC_UNKNOWN};
    answer_refused(core);
    for (size_t i = 0; i < core->pendings.room; i++) {
        if (core->pendings.slots[i].on) {
            answer(core, &core->pendings.slots[i], &reply, ZKL_OK);
        }
    }
}

void zkl__request_forget(struct zkl__core *core, struct zkl__request *request)
{
    for (size_t i = 0; i < core->pendings.room; i++) {
        if (core->pendings.slots[i].request == request) {
            core->pendings.slots[i].request = NULL;
        }
    }
}

/* --- connections --------------------------------------------------------------------------------------------------- */

static void for_each(struct zkl__core *core, enum zkl__contender_event_kind kind)
{
    for (struct zkl__contender *c = core->contenders, *next; c; c = next) {
        next = c->next;
        if (c->state != ZKL__GONE) {
            zkl__core_feed(core, c, (struct zkl__contender_event){.kind = kind});
        }
    }
}

static void on_connected(struct zkl__core *core, const struct zkl__event *ev)
{
    int64_t gap = core->config.tick_ns / 2 + core->config.pause_ns;
    core->connected = true;
    core->timeout = ev->timeout;
    core->session_id = ev->session_id;
    if (ev->fresh) {
        zkl__lease_begin(&core->lease, ev->timeout, gap, ev->began);
    } else {
        zkl__lease_reconnect(&core->lease, ev->timeout);
    }
    core->proof_at = core->beat_at = core->now; /* the chain begins at once */
    zkl__core_trace(core, NULL, ev->fresh ? "a new session" : "connected again");
    core->port.state(core->port.ctx, ZKL_SESSION_CONNECTED, ZKL_OK);
    for_each(core, ZKL__CE_CONNECTED);
}

static void on_suspended(struct zkl__core *core)
{
    if (!core->connected) {
        return;
    }
    core->connected = false;
    zkl__core_trace(core, NULL, "no server");
    answer_all_unknown(core);
    core->port.state(core->port.ctx, ZKL_SESSION_SUSPENDED, ZKL_ECONNECT);
}

static void fire(struct zkl__core *core, struct zkl__watch *watch, enum zkl__watch_event event)
{
    if (watch->fired) {
        watch->fired(watch, event);
    } else {
        zkl__core_feed(core, watch->owner, (struct zkl__contender_event){.kind = ZKL__CE_WATCH});
    }
}

/* The session is over: nothing that was made in it is ours any more. */
static void on_expired(struct zkl__core *core, int code)
{
    core->connected = false;
    core->session_id = 0;
    zkl__lease_end(&core->lease);
    zkl__core_trace(core, NULL, "the session ended");
    answer_all_unknown(core);
    core->ended = code == ZKL_EAUTH;
    for_each(core, ZKL__CE_EXPIRED);
    if (core->ended) {
        for (struct zkl__contender *c = core->contenders, *next; c; c = next) {
            next = c->next;
            give_up(core, c, code);
        }
    }
    struct zkl__watch *watch;
    while ((watch = zkl__watches_take_any(&core->watches))) {
        fire(core, watch, ZKL__WATCH_CHANGED);
    }
    core->port.state(core->port.ctx, core->ended ? ZKL_SESSION_CLOSED : ZKL_SESSION_LOST, code);
}

static void on_watch(struct zkl__core *core, enum zkl__watch_event event, const char *path)
{
    struct zkl__watch *fired = zkl__watches_take(&core->watches, path);
    while (fired) {
        struct zkl__watch *watch = fired;
        fired = fired->next;
        watch->next = NULL;
        fire(core, watch, event);
    }
}

static void on_close(struct zkl__core *core)
{
    core->closing = true;
    for (struct zkl__contender *c = core->contenders, *next; c; c = next) {
        next = c->next;
        give_up(core, c, ZKL_ECLOSED);
    }
}

/* --- the step ------------------------------------------------------------------------------------------------------ */

static void feed(struct zkl__core *core, const struct zkl__event *ev, struct zkl__contender_event event)
{
    if (ev->joint) {
        zkl__joint_feed(ev->joint, event);
    } else {
        zkl__core_feed(core, ev->contender, event);
    }
}

static void on_start(struct zkl__core *core, const struct zkl__event *ev)
{
    feed(core, ev,
         (struct zkl__contender_event){.kind = ZKL__CE_START, .deadline = ev->deadline, .try_only = ev->try_only});
    if (core->ended || core->closing) {
        feed(core, ev,
             (struct zkl__contender_event){.kind = ZKL__CE_CANCEL, .code = core->ended ? ZKL_EAUTH : ZKL_ECLOSED});
    }
}

static void on_request(struct zkl__core *core, const struct zkl__event *ev)
{
    if (zkl__core_send(core, NULL, ev->request, ZKL__ROLE_NONE, ev->op) != ZKL_OK) {
        const struct zkl__reply reply = {.rc = ZKL__RC_UNSENT, .unsent = ZKL_ENOMEM};
        ev->request->done(ev->request, &reply);
    }
}

static void take(struct zkl__core *core, const struct zkl__event *ev)
{
    struct zkl__pending *p;
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
        if ((p = zkl__pending_find(&core->pendings, ev->id))) {
            answer(core, p, ev->reply, ZKL_OK);
        }
        break;
    case ZKL__EV_WATCH:
        on_watch(core, ev->watch, ev->path);
        break;
    case ZKL__EV_TIME:
        break;
    case ZKL__EV_START:
        on_start(core, ev);
        break;
    case ZKL__EV_CANCEL:
        feed(core, ev, (struct zkl__contender_event){.kind = ZKL__CE_CANCEL, .code = ev->code});
        break;
    case ZKL__EV_RELEASE:
        if (ev->joint) {
            zkl__joint_release(ev->joint);
        } else {
            zkl__core_feed(core, ev->contender, (struct zkl__contender_event){.kind = ZKL__CE_RELEASE});
        }
        break;
    case ZKL__EV_DOWNGRADE:
        zkl__core_feed(core, ev->contender, (struct zkl__contender_event){.kind = ZKL__CE_DOWNGRADE, .rule = ev->rule});
        break;
    case ZKL__EV_REQUEST:
        on_request(core, ev);
        break;
    case ZKL__EV_CLOSE:
        on_close(core);
        break;
    }
}

static void bury(struct zkl__core *core)
{
    while (core->dead) {
        struct zkl__contender *c = core->dead;
        core->dead = c->next;
        zkl__contender_free(c);
    }
}

void zkl__session_step(struct zkl__core *core, const struct zkl__event *event)
{
    core->now = event->now > core->now ? event->now : core->now;
    /* Time first: who has lost by the clock has lost, whatever the event says. */
    look_at_lease(core);
    take(core, event);
    settle(core);
    look_at_time(core);
    look_at_lease(core);
    settle(core);
    bury(core);
}

/* --- life, and facts ----------------------------------------------------------------------------------------------- */

struct zkl__core *zkl__core_new(const struct zkl__core_config *config, const struct zkl__port *port)
{
    struct zkl__core *core = zkl__zalloc(&config->heap, sizeof *core);
    if (core) {
        core->config = *config;
        core->port = *port;
        core->pendings.heap = &core->config.heap;
        if (!zkl__watches_init(&core->watches, &core->config.heap)) {
            zkl__free(&config->heap, core);
            return NULL;
        }
    }
    return core;
}

void zkl__core_free(struct zkl__core *core)
{
    zkl_heap heap = core->config.heap;
    while (core->contenders) {
        if (core->contenders->joint) {
            zkl__joint_disown(core->contenders->joint);
        }
        unlink_contender(core, core->contenders);
    }
    bury(core);
    zkl__timers_deinit(&core->timers, &heap);
    zkl__watches_deinit(&core->watches, &heap);
    zkl__free(&heap, core->pendings.slots);
    zkl__free(&heap, core);
}

void zkl__contender_let_go(struct zkl__core *core, struct zkl__contender *contender, int64_t now)
{
    core->now = now > core->now ? now : core->now;
    contender->config.notify = NULL;
    if (contender->state == ZKL__NEW && !contender->started) {
        unlink_contender(core, contender);
    } else {
        give_up(core, contender, ZKL_ECANCELED);
    }
    settle(core);
    bury(core);
}

int zkl__watch_add(struct zkl__core *core, struct zkl__watch *watch)
{
    return zkl__watches_add(&core->watches, watch, core->config.watch_bytes_max);
}

void zkl__watch_remove(struct zkl__core *core, struct zkl__watch *watch)
{
    if (watch->on) {
        zkl__watches_remove(&core->watches, watch);
        take_watch_back(core, watch->path);
    }
}

const zkl_heap *zkl__core_heap(const struct zkl__core *core)
{
    return &core->config.heap;
}

bool zkl__core_grants(const struct zkl__core *core, int64_t *now)
{
    *now = core->now;
    return core->connected && leased(core);
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
    return zkl__lease_least(core->timeout, core->config.tick_ns / 2 + core->config.pause_ns);
}
bool zkl__core_idle(const struct zkl__core *core)
{
    return !core->contenders && core->pendings.on_count == 0;
}
