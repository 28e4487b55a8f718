/* explore.h - every order of events, for small worlds.
 *
 * Messages take no time here; what can happen at one instant happens in every order, and up to `faults` faults strike at every place:
 * a connection cut with what was sent arriving or not, a session closed by somebody, a node deleted by somebody. Time passes only
 * when nothing else can happen. Acknowledgements and proposals between servers are not reordered (their order shows nowhere), commits
 * reaching a follower are.
 *
 * A world is what its processes are, and a process is what happened to it: two orders that differ only in events of different
 * processes lead to the same world, so a world is known by one hash per process, and visited once. Worlds are not kept but made
 * again, by running the choices that lead to them. With one server the clients are alike: of all orders in which they get their
 * sessions one is tried. */
#ifndef SIM_EXPLORE_H
#define SIM_EXPLORE_H

#include "run.h"

struct sim_explored {
    uint64_t worlds, runs, steps;
    int depth;   /* choices, at the most */
    bool closed; /* nothing was left out */
};

/* False when something was violated: s->judge.verdict. limit: worlds. */
bool sim_explore(struct sim *s, int servers, int clients, int acquires, int faults, uint64_t limit, FILE *trace,
                 struct sim_explored *out);

#endif
