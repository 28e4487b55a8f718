/* claims.c - the judge of those that hold something: what their users are told by is_held, at every step. */
#include "world.h"

#include <string.h>

enum { CLAIMS = SIM_CLIENTS * SIM_THREADS * PIECES + 8 };
static struct claim claims[CLAIMS];
static bool used[CLAIMS];
static int count;
static int64_t last_token[RESOURCES], last_exclusive[RESOURCES], last_serial[RESOURCES];

void claims_begin(void)
{
    memset(used, 0, sizeof used);
    memset(last_token, 0, sizeof last_token);
    memset(last_exclusive, 0, sizeof last_exclusive);
    memset(last_serial, 0, sizeof last_serial);
    count = 0;
}

bool is_exempt(const struct sim *s, int session)
{
    if (!s->faults.stranger || session < 0) {
        return false;
    }
    bool taken = s->sessions[session].by_operator;
    for (int node = 0; node < s->node_count && !taken; node++) {
        taken = s->nodes[node].owner == session && s->nodes[node].taken;
    }
    return taken;
}

static bool excused(const struct sim *s, const struct claim *claim)
{
    return s->faults.beyond || is_exempt(s, claim->session);
}

static bool holds(const struct claim *claim)
{
    fiber_act_for(claim->client);
    bool held = claim->holds(claim->object);
    fiber_act_for(-1);
    return held;
}

static void check_token(struct sim *s, const struct claim *claim)
{
    if (claim->permits) {
        return; /* permits have no order that fences */
    }
    int64_t *any = &last_token[claim->resource], *exclusive = &last_exclusive[claim->resource];
    int64_t last = claim->shared ? *exclusive : *any;
    if (excused(s, claim) || !holds(claim)) { /* it may have stood still since it was told */
        return;
    }
    bool again = claim->serial > last_serial[claim->resource];                       /* of a lock that lingered */
    if (claim->token < last || (claim->token == last && !claim->shared && !again)) { /* who downgrades keeps his */
        sim_fail(s, "token", "%d.%d: token %llx, grant %lld of it, after %llx", claim->client, claim->thread,
                 (unsigned long long)claim->token, (long long)claim->serial, (unsigned long long)last);
    }
    last_serial[claim->resource] = claim->serial;
    *any = claim->token > *any ? claim->token : *any;
    *exclusive = claim->shared ? *exclusive : claim->token;
}

int claim_make(struct sim *s, const struct claim *claim)
{
    int number = 0;
    while (used[number]) {
        number++;
    }
    struct claim *mine = &claims[number];
    *mine = *claim;
    int node = past_node_of(s, claim->token);
    mine->session = node < 0 ? -1 : s->nodes[node].owner;
    used[number] = true;
    count++;
    s->judge.grants++;
    sim_hash(s, claim->token);
    sim_say(s, "app", "%d.%d holds %d", claim->client, claim->thread, claim->resource);
    if (node < 0) {
        sim_fail(s, "token", "%d.%d: token %llx is no node's", claim->client, claim->thread,
                 (unsigned long long)claim->token);
    }
    check_token(s, mine);
    return number;
}

void claim_drop(int number)
{
    if (number >= 0 && used[number]) {
        used[number] = false;
        count--;
    }
}

void claims_drop_all(int client)
{
    for (int i = 0; i < CLAIMS; i++) {
        if (used[i] && claims[i].client == client) {
            claim_drop(i);
        }
    }
}

void claims_check(struct sim *s)
{
    int permits[RESOURCES] = {0}, limit[RESOURCES] = {0};
    int64_t last[RESOURCES] = {0};
    bool alone[RESOURCES] = {false}, some[RESOURCES] = {false};
    for (int i = 0; i < CLAIMS && count > 1; i++) {
        const struct claim *claim = &claims[i];
        if (!used[i] || excused(s, claim) || !holds(claim)) {
            continue;
        }
        int at = claim->resource;
        bool exclusive = !claim->permits && !claim->shared;
        if (alone[at] || (exclusive && some[at])) {
            sim_fail(s, "exclusion", "%d.%d holds %d, and is not the only one", claim->client, claim->thread, at);
        }
        alone[at] = alone[at] || exclusive;
        some[at] = true;
        permits[at] += claim->permits ? claim->count : 0;
        limit[at] = claim->permits > last[at] ? claim->limit : limit[at];
        last[at] = claim->permits > last[at] ? claim->permits : last[at];
    }
    for (int at = 0; at < RESOURCES; at++) {
        if (permits[at] > limit[at]) {
            sim_fail(s, "exclusion", "%d permits of %d are held of %d", permits[at], limit[at], at);
        }
    }
}

int claims_held(int first, int resources)
{
    bool held[RESOURCES] = {false};
    int sum = 0;
    for (int i = 0; i < CLAIMS; i++) {
        if (used[i] && claims[i].resource >= first && claims[i].resource < first + resources && holds(&claims[i])) {
            held[claims[i].resource] = true;
        }
    }
    for (int i = first; i < first + resources; i++) {
        sum += held[i];
    }
    return sum;
}
