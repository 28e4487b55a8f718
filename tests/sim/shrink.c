/* shrink.c - delta debugging, one line at a time: plans are short. */
#include "shrink.h"

#include <string.h>

/* The invariant's name: the verdict up to the colon. */
static bool fails_alike(struct sim *s, const struct sim_plan *plan, uint64_t seed, const char *invariant)
{
    return !sim_run(s, plan, seed, NULL) &&
           (!*invariant || strncmp(s->judge.verdict, invariant, strlen(invariant)) == 0);
}

static bool keep_if(struct sim *s, struct sim_plan *plan, const struct sim_plan *smaller, uint64_t seed,
                    const char *invariant)
{
    if (!fails_alike(s, smaller, seed, invariant)) {
        return false;
    }
    *plan = *smaller;
    return true;
}

static bool drop_lines(struct sim *s, struct sim_plan *plan, uint64_t seed, const char *invariant)
{
    static struct sim_plan smaller;
    bool progress = false;
    for (int i = plan->fault_count - 1; i >= 0; i--) {
        smaller = *plan;
        smaller.fault_count--;
        memmove(&smaller.faults[i], &smaller.faults[i + 1],
                sizeof *smaller.faults * (size_t)(plan->fault_count - 1 - i));
        progress = keep_if(s, plan, &smaller, seed, invariant) || progress;
    }
    for (int i = plan->acquire_count - 1; i >= 0; i--) {
        smaller = *plan;
        smaller.acquire_count--;
        memmove(&smaller.acquires[i], &smaller.acquires[i + 1],
                sizeof *smaller.acquires * (size_t)(plan->acquire_count - 1 - i));
        progress = keep_if(s, plan, &smaller, seed, invariant) || progress;
    }
    return progress;
}

static bool has_client(const struct sim_plan *plan, int client)
{
    for (int i = 0; i < plan->acquire_count; i++) {
        if (plan->acquires[i].client == client) {
            return true;
        }
    }
    return false;
}

static void calm_network(struct sim *s, struct sim_plan *plan, uint64_t seed, const char *invariant)
{
    struct sim_plan calmer = *plan;
    calmer.slow_once_in = 0;
    keep_if(s, plan, &calmer, seed, invariant);
    calmer = *plan;
    calmer.inbox_delay = 0;
    keep_if(s, plan, &calmer, seed, invariant);
    calmer = *plan;
    calmer.preempt = 0;
    keep_if(s, plan, &calmer, seed, invariant);
    calmer = *plan;
    calmer.ping_late = 0;
    keep_if(s, plan, &calmer, seed, invariant);
    calmer = *plan;
    calmer.late = 0;
    keep_if(s, plan, &calmer, seed, invariant);
    calmer = *plan;
    calmer.scheduler = SIM_UNIFORM;
    keep_if(s, plan, &calmer, seed, invariant);
    for (int i = 0; i < plan->clients; i++) {
        calmer = *plan;
        calmer.ppm[i] = 0;
        keep_if(s, plan, &calmer, seed, invariant);
    }
    while (plan->clients > 1 && !has_client(plan, plan->clients - 1)) {
        calmer = *plan;
        calmer.clients--;
        if (!keep_if(s, plan, &calmer, seed, invariant)) {
            break;
        }
    }
}

/* What an acquire can do without: each once on its own. */
static void plain_acquires(struct sim *s, struct sim_plan *plan, uint64_t seed, const char *invariant)
{
    static struct sim_plan plainer;
    for (int i = 0; i < plan->acquire_count; i++) {
        for (int what = 0; what < 12; what++) {
            plainer = *plan;
            struct sim_acquire *it = &plainer.acquires[i];
            it->after = what == 0 ? 0 : it->after;
            it->hold = what == 1 ? 0 : it->hold;
            it->timeout = what == 2 ? -1 : it->timeout;
            it->cancel = what == 3 ? -1 : it->cancel;
            it->max_hold = what == 4 ? 0 : it->max_hold;
            it->eager = what == 5 ? false : it->eager;
            it->fail_on_expiry = what == 6 ? false : it->fail_on_expiry;
            it->ending = what == 7 ? SIM_END_RELEASE : it->ending;
            it->kind = what == 8 ? SIM_MUTEX : it->kind;
            it->mark = what == 9 ? false : it->mark;
            it->downgrade = what == 10 ? false : it->downgrade;
            it->joint = what == 11 ? false : it->joint;
            keep_if(s, plan, &plainer, seed, invariant);
        }
    }
}

bool sim_shrink(struct sim *s, struct sim_plan *plan, uint64_t seed)
{
    if (!fails_alike(s, plan, seed, "")) {
        return false;
    }
    char invariant[64];
    snprintf(invariant, sizeof invariant, "%.*s", (int)strcspn(s->judge.verdict, ":"), s->judge.verdict);
    while (drop_lines(s, plan, seed, invariant)) {
    }
    plain_acquires(s, plan, seed, invariant);
    calm_network(s, plan, seed, invariant);
    while (drop_lines(s, plan, seed, invariant)) {
    }
    return true;
}
