/* run.h - one run of a plan. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "sim.h"

struct sim *sim_new(void);
void sim_free(struct sim *s);
/* True when nothing was violated; else s->judge.verdict says what. trace: NULL, or where its story goes. */
bool sim_run(struct sim *s, const struct sim_plan *plan, uint64_t seed, FILE *trace);
/* An empty world: for sim_run, and for tests that use the ensemble without a core. */
void sim_reset(struct sim *s, const struct sim_plan *plan, uint64_t seed);
/* Its parts, for those who choose every event themselves: the start; the quiet and the close of everything; or the end of it as it is. */
void sim_begin(struct sim *s, const struct sim_plan *plan, uint64_t seed, FILE *trace);
void sim_finish(struct sim *s, bool in_time);
void sim_abandon(struct sim *s);
/* One event. False: nothing will happen any more, or something is wrong. */
bool sim_step(struct sim *s);
bool sim_step_slot(struct sim *s, int slot); /* this one */

/* explore.c: SERVERS, CLIENTS, ACQUIRES and FAULTS; the exit code. */
int sim_explore(struct sim *s, char **scope, const char *words);
/* digest.c */
uint64_t sim_digest(const struct sim *s);

#endif
