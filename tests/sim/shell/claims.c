/* claims.c - the judge of those that hold something: what their users are told by is_held, at every step; and questions to the log. The tree
 * keeps every node with the zxids of its birth and death, so a judge need not look on: he asks afterwards what was so at any time between two
 * zxids. */
#include <string.h>

#include "name.h"
#include "world.h"

/* Transactions that were taken back have no node in the tree any more; those under way do not count. */
static bool stands(const struct sim *s, const struct sim_node *node, int64_t zxid)
{
    return node->czxid <= zxid && zxid < node->dzxid && zxid <= sim_committed_zxid(s);
}

/* The next zxid, up to `to`, at which a child of dir was made or went; 0: none. */
static int64_t next_change(const struct sim *s, int dir, int64_t after, int64_t to)
{
    int64_t next = 0;
    SIM_EACH_NODE (s, it) {
        const int64_t changes[] = {it->czxid, it->dzxid};
        for (int i = 0; i < 2 && s->paths[it->path].parent == dir; i++) {
            if (changes[i] > after && changes[i] <= to && (!next || changes[i] < next)) {
                next = changes[i];
            }
        }
    }
    return next;
}

static int64_t end_of(const struct sim *s, int64_t to)
{
    return sim_min(to, sim_committed_zxid(s));
}

static bool is_first_at(const struct sim *s, int own, int64_t zxid, bool of_others)
{
    int32_t place = sim_node_number(s, own);
    int dir = sim_dir_of(s, own);
    SIM_EACH_CHILD (s, node, dir, zxid) {
        struct zkl__name name = zkl__name_parse(sim_node_name(s, node));
        if (node != own && !s->nodes[node].by_stranger && name.kind != ZKL_KIND_FOREIGN &&
            zkl__sequence_diff(name.sequence, place) < 0 &&
            !(of_others && s->nodes[node].owner == s->nodes[own].owner)) {
            return false;
        }
    }
    return stands(s, &s->nodes[own], zxid);
}

bool sim_was_first(const struct sim *s, int node, int64_t from, int64_t to, bool of_others)
{
    int dir = sim_dir_of(s, node);
    to = end_of(s, to);
    bool first = is_first_at(s, node, from, of_others);
    for (int64_t at = next_change(s, dir, from, to); at && !first; at = next_change(s, dir, at, to)) {
        first = is_first_at(s, node, at, of_others);
    }
    return first;
}

static int members_at(const struct sim *s, int dir, int64_t zxid)
{
    int count = 0;
    SIM_EACH_CHILD (s, node, dir, zxid) {
        count += s->nodes[node].owner != -1;
    }
    return count;
}

struct past_count past_members(struct sim *s, const char *dir, int64_t from, int64_t to)
{
    int path = sim_path_of(s, dir, NULL);
    int count = members_at(s, path, from);
    struct past_count past = {count, count};
    to = end_of(s, to);
    for (int64_t at = next_change(s, path, from, to); at; at = next_change(s, path, at, to)) {
        count = members_at(s, path, at);
        past.most = (int)sim_max(past.most, count);
        past.fewest = (int)sim_min(past.fewest, count);
    }
    return past;
}

bool past_there(struct sim *s, const char *path, int64_t from, int64_t to)
{
    for (int node = s->paths[sim_path_of(s, path, NULL)].node; node >= 0; node = s->nodes[node].older) {
        if (s->nodes[node].czxid <= end_of(s, to) && s->nodes[node].dzxid > from) {
            return true;
        }
    }
    return false;
}

/* Newest incarnation first; a value that was written is one more sign. */
bool past_sign(struct sim *s, const char *dir, int64_t after)
{
    int node = s->paths[sim_path_of(s, dir, "ready")].node;
    return sim_value_at(s, node, SIM_HEAD)->zxid > after;
}

bool past_missing(struct sim *s, const char *path, int64_t from, int64_t to)
{
    int index = sim_path_of(s, path, NULL);
    bool there = sim_node_at(s, index, from) >= 0;
    for (int node = s->paths[index].node; there && node >= 0; node = s->nodes[node].older) {
        if (s->nodes[node].dzxid > from && s->nodes[node].dzxid <= end_of(s, to)) {
            return true; /* a transaction at least lies between its end and the next one's birth */
        }
    }
    return !there;
}

int past_node_of(const struct sim *s, int64_t czxid)
{
    for (int node = s->node_count - 1; node >= 0; node--) {
        if (s->nodes[node].czxid == czxid) {
            return node;
        }
    }
    return -1;
}

enum { CLAIMS = SIM_CLIENTS * SIM_THREADS * PIECES + 8 };
static struct claim claims[CLAIMS];
static bool used[CLAIMS];
static int count;
static struct sim_granted granted[RESOURCES];

void claims_begin(void)
{
    memset(used, 0, sizeof used);
    memset(granted, 0, sizeof granted);
    count = 0;
}

/* An operator deleted a node of this session, or closed it: the printed exception. */
static bool is_exempt(const struct sim *s, int session)
{
    if (!s->faults.stranger || session < 0) {
        return false;
    }
    bool taken = s->sessions[session].by_operator;
    SIM_EACH_NODE (s, it) {
        taken = taken || (it->owner == session && it->taken);
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
    struct sim_granted *before = &granted[claim->resource];
    int64_t last = claim->shared ? before->exclusive : before->token;
    if (excused(s, claim) || !holds(claim)) { /* it may have stood still since it was told */
        return;
    }
    bool again = claim->serial > before->serial;                                     /* of a lock that lingered */
    if (claim->token < last || (claim->token == last && !claim->shared && !again)) { /* who downgrades keeps his */
        sim_fail(s, "token", "%d.%d: token %llx, grant %lld of it, after %llx", claim->client, claim->thread,
                 (unsigned long long)claim->token, (long long)claim->serial, (unsigned long long)last);
    }
    sim_granted_note(before, claim->token, claim->serial, claim->shared);
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
        last[at] = sim_max(last[at], claim->permits);
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
