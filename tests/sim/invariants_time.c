/* invariants_time.c - the judge of what has to be known soon: a bound holds from the moment on at which the network is undisturbed. */
#include "invariants_inside.h"

#include "contender_inside.h"
#include "lease.h"

/* --- an undisturbed network ------------------------------------------------------------------------------------------ */

void sim_judge_disturbed(struct sim *s, int64_t duration)
{
    int64_t end = sim_now(s) + duration;
    s->judge.disturbed = end > s->judge.disturbed ? end : s->judge.disturbed;
}

void sim_judge_connection(struct sim *s, int client, enum zkl__event_kind kind)
{
    if (kind == ZKL__EV_CONNECTED) {
        s->clients[client].connected_at = sim_now(s);
    } else if (kind == ZKL__EV_SUSPENDED || kind == ZKL__EV_EXPIRED) {
        s->clients[client].connected_at = SIM_NEVER;
        s->clients[client].expired_at = kind == ZKL__EV_EXPIRED ? sim_now(s) : s->clients[client].expired_at;
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
    return connected > s->judge.disturbed ? connected : s->judge.disturbed;
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
bool sim_is_overdue(const struct sim *s, int client, int64_t since, int64_t duration)
{
    int64_t calm = sim_calm_since(s, client);
    if (calm == SIM_NEVER) {
        return false;
    }
    int64_t from = calm > since ? calm : since;
    return sim_now(s) > from + duration + duration / 500 + sim_round_trip(s);
}

/* --- what an operator removed, what was held for too long, what was granted on a lie ------------------------------------ */

static bool stands(const struct sim *s, int node)
{
    return node >= 0 && s->nodes[node].dzxid > sim_committed_zxid(s);
}

/* Heartbeats look at one lock each, in turn. */
static int64_t heartbeats(struct sim *s, int client)
{
    int locks = 0;
    for (int thread = 0; thread < SIM_THREADS; thread++) {
        const struct sim_attempt *each = sim_attempt_of(s, client, thread);
        locks += sim_attempt_exists(each) && each->state <= SIM_HOLDING
                     ? each->semaphore ? sim_semaphore_count(each) : each->seats
                     : 0;
    }
    return (locks + 1) * zkl__lease_heartbeat(s->plan->timeout);
}

static void check_removed(struct sim *s, const struct sim_attempt *attempt)
{
    if (attempt->removed && attempt->state == SIM_HOLDING &&
        sim_is_overdue(s, attempt->client, attempt->removed, heartbeats(s, attempt->client))) {
        sim_fail(s, "removed", "%d.%d holds, and its node was deleted %.3f ms ago", attempt->client, attempt->thread,
                 (double)(sim_now(s) - attempt->removed) / 1e6);
    }
}

static void check_max_hold(struct sim *s, const struct sim_attempt *attempt)
{
    int64_t limit = attempt->plan->max_hold + attempt->plan->max_hold / 500; /* by a clock that is slow */
    bool over = limit > 0 && !attempt->joint && attempt->granted > 0 &&
                (attempt->state == SIM_HOLDING || attempt->state == SIM_LOST) && stands(s, attempt->node[0]);
    if (over && sim_is_overdue(s, attempt->client, attempt->granted + limit, 0) && !sim_struck(s, SIM_DENY) &&
        !sim_struck(s, SIM_THROTTLE) && !sim_struck(s, SIM_REFUSE) && !sim_struck(s, SIM_NO_MEMORY)) {
        sim_fail(s, "max-hold", "%d.%d has held for longer than max_hold, and its node stands", attempt->client,
                 attempt->thread);
    }
}

/* By a clock that is fast. */
static bool went_early(const struct sim *s, const struct sim_attempt *attempt)
{
    if (attempt->node[0] < 0) {
        return false; /* a permit is not held for a least time */
    }
    const struct sim_node *node = &s->nodes[attempt->node[0]];
    int64_t least = attempt->plan->least - attempt->plan->least / 500;
    return node->dzxid <= sim_committed_zxid(s) && !node->taken && sim_now(s) < attempt->granted + least;
}

void sim_judge_least(struct sim *s, int client)
{
    if (s->clients[client].process != SIM_RUNNING) {
        return;
    }
    for (int i = 0; i < s->attempt_count; i++) {
        const struct sim_attempt *it = &s->attempts[i];
        bool released = it->state == SIM_OVER || it->state == SIM_LEFT;
        bool kept = it->client == client && it->plan->least > 0 && released && it->granted > 0 && !it->lost &&
                    !it->lapsed && !it->removed && !it->exempt && it->session == s->clients[client].handle.session;
        if (kept && !s->sessions[it->session].ended && went_early(s, it)) {
            sim_fail(s, "least", "%d.%d has released it, and its node went %.3f ms after the grant, not %.3f", client,
                     it->thread, (double)(sim_now(s) - it->granted) / 1e6, (double)it->plan->least / 1e6);
        }
    }
}

/* It holds as a reader behind a reader: downgraded since, it stands where it may. */
static bool beside(const struct sim *s, const struct sim_attempt *attempt)
{
    const struct sim_node *before = &s->nodes[attempt->before];
    return attempt->shared && zkl__name_parse(sim_path_name(&s->paths[before->path])).kind == ZKL_KIND_READ;
}

static void check_misled(struct sim *s, const struct sim_attempt *attempt)
{
    int64_t patience = attempt->at_border ? 0 : zkl__lease_heartbeat(s->plan->timeout);
    if (attempt->misled && !beside(s, attempt) && attempt->state == SIM_HOLDING && stands(s, attempt->before) &&
        sim_is_overdue(s, attempt->client, attempt->granted, patience) && !sim_struck(s, SIM_DENY) &&
        !sim_struck(s, SIM_THROTTLE) && !sim_struck(s, SIM_REFUSE) && !sim_struck(s, SIM_NO_MEMORY)) {
        sim_fail(s, "forged", "%d.%d was granted on a forged announcement, and holds still, behind %s", attempt->client,
                 attempt->thread, sim_path_name(&s->paths[s->nodes[attempt->before].path]));
    }
}

void sim_judge_time(struct sim *s, const struct sim_attempt *attempt)
{
    check_removed(s, attempt);
    check_max_hold(s, attempt);
    check_misled(s, attempt);
}

/* --- jeopardy -------------------------------------------------------------------------------------------------------- */

/* Told exactly while no server is connected, or a quarter of the least lease is left, and before it is too late to act. */
void sim_judge_jeopardy(struct sim *s, const struct sim_attempt *attempt, int64_t next)
{
    const struct zkl__core *core = s->clients[attempt->client].core;
    int64_t warn = zkl__core_lease_until(core) - zkl__core_least_lease(core) / 4;
    bool danger = !zkl__core_connected(core) || s->clients[attempt->client].last_step > warn;
    if (attempt->jeopardy != danger) {
        sim_fail(s, "jeopardy", "%d.%d is %s", attempt->client, attempt->thread,
                 danger ? "in jeopardy, and not told" : "safe, and told jeopardy");
    }
    if (!danger && next > warn + 1) {
        sim_fail(s, "jeopardy", "%d.%d holds, and its core will sleep beyond the warning", attempt->client,
                 attempt->thread);
    }
}

/* Without faults, on a network that answers long before a quarter of the least lease has passed, a holder keeps its lease. */
bool sim_judge_healthy(const struct sim *s, int client)
{
    const struct sim_plan *plan = s->plan;
    enum zkl__hops hops = plan->observers ? ZKL__HOPS_TWO : ZKL__HOPS_ONE;
    int64_t least = zkl__lease_least(plan->timeout, plan->tick / 2 + plan->pause, hops);
    return plan->fault_count == 0 && plan->slow_once_in == 0 && !plan->bounds &&
           s->clients[client].connected_at != SIM_NEVER && 2 * sim_round_trip(s) < least / 4;
}
