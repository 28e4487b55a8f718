/* claims.c - the judge of those that hold something: what their users are told by is_held, at every step; and questions to the log. The tree
 * keeps every node with the zxids of its birth and death, so a judge need not look on: he asks afterwards what was so at any time between two
 * zxids. */
#include <string.h>

#include "name.h"
#include "world.h"

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
    /* Transactions that were taken back have no node in the tree any more; those under way do not count. */
    return sim_node_at(s, s->nodes[own].path, zxid) == own && zxid <= sim_committed_zxid(s);
}

bool sim_was_first(const struct sim *s, int node, int64_t to, bool of_others)
{
    bool first = false;
    for (int64_t at = s->nodes[node].czxid; at && !first; at = next_change(s, sim_dir_of(s, node), at, to)) {
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

struct past_count past_members(struct sim *s, const char *dir, int64_t from)
{
    int64_t to = sim_committed_zxid(s);
    int path = sim_path_of(s, dir, NULL);
    int count = members_at(s, path, from);
    struct past_count past = {count, count};
    for (int64_t at = next_change(s, path, from, to); at; at = next_change(s, path, at, to)) {
        count = members_at(s, path, at);
        past.most = (int)sim_max(past.most, count);
        past.fewest = (int)sim_min(past.fewest, count);
    }
    return past;
}

/* Newest incarnation first; a value that was written is one more sign. */
bool past_sign(struct sim *s, const char *dir, int64_t after)
{
    int node = s->paths[sim_path_of(s, dir, "ready")].node;
    return sim_value_at(s, node, SIM_HEAD)->zxid > after;
}

/* A transaction at least lies between the end of an incarnation and the next one's birth. */
bool past_was(struct sim *s, const char *path, bool there, int64_t from)
{
    int index = sim_path_of(s, path, NULL);
    int first = sim_node_at(s, index, from);
    bool so = there ? first >= 0 : first < 0;
    for (int node = s->paths[index].node; !so && node >= 0; node = s->nodes[node].older) {
        int64_t began = there ? s->nodes[node].czxid : s->nodes[node].dzxid;
        so = began > from && began <= sim_committed_zxid(s);
    }
    return so;
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
static int count;
static struct sim_granted granted[RESOURCES];

void claims_begin(void)
{
    memset(claims, 0, sizeof claims);
    memset(granted, 0, sizeof granted);
    count = 0;
}

/* An operator deleted a node of this session, or closed it: the printed exception. */
static bool is_excused(const struct sim *s, const struct claim *claim)
{
    bool excused = s->faults.beyond;
    if (s->faults.stranger && claim->session >= 0) {
        excused = excused || s->sessions[claim->session].by_operator;
        SIM_EACH_NODE (s, it) {
            excused = excused || (it->owner == claim->session && it->taken);
        }
    }
    return excused;
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
    struct sim_granted *before = &granted[claim->resource];
    int64_t last = claim->shared ? before->exclusive : before->token;
    /* Permits have no order that fences; and it may have stood still since it was told. */
    if (claim->permits || is_excused(s, claim) || !holds(claim)) {
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
    struct claim *mine = claims;
    while (mine->object) {
        mine++;
    }
    *mine = *claim;
    int node = past_node_of(s, claim->token);
    mine->session = node < 0 ? -1 : s->nodes[node].owner;
    count++;
    s->judge.grants++;
    sim_hash(s, claim->token);
    sim_say(s, "app", "%d.%d holds %d", claim->client, claim->thread, claim->resource);
    if (node < 0) {
        sim_fail(s, "token", "%d.%d: token %llx is no node's", claim->client, claim->thread,
                 (unsigned long long)claim->token);
    }
    check_token(s, mine);
    return (int)(mine - claims);
}

void claim_drop(int number)
{
    if (number >= 0 && claims[number].object) {
        claims[number].object = NULL;
        count--;
    }
}

void claims_drop_all(int client)
{
    for (int i = 0; i < CLAIMS; i++) {
        if (claims[i].client == client) {
            claim_drop(i);
        }
    }
}

void claims_check(struct sim *s)
{
    int permits[RESOURCES] = {0}, limit[RESOURCES] = {0};
    int64_t last[RESOURCES] = {0};
    bool alone[RESOURCES] = {false}, some[RESOURCES] = {false};
    SIM_EACH (claim, claims, count > 1 ? CLAIMS : 0) {
        if (!claim->object || is_excused(s, claim) || !holds(claim)) {
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
    SIM_EACH (claim, claims, CLAIMS) {
        if (claim->object && claim->resource >= first && claim->resource < first + resources && holds(claim)) {
            held[claim->resource] = true;
        }
    }
    for (int i = first; i < first + resources; i++) {
        sum += held[i];
    }
    return sum;
}
