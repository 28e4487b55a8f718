/* descendants.h - everybody below a process, wherever they went: another group, another session, a
 * second fork. */
#ifndef CLI_DESCENDANTS_H
#define CLI_DESCENDANTS_H

#include <stddef.h>
#include <sys/types.h>

/* Sends a signal to every descendant of root that is not in process group skip (0: to all). Linux's
 * /proc tells who they are; one that forks meanwhile may be missed, so a killer repeats this until
 * nobody is left. Those of the group count in what it returns. */
struct signalled {
    size_t alive;  /* how many there were, without those that only wait to be waited for */
    pid_t refused; /* one that may not be signalled, as it has become another user's (sudo); 0:
                      nobody */
};
struct signalled descendants_signal(pid_t root, pid_t skip, int number);

#endif
