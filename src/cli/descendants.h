/* descendants.h - everybody below a process, wherever they went: another group, another session, a second fork. */
#ifndef CLI_DESCENDANTS_H
#define CLI_DESCENDANTS_H

#include <sys/types.h>

/* Sends a signal to every descendant of root that is not in process group skip (0: to all). Linux's /proc tells who they
 * are; one that forks meanwhile may be missed, so a killer repeats this until nobody is left.
 * Returns how many got it, -1 without memory or /proc. */
int descendants_signal(pid_t root, pid_t skip, int number);

#endif
