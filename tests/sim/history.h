/* history.h - a world by what happened: one hash per process, of its events in their order. Two orders that differ only in events of
 * different processes lead to the same world. Nothing is left out, so there are many more of these than of digests; explore.c
 * checks the digests by them. */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "sim.h"

struct sim_history {
    uint64_t processes[SIM_SERVERS + SIM_CLIENTS]; /* of a server: its writes, for their order shows */
    uint64_t conns[SIM_CONNS];                     /* what it read for whom, at which zxid */
};

/* Before the event. */
void sim_history_event(struct sim_history *h, const struct sim *s, int slot);
void sim_history_fault(struct sim_history *h, const struct sim *s, int client, int kind, bool at_leader);
uint64_t sim_history_hash(const struct sim_history *h, const struct sim *s);

#endif
