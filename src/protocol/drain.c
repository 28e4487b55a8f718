/* drain.c - one outside event is admitted, then machines are stepped until none has mail. */
#include "session_inside.h"

/* Steps for each contender, list and operation: a bound that no sound event comes near. */
#define STEPS_EACH 16

void zkl__core_post(struct zkl__core *core, struct zkl__machine *machine)
{
    zkl__ready_put(&core->ready, machine, machine->ops->rank);
}

void zkl__core_bury(struct zkl__core *core, struct zkl__machine *machine)
{
    zkl__ready_remove(&core->ready, machine); /* what mail it has is not read any more */
    zkl__ready_put(&core->ready, machine, ZKL__RANK_ENDED);
}

static struct zkl__machine *next_ready(struct zkl__core *core)
{
    struct zkl__machine *machine = zkl__ready_take(&core->ready, ZKL__RANK_FIRST);
    if (!machine && core->first_waiting) {
        zkl__core_send_waiting(core); /* what is not wanted any more is refused, which is mail */
        machine = zkl__ready_take(&core->ready, ZKL__RANK_FIRST);
    }
    machine = machine ? machine : zkl__ready_take(&core->ready, ZKL__RANK_LATER);
    return machine ? machine : zkl__ready_take(&core->ready, ZKL__RANK_LAST);
}

/* Some steps make machines. */
static size_t steps_most(const struct zkl__core *core)
{
    return STEPS_EACH * (core->machines + core->queues.count + core->pendings.room + 16);
}

void zkl__core_step_ready(struct zkl__core *core)
{
    size_t most = 0;
    struct zkl__machine *machine = next_ready(core);
    for (size_t steps = 1; machine; steps++, machine = next_ready(core)) {
        most = steps <= most ? most : steps_most(core);
        ZKL__ENSURE(steps <= most);
        machine->ops->step(core, machine);
    }
}

bool zkl__core_settled(const struct zkl__core *core)
{
    return core->stepping || zkl__ready_none(&core->ready);
}

void zkl__core_begin(struct zkl__core *core, int64_t now)
{
    ZKL__ENSURE(!core->stepping); /* nobody enters the core from what it calls */
    core->stepping = true;
    core->now = now > core->now ? now : core->now;
}

void zkl__core_finish(struct zkl__core *core)
{
    zkl__core_drain(core);
    struct zkl__machine *machine;
    while ((machine = zkl__ready_take(&core->ready, ZKL__RANK_ENDED))) {
        machine->ops->free(core, machine);
    }
    core->stepping = false;
}
