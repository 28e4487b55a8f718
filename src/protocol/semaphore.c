#include "semaphore_step.h"

/* --- life ------------------------------------------------------------------------------------ */

static void due(struct zkl__machine *machine)
{
    zkl__semaphore_post((struct zkl__semaphore *)machine, ZKL__SM_TIME);
}

static void release_memory(struct zkl__core *core, struct zkl__machine *machine)
{
    struct zkl__semaphore *s = (struct zkl__semaphore *)machine;
    zkl__watches_remove(&core->watches, &s->watch);
    zkl__watches_remove(&core->watches, &s->limit_watch);
    zkl__timers_set(&core->timers, &machine->timer, INT64_MAX);
    core->machines--;
    *(s->prev ? &s->prev->next : &core->semaphores) = s->next;
    if (s->next) {
        s->next->prev = s->prev;
    }
    zkl__free(zkl__core_heap(core), s->leases);
    zkl__free(zkl__core_heap(core), s);
}

static const struct zkl__machine_ops ops = {.rank = ZKL__RANK_LAST,
                                            .step = zkl__semaphore_step,
                                            .answered = zkl__semaphore_answered,
                                            .refused = zkl__semaphore_refused,
                                            .due = due,
                                            .free = release_memory};

void zkl__semaphores_drop(struct zkl__core *core)
{
    while (core->semaphores) {
        release_memory(core, &core->semaphores->machine);
    }
}

struct zkl__semaphore *zkl__semaphore_new(struct zkl__core *core,
                                          const struct zkl__semaphore_config *config)
{
    const zkl_heap *heap = zkl__core_heap(core);
    struct zkl__semaphore *s =
        zkl__zalloc(heap, sizeof *s + (size_t)config->count * sizeof *s->permits);
    if (!s) {
        return NULL;
    }
    s->machine.ops = &ops;
    s->core = core;
    s->config = *config;
    s->watch =
        (struct zkl__watch){.fired = zkl__semaphore_on_fired, .owner = s, .path = config->leases};
    s->limit_watch =
        (struct zkl__watch){.fired = zkl__semaphore_on_fired, .owner = s, .path = config->path};
    for (int i = 0; i < config->count; i++) {
        s->permits[i].semaphore = s;
    }
    core->machines++;
    s->next = core->semaphores;
    if (s->next) {
        s->next->prev = s;
    }
    core->semaphores = s;
    if (!zkl__semaphore_make_place(s)) {
        release_memory(core, &s->machine);
        return NULL;
    }
    s->number = s->place->number;
    return s;
}

void zkl__semaphore_silence(struct zkl__semaphore *semaphore)
{
    semaphore->config.contender.notify = NULL;
}

void zkl__semaphore_let_go(struct zkl__semaphore *semaphore)
{
    if (semaphore->state != ZKL__SEMAPHORE_GONE) {
        zkl__semaphore_end(semaphore, "its owner let go");
    }
}

/* --- what is so now -------------------------------------------------------------------------- */

int64_t zkl__semaphore_token(const struct zkl__semaphore *s)
{
    int64_t first = INT64_MAX;
    for (int i = 0; i < s->config.count; i++) {
        const struct zkl__permit *permit = &s->permits[i];
        first = permit->contender && permit->token < first ? permit->token : first;
    }
    return first;
}

bool zkl__semaphore_holds(const struct zkl__core *core, const struct zkl__semaphore *semaphore,
                          int64_t now)
{
    ZKL__ENSURE(zkl__core_settled(core));
    return semaphore->state == ZKL__SEMAPHORE_HELD && now < semaphore->deadline &&
           zkl__semaphore_leased(semaphore, now);
}

bool zkl__semaphore_granted(const struct zkl__semaphore *semaphore)
{
    return semaphore->state == ZKL__SEMAPHORE_HELD || semaphore->state == ZKL__SEMAPHORE_LOST;
}

const char *zkl__semaphore_place(const struct zkl__semaphore *semaphore)
{
    return semaphore->place ? zkl__contender_node(semaphore->place) : "";
}

const char *zkl__semaphore_permit(const struct zkl__semaphore *semaphore, int index, int64_t *token)
{
    const struct zkl__permit *permit = &semaphore->permits[index];
    *token = permit->token;
    return permit->contender ? zkl__contender_node(permit->contender) : NULL;
}

int zkl__semaphore_count(const struct zkl__semaphore *semaphore)
{
    return semaphore->config.count;
}

int zkl__semaphore_held(const struct zkl__semaphore *s)
{
    int count = 0;
    for (int i = 0; i < s->config.count; i++) {
        count += s->permits[i].contender != NULL;
    }
    return count;
}

static struct zkl__permit *last_permit(struct zkl__semaphore *s)
{
    struct zkl__permit *last = NULL;
    for (int i = 0; i < s->config.count; i++) {
        struct zkl__permit *permit = &s->permits[i];
        last = permit->contender && (!last || permit->token > last->token) ? permit : last;
    }
    return last;
}

void zkl__semaphore_give_back(struct zkl__semaphore *semaphore, int count)
{
    for (struct zkl__permit *last; count > 0 && (last = last_permit(semaphore)); count--) {
        zkl__contender_leave(last->contender);
        last->contender = NULL;
    }
}
