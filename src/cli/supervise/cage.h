/* cage.h - a control group of CMD's own, where this process may make one: below its own group, if
 * that was delegated to it (a unit with Delegate=yes, a user's session).
 *
 * What is in it cannot leave it but by its own right to write to another group, however it forks;
 * and it is killed as a whole, by the kernel, whoever it runs as: also what sudo started. */
#ifndef CLI_CAGE_H
#define CLI_CAGE_H

#include <limits.h>

struct cage {
    char folder[PATH_MAX]; /* "": there is none */
    int procs, kill;       /* descriptors */
};

/* There may be none, and that is nobody's fault. */
void cage_make(struct cage *cage);
/* The calling process goes in, between fork and exec. */
void cage_enter(const struct cage *cage);
/* KILL for everybody in it. */
void cage_kill(const struct cage *cage);
/* When nobody is left in it. */
void cage_remove(struct cage *cage);

#endif
