/* invariants.c - the judge of sessions and of every step: what has to be known soon (a bound holds from the moment on at which the network is
 * undisturbed), locks that linger, and the end. */
#include <stdarg.h>

#include "core_internal.h"
#include "invariants.h"
#include "lease.h"
#include "name.h"

bool sim_struck(const struct sim *s, enum sim_fault_kind kind)
{
    for (int i = 0; i < s->plan->fault_count; i++) {
        if (s->plan->faults[i].kind == kind && sim_has_struck(s, i)) {
            return true;
        }
    }
    return false;
}

static bool is_refused(const struct sim *s)
{
    return sim_struck(s, SIM_THROTTLE) || sim_struck(s, SIM_REFUSE) || sim_struck(s, SIM_NO_MEMORY);
}

bool sim_is_hindered(const struct sim *s)
{
    return sim_struck(s, SIM_DENY) || is_refused(s);
}

/* --- an undisturbed network ------------------------------------------------------------------------------------------ */

void sim_judge_disturbed(struct sim *s, int64_t duration)
{
    s->judge.disturbed = sim_max(s->judge.disturbed, sim_now(s) + duration);
}

void sim_judge_connection(struct sim *s, int client, enum zkl__event_kind kind)
{
    struct sim_client *it = &s->clients[client];
    if (kind == ZKL__EV_CONNECTED) {
        it->connected_at = sim_now(s);
    } else if (kind == ZKL__EV_SUSPENDED || kind == ZKL__EV_EXPIRED) {
        it->connected_at = SIM_NEVER;
        it->expired_at = kind == ZKL__EV_EXPIRED ? sim_now(s) : it->expired_at;
    }
}

int64_t sim_calm_since(const struct sim *s, int client)
{
    const struct sim_plan *plan = s->plan;
    bool endless = plan->slow_once_in > 0 || plan->delay == 0 || s->leader < 0;
    int64_t connected = s->clients[client].connected_at;
    if (endless || connected == SIM_NEVER) {
        return SIM_NEVER;
    }
    return sim_max(connected, s->judge.disturbed);
}

/* The longest time from a request to its reply: ten ways, as plan.c rolls them, and what threads of a follower
 * and of the client are late. */
int64_t sim_round_trip(const struct sim *s)
{
    const struct sim_plan *plan = s->plan;
    int64_t way = plan->scheduler == SIM_PCT ? (plan->delay >> 3) * 65 : plan->delay * 3 / 2;
    return 10 * way + 2 * plan->preempt + 2 * plan->inbox_delay + 4 * plan->late + 2 * SIM_MS;
}

/* So much time has passed since then, and at least a round trip in calm. */
static bool is_overdue(const struct sim *s, int client, int64_t since, int64_t duration)
{
    int64_t calm = sim_calm_since(s, client);
    if (calm == SIM_NEVER) {
        return false;
    }
    return sim_now(s) > sim_max(calm, since) + duration + duration / 500 + sim_round_trip(s);
}

/* --- what an operator removed, what was held for too long --------------------------------------------------------- */

/* Heartbeats look at one lock each, in turn. */
static int64_t heartbeats(struct sim *s, int client)
{
    int locks = 0;
    SIM_EACH_CURRENT (s, client, each) {
        if (each->state <= SIM_HOLDING) {
            locks += each->semaphore ? sim_semaphore_count(each) : each->seats;
        }
    }
    return (locks + 1) * zkl__lease_heartbeat(s->plan->timeout);
}

/* Nothing but operators disturbs this plan, and no packet is slow. */
static bool only_removals(const struct sim *s)
{
    bool only = s->plan->fault_count > 0 && s->plan->slow_once_in == 0;
    for (int i = 0; i < s->plan->fault_count; i++) {
        only = only && s->plan->faults[i].kind == SIM_DELETE_NODE;
    }
    return only;
}

/* A heartbeat after a removal by hand (and a step of the core, some round trips, and what a preempted follower and a late process keep
 * of them) its holder has been told, however many others its session holds. */
static bool is_told_soon(const struct sim *s, const struct sim_attempt *attempt)
{
    const struct sim_plan *plan = s->plan;
    int64_t bound = plan->timeout / 12 + 50 * plan->delay + 2 * plan->preempt + 2 * plan->inbox_delay + 4 * plan->late;
    return attempt->seats == 0 || attempt->plan->downgrade || plan->hides[attempt->client] == SIM_NOBODY ||
           sim_now(s) - attempt->removed <= bound || !only_removals(s);
}

static void check_removed(struct sim *s, const struct sim_attempt *attempt)
{
    if (!attempt->removed || attempt->state != SIM_HOLDING) {
        return;
    }
    bool overdue = is_overdue(s, attempt->client, attempt->removed, heartbeats(s, attempt->client));
    if (overdue || !is_told_soon(s, attempt)) {
        sim_fail_of(attempt, "removed", "holds, and its node was deleted %.3f ms ago",
                    (double)(sim_now(s) - attempt->removed) / 1e6);
    }
}

static void check_max_hold(struct sim *s, const struct sim_attempt *attempt)
{
    int64_t limit = attempt->plan->max_hold + attempt->plan->max_hold / 500; /* by a clock that is slow */
    bool over = limit > 0 && !attempt->joint && (attempt->state == SIM_HOLDING || attempt->state == SIM_LOST) &&
                sim_stands(s, attempt->node[0]);
    if (over && is_overdue(s, attempt->client, attempt->granted + limit, 0) && !sim_is_hindered(s)) {
        sim_fail_of(attempt, "max-hold", "has held for longer than max_hold, and its node stands");
    }
}

/* --- semaphores ------------------------------------------------------------------------------------------------------ */

/* It waits, and all leases that stand are no more than the limit. */
static void check_room(struct sim *s, struct sim_attempt *attempt)
{
    bool waits =
        attempt->semaphore && attempt->state == SIM_PENDING && attempt->semaphore->state == ZKL__SEMAPHORE_WAITING;
    int64_t now = sim_committed_zxid(s);
    if (!waits || sim_child_count(s, sim_path_of(s, sim_semaphore_folder(attempt->path, true), NULL), now) >
                      sim_semaphore_limit(s, sim_path_of(s, sim_plan_path(attempt->path), NULL), now, now)) {
        attempt->room_since = 0;
    } else if (attempt->room_since == 0) {
        attempt->room_since = sim_now(s);
    } else if (is_overdue(s, attempt->client, attempt->room_since, 0) && !sim_struck(s, SIM_DENY)) {
        sim_fail_of(attempt, "room", "waits for permits of %s, and there are enough", sim_plan_path(attempt->path));
    }
}

/* Its place, or a permit of its. */
static bool semaphore_has(const struct sim_attempt *attempt, const char *node)
{
    if (!attempt->semaphore) {
        return false;
    }
    int64_t token;
    bool has = strcmp(zkl__semaphore_queue_node(attempt->semaphore), node) == 0;
    for (int i = 0; !has && i < sim_semaphore_count(attempt); i++) {
        const char *name = zkl__semaphore_permit(attempt->semaphore, i, &token);
        has = name && strcmp(name, node) == 0;
    }
    return has;
}

/* A stranger's hand on that node touches this attempt: of whoever waits, any node that its session has there, for the core may not know
 * its name yet. */
static bool semaphore_hit(const struct sim *s, const struct sim_attempt *attempt, int node)
{
    int dir = sim_dir_of(s, node);
    if (!attempt->semaphore || s->nodes[node].owner < 0 ||
        strcmp(s->paths[dir].text, sim_semaphore_folder(attempt->path, true)) != 0) {
        return false;
    }
    if (attempt->state == SIM_PENDING) {
        return s->nodes[node].owner == s->clients[attempt->client].handle.session;
    }
    return semaphore_has(attempt, sim_node_name(s, node));
}

int sim_ahead(const struct sim *s, int own, int64_t zxid, int64_t number, bool of_others)
{
    int dir = sim_dir_of(s, own);
    SIM_EACH_CHILD (s, node, dir, zxid) {
        struct zkl__name name = zkl__name_parse(sim_node_name(s, node));
        bool before = number == SIM_IN_LINE || zkl__sequence_diff(name.sequence, (int32_t)number) < 0;
        bool counts = !of_others || s->nodes[node].owner != s->nodes[own].owner;
        if (counts && before && name.kind != ZKL_KIND_FOREIGN) {
            return node;
        }
    }
    return -1;
}

/* --- until it goes --------------------------------------------------------------------------------------------------- */

/* Somebody has it again, or is about to. */
static bool is_in_use(const struct sim *s, const struct sim_attempt *released)
{
    SIM_EACH_ATTEMPT (s, each) {
        if (each->client == released->client && each->path == released->path && each != released &&
            (each->state != SIM_OVER || (each->serial > released->serial && each->token == released->token))) {
            return true;
        }
    }
    return false;
}

/* A node of its own that the client cannot know to be gone: its watch goes with it. */
static bool own_lives(const struct sim *s, const struct sim_handle *handle, int path)
{
    int node = s->paths[path].node;
    return node >= 0 && s->nodes[node].owner == handle->session && s->nodes[node].dzxid > handle->last_zxid;
}

/* Its delete uses the watch on the queue up, unless an operator was first. */
static bool has_node_in(const struct sim *s, int client, int dir)
{
    int child = s->paths[dir].first_child;
    while (child >= 0 && !own_lives(s, &s->clients[client].handle, child)) {
        child = s->paths[child].sibling;
    }
    return child >= 0;
}

/* It lingers, or will, and its delete uses up the watch on the queue. */
static bool sim_lingers_at(const struct sim *s, int client, int path)
{
    SIM_EACH_ATTEMPT (s, each) {
        if (each->client == client && each->plan->linger > 0 &&
            strcmp(sim_plan_path(each->path), s->paths[path].text) == 0 &&
            (s->faults.stranger || has_node_in(s, client, path))) {
            return true;
        }
    }
    return false;
}

static void check_released(struct sim *s, const struct sim_attempt *it)
{
    bool stands = sim_stands(s, it->node[0]);
    bool kept = !it->lost && !it->lapsed && !it->removed && !it->exempt && !s->nodes[it->node[0]].taken;
    int64_t least = it->plan->least - it->plan->least / 500; /* by a clock that is fast */
    if (kept && !stands && !s->sessions[it->session].ended && sim_now(s) < it->granted + least) {
        sim_fail_of(it, "least", "has released it, and its node went %.3f ms after the grant, not %.3f",
                    (double)(sim_now(s) - it->granted) / 1e6, (double)it->plan->least / 1e6);
    }
    if (!stands || it->plan->linger == 0 || it->ended == 0 || is_in_use(s, it) || sim_is_hindered(s)) {
        return;
    }
    int other = sim_ahead(s, it->node[0], sim_committed_zxid(s), SIM_IN_LINE, true);
    if (is_overdue(s, it->client, it->ended, it->plan->linger)) {
        sim_fail_of(it, "linger", "has released it %.3f ms ago, and it lingers",
                    (double)(sim_now(s) - it->ended) / 1e6);
    } else if (other >= 0 && is_overdue(s, it->client, sim_max(s->nodes[other].born, it->ended), 0)) {
        sim_fail(s, "linger", "%s waits for what lingers of %d.%d", sim_node_name(s, other), it->client, it->thread);
    }
}

/* Of a session that lasts, not of permits. */
static void check_all_released(struct sim *s, int client)
{
    SIM_EACH_ATTEMPT (s, it) {
        if (it->client == client && it->state >= SIM_LEFT && it->seats == 1 && it->node[0] >= 0 &&
            it->session == s->clients[client].handle.session && s->clients[client].process == SIM_RUNNING) {
            check_released(s, it);
        }
    }
}

void sim_fail_at(struct sim *s, int client, int thread, const char *invariant, const char *format, ...)
{
    if (s->judge.failed || (s->without && strcmp(s->without, invariant) == 0)) {
        return; /* the first one is the one to look at */
    }
    char *verdict = s->judge.verdict;
    size_t room = sizeof s->judge.verdict;
    int length = client < 0 ? snprintf(verdict, room, "%s: ", invariant)
                            : snprintf(verdict, room, "%s: %d.%d ", invariant, client, thread);
    va_list args;
    va_start(args, format);
    vsnprintf(verdict + length, room - length, format, args);
    va_end(args);
    s->judge.failed = true;
    sim_say(s, "VIOLATION", "%s", verdict);
}

const char *sim_attempt_node(const struct sim_attempt *attempt, int seat)
{
    return attempt->joint ? zkl__multi_node(attempt->joint, seat) : zkl__contender_node(attempt->contender);
}

/* --- lease ----------------------------------------------------------------------------------------------------------- */

/* Servers that grant different timeouts: the session ends before its client can know (an assumption of the lease). */
static bool is_shortened_untold(const struct sim *s, int client)
{
    const struct sim_handle *handle = &s->clients[client].handle;
    return handle->session >= 0 && s->sessions[handle->session].shortest < handle->shortest_told;
}

void sim_judge_lease(struct sim *s, int client, const struct zkl__core *core)
{
    int64_t id = core->session_id;
    int64_t until = core->lease.until;
    if (id <= 0 || until <= 0 || s->clients[client].handle.session != (int)id - 1) {
        return;
    }
    const struct sim_session *session = &s->sessions[id - 1];
    bool endless = session->decided == SIM_NEVER && s->leader < 0; /* nobody can end it */
    if (session->by_operator || endless) {
        return;
    }
    int64_t end = session->decided == SIM_NEVER ? session->deadline : session->decided;
    int64_t more = until - sim_local(s, client, end);
    if (more > 0) {
        s->faults.beyond = s->faults.beyond || is_shortened_untold(s, client);
        fail_by_lease(s, sim_fail(s, "lease", "client %d believes in its session for %.3f ms more than the leader",
                                  client, (double)more / 1e6));
    }
}

/* --- exclusion ------------------------------------------------------------------------------------------------------- */

static bool queues_at(const struct sim_attempt *attempt, int path)
{
    return path >= attempt->path && path < attempt->path + attempt->seats;
}

/* Of these holders, by their own clocks. There are never more permits than the highest limit since the last of them made its leases. */
static void check_exclusion(struct sim *s, int path, struct sim_attempt *const *holders, int count)
{
    const struct sim_attempt *first = NULL, *last = NULL;
    int permits = 0;
    bool shortened = false;
    for (int i = 0; i < count; i++) {
        const struct sim_attempt *each = holders[i];
        if (each->semaphore ? each->path != path : !queues_at(each, path)) {
            continue;
        }
        if (each->semaphore) {
            shortened = shortened || is_shortened_untold(s, each->client);
            permits += sim_semaphore_count(each);
            last = !last || each->last_lease > last->last_lease ? each : last;
            continue;
        }
        if (first && !(first->shared && each->shared)) {
            s->faults.beyond =
                s->faults.beyond || is_shortened_untold(s, first->client) || is_shortened_untold(s, each->client);
            fail_by_lease(s, sim_fail(s, "exclusion", "%d.%d and %d.%d hold %s", first->client, first->thread,
                                      each->client, each->thread, sim_plan_path(path)));
        }
        first = !first || !each->shared ? each : first; /* one that is alone meets all others */
    }
    if (last && permits > last->limit) {
        s->faults.beyond = s->faults.beyond || shortened;
        fail_by_lease(
            s, sim_fail(s, "exclusion", "%d permits of %d are held of %s", permits, last->limit, sim_plan_path(path)));
    }
}

/* --- every step ------------------------------------------------------------------------------------------------------ */

void sim_judge_before(struct sim *s, int client)
{
    SIM_EACH_CURRENT (s, client, attempt) {
        if (attempt->state == SIM_HOLDING && !sim_attempt_holds(s, attempt)) {
            attempt->lapsed = true;
        }
    }
}

static void check_attempt(struct sim *s, int client, struct sim_attempt *attempt, int64_t next, bool timer)
{
    const struct zkl__core *core = s->clients[client].core;
    int64_t now = s->clients[client].last_step;
    if (attempt->state == SIM_PENDING) {
        if (next > attempt->deadline) {
            sim_fail_of(attempt, "bounded", "waits, and its core will not wake up by its deadline");
        }
        if (timer && now >= attempt->deadline) {
            sim_fail_of(attempt, "bounded", "waits beyond its deadline");
        }
    } else if (attempt->state == SIM_HOLDING) {
        /* In jeopardy exactly while no server is connected, or a quarter of the least lease is left, and before it is too late to act. */
        int64_t until = core->lease.until, warn = until - zkl__core_least_lease(core) / 4;
        bool danger = !core->connected || now > warn;
        if (attempt->jeopardy != danger) {
            sim_fail_of(attempt, "jeopardy", "is %s", danger ? "in jeopardy, and not told" : "safe, and told jeopardy");
        }
        if (!danger && next > warn + 1) {
            sim_fail_of(attempt, "jeopardy", "holds, and its core will sleep beyond the warning");
        }
        if (attempt->lapsed) {
            sim_fail_of(attempt, "final", "still holds after its lease had ended");
        }
        if (next > until) {
            sim_fail_of(attempt, "told", "holds, and its core will sleep beyond the lease");
        }
        if (now >= until) {
            sim_fail_of(attempt, "told", "is not told that its lease has ended");
        }
    }
}

/* A holder's, of its own node. */
static bool guards(const struct sim_attempt *attempt, const struct zkl__op *op)
{
    if (op->kind != ZKL__OP_GET || !op->name) {
        return false;
    }
    bool own = semaphore_has(attempt, op->name);
    for (int seat = 0; attempt->state != SIM_PENDING && seat < attempt->seats; seat++) {
        own = own || strcmp(sim_attempt_node(attempt, seat), op->name) == 0;
    }
    return own;
}

/* One waits, or guards its node; and the list of a try that is granted is to be watched if it may linger. */
static bool may_watch(struct sim *s, int client, const struct zkl__op *op)
{
    SIM_EACH_CURRENT (s, client, attempt) {
        bool waits = attempt->state == SIM_PENDING && !attempt->plan->try_only;
        if (waits || attempt->plan->linger > 0 || guards(attempt, op)) {
            return true;
        }
    }
    return sim_lingers_at(s, client, sim_path_of(s, op->dir, NULL));
}

/* Nobody here waits, nothing is under way: then nothing is watched. Whoever lost a connection or could not send may have
 * left a watch, until it fires. */
static void check_watches(struct sim *s, int client)
{
    const struct sim_client *it = &s->clients[client];
    if (it->handle.watches.count == 0 || it->handle.count > 0 || it->handle.inbox.head || it->suspended ||
        is_refused(s)) {
        return;
    }
    SIM_EACH_CURRENT (s, client, attempt) {
        if (attempt->state == SIM_PENDING) {
            return;
        }
    }
    for (int i = 0; i < it->handle.watches.count; i++) {
        int path = it->handle.watches.all[i].path;
        if (!own_lives(s, &it->handle, path) && !sim_lingers_at(s, client, path)) {
            sim_fail(s, "orphan", "client %d waits for nothing, and watches %s", client, s->paths[path].text);
        }
    }
}

static bool delete_is_sent(const struct sim *s, int client, int path)
{
    const struct sim_handle *handle = &s->clients[client].handle;
    for (unsigned i = 0; i < handle->count; i++) {
        const struct sim_outstanding *it = &handle->outstanding[(handle->first + i) % SIM_OUTSTANDING];
        if ((it->op == ZKL__OP_DELETE && it->path == path) || (it->op == ZKL__OP_MULTI && it->deletes == path)) {
            return true;
        }
    }
    return false;
}

static bool was_alone(const struct sim *s, const struct sim_attempt *attempt, int client)
{
    return attempt->client == client && attempt->granted && !attempt->shared && !attempt->exempt &&
           attempt->seats == 1 && attempt->session == s->clients[client].handle.session;
}

/* Whom one of the same session handed over to may be through before the other's node is gone; but its own goes after that. */
static void check_order(struct sim *s, int client, int own)
{
    SIM_EACH_ATTEMPT (s, before) {
        int node = before->node[0];
        if (!was_alone(s, before, client) || s->nodes[node].czxid >= s->nodes[own].czxid ||
            sim_dir_of(s, node) != sim_dir_of(s, own) || !sim_stands(s, node) ||
            delete_is_sent(s, client, s->nodes[node].path)) {
            continue;
        }
        sim_fail(s, "order", "client %d deletes %s before %s", client, sim_node_name(s, own), sim_node_name(s, node));
    }
}

/* What a core deletes, in order. Told when it asks, by the name. */
static void check_delete(struct sim *s, int client, const struct zkl__op *op)
{
    if (op->kind != ZKL__OP_DELETE || s->clients[client].handle.inbox.head) {
        return;
    }
    int path = sim_path_of(s, op->dir, op->name);
    SIM_EACH_ATTEMPT (s, attempt) {
        if (was_alone(s, attempt, client) && s->nodes[attempt->node[0]].path == path) {
            check_order(s, client, attempt->node[0]);
        }
    }
}

void sim_judge_submit(struct sim *s, int client, const struct zkl__op *op)
{
    bool writes = op->kind == ZKL__OP_CREATE || op->kind == ZKL__OP_SET || op->kind == ZKL__OP_DELETE ||
                  op->kind == ZKL__OP_MULTI;
    s->judge.unrest = writes ? sim_now(s) : s->judge.unrest;
    if (!s->clients[client].core) {
        return; /* a test of the ensemble alone, or shell/ */
    }
    if (op->watch && !may_watch(s, client, op)) {
        sim_fail(s, "outcome", "client %d sets a watch, and has only tries", client);
    }
    check_delete(s, client, op);
    for (size_t i = 0; i < op->part_count; i++) {
        check_delete(s, client, &op->parts[i]);
    }
}

/* The heartbeat on an own node that its owner may not read says what it is to say, and is no request that is tried again. */
void sim_judge_refused(struct sim *s, int client, enum zkl__op_kind op, int path)
{
    struct sim_refusal *it = s->clients[client].refusals;
    if (op == ZKL__OP_CHECK) {
        return;
    }
    for (int i = 0; i < SIM_REFUSALS && !(it->op == op && it->path == path); i++) {
        struct sim_refusal *each = &s->clients[client].refusals[i];
        it = (each->op == op && each->path == path) || each->since < it->since ? each : it;
    }
    if (it->op != op || it->path != path || sim_now(s) - it->since >= SIM_SECOND) {
        *it = (struct sim_refusal){.op = op, .path = path, .since = sim_now(s)};
    }
    if (++it->count == SIM_REFUSALS_MOST) {
        sim_fail(s, "storm", "client %d asks %d times in %.0f ms for %s of %s, which is refused", client, it->count,
                 (double)(sim_now(s) - it->since) / 1e6, op_name(op), path < 0 ? "?" : s->paths[path].text);
    }
}

void sim_judge_step(struct sim *s, int client, int64_t next, bool timer)
{
    const struct zkl__core *core = s->clients[client].core;
    struct sim_attempt *holders[SIM_CLIENTS * SIM_THREADS];
    int count = 0;
    if (s->clients[client].process != SIM_CLOSING) {
        sim_judge_lease(s, client, core);
    }
    SIM_EACH_CURRENT (s, client, attempt) {
        check_attempt(s, client, attempt, next, timer);
        check_removed(s, attempt);
        check_max_hold(s, attempt);
        sim_judge_delayed(s, attempt);
        check_room(s, attempt);
    }
    check_watches(s, client);
    if (s->judge.stays) {
        check_all_released(s, client);
    }
    if (!stats_sound(&core->stats.all.contenders)) {
        sim_fail(s, "statistics", "the sums of client %d do not agree", client);
    }
    SIM_EACH_CURRENT (s, -1, each) {
        if (each->state == SIM_HOLDING && !each->exempt && sim_attempt_holds(s, each)) {
            holders[count++] = each;
        }
    }
    for (int path = 0; path < s->plan->paths && count > 0; path++) {
        check_exclusion(s, path, holders, count);
    }
}

/* Its node, or the one that took its place: a downgrade keeps the number. */
static bool is_place_of(const struct sim *s, const struct sim_attempt *attempt, int node)
{
    int32_t number = sim_node_number(s, node);
    for (int seat = 0; seat < attempt->seats; seat++) {
        int own = attempt->node[seat];
        if (own >= 0 && s->nodes[own].owner == s->nodes[node].owner && sim_dir_of(s, own) == sim_dir_of(s, node) &&
            sim_node_number(s, own) == number) {
            return true;
        }
    }
    return false;
}

/* An operator took this node: removed it, or closed its session. */
static void note_taken(struct sim *s, int node, bool removed)
{
    SIM_EACH_ATTEMPT (s, attempt) {
        bool lease = semaphore_hit(s, attempt, node);
        bool hit = is_place_of(s, attempt, node) || (lease && attempt->state == SIM_HOLDING);
        attempt->exempt = attempt->exempt || hit || lease;
        attempt->removed = hit && removed && !attempt->removed ? sim_now(s) : attempt->removed;
    }
}

/* What a session deletes is its own. In shell/ it may be a recipe's that goes with no session, or a stranger's hand may have put another
 * session's node where its own was: no client can tell these apart in time. */
static void check_deleted(struct sim *s, int session, const struct sim_node *node)
{
    bool excused = s->shell && (node->owner == -1 || s->faults.stranger);
    if (node->owner != session && !excused) {
        sim_fail(s, "foreign", "session %d deletes %s of session %d", session, s->paths[node->path].text, node->owner);
    }
}

void sim_judge_commit(struct sim *s, int position)
{
    const struct sim_txn *txn = &s->log[position];
    bool is_op = txn->kind == SIM_TXN_OP;
    bool meddled =
        is_op ? txn->session == SIM_STRANGER : txn->kind == SIM_TXN_CLOSE && s->sessions[txn->session].by_operator;
    s->judge.unrest = txn->effect_count > 0 ? sim_now(s) : s->judge.unrest;
    for (int i = 0; i < txn->effect_count; i++) {
        const struct sim_effect *effect = &s->effects[txn->first_effect + i];
        struct sim_node *node = &s->nodes[effect->node];
        if (effect->kind == SIM_CREATED) {
            node->born = sim_now(s);
        } else if (effect->kind == SIM_DELETED) {
            node->died = sim_now(s);
            node->taken = meddled;
            if (meddled) {
                note_taken(s, effect->node, is_op);
            } else if (is_op && !s->listener) { /* whoever tests the ensemble alone deletes what it likes */
                check_deleted(s, txn->session, node);
            }
        }
    }
    sim_faults_on(s, SIM_ON_COMMIT, -1);
    if (is_op && txn->node >= 0 && s->nodes[txn->node].container && txn->effect_count > 0) {
        sim_faults_on(s, SIM_ON_MAKE, -1);
    }
}

/* --- the end --------------------------------------------------------------------------------------------------------- */

void sim_judge_freed(struct sim *s, int client)
{
    if (s->clients[client].heap.live != 0 && !s->shell) {
        sim_fail(s, "memory", "client %d leaves %ld blocks behind", client, s->clients[client].heap.live);
    }
}

static bool calm(const struct sim *s)
{
    SIM_EACH_ACQUIRE (s->plan, each) {
        if (each->kind != SIM_MUTEX || each->joint || each->cancel >= 0 || each->timeout >= 0 ||
            each->ending != SIM_END_RELEASE) {
            return false;
        }
    }
    return s->plan->fault_count == 0 && !s->faults.struck && !s->shell;
}

static void check_nodes(struct sim *s)
{
    SIM_EACH_NODE (s, it) {
        if (it->owner > SIM_STRANGER && it->dzxid == SIM_NEVER) {
            sim_fail(s, "orphan", "%s of session %d is left", s->paths[it->path].text, it->owner);
        }
        if (it->end_told > 1 && calm(s)) {
            sim_fail(s, "wakeups", "%d are told that %s is gone", it->end_told, s->paths[it->path].text);
        }
    }
}

void sim_judge_end(struct sim *s, bool in_time)
{
    if (!in_time) {
        sim_fail(s, "liveness", "not all acquires have ended");
    }
    if (!s->judge.failed) {
        check_nodes(s);
    }
}
