/* session_contenders.c - the contenders of a session: each fed, its actions carried out, its owner told, buried at the end. */
#include "session_inside.h"

#include "heap.h"
#include "inspection.h"

#include <string.h>

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

void zkl__contender_unlink(struct zkl__core *core, struct zkl__contender *c)
{
    zkl__watches_remove(&core->watches, &c->watch);
    zkl__watches_remove(&core->watches, &c->own_watch);
    zkl__watches_remove(&core->watches, &c->queue_watch);
    zkl__timers_remove(&core->timers, c);
    zkl__joint_leave(c);
    if (c->ahead) {
        zkl__local_unfollow(c);
    }
    *(c->prev ? &c->prev->next : &core->contenders) = c->next;
    if (c->next) {
        c->next->prev = c->prev;
    }
    c->prev = NULL;
    c->next = core->dead;
    c->buried = true;
    core->dead = c;
}

void zkl__holders_rotate(struct zkl__core *core)
{
    struct zkl__contender *first = core->holders;
    hold_list_remove(core, first);
    hold_list_append(core, first);
}

static void take_watch_back(struct zkl__core *core, const char *path)
{
    if (core->connected && !zkl__watches_any(&core->watches, path)) {
        struct zkl__op op = {.kind = ZKL__OP_UNWATCH, .dir = path};
        (void)zkl__core_send(core, NULL, NULL, ZKL__ROLE_NONE,
                             &op); /* if not: it stays until it fires or the session ends */
    }
}

static int change_watch(struct zkl__core *core, struct zkl__watch *watch, enum zkl__watch_change change,
                        size_t bytes_max)
{
    if (change == ZKL__WATCH_ON) {
        return zkl__watches_add(&core->watches, watch, bytes_max);
    }
    if (change != ZKL__WATCH_KEEP && watch->on) {
        zkl__watches_remove(&core->watches, watch);
        if (change == ZKL__WATCH_OFF) {
            take_watch_back(core, watch->path);
        }
    }
    return ZKL_OK;
}

void zkl__owner_tell(struct zkl__contender *c, const struct zkl__outcome *outcome)
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
                core->beat_at = core->now + zkl__lease_heartbeat(core->lease.timeout);
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
    int codes[sizeof actions->ops / sizeof *actions->ops];
    size_t bytes_max = core->config.watch_bytes_max;
    int watch_code = change_watch(core, &c->watch, actions->watch, bytes_max);
    /* Who does not watch its own node lists instead: these leave the room to the watches that nobody can wait without. */
    int own_code = change_watch(core, &c->own_watch, actions->own_watch, bytes_max / 2);
    int queue_code = change_watch(core, &c->queue_watch, actions->queue_watch, bytes_max);
    for (int i = 0; i < actions->op_count; i++) {
        const struct zkl__contender_op *op = &actions->ops[i];
        codes[i] = op->role == ZKL__ROLE_WATCH       ? watch_code
                   : op->role == ZKL__ROLE_OWN_WATCH ? own_code
                   : op->role == ZKL__ROLE_LIST      ? queue_code
                                                     : ZKL_OK;
        if (op->role == ZKL__ROLE_LIST && codes[i] == ZKL_OK && !c->joint) {
            zkl__local_ask_list(core, c);
        } else if (codes[i] == ZKL_OK && !(c->joint && zkl__joint_holds_back(c, op->role))) {
            codes[i] = zkl__core_send(core, c, NULL, op->role, &op->op);
        }
    }
    if (actions->inspect && c->inspection) {
        zkl__inspection_send(core, c->inspection);
    }
    /* There was no room even to note these: refused at once. */
    for (int i = 0; i < actions->op_count && !c->buried; i++) {
        if (codes[i] != ZKL_OK) {
            const struct zkl__reply refusal = {.rc = ZKL__RC_UNSENT, .unsent = codes[i]};
            zkl__core_feed(
                core, c,
                (struct zkl__contender_event){.kind = ZKL__CE_REPLY, .role = actions->ops[i].role, .reply = &refusal});
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
    enum zkl__contender_state before = c->state;
    char node[ZKL__NAME_MAX];
    strcpy(node, c->behind ? c->node : "");
    event.now = core->now;
    event.connected = core->connected;
    event.session_id = core->session_id;
    event.leased = zkl__core_leased(core);
    event.grant_waits = c->joint && !c->joint->open;
    event.delete_waits = zkl__local_delete_waits(c);
    if (event.kind == ZKL__CE_EXPIRED) {
        c->held_back = 0;
    }
    zkl__contender_step(c, &event, &actions);
    zkl__stats_step(&core->stats, c, before, &event, &actions);
    after_step(core, c, before == ZKL__HELD);
    if (actions.told) {
        zkl__owner_tell(c, &actions.outcome);
    }
    carry_out(core, c, &actions);
    zkl__local_stepped(c, node);
    if (c->joint) {
        settle_later(core, c->joint);
    }
    if (c->state == ZKL__GONE && c->in_flight == 0 && !c->buried) {
        zkl__contender_unlink(core, c);
    }
}

static void release_memory(struct zkl__core *core, struct zkl__contender *c)
{
    if (c->queue) {
        zkl__local_leave(&core->queues, c);
    }
    zkl__contender_free(c);
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
    c->config.metadata = zkl__copy(heap, metadata, strlen(metadata));
    c->marks = config->mark ? zkl__zalloc(heap, sizeof *c->marks) : NULL;
    bool joined = c->config.metadata && !config->mark == !c->marks && zkl__local_join(&core->queues, c, config->path);
    if (!joined || !zkl__timers_reserve(&core->timers, heap)) {
        release_memory(core, c);
        return NULL;
    }
    c->config.path = c->queue->path;
    c->path_stats = zkl__stats_path(&core->stats, heap, c->config.path);
    c->number = ++core->numbers;
    c->watch.owner = c->own_watch.owner = c->queue_watch.owner = c;
    c->queue_watch.path = c->config.path;
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

void zkl__contender_give_up(struct zkl__core *core, struct zkl__contender *c, int code)
{
    if (zkl__contender_waits(c)) {
        zkl__core_feed(core, c, (struct zkl__contender_event){.kind = ZKL__CE_CANCEL, .code = code});
    } else if (c->state == ZKL__HELD || c->state == ZKL__LOST) {
        zkl__core_feed(core, c, (struct zkl__contender_event){.kind = ZKL__CE_RELEASE});
    }
}

void zkl__contenders_feed(struct zkl__core *core, enum zkl__contender_event_kind kind)
{
    for (struct zkl__contender *c = core->contenders, *next; c; c = next) {
        next = c->next;
        if (c->state != ZKL__GONE) {
            zkl__core_feed(core, c, (struct zkl__contender_event){.kind = kind});
        }
    }
}

void zkl__contender_let_go(struct zkl__core *core, struct zkl__contender *contender, int64_t now)
{
    core->now = now > core->now ? now : core->now;
    contender->config.notify = NULL;
    if (contender->state == ZKL__NEW && !contender->started) {
        zkl__contender_unlink(core, contender);
    } else {
        zkl__contender_give_up(core, contender, ZKL_ECANCELED);
    }
    zkl__core_settle(core);
    zkl__contenders_bury(core);
}

void zkl__contenders_bury(struct zkl__core *core)
{
    while (core->dead) {
        struct zkl__contender *c = core->dead;
        core->dead = c->next;
        release_memory(core, c);
    }
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
