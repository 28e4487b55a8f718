/* session_contenders.c - the contenders of a session: each reads its mail, its actions are carried
 * out, its owner is told, and it is freed when it has ended. */
#include "session_inside.h"

#include "heap.h"

#include <string.h>

static struct zkl__contender *holder_of(struct zkl__link *link)
{
    return link ? ZKL__OWNER(link, struct zkl__contender, holding) : NULL;
}

struct zkl__contender *zkl__contenders_first(const struct zkl__core *core)
{
    struct zkl__link *first = core->contenders.first;
    return first ? ZKL__OWNER(first, struct zkl__contender, in_session) : NULL;
}

struct zkl__contender *zkl__contenders_after(const struct zkl__contender *c)
{
    struct zkl__link *next = c->in_session.next;
    return next ? ZKL__OWNER(next, struct zkl__contender, in_session) : NULL;
}

struct zkl__contender *zkl__holders_first(const struct zkl__core *core)
{
    return holder_of(core->holders.first);
}

struct zkl__contender *zkl__holders_after(const struct zkl__contender *c)
{
    return holder_of(c->holding.next);
}

void zkl__holders_rotate(struct zkl__core *core)
{
    struct zkl__contender *first = zkl__holders_first(core);
    zkl__list_remove(&core->holders, &first->holding);
    zkl__list_append(&core->holders, &first->holding);
    if (first->state == ZKL__PROVING) {
        zkl__list_remove(&core->provers, &first->proving);
        zkl__list_append(&core->provers, &first->proving);
    }
}

static void take_watch_back(struct zkl__core *core, const char *path)
{
    if (core->connected && !zkl__watches_any(&core->watches, path)) {
        struct zkl__op op = {.kind = ZKL__OP_UNWATCH, .dir = path};
        zkl__core_send(core, NULL, ZKL__ROLE_NONE,
                       &op); /* if not: it stays until it fires or the session ends */
    }
}

static int change_watch(struct zkl__core *core, struct zkl__watch *watch,
                        enum zkl__watch_change change, size_t bytes_max)
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

static bool keeps(enum zkl__contender_state state)
{
    return state == ZKL__HELD || state == ZKL__LINGERING;
}

static void after_step(struct zkl__core *core, struct zkl__contender *c,
                       enum zkl__contender_state before)
{
    bool holder = c->state == ZKL__PROVING || zkl__contender_keeps(c);
    if (holder != c->holder) {
        if (holder) {
            if (!core->holders.first) {
                core->beat_at = core->now + zkl__lease_heartbeat(core->lease.timeout);
            }
            zkl__list_append(&core->holders, &c->holding);
        } else {
            zkl__list_remove(&core->holders, &c->holding);
        }
        c->holder = holder;
    }
    if ((c->state == ZKL__PROVING) != (before == ZKL__PROVING)) {
        if (c->state == ZKL__PROVING) {
            zkl__list_append(&core->provers, &c->proving);
        } else {
            zkl__list_remove(&core->provers, &c->proving);
        }
    }
    core->held += (unsigned)zkl__contender_keeps(c) - (unsigned)keeps(before);
    if ((c->state == ZKL__HELD) != (before == ZKL__HELD)) {
        core->granted += (unsigned)(c->state == ZKL__HELD) - (unsigned)(before == ZKL__HELD);
        core->warned -= c->jeopardy_told;
        c->jeopardy_told = false;
    }
}

static void carry_out_op(struct zkl__core *core, struct zkl__contender *c,
                         const struct zkl__contender_op *op)
{
    if (op->role == ZKL__ROLE_LIST && !c->joint) {
        zkl__local_ask_list(core, c);
    } else if (!(c->joint && zkl__joint_holds_back(c, op->role))) {
        c->in_flight++;
        c->listed_at = op->role == ZKL__ROLE_LIST ? core->now : c->listed_at;
        zkl__core_send(core, &c->machine, op->role, &op->op);
    }
}

static void carry_out(struct zkl__core *core, struct zkl__contender *c,
                      const struct zkl__contender_actions *actions)
{
    const enum zkl__watch_change *changes = actions->watches;
    size_t bytes_max = core->config.watch_bytes_max;
    int watch_code = change_watch(core, &c->watches[ZKL__WATCHED_PREDECESSOR],
                                  changes[ZKL__WATCHED_PREDECESSOR], bytes_max);
    /* Who does not watch its own node lists instead: these leave the room to the watches that
     * nobody can wait without. */
    int own_code =
        change_watch(core, &c->watches[ZKL__WATCHED_OWN], changes[ZKL__WATCHED_OWN], bytes_max / 2);
    int queue_code =
        change_watch(core, &c->watches[ZKL__WATCHED_QUEUE], changes[ZKL__WATCHED_QUEUE], bytes_max);
    if (changes[ZKL__WATCHED_LINGER] != ZKL__WATCH_KEEP) { /* no room for it: then none lingers */
        (void)change_watch(core, &c->watches[ZKL__WATCHED_LINGER], changes[ZKL__WATCHED_LINGER],
                           bytes_max / 2);
    }
    for (int i = 0; i < actions->op_count; i++) {
        const struct zkl__contender_op *op = &actions->ops[i];
        int code = op->role == ZKL__ROLE_WATCH       ? watch_code
                   : op->role == ZKL__ROLE_OWN_WATCH ? own_code
                   : op->role == ZKL__ROLE_LIST      ? queue_code
                                                     : ZKL_OK;
        if (code == ZKL_OK) {
            carry_out_op(core, c, op);
        } else {
            zkl__contender_post_refusal(c, op->role,
                                        code); /* there is no room even to note these */
        }
    }
    if (actions->inspect) {
        zkl__inspection_send(core, c);
    }
}

static void act(struct zkl__core *core, struct zkl__contender *c,
                struct zkl__contender_event *event)
{
    struct zkl__contender_actions actions;
    enum zkl__contender_state before = c->state;
    event->now = core->now;
    event->connected = core->connected;
    event->session_id = core->session_id;
    event->grant_waits = c->joint && !c->joint->open;
    event->delete_waits = zkl__local_delete_waits(c);
    event->index =
        event->kind == ZKL__CE_REPLY && event->role == ZKL__ROLE_LIST ? core->index : NULL;
    if (event->kind == ZKL__CE_EXPIRED) {
        c->held_back = 0;
    }
    zkl__contender_step(c, event, &actions);
    zkl__stats_step(&core->stats, c, before, event, &actions);
    after_step(core, c, before);
    carry_out(core, c, &actions);
    zkl__local_stepped(c);
    if (actions.told) { /* behind what was sent: whoever wakes up finds it done */
        zkl__owner_tell(c, &actions.outcome);
    }
}

/* --- its mail -------------------------------------------------------------------------------- */

/* What it comes to, as things stand now; false: to nothing. */
static bool judge(struct zkl__core *core, struct zkl__contender *c,
                  struct zkl__contender_event *event)
{
    if (event->kind == ZKL__CE_LOOK && zkl__local_follows(&c->local)) {
        return zkl__local_look(core, c, &event->kind);
    }
    if (event->kind == ZKL__CE_LOOK) {
        event->kind = ZKL__CE_TIME;
    } else if (event->kind == ZKL__CE_END) {
        zkl__linger_forbid(c);
        bool stayed = core->closing && zkl__grant_stay_no_longer(&c->grant);
        event->kind = zkl__contender_waits(c)      ? ZKL__CE_CANCEL
                      : stayed                     ? ZKL__CE_TIME
                      : c->state == ZKL__LINGERING ? ZKL__CE_END
                                                   : ZKL__CE_RELEASE;
        return event->kind != ZKL__CE_RELEASE || c->state == ZKL__HELD || c->state == ZKL__LOST;
    }
    return true;
}

static void after_mail(struct zkl__core *core, struct zkl__contender *c)
{
    zkl__timers_set(&core->timers, &c->machine.timer, zkl__contender_wake(c));
    zkl__linger_check(c, &c->linger);
    if (c->joint) {
        zkl__joint_post(c->joint);
    }
    if (c->state == ZKL__GONE && c->in_flight == 0) {
        zkl__core_bury(core, &c->machine);
    }
}

static void read_mail(struct zkl__core *core, struct zkl__machine *machine)
{
    struct zkl__contender *c = (struct zkl__contender *)machine;
    struct zkl__local_facts facts;
    bool followed = zkl__local_note_facts(c, &facts);
    struct zkl__mail mail = c->mail;
    struct zkl__contender_event event;
    struct zkl__reply refusal;
    c->mail = (struct zkl__mail){0};
    while (zkl__mail_next(&mail, &event, &refusal)) {
        if (c->state != ZKL__GONE && judge(core, c, &event)) {
            act(core, c, &event);
        }
    }
    if (followed) {
        zkl__local_tell_changes(c, &facts);
    }
    after_mail(core, c);
}

void zkl__contender_lapse(struct zkl__core *core, struct zkl__contender *c)
{
    struct zkl__contender_event event = {.kind = ZKL__CE_LAPSED};
    act(core, c, &event);
    after_mail(core, c);
}

/* --- its operations -------------------------------------------------------------------------- */

/* Such an answer says that our node was there; that of a check also where we may not read it (see
 * proof_of). */
static bool shows_node(enum zkl__role role, enum zkl__rc rc)
{
    bool check = role == ZKL__ROLE_PROVE || role == ZKL__ROLE_BEAT;
    bool other = role == ZKL__ROLE_CREATE || role == ZKL__ROLE_STAT;
    return rc == ZKL__RC_OK ? check || other : rc == ZKL__RC_NOAUTH && check;
}

static void answered(struct zkl__core *core, struct zkl__machine *machine, int role, int64_t sent,
                     const struct zkl__reply *reply)
{
    struct zkl__contender *c = (struct zkl__contender *)machine;
    if (role >= ZKL__ROLES) {
        c->in_flight--;
        zkl__inspection_answered(c, (size_t)(role - ZKL__ROLES), reply);
        return;
    }
    if (role == ZKL__ROLE_LIST) {
        zkl__local_note_list(&core->queues, c, reply);
    }
    if (role == ZKL__ROLE_LIST && !c->joint) {
        zkl__local_answer_list(core, c, reply);
        return;
    }
    c->shown_at = shows_node((enum zkl__role)role, reply->rc) ? sent : c->shown_at;
    c->in_flight--;
    zkl__contender_post_reply(c, (enum zkl__role)role, reply);
}

static void refused(struct zkl__core *core, struct zkl__machine *machine, int role, int code)
{
    struct zkl__contender *c = (struct zkl__contender *)machine;
    if (role >= ZKL__ROLES) {
        const struct zkl__reply unsent = {.rc = ZKL__RC_UNSENT, .unsent = code};
        answered(core, machine, role, 0, &unsent);
        return;
    }
    if (role == ZKL__ROLE_LIST && !c->joint) {
        zkl__local_refuse_list(core, c, code);
        return;
    }
    c->in_flight--;
    zkl__contender_post_refusal(c, (enum zkl__role)role, code);
}

/* A place that is not wanted any more is not made, nor is its directory. */
static bool wants(const struct zkl__machine *machine, int role)
{
    bool makes = role == ZKL__ROLE_CREATE || role == ZKL__ROLE_MAKE;
    return !makes || zkl__contender_waits((const struct zkl__contender *)machine);
}

static void due(struct zkl__machine *machine)
{
    zkl__contender_post((struct zkl__contender *)machine, ZKL__CE_TIME);
}

static void free_ended(struct zkl__core *core, struct zkl__machine *machine);

static const struct zkl__machine_ops contender_ops = {.rank = ZKL__RANK_FIRST,
                                                      .step = read_mail,
                                                      .answered = answered,
                                                      .refused = refused,
                                                      .wants = wants,
                                                      .due = due,
                                                      .free = free_ended};

/* --- life ------------------------------------------------------------------------------------ */

static void release_memory(struct zkl__core *core, struct zkl__contender *c)
{
    zkl__local_leave(&core->queues, c);
    zkl__contender_free(c);
}

struct zkl__contender *zkl__contender_new(struct zkl__core *core,
                                          const struct zkl__contender_config *config)
{
    const zkl_heap *heap = &core->config.heap;
    struct zkl__contender *c = zkl__zalloc(heap, sizeof *c);
    if (!c) {
        return NULL;
    }
    const char *metadata = config->metadata ? config->metadata : "";
    c->machine.ops = &contender_ops;
    c->heap = heap;
    c->core = core;
    c->config = *config;
    c->config.metadata = zkl__copy(heap, metadata, strlen(metadata));
    bool joined = c->config.metadata && zkl__local_join(&core->queues, c, config->path);
    if (!joined) {
        release_memory(core, c);
        return NULL;
    }
    core->machines++;
    c->config.path = zkl__local_path(c);
    c->path_stats = zkl__stats_path(&core->stats, heap, c->config.path);
    c->number = ++core->numbers;
    for (int i = 0; i < ZKL__WATCHED; i++) {
        c->watches[i].owner = c;
    }
    c->watches[ZKL__WATCHED_QUEUE].path = c->watches[ZKL__WATCHED_LINGER].path = c->config.path;
    zkl__list_append(&core->contenders, &c->in_session);
    return c;
}

enum zkl__contender_state zkl__contender_state(const struct zkl__contender *contender)
{
    return contender->state;
}
int64_t zkl__contender_token(const struct zkl__contender *contender)
{
    return zkl__node_czxid(&contender->node);
}
const char *zkl__contender_node(const struct zkl__contender *contender)
{
    return zkl__node_name(&contender->node);
}

bool zkl__contender_holds(const struct zkl__core *core, const struct zkl__contender *contender,
                          int64_t now)
{
    ZKL__ENSURE(zkl__core_settled(core));
    return contender->state == ZKL__HELD && now < core->lease.until &&
           zkl__grant_lasts(&contender->grant, now);
}

void zkl__contenders_post(struct zkl__core *core, enum zkl__contender_event_kind kind, int code)
{
    for (struct zkl__contender *c = zkl__contenders_first(core); c; c = zkl__contenders_after(c)) {
        c->mail.code = code;
        zkl__contender_post(c, kind);
    }
}

static void unlink_contender(struct zkl__core *core, struct zkl__contender *c)
{
    for (int i = 0; i < ZKL__WATCHED; i++) {
        zkl__watches_remove(&core->watches, &c->watches[i]);
    }
    zkl__timers_set(&core->timers, &c->machine.timer, INT64_MAX);
    core->machines--;
    zkl__joint_leave(c);
    zkl__local_unfollow(c);
    zkl__list_remove(&core->contenders, &c->in_session);
}

static void free_ended(struct zkl__core *core, struct zkl__machine *machine)
{
    struct zkl__contender *c = (struct zkl__contender *)machine;
    ZKL__ENSURE(c->in_flight == 0 && !zkl__local_followed(&c->local));
    unlink_contender(core, c);
    release_memory(core, c);
}

void zkl__contenders_drop(struct zkl__core *core)
{
    for (struct zkl__contender *c = zkl__contenders_first(core); c; c = zkl__contenders_after(c)) {
        zkl__local_unfollow(c);
    }
    struct zkl__contender *c;
    while ((c = zkl__contenders_first(core))) {
        if (c->joint) {
            zkl__joint_disown(c->joint);
        }
        unlink_contender(core, c);
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
