/* session_step.c - a session of the core: the drain, what it counts, its operations, its watches,
 * its times, its events and its step. Operations are sent as soon as there is room for them,
 * answered once whatever happens, and each answer proves something for the lease. */
#include "core_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* === what it tells of itself ================================================================== */

void zkl__core_say(const struct zkl__core *core, zkl_log_level level, const char *path,
                   unsigned number, const char *format, ...)
{
    const struct zkl__port *port = &core->port;
    if (!port->log || level > port->log_level) {
        return; /* several times for each acquire, and seldom does anybody listen */
    }
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    port->log(port->ctx, level, path, number, what);
}

/* === statistics =============================================================================== */

#define LEAST_US 128

void zkl__stats_init(struct zkl__stats *stats)
{
    *stats = (struct zkl__stats){.all = {.size = sizeof stats->all, .lease_slack_min_us = -1},
                                 .paths = &stats->others};
}

void zkl__stats_deinit(struct zkl__stats *stats, const zkl_heap *heap)
{
    while (stats->paths->path) {
        struct zkl__path_stats *row = stats->paths;
        stats->paths = row->next;
        zkl__free(heap, row->path);
        zkl__free(heap, row);
    }
}

struct zkl__path_stats *zkl__stats_path(struct zkl__stats *stats, const zkl_heap *heap,
                                        const char *path)
{
    for (struct zkl__path_stats *row = stats->paths; row->path; row = row->next) {
        if (strcmp(row->path, path) == 0) {
            return row;
        }
    }
    struct zkl__path_stats *row =
        stats->path_count < ZKL_STATS_PATHS_MAX ? zkl__zalloc(heap, sizeof *row) : NULL;
    if (row) {
        row->path = zkl__copy_text(heap, path);
    }
    if (!row || !row->path) {
        zkl__free(heap, row);
        return &stats->others;
    }
    row->next = stats->paths;
    stats->paths = row;
    stats->path_count++;
    return row;
}

uint64_t zkl__histogram_bound_us(size_t bucket)
{
    return bucket < ZKL_HISTOGRAM_BUCKETS - 1 ? (uint64_t)LEAST_US << bucket : 0;
}

static uint64_t microseconds(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns / 1000 : 0;
}

void zkl__histogram_add(zkl_histogram *histogram, int64_t ns)
{
    uint64_t us = microseconds(ns);
    size_t bucket = 0;
    while (bucket < ZKL_HISTOGRAM_BUCKETS - 1 && us > zkl__histogram_bound_us(bucket)) {
        bucket++;
    }
    histogram->count++;
    histogram->sum_us += us;
    histogram->buckets[bucket]++;
}

/* What a holder had left of its lease, ns. */
static void count_slack(struct zkl__stats *stats, int64_t left)
{
    int64_t us = (int64_t)microseconds(left);
    zkl__histogram_add(&stats->all.slack, left);
    if (stats->all.lease_slack_min_us < 0 || us < stats->all.lease_slack_min_us) {
        stats->all.lease_slack_min_us = us;
    }
}

/* --- one contender's step -------------------------------------------------------------------- */

/* Into the sums of one row: the session's, or a path's. lasted: what came to its end. */
static void count(zkl_contender_stats *counts, const struct zkl__contender *c,
                  enum zkl__contender_state before, int64_t lasted)
{
    bool queues = c->state == ZKL__NEW, started = queues && before == ZKL__NEW;
    bool lost = c->state == ZKL__LOST;
    counts->waits += started;
    counts->waiting += started;
    counts->requeues += queues && !started;
    counts->removing += (uint64_t)((c->state == ZKL__REMOVING) - (before == ZKL__REMOVING));
    if (c->state == ZKL__HELD) {
        counts->grants++;
        counts->waiting--;
        counts->held++;
        counts->wait_us += microseconds(lasted);
    } else if (before == ZKL__HELD) {
        counts->losses += lost;
        counts->releases += !lost;
        counts->held--;
        counts->hold_us += microseconds(lasted);
    } else if (c->state == ZKL__REMOVING && c->out->why && c->out->kind == ZKL__FAILED) {
        counts->waiting--;
        switch (c->out->code) {
        case ZKL_ETIMEOUT:
            counts->timeouts++;
            break;
        case ZKL_EBUSY:
            counts->busy++;
            break;
        case ZKL_ECANCELED:
        case ZKL_ECLOSED:
            counts->cancels++;
            break;
        default:
            counts->failures++;
        }
    }
}

void zkl__stats_move(struct zkl__contender *c, enum zkl__contender_state before)
{
    struct zkl__stats *stats = &c->core->stats;
    int64_t now = c->core->now, lasted = now - c->since;
    count(&stats->all.contenders, c, before, lasted);
    count(&c->path_stats->counts, c, before, lasted);
    if (c->state == ZKL__HELD) {
        zkl__histogram_add(&stats->all.wait, lasted);
        c->since = now;
    } else if (before == ZKL__HELD) {
        zkl__histogram_add(&stats->all.hold, lasted);
    } else if (c->state == ZKL__NEW && before == ZKL__NEW) {
        c->since = now;
    }
}

/* === the lease ================================================================================ */

int64_t zkl__core_least_lease(const struct zkl__core *core)
{
    return zkl__lease_least(core->lease.timeout, core->lease.gap, core->lease.hops);
}

/* A grant on the last crumbs of a lease would be lost again soon. Nor is there one that would be in
 * jeopardy before the lease grows: a connection that was long in coming has used up much of its
 * first lease, and its first chain takes a while. A timeout that leaves less than a tenth of it is
 * refused when the session is opened; a later connection may have more hops. */
bool zkl__core_leased(const struct zkl__core *core)
{
    int64_t least = zkl__core_least_lease(core), left = core->lease.until - core->now;
    return least >= core->lease.timeout / 10 && left > 0 && left >= least / 3 &&
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

/* The servers' roles, for the number of hops. */
static void take_roles(struct zkl__core *core, const struct zkl__reply *reply)
{
    if (reply->rc == ZKL__RC_UNKNOWN) {
        return; /* the next connection asks */
    }
    if (reply->rc == ZKL__RC_UNSENT || reply->rc == ZKL__RC_NOTAPPLIED) {
        core->roles_at = core->now + zkl__lease_heartbeat(core->lease.timeout);
        return;
    }
    /* "server.4=host:2888:3888:observer;2181" (QuorumPeer.QuorumServer.toString). A server before
     * 3.5 has no such node, and no observer masters (3.6). */
    static const char role[] = ":observer";
    bool listed = reply->size > 0 && memmem(reply->data, reply->size, role, sizeof role - 1);
    bool none = reply->rc == ZKL__RC_NONODE || (reply->rc == ZKL__RC_OK && !listed);
    core->lease.hops = none ? ZKL__HOPS_ONE : ZKL__HOPS_TWO;
    zkl__core_trace(core, NULL, 0,
                    none ? "no observers: one hop" : "observers, or nobody knows: two hops");
    if (reply->rc != ZKL__RC_OK && !none) {
        zkl__core_warn(
            core,
            "/zookeeper/config cannot be read: leases allow for observers that follow a follower");
    }
    if (zkl__core_least_lease(core) < core->lease.timeout / 10) {
        zkl__core_warn(
            core,
            "the session timeout is too short for servers with observers: nothing is granted here");
    }
}

/* === room for operations ====================================================================== */

#define FIRST 256
#define LEAST 32 /* a server that is slow by itself, or far away, gets no faster by less */
#define PART 8   /* of a heartbeat: what the answers may take */

void zkl__window_init(struct zkl__window *window, size_t most)
{
    *window = (struct zkl__window){.size = most && most < FIRST ? most : FIRST, .most = most};
}

void zkl__window_ended(struct zkl__window *window, bool answered, int64_t sent, int64_t now,
                       int64_t heartbeat)
{
    bool used = 2 * window->under_way > window->size; /* else its size is not what is measured */
    window->under_way--;
    if (!answered || !used) {
        return;
    }
    if (now - sent <= heartbeat / PART) {
        window->credit++;
        if ((!window->slowed || window->credit >= window->size) &&
            (window->most == 0 || window->size < window->most)) {
            window->size++;
            window->credit = 0;
        }
    } else if (sent >= window->slowed_at && window->size > LEAST) {
        /* Once for all that was under way together. */
        window->size = window->size / 2 > LEAST ? window->size / 2 : LEAST;
        window->slowed = true;
        window->slowed_at = now;
        window->credit = 0;
    }
}

/* === what is sent ============================================================================= */

static bool proves_much(enum zkl__op_kind kind)
{
    return zkl__op_commits(kind) || kind == ZKL__OP_SYNC;
}

static void deliver(struct zkl__core *core, struct zkl__machine *owner, int role, int64_t sent,
                    const struct zkl__reply *reply)
{
    if (owner) {
        owner->ops->answered(owner, role, sent, reply);
    } else if (role == ZKL__ROLE_CONFIG) {
        take_roles(core, reply);
    }
}

static void report_refusal(struct zkl__core *core, struct zkl__machine *owner, int role, int code)
{
    const struct zkl__reply reply = {.rc = ZKL__RC_UNSENT, .unsent = code};
    deliver(core, owner, role, 0, &reply);
}

/* A write. Not of a contender, whose roles are its own. */
static bool is_users_write(const struct zkl__pending *p)
{
    return p->role == ZKL__ROLE_NONE && zkl__op_commits(p->kind) && p->kind != ZKL__OP_CHECK;
}

static void drop(struct zkl__core *core, struct zkl__pending *p)
{
    core->writes -= is_users_write(p);
    if (p->owner) {
        zkl__list_remove(&p->owner->pending, &p->in_owner);
    }
    zkl__list_remove(p->id ? &core->sent : &core->waiting, &p->link);
    zkl__free(&core->config.heap, p->waiting);
    zkl__free(&core->config.heap, p);
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
    zkl__list_remove(&core->waiting, &p->link);
    zkl__list_append(&core->sent, &p->link);
    p->id = ++core->ids;
    p->sent = core->now;
    int code = core->port.submit(core->port.ctx, p->id, op);
    if (code != ZKL_OK) {
        refuse(core, p, code);
        return;
    }
    zkl__free(&core->config.heap, p->waiting);
    p->waiting = NULL;
    core->window.under_way += p->counted;
    core->stats.all.requests++;
    core->stats.all.heartbeats += p->role == ZKL__ROLE_BEAT;
    core->beats_under_way += p->role == ZKL__ROLE_BEAT;
    if (proves_much(p->kind)) {
        core->proof_at = core->now + zkl__lease_keepalive(&core->lease);
    }
}

/* Sends operations that wait for room, as far as there is some, in the order of their requests. Not
 * connected: refuses them. */
static void send_waiting(struct zkl__core *core)
{
    while (core->waiting.first &&
           (!core->connected || core->window.under_way < core->window.size)) {
        struct zkl__pending *p = ZKL__OWNER(core->waiting.first, struct zkl__pending, link);
        const struct zkl__machine *owner = p->owner;
        bool wanted = !owner || !owner->ops->wants || owner->ops->wants(owner, p->role);
        if (core->connected && wanted) {
            submit(core, p, p->waiting);
        } else {
            refuse(core, p, ZKL_ECONNECT);
        }
    }
}

/* Heartbeats and keep-alives go before all that waits for room: none of it is about a node that
 * they look at. */
void zkl__core_send(struct zkl__core *core, struct zkl__machine *owner, int role,
                    const struct zkl__op *op)
{
    struct zkl__pending *p = zkl__alloc(&core->config.heap, sizeof *p);
    if (!p) {
        report_refusal(core, owner, role, ZKL_ENOMEM);
        return;
    }
    *p = (struct zkl__pending){.kind = op->kind, .role = role, .owner = owner};
    p->counted = role != ZKL__ROLE_BEAT && (owner || op->kind != ZKL__OP_SYNC);
    core->writes += is_users_write(p);
    if (owner) {
        zkl__list_prepend(&owner->pending, &p->in_owner);
    }
    bool room = !core->waiting.first && core->window.under_way < core->window.size;
    zkl__list_append(&core->waiting, &p->link);
    if (!core->connected) {
        refuse(core, p, ZKL_ECONNECT);
    } else if (!p->counted || room) {
        submit(core, p, op);
    } else if (!(p->waiting = zkl__op_copy(&core->config.heap, op))) {
        refuse(core, p, ZKL_ENOMEM);
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
        int64_t left = core->lease.until - core->now;
        enum zkl__proof proof = ZKL__PROOF_RESPONSE;
        /* A check that is refused for the node's access list is a transaction of a living session,
         * too (OpCode.error): who may not read its own node lives by it. */
        bool done =
            reply->rc == ZKL__RC_OK || (reply->rc == ZKL__RC_NOAUTH && was.kind == ZKL__OP_CHECK);
        if (done && proves_much(was.kind)) {
            proof = was.kind == ZKL__OP_SYNC ? ZKL__PROOF_SYNC : ZKL__PROOF_COMMIT;
        }
        bool grew = zkl__lease_response(&core->lease, proof, was.sent, core->now);
        if (grew && core->held > 0) {
            count_slack(&core->stats, left);
        }
        /* The lease is a fact that others read. Who asked for this reads it with the answer. */
        if (grew && core->provers.first && zkl__core_leased(core)) {
            ZKL__EACH (struct zkl__contender, c, &core->provers, proving) {
                if (was.role != ZKL__ROLE_PROVE || &c->machine != was.owner) {
                    zkl__contender_post(c, ZKL__EV_LOOK);
                }
            }
        }
    } else if (reply->rc == ZKL__RC_UNKNOWN) {
        core->stats.all.unanswered++;
    }
    deliver(core, was.owner, was.role, was.sent, reply);
}

/* Not connected any more: nobody knows what became of everything under way. */
static void end_unknown(struct zkl__core *core)
{
    const struct zkl__reply reply = {.rc = ZKL__RC_UNKNOWN};
    send_waiting(core);
    while (core->sent.first) {
        take_reply(core, ZKL__OWNER(core->sent.first, struct zkl__pending, link), &reply);
    }
}

bool zkl__core_forget(struct zkl__machine *owner)
{
    bool sent = false;
    ZKL__EACH_LEAVING (struct zkl__pending, p, &owner->pending, in_owner) {
        if (p->id) {
            zkl__list_remove(&owner->pending, &p->in_owner);
            p->owner = NULL;
            sent = true;
        } else {
            drop(owner->core, p);
        }
    }
    return sent;
}

/* --- requests -------------------------------------------------------------------------------- */

static void request_answered(struct zkl__machine *machine, int role, int64_t sent,
                             const struct zkl__reply *reply)
{
    struct zkl__request *request = (struct zkl__request *)machine;
    (void)role, (void)sent;
    if (reply->rc == ZKL__RC_UNSENT) {
        request->unsent = reply->unsent;
        zkl__core_post(machine); /* not now: its owner may be about to ask for more */
    } else {
        request->done(request, reply);
    }
}

static void report_unsent(struct zkl__machine *machine)
{
    struct zkl__request *request = (struct zkl__request *)machine;
    const struct zkl__reply reply = {.rc = ZKL__RC_UNSENT, .unsent = request->unsent};
    request->done(request, &reply);
}

static const struct zkl__machine_ops request_ops = {
    .rank = ZKL__RANK_FIRST, .step = report_unsent, .answered = request_answered};

void zkl__core_request(struct zkl__core *core, struct zkl__request *request,
                       const struct zkl__op *op)
{
    request->machine = (struct zkl__machine){.ops = &request_ops, .core = core};
    zkl__core_send(core, &request->machine, ZKL__ROLE_NONE, op);
}

bool zkl__request_forget(struct zkl__request *request)
{
    zkl__machine_unready(&request->machine);
    return zkl__core_forget(&request->machine);
}

/* === watches ================================================================================== */

bool zkl__watch_path(struct zkl__core *core, struct zkl__watch *watch, const char *dir,
                     const char *name)
{
    size_t size = strlen(dir) + (name ? strlen(name) : 0) + 2;
    char *path = zkl__alloc(&core->config.heap, size);
    if (path) {
        zkl__path_join(path, size, dir, name);
        zkl__free(&core->config.heap, watch->entry.path);
        watch->entry.path = path;
    }
    return path;
}

int zkl__watch_add(struct zkl__core *core, struct zkl__watch *watch, bool half)
{
    if (watch->entry.link) {
        return ZKL_OK;
    }
    size_t length = strlen(watch->entry.path), most = core->config.watch_bytes_max / (half ? 2 : 1);
    if (most && core->watch_bytes + length > most) {
        return ZKL_ELIMIT;
    }
    zkl__map_add(&core->watches, &watch->entry);
    core->watch_bytes += length;
    return ZKL_OK;
}

void zkl__watch_forget(struct zkl__core *core, struct zkl__watch *watch)
{
    if (watch->entry.link) {
        zkl__map_remove(&core->watches, &watch->entry);
        core->watch_bytes -= strlen(watch->entry.path);
    }
}

void zkl__watch_remove(struct zkl__core *core, struct zkl__watch *watch)
{
    if (!watch->entry.link) {
        return;
    }
    zkl__watch_forget(core, watch);
    if (core->connected && !zkl__map_find(&core->watches, watch->entry.path)) {
        struct zkl__op op = {.kind = ZKL__OP_UNWATCH, .dir = watch->entry.path};
        zkl__core_send(core, NULL, ZKL__ROLE_NONE,
                       &op); /* if not: it stays until it fires or the session ends */
    }
}

/* === the drain ================================================================================ */

/* One outside event is admitted, then machines are stepped until none has mail. */

/* A bound that no sound event comes near, nor that of a session with a million contenders. */
#define STEPS_MOST 16777216

static void make_ready(struct zkl__machine *machine, enum zkl__rank rank)
{
    machine->ready = &machine->core->ready[rank];
    zkl__list_append(machine->ready, &machine->in_ready);
}

void zkl__core_post(struct zkl__machine *machine)
{
    if (!machine->ready) {
        make_ready(machine, machine->ops->rank);
    }
}

void zkl__core_bury(struct zkl__machine *machine)
{
    zkl__machine_unready(machine); /* what mail it has is not read any more */
    make_ready(machine, ZKL__RANK_ENDED);
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

/* Steps machines until none has mail. */
static void drain(struct zkl__core *core)
{
    for (int steps = 0;; steps++) {
        struct zkl__machine *machine = NULL;
        if (!core->ready[ZKL__RANK_FIRST].first) {
            send_waiting(core); /* what is not wanted any more is refused, which is mail */
        }
        for (enum zkl__rank rank = ZKL__RANK_FIRST; !machine && rank < ZKL__RANK_ENDED; rank++) {
            machine = take_ready(core, rank);
        }
        if (!machine) {
            return;
        }
        ZKL__ENSURE(steps < STEPS_MOST);
        machine->ops->step(machine);
    }
}

bool zkl__core_settled(const struct zkl__core *core)
{
    bool any = core->ready[ZKL__RANK_FIRST].first || core->ready[ZKL__RANK_LATER].first ||
               core->ready[ZKL__RANK_LAST].first;
    return core->stepping || !any;
}

/* === its times =============================================================================== */

/* The heartbeat that renews the lease, and who has to be told. */

#define BEATS_MOST \
    4 /* heartbeats under way: more would only pile up behind a server that does not answer */

bool zkl__core_grants(const struct zkl__core *core)
{
    return core->connected && zkl__core_leased(core);
}

/* A holder beyond the end of the lease has lost; jeopardy is reported. */
static void end_lapsed_leases(struct zkl__core *core)
{
    int64_t left = core->lease.until - core->now;
    if (core->held == 0) {
        /* that was the last holder's: the next one is warned in its own time */
        core->jeopardy = false;
        return;
    }
    if (left <= 0) {
        count_slack(&core->stats, 0);
        ZKL__EACH (struct zkl__contender, c, &core->holders, holding) {
            if (zkl__contender_keeps(c)) {
                zkl__contender_post(c, ZKL__EV_LAPSED);
            }
        }
        return;
    }
    bool before = core->jeopardy;
    int64_t least = zkl__core_least_lease(core);
    core->jeopardy = !core->connected || least <= 0 || left < least / 4;
    if (core->jeopardy == before) {
        return; /* nobody is granted while little is left, so everybody knows: a step costs what it
                   changes, not what the session holds */
    }
    const struct zkl__outcome outcome = {.kind = core->jeopardy ? ZKL__JEOPARDY : ZKL__SAFE,
                                         .now = core->now,
                                         .why = !core->jeopardy   ? "the lease is renewed"
                                                : core->connected ? "the servers do not answer"
                                                                  : "not connected"};
    ZKL__EACH (struct zkl__contender, c, &core->holders, holding) {
        if (c->state == ZKL__HELD && c->jeopardy_notified != core->jeopardy) {
            c->jeopardy_notified = core->jeopardy;
            zkl__owner_notify(&c->config, &outcome);
        }
    }
}

/* True when some were due. */
static bool post_due_timers(struct zkl__core *core)
{
    static const struct zkl__event time = {.kind = ZKL__EV_TIME};
    struct zkl__timer *timer;
    bool any = false;
    while ((timer = zkl__timers_due(&core->timers, core->now))) {
        struct zkl__machine *machine = (struct zkl__machine *)timer;
        machine->ops->order(machine, &time);
        any = true;
    }
    return any;
}

/* Heartbeat, keep-alive and roles, as far as they are due. */
static void keep_alive(struct zkl__core *core)
{
    if (!core->connected || core->closing) {
        return;
    }
    if (core->roles_at <= core->now) {
        read_roles(core);
    }
    struct zkl__contender *c = ZKL__OWNER(core->holders.first, struct zkl__contender, holding);
    if (c && core->beat_at <= core->now) {
        core->beat_at = core->now + zkl__lease_heartbeat(core->lease.timeout);
        if (core->beats_under_way < BEATS_MOST) {
            /* The next one is on another one's node. */
            zkl__list_remove(&core->holders, &c->holding);
            zkl__list_append(&core->holders, &c->holding);
            if (c->state == ZKL__PROVING) {
                zkl__list_remove(&core->provers, &c->proving);
                zkl__list_append(&core->provers, &c->proving);
            }
            /* A node that is being replaced may be gone when its answer comes: then the directory's
             * will do. */
            bool replaced = c->replacement.state != ZKL__REPLACING_NOT;
            struct zkl__op op = {.kind = ZKL__OP_CHECK,
                                 .dir = c->config.path,
                                 .name = replaced ? NULL : c->node.name,
                                 .version = -1};
            zkl__core_send(core, &c->machine, ZKL__ROLE_BEAT, &op);
        }
    }
    if (core->proof_at <= core->now) {
        struct zkl__op op = {.kind = ZKL__OP_SYNC, .dir = "/"};
        core->proof_at = core->now + zkl__lease_keepalive(&core->lease);
        zkl__core_send(core, NULL, ZKL__ROLE_NONE, &op);
    }
}

int64_t zkl__core_next(const struct zkl__core *core)
{
    ZKL__ENSURE(zkl__core_settled(core));
    int64_t next = zkl__timers_next(&core->timers);
    if (core->held > 0) {
        int64_t warn = core->lease.until - zkl__core_least_lease(core) / 4 + 1;
        next = zkl__sooner(next, core->jeopardy ? core->lease.until : warn);
    }
    if (core->connected && !core->closing) {
        next = zkl__sooner(zkl__sooner(next, core->proof_at), core->roles_at);
        next = core->holders.first ? zkl__sooner(next, core->beat_at) : next;
    }
    return next;
}

/* === its step ================================================================================= */

/* --- connections ----------------------------------------------------------------------------- */

static void post_to_all(struct zkl__core *core, const struct zkl__event *event)
{
    for (enum zkl__rank rank = ZKL__RANK_FIRST; rank < ZKL__RANK_ENDED; rank++) {
        ZKL__EACH (struct zkl__machine, machine, &core->machines[rank], in_session) {
            machine->ops->order(machine, event);
        }
    }
}

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
    zkl__core_trace(core, NULL, 0, ev->fresh ? "a new session" : "connected again");
    /* How many hops does it have? This request is sent before all others, so its reply comes before
     * any grant. */
    core->lease.hops = core->config.masters == ZKL__MASTERS_NONE ? ZKL__HOPS_ONE : ZKL__HOPS_TWO;
    core->roles_at = INT64_MAX;
    if (core->config.masters == ZKL__MASTERS_ASK) {
        read_roles(core);
    }
    core->port.state(core->port.ctx, ZKL_SESSION_CONNECTED, ZKL_OK);
    post_to_all(core, ev);
}

#define AT_ONCE INT64_C(1000000000) /* ns */
#define BROKEN_MOST 5               /* in a row */

static void on_suspended(struct zkl__core *core)
{
    if (!core->connected) {
        return;
    }
    core->connected = false;
    /* Behind its connect the client library sets all watches again in one request; a server that
     * takes no request so large (jute.maxbuffer, NIOServerCnxn.readLength) closes the connection,
     * and that goes on for ever. Contenders look anew; the library forgets none. */
    bool at_once = core->now - core->connected_at < AT_ONCE;
    if (!at_once || core->watches.count > core->set_again) {
        core->set_again = core->watches.count;
        core->set_again_bytes = core->watch_bytes;
    }
    core->broken = at_once && core->set_again > 0 ? core->broken + 1 : 0;
    if (core->broken == BROKEN_MOST) {
        zkl__core_warn(
            core,
            "each of the last %d connections was lost within a second. Each sets %zu watches again "
            "in one "
            "request (their paths: %zu bytes): if the servers' log says \"Len error\", raise "
            "jute.maxbuffer there, or wait for fewer locks in one session",
            BROKEN_MOST, core->set_again, core->set_again_bytes);
    }
    core->stats.all.suspensions++;
    ZKL__EACH (struct zkl__contender, c, &core->holders, holding) {
        if (c->config.linger > 0) {
            zkl__contender_post(c, ZKL__EV_YIELD);
        }
    }
    zkl__core_trace(core, NULL, 0, "no server");
    end_unknown(core);
    core->state = ZKL_SESSION_SUSPENDED;
    core->state_code = ZKL_ECONNECT;
}

/* The session is over: nothing that was made in it is ours any more. */
static void on_expired(struct zkl__core *core, const struct zkl__event *ev)
{
    core->connected = false;
    core->session_id = 0;
    core->stats.all.expiries++;
    core->lease.until = 0;
    zkl__core_trace(core, NULL, 0, "the session ended");
    end_unknown(core);
    core->ended = ev->code == ZKL_EAUTH;
    struct zkl__watch *any;
    while ((any = (struct zkl__watch *)zkl__map_any(&core->watches))) {
        zkl__watch_forget(core, any);
        if (any->fired) { /* contenders learn more by what follows */
            any->fired(any, ZKL__WATCH_CHANGED);
        }
    }
    post_to_all(core, ev);
    if (core->ended) {
        post_to_all(core, &(struct zkl__event){.kind = ZKL__EV_CLOSE, .code = ev->code});
    }
    core->state = core->ended ? ZKL_SESSION_CLOSED : ZKL_SESSION_LOST;
    core->state_code = ev->code;
}

/* --- the step -------------------------------------------------------------------------------- */

/* Changes what the event changes, and posts mail to every machine that it concerns. */
static void admit(struct zkl__core *core, const struct zkl__event *ev)
{
    struct zkl__map_entry *fired = NULL, *entry;
    struct zkl__pending *pending = ZKL__OWNER(core->sent.first, struct zkl__pending, link);
    struct zkl__machine *machine = ev->machine;
    switch (ev->kind) {
    case ZKL__EV_CONNECTED:
        on_connected(core, ev);
        break;
    case ZKL__EV_SUSPENDED:
        on_suspended(core);
        break;
    case ZKL__EV_EXPIRED:
        on_expired(core, ev);
        break;
    case ZKL__EV_REPLY:
        while (pending && pending->id < ev->id) { /* most times it is the first */
            pending = ZKL__OWNER(pending->link.next, struct zkl__pending, link);
        }
        if (pending && pending->id == ev->id) { /* else it has its reply already */
            take_reply(core, pending, ev->reply);
        }
        break;
    case ZKL__EV_WATCH:
        core->stats.all.watches++;
        while ((entry = zkl__map_find(&core->watches, ev->path))) { /* the latest first */
            zkl__watch_forget(core, (struct zkl__watch *)entry);
            entry->next = fired;
            fired = entry;
        }
        while (fired) {
            struct zkl__watch *watch = (struct zkl__watch *)fired;
            fired = fired->next;
            watch->entry.next = NULL;
            if (watch->fired) {
                watch->fired(watch, ev->watch);
            } else { /* a contender's */
                struct zkl__contender *c = watch->owner;
                c->mail.watch = ev->watch;
                zkl__contender_post(c,
                                    (enum zkl__event_kind)(ZKL__EV_WATCH + (watch - c->watches)));
            }
        }
        break;
    case ZKL__EV_TIME:
        break;
    case ZKL__EV_LINGER_STOP:
        zkl__core_stop_lingering(core, ev->path);
        break;
    case ZKL__EV_CLOSE:
        core->closing = true;
        post_to_all(core, &(struct zkl__event){.kind = ZKL__EV_CLOSE, .code = ZKL_ECLOSED});
        break;
    case ZKL__EV_REQUEST:
        zkl__core_request(core, ev->request, ev->op);
        break;
    default:
        machine->ops->order(machine, ev);
        if (ev->kind == ZKL__EV_START && (core->ended || core->closing)) {
            const struct zkl__event refusal = {.kind = ZKL__EV_CANCEL,
                                               .code = core->ended ? ZKL_EAUTH : ZKL_ECLOSED};
            machine->ops->order(machine, &refusal);
        }
        break;
    }
}

static void free_ended(struct zkl__core *core)
{
    struct zkl__machine *machine;
    while ((machine = take_ready(core, ZKL__RANK_ENDED))) {
        ZKL__ENSURE(!machine->pending.first);
        machine->ops->free(machine);
    }
}

void zkl__session_step(struct zkl__core *core, const struct zkl__event *event)
{
    ZKL__ENSURE(!core->stepping); /* nobody enters the core from what it calls */
    core->stepping = true;
    core->now = event->now > core->now ? event->now : core->now;
    if (event->kind == ZKL__EV_LET_GO && event->machine->ops->rank == ZKL__RANK_LAST) {
        /* A semaphore's owner hears no more, also not of what this step finds. */
        ((struct zkl__semaphore *)event->machine)->config.contender.notify = NULL;
    }
    /* Time first: who has lost by the clock has lost, whatever the event says. */
    end_lapsed_leases(core);
    drain(core);
    admit(core, event);
    drain(core);
    if (core->state_code != ZKL_OK) {
        core->port.state(core->port.ctx, core->state, core->state_code);
        core->state_code = ZKL_OK;
    }
    zkl__free(&core->config.heap, core->index); /* the reply that it is of was read by all */
    core->index = NULL;
    bool due = post_due_timers(core);
    keep_alive(core);
    while (due) {
        drain(core);
        due = post_due_timers(core);
    }
    drain(core);
    end_lapsed_leases(core);
    drain(core);
    free_ended(core);
    core->stepping = false;
}

/* --- life, and facts ------------------------------------------------------------------------- */

struct zkl__core *zkl__core_new(const struct zkl__core_config *config, const struct zkl__port *port)
{
    struct zkl__core *core = zkl__zalloc(&config->heap, sizeof *core);
    if (core) {
        core->config = *config;
        core->port = *port;
        core->roles_at = INT64_MAX;
        zkl__window_init(&core->window, config->ops_max);
        zkl__stats_init(&core->stats);
        if (!zkl__map_init(&core->watches, &core->config.heap) ||
            !zkl__map_init(&core->queues, &core->config.heap)) {
            zkl__map_deinit(&core->watches);
            zkl__free(&config->heap, core);
            return NULL;
        }
    }
    return core;
}

/* Their owners may be gone. */
static void drop_all(const zkl_heap *heap, const struct zkl__list *list)
{
    ZKL__EACH_LEAVING (struct zkl__pending, p, list, link) {
        zkl__free(heap, p->waiting);
        zkl__free(heap, p);
    }
}

void zkl__core_free(struct zkl__core *core)
{
    zkl_heap heap = core->config.heap;
    ZKL__EACH (struct zkl__contender, c, &core->machines[ZKL__RANK_FIRST], machine.in_session) {
        zkl__peers_unfollow(c);
        if (c->multi) {
            c->multi->config.notify = NULL;
        }
    }
    for (enum zkl__rank rank = ZKL__RANK_FIRST; rank < ZKL__RANK_ENDED; rank++) {
        ZKL__EACH_LEAVING (struct zkl__machine, machine, &core->machines[rank], in_session) {
            if (machine->ops->free) { /* a watcher is its owner's */
                machine->ops->free(machine);
            }
        }
    }
    free_ended(core); /* multi-contenders, behind their members */
    drop_all(&heap, &core->sent);
    drop_all(&heap, &core->waiting);
    zkl__map_deinit(&core->watches);
    zkl__stats_deinit(&core->stats, &heap);
    zkl__peer_queues_deinit(core);
    zkl__free(&heap, core);
}

struct zkl__core_facts zkl__core_facts(const struct zkl__core *core)
{
    return (struct zkl__core_facts){.now = core->now,
                                    .connected = core->connected,
                                    .session_id = core->session_id,
                                    .timeout = core->timeout,
                                    .lease_until = core->lease.until,
                                    .hops = core->lease.hops,
                                    .stats = &core->stats};
}

int64_t zkl__core_low_lease(const struct zkl__core *core)
{
    return core->connected ? zkl__lease_low(&core->lease, core->now) : 0;
}
bool zkl__core_idle(const struct zkl__core *core)
{
    ZKL__ENSURE(zkl__core_settled(core));
    if (core->machines[ZKL__RANK_LAST].first || core->sent.first || core->waiting.first) {
        return false;
    }
    ZKL__EACH (const struct zkl__contender, c, &core->machines[ZKL__RANK_FIRST],
               machine.in_session) {
        /* The servers refuse to delete its node by its name: only the session's end does that,
         * which asks for no permission (PrepRequestProcessor.pRequest2Txn, closeSession). */
        bool stays = c->state == ZKL__REMOVING && c->node.stays && !zkl__node_unsure(&c->node);
        if (!stays) {
            return false;
        }
    }
    return true;
}
