/* invariants_grant.c - the judge of grants and of all else that an owner is told. */

#include "core_internal.h"
#include "invariants.h"
#include "lease.h"
#include "name.h"

static bool marks(const struct sim_acquire *plan)
{
    return plan->mark || plan->delay > 0;
}

/* One of its session handed the lock over to it, and by then a stranger's delete of its node stood before that one's own. No list ever
 * shows it as the first: whoever comes next sees a clean release of the one before. */
static bool was_never_first(struct sim *s, const struct sim_attempt *attempt)
{
    int own = attempt->node[0];
    const struct sim_node *node = &s->nodes[own];
    return node->taken && !attempt->shared && sim_ahead(s, own, node->dzxid - 1, sim_node_number(s, own), false) >= 0;
}

/* It held with the option and did not release, or only after a loss, and its node is gone. In a directory that was made anew nothing
 * is known. */
static bool crashed(struct sim *s, const struct sim_attempt *attempt)
{
    if (!marks(attempt->plan) || attempt->node[0] < 0 || (attempt->let_go && !attempt->lost) ||
        sim_stands(s, attempt->node[0]) || was_never_first(s, attempt)) {
        return false;
    }
    int directory = sim_node_at(s, sim_dir_of(s, attempt->node[0]), sim_committed_zxid(s));
    return directory >= 0 && s->nodes[directory].czxid < s->nodes[attempt->node[0]].czxid;
}

/* Nobody gives up, nothing is lost, and everybody at this path leaves a mark. */
static bool all_release(const struct sim *s, int path)
{
    bool all = s->plan->fault_count == 0 && s->judge.losses == 0 && s->plan->sequence == 0;
    for (int i = 0; i < s->client_count; i++) {
        all = all && !s->clients[i].suspended && s->plan->hides[i] == SIM_ANYBODY;
    }
    SIM_EACH_ACQUIRE (s->plan, it) {
        bool here = it->path == path || (it->joint && it->path + 1 == path);
        all = all && it->timeout < 0 && it->cancel < 0 && !it->try_only && it->max_hold == 0 && (marks(it) || !here);
    }
    return all;
}

void sim_judge_delayed(struct sim *s, const struct sim_attempt *attempt)
{
    if (attempt->plan->delay > 0 && attempt->contender && attempt->state == SIM_PENDING &&
        attempt->contender->mark.state == ZKL__MARK_DELAYS && all_release(s, attempt->path)) {
        sim_fail_of(attempt, "delay", "waits for a delay, and all have released");
    }
}

/* Of one that was before. */
static void check_crash(struct sim *s, const struct sim_attempt *attempt, struct sim_attempt *crash, bool unclean)
{
    int64_t least = attempt->plan->delay - attempt->plan->delay / 500; /* by a clock that is fast */
    int64_t since = sim_now(s) - s->nodes[crash->node[0]].died;
    if (since < least) {
        fail_by_lease(s, sim_fail_of(attempt, "delay",
                                     "is granted %.3f ms after the end of %d.%d, which did not release, not %.3f",
                                     (double)since / 1e6, crash->client, crash->thread,
                                     (double)attempt->plan->delay / 1e6));
    }
    if (!crash->reported && !unclean) {
        sim_fail_of(attempt, "mark", "is granted after the crash of %d.%d, and not told", crash->client, crash->thread);
    }
    crash->reported = true;
}

static void check_crashes(struct sim *s, const struct sim_attempt *attempt, int64_t token, bool unclean)
{
    SIM_EACH_ATTEMPT (s, it) {
        if (marks(attempt->plan) && it->path == attempt->path && crashed(s, it) &&
            s->nodes[it->node[0]].czxid < token) {
            check_crash(s, attempt, it, unclean);
        }
    }
    if (unclean && all_release(s, attempt->path)) {
        sim_fail_of(attempt, "mark", "is told of a crash that was none");
    }
}

/* --- locks that linger ---------------------------------------------------------------------------------------------- */

/* The first grant on its node; NULL: a process that crashed had it. */
static const struct sim_attempt *first_of(const struct sim *s, const struct sim_attempt *attempt)
{
    SIM_EACH_ATTEMPT (s, each) {
        if (each->client == attempt->client && each->token == attempt->token && each->serial == 1 &&
            each->path == attempt->path) {
            return each;
        }
    }
    return NULL;
}

/* Then what a client was shown of a queue is not known here (lists_apart in handle.c). */
static bool has_joints(const struct sim *s, int client)
{
    SIM_EACH_ACQUIRE (s->plan, it) {
        if (it->client == client && it->joint) {
            return true;
        }
    }
    return false;
}

/* Of those of its session that stand in line the first. */
static void check_line(struct sim *s, const struct sim_attempt *attempt)
{
    SIM_EACH_ATTEMPT (s, each) {
        bool before = each->client == attempt->client && each->path == attempt->path && each->contender &&
                      each->state == SIM_PENDING && each < attempt;
        if (before && each->contender->linger.in_line && !each->canceled &&
            sim_local(s, each->client, sim_now(s)) < each->deadline && s->plan->fault_count == 0) {
            sim_fail_of(attempt, "linger", "is granted, and %d.%d asked before", each->client, each->thread);
        }
    }
}

/* Of a grant on a node that was granted before. */
static void check_again(struct sim *s, struct sim_attempt *attempt, int path, int node)
{
    const struct sim_client *client = &s->clients[attempt->client];
    attempt->token = s->nodes[node].czxid;
    const struct sim_attempt *first = first_of(s, attempt);
    int other = sim_ahead(s, node, client->shown_zxid[path], attempt->number, true);
    if (!first || attempt->plan->linger == 0 || attempt->plan->kind != first->plan->kind) {
        sim_fail_of(attempt, "linger", "is granted again what it never was");
    } else if (sim_local(s, attempt->client, sim_now(s)) >= client->core->lease.until) {
        sim_fail_of(attempt, "linger", "is granted again, and the lease has ended");
    } else if (client->connected_at == SIM_NEVER || first->granted < client->connected_at) {
        sim_fail_of(attempt, "linger",
                    "is granted again, and nothing has shown its node since the connection was lost");
    } else if (other >= 0 && !has_joints(s, attempt->client)) {
        sim_fail_of(attempt, "linger", "is granted again, and its session was told of %s", sim_node_name(s, other));
    }
    check_line(s, attempt);
}

enum { APART_MOST = 4 }; /* a few begin together; whoever is granted then has a list, and so may gather */

/* Whether others wait: of its session, who could be granted on the same znode; or of another one. */
static bool is_beside(const struct sim *s, const struct sim_attempt *attempt, bool same_session)
{
    SIM_EACH_ATTEMPT (s, each) {
        if (each != attempt && each->state == SIM_PENDING && each->path == attempt->path &&
            (each->client == attempt->client) == same_session) {
            return true;
        }
    }
    return false;
}

/* Without faults and without another session, whoever waits in one session becomes a line after a few grants. */
static void check_apart(struct sim *s, const struct sim_attempt *attempt)
{
    int *apart = &s->judge.apart[attempt->path];
    bool counts = attempt->serial == 1 && attempt->plan->linger > 0 && is_beside(s, attempt, true);
    *apart = counts && !is_beside(s, attempt, false) ? *apart + 1 : 0;
    if (*apart > APART_MOST) {
        sim_fail_of(attempt, "line", "is the %d. in a row to be granted on a znode of its own", *apart);
    }
}

/* --- grants ---------------------------------------------------------------------------------------------------------- */

void sim_granted_note(struct sim_granted *granted, int64_t token, int64_t serial, bool shared)
{
    granted->serial = serial;
    granted->token = sim_max(granted->token, token);
    granted->exclusive = shared ? granted->exclusive : token;
}

/* A writer's token exceeds every earlier one, a reader's every earlier writer's. */
static void check_token(struct sim *s, const struct sim_attempt *attempt, int path, int64_t token)
{
    struct sim_granted *granted = &s->judge.granted[path];
    int64_t last = attempt->shared ? granted->exclusive : granted->token;
    bool again = token == last && !attempt->shared && attempt->serial > granted->serial;
    if (token < last || (token == last && !again) || (token > last && attempt->serial > 1)) {
        fail_by_lease(s, sim_fail_of(attempt, "token", "token %" PRIx64 ", grant %" PRId64 " of it, after %" PRIx64,
                                     token, attempt->serial, last));
        return;
    }
    sim_granted_note(granted, token, attempt->serial, attempt->shared);
}

/* What a grant rests on: the last list, or the last event; a hand-over inside a session, on the list alone. */
static int64_t rests_on(const struct sim *s, const struct sim_attempt *attempt, int path)
{
    const struct sim_client *client = &s->clients[attempt->client];
    bool handed = attempt->contender && attempt->contender->peer.handed;
    return handed ? client->listed_zxid[path] : client->shown_zxid[path];
}

/* No other attempt of its process is in the queue of that path, or at its semaphore: the lists it gets are this one's. */
static bool is_alone(struct sim *s, const struct sim_attempt *attempt, int path)
{
    SIM_EACH_CURRENT (s, attempt->client, other) {
        bool there = attempt->semaphore ? other->semaphore && other->path == path
                                        : path >= other->path && path < other->path + other->seats;
        if (there && other != attempt) {
            return false;
        }
    }
    return true;
}

/* The node of its grant is not there. A stranger may have deleted it meanwhile; but not before what the client was shown last, on which the
 * grant rests. was: its newest incarnation, -1: there never was one. */
static void check_missing(struct sim *s, struct sim_attempt *attempt, int queue, int was, int64_t shown)
{
    if (!s->faults.stranger) {
        fail_by_lease(s, sim_fail_of(attempt, "token", "is granted on a node that is not there"));
    } else if (was >= 0 && s->nodes[was].dzxid <= shown && is_alone(s, attempt, queue)) {
        sim_fail_of(attempt, "token", "is granted though its node had gone before what it was shown last");
    }
    attempt->exempt = true;
}

/* A node of its grant, which is its session's and has that token (-1: of a joint, whichever); -1: it is not there. */
static int check_node(struct sim *s, struct sim_attempt *attempt, int queue, int path, int64_t shown, int64_t token)
{
    int node = sim_node_at(s, path, sim_committed_zxid(s));
    attempt->session = s->clients[attempt->client].handle.session;
    if (node < 0) {
        check_missing(s, attempt, queue, s->paths[path].node, shown);
    } else if (s->nodes[node].owner != attempt->session || (token >= 0 && s->nodes[node].czxid != token)) {
        sim_fail_of(attempt, "token", "token %" PRIx64 " is not its node's", token);
    }
    return node;
}

static void check_grant(struct sim *s, struct sim_attempt *attempt, int seat, int64_t token)
{
    int queue = attempt->path + seat;
    int path = sim_path_of(s, sim_plan_path(queue), sim_attempt_node(attempt, seat));
    int node = check_node(s, attempt, queue, path, rests_on(s, attempt, queue), attempt->joint ? -1 : token);
    if (node < 0) {
        return;
    }
    attempt->node[seat] = node;
    if (s->seed >= SIM_LINES && s->seed < SIM_MARKS) {
        check_apart(s, attempt);
    }
    if (attempt->serial > 1) {
        check_again(s, attempt, queue, node);
    }
    check_token(s, attempt, queue, s->nodes[node].czxid);
}

/* Each permit is a node of its own; the token is the lowest of theirs. */
static void check_permits(struct sim *s, struct sim_attempt *attempt, int64_t token)
{
    int64_t lowest = INT64_MAX, its, shown = s->clients[attempt->client].leases_zxid[attempt->path];
    for (int i = 0; i < sim_semaphore_count(attempt); i++) {
        const char *name = zkl__semaphore_permit(attempt->semaphore, i, &its);
        int path = sim_path_of(s, sim_semaphore_folder(attempt->path, true), name);
        check_node(s, attempt, attempt->path, path, shown, its);
        lowest = sim_min(lowest, its);
        attempt->last_lease = sim_max(attempt->last_lease, its);
    }
    attempt->limit = sim_semaphore_limit(s, sim_path_of(s, sim_plan_path(attempt->path), NULL), attempt->last_lease,
                                         sim_committed_zxid(s));
    if (lowest != token) {
        sim_fail_of(attempt, "token", "token %" PRIx64 " is not its lowest", token);
    }
}

/* --- outcomes -------------------------------------------------------------------------------------------------------- */

static bool fits(const struct sim *s, const struct sim_attempt *attempt, int code)
{
    int64_t now = sim_local(s, attempt->client, sim_now(s));
    switch (code) {
    case ZKL_ETIMEOUT:
        return now >= attempt->deadline;
    case ZKL_EBUSY:
        return attempt->plan->try_only;
    case ZKL_ECANCELED:
        return attempt->canceled;
    case ZKL_ELOST:
        return attempt->plan->fail_on_expiry || (attempt->joint && s->faults.stranger);
    case ZKL_EAUTH: /* who may not read its own node learns of no token that the create has not told */
        return sim_struck(s, SIM_DENY) ||
               (s->plan->hides[attempt->client] == SIM_NOBODY && s->plan->rules == ZKL__RULES_EXISTS_NEEDS_READ);
    case ZKL_ENOMEM:
        return sim_struck(s, SIM_NO_MEMORY) || sim_struck(s, SIM_REFUSE);
    case ZKL_ELIMIT:
        return sim_struck(s, SIM_REFUSE);
    case ZKL_EEXHAUSTED:
        return s->plan->sequence > INT32_MAX / 2 || sim_struck(s, SIM_FOREIGN);
    case ZKL_ECLOSED:
        return s->clients[attempt->client].process == SIM_CLOSING;
    case ZKL_ECONFLICT:
        return sim_struck(s, SIM_FOREIGN) ||
               (sim_plan_resizes(s->plan) && (attempt->semaphore || marks(attempt->plan)));
    default:
        return false;
    }
}

static bool legal(const struct sim_attempt *attempt, enum zkl__outcome_kind kind)
{
    bool holding = attempt->state == SIM_HOLDING || attempt->asking;
    switch (kind) {
    case ZKL__GRANTED:
    case ZKL__FAILED:
        return attempt->state == SIM_PENDING;
    case ZKL__JEOPARDY:
        return holding && !attempt->jeopardy;
    case ZKL__SAFE:
        return holding && attempt->jeopardy;
    case ZKL__LOSS:
        return holding;
    case ZKL__DOWNGRADED:
        return holding && attempt->plan->downgrade && attempt->shared;
    case ZKL__NOT_DOWNGRADED: /* nobody makes such a name */
    case ZKL__REVOKED:        /* nobody asked */
        return false;
    case ZKL__RELEASED:
        return attempt->state == SIM_RELEASING;
    }
    return false;
}

/* Without faults, on a network that answers long before a quarter of the least lease has passed, a holder keeps its lease. */
static bool is_healthy(const struct sim *s, int client)
{
    const struct sim_plan *plan = s->plan;
    enum zkl__hops hops = plan->observers ? ZKL__HOPS_TWO : ZKL__HOPS_ONE;
    int64_t least = zkl__lease_least(plan->timeout, plan->tick / 2 + plan->pause, hops);
    return plan->fault_count == 0 && plan->slow_once_in == 0 && !plan->bounds &&
           s->clients[client].connected_at != SIM_NEVER && 2 * sim_round_trip(s) < least / 4;
}

static void check_loss(struct sim *s, struct sim_attempt *attempt)
{
    int64_t limit = attempt->plan->max_hold;
    /* By a clock that is fast; a limit of less than 500 ns may end a whole ns earlier. */
    bool overran = limit > 0 && sim_now(s) - attempt->granted >= limit - limit / 500 - 1;
    if (!overran && !attempt->exempt && is_healthy(s, attempt->client)) {
        sim_fail_of(attempt, "healthy", "has lost, and nothing was wrong");
    }
}

static const char *const outcome_names[] = {"granted",  "failed",     "jeopardy", "safe",          "loss",
                                            "released", "downgraded", "revoked",  "not downgraded"};

void sim_judge_outcome(void *owner, const struct zkl__outcome *outcome)
{
    struct sim_attempt *attempt = owner;
    struct sim *s = attempt->s;
    sim_say(s, "app", "%d.%d %s%s%s: %s", attempt->client, attempt->thread, outcome_names[outcome->kind],
            outcome->code ? " " : "", outcome->code ? zkl_error_name(outcome->code) : "",
            outcome->why ? outcome->why : "");
    sim_hash(s, (uint64_t)outcome->kind * 131 + outcome->token + outcome->code);
    if (!legal(attempt, outcome->kind)) {
        sim_fail_of(attempt, "outcome", "is told %s in state %d", outcome_names[outcome->kind], attempt->state);
        return;
    }
    if (outcome->kind == ZKL__GRANTED) {
        s->judge.grants++;
        s->judge.completions++;
        attempt->serial = outcome->serial;
        if (attempt->contender) {
            const char *waited_with = sim_attempt_node(attempt, 0);
            attempt->number = *waited_with ? zkl__name_parse(waited_with).sequence : SIM_IN_LINE;
            attempt->contender = outcome->contender;
        }
        for (int seat = 0; seat < attempt->seats; seat++) {
            check_grant(s, attempt, seat, outcome->token);
        }
        if (attempt->semaphore) {
            check_permits(s, attempt, outcome->token);
        }
        check_crashes(s, attempt, outcome->token, outcome->unclean);
    } else if (outcome->kind == ZKL__FAILED) {
        s->judge.completions++;
        if (!fits(s, attempt, outcome->code)) {
            sim_fail_of(attempt, "outcome", "fails with %s, and nothing here explains it",
                        zkl_error_name(outcome->code));
        }
    } else if (outcome->kind == ZKL__LOSS) {
        s->judge.losses++;
        check_loss(s, attempt);
    }
    sim_app_outcome(attempt, outcome);
    if (outcome->kind == ZKL__GRANTED) {
        sim_faults_on(s, SIM_ON_GRANT, attempt->client);
    }
}
