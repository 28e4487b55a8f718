/* threads.c - thread.h and alarm.h over fibers, and what of pthread the library calls besides (the linker's --wrap). */
#include "alarm.h"
#include "world.h"

#include <assert.h>
#include <string.h>
#include <sys/types.h>

#include <zklock/error.h>

int64_t zkl__clock_now(void)
{
    return sim_local(fiber_world(), fiber_client(), sim_now(fiber_world()));
}

/* --- threads --------------------------------------------------------------------------------------------------------- */

struct start {
    void *(*run)(void *);
    void *arg;
};
static struct start starts[SIM_CLIENTS][2];

static void run_start(void *arg)
{
    struct start *start = arg;
    start->run(start->arg);
}

/* The library starts two: for its alarms, and for callbacks. */
static int free_slot(int client)
{
    int slot = SLOT_FIBER + 2 * client;
    return starts[client][0].run ? slot + 1 : slot;
}

int zkl__thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    int client = fiber_client();
    int slot = free_slot(client);
    struct start *start = &starts[client][slot - SLOT_FIBER - 2 * client];
    *start = (struct start){run, arg};
    *thread = (pthread_t)(fiber_start(client, slot, run_start, start) + 1);
    return ZKL_OK;
}

void threads_forget(int client)
{
    memset(starts[client], 0, sizeof starts[client]);
}

pthread_t __wrap_pthread_self(void);
pthread_t __wrap_pthread_self(void)
{
    return (pthread_t)(fiber_current() + 1);
}

int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)result;
    while (!fiber_finished((int)thread - 1)) {
        fiber_join((int)thread - 1);
    }
    return 0;
}

/* A fiber that has ended is forgotten by itself. */
int __wrap_pthread_detach(pthread_t thread);
int __wrap_pthread_detach(pthread_t thread)
{
    (void)thread;
    return 0;
}

/* Fibers are not cancelled. */
void zkl__cancel_hold(void) {}

void zkl__cancel_allow(void) {}

/* --- mutexes: nobody is switched away while he has one ---------------------------------------------------------------- */

static int owners; /* in all the world, for a check */

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    (void)attr;
    memset(mutex, 0, sizeof *mutex);
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    (void)mutex;
    assert(owners == 0); /* never twice: it is not recursive */
    fiber_preempt();
    owners = 1;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    (void)mutex;
    assert(owners == 1);
    owners = 0;
    fiber_preempt();
    return 0;
}

void threads_begin(void)
{
    owners = 0;
    memset(starts, 0, sizeof starts);
}

/* --- signals --------------------------------------------------------------------------------------------------------- */

int zkl__signal_init(struct zkl__signal *signal)
{
    memset(signal, 0, sizeof *signal);
    return ZKL_OK;
}

void zkl__signal_deinit(struct zkl__signal *signal)
{
    (void)signal;
}

void zkl__signal_raise(struct zkl__signal *signal)
{
    fiber_wake(signal);
}

void zkl__signal_wait(struct zkl__signal *signal, pthread_mutex_t *mutex, int64_t deadline)
{
    (void)mutex;
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

/* A list by the first children, the latest at its head: of alarms at one time the last to be set rings first. */
static struct zkl__timer **earliest(struct zkl__alarms *alarms)
{
    struct zkl__timer **first = NULL;
    for (struct zkl__timer **at = &alarms->timers.root; *at; at = &(*at)->child[0]) {
        if (!first || (*at)->at < (*first)->at) {
            first = at;
        }
    }
    return first;
}

/* Whoever rings again and again at one moment keeps the mutex for ever. */
static bool is_stuck(int *rings, int64_t *last)
{
    int64_t now = sim_now(fiber_world());
    *rings = now == *last ? *rings + 1 : 0;
    *last = now;
    return *rings > 1000;
}

static void *ring_all(void *arg)
{
    struct zkl__alarms *alarms = arg;
    int rings = 0;
    int64_t last = 0;
    pthread_mutex_lock(alarms->mutex);
    while (!alarms->stop) {
        struct zkl__timer **at = earliest(alarms);
        if (at && (*at)->at <= zkl__clock_now()) {
            struct zkl__alarm *alarm = (struct zkl__alarm *)*at;
            zkl__alarms_unset(alarms, alarm);
            alarm->ring(alarm->owner);
            if (is_stuck(&rings, &last)) {
                sim_fail(fiber_world(), "liveness", "the alarms of %d ring without end", fiber_client());
                zkl__signal_wait((struct zkl__signal *)alarms, alarms->mutex, zkl__clock_now() + SIM_SECOND);
            }
        } else {
            zkl__signal_wait((struct zkl__signal *)alarms, alarms->mutex, at ? (*at)->at : INT64_MAX);
        }
    }
    void (*left)(void *owner) = alarms->left;
    void *owner = alarms->owner;
    pthread_mutex_unlock(alarms->mutex);
    if (left) {
        left(owner);
    }
    return NULL;
}

int zkl__alarms_start(struct zkl__alarms *alarms, pthread_mutex_t *mutex)
{
    alarms->mutex = mutex;
    alarms->timers.root = NULL;
    alarms->stop = false;
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
        alarms->started = false;
    }
}

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
    (void)alarms, (void)poked;
    return -1;
}

void zkl__alarms_close(struct zkl__alarms *alarms)
{
    (void)alarms;
}

void zkl__alarms_unset(struct zkl__alarms *alarms, struct zkl__alarm *alarm)
{
    struct zkl__timer **at = &alarms->timers.root;
    while (alarm->timer.set && *at != &alarm->timer) {
        at = &(*at)->child[0];
    }
    if (alarm->timer.set) {
        *at = alarm->timer.child[0];
        alarm->timer.set = false;
    }
}

void zkl__alarms_set(struct zkl__alarms *alarms, struct zkl__alarm *alarm, int64_t at)
{
    if (fiber_current() < 0) {
        return; /* the judge asks who holds: that changes nothing */
    }
    zkl__alarms_unset(alarms, alarm);
    if (at == INT64_MAX) {
        return;
    }
    alarm->timer.at = at;
    alarm->timer.set = true;
    alarm->timer.child[0] = alarms->timers.root;
    alarms->timers.root = &alarm->timer;
    fiber_wake(alarms);
}

/* --- what must be the same in every run -------------------------------------------------------------------------------- */

ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags)
{
    (void)flags;
    uint64_t stream = dice_at(fiber_world()->seed, fiber_client(), fiber_world()->steps);
    for (size_t i = 0; i < size; i++) {
        ((unsigned char *)out)[i] = (unsigned char)dice_next(&stream);
    }
    return (ssize_t)size;
}

pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    return 1;
}

int __wrap_gethostname(char *name, size_t size);
int __wrap_gethostname(char *name, size_t size)
{
    strncpy(name, "host", size);
    return 0;
}
