/* explore.h - every order of events, for small worlds.
 *
 * Messages take no time here; what can happen at one instant happens in every order, and up to `faults` faults strike at every place:
 * a connection cut with what was sent arriving or not, a session closed by somebody, a node deleted by somebody. Time passes only
 * when nothing else can happen. Acknowledgements and proposals between servers are not reordered (their order shows nowhere), commits
 * reaching a follower are.
 *
 * In worlds that walk the one fault is silence: the client's connection is lost with all that was sent, and it connects again when the
 * leader's tracker takes its session to expire it, just before or just after. From then on the leader may come to the session at any time,
 * after a session timeout at the latest.
 *
 * A world is known by the digest of all that it can still do (digest.h), and what follows it is tried once. Worlds are not kept but made
 * again, by running the choices that lead to them. With one server the clients are alike: of all orders in which they get their
 * sessions one is tried.
 *
 * In worlds of semaphores, which are larger, of two orders of independent events one is tried (find_lonely in explore.c).
 *
 * by_history: a world is known by what happened instead (history.h). That takes ten to a hundred times as many; whatever it comes
 * to must be a world that is known by its digest, else a digest lacks something. */
#ifndef SIM_EXPLORE_H
#define SIM_EXPLORE_H

#include "run.h"

struct sim_scope {
    int servers, clients, acquires, faults;
    bool by_history;
    bool seals;      /* the clients announce their releases */
    bool lingers;    /* their locks linger */
    bool walks;      /* faults are silences, and the leader takes its time to expire a session */
    bool semaphores; /* a permit each of a semaphore, instead of a lock */
    bool whole;      /* of semaphores: all orders, also those that come to the same */
    int watchers;    /* as of a plan; they join a group instead, all with one id */
};

struct sim_explored {
    uint64_t worlds, runs, steps;
    uint64_t digests; /* by history: how many worlds that is by their digests */
    int depth;        /* choices, at the most */
    bool closed;      /* nothing was left out */
};

/* False when something was violated: s->judge.verdict. */
bool sim_explore(struct sim *s, const struct sim_scope *scope, FILE *trace, struct sim_explored *out);

#endif
