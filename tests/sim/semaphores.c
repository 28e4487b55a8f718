/* semaphores.c - acquires of semaphores: how the application makes them. Such an attempt has no seat in the queue of its
 * path: it stands in PATH/locks, and holds in PATH/leases. */
#include "core_internal.h"

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
