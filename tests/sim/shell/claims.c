/* claims.c - the judge of those that hold something: what their users are told by is_held, at every step; and questions to the log. The tree
 * keeps every node with the zxids of its birth and death, so a judge need not look on: he asks afterwards what was so at any time between two
 * zxids. */

#include "name.h"
#include "world.h"

/* The next zxid, up to `to`, at which a child of dir was made or went; 0: none. */
static int64_t next_change(int dir, int64_t after, int64_t to)
{
    int64_t next = 0;
    SIM_EACH_NODE (world, it) {
        const int64_t changes[] = {it->czxid, it->dzxid};
        for (int i = 0; i < 2 && world->paths[it->path].parent == dir; i++) {
            if (changes[i] > after && changes[i] <= to && (!next || changes[i] < next)) {
                next = changes[i];
            }
        }
    }
    return next;
}

static bool is_first_at(int own, int64_t zxid, bool of_others)
{
    int32_t place = sim_node_number(world, own);
    int dir = sim_dir_of(world, own);
    SIM_EACH_CHILD (world, node, dir, zxid) {
        struct zkl__name name = zkl__name_parse(sim_node_name(world, node));
        if (node != own && !world->nodes[node].by_stranger && name.kind != ZKL_KIND_FOREIGN &&
            zkl__sequence_diff(name.sequence, place) < 0 &&
            !(of_others && world->nodes[node].owner == world->nodes[own].owner)) {
            return false;
        }
    }
    /* Transactions that were taken back have no node in the tree any more; those under way do not count. */
    return sim_node_at(world, world->nodes[own].path, zxid) == own && zxid <= sim_committed_zxid(world);
}

bool sim_was_first(int node, int64_t to, bool of_others)
{
    bool first = false;
    for (int64_t at = world->nodes[node].czxid; at && !first; at = next_change(sim_dir_of(world, node), at, to)) {
        first = is_first_at(node, at, of_others);
    }
    return first;
}

static int members_at(int dir, int64_t zxid, int64_t born)
{
    int count = 0;
    SIM_EACH_CHILD (world, node, dir, zxid) {
        count += world->nodes[node].owner != -1 && world->nodes[node].czxid <= born;
    }
    return count;
}

int past_most_members(const char *dir, int64_t from)
{
    int64_t to = sim_committed_zxid(world);
    int path = sim_path_of(world, dir, NULL);
    int most = members_at(path, from, to);
    for (int64_t at = next_change(path, from, to); at; at = next_change(path, at, to)) {
        most = (int)sim_max(most, members_at(path, at, to));
    }
    return most;
}

int past_staying(const char *dir, int64_t from)
{
    return members_at(sim_path_of(world, dir, NULL), sim_committed_zxid(world), from);
}

/* Newest incarnation first; a value that was written is one more sign. */
bool past_sign(const char *dir, int64_t after)
{
    int node = world->paths[sim_path_of(world, dir, "ready")].node;
    return sim_value_at(world, node, SIM_HEAD)->zxid > after;
}

/* A transaction at least lies between the end of an incarnation and the next one's birth. */
bool past_was(const char *path, bool there, int64_t from)
{
    int index = sim_path_of(world, path, NULL);
    int first = sim_node_at(world, index, from);
    bool so = there ? first >= 0 : first < 0;
    for (int node = world->paths[index].node; !so && node >= 0; node = world->nodes[node].older) {
        int64_t began = there ? world->nodes[node].czxid : world->nodes[node].dzxid;
        so = began > from && began <= sim_committed_zxid(world);
    }
    return so;
}

int past_node_of(int64_t czxid)
{
    for (int node = world->node_count - 1; node >= 0; node--) {
        if (world->nodes[node].czxid == czxid) {
            return node;
        }
    }
    return -1;
}

int64_t past_fall(const char *path, int base, bool strictly)
{
    int64_t later = INT64_MAX, now = sim_committed_zxid(world);
    const struct sim_value *value = sim_value_at(world, sim_node_at(world, sim_path_of(world, path, NULL), now), now);
    for (; value->older >= 0; value = &world->values[value->older]) {
        char text[24] = {0};
        memcpy(text, value->data, value->size < sizeof text - 1 ? value->size : 0);
        int64_t number = strtoll(text, NULL, base);
        if (number > later - strictly) {
            return later;
        }
        later = number;
    }
    return -1;
}

enum { CLAIMS = SIM_CLIENTS * SIM_THREADS * PIECES + 8 };
static struct claim claims[CLAIMS];
static int count, top; /* of those before the last */
static struct sim_granted granted[RESOURCES];

void claims_begin(void)
{
    memset(claims, 0, sizeof claims);
    memset(granted, 0, sizeof granted);
    count = top = 0;
}

/* An operator deleted a node of this session, or closed it: the printed exception. */
static bool is_excused(const struct claim *claim)
{
    bool excused = world->faults.beyond;
    if (world->faults.stranger && claim->session >= 0) {
        excused = excused || world->sessions[claim->session].by_operator;
        SIM_EACH_NODE (world, it) {
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

static void check_token(const struct claim *claim)
{
    struct sim_granted *before = &granted[claim->resource];
    int64_t last = claim->shared ? before->exclusive : before->token;
    /* Permits have no order that fences; and it may have stood still since it was told. */
    if (claim->permits || is_excused(claim) || !holds(claim)) {
        return;
    }
    bool again = claim->serial > before->serial;                                     /* of a lock that lingered */
    if (claim->token < last || (claim->token == last && !claim->shared && !again)) { /* who downgrades keeps his */
        sim_fail(world, "token", "%d.%d: token %llx, grant %lld of it, after %llx", claim->client, claim->thread,
                 (unsigned long long)claim->token, (long long)claim->serial, (unsigned long long)last);
    }
    sim_granted_note(before, claim->token, claim->serial, claim->shared);
}

int claim_make(struct claim claim)
{
    struct claim *mine = claims;
    while (mine->object) {
        mine++;
    }
    *mine = claim;
    top = (int)sim_max(top, mine + 1 - claims);
    int node = past_node_of(claim.token);
    mine->session = node < 0 ? -1 : world->nodes[node].owner;
    count++;
    world->judge.grants++;
    sim_hash(world, claim.token);
    sim_say(world, "app", "%d.%d holds %d", claim.client, claim.thread, claim.resource);
    if (node < 0) {
        sim_fail(world, "token", "%d.%d: token %llx is no node's", claim.client, claim.thread,
                 (unsigned long long)claim.token);
    }
    check_token(mine);
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
    SIM_EACH (claim, claims, top) {
        if (claim->client == client) {
            claim_drop((int)(claim - claims));
        }
    }
}

void claims_check(void)
{
    if (count < 2) {
        return;
    }
    struct {
        int permits, limit;
        int64_t last;
        bool alone, some;
    } resources[RESOURCES] = {0};
    SIM_EACH (claim, claims, top) {
        if (!claim->object || is_excused(claim) || !holds(claim)) {
            continue;
        }
        __auto_type at = &resources[claim->resource];
        bool exclusive = !claim->permits && !claim->shared;
        if (at->alone || (exclusive && at->some)) {
            sim_fail(world, "exclusion", "%d.%d holds %d, and is not the only one", claim->client, claim->thread,
                     claim->resource);
        }
        at->alone = at->alone || exclusive;
        at->some = true;
        at->permits += claim->permits ? claim->count : 0;
        at->limit = claim->permits > at->last ? claim->limit : at->limit;
        at->last = sim_max(at->last, claim->permits);
    }
    SIM_EACH (at, resources, RESOURCES) {
        if (at->permits > at->limit) {
            sim_fail(world, "exclusion", "%d permits of %d are held of %d", at->permits, at->limit,
                     (int)(at - resources));
        }
    }
}

int claims_held(int path)
{
    bool held[RESOURCES] = {false};
    SIM_EACH (claim, claims, top) {
        held[claim->resource] = held[claim->resource] || (claim->object && holds(claim));
    }
    int sum = 0;
    SIM_EACH (piece, &held[claim_piece(path, 0)], PIECES) {
        sum += *piece;
    }
    return sum;
}
