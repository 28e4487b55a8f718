#include "linger.h"

#include "acl.h"
#include "contender_moves.h"
#include "lease.h"
#include "local_queue.h"
#include "queue_list.h"

#include <string.h>

/* --- states ---------------------------------------------------------------------------------- */

#define L(state) (1u << (state))

static const struct {
    const char *name;
    uint32_t next;
} states[ZKL__LINGER_STATES] = {
    [ZKL__LINGER_BARE] = {"bare", L(ZKL__LINGER_GATHERING) | L(ZKL__LINGER_ARMED) |
                                      L(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_GATHERING] = {"gathering", L(ZKL__LINGER_BARE) | L(ZKL__LINGER_ARMED) |
                                                L(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_ARMED] = {"armed", L(ZKL__LINGER_BARE) | L(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_YIELDING] = {"yielding", L(ZKL__LINGER_BARE)},
};

static bool is_keeper(const struct zkl__contender *c)
{
    return c->linger.state == ZKL__LINGER_GATHERING || c->linger.state == ZKL__LINGER_ARMED;
}

void zkl__linger_check_all(const struct zkl__contender *c)
{
    bool keeper = is_keeper(c);
    ZKL__ENSURE(keeper == (c->linger.view->keeper == c));
    ZKL__ENSURE(!keeper || c->state == ZKL__PROVING || zkl__contender_keeps(c));
    ZKL__ENSURE(c->linger.state != ZKL__LINGER_ARMED || c->watches[ZKL__WATCHED_LINGER].on);
    ZKL__ENSURE(c->state != ZKL__LINGERING || keeper);
    ZKL__ENSURE(!c->linger.in_line || c->state == ZKL__NEW);
}

/* --- the line -------------------------------------------------------------------------------- */

static void put_in_line(struct zkl__contender *c)
{
    struct zkl__linger_view *view = c->linger.view;
    c->linger.in_line = true;
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
    c->linger.in_line = false;
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
    if (is_keeper(c)) {
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
    view->used = view->used || c->config.linger > 0;
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

/* What the keeper waits for may have changed. */
static void wake_keeper(struct zkl__linger_view *view)
{
    if (view->keeper && view->keeper->state == ZKL__LINGERING) {
        zkl__contender_post(view->keeper, ZKL__CE_TIME);
    }
}

void zkl__linger_moved(struct zkl__contender *c, enum zkl__contender_state before)
{
    struct zkl__linger_view *view = c->linger.view;
    bool keeps = c->state == ZKL__PROVING || zkl__contender_keeps(c);
    if (c->linger.in_line && c->state != ZKL__NEW) {
        take_out_of_line(c);
    }
    if (c->linger.state != ZKL__LINGER_BARE && !keeps) {
        move(c, ZKL__LINGER_BARE, zkl__contender_state_name(c->state));
    }
    if (before == ZKL__NEW && has_place(c) && view->keeper) {
        zkl__contender_post(view->keeper, ZKL__CE_YIELD);
    }
    if (c != view->keeper && (c->state == ZKL__WATCHING || !has_place(c))) {
        wake_keeper(view);
    }
}

/* Whoever goes on waiting for its list needs the watch that the list sets. */
static bool needs_watch(const struct zkl__contender *c)
{
    bool lists = c->state == ZKL__CREATING || c->state == ZKL__MAKING || c->state == ZKL__LISTING;
    return lists || is_keeper(c);
}

/* The server keeps it: our own delete uses it up. */
void zkl__linger_stepped(struct zkl__contender *c)
{
    if (!needs_watch(c)) {
        bool goes = zkl__node_known(&c->node) || zkl__node_unsure(&c->node);
        c->out->watches[ZKL__WATCHED_LINGER] = goes ? ZKL__WATCH_FORGET : ZKL__WATCH_OFF;
    }
}

/* --- before a place is asked for ------------------------------------------------------------- */

/* The znode of one would do for the other. Who wants to know how many are before it has to be in
 * the list. */
static bool may_follow(const struct zkl__contender *keeper, const struct zkl__contender *c)
{
    return c->config.linger > 0 && !c->config.position && c->config.max_ahead == 0 &&
           keeper->config.rule == c->config.rule && keeper->config.mark == c->config.mark &&
           keeper->config.delay == c->config.delay &&
           strcmp(keeper->config.metadata, c->config.metadata) == 0 &&
           zkl__acl_same(keeper->config.acl, c->config.acl);
}

bool zkl__linger_waits(struct zkl__contender *c)
{
    struct zkl__linger_view *view = c->linger.view;
    struct zkl__contender *keeper = view->keeper;
    if (c->linger.in_line) {
        return true;
    }
    if (!keeper || !may_follow(keeper, c)) {
        return false;
    }
    if (c->try_only && (keeper->state != ZKL__LINGERING || view->first)) {
        zkl__contender_fail(c, ZKL_EBUSY, 0, "somebody is before us");
        return true;
    }
    if (c->try_only && keeper->linger.state == ZKL__LINGER_GATHERING) {
        return false; /* whether somebody is before it, a list of its own shows */
    }
    zkl__core_trace(c->core, c, "waits in line for #%u", keeper->number);
    put_in_line(c);
    wake_keeper(view);
    return true;
}

/* Another contender holds for its owner. */
void zkl__linger_on_taken(struct zkl__contender *c)
{
    const char *why = "the lock that lingers is its owner's";
    if (c->state == ZKL__NEW) {
        zkl__contender_move(c, ZKL__GONE, why);
    } else {
        zkl__contender_withdraw(c, why);
    }
}

/* --- arming ---------------------------------------------------------------------------------- */

bool zkl__linger_list_watches(struct zkl__contender *c)
{
    bool watch = c->config.linger > 0 &&
                 (zkl__contender_waits(c) || c->linger.state == ZKL__LINGER_GATHERING);
    if (watch) {
        c->out->watches[ZKL__WATCHED_LINGER] = ZKL__WATCH_ON;
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

void zkl__linger_listed(struct zkl__contender *c)
{
    bool first = c->state == ZKL__PROVING || c->state == ZKL__HELD;
    if (first && c->linger.state == ZKL__LINGER_BARE && !zkl__local_others(c, has_place) &&
        is_alone(c, c->event->reply)) {
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

static bool waits_on_server(const struct zkl__contender *c)
{
    return has_place(c) && zkl__contender_waits(c);
}

/* It waits for the end of a znode, the keeper's for instance. The others that wait on the servers
 * will follow the keeper, or leave. */
static bool follows_nobody(const struct zkl__contender *c)
{
    return waits_on_server(c) &&
           (c->joint || (c->state == ZKL__WATCHING && !zkl__local_follows(&c->local)));
}

/* It will follow us, if it does not yet: its own list is under way. */
static bool comes_behind(const struct zkl__contender *c)
{
    return waits_on_server(c) && !follows_nobody(c);
}

/* A list has shown us first: what rests on an announcement alone must not be passed on for long
 * (announcement.h). The release mark would name our znode, and those behind the follower's would
 * miss the name of that one (release_mark.h). A keeper whose znode somebody has deleted by hand may
 * not know that yet. */
static bool may_gather(const struct zkl__contender *c)
{
    const struct zkl__contender *next = zkl__local_follower(&c->local);
    return c->linger.state == ZKL__LINGER_BARE && !c->config.mark && !c->linger.view->keeper &&
           !c->linger.view->strangers && zkl__announcement_is_listed(c) &&
           (next ? may_follow(c, next) : zkl__local_others(c, comes_behind));
}

bool zkl__linger_keep(struct zkl__contender *c)
{
    if (c->state != ZKL__HELD || c->config.linger == 0 || !c->event->connected ||
        !zkl__grant_lasts(&c->grant, c->event->now)) {
        return false;
    }
    bool gathers = may_gather(c);
    if ((!gathers && !is_keeper(c)) || !keep_acl(c)) {
        return false;
    }
    if (gathers) {
        move(c, ZKL__LINGER_GATHERING, "those behind us are of this session");
    }
    c->linger.until = c->event->now + c->config.linger;
    c->linger.checks = false;
    zkl__contender_tell(c, ZKL__RELEASED, ZKL_OK, 0, "released, and it lingers");
    zkl__contender_move(c, ZKL__LINGERING, "released, and it lingers");
    if (c->linger.view->first || c->linger.state == ZKL__LINGER_GATHERING) {
        wake_keeper(c->linger.view);
    }
    return true;
}

/* --- granted again ---------------------------------------------------------------------------- */

/* Its owner waits still: a step may bring a release before it brings the time. */
static bool is_wanted(const struct zkl__contender *c, int64_t now)
{
    return zkl__contender_waits(c) && now < c->deadline;
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
    own->max_hold = from->config.max_hold;
    own->linger = from->config.linger;
    own->max_ahead = 0;
    own->position = NULL;
    own->notify = from->config.notify;
    own->owner = from->config.owner;
    c->since = from->since;
    if (from->linger.in_line) {
        take_out_of_line(from);
    } else {
        zkl__local_replace(from, c);
    }
    from->started = false;
    from->config.notify = NULL;
    zkl__contender_post(from, ZKL__CE_TAKEN);
}

/* A heartbeat is what a removal by hand may take to be noticed (is_shown in grant.c). */
static bool is_shown(const struct zkl__contender *c, int64_t now, int64_t parts)
{
    return now - c->shown_at <= zkl__lease_heartbeat(zkl__core_timeout(c->core)) / parts;
}

static void ask_check(struct zkl__contender *c, bool released)
{
    if (!(c->under_way & UNDER_WAY(ZKL__ROLE_PROVE))) {
        c->linger.checks = released;
        zkl__ask_node(c, ZKL__ROLE_PROVE, ZKL__OP_CHECK, zkl__node_name(&c->node));
    }
}

/* Nobody of this session stands behind us: the list goes behind the delete of the last one. */
static void ask_whether_alone(struct zkl__contender *c)
{
    c->linger.lists_again = c->under_way & UNDER_WAY(ZKL__ROLE_LIST);
    if (!c->linger.lists_again) {
        zkl__ask_list(c);
    }
}

/* Grants it, or sends the check that the grant still needs. Without a lease it waits for one. */
static void grant_or_check(struct zkl__contender *c, struct zkl__contender *next)
{
    bool checked =
        c->linger.checks && c->event->kind == ZKL__CE_REPLY && c->event->role == ZKL__ROLE_PROVE;
    bool proved = checked || (is_shown(c, c->event->now, 1) && !zkl__core_writes(c->core));
    if (!proved || !zkl__core_grants(c->core)) {
        if (!proved || !c->linger.checks) {
            ask_check(c, true);
        }
        return;
    }
    take_owner(c, next);
    zkl__grant_again(c);
    if (!is_shown(c, c->event->now, 2)) {
        ask_check(c, false); /* for the next grant, which then waits for nothing */
    }
    if (c->linger.state == ZKL__LINGER_GATHERING && !zkl__local_followed(&c->local)) {
        ask_whether_alone(c);
    }
}

static void give_up(struct zkl__contender *c, enum zkl__linger_state state, const char *why)
{
    move(c, state, why);
    zkl__own_watch_stop(c);
    zkl__mark_leave(c);
    zkl__contender_move(c, ZKL__REMOVING, why);
}

void zkl__linger_end(struct zkl__contender *c, const char *why)
{
    give_up(c, ZKL__LINGER_BARE, why);
}

/* The next one is another kind of contender: a znode of its own is what it waits with. */
static bool must_give_way(const struct zkl__contender *c)
{
    const struct zkl__contender *next = zkl__local_follower(&c->local);
    return next && !may_follow(c, next);
}

void zkl__linger_on_time(struct zkl__contender *c)
{
    bool gathers = c->linger.state == ZKL__LINGER_GATHERING;
    struct zkl__contender *next =
        gathers ? zkl__local_follower(&c->local) : next_in_line(c, c->event->now);
    if (gathers && must_give_way(c)) {
        zkl__linger_end(c, "another kind of contender is next");
    } else if (next && is_wanted(next, c->event->now)) {
        grant_or_check(c, next);
    } else if (zkl__linger_wake(c) <= c->event->now) {
        zkl__linger_end(c, "nobody wanted it");
    } else if (gathers && !next && c->event->connected) {
        ask_whether_alone(c);
    }
}

void zkl__linger_on_check(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    if (rc == ZKL__RC_OK || rc == ZKL__RC_NOAUTH) {
        zkl__linger_on_time(c);
    } else if (c->event->role == ZKL__ROLE_PROVE && rc != ZKL__RC_UNKNOWN) {
        zkl__linger_end(c, "nothing shows that it may be granted again");
    }
}

void zkl__linger_on_list(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    const char *why = "somebody else is in the queue, or nothing shows that nobody is";
    if (rc == ZKL__RC_UNKNOWN) {
        return; /* the connection was lost, which has mail of its own */
    }
    if (rc == ZKL__RC_OK &&
        !zkl__list_has(c->event->reply, c->event->index, zkl__node_name(&c->node))) {
        zkl__node_removed(c);
    } else if (rc == ZKL__RC_OK && is_alone(c, c->event->reply) &&
               c->watches[ZKL__WATCHED_LINGER].on) {
        move(c, ZKL__LINGER_ARMED, "alone in the queue, which is watched");
        if (c->state == ZKL__LINGERING) {
            zkl__linger_on_time(c);
        }
    } else if (rc == ZKL__RC_OK && zkl__local_others(c, waits_on_server) &&
               !zkl__local_others(c, follows_nobody)) {
        return;
    } else if (rc == ZKL__RC_OK && c->linger.lists_again) {
        ask_whether_alone(c);
    } else if (c->state == ZKL__LINGERING) {
        zkl__linger_end(c, why);
    } else {
        move(c, ZKL__LINGER_BARE, why);
    }
}

/* Whoever waits is granted it, or leaves, and both wake the keeper. */
int64_t zkl__linger_wake(const struct zkl__contender *c)
{
    bool wanted = c->linger.view->first || zkl__local_followed(&c->local);
    return c->state == ZKL__LINGERING && !wanted ? c->linger.until : INT64_MAX;
}

/* --- giving way ------------------------------------------------------------------------------ */

/* The queue's list changed: somebody queues, most likely. A watch that another one of this session
 * had set may fire before the answer to our list; ours comes with that. */
void zkl__linger_on_event(struct zkl__contender *c)
{
    const char *why = "the queue has changed";
    if (c->linger.state == ZKL__LINGER_ARMED) {
        zkl__announcement_expect(c);
        if (c->state == ZKL__LINGERING) {
            zkl__announcement_release(c);
            give_up(c, ZKL__LINGER_YIELDING, why);
        } else {
            move(c, ZKL__LINGER_YIELDING, why);
        }
    } else if (c->under_way & UNDER_WAY(ZKL__ROLE_LIST)) {
        (void)zkl__linger_list_watches(c);
    }
}

void zkl__linger_note_list(struct zkl__linger_view *view, bool strangers)
{
    view->strangers = strangers;
    if (strangers && view->keeper) {
        zkl__contender_post(view->keeper, ZKL__CE_YIELD);
    }
}

/* What was sent on a lost connection may be done at any time while our znode stands: nothing makes
 * a holder of before that a keeper. */
void zkl__linger_on_yield(struct zkl__contender *c)
{
    const char *why = c->event->connected ? "another one queues" : "no server";
    if (c->state == ZKL__LINGERING) {
        zkl__linger_end(c, why);
    } else if (!c->event->connected && c->linger.state != ZKL__LINGER_YIELDING) {
        move(c, ZKL__LINGER_YIELDING, why);
    } else if (is_keeper(c)) {
        move(c, ZKL__LINGER_BARE, why);
    }
}
