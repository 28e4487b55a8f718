/* run.h - one run of a plan. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include <stdlib.h>

#include "sim.h"

struct sim *sim_new(void);
void sim_free(struct sim *s);
/* True when nothing was violated; else s->judge.verdict says what. trace: NULL, or where its story goes. */
bool sim_run(struct sim *s, const struct sim_plan *plan, uint64_t seed, FILE *trace);
/* An empty world: for sim_run, and for tests that use the ensemble without a core. */
void sim_reset(struct sim *s, const struct sim_plan *plan, uint64_t seed);
/* One event. False: nothing will happen any more, or something is wrong. */
bool sim_step(struct sim *s);

#endif
