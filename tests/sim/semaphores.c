/* semaphores.c - acquires of semaphores: how the application makes them, and their judge. Such an attempt has no seat in the queue of its
 * path: it stands in PATH/locks, and holds in PATH/leases. */
#include "core_internal.h"

#include <string.h>

#include "invariants.h"

static const char *const folders[][2] = {
    {"/locks/a/locks", "/locks/a/leases"}, {"/locks/b/locks", "/locks/b/leases"}, {"/c/locks", "/c/leases"}};

const char *sim_semaphore_folder(int path, bool leases)
{
    return folders[path][leases];
}

bool sim_path_is_semaphore(const struct sim_plan *plan, int path)
{
    SIM_EACH_ACQUIRE (plan, it) {
        if (it->recipe == SIM_SEMAPHORE && it->path == path) {
            return true;
        }
    }
    return false;
}

bool sim_plan_resizes(const struct sim_plan *plan)
{
    for (int i = 0; i < plan->fault_count; i++) {
        if (plan->faults[i].kind == SIM_RESIZE) {
            return true;
        }
    }
    return false;
}

int sim_semaphore_count(const struct sim_attempt *attempt)
{
    return attempt->plan->permits ? attempt->plan->permits : 1 + (attempt->client + attempt->thread) % SIM_LIMIT;
}

struct zkl__semaphore *sim_semaphore_make(struct sim_attempt *attempt, const struct zkl__contender_config *contender)
{
    bool insists = !sim_plan_resizes(attempt->s->plan) || (attempt->client + attempt->thread) % 4 == 0;
    struct zkl__semaphore_config config = {.path = sim_plan_path(attempt->path),
                                           .locks = sim_semaphore_folder(attempt->path, false),
                                           .leases = sim_semaphore_folder(attempt->path, true),
                                           .conflict = attempt->conflict,
                                           .limit = insists ? SIM_LIMIT : 0,
                                           .count = sim_semaphore_count(attempt),
                                           .contender = *contender};
    config.contender.max_hold = attempt->plan->max_hold;
    return zkl__semaphore_new(attempt->s->clients[attempt->client].core, &config);
}

void sim_semaphores_begin(struct sim *s)
{
    static const char limit = '0' + SIM_LIMIT;
    for (int path = 0; path < s->plan->paths && s->plan->folders; path++) {
        sim_stranger_prepares(s, sim_path_of(s, sim_semaphore_folder(path, false), NULL), NULL, 0);
        sim_stranger_prepares(s, sim_path_of(s, sim_semaphore_folder(path, true), NULL), NULL, 0);
        sim_stranger_writes(s, &(struct sim_part){.op = ZKL__OP_SET,
                                                  .path = sim_path_of(s, sim_plan_path(path), NULL),
                                                  .version = -1,
                                                  .data = &limit,
                                                  .size = 1});
    }
}

/* --- the judge ------------------------------------------------------------------------------------------------------- */

int sim_semaphore_limit(const struct sim *s, int path, int64_t from, int64_t to)
{
    const struct sim_value *value = sim_value_at(s, sim_node_at(s, path, to), to);
    int most = 0;
    for (; value->older >= 0; value = &s->values[value->older]) {
        most = (int)sim_max(most, zkl__limit_parse(value->data, value->size));

        if (value->zxid <= from) {
            break;
        }
    }
    return most;
}

/* It waits, and all leases that stand are no more than the limit. */
static bool has_room(struct sim *s, const struct sim_attempt *attempt)
{
    if (!attempt->semaphore || attempt->state != SIM_PENDING || attempt->semaphore->state != ZKL__SEMAPHORE_WAITING) {
        return false;
    }
    int64_t now = sim_committed_zxid(s);
    int leases = sim_path_of(s, sim_semaphore_folder(attempt->path, true), NULL);
    int path = sim_path_of(s, sim_plan_path(attempt->path), NULL);
    return sim_child_count(s, leases, now) <= sim_semaphore_limit(s, path, now, now);
}

void sim_judge_room(struct sim *s, struct sim_attempt *attempt)
{
    if (!has_room(s, attempt)) {
        attempt->room_since = 0;
    } else if (attempt->room_since == 0) {
        attempt->room_since = sim_now(s);
    } else if (sim_is_overdue(s, attempt->client, attempt->room_since, 0) && !sim_struck(s, SIM_DENY)) {
        sim_fail_of(attempt, "room", "waits for permits of %s, and there are enough", sim_plan_path(attempt->path));
    }
}

bool sim_semaphore_has(const struct sim_attempt *attempt, const char *node)
{
    if (!attempt->semaphore) {
        return false;
    }
    int64_t token;
    bool has = strcmp(zkl__semaphore_queue_node(attempt->semaphore), node) == 0;
    for (int i = 0; !has && i < sim_semaphore_count(attempt); i++) {
        const char *name = zkl__semaphore_permit(attempt->semaphore, i, &token);
        has = name && strcmp(name, node) == 0;
    }
    return has;
}

/* A stranger's hand on that node touches this attempt: of whoever waits, any node that its session has there, for the core may not know
 * its name yet. */
bool sim_semaphore_hit(const struct sim *s, const struct sim_attempt *attempt, int node)
{
    int dir = sim_dir_of(s, node);
    if (!attempt->semaphore || s->nodes[node].owner < 0 ||
        strcmp(s->paths[dir].text, sim_semaphore_folder(attempt->path, true)) != 0) {
        return false;
    }
    if (attempt->state == SIM_PENDING) {
        return s->nodes[node].owner == s->clients[attempt->client].handle.session;
    }
    return sim_semaphore_has(attempt, sim_node_name(s, node));
}
