/* session_time.c - a session's own times: how much lease is left, the heartbeat that renews it, who
 * has to be told. */
#include "core_internal.h"

#include <string.h>

#define BEATS_MOST \
    4 /* heartbeats under way: more would only pile up behind a server that does not answer */

static int64_t lease_left(const struct zkl__core *core)
{
    return core->lease.until - core->now;
}

/* A timeout that leaves so little is refused when the session is opened; a later connection may
 * have more hops. */
static bool is_too_short(const struct zkl__core *core, int64_t least)
{
    return least < core->lease.timeout / 10;
}

/* A grant on the last crumbs of a lease would be lost again soon. Nor is there one that would be in
 * jeopardy before the lease grows: a connection that was long in coming has used up much of its
 * first lease, and its first chain takes a while. */
bool zkl__core_leased(const struct zkl__core *core)
{
    int64_t least = zkl__core_least_lease(core);
    return !is_too_short(core, least) && lease_left(core) > 0 && lease_left(core) >= least / 3 &&
           zkl__lease_low(&core->lease, core->now) >= least / 4;
}

/* --- hops ------------------------------------------------------------------------------------ */

/* The servers' roles, as they were configured or reconfigured. Everybody may read it by default,
 * and no chroot moves it (ZooDefs.CONFIG_NODE). It does not say who has an observerMasterPort, so
 * any observer counts. */
static void read_roles(struct zkl__core *core)
{
    struct zkl__op op = {.kind = ZKL__OP_GET, .dir = "/zookeeper/config", .outside = true};
    core->roles_at = INT64_MAX;
    zkl__core_send(core, NULL, ZKL__ROLE_CONFIG, &op);
}

void zkl__core_find_hops(struct zkl__core *core)
{
    core->lease.hops = core->config.masters == ZKL__MASTERS_NONE ? ZKL__HOPS_ONE : ZKL__HOPS_TWO;
    core->roles_at = INT64_MAX;
    if (core->config.masters == ZKL__MASTERS_ASK) {
        read_roles(core);
    }
}

/* "server.4=host:2888:3888:observer;2181" (QuorumPeer.QuorumServer.toString). */
static bool lists_an_observer(const struct zkl__reply *reply)
{
    static const char role[] = ":observer";
    const char *text = reply->data;
    for (size_t at = 0; at + sizeof role - 1 <= reply->size; at++) {
        if (memcmp(text + at, role, sizeof role - 1) == 0) {
            return true;
        }
    }
    return false;
}

void zkl__core_take_roles(struct zkl__core *core, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_UNKNOWN) {
        return; /* the next connection asks */
    }
    if (reply->rc == ZKL__RC_UNSENT || reply->rc == ZKL__RC_NOTAPPLIED) {
        core->roles_at = core->now + zkl__lease_heartbeat(core->lease.timeout);
        return;
    }
    /* A server before 3.5 has no such node, and no observer masters (3.6). */
    bool none =
        reply->rc == ZKL__RC_NONODE || (reply->rc == ZKL__RC_OK && !lists_an_observer(reply));
    core->lease.hops = none ? ZKL__HOPS_ONE : ZKL__HOPS_TWO;
    zkl__core_trace(core, NULL,
                    none ? "no observers: one hop" : "observers, or nobody knows: two hops");
    if (reply->rc != ZKL__RC_OK && !none) {
        zkl__core_warn(
            core, NULL,
            "/zookeeper/config cannot be read: leases allow for observers that follow a follower");
    }
    if (is_too_short(core, zkl__core_least_lease(core))) {
        zkl__core_warn(
            core, NULL,
            "the session timeout is too short for servers with observers: nothing is granted here");
    }
}

/* --- heartbeats ------------------------------------------------------------------------------ */

int64_t zkl__core_now(const struct zkl__core *core)
{
    return core->now;
}

bool zkl__core_grants(const struct zkl__core *core)
{
    return core->connected && zkl__core_leased(core);
}

#define GUARDS_MOST 4096 /* that begin in one heartbeat */
#define GUARD_SLOTS 64   /* moments in one heartbeat at which they do */

int64_t zkl__core_guard_at(struct zkl__core *core)
{
    int64_t heartbeat = zkl__lease_heartbeat(core->timeout), slot = heartbeat / GUARD_SLOTS + 1;
    int64_t next = core->guard_at + heartbeat / GUARDS_MOST + 1, least = core->now + heartbeat;
    core->guard_at = next > least ? next : least;
    return (core->guard_at / slot + 1) * slot;
}

static void beat(struct zkl__core *core)
{
    struct zkl__contender *c = ZKL__OWNER(core->holders.first, struct zkl__contender, holding);
    core->beat_at = core->now + zkl__lease_heartbeat(core->lease.timeout);
    if (!c || core->beats_under_way >= BEATS_MOST) {
        return;
    }
    /* The next one is on another one's node. */
    zkl__list_remove(&core->holders, &c->holding);
    zkl__list_append(&core->holders, &c->holding);
    if (c->state == ZKL__PROVING) {
        zkl__list_remove(&core->provers, &c->proving);
        zkl__list_append(&core->provers, &c->proving);
    }
    /* A node that is being replaced may be gone when its answer comes: then the directory's will
     * do. */
    struct zkl__op op = {.kind = ZKL__OP_CHECK,
                         .dir = c->config.path,
                         .name = c->replacement.state != ZKL__REPLACING_NOT ? NULL : c->node.name,
                         .version = -1};
    c->in_flight++;
    zkl__core_send(core, &c->machine, ZKL__ROLE_BEAT, &op);
}

static void notify_jeopardy(struct zkl__core *core)
{
    if (core->warned == (core->jeopardy ? core->granted : 0)) {
        return; /* everybody knows: a step costs what it changes, not what the session holds */
    }
    ZKL__EACH (struct zkl__contender, c, &core->holders, holding) {
        if (c->state == ZKL__HELD && c->jeopardy_notified != core->jeopardy) {
            struct zkl__outcome outcome = {.kind = core->jeopardy ? ZKL__JEOPARDY : ZKL__SAFE,
                                           .now = core->now,
                                           .why = core->connected ? "the servers do not answer"
                                                                  : "not connected"};
            if (!core->jeopardy) {
                outcome.why = "the lease is renewed";
            }
            c->jeopardy_notified = core->jeopardy;
            core->warned += core->jeopardy ? 1 : -1u;
            zkl__owner_notify(c, &outcome);
        }
    }
}

static void lapse(struct zkl__core *core)
{
    ZKL__EACH_LEAVING (struct zkl__contender, c, &core->holders, holding) {
        if (zkl__contender_keeps(c)) {
            zkl__contender_lapse(core, c);
        }
    }
}

void zkl__core_check_lease(struct zkl__core *core)
{
    if (lease_left(core) <= 0) {
        zkl__stats_slack(&core->stats, 0);
        lapse(core);
        return;
    }
    core->jeopardy = !core->connected || lease_left(core) < zkl__core_least_lease(core) / 4;
    notify_jeopardy(core);
}

bool zkl__core_post_due_timers(struct zkl__core *core)
{
    struct zkl__timer *timer;
    bool any = false;
    while ((timer = zkl__timers_due(&core->timers, core->now))) {
        struct zkl__machine *machine = (struct zkl__machine *)timer;
        machine->ops->due(machine);
        any = true;
    }
    return any;
}

void zkl__core_keep_alive(struct zkl__core *core)
{
    if (!core->connected || core->closing) {
        return;
    }
    if (core->roles_at <= core->now) {
        read_roles(core);
    }
    if (core->holders.first && core->beat_at <= core->now) {
        beat(core);
    }
    if (core->proof_at <= core->now) {
        struct zkl__op op = {.kind = ZKL__OP_SYNC, .dir = "/"};
        core->proof_at = core->now + zkl__lease_keepalive(core->lease.timeout, core->lease.gap,
                                                          core->lease.hops);
        zkl__core_send(core, NULL, ZKL__ROLE_NONE, &op);
    }
}

int64_t zkl__core_next(const struct zkl__core *core)
{
    ZKL__ENSURE(zkl__core_settled(core));
    int64_t next = zkl__timers_next(&core->timers);
    if (core->held > 0) {
        int64_t warn = core->lease.until - zkl__core_least_lease(core) / 4 + 1;
        int64_t look = core->jeopardy ? core->lease.until : warn;
        next = look < next ? look : next;
    }
    if (core->connected && !core->closing) {
        next = core->proof_at < next ? core->proof_at : next;
        next = core->roles_at < next ? core->roles_at : next;
        if (core->holders.first && core->beat_at < next) {
            next = core->beat_at;
        }
    }
    return next;
}
