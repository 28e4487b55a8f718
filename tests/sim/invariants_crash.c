/* invariants_crash.c - the judge of what is known about the end of the last holder: invariants mark and delay. */
#include "invariants_inside.h"

#include "contender_inside.h"

static bool marks(const struct sim_acquire *plan)
{
    return plan->mark || plan->delay > 0;
}

static bool is_gone(const struct sim *s, int node)
{
    return s->nodes[node].dzxid <= sim_committed_zxid(s);
}

/* It held with the option and did not release, or only after a loss, and its node is gone. In a directory that was made anew nothing
 * is known. */
static bool crashed(struct sim *s, const struct sim_attempt *attempt)
{
    if (!marks(attempt->plan) || attempt->granted == 0 || attempt->node[0] < 0 || (attempt->let_go && !attempt->lost) ||
        !is_gone(s, attempt->node[0])) {
        return false;
    }
    int directory = sim_node_at(s, s->paths[s->nodes[attempt->node[0]].path].parent, sim_committed_zxid(s));
    return directory >= 0 && s->nodes[directory].czxid < s->nodes[attempt->node[0]].czxid;
}

/* The crash of one that was before. Whoever believed a lie, or was believed by such a one, knows nothing. */
static bool is_before(struct sim *s, const struct sim_attempt *it, const struct sim_attempt *attempt, int64_t token)
{
    return it->path == attempt->path && s->faults.lies == 0 && crashed(s, it) && s->nodes[it->node[0]].czxid < token;
}

void sim_judge_delay(struct sim *s, const struct sim_attempt *attempt, int64_t token)
{
    int64_t least = attempt->plan->delay - attempt->plan->delay / 500; /* by a clock that is fast */
    for (int i = 0; i < s->attempt_count && least > 0; i++) {
        const struct sim_attempt *it = &s->attempts[i];
        if (is_before(s, it, attempt, token) && sim_now(s) < s->nodes[it->node[0]].died + least) {
            fail_by_lease(s, "delay",
                          "%d.%d is granted %.3f ms after the end of %d.%d, which did not release, not %.3f",
                          attempt->client, attempt->thread, (double)(sim_now(s) - s->nodes[it->node[0]].died) / 1e6,
                          it->client, it->thread, (double)attempt->plan->delay / 1e6);
        }
    }
}

/* Nobody gives up, nothing is lost, and everybody at this path leaves a mark. */
static bool all_release(const struct sim *s, int path)
{
    bool all = s->plan->fault_count == 0 && s->judge.losses == 0 && s->judge.expiries == 0 && s->plan->sequence == 0;
    for (int i = 0; i < s->client_count; i++) {
        all = all && !s->clients[i].suspended && s->plan->hides[i] == SIM_ANYBODY;
    }
    for (int i = 0; i < s->plan->acquire_count; i++) {
        const struct sim_acquire *it = &s->plan->acquires[i];
        bool here = it->path == path || (it->joint && it->path + 1 == path);
        all = all && it->timeout < 0 && it->cancel < 0 && !it->try_only && it->max_hold == 0 && (marks(it) || !here);
    }
    return all;
}

void sim_judge_delayed(struct sim *s, const struct sim_attempt *attempt)
{
    if (attempt->plan->delay > 0 && attempt->contender && attempt->state == SIM_PENDING &&
        attempt->contender->mark.state == ZKL__MARK_DELAYS && all_release(s, attempt->path)) {
        sim_fail(s, "delay", "%d.%d waits for a delay, and all have released", attempt->client, attempt->thread);
    }
}

void sim_judge_mark(struct sim *s, const struct sim_attempt *attempt, int64_t token, bool unclean)
{
    for (int i = 0; i < s->attempt_count && marks(attempt->plan); i++) {
        struct sim_attempt *it = &s->attempts[i];
        if (it->reported || !is_before(s, it, attempt, token)) {
            continue;
        }
        it->reported = true;
        if (!unclean) {
            sim_fail(s, "mark", "%d.%d is granted after the crash of %d.%d, and not told", attempt->client,
                     attempt->thread, it->client, it->thread);
        }
    }
    if (unclean && all_release(s, attempt->path)) {
        sim_fail(s, "mark", "%d.%d is told of a crash that was none", attempt->client, attempt->thread);
    }
}
