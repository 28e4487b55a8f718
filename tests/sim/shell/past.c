/* past.c - questions to the log. The tree keeps every node with the zxids of its birth and death, so a judge need not look on: he asks
 * afterwards what was so at any time between two zxids. */
#include "world.h"

#include <string.h>

#include "past.h"

static int members_at(const struct sim *s, int dir, int64_t zxid)
{
    int count = 0;
    for (int child = s->paths[dir].first_child; child >= 0; child = s->paths[child].sibling) {
        int node = sim_node_at(s, child, zxid);
        count += node >= 0 && s->nodes[node].owner != -1 && strcmp(sim_path_name(&s->paths[child]), "ready") != 0;
    }
    return count;
}

struct past_count past_members(struct sim *s, const char *dir, int64_t from, int64_t to)
{
    int path = sim_path_of(s, dir, NULL);
    int count = members_at(s, path, from);
    struct past_count past = {count, count};
    to = sim_end_of(s, to);
    for (int64_t at = sim_next_change(s, path, from, to); at; at = sim_next_change(s, path, at, to)) {
        count = members_at(s, path, at);
        past.most = count > past.most ? count : past.most;
        past.fewest = count < past.fewest ? count : past.fewest;
    }
    return past;
}

bool past_there(struct sim *s, const char *path, int64_t from, int64_t to)
{
    for (int node = s->paths[sim_path_of(s, path, NULL)].node; node >= 0; node = s->nodes[node].older) {
        if (s->nodes[node].czxid <= sim_end_of(s, to) && s->nodes[node].dzxid > from) {
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
        if (s->nodes[node].dzxid > from && s->nodes[node].dzxid <= sim_end_of(s, to)) {
            return true; /* a transaction at least lies between its end and the next one's birth */
        }
    }
    return !there;
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
