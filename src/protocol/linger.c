#include "linger.h"

#include "acl.h"
#include "contender_moves.h"
#include "lease.h"
#include "local_queue.h"

#include <string.h>

/* --- states ---------------------------------------------------------------------------------- */

#define L(state) (1u << (state))

static const struct {
    const char *name;
    uint32_t next;
} states[ZKL__LINGER_STATES] = {
    [ZKL__LINGER_BARE] = {"bare", L(ZKL__LINGER_ARMED)},
    [ZKL__LINGER_ARMED] = {"armed",
                           L(ZKL__LINGER_BARE) | L(ZKL__LINGER_IDLE) | L(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_IDLE] = {"idle",
                          L(ZKL__LINGER_BARE) | L(ZKL__LINGER_ARMED) | L(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_YIELDING] = {"yielding", L(ZKL__LINGER_BARE)},
};

bool zkl__linger_rests(const struct zkl__contender *c)
{
    return c->linger.state == ZKL__LINGER_ARMED || c->linger.state == ZKL__LINGER_IDLE;
}

void zkl__linger_check_all(const struct zkl__contender *c)
{
    bool rests = zkl__linger_rests(c);
    bool idle = c->linger.state == ZKL__LINGER_IDLE;
    ZKL__ENSURE(rests == (c->linger.view->keeper == c));
    ZKL__ENSURE(!rests || c->watches[ZKL__WATCHED_LINGER].on);
    ZKL__ENSURE(idle == (c->state == ZKL__LINGERING));
    ZKL__ENSURE(!rests || idle || c->state == ZKL__PROVING || c->state == ZKL__HELD);
    ZKL__ENSURE(c->linger.line != ZKL__LINE_WAITS || c->state == ZKL__NEW);
}

/* --- the line -------------------------------------------------------------------------------- */

static void put_in_line(struct zkl__contender *c)
{
    struct zkl__linger_view *view = c->linger.view;
    c->linger.line = ZKL__LINE_WAITS;
    c->linger.next = NULL;
    *(view->last ? &view->last->linger.next : &view->first) = c;
    view->last = c;
}

static void take_out_of_line(struct zkl__contender *c)
{
    struct zkl__linger_view *view = c->linger.view;
    struct zkl__contender *before = NULL;
    for (struct zkl__contender *at = view->first; at != c; at = at->linger.next) {
        before = at;
    }
    *(before ? &before->linger.next : &view->first) = c->linger.next;
    view->last = view->last == c ? before : view->last;
    c->linger.next = NULL;
    c->linger.line = ZKL__LINE_NOT;
}

/* They queue on the servers, in the order of the line: their mail is read in the order in which it
 * is posted. */
static void dissolve_line(struct zkl__linger_view *view)
{
    while (view->first) {
        struct zkl__contender *c = view->first;
        take_out_of_line(c);
        zkl__contender_post(c, ZKL__CE_LOOK);
    }
}

static void move(struct zkl__contender *c, enum zkl__linger_state state, const char *why)
{
    ZKL__ENSURE(states[c->linger.state].next & L(state));
    zkl__core_trace(c->core, c, "linger: %s -> %s: %s", states[c->linger.state].name,
                    states[state].name, why);
    c->linger.state = state;
    if (zkl__linger_rests(c)) {
        c->linger.view->keeper = c;
    } else if (c->linger.view->keeper == c) {
        c->linger.view->keeper = NULL;
        dissolve_line(c->linger.view);
    }
}

/* --- its contender --------------------------------------------------------------------------- */

void zkl__linger_join(struct zkl__contender *c, struct zkl__linger_view *view)
{
    c->linger.view = view;
}

void zkl__linger_free(struct zkl__contender *c)
{
    zkl__free(c->heap, c->linger.acl);
}

void zkl__linger_new_attempt(struct zkl__contender *c)
{
    c->linger.serial = 0;
}

int64_t zkl__linger_count(struct zkl__contender *c)
{
    return ++c->linger.serial;
}

/* It has a place on the servers, or has asked for one, and wants it. */
static bool has_place(const struct zkl__contender *c)
{
    return c->state != ZKL__NEW && c->state != ZKL__REMOVING && c->state != ZKL__GONE;
}

void zkl__linger_moved(struct zkl__contender *c, enum zkl__contender_state before)
{
    struct zkl__linger_view *view = c->linger.view;
    bool keeps = c->state == ZKL__PROVING || zkl__contender_keeps(c);
    if (c->linger.line == ZKL__LINE_WAITS && c->state != ZKL__NEW) {
        take_out_of_line(c);
    }
    if (c->linger.state != ZKL__LINGER_BARE && !keeps) {
        move(c, ZKL__LINGER_BARE, zkl__contender_state_name(c->state));
    }
    if (before == ZKL__NEW && has_place(c) && view->keeper) {
        zkl__contender_post(view->keeper, ZKL__CE_YIELD);
    }
}

/* Whoever goes on waiting for its list needs the watch that the list sets. */
static bool needs_watch(const struct zkl__contender *c)
{
    bool lists = c->state == ZKL__CREATING || c->state == ZKL__MAKING || c->state == ZKL__LISTING;
    return lists || zkl__linger_rests(c);
}

/* The server keeps it: our own delete uses it up. */
void zkl__linger_stepped(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    if (!needs_watch(c)) {
        bool goes = zkl__node_known(&c->node) || zkl__node_unsure(&c->node);
        out->watches[ZKL__WATCHED_LINGER] = goes ? ZKL__WATCH_FORGET : ZKL__WATCH_OFF;
    }
}

/* --- before a place is asked for ------------------------------------------------------------- */

static bool has_linger(const struct zkl__contender *c)
{
    return c->config.linger > 0 && !c->joint && !c->config.mark && !c->config.revocable;
}

/* The znode of one would do for the other. Who wants to know how many are before it has to be in
 * the list. */
static bool may_follow(const struct zkl__contender *keeper, const struct zkl__contender *c)
{
    return has_linger(c) && !c->config.position && c->config.max_ahead == 0 &&
           keeper->config.rule == c->config.rule && keeper->config.delay == c->config.delay &&
           strcmp(keeper->config.metadata, c->config.metadata) == 0 &&
           zkl__acl_same(keeper->config.acl, c->config.acl);
}

bool zkl__linger_in_line(const struct zkl__contender *c)
{
    return c->linger.line == ZKL__LINE_WAITS;
}

bool zkl__linger_waits(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out)
{
    struct zkl__linger_view *view = c->linger.view;
    struct zkl__contender *keeper = view->keeper;
    if (c->linger.line == ZKL__LINE_WAITS) {
        return true;
    }
    if (!keeper || !may_follow(keeper, c)) {
        return false;
    }
    if (c->try_only && (keeper->state != ZKL__LINGERING || view->first)) {
        zkl__contender_fail(c, ev, out, ZKL_EBUSY, 0, "somebody is before us");
        return true;
    }
    zkl__core_trace(c->core, c, "waits in line for #%u", keeper->number);
    put_in_line(c);
    if (keeper->state == ZKL__LINGERING) {
        zkl__contender_post(keeper, ZKL__CE_LOOK);
    }
    return true;
}

void zkl__linger_on_taken(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out)
{
    (void)ev, (void)out;
    zkl__contender_move(c, ZKL__GONE, "the lock that lingered is its owner's");
}

/* --- arming ---------------------------------------------------------------------------------- */

bool zkl__linger_list_watches(struct zkl__contender *c, struct zkl__contender_actions *out)
{
    bool watch = has_linger(c) && zkl__contender_waits(c);
    if (watch) {
        out->watches[ZKL__WATCHED_LINGER] = ZKL__WATCH_ON;
    }
    return watch;
}

static bool is_alone(const struct zkl__contender *c, const struct zkl__reply *list)
{
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        if (zkl__name_contends(name) && strcmp(name, zkl__node_name(&c->node)) != 0) {
            return false;
        }
    }
    return true;
}

void zkl__linger_listed(struct zkl__contender *c, const struct zkl__contender_event *ev)
{
    bool first = c->state == ZKL__PROVING || c->state == ZKL__HELD;
    if (first && c->linger.state == ZKL__LINGER_BARE && !zkl__local_others(c, has_place) &&
        is_alone(c, ev->reply)) {
        move(c, ZKL__LINGER_ARMED, "alone in the queue, which is watched");
    }
}

void zkl__linger_disarm(struct zkl__contender *c, const char *why)
{
    if (c->linger.state != ZKL__LINGER_BARE) {
        move(c, ZKL__LINGER_BARE, why);
    }
}

void zkl__linger_forbid(struct zkl__contender *c)
{
    c->config.linger = 0;
}

/* --- released, and kept ---------------------------------------------------------------------- */

/* The owner's list is gone with the owner. False: no memory. */
static bool keep_acl(struct zkl__contender *c)
{
    if (c->config.acl && !c->linger.acl) {
        c->linger.acl = zkl__acl_copy(c->heap, c->config.acl);
        c->config.acl = c->linger.acl;
        return c->linger.acl;
    }
    return true;
}

bool zkl__linger_keep(struct zkl__contender *c, const struct zkl__contender_event *ev,
                      struct zkl__contender_actions *out)
{
    if (c->linger.state != ZKL__LINGER_ARMED || c->state != ZKL__HELD || c->config.linger == 0 ||
        !zkl__grant_lasts(&c->grant, ev->now) || !ev->connected || !keep_acl(c)) {
        return false;
    }
    c->linger.until = ev->now + c->config.linger;
    zkl__contender_tell(out, ev->now, ZKL__RELEASED, ZKL_OK, 0, "released, and it lingers");
    zkl__contender_move(c, ZKL__LINGERING, "released, and it lingers");
    move(c, ZKL__LINGER_IDLE, "released");
    if (c->linger.view->first) {
        zkl__contender_post(c, ZKL__CE_LOOK);
    }
    return true;
}

/* A heartbeat is what a removal by hand may take to be noticed (is_shown in grant.c). */
static bool may_grant(const struct zkl__contender *c, const struct zkl__contender_event *ev)
{
    return c->linger.state == ZKL__LINGER_IDLE && zkl__core_grants(c->core) &&
           ev->now < c->linger.until && !zkl__core_writes(c->core) &&
           ev->now - c->shown_at <= zkl__lease_heartbeat(zkl__core_timeout(c->core));
}

/* Its owner waits still. */
static bool is_wanted(const struct zkl__contender *c, int64_t now)
{
    const uint32_t ends = ZKL__MAIL(ZKL__CE_CANCEL) | ZKL__MAIL(ZKL__CE_END);
    return zkl__contender_waits(c) && !(c->mail.kinds & ends) && now < c->deadline;
}

static struct zkl__contender *next_in_line(const struct zkl__contender *c, int64_t now)
{
    struct zkl__contender *next = c->linger.view->first;
    while (next && !is_wanted(next, now)) {
        next = next->linger.next;
    }
    return next;
}

/* The owner has this contender from now on, instead of the one that it made. */
static void take_owner(struct zkl__contender *c, struct zkl__contender *from)
{
    struct zkl__contender_config *own = &c->config;
    own->fail_on_expiry = from->config.fail_on_expiry;
    own->max_hold = from->config.max_hold;
    own->linger = from->config.linger;
    own->max_ahead = 0;
    own->position = NULL;
    own->notify = from->config.notify;
    own->owner = from->config.owner;
    c->since = from->since;
    take_out_of_line(from);
    from->linger.line = ZKL__LINE_TAKEN;
    from->started = false;
    from->config.notify = NULL;
    zkl__contender_post(from, ZKL__CE_TAKEN);
}

static void give_up(struct zkl__contender *c, const struct zkl__contender_event *ev,
                    struct zkl__contender_actions *out, enum zkl__linger_state state,
                    const char *why)
{
    move(c, state, why);
    zkl__own_watch_stop(c, out);
    zkl__delay_leave(c);
    zkl__contender_move(c, ZKL__REMOVING, why);
    zkl__contender_advance(c, ev, out);
}

void zkl__linger_end(struct zkl__contender *c, const struct zkl__contender_event *ev,
                     struct zkl__contender_actions *out, const char *why)
{
    give_up(c, ev, out, ZKL__LINGER_BARE, why);
}

void zkl__linger_on_time(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out)
{
    struct zkl__contender *next = next_in_line(c, ev->now);
    if (next && may_grant(c, ev)) {
        take_owner(c, next);
        zkl__grant_again(c, ev, out);
        move(c, ZKL__LINGER_ARMED, "granted again");
    } else if (next) {
        zkl__linger_end(c, ev, out, "nothing shows that it may be granted again");
    } else if (c->linger.until <= ev->now) {
        zkl__linger_end(c, ev, out, "nobody wanted it");
    }
}

int64_t zkl__linger_wake(const struct zkl__contender *c)
{
    return c->state == ZKL__LINGERING ? c->linger.until : INT64_MAX;
}

/* --- giving way ------------------------------------------------------------------------------ */

/* The queue's list changed: somebody queues, most likely. A watch that another one of this session
 * had set may fire before the answer to our list; ours comes with that. */
void zkl__linger_on_event(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out)
{
    const char *why = "the queue has changed";
    if (zkl__linger_rests(c)) {
        zkl__announcement_expect(c);
    }
    if (c->linger.state == ZKL__LINGER_IDLE) {
        zkl__announcement_release(c);
        give_up(c, ev, out, ZKL__LINGER_YIELDING, why);
    } else if (c->linger.state == ZKL__LINGER_ARMED) {
        move(c, ZKL__LINGER_YIELDING, why);
    } else if (c->under_way & UNDER_WAY(ZKL__ROLE_LIST)) {
        (void)zkl__linger_list_watches(c, out);
    }
}

void zkl__linger_on_yield(struct zkl__contender *c, const struct zkl__contender_event *ev,
                          struct zkl__contender_actions *out)
{
    const char *why = ev->connected ? "another one of this session queues" : "no server";
    if (c->linger.state == ZKL__LINGER_IDLE) {
        zkl__linger_end(c, ev, out, why);
    } else {
        zkl__linger_disarm(c, why);
    }
}
