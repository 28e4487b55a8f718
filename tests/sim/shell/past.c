/* past.c - questions to the log. The tree keeps every node with the zxids of its birth and death, so a judge need not look on: he asks
 * afterwards what was so at any time between two zxids. */
#include "world.h"

#include <string.h>

#include "name.h"

/* Transactions that were taken back have no node in the tree any more; those under way do not count. */
static bool stands(const struct sim *s, const struct sim_node *node, int64_t zxid)
{
    return node->czxid <= zxid && zxid < node->dzxid && zxid <= sim_committed_zxid(s);
}

static int members_at(const struct sim *s, int dir, int64_t zxid)
{
    int count = 0;
    for (int child = s->paths[dir].first_child; child >= 0; child = s->paths[child].sibling) {
        int node = sim_node_at(s, child, zxid);
        count += node >= 0 && s->nodes[node].owner != -1 && strcmp(sim_path_name(&s->paths[child]), "ready") != 0;
    }
    return count;
}

/* The next zxid, up to `to`, at which a child of dir was made or went; 0: none. */
static int64_t next_change(const struct sim *s, int dir, int64_t after, int64_t to)
{
    int64_t next = 0;
    for (int node = 0; node < s->node_count; node++) {
        const struct sim_node *it = &s->nodes[node];
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
    int64_t committed = sim_committed_zxid(s);
    return to < committed ? to : committed;
}

struct past_count past_members(struct sim *s, const char *dir, int64_t from, int64_t to)
{
    int path = sim_path_of(s, dir, NULL);
    int count = members_at(s, path, from);
    struct past_count past = {count, count};
    to = end_of(s, to);
    for (int64_t at = next_change(s, path, from, to); at; at = next_change(s, path, at, to)) {
        count = members_at(s, path, at);
        past.most = count > past.most ? count : past.most;
        past.fewest = count < past.fewest ? count : past.fewest;
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
    int value = node >= 0 ? s->nodes[node].value : -1;
    int64_t written = value >= 0 ? s->values[value].zxid : 0;
    return node >= 0 && (s->nodes[node].czxid > after || written > after);
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

static bool is_first_at(const struct sim *s, int own, int64_t zxid, bool of_others)
{
    int32_t place = zkl__name_parse(sim_path_name(&s->paths[s->nodes[own].path])).sequence;
    int dir = s->paths[s->nodes[own].path].parent;
    for (int child = s->paths[dir].first_child; child >= 0; child = s->paths[child].sibling) {
        int node = sim_node_at(s, child, zxid);
        struct zkl__name name = zkl__name_parse(sim_path_name(&s->paths[child]));
        if (node >= 0 && node != own && !s->nodes[node].by_stranger && name.kind != ZKL_KIND_FOREIGN &&
            zkl__sequence_diff(name.sequence, place) < 0 &&
            !(of_others && s->nodes[node].owner == s->nodes[own].owner)) {
            return false;
        }
    }
    return stands(s, &s->nodes[own], zxid);
}

bool past_first(const struct sim *s, int node, int64_t from, int64_t to, bool of_others)
{
    int dir = s->paths[s->nodes[node].path].parent;
    to = end_of(s, to);
    bool first = is_first_at(s, node, from, of_others);
    for (int64_t at = next_change(s, dir, from, to); at && !first; at = next_change(s, dir, at, to)) {
        first = is_first_at(s, node, at, of_others);
    }
    return first;
}

/* --- what a client was shown ------------------------------------------------------------------------------------------ */

static int64_t listed[SIM_CLIENTS][SIM_PATHS];

void past_begin(void)
{
    memset(listed, 0, sizeof listed);
}

void past_note_list(struct sim *s, int client, int path, int64_t zxid)
{
    (void)s;
    listed[client][path] = zxid;
}

int64_t past_listed(int client, int path)
{
    return listed[client][path];
}

int past_node_of(const struct sim *s, int64_t czxid)
{
    for (int node = s->node_count - 1; node >= 0; node--) {
        if (s->nodes[node].czxid == czxid && s->nodes[node].owner > SIM_STRANGER) {
            return node;
        }
    }
    return -1;
}
