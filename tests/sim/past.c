/* past.c - questions to the log that both simulators have. See shell/past.c for others. */
#include "past.h"

#include "name.h"

/* Transactions that were taken back have no node in the tree any more; those under way do not count. */
static bool stands(const struct sim *s, const struct sim_node *node, int64_t zxid)
{
    return node->czxid <= zxid && zxid < node->dzxid && zxid <= sim_committed_zxid(s);
}

/* The next zxid, up to `to`, at which a child of dir was made or went; 0: none. */
int64_t sim_next_change(const struct sim *s, int dir, int64_t after, int64_t to)
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

int64_t sim_end_of(const struct sim *s, int64_t to)
{
    int64_t committed = sim_committed_zxid(s);
    return to < committed ? to : committed;
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

bool sim_was_first(const struct sim *s, int node, int64_t from, int64_t to, bool of_others)
{
    int dir = s->paths[s->nodes[node].path].parent;
    to = sim_end_of(s, to);
    bool first = is_first_at(s, node, from, of_others);
    for (int64_t at = sim_next_change(s, dir, from, to); at && !first; at = sim_next_change(s, dir, at, to)) {
        first = is_first_at(s, node, at, of_others);
    }
    return first;
}
