/* invariants.c - the judge of sessions and steps. */
#include "groups.h"
#include "invariants_inside.h"

#include <stdarg.h>
#include <string.h>

#include "name.h"
#include "stats.h"

void sim_fail(struct sim *s, const char *invariant, const char *format, ...)
{
    if (s->judge.failed || (s->without && strcmp(s->without, invariant) == 0)) {
        return; /* the first one is the one to look at */
    }
    char what[200];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    s->judge.failed = true;
    snprintf(s->judge.verdict, sizeof s->judge.verdict, "%s: %s", invariant, what);
    sim_say(s, "VIOLATION", "%s", s->judge.verdict);
}

bool sim_attempt_exists(const struct sim_attempt *attempt)
{
    return attempt && (attempt->contender || attempt->joint || attempt->semaphore);
}

bool sim_attempt_queues_at(const struct sim_attempt *attempt, int path)
{
    return path >= attempt->path && path < attempt->path + attempt->seats;
}

const char *sim_attempt_node(const struct sim_attempt *attempt, int seat)
{
    return attempt->joint ? zkl__joint_node(attempt->joint, seat) : zkl__contender_node(attempt->contender);
}

struct sim_attempt *sim_attempt_of(struct sim *s, int client, int thread)
{
    int index = s->clients[client].threads[thread].attempt;
    return index < 0 ? NULL : &s->attempts[index];
}

bool sim_struck(const struct sim *s, enum sim_fault_kind kind)
{
    for (int i = 0; i < s->plan->fault_count; i++) {
        if (s->plan->faults[i].kind == kind && s->faults.struck >> i & 1) {
            return true;
        }
    }
    return false;
}

/* --- lease ----------------------------------------------------------------------------------------------------------- */

static void check_lease(struct sim *s, int client)
{
    const struct sim_client *it = &s->clients[client];
    if (it->core && it->process != SIM_CLOSING) {
        sim_judge_lease(s, client, it->core);
    }
}

bool sim_shortened_untold(const struct sim *s, int client)
{
    const struct sim_handle *handle = &s->clients[client].handle;
    return handle->session >= 0 && s->sessions[handle->session].shortest < handle->shortest_told;
}

void sim_judge_lease(struct sim *s, int client, const struct zkl__core *core)
{
    const struct sim_client *it = &s->clients[client];
    int64_t id = zkl__core_session_id(core);
    int64_t until = zkl__core_lease_until(core);
    if (id <= 0 || until <= 0 || it->handle.session != (int)id - 1) {
        return;
    }
    const struct sim_session *session = &s->sessions[id - 1];
    if (session->by_operator) {
        return;
    }
    int64_t end = session->decided;
    if (end == SIM_NEVER) {
        if (s->leader < 0) {
            return; /* nobody can end it */
        }
        end = session->deadline;
    }
    s->judge.leases_checked++;
    if (until > sim_local(s, client, end) && sim_shortened_untold(s, client)) {
        s->faults.beyond = true;
    }
    if (until > sim_local(s, client, end)) {
        fail_by_lease(s, "lease", "client %d believes in its session for %.3f ms more than the leader", client,
                      (double)(until - sim_local(s, client, end)) / 1e6);
    }
}

/* --- exclusion ------------------------------------------------------------------------------------------------------- */

static void check_exclusion(struct sim *s, int path)
{
    const struct sim_attempt *first = NULL;
    for (int at = 0; at < s->client_count * SIM_THREADS; at++) {
        const struct sim_attempt *each = sim_attempt_of(s, at / SIM_THREADS, at % SIM_THREADS);
        if (!each || !sim_attempt_queues_at(each, path) || each->exempt || !sim_attempt_holds(s, each)) {
            continue;
        }
        if (first && !(first->shared && each->shared)) {
            s->faults.beyond =
                s->faults.beyond || sim_shortened_untold(s, first->client) || sim_shortened_untold(s, each->client);
            fail_by_lease(s, "exclusion", "%d.%d and %d.%d hold %s", first->client, first->thread, each->client,
                          each->thread, sim_plan_path(path));
        }
        first = !first || !each->shared ? each : first; /* one that is alone meets all others */
    }
}

/* --- every step ------------------------------------------------------------------------------------------------------ */

void sim_judge_before(struct sim *s, int client)
{
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        struct sim_attempt *attempt = sim_attempt_of(s, client, thread);
        if (attempt && attempt->state == SIM_HOLDING && !sim_attempt_holds(s, attempt)) {
            attempt->lapsed = true;
        }
    }
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
static void check_removed(struct sim *s, struct sim_attempt *attempt)
{
    const struct sim_plan *plan = s->plan;
    int64_t bound = plan->timeout / 12 + 50 * plan->delay + 2 * plan->preempt + 2 * plan->inbox_delay + 4 * plan->late;
    for (int seat = 0; seat < attempt->seats; seat++) {
        const struct sim_node *node = &s->nodes[attempt->node[seat]];
        if (!node->taken || node->dzxid > sim_committed_zxid(s)) {
            continue;
        }
        attempt->gone_since = attempt->gone_since ? attempt->gone_since : sim_now(s);
        if (sim_now(s) - attempt->gone_since > bound) {
            sim_fail(s, "told", "%d.%d still holds, %.0f ms after its node was removed by hand", attempt->client,
                     attempt->thread, (double)(sim_now(s) - attempt->gone_since) / 1e6);
        }
    }
}

static void check_attempt(struct sim *s, int client, struct sim_attempt *attempt, int64_t next, bool timer)
{
    int64_t now = s->clients[client].last_step;
    if (attempt->state == SIM_PENDING) {
        if (next > attempt->deadline) {
            sim_fail(s, "bounded", "%d.%d waits, and its core will not wake up by its deadline", client,
                     attempt->thread);
        }
        if (timer && now >= attempt->deadline) {
            sim_fail(s, "bounded", "%d.%d waits beyond its deadline", client, attempt->thread);
        }
    } else if (attempt->state == SIM_HOLDING) {
        sim_judge_jeopardy(s, attempt, next);
        int64_t until = zkl__core_lease_until(s->clients[client].core);
        if (only_removals(s) && !attempt->plan->downgrade && s->plan->hides[client] != SIM_NOBODY) {
            check_removed(s, attempt);
        }
        if (attempt->lapsed) {
            sim_fail(s, "final", "%d.%d still holds after its lease had ended", client, attempt->thread);
        }
        if (next > until) {
            sim_fail(s, "told", "%d.%d holds, and its core will sleep beyond the lease", client, attempt->thread);
        }
        if (now >= until) {
            sim_fail(s, "told", "%d.%d is not told that its lease has ended", client, attempt->thread);
        }
    }
}

/* Nobody here has the patience to wait. */
static bool only_tries(struct sim *s, int client)
{
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        const struct sim_attempt *attempt = sim_attempt_of(s, client, thread);
        if (attempt && attempt->state == SIM_PENDING && !attempt->plan->try_only) {
            return false;
        }
    }
    return true;
}

/* The list of a try that is granted is to be watched as well. */
static bool may_linger(struct sim *s, int client)
{
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        const struct sim_attempt *attempt = sim_attempt_of(s, client, thread);
        if (attempt && s->plan->lingers && attempt->plan->linger > 0) {
            return true;
        }
    }
    return false;
}

/* A holder's, of its own node. */
static bool guards(struct sim *s, int client, const struct zkl__op *op)
{
    for (int thread = 0; thread < SIM_THREADS && op->kind == ZKL__OP_GET && op->name; thread++) {
        const struct sim_attempt *attempt = sim_attempt_of(s, client, thread);
        if (attempt && sim_semaphore_has(attempt, op->name)) {
            return true;
        }
        bool granted = sim_attempt_exists(attempt) && attempt->state != SIM_PENDING;
        for (int seat = 0; granted && seat < attempt->seats; seat++) {
            if (strcmp(sim_attempt_node(attempt, seat), op->name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* A node of its own that the client cannot know to be gone: that watch goes with it. */
static bool own_lives(const struct sim *s, const struct sim_handle *handle, int path)
{
    int node = s->paths[path].node;
    return node >= 0 && s->nodes[node].owner == handle->session && s->nodes[node].dzxid > handle->last_zxid;
}

/* Nobody here waits, nothing is under way: then nothing is watched. Whoever lost a connection, could not send, or believed a
 * lie may have left a watch, until it fires. */
static void check_watches(struct sim *s, int client)
{
    const struct sim_client *it = &s->clients[client];
    if (s->plan->watchers || it->handle.watch_count == 0 || it->handle.count > 0 || it->handle.inbox.head ||
        it->suspended || sim_struck(s, SIM_REFUSE) || sim_struck(s, SIM_NO_MEMORY) || sim_struck(s, SIM_THROTTLE) ||
        s->faults.lies > 0) {
        return;
    }
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        const struct sim_attempt *attempt = sim_attempt_of(s, client, thread);
        if (attempt && attempt->state == SIM_PENDING) {
            return;
        }
    }
    for (int i = 0; i < it->handle.watch_count; i++) {
        int path = it->handle.watches[i].path;
        if (!own_lives(s, &it->handle, path) && !sim_lingers_at(s, client, path)) {
            sim_fail(s, "orphan", "client %d waits for nothing, and watches %s", client, s->paths[path].text);
        }
    }
}

/* What a core may delete: nodes of its own session. Told when it asks, by the name. */
static void check_delete(struct sim *s, int client, const struct zkl__op *op)
{
    int path = op->kind == ZKL__OP_DELETE ? sim_path_of(s, op->dir, op->name) : -1;
    int node = path < 0 || s->plan->watchers ? -1 : sim_node_at(s, path, sim_committed_zxid(s));
    if (node >= 0 && s->nodes[node].owner != s->clients[client].handle.session) {
        sim_fail(s, "foreign", "client %d deletes %s, which is not its own", client, s->paths[path].text);
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
    return attempt->client == client && attempt->granted && !attempt->shared && !attempt->joint && !attempt->exempt &&
           attempt->seats == 1 && attempt->node[0] >= 0 && attempt->session == s->clients[client].handle.session;
}

/* Whom one of the same session handed over to may be through before the other's node is gone; but its own goes after that. Whom a forged
 * announcement misled was handed nothing. */
static void check_order(struct sim *s, int client, int own)
{
    if (s->faults.lies > 0) {
        return;
    }
    for (int i = 0; i < s->attempt_count; i++) {
        const struct sim_attempt *before = &s->attempts[i];
        int node = before->node[0];
        if (!was_alone(s, before, client) || s->nodes[node].czxid >= s->nodes[own].czxid ||
            s->paths[s->nodes[node].path].parent != s->paths[s->nodes[own].path].parent ||
            s->nodes[node].dzxid <= sim_committed_zxid(s) || delete_is_sent(s, client, s->nodes[node].path)) {
            continue;
        }
        sim_fail(s, "order", "client %d deletes %s before %s", client, sim_path_name(&s->paths[s->nodes[own].path]),
                 sim_path_name(&s->paths[s->nodes[node].path]));
    }
}

static void check_own_order(struct sim *s, int client, const struct zkl__op *op)
{
    int path = op->kind == ZKL__OP_DELETE ? sim_path_of(s, op->dir, op->name) : -1;
    for (int i = 0; path >= 0 && i < s->attempt_count && !s->clients[client].handle.inbox.head; i++) {
        const struct sim_attempt *attempt = &s->attempts[i];
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
    bool lingers = op->watch && sim_lingers_at(s, client, sim_path_of(s, op->dir, NULL));
    sim_views_submit(s, client, op);
    if (op->watch && !s->plan->watchers && only_tries(s, client) && !guards(s, client, op) && !may_linger(s, client) &&
        !lingers) {
        sim_fail(s, "outcome", "client %d sets a watch, and has only tries", client);
    }
    check_delete(s, client, op);
    check_own_order(s, client, op);
    for (size_t i = 0; i < op->part_count; i++) {
        check_delete(s, client, &op->parts[i]);
        check_own_order(s, client, &op->parts[i]);
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
                 (double)(sim_now(s) - it->since) / 1e6, zkl__op_name(op), path < 0 ? "?" : s->paths[path].text);
    }
}

void sim_judge_step(struct sim *s, int client, bool timer)
{
    int64_t next = zkl__core_next(s->clients[client].core);
    check_lease(s, client);
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        struct sim_attempt *attempt = sim_attempt_of(s, client, thread);
        if (!sim_attempt_exists(attempt)) {
            continue;
        }
        check_attempt(s, client, attempt, next, timer);
        sim_judge_time(s, attempt);
        sim_judge_delayed(s, attempt);
        sim_judge_room(s, attempt);
    }
    check_watches(s, client);
    sim_judge_lingering(s, client);
    sim_judge_least(s, client);
    if (!zkl__stats_sound(&zkl__core_stats(s->clients[client].core)->all.contenders)) {
        sim_fail(s, "statistics", "the sums of client %d do not agree", client);
    }
    for (int path = 0; path < s->plan->paths; path++) {
        if (s->judge.held[path] > 1) {
            check_exclusion(s, path);
        }
    }
    sim_judge_permits(s);
    sim_judge_views(s, client);
}

/* Its node, or the one that took its place: a downgrade keeps the number. */
static bool is_place_of(const struct sim *s, const struct sim_attempt *attempt, int node)
{
    int32_t number = zkl__name_parse(sim_path_name(&s->paths[s->nodes[node].path])).sequence;
    for (int seat = 0; seat < attempt->seats; seat++) {
        int own = attempt->node[seat];
        if (own >= 0 && s->nodes[own].owner == s->nodes[node].owner &&
            s->paths[s->nodes[own].path].parent == s->paths[s->nodes[node].path].parent &&
            zkl__name_parse(sim_path_name(&s->paths[s->nodes[own].path])).sequence == number) {
            return true;
        }
    }
    return false;
}

/* shell/, and memberships: what a session deleted, whatever it thought that it asked for. A stranger's hand may have put another session's node where its own
 * was: no client can tell these apart in time. */
static void check_deleted(struct sim *s, const struct sim_txn *txn)
{
    for (int i = 0; i < txn->effect_count && txn->kind == SIM_TXN_OP && txn->session >= 0; i++) {
        const struct sim_effect *effect = &s->effects[txn->first_effect + i];
        const struct sim_node *node = &s->nodes[effect->node];
        if (effect->kind == SIM_DELETED && node->owner != -1 && node->owner != txn->session && !s->faults.stranger) {
            sim_fail(s, "foreign", "session %d deletes %s of session %d", txn->session, s->paths[node->path].text,
                     node->owner);
        }
    }
}

void sim_judge_commit(struct sim *s, int position)
{
    const struct sim_txn *txn = &s->log[position];
    if (s->shell || s->plan->watchers) {
        check_deleted(s, txn);
    }
    bool meddled = txn->kind == SIM_TXN_OP && txn->session == SIM_STRANGER;
    meddled = meddled || (txn->kind == SIM_TXN_CLOSE && s->sessions[txn->session].by_operator);
    s->judge.unrest = txn->effect_count > 0 ? sim_now(s) : s->judge.unrest;
    for (int i = 0; i < txn->effect_count; i++) {
        const struct sim_effect *effect = &s->effects[txn->first_effect + i];
        if (effect->kind == SIM_CREATED) {
            s->nodes[effect->node].born = sim_now(s);
        } else if (effect->kind == SIM_DELETED) {
            s->nodes[effect->node].died = sim_now(s);
        }
    }
    for (int i = 0; i < txn->effect_count && meddled; i++) {
        const struct sim_effect *effect = &s->effects[txn->first_effect + i];
        s->nodes[effect->node].taken = effect->kind == SIM_DELETED;
        for (int k = 0; k < s->attempt_count && effect->kind == SIM_DELETED; k++) {
            struct sim_attempt *attempt = &s->attempts[k];
            bool lease = sim_semaphore_hit(s, attempt, effect->node);
            bool hit = is_place_of(s, attempt, effect->node) || (lease && attempt->state == SIM_HOLDING);
            attempt->exempt = attempt->exempt || hit || lease;
            attempt->removed = hit && txn->kind == SIM_TXN_OP && !attempt->removed ? sim_now(s) : attempt->removed;
        }
    }
    sim_faults_on(s, SIM_ON_COMMIT, -1);
    if (txn->kind == SIM_TXN_OP && txn->node >= 0 && s->nodes[txn->node].container && txn->effect_count > 0) {
        sim_faults_on(s, SIM_ON_MAKE, -1);
    }
}

/* --- the end --------------------------------------------------------------------------------------------------------- */

void sim_judge_freed(struct sim *s, int client)
{
    long live = s->clients[client].heap.live;
    if (live != 0 && !s->shell) {
        sim_fail(s, "memory", "client %d leaves %ld blocks behind", client, live);
    }
}

static bool calm(const struct sim *s)
{
    for (int i = 0; i < s->plan->acquire_count; i++) {
        const struct sim_acquire *each = &s->plan->acquires[i];
        if (each->kind != SIM_MUTEX || each->joint || each->cancel >= 0 || each->timeout >= 0 ||
            each->ending != SIM_END_RELEASE) {
            return false;
        }
    }
    return s->plan->fault_count == 0 && !s->faults.struck && !s->shell && !s->plan->watchers;
}

static void check_nodes(struct sim *s)
{
    for (int node = 0; node < s->node_count; node++) {
        const struct sim_node *it = &s->nodes[node];
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
    if (s->overflow) {
        sim_fail(s, "storm", "out of room after %llu steps", (unsigned long long)s->steps);
    }
    if (!in_time) {
        sim_fail(s, "liveness", "not all acquires have ended");
    }
    if (!s->judge.failed) {
        check_nodes(s);
    }
}
