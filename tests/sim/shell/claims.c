/* claims.c - the judge of recipes: what their users are told by is_held, at every step. */
#include "world.h"

#include <string.h>

enum { CLAIMS = SIM_CLIENTS * SIM_THREADS * 2 };
static struct claim claims[CLAIMS];
static bool used[CLAIMS];
static int count;
static int64_t last_token[4], last_exclusive[4];

void claims_begin(void)
{
    memset(used, 0, sizeof used);
    memset(last_token, 0, sizeof last_token);
    memset(last_exclusive, 0, sizeof last_exclusive);
    count = 0;
}

static bool excused(const struct sim *s)
{
    return s->faults.stranger || s->faults.beyond_pause;
}

static void check_token(struct sim *s, const struct claim *claim)
{
    if (claim->limit > 1 || claim->token == 0) {
        return; /* permits have no order that fences */
    }
    int64_t last = claim->shared ? last_exclusive[claim->path] : last_token[claim->path];
    if (claim->token <= last && !excused(s)) {
        sim_fail(s, "token", "%d.%d: token %llx after %llx", claim->client, claim->thread,
                 (unsigned long long)claim->token, (unsigned long long)last);
    }
    if (claim->token > last_token[claim->path]) {
        last_token[claim->path] = claim->token;
    }
    if (!claim->shared) {
        last_exclusive[claim->path] = claim->token;
    }
}

int claim_make(struct sim *s, const struct claim *claim)
{
    int number = 0;
    while (used[number]) {
        number++;
    }
    claims[number] = *claim;
    used[number] = true;
    count++;
    s->judge.grants++;
    sim_hash(s, (uint64_t)claim->token);
    sim_say(s, "app", "%d.%d holds %s", claim->client, claim->thread, sim_plan_path(claim->path));
    check_token(s, claim);
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

static bool holds(const struct claim *claim)
{
    fiber_act_for(claim->client);
    bool held = claim->holds(claim->object);
    fiber_act_for(-1);
    return held;
}

void claims_check(struct sim *s)
{
    int permits[4] = {0}, limits[4] = {0};
    bool alone[4] = {false}, some[4] = {false};
    if (count < 2 || excused(s)) {
        return;
    }
    for (int i = 0; i < CLAIMS; i++) {
        if (!used[i] || !holds(&claims[i])) {
            continue;
        }
        int path = claims[i].path;
        bool exclusive = claims[i].limit == 1 && !claims[i].shared;
        if (alone[path] || (exclusive && some[path])) {
            sim_fail(s, "exclusion", "%d.%d holds %s, and is not the only one", claims[i].client, claims[i].thread,
                     sim_plan_path(path));
        }
        alone[path] = alone[path] || exclusive;
        some[path] = true;
        permits[path] += claims[i].count;
        limits[path] = claims[i].limit;
        if (claims[i].limit > 1 && permits[path] > limits[path]) {
            sim_fail(s, "exclusion", "%d permits of %d are held at %s", permits[path], limits[path],
                     sim_plan_path(path));
        }
    }
}
