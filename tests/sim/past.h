/* past.h - what was so, by the log: the tree keeps every node with the zxids of its birth and death. */
#ifndef SIM_PAST_H
#define SIM_PAST_H

#include "sim.h"

/* The next zxid, up to `to`, at which a child of dir was made or went; 0: none. */
int64_t sim_next_change(const struct sim *s, int dir, int64_t after, int64_t to);
/* That, or the last one committed. */
int64_t sim_end_of(const struct sim *s, int64_t to);
/* Did this contender ever stand before all others (of_others: of other sessions), at any time from one zxid to another? */
bool sim_was_first(const struct sim *s, int node, int64_t from, int64_t to, bool of_others);

#endif
