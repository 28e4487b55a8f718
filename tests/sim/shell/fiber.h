/* fiber.h - the threads of a simulated process: run one at a time, switched where they wait and, now and then, where they take a
 * mutex. So the library's session room and recipes run here as they are; thread.h and alarm.h are ours (threads.c). */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <pthread.h>

#include "sim.h"

/* The world that runs, and the process whose code does: -1 in between. */
struct sim *fiber_world(void);
int fiber_client(void);
void fiber_begin(struct sim *s);
/* For a look at the library's objects from outside of their process: nobody is switched away meanwhile. -1: that is over. */
void fiber_act_for(int client);

/* Begins at the slot's next due time. Its index. */
int fiber_start(int client, int slot, void (*run)(void *), void *arg);
/* The slot is due: goes on, if it is not finished. */
void fiber_due(int slot);
/* All of the process's: dropped where they stand. */
void fiber_drop(int client);

/* From inside a fiber. */
int fiber_current(void); /* -1: not in one */
void fiber_sleep(int64_t ns);
/* Until somebody wakes it by `what`, or the time (by the process's clock). */
void fiber_wait(const void *what, int64_t deadline);
void fiber_wake(const void *what);
bool fiber_finished(int index);
void fiber_join(int index); /* may come back early */
/* Lets others go first, sometimes. */
void fiber_preempt(void);

#endif
