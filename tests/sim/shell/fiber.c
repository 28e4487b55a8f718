#include "fiber.h"

#include <assert.h>
#include <stdlib.h>
#include <ucontext.h>

enum { FIBERS = SIM_CLIENTS * (SIM_THREADS + 3), STACK = 256 * 1024 };

struct fiber {
    ucontext_t context;
    void *stack;
    bool used, finished;
    int client, slot;
    void (*run)(void *);
    void *arg;
    const void *waits_for;
};
static struct fiber fibers[FIBERS];
static ucontext_t scheduler;
static struct sim *world;
static uint64_t chances; /* to be switched away: so far */
static int current = -1;
static int acting = -1;

struct sim *fiber_world(void)
{
    return world;
}

int fiber_client(void)
{
    return acting >= 0 || current < 0 ? acting : fibers[current].client;
}

int fiber_current(void)
{
    return current;
}

void fiber_act_for(int client)
{
    acting = client;
}

void fiber_begin(struct sim *s)
{
    world = s;
    current = acting = -1;
    chances = 0;
    for (int i = 0; i < FIBERS; i++) {
        fibers[i].used = false;
    }
}

static void body(void)
{
    struct fiber *it = &fibers[current];
    it->run(it->arg);
    it->finished = true;
    fiber_wake(it);
    swapcontext(&it->context, &scheduler);
}

int fiber_start(int client, int slot, void (*run)(void *), void *arg)
{
    int index = 0;
    while (index < FIBERS && fibers[index].used) {
        index++;
    }
    assert(index < FIBERS);
    struct fiber *it = &fibers[index];
    void *stack = it->stack ? it->stack : malloc(STACK);
    *it = (struct fiber){.stack = stack, .used = true, .client = client, .slot = slot, .run = run, .arg = arg};
    getcontext(&it->context);
    it->context.uc_stack.ss_sp = stack;
    it->context.uc_stack.ss_size = STACK;
    it->context.uc_link = &scheduler;
    makecontext(&it->context, body, 0);
    sim_arm(world, slot, sim_now(world));
    return index;
}

static void go_on(int index)
{
    assert(current < 0);
    current = index;
    swapcontext(&scheduler, &fibers[index].context);
    current = -1;
}

void fiber_due(int slot)
{
    sim_arm(world, slot, SIM_NEVER);
    for (int i = 0; i < FIBERS; i++) {
        if (fibers[i].used && !fibers[i].finished && fibers[i].slot == slot) {
            go_on(i);
            return;
        }
    }
}

void fiber_drop(int client)
{
    for (int i = 0; i < FIBERS; i++) {
        if (fibers[i].used && fibers[i].client == client) {
            fibers[i].used = false;
            sim_clock_set(&world->clock, fibers[i].slot, SIM_NEVER);
        }
    }
}

static void yield(void)
{
    swapcontext(&fibers[current].context, &scheduler);
}

void fiber_sleep(int64_t ns)
{
    sim_arm(world, fibers[current].slot, sim_now(world) + ns);
    yield();
}

void fiber_wait(const void *what, int64_t deadline)
{
    struct fiber *it = &fibers[current];
    it->waits_for = what;
    sim_arm(world, it->slot, deadline == INT64_MAX ? SIM_NEVER : sim_true(world, it->client, deadline));
    yield();
    it->waits_for = NULL;
}

/* Whoever wakes up does so a little later, each in its own time. */
void fiber_wake(const void *what)
{
    for (int i = 0; i < FIBERS; i++) {
        struct fiber *it = &fibers[i];
        if (it->used && !it->finished && it->waits_for == what) {
            it->waits_for = NULL;
            uint64_t roll = dice_at(world->seed, (uint64_t)it->slot + 500, world->steps);
            sim_arm(world, it->slot, sim_now(world) + 1 + (roll % 20000));
        }
    }
}

bool fiber_finished(int index)
{
    return fibers[index].finished;
}

void fiber_join(int index)
{
    fiber_wait(&fibers[index], INT64_MAX);
}

void fiber_preempt(void)
{
    if (current < 0 || acting >= 0) {
        return;
    }
    uint64_t roll = dice_at(world->seed, (uint64_t)fibers[current].slot + 900, ++chances);
    if (roll % 16 == 0) {
        fiber_sleep((int64_t)(roll >> 32) % 100000);
    }
}
