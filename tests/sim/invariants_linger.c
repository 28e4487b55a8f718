/* invariants_linger.c - the judge of locks that linger: to whom they are granted again, and when they go. */
#include "contender_inside.h"
#include "invariants_inside.h"
#include "name.h"

#include <string.h>

const struct sim_attempt *sim_first_of(const struct sim *s, const struct sim_attempt *attempt)
{
    for (int i = 0; i < s->attempt_count; i++) {
        const struct sim_attempt *each = &s->attempts[i];
        if (each->client == attempt->client && each->token == attempt->token && each->serial == 1 &&
            each->path == attempt->path) {
            return each;
        }
    }
    return NULL;
}

static bool stands_before(const char *name, int64_t number)
{
    struct zkl__name parsed = zkl__name_parse(name);
    return parsed.kind != ZKL_KIND_FOREIGN &&
           (number == SIM_IN_LINE || zkl__sequence_diff(parsed.sequence, (int32_t)number) < 0);
}

/* Whoever stands in the queue at that zxid, before that number, besides the node's session; -1: nobody. */
static int other_in_queue(const struct sim *s, int own, int64_t zxid, int64_t number)
{
    int dir = s->paths[s->nodes[own].path].parent;
    for (int child = s->paths[dir].first_child; child >= 0; child = s->paths[child].sibling) {
        int node = sim_node_at(s, child, zxid);
        if (node >= 0 && s->nodes[node].owner != s->nodes[own].owner &&
            stands_before(sim_path_name(&s->paths[child]), number)) {
            return node;
        }
    }
    return -1;
}

/* Then what a client was shown of a queue is not known here (lists_apart in inbox.c). */
static bool has_joints(const struct sim *s, int client)
{
    for (int i = 0; i < s->plan->acquire_count; i++) {
        if (s->plan->acquires[i].client == client && s->plan->acquires[i].joint) {
            return true;
        }
    }
    return false;
}

/* Of those of its session that stand in line the first. */
static void check_line(struct sim *s, const struct sim_attempt *attempt)
{
    for (int i = 0; i < s->attempt_count; i++) {
        const struct sim_attempt *each = &s->attempts[i];
        bool before = each->client == attempt->client && each->path == attempt->path && each->contender &&
                      each->state == SIM_PENDING && each < attempt;
        if (before && each->contender->linger.in_line && !each->canceled &&
            sim_local(s, each->client, sim_now(s)) < each->deadline && s->plan->fault_count == 0) {
            sim_fail(s, "linger", "%d.%d is granted, and %d.%d asked before", attempt->client, attempt->thread,
                     each->client, each->thread);
        }
    }
}

void sim_judge_again(struct sim *s, struct sim_attempt *attempt, int path, int node)
{
    const struct sim_client *client = &s->clients[attempt->client];
    attempt->token = s->nodes[node].czxid;
    const struct sim_attempt *first = sim_first_of(s, attempt);
    int other = other_in_queue(s, node, client->shown_zxid[path], attempt->number);
    if (!first || attempt->plan->linger == 0 || attempt->plan->kind != first->plan->kind) {
        sim_fail(s, "linger", "%d.%d is granted again what it never was", attempt->client, attempt->thread);
    } else if (sim_local(s, attempt->client, sim_now(s)) >= zkl__core_lease_until(client->core)) {
        sim_fail(s, "linger", "%d.%d is granted again, and the lease has ended", attempt->client, attempt->thread);
    } else if (client->connected_at == SIM_NEVER || first->granted < client->connected_at) {
        sim_fail(s, "linger", "%d.%d is granted again, and nothing has shown its node since the connection was lost",
                 attempt->client, attempt->thread);
    } else if (other >= 0 && !has_joints(s, attempt->client)) {
        sim_fail(s, "linger", "%d.%d is granted again, and its session was told of %s", attempt->client,
                 attempt->thread, sim_path_name(&s->paths[s->nodes[other].path]));
    }
    check_line(s, attempt);
}

enum { APART_MOST = 12 }; /* one of eight numbers lists at once, and so may gather; and a few that begin together */

/* Whether others wait: of its session, who could be granted on the same znode; or of another one. */
static bool is_beside(const struct sim *s, const struct sim_attempt *attempt, bool same_session)
{
    for (int i = 0; i < s->attempt_count; i++) {
        const struct sim_attempt *each = &s->attempts[i];
        if (each != attempt && each->state == SIM_PENDING && each->path == attempt->path &&
            (each->client == attempt->client) == same_session) {
            return true;
        }
    }
    return false;
}

/* Without faults and without another session, whoever waits in one session becomes a line after a few grants. */
void sim_judge_apart(struct sim *s, const struct sim_attempt *attempt)
{
    int *apart = &s->judge.apart[attempt->path];
    bool counts = attempt->serial == 1 && attempt->plan->linger > 0 && is_beside(s, attempt, true);
    *apart = counts && !is_beside(s, attempt, false) ? *apart + 1 : 0;
    if (*apart > APART_MOST) {
        sim_fail(s, "line", "%d.%d is the %d. in a row to be granted on a znode of its own", attempt->client,
                 attempt->thread, *apart);
    }
}

/* --- until it goes --------------------------------------------------------------------------------------------------- */

static bool stands(const struct sim *s, const struct sim_attempt *attempt)
{
    int node = attempt->seats == 1 ? attempt->node[0] : -1;
    return node >= 0 && s->nodes[node].dzxid > sim_committed_zxid(s) &&
           attempt->session == s->clients[attempt->client].handle.session;
}

/* Somebody has it again, or is about to. */
static bool is_in_use(const struct sim *s, const struct sim_attempt *released)
{
    for (int i = 0; i < s->attempt_count; i++) {
        const struct sim_attempt *each = &s->attempts[i];
        if (each->client == released->client && each->path == released->path && each != released &&
            (each->state != SIM_OVER || (each->serial > released->serial && each->token == released->token))) {
            return true;
        }
    }
    return false;
}

/* Its delete uses the watch on the queue up, unless an operator was first. */
static bool has_node_in(const struct sim *s, int client, int dir)
{
    const struct sim_handle *handle = &s->clients[client].handle;
    for (int child = s->paths[dir].first_child; child >= 0; child = s->paths[child].sibling) {
        int node = s->paths[child].node;
        if (node >= 0 && s->nodes[node].owner == handle->session && s->nodes[node].dzxid > handle->last_zxid) {
            return true;
        }
    }
    return false;
}

bool sim_lingers_at(const struct sim *s, int client, int path)
{
    for (int i = 0; i < s->attempt_count; i++) {
        const struct sim_attempt *each = &s->attempts[i];
        if (each->client == client && each->plan->linger > 0 &&
            strcmp(sim_plan_path(each->path), s->paths[path].text) == 0 &&
            (s->faults.stranger || has_node_in(s, client, path))) {
            return true;
        }
    }
    return false;
}

static bool is_hindered(const struct sim *s)
{
    return sim_struck(s, SIM_DENY) || sim_struck(s, SIM_THROTTLE) || sim_struck(s, SIM_REFUSE) ||
           sim_struck(s, SIM_NO_MEMORY);
}

static void check_idle(struct sim *s, const struct sim_attempt *attempt)
{
    int client = attempt->client, other = other_in_queue(s, attempt->node[0], sim_committed_zxid(s), SIM_IN_LINE);
    if (sim_is_overdue(s, client, attempt->ended, attempt->plan->linger)) {
        sim_fail(s, "linger", "%d.%d has released it %.3f ms ago, and it lingers", client, attempt->thread,
                 (double)(sim_now(s) - attempt->ended) / 1e6);
    } else if (other >= 0) {
        int64_t born = s->nodes[other].born;
        int64_t since = born > attempt->ended ? born : attempt->ended;
        if (sim_is_overdue(s, client, since, 0)) {
            sim_fail(s, "linger", "%s waits for what lingers of %d.%d", sim_path_name(&s->paths[s->nodes[other].path]),
                     client, attempt->thread);
        }
    }
}

void sim_judge_lingering(struct sim *s, int client)
{
    if (!s->plan->lingers || s->clients[client].process != SIM_RUNNING || is_hindered(s)) {
        return;
    }
    for (int i = 0; i < s->attempt_count; i++) {
        const struct sim_attempt *each = &s->attempts[i];
        if (each->client == client && each->state == SIM_OVER && each->plan->linger > 0 && each->ended > 0 &&
            stands(s, each) && !is_in_use(s, each)) {
            check_idle(s, each);
        }
    }
}
