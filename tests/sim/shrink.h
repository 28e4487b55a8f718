/* shrink.h - a failing plan made small. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "run.h"

/* Takes out faults and acquires, and calms the network, as long as the same invariant is violated. False: none is. */
bool sim_shrink(struct sim *s, struct sim_plan *plan, uint64_t seed);

#endif
