/* fiber.c - the threads of a simulated process, and over them thread.h and what of pthread the library calls besides (the linker's
 * --wrap). */
#undef _FORTIFY_SOURCE /* it takes a jump to another stack for a mistake */
#include <setjmp.h>
#include <ucontext.h>

#include "world.h"
#include "thread.h"

enum { FIBERS = SIM_CLIENTS * (SIM_THREADS + 3), STACK = 256 * 1024 };

struct fiber {
    const void *waits_for;
    bool used, finished, began;
    int client, slot;
    void *(*run)(void *);
    void *arg;
    void *stack;
    jmp_buf left; /* where it goes on; a context would ask the kernel for its signals each time */
};
static struct fiber fibers[FIBERS];
struct process processes[SIM_CLIENTS];
static jmp_buf scheduler;
struct sim *world;
static uint64_t chances; /* to be switched away: so far */
static int current = -1, started;
static int owners; /* of mutexes in all the world, for a check */
static int acting = -1;

int fiber_client(void)
{
    return acting >= 0 || current < 0 ? acting : fibers[current].client;
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
    owners = 0;
    memset(processes, 0, sizeof processes);
    SIM_EACH (it, fibers, started) {
        it->used = false;
    }
    started = 0;
}

static void body(void)
{
    struct fiber *it = &fibers[current];
    it->run(it->arg);
    it->finished = true;
    fiber_wake(it);
    _longjmp(scheduler, 1);
}

int fiber_start(int client, int slot, void *(*run)(void *), void *arg)
{
    struct fiber *it = fibers;
    while (it->used) {
        it++;
        assert(it < fibers + FIBERS);
    }
    started = (int)sim_max(started, it + 1 - fibers);
    void *stack = it->stack ? it->stack : malloc(STACK);
    *it = (struct fiber){.stack = stack, .used = true, .client = client, .slot = slot, .run = run, .arg = arg};
    sim_arm(world, slot, sim_now(world));
    return (int)(it - fibers);
}

static void go_on(struct fiber *it)
{
    if (it->began) {
        _longjmp(it->left, 1);
    }
    ucontext_t context;
    it->began = true;
    getcontext(&context);
    context.uc_stack.ss_sp = it->stack;
    context.uc_stack.ss_size = STACK;
    makecontext(&context, body, 0);
    setcontext(&context);
}

static void leave(struct fiber *it)
{
    if (_setjmp(it->left) == 0) {
        _longjmp(scheduler, 1);
    }
}

void fiber_due(int slot)
{
    sim_arm(world, slot, SIM_NEVER);
    SIM_EACH (it, fibers, started) {
        if (it->slot == slot && it->used && !it->finished) {
            assert(current < 0);
            current = (int)(it - fibers);
            if (_setjmp(scheduler) == 0) {
                go_on(it);
            }
            current = -1;
            return;
        }
    }
}

void fiber_drop(int client)
{
    SIM_EACH (it, fibers, started) {
        if (it->used && it->client == client) {
            it->used = false;
            sim_clock_set(&world->clock, it->slot, SIM_NEVER);
        }
    }
}

void fiber_sleep(int64_t ns)
{
    sim_arm(world, fibers[current].slot, sim_now(world) + ns);
    leave(&fibers[current]);
}

void fiber_wait(const void *what, int64_t deadline)
{
    struct fiber *it = &fibers[current];
    it->waits_for = what;
    sim_arm(world, it->slot, deadline == INT64_MAX ? SIM_NEVER : sim_true(world, it->client, deadline));
    leave(it);
    it->waits_for = NULL;
}

/* Whoever wakes up does so a little later, each in its own time. */
void fiber_wake(const void *what)
{
    SIM_EACH (it, fibers, started) {
        if (it->waits_for == what && it->used && !it->finished) {
            it->waits_for = NULL;
            uint64_t roll = dice_at(world->seed, it->slot + 500, world->steps);
            sim_arm(world, it->slot, sim_now(world) + 1 + (roll % 20000));
        }
    }
}

/* Lets others go first, sometimes. */
static void fiber_preempt(void)
{
    if (current < 0 || acting >= 0) {
        return;
    }
    uint64_t roll = dice_at(world->seed, fibers[current].slot + 900, ++chances);
    if (roll % 16 == 0) {
        fiber_sleep((int64_t)(roll >> 32) % 100000);
    }
}

int64_t zkl__clock_now(void)
{
    return sim_local(world, fiber_client(), sim_now(world));
}

/* --- threads --------------------------------------------------------------------------------------------------------- */

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* of what the linker puts in the place of another */

/* The library starts two: for its alarms, and for callbacks. */
int zkl__thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    int client = fiber_client();
    int slot = SLOT_FIBER + 2 * client + processes[client].threads;
    processes[client].threads = true;
    *thread = (pthread_t)(fiber_start(client, slot, run, arg) + 1);
    return ZKL_OK;
}

pthread_t __wrap_pthread_self(void)
{
    return (pthread_t)(current + 1);
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    while (!fibers[(int)thread - 1].finished) {
        fiber_wait(&fibers[(int)thread - 1], INT64_MAX);
    }
    return 0;
}

/* A fiber that has ended is forgotten by itself. */
int __wrap_pthread_detach(pthread_t thread)
{
    return 0;
}

/* Fibers are not cancelled. */
void zkl__cancel_hold(void) {}

void zkl__cancel_allow(void) {}

/* --- mutexes: nobody is switched away while he has one ---------------------------------------------------------------- */

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    assert(owners == 0); /* never twice: it is not recursive */
    fiber_preempt();
    owners = 1;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    assert(owners == 1);
    owners = 0;
    fiber_preempt();
    return 0;
}

/* --- signals --------------------------------------------------------------------------------------------------------- */

void zkl__signal_init(struct zkl__signal *signal) {}

void zkl__signal_deinit(struct zkl__signal *signal) {}

void zkl__signal_raise(struct zkl__signal *signal)
{
    fiber_wake(signal);
}

void zkl__signal_wait(struct zkl__signal *signal, pthread_mutex_t *mutex, int64_t deadline)
{
    if (deadline <= zkl__clock_now()) {
        return;
    }
    assert(owners == 1);
    owners = 0;
    fiber_wait(signal, deadline);
    assert(owners == 0);
    owners = 1;
}

/* --- alarms: one thread that rings what is due ------------------------------------------------------------------------- */

static void *ring_all(void *arg)
{
    struct zkl__alarms *alarms = arg;
    int rings = 0;
    int64_t last = 0;
    pthread_mutex_lock(alarms->mutex);
    while (!alarms->stop) {
        if (zkl__timers_next(&alarms->timers) <= zkl__clock_now()) {
            struct zkl__alarm *alarm = (struct zkl__alarm *)alarms->timers.root;
            zkl__alarms_set(alarms, alarm, INT64_MAX);
            alarm->ring(alarm->owner);
            rings = sim_now(world) == last ? rings + 1 : 0;
            last = sim_now(world);
            if (rings > 1000) { /* it keeps the mutex for ever */
                sim_fail(world, "liveness", "the alarms of %d ring without end", fiber_client());
                zkl__signal_wait((struct zkl__signal *)alarms, alarms->mutex, zkl__clock_now() + SIM_SECOND);
            }
        } else {
            zkl__signal_wait((struct zkl__signal *)alarms, alarms->mutex, zkl__timers_next(&alarms->timers));
        }
    }
    zkl__unlock_and_leave(alarms->mutex, alarms->left, alarms->owner);
    return NULL;
}

int zkl__alarms_start(struct zkl__alarms *alarms, pthread_mutex_t *mutex)
{
    alarms->mutex = mutex;
    alarms->started = true;
    return zkl__thread_start(&alarms->thread, ring_all, alarms);
}

void zkl__alarms_stop(struct zkl__alarms *alarms)
{
    if (alarms->started) {
        pthread_mutex_lock(alarms->mutex);
        alarms->stop = true;
        fiber_wake(alarms);
        pthread_mutex_unlock(alarms->mutex);
        pthread_join(alarms->thread, NULL);
    }
}

void zkl__alarms_join(struct zkl__alarms *alarms) {}

void zkl__alarms_retire(struct zkl__alarms *alarms, void (*left)(void *owner), void *owner)
{
    alarms->stop = true;
    alarms->started = false;
    alarms->left = left;
    alarms->owner = owner;
}

/* Nobody raises a stop token here: no signal handler interrupts a fiber. */
int zkl__alarms_poke_descriptor(struct zkl__alarms *alarms, struct zkl__alarm *poked)
{
    return -1;
}

void zkl__alarms_close(struct zkl__alarms *alarms) {}

void zkl__alarms_set(struct zkl__alarms *alarms, struct zkl__alarm *alarm, int64_t at)
{
    if (current < 0) {
        return; /* the judge asks who holds: that changes nothing */
    }
    struct zkl__timer **place = &alarms->timers.root;
    while (*place && *place != &alarm->timer) {
        place = &(*place)->child[0];
    }
    if (*place) {
        *place = alarm->timer.child[0];
        alarm->timer.set = false;
    }
    if (at == INT64_MAX) {
        return;
    }
    /* A list by the first children, in order: of alarms at one time the last to be set rings first. */
    place = &alarms->timers.root;
    while (*place && (*place)->at < at) {
        place = &(*place)->child[0];
    }
    alarm->timer.at = at;
    alarm->timer.set = true;
    alarm->timer.child[0] = *place;
    *place = &alarm->timer;
    fiber_wake(alarms);
}

/* --- what must be the same in every run -------------------------------------------------------------------------------- */

ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags)
{
    uint64_t stream = dice_at(world->seed, fiber_client(), world->steps);
    for (size_t i = 0; i < size; i++) {
        ((unsigned char *)out)[i] = (unsigned char)dice_next(&stream);
    }
    return (ssize_t)size;
}

pid_t __wrap_getpid(void)
{
    return 1;
}

int __wrap_gethostname(char *name, size_t size)
{
    strncpy(name, "host", size);
    return 0;
}
