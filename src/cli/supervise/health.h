/* health.h - runs the user's health command periodically, and knows whether this host is healthy.
 *
 * It runs in a process of its own, which was forked before there was a session, so that a check
 * inherits no connection and a check that hangs delays nobody. A check that has not ended when the
 * next one is due is killed and has failed. */
#ifndef CLI_HEALTH_H
#define CLI_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

enum health_state {
    HEALTH_UNKNOWN,  /* no check has ended yet */
    HEALTH_GOOD,     /* the last check succeeded, or fewer than `fails` have failed since one did */
    HEALTH_BAD,      /* that many have failed in a row */
    HEALTH_UNWATCHED /* the process that checks has died: nothing is known any more */
};

extern struct health {
    const char *command; /* for the shell; NULL: there is none, and the state stays HEALTH_GOOD */
    int64_t every_ms;
    int fails;
    int socket; /* readable when the state may have changed; -1: no command */
    enum health_state state;
} health;

/* Starts the process; to be called while there is one thread. False after a message. */
bool health_open(void);
/* Takes what the process has reported. Returns the state. */
enum health_state health_update(void);
void health_close(void);

#endif
