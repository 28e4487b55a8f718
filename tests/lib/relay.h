/* relay.h - a relay between an observer and the followers that serve it, which can be silent in one direction.
 *
 * It listens on the followers' own hosts (ensemble_options.own_hosts), all on one port, and hands bytes on to another port of the same
 * host. One thread of its own. All functions: any thread. */
#ifndef ZKL_TESTS_RELAY_H
#define ZKL_TESTS_RELAY_H

#include <stdbool.h>

struct relay;

/* For the hosts 127.0.1.1 to 127.0.1.hosts. NULL: no port. */
struct relay *relay_start(int hosts);
void relay_stop(struct relay *relay);
int relay_port(const struct relay *relay);   /* where it listens */
int relay_target(const struct relay *relay); /* where it hands on to: free when this was chosen */
/* What comes from whoever connected is kept until switched off again; the other direction goes on. */
void relay_hold(struct relay *relay, bool on);
/* The host that was connected to last, counted from 0; -1: none is connected. */
int relay_host(const struct relay *relay);

#endif
