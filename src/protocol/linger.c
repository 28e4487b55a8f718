/* linger.c - a lock that lingers: after a release its znode stays for config.linger, and the next
 * contender of this session is granted without a request. Chubby's clients cache locks in this way.
 *
 * A list shows our znode alone in the queue, and sets a watch. From that list to the local grant,
 * all of this holds:
 *  - The znode exists. The session lives, by the lease, and a delete by hand would fire the watch,
 *    as a new contender would. "Watches are ordered with respect to other events" (What ZooKeeper
 *    Guarantees about Watches, in the Programmer's Guide).
 *  - No other contender waits that we know of. The watch has not fired, and no other contender of
 *    this session has sent a create here.
 *  - The connection is the same. The servers process an earlier holder's requests before those of
 *    the next one. On another connection they might process them later, so nothing lingers over a
 *    lost connection.
 *  - A response within the last heartbeat has shown the znode, as before each other grant
 *    (is_shown), and no write is under way. Otherwise one committed check is sent. Its response
 *    shows the znode, and comes behind the responses to all that the last holder sent.
 *
 * While the lock is armed, contenders of this session that may be granted it next wait in memory,
 * in line: their creates would fire the watch. When it is not armed any more they queue, in the
 * order of the line. One contender of a queue is the keeper. It is granted again and again, for one
 * owner after the other, with one token and a rising serial.
 *
 * When somebody else has disturbed the line, contenders of this session stand behind each other on
 * the servers. They become a line again when a list has shown nobody else: the holder does not
 * delete its znode at its release but gathers. It is granted for the owner of its follower, which
 * deletes its own znode, and for those behind that one in their order. So everybody is granted in
 * the order of the znodes, also before a contender of another session that has come meanwhile. New
 * contenders of this session wait in line, and none of these is granted until a list, sent behind
 * the last of these deletes, shows the keeper's znode alone. Then the lock is armed. */
#include "acl.h"
#include "core_internal.h"

#include <string.h>

/* --- states ---------------------------------------------------------------------------------- */

#define L(state) (1u << (state))

static const struct {
    const char *name;
    uint32_t next;
} states[ZKL__LINGER_STATES] = {
    [ZKL__LINGER_OFF] = {"bare",
                         L(ZKL__LINGER_GATHERING) | L(ZKL__LINGER_ARMED) | L(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_GATHERING] = {"gathering",
                               L(ZKL__LINGER_OFF) | L(ZKL__LINGER_ARMED) | L(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_ARMED] = {"armed", L(ZKL__LINGER_OFF) | L(ZKL__LINGER_YIELDING)},
    [ZKL__LINGER_YIELDING] = {"yielding", L(ZKL__LINGER_OFF)},
};

static bool is_keeper(const struct zkl__contender *c)
{
    return c->linger.state == ZKL__LINGER_GATHERING || c->linger.state == ZKL__LINGER_ARMED;
}

void zkl__linger_check(const struct zkl__contender *c)
{
    if (c->linger.state == ZKL__LINGER_OFF && !c->linger.in_line) {
        return;
    }
    bool keeper = is_keeper(c);
    ZKL__ENSURE(keeper == (c->linger.view->keeper == c));
    ZKL__ENSURE(!keeper || zkl__contender_is_first(c));
    ZKL__ENSURE(c->linger.state != ZKL__LINGER_ARMED || c->watches[ZKL__WATCHED_LINGER].entry.link);
    ZKL__ENSURE(c->state != ZKL__LINGERING || keeper);
    ZKL__ENSURE(!c->linger.in_line || c->state == ZKL__NEW);
}

static void take_out_of_line(struct zkl__contender *c)
{
    c->linger.in_line = false;
    zkl__list_remove(&c->linger.view->line, &c->linger.link);
}

static void move_linger(struct zkl__contender *c, enum zkl__linger_state state, const char *why)
{
    ZKL__ENSURE(states[c->linger.state].next & L(state));
    zkl__core_trace(c->core, c, "linger: %s -> %s: %s", states[c->linger.state].name,
                    states[state].name, why);
    c->linger.state = state;
    if (is_keeper(c)) {
        c->linger.view->keeper = c;
    } else if (c->linger.view->keeper == c) {
        c->linger.view->keeper = NULL;
        /* Its line queues on the servers, in the order of the line: mail is read in the order in
         * which it is posted. */
        ZKL__EACH_LEAVING (struct zkl__contender, next, &c->linger.view->line, linger.link) {
            take_out_of_line(next);
            zkl__contender_post(next, ZKL__CE_LOOK);
        }
    }
}

/* --- moves of its contender ------------------------------------------------------------------- */

/* Another contender of this session in the queue is so. */
static bool any_other(const struct zkl__contender *c,
                      bool (*is_so)(const struct zkl__contender *other))
{
    ZKL__EACH (struct zkl__contender, other, &c->peer.queue->contenders, peer.in_queue) {
        if (other != c && is_so(other)) {
            return true;
        }
    }
    return false;
}

/* Its znode is in the queue, or its create was sent, and it still waits or holds. */
static bool is_queued(const struct zkl__contender *c)
{
    return c->state != ZKL__NEW && c->state != ZKL__REMOVING && c->state != ZKL__ENDED;
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
    if (c->linger.in_line && c->state != ZKL__NEW) {
        take_out_of_line(c);
    }
    if (c->linger.state != ZKL__LINGER_OFF && !zkl__contender_is_first(c)) {
        move_linger(c, ZKL__LINGER_OFF, zkl__contender_state_name(c->state));
    }
    if (before == ZKL__NEW && is_queued(c) && view->keeper) {
        zkl__contender_post(view->keeper, ZKL__CE_YIELD);
    }
    if (c != view->keeper && (c->state == ZKL__WATCHING || !is_queued(c))) {
        wake_keeper(view);
    }
}

/* A contender that still waits for its list needs the watch which that list sets. The server keeps
 * it: our own delete uses it up. */
void zkl__linger_stepped(struct zkl__contender *c)
{
    bool lists = c->state == ZKL__CREATING || c->state == ZKL__MAKING || c->state == ZKL__LISTING;
    if (!lists && !is_keeper(c)) {
        bool goes = zkl__node_known(&c->node) || zkl__node_unsure(&c->node);
        c->out->watches[ZKL__WATCHED_LINGER] = goes ? ZKL__WATCH_FORGET : ZKL__WATCH_OFF;
    }
}

/* --- before a create is sent ------------------------------------------------------------------ */

/* The znode of one would do for the other. A contender whose owner wants its position needs a znode
 * of its own in the list. */
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
    if (c->try_only && (keeper->state != ZKL__LINGERING || view->line.first)) {
        zkl__contender_fail(c, ZKL_EBUSY, 0, "somebody is before us");
        return true;
    }
    if (c->try_only && keeper->linger.state == ZKL__LINGER_GATHERING) {
        return false; /* a list of its own shows whether somebody is before it */
    }
    zkl__core_trace(c->core, c, "waits in line for #%u", keeper->number);
    c->linger.in_line = true;
    zkl__list_append(&view->line, &c->linger.link);
    wake_keeper(view);
    return true;
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
        if (zkl__name_contends(name) && strcmp(name, c->node.name) != 0) {
            return false;
        }
    }
    return true;
}

void zkl__linger_listed(struct zkl__contender *c)
{
    if (!any_other(c, is_queued) && is_alone(c, c->event->reply)) {
        move_linger(c, ZKL__LINGER_ARMED, "alone in the queue, which is watched");
    }
}

void zkl__linger_disarm(struct zkl__contender *c, const char *why)
{
    if (c->linger.state != ZKL__LINGER_OFF) {
        move_linger(c, ZKL__LINGER_OFF, why);
    }
}

/* --- released, and kept ---------------------------------------------------------------------- */

static bool waits_on_server(const struct zkl__contender *c)
{
    return is_queued(c) && zkl__contender_waits(c);
}

/* It waits for the end of a znode, the keeper's for instance. The others that wait on the servers
 * will follow the keeper, or leave. */
static bool follows_nobody(const struct zkl__contender *c)
{
    return waits_on_server(c) && (c->multi || (c->state == ZKL__WATCHING && !c->peer.follows));
}

/* It will follow us, if it does not yet: its own list is under way. */
static bool comes_behind(const struct zkl__contender *c)
{
    return waits_on_server(c) && !follows_nobody(c);
}

bool zkl__linger_keep(struct zkl__contender *c)
{
    if (c->config.linger == 0 || !c->core->connected || c->core->now >= c->grant.hold_until) {
        return false;
    }
    /* The release mark would name our znode, and those behind the follower's would miss the name of
     * that one. A keeper whose znode somebody has deleted by hand may not know that yet. */
    const struct zkl__contender *next = zkl__peers_first_follower(c);
    bool gathers = c->linger.state == ZKL__LINGER_OFF && !c->config.mark &&
                   !c->linger.view->keeper && !c->linger.view->strangers &&
                   (next ? may_follow(c, next) : any_other(c, comes_behind));
    if (!gathers && !is_keeper(c)) {
        return false;
    }
    /* Copies the access list, which the owner may free from now on. */
    if (c->config.acl && !c->linger.acl) {
        c->linger.acl = zkl__acl_copy(c->heap, c->config.acl);
        c->config.acl = c->linger.acl;
        if (!c->linger.acl) {
            return false;
        }
    }
    if (gathers) {
        move_linger(c, ZKL__LINGER_GATHERING, "those behind us are of this session");
    }
    c->linger.until = c->core->now + c->config.linger;
    c->linger.checks = false;
    zkl__contender_notify(c, ZKL__RELEASED, ZKL_OK, 0, "released, and it lingers");
    zkl__contender_move(c, ZKL__LINGERING, "released, and it lingers");
    if (c->linger.view->line.first || c->linger.state == ZKL__LINGER_GATHERING) {
        zkl__contender_post(c, ZKL__CE_TIME);
    }
    return true;
}

/* --- granted again ---------------------------------------------------------------------------- */

/* Its owner still waits. A step may bring a release before it brings the time. */
static bool is_wanted(const struct zkl__contender *c, int64_t now)
{
    return zkl__contender_waits(c) && now < c->deadline;
}

static void send_check(struct zkl__contender *c, bool released)
{
    if (!zkl__under_way(c, ZKL__ROLE_PROVE)) {
        c->linger.checks = released;
        zkl__contender_send_of_node(c, ZKL__ROLE_PROVE, ZKL__OP_CHECK, c->node.name);
    }
}

/* Nobody of this session stands behind us: the list goes behind the delete of the last one. */
static void send_list_of_keeper(struct zkl__contender *c)
{
    c->linger.lists_again = zkl__under_way(c, ZKL__ROLE_LIST);
    if (!c->linger.lists_again) {
        zkl__contender_send_list(c);
    }
}

/* Grants it, or sends the check that the grant still needs. Without a lease it waits for one. */
static void grant_or_check(struct zkl__contender *c, struct zkl__contender *next)
{
    bool checked =
        c->linger.checks && c->event->kind == ZKL__CE_REPLY && c->event->role == ZKL__ROLE_PROVE;
    bool proved = checked || (zkl__contender_shown_within(c, 1) && c->core->writes == 0);
    if (!proved || !zkl__core_grants(c->core)) {
        if (!proved || !c->linger.checks) {
            send_check(c, true);
        }
        return;
    }
    /* The owner has this contender from now on, instead of the one that it made. */
    struct zkl__contender_config *own = &c->config;
    own->max_hold = next->config.max_hold;
    own->linger = next->config.linger;
    own->max_ahead = 0;
    own->position = NULL;
    own->notify = next->config.notify;
    own->owner = next->config.owner;
    c->since = next->since;
    if (next->linger.in_line) {
        take_out_of_line(next);
    } else {
        zkl__peers_replace(next, c);
    }
    next->started = false;
    next->config.notify = NULL;
    zkl__contender_post(next, ZKL__CE_TAKEN);
    zkl__grant_again(c);
    if (!zkl__contender_shown_within(c, 2)) {
        send_check(c, false); /* for the next grant, which then waits for nothing */
    }
    if (c->linger.state == ZKL__LINGER_GATHERING && !c->peer.followers.first) {
        send_list_of_keeper(c);
    }
}

static void end_cached(struct zkl__contender *c, enum zkl__linger_state state, const char *why)
{
    move_linger(c, state, why);
    zkl__own_watch_stop(c);
    zkl__mark_leave(c);
    zkl__contender_move(c, ZKL__REMOVING, why);
}

void zkl__linger_end(struct zkl__contender *c, const char *why)
{
    end_cached(c, ZKL__LINGER_OFF, why);
}

void zkl__linger_on_time(struct zkl__contender *c)
{
    bool gathers = c->linger.state == ZKL__LINGER_GATHERING;
    struct zkl__contender *next = NULL;
    if (gathers) {
        next = zkl__peers_first_follower(c);
    } else { /* the first in line */
        ZKL__EACH (struct zkl__contender, waiting, &c->linger.view->line, linger.link) {
            if (is_wanted(waiting, c->core->now)) {
                next = waiting;
                break;
            }
        }
    }
    if (gathers && next && !may_follow(c, next)) {
        /* a znode of its own is what it waits with */
        zkl__linger_end(c, "another kind of contender is next");
    } else if (next && is_wanted(next, c->core->now)) {
        grant_or_check(c, next);
    } else if (zkl__linger_wake(c) <= c->core->now) {
        zkl__linger_end(c, "nobody wanted it");
    } else if (gathers && !next) {
        send_list_of_keeper(c);
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
    if (rc == ZKL__RC_OK && !zkl__list_has(c->event->reply, c->core->index, c->node.name)) {
        zkl__node_removed(c);
    } else if (rc == ZKL__RC_OK && is_alone(c, c->event->reply) &&
               c->watches[ZKL__WATCHED_LINGER].entry.link) {
        move_linger(c, ZKL__LINGER_ARMED, "alone in the queue, which is watched");
        if (c->state == ZKL__LINGERING) {
            zkl__linger_on_time(c);
        }
    } else if (rc == ZKL__RC_OK && any_other(c, waits_on_server) && !any_other(c, follows_nobody)) {
        return;
    } else if (rc == ZKL__RC_OK && c->linger.lists_again) {
        send_list_of_keeper(c);
    } else if (c->state == ZKL__LINGERING) {
        zkl__linger_end(c, why);
    } else {
        move_linger(c, ZKL__LINGER_OFF, why);
    }
}

/* Each contender that waits is granted the lock or leaves, and both wake the keeper. */
int64_t zkl__linger_wake(const struct zkl__contender *c)
{
    bool wanted = c->linger.view->line.first || c->peer.followers.first;
    return c->state == ZKL__LINGERING && !wanted ? c->linger.until : INT64_MAX;
}

/* --- giving way ------------------------------------------------------------------------------ */

/* The queue's list changed: somebody queues, most likely. A watch that another one of this session
 * had set may fire before the answer to our list; ours comes with that. */
void zkl__linger_on_event(struct zkl__contender *c)
{
    const char *why = "the queue has changed";
    if (c->linger.state == ZKL__LINGER_ARMED) {
        if (c->state == ZKL__LINGERING) {
            end_cached(c, ZKL__LINGER_YIELDING, why);
        } else {
            move_linger(c, ZKL__LINGER_YIELDING, why);
        }
    } else if (zkl__under_way(c, ZKL__ROLE_LIST)) {
        (void)zkl__linger_list_watches(c);
    }
}

/* What was sent on a lost connection may be done at any time while our znode stands: nothing makes
 * a holder of before that a keeper. */
void zkl__linger_on_yield(struct zkl__contender *c)
{
    const char *why = c->core->connected ? "another one queues" : "no server";
    if (c->state == ZKL__LINGERING) {
        zkl__linger_end(c, why);
    } else if (!c->core->connected && c->linger.state != ZKL__LINGER_YIELDING) {
        move_linger(c, ZKL__LINGER_YIELDING, why);
    } else if (is_keeper(c)) {
        move_linger(c, ZKL__LINGER_OFF, why);
    }
}
