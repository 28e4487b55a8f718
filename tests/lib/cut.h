/* cut.h - cuts single links between the servers of an ensemble, with the kernel's packet filter.
 *
 * All of it happens in a network namespace of the test's own: the machine's network is never touched, and what was cut goes with the
 * last process in there, however that one ends. Words on what goes wrong are printed to stderr. */
#ifndef ZKL_TESTS_CUT_H
#define ZKL_TESTS_CUT_H

#include <stdbool.h>

#include "ensemble.h"

/* Moves this process, while it has one thread, into a network of its own that has nothing but loopback, and tries the filter. False:
 * the machine does not permit it. Before ensemble_start. */
bool cut_prepare(void);
/* Cuts the link on which that follower hears of its leader: what is under way and what is tried later, both ways. Everything else
 * goes through: its clients, the election, the other followers. For an ensemble with own_hosts. */
bool cut_quorum_link(struct ensemble *e, int follower);
/* Mends every cut. */
bool cut_mend(void);

#endif
